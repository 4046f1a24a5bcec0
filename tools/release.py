"""`python -m tools.release VERSION` writes a version, and today's date into the changelog.

`make release VERSION=…` then runs all tests and makes the wheels. Nothing is committed or uploaded.
"""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNRELEASED = "is not released yet"


def release(root: Path, version: str, day: date) -> None:
    """Write the version into a copy of the source code. Exits with a sentence if something is missing."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"The version is {version!r}; give three numbers: make release VERSION=0.1.0.")
    for name in ("README.md", "CHANGELOG.md"):
        if UNRELEASED in (root / name).read_text("utf-8"):
            sys.exit(f"{name} says that a version {UNRELEASED}; remove the sentence.")
    for name, pattern, new in (
        (
            "CHANGELOG.md",
            rf"(?m)^## {re.escape(version)} \(unreleased\)$",
            f"## {version} ({day})",
        ),
        ("src/dragoman/__init__.py", r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"'),
        ("CITATION.cff", r"(?m)^version: .*$", f"version: {version}"),
    ):
        text, count = re.subn(pattern, new, (root / name).read_text("utf-8"))
        if count != 1:
            sys.exit(f"{name} has no line {pattern!r}; write what is new under ## {version} (unreleased).")
        (root / name).write_text(text, "utf-8")


if __name__ == "__main__":
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True).stdout:  # noqa: S607
        sys.exit("There are changes that are not committed; a release is made of a commit.")
    release(ROOT, sys.argv[1], date.today())

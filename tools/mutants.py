"""Deliberate bugs, one at a time: do the tests catch them? `python tools/mutants.py --list`.

Each mutant of tools/mutants.toml replaces a text that occurs once in a file, in a copy of the tree, and runs
the tests that should fail. Prints caught or survived for each, and a total. Exits with 1 if a mutant survived
or is stale: its text is not there exactly once, or its tests fail without it. Not part of `make test`: a run
takes some 20 minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "runs")
SECONDS = 900
"""A test that takes longer hangs: the mutant is caught."""


@dataclass(frozen=True)
class Mutant:
    """A bug: a text of a file of src, what takes its place, and the tests that should fail."""

    bug: str
    file: str
    text: str
    replacement: str
    tests: str

    @property
    def test_files(self) -> list[str]:
        """Paths from the root of the tree."""
        return [f"tests/test_{name}.py" for name in self.tests.split()]


def read_mutants() -> list[Mutant]:
    """The project's own list."""
    table = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text("utf-8"))
    return [Mutant(**values) for values in table["mutant"]]


def copy_tree(folder: Path) -> Path:
    """A copy of the tree, for one run."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*SKIPPED))
    return tree


def tests_pass(tree: Path, files: list[str]) -> bool:
    """Run tests of the copy in a process of their own, up to the first failure."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "XDG_CACHE_HOME": str(tree.parent / "cache")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def verdict(mutant: Mutant, tree: Path, pass_without: "dict[str, bool]") -> str:
    """Whether the tests catch a mutant. The tree is as it was afterwards."""
    path = tree / "src" / mutant.file
    before = path.read_text("utf-8") if path.exists() else ""
    if (count := before.count(mutant.text)) != 1:
        return f"STALE: its text occurs {count} times"
    for file in mutant.test_files:
        if file not in pass_without:
            pass_without[file] = (tree / file).exists() and tests_pass(tree, [file])
        if not pass_without[file]:
            return f"STALE: {file} fails without it"
    path.write_text(before.replace(mutant.text, mutant.replacement), "utf-8")
    try:
        return "SURVIVED" if tests_pass(tree, mutant.test_files) else "caught"
    finally:
        path.write_text(before, "utf-8")


def main() -> int:
    """Try all mutants, or those that are asked for; 1 if one is not caught."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, and check that their texts are there"
    )
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="the numbers of the mutants to try")
    asked = parser.parse_args()
    chosen = {
        number: mutant
        for number, mutant in enumerate(read_mutants(), 1)
        if not asked.only or number in asked.only
    }
    if asked.list:
        stale = 0
        for number, mutant in chosen.items():
            path = ROOT / "src" / mutant.file
            found = path.exists() and path.read_text("utf-8").count(mutant.text) == 1
            stale += not found
            print(f"{number:>3} {mutant.file}: {mutant.bug} ({mutant.tests}){'' if found else '   STALE'}")
        return int(stale > 0)
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree, pass_without = copy_tree(Path(folder)), dict[str, bool]()
        for number, mutant in chosen.items():
            started = time.monotonic()
            verdicts.append(verdict(mutant, tree, pass_without))
            seconds = time.monotonic() - started
            print(f"{number:>3} {mutant.file}: {mutant.bug}: {verdicts[-1]} ({seconds:.0f} s)", flush=True)
    caught = verdicts.count("caught")
    print(f"{caught} of {len(verdicts)} caught ({100 * caught / max(1, len(verdicts)):.0f} %)")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())

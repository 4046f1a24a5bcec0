"""The other toolkits have the options that "Move from ..." names: `python -m tools.docs.check_moves FOLDER`.

`moves.toml` has the options of each toolkit by the file that defines them, and the commit that was read.
FOLDER has clones of the repositories, named fairseq, opennmt-py and so on; they may be bare. `--commit HEAD`
reads what is newest.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOOLKITS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("moves.toml").read_text(encoding="utf-8"))


def defines(text: str, option: str) -> bool:
    """Whether a file's text has an option, or a value of one, in quotes, as a field, or as a program."""
    name = re.escape(option.lstrip("-")).replace(r"\-", "[-_]")
    return bool(re.search(rf"""(["']-{{0,2}}|OUTPUT_NAME ){name}["',= )]|\b{name}: """, text))


def missing(toolkit: str, clone: Path, commit: str) -> Iterator[str]:
    """The options of a toolkit that a clone does not define where `moves.toml` says; "FILE: OPTION"."""
    for file, options in TOOLKITS[toolkit]["files"].items():
        command = ["git", "-C", str(clone), "show", f"{commit}:{file}"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if shown.returncode:
            yield f"{file}: {shown.stderr.strip()}"
        else:
            yield from (
                f"{file}: {option}"
                for option in options
                if option != file and not defines(shown.stdout, option)
            )


def main() -> None:
    """Print what is missing, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", help="commit to read; the default is the one in moves.toml")
    given = parser.parse_args()
    found = {
        toolkit: list(missing(toolkit, given.folder / toolkit, given.commit or about["commit"]))
        for toolkit, about in TOOLKITS.items()
    }
    for toolkit, lines in found.items():
        print(f"{toolkit}: {len(lines)} missing")
        print("".join(f"    {line}\n" for line in lines), end="")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()

"""The tables of measurements in README files, from files of results: `python -m tools.docs.readme_tables`.

A comment over a table names what makes it, a function of `MAKERS`, and its files, relative to the README:

    <!-- table: students ../benchmarks/results/students-multi30k-2-2026-11-26.json -->

The table's lines under the comment are replaced. To show newer results, change the name of the file. A table
whose numbers have no file of results has a comment that says so, and stays as it is typed.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import tables

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "benchmarks" / "README.md", ROOT / "experiments" / "README.md")
TYPED = "<!-- This table is typed: its numbers have no file of results. -->"
MAKERS: dict[str, Callable[..., str]] = {
    "adaptation": tables.adaptation,
    "beside_ctranslate2": tables.beside_ctranslate2,
    "decode": tables.decode,
    "serve": tables.serve,
    "sizes": tables.sizes,
    "stop_rules": tables.stop_rules,
    "students": tables.students,
    "train": tables.train,
}
"""Functions from the contents of files of results to a table."""


def with_tables(text: str, folder: Path) -> str:
    """A README's text with its tables made anew; `folder` is the README's.

    Raises `ValueError` if a comment names no maker, or a file that is not there.
    """

    def made(comment: re.Match[str]) -> str:
        name, *files = comment["words"].split()
        if name not in MAKERS:
            raise ValueError(f"There is no table {name!r}; there are: {', '.join(MAKERS)}.")
        for file in files:
            if not (folder / file).exists():
                raise ValueError(f"The comment of the table {name!r} names {file}, which is not there.")
        contents = (json.loads((folder / file).read_text(encoding="utf-8")) for file in files)
        return comment["line"] + MAKERS[name](*contents)

    return re.sub(r"(?P<line><!-- table: (?P<words>[^>]*) -->\n)(\|.*\n)*", made, text)


def main() -> None:
    """Write the tables of all README files."""
    for path in READMES:
        text = path.read_text(encoding="utf-8")
        path.write_text(with_tables(text, path.parent), encoding="utf-8")


if __name__ == "__main__":
    main()

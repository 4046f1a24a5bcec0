"""The files of a table: table.json for programs, table.md for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.system.files import atomic_write


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def write_table(folder: Path, content: Mapping[str, Any], page: str) -> str:
    """Write table.json and table.md to the folder; returns the page's text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("table.json", json.dumps(content, indent=2) + "\n"), ("table.md", page)):
        with atomic_write(folder / name) as new:
            new.write_text(text, "utf-8")
    return page

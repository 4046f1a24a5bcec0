"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def escaped(text: str) -> str:
    """Plain text in which Markdown sees no marks."""
    return re.sub(r"([\\`*_<>\[\]$|])", r"\\\1", text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def page(title: str, *parts: str) -> str:
    """A page with its title."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def toctree(names: Iterable[str], hidden: bool = True) -> str:
    """The pages under a page."""
    options = ":hidden:\n" * hidden + ":maxdepth: 1\n"
    listed = "\n".join(names)
    return f":::{{toctree}}\n{options}\n{listed}\n:::\n"


def write(folder: Path, pages: dict[str, str]) -> None:
    """Write pages by their names, and remove others. A page that is as before keeps its time."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

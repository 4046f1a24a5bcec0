"""Jupyter notebooks: the Markdown of their cells, whose strings are read with the places of characters."""

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.documents.document import Document, Segment
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.markdown import markdown
from dragoman.system.errors import DragomanError

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]+')
ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")
"""A character that is written with a backslash; two of \\u may be one."""
String = tuple[int, int]
"""Where a string begins and ends, with its quotation marks."""


@dataclass(frozen=True)
class CellSegment(Segment):
    """A sentence of a cell, `start` to `end` in the file."""

    cell_segment: Segment | None = None
    """The sentence in the text of its cell."""

    def restore(self, translation: str) -> str:
        """The translation as a part of strings of JSON."""
        if translation == self.sentence or self.cell_segment is None:
            return self.source
        written = self.cell_segment.restore(translation)
        return (
            self.source
            if written == self.cell_segment.source
            else json.dumps(written, ensure_ascii=False)[1:-1]
        )


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A notebook. Raises `DragomanError` if it is none."""
    text, encoding = decode_text(content, reading.name)
    try:
        notebook = json.loads(text.removeprefix("\ufeff"))
        if not isinstance(notebook, dict) or not ({"cells", "worksheets"} & set(notebook)):
            raise ValueError("it has no cells")
    except (ValueError, RecursionError) as error:
        raise DragomanError(f"{reading.name} is no Jupyter notebook: {error}.") from error
    segments: list[Segment] = []
    for cell in markdown_cells(text):
        source, places, ends = read_strings(text, cell)
        for segment in markdown(source, reading.source, reading.split).segments:
            start, end = places[segment.start], ends[segment.end - 1]
            segments.append(
                CellSegment(
                    segment.sentence, start, end, text[start:end], segment.syntax, segment.marks, segment
                )
            )
    return Document(text, tuple(segments), encoding=encoding)


@dataclass
class Container:
    """An object or a list of JSON that is being read."""

    is_list: bool
    name: str
    """The key under which it stands."""
    key: str = ""
    """The last one in it."""
    cell_type: str = ""
    source: list[String] = field(default_factory=list)


def markdown_cells(text: str) -> Iterator[list[String]]:
    """The strings of the source of each Markdown cell of a notebook, which is valid JSON."""
    opened = [Container(True, "")]
    is_key = False
    for token in TOKEN.finditer(text):
        container = opened[-1]
        mark = token[0][0]
        if mark in "{[":
            opened.append(Container(mark == "[", container.name if container.is_list else container.key))
        elif mark in "}]":
            opened.pop()
            is_cell = opened[-1].is_list and opened[-1].name == "cells"
            if is_cell and container.cell_type in {"markdown", "heading"}:
                yield container.source
        elif mark == '"' and is_key and not container.is_list:
            container.key = json.loads(token[0], strict=False)
        elif mark == '"' and container.is_list and container.name == "source":
            opened[-2].source.append(token.span())
        elif mark == '"' and container.key == "source":
            container.source.append(token.span())
        elif mark == '"' and container.key == "cell_type":
            container.cell_type = json.loads(token[0], strict=False)
        is_key = mark in "{,"


def read_strings(text: str, strings: Sequence[String]) -> tuple[str, Sequence[int], Sequence[int]]:
    """The text of strings one after the other, and where each character begins and ends."""
    parts: list[str] = []
    places, ends = array("q"), array("q")
    for first, last in strings:
        done, stop = first + 1, last - 1
        for match in ESCAPE.finditer(text, done, stop):
            parts += [text[done : match.start()], json.loads(f'"{match[0]}"')]
            places.extend((*range(done, match.start()), match.start()))
            ends.extend((*range(done + 1, match.start() + 1), match.end()))
            done = match.end()
        parts.append(text[done:stop])
        places.extend(range(done, stop))
        ends.extend(range(done + 1, stop + 1))
    return "".join(parts), places, ends

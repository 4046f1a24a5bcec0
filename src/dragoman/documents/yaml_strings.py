"""YAML, as Rails keeps the texts of a program: the texts that are values. Keys, comments and references stay.

PyYAML finds the places of the values. Each is written in the style that it has, if the translation allows it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.icu import blocks_of_message, escape_branch
from dragoman.documents.json_strings import ESCAPE, escape_json
from dragoman.documents.strings import (
    DeclaringFile,
    Rewriting,
    is_code,
    part_pattern,
    read_value,
    segments_of_blocks,
)
from dragoman.system.errors import DragomanError
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE

MAX_DEPTH = 100
PARTS = part_pattern(r"%\{[^{}]*\}")
"""Also the places of Rails: %{name}."""
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
PLAIN = re.compile(
    r"(?![\s\-?:&*!|>'\"%@`=~.+0-9])"
    r"(?:[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff:#,\[\]{}\ud800-\udfff]|:(?=[^\s,\[\]{}])|(?<=\S)\#)++(?<![\s:])"
)
"""A text that needs no quotation marks anywhere."""
UNSAFE = re.compile(
    "[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\x85\u2028\u2029]"
)
SYNTAX = Syntax(escape_json, keeps_tags=True)
MESSAGE = Syntax(lambda text: escape_json(escape_branch(text)), keeps_tags=True)
SYMBOL = re.compile(r"(?<=[\[,])( *):(?=\w)")
"""A symbol of Ruby in a list: [:day, :month], which PyYAML cannot read."""
COLON = "\ue000"
BLOCK = re.compile(r"[|>](?:[+-]?[1-9]?[+-]?)[ \t]*(?:#[^\n]*)?\r?\n")


@dataclass(frozen=True)
class Scalar:
    """A value: characters `start` to `end` of the file."""

    text: str
    start: int
    end: int
    style: str
    """' or " or | or > or none."""


@dataclass(frozen=True)
class Writing:
    """How a value is written whose text stands in double quotation marks in the document."""

    style: str
    source: str
    """What the file has there."""

    def write(self, quoted: str) -> str:
        """The value in its former style if it can be, or else in quotation marks."""
        style = self.style
        text = json.loads(quoted, strict=False)
        if style in {"|", ">"} and (block := self.write_block(text)):
            return block
        if not style and PLAIN.fullmatch(text) and is_string(text):
            return text
        if style == "'" and not UNSAFE.search(text) and "\n" not in text:
            return "'" + text.replace("'", "''") + "'"
        ending = "\n" if self.source.endswith("\n") else ""
        return (
            re.sub(
                r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", quoted
            )
            + ending
        )

    def write_block(self, text: str) -> str | None:
        """The value as a block with the indentation of its first line; None if it cannot be one."""
        header = BLOCK.match(self.source)
        lines = text.rstrip("\n").split("\n")
        if header is None or UNSAFE.search(text) or lines[0][:1].isspace() or not lines[0] or "\t" in text:
            return None
        indentation = re.match(r"(?:[ \t]*\r?\n)*( +)", self.source[header.end() :])
        if indentation is None:
            return None
        newline = "\r\n" if header[0].endswith("\r\n") else "\n"
        body = newline.join(indentation[1] + line if line else "" for line in lines)
        tail = self.source[len(self.source.rstrip("\r\n ")) :]
        return header[0].replace(">", "|", 1) + body + tail


def is_string(text: str) -> bool:
    """Whether a plain scalar is a text: no number, date, truth value or null."""
    import yaml

    return yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str"


def read(content: bytes, reading: Reading) -> DeclaringFile:
    """The texts of a YAML file. Raises `DragomanError` if it is not YAML, or is nested very deeply."""
    text, encoding = decode_text(content, reading.name)
    rewriting = Rewriting(text)
    values = list(scalars(text, reading.name))
    roots = [scalar for is_root, scalar in values if is_root]
    language = roots[0].text if len(roots) == 1 and is_source(roots[0].text, reading) else ""
    places: list[tuple[int, int]] = []
    for is_root, scalar in values:
        if is_root and language:
            code = f'"{reading.target}"' if scalar.style else reading.target
            rewriting.replace(scalar.start, scalar.end, code)
        elif not is_root and not is_code(scalar.text):
            copy = escape_json(scalar.text)
            write = Writing(scalar.style, text[scalar.start : scalar.end]).write
            place = rewriting.slot(scalar.start, scalar.end, f'"{copy}"', write) + 1
            places.append((place, place + len(copy)))
    result = rewriting.result()
    blocks: list[tuple[Block, Syntax]] = []
    for start, end in places:
        value = read_value(result, start, end, ESCAPE, lambda source: json.loads(f'"{source}"'))
        branches = blocks_of_message(value)
        syntax = SYNTAX if branches is None else MESSAGE
        blocks += ((block, syntax) for block in branches or value.blocks(PARTS))
    segments = segments_of_blocks(result, blocks, reading)
    return DeclaringFile(content, Document(result, segments, tuple(rewriting.slots), encoding, language))


def is_source(key: str, reading: Reading) -> bool:
    """Whether a key is a code of the source language, as the only key of a file of Rails is."""
    if UNKNOWN_LANGUAGE in {reading.source, reading.target}:
        return False
    return re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)*", key) is not None and primary(key) == primary(
        reading.source
    )


def scalars(text: str, name: str) -> Iterator[tuple[bool, Scalar]]:
    """The values that are texts, and the first keys, with whether it is a key. Raises as `read`."""
    import yaml

    opened: list[list[int]] = []  # of each mapping how many children it had; of each list none
    try:
        for event in yaml.parse(SYMBOL.sub(rf"\1{COLON}", text), Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionEndEvent):
                opened.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            is_key = bool(opened and opened[-1]) and opened[-1][0] % 2 == 0
            if opened and opened[-1]:
                opened[-1][0] += 1
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append([0] if isinstance(event, yaml.MappingStartEvent) else [])
                if len(opened) > MAX_DEPTH:
                    raise DragomanError(f"{name} is nested more than {MAX_DEPTH} levels deep; it is refused.")
            elif isinstance(event, yaml.ScalarEvent) and event.tag is None:
                scalar = to_scalar(text, event)
                if is_key:
                    if len(opened) == 1:
                        yield True, scalar
                elif scalar.style or is_string(scalar.text):
                    yield False, scalar
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "a character is not allowed"
        raise DragomanError(f"{name}{place}: this is not YAML ({problem}); mend it there.") from error


def to_scalar(text: str, event: Any) -> Scalar:
    """The value of an event of PyYAML, without its anchor."""
    start = PROPERTIES.match(text, event.start_mark.index, event.end_mark.index)
    return Scalar(
        event.value.replace(COLON, ":"),
        start.end() if start else event.start_mark.index,
        event.end_mark.index,
        event.style or "",
    )

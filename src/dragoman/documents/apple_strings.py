"""Strings files of Apple's systems: "key" = "value"; the values are translated."""

import re
from collections.abc import Iterator

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.strings import Value, is_code, read_value, segments_of_blocks
from dragoman.system.errors import DragomanError

SPACE = r"(?:\s|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+"
STRING = r'"(?:[^"\\]|\\[\s\S])*+"'
WORD = r"[\w./$:-]++"
PAIR = re.compile(rf"{SPACE}(?:(?:{STRING}|{WORD}){SPACE}(?:={SPACE}(?P<value>{STRING}|{WORD}){SPACE})?;|\Z)")
UNIT = r"[Uu][0-9A-Fa-f]{4}"
PAIR_OF_UNITS = r"[Uu][Dd][89ABab][0-9A-Fa-f]{2}\\[Uu][Dd][C-Fc-f][0-9A-Fa-f]{2}"
ESCAPE = re.compile(rf"\\(?:{PAIR_OF_UNITS}|{UNIT}|[0-7]{{1,3}}|[\s\S])")
NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
NAMES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def escape_strings(text: str) -> str:
    """A text as it stands between quotation marks."""
    return re.sub(r'[\x00-\x1f"\\\x7f]', lambda match: NAMES.get(match[0]) or f"\\U{ord(match[0]):04x}", text)


SYNTAX = Syntax(escape_strings, keeps_tags=True)


def read(content: bytes, reading: Reading) -> Document:
    """The values of a file in UTF-8 or UTF-16. Raises `DragomanError` for what is no pair of strings."""
    text, encoding = decode_text(content, reading.name)
    blocks: Iterator[tuple[Block, Syntax]] = (
        (block, SYNTAX)
        for value in values(text, reading.name)
        if not is_code(value.text)
        for block in value.blocks()
    )
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)


def values(text: str, name: str) -> Iterator[Value]:
    """The values that stand in quotation marks. Raises `DragomanError` as `read`."""
    position = 1 if text.startswith("\ufeff") else 0
    while pair := PAIR.match(text, position):
        position = pair.end()
        if (pair["value"] or "").startswith('"'):
            yield read_value(text, pair.start("value") + 1, pair.end("value") - 1, ESCAPE, unescape)
        if position == len(text):
            return
    line = text.count("\n", 0, position) + 1
    raise DragomanError(
        f'{name}, line {line}: "key" = "value"; is expected; plutil -lint says what is wrong there.'
    )


def unescape(source: str) -> str:
    """The character of an escape."""
    code = source[1:]
    if code[0] in "Uu" and len(code) > 1:
        return bytes.fromhex(re.sub(r"[\\Uu]", "", code)).decode("utf-16-be", "surrogatepass")
    return chr(int(code, 8)) if code[0] in "01234567" else NAMED.get(code, code)

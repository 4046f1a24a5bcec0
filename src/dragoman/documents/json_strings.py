"""JSON: the strings that are values, as i18next, Chrome (messages.json) and Flutter (ARB) keep texts.

Keys stay, and so do the metadata of ARB and of Chrome.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.icu import COMPLEX, SIMPLE, blocks_of_message, escape_branch, escape_message
from dragoman.documents.strings import Value, is_code, part_pattern, read_value, segments_of_blocks
from dragoman.system.errors import DragomanError

TOKEN = re.compile(
    r'[ \t\r\n]*+(?:(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+")|(?P<sign>[][{}:,])'
    r"|(?P<other>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)|\Z)"
)
ESCAPE = re.compile(r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\.")
PARTS = part_pattern(
    r"\$t\([^()]*\)|\$[A-Za-z0-9_@]+\$|\$\d|@(?:\.\w+)?:(?:\w[\w.-]*\w|\([\w.-]+\))|(?<![\w:@]):[a-z]\w+(?![\w:])"
)
"""Also the places of i18next, $t(key), of Chrome, $NAME$ and $1, of Vue, @:key, and of Laravel, :name."""
BAR = re.compile(r" \| ")
"""What stands between the plural forms of Vue."""
CHROME = frozenset(("message", "description", "placeholders"))


class String(NamedTuple):
    """A string that is a value: characters `start` to `end`, with its quotation marks."""

    keys: tuple[str, ...]
    """The first two on the way to it."""
    depth: int
    """So many objects and lists it is in."""
    start: int
    end: int


def escape_json(text: str) -> str:
    """A text as it stands between quotation marks."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def escape_ascii(text: str) -> str:
    """A text in ASCII as it stands between quotation marks."""
    return json.dumps(text)[1:-1]


def read(content: bytes, reading: Reading) -> Document:
    """The strings of a JSON file. Raises `DragomanError` if it is not well-formed."""
    text, encoding = decode_text(content, reading.name)
    strings = list(read_strings(text, reading.name))
    keeps_ascii = text.removeprefix("\ufeff").isascii() and "\\u" in text
    escape = escape_ascii if keeps_ascii else escape_json
    plain, message, branch = (
        Syntax(escape, keeps_tags=True),
        Syntax(lambda text: escape(escape_message(text)), keeps_tags=True),
        Syntax(lambda text: escape(escape_branch(text)), keeps_tags=True),
    )
    blocks: list[tuple[Block, Syntax]] = []
    is_chrome = is_of_chrome(strings)
    for string in strings:
        if not is_metadata(string, is_chrome):
            value = read_value(
                text, string.start + 1, string.end - 1, ESCAPE, lambda source: json.loads(f'"{source}"')
            )
            if is_code(value.text):
                continue
            if branches := blocks_of_message(value):
                blocks += ((block, branch) for block in branches)
            elif not COMPLEX.search(value.text):
                has_places = SIMPLE.search(value.text) is not None and "{{" not in value.text
                syntax = message if has_places else plain
                blocks += ((block, syntax) for part in forms(value) for block in part.blocks(PARTS))
    segments = segments_of_blocks(text, blocks, reading)
    locale = next((s for s in strings if s.keys == ("@@locale",)), None)
    language = text[locale.start + 1 : locale.end - 1] if locale else ""
    return Document(text, segments, encoding=encoding, language=language)


def forms(value: Value) -> Iterator[Value]:
    """The parts of a value between bars, if it has no tags, which may stand around a bar."""
    start = 0
    for bar in BAR.finditer(value.text) if "<" not in value.text else ():
        yield value.cut(start, bar.start())
        start = bar.end()
    yield value.cut(start, len(value.text))


def is_of_chrome(strings: Sequence[String]) -> bool:
    """Whether each text is the `message` of an object with no other strings than a description."""
    inside = [string.keys[1] for string in strings if len(string.keys) == 2]
    is_flat = all(len(string.keys) == 2 for string in strings)
    return is_flat and "message" in inside and set(inside) <= CHROME


def is_metadata(string: String, is_chrome: bool) -> bool:
    """Whether a string is no text: what is at a key of ARB that begins with @, or Chrome's description."""
    if string.keys and string.keys[0].startswith("@"):
        return True
    return is_chrome and (string.depth != 2 or string.keys[1] != "message")


def read_strings(text: str, name: str) -> Iterator[String]:
    """The strings that are values, in order. Raises `DragomanError` as `read`."""
    position = 1 if text.startswith("\ufeff") else 0
    opened: list[str] = []
    keys: list[str] = []  # of each object or list that is opened
    expected = "value"
    while token := TOKEN.match(text, position):
        sign, string, is_value = token["sign"], token["string"], "value" in expected
        if sign in {"{", "["} and is_value:
            opened.append(sign)
            keys.append("")
            expected = "key or end" if sign == "{" else "value or end"
        elif sign in {"}", "]"} and "end" in expected and opened and opened[-1] + sign in {"{}", "[]"}:
            opened.pop()
            keys.pop()
            expected = "end"
        elif sign == "," and expected == "end" and opened:
            expected = "key" if opened[-1] == "{" else "value"
        elif sign == ":" and expected == ":":
            expected = "value"
        elif string and is_value:
            yield String(tuple(keys[:2]), len(keys), token.start("string"), token.end())
            expected = "end"
        elif string and "key" in expected:
            keys[-1] = string[1:-1]
            expected = ":"
        elif token["other"] and is_value:
            expected = "end"
        elif token.lastgroup is None and expected == "end" and not opened:
            return
        else:
            break
        position = token.end()
    line = text.count("\n", 0, position) + 1
    raise DragomanError(f"{name}, line {line}: this is not JSON; the file may be damaged or cut off.")

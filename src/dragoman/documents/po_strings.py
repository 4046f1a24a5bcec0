"""Strings of catalogues of gettext: their escapes, what they keep, and how they are wrapped."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.documents.document import Syntax
from dragoman.documents.strings import part_pattern

LINE = re.compile(
    r"[ \t]*+(?:(?P<comment>#.*+)|(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)?[ \t]*+"
    r'"(?P<string>(?:[^"\\\n]|\\[^\n])*+)"[ \t]*+)?\r?(?:\n|\Z)'
)
ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)")
NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
NAMES = {character: "\\" + name for name, character in NAMED.items()} | {'"': '\\"', "\\": "\\\\", "\0": " "}
TO_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f]')
ACCELERATOR = re.compile(r"(?<![^\W_])([^\W_]*?)([&_~])(?=[^\W_](?![^\W_]*;))")
_REST = r"[-+0#']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|j|z|t|L)?[A-Za-z@]"
CONVERSION = re.compile(rf"%%|%(?={_REST})")
NUMBERED = re.compile(r"%%|%(?P<number>\d{1,3})\$")
PERCENT_FORMATS = re.compile(
    r"(?<![\w-])(?:c|objc|python|php|perl|lua|java-printf|gcc-internal|awk|tcl)-format"
)
NUMBERING = re.compile(r"(?<![\w-])(?:c|objc|php|perl|java-printf|gcc-internal|awk|tcl)-format")
FORMATTED_ESCAPE = re.compile(ESCAPE.pattern + "|%%")
_KEY = r"(?<![&\w])[&_~](?=[^\W_](?!\w*;))"
FORMATTED_PARTS = part_pattern(rf"{_KEY}|%(?:\(\w+\)|\d+\$)?{_REST}")
PARTS = part_pattern(rf"{_KEY}|%L?\d{{1,2}}(?![\d$%])|%n\b")  # Qt's and KDE's places
WIDTH = 79
_WIDE = "\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60"
UNIT = re.compile(
    rf"\\n|(?:[^\\ {_WIDE}]|\\[^n])+(?:\\n| *)|[{_WIDE}](?:[、。，．！？）」』：；]*)(?:\\n| *)| +"
)
"""What no line is broken in: words with the spaces after them, wide characters with punctuation marks."""


def escape(text: str) -> str:
    """A text as it stands between quotation marks. NUL becomes a space."""
    return TO_ESCAPE.sub(lambda match: NAMES.get(match[0]) or f"\\{ord(match[0]):03o}", text)


def unescape(source: str) -> str:
    """The character of an escape, or of %%."""
    code = source[1:]
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return NAMED.get(code, code)


PLAIN = Syntax(escape, keeps_tags=True)
FORMATTED = Syntax(lambda text: escape(text.replace("%", "%%")), keeps_tags=True)
"""Of an entry in which % begins a conversion: a per cent sign is %%."""


def move_accelerator(text: str) -> str:
    """A text whose only mark of a key to press (&, _, ~) stands before its word: &Exit for E&xit.

    There is none in AT&T and in file_name.
    """
    counts = Counter(text)
    marks = [match for match in ACCELERATOR.finditer(text) if counts[match[2]] == 1]
    if len(marks) != 1 or not marks[0][1].istitle() or not text[marks[0].end()].islower():
        return text
    start, end = marks[0].span()
    return text[:start] + marks[0][2] + marks[0][1] + text[end:]


def number_conversions(text: str) -> str:
    """A text with numbers for its conversions (%1$s) if there are several, so that their order may change."""
    count = sum(match[0] == "%" for match in CONVERSION.finditer(text))
    if count < 2 or numbers_of(text) or "*" in text:
        return text
    numbers = itertools.count(1)
    return CONVERSION.sub(lambda match: match[0] if match[0] == "%%" else f"%{next(numbers)}$", text)


def numbers_of(text: str) -> list[int]:
    """The numbers of the conversions of a text."""
    return [int(match["number"]) for match in NUMBERED.finditer(text) if match["number"]]


@dataclass(frozen=True)
class Lines:
    """How the strings of an entry are written."""

    new: Mapping[str, bool]
    """The keywords of those that are translated, and whether their conversions have got numbers."""
    allows_numbers: bool
    newline: str
    source: str
    """What the file has there."""

    def write(self, text: str) -> str:
        """The entry, wrapped. Conversions in their former order lose their numbers.

        An entry whose format has no numbers stays untranslated if their order is another one.
        """
        result: list[str] = []
        position = 0
        while line := LINE.match(text, position):
            position = line.end()
            key, raw = line["key"], line["string"]
            if key not in self.new:
                result.append(line[0])
            else:
                order = numbers_of(raw)
                if self.new[key] and order == sorted(order):
                    raw = NUMBERED.sub(lambda match: "%" if match["number"] else match[0], raw)
                elif self.new[key] and not self.allows_numbers:
                    return self.source
                result += (written + self.newline for written in wrap(key, raw))
            if position == len(text):
                break
        written = "".join(result)
        return written if self.source.endswith("\n") else written.removesuffix(self.newline)


def wrap(key: str, raw: str) -> list[str]:
    """The lines of a string: one if it has room in it, or a line for each of its lines, broken at spaces."""
    lines = [""]
    room = WIDTH - 2
    width = 0
    for part in UNIT.findall(raw):
        columns = sum(map(columns_of, part))
        if width and width + sum(map(columns_of, part.rstrip(" "))) + part.endswith(" ") > room:
            lines.append("")
            width = 0
        lines[-1] += part
        width += columns
        if part.endswith("\\n"):
            lines.append("")
            width = 0
    lines = [line for line in lines if line] or [""]
    if len(lines) == 1 and len(key) + 3 + sum(map(columns_of, lines[0])) <= WIDTH:
        return [f'{key} "{lines[0]}"']
    return [f'{key} ""', *(f'"{line}"' for line in lines)]


def columns_of(character: str) -> int:
    """The columns of a character in a terminal."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

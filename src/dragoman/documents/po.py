"""Catalogues of gettext (PO, POT): what is not translated yet gets a translation beside its source.

An entry is read line by line; its `msgstr` is a slot with a copy of `msgid`, or of the text of which `msgid`
is the key. Fuzzy entries are translated anew, and lose their flag and the former `msgid`. What changes is
wrapped as gettext does it.
"""

import gettext
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.file import EncodingError, Reading, decode_text
from dragoman.documents.plural_forms import plural_forms
from dragoman.documents.po_strings import (
    ESCAPE,
    FORMATTED,
    FORMATTED_ESCAPE,
    FORMATTED_PARTS,
    LINE,
    NUMBERING,
    PARTS,
    PERCENT_FORMATS,
    PLAIN,
    Lines,
    escape,
    move_accelerator,
    number_conversions,
    unescape,
)
from dragoman.documents.strings import DeclaringFile, Rewriting, read_value, segments_of_blocks
from dragoman.system.errors import DragomanError
from dragoman.text.letters import has_letter
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.translation.tags import VARIABLE

_STRING = r'"((?:[^"\\\n]|\\[^\n])*+)"'
DEFAULT = re.compile(rf"\s*#\.[ \t]*Default:[ \t]*{_STRING}[ \t]*\r?\n?")
CONTINUED = re.compile(rf"\s*#\.[ \t]*{_STRING}[ \t]*\r?\n?")
MAX_PLURAL = 1_000  # characters of the formula of plural forms
PLURALS = re.compile(r"nplurals[ \t]*=[ \t]*(\d{1,3})[ \t]*;[ \t]*plural[ \t]*=([^;\\]+)")


@dataclass
class String:
    """A keyword with its string: characters `start` to `end` of the file, whole lines."""

    start: int
    end: int
    lines: list[str]
    """As the file has them between quotation marks."""

    @cached_property
    def raw(self) -> str:
        """All of it between quotation marks."""
        return "".join(self.lines)

    @property
    def text(self) -> str:
        """What the string says."""
        return ESCAPE.sub(lambda match: unescape(match[0]), self.raw)


@dataclass
class Entry:
    """A message: where its comments stand, and its strings by their keywords."""

    comments: list[tuple[int, int]] = field(default_factory=list)
    strings: dict[str, String] = field(default_factory=dict)


@dataclass(frozen=True)
class Plural:
    """The plural forms of a catalogue."""

    count: int
    singular: int
    """The form of one."""
    is_for_one: bool
    """This form is that of hardly any other number."""


def read(content: bytes, reading: Reading) -> DeclaringFile:
    """A catalogue of messages.

    Raises `DragomanError` for another encoding than UTF-8, and for a line that is none of a catalogue.
    """
    text, encoding = decode_text(content, reading.name)
    entries = read_entries(text, reading.name)
    header = next(
        (entry.strings["msgstr"] for entry in entries if is_header(entry) and "msgstr" in entry.strings), None
    )
    fields = header.text if header else ""
    charset = re.search(r"charset=([\w.:-]+)", fields)
    known = {"utf-8", "utf8", "charset", "us-ascii", "ascii", encoding}
    if charset and charset[1].lower() not in known and reading.encoding is None:
        raise EncodingError(
            f"{reading.name} says that its encoding is {charset[1]}; convert it with msgconv --to-code=UTF-8."
        )
    rewriting = Rewriting(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    places: list[tuple[int, int, Syntax]] = []
    declared = PLURALS.search(fields) or PLURALS.search(plural_forms(reading.target))
    plural = read_plural(declared)
    for entry in entries:
        if is_header(entry):
            rewrite_header(rewriting, entry, reading, newline)
        elif "msgid" in entry.strings:
            places += rewrite_entry(rewriting, entry, plural, reading.everything, newline)
    result = rewriting.result()
    blocks: list[tuple[Block, Syntax]] = []
    for start, end, syntax in places:
        pattern, parts = (ESCAPE, PARTS) if syntax is PLAIN else (FORMATTED_ESCAPE, FORMATTED_PARTS)
        value = read_value(result, start, end, pattern, unescape)
        blocks += ((block, syntax) for block in value.blocks(parts))
    segments = segments_of_blocks(result, blocks, reading)
    language = re.search(r"^Language:[ \t]*([A-Za-z]+)", fields, re.MULTILINE)
    document = Document(result, segments, tuple(rewriting.slots), encoding)
    return DeclaringFile(content, document, language[1] if language else "")


def read_entries(text: str, name: str) -> list[Entry]:
    """The messages of a catalogue. Raises `DragomanError` as `read`."""
    entries = [Entry()]
    last: String | None = None
    position = 1 if text.startswith("\ufeff") else 0
    while position < len(text):
        line = LINE.match(text, position)
        if line is None:
            number = text.count("\n", 0, position) + 1
            raise DragomanError(
                f"{name}, line {number}: this is no line of a gettext catalogue; msgfmt --check says more."
            )
        entry = entries[-1]
        key, string = line["key"], line["string"]
        if string is None or key in {"msgctxt", "msgid"}:
            is_complete = any(name.startswith("msgstr") for name in entry.strings)
            if is_complete or (key and key in entry.strings):
                entry = Entry()
                entries.append(entry)
        if line["comment"] and line["comment"].startswith("#~"):
            entries.append(Entry())
        elif line["comment"]:
            entry.comments.append(line.span())
        elif key:
            last = entry.strings[key] = String(position, line.end(), [string])
        elif string is not None and last:
            last.lines.append(string)
            last.end = line.end()
        if string is None:
            last = None
        position = line.end()
    return entries


def is_header(entry: Entry) -> bool:
    """Whether an entry is the header of its catalogue."""
    return "msgid" in entry.strings and not entry.strings["msgid"].raw and "msgctxt" not in entry.strings


def read_plural(declared: re.Match[str] | None) -> Plural:
    """The plural forms that a catalogue declares; two, of which the first is for one, if it has an error."""
    if declared is None or len(declared[2]) > MAX_PLURAL:
        return Plural(2, 0, is_for_one=True)
    try:
        form_of = gettext.c2py(declared[2].strip())
        forms = [form_of(number) for number in range(200)]
    except (ValueError, ZeroDivisionError, RecursionError, OverflowError):
        return Plural(2, 0, is_for_one=True)
    return Plural(max(1, min(int(declared[1]), 9)), forms[1], is_for_one=forms.count(forms[1]) < 5)


def rewrite_header(rewriting: Rewriting, entry: Entry, reading: Reading, newline: str) -> None:
    """Fill in the fields of the header that are empty; it is no longer fuzzy then."""
    if "msgstr" not in entry.strings:
        return
    header = entry.strings["msgstr"]
    text = rewriting.text[header.start : header.end]
    code = "" if reading.target == UNKNOWN_LANGUAGE else reading.target.replace("-", "_")
    new = re.sub(r"(?<=\")Language: *(?=\\n)", f"Language: {code}", text)
    new = re.sub(
        r"(?<=\")(Plural-Forms:) *(?:nplurals=INTEGER; plural=EXPRESSION;)? *(?=\\n)",
        rf"\1 {plural_forms(reading.target)}",
        new,
    )
    new = new.replace("charset=CHARSET", f"charset={reading.encoding or 'UTF-8'}")
    if "Plural-Forms:" not in new and "msgid_plural" in rewriting.text and header.raw:
        new = new.rstrip("\r\n") + newline + f'"Plural-Forms: {plural_forms(reading.target)}\\n"' + newline
    if new != text:
        for start, end in entry.comments:
            replace_flags(rewriting, start, end)
        rewriting.replace(header.start, header.end, new)


def replace_flags(rewriting: Rewriting, start: int, end: int) -> None:
    """Write a comment of an entry without what says that it is fuzzy."""
    line = rewriting.text[start:end]
    stripped = line.strip()
    if stripped.startswith("#|"):
        rewriting.replace(start, end, "")
    elif stripped.startswith("#,") and is_fuzzy(line):
        flags = [flag.strip() for flag in stripped[2:].split(",") if flag.strip() != "fuzzy"]
        ending = line[len(line.rstrip("\r\n")) :]
        rewriting.replace(start, end, f"#, {', '.join(flags)}{ending}" if flags else "")


def is_fuzzy(comment: str) -> bool:
    """Whether a comment has the flag fuzzy."""
    return re.match(r"\s*#,(?:[^\n]*,)?\s*fuzzy\s*(?:,|$)", comment) is not None


def rewrite_entry(
    rewriting: Rewriting, entry: Entry, plural: Plural, everything: bool, newline: str
) -> Iterator[tuple[int, int, Syntax]]:
    """Write copies of the source where translations are missing. Yields their places and syntax."""
    text = rewriting.text
    strings = {key: string for key, string in entry.strings.items() if key.startswith("msgstr")}
    comments = [text[start:end] for start, end in entry.comments]
    flags = "".join(comment for comment in comments if comment.lstrip().startswith("#,"))
    fuzzy = any(map(is_fuzzy, comments))
    if not strings:
        return
    existing = {} if fuzzy or everything else {key: string for key, string in strings.items() if string.raw}
    has_conversions = PERCENT_FORMATS.search(flags) is not None
    first = min(string.start for string in strings.values())
    last = max(string.end for string in strings.values())
    parts = [head_without_fuzzy(entry, text, first)] if fuzzy else []
    new: dict[str, bool] = {}
    copies: list[tuple[int, int]] = []
    for key, source in sources(entry, plural, default_text(comments)).items():
        if key in existing:
            parts.append(text[existing[key].start : existing[key].end])
            continue
        numbered = number_conversions(source) if has_conversions else source
        new[key] = numbered != source
        raw = escape(move_accelerator(numbered))
        start = sum(map(len, parts)) + len(key) + 2
        copies.append((start, start + len(raw)))
        parts.append(f'{key} "{raw}"{newline}')
    if not new:
        return
    start = entry.comments[0][0] if fuzzy else first
    lines = Lines(new, NUMBERING.search(flags) is not None, newline, text[start:last])
    place = rewriting.slot(start, last, "".join(parts), lines.write)
    yield from (
        (place + begin, place + end, FORMATTED if has_conversions else PLAIN) for begin, end in copies
    )


def default_text(comments: Sequence[str]) -> str:
    """The text of which `msgid` is the key, as Zope has it in comments (#. Default: "…"); "" without one."""
    lines = iter(comments)
    first = next(filter(None, map(DEFAULT.fullmatch, lines)), None)
    following = itertools.takewhile(bool, map(CONTINUED.fullmatch, lines))
    return String(0, 0, [match[1] for match in (first, *following) if match]).text if first else ""


def sources(entry: Entry, plural: Plural, default: str) -> dict[str, str]:
    """What each translation of an entry is made from: `msgid`, or `msgid_plural` for most plural forms.

    Without plural forms it is `default`, if that has a letter.
    """
    singular = entry.strings["msgid"].text
    if "msgid_plural" not in entry.strings:
        return {"msgstr": default if has_letter(default) else singular}
    other = entry.strings["msgid_plural"].text
    is_same = sorted(re.findall(VARIABLE, singular)) == sorted(re.findall(VARIABLE, other))
    has_singular = plural.count > 1 and (is_same or plural.is_for_one)
    forms = [
        int(key[7:-1]) for key, string in entry.strings.items() if key.startswith("msgstr[") and string.raw
    ]
    return {
        f"msgstr[{form}]": singular if has_singular and form == plural.singular else other
        for form in range(max([plural.count - 1, *forms]) + 1)
    }


def head_without_fuzzy(entry: Entry, text: str, end: int) -> str:
    """What an entry has before its translation, without what says that it is fuzzy."""
    head = Rewriting(text[:end])
    head.done = entry.comments[0][0]
    for comment in entry.comments:
        replace_flags(head, *comment)
    return head.result()

"""Files of Microsoft Word (.docx): the paragraphs of the text, of notes, headers, text boxes and comments."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dragoman.documents.document import compose
from dragoman.documents.drawing import PART as DRAWING
from dragoman.documents.drawing import read_drawing
from dragoman.documents.file import Archive, Reading
from dragoman.documents.markup import read_markup
from dragoman.documents.nested import put_back, rewrite
from dragoman.documents.office import (
    OFFICE,
    OfficePart,
    content_types,
    decode_part,
    ending_advice,
    prefix_of,
    read_office,
)
from dragoman.documents.runs import run_blocks, write_runs
from dragoman.documents.word import Word
from dragoman.system.errors import DragomanError
from dragoman.text.settings import UNKNOWN_LANGUAGE

NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
PART = re.compile(
    r"(?:wordprocessingml|ms-word)\.(?:document|template|header|footer|footnotes|endnotes|comments)"
    r"(?:\.macroEnabled\w*)?(?:\.main)?\+xml\Z"
)
"""The types of the members that have paragraphs."""
STYLES = "wordprocessingml.styles+xml"


def read(content: bytes, reading: Reading) -> Archive:
    """A file of Word. Raises `DragomanError` if it is damaged, or has no text."""
    members = read_office(content, reading)
    types = content_types(members, reading.name)
    names = [name for name, content_type in types.items() if PART.search(content_type)]
    if not names:
        raise DragomanError(f"{reading.name} has no text of Word{ending_advice(members)}.")
    languages: Counter[str] = Counter()
    parts = {name: read_part(members[name], reading, languages) for name in names}
    parts |= {name: read_drawing(members[name], reading) for name in types if DRAWING.search(types[name])}
    styles = [name for name, content_type in types.items() if content_type.endswith(STYLES)]
    default = language_of_styles(members, styles)
    named = {name: partial(name_language, reading.target) for name in styles}
    return Archive(
        content,
        parts,
        max(languages, key=languages.__getitem__, default="") or default,
        named if reading.target != UNKNOWN_LANGUAGE else {},
    )


def read_part(content: bytes, reading: Reading, languages: Counter[str]) -> OfficePart:
    """A member with paragraphs. It counts the characters of each language. Raises as `read`."""
    text, encoding = decode_part(content, reading.name)
    tokens = read_markup(text, is_html=False)
    prefix = prefix_of(text, *NAMESPACES)
    word = Word(text, tokens, prefix, reading.name)
    rewritten, slots = rewrite(text, tokens, {f"{prefix}p"}, word.normal_form)
    languages.update(word.languages)
    document = compose(rewritten, run_blocks(rewritten), reading.source, reading.split, OFFICE)
    document = replace(document, slots=slots, encoding=encoding)
    return OfficePart(document, partial(finish, prefix))


def finish(prefix: str, text: str) -> str:
    """The member as Word has it."""

    def write_run(properties: str, text: str) -> str:
        return f'<{prefix}r>{properties}<{prefix}t xml:space="preserve">{text}</{prefix}t></{prefix}r>'

    return put_back(write_runs(text, write_run))


def language_of_styles(members: Mapping[str, bytes], names: list[str]) -> str:
    """The language that the styles say."""
    for name in names:
        if match := re.search(rb"""<[\w.-]*:?lang\s[^<>]*?val\s*=\s*["']([\w-]+)""", members[name]):
            return match[1].decode()
    return ""


def name_language(target: str, content: bytes) -> bytes:
    """The styles with another language."""
    return re.sub(
        rb"""(<[\w.-]*:?lang\s[^<>]*?val\s*=\s*["'])[\w-]*""",
        lambda match: match[1] + target.encode(),
        content,
    )

"""The paragraphs of drawings, as slides, charts and diagrams of Microsoft Office have them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dragoman.documents.document import compose
from dragoman.documents.file import Reading
from dragoman.documents.markup import Token, read_markup
from dragoman.documents.nested import Paragraph, put_back, rewrite
from dragoman.documents.office import (
    OFFICE,
    OfficePart,
    checked_format,
    decode_part,
    element_ends,
    plain_characters,
    prefix_of,
)
from dragoman.documents.runs import Item, Kind, normal_form, run_blocks, write_runs
from dragoman.text.settings import UNKNOWN_LANGUAGE

NAMESPACES = (
    "http://schemas.openxmlformats.org/drawingml/2006/main",
    "http://purl.oclc.org/ooxml/drawingml/main",
)
PART = re.compile(r"drawingml\.(?:chart|diagramData|diagramDrawing)\+xml\Z|officedocument\.drawing\+xml\Z")
"""The types of the members with drawings that files of all programs have."""
KINDS: dict[str, Kind] = {"br": "break", "fld": "word", "endParaRPr": "break"}  # which stays the last
UNSEEN = re.compile(r"""\s(?:dirty|err|smtClean|altLang|bmk)\s*=\s*(?:"[^"]*"|'[^']*')""")
"""The properties of a run that only the program sees."""
LANGUAGE = re.compile(r"""(\slang\s*=\s*["'])[\w-]*""")


def read_drawing(content: bytes, reading: Reading) -> OfficePart:
    """A member with paragraphs of drawings. Raises `DragomanError` if it is damaged."""
    text, encoding = decode_part(content, reading.name)
    tokens = read_markup(text, is_html=False)
    prefix = prefix_of(text, *NAMESPACES)
    ends = element_ends(tokens, reading.name)
    target = "" if reading.target == UNKNOWN_LANGUAGE else reading.target

    def paragraph_form(paragraph: Paragraph, last: int) -> tuple[int, str]:
        first = tokens[paragraph.first - 1].end
        items = list(drawing_items(paragraph, last, tokens, ends, prefix, target))
        return first, normal_form(items)

    rewritten, slots = rewrite(text, tokens, {f"{prefix}p"}, paragraph_form)
    document = compose(rewritten, run_blocks(rewritten), reading.source, reading.split, OFFICE)
    return OfficePart(replace(document, slots=slots, encoding=encoding), partial(finish, prefix))


def drawing_items(
    paragraph: Paragraph, last: int, tokens: list[Token], ends: list[int], prefix: str, target: str
) -> Iterator[Item]:
    """The parts of a paragraph, the tags of which are those before `last`."""
    place = paragraph.first
    properties = ""
    while place < last:
        token, end = tokens[place], ends[place]
        name = token.name.removeprefix(prefix)
        if token.kind in {"start", "empty"} and name == "r":
            properties = ""
        elif token.kind in {"start", "empty"} and name == "rPr":
            source = paragraph.source(token.start, tokens[end].end)
            properties = checked_format(run_properties(source, token.end - token.start, target))
            place = end
        elif token.kind in {"start", "empty"} and name == "t":
            yield Item("text", plain_characters(paragraph.text[token.end : tokens[end].start]), properties)
            place = end
        elif token.kind in {"start", "empty"}:
            yield Item(KINDS.get(name, "alone"), paragraph.source(token.start, tokens[end].end))
            place = end
        place += 1


def run_properties(xml: str, tag_length: int, target: str) -> str:
    """The properties of a run in the target language, without those that only the program sees."""
    tag = UNSEEN.sub("", xml[:tag_length])
    return (LANGUAGE.sub(rf"\g<1>{target}", tag) if target else tag) + xml[tag_length:]


def finish(prefix: str, text: str) -> str:
    """The member as the program has it."""

    def write_run(properties: str, text: str) -> str:
        return f"<{prefix}r>{properties}<{prefix}t>{text}</{prefix}t></{prefix}r>"

    return put_back(write_runs(text, write_run))

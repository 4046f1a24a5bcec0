"""The inside of a paragraph of Markdown: its pieces with their positions, by the rules of markdown-it-py.

markdown-it-py gives no positions within a line. Here its rules are run, and each notes where it has read.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.parser_inline import RuleFuncInlineType
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from dragoman.documents.document import Piece
from dragoman.documents.markdown_extensions import admonition, template_code
from dragoman.documents.markup import KEPT_ELEMENTS, NAME, STANDS_FOR, VOID
from dragoman.translation.sentence_ends import CONTROL

KEPT = re.compile(
    r"\$\$[^$]+\$\$|\$(?![\s$])(?:[^$\\\n]|\\.)*?(?<![\s\\])\$(?!\d)"  # formulas
    r"|\{%[^{}]*%\}|\{\{[^{}]*\}\}|\{[:#.][^{}\n]*\}"  # templates and attributes
    r"|\[\[[^\[\]\n]+\]\]"  # links of a wiki
    r"|\[\^[^\]\s]+\]|\[![A-Za-z]+\]|\[[ xX]\](?=[ \t])|:[a-z][a-z0-9_+-]*:"  # notes, alerts, tasks, emoji
)
"""What is kept in a text, and is no Markdown of the standard."""
A_CONTROL = re.compile(f"[{CONTROL}]")
DELIMITERS = {"emphasis", "strikethrough"}
SPACE = " \t"


class Noted(NamedTuple):
    """What a rule has read, from `start` to `end`."""

    rule: str
    token: Token
    start: int
    end: int
    label: str = ""
    """Of the end of a link that is known by its own text."""


def keep(state: StateInline, silent: bool) -> bool:
    """The rule for what is kept."""
    match = KEPT.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "$[{:" else None
    if match is None or (match[0][0] == "[" and state.src[match.end() : match.end() + 1] in {"(", "["}):
        return False
    if not silent:
        state.push("kept", "", 0)
    state.pos = match.end()
    return True


def note(name: str, rule: RuleFuncInlineType, state: StateInline, silent: bool) -> bool:
    """Run the rule of this name, and note what it has read."""
    start, count, notes = state.pos, len(state.tokens), state.env["notes"]
    before = len(notes)
    if not rule(state, silent):
        return False
    tokens = state.tokens[count:]
    if silent or not tokens:
        return True
    if name in DELIMITERS:
        place = state.pos
        for token in reversed(tokens):
            if place > start:
                notes.append(Noted(name, token, place - len(token.content), place))
                place -= len(token.content)
    elif name == "link":
        label_end = state.md.helpers.parseLinkLabel(state, start, True)
        opening = next(token for token in tokens if token.type == "link_open")
        is_short = state.src[label_end : state.pos] in {"]", "][]"}
        label = state.src[start + 1 : label_end].replace("\n", " ") if is_short else ""
        notes.append(Noted(name, opening, start, start + 1))
        notes.append(Noted(name, tokens[-1], label_end, state.pos, label))
    else:
        del notes[before:]  # of the text of an image
        notes.append(Noted(name, tokens[-1], start, state.pos))
    return True


def make_parser() -> MarkdownIt:
    """A parser for blocks, whose rules for the inside of paragraphs note what they read."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.before("code", "admonition", admonition)
    parser.block.ruler.before("code", "template_code", template_code, {"alt": ["paragraph"]})
    parser.inline.ruler.before("link", "kept", keep)
    rules = parser.inline.ruler
    for name, rule in zip(rules.get_active_rules(), rules.getRules(""), strict=True):
        rules.at(name, partial(note, name, rule))
    parser.inline.ruler2.enableOnly(["balance_pairs", "strikethrough", "emphasis"])
    return parser


PARSER = make_parser()


def read_inline(text: str, references: Mapping[str, Any]) -> list[Noted]:
    """What the rules have read in the text of a paragraph, in order; between it is text as it stands."""
    env: MutableMapping[str, Any] = {"references": references, "notes": []}
    PARSER.inline.parse(text, PARSER, env, [])
    notes: list[Noted] = []
    for noted in sorted(env["notes"], key=lambda noted: noted.start):
        kind = noted.token.type
        if noted.rule in DELIMITERS and kind == "text" and noted.token.content:
            continue  # a marker that marks nothing
        if (
            notes
            and noted.rule in DELIMITERS
            and notes[-1].rule == noted.rule
            and notes[-1].end == noted.start
        ):
            last = notes[-1]  # of two tokens of ** one is empty
            if kind == "text" and last.token.type.endswith("_close"):
                notes[-1] = last._replace(end=noted.end)
                continue
            if last.token.type == "text":
                notes[-1] = noted._replace(start=last.start)
                continue
        notes.append(noted)
    return notes


def pieces_of(text: str, notes: Sequence[Noted]) -> Iterator[Piece | None]:
    """The pieces of a paragraph's text; None is the end of a line, and stands for control characters."""
    done = 0
    for noted in notes:
        start, end = noted.start, noted.end
        if noted.token.type in {"softbreak", "hardbreak"}:
            while start > done and text[start - 1] in SPACE:
                start -= 1
        yield from text_pieces(text, done, start)
        yield piece_of(text, noted, start, end)
        done = end
    yield from text_pieces(text, done, len(text))


def piece_of(text: str, noted: Noted, start: int, end: int) -> Piece | None:
    """The piece of what a rule has read."""
    kind = noted.token.type
    name = NAME.match(text, start, end) if kind == "html_inline" else None
    tag = name[1].lower() if name else ""
    content = " " if kind == "softbreak" else noted.token.content
    if kind in {"softbreak", "text_special"} and not A_CONTROL.search(content):
        return Piece("text", content, start, end)
    if kind in {"hardbreak", "text_special"} or tag == "br":
        return None
    if tag and tag not in VOID and not text.endswith("/>", start, end):
        return Piece("close" if text.startswith("</", start) else "open", tag, start, end)
    if noted.rule != "autolink" and kind.endswith(("_open", "_close")):
        name_of_kind, _, side = kind.rpartition("_")
        return Piece("open" if side == "open" else "close", name_of_kind, start, end)
    return Piece("alone", "" if kind == "image" else STANDS_FOR, start, end)


def text_pieces(text: str, start: int, end: int) -> Iterator[Piece | None]:
    """A text as it stands, cut at control characters."""
    for match in A_CONTROL.finditer(text, start, end):
        if start < match.start():
            yield Piece("text", text[start : match.start()], start, match.start())
        yield Piece("text", " ", *match.span()) if match[0] == "\t" else None
        start = match.end()
    if start < end:
        yield Piece("text", text[start:end], start, end)


def keep_html(pieces: Sequence[Piece | None]) -> list[Piece | None]:
    """The pieces, each HTML element that is not translated, such as <code>, as one that stands alone."""
    result: list[Piece | None] = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        if piece and piece.kind == "open" and piece.text in KEPT_ELEMENTS:
            closing = next(
                (
                    other
                    for other in range(place, len(pieces))
                    if (end := pieces[other]) and end.kind == "close" and end.text == piece.text
                ),
                len(pieces) - 1,
            )
            last = next(end for end in reversed(pieces[place : closing + 1]) if end)
            piece, place = Piece("alone", STANDS_FOR, piece.start, last.end), closing
        result.append(piece)
        place += 1
    return result

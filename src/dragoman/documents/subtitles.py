"""Subtitles: sentences that run over several cues, their translations cut at the cues and wrapped into lines.

srt.py and ass.py find the boxes of a file. A box is what one speaker says in one cue.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from dragoman.documents.document import Block, Document, Piece, Segment, Syntax, compose, partners
from dragoman.documents.file import Reading
from dragoman.translation.sentence_ends import CONTROL
from dragoman.translation.tags import UNSPACED

MAX_PAUSE = 2.0  # seconds between two cues of one sentence
MAX_OVERLAP = 0.1  # seconds
MAX_CUES = 6  # of a sentence: captions that a machine makes have no punctuation
NEAR = 3  # words around the place of a cut, among which a better one is looked for
DASH = r"(?:[-‐–](?![-\d])|—(?=\s)|>>+|&gt;&gt;)"
"""What begins the line of another speaker."""
ENDS = re.compile(r"(?:[.!?…。！？؟।♪♫)\]]|--|—)\W*\Z")
BEGINS = re.compile(r"[\[(♪♫#…]|\.\.")
"""What ends and what begins a text, so that no sentence runs on there."""
BRACKET = re.compile("[<>{}]")
CLAUSE_END = re.compile(r"[,;:.!?…—、。，；！？][^\w\s]*\Z")
INNER_END = re.compile(r"[.!?…]\s|[。！？।]")
NOTHING = "…"
"""The text of a cue for which a translation has no words."""
NAME = re.compile(r"</?([A-Za-z][\w-]*)")


@dataclass(frozen=True)
class Form:
    """What a format of subtitles writes within a text. The strings are patterns."""

    syntax: Syntax
    tag: str
    line_break: str
    entity: str = "(?!)"
    """What stands for a character."""
    decode: Callable[[str], str] = str
    """The character."""

    @cached_property
    def token(self) -> re.Pattern[str]:
        """What is not read as it stands."""
        return re.compile(
            rf"(?P<tag>{self.tag})|(?P<space>(?<![ \t])[ \t]*+(?:{self.line_break})[ \t]*+|\t)"
            rf"|(?P<entity>{self.entity})|(?P<control>[{CONTROL}])"
        )

    @cached_property
    def breaks(self) -> re.Pattern[str]:
        """A line break with the white space around it."""
        return re.compile(rf"(?<![ \t])[ \t]*+(?P<mark>{self.line_break})[ \t]*+")

    @cached_property
    def speaker(self) -> re.Pattern[str]:
        """A dash at the start of a line, with the tags before it, and the place before a tag of a voice."""
        tags = rf"(?:{self.tag}|[ \t])*+"
        return re.compile(rf"(?:\A|(?:{self.line_break})){tags}{DASH}[ \t]*|(?!\A)(?=<v[ .])")

    @cached_property
    def leading_dash(self) -> re.Pattern[str]:
        """What would make a text that of another speaker: its dash."""
        return re.compile(rf"\A(?:{DASH}[ \t]*)+")

    @cached_property
    def place(self) -> re.Pattern[str]:
        """A tag, or a place at which a line may end; the next one does not begin as that of a speaker."""
        between = rf"(?<={UNSPACED.pattern})(?={UNSPACED.pattern})(?=\w)"
        return re.compile(rf"(?P<tag>{self.tag})|(?<!\s)\s++(?!{DASH})|{between}")


class Cue(NamedTuple):
    """A text, from `start` to `end` in the file, and when it is shown, in seconds."""

    start: int
    end: int
    begins: float
    ends: float
    speaker: str = ""
    """What says that another one speaks."""


class Box(NamedTuple):
    """What one speaker says in a cue, without the dash, the white space and the tags around it."""

    start: int
    end: int
    pieces: Block
    words: str
    """As the model reads them."""
    around: str
    """The tags before it."""
    cue: Cue
    is_first: bool
    """Of its cue, and without a dash."""
    is_last: bool


class Word(NamedTuple):
    """A part of a text that is in one line."""

    space: str
    """Before it."""
    text: str
    width: int
    """The number of its characters that are shown."""
    depth: int
    """The number of pairs of tags that are open before it."""


def subtitles(text: str, cues: Sequence[Cue], reading: Reading, form: Form) -> "Subtitles":
    """The document of a text and its cues."""
    boxes = [box for cue in cues for box in boxes_of(text, cue, form)]
    blocks = blocks_of(boxes)
    return Subtitles(compose(text, blocks, reading.source, reading.split, form.syntax), tuple(boxes), form)


# ---- cues → boxes → blocks


def pieces_of(text: str, start: int, end: int, form: Form) -> Iterator[Piece]:
    """The pieces of a text: a line break is a space, and control characters are kept."""
    done = start
    for match in form.token.finditer(text, start, end):
        if done < match.start():
            yield Piece("text", text[done : match.start()], done, match.start())
        done = match.end()
        name = NAME.match(match[0])
        if match.lastgroup in {"space", "entity"}:
            character = " " if match.lastgroup == "space" else form.decode(match[0])
            yield Piece("text", character, *match.span())
        elif match.lastgroup == "tag" and name:
            yield Piece("close" if match[0][1] == "/" else "open", name[1], *match.span())
        else:
            yield Piece("alone", "", *match.span())
    if done < end:
        yield Piece("text", text[done:end], done, end)


def boxes_of(text: str, cue: Cue, form: Form) -> Iterator[Box]:
    """The texts of the speakers in a cue: a dash begins one at the start of a line, and <v> anywhere."""
    inside = text[cue.start : cue.end]
    edges = [(0, 0), *(match.span() for match in form.speaker.finditer(inside)), (len(inside), len(inside))]
    parts = [(cue.start + start, cue.start + end) for (_, start), (end, _) in pairwise(edges)]
    for number, (start, end) in enumerate(parts):
        if pieces := peel(list(pieces_of(text, start, end, form))):
            words = "".join(piece.text for piece in pieces if piece.kind == "text")
            first = pieces[0].start + len(pieces[0].text) - len(pieces[0].text.lstrip())
            last = pieces[-1].end - len(pieces[-1].text) + len(pieces[-1].text.rstrip())
            around = text[start : pieces[0].start].strip()
            is_first, is_last = number == 0, number == len(parts) - 1
            yield Box(first, last, pieces, words.strip(), around, cue, is_first, is_last)


def peel(pieces: Block) -> Block:
    """The pieces without white space and single tags at their edges, and without the pairs around all."""
    partner = partners(pieces)
    first, last = 0, len(pieces) - 1
    while first <= last:
        if partner[first] < 0 and not pieces[first].is_content:
            first += 1
        elif partner[last] < 0 and not pieces[last].is_content:
            last -= 1
        elif partner[first] == last:
            first, last = first + 1, last - 1
        else:
            break
    return pieces[first : last + 1]


def blocks_of(boxes: Iterable[Box]) -> Iterator[Block]:
    """The pieces of the boxes, in one block those through which a sentence may run."""
    block: Block = []
    before: Box | None = None
    count = 0  # of the cues in which no sentence has ended
    for box in boxes:
        if before is not None and count < MAX_CUES and runs_on(before, box):
            block.append(Piece("text", " ", before.end, box.start))
        else:
            yield block
            block, count = [], 0
        block += box.pieces
        count = 1 if INNER_END.search(box.words) else count + 1
        before = box
    yield block


def runs_on(before: Box, after: Box) -> bool:
    """Whether a sentence of one box may go on in the next one."""
    pause = after.cue.begins - before.cue.ends
    return (
        before.is_last
        and after.is_first
        and (before.cue.speaker, before.around) == (after.cue.speaker, after.around)
        and -MAX_OVERLAP <= pause <= MAX_PAUSE
        and not ENDS.search(before.words[-9:])
        and not BEGINS.match(after.words)
        and not BRACKET.search(before.words + after.words)  # a placeholder that stands in both
    )


# ---- translations → cues


@dataclass(frozen=True)
class Subtitles:
    """A text with subtitles."""

    document: Document
    boxes: tuple[Box, ...]
    form: Form

    @property
    def language(self) -> str:
        """That the text says it is in."""
        return self.document.language

    @property
    def segments(self) -> Sequence[Segment]:
        """Its sentences; one that runs over several cues includes what stands between them."""
        return self.document.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """The file with the translations. Raises as `Document.write`."""
        text = self.document.text
        starts = [box.start for box in self.boxes]
        texts: list[list[str]] = [[] for _ in self.boxes]  # and what stands before each
        ends = list(starts)
        changed = [False] * len(starts)
        for start, end, written in self.document.replacements(translations):
            numbers = range(bisect_right(starts, start) - 1, bisect_left(starts, end))
            spans = [(max(start, starts[number]), min(end, self.boxes[number].end)) for number in numbers]
            parts = [text[first:last] for first, last in spans]
            is_changed = written != text[start:end]
            if is_changed:
                parts = cut(self.words(written), [len(self.words(part)) for part in parts])
            for number, part, (first, last) in zip(numbers, parts, spans, strict=True):
                texts[number] += [text[ends[number] : first], part]
                ends[number] = last
                changed[number] |= is_changed
        output: list[str] = []
        done = 0
        for box, parts, end, is_changed in zip(self.boxes, texts, ends, changed, strict=True):
            if is_changed:
                new = "".join([*parts, text[end : box.end]])
                output += [text[done : box.start], self.lay(new, text[box.start : box.end])]
                done = box.end
        output.append(text[done:])
        return "".join(output).encode(self.document.encoding, "surrogateescape")

    def lay(self, text: str, source: str) -> str:
        """A text in the lines of a box, which had this source."""
        breaks = [match["mark"] for match in self.form.breaks.finditer(source)]
        lines = self.form.breaks.sub("\n", source).split("\n")
        limit = max(sum(word.width + len(word.space) for word in self.words(line)) for line in lines)
        text = self.form.leading_dash.sub("", self.form.breaks.sub(" ", text).strip())
        wrapped = wrap(self.words(text), len(lines), limit)
        return (breaks[0] if breaks else "").join(wrapped) or NOTHING

    def words(self, text: str) -> list[Word]:
        """The words of a text."""
        words: list[Word] = []
        start, space, depth, opened, hidden = 0, "", 0, 0, 0
        for match in self.form.place.finditer(text):
            if match.lastgroup == "tag":
                hidden += len(match[0])
                if NAME.match(match[0]):
                    opened += 1 if match[0][1] != "/" else -1
            else:
                words.append(Word(space, text[start : match.start()], match.start() - start - hidden, depth))
                start, space, depth, hidden = match.end(), match[0], opened, 0
        return [*words, Word(space, text[start:], len(text) - start - hidden, depth)]


def cut(words: Sequence[Word], weights: Sequence[int]) -> list[str]:
    """The words in as many parts as there are weights, in proportion to them.

    A part ends with the punctuation mark near the place in question, and outside of tags, if it can. The last
    parts are empty if there are too few words.
    """
    edges = [0]
    for number, weight in enumerate(accumulate(weights[:-1]), 1):
        ideal = len(words) * weight / sum(weights)
        most = len(words) - (len(weights) - number)
        first, last = max(edges[-1] + 1, round(ideal) - NEAR), min(most, round(ideal) + NEAR)
        candidates = range(first, last + 1) or [min(edges[-1] + 1, len(words))]
        edges.append(min(candidates, key=lambda place: abs(place - ideal) + badness(words, place)))
    return [join(words[start:end]) for start, end in pairwise([*edges, len(words)])]


def badness(words: Sequence[Word], place: int) -> float:
    """What counts against a cut before this word, in words."""
    if place >= len(words):
        return 0
    return 2.0 * (words[place].depth > 0) - 1.5 * (CLAUSE_END.search(words[place - 1].text[-9:]) is not None)


def join(words: Sequence[Word]) -> str:
    """The text of words, without the space before the first."""
    return "".join(word.space * (number > 0) + word.text for number, word in enumerate(words))


def wrap(words: Sequence[Word], count: int, limit: int) -> list[str]:
    """The lines of a text: as few as the limit allows, at most `count`, the longest as short as it can be."""
    full = sum(word.width + 1 for word in words)
    count = min(count, len(starts_of_lines(words, limit)))
    width = bisect_left(range(full), True, key=lambda width: len(starts_of_lines(words, width)) <= count)
    edges = [*starts_of_lines(words, width), len(words)]
    return [join(words[start:end]) for start, end in pairwise(edges)]


def starts_of_lines(words: Sequence[Word], width: int) -> list[int]:
    """The first word of each line, where each line is filled up to a width."""
    starts = [0]
    length = 0
    for number, word in enumerate(words):
        longer = length + len(word.space) * (length > 0) + word.width
        if longer > width and length:
            starts.append(number)
            longer = word.width
        length = longer
    return starts

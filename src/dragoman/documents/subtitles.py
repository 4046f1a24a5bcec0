"""Subtitles: sentences that run over several cues, their translations cut at the cues and wrapped into lines.

srt.py and ass.py find the boxes of a file. A box is what one speaker says in one cue.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from dragoman.documents.document import (
    CUE_END,
    Block,
    Document,
    Piece,
    Segment,
    Syntax,
    compose,
    partners,
)
from dragoman.documents.file import Reading
from dragoman.documents.subtitle_lines import Word, cut, cut_where_aligned, width, with_tags_alone, wrap
from dragoman.translation.sentence_ends import CONTROL, sentence_ends
from dragoman.translation.tags import UNSPACED

MAX_PAUSE = 2.0  # seconds between two cues of one sentence
MAX_OVERLAP = 0.1  # seconds
MAX_CUES = 6  # of a sentence: captions that a machine makes have no punctuation
DASH = r"(?:[-‐–](?![-\d])|—(?=\s)|>>+|&gt;(?:&gt;)+)"
"""What begins the line of another speaker."""
ENDS = re.compile(r"(?:[.!?…。！？؟।♪♫)\]]|--|—)\W*\Z")
BEGINS = re.compile(r"[\[(♪♫#…]|\.\.")
"""What ends and what begins a text, so that no sentence runs on there."""
SOUND = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|(?:[♪♫#].*)?[♪♫#]")
"""A line that is a text of its own: what is heard, or a line of a song."""
PART_SOUND = (
    r"(?:(?P<square>\[)[^\[\]]*(?P<square_end>\])"
    r"|(?P<capitals>\((?=[^()]*[A-Z]))[^()a-z]*(?P<capitals_end>\)))"
)
"""What is heard, in a line with other text."""
SPEAKER_NAME = re.compile(r"[A-ZÄÖÜ][A-ZÄÖÜ0-9.'’ -]+:\s")
BRACKET = re.compile("[<>{}]")
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
    def sound(self) -> re.Pattern[str]:
        """The brackets at the start of a line: square ones, round ones of capitals, or around all of it."""
        end = rf"(?:{self.line_break}|\Z)"
        bracketed = rf"(?P<round>\()[^()]*(?P<close>\))(?=(?:{self.tag}|[ \t])*+{end})"
        part = rf"{PART_SOUND}(?=(?:{self.tag})*+(?:\s|{end}))"
        return re.compile(rf"(?:{self.tag}|[ \t])*+(?:{bracketed}|{part})")

    @cached_property
    def last_sound(self) -> re.Pattern[str]:
        """The brackets at the end of a line, behind a sentence: square ones, or round ones of capitals."""
        end = rf"(?:{self.tag}|[ \t])*+(?:{self.line_break}|\Z)"
        return re.compile(rf"(?<=[.!?…])(?:{self.tag})*+[ \t]++(?:{self.tag})*+{PART_SOUND}(?={end})")

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


def subtitles(text: str, cues: Sequence[Cue], reading: Reading, form: Form) -> "Subtitles":
    """The document of a text and its cues."""
    boxes = [box for cue in cues for box in boxes_of(text, cue, form)]
    blocks = blocks_of(boxes, reading.source)
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
    edges = [(0, 0), *edges_within(inside, form), (len(inside), len(inside))]
    parts = [(cue.start + start, cue.start + end) for (_, start), (end, _) in pairwise(edges)]
    for number, (start, end) in enumerate(parts):
        if pieces := peel(list(pieces_of(text, start, end, form))):
            words = "".join(piece.text for piece in pieces if piece.kind == "text")
            first = pieces[0].start + len(pieces[0].text) - len(pieces[0].text.lstrip())
            last = pieces[-1].end - len(pieces[-1].text) + len(pieces[-1].text.rstrip())
            around = text[start : pieces[0].start].strip()
            is_first, is_last = number == 0, number == len(parts) - 1
            yield Box(first, last, pieces, words.strip(), around, cue, is_first, is_last)


def edges_within(text: str, form: Form) -> list[tuple[int, int]]:
    """What stands between the texts of a cue: the dashes of speakers, brackets of sounds, and some breaks.

    These breaks are beside the lines that are a sound or in notes, and before those that begin with the name
    of a speaker.
    """
    edges = [match.span() for match in form.speaker.finditer(text)]
    breaks = [match.span() for match in re.finditer(form.line_break, text)]
    sounds = [form.sound.match(text, start) for start in sorted({0, *(end for _, end in edges + breaks)})]
    sounds += form.last_sound.finditer(text)
    brackets = [match.span(name) for match in sounds if match for name in match.groupdict() if match[name]]
    if not breaks:
        return sorted(edges + brackets)
    bounds = [0, *(edge for span in breaks for edge in span), len(text)]
    lines = [
        re.sub(form.tag, "", text[start:end]).strip()
        for start, end in zip(bounds[::2], bounds[1::2], strict=True)
    ]
    inside_edges = {place for start, end in edges for place in range(start, end)}
    for span, before, after in zip(breaks, lines, lines[1:], strict=False):
        is_edge = SOUND.fullmatch(before) or SOUND.fullmatch(after) or SPEAKER_NAME.match(after)
        if is_edge and span[0] not in inside_edges:
            edges.append(span)
    return sorted(edges + brackets)


def peel(pieces: Block) -> Block:
    """The pieces without white space and single tags at their edges, and without the pairs around all."""
    partner = partners(pieces)
    first, last = 0, len(pieces) - 1
    while first <= last:
        if partner[first] < 0 and pieces[first].is_blank:
            first += 1
        elif partner[last] < 0 and pieces[last].is_blank:
            last -= 1
        elif partner[first] == last:
            first, last = first + 1, last - 1
        else:
            break
    return pieces[first : last + 1]


def blocks_of(boxes: Iterable[Box], language: str) -> Iterator[Block]:
    """The pieces of the boxes, in one block those through which a sentence may run."""
    block: Block = []
    before: Box | None = None
    count = 0  # of the cues in which no sentence has ended
    for box in boxes:
        if before is not None and count < MAX_CUES and runs_on(before, box, language):
            block.append(Piece("text", " ", before.end, box.start))
            block.append(Piece("cue", "", box.start, box.start))
        else:
            yield block
            block, count = [], 0
        block += box.pieces
        count = 1 if INNER_END.search(box.words) else count + 1
        before = box
    yield block


def runs_on(before: Box, after: Box, language: str) -> bool:
    """Whether a sentence of one box may go on in the next one."""
    pause = after.cue.begins - before.cue.ends
    return (
        before.is_last
        and after.is_first
        and (before.cue.speaker, before.around) == (after.cue.speaker, after.around)
        and -MAX_OVERLAP <= pause <= MAX_PAUSE
        and (
            not ENDS.search(before.words[-9:]) or ends_with_abbreviation(before.words, after.words, language)
        )
        and not BEGINS.match(after.words)
        and not BRACKET.search(before.words + after.words)  # a placeholder that stands in both
    )


def ends_with_abbreviation(before: str, after: str, language: str) -> bool:
    """Whether a text ends with one full stop, and no sentence ends there: "Dr." before "Smith".

    What goes on with a small letter is not asked about: it may be another sentence after all.
    """
    if not re.search(r"\w\.\Z", before) or not (after[:1].isupper() or after[:1].isdigit()):
        return False
    start = before[-40:]
    return len(start) + 1 not in sentence_ends(f"{start} {after[:40]}", language)


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
                parts = self.cut(written, parts, numbers)
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

    def cut(self, translation: str, sources: Sequence[str], numbers: Sequence[int]) -> list[str]:
        """The parts of a translation for the boxes with these numbers, which had these sources.

        It is cut where the alignment ends each cue, or else in proportion to the words of the sources.
        """
        *beginnings, text = map(str.strip, accumulate(translation.split(CUE_END)))
        words = self.words(text)
        places = [len(self.words(part)) if part else 0 for part in beginnings]
        if len(places) != len(sources) - 1 or all(place in {0, len(words)} for place in places):
            return cut(words, [len(self.words(source)) for source in sources])
        cues = [self.boxes[number].cue for number in numbers]
        limits = [round(self.speed * (cue.ends - cue.begins)) for cue in cues]
        return cut_where_aligned(words, places, limits)

    @cached_property
    def speed(self) -> float:
        """The characters a second of the cue that has to be read fastest."""
        widths: Counter[Cue] = Counter()
        for box in self.boxes:
            widths[box.cue] += width(self.words(self.document.text[box.start : box.end]))
        speeds = (count / (cue.ends - cue.begins) for cue, count in widths.items() if cue.ends > cue.begins)
        return max(speeds, default=0.0)

    def lay(self, text: str, source: str) -> str:
        """A text in the lines of a box, which had this source."""
        breaks = [match["mark"] for match in self.form.breaks.finditer(source)]
        lines = self.form.breaks.sub("\n", source).split("\n")
        limit = max(sum(word.width + len(word.space) for word in self.words(line)) for line in lines)
        text = self.form.leading_dash.sub("", self.form.breaks.sub(" ", text).strip())
        wrapped = wrap(self.words(text), len(lines), limit)
        return (breaks[0] if breaks else "").join(wrapped) or NOTHING

    def words(self, text: str) -> list[Word]:
        """The words of a text. Tags alone are no word; they belong to the next one, or to the last."""
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
        return with_tags_alone([*words, Word(space, text[start:], len(text) - start - hidden, depth)])

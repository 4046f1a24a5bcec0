"""Texts of several paragraphs: cut into sentences, and joined again from the sentences' translations.

A document is a row of blocks; a block is a row of pieces; sentences are cut within blocks. Each format has a
module that finds the blocks of its text, and a `Syntax` that writes translations. It imports no torch.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import Literal, NamedTuple

from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from dragoman.text.letters import has_letter
from dragoman.translation.cut_text import gap_between
from dragoman.translation.sentence_ends import sentence_ends
from dragoman.translation.tags import CUE, TAG, VARIABLE

MAX_TAGS = 50  # a sentence with more tags is cut at them: the search for their places is quadratic

_URL_CHARACTER = r"[^\s<>{}()\"'„“”«»\u0e00-\u0eff\u2000-\u206f\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"
_URL = rf"(?:\b(?:https?|ftp)://|\bwww\.)(?:{_URL_CHARACTER}|\({_URL_CHARACTER}*+\))+(?<![.,;:!?\]])"
_EMAIL = r"(?<![\w.+-])[\w.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++"
_MENTION = r"(?<![\w@/.])@\w++(?:[.-]\w++)*+(?:@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++)?"
_BLANK = r"(?<![A-Za-z0-9_])_{3,}+(?![A-Za-z0-9])"
ADDRESS = re.compile(f"{_URL}|{_EMAIL}|{_MENTION}|{_BLANK}")
"""URLs, e-mail addresses, the names @user and @user@host of people, and ____ to be filled in."""
KEPT = re.compile(rf"{ADDRESS.pattern}|{TAG.pattern}")
KEPT_SIGN = re.compile(rf"@|://|\bwww\.|___|{VARIABLE}")
"""What every address contains, or a placeholder; the search for it is fast."""
KEPT_WITHOUT_TAGS = re.compile(rf"{ADDRESS.pattern}|{VARIABLE}")
_PICTURE = "\u2190-\u21ff\u25a0-\u27bf\U0001f000-\U0001faff"
_SIGN = rf"[•‣◦⁃{_PICTURE}][\u200d\ufe0f{_PICTURE}]*+"
SIGNS_BEFORE = re.compile(rf"\s*+(?:{_SIGN}(?:\s++|\Z))*+")
SIGNS_BEHIND = re.compile(rf"(?:(?:\A|\s++){_SIGN})*+\s*+\Z")
"""Bullets, boxes to tick, notes of music, arrows and emoji at the edges of a text, apart from its words."""
MAX_SIGNS = 40
"""Characters of them at the end of a text."""
CLOSING_MARKS = re.compile(r"\A[,;:%)\]»”’]+(?=\s)")
"""Marks that belong to what they touch on their left."""
REFERENCE_MARK = re.compile(r"\[(?:\d+|\w)\]\Z|[*†‡§¶]+\Z")
"""What refers to a footnote, inside of a pair of tags."""
RAISED_MARK = re.compile(rf"[\d\W_]+\Z|{REFERENCE_MARK.pattern}")
"""The same in raised figures, or an exponent."""
MAX_REFERENCE = 12
MARK = re.compile(rf"</?g\d+>|<g\d+/>|{CUE.pattern}")
"""What stands for a tag, an address or the end of a cue in a sentence that is given to the model."""
CUE_END = "\x1a"
"""What the end of a cue is written as, where subtitles cut a translation. No text has control characters."""


@dataclass(frozen=True)
class Syntax:
    """How a format writes the text of its sentences, and what it keeps in them."""

    escape: Callable[[str], str]
    """A text as the format writes it."""
    keeps_tags: bool
    """What looks like tags is kept; without it only in a text with addresses or placeholders."""


class Piece(NamedTuple):
    """A part of a block: characters `start` to `end` of the document."""

    kind: Literal["text", "open", "close", "alone", "cue"]
    """Text, an opening or closing tag, something that is kept in one piece, such as an address, or the end of
    a cue."""
    text: str
    """What the model reads of a text, the name of a tag, or what sentencex reads for `alone`."""
    start: int
    end: int

    @property
    def length(self) -> int:
        """The number of characters that it has in the text in which sentences are cut."""
        return len(self.text) if self.kind in {"text", "alone"} else 0

    @property
    def is_blank(self) -> bool:
        """Whether it is no text, or white space."""
        return self.kind != "text" or self.text.isspace()

    @property
    def is_content(self) -> bool:
        """Whether it is text other than white space and signs."""
        return self.kind == "text" and without_signs(self.text) != ""


Block = list[Piece]
"""Text that no sentence leaves: a line of plain text, or what stands between the block tags of HTML."""


@dataclass(frozen=True)
class Segment:
    """A sentence and the characters `start` to `end` of the document that it stands for."""

    sentence: str
    start: int
    end: int
    source: str
    """These characters."""
    syntax: Syntax
    marks: tuple[tuple[str, str], ...] = ()
    """The marks of the sentence in order, and what each stands for."""

    def restore(self, translation: str) -> str:
        """The translation as the document writes it: marks replaced by what they stand for.

        A sentence that comes back unchanged is written as it was. If marks are missing, doubled or not
        nested, what they stand for comes before the text, without the ends of cues.
        """
        if translation == self.sentence:
            return self.source
        if not self.marks:
            return self.syntax.escape(translation)
        places = self.nest(MARK.findall(translation))
        sources = dict(self.marks)
        if places is None:
            text = self.syntax.escape(MARK.sub("", translation).strip())
            return "".join(source for source in sources.values() if source != CUE_END) + " " + text
        texts = [self.syntax.escape(text) for text in MARK.split(translation)]
        return texts[0] + "".join(
            "".join(sources[name] for name in names) + text
            for names, text in zip(places, texts[1:], strict=True)
        )

    def restore_or_keep(self, translation: str) -> str:
        """`restore`, or the source if the translation has no text."""
        return self.source if self.is_empty(translation) else self.restore(translation)

    def is_empty(self, translation: str) -> bool:
        """Whether a translation has no text, beside the marks of the sentence."""
        return not (MARK.sub("", translation) if self.marks else translation).strip()

    def nest(self, translated_names: Sequence[str]) -> list[list[str]] | None:
        """The marks to write in the place of each one that a translation has; None if they do not fit.

        Tags whose partners are in other sentences keep their order and stand outside of all pairs.
        """
        names = [name for name, _ in self.marks]
        if Counter(translated_names) != Counter(names):
            return None
        known = set(names)
        unpaired = iter([name for name in names if is_unpaired(name, known)])
        places: list[list[str]] = []
        opened: list[str] = []
        pending = 0
        for name in translated_names:
            has_partner = not is_unpaired(name, known)
            places.append([name] if has_partner else [])
            if not has_partner:
                pending += 1
            elif name.startswith("</"):
                if not opened or opened.pop() != name.replace("/", ""):
                    return None
            elif not name.endswith("/>"):
                opened.append(name)
            if not opened:
                places[-1] += islice(unpaired, pending)
                pending = 0
        return places


def is_unpaired(name: str, names: set[str]) -> bool:
    """Whether a mark is an opening or closing tag without its partner in `names`."""
    partner = name.replace("/", "") if name.startswith("</") else "</" + name[1:]
    return not name.endswith("/>") and partner not in names


class Slot(NamedTuple):
    """Characters `start` to `end` of a text, which stand for others as long as none of them is translated.

    A format writes the sentences of a slot where they are translated to: a copy of the source in the place of
    the missing translation, for example.
    """

    start: int
    end: int
    source: str
    """What the file has there."""
    write: Callable[[str], str] | None = None
    """What the file gets there, from the text with the translations: without quotation marks that it does not
    need, for example. None leaves it as it is."""


Replacement = tuple[int, int, str]
"""The first character of a sentence in a text, the one after its last, and what is written there."""


@dataclass(frozen=True)
class Document:
    """A text, and the sentences in it. Between them stand the gaps, which are not translated."""

    text: str
    segments: tuple[Segment, ...]
    slots: tuple[Slot, ...] = ()
    """In order, and apart from each other; each sentence is inside of one or outside of all."""
    encoding: str = "utf-8"
    """Of the file."""
    language: str = ""
    """That the file says it is in."""

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences as the model reads them, none of them blank."""
        return tuple(segment.sentence for segment in self.segments)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first character of each sentence in the text, and the one after its last."""
        return [(segment.start, segment.end) for segment in self.segments]

    @property
    def needs_tags(self) -> bool:
        """Whether a sentence contains tags or addresses, so that it has to be translated with `keep_tags`."""
        return any(segment.marks for segment in self.segments)

    def join(self, translations: Sequence[str]) -> str:
        """The text with a translation in the place of each sentence; one without text leaves the sentence.

        Raises `DragomanError` if there are more or fewer translations than sentences.
        """
        return self.join_with_spans(translations)[0]

    def join_with_spans(self, translations: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
        """`join`, and the span of each translation in it, as in `spans`. Raises as `join`."""
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        end = length = 0
        for start, stop, written in self.replacements(translations):
            gap = self.text[end:start]
            spans.append((length + len(gap), length + len(gap) + len(written)))
            parts += [gap, written]
            end, length = stop, spans[-1][1]
        return "".join([*parts, self.text[end:]]), spans

    def replacements(self, translations: Sequence[str]) -> list[Replacement]:
        """The parts of the text that are replaced, in order, and by what.

        These are the sentences, and the slots in which none is translated or that are written as a whole.
        Raises as `join`.
        """
        check_count(self.segments, translations)
        starts = [segment.start for segment in self.segments]
        sentences = [
            (segment.start, segment.end, segment.restore_or_keep(translation))
            for segment, translation in zip(self.segments, translations, strict=True)
        ]
        edges = sorted({edge for slot in self.slots for edge in (slot.start, slot.end)})
        for number, (one, other) in enumerate(pairwise(sentences)):
            if bisect_left(edges, one[1]) == bisect_right(edges, other[0]):  # in the same slot, or in none
                sentences[number] = self.spaced(one, other)
        result: list[Replacement] = []
        done = 0
        for slot in self.slots:
            first, last = bisect_left(starts, slot.start), bisect_left(starts, slot.end)
            inside = sentences[first:last]
            is_unchanged = all(self.text[start:end] == written for start, end, written in inside)
            result += sentences[done:first]
            if is_unchanged:
                result.append((slot.start, slot.end, slot.source))
            elif slot.write is None:
                result += inside
            else:
                result.append((slot.start, slot.end, slot.write(self.fill(slot, inside))))
            done = last
        return result + sentences[done:]

    def spaced(self, one: Replacement, other: Replacement) -> Replacement:
        """A sentence's replacement with the space that its language has before the other sentence."""
        (start, end, written), (following, after, next_written) = one, other
        before, sources = self.text[end:following], (self.text[start:end], self.text[following:after])
        gap = gap_between(before, sources, (written, next_written))
        if gap == before or sources == (written, next_written):
            return one
        return (start, end, written + gap) if gap else (start, following, written)

    def fill(self, slot: Slot, sentences: Sequence[Replacement]) -> str:
        """The text of a slot with what is written in the places of its sentences."""
        parts: list[str] = []
        done = slot.start
        for start, end, written in sentences:
            parts += [self.text[done:start], written]
            done = end
        return "".join([*parts, self.text[done : slot.end]])

    def write(self, translations: Sequence[str]) -> bytes:
        """The file with the translations. Raises as `join`."""
        return self.join(translations).encode(self.encoding, "surrogateescape")


def check_count(segments: Sequence[Segment], translations: Sequence[str]) -> None:
    """Raise `DragomanError` if there are more or fewer translations than sentences."""
    if len(translations) != len(segments):
        raise DragomanError(
            f"The document has {len(segments)} sentences, and there are {len(translations)} translations; "
            "give one for each."
        )


def split_by_marks(segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """The numbers of the sentences without marks, and of those with marks, which need `keep_tags`."""
    unmarked = [number for number, segment in enumerate(segments) if not segment.marks]
    return unmarked, [number for number, segment in enumerate(segments) if segment.marks]


def compose(text: str, blocks: Iterable[Block], language: str, split: bool, syntax: Syntax) -> Document:
    """A document of blocks. `split` cuts them into sentences.

    Raises `CancelledError` if nobody wants it any more (`interruption`).
    """
    segments: list[Segment] = []
    interrupted = interruption.get()
    for block in blocks:
        if interrupted.is_set():
            raise CancelledError
        if is_plain(text, block, syntax):
            segments += plain_segments(block[0], language, split, syntax)
        else:
            segments += segments_of(text, block, language, split, syntax)
    return Document(text, tuple(segments))


def segments_of(text: str, block: Block, language: str, split: bool, syntax: Syntax) -> Iterator[Segment]:
    """The sentences of a block."""
    for pieces in cut_block(block, language, split, syntax):
        if trimmed := trim(pieces):
            yield from (to_segment(text, part, syntax) for part in cut_at_tags(trimmed))


def is_plain(text: str, block: Block, syntax: Syntax) -> bool:
    """Whether a block is one piece of text as the document has it, without addresses."""
    if len(block) != 1 or block[0].kind != "text":
        return False
    piece = block[0]
    return piece.text == text[piece.start : piece.end] and not kept_spans(piece.text, syntax)


def plain_segments(piece: Piece, language: str, split: bool, syntax: Syntax) -> Iterator[Segment]:
    """The sentences of a plain block: as `segments_of`, several times as fast."""
    ends = sentence_ends(piece.text, language) if split else []
    for start, end in pairwise([0, *ends, len(piece.text)]):
        sentence = without_signs(piece.text[start:end])
        if has_letter(sentence):
            first = piece.text.index(sentence, start) + piece.start
            yield Segment(sentence, first, first + len(sentence), sentence, syntax)


# ---- pieces → sentences


def cut_block(block: Block, language: str, split: bool, syntax: Syntax) -> list[Block]:
    """The pieces of each sentence, addresses and placeholders as pieces that stand alone."""
    block = without_reference_marks(block)
    text = "".join(piece.text for piece in block if piece.length)
    spans = kept_spans(text, syntax)
    words = list(text)  # to the search for ends, an address is a word that may begin a sentence
    for start, end in spans:
        words[start:end] = "W" + "w" * (end - start - 1)
    ends = sentence_ends("".join(words), language) if split else []
    sentences: list[Block] = [[]]
    number = 0
    for piece, offset in cut_pieces(block, sorted({*ends, *(edge for span in spans for edge in span)})):
        side = bisect_left if piece.kind == "close" else bisect_right
        number = max(number, side(ends, offset))
        while len(sentences) <= number:
            sentences.append([])
        span = bisect_right(spans, (offset, len(text))) - 1
        is_kept = piece.kind == "text" and span >= 0 and offset < spans[span][1]
        append_piece(sentences[number], piece._replace(kind="alone") if is_kept else piece)
    return sentences


def without_reference_marks(block: Block) -> Block:
    """The pieces, each pair of tags around the mark of a footnote as one piece that stands alone.

    The model would lose the mark, and put another word in its place.
    """
    partner = partners(block)
    result: Block = []
    place = 0
    while place < len(block):
        piece, closing = block[place], partner[place]
        if place < closing <= place + MAX_TAGS:  # a mark is short; nested pairs are not all searched
            inside = block[place + 1 : closing]
            text = "".join(part.text for part in inside if part.kind == "text").strip()
            is_raised = "sup" in {piece.text, *(part.text for part in inside if part.kind == "open")}
            if len(text) <= MAX_REFERENCE and (REFERENCE_MARK if not is_raised else RAISED_MARK).match(text):
                piece, place = Piece("alone", "", piece.start, block[closing].end), closing
        result.append(piece)
        place += 1
    return result


def append_piece(pieces: Block, piece: Piece) -> None:
    """Append a piece. Neighbours that stand alone become one."""
    if pieces and piece.kind == "alone" == pieces[-1].kind and pieces[-1].end == piece.start:
        piece = Piece("alone", "", pieces[-1].start, piece.end)
        pieces.pop()
    pieces.append(piece)


def kept_spans(text: str, syntax: Syntax) -> list[tuple[int, int]]:
    """Where addresses and placeholders stand in a text, and what looks like tags if the syntax keeps it."""
    if not syntax.keeps_tags and not (KEPT_SIGN.search(text) and KEPT_WITHOUT_TAGS.search(text)):
        return []
    return [match.span() for match in KEPT.finditer(text)]


def cut_pieces(block: Block, edges: Sequence[int]) -> Iterator[tuple[Piece, int]]:
    """The pieces with their offsets in the block's text, each text cut at the edges in it."""
    offset = 0
    for piece in block:
        first, last = bisect_right(edges, offset), bisect_left(edges, offset + piece.length)
        if piece.kind != "text" or piece.length != piece.end - piece.start or first >= last:
            yield piece, offset
        else:
            bounds = [0, *(edge - offset for edge in edges[first:last]), piece.length]
            for start, end in pairwise(bounds):
                yield (
                    Piece("text", piece.text[start:end], piece.start + start, piece.start + end),
                    offset + start,
                )
        offset += piece.length


def partners(pieces: Block) -> list[int]:
    """The place of each tag's partner; -1 for what has none. Pairs are nested."""
    result = [-1] * len(pieces)
    if all(piece.kind == "text" for piece in pieces):
        return result
    opened: list[int] = []
    names: Counter[str] = Counter()
    for place, (kind, name, _, _) in enumerate(pieces):
        if kind == "open":
            opened.append(place)
            names[name] += 1
        elif kind == "close" and names[name]:
            while pieces[opened[-1]].text != name:
                names[pieces[opened.pop()].text] -= 1
            names[name] -= 1
            result[place] = opened.pop()
            result[result[place]] = place
    return result


def has_words(pieces: Block) -> bool:
    """Whether there is a letter outside of tags and addresses."""
    return any(piece.kind == "text" and has_letter(piece.text) for piece in pieces)


def trim(pieces: Block) -> Block:
    """A sentence without what may stay outside of it at its edges; [] if it has no words.

    That is white space, addresses, and tags without a partner between the first and the last word, and at the
    start the punctuation marks that touch an address.
    """
    if not has_words(pieces):
        return []
    text = text_of(pieces)
    offsets = list(accumulate((len(text_of([piece])) for piece in pieces), initial=0))
    first = bisect_right(offsets, first_word(text)) - 1
    last = bisect_left(offsets, last_word(text)) - 1
    partner = partners(pieces)
    start, end = 0, len(pieces)
    while start < first and not first < partner[start] < last:
        start += 1
    while end - 1 > last and not first < partner[end - 1] < last:
        end -= 1
    follows_kept = start > 0 and pieces[start - 1].kind != "text"
    return without_empty_pairs(strip(pieces[start:end], follows_kept))


def text_of(pieces: Block) -> str:
    """The texts of the pieces, with a space for each of the others."""
    return "".join(piece.text if piece.kind == "text" else " " for piece in pieces)


def without_empty_pairs(pieces: Block) -> Block:
    """The pieces, each pair of tags without words in it as one piece that stands alone."""
    partner = partners(pieces)
    content = list(accumulate((piece.is_content for piece in pieces), initial=0))
    joined: Block = []
    place = 0
    while place < len(pieces):
        piece, closing = pieces[place], partner[place]
        if closing > place and content[place] == content[closing]:
            piece, place = Piece("alone", "", piece.start, pieces[closing].end), closing
        append_piece(joined, piece)
        place += 1
    return joined


def without_signs(text: str) -> str:
    """A text without white space and `_SIGN` at its edges."""
    text = text[first_word(text) :]
    return text[: last_word(text)]


def first_word(text: str) -> int:
    """The place behind the white space and the signs at the start of a text."""
    match = SIGNS_BEFORE.match(text)
    return match.end() if match else 0


def last_word(text: str) -> int:
    """The place before the white space and the signs at the end of a text."""
    end = len(text.rstrip())
    match = SIGNS_BEHIND.search(text, max(0, end - MAX_SIGNS), end)
    return match.start() if match else end


def strip(pieces: Block, follows_kept: bool) -> Block:
    """The pieces without white space and signs at their edges. The first and last text are not these alone.

    Behind what is kept outside of the sentence, they are also without the punctuation marks that touch it.
    """
    pieces = list(pieces)
    head = pieces[0]
    if head.kind == "text" and head.length == head.end - head.start:
        text = CLOSING_MARKS.sub("", head.text, count=1) if follows_kept else head.text
        text = text[first_word(text + text_of(pieces[1:])) :]
        pieces[0] = Piece("text", text, head.end - len(text), head.end)
    tail = pieces[-1]
    if tail.kind == "text" and tail.length == tail.end - tail.start:
        before = text_of(pieces[:-1])
        text = (before + tail.text)[len(before) : last_word(before + tail.text)]
        pieces[-1] = Piece("text", text, tail.start, tail.start + len(text))
    return pieces


def cut_at_tags(pieces: Block) -> list[Block]:
    """A sentence, or if it has more tags than `MAX_TAGS` the texts between them."""
    if sum(piece.kind != "text" for piece in pieces) <= MAX_TAGS:
        return [pieces]
    runs: list[Block] = [[]]
    for piece in pieces:
        if piece.kind == "text":
            runs[-1].append(piece)
        elif runs[-1]:
            runs.append([])
    return [trimmed for run in runs if (trimmed := trim(run))]


def is_inside_word(pieces: Block, place: int) -> bool:
    """Whether letters or digits touch a piece on both sides."""
    around = pieces[place - 1], pieces[min(place + 1, len(pieces) - 1)]
    texts = [piece.text if piece.kind == "text" else "" for piece in around]
    return texts[0][-1:].isalnum() and texts[1][:1].isalnum()


def to_segment(text: str, pieces: Block, syntax: Syntax) -> Segment:
    """The segment of a sentence's pieces, with a mark for each that is not text."""
    partner = partners(pieces)
    words: list[str] = []
    marks: list[tuple[str, str]] = []
    numbers: dict[int, int] = {}  # of the marks; that of a pair stands at its first
    for place, (kind, words_of_piece, start, end) in enumerate(pieces):
        if kind == "text":
            words.append(words_of_piece)
            continue
        first = partner[place] if kind == "close" and partner[place] >= 0 else place
        number = numbers.setdefault(first, len(numbers) + 1)
        name = {
            "open": f"<g{number}>",
            "close": f"</g{number}>",
            "alone": f"<g{number}/>",
            "cue": f"<cue{number}/>",
        }[kind]
        if kind == "alone" and not words_of_piece and is_inside_word(pieces, place):
            name = f"<g{number}>"  # a tag without a partner does not cut a word
        words.append(name)
        marks.append((name, CUE_END if kind == "cue" else text[start:end]))
    start, end = pieces[0].start, pieces[-1].end
    return Segment("".join(words), start, end, text[start:end], syntax, tuple(marks))

"""Tags and placeholders of a sentence: removed before it is translated, and restored by word alignment."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise, zip_longest
from typing import NamedTuple

from dragoman.system.futures import interruption

_IN_TAG = r"""(?:(?:[^<>"']|"[^"<]*"|'[^'<]*')*+|[^<>]*)"""
"""The inside of a tag, with > in quoted values only; if a quotation mark is alone, up to the first >."""
_CONVERSION = (
    r"(?<![\w%])%(?:\(\w+\)|\{\w+\}|\d+\$)?[-+0#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?"
    r"(?:hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGcCsSp@]"
)
"""A conversion of printf, as C, Java, Objective-C, Python and Ruby write it."""
_BETWEEN_PERCENT_SIGNS = r"(?<![\w%])%[A-Za-z_][\w.-]+%(?![\w%])"
VARIABLE = rf"[$#]?\{{[^{{}}\s]*\}}|\{{\{{[^{{}}]*\}}\}}|\[X\d+X\]|{_BETWEEN_PERCENT_SIGNS}|{_CONVERSION}"
"""{name}, ${name}, {{ name }}, %s, %(name)s, %name%, and Weblate's [X6X]."""
PLACEHOLDER = rf"{VARIABLE}|<[A-Za-z]{_IN_TAG}/>"
TAG = re.compile(rf"{PLACEHOLDER}|</?[A-Za-z]{_IN_TAG}>")
ENDS_SENTENCE = re.compile(r"[.!?…。！？]+[^\w\s<>]*+(?=\s|$|</)")
"""Punctuation marks that end a sentence."""
CUE = re.compile(r"<cue\d+/>")
"""Where a cue of subtitles ends within a sentence: the words before it are those that are read first."""
CLAUSE_MARK = re.compile(r"[,;:，、；：]$")
"""A mark that ends a part of a sentence: a placeholder that keeps it belongs to the word before."""
GENITIVE = re.compile(r"['’]s(?!\w)")
"""The ending of an English genitive, which is kept with its placeholder: {name}'s."""
PUNCTUATION = re.compile(r"([.,;:!?…)\]\"'”’»“。，、！？]+)(?=\s|$|[<{])")
"""Punctuation marks between a placeholder and the end of its word."""
MARKS = re.compile(r"[\W_]*")
"""Punctuation marks, at the start of a word or in all of it."""
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f]")
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese."""


@dataclass(frozen=True)
class Tag:
    """A tag and the source word that it belongs to.

    A closing tag belongs to the word before it, any other tag to the word after it. A placeholder before
    punctuation belongs to the word that gets the punctuation: in "My name is {name}." this is "is.".
    """

    text: str
    word: int
    """Counted from 0 in the sentence without tags. -1 is before the first word, the number of words after the
    last."""
    follows_word: bool
    """The tag stands after its word, and not before it."""
    attached: bool
    """There is no space between the tag and its word."""
    punctuation: int = 0
    """The number of punctuation marks at the end of its word that come after the tag."""
    on_punctuation: bool = False
    """Its word consists of punctuation marks only."""
    leading: int = 0
    """The number of punctuation marks at the start of its word that come before the tag."""
    within: tuple[str, int] | None = None
    """Of a tag inside a word: the word, and the number of its characters before the tag."""
    after_space: bool = False
    """A space, or nothing, stands directly before the tag."""
    before_space: bool = False
    """A space stands directly after the tag."""
    is_placeholder: bool = False
    is_cue: bool = False
    """It is the end of a cue, before its word."""


# ---- removing


class Unit(NamedTuple):
    """A tag as it stands in a sentence, or a placeholder with what it keeps beside it."""

    text: str
    start: int
    end: int
    is_placeholder: bool


def find_units(sentence: str) -> list[Unit]:
    """The tags of a sentence, and its placeholders, each with the punctuation marks that touch it.

    The model does not see these marks, so it cannot lose them: brackets, quotation marks, a colon. Those that
    end the sentence stay with its words. Placeholders that touch each other are one, and so is a pair of tags
    with placeholders alone in it.
    """
    units: list[Unit] = []
    tags = [Unit(match[0], *match.span(), is_placeholder(match[0])) for match in TAG.finditer(sentence)]
    tags = without_pairs_of_placeholders(sentence, tags)
    for tag, following in zip_longest(tags, tags[1:], fillvalue=Unit("", len(sentence), 0, False)):
        if not tag.is_placeholder:
            units.append(tag)
            continue
        limits = units[-1].end if units else 0, following.start
        start, end = with_signs(sentence, tag.start, tag.end, *limits, is_word=not tag.text.startswith("<"))
        if units and units[-1].is_placeholder and units[-1].end == start:
            start = units.pop().start
        units.append(Unit(sentence[start:end], start, end, is_placeholder=True))
    return units


def with_signs(text: str, start: int, end: int, first: int, last: int, *, is_word: bool) -> tuple[int, int]:
    """What is kept from `start` to `end` with the punctuation marks and symbols that touch it.

    They stand between `first` and `last`. Marks that also touch another word are kept if this is a word
    itself. Those that end a sentence are not. A bracket or quotation mark without a partner on the other side
    belongs to the words, if it touches one or follows the first.
    """
    if genitive := GENITIVE.match(text, end, last):
        end = genitive.end()
    left, right = start, end
    while left > first and is_sign(text[left - 1]):
        left -= 1
    while right < last and is_sign(text[right]) and not ENDS_SENTENCE.match(text, right):
        right += 1
    if not is_word and left > first and text[left - 1].isalnum():
        left = start
    if not is_word and right < last and text[right].isalnum():
        right = end
    while start > left or end < right:
        while start > left and not is_bracket(text[start - 1]):
            start -= 1
        while end < right and not is_bracket(text[end]):
            end += 1
        if not (start > left and end < right):
            break
        start, end = start - 1, end + 1
    is_first = first == 0 and not any(map(str.isalnum, text[:left]))
    touches_word = left > first and text[left - 1].isalnum()
    return start if touches_word else left, right if is_first else end


def is_sign(character: str) -> bool:
    """Whether a character is a punctuation mark or a symbol, but no angle bracket."""
    return unicodedata.category(character)[0] in "PS" and character not in "<>"


def is_bracket(character: str) -> bool:
    """Whether a character is a bracket or a quotation mark."""
    return character in "\"'" or unicodedata.category(character) in {"Ps", "Pe", "Pi", "Pf"}


def without_pairs_of_placeholders(sentence: str, tags: Sequence[Unit]) -> list[Unit]:
    """The tags, each pair of tags that has placeholders and white space alone in it as one placeholder."""
    closings = dict(matching_tags(tags))
    placeholders = list(accumulate((tag.is_placeholder for tag in tags), initial=0))
    letters = list(
        accumulate(
            (len("".join(sentence[tag.end : following.start].split())) for tag, following in pairwise(tags)),
            initial=0,
        )
    )
    result: list[Unit] = []
    number = 0
    while number < len(tags):
        tag, closing = tags[number], closings.get(number, number)
        if placeholders[closing] > placeholders[number] and letters[closing] == letters[number]:
            end = tags[closing].end
            tag, number = Unit(sentence[tag.start : end], tag.start, end, is_placeholder=True), closing
        result.append(tag)
        number += 1
    return result


class Occurrence(NamedTuple):
    """A tag as it stands in the source."""

    text: str
    position: int
    """The index of the next character in the sentence without tags."""
    touches_previous: bool
    """There is no space before the tag."""
    touches_next: bool
    """There is no space after the tag, or after the closing tags that follow a placeholder."""
    is_placeholder: bool
    punctuation: int
    """The number of punctuation marks after a placeholder; 0 for other tags."""
    after_space: bool
    before_space: bool
    ends_word: bool
    """It opens no pair and closes none, and has a space after it and the tags that follow it directly. It
    touches what is before it, or keeps a comma or another mark that ends a part of a sentence."""


def remove_tags(sentence: str) -> tuple[str, list[Tag]]:
    """The sentence without its tags, single spaces between its words, and the tags in order.

    The ends of cues stand behind all other tags.
    """
    plain, occurrences = cut_tags(CUE.sub("", sentence))
    words = plain.split()
    starts = [word.start() for word in re.finditer(r"\S+", plain)]
    tags = [assign_word(occurrence, plain, starts) for occurrence in occurrences]
    marks = {number for number, word in enumerate(words) if is_punctuation(word)}
    return " ".join(words), [
        replace(
            tag,
            is_placeholder=occurrence.is_placeholder,
            on_punctuation=tag.word in marks,
            after_space=occurrence.after_space,
            before_space=occurrence.before_space,
        )
        for tag, occurrence in zip(tags, occurrences, strict=True)
    ] + [
        Tag(cue[0], words_before(sentence, cue.start()), follows_word=False, attached=True, is_cue=True)
        for cue in CUE.finditer(sentence)
    ]


def words_before(sentence: str, position: int) -> int:
    """The number of words before a position, without tags."""
    return len(cut_tags(CUE.sub("", sentence[:position]))[0].split())


def cut_tags(sentence: str) -> tuple[str, list[Occurrence]]:
    """The sentence without its tags, other spaces as they were, and the tags in order."""
    plain, end, text_end = "", 0, 0  # text_end: without the spaces at the end of `plain`
    occurrences: list[Occurrence] = []
    separates = False
    units = find_units(sentence)
    row_ends = ends_of_rows(units)
    counts = following_punctuation(sentence, units, row_ends)
    openings = {units[opening].start for opening, _ in matching_tags(units)}
    ends_of_runs: dict[int, int] = {}  # where a run of tags that open no pair ends, by where it begins
    for unit in reversed(units):
        if unit.start not in openings:
            ends_of_runs[unit.start] = ends_of_runs.get(unit.end, unit.end)
    for unit, marks, row_end in zip(units, counts, row_ends, strict=True):
        between = sentence[end : unit.start]
        if between.strip():
            text_end = len(plain) + len(between.rstrip())
        plain += between
        end = unit.end
        touches_previous, touches_next = (
            plain[-1:].strip() != "",
            sentence[row_end : row_end + 1].strip() != "",
        )
        last = occurrences[-1] if occurrences else None
        # Another tag between the placeholder and the word before it keeps the punctuation from that word.
        is_separated = last and not last.punctuation and last.position > text_end
        punctuation = 0 if is_separated else marks
        if punctuation and plain[text_end - 1 : text_end].isalnum():
            plain = plain[:text_end]  # the punctuation joins the word before the placeholder
        separates = unit.is_placeholder or (separates and not between)
        neighbours = plain[-1:] + sentence[end : end + 1]
        are_letters = not punctuation and len(neighbours) == 2 and neighbours.isalnum()
        if are_letters and (separates or UNSPACED.search(neighbours)):
            plain += " "  # the tag separates two words
        after_space = not sentence[: unit.start][-1:].strip()
        before_space = sentence[end : end + 1].isspace()
        run_end = ends_of_runs.get(unit.start, len(sentence))
        is_alone = unit.start in ends_of_runs and (unit.is_placeholder or not unit.text.startswith("</"))
        occurrences.append(
            Occurrence(
                unit.text,
                len(plain),
                touches_previous,
                touches_next,
                unit.is_placeholder,
                punctuation,
                after_space,
                before_space,
                is_alone
                and not sentence[run_end : run_end + 1].strip()
                and (touches_previous or (text_end > 0 and CLAUSE_MARK.search(unit.text) is not None)),
            )
        )
    return plain + sentence[end:], occurrences


def following_punctuation(sentence: str, units: Sequence[Unit], row_ends: Sequence[int]) -> list[int]:
    """The number of punctuation marks after each placeholder or row of placeholders; 0 for other tags."""
    counts: list[int] = []
    following: Unit | None = None
    for unit, row_end in zip(reversed(units), reversed(row_ends), strict=True):
        count = 0
        if unit.is_placeholder:
            if marks := PUNCTUATION.match(sentence, row_end):
                count = len(marks[1])
                if following and following.start == marks.end():
                    count += counts[-1]  # the same word goes on: {day}.{month}.{year}
            elif following and not sentence[unit.end : following.start].strip():
                count = counts[-1]
        counts.append(count)
        following = unit
    return counts[::-1]


def ends_of_rows(units: Sequence[Unit]) -> list[int]:
    """Where each tag ends; of a placeholder, with the closing tags of pairs that directly follow it."""
    closings = {units[closing].start for _, closing in matching_tags(units)}
    ends: list[int] = []
    closing: dict[int, int] = {}  # where a row of closing tags ends, by where it begins
    for unit in reversed(units):
        row_end = closing.get(unit.end, unit.end)
        if unit.start in closings:
            closing[unit.start] = row_end
        ends.append(row_end if unit.is_placeholder else unit.end)
    return ends[::-1]


def assign_word(occurrence: Occurrence, plain: str, starts: Sequence[int]) -> Tag:
    """The tag with its word. `starts` are the positions in `plain` where words start."""
    text, position, touches_previous, touches_next, is_placeholder, punctuation, after_space, _, ends_word = (
        occurrence
    )
    words_before = bisect_left(starts, position)
    is_in_word = plain[position - 1 : position].strip() != "" and plain[position : position + 1].strip() != ""
    if punctuation:
        return Tag(text, words_before - is_in_word, True, touches_previous, punctuation)
    joins = touches_previous and is_in_word
    space = re.compile(r"\s").search(plain, position)
    rest = plain[position : space.start() if space else None]
    head = plain[starts[words_before - 1] : position] if joins else ""
    within = (head + rest, len(head)) if joins and touches_next else None
    if text.startswith("</") and not is_placeholder:
        marks = len(rest) if touches_previous and is_punctuation(rest) else 0
        return Tag(text, words_before - 1, True, not after_space, marks, within=within)
    if ends_word:
        return Tag(text, words_before - 1, True, attached=touches_previous)
    leading = len(head) if is_punctuation(head) else 0
    return Tag(text, words_before - joins, False, touches_next, leading=leading, within=within)


def is_placeholder(text: str) -> bool:
    """Whether a tag is a placeholder: {name}, {{name}} or <name/>."""
    return not text.startswith("<") or (text.endswith("/>") and not text.startswith("</"))


def leading_marks(word: str) -> int:
    """The number of punctuation marks at the start of a word."""
    match = MARKS.match(word)
    return match.end() if match else 0


def is_punctuation(word: str) -> bool:
    """Whether a word consists of punctuation marks only."""
    return MARKS.fullmatch(word) is not None


# ---- restoring


class TaggedWords:
    """The words of a translation, and the tags that are written before, in and after each of them."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.before: list[list[str]] = [[] for _ in range(len(words) + 1)]
        """The last are the tags at the end of the sentence."""
        self.inside: list[list[tuple[int, str]]] = [[] for _ in words]
        """Tags before the punctuation marks of their word, with their positions in the word."""
        self.after: list[list[str]] = [[] for _ in words]
        self.cues: list[list[str]] = [[] for _ in range(len(words) + 1)]
        """The ends of cues before each word, and at the end of the sentence."""

    def add_before(self, word: int, tag: Tag) -> None:
        """Write a tag before a word, after its first punctuation marks if the tag asks for it, or at the end
        of the sentence.
        """
        text = tag.text + ("" if tag.attached else " ")
        if word == len(self.words):
            self.before[word].append(text)
            return
        offset = place_within(self.words[word], tag)
        if offset is None:
            offset = min(tag.leading, leading_marks(self.words[word]))
        self.write_before(word, text, offset)

    def add_after(self, word: int, tag: Tag) -> None:
        """Write a tag after a word, before its last punctuation marks if the tag asks for it; -1 is none."""
        if word < 0:
            self.add_before(0, tag)
            return
        text = tag.text if tag.attached else " " + tag.text
        written = self.words[word]
        offset = place_within(written, tag)
        if offset is None and tag.punctuation:
            offset = len(written) - min(tag.punctuation, leading_marks(written[::-1]))
        if offset is None or self.after[word]:
            self.after[word].append(text)
        else:
            self.cut(word, offset, text)

    def write_before(self, word: int, text: str, position: int = 0) -> None:
        """Write tags before a word or at a position in it, after the tags that are already in the word."""
        if position or (word < len(self.words) and self.inside[word]):
            self.cut(word, position, text)
        else:
            self.before[word].append(text)

    def cut(self, word: int, position: int, text: str) -> None:
        """Write a tag at a position in a word, or after the tags that are already in the word."""
        earlier = self.inside[word][-1][0] if self.inside[word] else 0
        self.inside[word].append((max(position, earlier), text))

    def __str__(self) -> str:
        parts = ["".join(self.before[0])]
        for number, word in enumerate(self.words):
            offsets = [0, *(offset for offset, _ in self.inside[number]), len(word)]
            pieces = [word[start:end] for start, end in pairwise(offsets)]
            inserted = [*(text for _, text in self.inside[number]), ""]
            written = "".join(chain(*zip(pieces, inserted, strict=True)))
            parts[-1] += written + "".join(self.after[number])
            parts.append("".join(self.before[number + 1]))
        parts = [
            "".join(cues) + part.strip()
            for cues, part in zip(self.cues, parts, strict=True)
            if cues or part.strip()
        ]
        return " ".join(parts)


def place_within(written: str, tag: Tag) -> int | None:
    """Where a tag from inside a word stands in its translation, if that differs in punctuation only.

    The order of such tags is kept.
    """
    if tag.within is None or core(written) != core(tag.within[0]):
        return None
    word, place = tag.within
    marks, after = leading_marks(word), len(word) - place
    if place <= marks:
        return min(place, leading_marks(written))
    if place < marks + len(core(word)):
        return leading_marks(written) + place - marks
    return len(written) - min(after, leading_marks(written[::-1]))


def restore_tags(tags: Sequence[Tag], translation: str, alignment: Sequence[tuple[int, int]]) -> str:
    """Put each pair of tags around the target words that are aligned with the source words inside it.

    Pairs stay nested. A pair without aligned words encloses the nearest one that no other pair has. A
    placeholder or an unpaired tag goes beside the target word that is aligned with its source word, or else
    with the nearest aligned source word; it stays inside the pairs that are around it.
    """
    cues = [tag for tag in tags if tag.is_cue]
    tags = [tag for tag in tags if not tag.is_cue]
    words = [word for word in translation.split(" ") if word]  # a no-break space is inside a word
    alignment = [link for link in alignment if 0 <= link[1] < len(words)]  # it may count words otherwise
    spans = pair_spans(tags, words, alignment)
    targets = target_ranges([*alignment, *links_of_pairs(tags, spans, alignment)])
    tagged = TaggedWords(words)
    for cue in cues:
        tagged.cues[cue_end(cue.word, words, alignment)].append(cue.text)
    written = 0  # tags, with those inside an empty pair
    earliest = -1  # a tag that follows its word does not go before a tag that precedes it in the source
    opened: list[PairSpan] = []
    for number, tag in enumerate(tags):
        if number < written:
            continue
        span = spans.get(number)
        next_word = nearest_target(tag.word, targets, 1, default=len(words))
        place = bisect_left(targets, (tag.word,))
        # Its own word follows, or none does.
        is_beside = next_word == len(words) or targets[place][0] == tag.word
        pair = opened[-1] if opened else None  # the one that is around the tag
        next_word = max(next_word, pair.first) if pair else next_word
        is_at_end = pair is not None and (next_word > pair.last or tag.word > tags[pair.closing].word)
        if span and span.first < 0:
            written = span.closing + 1
            row = "".join(inner.text + (" " if inner.before_space else "") for inner in tags[number:written])
            if pair and is_at_end:
                tagged.after[pair.last].append((" " if tag.after_space else "") + row.rstrip())
            else:
                tagged.write_before(next_word, row if is_beside else row.rstrip() + " ")
        elif span and number < span.closing:
            tagged.add_before(span.first, tag)
            opened.append(span)
        elif span:
            tagged.add_after(span.last, tag)
            opened.pop()
        elif pair and is_at_end and not tag.follows_word:
            tagged.add_after(pair.last, replace(tag, attached=not tag.after_space))
            earliest = max(earliest, pair.last)
        elif not tag.follows_word:
            tagged.add_before(next_word, replace(tag, attached=tag.attached and is_beside))
            earliest = max(earliest, next_word)
        elif earliest == len(words):
            tagged.before[-1].append(tag.text)
        else:
            previous_word = max(nearest_target(tag.word, targets, -1, default=-1), earliest)
            earliest = max(earliest, add_after_its_word(tagged, tag, previous_word, pair))
    return str(tagged)


def cue_end(word: int, words: Sequence[str], alignment: Sequence[tuple[int, int]]) -> int:
    """The target word before which a cue ends that ends before a source word.

    Fewest target words that are aligned stand on the other side than their source words. Words without a
    link, such as many articles, go to the words behind them, unless a mark ends them.
    """
    changes = [0] * len(words)  # of the words on the wrong side, when the end moves over a word
    for source, target in alignment:
        changes[target] += 1 if source >= word else -1
    wrong = list(accumulate(changes, initial=sum(source < word for source, _ in alignment)))
    is_in_clause = [place == 0 or not CLAUSE_MARK.search(words[place - 1]) for place in range(len(wrong))]
    return min(range(len(wrong)), key=lambda place: (wrong[place], is_in_clause[place]))


def add_after_its_word(tagged: TaggedWords, tag: Tag, word: int, pair: "PairSpan | None") -> int:
    """Write a tag after this word, or if the word is not in the pair around the tag, at the pair's edge.

    Returns the word before which the tag stands if it was written at the pair's beginning, otherwise -1.
    """
    if pair and word < pair.first:
        tagged.add_before(pair.first, replace(tag, attached=False))
        return pair.first
    if pair and word > pair.last:
        tagged.add_after(pair.last, replace(tag, punctuation=0))
    else:
        tagged.add_after(min(word, len(tagged.words) - 1), tag)
    return -1


class PairSpan(NamedTuple):
    """The target words that a pair of tags encloses."""

    closing: int
    """The number of the closing tag."""
    first: int
    """The first target word; -1 for an empty pair."""
    last: int
    """The last target word; -1 for an empty pair."""


def matching_tags(tags: Sequence[Tag | Unit]) -> list[tuple[int, int]]:
    """The numbers of the opening and the closing tag of each pair, in the order of the opening tags."""
    pairs: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []
    open_names: Counter[str] = Counter()
    for number, tag in enumerate(tags):
        if tag.is_placeholder:
            continue
        name = re.split(r"[\s>]", tag.text.lstrip("</"))[0]
        if not tag.text.startswith("</"):
            opened.append((name, number))
            open_names[name] += 1
        elif open_names[name]:
            while opened[-1][0] != name:
                open_names[opened.pop()[0]] -= 1  # it has no closing tag
            open_names[name] -= 1
            pairs.append((opened.pop()[1], number))
    return sorted(pairs)


def pair_spans(
    tags: Sequence[Tag], words: Sequence[str], alignment: Sequence[tuple[int, int]]
) -> dict[int, PairSpan]:
    """The span of each pair, under the numbers of both its tags. Spans are nested, or disjoint, or parts of
    the same word.

    Raises `CancelledError` if it is cancelled.
    """
    spans: dict[int, PairSpan] = {}
    enclosing = [Enclosing(len(tags), set(range(len(words))), set())]
    links = sorted(alignment)
    for opening, closing in matching_tags(tags):
        if interruption.get().is_set():
            raise CancelledError
        while enclosing[-1].closing < opening:
            enclosing.pop()
        _, free, parts = enclosing[-1]
        ends = tags[opening], tags[closing]
        aligned = aligned_words(*ends, words, links) if free or parts else set()
        part = {(ends[0].word, word) for word in aligned} if is_part_of_word(*ends, words, aligned) else set()
        if not part or not part <= parts:
            aligned &= free
            parts |= part if aligned else set()
        if not aligned and not (ends[0].on_punctuation and ends[1].on_punctuation):
            aligned = nearest_word(*ends, words, links, free)
        first = last = min(aligned, default=-1)
        while last + 1 in free:
            last += 1
        last = max((word for word in aligned if word <= last), default=-1)
        inside = set(range(first, last + 1)) if aligned else set()
        free -= inside
        enclosing.append(Enclosing(closing, inside, set()))
        spans[opening] = spans[closing] = PairSpan(closing, first, last)
    return spans


def links_of_pairs(
    tags: Sequence[Tag], spans: Mapping[int, PairSpan], alignment: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Links from the words of each pair that has none to the target word that the pair encloses."""
    linked = {source for source, _ in alignment}
    for opening, span in spans.items():
        inside = range(tags[opening].word, tags[span.closing].word + 1)
        is_elsewhere = span.first >= 0 and linked.isdisjoint(inside)
        if opening != span.closing and is_elsewhere:
            yield from ((word, span.first) for word in inside)


class Enclosing(NamedTuple):
    """A pair around the current one."""

    closing: int
    """The number of its closing tag."""
    free: set[int]
    """The target words inside that no pair in it has."""
    parts: set[tuple[int, int]]
    """Source words of which pairs in it enclose parts, each with its target word."""


def aligned_words(
    opening: Tag, closing: Tag, words: Sequence[str], links: Sequence[tuple[int, int]]
) -> set[int]:
    """The target words that are aligned with a source word inside a pair; `links` are sorted.

    Alignments of punctuation are often wrong. A target word of punctuation counts only if a pair starts with
    punctuation that is aligned with it and it comes before the other words, or if a pair ends so and it comes
    after them.
    """
    links = links[bisect_left(links, (opening.word,)) : bisect_left(links, (closing.word + 1,))]
    inside = {target for _, target in links if not is_punctuation(words[target])}
    marks = [(source, target) for source, target in links if target not in inside]
    leading = {target for source, target in marks if opening.on_punctuation and source == opening.word}
    trailing = {target for source, target in marks if closing.on_punctuation and source == closing.word}
    if not inside:
        return leading | trailing
    return (
        inside
        | {target for target in leading if target < min(inside)}
        | {target for target in trailing if target > max(inside)}
    )


def nearest_word(
    opening: Tag,
    closing: Tag,
    words: Sequence[str],
    links: Sequence[tuple[int, int]],
    free: Collection[int],
) -> set[int]:
    """A free target word for a pair without aligned words: one without links if there is any, the nearest.

    There is none for a pair without source words.
    """
    candidates = {word for word in free if not is_punctuation(words[word])}
    if opening.word > closing.word or not candidates:
        return set()
    unaligned = candidates - {target for _, target in links}
    expected = nearest_target(opening.word, target_ranges(links), 1, default=len(words))
    return {min(unaligned or candidates, key=lambda word: (abs(word - expected), word))}


def is_part_of_word(opening: Tag, closing: Tag, words: Sequence[str], aligned: set[int]) -> bool:
    """Whether a pair encloses a part of a source word that the translation has as it is.

    Several pairs can enclose parts of the same word, as in H<sub>2</sub>SO<sub>4</sub>.
    """
    within = opening.within or closing.within
    if within is None or opening.word != closing.word or len(aligned) != 1:
        return False
    (word,) = aligned
    return core(words[word]) == core(within[0])


def core(word: str) -> str:
    """A word without the punctuation around it."""
    return word[leading_marks(word) : len(word) - leading_marks(word[::-1])]


TargetRanges = list[tuple[int, int, int]]


def target_ranges(alignment: Sequence[tuple[int, int]]) -> TargetRanges:
    """Each aligned source word, in order, with the first and the last target word aligned with it."""
    targets: dict[int, list[int]] = {}
    for source, target in alignment:
        targets.setdefault(source, []).append(target)
    return [(source, min(words), max(words)) for source, words in sorted(targets.items())]


def nearest_target(word: int, ranges: TargetRanges, direction: int, default: int) -> int:
    """The first target of this or the next aligned source word (1), the last of the previous (-1)."""
    place = bisect_left(ranges, (word,)) if direction > 0 else bisect_left(ranges, (word + 1,)) - 1
    if not 0 <= place < len(ranges):
        return default
    _, first, last = ranges[place]
    return first if direction > 0 else last

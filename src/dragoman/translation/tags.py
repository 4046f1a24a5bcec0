"""Tags and placeholders of a sentence: taken out before it is translated, and put back by alignment."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

PLACEHOLDER = r"\{[^{}\s]*\}|\{\{[^{}\s]*\}\}|<[A-Za-z][^<>]*/>"
TAG = re.compile(rf"{PLACEHOLDER}|</?[A-Za-z][^<>]*>")
PUNCTUATION = re.compile(r"([.,;:!?…)\]\"'”’»“。，、！？]+)(?=\s|$|[<{])")
"""What follows a placeholder that stands for the last word before a punctuation mark."""
END_OF_WORD = re.compile(r"[\W_]*$")


@dataclass(frozen=True)
class Tag:
    """A tag, and the word that it belongs to: a closing tag to the word before it, any other to the next.

    A placeholder before punctuation belongs to the word that then has the punctuation: in "My name is
    {name}." to "is.".
    """

    text: str
    word: int
    """Counted from 0 in the sentence without tags; the number of its words where none follows, -1 where none
    comes before."""
    after: bool
    """Whether it comes after its word, but for the punctuation in `inside`."""
    glued: bool
    """No space between the tag and its word."""
    inside: int = 0
    """So many punctuation marks at its word's end follow the tag."""
    at_mark: bool = False
    """Its word is nothing but punctuation."""


class _Found(NamedTuple):
    """A tag as it is met."""

    text: str
    place: int
    """In the sentence without tags."""
    after_word: bool
    """No space before it."""
    before_word: bool
    """No space after it."""
    marks: int
    """Of a placeholder before punctuation: how many marks."""


def marks_after(sentence: str, tags: Sequence[re.Match[str]]) -> list[int]:
    """For each placeholder how many punctuation marks follow it, other placeholders between; 0 for tags."""
    marks: list[int] = []
    for match, later in zip(reversed(tags), [None, *reversed(tags)], strict=False):
        there = PUNCTUATION.match(sentence, match.end())
        chained = (
            later is not None
            and re.fullmatch(PLACEHOLDER, later[0])
            and not sentence[match.end() : later.start()].strip()
        )
        marks.append(len(there[1]) if there else marks[-1] if chained else 0)
    return [
        count if re.fullmatch(PLACEHOLDER, match[0]) else 0
        for match, count in zip(tags, reversed(marks), strict=True)
    ]


def remove_tags(sentence: str) -> tuple[str, list[Tag]]:
    """The sentence without its tags, its words parted by single spaces, and the tags in their order."""
    plain, end = "", 0
    found: list[_Found] = []
    matches = list(TAG.finditer(sentence))
    for match, following in zip(matches, marks_after(sentence, matches), strict=True):
        plain += sentence[end : match.start()]
        end = match.end()
        after_word, before_word = plain[-1:].strip() != "", sentence[end : end + 1].strip() != ""
        parted = found and not found[-1].marks and found[-1].place > len(plain.rstrip())
        marks = 0 if parted else following  # another tag stands between it and the word before
        if marks and plain.rstrip()[-1:].isalnum():
            plain = plain.rstrip()  # no word parts the punctuation from the one before it any more
        elif plain[-1:].isalnum() and sentence[end : end + 1].isalnum():
            plain += " "  # a tag that parts two words
        found.append(_Found(match[0], len(plain), after_word, before_word, marks))
    plain += sentence[end:]
    tags, begins = [], [word.start() for word in re.finditer(r"\S+", plain)]
    for text, place, after_word, before_word, marks_there in found:
        started = bisect_left(begins, place)
        within = plain[place - 1 : place].strip() != "" and plain[place : place + 1].strip() != ""
        if marks_there:
            tags.append(Tag(text, started - within, True, after_word, marks_there))
        elif text.startswith("</"):
            rest = plain[place:].split(" ")[0]
            tags.append(
                Tag(
                    text,
                    started - 1,
                    True,
                    after_word,
                    len(rest) if after_word and END_OF_WORD.fullmatch(rest) else 0,
                )
            )
        else:
            tags.append(Tag(text, started - (after_word and within), False, before_word))
    words = plain.split()
    marks_only = {number for number, word in enumerate(words) if END_OF_WORD.fullmatch(word)}
    return " ".join(words), [replace(tag, at_mark=tag.word in marks_only) for tag in tags]


def restore_tags(tags: Sequence[Tag], translation: str, alignment: Sequence[tuple[int, int]]) -> str:
    """Put a pair of tags around the words that are aligned with the words inside it in the source.

    Pairs stay nested. A pair without such a word stays empty. A placeholder or an unpaired tag goes beside
    the word that is aligned with its own word, or with the next aligned one.
    """
    words = translation.split()
    placed = pair_spans(tags, words, alignment)
    in_unit: set[int] = set()  # tags that were written with the empty pair around them
    before: list[list[str]] = [[] for _ in range(len(words) + 1)]
    inside: list[list[tuple[int, str]]] = [[] for _ in range(len(words) + 1)]
    after: list[list[str]] = [[] for _ in range(len(words) + 1)]
    latest, reached = 0, reaches(alignment)
    for number, tag in enumerate(tags):
        space = "" if tag.glued else " "
        closing, first, end = placed.get(number, (-1, -1, -1))
        if number in in_unit:
            continue
        if closing > number and first < 0:  # an empty pair
            place = min(nearest(tag.word, reached, 1, default=len(words)), len(words))
            before[place].append("".join(inner.text for inner in tags[number : closing + 1]))
            in_unit.update(range(number, closing + 1))
        elif closing > number:
            before[first].append(tag.text + space)
        elif tag.after:
            last = nearest(tag.word, reached, -1, default=-1)
            place = end + 1 if end >= 0 else min(max(last, latest - 1), len(words) - 1) + 1
            if latest > len(words) and end < 0:
                before[-1].append(tag.text)  # after one that belongs to no word
            elif tag.inside and place and not after[place]:
                marks = END_OF_WORD.search(words[place - 1])
                cut = len(words[place - 1]) - min(tag.inside, len(marks[0]) if marks else 0)
                inside[place].append((max([cut, *(other for other, _ in inside[place])]), space + tag.text))
            elif place:
                after[place].append(space + tag.text)
            else:
                before[0].append(tag.text + space)  # no word comes before
        else:
            place = min(nearest(tag.word, reached, 1, default=len(words)), len(words))
            latest = place + 1
            before[place].append(tag.text + space)
    parts = ["".join(before[0])]
    for number, word in enumerate(words, 1):
        written = word
        for cut, text in reversed(inside[number]):
            written = written[:cut] + text + written[cut:]
        parts[-1] += written + "".join(after[number])
        parts.append("".join(before[number]))
    return " ".join(part.strip() for part in parts if part.strip())


Span = tuple[int, int, int]
"""The number of the closing tag, first and last word in the translation; -1 twice for an empty pair."""


def matching_tags(tags: Sequence[Tag]) -> list[tuple[int, int]]:
    """The numbers of the opening and the closing tag of each pair, in the order of the opening tags."""
    pairs: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []
    for number, tag in enumerate(tags):
        if re.fullmatch(PLACEHOLDER, tag.text):
            continue
        name = re.split(r"[\s>]", tag.text.lstrip("</"))[0]
        if not tag.text.startswith("</"):
            opened.append((name, number))
        elif any(name == other for other, _ in opened):
            while opened[-1][0] != name:
                opened.pop()  # it has no closing tag
            pairs.append((opened.pop()[1], number))
    return sorted(pairs)


def pair_spans(
    tags: Sequence[Tag], words: Sequence[str], alignment: Sequence[tuple[int, int]]
) -> dict[int, Span]:
    """The span of each pair, under the numbers of both its tags. Spans are nested or disjoint.

    A link to a punctuation mark is ignored unless it comes from a mark at the start or end of the pair.
    """
    pairs = matching_tags(tags)
    spans: dict[int, Span] = {}
    done: list[tuple[int, int]] = []
    for opening, closing in pairs:
        inner = range(tags[opening].word, tags[closing].word + 1)
        marks = {tag.word for tag in (tags[opening], tags[closing]) if tag.at_mark}
        free = {
            target
            for source, target in alignment
            if source in inner and 0 <= target < len(words)
            if source in marks or not END_OF_WORD.fullmatch(words[target])
        }
        parents = [spans[other] for other, end in done if end > closing]
        for _, first, last in parents:
            free = {target for target in free if first <= target <= last}
        siblings = [spans[other] for other, end in done if end < opening]
        taken = {place for _, first, last in siblings if first >= 0 for place in range(first, last + 1)}
        ordered = sorted(free - taken)
        last = max((place for place in ordered if not taken & set(range(ordered[0], place))), default=-1)
        spans[opening] = (closing, ordered[0] if ordered else -1, last)
        spans[closing] = (closing, *spans[opening][1:])
        done.append((opening, closing))
    return spans


Reaches = list[tuple[int, int, int]]


def reaches(alignment: Sequence[tuple[int, int]]) -> Reaches:
    """Each aligned source word with the first and the last target word of its own, in order."""
    targets: dict[int, list[int]] = {}
    for source, target in alignment:
        targets.setdefault(source, []).append(target)
    return [(source, min(own), max(own)) for source, own in sorted(targets.items())]


def nearest(word: int, reached: Reaches, step: int, default: int) -> int:
    """The first target of the next aligned word (step 1), or the last of the previous one (step -1)."""
    place = bisect_left(reached, (word,)) if step > 0 else bisect_left(reached, (word + 1,)) - 1
    if not 0 <= place < len(reached):
        return default
    _, first, last = reached[place]
    return first if step > 0 else last

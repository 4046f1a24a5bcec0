"""Tags and placeholders of a sentence: taken out before it is translated, and put back by alignment."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

PLACEHOLDER = r"\{[^{}\s]*\}|\{\{[^{}\s]*\}\}|<[A-Za-z][^<>]*/>"
TAG = re.compile(rf"{PLACEHOLDER}|</?[A-Za-z][^<>]*>")
PUNCTUATED = re.compile(rf"(?:\s*(?:{PLACEHOLDER}))*([.,;:!?…)\]\"'”’»“。，、！？]+)(?=\s|$|[<{{])")
"""What follows a placeholder that stands for the last word before a punctuation mark."""
END_OF_WORD = re.compile(r"[\W_]*$")


@dataclass(frozen=True)
class Tag:
    """A tag, and the word that it belongs to: a closing one to the word before it, any other to the word after it.

    A placeholder before punctuation belongs to the word that then has the punctuation: in "My name is {name}." to "is.".
    """

    text: str
    word: int
    """Counted from 0 in the sentence without tags; the number of its words where none follows, -1 where none comes before."""
    after: bool
    """Whether it comes after its word, but for the punctuation in `inside`."""
    glued: bool
    """No space between the tag and its word."""
    inside: int = 0
    """So many punctuation marks at its word's end follow the tag."""


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


def taken_out(sentence: str) -> tuple[str, list[Tag]]:
    """The sentence without its tags, its words parted by single spaces, and the tags in their order."""
    plain, end = "", 0
    found: list[_Found] = []
    for match in TAG.finditer(sentence):
        plain += sentence[end : match.start()]
        end = match.end()
        after_word, before_word = plain[-1:].strip() != "", sentence[end : end + 1].strip() != ""
        marks = PUNCTUATED.match(sentence, end) if re.fullmatch(PLACEHOLDER, match[0]) else None
        if found and not found[-1].marks and found[-1].place > len(plain.rstrip()):
            marks = None  # another tag stands between it and the word before
        if marks and plain.rstrip()[-1:].isalnum():
            plain = plain.rstrip()  # no word parts the punctuation from the one before it any more
        elif plain[-1:].isalnum() and sentence[end : end + 1].isalnum():
            plain += " "  # a tag that parts two words
        found.append(_Found(match[0], len(plain), after_word, before_word, len(marks[1]) if marks else 0))
    plain += sentence[end:]
    tags = []
    for text, place, after_word, before_word, marks_there in found:
        started = len(plain[:place].split())
        within = plain[place - 1 : place].strip() != "" and plain[place : place + 1].strip() != ""
        if marks_there:
            tags.append(Tag(text, started - within, True, after_word, marks_there))
        elif text.startswith("</"):
            rest = plain[place:].split(" ")[0]
            tags.append(Tag(text, started - 1, True, after_word, len(rest) if after_word and END_OF_WORD.fullmatch(rest) else 0))
        else:
            tags.append(Tag(text, started - (after_word and within), False, before_word))
    return " ".join(plain.split()), tags


def put_back(tags: Sequence[Tag], translation: str, alignment: Sequence[tuple[int, int]]) -> str:
    """The translation with every tag beside the word that is aligned with the tag's own, or with the next one in its direction."""
    words = translation.split()
    before: list[list[str]] = [[] for _ in range(len(words) + 1)]
    inside: list[list[tuple[int, str]]] = [[] for _ in range(len(words) + 1)]
    after: list[list[str]] = [[] for _ in range(len(words) + 1)]
    latest = 0
    for tag in tags:
        space = "" if tag.glued else " "
        if tag.after:
            last = max((target for source, target in alignment if source == nearest(tag.word, alignment, -1)), default=-1)
            place = min(max(last, latest - 1), len(words) - 1) + 1
            if latest > len(words):
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
            place = min((target for source, target in alignment if source == nearest(tag.word, alignment, 1)), default=len(words))
            place = min(place, len(words))
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


def nearest(word: int, alignment: Sequence[tuple[int, int]], step: int) -> int | None:
    """The word itself, or the next aligned one after it (step 1) or before it (step -1)."""
    aligned = {source for source, _ in alignment}
    there = [source for source in aligned if (source - word) * step >= 0]
    return min(there, key=lambda source: abs(source - word)) if there else None

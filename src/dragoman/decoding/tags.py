"""Tags and placeholders of a sentence: taken out before it is translated, and put back by alignment."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{[^{}\s]*\}|\{\{[^{}\s]*\}\}")
END_OF_WORD = re.compile(r"[\W_]*$")


@dataclass(frozen=True)
class Tag:
    """A tag, and the word that it belongs to: a closing one to the word before it, any other to the word after it."""

    text: str
    word: int
    """Counted from 0 in the sentence without tags; the number of its words where none follows, -1 where none comes before."""
    glued: bool
    """No space between the tag and its word."""
    inside: bool
    """A closing tag before its word's last punctuation."""

    @property
    def closes(self) -> bool:
        """Whether it belongs to the word before it."""
        return self.text.startswith("</")


def taken_out(sentence: str) -> tuple[str, list[Tag]]:
    """The sentence without its tags, its words parted by single spaces, and the tags in their order."""
    plain, found, end = "", [], 0
    for match in TAG.finditer(sentence):
        plain += sentence[end : match.start()]
        end = match.end()
        if plain[-1:].isalnum() and sentence[end : end + 1].isalnum():
            plain += " "  # a tag that parts two words
        found.append((match[0], len(plain), plain[-1:].strip() != "", sentence[end : end + 1].strip() != ""))
    plain += sentence[end:]
    tags = []
    for text, place, after_word, before_word in found:
        started = len(plain[:place].split())
        if text.startswith("</"):
            rest = plain[place:].split(" ")[0]
            tags.append(Tag(text, started - 1, after_word, after_word and bool(rest) and END_OF_WORD.fullmatch(rest) is not None))
        else:
            within = after_word and plain[place - 1 : place + 1].strip() == plain[place - 1 : place + 1]
            tags.append(Tag(text, started - within, before_word, inside=False))
    return " ".join(plain.split()), tags


def put_back(tags: Sequence[Tag], translation: str, alignment: Sequence[tuple[int, int]]) -> str:
    """The translation with every tag beside the word that is aligned with the tag's own, or with the next one in its direction."""
    words = translation.split()
    before: list[list[str]] = [[] for _ in range(len(words) + 1)]
    after: list[list[str]] = [[] for _ in range(len(words) + 1)]
    latest = 0
    for tag in tags:
        space = "" if tag.glued else " "
        if tag.closes:
            last = max((target for source, target in alignment if source == nearest(tag.word, alignment, -1)), default=-1)
            place = min(max(last, latest - 1), len(words) - 1) + 1
            if latest > len(words):
                before[-1].append(tag.text)  # after one that belongs to no word
            elif tag.inside and place and not after[place]:
                stem = END_OF_WORD.sub("", words[place - 1])
                words[place - 1] = stem + tag.text + words[place - 1][len(stem) :]
            elif place:
                after[place].append(space + tag.text)
            else:
                before[0].append(tag.text)  # no word comes before
        else:
            place = min((target for source, target in alignment if source == nearest(tag.word, alignment, 1)), default=len(words))
            place = min(place, len(words))
            latest = place + 1
            before[place].append(tag.text + space)
    parts = ["".join(before[0])]
    for number, word in enumerate(words, 1):
        parts[-1] += word + "".join(after[number])
        parts.append("".join(before[number]))
    return " ".join(part.strip() for part in parts if part.strip())


def nearest(word: int, alignment: Sequence[tuple[int, int]], step: int) -> int | None:
    """The word itself, or the next aligned one after it (step 1) or before it (step -1)."""
    aligned = {source for source, _ in alignment}
    there = [source for source in aligned if (source - word) * step >= 0]
    return min(there, key=lambda source: abs(source - word)) if there else None

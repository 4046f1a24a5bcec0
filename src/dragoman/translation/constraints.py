"""Prefixes, banned and forced words, terms: from text to ids. This module imports no torch."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, combinations

from dragoman.model.symbols import UNKNOWN
from dragoman.search.hypothesis import Constraints, Phrase, Terms
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.futures import interruption
from dragoman.system.wording import counted, shown
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import SPACE
from dragoman.translation.glossary import Glossary, Match, Term
from dragoman.translation.tags import UNSPACED, remove_tags

MAX_TERM_TOKENS = 64
"""Of the terms of a sentence; each adds a beam to its search."""
WORD = "a"
CLOSING = frozenset(".,;:!?…)]}»”’%。，、！？")
"""Punctuation marks that stand directly after a word."""
CONTINUING_BYTE = re.compile("<0x(3[0-9]|[46][1-9A-F]|[57][0-9A]|C[3-9A-F]|D[0-9A-F])>")


def encode_constraints(settings: SearchSettings, tokenizer: Tokenizer) -> Constraints:
    """The rules of settings with a prefix, banned or forced words, in token ids.

    Raises `DragomanError` if they contradict each other.
    """
    if settings.keep_tags and any(
        remove_tags(text)[1] for text in (settings.prefix, *settings.force_words, *settings.ban_words)
    ):
        raise OptionError(
            "Tags and addresses are put back where the source has them; leave tags out of {prefix}, "
            "{force_words} and {ban_words}."
        )
    prefix, banned, forced = encode_texts(settings, tokenizer)
    prefix_text, phrases = as_characters(prefix), list(map(as_characters, forced))
    for text, ids in ((text, as_characters(tokens)) for text, tokens in banned):
        if any(ids in phrase for phrase in phrases):
            raise OptionError(
                "{ban_words} has {text!r}, which is part of a text of {force_words}; leave one out.",
                text=text,
            )
        if ids in prefix_text:
            raise DragomanError(f"The prefix {settings.prefix!r} has {text!r}, which is banned.")
    if size := settings.no_repeat_ngram:
        refuse_repetition(
            list(zip((settings.prefix, *settings.force_words), (prefix, *forced), strict=True)), size
        )
    return replace(
        Constraints.of(settings),
        banned=[ids for _, ids in banned],
        prefix=prefix,
        forced=[Phrase([ids]) for ids in forced],
        continuing=word_continuations(tokenizer) if forced else frozenset[int](),
    )


def encode_terms(
    glossary: Glossary,
    find: Callable[[str], list[Match]],
    source: Tokenizer,
    target: Tokenizer,
    texts: Sequence[str],
    parts: Sequence[Sequence[list[int]]],
    capacity: int,
) -> Terms:
    """The forced phrases of each part of each text: the targets of its terms, in the glossary's forms.

    `find` finds the terms. The phrases have `capacity` tokens together at most. A term that does not fit is
    left out, and so is one that the vocabulary cannot write. Raises `CancelledError` if nobody wants the
    result any more.
    """
    forms_of: dict[Term, list[list[int]]] = {}
    terms: list[list[Phrase]] = []
    for text, text_parts in zip(texts, parts, strict=True):
        for part in text_parts:
            part_text = text if len(text_parts) == 1 else source.decode(part[:-1])
            phrases: list[Phrase] = []
            left = min(capacity, MAX_TERM_TOKENS)
            part_terms = dict.fromkeys(match.term for match in find(part_text))
            places = term_places(find, source.pieces(part[:-1])) if part_terms else {}
            for term in part_terms:
                if interruption.get().is_set():
                    raise CancelledError
                if term not in forms_of:
                    encoded = target.encode(glossary.forms(term))
                    forms_of[term] = [ids for ids in encoded if ids and UNKNOWN not in ids]
                phrase = Phrase(forms_of[term], places.get(term, ()))
                if phrase.forms and phrase.tokens <= left:
                    phrases.append(phrase)
                    left -= phrase.tokens
            terms.append(phrases)
    return terms


def term_places(find: Callable[[str], list[Match]], pieces: Sequence[str]) -> dict[Term, list[int]]:
    """The tokens of each term that is found in the text of these pieces."""
    texts = [piece.replace(SPACE, " ") for piece in pieces]
    ends = list(accumulate(map(len, texts)))
    places: dict[Term, list[int]] = {}
    for match in find("".join(texts)):
        first, last = bisect_right(ends, match.start), bisect_left(ends, match.end)
        places.setdefault(match.term, []).extend(range(first, last + 1))
    return places


@lru_cache(maxsize=16)
def word_continuations(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that continue the word before them: they begin with a letter, a digit or an accent, and not
    with a space.

    Scripts without spaces have none, and neither have the codes of subword-nmt, which mark the other part.
    Bytes count if they are letters of ASCII, or begin one of Latin, Greek, Cyrillic or Armenian letters.
    """
    pieces = tokenizer.pieces(range(len(tokenizer)))
    return frozenset(
        number
        for number, piece in enumerate(pieces)
        if CONTINUING_BYTE.fullmatch(piece) or (is_of_word(piece[0]) and not UNSPACED.match(piece))
    )


def is_of_word(character: str) -> bool:
    """Whether it is a letter, a digit or an accent."""
    return unicodedata.category(character)[0] in "LNM"


def encode_texts(
    settings: SearchSettings, tokenizer: Tokenizer
) -> tuple[list[int], list[tuple[str, list[int]]], list[list[int]]]:
    """The ids of the prefix, each banned text with its ids, and the ids of each forced text.

    Punctuation is banned after a space and directly after a word. Forced punctuation that ends something
    stands directly after a word. Raises `DragomanError` for a text without tokens, or with unknown ones.
    """
    texts = (settings.prefix, *settings.ban_words, *settings.force_words)
    encoded = tokenizer.encode(texts)
    names = ("prefix", *["ban_words"] * len(settings.ban_words), *["force_words"] * len(settings.force_words))
    for name, text, ids in zip(names, texts, encoded, strict=True):
        if not ids and (text or name != "prefix"):
            raise OptionError(f"{{{name}}} is {{text!r}}, which has no tokens.", text=text)
        if UNKNOWN in ids:
            raise OptionError(
                "{text} cannot be written with this model's vocabulary; leave it out of {prefix}, "
                "{ban_words} and {force_words}.",
                text=shown(text),
            )
    prefix, *others = encoded
    ban, force = settings.ban_words, settings.force_words
    banned = [*zip(ban, others[: len(ban)], strict=True)]
    banned += [(text, after_word(text, tokenizer)) for text in ban if not text[:1].isalnum()]
    forced = [
        after_word(text, tokenizer) if CLOSING.issuperset(text) else ids
        for text, ids in zip(force, others[len(ban) :], strict=True)
    ]
    return prefix, banned, forced


def after_word(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text that stands directly after a word; those of the text alone if it cannot."""
    word_ids, joined, text_ids = tokenizer.encode([WORD, WORD + text, text])
    suffix = joined[len(word_ids) :]
    return suffix if suffix and joined[: len(word_ids)] == word_ids and UNKNOWN not in suffix else text_ids


def refuse_repetition(required: list[tuple[str, list[int]]], size: int) -> None:
    """Raise `DragomanError` if the prefix (the first) and forced texts together repeat an n-gram."""
    for text, ids in required:
        if repeats(ids, size):
            raise OptionError(
                "{text!r}, of {prefix} or {force_words}, repeats what {no_repeat_ngram} {size} forbids.",
                text=text,
                size=size,
            )
    _, prefix = required[0]
    for (first_text, first), (second_text, second) in combinations(required, 2):
        if not (follows(first, second, size) or (first is not prefix and follows(second, first, size))):
            raise OptionError(
                "{first!r} and {second!r} have {common} in common, which {no_repeat_ngram} forbids to "
                "repeat.",
                first=first_text,
                second=second_text,
                common=counted(size, "token"),
            )


def repeats(ids: list[int], size: int) -> bool:
    """Whether a text has an n-gram twice.

    n-grams have numbers, equal for equal ones: a longer one is a pair of shorter ones. So time and memory do
    not grow with the product of the text's length and `size`, both of which a request can choose.
    """
    numbers, length = ids, 1
    while length < size and numbers:
        step = min(length, size - length)
        pairs = list(zip(numbers, numbers[step:], strict=False))
        number_of = {pair: number for number, pair in enumerate(set(pairs))}
        numbers, length = [number_of[pair] for pair in pairs], length + step
    return len(set(numbers)) < len(numbers)


def follows(first: list[int], second: list[int], size: int) -> bool:
    """Whether a text can contain both, the second after or overlapping the first, and repeat no n-gram."""
    first_text, second_text = as_characters(first), as_characters(second)
    if second_text in first_text:
        return True
    is_shared = [
        second_text[start : start + size] in first_text for start in range(len(second_text) - size + 1)
    ]
    return any(
        first_text.endswith(second_text[:length]) and not any(is_shared[max(0, length - size + 1) :])
        for length in range(min(len(first_text), len(second_text) - 1) + 1)
    )


def as_characters(ids: list[int]) -> str:
    """The ids as characters: Python finds one text in another in linear time, and sequences in none."""
    return "".join(map(chr, ids))

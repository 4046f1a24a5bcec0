"""Prefixes, banned and forced words: from text to ids. This module imports no torch."""

from itertools import combinations

from dragoman.model.symbols import UNKNOWN
from dragoman.search.hypothesis import Constraints
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.tags import remove_tags


def encode_constraints(settings: SearchSettings, tokenizer: Tokenizer) -> Constraints:
    """The rules of settings with a prefix, banned or forced words, in token ids.

    Raises `DragomanError` if they contradict each other.
    """
    if settings.keep_tags and any(
        remove_tags(text)[1] for text in (settings.prefix, *settings.force_words, *settings.ban_words)
    ):
        raise DragomanError(
            "Tags and addresses are put back where the source has them; leave tags out of prefix, "
            "force_words and ban_words."
        )
    prefix, banned, forced = encode_texts(settings, tokenizer)
    given, phrases = as_characters(prefix), list(map(as_characters, forced))
    for text, ids in zip(settings.ban_words, map(as_characters, banned), strict=True):
        if any(ids in phrase for phrase in phrases):
            raise DragomanError(
                f"ban_words has {text!r}, which is part of a text of force_words; leave one out."
            )
        if ids in given:
            raise DragomanError(f"The prefix {settings.prefix!r} has {text!r}, which is banned.")
    if size := settings.no_repeat_ngram:
        refuse_repetition(
            list(zip((settings.prefix, *settings.force_words), (prefix, *forced), strict=True)), size
        )
    return Constraints(settings.min_length, size, banned, prefix, forced)


def encode_texts(
    settings: SearchSettings, tokenizer: Tokenizer
) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """The ids of the prefix, of each banned text and of each forced text.

    Raises `DragomanError` for a text without tokens, or with unknown ones.
    """
    texts = (settings.prefix, *settings.ban_words, *settings.force_words)
    encoded = tokenizer.encode(texts)
    names = ("prefix", *["ban_words"] * len(settings.ban_words), *["force_words"] * len(settings.force_words))
    for name, text, ids in zip(names, texts, encoded, strict=True):
        if not ids and (text or name != "prefix"):
            raise DragomanError(f"{name} is {text!r}, which has no tokens.")
        if UNKNOWN in ids:
            raise DragomanError(
                f"{text!r} cannot be written with this model's vocabulary; leave it out of prefix, "
                "ban_words and force_words."
            )
    prefix, *others = encoded
    return prefix, others[: len(settings.ban_words)], others[len(settings.ban_words) :]


def refuse_repetition(required: list[tuple[str, list[int]]], size: int) -> None:
    """Raise `DragomanError` if the prefix (the first) and forced texts together repeat an n-gram."""
    for text, ids in required:
        if repeats(ids, size):
            raise DragomanError(
                f"{text!r}, of prefix or force_words, repeats what no_repeat_ngram {size} forbids."
            )
    _, prefix = required[0]
    for (one, first), (other, second) in combinations(required, 2):
        if not (follows(first, second, size) or (first is not prefix and follows(second, first, size))):
            raise DragomanError(
                f"{one!r} and {other!r} have {size} tokens in common, which no_repeat_ngram forbids to "
                "repeat."
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
    one, other = as_characters(first), as_characters(second)
    if other in one:
        return True
    known = [other[start : start + size] in one for start in range(len(other) - size + 1)]
    return any(
        one.endswith(other[:length]) and not any(known[max(0, length - size + 1) :])
        for length in range(min(len(one), len(other) - 1) + 1)
    )


def as_characters(ids: list[int]) -> str:
    """The ids as characters: Python finds one text in another in linear time, and sequences in none."""
    return "".join(map(chr, ids))

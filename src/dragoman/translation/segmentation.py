"""Sentences that are too long: split into parts, or truncated. This module imports no torch."""

import re
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.model.symbols import END
from dragoman.system.errors import OptionMessage
from dragoman.system.futures import interruption
from dragoman.text.words import SPACE

if TYPE_CHECKING:
    from dragoman.search.settings import SearchSettings
    from dragoman.translation.translation import Translation
    from dragoman.translation.translator import Translator

PAUSES = (".", "!", "?", ";", ":", ",")  # before a space
WIDE_PAUSES = ("。", "！", "？", "；", "，", "、")  # no space follows these
FIRST_WIDE = "\N{CJK RADICAL REPEAT}"  # from here on: Chinese and Japanese, without spaces; Korean
BYTE = re.compile("<0x([0-9A-F]{2})>")
MAX_BYTES = 4  # of a character
DEFAULT_SPLIT = 1000  # tokens above which a sentence is split if the model has no known limit


def split_length(settings: "SearchSettings", longest_trained: int | None, longest_source: int | None) -> int:
    """The number of tokens above which a sentence is translated in parts; 0 for never."""
    if settings.split is not None:
        return settings.split
    return 0 if settings.needs_whole_sentences else max(2, longest_trained or longest_source or DEFAULT_SPLIT)


def split(ids: Sequence[int], pieces: Sequence[str], max_tokens: int) -> list[list[int]]:
    """The ids in parts of at most `max_tokens` tokens, each with its own END.

    `pieces` are the texts of the ids, END last. A part ends after punctuation if its second half contains
    any, else between words, else between any two characters. Raises `CancelledError` after an `interruption`.
    """
    parts, first = [], 0
    while len(ids) - first > max_tokens:
        if interruption.get().is_set():
            raise CancelledError
        last = best_split(pieces, first, first + max_tokens - 1)
        parts.append([*ids[first:last], END])
        first = last
    return [*parts, list(ids[first:])]


def best_split(pieces: Sequence[str], first: int, last: int) -> int:
    """The index at which the part that begins at `first` ends; at most `last`."""
    places = [place for place in range(first + 1, last + 1) if not is_inside_character(pieces[place])]
    words = [
        place for place in places if pieces[place].startswith(SPACE) and not pieces[place - 1].endswith("@@")
    ]
    pauses = [
        place
        for place in places
        if 2 * (place - first) >= last - first
        and is_pause(
            text_of(pieces[max(place - MAX_BYTES, 0) : place]), text_of(pieces[place : place + MAX_BYTES])
        )
    ]
    return (pauses or words or places or [last])[-1]


def is_inside_character(piece: str) -> bool:
    """Whether a piece is a byte that continues a character of UTF-8."""
    byte = BYTE.fullmatch(piece)
    return byte is not None and 0x80 <= int(byte[1], 16) < 0xC0


def text_of(pieces: Sequence[str]) -> str:
    """The text of pieces, without bytes that are not a whole character."""
    parts = ((BYTE.fullmatch(piece), piece) for piece in pieces)
    return b"".join(bytes.fromhex(byte[1]) if byte else piece.encode() for byte, piece in parts).decode(
        errors="ignore"
    )


def is_pause(before: str, after: str) -> bool:
    """Whether a part may end between these texts because of punctuation.

    A vocabulary's normalisation may have replaced wide punctuation, after which no space follows.
    """
    is_end_of_word = after.startswith(SPACE) or after[:1] >= FIRST_WIDE
    return before.endswith(WIDE_PAUSES) or (before.endswith(PAUSES) and is_end_of_word)


def truncate(ids: Sequence[int], max_tokens: int) -> list[int]:
    """The first `max_tokens` tokens, the last of them END."""
    return list(ids) if len(ids) <= max_tokens else [*ids[: max_tokens - 1], END]


def join_translations(parts: "Sequence[Translation]") -> "Translation":
    """The translations of a sentence's parts as one, with summed log-probabilities and scores."""
    return replace(
        parts[0],
        text=join_texts([part.text for part in parts if part.text]),
        log_probability=sum((part.log_probability for part in parts), 0.0),
        score=sum((part.score for part in parts), 0.0),
        tokens=tuple(token for part in parts for token in part.tokens),
    )


def join_texts(texts: Sequence[str]) -> str:
    """The texts, with a space after each but the last, unless wide punctuation ends it."""
    spaced = [text if text.endswith(WIDE_PAUSES) else f"{text} " for text in texts[:-1]]
    return "".join([*spaced, *texts[-1:]])


def long_translation_message(
    count: int, translator: "Translator", settings: "SearchSettings"
) -> OptionMessage:
    """The message about `count` sentences that are translated and are longer than any of training."""
    treatment = "translated whole, perhaps badly"
    if split_length(settings, translator.longest_trained, translator.longest_source):
        treatment = "translated in parts; {split} 0 translates whole sentences"  # noqa: RUF027  a setting
    return OptionMessage(long_message(count, translator.longest_trained, treatment))


def long_message(count: int, longest_trained: int | None, treatment: str) -> str:
    """The message about `count` long sentences. `treatment` says what is done, such as "scored whole"."""
    sentences = "1 sentence has" if count == 1 else f"{count:,} sentences have"
    return (
        f"{sentences} more tokens than the longest source of training ({longest_trained}), and "
        f"{'is' if count == 1 else 'are'} {treatment}."
    )

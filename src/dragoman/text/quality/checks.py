"""Checks of lines, pairs and the hashes of a corpus: `doctor` counts by them, and `clean` removes by them."""

import math
import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.text.lines import line_hash, raw_lines, read_lines, read_pairs

Pair = tuple[str, str]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
MIN_CHARACTERS = 15  # shorter lines are too short to tell their language or script
MIN_RATIO_CHARACTERS = 30  # in pairs whose sides are both shorter, length ratios vary too much
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffd]"
)
"""Control characters but the tab, line and paragraph separators, invisible format characters but the joiners
that some scripts need, and U+FFFC and U+FFFD, which stand for what could not be shown or decoded."""


class NearForms(dict[int, str | None]):
    """What each character is in `near_form`: punctuation, symbols and spaces are not there."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        category = unicodedata.category(character)
        is_left_out = category[0] in "PSZC"
        self[code] = None if is_left_out else "0" if category == "Nd" else character
        return self[code]


NEAR_FORMS = NearForms()


# ---- lines


def decode_lossy(raw: bytes) -> str:
    """A line without its LF or CRLF; bytes that are not UTF-8 become U+FFFD."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")


def lossy_lines(path: Path) -> Iterator[str]:
    """The lines of a file, each by `decode_lossy`, without a byte order mark.

    Raises `DragomanError` where `raw_lines` does.
    """
    for number, raw in enumerate(raw_lines(path)):
        line = decode_lossy(raw)
        yield line if number else line.removeprefix("\ufeff")


def is_text(raw: bytes) -> bool:
    """Whether a line is UTF-8 without a NUL."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw


def count_words(line: str) -> int:
    """The words of a line, between which there is white space."""
    return len(line.split())


def near_form(line: str) -> str:
    """What near-duplicates have in common: letters in one case with their marks, and every digit as 0.

    A line that has neither letters nor digits stays as it is, without surrounding white space.
    """
    return unicodedata.normalize("NFKC", line).casefold().translate(NEAR_FORMS) or line.strip()


# ---- pairs


def is_empty(pair: Pair) -> bool:
    """Whether a side is empty or white space."""
    return not all(map(str.strip, pair))


def is_copy(pair: Pair) -> bool:
    """Whether the source equals the target."""
    return pair[0] == pair[1]


def has_length_ratio(pair: Pair) -> bool:
    """Whether a side is long enough for the ratio of the lengths to say something."""
    return max(map(len, pair)) > MIN_RATIO_CHARACTERS


def log_length_ratio(pair: Pair) -> float:
    """The logarithm of target length divided by source length, in characters; no side may be empty."""
    return math.log(len(pair[1]) / len(pair[0]))


def check_readable(source: Path | None, target: Path | None) -> None:
    """Read one or both sides of a text to the end.

    Raises `DragomanError` for what training refuses, and for sides with different numbers of lines.
    """
    if source is not None and target is not None:
        lines: Iterator[object] = read_pairs(source, target)
    else:
        lines = chain.from_iterable(read_lines(path) for path in (source, target) if path is not None)
    for _ in lines:
        pass


def pair_hash(pair: Pair) -> int:
    """64 bits that are the same for pairs that are equal, except for white space around their sides."""
    return line_hash("\0".join(map(str.strip, pair)))


def near_hash(pair: Pair) -> int:
    """64 bits that are the same for pairs whose sides have the same `near_form`."""
    return line_hash("\0".join(map(near_form, pair)))


def later_occurrences(hashes: Hashes) -> Mask:
    """Which of the hashes [N] occurred earlier among them."""
    _, first_places = np.unique(hashes, return_index=True)
    is_later = np.ones(len(hashes), dtype=bool)
    is_later[first_places] = False
    return is_later


def differ_from_first(hashes: Hashes, near_hashes: Hashes) -> Mask:
    """Which pairs [N] are near-duplicates, but not duplicates, of the first pair with their near hash."""
    _, first_places, groups = np.unique(near_hashes, return_index=True, return_inverse=True)
    different: Mask = hashes != hashes[first_places[groups]]
    return different

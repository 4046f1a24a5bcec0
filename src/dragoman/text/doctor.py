"""Problems of a parallel corpus, reported before training. It reads every line and changes nothing."""

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, repeat
from pathlib import Path

import numpy as np

from dragoman.text.corpus import line_hash
from dragoman.text.lines import raw_lines

EXAMPLES = 5
LEARN_FROM = 20_000  # lines of a side, for what its language looks like
ORDER = 3  # characters that are looked at together
KINDS = 50_000  # different pieces that a language may have
CLEAR = 0.5  # nats a character by which the other side's language must be likelier
SHORTEST = 15  # characters without which a line tells too little of its language
LONGEST = 250  # words, beyond which a line is hardly a sentence
RATIO = 3.0  # how many times as long as usual, beside the other side, is suspicious
JAPANESE = {"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}  # written beside Chinese characters
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffd]"
)
"""Signs that steer instead of being read (Cc and Cf, without the tab and the joiners of some scripts), and
U+FFFD, a broken sign."""
Piece = tuple[str, ...]


@dataclass
class Finding:
    """One kind of problem: how many lines have it, the first of them, and its consequence."""

    name: str
    about: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Count a line."""
        self.count += 1
        if len(self.lines) < EXAMPLES:
            self.lines.append(line)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines)) + (" …" if self.count > len(self.lines) else "")
        counted = f": {self.count:,} ({'line' if shown.isdigit() else 'lines'} {shown})" if self.lines else ""
        return f"{self.name}{counted}. {self.about}"


class Language:
    """What a side's text looks like: how often its characters follow each other, and the script it is mostly
    written in.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        counts: Counter[Piece] = Counter()
        scripts: Counter[str] = Counter()
        for line in lines:
            counts.update(pieces(line))
            scripts[script(line)] += 1
        whole = math.log(counts.total() + KINDS)
        self.script = scripts.most_common(1)[0][0] if scripts else ""
        self.unseen = -whole
        self.logs = {piece: math.log(count + 1) - whole for piece, count in counts.items()}

    def log(self, piece: Piece) -> float:
        """Its log-probability, in nats, with one added to every count."""
        return self.logs.get(piece, self.unseen)


def contrast(own: Language, other: Language) -> Callable[[str], float]:
    """By how many nats a line is likelier in the other language, as a function."""
    gains = {piece: other.log(piece) - own.log(piece) for piece in own.logs.keys() | other.logs.keys()}
    unseen = other.unseen - own.unseen
    return lambda line: sum(map(gains.get, pieces(line), repeat(unseen)))


def pieces(line: str) -> Iterator[Piece]:
    """Every few characters that follow each other, with the words' ends."""
    padded = f"  {line.lower()} "
    return zip(*(padded[first:] for first in range(ORDER)), strict=False)


@cache
def script_of(letter: str) -> str:
    """The first word of its name in Unicode, of signs that are written together the same."""
    name = unicodedata.name(letter, "?").split(maxsplit=1)[0]
    return "CJK" if name in JAPANESE else name


def script(line: str) -> str:
    """The script of most of the line's letters, as Unicode names it:

    LATIN, CYRILLIC, CJK; "" where there are no letters.
    """
    if line.isascii():
        return "LATIN" if any(map(str.isalpha, line)) else ""
    found = Counter(map(script_of, filter(str.isalpha, line)))
    return found.most_common(1)[0][0] if found else ""


def text_of(raw: bytes) -> str:
    """The line as text; what is not UTF-8 becomes U+FFFD."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")


def file_findings(path: Path) -> tuple[list[Finding], list[Finding]]:
    """What keeps a file from being read as it is, and what nobody should learn from.

    Raises `DragomanError` for no such file.
    """
    not_text = Finding(
        f"Lines of {path} not UTF-8, or with a NUL",
        "Training refuses the file; convert it, with iconv for example.",
    )
    windows = Finding(f"Lines of {path} with a carriage return at the end", "Training removes it.")
    inside = Finding(
        f"Lines of {path} with a carriage return inside", "Training refuses the file; take them out of it."
    )
    controls = Finding(
        f"Lines of {path} with a control character or U+FFFD", "The model would learn to write them."
    )
    nothing = Finding(f"{path} is empty", "Training refuses it.")
    long = Finding(
        f"Lines of {path} with more than {LONGEST} words",
        "Hardly sentences; pairs longer than --longest are left out.",
    )
    number = 0
    for number, raw in enumerate(raw_lines(path), 1):
        text = text_of(raw)
        try:
            raw.decode()
            broken = b"\0" in raw
        except UnicodeDecodeError:
            broken = True
        if broken:
            not_text.add(number)
        elif CONTROL.search(text.removeprefix("\ufeff") if number == 1 else text):
            controls.add(number)
        ended = raw.removesuffix(b"\n")
        if ended.endswith(b"\r"):
            windows.add(number)
        if b"\r" in ended.removesuffix(b"\r"):
            inside.add(number)
        if text.count(" ") >= LONGEST:
            long.add(number)
    if number == 0:
        nothing.count = 1
    return [nothing, not_text, windows, inside], [controls, long]


def pairs_of(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Both files side by side, as far as both go."""
    return (
        (text_of(one), text_of(other))
        for one, other in zip(raw_lines(source), raw_lines(target), strict=False)
    )


def pair_findings(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """What is suspicious about the pairs of two files, and which of them are in other data too (by name)."""
    counts = [sum(1 for _ in raw_lines(path)) for path in (source, target)]
    uneven = Finding(
        f"Lines that one file has more than the other, {counts[0]:,} in {source} and {counts[1]:,} in "
        f"{target}",
        "Training refuses them; from some line on they do not belong together.",
    )
    if counts[0] != counts[1]:
        uneven.count = abs(counts[0] - counts[1])
        uneven.lines.append(min(counts) + 1)
    return [
        uneven,
        *one_by_one(source, target, min(counts)),
        repeated(source, target),
        *shared(source, target, others),
    ]


def one_by_one(source: Path, target: Path, pairs: int) -> list[Finding]:
    """What is suspicious about a pair by itself."""
    step = max(1, pairs // LEARN_FROM)
    languages = [
        Language(side) for side in zip(*islice(pairs_of(source, target), 0, None, step), strict=True)
    ] or [Language([])] * 2
    likelier = contrast(*languages)
    usual = usual_ratio(islice(pairs_of(source, target), 0, None, step))
    empty = Finding("Pairs with an empty side", "Training leaves them out.")
    copies = Finding(
        "Pairs whose source equals their target", "They teach to copy; --drop-copies leaves them out."
    )
    ratios = Finding(
        f"Pairs with a side {RATIO:g} times as long as usual", "Often not translations of each other."
    )
    swapped = Finding("Pairs with a side in the other side's language", "Often copied or swapped.")
    foreign = Finding("Pairs with a side in another script", "Often another language.")
    for number, pair in enumerate(pairs_of(source, target), 1):
        if not all(map(str.strip, pair)):
            empty.add(number)
            continue
        if pair[0] == pair[1]:
            copies.add(number)
        if max(map(len, pair)) > 30 and abs(math.log(len(pair[1]) / len(pair[0]) / usual)) > math.log(RATIO):
            ratios.add(number)
        if any(wrong_script(text, language) for text, language in zip(pair, languages, strict=True)):
            foreign.add(number)
        elif any(
            len(text) >= SHORTEST and sign * likelier(text) > CLEAR * len(text)
            for text, sign in zip(pair, (1, -1), strict=True)
        ):
            swapped.add(number)
    return [empty, copies, ratios, swapped, foreign]


def usual_ratio(pairs: Iterable[tuple[str, str]]) -> float:
    """The median of how many times as long as its source, in characters, a target is."""
    ratios = [len(target) / len(source) for source, target in pairs if source.strip() and target.strip()]
    return float(np.median(ratios)) if ratios else 1.0


def wrong_script(text: str, language: Language) -> bool:
    """Whether the text has letters, enough of them, and they are of another script than the side's."""
    return len(text) >= SHORTEST and script(text) not in {"", language.script}


def repeated(source: Path, target: Path) -> Finding:
    """Pairs that were there before, but for white space at their ends.

    Takes some 40 bytes a pair for a moment.
    """
    found = Finding("Pairs that were there before", "They count as often as they occur.")
    hashes = np.array(
        array("Q", (line_hash("\0".join(map(str.strip, pair))) for pair in pairs_of(source, target))),
        dtype=np.uint64,
    )
    _, firsts = np.unique(hashes, return_index=True)
    repeats = np.ones(len(hashes), dtype=bool)
    repeats[firsts] = False
    again = np.flatnonzero(repeats)
    found.count, found.lines = len(again), [int(number) + 1 for number in again[:EXAMPLES]]
    return found


def shared(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """Training pairs whose source, or whose target, is in other data too: scores on that data would be too
    good.
    """
    findings = []
    for name, files in others.items():
        for side, (own, other) in enumerate(zip((source, target), files, strict=True)):
            known = {line_hash(text_of(raw)) for raw in raw_lines(other)}
            kind = ("source", "target")[side]
            found = Finding(
                f"Pairs whose {kind} is in the {name} data too",
                f"Scores of {name} would be too good; --drop-overlap leaves out sources.",
            )
            for number, raw in enumerate(raw_lines(own), 1):
                if (text := text_of(raw)).strip() and line_hash(text) in known:
                    found.add(number)
            findings.append(found)
    return findings


def examine(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """All findings about a corpus that count at least one line.

    About `others` only what training would refuse, and overlap.

    `others` has the files of validation and test data, by name. Raises `DragomanError` for a file that cannot
    be opened.
    """
    findings = [finding for path in (source, target) for kind in file_findings(path) for finding in kind]
    findings += [finding for pair in others.values() for path in pair for finding in file_findings(path)[0]]
    findings += pair_findings(source, target, others)
    return [finding for finding in findings if finding.count]

"""Checks of a parallel corpus before training. They read every line and change nothing."""

import codecs
import math
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, repeat
from pathlib import Path

import numpy as np

from dragoman.text.letters import has_letter
from dragoman.text.lines import line_hash, raw_lines
from dragoman.text.quality.checks import (
    CONTROL,
    MIN_CHARACTERS,
    Pair,
    count_words,
    decode_lossy,
    differ_from_first,
    has_length_ratio,
    is_copy,
    is_empty,
    is_text,
    later_occurrences,
    log_length_ratio,
    lossy_lines,
    near_hash,
    pair_hash,
)
from dragoman.text.quality.clean_settings import MAX_LENGTH_RATIO, MAX_WORDS
from dragoman.text.quality.escapes import has_entities, has_marks, has_mojibake, is_tokenised

MAX_EXAMPLES = 5  # line numbers that a finding shows
SAMPLE_PAIRS = 20_000  # pairs that the n-gram models and the median length ratio are estimated from
NGRAM_ORDER = 3
NGRAM_TYPES = 50_000  # different n-grams that add-one smoothing assumes in a language
MIN_TOKENISED = 0.02  # the share of lines with such spaces below which they are slips
MIN_LOG_RATIO = 0.5  # nats a character by which the other side's model has to be likelier
JAPANESE = {"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}  # scripts that are mixed with Chinese characters
Ngram = tuple[str, ...]


@dataclass
class Finding:
    """One kind of problem, with the number of lines that have it."""

    name: str
    consequence: str
    count: int = 0
    lines: list[int] = field(default_factory=list)
    """The first of the lines, counted from 1."""
    can_be_cleaned: bool = True
    """Whether `dragoman clean` takes files with this problem."""

    def add(self, line: int) -> None:
        """Count a line."""
        self.count += 1
        if len(self.lines) < MAX_EXAMPLES:
            self.lines.append(line)

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.lines)) + (" …" if self.count > len(self.lines) else "")
        counted = (
            f": {self.count:,} ({'line' if numbers.isdigit() else 'lines'} {numbers})" if self.lines else ""
        )
        return f"{self.name}{counted}. {self.consequence}"


# ---- language and script


class NgramModel:
    """Probabilities of the character n-grams of some text, with add-one smoothing, and the text's script."""

    def __init__(self, lines: Iterable[str]) -> None:
        counts: Counter[Ngram] = Counter()
        scripts: Counter[str] = Counter()
        for line in lines:
            counts.update(ngrams(line))
            scripts[dominant_script(line)] += 1
        log_total = math.log(counts.total() + NGRAM_TYPES)
        self.script = scripts.most_common(1)[0][0] if scripts else ""
        """The script of most of the lines."""
        self.unseen_log_prob = -log_total
        self.log_probs = {ngram: math.log(count + 1) - log_total for ngram, count in counts.items()}

    def log_prob(self, ngram: Ngram) -> float:
        """The log-probability of an n-gram, in nats."""
        return self.log_probs.get(ngram, self.unseen_log_prob)


def log_likelihood_ratio(model: NgramModel, other: NgramModel) -> Callable[[str], float]:
    """A function of a line: its log-likelihood under `other` minus that under `model`, in nats."""
    ratios = {
        ngram: other.log_prob(ngram) - model.log_prob(ngram)
        for ngram in model.log_probs.keys() | other.log_probs.keys()
    }
    unseen = other.unseen_log_prob - model.unseen_log_prob
    return lambda line: sum(map(ratios.get, ngrams(line), repeat(unseen)))


def ngrams(line: str) -> Iterator[Ngram]:
    """The character n-grams of a line in lower case, with spaces around it."""
    padded = f"  {line.lower()} "
    return zip(*(padded[first:] for first in range(NGRAM_ORDER)), strict=False)


@cache
def letter_script(letter: str) -> str:
    """The script of a letter: the first word of its Unicode name, and CJK for Japanese syllables too."""
    name = unicodedata.name(letter, "?").split(maxsplit=1)[0]
    return "CJK" if name in JAPANESE else name


def dominant_script(line: str) -> str:
    """The script of most of a line's letters, such as LATIN, CYRILLIC or CJK; "" if it has no letters."""
    if line.isascii():
        return "LATIN" if has_letter(line) else ""
    scripts = Counter(map(letter_script, filter(str.isalpha, line)))
    return scripts.most_common(1)[0][0] if scripts else ""


def has_other_script(text: str, model: NgramModel) -> bool:
    """Whether a text is long enough to tell its script, and it is another one than the model's."""
    return len(text) >= MIN_CHARACTERS and dominant_script(text) not in {"", model.script}


# ---- checks of one file


def check_file(path: Path) -> tuple[list[Finding], list[Finding]]:
    """Findings about the form of a file, some of which training refuses, and about its content.

    Raises `DragomanError` for a file that cannot be read.
    """
    empty = Finding(f"{path} is empty", "Training refuses it.", can_be_cleaned=False)
    not_text = Finding(
        f"Lines of {path} not UTF-8, or with a NUL",
        "Training refuses the file; convert it, with iconv for example, and delete NULs, with tr -d '\\000'.",
    )
    crlf = Finding(f"Lines of {path} with a carriage return at the end", "Training removes it.")
    inside = Finding(
        f"Lines of {path} with a carriage return inside", "Training refuses the file; take them out of it."
    )
    controls = Finding(
        f"Lines of {path} with a control or an invisible character, or U+FFFD",
        "The model would learn to write some of them.",
    )
    mojibake = Finding(
        f"Lines of {path} in the wrong encoding, as Ã¼ for ü", "The model would learn to write them."
    )
    entities = Finding(
        f'Lines of {path} with HTML entities, as &quot; for "', "The model would learn to write them."
    )
    marks = Finding(
        f"Lines of {path} with marks of Moses' tokenizer, as @-@ for -",
        "The model would learn to write them; dragoman clean joins the words.",
    )
    tokenised = Finding(
        f"Lines of {path} that look tokenised, with spaces before punctuation",
        "The model would learn to write such spaces; detokenise the file, with sacremoses for example.",
        can_be_cleaned=False,
    )
    long = Finding(
        f"Lines of {path} with more than {MAX_WORDS} words",
        "Probably not single sentences; pairs longer than --longest are left out.",
    )
    content: list[tuple[Finding, Callable[[str], bool]]] = [
        (mojibake, has_mojibake),
        (entities, has_entities),
        (marks, has_marks),
        (tokenised, is_tokenised),
        (long, lambda line: count_words(line) > MAX_WORDS),
    ]
    number = 0
    for number, raw in enumerate(raw_lines(path), 1):
        text = decode_lossy(raw)
        if not is_text(raw):
            not_text.add(number)
        elif CONTROL.search(text.removeprefix("\ufeff") if number == 1 else text):
            controls.add(number)
        for finding, has_problem in content:
            if has_problem(text):
                finding.add(number)
        line = raw.removesuffix(b"\n")
        if line.endswith(b"\r"):
            crlf.add(number)
        if b"\r" in line.removesuffix(b"\r"):
            inside.add(number)
        if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            not_text.consequence = (
                "Training refuses the file, which is UTF-16; convert it: iconv -f utf-16 -t utf-8."
            )
    if number == 0:
        empty.count = 1
    if tokenised.count < MIN_TOKENISED * number:
        tokenised.count = 0
    if number == 1 and inside.count:
        inside.consequence = (
            "Training refuses the file, whose only line ends are carriage returns: tr '\\r' '\\n'."
        )
    return [empty, not_text, crlf, inside], [controls, *(finding for finding, _ in content)]


# ---- checks of pairs


def decoded_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """Yield line n of both files as a pair, up to the end of the shorter file."""
    return zip(lossy_lines(source), lossy_lines(target), strict=False)


def check_pairs(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """Findings about the pairs of two files; `others` has source and target of other data, by name."""
    counts, unpaired = check_counts(source, target)
    return [
        unpaired,
        *(check_counts(*files)[1] for files in others.values()),
        *check_each_pair(source, target, min(counts)),
        *find_duplicates(source, target),
        *check_overlap(source, target, others),
    ]


def check_counts(source: Path, target: Path) -> tuple[list[int], Finding]:
    """The numbers of lines of two files, and the finding that they differ."""
    counts = [sum(1 for _ in raw_lines(path)) for path in (source, target)]
    unpaired = Finding(
        f"Lines without a counterpart ({source} has {counts[0]:,} lines, {target} {counts[1]:,})",
        "Training refuses the files; from some line on they do not belong together.",
        can_be_cleaned=False,
    )
    if counts[0] != counts[1]:
        unpaired.count = abs(counts[0] - counts[1])
        unpaired.lines.append(min(counts) + 1)
    return counts, unpaired


def check_each_pair(source: Path, target: Path, pairs: int) -> list[Finding]:
    """Findings about pairs by themselves; `pairs` is their number."""
    sample = list(islice(decoded_pairs(source, target), 0, None, max(1, -(-pairs // SAMPLE_PAIRS))))
    models = [NgramModel(side) for side in zip(*sample, strict=True)] or [NgramModel([])] * 2
    log_ratio = log_likelihood_ratio(*models)
    median_ratio = median_log_length_ratio(sample)
    empty = Finding("Pairs with an empty side", "Training leaves them out.")
    copies = Finding(
        "Pairs whose source equals their target", "They teach to copy; --drop-copies leaves them out."
    )
    ratios = Finding(
        f"Pairs with an unusual length ratio (by a factor of {MAX_LENGTH_RATIO:g})",
        "Often not translations of each other.",
    )
    swapped = Finding("Pairs with a side in the other side's language", "Often copied or swapped.")
    foreign = Finding("Pairs with a side in another script", "Often another language.")
    for number, pair in enumerate(decoded_pairs(source, target), 1):
        if is_empty(pair):
            empty.add(number)
            continue
        if is_copy(pair):
            copies.add(number)
        distance = abs(log_length_ratio(pair) - median_ratio)
        if has_length_ratio(pair) and distance > math.log(MAX_LENGTH_RATIO):
            ratios.add(number)
        if any(map(has_other_script, pair, models)):
            foreign.add(number)
        elif any(
            len(text) >= MIN_CHARACTERS and sign * log_ratio(text) > MIN_LOG_RATIO * len(text)
            for text, sign in zip(pair, (1, -1), strict=True)
        ):
            swapped.add(number)
    return [empty, copies, ratios, swapped, foreign]


def median_log_length_ratio(pairs: Iterable[Pair]) -> float:
    """The median of `log_length_ratio`; 0 without pairs."""
    ratios = [log_length_ratio(pair) for pair in pairs if not is_empty(pair)]
    return float(np.median(ratios)) if ratios else 0.0


def find_duplicates(source: Path, target: Path) -> list[Finding]:
    """Find pairs that equal an earlier pair, except for white space around their sides, or nearly so.

    Pairs with an empty side are left out. The hashes and their sorting take about 80 bytes of memory a pair.
    """
    duplicates = Finding("Duplicates of earlier pairs", "They count as often as they occur.")
    near_duplicates = Finding(
        "Near-duplicates of earlier pairs",
        "They differ in case, digits, punctuation, symbols or spaces alone.",
    )
    exact, near_exact, with_text = array("Q"), array("Q"), bytearray()
    for pair in decoded_pairs(source, target):
        exact.append(pair_hash(pair))
        near_exact.append(near_hash(pair))
        with_text.append(not is_empty(pair))
    hashes, near_hashes = np.array(exact, np.uint64), np.array(near_exact, np.uint64)
    is_trained_on = np.frombuffer(with_text, np.bool_)  # others are a finding of their own
    is_duplicate = later_occurrences(hashes) & is_trained_on
    is_near = differ_from_first(hashes, near_hashes) & ~is_duplicate & is_trained_on
    for finding, mask in ((duplicates, is_duplicate), (near_duplicates, is_near)):
        places = np.flatnonzero(mask)
        finding.count, finding.lines = len(places), [int(place) + 1 for place in places[:MAX_EXAMPLES]]
    return [duplicates, near_duplicates]


def check_overlap(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """Findings about training pairs whose source, or whose target, is in other data too."""
    findings = []
    for name, files in others.items():
        for kind, path, other in zip(("source", "target"), (source, target), files, strict=True):
            hashes = set(map(line_hash, lossy_lines(other)))
            finding = Finding(
                f"Pairs whose {kind} is in the {name} data too",
                f"Scores of {name} would be too good; --drop-overlap leaves out sources.",
            )
            for number, text in enumerate(lossy_lines(path), 1):
                if text.strip() and line_hash(text) in hashes:
                    finding.add(number)
            findings.append(finding)
    return findings


def examine(source: Path, target: Path, others: dict[str, tuple[Path, Path]]) -> list[Finding]:
    """All findings about a corpus that have at least one line, or an empty file.

    `others` has source and target of validation and test data, by name. They are checked for their form and
    for overlap with the corpus. Raises `DragomanError` for a file that cannot be read.
    """
    findings = [finding for path in (source, target) for group in check_file(path) for finding in group]
    for path in (path for files in others.values() for path in files):
        empty, not_text, crlf, inside = check_file(path)[0]
        not_text.can_be_cleaned = inside.can_be_cleaned = False  # clean refuses such a file
        findings += [empty, not_text, crlf, inside]
    findings += check_pairs(source, target, others)
    return [finding for finding in findings if finding.count]

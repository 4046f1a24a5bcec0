"""Writes a parallel corpus without the pairs that `doctor` warns of, and reports why each pair was removed.

HTML entities, mojibake and Moses' marks are changed into the text that was meant, before anything is checked.
The first pass over the files notes for each pair what is wrong with it by itself, its length ratio, and two
hashes. Duplicates and outliers are then found among these notes. The second pass writes. The memory is about
100 bytes per pair, and no line is kept.
"""

import json
import math
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import MANIFEST
from dragoman.system.new_folder import write_new_folder
from dragoman.system.progress import with_progress
from dragoman.system.wording import counted
from dragoman.text.compression import plain_name
from dragoman.text.lines import line_hash, raw_lines
from dragoman.text.quality.checks import (
    CONTROL,
    MIN_CHARACTERS,
    Mask,
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
    near_form,
    near_hash,
    pair_hash,
)
from dragoman.text.quality.clean_settings import CHANGES, REASONS, CleanSettings
from dragoman.text.quality.escapes import (
    decode_again,
    has_entities,
    has_marks,
    has_mojibake,
    join_marks,
    unescape,
)
from dragoman.text.quality.identification import identify, is_identifiable
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

Files = tuple[Path, Path]  # of sources and of targets
Others = tuple[list[Path], list[Path]]  # of sources, and of targets, of validation and test data
BOM = b"\xef\xbb\xbf"
MAX_SAMPLE = 5  # removed pairs that the report shows for each reason
MIN_PROBABILITY = 0.02  # of the language that a line should have; below it the line has another one
REMOVED, REPORT = "removed.jsonl", "report.json"


@dataclass
class Group:
    """The pairs that were removed for one reason, or changed in one way; a pair may be in several groups."""

    meaning: str
    count: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)
    """The first of them: as in removed.jsonl, or the line with both sides before and after the change."""

    def add(self, record: dict[str, Any]) -> None:
        """Count a pair."""
        self.count += 1
        if len(self.sample) < MAX_SAMPLE:
            self.sample.append(record)


@dataclass
class CleanReport:
    """What was changed and removed, and why; the fields are the keys of report.json."""

    source: str
    target: str
    languages: Languages
    settings: CleanSettings
    pairs: int
    kept: int
    length_ratio: float
    """The median of target length divided by source length, in characters, of the pairs that are kept."""
    changes: dict[str, Group]
    """Kept pairs that were changed."""
    reasons: dict[str, Group]


class PairChecks:
    """What is wrong with a pair by itself."""

    def __init__(self, settings: CleanSettings, languages: Languages, others: Others) -> None:
        self.settings = settings
        self.codes = [
            primary(code) if settings.language and is_identifiable(code) else UNKNOWN_LANGUAGE
            for code in (languages.source, languages.target)
        ]
        self.others = [
            {self.overlap_hash(changed(line, settings)) for path in paths for line in lossy_lines(path)}
            for paths in others
        ]

    def overlap_hash(self, line: str) -> int:
        """64 bits by which a line is found in other data."""
        return line_hash(near_form(line) if self.settings.near_duplicates else line)

    def reasons(self, raw: tuple[bytes, bytes], pair: Pair) -> Iterator[str]:
        """The names of what is wrong with a pair, and wanted to be removed."""
        settings = self.settings
        if not all(is_text(side) and b"\r" not in side for side in raw):
            if settings.encoding:
                yield "encoding"
            return  # its characters are not known
        if settings.control and any(map(CONTROL.search, pair)):
            yield "control"
        if settings.mojibake and any(map(has_mojibake, pair)):
            yield "mojibake"
        if settings.max_words and max(map(count_words, pair)) > settings.max_words:
            yield "max_words"
        if is_empty(pair):
            if settings.empty:
                yield "empty"
            return
        if settings.copies and is_copy(pair):
            yield "copies"
        if any(map(has_other_language, pair, self.codes)):
            yield "language"
        if settings.overlap and any(map(self.is_in_others, pair, self.others)):
            yield "overlap"

    def is_in_others(self, line: str, hashes: set[int]) -> bool:
        """Whether a line is in other data with these hashes."""
        return bool(hashes) and self.overlap_hash(line) in hashes


def has_other_language(line: str, code: str) -> bool:
    """Whether a line is long enough to tell its language, and it is not the one of this code."""
    if code == UNKNOWN_LANGUAGE or len(line.strip()) < MIN_CHARACTERS:
        return False
    probabilities = dict(identify(line))
    return bool(probabilities) and probabilities[code] < MIN_PROBABILITY


def raw_pairs(files: Files) -> Iterator[tuple[bytes, bytes]]:
    """The lines n of both files, without their ends and without a byte order mark."""
    first = True
    for pair in zip(*map(raw_lines, files), strict=True):
        source, target = (line.removesuffix(b"\n").rstrip(b"\r") for line in pair)
        yield (source.removeprefix(BOM), target.removeprefix(BOM)) if first else (source, target)
        first = False


def changed(line: str, settings: CleanSettings) -> str:
    """The line without entities, mojibake and marks, as far as that is wanted and possible."""
    line = unescape(line) if settings.entities and "&" in line else line
    line = decode_again(line) if settings.mojibake else line
    return join_marks(line) if settings.marks and "@" in line else line


def changed_pair(raw: tuple[bytes, bytes], settings: CleanSettings) -> tuple[bytes, bytes]:
    """The sides of a pair, each `changed` if it is text."""
    source, target = (changed(side.decode(), settings).encode() if is_text(side) else side for side in raw)
    return source, target


def names_of_changes(pair: Pair, settings: CleanSettings) -> Iterator[str]:
    """The names of the changes of a pair that are wanted."""
    if settings.entities and any(map(has_entities, pair)):
        yield "entities"
    if settings.mojibake and any(decode_again(side) != side for side in pair):
        yield "mojibake"
    if settings.marks and any(map(has_marks, pair)):
        yield "marks"


class Notes:
    """What the first pass notes of each of N pairs."""

    def __init__(self, pairs: Iterator[tuple[bytes, bytes]], checks: PairChecks) -> None:
        bits = {name: 1 << place for place, name in enumerate(REASONS)}
        reasons, ratios, long = array("H"), array("f"), array("B")
        hashes, near_hashes = array("Q"), array("Q")
        for raw in (changed_pair(raw_pair, checks.settings) for raw_pair in pairs):
            source, target = map(decode_lossy, raw)
            pair = source, target
            reasons.append(sum(bits[name] for name in checks.reasons(raw, pair)))
            ratios.append(math.nan if is_empty(pair) else log_length_ratio(pair))
            long.append(has_length_ratio(pair))
            hashes.append(pair_hash(pair))
            near_hashes.append(near_hash(pair) if checks.settings.near_duplicates else 0)
        self.bits = bits
        self.reasons = np.array(reasons, np.uint16)
        self.ratios = np.array(ratios, np.float32)
        self.has_ratio = np.array(long, bool) & ~np.isnan(self.ratios)
        self.hashes, self.near_hashes = np.array(hashes, np.uint64), np.array(near_hashes, np.uint64)
        self.median = 0.0

    def compare(self, settings: CleanSettings) -> None:
        """Add to the reasons of each pair what is wrong with it beside the others.

        The median ratio is that of the pairs that are kept. It is found by repetition, in which outliers only
        increase. A corpus that has been cleaned therefore stays as it is.
        """
        is_valid = self.reasons == 0
        outliers = np.zeros(len(is_valid), bool)
        while True:
            candidates = is_valid & ~outliers
            duplicates, near_duplicates = self.repeated(candidates, settings)
            remaining = candidates & ~duplicates & ~near_duplicates & ~np.isnan(self.ratios)
            self.median = float(np.median(self.ratios[remaining])) if remaining.any() else 0.0
            if not settings.max_ratio:
                break
            is_far = self.has_ratio & (np.abs(self.ratios - self.median) > math.log(settings.max_ratio))
            if not (is_far & ~outliers).any():
                break
            outliers |= is_far
        for name, mask in (
            ("max_ratio", outliers),
            ("duplicates", duplicates),
            ("near_duplicates", near_duplicates),
        ):
            self.reasons[mask] |= self.bits[name]

    def repeated(self, candidates: Mask, settings: CleanSettings) -> tuple[Mask, Mask]:
        """Which candidates are duplicates of earlier candidates, and which of the others are nearly so."""
        duplicates, near_duplicates = np.zeros_like(candidates), np.zeros_like(candidates)
        places = np.flatnonzero(candidates)
        if settings.duplicates:
            duplicates[places] = later_occurrences(self.hashes[places])
        if settings.near_duplicates:
            near_duplicates[places] = differ_from_first(self.hashes[places], self.near_hashes[places])
        return duplicates, near_duplicates & ~duplicates

    def names(self, number: int) -> list[str]:
        """Why pair `number`, counted from 0, is removed; empty if it is kept."""
        flags = int(self.reasons[number])
        return [name for name, bit in self.bits.items() if flags & bit]


def clean_files(
    files: Files, out: Path, settings: CleanSettings, languages: Languages, others: Others
) -> CleanReport:
    """Write the pairs of two files that are not removed to a new folder, the others to removed.jsonl there.

    `languages` may be unknown. Kept lines are copied byte for byte, except for `CHANGES`, with LF as their
    ends and without a byte order mark. Raises `DragomanError` if a file cannot be read twice, the
    numbers of lines differ, no pair is left, or the folder exists.
    """
    pairs = with_progress(raw_pairs(files), count_pairs(files, out), "pairs are checked")
    notes = Notes(pairs, PairChecks(settings, languages, others))
    notes.compare(settings)
    names = file_names(files)
    pairs_left = int((notes.reasons == 0).sum())
    report = CleanReport(
        *names, languages, settings, len(notes.reasons), pairs_left, round(math.exp(notes.median), 4), {}, {}
    )
    report.changes = {name: Group(CHANGES[name]) for name in CHANGES if getattr(settings, name)}
    report.reasons = {name: Group(REASONS[name]) for name in REASONS if getattr(settings, name)}
    if not pairs_left:
        counts = [(int((notes.reasons & bit > 0).sum()), name) for name, bit in notes.bits.items()]
        summary = ", ".join(f"{name} {count:,}" for count, name in counts if count)
        _, most = max(counts)
        option = ("no-" if isinstance(getattr(settings, most), bool) else "") + most.replace("_", "-")
        raise DragomanError(
            f"No pair of {files[0]} and {files[1]} would be left ({summary}). Turn off or change the check "
            f"that is wrong for them: --{option}."
        )
    write_new_folder(out, lambda new: write_pairs(new, files, notes, report))
    return report


def write_pairs(folder: Path, files: Files, notes: Notes, report: CleanReport) -> None:
    """Write the kept pairs, the removed ones with their reasons, and the report, which is completed here."""
    with (
        (folder / report.source).open("wb") as source,
        (folder / report.target).open("wb") as target,
        (folder / REMOVED).open("w", encoding="utf-8") as removed,
    ):
        for number, raw in enumerate(raw_pairs(files)):
            if names := notes.names(number):
                record = {"line": number + 1, "reasons": names}
                record |= dict(zip(("source", "target"), legible(raw), strict=True))
                removed.write(json.dumps(record, ensure_ascii=False) + "\n")
                for name in names:
                    report.reasons[name].add(record)
                continue
            changed = changed_pair(raw, report.settings)
            source.write(changed[0] + b"\n")
            target.write(changed[1] + b"\n")
            if changed != raw:
                before, after = legible(raw), legible(changed)
                record = {"line": number + 1, "before": [*before], "after": [*after]}
                for name in names_of_changes(before, report.settings):
                    report.changes[name].add(record)
    (folder / REPORT).write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n", "utf-8")


def legible(raw: tuple[bytes, bytes]) -> Pair:
    """The sides of a pair as texts, with escapes for bytes that are not UTF-8."""
    source, target = (side.decode("utf-8", "backslashreplace") for side in raw)
    return source, target


def file_names(files: Files) -> tuple[str, str]:
    """Names of the files to write: of those to read, without .gz and .zst, unless a name is taken."""
    source, target = (plain_name(path.name) for path in files)
    is_free = source != target and not {source, target} & {REMOVED, REPORT, MANIFEST}
    return (source, target) if is_free else (f"source.{source}", f"target.{target}")


def count_pairs(files: Files, out: Path) -> int:
    """The number of pairs.

    Raises `DragomanError` for files that cannot be read twice or are not pairs, and if `out` exists.
    """
    if out.exists():
        raise OptionError("{path} exists; choose another {out}, or delete it.", path=out)
    for path in files:
        if path.exists() and not path.is_file():
            raise DragomanError(f"{path} is not a regular file, and cannot be read twice.")
    counts = [sum(1 for _ in raw_lines(path)) for path in files]
    if counts[0] != counts[1]:
        raise DragomanError(
            f"{files[0]} has {counted(counts[0], 'line')} and {files[1]} has {counts[1]:,}. Line n of one "
            "has to belong to line n of the other."
        )
    if not counts[0]:
        raise DragomanError(f"{files[0]} is empty; it has to hold a line for each sentence.")
    return counts[0]

"""The validation and test pairs of a run, given or held out of its text."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.text.conversion import ConvertedData, CorpusPart
from dragoman.text.corpus import (
    Files,
    PairFilter,
    scan_corpus,
    write_corpus,
)
from dragoman.text.held_out import fitting_pairs, held_out_pairs
from dragoman.text.lines import read_pairs
from dragoman.text.settings import DataSettings, LanguagePair
from dragoman.translation.model_folder import Tokenizers

Groups = dict[LanguagePair | None, list[tuple[str, str]]]
"""Pairs of texts by their pair of languages; by None if a run has one."""


def write_valid(
    folder: Path, files: Files, data: DataSettings, pair_filter: PairFilter, tokenizers: Tokenizers
) -> tuple[int, int]:
    """Write the validation pairs, given or held out, and their ids. The folder has the tokenizers.

    With several pairs of languages the pairs of each are also in a folder of their own, such as `en-de`.
    Returns how many are held out, and how many of these were too long. Raises `DragomanError` if there is
    none.
    """
    held_out = too_long = 0
    source, target = data.valid_source, data.valid_target
    if source is not None and target is not None:
        groups = grouped(
            [
                (data.pair(line, "valid"), pair)
                for line, pair in enumerate(read_pairs(source, target), 1)
                if all(map(str.strip, pair))
            ]
        )
        for pairs in groups.values() or [[]]:
            refuse_without_tokens(pairs, tokenizers, source, target)
    else:
        groups = {}
        for languages in language_pairs(data):
            candidates = held_out_pairs(*files, pair_filter.held_out, data, languages)
            groups[languages] = fitting_pairs(candidates, data, (tokenizers.source, tokenizers.target))
            held_out += len(groups[languages])
            too_long += len(candidates) - len(groups[languages])
    paths = tokenizers.paths(folder)
    write_ids(folder, groups, paths)
    for languages, pairs in groups.items():
        if languages is not None:
            write_ids(folder / languages.name, {languages: pairs}, paths)
    return held_out, too_long


def write_test(folder: Path, data: DataSettings, source: Path, target: Path) -> None:
    """Write the test pairs; with several pairs of languages those of each in a folder of its own, too."""
    groups = grouped(
        [(data.pair(line, "test"), pair) for line, pair in enumerate(read_pairs(source, target), 1)]
    )
    write_pairs(folder, "test", [pair for pairs in groups.values() for pair in pairs])
    for languages, pairs in groups.items():
        if languages is not None:
            write_pairs(folder / languages.name, "test", pairs)


def language_pairs(data: DataSettings) -> list[LanguagePair | None]:
    """The pairs of languages of the training text, each once; None if there is one."""
    parts = data.parts if isinstance(data, ConvertedData) else ()
    return list(dict.fromkeys(part.pair for part in parts)) or [None]


def grouped(rows: Sequence[tuple[LanguagePair | None, tuple[str, str]]]) -> Groups:
    """Rows by their pair of languages, each in order."""
    groups: Groups = {}
    for languages, pair in rows:
        groups.setdefault(languages, []).append(pair)
    return groups


def refuse_without_tokens(
    pairs: Sequence[tuple[str, str]], tokenizers: Tokenizers, source: Path, target: Path
) -> None:
    """Raise `DragomanError` for validation text in which no pair has tokens on both sides."""
    encode = tokenizers.source.encode, tokenizers.target.encode
    if not any(encode[0]([first])[0] and encode[1]([second])[0] for first, second in pairs):
        raise DragomanError(f"{source} and {target} have no pair with tokens on both sides.")


def write_ids(folder: Path, groups: Groups, tokenizers: tuple[Path, Path]) -> None:
    """Write validation pairs as text, and as ids: each source after the symbol of its target language."""
    folder.mkdir(exist_ok=True)
    write_pairs(folder, "valid", [pair for pairs in groups.values() for pair in pairs])
    parts, first_line = [], 1
    for languages, pairs in groups.items():
        parts.append(CorpusPart(first_line, None, "", languages))
        first_line += len(pairs)
    paths = folder / "valid.source.txt", folder / "valid.target.txt"
    settings = ConvertedData(longest=0, parts=tuple(parts))
    statistics, keep_all = scan_corpus(paths, settings, {}, candidates=None)
    write_corpus(folder / "valid", paths, tokenizers, settings, keep_all, statistics)


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write pairs as two text files."""
    folder.mkdir(exist_ok=True)
    for number, side in enumerate(("source", "target")):
        write_lines(folder / f"{name}.{side}.txt", (pair[number] for pair in pairs))

"""The validation pairs of a run, given or held out of its text."""

from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.text.corpus import (
    Files,
    PairFilter,
    scan_corpus,
    write_corpus,
)
from dragoman.text.held_out import fitting_pairs, held_out_pairs
from dragoman.text.lines import read_pairs
from dragoman.text.settings import DataSettings
from dragoman.translation.model_folder import Tokenizers


def write_valid(
    folder: Path, files: Files, data: DataSettings, pair_filter: PairFilter, tokenizers: Tokenizers
) -> tuple[int, int]:
    """Write the validation pairs, given or held out, and their ids. The folder has the tokenizers.

    Returns how many are held out, and how many of these were too long. Raises `DragomanError` if there is
    none.
    """
    held_out = too_long = 0
    source, target = data.valid_source, data.valid_target
    if source is not None and target is not None:
        pairs = [pair for pair in read_pairs(source, target) if all(map(str.strip, pair))]
        source_tokenizer, target_tokenizer = tokenizers.source, tokenizers.target
        if not any(source_tokenizer.encode([s])[0] and target_tokenizer.encode([t])[0] for s, t in pairs):
            raise DragomanError(f"{source} and {target} have no pair with tokens on both sides.")
    else:
        candidates = held_out_pairs(*files, pair_filter.held_out, data)
        pairs = fitting_pairs(candidates, data, (tokenizers.source, tokenizers.target))
        held_out, too_long = len(pairs), len(candidates) - len(pairs)
    write_pairs(folder, "valid", pairs)
    paths, settings = (folder / "valid.source.txt", folder / "valid.target.txt"), DataSettings(longest=0)
    statistics, keep_all = scan_corpus(paths, settings, {}, candidates=None)
    write_corpus(folder / "valid", paths, tokenizers.paths(folder), settings, keep_all, statistics)
    return held_out, too_long


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write pairs as two text files."""
    for number, side in enumerate(("source", "target")):
        write_lines(folder / f"{name}.{side}.txt", (pair[number] for pair in pairs))

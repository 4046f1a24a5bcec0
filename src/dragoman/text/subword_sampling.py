"""Subword regularisation: the training text is segmented several times, and epochs use the copies in turn.

BPE-dropout (Provilkov, Emelianenko and Voita 2020) and sampling of unigram segmentations (Kudo 2018), both
SentencePiece's own. All copies are written when the text is prepared, so training reads ids as ever, and a
resumed run equals an uninterrupted one.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import sentencepiece

from dragoman.system.errors import DragomanError
from dragoman.system.processors import map_in_processes
from dragoman.text.corpus import SHARD_LINES, Corpus, Files, Ids
from dragoman.text.lines import line_offsets, read_lines
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer, replace_surrogates

SIDES = "source", "target"


class Sampler:
    """Random segmentations of a tokenizer, which depend on the text and a seed alone.

    Raises `DragomanError` for a tokenizer that has one segmentation only.
    """

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        self.alpha = alpha
        """The probability to leave a merge out (BPE), or the power of the probabilities (unigram)."""
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        try:
            if tokenizer.codes is not None:
                raise RuntimeError("subword-nmt splits its words")
            self.sample("a", 0)
        except RuntimeError as error:
            raise DragomanError(
                f"This tokenizer cannot sample segmentations ({error}); leave bpe_dropout and sampling_alpha "
                "out."
            ) from error

    def sample(self, line: str, seed: int) -> list[int]:
        """The ids of a line. The generator is seeded for each line: neighbours and threads change nothing."""
        sentencepiece.set_random_generator_seed(seed)
        ids: list[int] = self._processor.encode(
            replace_surrogates(line), enable_sampling=True, alpha=self.alpha, nbest_size=-1
        )
        return ids


def line_seed(seed: int, copy: int, side: int, line: int) -> int:
    """The seed, of 32 bits, of a line of the text in one of its copies."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {copy} {side} {line}".encode(), digest_size=4).digest())


@dataclass(frozen=True)
class _Copy:
    """One copy of a shard of the corpus, with all that a process needs to write it."""

    files: Files
    offsets: tuple[int, int]
    """Byte offsets of the shard's first line in both files."""
    first_line: int
    folder: Path
    tokenizers: tuple[Path, Path]
    data: DataSettings
    settings: TokenizerSettings
    seed: int
    number: int

    def text(self, side: int, wanted: Ids) -> Iterator[tuple[int, str]]:
        """Yield the lines of a side with these numbers, sources with their tags."""
        lines = enumerate(
            read_lines(self.files[side], self.offsets[side], self.first_line), start=self.first_line
        )
        for number in wanted:
            line = next(line for found, line in lines if found == number)
            yield int(number), line if side else self.data.tag(int(number)) + line


def _write_copy(copy: _Copy) -> None:
    """Sample the segmentations of a shard's lines and save their ids.

    A line has the ordinary segmentation where the sample is longer than `longest`, or splits a symbol.
    """
    name, settings = f"{copy.first_line - 1:09}", copy.settings
    prefix = f"{copy.folder}/copy{copy.number:03}-{name}"
    numbers = np.load(copy.folder / f"{name}.lines.npy")
    for side, (side_name, path) in enumerate(zip(SIDES, copy.tokenizers, strict=True)):
        tokenizer = Tokenizer.load(path)
        sampler = Sampler(tokenizer, settings.bpe_dropout or settings.sampling_alpha)
        known = tokenizer.encode(settings.symbols)
        symbols = {ids[-1] for ids in known if ids}
        ordinary = np.load(copy.folder / f"{name}.{side_name}.npy")
        offsets = np.load(copy.folder / f"{name}.{side_name}-offsets.npy")
        rows = []
        for (line, text), (first, last) in zip(copy.text(side, numbers), pairwise(offsets), strict=True):
            ids, row = (
                sampler.sample(text, line_seed(copy.seed, copy.number, side, line)),
                ordinary[first:last],
            )
            is_short = not copy.data.longest or len(ids) <= copy.data.longest
            is_whole = [each for each in ids if each in symbols] == [each for each in row if each in symbols]
            rows.append(np.array(ids, ordinary.dtype) if is_short and is_whole else row)
        np.save(f"{prefix}.{side_name}.npy", np.concatenate(rows) if rows else ordinary)
        np.save(f"{prefix}.{side_name}-offsets.npy", np.cumsum([0, *map(len, rows)], dtype=np.uint32))
    np.save(f"{prefix}.lines.npy", numbers)


def sample_copies(
    new: Path,
    files: Files,
    tokenizers: tuple[Path, Path],
    data: DataSettings,
    settings: TokenizerSettings,
    seed: int,
    shard_lines: int = SHARD_LINES,
) -> None:
    """Replace the corpus `new / "train"`, which `write_corpus` has just written, by its sampled copies.

    The other arguments are those of `write_corpus`. Every copy has the same pairs
    in the same order. Raises `DragomanError` where `Sampler` does.
    """
    folder = new / "train"
    for path in tokenizers:
        Sampler(Tokenizer.load(path), settings.bpe_dropout or settings.sampling_alpha)  # raises
    ordinary, statistics = list(folder.glob("*.npy")), Corpus(folder).statistics
    offsets = list(zip(*(line_offsets(path, shard_lines) for path in files), strict=True))
    copies = [
        _Copy(files, pair, n * shard_lines + 1, folder, tokenizers, data, settings, seed, number)
        for number in range(settings.sampled_copies)
        for n, pair in enumerate(offsets)
    ]
    if len(offsets) == 1:
        for copy in copies:
            _write_copy(copy)
    else:
        map_in_processes(_write_copy, copies)
    for path in ordinary:
        path.unlink()
    statistics.sampled_copies = settings.sampled_copies
    (folder / "corpus.json").write_text(json.dumps(asdict(statistics), indent=2) + "\n")

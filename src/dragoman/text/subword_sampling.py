"""Subword regularisation: the training text is segmented several times, and epochs use the copies in turn.

BPE-dropout (Provilkov, Emelianenko and Voita 2020) and sampling of unigram segmentations (Kudo 2018), both
SentencePiece's own. All copies are written when the text is prepared, so training reads ids as ever, and a
resumed run equals an uninterrupted one. Two preparations give different samples: SentencePiece 0.2.3 mixes
its seed with randomness of the process, so the recipe's seed does not determine them.
"""

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import sentencepiece

from dragoman.system.errors import DragomanError
from dragoman.system.processors import map_in_processes
from dragoman.text.corpus import SHARD_LINES, Corpus, Files, PairFilter, Shard
from dragoman.text.lines import line_offsets
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer, replace_surrogates

SIDES = "source", "target"


class Sampler:
    """Random segmentations of a tokenizer.

    Raises `DragomanError` for a tokenizer that has one segmentation only.
    """

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        self.alpha = alpha
        """The probability to leave a merge out (BPE), or the power of the probabilities (unigram)."""
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        try:
            if tokenizer.codes is not None:
                raise RuntimeError("subword-nmt splits its words")
            self.sample("a")
        except RuntimeError as error:
            raise DragomanError(
                f"This tokenizer cannot sample segmentations ({error}); leave bpe_dropout and sampling_alpha "
                "out."
            ) from error

    def sample(self, line: str) -> list[int]:
        """The ids of a line."""
        ids: list[int] = self._processor.encode(
            replace_surrogates(line), enable_sampling=True, alpha=self.alpha, nbest_size=-1
        )
        return ids


@dataclass(frozen=True)
class _Copy:
    """One copy of a shard of the corpus, with all that a process needs to write it."""

    shard: Shard
    settings: TokenizerSettings
    number: int


def _write_copy(copy: _Copy) -> None:
    """Sample the segmentations of a shard's lines and save their ids.

    A line has the ordinary segmentation where the sample is longer than `longest`, or splits a symbol.
    """
    shard, settings = copy.shard, copy.settings
    name = f"{shard.first_line - 1:09}"
    prefix = f"{shard.folder}/copy{copy.number:03}-{name}"
    numbers = np.load(shard.folder / f"{name}.lines.npy")
    kept = set(numbers.tolist())
    longest = shard.settings.longest or math.inf
    for side, (side_name, path) in enumerate(zip(SIDES, shard.tokenizers, strict=True)):
        tokenizer = Tokenizer.load(path)
        sampler = Sampler(tokenizer, settings.bpe_dropout or settings.sampling_alpha)
        symbols = {ids[-1] for ids in tokenizer.encode(settings.symbols) if ids}
        ordinary = np.load(shard.folder / f"{name}.{side_name}.npy")
        offsets = np.load(shard.folder / f"{name}.{side_name}-offsets.npy")
        pairs = (pair for pair in shard.kept_pairs() if pair[0] in kept)
        rows = []
        for (_, *texts), (first, last) in zip(pairs, pairwise(offsets), strict=True):
            ids = sampler.sample(texts[side])
            row = ordinary[first:last]
            is_whole = [each for each in ids if each in symbols] == [each for each in row if each in symbols]
            rows.append(np.array(ids, ordinary.dtype) if is_whole and len(ids) <= longest else row)
        np.save(f"{prefix}.{side_name}.npy", np.concatenate(rows) if rows else ordinary)
        np.save(f"{prefix}.{side_name}-offsets.npy", np.cumsum([0, *map(len, rows)], dtype=np.uint32))
    np.save(f"{prefix}.lines.npy", numbers)


def sample_copies(
    new: Path,
    files: Files,
    tokenizers: tuple[Path, Path],
    data: DataSettings,
    settings: TokenizerSettings,
    shard_lines: int = SHARD_LINES,
) -> None:
    """Replace the corpus `new / "train"`, which `write_corpus` has just written, by its sampled copies.

    The other arguments are those of `write_corpus`. Every copy has the same pairs in the same order.
    Raises `DragomanError` where `Sampler` does.
    """
    folder = new / "train"
    for path in tokenizers:
        Sampler(Tokenizer.load(path), settings.bpe_dropout or settings.sampling_alpha)  # raises
    ordinary, statistics = list(folder.glob("*.npy")), Corpus(folder).statistics
    offsets = zip(*(line_offsets(path, shard_lines) for path in files), strict=True)
    every = PairFilter()  # `write_corpus` has chosen the pairs
    shards = [
        Shard(files, pair, n * shard_lines + 1, shard_lines, folder, every, tokenizers, data)
        for n, pair in enumerate(offsets)
    ]
    copies = [_Copy(shard, settings, number) for number in range(settings.sampled_copies) for shard in shards]
    if len(shards) == 1:
        for copy in copies:
            _write_copy(copy)
    else:
        map_in_processes(_write_copy, copies)
    for path in ordinary:
        path.unlink()
    statistics.sampled_copies = settings.sampled_copies
    (folder / "corpus.json").write_text(json.dumps(asdict(statistics), indent=2) + "\n")

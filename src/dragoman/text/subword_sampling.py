"""Subword regularisation: the training text is segmented several times, and epochs use the copies in turn.

All copies are written when the text is prepared, so training reads ids as usual, and a resumed run equals an
uninterrupted one. A sample depends on the seed, the copy, the side and the number of the line alone.
"""

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from dragoman.system.errors import OptionError
from dragoman.system.processors import map_in_processes
from dragoman.text.corpus import SHARD_LINES, Corpus, Files, PairFilter, Shard
from dragoman.text.lines import line_offsets
from dragoman.text.model_proto import model_kind
from dragoman.text.segmentation_sampling import SegmentationSampler
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer

SIDES = "source", "target"


def make_sampler(tokenizer: Tokenizer, settings: TokenizerSettings) -> SegmentationSampler:
    """The sampler of settings that sample.

    Raises `DragomanError` for a tokenizer whose tokens are of another kind than the settings are for.
    """
    name, kind = ("bpe_dropout", "bpe") if settings.bpe_dropout else ("sampling_alpha", "unigram")
    actual_kind = "word" if tokenizer.codes is not None else model_kind(tokenizer.model)
    if actual_kind != kind:
        raise OptionError(
            f"{{{name}}} is for {kind} tokens, and those of this tokenizer are {actual_kind}; leave "
            f"{{{name}}} out."
        )
    return SegmentationSampler(tokenizer.model, settings.bpe_dropout or settings.sampling_alpha)


@dataclass(frozen=True)
class _Copy:
    """One copy of a shard of the corpus, with all that a process needs to write it."""

    shard: Shard
    settings: TokenizerSettings
    seed: int
    number: int


def _write_copy(copy: _Copy) -> None:
    """Sample the segmentations of a shard's lines and save their ids.

    A line has the ordinary segmentation where the sample is longer than `longest`.
    """
    shard = copy.shard
    name = f"{shard.first_line - 1:09}"
    prefix = f"{shard.folder}/copy{copy.number:03}-{name}"
    numbers = np.load(shard.folder / f"{name}.lines.npy")
    line_numbers = set(numbers.tolist())
    longest = shard.settings.longest or math.inf
    for side, (side_name, path) in enumerate(zip(SIDES, shard.tokenizers, strict=True)):
        sampler = make_sampler(Tokenizer.load(path), copy.settings)
        ordinary = np.load(shard.folder / f"{name}.{side_name}.npy")
        offsets = np.load(shard.folder / f"{name}.{side_name}-offsets.npy")
        pairs = (pair for pair in shard.kept_pairs() if pair[0] in line_numbers)
        rows = []
        for (line, *texts), (first, last) in zip(pairs, pairwise(offsets), strict=True):
            # The 1 keeps the key apart from those of the order of the pairs, which are shorter.
            random = np.random.default_rng([copy.seed, copy.number, side, line, 1])
            ids = sampler.sample(texts[side], random)
            rows.append(np.array(ids, ordinary.dtype) if len(ids) <= longest else ordinary[first:last])
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

    `seed` determines the samples; the other arguments are those of `write_corpus`. Every copy has the same
    pairs in the same order. Raises `DragomanError` where `make_sampler` does.
    """
    folder = new / "train"
    for path in tokenizers:
        make_sampler(Tokenizer.load(path), settings)  # raises
    ordinary, statistics = list(folder.glob("*.npy")), Corpus(folder).statistics
    offsets = zip(*(line_offsets(path, shard_lines) for path in files), strict=True)
    keep_all = PairFilter()  # `write_corpus` has chosen the pairs
    shards = [
        Shard(files, pair, n * shard_lines + 1, shard_lines, folder, keep_all, tokenizers, data)
        for n, pair in enumerate(offsets)
    ]
    numbers = range(settings.sampled_copies)
    copies = [_Copy(shard, settings, seed, number) for number in numbers for shard in shards]
    map_in_processes(_write_copy, copies)
    for path in ordinary:
        path.unlink()
    statistics.sampled_copies = settings.sampled_copies
    (folder / "corpus.json").write_text(json.dumps(asdict(statistics), indent=2) + "\n")

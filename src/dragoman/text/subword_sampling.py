"""Subword regularisation: the training text is segmented several times (Kudo 2018, Provilkov et al. 2020).

A sample depends on the seed, the copy, the side and the number of the line alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.system.errors import OptionError
from dragoman.text.copies import SampleIds, write_copies
from dragoman.text.corpus import SHARD_LINES, Files
from dragoman.text.model_proto import model_kind
from dragoman.text.segmentation_sampling import SegmentationSampler
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer


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
class SegmentationSamples:
    """Samples the segmentations of both sides."""

    settings: TokenizerSettings
    seed: int

    def open(self, tokenizers: Sequence[Tokenizer]) -> SampleIds:
        """As `PairSampler.open`."""
        samplers = [make_sampler(tokenizer, self.settings) for tokenizer in tokenizers]

        def sample(copy: int, line: int, source: str, target: str) -> tuple[list[int], list[int]]:
            # The 1 keeps the key apart from those of the order of the pairs, which are shorter.
            draws = (np.random.default_rng([self.seed, copy, side, line, 1]) for side in (0, 1))
            source_ids, target_ids = (
                sampler.sample(text, draw)
                for sampler, text, draw in zip(samplers, (source, target), draws, strict=True)
            )
            return source_ids, target_ids

        return sample


def sample_copies(
    new: Path,
    files: Files,
    tokenizers: tuple[Path, Path],
    data: DataSettings,
    settings: TokenizerSettings,
    seed: int,
    shard_lines: int = SHARD_LINES,
) -> None:
    """Replace the corpus `new / "train"` by copies whose segmentations `seed` determines, as `write_copies`.

    Raises `DragomanError` where `make_sampler` does.
    """
    for path in tokenizers:
        make_sampler(Tokenizer.load(path), settings)  # raises
    samples = SegmentationSamples(settings, seed)
    write_copies(new, files, tokenizers, data, samples, settings.sampled_copies, shard_lines)

"""Lexical shortlists: the target tokens that may translate a sentence. The logits of others are not computed.

Translations of a token are learned from parallel text by IBM Model 1 (Brown et al. 1993).
Shapes: S and T vocabularies, K tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.system.files import read_arrays

Ids = npt.NDArray[np.int32]
ADVICE = "make one with: dragoman shortlist RUN --source … --target … --out "
EM_ITERATIONS = 5  # as is usual for Model 1, whose likelihood has one optimum: the start does not matter
MAX_LINKS = 20_000_000  # token pairs that are counted: they take some gigabytes


@dataclass(frozen=True)
class Shortlist:
    """For each source token its likeliest translations, padded with -1; tokens allowed everywhere."""

    translations: Ids
    """[S, K]"""
    always: Ids

    @classmethod
    def learn(
        cls, pairs: Sequence[tuple[list[int], list[int]]], sizes: tuple[int, int], most: int, always: int
    ) -> "Shortlist":
        """Learn from pairs of ids without END.

        The shortlist has `most` translations of each token, and the `always` most frequent tokens. Of text
        with more than `MAX_LINKS` pairs of tokens, every k-th pair of sentences is used.
        """
        stride = -(-sum(len(source) * len(target) for source, target in pairs) // MAX_LINKS)
        table = np.full((sizes[0], most), -1, np.int32)
        for (source, target), rank in best_translations(pairs[:: max(stride, 1)], sizes[1], most):
            table[source, rank] = target
        counts = np.bincount(
            np.concatenate([[END], *(target for _, target in pairs)]).astype(np.int64), minlength=sizes[1]
        )
        counts[[END, UNKNOWN]] = counts.max() + 1
        frequent = np.argsort(-counts, kind="stable")[: always + 2]
        return cls(table, np.sort(frequent[counts[frequent] > 0]).astype(np.int32))

    def save(self, path: Path) -> None:
        """Write a safetensors file. Raises `OSError`."""
        path.write_bytes(save({"translations": self.translations, "always": self.always}))

    @classmethod
    def load(cls, path: Path, sizes: tuple[int, int]) -> "Shortlist":
        """Read a file for vocabularies of these sizes.

        Raises `DragomanError` if it is missing, is damaged or was made for others.
        """
        if not path.is_file():
            raise DragomanError(
                f"{path} is a folder; {ADVICE}FILE" if path.is_dir() else f"{path} is missing; {ADVICE}{path}"
            )
        try:
            arrays = read_arrays(path)
        except DragomanError as error:
            raise DragomanError(f"{path} is no shortlist; {ADVICE}ANOTHER-FILE") from error
        ids = [arrays[name] for name in ("translations", "always") if name in arrays]
        shaped = [value.ndim for value in ids] == [2, 1]
        valid = shaped and all(value.dtype == np.int32 and value.min(initial=0) >= -1 for value in ids)
        if (
            not valid
            or not {UNKNOWN, END} <= set(ids[1].tolist())
            or any(np.isin([PAD, START], value).any() for value in ids)
        ):
            raise DragomanError(f"{path} is no shortlist; {ADVICE}ANOTHER-FILE")
        shortlist = cls(*ids)
        if len(shortlist.translations) != sizes[0] or shortlist.highest >= sizes[1]:
            raise DragomanError(
                f"{path} was made for {len(shortlist.translations)} source tokens and at least "
                f"{shortlist.highest + 1} target tokens, and this model has {sizes[0]} and {sizes[1]}; make "
                "one with this model's vocabularies."
            )
        return shortlist

    @cached_property
    def highest(self) -> int:
        """The highest id in the shortlist."""
        return int(max(self.always.max(initial=0), self.translations.max(initial=0)))

    def allowed(self, source: Sequence[int]) -> Ids:
        """The target ids for a sentence, ascending; END and UNKNOWN are among them."""
        mask = np.zeros(self.highest + 2, bool)  # the last is for -1
        mask[self.always] = mask[self.translations[source]] = True
        return np.flatnonzero(mask[:-1]).astype(np.int32)


def best_translations(
    pairs: Sequence[tuple[list[int], list[int]]], vocabulary: int, most: int
) -> list[tuple[tuple[int, int], int]]:
    """((source, target), rank) of the `most` likeliest translations of each source token."""
    links = [
        (
            np.repeat(source, len(target)),
            np.tile(target, len(source)),
            np.tile(np.arange(len(target)), len(source)),
        )
        for source, target in pairs
        if source and target
    ]
    if not links:
        return []
    starts = np.cumsum([0, *(len(target) for source, target in pairs if source and target)])
    source, target = (np.concatenate([link[side] for link in links]).astype(np.int64) for side in (0, 1))
    slot = np.concatenate([link[2] + start for link, start in zip(links, starts, strict=False)])
    keys, link = np.unique(source * vocabulary + target, return_inverse=True)
    source_of = keys // vocabulary
    p: npt.NDArray[np.float64] = np.ones(len(keys))
    for _ in range(EM_ITERATIONS):
        weight = p[link]
        # Each target token is shared among the source tokens of its sentence.
        weight /= np.bincount(slot, weight)[slot]
        p = np.bincount(link, weight).astype(np.float64)
        p /= np.bincount(source_of, p)[source_of]
    order = np.lexsort((-p, source_of))
    first = np.searchsorted(source_of[order], source_of[order])
    ranks = np.arange(len(order)) - first
    ranked = zip(keys[order].tolist(), ranks.tolist(), strict=True)
    return [(divmod(key, vocabulary), rank) for key, rank in ranked if rank < most]

"""Validation pairs held out of the training files, where a recipe names no others."""

import heapq
from pathlib import Path

from dragoman.system.errors import OptionError
from dragoman.text.lines import line_hash, read_pairs
from dragoman.text.settings import DataSettings, LanguagePair
from dragoman.text.tokenizer import Tokenizer

MAX_HELD_OUT = 2_000


class HeldOutSources:
    """The sources with the smallest hashes, from which validation pairs are chosen.

    Hashes make the choice random, but the same for the same sentences in any order.
    """

    def __init__(self, options: str = "{valid_source} and {valid_target}") -> None:
        self.options = options
        """The options that give validation pairs instead, in braces."""
        self.counts: dict[int, int] = {}
        """The number of pairs with each source, by its hash."""
        self.of_pairs: dict[LanguagePair, HeldOutSources] = {}
        """The sources of each of several pairs of languages, of which each is held out by itself."""
        self.pairs = 0
        """Pairs that were added, of one pair of languages among several."""
        self.tagged = 0
        """Pairs of corpora with a tag, which are not held out."""
        self.left_out: set[str] = set()
        """What is not for training, either, each with the option that leaves it out, in braces."""
        self._heap: list[int] = []  # negated hashes, so that the largest hash is on top

    def add(
        self,
        hashed: int,
        is_tagged: bool = False,
        left_out: str = "",
        languages: LanguagePair | None = None,
    ) -> None:
        """Count a pair by the hash of its source; one that an option leaves out is not counted."""
        if languages is not None:
            of_pair = self.of_pairs.setdefault(languages, HeldOutSources(self.options))
            of_pair.pairs += 1
            of_pair.add(hashed, is_tagged, left_out)
        elif left_out:
            self.left_out.add(left_out)
        elif is_tagged:
            self.tagged += 1
        elif hashed in self.counts:
            self.counts[hashed] += 1
        elif len(self._heap) <= MAX_HELD_OUT or hashed < -self._heap[0]:
            self.counts[hashed] = 1
            heapq.heappush(self._heap, -hashed)
            if len(self._heap) > MAX_HELD_OUT + 1:
                del self.counts[-heapq.heappop(self._heap)]

    def choose(self, source: Path, pairs: int) -> frozenset[int]:
        """Hashes of sources that have a 50th of all `pairs` together, at most 2,000; smallest hashes first.

        If every source has more pairs, only the source with the fewest is chosen. Of several pairs of
        languages, sources of each are chosen. Raises `DragomanError` with the name of the file if there are
        too few different sources.
        """
        if self.of_pairs:
            chosen_of_pairs = (of_pair.choose(source, of_pair.pairs) for of_pair in self.of_pairs.values())
            return frozenset().union(*chosen_of_pairs)
        if len(self.counts) < 2:
            scope = " in corpora without a tag" if self.tagged else ""
            left_out = f", {', '.join(sorted(self.left_out))}," if self.left_out else ""
            raise OptionError(
                f"{{path}} has too few different sentences{scope}{left_out} to hold some out; give "
                f"{self.options}.",
                path=source,
            )
        remaining = min(MAX_HELD_OUT, max(1, pairs // 50))
        chosen: set[int] = set()
        for hashed in sorted(self.counts):
            if self.counts[hashed] <= remaining:
                chosen.add(hashed)
                remaining -= self.counts[hashed]
        return frozenset(chosen or {min(self.counts, key=lambda hashed: (self.counts[hashed], hashed))})


def held_out_pairs(
    source: Path,
    target: Path,
    held_out: frozenset[int],
    data: DataSettings,
    languages: LanguagePair | None = None,
) -> list[tuple[str, str]]:
    """The pairs whose sources have these hashes, without copies that are dropped and corpora with a tag.

    With several pairs of languages those of one of them.
    """
    return [
        pair
        for line, pair in enumerate(read_pairs(source, target), 1)
        if all(map(str.strip, pair)) and line_hash(pair[0]) in held_out and not data.tag(line)
        if data.pair(line) == languages
        if not (data.drop_copies and pair[0] == pair[1])
    ]


def fitting_pairs(
    pairs: list[tuple[str, str]], data: DataSettings, tokenizers: tuple[Tokenizer, Tokenizer]
) -> list[tuple[str, str]]:
    """The pairs that have at most `data.longest` tokens on a side; all of them if that is 0.

    Raises `DragomanError` if there is none.
    """
    sides = zip(*pairs, strict=True)
    encoded = (tokenizer.encode(side) for tokenizer, side in zip(tokenizers, sides, strict=True))
    fitting = [
        pair
        for pair, *ids in zip(pairs, *encoded, strict=True)
        if not data.longest or max(map(len, ids)) <= data.longest
    ]
    if not fitting:
        raise OptionError(
            "All validation pairs, held out of {source_file} and {target_file}, have more than {most} "
            "tokens; give a larger {longest}.",
            source_file=data.source,
            target_file=data.target,
            most=data.longest,
        )
    return fitting

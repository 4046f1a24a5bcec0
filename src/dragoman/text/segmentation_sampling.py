"""Random segmentations of a text in the pieces of a SentencePiece model, which a generator determines.

BPE-dropout (Provilkov, Emelianenko and Voita 2020) and sampling of unigram segmentations (Kudo 2018).
SentencePiece samples too, but differently in each process, whatever the seed.
"""

import math
import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate, pairwise

import numpy as np
import sentencepiece

from dragoman.model.symbols import UNKNOWN
from dragoman.text.model_proto import PieceType, model_kind, piece_types
from dragoman.text.tokenizer import replace_surrogates
from dragoman.text.words import SPACE

Random = Callable[[], float]
"""Gives numbers that are uniform in [0, 1)."""
Merge = tuple[float, int, int, int]
"""The negative score of the merged piece, and its places in the word: begin, where its parts meet, and end.
The least is merged first: that of the highest score, then the one furthest left."""
CACHED_WORDS = 5_000
UNKNOWN_PENALTY = 10.0
"""By how much the log-probability of an unknown character is below the least of a piece, in SentencePiece."""


class BpeDropout:
    """Splits words by merges of byte-pair encoding, each left out with a probability at each step.

    `scores` are those of the pieces. A piece in `unused` is split again, into the parts that it was merged
    from.
    """

    def __init__(self, scores: Mapping[str, float], unused: Set[str], dropout: float) -> None:
        self._scores, self._unused, self._dropout = scores, unused, dropout

    def split(self, word: str, random: Random) -> list[str]:
        """The pieces of a word (Provilkov et al. 2020, Algorithm 1).

        A step makes the best merge of those that are not left out. The word is done when all are left out.
        """
        size = len(word)
        after = [*range(1, size + 1), 0]  # where the piece ends that begins here; 0 where none begins
        before = [size, *range(size)]  # where the piece begins that ends here
        merges: list[Merge] = []

        def add(left: int, middle: int, right: int) -> None:
            score = self._scores.get(word[left:right])  # none beyond the ends of the word: the text is empty
            if score is not None:
                heappush(merges, (-score, left, middle, right))

        for left in range(size - 1):
            add(left, left + 1, left + 2)
        middles: dict[tuple[int, int], int] = {}
        while (merge := self._choose(merges, after, random)) is not None:
            _, left, middle, right = merge
            after[left], after[middle], before[right] = right, 0, left
            middles[left, right] = middle
            add(before[left], left, right)
            add(left, right, after[right])
        lefts = [left for left in range(size) if after[left]]
        return [piece for left in lefts for piece in self._used(word, left, after[left], middles)]

    def _choose(self, merges: list[Merge], after: list[int], random: Random) -> Merge | None:
        """Take the best merge that is still possible and not left out; None if there is none."""
        chosen, left_out = None, []
        while merges and chosen is None:
            merge = heappop(merges)
            _, left, middle, right = merge
            if after[left] == middle and after[middle] == right:
                if random() < self._dropout:
                    left_out.append(merge)
                else:
                    chosen = merge
        for merge in left_out:  # it may be chosen at the next step
            heappush(merges, merge)
        return chosen

    def _used(self, word: str, left: int, right: int, middles: Mapping[tuple[int, int], int]) -> list[str]:
        """The piece between two places, or those that it was merged from if it is unused."""
        piece, middle = word[left:right], middles.get((left, right))
        if piece not in self._unused or middle is None:
            return [piece]
        return self._used(word, left, middle, middles) + self._used(word, middle, right, middles)


class UnigramSampling:
    """Samples segmentations of words in proportion to their unigram probabilities to the power `alpha`.

    `scores` are the log-probabilities of the pieces.
    """

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self._scores, self._alpha = scores, alpha
        self._unknown = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
        self._longest = max(map(len, scores), default=1)
        self._cached_lattice = lru_cache(CACHED_WORDS)(self._lattice)

    def split(self, word: str, random: Random) -> list[str]:
        """The pieces of a word: one at a time from its end, as the lattice's probabilities have it."""
        lattice = self._cached_lattice(word)
        ends = [len(word)]
        while ends[-1]:
            lefts, shares = lattice[ends[-1]]
            ends.append(lefts[bisect(shares, random())])
        return [word[left:right] for left, right in pairwise(reversed(ends))]

    def _lattice(self, word: str) -> list[tuple[list[int], list[float]]]:
        """For each place the left ends of the pieces that end there, and the shares of all but the last.

        Shares are cumulative. They are probabilities of the piece given that one ends there, from the sums
        over all segmentations of the text before it (forward filtering).
        """
        sums, lattice = [0.0], [([0], [0.0])]
        for right in range(1, len(word) + 1):
            lefts, logs = [], []
            for left in range(max(0, right - self._longest), right):
                score = self._scores.get(word[left:right], self._unknown if left == right - 1 else None)
                if score is not None:
                    lefts.append(left)
                    logs.append(sums[left] + self._alpha * score)
            most = max(logs)
            total = most + math.log(sum(math.exp(log - most) for log in logs))
            sums.append(total)
            lattice.append((lefts, list(accumulate(math.exp(log - total) for log in logs))[:-1]))
        return lattice


class SegmentationSampler:
    """Random segmentations of lines, as ids of a SentencePiece model of BPE or unigram pieces.

    `strength` is the probability to leave a merge out, or the power of the unigram probabilities. Lines are
    normalised by SentencePiece. With a dropout of 0, or a very large power, samples are what it encodes.
    """

    def __init__(self, model: bytes, strength: float) -> None:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._normalize: Callable[[str], str] = processor.normalize
        tokens = list(range(len(processor)))
        pieces, scores, types = processor.id_to_piece(tokens), processor.get_score(tokens), piece_types(model)
        known = {PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.UNUSED}
        self._ids = {pieces[token]: token for token in tokens if types[token] in known}
        has_bytes = PieceType.BYTE in types
        self._bytes = processor.piece_to_id([f"<0x{byte:02X}>" for byte in range(256)]) if has_bytes else None
        self._symbols = {pieces[token] for token in tokens if types[token] == PieceType.USER_DEFINED}
        longest_first = sorted(map(re.escape, self._symbols), key=len, reverse=True)
        self._symbol = re.compile("|".join(longest_first) or "(?!)")
        unused = {pieces[token] for token in tokens if types[token] == PieceType.UNUSED}
        score_of = {piece: scores[token] for piece, token in self._ids.items() if piece not in self._symbols}
        if model_kind(model) == "bpe":
            self._split = BpeDropout(score_of, unused, strength).split
        else:
            used_scores = {piece: score for piece, score in score_of.items() if piece not in unused}
            self._split = UnigramSampling(used_scores, strength).split
        has_inner_space = any(SPACE in piece[1:] for piece in score_of)
        self._word = re.compile(".+" if has_inner_space else f"{SPACE}[^{SPACE}]*|[^{SPACE}]+", re.DOTALL)

    def sample(self, line: str, random: np.random.Generator) -> list[int]:
        """The ids of a line. Symbols that the user has defined are never split."""
        ids: list[int] = []
        for part in self._parts(self._normalize(replace_surrogates(line))):
            for piece in [part] if part in self._symbols else self._split(part, random.random):
                if piece in self._ids:
                    ids.append(self._ids[piece])
                elif self._bytes is not None:
                    ids += (self._bytes[byte] for byte in piece.encode())
                elif ids[-1:] != [UNKNOWN]:  # SentencePiece makes one token of adjacent unknown characters
                    ids.append(UNKNOWN)
        return ids

    def _parts(self, text: str) -> Iterator[str]:
        """The symbols of a normalised text, and the words between them. No piece has parts of two.

        What is between symbols is one word for a model that has pieces with a space inside.
        """
        place = 0
        for symbol in self._symbol.finditer(text):
            yield from self._word.findall(text[place : symbol.start()])
            yield symbol[0]
            place = symbol.end()
        yield from self._word.findall(text[place:])

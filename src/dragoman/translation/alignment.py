"""Word alignment from attention weights.

Shapes: B sentences, S source and T target tokens, H heads, L layers.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import SPACE

UNKNOWN_PIECE = "<unk>"


def select_head(
    weights: Float[Tensor, "L B H T S"], layer: int | None, head: int | None
) -> Float[Tensor, "B T S"]:
    """The weights of a layer and a head, counted from 1; by default the mean of all heads.

    Raises `DragomanError` where there is no such layer or head.
    """
    layers, _, heads, *_ = weights.shape
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; this model has {count}, counted from 1.")
    of_layer = weights[max(layers - 2, 0) if layer is None else layer - 1]
    return of_layer.mean(1) if head is None else of_layer[:, head - 1]


def word_starts(pieces: Sequence[str], unknown_is_word: bool = False) -> list[int]:
    """The word in which each piece begins, counted from 0: SentencePiece's sign for a space begins a word.

    `<unk>`, which has no such sign, is a word in a vocabulary of words, and a part of one in others.
    """
    words, last = [], -1
    for piece in pieces:
        first = last + (piece.startswith(SPACE) or last < 0 or (unknown_is_word and piece == UNKNOWN_PIECE))
        words.append(first)
        last = first + piece[1:].count(SPACE)  # an unknown piece may be several words
    return words


def word_alignment(
    weights: Float[Tensor, "T S"], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """For each target word the source word that it looks at most, as (source, target), counted from 0.

    `source` and `target` are the words of their tokens but END, the last of each, which is no word. The
    weights of a word's tokens are added up in the source and averaged in the target. A word without a token
    of its own is not there.
    """
    if not source or not target:
        return []
    mine = torch.zeros(target[-1] + 1, len(source) + 1, dtype=weights.dtype)
    mine.index_add_(0, torch.tensor(target), weights[:-1].cpu())
    both = torch.zeros(len(mine), source[-1] + 1, dtype=weights.dtype)
    both.index_add_(1, torch.tensor(source), mine[:, :-1])
    there = set(target)
    return [(int(best), word) for word, best in enumerate(both.argmax(1)) if word in there]

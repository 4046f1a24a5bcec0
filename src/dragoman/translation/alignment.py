"""Word alignment from attention weights.

Shapes: B sentences, S source and T target tokens, H heads, L layers.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.system.errors import DragomanError
from dragoman.text.words import SPACE

UNKNOWN_PIECE = "<unk>"


def select_head(
    weights: Float[Tensor, "L B H T S"],
    layer: int | None,
    head: int | None,
    alignment_head: int | None = None,
) -> Float[Tensor, "B T S"]:
    """The weights of a layer and a head, counted from 1. None is the last layer and the mean of all heads.

    In the last layer `alignment_head` takes the place of the mean, if the model has one. Raises
    `DragomanError` if the model has no such layer or head.
    """
    layers, _, heads, *_ = weights.shape
    if head is None and layer in (None, layers):
        head = alignment_head
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; this model has {count}, counted from 1.")
    layer_weights = weights[-1 if layer is None else layer - 1]  # [B, H, T, S]
    return layer_weights.mean(1) if head is None else layer_weights[:, head - 1]


def word_starts(
    pieces: Sequence[str], unknown_is_word: bool = False, is_segmented: bool = False
) -> list[int]:
    """The number of the word in which each piece begins, counted from 0.

    SentencePiece's sign for a space begins a word, unless it follows another such sign or, in text that
    subword-nmt has segmented, `@@`. `<unk>` has no such sign: it is a word in a vocabulary of words
    (`unknown_is_word`), and a part of a word in other vocabularies.
    """
    words, last, before = [], -1, ""
    for piece in pieces:
        is_inside = before.endswith("@@") if is_segmented else before == SPACE
        is_unknown_word = unknown_is_word and piece == UNKNOWN_PIECE
        first = last + ((piece.startswith(SPACE) and not is_inside) or last < 0 or is_unknown_word)
        words.append(first)
        # An unknown piece may span several words.
        last = first + max(len(list(filter(None, piece.split(SPACE)))) - 1, 0)
        before = piece
    return words


def word_alignment(
    weights: Float[Tensor, "T S"], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """For each target word the source word with the most attention, as (source, target), counted from 0.

    `source` and `target` are the word numbers of the tokens without END, the last row and column of
    `weights`. The weights of a word's tokens are summed. A target word without a token has no link.
    """
    if not source or not target:
        return []
    target_sums = torch.zeros(target[-1] + 1, len(source) + 1, dtype=weights.dtype)
    target_sums.index_add_(0, torch.tensor(target), weights[:-1].cpu())
    word_weights = torch.zeros(len(target_sums), source[-1] + 1, dtype=weights.dtype)
    word_weights.index_add_(1, torch.tensor(source), target_sums[:, :-1])
    present = set(target)
    return [(int(best), word) for word, best in enumerate(word_weights.argmax(1)) if word in present]


def precise_alignment(
    weights: Float[Tensor, "T S"], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """`word_alignment` without the links of target words that have no counterpart, such as many articles.

    A link is mutual if its source word has more attention in its target word than in every other. A source
    word with a mutual link has no other link.
    """
    links = word_alignment(weights, source, target)
    best = {word: other for other, word in word_alignment(weights.T, target, source)}
    mutual = {word for word, other in links if best.get(word) == other}
    return [(word, other) for word, other in links if word not in mutual or best[word] == other]

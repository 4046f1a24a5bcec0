"""Which source words a translation's words looked at. Shapes: B sentences, S source and T target tokens, H heads, L layers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import DragomanError
from dragoman.model.contract import Model
from dragoman.model.transformer import DecoderLayer
from dragoman.text.batches import Batch

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign before the first token of a word


@contextmanager
def watched(model: Model) -> Iterator[list[Tensor]]:
    """While it is open, the weights with which each decoder layer looks at the source, in the order of the layers."""
    looks = [module.cross_attention for module in model.modules() if isinstance(module, DecoderLayer)]
    if not looks:
        raise DragomanError("Alignments are read from the heads of a transformer; this architecture has none.")
    seen: list[Tensor] = []
    for look in looks:
        look.watch = seen.append
    try:
        yield seen
    finally:
        for look in looks:
            look.watch = None


@torch.no_grad()
def cross_attention(model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "L B H T S"]:
    """With which weights each target token, while it is predicted, looks at the source tokens, in every layer and head.

    Both sides end with END. Raises `DragomanError` for a model without heads.
    """
    with watched(model) as seen:
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    return torch.stack(seen)


def chosen(weights: Float[Tensor, "L B H T S"], layer: int | None, head: int | None) -> Float[Tensor, "B T S"]:
    """The weights of a layer and a head, counted from 1; None is the last layer but one, and the mean of the heads.

    Raises `DragomanError` where there is no such layer or head.
    """
    layers, _, heads, *_ = weights.shape
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; this model has {count}, counted from 1.")
    of_layer = weights[max(layers - 2, 0) if layer is None else layer - 1]
    return of_layer.mean(1) if head is None else of_layer[:, head - 1]


def words_of(pieces: Sequence[str]) -> list[int]:
    """The word that each piece belongs to, counted from 0: a new one begins with SentencePiece's sign for a space."""
    words, current = [], -1
    for piece in pieces:
        current += piece.startswith(SPACE) or current < 0
        words.append(current)
    return words


def source_words(weights: Float[Tensor, "T S"], source: Sequence[str], sentence: str) -> list[str]:
    """For each target token the word of the sentence that it looks at most; `source` are its pieces, END last."""
    words, of = sentence.split(), words_of(source[:-1])
    return [words[min(of[place], len(words) - 1)] for place in weights[:, :-1].argmax(1).tolist()]


def word_alignment(weights: Float[Tensor, "T S"], source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """For each target word the source word that it looks at most, as (source, target), counted from 0.

    The weights of a word's pieces are added up in the source and averaged in the target; END, the last of each, is no word.
    """
    if len(source) < 2 or len(target) < 2:
        return []
    source_words, target_words = words_of(source[:-1]), words_of(target[:-1])
    mine = torch.zeros(target_words[-1] + 1, len(source), dtype=weights.dtype)
    mine.index_add_(0, torch.tensor(target_words), weights[:-1].cpu())
    both = torch.zeros(len(mine), source_words[-1] + 1, dtype=weights.dtype)
    both.index_add_(1, torch.tensor(source_words), mine[:, :-1])
    return [(int(best), word) for word, best in enumerate(both.argmax(1))]

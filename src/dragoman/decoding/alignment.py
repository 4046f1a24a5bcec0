"""Which source words a translation's words looked at. Shapes: B sentences, S source and T target tokens, H heads, L layers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import DragomanError
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.contract import Model
from dragoman.model.transformer import DecoderLayer, EncoderLayer
from dragoman.text.batches import Batch
from dragoman.text.tokenizer import SPACE

UNKNOWN_PIECE = "<unk>"

WATCHING = Lock()  # one thread at a time: the models are everybody's


def has_heads(model: Model) -> bool:
    """Whether there are heads to look through; of an ensemble, in its first model."""
    return any(isinstance(module, DecoderLayer) for module in next(iter(model.members)).modules())


def looks_at_source(model: Model) -> list[MultiHeadAttention]:
    """What each layer of the decoder looks at the source with, in order. Raises `DragomanError` where there are none."""
    looks = [module.cross_attention for module in model.modules() if isinstance(module, DecoderLayer)]
    if not looks:
        raise DragomanError("Alignments are read from the heads of a transformer; this architecture has none.")
    return looks


@contextmanager
def watched(looks: Sequence[MultiHeadAttention]) -> Iterator[list[Tensor]]:
    """While it is open, the weights with which these look in this thread, in the order in which they do."""
    seen: list[Tensor] = []
    watcher = get_ident()

    def note(weights: Tensor) -> None:
        if get_ident() == watcher:
            seen.append(weights)

    with WATCHING:
        for look in looks:
            look.watch = note
        try:
            yield seen
        finally:
            for look in looks:
                look.watch = None


@torch.no_grad()
def cross_attention(model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "L B H T S"]:
    """With which weights each target token, while it is predicted, looks at the source tokens, in every layer and head.

    Both sides end with END. Of an ensemble, its first model's. Raises `DragomanError` for a model without heads.
    """
    model = next(iter(model.members))
    with watched(looks_at_source(model)) as seen:
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    return torch.stack(seen)


@torch.no_grad()
def all_attention(
    model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "L B H S S"], Float[Tensor, "M B H T T"], Float[Tensor, "M B H T S"]]:
    """The weights of the encoder's self-attention, of the decoder's, and of the decoder's at the source. Otherwise as `cross_attention`."""
    model = next(iter(model.members))
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    with watched([*(layer.self_attention for layer in layers), *(cross := looks_at_source(model))]) as seen:
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    first = len(layers) - len(cross)  # of the decoder, whose layers look at their own side and at the source in turn
    return torch.stack(seen[:first]), torch.stack(seen[first::2]), torch.stack(seen[first + 1 :: 2])


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


def words_of(pieces: Sequence[str], unknown_is_word: bool = False) -> list[int]:
    """The word in which each piece begins, counted from 0: SentencePiece's sign for a space begins a word.

    `<unk>`, which has no such sign, is a word in a vocabulary of words, and a part of one in others.
    """
    words, last = [], -1
    for piece in pieces:
        first = last + (piece.startswith(SPACE) or last < 0 or (unknown_is_word and piece == UNKNOWN_PIECE))
        words.append(first)
        last = first + piece[1:].count(SPACE)  # an unknown piece may be several words
    return words


def word_alignment(weights: Float[Tensor, "T S"], source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """For each target word the source word that it looks at most, as (source, target), counted from 0.

    `source` and `target` are the words of their tokens but END, the last of each, which is no word. The weights of a word's tokens
    are added up in the source and averaged in the target. A word without a token of its own is not there.
    """
    if not source or not target:
        return []
    mine = torch.zeros(target[-1] + 1, len(source) + 1, dtype=weights.dtype)
    mine.index_add_(0, torch.tensor(target), weights[:-1].cpu())
    both = torch.zeros(len(mine), source[-1] + 1, dtype=weights.dtype)
    both.index_add_(1, torch.tensor(source), mine[:, :-1])
    there = set(target)
    return [(int(best), word) for word, best in enumerate(both.argmax(1)) if word in there]

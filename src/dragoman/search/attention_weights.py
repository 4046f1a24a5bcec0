"""Which source words a translation's words looked at. Shapes: B sentences, S source and T target tokens, H heads, L layers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock, get_ident

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.interface import Model
from dragoman.model.recurrent import AdditiveAttention
from dragoman.model.transformer import DecoderLayer, EncoderLayer
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.text.tokenizer import SPACE

UNKNOWN_PIECE = "<unk>"
Look = MultiHeadAttention | AdditiveAttention

WATCHING = Lock()  # one thread at a time: the models are everybody's


def cross_attention_modules(model: Model) -> list[Look]:
    """What each layer of the decoder looks at the source with, in order. Raises `DragomanError` where there are none."""
    parts = [part for part in model.modules() if isinstance(part, DecoderLayer | AdditiveAttention)]
    if not parts:
        raise DragomanError("What a translation looks at is read from a model's attention; this architecture has none that is known.")
    return [part.cross_attention if isinstance(part, DecoderLayer) else part for part in parts]


@contextmanager
def watched(looks: Sequence[Look]) -> Iterator[list[list[Tensor]]]:
    """While it is open, the weights with which each of these looks in this thread, time after time."""
    seen: list[list[Tensor]] = [[] for _ in looks]
    watcher = get_ident()

    def note(times: list[Tensor], weights: Tensor) -> None:
        if get_ident() == watcher:
            times.append(weights)

    with WATCHING:
        for look, times in zip(looks, seen, strict=True):
            look.weights_hook = partial(note, times)
        try:
            yield seen
        finally:
            for look in looks:
                look.weights_hook = None


@torch.no_grad()
def cross_attention(model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "L B H T S"]:
    """With which weights each target token, while it is predicted, looks at the source tokens, in every layer and head.

    Both sides end with END. An LSTM or GRU has one layer and one head that look. Of an ensemble, its first model's. Raises
    `DragomanError` for a model without attention.
    """
    model = next(iter(model.members))
    return weights_of(model, cross_attention_modules(model), source, target)


def weights_of(model: Model, looks: Sequence[Look], source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "L B H Q K"]:
    """With which weights these look while the model reads a source and, token after token or at once, predicts its target."""
    with watched(looks) as seen:
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    return torch.stack([torch.cat(times, 2) for times in seen])


@torch.no_grad()
def all_attention(
    model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "L B H S S"], Float[Tensor, "M B H T T"], Float[Tensor, "N B H T S"]]:
    """The weights of the encoder's self-attention, of the decoder's, and of the decoder's at the source. Otherwise as `cross_attention`.

    An LSTM or GRU has no layer of the first two.
    """
    model, sides = next(iter(model.members)), list[Tensor]()
    cross = cross_attention(model, source, target)
    for kind, tokens in ((EncoderLayer, source), (DecoderLayer, target)):
        looks = [layer.self_attention for layer in model.modules() if isinstance(layer, kind)]
        none = cross.new_zeros(0, *cross.shape[1:3], *[tokens.size(1)] * 2)
        sides.append(weights_of(model, looks, source, target) if looks else none)
    return sides[0], sides[1], cross


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

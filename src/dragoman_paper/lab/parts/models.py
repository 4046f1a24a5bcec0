"""Small models with random weights in float64, and random sentences, for exact claims."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Transformer

VOCABULARY = 40
SMALL = ModelSettings(d_model=32, d_ff=64, heads=4, encoder_layers=3, decoder_layers=3)


def random_transformer(settings: ModelSettings = SMALL, seed: int = 1) -> Transformer:
    """A Transformer in evaluation mode, with the weights that a training begins with. To gains and biases,
    random numbers are added, so that none of them is 1 or 0.
    """
    torch.manual_seed(seed)
    model = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.3 * torch.randn_like(weight))
    return model


def random_sentences(lengths: Sequence[int], seed: int = 1, padding: int = 0) -> Tensor:
    """Padded ids [B, S] of sentences with so many tokens each, END included, and more padding at the end."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths) + padding), PAD)
    for row, length in enumerate(lengths):
        ids[row, : length - 1] = torch.randint(4, VOCABULARY, (length - 1,), generator=generator)
        ids[row, length - 1] = END
    return ids


def largest_difference(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference of two tensors of one shape; NaN if a number is NaN."""
    return float((first - second).detach().abs().max())


class SeesAll(MultiHeadAttention):
    """Self-attention of a decoder without its mask: the class of a layer's attention is set to it."""

    def attend(self, query: Tensor, memory: KeysValues, *_: object, **__: object) -> Tensor:
        return super().attend(query, memory)

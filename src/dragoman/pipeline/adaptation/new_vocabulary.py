"""A parent for a child (Kocmi and Bojar 2018): the weights of a model for another vocabulary.

A token that both vocabularies have keeps its embedding. Another one begins with the mean of the embeddings of
the parent's tokens that it is made of.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dragoman.model.symbols import UNKNOWN
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

SOURCE, TARGET = "source_embedding.", ("target_embedding.", "output.", "output_bias")
"""Beginnings of the names of weights that have a row for each token of the vocabulary."""


def weights_of_vocabulary(
    weights: Mapping[str, Tensor], parent: Tokenizers, child: Tokenizers
) -> dict[str, Tensor]:
    """The weights of a model for the child's vocabularies, from those for the parent's.

    Those with a row for each token, [V D] or [V], get the child's V; others are the parent's.
    """
    source = parent_tokens(parent.source, child.source)
    target = source if is_shared(parent, child) else parent_tokens(parent.target, child.target)
    result = dict(weights)
    for name, weight in weights.items():
        if name.startswith(SOURCE) and len(weight) == len(parent.source):
            result[name] = mean_rows(weight, source)
        elif name.startswith(TARGET) and len(weight) == len(parent.target):
            result[name] = mean_rows(weight, target)
    return result


def is_shared(parent: Tokenizers, child: Tokenizers) -> bool:
    """Whether the tokens of both sides correspond in the same way."""
    return parent.source is parent.target and child.source is child.target


def parent_tokens(parent: Tokenizer, child: Tokenizer) -> list[list[int]]:
    """For each token of the child's vocabulary the parent's tokens that it is made of: itself, if it has it.

    What the parent cannot write is its unknown token.
    """
    known = {piece: token for token, piece in enumerate(parent.pieces(range(len(parent))))}
    pieces = child.pieces(range(len(child)))
    new = [piece for piece in pieces if piece not in known]
    made_of = dict(zip(new, parent.parts(new), strict=True))
    return [[known[piece]] if piece in known else made_of[piece] or [UNKNOWN] for piece in pieces]


def mean_rows(weight: Tensor, tokens: Sequence[Sequence[int]]) -> Tensor:
    """The means [W D] of rows of a weight [V D], or [W] of [V], for the W tokens of a new vocabulary.

    `tokens` are the rows of each mean; a single row is copied as it is.
    """
    return torch.stack([weight[ids[0]] if len(ids) == 1 else weight[list(ids)].mean(0) for ids in tokens])


def shared_tokens(parent: Tokenizer, child: Tokenizer) -> int:
    """How many tokens of the child's vocabulary the parent's has too."""
    return len({*parent.pieces(range(len(parent)))} & {*child.pieces(range(len(child)))})

"""The nearest tokens in a model's embeddings (section 3.4), by the cosine of their rows.

Shapes: V vocabulary, D = d_model, N tokens that are asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.record.inspected import InspectedModel
from dragoman.translation.model_folder import Tokenizers

NEAREST = 8

Near = tuple[str, float]  # a token and its cosine


@dataclass(frozen=True)
class Neighbours:
    """The nearest tokens in one matrix."""

    parts: tuple[str, ...]
    """The parts of the model that share the matrix: more than one if they are tied."""
    tokens: tuple[tuple[str, tuple[Near, ...]], ...]
    """Each token that was asked for, with the others that are nearest to it, nearest first."""


def nearest(
    weights: Float[Tensor, "V D"], ids: Sequence[int], count: int = NEAREST
) -> list[list[tuple[int, float]]]:
    """For each id the others with the greatest cosine, and the cosines. A row of zeros has cosine 0."""
    rows = torch.nn.functional.normalize(
        weights.detach().to(torch.promote_types(weights.dtype, torch.float32)), dim=1
    )
    cosines = rows[list(ids)] @ rows.T  # [N, V]
    cosines[range(len(ids)), list(ids)] = -torch.inf  # the token itself
    best = cosines.topk(min(count, len(rows) - 1))
    return [
        list(zip(*pair, strict=True))
        for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def neighbours(
    model: InspectedModel, tokenizers: Tokenizers, source: Sequence[int], target: Sequence[int]
) -> tuple[Neighbours, ...]:
    """The nearest tokens of each id, once: of `source` in the source embedding, of `target` in the others."""
    parts = {
        "source embedding": (model.source_embedding, tokenizers.source, source),
        "target embedding": (model.target_embedding, tokenizers.target, target),
        "output projection": (model.output, tokenizers.target, target),
    }
    results = []
    for matrix in dict.fromkeys(module for module, _, _ in parts.values()):
        sharing = [name for name, (module, _, _) in parts.items() if module is matrix]
        pieces = parts[sharing[-1]][1].pieces
        ids = list(dict.fromkeys(token for name in sharing for token in parts[name][2]))
        rows = [
            tuple((pieces([other])[0], cosine) for other, cosine in row)
            for row in nearest(matrix.weight, ids)
        ]
        results.append(Neighbours(tuple(sharing), tuple(zip(pieces(ids), rows, strict=True))))
    return tuple(results)

"""Concatenates positions to embeddings, and maps both to d_model by a matrix. If the matrix is two identities
side by side, the result is the sum. For a random matrix, the share of the output that no linear map of the
sum gives is computed exactly.
"""

from dataclasses import replace

import torch

from dragoman.model.build import build_model
from dragoman.model.costs import count_parameters
from dragoman.model.variants import VariedTransformer
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import (
    SMALL,
    VOCABULARY,
    largest_difference,
    random_sentences,
    random_transformer,
)

CLAIM = Claim(
    title="Positions added to embeddings, or concatenated",
    section="3.5",
    claim="Adding positions to embeddings loses nothing that a linear map of their concatenation would keep.",
    claimed_by="tutorials; study notes, as a question",
)
SAME, APART = "lost by the sum, the same directions, %", "lost, x and p in different halves, %"


def lost(matrix: torch.Tensor, embeddings: torch.Tensor, positions: torch.Tensor) -> float:
    """The share of [A B] [x; p], in percent, that no linear map of x + p gives, where x and p are random and
    independent, with variance 1 in the directions of these projections and 0 in all others.
    """
    a, b = (part @ onto for part, onto in zip(matrix.chunk(2, 1), (embeddings, positions), strict=True))
    both = a + b
    kept = (both @ torch.linalg.pinv(embeddings + positions) @ both.T).trace()
    return 100 * max(0.0, float(1 - kept / (a.square().sum() + b.square().sum())))


def run(quick: bool) -> Result:
    settings = replace(SMALL, concatenate_positions=True)
    source, width = random_sentences([9, 6]), SMALL.d_model
    one = torch.eye(width).double()
    rows, identities = [], torch.cat([one, one], 1)
    first = torch.diag((torch.arange(width) < width // 2).double())
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        beside = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
        assert isinstance(beside, VariedTransformer)
        assert beside.combine is not None
        summed = random_transformer(seed=seed)
        with torch.no_grad():
            for name, weight in summed.named_parameters():
                beside.get_parameter(name).copy_(weight)
            random_matrix = beside.combine.weight.detach().clone()
            beside.combine.weight.copy_(identities)
            ours, theirs = (model.encode(source).encoder_output for model in (beside, summed))
        found = {SAME: lost(random_matrix, one, one), APART: lost(random_matrix, first, one - first)}
        rows.append({"seed": seed, "difference with [1 1]": largest_difference(ours, theirs)} | found)
    same = max(row["difference with [1 1]"] for row in rows)
    shared, apart = min(row[SAME] for row in rows), max(row[APART] for row in rows)
    counts = [count_parameters(each, VOCABULARY, VOCABULARY) for each in (settings, SMALL)]
    picture = matrices(
        "The matrix after the concatenation",
        "entry of the matrix",
        {"the sum": identities.numpy(), "at random": random_matrix.numpy()},
        Side("output feature"),
        Side(f"features of the embedding, from {width + 1} of the position"),
    )
    equal = "exactly equal" if same == 0 else f"equal to within {same:.0g}"
    return Result(
        {f"d_model = {width}": rows},
        picture,
        verdict_of(
            same < 1e-12 and apart < 1e-9,
            "embeddings and positions use different directions" if shared > 1 else "",
        ),
        f"A concatenation contains the sum: with the matrix [1 1] both are {equal}. The converse is not "
        f"true: where embeddings and positions use the same directions, {shared:.0f}% or more of the output "
        "of a random matrix is no linear function of the sum. Where each has its own half of the features, "
        f"at most {apart:.0g}% is lost. The matrix costs {counts[0] - counts[1]:,} parameters (2 d_model²).",
    )

"""Concatenates positions to embeddings, and maps both to d_model by a matrix. If the matrix is two identities
side by side, the result is the sum. A random matrix shows what no linear map of the sum gives.
"""

from dataclasses import replace

import torch

from dragoman.model.costs import count_parameters
from dragoman.model.transformer import build_model
from dragoman.model.variants import VariedTransformer
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import matrices
from lab.parts.models import SMALL, VOCABULARY, largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Positions added to embeddings, or concatenated",
    section="3.5",
    claim="Adding positions to embeddings loses nothing that concatenating them would keep.",
    claimed_by="tutorials; study notes, as a question",
)


def run(quick: bool) -> Result:
    settings = replace(SMALL, concatenate_positions=True)
    source, width = random_sentences([9, 6]), SMALL.d_model
    rows, identities = [], torch.cat([torch.eye(width), torch.eye(width)], 1).double()
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
            one, two = (model.encode(source).encoder_output for model in (beside, summed))
            both = torch.cat([torch.randn(400, width), torch.randn(400, width)], 1).double()
            shared = both[:, :width] + both[:, width:]
            explained = torch.linalg.lstsq(shared, both @ random_matrix.T).solution
            rest = both @ random_matrix.T - shared @ explained
        rows.append(
            {
                "seed": seed,
                "difference with [1 1]": largest_difference(one, two),
                "share of W [x; p] that no linear map of x + p gives, %": 100
                * float(rest.square().sum() / (both @ random_matrix.T).square().sum()),
            }
        )
    same = max(row["difference with [1 1]"] for row in rows)
    lost = min(row["share of W [x; p] that no linear map of x + p gives, %"] for row in rows)
    more = count_parameters(settings, VOCABULARY, VOCABULARY) - count_parameters(
        SMALL, VOCABULARY, VOCABULARY
    )
    picture = matrices(
        "The matrix after the concatenation",
        {"the sum": identities.numpy(), "at random": random_matrix.numpy()},
        "Columns: features of the embedding, then of the position.",
    )
    return Result(
        {f"d_model = {width}": rows},
        picture,
        verdict_of(same < 1e-12, "embeddings and positions use different directions" if lost > 1 else ""),
        f"A concatenation contains the sum: with the matrix [1 1] both are equal (difference {same:.0g}). "
        f"The converse is not true: {lost:.0f}% of the output of a random matrix is no linear function of "
        "the sum. Components that were added in the same direction cannot be separated again. The matrix "
        f"costs {more:,} parameters (2 d_model²).",
    )

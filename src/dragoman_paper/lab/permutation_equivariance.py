"""Encodes random sentences, and the same sentences with their tokens in another order, by encoders without
positions and with sinusoids. An encoder is equivariant if its outputs are in the other order too, and
invariant if they stay the same. A decoder without positions is tested too: its causal mask depends on the
order.
"""

from dataclasses import replace

import torch

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import SMALL, VOCABULARY, largest_difference, random_transformer

CLAIM = Claim(
    title="Attention without positions: equivariant, not invariant",
    section="3.5",
    claim="Without positions, self-attention is permutation invariant.",
    claimed_by="tutorials",
    topics=("W10",),
)
SEEDS, TOKENS = (1, 2, 3), 9


def run(quick: bool) -> Result:
    rows = []
    for seed in SEEDS:
        order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(seed))
        source = torch.randint(4, VOCABULARY, (4, TOKENS), generator=torch.Generator().manual_seed(seed))
        for kind in ("none", "sinusoidal"):
            model = random_transformer(replace(SMALL, positions=kind), seed)
            with torch.no_grad():
                encoded, permuted = (model.encode(ids).encoder_output for ids in (source, source[:, order]))
                decoded, other = (
                    model.decode(ids, model.encode(source))[0] for ids in (source, source[:, order])
                )
            for part, one, two in (("encoder", encoded, permuted), ("decoder", decoded, other)):
                rows.append(
                    {
                        "seed": seed,
                        "positions": kind,
                        "part": part,
                        "f(P x) − P f(x)": largest_difference(two, one[:, order]),
                        "f(P x) − f(x)": largest_difference(two, one),
                    }
                )
    bare = [row for row in rows if (row["positions"], row["part"]) == ("none", "encoder")]
    equivariant = max(row["f(P x) − P f(x)"] for row in bare)
    invariant = min(row["f(P x) − f(x)"] for row in bare)
    groups = {
        f"{row['part']}, positions: {row['positions']}": {
            name: row[name] for name in ("f(P x) − P f(x)", "f(P x) − f(x)")
        }
        for row in rows
        if row["seed"] == SEEDS[0]
    }
    picture = bars("Tokens permuted before or after the model", "largest difference", groups, log=True)
    return Result(
        {"Largest absolute differences of the outputs, float64": rows},
        picture,
        verdict_of(invariant < 1e-9),
        f"An encoder without positions is equivariant: its outputs follow the tokens to {equivariant:.0e}, "
        f"and differ by {invariant:.1f} from those in the first order. With positions it is neither. A "
        "decoder is neither even without them, because its causal mask depends on the order.",
    )

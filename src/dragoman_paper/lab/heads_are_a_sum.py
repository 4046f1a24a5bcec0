"""Cuts W^O into the rows of each head and sums what each head contributes alone. The sum is compared with
Concat(head_1 … head_h) W^O, and the heads, attended one by one, with all of them at once.
"""

import torch

from dragoman.model.attention import KeysValues, MultiHeadAttention, attention
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import largest_difference

CLAIM = Claim(
    title="Concatenated heads are a sum",
    section="3.2.2",
    claim="In Concat(head_1 … head_h) W^O the contribution of a head depends on the other heads.",
    claimed_by="folklore (figures of multi-head attention)",
)
WIDTH, HEADS, TOKENS = 24, 4, 6


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    module = MultiHeadAttention(WIDTH, HEADS, 5, 7).double()
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        query, memory = module.project(x)
        together = module.attend(query, memory)
        parts = []
        for head, w_o in enumerate(module.output.weight.split(7, dim=1)):  # [D, d_v] of each head
            own = slice(head, head + 1)
            found, _ = attention(query[:, own], *KeysValues(memory.keys[:, own], memory.values[:, own]))
            parts.append(found[:, 0] @ w_o.T)
        rows = [
            {
                "head": head + 1,
                "norm of its term": float(part.norm()),
                "difference of the rest from the output without it": largest_difference(
                    together - part, without(module, query, memory, head)
                ),
            }
            for head, part in enumerate(parts)
        ]
    error = largest_difference(sum(parts, torch.zeros_like(together)), together)
    independent = max(row["difference of the rest from the output without it"] for row in rows)
    shown = {f"head {head + 1}": part[0].numpy() for head, part in enumerate(parts)}
    picture = matrices(
        "The term of each head in the output",
        "term of a feature of the output; their sum",
        shown | {"their sum, the output": together[0].numpy()},
        Side("position", range(TOKENS)),
        Side("feature of the output"),
    )
    return Result(
        {f"{HEADS} heads with d_k = 5 and d_v = 7": rows},
        picture,
        verdict_of(error > 1e-9 or independent > 1e-9),
        f"The output is the sum of one term for each head, head_i W_i^O, to {error:.0e} in float64; the "
        "term of a head does not depend on the others. Heads affect each other only after the sum, "
        "from its normalisation on.",
    )


def without(module: MultiHeadAttention, query: torch.Tensor, memory: KeysValues, head: int) -> torch.Tensor:
    """The output with the values of one head set to zero."""
    values = memory.values.clone()
    values[:, head] = 0
    return module.attend(query, KeysValues(memory.keys, values))

"""Computes attention by equation 1 as written, in float64, and by PyTorch's scaled_dot_product_attention in
three number types, without a mask, causal (by a mask and by `is_causal`), padded, and with queries without
keys. Masked scores are −∞; for a query without keys the softmax is 0 / 0, and equation 1 gives NaN.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.attention import causal_mask
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars

CLAIM = Claim(
    title="The fused kernel computes equation 1",
    section="3.2.1",
    claim="PyTorch's scaled_dot_product_attention computes equation 1, with any mask.",
    claimed_by="the documentation of PyTorch",
)
TOKENS, D_K, DIFFERENCE, WITHOUT = 33, 16, "largest difference", "queries without keys"
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}


def equation_1(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """As written: the package's `attention` gives zeros where this is NaN."""
    scores = query @ key.transpose(-2, -1) / D_K**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ value


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    x = torch.randn(3, 2, 4, TOKENS, D_K, dtype=torch.float64)
    padded = torch.ones(2, 1, 1, TOKENS, dtype=torch.bool)
    padded[1, ..., 20:] = False
    whole = padded.expand(-1, -1, TOKENS, -1).clone()
    whole[1, :, 20:] = False
    causal = causal_mask(TOKENS, TOKENS, x.device)
    masks = {"none": None, "causal": causal, "is_causal": causal, "padded": padded, WITHOUT: whole}
    rows, failing = [], set()
    for name, mask in masks.items():
        exact = equation_1(*x, mask)
        for kind, bound in BOUNDS.items():
            given = {"is_causal": True} if name == "is_causal" else {"attn_mask": mask}
            found = F.scaled_dot_product_attention(*x.to(kind), **given).double()
            difference = float((found - exact).nan_to_num().abs().max())
            row = {"mask": name, "type": str(kind).removeprefix("torch."), DIFFERENCE: difference}
            nan = [int(each.isnan().sum()) for each in (exact, found)]
            rows.append(row | {"bound": bound, "NaN, equation 1": nan[0], "NaN, kernel": nan[1]})
            if difference > bound or not torch.equal(found.isnan(), exact.isnan()):
                failing.add(name)
    types = dict.fromkeys(row["type"] for row in rows)
    by_type = {kind: [row for row in rows if row["type"] == kind] for kind in types}
    picture = bars(
        "Kernel against equation 1 in float64",
        DIFFERENCE,
        {kind: {row["mask"]: row[DIFFERENCE] for row in found} for kind, found in by_type.items()},
        log=True,
    )
    shown = ", ".join(f"{max(row[DIFFERENCE] for row in of):.0e} in {kind}" for kind, of in by_type.items())
    zeros = bool((F.scaled_dot_product_attention(*x, attn_mask=whole)[1, :, 20:] == 0).all())
    return Result(
        {f"{TOKENS} tokens, d_k = {D_K}, PyTorch {torch.__version__}": rows},
        picture,
        verdict_of(failing <= {WITHOUT}, "each query has a key that is not masked" if failing else ""),
        "On a CPU, it agrees with equation 1 within the rounding of each type; the largest differences are "
        f"{shown}. For a query whose keys are all masked equation 1 is 0 / 0, and this package defines its "
        f"output as 0; the kernel {'gives' if zeros else 'does not give'} zeros in this version.",
    )

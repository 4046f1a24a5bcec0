"""Computes attention by equation 1 as written, in float64, and by PyTorch's fused kernel in three number
types, without a mask, causal (by a mask and by `is_causal`), padded, and with queries without keys.
"""

import torch
from torch.nn import functional as F

from dragoman.model.attention import attention, causal_mask
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars

CLAIM = Claim(
    title="The fused kernel computes equation 1",
    section="3.2.1",
    claim="A fused attention kernel computes equation 1, with any mask.",
    claimed_by="the documentation of PyTorch",
)
TOKENS, D_K = 33, 16
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    x = torch.randn(3, 2, 4, TOKENS, D_K, dtype=torch.float64)
    padded = torch.ones(2, 1, 1, TOKENS, dtype=torch.bool)
    padded[1, ..., 20:] = False
    whole = padded.expand(-1, -1, TOKENS, -1).clone()
    whole[1, :, 20:] = False
    causal = causal_mask(TOKENS, TOKENS, x.device)
    masks = {
        "none": None,
        "causal": causal,
        "is_causal": causal,
        "padded": padded,
        "queries without keys": whole,
    }
    rows = []
    for name, mask in masks.items():
        exact, _ = attention(*x, mask)
        for kind, bound in BOUNDS.items():
            given = {"is_causal": True} if name == "is_causal" else {"attn_mask": mask}
            found = F.scaled_dot_product_attention(*x.to(kind), **given).double()
            rows.append(
                {
                    "mask": name,
                    "type": str(kind).removeprefix("torch."),
                    "largest difference": float((found - exact).abs().max())
                    if found.isfinite().all()
                    else "NaN",
                    "bound": bound,
                }
            )
    good = [row for row in rows if row["largest difference"] != "NaN"]
    kept = {row["mask"] for row in rows} - {
        row["mask"] for row in rows if row not in good or row["largest difference"] > row["bound"]
    }
    picture = bars(
        "Fused kernel against equation 1 in float64",
        "largest difference",
        {
            kind: {row["mask"]: row["largest difference"] for row in good if row["type"] == kind}
            for kind in ("float64", "float32", "bfloat16")
        },
        log=True,
    )
    worst = {str(k)[6:]: [r["largest difference"] for r in good if r["type"] == str(k)[6:]] for k in BOUNDS}
    shown = ", ".join(f"{max(found):.0e} in {kind}" for kind, found in worst.items())
    whole_row = F.scaled_dot_product_attention(*x, attn_mask=whole)[1, :, 20:].abs().max()
    what = "gives zeros" if whole_row == 0 else "does not give zeros"
    return Result(
        {f"{TOKENS} tokens, d_k = {D_K}, PyTorch {torch.__version__}": rows},
        picture,
        verdict_of(kept >= set(masks) - {"queries without keys"}, "each query has a key that is not masked"),
        f"It agrees with equation 1 within the rounding of each type; the largest differences are {shown}. "
        "For a query whose keys are all masked equation 1 is 0 / 0, and this package defines its output as "
        f"0; the kernel {what} in this version.",
    )

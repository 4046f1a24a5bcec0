"""Counts the parameters of multi-head attention with 1 to 32 heads of width d_model / h, and its
multiply-adds, by hand and by PyTorch's counter. The exponentials of the softmax are counted too.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.attention import MultiHeadAttention
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="The cost of several heads",
    section="3.2.2",
    claim="The computational cost of multi-head attention is similar to that of single-head attention with "
    "full dimensionality.",
    claimed_by="the paper, section 3.2.2",
)
D_MODEL, TOKENS = 512, 25


def run(quick: bool) -> Result:
    rows = []
    for heads in (1, 2, 4, 8, 16, 32):
        width = D_MODEL // heads
        module = MultiHeadAttention(D_MODEL, heads, width, width)
        module.attention_weights_hook = lambda _: None  # equation 1 as written, which the counter knows
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            query, memory = module.project(torch.zeros(1, TOKENS, D_MODEL))
            module.attend(query, memory)
        by_hand = TOKENS * 4 * D_MODEL**2 + 2 * TOKENS**2 * D_MODEL
        rows.append(
            {
                "heads": heads,
                "parameters": sum(weight.numel() for weight in module.parameters()),
                "multiply-adds, counted": counter.get_total_flops() // 2,
                "multiply-adds, by hand": by_hand,
                "exponentials": heads * TOKENS**2,
            }
        )
    last = rows[-1]
    same = all(
        row["parameters"] == 4 * D_MODEL**2 and row["multiply-adds, counted"] == row["multiply-adds, by hand"]
        for row in rows
    )
    share = last["exponentials"] / last["multiply-adds, counted"]
    most = last["heads"] / (2 * D_MODEL)  # h n² / (4 n d_model² + 2 n² d_model) grows with n up to this
    picture = curves(
        f"Cost of attention by the number of heads, d_model = {D_MODEL}",
        "heads",
        "operations",
        {
            name: [(row["heads"], row[name]) for row in rows]
            for name in ("multiply-adds, counted", "exponentials")
        },
        f"{TOKENS} tokens.",
        log_x=True,
        log_y=True,
    )
    return Result(
        {f"{TOKENS} tokens, d_model = {D_MODEL}": rows},
        picture,
        verdict_of(same and most < 0.05),
        "Parameters (4 d_model²) and multiply-adds are the same for any number of heads. What grows is the "
        "work on the h · n² scores and their memory: scaling, mask, softmax. Their exponentials, counted "
        f"here, are {share:.2%} of the multiply-adds with {last['heads']} heads and {TOKENS} tokens, and at "
        f"most h / (2 d_model) = {most:.1%} for long texts.",
    )

"""Copies the weights of this package's multi-head attention into the class that tutorials write (three maps,
view, transpose, −1e9) and compares outputs and gradients of inputs and weights: for self-attention, causal
and padded, for encoder-decoder attention, and for a padding query whose keys are all masked.
"""

import torch

from dragoman.model.attention import MultiHeadAttention, causal_mask
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import largest_difference
from dragoman_paper.lab.parts.tutorial_attention import TutorialAttention

CLAIM = Claim(
    title="The attention class of tutorials",
    section="3.2.2",
    claim="The multi-head attention of tutorials, with three linear maps, view and transpose, computes "
    "section 3.2.2, as one map for all three does.",
    claimed_by="study notes, which contain such a class",
)
WIDTH, HEADS, TOKENS = 24, 4, 7


def pair() -> tuple[MultiHeadAttention, TutorialAttention]:
    """Both classes with the same weights, in float64."""
    torch.manual_seed(1)
    ours = MultiHeadAttention(WIDTH, HEADS, WIDTH // HEADS, WIDTH // HEADS).double()
    theirs = TutorialAttention(WIDTH, HEADS).double()
    blocks = ours.query_key_value.weight.detach().split(ours.widths)
    for linear, block in zip((theirs.w_q, theirs.w_k, theirs.w_v), blocks, strict=True):
        linear.weight.data = block.clone()
    theirs.w_o.weight.data = ours.output.weight.detach().clone()
    return ours, theirs


def compare(mask: torch.Tensor | None, own: bool = True) -> dict[str, float]:
    """Largest differences of the output, and of the gradients of the inputs and of all four matrices."""
    (ours, theirs), found = pair(), []
    for attend in (
        lambda x, y: ours.attend(ours.project_query(x), ours.project_memory(y), mask),
        lambda x, y: theirs(x, y, y, mask),
    ):
        generator = torch.Generator().manual_seed(2)
        x, y = torch.randn(2, 2, TOKENS, WIDTH, generator=generator, dtype=torch.float64)
        x.requires_grad_()
        y = x if own else y.requires_grad_()
        output = attend(x, y)
        output.square().sum().backward()
        found.append({"output": output, "gradient, queries' input": x.grad, "gradient, memory": y.grad})
    for each, attention in zip(found, (ours, theirs), strict=True):  # the maps are in one order
        each["gradient, weights"] = torch.cat([weight.grad for weight in attention.parameters()])
    return {name: largest_difference(one, found[1][name]) for name, one in found[0].items()}


def run(quick: bool) -> Result:
    causal = causal_mask(TOKENS, TOKENS, torch.device("cpu"))
    padded = torch.ones(2, 1, 1, TOKENS, dtype=torch.bool)
    padded[1, ..., 5:] = False
    whole = padded.expand(-1, -1, TOKENS, -1).clone()
    whole[1, :, 5:] = False
    cases = {
        "self-attention": compare(None),
        "causal": compare(causal),
        "padded": compare(padded),
        "encoder-decoder": compare(padded, own=False),
        "all keys masked": compare(whole),
    }
    rows = [{"case": name} | found for name, found in cases.items()]
    *usual, special = (max(found.values()) for found in cases.values())
    outputs = {row["case"]: row["output"] for row in rows}
    picture = bars("Largest difference of the outputs", "difference", {"": outputs}, log=True)
    because = (
        f"With copied weights outputs and gradients agree to {max(usual):.0e} in float64. A query whose keys "
        "are all masked is the exception: it gets the mean of all values with −1e9, and zeros in this "
        "package."
    )
    verdict = verdict_of(
        max(usual) < 1e-10, "each query has a key that is not masked" if special > 1e-10 else ""
    )
    return Result({"Largest absolute differences, float64": rows}, picture, verdict, because)

"""Computes the label-smoothed loss with the mass ε spread over all V tokens, as PyTorch and this package do,
and over the V − 1 others, as Tensor2Tensor does (apart from a constant that changes no gradient), and with
the ε that should make them equal.
"""

import torch
from torch.nn import functional as F

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars

CLAIM = Claim(
    title="Two ways to spread ε",
    section="5.4",
    claim="Label smoothing with ε = 0.1 is the same in every toolkit.",
    claimed_by="folklore (recipes that copy the paper's ε)",
)
EPSILON, TOKENS = 0.1, 50
TOLERANCE = 1e-3
"""Nats a token up to which two losses count as the same."""


def over_others(logits: torch.Tensor, gold: torch.Tensor, smoothing: float) -> float:
    """1 − ε for the right token, ε / (V − 1) for each other."""
    log_p = logits.log_softmax(-1)
    target = torch.full_like(log_p, smoothing / (logits.size(1) - 1))
    target.scatter_(1, gold[:, None], 1 - smoothing)
    return float(-(target * log_p).sum())


def run(quick: bool) -> Result:
    rows = []
    for vocabulary in (10, 100, 37_000):
        generator = torch.Generator().manual_seed(vocabulary)
        logits = 2 * torch.randn(TOKENS, vocabulary, dtype=torch.float64, generator=generator)
        gold = torch.randint(vocabulary, (TOKENS,), generator=generator)
        ours = float(LabelSmoothedCrossEntropy(EPSILON)(logits, gold)[0])
        pytorch = float(F.cross_entropy(logits, gold, label_smoothing=EPSILON, reduction="sum"))
        others = over_others(logits, gold, EPSILON)
        equal = over_others(logits, gold, EPSILON * (vocabulary - 1) / vocabulary)
        rows.append(
            {
                "V": vocabulary,
                "over V, a token": ours / TOKENS,
                "PyTorch − this package": abs(pytorch - ours) / TOKENS,
                "over V − 1, a token": others / TOKENS,
                "difference": abs(others - ours) / TOKENS,
                "difference with ε · (V − 1) / V": abs(equal - ours) / TOKENS,
            }
        )
    same = max(row["difference with ε · (V − 1) / V"] for row in rows)
    first, last = rows[0], rows[-1]
    picture = bars(
        f"Difference of the two losses, ε = {EPSILON:g}",
        "nats a token",
        {"": {f"V = {row['V']:,}": row["difference"] for row in rows}},
        log=True,
    )
    return Result(
        {f"{TOKENS} tokens, float64": rows},
        picture,
        verdict_of(
            last["difference"] < TOLERANCE,
            "the vocabulary is large" if first["difference"] > TOLERANCE else "",
        ),
        f"The two losses differ by {first['difference']:.4f} nats a token for V = {first['V']} and by "
        f"{last['difference']:.1e} for V = {last['V']:,}. ε over all V tokens is the same as ε · (V − 1) "
        f"/ V over the others, to {same:.0e}. Losses count as the same up to "
        f"{TOLERANCE:g} nats. A toolkit that also leaves out padding spreads ε over V − 2.",
    )

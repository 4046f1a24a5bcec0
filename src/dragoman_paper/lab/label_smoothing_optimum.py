"""Gives the label-smoothed loss a prediction with probability p for the right token and an equal share of the
rest for each other, in float64, and looks for the p with the least loss.
"""

import math

import torch

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="The prediction with the lowest smoothed loss",
    section="5.4",
    claim="The prediction with the least smoothed loss has a higher perplexity than one without smoothing.",
    claimed_by="the paper, section 5.4",
)
VOCABULARY = 1000


def losses(p: float, smoothing: float) -> tuple[float, float]:
    """The smoothed loss and the negative log-likelihood of a prediction, in nats."""
    logits = torch.full((1, VOCABULARY), math.log((1 - p) / (VOCABULARY - 1)), dtype=torch.float64)
    logits[0, 7] = math.log(p)
    loss, nll = LabelSmoothedCrossEntropy(smoothing)(logits, torch.tensor([7]))
    return float(loss), float(nll)


def run(quick: bool) -> Result:
    grid = [1 - 10 ** (-power / 20) for power in range(4, 161 if quick else 241)]
    rows, shown = [], {}
    for smoothing in (0.1, 0.2):
        best = 1 - smoothing + smoothing / VOCABULARY  # the target distribution itself
        points = [(p, losses(p, smoothing)[0]) for p in grid]
        found = min(points, key=lambda point: point[1])[0]
        least, nll = losses(best, smoothing)
        over = losses(1 - 1e-8, smoothing)[0]
        rows.append(
            {
                "ε": smoothing,
                "best p, by formula": best,
                "best p, on a grid": found,
                "least loss, nats": least,
                "least loss's perplexity": math.exp(nll),
                "loss at p = 0.99999999, nats": over,
                "gap of logits at the best p": math.log(best * (VOCABULARY - 1) / (1 - best)),
            }
        )
        shown[f"ε = {smoothing:g}"] = [(-math.log10(1 - p), loss) for p, loss in points]
    tenth = rows[0]
    perplexity, plain = tenth["least loss's perplexity"], math.exp(losses(grid[-1], 0.0)[1])
    shown["ε = 0"] = [(-math.log10(1 - p), losses(p, 0.0)[0]) for p in grid]
    agrees = all(abs(row["best p, by formula"] - row["best p, on a grid"]) < 0.02 for row in rows)
    picture = curves(
        f"Label-smoothed loss, V = {VOCABULARY:,}",
        "confidence, −log10 of (1 − p)",
        "loss, nats",
        shown,
    )
    return Result(
        {f"V = {VOCABULARY:,}": rows},
        picture,
        verdict_of(agrees and perplexity > plain + 0.05),
        f"With ε = 0.1 the least loss is at p = {tenth['best p, by formula']:.3f}, a perplexity of "
        f"{perplexity:.3f}. Without smoothing the loss falls along the whole grid, to a perplexity of "
        f"{plain:.3f} at its end. With smoothing more confident predictions have a higher loss: at "
        f"p = 0.99999999 it is {tenth['loss at p = 0.99999999, nats']:.2f} nats, the least is "
        f"{tenth['least loss, nats']:.2f}.",
    )

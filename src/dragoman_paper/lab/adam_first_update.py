"""Gives Adam with the paper's settings one gradient, of sizes from 10^−10 to 10^4, and measures how far the
weight moves. Then multiplies a constant gradient by ten, and counts the updates until v, Adam's mean of
squared gradients, is halfway to its new value, for several β2. This shows how slowly v follows the gradients.
"""

import math

import torch

from dragoman.training.objective import make_optimizer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="The first updates of Adam",
    section="5.3",
    claim="Warm-up is needed because the first gradients are large, and therefore the first updates would be "
    "too large.",
    claimed_by="common explanations of warm-up",
)
RATE, BETA1, BETA2 = 7e-4, 0.9, 0.98


def first_move(gradient: float) -> float:
    """How far a weight moves for one gradient, divided by the learning rate."""
    layer = torch.nn.Linear(1, 1, bias=False).double()
    before = layer.weight.detach().clone()
    adam = make_optimizer(layer)
    adam.param_groups[0]["lr"] = RATE
    layer.weight.grad = torch.full_like(layer.weight, gradient)
    adam.step()
    return float((layer.weight.detach() - before).abs()) / RATE


def updates_until_halfway(beta2: float) -> int:
    """Updates after which v is halfway from 1 to 100: the gradient was 1, and is 10 from now on."""
    v, updates = 1.0, 0
    while v < 50.5:
        v = beta2 * v + (1 - beta2) * 100.0
        updates += 1
    return updates


def run(quick: bool) -> Result:
    sizes = [10.0**power for power in range(-10, 5)]
    moves = {size: first_move(size) for size in sizes}
    by_beta = [
        {
            "β2": beta2,
            "updates until halfway": updates_until_halfway(beta2),
            "ln ½ / ln β2": math.log(0.5) / math.log(beta2),
        }
        for beta2 in (0.9, 0.98, 0.997, 0.999)
    ]
    # By the inequality of Cauchy and Schwarz, for gradients that grow by β2/β1 at every update.
    most = (1 - BETA1) / math.sqrt((1 - BETA2) * (1 - BETA1**2 / BETA2))
    usual = [move for size, move in moves.items() if size >= 1e-6]
    spread = max(usual) - min(usual)
    picture = curves(
        "The first update by Adam",
        "size of the gradient",
        "move / learning rate",
        {"β1 = 0.9, β2 = 0.98, ε = 1e−9": list(moves.items())},
        log_x=True,
    )
    return Result(
        {
            "First update": [{"gradient": size, "move / learning rate": moves[size]} for size in sizes],
            "Later changes": by_beta,
        },
        picture,
        verdict_of(spread > 0.5),
        "Adam's first update moves every weight by the learning rate, whatever the gradient's size, to "
        f"within {spread:.0e} for gradients of 10^−6 and more, so a large gradient makes no larger update. "
        f"Later ones are bounded, too: none moves a weight by more than {most:.2f} times the learning rate. "
        "Xiong et al. 2020 explain warm-up by large gradients near the output of post-norm models "
        "(gradient-by-layer); by this bound, their size alone cannot make Adam's updates larger. Liu et al. "
        "2020 give another reason: the variance of the adaptive learning rate at the start.",
    )

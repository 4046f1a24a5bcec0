"""Adds random noise of growing size to the weights of a model, three times, as if these were three
checkpoints. The model with the mean weights is compared with the ensemble, which is the mean of the three
models' probabilities, in float64.
"""

import torch

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Averaged checkpoints compared with their ensemble",
    section="6.1",
    claim="A model with the mean of several checkpoints' weights predicts what their ensemble predicts.",
    claimed_by="common explanations of checkpoint averaging (the paper, section 6.1)",
    topics=("T9",),
)
MEMBERS, SEEDS = 3, (1, 2, 3)


def differences(distance: float, seed: int) -> tuple[float, float]:
    """Of the averaged model from the ensemble, and of the first member from it, in probabilities."""
    source, target = random_sentences([9]), random_sentences([7], seed=2)
    models = [random_transformer(seed=seed) for _ in range(MEMBERS + 1)]
    *members, averaged = models
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for member in members:
            for weight in member.parameters():
                noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
                weight.add_(distance * weight.square().mean().sqrt() * noise)
        for name, weight in averaged.named_parameters():
            weight.copy_(sum(member.get_parameter(name) for member in members) / MEMBERS)
        found = [model.logits(model.decode(target, model.encode(source))[0]).softmax(-1) for model in models]
    ensemble = sum(found[:MEMBERS], torch.zeros_like(found[0])) / MEMBERS
    return largest_difference(found[-1], ensemble), largest_difference(found[0], ensemble)


def run(quick: bool) -> Result:
    distances = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
    rows = [
        {"distance": distance, "seed": seed}
        | dict(
            zip(
                ("averaged − ensemble", "one checkpoint − ensemble"), differences(distance, seed), strict=True
            )
        )
        for distance in distances
        for seed in SEEDS
    ]

    def mean(distance: float, name: str) -> float:
        found = [row[name] for row in rows if row["distance"] == distance]
        return sum(found) / len(found)

    names = ("averaged − ensemble", "one checkpoint − ensemble")
    squared, linear = (mean(1e-5, name) / mean(1e-6, name) for name in names)
    picture = curves(
        "Distance of the checkpoints, and of their predictions",
        "distance of weights, relative",
        "largest difference of a probability",
        {name: [(distance, mean(distance, name)) for distance in distances] for name in names},
        f"Mean of {len(SEEDS)} seeds.",
        log_x=True,
        log_y=True,
    )
    near, far = mean(1e-5, names[0]) / mean(1e-5, names[1]), mean(1.0, names[0]) / mean(1.0, names[1])
    return Result(
        {f"{MEMBERS} checkpoints": rows},
        picture,
        verdict_of(
            squared > 50 and near < 0.1, "the checkpoints are close to each other" if far > 0.3 else ""
        ),
        f"With ten times the distance, the averaged model differs {squared:.0f} times as much from the "
        f"ensemble, and one checkpoint {linear:.0f} times as much: the first difference is of second order. "
        "So the average of close checkpoints, such as the last ones of a training, predicts almost what "
        "their ensemble predicts, at the cost of one model. With distant weights it does not.",
    )

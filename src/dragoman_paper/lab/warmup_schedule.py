"""Evaluates equation 3 at every update for several d_model and warmup_steps, looks for its maximum, and
compares it with a straight line before the maximum and with an inverse square root after it.
"""

import math

from dragoman.training.schedule import learning_rate
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="The learning rate's schedule",
    section="5.3",
    claim="The learning rate increases linearly for the first warmup_steps updates, and decreases "
    "thereafter as the inverse square root of the update's number.",
    claimed_by="the paper, section 5.3",
)
SHAPES = ((512, 4000), (1024, 4000), (512, 8000), (256, 400))


def run(quick: bool) -> Result:
    steps = range(1, 10_001 if quick else 100_001)
    rows, shown = [], {}
    for d_model, warmup in SHAPES:
        rates = {step: learning_rate(step, d_model, warmup) for step in steps}
        rise = [abs(rates[step] / (step * rates[1]) - 1) for step in steps if step <= warmup]
        fall = [
            abs(rates[step] * math.sqrt(step / warmup) / rates[warmup] - 1) for step in steps if step > warmup
        ]
        rows.append(
            {
                "d_model": d_model,
                "warmup_steps": warmup,
                "highest at update": max(rates, key=rates.__getitem__),
                "highest rate": rates[warmup],
                "(d_model · warmup_steps)^−0.5": (d_model * warmup) ** -0.5,
                "largest relative error of the line": max(rise),
                "largest relative error of the root": max(fall),
            }
        )
        name = f"d_model = {d_model}, warmup_steps = {warmup:,}"
        shown[name] = [(step, 1000 * rates[step]) for step in steps if step % 100 == 0 or step == 1]
    worst = max(
        max(row["largest relative error of the line"], row["largest relative error of the root"])
        for row in rows
    )
    placed = all(row["highest at update"] == row["warmup_steps"] for row in rows)
    picture = curves("Equation 3", "update", "learning rate, thousandths", shown)
    return Result(
        {f"Updates 1 to {steps[-1]:,}": rows},
        picture,
        verdict_of(placed and worst < 1e-12),
        f"Equation 3 has both forms, to {worst:.0e}. The rate is highest at update warmup_steps, where it is "
        f"(d_model · warmup_steps)^−0.5: {rows[0]['highest rate']:.2e} for base. A wider model has a lower "
        "rate.",
    )

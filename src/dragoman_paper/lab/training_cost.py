"""Multiplies the paper's training time by the number of GPUs and their sustained operations a second, and
counts the operations of the same training from the model's shapes.
"""

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.paper_map.report import cost_of
from dragoman_paper.paper_map.subject import subject_of
from dragoman_paper.tables.published import P100_FLOPS, PAPER_GPUS, TRAINING_RUNS, estimated_flops

CLAIM = Claim(
    title="The training cost of Table 2",
    section="6.1",
    claim="Base was trained with 3.3 · 10^18 operations and big with 2.3 · 10^19.",
    claimed_by="the paper, Table 2",
)


def run(quick: bool) -> Result:
    rows = []
    for name, training in TRAINING_RUNS.items():
        cost = cost_of(subject_of(name, None), 25, None, None, None, PAPER_GPUS)
        rows.append(
            {
                "model": name,
                "updates": training.updates,
                "hours, from updates and seconds": training.updates * training.seconds_per_update / 3600,
                "hours, the paper": training.hours,
                "time · GPUs · 9.5 TFLOP/s": estimated_flops(training.hours, PAPER_GPUS),
                "Table 2": training.flops,
                "counted from shapes": cost.counted_flops,
                "counted / estimated, %": 100
                * cost.counted_flops
                / estimated_flops(training.hours, PAPER_GPUS),
            }
        )
    rounded = all(abs(row["time · GPUs · 9.5 TFLOP/s"] / row["Table 2"] - 1) < 0.02 for row in rows)
    shares = [row["counted / estimated, %"] for row in rows]
    picture = bars(
        "Operations of the paper's trainings",
        "floating-point operations",
        {
            row["model"]: {
                "the paper's estimate": row["time · GPUs · 9.5 TFLOP/s"],
                "counted from shapes": row["counted from shapes"],
            }
            for row in rows
        },
    )
    return Result(
        {f"{PAPER_GPUS} GPUs of {P100_FLOPS:.1e} operations a second, 25,000 tokens a side": rows},
        picture,
        verdict_of(
            rounded, "it means the operations that the GPUs could have done" if max(shares) < 95 else ""
        ),
        "The paper's figures are time · GPUs · 9.5 TFLOP/s, within 2%. The model's matrix products, counted "
        f"from their shapes, are {shares[0]:.0f}% of that for base and {shares[1]:.0f}% for big.",
    )

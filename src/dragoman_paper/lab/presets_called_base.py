"""Compares presets of toolkits that have the model's name with the paper's settings. Their numbers are read
from tensor2tensor/models/transformer.py and marian-dev/src/common/aliases.cpp; the rates follow from their
schedules, which have the form of equation 3. Only the settings of the table are compared.
"""

import math

from dragoman.training.schedule import learning_rate
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Presets called transformer-base",
    section="5.3",
    claim="A preset called transformer-base or transformer-big trains as the paper did.",
    claimed_by="folklore (the names of the presets)",
    topics=("T3", "T4", "T6"),
)
SETTINGS = ("highest rate", "warm-up", "β2", "dropout", "attention dropout", "norm", "layers")
NOT_GIVEN = "not given"
PRESETS = {
    "the paper, base": (learning_rate(4000, 512, 4000), 4000, 0.98, 0.1, 0.0, "post", 6),
    "Tensor2Tensor, base (v1)": (learning_rate(4000, 512, 4000), 4000, 0.98, 0.1, 0.0, "post", 6),
    "Tensor2Tensor, base (v3)": (2 * learning_rate(8000, 512, 8000), 8000, 0.997, 0.1, 0.1, "pre", 6),
    "Marian, transformer-base": (3e-4, 16_000, 0.98, 0.1, 0.0, "post", 6),
    "the paper, big": (learning_rate(4000, 1024, 4000), 4000, 0.98, 0.3, 0.0, "post", 6),
    "Tensor2Tensor, big": (2 * learning_rate(8000, 1024, 8000), 8000, 0.997, 0.3, 0.1, "pre", 6),
    "Marian, transformer-big": (2e-4, 8000, 0.998, 0.1, 0.0, "post", 6),
    "the paper, parsing": (NOT_GIVEN, 4000, 0.98, NOT_GIVEN, NOT_GIVEN, "post", 4),
    "Tensor2Tensor, parsing": (2 * learning_rate(16_000, 1024, 16_000), 16_000, 0.997, 0.2, 0.2, "pre", 6),
    "Tensor2Tensor, big for parsing": (2 * learning_rate(4000, 1024, 4000), 4000, 0.997, 0.1, 0.1, "pre", 6),
}
"""For parsing, the paper chose the dropouts and the learning rate on section 22, and does not give them.
Tensor2Tensor's learning_rate_constant is 2 from version 3 on; its presets for parsing also set learning_rate,
which that schedule does not read. In version 1 the factor is 5000 · 0.002 · learning_rate = 1.
"""


def rate(step: int, highest: float | str, warmup: int) -> float | str:
    """A schedule of this form, by its highest rate, if that is given."""
    if isinstance(highest, str):
        return highest
    return highest * min(step / warmup, math.sqrt(warmup / step))


def run(quick: bool) -> Result:
    rows, equal, others = [], [], []
    for name, values in PRESETS.items():
        kind = next(kind for kind in ("parsing", "big", "base") if kind in name)
        paper = PRESETS[f"the paper, {kind}"]
        given = zip(SETTINGS, values, paper, strict=True)
        differ = [setting for setting, own, theirs in given if theirs not in (NOT_GIVEN, own)]
        if not name.startswith("the paper"):
            (others if differ else equal).append(name)
        rows.append(
            {"preset": name, **dict(zip(SETTINGS, values, strict=True))}
            | {f"rate at update {step:,}": rate(step, *values[:2]) for step in (1000, 100_000)}
            | {"differs in": ", ".join(differ) or "nothing"}
        )
    picture = curves(
        "Learning rates of presets",
        "update",
        "learning rate, thousandths",
        {
            name: [(step, 1000 * rate(step, *values[:2])) for step in range(1, 40_001, 250)]
            for name, values in PRESETS.items()
            if name not in equal and "parsing" not in name
        },
        f"The curve of {' and of '.join(equal)} is the paper's. Presets for parsing are not drawn.",
    )
    early = {row["preset"]: row["rate at update 1,000"] for row in rows}
    share = early["Marian, transformer-base"] / early["the paper, base"]
    return Result(
        {"Settings": rows},
        picture,
        verdict_of(bool(equal), f"the preset is “{'” or “'.join(equal)}”" if others else ""),
        f"Of {len(equal + others)} presets of toolkits {len(others)} differ from the paper in these "
        f"settings; {len(equal)} does not: {', '.join(equal)}. At update 1,000 the learning rate of Marian's "
        f"base is {share:.0%} of the paper's. A result of the others is not one of the paper's settings.",
    )

"""Masks one of two keys with a finite number in place of −∞, in three number types, while its score is higher
than that of the other key by a margin. The weight of the masked key has to be 0.
"""

import torch

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars

CLAIM = Claim(
    title="A finite number in place of −∞",
    section="3.2.3",
    claim="Masked scores may be set to −1e9, or have −1e4 added, in place of −∞.",
    claimed_by="widely used implementations (−1e9, −10000)",
    topics=("C29", "A2"),
)
REFUSED = "refused: too large for the type"
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def weight(kind: torch.dtype, mask: float, margin: float, adds: bool) -> float | str:
    """The weight of the masked key, or why there is none."""
    scores = torch.tensor([margin, 0.0], dtype=kind)
    masked = torch.tensor([True, False])
    try:
        if adds:
            filled = scores + torch.where(masked, mask, 0.0).to(kind)
        else:
            filled = scores.masked_fill(masked, mask)
    except RuntimeError:
        return REFUSED
    return float(filled.softmax(-1)[0])


def run(quick: bool) -> Result:
    rows = []
    for name, kind in TYPES.items():
        for what, mask, adds in (
            ("−1e9, set", -1e9, False),
            ("−1e9, added", -1e9, True),
            ("−1e4, added", -1e4, True),
        ):
            row: dict[str, str | float] = {"type": name, "mask": what}
            for margin in (0.0, 100.0, 1.2e4):
                row[f"weight at margin {margin:g}"] = weight(kind, mask, margin, adds)
            row["whole row masked"] = whole_row(kind, mask, adds)
            rows.append(row)
    leaks = [row for row in rows if row["weight at margin 12000"] not in (0.0, REFUSED)]
    refused = [row for row in rows if row["weight at margin 0"] == REFUSED]
    shown = {
        f"{row['type']}, {row['mask']}": row["weight at margin 12000"]
        for row in rows
        if isinstance(row["weight at margin 12000"], float)
    }
    picture = bars(
        "A masked key whose score is 12,000 higher",
        "weight of the masked key, which should be 0",
        {"": shown},
    )
    return Result(
        {"Weight of the masked key": rows},
        picture,
        verdict_of(
            bool(leaks or refused), "scores are far smaller than the number, and the type can represent it"
        ),
        f"−1e9 is refused by masked_fill in float16 ({len(refused)} case) and becomes −∞ when it is added, "
        "so a row with all keys masked is NaN there. −1e4 gives all weight to a masked key whose "
        f"score is above 1e4 ({len(leaks)} cases). Scaled scores are far smaller. −∞ is right in every type.",
    )


def whole_row(kind: torch.dtype, mask: float, adds: bool) -> str:
    """The weights of a query whose two keys, with scores 1 and 0, are both masked."""
    scores = torch.tensor([1.0, 0.0], dtype=kind)
    if not adds and abs(mask) > torch.finfo(kind).max:
        return REFUSED
    value = torch.tensor(mask).to(kind)
    filled = scores + value if adds else torch.full_like(scores, mask)
    return ", ".join(f"{each:.3g}" for each in filled.softmax(-1).tolist())

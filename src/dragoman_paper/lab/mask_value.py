"""Masks one of two keys with a finite number in place of −∞, in three number types, while its score is higher
than that of the other key by a margin. The weight of the masked key has to be 0.
"""

import torch

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars

CLAIM = Claim(
    title="A finite number in place of −∞",
    section="3.2.3",
    claim="Masked scores may be set to −1e9, or have −1e4 added, in place of −∞.",
    claimed_by="widely used implementations (−1e9, −10000)",
)
REFUSED = "refused: too large for the type"
MARGINS = (0.0, 100.0, 1.2e4)
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def weights(
    kind: torch.dtype, scores: list[float], masked: list[bool], mask: float, adds: bool
) -> list[float]:
    """The weights of keys with these scores. Raises `RuntimeError` if `mask` is too large for the type."""
    given, where = torch.tensor(scores, dtype=kind), torch.tensor(masked)
    filled = given + torch.where(where, mask, 0.0).to(kind) if adds else given.masked_fill(where, mask)
    return filled.softmax(-1).tolist()


def measure(kind: torch.dtype, mask: float, adds: bool) -> dict[str, str | float]:
    """The weight of a masked key by its margin, and both weights where both keys (1 and 0) are masked."""
    names = [f"weight at margin {margin:g}" for margin in MARGINS]
    try:
        one = [weights(kind, [margin, 0.0], [True, False], mask, adds)[0] for margin in MARGINS]
        both = ", ".join(f"{each:.3g}" for each in weights(kind, [1.0, 0.0], [True, True], mask, adds))
    except RuntimeError:
        return dict.fromkeys((*names, "whole row masked"), REFUSED)
    return dict(zip(names, one, strict=True)) | {"whole row masked": both}


def run(quick: bool) -> Result:
    masks = (("−1e9, set", -1e9, False), ("−1e9, added", -1e9, True), ("−1e4, added", -1e4, True))
    rows = [
        {"type": name, "mask": what} | measure(kind, mask, adds)
        for name, kind in TYPES.items()
        for what, mask, adds in masks
    ]
    usual = [row[f"weight at margin {margin:g}"] for row in rows for margin in MARGINS[:2]]
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
            all(each in (0.0, REFUSED) for each in usual),
            "scores are far smaller in magnitude than the number, and the type can represent it"
            * bool(leaks or refused),
        ),
        f"−1e9 is refused by masked_fill in float16 ({len(refused)} case) and becomes −∞ when it is added, "
        "so a row with all keys masked is NaN there. −1e4 gives all weight to a masked key whose score is "
        f"more than 1e4 above the other key's ({len(leaks)} cases). Scaled scores are far smaller. −∞ is "
        "right in every type, except that a row with all keys masked is NaN.",
    )

"""Counts the multiply-adds of a separable convolution whose kernel covers the whole sentence, of
self-attention, and of the point-wise feed-forward layer of equation 2, as PyTorch's counter sees their matrix
products, for sentences and widths of several sizes. Both sides are then fitted by a · n² · d + b · n · d².
"""

import numpy as np
import torch
from torch import Tensor, nn

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.tables.complexity import count_flops
from dragoman_paper.tables.layers import Convolution, Layer, LayerType, self_attention

CLAIM = Claim(
    title="Separable convolutions compared with self-attention",
    section="4",
    claim="Even with k = n, the complexity of a separable convolution is equal to that of a self-attention "
    "layer and a point-wise feed-forward layer.",
    claimed_by="the paper, section 4",
)
SIZES, WIDTHS = (33, 65, 129, 257), (64, 512)
SEPARABLE, ATTENTION, NETWORK, BOTH = "separable convolution", "self-attention", "feed-forward", "both layers"


class PointWise(Layer):
    """Equation 2, with d_ff = 4 d_model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(torch.relu(self.inner(x)))


def fitted(rows: list[dict[str, int]], name: str) -> tuple[np.ndarray, float]:
    """The factors a and b, and the largest error of the fit, as a share."""
    counts = np.array([row[name] for row in rows], float)
    terms = np.array([[row["n = k"] ** 2 * row["d"], row["n = k"] * row["d"] ** 2] for row in rows], float)
    factors = np.linalg.lstsq(terms / counts[:, None], np.ones(len(rows)), rcond=None)[0]
    return factors, float(np.abs(terms @ factors / counts - 1).max())


def run(quick: bool) -> Result:
    rows = []
    for n in SIZES:
        layers = {
            SEPARABLE: lambda width, _, n=n: Convolution(width, n, separable=True),
            ATTENTION: lambda width, _: self_attention(width),
            NETWORK: lambda width, _: PointWise(width),
        }
        for width in WIDTHS:
            types = {name: LayerType(name, build, "", "", "") for name, build in layers.items()}
            found = {name: count_flops(each, n, width) // 2 for name, each in types.items()}
            rows.append({"n = k": n, "d": width} | found | {BOTH: found[ATTENTION] + found[NETWORK]})
    ratios = [row[BOTH] / row[SEPARABLE] for row in rows]
    (one, error), (two, other) = fitted(rows, SEPARABLE), fitted(rows, BOTH)
    same = max(error, other) < 1e-9 and min(*one, *two) > 0.5
    picture = curves(
        "Multiply-adds of a layer with k = n, d = 512",
        "n, positions",
        "multiply-adds",
        {name: [(row["n = k"], row[name]) for row in rows if row["d"] == 512] for name in list(rows[0])[2:]},
        log_x=True,
        log_y=True,
    )
    return Result(
        {"Multiply-adds": rows},
        picture,
        verdict_of(same, "constant factors are left out" if max(ratios) > 1 else ""),
        f"The separable convolution has {one[0]:.2g} n² · d + {one[1]:.2g} n · d² multiply-adds; attention "
        f"without its projections and equation 2 have {two[0]:.2g} n² · d + {two[1]:.2g} n · d². The largest "
        f"error of these fits is {max(error, other):.0e}. As counted, the two layers together cost "
        f"{min(ratios):.1f} to {max(ratios):.1f} times as much as the convolution.",
    )

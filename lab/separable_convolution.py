"""Counts the multiply-adds of a separable convolution whose kernel covers the whole sentence, of
self-attention, and of a point-wise feed-forward layer, as PyTorch's counter sees them, for sentences and
widths of several sizes.
"""

from dragoman.pipeline.reproduce.complexity import Cost, count_flops, fit
from dragoman.pipeline.reproduce.layers import Convolution, LayerType, self_attention
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves

CLAIM = Claim(
    title="Separable convolutions compared with self-attention",
    section="4",
    claim="Even with k = n, the complexity of a separable convolution is equal to that of a self-attention "
    "layer and a point-wise feed-forward layer.",
    claimed_by="the paper, section 4",
)
SIZES, WIDTHS = (33, 65, 129, 257), (64, 512)


def run(quick: bool) -> Result:
    attention = LayerType("self-attention", lambda width, _: self_attention(width), "", "", "")
    rows, sums = [], []
    for n in SIZES:
        separable = LayerType(
            "separable", lambda width, _, n=n: Convolution(width, n, separable=True), "", "", ""
        )
        for width in WIDTHS:
            one = count_flops(separable, n, width) // 2
            scores = count_flops(attention, n, width) // 2
            point_wise = n * width**2  # one matrix, as the separable convolution has
            network = 8 * n * width**2  # equation 2 with d_ff = 4 d
            rows.append(
                {
                    "n = k": n,
                    "d": width,
                    "separable convolution": one,
                    "n² · d + n · d²": n**2 * width + n * width**2,
                    "attention + one matrix": scores + point_wise,
                    "attention + equation 2": scores + network,
                    "attention + equation 2, times as much": (scores + network) / one,
                }
            )
            sums.append(Cost("separable", n, width, one - n * width**2, 1.0, 1))
    exponents = [round(each.value, 6) for each in fit(sums, lambda cost: cost.flops)]
    exact = all(row["separable convolution"] == row["n² · d + n · d²"] for row in rows)
    ratios = [row["attention + equation 2, times as much"] for row in rows]
    picture = curves(
        "Multiply-adds of a layer with k = n, d = 512",
        "n, positions",
        "multiply-adds",
        {
            name: [(row["n = k"], row[name]) for row in rows if row["d"] == 512]
            for name in ("separable convolution", "attention + one matrix", "attention + equation 2")
        },
        log_x=True,
        log_y=True,
    )
    return Result(
        {"Multiply-adds": rows},
        picture,
        verdict_of(exact and exponents == [2, 1], "constant factors are left out" if max(ratios) > 1 else ""),
        "The separable convolution has exactly n² · d + n · d² multiply-adds; attention without its "
        "projections has 2 n² · d, and equation 2 has 8 n · d². The orders are equal; as counted, attention "
        f"and equation 2 cost {min(ratios):.1f} to {max(ratios):.1f} times as much.",
    )

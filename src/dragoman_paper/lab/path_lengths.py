"""Stacks layers of each type of Table 1 until the gradient of every position with respect to every other one
that it may depend on is not zero, for sentences of growing length, and compares the number of layers with
a formula.
"""

import math
from functools import partial

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.tables import layers
from dragoman_paper.tables.complexity import distance
from dragoman_paper.tables.layers import KERNEL, NEIGHBOURHOOD, ROWS

CLAIM = Claim(
    title="Maximum path lengths of Table 1",
    section="4",
    claim="The maximum path length is O(1) for self-attention, O(n) for recurrent layers, O(n / k) or "
    "O(log_k n) for convolutional ones, and O(n / r) for restricted self-attention.",
    claimed_by="the paper, Table 1 and section 4",
)
K, R = 3, 8  # beside those of the rows of Table 1 in this package
OTHERS = {
    f"convolutional, k = {K}": ("O(n/k)", lambda width, _: layers.Convolution(width, K)),
    f"convolutional, k = {K}, dilated": ("O(log_k n)", lambda w, m: layers.DilatedConvolution(w, K, K**m)),
    f"self-attention, restricted to r = {R}": ("O(n/r)", lambda width, _: layers.restricted(width, R)),
}


def contiguous(reach: int, n: int) -> int:
    """Layers that reach so far in all, half of it to each side."""
    return math.ceil((n - 1) / (reach // 2))


def dilated(kernel: int, n: int) -> int:
    """The least m with kernel^m ≥ n."""
    return next(m for m in range(99) if kernel**m >= n)


EXACT = {"self-attention": lambda _: 1, "recurrent (LSTM)": lambda n: n - 1}
for kernel in (KERNEL, K):
    EXACT[f"convolutional, k = {kernel}"] = partial(contiguous, kernel)
    EXACT[f"separable convolution, k = {kernel}"] = partial(contiguous, kernel)
    EXACT[f"convolutional, k = {kernel}, dilated"] = partial(dilated, kernel)
for reach in (NEIGHBOURHOOD, R):
    EXACT[f"self-attention, restricted to r = {reach}"] = partial(contiguous, reach)


def run(quick: bool) -> Result:
    rows, shown = [], {}
    others = [layers.LayerType(name, build, "", "", paper) for name, (paper, build) in OTHERS.items()]
    for layer in (*ROWS, *others):
        points = []
        for n in (8, 40) if quick else (8, 16, 32, 64, 128, 256):
            found = distance(layer, n).path
            paths = {"path, by gradient": found, "by formula": EXACT[layer.name](n)}
            rows.append({"layer": layer.name, "n": n} | paths | {"the paper": layer.path_text})
            points.append((n, found))
        shown[layer.name] = points
    wrong = [row for row in rows if row["path, by gradient"] != row["by formula"]]
    picture = curves(
        "Layers until every position depends on every other",
        "n, positions",
        "layers, or steps",
        {row.name: shown[row.name] for row in ROWS},
        log_x=True,
        log_y=True,
    )
    last = {row["layer"]: row["path, by gradient"] for row in rows}
    return Result(
        {"Path lengths": rows},
        picture,
        verdict_of(not wrong),
        f"At n = {rows[-1]['n']} self-attention needs {last['self-attention']} layer, the LSTM "
        f"{last['recurrent (LSTM)']} steps, convolutions of {KERNEL} positions "
        f"{last[f'convolutional, k = {KERNEL}']} layers, dilated ones "
        f"{last[f'convolutional, k = {KERNEL}, dilated']}. Contiguous kernels reach (k - 1) / 2 to each "
        "side and neighbourhoods r / 2, so the paths are about 2 n / (k - 1) and 2 n / r, for each "
        f"of k = {K}, {KERNEL} and r = {R}, {NEIGHBOURHOOD}.",
    )

"""Rotates each pair of features of PE(pos) by the angle k / 10000^(2i/d_model) and compares the result with
PE(pos + k), for every pos and k of a table, in float64. For six of the offsets k the rotations are written as
one block-diagonal matrix, which is compared with PE(pos + k), too.
"""

import numpy as np

from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of

CLAIM = Claim(
    title="A shift of positions is a linear map",
    section="3.5",
    claim="For any fixed offset k, PE(pos + k) is a linear function of PE(pos).",
    claimed_by="the paper, section 3.5",
)
BOUND = 1e-9


def table(length: int, d_model: int) -> np.ndarray:
    """The paper's formula in float64, [N, D]; the package's own table is float32."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, d_model)


def rotations(k: int, d_model: int) -> np.ndarray:
    """A rotation for each pair of features, [D/2, 2, 2]. None contains pos."""
    angle = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    sin, cos = np.sin(angle), np.cos(angle)
    return np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)


def shift(k: int, d_model: int) -> np.ndarray:
    """The matrix T_k with PE(pos + k) = T_k PE(pos)."""
    matrix = np.zeros((d_model, d_model))
    for i, block in enumerate(rotations(k, d_model)):
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    return matrix


def error_of(k: int, positions: np.ndarray) -> float:
    """The largest difference between the rotated PE(pos) and PE(pos + k), for every pos."""
    length, d_model = positions.shape
    pairs = positions[:-k].reshape(length - k, d_model // 2, 2)
    rotated = np.einsum("iab,nib->nia", rotations(k, d_model), pairs).reshape(length - k, d_model)
    return float(np.abs(rotated - positions[k:]).max())


def run(quick: bool) -> Result:
    length, d_model = (256, 64) if quick else (2048, 512)
    positions = table(length, d_model)
    offsets = [1, 2, 3, 10, 100, length // 2]
    rows = []
    for k in offsets:
        matrix = shift(k, d_model)
        error = float(np.abs(positions[:-k] @ matrix.T - positions[k:]).max())
        orthogonal = float(np.abs(matrix @ matrix.T - np.eye(d_model)).max())
        rows.append({"k": k, "positions": length - k, "largest error": error, "T Tᵀ − 1": orthogonal})
    worst = max([error_of(k, positions) for k in range(1, length)] + [row["largest error"] for row in rows])
    picture = matrices(
        "The matrices T_k with PE(pos + k) = T_k PE(pos), d_model = 16",
        "entry of T_k",
        {f"k = {k}": shift(k, 16) for k in (1, 2, 10, 100)},
        Side("feature of PE(pos + k)", range(16)),
        Side("feature of PE(pos)", range(16)),
    )
    return Result(
        {f"d_model = {d_model}": rows},
        picture,
        verdict_of(worst < BOUND),
        "The matrix of an offset k is a rotation of each pair of features, and does not depend on pos; with "
        f"d_model = {d_model} the largest error over all positions and all {length - 1:,} offsets is "
        f"{worst:.1e} in float64.",
    )

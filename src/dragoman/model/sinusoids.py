"""Positions as sinusoids (section 3.5), in NumPy: the C++ decoder uses them without importing PyTorch."""

import math

import numpy as np
import numpy.typing as npt

from dragoman.model.settings import PositionKind
from dragoman.system.errors import OptionError

Table = npt.NDArray[np.float32]


def rates(d_model: int, kind: PositionKind) -> npt.NDArray[np.float64]:
    """The angle by which each pair of dimensions turns from one position to the next, in radians [⌈D/2⌉].

    Raises `ValueError` for another kind than `sinusoid_table` has.
    """
    pairs = np.arange((d_model + 1) // 2, dtype=np.float64)
    if kind == "sinusoidal-tensor2tensor":
        return np.exp(pairs * (-math.log(10000) / max(len(pairs) - 1, 1)))
    if kind in ("sinusoidal", "sinusoidal-halves"):
        return np.exp(pairs * (-math.log(10000) * 2 / d_model))
    raise ValueError(f"There are no sinusoids of the kind {kind!r}.")


def sinusoid_table(length: int, d_model: int, kind: PositionKind = "sinusoidal") -> Table:
    """[N, D]: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)).

    - `sinusoidal`: the formula; sine and cosine alternate.
    - `sinusoidal-halves`: the same numbers, all sines before all cosines (Hugging Face Marian, Sockeye).
    - `sinusoidal-tensor2tensor`: in halves, and the longest wavelength is exactly 10000 · 2π, so that each
      step of the progression is slightly longer than the formula's (Tensor2Tensor, fairseq, Marian).
    - `none`: zeros.

    Computed in float64. Raises `ValueError` for another kind.
    """
    if kind == "none":
        return np.zeros((length, d_model), np.float32)
    angles = np.arange(length, dtype=np.float64)[:, None] * rates(d_model, kind)
    sine, cosine = np.sin(angles), np.cos(angles)
    if kind == "sinusoidal":
        return np.stack([sine, cosine], -1).reshape(length, -1)[:, :d_model].astype(np.float32)
    return np.concatenate([sine, cosine[:, : d_model // 2]], -1).astype(np.float32)


def longer_than_table(tokens: int, positions: int) -> OptionError:
    """The error for a text that is longer than a learned table."""
    return OptionError(
        f"A text of {tokens} tokens is longer than the {positions} positions that this model has learned; "
        "split the text, or train with a larger {max_positions}."
    )

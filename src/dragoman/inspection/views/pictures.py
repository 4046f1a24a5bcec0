"""The pictures of an inspection by name. This module imports no torch."""

from typing import Literal

Picture = Literal[
    "beam",
    "encoder",
    "decoder",
    "cross",
    "alignment",
    "numbers",
    "statistics",
    "masks",
    "positions",
    "distances",
    "stream",
    "lens",
    "neurons",
    "model",
]

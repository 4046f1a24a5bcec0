"""Random bits that depend on a counter alone: SplitMix64 (Steele, Lea and Flood 2014)."""

from jaxtyping import Int64
from torch import Tensor

GOLDEN_GAMMA, FIRST, SECOND = (
    number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def splitmix64(key: Int64[Tensor, "*N"], counter: Int64[Tensor, "*N"]) -> Int64[Tensor, "*N"]:
    """Number `counter` of the sequence that begins at `key`: 64 random bits."""
    bits = key + counter * GOLDEN_GAMMA
    bits = (bits ^ shift_right(bits, 30)) * FIRST
    bits = (bits ^ shift_right(bits, 27)) * SECOND
    return bits ^ shift_right(bits, 31)


def shift_right(bits: Int64[Tensor, "*N"], places: int) -> Int64[Tensor, "*N"]:
    """Logical shift: zeros come in from the left."""
    return (bits >> places) & ((1 << (64 - places)) - 1)

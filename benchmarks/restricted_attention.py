"""Restricted self-attention beside full attention, both without projections: seconds of a forward pass.

    python benchmarks/restricted_attention.py --positions 4096 --neighbourhood 64

Full attention is PyTorch's fused kernel, as in the model. Prints the fastest of several passes in turn.
"""

import argparse
import time

import torch
from torch import Tensor, nn

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.variants import RestrictedAttention

HEADS, WIDTH = 8, 64


@torch.no_grad()
def seconds(attention: MultiHeadAttention, heads: Tensor, causal: bool) -> float:
    """Of one pass over heads [1 H n K]."""
    start = time.perf_counter()
    attention.attend(heads, KeysValues(heads, heads), causal=causal)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--neighbourhood", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    sizes = HEADS * WIDTH, HEADS, WIDTH, WIDTH
    full, restricted = MultiHeadAttention(*sizes), RestrictedAttention(*sizes)
    restricted.radius = asked.neighbourhood // 2
    for attention in (full, restricted):
        attention.output = nn.Identity()
    heads = torch.randn(1, HEADS, asked.positions, WIDTH)
    for causal in (False, True):
        turns = [[seconds(each, heads, causal) for each in (full, restricted)] for _ in range(asked.repeats)]
        one, other = (1000 * min(own) for own in zip(*turns, strict=True))
        kind = "causal" if causal else "all"
        print(f"{kind}: full {one:.1f} ms, restricted {other:.1f} ms, {one / other:.1f} times")


if __name__ == "__main__":
    main()

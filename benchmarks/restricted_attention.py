"""Restricted self-attention beside full attention, both without projections: seconds of a forward pass.

    python benchmarks/restricted_attention.py --positions 4096 --neighbourhood 64

Full attention is PyTorch's fused kernel, as in the model. Writes the fastest of several passes in turn, as
JSON to benchmarks/results, and prints the file's name.
"""

import argparse
import time
from pathlib import Path

import torch
from passport import asked, keep, passport
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
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--neighbourhood", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    sizes = HEADS * WIDTH, HEADS, WIDTH, WIDTH
    full, restricted = MultiHeadAttention(*sizes), RestrictedAttention(*sizes)
    restricted.radius = given.neighbourhood // 2
    for attention in (full, restricted):
        attention.output = nn.Identity()
    heads = torch.randn(1, HEADS, given.positions, WIDTH)
    rows = []
    for causal in (False, True):
        turns = [[seconds(each, heads, causal) for each in (full, restricted)] for _ in range(given.repeats)]
        one, other = (1000 * min(own) for own in zip(*turns, strict=True))
        rows.append(
            {
                "causal": causal,
                "positions": given.positions,
                "neighbourhood": given.neighbourhood,
                "full_ms": round(one, 2),
                "restricted_ms": round(other, 2),
                "ratio": round(one / other, 2),
            }
        )
    found = passport(asked("restricted_attention.py", given)) | {"rows": rows}
    print(keep(found, given.results, "restricted-attention"))


if __name__ == "__main__":
    main()

"""Beam search over the Transformer in C++, compiled once on the machine that it runs on; search.py says what it has to find."""

from pathlib import Path

from dragoman.native.build import WIDE, Program

SEARCH = Program(
    "The decoder",
    "PyTorch translates, slower.",
    tuple(Path(__file__).parent / name for name in ("search.cpp", "transformer.h", "product.h", "tiles.h")),
    ("-fopenmp-simd", *WIDE),
)

"""Levels of instructions, for each of which the wheel has a library of the C++.

The C++ is compiled for the highest level that this processor has, and not for all its instructions: so a
library that is compiled here and that of the wheel compute the same, to the last bit.
"""

import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_V3 = "cx16 lahf_lm pni popcnt sse4_1 sse4_2 ssse3 abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"
_AVX512 = f"{_V3} avx512bw avx512cd avx512dq avx512f avx512vl avx512_vnni"
# By default compilers use half the width of the registers on Intel.
_AVX512_FLAGS = "-O3 -march=x86-64-v4 -mprefer-vector-width=512 -mavx512vnni"


@dataclass(frozen=True)
class Level:
    """Instructions that the C++ uses, and the processors that have them."""

    name: str
    machine: str
    """As `platform.machine` names it."""
    flags: str
    """Of GCC (from version 11 on) and of clang (12)."""
    features: str
    """What a processor needs, as /proc/cpuinfo calls it."""

    def is_of(self, machine: str, features: Collection[str]) -> bool:
        """Whether a processor has these instructions."""
        return self.machine == machine and {*self.features.split()} <= {*features}


LEVELS = (
    Level("armv8-a", "aarch64", "-O2 -march=armv8-a", "asimd fp"),
    Level("x86-64-v3", "x86_64", "-O3 -march=x86-64-v3", _V3),
    Level("avx-vnni", "x86_64", "-O3 -march=x86-64-v3 -mavxvnni", f"{_V3} avx_vnni"),
    Level("avx512-vnni", "x86_64", _AVX512_FLAGS, _AVX512),
    Level("avx512-bf16", "x86_64", f"{_AVX512_FLAGS} -mavx512bf16", f"{_AVX512} avx512_bf16"),
    Level(
        "amx",
        "x86_64",
        f"{_AVX512_FLAGS} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16",
        f"{_AVX512} avx512_bf16 amx_tile amx_int8 amx_bf16",
    ),
)
"""The lowest first."""


def levels_of(machine: str, features: Collection[str]) -> list[Level]:
    """The levels that a processor has, the lowest first."""
    return [level for level in LEVELS if level.is_of(machine, features)]


def own_features() -> list[str]:
    """What Linux says that this processor has; nothing on other systems."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                name, _, features = line.partition(":")
                if name.strip() in {"flags", "Features"}:
                    return features.split()
    return []


OWN_LEVELS = levels_of(platform.machine(), own_features())

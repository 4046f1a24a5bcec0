"""A processor loads the library of the highest level whose instructions it has, and no other."""

import os
import platform
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.native.build import DECODER, TRAINING_KERNELS, Program
from dragoman.native.levels import LEVELS, OWN_LEVELS, levels_of

NAMES = {  # of instructions: as compilers call them, and Linux
    "AVX512BF16": "avx512_bf16",
    "AVX512VNNI": "avx512_vnni",
    "AVXVNNI": "avx_vnni",
    "BMI": "bmi1",
    "CRC32": "sse4_2",
    "GCC_HAVE_SYNC_COMPARE_AND_SWAP_16": "cx16",
    "LAHF_SAHF": "lahf_lm",
    "LZCNT": "abm",
    "SSE3": "pni",
}
NOT_INSTRUCTIONS = ("BIGGEST_ALIGNMENT", "FP_FAST_FMA")
FEATURES = sorted({name for level in LEVELS for name in level.features.split()})


def macros(*flags: str) -> set[str]:
    """What a compiler predefines."""
    command = ["g++", *flags, "-dM", "-E", "-x", "c++", "/dev/null"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[1] for line in lines}


@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("g++") is None, reason="needs g++ on x86")
@pytest.mark.parametrize("level", [level for level in LEVELS if level.machine == "x86_64"])
def test_a_level_needs_what_its_flags_let_the_compiler_use(level):
    new = {name.strip("_") for name in macros(*level.flags.split()) - macros("-O3", "-march=x86-64")}
    used = {NAMES.get(name, name.lower()) for name in new if not name.startswith(NOT_INSTRUCTIONS)}
    assert used == {*level.features.split()}


@given(st.sampled_from(["x86_64", "aarch64", "riscv64"]), st.sets(st.sampled_from(FEATURES)))
def test_a_processor_that_lacks_an_instruction_of_a_level_does_not_have_the_level(machine, missing):
    features = {*FEATURES} - missing
    found = levels_of(machine, features)
    assert found == [level for level in levels_of(machine, FEATURES) if level in found]
    assert {level.machine for level in found} <= {machine}
    for level in found:
        for feature in level.features.split():
            assert level not in levels_of(machine, features - {feature})


@pytest.mark.long
@pytest.mark.skipif(not OWN_LEVELS or shutil.which("g++") is None, reason="needs g++ and a level")
def test_the_library_of_this_processors_level_is_loaded_without_a_compiler(tmp_path):
    """The wheel's; unless $DRAGOMAN_COMPILE is 1. Here each library returns the place of its level."""
    (tmp_path / "libraries").mkdir()
    source = tmp_path / "level.cpp"
    source.write_text('extern "C" int level() { return LEVEL; }\n')
    for place, level in enumerate(LEVELS):
        library = Program("", "", source).packaged(level)
        subprocess.run(["g++", "-shared", "-fPIC", f"-DLEVEL={place}", source, "-o", library], check=True)
    code = (
        "from pathlib import Path; from dragoman.native.build import Program, load_library\n"
        f"print(load_library(Program('The level', 'None.', Path({str(source)!r}))).level())"
    )
    cache = str(tmp_path / "cache")
    without = os.environ | {"PATH": str(tmp_path), "CXX": "", "XDG_CACHE_HOME": cache}
    compiling = os.environ | {"DRAGOMAN_COMPILE": "1", "CXX": "g++ -DLEVEL=-1", "XDG_CACHE_HOME": cache}
    for environment, place in ((without, LEVELS.index(OWN_LEVELS[-1])), (compiling, -1)):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert int(done.stdout) == place


@pytest.mark.skipif(not OWN_LEVELS, reason="the processor has no level")
def test_what_is_compiled_here_has_the_instructions_of_the_wheels_library():
    assert DECODER.flags == TRAINING_KERNELS.flags == tuple(OWN_LEVELS[-1].flags.split())

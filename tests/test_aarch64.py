"""The C++ compiled for aarch64 and run by qemu passes the tests that compare it with PyTorch.

The oracle runs on this machine's processor, the C++ on the emulated one (tests/emulated.py).
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import MAX_SECONDS

EMULATOR = "qemu-aarch64 -L /usr/aarch64-linux-gnu"
GCC, CLANG = "aarch64-linux-gnu-g++", "clang++ --target=aarch64-linux-gnu"
KERNELS, DECODER = "tests/test_kernels.py", "tests/test_native.py"
NOT_EMULATED = [
    # They count the bytes of this process, change ctypes' library, pass addresses, or compile for x86.
    f"{KERNELS}::test_a_lack_of_memory_is_told_as_pytorch_tells_it",
    f"{DECODER}::test_a_lack_of_memory_gets_a_sentence",
    f"{DECODER}::test_structures_of_another_size_are_refused",
    f"{DECODER}::test_older_processors_have_the_same_results",
    f"{DECODER}::test_exponentials_are_as_exact_as_float32_and_end_at_its_bounds",
    f"{DECODER}::test_numbers_are_rounded_to_bfloat16_as_pytorch_rounds_them",
    f"{DECODER}::test_a_product_is_that_of_its_rounded_factors",
    f"{DECODER}::test_the_largest_of_numbers_is_found_wherever_it_is",
]
CASES = {
    "the training kernels, NEON": (f"{GCC} -march=armv8-a", KERNELS),
    "the training kernels, SVE": (f"{GCC} -march=armv9-a", KERNELS),
    "the training kernels, clang": (f"{CLANG} -march=armv8-a", KERNELS),
    "the decoder, NEON": (f"{GCC} -march=armv8-a", DECODER),
    "the decoder, SVE": (f"{GCC} -march=armv9-a", DECODER),
    "the decoder, clang": (f"{CLANG} -march=armv8-a", DECODER),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_on_aarch64_the_same_tests_pass(case):
    compiler, tests = CASES[case]
    for program in (compiler.split()[0], GCC, "qemu-aarch64"):  # clang uses the libraries of GCC
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    own = os.environ | {"EMULATED": compiler, "EMULATOR": EMULATOR, "OMP_NUM_THREADS": "1"}
    skipped = [part for test in NOT_EMULATED for part in ("--deselect", test)]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", tests, *skipped]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

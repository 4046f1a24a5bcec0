"""The decoder for browsers (web.cpp), compiled to WebAssembly: the wheel's, or compiled here by em++."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.native.build import ARITHMETIC, HERE, run_compiler
from dragoman.system.errors import DragomanError, reason

COMPILER = "em++"
PACKAGED = HERE / "libraries" / "web.wasm"
"""Where a wheel has it."""
FLAGS = (
    *["-std=c++17", "-O3", "-msimd128", "-fwasm-exceptions", "-fopenmp-simd", "-Wno-pass-failed"],
    *ARITHMETIC,
    *["--no-entry", "-sSTANDALONE_WASM", "-sALLOW_MEMORY_GROWTH", "-sMAXIMUM_MEMORY=4GB"],
)


def web_decoder() -> bytes:
    """The decoder as a browser loads it.

    Raises `DragomanError` if it is not in this installation and em++ is missing or fails.
    """
    if PACKAGED.exists() and os.environ.get("DRAGOMAN_COMPILE") != "1":
        return PACKAGED.read_bytes()
    with TemporaryDirectory() as folder:
        path = Path(folder) / PACKAGED.name
        compile_web(path)
        return path.read_bytes()


def compile_web(path: Path) -> None:
    """Compile to a file, whose name ends in .wasm. Raises `DragomanError` if em++ is missing or fails."""
    if (compiler := shutil.which(COMPILER)) is None:
        raise DragomanError(
            f"There is neither a compiled decoder for browsers nor {COMPILER}. Install a wheel for Linux, "
            "which has the decoder, or Emscripten (on Debian: apt-get install emscripten)."
        )
    try:
        run_compiler([compiler, *FLAGS, str(HERE / "web.cpp"), "-o", str(path)], [compiler])
    except RuntimeError as error:
        raise DragomanError(f"The decoder for browsers could not be compiled. {reason(error)}") from error

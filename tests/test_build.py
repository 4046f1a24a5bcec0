"""C++ is compiled once, where it runs, and kept; without a compiler there is another way."""

import os
import subprocess
import sys

TRY = (
    "import warnings; warnings.simplefilter('always'); from pathlib import Path; from dragoman.native.build import Program, library\n"
    "lib = library(Program('The sum', 'Fingers add.', (Path('sum.cpp'),), ()))\n"
    "print(lib and lib.sum(2, 3))"
)


def begun(folder, **environment):
    """A process that compiles a sum and adds 2 and 3."""
    (folder / "sum.cpp").write_text('#include "vectors.h"\nextern "C" int sum(int a, int b) { return a + b; }\n')
    own = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")} | environment
    return subprocess.Popen([sys.executable, "-c", TRY], cwd=folder, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    """What it found, and what it said."""
    out, error = process.communicate(timeout=100)
    return out.strip(), error


def test_it_is_compiled_once_and_kept(tmp_path):
    own = {"CXX": "env g++"}  # as `ccache g++`
    assert [told(process) for process in [begun(tmp_path, **own) for _ in range(2)]] == [("5", "")] * 2
    (made,) = (tmp_path / "cache" / "dragoman").iterdir()
    before = made.stat().st_mtime_ns
    assert told(begun(tmp_path, **own)) == ("5", "")
    assert made.stat().st_mtime_ns == before
    assert made.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_compiler_there_is_nothing_to_say(tmp_path):
    assert told(begun(tmp_path, PATH=str(tmp_path), CXX="")) == ("None", "")


def test_a_compiler_that_fails_is_told(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'unknown option -march=native' >&2\nexit 1\n")
    broken.chmod(0o755)
    found, said = told(begun(tmp_path, CXX=str(broken)))
    assert found == "None"
    assert f"The sum in C++ could not be compiled. Fingers add. {broken} says: unknown option -march=native" in said
    assert told(begun(tmp_path, CXX=str(tmp_path / "none")))[0] == "None"

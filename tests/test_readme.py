"""The README's commands, as they stand, on small files, with short trainings; the links of all documents."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import main as cli
from tests.conftest import write_copies

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    path for pattern in ("*.md", "docs/*.md", "*/README.md", "*/LOG.md") for path in ROOT.glob(pattern)
]
CODE_BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
SHORT = "--updates 3 --d-model 16 --d-ff 16 --heads 2 --encoder-layers 1 --decoder-layers 1"
WORDS = "--source-tokens word --vocabulary 50"


def code_blocks(language: str) -> list[str]:
    return [text for name, text in CODE_BLOCKS if name == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the README names, as the current one."""
    for name, lines in (("train", 200), ("test", 5)):
        for path, language in zip(write_copies(tmp_path, name, lines), ("en", "de"), strict=True):
            path.rename(tmp_path / f"{name}.{language}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(line: str, monkeypatch) -> None:
    """Run one command of the README in this process."""
    words = shlex.split(line, comments=True)
    if "<" in words:
        stdin = io.BytesIO(Path(words[words.index("<") + 1]).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        words = words[: words.index("<")]
    if words[:2] == ["dragoman", "train"]:
        words += f"{SHORT} {WORDS}".split()
    monkeypatch.setattr(sys, "argv", words)
    status = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code or 0
    assert status == 0, line


def test_the_commands_and_the_python_run(folder, monkeypatch, capsysbinary):
    commands = [
        line for text in code_blocks("sh") for line in text.splitlines() if line.startswith("dragoman")
    ]
    assert {"train", "translate", "evaluate", "resume"} <= {line.split()[1] for line in commands}
    parsed = [line for line in commands if line.split()[1] in ("start", "serve")]
    for line in parsed:  # tests/test_start.py and test_serving.py run them
        _, verb, *words = shlex.split(line, comments=True)
        assert cli.command(verb).parse(words)
    for command in (line for line in commands if line not in parsed):
        run_command(command, monkeypatch)
    assert b"BLEU = " in capsysbinary.readouterr().out
    (code,) = code_blocks("python")
    exec(compile(code, "README.md", "exec"), {})


def test_the_make_targets_exist():
    targets = re.findall(r"^make (\w+)", "\n".join(code_blocks("sh")), re.MULTILINE)
    assert targets == ["quickstart", "test"]
    for target in targets:
        command = ["make", "--dry-run", "--always-make", target]
        make = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert "constraints.txt" in make.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_to_files(document):
    for link in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        assert link.startswith("https://") or (document.parent / link).exists(), link


def test_the_readme_has_two_pictures():
    assert len(re.findall(r"!\[", (ROOT / "README.md").read_text())) == 2

"""The shell blocks of tutorials and how-to guides run in order in one folder, with short trainings."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MOST_SECONDS, write_copies
from tests.test_docs import DOCS, ROOT, blocks

PAGES = (
    "tutorials/own-corpus",
    "tutorials/service",
    "how-to/constrain",
    "how-to/resume",
    "how-to/small-machines",
    "how-to/little-text",
    "how-to/diverging",
)
DRAGOMAN = f"""#!{sys.executable}
import json, sys
from pathlib import Path
from dragoman.cli import main as cli

words = sys.argv[1:]
if words[0] == "train":
    words += "--updates 3 --d-model 16 --encoder-layers 1 --decoder-layers 1 --vocabulary 320".split()
    words += "--d-ff 16 --heads 2".split() if not {{"rnn", "conv"}} & {{*words}} else []  # these have neither
status = 0
try:
    if words[0] == "serve" and "--new-key" not in words:  # it runs until a signal
        cli.command("serve").parse(words[1:])
    else:
        sys.argv = ["dragoman", *words]
        cli.main()
except SystemExit as end:
    status = end.code or 0
with Path("calls.jsonl").open("a") as file:
    print(json.dumps([words, status]), file=file)
sys.exit(status)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with text, and programs in the place of those that install or ask a server."""
    for name, lines in (("all", 300), ("valid", 20)):
        for path, language in zip(write_copies(tmp_path, name, lines), ("en", "de"), strict=True):
            path.rename(tmp_path / f"{name}.{language}")
    (tmp_path / "page.html").write_text("<p>amber birch</p>")
    (tmp_path / "more.de").write_text("AMBER BIRCH\nCEDAR\n")
    (tmp_path / "srv" / "models").mkdir(parents=True)
    (tmp_path / "calls.jsonl").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("dragoman", DRAGOMAN), ("pip", "#!/bin/sh\n"), ("curl", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.mark.long
def test_the_guides_run(folder):
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
    }
    for name in PAGES:
        for text in blocks(DOCS / f"{name}.md", "sh"):
            block = re.sub(r"^ +", "", text, flags=re.MULTILINE)
            block = block.replace("/srv/dragoman", "srv").replace("1000", "20").replace("1001", "21")
            command = ["bash", "-o", "pipefail", "-c", block]
            ran = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
                check=False,
            )
            assert "Traceback" not in ran.stderr, f"{name}: {block}\n{ran.stderr}"
            calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
            for words, status in calls:
                assert status == 0 or (words[0] == "doctor" and status == 1), f"{name}: {words}\n{ran.stderr}"
    assert len(calls) > 25
    assert Path(folder / "more.en").read_text().count("\n") == 2

"""`dragoman start`: two text files to a page in one command, which resumes what was interrupted."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from dragoman.cli.train import default_folder
from tests.conftest import MOST_SECONDS, write_copies


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("a/train.en", "a/train.de", "en-de"),
        ("x.en.gz", "x.fr.gz", "en-fr"),
        ("one.txt", "two.txt", "one-two"),
    ],
)
def test_a_run_is_named_after_its_files(tmp_path, source, target, name):
    assert default_folder(tmp_path / source, tmp_path / target).as_posix() == f"runs/{name}"


def test_two_files_become_a_page_in_one_command(tmp_path):
    write_copies(tmp_path, "train", 300)[0].rename(tmp_path / "train.en")
    (tmp_path / "train.target").rename(tmp_path / "train.de")
    options = ["--preset", "tiny", "--d-model", "32", "--d-ff", "64", "--encoder-layers", "1"]
    options += [
        "--decoder-layers",
        "1",
        "--heads",
        "2",
        "--updates",
        "30",
        "--vocabulary",
        "300",
        "--port",
        "0",
    ]
    command = [sys.executable, "-m", "dragoman", "start", "train.en", "train.de", *options]
    for first in (True, False):
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        log = ""
        for line in process.stderr:
            log += line
            if found := re.search(r"http://[^\s,]+", line):
                break
        else:
            raise AssertionError(log)
        assert ("Step 1 of 4: examine the text." in log) is first
        assert "Step 2 of 4: train." in log
        assert "Validation: BLEU" in log
        assert "en to de" in line
        answer = httpx.post(f"{found[0]}/v1/translate", json={"text": "amber"}, timeout=MOST_SECONDS)
        assert answer.json()["source"] == "en"
        process.send_signal(signal.SIGTERM)
        assert process.wait(MOST_SECONDS) == 0
        process.stdout.close()
        process.stderr.close()
    assert (tmp_path / "runs" / "en-de" / "result.json").exists()


def test_a_port_that_is_in_use_is_reported_before_the_training(tmp_path):
    write_copies(tmp_path, "train", 30)
    with socket.create_server(("127.0.0.1", 0)) as other:
        options = ["train.source", "train.target", "--port", str(other.getsockname()[1])]
        command = [sys.executable, "-m", "dragoman", "start", *options]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
        )
    assert done.returncode == 2
    assert "cannot be used: Address already in use" in done.stderr
    assert not (tmp_path / "runs").exists()

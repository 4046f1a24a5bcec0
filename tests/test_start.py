"""`dragoman start`: two text files to a page in one command, which resumes what was interrupted."""

import json
import math
import os
import re
import signal
import socket
import time
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from dragoman.cli.start import arrival, say_result
from dragoman.cli.train import default_folder
from dragoman.model.loss import perplexity
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from tests.conftest import MAX_SECONDS, write_copies
from tests.processes import start, worst


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("a/train.en", "a/train.de", "en-de"),
        ("x.en.gz", "x.fr.gz", "en-fr"),
        ("one.txt", "two.txt", "one-two"),
        ("train.en", "translations", "train-translations"),
        ("sentences", "train.de", "sentences-train"),
        ("a/corpus.tmx", None, "corpus"),
        ("corpus.de-en.tsv.gz", None, "corpus.de-en"),
    ],
)
def test_a_run_is_named_after_its_files(tmp_path, source, target, name):
    assert default_folder(tmp_path / source, target and tmp_path / target).as_posix() == f"runs/{name}"


def test_the_perplexity_of_a_diverged_model_is_short(tmp_path, capsys):
    result = {"model": "the last", "kept": "last", "updates": 1, "minutes": 0.1, "candidates": {}}
    result["validation"] = {"loss": math.inf, "nll": math.inf, "bleu": 0.0}
    result["validation"]["perplexity"] = perplexity(math.inf)
    (tmp_path / "result.json").write_text(json.dumps(result))
    say_result(tmp_path)
    assert capsys.readouterr().err == "Validation: BLEU 0.00 (greedy), perplexity 1.014e+304.\n"
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(DragomanError, match="lacks model, kept, updates, minutes, validation"):
        say_result(tmp_path)


def test_the_scores_of_the_test_data_are_told_where_there_are_some(trained, capsys):
    say_result(trained / "run")
    scores = json.loads((trained / "run" / "result.json").read_text())["test"]
    assert scores
    told = "".join(f"Test: {each['name']} {each['value']:.2f} ({each['signature']}).\n" for each in scores)
    assert capsys.readouterr().err == told


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_two_files_become_a_page_in_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    for first in (True, False):
        (process,) = start(1, ["start", "train.en", "train.de", *options], told := Path("told"))
        deadline = time.monotonic() + MAX_SECONDS
        while not (found := re.search(r"http://[^\s,]+(?=.*\n)", told.read_text() if told.exists() else "")):
            assert os.waitpid(process, os.WNOHANG) == (0, 0)
            assert time.monotonic() < deadline
            time.sleep(0.01)
        log = told.read_text()
        assert ("Step 1 of 4: examine the text." in log) is first
        assert "Step 2 of 4: train." in log
        assert "Validation: BLEU" in log
        assert "en to de" in log.splitlines()[-1]
        assert "The page will be there" not in log, "nobody knows the time of so many updates"
        assert not found[0].endswith(f":{ServerSettings().port}"), "the server has the options of start"
        answer = httpx.post(f"{found[0]}/v1/translate", json={"text": "amber"}, timeout=MAX_SECONDS)
        assert answer.json()["source"] == "en"
        os.kill(process, signal.SIGTERM)
        assert worst([process]) == 0
    assert (tmp_path / "runs" / "en-de" / "result.json").exists()


def test_a_port_that_is_in_use_is_reported_before_the_training(tmp_path, command_line, monkeypatch):
    write_copies(tmp_path, "train", 30)
    with socket.create_server(("127.0.0.1", 0)) as other:
        options = ["train.source", "train.target", "--port", str(other.getsockname()[1])]
        monkeypatch.chdir(tmp_path)
        status, _, err = command_line("start", *options)
    assert status == 2
    assert "cannot be used: Address already in use" in err
    assert not (tmp_path / "runs").exists()


def test_keys_that_cannot_be_read_are_reported_before_the_training(tmp_path, command_line, monkeypatch):
    write_copies(tmp_path, "train", 30)
    monkeypatch.chdir(tmp_path)
    options = ["train.source", "train.target", "--port", "0", "--api-keys", "missing.toml"]
    status, _, err = command_line("start", *options)
    advice = "dragoman serve RUN --api-keys missing.toml --new-key NAME makes it."
    assert (status, err) == (2, f"dragoman: missing.toml does not exist; {advice}\n")
    (tmp_path / "missing.toml").write_text("[keys]\na = 1\n")
    status, _, err = command_line("start", *options)
    assert status == 2
    assert err.startswith(
        "dragoman: missing.toml has to hold a table [keys] with a SHA-256 hash for each name: "
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (45.0, "in about 45 minutes, at 23:15"),
        (89.5, "in about 89.5 minutes, at 23:59"),
        (120.0, "in about 120 minutes, at 00:30 on 2027-01-01"),
        (44_640.0, "in about 44640 minutes, at 22:30 on 2027-01-31"),
    ],
)
def test_the_time_of_the_page_is_told_with_the_date_of_another_day(minutes, words):
    assert arrival(minutes, datetime(2026, 12, 31, 22, 30)) == words

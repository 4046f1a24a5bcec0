"""The command line as a user meets it: what it prints, what it refuses, what it leaves behind."""

import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import typing
from argparse import ArgumentTypeError
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.cli import main as cli
from dragoman.cli import serve, train
from dragoman.cli.os_errors import sentence_of
from dragoman.cli.parsing import SHORT
from dragoman.cli.translate import Translate, TranslationJob, load
from dragoman.model.settings import PRESETS
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.budget import BUDGET
from dragoman.pipeline.distil import DISTILLED, SOURCES
from dragoman.pipeline.recipe import Recipe
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_manifest
from dragoman.system.toml import read_toml
from dragoman.text.named_datasets.datasets import DATASETS
from tests.conftest import MAX_SECONDS
from tests.processes import fork, run_command


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory) -> Path:
    """A copy of a run that has learnt to write words in capitals, and of its files."""
    folder = tmp_path_factory.mktemp("cli") / "folder"
    shutil.copytree(trained, folder)
    return folder


def documented_keys(verb: str) -> set[str]:
    """What docs/reference/files.md names in its paragraph about the JSON of a verb."""
    text = (Path(__file__).parents[1] / "docs" / "reference" / "files.md").read_text("utf-8")
    (paragraph,) = (each for each in text.split("\n\n") if each.startswith(f"`dragoman {verb} --json`"))
    return set(re.findall("`([a-z_]+)`", paragraph))


def test_n_lines_in_n_lines_out_blank_ones_included(command_line, folder):
    lines = b"amber birch\n\n  \ncedar ember\r\ndelta\xe2\x80\xa8ember\nno line feed"
    status, out, _ = command_line("translate", folder / "run", stdin=lines)
    assert status == 0
    found = out.split("\n")
    assert len(found) == 7
    assert (found[0], found[1:3], found[3]) == ("AMBER BIRCH", ["", ""], "CEDAR EMBER")


BYTES = [b"amber", b" ", b"\n", b"\r\n", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf"]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(BYTES), max_size=12).map(b"".join))
def test_every_line_feed_ends_a_line_whatever_the_text(folder, raw):
    asked = Translate(folder / "run", search=SearchSettings(beam_size=1))
    translator, block = load([asked.run], asked.engine), list(enumerate(io.BytesIO(raw), 1))
    found = TranslationJob(translator, asked).translate(block)
    assert len(found) == raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"")
    assert not any("\n" in line for line in found)
    for (number, line), translation in zip(block, found, strict=True):
        alone = line.removesuffix(b"\n").removesuffix(b"\r").decode()
        assert translator.translate(
            [alone.removeprefix("\ufeff") if number == 1 else alone], asked.search
        ) == [translation]


def test_a_few_lines_do_not_wait_for_the_compiler_which_then_finishes(
    command_line, monkeypatch, folder, tmp_path
):
    compiler, begun, go, cache = (tmp_path / name for name in ("compiler", "begun", "go", "cache"))
    wait = f"for i in $(seq 600); do [ -e {go} ] && break; sleep 0.1; done"
    probe = 'case "$*" in *-dM*) exit;; esac'
    waits = f'#!/bin/sh\n{probe}\ntouch {begun}\n{wait}\necho said >&2\nfor last; do :; done\ntouch "$last"\n'
    compiler.write_text(waits)
    compiler.chmod(0o755)
    lines = tmp_path / "lines"
    lines.write_bytes(b"amber birch\n\ncedar\n")
    asked = [str(folder / "run"), "--min-length", "3"]
    _, expected, _ = command_line("translate", *asked, stdin=lines.read_bytes())
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    def translate():
        sys.stdin = lines.open()
        sys.stdout = (tmp_path / "out").open("w")
        run_command(["translate", *asked], tmp_path / "said")
        while not begun.exists():  # the thread that starts the compiler may come later on a busy machine
            time.sleep(0.01)

    assert os.waitpid(fork(translate), 0)[1] == 0
    assert (tmp_path / "out").read_text() == expected
    assert not list(cache.rglob("*.so"))
    go.touch()
    deadline = time.monotonic() + MAX_SECONDS
    while not list(cache.rglob("*.so")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(list(cache.rglob("*.so"))) == 1


def test_a_file_is_translated_to_a_file_as_standard_input_is(command_line, folder, tmp_path):
    lines = b"amber birch\n\ncedar ember\r\nember\ndelta amber no line feed"
    (tmp_path / "text").write_bytes(lines)
    _, expected, _ = command_line("translate", folder / "run", "--ensemble", folder / "run", stdin=lines)
    files = ["--input", tmp_path / "text", "--output", tmp_path / "out"]
    status, _, err = command_line("translate", folder / "run", "--ensemble", folder / "run", *files)
    assert status == 0
    assert (tmp_path / "out").read_text("utf-8") == expected
    assert expected.splitlines()[:3] == ["AMBER BIRCH", "", "CEDAR EMBER"]
    assert len(set(expected.splitlines()[2:])) == 3
    status, out, _ = command_line("translate", folder / "run", "--ensemble", folder / "run", *files[:2])
    assert (status, out) == (0, expected)
    status, _, err = command_line("translate", folder / "run", *files[2:])
    assert status == 2
    assert "--output needs --input: only a file can be resumed." in err


def test_minimum_bayes_risk_chooses_one_of_the_draws(command_line, folder):
    draws = ["--temperature", 2, "--n-best", 8]
    _, out, _ = command_line("translate", folder / "run", *draws, "--json", stdin=b"amber birch\n\n")
    drawn = {one["text"] for one in json.loads(out.splitlines()[0])["translations"]}
    status, out, _ = command_line("translate", folder / "run", *draws, "--mbr", stdin=b"amber birch\n\n")
    assert status == 0
    assert out.split("\n")[0] in drawn
    out_of_draws = out.splitlines()
    assert out.split("\n")[1:] == ["", ""]
    status, _, err = command_line("translate", folder / "run", "--mbr", stdin=b"amber")
    assert status == 2
    assert "mbr chooses among samples" in err
    asked = SearchSettings(temperature=2.0, n_best=8, mbr=True)
    assert Translator.load(folder / "run").translate(["amber birch", ""], asked) == out_of_draws
    files = ["--source", folder / "test.source", "--target", folder / "test.target"]
    assert command_line("evaluate", folder / "run", *files, *draws, "--mbr")[0] == 0


def test_long_lines_are_counted_once_and_translated_in_parts(command_line, folder):
    status, out, err = command_line(
        "translate",
        folder / "run",
        stdin=b"amber birch\n" + b"birch " * 30 + b"\n",
    )
    assert status == 0
    assert out.splitlines()[0] == "AMBER BIRCH"
    assert len(out.splitlines()[1].split()) > 15
    told = "1 sentence has more tokens than the longest source of training (7), and is translated in parts"
    assert err.count("more tokens than") == 1
    assert told in err
    _, _, err = command_line(
        "translate",
        folder / "run",
        "--stream",
        stdin=b"amber birch\n" + b"birch " * 30 + b"\n",
    )
    assert (
        "1 sentence has more tokens than the longest source of training (7), and is translated whole" in err
    )


def test_json_has_the_n_best_with_their_scores(command_line, folder):
    _, out, _ = command_line("translate", folder / "run", "--json", "--n-best", 2, stdin=b"amber\n\n")
    first, second = map(json.loads, out.splitlines())
    assert first["source"] == "amber"
    (own,) = Translator.load(folder / "run").n_best(["amber"], n_best=2)
    assert first["translations"] == json.loads(json.dumps([asdict(each) for each in own]))
    assert len(first["translations"]) == 2
    assert set(first["translations"][0]) == {"text", "log_probability", "score", "tokens"}
    assert second["translations"] == [{"text": "", "log_probability": 0.0, "score": 0.0, "tokens": []}]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_search_is_shown_with_all_its_hypotheses(command_line, folder, precision):
    asked = ["--json", "--trace", "--precision", precision]
    _, out, _ = command_line("translate", folder / "run", *asked, stdin=b"amber\n\n")
    first, second = map(json.loads, out.splitlines())
    assert first["trace"][0] == {
        "parent": None,
        "token": "<s>",
        "log_probability": 0.0,
        "score": 0.0,
        "end": None,
        "cut_by": None,
    }
    finished = [node["log_probability"] for node in first["trace"] if node["end"] == "finished"]
    assert any(
        value == pytest.approx(first["translations"][0]["log_probability"], abs=1e-4) for value in finished
    )
    assert len(second["trace"]) == 1
    status, _, err = command_line("translate", folder / "run", "--trace", stdin=b"amber\n")
    assert status == 2
    assert "--trace does not fit into a line of plain text and needs --json; give both," in err


def test_alternatives_at_a_position_are_given_instead_of_translations(command_line, folder):
    asked = ["--json", "--alternatives", 3, "--prefix", "AMBER"]
    _, out, _ = command_line("translate", folder / "run", *asked, stdin=b"amber birch\n")
    found = json.loads(out)["alternatives"]
    assert len(found) == 3
    assert all(one["translation"]["text"].startswith("AMBER") for one in found)
    assert [one["probability"] for one in found] == sorted(
        (one["probability"] for one in found), reverse=True
    )
    status, _, err = command_line(
        "translate",
        folder / "run",
        "--json",
        "--alternatives",
        -1,
        stdin=b"amber\n",
    )
    assert status == 2
    assert "--alternatives is -1; it must be at least 0" in err
    status, _, err = command_line("translate", folder / "run", *asked, "--trace", stdin=b"amber\n")
    assert status == 2
    assert (
        "--alternatives and --trace exclude each other: alternatives replace the translations; leave one of"
        in err
    )


def test_a_model_may_be_the_folder_in_which_the_command_is_given(command_line, monkeypatch, folder):
    _, out, _ = command_line("translate", folder / "run", stdin=b"amber birch\n")
    for place, name in (("run", "."), ("run/model", "."), ("run/model", "..")):
        monkeypatch.chdir(folder / place)
        assert command_line("translate", name, stdin=b"amber birch\n")[:2] == (0, out)


def test_a_stream_adds_up_to_the_translations(command_line, folder):
    lines = b"amber birch cedar\n\nember delta\r\n"
    _, whole, _ = command_line("translate", folder / "run", stdin=lines)
    status, out, err = command_line("translate", folder / "run", "--stream", stdin=lines)
    assert (status, out) == (0, whole)
    for more, message in (
        (["--json"], "--stream and --json exclude each other: a stream is one plain translation for each"),
        (["--trace"], "--stream and --trace exclude each other: a stream is one plain translation for each"),
        (["--temperature", 1], "A stream needs a single beam search"),
    ):
        status, _, err = command_line("translate", folder / "run", "--stream", *more, stdin=lines)
        assert status == 2
        assert message in err


def test_forced_words_are_in_every_translation(command_line, folder):
    _, out, _ = command_line(
        "translate",
        folder / "run",
        "--force-words",
        "DELTA",
        "FJORD",
        stdin=b"amber\nbirch cedar\n\n",
    )
    lines = out.split("\n")
    assert all({"DELTA", "FJORD"} <= set(line.split()) for line in lines[:2])
    assert lines[2:] == ["", ""]
    conflict = ["--force-words", "DELTA", "--ban-words", "DELTA"]
    status, _, err = command_line("translate", folder / "run", *conflict, stdin=b"amber\n")
    assert status == 2
    assert "--ban-words has 'DELTA', which is part of a text of --force-words" in err
    status, _, err = command_line("translate", folder / "run", "--force-words", " ", stdin=b"amber\n")
    assert status == 2
    assert "--force-words is ' ', which has no tokens" in err
    (folder / "forced").write_text("amber\n")
    files = ["--input", folder / "forced", "--output", folder / "forced.out"]
    assert command_line("translate", folder / "run", *files, "--force-words", " ")[0] == 2
    assert command_line("translate", folder / "run", *files)[0] == 0  # nothing was left


def test_pairs_are_scored_line_by_line(command_line, folder):
    files = ["--source", folder / "test.source", "--target", folder / "test.target"]
    status, out, err = command_line("score", folder / "run", *files)
    assert status == 0
    totals = [float(line) for line in out.splitlines()]
    assert len(totals) == 5
    _, out, _ = command_line("score", folder / "run", *files, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["log_probability"] for one in found] == pytest.approx(totals, abs=1e-4)
    assert all(sum(one["log_probabilities"]) == pytest.approx(one["log_probability"]) for one in found)
    assert found[0].keys() <= documented_keys("score")
    for more in (("--ensemble", folder / "run"), ("--precision", "int8")):  # a model with itself is the model
        _, out, _ = command_line("score", folder / "run", *files, *more)
        assert [float(line) for line in out.splitlines()] == pytest.approx(
            totals, abs=1e-3 if "--ensemble" in more else 1
        )
    spelt = folder / "test.tokens"
    spelt.write_text("".join(" ".join(one["tokens"][:-1]) + "\n" for one in found))
    _, out, _ = command_line(
        "score",
        folder / "run",
        "--source",
        folder / "test.source",
        "--target",
        spelt,
        "--tokens",
    )
    assert [float(line) for line in out.splitlines()] == pytest.approx(totals, abs=1e-4)
    tokens = sum(len(one["tokens"]) for one in found)
    assert f"{tokens} tokens; negative log-likelihood {-sum(totals) / tokens:.4f} per token" in err


@pytest.mark.parametrize(("layer", "head"), [(None, None), (1, None), (None, 1), (1, 2)])
def test_links_and_weights_are_those_of_the_layer_and_the_head_that_are_asked_for(
    command_line, folder, layer, head
):
    translator = Translator.load(folder / "run", native=False)
    texts = [(folder / f"test.{side}").read_text().splitlines() for side in ("source", "target")]
    texts[1] = texts[1][1:] + texts[1][:1]  # translations of other lines, on which heads agree less
    (folder / "other.target").write_text("".join(f"{line}\n" for line in texts[1]))
    files = ["--source", folder / "test.source", "--target", folder / "other.target"]
    asked = [*(["--layer", layer] if layer else []), *(["--head", head] if head else [])]
    _, plain, _ = command_line("align", folder / "run", *files, *asked)
    _, told, _ = command_line("align", folder / "run", *files, *asked, "--json")
    pairs = list(zip(*texts, strict=True))
    expected = translator.align(pairs, layer, head)
    assert plain.splitlines() == [" ".join(f"{one}-{two}" for one, two in links) for links in expected]
    for line, pair, links in zip(told.splitlines(), pairs, expected, strict=True):
        seen, attention = json.loads(line), translator.attention(*pair)
        assert seen["alignment"] == [[*link] for link in links]
        assert (seen["source_tokens"], seen["target_tokens"]) == (
            [*attention.source],
            [*attention.target],
        )
        cross = attention.cross[(layer or 0) - 1].numpy()
        np.testing.assert_allclose(
            seen["weights"], cross.mean(0) if head is None else cross[head - 1], atol=1e-6
        )


@settings(max_examples=3)
@given(st.lists(st.sampled_from(["", " ", "  "]), min_size=4, max_size=4))
def test_spaces_around_tokens_change_no_score(command_line, folder, more):
    tokens, scores = ["▁AMBER", "▁BIRCH", "▁CEDAR"], []
    (folder / "one.source").write_text("amber\n")
    for gaps in ([""] * 4, more):
        words = zip(gaps, [*tokens, ""], strict=True)
        (folder / "one.tokens").write_text(" ".join(f"{gap}{token}" for gap, token in words) + "\n")
        files = ["--source", folder / "one.source", "--target", folder / "one.tokens"]
        scores.append(command_line("score", folder / "run", *files, "--tokens"))
    assert scores[0][0] == 0, scores[0]
    assert scores[0] == scores[1]


def test_a_line_without_tokens_has_the_score_of_a_blank_line(command_line, folder):
    (folder / "blank.source").write_text("amber\n" * 3)
    (folder / "blank.target").write_text("\n \n   \n")
    files = ["--source", folder / "blank.source", "--target", folder / "blank.target"]
    as_tokens, as_text = (command_line("score", folder / "run", *files, *more) for more in (["--tokens"], []))
    assert as_tokens[0] == 0, as_tokens
    assert as_tokens == as_text


def test_pairs_are_aligned_line_by_line(command_line, folder):
    files = ["--source", folder / "test.source", "--target", folder / "test.target"]
    status, out, _ = command_line("align", folder / "run", *files)
    assert status == 0
    for line, target in zip(out.splitlines(), (folder / "test.target").read_text().splitlines(), strict=True):
        assert [int(pair.split("-")[1]) for pair in line.split()] == list(range(len(target.split())))
    _, told, _ = command_line("align", folder / "run", *files, "--json", "--layer", 1, "--head", 2)
    for line, source, target in zip(
        *(text.splitlines() for text in (told, *(path.read_text() for path in files[1::2]))), strict=True
    ):
        seen = json.loads(line)
        assert (seen["source"], seen["target"]) == (source, target)
        weights = np.array(seen["weights"])
        assert weights.shape == (len(seen["target_tokens"]), len(seen["source_tokens"]))
        assert weights.sum(1) == pytest.approx(np.ones(len(weights)), abs=1e-5)
        assert seen.keys() <= documented_keys("align")
    status, _, err = command_line("align", folder / "run", *files, "--layer", 9)
    assert status == 2
    assert "There is no layer 9; this model has 1, counted from 1." in err


def test_evaluation_prints_scores_with_signatures(command_line, folder):
    files = [
        "--source",
        folder / "test.source",
        "--target",
        folder / "test.target",
        "--hypotheses",
        folder / "hypotheses",
    ]
    status, out, _ = command_line("evaluate", folder / "run", *files)
    assert status == 0
    bleu, chrf, plus, ter = out.splitlines()
    assert bleu.startswith("BLEU = ")
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in bleu
    assert chrf.startswith("chrF2 = ")
    assert plus.startswith("chrF2++ = ")
    assert ter.startswith("TER = ")
    assert (folder / "hypotheses").read_text().count("\n") == 5


@pytest.mark.long
def test_a_run_is_compared_with_another_or_with_a_file(command_line, folder):
    files = ["--source", folder / "test.source", "--target", folder / "test.target"]
    for baseline in (folder / "run", folder / "test.target"):
        status, out, _ = command_line(
            "evaluate",
            folder / "run",
            *files,
            "--baseline",
            baseline,
            "--paper-bleu",
            "en",
        )
        assert status == 0
        measures = ["BLEU", "chrF2", "chrF2++", "TER"]
        found = [line.split(" = ")[0] for line in out.splitlines()]
        assert found == [*measures, "tokenised BLEU", *measures]
        assert out.count("(p = ") == 4
    (folder / "short").write_text("one line\n")
    status, _, err = command_line("evaluate", folder / "run", *files, "--baseline", folder / "short")
    assert status == 2
    assert f"{folder / 'short'} has 1 line and {files[-1]} has 5" in err


def test_a_finished_run_is_left_alone_and_another_recipe_refused(command_line, folder):
    status, _, err = command_line("resume", folder / "run")
    assert status == 0
    assert "is finished. To train it further: dragoman train" in err
    files = ["--source", folder / "train.source", "--target", folder / "train.target"]
    status, _, err = command_line("train", "--out", folder / "run", *files, "--label-smoothing", 0.3)
    assert status == 2
    assert "holds a run with other settings" in err
    assert "training.label_smoothing is 0.3 and was 0.1" in err
    assert f"dragoman resume {folder / 'run'}" in err
    status, _, err = command_line(
        "train",
        "--out",
        folder / "run",
        *files[:2],
        "--target",
        folder / "train.source",
    )
    assert status == 2
    assert "data.target is" in err


EVALUATE = ["evaluate", "{0}/run", "--source", "{0}/test.source", "--target", "{0}/test.target"]
TRAIN = ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/x"]
REFUSED = [
    (["trian"], "There is no verb 'trian'. Did you mean 'train'?"),
    (["--halp"], "There is no option '--halp'. See dragoman --help."),
    (
        ["qqq"],
        "There is no verb 'qqq'. There are: quickstart, start, train, resume, translate, serve, evaluate, "
        "runs, completion, data, doctor, clean, align, score, backtranslate, distil, shortlist, export, "
        "import, inspect, plot, aer, figure, paper, reproduce, lab, linearise, parse-f1.",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "."],
        "A run needs its own folder, such as runs/NAME; name it with --out",
    ),
    (["train", "--out", "{0}/x"], "Training needs two text files, --source and --target,"),
    (
        ["train", "--out", "{0}/x", "--source", "{0}/none", "--target", "{0}/none"],
        "none, and there is no such file.",
    ),
    (
        ["translate", "{0}/run", "--input", "{0}/test.source", "--output", "{0}/test.source"],
        "test.source is what this command reads; give another file.",
    ),
    (
        ["translate", "{0}/run", "--document", "{0}/test.source", "--output", "{0}/test.source"],
        "test.source is what this command reads; give another file.",
    ),
    (
        ["translate", "{0}/run", "--document", "{0}/test.source", "--output", "{0}/test.target"],
        "test.target exists; delete it, or choose another name.",
    ),
    (
        ["translate", "{0}/run", "--input", "{0}/test.source", "--output", "/dev/null"],
        "--output /dev/null is not a regular file, and the translation of a file is written to one, to be "
        "resumed. Leave --output out, and redirect the output: > FILE.",
    ),
    (
        ["train", "", "{0}/train.target", "--out", "{0}/x"],
        "'' is not the path of a file or a folder.",
    ),
    (["doctor", "{0}/train.source", "/"], "target is /, which is not a regular file"),
    (
        [
            "train",
            "--out",
            "{0}/x",
            "--source",
            "{0}/train.source",
            "--target",
            "{0}/train.target",
            "--test-source",
            "{0}/test.source",
        ],
        "There is only --test-source; give --test-source and --test-target.",
    ),
    (["doctor"], "There is no text to examine: dragoman doctor SOURCE TARGET, or a recipe that names them."),
    (
        ["train", "{0}/train.source"],
        "train.source is not a recipe in TOML. If it is a text, give its translation too: SOURCE TARGET.",
    ),
    (["train", "a", "b", "c"], "Give two text files, source and target, once; or one recipe (TOML)."),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--source", "a"],
        "Give two text files, source and target, once;",
    ),
    (
        ["translate", "{0}/run", "--beam-size", "abc"],
        "dragoman: --beam-size is 'abc'; it has to be a whole number. See",
    ),
    (["translate", "{0}/run", "-b", "2.5"], "dragoman: --beam-size is '2.5'; it has to be a whole number."),
    (["translate", "{0}/run", "--length-penalty", "x"], "--length-penalty is 'x'; it has to be a number."),
    (["translate", "{0}/run", "--prefix", "x\udcff"], "--prefix is 'x\\udcff'; it has to be text in UTF-8."),
    (
        ["serve", "--api-keys", "k", "--new-key", "x\udcff"],
        "--new-key is 'x\\udcff'; it has to be text in UTF-8.",
    ),
    (["inspect", "{0}/run", "x\udcff"], "'x\\udcff' is not text in UTF-8."),
    (
        ["train", "--micro-batch-tokens", "much"],
        "--micro-batch-tokens is 'much'; it has to be a whole number or 'auto'.",
    ),
    (
        ["translate", "{0}/run", "--beam-size"],
        "dragoman: --beam-size: expected one argument. See dragoman translate --help.",
    ),
    (["translate", "{0}/run", "other"], "'other' is one argument too many. See dragoman translate --help."),
    (["translate"], "dragoman: The following arguments are required: RUN. See dragoman translate --help."),
    (
        ["translate", "{0}/run", "--json=yes"],
        "dragoman: --json: it takes no value, and 'yes' was given. See dragoman translate --help.",
    ),
    (
        ["export", "{0}/run", "--to", "adapter", "--out", "a", "--samples", "x"],
        "--samples is for --to huggingface, marian, ctranslate2, onnx or argos, and not adapter;",
    ),
    (
        ["import", "{0}/run", "--from", "huggingface", "--out", "{0}/run/model/imported"],
        "imported is in the folder of the model {0}/run/model; choose another --out.",
    ),
    (
        ["start", "a.en", "a.de", "--api-keys", "k.toml", "--new-key", "a"],
        "dragoman start has no option --new-key.",
    ),
    (["serve", "{0}/run", "--processes", "0"], "--processes is 0; it must be at least 1."),
    (["serve", "--new-key", "a"], "--new-key is added to a file of keys and needs --api-keys; give both"),
    (["serve", "--api-keys", "{0}/x", "--new-key", ""], "--new-key is blank; give a name for the key:"),
    (["serve"], "dragoman: The following arguments are required: RUN. See dragoman serve --help."),
    (
        ["score", *EVALUATE[1:], "--beam-size", "4"],
        "dragoman score has no option --beam-size. See dragoman score --help-all.",
    ),
    (
        ["reproduce", "table1", "--quick", "--out", "{0}/test.source"],
        "test.source/table1-quick cannot be used: a part of this path is a file, not a folder.",
    ),
    (["train", "{0}/none.toml"], "none.toml cannot be read: No such file or directory."),
    (["train", "{0}/run"], "run is a folder; give two texts or a recipe. To resume a run:"),
    (["train", "--hedas", "3"], "dragoman train has no option --hedas. Did you mean --heads?"),
    (["clean", "a", "b", "--otu", "c"], "dragoman clean has no option --otu. Did you mean --out?"),
    (["train", "--no-share-vocabulery"], "has no option --no-share-vocabulery. Did you mean --no-share-voc"),
    (
        ["clean", "a", "b", "--out", "c", "--no-langage"],
        "has no option --no-langage. Did you mean --no-language?",
    ),
    (["clean", "a", "b", "--out", "c", "--langage"], "has no option --langage. Did you mean --language?"),
    (["train", "--precision", "half"], "--precision is 'half'; it has to be one of float32, bfloat16."),
    (
        ["completion", "tcsh"],
        "dragoman: 'tcsh' is not one of bash, zsh, fish. See dragoman completion --help.",
    ),
    (["completion", "zhs"], "dragoman: 'zhs' is not one of bash, zsh, fish. Did you mean zsh? See dragoman "),
    (["completion"], "The following arguments are required: SHELL. See dragoman completion --help."),
    (["train", "--heads", "7"], "--d-model 128 does not divide into 7 heads"),
    (["train", "--log-every", "0"], "--log-every is 0; it must be at least 1"),
    (["train", "--label-smoothing", "1.5"], "--label-smoothing is 1.5; it must be below 1"),
    (["train", "--seed", "-1"], "--seed is -1; it must be at least 0"),
    (["help", "nonsense"], "nonsense"),
    (["train", "--learning-rate-scale", "-1e-3"], "--learning-rate-scale is -0.001; it must be at least 0"),
    (["train", "--bpe"], "dragoman train has no option --bpe. See dragoman train --help-all."),
    (
        [*EVALUATE, "--hypotheses", "{0}/run/recipe.toml"],
        "recipe.toml is a file of the run",
    ),
    (["backtranslate", "{0}/run", "{0}/test.source", "--out", "{0}/run"], "run is the folder of a run; give"),
    (
        ["linearise", "{0}/trees", "-s", "{0}/test.source", "-t", "{0}/new"],
        "test.source exists already, and it would be replaced; give another name.",
    ),
    (["export", "{0}/run", "--to", "onnx", "--out", "."], "--out is the current folder"),
    (["import", "{0}/run", "--from", "huggingface", "--out", "."], "--out is the current folder"),
    (
        ["backtranslate"],
        "The following arguments are required: RUN, TEXT, -o/--out. See dragoman backtranslate",
    ),
    (["quickstart", "--minutes", "0"], "--minutes is 0.0; it must be at least 0.01"),
    (["train", "--minutes", "0"], "--minutes is 0.0; it must be at least 0.01"),
    (["train", "--average", "0"], "--average is 0; it must be at least 1"),
    (
        ["train", "--out", "{0}/x", "--source", "{0}/train.source", "--target", "{0}/test.target"],
        "has 200 lines and",
    ),
    (
        [
            "train",
            "--out",
            "{0}/x",
            "--source",
            "{0}/train.source",
            "--target",
            "{0}/train.target",
            "--target-tokens",
            "char",
        ],
        "Source tokens are bpe and target tokens char; they cannot share a vocabulary. Add "
        "--no-share-vocabulary.",
    ),
    (
        [
            "train",
            "--out",
            "{0}/train.source/x",
            "--source",
            "{0}/train.source",
            "--target",
            "{0}/train.target",
        ],
        "train.source/x cannot be used: a part of this path is a file, not a folder. Give another path.",
    ),
    (
        ["train", "--out", "{0}/x", "--dataset", "wmt"],
        "There is no dataset 'wmt'; there are: multi30k-en-de, multi30k-de-en, ",
    ),
    (
        ["resume", "{0}"],
        "If it was interrupted while its text was prepared, train again with the same command or recipe.",
    ),
    (["translate", "{0}"], "holds runs, not a model; give one of them: {0}/run."),
    (["translate", "{0}/none"], "There is no folder {0}/none. dragoman runs lists the runs."),
    (
        ["translate", "{0}/test.source"],
        "is a file, and the folder of a run is wanted. A file is translated by: dragoman translate RUN <",
    ),
    (
        ["translate", "{0}/run", "--input", "{0}/test.source", "--shortlist", "{0}/run"],
        "run is a folder; make one with: dragoman shortlist RUN",
    ),
    (
        ["translate", "{0}/run", "--input", "{0}/test.source", "--shortlist", "{0}/none"],
        "none is missing; make one with: dragoman shortlist RUN",
    ),
    (
        ["translate", "{0}/run", "--input", "{0}/test.source", "--shortlist", "{0}/test.target"],
        "test.target is no shortlist; make one with: dragoman shortlist RUN --source … --target … --out A",
    ),
    (
        ["translate", "{0}/run", "--shortlist", "{0}/none", "--temperature", "1"],
        "in C++, without --temperature, --force-words, --groups and --coverage-penalty.",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/run/model"],
        "run/model is not a run, and it has model.toml, which a run would damage; choose another --out.",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/x", "--symbols", ""],
        "symbols has ''; each has to be a text without spaces, given once, and not one of </s>, <pad>, <s>, "
        "<unk>, <0x00> to <0xFF>.",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/x", "--symbols", "<a>", "<a>"],
        "symbols has '<a>'; each has to be a text without spaces, given once",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/x", "--symbols", "a b"],
        "symbols has 'a b'; each has to be a text without spaces",
    ),
    (
        ["train", "{0}/train.source", "{0}/train.target", "--out", "{0}/x", "--symbols", "<0x41>"],
        "symbols has '<0x41>'; each has to be a text without spaces",
    ),
    (
        ["import", "{0}", "--from", "huggingface", "--out", "{0}/x"],
        "{0}/config.json cannot be read: No such file or directory.",
    ),
    (
        ["translate", "{0}/run", "--n-best", "9"],
        "--n-best is 9, and a beam has no more than its 4 hypotheses; give a larger --beam-size.",
    ),
    (
        ["translate", "{0}/run", "--n-best", "2"],
        "--n-best 2 needs --json: plain output has a line for each line of input.",
    ),
    (
        ["evaluate", "{0}/run", "--source", "{0}/test.source", "--target", "{0}/train.target"],
        "has 5 lines and",
    ),
    ([*EVALUATE, "--paper-bleu", "xx"], "Moses does not know the language 'xx'"),
    ([*EVALUATE, "--hypotheses", "{0}/none/x"], "none/x cannot be written: there is no such folder."),
    ([*EVALUATE, "--hypotheses", "{0}/x.gz"], "x.gz would not be compressed, as its name says; give"),
    ([*EVALUATE, "--hypotheses", "{0}/x.zst"], "x.zst would not be compressed, as its name says; give"),
    (["paper", "--length", "1048577"], "--length is 1048577; it must be at most 1048576."),
    ([*EVALUATE, "--baseline", "{0}"], "holds runs, not a model"),
    (
        [*EVALUATE, "--hypotheses", "{0}/test.target"],
        "test.target is what this command reads; give another file.",
    ),
    (
        [
            "shortlist",
            "{0}/run",
            "--source",
            "{0}/test.source",
            "--target",
            "{0}/test.target",
            "--out",
            "{0}/test.source",
        ],
        "test.source is what this command reads; give another file.",
    ),
    (
        ["shortlist", "{0}/run", "-s", "{0}/test.source", "-t", "{0}/test.target", "-o", "{0}/missing/list"],
        "missing/list cannot be written: there is no such folder.",
    ),
    (
        ["translate", "{0}/run", "--stream", "--shortlist", "{0}/x"],
        "A stream needs all tokens; leave --shortlist out.",
    ),
    (
        ["train", "--seed", "99999999999999999999"],
        "seed is 99999999999999999999; it has to be a number of at most 64 bits",
    ),
    (["translate", "{0}/run", "--temperature", "nan"], "--temperature is nan; it must be a finite number."),
    (["translate", "{0}/run", "--max-length", "0"], "--max-length is 0; it must be at least 1."),
    (
        ["translate", "{0}/run", "--temperature", "1", "--diversity", "1"],
        "--diversity and --temperature exclude each other: samples have no beam, and are ranked by log-prob",
    ),
    (["train", "--minutes", "inf"], "--minutes is inf; it must be a finite number."),
    (
        [*TRAIN, "--minutes", "3", "--updates", "2000"],
        "--minutes chooses the number of updates, and that is given: 2,000. Leave --minutes out, or the",
    ),
    (
        [*TRAIN, "--cooldown-steps", "3", "--preset", "base"],
        "--cooldown-steps belongs to --schedule trapezoid, and this recipe has another; leave it",
    ),
    (
        [*TRAIN, "--patience", "3", "--preset", "tiny"],
        "--patience 3: a trapezoid is never stopped early; leave it out, or add --schedule paper.",
    ),
    (
        [*TRAIN, "--sampled-copies", "3"],
        "--sampled-copies belongs to --bpe-dropout or --sampling-alpha, and both are missing; give one of "
        "them, or leave it out.",
    ),
    (
        [*TRAIN, "--source-tokens", "char", "--character-coverage", "0.99"],
        "--character-coverage is for bpe and unigram tokens, and those of this recipe are char; leave it",
    ),
    (
        [*TRAIN, "--n-best", "3"],
        "--n-best 3: only one translation of a test sentence is scored; leave it out, or add --mbr.",
    ),
    (["train", "--character-coverage", "1.5"], "--character-coverage is 1.5; it must be at most 1."),
    (
        ["translate", "{0}/run", "--ban-words", "a", "--ban-words", "b"],
        "--ban-words is given more than once; give it once, with all its values: --ban-words A B.",
    ),
    (
        ["translate", "{0}/run", "--ensemble={0}/run", "--ensemble", "{0}/run"],
        "--ensemble is given more than once",
    ),
    (
        [*EVALUATE, "--n-best", "2"],
        "--n-best 2: only one translation is scored; leave it out, or add --mbr.",
    ),
    ([*EVALUATE, "--hypotheses", "{0}/run"], "run is a folder; give the name of a file."),
    (
        [
            "shortlist",
            "{0}/run",
            "--source",
            "{0}/test.source",
            "--target",
            "{0}/test.target",
            "--out",
            "{0}/run",
        ],
        "run is a folder; give the name of a file.",
    ),
    (["train", "--threads", "5000"], "--threads is 5000; it must be at most 1024."),
    (["train", "--vocabulary", "3000000000"], "--vocabulary is 3000000000; it must be at most 10000000."),
    (
        ["train", "--target-tokens-per-batch", "3000000000"],
        "--target-tokens-per-batch is 3000000000; it must be below 2147483648.",
    ),
    (["train", "--max-positions", "2000000"], "--max-positions is 2000000; it must be at most"),
    (
        ["train", "--out", "{0}/x", "--source", "/dev/null", "--target", "{0}/train.target"],
        "/dev/null, which is not a regular file",
    ),
    (
        ["plot", "{0}/run", "--out", "{0}/none/x.svg"],
        "none/x.svg cannot be written: there is no such f",
    ),
    # asked for by name, though it is the default
    (
        ["translate", "{0}/run", "--temperature", "1", "--beam-size", "4"],
        "--beam-size and --temperature exclude each other: samples have no beam",
    ),
    (
        ["translate", "{0}/run", "--sampling-seed=1"],
        "--sampling-seed is for sampling and needs --temperature above 0; give both, or leave",
    ),
    (
        [*EVALUATE, "--length-power", "1", "--length_penalty", "0.6"],
        "--length-power and --length-penalty exclude each other: both divide the score by a length;",
    ),
    (
        [
            "train",
            "--out",
            "{0}/x",
            "--source",
            "{0}/train.source",
            "--target",
            "{0}/train.target",
            "--diversity",
            "0.5",
        ],
        "--diversity needs --groups above 1; give both, or leave --diversity out.",
    ),
]


@pytest.mark.short_form(12)
@pytest.mark.parametrize(
    ("arguments", "message"),
    REFUSED,
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_wrong_input_gets_a_sentence_and_leaves_nothing(command_line, folder, arguments, message):
    status, out, err = command_line(*(argument.format(folder) for argument in arguments))
    assert status == 2
    assert "BLEU =" not in out
    assert message.format(folder) in " ".join((out + err).replace("│", " ").split())
    assert "Traceback" not in err
    assert not (folder / "x").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SearchSettings(force_words="man"), "force_words is 'man'; it has to be a list of texts"),
        (lambda: SearchSettings(beam_size=4.0), "beam_size is 4.0; it has to be a whole number"),
        (lambda: SearchSettings(length_power="1"), "length_power is '1'; it has to be a number"),
        (
            lambda: EngineSettings(precision="fp16"),
            "precision is 'fp16'; it has to be one of 'float32', 'bfloat16', 'int8'",
        ),
    ],
)
def test_python_too_refuses_values_of_a_wrong_kind(make, message):
    with pytest.raises(DragomanError, match=message):
        make()
    assert SearchSettings(force_words=["a"], length_penalty=1, beam_size=np.int64(3)) == SearchSettings(
        3, 1.0, force_words=("a",)
    )


def test_closed_standard_streams_get_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dragoman", "runs"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit):
        cli.main()
    assert "Standard input or output is closed" in capsys.readouterr().err


def test_messages_are_not_written_to_standard_output_if_standard_error_is_closed():
    command = f"{shlex.quote(sys.executable)} -m dragoman translate nowhere 2>&-"
    found = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (2, b"")


def test_several_processes_share_a_file_and_no_standard_input(command_line, monkeypatch, folder, tmp_path):
    (tmp_path / "text").write_text("amber\n" * 2_001)
    monkeypatch.setenv("WORLD_SIZE", "2")
    status, _, err = command_line("translate", folder / "run", stdin=b"amber\n")
    assert status == 2
    assert (
        "2 processes would each translate the same text; give --input and --output, which they share." in err
    )
    files = ["--input", tmp_path / "text", "--output", tmp_path / "out"]
    status, _, err = command_line("translate", folder / "run", "--beam-size", 1, *files)
    assert "Other processes have not written all of their blocks of" in err
    monkeypatch.setenv("RANK", "1")
    status, _, err = command_line("translate", folder / "run", "--beam-size", 1, *files)
    assert not err
    assert (tmp_path / "out").read_text().count("\n") == 2_001


def test_the_verbs_are_listed(command_line):
    _, out, _ = command_line("--help")
    assert all(f"\n  {verb}" in out for verb in cli.commands())
    _, out, _ = command_line("--version")
    assert out.strip() == f"dragoman {cli.__version__}"


HELP = """
import sys
from dragoman.cli import main as cli

for verb in cli.commands():
    sys.argv = ["dragoman", verb, "--help"]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, verb
    assert "torch" not in sys.modules, verb
"""


@pytest.mark.long
def test_help_needs_no_torch():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"usage: dragoman {verb} " in done.stdout for verb in cli.commands())


@pytest.mark.parametrize("verb", cli.commands())
def test_the_help_of_an_option_says_what_it_is_before_it_names_values(verb):
    chosen = cli.command(verb)
    texts = {
        name: chosen.help_text(option, everything=False)
        for name, option in chosen.options.items()
        if option.help
    }
    assert not [name for name, text in texts.items() if re.match(r"[a-z]\w*([;:]|$)", text)]


def test_every_setting_is_a_flag_defined_once(command_line):
    import dataclasses

    def names(settings):
        for field in dataclasses.fields(settings):
            value = getattr(settings, field.name)
            yield from names(value) if dataclasses.is_dataclass(value) else [field.name]

    keys = list(names(Recipe()))
    assert len(keys) == len(set(keys))
    _, out, _ = command_line("train", "--help-all")
    shown = {key for key in keys if re.search(rf"--(no-)?{key.replace('_', '-')}\s", out)}
    assert set(keys) - shown == {"corpus", "of_model"}, "a list of tables; what distil sets"


def test_importing_the_package_is_light():
    subprocess.run(
        [sys.executable, "-c", "import dragoman, sys; assert 'torch' not in sys.modules"], check=True
    )
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        __import__("dragoman").Nothing  # noqa: B018


def test_what_nobody_reads_any_more_ends_nothing():
    code = (
        "import os, sys\n"
        "reader, writer = os.pipe()\n"
        "os.dup2(writer, 2), os.close(writer), os.close(reader)\n"
        "from dragoman.cli.console import say, warn\n"
        "say('one'), warn('two')\n"
        "print('done')"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "done\n"
    )


@pytest.mark.parametrize(("verb", "done"), [("score", "scored"), ("align", "aligned")])
@settings(max_examples=3)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=7), st.integers(1, 7))
@example([50, 1, 50, 1], 1)
@example([1], 1)
def test_pairs_longer_than_any_of_training_are_counted_whatever_the_blocks(
    command_line, folder, verb, done, lengths, block
):
    source, target = folder / "long.source", folder / "long.target"
    source.write_text("".join("amber " * length + "\n" for length in lengths))
    target.write_text("AMBER BIRCH\n" * len(lengths))
    answers = []
    for size in (block, len(lengths)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dragoman.translation.files.BLOCK", size)
            answers.append(command_line(verb, folder / "run", "--source", source, "--target", target))
    assert answers[0] == answers[1]
    status, out, err = answers[0]
    assert status == 0
    assert out.count("\n") == len(lengths)
    count = sum(length + 1 > 7 for length in lengths)
    subject = "1 sentence has" if count == 1 else f"{count} sentences have"
    verb_of_count = "is" if count == 1 else "are"
    message = (
        f"{subject} more tokens than the longest source of training (7), and {verb_of_count} {done} whole."
    )
    assert (message in err) == (count > 0)
    assert ("longest source of training" in err) == (count > 0)


# ---- help, and the forms of options


@pytest.mark.parametrize("verb", cli.commands())
def test_help_is_in_plain_words_and_has_every_option(command_line, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = command_line(verb, "--help")
    _, everything, _ = command_line(verb, "--help-all")
    options = [name for name in cli.commands()[verb].options if name not in cli.commands()[verb].positional]
    assert "example:" in out
    for text in (out, everything):
        assert not re.search(r"None|Raises|`|\bFalse\b|\bTrue\b|<class", text)
    for option in map(cli.commands()[verb].options.get, options):
        assert bool(re.search(rf"--(no-)?{option.flag[2:]}\b", everything)) == bool(option.help)


HIDDEN = {"of_model"}
"""Options that a program alone sets: no help shows them."""


def test_every_option_but_those_that_are_hidden_has_a_help():
    options = [option for command in cli.commands().values() for option in command.options.values()]
    assert {option.field.name for option in options if not option.help} == HIDDEN


def test_what_the_server_needs_are_the_packages_of_its_extra(monkeypatch, tmp_path, command_line):
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    extra = [re.split(r"[>=<;]", each)[0] for each in project["optional-dependencies"]["serve"]]
    assert {name.replace("-", "_").removesuffix("_py") for name in extra} == {*serve.PACKAGES}
    serve.check_installed()
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvloop" else name)
    for verb in (["serve", tmp_path], ["start"]):
        status, _, said = command_line(*verb)
        assert (status, "The server needs uvloop: pip install 'dragoman[serve]'" in said) == (2, True), said


def test_an_empty_text_is_no_path_and_not_the_current_folder():
    options = [option for command in cli.commands().values() for option in command.options.values()]
    paths = [option for option in options if Path in (*option.kinds, *typing.get_args(option.kinds[0]))]
    assert paths
    for option in paths:
        with pytest.raises(ArgumentTypeError, match=f"^{option.flag} is ''; it has to be the path of a "):
            option.value("")


@pytest.mark.parametrize("verb", cli.commands())
def test_what_is_said_of_an_option_names_one(verb):
    command = cli.commands()[verb]
    grouped = [name for names in command.groups.values() for name in names]
    assert {*command.metavars, *command.positional, *command.from_preset, *grouped} <= {*command.options}
    assert len(grouped) == len({*grouped})


@pytest.mark.parametrize("verb", cli.commands())
def test_the_line_of_usage_has_the_arguments_that_are_required(verb):
    command = cli.commands()[verb]
    assert bool(command.arguments) == bool(command.positional)
    for name, option in command.options.items():
        if option.is_required:
            metavar = command.metavars.get(name, option.metavar)
            forms = {metavar} if name in command.positional else {option.flag, SHORT.get(name)}
            assert forms & {*re.findall(r"[\w.-]+", command.arguments)}


@pytest.mark.parametrize("verb", ["train", "start", "distil"])
def test_what_differs_among_presets_is_said_to_be_from_the_preset(verb):
    values = [vars(preset) for preset in PRESETS.values()]
    differing = {name for name in values[0] if len({each[name] for each in values}) > 1}
    assert differing <= {*cli.commands()[verb].from_preset}


@pytest.mark.parametrize("verb", cli.commands())
def test_help_names_options_as_they_are_typed(verb):
    command = cli.commands()[verb]
    texts = [command.help_text(option, everything=True) for option in command.options.values()]
    named = {name for text in texts for name in re.findall(r"(?<![\w-])\w+_\w+(?!=)\b", text)}
    assert {name for name in named & set(command.options) if not name.startswith("d_")} == set()
    for option in command.options.values():  # and other words stay
        words, flags = (
            set(re.findall(r"--[a-z]+\b(?!-)", text)) for text in (option.help, command.meaning(option))
        )
        assert words == flags


@pytest.mark.parametrize("verb", cli.commands())
def test_what_is_on_by_default_is_switched_off_in_plain_words(command_line, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = command_line(verb, "--help-all")
    words = " ".join(out.split())
    for option in cli.commands()[verb].options.values():
        if option.default is True and option.help:
            first = option.help.split()[0]
            assert f"--no-{option.flag[2:]} Do not {first.lower()} " in words
            assert first in {
                "Attend",
                "Encode",
                "Join",
                "Multiply",
                "Remove",
                "Serve",
                "Share",
                "Translate",
                "Use",
                "Write",
            }, "a verb"


def test_short_forms_are_the_long_ones(folder):
    def given(verb, *arguments):
        return cli.commands()[verb].parse(list(arguments))

    assert given("translate", "run", "-n", "2", "-b", "5", "-o", "x") == given(
        "translate", "--n-best=2", "--beam_size", "5", "run", "--output", "x"
    )
    assert given("train", "-s", "a", "-t", "b", "-o", "c") == {
        "source": Path("a"),
        "target": Path("b"),
        "out": Path("c"),
    }
    assert given("train", "--no-native", "--shard", "--micro-batch-tokens", "auto") == {
        "native": False,
        "shard": True,
        "micro_batch_tokens": "auto",
    }
    assert given("translate", "run", "--force-words", "a b", "c")["force_words"] == ("a b", "c")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "-- he_said"], "-- he_said"),
        (["run", "--", "--beam_size"], "--beam_size"),
        (["run", "--", "--help-all"], "--help-all"),
        (["--out", "a_b.html", "run", "--", "-5"], "-5"),
    ],
)
def test_a_text_that_begins_with_dashes_is_read_as_it_is(arguments, sentence):
    assert cli.commands()["inspect"].parse(arguments)["sentence"] == sentence


@given(st.text("ab_-=/.", min_size=1), st.booleans())
def test_an_option_may_have_underscores_and_its_value_is_read_as_it_is(value, has_underscores):
    assume(value != "--")  # which argparse leaves out
    options = [f"--beam{'_' if has_underscores else '-'}size=3", f"--force_words={value}"]
    values = cli.commands()["translate"].parse(["run", *options])
    assert (values["beam_size"], values["force_words"]) == (3, (value,))


def test_files_whose_names_begin_with_a_dash_stand_after_two_dashes():
    given = cli.commands()["doctor"].parse(["--", "-x.en", "--x.de"])
    assert given["files"] == [Path("-x.en"), Path("--x.de")]
    given = cli.commands()["translate"].parse(["--beam-size", "1", "--", "-run"])
    assert given["run"] == Path("-run")


@pytest.mark.parametrize(
    ("verb", "arguments", "positional"),
    [
        ("inspect", ["run", "--out", "x.html", "A man."], {"run": Path("run"), "sentence": "A man."}),
        ("train", ["a.en", "--out", "o", "a.de"], {"files": [Path("a.en"), Path("a.de")]}),
        ("serve", ["a", "--port", "8", "b"], {"runs": [Path("a"), Path("b")]}),
    ],
)
def test_arguments_may_stand_on_both_sides_of_an_option(verb, arguments, positional):
    given = cli.commands()[verb].parse(arguments)
    assert {name: given[name] for name in positional} == positional


def test_an_option_after_two_dashes_is_an_argument_too_many():
    with pytest.raises(DragomanError, match="'--out' is one argument too many. See dragoman inspect --help."):
        cli.commands()["inspect"].parse(["run", "--", "--file", "--out", "x.html"])


# ---- input and output


def test_packed_standard_input_is_unpacked(folder, command_line, monkeypatch, capsysbinary, tmp_path):
    text = b"amber birch\ncedar ember\n"
    _, expected, _ = command_line("translate", folder / "run", stdin=text)
    assert expected == "AMBER BIRCH\nCEDAR EMBER\n"
    packed = gzip.compress(text)
    for content, status in ((packed, 0), (packed[:-9], 2)):
        (tmp_path / "packed").write_bytes(content)
        with (tmp_path / "packed").open() as stdin:
            monkeypatch.setattr(sys, "argv", ["dragoman", "translate", str(folder / "run")])
            monkeypatch.setattr(sys, "stdin", stdin)
            if status:
                with pytest.raises(SystemExit) as end:
                    cli.main()
                assert end.value.code == status
                told = capsysbinary.readouterr().err.decode()
                assert "Standard input is not a complete gzip file: it is damaged or cut off." in told
            else:
                cli.main()
                assert capsysbinary.readouterr().out.decode() == expected


def test_the_named_datasets_are_listed(command_line):
    status, out, err = command_line("train", "--dataset", "list")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*DATASETS, "opus:en-de/NAME"]
    assert all(len(line.split()) > 1 for line in out.splitlines())


def test_two_text_files_are_source_and_target(folder, command_line, tmp_path):
    files = [folder / "train.source", folder / "train.target"]
    sizes = [
        "--d-model",
        16,
        "--d-ff",
        32,
        "--heads",
        2,
        "--encoder-layers",
        1,
        "--decoder-layers",
        1,
        "--updates",
        2,
    ]
    status, _, err = command_line("train", *files, "--out", tmp_path / "run", "--vocabulary", 300, *sizes)
    assert status == 0, err
    recipe = read_toml(tmp_path / "run" / "recipe.toml")
    assert recipe["data"]["source"] == str(files[0])
    assert recipe["data"]["target"] == str(files[1])


def test_training_without_text_says_nothing_of_what_it_would_choose(command_line):
    status, out, err = command_line("train")
    assert (status, out) == (2, "")
    assert err == (
        "dragoman: Training needs two text files, --source and --target, with line n of one translated "
        "by line n of the other; or --source alone, a file with both sides, which ends in .tmx, .tsv or "
        ".jsonl.\n"
    )


def test_the_record_of_an_evaluation_is_of_the_text_and_model_that_were_read(
    command_line, monkeypatch, folder, tmp_path
):
    os.mkfifo(tmp_path / "pipe")
    asked = ["evaluate", folder / "run", "--json", "-t", folder / "test.target", "-s"]
    status, _, err = command_line(*asked, tmp_path / "pipe")
    assert (status, "pipe cannot be read twice, and --json records the hash" in err) == (2, True)
    text = tmp_path / "text"
    shutil.copy(folder / "test.source", text)
    translate, (_, before, _) = Translator.translate, command_line(*asked, text)

    def changing(*arguments):
        text.unlink(missing_ok=True)
        return translate(*arguments)

    monkeypatch.setattr(Translator, "translate", changing)
    _, after, _ = command_line(*asked, text)
    hashes = [json.loads(each)["passport"]["data"] for each in (before, after)]
    assert hashes[0] == hashes[1]


def test_a_gzip_file_needs_its_ending(command_line, folder):
    (folder / "packed").write_bytes(gzip.compress(b"amber\n"))
    files = ["--input", folder / "packed"]
    for more in ([], ["--output", folder / "packed.out"]):
        status, out, err = command_line("translate", folder / "run", *files, *more)
        assert (status, out) == (2, "")
        assert "packed, line 1, byte 1: this is compressed with gzip; decompress it, or end the name" in err
    assert not (folder / "packed.out").exists()


def test_a_positional_argument_may_be_left_out(command_line, monkeypatch, folder):
    monkeypatch.chdir(folder)
    assert "There is no folder runs." in command_line("runs")[2]
    assert "run" in command_line("runs", ".")[1]
    assert cli.commands()["train"].parse([]) == {}


def test_doctor_names_the_files_that_it_has_found(tmp_path, command_line):
    for name in ("train.de.gz", "train.en.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"amber\nbirch\namber\n"))
    status, _, err = command_line("doctor", tmp_path)
    files = f"{tmp_path / 'train.de.gz'} {tmp_path / 'train.en.gz'}"
    assert status == 1
    assert f"To write a corpus without these problems: dragoman clean {files} --out DIR" in err


def test_a_doctor_who_finds_nothing_says_what_was_read(command_line, tmp_path):
    for name, lines in (
        ("one", ["a first line", "another line"]),
        ("other", ["eine erste Zeile", "noch eine Zeile"]),
    ):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    status, out, err = command_line("doctor", tmp_path / "one", tmp_path / "other")
    assert (status, out) == (0, f"Nothing was found in {tmp_path / 'one'}, {tmp_path / 'other'}.\n")
    assert f"Train with: dragoman train {tmp_path / 'one'} {tmp_path / 'other'} --out runs/NAME" in err


def test_a_doctor_names_the_corpus_in_the_commands_that_follow(command_line, monkeypatch, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"en": "a line", "de": "eine Zeile"}\n')
    monkeypatch.chdir(tmp_path.parent)
    folder, named = tmp_path.name, f"{tmp_path.name}/train.jsonl"
    languages = ["--source-language", "de", "--target-language", "en"]
    words = " ".join([named, *languages])
    assert f"dragoman train {words} --out" in command_line("doctor", named, *languages)[2]
    assert f"dragoman train {words} --out" in command_line("doctor", folder, *languages)[2]
    (tmp_path / "train.jsonl").write_text('{"en": "the same", "de": "the same"}\n')
    status, _, err = command_line("doctor", named, *languages)
    assert (status, f"dragoman clean {words} --out DIR" in err) == (1, True), err


def test_a_doctor_does_not_advise_to_clean_what_clean_refuses(folder, command_line, tmp_path):
    (tmp_path / "short").write_text("eine Zeile\n")
    files = folder / "train.source", tmp_path / "short"
    status, out, err = command_line("doctor", *files)
    assert (status, "Lines without a counterpart" in out, "clean" in err) == (1, True, False)


def test_a_doctor_also_examines_the_text_to_replay(command_line, tmp_path):
    recipe, old = tmp_path / "recipe.toml", tmp_path / "old.tsv"
    (tmp_path / "new.tsv").write_text("a first line\teine erste Zeile\n")
    recipe.write_text(
        f'[data]\nsource = "{tmp_path}/new.tsv"\n'
        f'[adaptation]\ninitial_model = "{tmp_path}/run"\nreplay = ["{old}"]\n'
    )
    old.write_text("an old line\teine alte Zeile\n")
    status, out, err = command_line("doctor", recipe)
    assert (status, "clean" in err) == (0, False)
    assert f"The text to replay:\nNothing was found in {old}." in out
    assert f"Train with: dragoman train {recipe} --out" in err
    old.write_text("the same\tthe same\n")
    status, out, err = command_line("doctor", recipe)
    assert (status, f"Nothing was found in {tmp_path / 'new.tsv'}." in out) == (1, True)
    assert f"dragoman clean {old} --out DIR" in err
    old.unlink()
    err = command_line("doctor", recipe)[2]
    assert f"Of the text to replay, source is {old}, and there is no such file." in err


def test_a_doctor_takes_the_languages_of_the_initial_model(folder, command_line, tmp_path):
    model, recipe, old = tmp_path / "model", tmp_path / "recipe.toml", tmp_path / "old.jsonl"
    shutil.copytree(folder / "run" / "model", model)
    about = json.loads((model / "about.json").read_text()) | {
        "source_language": "en",
        "target_language": "de",
    }
    (model / "about.json").write_text(json.dumps(about))
    (model / "manifest.json").unlink()
    write_manifest(model)
    (tmp_path / "new.tsv").write_text("a first line\teine erste Zeile\n")
    recipe.write_text(
        f'[data]\nsource = "{tmp_path}/new.tsv"\n'
        f'[adaptation]\ninitial_model = "{model}"\nreplay = ["{old}"]\n'
    )
    old.write_text('{"en": "an old line", "de": "eine alte Zeile"}\n')
    assert f"Nothing was found in {old}." in command_line("doctor", recipe)[1]
    recipe.write_text(recipe.read_text().replace(f'"{old}"', '"old.en"'))
    err = command_line("doctor", recipe)[2]
    assert "replay needs two files, source and target, or one that has both, and has 1." in err


def test_a_clean_corpus_may_be_named_by_options(command_line, tmp_path):
    (tmp_path / "one").write_text("a first line\nanother line\n")
    (tmp_path / "other").write_text("eine erste Zeile\nnoch eine Zeile\n")
    files = tmp_path / "one", tmp_path / "other"
    status, _, err = command_line("doctor", "--source", files[0], "--target", files[1])
    assert (status, f"Train with: dragoman train {files[0]} {files[1]} --out" in err) == (0, True)


@pytest.mark.short_form(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
@pytest.mark.parametrize("arguments", ["--help", "--version", "paper tiny"])
def test_output_that_cannot_be_written_gets_a_sentence(arguments):
    command = [sys.executable, "-m", "dragoman", *arguments.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("dragoman: The disk could not be written: No space left")
    assert "Exception" not in done.stderr


def test_a_picture_is_not_written_into_the_folder_of_a_model(folder, command_line):
    out = folder / "run" / "model" / "curves.svg"
    status, _, err = command_line("plot", folder / "run", "--out", out)
    assert (status, out.exists()) == (2, False)
    assert "is in a folder whose files manifest.json lists" in err


READERS = {
    "translate": (["{run}", "--input", "{one}"], "--output"),
    "translate, a document": (["{run}", "--document", "{one}"], "--output"),
    "evaluate": (
        ["{run}", "-s", "{one}", "-t", "{other}", "--baseline", "{third}", "--no-native"],
        "--hypotheses",
    ),
    "shortlist": (["{run}", "-s", "{one}", "-t", "{other}"], "--out"),
    "parse-f1": (["{one}", "{other}"], "--output"),
    "parse-f1, gold": (["{one}", "{other}"], "--gold-output"),
    "linearise, words": (["{one}", "-t", "{new}"], "--source"),
    "linearise, symbols": (["{one}", "-s", "{new}"], "--target"),
    "inspect": (["{run}", "--file", "{one}", "--show", "heads"], "--out"),
}
"""Verbs with files that they read, and the option of a file that they write."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("is_link", [False, True])
def test_no_verb_replaces_what_it_reads(command_line, folder, tmp_path, name, is_link):
    arguments, option = READERS[name]
    places = {each: tmp_path / f"{each}.svg" for each in ("one", "other", "third", "new")}
    for each in ("one", "other", "third"):
        places[each].write_text("(S (NP (NN amber)))\n")
    (tmp_path / "link.svg").write_text("")
    filled = [each.format(run=folder / "run", **places) for each in arguments]
    for path in [places[each] for each in ("one", "other", "third") if f"{{{each}}}" in arguments]:
        (tmp_path / "link.svg").unlink()
        (tmp_path / "link.svg").symlink_to(path)
        out = tmp_path / "link.svg" if is_link else path
        status, _, err = command_line(name.split(",")[0], *filled, option, out)
        assert (status, path.read_text()) == (2, "(S (NP (NN amber)))\n"), path
        assert re.search("is what this command reads|exists already", err), err


FIGURES = ["figure", "label-smoothing", "--out"]


@pytest.mark.parametrize("command", [[*EVALUATE, "--hypotheses"], ["plot", "{0}/run", "--out"], FIGURES])
def test_no_verb_replaces_a_file_of_a_run(command_line, folder, tmp_path, command):
    of_run = {path.name for path in (folder / "run").iterdir() if path.is_file() and path.name[0] != "."}
    assert of_run >= {"recipe.toml", "log.jsonl", "passport.json", "result.json", "test.hypotheses.txt"}
    of_distillation = {DISTILLED, f"{DISTILLED}.json", SOURCES}
    own = tmp_path / "own"
    own.mkdir()
    (own / "recipe.toml").write_text("")
    for name in sorted(of_run | of_distillation | {BUDGET}):
        (own / name).write_text("kept")
        status, _, err = command_line(*(each.format(folder) for each in command), own / name)
        assert (status, (own / name).read_text()) == (2, "kept"), name
        ends = command[0] == "evaluate"
        assert (f"{name} is a file of the run" in err) or not ends, err
    inside = folder / "run" / "model" / "new.svg"
    status, _, err = command_line(*(each.format(folder) for each in command), inside)
    assert (status, inside.exists()) == (2, False), err


def test_the_recipe_of_a_run_that_was_copied_is_of_the_copy(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "copy")
    recipe = train.recipe_of(train.COMMAND.parse([str(tmp_path / "copy" / "recipe.toml")]))
    assert recipe.out == tmp_path / "copy"
    asked = [str(tmp_path / "copy" / "recipe.toml"), "--out", str(tmp_path / "other")]
    assert train.recipe_of(train.COMMAND.parse(asked)).out == tmp_path / "other"


def test_an_output_that_is_a_circle_of_links_gets_a_sentence(folder, command_line, tmp_path):
    (tmp_path / "loop.html").symlink_to("loop.html")
    out = tmp_path / "loop.html"
    status, _, err = command_line("plot", folder / "run", "--out", out)
    assert (status, err) == (2, f"dragoman: {out}: Too many levels of symbolic links.\n")


def test_scores_are_printed_though_the_translations_cannot_be_written(folder, command_line):
    if not Path("/dev/full").exists():
        pytest.skip("no full disk here")
    files = [
        "--source",
        folder / "test.source",
        "--target",
        folder / "test.target",
        "--hypotheses",
        "/dev/full",
    ]
    status, out, err = command_line("evaluate", folder / "run", *files)
    assert status == 2
    assert [line.split(" = ")[0] for line in out.splitlines()] == ["BLEU", "chrF2", "chrF2++", "TER"]
    assert "No space left on device" in err


def test_a_shortlist_has_the_mode_of_other_files(folder, command_line, tmp_path):
    files = ["-s", folder / "train.source", "-t", folder / "train.target", "-o", tmp_path / "shortlist"]
    status, _, err = command_line("shortlist", folder / "run", *files)
    assert status == 0
    assert f"Use it with: dragoman translate {folder / 'run'} --shortlist {tmp_path / 'shortlist'}" in err
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "shortlist").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_terminal_is_told_what_to_type_and_gets_each_line_at_once(folder):
    controller, terminal = os.openpty()
    command = [sys.executable, "-m", "dragoman", "translate", folder / "run"]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        os.close(terminal)
        for text in (b"amber birch", b"cedar delta ember"):
            os.write(controller, text + b"\n")
            assert program.stdout.readline() == text.upper() + b"\n"
        os.write(controller, b"\x04")  # Ctrl-D
        _, err = program.communicate()
    os.close(controller)
    assert err.decode() == "Type a sentence and press Enter; Ctrl-D ends.\n"


def test_a_second_interruption_ends_the_process_without_a_traceback(monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "command", interrupted)
    monkeypatch.setattr(sys, "argv", ["dragoman", "runs"])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FileExistsError(17, "File exists", "a"), "a is a file, and a folder is wanted there. Give another "),
        (PermissionError(13, "Permission denied", "a"), "a cannot be used: permission denied. Give another "),
        (
            OSError(30, "Read-only file system", "a"),
            "a cannot be written: the file system is read-only. Give ",
        ),
        (
            OSError(28, "No space left on device", "a"),
            "a could not be written: No space left on device. Free some space, ",
        ),
        (
            OSError(28, "No space left on device"),
            "The disk could not be written: No space left on device. Free ",
        ),
        (
            OSError(24, "Too many open files"),
            "The operating system refused what this command needs: Too many open files.",
        ),
        (OSError(24, "Too many open files", "a"), "a: Too many open files."),
        (PermissionError(13, "Permission denied"), "The operating system refused what this command needs: P"),
    ],
)
def test_errors_of_the_system_are_sentences(error, sentence):
    assert sentence_of(error).startswith(sentence)


def test_a_link_to_nothing_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError) as raised:
        (tmp_path / "link").mkdir(exist_ok=True)
    told = f"{tmp_path / 'link'} is a symbolic link to nowhere, which does not exist. Make a folder there"
    assert sentence_of(raised.value).startswith(told)


def test_a_full_disk_of_temporary_files_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert f"also for temporary files in {tmp_path} (TMPDIR)" in sentence_of(OSError(28, "No space left"))
    assert str(tmp_path) not in sentence_of(OSError(28, "No space left", "a"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["clean", "b\udcff", "plain", "--out", "there"],
        ["export", "run", "--to", "ctranslate2", "--out", "b\udcff"],
        ["train", "plain", "plain", "--out", "b\udcff"],
        ["train", "b\udcff", "plain", "--out", "there"],
        ["quickstart", "--out", "b\udcff"],
    ],
)
def test_names_that_are_not_utf_8_are_refused_and_nothing_is_written(
    arguments, folder, tmp_path, command_line, monkeypatch
):
    (tmp_path / "run").symlink_to(folder / "run")
    for name in ("plain", "b\udcff"):
        (tmp_path / name).write_text("amber birch\n" * 9)
    if arguments[-1] == "b\udcff":
        (tmp_path / "b\udcff").unlink()
    before = set(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    status, out, err = command_line(*arguments)
    assert (status, out) == (2, "")
    name = "/b\\udcff'" if arguments[0] == "export" else "dragoman: 'b\\udcff'"
    assert f"{name} is not a name in UTF-8, which this command needs; rename it, or give another name." in err
    assert set(tmp_path.iterdir()) == before


INTERRUPTED_IMPORT = """
import builtins, os, signal
from dragoman.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
imported = builtins.__import__
def interrupt(name, *others):
    if name == "dragoman.cli.main":
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *others)
builtins.__import__ = interrupt
main()
"""


def test_ctrl_c_during_the_imports_prints_nothing():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, timeout=MAX_SECONDS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_help_of_a_verb_is_its_help(command_line):
    ways = ("help", "train"), ("--help", "train"), ("-h", "train"), ("train", "--help")
    helps = [command_line(*asked) for asked in ways]
    assert helps == helps[:1] * len(ways)
    assert "dragoman train" in helps[0][1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "beam_size-4"], "There is no folder beam_size-4."),
        (["translate", "beam_size (old)"], "There is no folder beam_size (old)."),
        (["translate", "max_length"], "There is no folder max_length."),
    ],
)
def test_names_of_files_are_no_names_of_options(command_line, arguments, message):
    status, _, err = command_line(*arguments)
    assert (status, message in err) == (2, True)


def test_an_error_in_a_recipe_names_its_keys(command_line, tmp_path):
    (tmp_path / "recipe.toml").write_text("[training]\nlabel_smoothing = 5.0\nbatch_token = 5\n")
    status, _, err = command_line("train", tmp_path / "recipe.toml", "--out", tmp_path / "a")
    assert (status, "--" in err) == (2, False)

"""/suggest: corrections of people are kept in a file, and adapt a model."""

import itertools
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.native.settings import EngineSettings
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.serving.suggestions import MAX_TEXT, add_suggestion, check_file
from dragoman.system.errors import DragomanError
from dragoman.text.formats import read_parallel
from dragoman.text.settings import Languages
from tests.processes import fork, worst
from tests.servers import serving
from tests.test_served_adapters import answers

ENDE = Languages("en", "de")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def models(trained):
    return load_models([trained / "run"], EngineSettings())


def app_of(models, **options):
    return make_app(Service(models, ServerSettings(**options), Metrics()), None)


def suggestion(q="amber", s="AMBER", source="en", target="de"):
    return "/suggest", {"q": q, "s": s, "source": source, "target": target}


SIDES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


@settings(max_examples=20)
@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=4), st.booleans())
def test_what_is_suggested_is_read_as_training_text(models, tmp_path_factory, pairs, is_edited):
    path = tmp_path_factory.getbasetemp() / f"suggestions-{next(NUMBERS)}.jsonl"
    app = app_of(models, suggestions=path)
    for number, (source, target) in enumerate(pairs):
        (answer,) = answers(app, suggestion(source, target))
        assert (answer.status_code, answer.json()) == (200, {"success": True})
        if is_edited and not number:
            path.write_bytes(path.read_bytes().rstrip(b"\n"))  # as some editors leave it
    lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert [(line["en"], line["de"]) for line in lines] == pairs
    assert all(isinstance(line["time"], int) for line in lines)
    if any(all(side.strip() for side in pair) for pair in pairs):
        read = list(read_parallel(path, ENDE))
        joined = [tuple(" ".join(side.split()) for side in pair) for pair in pairs]
        assert [tuple(" ".join(side.split()) for side in pair) for pair in read] == joined


def test_languages_are_those_of_the_request_and_unknown_ones_are_sides(models, tmp_path):
    path = tmp_path / "a.jsonl"
    app = app_of(models, suggestions=path)
    for source, target in (("en", "de"), ("de", "en"), ("auto", "de"), ("pt", "pt")):
        (answer,) = answers(app, suggestion(source=source, target=target))
        assert answer.status_code == 200
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [[*line][:2] for line in lines] == [
        ["en", "de"],
        ["de", "en"],
        ["source", "target"],
        ["source", "target"],
    ]


def test_without_the_option_suggestions_are_refused_as_before(models):
    (answer,) = answers(app_of(models), suggestion())
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "Suggestions are disabled on this server."},
    )


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (suggestion(q=""), 400, "missing q parameter"),
        (suggestion(s=""), 400, "missing s parameter"),
        (("/suggest", {"q": "a", "s": "b"}), 400, "missing source parameter"),
        (suggestion(s="a\0b"), 400, "A text has a NUL or a lone surrogate"),
        (suggestion(s="a" * (MAX_TEXT + 1)), 413, "A text has 10,001 characters, and 10,000 are allowed."),
    ],
)
def test_what_no_training_text_can_have_is_refused_and_not_kept(models, tmp_path, request_, status, message):
    path = tmp_path / "a.jsonl"
    (answer,) = answers(app_of(models, suggestions=path), request_)
    assert answer.status_code == status
    assert message in answer.json()["error"]
    assert not path.exists()


@given(st.integers(1, 400))
def test_the_file_is_bounded(tmp_path_factory, max_bytes):
    path = tmp_path_factory.getbasetemp() / f"bounded-{next(NUMBERS)}.jsonl"
    refused = []
    for number in range(12):
        try:
            add_suggestion(path, max_bytes, f"source {number}", "target", ENDE)
        except ApiError as error:
            refused.append((error.status, error.message))
    kept, content = 12 - len(refused), path.read_bytes()
    assert {*refused} <= {(403, "This server takes no more suggestions: its file is full.")}
    assert len(content) <= max_bytes
    assert content.count(b"\n") == kept
    assert kept == 12 or len(content) + 70 > max_bytes


def test_half_a_line_that_the_disk_refuses_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    add_suggestion(path, 10**6, "one", "eins", ENDE)
    before, write = path.read_bytes(), os.write

    def full(file, content):
        if len(content) < 20:
            raise OSError(28, "No space left on device")
        return write(file, content[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ApiError, match="^The server cannot write suggestions: No space left on dev") as error:
        add_suggestion(path, 10**6, "two", "zwei", ENDE)
    assert (error.value.status, error.value.code) == (503, "not_written")
    assert path.read_bytes() == before


def add_many(path, name):
    for number in range(20):
        add_suggestion(path, 10**6, f"{name} {number}", "x" * 5_000, ENDE)


def test_several_processes_add_whole_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    assert worst([fork(lambda name=name: add_many(path, name)) for name in "abc"]) == 0
    sources = [json.loads(line)["en"] for line in path.read_text().splitlines()]
    assert sorted(sources) == sorted(f"{name} {number}" for name in "abc" for number in range(20))


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    with pytest.raises(
        DragomanError, match="cannot be written: No such file or directory. Give another file"
    ):
        check_file(tmp_path / "none" / "a.jsonl")
    check_file(tmp_path / "a.jsonl")
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600


@pytest.mark.long
def test_corrections_adapt_a_model(trained, tmp_path, command_line):
    """As docs/serving.md has it: clients suggest, the run is trained further with them, and it has learnt."""
    path, out = tmp_path / "suggestions.jsonl", tmp_path / "adapted"
    words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
    texts = [f"{one} {two}" for one in words for two in words]
    with serving(trained / "run", "--suggestions", path) as server, server.client() as client:
        assert client.get("/frontend/settings").json()["suggestions"] is True
        with ThreadPoolExecutor(4) as threads:
            answered = threads.map(
                lambda text: client.post("/suggest", json=suggestion(text, "CEDAR " + text.upper())[1]), texts
            )
            assert {answer.status_code for answer in answered} == {200}
    status, _, err = command_line(
        *("train", path, "--initial-model", trained / "run", "--out", out),
        *("--source-language", "en", "--target-language", "de"),
        *("--replay", trained / "train.source", trained / "train.target", "--replay-share", "0.1"),
        *("--updates", "40", "--warmup-steps", "5", "--peak-rate", "0.005", "--precision", "float32"),
    )
    assert status == 0, err
    status, text, _ = command_line("translate", out, stdin=b"amber birch\n")
    assert text.split()[0] == "CEDAR"

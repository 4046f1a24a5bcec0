"""What is counted and logged of requests: by model and process, with sizes and without texts."""

import asyncio
import json
import subprocess
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dragoman import __version__
from dragoman.native.build import WITHOUT_COMPILER
from dragoman.native.settings import EngineSettings
from dragoman.serving import scrape as scrape_module
from dragoman.serving.app import make_app
from dragoman.serving.loading import load_models
from dragoman.serving.log import LEVELS
from dragoman.serving.metrics import Metrics, merged
from dragoman.serving.processes import Process, socket_of
from dragoman.serving.scrape import answers_of_others
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving
from tests.test_operations import connection, read_all
from tests.test_served_adapters import adapters, answers, base  # noqa: F401  fixtures

V1 = "/v1/translate"


@pytest.fixture(scope="module")
def models(trained):
    return load_models([trained / "run"], EngineSettings())


def samples_of(text):
    """The samples of a scrape: values by names and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


COUNTS = st.lists(st.tuples(st.sampled_from(["/a", 'b"\\\n']), st.sampled_from(["", "ende"])), max_size=9)


@pytest.mark.long
@given(st.dictionaries(st.integers(0, 255), COUNTS, min_size=1, max_size=4))
def test_merged_metrics_are_those_of_the_processes_with_their_numbers(counts):
    texts = {}
    for process, requests in counts.items():
        metrics = Metrics()
        for route, model in requests:
            metrics.finished(route, 200, 0.02, model)
            metrics.count_translated(model, "", 1, 2, 3)
        texts[process] = metrics.text().decode()
    text = merged(texts).decode()
    assert samples_of(text) == {
        (name, *sorted([*labels, ("process", str(process))])): value
        for process, own in texts.items()
        for (name, *labels), value in samples_of(own).items()
    }
    for line in ("# TYPE dragoman_requests_total counter", "# TYPE dragoman_request_seconds histogram"):
        assert text.count(line) == 1


def scrape(client, key=None):
    headers = {"Connection": "close"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    return samples_of(answer.text)


@pytest.mark.long
def test_one_scrape_has_all_processes(trained, tmp_path):
    key = add_key(tmp_path / "keys.toml", "one")
    options = ["--processes", 3, "--api-keys", tmp_path / "keys.toml"]
    with serving(trained / "run", *options) as server, server.client() as client:
        until = time.monotonic() + MAX_SECONDS
        while True:  # the first process serves while others load
            found = scrape(client, key)
            processes = {dict(labels).get("process") for _, *labels in found}
            if processes == {"0", "1", "2"}:
                break
            assert time.monotonic() < until
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        for _ in range(12):
            body = {"text": ["amber"], "target_lang": "de"}
            assert client.post("/v2/translate", json=body, headers=headers).status_code == 200
        assert client.get("/metrics", headers={"Connection": "close"}).status_code == 403
        for _ in range(3):  # whoever answers
            found = scrape(client, key)
            sentences = [value for (name, *_), value in found.items() if name == "dragoman_sentences_total"]
            assert sum(sentences) == 12
            builds = [dict(labels) for name, *labels in found if name == "dragoman_build_info"]
            assert sorted(builds, key=str) == [
                {"process": process, "version": __version__} for process in "012"
            ]
            memory = [value for (name, *_), value in found.items() if name == "process_resident_memory_bytes"]
            assert len(memory) == 3
            assert min(memory) > 10**7
            in_body = client.post("/v2/usage", json={"auth_key": key}, headers={"Connection": "close"})
            for usage in (in_body, client.get("/v2/usage", headers=headers)):
                assert usage.json()["character_count"] == 12 * len("amber")


ANSWERS = {
    3: "200 OK",
    17: "200 OK",
    18: "200 OK",
    200: "503 Service Unavailable",
    201: "404 Not Found",
    255: "",
}


@pytest.mark.parametrize("own", [3, 255])
def test_the_other_processes_that_answer_in_time_with_200_have_a_part(monkeypatch, own):
    monkeypatch.setattr(scrape_module, "SECONDS", 0.5)
    asked = []

    async def answer(number, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append((number, head.split()[1]))
        if ANSWERS[number]:
            text = f"ä{number}".encode()
            writer.write(f"HTTP/1.1 {ANSWERS[number]}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        else:
            await reader.read()
        writer.close()

    async def answers(folder, **more):
        scope = {
            "method": "GET",
            "raw_path": b"/metrics",
            "query_string": b"a=b",
            "headers": [(b"host", b"a")],
            "client": None,
        }
        with Process(7, folder).listen()[0]:
            pass  # nobody listens at the socket of a process that has ended
        async with AsyncExitStack() as stack:
            for number in ANSWERS:
                path = socket_of(folder, number)
                await stack.enter_async_context(
                    await asyncio.start_unix_server(partial(answer, number), path)
                )
            service = SimpleNamespace(process=Process(own, folder))
            return await answers_of_others(service, scope | more)

    with TemporaryDirectory() as folder:
        found = asyncio.run(answers(Path(folder)))
        assert found == {number: f"ä{number}" for number in (3, 17, 18) if number != own}
        assert sorted(asked) == [(number, "/metrics?a=b") for number in ANSWERS if number != own]
        assert asyncio.run(answers(Path(folder), **{"dragoman.is_passed_on": True})) == {}
    assert asyncio.run(answers_of_others(SimpleNamespace(process=Process()), {})) == {}


def test_requests_that_end_at_their_connection_are_counted(trained):
    with serving(trained / "run") as server, server.client() as client:
        for _ in range(2):
            with connection(server) as connected:
                connected.sendall(b"no HTTP\r\n\r\n")
                assert read_all(connected).startswith(b"HTTP/1.1 400 ")
        found = scrape(client)
    assert found["dragoman_refused_connections_total", ("status", "400")] == 2
    assert found["dragoman_connections",] == 1


def records(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_has_the_model_and_the_sizes_and_no_text(base, adapters, capsys):  # noqa: F811
    service = Service(load_models([base, adapters], EngineSettings()), ServerSettings(), Metrics())
    pair = {"source": "en", "target": "de"}
    asked = [
        (V1, {"text": ["amber birch", "cedar"]}),
        (V1, {"text": "amber", "adapter": "legal"}),
        (f"{V1}/stream", {"text": "amber birch"}),
        ("/translate", {"q": "amber", **pair}),
        ("/v2/translate", {"text": ["amber"], "target_lang": "DE"}),
        ("/v1/score", {"pairs": [["amber", "AMBER"]]}),
        ("/v1/alternatives", {"text": "amber"}),
        (V1, {"text": "amber", "beam_size": 999}),
        ("/v1/models", None),
    ]
    found = answers(make_app(service, None), *asked)
    lines = records(capsys)
    assert [line["status"] for line in lines] == [200] * 7 + [400, 200]
    assert [line.get("model") for line in lines] == ["run"] * 8 + [None]
    assert [line.get("adapter") for line in lines] == [None, "legal"] + [None] * 7
    assert [line.get("characters") for line in lines] == [16, 5, 11, 5, 5, 10, 5, 5, None]
    assert [line.get("sentences") for line in lines] == [2, 1, 1, 1, 1, None, None, None, None]
    tokens = sum(len(each["sentences"][0]["tokens"]) for each in found[0].json()["translations"])
    assert lines[0]["target_tokens"] == tokens
    assert lines[0]["source_tokens"] == 5  # three words, and the ends of two sentences
    assert not any("amber" in json.dumps(line).lower() for line in lines)


def test_a_document_is_logged_with_its_size(models, capsys):
    service = Service(models, ServerSettings(), Metrics())
    import asyncio

    import httpx

    async def send():
        transport = httpx.ASGITransport(make_app(service, None))
        headers = {"Content-Type": "application/octet-stream"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/documents?name=a.txt", content=b"amber birch", headers=headers)

    assert asyncio.run(send()).status_code == 200
    (line,) = records(capsys)
    assert (line["model"], line["characters"]) == ("run", 11)
    service.documents.close()


@pytest.mark.parametrize("level", [*LEVELS])
def test_the_level_chooses_the_lines(models, capsys, level):
    app = make_app(Service(models, ServerSettings(log_level=level), Metrics()), None)
    broken = make_app(Service(None, ServerSettings(log_level=level), Metrics()), None)
    answers(app, ("/health", None), ("/v1/models", None), (V1, {"text": 1}))
    answers(broken, ("/v1/models", None))
    found = [(line["route"], line["status"]) for line in records(capsys)]
    lines = [("/health", 200), ("/v1/models", 200), (V1, 400), ("/v1/models", 500)]
    assert found == lines[list(LEVELS).index(level) :]


def without_compiler(monkeypatch, tmp_path):
    """No program is found, and nothing that was compiled before."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "count"),
    [((), 1), (("--no-native",), 0), pytest.param(("--processes", 2), 1, marks=pytest.mark.long)],
    ids=str,
)
def test_a_server_without_a_compiler_says_so_once(trained, monkeypatch, tmp_path, options, count):
    without_compiler(monkeypatch, tmp_path)
    with serving(trained / "run", *options) as server, server.client() as client:
        assert client.post(V1, json={"text": "amber"}).status_code == 200
        until = time.monotonic() + MAX_SECONDS
        while count and WITHOUT_COMPILER not in "".join(server.log):
            assert time.monotonic() < until
            time.sleep(0.05)
        server.stop()
    assert "".join(server.log).count(WITHOUT_COMPILER) == count


@pytest.mark.long
@pytest.mark.parametrize(
    ("lines", "options", "count"),
    [(99, (), 0), (250, (), 1), pytest.param(250, ("--no-native",), 0, marks=pytest.mark.long)],
)
def test_a_long_translation_without_a_compiler_says_so_once(
    trained, monkeypatch, tmp_path, lines, options, count
):
    import sys

    without_compiler(monkeypatch, tmp_path)
    command = [sys.executable, "-m", "dragoman", "translate", trained / "run", "--beam-size", "1", *options]
    ran = subprocess.run(command, input="amber\n" * lines, capture_output=True, text=True, check=True)
    assert ran.stdout.count("\n") == lines
    assert ran.stderr.count(WITHOUT_COMPILER) == count

"""Documents that a server translates, by each of its APIs and by unmodified clients."""

import asyncio
import io
import json
import os
import random
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import active_children
from pathlib import Path, PurePath
from urllib.parse import unquote

import deepl
import httpx
import libretranslate_aio
import pytest
import uvicorn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from libretranslate_aio.exceptions import BadRequestError

from dragoman.documents.document import split_by_marks
from dragoman.documents.file import ArchiveLimits, Reading
from dragoman.documents.formats import ENDINGS, format_of_name
from dragoman.documents.plain import plain_text
from dragoman.documents.read import READERS
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.serving import documents, service
from dragoman.serving.admission import Admission, Shares
from dragoman.serving.apis import documents as document_routes
from dragoman.serving.apis.documents import disposition, translated_name
from dragoman.serving.apis.uploads import MAX_PART, MAX_PARTS, read_form
from dragoman.serving.app import make_app
from dragoman.serving.connections import Connection
from dragoman.serving.documents import Documents, Job, Upload
from dragoman.serving.errors import ApiError
from dragoman.serving.keys import Keys, hash_of
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.processes import ONLY, Process
from dragoman.serving.server import listening
from dragoman.serving.service import Service, parts_of, prepare_groups
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.temporary import TemporaryFolder, remove_abandoned
from dragoman.text.settings import Languages
from tests.child_functions import first_letter, need_memory, read_for_ever, write_to
from tests.conftest import MAX_SECONDS
from tests.office_files import pack, word_file
from tests.servers import serving

pytestmark = [pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")]

V1 = "/v1/documents"
BINARY = {"Content-Type": "application/octet-stream"}
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
msgid "amber birch %s"
msgstr ""

msgid "cedar"
msgstr "KEPT"
"""
FILES = {
    "report.docx": word_file("<w:p><w:r><w:t>amber birch. Cedar delta.</w:t></w:r></w:p>"),
    "film.srt": b"1\n00:00:01,000 --> 00:00:02,000\namber <i>birch</i> cedar\n\n"
    b"2\n00:00:03,000 --> 00:00:04,000\ndelta\n",
    "messages.po": PO.encode(),
    "page.html": b'<html lang="en"><p>amber <b>birch</b></p><p>delta https://example.org/a cedar</p></html>',
    "guide.txt": b"amber birch\r\n\r\n- cedar delta\n",
    "notes.md": b"# amber\n\n*birch* cedar\n",
    "empty of text.txt": b"12.5\n***\n",
}


@pytest.fixture(scope="module")
def models(trained):
    return load_models([trained / "run"], EngineSettings())


@contextmanager
def served(models, keys=None, process=ONLY, **options):
    """A server in a thread, by its service and its address. All of its documents are gone in the end."""
    limits = {"port": 0, "deadline": MAX_SECONDS, "document_deadline": MAX_SECONDS} | options
    own = Service(models, ServerSettings(**limits), Metrics(), process)
    app = make_app(own, keys)
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, log_config=None, access_log=False))
    with listening(own.settings) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener, *process.listen()]})
        thread.start()
        try:
            yield own, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(MAX_SECONDS)
            own.documents.close()


@contextmanager
def connected(models, keys=None, **options):
    """The service of a server in a thread, and a client of it."""
    with (
        served(models, keys, **options) as (own, url),
        httpx.Client(base_url=url, timeout=MAX_SECONDS) as client,
    ):
        yield own, client


@pytest.fixture(scope="module")
def server(models):
    with served(models) as (own, url):
        yield own, url


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server[1], timeout=MAX_SECONDS) as connection:
        yield connection


def send(client, name, content, **parameters):
    """The answer of /v1 to a document."""
    return client.post(V1, params={"name": name, **parameters}, content=content, headers=BINARY)


def wait(client, job_id, **options):
    """The status of a document of /v1 when it has ended."""
    events = client.get(f"{V1}/{job_id}/events", **options).text
    assert events.rpartition("event: ")[2].startswith("end\n")
    return json.loads(events.rpartition("data: ")[2])


def by_v1(client, name, content):
    job_id = send(client, name, content).json()["id"]
    wait(client, job_id)
    return client.get(f"{V1}/{job_id}/result")


def by_libretranslate(client, name, content):
    data = {"source": "en", "target": "de"}
    answer = client.post("/translate_file", data=data, files={"file": (name, content)})
    return client.get(answer.json()["translatedFileUrl"])


def by_deepl(client, name, content):
    answer = client.post("/v2/document", data={"target_lang": "DE"}, files={"file": (name, content)})
    key = {"document_key": answer.json()["document_key"]}
    path = f"/v2/document/{answer.json()['document_id']}"
    while client.post(path, json=key).json()["status"] == "translating":
        pass
    return client.post(f"{path}/result", data=key)


ROUTES = [by_v1, by_libretranslate, by_deepl]


def folder_of(own):
    """The files of a service's documents."""
    folder = own.documents._folder
    return [] if folder is None else list(folder.path.iterdir())


def until(condition):
    """Wait for something that has to come."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# ---- results


@pytest.mark.long
def test_every_route_gives_what_the_command_writes(client, trained, tmp_path, command_line):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
        command = ["translate", trained / "run", "--document", tmp_path / name]
        status, _, err = command_line(*command, "--output", tmp_path / "out")
        assert status == 0, err
        expected = (tmp_path / "out").read_bytes()
        (tmp_path / "out").unlink()
        for route in ROUTES:
            answer = route(client, name, content)
            assert (answer.status_code, answer.content) == (200, expected), (name, route)
            assert answer.headers["content-type"] == BINARY["Content-Type"]
            assert translated_name(name, "und") in answer.headers["content-disposition"]


def test_parameters_of_v1_are_those_of_the_command(client, trained, tmp_path, command_line):
    path = tmp_path / "messages.po"
    path.write_bytes(FILES[path.name])
    command = ["translate", trained / "run", "--document", path, "--translate-all", "--beam-size", 1]
    status, expected, err = command_line(*command, "--ban-words", "AMBER", "BIRCH")
    assert status == 0, err
    parameters = {"translate_all": "true", "beam_size": "1", "ban_words": ["AMBER", "BIRCH"], "format": "po"}
    job = send(client, "messages.unknown", FILES[path.name], **parameters).json()
    assert wait(client, job["id"])["status"] == "done"
    assert client.get(f"{V1}/{job['id']}/result").text == expected
    whole = send(client, "a.txt", b"Amber birch. Cedar delta.", split_sentences="false").json()
    assert whole["sentences_total"] == 1


@pytest.mark.long
def test_documents_that_are_sent_at_once_are_not_mixed(client, models):
    random_words = random.Random(1)
    texts = {
        f"{number}.txt": "\n".join(" ".join(random_words.choices(WORDS, k=3)) for _ in range(number))
        for number in range(1, 13)
    }
    translator, found = models.models[0].translator, {}

    def run(name, text):
        found[name] = ROUTES[len(text) % 3](client, name, text.encode()).text

    threads = [threading.Thread(target=run, args=pair) for pair in texts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_SECONDS)
    assert found == {name: "\n".join(translator.translate(text.split("\n"))) for name, text in texts.items()}


def test_the_language_of_a_document_chooses_its_model(models):
    translator = models.models[0].translator
    pairs = [("fr", "es"), ("en", "es"), ("de", "es")]
    several = Models(tuple(ServedModel("-".join(pair), *pair, translator) for pair in pairs))
    texts = {
        "en": "The weather was lovely, and so we went for a long walk through the woods.",
        "de": "Das Wetter war schön, und deshalb gingen wir lange im Wald spazieren.",
    }
    seen = []
    with connected(several) as (own, client):
        read = own.translate_in_parts
        own.translate_in_parts = lambda model, *rest: seen.append(model.source) or read(model, *rest)
        for text in texts.values():
            file = {"file": ("a.html", f"<p>{text}</p>")}
            client.post("/translate_file", data={"source": "auto", "target": "es"}, files=file)
            client.post("/v2/document", data={"target_lang": "ES"}, files=file)
            send(client, "a.html", f"<p>{text}</p>", source="auto", target="es")
    assert seen == [language for language in texts for _ in ROUTES]


# ---- clients


@pytest.mark.long
def test_the_client_of_deepl(server, client, tmp_path):
    own, url = server
    translator = deepl.DeepLClient("any", server_url=url)
    before = translator.get_usage().character.count
    for name, content in FILES.items():
        path, out = tmp_path / name, tmp_path / f"out-{name}"
        path.write_bytes(content)
        status = translator.translate_document_from_filepath(path, out, target_lang="DE")
        expected = by_v1(client, name, content).content
        assert (status.status.value, out.read_bytes()) == ("done", expected)
        written = io.BytesIO()
        more = {"filename": name}
        source = io.BytesIO(content)
        translator.translate_document(source, written, target_lang="DE", extra_body_parameters=more)
        assert written.getvalue() == expected
    assert translator.get_usage().character.count > before
    handle = translator.translate_document_upload(b"amber", filename="a.txt", target_lang="DE")
    translator.translate_document_wait_until_done(handle)
    translator.translate_document_download(handle, io.BytesIO())
    upload = partial(translator.translate_document_upload, b"amber", target_lang="DE")
    for refused in (
        lambda: translator.translate_document_download(handle, io.BytesIO()),  # it is removed
        lambda: upload(filename="a.pdf"),
        lambda: upload(filename="a.txt", output_format="docx"),
        lambda: upload(filename="a.txt", formality="more"),
    ):
        with pytest.raises(deepl.DeepLException, match=r"Not found|Bad request"):
            refused()
    assert len(own.documents._jobs) == len({path.stem for path in folder_of(own)})


@pytest.mark.long
def test_the_client_of_libretranslate(server, client, tmp_path):
    with libretranslate_aio.LibreTranslate(server[1], timeout=MAX_SECONDS) as other:
        for name, content in FILES.items():
            path = tmp_path / name
            path.write_bytes(content)
            url = other.translate_file(path, "en", "de").translated_file_url
            assert url.startswith(f"{server[1]}/download_file/")
            assert httpx.get(url).content == by_v1(client, name, content).content
        assert set(other.frontend_settings().supported_files_format) == ENDINGS.keys() - {""}
        (tmp_path / "a.pdf").write_bytes(b"%PDF")
        with pytest.raises(BadRequestError, match="it is a PDF"):
            other.translate_file(tmp_path / "a.pdf", "en", "de")
    proxied = {"X-Forwarded-Proto": "https", "Host": "localhost:1"}
    answer = client.post(
        "/translate_file", data={"source": "en", "target": "de"}, files={"file": ("a.md", b"amber")},
        headers=proxied,
    )  # fmt: skip
    assert re.fullmatch(
        r"https://localhost:1/download_file/[\w-]{32}\.md", answer.json()["translatedFileUrl"]
    )


# ---- states


def test_progress_counts_up_to_all_sentences(client, monkeypatch):
    """The events begin when the reader asks for them, and may have only the end of a fast translation."""
    monkeypatch.setattr(service, "PART_TOKENS", 10)
    for _ in range(20):
        job = send(client, "a.txt", b"amber birch cedar\n" * 20).json()
        with client.stream("GET", f"{V1}/{job['id']}/events") as answer:
            events = answer.read().decode().strip().split("\n\n")
        names, states = zip(
            *(re.fullmatch(r"event: (\w+)\ndata: (.*)", each).groups() for each in events), strict=True
        )
        done = [json.loads(state)["sentences_done"] for state in states]
        assert done == sorted(done)
        assert (names[-1], done[-1], set(names[:-1])) == ("end", 20, {"progress"})
        if len(set(done)) > 5:
            break
    else:
        pytest.fail("no reader has seen the progress")
    last = client.get(f"{V1}/{job['id']}").json()
    assert last == json.loads(states[-1])
    assert last["status"] == "done"


def sentences_of(client, job_id, count=500):
    """The sentences of a document, from answers with at most so many."""
    sentences, total = [], 1
    while len(sentences) < total:
        page = client.get(f"{V1}/{job_id}/sentences", params={"start": len(sentences), "count": count}).json()
        assert len(page["sentences"]) == min(count, page["sentences_total"] - len(sentences))
        sentences += page["sentences"]
        total = page["sentences_total"]
    return sentences


@pytest.mark.long
def test_the_sentences_of_a_document_come_in_parts_of_any_size(client):
    for name, content in FILES.items():
        job = send(client, name, content).json()
        wait(client, job["id"])
        pairs = sentences_of(client, job["id"])
        assert all(sentences_of(client, job["id"], count) == pairs for count in (1, 2, 3))
        past = client.get(f"{V1}/{job['id']}/sentences?start=1000").json()
        assert past == {"sentences_total": len(pairs), "sentences": []}
        segments = document_of(name, content).segments
        for pair, segment in zip(pairs, segments, strict=True):
            assert not re.search("[<\x03]", pair["source"] + pair["translation"])
            assert segment.marks or pair["source"] == segment.sentence
        if not any(segment.marks for segment in segments):
            written = document_of(name, content).write([pair["translation"] for pair in pairs])
            assert client.get(f"{V1}/{job['id']}/result").content == written
        for parameters in ({"count": 0}, {"count": 501}, {"start": -1}, {"page": 1}):
            refused = client.get(f"{V1}/{job['id']}/sentences", params=parameters)
            assert (refused.status_code, *parameters) == (400, re.search("count|start|page", refused.text)[0])


def document_of(name, content):
    """A document as the server reads it."""
    languages = Languages("und", "und")
    return READERS[format_of_name(PurePath(name), languages)](content, Reading(name, "und", "und"))


def test_a_sentence_that_is_changed_is_so_in_the_file_and_nothing_else_is(client):
    """One with tags takes what the model ends with, and they stay; one with addresses takes nothing."""
    statuses = set()
    for name, content in FILES.items():
        document = document_of(name, content)
        job = send(client, name, content).json()
        wait(client, job["id"])
        path = f"{V1}/{job['id']}"
        first = client.get(f"{path}/result").content
        pairs = sentences_of(client, job["id"])

        def change(number, text, path=path):
            return client.put(f"{path}/sentences/{number}", json={"translation": text})

        texts = [pair["translation"] for pair in pairs]
        for number, (segment, pair) in enumerate(zip(document.segments, pairs, strict=True)):
            kept = change(number, pair["translation"])
            assert client.get(f"{path}/result").content == first
            other = change(number, f" NEW\n{number} ")
            assert (kept.status_code, other.status_code) == (
                200 if pair["is_changeable"] else 400,
                400 if segment.marks else 200,
            )
            statuses.add((kept.status_code, other.status_code))
            if not segment.marks:
                assert other.json() == pair | {"translation": f"NEW {number}"}
                shown = [one["translation"] for one in sentences_of(client, job["id"])]
                assert shown == [*texts[:number], f"NEW {number}", *texts[number + 1 :]]
                if not any(one.marks for one in document.segments):
                    assert client.get(f"{path}/result").content == document.write(shown)
                assert client.get(f"{path}/result").content != first
                change(number, pair["translation"])
    assert statuses == {(200, 200), (200, 400), (400, 400)}


def test_a_change_that_is_no_sentence_s_is_refused(client, models):
    done = send(client, "a.txt", b"amber").json()
    wait(client, done["id"])
    path = f"{V1}/{done['id']}/sentences"
    before = client.get(f"{V1}/{done['id']}/result").text
    for status, number, body in (
        (404, "1", {"translation": "A"}),
        (404, "-1", {"translation": "A"}),
        (404, "9" * 30, {"translation": "A"}),
        (400, "0", {"translation": " \n"}),
        (400, "0", {"translation": "A" * 10_001}),
        (400, "0", {"text": "A"}),
    ):
        assert client.put(f"{path}/{number}", json=body).status_code == status
    assert client.get(f"{V1}/{done['id']}/result").text == before
    with connected(models) as (_, other):
        running = send(other, "a.txt", b"amber birch cedar delta\n" * 1_000, beam_size=16).json()
        early = other.put(f"{V1}/{running['id']}/sentences/0", json={"translation": "A"})
        assert (early.status_code, early.json()["error"]["code"]) == (409, "not_ready")
        assert sentences_of(other, running["id"])[-1].keys() == {"source", "is_changeable"}
        assert other.delete(f"{V1}/{running['id']}").status_code == 204
        gone = other.put(f"{V1}/{running['id']}/sentences/0", json={"translation": "A"})
        assert gone.status_code == other.get(f"{V1}/{running['id']}/sentences").status_code == 404


@pytest.mark.long
def test_changes_at_once_are_all_in_the_file(client):
    job = send(client, "a.txt", "\n".join(WORDS)).json()
    wait(client, job["id"])

    def change(number):
        answer = httpx.put(
            f"{client.base_url}{V1}/{job['id']}/sentences/{number}", json={"translation": f"NEW {number}"}
        )
        assert answer.status_code == 200

    threads = [threading.Thread(target=change, args=[number]) for number in range(len(WORDS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_SECONDS)
    written = client.get(f"{V1}/{job['id']}/result").text
    assert written == "\n".join(f"NEW {number}" for number in range(len(WORDS)))


def test_only_the_key_that_sent_a_document_gets_it(models):
    keys = Keys({name: hash_of(name) for name in ("one", "two")})
    with connected(models, keys) as (own, client):
        one, two = ({"Authorization": f"Bearer {name}"} for name in ("one", "two"))
        file = {"file": ("a.txt", b"amber")}
        job = client.post(V1, params={"name": "a.txt"}, content=b"amber", headers=BINARY | one).json()
        wait(client, job["id"], headers=one)
        form = {"source": "en", "target": "de", "api_key": "one"}
        url = client.post("/translate_file", data=form, files=file).json()["translatedFileUrl"]
        handle = client.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=one).json()
        key = {"document_key": handle["document_key"]}
        document = f"/v2/document/{handle['document_id']}"
        requests = [
            *(("GET", f"{V1}/{job['id']}{rest}", None) for rest in ("", "/events", "/result")),
            ("GET", url, None),
            ("POST", document, key),
            ("POST", f"{document}/result", key),
            ("DELETE", f"{V1}/{job['id']}", None),
        ]
        for headers, status in (({}, 403), (two, 404), (one, 200)):
            for method, path, body in requests:
                answer = client.request(method, path, json=body, headers=headers)
                assert answer.status_code in (status, 204 if status == 200 else status), (method, path)
        wrong = client.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=one).json()
        for body in (
            {},
            {"document_key": ""},
            {"document_key": handle["document_key"]},
            {"document_key": "ä"},
        ):
            for path in (
                f"/v2/document/{wrong['document_id']}",
                f"/v2/document/{wrong['document_id']}/result",
            ):
                assert client.post(path, json=body, headers=one).status_code == 404
        assert all(len(path.name) >= 128 / 6 for path in folder_of(own))


def test_ids_are_random():
    ids = {documents.random_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(re.fullmatch(r"[\w-]{32}", each) for each in ids)


def test_files_are_readable_by_their_user_alone(models):
    with connected(models) as (own, client):
        job = send(client, "../secret.txt".rpartition("/")[2], b"amber").json()
        wait(client, job["id"])
        assert len(folder_of(own)) == 2
        for path in folder_of(own):
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert "secret" not in str(path)


def test_a_document_that_is_removed_frees_all_that_it_had(models):
    with connected(models, max_documents=1, max_stored=20_000) as (own, client):
        long = "amber birch cedar delta ember fjord grove heath\n" * 250
        for _ in range(3):
            job = send(client, "a.txt", long, beam_size=16).json()
            assert job["sentences_total"] == 250
            assert own.admission.requests == 1
            events = []
            reader = threading.Thread(
                target=lambda job_id, read: read.append(httpx.get(f"{client.base_url}{V1}/{job_id}/events")),
                args=(job["id"], events),
            )
            reader.start()
            full = send(client, "b.txt", b"amber")
            assert (full.status_code, int(full.headers["retry-after"]) > 0) == (429, True)
            early = client.get(f"{V1}/{job['id']}/result")
            assert (early.status_code, early.json()["error"]["code"]) == (409, "not_ready")
            assert client.delete(f"{V1}/{job['id']}").status_code == 204
            until(lambda: not own.admission.requests)
            assert (own.admission.tokens, own.admission.held) == (0, {})
            reader.join(MAX_SECONDS)
            assert folder_of(own) == []
            for method, rest in (("GET", ""), ("GET", "/result"), ("GET", "/events"), ("DELETE", "")):
                assert client.request(method, f"{V1}/{job['id']}{rest}").status_code == 404
        assert send(client, "b.txt", b"amber").status_code == 200


def test_a_client_that_does_not_wait_for_its_file_frees_its_place(models):
    with connected(models) as (own, client):
        long = "amber birch cedar delta ember fjord grove heath\n" * 1_500
        request = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", long)}}

        async def leave():
            async with httpx.AsyncClient(base_url=client.base_url) as impatient:
                answer = asyncio.create_task(
                    impatient.post("/translate_file", **request, timeout=MAX_SECONDS)
                )
                while not any(job.done for job in own.documents._jobs.values()) and not answer.done():
                    await asyncio.sleep(0.005)
                assert answer.cancel()

        asyncio.run(leave())
        until(lambda: not own.admission.requests and not own.documents._jobs)
        assert folder_of(own) == []


def test_what_is_not_downloaded_is_removed_after_its_time(models, monkeypatch):
    monkeypatch.setattr(documents, "KEEP_SECONDS", 0.05)
    with connected(models) as (own, client):
        job = send(client, "a.txt", b"amber").json()
        wait(client, job["id"])
        form = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"amber")}}
        url = client.post("/translate_file", **form).json()["translatedFileUrl"]
        until(lambda: not own.documents._jobs and folder_of(own) == [])
        assert (own.documents._places.held, own.documents._bytes.held) == ({}, {})
        assert client.get(url).status_code == client.get(f"{V1}/{job['id']}").status_code == 404


def test_a_translation_that_takes_too_long_fails_with_a_sentence(models):
    with connected(models, document_deadline=0.05) as (own, client):
        long = b"amber birch cedar delta ember fjord grove heath\n" * 2_000
        job = send(client, "a.txt", long, beam_size=16)
        if job.status_code == 200:
            status = wait(client, job.json()["id"])
            assert (status["status"], status["error"]["code"]) == ("failed", "deadline_passed")
            assert "0.05 seconds" in status["error"]["message"]
            assert client.get(f"{V1}/{status['id']}/result").status_code == 504
        else:
            assert job.status_code == 504
        form = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", long)}}
        answer = client.post("/translate_file", **form)
        assert (answer.status_code, "0.05 seconds" in answer.json()["error"]) == (504, True)
        assert folder_of(own) == []
        assert own.admission.requests == 0


@pytest.mark.long
def test_a_document_counts_as_a_text(models):
    """It is refused by the same limits, and with the same statuses."""
    with connected(models, max_tokens=50, queue_tokens=100, requests_per_minute=1_000) as (own, client):
        many = "amber birch\n" * 60
        for status, text in ((413, many), (413, "amber " * 2_000), (200, "amber")):
            file = {"file": ("a.txt", text)}
            answers = [
                send(client, "a.txt", text),
                client.post("/translate_file", data={"source": "en", "target": "de"}, files=file),
                client.post("/v2/document", data={"target_lang": "DE"}, files=file),
                client.post("/v1/translate", json={"text": text}),
            ]
            assert [each.status_code for each in answers] == [status] * 4, text
        until(lambda: not own.admission.requests)
        with own.admission.admit(100, "127.0.0.1"):
            full = send(client, "a.txt", "amber")
            assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
        assert send(client, "a.txt", "amber", beam_size=99).status_code == 400
        own.is_stopping = True
        assert send(client, "a.txt", "amber").status_code == 503


@pytest.mark.long
def test_processes_answer_as_one(models, tmp_path, capsys):
    """Whichever process has a document, each gives its state, its sentences and its file, and removes it."""
    processes = [Process(number, tmp_path) for number in (0, 7)]
    keys = Keys({name: hash_of(name) for name in ("one", "two")})
    with ExitStack() as stack:
        services, urls = zip(
            *(
                stack.enter_context(served(models, keys, process, allow_origins=("https://example.org",)))
                for process in processes
            ),
            strict=True,
        )
        one, two = (
            [
                stack.enter_context(
                    httpx.Client(
                        base_url=url, timeout=MAX_SECONDS, headers={"Authorization": f"Bearer {name}"}
                    )
                )
                for url in urls
            ]
            for name in ("one", "two")
        )
        for here, there in ((0, 1), (1, 0)):
            own, other = services[here], one[there]
            for name, content in FILES.items():
                job_id = send(one[here], name, content).json()["id"]
                assert wait(other, job_id) == wait(one[here], job_id)
                path = f"{V1}/{job_id}"
                origin = {"Origin": "https://example.org"}
                answers = [client.get(f"{path}/result", headers=origin) for client in (one[here], other)]
                assert answers[0].content == answers[1].content
                assert dict(answers[0].headers).keys() == dict(answers[1].headers).keys()
                assert sentences_of(other, job_id) == sentences_of(one[here], job_id)
                if sentences_of(other, job_id):
                    change = {"translation": other.get(f"{path}/sentences").json()["sentences"][0]["source"]}
                    statuses = [client.put(f"{path}/sentences/0", json=change).status_code for client in one]
                    assert statuses[0] == statuses[1]
                assert two[there].get(path).status_code == two[there].delete(path).status_code == 404
                assert other.delete(path).status_code == 204
                assert one[here].get(path).status_code == other.get(path).status_code == 404
            form = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"amber")}}
            url = one[here].post("/translate_file", **form).json()["translatedFileUrl"]
            assert other.get(httpx.URL(url).path).content == one[here].get(url).content
            upload = deepl.DeepLClient("one", server_url=urls[here]).translate_document_upload
            handle = upload(b"amber birch", filename="a.txt", target_lang="DE")
            translator, written = deepl.DeepLClient("one", server_url=urls[there]), io.BytesIO()
            translator.translate_document_wait_until_done(handle)
            translator.translate_document_download(handle, written)
            assert written.getvalue()
            assert len(own.documents._jobs) == 1
            assert not services[there].documents._jobs or here
        unknown = f"{V1}/{processes[1].document_id(documents.random_id())}"
        with pytest.raises(DragomanError, match="TMPDIR"):
            Process(1, tmp_path / ("a" * 200)).listen()
        assert one[0].get(unknown).status_code == one[0].get(unknown.replace("/07", "/ff")).status_code == 404
        counted = Counter(route for own in services for route, _, _ in own.metrics.requests.elements())
        assert "other" not in counted  # each request is counted once, by the process that has answered it
        names = [json.loads(line)["id"] for line in capsys.readouterr().err.splitlines() if '"route"' in line]
        assert len(names) == len({*names}) == counted.total()


def memory_of(process_id):
    """The bytes of a process in memory."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def test_a_killed_process_leaves_a_folder_that_the_next_one_removes(tmp_path, monkeypatch):
    """Those of living processes, files and links are left alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "kept").mkdir()
    (tmp_path / "a-link").symlink_to(tmp_path / "kept")
    (tmp_path / "a-file").touch()
    living = TemporaryFolder("a-")
    program = """
from dragoman.system.temporary import TemporaryFolder
folder = TemporaryFolder("a-")
(folder.path / "a").touch()
print(folder.path, flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        folder = Path(process.stdout.readline().strip())
        remove_abandoned("a-")
        assert list(folder.iterdir())
        process.kill()
    assert folder.exists()
    other = TemporaryFolder("a-")
    assert {path.name for path in tmp_path.iterdir()} == {
        "kept", "a-link", "a-file", living.path.name, other.path.name
    }  # fmt: skip
    for mine in (living, other):
        assert stat.S_IMODE(mine.path.stat().st_mode) == 0o700
        mine.remove()
        assert not mine.path.exists()


@pytest.mark.long
def test_a_document_that_is_read_for_ever_ends_with_its_request(models, monkeypatch):
    """At its deadline, and when its client goes away."""
    monkeypatch.setattr(document_routes, "read_sentences", read_for_ever)
    before = set(active_children())
    for options, timeout in (({"deadline": 0.5}, MAX_SECONDS), ({}, 0.5)):
        with connected(models, **options) as (own, client):
            with pytest.raises(httpx.ReadTimeout) if not options else nullcontext():
                limits = httpx.Timeout(MAX_SECONDS, read=timeout)
                answer = client.post(
                    V1, params={"name": "a.txt"}, content=b"amber", headers=BINARY, timeout=limits
                )
                assert answer.status_code == 504
            until(lambda own=own: not own.documents._jobs and set(active_children()) <= before)
            assert folder_of(own) == []


@pytest.mark.long
def test_nothing_is_left_when_the_server_ends(trained, tmp_path, monkeypatch):
    """Nor is anything left of the memory of a hostile document that has been refused."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with (
        serving(trained / "run", "--max-document-memory", 200_000_000) as server,
        server.client() as client,
    ):
        done = send(client, "a.txt", b"amber").json()
        wait(client, done["id"])
        before = memory_of(server.process.pid)
        assert send(client, "a.html", b"<b>" * 3_000_000).status_code == 413
        assert memory_of(server.process.pid) < before + 100e6
        running = send(
            client, "b.txt", b"amber birch cedar delta ember fjord grove heath\n" * 250, beam_size=16
        )
        assert running.status_code == 200
        assert list(tmp_path.glob("dragoman-documents-*/*"))
        assert server.stop() == 0
        assert not any('"error"' in line for line in server.log), server.log
    assert not list(tmp_path.glob("dragoman-documents-*"))


# ---- hostile uploads


BOMB = pack({"[Content_Types].xml": "<a/>", "word/document.xml": bytes(9_000_000)})
HOSTILE = {
    "a zip bomb": ("a.docx", BOMB, 400),
    "a PDF": ("a.pdf", b"%PDF-1.7", 400),
    "a PDF with another ending": ("a.docx", b"%PDF-1.7", 400),
    "an unknown ending": ("a.exe", b"MZ", 400),
    "a wrong ending": ("a.docx", b"amber", 400),
    "bytes that are no text": ("a.txt", b"\xff\xfe\xfd" * 9, 400),
    "an empty file": ("a.txt", b"", 400),
    "no name": ("", b"amber", 400),
    "a long name": ("a" * 300 + ".txt", b"amber", 400),
    "a path in the name": ("../../etc/a.txt", b"amber", 400),
    "a path of Windows in the name": ("a\\..\\b.txt", b"amber", 400),
    "a name that reads otherwise": ("a\u202etxt.docx.txt", b"amber", 400),
    "a name of a folder": ("..", b"amber", 400),
    "a large file": ("a.txt", b"a" * 10_000_001, 413),
    "a larger file": ("a.txt", b"a" * 12_000_000, 413),
    "a damaged file": ("a.docx", FILES["report.docx"][:-40], 400),
    **{f"a file with {ending}": (f"a{ending}", b"amber", 400) for ending in (".pdf", ".sdlxliff")},
}


@pytest.mark.short_form(2)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_document_is_refused_with_a_sentence(server, client, kind):
    name, content, status = HOSTILE[kind]
    own = server[0]
    before = len(own.documents._jobs)
    answers = [
        send(client, name, content),
        client.post(
            "/translate_file", data={"source": "en", "target": "de"}, files={"file": (name, content)}
        ),
        client.post("/v2/document", data={"target_lang": "DE"}, files={"file": (name, content)}),
    ]
    for answer in answers:
        body = answer.json()
        error = body.get("message") or body["error"]
        message = error if isinstance(error, str) else error["message"]
        assert answer.status_code == status, message
        assert re.fullmatch(r"\S.* .*\.", message, re.DOTALL), message
    assert len(own.documents._jobs) == before
    assert own.admission.requests == 0


def test_a_form_that_is_no_form_of_a_document_is_refused(client):
    two = [("file", ("a.txt", b"amber")), ("file", ("b.txt", b"birch"))]
    one = two[:1]
    form = {"source": "en", "target": "de", "target_lang": "DE"}
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    start, end = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n', b"\r\n--b--"
    bodies = [
        *(b"", b"amber", start + b"amber", start + b"amber\r\n--b"),
        start.replace(b'name="file"; ', b"") + end,
        b"--b\r\n" + b"A" * (MAX_PART + 1) + b": b\r\n\r\n" + end,
        b"--b\r\nA: " + b"b" * (MAX_PART + 1) + b"\r\n\r\n" + end,
    ]
    for path in ("/translate_file", "/v2/document"):
        requests = [
            {"data": form, "files": two},
            {"data": form, "files": [*one, ("other", ("b.txt", b"birch"))]},
            {"data": form},
            {"json": form},
            {"data": form, "files": {"name": (None, "b")}},
            {"data": form | {"file": "amber"}},
            {"data": form | {"x": "a" * (MAX_PART + 1)}, "files": one},
            {"data": form, "files": [*one, *((str(number), (None, "")) for number in range(MAX_PARTS))]},
            {"data": {}, "files": one},
            {"data": form | {"target": "x" * 99, "target_lang": "x" * 99}, "files": one},
            {"params": form, "content": start + end, "headers": {"Content-Type": "multipart/form-data"}},
            *({"params": form, "content": body, "headers": kind} for body in bodies),
        ]
        for request in requests:
            answer = client.post(path, **request)
            assert answer.status_code == 400, (request, answer.text)
            assert isinstance(answer.json().get("message") or answer.json()["error"], str)
        good = {"params": form, "content": start + b"amber" + end, "headers": kind}
        assert client.post(path, **good).status_code == 200


@pytest.mark.parametrize(
    "kind", ["multipart/form-data; boundary=b", "application/x-www-form-urlencoded", "text/plain", None]
)
def test_no_form_of_another_site_sends_a_document(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post(f"{V1}?name=a.txt", content=b"amber", headers=headers)
    assert answer.status_code == 415
    for path in (V1, "/translate_file", "/v2/document"):
        headers = {"Origin": "https://example.org", **BINARY}
        assert client.post(f"{path}?name=a.txt", content=b"amber", headers=headers).status_code == 403


@pytest.mark.long
def test_limits_of_archives_are_settings_of_the_server(models):
    unpacked = sum(len(data) for data in unpacked_members(FILES["report.docx"]))
    members = len(unpacked_members(FILES["report.docx"]))
    for limits, status in (
        ({"max_unpacked": unpacked, "max_members": members}, 200),
        ({"max_unpacked": unpacked - 1}, 400),
        ({"max_members": members - 1}, 400),
        ({"max_document": len(FILES["report.docx"]) - 1}, 413),
        ({"max_document": len(FILES["report.docx"])}, 200),
    ):
        with connected(models, **limits) as (_, client):
            assert send(client, "report.docx", FILES["report.docx"]).status_code == status
    own = Documents(ServerSettings(max_unpacked=7, max_members=8, max_ratio=9))
    assert own.limits == ArchiveLimits(7, 8, 9)


def unpacked_members(content):
    from tests.office_files import unpack

    return [data for _, _, data in unpack(content)]


def test_bodies_that_are_received_are_bounded_together(models):
    with connected(models, max_document=1_000, max_stored=100_000) as (own, client):
        with own.documents.received.hold(100_000, "127.0.0.1"):
            answer = send(client, "a.txt", b"amber")
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)
            assert client.post("/v1/translate", json={"text": "amber"}).status_code == 200
        assert send(client, "a.txt", b"amber").status_code == 200
        until(lambda: not own.documents.received.held)


# ---- parts


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@given(NAMES)
@example('a"b\\;\r\n.docx')
@example("Übersicht – 表.docx")
def test_a_file_name_comes_back_from_its_header_and_can_break_out_of_none(name):
    header = disposition(name)
    plain, encoded = re.fullmatch(
        r"attachment; filename=\"([A-Za-z0-9_ .()-]*)\"; filename\*=UTF-8''([A-Za-z0-9_.~%-]*)", header
    ).groups()
    assert unquote(encoded) == name
    assert len(plain) == len(unicodedata.normalize("NFKD", name))


FIELD = st.text(st.characters(codec="utf-8", exclude_characters='"\\\r\n', exclude_categories=["Cs", "Cc"]),
                min_size=1, max_size=9)  # fmt: skip


@given(st.dictionaries(FIELD.filter(lambda name: name != "file"), st.text(max_size=20), max_size=4),
       FIELD, st.binary(max_size=99), st.data())  # fmt: skip
def test_the_parts_of_a_form_are_those_that_were_sent(fields, name, content, data):
    fields = {key: value.encode("utf-8", "ignore").decode() for key, value in fields.items()}
    request = httpx.Request("POST", "http://a", data=fields, files={"file": (name, content)})
    body, kind = request.read(), request.headers["content-type"].encode()
    assert sorted(read_form(body, kind), key=repr) == sorted(
        [*fields.items(), ("file", Upload(name, content))], key=repr
    )
    place = data.draw(st.integers(0, len(body) - 1))
    for damaged in (body[:place], body[:place] + data.draw(st.binary(max_size=5)) + body[place + 1 :]):
        with suppress(ApiError):  # and no other error
            assert all(isinstance(part, str | Upload) for _, part in read_form(damaged, kind))


@settings(max_examples=20)
@given(st.lists(st.integers(1, 12), max_size=30), st.integers(1, 40))
def test_the_parts_of_a_search_are_its_sentences_and_short(models, sizes, limit):
    text = "\n".join(" ".join(WORDS[(size + word) % 8] for word in range(size)) for size in sizes)
    text = text.replace("heath", "https://example.org heath", 1)
    segments = plain_text(text, "und").segments
    groups = prepare_groups(models.models[0].translator, segments, SearchSettings(), 10**6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "PART_TOKENS", limit)
        parts = list(parts_of(groups))
    places = [place for part in parts for place in part.places]
    assert places == [place for group in split_by_marks(segments) for place in group]
    for part in parts:
        assert len(part.places) == len(part.prepared.parts) == len(part.prepared.without_tags)
        assert part.prepared.tokens <= limit or len(part.places) == 1
    assert [source for part in parts for source in part.prepared.sources] == [
        source for group in groups for source in group.prepared.sources
    ]


@given(st.lists(st.integers(0, 20), max_size=9), st.integers(0, 50), st.booleans())
def test_tokens_that_are_done_leave_the_queue_and_all_do_in_the_end(counts, rest, fails):
    queue = Admission(10**6, 8.0)
    total = sum(counts) + rest
    with ExitStack() as stack:
        stack.enter_context(queue.admit(7, "other"))
        with pytest.raises(ZeroDivisionError) if fails else ExitStack(), queue.admit(total, "one") as finish:
            for done, count in enumerate(counts, 1):
                finish(count)
                assert queue.tokens == 7 + total - sum(counts[:done])
                assert queue.held["one"] == queue.tokens - 7
            assert queue.requests == 2
            if fails:
                raise ZeroDivisionError
        assert (queue.tokens, queue.requests, +queue.held) == (7, 1, {"other": 7})
        assert queue._done == (sum(counts) if fails else total)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=30))
def test_what_clients_hold_is_given_back_and_bounded(requests):
    shares, held = Shares(100), []
    for client, amount in requests:
        before = dict(shares.held)
        with suppress(ApiError):
            shares.take(amount, client)
            held.append((client, amount))
            assert shares.held.total() <= 100 * (1 + 1 / 2 + 1 / 3)
            continue
        assert dict(shares.held) == before
    for client, amount in held:
        shares.give_back(amount, client)
    assert not +shares.held


def test_reading_ends_if_nobody_wants_the_document_any_more(tmp_path):
    """Whatever the process of the document does; it is gone then."""
    own = Documents(ServerSettings())
    job = Job("one", None, tmp_path / "job", "job")
    endless = own.in_thread(job, lambda: own.in_child(read_for_ever, job.path))
    until(job.path.exists)
    (process,) = (process.pid for process in active_children())
    endless.cancel()
    with pytest.raises(CancelledError):
        endless.result(MAX_SECONDS)
    until(lambda: not is_running(process))
    assert own.in_thread(job, lambda: own.in_child(first_letter, "amber")).result(MAX_SECONDS) == b"a"
    own.close()


def is_running(process_id):
    with suppress(ProcessLookupError):
        os.kill(process_id, 0)
        return True
    return False


def test_a_process_of_a_document_has_an_answer_whatever_happens_in_it():
    own = Documents(ServerSettings(max_document_memory=300_000_000))
    for function, arguments, error, message in (
        (need_memory, (), ApiError, "300,000,000 bytes of memory"),
        (os.abort, (), ApiError, "divide it"),
        (first_letter, ("",), DragomanError, "There is no text."),
        (first_letter, (1,), RuntimeError, "TypeError"),
    ):
        with pytest.raises(error, match=message):
            own.in_child(function, *arguments)
    own.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
def test_a_full_disk_is_told_as_such_and_is_no_defect(tmp_path, monkeypatch, capsys):
    own, job, full = Documents(ServerSettings()), Job("one", None, tmp_path / "job", "job"), "/dev/full"
    for write in (lambda: Path(full).write_bytes(b"a"), lambda: own.in_child(write_to, full)):
        with pytest.raises(ApiError, match="^The server cannot write documents: No space left on") as error:
            own.in_thread(job, write).result(MAX_SECONDS)
        assert (error.value.status, error.value.code) == (503, "not_written")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    for _ in range(ServerSettings().max_documents + 1):  # the client's share is not used up
        with pytest.raises(ApiError, match="cannot write documents: No such file or directory"):
            own.add("one", None, 10**6)
    assert capsys.readouterr().err.count('"level":"error","message":"The server cannot write documents') > 2
    own.close()


def test_a_document_that_is_removed_while_it_is_written_leaves_no_file(tmp_path):
    async def run():
        own = Documents(ServerSettings())
        job = own.add("one", None, 5)
        own.remove(job)
        own.remove(job)
        for path in (job.path, job.unfinished_path, job.translated_path):
            await asyncio.wrap_future(own.in_thread(job, partial(path.write_bytes, b"amber")))
            assert not path.exists()
        assert job.path.parent.exists()
        own.close()
        assert not job.path.parent.exists()

    asyncio.run(run())
    assert os.listdir(tmp_path) == []


def test_a_server_that_stops_ends_the_searches_that_run_and_keeps_what_is_done():
    async def run():
        own = Documents(ServerSettings())
        running, waiting, done, removed = (own.add("one", None, 5) for _ in range(4))
        for job in (running, done, removed):
            job.task = asyncio.create_task(asyncio.sleep(0 if job is done else MAX_SECONDS))
        await done.task
        done.end()
        own.remove(removed)
        own.stop()
        await asyncio.wait((running.task, removed.task), timeout=1)
        assert [job.task.cancelled() for job in (running, done, removed)] == [True, False, True]
        assert [job.status for job in (running, waiting, done)] == ["failed", "translating", "done"]
        assert (running.error.status, running.error.retry_after) == (503, 1)
        own.close()

    asyncio.run(run())

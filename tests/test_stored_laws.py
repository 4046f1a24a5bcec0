"""What a server keeps of clients, against plain tables: glossaries of several processes, and documents."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.formats import ENDINGS
from dragoman.documents.sentences import write_file
from dragoman.native.settings import EngineSettings
from dragoman.serving import glossaries
from dragoman.serving.admission import excess
from dragoman.serving.apis.deepl_documents import refuse_conversion
from dragoman.serving.apis.documents import MAX_NAME, check_upload, translated_name
from dragoman.serving.apis.libretranslate_files import address_of
from dragoman.serving.apis.uploads import read_form
from dragoman.serving.documents import Documents, Upload
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import Glossaries, ServedDictionary, StoredDictionary, StoredGlossary
from dragoman.serving.loading import load_models
from dragoman.serving.models import Models
from dragoman.serving.settings import ServerSettings
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Term
from tests.conftest import MAX_SECONDS
from tests.test_document_routes import connected, send, until, wait

PAIR, BACK, OTHER = Languages("eu", "mt"), Languages("mt", "eu"), Languages("ga", "mt")
OWNERS, NAMES = (None, "one", "two"), ("A", "B", "b" * 40)
PAIRS = st.sampled_from([PAIR, BACK, OTHER])
TERMS = st.lists(st.sampled_from("abcdef"), max_size=4, unique=True).map(
    lambda sources: [Term(source, source.upper()) for source in sources]
)
DICTIONARIES = st.dictionaries(PAIRS, TERMS, max_size=3)
ACTIONS = st.tuples(
    st.sampled_from(["create", "create", "change", "delete", "find"]),
    st.booleans(),  # by the first or the second process
    st.sampled_from(OWNERS),
    st.sampled_from(NAMES),
    st.integers(0, 5),
    DICTIONARIES,
)
LIMITS = ServerSettings(max_glossaries=3, max_glossary_terms=6, max_glossary_bytes=500)


def size_of(owner, name, dictionaries, created):
    """The bytes of a glossary's file."""
    stored = [
        StoredDictionary(
            source=pair.source, target=pair.target, terms=[(one.source, one.target) for one in terms]
        )
        for pair, terms in dictionaries.items()
    ]
    made = StoredGlossary(name=name, owner=owner, created=created, dictionaries=stored)
    return len(made.model_dump_json().encode())


def outcome(function):
    """The result of a function, or the error with which it refuses."""
    try:
        return function()
    except ApiError as error:
        return error


@settings(max_examples=30)
@given(st.lists(ACTIONS, max_size=10))
def test_processes_with_one_folder_have_the_glossaries_that_a_table_has(actions):
    """They are bounded in number, terms and bytes; who made one may change it, and others do not see it."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "trees.eu-mt.tsv").write_text("amber\tX\n" * 30)
        (folder / "a folder").mkdir()
        limits = replace(LIMITS, glossaries=folder, max_glossary_terms=99)
        processes = [Glossaries(limits, [PAIR, BACK]) for _ in range(2)]
        for process in processes:
            process.settings = replace(limits, max_glossary_terms=6)
        (folder / "late.tsv").write_text("no term\n")
        table = {}

        def has_room(owner, size, former):
            count, sizes = Counter(), Counter()
            for other, (one, *_, bytes_) in table.items():
                count[one or ""] += other != former
                sizes[one or ""] += bytes_ if other != former else 0
            return excess(count, owner or "", 1, 3) <= 0 and excess(sizes, owner or "", size, 500) <= 0

        for number, (kind, is_first, owner, name, index, dictionaries) in enumerate(actions, 1):
            process, ids = processes[is_first], [*table, "trees", "none"]
            chosen = ids[index % len(ids)]
            is_mine = chosen in table and table[chosen][0] == owner
            fits = sum(map(len, dictionaries.values())) <= 6
            if kind == "find":
                named = [one for one, (other, known, *_) in table.items() if (other, known) == (owner, name)]
                if not named:
                    assert outcome(lambda: process.find(name, owner)).status == 404
                with suppress(ApiError) if len(named) != 1 else nullcontext():
                    assert process.find(name, owner).id in named
                with suppress(ApiError) if not is_mine and chosen != "trees" else nullcontext():
                    assert process.find(chosen, owner).id == chosen
                    assert is_mine or chosen == "trees"
            elif kind == "create":
                now = datetime(2026, 1, 1, 1, 1, 1, 123456, UTC)
                size = size_of(owner, name, dictionaries, now)
                made = outcome(lambda: process.create(name, dictionaries, owner))
                if isinstance(made, ApiError):
                    assert (made.status, fits and has_room(owner, size, None)) == (413, False)
                else:
                    assert fits
                    assert has_room(owner, made.stamp[1], None)
                    table[made.id] = owner, name, dict(dictionaries), made.created, made.stamp[1]
            elif kind == "change":
                created = table[chosen][3] if chosen in table else datetime.now(UTC)
                size = size_of(owner, name, dictionaries, created)
                changed = outcome(lambda: process.change(chosen, owner, lambda former: dictionaries, name))
                if isinstance(changed, ApiError):
                    assert changed.status == (403 if chosen == "trees" else 413 if is_mine else 404)
                    assert not is_mine or not fits or not has_room(owner, size, chosen)
                else:
                    assert is_mine
                    assert fits
                    assert has_room(owner, size, chosen)
                    table[chosen] = owner, name, dict(dictionaries), created, changed.stamp[1]
            else:
                with suppress(ApiError) if not is_mine else nullcontext():
                    process.delete(chosen, owner)
                    del table[chosen]
            for each in processes if number == len(actions) else [process]:  # the other one sees it later
                for reader in OWNERS:
                    visible = {one.id: one for one in each.visible(reader)}
                    mine = {one: made for one, made in table.items() if made[0] == reader}
                    assert visible.keys() == {*mine, "trees"}
                    for one, (_, known, stored, created, size) in mine.items():
                        served = visible[one]
                        assert (served.name, served.created, served.stamp[1]) == (known, created, size)
                        assert served.counts == {pair: len(terms) for pair, terms in stored.items()}
                        assert each.terms(served) == stored
                        for pair in stored:
                            built = each.build([ServedDictionary(served, pair)], PAIR)
                            assert (built.terms, built.languages) == (stored[pair], PAIR)


@pytest.mark.parametrize("is_later", [False, True])
def test_a_name_stands_for_the_glossary_that_has_it_now_whatever_another_process_did(tmp_path, is_later):
    """It has removed, renamed or changed one of those that this process knows by the name."""
    process = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    ids = [process.create("A", {}, None).id for _ in range(2)]
    other = Glossaries(process.settings, [PAIR])
    other.change(ids[is_later], None, lambda _: {PAIR: [Term("a", "b")]})
    assert process.find(ids[is_later], None).counts == {PAIR: 1}
    assert outcome(lambda: process.find("A", None)).status == 400
    other.change(ids[is_later], None, lambda former: former, "B")
    assert process.find("A", None).id == ids[not is_later]
    assert process.find("B", None).id == ids[is_later]
    other.delete(ids[not is_later], None)
    assert outcome(lambda: process.find("A", None)).status == 404
    other.change(ids[is_later], None, lambda former: former, "A")
    assert process.find("A", None).id == ids[is_later]


def test_where_no_room_is_left_a_glossary_may_be_changed_and_not_grow(tmp_path):
    served = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    made = served.create("A", {PAIR: [Term("a", "bb")]}, None)
    served.settings = replace(served.settings, max_glossary_bytes=made.stamp[1])
    for target, is_refused in (("cc", False), ("ccc", True), ("c", False), ("dd", False), ("ddd", True)):
        with pytest.raises(ApiError, match="no room") if is_refused else nullcontext():
            served.change(made.id, None, lambda _, target=target: {PAIR: [Term("a", target)]})
    assert served.terms(served.find(made.id, None)) == {PAIR: [Term("a", "dd")]}


def test_changes_of_several_processes_at_once_are_all_kept(tmp_path):
    processes = [Glossaries(ServerSettings(glossaries=tmp_path), [PAIR]) for _ in range(4)]
    made = processes[0].create("A", {PAIR: []}, None)

    def add(number):
        term = Term(f"a{number}", "x")
        processes[number % 4].change(made.id, None, lambda former: {PAIR: [*former[PAIR], term]})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(24)))
    assert {term.source for term in processes[0].terms(made)[PAIR]} == {f"a{number}" for number in range(24)}


@pytest.mark.parametrize("by_name", [True, False])
def test_a_glossary_that_another_process_changes_while_it_is_looked_for_is_found(tmp_path, by_name):
    one, other = (Glossaries(ServerSettings(glossaries=tmp_path), [PAIR]) for _ in range(2))
    made = one.create("A", {PAIR: []}, None)
    refresh = one.refresh

    def change(target):
        other.change(made.id, None, lambda _: {PAIR: [Term("a", target)]})

    def refresh_before_a_change():
        refresh()
        change("yyy")

    change("xx")
    one.refresh = refresh_before_a_change
    assert one.find("A" if by_name else made.id, None).id == made.id


def test_glossaries_in_memory_are_bounded_and_the_latest_is_one_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(glossaries, "MAX_BUILT", 5)
    served = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    for count in (2, 3, 1, 4, 9, 2, 2):
        made = served.create("A", {PAIR: [Term(f"a{number}", "x") for number in range(count)]}, None)
        dictionaries = [ServedDictionary(made, PAIR)]
        built = served.build(dictionaries, PAIR)
        assert served.built(dictionaries, PAIR) is built is served.build(dictionaries, PAIR)
        assert served.built(dictionaries, BACK) is None
        assert sum(len(one.terms) for one in served._built.values()) <= max(5, count)
    assert len(served._built) == 2
    served.delete(made.id, None)
    with pytest.raises(ApiError) as error:
        served.terms(made)
    assert error.value.status == 404


@settings(max_examples=25)
@given(st.lists(TERMS, min_size=1, max_size=3))
def test_of_several_dictionaries_the_first_that_has_a_term_counts(dictionaries):
    with TemporaryDirectory() as folder:
        served = Glossaries(ServerSettings(glossaries=Path(folder)), [PAIR])
        expected, chosen = {}, []
        for number, terms in enumerate(dictionaries):
            numbered = [Term(term.source, f"{term.target}{number}") for term in terms]
            made = served.create("A", {PAIR: numbered, BACK: [Term("z", "z")]}, None)
            chosen.append(ServedDictionary(made, PAIR))
            expected = {term.source: term for term in numbered} | expected
        assert set(served.build(chosen, PAIR).terms) == set(expected.values())
        assert served.built(chosen[::-1], PAIR) is None or len(chosen) == 1


def test_a_server_that_cannot_write_a_glossary_says_so(tmp_path, monkeypatch):
    served = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    made = served.create("A", {PAIR: [Term("a", "b")]}, None)

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(glossaries, "atomic_write", full)
    for change in (
        lambda: served.create("B", {}, None),
        lambda: served.change(made.id, None, lambda former: {}),
    ):
        with pytest.raises(ApiError, match="cannot write its glossaries: No space left") as error:
            change()
        assert (error.value.status, error.value.code, error.value.retry_after) == (503, "not_written", 60)
    assert served.terms(made) == {PAIR: [Term("a", "b")]}


@pytest.mark.parametrize(
    "term", [Term("a\x85b", "c"), Term("a", "c\u2028"), Term(" ", "c"), Term("a " * 21, "c")]
)
def test_a_term_that_is_refused_in_a_request_is_refused_in_a_glossary(tmp_path, term):
    served = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    with pytest.raises(ApiError):
        served.create("A", {PAIR: [Term("x", "y")], BACK: [term]}, None)
    assert served.visible(None) == []


def test_languages_are_compared_without_regions_and_an_unknown_one_is_any(tmp_path):
    (tmp_path / "a.en-de.tsv").write_text("one\ttwo\n")
    for pair in (Languages("en-GB", "de"), Languages("und", "und"), Languages("en", "de-AT")):
        (served,) = Glossaries(ServerSettings(glossaries=tmp_path), [pair]).visible(None)
        assert served.counts == {pair: 1}
        assert served.between("EN-us", "de") == ServedDictionary(served, pair)
        if "und" not in (pair.source, pair.target):
            for source, target in (("de", "en"), ("en", "fr"), ("fr", "de")):
                with pytest.raises(ApiError):
                    served.between(source, target)


# ---- requests for glossaries


@pytest.fixture(scope="module")
def models(trained):
    (model,) = load_models([trained / "run"], EngineSettings()).models
    pairs = enumerate((PAIR, BACK))
    return Models(
        tuple(replace(model, name=str(n), source=pair.source, target=pair.target) for n, pair in pairs)
    )


def test_requests_that_make_or_change_a_glossary_get_it_or_a_sentence(models, tmp_path):
    pair = {"source_lang": "eu", "target_lang": "mt"}
    both = [pair | {"entries": "a\tA"}, {"source_lang": "MT", "target_lang": "EU-es", "entries": "b\tB"}]
    body = {"name": "Trees", **both[0]}
    with connected(models) as (_, client):
        assert client.get("/v2/glossary-language-pairs").json() == {"supported_languages": []}
        for answer in (
            client.post("/v2/glossaries", json=body),
            client.post("/v3/glossaries", json={"name": "Trees", "dictionaries": both}),
        ):
            assert (answer.status_code, "without --glossaries" in answer.text) == (403, True)
    with connected(models, glossaries=tmp_path) as (_, client):
        refused = [
            ("/v2/glossaries", body | {"name": " "}, "name"),
            ("/v2/glossaries", body | {"name": "x" * 1_025}, "name"),
            ("/v2/glossaries", body | {"target_lang": "eu"}, "Unsupported"),
            ("/v2/glossaries", body | {"entries": "x" * 501 + "\ty"}, "501 characters"),
            ("/v2/glossaries", body | {"entries_format": "xml"}, "xml"),
            ("/v3/glossaries", {"name": "Trees"}, "dictionaries"),
            ("/v3/glossaries", {"name": "\t", "dictionaries": both}, "name"),
            ("/v3/glossaries", {"name": "Trees", "dictionaries": both[:1] * 2}, "two dictionaries"),
        ]
        for path, request, message in refused:
            answer = client.post(path, json=request)
            assert (answer.status_code, message in answer.text) == (400, True), answer.text
        assert list(tmp_path.glob("*.json")) == []
        before = datetime.now(UTC)
        made = client.post("/v3/glossaries", json={"name": "Trees", "dictionaries": both}).json()
        created = datetime.strptime(made["creation_time"], "%Y-%m-%dT%H:%M:%S.%f%z")
        assert before <= created <= datetime.now(UTC)
        assert made["dictionaries"] == [
            {"source_lang": "eu", "target_lang": "mt", "entry_count": 1},
            {"source_lang": "mt", "target_lang": "eu", "entry_count": 1},
        ]
        path = f"/v3/glossaries/{made['glossary_id']}"
        single = client.post("/v2/glossaries", json=body | {"entries": "a\tA\nc\tC"}).json()
        listed = client.get("/v2/glossaries").json()["glossaries"]
        assert listed == [single]
        assert (single["entry_count"], single["name"], single["source_lang"]) == (2, "Trees", "eu")
        assert client.get(f"/v2/glossaries/{single['glossary_id']}/entries").text == "a\tA\nc\tC"
        assert len(client.get("/v3/glossaries").json()["glossaries"]) == 2
        assert client.patch(path, json={"name": " "}).json()["name"] == "Trees"
        assert client.patch(path, json={"name": "Wood"}).json()["name"] == "Wood"
        assert client.put(f"{path}/dictionaries", json={**both[0], "entries": "x\ty\nz\tw"}).json() == {
            **pair, "entry_count": 2,
        }  # fmt: skip
        entries = client.get(f"{path}/entries", params=pair).json()["dictionaries"]
        assert entries == [{**pair, "entries": "x\ty\nz\tw", "entries_format": "tsv"}]
        assert client.get(f"{path}/entries", params={**pair, "source_lang": "ga"}).status_code == 404
        for status in (204, 404):
            assert client.delete(f"{path}/dictionaries", params=pair).status_code == status
        assert client.get(path).json()["dictionaries"] == made["dictionaries"][1:]


# ---- documents


STEPS = st.tuples(
    st.sampled_from(["add", "add", "resize", "resize", "remove", "fail", "done"]),
    st.sampled_from("ab"),
    st.integers(0, 70),
    st.integers(0, 9),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_clients_hold_the_places_and_bytes_of_their_documents(steps):
    """What is refused changes nothing, and a document that has failed has no bytes."""

    async def run():
        own, jobs = Documents(ServerSettings(max_documents=5, max_stored=100)), []
        for kind, client, size, index in steps:
            job = jobs[index % len(jobs)] if jobs else None
            before = dict(own._bytes.held), dict(own._places.held), job and job.size
            result = None
            if kind == "add":
                result = outcome(lambda: own.add(client, None, size))
                jobs += [] if isinstance(result, ApiError) else [result]
            elif job is None:
                continue
            elif kind == "resize":
                result = outcome(lambda: own.resize(job, size))
                assert job.size == size or job.is_removed or result
            elif kind == "remove":
                own.remove(job)
            elif job.status == "translating":
                job.path.write_text("a")
                job.translated_path.write_text("b")
                job.end(ApiError(500, "It failed.") if kind == "fail" else None)
                own.keep(job)
                assert job.timer is not None
                assert job.size == 0 or kind == "done"
                assert job.path.exists() == job.translated_path.exists() == (kind == "done")
            if isinstance(result, ApiError):
                assert result.status == 429
                assert (dict(own._bytes.held), dict(own._places.held), job and job.size) == before
            there = [one for one in jobs if not one.is_removed]
            held = Counter()
            for one in there:
                held[one.client] += one.size
                assert own.find(one.id, None) is one
            assert +own._bytes.held == +held
            assert own._places.held == Counter(one.client for one in there)
            assert sum(held.values()) <= 150 or len(there) == 1
        own.close()
        assert not own._jobs
        assert (own._bytes.held, own._places.held) == ({}, {})

    asyncio.run(run())


def ended(client, path, key):
    """The status of a document of DeepL's API when it has ended."""
    statuses = [client.post(path, json=key).json()]
    until(
        lambda: statuses.append(client.post(path, json=key).json()) or statuses[-1]["status"] != "translating"
    )
    return statuses[-1]


def test_a_client_gets_to_know_what_translates_its_document_and_what_it_counts(models):
    named = Models(tuple(replace(one, adapter=f"adapter of {one.name}") for one in models.models))
    with connected(named) as (own, client):
        for model in named.models:
            languages = {"source": model.source, "target": model.target}
            job = send(client, "a.TXT", "amber birch.\ncedar", **languages).json()
            about = {"model": model.name, "adapter": model.adapter, "name": f"a.{model.target}.TXT"}
            assert job.items() >= (languages | about | {"sentences_total": 2}).items()
            last = wait(client, job["id"])
            assert last == job | {"status": "done", "sentences_done": 2}
            (stored,) = (one for one in own.documents._jobs.values() if one.id == job["id"])
            files = stored.path, stored.translated_path
            assert stored.size == sum(path.stat().st_size for path in files)
        handles, texts = [], ["amber birch", "cedar"]
        for text in texts:
            data = {"source_lang": "EU", "target_lang": "MT", "output_format": "TXT"}
            answer = client.post("/v2/document", data=data, files={"file": ("a.txt", text)})
            handles.append(answer.json())
        for text, handle in zip(texts, handles, strict=True):
            path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
            status = ended(client, path, key)
            assert status == {
                "document_id": handle["document_id"],
                "status": "done",
                "billed_characters": len(text),
            }
        assert client.get("/v2/usage").json()["character_count"] == sum(map(len, texts))


def test_a_document_that_fails_or_is_not_done_gets_a_sentence_by_each_api(models, monkeypatch, capsys):
    with connected(models) as (own, client), ExitStack() as stack:
        running, hold = threading.Event(), threading.Event()
        stack.callback(hold.set)
        in_child = own.documents.in_child

        def fail(function, *arguments):
            if function is write_file:
                running.set()
                assert hold.wait(MAX_SECONDS)
                raise ZeroDivisionError
            return in_child(function, *arguments)

        monkeypatch.setattr(own.documents, "in_child", fail)
        data = {"source_lang": "EU", "target_lang": "MT"}
        handle = client.post("/v2/document", data=data, files={"file": ("a.txt", "amber")}).json()
        path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
        assert running.wait(MAX_SECONDS)
        monkeypatch.setattr("dragoman.serving.apis.deepl_documents.STATUS_SECONDS", 0.01)
        assert client.post(path, json=key).json() == {
            "document_id": handle["document_id"],
            "status": "translating",
        }
        early = client.post(f"{path}/result", json=key)
        assert (early.status_code, early.json()["message"]) == (503, "Document translation is not done.")
        hold.set()
        status = ended(client, path, key)
        assert (status["status"], status["error_message"][:18]) == ("error", "The server failed.")
        assert client.post(f"{path}/result", json=key).status_code == 500
        job = send(client, "a.txt", "amber", source="eu", target="mt").json()
        assert wait(client, job["id"])["error"]["code"] == "internal_error"
        form = {"source": "eu", "target": "mt"}
        answer = client.post("/translate_file", data=form, files={"file": ("a.txt", "amber")})
        assert (answer.status_code, answer.json()["error"][:18]) == (500, "The server failed.")
        assert capsys.readouterr().err.count("ZeroDivisionError") >= 3
        assert not any(path.exists() for one in own.documents._jobs.values() for path in (one.path,))

        def refuse(function, *arguments):
            if function is write_file:
                raise ApiError(413, "It is too large.")
            return in_child(function, *arguments)

        monkeypatch.setattr(own.documents, "in_child", refuse)
        job = send(client, "a.txt", "amber", source="eu", target="mt").json()
        assert wait(client, job["id"])["error"] == {"code": "too_large", "message": "It is too large."}
        assert own.metrics.refused["too_large"] == 1
        monkeypatch.setattr(own.documents, "in_child", in_child)
        done = send(client, "a.txt", "amber", source="eu", target="mt").json()
        wait(client, done["id"])
        own.documents._jobs[done["id"]].translated_path.unlink()
        assert client.get(f"/v1/documents/{done['id']}/result").status_code == 404


def test_a_change_for_which_there_is_no_room_changes_nothing(models):
    with connected(models, max_stored=10_000) as (own, client):
        job = send(client, "a.txt", "amber", source="eu", target="mt").json()
        wait(client, job["id"])
        path = f"/v1/documents/{job['id']}"
        stored = own.documents._jobs[job["id"]]
        before = client.get(f"{path}/result").content, stored.size, client.get(f"{path}/sentences").json()
        with own.documents._bytes.hold(10_000 - stored.size, "another"):
            refused = client.put(f"{path}/sentences/0", json={"translation": "A" * 9_000})
            assert refused.status_code == 429
            after = client.get(f"{path}/result").content, stored.size, client.get(f"{path}/sentences").json()
            assert after == before
        assert client.put(f"{path}/sentences/0", json={"translation": "A" * 9_000}).status_code == 200
        assert client.get(f"{path}/result").text == "A" * 9_000


@pytest.mark.parametrize("name", ["Content-Disposition", "content-disposition", "CONTENT-DISPOSITION"])
def test_the_headers_of_a_part_are_read_in_any_case_and_those_of_the_part_before_are_not(name):
    first = f'--b\r\n{name}: form-data; name="file"; filename="a.txt"\r\nX: y\r\n\r\namber'.encode()
    parts = read_form(first + b"\r\n--b--\r\n", b"multipart/form-data; boundary=b")
    assert parts == [("file", Upload("a.txt", b"amber"))]
    with pytest.raises(ApiError, match="a field without a name"):
        read_form(first + b"\r\n--b\r\nX: y\r\n\r\nbirch\r\n--b--\r\n", b"multipart/form-data; boundary=b")


@pytest.mark.parametrize(
    ("headers", "scheme", "address"),
    [
        ({}, "http", "http://127.0.0.1:80"),
        ({"host": "a.example"}, "https", "https://a.example"),
        ({"host": "a.example:1", "x-forwarded-proto": "HTTPS"}, "http", "https://a.example:1"),
        ({"x-forwarded-proto": "http"}, "https", "https://127.0.0.1:80"),
        ({"x-forwarded-proto": "javascript"}, "http", "http://127.0.0.1:80"),
    ],
)
def test_the_address_of_a_server_is_that_of_the_request(headers, scheme, address):
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert address_of({"headers": raw, "scheme": scheme, "server": ("127.0.0.1", 80)}) == address


@given(
    st.text("aB1. -_é", min_size=1, max_size=6),
    st.sampled_from([*ENDINGS, ".DOCX", ".unknown", ""]),
    st.sampled_from(["de", "pt-BR", "und"]),
)
def test_the_name_of_a_translation_has_its_language_before_the_ending_of_its_format(name, suffix, target):
    code = "translated" if target == "und" else target
    if PurePath(name + suffix).suffix == suffix:
        is_known = suffix.lower() in ENDINGS
        expected = f"{name}.{code}{suffix}" if is_known else f"{name}{suffix}.{code}"
        assert translated_name(name + suffix, target) == expected


@given(
    st.sampled_from([*ENDINGS]),
    st.sampled_from([ending for ending in ENDINGS if ending]),
    st.sampled_from([str.lower, str.upper, str.title]),
    st.sampled_from([str.lower, str.upper, str.title]),
)
def test_a_document_is_written_in_its_own_format_however_the_endings_are_written(own, asked, write, ask):
    name, output_format = f"a{write(own)}", ask(asked.removeprefix("."))
    refuse_conversion(name, None)
    refuse_conversion(name, ask(own.removeprefix(".")))
    with nullcontext() if own == asked else pytest.raises(ApiError, match="in their own format") as raised:
        refuse_conversion(name, output_format)
    assert own == asked or raised.value.status == 400


@pytest.mark.parametrize("letter", ["a", "ä", "表"])
def test_the_name_of_a_document_is_bounded_in_bytes(letter):
    size = len(letter.encode())
    longest = (MAX_NAME - 4) // size
    check_upload(Upload(f"{letter * longest}.txt", b"amber"), 5)
    with pytest.raises(ApiError, match="more than 255 bytes"):
        check_upload(Upload(f"{letter * (longest + 1)}.txt", b"amber"), 5)
    with pytest.raises(ApiError, match="has 6 bytes, and 5 are allowed"):
        check_upload(Upload("a.txt", b"ambers"), 5)

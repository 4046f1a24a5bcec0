"""Glossaries of a server: by each of its APIs, by DeepL's client, and in its folder."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import SearchSettings
from dragoman.documents.plain import plain_text
from dragoman.native.settings import EngineSettings
from dragoman.search.hypothesis import grid_rows
from dragoman.serving import glossaries
from dragoman.serving.apis.deepl_glossaries import terms_of_entries
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import MAX_GLOSSARIES, MAX_VARIANTS, MAX_WORDS, Glossaries, check_terms
from dragoman.serving.keys import Keys, hash_of
from dragoman.serving.loading import load_models
from dragoman.serving.models import Models
from dragoman.serving.service import MAX_TERM_CHARACTERS, MAX_TERMS, parts_of, prepare_groups
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.text import inflection
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.translator import GRID_WORK
from tests.conftest import MAX_SECONDS
from tests.test_document_routes import BINARY, connected, served, wait

pytestmark = [pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")]

PAIR, BACK = Languages("eu", "mt"), Languages("mt", "eu")
"""Languages without a dictionary of inflections, which takes seconds to read."""
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
LINES = ["amber birch cedar", "delta amber", "heath", "fjord grove ember", "birch"]
ENTRIES = {"amber": "HEATH", "grove": "DELTA BIRCH", "heath": "EMBER"}


@pytest.fixture(scope="module")
def models(trained):
    (model,) = load_models([trained / "run"], EngineSettings()).models
    pairs = enumerate((PAIR, BACK))
    return Models(
        tuple(replace(model, name=str(n), source=pair.source, target=pair.target) for n, pair in pairs)
    )


@pytest.fixture(scope="module")
def translator(models):
    return models.models[0].translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glossaries")
    (folder / "trees.eu-mt.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in ENTRIES.items())
    )
    return folder


@pytest.fixture(scope="module")
def server(models, folder):
    with served(models, glossaries=folder) as (service, url):
        yield service, url


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server[1], timeout=MAX_SECONDS) as connection:
        yield connection


def glossary_of(entries, languages=PAIR):
    return Glossary([Term(source, target) for source, target in entries.items()], languages)


def texts_of(answer):
    assert answer.status_code == 200, answer.text
    return [translation["text"] for translation in answer.json()["translations"]]


def by_v1(client, texts, **options):
    return texts_of(client.post("/v1/translate", json={"text": texts, **options}))


def by_stream(client, texts, **options):
    translations = []
    for text in texts:
        events = client.post("/v1/translate/stream", json={"text": text, **options}).text
        data = [
            json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line[:5] == "data:"
        ]
        translations.append("".join(piece["text"] for piece in data[:-1]))
        assert data[-1]["translations"][0]["text"] == translations[-1]
    return translations


def by_v1_document(client, texts, **options):
    content = "\n".join(texts).encode()
    answer = client.post(
        "/v1/documents", params={"name": "a.txt", **options}, content=content, headers=BINARY
    )
    assert answer.status_code == 200, answer.text
    job_id = answer.json()["id"]
    wait(client, job_id)
    return client.get(f"/v1/documents/{job_id}/result").text.split("\n")


# ---- translations


def test_every_route_translates_as_the_translator(client, server, translator):
    plain = translator.translate(LINES)
    expected = translator.translate(LINES, glossary=glossary_of(ENTRIES))
    assert plain != expected
    for route in (by_v1, by_stream, by_v1_document):
        assert route(client, LINES, glossary="trees") == expected
        assert route(client, LINES) == plain
    pairs = [list(pair) for pair in ENTRIES.items()]
    assert by_v1(client, LINES, terms=pairs) == by_stream(client, LINES, terms=pairs) == expected
    for beam_size in (1, 2):
        assert by_v1(client, LINES, terms=pairs, beam_size=beam_size) == translator.translate(
            LINES, glossary=glossary_of(ENTRIES), beam_size=beam_size
        )
    by_deepl = deepl.DeepLClient("any", server_url=server[1])
    options = {"source_lang": "EU", "target_lang": "MT", "glossary": "trees"}
    assert [one.text for one in by_deepl.translate_text(LINES, **options)] == expected
    written = io.BytesIO()
    by_deepl.translate_document("\n".join(LINES).encode(), written, filename="a.txt", **options)
    assert written.getvalue().decode().split("\n") == expected


@pytest.mark.long
def test_terms_of_a_request_come_before_those_of_its_glossaries_in_order(client, server, translator):
    """By every route; the first translation of a term counts."""
    draw, by_deepl = random.Random(3), deepl.DeepLClient("any", server_url=server[1])
    for count in (0, 2, 1):
        own, *others = (dict.fromkeys(draw.sample(WORDS, 3), draw.choice(WORDS).upper()) for _ in range(3))
        own = dict(draw.sample(sorted(own.items()), count))
        expected = translator.translate(LINES, glossary=glossary_of({**others[1], **others[0], **own}))
        with ExitStack() as stack:
            ids = [stack.enter_context(made(client, "A", tsv_of(entries))) for entries in others]
            pairs = [list(pair) for pair in own.items()]
            for route in (by_v1, by_stream):
                assert route(client, LINES, glossary=ids, terms=pairs) == expected
            lines = ["\t".join(pair) for pair in pairs]
            assert by_v1_document(client, LINES, glossary=ids, terms=lines) == expected
            if count:
                continue
            options = {"source_lang": "EU", "target_lang": "MT", "glossary_ids": ids}
            assert [one.text for one in by_deepl.translate_text(LINES, **options)] == expected
            written = io.BytesIO()
            by_deepl.translate_document("\n".join(LINES).encode(), written, filename="a.txt", **options)
            assert written.getvalue().decode().split("\n") == expected


def tsv_of(entries):
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


def test_alternatives_begin_as_without_terms_and_have_the_terms(client, translator):
    """Each is what the search with these terms finds after the prefix and the token. Those of a sentence
    without terms are as without a glossary.
    """
    draw = random.Random(4)
    for _ in range(4):
        text, prefix = draw.choice(LINES), draw.choice(["", *WORDS]).upper()
        entries = dict.fromkeys(draw.sample(WORDS, 3), draw.choice(WORDS).upper())
        request = {"text": text, "prefix": prefix, "count": 5, "model": "0"}
        terms = [list(pair) for pair in entries.items()]
        plain, found = (
            client.post("/v1/alternatives", json=request | options).json()["alternatives"]
            for options in ({}, {"terms": terms})
        )
        assert [(one["token"], one["log_probability"]) for one in found] == [
            (one["token"], one["log_probability"]) for one in plain
        ]
        prepared = translator.prepare([text], prefix=prefix, glossary=glossary_of(entries))
        before = prepared.constraints.prefix
        for one, other in zip(found, plain, strict=True):
            if one["token"] == "</s>" or not any(prepared.terms):
                assert one == other
                continue
            ids = [*before, *translator.tokenizers.target.ids([one["token"]])]
            constraints = replace(prepared.constraints, prefix=ids)
            (best,) = translator.search(replace(prepared, constraints=constraints))[0]
            assert one["text"] == translator.detokenize(best.ids)
            assert one["score"] == best.score
        missing = glossary_of(entries).unused(text, found[0]["text"])
        assert missing == [] or found[0]["token"] == "</s>"


def test_html_keeps_its_tags_and_has_its_terms(client, translator):
    html = "<p>amber <b>birch</b></p>"
    (text,) = by_v1(client, [html], format="html", terms=[["birch", "GROVE"]])
    (expected,) = translator.translate(
        ["amber <b>birch</b>"], keep_tags=True, glossary=glossary_of({"birch": "GROVE"})
    )
    assert text == f"<p>{expected}</p>"
    assert "GROVE" in text


def test_requests_at_once_do_not_mix_their_glossaries(client, translator):
    draw = random.Random(1)
    targets = [word.upper() for word in WORDS]
    drawn = [dict(zip(draw.sample(WORDS, 2), draw.sample(targets, 2), strict=True)) for _ in range(8)]

    def ask(entries):
        return by_v1(
            client, LINES, **({"terms": [list(pair) for pair in entries.items()]} if entries else {})
        )

    requests = [*drawn, {}] * 4
    draw.shuffle(requests)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, requests))
    expected = {
        str(entries): translator.translate(LINES, glossary=glossary_of(entries) if entries else None)
        for entries in [*drawn, {}]
    }
    assert answers == [expected[str(entries)] for entries in requests]


def test_glossaries_do_not_keep_the_event_loop_busy(client, monkeypatch):
    threads = set()

    def noted(method):
        def call(*values):
            threads.add(threading.current_thread().name.rpartition("_")[0])
            return method(*values)

        return call

    for name in ("__init__", "find", "unused"):
        monkeypatch.setattr(Glossary, name, noted(getattr(Glossary, name)))
    for route in (by_v1, by_stream):
        route(client, LINES, terms=[["amber", "HEATH"]])
    by_v1_document(client, LINES, glossary="trees")
    assert threads == {"dragoman-preparation"}


def test_without_a_glossary_an_answer_has_nothing_of_it(client, models):
    with connected(models) as (_, other):
        request = {"text": LINES, "n_best": 2, "alignment": True}
        one, two = (each.post("/v1/translate", json=request) for each in (client, other))
        assert one.content == two.content
        assert "unused" not in one.text


def test_unused_terms_are_reported(client):
    request = {
        "text": ["amber birch", "cedar"],
        "ban_words": ["HEATH"],
        "terms": [["amber", "HEATH"], ["birch", "BIRCH"]],
    }
    first, second = client.post("/v1/translate", json=request).json()["translations"]
    assert (first["unused_terms"], second["unused_terms"]) == ([["amber", "HEATH"]], [])


def test_parts_of_a_request_have_their_own_terms_and_cost(translator):
    draw = random.Random(2)
    segments = [segment_of(" ".join(draw.choices(WORDS, k=9))) for _ in range(400)]
    search, glossary = SearchSettings(), glossary_of(ENTRIES)
    (plain,) = prepare_groups(translator, segments, search, 10**6)
    (group,) = prepare_groups(translator, segments, search, 10**6, glossary)
    prepared = group.prepared
    assert plain.prepared.cost == plain.prepared.tokens == prepared.tokens < prepared.cost
    forced = [sum(phrase.tokens for phrase in phrases) for phrases in prepared.terms]
    assert prepared.cost == sum(
        len(source) * (GRID_WORK * grid_rows(tokens, 4) // 4 if tokens else 1)
        for source, tokens in zip(prepared.sources, forced, strict=True)
    )
    parts = list(parts_of([group]))
    assert len(parts) > 1
    assert sum(part.prepared.cost for part in parts) == prepared.cost
    assert [phrases for part in parts for phrases in part.prepared.terms] == list(prepared.terms)


def segment_of(text):
    """A sentence of a document."""
    (segment,) = plain_text(text, "eu", False).segments
    return segment


# ---- DeepL's client


def test_the_client_of_deepl_makes_and_uses_glossaries(server, translator):
    by_deepl = deepl.DeepLClient("any", server_url=server[1])
    assert [(pair.source_lang, pair.target_lang) for pair in by_deepl.get_glossary_languages()] == [
        ("eu", "mt"),
        ("mt", "eu"),
    ]
    made = by_deepl.create_glossary("Trees", "EU", "MT", ENTRIES)
    assert (made.name, made.ready, made.source_lang, made.target_lang, made.entry_count) == (
        "Trees",
        True,
        "EU",
        "MT",
        len(ENTRIES),
    )
    table = "".join(f'"{source}",{target},EU,MT\n' for source, target in ENTRIES.items())
    of_table = by_deepl.create_glossary_from_csv("Table", "EU", "MT", io.StringIO(table))
    for glossary in (made, of_table):
        assert by_deepl.get_glossary_entries(glossary) == ENTRIES
        again = by_deepl.get_glossary(glossary.glossary_id)
        assert vars(again) == vars(glossary)
        assert glossary.glossary_id in {each.glossary_id for each in by_deepl.list_glossaries()}
    expected = translator.translate(LINES, glossary=glossary_of(ENTRIES))
    assert [one.text for one in by_deepl.translate_text_with_glossary(LINES, made)] == expected
    by_deepl.delete_glossary(made)
    by_deepl.delete_glossary(of_table.glossary_id)
    for call in (by_deepl.get_glossary, by_deepl.get_glossary_entries, by_deepl.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException, match="There is no glossary"):
            call(made.glossary_id)


def test_the_client_of_deepl_makes_and_uses_multilingual_glossaries(server, translator):
    by_deepl = deepl.DeepLClient("any", server_url=server[1])
    both = [Entries("EU", "MT", ENTRIES), Entries("MT", "EU", {"cedar": "FJORD"})]
    made = by_deepl.create_multilingual_glossary("Both", both)
    pairs = [(each.source_lang, each.target_lang, each.entry_count) for each in made.dictionaries]
    assert pairs == [("EU", "MT", len(ENTRIES)), ("MT", "EU", 1)]
    for source, target, entries in (("EU", "MT", ENTRIES), ("MT", "EU", both[1].entries)):
        found = by_deepl.translate_text(LINES, source_lang=source, target_lang=target, glossary=made)
        assert [one.text for one in found] == translator.translate(LINES, glossary=glossary_of(entries))
    entries_of = partial(by_deepl.get_multilingual_glossary_entries, made)
    written = dict(line.split("\t") for line in entries_of("EU", "MT").dictionaries[0].entries.splitlines())
    assert written == ENTRIES
    by_deepl.update_multilingual_glossary_name(made, "Other")
    by_deepl.update_multilingual_glossary_dictionary(made, Entries("EU", "MT", {"amber": "X", "birch": "Y"}))
    assert entries_of("EU", "MT").dictionaries[0].entries.splitlines() == [
        "amber\tX",
        *(f"{source}\t{target}" for source, target in ENTRIES.items() if source != "amber"),
        "birch\tY",
    ]
    replaced = by_deepl.replace_multilingual_glossary_dictionary(
        made, Entries("EU", "MT", {"amber": "BIRCH"})
    )
    assert replaced.entry_count == 1
    with pytest.raises(deepl.DeepLException, match="has 2 dictionaries"):
        by_deepl.get_glossary(made.glossary_id)
    by_deepl.delete_multilingual_glossary_dictionary(made, source_lang="MT", target_lang="EU")
    with pytest.raises(deepl.GlossaryNotFoundException, match="Dictionary not found"):
        entries_of("MT", "EU")
    again = by_deepl.get_multilingual_glossary(made.glossary_id)
    assert (again.name, again.creation_time, len(again.dictionaries)) == ("Other", made.creation_time, 1)
    found = by_deepl.translate_text(LINES, source_lang="EU", target_lang="MT", glossary=again)
    assert [one.text for one in found] == translator.translate(
        LINES, glossary=glossary_of({"amber": "BIRCH"})
    )
    of_csv = by_deepl.create_multilingual_glossary_from_csv("Table", "EU", "MT", "amber,X\n")
    listed = {each.glossary_id for each in by_deepl.list_multilingual_glossaries()}
    assert {made.glossary_id, of_csv.glossary_id, "trees"} <= listed
    for each in (made, of_csv):
        by_deepl.delete_multilingual_glossary(each)


def test_deepl_refuses_what_does_not_fit(server, client):
    by_deepl = deepl.DeepLClient("any", server_url=server[1])
    for call, status, message in (
        (lambda: by_deepl.create_glossary("A", "EN", "XX", ENTRIES), 400, "Unsupported glossary source and"),
        (lambda: by_deepl.delete_glossary("trees"), 403, "is the server's own"),
        (
            lambda: translate(by_deepl, "none"),
            400,
            "'glossary_id' not supported. There is no glossary 'none'",
        ),
        (lambda: translate(by_deepl, "trees", "MT", "EU"), 400, "no terms from MT to EU. It has: eu to mt"),
    ):
        with pytest.raises(deepl.DeepLException, match=message) as error:
            call()
        assert error.value.http_status_code == status
    request = {"text": LINES, "target_lang": "MT", "glossary_id": "trees"}
    for options, message in (
        ({}, "requires the source_lang parameter"),
        ({"source_lang": "EU", "glossary_ids": ["trees"]}, "send one of them"),
        ({"glossary_id": "", "glossary_ids": "trees"}, "requires the source_lang parameter"),
        (
            {"glossary_id": "", "source_lang": "EU", "glossary_ids": "trees,none"},
            "'glossary_ids' not supported",
        ),
        ({"glossary_id": "", "source_lang": "EU", "glossary_ids": "trees," * 6}, "glossary_ids: "),
    ):
        answer = client.post("/v2/translate", json=request | options)
        assert answer.status_code == 400
        assert message in answer.json()["message"]


def translate(by_deepl, glossary, source="EU", target="MT"):
    return by_deepl.translate_text(LINES, source_lang=source, target_lang=target, glossary=glossary)


TERM = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=9,
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(TERM, TERM, min_size=1, max_size=5))
def test_entries_come_back_as_they_were_sent(entries):
    tsv = "\n".join(f"{source}\t{target}" for source, target in entries.items())
    quoted = "\r\n".join(
        '"{}","{}"'.format(*(text.replace('"', '""') for text in pair)) for pair in entries.items()
    )
    with_semicolons = "sep=;\n" + quoted.replace('","', '";"')
    for text, entries_format in ((tsv, "tsv"), (quoted, "csv"), (with_semicolons, "csv")):
        terms = terms_of_entries(f"\ufeff{text}", entries_format)
        assert {term.source: term.target for term in terms} == entries


@pytest.mark.parametrize(
    ("entries", "entries_format", "message"),
    [
        ("", "tsv", "Missing or invalid argument: entries"),
        ("dog", "tsv", "Line 1"),
        ("dog\tHund\tx", "tsv", "Line 1"),
        ("dog\tHund\n\t", "tsv", None),
        ("dog\tHund\n\tKatze", "tsv", "Line 2"),
        ("dog\tHund\ndog\tTier", "tsv", "Line 2 has 'dog' again"),
        ("dog,Hund,en", "csv", "Line 1"),
        ("dog;Hund", "csv", None),
        ("dog,Hund", "xml", "Value for 'entries_format'"),
        (f"dog,{'x' * 200_000}", "csv", "no CSV"),
    ],
)
def test_wrong_entries_get_a_sentence(entries, entries_format, message):
    if message is None:
        assert terms_of_entries(entries, entries_format) == [Term("dog", "Hund")]
        return
    with pytest.raises(ApiError, match=message) as error:
        terms_of_entries(entries, entries_format)
    assert error.value.status == 400


# ---- the list, and who sees what


def test_v1_lists_glossaries_and_takes_ids_and_names(client, models):
    (listed,) = client.get("/v1/glossaries").json()["glossaries"]
    assert listed == {
        "id": "trees",
        "name": "trees",
        "read_only": True,
        "dictionaries": [{"source": "eu", "target": "mt", "terms": len(ENTRIES)}],
    }
    with made(client, "Birds") as one:
        expected = by_v1(client, LINES, glossary=one)
        assert by_v1(client, LINES, glossary="Birds") == expected
        with made(client, "Birds"):
            answer = client.post("/v1/translate", json={"text": LINES, "glossary": "Birds"})
            assert (answer.status_code, "2 glossaries are named" in answer.text) == (400, True)
    for options, status in (
        ({"glossary": "none"}, 404),
        ({"glossary": "../trees.eu-mt"}, 404),
        ({"glossary": "trees", "source": "mt"}, 400),
        ({"glossary": ["trees", "none"]}, 404),
        ({"glossary": ["trees"] * (MAX_GLOSSARIES + 1)}, 400),
        ({"glossary": "trees", "temperature": 1.0}, 400),
    ):
        answer = client.post("/v1/translate", json={"text": LINES, **options})
        assert answer.status_code == status, answer.text
    with connected(models) as (_, without):
        assert without.get("/v1/glossaries").json() == {"glossaries": []}
        answer = without.post("/v1/translate", json={"text": LINES, "glossary": "trees"})
        assert (answer.status_code, "without --glossaries" in answer.text) == (404, True)
        assert by_v1(without, LINES, terms=[["amber", "HEATH"]])


def test_examples_of_the_description_are_for_a_language_of_the_models(client):
    description, found = client.get("/openapi.json").json(), set()
    schemas = description["components"]["schemas"]
    for methods in description["paths"].values():
        for content in methods.get("post", {}).get("requestBody", {}).get("content", {}).values():
            shared = schemas.get(content["schema"].get("$ref", "").rsplit("/", 1)[-1], {})
            example = content.get("example") or shared.get("examples", [{}])[0]
            found |= {(name, example[name]) for name in ("target", "target_lang") if name in example}
    assert {name for name, _ in found} == {"target", "target_lang"}
    assert {language.lower() for _, language in found} <= {PAIR.target, BACK.target}


def test_v1_lists_the_terms_of_a_glossary_in_parts(client):
    count = 7
    entries = {f"{word} {number}": word.upper() for number in range(3) for word in WORDS}
    with made(client, "Many", tsv_of(entries)) as made_id:
        path = f"/v1/glossaries/{made_id}/terms"
        parts = []
        while len(parts) < len(entries):
            answer = client.get(path, params={"source": "eu-ES", "start": len(parts), "count": count}).json()
            assert answer["terms_total"] == len(entries)
            assert 0 < len(answer["terms"]) <= count
            parts += answer["terms"]
        assert parts == [list(pair) for pair in entries.items()]
        for address, status in (
            (f"{path}?source=mt", 400),
            (f"{path}?count=1000000", 400),
            ("/v1/glossaries/none/terms", 404),
            ("/v1/glossaries/..%2Ftrees.eu-mt/terms", 404),
        ):
            assert client.get(address).status_code == status


@contextmanager
def made(client, name, entries="amber\tBIRCH", **options):
    """The id of a glossary, which is removed in the end."""
    body = {"name": name, "source_lang": "eu", "target_lang": "mt", "entries": entries}
    answer = client.post("/v2/glossaries", json=body, **options)
    assert answer.status_code == 201, answer.text
    yield answer.json()["glossary_id"]
    assert client.delete(f"/v2/glossaries/{answer.json()['glossary_id']}", **options).status_code == 204


def test_a_glossary_is_its_keys_alone(models, folder):
    keys = Keys({name: hash_of(name) for name in ("one", "other")})
    one, other = ({"headers": {"Authorization": f"Bearer {name}"}} for name in ("one", "other"))
    with connected(models, keys, glossaries=folder) as (_, client), made(client, "Mine", **one) as made_id:
        path = f"/v3/glossaries/{made_id}"
        pair = {"source_lang": "eu", "target_lang": "mt"}
        refused = [
            ("GET", f"/v2/glossaries/{made_id}", None),
            ("GET", f"/v2/glossaries/{made_id}/entries", None),
            ("DELETE", f"/v2/glossaries/{made_id}", None),
            ("GET", path, None),
            ("GET", f"{path}/entries?source_lang=eu&target_lang=mt", None),
            ("PATCH", path, {"name": "x"}),
            ("PUT", f"{path}/dictionaries", {**pair, "entries": "a\tb"}),
            ("DELETE", f"{path}/dictionaries?source_lang=eu&target_lang=mt", None),
            ("DELETE", path, None),
            ("POST", "/v1/translate", {"text": "amber", "glossary": made_id}),
            ("POST", "/v1/translate", {"text": "amber", "glossary": "Mine"}),
            ("POST", "/v1/translate", {"text": "amber", "glossary": ["trees", made_id]}),
            ("POST", "/v1/alternatives", {"text": "amber", "glossary": made_id}),
            ("GET", f"/v1/glossaries/{made_id}/terms", None),
        ]
        for method, address, body in refused:
            answer = client.request(method, address, json=body, **other)
            assert answer.status_code == 404, (method, address, answer.text)
        request = {"text": ["amber"], **pair, "glossary_id": made_id}
        assert client.post("/v2/translate", json=request, **other).status_code == 400
        assert client.post("/v2/translate", json=request, **one).status_code == 200
        for key, expected in ((one, {"trees", made_id}), (other, {"trees"})):
            for address in ("/v1/glossaries", "/v2/glossaries", "/v3/glossaries"):
                listed = client.get(address, **key).json()["glossaries"]
                assert {each.get("glossary_id", each.get("id")) for each in listed} == expected
        answer = client.post("/v1/translate", json={"text": "amber", "glossary": "trees"}, **other)
        assert answer.status_code == 200


# ---- files


def test_a_restart_keeps_what_was_made(models, folder):
    with connected(models, glossaries=folder) as (_, client), ExitStack() as stack:
        made_id = stack.enter_context(made(client, "Kept", "amber\tCEDAR"))
        before = client.get("/v3/glossaries").json(), by_v1(client, LINES, glossary=made_id)
        with connected(models, glossaries=folder) as (_, restarted):
            assert (
                restarted.get("/v3/glossaries").json(),
                by_v1(restarted, LINES, glossary=made_id),
            ) == before
            with made(restarted, "By the other process") as other_id:
                assert by_v1(client, LINES, glossary=other_id) == by_v1(restarted, LINES, glossary=other_id)
            answer = client.post("/v1/translate", json={"text": "amber", "glossary": other_id})
            assert answer.status_code == 404


def test_a_glossary_is_built_once_until_its_file_changes(models, translator, tmp_path, monkeypatch):
    path, built = tmp_path / "trees.eu-mt.csv", []
    path.write_text("amber,HEATH\n")
    monkeypatch.setattr(glossaries, "Glossary", lambda *values: built.append(1) or Glossary(*values))
    with connected(models, glossaries=tmp_path) as (_, client):
        for entries in ({"amber": "HEATH"}, {"amber": "GROVE"}):
            for _ in range(3):
                assert by_v1(client, LINES, glossary="trees") == translator.translate(
                    LINES, glossary=glossary_of(entries)
                )
            path.write_text("amber,GROVE\n")
        path.write_text("amber,BIRCH\n")
        by_v1(client, LINES, glossary="trees")
        path.unlink()
        assert client.post("/v1/translate", json={"text": "x", "glossary": "trees"}).status_code == 404
    assert len(built) == 3


KILLED = """
import sys
from pathlib import Path
from dragoman.serving.glossaries import Glossaries
from dragoman.serving.settings import ServerSettings
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Term
pair = Languages("eu", "mt")
served = Glossaries(ServerSettings(glossaries=Path(sys.argv[1])), [pair])
made = served.create("A", {pair: [Term("a", "0")]}, None)
print(made.id, flush=True)
for number in range(10**9):
    terms = [Term(f"a{place}", str(number)) for place in range(500)]
    served.change(made.id, None, lambda _: {pair: terms}, f"Number {number}")
"""


def test_a_kill_while_it_is_written_leaves_the_old_or_the_new_file(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    made_id = process.stdout.readline().strip()
    end = time.monotonic() + MAX_SECONDS
    while time.monotonic() < end and b"Number 3" not in (tmp_path / f"{made_id}.json").read_bytes()[:40]:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (tmp_path / f".{'0' * 16}.json").write_text("{")  # what a kill leaves behind
    again = Glossaries(ServerSettings(glossaries=tmp_path), [PAIR])
    (one,) = again.visible(None)
    number = one.name.removeprefix("Number ")
    assert {term.target for term in again.terms(one)[PAIR]} == {number}
    again.delete(one.id, None)
    assert {path.name for path in tmp_path.iterdir()} <= {".lock"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("trees.tsv", "amber\tHEATH", "does not tell its languages"),
        ("trees.csv", "eu,mt\namber\n", "row 2 .*amber.* does not have a term"),
        ("trees.fr-it.tsv", "amber\tHEATH", "has no terms between the languages of the models: eu to mt"),
        ("trees.xlsx", "x", "is no glossary by its name"),
        ("a tree.eu-mt.tsv", "amber\tHEATH", "needs another name"),
        ("trees.tbx", "<html></html>", "is no TBX"),
        ("trees.eu-mt.tsv", "amber\tHEATH\n" * 9, "has 9 terms, and 5 are allowed"),
        ("trees.eu-mt.tsv", "x" * 999, "has 999 bytes, and 500 are allowed"),
        (f"{'a' * 32}.json", "{}", "is damaged"),
    ],
)
def test_a_file_that_is_no_glossary_is_refused_at_the_start(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    limits = ServerSettings(glossaries=tmp_path, max_glossary_terms=5, max_glossary_bytes=500)
    with pytest.raises(DragomanError, match=message):
        Glossaries(limits, [PAIR, BACK])
    with pytest.raises(DragomanError, match="is not a folder"):
        Glossaries(ServerSettings(glossaries=tmp_path / "none"), [PAIR])


def test_tables_tell_their_languages(tmp_path):
    (tmp_path / "columns.csv").write_text("id,mt,eu\n1,X,amber\n")
    (tmp_path / "words.csv").write_text("sep=;\nMaltese;Basque (Euskara)\nX;amber\n")
    (tmp_path / "rows.csv").write_text("amber,X,EU,MT\nY,birch,mt,eu\n")
    (tmp_path / "named.mt-eu.tsv").write_text("amber\tX\nbirch\tY\n")
    found = {
        one.id: one.counts
        for one in Glossaries(ServerSettings(glossaries=tmp_path), [PAIR, BACK]).visible(None)
    }
    both = {PAIR: 1, BACK: 1}
    assert found == {"columns": both, "words": both, "rows": both, "named": {BACK: 2}}
    (tmp_path / "plain.tsv").write_text("amber\tX\n")
    (only,) = [
        one
        for one in Glossaries(ServerSettings(glossaries=tmp_path), [BACK]).visible(None)
        if one.id == "plain"
    ]
    assert only.counts == {BACK: 1}
    (tmp_path / "named.csv").write_text("mt,eu\na,b\n")
    with pytest.raises(DragomanError, match="have the same name"):
        Glossaries(ServerSettings(glossaries=tmp_path), [BACK])


# ---- limits


HOSTILE = [
    ([["a", "b"]] * (MAX_TERMS + 1), 400),
    ([["a"]], 400),
    ([["a", "b", "c"]], 400),
    (["a", "b"], 400),
    ([["", "b"]], 400),
    ([["a", " "]], 400),
    ([["a\n", "b\x00"]], 400),
    ([["x" * 501, "b"]], 400),
    ([["a " * (MAX_WORDS + 1), "b"]], 413),
    ([["x", "y" * 400]] * (MAX_TERM_CHARACTERS // 400), 413),
    ([["a" * place + "A" + "a" * (MAX_VARIANTS - place), "y"] for place in range(MAX_VARIANTS + 1)], 413),
    ([["amber", "X"], ["amber", "Y"], ["amber", "Z"]], 200),
    ([[letter, letter.upper()] for letter in "abcdefghij"], 200),
    ([["(a+)+$", "[^x]*"], [".*", "\\1"], ["amber.", "amber|"], ["<b>", "{0}"]], 200),
    ([["amber " * MAX_WORDS, "x"]] + [["amber " * count + "x", "y"] for count in range(1, MAX_WORDS)], 200),
    ([[word, " ".join(WORDS).upper() * 5] for word in WORDS], 200),
]


@pytest.mark.short_form(5)
@pytest.mark.parametrize(("terms", "status"), HOSTILE)
def test_hostile_terms_are_refused_or_answered(client, terms, status):
    answer = client.post("/v1/translate", json={"text": " ".join(["amber"] * 200), "terms": terms})
    assert answer.status_code == status, answer.text
    answer = client.post("/v1/translate", json={"text": "amber"})
    assert answer.status_code == 200


@pytest.mark.parametrize("line", ["amber", "amber\tX\tY", "\tX", "amber\t ", f"{'x' * 501}\tX"])
def test_a_line_that_is_no_term_is_refused(client, line):
    answer = client.post(
        "/v1/documents",
        params={"name": "a.txt", "terms": ["birch\tX", line]},
        content=b"amber",
        headers=BINARY,
    )
    assert answer.status_code == 400, answer.text


def test_a_million_terms_are_refused(client):
    for count, status in ((10**6, 413), (90_000, 400)):
        content = b'{"text":"a","terms":[' + b'["a","b"],' * count + b'["a","b"]]}'
        with suppress(httpx.WriteError, httpx.ReadError):  # the server may close before all is sent
            answer = client.post(
                "/v1/translate", content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == status
    assert client.get("/v1/models").status_code == 200


def test_variants_in_case_are_bounded():
    word = "a" * MAX_VARIANTS
    variants = [Term(word[:place] + "A" + word[place + 1 :], "x") for place in range(MAX_VARIANTS)]
    check_terms(variants)
    with pytest.raises(ApiError, match="case aside"):
        check_terms([*variants, Term(word, "x")])


def test_glossaries_are_bounded_and_clients_share_the_room(models, tmp_path):
    keys = Keys({name: hash_of(name) for name in ("one", "other")})
    one, other = ({"headers": {"Authorization": f"Bearer {name}"}} for name in ("one", "other"))
    limits = {"max_glossaries": 4, "max_glossary_terms": 3, "max_glossary_bytes": 3_000}
    body = {"name": "A", "source_lang": "eu", "target_lang": "mt", "entries": "a\tb"}
    with connected(models, keys, glossaries=tmp_path, **limits) as (_, client):
        for _ in range(4):
            assert client.post("/v2/glossaries", json=body, **one).status_code == 201
        answer = client.post("/v2/glossaries", json=body, **one)
        assert (answer.status_code, "no room" in answer.text) == (413, True)
        assert client.post("/v2/glossaries", json=body, **other).status_code == 201  # it has a share
        for entries, message in (
            ("a\tb\nc\td\ne\tf\ng\th", "4 terms"),
            ("a" * 490 + "\t" + "🌳" * 490, "no room"),
        ):
            answer = client.post("/v2/glossaries", json=body | {"entries": entries}, **other)
            assert (answer.status_code, message in answer.text) == (413, True), answer.text
        assert len(list(tmp_path.glob("*.json"))) == 5


def test_a_client_with_terms_takes_more_of_the_queue(models, server):
    service, _ = server
    segments, translator = [segment_of("amber grove heath")], models.models[0].translator
    (group,) = prepare_groups(translator, segments, SearchSettings(), 999, glossary_of(ENTRIES))
    with service.admit_prepared([group.prepared], {"dragoman.client": "a"}):
        assert service.admission.held["a"] == group.prepared.cost > group.prepared.tokens
    assert service.admission.tokens == 0


def test_kept_forms_are_those_of_the_dictionary():
    simplemma = pytest.importorskip("simplemma.strategies.dictionaries")
    dictionary = simplemma.DefaultDictionaryFactory().get_dictionary("ms")
    bases = sorted(set(dictionary.values()))[::50]
    wanted = {base: [base] for base in bases}
    for form, base in dictionary.items():
        if base in wanted and form not in wanted[base]:
            wanted[base].append(form)
    expected = {base: forms[: inflection.MAX_FORMS] for base, forms in wanted.items()}
    assert inflection.inflected_forms(bases, "ms") == expected

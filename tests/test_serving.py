"""`dragoman serve`: what clients get is what the translator gives, and the server's limits hold."""

import asyncio
import codecs
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from urllib.parse import urlencode

import httpx
import pytest
from py3langid.langid import LanguageIdentifier
from pydantic import ValidationError

from dragoman import SearchSettings, Translation, Translator
from dragoman.documents.plain import plain_text
from dragoman.inspection.inspect import inspect
from dragoman.inspection.schema import to_json
from dragoman.native.settings import EngineSettings
from dragoman.serving import keys as api_keys
from dragoman.serving import loading
from dragoman.serving.admission import Admission
from dragoman.serving.apis import deepl, libretranslate, v1
from dragoman.serving.apis.deepl import choose_model
from dragoman.serving.apis.schemas import Choice, InspectRequest, ScoreRequest, TranslateRequest
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError, error_body, refusal
from dragoman.serving.keys import Keys, RateLimit
from dragoman.serving.languages import detected, language_name, load_identifier
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.middleware import key_of_body, key_of_form
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.server import listening
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError, NotEnoughMemoryError
from dragoman.text.quality.identification import identifier_of
from dragoman.translation.model_folder import StoredModel
from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving
from tests.test_served_adapters import answers

pytestmark = [
    pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput"),
]

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
V1 = "/v1/translate"
LONG = "AMBER BIRCH BIRCHES " * 20_000  # 400,000 characters


@pytest.fixture(scope="module")
def run(trained):
    return trained / "run"


@pytest.fixture(scope="module")
def server(run):
    with serving(run) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as connected:
        yield connected


@pytest.fixture(scope="module")
def translator(run):
    return Translator.load(run)


def random_request(draw: random.Random) -> dict[str, object]:
    """A request of random texts and options."""
    texts = [
        " ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(draw.choice([1, 1, 1, 2, 9]))
    ]
    beam_size = draw.choice([1, 2, 4, 5])
    request = {
        "text": texts if len(texts) > 1 or draw.random() < 0.5 else texts[0],
        "beam_size": beam_size,
        "n_best": draw.randint(1, beam_size),
        "length_penalty": draw.choice([0.0, 0.6, 1.0]),
        "split_sentences": False,
    }
    if draw.random() < 0.3:
        request["no_repeat_ngram"] = 2
    return request


def expected(translator: Translator, request: dict[str, object]) -> list[list[dict[str, object]]]:
    """What the translator gives for the request: the n best of each text."""
    texts = request["text"] if isinstance(request["text"], list) else [request["text"]]
    options = {name: value for name, value in request.items() if name not in ("text", "split_sentences")}
    return [
        [
            {
                "text": each.text,
                "log_probability": each.log_probability,
                "score": each.score,
                "tokens": list(each.tokens),
            }
            for each in best
        ]
        for best in translator.n_best(texts, **options)
    ]


def check_equal_to_alone(server, translator, count, clients=64):
    draw = random.Random(1)
    requests = [random_request(draw) for _ in range(count)]

    async def send_all():
        limits = httpx.Limits(max_connections=clients)
        async with httpx.AsyncClient(
            base_url=server.address, timeout=MAX_SECONDS, limits=limits
        ) as connected:
            waiting = asyncio.Semaphore(clients)

            async def send(request):
                async with waiting:
                    return await connected.post(V1, json=request)

            return await asyncio.gather(*map(send, requests))

    for request, answer in zip(requests, asyncio.run(send_all()), strict=True):
        assert answer.status_code == 200, answer.text
        found = [each["sentences"][0]["n_best"] for each in answer.json()["translations"]]
        assert found == expected(translator, request)


@pytest.mark.long
def test_requests_at_once_get_what_each_gets_alone(server, translator):
    check_equal_to_alone(server, translator, 80)


@pytest.mark.long
def test_many_requests_at_once_get_what_each_gets_alone(server, translator):
    check_equal_to_alone(server, translator, 5_000)


def test_every_setting_of_a_search_is_a_field_of_a_request(client):
    schema = client.get("/openapi.json").json()["components"]["schemas"]["TranslateRequest"]["properties"]
    names = {field.name for field in fields(SearchSettings)} - {"batch_tokens"}
    assert names <= schema.keys()
    assert all(schema[name]["description"] for name in names)


def test_every_operation_is_described_and_has_a_name_of_its_own(client):
    paths = client.get("/openapi.json").json()["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert all(each["summary"] and each["description"] and each["tags"] for each in operations)
    assert len({each["operationId"] for each in operations}) == len(operations)
    for path, methods in paths.items():
        for operation in methods.values():
            in_path = [each for each in operation.get("parameters", ()) if each["in"] == "path"]
            assert [each["name"] for each in in_path] == re.findall("{(.*?)}", path)
            assert all(each["required"] for each in in_path)


def test_schemas_of_the_description_say_what_json_schema_knows(client):
    known = {
        "$ref", "additionalProperties", "anyOf", "const", "default", "description", "enum",
        "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength",
        "maximum", "minItems", "minLength", "minimum", "pattern", "prefixItems", "properties",
        "required", "title", "type",
    }  # fmt: skip

    def check(part):
        if isinstance(part, dict):
            if isinstance(part.get("type"), str) and part.keys() != {"type"}:
                assert part.keys() <= known, part
                assert {*part.get("required", ())} <= part.get("properties", {}).keys()
            for value in part.values():
                check(value)
        elif isinstance(part, list):
            for value in part:
                check(value)

    check(client.get("/openapi.json").json()["paths"])
    check(client.get("/openapi.json").json()["components"])


@pytest.mark.long
def test_examples_of_the_description_are_answered(client):
    description = client.get("/openapi.json").json()
    schemas, sent = description["components"]["schemas"], 0
    for path, methods in description["paths"].items():
        for content in methods.get("post", {}).get("requestBody", {}).get("content", {}).values():
            shared = schemas.get(content["schema"].get("$ref", "").rsplit("/", 1)[-1], {})
            if body := content.get("example") or shared.get("examples", [None])[0]:
                answer = client.post(path, json=body)
                assert (
                    answer.status_code == 200
                    or "prefix" in answer.text
                    or "--glossaries" in answer.text
                    or path == "/suggest"
                ), (path, answer.text)
                sent += 1
    assert sent >= 8


def test_a_model_of_unknown_languages_names_its_sides(client):
    (model,) = client.get("/v1/models").json()["models"]
    assert (model["source"], model["target"]) == ("und", "und")
    assert (model["source_name"], model["target_name"]) == ("Source", "Target")


def test_paragraphs_come_back_as_they_were(client, translator):
    text = "amber birch.\n\n  cedar delta. Ember fjord\r\n\tgrove\n"
    answer = client.post(V1, json={"text": text}).json()["translations"][0]
    sources = ["amber birch.", "cedar delta.", "Ember fjord", "grove"]
    # A sentence whose translation is empty comes back as it was.
    pieces = [
        translation or source
        for source, translation in zip(sources, translator.translate(sources), strict=True)
    ]
    assert [each["source"] for each in answer["sentences"]] == sources
    assert answer["text"] == "{}\n\n  {} {}\r\n\t{}\n".format(*pieces)
    for each in answer["sentences"]:
        assert text[each["source_start"] : each["source_end"]] == each["source"]
        assert answer["text"][each["start"] : each["end"]] == each["text"]


@pytest.mark.long
def test_a_stream_has_the_same_answer_and_pieces_that_join_to_it(client):
    request = {"text": " ".join(WORDS * 3) + "\n\nbirch. cedar", "alignment": True, "attention": True}
    answer = client.post(V1, json=request).json()
    events = read_events(client.post("/v1/translate/stream", json=request).text)
    assert [name for name, _ in events] == ["piece"] * (len(events) - 1) + ["end"]
    assert "".join(data["text"] for _, data in events[:-1]) == answer["translations"][0]["text"]
    assert events[-1][1] == answer


def test_no_sentence_of_a_plain_text_has_marks_for_its_addresses(client):
    text = "amber birch https://example.org/ cedar. Delta"
    body = {"text": text, "n_best": 3, "alignment": True}
    found = client.post(V1, json=body).json()["translations"][0]
    first, second = found["sentences"]
    assert (first["source"], second["source"]) == (text[:-6], "Delta")
    assert len(first["n_best"]) == 3
    assert all("https://example.org/" in each["text"] for each in first["n_best"])
    for each in (first, second):
        best = each["n_best"][0]["text"] or each["source"]
        assert found["text"][each["start"] : each["end"]] == each["text"] == best
    words = len(first["source"].split()), len(first["text"].split())
    assert all(source < words[0] and target < words[1] for source, target in first["alignment"])


def test_sentences_with_addresses_are_not_split_and_the_others_are(client, translator):
    long, kept = " ".join(WORDS * 3), "amber birch https://example.org/ cedar"
    for path in (V1, "/v1/translate/stream"):
        body = {"text": f"{long}\n{kept}", "split": 8}
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found = answer.json() if path == V1 else read_events(answer.text)[-1][1]
        first, second = found["translations"][0]["sentences"]
        assert first["text"] == translator.translate([long], split=8)[0]
        assert "https://example.org/" in second["text"]


def read_events(text):
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def test_alignment_attention_alternatives_and_scores_are_the_translators(client, translator):
    source = "amber birch cedar"
    answer = client.post(V1, json={"text": source, "alignment": True, "attention": True}).json()
    (sentence,) = answer["translations"][0]["sentences"]
    assert [tuple(pair) for pair in sentence["alignment"]] == translator.align([(source, sentence["text"])])[
        0
    ]
    weights = translator.attention(source, sentence["text"])
    assert sentence["attention"]["cross"] == weights.cross.tolist()
    found = client.post("/v1/alternatives", json={"text": source, "prefix": "AMBER", "count": 3}).json()
    own = translator.alternatives(source, 3, prefix="AMBER")
    assert [each["text"] for each in found["alternatives"]] == [each.translation.text for each in own]
    pairs = [[source, "AMBER BIRCH CEDAR"], [source, "HEATH"]]
    scores = client.post("/v1/score", json={"pairs": pairs}).json()["scores"]
    own = translator.score([tuple(pair) for pair in pairs])
    assert [each["log_probability"] for each in scores] == [each.log_probability for each in own]


@pytest.mark.long
def test_alternatives_are_found_by_the_search_that_is_asked_for(client, translator):
    draw = random.Random(5)
    for _ in range(3):
        text = " ".join(draw.choices([*WORDS, "xyz", "Berg"], k=draw.randint(1, 5)))
        asked = {"prefix": draw.choice(WORDS).upper(), "beam_size": draw.randint(1, 8)}
        asked["length_penalty"] = draw.choice([0.0, 0.6, 1.5])
        found = client.post("/v1/alternatives", json={"text": text, "count": 8, **asked}).json()
        own = translator.alternatives(text, 8, **asked)
        assert [each["text"] for each in found["alternatives"]] == [each.translation.text for each in own]
        assert [each["score"] for each in found["alternatives"]] == pytest.approx(
            [each.translation.score for each in own], abs=1e-3
        )


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (V1, {"text": "amber", "beam_sise": 3}, 400, "beam_sise"),
        (V1, {"text": 3}, 400, "text"),
        (V1, {}, 400, "text"),
        (V1, {"text": "amber", "beam_size": -1}, 400, "beam_size is -1; it must be at least 1"),
        (V1, {"text": "amber", "beam_size": 400}, 400, "beam_size is 400; this server allows 16"),
        (V1, {"text": "amber", "beam_size": 2, "n_best": 3}, 400, "n_best is 3"),
        (V1, {"text": "amber", "top_k": 3}, 400, "top_k is for sampling"),
        (
            V1,
            {"text": "amber", "temperature": 1e300},
            400,
            "temperature is 1e+300; it must be at most 1000000",
        ),
        (V1, {"text": "amber", "coverage_penalty": 1e300}, 400, "coverage_penalty is 1e+300; it must be at"),
        (
            V1,
            {"text": "amber", "prefix": LONG},
            413,
            "prefix has 400,000 characters, and 16,000 are allowed",
        ),
        ("/v1/inspect", {"text": "amber", "ban_words": [LONG]}, 413, "and 320,000 are allowed; send fewer."),
        ("/v1/translate/stream", {"text": "amber", "ban_words": [LONG]}, 413, "and ban_words have 400,0"),
        (
            V1,
            {"text": "amber", "force_words": ["AMBER"] * 101},
            413,
            "force_words have 505 characters, and 500",
        ),
        (
            V1,
            {"text": "amber" + "<b></b>" * 300, "keep_tags": True},
            413,
            "has 600 tags and placeholders, and 500 are allowed",
        ),
        (
            V1,
            {"text": ["amber"] * 100, "beam_size": 8, "n_best": 8, "max_extra_tokens": 9_999},
            413,
            "The translations may have 8,000,000 tokens together, and 4,000,000 are allowed; ask for less",
        ),
        (
            "/v1/translate/stream",
            {"text": "amber\n" * 100, "beam_size": 8, "n_best": 8, "max_extra_tokens": 9_999},
            413,
            "The translations may have 8,000,000 tokens together",
        ),
        (
            "/v1/alternatives",
            {"text": "amber", "prefix": "AMBER " * 1_001},
            413,
            "has more than 1,000 tokens",
        ),
        (
            "/v1/inspect",
            {"text": "amber", "prefix": "AMBER " * 201},
            413,
            "has more than 200 tokens, which is",
        ),
        (
            "/v1/inspect",
            {"text": "amber", "min_length": 201},
            413,
            "min_length is 201, and an inspection by a server allows 200 at most; send a shorter sentence",
        ),
        (
            "/v1/inspect",
            {"text": "amber", "changes": ["max_extra_tokens=201"]},
            413,
            "max_extra_tokens is 201",
        ),
        (V1, {"text": "amber", "model": "other"}, 404, "There is no model 'other'"),
        (V1, {"text": ["amber"] * 200}, 400, "The request has 200 texts; this server allows 128"),
        (V1, {"text": "amber " * 30_000}, 413, "tokens, and 20,000 are allowed"),
        ("/v1/translate/stream", {"text": "amber " * 30_000}, 413, "tokens, and 20,000 are allowed"),
        ("/v1/translate/stream", {"text": ["amber", "birch"]}, 400, "A stream translates one text"),
        ("/v1/alternatives", {"text": "amber", "count": 0}, 400, "count"),
        ("/v1/alternatives", {"text": "amber", "count": 101}, 400, "count"),
        ("/v1/score", {"pairs": [["amber"]]}, 400, "pairs"),
        ("/v1/nothing", {}, 404, "There is no /v1/nothing"),
        (f"{V1}/", {"text": "amber"}, 404, f"There is no {V1}/"),
        ("/translate", {}, 400, "Invalid request: missing q parameter"),
        ("/v2/translate", {"text": "amber"}, 400, "Value for 'target_lang' not supported."),
    ],
)
def test_a_wrong_request_gets_a_sentence_in_the_form_of_its_api(client, path, body, status, message):
    answer = client.post(path, json=body)
    assert answer.status_code == status
    found = answer.json()
    if path.startswith("/v1"):
        found = found["error"]["message"]
    else:
        found = found["error" if path == "/translate" else "message"]
    assert message in found


JSON = "application/json"


@pytest.mark.parametrize(
    ("path", "body", "kind", "message"),
    [
        (V1, b'{"text": "amber",}', JSON, "The body is not JSON: "),
        (V1, b'"amber"', JSON, "The body has to be a JSON object, sent with Content-Type: application/json."),
        (V1, b"", JSON, "The body has to be a JSON object, sent with Content-Type: application/json."),
        (V1, b'{"text": [1]}', JSON, "text: it has to be a valid string; text.0: it has to be a valid"),
        (V1, b'{"text": "amber", "str": 1}', JSON, "str: Extra inputs are not permitted."),
        ("/translate", b'{"q": [null]}', JSON, "q: it has to be a valid string; q.0: it has to be"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_in_the_words_of_the_request(client, path, body, kind, message):
    answer = client.post(path, content=body, headers={"content-type": kind})
    found = answer.json()["error"]
    assert answer.status_code == 400
    assert message in (found if path == "/translate" else found["message"])


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (TranslateRequest, {"text": [1] * 1_000}),
        (TranslateRequest, {"text": "amber", "ban_words": [1] * 1_000}),
        (InspectRequest, {"text": "amber", "changes": [1] * 1_000}),
        (ScoreRequest, {"pairs": [1] * 1_000}),
        (ScoreRequest, {"pairs": [[1] * 1_000]}),
        (libretranslate.LibreTranslateRequest, {"q": [1] * 1_000}),
        (deepl.DeepLRequest, {"text": [1] * 1_000}),
        (deepl.DeepLRequest, {"custom_instructions": [1] * 1_000}),
    ],
)
def test_a_list_is_refused_at_its_first_wrong_item(model, body):
    with pytest.raises(ValidationError) as it:
        model.model_validate(body)
    assert it.value.error_count() <= 2  # a field that may be a text or a list has an error for each


def test_a_pair_of_languages_that_two_models_have_is_named_once(translator):
    models = Models(tuple(ServedModel(name, "en", "de", translator) for name in ("one", "two")))
    with pytest.raises(ApiError) as ours:
        models.between("en", "fr", "amber")
    with pytest.raises(ApiError) as deepl:
        choose_model(models, "", "FR", "amber")
    assert str(ours.value).endswith("There are: en to de.")
    assert str(deepl.value).endswith("This server translates EN to DE.")


def test_a_form_with_too_many_fields_is_refused(client):
    answer = client.post("/translate", data={str(number): "amber" for number in range(1_001)})
    assert answer.status_code == 400
    assert "The body cannot be read as application/x-www-form-urlencoded" in answer.json()["error"]


@pytest.mark.parametrize(("precision", "opened"), [("int8", True), ("float32", False)])
def test_c_that_is_not_compiled_is_compiled_before_int8_is_served(trained, monkeypatch, precision, opened):
    monkeypatch.setattr(loading, "is_compiled", lambda _: False)
    stored = StoredModel.load(trained / "run")
    translator = loading.open_model(lambda: stored, None, EngineSettings(precision=precision))
    assert ("native_backend" in vars(translator)) == opened


@pytest.mark.long
def test_of_two_varieties_of_a_language_the_first_models_is_detected(translator):
    codes = ("pt-BR", "pt-PT", "fr")
    for order in itertools.permutations(codes):
        models = Models(tuple(ServedModel(code, code, "de", translator) for code in order))
        first = next(code for code in order if code.startswith("pt"))
        text = "O gato está em cima da mesa e não quer sair."
        assert models.between("auto", "de", text).name == first
        assert detected(text, "pt-PT", set(codes))[1] == detected(text, "pt-BR", set(codes))[1] > 50


def test_the_languages_of_a_request_are_those_of_the_model_that_it_names(translator):
    models = Models(
        (ServedModel("other", "fr", "de", translator), ServedModel("ende", "en", "de", translator))
    )
    service = Service(models, ServerSettings(), Metrics())

    def choose(**languages):
        return v1.model_of(service, Choice(model="ende", **languages), "amber", {})

    for languages in ({}, {"source": "auto"}, {"source": "EN-gb", "target": "de"}):
        assert choose(**languages).name == "ende"
    for languages in ({"source": "fr"}, {"source": "en", "target": "es"}):
        with pytest.raises(
            ApiError, match="The model ende translates en to de, and the request asks for "
        ) as it:
            choose(**languages)
        assert it.value.status == 400


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"text": "a", "beam_size": NaN}', "application/json"),
        (b'{"text": "\\ud800"}', "application/json"),
        (b"null", "application/json"),
        (b"", "application/json"),
        (b"q=%ff", "application/x-www-form-urlencoded"),
        (b"text=amber", "text/plain"),
        (b"--x", "multipart/form-data; boundary=x"),
    ],
)
@pytest.mark.parametrize("path", [V1, "/translate", "/v2/translate"])
def test_a_broken_body_gets_an_error_and_the_next_request_is_served(client, path, body, kind):
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert 400 <= answer.status_code < 500 or answer.status_code == 200
    assert "Traceback" not in answer.text
    assert isinstance(answer.json(), dict)
    assert client.post(V1, json={"text": "amber"}).status_code == 200


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_ignored_tags_are_kept_in_html_and_xml(client, kind):
    body = {"text": ["<p>amber <x>birch</x> cedar</p>"], "target_lang": "de", "tag_handling": kind}
    answer = client.post(
        "/v2/translate", json=body | {"ignore_tags": "x," * 5 + ",".join(map(str, range(999)))}
    )
    assert answer.status_code == 400
    answer = client.post("/v2/translate", json=body | {"ignore_tags": ["x"]}).json()
    assert "<x>birch</x>" in answer["translations"][0]["text"]
    (kept,) = client.post("/v2/translate", json=body | {"ignore_tags": "p"}).json()["translations"]
    assert kept["text"] == body["text"][0]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", r'{"q": "\ud800 amber", "source": "en", "target": "de"}'),
        ("/translate", r'{"q": "amber", "source": "en", "target": "de", "format": "\udfff"}'),
        ("/v2/translate", r'{"text": ["\ud800 amber"], "target_lang": "de"}'),
        ("/detect", r'{"q": "\ud800"}'),
    ],
)
def test_half_of_a_surrogate_pair_is_refused(client, path, body):
    for kind in ("application/json", "text/plain"):
        answer = client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code == 400
        assert "surrogate" in answer.text
    name = body.split('"')[1]
    form = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n\\ud800\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x; charset=unicode_escape"
    answer = client.post(path, content=form, headers={"content-type": kind})
    assert answer.status_code == 400
    assert "surrogate" in answer.text


def test_a_byte_order_mark_begins_no_text(client):
    body = b'\xef\xbb\xbf{"q": "amber", "source": "en", "target": "de"}'
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client):
    answer = client.post(V1, content=b"x" * 1_000_001, headers={"content-type": JSON})
    assert answer.status_code == 413
    assert "more than 1,000,000 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
        b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{}",
        b"\x00\x01\x02\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_broken_http_harms_nobody(server, client, raw):
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(MAX_SECONDS)
        assert b"Traceback" not in connection.recv(100_000)
    assert client.post(V1, json={"text": "amber"}).status_code == 200


def test_head_is_answered_as_get_without_a_body(client):
    for path in ("/", "/health", "/ready", "/v1/models", "/languages", "/page/style.css", "/nowhere"):
        get, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    assert client.head(V1).status_code == 405
    refused = client.get(V1)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert refused.json()["error"]["message"] == f"{V1} does not have the method GET; it has POST."


def test_answers_have_a_request_id_and_the_headers_of_a_careful_server(client):
    answer = client.get("/health", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    other = client.get("/health", headers={"x-request-id": "not one!"})
    assert other.headers["x-request-id"] != "not one!"


def test_the_log_has_no_text_and_metrics_count(server, client):
    client.post(V1, json={"text": "amber heath heath"})
    metrics = client.get("/metrics").text
    assert 'dragoman_requests_total{model="run",route="/v1/translate",status="200"}' in metrics
    assert "dragoman_queue_tokens 0.0" in metrics
    records = [json.loads(line) for line in server.log if line.startswith("{")]
    assert any(record.get("route") == V1 and record["status"] == 200 for record in records)
    assert not any("heath" in line for line in server.log)


def test_the_description_works_without_network(client):
    page = client.get("/docs").text
    assert "http://" not in page
    assert "https://" not in page
    for path in ("/docs/static/swagger-ui-bundle.js", "/docs/static/swagger-ui.css", "/page/docs.js"):
        assert f'"{path[1:]}"' in page
        assert client.get(path).status_code == 200


def endless(text="amber"):
    """A request that takes long: its translation may not end."""
    return {"text": text, "min_length": 10_000, "max_length": 10_000, "beam_size": 16}


@pytest.mark.long
def test_what_takes_too_long_is_stopped(run):
    with serving(run, "--deadline", 0.5) as server, server.client() as client:
        answer = client.post(V1, json=endless())
        assert answer.status_code == 504
        assert "The request took more than 0.5 seconds" in answer.json()["error"]["message"]
        # PyTorch searches with groups, and says nothing before the end: no piece is sent until then.
        silent = endless() | {"groups": 2}
        events = read_events(client.post("/v1/translate/stream", json=silent).text)
        assert [(name, data["error"]["code"]) for name, data in events] == [("error", "deadline_passed")]
        wait_until_idle(client)


def wait_until_idle(client):
    until = time.monotonic() + MAX_SECONDS
    while "dragoman_queue_tokens 0.0" not in client.get("/metrics").text:
        assert time.monotonic() < until


def test_a_full_queue_refuses_at_once_and_says_when(run):
    with (
        serving(run, "--queue-tokens", 30) as server,
        server.client() as client,
        server.client() as other,
        ThreadPoolExecutor(1) as thread,
    ):
        long = thread.submit(other.post, V1, json=endless("amber birch " * 12))
        while "dragoman_running_requests 1.0" not in client.get("/metrics").text:
            time.sleep(0.01)
        answer = client.post(V1, json={"text": "amber " * 20})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["code"] == "queue_full"
        assert 'dragoman_refused_total{code="queue_full"} 1.0' in client.get("/metrics").text
        server.stop(signal.SIGKILL)
        assert isinstance(long.exception(), httpx.HTTPError)


@pytest.mark.long
def test_a_client_that_goes_away_frees_its_place(run):
    with serving(run) as server, server.client() as client:
        for _ in range(20):
            with pytest.raises(httpx.TimeoutException):
                httpx.post(server.address + V1, json=endless(), timeout=0.05)
        wait_until_idle(client)
        assert client.post(V1, json={"text": "amber"}).status_code == 200


def test_a_client_that_goes_away_with_requests_in_a_row_is_no_error(run):
    body = json.dumps(endless()).encode()
    head = f"POST {V1} HTTP/1.1\r\nHost: [::1]\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(run) as server, server.client() as client:
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall((head.encode() + body) * 3)
            while "dragoman_running_requests 1.0" not in client.get("/metrics").text:
                time.sleep(0.01)
        wait_until_idle(client)
        server.stop()
        assert any('"code":"client_gone"' in line for line in server.log)
        assert not any('"level":"error"' in line for line in server.log)


@pytest.mark.long
def test_a_signal_ends_the_server_after_the_requests_that_run(run):
    with serving(run) as server:
        request = {"text": "amber birch " * 40, "min_length": 300, "max_length": 300, "beam_size": 16}
        with ThreadPoolExecutor(1) as thread, server.client() as client, server.client() as other:
            running = thread.submit(other.post, V1, json=request)
            while "dragoman_running_requests 1.0" not in client.get("/metrics").text and not running.done():
                time.sleep(0.005)
            assert server.stop() == 0
            assert running.result().status_code == 200


def test_keys_are_needed_and_only_their_hashes_are_kept(run, tmp_path):
    path = tmp_path / "keys.toml"
    key, other = add_key(path, "mastodon"), add_key(path, "weblate")
    assert key != other
    assert key not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with serving(run, "--host", "0.0.0.0", "--api-keys", path) as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=address, timeout=MAX_SECONDS) as client:
            for path in ("/health", "/docs", "/docs/static/swagger-ui.css", "/page/docs.js", "/openapi.json"):
                assert client.get(path).status_code == 200
            described = client.get("/openapi.json").json()
            for send in (
                lambda: client.post(V1, json={"text": "amber"}),
                lambda: client.post(V1, json={"text": "amber"}, headers={"Authorization": "Bearer x"}),
                lambda: client.get("/metrics"),
                lambda: client.get("/v2/languages"),
            ):
                assert send().status_code == 403
            headers = {"Authorization": f"Bearer {key}"}
            assert client.post(V1, json={"text": "amber"}, headers=headers).status_code == 200
            given = {"q": "amber", "source": "en", "target": "de", "api_key": other}
            assert client.post("/translate", json=given).status_code == 200
            assert client.post("/translate", data=given).status_code == 200
            for body in (json.dumps(given), urlencode(given)):  # without the type of its content
                assert client.post("/translate", content=body).status_code == 200
            deepl = {"text": ["amber"], "target_lang": "de", "auth_key": other}
            assert client.post("/v2/translate", json=deepl).status_code == 200
            parts = {name: (None, value) for name, value in {**deepl, "text": "amber"}.items()}
            assert client.post("/v2/translate", files=parts).status_code == 200
            answer = client.post("/translate", content=r'{"q": "amber", "api_key": "\ud800"}')
            assert answer.status_code == 403
            headers = {"Authorization": f"DeepL-Auth-Key {key}"}
            assert client.get("/v2/usage", headers=headers).status_code == 200
    bearer, header = (described["components"]["securitySchemes"][name] for name in ("Key", "DeepLKey"))
    assert (bearer["type"], bearer["scheme"]) == ("http", "bearer")
    assert (header["type"], header["in"], header["name"]) == ("apiKey", "header", "Authorization")
    assert described["security"] == [{"Key": []}, {"DeepLKey": []}]
    open_paths = [
        path
        for path, methods in described["paths"].items()
        if all(each.get("security") == [] for each in methods.values())
    ]
    assert open_paths == ["/languages", "/frontend/settings", "/health", "/ready"]


def test_a_socket_that_cannot_be_made_is_explained():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with (
            pytest.raises(DragomanError, match="port 0 cannot be used: Too many open files"),
            listening(ServerSettings(port=0)),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_rate_of_an_address_is_that_of_the_connection_whatever_a_header_says(run):
    with serving(run, "--requests-per-minute", 2) as server, server.client() as client:
        answers = [
            client.get("/v1/models", headers={"X-Forwarded-For": f"192.0.2.{number}"}) for number in range(3)
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 429]


def test_a_fault_of_the_model_or_the_machine_is_no_fault_of_the_request(run, tmp_path):
    stored = StoredModel.load(run)
    stored.weights["decoder.0.feed_forward.inner.weight"][0] = float("nan")
    stored.save(tmp_path / "model")
    service = Service(load_models([tmp_path], EngineSettings()), ServerSettings(), Metrics())
    (answer,) = answers(make_app(service, None), (V1, {"text": "AMBER"}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_not_finite")
    assert "its training diverged" in answer.json()["error"]["message"]
    lacking = refusal(NotEnoughMemoryError("There is not enough memory."))
    assert (lacking.status, lacking.code, lacking.retry_after) == (503, "out_of_memory", 1)
    assert refusal(DragomanError("The text is empty.")).status == 400


@pytest.mark.parametrize("docs", [True, False])
def test_an_unknown_path_names_the_description_if_there_is_one(translator, docs):
    service = Service(
        Models((ServedModel("ende", "en", "de", translator),)), ServerSettings(docs=docs), Metrics()
    )
    (answer,) = answers(make_app(service, None), ("/nothing", None))
    advice = "; /docs lists what there is" if docs else ""
    assert answer.json()["error"]["message"] == f"There is no /nothing{advice}."


@pytest.mark.parametrize(
    ("path", "names"),
    [("/v2", {"message"}), ("/v3", {"message"}), ("/v2/x", {"message"}), ("/v30", {"code", "message"})],
)
def test_errors_have_the_form_of_the_api_of_their_path(path, names):
    body = error_body(path, "not_found", "There is none.")
    assert set(body.get("error", body)) == names


def test_the_limit_of_characters_is_that_of_the_body_or_of_the_tokens(translator):
    models = Models((ServedModel("ende", "en", "de", translator),))
    for limits, most in (({"max_body": 500}, 500), ({"max_tokens": 10}, 160)):
        app = make_app(Service(models, ServerSettings(**limits), Metrics()), None)
        (found,) = answers(app, ("/frontend/settings", None))
        assert found.json()["charLimit"] == most


@pytest.mark.long
def test_names_of_languages_that_clients_make_up_are_forgotten():
    for number in range(2_000):
        language_name(f"en-{number}")
    assert language_name.cache_info().currsize == 1_000


def test_pages_of_allowed_origins_can_read_every_answer(run):
    options = ("--allow-origins", "https://example.org", "--max-body", 100, "--requests-per-minute", 2)
    with serving(run, *options) as server, server.client(headers={"Origin": "https://example.org"}) as client:
        answers = [client.post(V1, json={"text": text}) for text in ("amber" * 30, "amber", "birch", "cedar")]
        answers.append(client.get("/v1/models"))
        assert [answer.status_code for answer in answers] == [413, 200, 200, 429, 429]
        for answer in answers:
            assert answer.headers["access-control-allow-origin"] == "https://example.org"
        assert "Retry-After" in answers[-1].headers["access-control-expose-headers"]
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        for origin, status in (("https://example.org", 200), ("https://example.com", 403), ("null", 403)):
            preflight = client.options(V1, headers={"Origin": origin, **asked})
            assert preflight.status_code == status
            assert ("access-control-allow-origin" in preflight.headers) == (status == 200)
        other = client.post(V1, json={"text": "amber"}, headers={"Origin": "https://example.com"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


def test_the_limits_of_a_server_hold_in_all_of_its_apis(run):
    sent = {
        V1: lambda texts: {"text": texts},
        "/translate": lambda texts: {"q": texts, "source": "en", "target": "de"},
        "/v2/translate": lambda texts: {"text": texts, "target_lang": "de"},
        "/v1/score": lambda texts: {"pairs": [[text, text] for text in texts]},
    }
    limits = ServerSettings(max_beam_size=1, max_n_best=3, max_texts=2)
    app = make_app(Service(load_models([run], EngineSettings()), limits, Metrics()), None)
    best, narrow, no_repeat, samples, wide = answers(
        app,
        (V1, {"text": "amber birch"}),
        (V1, {"text": "amber birch", "beam_size": 1}),
        (V1, {"text": "amber", "no_repeat_ngram": 2}),
        (V1, {"text": "amber", "temperature": 1.0, "n_best": 3}),
        (V1, {"text": "amber", "beam_size": 2}),
    )
    assert best.json() == narrow.json()
    assert no_repeat.status_code == samples.status_code == 200
    assert "beam_size is 2; this server allows 1 at most." in wide.text
    for path, body in sent.items():
        few, many = answers(app, *((path, body(["amber", "birch", "cedar"][:count])) for count in (2, 3)))
        assert few.status_code == 200
        assert many.status_code == 400
        assert "3" in many.text


def test_a_key_is_looked_for_in_a_time_that_is_linear_in_the_body():
    assert not key_of_body("multipart/form-data", b"name=api_key\r\n" * 70_000)
    assert not key_of_form("a=b&" * 250_000 + "api_key=secret")


def test_a_rate_is_a_bucket_that_fills_evenly(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limit = RateLimit(60)
    assert [limit.seconds_until_allowed("a") for _ in range(60)] == [0.0] * 60
    assert limit.seconds_until_allowed("a") == pytest.approx(1)
    assert limit.seconds_until_allowed("b") == 0
    now = 1.5
    assert limit.seconds_until_allowed("a") == 0
    assert limit.seconds_until_allowed("a") == pytest.approx(0.5)


def test_the_queue_is_bounded_in_tokens_and_in_time(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    queue = Admission(max_tokens=10_000, deadline=8.0)
    with queue.admit(20_000, "one"):  # alone
        with pytest.raises(Exception, match="busy"):
            queue.admit(1, "one").__enter__()
        now = 20.0
    assert queue.tokens == 0
    # 1,000 tokens per second: 4,000 are done in half of the deadline.
    with queue.admit(3_900, "one"), queue.admit(50, "one"), pytest.raises(Exception, match="busy"):
        queue.admit(100, "one").__enter__()
    assert queue.tokens == 0


def test_nobody_waits_longer_than_until_the_requests_so_far_have_ended(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    queue = Admission(max_tokens=10_000, deadline=8.0)
    with queue.admit(100, "one"):
        now = 1.0
    for _ in range(50):  # they pass the deadline, and count as no work
        with suppress(TimeoutError), queue.admit(9_000, "one"):
            now += 8.0
            raise TimeoutError
    with queue.admit(9_000, "one"):
        assert queue.seconds_too_many(5_000, "one") == 8.0


def test_keys_that_are_made_at_once_are_all_kept(tmp_path):
    names = [f"client {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda name: api_keys.add_key(tmp_path / "keys.toml", name), names))
    kept = Keys.load(tmp_path / "keys.toml")
    assert [kept.owner(key) for key in keys] == names


def test_a_new_key_leaves_the_rest_of_its_file(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text("\n \n")  # as an editor leaves a file from which all has been removed
    first = api_keys.add_key(path, "one")
    path.write_text(f"# of Anna\n[other]\nx = 1\n{path.read_text()}# the last line")
    before = path.read_text()
    second = api_keys.add_key(path, "two")
    assert path.read_text().startswith(before)
    assert [Keys.load(path).owner(key) for key in (first, second)] == ["one", "two"]
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    api_keys.add_key(path, "more")
    path.write_bytes(b"\xff" + path.read_bytes())
    with pytest.raises(DragomanError, match="keys.toml (is not TOML|cannot be read: it is not UTF-8)"):
        api_keys.add_key(path, "no text")
    path.write_bytes(path.read_bytes()[1:] + b"[more]\n")
    with pytest.raises(DragomanError, match=r"keys.toml has another table after \[keys\]; move \[keys\]"):
        api_keys.add_key(path, "three")
    assert path.read_text().endswith("[more]\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "can be reached from other machines"),
        ({"port": 70_000}, "port is 70000"),
        ({"deadline": 0}, "deadline is 0"),
        *(
            ({"host": host, "no_auth": True}, f"host is {re.escape(repr(host))}, which is no address")
            for host in ("", " 127.0.0.1", "[::1]", "localhost:8000", "*", "http://127.0.0.1")
        ),
        ({"host": "127.example.org"}, "127.example.org can be reached from other machines"),
        (
            {"allow_hosts": ("https://example.org",)},
            "allow_hosts has 'https://example.org', which is no name",
        ),
        (
            {"allow_hosts": ("example.org:80",)},
            "which is no name of a host. Give names without scheme and port",
        ),
        ({"allow_hosts": ("a.*.org",)}, "which is no name"),
        ({"allow_origins": ("https://example.org/",)}, "which is no origin. Give scheme, host and"),
        ({"allow_origins": ("null",)}, "allow_origins has 'null'"),
    ],
)
def test_settings_that_are_unsafe_or_out_of_bounds_are_refused(options, message):
    with pytest.raises(DragomanError, match=message):
        ServerSettings(**options)
    assert ServerSettings(host="0.0.0.0", no_auth=True)


@pytest.mark.long
def test_a_process_that_dies_is_replaced_or_the_others_keep_serving_and_they_end_if_none_can(run, tmp_path):
    shutil.copytree(run / "model", tmp_path / "run" / "model")
    with serving(tmp_path / "run", "--processes", 2) as server:
        until = time.monotonic() + MAX_SECONDS
        victim, _ = when_loaded(server)
        os.kill(victim, signal.SIGKILL)
        while not any("another one starts" in line for line in server.log) or victim in children(
            server.process.pid
        ):
            assert time.monotonic() < until
            time.sleep(0.05)
        (record,) = (json.loads(line) for line in server.log if '"level":"error"' in line)
        assert record["message"] == f"Server process {victim} ended with signal 9; another one starts."
        first, second = when_loaded(server)
        (tmp_path / "run").rename(tmp_path / "away")
        os.kill(first, signal.SIGKILL)
        while not any("ended with status 2" in line for line in server.log):
            assert time.monotonic() < until
            time.sleep(0.05)
        with server.client() as client:
            assert client.post(V1, json={"text": "amber"}).status_code == 200
        os.kill(second, signal.SIGKILL)
        assert server.process.wait(MAX_SECONDS) == 2


def when_loaded(server, headers=None):
    """The two server processes, when each has answered while the other was stopped."""
    until = time.monotonic() + MAX_SECONDS
    while len(children(server.process.pid)) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    first, second = children(server.process.pid)
    for stopped in (first, second):
        os.kill(stopped, signal.SIGSTOP)
        with server.client(headers=headers) as client:
            assert client.post(V1, json={"text": "amber"}).status_code == 200
        os.kill(stopped, signal.SIGCONT)
    return first, second


@pytest.mark.long
def test_the_processes_end_with_the_one_that_started_them_also_if_it_is_killed(run):
    with serving(run, "--processes", 2) as server:
        until = time.monotonic() + MAX_SECONDS
        with server.client() as client:
            assert client.post(V1, json={"text": "amber"}).status_code == 200
        server.process.kill()
        host, port = server.address.removeprefix("http://").split(":")
        while is_listening(host, int(port)):
            assert time.monotonic() < until
            time.sleep(0.05)


def is_listening(host, port):
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


@pytest.mark.long
def test_processes_that_cannot_load_do_not_say_that_they_serve(run, tmp_path):
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"")
    command = [sys.executable, "-m", "dragoman", "serve", tmp_path, "--processes", "2", "--port", "0"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=MAX_SECONDS)
    assert ended.returncode == 2
    assert "Serving" not in ended.stderr
    assert "model.safetensors" in ended.stderr


def children(pid):
    found = []
    for path in os.listdir("/proc"):
        if path.isdigit():
            try:
                with open(f"/proc/{path}/stat") as file:
                    fields_ = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields_[1]) == pid and fields_[0] != "Z":
                found.append(int(path))
    return found


def test_a_sentence_is_inspected(client, run):
    answer = client.post("/v1/inspect", json={"text": "amber birch", "beam_size": 2})
    assert answer.status_code == 200, answer.text
    translator = Translator.load(run, native=False)
    expected = json.loads(json.dumps(to_json(inspect(translator, "amber birch", beam_size=2))))
    found = answer.json()
    assert (found["translation"], found["beam"]) == (expected["translation"], expected["beam"])
    for text, status, message in (
        (" ", 400, "The sentence is blank"),
        (
            "amber " * 300,
            413,
            "has more than 200 tokens, which is too long for an inspection by a server; send "
            "a shorter sentence, or use `dragoman inspect`, which has no such limit.",
        ),
    ):
        refused = client.post("/v1/inspect", json={"text": text})
        assert refused.status_code == status
        assert message in refused.text


@pytest.mark.long
def test_the_identifier_is_read_beside_the_event_loop(monkeypatch):
    readers, read = [], LanguageIdentifier.from_model_file

    def noted(*arguments, **options):
        readers.append(threading.current_thread())
        return read(*arguments, **options)

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", noted)
    identifier_of.cache_clear()
    asyncio.run(load_identifier())
    assert len(readers) == 1
    assert readers[0] is not threading.current_thread()


def test_an_empty_translation_leaves_its_sentence_and_is_a_candidate():
    document = plain_text("Amber. Birch.", "en")
    empty, full = (Translation(text, -1.0, -1.0, []) for text in ("", "BIRCH."))
    found = v1.translated_text(document, [[empty], [full]], with_spans=True)
    assert found.text == "Amber. BIRCH."
    assert [sentence.text for sentence in found.sentences] == ["Amber.", "BIRCH."]
    assert [sentence.n_best[0].text for sentence in found.sentences] == ["", "BIRCH."]
    assert v1.part_of(document, 0, "", None) == ""  # nothing is known yet
    assert v1.part_of(document, 0, "", [empty]) == "Amber."
    assert v1.part_of(document, 1, "BI", None) == " BI"

"""What a key may do: its rate, its characters, its models and its languages."""

import asyncio
import json
import time

import httpx
import pytest
import tomli_w
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.keys import KeyLimits, Keys, add_key, hash_of
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.translator import Translator

V1 = "/v1/translate"
LANGUAGES = ["en", "de", "fr", "pt-BR"]


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.load(trained / "run")


@pytest.fixture(scope="module")
def models(translator):
    pairs = [(one, other) for one in LANGUAGES for other in LANGUAGES if one != other]
    return Models(tuple(ServedModel(f"{one}-{other}", one, other, translator) for one, other in pairs))


def app_of(models, limits, **settings):
    """An application for the keys `free`, and `bound` and `other` with these limits."""
    names = ("free", "bound", "other")
    keys = Keys({name: hash_of(name) for name in names}, {"bound": limits, "other": limits})
    return make_app(Service(models, ServerSettings(**settings), Metrics()), keys)


def ask(app, *requests, key="bound"):
    async def send():
        transport = httpx.ASGITransport(app)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            return [
                await (client.get(path) if body is None else client.post(path, json=body))
                for path, body in requests
            ]

    return asyncio.run(send())


LIMITS = st.builds(
    KeyLimits,
    requests_per_minute=st.none() | st.integers(0, 1_000),
    characters_per_minute=st.integers(0, 10_000),
    models=st.lists(st.text('aé"\\ ', max_size=5), max_size=2).map(tuple),
    languages=st.lists(st.sampled_from(LANGUAGES), max_size=2).map(tuple),
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), LIMITS, min_size=1, max_size=3), st.booleans())
def test_limits_stand_beside_hashes_in_the_file_also_when_a_key_is_added(tmp_path_factory, limits, is_added):
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    entries = {}
    for name, given_limits in limits.items():
        values = {
            field: list(value) if isinstance(value, tuple) else value
            for field, value in vars(given_limits).items()
        }
        entries[name] = {"hash": hash_of(f"key of {name}")} | {
            field: value for field, value in values.items() if value is not None
        }
    lines = [
        f"{tomli_w.dumps({name: 0}).partition(' = ')[0]} = {inline(entry)}" for name, entry in entries.items()
    ]
    path.write_text("\n".join(["[keys]", *lines]) + "\n")
    hashes = {name: hash_of(f"key of {name}") for name in limits}
    if is_added and "new key" not in limits:
        hashes["new key"] = hash_of(add_key(path, "new key"))
    loaded = Keys.load(path)
    assert loaded.hashes == hashes
    assert loaded.limits == {name: one for name, one in limits.items() if one != KeyLimits()}


def inline(table):
    """A table on one line of TOML."""
    return "{" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in table.items()) + "}"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            '{hash = "HASH", request_per_minute = 1}',
            "keys.toml: one has 'request_per_minute', which this version",
        ),
        ('{hash = "HASH", models = "a"}', "one: models is 'a'; it has to be a list of texts in quotes"),
        (
            '{hash = "HASH", requests_per_minute = -1}',
            "one: requests_per_minute is -1; it must be at least 0",
        ),
        ("{requests_per_minute = 1}", "with a SHA-256 hash for each name"),
        ('{hash = "no"}', "with a SHA-256 hash for each name"),
    ],
)
def test_wrong_limits_are_refused_with_the_key_and_the_name(tmp_path, entry, message):
    (tmp_path / "keys.toml").write_text(f"[keys]\none = {entry.replace('HASH', hash_of('a'))}\n")
    with pytest.raises(DragomanError, match=message):
        Keys.load(tmp_path / "keys.toml")


@pytest.mark.long
@given(
    st.lists(st.sampled_from(LANGUAGES), max_size=3, unique=True),
    st.lists(st.sampled_from(["en-de", "de-en", "fr-en"]), max_size=2),
)
def test_a_key_sees_and_uses_the_models_that_it_permits(models, languages, names):
    app = app_of(models, KeyLimits(models=tuple(names), languages=tuple(languages)))
    permitted = [
        model
        for model in models.models
        if not names or model.name in names
        if not languages or {model.source, model.target} <= {*languages}
    ]
    listed, first = ask(app, ("/v1/models", None), (V1, {"text": "amber"}))
    if not permitted:
        assert (listed.status_code, first.status_code) == (403, 403)
        assert "The API key permits none of this server's models." in first.text
        return
    assert [model["name"] for model in listed.json()["models"]] == [model.name for model in permitted]
    assert first.json()["model"] == permitted[0].name
    for model in models.models[:3]:
        pair = {"source": model.source, "target": model.target}
        found = ask(
            app,
            (V1, {"text": "amber", "model": model.name}),
            ("/v1/score", {"pairs": [["amber", "AMBER"]], "model": model.name}),
            ("/translate", {"q": "amber", **pair}),
            ("/v2/translate", {"text": ["amber"], "source_lang": model.source, "target_lang": model.target}),
        )
        assert [answer.status_code for answer in found] == (
            [200] * 4 if model in permitted else [404, 404, 400, 400]
        )
    (everything,) = ask(app, ("/v1/models", None), key="free")
    assert len(everything.json()["models"]) == len(models.models)


@pytest.mark.long
@given(
    st.lists(st.sampled_from(LANGUAGES), max_size=3, unique=True),
    st.lists(st.sampled_from(["en-de", "de-en", "fr-en"]), max_size=2),
)
def test_for_a_limited_key_the_server_is_one_that_has_no_other_models(
    tmp_path_factory, models, languages, names
):
    glossaries = tmp_path_factory.mktemp("glossaries")
    app = app_of(models, KeyLimits(models=tuple(names), languages=tuple(languages)), glossaries=glossaries)
    try:
        permitted = models.permitted(tuple(names), tuple(languages))
    except ApiError:
        return
    alone = app_of(permitted, KeyLimits(), glossaries=glossaries)
    pair = {"source": "auto", "target": permitted.models[0].target}
    requests = [
        *((path, None) for path in ("/v1/models", "/languages", "/frontend/settings")),
        *((f"/v2/languages?type={side}", None) for side in ("source", "target")),
        ("/v2/glossary-language-pairs", None),
        ("/detect", {"q": "Ein Mann fährt ein Fahrrad."}),
        ("/translate", {"q": "amber", **pair}),
        ("/v2/translate", {"text": ["amber"], "target_lang": pair["target"]}),
    ]
    answers = zip(requests, ask(app, *requests), ask(alone, *requests), strict=True)
    for request, found, expected in answers:
        assert (found.status_code, found.json()) == (200, expected.json()), request


def test_a_key_has_its_own_rate(models, monkeypatch):
    app = app_of(models, KeyLimits(requests_per_minute=3), requests_per_minute=1)
    request = ("/v1/models", None)
    assert [answer.status_code for answer in ask(app, *[request] * 4)] == [200, 200, 200, 429]
    assert [answer.status_code for answer in ask(app, *[request] * 2, key="free")] == [200, 429]
    unlimited = app_of(models, KeyLimits(requests_per_minute=0), requests_per_minute=1)
    assert {answer.status_code for answer in ask(unlimited, *[request] * 9)} == {200}


@settings(max_examples=10)
@example(2, [47, 81])
@given(st.integers(1, 9), st.lists(st.integers(0, 500), min_size=1, max_size=3))
def test_who_waits_as_long_as_it_is_told_and_no_shorter_is_admitted(models, per_minute, pauses):
    with pytest.MonkeyPatch.context() as patched:
        now = 0.0
        patched.setattr("dragoman.serving.keys.time", type("Clock", (), {"monotonic": lambda: now}))
        app, request = app_of(models, KeyLimits(requests_per_minute=per_minute)), ("/v1/models", None)
        ask(app, *[request] * per_minute)
        for pause in pauses:
            now += pause / 64
            while (answer := ask(app, request)[0]).status_code == 200:
                pass
            wait = int(answer.headers["retry-after"])
            now += wait - 1
            assert [answer.status_code for answer in ask(app, request)] == [429]
            now += 1
            assert [answer.status_code for answer in ask(app, request)] == [200]


def test_the_characters_of_a_key_are_those_of_all_apis_in_a_minute(models, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr("dragoman.serving.keys.time", type("Clock", (), {"monotonic": lambda: now}))
    app = app_of(models, KeyLimits(characters_per_minute=60))
    requests = [
        (V1, {"text": ["amber", "birch"]}),  # 10 characters
        ("/translate", {"q": "amber", "source": "en", "target": "de"}),
        ("/v2/translate", {"text": ["amber"], "target_lang": "DE"}),
        ("/v1/score", {"pairs": [["amber", "AMBER"]]}),
        ("/v1/translate/stream", {"text": "amber birch cedar x."}),  # 20
    ]
    assert [answer.status_code for answer in ask(app, *requests)] == [200] * 5
    (refused,) = ask(app, (V1, {"text": "amber birch 12"}))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "4"
    assert "This key may translate 60 characters per minute, and the request has 14" in refused.text
    (by_another,) = ask(app, (V1, {"text": "amber birch 12"}), key="other")
    assert by_another.status_code == 200
    (allowed,) = ask(app, (V1, {"text": "amber 1234"}))
    assert allowed.status_code == 200
    now += 60
    long, fitting = ask(app, (V1, {"text": "amber " * 11}), (V1, {"text": "amber " * 10}))
    assert (long.status_code, fitting.status_code) == (413, 200)
    assert {answer.status_code for answer in ask(app, (V1, {"text": "amber " * 50}), key="free")} == {200}

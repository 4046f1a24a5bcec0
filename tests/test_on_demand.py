"""Models that are loaded when requests need them: the same answers, in a bounded memory."""

import asyncio
import json
import shutil
import weakref

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.native.settings import EngineSettings
from dragoman.serving.app import make_app
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.reload import Reload
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from tests.test_reload import TEXTS, link, reload, versions  # noqa: F401  a fixture
from tests.test_served_adapters import answers
from tests.test_serving import read_events

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")

V1 = "/v1/translate"
NAMES = ("one", "two", "three")
PIVOT = {"source": "fr", "target": "de"}  # by three, then by one


def served_on_demand(folder, models):
    """The application, in whose memory there is room for so many models."""
    loaded = load_models([folder], EngineSettings(), on_demand=True)
    size = max(model.size for model in loaded.models)
    service = Service(loaded, ServerSettings(max_memory=models * size), Metrics())
    app = make_app(service, None)
    service.reload = Reload(app, [folder], EngineSettings(), None)
    return app


def held(app):
    """The names of the models in memory, that first which has not been used for longest."""
    names = {model.hash: model.name for model in app.service.models.models}
    return [names[key] for key in app.service.on_demand.held]


@pytest.fixture(scope="module")
def translations(versions):  # noqa: F811
    """What each model gives for the texts, and what a pivot does."""
    translators = {name: Translator.load(versions / name) for name in NAMES}
    found = {name: translator.translate(TEXTS) for name, translator in translators.items()}
    by_pivot = zip(TEXTS, translators["one"].translate(found["three"]), strict=True)
    return found | {"pivot": [translation or source for source, translation in by_pivot]}


def request(name):
    return {"text": TEXTS, **(PIVOT if name == "pivot" else {"model": name})}


@pytest.mark.long
@settings(max_examples=20)
@given(st.integers(1, 3), st.lists(st.sampled_from(NAMES), min_size=1, max_size=12))
def test_the_models_in_memory_are_those_used_last_and_answer_as_all_do(versions, translations, room, used):  # noqa: F811
    app = served_on_demand(versions, room)
    expected = []
    for name in used:
        (found,) = answers(app, (V1, request(name)))
        assert [each["text"] for each in found.json()["translations"]] == translations[name]
        expected = [*(each for each in expected if each != name), name][-room:]
        assert held(app) == expected


@pytest.mark.parametrize("room", [1, 2])
def test_requests_at_once_get_what_each_gets_alone(versions, translations, room):  # noqa: F811
    app = served_on_demand(versions, room)

    async def send(client, number):
        name = ("pivot", *NAMES)[number % 4]
        if number % 3:
            answer = await client.post(V1, json=request(name))
            return name, [each["text"] for each in answer.json()["translations"]]
        body = {**request(name), "text": "\n".join(TEXTS)}
        answer = await client.post(f"{V1}/stream", json=body)
        return name, read_events(answer.text)[-1][1]["translations"][0]["text"].split("\n")

    async def send_all():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(*(send(client, number) for number in range(40)))

    for name, texts in asyncio.run(send_all()):
        assert texts == translations[name]


def test_what_a_request_uses_is_kept_and_what_is_dropped_is_freed(versions, translations):  # noqa: F811
    app = served_on_demand(versions, 1)
    on_demand = app.service.on_demand
    one, two, three = (app.service.models.named(name) for name in NAMES)

    async def use():
        lent = await on_demand.get(one)
        assert (await on_demand.get(one)).translator is lent.translator
        await on_demand.get(two)
        assert held(app) == ["one", "two"]
        translator = weakref.ref(lent.translator)
        assert lent.translator.translate(TEXTS) == translations["one"]
        del lent
        await on_demand.get(three)
        assert held(app) == ["three"]
        return translator

    assert asyncio.run(use())() is None


def test_models_are_described_without_being_loaded(versions):  # noqa: F811
    app = served_on_demand(versions, 1)
    eager = make_app(Service(load_models([versions], EngineSettings()), ServerSettings(), Metrics()), None)
    paths = ("/v1/models", "/languages", "/v2/languages", "/openapi.json", "/frontend/settings")
    for found, expected in zip(
        *(answers(each, *((path, None) for path in paths)) for each in (app, eager)), strict=True
    ):
        assert without_letters(found.json()) == without_letters(expected.json())
    assert held(app) == []


def without_letters(answer):
    """An answer without what is known of a model only when it is loaded: which letters it reads."""
    for model in answer.get("models", []) if isinstance(answer, dict) else []:
        del model["scripts"], model["reads_capitals"]
    return answer


def test_a_model_stays_that_of_the_start_until_the_server_reloads(versions, translations, tmp_path):  # noqa: F811
    link(versions, tmp_path / "ende", "one")
    app = served_on_demand(tmp_path, 1)
    link(versions, tmp_path / "ende", "two")
    for expected in ("one", "two"):
        (found,) = answers(app, (V1, {"text": TEXTS}))
        assert [each["text"] for each in found.json()["translations"]] == translations[expected]
        assert reload(app) == ""
        assert len(held(app)) == (expected == "two")


def test_files_that_are_damaged_are_refused_at_the_start_and_later(versions, translations, tmp_path, capsys):  # noqa: F811
    for name in ("one", "two"):
        shutil.copytree(versions / name, tmp_path / name)
    app = served_on_demand(tmp_path, 1)
    (tmp_path / "two" / "model.safetensors").write_bytes(b"")
    good, bad = answers(app, (V1, request("one")), (V1, request("two")))
    assert [each["text"] for each in good.json()["translations"]] == translations["one"]
    assert (bad.status_code, bad.json()["error"]["code"]) == (503, "not_loaded")
    assert (
        bad.json()["error"]["message"] == "The model two cannot be loaded; the server's log has the reason."
    )
    messages = [json.loads(line).get("message", "") for line in capsys.readouterr().err.splitlines()]
    assert any("model.safetensors is damaged" in message for message in messages)
    with pytest.raises(DragomanError, match=r"model\.safetensors is damaged"):
        load_models([tmp_path], EngineSettings(), on_demand=True)

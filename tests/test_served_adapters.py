"""Adapters of served models: a request that names one gets what its merged run gives."""

import asyncio
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from dragoman import Translator
from dragoman.cli.adapter import import_adapter
from dragoman.cli.import_model import Import
from dragoman.native.settings import EngineSettings
from dragoman.serving.apis.schemas import ModelDescription, ModelsResponse
from dragoman.serving.app import make_app
from dragoman.serving.cards import readable
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.server import names
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from dragoman.translation.adapter import Adapter
from dragoman.translation.model_folder import StoredModel, model_hash, torch_model
from tests.conftest import ALL_PRECISIONS

TEXTS = ["amber birch cedar", "delta ember fjord grove heath"]


@pytest.fixture(scope="module")
def base(trained):
    return trained / "run"


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory):
    """A folder with two adapters of the base; read only."""
    folder = tmp_path_factory.mktemp("adapters")
    weights = StoredModel.load(base).weights
    for seed, name in enumerate(("legal", "medical")):
        draw = np.random.default_rng(seed)
        factors = {
            weight: tuple(draw.normal(0, 0.1, shape).astype(np.float32) for shape in ((2, 32), (32, 2)))
            for weight in weights
            if weights[weight].shape == (32, 32)
        }
        Adapter(model_hash(base), factors, 9).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def merged(base, adapters, tmp_path_factory):
    """The runs that `import --from adapter` writes, by the adapter's name; the base as ""."""
    folder = tmp_path_factory.mktemp("merged")
    for name in ("legal", "medical"):
        import_adapter(Import(adapters / name, "adapter", folder / name, base=base))
    return {"": base, "legal": folder / "legal", "medical": folder / "medical"}


def app_of(*folders, **engine):
    """The application that serves these folders."""
    models = load_models(folders, EngineSettings(**engine))
    return make_app(Service(models, ServerSettings(), Metrics()), None)


@pytest.fixture(scope="module")
def app(base, adapters):
    return app_of(base, adapters)


def answers(app, *requests):
    """The application's answers: each request is a path, with a body to post or None."""

    async def send():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                await (client.get(path) if body is None else client.post(path, json=body))
                for path, body in requests
            ]

    return asyncio.run(send())


@pytest.mark.parametrize("precision", ALL_PRECISIONS)
def test_each_adapter_translates_as_its_merged_run(base, adapters, merged, precision):
    app = app_of(adapters, base, precision=precision)
    body = {"text": TEXTS, "n_best": 3, "split_sentences": False}
    asked = [("/v1/translate", body | ({"adapter": name} if name else {})) for name in merged]
    found = {}
    for name, answer in zip(merged, answers(app, *asked), strict=True):
        body = answer.json()
        assert (body["model"], body["adapter"]) == ("run", name)
        found[name] = [each["sentences"][0]["n_best"] for each in body["translations"]]
        best = Translator.load(merged[name], precision=precision).n_best(TEXTS, n_best=3)
        expected = [[asdict(one) for one in each] for each in best]
        assert found[name] == json.loads(json.dumps(expected))
    assert found[""] != found["legal"] != found["medical"] != found[""]


def test_every_route_that_computes_takes_an_adapter(app, merged):
    translator = Translator.load(merged["legal"])
    chosen = {"adapter": "legal"}
    stream, score, alternatives, inspected = answers(
        app,
        ("/v1/translate/stream", {"text": TEXTS[0]} | chosen),
        ("/v1/score", {"pairs": [[TEXTS[0], "AMBER"]]} | chosen),
        ("/v1/alternatives", {"text": TEXTS[0], "count": 2} | chosen),
        ("/v1/inspect", {"text": TEXTS[0]} | chosen),
    )
    (best,) = translator.translate(TEXTS[:1])
    end = json.loads(stream.text.rpartition("data: ")[2])
    assert (end["adapter"], end["translations"][0]["text"]) == ("legal", best)
    (scored,) = translator.score([(TEXTS[0], "AMBER")])
    assert score.json()["scores"][0]["log_probability"] == scored.log_probability
    found = [each["token"] for each in alternatives.json()["alternatives"]]
    assert found == [each.token for each in translator.alternatives(TEXTS[0], 2)]
    assert inspected.status_code == 200
    assert inspected.json().get("training") is None  # that of the base would be another model's


def test_the_apis_without_a_field_for_an_adapter_translate_with_the_model_itself(base, adapters, tmp_path):
    stored, adapter = StoredModel.load(base), Adapter.load(adapters / "legal")
    replace(stored, languages=Languages("en", "de")).save(tmp_path / "base" / "model")
    replace(adapter, base=model_hash(tmp_path / "base")).save(tmp_path / "legal")
    libretranslate, deepl = answers(
        app_of(tmp_path / "base", tmp_path / "legal"),
        ("/translate", {"q": TEXTS, "source": "en", "target": "de"}),
        ("/v2/translate", {"text": TEXTS, "target_lang": "DE"}),
    )
    expected = Translator.load(base).translate(TEXTS)
    assert libretranslate.json()["translatedText"] == expected
    assert [each["text"] for each in deepl.json()["translations"]] == expected


def test_the_description_of_a_model_has_every_field(app):
    (answer,) = answers(app, ("/v1/models", None))
    assert answer.json().keys() == ModelsResponse.model_fields.keys()
    for model in answer.json()["models"]:
        assert model.keys() == ModelDescription.model_fields.keys()


def test_a_model_is_described_as_it_is(base, tmp_path):
    stored = replace(StoredModel.load(base), languages=Languages("en", "pt-BR"))
    stored.save(tmp_path / "enpt")
    (answer,) = answers(app_of(tmp_path / "enpt", precision="int8"), ("/v1/models", None))
    (found,) = answer.json()["models"]
    model = torch_model(stored)
    scripts, is_reading_capitals = readable(stored.tokenizers.source)
    assert found == {
        "name": "enpt",
        "source": "en",
        "target": "pt-BR",
        "source_name": "English",
        "target_name": "Portuguese (Brazil)",
        "architecture": stored.settings.architecture,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "precision": "int8",
        "adapters": [],
        "example": "",
        "scripts": scripts,
        "reads_capitals": is_reading_capitals,
    }


def test_every_path_is_described_with_what_a_page_of_another_site_gets(app):
    (answer,) = answers(app, ("/openapi.json", None))
    statuses = {
        path: {status for operation in methods.values() for status in operation["responses"]}
        for path, methods in answer.json()["paths"].items()
    }
    assert [path for path, found in statuses.items() if not {"403", "421"} <= found] == []


def test_a_model_lists_its_adapters(app, base, adapters):
    models, description = answers(app, ("/v1/models", None), ("/openapi.json", None))
    assert [each["adapters"] for each in models.json()["models"]] == [["legal", "medical"]]
    schemas = description.json()["components"]["schemas"]
    assert {"text": "A man rides a bike.", "adapter": "legal"} in schemas["TranslateRequest"]["examples"]
    for name in ("AlternativesRequest", "InspectRequest", "ScoreRequest", "TranslateRequest"):
        assert schemas[name]["properties"]["adapter"]["description"]
    assert names(app) == "run (und to und; adapters: legal, medical)"


@pytest.mark.parametrize(
    ("choice", "status", "message"),
    [
        ({"adapter": "law"}, 404, "There is no adapter 'law'; /v1/models lists those that are served."),
        ({"adapter": "x" * 201}, 400, "adapter: it has to have at most 200 characters"),
        (
            {"adapter": "legal", "model": "ende"},
            404,
            "There is no model 'ende' with the adapter 'legal'; /v1/models lists those that are served.",
        ),
        ({"model": "legal"}, 404, "There is no model 'legal'; /v1/models"),
    ],
)
def test_a_name_that_is_not_served_gets_a_sentence(app, choice, status, message):
    (answer,) = answers(app, ("/v1/translate", {"text": TEXTS[0]} | choice))
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def test_folders_that_do_not_belong_together_are_refused(base, adapters, tmp_path):
    stored = StoredModel.load(base)
    doubled = {name: weight * 2 for name, weight in stored.weights.items()}
    replace(stored, weights=doubled).save(tmp_path / "other" / "model")
    (tmp_path / "empty").mkdir()
    legal, second = adapters / "legal", tmp_path / "second" / "legal"
    shutil.copytree(legal, second)
    damaged = tmp_path / "damaged"
    shutil.copytree(legal, damaged)
    (damaged / "adapter.safetensors").write_bytes(b"")
    is_not_served = f"{legal} is an adapter, and the model that it was trained on is not served. Give both: "
    for folders, message in (
        ([legal], f"{is_not_served}dragoman serve RUN {legal}"),
        ([tmp_path / "other", legal], is_not_served),
        ([base, legal, second], "Two adapters of run are named legal; rename one of their folders"),
        ([base, base], "Two models are named run; rename one of their folders"),
        ([base, tmp_path / "empty"], "empty holds no model and no adapter, and neither do the folders in it"),
        ([base, tmp_path / "none"], "none is not a folder; give the folder of a run"),
        ([base, damaged], "adapter.safetensors is damaged or was changed"),
    ):
        with pytest.raises(DragomanError, match=message):
            load_models(folders, EngineSettings())
    with pytest.raises(
        DragomanError, match="is an adapter, not a model. Merge it with the model that it was"
    ):
        Translator.load(legal)


def test_a_model_has_the_name_of_the_link_to_it(base, tmp_path, monkeypatch):
    versions, served = tmp_path / "versions", tmp_path / "models"
    shutil.copytree(base / "model", versions / "ende-2")
    served.mkdir()
    (served / "ende").symlink_to("../versions/ende-2")
    monkeypatch.chdir(versions / "ende-2")
    for folder, name in (
        (served, "ende"),
        (served / "ende", "ende"),
        (Path(), "ende-2"),
        (Path(".."), "ende-2"),
    ):
        (model,) = load_models([folder], EngineSettings()).models
        assert model.name == name


def test_models_may_have_adapters_of_the_same_name(base, adapters, tmp_path):
    stored = StoredModel.load(base)
    for name, change in (("one", 1.0), ("two", 1.5)):
        scaled = {key: weight * np.float32(change) for key, weight in stored.weights.items()}
        replace(stored, weights=scaled).save(tmp_path / name)
        factors = Adapter.load(adapters / "legal").factors
        Adapter(model_hash(tmp_path / name), factors, None).save(tmp_path / "of" / name / "legal")
    app = app_of(tmp_path / "one", tmp_path / "two", tmp_path / "of" / "one", tmp_path / "of" / "two")
    found = answers(
        app,
        *(("/v1/translate", {"text": "amber", "adapter": "legal", "model": name}) for name in ("two", "one")),
        ("/v1/translate", {"text": "amber", "adapter": "legal"}),
    )
    assert [each.json()["model"] for each in found] == ["two", "one", "one"]

"""A server that reads its models, adapters, glossaries and keys again while it answers requests."""

import asyncio
import gc
import json
import os
import pty
import re
import resource
import shutil
import signal
import sys
import time
import weakref
from dataclasses import replace

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.native.settings import EngineSettings
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.keys import KeyLimits, Keys, add_key, hash_of
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.reload import Reload
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.text.settings import Languages
from dragoman.translation.adapter import Adapter
from dragoman.translation.model_folder import StoredModel, model_hash
from tests import servers
from tests.conftest import MAX_SECONDS
from tests.servers import serving
from tests.test_served_adapters import answers
from tests.test_serving import WORDS, read_events, when_loaded

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")

V1, RELOAD = "/v1/translate", "/v1/admin/reload"
TEXTS = ["amber birch cedar", "delta ember", "fjord grove heath amber", "birch", "cedar heath ember"]
LANGUAGES = {"one": ("en", "de"), "two": ("en", "fr"), "three": ("fr", "en")}


@pytest.fixture(scope="module")
def versions(trained, tmp_path_factory):
    """Folders of models; `two` and `three` take each word for the next one, or the one after. Read only."""
    folder = tmp_path_factory.mktemp("versions")
    stored = StoredModel.load(trained / "run")
    names = ("source_embedding.weight", "target_embedding.weight")  # the second if the sides share it
    read = next(name for name in names if name in stored.weights)
    ids = [stored.tokenizers.source.encode([word])[0][0] for word in WORDS]
    for shift, name in enumerate(LANGUAGES):
        embedding = stored.weights[read].copy()
        embedding[ids] = np.roll(embedding[ids], -shift, 0)
        weights = {**stored.weights, read: embedding}
        languages = Languages(*LANGUAGES[name])
        replace(stored, weights=weights, languages=languages).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def expected(versions):
    """The translations of the texts by each version, which all differ."""
    found = {name: Translator.load(versions / name).translate(TEXTS) for name in ("one", "two")}
    assert not any(one == two for one, two in zip(*found.values(), strict=True))
    assert all(text for texts in found.values() for text in texts)
    return found


def link(versions, path, name):
    """Let a link point to a version, at once."""
    new = path.with_name(".new")
    new.symlink_to(versions / name)
    new.replace(path)


def reloadable(folders, settings=None, **engine):
    """The application that serves these folders, and what reloads it."""
    settings = settings or ServerSettings()
    options = EngineSettings(**engine)
    app = make_app(
        Service(load_models(folders, options), settings, Metrics()),
        settings.api_keys and Keys.load(settings.api_keys),
    )
    app.service.reload = Reload(app, folders, options, None)
    return app


def reload(app):
    return asyncio.run(app.service.reload.run())


# ---- under load


class Load:
    """Clients that translate without pause, by turns whole texts and a stream, until they are stopped."""

    def __init__(self, server, key):
        self.found = []
        self._address = server.address
        self._headers = {"Authorization": f"Bearer {key}"}
        self._is_over = False

    async def client(self, client, number):
        while not self._is_over:
            if number % 2:
                answer = await client.post(V1, json={"text": TEXTS})
                texts = [each["text"] for each in answer.json()["translations"]]
            else:
                answer = await client.post("/v1/translate/stream", json={"text": "\n".join(TEXTS)})
                *pieces, (name, end) = read_events(answer.text)
                texts = "".join(piece["text"] for _, piece in pieces).split("\n")
                assert (name, end["translations"][0]["text"].split("\n")) == ("end", texts)
            assert answer.status_code == 200
            self.found.append(texts)
            number += 1

    async def while_doing(self, work, clients=6):
        limits = httpx.Limits(max_connections=clients + 1)
        async with httpx.AsyncClient(
            base_url=self._address, headers=self._headers, timeout=MAX_SECONDS, limits=limits, verify=False
        ) as client:
            tasks = [asyncio.create_task(self.client(client, number)) for number in range(clients)]
            try:
                await work(client)
            finally:
                self._is_over = True
            await asyncio.gather(*tasks)

    async def enough(self, more=12):
        """Wait until so many more requests have been answered."""
        until = len(self.found) + more
        while len(self.found) < until:
            await asyncio.sleep(0.01)


def check_no_request_is_lost_or_mixed(versions, expected, folder, reloads, processes):
    (folder / "models").mkdir()
    served = folder / "models" / "ende"
    link(versions, served, "one")
    key = servers.add_key(folder / "keys.toml", "operator", "--admin")
    options = "--api-keys", folder / "keys.toml", "--processes", processes
    with serving(folder / "models", *options, has_terminal=False) as server:
        if processes > 1:
            when_loaded(server, {"Authorization": f"Bearer {key}"})
        load = Load(server, key)

        async def replace_models(client):
            await load.enough()
            for number in range(reloads):
                name = ("two", "one")[number % 2]
                link(versions, served, name)
                answer = await client.post(RELOAD, json={})
                assert (answer.status_code, answer.json()) == (200, {"models": ["ende"], "loaded": ["ende"]})
                # Requests that begin from now on get the new model, whatever process answers them.
                for _ in range(4):
                    answer = await client.post(V1, json={"text": TEXTS})
                    assert [each["text"] for each in answer.json()["translations"]] == expected[name]
                await load.enough()
            answer = await client.post(RELOAD, json={})
            assert answer.json() == {"models": ["ende"], "loaded": []}

        asyncio.run(load.while_doing(replace_models))
        assert server.stop() == 0
    assert all(texts in expected.values() for texts in load.found)
    assert all(texts in load.found for texts in expected.values())
    records = [json.loads(line) for line in server.log if line.startswith("{")]
    assert {record["status"] for record in records if "status" in record} == {200}


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_request_is_lost_or_mixed_while_models_are_replaced(versions, expected, tmp_path, processes):
    check_no_request_is_lost_or_mixed(versions, expected, tmp_path, 6, processes)


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_no_request_is_lost_or_mixed_in_many_reloads(versions, expected, tmp_path, processes):
    check_no_request_is_lost_or_mixed(versions, expected, tmp_path, 100, processes)


# ---- what is read again


NAMES = ("a", "b", "c")
STATES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["one", "two"]), min_size=1)


@settings(max_examples=10)
@given(st.lists(STATES, min_size=2, max_size=4))
def test_after_any_changes_the_server_has_what_is_there_and_keeps_what_is_unchanged(
    versions, expected, tmp_path_factory, states
):
    folder = tmp_path_factory.mktemp("models")

    def change(state):
        for name in NAMES:
            (folder / name).unlink(missing_ok=True)
            if name in state:
                link(versions, folder / name, state[name])

    change(states[0])
    app = reloadable([folder])
    former = states[0]
    for state in states[1:]:
        before = {model.name: model.translator for model in app.service.models.models}
        change(state)
        assert reload(app) == ""
        requests = [(V1, {"text": TEXTS, "model": name}) for name in sorted(state)]
        listed, languages, *found = answers(app, ("/v1/models", None), ("/languages", None), *requests)
        assert [model["name"] for model in listed.json()["models"]] == sorted(state)
        targets = {LANGUAGES[version][1] for version in state.values()}
        (english,) = (each for each in languages.json() if each["code"] == "en")
        assert {*english["targets"]} == targets
        for name, answer in zip(sorted(state), found, strict=True):
            assert [each["text"] for each in answer.json()["translations"]] == expected[state[name]]
        for model in app.service.models.models:
            was_there = state[model.name] in former.values()
            assert (model.translator in before.values()) == was_there
            assert (model.name in app.service.reload.loaded) != was_there
        former = state


def test_adapters_are_read_again_and_those_of_an_unchanged_model_share_its_weights(versions, tmp_path):
    link(versions, tmp_path / "ende", "one")
    app = reloadable([tmp_path])
    weights = StoredModel.load(versions / "one").weights
    zeros = {
        name: tuple(np.zeros(shape, np.float32) for shape in ((1, 32), (32, 1)))
        for name, weight in weights.items()
        if weight.shape == (32, 32)
    }
    (former,) = app.service.models.models
    Adapter(model_hash(versions / "one"), zeros, 9).save(tmp_path / "legal")
    assert reload(app) == ""
    (model,) = app.service.models.models
    assert model.translator is former.translator
    assert app.service.reload.loaded == ["legal"]
    (found,) = answers(app, (V1, {"text": TEXTS, "adapter": "legal"}))
    assert (found.status_code, found.json()["adapter"]) == (200, "legal")
    shutil.rmtree(tmp_path / "legal")
    assert reload(app) == ""
    assert [model.adapted for model in app.service.models.models] == [()]


def test_the_description_of_the_apis_follows(versions, tmp_path):
    link(versions, tmp_path / "ende", "one")
    app = reloadable([tmp_path])
    for name in ("one", "two"):
        link(versions, tmp_path / "ende", name)
        assert reload(app) == ""
        (description,) = answers(app, ("/openapi.json", None))
        operation = description.json()["paths"]["/translate"]["post"]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        assert example["target"] == LANGUAGES[name][1]


def test_keys_and_glossaries_are_read_again(versions, tmp_path):
    glossaries = tmp_path / "glossaries"
    glossaries.mkdir()
    first = add_key(tmp_path / "keys.toml", "first")
    operator = add_key(tmp_path / "keys.toml", "operator", is_admin=True)
    settings = ServerSettings(api_keys=tmp_path / "keys.toml", glossaries=glossaries)
    link(versions, tmp_path / "ende", "one")
    app = reloadable([tmp_path / "ende"], settings)

    def sent(key, path, body=None):
        async def send():
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
            ) as client:
                return await (client.get(path) if body is None else client.post(path, json=body))

        return asyncio.run(send())

    assert sent(first, RELOAD, {}).status_code == 403
    assert "administrator" in sent(first, RELOAD, {}).json()["error"]["message"]
    (glossaries / "animals.en-fr.tsv").write_text("dog\tchien\n")
    refused = sent(operator, RELOAD, {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_reloaded")
    assert "has no terms between the languages of the models: en to de." in refused.text
    (tmp_path / "keys.toml").write_text("")
    second = add_key(tmp_path / "keys.toml", "second")
    operator_again = add_key(tmp_path / "keys.toml", "operator", is_admin=True)
    link(versions, tmp_path / "ende", "two")
    assert sent(second, "/v1/models").status_code == 403  # not yet
    assert sent(operator, RELOAD, {}).json() == {"models": ["ende"], "loaded": ["ende"]}
    assert sent(second, "/v1/models").status_code == 200
    assert [sent(key, "/v1/models").status_code for key in (first, operator)] == [403, 403]
    assert sent(operator_again, RELOAD, {}).json() == {"models": ["ende"], "loaded": []}
    (served,) = sent(second, "/v1/glossaries").json()["glossaries"]
    assert served["dictionaries"] == [{"source": "en", "target": "fr", "terms": 1}]


def test_without_keys_nobody_reloads_a_server_through_its_api(versions):
    (found,) = answers(reloadable([versions / "one"]), (RELOAD, {}))
    assert found.status_code == 403
    assert "Send SIGHUP to its process" in found.json()["error"]["message"]


def damage_weights(folder, versions):
    (folder / "ende").unlink()
    shutil.copytree(versions / "two", folder / "ende")
    (folder / "ende" / "model.safetensors").write_bytes(b"")


def leave_manifest_out(folder, versions):
    damage_weights(folder, versions)
    (folder / "ende" / "manifest.json").unlink()


def remove_models(folder, versions):
    (folder / "ende").unlink()


def add_adapter_of_another_model(folder, versions):
    Adapter(model_hash(versions / "two"), {}, 9).save(folder / "legal")


def damage_keys(folder, versions):
    link(versions, folder / "ende", "two")
    (folder / "keys.toml").write_text("[keys]\nfirst = 3\n")


def remove_keys(folder, versions):
    link(versions, folder / "ende", "two")
    (folder / "keys.toml").unlink()


def damage_glossary(folder, versions):
    link(versions, folder / "ende", "two")
    (folder / "glossaries" / "animals.tbx").write_text("<martif")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_weights, "model.safetensors is damaged or was changed"),
        (leave_manifest_out, "manifest.json cannot be read"),
        (remove_models, "holds no model and no adapter"),
        (add_adapter_of_another_model, "is not served"),
        (damage_keys, "has to hold a table [keys]"),
        (remove_keys, "keys.toml does not exist"),
        (damage_glossary, "animals.tbx"),
    ],
)
def test_if_anything_cannot_be_read_nothing_changes(versions, expected, tmp_path, capsys, damage, message):
    link(versions, tmp_path / "ende", "one")
    (tmp_path / "glossaries").mkdir()
    add_key(tmp_path / "keys.toml", "first")
    settings = ServerSettings(api_keys=tmp_path / "keys.toml", glossaries=tmp_path / "glossaries")
    app = reloadable([tmp_path], settings)
    service = app.service
    before = service.models, service.glossaries, app.keys
    damage(tmp_path, versions)
    assert message in reload(app)
    assert (service.models, service.glossaries, app.keys) == before
    app.keys = None
    (found,) = answers(app, (V1, {"text": TEXTS}))
    assert [each["text"] for each in found.json()["translations"]] == expected["one"]
    (record,) = (
        record for record in map(json.loads, capsys.readouterr().err.splitlines()) if "level" in record
    )
    assert record["level"] == "error"
    assert message in record["message"]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("native", [True, False], ids=["C++", "PyTorch"])
def test_a_replaced_model_is_freed_when_its_last_request_has_ended(versions, expected, tmp_path, native):
    link(versions, tmp_path / "ende", "one")
    app = reloadable([tmp_path], native=native)
    service = app.service
    (found,) = answers(app, (V1, {"text": TEXTS, "alignment": True}))  # by PyTorch too
    assert found.status_code == 200
    former = weakref.ref(service.models.models[0].translator)
    link(versions, tmp_path / "ende", "two")
    gc.disable()  # what is loaded at the start is frozen: the collector never looks at it
    try:

        async def reload_meanwhile():
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://localhost"
            ) as client:
                body = {"text": TEXTS, "min_length": 200, "max_length": 200}
                running = asyncio.create_task(client.post(V1, json=body))
                while not service.admission.requests:
                    await asyncio.sleep(0)
                assert await service.reload.run() == ""
                is_kept = former() is not None
                is_running = not running.done()
                assert (await running).status_code == 200
                return is_kept or not is_running

        assert asyncio.run(reload_meanwhile())
        until = time.monotonic() + MAX_SECONDS
        while former() is not None:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        gc.enable()
    (found,) = answers(app, (V1, {"text": TEXTS}))
    assert [each["text"] for each in found.json()["translations"]] == expected["two"]


# ---- processes and signals


def translated(server):
    with server.client() as client:  # a new connection, which may reach another process
        answer = client.post(V1, json={"text": TEXTS})
    return [each["text"] for each in answer.json()["translations"]]


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_sighup_reloads_a_server_without_a_terminal(versions, expected, tmp_path, processes):
    link(versions, tmp_path / "ende", "one")
    with serving(tmp_path, "--processes", processes, has_terminal=False) as server:
        if processes > 1:
            when_loaded(server)
        # One process need not handle signals yet.
        for number, name in enumerate(("two", "one", "two"), 1):
            link(versions, tmp_path / "ende", name)
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("have been read again", number)
            assert [translated(server) for _ in range(6)] == [expected[name]] * 6
        (tmp_path / "ende").unlink()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("holds no model")
        assert translated(server) == expected["two"]
        assert server.stop() == 0


@pytest.mark.long
def test_if_one_process_refuses_none_reloads_and_one_that_is_started_meanwhile_reads_all(
    versions, expected, tmp_path
):
    link(versions, tmp_path / "ende", "one")
    with serving(tmp_path, "--processes", 2, has_terminal=False) as server:
        one, other = when_loaded(server)
        link(versions, tmp_path / "ende", "two")
        limits = resource.prlimit(one, resource.RLIMIT_NOFILE)
        resource.prlimit(one, resource.RLIMIT_NOFILE, (3, limits[1]))  # it cannot open a file
        os.kill(other, signal.SIGHUP)  # asks the supervisor
        server.wait_for("Nothing was reloaded")
        resource.prlimit(one, resource.RLIMIT_NOFILE, limits)
        assert [translated(server) for _ in range(6)] == [expected["one"]] * 6
        os.kill(one, signal.SIGKILL)
        os.kill(server.process.pid, signal.SIGHUP)
        server.wait_for("have been read again")
        when_loaded(server)
        assert [translated(server) for _ in range(6)] == [expected["two"]] * 6


@pytest.mark.long
def test_a_server_ends_with_its_terminal(versions):
    process, terminal = pty.fork()
    if not process:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        os.execv(sys.executable, [sys.executable, "-m", "dragoman", "serve", versions / "one", "--port", "0"])
    output = b""
    while not (address := re.search(rb"http://[0-9.:]+", output)) or not output.endswith(b"\n"):
        output += os.read(terminal, 4096)
    assert httpx.get(f"{address[0].decode()}/health").status_code == 200
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# ---- keys of administrators


@pytest.mark.long
@settings(max_examples=20)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.booleans(), min_size=1))
def test_administrators_are_those_whose_keys_were_made_so(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys = {name: add_key(path, name, is_admin=is_admin) for name, is_admin in names.items()}
    found = Keys.load(path)
    assert found.admins == {name for name, is_admin in names.items() if is_admin}
    assert {name: found.owner(key) for name, key in keys.items()} == {name: name for name in names}


def test_a_server_that_nothing_reloads_says_so(versions):
    service = Service(load_models([versions / "one"], EngineSettings()), ServerSettings(), Metrics())
    (found,) = answers(make_app(service, None), (RELOAD, {}))
    assert found.status_code == 403


@pytest.mark.parametrize("owner", [None, "first", "unknown"])
def test_only_the_names_of_administrators_reload(versions, tmp_path, owner):
    app = reloadable([versions / "one"])
    app.keys = Keys({"first": hash_of("a"), "operator": hash_of("b")}, {"operator": KeyLimits(admin=True)})
    app.service.reload.refuse_others("operator")
    with pytest.raises(ApiError, match="Only an administrator's key"):
        app.service.reload.refuse_others(owner)

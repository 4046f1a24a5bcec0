"""Names of the Hugging Face hub: `dragoman.load` downloads from a hub on this machine, and nothing else."""

import hashlib
import json
import pickle
import shutil
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import dragoman
from dragoman import DragomanError
from dragoman.interop.hub import is_name
from dragoman.text.settings import Languages

pytest.importorskip("transformers", reason="transformers is missing: pip install 'dragoman[huggingface]'")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SEARCH = {"max_extra_tokens": 3}


@contextmanager
def hub_of(models):
    """A hub on this machine with folders by their names. Yields its address and the files it is asked for."""
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            kind, _, rest = self.path.partition("?")[0].strip("/").partition("/")
            if kind == "api":
                name = "/".join(rest.split("/")[1:3])
                self.answer_json(models.get(name), rest)
                return
            owner, name, _, _, file = self.path.strip("/").split("/", 4)
            asked.append(file)
            content = (models[f"{owner}/{name}"] / file).read_bytes()
            self.answer(
                200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            )

        def answer_json(self, folder, path):
            if folder is None:
                self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
                return
            files = sorted(file for file in folder.rglob("*") if file.is_file())
            names = [str(file.relative_to(folder)) for file in files]
            if "/tree/" in path:
                rows = [
                    {"type": "file", "path": name, "size": file.stat().st_size, "oid": "0" * 40}
                    for name, file in zip(names, files, strict=True)
                ]
                self.answer(200, json.dumps(rows).encode(), {})
                return
            model = {"id": "a/b", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            self.answer(200, json.dumps(model).encode(), {})

        def answer(self, status, content, headers):
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(content))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def use(monkeypatch, tmp_path):
    """Make an address the hub's, with an empty cache, in an empty folder."""
    from huggingface_hub import constants

    def at(address):
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "ENDPOINT", address)  # as the variable HF_ENDPOINT does
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")

    return at


@pytest.mark.long
def test_a_model_is_loaded_by_its_name_as_from_its_folder(tmp_path, use):
    from tests.test_huggingface import marian

    folder = marian(tmp_path / "opus-mt-en-de")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.safetensors").write_bytes(b"something else")
    with hub_of({"us/opus-mt-en-de": folder}) as (address, asked):
        use(address)
        translator, expected = dragoman.load("us/opus-mt-en-de"), dragoman.load(folder)
        assert translator.n_best(["a man"], **SEARCH) == expected.n_best(["a man"], **SEARCH)
        assert translator.languages == expected.languages == Languages("en", "de")
        assert asked
        assert not any("/" in file or file.endswith(".bin") for file in asked)
    assert dragoman.load("us/opus-mt-en-de").translate("a man", **SEARCH)  # from the cache, without the hub


@pytest.mark.short_form(1)
@pytest.mark.parametrize("others", [(), ("README.md", ".gitattributes", "config.json")])
def test_a_model_folder_is_loaded_by_its_name(trained, tmp_path, use, others):
    """Also after another program has downloaded the whole repository."""
    from huggingface_hub import constants, snapshot_download

    folder = shutil.copytree(trained / "run" / "model", tmp_path / "model")
    expected = dragoman.load(folder).n_best(["amber birch"], **SEARCH)
    for name in others:
        (folder / name).write_text("{}")
    with hub_of({"us/en-de": folder}) as (address, asked):
        use(address)
        if others:
            snapshot_download("us/en-de", cache_dir=constants.HF_HUB_CACHE)
        translator = dragoman.load("us/en-de")
        assert others or not {*asked} - {path.name for path in folder.iterdir()}
    assert (translator.folders[0] / "model.safetensors").is_symlink()
    for each in (translator, pickle.loads(pickle.dumps(translator)), dragoman.load("us/en-de")):
        assert each.n_best(["amber birch"], **SEARCH) == expected


def test_what_the_hub_does_not_give_is_refused(tmp_path, use, monkeypatch):
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text("{}")
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"a pickle")
    with hub_of({"us/pickled": tmp_path / "pickled"}) as (address, _):
        use(address)
        with pytest.raises(DragomanError, match=r"us/pickled has no model\.safetensors on the .* hub"):
            dragoman.load("us/pickled")
        with pytest.raises(
            DragomanError, match="There is no folder us/none, .* no public model of this name"
        ):
            dragoman.load("us/none")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        DragomanError, match=r"There is no folder us/none\. .* pip install 'dragoman\[huggingface\]'"
    ):
        dragoman.load("us/none")


def test_without_a_network_the_hub_cannot_be_reached(use, monkeypatch):
    from huggingface_hub import constants

    use("http://127.0.0.1:1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # without the tries of the library
    with pytest.raises(DragomanError, match="There is no folder us/none, and the .* hub cannot be reached"):
        dragoman.load("us/none")


def test_paths_are_no_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for path in (
        "runs/ende",
        "./us/model",
        "/us/model",
        "us",
        "us/a/b",
        "us/",
        "../us",
        "us/mod el",
        tmp_path,
        3,
    ):
        assert not is_name(path)
    assert is_name("us/model-1.0_b")

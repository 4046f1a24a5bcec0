"""Named datasets are found, downloaded and verified."""

import gzip
import hashlib
from contextlib import nullcontext
from dataclasses import replace
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from dragoman.system.errors import DragomanError
from dragoman.text.named_datasets import datasets
from dragoman.text.named_datasets.datasets import Dataset, DatasetFile, resolve_dataset
from dragoman.text.named_datasets.downloads import download
from dragoman.text.settings import DataSettings


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A dataset of six files, whose addresses are files too."""
    (tmp_path / "web").mkdir()
    files = []
    for number in range(6):
        text = f"line {number}\n".encode()
        (tmp_path / "web" / f"f{number}.gz").write_bytes(gzip.compress(text))
        files.append(
            DatasetFile(
                f"f{number}",
                (tmp_path / "web" / f"f{number}.gz").as_uri(),
                (hashlib.sha256(text).hexdigest(),),
            )
        )
    monkeypatch.setitem(datasets.DATASETS, "toy", Dataset("a toy", "ours", tuple(files), 1_000))
    return DataSettings(dataset="toy", folder=tmp_path / "here")


def test_missing_files_are_downloaded_decompressed_and_verified(toy, messages):
    found = resolve_dataset(toy)
    first, *others = messages
    assert first == "toy: a toy. Its licence: ours."
    assert others == [f"Downloading {file.url} (0.0 MiB)." for file in datasets.DATASETS["toy"].files]
    assert found.source.read_text() == "line 0\n"
    assert found.test_target.read_text() == "line 5\n"
    assert found.dataset is None
    assert len(list(toy.folder.iterdir())) == 6


def test_a_terminal_shows_the_progress_of_a_download(tmp_path, monkeypatch, capsys, messages):
    (tmp_path / "web.gz").write_bytes(bytes(3 * 2**20))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    download((tmp_path / "web.gz").as_uri(), tmp_path / "here.gz")
    shown = capsys.readouterr().err
    assert "web.gz" in shown
    assert "3.1/3.1 MB" in shown
    assert messages == [f"Downloading {(tmp_path / 'web.gz').as_uri()} (3.0 MiB)."]
    assert (tmp_path / "here.gz").read_bytes() == bytes(3 * 2**20)
    monkeypatch.delenv("FORCE_COLOR")
    download((tmp_path / "web.gz").as_uri(), tmp_path / "here.gz")
    assert capsys.readouterr().err == ""


def test_a_gzip_file_in_the_folder_is_used(toy, tmp_path):
    (tmp_path / "here").mkdir()
    for number in range(6):
        (tmp_path / "web" / f"f{number}.gz").rename(tmp_path / "here" / f"f{number}.gz")
    assert resolve_dataset(toy).valid_source == tmp_path / "here" / "f2.gz"


def test_of_a_plain_file_and_its_compressed_copy_the_plain_one_is_used(toy, tmp_path):
    plain = resolve_dataset(toy).source
    plain.with_name("f0.gz").write_bytes(b"another file")
    assert resolve_dataset(toy).source == plain
    plain.write_text("something else\n")
    with pytest.raises(DragomanError, match="f0 is not the dataset's"):
        resolve_dataset(toy)


def test_each_dataset_has_a_folder_of_its_own_in_the_cache(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(datasets.DATASETS, "other", datasets.DATASETS["toy"])
    one, other = (resolve_dataset(DataSettings(dataset=name)).source for name in ("toy", "other"))
    assert one != other
    assert all(path.is_relative_to(tmp_path / "cache") for path in (one, other))


def test_a_file_with_another_hash_is_refused(toy, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "f0").write_text("something else\n")
    with pytest.raises(DragomanError, match="f0 is not the dataset's f0: the SHA-256 of its text is"):
        resolve_dataset(toy)


def test_a_truncated_file_is_refused(toy, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "f0.gz").write_bytes((tmp_path / "web" / "f0.gz").read_bytes()[:-5])
    with pytest.raises(DragomanError, match="f0.gz is not a complete gzip file"):
        resolve_dataset(toy)


def test_a_failed_download_is_explained_and_leaves_no_file(toy, tmp_path):
    (tmp_path / "web" / "f0.gz").unlink()
    with pytest.raises(
        DragomanError,
        match="f0 is not in .*here, and file:.* cannot be downloaded .* put the file there by hand",
    ):
        resolve_dataset(toy)
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize("missing", [0, 1, 99])
def test_a_download_that_ends_early_is_an_error_and_leaves_no_file(tmp_path, missing):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(bytes(100 - missing))

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(IncompleteRead) if missing else nullcontext():
            download(f"http://127.0.0.1:{server.server_port}/a", tmp_path / "a")
        server.shutdown()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == ([] if missing else [100])


def test_an_unknown_dataset_is_refused_with_the_known_names(toy):
    with pytest.raises(DragomanError, match="There is no dataset 'wmt'; there are: multi30k-en-de, .*toy"):
        resolve_dataset(replace(toy, dataset="wmt"))
    assert resolve_dataset(DataSettings()) == DataSettings()

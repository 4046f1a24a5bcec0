"""A file is there as a whole or not at all."""

import ast
import errno
import os
import re
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from gzip import BadGzipFile
from pathlib import Path
from threading import Barrier
from urllib.error import URLError

import pytest
from safetensors import SafetensorError

import dragoman
from dragoman.interop.vocabulary import split_lines
from dragoman.model.weights import load_tensors
from dragoman.system.errors import DragomanError, is_out_of_memory, reason
from dragoman.system.files import (
    MANIFEST,
    array_types,
    atomic_write,
    check_folder,
    read_arrays,
    read_json,
    read_manifest,
    write_folder,
)
from dragoman.system.new_folder import write_new_folder
from dragoman.system.toml import read_toml
from dragoman.text.corpus import Corpus
from dragoman.text.tokenizer import Tokenizer


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "result.json"
    with atomic_write(path) as new:
        new.write_text("first")
        assert not path.exists()
        assert new.suffix == path.suffix  # some libraries go by it
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_former_file_or_the_new_one(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("before")
    with path.open() as opened_before:
        with atomic_write(path) as new, new.open("w") as file:
            for part in ("af", "ter"):
                file.write(part)
                file.flush()
                assert path.read_text() == "before"
        assert path.read_text() == "after"
        assert opened_before.read() == "before"  # its file was replaced, not changed


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("pipe", "link"):
        with atomic_write(tmp_path / name) as new, new.open("w") as file:
            file.write("text")
    assert os.read(reader, 10) == b"text"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("before")

    def fail():
        with atomic_write(path) as new:
            new.write_text("half")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path):
    path = tmp_path / f"a.{'b' * 250}"  # the temporary name is longer than any may be: it can be neither made
    with pytest.raises(OSError, match="name too long") as error, atomic_write(path):  # nor removed
        pass
    assert error.value.filename == str(path)


def test_two_who_write_one_file_at_once_each_write_all_of_it(tmp_path):
    path = tmp_path / "result.json"
    with atomic_write(path) as one, atomic_write(path) as other:  # of one process number, as on two machines
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_kill_leaves_what_was_there(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("before")
    if (process := os.fork()) == 0:
        with atomic_write(path) as new:
            new.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    assert path.read_text() == "before"
    with atomic_write(path) as new:
        new.write_text("after")
    assert path.read_text() == "after"


def test_an_error_names_the_file_that_was_to_be_written_and_not_the_temporary_one():
    path = Path("/proc/report.html")  # in that folder nobody can make a file
    with pytest.raises(OSError) as error, atomic_write(path) as new:  # noqa: PT011  which one, is the system's
        new.write_text("x")
    assert error.value.filename == str(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_error_of_a_full_disk_that_names_no_file_gets_its_name(tmp_path, number):
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match=re.escape(os.strerror(number))) as error, atomic_write(path):
        raise OSError(number, os.strerror(number))
    assert error.value.filename == str(path)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_has_the_mode_of_the_umask_whoever_has_written_it(tmp_path, umask):
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "a.safetensors") as new:
            new.write_bytes(b"x")
            new.chmod(0o600)  # as safetensors writes
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o666 & ~umask


def test_all_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    synced = []

    def sync(descriptor):
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        former = (tmp_path / "file").read_text(), (tmp_path / "folder" / "inner" / "one").read_bytes()
        synced.append((place.name, place.read_bytes() if place.is_file() else None, former))

    for content in (b"before", b"after"):
        with atomic_write(tmp_path / "file") as new:
            new.write_bytes(content)

        def write(folder, content=content):
            fill(folder)
            (folder / "inner" / "one").write_bytes(content)

        write_folder(tmp_path / "folder", write)
        monkeypatch.setattr(os, "fsync", sync)
    in_file, in_folder = ("before", b"before"), ("after", b"before")
    assert [each[1:] for each in synced if each[2] == in_file] == [(b"after", in_file)]
    complete = {name: content for name, content, former in synced if former == in_folder}
    assert complete.keys() >= {"one", "other", "inner", MANIFEST}
    assert (complete["one"], complete["other"]) == (b"after", b"")
    assert (tmp_path.name, None, ("after", b"after")) in synced, "the name, too"


def test_the_longest_name_that_the_system_allows_is_written(tmp_path):
    path = tmp_path / ("n" * 250 + ".json")
    with atomic_write(path) as new:
        new.write_text("x")
    assert path.read_text() == "x"


@pytest.mark.parametrize("target", ["nowhere", "kept"])
def test_a_link_in_the_place_of_a_folder_is_replaced(tmp_path, target):
    (tmp_path / "kept").mkdir()
    (tmp_path / "model").symlink_to(target)
    write_folder(tmp_path / "model", lambda folder: (folder / "file").touch())
    assert not (tmp_path / "model").is_symlink()
    assert (tmp_path / "model" / "file").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "model"}


# ---- new folders


def fill(folder):
    """Write files of a new folder, one of them in a folder of its own."""
    (folder / "inner").mkdir()
    (folder / "inner" / "one").write_bytes(b"\0\1")
    (folder / "other").write_text("")


def names(folder):
    """The names in a folder, hidden ones too."""
    return {path.name for path in folder.iterdir()}


def test_a_new_folder_is_complete_with_a_manifest_of_its_files(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing" / "new"):
        write_new_folder(folder, fill)
        check_folder(folder)
        assert read_manifest(folder).keys() == {"inner/one", "other"}
    assert (names(tmp_path), names(tmp_path / "missing")) == ({"empty", "missing"}, {"new"})


@pytest.mark.parametrize("there", ["a file", "a folder"])
def test_a_new_folder_replaces_nothing_and_leaves_nothing_beside_it(tmp_path, there):
    place = tmp_path / "place"

    def come_between(folder):
        fill(folder)
        if there == "a folder":
            place.mkdir()
        (place / "kept" if there == "a folder" else place).write_text("kept")

    with pytest.raises(DragomanError, match="place exists: something else has made it in the meantime"):
        write_new_folder(place, come_between)
    assert (place / "kept" if there == "a folder" else place).read_text() == "kept"
    assert names(tmp_path) == {"place"}


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyError("x"), KeyboardInterrupt()]
)
def test_an_error_leaves_nothing_of_a_new_folder(tmp_path, error):
    def fail(folder):
        fill(folder)
        raise error

    with pytest.raises(DragomanError if isinstance(error, OSError) else type(error)):
        write_new_folder(tmp_path / "new", fail)
    assert names(tmp_path) == set()


def test_of_several_who_make_a_folder_at_once_one_makes_all_of_it(tmp_path):
    together = Barrier(4)

    def write(number):
        def fill_together(folder):
            for name in ("one", "other"):
                (folder / name).write_text(str(number))
            together.wait()

        try:
            write_new_folder(tmp_path / "new", fill_together)
        except DragomanError:
            return None
        return str(number)

    with ThreadPoolExecutor(4) as pool:
        (made,) = filter(None, pool.map(write, range(4)))
    check_folder(tmp_path / "new")
    assert {(tmp_path / "new" / name).read_text() for name in ("one", "other")} == {made}
    assert names(tmp_path) == {"new"}


# ---- errors of the system as sentences


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(DragomanError, match="^/proc/nowhere could not be written: "):
        write_folder(Path("/proc/nowhere"), lambda _: None)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.", True),
        ("could not create a primitive", True),
        ("could not create a primitive descriptor for a matmul primitive", False),
    ],
)
def test_a_lack_of_memory_is_told_from_an_operation_that_is_not_supported(message, expected):
    assert is_out_of_memory(RuntimeError(message)) is expected


def test_a_full_disk_is_told_with_the_folder_and_what_to_do(tmp_path):
    def fail(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DragomanError) as error:
        write_folder(tmp_path / "model", fail)
    assert str(error.value) == (
        f"{tmp_path / 'model'} could not be written: No space left on device. What was written before it is "
        "complete; free some space if the disk is full, then run the same command again."
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "x"), "No such file or directory"),
        (URLError(OSError(-2, "Name or service not known")), "Name or service not known"),
        (SafetensorError("I/O error: No space left (os error 28)"), "I/O error: No space left"),
        (ValueError("not JSON"), "not JSON"),
        (BadGzipFile("Not a gzipped file"), "Not a gzipped file"),
    ],
)
def test_the_reason_of_an_error_has_words_alone(error, words):
    assert reason(error) == words


@pytest.mark.parametrize(
    "read",
    [read_json, read_arrays, array_types, load_tensors, Tokenizer.load, Corpus, read_toml, split_lines],
    ids=lambda read: read.__qualname__,
)
@pytest.mark.parametrize("name", ["missing", "folder"])
def test_a_path_that_cannot_be_read_is_told_in_words(tmp_path, read, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(DragomanError) as error:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "Errno" not in str(error.value)
    assert "os error" not in str(error.value)


@pytest.mark.long
def test_no_sentence_has_an_error_of_the_system_as_python_writes_it():
    """Where the type of an error is one of the system's, or any, `reason` puts it into words."""
    raw = re.compile(r"\b(OSError|\w*_ERRORS|URLError|Exception)\b")
    found = [
        f"{path.name}:{part.lineno}"
        for path in Path(dragoman.__file__).parent.rglob("*.py")
        for handler in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(handler, ast.ExceptHandler) and handler.type and raw.search(ast.unparse(handler.type))
        for part in ast.walk(handler)
        if isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == handler.name
    ]
    assert found == []

"""A file is there as a whole or not at all."""

import ast
import errno
import os
import re
import signal
from gzip import BadGzipFile
from pathlib import Path
from urllib.error import URLError

import pytest
from safetensors import SafetensorError

import dragoman
from dragoman.interop.vocabulary import split_lines
from dragoman.model.weights import load_tensors
from dragoman.system.errors import DragomanError, is_out_of_memory, reason
from dragoman.system.files import array_types, atomic_write, read_arrays, read_json, write_folder
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

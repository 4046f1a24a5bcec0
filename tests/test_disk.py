"""A file is there as a whole or not at all."""

import os
import signal

import pytest

from dragoman.system.files import atomic_write


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

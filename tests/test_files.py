"""A file to a file: complete or not there, in order, resumed after an interruption, by several processes."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.system import progress
from dragoman.system.errors import DragomanError
from dragoman.translation import files
from dragoman.translation.files import translate_file

ABOUT = {"models": ["a"], "search": {"ban": ()}}


def shout(block):
    return [raw.decode().strip().upper() for _, raw in block]


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Ten lines, in blocks of three."""
    monkeypatch.setattr(files, "BLOCK", 3)
    path = tmp_path / "text"
    path.write_text("".join(f"line {number}\n" if number != 4 else "\n" for number in range(10)))
    return path


EXPECTED = [f"LINE {number}" if number != 4 else "" for number in range(10)]


def test_n_lines_in_n_lines_out_in_order(text, tmp_path):
    assert translate_file(text, tmp_path / "out", ABOUT, shout)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out", "out.json"}
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert translate_file(packed, tmp_path / "other", ABOUT, shout)
    assert (tmp_path / "other").read_bytes() == (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("lines", [2, 7, 12])
def test_a_text_that_changes_while_it_is_translated_is_told_so(text, tmp_path, lines):
    def shout_and_change(block):
        text.write_text("changed\n" * lines)
        return shout(block)

    with pytest.raises(DragomanError, match=r"text has changed while it was translated; delete .*out\.parts"):
        translate_file(text, tmp_path / "out", ABOUT, shout_and_change)
    assert not (tmp_path / "out").exists()


def test_where_there_is_no_terminal_progress_is_told_now_and_then(text, tmp_path, monkeypatch, messages):
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.0)
    assert translate_file(text, tmp_path / "out", ABOUT, shout)
    told = [f"{done} of 4 blocks of 3 lines are translated; 0 more minutes." for done in (1, 2, 3)]
    assert messages[:-1] == told
    messages.clear()
    assert translate_file(text, tmp_path / "other", ABOUT, shout, rank=1, ranks=2) is False
    assert [message for message in messages if "are translated" in message] == []


PEAKS = """
import sys, tracemalloc
from pathlib import Path
from dragoman.translation import files

def peak(lines):
    path = Path(sys.argv[1], str(lines))
    path.write_text("a line of some forty letters, more or less\\n" * lines)
    tracemalloc.start()
    files.translate_file(path, path.with_suffix(".out"), {}, lambda block: [""] * len(block), 0, 1)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found

files.BLOCK = 1000
files.MAX_LIST = 2**12  # so much is set aside to read a record: with 16 MB nothing else would be seen
peak(3_000)  # what is made once
assert peak(20_000) < 1.2 * peak(2_000)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(tmp_path):
    """In a process of its own: tracemalloc counts what all threads of a process allocate."""
    subprocess.run([sys.executable, "-c", PEAKS, str(tmp_path)], check=True)


def test_lines_have_their_numbers_and_an_empty_file_stays_empty(text, tmp_path):
    seen = []
    translate_file(
        text, tmp_path / "out", ABOUT, lambda block: [seen.append(number) or "" for number, _ in block]
    )
    assert seen == list(range(1, 11))
    (tmp_path / "empty").write_text("")
    assert translate_file(tmp_path / "empty", tmp_path / "nothing", ABOUT, shout)
    assert (tmp_path / "nothing").read_bytes() == b""


@pytest.mark.parametrize("died_at", range(4))
def test_an_interrupted_translation_resumes_with_the_lines_that_are_left(text, tmp_path, died_at):
    done = []

    def dying(block):
        if len(done) == died_at:
            raise KeyboardInterrupt
        done.append(block)
        return shout(block)

    with pytest.raises(KeyboardInterrupt):
        translate_file(text, tmp_path / "out", ABOUT, dying)
    assert not (tmp_path / "out").exists()
    again = []
    assert translate_file(text, tmp_path / "out", ABOUT, lambda block: again.append(block) or shout(block))
    assert len(done) + len(again) == 4
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("left", [b"", b"LI", b"LINE 3\n\nLINE", b"\0" * 9])
def test_a_damaged_block_is_translated_again(text, tmp_path, number, left):
    """The last block, of one line, too."""
    assert not translate_file(text, tmp_path / "out", ABOUT, shout, rank=number, ranks=4)
    (tmp_path / "out.parts" / f"00000000{number}").write_bytes(left)
    for rank in range(4):
        translate_file(text, tmp_path / "out", ABOUT, shout, rank, 4)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED


def test_several_processes_take_turns_and_the_last_one_joins(text, tmp_path):
    ends = [translate_file(text, tmp_path / "out", ABOUT, shout, rank, 3) for rank in (2, 0, 1)]
    assert ends == [False, False, True]
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED


def test_a_block_with_too_few_lines_is_translated_again(text, tmp_path):
    assert not translate_file(text, tmp_path / "out", ABOUT, shout, rank=1, ranks=4)
    (tmp_path / "out.parts" / "000000001").write_bytes(b"LINE 3\n")
    for rank in range(4):
        translate_file(text, tmp_path / "out", ABOUT, shout, rank, 4)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED


def test_what_utf_8_cannot_hold_costs_no_line(text, tmp_path):
    assert translate_file(text, tmp_path / "out", ABOUT, lambda block: ["A\ud800B"] * len(block))
    assert (tmp_path / "out").read_bytes() == b"A?B\n" * len(EXPECTED)


def test_parts_of_another_translation_are_not_gone_on_with(text, tmp_path, monkeypatch):
    translate_file(text, tmp_path / "out", ABOUT, shout, 0, 2)
    with pytest.raises(
        DragomanError,
        match=r"out.parts exists and was made with something else \(changed: models\); delete .*parts, or",
    ):
        translate_file(text, tmp_path / "out", ABOUT | {"models": ["b"]}, shout)
    text.write_text("changed\n")
    with pytest.raises(DragomanError, match=r"\(changed: source\)"):
        translate_file(text, tmp_path / "out", ABOUT, shout)
    monkeypatch.setattr(files, "BLOCK", files.BLOCK + 1)
    with pytest.raises(DragomanError, match=r"\(changed: source, block\)"):
        translate_file(text, tmp_path / "out", ABOUT, shout)
    assert json.loads((tmp_path / "out.parts" / "about.json").read_text())["models"] == ["a"]


@pytest.mark.parametrize("name", ["000000000", "mine"])
def test_a_folder_of_parts_with_files_of_something_else_is_refused(text, tmp_path, name):
    parts = tmp_path / "out.parts"
    parts.mkdir()
    (parts / name).write_text("old\n")
    with pytest.raises(DragomanError, match=rf"has files that are not of this translation \({name}\); move"):
        translate_file(text, tmp_path / "out", ABOUT, shout)
    assert [(path.name, path.read_text()) for path in parts.iterdir()] == [(name, "old\n")]
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_parts_is_refused(text, tmp_path):
    (tmp_path / "out.parts").write_text("old\n")
    with pytest.raises(DragomanError, match="is a file, and the parts of the translation need a folder"):
        translate_file(text, tmp_path / "out", ABOUT, shout)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_name_that_says_packed_is_refused(text, tmp_path, ending):
    told = rf"out{ending} would not be compressed, as its name says; give one that does not end in \{ending}"
    with pytest.raises(DragomanError, match=told):
        translate_file(text, tmp_path / f"out{ending}", ABOUT, shout)


def test_what_another_process_is_writing_now_is_no_file_of_something_else(text, tmp_path):
    parts = tmp_path / "out.parts"
    parts.mkdir()
    for name in (".about.json.x1", "lock-0", "lock-7"):
        (parts / name).touch()
    assert translate_file(text, tmp_path / "out", ABOUT, shout)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED


def test_parts_of_something_else_beside_a_complete_file_are_kept(text, tmp_path):
    translate_file(text, tmp_path / "out", ABOUT, shout)
    translate_file(text, tmp_path / "other", ABOUT | {"models": ["b"]}, shout, 0, 2)
    (tmp_path / "other.parts").rename(tmp_path / "out.parts")
    assert translate_file(text, tmp_path / "out", ABOUT, pytest.fail)
    assert (tmp_path / "out.parts" / "000000000").read_text() == "LINE 0\nLINE 1\nLINE 2\n"


def test_a_file_that_is_not_there_is_named_and_nothing_is_left(tmp_path):
    with pytest.raises(DragomanError, match="missing cannot be read: No such file or directory"):
        translate_file(tmp_path / "missing", tmp_path / "out", ABOUT, shout)
    assert list(tmp_path.iterdir()) == []


def test_what_is_finished_is_left_alone_and_nothing_else_is_replaced(text, tmp_path):
    translate_file(text, tmp_path / "out", ABOUT, shout)
    for rank in range(3):  # of the same command given again, or of a process that is late
        assert translate_file(text, tmp_path / "out", ABOUT, pytest.fail, rank, 3)
    with pytest.raises(
        DragomanError,
        match=r"out exists and was made with something else \(changed: models\); delete .*out and .*json, or",
    ):
        translate_file(text, tmp_path / "out", ABOUT | {"models": ["b"]}, shout)
    (tmp_path / "out").write_text("")
    with pytest.raises(DragomanError, match="out is not as it was written; delete it to translate again, or"):
        translate_file(text, tmp_path / "out", ABOUT, shout)
    (tmp_path / "mine").write_text("my own notes")
    with pytest.raises(
        DragomanError,
        match=r"out exists and was made with something else \(changed: ban\); delete .*out and .*json, or",
    ):
        translate_file(text, tmp_path / "out", ABOUT | {"search": {"ban": ("a",)}}, shout)
    with pytest.raises(
        DragomanError,
        match="mine exists, and is not a translation of this command; delete .*mine, or choose another",
    ):
        translate_file(text, tmp_path / "mine", ABOUT, shout)
    assert (tmp_path / "mine").read_text() == "my own notes"
    for content in ("[1]", "no JSON", "\xff"):
        (tmp_path / "other.json").write_text(content, "latin-1")  # where the note of `other` would go
        with pytest.raises(
            DragomanError, match="other.json exists, and is not a translation of this command"
        ):
            translate_file(text, tmp_path / "other", ABOUT, shout)
        assert (tmp_path / "other.json").read_text("latin-1") == content


def test_parts_that_a_killed_process_has_left_are_removed(text, tmp_path, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)  # it ends before it removes them
        translate_file(text, tmp_path / "out", ABOUT, shout)
    assert (tmp_path / "out.parts" / "000000000").exists()
    assert translate_file(text, tmp_path / "out", ABOUT, pytest.fail)
    assert not (tmp_path / "out.parts").exists()


def test_a_second_process_with_the_same_work_is_refused(text, tmp_path):
    def twice(block):
        """While this process is at the third block, another one begins the same."""
        if block[0][0] == 7:
            with pytest.raises(
                DragomanError, match="Another process is translating to .*out; wait for it, or choose"
            ):
                translate_file(text, tmp_path / "out", ABOUT, pytest.fail)
        return shout(block)

    assert translate_file(text, tmp_path / "out", ABOUT, twice)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out", "out.json"}


def test_what_another_process_completes_before_this_one_has_the_lock_is_not_translated_again(
    text, tmp_path, monkeypatch
):
    out = tmp_path / "out"

    def after_another(parts):
        monkeypatch.undo()
        monkeypatch.setattr(files, "BLOCK", 3)
        assert translate_file(text, out, ABOUT, shout)
        refuse(parts)

    refuse = files.refuse_other_files
    monkeypatch.setattr(files, "refuse_other_files", after_another)
    assert translate_file(text, out, ABOUT, pytest.fail)
    assert out.read_text().split("\n")[:-1] == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {"text", "out", "out.json"}


def test_what_happened_is_said(text, tmp_path, messages):
    out = tmp_path / "out"

    def interrupted(block):
        if block[0][0] == 7:
            raise KeyboardInterrupt
        return shout(block)

    with pytest.raises(KeyboardInterrupt):
        translate_file(text, out, ABOUT, interrupted)
    translate_file(text, out, ABOUT, shout)
    translate_file(text, out, ABOUT, pytest.fail)
    translate_file(text, tmp_path / "other", ABOUT, shout, 0, 2)
    assert messages == [
        f"Interrupted; 2 of 4 blocks of 3 lines are kept in {out}.parts. The same command resumes.",
        f"{out} is complete; {out}.json lists what it was made with.",
        f"{out} is complete already; nothing was translated.",
        f"Other processes have not written all of their blocks of {tmp_path / 'other'} yet; "
        "the last one joins them.",
    ]


def test_pipes_and_folders_are_refused(tmp_path, text):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        DragomanError,
        match="pipe is not a regular file, and cannot be read twice; copy it to a file, or give it to",
    ):
        translate_file(tmp_path / "pipe", tmp_path / "out", ABOUT, shout)
    for folder in (tmp_path, Path()):
        with pytest.raises(DragomanError, match="is a folder; give the name of a file"):
            translate_file(text, folder, ABOUT, shout)
    (tmp_path / "out.json").write_text("amber\n")
    with pytest.raises(DragomanError, match="out.json would say how it was made, and that is the input"):
        translate_file(tmp_path / "out.json", tmp_path / "out", ABOUT, shout)


@pytest.mark.short_form(2)
@pytest.mark.parametrize(
    "options",
    [
        ("--json",),
        ("--json", "--n-best", "2"),
        ("--json", "--trace"),
        ("--json", "--alternatives", "2"),
        ("--beam-size", "1"),
        ("--length-penalty", "2"),
        ("--no-native",),
        ("--ban-words", "AMBER"),
        ("--max-length", "1"),
        ("--ensemble", "again"),
        ("--precision", "int8"),
    ],
    ids=lambda options: options[-1] if options[-1].startswith("-") else " ".join(options[-2:]),
)
def test_a_file_of_one_translation_is_not_complete_for_another(
    options, trained, tmp_path, command_line, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("amber\nbirch\n")
    (tmp_path / "again").symlink_to(trained / "run")
    command = ["translate", trained / "run", "--input", "text", "--output", "out"]
    assert command_line(*command)[0] == 0
    before = (tmp_path / "out").read_bytes(), (tmp_path / "out.json").read_bytes()
    status, _, err = command_line(*command)
    assert (status, "is complete already" in err) == (0, True)
    status, _, err = command_line(*command, *options)
    assert (status, "is complete" in err) == (2, False), err
    assert ((tmp_path / "out").read_bytes(), (tmp_path / "out.json").read_bytes()) == before
    assert command_line(*command[:-1], "other", *options)[0] == 0

"""Long documents: translated block by block, and resumed after an interruption."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.translation import document_blocks
from dragoman.translation.document_blocks import kept_blocks, parts_of, remove, translate_blocks
from tests.test_translator import LINES, folder  # noqa: F401

DOCUMENT = "".join(f"{line}. <b>{number}</b> {{x}} {line}!\n" for number, line in enumerate(LINES * 3))
SEARCH = ["--beam-size", "1", "--max-extra-tokens", "4"]


class Killed(BaseException):
    """Ends a translation at any place."""


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 4), max_size=5),
    st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), max_size=4),
)
def test_blocks_that_are_done_are_not_translated_again(tmp_path_factory, sizes, deaths):
    out = tmp_path_factory.mktemp("blocks") / "out"
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    blocks = [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    about = {"sentences": "1"}
    translated: list[int] = []

    for calls, before, is_changed in [*deaths, (99, True, False)]:
        if is_changed:
            about, translated = {"sentences": about["sentences"] + "1"}, []
        left = calls

        def translate(block):
            nonlocal left
            left -= 1
            if left < 0 and before:
                raise Killed
            translated.extend(block)
            return [f"{about['sentences']} {number}" for number in block]

        def write(path, content, write=document_blocks.write):
            if left < 0 and path.name.isdigit():
                del translated[-len(blocks[int(path.name)]) :]
                raise Killed
            write(path, content)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(document_blocks, "write", write)
            try:
                with kept_blocks(out, about) as parts:
                    result = translate_blocks(blocks, translate, parts)
            except Killed:
                continue
        assert result == {number: f"{about['sentences']} {number}" for number in range(sum(sizes))}
        assert sorted(translated) == list(range(sum(sizes)))
        assert not parts.exists()
        return


@pytest.fixture
def document(tmp_path) -> Path:
    path = tmp_path / "a.html"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(document_blocks, "BLOCK", 3)


@pytest.mark.long
@pytest.mark.usefixtures("small_blocks")
def test_a_document_whose_translation_is_killed_gets_the_same_bytes(folder, document, command_line):  # noqa: F811
    status, expected, _ = command_line("translate", folder, "--document", document, *SEARCH)
    assert status == 0
    out = document.with_name("out.html")
    program = (
        "from dragoman.translation import document_blocks as blocks; blocks.BLOCK = 3\n"
        "write = blocks.write\n"
        "def slow(path, content):\n"
        "    write(path, content)\n"
        "    if path.name == '000000002': print(end='x', flush=True); import time; time.sleep(99)\n"
        "blocks.write = slow\n"
        "from dragoman.cli.main import main; main()"
    )
    arguments = ["translate", str(folder), "--document", str(document), "--output", str(out), *SEARCH]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"x"
        process.send_signal(signal.SIGKILL)
    parts = parts_of(out)
    assert not out.exists()
    written = {path.name: path.stat().st_mtime_ns for path in parts.iterdir() if path.name.isdigit()}
    assert sorted(written) == ["000000000", "000000001", "000000002"]
    status, _, err = command_line(*arguments)
    assert (status, out.read_text()) == (0, expected)
    assert "is resumed; 3 blocks" in err
    assert not parts.exists()


@pytest.mark.usefixtures("small_blocks")
def test_a_document_that_changes_starts_anew(folder, document, command_line, monkeypatch):  # noqa: F811
    out = document.with_name("out.html")
    arguments = ["translate", folder, "--document", document, "--output", out, *SEARCH]
    write = document_blocks.write

    def interrupted(path, content):
        write(path, content)
        if path.name == "000000001":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(document_blocks, "write", interrupted)
        status, _, err = command_line(*arguments)
    assert (status, "2 blocks of 3 sentences are kept" in err) == (130, True)
    document.write_text(DOCUMENT.replace("dogs", "cats"))
    _, expected, _ = command_line("translate", folder, "--document", document, *SEARCH)
    status, _, err = command_line(*arguments)
    assert (status, out.read_text()) == (0, expected)
    assert "starts anew, as something else was begun (sentences)" in err


def test_a_process_that_is_killed_after_the_last_byte_is_done(folder, document, command_line, monkeypatch):  # noqa: F811
    out = document.with_name("out.html")
    arguments = ["translate", folder, "--document", document, "--output", out, *SEARCH]
    with monkeypatch.context() as patch:
        patch.setattr(document_blocks, "remove", lambda parts: None)
        command_line(*arguments)
    written, parts = out.read_bytes(), parts_of(out)
    assert parts.exists()
    content = document.read_bytes()
    document.write_bytes(content.replace(b"</", b" amber</", 1))
    for changed in (arguments, [*arguments, "--length-penalty", "0.9"]):
        status, _, err = command_line(*changed)
        assert (status, "exists and was made with something else" in err, parts.exists()) == (2, True, True)
        assert out.read_bytes() == written
        document.write_bytes(content)
    assert command_line(*arguments)[::2] == (0, f"{out} is complete already; nothing was translated.\n")
    assert (out.read_bytes(), parts.exists()) == (written, False)
    status, _, err = command_line(*arguments)
    assert (status, "exists; delete it" in err) == (2, True)


def test_files_of_something_else_are_not_touched(tmp_path):
    out = tmp_path / "out"
    parts_of(out).mkdir()
    (parts_of(out) / "about.json").write_text('{"source": "1", "block": 2000}')
    (parts_of(out) / "000000000").write_text("line\n")
    with pytest.raises(DragomanError, match="has the parts of another translation"), kept_blocks(out, {}):
        pass
    assert (parts_of(out) / "000000000").read_text() == "line\n"
    remove(parts_of(out))
    parts_of(out).mkdir()
    (parts_of(out) / "mine").write_text("")
    with pytest.raises(DragomanError, match="are not of this translation"), kept_blocks(out, {}):
        pass


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_terminal_shows_the_progress_in_sentences(folder, document, command_line, monkeypatch, is_terminal):  # noqa: F811
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, err = command_line("translate", folder, "--document", document, *SEARCH)
    assert ("24/24" in err, "sentences" in err) == (is_terminal, is_terminal)
    assert "sentences" not in out


def test_the_encoding_of_a_document_is_named_where_it_is_none_of_a_text(folder, tmp_path, command_line):  # noqa: F811
    document = tmp_path / "a.txt"
    document.write_bytes("Zwölf.\n12\n".encode("gb18030"))
    arguments = ["translate", folder, "--document", document, *SEARCH]
    status, _, err = command_line(*arguments)
    assert (status, "line 1, byte 3: not UTF-8" in err, "--encoding" in err) == (2, True, True)
    status, _, err = command_line(*arguments, "--encoding", "ascii")
    assert (status, "byte 3: not ascii; give another encoding" in err) == (2, True)
    status, _, err = command_line(*arguments, "--encoding", "none")
    assert (status, "'none' is not an encoding" in err) == (2, True)
    out = tmp_path / "out.txt"
    assert command_line(*arguments, "--encoding", "gb18030", "--output", out)[0] == 0
    assert out.read_bytes().decode("gb18030").endswith("\n12\n")

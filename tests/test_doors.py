"""Every command that reads text reads the same lines of it, and refuses what is no text."""

import codecs
import io
import json
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.cli import main as cli
from dragoman.text.lines import read_lines

DOORS = {
    "translate": ["translate", "{run}"],
    "translate, a stream": ["translate", "{run}", "--stream"],
    "translate, a file": ["translate", "{run}", "--input", "{text}"],
    "translate, file to file": ["translate", "{run}", "--input", "{text}", "--output", "{out}/out"],
    "score, source": ["score", "{run}", "-s", "{text}", "-t", "{other}"],
    "score, target": ["score", "{run}", "-s", "{other}", "-t", "{text}"],
    "align, source": ["align", "{run}", "-s", "{text}", "-t", "{other}"],
    "align, target": ["align", "{run}", "-s", "{other}", "-t", "{text}"],
    "evaluate, source": ["evaluate", "{run}", "-s", "{text}", "-t", "{other}", "--hypotheses", "{out}/out"],
    "evaluate, target": ["evaluate", "{run}", "-s", "{other}", "-t", "{text}", "--hypotheses", "{out}/out"],
    "evaluate, baseline": [
        *("evaluate", "{run}", "-s", "{other}", "-t", "{other}", "--baseline", "{text}"),
        *("--hypotheses", "{out}/out"),
    ],
    "backtranslate": ["backtranslate", "{run}", "{text}", "--out", "{out}/out"],
    "distil": ["distil", "{run}", "--data", "{text}", "--out", "{out}/out"],
    "distil, references": [
        *("distil", "{run}", "--data", "{other}", "--references", "{text}", "--out", "{out}/out"),
    ],
    "shortlist, source": ["shortlist", "{run}", "-s", "{text}", "-t", "{other}", "-o", "{out}/out"],
    "shortlist, target": ["shortlist", "{run}", "-s", "{other}", "-t", "{text}", "-o", "{out}/out"],
    "inspect": ["inspect", "{run}", "--file", "{text}", "--show", "heads", "--out", "{out}/out.json"],
    "clean, validation data": [
        *("clean", "{other}", "{other}", "--valid-source", "{text}", "--valid-target", "{text}"),
        *("--out", "{out}/out"),
    ],
    "clean, test data": ["clean", "{other}", "{other}", "--test-source", "{text}", "--out", "{out}/out"],
    "train, source": ["train", "{text}", "{other}", "--out", "{out}/out"],
    "train, target": ["train", "{other}", "{text}", "--out", "{out}/out"],
    "train, columns": ["train", "{text}.tsv", "--out", "{out}/out"],
    "aer": ["aer", "{text}", "{other}"],
}
"""Commands that refuse a text which training refuses. The text without a file is standard input."""
WRITERS = {
    "translate": ["translate", "{run}", "--input", "{text}", "--output", "{written}"],
    "translate, a document": ["translate", "{run}", "--document", "{text}", "--output", "{written}"],
    "evaluate": ["evaluate", "{run}", "-s", "{text}", "-t", "{other}", "--hypotheses", "{written}"],
    "evaluate, target": ["evaluate", "{run}", "-s", "{other}", "-t", "{text}", "--hypotheses", "{written}"],
    "shortlist": ["shortlist", "{run}", "-s", "{text}", "-t", "{other}", "-o", "{written}"],
    "shortlist, target": ["shortlist", "{run}", "-s", "{other}", "-t", "{text}", "-o", "{written}"],
    "inspect": ["inspect", "{run}", "--file", "{text}", "--show", "heads", "--out", "{written}"],
    "plot": ["plot", "{run}", "--out", "{written}"],
    "figure": ["figure", "figure-1", "{run}", "--out", "{written}"],
    "linearise": ["linearise", "{text}", "--source", "{written}", "--target", "{out}/out"],
    "linearise, target": ["linearise", "{text}", "--source", "{out}/out", "--target", "{written}"],
    "parse-f1": ["parse-f1", "{text}", "{other}", "--output", "{written}"],
    "parse-f1, gold": ["parse-f1", "{other}", "{text}", "--gold-output", "{written}"],
}
"""Commands that write a file."""
DOCUMENT = ["translate", "{run}", "--document", "{text}", "--output", "{out}/out"]
WORDS = ["amber", "birch", "cedar", " ", "\t", "é", "日本", "\u2028", "\x0b", "\x0c", "\x85", "\x1c"]
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map("".join), min_size=1, max_size=6)
INSIDE = [b"\0", b"\rx", b"\xff", b"\xc3", b"\xed\xa0\x80"]
OTHER_FILES = [b"PK\x03\x04", b"%PDF-1.4", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]
UTF_16 = ["utf-16", "utf-16-le", "utf-16-be"]


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory) -> Path:
    return shutil.copytree(trained / "run", tmp_path_factory.mktemp("doors") / "run")


def enter(command, run, raw, capsysbinary, monkeypatch):
    """Status, output, messages, and the files that are left, of a command that reads these bytes."""
    with TemporaryDirectory() as folder:
        text, other, out = (Path(folder) / name for name in ("text", "other", "out"))
        out.mkdir()
        other.write_bytes(b"amber\n" * 40)
        text.write_bytes(raw)
        text.with_name("text.tsv").write_bytes(raw.replace(b"\t", b" ").replace(b"\n", b"\tamber\n"))
        names = {"run": run, "text": text, "other": other, "out": out}
        arguments = [part.format(**names) for part in command]
        monkeypatch.setattr(sys, "argv", ["dragoman", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        status = 0
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code or 0
        said = capsysbinary.readouterr()
        return status, said.out, said.err.decode(), sorted(path.name for path in out.rglob("*"))


@st.composite
def broken_text(draw):
    """Bytes with one fault, with the line and byte that a message names."""
    lines = [line.encode() for line in draw(LINES)]
    kind = draw(st.sampled_from(["inside", "utf-16", "other file"]))
    if kind == "utf-16":
        encoding = draw(st.sampled_from(UTF_16))
        raw = "\n".join(["amber", *(line.decode() for line in lines)]).encode(encoding)
        return raw, 1, 1 if encoding != "utf-16-le" else 2
    number = draw(st.integers(0, len(lines) - 1)) if kind == "inside" else 0
    before = lines[number].decode()[: draw(st.integers(0, 9)) if kind == "inside" else 0].encode()
    fault = draw(st.sampled_from(INSIDE if kind == "inside" else OTHER_FILES))
    lines[number] = before + fault + lines[number][len(before) :]
    return b"".join(line + b"\n" for line in lines), number + 1, len(before) + 1


@pytest.mark.short_form(7)
@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=2)
@given(broken=broken_text())
@example(broken=(b"amber\rbirch\rcedar", 1, 6))
def test_a_text_with_one_fault_is_refused_with_its_place(door, run, capsysbinary, monkeypatch, broken):
    raw, line, byte = broken
    status, out, said, left = enter(DOORS[door], run, raw, capsysbinary, monkeypatch)
    done = line - 1 if "stream" in door else 0  # a stream has written the lines before
    assert (status, out.count(b"\n")) == (2, done)
    assert f", line {line}, byte {byte}: " in said, said
    assert "Traceback" not in said
    assert left == []


@pytest.mark.parametrize("verb", ["train", "doctor"])
def test_a_text_whose_sides_are_exchanged_is_refused_before_it_is_read(tmp_path, command_line, verb):
    files = [tmp_path / name for name in ("train.en", "train.de", "valid.en", "valid.de")]
    for path in files:
        path.write_text("amber\n")
    out = ["--out", tmp_path / "out"] if verb == "train" else []
    exchanged = ["--valid-source", files[3], "--valid-target", files[2]]
    status, printed, said = command_line(verb, *files[:2], *exchanged, *out)
    assert (status, printed, "Exchange the sides." in said) == (2, "", True), said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("door", WRITERS)
def test_no_command_replaces_what_it_reads_or_a_file_of_a_model(door, run, tmp_path, command_line):
    ending = ".svg" if door in ("plot", "figure") else ".json"
    places = [tmp_path / f"text{ending}", run / "model" / f"x{ending}"]
    files = {"run": run, "text": places[0], "other": tmp_path / "other", "out": tmp_path}
    for path in (files["text"], files["other"]):
        path.write_text("amber\n")
    for written in places if "{text}" in WRITERS[door] else places[1:]:
        command = [part.format(**files, written=written) for part in WRITERS[door]]
        status, _, said = command_line(*command)
        assert status == 2
        assert str(written) in said
        assert ("is what this command reads" if written == places[0] else "is in a folder whose") in said, (
            said
        )
    assert files["text"].read_text() == "amber\n"
    assert not places[1].exists()


def is_utf_16(raw):
    """Whether a document is read as UTF-16."""
    return raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@settings(max_examples=20)
@given(broken=broken_text().filter(lambda broken: b"\r" not in broken[0] and not is_utf_16(broken[0])))
def test_a_document_with_one_fault_is_refused_with_its_place(run, capsysbinary, monkeypatch, broken):
    raw, line, byte = broken
    status, out, said, left = enter(DOCUMENT, run, raw, capsysbinary, monkeypatch)
    assert (status, out, left) == (2, b"", [])
    assert f", line {line}, byte {byte}: " in said, said


@settings(max_examples=3)
@given(LINES, st.sampled_from(["\n", "\r\n"]))
def test_only_a_line_feed_ends_a_line_at_every_door(run, capsysbinary, monkeypatch, lines, end):
    raw = "".join(line + end for line in lines).encode()
    for door in ("translate", "translate, a file", "score, source", "align, source"):
        command = [part.replace("{other}", "{text}") for part in DOORS[door]]
        status, out, _, _ = enter([*command, "--json"], run, raw, capsysbinary, monkeypatch)
        records = [json.loads(line) for line in out.decode().removesuffix("\n").split("\n")]
        assert (status, [record["source"] for record in records]) == (0, lines), door
    for door in ("translate", "translate, a stream"):
        status, out, _, _ = enter(DOORS[door], run, raw, capsysbinary, monkeypatch)
        assert (status, out.count(b"\n")) == (0, len(lines)), door
    with TemporaryDirectory() as folder:
        (Path(folder) / "text").write_bytes(raw)
        assert list(read_lines(Path(folder) / "text")) == lines


@settings(max_examples=3)
@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_lines_of_several_sentences_that_are_translated_whole_are_counted_at_the_end(
    run, capsysbinary, monkeypatch, several
):
    raw = "".join("Amber birch. Cedar.\n" if has_two else "amber\n" for has_two in several).encode()
    for door in ("translate", "translate, a stream", "translate, file to file", "backtranslate"):
        for options in ([], ["--min-length", "1"]):
            status, _, said, _ = enter([*DOORS[door], *options], run, raw, capsysbinary, monkeypatch)
            assert status == 0
            counts = re.findall(r"(\d+) of (\d+) texts? ha(?:s|ve) several sentences or a line break,", said)
            assert counts == [(str(sum(several)), str(len(several)))] * (bool(options) and any(several)), door
    _, _, said, _ = enter([*DOCUMENT, "--format", "text"], run, raw, capsysbinary, monkeypatch)
    assert "several sentences" not in said

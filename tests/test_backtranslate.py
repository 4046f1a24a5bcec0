"""`dragoman backtranslate`: pairs from text in the target language; resumed equals uninterrupted."""

import gzip
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from dragoman import Translator
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from dragoman.translation import files
from dragoman.translation.backtranslation import check_text, pair_names, write_pairs
from dragoman.translation.model_folder import StoredModel
from tests.conftest import call

LINES = ["amber birch", "", "cedar ember delta", "  ", "delta", "ember amber", "birch"]


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A model that writes words in capitals, as a model from German to English."""
    folder = tmp_path_factory.mktemp("reverse") / "model"
    replace(StoredModel.load(trained / "run"), languages=Languages("de", "en")).save(folder)
    return folder


@pytest.fixture(scope="module")
def pairs(run):
    """The pairs of the translations that the translator gives."""
    translations = Translator.load(run).translate(LINES)
    return [pair for pair in zip(translations, LINES, strict=True) if pair[1].strip()]


@pytest.fixture
def mono(tmp_path, monkeypatch):
    """Seven lines, two of them empty, in blocks of two."""
    monkeypatch.setattr(files, "BLOCK", 2)
    path = tmp_path / "mono.de"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def pairs_of(folder, tag=""):
    source, target = ((folder / name).read_text().splitlines() for name in ("mono.en", "mono.de"))
    assert all(line.startswith(tag) for line in source)
    return list(zip((line.removeprefix(tag) for line in source), target, strict=True))


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_sources_are_translations_and_empty_lines_are_left_out(mono, run, pairs, tmp_path, command_line):
    status, out, err = command_line("backtranslate", run, mono, "--out", tmp_path / "bt")
    assert (status, out) == (0, "")
    assert "Empty lines left out: 2." in err
    assert "5 pairs of 7 lines." in err
    assert f"Train with: dragoman train {tmp_path}/bt/mono.en {tmp_path}/bt/mono.de --out runs/NAME" in err
    assert pairs_of(tmp_path / "bt") == pairs
    report = json.loads((tmp_path / "bt" / "report.json").read_text())
    names = {"source": "mono.en", "target": "mono.de", "tag": ""}
    assert report == names | {"lines": 7, "empty": 2, "untranslated": 0, "pairs": 5}


@pytest.mark.parametrize("sampled", [(), ("--temperature", "1", "--sampling-seed", "3")])
def test_interrupted_and_resumed_equals_uninterrupted(
    mono, run, tmp_path, command_line, monkeypatch, capsysbinary, sampled
):
    asked = ("backtranslate", run, mono, *sampled, "--out")
    assert command_line(*asked, tmp_path / "whole")[0] == 0
    n_best, done = Translator.n_best, []

    def interrupted(translator, lines, settings, glossary):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(lines)
        return n_best(translator, lines, settings, glossary)

    with monkeypatch.context() as change:
        change.setattr(Translator, "n_best", interrupted)
        assert call(change, capsysbinary, *asked, tmp_path / "resumed")[0] == 130
    assert {path.name for path in (tmp_path / "resumed").iterdir()} == {"translations.parts"}
    assert command_line(*asked, tmp_path / "resumed")[0] == 0
    assert files_of(tmp_path / "resumed") == files_of(tmp_path / "whole")


def test_samples_are_those_of_the_translator(mono, run, tmp_path, command_line):
    asked = ("backtranslate", run, mono, "--out", tmp_path / "bt", "--temperature", "3")
    assert command_line(*asked)[0] == 0
    samples = Translator.load(run).translate(LINES, SearchSettings(temperature=3))
    expected = [(sample, line) for sample, line in zip(samples, LINES, strict=True) if sample.strip()]
    assert pairs_of(tmp_path / "bt") == expected != pairs


@pytest.mark.parametrize("name", ["mono.en", "report.json", "translations"])
def test_files_of_something_else_are_not_replaced(mono, run, tmp_path, command_line, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("by people\n")
    arguments = "backtranslate", run, mono, "--out", tmp_path / "out"
    status, _, err = command_line(*arguments)
    assert (
        status,
        f"{name} exists, and translations.json, which a back-translation writes, does not" in err,
    ) == (2, True)
    assert files_of(tmp_path / "out") == {name: b"by people\n"}


def test_the_folder_of_a_model_is_refused(mono, run, command_line):
    before = files_of(run)
    status, _, err = command_line("backtranslate", run, mono, "--out", run)
    assert (status, "whose files manifest.json lists" in err) == (2, True)
    assert files_of(run) == before


def test_another_tag_translates_nothing_again(mono, run, pairs, tmp_path, command_line, monkeypatch):
    asked = ("backtranslate", run, mono, "--out", tmp_path / "bt")
    assert command_line(*asked)[0] == 0
    monkeypatch.setattr(Translator, "n_best", None)
    status, _, err = command_line(*asked, "--tag", "<bt>")
    assert status == 0
    assert err.rstrip().endswith("mono.de --symbols '<bt>' --out runs/NAME")
    assert pairs_of(tmp_path / "bt", "<bt> ") == pairs


def test_several_processes_share_the_lines(mono, run, pairs, tmp_path, command_line, monkeypatch):
    asked = ("backtranslate", run, mono, "--out", tmp_path / "bt")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert command_line(*asked)[0] == 0
    assert {path.name for path in (tmp_path / "bt").iterdir()} == {"translations.parts"}
    monkeypatch.setenv("RANK", "0")
    assert command_line(*asked)[0] == 0
    assert pairs_of(tmp_path / "bt") == pairs


def test_gzip_changes_nothing(mono, run, pairs, tmp_path, command_line):
    (tmp_path / "mono.de.gz").write_bytes(gzip.compress(mono.read_bytes().replace(b"\n", b"\r\n")))
    packed = ("backtranslate", run, tmp_path / "mono.de.gz", "--out", tmp_path / "bt")
    assert command_line(*packed)[0] == 0
    assert pairs_of(tmp_path / "bt") == pairs


def test_translations_that_training_refuses_are_left_out_and_counted(mono, tmp_path):
    (tmp_path / "translations").write_text("A\n\n\nx\nB\0\n \nC\n")
    report = write_pairs(mono, tmp_path / "translations", tmp_path, ("s", "t"), "")
    assert (report.empty, report.untranslated, report.pairs) == (2, 3, 2)
    assert (tmp_path / "s").read_text() == "A\nC\n"
    assert (tmp_path / "t").read_text() == "amber birch\nbirch\n"


@pytest.mark.parametrize(
    ("name", "languages", "expected"),
    [
        ("mono.de", Languages("de", "en"), ("mono.en", "mono.de")),
        ("mono.de.gz", Languages("de-AT", "pt-BR"), ("mono.pt", "mono.de")),
        ("mono.de.zst", Languages("de", "en"), ("mono.en", "mono.de")),
        ("news.2020", Languages("de", "en"), ("news.2020.en", "news.2020.de")),
        ("mono.de", Languages(), ("mono.source", "mono.target")),
    ],
)
def test_files_are_named_after_the_languages(tmp_path, name, languages, expected):
    assert pair_names(tmp_path / name, languages) == expected


@pytest.mark.parametrize("language", ["de", "de-AT", "und", "fr"])
@pytest.mark.parametrize("name", ["mono.de", "mono.de.gz", "mono", "mono.2020"])
def test_a_text_may_be_in_a_variety_of_the_language_that_is_translated_or_in_an_unknown_one(
    tmp_path, language, name
):
    content = b"amber\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    refused = language == "fr" and ".de" in name
    with (
        pytest.raises(DragomanError, match="is in de, and the run translates from fr")
        if refused
        else nullcontext()
    ):
        check_text(tmp_path / name, Languages(language, "en"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mono.en", "--out", "bt"), "mono.en is in en, and the run translates from de to en."),
        (("mono.de", "--out", "."), "mono.de is in --out . and would be replaced; give another folder."),
        (("blank.de", "--out", "bt"), "blank.de has only empty lines."),
        (("empty.de", "--out", "bt"), "empty.de is empty"),
        (("latin.de", "--out", "bt"), "latin.de, line 1, byte 1: not UTF-8"),
        (("late.de", "--out", "bt"), "late.de, line 2, byte 1: not UTF-8"),
        (("mono.tmx", "--out", "bt"), "mono.tmx has both sides of a corpus, and text of one"),
        (("none.de", "--out", "bt"), "none.de cannot be read"),
        (("mono.de", "--out", "bt", "--tag", "a b"), "--tag is 'a b'; it has to be a word in angle"),
        (("mono.de", "--out", "bt", "--n-best", "2"), "--n-best 2 would make several sources per line"),
        (("mono.de", "--out", "bt", "--top-k", "5"), "temperature"),
        (("mono.de",), "--out"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_a_sentence(mono, run, command_line, monkeypatch, arguments, message):
    folder = mono.parent
    monkeypatch.chdir(folder)
    for name, content in (
        ("mono.en", b"a\n"),
        ("blank.de", b"\n \n"),
        ("empty.de", b""),
        ("latin.de", b"\xfc\n"),
        ("late.de", b"a\n\xfc\n"),
    ):
        (folder / name).write_bytes(content)
    before = files_of(folder)
    status, out, err = command_line("backtranslate", run, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert files_of(folder) == before


@pytest.mark.parametrize(
    ("options", "name"), [(["--beam-size", "2"], "--beam-size"), (["--precision", "int8"], "--precision")]
)
def test_a_folder_of_another_translation_is_refused(mono, run, tmp_path, command_line, options, name):
    asked = ("backtranslate", run, mono, "--out", tmp_path / "bt")
    assert command_line(*asked)[0] == 0
    status, _, err = command_line(*asked, *options)
    assert status == 2
    assert f"translations exists and was made with something else (changed: {name})" in err


def test_no_pair_is_refused(mono, tmp_path):
    (tmp_path / "translations").write_text("\n" * len(LINES))
    with pytest.raises(DragomanError, match="has a translation that is not empty"):
        write_pairs(mono, tmp_path / "translations", tmp_path, ("s", "t"), "")
    assert not (tmp_path / "s").exists()

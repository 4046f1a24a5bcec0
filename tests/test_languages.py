"""The languages of a model: guessed, kept, shown and exported; documents are cut by them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.documents.formats import ENDINGS as FORMATS
from dragoman.documents.formats import OTHERS, format_of_name
from dragoman.interop.weights import languages_named
from dragoman.pipeline.run import run
from dragoman.pipeline.runs import state_of
from dragoman.system.errors import DragomanError
from dragoman.text.conversion import ConvertedData, with_languages
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.quality.identification import identify, is_identifiable
from dragoman.text.settings import DataSettings, Languages, language_of_name, languages_of_name
from dragoman.translation.model_folder import StoredModel
from tests.conftest import small_recipe, write_copies


@pytest.fixture
def folder(trained):
    """A run that has learnt to write words in capitals."""
    return trained


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"),
        ("train.en.gz", "en"),
        ("train.en.zst", "en"),
        ("corpus.tmx.gz", "und"),
        ("a.b.de.txt", "de"),
        ("train.source", "und"),
        ("train.txt", "und"),
        ("en", "und"),
        ("", "und"),
        ("train.gz", "und"),
    ],
)
def test_a_language_is_what_the_ending_says(name, language):
    assert language_of_name(name) == language


def test_names_of_datasets_and_models_say_both_languages():
    assert languages_of_name("opus-mt-en-de") == Languages("en", "de")
    assert languages_of_name("en-de") == Languages("en", "de")
    for name in ("model", "hf", "opus-mt", "a-b-de", "model-en-de2"):
        assert languages_of_name(name) == Languages()
    assert DataSettings(target=Path("train.de")).languages == Languages("und", "de")
    assert DataSettings(dataset="multi30k-en-de", target_language="fr").languages == Languages("en", "fr")


@pytest.mark.parametrize("names", [("b.txt", "b.ref"), ("b.fr", "b.it")])
def test_the_languages_of_several_corpora_are_those_of_the_first_if_no_others_are_asked_for(names):
    corpora = WeightedCorpus(Path("a.en"), Path("a.de")), WeightedCorpus(*map(Path, names))
    data = ConvertedData(corpus=corpora)
    assert with_languages(data).languages == Languages("en", "de")
    assert with_languages(replace(data, target_language="es")).languages == Languages("en", "es")
    assert with_languages(replace(data, corpus=corpora[::-1])).languages != Languages("en", "de")


KNOWN, UNKNOWN = ["en", "de", "pt-BR", "pt-PT", "zh-Hant"], ["xx", "tlh", "und"]


@given(
    st.text(max_size=9) | st.sampled_from(["Two dogs play in the snow.", "Zwei Hunde spielen.", "一个男人"]),
    st.lists(st.sampled_from(KNOWN + UNKNOWN), unique=True),
)
def test_a_text_is_in_one_of_the_languages_that_it_may_be_in(text, among):
    """Of two varieties of a language it is the first; a text without letters, or of none, has no language."""
    found = identify(text, among)
    wanted = {code.partition("-")[0]: code for code in reversed(among) if code in KNOWN}
    has_letters = any(map(str.isalpha, text))
    assert {code for code, _ in found} == ({*wanted.values()} if has_letters else set())
    shares = [share for _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1 if found else 0, abs=1e-5)
    assert all(is_identifiable(code) == (code in KNOWN) for code in among)


@pytest.mark.parametrize("code", ["", "../x", "e", "english", "en_", "en-"])
def test_what_is_no_code_is_refused(code):
    with pytest.raises(DragomanError, match="it has to be a language code such as en, de or pt-BR"):
        Languages(code, "de")


@given(st.none() | st.integers() | st.text(max_size=6) | st.text("enXt-_2 ", max_size=8))
def test_what_a_foreign_model_names_is_a_code_or_unknown(name):
    try:
        expected = Languages(str(name), "de")
    except DragomanError:
        expected = Languages("und", "de")
    assert languages_named(name, "de") == expected
    assert languages_named("de", name) == Languages("de", expected.source)


def test_a_run_keeps_its_languages_and_shows_them(tmp_path):
    source, target = write_copies(tmp_path, "train", 100)
    source, target = source.rename(tmp_path / "train.en"), target.rename(tmp_path / "train.de")
    write_copies(tmp_path, "train", 100)
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=4, validate_every=4)
    data = replace(recipe.data, source=source, target=target, target_language="pt-BR")
    run(replace(recipe, data=data))
    assert Translator.load(tmp_path / "run").languages == Languages("en", "pt-BR")
    assert state_of(tmp_path / "run").languages == Languages("en", "pt-BR")
    stored = StoredModel.load(tmp_path / "run")
    stored.save(tmp_path / "copy")
    assert StoredModel.load(tmp_path / "copy").languages == Languages("en", "pt-BR")


def test_files_in_the_wrong_direction_get_a_warning_and_are_used(command_line, folder, tmp_path):
    stored = replace(StoredModel.load(folder / "run"), languages=Languages("en-GB", "de"))
    stored.save(tmp_path / "run")
    english, german = tmp_path / "test.en", tmp_path / "test.de"
    english.write_text("amber birch\n")
    german.write_text("AMBER BIRCH\n")
    wrong = (
        f"{german} is in de by the end of its name, but {tmp_path / 'run'} translates from en-GB to de; "
        "en-GB is expected there.\n"
    )
    commands = {
        "translate": (["--input", english], ["--input", german]),
        "evaluate": (["-s", english, "-t", german], ["-s", german, "-t", english]),
        "score": (["-s", english, "-t", german], ["-s", german, "-t", english]),
        "align": (["-s", english, "-t", german], ["-s", german, "-t", english]),
    }
    for verb, (right, other) in commands.items():
        for arguments, count in ((right, 0), (other, 1)):
            status, out, err = command_line(verb, tmp_path / "run", *arguments)
            assert (status, err.count(wrong)) == (0, count), (verb, err)
            assert err.count("is expected there") == count * (1 if verb == "translate" else 2)
            assert out
    exchanged = ["shortlist", tmp_path / "run", "-s", german, "-t", english, "-o", tmp_path / "list"]
    status, _, err = command_line(*exchanged)
    assert (status, err.count(wrong), err.count("is expected there")) == (0, 1, 2)
    unnamed = german.rename(tmp_path / "test")
    status, _, err = command_line("translate", tmp_path / "run", "--input", unnamed)
    assert (status, "is expected there" in err) == (0, False)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("letter.de", "AMBER", "de by the end of its name"),
        ("letter.de.txt", "AMBER", "de by the end of its name"),
        ("letter.de.md", "AMBER", "de by the end of its name"),
        ("page.de.html", "<p>AMBER</p>", "de by the end of its name"),
        (
            "page.html",
            '<!DOCTYPE html>\n<HTML class=a LANG="de-AT"><p>AMBER',
            "de-AT by its own declaration",
        ),
        (
            "page.xml",
            "<?xml version='1.0'?><a xml:lang='de'>AMBER</a>",
            "de by its own declaration",
        ),
        ("page.de.htm", '<html lang="en"><p>amber', None),
        ("page.html", '<html lang=""><p>amber', None),
        ("page.html", '<html lang="zxx"><p>amber', None),
        ("page.de.html", '<html lang="mul"><p>amber', "de by the end of its name"),
        ("page.html", '<p lang="de">AMBER</p>', None),
        ("letter.en", "amber", None),
        ("letter.md", "amber", None),
        ("letter", "amber", None),
    ],
)
def test_documents_in_the_wrong_direction_get_a_warning_and_are_translated(
    command_line, folder, tmp_path, name, text, said
):
    replace(StoredModel.load(folder / "run"), languages=Languages("en-GB", "de")).save(tmp_path / "run")
    (tmp_path / name).write_text(text)
    given = tmp_path / "run", "--document", tmp_path / name, "--max-extra-tokens", 1
    status, out, err = command_line("translate", *given)
    assert status == 0
    assert out
    assert err.count("is expected there") == (said is not None)
    if said is not None:
        assert f"{tmp_path / name} is in {said}" in err
        assert f", but {tmp_path / 'run'} translates from en-GB to de; en-GB is expected there.\n" in err


@pytest.mark.parametrize(("language", "count"), [("fr", 1), ("de", 0), ("de_AT", 0), ("", 0)])
def test_a_document_for_translations_into_another_language_gets_a_warning(
    command_line, folder, tmp_path, language, count
):
    replace(StoredModel.load(folder / "run"), languages=Languages("en", "de-DE")).save(tmp_path / "run")
    header = f'msgid ""\nmsgstr "Language: {language}\\n"\n'
    (tmp_path / "a.po").write_text(f'{header}\nmsgid "amber"\nmsgstr ""\n')
    given = tmp_path / "run", "--document", tmp_path / "a.po", "--max-extra-tokens", 1
    status, out, err = command_line("translate", *given)
    assert (status, "amber" in out) == (0, True)
    statement = f"{tmp_path / 'a.po'} is for translations into {language} by its own declaration, but"
    assert (err.count(statement), err.count("de-DE is expected there")) == (count, count)


def test_a_paper_bleu_of_another_language_gets_a_warning(command_line, folder, tmp_path):
    replace(StoredModel.load(folder / "run"), languages=Languages("en", "de")).save(tmp_path / "run")
    (tmp_path / "one").write_text("amber\n")
    files = ["-s", tmp_path / "one", "-t", tmp_path / "one"]
    for language, warned in (("fr", True), ("de", False)):
        _, _, err = command_line("evaluate", tmp_path / "run", *files, "--paper-bleu", language)
        assert ("--paper-bleu is fr, but" in err) == warned


def test_a_model_of_before_has_unknown_languages(folder):
    about = folder / "run" / "model" / "about.json"
    assert json.loads(about.read_text())["source_language"] == "und"
    assert Translator.load(folder / "run").languages == Languages()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "letter.txt",
            "amber birch\r\n\r\n  - cedar ember\n\tdelta heath",
            "AMBER BIRCH\r\n\r\n  - CEDAR EMBER\n\tDELTA HEATH",
        ),
        (
            "page.html",
            "<p class=x>amber birch</p>\n<!-- heath --><pre>cedar</pre>",
            "<p class=x>AMBER BIRCH</p>\n<!-- heath --><pre>cedar</pre>",
        ),
        ("page.xhtml", "<p>amber birch</p>", "<p>AMBER BIRCH</p>"),
        ("page.xml", "<a><b x='1'>amber birch</b></a>", "<a><b x='1'>AMBER BIRCH</b></a>"),
        ("empty.txt", "", ""),
    ],
)
def test_a_document_is_translated_in_its_form(command_line, folder, tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_bytes(text.encode())
    command = ["translate", folder / "run", "--document", path]
    assert command_line(*command)[:2] == (0, expected)
    out = tmp_path / "out"
    assert command_line(*command, "--output", out)[0] == 0
    assert out.read_bytes().decode() == expected


@pytest.mark.parametrize("ending", FORMATS)
@settings(max_examples=5)
@given(data=st.data())
def test_the_case_of_an_ending_does_not_matter(ending, data):
    written = "".join(data.draw(st.sampled_from([letter, letter.upper()])) for letter in ending)
    assert format_of_name(Path(f"guide{written}"), Languages("en", "de")) == FORMATS[ending]
    assert format_of_name(Path("guide.EN"), Languages("en", "de")) == "text"


@pytest.mark.parametrize("ending", OTHERS)
def test_a_document_that_is_not_read_is_refused_with_what_to_do(command_line, folder, tmp_path, ending):
    path = tmp_path / f"guide{ending}"
    path.write_bytes(b"amber")
    status, out, err = command_line("translate", folder / "run", "--document", path)
    assert (status, out) == (2, "")
    assert f"{path} is not read, since it is {OTHERS[ending]}." in err
    assert all(f".{name}" in FORMATS for name in re.findall(r"save it as \.(\w+)", OTHERS[ending]))


ENDINGS = st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1, max_size=12).map(
    lambda text: f".{text}"
)


@pytest.mark.long
@settings(max_examples=10)
@given(ending=ENDINGS, is_upper=st.booleans())
@example(ending=".exe", is_upper=False)
def test_a_document_of_another_ending_is_refused_unless_its_format_is_given(
    command_line, folder, tmp_path, ending, is_upper
):
    assume(ending not in FORMATS and ending not in OTHERS)
    path = tmp_path / f"a.txt{ending.upper() if is_upper else ending}"
    path.write_text("<p>amber</p>")
    command = ["translate", folder / "run", "--document", path]
    status, out, err = command_line(*command, "--output", tmp_path / "out")
    assert (status, out, (tmp_path / "out").exists()) == (2, "", False)
    assert f"{path} ends in {ending}, and that format is not known." in err
    for name in ("text", "html", "xml"):  # as these anything can be read
        same = tmp_path / f"a{next(known for known, kind in FORMATS.items() if kind == name)}"
        shutil.copy(path, same)
        expected = command_line(*command[:3], same)[:2]
        assert command_line(*command, "--format", name)[:2] == expected
        assert expected[0] == 0 or name not in {"text", "html", "xml", "md"}


def test_the_end_of_the_name_does_not_count_where_the_format_is_given(command_line, folder, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<meta charset=latin1><p>amber")
    command = ["translate", folder / "run", "--document", path, "--format"]
    assert "its encoding is latin1" in command_line(*command, "html")[2]
    assert "tags such as <meta charset=latin1> may be lost" in command_line(*command, "text")[2]
    status, _, err = command_line("translate", folder / "run", "--format", "xml")
    assert (status, "--format needs --document; give both, or leave --format out." in err) == (2, True)


def test_a_document_may_be_split(command_line, folder, tmp_path):
    path = tmp_path / "a.html"
    path.write_text("<p>amber <b>birch</b> cedar</p>")
    command = ["translate", folder / "run", "--document", path]
    whole = command_line(*command)
    assert command_line(*command, "--split", 20)[:2] == whole[:2]
    assert whole[0] == 0


def test_tags_of_plain_text_are_warned_of_unless_they_are_kept(command_line, folder, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("amber <i>birch</i>\n")
    command = ["translate", folder / "run", "--document", path]
    warning = f"{path} is read as plain text; tags such as <i> may be lost. --keep-tags keeps them."
    assert warning in command_line(*command)[2]
    assert "plain text" not in command_line(*command, "--keep-tags")[2]


def test_long_sentences_of_a_document_are_counted_by_how_they_are_translated(command_line, folder, tmp_path):
    path = tmp_path / "a.html"
    long = "amber " * 40
    path.write_text(f"<p>{long}</p><p>{long}<b>birch</b> cedar</p>")
    status, _, err = command_line("translate", folder / "run", "--document", path)
    assert status == 0
    assert "1 sentence has more tokens" in err
    assert "is translated in parts" in err
    assert "is translated whole, perhaps badly" in err


def test_a_document_may_be_translated_by_mbr(command_line, folder, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("amber birch\n")
    search = ["--temperature", 1, "--n-best", 4, "--mbr"]
    status, out, _ = command_line("translate", folder / "run", "--document", path, *search)
    assert (status, out.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--json"], "--document and --json exclude each other: a document has one translation as a whole"),
        (["--output", "{path}"], "is what this command reads; give another file"),
        (["--output", "nowhere/out"], "--output nowhere/out cannot be written: there is no such folder."),
    ],
)
def test_what_does_not_go_with_a_document_is_refused(command_line, folder, tmp_path, more, message):
    path = tmp_path / "a.txt"
    path.write_text("amber")
    more = [one.format(path=path) for one in more]
    status, _, err = command_line("translate", folder / "run", "--document", path, *more)
    assert (status, message in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"\xff", "a.html, line 1, byte 1: not UTF-8 (0xff)"),
        (b"\x1f\x8b\x08", "a.html, line 1, byte 1: this is compressed with gzip; decompress it"),
        (
            b"PK\x03\x04\xff",
            "this is a zip file; dragoman translate --document reads office files named .docx",
        ),
        (b'<html><meta charset="iso-8859-1">', "its encoding is iso-8859-1, and it is read as utf-8"),
        (b"<p>fine, too</p><meta charset=windows-1252>", "its encoding is windows-1252"),
        (b'<meta http-equiv=content-type content="text/html; charset=latin1">', "its encoding is latin1"),
    ],
)
def test_a_document_that_cannot_be_read_gets_a_sentence(command_line, folder, tmp_path, content, message):
    path = tmp_path / "a.html"
    if content:
        path.write_bytes(content)
    status, _, err = command_line("translate", folder / "run", "--document", path)
    assert (status, message in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("a.xml", "<?xml version='1.0' encoding='US-ASCII'?><p>amber</p>", "us-ascii"),
        ("a.xml", "<?xml version='1.0' encoding='UTF_8'?><p>amber</p>", None),
        ("a.xml", "<?xml version='1.0' encoding='of-my-own'?><p>amber</p>", "of-my-own"),
        ("a.xhtml", '<?xml version="1.0" encoding="latin1"?><p>amber</p>', "latin1"),
        ("a.html", "<!-- <meta charset=latin1> --><meta charset=utf8><p>amber</p>", None),
        ("a.html", "<script>'<!--'</script><meta charset=latin1>", "latin1"),
    ],
)
def test_a_document_that_names_another_encoding_is_refused(
    command_line, folder, tmp_path, name, content, encoding
):
    (tmp_path / name).write_text(content)
    asked = ["translate", folder / "run", "--document", tmp_path / name]
    status, out, err = command_line(*asked)
    if encoding is None:
        assert (status, "AMBER" in out) == (0, True)
    else:
        assert (status, f"its encoding is {encoding}, and it is read as utf-8" in err) == (
            2,
            True,
        )

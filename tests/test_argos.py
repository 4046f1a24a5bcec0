"""A package of Argos Translate translates as we do: by the program's steps, and (long) by the program."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import onnxruntime
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.interop import argos
from dragoman.interop.minisbd import SENTENCE_END
from dragoman.interop.verify import samples, verify
from dragoman.interop.vocabulary import empty_sentencepiece
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import END
from dragoman.pipeline.distil import student_settings
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.run import run
from dragoman.system.errors import DragomanError
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.settings import TrainingSettings
from dragoman.translation.model_folder import Tokenizers
from tests.conftest import MAX_SECONDS, write_copies
from tests.test_huggingface import SIZES, SOURCE, TARGET, ours

LANGUAGES = argos.ArgosLanguages("en", "de")
KINDS = {
    "one vocabulary": ModelSettings(**SIZES),
    "two, without END": ModelSettings(**SIZES, norm="pre", tied="target", source_end=False),
    "a student": student_settings(PRESETS["student"], ModelSettings(**SIZES)),
}
LINES = ["AMBER BIRCH CEDAR.", "HEATH GROVE EMBER DELTA.", "DELTA DELTA."]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run that has learnt to write capitals small, with subwords of each side."""
    folder = tmp_path_factory.mktemp("argos")
    target, source = write_copies(folder, "train", 200)
    for path in (source, target):
        path.write_text(path.read_text().replace("\n", ".\n"))
    recipe = Recipe(
        out=folder / "run",
        data=DataSettings(source=source, target=target),
        tokenizer=TokenizerSettings(vocabulary=290, share_vocabulary=False),
        model=ModelSettings(d_model=32, d_ff=64, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0),
        batches=BatchSettings(source_tokens_per_batch=400, target_tokens_per_batch=400),
        training=TrainingSettings(
            updates=300, warmup_steps=60, learning_rate_scale=0.5, validate_every=300, precision="float32"
        ),
    )
    run(recipe)
    return folder / "run"


@pytest.fixture(scope="module")
def package(trained, tmp_path_factory) -> Path:
    """The folder of the package that the command line has written."""
    folder = tmp_path_factory.mktemp("package")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, export(trained, folder / "it.argosmodel"))])
        from dragoman.cli import main

        main.main()
    with zipfile.ZipFile(folder / "it.argosmodel") as archive:
        archive.extractall(folder)
    return folder / "translate-en_pb-dragoman"


def export(trained, out, *options):
    """The arguments of the command."""
    languages = ["--source-language", "en-GB", "--target-language", "pt-BR"]
    return ["export", trained, "--to", "argos", "--out", out, *languages, *options]


def translate(package, sentence):
    """What Argos Translate does with a sentence, but with a beam of 1: a wider one ends by another rule."""
    import ctranslate2

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(package / "model"))
    [found] = translator.translate_batch(
        [pieces.encode(sentence, out_type=str)],
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=1,
    )
    return pieces.decode_pieces(found.hypotheses[0]).replace("▁", " ").replace("_", " ").removeprefix(" ")


def sentences(package, text):
    """What MiniSBD makes of a text without line ends."""
    session = onnxruntime.InferenceSession(str(package / "minisbd" / "rules.onnx"))
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["config"])["feat_funcs"] == []
    ids = json.loads(properties["vocab"])["_unit2id"]
    units = numpy.array([[*(ids.get(each, ids["<UNK>"]) for each in text), ids["<PAD>"]]])
    [scores] = session.run(None, {"units": units, "features": numpy.zeros((*units.shape, 0), numpy.float32)})
    tags = scores[0].argmax(1)
    assert scores.shape == (*units.shape, 5)
    ends = [place + 1 for place in range(len(text) - 1) if tags[place] == SENTENCE_END]
    return [text[begin:end].strip() for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@pytest.mark.long
def test_the_package_translates_as_we_do(trained, package):
    own = Translator.load(trained).translate(LINES, beam_size=1)
    assert len(set(own)) == len(LINES)
    assert [translate(package, line) for line in LINES] == own


@pytest.mark.long
def test_the_package_has_the_files_and_keys_of_the_program(package):
    assert {path.name for path in package.iterdir()} == {
        "README.md",
        "metadata.json",
        "minisbd",
        "model",
        "sentencepiece.model",
    }
    metadata = json.loads((package / "metadata.json").read_text())
    assert metadata["from_code"] == "en"
    assert metadata["from_name"] == "English"
    assert metadata["to_code"] == "pb"
    assert metadata["to_name"] == "Brazilian Portuguese"
    assert metadata["type"] == "translate"
    assert not (package / "model" / "source.spm").exists()


@pytest.mark.long
def test_the_archive_is_the_same_each_time_and_nothing_else_is_left(trained, tmp_path, command_line):
    for name in ("one", "two"):
        out = tmp_path / f"{name}.argosmodel"
        status, _, err = command_line(*export(trained, out, "--precision", "int8"))
        assert status == 0
        assert f"{out} can be read by: argostranslate.package.install_from_path" in err
    assert (tmp_path / "one.argosmodel").read_bytes() == (tmp_path / "two.argosmodel").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"one.argosmodel", "two.argosmodel"}


@pytest.mark.short_form(1)
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_token_of_a_translation_is_as_likely_there_as_here(kind, precision, tmp_path):
    model, tokenizers = ours(KINDS[kind])
    argos.write(model, tokenizers, tmp_path, LANGUAGES, precision)
    engine = argos.engine(tmp_path, model, tokenizers, LANGUAGES, precision)
    verify(engine, model, tokenizers, [*SOURCE, *samples(tokenizers)])


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "A man rides.| Two dogs play!| Really?| Yes",
        "Dr. Smith met J. R. Tolkien in the U.S. Army.| He left (at last.)| The end... of it.",
        "Am 3. Oktober, z. B. für 3.5 Euro.| „Ja!“| 5 Leute gingen.",
        "今天天气好。|我们走吧！|“好。”|他说",
        "क्या है।| हाँ।| ¿Qué?| ¡No!",
        "no end",
    ],
)
def test_a_sentence_ends_where_the_next_one_may_begin(text, package):
    assert sentences(package, text.replace("|", "")) == [part.strip() for part in text.split("|")]


ENDS_WITH_SPACE, ENDS_WITHOUT = ".!?…؟।", "。！？"
CLOSERS = ")]}\"'”’»›」』）“"


@pytest.mark.short_form(1)
@pytest.mark.parametrize("closer", ["", *CLOSERS])
def test_a_sentence_ends_after_the_marks_that_close_it(closer, package):
    for end in ENDS_WITH_SPACE:
        assert sentences(package, f"{closer}no end{end}{closer} Über uns") == [
            f"{closer}no end{end}{closer}",
            "Über uns",
        ]
        assert len(sentences(package, f"no end{end}{closer} und")) == 1
    if closer != "“":  # which opens the next sentence there
        for end in ENDS_WITHOUT:
            for after in ("他", "x", "A", "5"):
                assert sentences(package, f"好{end}{closer}{after}") == [f"好{end}{closer}", after]


LETTERS = st.characters(categories=["Ll"], max_codepoint=0x24F).filter(str.islower)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.characters(categories=["Lu"], max_codepoint=0x24F), st.text(LETTERS, max_size=4), st.booleans())
def test_a_short_title_ends_no_sentence_and_a_longer_word_does(package, capital, others, is_title):
    word = (capital if is_title else capital.lower()[:1]) + others
    ends = len(word) > (3 if is_title else 1)
    assert len(sentences(package, f"(the {word}. Smith")) == 1 + ends
    assert len(sentences(package, f"{word}. Smith")) == 1 + ends


def test_a_number_with_a_full_stop_ends_no_sentence_in_any_digits(package):
    for digits in ("3", "٣", "३", "12", "３"):
        assert len(sentences(package, f"am {digits}. Oktober")) == 1
    assert len(sentences(package, "ein Meter². Oktober")) == 2


def test_chinese_has_a_code_for_each_of_its_scripts():
    scripts = {"zh": ["zh", "zh-Hans", "zh-CN", "zh-SG"], "zt": ["zh-Hant", "zh-TW", "zh-HK", "zh-MO"]}
    for code, names in scripts.items():
        for name in names:
            for form in (name, name.lower(), name.upper()):
                assert argos.ArgosLanguages.of(form, "de") == argos.ArgosLanguages(code, "de")
                assert argos.ArgosLanguages.of("de", form) == argos.ArgosLanguages("de", code)


@given(st.text() | st.tuples(st.sampled_from(["de", "zh-TW", "pt-"]), st.text(max_size=4)).map("".join))
def test_a_code_is_two_or_three_letters_whatever_is_asked_for(code):
    """It becomes the name of a folder."""
    try:
        found = argos.argos_code("source", code)
    except DragomanError:
        return
    assert re.fullmatch("[a-z]{2,3}", found)


def test_languages_get_the_programs_codes_and_names():
    assert argos.ArgosLanguages.of("zh-Hant", "de-AT") == argos.ArgosLanguages("zt", "de")
    assert argos.ArgosLanguages.of("zh-Hant-TW", "de") == argos.ArgosLanguages("zt", "de")
    assert argos.ArgosLanguages.of("gsw", "xx").names == ("gsw", "xx")
    with pytest.raises(DragomanError, match="Argos Translate has to know the target language; give --target"):
        argos.ArgosLanguages.of("en", "und")
    with pytest.raises(
        DragomanError, match=r"--target-language is '\.\./de'; it has to be a code such as en"
    ):
        argos.ArgosLanguages.of("en", "../de")


@pytest.mark.parametrize(("kind", "told"), [("word", "words"), ("char", "characters"), ("byte", "bytes")])
def test_vocabularies_of_other_than_subwords_are_refused(kind, told):
    words = Tokenizer.train(TARGET, kind, TokenizerSettings(), 60)
    pieces = Tokenizer.train([*SOURCE, *TARGET] * 5, "bpe", TokenizerSettings(), 350)
    for side, sides in {"source": (words, pieces), "target": (pieces, words)}.items():
        with pytest.raises(
            DragomanError, match=f"{side} vocabulary is of {told}; train a model with --{side}-to"
        ):
            argos.refuse_other_than_subwords(Tokenizers(*sides))


def test_a_target_that_the_source_spells_otherwise_is_refused():
    plain = Tokenizer.train(SOURCE * 5, "unigram", TokenizerSettings(byte_fallback=False), 60)
    with_bytes = Tokenizer.train(TARGET * 5, "unigram", TokenizerSettings(), 320)
    with pytest.raises(DragomanError, match="where the target's token '<0x00>' is '<0x00>' and not "):
        argos.refuse_other_spelling(Tokenizers(plain, with_bytes))
    spelt = [token for token in range(END + 1, len(plain)) if plain.decode([token])]
    for place in (spelt[0], spelt[-1]):  # one token is enough, wherever it is
        model = empty_sentencepiece()
        model.ParseFromString(plain.model)
        model.pieces[place].type = model.SentencePiece.CONTROL  # which is not spelt
        with pytest.raises(DragomanError, match="where the target's token .* is '' and not "):
            argos.refuse_other_spelling(Tokenizers(Tokenizer(model.SerializeToString()), plain))
    argos.refuse_other_spelling(Tokenizers(plain, plain))


def test_an_archive_has_all_files_in_order_compressed_and_readable_by_everyone(tmp_path):
    contents = {"b/model.bin": bytes(5000), "a/z": b"z", "b/a/deep": b"", "README.md": "ä".encode()}
    for name, content in contents.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
        (tmp_path / "in" / name).chmod(0o600)
    argos.pack(tmp_path / "in", tmp_path / "it.argosmodel")
    with zipfile.ZipFile(tmp_path / "it.argosmodel") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == contents
        assert archive.namelist() == [
            path.relative_to(tmp_path / "in").as_posix()
            for path in sorted((tmp_path / "in").rglob("*"))
            if path.is_file()
        ]
        assert {(each.external_attr >> 16) & 0o777 for each in archive.infolist()} == {0o644}
    assert (tmp_path / "it.argosmodel").stat().st_size < 1000


def test_contradictions_are_told(trained, tmp_path, command_line):
    out = ["--out", tmp_path / "it.argosmodel"]
    for arguments, message in (
        (
            ["--to", "argos", *out],
            "Argos Translate has to know the source language; give --source-language",
        ),
        (
            ["--to", "onnx", *out, "--source-language", "en"],
            "--source-language is for --to argos, and not onnx; give that, or leave --source-language out.",
        ),
        (["--to", "argos", "--out", tmp_path / "it"], "for --to argos it is a name that ends in .argosmodel"),
    ):
        status, _, err = command_line("export", trained, *arguments)
        assert status == 2
        assert message in err
        assert not list(tmp_path.iterdir())


PROGRAM = """
import sys
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
languages = {language.code: language for language in translate.get_installed_languages()}
for line in sys.stdin:
    print(languages["en"].get_translation(languages["pb"]).translate(line.rstrip()))
"""


@pytest.mark.long
@pytest.mark.parametrize("fork", [False, True], ids=["argostranslate 1.11", "the fork of LibreTranslate"])
def test_the_program_itself_translates_as_we_do(fork, trained, tmp_path):
    """In an environment of its own, without network but for pip. argostranslate imports stanza, which needs
    torch and is not used: an empty module stands for it.
    """
    call_python([sys.executable, "-m", "venv", tmp_path / "venv"])
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet"]
    call_python([*pip, "argos-translate-lt==1.12.1"])
    if not fork:
        call_python([python, "-m", "pip", "uninstall", "--quiet", "--yes", "argos-translate-lt"])
        call_python([*pip, "--no-deps", "argostranslate==1.11.0"])
        (tmp_path / "stanza.py").touch()
    out = tmp_path / "it.argosmodel"
    call_python([sys.executable, "-m", "dragoman", *export(trained, out)])
    found = call_python(
        [python, "-c", PROGRAM, out], tmp_path, "\n".join([*LINES, " ".join(LINES), ""]) + "\n"
    )
    own = Translator.load(trained).translate(LINES)
    assert found.split("\n") == [*own, " ".join(own), "", ""]


def call_python(command, home=None, text=""):
    """Standard output of a command whose user has this home."""
    own = {"HOME": str(home), "PYTHONPATH": str(home), "ARGOS_COMPUTE_TYPE": "float32"} if home else {}
    found = subprocess.run(
        [str(part) for part in command],
        input=text,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        env={**os.environ, **own},
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout

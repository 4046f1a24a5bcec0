"""Distillation: the text that a teacher writes, what it depends on, and the student's recipe and sizes."""

import json
import re
import shutil
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from dragoman import Translator
from dragoman.cli import main as cli
from dragoman.cli.distil import candidates, plan
from dragoman.cli.train import recipe_of
from dragoman.evaluation.nearest import nearest
from dragoman.model.build import build_model
from dragoman.model.costs import count_parameters, multiply_adds_per_target_token
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline import distil
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.distil import DISTILLED, SCALED, Distillation, student_recipe, student_settings
from dragoman.pipeline.recipe import read_recipe
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.sampled_sentences import sample_sentences
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation import files
from dragoman.translation.model_folder import StoredModel, Tokenizers, save_model
from tests.conftest import write_copies
from tests.test_contract import LINES, save_random_model

TRAINING = ["--updates", 4, "--warmup-steps", 2, "--validate-every", 2, "--precision", "float32"]


@pytest.fixture(scope="module")
def teacher(trained):
    return trained / "run"


@pytest.fixture
def text(tmp_path):
    """Sentences, one of them blank, and their translations by people."""
    source, target = write_copies(tmp_path, "text", 20, seed=5)
    source.write_text(source.read_text() + "\namber birch\n")
    target.write_text(target.read_text() + "\nAMBER BIRCH\n")
    return source, target


def call(monkeypatch, capsys, *arguments):
    """Exit status and standard error of `dragoman distil ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["dragoman", "distil", *map(str, arguments)])
    status = 0
    try:
        cli.main()
    except SystemExit as ended:
        status = ended.code or 0
    captured = capsys.readouterr()
    return status, captured.err


def lines_of(path):
    return path.read_text("utf-8").splitlines()


# ---- the teacher's translations


@pytest.mark.parametrize("search", [SearchSettings(), SearchSettings(beam_size=1, max_length=3)])
def test_the_distilled_text_is_the_translation_of_each_line(search, teacher, text, tmp_path):
    distil.write_distilled(Distillation((teacher,), text[0], search=search), tmp_path / "out")
    found = lines_of(tmp_path / "out" / DISTILLED)
    assert found == Translator.load(teacher).translate(lines_of(text[0]), search)
    assert found[-2:] != ["", ""]
    assert len(found) == 22


def test_with_references_each_line_is_the_nearest_of_its_candidates(teacher, text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    search, source = SearchSettings(beam_size=4, n_best=4), lines_of(text[0])
    n_best = [[each.text for each in best] for best in Translator.load(teacher).n_best(source, search)]
    # An empty reference is near to no candidate: the first one is taken.
    wanted = [best[number % len(best)] or best[0] for number, best in enumerate(n_best)]
    text[1].write_text("".join(f"{line}\n" for line in wanted))
    distil.write_distilled(Distillation((teacher,), *text, search), tmp_path / "out")
    found = lines_of(tmp_path / "out" / DISTILLED)
    assert found == wanted
    assert found != [candidates[0] for candidates in n_best]


@pytest.mark.parametrize(
    ("candidates", "reference", "wanted"),
    [
        (["a dog", "the dog runs", "the dog ran"], "the dog ran away", 2),
        (["x", "y"], "", 0),
        (["equal", "equal"], "equal", 0),
        (["我喜欢狗", "我喜欢猫", "他走了"], "我喜欢猫。", 1),
    ],
)
def test_the_nearest_candidate_has_the_highest_sentence_bleu(candidates, reference, wanted):
    assert nearest(candidates, reference) == wanted


def test_interrupted_and_resumed_it_is_that_of_one_without_interruption(teacher, text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    asked = Distillation((teacher,), *text, SearchSettings(n_best=2))
    distil.write_distilled(asked, tmp_path / "whole")
    decode_line, read = distil.decode_line, []

    def interrupted(raw, path, number):
        if number == 10:
            raise KeyboardInterrupt
        return decode_line(raw, path, number)

    def watched(raw, path, number):
        read.append(number)
        return decode_line(raw, path, number)

    monkeypatch.setattr(distil, "decode_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        distil.write_distilled(asked, tmp_path / "out")
    assert not (tmp_path / "out" / DISTILLED).exists()
    monkeypatch.setattr(distil, "decode_line", watched)
    distil.write_distilled(asked, tmp_path / "out")
    assert read == list(range(9, 23))
    for name in (DISTILLED, f"{DISTILLED}.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_translations_of_another_search_or_text_are_not_mixed(teacher, text, tmp_path):
    out = tmp_path / "out"
    distil.write_distilled(Distillation((teacher,), text[0]), out)
    for change, name in (
        ({"search": SearchSettings(beam_size=2)}, "beam_size"),
        ({"text": text[1]}, "source"),
        ({"references": text[1], "search": SearchSettings(n_best=2)}, "references"),
        ({"precision": "int8"}, "precision"),
        ({"teachers": (teacher, teacher)}, "models"),
    ):
        with pytest.raises(DragomanError, match=f"was made with something else .*{name}"):
            distil.write_distilled(replace(Distillation((teacher,), text[0]), **change), out)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_teacher_computes_with_the_precision_that_is_asked_for(tmp_path, precision):
    save_random_model(tmp_path, "bpe", seed=5)
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in LINES))
    search = SearchSettings(beam_size=1, max_extra_tokens=4)
    asked, _ = plan({"run": tmp_path, "text": source, "teacher_precision": precision})
    distil.write_distilled(replace(asked, search=search), tmp_path / "out")
    found = lines_of(tmp_path / "out" / DISTILLED)
    one, other = (
        Translator.load(tmp_path, precision=each).translate(LINES, search) for each in ("float32", "int8")
    )
    assert one != other
    # Training refuses a NUL, which a byte of the vocabulary can be.
    wanted = {"float32": one, "int8": other}[precision]
    assert found == [line.replace("\0", "") for line in wanted]


@pytest.mark.parametrize("given", [*product((None, 3), (None, 5), (None, 1.0))])
def test_of_as_many_candidates_as_are_asked_for_or_eight_the_student_learns_one(given):
    """The number of the list counts before that of the beam; samples have no beam."""
    options = {
        name: value
        for name, value in zip(("n_best", "beam_size", "temperature"), given, strict=True)
        if value is not None
    }
    n_best, beam_size, temperature = given
    count = n_best or beam_size or 8
    found = candidates(options)
    assert found == {"n_best": count} | ({} if temperature else {"beam_size": count})


# ---- new sentences


def test_new_sentences_follow_the_text_and_have_no_reference(teacher, text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    search, sampled = SearchSettings(beam_size=2, n_best=2), sample_sentences(text[0], 7)
    source = [*lines_of(text[0]), *sampled]
    n_best = [[each.text for each in best] for best in Translator.load(teacher).n_best(source, search)]
    text[1].write_text("".join(f"{candidates[-1]}\n" for candidates in n_best[:22]))
    asked = Distillation((teacher,), *text, search, new_sentences=7)
    found = distil.write_distilled(asked, tmp_path / "out")
    assert lines_of(found) == source
    distilled = lines_of(tmp_path / "out" / DISTILLED)
    assert distilled == [best[-1] for best in n_best[:22]] + [best[0] for best in n_best[22:]]


def test_another_number_of_new_sentences_is_refused_and_nothing_replaced(teacher, text, tmp_path):
    out = tmp_path / "out"
    asked = Distillation((teacher,), text[0], new_sentences=5)
    sources = distil.write_distilled(asked, out)
    before = sources.read_bytes()
    assert distil.write_distilled(asked, out) == sources
    for number, message in (
        (3, f"sources.txt exists and does not consist of {text[0]} and 3 new sentences"),
        (0, "was made with something else .*new_sentences"),
    ):
        with pytest.raises(DragomanError, match=message):
            distil.write_distilled(replace(asked, new_sentences=number), out)
    assert sources.read_bytes() == before


def test_a_file_of_the_users_is_not_replaced_by_new_sentences(teacher, text, tmp_path):
    own = tmp_path / "sources.txt"
    own.write_bytes(text[0].read_bytes())
    with pytest.raises(DragomanError, match=r"sources.txt exists and does not consist of"):
        distil.write_distilled(Distillation((teacher,), own, new_sentences=5), tmp_path)
    assert own.read_bytes() == text[0].read_bytes()


def test_a_student_of_new_sentences_trains_and_has_nothing_left(teacher, text, tmp_path, monkeypatch, capsys):
    source = text[0].rename(text[0].with_suffix(".en"))
    asked = teacher, "--data", source, "--new-sentences", 8, "--out", tmp_path / "student", *TRAINING
    status, said = call(monkeypatch, capsys, *asked)
    assert status == 0, said
    assert "and 8 new sentences." in said
    assert "Text: 30 pairs" in said
    recipe = read_recipe(tmp_path / "student")
    assert (recipe.data.source, recipe.data.languages.source) == (tmp_path / "student" / "sources.txt", "en")
    assert "is finished." in call(monkeypatch, capsys, *asked)[1]


# ---- the student


def test_the_same_command_trains_then_has_nothing_left(teacher, text, tmp_path, monkeypatch, capsys):
    asked = teacher, "--data", text[0], "--out", tmp_path / "student", *TRAINING
    status, said = call(monkeypatch, capsys, *asked)
    assert status == 0, said
    assert "The teacher translates" in said
    stored, own = StoredModel.load(tmp_path / "student"), StoredModel.load(teacher)
    assert stored.tokenizers == own.tokenizers
    assert stored.settings == student_settings(PRESETS["student"], own.settings)
    assert (stored.settings.encoder_layers, stored.settings.decoder_layers) == (6, 2)
    for name in ("valid.source.txt", "valid.target.txt"):
        assert (tmp_path / "student" / "data" / name).read_bytes() == (teacher / "data" / name).read_bytes()
    assert len(Translator.load(tmp_path / "student").translate(["amber", "birch"])) == 2
    status, said = call(monkeypatch, capsys, *asked)
    assert status == 0
    assert "is complete already; nothing was translated." in said
    assert "is finished. To train it further: dragoman train" in said
    status, said = call(monkeypatch, capsys, *asked, "--beam-size", "2")
    assert status == 2
    assert "student is trained on other translations (changed: --beam-size); give another --out, or" in said


def test_validation_text_in_one_file_replaces_the_teachers_two(teacher, text, tmp_path, monkeypatch, capsys):
    (tmp_path / "v.tsv").write_text("amber\tAMBER\nbirch\tBIRCH\n")
    asked = teacher, "--data", text[0], "--out", tmp_path / "student", "--valid-source", tmp_path / "v.tsv"
    status, said = call(monkeypatch, capsys, *asked, *TRAINING)
    assert status == 0, said
    assert (tmp_path / "student" / "data" / "valid.source.txt").read_text() == "amber\nbirch\n"


def test_the_folder_of_a_model_in_a_run_is_that_run(teacher, text):
    recipe, other = (plan({"run": run, "text": text[0]})[1] for run in (teacher, teacher / "model"))
    assert recipe == other
    assert recipe.data.valid_source is not None


@pytest.mark.long
def test_the_students_scores_stand_beside_its_teachers(trained, teacher, text, tmp_path, monkeypatch, capsys):
    own = tmp_path / "teacher"
    shutil.copytree(teacher, own)
    for side in ("source", "target"):
        shutil.copy(trained / f"test.{side}", own / "data" / f"test.{side}.txt")
    result = json.loads((own / "result.json").read_text())
    result["test"] = [{"name": "BLEU", "value": 12.34, "signature": ""}]
    (own / "result.json").write_text(json.dumps(result))
    status, said = call(monkeypatch, capsys, own, "--data", text[0], "--preset", "tiny", *TRAINING)
    assert status == 0, said
    assert f"The student's folder is {tmp_path / 'teacher-tiny'}; --out names another one." in said
    assert "Test: BLEU = " in said
    assert "The teacher's test: BLEU = 12.34" in said


@pytest.mark.parametrize(("folder", "run"), [("", "."), ("model", "..")])
def test_the_students_folder_is_beside_a_teacher_in_the_current_folder(
    folder, run, teacher, text, monkeypatch
):
    monkeypatch.chdir(teacher / folder)
    _, recipe = plan({"run": Path(run), "text": text[0]})
    assert recipe.out == teacher.with_name("run-student").resolve()


@pytest.mark.parametrize(("preset", "teacher"), [*product(SCALED, ("tiny", "small", "base", "big", "rnn"))])
def test_widths_are_in_proportion_to_those_of_the_teacher(preset, teacher):
    student, settings = PRESETS[preset], PRESETS[teacher]
    found = student_settings(student, settings)
    scale = settings.d_model / PRESETS["base"].d_model
    for name in ("d_model", "d_ff", "decoder_d_ff"):
        assert (getattr(found, name) or 0) == (getattr(student, name) or 0) * scale
    assert found.key_width * found.heads == found.d_model
    if settings.architecture == "transformer":
        assert 2 * count_parameters(found, 7000, 7000) < count_parameters(settings, 7000, 7000)
        costs = [multiply_adds_per_target_token(each, 7000, 20) for each in (found, settings)]
        assert 2 * costs[0] < costs[1]


def test_the_sizes_of_students_are_those_of_the_page():
    text = (Path(__file__).parents[1] / "docs" / "distil.md").read_text("utf-8")
    rows = [re.findall(r"[^|]+", line) for line in text.splitlines() if re.match(r"\| `(student|tiny)", line)]
    layers = {}
    for names, sizes, *_ in rows:
        pairs = [(int(one), int(other)) for one, other in re.findall(r"(\d+) \+ (\d+)", sizes)]
        layers |= dict(zip(re.findall("`([a-z-]+)`", names), pairs, strict=True))
    assert len(layers) == 5
    for name, pair in layers.items():
        assert (PRESETS[name].encoder_layers, PRESETS[name].decoder_layers) == pair
    base, student, smallest = (PRESETS[name] for name in ("base", "student", "student-tiny"))
    assert (student.d_model, student.d_ff) == (base.d_model // 2, base.d_ff // 2)
    assert student.decoder_d_ff == student.d_ff // 4
    assert (smallest.d_model, smallest.d_ff) == (base.d_model * 3 // 8, base.d_model * 3 // 8 * 2)


def test_a_width_that_the_heads_would_not_divide_is_rounded():
    found = student_settings(PRESETS["student"], ModelSettings(d_model=30, heads=4, d_k=5, d_ff=7))
    assert (found.d_model, found.key_width) == (16, 4)


def test_a_teacher_of_two_vocabularies_has_a_student_of_two(teacher, tmp_path):
    lines = ["a b c d", "b c d e"]
    settings = TokenizerSettings(source_tokens="word")
    one, other = (Tokenizer.train([line], "word", settings, 20) for line in lines)
    model = ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1, tied="target")
    built = build_model(model, len(one), len(other))
    save_model(tmp_path / "model", built, model, Tokenizers(one, other))
    recipe = student_recipe(tmp_path / "model", tmp_path / "text", tmp_path / "out", "student")
    assert (recipe.tokenizer.share_vocabulary, recipe.model.tied) == (False, "target")
    assert recipe.data.files.keys() == {"source", "target"}


def test_a_students_pairs_leave_out_what_the_teacher_is_validated_on(teacher):
    recipe = student_recipe(teacher, teacher / "text", teacher / "out", "student-tiny")
    assert recipe.data.valid_source == teacher / "data" / "valid.source.txt"
    assert recipe.data.drop_overlap
    assert recipe.tokenizer.of_model == teacher
    kept = read_recipe(teacher).tokenizer
    assert (recipe.tokenizer.source_tokens, recipe.tokenizer.byte_fallback) == (
        kept.source_tokens,
        kept.byte_fallback,
    )


@pytest.mark.long
def test_a_student_learns_a_vocabulary_of_the_given_size(teacher, text, tmp_path, monkeypatch, capsys):
    asked = teacher, "--data", text[0], "--vocabulary", 12, "--out", tmp_path / "student", *TRAINING
    status, said = call(monkeypatch, capsys, *asked)
    assert status == 0, said
    assert "is finished." in call(monkeypatch, capsys, *asked)[1]
    own, before = (StoredModel.load(path).tokenizers.source for path in (tmp_path / "student", teacher))
    assert len(own) == 12 < len(before)


@pytest.mark.parametrize("own", [None, "other"])
def test_the_teachers_scores_are_told_if_they_are_of_the_same_test_data(teacher, tmp_path, own, messages):
    shutil.copytree(teacher, tmp_path / "teacher")
    shutil.copy(teacher / "data" / "valid.source.txt", tmp_path / "teacher" / "data" / "test.source.txt")
    recipe = student_recipe(tmp_path / "teacher", tmp_path / "text", tmp_path / "out", "student")
    if own:
        recipe = replace(recipe, data=replace(recipe.data, test_source=tmp_path / own))
    distil.report_teacher_scores(tmp_path / "teacher", recipe)
    assert bool(messages) == (own is None)


# ---- what is refused


@pytest.mark.parametrize(
    "options",
    [
        {"valid_source": Path("v.de"), "valid_target": Path("v.en")},
        {"test_source": Path("t.de"), "test_target": Path("t.en")},
        {"architecture": "lstm"},
        {"input_feeding": True},
        {"preset": "base", "architecture": "lstm", "heads": 2},
        {"preset": "base", "architecture": "conv", "d_ff": 8},
        {"guided_alignment_weight": 0.5},
    ],
    ids=" ".join,
)
def test_a_student_is_refused_what_training_refuses(teacher, text, tmp_path, options):
    languages = {"source_language": "en", "target_language": "de"}
    asked = {"files": text, "out": tmp_path / "out", "preset": "student", **languages, **options}
    with pytest.raises(DragomanError) as of_training:
        refuse_swapped(recipe_of(asked))
    with pytest.raises(DragomanError) as of_distillation:
        plan({"run": teacher, "text": text[0], "out": tmp_path / "out", **languages, **options})
    assert str(of_distillation.value) == str(of_training.value)


def another_teacher(folder):
    """A random model with a vocabulary of its own."""
    settings = TokenizerSettings(source_tokens="word")
    tokenizer = Tokenizer.train(["one two three"], "word", settings, 20)
    model = ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1)
    torch.manual_seed(0)
    save_model(
        folder, build_model(model, len(tokenizer), len(tokenizer)), model, Tokenizers(tokenizer, tokenizer)
    )


def test_a_text_in_another_language_than_the_teachers_is_refused():
    for name in ("train.en", "train.en.gz", "train.txt"):
        distil.refuse_language(Path(name), Languages("en-GB", "de"))
    distil.refuse_language(Path("train.de"), Languages())
    with pytest.raises(
        DragomanError, match=r"train.de is in de, and the teacher translates from en. Give a text"
    ):
        distil.refuse_language(Path("train.de"), Languages("en", "de"))


@pytest.mark.short_form(9)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TEACHER --data TEXT --ensemble OTHER", "vocabular"),
        ("FOLDER/untrained --data TEXT", "untrained holds no model. Train one with:"),
        ("FOLDER/nothing --data TEXT", "There is no folder FOLDER/nothing."),
        ("TEACHER --data FOLDER/nothing", "source is FOLDER/nothing, and there is no such file."),
        ("TEACHER", "--data"),
        ("TEACHER --data TEXT --out TEACHER", "TEACHER holds a run without distilled.txt; choose"),
        ("TEACHER --data TEXT --references SHORT", "has 22 lines and SHORT has 1. Line n of one"),
        ("TEACHER --data TEXT --references TEXT --n-best 1", "ask for several candidates, --n-best 4"),
        ("TEACHER --data TEXT --n-best 2", "--n-best is 2, and the student learns one translation of each"),
        (
            "TEACHER --data TEXT --valid-source TEXT",
            "There is only --valid-source; give --valid-source and --valid-t",
        ),
        (
            "TEACHER --data TEXT --valid-source TEXT --valid-target SHORT",
            "22 lines and SHORT has 1. Line",
        ),
        ("TEACHER --data TEXT --out SHORT", "SHORT is a file, and the student needs a folder; choose"),
        (
            "TEACHER --data TEXT --new-sentences 90000",
            "new sentences could be made, and 90,000 were asked for.",
        ),
        (
            "BARE --data TEXT --new-sentences 5",
            "The teacher has no validation text, and new sentenc",
        ),
        ("TEACHER --data TEXT --new-sentences -1", "--new-sentences is -1; it must be at least 0."),
        ("TEACHER --data TEXT --preset big", "--preset is 'big'; it has to be one of student, student-t"),
        ("TEACHER --data TEXT --vocabulary 4", "--vocabulary is 4; it must be at least 5."),
        ("TEACHER --data FOLDER/a.tmx", "a.tmx has both sides of a corpus, and text of one language is read"),
        ("TEACHER --data TEXT --references FOLDER/a.tsv", "a.tsv has both sides of a corpus, and text of"),
        ("TEACHER --data BINARY", "binary, line 1, byte 1: not UTF-8"),
        ("TEACHER --data TEXT --decoder-d-ff 0", "--decoder-d-ff is 0; it must be at least 1."),
        ("TEACHER --data TEXT --heads 5", "does not divide into 5 heads"),
        ("TEACHER --data TEXT --references TEXT --mbr --temperature 1", "and with --mbr another one"),
        ("TEACHER --data TEXT --test-source FOLDER/t.gz", "There is only --test-source; give --test-source"),
        ("TEACHER --data TEXT --valid-target FOLDER/v", "There is only --valid-target; give --valid-source"),
        (
            "TEACHER --data TEXT --out TEACHER/model",
            "whose files manifest.json lists, and another file would",
        ),
        ("TEACHER --data TEXT --out FOLDER/project", "project is not a run, and it has data, which a run"),
    ],
)
def test_wrong_input_gets_a_sentence(arguments, message, teacher, text, tmp_path, monkeypatch, capsys):
    (tmp_path / "untrained").mkdir()
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "short").write_text("ONE\n")
    (tmp_path / "binary").write_bytes(b"\xff\n")
    another_teacher(tmp_path / "other")
    shutil.copytree(teacher / "model", tmp_path / "bare")
    paths = {name.upper(): str(tmp_path / name) for name in ("other", "short", "binary", "bare")}
    paths |= {"TEACHER": str(teacher), "TEXT": str(text[0]), "FOLDER": str(tmp_path)}
    for name, path in paths.items():
        arguments, message = arguments.replace(name, path), message.replace(name, path)
    out = [] if "--out" in arguments else ["--out", tmp_path / "out"]
    status, said = call(monkeypatch, capsys, *arguments.split(), *out)
    assert status == 2
    assert message in said
    assert not (tmp_path / "out").exists()


def test_several_processes_are_refused(teacher, text, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    status, said = call(monkeypatch, capsys, teacher, "--data", text[0])
    assert status == 2
    assert "distil works in one process, and torchrun has started 2." in said

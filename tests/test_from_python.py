"""Python as programs use it: training, what is refused, and what a call leaves as it was."""

import copy
import inspect as python_inspect
import json
import math
import os
import pickle
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import dragoman
from dragoman import DragomanError, Run, Translator, resume, train
from dragoman.evaluation.measures import evaluate
from dragoman.evaluation.metrics import bleu
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.advice import advise, nll_of_frequencies
from dragoman.pipeline.from_python import recipe_table
from dragoman.pipeline.pairs import files_of, texts_of, write_pairs
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.run import run
from dragoman.search.attention_weights import cross_attention_modules, record_attention
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import NonFiniteError
from dragoman.system.machine import shared_property
from dragoman.system.messages import messages_to, silent
from dragoman.system.toml import overlay, read_toml
from dragoman.text.lines import read_pairs
from dragoman.text.settings import DataSettings, Languages, TokenizerSettings, WeightedCorpus
from dragoman.training.context import DivergenceError
from dragoman.training.interrupt import TrainingInterruptedError
from dragoman.training.settings import TrainingSettings
from dragoman.translation.files import translate_file
from dragoman.translation.torch_backend import in_threads
from tests.conftest import MAX_SECONDS, small_recipe, write_copies

SIZES = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
LINES = ["a b", "c d e"]
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord"]


@pytest.fixture(scope="module")
def folder(trained):
    """The run of the session's model."""
    return trained / "run"


def table(folder, **others):
    """A recipe of the texts in a folder, as a file has it."""
    small_recipe(folder, folder / "run")  # writes the texts
    data = {"source": str(folder / "train.source"), "target": str(folder / "train.target")}
    training = {"updates": 4, "warmup_steps": 2, "validate_every": 2}
    made = {"out": str(folder / "run"), "preset": "tiny", "data": data, "model": SIZES, "training": training}
    return made | {"tokenizer": {"vocabulary": 300}} | others


# ---- training


def test_a_table_trains_what_a_recipe_of_the_same_settings_trains(tmp_path):
    said = []
    out = train(table(tmp_path), said.append)
    assert out == Run(tmp_path / "run")
    assert any(sentence.startswith("Trained for 4 updates") for sentence in said)
    recorded = overlay(Recipe(), read_toml(out.folder / "recipe.toml"), "recipe")
    run(replace(recorded, out=tmp_path / "other"))
    one, other = (
        load_file(each / "model" / "model.safetensors") for each in (out.folder, tmp_path / "other")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert resume(out, said.append) == out
    assert said[-1].startswith(f"{out.folder} is finished.")


PAIRS = [(f"{word} {other}", f"{word.upper()} {other.upper()}") for word in WORDS for other in WORDS]


def rows_of(make):
    """The pairs as a program has them."""
    return {"generator": iter, "lists": lambda pairs: map(list, pairs), "array": np.array}[make](PAIRS)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("make", ["generator", "lists", "array"])
def test_pairs_train_what_their_files_train(tmp_path, make):
    recipe = table(tmp_path)
    sides = zip(*PAIRS, strict=True)
    for side, lines in zip(("source", "target"), sides, strict=True):
        Path(recipe["data"][side]).write_text("".join(f"{line}\n" for line in lines))
    by_files = train(recipe, silent)
    settings = {name: value for name, value in recipe.items() if name not in {"data", "out"}}
    by_pairs = train(settings, silent, pairs=rows_of(make), out=tmp_path / "pairs")
    one, other = (load_file(run.folder / "model" / "model.safetensors") for run in (by_files, by_pairs))
    assert all(torch.equal(one[name], other[name]) for name in one)
    said = []
    assert train(settings, said.append, pairs=PAIRS, out=str(tmp_path / "pairs")) == by_pairs
    assert said[-1].startswith(f"{by_pairs.folder} is finished.")
    for others in (PAIRS[:-1], PAIRS[::-1]):
        with pytest.raises(DragomanError, match="has other pairs; choose another out, or delete the run"):
            train(settings, silent, pairs=others, out=tmp_path / "pairs")


def test_a_run_has_its_history_its_scores_and_a_translator(folder, trained):
    made = Run(folder)
    assert made.result == read_run_result(folder)
    assert made.history == [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    pairs = list(read_pairs(trained / "test.source", trained / "test.target"))
    sources, references = map(list, zip(*pairs, strict=True))
    translations = Translator.load(made).translate(sources)
    assert made.translator.translate(sources) == translations
    scores = made.evaluate(iter(pairs))
    assert scores == evaluate(translations, references)
    assert made.evaluate(pairs, beam_size=1, max_length=1) != scores
    with pytest.raises(DragomanError, match="There is nothing to score"):
        made.evaluate([])


def test_a_run_is_scored_on_pairs_in_the_forms_that_train_one(folder, trained):
    pd = pytest.importorskip("pandas", reason="pandas is missing: pip install pandas")
    made, pairs = Run(folder), list(read_pairs(trained / "test.source", trained / "test.target"))[:3]
    scores = made.evaluate(pairs)
    sources, references = map(list, zip(*pairs, strict=True))
    columns = {"source": sources, "target": references}
    rows = [dict(zip(columns, pair, strict=True)) for pair in pairs]
    for form in (rows, np.array(pairs), pd.DataFrame(columns), [{"translation": row} for row in rows]):
        assert made.evaluate(form) == scores
    for wrong in (pd.DataFrame({"a": sources, "b": references}), ["ab"], [("a", "b", "c")], None, ("a", "b")):
        with pytest.raises(DragomanError):
            made.evaluate(wrong)


@pytest.mark.long
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=5))
def test_each_pair_has_a_line_in_both_files_with_its_words(pairs):
    with TemporaryDirectory() as name:
        paths = write_pairs(texts_of(pairs, (None, None)), Path(name) / "pairs")
        written = [path.read_bytes().decode().removesuffix("\n").split("\n") for path in paths]
        assert [[line.split() for line in side] for side in written] == [
            [text.split() for text in side] for side in zip(*pairs, strict=True)
        ]
        assert write_pairs(texts_of(iter(pairs), (None, None)), Path(name) / "pairs") == paths
        assert list(texts_of(pairs, (None, None))) == pairs


def test_a_call_that_was_refused_leaves_no_pairs_that_others_have_to_agree_with(tmp_path):
    recipe = {name: value for name, value in table(tmp_path).items() if name not in {"data", "out"}}
    for wrong in ({"no_key": 1}, {"tokenizer": {"vocabulary": 5}}):  # before the preparation, and in it
        with pytest.raises(DragomanError):
            train(recipe | wrong, silent, pairs=PAIRS[1:], out=tmp_path / "pairs")
    with pytest.raises(DragomanError, match="pairs is empty"):
        train(recipe, silent, pairs=iter([]), out=tmp_path / "pairs")
    made = train(recipe, silent, pairs=PAIRS, out=tmp_path / "pairs")
    assert list(read_pairs(*sorted((made.folder / "pairs").iterdir()))) == PAIRS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"recipe": PAIRS}, "recipe is a list; .* train\\(pairs="),
        ({"recipe": None}, "recipe is a NoneType"),
        ({"say": PAIRS}, "say is a list; it has to be a function"),
        ({"say": None}, "say is a NoneType"),
        ({"on_event": 3}, "on_event is a int; it has to be a function"),
        (
            {"recipe": "tiny"},
            r"no recipe's file tiny\. A preset stands in a table: train\(\{'preset': 'tiny'\}",
        ),
        ({"source_language": "en"}, "There is no text to train on: give pairs, or files"),
    ],
)
def test_what_is_given_in_the_place_of_another_argument_is_refused(tmp_path, wrong, message):
    with pytest.raises(DragomanError, match=message):
        train(**({"recipe": {}} | wrong), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        "ab",
        b"ab",
        ("a",),
        ("a", "b", "c"),
        ("a", 1),
        {"source": "a", "target": None},
        {"a"},
        3,
        ("a", "\ud800"),
    ],
)
def test_what_is_not_a_pair_of_texts_is_refused_with_its_number(tmp_path, wrong):
    with pytest.raises(DragomanError, match=r"Pair 1 \(counted from 0\) "):
        train({}, silent, pairs=[("a", "b"), wrong], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


COLUMNS = st.sampled_from(["source", "target", "en", "de", "id"])


LANGUAGES = st.sampled_from(
    [(None, None), ("en", "de"), ("de", "en"), ("en", None), ("en", "en"), ("fr", "de")]
)


@pytest.mark.short_form(3)
@pytest.mark.parametrize("form", ["records", "translation", "pandas", "polars"])
@settings(max_examples=25)
@given(names=st.lists(COLUMNS, unique=True), languages=LANGUAGES)
def test_columns_are_those_of_the_languages_or_source_and_target_and_else_refused(form, names, languages):
    rows = [{name: f"{name} {number}" for name in names} for number in range(3)]
    if form == "translation":
        given = iter([{"translation": row, "id": 1} for row in rows])
    elif form == "records":
        given = rows
    else:
        frames = pytest.importorskip(form, reason=f"{form} is missing: pip install {form}")
        given = frames.DataFrame({name: [row[name] for row in rows] for name in names})
    choices = (languages, ("source", "target"))
    clear = [sides for sides in choices if {*sides} <= {*names} and len({*sides}) == 2]
    if clear:
        assert list(texts_of(given, languages)) == [tuple(row[side] for side in clear[0]) for row in rows]
    else:
        with pytest.raises(DragomanError, match=r"which of them are the source and the target is not clear"):
            list(texts_of(given, languages))


@pytest.mark.parametrize("wrong", [{"train": PAIRS}, {"en": ["a"], "de": ["b"]}, 3, None])
def test_what_has_no_rows_is_refused(wrong):
    with pytest.raises(DragomanError, match=r"pairs is a (dict|int|NoneType)"):
        list(texts_of(wrong, ("en", "de")))


def test_files_stay_where_they_are(tmp_path):
    assert files_of("corpus.tmx", (None, None), None) == {"source": "corpus.tmx"}
    both = files_of((tmp_path / "a.en", "a.de"), (None, None), None)
    assert both == {"source": str(tmp_path / "a.en"), "target": "a.de"}


def test_records_train_in_their_languages(tmp_path):
    rows = [{"translation": {"de": target, "en": source}} for source, target in PAIRS]
    recipe = {name: value for name, value in table(tmp_path).items() if name not in {"data", "out"}}
    languages = {"source_language": "en", "target_language": "de"}
    made = train(recipe, silent, pairs=iter(rows), out=tmp_path / "records", **languages)
    assert list(read_pairs(*sorted((made.folder / "pairs").iterdir()))) == PAIRS
    assert made.translator.languages == Languages("en", "de")


# ---- events


def test_a_function_is_told_of_each_event_of_the_log(tmp_path):
    events = []
    made = train(table(tmp_path), silent, on_event=events.append)
    assert events == made.history
    assert {event["event"] for event in events} == {"train", "validation"}
    resume(made, silent, on_event=events.append)
    assert events == made.history


@pytest.mark.short_form(1)
@pytest.mark.parametrize("minutes", [None, 60])
def test_a_function_ends_the_training_and_the_run_is_finished(tmp_path, minutes):
    recipe, seen, said = table(tmp_path), [], []
    recipe["training"] = {"validate_every": 2, "warmup_steps": 2} | ({} if minutes else {"updates": 1000})

    def until_second_validation(event):
        seen.append(event)
        if [one["event"] for one in seen].count("validation") == 2:
            raise StopIteration

    made = train(recipe, said.append, minutes=minutes, on_event=until_second_validation)
    assert made.result.updates == 4
    assert "Ended after update 4, as the program asked." in said
    assert made.translator.translate("amber", max_extra_tokens=2) is not None
    recipe["training"] |= {"updates": 6}
    assert train(recipe, silent).result.updates == 6


def test_other_exceptions_arrive_and_the_run_can_be_resumed(tmp_path):
    class OwnError(Exception):
        pass

    def fail(event):
        raise OwnError

    with pytest.raises(OwnError):
        train(table(tmp_path), silent, on_event=fail)
    assert resume(tmp_path / "run", silent).result.updates == 4


def test_pairs_need_a_folder(tmp_path):
    with pytest.raises(DragomanError, match="Pairs are kept in the run's folder; name it with out"):
        train({}, silent, pairs=PAIRS)


@pytest.mark.long
def test_minutes_are_those_of_the_recipe(tmp_path):
    recipe = table(tmp_path)
    del recipe["training"]["updates"]
    made = train(recipe, silent, minutes=0.02)
    assert read_toml(made.folder / "recipe.toml")["training"]["minutes"] == 0.02


@pytest.mark.long
def test_a_run_that_was_moved_is_trained_further_where_it_is(tmp_path):
    train(table(tmp_path), silent).folder.rename(tmp_path / "moved")
    path, said = tmp_path / "moved" / "recipe.toml", []
    assert train(path, said.append) == Run(tmp_path / "moved")
    assert said[-1].startswith(f"{tmp_path / 'moved'} is finished.")
    longer = read_toml(path)
    longer["training"]["updates"] = 6
    train(longer | {"out": str(tmp_path / "moved")}, said.append)
    assert any(sentence.startswith("Trained for 6 updates") for sentence in said)
    assert said[-1].startswith("The model has not learned to translate")
    assert not (tmp_path / "run").exists()


def test_a_preset_of_other_sizes_than_the_model_is_refused(tmp_path):
    data = DataSettings(source=tmp_path / "a", target=tmp_path / "b")
    recipe = Recipe(out=tmp_path / "run", preset="tiny", data=data)
    with pytest.raises(DragomanError, match="The preset is tiny, but the model is base; use "):
        run(recipe)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"preset": "huge"}, "recipe: preset is 'huge'; it has to be one of"),
        ({"data": {"sorce": "a"}}, r"recipe \[data\]: there is no key 'sorce'\. Did you mean 'source'\?"),
        ({"out": "."}, "A run needs its own folder"),
    ],
)
def test_wrong_tables_get_a_sentence(tmp_path, others, message):
    with pytest.raises(DragomanError, match=message):
        train(table(tmp_path) | others, silent)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(DragomanError, match=r"is not a run: there is no .*recipe\.toml.*train again with"):
        resume(tmp_path)


@pytest.mark.parametrize("name", ["recipe.toml", "./recipe.toml", "../run/recipe.toml", "{0}/recipe.toml"])
def test_the_recipe_of_a_run_names_its_folder_wherever_it_is_read(folder, tmp_path, monkeypatch, name):
    shutil.copytree(folder, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    out = Path(recipe_table(Path(name.format(tmp_path / "run")))["out"])
    assert (out.resolve(), out != Path()) == ((tmp_path / "run").resolve(), True)


def test_a_run_is_resumed_in_its_own_folder(tmp_path, monkeypatch):
    out, said = train(table(tmp_path), silent), []
    monkeypatch.chdir(out)
    resume(".", said.append)
    assert said[0].startswith(f"{out.folder} is finished.")


def test_a_model_that_has_learned_nothing_is_named(tmp_path):
    said = []
    out = train(table(tmp_path), said.append)
    data = PreparedData.load(out.folder / "data")
    found = nll_of_frequencies(data.train, data.valid, len(data.tokenizers.target))
    assert 0 < found < torch.tensor(float(len(data.tokenizers.target))).log() + 1
    assert said[-1].startswith("The model has not learned to translate. The frequencies of the tokens")
    assert f"{found:.2f} nats per token" in said[-1]


def test_the_frequencies_of_tokens_are_those_of_training_with_one_more_each_and_ends(folder):
    data = PreparedData.load(folder / "data")
    size = len(data.tokenizers.target)
    train, valid = (
        Counter(token for number in range(len(corpus)) for token in [*corpus[number][1].tolist(), END])
        for corpus in (data.train, data.valid)
    )
    total = train.total() + size
    expected = -sum(count * math.log((train[token] + 1) / total) for token, count in valid.items())
    found = nll_of_frequencies(data.train, data.valid, size)
    assert found == pytest.approx(expected / valid.total(), rel=1e-9)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("unknown", [(8, 8), (0, 1), (1, 0)])
def test_unknown_tokens_are_counted(tmp_path, unknown):
    """Also one in a sentence of eight on one side alone."""
    write_copies(tmp_path, "train", 200)
    for side, text, count in zip(("source", "target"), ("amber birch", "AMBER BIRCH"), unknown, strict=True):
        lines = [f"{text} new"] * count + [f"{text} {text}"] * (8 - count)
        (tmp_path / f"valid.{side}").write_text("".join(f"{line}\n" for line in lines))
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=2)
    data = replace(
        recipe.data, valid_source=tmp_path / "valid.source", valid_target=tmp_path / "valid.target"
    )
    said = []
    run(replace(recipe, data=data))
    with messages_to(said.append):
        advise(tmp_path / "run")
    shares = [count / (3 * count + 4 * (8 - count)) for count in unknown]
    expected = f"Of the validation tokens, {shares[0]:.1%} of the source and {shares[1]:.1%} of the target"
    assert said[-1].startswith(expected)


def test_a_model_that_has_learned_is_not(folder, messages):
    advise(folder)
    assert messages == []


def test_a_folder_that_holds_runs_is_no_folder_for_one(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "runs" / "one", updates=4)
    run(recipe)
    with pytest.raises(DragomanError, match=r"runs is not a run, and it has one, which a run would damage"):
        run(replace(recipe, out=tmp_path / "runs"))


# ---- wrong types


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelSettings(norm="Pre"), "norm is 'Pre'; it has to be one of 'post', 'pre'"),
        (lambda: ModelSettings(d_model="16"), "d_model is '16'; it has to be a whole number"),
        (lambda: TrainingSettings(precision="fp16"), "precision is 'fp16'; it has to be one of"),
        (lambda: TokenizerSettings(source_tokens="wordpiece"), "source_tokens is 'wordpiece'"),
        (lambda: DataSettings(corpus=(3,)), "corpus is .*; it has to be"),
        (lambda: SearchSettings(beam_size=1.5), r"beam_size is 1\.5; it has to be a whole number"),
        (lambda: EngineSettings(device=torch.device("cpu")), "device is device.*; it has to be a text"),
    ],
)
def test_settings_of_wrong_types_are_refused(make, message):
    with pytest.raises(DragomanError, match=message):
        make()


WRONG = [object(), b"amber", np.array([1, 2]), {"a": {"b"}}, len]
"""Of a wrong type for every argument but a function."""
REQUIRED = {
    "hypotheses": LINES, "references": LINES, "texts": LINES, "text": "a", "sentence": "a", "source": "a",
    "target": "A", "count": 1, "pairs": [("a b", "A B")], "to": "onnx",
}  # fmt: skip
"""Arguments that the others need."""
FUNCTIONS = {
    "train": train, "resume": resume, "load": dragoman.load, "evaluate": evaluate, "Run": Run,
    "Translator.load": Translator.load,
}  # fmt: skip
METHODS = {
    Run: ("evaluate", "export"),
    Translator: (
        "translate", "n_best", "translate_iterable", "stream", "trace", "alternatives", "score", "align",
        "attention", "count_long_sentences", "save",
    ),
}  # fmt: skip


def arguments_of(function):
    """The names of its arguments, without options of a search."""
    parameters = python_inspect.signature(function).parameters
    kinds = python_inspect.Parameter.VAR_KEYWORD, python_inspect.Parameter.VAR_POSITIONAL
    return [name for name, each in parameters.items() if each.kind not in kinds and name != "self"]


CALLS = [
    (name, FUNCTIONS[name], argument) for name in FUNCTIONS for argument in arguments_of(FUNCTIONS[name])
]
CALLS += [
    (f"{kind.__name__}.{name}", getattr(kind, name), argument)
    for kind, names in METHODS.items()
    for name in names
    for argument in arguments_of(getattr(kind, name))
]


def first_of(made):
    """The first item of an iterator, which raises what it has to say of its arguments."""
    return next(made) if isinstance(made, Iterator) else made


@pytest.mark.parametrize(("name", "function", "argument"), CALLS, ids=lambda value: str(value).split(" ")[0])
def test_a_wrong_type_in_place_of_any_argument_gets_a_sentence(folder, tmp_path, name, function, argument):
    others = {"folder": folder, "run": folder, "model": folder, "out": tmp_path / "out"} | REQUIRED
    needed = {other: others[other] for other in arguments_of(function) if other in others}
    owners = {"Run": lambda: [Run(folder)], "Translator": lambda: [Translator.load(folder, workers=1)]}
    owner = owners[name.split(".")[0]]() if "." in name and name != "Translator.load" else []
    for wrong in WRONG:
        if not (callable(wrong) and argument in {"say", "on_event"}):
            with pytest.raises(DragomanError):
                first_of(function(*owner, **(needed | {argument: wrong})))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", ["a\0b", "\ud800"])
def test_a_text_that_is_no_name_of_a_file_gets_a_sentence(tmp_path, wrong):
    pairs = [("a", "A")]
    for call in (dragoman.load, resume, Run, Translator.load, lambda path: train(out=path, pairs=pairs)):
        with pytest.raises(DragomanError, match="no file can have this name"):
            call(wrong)
    for table in ({3: 4}, {None: 1}):
        with pytest.raises(DragomanError, match="recipe: there is no key"):
            train(table, pairs=pairs, out=tmp_path / "run")


def test_settings_take_tables_and_settings_alike():
    one = WeightedCorpus(source=Path("a"), target=Path("b"))
    assert DataSettings(corpus=[one]).corpus == DataSettings(corpus=[{"source": "a", "target": "b"}]).corpus


def test_a_single_string_is_no_list_of_lines(folder):
    translator = Translator.load(folder)
    for wrong, message in (
        ({"settings": {"beam_size": 1}}, "settings is .*; it has to be a SearchSettings"),
        ({"settings": 5}, "settings is 5; it has to be a SearchSettings"),
        ({"glossary": {"a": "b"}}, "glossary is .*; it has to be a Glossary"),
    ):
        for call in (translator.translate, translator.translate_iterable, translator.n_best):
            with pytest.raises(DragomanError, match=message):
                call(["a b"], **wrong)
    with pytest.raises(DragomanError, match="put a single one in a list"):
        bleu("a b c d", "a b c d")
    with pytest.raises(DragomanError, match="encode takes a list of lines and got one string"):
        translator.tokenizers.source.encode("a b")


def test_a_misspelt_option_of_a_search_names_the_nearest(folder):
    translator = Translator.load(folder, workers=1)
    for call in (translator.translate, translator.n_best, translator.translate_iterable, translator.stream):
        for wrong in ({"beem_size": 2}, {"beam_sise": 2}):
            with pytest.raises(DragomanError, match="there is no key 'be.m_si.e'. Did you mean 'beam_size'"):
                call("a", **wrong)


def test_a_stream_refuses_settings_before_its_first_piece(folder):
    for native in (True, False):
        translator = Translator.load(folder, native=native)
        with pytest.raises(DragomanError):
            translator.stream("a b", n_best=2)
        with pytest.raises(DragomanError):
            translator.stream("a b", temperature=1.0)


@pytest.mark.parametrize("lines", [["x"], ["x", "y\nz"]])
def test_a_block_needs_a_translation_of_one_line_for_each_line(tmp_path, lines):
    (tmp_path / "in").write_text("a\nb\n")
    with pytest.raises(DragomanError, match="A block of 2 lines has .* one with a line feed"):
        translate_file(tmp_path / "in", tmp_path / "out", {}, lambda block: lines)
    assert not (tmp_path / "out").exists()


def test_tokens_one_by_one_need_a_state_with_room():
    model = build_model(ModelSettings(**SIZES), 20, 20).eval()
    ids = torch.tensor([[5, 6, 3]])
    _, state = model.decode(torch.tensor([[2]]), model.encode(ids))
    with pytest.raises(DragomanError, match=r"decode needs the state that State\.allocate returns"):
        model.decode(torch.tensor([[7]]), state)
    target = torch.tensor([[2, 7, 8]])
    features, _ = model.decode(target, model.encode(ids))
    torch.testing.assert_close(model(ids, target), model.logits(features))


def test_attention_is_recorded_once_at_a_time(folder):
    translator = Translator.load(folder, native=False)
    modules = cross_attention_modules(translator.torch_backend.model)
    with record_attention(modules), pytest.raises(DragomanError, match="This thread records the attention"):
        translator.align([("a b", "A B")])
    assert translator.align([("a b", "A B")])


# ---- what a call leaves as it was


@pytest.mark.parametrize(
    "error", [NonFiniteError(), TrainingInterruptedError(signal.SIGTERM, 7), DivergenceError("NaN.", "Stop.")]
)
def test_errors_come_back_from_other_processes(error):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_translator_is_copied_by_the_paths_of_its_folders(folder, monkeypatch, copied):
    monkeypatch.chdir(folder.parent)
    translator = Translator.load(folder.name, Path(folder.name) / "model", precision="int8", workers=1)
    monkeypatch.chdir("/")
    other = copied(translator)
    assert other is not translator
    assert other.engine_settings == translator.engine_settings
    assert other.n_best(LINES, max_extra_tokens=4) == translator.n_best(LINES, max_extra_tokens=4)
    assert len(pickle.dumps(translator)) < 2_000


def test_a_translator_of_a_model_in_memory_cannot_be_pickled(folder):
    translator = Translator.load(folder)
    in_memory = Translator.from_model(translator.torch_backend.model, translator.tokenizers)
    with pytest.raises(DragomanError, match="a model in memory cannot be pickled; save the model, and load"):
        pickle.dumps(in_memory)


def test_random_numbers_are_those_of_the_program(folder):
    before = torch.get_rng_state()
    Translator.load(folder, native=False).translate(LINES, max_extra_tokens=2)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_default_type_of_the_program_changes_no_translation(folder):
    translator, options = Translator.load(folder, native=False), {"max_extra_tokens": 4}
    expected = [translator.n_best(LINES, groups=groups, **options) for groups in (1, 2)]
    torch.set_default_dtype(torch.float64)
    try:
        for each in (translator, Translator.load(folder, native=False)):
            assert [each.n_best(LINES, groups=groups, **options) for groups in (1, 2)] == expected
    finally:
        torch.set_default_dtype(torch.float32)


def test_searches_at_the_same_time_leave_the_number_of_threads():
    threads = torch.get_num_threads()

    def search_until(begun, end):
        def search(batch):
            begun.set()
            assert end.wait(MAX_SECONDS)
            return []

        return list(in_threads(search, [[0], [1]], workers=2))

    try:
        torch.set_num_threads(3)
        with ThreadPoolExecutor(2) as pool:
            searches = []
            for _ in range(2):  # the second one begins while the first has set 1, and ends after it
                begun, end = Event(), Event()
                searches.append((pool.submit(search_until, begun, end), end))
                assert begun.wait(MAX_SECONDS)
            for search, end in searches:
                end.set()
                search.result(MAX_SECONDS)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(threads)


def test_properties_are_computed_once_and_do_not_wait_for_each_other():
    class Slow:
        def __init__(self):
            self.begun, self.end, self.times = Event(), Event(), 0

        @shared_property
        def slow(self):
            self.times += 1
            self.begun.set()
            assert self.end.wait(MAX_SECONDS)
            return self.times

        @shared_property
        def fast(self):
            return "fast"

    one = Slow()
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(lambda: one.slow) for _ in range(2)]
        assert one.begun.wait(MAX_SECONDS)
        assert one.fast == "fast"
        one.end.set()
        assert [each.result(MAX_SECONDS) for each in found] == [1, 1]


def test_a_forked_process_is_told_that_it_has_no_search_thread(folder):
    translator = Translator.load(folder)
    prepared = translator.prepare(LINES, temperature=1.0, max_extra_tokens=2)
    translator.submit(prepared).result(MAX_SECONDS)
    if (child := os.fork()) == 0:
        signal.alarm(MAX_SECONDS)  # ends the child if it hangs
        try:
            translator.submit(prepared)
        except DragomanError as error:
            os._exit(int("This process was forked from one" not in str(error)))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_public_names_are_those_of_their_modules():
    for name in dragoman.__all__:
        value = getattr(dragoman, name)
        assert python_inspect.getdoc(value)
        assert name in dir(dragoman)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = dragoman.nothing


def test_training_in_python_refuses_what_the_command_line_refuses(tmp_path):
    source, target = write_copies(tmp_path, "train", 20)
    names = [
        path.rename(tmp_path / f"train.{language}") for path, language in ((source, "en"), (target, "de"))
    ]
    data = dict(zip(("source", "target"), map(str, names), strict=True))
    swapped = data | {"valid_source": str(names[1]), "valid_target": str(names[0])}
    with pytest.raises(DragomanError, match="Exchange the sides"):
        train({"out": str(tmp_path / "run"), "data": swapped})
    with pytest.raises(DragomanError, match="each has to be a text without spaces"):
        train({"out": str(tmp_path / "run"), "data": data, "tokenizer": {"symbols": ["a b"]}})
    assert not (tmp_path / "run").exists()

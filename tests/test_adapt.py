"""Adapting an initial model to new text: what stays, what changes, what is refused."""

import json
import math
import re
import shutil
from collections import Counter
from copy import copy
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from dragoman.cli.train import COMMAND, recipe_of
from dragoman.evaluation.metrics import bleu
from dragoman.interop import huggingface
from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.pipeline.adaptation.adapt import kept_settings, refuse_changes, refuse_other_languages
from dragoman.pipeline.adaptation.initial_model import (
    FAR,
    FAR_PEAK_RATE,
    LORA_PEAK_RATE,
    PARTS,
    PEAK_RATE,
    choose_for_adaptation,
    choose_peak_rate,
    is_frozen,
    perplexity_before,
    refuse_unknown_parts,
)
from dragoman.pipeline.adaptation.replay import add_old_pairs, old_text, with_old_text
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.conversion import prepare_converted
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.prepared import PreparedData, make_model
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.run import make_validate, run
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.system.toml import overlay, to_table, write_toml
from dragoman.text.conversion import ConvertedData, CorpusPart
from dragoman.text.corpus import PairFilter
from dragoman.text.lines import line_hash
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import read_state
from dragoman.training.curves import training_of
from dragoman.training.log import read_events
from dragoman.training.world import World
from dragoman.translation.model_folder import StoredModel, Tokenizers, read_about, save_model
from dragoman.translation.segmentation import DEFAULT_SPLIT
from dragoman.translation.translator import Translator
from tests.conftest import TINY, write_copies

HERE = World(device=torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory) -> Path:
    """New text: the words that the initial model knows, translated in reverse order."""
    folder = tmp_path_factory.mktemp("adapt")
    for name, lines, seed in (("new", 60, 5), ("valid", 6, 6)):
        _, target = write_copies(folder, name, lines, seed)
        reverse = [" ".join(reversed(line.split())) for line in target.read_text().splitlines()]
        target.write_text("".join(f"{line}\n" for line in reverse))
    return folder


def table(trained: Path, folder: Path, out: Path, adaptation=None, **training) -> dict:
    """The recipe of a short adaptation, as a file would have it."""
    defaults = {
        "updates": 4,
        "validate_every": 2,
        "checkpoint_every": 2,
        "precision": "float32",
        "log_every": 1,
    }
    return {
        "out": str(out),
        "data": {
            "source": str(folder / "new.source"),
            "target": str(folder / "new.target"),
            "valid_source": str(folder / "valid.source"),
            "valid_target": str(folder / "valid.target"),
        },
        "batches": {"source_tokens_per_batch": 100, "target_tokens_per_batch": 100},
        "training": defaults | training,
        "adaptation": {"initial_model": str(trained / "run")} | (adaptation or {}),
    }


def complete(asked: dict) -> Recipe:
    return complete_recipe(asked, "adapt.toml", lambda recipe: recipe, lambda: False)


def adapt(*arguments, **training) -> Path:
    return run(complete(table(*arguments, **training)))


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def last_checkpoint(out: Path) -> Path:
    return max((out / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def adapted(trained, folder) -> Path:
    """An adaptation with replay and frozen embeddings; read only."""
    old = [str(trained / f"train.{side}") for side in ("source", "target")]
    return adapt(trained, folder, folder / "adapted", {"replay": old, "freeze": ["embeddings", "encoder.0"]})


def test_tokenizers_settings_and_languages_are_kept(trained, adapted):
    before, after = (StoredModel.load(path) for path in (trained / "run", adapted))
    assert after.tokenizers == before.tokenizers
    assert after.settings == before.settings
    assert after.languages == before.languages
    assert read_recipe(adapted).tokenizer == read_recipe(trained / "run").tokenizer


def test_update_0_has_the_scores_of_the_initial_model(trained, adapted):
    recipe, data = read_recipe(adapted), PreparedData.load(adapted / "data")
    model = make_model(recipe, data, HERE.device)
    model.load_state_dict(
        {name: torch.from_numpy(each) for name, each in initial_weights(trained).items()}, False
    )
    expected, _ = make_validate(recipe, data, HERE)(model, "")
    first = read_events(adapted / "log.jsonl")[0]
    assert (first["event"], first["step"]) == ("validation", 0)
    assert {name: first[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    translator = Translator.load(trained / "run")
    lines = (adapted / "data" / "valid.source.txt").read_text().splitlines()
    references = (adapted / "data" / "valid.target.txt").read_text().splitlines()
    greedy = translator.translate(lines, beam_size=1)
    assert first["bleu"] == pytest.approx(bleu(greedy, references).value, abs=1e-3)


def test_frozen_weights_do_not_change_and_others_do(trained, adapted):
    before, after = initial_weights(trained), weights(last_checkpoint(adapted))
    unchanged = {name for name in before if np.array_equal(before[name], after[name])}
    frozen = {name for name in before if "embedding" in name or name.startswith("encoder.0.")}
    assert unchanged == frozen


def test_the_replayed_share_of_the_pairs_is_as_asked_and_none_is_held_out(adapted):
    data, new = PreparedData.load(adapted / "data"), 60
    lines = np.array([data.train.line_number(pair) for pair in range(len(data.train))])
    assert (lines <= new).sum() == new
    assert (lines > new).sum() == round(0.3 / 0.7 * new)
    tokenizer = data.tokenizers.source
    replayed = {tokenizer.decode(data.train[pair][0].tolist()) for pair in np.flatnonzero(lines > new)}
    held_out = set((adapted / "data" / "replay" / "valid.source.txt").read_text().splitlines())
    assert held_out
    assert not held_out & replayed


@pytest.mark.parametrize("drop_overlap", [False, True])
def test_the_validation_pairs_of_the_old_text_are_never_replayed(trained, folder, tmp_path, drop_overlap):
    said: list[str] = []
    files = [[str(tmp_path / f"{name}.{side}") for side in ("source", "target")] for name in ("old", "valid")]
    for number, side in enumerate(("source", "target")):
        train = (trained / f"train.{side}").read_text()
        Path(files[0][number]).write_text(train + (folder / f"valid.{side}").read_text())
        Path(files[1][number]).write_text("".join(train.splitlines(keepends=True)[:9]))
    adaptation = {"replay": files[0], "replay_valid": files[1], "replay_share": 0.9}
    asked = table(trained, folder, tmp_path / "run", adaptation)
    asked["data"]["drop_overlap"] = drop_overlap
    recipe = complete(asked)
    with messages_to(said.append):
        prepare_converted(tmp_path / "run", recipe, recipe.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    pairs = (data.train[number] for number in range(len(data.train)))
    sources = {data.tokenizers.source.decode(ids.tolist()) for ids, _ in pairs}
    own, new = (Path(path).read_text().splitlines() for path in (files[1][0], folder / "valid.source"))
    assert not sources & set(own)
    assert bool(sources & set(new)) is not drop_overlap  # the run's own option
    assert any("also in the replay's validation data" in sentence for sentence in said)
    assert any("also in the validation data" in sentence for sentence in said)


def test_old_text_in_one_file_is_that_of_two(trained, folder, adapted):
    sides = ((trained / f"train.{side}").read_text().splitlines() for side in ("source", "target"))
    tsv = folder / "old.tsv"
    tsv.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)))
    recipe = complete(table(trained, folder, folder / "from-tsv", {"replay": [str(tsv)]}))
    prepare_converted(folder / "from-tsv", recipe, recipe.data)
    one, two = ((out / "data" / "manifest.json").read_text() for out in (folder / "from-tsv", adapted))
    assert one == two


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.7])
def test_old_pairs_are_replayed_equally_often_and_those_that_are_held_out_never(tmp_path, share):
    new, old = write_copies(tmp_path, "new", 12, seed=1), write_copies(tmp_path, "old", 9, seed=2)
    old_lines = old[0].read_text().splitlines()
    filters = tuple(
        PairFilter(held_out=frozenset(map(line_hash, lines))) for lines in (old_lines[:1], old_lines[7:])
    )
    recipe = Recipe(adaptation=AdaptationSettings(replay_share=share))
    files = add_old_pairs(tmp_path, recipe, new, old, filters)
    mixed = [path.read_text().splitlines() for path in files]
    assert mixed[0][:12] == new[0].read_text().splitlines()
    assert [line.upper() for line in mixed[0]] == mixed[1]
    times = Counter(dict.fromkeys(old_lines[1:7], 0))
    times.update(mixed[0][12:])
    assert times.total() == max(round(share / (1 - share) * 12), share > 0)
    assert set(times) == set(old_lines[1:7])
    assert max(times.values()) - min(times.values()) <= 1


@pytest.fixture
def corpora(trained, folder, tmp_path):
    """An adaptation to two corpora of 60 and 40 pairs, a quarter and the rest, beside old text, 40 %."""
    asked = table(trained, folder, tmp_path / "run", {"replay_share": 0.4})
    asked["adaptation"]["replay"] = [str(trained / f"train.{side}") for side in ("source", "target")]
    both = [folder / f"new.{side}" for side in ("source", "target")], write_copies(tmp_path, "more", 40, 8)
    asked["data"] = {name: path for name, path in asked["data"].items() if name.startswith("valid")}
    asked["data"]["corpus"] = [
        {"source": str(source), "target": str(target), "weight": weight}
        for (source, target), weight in zip(both, (0.5, 1.5), strict=True)
    ]
    return asked


def corpus_of_pairs(data: PreparedData, epoch: int, seed: int = 1) -> np.ndarray:
    """For each pair of an epoch, its corpus: 0 and 1 are new, 2 is the old text."""
    lines = [data.train.line_number(pair) for pair in data.train.pairs_of_epoch(seed, epoch)]
    return np.digitize(lines, [61, 101])


def test_beside_weighted_corpora_old_pairs_have_their_share_of_every_epoch(corpora, tmp_path):
    said: list[str] = []
    recipe = complete(corpora)
    with messages_to(said.append):
        prepare_converted(tmp_path / "run", recipe, recipe.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    assert "Of the training pairs, 40.0% are replayed; the corpora have their shares of the others." in said
    expected = np.array([0.6 * 0.25, 0.6 * 0.75, 0.4])
    counts = np.zeros(3)
    for epoch in range(4):
        counts += np.bincount(corpus_of_pairs(data, epoch), minlength=3)
        assert abs(counts - expected * counts.sum()).max() <= 2  # each to within one pair, and so their sum
    assert len(corpus_of_pairs(data, 0)) == pytest.approx(100 + round(100 * 0.4 / 0.6), abs=2)
    again, other = (data.train.pairs_of_epoch(seed, 3).tolist() for seed in (1, 2))
    assert data.train.pairs_of_epoch(1, 3).tolist() == again != other


def test_beside_corpora_without_weights_every_pair_is_used_once_and_old_ones_have_their_share(
    corpora, tmp_path
):
    for corpus in corpora["data"]["corpus"]:
        del corpus["weight"]
    recipe = complete(corpora)
    prepare_converted(tmp_path / "run", recipe, recipe.data)
    counts = np.bincount(corpus_of_pairs(PreparedData.load(tmp_path / "run" / "data"), 0))
    assert counts.tolist() == [60, 40, round(100 * 0.4 / 0.6)]


@pytest.mark.parametrize("weight", [1.0, None, 1e308])
def test_the_old_text_has_no_tag_and_the_proportions_of_the_corpora_stay(tmp_path, weight):
    source, target = write_copies(tmp_path, "new", 5)
    parts = CorpusPart(1, weight, ""), CorpusPart(4, weight and weight / 2, "<bt>")
    lines = ConvertedData(source=source, target=target, parts=parts)
    both = with_old_text(lines, AdaptationSettings(replay_share=0.25))
    assert [both.tag(line) for line in (1, 4, 5, 6, 7)] == ["", "<bt> ", "<bt> ", "", ""]
    expected = {} if weight is None else {"1": 0.5, "4": 0.25, "6": 0.25}
    assert both.weights() == pytest.approx(expected)


@pytest.mark.long
def test_a_resumed_adaptation_to_corpora_beside_old_text_equals_one_that_ran_through(corpora, tmp_path):
    whole = run(complete(corpora))
    resumed = run(complete(corpora | {"out": str(tmp_path / "resumed")}))
    (resumed / "result.json").unlink()
    shutil.rmtree(last_checkpoint(resumed))
    run(complete(corpora | {"out": str(resumed)}))
    found, expected = (weights(last_checkpoint(out)) for out in (resumed, whole))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert "replay_bleu" in json.loads((resumed / "result.json").read_text())["validation"]


def test_both_domains_are_reported_at_each_validation(adapted):
    events = [event for event in read_events(adapted / "log.jsonl") if event["event"] == "validation"]
    assert [event["step"] for event in events] == [0, 2, 4]
    result = json.loads((adapted / "result.json").read_text())
    for scores in (*events, *result["candidates"].values()):
        assert {"bleu", "loss", "replay_bleu", "replay_loss"} <= scores.keys()
    assert events[0]["replay_bleu"] > 90 > events[0]["bleu"]  # the initial model knows the old text


@pytest.mark.long
def test_a_resumed_adaptation_equals_one_that_ran_through_without_the_initial_model(trained, folder, adapted):
    moved = folder / "initial"
    shutil.copytree(trained / "run", moved)
    asked = table(
        trained, folder, folder / "resumed", read_adaptation(adapted) | {"initial_model": str(moved)}
    )
    run(complete(asked))
    shutil.rmtree(moved)
    (folder / "resumed" / "result.json").unlink()
    shutil.rmtree(last_checkpoint(folder / "resumed"))
    run(complete(asked))
    ended, expected = last_checkpoint(folder / "resumed"), last_checkpoint(adapted)
    assert ended.name == expected.name
    for name in ("model.safetensors", "optimizer.safetensors"):
        found, wanted = load_file(ended / name), load_file(expected / name)
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[each], wanted[each]) for each in wanted)


def test_long_sentences_are_split_as_before(trained, folder, adapted):
    before, after = (read_about(path / "model")[0] for path in (trained / "run", adapted))
    assert after == before
    assert PreparedData.load(adapted / "data").longest_trained_before == before


@pytest.mark.short_form(1)
@pytest.mark.parametrize("has_two_models", [False, True], ids=["one SentencePiece model", "two, as OPUS-MT"])
def test_an_imported_model_is_adapted_and_resumed(trained, folder, tmp_path, has_two_models):
    texts = [(trained / f"train.{side}").read_text().splitlines() for side in ("source", "target")]
    tokenizer = Tokenizer.train(iter(texts[0] + texts[1]), "bpe", TokenizerSettings(), 320)
    marian = {"activation": "swish", "positions": "sinusoidal-halves"}
    biases = {"attention_bias": True, "output_bias": True}
    original = build_model(replace(TINY, **marian, **biases), len(tokenizer), len(tokenizer)).eval()
    (tmp_path / "theirs").mkdir()
    huggingface.write(original, Tokenizers(tokenizer, tokenizer), tmp_path / "theirs")
    for side, text in zip(("source", "target"), texts if has_two_models else (), strict=False):
        own = Tokenizer.train(iter(text), "bpe", TokenizerSettings(), 290)
        (tmp_path / "theirs" / f"{side}.spm").write_bytes(own.model)
    imported = huggingface.read(tmp_path / "theirs")
    assert (imported.tokenizers.source is not imported.tokenizers.target) == has_two_models
    save_model(tmp_path / "ours", imported.model, imported.model.settings, imported.tokenizers)
    old = [str(trained / f"train.{side}") for side in ("source", "target")]
    out = adapt(trained, folder, tmp_path / "out", {"initial_model": str(tmp_path / "ours"), "replay": old})
    before, after = StoredModel.load(tmp_path / "ours"), StoredModel.load(out)
    assert after.settings == before.settings
    assert after.settings.tied == "all"
    assert after.tokenizers == before.tokenizers
    assert after.longest_trained == (imported.model.settings.longest or DEFAULT_SPLIT)
    expected = weights(last_checkpoint(out))
    (out / "result.json").unlink()
    shutil.rmtree(last_checkpoint(out))
    run(read_recipe(out))
    found = weights(last_checkpoint(out))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"adaptation": {"freeze": ["encoder"]}},
            "freeze is for adapting a model and needs initial_model; give both, or leave freeze out",
        ),
        ({"adaptation": {"peak_rate": 0.0}}, "peak_rate is 0.0; it must be at least"),
        (
            {"adaptation": {"replay_share": 0.5}},
            "replay_share needs replay; give both, or leave replay_share out",
        ),
        (
            {"adaptation": {"replay": ["a", "b"], "replay_share": 1.0}},
            "replay_share is 1.0; it must be at most 0.99",
        ),
        ({"adaptation": {"replay": ["a.tmx", "b"]}}, "a.tmx has both sides of a corpus; give it alone, as"),
        ({"adaptation": {"replay": ["a"]}}, "replay needs two files, source and target, or one .* has 1."),
        (
            {"adaptation": {"replay_valid": ["a"] * 3}},
            "replay_valid needs two files, source and target, or one that has both, and has 3.",
        ),
        ({"preset": "small"}, "The preset is small, and the initial model .* has other sizes .* d_model 32"),
        (
            {"model": {"d_model": 16}},
            "d_model is 16, and the initial model in .*run has 32, which is kept; leave",
        ),
        (
            {"tokenizer": {"vocabulary": 60}},
            "vocabulary is 60, and the initial model .* has 50, which is kept",
        ),
        ({"adaptation": {"initial_model": "nowhere"}}, "nowhere"),
    ],
)
def test_a_recipe_that_contradicts_its_initial_model_is_refused(trained, folder, tmp_path, asked, message):
    given = table(trained, folder, tmp_path / "out")
    initial = {} if "needs initial_model" in message else given["adaptation"]
    with pytest.raises(DragomanError, match=message):
        complete(given | asked | {"adaptation": initial | asked.get("adaptation", {})})
    assert not (tmp_path / "out").exists()


def test_how_the_text_is_sampled_is_not_kept_from_the_initial_model(trained, folder, tmp_path):
    given = table(trained, folder, tmp_path / "out")
    assert complete(given | {"tokenizer": {"sampled_copies": 3}}).tokenizer.sampled_copies == 3


@pytest.mark.parametrize(
    ("adaptation", "message"),
    [
        (
            {"freeze": ["encodr"]},
            "freeze names 'encodr', and the model has no such part. It has encoder, ",
        ),
        (
            {"freeze": ["encoder", "decoder", "embeddings"]},
            "No weight of the initial model is left to train: freeze is 'enc",
        ),
        (
            {"replay": ["none.en", "none.de"]},
            "Of the text to replay, source is none.en, and there is no such file",
        ),
        ({"replay": ["empty", "empty"]}, "too few different sentences .*; give replay_valid SOURCE TARGET"),
        ({"replay": ["empty", "empty"], "replay_valid": ["valid"] * 2}, "No pair of .* is left to replay"),
    ],
)
def test_what_does_not_fit_the_text_or_the_weights_is_refused(trained, folder, tmp_path, adaptation, message):
    places = {"empty": tmp_path / "empty", "valid": folder / "valid.source"}
    places["empty"].write_text("\n\n")
    adaptation = {name: [str(places.get(each, each)) for each in value] for name, value in adaptation.items()}
    with pytest.raises(DragomanError, match=message):
        adapt(trained, folder, tmp_path / "out", adaptation)
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_not_imported_yet_is_refused_with_the_command_that_reads_it(
    trained, folder, tmp_path
):
    (tmp_path / "config.json").write_text("{}")
    asked = table(trained, folder, tmp_path / "out", {"initial_model": str(tmp_path)})
    with pytest.raises(DragomanError, match="Read it first: dragoman import .* --from huggingface --out"):
        complete(asked)


def test_running_averages_cannot_be_frozen():
    recipe = Recipe(model=ModelSettings(norm="batch"), adaptation=AdaptationSettings(freeze=("encoder",)))
    with pytest.raises(
        DragomanError, match="freeze and lora_rank do not freeze the running averages of batch normalisation"
    ):
        refuse_unknown_parts(recipe, {"encoder.0.weight": (4, 4), "decoder.0.weight": (4, 4)})


def test_exchanged_languages_are_refused_unless_given(tmp_path):
    asked, kept = DataSettings(source=Path("new.de")), DataSettings(source_language="en")
    with pytest.raises(
        DragomanError, match="The source text is called new.de, and the source language .* is en"
    ):
        refuse_other_languages(asked, kept, tmp_path)
    refuse_other_languages(replace(asked, source_language="de"), kept, tmp_path)
    refuse_other_languages(DataSettings(source=Path("new.txt")), kept, tmp_path)
    variety = DataSettings(source_language="pt-BR")
    refuse_other_languages(DataSettings(source=Path("new.pt")), variety, tmp_path)


@pytest.mark.parametrize(
    "asked",
    [
        {"data": {"valid_source": "v.de", "valid_target": "v.en"}},
        {"data": {"test_source": "t.de", "test_target": "t.en"}},
        {"adaptation": {"replay": ["old.de", "old.en"]}},
        {"adaptation": {"replay_valid": ["old.de", "old.en"]}},
        {"data": {"corpus": [{"source": "a.en", "target": "a.de"}, {"source": "b.de", "target": "b.en"}]}},
        {"data": {"source": "old.de-en.tsv", "source_language": "en", "target_language": "de"}},
    ],
)
def test_a_text_whose_sides_are_exchanged_is_refused(asked):
    given = {"source": "a.en", "target": "a.de"}
    data = asked.get("data", {})
    data = data if {"corpus", "source"} & data.keys() else given | data
    with pytest.raises(DragomanError, match="are in de and en, and the model is trained from en to de"):
        refuse_swapped(overlay(Recipe(), asked | {"data": data}, "r.toml"))
    others = {"valid_source": "v.txt", "valid_target": "v.ref"}
    refuse_swapped(overlay(Recipe(), {"data": given | others}, "r.toml"))
    refuse_swapped(overlay(Recipe(), {"data": {"source": "a.de", "target": "b.de"}}, "r.toml"))


def test_the_old_text_is_in_the_folder_of_the_texts(trained, folder, tmp_path):
    files = {"replay": ["train.source", "train.target"], "replay_valid": ["valid.source", "valid.target"]}
    asked = table(trained, folder, tmp_path / "run", files)
    recipe = complete(asked | {"data": asked["data"] | {"folder": str(trained)}})
    for option, names in files.items():
        assert getattr(recipe.adaptation, option) == tuple(str(trained / name) for name in names)


def test_the_same_command_has_the_limits_of_an_adaptation_in_bytes(trained, folder, tmp_path):
    tokenizer = Tokenizer.train(iter(["ab"] * 9), "byte", TokenizerSettings(), 300)
    model = replace(TINY, d_model=8, heads=2)
    network = build_model(model, len(tokenizer), len(tokenizer))
    save_model(tmp_path / "bytes" / "model", network, model, Tokenizers(tokenizer, tokenizer), 50)
    kept = TokenizerSettings(source_tokens="byte", vocabulary=len(tokenizer))
    write_toml(
        Recipe(out=tmp_path / "bytes", tokenizer=kept, model=model), tmp_path / "bytes" / "recipe.toml"
    )
    asked = table(trained, folder, tmp_path / "out", {"initial_model": str(tmp_path / "bytes")})
    first = complete(asked)
    of_folder = complete(
        table(trained, folder, tmp_path / "out", {"initial_model": str(tmp_path / "bytes" / "model")})
    )
    assert (of_folder.data, of_folder.search) == (first.data, first.search)
    (tmp_path / "out").mkdir()
    write_toml(first, tmp_path / "out" / "recipe.toml")
    again = complete(asked)
    assert (first.data.longest, first.search.max_extra_tokens) == (1_000, 200)
    assert (again.data.longest, again.search.max_extra_tokens) == (1_000, 200)


def test_the_initial_model_has_to_be_there_until_update_0_is_validated(trained, folder, tmp_path):
    moved, asked = tmp_path / "initial", tmp_path / "out"
    shutil.copytree(trained / "run", moved)
    recipe = complete(table(trained, folder, asked, {"initial_model": str(moved)}, updates=2))
    run(recipe)
    shutil.rmtree(moved)
    for name in ("checkpoints", "model", "best"):
        shutil.rmtree(asked / name, ignore_errors=True)
    for name in ("log.jsonl", "result.json"):
        (asked / name).unlink()
    with pytest.raises(DragomanError, match="initial"):
        run(recipe)


def test_rate_and_updates_are_chosen_and_said(trained, folder, tmp_path):
    said: list[str] = []
    asked = table(trained, folder, tmp_path / "out")
    del asked["training"]["updates"]
    recipe = complete(asked | {"batches": {"source_tokens_per_batch": 400, "target_tokens_per_batch": 400}})
    with messages_to(said.append):
        run(replace(recipe, training=replace(recipe.training, minutes=0.01)))
    chosen = read_recipe(tmp_path / "out")
    assert chosen.adaptation.peak_rate == PEAK_RATE
    (reasons,) = [line for line in said if line.startswith("Chosen")]
    for words in (
        "at most 10 passes over the text",
        "a tenth of the updates",
        "0.0003, so that little",
    ):
        assert words in reasons
    assert any("the learning rate rises to 0.0003" in line for line in said)
    assert f"Initial model: {trained / 'run'}; its tokenizers and settings are kept." in said
    rates = [
        event["learning_rate"]
        for event in read_events(tmp_path / "out" / "log.jsonl")
        if "learning_rate" in event
    ]
    assert max(rates) == pytest.approx(PEAK_RATE, rel=1e-3)
    (formula,) = [curve for curve in training_of(tmp_path / "out").curves if curve.name == "schedule"]
    assert [rate for _, rate in formula.points] == pytest.approx(rates, abs=1e-6)  # as the log rounds


def test_the_command_line_asks_for_an_adaptation(trained, folder, tmp_path):
    words = f"{folder}/new.source {folder}/new.target --out {tmp_path}/out --initial-model {trained}/run"
    words += " --freeze encoder embeddings --replay old.en old.de --replay-share 0.2 --dropout 0.2"
    recipe = recipe_of(COMMAND.parse(words.split()))
    assert recipe.adaptation == AdaptationSettings(
        trained / "run",
        freeze=("encoder", "embeddings"),
        replay=("old.en", "old.de"),
        replay_share=0.2,
    )
    assert recipe.model == replace(read_recipe(trained / "run").model, dropout=0.2)


def read_adaptation(out: Path) -> dict:
    return to_table(read_recipe(out).adaptation)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("best_by", ["bleu", "loss"])
def test_an_adaptation_that_only_harms_keeps_the_initial_model_and_ends_early(
    trained, folder, tmp_path, best_by
):
    """The scores of update 0 are those to surpass, and patience is counted from there."""
    harm = {"updates": 9, "validate_every": 1, "checkpoint_every": 1, "patience": 2, "best_by": best_by}
    asked = table(trained, folder, tmp_path / "out", {"peak_rate": 1.0}, warmup_steps=1, **harm)
    valid = {f"valid_{side}": str(trained / f"scored.{side}") for side in ("source", "target")}
    out = run(complete(asked | {"data": asked["data"] | valid}))
    events = [event for event in read_events(out / "log.jsonl") if event["event"] == "validation"]
    assert [event["step"] for event in events] == [0, 1, 2]
    for event in events[1:]:
        assert event["loss"] > events[0]["loss"]
        assert event["bleu"] < events[0]["bleu"]
    state = read_state(last_checkpoint(out))
    assert (state.best_step, state.improved_step) == (0, 0)
    assert (state.lowest_loss, state.highest_bleu) == (state.best["loss"], state.best["bleu"])
    assert state.best == pytest.approx({name: events[0][name] for name in state.best}, rel=1e-6)
    kept, before = weights(out / "model"), initial_weights(trained)
    assert all(np.array_equal(kept[name], before[name]) for name in before)


def initial_weights(trained: Path) -> dict[str, np.ndarray]:
    return weights(trained / "run" / "model")


DEEP = weight_shapes(ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=12, decoder_layers=12), 9, 9)
MODULES = sorted({name[:end] for name in DEEP for end, letter in enumerate(f"{name}.") if letter == "."})


@given(st.sampled_from(MODULES))
def test_a_frozen_module_is_frozen_with_all_within_it_and_nothing_else(module):
    frozen = {name for name in DEEP if is_frozen(name, (module,))}
    if module in PARTS:
        assert frozen == {name for name in DEEP if name.startswith(PARTS[module])}
    else:
        assert frozen == {name for name in DEEP if name == module or name.startswith(f"{module}.")}


@given(st.sampled_from(MODULES), st.integers(1, 9))
def test_the_beginning_of_a_name_is_no_module(module, cut):
    name = module[:-cut]
    assume(name and name not in MODULES and not name.endswith(".") and name not in PARTS)
    recipe = Recipe(adaptation=AdaptationSettings(freeze=(name,)))
    with pytest.raises(DragomanError, match=f"freeze names '{re.escape(name)}'"):
        refuse_unknown_parts(recipe, DEEP)


@pytest.mark.parametrize(
    ("adaptation", "perplexity", "rate"),
    [
        ({}, FAR, PEAK_RATE),
        ({}, FAR * 1.01, FAR_PEAK_RATE),
        ({}, math.inf, FAR_PEAK_RATE),
        ({"lora_rank": 2}, None, LORA_PEAK_RATE),
    ],
)
def test_the_further_the_text_the_higher_the_rate(trained, adaptation, perplexity, rate):
    recipe = Recipe(
        model=StoredModel.load(trained / "run").settings,
        adaptation=AdaptationSettings(initial_model=trained / "run", **adaptation),
    )
    assert choose_peak_rate(recipe, lambda: perplexity)[0] == rate


def test_the_perplexity_before_is_that_of_the_validation_at_update_0(trained, folder, tmp_path):
    said: list[str] = []
    asked = table(trained, folder, tmp_path / "out")
    recipe = complete(asked | {"adaptation": {"initial_model": str(trained / "run")}})
    with messages_to(said.append):
        run(recipe)
    events = read_events(tmp_path / "out" / "log.jsonl")
    first = next(event for event in events if (event["event"], event["step"]) == ("validation", 0))
    recipe, data = read_recipe(tmp_path / "out"), PreparedData.load(tmp_path / "out" / "data")
    model = make_model(recipe, data, World().device)
    assert perplexity_before(model, recipe, data, World()) == pytest.approx(first["perplexity"], rel=1e-5)


KEPT = [each for each in fields(ModelSettings) if each.name not in ("encoder_layers", "decoder_layers")]


@pytest.mark.parametrize("setting", [each.name for each in KEPT])
def test_only_settings_that_no_weight_depends_on_may_change(setting):
    model = ModelSettings()
    before = getattr(model, setting)
    others = {bool: not before, str: "another", float: 0.75, int: 10_000, type(None): 3}
    after = others[type(before)]
    new = copy(model)
    object.__setattr__(new, setting, after)  # some values are of no model
    kept = Recipe(model=model)
    changed = replace(kept)
    object.__setattr__(changed, "model", new)
    if setting in ("dropout", "attention_dropout", "alignment_head"):
        refuse_changes(changed, kept, Path("run"))
    else:
        with pytest.raises(DragomanError, match=f"{setting} is .*, and the initial model in run has"):
            refuse_changes(changed, kept, Path("run"))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dropout", [0.0, 0.45])
def test_the_preset_of_the_initial_model_may_be_named_whatever_its_dropout(preset, dropout):
    kept = Recipe(model=replace(PRESETS[preset], dropout=dropout))
    refuse_changes(replace(kept, preset=preset), kept, Path("run"))
    for other, sizes in PRESETS.items():
        if replace(sizes, dropout=dropout) != kept.model:
            with pytest.raises(DragomanError, match=f"The preset is {other}, and the initial model"):
                refuse_changes(replace(kept, preset=other), kept, Path("run"))


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_model_without_a_recipe_has_as_many_vocabularies_as_it_has(tmp_path, is_shared):
    texts = ["a b c d", "b c d e f"]
    one, other = (Tokenizer.train([text], "word", TokenizerSettings(), 20) for text in texts)
    tokenizers = Tokenizers(one, one if is_shared else other)
    settings = replace(TINY, tied="target")
    built = build_model(settings, len(tokenizers.source), len(tokenizers.target))
    save_model(tmp_path / "model", built, settings, tokenizers)
    kept = kept_settings(tmp_path / "model").tokenizer
    sizes = len(tokenizers.source), len(tokenizers.target)
    assert (kept.share_vocabulary, kept.vocabulary) == (is_shared, max(sizes))


@given(
    st.integers(1, 10**5), st.floats(0.1, 1e4), st.none() | st.integers(1, 50), st.none() | st.integers(1, 50)
)
def test_the_warm_up_is_a_tenth_of_the_updates_of_at_most_ten_passes(most, per_epoch, updates, warmup):
    training = replace(Recipe().training, updates=updates, warmup_steps=warmup)
    adaptation = AdaptationSettings(initial_model=Path("run"), lora_rank=2)
    recipe = Recipe(training=training, adaptation=adaptation)
    chosen, reasons = choose_for_adaptation(recipe, most, per_epoch, pytest.fail)
    expected = updates or max(1, min(most, int(10 * per_epoch)))
    assert chosen.training.updates == expected
    assert chosen.training.warmup_steps == (warmup or max(1, expected // 10))
    assert len(reasons) == (updates is None) + (warmup is None) + 1


@pytest.mark.parametrize(
    "name", ["longest", "drop_copies", "drop_overlap", "source_language", "target_language"]
)
def test_old_text_is_read_by_the_rules_of_the_new(trained, name):
    values = {"longest": 7, "drop_copies": True, "drop_overlap": True}
    data = DataSettings(**{name: values.get(name, "pt")})
    files = tuple(str(trained / f"train.{side}") for side in ("source", "target"))
    old = old_text(Recipe(data=data, adaptation=AdaptationSettings(replay=files)))
    assert getattr(old, name) == getattr(data, name)


def test_the_seed_decides_which_old_pairs_are_replayed(tmp_path):
    new, old = write_copies(tmp_path, "new", 12, seed=1), write_copies(tmp_path, "old", 40, seed=2)

    def mixed(seed):
        training = replace(Recipe().training, seed=seed)
        recipe = Recipe(training=training, adaptation=AdaptationSettings(replay_share=0.3))
        files = add_old_pairs(tmp_path, recipe, new, old, (PairFilter(), PairFilter()))
        return [path.read_text() for path in files]

    one, again, other = mixed(1), mixed(1), mixed(2)
    assert one == again != other

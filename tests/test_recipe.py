"""What a recipe leaves open is chosen from the corpus and the machine; what is asked wins over the preset."""

import json
import re
import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.train import COMMAND, recipe_of
from dragoman.cli.verbs import command
from dragoman.model.architectures import check_architecture
from dragoman.model.settings import PRESETS, Architecture, ModelSettings
from dragoman.pipeline import presets
from dragoman.pipeline.adaptation.adapt import with_replay_in_folder
from dragoman.pipeline.autoconfigure import (
    choose_batch_tokens,
    choose_schedule,
    choose_warmup,
    duration_between,
    with_cooldown,
)
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.minutes import choose_updates
from dragoman.pipeline.prepare import choose_vocabulary
from dragoman.pipeline.presets import text_size
from dragoman.pipeline.recipe import Recipe, check_recipe, resolve_paths
from dragoman.pipeline.reopen import apply_changes, changed_settings, describe_changes, is_changeable
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, to_table, write_toml
from dragoman.text.settings import DataSettings, TokenKind, WeightedCorpus
from dragoman.training.schedule import learning_rate
from tests.conftest import write_copies

TABLE = {"out": "runs/x", "preset": "base", "data": {"source": "a", "target": "b"}}


def done(table, flags=lambda recipe: recipe, gpu=False):
    return complete_recipe(table, "r.toml", flags, lambda: gpu)


def test_flags_win_over_the_recipe_and_both_over_the_preset():
    table = TABLE | {"preset": "big", "model": {"heads": 8, "dropout": 0.2}}
    recipe = done(table, lambda recipe: replace(recipe, model=replace(recipe.model, dropout=0.4)))
    assert recipe.model == replace(PRESETS["big"], heads=8, dropout=0.4)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_give_their_sizes(preset):
    assert done(TABLE | {"preset": preset}).model == PRESETS[preset]


@given(st.integers(2, 1000))
def test_a_neighbourhood_is_even_and_an_odd_one_is_refused(size):
    table = TABLE | {"preset": "tiny", "model": {"neighbourhood": size}}
    if size % 2:
        with pytest.raises(DragomanError, match=f"neighbourhood is {size}; it must be even"):
            done(table)
    else:
        assert done(table).model.neighbourhood == size
    assert overlay(Recipe(), table, "").model.neighbourhood == size  # as a stored model's


def test_sizes_override_a_preset():
    assert done(TABLE | {"preset": "tiny", "model": {"d_model": 100}}).model.key_width == 25
    assert done(TABLE | {"tokenizer": {"share_vocabulary": False}}).model.tied == "target"


def test_the_settings_of_base_given_one_by_one_are_base():
    base = PRESETS["base"]
    names = ("d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "dropout", "norm")
    recipe = done(TABLE | {"preset": "tiny", "model": {name: getattr(base, name) for name in names}})
    assert (recipe.preset, recipe.model) == ("base", base)


def test_text_to_replay_that_is_joined_with_its_folder_is_not_joined_again():
    table = TABLE | {
        "data": TABLE["data"] | {"folder": "c"},
        "adaptation": {"initial_model": "m", "replay": ["o.en", "o.de"]},
    }
    once = with_replay_in_folder(overlay(Recipe(), table, "r.toml"))
    assert once.adaptation.replay == (str(Path("c/o.en").absolute()), str(Path("c/o.de").absolute()))
    assert with_replay_in_folder(once) == once


@pytest.fixture
def fast(monkeypatch):
    """A processor that is fast enough for every preset."""
    monkeypatch.setattr(presets, "tokens_per_second", lambda preset, training: 1e9)


@pytest.mark.usefixtures("fast")
def test_a_chosen_preset_is_reported_unless_all_of_it_is_overridden(messages):
    auto = {"out": "runs/x", "data": {"dataset": "multi30k-en-de"}}
    for model, chosen in (
        ({}, ["Chosen: preset small with dropout 0.3, for 3.9 MB of text and 45 minutes of this processor."]),
        ({"dropout": 0.1}, ["Chosen: preset small, for 3.9 MB of text and 45 minutes of this processor."]),
        ({"d_model": 100, "heads": 4}, []),
    ):
        messages.clear()
        done(auto | {"model": model})
        assert messages == chosen


def test_a_dataset_and_own_files_contradict_each_other():
    with pytest.raises(
        DragomanError, match="The dataset 'multi30k-en-de' has its own files; leave dataset out"
    ):
        done(TABLE | {"data": {"source": "a", "dataset": "multi30k-en-de"}})


def text_of(folder, size):
    """A recipe without a preset, for a text of so many bytes."""
    for name in "ab":
        with (folder / name).open("wb") as file:
            file.truncate(size // 2)
    data = {"source": "a", "target": "b", "folder": str(folder)}
    return {"out": str(folder / "run"), "preset": "auto", "data": data}


@pytest.mark.usefixtures("fast")
def test_the_preset_grows_with_the_corpus_and_the_machine(tmp_path):
    def chosen(size, gpu=False):
        return done(text_of(tmp_path, size), gpu=gpu).model

    assert chosen(100_000) == replace(PRESETS["tiny"], dropout=0.3)
    assert chosen(4_000_000) == replace(PRESETS["small"], dropout=0.3)
    assert chosen(12_000_000) == PRESETS["small"]
    assert chosen(12_000_000, gpu=True) == replace(PRESETS["small"], dropout=0.3)
    assert chosen(100_000_000, gpu=True) == PRESETS["base"]


@pytest.mark.long
@given(
    st.integers(100_000, 20_000_000),
    st.floats(10, 1e6),
    st.lists(st.floats(0.1, 1000), min_size=2, max_size=2),
)
def test_more_minutes_give_a_model_that_is_as_large_at_least(size, speed, minutes):
    """At most as large as without a bound, with more dropout the more often it sees the text."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        table = text_of(Path(folder), size)
        patch.setattr(presets, "tokens_per_second", lambda preset, _: speed * (1 + (preset == "tiny")))
        short, long = (done(table | {"training": {"minutes": each}}).model for each in sorted(minutes))
        most = done(table | {"training": {"updates": 1}}).model
    assert short.d_model <= long.d_model <= most.d_model
    assert short.dropout <= most.dropout
    if short.d_model == long.d_model:
        assert short.dropout <= long.dropout


def test_a_run_that_has_begun_keeps_its_preset_on_a_machine_of_another_speed(tmp_path, monkeypatch):
    table = text_of(tmp_path, 4_000_000)
    for speed in (1.0, 1e9):
        monkeypatch.setattr(presets, "tokens_per_second", lambda *_, speed=speed: speed)
        recipe = done(table)
        assert (recipe.preset, recipe.model.dropout) == ("tiny", 0.1)
        Path(table["out"]).mkdir(exist_ok=True)
        write_toml(recipe, Path(table["out"]) / "recipe.toml")
    shutil.rmtree(table["out"])
    assert (done(table).preset, done(table).model.dropout) == ("small", 0.3)


@pytest.mark.usefixtures("fast")
def test_the_preset_grows_with_the_size_of_a_named_dataset():
    def chosen(dataset, gpu):
        return done({"out": "runs/x", "data": {"dataset": dataset}}, gpu=gpu).model

    assert chosen("multi30k-de-en", gpu=True) == replace(PRESETS["small"], dropout=0.3)
    assert chosen("wmt14-en-de", gpu=True) == PRESETS["base"]
    assert chosen("wmt14-en-de", gpu=False) == PRESETS["small"]
    with pytest.raises(DragomanError, match="There is no dataset 'wmt'; there are: multi30k-en-de, "):
        chosen("wmt", gpu=True)


def test_choices_follow_the_size_of_the_corpus():
    small, base = Recipe(model=PRESETS["small"]), Recipe()
    assert choose_vocabulary(small, 29_000) == 6812
    assert choose_vocabulary(base, 4_500_000) == 37_000
    assert choose_vocabulary(small, 4_500_000) == 10_000
    assert choose_vocabulary(small, 10) == 400
    assert choose_batch_tokens(450_000, gpu=False) == 2_250
    assert choose_batch_tokens(120_000_000, gpu=True) == 25_000
    assert choose_batch_tokens(120_000_000, gpu=False) == 4_096


@pytest.mark.parametrize(
    ("minutes", "speed", "validation"),
    [(45, 2, 5), (1, 0.7, 8), (5, 3, 20), (0.5, 1, 0.01), (45, 20, 60), (180, 8, 100), (45, 20, 10)],
)
@pytest.mark.parametrize("every", [None, 20, 5000])
def test_updates_and_validations_fit_into_the_minutes(minutes, speed, validation, every):
    updates, validations, validating = choose_updates(minutes, 1e6, speed, validation, every)
    chosen = Recipe(training=replace(Recipe().training, validate_every=every))
    made = updates // choose_schedule(chosen, updates, validations).training.validate_every
    seconds = minutes * 60
    assert made <= validations <= (20 if every is None else updates // every)
    assert validating == (validations + 2) * validation
    assert updates / speed + made * validation <= max(seconds, seconds / 2 + 2 * validation) * 1.001
    if every is None and validations > 2:
        assert validating <= 0.1 * seconds


@given(
    st.floats(0.1, 300),
    st.floats(0.1, 100),
    st.one_of(st.just(0.0), st.floats(1e-5, 0.01), st.floats(0.01, 1)),
    st.sampled_from([None, 1, 70, 5_000]),
    st.floats(0.01, 1e6),
)
def test_no_update_and_no_validation_more_would_fit(minutes, speed, share, every, per_epoch):
    """`share` is what a validation takes of the time."""
    validation = share * 60 * minutes
    updates, validations, validating = choose_updates(minutes, per_epoch, speed, validation, every)
    seconds, most = 60 * minutes, min(100_000, 200 * per_epoch)
    if every is None:
        assert 2 <= validations <= 20
        assert validations == 2 or validating <= 0.1 * seconds * 1.001
        assert validations == 20 or validating + validation > 0.1 * seconds * 0.999
        time, each = max(seconds - validating, seconds / 2), 1 / speed
    else:
        time, each = max(seconds - 2 * validation, seconds / 2), 1 / speed + validation / every
    assert updates == 1 or (updates <= most and updates * each <= time * 1.001)
    assert updates + 1 > most or (updates + 1) * each > time * 0.999


def test_updates_have_bounds_and_half_of_the_time():
    assert choose_updates(180, 10_000, 100, 1)[0] == 100_000
    assert choose_updates(45, 2, 2, 1)[0] == 400
    assert choose_updates(1, 1e6, 1, 1000)[:2] == (30, 2)


@given(
    st.sampled_from(get_args(Architecture)), st.integers(1, 6), st.integers(1, 6), st.sampled_from([None, 2])
)
def test_heads_divide_the_width_where_there_are_heads_and_their_widths_are_open(
    architecture, width, heads, d_k
):
    model = ModelSettings(architecture, d_model=2 * width, heads=heads, d_k=d_k, d_v=d_k)
    recipe = replace(
        Recipe(), out=Path("out"), model=model, data=DataSettings(source=Path("a"), target=Path("b"))
    )
    has_heads = architecture not in ("lstm", "gru", "conv")
    is_refused = has_heads and d_k is None and 2 * width % heads != 0
    with pytest.raises(DragomanError, match="heads") if is_refused else nullcontext():
        check_recipe(recipe)


@pytest.mark.parametrize("updates", [4_000, 20_000, 100_000])
def test_the_warm_up_keeps_the_learning_rate_at_two_thousandths_or_below(updates):
    warmup = choose_warmup(updates, d_model=128)
    assert learning_rate(warmup, 128, warmup) < 0.00201


def test_the_warm_up_is_an_eighth_of_the_updates_within_bounds():
    assert choose_warmup(20_000, d_model=512) == 2_500
    assert choose_warmup(100_000, d_model=512) == 4_000
    assert choose_warmup(3_000, d_model=512) == 250_000 // 512


@pytest.mark.parametrize(("updates", "warmup"), [(1, 1), (2, 1), (100, 50), (3_000, 1_500)])
def test_the_warm_up_is_at_most_half_of_the_updates(updates, warmup):
    assert choose_warmup(updates, d_model=64) == warmup


@pytest.mark.parametrize("updates", [100, 3_000, 100_000])
def test_intervals_follow_from_the_number_of_updates(updates):
    training = choose_schedule(Recipe(), updates).training
    assert training.validate_every == training.checkpoint_every == min(1000, -(-updates // 20))
    assert training.warmup_steps == choose_warmup(updates, 512)
    own = replace(
        Recipe(), training=replace(Recipe().training, warmup_steps=7, validate_every=5, checkpoint_every=3)
    )
    chosen = choose_schedule(own, updates).training
    assert (chosen.warmup_steps, chosen.validate_every, chosen.checkpoint_every) == (7, 5, 3)


def test_differences_are_named_and_choices_are_none():
    recorded = choose_schedule(Recipe(), 100)
    assert changed_settings(Recipe(), recorded) == {}
    search = replace(Recipe().search, ban_words=("a", "b"))
    asked = replace(
        Recipe(), training=replace(Recipe().training, seed=7, clip_norm=1.0, threads=1), search=search
    )
    new = changed_settings(asked, recorded)
    assert [key for key in new if not is_changeable(key)] == ["training.seed"]
    assert describe_changes(new, recorded) == [
        "training.clip_norm is 1.0 and was 0.0",
        "training.seed is 7 and was 1",
        "training.threads is 1 and was None",
        "search.ban_words is ['a', 'b'] and was []",
    ]
    assert apply_changes(new, asked, recorded) == replace(
        recorded, training=replace(recorded.training, seed=7, clip_norm=1.0, threads=1), search=search
    )


def test_another_search_replaces_the_recorded_one_as_one():
    first, second = (
        replace(Recipe(), search=SearchSettings(**search))
        for search in ({"beam_size": 6, "groups": 3}, {"length_power": 1.0})
    )
    for asked, recorded in ((first, second), (second, first)):
        assert apply_changes(changed_settings(asked, recorded), asked, recorded).search == asked.search
        assert apply_changes({}, recorded, recorded) == recorded
    changes = changed_settings(first, second)
    assert "search.length_power is None and was 1.0" in describe_changes(changes, second)


def test_paths_are_in_their_folder(tmp_path):
    (tmp_path / "a").write_text("x")
    assert resolve_paths(DataSettings(source=Path("a"), folder=tmp_path)).source == tmp_path / "a"
    (tmp_path / "c.gz").touch()
    assert resolve_paths(DataSettings(source=Path("c"), folder=tmp_path)).source == tmp_path / "c.gz"
    with pytest.raises(DragomanError, match="target is .*b, and there is no such file"):
        resolve_paths(DataSettings(target=Path("b"), folder=tmp_path))


@given(st.floats(0, 10**5), st.floats(0, 0.5))
def test_a_range_of_durations_has_the_duration_in_it(seconds, error):
    text = duration_between(seconds, error)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", text)]
    least, most = (0, numbers[0]) if "up to" in text else (min(numbers, default=0), max(numbers, default=1))
    assert least - 0.51 <= seconds / 60 <= most + 0.51
    assert "minute" in text


@pytest.mark.parametrize("architecture", ["lstm", "gru", "conv", "lstm-enriched", "transformer"])
def test_other_architectures_have_the_norm_of_small_only_if_they_have_one(architecture):
    recipe = done(TABLE | {"preset": "small", "model": {"architecture": architecture}})
    has_norm = architecture in ("transformer", "lstm-enriched")
    assert recipe.model.norm == ("pre" if has_norm else "post")
    check_architecture(recipe.model)
    if not has_norm:
        given = done(TABLE | {"preset": "small", "model": {"architecture": architecture, "norm": "pre"}})
        with pytest.raises(DragomanError, match="norm is for architecture transformer"):
            check_architecture(given.model)


def test_a_preset_beside_a_recipe_that_has_sizes_is_refused(tmp_path):
    source, target = write_copies(tmp_path, "train", 3)
    path = tmp_path / "r.toml"
    begin = f'out = "{tmp_path}/run"\n[data]\nsource = "{source}"\ntarget = "{target}"\n[model]\n'
    path.write_text(f"{begin}heads = 2\ndropout = 0.3\nd_model = 8\n")
    with pytest.raises(DragomanError, match=r"preset tiny sets d_model, heads, and so does .*r\.toml"):
        recipe_of({"files": (path,), "preset": "tiny"})
    path.write_text(f"{begin}dropout = 0.3\n")
    assert recipe_of({"files": (path,), "preset": "tiny"}).model == replace(PRESETS["tiny"], dropout=0.3)
    for preset, model in PRESETS.items():
        for name, value in to_table(model).items():
            if value == to_table(PRESETS["base"]).get(name):
                continue
            path.write_text(f"{begin}{name} = {json.dumps(value)}\n")
            request = {"files": (path,), "preset": preset}
            if name in ("dropout", "norm", "positions"):
                assert recipe_of(request).model == model
                continue
            with pytest.raises(DragomanError, match=rf"preset {preset} sets {name}, and so does .*r\.toml"):
                recipe_of(request)


@pytest.mark.parametrize("verb", ["train", "start", "distil"])
def test_help_gives_no_default_for_what_a_preset_sets(verb):
    options = command(verb).options
    tables = list(map(to_table, PRESETS.values()))
    set_by_presets = {
        name for name in set().union(*tables) if any(t.get(name) != tables[0].get(name) for t in tables)
    }
    told = {
        name for name, option in options.items() if "from the preset" in command(verb).help_text(option, True)
    }
    assert told == set_by_presets & set(options)


@pytest.fixture
def asked(tmp_path):
    """What the command line asks for with two texts and more options."""
    source, target = write_copies(tmp_path, "train", 3)

    def recipe(*options):
        return recipe_of(COMMAND.parse([str(source), str(target), "--out", str(tmp_path / "run"), *options]))

    return recipe


@pytest.mark.short_form(3)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        *zip(get_args(TokenKind), reversed(get_args(TokenKind)), strict=True),
        ("unigram", None),
        ("char", None),
    ],
)
def test_a_coverage_of_characters_is_for_a_side_that_learns_pieces(asked, source, target):
    options = ["--source-tokens", source, *(["--target-tokens", target] if target else [])]
    options += ["--no-share-vocabulary", "--character-coverage", "0.99"]
    if {source, target} & {"bpe", "unigram"}:
        assert asked(*options).tokenizer.character_coverage == 0.99
    else:
        with pytest.raises(DragomanError, match="is for bpe and unigram tokens"):
            asked(*options)


@pytest.mark.parametrize("preset", ["tiny", "base"])
@pytest.mark.parametrize("schedule", [None, "paper", "trapezoid"])
@pytest.mark.parametrize("patience", [0, 3])
def test_only_patience_without_an_end_beside_a_trapezoid_is_refused(asked, preset, schedule, patience):
    options = ["--preset", preset, "--patience", str(patience)] + ["--schedule", schedule or ""] * bool(
        schedule
    )
    is_trapezoid = schedule == "trapezoid" or (schedule is None and preset == "tiny")
    if patience and is_trapezoid:
        with pytest.raises(DragomanError, match="--patience 3: a trapezoid is never stopped early"):
            asked(*options)
    else:
        assert asked(*options).training.patience == patience


def test_several_samples_of_a_test_sentence_need_minimum_bayes_risk(asked):
    several = ["--temperature", "1", "--n-best", "4"]
    assert asked(*several, "--mbr").search.n_best == 4
    with pytest.raises(DragomanError, match="--n-best 4: only one translation of a test sentence is scored"):
        asked(*several)


@pytest.mark.parametrize("option", ["--source", "--target"])
@pytest.mark.parametrize("ending", [".tsv", ".tmx", ".jsonl.gz"])
def test_a_file_with_both_sides_and_a_side_of_its_own_contradict_each_other(option, ending):
    words = [f"corpus{ending}", option, "other", "--out", "run"]
    with pytest.raises(DragomanError, match="has both sides of a corpus; leave --source and --target out"):
        recipe_of(COMMAND.parse(words))


@pytest.mark.parametrize("name", ["source", "target", "valid_source", "test_source"])
def test_a_dataset_has_no_file_of_ones_own(name):
    with pytest.raises(DragomanError, match="has its own files; leave dataset out"):
        done(TABLE | {"data": {"dataset": "multi30k-en-de", name: "a"}})


@given(st.sampled_from([10_000, 600_000, 3_000_000]), st.integers(1, 3), st.sampled_from(["", ".gz", ".zst"]))
def test_the_size_of_text_is_that_of_all_its_corpora_uncompressed(tmp_path_factory, size, corpora, ending):
    folder = tmp_path_factory.mktemp("texts")
    for number, name in ((number, name) for number in range(corpora) for name in "ab"):
        with (folder / f"{name}{number}{ending}").open("wb") as file:
            file.truncate(size // (3 if ending else 1))
    parts = tuple(WeightedCorpus(Path(f"a{each}"), Path(f"b{each}")) for each in range(corpora))
    assert text_size(DataSettings(folder=folder, corpus=parts)) == pytest.approx(2 * corpora * size, abs=20)
    one = DataSettings(Path("a0"), Path("b0"), folder=folder)
    assert text_size(one) == pytest.approx(2 * size, abs=20)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_third_of_a_tmx_is_text_however_it_is_packed(tmp_path, ending):
    path = tmp_path / f"corpus.tmx{ending}"
    path.write_bytes(b"x" * 900)
    assert text_size(DataSettings(source=path)) == 900 * (3 if ending else 1) // 3


@given(
    st.integers(1, 10**5),
    st.none() | st.integers(1, 500),
    st.none() | st.integers(1, 500),
    st.integers(0, 20),
)
def test_a_checkpoint_is_written_at_the_validations_unless_its_interval_is_given(
    updates, validate, checkpoint, validations
):
    training = replace(Recipe().training, validate_every=validate, checkpoint_every=checkpoint)
    chosen = choose_schedule(Recipe(training=training), updates, validations).training
    assert chosen.validate_every == validate or validate is None
    assert chosen.checkpoint_every == (checkpoint or validate or min(1000, -(-updates // 20)))


@given(st.integers(1, 10**5), st.none() | st.integers(1, 10**5), st.integers(0, 10**5))
def test_a_cooldown_fits_into_the_updates_that_are_left(updates, cooldown, done):
    training = replace(Recipe().training, updates=updates, cooldown_steps=cooldown, schedule="trapezoid")
    chosen = with_cooldown(Recipe(training=training), min(done, updates - 1)).training.cooldown_steps
    wanted = cooldown or max(1, updates // 2)
    assert chosen == min(wanted, updates - min(done, updates - 1))
    of_paper = Recipe(training=replace(training, schedule="paper"))
    assert with_cooldown(of_paper, done) == of_paper

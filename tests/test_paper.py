"""`dragoman paper`: what is counted is what is built and computed; its figures are the paper's."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.cli import main as cli
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.costs import (
    count_parameters,
    multiply_adds_by_part,
    multiply_adds_per_target_token,
    parameters_by_part,
    part_of,
)
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, type_hints
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model
from dragoman_paper.paper_map.departures import BESIDE, NOT_GIVEN, SECTIONS, departures, paper_recipe
from dragoman_paper.paper_map.report import explaining_vocabulary, report_on
from dragoman_paper.paper_map.subject import subject_of
from dragoman_paper.tables.published import TRAINING_RUNS, estimated_flops
from dragoman_paper.tables.table3 import TABLE3
from tests.conftest import MODELS, VARIANTS

TOML = Path(__file__).parents[1] / "experiments" / "table3"
SETTINGS = MODELS | VARIANTS | PRESETS | {"two": replace(PRESETS["tiny"], tied="none")}
TRANSFORMERS = {name: each for name, each in SETTINGS.items() if each.architecture == "transformer"}
ENRICHED = {name: each for name, each in SETTINGS.items() if each.architecture.endswith("-enriched")}
BASELINES = {name: each for name, each in SETTINGS.items() if name not in TRANSFORMERS | ENRICHED}


def on_meta(settings, source, target):
    with torch.device("meta"):
        return build_model(settings, source, target).to("meta")


@pytest.mark.parametrize("name", SETTINGS)
def test_counted_parameters_are_those_of_the_built_model(name):
    settings = SETTINGS[name]
    sizes = (50, 50) if settings.tied == "all" else (50, 70)
    model = on_meta(settings, *sizes)
    assert count_parameters(settings, *sizes) == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", TRANSFORMERS | ENRICHED)
def test_every_weight_of_a_transformer_is_of_a_part(name):
    parts = {part_of(weight) for weight, _ in on_meta(SETTINGS[name], 5, 5).named_parameters()}
    assert not parts & {"attention", "encoder", "decoder"}


@pytest.mark.parametrize("name", BASELINES)
def test_every_weight_of_a_baseline_is_of_a_part(name):
    parts = {part_of(weight) for weight, _ in on_meta(SETTINGS[name], 5, 5).named_parameters()}
    assert parts - {"positions", "attention"} == {"embeddings", "encoder", "decoder"}


@pytest.mark.parametrize("name", BASELINES)
def test_what_a_baseline_has_besides_embeddings_encoder_and_attention_is_its_decoder(name):
    settings = BASELINES[name]
    sizes = (50, 50) if settings.tied == "all" else (50, 70)
    model, expected = on_meta(settings, *sizes), dict.fromkeys(("embeddings", "encoder", "decoder"), 0)
    for weight, values in model.named_parameters():
        module = model.get_submodule(weight.rpartition(".")[0])
        kinds = {
            "embeddings": isinstance(module, torch.nn.Embedding),
            "positions": weight.endswith("_positions.table"),
            "attention": "attention" in weight,
            "encoder": weight.startswith("encoder"),
        }
        part = next((part for part, fits in kinds.items() if fits), "decoder")
        expected[part] = expected.get(part, 0) + values.numel()
    assert parameters_by_part(settings, *sizes) == expected


AS_WRITTEN = [
    name for name, each in (MODELS | VARIANTS).items() if name in TRANSFORMERS and not each.neighbourhood
]


@pytest.mark.short_form(2)
@pytest.mark.parametrize(
    ("name", "as_written"),
    [
        *((name, False) for name in TRANSFORMERS if name in MODELS | VARIANTS or name in ("base", "two")),
        *((name, True) for name in AS_WRITTEN),
    ],
)
def test_counted_multiply_adds_are_those_of_a_forward_pass(name, as_written):
    settings, vocabulary, source, target = TRANSFORMERS[name], 50, 9, 7
    model = on_meta(settings, vocabulary, vocabulary).eval()
    for module in model.modules() if as_written else ():
        if isinstance(module, MultiHeadAttention):
            module.attention_weights_hook = lambda _: None
    parts = multiply_adds_by_part(settings, vocabulary, source, target)
    assert flops_of(model, source, target) == 2 * sum(parts.values())


@pytest.mark.short_form(2)
@pytest.mark.parametrize("length", [7, 8, 9, 11, 12, 13, 16, 17])
def test_restricted_attention_costs_what_is_computed_at_every_length(length):
    settings = replace(VARIANTS["restricted"], neighbourhood=8)
    parts = multiply_adds_by_part(settings, 50, length, length + 1)
    assert flops_of(on_meta(settings, 50, 50).eval(), length, length + 1) == 2 * sum(parts.values())


def flops_of(model, source, target):
    """Floating-point operations of a forward pass, as torch counts them."""
    device = next(model.parameters()).device
    ids = [torch.ones(1, length, dtype=torch.long, device=device) for length in (source, target)]
    with FlopCounterMode(display=False) as counter:
        features, _ = model.decode(ids[1], model.encode(ids[0]))
        model.logits(features)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", ENRICHED)
def test_counted_multiply_adds_of_an_enriched_model_are_those_of_a_forward_pass(name):
    settings = ENRICHED[name]
    model = build_model(settings, 50, 50).eval().double()  # torch does not count a fused LSTM
    for layer in model.decoder:
        layer.cross_attention.attention_weights_hook = lambda _: None
    assert flops_of(model, 9, 7) == 2 * sum(multiply_adds_by_part(settings, 50, 9, 7).values())


@pytest.mark.parametrize("name", BASELINES)
def test_counted_multiply_adds_of_a_baseline_are_those_of_a_forward_pass(name):
    settings = BASELINES[name]
    model = build_model(settings, 50, 50).eval().double()  # torch does not count a fused LSTM
    assert flops_of(model, 9, 7) == 2 * sum(multiply_adds_by_part(settings, 50, 9, 7).values())


@pytest.mark.parametrize(
    ("architecture", "encoder", "decoder"),
    [
        # A gate has products with the token and the state; an encoder's directions are half as wide.
        ("lstm-enriched", 2 * 4 * (8 * 4 + 4 * 4), 4 * (8 * 8 + 8 * 8)),
        ("gru-enriched", 2 * 3 * (8 * 4 + 4 * 4), 3 * (8 * 8 + 8 * 8)),
        ("conv-enriched", 5 * 8 * 2 * 8, 5 * 8 * 2 * 8),  # five inputs; values and their gates
    ],
)
def test_multiply_adds_of_a_token_mixer_are_those_counted_by_hand(architecture, encoder, decoder):
    kernel = {"kernel_width": 5} if architecture == "conv-enriched" else {}
    settings = ModelSettings(architecture, d_model=8, heads=2, encoder_layers=2, decoder_layers=3, **kernel)
    parts = multiply_adds_by_part(settings, 50, 9, 7)
    assert parts["encoder token mixer"] == 2 * 9 * encoder
    assert parts["decoder token mixer"] == 3 * 7 * decoder


@pytest.mark.parametrize("name", ["rnn", "conv", "rnn-enriched", "conv-enriched", "restricted"])
def test_a_preset_of_a_baseline_has_a_report(name, monkeypatch, capsys):
    status, out, _ = run_cli(monkeypatch, capsys, name, "--json")
    found, settings = json.loads(out), PRESETS[name]
    assert status == 0
    assert sum(found["parameters"].values()) == count_parameters(settings, 37_000, 37_000)
    assert found["cost"]["per_target_token"] == multiply_adds_per_target_token(settings, 37_000, 25)


def test_a_token_costs_what_its_sentence_costs_divided_by_its_tokens():
    each = multiply_adds_per_target_token(ModelSettings(), 100, 7)
    assert each * 7 == sum(multiply_adds_by_part(ModelSettings(), 100, 7, 7).values())


@pytest.mark.parametrize("row", [row for row in TABLE3.rows if row.parameters], ids=lambda row: row.name)
def test_the_explaining_vocabularies_and_no_others_round_to_the_papers_figure(row):
    def millions(vocabulary):
        return count_parameters(row.model, vocabulary, vocabulary) / 1e6

    fewest, most = explaining_vocabulary(row.model, row.parameters)
    assert row.parameters - 0.5 <= millions(fewest) <= millions(most) <= row.parameters + 0.5
    assert millions(fewest - 1) < row.parameters - 0.5
    assert millions(most + 1) > row.parameters + 0.5


@pytest.mark.parametrize("run", TRAINING_RUNS.values(), ids=TRAINING_RUNS)
def test_the_papers_estimate_is_what_table_2_prints(run):
    assert f"{estimated_flops(run.hours, 8):.1e}" == f"{run.flops:.1e}"
    assert run.updates * run.seconds_per_update / 3600 == pytest.approx(run.hours, rel=0.08)


def test_counted_training_cost_is_proportional_to_updates_and_tokens():
    base = subject_of("base", None)
    one, other = (report_on(base, 25, updates, tokens).cost for updates, tokens in ((10, 5), (20, 15)))
    assert other.counted_flops == 6 * one.counted_flops


# ---- departures


def test_the_papers_own_settings_depart_nowhere():
    assert departures(paper_recipe("base")) == departures(paper_recipe("big")) == []


@pytest.mark.parametrize(
    ("name", "sizes", "updates", "average"),
    [("base", (512, 2048, 8, 0.1), 100_000, 5), ("big", (1024, 4096, 16, 0.3), 300_000, 20)],
)
def test_the_papers_own_settings_are_its_numbers(name, sizes, updates, average):
    recipe = paper_recipe(name)
    model, training, search = recipe.model, recipe.training, recipe.search
    assert (model.d_model, model.d_ff, model.heads, model.dropout) == sizes  # Table 3
    assert (model.encoder_layers, model.decoder_layers) == (6, 6)  # section 3.1
    assert (model.norm, model.residual, model.activation) == ("post", True, "relu")  # 3.1, 3.3
    assert (model.key_width, model.value_width) == (64, 64)  # 3.2.2
    assert (model.attention_bias, model.output_bias, model.attention_dropout) == (False, False, 0)
    assert (model.tied, model.scale_embeddings, model.positions) == ("all", True, "sinusoidal")  # 3.4, 3.5
    assert (recipe.tokenizer.vocabulary, recipe.tokenizer.share_vocabulary) == (37_000, True)  # 5.1
    assert recipe.batches.source_tokens_per_batch == recipe.batches.target_tokens_per_batch == 25_000
    assert (training.updates, training.warmup_steps, training.learning_rate_scale) == (updates, 4000, 1)
    assert (training.label_smoothing, training.clip_norm, training.average) == (0.1, 0, average)  # 5.4, 6.1
    assert (search.beam_size, search.length_penalty, search.max_extra_tokens) == (4, 0.6, 50)  # 6.1


@pytest.mark.parametrize(
    ("table", "change", "section"),
    [
        ("model", {"norm": "pre"}, "3.1"),
        ("model", {"decoder_d_ff": 256}, "3.3"),
        ("model", {"d_k": 16}, "3.2.2"),
        ("training", {"label_smoothing": 0.2}, "5.4"),
        ("search", {"beam_size": 5}, "6.1"),
    ],
)
def test_a_setting_that_is_not_the_papers_is_named_with_its_section(table, change, section):
    recipe = paper_recipe("base")
    recipe = replace(recipe, **{table: replace(getattr(recipe, table), **change)})
    ((name, value),) = change.items()
    (found,) = departures(recipe)
    assert (found.setting, found.value, found.section) == (f"{table}.{name}", value, section)


TABLES = {field.name: getattr(Recipe(), field.name) for field in fields(Recipe)}
TABLES = {name: settings for name, settings in TABLES.items() if is_dataclass(settings)}


def test_every_setting_is_either_compared_or_named_as_beside_the_paper():
    assert SECTIONS.keys() == BESIDE.keys() == TABLES.keys()
    for table, settings in TABLES.items():
        names = [*SECTIONS[table], *BESIDE[table]]
        assert sorted(names) == sorted(field.name for field in fields(settings))


def other_value(settings, name):
    """A valid value of a setting that is not the paper's."""
    value, hint = getattr(settings, name), type_hints(type(settings))[name]
    same = (None, value, getattr(settings, "source_tokens", None))  # whose kind the target's tokens have
    candidates = [*get_args(hint), *(choice for option in get_args(hint) for choice in get_args(option))]
    candidates += [2, 7, 0.25, 0.999, 2.5, "x", ("x",), ("x", "y"), Path("x")]
    if isinstance(value, bool):
        candidates = [not value]
    for candidate in candidates:
        with suppress(DragomanError):
            if candidate not in same:
                changed = overlay(settings, {name: candidate}, "test")
                if getattr(changed, name) != value:
                    return changed
    raise AssertionError(f"no other value of {name} was found")


COMPANIONS = {  # what a setting needs
    "mbr": {"temperature": 1.0, "n_best": 2},
    "sampling_alpha": {"source_tokens": "unigram"},
    "d_model": {"d_k": 64, "d_v": 64},
}


@pytest.mark.parametrize(("table", "name"), [(table, name) for table in SECTIONS for name in SECTIONS[table]])
def test_each_compared_setting_is_named_when_it_differs(table, name):
    paper = paper_recipe("base")
    settings = replace(getattr(paper, table), **COMPANIONS.get(name, {}))
    recipe = replace(paper, **{table: other_value(settings, name)})
    found = {each.setting: each for each in departures(recipe)}
    assert f"{table}.{name}" in found
    section = SECTIONS[table][name]
    assert found[f"{table}.{name}"].section == ("" if section == NOT_GIVEN else section)


def test_a_head_width_that_follows_departs_with_the_heads():
    recipe = paper_recipe("base")
    recipe = replace(recipe, model=replace(recipe.model, heads=4))
    assert {each.setting: each.value for each in departures(recipe)} == {
        "model.heads": 4,
        "model.d_k": 128,
        "model.d_v": 128,
    }


# ---- what it is asked about


@pytest.mark.short_form(9)
@pytest.mark.parametrize("row", TABLE3.rows, ids=lambda row: row.name)
def test_a_row_and_its_recipe_are_the_same(row):
    by_name, by_file = subject_of(row.name, None), subject_of(str(TOML / f"{row.name.lower()}.toml"), None)
    one, other = (report_on(subject, 25) for subject in (by_name, by_file))
    assert one.parameters == other.parameters
    assert one.cost.counted_flops == other.cost.counted_flops
    assert by_file.recipe.training.label_smoothing == row.label_smoothing


def test_a_run_and_its_model_have_their_own_vocabulary(trained):
    run, model = (subject_of(str(trained / name), None) for name in ("run", "run/model"))
    (vocabulary,) = {run.source_vocabulary, run.target_vocabulary, model.target_vocabulary}
    assert run.recipe.model == model.recipe.model
    weights = on_meta(run.recipe.model, vocabulary, vocabulary).parameters()
    assert sum(report_on(run, 25).parameters.values()) == sum(weight.numel() for weight in weights)
    assert subject_of(str(trained / "run"), 99).source_vocabulary == 99


def test_a_model_has_the_vocabulary_of_each_side(tmp_path):
    tokenizers = [
        Tokenizer.train(["ein Mann fährt Rad", "two dogs play"] * 5, "bpe", TokenizerSettings(), size)
        for size in (290, 300)
    ]
    settings = replace(PRESETS["tiny"], tied="none")
    model = build_model(settings, *map(len, tokenizers))
    save_model(tmp_path / "model", model, settings, Tokenizers(*tokenizers))
    subject = subject_of(str(tmp_path / "model"), None)
    assert [subject.source_vocabulary, subject.target_vocabulary] == list(map(len, tokenizers))
    assert len(tokenizers[0]) != len(tokenizers[1])


@pytest.mark.parametrize("accumulate", [1, 4])
def test_an_update_has_the_tokens_of_all_batches_that_it_accumulates(accumulate):
    base = subject_of("base", None)
    batches = replace(base.recipe.batches, target_tokens_per_batch=1000, accumulate=accumulate)
    subject = replace(base, recipe=replace(base.recipe, batches=batches))
    cost, same = report_on(subject, 25, updates=10).cost, report_on(base, 25, 10, 1000 * accumulate).cost
    assert (cost.tokens, cost.counted_flops) == (1000 * accumulate, same.counted_flops)


def test_a_run_without_a_model_yet_has_its_recipe(tmp_path):
    (tmp_path / "recipe.toml").write_text('preset = "tiny"\n[tokenizer]\nvocabulary = 123\n')
    assert subject_of(str(tmp_path), None).target_vocabulary == 123


def test_the_row_is_named_for_a_recipe_with_its_settings():
    assert report_on(subject_of(str(TOML / "d4.toml"), None), 25).row == "D4"
    assert report_on(subject_of("tiny", None), 25).row is None


# ---- the command


def run_cli(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["dragoman", "paper", *map(str, arguments)])
    status = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


def test_it_needs_no_torch_and_its_json_is_the_report():
    code = "import sys; sys.argv = ['dragoman', 'paper', 'big', '--json']\n"
    code += "from dragoman.cli import main as cli\ncli.main(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert sum(found["parameters"].values()) == count_parameters(PRESETS["big"], 37_000, 37_000)
    assert found["paper_parameters"] == 213
    assert {each["setting"] for each in found["departures"]} >= {"training.updates"}
    assert all(each["source"] for each in found["toolkits"])
    toolkits = {"Tensor2Tensor", "fairseq", "Marian", "Hugging Face", "Annotated Transformer"}
    assert {name for each in found["toolkits"] for name in each["toolkit"].split(", ")} == toolkits


def test_the_page_has_both_french_figures_and_both_costs(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run_cli(monkeypatch, capsys, "base")
    for words in (
        "41.8 in the abstract",
        "41.0 in the text",
        "Early abstracts have 41.0 and, with 27.5 for English to German, 41.1",
        "12 hours · 8 GPUs",
        "65 million",
        "35,368 to 36,344",
    ):
        assert words in out
    _, out, _ = run_cli(monkeypatch, capsys, "tiny")
    assert "give --hours, and --gpus" in out


def test_wrong_input_gets_a_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "auto.toml").write_text("[model]\nd_model = 64\n")
    for arguments, message in (
        (
            ["bsae"],
            "'bsae' is not a preset (tiny, small, base, big, rnn, conv, rnn-enriched, conv-enriched, "
            "restricted, student, student-tiny), not a row of Table 3 (base, A1,",
        ),
        (
            [tmp_path / "auto.toml"],
            "auto.toml leaves the sizes of its model to the text: its preset is auto.",
        ),
        (["base", "--vocabulary", 0], "--vocabulary is 0; it must be at least 1."),
        (["base", "--hours", -1], "--hours is -1.0; it must be at least 0.01."),
        ([tmp_path], "holds no model. Train one with"),
    ):
        status, _, err = run_cli(monkeypatch, capsys, *arguments)
        assert status == 2
        assert message in err


def test_a_model_without_heads_departs_in_no_width_of_a_head(tmp_path):
    (tmp_path / "r.toml").write_text('preset = "rnn"\n[model]\narchitecture = "gru"\nd_model = 10\n')
    names = {each.setting for each in departures(subject_of(str(tmp_path / "r.toml"), None).recipe)}
    assert {"model.architecture", "model.d_model"} <= names
    assert not names & {"model.heads", "model.d_k", "model.d_v"}

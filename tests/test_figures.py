"""`dragoman figure`: every figure is drawn, from numbers that the model computed or a formula gives."""

import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman import SearchSettings
from dragoman.inspection.analyse.statistics import statistics
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.record.record import TokenProbability
from dragoman.inspection.views import png
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.drawing import Drawing, decimal
from dragoman.inspection.views.png import has_font, letters_without_font, with_common_characters
from dragoman.model.build import build_model
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.sinusoids import sinusoid_table
from dragoman.model.transformer import FeedForward
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.translation.model_folder import read_settings, save_model
from dragoman_paper.figures import attention_figures, measured_pictures, steps
from dragoman_paper.figures.attention_figures import LayerWeights
from dragoman_paper.figures.catalogue import FIGURES, listing
from dragoman_paper.figures.choice import Choice
from dragoman_paper.figures.complexity import (
    CURVES,
    complexity,
    recurrent_operations,
    self_attention_operations,
)
from dragoman_paper.figures.complexity import ROWS as TABLE_1
from dragoman_paper.figures.measured import (
    HiddenUnits,
    Normalisation,
    hidden_units,
    normalisation,
)
from dragoman_paper.figures.neighbours_picture import BAR, draw_token
from dragoman_paper.figures.position_layouts import products
from dragoman_paper.figures.recurrence import longest_path, recurrent_layer, self_attention_layer
from dragoman_paper.figures.smoothing import label_smoothing, smoothed_target, tensor2tensor_target
from dragoman_paper.tables.complexity import distance
from dragoman_paper.tables.layers import ROWS
from tests.conftest import MODELS, VARIANTS
from tests.test_inspection import LINES, TRANSFORMERS, translator_of
from tests.test_pictures import HOSTILE, fake

SENTENCE = "amber birch cedar"
SEARCH = SearchSettings(max_extra_tokens=3)
ALONE = [each.name for each in FIGURES if each.needs == "nothing"]


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


@pytest.fixture
def figure(command_line):
    def run(*arguments):
        return command_line("figure", *arguments)

    return run


def texts(svg):
    """All texts of a picture. The picture is XML, and no number in it is missing."""
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    assert not any(word in svg for word in ("nan", 'inf"', "None", "tensor("))
    return [element.text or "" for element in root.iter() if element.tag.endswith(("}text", "}title"))]


# ---- every figure, by the command line


@pytest.mark.short_form(6)
@pytest.mark.parametrize("name", [each.name for each in FIGURES])
def test_every_figure_is_drawn_from_a_run(figure, trained, tmp_path, name):
    out = tmp_path / "figure.svg"
    text = [] if name in ("training", "figure-2", "positions", "label-smoothing") else [SENTENCE]
    status, _, err = figure(name, trained / "run", *text, "--out", out)
    assert status == 0, err
    assert texts(out.read_text())


def test_figure_1_is_that_of_a_translation_except_for_its_lengths(figure, trained, tmp_path):
    drawn = []
    for text in ([], [SENTENCE]):
        status, _, err = figure("figure-1", trained / "run", *text, "--out", tmp_path / f"{len(text)}.svg")
        assert status == 0, err
        shown = texts((tmp_path / f"{len(text)}.svg").read_text())
        start = [re.match(r"In this call|S source", line) is not None for line in shown].index(True)
        drawn.append(shown[:start])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", ALONE)
def test_figures_of_sizes_need_no_run_and_no_torch(figure, tmp_path, name, monkeypatch):
    out = tmp_path / "figure.svg"
    status, _, err = figure(name, "--out", out)
    assert status == 0, err
    assert texts(out.read_text())


def test_without_out_a_figure_is_named_after_itself(figure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, _ = figure("positions")
    assert status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["positions.svg"]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("ending", ["png", "PNG", "svg", "SVG"])
def test_a_figure_is_of_the_kind_that_its_ending_says(figure, tmp_path, ending):
    out = tmp_path / f"x.{ending}"
    assert figure("complexity", "--out", out)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG" if ending.lower() == "png" else b"<svg")


def test_the_list_says_what_each_figure_shows_and_where_the_paper_has_it(figure):
    status, out, _ = figure("--list")
    assert status == 0
    assert out.rstrip("\n") == listing()
    documented = (Path(__file__).parents[1] / "docs" / "inspection.md").read_text("utf-8")
    for each in FIGURES:
        assert f"| `{each.name}` | {each.of} | {each.shows} |" in documented
        assert f"  {each.name} " in listing()
        assert each.of.startswith(("Figure ", "Table ", "section "))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Which figure? Give its name; dragoman figure --list shows all."),
        (["figure-6"], "There is no figure 'figure-6'. Did you mean figure-"),
        (["zzz"], "There is no figure 'zzz'. There are: figure-1, figure-2"),
        (
            ["figure-3"],
            'figure-3 is drawn from a run: dragoman figure figure-3 runs/ende "A man rides a bike."',
        ),
        (["figure-3", "{run}"], "figure-3 is drawn for a sentence: dragoman figure figure-3 runs/ende"),
        (
            ["neighbours", "{run}"],
            'neighbours is drawn for words: dragoman figure neighbours runs/ende "dog cat"',
        ),
        (["training"], "training is drawn from a run: dragoman figure training runs/ende"),
        (["training", "{run}/model"], "has no log.jsonl and recipe.toml; give the folder of a run"),
        (["positions", "--out", "x.pdf"], "--out is x.pdf; its name has to end with .svg or .png."),
        (["positions", "--layer", "1"], "positions does not use --layer; it is for figure-3, figure-4"),
        (["positions", "{run}", SENTENCE], "positions does not use a sentence; leave it out."),
        (["training", "{run}", SENTENCE], "training does not use a sentence; leave it out."),
        (["positions", "--beam-size", "2"], "positions translates nothing, and --beam-size is for a search;"),
        (["softmax", "{run}", SENTENCE, "--step", "0"], "There is no step 0; this translation has"),
        (["figure-3", "{run}", SENTENCE, "--layer", "9"], "There is no layer 9; this model has 1, counted"),
        (["figure-3", "{run}", SENTENCE, "--heads", "3"], "There is no head 3; this model has 2, counted"),
        (["figure-5", "{run}", SENTENCE, "--heads", "1"], "This figure compares two heads: --heads 1 2."),
        (["attention-steps", "{run}", SENTENCE, "--heads", "1", "2"], "shows one head; --heads has 2."),
        (
            ["figure-3", "{run}", SENTENCE, "--query", "zebra"],
            "There is no query 'zebra'. The queries are: 1 ▁amber",
        ),
        (["positions", "--kind", "cross"], "positions does not use --kind; it is for figure-3, figure-4"),
        (["softmax", "{run}", SENTENCE, "--step", "99"], "There is no step 99; this translation has"),
        (["softmax", "{run}", " "], "The sentence is blank"),
        (["complexity", "{run}", " "], "The sentence is blank: it has no tokens."),
        (["neighbours", "{run}", " "], "The text has no word; give words"),
        (["neighbours", "{run}", "a " * 25], "The text has 25 words; give at most 24."),
        (["figure-2", "{run}/data"], "holds no model"),
        (["figure-1", "{run}", SENTENCE, "--split", "9"], "which --split excludes"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(figure, trained, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = figure(*(each.format(run=trained / "run") for each in arguments))
    assert (status, list(tmp_path.iterdir())) == (2, [])
    assert message in " ".join(err.split())


@pytest.mark.parametrize("name", ["figure-2", "figure-3", "attention-steps", "feed-forward"])
def test_a_model_without_attention_gets_a_sentence(figure, tmp_path, name):
    tokenizers = translator_of(MODELS["transformer"]).tokenizers
    model = build_model(MODELS["lstm"], len(tokenizers.source), len(tokenizers.target))
    save_model(tmp_path / "lstm", model, MODELS["lstm"], tokenizers)
    sentence = [] if name == "figure-2" else ["a man"]
    status, _, err = figure(name, tmp_path / "lstm", *sentence, "--out", tmp_path / "x.svg")
    assert (status, (tmp_path / "x.svg").exists()) == (2, False)
    assert "lstm" in err.lower()


@given(st.text("ab&<1₀₁₂₉ᵀ▁我", min_size=1, max_size=12))
def test_a_png_has_the_texts_of_a_picture_in_characters_that_fonts_have(words):
    drawing = Drawing("a", "title", "description")
    drawing.text(10, 40, words, title=f"{words} above")
    root = ElementTree.fromstring(with_common_characters(drawing.svg()))
    shown = [each for each in root.iter() if each.tag.endswith("}text")][-1]
    letters = "".join(shown.itertext())
    assert letters == f"{shown[0].text}{words.translate(str.maketrans('₀₁₂₉ᵀ▁', '0129T_'))}"
    lowered = [each.text for each in shown if each.get("baseline-shift") == "sub"]
    assert lowered == [str("₀₁₂₃₄₅₆₇₈₉".index(each)) for each in words if each in "₀₁₂₉"]


@pytest.mark.skipif(shutil.which("fc-list") is None, reason="fontconfig is missing")
def test_letters_that_no_font_has_are_found():
    program = shutil.which("fc-list")
    assert has_font(program, "a")
    assert not has_font(program, chr(0x10FFFD))
    drawing = Drawing("a", "title", "description")
    drawing.text(10, 40, "W₁ Kᵀ ▁Ähre 1 我们 猫")
    assert len(letters_without_font(drawing.svg())) == (not has_font(program, "猫"))


@pytest.mark.skipif(shutil.which("fc-list") is None, reason="fontconfig is missing")
@given(st.text("a1Ä₀ᵀ▁←’Σж猫ก", max_size=6))
def test_each_script_of_letters_that_not_every_font_has_is_asked_for_once(words):
    drawing = Drawing("a", "title", "description")
    drawing.text(10, 40, words)
    with mock.patch.object(png, "has_font", return_value=False):
        assert letters_without_font(drawing.svg()) == list(
            dict.fromkeys(each for each in words if each in "Σж猫ก")
        )


def test_learned_positions_are_drawn_from_the_models_own_tables(figure, tmp_path):
    tokenizers, settings = (
        translator_of(MODELS["transformer"]).tokenizers,
        replace(MODELS["transformer"], positions="learned", max_positions=30),
    )
    model = build_model(settings, len(tokenizers.source), len(tokenizers.target))
    with torch.no_grad():
        model.source_positions.table[3, 1], model.target_positions.table[0, 0] = 7.125, -8.25
    save_model(tmp_path / "learned", model, settings, tokenizers)
    assert figure("positions", tmp_path / "learned", "--out", tmp_path / "x.svg")[0] == 0
    shown = texts((tmp_path / "x.svg").read_text())
    for side, most in (("source", "7.12"), ("target", "8.25")):
        assert f"{side} positions: as shares of the largest number here, {most}" in shown


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("layer-norm", {"norm": "batch"}, "is of layer normalisation, and this model has norm = batch"),
        ("figure-2", {"attention_score": "additive"}, "has additive scores, and Figure 2 is of scaled"),
        ("positions", {"positions": "none"}, "has no positions (positions = none); leave the run out"),
    ],
)
def test_a_model_without_the_part_of_a_figure_gets_a_sentence(figure, tmp_path, name, changes, message):
    tokenizers = translator_of(MODELS["transformer"]).tokenizers
    settings = replace(MODELS["transformer"], **changes)
    model = build_model(settings, len(tokenizers.source), len(tokenizers.target))
    save_model(tmp_path / "other", model, settings, tokenizers)
    sentence = ["a man"] * (name == "layer-norm")
    status, _, err = figure(name, tmp_path / "other", *sentence, "--out", tmp_path / "x.svg")
    assert (status, (tmp_path / "x.svg").exists()) == (2, False)
    assert message in " ".join(err.split())


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["lstm", "conv", "conv, enriched"])
def test_encoder_decoder_attention_of_other_models_is_drawn(figure, tmp_path, kind):
    tokenizers = translator_of(MODELS["transformer"]).tokenizers
    settings = (MODELS | VARIANTS)[kind]
    model = build_model(settings, len(tokenizers.source), len(tokenizers.target))
    save_model(tmp_path / "other", model, settings, tokenizers)
    asked = tmp_path / "other", "a man", "--kind", "cross", "--out", tmp_path / "x.svg"
    assert figure("figure-3", *asked)[0] == 0
    assert "encoder-decoder attention, layer" in texts((tmp_path / "x.svg").read_text())[0]
    status, _, err = figure("figure-5", *asked)
    assert (status == 2) == (kind != "conv, enriched")
    assert ("compares two heads, and this model has one" in err) == (status == 2)


@pytest.mark.long
def test_figures_without_a_run_import_no_torch(tmp_path):
    code = (
        "import sys\nfrom dragoman.cli import main as cli\n"
        f"for name in {ALONE}:\n"
        f"    sys.argv = ['dragoman', 'figure', name, '--out', {str(tmp_path)!r} + '/' + name + '.svg']\n"
        "    cli.main()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert {path.stem for path in tmp_path.iterdir()} == set(ALONE)


@pytest.mark.parametrize(
    "extra", [(), ("--heads", "2"), ("--layer", "1", "--query", "2"), ("--query", "birch")]
)
def test_the_part_that_is_asked_for_is_drawn(figure, trained, tmp_path, extra):
    status, _, err = figure("attention-steps", trained / "run", SENTENCE, *extra, "--out", tmp_path / "x.svg")
    assert status == 0, err
    title, *shown = texts((tmp_path / "x.svg").read_text())
    assert f"head {2 if '2' in extra[1:2] else 1}" in title
    assert "--query" not in extra or any(each.startswith("q of query 2, the token ▁birch") for each in shown)


# ---- figures from a made-up inspection


def with_candidates(source, target):
    """A made-up inspection whose hypotheses all have next tokens."""
    found = fake(source=source, target=target)
    return replace(found, candidates=dict.fromkeys(range(len(found.nodes)), found.candidates[0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "draw",
    [
        attention_figures.figure_3,
        attention_figures.figure_4,
        attention_figures.figure_5,
        attention_figures.head_comparison,
        steps.decoding_steps,
    ],
)
def test_hostile_tokens_and_long_sentences_are_drawn(draw, kind):
    assert texts(draw(with_candidates((*HOSTILE, "</s>"), (*HOSTILE, "</s>")), Choice(kind=kind)))
    long = with_candidates([f"▁s{n}" for n in range(70)], [f"▁t{n}" for n in range(70)])
    assert any(each.startswith("Only ") for each in texts(draw(long, Choice(kind=kind))))


def test_the_default_layer_is_the_last_but_one_as_in_the_paper():
    assert [attention_figures.layer_number(None, layers) + 1 for layers in (6, 2, 1)] == [5, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_of_figure_3_are_the_weights_of_its_query(kind):
    found = fake()
    choice = Choice(layer=2, query="2", heads=(2,), kind=kind)
    weights = found.attention.of(kind)[1][1][1]
    shown = texts(attention_figures.figure_3(found, choice))
    title = f"{(found.source if kind == 'encoder' else found.target)[1]} in head 2: "
    assert shown[0].startswith(title)
    assert f"{KIND_NAMES[kind].lower()}, layer 2" in shown[0]
    titles = [each for each in shown if each.startswith("query 2")]
    assert titles == [
        f"query 2, key {key}, weight {weight:.3f}"
        for key, weight in enumerate(weights.tolist(), 1)
        if weight >= attention_figures.FEWEST
    ]


@given(st.data())
def test_the_query_without_a_choice_has_the_dependency_that_is_longer_and_no_other_querys(data):
    """The same attention of all queries is none, nor is that to a token without letters, or of END."""
    words = data.draw(st.integers(4, 12))
    place = st.integers(0, words - 1)
    query, key = data.draw(st.tuples(place, place).filter(lambda pair: abs(pair[0] - pair[1]) > 1))
    common, head = data.draw(place), data.draw(st.integers(0, 2))
    weights = np.full((3, words + 2, words + 2), 0.1, np.float32)
    weights[:, :, common] += 5
    weights[:, 0, words], weights[:, -1, 0] = 3, 3  # to a full stop, from END
    weights[head, query, key] += 1
    tokens = [*(f"▁w{number}" for number in range(words)), ".", "</s>"]
    layer = LayerWeights("", 0, weights, tokens, tokens, "", [])
    assert attention_figures.query_number(layer, None, range(3)) == query
    assert attention_figures.query_number(layer, "w1", [0]) == 1
    assert attention_figures.query_number(layer, "▁w1", [0]) == 1


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_lines_of_heads_between_the_same_tokens_are_beside_each_other(heads):
    lanes = attention_figures.lanes(heads)
    for (one, width), (other, other_width) in pairwise(lanes):
        assert other - one > (width + other_width) / 2
    assert max(abs(place) + width / 2 for place, width in lanes) < attention_figures.COLUMN / 2


def test_the_two_heads_without_a_choice_differ_most():
    weights = fake(heads=2, d_model=16).attention.encoder[0]
    three = np.stack([weights[0], weights[0], weights[1]])
    assert attention_figures.two_heads(three, ()) in {(0, 2), (1, 2)}
    assert attention_figures.difference(weights[0], weights[0]) == 0
    eye = np.eye(4, dtype=np.float32)
    assert attention_figures.difference(eye, np.roll(eye, 1, 1)) == 1
    with pytest.raises(DragomanError, match="compares two heads, and this model has one"):
        attention_figures.two_heads(weights[:1], ())


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_of_two_heads_are_their_statistics(kind):
    found = fake(heads=2, d_model=16)
    shown = texts(attention_figures.head_comparison(found, Choice(layer=1, heads=(2, 1), kind=kind)))
    for name, (words, form) in attention_figures.FACTS.items():
        place = shown.index(words)
        facts = [format(statistics(found)[kind][name][0, head], form) for head in (1, 0)]
        assert shown[place + 1 : place + 3] == facts


# ---- what is measured


def test_normalisation_gives_what_the_model_computed(translator):
    seen = normalisation(translator, LINES[0], SEARCH, 0)
    mean, variance = seen.taken.mean(1, keepdims=True), seen.taken.var(1, keepdims=True)
    norm = one_transformer(translator).encoder[0].self_attention_residual.norm
    gain, shift = (weight.detach().numpy() for weight in (norm.weight, norm.bias))
    given = (seen.taken - mean) / np.sqrt(variance + norm.eps) * gain + shift
    np.testing.assert_allclose(given, seen.given, atol=1e-5)
    assert seen.taken.shape == (len(seen.inspection.source), seen.inspection.model.d_model)


def test_zeros_are_counted_among_the_numbers_that_the_network_multiplies(translator):
    seen = hidden_units(translator, LINES[0], SEARCH)
    model = one_transformer(translator)
    ids = [
        torch.tensor([side.ids(list(tokens))])
        for side, tokens in (
            (translator.tokenizers.source, seen.inspection.source),
            (translator.tokenizers.target, seen.inspection.target),
        )
    ]
    shares = {}
    for name, module in model.named_modules():
        if isinstance(module, FeedForward):
            module.outer.register_forward_pre_hook(
                lambda _, inputs, name=name: shares.update({name: (inputs[0][0] == 0).double().mean(-1)})
            )
    try:
        with torch.no_grad():
            model.decode(Batch.of(*ids, []).target_in, model.encode(ids[0]))  # all target tokens at once
    finally:
        for module in model.modules():
            if isinstance(module, FeedForward):
                module.outer._forward_pre_hooks.clear()
    for side, shown in (("encoder", seen.encoder), ("decoder", seen.decoder)):
        for layer, row in enumerate(shown):
            np.testing.assert_allclose(row, shares[f"{side}.{layer}.feed_forward"], atol=1e-6)


def test_the_bars_of_a_step_are_the_probabilities_that_the_search_saw(translator):
    found = inspect(translator, LINES[0], SEARCH)
    shown = texts(steps.softmax(found, Choice(step=1)))
    for each in found.candidates[0]:
        assert any(text.startswith(f"{math.exp(each.log_probability):.4f}") for text in shown)
    total = sum(math.exp(each.log_probability) for each in found.candidates[0])
    assert any(text.startswith(f"{max(1 - total, 0):.4f}") for text in shown)


def test_each_step_shows_its_keys_and_their_weights(translator):
    found = inspect(translator, LINES[0], SEARCH)
    for heads, name in (((1,), "head 1"), ((2, 1), "mean of heads 2, 1"), ((), "mean of all heads")):
        shown = texts(steps.decoding_steps(found, Choice(layer=1, heads=heads)))
        assert shown[0].endswith(f"decoder layer 1, {name}")
        weights = [each.rsplit(" ", 1)[1] for each in shown if "weight: " in each]
        rows = found.attention.decoder[0, [head - 1 for head in heads] or slice(None)].mean(0)
        assert weights == [f"{rows[step, key]:.3f}" for step in range(len(rows)) for key in range(step + 1)]


@pytest.mark.long
def test_what_is_measured_of_a_long_sentence_is_drawn_up_to_60_tokens():
    translator, search = translator_of(MODELS["transformer"]), SearchSettings(max_extra_tokens=0, beam_size=1)
    line = "ein Mann fährt Rad " * 16
    for svg in (
        measured_pictures.normalisation_picture(normalisation(translator, line, search, 0), 0),
        measured_pictures.feed_forward_picture(hidden_units(translator, line, search)),
        measured_pictures.head_matrices(inspect(translator, line, search), 0, 0),
    ):
        assert any(each.startswith("Only ") for each in texts(svg))


def bars(svg):
    """The rectangles with a title: the title, and the width."""
    found = [each for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}rect") and len(each)]
    return [(each[0].text, float(each.get("width"))) for each in found]


def assert_numbers_are_beside_their_bars(svg):
    """The text that follows a rectangle with a title begins to its right."""
    elements = [each for each in ElementTree.fromstring(svg).iter() if not each.tag.endswith("}title")]
    for bar, number in pairwise(elements):
        if bar.tag.endswith("}rect") and len(bar):
            assert number.tag.endswith("}text")
            assert float(bar.get("x")) + float(bar.get("width")) <= float(number.get("x"))


def with_random_candidates(inspection, seed):
    """The inspection with likeliest tokens at each step, the translation's among them."""
    random = np.random.default_rng(seed)
    likeliest = {}
    for number, token in zip(inspection.best_path, inspection.target, strict=False):
        shares = np.sort(random.dirichlet(np.full(4, 0.3)))[::-1][:3]
        tokens = random.permutation([token, "▁x", "▁y"])
        likeliest[number] = tuple(
            TokenProbability(str(each), math.log(share)) for each, share in zip(tokens, shares, strict=True)
        )
    return replace(inspection, candidates=likeliest)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_bars_of_probabilities_and_weights_are_as_long_as_their_numbers(step):
    found = with_random_candidates(fake(), step)
    for svg, kinds in (
        (steps.softmax(found, Choice(step=step)), [": "]),
        (steps.decoding_steps(found, Choice()), ["weight: ", ": "]),
    ):
        assert_numbers_are_beside_their_bars(svg)
        lengths = {kind: [] for kind in kinds}
        for title, width in bars(svg):
            kind = next(kind for kind in kinds if kind in title)
            lengths[kind].append((float(title.rpartition(": ")[2]), width))
        for pairs in lengths.values():
            values, widths = np.array(pairs).T
            assert len(pairs) >= 4
            assert widths.sum() > 20
            np.testing.assert_allclose(widths, values * widths.sum() / values.sum(), atol=0.3)
    rest = 1 - sum(math.exp(each.log_probability) for each in found.candidates[found.best_path[step - 1]])
    (other,) = (
        float(title.rpartition(": ")[2])
        for title, _ in bars(steps.softmax(found, Choice(step=step)))
        if title.startswith("all other tokens")
    )
    assert other == pytest.approx(rest, abs=1e-6)


@pytest.mark.parametrize("tokens", [1, 4])
def test_means_and_deviations_are_those_of_rows_and_of_columns(tokens):
    found, random = fake(source=tuple("abcd"[:tokens])), np.random.default_rng(tokens)
    taken = random.normal(1, 2, (tokens, 40)).astype(np.float32)
    shown = texts(measured_pictures.normalisation_picture(Normalisation(found, taken, taken), 0))
    for name, axis, count in (("layer norm", 1, tokens), ("batch norm", 0, measured_pictures.FEATURES)):
        place = shown.index(name) + 3  # after "mean" and "deviation"
        numbers = [
            decimal(float(value))
            for pair in zip(taken.mean(axis)[:count], taken.std(axis)[:count], strict=True)
            for value in pair
        ]
        assert shown[place : place + 2 * count] == numbers


def test_the_mean_of_a_layer_is_that_of_its_tokens():
    found, random = fake(), np.random.default_rng(3)
    shares = [
        random.uniform(0, 1, (2, len(side))).astype(np.float32) for side in (found.source, found.target)
    ]
    svg = measured_pictures.feed_forward_picture(HiddenUnits(found, *shares))
    drawn = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}text")]
    cells = drawn[: drawn.index("share of hidden units that are 0")]
    expected = []
    for row in (row for side in shares for row in side):
        expected += [*(f"{100 * share:.1f}" for share in row), f"{row.mean():.1%}"]
    assert [text for text in cells if re.fullmatch(r"\d+\.\d%?", text or "")] == expected


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_bars_of_neighbours_show_cosines_from_0_to_1(cosines):
    drawing = Drawing("a", "title", "description")
    draw_token(drawing, "x", [(f"t{place}", cosine) for place, cosine in enumerate(cosines)], 16, 50)
    expected = [BAR * max(cosine, 0) for cosine in cosines]
    assert [width for _, width in bars(drawing.svg())] == pytest.approx(expected, abs=0.006)


# ---- formulas


@given(st.floats(1e-4, 0.9), st.integers(3, 100_000))
def test_a_bar_of_label_smoothing_ends_where_the_axis_has_its_probability(smoothing, vocabulary):
    svg = label_smoothing(smoothing, vocabulary, "source")
    root = ElementTree.fromstring(svg)
    texts_of = [each for each in root.iter() if each.tag.endswith("}text")]
    ticks = {
        float(each.text): float(each.get("x"))
        for each in texts_of
        if each.get("text-anchor") == "middle" and re.fullmatch(r"[\d.e-]+", each.text or "")
    }
    places, marks = np.log10(list(ticks)), list(ticks.values())
    slope, start = np.polyfit(places, marks, 1)
    assert slope > 0
    rectangles = [each for each in root.iter() if each.tag.endswith("}rect") and len(each)]
    assert len(rectangles) == 6
    for each in rectangles:
        value = float(each[0].text.rpartition(": ")[2])
        end = float(each.get("x")) + float(each.get("width"))
        assert end == pytest.approx(start + slope * math.log10(value), abs=0.1)


@given(st.integers(1, 600), st.none() | st.integers(1, 2000))
def test_the_marked_lengths_lie_in_the_chart_of_table_1(d_model, tokens):
    svg = complexity(d_model, tokens)
    lines = [each for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}path") and len(each)]
    spans = {each[0].text: [float(x) for x in re.findall(r"[ML]([\d.]+)", each.get("d"))] for each in lines}
    first, last = min(spans["Recurrent"]), max(spans["Recurrent"])
    marks = {"n = d": d_model} | ({} if tokens is None else {"this sentence": tokens})
    for name in marks:
        assert first <= spans[name][0] <= last + 0.01
    for (name, one), (other_name, other) in combinations(marks.items(), 2):
        places = [spans[each][0] - first for each in (name, other_name)]
        assert places[0] * other == pytest.approx(places[1] * one, abs=0.011 * (one + other))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_smoothed_target_is_what_the_loss_compares_with(smoothing):
    size = 7
    target = smoothed_target(smoothing, size)
    assert target.gold + target.other * target.others == pytest.approx(1)
    log_probs = torch.randn(1, size, dtype=torch.float64).log_softmax(-1)
    distribution = torch.full((size,), target.other, dtype=torch.float64)
    distribution[3] = target.gold
    loss, _ = LabelSmoothedCrossEntropy(smoothing)(log_probs, torch.tensor([3]))
    assert float(loss) == pytest.approx(-float(distribution @ log_probs[0]))
    best, _ = LabelSmoothedCrossEntropy(smoothing)(distribution.log()[None], torch.tensor([3]))
    if smoothing:
        assert target.entropy == pytest.approx(float(best))
    other = tensor2tensor_target(smoothing * (size - 1) / size, size)
    assert (other.gold, other.other) == pytest.approx((target.gold, target.other))


def test_both_layouts_of_positions_hold_the_same_numbers():
    interleaved, halves = sinusoid_table(9, 16), sinusoid_table(9, 16, "sinusoidal-halves")
    assert np.array_equal(np.concatenate([interleaved[:, ::2], interleaved[:, 1::2]], 1), halves)


def test_products_of_positions_are_symmetric_and_fall_with_the_distance_but_not_at_every_step():
    shares = products(60, 64)
    assert np.array_equal(shares, shares.T)
    for places in range(60):
        np.testing.assert_allclose(shares.diagonal(places), shares[0, places], atol=1e-5)
    assert (np.diff(shares[0, :5]) < 0).all()
    assert (np.diff(shares[0]) > 0).any()


@given(st.integers(1, 600), st.none() | st.integers(1, 2000))
def test_each_row_of_table_1_has_its_curve_and_no_two_names_lie_on_each_other(d_model, tokens):
    root = ElementTree.fromstring(complexity(d_model, tokens))
    names = [name for name, _, _ in CURVES]
    assert len(names) == len(TABLE_1) == len({each[0].text for each in root.iter() if len(each)} & {*names})
    heights = [float(each.get("y")) for each in root.iter() if each.text in names and each.get("x") == "604"]
    assert len(heights) == len(names)
    assert all(abs(one - other) >= 15.9 for one, other in combinations(heights, 2))


def test_self_attention_has_fewer_operations_below_d_tokens():
    for n in range(1, 40):
        assert (self_attention_operations(n, 20) < recurrent_operations(n, 20)) == (n < 20)


def test_table_1_counts_the_tokens_that_the_encoder_reads(figure, trained, tmp_path):
    assert figure("complexity", trained / "run", SENTENCE, "--out", tmp_path / "x.svg")[0] == 0
    shown, tokens = texts((tmp_path / "x.svg").read_text()), len(SENTENCE.split()) + 1
    d_model = read_settings(trained / "run" / "model").d_model
    assert f"For this sentence, n = {tokens} tokens" in shown
    for row in CURVES:
        assert f"{row[2](tokens, d_model):,.0f}" in shown


@pytest.mark.parametrize("tokens", [2, 5, 9])
def test_path_lengths_are_those_of_the_measured_table_1(tokens):
    measured_layers = {row.name: row for row in ROWS}
    for name, layer in (("self-attention", self_attention_layer), ("recurrent (LSTM)", recurrent_layer)):
        assert longest_path(layer(tokens), tokens) == distance(measured_layers[name], tokens).path
    assert len(recurrent_layer(tokens).states) == tokens - 1
    assert len(self_attention_layer(tokens).reads) == tokens**2


def test_label_smoothing_of_a_run_is_that_of_its_recipe(figure, trained, tmp_path):
    for run, words in (
        (trained / "run", "run's recipe"),
        (trained / "run" / "model", "a model folder does not"),
    ):
        assert figure("label-smoothing", run, "--out", tmp_path / "x.svg")[0] == 0
        assert words in " ".join(texts((tmp_path / "x.svg").read_text()))

"""The effect of a head is that of a model whose W^O does not read it."""

import copy
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from dragoman.inspection.analyse.ablation import HeadEffects, head_effects, pair_effects, translated_pairs
from dragoman.inspection.analyse.mean_effects import (
    CONFIDENCE,
    MIN_LINES,
    RESAMPLES,
    Interval,
    MeanHeadEffects,
    interval,
    mean_effects_json,
    mean_head_effects,
)
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.projections import record_projections
from dragoman.inspection.record.recording import attentions
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.drawing import decimal
from dragoman.inspection.views.heads import head_effects_picture, mean_effects_picture
from dragoman.search.attention_weights import cross_attention_modules, record_attention
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.translator import Translator
from tests.conftest import MODELS
from tests.test_inspection import LINES, SETTINGS, TRANSFORMERS, translator_of
from tests.test_pictures import fake, opacity

KINDS = {
    "encoder": "encoder.{}.self_attention",
    "decoder": "decoder.{}.self_attention",
    "cross": "decoder.{}.cross_attention",
}


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


@pytest.mark.short_form(1)
def test_without_a_head_its_columns_of_the_output_matrix_are_zero(translator):
    found = inspect(translator, LINES[0], SETTINGS[0])
    pair = LINES[0], found.target
    effects = head_effects(translator, *pair)
    assert effects.log_probability == pytest.approx(found.log_probability, abs=1e-5)
    settings = found.model
    for kind, name in KINDS.items():
        layers = settings.encoder_layers if kind == "encoder" else settings.decoder_layers
        assert getattr(effects, kind).shape == (layers, settings.heads)
        for layer in range(layers):
            for head in range(settings.heads):
                other = copy.deepcopy(one_transformer(translator))
                width = settings.value_width
                with torch.no_grad():
                    weight = attentions(other)[name.format(layer)].output.weight
                    weight[:, head * width : (head + 1) * width] = 0
                changed = type(translator).from_model(other, translator.tokenizers)
                (score,) = changed.score([pair])
                expected = score.log_probability - effects.log_probability
                assert getattr(effects, kind)[layer, head] == pytest.approx(expected, abs=1e-4)


def test_afterwards_the_model_is_as_before(translator):
    (before,) = translator.score([(LINES[0], LINES[1])])
    head_effects(translator, LINES[0], LINES[1])
    assert translator.score([(LINES[0], LINES[1])]) == [before]
    assert not any(module._forward_pre_hooks for module in one_transformer(translator).modules())


@pytest.mark.short_form(1)
def test_the_effects_on_many_pairs_are_those_on_each(translator):
    pairs = [(line, other) for line, other in zip(LINES, LINES[::-1], strict=True)]
    told = []
    whole, effects = pair_effects(translator, pairs, lambda *counts: told.append(counts))
    heads = sum(rows[0].size for rows in effects.values())
    assert told == [(done, heads) for done in range(1, heads + 1)]
    for number, pair in enumerate(pairs):
        alone = head_effects(translator, *pair)
        assert whole[number] == pytest.approx(alone.log_probability, abs=1e-4)
        for use, rows in effects.items():
            np.testing.assert_allclose(rows[number], getattr(alone, use), atol=1e-4)


@pytest.mark.short_form(1)
def test_records_of_another_thread_are_not_copied(translator):
    model = one_transformer(translator)
    alone = head_effects(translator, LINES[0], LINES[1])
    with (
        record_projections(model),
        record_attention(cross_attention_modules(model)),
        ThreadPoolExecutor(1) as other,
    ):
        meanwhile = other.submit(head_effects, translator, LINES[0], LINES[1]).result()
    for kind in KINDS:
        np.testing.assert_array_equal(getattr(meanwhile, kind), getattr(alone, kind))
    assert alone.cross.any()


@pytest.mark.parametrize("sentence", [" ", "\u200b"])
def test_a_blank_sentence_gets_a_sentence(translator, sentence):
    with pytest.raises(DragomanError, match="The sentence is blank"):
        head_effects(translator, sentence, LINES[0])
    with pytest.raises(DragomanError, match="All lines of the file are blank"):
        mean_head_effects(translator, [sentence, ""], SETTINGS[0])


def test_the_picture_has_a_number_for_each_head(translator):
    found = inspect(translator, LINES[0], SETTINGS[0])
    effects = head_effects(translator, LINES[0], found.target)
    root = ElementTree.fromstring(head_effects_picture(found, effects))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    for kind in KINDS:
        assert all(decimal(change, 3, "+") in texts for change in getattr(effects, kind).flatten().tolist())


def test_the_translations_of_lines_are_the_best_ones_or_those_of_minimum_bayes_risk(translator):
    sampling = SearchSettings(max_extra_tokens=3, temperature=1.0, n_best=5)
    for settings in (replace(sampling, mbr=True), SearchSettings(max_extra_tokens=3, n_best=3)):
        pairs = translated_pairs(translator, LINES, settings)
        target = translator.tokenizers.target
        texts = [translator.detokenize(target.ids(tokens)) for _, tokens in pairs]
        assert texts == translator.translate(LINES, settings)
    with pytest.raises(DragomanError, match="with truncate 2 the search reads only a part of it"):
        translated_pairs(translator, LINES, SearchSettings(truncate=2))


@pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")
def test_the_scored_lines_are_those_that_were_translated(translator):
    model, settings = translator.torch_backend.model, SearchSettings(max_extra_tokens=3)
    trained_on_short = Translator.from_model(model, translator.tokenizers, longest_trained=4)
    pairs = translated_pairs(trained_on_short, LINES, settings)
    scored = [each.log_probability for each in trained_on_short.score(pairs)]
    found = trained_on_short.n_best(LINES, replace(settings, split=0))
    assert scored == pytest.approx([best[0].log_probability for best in found])
    for changed in ({"split": 4}, {"keep_tags": True}):
        with pytest.raises(
            DragomanError, match=r"is of the whole line as it is, which \w+ excludes; leave it out"
        ):
            translated_pairs(translator, LINES, replace(settings, **changed))


def drawn_tables(svg):
    """Of each kind of attention, by layer and head, the class and the opacity of a cell and its texts."""
    kinds, cells, shapes, head, layer = [], {}, [], {}, None
    for each in ElementTree.fromstring(svg).iter():
        tag, text = each.tag.rpartition("}")[2], each.text or ""
        if tag == "rect":
            shapes.append(each)
        elif tag != "text":
            continue
        elif text in KIND_NAMES.values():
            kinds.append(next(kind for kind, name in KIND_NAMES.items() if name == text))
            head = {}
        elif text.startswith("head "):
            head[each.get("x")] = int(text.removeprefix("head "))
        elif text.startswith("layer "):
            layer = int(text.removeprefix("layer ")), float(each.get("y"))
        elif each.get("x") in head and layer is not None:
            assert abs(float(each.get("y")) - layer[1]) < 20  # beside the layer's name, or below that
            place = kinds[-1], layer[0], head[each.get("x")]
            cell = cells.setdefault(place, [shapes[-1].get("class"), opacity(shapes[-1])])
            cell.append((text, each.get("font-weight") is not None))
    return cells


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-2, 0.0]))
@effort(max_examples=20)
def test_each_change_is_in_the_cell_of_its_layer_and_head(seed, size):
    random = np.random.default_rng(seed)
    tables = [random.normal(0, size, (layers, 2)).astype(np.float32) for layers in (2, 3, 3)]
    effects, found = HeadEffects(-1.25, *tables), fake()
    svg, largest = head_effects_picture(found, effects), max(float(np.abs(each).max()) for each in tables)
    expected = {}
    for kind, table in zip(KINDS, tables, strict=True):
        for (layer, head), change in np.ndenumerate(table):
            cell = ["fill-negative" if change < 0 else "fill-positive"]
            cell.append(pytest.approx(abs(float(change)) / (largest or 1), abs=0.0051))
            expected[kind, layer + 1, head + 1] = [*cell, (decimal(float(change), 3, "+"), False)]
    assert drawn_tables(svg) == expected
    drawn = [each for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
    rows = [float(each.get("y")) for each in drawn if re.match(r"(head|layer) \d", each.text)]
    assert rows == sorted(rows)
    texts = [each.text for each in drawn]
    assert any("With all heads it is −1.250." in text for text in texts)
    place = texts.index("change of log-probability, nats")
    assert texts[place + 1 : place + 4] == [decimal(-(largest or 1)), "0", decimal(largest or 1, sign="+")]


@given(st.integers(0, 2**32 - 1), st.integers(50, 200))
@effort(max_examples=10)
def test_an_interval_is_as_wide_as_that_of_a_mean_of_normal_numbers(seed, lines):
    effects = np.random.default_rng(seed).normal(1, 2, (lines, 8, 8)).astype(np.float32)
    measured = interval(effects)
    error = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * effects.std(0) / np.sqrt(lines)
    assert measured.mean == pytest.approx(effects.mean(0))
    for width in (measured.mean - measured.low, measured.high - measured.mean):
        assert float((width / error).mean()) == pytest.approx(1, abs=0.06)


@given(st.integers(0, 2**32 - 1))
@effort(max_examples=20)
def test_each_mean_is_in_the_cell_of_its_layer_and_head_above_its_interval(seed):
    random, tables = np.random.default_rng(seed), []
    for layers in (2, 3, 3):
        low, mean, high = np.sort(random.normal(0, 1, (3, layers, 2)), 0).astype(np.float32)
        tables.append(Interval(mean, low, high))
    svg = mean_effects_picture(MeanHeadEffects(MIN_LINES, -1.25, *tables))
    largest, expected = max(float(np.abs(each.mean).max()) for each in tables), {}
    for kind, table in zip(KINDS, tables, strict=True):
        for (layer, head), mean in np.ndenumerate(table.mean):
            low, high = table.low[layer, head], table.high[layer, head]
            numbers = [decimal(float(each), 3, "+") for each in (mean, low, high)]
            expected[kind, layer + 1, head + 1] = [
                "fill-negative" if mean < 0 else "fill-positive",
                pytest.approx(abs(float(mean)) / largest, abs=0.0051),
                (numbers[0], bool(low > 0 or high < 0)),
                (f"{numbers[1]} to {numbers[2]}", False),
            ]
    assert drawn_tables(svg) == expected
    texts = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
    assert any("With all heads the mean is −1.250." in text for text in texts)
    assert any(f"Below each mean is its {CONFIDENCE:.0%} interval" in text for text in texts)
    place = texts.index("mean change of log-probability, nats")
    assert texts[place + 1 : place + 4] == [decimal(-largest), "0", decimal(largest, sign="+")]


def test_the_data_of_means_have_each_number_and_what_the_intervals_are():
    random = np.random.default_rng(1)
    tables = [Interval(*random.normal(size=(3, layers, 2))) for layers in (2, 3, 3)]
    table = mean_effects_json(MeanHeadEffects(7, -1.25, *tables))
    for kind, each in zip(KINDS, tables, strict=True):
        assert table[kind] == {name: array.tolist() for name, array in vars(each).items()}
    assert (table["lines"], table["log_probability"]) == (7, -1.25)
    assert (table["confidence"], table["resamples"]) == (CONFIDENCE, RESAMPLES)

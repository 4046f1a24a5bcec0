"""An enriched model is shown as it computed; what it lacks gets a sentence."""

import copy
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from dragoman.inspection.analyse.ablation import head_effects
from dragoman.inspection.analyse.changes import parse_changes
from dragoman.inspection.inspect import inspect
from dragoman.inspection.views.enriched_pictures import LACKING
from dragoman.inspection.views.pictures import Picture
from dragoman.inspection.what_if import inspect_changed
from dragoman.model.attention import MultiHeadAttention
from dragoman.search.attention_weights import cross_attention
from dragoman.system.errors import DragomanError
from tests.browser import browser  # noqa: F401
from tests.conftest import VARIANTS
from tests.test_inspection import LINES, SETTINGS, translator_of
from tests.test_report import assert_accessible, open_report, tab  # noqa: F401
from tests.test_what_if import same

LINE, SEARCH = LINES[0], SETTINGS[0]
SAMPLING = replace(SEARCH, temperature=1.0, n_best=3)
KINDS = ["lstm, enriched", pytest.param("gru, enriched", marks=pytest.mark.long), "conv, enriched"]


@pytest.fixture(scope="module", params=KINDS)
def translator(request):
    return translator_of(VARIANTS[request.param])


@pytest.fixture(scope="module")
def lstm():
    return translator_of(VARIANTS["lstm, enriched"])


def model_of(translator):
    return translator.torch_backend.model


@pytest.mark.short_form(3)
@pytest.mark.parametrize("settings", [*SETTINGS, SAMPLING], ids=["beam", "greedy", "groups", "prefix", "mc"])
def test_the_translation_and_its_search_are_the_ordinary_ones(translator, settings):
    found = inspect(translator, LINE, settings)
    best = translator.n_best([LINE], settings)[0][0]
    assert (found.translation, found.target[:-1]) == (best.text, best.tokens)
    assert (found.log_probability, found.score) == pytest.approx((best.log_probability, best.score))
    for row, parent in zip(found.lens[-1], found.best_path[:-1], strict=True):
        assert row == found.candidates[parent]


def test_weights_and_alignment_are_those_of_forced_decoding(translator):
    found = inspect(translator, LINE, SEARCH)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    forced = cross_attention(model_of(translator), *(torch.tensor([side.ids(row)]) for side, row in sides))
    np.testing.assert_allclose(found.attention.cross, forced[:, 0].float(), atol=1e-6)
    assert found.attention.encoder.shape[0] == found.attention.decoder.shape[0] == 0


def test_the_weights_shown_are_those_that_were_multiplied_with_values(lstm, monkeypatch):
    products, attend = [], MultiHeadAttention.attend

    def watched(self, query, memory, mask=None, causal=False):
        weights, record = [], self.attention_weights_hook
        self.attention_weights_hook = lambda given: (weights.append(given), record(given))
        output = attend(self, query, memory, mask, causal)
        self.attention_weights_hook = record
        heads = (weights[0] @ memory.values).transpose(1, 2).flatten(2)
        products.append((self.output(heads), output))
        return output

    monkeypatch.setattr(MultiHeadAttention, "attend", watched)
    inspect(lstm, LINE, SEARCH)
    assert products
    assert all(torch.equal(expected, output) for expected, output in products)


def test_the_stream_is_the_sum_of_its_parts(translator):
    found, settings = inspect(translator, LINE, SEARCH), model_of(translator).settings
    source, target = len(found.source), len(found.target)
    assert found.stream.encoder.shape == (settings.encoder_layers + 1, source)
    assert found.stream.encoder_sublayers.shape == (settings.encoder_layers, 2, source)
    assert found.stream.decoder.shape == (settings.decoder_layers + 1, target)
    assert found.stream.decoder_sublayers.shape == (settings.decoder_layers, 3, target)
    if settings.norm == "pre":  # the triangle inequality: a sum is not longer than its parts
        for side in ("encoder", "decoder"):
            norms, parts = getattr(found.stream, side), getattr(found.stream, f"{side}_sublayers")
            assert (norms[1:] <= norms[:-1] + parts.sum(1) + 1e-5).all()
    assert sum(each.parameters for each in found.modules) == sum(
        weight.numel() for weight in model_of(translator).parameters()
    )


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_off_is_a_model_without_it(translator, side):
    layers = len(getattr(model_of(translator), side))
    found = inspect_changed(translator, LINE, parse_changes([f"{side}.{layers}=off"]), SEARCH)
    model = copy.deepcopy(model_of(translator))
    del getattr(model, side)[layers - 1]
    expected = inspect(type(translator).from_model(model, translator.tokenizers), LINE, SEARCH)
    assert (found.nodes, found.translation) == (expected.nodes, expected.translation)


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("cross.1.2=off", "decoder.0.cross_attention.output"),
        ("decoder.1.cross_attention=off", "decoder.0.cross_attention.output"),
        ("encoder.1.feed_forward=off", "encoder.0.feed_forward.outer"),
        ("positions=off", "source_positions"),
    ],
)
def test_a_part_off_is_a_model_whose_weights_are_zero(change, part):
    translator = translator_of(VARIANTS["conv, enriched"])
    model = copy.deepcopy(model_of(translator))
    width = model.decoder[0].cross_attention.widths[2] // 2
    with torch.no_grad():
        for weight in model.get_submodule(part).parameters():
            (weight[:, width:] if change == "cross.1.2=off" else weight).zero_()
        if part == "source_positions":
            model.target_positions.table.zero_()
    found = inspect_changed(translator, LINE, parse_changes([change]), SEARCH)
    assert same(found, inspect(type(translator).from_model(model, translator.tokenizers), LINE, SEARCH))
    assert same(inspect(translator, LINE, SEARCH), inspect(translator, LINE, SEARCH))


@pytest.mark.parametrize(("change", "heads"), [("cross.1=uniform", [0, 1]), ("cross.1.2=uniform", [1])])
def test_uniform_attention_gives_each_key_the_same_weight(lstm, change, heads):
    found = inspect_changed(lstm, LINE, parse_changes([change]), SEARCH)
    np.testing.assert_allclose(found.attention.cross[0, heads], 1 / len(found.source), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("encoder.1.1=off", "encoder.1.1=off: this model has no self-attention. What can be changed in it"),
        ("decoder.1.self_attention=off", "has no self-attention"),
        ("cross.1.9=off", "there is no head 9; this model has 2 in a layer"),
        ("cross.1.9=uniform", "there is no head 9; this model has 2 in a layer"),
        ("decoder.9=off", "there is no layer 9; this model has 2 decoder layers"),
        ("cross.9=uniform", "there is no layer 9; this model has 2 decoder layers"),
    ],
)
def test_a_change_of_a_part_that_it_lacks_gets_a_sentence(lstm, change, message):
    with pytest.raises(DragomanError, match=message):
        inspect_changed(lstm, LINE, parse_changes([change]), SEARCH)


def test_it_is_drawn_and_what_it_lacks_gets_a_sentence(translator):
    found = inspect(translator, LINE, SEARCH)
    for view in get_args(Picture):
        if view in LACKING:
            with pytest.raises(DragomanError, match=f"in the place of self-attention, and no view '{view}'"):
                found.svg(view)
        else:
            assert found.svg(view).startswith("<svg")
    for name in ("encoder.0.token_mixer", "decoder.0.token_mixer", "decoder.0.cross_attention"):
        (count,) = {each.parameters for each in found.modules if each.name == name}
        assert f"{count:,} parameters" in found.svg("model")
    with pytest.raises(DragomanError, match="ConvS2S or enriched model"):
        head_effects(translator, LINE, LINES[1])


@pytest.mark.parametrize(
    ("kind", "positions"),
    [("lstm, enriched", []), pytest.param("conv, enriched", ["Positions"], marks=pytest.mark.long)],
)
def test_the_page_shows_its_views(open_report, kind, positions):  # noqa: F811
    page = open_report(inspect(translator_of(VARIANTS[kind]), LINE, SEARCH), "dark", 360)
    names = ["Beam", "Attention", "Embeddings", *positions, "Residual stream", "Neurons", "Model"]
    assert page.get_by_role("tab").all_inner_texts() == names
    for name in names[1:]:
        tab(page, name)
        page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{name}')")
    assert_accessible(page)  # of the last, which is drawn for these models alone
    title = "Convolution with GLU" if positions else "Bidirectional LSTM"
    assert page.get_by_text(title).first.is_visible()

"""A ConvS2S is shown as it computed: attention, stream, lens, changes; what it lacks gets a sentence."""

import copy
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from dragoman.inspection.analyse.ablation import head_effects
from dragoman.inspection.analyse.changes import parse_changes
from dragoman.inspection.inspect import inspect
from dragoman.inspection.schema import to_json
from dragoman.inspection.views.convolutional_pictures import LACKING
from dragoman.inspection.views.pictures import Picture
from dragoman.inspection.what_if import inspect_changed
from dragoman.model.convolutional import HALF, MultiStepAttention
from dragoman.model.symbols import END
from dragoman.search.attention_weights import cross_attention
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.translation.model_folder import save_model
from tests.browser import browser  # noqa: F401
from tests.conftest import MODELS, VARIANTS
from tests.servers import serving
from tests.test_inspection import LINES, SETTINGS, translator_of
from tests.test_report import assert_accessible, open_report, tab  # noqa: F401
from tests.test_what_if import same

LINE, SEARCH = LINES[0], SETTINGS[0]
SAMPLING = replace(SEARCH, temperature=1.0, n_best=3)


@pytest.fixture(scope="module", params=["conv", "conv, dilated"])
def translator(request):
    return translator_of((MODELS | VARIANTS)[request.param])


@pytest.fixture(scope="module")
def conv():
    return translator_of(MODELS["conv"])


def model_of(translator):
    return translator.torch_backend.model


@pytest.mark.short_form(3)
@pytest.mark.parametrize("settings", [*SETTINGS, SAMPLING], ids=["beam", "greedy", "groups", "prefix", "mc"])
def test_the_translation_and_its_search_are_the_ordinary_ones(translator, settings):
    found = inspect(translator, LINE, settings)
    best = translator.n_best([LINE], settings)[0][0]
    assert (found.translation, found.target[:-1]) == (best.text, best.tokens)
    assert (found.log_probability, found.score) == pytest.approx((best.log_probability, best.score))
    if not settings.temperature:
        trace = translator.trace(LINE, settings)
        assert [(node.parent, node.token, node.end) for node in found.nodes] == [
            (node.parent, node.token, node.end) for node in trace
        ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_weights_shown_are_those_that_were_multiplied_with_values(conv, monkeypatch, dtype):
    calls, model = [], copy.deepcopy(model_of(conv)).to(dtype)
    forward = MultiStepAttention.forward

    def watched(self, x, embedded, state):
        weights, record = [], self.attention_weights_hook
        self.attention_weights_hook = lambda given: (weights.append(given), record(given))
        output = forward(self, x, embedded, state)
        self.attention_weights_hook = record
        calls.append((self, weights[0], x, state.values, output))
        return output

    monkeypatch.setattr(MultiStepAttention, "forward", watched)
    found = inspect(type(conv).from_model(model, conv.tokenizers), LINE, SEARCH)
    for module, weights, x, values, output in calls:
        expected = (x + module.output(weights[:, 0] @ values).view_as(x)) * HALF
        if dtype == torch.float64:
            assert torch.equal(expected, output)
        torch.testing.assert_close(expected, output, atol=1e-6, rtol=1e-6)
    for layer, block in enumerate(model.decoder):
        own = [weights[0, 0].float().numpy() for each, weights, *_ in calls if each is block.attention]
        for token, shown in enumerate(found.attention.cross[layer, 0]):
            assert any(np.array_equal(shown, row) for row in own[token])


def test_weights_and_alignment_are_those_of_forced_decoding(translator):
    found = inspect(translator, LINE, SEARCH)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    forced = cross_attention(model_of(translator), *(torch.tensor([side.ids(row)]) for side, row in sides))
    np.testing.assert_allclose(found.attention.cross, forced[:, 0].float(), atol=1e-6)
    np.testing.assert_allclose(found.attention.cross.sum(-1), 1, atol=1e-5)


def test_stream_and_lens_are_those_of_the_layers(translator):
    found, settings = inspect(translator, LINE, SEARCH), model_of(translator).settings
    source, target = len(found.source), len(found.target)
    assert found.stream.encoder.shape == (settings.encoder_layers + 1, source)
    assert found.stream.encoder_sublayers.shape == (settings.encoder_layers, 1, source)
    assert found.stream.decoder.shape == (settings.decoder_layers + 1, target)
    assert found.stream.decoder_sublayers.shape == (settings.decoder_layers, 2, target)
    for side in ("encoder", "decoder"):  # the triangle inequality: a sum is not longer than its parts
        norms, parts = getattr(found.stream, side), getattr(found.stream, f"{side}_sublayers")
        assert (norms[1:] <= HALF * (norms[:-1] + parts.sum(1)) + 1e-5).all()
    for row, parent in zip(found.lens[-1], found.best_path[:-1], strict=True):
        assert row == found.candidates[parent]
    assert sum(each.parameters for each in found.modules) == sum(
        weight.numel() for weight in model_of(translator).parameters()
    )


def test_the_norms_of_the_stream_are_those_of_forced_decoding(translator):
    """Of what each part adds to a block's sum, and of the inputs and the outputs of the blocks."""
    found, model = inspect(translator, LINE, SEARCH), model_of(translator)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    source, target = (torch.tensor([side.ids(tokens)]) for side, tokens in sides)
    given = {}

    def keep(name, module):
        def hook(_module, _inputs, output):
            given[name] = (output[0] if isinstance(output, tuple) else output)[0].norm(dim=-1).numpy()

        return module.register_forward_hook(hook)

    handles = []
    for side in ("encoder", "decoder"):
        handles.append(keep((side, 0), model.get_submodule(f"{side}_input")))
        for layer, block in enumerate(getattr(model, side)):
            handles.append(keep((side, layer + 1), block))
            handles.append(keep((side, layer, "convolution"), block.convolution))
            if side == "decoder":
                handles.append(keep((side, layer, "attention"), block.attention.output))
    with torch.no_grad():
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    for handle in handles:
        handle.remove()
    for side, factor, names in (
        ("encoder", 1.0, ["convolution"]),
        ("decoder", HALF, ["convolution", "attention"]),
    ):
        norms, parts = getattr(found.stream, side), getattr(found.stream, f"{side}_sublayers")
        for layer, row in enumerate(norms):
            np.testing.assert_allclose(row, given[side, layer], rtol=1e-5)
        for layer, rows in enumerate(parts):
            for row, name in zip(rows, names, strict=True):
                np.testing.assert_allclose(row, factor * given[side, layer, name], rtol=1e-5)


def test_the_positions_are_what_is_added_to_the_embeddings(translator):
    found, model = inspect(translator, LINE, SEARCH), model_of(translator)
    ids = torch.full((1, len(found.positions)), END)
    with torch.no_grad():
        table = model.target_positions(0, ids.size(1))
        added = model.embed(ids, model.target_embedding, table) - model.target_embedding(ids)
    np.testing.assert_allclose(found.positions, added[0].float().numpy(), atol=1e-6)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_off_is_a_model_without_it(translator, side):
    layers = len(getattr(model_of(translator), side))
    found = inspect_changed(translator, LINE, parse_changes([f"{side}.{layers}=off"]), SEARCH)
    model = copy.deepcopy(model_of(translator))
    del getattr(model, side)[layers - 1]
    expected = inspect(type(translator).from_model(model, translator.tokenizers), LINE, SEARCH)
    assert (found.nodes, found.translation) == (expected.nodes, expected.translation)
    np.testing.assert_array_equal(*getattr(found.stream, side)[-2:])


@pytest.mark.parametrize("change", ["decoder.1.cross_attention=off", "positions=off"])
def test_a_part_off_is_a_model_whose_weights_are_zero(conv, change):
    model = copy.deepcopy(model_of(conv))
    parts = [model.source_positions, model.target_positions]
    parts = parts if change == "positions=off" else [model.decoder[0].attention.output]
    with torch.no_grad():
        for weight in (weight for part in parts for weight in part.parameters()):
            weight.zero_()
    found = inspect_changed(conv, LINE, parse_changes([change]), SEARCH)
    assert same(found, inspect(type(conv).from_model(model, conv.tokenizers), LINE, SEARCH))
    assert same(inspect(conv, LINE, SEARCH), inspect(conv, LINE, SEARCH))


def test_uniform_attention_gives_each_key_the_same_weight(translator):
    found = inspect_changed(translator, LINE, parse_changes(["cross.1=uniform"]), SEARCH)
    np.testing.assert_allclose(found.attention.cross[0], 1 / len(found.source), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cross.1.1=off", "cross.1.1=off: this model is a ConvS2S, which has no such part. What can be"),
        ("encoder.1.self_attention=off", "which has no such part"),
        ("decoder.1=uniform", "which has no such part"),
        ("decoder.9=off", "there is no layer 9; this model has 2 decoder layers"),
    ],
)
def test_a_change_of_a_part_that_it_lacks_gets_a_sentence(conv, change, message):
    with pytest.raises(DragomanError, match=message):
        inspect_changed(conv, LINE, parse_changes([change]), SEARCH)


def test_it_is_drawn_and_what_it_lacks_gets_a_sentence(translator):
    found = inspect(translator, LINE, SEARCH)
    for view in get_args(Picture):
        if view in LACKING:
            with pytest.raises(DragomanError, match=f"a ConvS2S, which has {LACKING[view]}; ask for beam, "):
                found.svg(view)
        else:
            assert found.svg(view).startswith("<svg")
    assert to_json(found)["projections"] == {}
    for name in ("encoder.0.convolution", "decoder.0.attention"):
        (count,) = {each.parameters for each in found.modules if each.name == name}
        assert f"{count:,} parameters" in found.svg("model")


def test_effects_of_heads_get_a_sentence(conv):
    with pytest.raises(DragomanError, match="ConvS2S or enriched model. has no self-attention"):
        head_effects(conv, LINE, LINES[1])


def test_the_page_shows_its_views(open_report, conv):  # noqa: F811
    page = open_report(inspect(conv, LINE, SEARCH), "dark", 360)
    names = ["Beam", "Attention", "Embeddings", "Positions", "Residual stream", "Model"]
    assert page.get_by_role("tab").all_inner_texts() == names
    for name in names[1:]:
        tab(page, name)
        page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{name}')")
        assert_accessible(page)


def test_a_server_switches_its_attention_and_layers_off(browser, conv, tmp_path):  # noqa: F811
    model = copy.deepcopy(model_of(conv)).float()
    save_model(tmp_path / "conv", model, model.settings, conv.tokenizers)
    with serving(tmp_path / "conv") as server:
        page = browser.new_page()
        page.goto(f"{server.address}/inspect#text=two")
        page.get_by_role("tab", name="Attention").click()
        shown = page.get_by_role("region", name="The head").locator("h3").first.inner_text()
        layer = shown.split(",")[0].removeprefix("Layer ")
        page.get_by_role("button", name="Switch this attention off").press("Enter")
        page.wait_for_selector(".compare")
        change = f"decoder.{layer}.cross_attention=off"
        assert page.locator("code:not(.lab code)").all_inner_texts() == [change]
        page.get_by_role("combobox", name="What").select_option("Encoder")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("code bdi:text-is('encoder.1=off')")
        offered = page.get_by_role("combobox", name="What").locator("option").all_inner_texts()
        assert offered[:4] == ["Encoder-decoder attention", "Encoder", "Decoder", "Positional encoding"]
        page.close()

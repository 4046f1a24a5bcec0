"""Neurons: the activations shown are the numbers that the second linear map was multiplied by."""

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from dragoman import SearchSettings
from dragoman.inspection import report
from dragoman.inspection.contents import SizeLimits, contents
from dragoman.inspection.inspect import inspect, recorded_search
from dragoman.inspection.record.inspected import one_model
from dragoman.inspection.record.neurons import SIDES, most_active, most_active_of_layer
from dragoman.inspection.schema import MAX_ACTIVE, array_from_json, to_json
from dragoman.inspection.views.drawing import decimal
from dragoman.inspection.views.neurons_picture import MAX_WIDTH, NEURONS
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import FeedForward
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.translation.analysis import source_and_constraints
from tests.browser import browser  # noqa: F401
from tests.conftest import MODELS, no_shape_checks
from tests.test_inspection import LINES, translator_of
from tests.test_pictures import fake
from tests.test_report import assert_accessible, fake_inspection, open_report, tab  # noqa: F401

ENRICHED = {
    name: ModelSettings(architecture=name, d_model=12, d_ff=20, heads=3, encoder_layers=2, decoder_layers=2)
    for name in ("gru-enriched", "conv-enriched")
}
WITH_NEURONS = {name: each for name, each in MODELS.items() if name.startswith("transformer")} | ENRICHED
SEARCHES = {
    "beam": SearchSettings(max_extra_tokens=3),
    "samples": SearchSettings(max_extra_tokens=3, temperature=1.0, n_best=3),
}


@pytest.fixture(scope="module", params=WITH_NEURONS)
def translator(request):
    return translator_of(WITH_NEURONS[request.param])


def feed_forwards(model, side):
    """The feed-forward sub-layers of a side by layer."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, FeedForward) and name.startswith(side)
    ]


# ---- the numbers


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
@no_shape_checks()
def test_the_outputs_of_the_sub_layers_follow_from_the_activations(translator, settings):
    source, constraints = source_and_constraints(translator, LINES[0], settings)
    search = recorded_search(translator, source, settings, constraints)
    neurons, outputs = search.neurons(), search.recording.outputs
    for side in SIDES:
        for layer, module in enumerate(feed_forwards(one_model(translator), side)):
            shown = torch.from_numpy(neurons.of(side)[layer])
            made = outputs[f"{side}.{layer}.feed_forward"]
            output = made[0][0] if side == "encoder" else search.along(made)
            assert shown.dtype == output.dtype == torch.float64
            with torch.no_grad():
                again = linear(shown, module.outer.weight, module.outer.bias)
            torch.testing.assert_close(again, output, atol=1e-12, rtol=0)


@no_shape_checks()
def test_the_activations_are_those_of_forced_decoding(translator):
    found, model = inspect(translator, LINES[1], SEARCHES["beam"]), one_model(translator)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    source, target = (torch.tensor([side.ids(tokens)]) for side, tokens in sides)
    given = {side: [] for side in SIDES}
    handles = [
        module.outer.register_forward_pre_hook(lambda _, inputs, side=side: given[side].append(inputs[0][0]))
        for side in SIDES
        for module in feed_forwards(model, side)
    ]
    with torch.no_grad():
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    for handle in handles:
        handle.remove()
    for side in SIDES:
        np.testing.assert_allclose(found.neurons.of(side), torch.stack(given[side]), atol=1e-9)


def test_no_hook_stays(translator):
    inspect(translator, LINES[0], SEARCHES["beam"])
    assert not any(module._forward_pre_hooks for module in one_model(translator).modules())


@pytest.mark.parametrize("name", ["lstm", "conv"])
def test_a_model_without_feed_forward_sub_layers_has_no_neurons(name):
    found = inspect(translator_of(MODELS[name]), LINES[0], SEARCHES["beam"])
    assert found.neurons is None
    assert to_json(found)["neurons"] is None
    with pytest.raises(DragomanError, match="has no feed-forward sub-layers; ask for beam"):
        found.svg("neurons")


def test_the_most_active_have_the_greatest_absolute_values():
    rows = np.array([[[0.5, -2.0, 0.0, 1.0], [0.0, 0.25, 3.0, -0.5]]])  # [L P F]
    assert most_active(rows, 2).tolist() == [[[1, 3], [2, 3]]]
    assert most_active_of_layer(rows, 9).tolist() == [[2, 1, 3, 0]]
    assert most_active(np.zeros((1, 3)), 2).tolist() == [[0, 1]]


# ---- the data


@pytest.mark.parametrize("held", [None, 5])
def test_the_data_have_the_most_active_neurons(held):
    inspection = fake_inspection(6, 5, 2, 2, 16)
    table = to_json(inspection, replace(contents(inspection), neurons=held))["neurons"]
    for side in SIDES:
        exact, shown = inspection.neurons.of(side), table[side]
        layers, tokens, width = exact.shape
        assert shown["width"] == width
        np.testing.assert_allclose(shown["zeros"], (exact == 0).mean((1, 2)), atol=1e-4)
        values, places = array_from_json(shown), np.array(shown["neurons"]) - 1
        assert values.shape == (layers, held or width, tokens)
        for layer in range(layers):
            np.testing.assert_allclose(values[layer], exact[layer][:, places[layer]].T, atol=2e-3)
        greatest = exact.max(1)
        for layer in range(layers):
            others = np.delete(greatest[layer], places[layer])
            assert greatest[layer][places[layer]].min() >= others.max(initial=0)
        at_tokens = np.array(shown["active"]["neurons"]) - 1
        expected = np.take_along_axis(exact, at_tokens, -1)
        np.testing.assert_allclose(array_from_json(shown["active"]), expected, atol=2e-3)
        np.testing.assert_allclose(expected, -np.sort(-exact, -1)[..., :MAX_ACTIVE])


# ---- pictures


def texts(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]


def titles(svg):
    found = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]
    return [title.split("\n") for title in found if "\n" in title]


def test_a_picture_has_the_most_active_neuron_of_each_token():
    inspection = fake()
    drawn = titles(inspection.svg("neurons"))
    expected = []
    for side, tokens in (("encoder", inspection.source), ("decoder", inspection.target)):
        for place, token in enumerate(tokens):
            for layer, rows in enumerate(inspection.neurons.of(side)):
                unit = int(rows[place].argmax())
                expected.append([f"layer {layer + 1}", token, f"neuron {unit + 1}: {rows[place, unit]:.4f}"])
    assert drawn == expected


def test_a_picture_of_a_layer_has_its_most_active_neurons():
    inspection = fake()
    svg = inspection.svg("neurons", layer=2, kind="decoder")
    rows = inspection.neurons.decoder[1]
    order = np.argsort(-rows.max(0), kind="stable")[:NEURONS]
    assert titles(svg) == [
        [f"neuron {unit + 1}", token, f"{rows[place, unit]:.4f}"]
        for unit in order
        for place, token in enumerate(inspection.target)
    ]
    assert {decimal(float(value)) if value else "0" for value in rows[:, order].flat} <= {*texts(svg)}


def test_a_picture_of_a_neuron_has_its_activation_at_each_token_of_the_window():
    inspection = fake()
    svg = inspection.svg("neurons", layer=1, neuron=3, window=(2, 3))
    expected = [
        [token, f"{value:.4f}"]
        for side, tokens in (("encoder", inspection.source), ("decoder", inspection.target))
        for token, value in zip(tokens[1:3], inspection.neurons.of(side)[0, 1:3, 2], strict=True)
    ]
    assert titles(svg) == expected
    drawn = np.concatenate([inspection.neurons.of(side)[0, 1:3, 2] for side in ("encoder", "decoder")])
    assert {decimal(float(value)) for value in drawn} <= {*texts(svg)}
    assert "Only source tokens 2 to 3 of 4 are drawn." in " ".join(map(str, texts(svg)))


@pytest.mark.parametrize("count", [3, 40])
def test_a_line_has_as_many_tokens_of_a_neuron_as_fit_into_it(count):
    source = tuple(f"word{number}" for number in range(count))
    svg = fake(source=source).svg("neurons", layer=1, neuron=3, kind="encoder")
    cells = []
    for group in ElementTree.fromstring(svg).iter():
        shape = [each for each in group if each.tag.endswith("rect")]
        if shape and any(each.tag.endswith("title") and "\n" in each.text for each in group):
            left, top, width = (float(shape[0].get(name)) for name in ("x", "y", "width"))
            cells.append((top, left, left + width))
    assert cells == sorted(cells)
    assert len(cells) == count
    for (top, _, right), (next_top, left, next_right) in itertools.pairwise(cells):
        assert left > right if next_top == top else right + (next_right - left) > MAX_WIDTH - 4
    assert max(right for _, _, right in cells) <= MAX_WIDTH
    assert (len({top for top, _, _ in cells}) == 1) == (count == 3)


def test_negative_activations_are_drawn():
    known = fake(activation="gelu")
    encoder = known.neurons.encoder.copy()
    encoder[0, 1, 2] = -0.125
    inspection = replace(known, neurons=replace(known.neurons, encoder=encoder))
    svg = inspection.svg("neurons", layer=1, neuron=3, kind="encoder")
    assert ["▁man", "-0.1250"] in titles(svg)
    assert "−0.12" in texts(svg)
    assert 'class="fill-negative"' in svg


@pytest.mark.parametrize("negative", [False, True])
def test_the_legend_is_of_the_greatest_absolute_activation_that_is_drawn(negative):
    known = fake(activation="gelu")
    encoder = np.abs(known.neurons.encoder)
    encoder[0, 1, 2] = -9.5 if negative else 9.5
    encoder[1] *= 100  # of another layer
    drawn = texts(
        replace(known, neurons=replace(known.neurons, encoder=encoder)).svg(
            "neurons", layer=1, neuron=3, kind="encoder"
        )
    )
    place = drawn.index("activation (no unit)")
    ticks = ["−9.50"] * negative + ["0", "9.50"]
    assert drawn[place + 1 : place + 1 + len(ticks)] == ticks


def test_the_tokens_of_a_neuron_are_listed_by_absolute_activation_without_zeros():
    known, row = fake(activation="gelu"), [0.5, -2.0, 0.0, 1.0]
    encoder = known.neurons.encoder.copy()
    encoder[0, :, 2] = row
    svg = replace(known, neurons=replace(known.neurons, encoder=encoder)).svg(
        "neurons", layer=1, neuron=3, kind="encoder"
    )
    order = [place for place in np.argsort(-np.abs(row), kind="stable") if row[place]]
    listed = ", ".join(f"{known.source[place]} {decimal(row[place])}" for place in order)
    assert f"most active at: {listed}" in texts(svg)
    encoder[0, :, 2] = 0
    svg = replace(known, neurons=replace(known.neurons, encoder=encoder)).svg(
        "neurons", layer=1, neuron=3, kind="encoder"
    )
    assert "0 at all tokens that are drawn" in texts(svg)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "cross"}, "Neurons are those of the encoder or of the decoder"),
        ({"layer": 4}, "There is no layer 4; the encoder has 2 and the decoder has 3, counted from 1."),
        ({"layer": 3, "kind": "encoder"}, "There is no layer 3; the encoder has 2, counted from 1."),
        ({"layer": 0}, "There is no layer 0; "),
        ({"layer": 3, "neuron": 33}, "There is no neuron 33; a layer of the decoder has 32, counted from 1."),
        ({"layer": 1, "neuron": 0}, "There is no neuron 0; a layer of the encoder has 32 and a layer of the"),
    ],
)
def test_what_the_model_does_not_have_gets_a_sentence(asked, message):
    with pytest.raises(DragomanError, match=re.escape(message)):
        fake().svg("neurons", **asked)


def test_a_side_without_the_layer_is_left_out():
    drawn = texts(fake().svg("neurons", layer=3))
    assert "Decoder: positions that predict these target tokens" in drawn
    assert "Encoder: source tokens" not in drawn


# ---- the page


def test_the_page_shows_the_neurons_of_a_cell_and_one_at_all_tokens(open_report):  # noqa: F811
    inspection = fake_inspection(6, 5, 2, 2, 16)
    page = open_report(inspection)
    tab(page, "Neurons")
    page.get_by_role("button", name="Decoder", exact=True).click()
    rows = inspection.neurons.decoder[1]  # [T F]
    page.get_by_role("gridcell").nth(5 + 2).click()
    order = np.argsort(-rows[2], kind="stable")[:MAX_ACTIVE]
    panel = page.get_by_role("region", name="Neurons of a token")
    assert panel.locator("th").all_inner_texts() == [str(unit + 1) for unit in order]
    values = [float(each) for each in panel.locator("td:last-child").all_inner_texts()]
    np.testing.assert_allclose(values, rows[2, order], atol=2e-3)
    panel.get_by_role("button").nth(1).press("Enter")
    one = page.get_by_role("region", name="One neuron")
    assert one.locator("h3").inner_text() == f"Neuron {order[1] + 1} of layer 2"
    assert one.locator(".activations .token").all_inner_texts() == [*inspection.target]
    shown = [float(each) for each in one.locator("small").all_inner_texts()]
    np.testing.assert_allclose(shown, rows[:, order[1]], atol=6e-3)
    first = one.locator(".bars th").first.inner_text()
    assert first == inspection.target[int(rows[:, order[1]].argmax())]


def test_the_grid_of_neurons_is_used_by_keyboard(open_report):  # noqa: F811
    inspection = fake_inspection(6, 5, 2, 2, 16)
    page = open_report(inspection)
    tab(page, "Neurons")
    page.get_by_role("gridcell").first.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    unit = int(inspection.neurons.encoder[1, 1].argmax())
    one = page.get_by_role("region", name="One neuron")
    assert one.locator("h3").inner_text() == f"Neuron {unit + 1} of layer 2"


def test_a_neuron_that_a_file_does_not_have_gets_a_sentence(open_report, monkeypatch):  # noqa: F811
    monkeypatch.setattr(report, "FILE", SizeLimits(20_000, 20_000, 20_000, 2))
    inspection = fake_inspection(6, 5, 2, 2, 16)
    page = open_report(inspection, "dark", 360)
    tab(page, "Neurons")
    rows = inspection.neurons.encoder[0]
    held = most_active_of_layer(rows[None], 2)[0]
    at_first = set(most_active(rows, MAX_ACTIVE)[0])
    unit = next(unit for unit in most_active(rows, MAX_ACTIVE)[0] if unit not in held)
    field = page.get_by_label("Neuron", exact=True)
    field.fill(str(unit + 1))
    field.press("Tab")
    one = page.get_by_role("region", name="One neuron")
    assert "Only the 2 most active neurons of each layer are here with all tokens" in one.inner_text()
    assert f"--kind encoder --layer 1 --neuron {unit + 1}" in one.inner_text()
    known = [unit in most_active(rows, MAX_ACTIVE)[place] for place in range(len(rows))]
    shown = [text != "–" for text in one.locator("small").all_inner_texts()]
    assert shown == known
    assert unit in at_first
    assert_accessible(page)
    field.fill("999")
    field.press("Tab")
    assert one.locator("h3").inner_text() == "Neuron 64 of layer 1"

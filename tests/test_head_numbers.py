"""One head in numbers: each step that is shown gives the next one, as the model computed it."""

import math
from dataclasses import replace
from itertools import chain
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.inspection.analyse.steps import steps
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.record.recording import attentions
from dragoman.inspection.schema import array_from_json, to_json
from dragoman.inspection.views.drawing import decimal
from dragoman.inspection.views.numbers import FIRST
from dragoman.model.attention import attention
from dragoman.system.errors import DragomanError
from tests.conftest import MODELS
from tests.test_inspection import LINES, SETTINGS, TRANSFORMERS, inspected, translator_of
from tests.test_pictures import fake


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


def every_query(found, kind):
    layers, heads, queries, _ = found.attention.of(kind).shape
    for place in np.ndindex(layers, heads, queries):
        yield steps(found, kind, *(each + 1 for each in place)), place


@pytest.mark.short_form(1)
@pytest.mark.parametrize("settings", SETTINGS, ids=["beam", "greedy", "groups", "prefix"])
def test_each_step_gives_the_next_one(translator, settings):
    found = inspected(translator, LINES[0], settings)
    for one, _ in chain.from_iterable(every_query(found, kind) for kind in KINDS):
        np.testing.assert_allclose(one.keys @ one.query, one.scores, rtol=1e-12, atol=1e-12)
        assert np.array_equal(one.scores / math.sqrt(len(one.query)), one.scaled)
        powers = np.exp(np.where(one.allowed, one.scaled, -np.inf) - one.scaled[one.allowed].max())
        weights = powers / powers.sum()
        np.testing.assert_allclose(weights.astype(np.float32), one.weights, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(weights @ one.values, one.output, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_equation_1_on_what_is_shown_is_what_the_model_computed_bit_for_bit(translator, kind):
    """In float64, where the model did the same operation: all queries of the encoder at once, and one query
    at a time of a decoder that searches greedily.
    """
    found = inspect(translator, LINES[0], SearchSettings(max_extra_tokens=3, beam_size=1))
    projected = found.projections.of(kind)
    layers, _, queries, keys = found.attention.of(kind).shape
    allowed = np.broadcast_to(projected.allowed, (queries, keys))
    for layer in range(layers):
        query, key, value = (
            torch.from_numpy(each[layer])[None]
            for each in (projected.queries, projected.keys, projected.values)
        )
        batches = [slice(0, queries)] if kind == "encoder" else [slice(t, t + 1) for t in range(queries)]
        for rows in batches:
            seen = rows.stop if kind == "decoder" else keys
            output, weights = attention(
                query[:, :, rows],
                key[:, :, :seen],
                value[:, :, :seen],
                torch.from_numpy(allowed[rows, :seen].copy())[None, None],
            )
            assert np.array_equal(output[0].numpy(), projected.outputs[layer][:, rows])
            shown = found.attention.of(kind)[layer][:, rows, :seen]
            assert np.array_equal(weights[0].float().numpy(), shown)


@pytest.mark.parametrize("settings", SETTINGS[:2], ids=["beam", "greedy"])
def test_in_float32_the_weights_shown_times_the_values_shown_are_the_outputs(settings):
    """To 1e-6, in all layers and heads; `test_inspection` has float64, bit for bit."""
    exact = translator_of(MODELS["transformer"])
    model = one_transformer(exact).float()
    found = inspect(Translator.from_model(model, exact.tokenizers), LINES[0], settings)
    for kind in KINDS:
        projected = found.projections.of(kind)
        assert projected.outputs.dtype == np.float32
        outputs = found.attention.of(kind) @ projected.values
        np.testing.assert_allclose(outputs, projected.outputs, rtol=1e-6, atol=1e-6)


def test_no_number_is_rounded(translator):
    """Shorter types are in float32, which holds them."""
    found = inspected(translator, LINES[0], SETTINGS[0])
    assert {each.dtype for kind in KINDS for each in vars(found.projections.of(kind)).values()} == {
        np.dtype(np.float64),
        np.dtype(bool),
    }


def test_the_heads_side_by_side_are_what_the_output_projection_adds(translator):
    """W^O on the shown outputs has the norm that the residual stream shows."""
    found = inspected(translator, LINES[2], SETTINGS[0])
    modules = attentions(one_transformer(translator))
    parts = {"encoder": (found.stream.encoder_sublayers, 0, "encoder.{}.self_attention")}
    parts["decoder"] = (found.stream.decoder_sublayers, 0, "decoder.{}.self_attention")
    parts["cross"] = (found.stream.decoder_sublayers, 1, "decoder.{}.cross_attention")
    for kind, (norms, part, name) in parts.items():
        for layer, outputs in enumerate(found.projections.of(kind).outputs):
            side_by_side = torch.from_numpy(outputs.swapaxes(0, 1).reshape(outputs.shape[1], -1))
            with torch.no_grad():
                added = modules[name.format(layer)].output(side_by_side)
            np.testing.assert_allclose(added.norm(dim=-1).numpy(), norms[layer, part], rtol=1e-5)


def test_attention_is_as_it_was_after_an_inspection(translator):
    inspect(translator, LINES[0], SETTINGS[0])
    for module in attentions(one_transformer(translator)).values():
        assert "attend" not in vars(module)
        assert not module.output._forward_pre_hooks


def test_the_data_hold_the_numbers_of_all_layers(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    for kind, table in to_json(found)["projections"].items():
        projected = found.projections.of(kind)
        assert table["layers"] == list(range(1, len(projected.queries) + 1))
        for name in ("queries", "keys", "values", "outputs"):
            shown = array_from_json(table[name])
            np.testing.assert_allclose(shown, getattr(projected, name), rtol=1e-3, atol=1e-4)
        one = steps(found, kind, 1, 1, 2)
        np.testing.assert_allclose(
            array_from_json(table["scores"])[0, 0, 1], one.scores, rtol=1e-3, atol=1e-4
        )


def test_the_picture_has_a_row_for_each_key(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    for kind, keys in zip(KINDS, (found.source, found.decoder_inputs, found.source), strict=True):
        svg = found.svg("numbers", layer=1, head=1, kind=kind, query=2)
        words = [each.text for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        assert all(key in words for key in keys)
        weights = [f"{weight:.4f}" for weight in found.attention.of(kind)[0, 0, 1]]
        assert [word for word in words if word in weights and len(word) == 6] == weights


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((9, 1, 1), "There is no layer 9"),
        ((1, 9, 1), "There is no head 9"),
        ((1, 1, 0), "There is no query 0"),
    ],
)
def test_what_the_model_has_not_gets_a_sentence(translator, numbers, message):
    found = inspected(translator, LINES[0], SETTINGS[0])
    with pytest.raises(DragomanError, match=message):
        steps(found, "cross", *numbers)


@pytest.mark.parametrize("asked", [{"layer": 0}, {"head": 0}])
def test_layers_and_heads_count_from_1(translator, asked):
    with pytest.raises(DragomanError, match=f"There is no {next(iter(asked))} 0"):
        inspected(translator, LINES[0], SETTINGS[0]).svg("numbers", **asked)


def test_a_model_without_multi_head_attention_has_no_numbers(translator):
    found = replace(inspected(translator, LINES[0], SETTINGS[0]), projections=None)
    with pytest.raises(
        DragomanError,
        match="scaled dot-product attention to all positions, which",
    ):
        found.svg("numbers")
    assert to_json(found)["projections"] == {}
    assert '"projections":{}' in found.to_html()


# ---- the picture


def rows_of_texts(svg):
    """The texts of a picture by their height, from left to right."""
    rows = {}
    for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        rows.setdefault(float(each.get("y")), []).append((float(each.get("x")), each.text or each[0].tail))
    return {y: [text for _, text in sorted(row)] for y, row in rows.items()}


def first_numbers(vector):
    """The first numbers of a vector as the picture writes them."""
    more = ", …" if len(vector) > FIRST else ""
    return f"({', '.join(decimal(value, 3) for value in vector[:FIRST])}{more})"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [None, (2, 3)])
@pytest.mark.parametrize("d_model", [8, 10])
def test_each_row_of_the_picture_has_the_numbers_of_its_key(kind, window, d_model):
    found = fake(d_model=d_model, attention_bias=d_model == 8)
    svg = found.svg("numbers", layer=2, head=2, kind=kind, query=3, window=window)
    one, rows = steps(found, kind, 2, 2, 3), list(rows_of_texts(svg).values())
    keys = found.decoder_inputs if kind == "decoder" else found.source
    bias = " + b" * found.model.attention_bias
    start = next(place for place, row in enumerate(rows) if row[0] == "key")
    titles = ["key", f"k = x W^K{bias}", "q · k", "q · k / √d_k", "mask", "softmax", f"v = x W^V{bias}"]
    assert sorted(rows[start]) == sorted(titles)
    token = (found.source if kind == "encoder" else found.target)[2]
    assert [token in row[0] for row in rows if row[0].startswith("q of query 3")] == [True]
    assert rows[start - 1] == [first_numbers(one.query)]
    drawn = range(len(keys))[slice(None) if window is None else slice(1, 3)]
    for row, key in zip(rows[start + 1 :], drawn, strict=False):
        scaled = decimal(one.scaled[key], 3)
        assert row == [
            keys[key],
            first_numbers(one.keys[key]),
            decimal(one.scores[key], 3),
            scaled,
            scaled if one.allowed[key] else "−∞",
            f"{one.weights[key]:.4f}",
            first_numbers(one.values[key]),
        ]
    output = start + len(drawn) + 1
    assert rows[output][0].startswith("Σ weight · v, the head's output")
    assert rows[output + 1] == [first_numbers(one.output)]
    words = " ".join(text for row in rows for text in row)
    assert f"√d_k = {math.sqrt(len(one.query)):.3f}." in words
    assert f"Of each vector the first {min(FIRST, len(one.query))} numbers are drawn" in words


def test_the_numbers_without_a_choice_are_of_head_1_of_the_last_layer():
    found = fake()
    for kind in KINDS:
        last = len(found.attention.of(kind))
        assert found.svg("numbers", kind=kind) == found.svg("numbers", layer=last, head=1, kind=kind, query=1)
    assert found.svg("numbers") == found.svg("numbers", kind="cross")

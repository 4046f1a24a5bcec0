"""Attribution is complete: contributions of all source tokens sum to the difference that the source makes."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from dragoman.inspection.analyse import attributed as attributed_module
from dragoman.inspection.analyse import path_attribution
from dragoman.inspection.analyse.attributed import differentiable, of_embeddings, shifted
from dragoman.inspection.analyse.attribution import Attribution, attribute
from dragoman.inspection.analyse.methods import DEFAULT_METHODS, METHODS, UNSIGNED
from dragoman.inspection.analyse.path_attribution import TOLERANCE, points_and_shares
from dragoman.inspection.inspect import inspect
from dragoman.inspection.schema import array_from_json, to_json
from dragoman.inspection.views.attribution import UNITS, attribution_picture
from dragoman.inspection.views.drawing import visible
from dragoman.model.symbols import START
from dragoman.model.transformer import FeedForward
from dragoman.native.packed_linear import pack
from dragoman.search.beam import next_log_probs
from dragoman.system.errors import DragomanError
from dragoman.text.lines import read_lines
from dragoman.translation.translator import Translator
from tests.browser import browser  # noqa: F401
from tests.conftest import KINDS, MODELS
from tests.test_inspection import LINES, translator_of
from tests.test_report import assert_accessible, fake_inspection, open_report, tab  # noqa: F401

SHORT = "dogs", "two dogs"


@pytest.fixture(scope="module", params=KINDS)
def translator(request):
    return translator_of(MODELS[request.param])


def ids(translator, found):
    sides = translator.tokenizers.source, translator.tokenizers.target
    texts = found.source, found.target
    return (torch.tensor([side.ids(tokens)]) for side, tokens in zip(sides, texts, strict=True))


@pytest.mark.short_form(1)
def test_contributions_sum_to_what_the_source_changes(translator):
    found = attribute(translator, LINES[0], LINES[2], steps=64)
    change = found.log_probabilities - found.baseline
    np.testing.assert_allclose(found.of("integrated-gradients").sum(1), change, atol=5e-3)
    coarse = attribute(translator, LINES[0], LINES[2], steps=2)
    assert (
        np.abs(coarse.of("integrated-gradients").sum(1) - change).max()
        > np.abs(found.of("integrated-gradients").sum(1) - change).max()
    )


def test_the_path_of_a_trained_model_is_refined_until_the_sum_is_right(trained):
    translator = Translator.load(trained / "run")
    line = next(read_lines(trained / "test.source"))
    (translation,) = translator.translate([line])
    whole, coarse = (attribute(translator, line, translation, steps=steps) for steps in (None, 4))
    change = whole.log_probabilities - whole.baseline
    assert np.abs(change).max() > 1  # nats
    assert np.abs(whole.of("integrated-gradients").sum(1) - change).max() <= TOLERANCE
    assert np.abs(coarse.of("integrated-gradients").sum(1) - change).max() > TOLERANCE


def test_a_path_that_is_refined_without_end_has_an_end_which_the_progress_reaches(monkeypatch):
    translator, told = translator_of(MODELS["transformer"]), []
    monkeypatch.setattr(path_attribution, "TOLERANCE", -1.0)
    found = attribute(translator, LINES[1], LINES[3], progress=lambda *parts: told.append(parts))
    assert told == [(done, len(told)) for done in range(1, len(told) + 1)]
    change = found.log_probabilities - found.baseline
    np.testing.assert_allclose(found.of("integrated-gradients").sum(1), change, atol=5e-3)


@pytest.mark.parametrize("first", ["start", "end"])
def test_the_attributed_log_probabilities_are_those_of_the_score(first):
    translator = translator_of(replace(MODELS["transformer"], decoder_start=first))
    (score,) = translator.score([(LINES[0], LINES[2])])
    for with_prefix in (False, True):
        found = attribute(translator, LINES[0], LINES[2], steps=1, with_prefix=with_prefix)
        np.testing.assert_allclose(found.log_probabilities, score.log_probabilities, rtol=1e-5)


def test_means_of_polynomials_are_exact():
    points, shares = points_and_shares(3)
    for degree in range(6):
        assert float(shares @ points**degree) == pytest.approx(1 / (degree + 1))


def test_log_probabilities_are_those_of_forced_decoding(translator):
    found = attribute(translator, LINES[0], LINES[2], steps=2)
    (likelihood,) = translator.score([(LINES[0], LINES[2])])
    np.testing.assert_allclose(found.log_probabilities, likelihood.log_probabilities, atol=1e-5)
    assert list(found.target) == likelihood.tokens


def test_gradients_are_those_of_differences(translator):
    found, size = attribute(translator, LINES[1], LINES[3], methods=["gradient-input"]), 1e-3
    of = attributed(translator, found)
    with torch.no_grad():
        for place in range(len(of.inputs)):
            rows = of.inputs.repeat(2, 1, 1)
            rows[:, place] *= torch.tensor([[1 + size], [1 - size]])
            more, less = of.log_probs(rows)
            expected = (more - less) / (2 * size)
            np.testing.assert_allclose(
                found.of("gradient-input")[:, place], expected.float().numpy(), atol=5e-3
            )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_gradients_of_several_tokens_at_once_are_those_of_each_alone(translator, at_once, monkeypatch):
    monkeypatch.setattr(attributed_module, "GRADIENTS", at_once)
    of = attributed(translator, attribute(translator, LINES[1], LINES[3], methods=[], with_prefix=True))
    rows = (of.inputs * torch.linspace(0.2, 1, 3)[:, None, None]).requires_grad_()
    log_probs = of.log_probs(rows)
    found = list(of.gradients(rows))
    assert len(found) == log_probs.size(1)
    for token, gradients in enumerate(found):
        (expected,) = torch.autograd.grad(log_probs[:, token].sum(), rows, retain_graph=True)
        torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)


def test_nothing_of_the_model_is_changed(translator):
    model = translator.torch_backend.model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    attribute(translator, LINES[0], LINES[2], steps=2)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_a_packed_model_has_the_same_attribution(name):
    translator = translator_of(MODELS[name])
    translator.torch_backend.model.float()
    before = attribute(translator, LINES[0], LINES[2], steps=4)
    pack(translator.torch_backend.model, "float32")
    after = attribute(translator, LINES[0], LINES[2], steps=4)
    np.testing.assert_allclose(after.of("integrated-gradients"), before.of("integrated-gradients"), atol=1e-5)


def test_a_blank_sentence_gets_a_sentence(translator):
    with pytest.raises(DragomanError, match="The sentence is blank: no token contributes"):
        attribute(translator, " ", LINES[0])


@pytest.mark.short_form(1)
def test_the_picture_has_each_contribution(translator):
    inspection = inspect(translator, LINES[0], max_extra_tokens=2)
    found = attribute(translator, LINES[0], inspection.target, steps=4)
    svg = attribution_picture(replace(inspection, attribution=found)).replace("−", "-")
    titles = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]
    shown = [
        float(title.split("contribution: ")[1].split()[0]) for title in titles if "contribution" in title
    ]
    np.testing.assert_allclose(shown, found.of("integrated-gradients").ravel(), atol=5.1e-4)


def attributed(translator, found):
    """The function whose inputs were attributed to."""
    model = differentiable(translator.torch_backend.model)
    return of_embeddings(model, *ids(translator, found), with_prefix=bool(found.prefix))


@pytest.fixture(scope="module", params=[False, True])
def both_sides(request, translator):
    """An attribution to source tokens, and one to those of both sides."""
    return attribute(translator, LINES[1], LINES[3], steps=2, with_prefix=request.param)


@pytest.mark.short_form(1)
def test_saliency_is_the_norm_of_the_gradient(translator, both_sides):
    of, found = attributed(translator, both_sides), both_sides.of("saliency")
    assert found.shape == (len(both_sides.target), len(of.inputs))
    with torch.no_grad():
        (whole,) = of.log_probs(of.inputs[None])
    np.testing.assert_allclose(both_sides.log_probabilities, whole, atol=1e-5)
    for row, gradient in zip(found, of.gradients(of.inputs[None]), strict=True):
        np.testing.assert_allclose(row, gradient[0].norm(dim=-1), rtol=1e-5)
    direction, size = gradient[0] / gradient[0].norm(dim=-1, keepdim=True), 1e-2  # in which log P rises most
    with torch.no_grad():
        for place in range(len(both_sides.source)):
            if not found[-1, place]:
                continue
            moved = of.inputs[None].clone()
            moved[0, place] += size * direction[place]
            gained = (of.log_probs(moved)[0, -1] - whole[-1]) / size
            assert float(gained) == pytest.approx(float(found[-1, place]), rel=0.05, abs=5e-3)


def test_occlusion_is_the_loss_without_an_embedding(translator, both_sides):
    of, found = attributed(translator, both_sides), both_sides.of("occlusion")
    with torch.no_grad():
        for place in range(found.shape[1]):
            rows = of.inputs[None].clone()
            rows[0, place] = 0
            expected = both_sides.log_probabilities - of.log_probs(rows)[0].float().numpy()
            np.testing.assert_allclose(found[:, place], expected, atol=1e-5)


@pytest.fixture(scope="module")
def contrasted(translator):
    """An attribution of a contrast with the likeliest other tokens."""
    return attribute(translator, *SHORT, steps=2, with_prefix=True, contrast=True)


def test_the_other_token_of_a_contrast_is_the_likeliest_other_one(translator, contrasted):
    model = differentiable(translator.torch_backend.model)
    source, target = ids(translator, contrasted)
    with torch.no_grad():
        features, _ = model.decode(shifted(model, target), model.encode(source))
        log_probs = next_log_probs(model, features[0])
    places = torch.arange(target.size(1))
    own = log_probs[places, target[0]].clone()
    log_probs[places, target[0]] = -torch.inf
    best, other = log_probs.max(1)
    assert list(contrasted.other) == translator.tokenizers.target.pieces(other.tolist())
    np.testing.assert_allclose(contrasted.log_probabilities, own - best, atol=1e-5)


@pytest.mark.short_form(1)
def test_contributions_to_a_contrast_sum_to_the_difference_of_differences(translator):
    found = attribute(translator, LINES[1], LINES[3], steps=128, contrast=True)
    change = found.log_probabilities - found.baseline
    np.testing.assert_allclose(found.of("integrated-gradients").sum(1), change, atol=1e-2)


@pytest.mark.short_form(1)
def test_a_contrast_is_the_attribution_of_a_token_minus_that_of_the_other(translator, contrasted):
    token = attribute(translator, *SHORT, steps=2, with_prefix=True)
    for row, other in enumerate(contrasted.other):
        tokens = [*contrasted.target[:row], other]
        instead = attribute(translator, SHORT[0], tokens, steps=2, with_prefix=True)
        read = len(contrasted.source) + row + 1  # the source, and the tokens before this one
        for name in ("gradient-input", "integrated-gradients", "occlusion"):
            found, own, others = (each.of(name)[row, :read] for each in (contrasted, token, instead))
            np.testing.assert_allclose(found, own - others, atol=1e-5)
        layers = token.layers[:, row] - instead.layers[:, row]
        np.testing.assert_allclose(contrasted.layers[:, row], layers, atol=1e-5)
        for name in ("log_probabilities", "baseline"):
            found, own, others = (getattr(each, name)[row] for each in (contrasted, token, instead))
            assert found == pytest.approx(own - others, abs=1e-5)


def test_the_saliency_of_a_contrast_is_the_norm_of_the_difference_of_gradients(translator, contrasted):
    of = attributed(translator, contrasted)
    other = torch.tensor([translator.tokenizers.target.ids(contrasted.other)])
    leaves = of.inputs[None].requires_grad_()
    (rows,) = of.all_log_probs(of.features(leaves))
    for row, numbers in enumerate(rows):
        of_token, of_other = (
            torch.autograd.grad(numbers[tokens[0, row]], leaves, retain_graph=True)[0][0]
            for tokens in (of.target, other)
        )
        expected = (of_token - of_other).norm(dim=-1)
        np.testing.assert_allclose(contrasted.of("saliency")[row], expected, atol=1e-5)


def test_the_tokens_of_a_contrast_can_be_given():
    translator = translator_of(MODELS["transformer"])
    likeliest = attribute(translator, LINES[1], LINES[3], steps=2, contrast=True)
    given = attribute(translator, LINES[1], LINES[3], steps=2, contrast=likeliest.other)
    assert given.other == likeliest.other
    np.testing.assert_array_equal(given.of("integrated-gradients"), likeliest.of("integrated-gradients"))
    same = attribute(translator, LINES[1], LINES[3], steps=2, contrast=likeliest.target)
    for method in DEFAULT_METHODS:
        np.testing.assert_array_equal(same.of(method), 0)


def test_tokens_that_cannot_be_contrasted_get_a_sentence():
    translator = translator_of(MODELS["transformer"])
    target = attribute(translator, LINES[1], LINES[3], steps=1).target
    message = f"The contrast has 1 token, and the translation {len(target)} with END; give one for each."
    with pytest.raises(DragomanError, match=message):
        attribute(translator, LINES[1], LINES[3], contrast=target[:1])
    (start,) = translator.tokenizers.target.pieces([START])
    with pytest.raises(DragomanError, match=f"The contrast contains {start}, which is never predicted"):
        attribute(translator, LINES[1], LINES[3], contrast=[*target[:-1], start])


def test_a_contrast_is_a_picture_with_both_tokens():
    translator = translator_of(MODELS["transformer"])
    inspection = inspect(translator, LINES[0], max_extra_tokens=2, beam_size=1)
    found = attribute(translator, LINES[0], inspection.target, steps=2, contrast=True)
    assert all(token != other for token, other in zip(found.target, found.other, strict=True))
    for method in DEFAULT_METHODS:
        svg = attribution_picture(replace(inspection, attribution=found), method)
        titles = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]
        rows = [title.split("\n")[0] for title in titles if title.startswith("target: ")]
        pairs = [
            f"target: {visible(token)}≠{visible(other)}"
            for token, other in zip(found.target, found.other, strict=True)
        ]
        assert rows[:: len(found.source)] == pairs
        assert "What makes each target token likelier than another" in svg
    assert to_json(replace(inspection, attribution=found))["attribution"]["other"] == [*found.other]


@pytest.mark.short_form(1)
def test_no_token_contributes_to_those_before_it(translator):
    feed_forward = any(isinstance(module, FeedForward) for module in translator.torch_backend.model.modules())
    left_out = {"reagent"} if feed_forward else {"reagent", "deeplift"}
    methods = [method for method in METHODS if method not in left_out]
    found = attribute(translator, *SHORT, steps=2, with_prefix=True, methods=methods)
    source, size = len(found.source), len(found.target)
    assert (found.prefix[1:], len(found.prefix)) == (found.target[:-1], size)
    later = np.triu(np.ones((size, size), bool), 1)
    for method in methods:
        numbers = found.of(method)[:, source:]
        np.testing.assert_allclose(numbers[later], 0, atol=1e-5)
        assert np.abs(numbers[~later]).max() > 1e-3


@pytest.mark.short_form(1)
def test_contributions_of_both_sides_sum_to_what_they_change(translator):
    found = attribute(translator, LINES[0], LINES[2], steps=128, with_prefix=True)
    change = found.log_probabilities - found.baseline
    np.testing.assert_allclose(found.of("integrated-gradients").sum(1), change, atol=5e-3)


def test_the_data_have_all_methods():
    translator = translator_of(MODELS["transformer"])
    inspection = inspect(translator, LINES[0], max_extra_tokens=2)
    assert to_json(inspection)["attribution"] is None
    found = attribute(translator, LINES[0], inspection.target, steps=2, with_prefix=True)
    table = to_json(replace(inspection, attribution=found))["attribution"]
    assert table["tokens"] == [*found.source, *found.prefix]
    np.testing.assert_allclose(table["baseline"], found.baseline, atol=1e-4)
    for method in DEFAULT_METHODS:
        np.testing.assert_allclose(array_from_json(table[method]), found.of(method), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(array_from_json(table["layers"]), found.layers, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["transformer", "transformer, other options"])
def test_contributions_of_a_layer_are_those_of_a_decoder_that_reads_it(name):
    """Scaling the output of an encoder layer at a token changes log P by its contribution."""
    translator = translator_of(MODELS[name])
    found = attribute(translator, LINES[1], LINES[3], steps=1)
    of, size = attributed(translator, found), 1e-3
    assert found.layers.shape == (len(of.model.encoder), len(found.target), len(found.source))
    for layer, module in enumerate(of.model.encoder):
        alone = attribute(translator, LINES[1], LINES[3], methods=["gradient-input"], layer=layer + 1)
        np.testing.assert_array_equal(alone.of("gradient-input"), found.layers[layer])
        for place in range(len(found.source)):

            def scaled(factor, module=module, place=place):
                def hook(_module, _inputs, output):
                    changed = output.clone()
                    changed[:, place] *= factor
                    return changed

                handle = module.register_forward_hook(hook)
                with torch.no_grad():
                    (rows,) = of.log_probs(of.inputs[None])
                handle.remove()
                return rows

            expected = (scaled(1 + size) - scaled(1 - size)) / (2 * size)
            np.testing.assert_allclose(found.layers[layer, :, place], expected.float().numpy(), atol=5e-3)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("with_prefix", [False, True])
def test_contributions_of_a_layer_sum_to_what_its_output_changes(with_prefix):
    translator = translator_of(MODELS["transformer"])
    methods = ["integrated-gradients", "sequential-integrated-gradients", "occlusion"]
    found = attribute(translator, LINES[1], LINES[2], 32, with_prefix, methods=methods, layer=1)
    below = attribute(translator, LINES[1], LINES[2], 1, with_prefix)
    np.testing.assert_allclose(found.baseline, below.baseline, atol=1e-5)
    np.testing.assert_allclose(found.log_probabilities, below.log_probabilities, atol=1e-5)
    integrated, alone, occluded = (found.of(method) for method in methods)
    np.testing.assert_allclose(integrated.sum(1), found.log_probabilities - found.baseline, atol=2e-2)
    np.testing.assert_allclose(alone, occluded, atol=2e-2)


@pytest.mark.parametrize("with_prefix", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_each_method_is_a_picture(method, with_prefix):
    inspection, random = fake_inspection(5, 4, 1, 2, 8), np.random.default_rng(2)
    prefix = inspection.decoder_inputs if with_prefix else ()
    numbers = random.normal(size=(4, 5 + len(prefix))).astype(np.float32)
    numbers = np.abs(numbers) if method in UNSIGNED else numbers
    totals = random.normal(size=(2, 4)).astype(np.float32)
    found = Attribution(inspection.source, inspection.target, prefix, {method: numbers}, totals[:0], *totals)
    root = ElementTree.fromstring(
        attribution_picture(replace(inspection, attribution=found), method).replace("−", "-")
    )
    titles = [each.text for each in root.iter() if each.tag.endswith("title") and "\ntarget" not in each.text]
    shown = [float(title.split(": ")[-1].split()[0]) for title in titles if title.startswith("target: ")]
    source = len(found.source)
    parts = found.of(method)[:, :source], found.of(method)[:, source:]
    np.testing.assert_allclose(shown, np.concatenate([part.ravel() for part in parts]), atol=5.1e-4)
    unit = UNITS.get(method, "contribution, nats")
    assert unit in [each.text for each in root.iter() if each.tag.endswith("text")]


@pytest.mark.parametrize("method", METHODS)
def test_shades_legend_and_note_of_a_method_are_those_of_its_numbers(method):
    inspection, random = fake_inspection(5, 4, 1, 2, 8), np.random.default_rng(2)
    numbers = random.normal(size=(4, 9)).astype(np.float32)
    numbers = np.abs(numbers) if method in UNSIGNED else numbers
    log_probs, baseline = random.normal(size=(2, 4)).astype(np.float32)
    prefix = inspection.decoder_inputs
    found = Attribution(
        inspection.source, inspection.target, prefix, {method: numbers}, numbers[:0], log_probs, baseline
    )
    root = ElementTree.fromstring(attribution_picture(replace(inspection, attribution=found), method))
    groups = [each for each in root.iter() if each.get("class") == "cells scores"]
    largest = float(np.abs(numbers).max())
    for group, part in zip(groups, (numbers[:, :5], numbers[:, 5:]), strict=True):
        shown = [float(each.get("fill-opacity", 1)) for each in group]
        np.testing.assert_allclose(shown, np.abs(part).ravel() / largest, atol=0.0051)
        signs = [each.get("class") == "fill-negative" for each in group]
        assert signs == (part < 0).ravel().tolist()
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    ticks = ["0", f"{largest:.2f}"] if method in UNSIGNED else [f"−{largest:.2f}", "0", f"+{largest:.2f}"]
    place = texts.index(UNITS.get(method, "contribution, nats"))
    assert texts[place + 1 : place + 1 + len(ticks)] == ticks
    error = f"{np.abs(log_probs - baseline - numbers.sum(1)).max():.1g} nats"
    assert (f"The largest error of a sum is {error}." in " ".join(texts)) == (
        method == "integrated-gradients"
    )


def open_table(numbers):
    """Opens a table of numbers, and waits for it: it is made when it is opened."""
    numbers.locator("summary").click()
    numbers.locator("table").wait_for()


def test_the_page_shows_the_contributions_by_each_method(open_report):  # noqa: F811
    inspection = fake_inspection(5, 4, 1, 2, 8)
    random = np.random.default_rng(2)
    arrays = {method: random.normal(size=(4, 9)).astype(np.float32) for method in METHODS}
    for numbers in arrays.values():
        numbers[2, 1] = -np.abs(numbers).max() - random.uniform(0.1, 0.4)  # the greatest magnitude
    arrays |= {method: np.abs(arrays[method]) for method in UNSIGNED}
    layers = random.normal(size=(1, 4, 5)).astype(np.float32)
    totals = random.normal(size=(2, 4)).astype(np.float32)
    prefix = inspection.decoder_inputs
    found = Attribution(inspection.source, inspection.target, prefix, arrays, layers, *totals)
    page = open_report(replace(inspection, attribution=found), "dark", 360)
    tab(page, "Attribution")
    names = page.get_by_role("group", name="Method").get_by_role("button").all_inner_texts()
    for name, method in zip(names, METHODS, strict=True):
        page.get_by_role("button", name=name, exact=True).click()
        end = float(page.locator(".legend .marks span").last.inner_text())
        assert end == pytest.approx(np.abs(found.of(method)).max(), abs=0.006), "the scale has every number"
        for side, columns in (("source", slice(0, 5)), ("target", slice(5, 9))):
            numbers = page.locator(".numbers", has_text=f"Contributions of {side} tokens as a table")
            if not numbers.locator("table").count():
                open_table(numbers)
            cells = [each.replace("−", "-") for each in numbers.locator("td").all_inner_texts()]
            shown = np.array(cells, float).reshape(4, -1)
            np.testing.assert_allclose(shown, found.of(method)[:, columns], atol=2e-3)
    page.get_by_role("button", name="Gradient × input", exact=True).click()
    page.get_by_label("Input").select_option("output of encoder layer 1")
    table = page.locator(".numbers", has_text="Contributions of source tokens as a table")
    if not table.locator("table").count():
        open_table(table)
    cells = [each.replace("−", "-") for each in table.locator("td").all_inner_texts()]
    np.testing.assert_allclose(np.array(cells, float).reshape(4, 5), layers[0], atol=2e-3)
    assert page.get_by_role("heading", name="Earlier target tokens").count() == 0
    assert_accessible(page)


def test_the_page_names_both_tokens_of_a_contrast(open_report):  # noqa: F811
    inspection = fake_inspection(5, 4, 1, 2, 8)
    arrays = {method: np.ones((4, 5), np.float32) for method in DEFAULT_METHODS}
    totals, other = np.zeros((2, 4), np.float32), tuple("wxyz")
    layers = np.ones((1, 4, 5), np.float32)
    found = Attribution(inspection.source, inspection.target, (), arrays, layers, *totals, other)
    page = open_report(replace(inspection, attribution=found), "dark", 360)
    tab(page, "Attribution")
    assert page.get_by_text("Each row is a contrast").count() == 1
    numbers = page.locator(".numbers", has_text="Contributions of source tokens as a table")
    open_table(numbers)
    names = numbers.locator("tbody th").all_inner_texts()
    assert [name[-2:] for name in names] == [f"≠{token}" for token in other]


def test_an_encoder_layer_is_a_picture():
    translator = translator_of(MODELS["transformer"])
    inspection = inspect(translator, LINES[0], max_extra_tokens=2)
    found = attribute(translator, LINES[0], inspection.target, 2, layer=1)
    svg = attribution_picture(replace(inspection, attribution=found), "gradient-input").replace("−", "-")
    titles = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]
    shown = [float(title.split(": ")[-1].split()[0]) for title in titles if title.startswith("target: ")]
    np.testing.assert_allclose(shown, found.of("gradient-input").ravel(), atol=5.1e-4)
    assert "gradient × input at the output of encoder layer 1" in svg


def test_a_layer_that_cannot_be_attributed_to_gets_a_sentence(translator):
    known = "there are [12], counted from 1|this model has none to attribute to"
    with pytest.raises(DragomanError, match=f"There is no encoder layer 9; ({known})."):
        attribute(translator, LINES[0], LINES[2], layer=9)

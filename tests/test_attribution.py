"""Attribution is complete: contributions of all source tokens sum to the difference that the source makes."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from dragoman.inspection.attribution import attribute, differentiable, forced_log_probs, points_and_shares
from dragoman.inspection.attribution_picture import attribution_picture
from dragoman.inspection.inspect import inspect
from dragoman.native.packed_linear import pack
from dragoman.system.errors import DragomanError
from tests.conftest import MODELS
from tests.test_inspection import LINES, translator_of


@pytest.fixture(scope="module", params=MODELS)
def translator(request):
    return translator_of(MODELS[request.param])


def ids(translator, found):
    sides = translator.tokenizers.source, translator.tokenizers.target
    texts = found.source, found.target
    return (torch.tensor([side.ids(tokens)]) for side, tokens in zip(sides, texts, strict=True))


def test_contributions_sum_to_what_the_source_changes(translator):
    found = attribute(translator, LINES[0], LINES[2], steps=128)
    change = found.log_probabilities - found.baseline
    np.testing.assert_allclose(found.integrated.sum(1), change, atol=5e-3)
    coarse = attribute(translator, LINES[0], LINES[2], steps=2)
    assert np.abs(coarse.integrated.sum(1) - change).max() > np.abs(found.integrated.sum(1) - change).max()


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
    found, size = attribute(translator, LINES[1], LINES[3], steps=2), 1e-3
    model = differentiable(translator.torch_backend.model)
    source, target = ids(translator, found)
    with torch.no_grad():
        embedded = model.source_embedding(source)
        for place in range(source.size(1)):
            more, less = embedded.clone(), embedded.clone()
            more[0, place] *= 1 + size
            less[0, place] *= 1 - size
            rows = forced_log_probs(model, torch.cat([more, less]), source.expand(2, -1), target)
            expected = (rows[0] - rows[1]) / (2 * size)
            np.testing.assert_allclose(found.gradient_input[:, place], expected.float().numpy(), atol=5e-3)


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
    np.testing.assert_allclose(after.integrated, before.integrated, atol=1e-5)


def test_a_blank_sentence_gets_a_sentence(translator):
    with pytest.raises(DragomanError, match="The sentence is blank: no token contributes"):
        attribute(translator, " ", LINES[0])


def test_the_picture_has_each_contribution(translator):
    inspection = inspect(translator, LINES[0], max_extra_tokens=2)
    found = attribute(translator, LINES[0], inspection.target, steps=4)
    svg = attribution_picture(inspection, found)
    titles = [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]
    shown = [
        float(title.split("contribution: ")[1].split()[0]) for title in titles if "contribution" in title
    ]
    np.testing.assert_allclose(shown, found.integrated.ravel(), atol=5.1e-4)

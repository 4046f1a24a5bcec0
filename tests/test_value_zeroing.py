"""Scores of value zeroing are those of a model whose layer has zeros in place of the values of one token."""

from concurrent.futures import CancelledError
from dataclasses import replace
from threading import Event
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dragoman.inspection.analyse.attributed import shifted
from dragoman.inspection.analyse.value_zeroing import value_zeroing
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.schema import array_from_json, to_json
from dragoman.inspection.views.value_zeroing import value_zeroing_picture
from dragoman.model.attention import KeysValues
from dragoman.model.replaced_attend import replaced_attend
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from dragoman.translation.analysis import forced_batches
from tests.conftest import MODELS, VARIANTS
from tests.test_inspection import LINES, translator_of

TRANSFORMERS = {name: each for name, each in MODELS.items() if each.architecture == "transformer"}
ALL = TRANSFORMERS | {"restricted": VARIANTS["restricted"], "additive": VARIANTS["additive"]}


@pytest.fixture(scope="module", params=ALL)
def zeroed(request):
    """A translator, and the scores of a translation."""
    translator = translator_of(ALL[request.param])
    return translator, value_zeroing(translator, LINES[1], LINES[3])


def output_without(model, kind, layer, key, source, target):
    """The output of one layer [Q D] of a whole pass of the model, in which a key has no values there."""
    module = (model.encoder if kind == "encoder" else model.decoder)[layer]
    attention = module.cross_attention if kind == "cross" else module.self_attention
    attend, outputs = attention.attend, []

    def without(query, memory, mask=None, causal=False):
        kept = torch.ones(memory.values.size(2), 1, dtype=memory.values.dtype)
        if key is not None:
            kept[key] = 0
        return attend(query, KeysValues(memory.keys, memory.values * kept), mask, causal)

    handle = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output[0]))
    with replaced_attend(attention, without), torch.no_grad():
        model.decode(shifted(model, target), model.encode(source))
    handle.remove()
    return outputs[0]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_distances_of_outputs_of_one_changed_layer(zeroed, kind):
    translator, found = zeroed
    model = translator.torch_backend.model
    ((_, source, target),) = forced_batches(translator, [(LINES[1], LINES[3])], 1)
    for layer, scores in enumerate(found.of(kind)):
        whole = output_without(model, kind, layer, None, source, target)
        distances = torch.stack(
            [
                1 - F.cosine_similarity(whole, output_without(model, kind, layer, key, source, target), -1)
                for key in range(scores.shape[1])
            ],
            1,
        )
        np.testing.assert_allclose(scores, distances / distances.sum(1, keepdim=True), atol=1e-6)


def test_scores_of_a_query_sum_to_1_and_none_is_of_a_later_token(zeroed):
    _, found = zeroed
    for kind in KINDS:
        np.testing.assert_allclose(found.of(kind).sum(-1), 1, atol=1e-6)
        assert found.of(kind).min() >= 0
    assert not np.triu(found.decoder, 1).any()


def test_nothing_of_the_model_is_changed(zeroed):
    translator, _ = zeroed
    for module in translator.torch_backend.model.modules():
        assert not module._forward_hooks
        assert "attend" not in vars(module)


def test_it_ends_after_an_interruption():
    translator, interrupted = translator_of(MODELS["transformer"]), Event()
    interrupted.set()
    before = interruption.set(interrupted)
    try:
        with pytest.raises(CancelledError):
            value_zeroing(translator, LINES[1], LINES[3])
    finally:
        interruption.reset(before)


def test_a_layer_is_a_picture_and_all_are_data():
    translator = translator_of(MODELS["transformer"])
    inspection = inspect(translator, LINES[0], max_extra_tokens=2)
    assert to_json(inspection)["value_zeroing"] is None
    found = value_zeroing(translator, LINES[0], inspection.target)
    known = replace(inspection, value_zeroing=found)
    table = to_json(known)["value_zeroing"]
    for kind in KINDS:
        np.testing.assert_allclose(array_from_json(table[kind]), found.of(kind), rtol=1e-3, atol=1e-6)
        for layer in (1, None):
            root = ElementTree.fromstring(value_zeroing_picture(known, kind, layer))
            titles = [each.text for each in root.iter() if each.tag.endswith("title")]
            shown = [float(title.split("score: ")[1]) for title in titles if "\nscore: " in title]
            expected = found.of(kind)[-1 if layer is None else layer - 1]
            np.testing.assert_allclose(shown, expected.ravel(), atol=5.1e-4)
            count = len(found.of(kind))
            assert f", layer {layer or count}: value zeroing" in root[0].text
        side = "encoder" if kind == "encoder" else "decoder"
        for layer in (0, count + 1):
            message = f"There is no layer {layer}; the {side} has {count}, counted from 1"
            with pytest.raises(DragomanError, match=message):
                value_zeroing_picture(known, kind, layer)


def test_a_blank_sentence_and_a_model_without_self_attention_get_a_sentence():
    for blank in (" ", "\u200b"):
        with pytest.raises(DragomanError, match="The sentence is blank: it has no tokens to mix."):
            value_zeroing(translator_of(MODELS["transformer"]), blank, LINES[0])
    with pytest.raises(DragomanError, match="This view is of a Transformer's attention"):
        value_zeroing(translator_of(MODELS["lstm"]), LINES[0], LINES[2])

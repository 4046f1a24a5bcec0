"""The LSTM and the GRU: their scores, input feeding, and recipes that are older than them."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from dragoman.inspection.inspect import inspect
from dragoman.inspection.views.drawing import visible
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD
from dragoman.search.attention_weights import cross_attention
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml, write_toml
from tests.conftest import MODELS, VARIANTS, VOCABULARY, random_model, small_recipe
from tests.test_inspection import LINES, SETTINGS, translator_of
from tests.test_safety import assert_stopping_changes_nothing

GRU = ModelSettings("gru", d_model=8, encoder_layers=1, decoder_layers=2)


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_embeddings_states_of_each_layer_and_features_are_dropped(sources, targets, architecture):
    model = random_model(replace(GRU, architecture=architecture, dropout=0.5)).train()
    read = {}

    def keep(name, columns):
        return lambda _, inputs: read.setdefault(name, []).append(
            getattr(inputs[0], "data", inputs[0])[:, columns]
        )

    model.encoder.register_forward_pre_hook(keep("source embeddings", slice(None)))
    model.decoder[0].register_forward_pre_hook(keep("target embeddings", slice(8)))
    model.decoder[1].register_forward_pre_hook(keep("states of the first layer", slice(None)))
    model.features.register_forward_pre_hook(keep("states of the last layer", slice(8)))
    model.features.register_forward_pre_hook(keep("target embeddings again", slice(-8, None)))
    features, _ = model.decode(targets, model.encode(sources))
    for name, inputs in read.items():
        assert 0.25 < torch.cat(inputs).eq(0).double().mean() < 0.75, name
    assert len(read) == 5
    assert not torch.equal(model.logits(features), model.logits(features))


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_a_decoder_begins_with_the_mean_of_the_encoders_states_and_an_empty_cell(sources, architecture):
    model = random_model(replace(GRU, architecture=architecture, input_feeding=True))
    state = model.encode(sources)
    hidden, cell, fed = state.past
    for number, source in enumerate(sources):
        mean = state.memory[number, source != PAD].mean(0)
        expected = torch.tanh(model.start.weight @ mean + model.start.bias)
        torch.testing.assert_close(hidden[number].flatten(), expected)
    assert not cell.any()
    assert not fed.any()


@pytest.mark.parametrize("score", ["dot", "general"])
def test_scores_are_those_of_luong(sources, targets, score):
    model = random_model(replace(GRU, attention_score=score))
    state = model.encode(sources)
    query, matrix = state.past[0][:, 0], torch.cat([torch.eye(8)] * 2, 1).double()
    if score == "general":
        matrix = model.attention.key.weight
    scores = torch.einsum("bd,dm,bsm->bs", query, matrix, state.memory)
    expected = scores.masked_fill(sources == PAD, -torch.inf).softmax(-1)
    torch.testing.assert_close(cross_attention(model, sources, targets)[0, :, 0, 0], expected)


def test_a_general_score_whose_matrix_adds_both_directions_is_a_dot_product(sources, targets):
    general, dot = (random_model(replace(GRU, attention_score=score)) for score in ("general", "dot"))
    general.load_state_dict(dot.state_dict(), strict=False)
    general.attention.key.weight.data = torch.cat([torch.eye(8)] * 2, 1).double()
    features = [model.decode(targets, model.encode(sources))[0] for model in (general, dot)]
    torch.testing.assert_close(*features)


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_input_feeding_appends_the_last_features_to_the_next_input(sources, targets, architecture):
    plain = random_model(replace(GRU, architecture=architecture))
    fed = random_model(replace(GRU, architecture=architecture, input_feeding=True))
    weights = plain.state_dict()
    name = "decoder.0.weight_ih"
    weights[name] = torch.cat([weights[name], torch.zeros(len(weights[name]), 8)], 1)
    fed.load_state_dict(weights)
    before = plain.decode(targets, plain.encode(sources))[0]
    assert torch.equal(fed.decode(targets, fed.encode(sources))[0], before)
    fed.decoder[0].weight_ih.data[:, -8:] = 1
    first, state = fed.decode(targets[:, :1], fed.encode(sources))
    assert torch.equal(first, before[:, :1])  # before the first token it is 0
    assert torch.equal(state.past[2], first[:, 0])
    biased = fed.decoder[0].bias_ih.data
    second, _ = fed.decode(targets[:, 1:2], state)
    fed.decoder[0].weight_ih.data[:, -8:] = 0
    for row in range(len(sources)):
        fed.decoder[0].bias_ih.data = biased + first[row].sum()
        alone = fed.decode(targets[:, 1:2], state)[0]
        torch.testing.assert_close(alone[row], second[row])


def test_an_earlier_recipe_has_the_attention_that_it_had(tmp_path):
    for architecture in ("transformer", "lstm", "conv"):
        settings = ModelSettings(architecture, d_model=8, heads=2)
        write_toml(settings, tmp_path / "new.toml")
        old = read_toml(tmp_path / "new.toml") | {"attention_score": "scaled-dot"}
        del old["input_feeding"]
        assert overlay(ModelSettings(), old, "old") == settings
    names = [
        [name for name, _ in build_model(replace(GRU, attention_score=score), 9, 9).named_parameters()]
        for score in (None, "scaled-dot", "additive")
    ]
    assert names[0] == names[1] == names[2]


RESUMED = {
    "lstm, fed": ModelSettings("lstm", d_model=8, encoder_layers=2, decoder_layers=1, input_feeding=True),
    "gru, general": replace(GRU, attention_score="general"),
}


@pytest.mark.parametrize("kind", ["lstm, fed", pytest.param("gru, general", marks=pytest.mark.long)])
def test_a_stopped_run_ends_with_the_weights_of_one_that_was_not(tmp_path, kind):
    recipe = small_recipe(tmp_path, tmp_path / "straight", updates=8)
    assert_stopping_changes_nothing(replace(recipe, model=replace(RESUMED[kind], dropout=0.2)), 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ModelSettings(input_feeding=True),
            "input_feeding is for architecture lstm or gru, and not transformer; give that, or leave",
        ),
        (
            ModelSettings("conv", input_feeding=True),
            "input_feeding is for architecture lstm or gru, and not conv",
        ),
        (ModelSettings("conv", attention_score="dot"), "attention_score is for .*, and not conv;"),
    ],
)
def test_settings_of_recurrent_models_are_refused_by_others(settings, message):
    with pytest.raises(DragomanError, match=message):
        build_model(settings, VOCABULARY, VOCABULARY)


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_the_states_that_are_drawn_are_those_of_the_window(architecture):
    found = inspect(translator_of(MODELS[architecture]), LINES[0], SETTINGS[0])
    root = ElementTree.fromstring(found.svg("stream", window=(2, 3)))
    titles = [each.text for each in root.iter() if each.tag.endswith("title") and "\n" in each.text]
    shown = [
        (name, re.findall(r"[\d.]+(?=, |$)", numbers))
        for name, numbers in (title.split("\n") for title in titles)
    ]
    names = ["embedding", f"layer {found.model.encoder_layers}, both directions"]
    names += ["embedding", *(f"layer {number}" for number in range(1, found.model.decoder_layers + 1))]
    norms = [*found.stream.encoder[:, 1:3], *found.stream.decoder[:, 1:3]]
    expected = [
        (name, [f"{one:.2f}", f"{other:.2f}"]) for name, (one, other) in zip(names, norms, strict=True)
    ]
    assert sorted(shown) == sorted(expected)
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    tokens = {visible(token) for side in (found.source, found.target) for token in side[1:3]}
    assert tokens <= set(texts)
    assert f"Only source tokens 2 to 3 of {len(found.source)} are drawn." in texts
    assert found.svg("stream", window=(1, 60)) == found.svg("stream")


def test_an_inspection_names_the_score_and_what_is_fed():
    translator = translator_of(VARIANTS["lstm, dot, fed"])
    found = inspect(translator, LINES[0], SETTINGS[0])
    ((best,),) = translator.n_best([LINES[0]], SETTINGS[0])
    assert found.translation == best.text
    picture = found.svg("model")
    for words in ("Dot attention", "also reads", "[T, 4 d_model]"):
        assert words in picture
    assert "</html>" in found.to_html()

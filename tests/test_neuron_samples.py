"""Samples of neurons over many texts: those of an oracle that keeps all activations and sorts them."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman import SearchSettings, Translator
from dragoman.inspection.analyse import neuron_samples as module
from dragoman.inspection.analyse.neuron_activity import Activity
from dragoman.inspection.analyse.neuron_samples import (
    NeuronSample,
    NeuronSamples,
    SampledLayer,
    SampledNeuron,
    neuron_samples,
    neuron_samples_json,
)
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.neurons import SIDES
from dragoman.inspection.views.drawing import Drawing, decimal, visible
from dragoman.inspection.views.neuron_samples_picture import (
    AROUND,
    cell_width,
    draw_sample,
    neuron_samples_picture,
)
from dragoman.system.errors import DragomanError
from tests.conftest import MODELS
from tests.test_inspection import LINES, translator_of
from tests.test_neurons import WITH_NEURONS, texts, titles
from tests.test_translator import folder  # noqa: F401

TEXTS = ["two dogs", LINES[0], " ", LINES[3], "Mann", "a", LINES[2], "", LINES[1], "ein Mann fährt"]
SETTINGS = SearchSettings(max_extra_tokens=3)
ALL = 1_000  # more tokens than the texts have


@pytest.fixture(scope="module", params=WITH_NEURONS)
def translator(request):
    return translator_of(WITH_NEURONS[request.param])


def oracle(translator):
    """By side, in the order of the file: (line, place from 1, tokens, activations [L P F]) of each token."""
    tokens = {side: [] for side in SIDES}
    for number, text in enumerate(TEXTS, 1):
        if text.strip():
            one = inspect(translator, text, SETTINGS)
            for side, names in (("encoder", one.source), ("decoder", one.target)):
                own = one.neurons.of(side)
                tokens[side] += [(number, place + 1, names, own) for place in range(len(names))]
    return tokens


@pytest.fixture(scope="module")
def tokens(translator):
    """What the oracle says of a model."""
    return oracle(translator)


@pytest.fixture(scope="module")
def expected_samples(translator):
    """The samples of a model, with batches as large as usual."""
    return neuron_samples_json(neuron_samples(translator, TEXTS, SETTINGS))


def strongest(tokens, layer, neuron, count):
    """Lines, places, tokens and activations of the tokens at which a neuron is most active; the sort keeps
    the order of the file."""
    found = [
        (line, place, names, own[layer - 1, :, neuron - 1])
        for line, place, names, own in tokens
        if own[layer - 1, place - 1, neuron - 1] != 0
    ]
    return sorted(found, key=lambda each: -np.abs(np.float32(each[3][each[1] - 1])))[:count]


def check_neuron(tokens, layer, one, count):
    """A neuron's samples are those of the oracle."""
    expected = strongest(tokens, layer.layer, one.neuron, count)
    assert [(each.line, each.token, each.tokens) for each in one.samples] == [each[:3] for each in expected]
    for sample, (*_, activations) in zip(one.samples, expected, strict=True):
        np.testing.assert_allclose(sample.activations, activations, atol=1e-6)


# ---- the numbers


@pytest.mark.short_form(1)
def test_they_are_those_of_an_oracle_that_sorts_all_activations(translator, tokens):
    found = neuron_samples(translator, TEXTS, SETTINGS, samples=4)
    assert found.lines == sum(bool(text.strip()) for text in TEXTS)
    assert found.tokens == {side: len(own) for side, own in tokens.items()}
    for layer in found.layers:
        all_of_layer = np.stack([
            own[layer.layer - 1, place - 1] for _, place, _, own in tokens[layer.side]
        ])  # fmt: skip
        np.testing.assert_allclose(layer.active, (all_of_layer > 0).mean(0), atol=1e-6)
        np.testing.assert_allclose(layer.greatest, all_of_layer.max(0), atol=1e-6)
        np.testing.assert_allclose(layer.mean, all_of_layer.mean(0), atol=1e-6)
        magnitudes = np.abs(all_of_layer).max(0)
        numbers = [each.neuron - 1 for each in layer.neurons]
        np.testing.assert_allclose(magnitudes[numbers], -np.sort(-magnitudes)[: len(numbers)], atol=1e-6)
        for one in layer.neurons:
            check_neuron(tokens[layer.side], layer, one, 4)


@pytest.mark.long
def test_all_tokens_of_a_neuron_have_no_padding_and_no_activation_of_0(translator, tokens):
    for neuron in (1, 7):
        found = neuron_samples(translator, TEXTS, SETTINGS, layer=1, neuron=neuron, samples=ALL)
        assert [(layer.side, layer.layer) for layer in found.layers] == [(side, 1) for side in SIDES]
        for layer in found.layers:
            (one,) = layer.neurons
            assert one.neuron == neuron
            check_neuron(tokens[layer.side], layer, one, ALL)


@pytest.mark.short_form(1)
@pytest.mark.parametrize(("lines_at_once", "batch_tokens"), [(1, 1), (3, 30), (128, 10_000)])
def test_the_size_of_batches_changes_nothing(
    translator, expected_samples, monkeypatch, lines_at_once, batch_tokens
):
    monkeypatch.setattr(module, "LINES", lines_at_once)
    found = neuron_samples(translator, TEXTS, SETTINGS, batch_tokens=batch_tokens)
    assert neuron_samples_json(found) == expected_samples


def test_of_equal_activations_the_first_token_of_the_file_comes_first():
    """A line that is repeated has the same activations each time."""
    translator = translator_of(MODELS["transformer"])
    found = neuron_samples(translator, [LINES[0]] * 7, SETTINGS, samples=5)
    for layer in found.layers:
        for one in layer.neurons:
            assert [each.line for each in one.samples] == [1, 2, 3, 4, 5]
            assert len({each.token for each in one.samples}) == 1


def test_a_running_list_is_that_of_all_tokens_at_once():
    """With ties, signs, and tokens that do not come in the order of the file."""
    values = torch.tensor([[0.5, 0.0], [-2.0, 0.0], [0.5, 0.0], [2.0, -1.0], [0.0, 0.0]])
    activity = Activity(2, 3)
    for places in ([3, 1], [4, 0], [2]):
        activity.add(values[places], torch.tensor(places))
    assert [activity.strongest(neuron) for neuron in (0, 1)] == [[1, 3, 0], [3]]
    assert activity.magnitudes.tolist() == [2.0, 1.0]
    assert (activity.active.tolist(), activity.greatest.tolist()) == ([3, 0], [2.0, 0.0])


def test_the_encoder_alone_needs_no_translation(monkeypatch):
    translator = translator_of(MODELS["transformer"])
    both = neuron_samples(translator, TEXTS, SETTINGS)
    monkeypatch.setattr(translator, "n_best", None)
    alone = neuron_samples(translator, TEXTS, SETTINGS, kind="encoder")
    assert neuron_samples_json(alone)["encoder"] == neuron_samples_json(both)["encoder"]
    assert neuron_samples_json(alone)["decoder"] is None


def test_progress_counts_lines_and_no_hook_stays(monkeypatch):
    translator, told = translator_of(MODELS["transformer"]), []
    monkeypatch.setattr(module, "LINES", 3)
    neuron_samples(translator, TEXTS, SETTINGS, progress=lambda *counts: told.append(counts))
    assert told == [(3, 8), (6, 8), (8, 8)]
    assert not any(each._forward_pre_hooks for each in translator.torch_backend.model.modules())


@pytest.mark.parametrize(
    ("name", "lines", "asked", "message"),
    [
        ("transformer", TEXTS, {"layer": 9}, "There is no layer 9; the encoder has"),
        ("transformer", TEXTS, {"layer": 0, "kind": "decoder"}, "There is no layer 0; the decoder has"),
        ("transformer", TEXTS, {"layer": 1, "neuron": 999}, "There is no neuron 999; a layer of the encoder"),
        ("transformer", TEXTS, {"kind": "cross"}, "Neurons are those of the encoder or of the decoder"),
        ("transformer", ["", " "], {}, "All lines of the file are blank: no neuron is active at them."),
        ("transformer", ["\u200b"], {}, "All lines of the file are blank"),
        ("transformer", [], {}, "All lines of the file are blank"),
        ("lstm", TEXTS, {}, "This model (lstm) has no feed-forward sub-layers, whose hidden units are the"),
        ("conv", TEXTS, {}, "This model (conv) has no feed-forward sub-layers"),
    ],
)
def test_what_is_not_there_gets_a_sentence(name, lines, asked, message):
    with pytest.raises(DragomanError, match=re.escape(message)):
        neuron_samples(translator_of(MODELS[name]), lines, SETTINGS, **asked)


def test_numbers_that_are_not_finite_get_a_sentence():
    translator = translator_of(MODELS["transformer"])
    with torch.no_grad():
        translator.torch_backend.model.encoder[0].feed_forward.inner.bias.fill_(torch.inf)
    with pytest.raises(DragomanError, match="are not finite"):
        neuron_samples(translator, TEXTS, SETTINGS, kind="encoder")


# ---- the picture


def test_a_picture_has_each_sample_with_the_tokens_around_it():
    found = neuron_samples(translator_of(MODELS["transformer"]), ["two", "", "a Mann"], SETTINGS, "encoder")
    svg = neuron_samples_picture(found)
    expected = [
        [visible(token), f"{value:.4f}"]
        for layer in found.layers
        for one in layer.neurons
        for sample in one.samples
        for token, value in zip(sample.tokens, sample.activations, strict=True)
    ]
    assert titles(svg) == expected
    first = found.layers[0].neurons[0]
    words = texts(svg)
    assert f"Layer 1, neuron {first.neuron}" in words
    assert f"line {first.samples[0].line}" in words
    assert sum("stroke-best" in each.get("class", "") for each in ElementTree.fromstring(svg).iter()) == sum(
        len(one.samples) for layer in found.layers for one in layer.neurons
    )


@pytest.mark.parametrize("negative", [False, True])
def test_a_neuron_is_drawn_with_its_numbers_and_the_legend_with_negative_ones_if_there_are_any(negative):
    activations = np.array([0.5, -1.5 if negative else 1.5, 0.0], np.float32)
    neuron = SampledNeuron(2, (NeuronSample(1234, 2, ("▁a", "▁b", "</s>"), activations),))
    numbers = np.array([[0.125, 0.75], [3.0, 2.5], [-0.5, 0.25]], np.float32)  # share, greatest, mean
    layer = SampledLayer("encoder", 1, *numbers, (neuron,))
    found = NeuronSamples(3, {"encoder": 9}, "gelu", (layer,))
    words = texts(neuron_samples_picture(found))
    assert "active at 75.0% of tokens; greatest 2.50, mean 0.25" in words
    place = words.index("line 1,234")
    assert words[place - 1] == decimal(float(activations[1]))
    place = words.index("activation, as a share of the neuron's greatest absolute activation")
    ticks = ["−1"] * negative + ["0", "1"]
    assert words[place + 1 : place + 1 + len(ticks)] == ticks


def test_a_picture_cuts_a_long_text_and_names_a_silent_neuron():
    found = neuron_samples(translator_of(MODELS["transformer"]), [" ".join(LINES * 6)], SETTINGS, "encoder")
    words = texts(neuron_samples_picture(found))
    assert "…" in words
    (layer, *_), silent = found.layers, replace(found.layers[0].neurons[0], samples=())
    words = texts(neuron_samples_picture(replace(found, layers=(replace(layer, neurons=(silent,)),))))
    assert "Its activation is 0 at all tokens." in words


@given(st.lists(st.text("aW中", min_size=1, max_size=12), min_size=1, max_size=60), st.data())
def test_a_sample_is_drawn_with_as_many_tokens_as_fit_and_an_ellipsis_for_those_that_do_not(tokens, data):
    strongest = data.draw(st.integers(0, len(tokens) - 1))
    numbers = np.arange(len(tokens), dtype=np.float32)
    drawing = Drawing("a", "title", "description")
    draw_sample(drawing, NeuronSample(1, strongest + 1, tuple(tokens), numbers), 50.0, 60.0)
    svg = drawing.svg()
    drawn = [int(float(value)) for _, value in titles(svg)]
    first, last = drawn[0], drawn[-1]
    assert drawn == list(range(first, last + 1))
    assert first <= strongest <= last
    assert texts(svg).count("…") == (first > 0) + (last < len(tokens) - 1)
    widths = [cell_width(token) for token in tokens]
    for inside, next_one in (
        (widths[first:strongest], widths[:first][-1:]),
        (widths[strongest + 1 : last + 1], widths[last + 1 :][:1]),
    ):
        assert sum(inside) <= AROUND + 0.01
        assert not next_one or sum(inside) + next_one[0] >= AROUND - 0.01


# ---- the command


@pytest.fixture
def command(command_line, folder, tmp_path):  # noqa: F811
    file = tmp_path / "test.de"
    file.write_text("\n".join(TEXTS) + "\n")

    def run(*options):
        return command_line("inspect", folder, "--file", file, "--show", "neurons",
            "--max-extra-tokens", 3, *options,
        )  # fmt: skip

    return run


def test_a_file_gives_the_samples_of_its_lines(command, folder, tmp_path):  # noqa: F811
    out = tmp_path / "neurons.json"
    status, _, err = command("--out", out)
    assert (status, "has the strongest tokens of neurons in 8 lines." in err) == (0, True), err
    table = json.loads(out.read_text())
    expected = neuron_samples(Translator.load(folder, native=False), TEXTS, SETTINGS)
    for side in SIDES:
        layers = [each for each in expected.layers if each.side == side]
        assert table[side]["tokens"] == expected.tokens[side]
        for shown, layer in zip(table[side]["layers"], layers, strict=True):
            np.testing.assert_allclose(shown["greatest"], layer.greatest, atol=2e-4)
            assert len(shown["neurons"]) == module.OF_EACH_LAYER
    picture = tmp_path / "neuron.svg"
    assert command("--kind", "decoder", "--layer", 1, "--neuron", 2, "--out", picture)[0] == 0
    assert "Layer 1, neuron 2" in texts(picture.read_text())
    assert "Encoder" not in picture.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.html"], "with --file its name has to end with .json, .svg or .png."),
        (["--out", "x.svg", "--layer", 9], "There is no layer 9; the encoder has"),
        (["--out", "x.svg", "--neuron", 1], "--neuron needs --layer; give both, or leave --neuron out."),
        (["--out", "x.svg", "--head", 1], "--layer and --head are for --show encoder,"),
        (
            ["--out", "x.svg", "--window", 1, 2],
            "--file and --window exclude each other: a view of many sentences shows none of them;",
        ),
        (
            ["--out", "x.json", "--what-if", "beam_size=1"],
            "--file and --what-if exclude each other: a view of many sentences",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_gets_a_sentence(command, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = command(*options)
    assert (status, list(tmp_path.glob("x.*"))) == (2, [])
    assert message in " ".join(err.split())

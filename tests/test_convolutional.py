"""ConvS2S: its equations, what its kernels reach, kernels of any width, and a run with it."""

import re
import sys
from dataclasses import fields, replace
from inspect import signature
from typing import get_args, get_type_hints

import pytest
import torch
from torch.nn import functional as F

from dragoman.cli import main as cli
from dragoman.model.architectures import check_architecture
from dragoman.model.build import build_model
from dragoman.model.convolutional import GatedConvolution
from dragoman.model.settings import Architecture, ModelSettings
from dragoman.model.symbols import PAD, START
from dragoman.system.errors import DragomanError
from tests import test_laws
from tests.conftest import VOCABULARY, no_shape_checks, small_recipe
from tests.test_safety import assert_stopping_changes_nothing

CONV = ModelSettings("conv", d_model=8, encoder_layers=2, decoder_layers=2, positions="learned")


def built(settings: ModelSettings):
    """A model with random weights, biases too, in float64 and evaluation mode."""
    torch.manual_seed(1)
    model = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("layer", [0, 2])
def test_a_gated_convolution_is_that_of_pytorch(width, layer):
    torch.manual_seed(1)
    gated = GatedConvolution(replace(CONV, kernel_width=width, dilated=True), layer).double()
    x = torch.randn(3, 4 + gated.reach, 8, dtype=torch.float64)
    kernel = gated.kernel.weight.view(16, width, 8).transpose(1, 2)  # outputs, inputs, steps
    convolved = F.conv1d(x.transpose(1, 2), kernel, gated.kernel.bias, dilation=2**layer)
    torch.testing.assert_close(gated(x), F.glu(convolved, 1).transpose(1, 2))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_gated_convolution_keeps_the_variance_of_small_inputs(dropout):
    """In training: what dropout adds, the initial weights take away."""
    torch.manual_seed(1)
    gated = GatedConvolution(ModelSettings("conv", d_model=256, dropout=dropout), 0)
    x = 0.1 * torch.randn(20, 52, 256)
    ratio = gated(F.dropout(x, dropout)).var() / x.var()
    assert 0.9 < ratio < 1.1


def reach_of(model, side: str) -> set[int]:
    """Steps from a token, in a text of 41, to those whose features its embedding changes."""
    ids = torch.full((1, 41), 5)
    part, embedding = (
        (model.source_positions, model.source_embedding)
        if side == "source"
        else (model.target_positions, model.target_embedding)
    )
    x = model.embed(ids, embedding, part(0, 41)).detach().requires_grad_()
    model.embed = lambda *_: x
    if side == "source":
        out = model.encode(ids).keys
    else:
        state = model.encode(ids)
        state = replace(state, keys=state.keys.detach(), values=state.values.detach())
        out = model.decode(ids, state)[0]
    (gradient,) = torch.autograd.grad(out[0, 20].sum(), x)
    return {place - 20 for place, row in enumerate(gradient[0]) if row.any()}


@pytest.mark.parametrize(
    ("width", "dilated", "before", "after"),
    [
        (1, False, 0, 0),
        (2, False, 0, 3),
        (3, False, 3, 3),
        (4, False, 3, 6),
        (3, True, 7, 7),
        (2, True, 3, 4),
    ],
)
def test_a_token_sees_what_the_kernels_reach(width, dilated, before, after):
    settings = replace(CONV, encoder_layers=3, decoder_layers=3, kernel_width=width, dilated=dilated)
    assert reach_of(built(settings), "source") == set(range(-before, after + 1))
    assert reach_of(built(settings), "target") == set(range(-before - after, 1))


def test_after_sixteen_the_distances_begin_again():
    settings = replace(CONV, encoder_layers=7, decoder_layers=7, dilated=True)
    model = build_model(settings, VOCABULARY, VOCABULARY)
    for side in (model.encoder, model.decoder):
        assert [block.convolution.distance for block in side] == [1, 2, 4, 8, 16, 1, 2]


def takes_any_model(law):
    """Whether a law is of a model, and of sentences if it needs any."""
    first, *others = signature(getattr(test_laws, law)).parameters
    return first == "model" and {*others} <= {"sources", "targets"}


@pytest.mark.parametrize("width", [1, 25])
@pytest.mark.parametrize(
    "law", [name for name in vars(test_laws) if name.startswith("test_") and takes_any_model(name)]
)
def test_the_laws_hold_for_kernels_of_one_or_wider_than_the_sentence(width, law, sources, targets):
    given = {"sources": sources, "targets": targets}
    check = getattr(test_laws, law)
    _, *names = signature(check).parameters
    check(built(replace(CONV, kernel_width=width)), **{name: given[name] for name in names})


@pytest.mark.parametrize("law", ["step_by_step_equals_at_once", "padding_changes_nothing"])
def test_an_enriched_kernel_may_be_wider_than_the_sentence_too(law, sources, targets):
    model = built(replace(CONV, architecture="conv-enriched", heads=2, kernel_width=25))
    getattr(test_laws, f"test_{law}")(model, sources, targets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["restricted", "--neighbourhood", "0"], "--neighbourhood is 0; it must be at least 2."),
        (["conv", "--kernel-width", "0"], "--kernel-width is 0; it must be at least 1."),
        (
            ["conv", "--neighbourhood", "8"],
            "--neighbourhood is for --architecture transformer, and not conv; give that, or leave",
        ),
        (["rnn-enriched", "--kernel-width", "5"], "--architecture conv or conv-enriched, and not lstm-"),
        (["rnn-enriched", "--d-model", "17", "--heads", "1"], "--d-model 17 is odd, and an encoder of"),
        (
            ["small", "--input-feeding"],
            "--input-feeding is for --architecture lstm or gru, and not transformer; give that,",
        ),
        (
            ["restricted", "--attention-score", "additive"],
            "--neighbourhood and --attention-score exclude each",
        ),
        (
            ["rnn", "--heads", "4"],
            "The architecture lstm has no --heads; leave it out, or choose another preset.",
        ),
        (
            ["tiny", "--architecture", "gru", "--d-ff", "4"],
            "The architecture gru has no --d-ff; leave it out, or choose another preset.",
        ),
        (
            ["conv", "--heads", "4"],
            "The architecture conv has no --heads; leave it out, or choose another preset.",
        ),
    ],
)
def test_a_wrong_setting_is_refused_before_text_is_read(arguments, message, monkeypatch, capsys, tmp_path):
    for side in ("source", "target"):
        (tmp_path / side).write_text("a b\nc d\n")
    files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    command = ["dragoman", "train", *files, "--out", str(tmp_path / "run"), "--preset", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Text:" not in told
    assert not (tmp_path / "run").exists()


def test_attention_is_equations_1_and_2_of_the_paper(sources, targets):
    model, half = built(replace(CONV, decoder_layers=1)), 0.5**0.5
    embedded = model.embed(sources, model.source_embedding, model.source_positions(0, 7))
    state, attention = model.encode(sources), model.decoder[0].attention
    for row, source in enumerate(sources):
        length = int((source != PAD).sum())
        z, e = state.keys[row, :length], embedded[row, :length]
        h, g = torch.randn(2, 6, 8, dtype=torch.float64)
        d = (attention.query(h) + g) * half
        context = (d @ z.T).softmax(-1) @ ((z + e) * half) * length**0.5
        one = state.select(torch.tensor([row]))
        torch.testing.assert_close(
            attention(h[None], g[None], one)[0], (h + attention.output(context)) * half
        )


@pytest.mark.parametrize("layers", [1, 3])
def test_the_gradient_of_the_encoder_is_divided_by_twice_the_attentions(sources, targets, layers):
    model = built(replace(CONV, decoder_layers=layers))

    def loss() -> torch.Tensor:
        return model.decode(targets, model.encode(sources))[0].square().sum()

    for weight, divisor in ((model.encoder_output.bias, 2 * layers), (model.decoder_input.bias, 1)):
        (gradient,) = torch.autograd.grad(loss(), weight)
        ends = []
        for step in (1e-4, -2e-4, 1e-4):
            with torch.no_grad():
                weight[0] += step
                ends.append(loss().item())
        assert float(gradient[0]) * divisor == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-4)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_initial_positions_are_as_large_as_words(positions):
    settings = replace(CONV, d_model=64, positions=positions)
    model = build_model(settings, 500, 500).eval().requires_grad_(requires_grad=False)
    ids = torch.randint(4, 500, (1, 100))
    words = model.source_embedding(ids)
    places = model.embed(ids, model.source_embedding, model.source_positions(0, 100)) - words
    assert float(words.std()) == pytest.approx(0.1, rel=0.1)
    assert float(places.square().mean().sqrt()) == pytest.approx(0.1, rel=0.35)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"architecture": "conv", "norm": "pre"},
            "norm is for architecture transformer, .*, and not conv; give that, or leave norm",
        ),
        (
            {"architecture": "conv", "d_k": 3},
            "d_k is for architecture transformer, .*, and not conv; give that, or leave d_k out",
        ),
        (
            {"architecture": "gru", "dilated": True},
            "dilated is for architecture conv or conv-enriched, and not gru",
        ),
        ({"kernel_width": 5}, "kernel_width is for architecture conv or conv-enriched, and not transf"),
        ({"architecture": "conv", "kernel_width": 0}, "kernel_width is 0; it must be at least 1"),
        ({"architecture": "conv", "kernel_width": 1025}, "kernel_width is 1025; it must be at most 1024"),
    ],
)
def test_settings_that_an_architecture_has_not_are_refused(settings, message):
    with pytest.raises(DragomanError, match=message):
        build_model(ModelSettings(**{"d_model": 8, **settings}), 11, 11)


def another(name: str, value: object) -> object:
    """Another value of this setting than the default."""
    if value is None:
        return "general" if name == "attention_score" else 3
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return next(one for one in get_args(get_type_hints(ModelSettings)[name]) if one != value)
    return value + type(value)(1) if value >= 1 else value + type(value)(0.5) or 1


@pytest.mark.short_form(26)
@pytest.mark.parametrize(
    "architecture",  # a GRU differs from an LSTM in its cell alone
    [
        pytest.param(name, marks=[pytest.mark.long] * name.startswith("gru"))
        for name in get_args(Architecture)
    ],
)
@pytest.mark.parametrize("field", fields(ModelSettings)[1:], ids=lambda field: field.name)
@no_shape_checks()
def test_every_setting_is_used_or_refused(architecture, field, sources, targets):
    """Except sizes of other architectures, which presets set, and the head that alignments are read from."""
    if architecture != "transformer" and field.name in ("d_ff", "heads"):
        return
    if field.name == "alignment_head" and architecture not in ("lstm", "gru", "conv"):
        return
    settings = ModelSettings(architecture, d_model=12, d_ff=8, heads=2, encoder_layers=2, decoder_layers=2)
    if field.name == "max_positions":
        settings = replace(settings, positions="learned")
    within_bounds = {"d_model": 24, "alignment_head": 2}
    change = within_bounds.get(field.name) or another(field.name, getattr(settings, field.name))
    target_in = torch.cat([torch.full_like(targets[:, :1], START), targets], 1)
    made = []
    try:
        for each in (settings, replace(settings, **{field.name: change})):
            torch.manual_seed(1)
            model = build_model(each, VOCABULARY, VOCABULARY).train()
            features, _ = model.decode(target_in, model.encode(sources))
            made.append((len(list(model.parameters())), model.logits(features)))
    except DragomanError as error:
        advice = r"leave \w+ out"
        assert re.search(advice, str(error))  # noqa: PT017
        with pytest.raises(DragomanError, match=advice):  # also of a recipe, before text is read
            check_architecture(replace(settings, **{field.name: change}))
    else:
        assert made[0][0] != made[1][0] or not torch.equal(made[0][1], made[1][1])


def test_a_text_beyond_the_learned_positions_is_refused(sources, targets):
    model = built(replace(CONV, max_positions=6))
    with pytest.raises(DragomanError, match="6"):
        model.encode(sources)
    assert model.longest_source == model.longest_target == 6


def test_layers_are_called_once_and_are_all_but_embeddings_and_the_maps_around_them(sources, targets):
    model, called = built(CONV), []
    layers = [layer for layer, _ in model.layers()]
    for layer in layers:
        layer.register_forward_hook(lambda module, *_: called.append(module))
    model.decode(targets, model.encode(sources))
    assert called == layers, "what is called is what torch.compile replaces and FSDP shards"
    own = {id(weight) for layer in layers for weight in layer.parameters()}
    others = {name.split(".")[0] for name, weight in model.named_parameters() if id(weight) not in own}
    maps = {f"{side}_{end}" for side in ("encoder", "decoder") for end in ("input", "output")}
    assert others == maps | {"target_embedding", "source_positions", "target_positions"}


@pytest.mark.long
def test_a_stopped_run_ends_with_the_weights_of_one_that_was_not(tmp_path):
    model = replace(CONV, d_model=16, kernel_width=2, dropout=0.2, max_positions=40)
    assert_stopping_changes_nothing(replace(small_recipe(tmp_path, tmp_path / "run"), model=model), 8)

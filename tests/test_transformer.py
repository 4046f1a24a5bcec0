"""The Transformer against torch.nn.Transformer, and its size against Table 3."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Residual, Transformer
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml

TABLE_3 = sorted(Path(__file__).parents[1].glob("experiments/table3/*.toml"))
SMALL = ModelSettings(d_model=16, d_ff=32, heads=4, encoder_layers=2, decoder_layers=2, attention_bias=True)


def copy_attention(ours, theirs):
    theirs.in_proj_weight.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_layer(ours, theirs, norms):
    copy_attention(ours.self_attention, theirs.self_attn)
    if norms == 3:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    residuals = [
        ours.self_attention_residual,
        *([ours.cross_attention_residual] if norms == 3 else []),
        ours.feed_forward_residual,
    ]
    for number, residual in enumerate(residuals, 1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torchs_transformer_with_copied_weights(norm, activation, sources, targets):
    torch.manual_seed(0)
    ours = Transformer(replace(SMALL, norm=norm, activation=activation), 11, 11).double().eval()
    with torch.no_grad():
        for weight in ours.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    theirs = (
        nn.Transformer(16, 4, 2, 2, 32, 0.0, activation, batch_first=True, norm_first=norm == "pre")
        .double()
        .train()
    )
    theirs.encoder.norm = nn.Identity() if norm == "post" else theirs.encoder.norm
    theirs.decoder.norm = nn.Identity() if norm == "post" else theirs.decoder.norm
    with torch.no_grad():
        for layer, other in zip(ours.encoder, theirs.encoder.layers, strict=True):
            copy_layer(layer, other, norms=2)
        for layer, other in zip(ours.decoder, theirs.decoder.layers, strict=True):
            copy_layer(layer, other, norms=3)
        if norm == "pre":
            theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
            theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())

    def embed(ids):
        return ours.target_embedding(ids) * 16**0.5 + ours.source_positions(0, ids.size(1))

    padding = sources == PAD
    causal = nn.Transformer.generate_square_subsequent_mask(targets.size(1)).isinf()
    expected = theirs(
        embed(sources),
        embed(targets),
        tgt_mask=causal,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_is_causal=True,
    )
    torch.testing.assert_close(ours.decode(targets, ours.encode(sources))[0], expected)


def parameters_by_formula(settings: ModelSettings, vocabulary: int) -> int:
    """Weights of sections 3.1 to 3.5, added up by hand."""
    d, ff = settings.d_model, settings.d_ff
    attention = settings.heads * (2 * d * settings.key_width + 2 * d * settings.value_width)
    feed_forward = 2 * d * ff + ff + d
    encoder = attention + feed_forward + 2 * 2 * d
    decoder = 2 * attention + feed_forward + 3 * 2 * d
    learned = 2 * settings.max_positions * d if settings.positions == "learned" else 0
    return vocabulary * d + settings.encoder_layers * encoder + settings.decoder_layers * decoder + learned


@pytest.mark.short_form(6)
@pytest.mark.parametrize("path", TABLE_3, ids=lambda path: path.stem)
def test_parameters_of_table_3_equal_the_closed_formula(path):
    table = read_toml(path)
    settings = overlay(PRESETS[table.pop("preset")], table.get("model", {}), str(path))
    overlay(Recipe(), table, str(path))
    with torch.device("meta"):
        model = Transformer(settings, 37_000, 37_000)
    assert sum(weight.numel() for weight in model.parameters()) == parameters_by_formula(settings, 37_000)


def test_table_3_has_all_rows():
    assert len(TABLE_3) == 20


def test_the_defaults_are_the_papers_base_model():
    assert ModelSettings() == PRESETS["base"]
    assert round(parameters_by_formula(ModelSettings(), 37_000) / 1e6, 2) == 63.05
    assert round(parameters_by_formula(PRESETS["big"], 37_000) / 1e6, 1) == 214.2


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_embeddings_are_one_matrix(tied, matrices):
    model = Transformer(replace(SMALL, tied=tied), 11, 11)
    weights = (model.source_embedding.weight, model.target_embedding.weight, model.output.weight)
    assert len({weight.data_ptr() for weight in weights}) == matrices


def test_embeddings_are_multiplied_by_the_root_of_d_model():
    model = Transformer(replace(SMALL, dropout=0.0), 11, 11)
    ids = torch.tensor([[5, 6]])
    zero = torch.zeros(2, 16)
    torch.testing.assert_close(
        model.embed(ids, model.source_embedding, zero), 4 * model.source_embedding(ids)
    )


def test_embeddings_without_scaling_are_used_as_they_are():
    model = Transformer(replace(SMALL, dropout=0.0, scale_embeddings=False), 11, 11)
    ids, positions = torch.tensor([[5, 6]]), torch.randn(2, 16)
    embedded = model.embed(ids, model.source_embedding, positions)
    torch.testing.assert_close(embedded, model.source_embedding(ids) + positions)


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_embeddings_start_normal_with_the_inverse_root_of_d_model(tied):
    torch.manual_seed(0)
    model = Transformer(
        replace(SMALL, d_model=64, tied=tied, positions="learned", max_positions=500), 900, 900
    )
    embeddings = [model.source_embedding, model.target_embedding, model.output]
    for weight in (*(embedding.weight for embedding in embeddings), model.source_positions.table):
        assert weight.mean().item() == pytest.approx(0, abs=0.002)
        assert weight.std().item() == pytest.approx(1 / 8, rel=0.02)
        assert 4 / 8 < weight.abs().max() < 6 / 8  # of 57,600 normal numbers; uniform ones would end at 0.22


def test_feed_forward_starts_uniform_with_biases_of_zero_and_norms_start_as_none():
    torch.manual_seed(0)
    model = Transformer(replace(SMALL, d_model=64, d_ff=100, output_bias=True), 11, 11)
    for layer in (*model.encoder, *model.decoder):
        for linear in (layer.feed_forward.inner, layer.feed_forward.outer):
            bound = linear.in_features**-0.5
            assert 0.98 * bound < linear.weight.abs().max() <= bound
            assert linear.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
            assert linear.bias.eq(0).all()
    for norm in (module for module in model.modules() if isinstance(module, nn.LayerNorm)):
        assert norm.weight.eq(1).all()
        assert norm.bias.eq(0).all()
    assert model.output_bias.eq(0).all()


def modules_of(model, kind):
    return [module for module in model.modules() if isinstance(module, kind)]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_acts_on_embeddings_with_positions_and_on_every_sub_layers_output(norm, sources, targets):
    """Section 5.4: and on nothing else, as the next test has it."""
    torch.manual_seed(0)
    model = Transformer(replace(SMALL, norm=norm, dropout=0.3), 11, 11).train()
    dropped, outputs = [], []

    def embedding_and_positions(_, inputs, output):
        outputs.append(output * 4 + model.source_positions(0, inputs[0].size(1)))

    model.target_embedding.register_forward_hook(embedding_and_positions)
    for layer in (*model.encoder, *model.decoder):
        attentions = [layer.self_attention, *([layer.cross_attention] if layer in model.decoder else [])]
        for last in (*(attention.output for attention in attentions), layer.feed_forward):
            last.register_forward_hook(lambda _, __, output: outputs.append(output))
    for dropout in modules_of(model, nn.Dropout):
        assert dropout.p == 0.3
        dropout.register_forward_hook(lambda _, inputs, output: dropped.append((inputs[0], output)))
    model.decode(targets, model.encode(sources))
    assert len(dropped) == len(outputs) == 1 + 2 * 2 + 1 + 2 * 3
    for expected, (before, after) in zip(outputs, dropped, strict=True):
        torch.testing.assert_close(before, expected)
        assert after.eq(0).float().mean().item() == pytest.approx(0.3, abs=0.1)


def test_without_its_dropout_modules_training_is_evaluation(sources, targets):
    torch.manual_seed(0)
    model = Transformer(replace(SMALL, dropout=0.3), 11, 11).train()
    for dropout in modules_of(model, nn.Dropout):
        dropout.p = 0.0
    features, _ = model.decode(targets, model.encode(sources))
    torch.testing.assert_close(features, model.eval().decode(targets, model.encode(sources))[0])


def test_each_sub_layers_dropout_is_added_to_what_went_past_it():
    for norm in ("post", "pre"):
        torch.manual_seed(0)
        residual = Residual(replace(SMALL, norm=norm, dropout=0.5)).double().train()
        with torch.no_grad():
            residual.norm.weight.uniform_(0.5, 2)
        x, y = torch.randn(2, 3, 5, 16, dtype=torch.float64)
        state = torch.get_rng_state()
        found = residual.after(x, y)
        torch.set_rng_state(state)
        total = x + F.dropout(y, 0.5)
        normed = F.layer_norm(total, (16,), residual.norm.weight, residual.norm.bias)
        torch.testing.assert_close(found, normed if norm == "post" else total)
        expected = F.layer_norm(x, (16,), residual.norm.weight, residual.norm.bias) if norm == "pre" else x
        torch.testing.assert_close(residual.before(x), expected)


@pytest.mark.parametrize("source_end", [True, False])
def test_padding_is_masked_and_the_end_as_the_settings_say(source_end, sources):
    mask = Transformer(replace(SMALL, source_end=source_end), 11, 11).source_mask(sources)
    expected = (sources != PAD) & (source_end | (sources != END))
    assert mask.shape == (3, 1, 1, 7)
    assert torch.equal(mask[:, 0, 0], expected)


def test_the_encoder_can_be_used_alone():
    assert Transformer(SMALL, 11, 11).encode(torch.tensor([[5, 6, END]])).encoder_output.shape == (1, 3, 16)


def test_the_encoders_output_is_kept_until_the_search_begins():
    state = Transformer(SMALL, 11, 11).encode(torch.tensor([[5, 6, END], [5, END, PAD]]))
    assert state.allocate(2, 4).encoder_output is None
    assert state.select(torch.tensor([1])).encoder_output is None


@pytest.mark.parametrize("variant", [{}, {"attention_score": "dot"}, {"neighbourhood": 2}])
def test_token_by_token_a_state_without_a_cache_is_refused(variant):
    """It would attend to the new tokens alone."""
    model = build_model(replace(SMALL, **variant), 11, 11).eval()
    _, state = model.decode(torch.tensor([[5]]), model.encode(torch.tensor([[5, 6, END]])))
    with pytest.raises(DragomanError, match=r"decode needs the state that State\.allocate returns"):
        model.decode(torch.tensor([[6]]), state)


def test_sources_are_read_once_whatever_is_decoded():
    model = Transformer(SMALL, 11, 11).eval()
    runs = []
    model.encoder[0].register_forward_hook(lambda *_: runs.append(1))
    state = model.encode(torch.tensor([[5, END]])).allocate(2, 4)
    keys = state.memory[0].keys
    for _ in range(4):
        _, state = model.decode(torch.tensor([[5], [6]]), state)
        state = state.reorder(torch.tensor([1, 0]))
    assert len(runs) == 1
    assert state.memory[0].keys is keys


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(
        DragomanError,
        match="d_model 10 does not divide into 4 heads; choose another number of heads, or set d_k and d_v",
    ):
        Transformer(ModelSettings(d_model=10, heads=4), 11, 11)
    assert ModelSettings(d_model=10, heads=4, d_k=3, d_v=2).key_width == 3


@pytest.mark.parametrize("architecture", ["transformer", "lstm"])
def test_two_vocabularies_cannot_be_tied_three_ways(architecture):
    with pytest.raises(DragomanError, match="these are two, of 11 and 12 tokens"):
        build_model(ModelSettings(architecture=architecture), 11, 12)


def test_options_of_the_transformer_are_refused_by_the_recurrent_model():
    with pytest.raises(
        DragomanError,
        match="norm is for architecture transformer, .*, and not gru; give that, or leave norm out",
    ):
        build_model(ModelSettings(architecture="gru", norm="pre"), 11, 11)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "heads is 0; it must be at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be below 1"),
        ({"d_k": 0}, "d_k is 0; it must be at least 1"),
    ],
)
def test_settings_that_make_no_model_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelSettings(**settings)


NUMBERS = [
    name for name, hint in get_type_hints(ModelSettings).items() if {int, float} & {hint, *get_args(hint)}
]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_model_has_bounds(name):
    number = float if get_type_hints(ModelSettings)[name] is float else int
    for value, message in ((-1, "it must be at least"), (10**9, "it must be (at most|below)")):
        with pytest.raises(DragomanError, match=f"^{name} is {re.escape(str(number(value)))}; {message}"):
            ModelSettings(**{name: number(value)})


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ({"alignment_head": 3, "heads": 3}, {"alignment_head": 4, "heads": 3}),
        ({"neighbourhood": 2}, {"neighbourhood": 1}),
        ({"first_position": 0}, {"first_position": -1}),
        ({"norm_epsilon": 0.0}, {"norm_epsilon": math.nextafter(0, -1)}),
        ({"norm_epsilon": 1.0}, {"norm_epsilon": math.nextafter(1, 2)}),
        ({"dropout": math.nextafter(1, 0)}, {"dropout": 1.0}),
        ({"attention_dropout": math.nextafter(1, 0)}, {"attention_dropout": 1.0}),
    ],
    ids=str,
)
def test_a_bound_of_a_model_is_exactly_where_it_is_documented(allowed, refused):
    assert vars(ModelSettings(**allowed)).items() >= allowed.items()
    with pytest.raises(DragomanError, match=f"^{next(iter(refused))} is "):
        ModelSettings(**refused)


def test_an_end_of_the_source_that_is_masked_is_as_none(sources, targets):
    torch.manual_seed(0)
    model = (
        Transformer(
            ModelSettings(d_model=16, d_ff=24, heads=2, encoder_layers=2, decoder_layers=2, source_end=False),
            11,
            11,
        )
        .double()
        .eval()
    )
    without = sources.masked_fill(sources == END, PAD)
    features, _ = model.decode(targets, model.encode(sources))
    torch.testing.assert_close(features, model.decode(targets, model.encode(without))[0])


def test_every_norm_has_the_epsilon_of_the_settings():
    model = Transformer(
        ModelSettings(d_model=16, heads=2, encoder_layers=1, decoder_layers=1, norm="pre", norm_epsilon=1e-6),
        11,
        11,
    )
    assert {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)} == {1e-6}

"""Variants of the Transformer's parts: each equals its formula, or the paper's part where they coincide."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dragoman import SearchSettings, Translator
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.recording import record
from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.recurrent import AdditiveAttention
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, START
from dragoman.model.transformer import Transformer
from dragoman.model.variants import (
    AdditiveMultiHeadAttention,
    BatchNorm,
    DotProductAttention,
    GeneralAttention,
    RestrictedAttention,
    band,
)
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model
from tests.conftest import TINY, VOCABULARY

HEADS, WIDTH = 2, 3
SIZES = (6, HEADS, WIDTH, WIDTH)


def memory_of(tokens: int, seed: int = 0) -> tuple[torch.Tensor, KeysValues]:
    """Random queries, keys and values of three sentences in float64."""
    generator = torch.Generator().manual_seed(seed)
    query, keys, values = torch.randn(
        3, 3, HEADS, tokens, WIDTH, generator=generator, dtype=torch.float64
    ).unbind()
    return query, KeysValues(keys, values)


def same_weights(made: MultiHeadAttention, other: MultiHeadAttention) -> None:
    made.load_state_dict(other.state_dict(), strict=False)


def built(settings: ModelSettings) -> Transformer:
    torch.manual_seed(5)
    model = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    assert isinstance(model, Transformer)
    return model


def features(model: Transformer, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return model.decode(target, model.encode(source))[0]


# ---- scores


def test_unscaled_and_general_scores_equal_scaled_ones_where_they_coincide():
    paper, dot, general = (
        kind(*SIZES).double() for kind in (MultiHeadAttention, DotProductAttention, GeneralAttention)
    )
    same_weights(dot, paper)
    same_weights(general, paper)
    general.score.data = torch.eye(WIDTH, dtype=torch.float64).repeat(HEADS, 1, 1) * WIDTH**-0.5
    query, memory = memory_of(5)
    mask = torch.rand(3, 1, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.6
    mask |= torch.eye(5, dtype=torch.bool)
    for options in ({}, {"mask": mask}, {"causal": True}):
        expected = paper.attend(query, memory, **options)
        torch.testing.assert_close(dot.attend(query * WIDTH**-0.5, memory, **options), expected)
        torch.testing.assert_close(general.attend(query, memory, **options), expected)


def test_one_additive_head_is_the_attention_of_bahdanau():
    heads, bahdanau = AdditiveMultiHeadAttention(4, 1, 4, 4).double(), AdditiveAttention(4, 4, 4).double()
    queries, memory = torch.randn(2, 3, 2, 4, dtype=torch.float64).unbind()
    projections = heads.query_key_value.weight.data
    bahdanau.query.weight.data, bahdanau.query.bias.data = projections[:4], torch.zeros(4).double()
    bahdanau.key.weight.data, bahdanau.score.weight.data = projections[4:8], heads.score.data
    found = []
    heads.attention_weights_hook = bahdanau.attention_weights_hook = found.append
    heads.attend(heads.project_query(queries), heads.project_memory(memory))
    present = torch.ones(3, 2, dtype=torch.bool)
    bahdanau(queries.flatten(0, 1), bahdanau.key(memory), memory, present)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", [DotProductAttention, GeneralAttention, AdditiveMultiHeadAttention])
def test_dropout_of_other_scores_is_of_their_weights(kind):
    attention = kind(*SIZES, dropout=0.5).double()
    query, memory = memory_of(4)
    ones = KeysValues(memory.keys, torch.ones_like(memory.values))
    attention.output.weight.data = torch.eye(6, dtype=torch.float64)
    assert attention.eval().attend(query, ones).allclose(torch.ones(3, 4, 6, dtype=torch.float64))
    torch.manual_seed(1)
    assert not attention.train().attend(query, ones).allclose(torch.ones(3, 4, 6, dtype=torch.float64))


@pytest.mark.parametrize("kind", [DotProductAttention, GeneralAttention, AdditiveMultiHeadAttention])
def test_a_query_without_a_key_gets_zeros(kind):
    query, memory = memory_of(4)
    mask = torch.ones(3, 1, 4, 4, dtype=torch.bool)
    mask[:, :, 2] = False
    found = kind(*SIZES).double().attend(query, memory, mask)
    assert found[:, 2].eq(0).all()
    assert found[:, [0, 1, 3]].ne(0).all()


# ---- restricted self-attention


def restricted(radius: int) -> tuple[MultiHeadAttention, RestrictedAttention]:
    """Full attention and restricted attention with the same weights."""
    full, near = MultiHeadAttention(*SIZES).double(), RestrictedAttention(*SIZES).double()
    near.radius = radius
    same_weights(near, full)
    return full, near


@pytest.mark.parametrize("tokens", [1, 2, 6, 7, 13, 30])
@pytest.mark.parametrize("radius", [1, 2, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_restricted_attention_in_blocks_equals_full_attention_with_a_mask(tokens, radius, causal):
    full, near = restricted(radius)
    query, memory = memory_of(tokens, tokens)
    lengths = torch.tensor([tokens, max(1, tokens - 1), max(1, tokens // 2)])
    padding = None if causal else (torch.arange(tokens) < lengths[:, None])[:, None, None]
    inputs = [x.requires_grad_() for x in (query, *memory)]
    allowed = band(tokens, radius, causal, query.device)[None, None]
    real = torch.ones(3, tokens, dtype=torch.bool) if padding is None else padding[:, 0, 0]
    outputs, gradients = [], []
    for module, mask in ((full, allowed if padding is None else allowed & padding), (near, padding)):
        options = {"causal": True} if module is near and causal else {"mask": mask}
        output = module.attend(query, memory, **options)[real]
        outputs.append(output)
        gradients.append(torch.autograd.grad(output.square().sum(), inputs))
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*gradients)


def test_the_weights_of_restricted_attention_are_zero_outside_its_neighbourhood():
    _, near = restricted(2)
    found = []
    near.attention_weights_hook = found.append
    query, memory = memory_of(12)
    shown = near.attend(query, memory)
    near.attention_weights_hook = None
    distance = (torch.arange(12)[:, None] - torch.arange(12)).abs()
    assert found[0][..., distance > 2].eq(0).all()
    assert found[0][..., distance <= 2].gt(0).all()
    torch.testing.assert_close(near.attend(query, memory), shown)


def flops(module: MultiHeadAttention, tokens: int) -> int:
    query, memory = memory_of(tokens)
    with FlopCounterMode(display=False) as counter:
        module.attend(query, memory)
    return counter.get_total_flops() - 2 * 3 * tokens * module.output.weight.numel()


def test_the_cost_of_restricted_attention_grows_with_the_length_and_of_full_attention_with_its_square():
    full, near = restricted(8)
    assert flops(near, 512) == 2 * flops(near, 256) == 4 * flops(near, 128)
    assert flops(full, 512) == 4 * flops(full, 256)
    wider = restricted(16)[1]
    assert flops(wider, 512) == 2 * flops(near, 512)


def test_a_neighbourhood_as_wide_as_the_text_changes_nothing(sources, targets):
    paper, near = built(TINY), built(replace(TINY, neighbourhood=2 * targets.size(1) + 2))
    near.load_state_dict(paper.state_dict())
    torch.testing.assert_close(features(near, sources, targets), features(paper, sources, targets))


# ---- normalisation, residual connections, positions


def test_batch_normalisation_is_pytorchs_over_the_tokens_that_are_not_padding():
    ours, theirs = BatchNorm(4, 1e-5), nn.BatchNorm1d(4)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(3, 5, 4, generator=generator)
        ours.tokens = torch.arange(5) < torch.tensor([5, 2, 3])[:, None]
        expected = theirs(x[ours.tokens])
        torch.testing.assert_close(ours(x)[ours.tokens], expected)
        torch.testing.assert_close(ours.mean.data, theirs.running_mean)
        torch.testing.assert_close(ours.variance.data, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view_as(x))


def test_a_batch_that_is_not_finite_changes_no_running_average():
    norm = BatchNorm(4, 1e-5)
    norm.tokens = torch.ones(2, 3, dtype=torch.bool)
    norm(torch.randn(2, 3, 4))
    before = norm.mean.clone(), norm.variance.clone()
    x = torch.randn(2, 3, 4)
    x[0, 0, 0] = torch.inf
    norm(x)
    assert norm.mean.equal(before[0])
    assert norm.variance.equal(before[1])


def test_batch_normalisation_of_a_single_token_is_finite():
    norm = BatchNorm(4, 1e-5)
    norm.tokens = torch.tensor([[True, False]])
    assert norm(torch.randn(1, 2, 4)).isfinite().all()
    assert norm.variance.isfinite().all()


def test_padding_changes_no_batch_normalisation_in_training(sources, targets):
    models = [built(replace(TINY, norm="batch", dropout=0.0)).train() for _ in range(2)]
    longer = torch.cat([sources, torch.zeros(len(sources), 3, dtype=sources.dtype)], 1)
    outputs = [
        features(model, source, targets) for model, source in zip(models, (sources, longer), strict=True)
    ]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(models[0].state_dict(), models[1].state_dict())


def test_without_a_norm_a_layer_adds_what_its_sublayers_give(sources):
    model = built(replace(TINY, norm="none", positions="none"))
    names = {name for name, _ in model.named_parameters()}
    assert not any("norm" in name for name in names)
    x = torch.randn(2, 3, TINY.d_model, dtype=torch.float64)
    layer = model.encoder[0]
    y = x + layer.self_attention.attend(*layer.self_attention.project(x))
    torch.testing.assert_close(layer(x, None), y + layer.feed_forward(y))


def test_without_residual_connections_a_sublayer_sees_the_one_before_alone():
    model = built(replace(TINY, residual=False))
    layer, x = model.encoder[0], torch.randn(2, 3, TINY.d_model, dtype=torch.float64)
    y = layer.self_attention_residual.norm(layer.self_attention.attend(*layer.self_attention.project(x)))
    torch.testing.assert_close(layer(x, None), layer.feed_forward_residual.norm(layer.feed_forward(y)))


def test_without_positions_the_encoder_does_not_see_the_order(sources):
    source, order = sources[:1, :7], torch.tensor([3, 0, 6, 1, 5, 2, 4])
    for positions, is_blind in (("none", True), ("sinusoidal", False)):
        model = built(replace(TINY, positions=positions))
        outputs = [model.encode(ids).encoder_output for ids in (source, source[:, order])]
        assert torch.allclose(outputs[0][:, order], outputs[1]) is is_blind


def test_concatenated_positions_whose_halves_are_added_are_the_sum(sources, targets):
    paper, beside = built(TINY), built(replace(TINY, concatenate_positions=True))
    beside.load_state_dict(paper.state_dict(), strict=False)
    identity = torch.eye(TINY.d_model, dtype=torch.float64)
    beside.combine.weight.data = torch.cat([identity, identity], 1)
    torch.testing.assert_close(features(beside, sources, targets), features(paper, sources, targets))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_acts_on_what_the_first_layer_reads_if_positions_are_concatenated(p):
    model = built(replace(TINY, concatenate_positions=True, dropout=p)).train()
    ids, combined = torch.randint(4, VOCABULARY, (8, 50)), list[torch.Tensor]()
    model.combine.register_forward_hook(lambda _, __, output: combined.append(output))
    x = model.embed(ids, model.source_embedding, model.source_positions(0, 50))
    dropped = x == 0
    assert dropped.float().mean().item() == pytest.approx(p, abs=0.06)
    torch.testing.assert_close(x[~dropped], combined[0][~dropped] / (1 - p), rtol=1e-3, atol=0)


# ---- the first token of the decoder (section 3.1: the output embeddings are offset by one position)


def test_a_decoder_that_reads_end_first_computes_what_another_does_with_end_in_its_place(sources, targets):
    own, end = built(TINY), built(replace(TINY, decoder_start="end"))
    end.load_state_dict(own.state_dict())
    start = torch.full((len(targets), 1), START)
    given, expected = (
        features(model, sources, torch.cat([first, targets], 1))
        for model, first in ((end, start), (own, torch.full_like(start, END)))
    )
    torch.testing.assert_close(given, expected)
    assert not given.allclose(features(own, sources, torch.cat([start, targets], 1)))
    end.target_embedding.weight.data[START] = 0.0  # nothing reads it
    torch.testing.assert_close(features(end, sources, torch.cat([start, targets], 1)), expected)


def test_an_inspection_names_what_the_decoder_reads_and_what_it_has_to_write():
    tokenizer = Tokenizer.train(["a man rides", "two dogs play"] * 20, "bpe", TokenizerSettings(), 300)
    for first in ("start", "end"):
        model = build_model(replace(TINY, decoder_start=first), len(tokenizer), len(tokenizer)).eval()
        translator = Translator.from_model(model, Tokenizers(tokenizer, tokenizer))
        found = inspect(translator, "a man", max_extra_tokens=4)
        assert found.decoder_inputs[0] == tokenizer.pieces([START if first == "start" else END])[0]
        assert found.decoder_inputs[1:] == found.target[:-1]


# ---- translation


def test_a_variant_is_translated_by_pytorch_in_every_precision_of_a_cpu(tmp_path):
    tokenizer = Tokenizer.train(["a man rides", "two dogs play"] * 20, "bpe", TokenizerSettings(), 300)
    settings = replace(TINY, neighbourhood=4, concatenate_positions=True)
    torch.manual_seed(1)
    model = build_model(settings, len(tokenizer), len(tokenizer))
    save_model(tmp_path / "model", model, settings, Tokenizers(tokenizer, tokenizer))
    search = SearchSettings(max_extra_tokens=4)
    found = Translator.from_model(model.eval(), Tokenizers(tokenizer, tokenizer)).n_best(["a dog"], search)
    for precision in ("float32", "int8"):
        translator = Translator.load(tmp_path, device="cpu", precision=precision)
        assert translator.native_backend is None
        ((best,),) = translator.n_best(["a dog"], search)
        assert best.log_probability == pytest.approx(found[0][0].log_probability, rel=0.05)


# ---- settings


def test_the_paper_has_no_variants_and_each_variant_has_a_name():
    assert ModelSettings().variants == []
    for name, value in (
        ("attention_score", "dot"),
        ("neighbourhood", 4),
        ("decoder_mixer", "ssru"),
        ("residual", False),
        ("concatenate_positions", True),
        ("decoder_start", "end"),
        ("norm", "batch"),
        ("norm", "none"),
        ("positions", "none"),
    ):
        assert replace(TINY, **{name: value}).variants == [name]
    for name, value in (("norm", "pre"), ("positions", "learned")):
        assert replace(TINY, **{name: value}).variants == []


def test_what_cannot_be_is_refused():
    with pytest.raises(DragomanError, match="neighbourhood is 0; it must be at least 2"):
        ModelSettings(neighbourhood=0)
    both = replace(TINY, neighbourhood=4, attention_score="additive")
    with pytest.raises(
        DragomanError, match="neighbourhood and attention_score exclude each other: restricted"
    ):
        build_model(both, VOCABULARY, VOCABULARY)
    lstm = ModelSettings(architecture="lstm", d_model=8, neighbourhood=4)
    with pytest.raises(
        DragomanError, match="neighbourhood is for architecture transformer, and not lstm; give that"
    ):
        build_model(lstm, VOCABULARY, VOCABULARY)


@pytest.mark.parametrize("beside", [False, True])
def test_the_recorded_embedding_is_what_the_first_layer_reads(beside):
    model = build_model(replace(TINY, concatenate_positions=beside), VOCABULARY, VOCABULARY).eval()
    read: list[torch.Tensor] = []
    model.encoder[0].register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with record(model) as recording, torch.no_grad():
        model.encode(torch.tensor([[5, 6, 7, END]]))
    assert torch.equal(recording.outputs["embedding"][0], read[0])

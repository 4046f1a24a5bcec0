"""Equation 1 (section 3.2), and everything that computes it in another way."""

import pytest
import torch

from dragoman.model.attention import KeysValues, MultiHeadAttention, attention, causal_mask
from dragoman.model.replaced_attend import replaced_attend
from dragoman.native.short_attention import MAX_SCORES, ShortAttention, short_attention

LONG = 300
"""More tokens than `ShortAttention` computes by itself."""


def random_qkv(queries=5, keys=6, d_k=8, d_v=8):
    torch.manual_seed(0)
    shapes = ((queries, d_k), (keys, d_k), (keys, d_v))
    return [torch.randn(2, 3, *shape, dtype=torch.float64) for shape in shapes]


def padding_mask(queries, keys):
    """The first sentence has no padding; the second is shorter by 2."""
    return torch.arange(keys) < torch.tensor([keys, keys - 2])[:, None, None, None]


def random_mask(queries, keys):
    """Another set of keys for each query, as of the hypotheses of a beam."""
    return (torch.rand(2, 1, queries, keys) > 0.4) | (torch.arange(keys) == 0)


def masked_rows(queries, keys):
    """Every second query may attend to nothing."""
    return random_mask(queries, keys) & (torch.arange(queries) % 2 == 0)[:, None]


def padded_entirely(queries, keys):
    """The second sentence is padding alone."""
    return torch.tensor([True, False])[:, None, None, None].expand(2, 1, 1, keys)


def no_mask(queries, keys):
    return None


MASKS = [no_mask, padding_mask, random_mask, masked_rows, padded_entirely]


def test_the_equation_is_that_of_the_paper_row_by_row():
    query, key, value = random_qkv()
    for b, h, t in [(0, 0, 0), (1, 2, 4)]:
        scores = torch.tensor([query[b, h, t].dot(one) / 8**0.5 for one in key[b, h]], dtype=torch.float64)
        expected = (scores.exp() / scores.exp().sum()) @ value[b, h]
        torch.testing.assert_close(attention(query, key, value)[0][b, h, t], expected)


def test_a_masked_key_is_as_one_that_is_not_there():
    query, key, value = random_qkv()
    mask = torch.tensor([True, False, True, True, False, True])
    expected, weights = attention(query, key[:, :, mask], value[:, :, mask])
    found, all_weights = attention(query, key, value, mask.expand(1, 1, 1, 6))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(all_weights[..., mask], weights)
    assert all_weights[..., ~mask].eq(0).all()


def test_each_row_of_weights_sums_to_one():
    _, weights = attention(*random_qkv())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))


def test_one_hot_keys_select_exactly_the_matching_value():
    key = 1e3 * torch.eye(4)[None, None]
    value = torch.randn(1, 1, 4, 2)
    torch.testing.assert_close(attention(key[:, :, 2:3], key, value)[0], value[:, :, 2:3])


def test_a_query_without_an_allowed_key_gets_zeros():
    query, key, value = random_qkv()
    mask = masked_rows(5, 6)
    heads, weights = attention(query, key, value, mask)
    for result in (heads, weights, short_attention(query, key, value, mask)):
        assert result[:, :, 1::2].eq(0).all()
        assert result[:, :, ::2].ne(0).any(-1).all()


def equation_1(layer, query, memory, mask):
    """`attend` by equation 1 as it is written."""
    return layer.output(attention(query, *memory, mask)[0].transpose(1, 2).flatten(2))


def assert_attends_by_equation_1(kind, queries, keys, mask, causal=False):
    """Compare `attend` of a class with equation 1: results and gradients, with and without autograd."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(12, 3, 4, 5, bias=True).double()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    layer.__class__ = kind
    query = torch.randn(2, 3, queries, 4, dtype=torch.float64, requires_grad=True)
    memory = KeysValues(
        *(torch.randn(2, 3, keys, width, dtype=torch.float64, requires_grad=True) for width in (4, 5))
    )
    inputs = (query, *memory, layer.output.weight)
    expected = equation_1(layer, query, memory, causal_mask(queries, keys, query.device) if causal else mask)
    found = layer.attend(query, memory, mask, causal)
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, inputs, direction),
        torch.autograd.grad(expected, inputs, direction),
        strict=True,
    ):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(layer.attend(query, memory, mask, causal), expected)


@pytest.mark.parametrize("kind", [MultiHeadAttention, ShortAttention])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(5, 6), (1, 7), (LONG, LONG), (3, LONG)])
def test_attend_is_equation_1_under_every_mask(kind, mask, queries, keys):
    torch.manual_seed(2)
    assert_attends_by_equation_1(kind, queries, keys, mask(queries, keys))


@pytest.mark.parametrize("kind", [MultiHeadAttention, ShortAttention])
@pytest.mark.parametrize("tokens", [1, 6, LONG])
def test_causal_attention_is_equation_1_with_the_causal_mask(kind, tokens):
    assert_attends_by_equation_1(kind, tokens, tokens, None, causal=True)


def test_texts_of_more_than_256_tokens_are_not_short():
    query, key, value = random_qkv(LONG, LONG)
    assert LONG**2 > MAX_SCORES
    assert not ShortAttention.is_short(query, KeysValues(key, value))
    assert ShortAttention.is_short(query[:, :, :200], KeysValues(key[:, :, :200], value[:, :, :200]))


@pytest.mark.parametrize("mask", MASKS)
def test_recording_the_weights_changes_no_result(mask):
    torch.manual_seed(2)
    layer = MultiHeadAttention(8, 2, 4, 4).double()
    x, allowed = torch.randn(2, 6, 8, dtype=torch.float64), mask(6, 6)
    query, memory = layer.project(x)
    expected, recorded = layer.attend(query, memory, allowed), []
    layer.attention_weights_hook = recorded.append
    torch.testing.assert_close(layer.attend(query, memory, allowed), expected)
    torch.testing.assert_close(recorded[0], attention(query, *memory, allowed)[1])


def test_a_replaced_attend_gives_way_to_the_one_before_it():
    layer = MultiHeadAttention(8, 2, 4, 4)
    query, memory = layer.project(torch.randn(1, 5, 8))
    expected = layer.attend(query, memory)
    with replaced_attend(layer, lambda *_: torch.zeros(1)):
        with replaced_attend(layer, lambda *_: torch.ones(1)):
            assert layer.attend(query, memory) == 1
        assert layer.attend(query, memory) == 0
    assert torch.equal(layer.attend(query, memory), expected)
    assert "attend" not in vars(layer)


def test_recorded_causal_weights_reach_no_later_position():
    layer, recorded = MultiHeadAttention(8, 2, 4, 4), []
    layer.attention_weights_hook = recorded.append
    layer.attend(*layer.project(torch.randn(1, 5, 8)), causal=True)
    assert recorded[0].triu(1).eq(0).all()
    assert recorded[0].tril().ne(0).sum() == 2 * 15


def test_one_product_and_two_give_the_same_queries_keys_and_values():
    layer = MultiHeadAttention(8, 2, 3, 5, bias=True)
    x = torch.randn(2, 6, 8)
    query, memory = layer.project(x)
    torch.testing.assert_close(query, layer.project_query(x))
    for one, other in zip(memory, layer.project_memory(x), strict=True):
        torch.testing.assert_close(one, other)


def test_heads_are_equal_parts_side_by_side():
    layer = MultiHeadAttention(8, 2, 3, 5)
    x = torch.randn(2, 6, 8)
    query, memory = layer.project(x)
    rows = layer.query_key_value.weight.split([3, 3, 3, 3, 5, 5])
    for head in range(2):
        for part, matrix in (
            (query, rows[head]),
            (memory.keys, rows[2 + head]),
            (memory.values, rows[4 + head]),
        ):
            torch.testing.assert_close(part[:, head], x @ matrix.T)
    heads = torch.cat(
        [
            attention(query[:, head : head + 1], *(part[:, head : head + 1] for part in memory))[0][:, 0]
            for head in range(2)
        ],
        -1,
    )
    torch.testing.assert_close(layer.attend(query, memory), heads @ layer.output.weight.T)


def test_causal_mask_is_a_triangle_that_ends_at_the_last_key():
    assert causal_mask(2, 4, torch.device("cpu"))[0, 0].tolist() == [[True, True, True, False], [True] * 4]


@pytest.mark.parametrize("kind", [MultiHeadAttention, ShortAttention])
def test_attention_dropout_acts_on_the_weights_in_training_only(kind):
    torch.manual_seed(3)
    layer = MultiHeadAttention(8, 2, 4, 4, dropout=0.25)
    layer.__class__ = kind
    with torch.no_grad():
        layer.output.weight.copy_(torch.eye(8))
    ones, keys = torch.ones(2000, 2, 1, 4), torch.randn(2000, 2, 16, 4)
    identity = torch.eye(16)[:, :4].expand(2000, 2, 16, 4)  # the heads' outputs are the first 4 weights
    weights = layer.eval().attend(ones, KeysValues(keys, identity))
    assert torch.equal(layer.attend(ones, KeysValues(keys, identity)), weights)
    dropped = layer.train().attend(ones, KeysValues(keys, identity))
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], weights[kept] / 0.75)
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.02)


def test_queries_keys_and_values_start_smaller_than_xaviers_by_the_root_of_two():
    layer = MultiHeadAttention(64, 4, 16, 12)
    for block, width in zip(layer.query_key_value.weight.split(layer.widths), (64, 64, 48), strict=True):
        bound = (6 / (64 + width) / 2) ** 0.5
        assert 0.95 * bound < block.abs().max() <= bound
    assert 0.95 * (6 / (48 + 64)) ** 0.5 < layer.output.weight.abs().max() <= (6 / (48 + 64)) ** 0.5


def test_biases_of_attention_start_at_zero():
    layer = MultiHeadAttention(8, 2, 4, 4, bias=True)
    assert layer.query_key_value.bias.eq(0).all()
    assert layer.output.bias.eq(0).all()
    assert MultiHeadAttention(8, 2, 4, 4).query_key_value.bias is None

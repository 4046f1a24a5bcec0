"""Equation 1 and the fused kernel (section 3.2)."""

import pytest
import torch
from torch.nn import functional as F

from dragoman.model.attention import MultiHeadAttention, attention, causal_mask


def qkv(queries=5, keys=6, d_k=8, d_v=8):
    torch.manual_seed(0)
    shapes = ((queries, d_k), (keys, d_k), (keys, d_v))
    return [torch.randn(2, 3, *shape, dtype=torch.float64) for shape in shapes]


def test_the_equation_equals_the_fused_kernel():
    query, key, value = qkv(d_v=11)
    mask = torch.rand(2, 1, 5, 6) > 0.4
    mask[:, :, :, 0] = True
    torch.testing.assert_close(attention(query, key, value, mask)[0], F.scaled_dot_product_attention(query, key, value, mask))


def test_the_equation_is_that_of_the_paper_row_by_row():
    query, key, value = qkv()
    for b, h, t in [(0, 0, 0), (1, 2, 4)]:
        scores = torch.tensor([query[b, h, t].dot(one) / 8**0.5 for one in key[b, h]], dtype=torch.float64)
        expected = (scores.exp() / scores.exp().sum()) @ value[b, h]
        torch.testing.assert_close(attention(query, key, value)[0][b, h, t], expected)


def test_each_row_of_weights_sums_to_one():
    _, weights = attention(*qkv())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))


def test_one_hot_keys_look_up_exactly_the_matching_value():
    key = 1e3 * torch.eye(4)[None, None]
    value = torch.randn(1, 1, 4, 2)
    torch.testing.assert_close(attention(key[:, :, 2:3], key, value)[0], value[:, :, 2:3])


@pytest.mark.parametrize("gradient", [True, False], ids=["the equation", "the fused kernel"])
def test_a_query_that_may_look_nowhere_gets_zeros(gradient):
    layer = MultiHeadAttention(8, 2, 4, 4)
    x = torch.randn(1, 3, 8)
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    mask[:, :, 1] = False
    with torch.set_grad_enabled(gradient):
        queries, here = layer.project(x)
        seen = layer.attend(queries, here, mask)
    assert seen[0, 1].eq(0).all()
    assert seen.isfinite().all()
    if gradient:
        seen.sum().backward()
        assert layer.query_key_value.weight.grad.isfinite().all()


@pytest.mark.parametrize("causal", [True, False])
def test_training_and_inference_look_alike(causal):
    layer = MultiHeadAttention(8, 2, 3, 5, bias=True).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    mask = None if causal else torch.rand(2, 1, 1, 6) > 0.3
    with torch.no_grad():
        fused = layer.attend(*layer.project(x), mask, causal)
    torch.testing.assert_close(layer.attend(*layer.project(x), mask, causal), fused)


def test_one_product_and_two_give_the_same_queries_keys_and_values():
    layer = MultiHeadAttention(8, 2, 3, 5, bias=True)
    x = torch.randn(2, 6, 8)
    queries, here = layer.project(x)
    torch.testing.assert_close(queries, layer.project_query(x))
    for one, other in zip(here, layer.project_memory(x), strict=True):
        torch.testing.assert_close(one, other)


def test_causal_mask_is_a_triangle_that_ends_at_the_last_key():
    assert causal_mask(2, 4, torch.device("cpu"))[0, 0].tolist() == [[True, True, True, False], [True] * 4]


def test_attention_dropout_acts_in_training_only():
    layer = MultiHeadAttention(8, 2, 4, 4, dropout=0.5)
    x = torch.randn(1, 6, 8)
    assert not torch.equal(layer.attend(*layer.project(x)), layer.attend(*layer.project(x)))
    layer.eval()
    assert torch.equal(layer.attend(*layer.project(x)), layer.attend(*layer.project(x)))


def test_queries_keys_and_values_begin_smaller_than_xaviers_by_the_root_of_two():
    made = MultiHeadAttention(64, 4, 16, 12)
    for block, width in zip(made.query_key_value.weight.split(made.widths), (64, 64, 48), strict=True):
        bound = (6 / (64 + width) / 2) ** 0.5
        assert 0.95 * bound < block.abs().max() <= bound
    assert 0.95 * (6 / (48 + 64)) ** 0.5 < made.output.weight.abs().max() <= (6 / (48 + 64)) ** 0.5

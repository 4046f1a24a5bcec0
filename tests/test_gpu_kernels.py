"""The Triton kernels for training against the equations that they stand for.

Without a GPU, Triton's interpreter runs them (conftest.py), in float32: it cannot multiply matrices of
bfloat16.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.model import attention as oracle
from dragoman.model.attention import causal_mask
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD
from dragoman.model.transformer import FeedForward, build_model
from dragoman.native import fused
from dragoman.native.dropout import random_bits
from dragoman.text.batches import Batch, pad
from dragoman.training.objective import Objective
from tests.test_kernels import gradients

pytest.importorskip("triton")
from dragoman.native import gpu_fused
from dragoman.native import gpu_kernels as kernels

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
KEY = 1234567890123456789
MASK = kernels.DropoutMask(torch.tensor(KEY, device=DEVICE), -20000, 2**16 / (2**16 - 12768))
# How far two ways may differ, as a part of the largest number.
PRECISIONS = {torch.float32: 1e-4 if GPU else 1e-5, torch.bfloat16: 3e-2}
MULTIPLIED = torch.bfloat16 if GPU else torch.float32


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)


def close(one, other, precision):
    largest = other.abs().max().item() if other.numel() else 0
    torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=PRECISIONS[precision] * largest)


def all_close(ones, others, precision):
    for one, other in zip(ones, others, strict=True):
        close(one, other, precision)


def kept(shape):
    """What MASK does to numbers of this shape."""
    return ((random_bits(KEY, torch.Size(shape)) >= MASK.threshold) * MASK.scale).to(DEVICE)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(3, 7, 21), (2, 1100), (0, 5)])
def test_dropout_has_the_masks_of_its_key(precision, shape):
    x = randn(*shape, dtype=precision)
    out = kernels.dropout(x, MASK)
    all_close((out, *gradients(out, x)), (x * kept(shape), *gradients(x * kept(shape), x)), precision)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999999])
def test_a_drawn_mask_keeps_the_expected_value(p):
    mask = kernels.DropoutMask.draw(p, torch.device(DEVICE))
    dropped = (mask.threshold + 2**15) / 2**16
    assert dropped == pytest.approx(p, abs=2**-16)
    assert mask.scale * (1 - dropped) == pytest.approx(1)
    out = kernels.dropout(torch.ones(2**16, device=DEVICE), mask)
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert torch.all((out == 0) | (out == mask.scale))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("width", [21, 64, 512])
def test_a_residual_equals_its_equation(masked, precision, width):
    norm = nn.LayerNorm(width, 0.1).to(DEVICE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, y = randn(3, 7, width), randn(3, 7, width, dtype=precision)
    out = kernels.residual(x, y, MASK if masked else None, norm)
    expected = norm(x + y.float() * (kept(y.shape) if masked else 1.0))
    leaves = (x, y, norm.weight, norm.bias)
    assert out.dtype == precision
    all_close((out, *gradients(out, *leaves)), (expected, *gradients(expected, *leaves)), precision)


@pytest.mark.parametrize("widths", [(16, 64), (24, 56), (64, 256)])
def test_a_feed_forward_equals_its_equation(widths):
    fused_one = FeedForward(ModelSettings(d_model=widths[0], d_ff=widths[1])).to(DEVICE, MULTIPLIED)
    nn.init.normal_(fused_one.inner.bias)
    exact = FeedForward(ModelSettings(d_model=widths[0], d_ff=widths[1])).to(DEVICE).double()
    exact.load_state_dict(fused_one.state_dict())
    x = randn(3, 113, widths[0], dtype=MULTIPLIED)
    exact_x = x.detach().double().requires_grad_()
    out, expected = kernels.feed_forward(x, fused_one.inner, fused_one.outer), exact(exact_x)
    all_close(
        (out, *gradients(out, x, *fused_one.parameters())),
        (expected, *gradients(expected, exact_x, *exact.parameters())),
        MULTIPLIED,
    )


@pytest.mark.parametrize(
    "shape", [(1, 1, 16, 16), (5, 5, 16, 32), (15, 31, 64, 64), (33, 17, 32, 64), (3, 100, 16, 16)]
)
@pytest.mark.parametrize("kind", ["everywhere", "padding", "any", "causal"])
def test_attention_equals_its_equation(shape, kind):
    queries, keys, d_k, d_v = shape
    leaves = [
        randn(2, count, 3 * width, dtype=MULTIPLIED)
        for count, width in ((queries, d_k), (keys, d_k), (keys, d_v))
    ]
    heads = [leaf.unflatten(2, (3, -1)).transpose(1, 2) for leaf in leaves]
    masks = {
        "padding": torch.rand(2, 1, 1, keys, device=DEVICE) > 0.4,
        "any": torch.rand(2, 1, queries, keys, device=DEVICE) > 0.5,
    }
    mask, causal = masks.get(kind), kind == "causal"
    out = kernels.attention(*heads, mask, causal)
    exact = [head.double() for head in heads]
    allowed = causal_mask(queries, keys, out.device) if causal else mask
    expected = oracle.attention(*exact, allowed)[0].transpose(1, 2).flatten(2)
    all_close((out, *gradients(out, *leaves)), (expected, *gradients(expected, *leaves)), MULTIPLIED)


def test_the_gradient_of_split_parts_is_that_of_the_whole():
    x = randn(2, 9, 96, dtype=MULTIPLIED)

    def attended(split):
        heads = [part.view(2, 9, 2, 16).transpose(1, 2) for part in split(x, [32, 32, 32])]
        return kernels.attention(*heads, None, causal=True), heads

    (out, heads), (expected, _) = attended(kernels.split), attended(lambda y, widths: y.split(widths, -1))
    assert torch.equal(gradients(out, x)[0], gradients(expected, x)[0])
    (out, heads), (expected, _) = attended(kernels.split), attended(lambda y, widths: y.split(widths, -1))
    # Parts that are used twice have gradients elsewhere, which are put together.
    twice = out + heads[0].transpose(1, 2).flatten(2)
    again = expected + x[..., :32]
    close(gradients(twice, x)[0], gradients(again, x)[0], MULTIPLIED)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(64, 50, 100), (64, 64, 37), (3, 1, 9000)])
def test_cross_entropy_equals_its_equation(precision, shape):
    rows, tokens, vocabulary = shape
    logits = (3 * torch.randn(rows, vocabulary, device=DEVICE)).to(precision).requires_grad_()
    gold = torch.randint(1, vocabulary, (tokens,), device=DEVICE)
    loss, nll = kernels.cross_entropy(logits.clone(), gold, 0.1)
    expected, expected_nll = LabelSmoothedCrossEntropy(0.1)(logits, gold)
    all_close((loss, nll), (expected, expected_nll), torch.float32)
    close(
        torch.autograd.grad(0.37 * loss, logits)[0],
        torch.autograd.grad(0.37 * expected, logits)[0],
        precision,
    )


def test_padding_has_no_loss():
    features, weight, bias = randn(50, 16, dtype=MULTIPLIED), randn(37, 16), randn(37)
    gold = torch.randint(1, 37, (50,), device=DEVICE)
    gold[::3] = PAD
    is_token = gold != PAD
    found = kernels.cross_entropy(kernels.linear(features, weight, bias), gold, 0.1)
    kept_rows = F.linear(features.double(), weight.double(), bias.double())[is_token]
    expected = LabelSmoothedCrossEntropy(0.1)(kept_rows, gold[is_token])
    leaves = features, weight, bias
    all_close(
        (*found, *torch.autograd.grad(found[0], leaves)),
        (*expected, *torch.autograd.grad(expected[0], leaves)),
        MULTIPLIED,
    )


@pytest.mark.parametrize("settings", [{}, {"norm": "pre"}, {"output_bias": True, "attention_bias": True}])
def test_a_model_with_the_kernels_has_the_loss_and_gradient_of_its_oracle(settings):
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    model = build_model(ModelSettings(**sizes, dropout=0.0, **settings), 50, 50).to(DEVICE)
    batch = Batch.of(pad([[5, 6, 7, 2], [8, 2]]), pad([[9, 10, 2], [11, 12, 13, 14, 2]]), [0, 1])
    found = []
    for replacements in ({}, gpu_fused.ON_A_GPU):
        objective = Objective(model, 0.1, bfloat16=GPU).train()
        fused.replace(objective, replacements)
        loss, nll = objective(batch.to(torch.device(DEVICE)))
        found.append((loss, nll, *torch.autograd.grad(loss, list(model.parameters()))))
    assert type(objective.model).__name__ == "GPUTransformer"
    all_close(found[1], found[0], MULTIPLIED)

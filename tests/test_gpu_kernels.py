"""The Triton kernels for training against the equations that they stand for.

Without a GPU, Triton's interpreter runs them (conftest.py), in float32: it cannot multiply matrices of
bfloat16.
"""

import os
import statistics
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.model import attention as oracle
from dragoman.model.attention import causal_mask
from dragoman.model.build import build_model
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD
from dragoman.model.transformer import FeedForward
from dragoman.native import fused
from dragoman.native.dropout import random_bits
from dragoman.text.batches import Batch, pad
from dragoman.training.objective import Objective
from tests.conftest import MAX_SECONDS
from tests.test_kernels import gradients, unused_memory_is_nan

pytest.importorskip("triton")
from dragoman.native import gpu_fused
from dragoman.native import gpu_kernels as kernels

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
KEY = 1234567890123456789
# Some 20 % are dropped; an element whose bits are the threshold, as one of the first, is kept.
THRESHOLD = min(random_bits(KEY, torch.Size([100])).tolist(), key=lambda bits: abs(bits + 20000))
MASK = kernels.DropoutMask(torch.tensor(KEY, device=DEVICE), THRESHOLD, 2**16 / (2**15 - THRESHOLD))
# How far two ways may differ, as a part of the largest number.
PRECISIONS = {torch.float32: 1e-4 if GPU else 1e-5, torch.bfloat16: 3e-2}
MULTIPLIED = torch.bfloat16 if GPU else torch.float32


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)


def close(one, other, precision):
    atol = PRECISIONS[precision] * (other.abs().max().item() if other.numel() else 0)
    torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=atol)


def all_close(ones, others, precision):
    for one, other in zip(ones, others, strict=True):
        close(one, other, precision)


def kept(shape):
    """What MASK does to numbers of this shape."""
    return ((random_bits(KEY, torch.Size(shape)) >= MASK.threshold) * MASK.scale).to(DEVICE)


def test_the_sum_of_no_rows_is_zero_whatever_memory_held_before():
    with nullcontext() if GPU else unused_memory_is_nan():
        assert kernels.column_sum(torch.zeros(0, 5, device=DEVICE)).tolist() == [0.0] * 5


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(3, 7, 21), (2, 1100), (0, 5)])
def test_dropout_has_the_masks_of_its_key(precision, shape):
    x = randn(*shape, dtype=precision)
    out = kernels.dropout(x, MASK)
    all_close((out, *gradients(out, x)), (x * kept(shape), *gradients(x * kept(shape), x)), precision)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("p", [0.1, 0.999999])
def test_a_drawn_mask_keeps_the_expected_value(p):
    mask = kernels.DropoutMask.draw(p, torch.device(DEVICE))
    dropped = (mask.threshold + 2**15) / 2**16
    assert dropped == pytest.approx(p, abs=2**-16)
    assert mask.scale * (1 - dropped) == pytest.approx(1)
    out = kernels.dropout(torch.ones(2**16, device=DEVICE), mask)
    assert (out == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert torch.all((out == 0) | (out == mask.scale))


@pytest.mark.short_form(2)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("width", [21, 512 if GPU else 128])  # the interpreter runs 8 columns at a time
def test_a_residual_equals_its_equation(masked, precision, width):
    norm = nn.LayerNorm(width, 0.1).to(DEVICE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, y = randn(2, 3, width), randn(2, 3, width, dtype=precision)
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


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "shape", [(1, 1, 16, 16), (5, 5, 16, 32), (15, 31, 64, 64), (33, 17, 32, 64), (3, 100, 16, 16)]
)
@pytest.mark.parametrize("kind", ["everywhere", "padding", "any", "causal"])
def test_attention_equals_its_equation(shape, kind):
    queries, keys, d_k, d_v = shape
    leaves = [
        randn(2, count, 2 * width, dtype=MULTIPLIED)
        for count, width in ((queries, d_k), (keys, d_k), (keys, d_v))
    ]
    heads = [leaf.unflatten(2, (2, -1)).transpose(1, 2) for leaf in leaves]
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


@pytest.mark.long
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


@pytest.mark.parametrize("aliased", ["keys are values", "expanded keys"])
def test_attention_of_parts_that_share_memory(aliased):
    query, key, value = (randn(2, 2, 5, 16, dtype=MULTIPLIED) for _ in range(3))

    def attended(attend):
        if aliased == "keys are values":
            return attend(query, value, value)
        return attend(query, key[:1].expand(2, -1, -1, -1), value)

    out = attended(lambda *heads: kernels.attention(*heads, None, causal=False))
    expected = attended(lambda *heads: oracle.attention(*heads)[0]).transpose(1, 2).flatten(2)
    leaves = [query, value] + [key] * (aliased == "expanded keys")
    all_close((out, *gradients(out, *leaves)), (expected, *gradients(expected, *leaves)), MULTIPLIED)


def test_a_query_without_allowed_keys_gets_zeros():
    query, key, value = (randn(1, 1, 3, 16, dtype=MULTIPLIED) for _ in range(3))
    mask = torch.tensor([[[[True, True, False], [False] * 3, [True] * 3]]], device=DEVICE)
    out = kernels.attention(query, key, value, mask, causal=False)
    assert torch.all(out[0, 1] == 0)
    out.sum().backward()
    assert torch.all(query.grad[0, 0, 1] == 0)
    assert value.grad.isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "width", "queries", "supported"),
    [
        (torch.bfloat16, 64, 128, True),
        (torch.bfloat16, 64, 129, False),
        (torch.bfloat16, 128, 64, True),
        (torch.bfloat16, 128, 65, False),
        (torch.bfloat16, 24, 5, False),
        (torch.float32, 64, 5, False),
    ],
)
def test_the_heads_that_the_kernels_support(dtype, width, queries, supported):
    query, key = torch.empty(1, 1, queries, width, dtype=dtype), torch.empty(1, 1, 9, width, dtype=dtype)
    assert kernels.supports_attention(query, key, key) == supported


@pytest.mark.parametrize(
    ("capability", "shared_memory", "names"),
    [
        pytest.param(86, 101_376, ["attention_forward"], marks=pytest.mark.long),
        *(
            pytest.param(capability, memory, [], marks=pytest.mark.long)
            for capability, memory in (
                *((80, 166_912), (86, 101_376), (89, 101_376)),
                *((90, 232_448), (120, 101_376)),
            )
        ),
    ],
)
def test_the_kernels_compile_for_a_gpu_and_fit_into_its_shared_memory(
    capability, shared_memory, names, tmp_path
):
    compiled = subprocess.run(
        [sys.executable, "-m", "tests.compiled_gpu_kernels", str(capability), *names],
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    needed = [int(line.split()[-1]) for line in compiled.stdout.splitlines()]
    assert len(needed) == (len(names) or 10)
    assert max(needed) <= shared_memory


def check_cross_entropy(logits, gold, precision):
    loss, nll = kernels.cross_entropy(logits.clone(), gold, 0.1)
    expected, expected_nll = LabelSmoothedCrossEntropy(0.1)(logits, gold)
    all_close((loss, nll), (expected, expected_nll), torch.float32)
    found, exact = (torch.autograd.grad(0.37 * each, logits)[0] for each in (loss, expected))
    close(found, exact, precision)
    for gradient in (found, exact):  # of the other tokens, which is much smaller
        gradient[torch.arange(len(gold)), gold] = 0.0
    close(found, exact, precision)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(9, 7, 100), (9, 9, 37), (3, 1, 9000)])
def test_cross_entropy_equals_its_equation(precision, shape):
    rows, tokens, vocabulary = shape
    logits = (3 * torch.randn(rows, vocabulary, device=DEVICE)).to(precision).requires_grad_()
    check_cross_entropy(logits, torch.randint(vocabulary, (tokens,), device=DEVICE), precision)


def test_what_all_logits_have_in_common_changes_no_gradient():
    logits, gold = torch.randn(5, 40, device=DEVICE).mul(8).round().div(8), torch.arange(5, device=DEVICE)
    found = []
    for offset in (0.0, 2.0**20):
        shifted = (logits + offset).requires_grad_()
        loss, _ = kernels.cross_entropy(shifted.clone(), gold, 0.1)
        found.append((loss, torch.autograd.grad(loss, shifted)[0]))
    all_close(found[1], found[0], torch.float32)


def test_nan_stays_nan():
    logits = torch.randn(2, 40, device=DEVICE)
    logits[1, 7] = torch.nan
    assert kernels.cross_entropy(logits, torch.tensor([1, 2], device=DEVICE), 0.1)[0].isnan()
    x, norm = torch.full((1, 1, 16), torch.nan, device=DEVICE), nn.LayerNorm(16).to(DEVICE)
    assert kernels.residual(x, torch.ones_like(x), None, norm).isnan().all()


def test_padding_has_no_loss():
    features, weight, bias = randn(10, 16, dtype=MULTIPLIED), randn(37, 16), randn(37)
    gold = torch.randint(1, 37, (10,), device=DEVICE)
    gold[::3] = PAD
    is_token = gold != PAD
    found = kernels.cross_entropy(kernels.linear(features, weight, bias), gold, 0.1, PAD)
    kept_rows = F.linear(features.double(), weight.double(), bias.double())[is_token]
    expected = LabelSmoothedCrossEntropy(0.1)(kept_rows, gold[is_token])
    leaves = features, weight, bias
    all_close(
        (*found, *torch.autograd.grad(found[0], leaves)),
        (*expected, *torch.autograd.grad(expected[0], leaves)),
        MULTIPLIED,
    )


def test_logits_of_padding_change_no_gradient():
    logits, gold = torch.randn(3, 40, device=DEVICE), torch.tensor([5, PAD, 6], device=DEVICE)
    found = []
    for others in (0.0, torch.nan):
        logits[1] = others
        leaf = logits.clone().requires_grad_()
        loss, _ = kernels.cross_entropy(leaf.clone(), gold, 0.1, PAD)
        found.append((loss, *torch.autograd.grad(loss, leaf)))
    all_close(found[1], found[0], torch.float32)
    assert torch.all(found[1][1][1] == 0)


def test_nothing_has_no_loss_and_no_gradient():
    logits, norm = randn(0, 30), nn.LayerNorm(16).to(DEVICE)
    loss, nll = kernels.cross_entropy(logits.clone(), torch.empty(0, dtype=torch.int64, device=DEVICE), 0.1)
    assert (loss.item(), nll.item()) == (0.0, 0.0)
    x = randn(2, 0, 16)
    kernels.residual(x, x, MASK, norm).sum().backward()
    assert torch.all(norm.weight.grad == 0)


SHORT_FORM = ("pre-norm, biases", "recurrent")  # Triton's interpreter is slow
MODELS = {
    "as in the paper": {},
    "pre-norm, biases": {"norm": "pre", "output_bias": True, "attention_bias": True},
    "odd widths": {"d_model": 18, "d_ff": 50},
    "embeddings not scaled": {"scale_embeddings": False},
    "attention drops too": {"attention_dropout": 0.3},
    "recurrent": {"architecture": "gru"},
    "convolutional": {"architecture": "conv"},
}


def beyond_rounding(kind, seed):
    """The largest error of the loss and gradients of a model with the kernels, beyond twice the usual one.

    Errors are shares of the norm; the usual error is that of the oracle in bfloat16.
    """
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.2}
    model = build_model(ModelSettings(**sizes | MODELS[kind]), 50, 50).to(DEVICE)
    batch = Batch.of(pad([[5, 6, 7, 2], [8, 2]]), pad([[9, 10, 2], [11, 12, 13, 14, 2]]), [0, 1])
    objective, weights = Objective(model, 0.1, bfloat16=GPU).train(), list(model.parameters())
    fused.replace(objective, gpu_fused.ON_A_GPU)

    def found():
        torch.manual_seed(7)  # with the same seed the same masks
        loss, nll = objective(batch.to(torch.device(DEVICE)))
        return loss, nll, *torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)

    with_kernels = found()
    with fused.unfused(objective):
        assert type(objective.cross_entropy) is LabelSmoothedCrossEntropy
        expected = found()
        objective.in_bfloat16 = False
        exact = found()
    assert type(objective.cross_entropy) is gpu_fused.GPUCrossEntropy
    assert all(part.isfinite().all() for part in with_kernels)
    largest = 0.0
    for one, other, exactly in zip(with_kernels, expected, exact, strict=True):
        error, usual = ((part.double() - exactly.double()).norm() for part in (one, other))
        if norm := exactly.norm():
            largest = max(largest, ((error - 2 * usual) / norm).item())
        else:
            assert error == 0
    return largest


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "kind",
    [kind if kind in SHORT_FORM else pytest.param(kind, marks=pytest.mark.long) for kind in MODELS],
)
def test_a_model_with_the_kernels_has_the_loss_and_gradients_of_its_oracle(kind, monkeypatch):
    if not GPU:  # the interpreter multiplies no bfloat16
        supports = kernels.supports_attention
        monkeypatch.setattr(
            kernels, "supports_attention", lambda *heads: supports(*(part.bfloat16() for part in heads))
        )
    # In bfloat16 a ReLU can have the other sign, so that a few small models have large errors.
    errors = [beyond_rounding(kind, seed) for seed in range(5 if GPU else 1)]
    if kind != "attention drops too":  # its masks are PyTorch's, drawn elsewhere in the sequence
        assert statistics.median(errors) <= (0.1 if GPU else 1e-3)


def small_model():
    settings = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)
    return build_model(settings, 50, 50).to(DEVICE)


def test_a_batch_without_predictions_has_no_loss_and_no_gradient():
    objective = Objective(small_model(), 0.1, bfloat16=False).train()
    fused.replace(objective, gpu_fused.ON_A_GPU)
    empty = Batch.of(pad([[5, 6, 2]]), torch.full((1, 3), PAD), [])
    loss, _ = objective(empty.to(torch.device(DEVICE)))
    loss.backward()
    assert loss.item() == 0.0
    assert all(torch.all(weight.grad == 0) for weight in objective.parameters() if weight.grad is not None)


def test_gpus_for_which_triton_does_not_compile_have_no_kernels(monkeypatch):
    def fails(message):
        def attention(*_, **__):
            raise RuntimeError(message)

        return attention

    monkeypatch.setattr(kernels, "attention", fails("no compiler"))
    assert not gpu_fused.compiles.__wrapped__(torch.device(DEVICE))
    monkeypatch.setattr(kernels, "attention", fails("out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        gpu_fused.compiles.__wrapped__(torch.device(DEVICE))
    assert fused.gpu_replacements(torch.device("cpu")) is None


def test_evaluation_is_by_the_oracle():
    objective = Objective(small_model(), 0.1, bfloat16=False).eval()
    batch = Batch.of(pad([[5, 6, 7, 2]]), pad([[9, 10, 2]]), [0]).to(torch.device(DEVICE))
    with torch.no_grad():
        expected = objective(batch)
        fused.replace(objective, gpu_fused.ON_A_GPU)
        all_close(objective(batch), expected, torch.float32)

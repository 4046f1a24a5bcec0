"""The kernels for training against the equations that they stand for."""

import ctypes
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.model import attention as oracle
from dragoman.model.attention import MultiHeadAttention, causal_mask
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import FeedForward, Residual
from dragoman.native import fused as fused_modules
from dragoman.native import kernel_library
from dragoman.native import training_kernels as kernels
from dragoman.native.dropout import CounterDropout, DropoutMask, random_bits
from dragoman.native.fused import COMPILED, ON_A_CPU, FusedCrossEntropy, fuse
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.text.batches import Batch, pad
from dragoman.training.objective import Objective
from tests.conftest import NEEDS_BFLOAT16

SMALL = ModelSettings(d_model=24, d_ff=50, heads=3, encoder_layers=2, decoder_layers=2, dropout=0.2)
MODELS = {
    "as in the paper": SMALL,
    "pre-norm, biases": replace(SMALL, norm="pre", attention_bias=True, output_bias=True),
    "odd widths": replace(SMALL, d_model=21, heads=2, d_k=5, d_v=17, source_end=False),
    "nothing dropped": replace(SMALL, dropout=0.0),
    "attention drops too": replace(SMALL, attention_dropout=0.3),
    "wide": replace(SMALL, d_ff=96, output_bias=True),
    "GELU": replace(SMALL, activation="gelu"),
    "swish": replace(SMALL, activation="swish"),
    "recurrent": replace(SMALL, architecture="gru"),
    "convolutional": replace(SMALL, architecture="conv"),
}
PRECISIONS = {
    torch.float32: 1e-5,
    torch.bfloat16: 3e-2,
}  # and how far two ways may differ, as a part of the largest number


@pytest.fixture(autouse=True)
def _compiled():
    assert fuse(nn.Linear(1, 1)), "these tests need a C++ compiler"
    torch.manual_seed(1)


def close(one, other, precision):
    largest = other.abs().max().item() if other.numel() else 0
    torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=PRECISIONS[precision] * largest)


def gradients(value, *leaves):
    """Of some sum of the value, which depends on all its numbers."""
    weights = torch.linspace(-1, 2, value.numel(), device=value.device).view(value.shape)
    return torch.autograd.grad((value.double() * weights).sum(), leaves)


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.999999])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("width", [16, 21])
def test_a_residual_equals_its_equation(dropout, precision, width):
    settings = replace(SMALL, d_model=width, dropout=dropout, norm_epsilon=0.1)
    written, fused = Residual(settings), Residual(settings)
    for part in (written, fused):
        nn.init.normal_(part.norm.weight, generator=torch.Generator().manual_seed(3))
    fused_modules.replace(written, ON_A_CPU)  # the same masks
    fuse(fused)
    x, y = (
        torch.randn(3, 7, width, requires_grad=True),
        torch.randn(3, 7, width, dtype=precision, requires_grad=True),
    )
    found = []
    for part in (written, fused):
        torch.manual_seed(2)
        out = part.after(x, y)
        found.append([out, *gradients(out, x, y, part.norm.weight, part.norm.bias)])
    assert found[1][0].dtype == precision
    for one, other in zip(*found, strict=True):
        close(other, one, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 8, 8),
        (3, 0, 8, 8),
        (5, 5, 16, 16),
        (15, 31, 64, 64),
        (7, 40, 5, 21),
        (33, 17, 20, 3),
        (3, 250, 9, 8),
    ],
)
@pytest.mark.parametrize("kind", ["everywhere", "padding", "any", "causal"])
def test_attention_equals_its_equation(precision, shape, kind):
    queries, keys, d_k, d_v = shape
    shapes = [(2, queries, 3 * d_k), (2, keys, 3 * d_k), (2, keys, 3 * d_v)]
    leaves = [torch.randn(shape, dtype=precision, requires_grad=True) for shape in shapes]
    heads = [leaf.unflatten(2, (3, -1)).transpose(1, 2) for leaf in leaves]
    masks = {"padding": torch.rand(2, 1, 1, keys) > 0.4, "any": torch.rand(2, 1, queries, keys) > 0.5}
    mask, causal = masks.get(kind), kind == "causal"
    out = kernels.attention(*heads, mask, causal)
    exact = [head.double() for head in heads]
    expected = (
        oracle.attention(*exact, causal_mask(queries, keys, out.device) if causal else mask)[0]
        .transpose(1, 2)
        .flatten(2)
    )
    for one, other in zip(
        (out, *gradients(out, *leaves)), (expected, *gradients(expected, *leaves)), strict=True
    ):
        close(one, other, precision)
    assert out.dtype == precision


@pytest.mark.parametrize("size", [1e16, 3e38])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_to_one_key_is_its_value_and_nan_if_its_score_is_nan(size, masked):
    query, key, value = (
        torch.full((1, 1, 1, 1), size),
        torch.full((1, 1, 2, 1), -size),
        torch.tensor([[[[2.0], [3.0]]]]),
    )
    if masked:
        out = kernels.attention(query, key, value, torch.tensor([[[[True, False]]]]), causal=False)
    else:
        out = kernels.attention(query, key[:, :, :1], value[:, :, :1], None, causal=True)
    torch.testing.assert_close(
        out.flatten(), torch.tensor([2.0 if size**2 < 1e38 else torch.nan]), equal_nan=True
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("widths", [(16, 64), (21, 50), (70, 20), (1, 1)])
def test_a_feed_forward_equals_its_equation(precision, widths):
    fused = FeedForward(replace(SMALL, d_model=widths[0], d_ff=widths[1])).to(precision)
    nn.init.normal_(fused.inner.bias)
    written, wanted = (
        deepcopy(fused).double(),
        torch.randn(3, 7, widths[0], dtype=precision, requires_grad=True),
    )
    fuse(fused)
    found = [
        (out := part(x), *gradients(out, x, *part.parameters()))
        for part, x in ((fused, wanted), (written, wanted.double()))
    ]
    for one, other in zip(*found, strict=True):
        assert one.dtype == precision
        close(one, other, precision)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (15, 17), (16, 16), (33, 48), (64, 31), (500, 256)])
def test_rows_become_columns(shape):
    x = torch.randn(shape, dtype=torch.bfloat16)
    assert torch.equal(kernels.transpose(x), x.t())
    assert torch.equal(kernels.transpose(x.t()), x)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("vocabulary", [20, 90, kernels.COLUMNS + 17])
@pytest.mark.parametrize("rows", [0, 37])
def test_a_linear_map_equals_its_equation(precision, biased, vocabulary, rows):
    leaves = [
        torch.randn(shape, dtype=precision, requires_grad=True)
        for shape in ((rows, 24), (vocabulary, 24), (vocabulary,))
    ]
    exact = [leaf.double() for leaf in leaves]
    if not biased:
        leaves[2] = exact[2] = None
    given = leaves[: 2 + biased]
    out, expected = kernels.linear(*leaves), F.linear(*exact)
    for one, other in zip(
        (out, *gradients(out, *given)), (expected, *gradients(expected, *given)), strict=True
    ):
        assert one.dtype == precision
        close(one, other, precision)


def test_a_gradient_that_is_one_number_for_all_is_read_as_such():
    heads = [torch.randn(2, 3, 5, 16, requires_grad=True) for _ in range(3)]
    found = torch.autograd.grad(kernels.attention(*heads, None, causal=False).sum(), heads)
    expected = torch.autograd.grad(oracle.attention(*heads)[0].sum(), heads)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_a_norm_in_bfloat16_is_read_as_such():
    written, fused = Residual(SMALL).bfloat16(), Residual(SMALL).bfloat16()
    fused_modules.replace(written, ON_A_CPU)  # the same masks
    fuse(fused)
    x, y = (torch.randn(2, 3, 24, dtype=torch.bfloat16) for _ in range(2))
    found = []
    for part in (written, fused):
        torch.manual_seed(2)
        out = part.after(x, y)
        found.append([out, *gradients(out, part.norm.weight, part.norm.bias)])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype == torch.bfloat16
        close(other, one, torch.bfloat16)


def drop_where_memory_is_short():
    x = torch.ones(1, 4 * 10**7, dtype=torch.bfloat16)
    kernels.dropout(x[:, :8], DropoutMask(1, 0, 2.0))  # starts the threads
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + x.numel() * x.element_size() + 40 * 2**20  # the output fits, the random bits do not
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with pytest.raises(RuntimeError, match="The C.. kernels can't allocate memory") as error:
        kernels.dropout(x, DropoutMask(1, 0, 2.0))
    assert is_out_of_memory(error.value)


def test_structures_of_another_size_are_refused(monkeypatch):
    class Longer(ctypes.Structure):
        _fields_ = [*kernel_library.ResidualArguments._fields_, ("more", ctypes.c_int64)]

    lib = kernel_library.loaded_kernels()
    size = ctypes.sizeof(kernel_library.ResidualArguments)
    monkeypatch.setattr(kernel_library, "ResidualArguments", Longer)
    with pytest.raises(
        DragomanError,
        match=f"Longer has {size + 8} bytes in Python and {size} in C.*; give it the same fields in both",
    ):
        kernel_library.declare(lib)
    monkeypatch.undo()
    monkeypatch.setattr(kernels, "sizeof", lambda structure: ctypes.sizeof(structure) - 8)
    heads = [torch.randn(1, 1, 2, 4, requires_grad=True) for _ in range(3)]
    x, norm = torch.ones(2, 8, dtype=torch.bfloat16), nn.LayerNorm(8)
    numbers, feed_forward = x.float(), (nn.Linear(8, 16), nn.Linear(16, 8))
    for call in (
        lambda: kernels.dropout(x, DropoutMask(1, 0, 2.0)),
        lambda: kernels.residual(x, x, None, norm),
        lambda: kernels.transpose(x),
        lambda: kernels.feed_forward(numbers[None], *feed_forward).sum().backward(),
        lambda: kernels.attention(*heads, None, causal=False),
        lambda: kernels.cross_entropy(x, torch.tensor([1, 2]), 0.1),
    ):
        with pytest.raises(DragomanError, match="training_kernels.cpp is of another version"):
            call()


@pytest.mark.long
def test_a_lack_of_memory_is_told_as_pytorch_tells_it():
    """In a new process: the heap of this one may have room that earlier tests have freed."""
    code = "from tests.test_kernels import drop_where_memory_is_short as drop; drop()"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)


@pytest.mark.parametrize("training", [True, False])
def test_who_asks_for_the_weights_of_attention_gets_them(training):
    layer, seen = MultiHeadAttention(8, 2, 4, 4).train(training), []
    x = torch.randn(1, 3, 8)
    expected = layer.attend(*layer.project(x))
    assert fuse(layer)
    layer.attention_weights_hook = seen.append
    torch.testing.assert_close(layer.attend(*layer.project(x)), expected)
    (weights,) = seen
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 3))


def test_a_query_without_allowed_keys_gets_zeros():
    layer = MultiHeadAttention(8, 2, 4, 4)
    fuse(layer)
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    mask[:, :, 1] = False
    queries, here = layer.project(torch.randn(1, 3, 8))
    seen = layer.attend(queries, here, mask)
    assert seen[0, 1].eq(0).all()
    assert seen[0, [0, 2]].ne(0).all()
    seen.sum().backward()
    assert layer.query_key_value.weight.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_all_logits_have_in_common_changes_no_gradient(smoothing):
    logits, gold = (5 * torch.randn(70, 500)).round(), torch.randint(0, 500, (70,))
    found = []
    for common in (0.0, 2.0**20):
        given = (logits + common).requires_grad_()
        loss, nll = FusedCrossEntropy(smoothing)(given * 1, gold)
        loss.backward()
        found.append((given.grad, nll))  # the likelihood is of differences, too
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("vocabulary", [9, 500])
@pytest.mark.parametrize("tokens", [0, 66, 70])
def test_the_loss_equals_pytorchs(precision, smoothing, vocabulary, tokens):
    logits, gold = 5 * torch.randn(70, vocabulary), torch.randint(0, vocabulary, (tokens,))
    ours, theirs = (logits.to(precision).requires_grad_() for _ in range(2))
    loss, nll = FusedCrossEntropy(smoothing)(ours * 1, gold)
    exact = theirs[:tokens].double()
    expected = F.cross_entropy(exact, gold, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(nll, F.cross_entropy(exact, gold, reduction="sum").detach(), rtol=1e-6, atol=0)
    (loss / 7).backward()
    (expected / 7).backward()
    close(ours.grad, theirs.grad, precision)


@pytest.mark.parametrize("shape", [(3, 8), (5, 7), (1, 1), (2, 3, 21)])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_kernels_draw_the_bits_that_python_draws(shape, precision):
    for key in (0, 2**63 - 1):
        ones = torch.ones(shape, dtype=precision, requires_grad=True)
        kept = kernels.dropout(ones, DropoutMask(key, 1000, 2.0))
        assert torch.equal(kept, (random_bits(key, torch.Size(shape)).ge(1000) * 2.0).to(precision))
        assert torch.equal(*torch.autograd.grad(kept.sum(), ones), kept)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_element_whose_bits_are_the_threshold_is_kept(precision):
    """By Python, by the kernels and by their gradients; one in 65536 is such an element."""
    torch.manual_seed(3)
    key = CounterDropout(0.5).draw().key
    bits = random_bits(key, torch.Size([1, 5, 21]))
    norm = nn.LayerNorm(21)
    for threshold in bits[0].median(1).values.tolist():
        kept, mask = bits >= threshold, DropoutMask(key, threshold, 2.0)
        torch.manual_seed(3)
        assert torch.equal(CounterDropout((threshold + 2**15) / 2**16)(torch.ones(kept.shape)) != 0, kept)
        y = torch.ones(kept.shape, dtype=precision, requires_grad=True)
        out = kernels.dropout(y, mask)
        assert torch.equal(out != 0, kept)
        assert torch.equal(gradients(out, y)[0] != 0, kept & (gradients(y * 1.0, y)[0] != 0))
        out = kernels.residual(torch.zeros_like(y), y, mask, norm)
        rows = (kept != kept[..., :1]).any(-1)  # where all or none is kept nothing is left of the norm
        assert torch.equal((out > 0)[rows], kept[rows])
        found, expected = (gradients(value, y)[0] for value in (out, norm(y * kept * 2.0)))
        assert torch.equal(found[rows] != 0, expected[rows] != 0)


def test_random_bits_are_even_and_independent():
    bits = random_bits(5, torch.Size([4, 2**16])).double()
    assert bits.mean(1).abs().max() < 4 * 2**16 / 12**0.5 / 2**8
    rows = torch.cat(
        [bits, random_bits(6, torch.Size([1, 2**16])).double(), bits[:1].roll(1, 1), bits[:1].roll(4, 1)]
    )
    assert (rows.corrcoef() - torch.eye(7)).abs().max() < 5 / 2**8


def some_batch():
    draw = torch.Generator().manual_seed(5)
    sides = [
        [torch.randint(4, 40, (n,), generator=draw).tolist() for n in lengths]
        for lengths in ((3, 11, 1, 7), (9, 2, 1, 5))
    ]
    return Batch.of(pad(sides[0], END), pad(sides[1], END), [0, 1, 2, 3])


def gradient_of(model, bfloat16, native):
    """The loss of a batch, and the gradient of all weights as one vector."""
    torch.manual_seed(4)
    objective = Objective(deepcopy(model), 0.1, bfloat16, native).train()
    if not native:
        fused_modules.replace(objective, ON_A_CPU)  # the same masks
    loss, _ = objective(some_batch())
    loss.backward()
    return loss.item(), torch.cat([weight.grad.flatten() for weight in objective.parameters()])


@pytest.mark.short_form(4)
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_trains_alike(kind):
    model = build_model(MODELS[kind], 40, 40)
    (loss, exact), (fused_loss, fused) = (gradient_of(model, False, native) for native in (False, True))
    assert fused_loss == pytest.approx(loss, rel=1e-6)
    assert (fused - exact).norm() < 1e-5 * exact.norm()
    away, fused_away = ((gradient_of(model, True, native)[1] - exact).norm() for native in (False, True))
    assert fused_away < 1.5 * away < 0.1 * exact.norm(), (
        "what each sub-layer adds to is rounded too, and little farther from the gradient"
    )


@pytest.mark.parametrize("kind", MODELS)
def test_a_process_with_nothing_to_do_adds_nothing_to_the_gradient(kind):
    """Of several, those have that, where a batch has fewer pairs than there are processes."""
    model = build_model(MODELS[kind], 40, 40)
    objective, some = Objective(model, 0.1, bfloat16=True, native=True).train(), some_batch()
    loss, nll = objective(Batch.of(some.source, torch.full_like(some.target_out, PAD), []))
    loss.backward()
    assert loss == nll == 0
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


def test_logits_of_rows_of_rows_are_those_of_each():
    model = build_model(SMALL, 40, 40).train()
    features = torch.randn(2, 3, 24)
    expected = model.logits(features)
    assert fuse(model)
    for given, wanted in ((features, expected), (features[0, 0], expected[0, 0])):
        torch.testing.assert_close(model.logits(given), wanted)


@pytest.mark.parametrize(
    "part", ["encoder.0.self_attention", "decoder.0.self_attention", "decoder.0.cross_attention"]
)
@pytest.mark.parametrize("row", ["query", "value"])
def test_nan_stays_nan(part, row):
    model = build_model(SMALL, 40, 40)
    weight = model.get_submodule(part).query_key_value.weight
    with torch.no_grad():
        weight[0 if row == "query" else len(weight) - 1, 0] = torch.nan
    loss, nll = Objective(model, 0.1, bfloat16=True, native=True).train()(some_batch())
    loss.backward()
    assert loss.isnan()
    assert nll.isnan()
    lost = [name for name, weight in model.named_parameters() if not weight.grad.isnan().any()]
    assert all(name.endswith("feed_forward.inner.bias") for name in lost), "oneDNN's max(0, NaN) is 0"


@pytest.mark.parametrize("kind", MODELS)
def test_oracles_take_the_place_of_kernels_for_a_while_with_the_same_masks(kind):
    objective = Objective(build_model(MODELS[kind], 40, 40), 0.1, bfloat16=False, native=True).train()
    before = [type(module) for module in objective.modules()]
    torch.manual_seed(4)
    fused_loss, _ = objective(some_batch())
    with pytest.raises(KeyError), fused_modules.unfused(objective):  # noqa: PT012
        kinds = {type(module) for module in objective.modules()}
        assert {kind for kind in kinds if kind.__module__.startswith("dragoman.native")} <= {CounterDropout}
        torch.manual_seed(4)
        loss, _ = objective(some_batch())
        raise KeyError
    assert [type(module) for module in objective.modules()] == before
    if not MODELS[kind].attention_dropout:  # its masks are PyTorch's
        assert loss.item() == pytest.approx(fused_loss.item(), rel=1e-5)


def test_the_same_again_to_the_last_bit():
    model = build_model(SMALL, 40, 40)
    objective, found = Objective(model, 0.1, bfloat16=True, native=True).train(), []
    for _ in range(2):
        torch.manual_seed(4)
        objective.zero_grad()
        objective(some_batch())[0].backward()
        found.append([weight.grad.clone() for weight in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def values_and_gradients(precision, rows):
    """Of every kernel, for so many rows: what is computed row by row, then products and sums over rows."""
    draw = torch.Generator().manual_seed(8)
    shapes = [(1, rows, 21), (1, rows, 21), (33, 21), (33,), (21, 33), (21,), (rows, 9)]
    leaves = [torch.randn(shape, generator=draw).to(precision).requires_grad_() for shape in shapes]
    x, y, *maps, logits = leaves
    heads = [torch.randn(rows, 2, 3, 5, generator=draw).to(precision).requires_grad_() for _ in range(3)]
    norm, mask = nn.LayerNorm(21).to(precision), DropoutMask(7, -9000, 1.5)
    inner, outer = nn.Linear(21, 33), nn.Linear(33, 21)
    inner.weight, inner.bias, outer.weight, outer.bias = map(nn.Parameter, maps)
    own, sums = [kernels.transpose(x[0].detach().bfloat16())], []
    for out, of_rows, of_all in (
        (kernels.dropout(x, mask), [x], []),
        (kernels.residual(x, y, mask, norm), [x, y], [*norm.parameters()]),
        (kernels.residual(x, y, None, norm), [x, y], [*norm.parameters()]),
        (kernels.attention(*heads, None, causal=True), heads, []),
        (kernels.cross_entropy(logits * 1, torch.arange(rows) % 9, 0.1)[0], [logits], []),
    ):
        found = gradients(out, *of_rows, *of_all)
        own += [out.detach(), *found[: len(of_rows)]]
        sums += found[len(of_rows) :]
    out = kernels.feed_forward(x, inner, outer)
    return own, [*sums, out.detach(), *gradients(out, x, *inner.parameters(), *outer.parameters())]


@pytest.mark.parametrize("precision", [torch.float32, pytest.param(torch.bfloat16, marks=NEEDS_BFLOAT16)])
@pytest.mark.parametrize("rows", [1, 4, 300])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_any_number_of_threads_computes_the_same(precision, rows, count):
    """To the last bit where the numbers of one row suffice; a thread may be without rows."""
    alone = values_and_gradients(precision, rows)
    with threads(count):
        together = values_and_gradients(precision, rows)
        again = values_and_gradients(precision, rows)
    assert all(map(torch.equal, together[0], alone[0]))
    for one, other in zip(together[1], alone[1], strict=True):
        close(one, other, precision)
    assert all(map(torch.equal, chain(*again), chain(*together)))


@contextmanager
def unused_memory_is_nan() -> Iterator[None]:
    """What PyTorch allocates and nobody has written to is NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.short_form(8)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("bfloat16", [False, True])
def test_what_memory_held_before_changes_nothing(kind, bfloat16):
    model = build_model(MODELS[kind], 40, 40)
    loss, expected = gradient_of(model, bfloat16, True)
    with unused_memory_is_nan():
        assert torch.empty(1).isnan()
        found = gradient_of(model, bfloat16, True)
    assert found[0] == loss
    assert torch.equal(found[1], expected)


def test_a_transposed_copy_is_filled_up_with_zeros():
    with unused_memory_is_nan():
        columns = kernels.transpose(torch.randn(50, 33, dtype=torch.bfloat16))
    whole = columns.as_strided((33, columns.stride(0)), columns.stride())
    assert columns.stride(0) > 50
    assert not whole[:, 50:].any()


def test_float64_and_translating_go_by_the_equations():
    model = build_model(replace(SMALL, dropout=0.0), 40, 40).double()
    written = deepcopy(model)
    fused_modules.replace(written, ON_A_CPU)
    fuse(model)
    torch.autograd.gradcheck(
        lambda x: model.encoder[0](x, None), torch.randn(1, 3, 24, dtype=torch.float64, requires_grad=True)
    )
    memory, expected = (each.float().eval().encode(some_batch().source).memory for each in (model, written))
    assert torch.equal(memory[0].keys, expected[0].keys)


def test_without_a_compiler_pytorch_trains(monkeypatch):
    monkeypatch.setattr(kernel_library, "load_kernels", lambda: None)
    objective = Objective(build_model(SMALL, 40, 40), 0.1, bfloat16=False, native=True).train()
    in_cpp = set(COMPILED.values()) - set(ON_A_CPU.values())
    assert not in_cpp & {type(module) for module in objective.modules()}
    assert objective(some_batch())[0].isfinite()

"""CUDA graphs of training: a graph computes the bits of the pass without it. All but one test need a GPU."""

import subprocess
import sys

import pytest
import torch

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import PAD
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch, Update
from dragoman.training import graphs
from dragoman.training.graphs import GraphedObjective
from dragoman.training.objective import Objective, accumulate_gradients, seed_update, with_graphs
from dragoman.training.world import World

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
SMALL = ModelSettings(d_model=64, d_ff=128, heads=2, dropout=0.3)
OTHER = ModelSettings(
    d_model=64,
    d_ff=128,
    heads=2,
    norm="pre",
    activation="gelu",
    positions="learned",
    max_positions=40,
    tied="none",
    output_bias=True,
    attention_dropout=0.1,
)
MODELS = {"small": SMALL, "other": OTHER, "base": PRESETS["base"]}


def objective_of(settings, vocabulary=50):
    torch.manual_seed(1)
    model = build_model(settings, vocabulary, vocabulary).cuda()
    return Objective(model, 0.1, bfloat16=True, native=True).train()


def batch_of(pairs, source, target, vocabulary=50, padding=0):
    ids = torch.randint(4, vocabulary, (pairs, source)), torch.randint(4, vocabulary, (pairs, target))
    if padding:
        ids[1][::2, -padding:] = PAD
    return Batch.of(*ids, list(range(pairs)))


def gradients(objective, batch, seed):
    """[loss, nll] and the gradients of a batch, for a seed of dropout."""
    objective.zero_grad()
    seed_update(seed, 1, 0)
    sums = accumulate_gradients(objective, Update(0, 0, [batch], batch.tokens), World())
    return sums.clone(), [weight.grad.clone() for weight in objective.parameters()]


def overwrite_free_memory():
    torch.full((2**24,), torch.nan, device="cuda")
    for size in (64, 512, 4096, 2**16):
        _ = [torch.full((size,), torch.nan, device="cuda") for _ in range(200)]


@needs_gpu
@pytest.mark.parametrize("kind", MODELS)
def test_a_graph_computes_the_bits_of_the_pass_without_it(kind):
    objective = GraphedObjective(objective_of(MODELS[kind], 1001))
    shapes = [(8, 7, 5, 1001, 2), (40, 25, 25, 1001, 3), (16, 9, 30, 1001, 0)]
    batches = [batch_of(*shape) for shape in shapes for _ in range(2)]
    others = [gradients(objective, batch, seed) for seed, batch in enumerate(batches[::2])]
    assert not objective._graphs
    for repetition in range(3):  # a capture, then two replays
        for seed, (batch, wanted) in enumerate(zip(batches[::2], others, strict=True)):
            overwrite_free_memory()
            sums, found = gradients(objective, batch, seed)
            assert torch.equal(sums, wanted[0]), repetition
            assert all(map(torch.equal, found, wanted[1])), repetition
            gradients(objective, batches[2 * seed + 1], 0)
    assert len(objective._graphs) == 3


@needs_gpu
def test_padding_changes_neither_the_gradient_nor_the_loss():
    plain = objective_of(SMALL)
    expected = {}
    batches = [batch_of(8, 7, 12, padding=padding) for padding in (0, 3, 11)]
    for seed, batch in enumerate(batches):
        sums, wanted = gradients(plain, batch, seed)
        expected[seed] = sums, wanted
    objective = GraphedObjective(plain)
    for _ in range(2):
        for seed, batch in enumerate(batches):
            sums, found = gradients(objective, batch, seed)
            torch.testing.assert_close(sums, expected[seed][0])
            for one, other in zip(found, expected[seed][1], strict=True):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@needs_gpu
def test_gradients_of_several_batches_add_up():
    plain = objective_of(SMALL).eval()  # without dropout
    batches = [batch_of(8, 7, 12), batch_of(8, 9, 12), batch_of(8, 7, 12), batch_of(8, 7, 12)]
    update = Update(0, 0, batches, sum(batch.tokens for batch in batches))
    expected = accumulate_gradients(plain, update, World())
    wanted = [weight.grad.clone() for weight in plain.parameters()]
    plain.zero_grad()
    found = accumulate_gradients(GraphedObjective(plain), update, World())
    torch.testing.assert_close(found, expected)
    for weight, gradient in zip(plain.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-3, atol=1e-5)


@needs_gpu
def test_a_table_of_positions_that_grows_changes_no_graph():
    objective = GraphedObjective(objective_of(SMALL))
    batch = batch_of(8, 7, 12)
    wanted = gradients(objective, batch, 1)[1]
    gradients(objective, batch, 1)
    for positions in (objective.objective.model.source_positions, objective.objective.model.target_positions):
        positions(0, 1000)
    overwrite_free_memory()
    assert all(map(torch.equal, gradients(objective, batch, 1)[1], wanted))


@needs_gpu
def test_there_are_no_more_graphs_than_allowed(monkeypatch):
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 2)
    objective = GraphedObjective(objective_of(SMALL))
    batches = [batch_of(8, 7, length) for length in (5, 6, 7, 8)]
    for _ in range(3):
        for batch in batches:
            gradients(objective, batch, 1)
    assert len(objective._graphs) == 2


@needs_gpu
def test_without_memory_for_graphs_there_are_none():
    objective, batch = GraphedObjective(objective_of(SMALL)), batch_of(8, 7, 12)
    wanted = gradients(objective, batch, 1)[1]
    rest = torch.cuda.mem_get_info()[0] - 2**28
    others = torch.empty(rest, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        assert all(map(torch.equal, gradients(objective, batch, 1)[1], wanted))
    assert not objective._graphs
    del others
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def waiting_objective():
    objective = objective_of(SMALL)
    objective.register_forward_hook(lambda _, __, output: output[0].item() and None)  # waits for the GPU
    return objective


NO_CAPTURE = (
    "A batch could not be captured as a CUDA graph (CUDA error: operation not permitted when stream is "
    "capturing). Train with --no-native."
)
NO_MEMORY = "There is not enough memory for 1,000 pairs at once; train with a lower micro_batch_tokens."


def fail_to_capture(kind):
    """Print what a capture that fails says."""
    objective = GraphedObjective(waiting_objective() if kind == NO_CAPTURE else objective_of(SMALL))
    batch = batch_of(1000, 25, 25)
    gradients(objective, batch, 1)
    if kind == NO_MEMORY:
        memory = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(1.01 * torch.cuda.memory_reserved() / memory)
    try:
        gradients(objective, batch, 1)
    except DragomanError as error:
        print(error, flush=True)


@needs_gpu
@pytest.mark.parametrize("kind", ["NO_CAPTURE", "NO_MEMORY"])
def test_a_capture_that_fails_ends_with_a_sentence(kind):
    # In a process of its own: a capture that fails leaves PyTorch's generator unusable.
    program = f"from tests import test_training_graphs as own; own.fail_to_capture(own.{kind})"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert globals()[kind] in done.stdout, done.stderr


@needs_gpu
def test_an_objective_with_kernels_gets_graphs():
    assert isinstance(with_graphs(objective_of(SMALL)), GraphedObjective)


def test_an_objective_without_kernels_gets_no_graphs():
    objective = Objective(build_model(SMALL, 50, 50), 0.1, bfloat16=False)
    assert with_graphs(objective) is objective

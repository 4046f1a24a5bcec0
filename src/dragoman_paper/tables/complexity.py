"""Table 1 (section 4), measured: what a layer costs, and how many operations lie between two positions.

Shapes: n positions, D features.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, repeat

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from dragoman_paper.tables.layers import Layer, LayerType, Recurrent

SEED = 1
REPEATS = 5  # of which the fastest counts
CONFIDENCE = 0.95
SMALL = 8  # width of the layers whose gradients are followed: no distance depends on it
FEWEST_FLOPS = 2e7  # below, the time is that of calling PyTorch
PRODUCTS = ("AddmmBackward", "MmBackward", "BmmBackward", "ConvolutionBackward", "ScaledDotProduct")
"""The beginnings of the names of autograd's nodes that are products of matrices, or a fused pair of them."""


@dataclass(frozen=True)
class LayerCost:
    """What a layer costs for n positions of D features."""

    layer: str
    positions: int
    width: int
    flops: int
    """Floating-point operations of its matrix products, counted."""
    seconds: float
    """Of the forward pass, the fastest of several."""
    saved_bytes: int
    """Memory that the forward pass keeps for the backward pass, besides the weights."""


@dataclass(frozen=True)
class Distance:
    """How far apart the positions of a layer are."""

    layer: str
    positions: int
    sequential: int
    """The longest chain of matrix products that wait for each other in a layer; fused attention is one."""
    path: int
    """Operations (layers; steps of the recurrent one) until each position has reached each it may reach."""


@dataclass(frozen=True)
class Exponent:
    """y ~ x^value, with the bounds of its confidence interval."""

    value: float
    low: float
    high: float


def measure(layer_type: LayerType, positions: int, width: int) -> LayerCost:
    """The cost of a layer in this process, with its present number of threads."""
    layer, x = built(layer_type, width), torch.randn(1, positions, width)
    return LayerCost(
        layer_type.name,
        positions,
        width,
        count_flops(layer_type, positions, width),
        fastest(layer, x),
        saved_bytes(layer, x),
    )


def built(layer_type: LayerType, width: int, depth: int = 0) -> Layer:
    """A layer with random weights, always the same ones."""
    torch.manual_seed(SEED)
    return layer_type.build(width, depth)


def count_flops(layer_type: LayerType, positions: int, width: int) -> int:
    """Floating-point operations of a layer's matrix products. Nothing is computed."""
    with torch.device("meta"):
        layer, x = layer_type.build(width, 0), torch.empty(1, positions, width)
        with FlopCounterMode(display=False) as counter:
            layer.stepwise(x)
    return int(counter.get_total_flops())


@torch.no_grad()
def fastest(layer: Layer, x: Tensor) -> float:
    """Seconds of the fastest of several forward passes."""

    def seconds() -> float:
        start = time.perf_counter()
        layer(x)
        return time.perf_counter() - start

    return min(seconds() for _ in range(REPEATS))


def saved_bytes(layer: Layer, x: Tensor) -> int:
    """Bytes of the tensors that a forward pass saves for the backward pass, weights left out."""
    weights = {weight.data_ptr() for weight in layer.parameters()}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = layer(x.requires_grad_())
    x.requires_grad_(False)
    del output
    return sum(saved.values())


def fit(costs: Sequence[LayerCost], quantity: Callable[[LayerCost], float]) -> tuple[Exponent, Exponent]:
    """The exponents of n and D in a quantity, by least squares of the logarithms over these costs.

    Raises `ValueError` for fewer than four costs.
    """
    if len(costs) < 4:
        raise ValueError("Two exponents and a factor need four costs or more.")
    sizes = np.log([(cost.positions, cost.width) for cost in costs])
    inputs = np.column_stack([np.ones(len(costs)), sizes])
    outputs = np.log([quantity(cost) for cost in costs])
    solution, *_ = np.linalg.lstsq(inputs, outputs, rcond=None)
    freedom = len(costs) - inputs.shape[1]
    variance = float(((outputs - inputs @ solution) ** 2).sum()) / freedom
    errors = np.sqrt(variance * np.linalg.inv(inputs.T @ inputs).diagonal())
    margin = errors * students_quantile(freedom)
    n, width = (
        Exponent(*map(float, (value, value - half_width, value + half_width)))
        for value, half_width in zip(solution[1:], margin[1:], strict=True)
    )
    return n, width


@cache
def students_quantile(freedom: int) -> float:
    """The quantile of Student's distribution, from draws: there is no other use for a table of it."""
    draws = np.random.default_rng(SEED).standard_t(freedom, 200_000)
    return float(np.quantile(draws, (1 + CONFIDENCE) / 2))


def slope(distances: Sequence[Distance], quantity: Callable[[Distance], float]) -> Exponent:
    """The exponent of n in a quantity; without an interval, since these numbers have no noise.

    Raises `ValueError` for fewer than two lengths.
    """
    if len({distance.positions for distance in distances}) < 2:
        raise ValueError("An exponent needs two lengths or more.")
    sizes = np.log([distance.positions for distance in distances])
    value = float(np.polyfit(sizes, np.log([quantity(distance) for distance in distances]), 1)[0])
    return Exponent(value, value, value)


# ---- sequential operations and path lengths


def distance(layer_type: LayerType, positions: int) -> Distance:
    """Sequential operations and maximum path length, from the gradients of a small layer."""
    layer = built(layer_type, SMALL)
    output = layer.stepwise(torch.randn(1, positions, SMALL, requires_grad=True))
    assert output.grad_fn is not None
    return Distance(
        layer_type.name, positions, longest_chain(output.grad_fn), path_length(layer_type, positions)
    )


def longest_chain(root: Node) -> int:
    """Matrix products on the longest way through a graph of autograd."""
    longest: dict[Node, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        if waiting := [parent for parent in before if parent not in longest]:
            stack.extend(waiting)
            continue
        stack.pop()
        is_product = node.name().startswith(PRODUCTS)
        longest[node] = max((longest[parent] for parent in before), default=0) + is_product
    return longest[root]


def path_length(layer_type: LayerType, positions: int) -> int:
    """Operations until each position has reached, by non-zero gradients, each that it can reach at all."""
    reached = torch.eye(positions, dtype=torch.bool)
    for operations, step in enumerate(reach_of_steps(layer_type, positions), 1):
        before, reached = reached, (step.float() @ reached.float()) > 0
        if torch.equal(before, reached):
            return operations - 1
        if reached.all():
            return operations
    raise AssertionError  # the steps have no end


def reach_of_steps(layer_type: LayerType, positions: int) -> Iterator[Bool[Tensor, "outputs inputs"]]:
    """For each operation of a stack of layers, which output depends on which input."""
    first, second = (reach_of_layer(layer_type, positions, depth) for depth in (0, 1))
    yield first
    if torch.equal(first, second):  # all layers are alike
        yield from repeat(first)
    yield second
    for depth in count(2):
        yield reach_of_layer(layer_type, positions, depth)


def reach_of_layer(layer_type: LayerType, positions: int, depth: int) -> Bool[Tensor, "outputs inputs"]:
    """Which output of a layer of a stack depends on which input; of the recurrent one, which state."""
    layer = built(layer_type, SMALL, depth).double()
    if isinstance(layer, Recurrent):  # an operation is a step from each state to the next
        step = reach(partial(next_states, layer), positions)
        return torch.eye(positions, dtype=torch.bool) | step
    return reach(layer, positions)


def next_states(layer: Recurrent, states: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
    """The state at each position, from the state at the position before it."""
    before = nn.functional.pad(states[0], (0, 0, 1, -1))
    zeros = torch.zeros_like(before)
    return layer.step(zeros, before, zeros)[0][None]


def reach(function: Callable[[Tensor], Tensor], positions: int) -> Bool[Tensor, "outputs inputs"]:
    """Which output position of a function has a gradient with respect to which input position."""
    x = torch.randn(1, positions, SMALL, dtype=torch.float64, requires_grad=True)
    outputs = function(x).sum(-1)[0]
    rows = [torch.autograd.grad(output, x, retain_graph=True)[0][0].abs().sum(-1) for output in outputs]
    return torch.stack(rows) > 0

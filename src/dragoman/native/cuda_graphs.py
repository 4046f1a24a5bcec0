"""Beam search in fixed shapes, for a GPU: a step is captured once and replayed as a CUDA graph.

Oracle: search/beam.py.

Shapes: B sentences of S tokens, W hypotheses per sentence, N = L + 1 ids with END, V vocabulary.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import TypeGuard

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.attention import KeysValues
from dragoman.model.cache import TransformerState
from dragoman.model.interface import Model
from dragoman.model.positions import Positions
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Transformer
from dragoman.search.beam import (
    Beam,
    add_finished,
    hypotheses,
    is_done,
    likeliest_that_continue,
    max_target_lengths,
    next_log_probs,
)
from dragoman.search.hypothesis import Constraints, Hypothesis, length_normalization
from dragoman.search.settings import SearchSettings
from dragoman.search.top_k import top_k_extensions
from dragoman.system.device import is_cuda
from dragoman.system.errors import NonFiniteError
from dragoman.system.futures import interruption

LENGTH_MULTIPLE = 16  # lengths are rounded up, so that graphs can be replayed
CACHED_HYPOTHESES = 64  # at most, in a graph that is cached: small graphs cost more to capture than to run
CACHED_GRAPHS = 32
CHECK_EVERY = 4  # steps, after which the host checks whether a sentence is unfinished


@dataclass(frozen=True, kw_only=True)
class FixedShapeState(TransformerState):
    """A cache with capacity for all tokens from the start; the number of tokens is a tensor on the device."""

    position: Int[Tensor, ""]
    rows: Float[Tensor, "N D"]
    """All positional encodings: a graph's inputs must not move when the table grows."""

    # A step reads one token: both methods ignore `tokens`.
    def positions(self, table: Positions, tokens: int) -> Float[Tensor, "1 D"]:  # noqa: ARG002
        return self.rows.index_select(0, self.position[None])

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        places = self.position * self.beams + torch.arange(self.beams, device=self.position.device)
        for cache, values in zip(self.cache[layer], new, strict=True):
            cache.index_copy_(2, places, values)
        return self.cache[layer]

    def advance(self, tokens: int) -> tuple["FixedShapeState", Bool[Tensor, "B 1 W N"]]:  # noqa: ARG002
        itself = torch.eye(self.beams, dtype=torch.bool, device=self.ancestry.device)[None, :, None].expand(
            len(self.ancestry), -1, -1, -1
        )
        self.ancestry.index_copy_(2, self.position[None], itself)
        return self, self.ancestry.flatten(2)[:, None]

    def reorder(self, rows: Int[Tensor, "R"]) -> "FixedShapeState":
        self.ancestry.copy_(self.ancestry.flatten(0, 1).index_select(0, rows).view_as(self.ancestry))
        return self


class FixedShapeSearch:
    """Beam search over B sentences of S tokens in buffers of fixed shapes; `step` changes them in place."""

    def __init__(
        self,
        model: Transformer,
        state: TransformerState,
        settings: SearchSettings,
        min_length: int,
        max_length: int,
    ) -> None:
        """For encoded sentences of these shapes, and at most `max_length` tokens before END."""
        self.model, self.settings, self.min_length, self.max_length = model, settings, min_length, max_length
        width, device, sentences = settings.beam_size, state.mask.device, len(state.mask)

        def empty(memory: Tensor) -> Tensor:
            sentences, heads, _, size = memory.shape
            return memory.new_zeros(sentences, heads, (max_length + 1) * width, size)

        self.state = FixedShapeState(
            memory=[KeysValues(keys.contiguous(), values.contiguous()) for keys, values in state.memory],
            mask=state.mask,
            cache=[KeysValues(empty(keys), empty(values)) for keys, values in state.memory],
            ancestry=state.mask.new_zeros(sentences, width, max_length + 1, width),
            position=torch.zeros((), dtype=torch.int64, device=device),
            rows=model.target_positions(0, max_length + 1),
        )
        self.beam = self._empty(device)
        self.max_lengths = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.unfinished = torch.ones(sentences, dtype=torch.bool, device=device)
        self.not_end = torch.arange(len(model.output.weight), device=device) != END
        self.places = torch.arange(max_length + 1, device=device)
        self.first_rows = torch.arange(sentences, device=device)[:, None] * width

    def _empty(self, device: torch.device) -> Beam:
        """A beam before its first token, with capacity for all."""
        coverage = torch.zeros(len(self.state.ancestry), 0, device=device)
        beam = Beam.start(len(coverage), self.settings.beam_size, 1, self.max_length, coverage)
        return replace(beam, live=F.pad(beam.live, (0, self.max_length + 1), value=PAD))

    def load(self, state: TransformerState, max_lengths: Int[Tensor, "B"]) -> None:
        """Replace the sentences in the buffers."""
        for buffer, new in zip(self.state.memory, state.memory, strict=True):
            buffer.keys.copy_(new.keys)
            buffer.values.copy_(new.values)
        self.state.mask.copy_(state.mask)
        self.state.ancestry.zero_()
        self.state.position.zero_()
        self._store(self._empty(state.mask.device))
        self.max_lengths.copy_(max_lengths)
        self.unfinished.fill_(True)

    def _store(self, beam: Beam) -> None:
        for field in fields(Beam):
            getattr(self.beam, field.name).copy_(getattr(beam, field.name))

    def step(self) -> None:
        """One step of `beam_steps` for all sentences; finished ones do not change."""
        settings, position, beam = self.settings, self.state.position, replace(self.beam)
        width = settings.beam_size
        tokens = beam.live.index_select(2, position[None]).view(-1, 1)
        features, _ = self.model.decode(tokens, self.state)
        log_probs = next_log_probs(self.model, features[:, -1]).unflatten(0, (-1, width))
        at_end = (position >= self.max_lengths)[:, None, None]
        log_probs = log_probs.masked_fill(at_end & self.not_end, -torch.inf)
        log_probs = log_probs.masked_fill(~at_end & ~self.not_end & (position < self.min_length), -torch.inf)

        total, origin, token = top_k_extensions(log_probs, beam.live_log_probs, 2 * width)
        is_end = token == END
        prefixes = beam.live.gather(1, origin[:, :, None].expand(-1, -1, beam.live.size(2)))
        ending = total.masked_fill(~(is_end & self.unfinished[:, None]), -torch.inf)[:, :width]
        ids = (
            prefixes[:, :width, 1:]
            .masked_fill(self.places > position, PAD)
            .masked_fill(self.places == position, END)
        )
        add_finished(beam, ids, ending, ending / length_normalization(position + 1, settings))

        survivors = likeliest_that_continue(is_end, groups=1)
        beam.live_log_probs = total.masked_fill(is_end, -torch.inf).gather(1, survivors)
        beam.live = prefixes.gather(1, survivors[:, :, None].expand_as(beam.live))
        beam.live.index_copy_(2, position[None] + 1, token.gather(1, survivors)[:, :, None])
        self._store(beam)
        self.unfinished &= ~is_done(beam, position + 1, self.max_lengths, settings)
        self.state.reorder((self.first_rows + origin.gather(1, survivors)).flatten())
        position += 1


def has_fixed_shapes(model: Model) -> TypeGuard[Transformer]:
    """Whether `GraphSearch` supports a model: a Transformer without variants."""
    return isinstance(model, Transformer) and not model.settings.variants


class GraphSearch:
    """Greedy and beam search for a Transformer on a GPU, with the results of `beam_search`."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self._made: dict[object, tuple[FixedShapeSearch, Callable[[], None]]] = {}
        self._lock = Lock()  # one search at a time uses the buffers

    @torch.no_grad()
    def search(
        self, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
    ) -> list[list[Hypothesis]]:
        """As `beam_search`; of the constraints it supports `min_length` alone. Raises as `beam_search`."""
        max_lengths = max_target_lengths(self.model, source, settings, constraints.min_capacity)
        max_length = int(max_lengths.max())
        capacity = rounded(max_length, self.model.longest_target and self.model.longest_target - 1)
        source = F.pad(
            source, (0, rounded(source.size(1), self.model.longest_source) - source.size(1)), value=PAD
        )
        state = self.model.encode(source)
        with self._lock:
            fixed, step = self._for(state, settings, constraints.min_capacity, capacity)
            fixed.load(state, max_lengths)
            for number in range(max_length + 1):
                if interruption.get().is_set():
                    raise CancelledError
                step()
                if number % CHECK_EVERY == CHECK_EVERY - 1 and not fixed.unfinished.any():
                    break
            if fixed.unfinished.any():
                raise NonFiniteError
            return hypotheses(fixed.beam, settings.n_best)

    def _for(
        self, state: TransformerState, settings: SearchSettings, min_length: int, max_length: int
    ) -> tuple[FixedShapeSearch, Callable[[], None]]:
        """A search of these shapes, and the function that makes its step."""
        keys = state.memory[0].keys
        cache_key = keys.shape, settings, min_length, max_length
        if cache_key in self._made:
            return self._made[cache_key]
        fixed = FixedShapeSearch(self.model, state, settings, min_length, max_length)
        entry = fixed, captured(fixed.step, keys.device) if is_cuda(keys.device) else fixed.step
        if len(keys) * settings.beam_size <= CACHED_HYPOTHESES:
            if len(self._made) == CACHED_GRAPHS:
                self._made.clear()
            self._made[cache_key] = entry
        return entry


def rounded(length: int, limit: int | None) -> int:
    """The next multiple of `LENGTH_MULTIPLE`, within the limit of learned positions."""
    padded = length + -length % LENGTH_MULTIPLE
    return padded if limit is None else min(padded, limit)


def captured(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Capture the step as a CUDA graph of a device. The step runs once here, before the capture."""
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()  # libraries allocate their workspaces, which they must not do during a capture
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            step()
    return graph.replay

"""Beam search in fixed shapes that never waits for the host: for a GPU, where a step is captured once and replayed as a CUDA graph.

Shapes: B sentences of S tokens, W hypotheses a sentence, N = L + 1 ids a hypothesis with END, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from threading import Lock

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.attention import KeysValues
from dragoman.model.cache import TransformerState
from dragoman.model.positions import Positions
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Transformer
from dragoman.search.beam import Beam, add_finished, hypotheses, is_done, max_target_lengths, next_log_p
from dragoman.search.hypothesis import NON_FINITE, Hypothesis, normalizer
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.search.top_k import top_k_extensions
from dragoman.system.errors import DragomanError

ROUND = 16  # lengths are rounded up to a multiple, so that graphs serve again
FEW = 64  # hypotheses: graphs of no more than these are kept, which would cost more to capture than to run once
KEPT = 32  # graphs at most
ASK_EVERY = 4  # steps, after which the host asks whether a sentence is still unfinished


@dataclass(frozen=True, kw_only=True)
class FixedState(TransformerState):
    """Keys and values with room for all tokens from the start; how many there are is a number on the device."""

    step: Int[Tensor, ""]
    rows: Float[Tensor, "N D"]
    """All positions: what a graph reads must not move when the table grows."""

    def positions(self, table: Positions, tokens: int) -> Float[Tensor, "1 D"]:  # noqa: ARG002  a step reads one
        return self.rows.index_select(0, self.step[None])

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        places = self.step * self.beams + torch.arange(self.beams, device=self.step.device)
        for cache, values in zip(self.cache[layer], new, strict=True):
            cache.index_copy_(2, places, values)
        return self.cache[layer]

    def advance(self, tokens: int) -> tuple["FixedState", Bool[Tensor, "B 1 W M"]]:  # noqa: ARG002  a step reads one
        own = torch.eye(self.beams, dtype=torch.bool, device=self.ancestry.device)[None, :, None].expand(len(self.ancestry), -1, -1, -1)
        self.ancestry.index_copy_(2, self.step[None], own)
        return self, self.ancestry.flatten(2)[:, None]

    def reorder(self, rows: Int[Tensor, "R"]) -> "FixedState":
        self.ancestry.copy_(self.ancestry.flatten(0, 1).index_select(0, rows).view_as(self.ancestry))
        return self


class FixedShapeSearch:
    """A beam search over any B sentences of S tokens, in buffers of its own: `step` changes them alike each time."""

    def __init__(self, model: Transformer, state: TransformerState, settings: SearchSettings, least: int, longest: int) -> None:
        """For sentences that were read like these; none has more tokens than `longest`, without END."""
        assert state.mask is not None
        self.model, self.settings, self.least, self.last = model, settings, least, longest
        width, device, sentences = settings.beam_size, state.mask.device, len(state.mask)

        def room(memory: Tensor) -> Tensor:
            sentences, heads, _, size = memory.shape
            return memory.new_zeros(sentences, heads, (longest + 1) * width, size)

        self.state = FixedState(
            memory=[KeysValues(keys.contiguous(), values.contiguous()) for keys, values in state.memory],
            mask=state.mask,
            cache=[KeysValues(room(keys), room(values)) for keys, values in state.memory],
            ancestry=state.mask.new_zeros(sentences, width, longest + 1, width),
            step=torch.zeros((), dtype=torch.int64, device=device),
            rows=model.target_positions(0, longest + 1),
        )
        self.beam = self._empty(device)
        self.longest = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.going = torch.ones(sentences, dtype=torch.bool, device=device)
        self.not_end = torch.arange(len(model.output.weight), device=device) != END
        self.places = torch.arange(longest + 1, device=device)
        self.first_rows = torch.arange(sentences, device=device)[:, None] * width

    def _empty(self, device: torch.device) -> Beam:
        """A beam before its first token, with room for all."""
        seen = torch.zeros(len(self.state.ancestry), 0, device=device)
        beam = Beam.start(len(seen), self.settings.beam_size, 1, self.last, seen)
        return replace(beam, live=F.pad(beam.live, (0, self.last + 1), value=PAD))

    def begin(self, state: TransformerState, longest: Int[Tensor, "B"]) -> None:
        """Put other sentences in the place of what was there."""
        assert state.mask is not None
        assert self.state.mask is not None
        for own, other in zip(self.state.memory, state.memory, strict=True):
            own.keys.copy_(other.keys)
            own.values.copy_(other.values)
        self.state.mask.copy_(state.mask)
        self.state.ancestry.zero_()
        self.state.step.zero_()
        self._keep(self._empty(state.mask.device))
        self.longest.copy_(longest)
        self.going.fill_(True)

    def _keep(self, beam: Beam) -> None:
        for each in fields(Beam):
            getattr(self.beam, each.name).copy_(getattr(beam, each.name))

    def step(self) -> None:
        """One step of `beam_steps`, for all sentences; those that are done stay as they are."""
        settings, now, beam = self.settings, self.state.step, replace(self.beam)
        width = settings.beam_size
        tokens = beam.live.index_select(2, now[None]).view(-1, 1)
        features, _ = self.model.decode(tokens, self.state)
        log_p = next_log_p(self.model, features[:, -1]).unflatten(0, (-1, width))
        at_end = (now >= self.longest)[:, None, None]
        log_p = log_p.masked_fill(at_end & self.not_end, -torch.inf)
        log_p = log_p.masked_fill(~at_end & ~self.not_end & (now < self.least), -torch.inf)

        total, origin, token = top_k_extensions(log_p, beam.live_log_p, 2 * width)
        is_end = token == END
        prefixes = beam.live.gather(1, origin[:, :, None].expand(-1, -1, beam.live.size(2)))
        ending = total.masked_fill(~(is_end & self.going[:, None]), -torch.inf)[:, :width]
        ids = prefixes[:, :width, 1:].masked_fill(self.places > now, PAD).masked_fill(self.places == now, END)
        add_finished(beam, ids, ending, ending / normalizer(now + 1, settings))

        lives = is_end.to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        beam.live_log_p = total.masked_fill(is_end, -torch.inf).gather(1, lives)
        beam.live = prefixes.gather(1, lives[:, :, None].expand_as(beam.live))
        beam.live.index_copy_(2, now[None] + 1, token.gather(1, lives)[:, :, None])
        self._keep(beam)
        self.going &= ~is_done(beam, self.longest, settings)
        self.state.reorder((self.first_rows + origin.gather(1, lives)).flatten())
        now += 1


class GraphSearch:
    """Greedy and beam search for a transformer on a GPU. It changes no more of what is found than batches do."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self._made: dict[object, tuple[FixedShapeSearch, Callable[[], None]]] = {}
        self._lock = Lock()  # the buffers are one search's at a time

    @torch.no_grad()
    def search(self, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints) -> list[list[Hypothesis]]:
        """As `beam_search`; of the rules it knows `min_length` alone."""
        longest = max_target_lengths(self.model, source, settings, constraints.min_capacity)
        most = int(longest.max())
        room = rounded(most, self.model.longest_target and self.model.longest_target - 1)
        source = F.pad(source, (0, rounded(source.size(1), self.model.longest_source) - source.size(1)), value=PAD)
        state = self.model.encode(source)
        with self._lock:
            fixed, step = self._for(state, settings, constraints.min_capacity, room)
            fixed.begin(state, longest)
            for number in range(most + 1):
                step()
                if number % ASK_EVERY == ASK_EVERY - 1 and not fixed.going.any():
                    break
            if fixed.going.any():
                raise DragomanError(NON_FINITE)
            return hypotheses(fixed.beam, settings.n_best)

    def _for(
        self, state: TransformerState, settings: SearchSettings, least: int, longest: int
    ) -> tuple[FixedShapeSearch, Callable[[], None]]:
        """A search of these shapes, and what makes a step of it."""
        keys = state.memory[0].keys
        asked = keys.shape, settings, least, longest
        if asked in self._made:
            return self._made[asked]
        fixed = FixedShapeSearch(self.model, state, settings, least, longest)
        made = fixed, captured(fixed.step, keys.device) if keys.device.type == "cuda" else fixed.step
        if len(keys) * settings.beam_size <= FEW:
            if len(self._made) == KEPT:
                self._made.clear()
            self._made[asked] = made
        return made


def rounded(length: int, limit: int | None) -> int:
    """The next multiple of `ROUND`, within the limit of learnt positions."""
    up = length + -length % ROUND
    return up if limit is None else min(up, limit)


def captured(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step as a CUDA graph of a device. It is made twice here, once of them to no effect."""
    with torch.cuda.device(device):
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            step()  # libraries make what they need, which they must not while a graph is captured
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=beside, capture_error_mode="thread_local"):  # other threads may go on with what they do
            step()
    return graph.replay

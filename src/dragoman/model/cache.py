"""The decoder's state: keys and values of the source and of the target prefixes.

Shapes: B sentences, S source tokens, W hypotheses per sentence, L target tokens so far, C ≥ W · L cache
positions, Q = W · T queries of T more tokens each, N keys, D = d_model.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model.attention import KeysValues, causal_mask
from dragoman.model.interface import State
from dragoman.model.positions import Positions
from dragoman.system.errors import DragomanError

INITIAL_LENGTH = 16  # target tokens that a new cache holds; the cache doubles when it is full


@dataclass(frozen=True)
class TransformerState(State):
    """Keys and values of the sources and of the target prefixes, one pair per decoder layer.

    The W hypotheses of a sentence are W query positions of one row: they share the source's keys and values
    and append their own to one cache. Appended keys and values never move. `ancestry` says which of them
    belong to each hypothesis. `cache` is written in place and valid up to `length` tokens; it is empty in
    training, where all target tokens are given at once.
    """

    memory: list[KeysValues]
    mask: Bool[Tensor, "B 1 1 S"]
    """Where the source may be attended to."""
    ancestry: Bool[Tensor, "B W L W"]
    """[b, w, l, v]: whether token l of hypothesis w was appended by hypothesis v."""
    cache: list[KeysValues]
    length: int = 0
    encoder_output: Float[Tensor, "B S D"] | None = None
    """Kept until the first `allocate` or `select`."""

    @property
    def beams(self) -> int:
        """W; it is 1 in training."""
        return self.ancestry.size(1)

    def allocate(self, beams: int, max_length: int) -> "TransformerState":
        empty = partial(empty_cache, positions=min(max_length, INITIAL_LENGTH) * beams)
        memory = [KeysValues(keys.contiguous(), values.contiguous()) for keys, values in self.memory]
        cache = [KeysValues(empty(keys), empty(values)) for keys, values in memory]
        ancestry = self.ancestry.new_empty(len(self.ancestry), beams, 0, beams)
        return replace(self, memory=memory, ancestry=ancestry, cache=cache, encoder_output=None)

    def positions(self, table: Positions, tokens: int) -> Float[Tensor, "T D"]:
        """The positional encodings of the next tokens."""
        return table(self.length, tokens)

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        """Append keys and values to a layer's cache; return all keys and values so far.

        Raises `DragomanError` for tokens one by one without the state that `allocate` returns.
        """
        if not self.cache:
            if self.length:
                raise DragomanError("Token by token, decode needs the state that State.allocate returns.")
            return new
        start = self.length * self.beams
        end = start + new.keys.size(2)
        if end > self.cache[layer].keys.size(2):
            self.cache[layer] = KeysValues(*(enlarged(part, end) for part in self.cache[layer]))
        cache = self.cache[layer]
        cache.keys[:, :, start:end], cache.values[:, :, start:end] = new
        return KeysValues(cache.keys[:, :, :end], cache.values[:, :, :end])

    def advance(self, tokens: int) -> tuple["TransformerState", Bool[Tensor, "B 1 Q N"] | None]:
        """The state after `tokens` more tokens of each hypothesis, and the mask of these tokens.

        They attend to themselves and to their ancestors.

        In training the mask is None: self-attention is causal.
        """
        if not self.cache:
            return replace(self, length=self.length + tokens), None
        identity = torch.eye(self.beams, dtype=torch.bool, device=self.ancestry.device)[:, None].expand(
            len(self.ancestry), -1, tokens, -1
        )
        after = replace(self, ancestry=torch.cat([self.ancestry, identity], 2), length=self.length + tokens)
        causal = causal_mask(tokens, after.length, self.ancestry.device)[0, 0]
        mask = after.ancestry[:, None] & causal[:, None, :, None]
        return after, mask.flatten(3).flatten(1, 2)[:, None]

    def reorder(self, rows: Int[Tensor, "R"]) -> "TransformerState":
        ancestry = self.ancestry.flatten(0, 1).index_select(0, rows).view_as(self.ancestry)
        return replace(self, ancestry=ancestry)

    def select(self, sentences: Int[Tensor, "B2"]) -> "TransformerState":
        select = partial(selected, rows=sentences, length=self.length * self.beams)
        memory = [KeysValues(*(part.index_select(0, sentences) for part in layer)) for layer in self.memory]
        cache = [KeysValues(select(keys), select(values)) for keys, values in self.cache]
        mask, ancestry = (part.index_select(0, sentences) for part in (self.mask, self.ancestry))
        return replace(self, memory=memory, mask=mask, ancestry=ancestry, cache=cache, encoder_output=None)


def empty_cache(memory: Float[Tensor, "B H N K"], positions: int) -> Float[Tensor, "B H C K"]:
    """Room for the keys or values of `positions` target tokens, of the shape of the source's."""
    return memory.new_empty(*memory.shape[:2], positions, memory.size(3))


def selected(
    part: Float[Tensor, "B H C K"], rows: Int[Tensor, "B2"], length: int
) -> Float[Tensor, "B2 H C K"]:
    """The cache of these sentences. Only the first `length` positions are copied."""
    new = part.new_empty(len(rows), *part.shape[1:])
    new[:, :, :length] = part[:, :, :length].index_select(0, rows)
    return new


def enlarged(cache: Float[Tensor, "B H C K"], min_positions: int) -> Float[Tensor, "B H C2 K"]:
    """The cache with twice as many positions, and at least `min_positions`."""
    sentences, heads, positions, width = cache.shape
    new = cache.new_empty(sentences, heads, max(2 * positions, min_positions), width)
    new[:, :, :positions] = cache
    return new

"""Changes for a what-if: frozen dataclasses, and the texts that stand for them, such as `cross.2.3=off`.

Layers, heads and positions are counted from 1. This module imports no torch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dragoman.inspection.record.kinds import Kind
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError

Side = Literal["encoder", "decoder"]
Sublayer = Literal["self_attention", "cross_attention", "feed_forward"]

SETTINGS: dict[str, type[int] | type[float]] = {
    "beam_size": int,
    "length_penalty": float,
    "length_power": float,
    "max_extra_tokens": int,
    "max_length": int,
    "min_length": int,
    "no_repeat_ngram": int,
    "groups": int,
    "diversity": float,
    "temperature": float,
    "n_best": int,
    "sampling_seed": int,
}
"""The settings of a search that a change may replace."""

GRAMMAR = (
    "Write encoder.1.2=off, decoder.1.2=off or cross.1.2=off for a head (layer and head), =uniform for "
    "uniform attention, also of a whole layer (cross.1=uniform); decoder.1.feed_forward=off for a sub-layer "
    f"({', '.join(get_args(Sublayer))}); encoder.1=off for a layer; positions=off, positions.source=off or "
    "positions.target=off; source.3=TOKEN or target.3=TOKEN for a token; or a setting of the search "
    f"({', '.join(SETTINGS)}) as in beam_size=1."
)
Part = tuple[str | int, ...]


@dataclass(frozen=True)
class HeadOff:
    """A head contributes nothing: its part of Concat(head_1 … head_h) is 0."""

    use: Kind
    layer: int
    head: int

    @property
    def part(self) -> Part:
        """What it changes."""
        return (*attention_part(self.use, self.layer), self.head)

    def __str__(self) -> str:
        return f"{self.use}.{self.layer}.{self.head}=off"


@dataclass(frozen=True)
class UniformAttention:
    """Each query of a head gives all keys that it may attend to the same weight."""

    use: Kind
    layer: int
    head: int | None = None
    """None is every head of the layer."""

    @property
    def part(self) -> Part:
        """What it changes."""
        return attention_part(self.use, self.layer) + (() if self.head is None else (self.head,))

    def __str__(self) -> str:
        return f"{self.use}.{self.layer}{'' if self.head is None else f'.{self.head}'}=uniform"


@dataclass(frozen=True)
class SublayerOff:
    """A sub-layer adds nothing to the residual stream."""

    side: Side
    layer: int
    sublayer: Sublayer

    @property
    def part(self) -> Part:
        """What it changes."""
        return self.side, self.layer, self.sublayer

    def __str__(self) -> str:
        return f"{self.side}.{self.layer}.{self.sublayer}=off"


@dataclass(frozen=True)
class LayerOff:
    """A layer returns its input."""

    side: Side
    layer: int

    @property
    def part(self) -> Part:
        """What it changes."""
        return self.side, self.layer

    def __str__(self) -> str:
        return f"{self.side}.{self.layer}=off"


@dataclass(frozen=True)
class PositionsOff:
    """No positional encoding is added to the embeddings of a side."""

    side: Literal["source", "target"] | None = None
    """None is both sides."""

    @property
    def part(self) -> Part:
        """What it changes."""
        return ("positions",) if self.side is None else ("positions", self.side)

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.part))}=off"


@dataclass(frozen=True)
class SourceToken:
    """The model reads this token of its vocabulary at a position of the source."""

    position: int
    token: str

    @property
    def part(self) -> Part:
        """What it changes."""
        return "source", self.position

    def __str__(self) -> str:
        return f"source.{self.position}={self.token}"


@dataclass(frozen=True)
class TargetToken:
    """Every translation has this token at a position.

    Tokens before the last forced one are forced too: to those of the translation without changes.
    """

    position: int
    token: str

    @property
    def part(self) -> Part:
        """What it changes."""
        return "target", self.position

    def __str__(self) -> str:
        return f"target.{self.position}={self.token}"


@dataclass(frozen=True)
class SearchSetting:
    """A setting of the search has another value."""

    name: str
    value: float
    """An `int` for a setting that is a whole number."""

    @property
    def part(self) -> Part:
        """What it changes."""
        return ("search", self.name)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


Intervention = HeadOff | UniformAttention | SublayerOff | LayerOff | PositionsOff
"""A change of the model's computation."""
Change = Intervention | SourceToken | TargetToken | SearchSetting


def attention_part(use: Kind, layer: int) -> Part:
    """The attention of a layer as a part of the model."""
    return ("decoder", layer, "cross_attention") if use == "cross" else (use, layer, "self_attention")


def parse_changes(texts: Sequence[str]) -> list[Change]:
    """The changes that texts stand for.

    Raises `DragomanError` for a text that stands for none, and for changes that contradict each other.
    """
    changes = [parse_change(text) for text in texts]
    refuse_contradictions(changes)
    return changes


def parse_change(text: str) -> Change:
    """The change that a text stands for. Raises `DragomanError` if there is none."""
    name, _, value = text.partition("=")
    words = [int(word) if re.fullmatch("[1-9][0-9]{0,5}", word) else word for word in name.split(".")]
    change: Change
    match [*words, value]:
        case ["encoder" | "decoder" | "cross" as use, int(layer), int(head), "off"]:
            change = HeadOff(use, layer, head)
        case ["encoder" | "decoder" | "cross" as use, int(layer), int(head), "uniform"]:
            change = UniformAttention(use, layer, head)
        case ["encoder" | "decoder" | "cross" as use, int(layer), "uniform"]:
            change = UniformAttention(use, layer)
        case ["encoder" | "decoder" as side, int(layer), "self_attention" | "feed_forward" as part, "off"]:
            change = SublayerOff(side, layer, part)
        case ["decoder", int(layer), "cross_attention", "off"]:
            change = SublayerOff("decoder", layer, "cross_attention")
        case ["encoder" | "decoder" as side, int(layer), "off"]:
            change = LayerOff(side, layer)
        case ["positions", "off"]:
            change = PositionsOff()
        case ["positions", "source" | "target" as side, "off"]:
            change = PositionsOff(side)
        case ["source", int(position), token] if token:
            change = SourceToken(position, str(token))
        case ["target", int(position), token] if token:
            change = TargetToken(position, str(token))
        case [str(setting), _] if setting in SETTINGS:
            change = SearchSetting(setting, parse_value(setting, value))
        case _:
            raise DragomanError(f"{text!r} is not a change. {GRAMMAR}")
    return change


def parse_value(name: str, text: str) -> float:
    """The value of a setting. Raises `DragomanError` for a text that is no number of its kind."""
    try:
        return SETTINGS[name](text)
    except ValueError as error:
        expected = "a whole number" if SETTINGS[name] is int else "a number"
        raise DragomanError(f"{name} is {text!r}; it has to be {expected}.") from error


def refuse_contradictions(changes: Sequence[Change]) -> None:
    """Raise `DragomanError` if two changes are of the same part, or one is of a part of the other's."""
    seen: dict[tuple[Any, ...], Change] = {}
    for change in sorted(changes, key=lambda change: len(change.part)):
        for length in range(1, len(change.part) + 1):
            if (other := seen.get(change.part[:length])) is not None:
                raise DragomanError(f"{other} and {change} change the same part; leave one of them out.")
        seen[change.part] = change


def changed_settings(settings: SearchSettings, changes: Sequence[Change]) -> SearchSettings:
    """The settings of the search with those that the changes replace. Raises `DragomanError` as they do."""
    values = {change.name: change.value for change in changes if isinstance(change, SearchSetting)}
    changed = replace(settings, **values)  # type: ignore[arg-type]
    changed.refuse_contradictions(values)
    return changed

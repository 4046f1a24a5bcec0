"""Where neurons are most active, over many texts.

The activations of a batch are dropped after it. What stays are the texts, their translations, and for each
neuron its strongest tokens and sums (`neuron_activity.py`); the activations of the texts that are shown are
computed again.

Shapes: P tokens of a side, F = d_ff.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dragoman.inspection.analyse.ablation import Pair, translated_pairs
from dragoman.inspection.analyse.neuron_activity import Activity, Place, hidden_units, layers_with
from dragoman.inspection.record.inspected import is_blank, one_model
from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.neurons import SIDES, Side, most_active
from dragoman.inspection.record.record import Array
from dragoman.inspection.record.recording import as_array
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, NonFiniteError
from dragoman.translation.analysis import NumberedPair, forced_batches
from dragoman.translation.translator import Translator

SAMPLES = 10  # strongest tokens of a neuron
OF_EACH_LAYER, OF_ONE_LAYER = 3, 10  # most active neurons of a layer that are shown
LINES = 128  # that are translated at once
BATCH_TOKENS = 1_000


@dataclass(frozen=True)
class NeuronSample:
    """A token at which a neuron is active, in its text."""

    line: int
    """The number of the text's line in the file, counted from 1."""
    token: int
    """The place of the token in the text, counted from 1."""
    tokens: tuple[str, ...]
    """All P tokens of the text, END last: of the line, or of its translation."""
    activations: Array
    """Of the neuron, at these tokens [P]."""


@dataclass(frozen=True)
class SampledNeuron:
    """A neuron, and the tokens at which it is most active."""

    neuron: int
    """Its number in the layer, counted from 1."""
    samples: tuple[NeuronSample, ...]
    """The greatest absolute activation first, of equal ones the first token of the file; none of 0."""


@dataclass(frozen=True)
class SampledLayer:
    """The neurons of a layer, over all tokens of a side."""

    side: Side
    layer: int
    """Counted from 1."""
    active: Array
    """The share of tokens at which a neuron's activation is greater than 0 [F]."""
    greatest: Array
    """A neuron's greatest activation [F]."""
    mean: Array
    """A neuron's mean activation [F]."""
    neurons: tuple[SampledNeuron, ...]
    """The neuron that was asked for, or the most active ones, most active first."""


@dataclass(frozen=True)
class NeuronSamples:
    """Where neurons are most active, over the lines of a file."""

    lines: int
    """Lines that are not blank."""
    tokens: dict[Side, int]
    """The number of tokens of all lines, and of their translations, END included."""
    activation: str
    """The activation function of the feed-forward sub-layers."""
    layers: tuple[SampledLayer, ...]
    """The encoder's first."""


def neuron_samples(
    translator: Translator,
    lines: Sequence[str],
    settings: SearchSettings,
    kind: Kind | None = None,
    layer: int | None = None,
    neuron: int | None = None,
    samples: int = SAMPLES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int, int], None] = lambda done, lines: None,  # noqa: ARG005
) -> NeuronSamples:
    """The strongest tokens of the most active neurons of each layer, of a layer, or of one neuron.

    Those of the encoder are among the tokens of the lines; those of the decoder among the positions that
    predict the tokens of the lines' translations, by forced decoding. `kind` is the side, by default both;
    `layer` and `neuron` are counted from 1. Blank lines are left out. `progress` gets the number of lines
    that are done and that of all.

    Raises `DragomanError` if the model has no feed-forward sub-layers or no such layer or neuron, if all
    lines are blank, for an ensemble, and as `Translator.n_best`.
    """
    model = one_model(translator)
    widths = layers_with(model, kind, layer, neuron)
    numbers = [number for number, line in enumerate(lines, 1) if not is_blank(translator, line)]
    if not numbers:
        raise DragomanError("All lines of the file are blank: no neuron is active at them.")
    activity = {place: Activity(width, samples) for place, width in widths.items()}
    texts = Texts(translator, batch_tokens, list(activity))
    for first in range(0, len(numbers), LINES):
        chunk = [lines[number - 1] for number in numbers[first : first + LINES]]
        for place, hidden, positions in texts.add(with_translations(translator, chunk, settings, texts)):
            activity[place].add(hidden, positions)
        progress(len(texts.pairs), len(numbers))
    if not all(layer_activity.total.isfinite().all() for layer_activity in activity.values()):
        raise NonFiniteError
    count = OF_EACH_LAYER if layer is None else OF_ONE_LAYER
    chosen = {
        place: most_active(layer_activity.magnitudes, count).tolist() if neuron is None else [neuron - 1]
        for place, layer_activity in activity.items()
    }
    tokens = {place[0]: layer_activity.tokens for place, layer_activity in activity.items()}
    layers = sampled_layers(texts, numbers, activity, chosen)
    return NeuronSamples(len(numbers), tokens, model.settings.activation, layers)


def with_translations(
    translator: Translator, lines: Sequence[str], settings: SearchSettings, texts: "Texts"
) -> list[Pair]:
    """The lines with their translations; with empty ones for the encoder alone."""
    if not texts.has_target:
        return [(line, "") for line in lines]
    return translated_pairs(translator, lines, settings)


def sampled_layers(
    texts: "Texts", numbers: Sequence[int], activity: dict[Place, Activity], chosen: dict[Place, list[int]]
) -> tuple[SampledLayer, ...]:
    """The layers with the samples of the chosen neurons. `numbers` are the numbers of the texts' lines."""
    strongest = {
        place: [
            [texts.token_at(place[0], position) for position in activity[place].strongest(unit)]
            for unit in units
        ]
        for place, units in chosen.items()
    }
    needed = {
        place: {text for positions in lists for text, _ in positions} for place, lists in strongest.items()
    }
    contexts = texts.contexts(needed, chosen)
    layers = []
    for place, units in chosen.items():
        neurons = []
        for column, (unit, positions) in enumerate(zip(units, strongest[place], strict=True)):
            samples = [
                NeuronSample(
                    numbers[text], token + 1, contexts[place, text][0], contexts[place, text][1][:, column]
                )
                for text, token in positions
            ]
            neurons.append(SampledNeuron(unit + 1, tuple(samples)))
        known = activity[place]
        active, mean = as_array(known.active / known.tokens), as_array(known.total / known.tokens)
        layers.append(SampledLayer(*place, active, as_array(known.greatest), mean, tuple(neurons)))
    return tuple(layers)


@dataclass
class Texts:
    """The texts so far, numbered from 0, and the positions of their tokens among all tokens of a side."""

    translator: Translator
    batch_tokens: int
    places: list[Place]
    pairs: list[Pair] = field(default_factory=list)
    starts: dict[Side, list[int]] = field(default_factory=lambda: {side: [0] for side in SIDES})
    """Of each text the position of its first token, and the position after the last text."""

    @property
    def has_target(self) -> bool:
        """Whether the decoder is asked for."""
        return any(side == "decoder" for side, _ in self.places)

    def add(self, pairs: Sequence[Pair]) -> Iterator[tuple[Place, Tensor, Tensor]]:
        """Append texts. Yields, by batch and layer, the activations and positions of their tokens [N F] [N].

        Padding is left out.
        """
        batches = list(forced_batches(self.translator, pairs, self.batch_tokens))
        first = len(self.pairs)
        self.pairs += pairs
        for pair in sorted((pair for batch, _, _ in batches for pair in batch), key=lambda pair: pair[0]):
            for side, starts in self.starts.items():
                starts.append(starts[-1] + len(ids_of(pair, side)))
        for batch, source, target in batches:
            hidden = hidden_units(one_model(self.translator), source, target, self.places)
            for place, units in hidden.items():
                rows, positions = [], []
                for row, pair in zip(units, batch, strict=True):
                    start, length = self.starts[place[0]][first + pair[0]], len(ids_of(pair, place[0]))
                    rows.append(row[:length])
                    positions.append(torch.arange(start, start + length))
                yield place, torch.cat(rows), torch.cat(positions)

    def token_at(self, side: Side, position: int) -> tuple[int, int]:
        """The number of the text that has the token with this position, and the token's place, from 0."""
        text = bisect_right(self.starts[side], position) - 1
        return text, position - self.starts[side][text]

    def contexts(
        self, needed: dict[Place, set[int]], chosen: dict[Place, list[int]]
    ) -> dict[tuple[Place, int], tuple[tuple[str, ...], Array]]:
        """By layer and text: the text's P tokens, and the activations of the layer's chosen neurons at them
        [P, chosen].
        """
        numbers = sorted(set().union(*needed.values()))
        tokenizers = {
            "encoder": self.translator.tokenizers.source,
            "decoder": self.translator.tokenizers.target,
        }
        contexts = {}
        pairs = [self.pairs[number] for number in numbers]
        for batch, source, target in forced_batches(self.translator, pairs, self.batch_tokens):
            hidden = hidden_units(one_model(self.translator), source, target, self.places)
            for place, units in hidden.items():
                for row, pair in zip(units, batch, strict=True):
                    text, ids = numbers[pair[0]], ids_of(pair, place[0])
                    if text in needed[place]:
                        activations = as_array(row[: len(ids), chosen[place]])
                        contexts[place, text] = tuple(tokenizers[place[0]].pieces(ids)), activations
        return contexts


def ids_of(pair: NumberedPair, side: Side) -> list[int]:
    """The ids of a side of a pair."""
    return pair[1] if side == "encoder" else pair[2]


# ---- the data


def neuron_samples_json(samples: NeuronSamples) -> dict[str, Any]:
    """The samples as a table of texts and numbers, documented in docs/inspection.md."""
    table: dict[str, Any] = {"version": 1, "lines": samples.lines, "activation": samples.activation}
    for side in SIDES:
        layers = [layer_json(layer) for layer in samples.layers if layer.side == side]
        table[side] = {"tokens": samples.tokens[side], "layers": layers} if layers else None
    return table


def layer_json(layer: SampledLayer) -> dict[str, Any]:
    """A layer: numbers of all neurons, and the samples of the chosen ones."""
    numbers = {"active": layer.active, "greatest": layer.greatest, "mean": layer.mean}
    neurons = [
        {"neuron": neuron.neuron, "samples": [sample_json(sample) for sample in neuron.samples]}
        for neuron in layer.neurons
    ]
    table = {name: decimals(array) for name, array in numbers.items()}
    return {"layer": layer.layer, **table, "neurons": neurons}


def sample_json(sample: NeuronSample) -> dict[str, Any]:
    """A token in its text."""
    return {
        "line": sample.line,
        "token": sample.token,
        "tokens": [*sample.tokens],
        "activations": decimals(sample.activations),
    }


def decimals(numbers: Array) -> list[float]:
    """Numbers with four decimals."""
    return [round(number, 4) for number in numbers.tolist()]

"""What the figures need beyond an inspection: inputs and outputs of modules in the call that translates.

Shapes: S source and T target tokens, L encoder and N decoder layers, H heads, K = d_k, Kv = d_v, D = d_model,
F = d_ff.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from dragoman.inspection.inspect import Search, inspect, one_transformer, recorded_search
from dragoman.inspection.inspection import Array, Inspection
from dragoman.inspection.neurons import SIDES
from dragoman.inspection.recording import as_array
from dragoman.model.transformer import EncoderLayer, Transformer
from dragoman.search.contradictions import refuse_more_than_a_search
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.analysis import source_and_constraints
from dragoman.translation.translator import Translator

Calls = dict[str, list[tuple[Tensor, Tensor]]]


@contextmanager
def watched_calls(modules: Mapping[str, nn.Module]) -> Iterator[Calls]:
    """The input and the output of each call of these modules while the context is open, by name."""
    calls: Calls = {name: [] for name in modules}
    with ExitStack() as stack:
        for name, module in modules.items():

            def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, name: str = name) -> None:
                calls[name].append((inputs[0].detach(), output.detach()))

            stack.callback(module.register_forward_hook(hook).remove)
        yield calls


def watched_search(
    translator: Translator, sentence: str, settings: SearchSettings, modules: Mapping[str, nn.Module]
) -> tuple[Search, Inspection, Calls]:
    """Translate, and record the calls of these modules. Raises as `inspect`."""
    refuse_more_than_a_search(settings, "A figure needs a single search")
    source, constraints = source_and_constraints(translator, sentence, settings)
    with watched_calls(modules) as calls:
        search = recorded_search(translator, source, settings, constraints)
    return search, search.inspection(sentence, source[0].tolist()), calls


def encoder_layer_of(model: Transformer, layer: int) -> EncoderLayer:
    """A layer of the encoder, counted from 0."""
    found = model.encoder[layer]
    assert isinstance(found, EncoderLayer)
    return found


@dataclass(frozen=True)
class Normalisation:
    """The numbers that a layer normalisation of the encoder takes, and those that it gives."""

    inspection: Inspection
    taken: Array
    """[S D]."""
    given: Array
    """[S D]."""


def normalisation(
    translator: Translator, sentence: str, settings: SearchSettings, layer: int
) -> Normalisation:
    """The first normalisation of an encoder layer, counted from 0, while it translates.

    Raises `DragomanError` for a model without layer normalisation.
    """
    model = one_transformer(translator)
    if model.settings.norm not in ("post", "pre"):
        raise DragomanError(
            f"The figure is of layer normalisation, and this model has norm = {model.settings.norm}."
        )
    norm = encoder_layer_of(model, layer).self_attention_residual.norm
    _, inspection, calls = watched_search(translator, sentence, settings, {"norm": norm})
    ((taken, given),) = calls["norm"]
    return Normalisation(inspection, as_array(taken[0]), as_array(given[0]))


@dataclass(frozen=True)
class HiddenUnits:
    """The share of the feed-forward network's hidden units that are exactly 0."""

    inspection: Inspection
    encoder: Array
    """[L S]."""
    decoder: Array
    """[N T]."""


def hidden_units(translator: Translator, sentence: str, settings: SearchSettings) -> HiddenUnits:
    """Count the zeros among the numbers that W_2 multiplies (equation 2), while the model translates."""
    one_transformer(translator)
    inspection = inspect(translator, sentence, settings)
    assert inspection.neurons is not None
    shares = [(inspection.neurons.of(side) == 0).mean(-1, dtype=np.float32) for side in SIDES]
    return HiddenUnits(inspection, *shares)

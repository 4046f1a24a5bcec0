"""What the figures need beyond an inspection: inputs and outputs of modules in the call that translates.

Shapes: S source and T target tokens, L encoder and N decoder layers, H heads, K = d_k, Kv = d_v, D = d_model,
F = d_ff.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from dragoman.inspection.inspect import inspect, inspect_ids
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.neurons import SIDES
from dragoman.inspection.record.record import Array
from dragoman.inspection.record.recording import as_array
from dragoman.search.contradictions import refuse_more_than_a_search
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.analysis import source_and_constraints
from dragoman.translation.translator import Translator


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
    refuse_more_than_a_search(settings, "A figure needs a single search")
    source, constraints = source_and_constraints(translator, sentence, settings)
    calls: list[tuple[Tensor, Tensor]] = []

    def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((inputs[0].detach(), output.detach()))

    norm = model.encoder[layer].get_submodule("self_attention_residual.norm")
    with norm.register_forward_hook(hook):
        inspection = inspect_ids(translator, sentence, source, settings, constraints)
    ((norm_input, norm_output),) = calls
    return Normalisation(inspection, as_array(norm_input[0]), as_array(norm_output[0]))


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

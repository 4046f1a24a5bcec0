"""An inspection as JSON, documented in docs/inspection-data.md: texts as they are, arrays in base64."""

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.inspection.analyse.statistics import Table, clearest_head, head_alignments, statistics
from dragoman.inspection.analyse.steps import scores
from dragoman.inspection.analyse.summaries import (
    decisions,
    mean_norms,
    mean_shares,
    products_by_distance,
    wavelengths,
)
from dragoman.inspection.contents import Contents, contents, overview
from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.masks import PADDING, Masks
from dragoman.inspection.record.neighbours import Neighbours
from dragoman.inspection.record.neurons import SIDES, Neurons, at, most_active, most_active_of_layer
from dragoman.inspection.record.projected import Numbers, Projected, Projections
from dragoman.inspection.record.record import Array, Record, TokenProbability
from dragoman.inspection.record.words import merged, words_are_tokens, words_of, words_of_kind
from dragoman.inspection.views.described import descriptions
from dragoman.inspection.views.labels import SUBLAYERS
from dragoman.system.toml import to_table

VERSION = 2
"""Of the schema. It changes when a reader of the former one would fail."""
MAX_ACTIVE = 8  # neurons of each layer and token


def to_json(inspection: Record, included: Contents | None = None) -> dict[str, Any]:
    """The inspection as a table of texts, numbers and encoded arrays; no number in it is NaN or infinite.

    `included` is what it has of attention, by default all.
    """
    stream, included = inspection.stream, included or contents(inspection)
    tables = statistics(inspection)
    parts = SUBLAYERS.get(inspection.model.architecture, ((), ()))
    table = {
        "version": VERSION,
        "origin": None if inspection.origin is None else asdict(inspection.origin),
        "sentence": inspection.sentence,
        **search_json(inspection),
        "model": to_table(inspection.model),
        "attention": {
            kind: {
                **attention_json(inspection, kind, included),
                "clearest": clearest_json(inspection, tables[kind], kind, included),
            }
            for kind in KINDS
        },
        "statistics": {
            kind: {name: table.round(4).tolist() for name, table in tables[kind].items()} for kind in KINDS
        },
        "projections": projections_json(inspection.projections, included),
        "masks": masks_json(inspection.masks),
        "alignment": inspection.alignment,
        "head_alignment": [
            [[(best, word) for word, best in links.items()] for links in layer]
            for layer in head_alignments(inspection)
        ],
        "stream": {name: array_json(array) for name, array in vars(stream).items()},
        "sublayers": {
            "encoder": sublayers_json(parts[0], stream.encoder, stream.encoder_sublayers),
            "decoder": sublayers_json(parts[1], stream.decoder, stream.decoder_sublayers),
        },
        "lens": [[tokens_json(tokens) for tokens in layer] for layer in inspection.lens],
        "decisions": decisions(inspection),
        "positions": array_json(inspection.positions),
        "wavelengths": wavelengths_json(inspection),
        "distances": products_by_distance(inspection.positions).round(4).tolist(),
        "modules": [asdict(module) for module in inspection.modules],
        "parameters": sum(module.parameters for module in inspection.modules),
        "neighbours": [neighbours_json(matrix) for matrix in inspection.neighbours],
        "neurons": neurons_json(inspection.neurons, included.neurons),
        "head_effects": effects_json(inspection),
        "attribution": attribution_json(inspection),
        "value_zeroing": inspection.value_zeroing
        and {kind: array_json(inspection.value_zeroing.of(kind)) for kind in KINDS},
        "views": descriptions(inspection),
        "training": None if inspection.training is None else asdict(inspection.training),
        "what_if": [
            {"changes": list(map(str, case.changes)), **search_json(case.after)}
            for case in inspection.what_ifs
        ],
    }
    return {key: finite(value) for key, value in table.items()}


def search_json(inspection: Record) -> dict[str, Any]:
    """The translation, and the search that found it."""
    return {
        "translation": inspection.translation,
        "log_probability": inspection.log_probability,
        "score": inspection.score,
        "search": to_table(inspection.search) | {"max_extra_tokens": inspection.search.extra_tokens},
        "source": side_json(inspection.source, inspection.source_words, inspection.source_ids),
        "target": side_json(inspection.target, inspection.target_words, inspection.target_ids),
        "beam": {
            "nodes": [asdict(node) for node in inspection.nodes],
            "best_path": inspection.best_path,
            "candidates": tables_json(inspection.candidates),
            "drawn": tables_json(inspection.drawn),
            "met": [asdict(entry) for entry in inspection.met],
        },
    }


def side_json(tokens: tuple[str, ...], words: tuple[int, ...], ids: tuple[int, ...]) -> dict[str, Any]:
    """Tokens, their numbers, the number of each token's word, and the text of each word by its number."""
    return {"tokens": tokens, "ids": ids, "words": words, "names": words_of(tokens, words)}


def tables_json(tables: dict[int, tuple[TokenProbability, ...]]) -> dict[str, list[tuple[str, float]]]:
    """Tokens of nodes, by the nodes' numbers."""
    return {str(number): tokens_json(tokens) for number, tokens in tables.items()}


def attention_json(inspection: Record, kind: Kind, included: Contents) -> dict[str, Any]:
    """The weights of the layers and heads that are held, with small maps of all heads if some are not.

    `words` are the weights between words: None if each token is one, absent if they are not held. `mean` is
    the mean of all heads of the decoder's layers that are held, for the decoding steps.
    """
    weights, layers, heads = (
        inspection.attention.of(kind),
        included.weights.layers[kind],
        included.weights.heads,
    )
    part = weights[np.ix_(layers, heads)]
    small = {} if part.shape == weights.shape else {"overview": array_json(overview(weights))}
    table = {"layers": numbers_from_1(layers), "heads": numbers_from_1(heads), **array_json(part), **small}
    if kind == "decoder":
        table["mean"] = array_json(weights[layers].mean(1))
    if words_are_tokens(inspection, kind):
        return {**table, "words": None}
    if not included.words:
        return table
    return {**table, "words": shares_json(merged(part, *words_of_kind(inspection, kind)))}


def clearest_json(
    inspection: Record, tables: dict[str, Table], kind: Kind, included: Contents
) -> dict[str, int] | None:
    """The head with which the view of attention begins, of those that are held; None if there are none."""
    held = included.weights if inspection.projections is None else included.projections
    if not held.layers[kind]:
        return None
    layer, head = clearest_head(tables, held.layers[kind], held.heads)
    return {"layer": layer + 1, "head": head + 1}


def sublayers_json(names: Sequence[str], norms: Array, sublayers: Array) -> dict[str, Any]:
    """The names of a side's sub-layers; means over positions of a layer's input and of what they add."""
    return {
        "names": names,
        "norms": mean_norms(norms, sublayers).round(4).tolist(),
        "shares": mean_shares(norms, sublayers).round(4).tolist(),
    }


def projections_json(projections: Projections | None, included: Contents) -> dict[str, Any]:
    """By kind of attention, what equation 1 was computed from, for the layers and heads that are held."""
    if projections is None:
        return {}
    layers, heads = included.projections.layers, included.projections.heads
    return {
        kind: {
            "layers": numbers_from_1(layers[kind]),
            "heads": numbers_from_1(heads),
            **projected_json(projections.of(kind).held(layers[kind], heads)),
        }
        for kind in KINDS
    }


def projected_json(projected: Projected) -> dict[str, Any]:
    """Queries, keys, values, mask and outputs, and the scores q · k, which are to be divided by √d_k."""
    arrays = {**vars(projected), "scores": scores(projected)[0].numpy()}
    return {name: array_json(array) for name, array in arrays.items()}


def masks_json(masks: Masks | None) -> dict[str, Any] | None:
    """The masks, with the number of rows and columns of padding that end them."""
    if masks is None:
        return None
    return {"padding": PADDING, **{name: bits_json(mask) for name, mask in vars(masks).items()}}


def bits_json(mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """A mask: its shape, and a bit for each cell, row-major, the highest of a byte first, in base64."""
    return {"shape": mask.shape, "bits": base64.b64encode(np.packbits(mask).tobytes()).decode("ascii")}


def neurons_json(neurons: Neurons | None, count: int | None) -> dict[str, Any] | None:
    """By side, the most active neurons at each token, and the activations at all tokens of those that are
    held: the most active ones of each layer.
    """
    if neurons is None:
        return None
    return {side: side_neurons_json(neurons.of(side), count) for side in SIDES}


def side_neurons_json(activations: Numbers, count: int | None) -> dict[str, Any]:
    """Of a side [L P F]. Neurons are counted from 1."""
    at_tokens = most_active(activations, MAX_ACTIVE)  # [L P K]
    of_layers = most_active_of_layer(activations, count or activations.shape[2])  # [L M]
    values = np.stack([layer[:, units].T for layer, units in zip(activations, of_layers, strict=True)])
    return {
        "width": activations.shape[2],
        "zeros": (activations == 0).mean((1, 2)).round(4).tolist(),
        "active": {"neurons": (at_tokens + 1).tolist(), **array_json(at(activations, at_tokens))},
        "neurons": (of_layers + 1).tolist(),
        **array_json(values),  # [L M P]
    }


def effects_json(inspection: Record) -> dict[str, Any] | None:
    """The effect of each head in nats, [layer][head]; None if it was not asked for."""
    effects = inspection.head_effects
    if effects is None:
        return None
    tables: dict[str, Any] = {kind: getattr(effects, kind).round(4).tolist() for kind in KINDS}
    return {"log_probability": effects.log_probability, **tables}


def attribution_json(inspection: Record) -> dict[str, Any] | None:
    """The contributions of tokens by method [T C]; None if they were not asked for."""
    attribution = inspection.attribution
    if attribution is None:
        return None
    return {
        "tokens": [*attribution.source, *attribution.prefix],
        "log_probabilities": attribution.log_probabilities.round(4).tolist(),
        "baseline": attribution.baseline.round(4).tolist(),
        "other": [*attribution.other],
        "layer": attribution.layer,
        **{method: array_json(contributions) for method, contributions in attribution.contributions.items()},
        "layers": array_json(attribution.layers),
    }


def wavelengths_json(inspection: Record) -> list[float]:
    """The wavelength of each dimension of the position table; none without sinusoids."""
    rows, width = inspection.positions.shape
    return wavelengths(inspection.model.positions, width).round(2).tolist() if rows else []


def numbers_from_1(places: list[int]) -> list[int]:
    """The numbers of layers or heads with these places."""
    return [place + 1 for place in places]


def tokens_json(tokens: tuple[TokenProbability, ...]) -> list[tuple[str, float]]:
    """Tokens with their log-probabilities, likeliest first."""
    return [(token.token, round(token.log_probability, 4)) for token in tokens]


def neighbours_json(matrix: Neighbours) -> dict[str, Any]:
    """The parts that share a matrix, and pairs of a token and its nearest ones with their cosines."""
    tokens = [
        (token, [(other, round(cosine, 4)) for other, cosine in nearest]) for token, nearest in matrix.tokens
    ]
    return {"parts": matrix.parts, "tokens": tokens}


def array_json(array: Numbers | npt.NDArray[np.bool_]) -> dict[str, Any]:
    """An array: its shape, and its float16 numbers, little-endian in row-major order, in base64."""
    with np.errstate(over="ignore"):  # above 65,504 is infinity
        halves = array.astype("<f2")
    return {"shape": array.shape, "float16": base64.b64encode(halves.tobytes()).decode("ascii")}


def shares_json(shares: Array) -> dict[str, Any]:
    """Numbers from 0 to 1: their shape, and a byte each, a share of 255 in row-major order, in base64."""
    levels = np.rint(shares.clip(0, 1) * 255).astype(np.uint8)
    return {"shape": shares.shape, "uint8": base64.b64encode(levels.tobytes()).decode("ascii")}


def array_from_json(table: dict[str, Any]) -> Array:
    """The array that `array_json` has written, with the precision of float16."""
    numbers = np.frombuffer(base64.b64decode(table["float16"]), "<f2")
    return numbers.reshape(table["shape"]).astype(np.float32)


def finite(value: Any) -> Any:
    """The same value with None for numbers that JSON does not have: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

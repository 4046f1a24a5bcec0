"""An inspection as JSON, documented in docs/inspection.md: texts as they are, arrays in base64."""

import base64
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.inspection.inspection import Array, Inspection, TokenProbability
from dragoman.inspection.neighbours import Neighbours
from dragoman.system.toml import to_table

if TYPE_CHECKING:
    from dragoman.inspection.what_if import WhatIf

VERSION = 1
"""Of the schema. It changes when a reader of the former one would fail."""
CASE = ("translation", "log_probability", "score", "search", "source", "target", "beam")
"""What the table of a what-if has of an inspection's."""


def to_json(inspection: Inspection) -> dict[str, Any]:
    """The inspection as a table of texts, numbers and encoded arrays; no number in it is NaN or infinite."""
    attention, stream = inspection.attention, inspection.stream
    table = {
        "version": VERSION,
        "sentence": inspection.sentence,
        "translation": inspection.translation,
        "log_probability": inspection.log_probability,
        "score": inspection.score,
        "search": to_table(inspection.search),
        "model": to_table(inspection.model),
        "source": {"tokens": inspection.source, "words": inspection.source_words},
        "target": {"tokens": inspection.target, "words": inspection.target_words},
        "beam": {
            "nodes": [asdict(node) for node in inspection.nodes],
            "best_path": inspection.best_path,
            "candidates": {
                str(number): tokens_json(tokens) for number, tokens in inspection.candidates.items()
            },
            "drawn": {str(number): tokens_json(tokens) for number, tokens in inspection.drawn.items()},
            "met": [asdict(each) for each in inspection.met],
        },
        "attention": {
            "encoder": array_json(attention.encoder),
            "decoder": array_json(attention.decoder),
            "cross": array_json(attention.cross),
        },
        "alignment": inspection.alignment,
        "stream": {name: array_json(array) for name, array in vars(stream).items()},
        "lens": [[tokens_json(tokens) for tokens in layer] for layer in inspection.lens],
        "positions": array_json(inspection.positions),
        "modules": [asdict(module) for module in inspection.modules],
        "what_if": [case_json(each) for each in inspection.what_ifs],
        "neighbours": [neighbours_json(each) for each in inspection.neighbours],
        "training": None if inspection.training is None else asdict(inspection.training),
    }
    return {key: finite(value) for key, value in table.items()}


def case_json(case: "WhatIf") -> dict[str, Any]:
    """The changes of a what-if, and the translation and search with them."""
    table = to_json(case.after)
    return {"changes": list(map(str, case.changes))} | {key: table[key] for key in CASE}


def tokens_json(tokens: tuple[TokenProbability, ...]) -> list[tuple[str, float]]:
    """Tokens with their log-probabilities, likeliest first."""
    return [(each.token, round(each.log_probability, 4)) for each in tokens]


def neighbours_json(matrix: Neighbours) -> dict[str, Any]:
    """The parts that share a matrix, and pairs of a token and its nearest ones with their cosines."""
    tokens = [(token, [(other, round(cosine, 4)) for other, cosine in near]) for token, near in matrix.tokens]
    return {"parts": matrix.parts, "tokens": tokens}


def array_json(array: Array) -> dict[str, Any]:
    """An array: its shape, and its float16 numbers, little-endian in row-major order, in base64."""
    return {
        "shape": array.shape,
        "float16": base64.b64encode(array.astype("<f2").tobytes()).decode("ascii"),
    }


def array_from_json(table: dict[str, Any]) -> Array:
    """The array that `array_json` has written, with the precision of float16."""
    numbers = np.frombuffer(base64.b64decode(table["float16"]), "<f2")
    return numbers.reshape(table["shape"]).astype(np.float32)


def finite(value: Any) -> Any:
    """The same value with None for numbers that JSON has not: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Translation by the C++ decoder (beam_search.cpp), without torch. Oracle: search/beam.py."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_size_t, c_void_p, sizeof
from itertools import accumulate, chain, count
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from dragoman.model.settings import Activation, ModelSettings, Precision
from dragoman.model.sinusoids import Table, beyond, sinusoid_table
from dragoman.native.build import DECODER, check_size, load_library
from dragoman.native.engine import Engine, Hypotheses, Search, declare_engine
from dragoman.search.hypothesis import (
    NON_FINITE,
    Constraints,
    Hypothesis,
    length_normalization,
    max_target_length,
)
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.errors import DragomanError
from dragoman.system.files import Arrays

Array = npt.NDArray[Any]
PRECISIONS: list[Precision] = ["float32", "bfloat16", "int8"]  # by their numbers in gemm.h
LANES = 16  # the largest of simd.h
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)  # by their numbers in transformer.h


class TransformerSettings(Structure):
    """As in transformer.h."""

    _fields_ = [
        ("d_model", c_int32),
        ("d_ff", c_int32),
        ("heads", c_int32),
        ("d_k", c_int32),
        ("d_v", c_int32),
        ("encoder_layers", c_int32),
        ("decoder_layers", c_int32),
        ("precision", c_int32),
        ("pre_norm", c_int32),
        ("activation", c_int32),
        ("source_end", c_int32),
        ("embedding_scale", c_float),
        ("score_scale", c_float),
        ("norm_epsilon", c_float),
    ]


class Parameter(Structure):
    """As in transformer.h."""

    _fields_ = [("name", c_char_p), ("values", c_void_p), ("rows", c_int32), ("columns", c_int32)]


def declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions of beam_search.cpp. Raises `DragomanError` if structures differ in size."""
    check_size(lib.dragoman_sizeof_transformer_settings, TransformerSettings)
    check_size(lib.dragoman_sizeof_parameter, Parameter)
    lib.dragoman_load_model.restype = c_void_p
    lib.dragoman_load_model.argtypes = [
        POINTER(TransformerSettings),
        c_size_t,
        POINTER(Parameter),
        c_size_t,
        c_int32,
        c_char_p,
        c_size_t,
    ]
    lib.dragoman_free_model.restype = None
    lib.dragoman_free_model.argtypes = [c_void_p]
    declare_engine(lib)
    return lib  # dragoman_max_rows returns an int32, ctypes' default


class NativeDecoder:
    """A Transformer packed in one precision, with threads that translate."""

    def __init__(
        self,
        lib: ctypes.CDLL,
        settings: ModelSettings,
        weights: Arrays,
        precision: Precision,
        workers: int,
        shortlist: Shortlist | None = None,
    ) -> None:
        """`weights` has the parameters of `Transformer` by name.

        Raises `DragomanError` if one is missing, unknown or misshapen, and if memory does not suffice.
        """
        self.max_positions, self.shortlist = settings.longest, shortlist
        declare(lib)
        self.max_rows: int = lib.dragoman_max_rows()
        self._positions = [
            Positions(settings, weights.get(f"{side}_positions.table")) for side in ("source", "target")
        ]
        arrays = padded_parameters(settings, weights)
        # C++ does not copy them.
        self._embeddings = [array for name, array in arrays.items() if name.endswith("_embedding.weight")]
        self.source_vocabulary = len(arrays.get("source_embedding.weight", self._embeddings[0]))
        parameters = (Parameter * len(arrays))(*(parameter_of(name, array) for name, array in arrays.items()))
        error = ctypes.create_string_buffer(1000)
        model = lib.dragoman_load_model(
            transformer_settings(settings, precision),
            sizeof(TransformerSettings),
            parameters,
            sizeof(Parameter),
            len(parameters),
            error,
            len(error),
        )
        if not model:
            reason = error.value.decode() or "Memory does not suffice to pack this model for translation."
            raise DragomanError(reason)
        self._engine = Engine(lib, model, workers, self.max_rows)

    @classmethod
    def of(
        cls,
        settings: ModelSettings,
        weights: Arrays,
        precision: Precision,
        workers: int,
        shortlist: Shortlist | None = None,
    ) -> "NativeDecoder | None":
        """None if there is no C++ compiler."""
        lib = load_library(DECODER)
        return None if lib is None else cls(lib, settings, weights, precision, workers, shortlist)

    def search(
        self, sources: Sequence[list[int]], settings: SearchSettings, constraints: Constraints | None = None
    ) -> Hypotheses:
        """As `beam_search` without groups and coverage; no hypotheses for a source that is END alone.

        No sentence depends on another, to the last bit. With a shortlist, a prefix's tokens are on every
        sentence's list. Raises `MemoryError` if memory does not suffice, `DragomanError` if the model has
        non-finite weights or if min_length or the prefix is beyond its learned positions, `IndexError` for an
        unknown id. An interrupt ends the search after the current token.
        """
        future = self.submit(sources, settings, constraints)
        try:
            return future.result()
        finally:
            future.cancel()

    def submit(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints | None = None,
        progress: "Progress | None" = None,
        max_rows: int | None = None,
    ) -> Future[Hypotheses]:
        """Begin a `search`; its sentences join those of other searches. The future may be cancelled.

        `progress` then tells how far it is. A thread extends at most `max_rows` of its hypotheses at once,
        so that others find a place. Raises as `search`; a lack of memory and non-finite weights are
        exceptions of the future.
        """
        order = sorted((i for i, row in enumerate(sources) if len(row) > 1), key=lambda i: -len(sources[i]))
        hypotheses: Hypotheses = [[] for _ in sources]
        if not order:
            return completed(hypotheses)
        if (highest := max(map(max, sources))) >= self.source_vocabulary:
            raise IndexError(f"The source vocabulary has no id {highest}.")
        constraints = constraints or Constraints()
        arrays = self._arrays([sources[i] for i in order], settings, constraints)
        if progress is not None:
            arrays |= progress.arrays_for(order, arrays["max_lengths"])

        def read() -> Hypotheses:
            for i, n_best in zip(order, hypotheses_of(arrays), strict=True):
                hypotheses[i] = n_best
            return hypotheses

        return self._engine.submit(self._new_search(arrays, settings, constraints, max_rows), read)

    def _new_search(
        self,
        arrays: dict[str, Array],
        settings: SearchSettings,
        constraints: Constraints,
        max_rows: int | None,
    ) -> Search:
        max_length = int(arrays["max_lengths"].max())
        most = min(max_rows or self.max_rows, settings.batch_tokens // (max_length + 1))
        rows = max(settings.beam_size, most)
        limits = (
            constraints.min_length,
            min(constraints.no_repeat_ngram, max_length + 1),
            len(constraints.banned),
            len(constraints.prefix),
        )
        addresses = {name: address(array) for name, array in arrays.items()}
        sentences = len(arrays["max_lengths"])
        search = Search(sentences, settings.beam_size, settings.n_best, rows, *limits, **addresses)
        search.owners = self, arrays  # alive as long as C++ has the search
        return search

    def _arrays(
        self, sources: list[list[int]], settings: SearchSettings, constraints: Constraints
    ) -> dict[str, Array]:
        """The arrays that a search reads, and those that it writes."""
        n_best = settings.n_best
        max_lengths = [
            max_target_length(len(row), self.max_positions, settings, constraints.min_capacity)
            for row in sources
        ]
        capacities = [n_best * (length + 1) for length in max_lengths]
        shortlists = [np.empty(0, np.int32)]
        if self.shortlist is not None:
            shortlists = [
                np.union1d(self.shortlist.allowed(row), constraints.prefix).astype(np.int32)
                for row in sources
            ]
        return {
            "shortlist": np.concatenate(shortlists),
            "shortlist_offsets": int32_array(accumulate(map(len, shortlists), initial=0)),
            "source_ids": int32_array(chain(*sources)),
            "source_offsets": int32_array(accumulate(map(len, sources), initial=0)),
            "max_lengths": int32_array(max_lengths),
            "banned_ids": int32_array(chain(*constraints.banned)),
            "banned_offsets": int32_array(accumulate(map(len, constraints.banned), initial=0)),
            "prefix": int32_array(constraints.prefix),
            "source_positions": self._positions[0].first(max(map(len, sources))),
            "target_positions": self._positions[1].first(max(max_lengths) + 1),
            "length_normalization": length_normalization(
                np.arange(max(max_lengths) + 2, dtype=np.float32), settings
            ).astype(np.float32),
            "output_offsets": np.array([*accumulate(capacities, initial=0)][:-1], np.int64),
            "output_ids": np.empty(sum(capacities), np.int32),
            "lengths": np.empty((len(sources), n_best), np.int32),
            "log_probs": np.empty((len(sources), n_best), np.float32),
            "scores": np.empty((len(sources), n_best), np.float32),
        }


class Progress:
    """The first tokens that all hypotheses of a sentence share, while it is searched."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}
        self._arrays: dict[str, Array] = {}
        self._offsets: list[int] = []

    def arrays_for(self, order: Sequence[int], max_lengths: Array) -> dict[str, Array]:
        """The arrays that a search of the sentences with these numbers writes."""
        self._offsets = [*accumulate((max_lengths + 1).tolist(), initial=0)]
        self._arrays = {
            "stable_ids": np.zeros(self._offsets[-1], np.int32),
            "stable_lengths": np.zeros(len(order), np.int32),
        }
        self._ranks = {number: rank for rank, number in enumerate(order)}
        return self._arrays

    def ids(self, sentence: int) -> list[int]:
        """The tokens of a sentence that no later step changes; none before its search begins."""
        if (rank := self._ranks.get(sentence)) is None:
            return []
        first, length = self._offsets[rank], int(self._arrays["stable_lengths"][rank])
        ids: list[int] = self._arrays["stable_ids"][first : first + length].tolist()
        return ids


def completed(hypotheses: Hypotheses) -> Future[Hypotheses]:
    """The future of a search that has nothing to do."""
    future: Future[Hypotheses] = Future()
    future.set_result(hypotheses)
    return future


def hypotheses_of(arrays: Mapping[str, Array]) -> Iterator[list[Hypothesis]]:
    """The output of a search, by sentence. Raises `DragomanError` if the model has non-finite weights."""
    each = (
        arrays[name].tolist() for name in ("output_offsets", "max_lengths", "lengths", "log_probs", "scores")
    )
    for offset, max_length, lengths, log_probs, scores in zip(*each, strict=True):
        if lengths[0] < 0:
            raise DragomanError(NON_FINITE)
        yield [
            Hypothesis(arrays["output_ids"][first : first + length].tolist(), *log_prob_and_score)
            for first, length, *log_prob_and_score in zip(
                count(offset, max_length + 1), lengths, log_probs, scores, strict=False
            )
            if length >= 0
        ]


class Positions:
    """The rows of a position table as C++ reads them; sinusoids are computed on demand."""

    def __init__(self, settings: ModelSettings, learned: Table | None) -> None:
        self._settings, self._learned = settings, learned is not None
        self._table = (
            np.empty((0, settings.d_model), np.float32)
            if learned is None
            else np.ascontiguousarray(learned, np.float32)
        )

    def first(self, length: int) -> Table:
        """The first rows, at least so many. Raises `DragomanError` past the end of a learned table."""
        table = self._table  # other threads may extend it
        if length > len(table):
            if self._learned:
                raise beyond(length, len(table))
            start = self._settings.first_position
            table = sinusoid_table(
                start + max(256, 2 * length), self._settings.d_model, self._settings.positions
            )[start:]
            self._table = table
        return table


def address(array: Array) -> int | None:
    """The address of its elements; None, which is null, if it has none."""
    return int(array.__array_interface__["data"][0]) if array.size else None


def int32_array(numbers: Iterable[int]) -> Array:
    """An array of int32."""
    return np.fromiter(numbers, np.int32)


def transformer_settings(settings: ModelSettings, precision: Precision) -> TransformerSettings:
    """The settings as C++ reads them, with the padded widths of heads."""
    return TransformerSettings(
        d_model=settings.d_model,
        d_ff=settings.d_ff,
        heads=settings.heads,
        d_k=settings.key_width + -settings.key_width % LANES,
        d_v=settings.value_width + -settings.value_width % LANES,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        precision=PRECISIONS.index(precision),
        pre_norm=settings.norm == "pre",
        activation=ACTIVATIONS.index(settings.activation),
        source_end=settings.source_end,
        embedding_scale=settings.d_model**0.5 if settings.scale_embeddings else 1.0,
        score_scale=settings.key_width**-0.5,
        norm_epsilon=settings.norm_epsilon,
    )


def parameter_of(name: str, array: Array) -> Parameter:
    """A parameter as C++ reads it; a vector has one row. The array must outlive it."""
    return Parameter(name.encode(), address(array), *np.atleast_2d(array).shape)


def padded_parameters(settings: ModelSettings, weights: Mapping[str, Array]) -> dict[str, Array]:
    """All parameters but position tables, contiguous and in float32, with the heads of attention padded."""

    def padded(name: str, array: Array) -> Array:
        if ".query_key_value." in name:
            ends = [settings.heads * settings.key_width, 2 * settings.heads * settings.key_width]
            return np.concatenate([pad_heads(part, settings.heads) for part in np.split(array, ends)])
        return pad_heads(array.T, settings.heads).T if name.endswith("_attention.output.weight") else array

    return {
        name: np.ascontiguousarray(padded(name, array), np.float32)
        for name, array in weights.items()
        if not name.endswith("_positions.table")
    }


def pad_heads(rows: Array, heads: int) -> Array:
    """Rows of all heads, with zeros after those of each head up to a multiple of LANES."""
    each = rows.reshape(heads, -1, *rows.shape[1:])
    zeros = np.zeros((heads, -each.shape[1] % LANES, *rows.shape[1:]), np.float32)
    return np.concatenate([each, zeros], 1).reshape(-1, *rows.shape[1:])

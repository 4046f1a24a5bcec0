"""Translation by the C++ decoder (beam_search.cpp), without torch. Oracle: search/beam.py."""

import ctypes
import operator
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_size_t, c_void_p, sizeof
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, count
from typing import Any, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from dragoman.model.settings import Activation, ModelSettings, Precision
from dragoman.model.sinusoids import Table, longer_than_table, sinusoid_table
from dragoman.native.build import DECODER, check_size, load_library
from dragoman.native.engine import Hypotheses, Search, SearchEngine, check_status, declare_engine
from dragoman.search.hypothesis import (
    Constraints,
    Hypothesis,
    Phrase,
    Terms,
    grid_rows,
    length_normalization,
    max_target_length,
)
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.errors import DragomanError, NonFiniteError
from dragoman.system.files import Arrays

Array = npt.NDArray[Any]
Numbers: TypeAlias = "array[Any]"
"""What a search reads or writes. For few numbers, `array` is several times as fast as numpy."""
Result = TypeVar("Result")
PRECISIONS: list[Precision] = ["float32", "bfloat16", "int8"]  # by their numbers in gemm.h
LANES = 16  # the largest of simd.h
MAX_NORMALIZATIONS = 64  # tables of length penalties that are kept; a server's requests choose any penalty
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)  # by their numbers in transformer.h


class TransformerSettings(Structure):
    """As in transformer.h."""

    _fields_ = [
        ("d_model", c_int32),
        ("d_ff", c_int32),
        ("decoder_d_ff", c_int32),
        ("heads", c_int32),
        ("d_k", c_int32),
        ("d_v", c_int32),
        ("encoder_layers", c_int32),
        ("decoder_layers", c_int32),
        ("precision", c_int32),
        ("pre_norm", c_int32),
        ("activation", c_int32),
        ("source_end", c_int32),
        ("alignment_head", c_int32),
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

        Raises `DragomanError` if one is missing or unknown, and for a lack of memory. Their shapes are those
        of `weight_shapes`, as `StoredModel.load` checks.
        """
        self.max_positions, self.shortlist = settings.longest, shortlist
        declare(lib)
        self.max_rows: int = lib.dragoman_max_rows()
        self._positions = [
            Positions(settings, weights.get(f"{side}_positions.table")) for side in ("source", "target")
        ]
        self._normalizations: dict[tuple[float, float | None], Numbers] = {}
        arrays = padded_parameters(settings, weights)
        # C++ does not copy them.
        self._embeddings = [array for name, array in arrays.items() if name.endswith("_embedding.weight")]
        self.source_vocabulary = len(arrays.get("source_embedding.weight", self._embeddings[0]))
        self.target_vocabulary = len(arrays["target_embedding.weight"])
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
            reason = error.value.decode() or "There is not enough memory to pack this model for translation."
            raise DragomanError(reason)
        self._engine = SearchEngine(lib, model, workers, self.max_rows)

    @classmethod
    def of(
        cls,
        settings: ModelSettings,
        weights: Arrays,
        precision: Precision,
        workers: int,
        shortlist: Shortlist | None = None,
    ) -> "NativeDecoder | None":
        """Make a decoder; None if there is no C++ compiler."""
        lib = load_library(DECODER)
        return None if lib is None else cls(lib, settings, weights, precision, workers, shortlist)

    def set_nice(self, nice: int) -> None:
        """As `SearchEngine.set_nice`."""
        self._engine.set_nice(nice)

    def search(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints | None = None,
        terms: Terms = (),
    ) -> Hypotheses:
        """As `beam_search` without groups and coverage; no hypotheses for a source that is END alone.

        A source with forced phrases, those of `constraints` or of its `terms`, is searched as by
        `grid_beam_search`. No sentence depends on another, to the last bit. With a shortlist, the tokens of a
        prefix and of forced phrases are on a sentence's list. Raises `MemoryError` for a lack of memory,
        `DragomanError` if the model has non-finite weights or if min_length, the prefix or the phrases are
        beyond its learned positions, `IndexError` for an
        unknown id. An interrupt ends the search after the current token.
        """
        future = self.submit(sources, settings, constraints, terms=terms)
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
        finish: Callable[[Callable[[], Hypotheses]], Any] = operator.call,
        terms: Terms = (),
    ) -> Future[Any]:
        """Begin a `search`; its sentences join those of other searches. The future may be cancelled.

        `progress` tells how far the search is. A thread extends at most `max_rows` of its hypotheses at once,
        so that others find a place. `finish` makes the result from a function that returns the hypotheses,
        or raises `MemoryError` or `DragomanError`; without it the hypotheses are the result. Raises the other
        errors of `search`.
        """
        order = sorted((i for i, row in enumerate(sources) if len(row) > 1), key=lambda i: -len(sources[i]))
        hypotheses: Hypotheses = [[] for _ in sources]
        if not order:
            return completed(finish(lambda: hypotheses))
        lowest, highest = min(min(sources[i]) for i in order), max(max(sources[i]) for i in order)
        if lowest < 0 or highest >= self.source_vocabulary:
            raise IndexError(f"The source vocabulary has no id {lowest if lowest < 0 else highest}.")
        constraints = constraints or Constraints()
        forced = [[*constraints.forced, *(terms[i] if terms else ())] for i in order]
        arrays = self._arrays([sources[i] for i in order], settings, constraints, forced)
        if progress is not None:
            arrays |= progress.arrays_for(order, arrays["max_lengths"])
        search = self._new_search(arrays, settings, constraints, max_rows)

        def read() -> Hypotheses:
            check_status(search.status)
            for i, n_best in zip(order, hypotheses_of(arrays, settings.n_best), strict=True):
                hypotheses[i] = n_best
            return hypotheses

        return self._engine.submit(search, lambda: finish(read))

    def _new_search(
        self,
        arrays: dict[str, Numbers],
        settings: SearchSettings,
        constraints: Constraints,
        max_rows: int | None,
    ) -> Search:
        max_length = max(arrays["max_lengths"])
        most = min(max_rows or self.max_rows, settings.batch_tokens // (max_length + 1))
        rows = max(settings.beam_size, most)
        limits = (
            constraints.min_length,
            min(constraints.no_repeat_ngram, max_length + 1),
            len(constraints.banned),
            len(constraints.prefix),
        )
        addresses = {name: address_of(numbers) for name, numbers in arrays.items()}
        sentences = len(arrays["max_lengths"])
        search = Search(sentences, settings.beam_size, settings.n_best, rows, *limits, **addresses)
        search.owners = self, arrays  # alive as long as C++ has the search
        return search

    def _arrays(
        self,
        sources: list[list[int]],
        settings: SearchSettings,
        constraints: Constraints,
        forced: Sequence[Sequence[Phrase]],
    ) -> dict[str, Numbers]:
        """The arrays that a search reads, among them each source's phrases, and those that it writes."""
        n_best, lengths = settings.n_best, list(map(len, sources))
        rules = [replace(constraints, forced=phrases) if phrases else constraints for phrases in forced]
        max_lengths = [
            max_target_length(length, self.max_positions, settings, rule.min_capacity)
            for length, rule in zip(lengths, rules, strict=True)
        ]
        offsets = [*accumulate((n_best * (length + 1) for length in max_lengths), initial=0)]
        return {
            "source_ids": array("i", chain(*sources)),
            "source_offsets": array("i", accumulate(lengths, initial=0)),
            "max_lengths": array("i", max_lengths),
            "banned_ids": array("i", chain(*constraints.banned)),
            "banned_offsets": array("i", accumulate(map(len, constraints.banned), initial=0)),
            "prefix": array("i", constraints.prefix),
            "source_positions": self._positions[0].first(max(lengths)),
            "target_positions": self._positions[1].first(max(max_lengths) + 1),
            "rows": array("i", (grid_rows(rule.forced_tokens, settings.beam_size) for rule in rules)),
            **(self._forced_arrays(forced, constraints) if any(forced) else {}),
            "length_normalization": self._length_normalization(max(max_lengths) + 1, settings),
            "output_offsets": array("q", offsets[:-1]),
            "output_ids": zeros("i", offsets[-1]),
            "lengths": zeros("i", len(sources) * n_best),
            "log_probs": zeros("f", len(sources) * n_best),
            "scores": zeros("f", len(sources) * n_best),
            **self._shortlists(sources, rules),
            **(attention_arrays(max_lengths, lengths, n_best) if settings.needs_attention else {}),
        }

    def _forced_arrays(
        self, forced: Sequence[Sequence[Phrase]], constraints: Constraints
    ) -> dict[str, Numbers]:
        """The forced phrases of each sentence, and which tokens continue a word."""
        phrases = list(chain(*forced))
        forms = [form for phrase in phrases for form in phrase.forms]
        places = [phrase.places for phrase in phrases]
        return {
            "forced_ids": array("i", chain(*forms)),
            "form_offsets": array("i", accumulate(map(len, forms), initial=0)),
            "phrase_forms": array("i", accumulate((len(phrase.forms) for phrase in phrases), initial=0)),
            "places": array("i", chain(*places)),
            "place_offsets": array("i", accumulate(map(len, places), initial=0)),
            "sentence_phrases": array("i", accumulate(map(len, forced), initial=0)),
            "continuing": continuing_flags(frozenset(constraints.continuing), self.target_vocabulary),
        }

    def _shortlists(self, sources: list[list[int]], rules: Sequence[Constraints]) -> dict[str, Numbers]:
        """The tokens that each sentence may have, if there is a shortlist."""
        if self.shortlist is None:
            return {}
        required = (
            [*rule.prefix, *chain(*(form for phrase in rule.forced for form in phrase.forms))]
            for rule in rules
        )
        allowed = [
            np.union1d(self.shortlist.allowed(row), tokens)
            for row, tokens in zip(sources, required, strict=True)
        ]
        return {
            "shortlist": numbers_of(np.concatenate(allowed).astype(np.int32)),
            "shortlist_offsets": array("i", accumulate(map(len, allowed), initial=0)),
        }

    def _length_normalization(self, longest: int, settings: SearchSettings) -> Numbers:
        """The divisors of the lengths 0 to `longest`, or more."""
        key = settings.length_penalty, settings.length_power
        table = self._normalizations.get(key)
        if table is None or len(table) <= longest:
            lengths = np.arange(max(256, 2 * longest), dtype=np.float32)
            table = numbers_of(length_normalization(lengths, settings).astype(np.float32))
            if len(self._normalizations) >= MAX_NORMALIZATIONS:
                self._normalizations = {}
            self._normalizations[key] = table
        return table


class Progress:
    """The first tokens that all hypotheses of a sentence share, while it is searched."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}
        self._arrays: dict[str, Numbers] = {}
        self._offsets: list[int] = []

    def arrays_for(self, order: Sequence[int], max_lengths: Numbers) -> dict[str, Numbers]:
        """The arrays that a search of the sentences with these numbers writes."""
        self._offsets = [*accumulate((length + 1 for length in max_lengths), initial=0)]
        self._arrays = {
            "stable_ids": zeros("i", self._offsets[-1]),
            "stable_lengths": zeros("i", len(order)),
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


@lru_cache(maxsize=16)
def continuing_flags(continuing: frozenset[int], vocabulary: int) -> Numbers:
    """1 for each token of the vocabulary that continues a word, 0 for all others."""
    return array("B", (token in continuing for token in range(vocabulary)))


def completed(result: Result) -> Future[Result]:
    """The future of a search that has nothing to do."""
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def hypotheses_of(arrays: Mapping[str, Numbers], n_best: int) -> Iterator[list[Hypothesis]]:
    """The output of a search, by sentence. Raises `DragomanError` if the model has non-finite weights."""
    ids, lengths, log_probs, scores = (
        arrays[name] for name in ("output_ids", "lengths", "log_probs", "scores")
    )
    for sentence, max_length in enumerate(arrays["max_lengths"]):
        if lengths[sentence * n_best] < 0:
            raise NonFiniteError
        starts = count(arrays["output_offsets"][sentence], max_length + 1)
        ranks = range(sentence * n_best, (sentence + 1) * n_best)
        yield [
            Hypothesis(
                ids[start : start + lengths[rank]].tolist(),
                log_probs[rank],
                scores[rank],
                attention_of(arrays, sentence, rank - ranks.start),
            )
            for start, rank in zip(starts, ranks, strict=False)
            if lengths[rank] >= 0
        ]


def attention_arrays(max_lengths: Sequence[int], lengths: Sequence[int], n_best: int) -> dict[str, Any]:
    """Room for the attention of all hypotheses. Pages of it that no search writes take no memory."""
    sizes = (n_best * (most + 1) * length for most, length in zip(max_lengths, lengths, strict=True))
    offsets = [*accumulate(sizes, initial=0)]
    return {"attention": np.zeros(offsets[-1], np.float32), "attention_offsets": array("q", offsets[:-1])}


def attention_of(arrays: Mapping[str, Any], sentence: int, rank: int) -> Array | None:
    """The attention [T S] of a hypothesis of a sentence, END included on both sides; None if nobody asked."""
    if "attention" not in arrays:
        return None
    n_best = len(arrays["lengths"]) // len(arrays["max_lengths"])
    tokens = arrays["source_offsets"][sentence + 1] - arrays["source_offsets"][sentence]
    start = arrays["attention_offsets"][sentence] + rank * (arrays["max_lengths"][sentence] + 1) * tokens
    rows = arrays["lengths"][sentence * n_best + rank] + 1
    weights: Array = arrays["attention"][start : start + rows * tokens].reshape(rows, tokens).copy()
    return weights


def address_of(numbers: "Numbers | Array") -> int | None:
    """Where numbers begin in memory; None if there are none."""
    if not len(numbers):
        return None
    return numbers.ctypes.data if isinstance(numbers, np.ndarray) else numbers.buffer_info()[0]


MAX_SPARE_ROWS = 5_000  # of a position table, beyond those that were asked for


class Positions:
    """The rows of a position table as C++ reads them; sinusoids are computed on demand."""

    def __init__(self, settings: ModelSettings, learned: Table | None) -> None:
        self._settings, self._learned = settings, learned is not None
        self._table = array("f") if learned is None else numbers_of(learned.astype(np.float32))

    def first(self, length: int) -> Numbers:
        """The first rows, at least `length`. Raises `DragomanError` past the end of a learned table."""
        table, width = self._table, self._settings.d_model  # other threads may extend the table
        if length * width > len(table):
            if self._learned:
                raise longer_than_table(length, len(table) // width)
            start = self._settings.first_position
            capacity = length + min(length, MAX_SPARE_ROWS)
            rows = sinusoid_table(start + max(256, capacity), width, self._settings.positions)[start:]
            self._table = table = numbers_of(rows)
        return table


def numbers_of(values: Array) -> Numbers:
    """A copy of 32-bit numbers, row by row."""
    return array("f" if values.dtype == np.float32 else "i", values.tobytes())


def zeros(typecode: str, count: int) -> Numbers:
    """An array of `count` zeros."""
    return array(typecode, (0,)) * count


def transformer_settings(settings: ModelSettings, precision: Precision) -> TransformerSettings:
    """The settings as C++ reads them, with the padded widths of heads."""
    return TransformerSettings(
        d_model=settings.d_model,
        d_ff=settings.d_ff,
        decoder_d_ff=settings.decoder_d_ff or settings.d_ff,
        heads=settings.heads,
        d_k=settings.key_width + -settings.key_width % LANES,
        d_v=settings.value_width + -settings.value_width % LANES,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        precision=PRECISIONS.index(precision),
        pre_norm=settings.norm == "pre",
        activation=ACTIVATIONS.index(settings.activation),
        source_end=settings.source_end,
        alignment_head=settings.alignment_head or 0,
        embedding_scale=settings.d_model**0.5 if settings.scale_embeddings else 1.0,
        score_scale=settings.key_width**-0.5,
        norm_epsilon=settings.norm_epsilon,
    )


def parameter_of(name: str, array: Array) -> Parameter:
    """A parameter as C++ reads it; a vector has one row. The array must outlive it."""
    return Parameter(name.encode(), array.ctypes.data, *np.atleast_2d(array).shape)


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
    head_rows = rows.reshape(heads, -1, *rows.shape[1:])
    zeros = np.zeros((heads, -head_rows.shape[1] % LANES, *rows.shape[1:]), np.float32)
    return np.concatenate([head_rows, zeros], 1).reshape(-1, *rows.shape[1:])

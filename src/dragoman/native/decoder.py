"""Hands a Transformer and sentences to search.cpp. No torch here. Shapes: N sentences, D = d_model."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import POINTER, Structure, c_float, c_int32, c_void_p
from itertools import accumulate, chain, count
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from dragoman.model.settings import Activation, ModelSettings, Precision
from dragoman.model.sinusoids import Table, beyond, sinusoid_table
from dragoman.native.build import DECODER, library
from dragoman.search.hypothesis import NON_FINITE, Hypothesis, longest_target, normalizer
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.errors import DragomanError
from dragoman.system.files import Arrays

Array = npt.NDArray[Any]
PRECISIONS: list[Precision] = ["float32", "bfloat16", "int8"]  # by their numbers in product.h
LANES = 16  # the most in vectors.h
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)  # the same of transformer.h


class Sizes(Structure):
    """As in transformer.h."""

    _fields_ = [
        *((name, c_int32) for name in ("d_model", "d_ff", "heads", "d_k", "d_v", "encoder_layers", "decoder_layers")),
        *((name, c_int32) for name in ("precision", "pre_norm", "activation", "source_end")),
        *((name, c_float) for name in ("embedding_scale", "score_scale", "norm_epsilon")),
    ]


class Matrix(Structure):
    """As in transformer.h."""

    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("outputs", c_int32), ("inputs", c_int32)]


class Job(Structure):
    """As in search.cpp."""

    _fields_ = [
        *((name, c_int32) for name in ("sentences", "beam_size", "n_best", "rows_at_once")),
        *((name, c_int32) for name in ("min_length", "no_repeat_ngram", "ban_count", "prefix_length")),
        *((name, c_void_p) for name in ("bans", "ban_begins", "prefix")),
        *(
            (name, c_void_p)
            for name in ("ids", "begins", "longest", "listed", "lists", "source_positions", "target_positions", "normalizer", "places")
        ),
        *((name, c_void_p) for name in ("written", "lengths", "log_p", "scores")),
        *((name, c_int32) for name in ("next", "stop")),
    ]


class NativeDecoder:
    """A Transformer laid out for one precision, with threads that search for translations."""

    def __init__(
        self,
        lib: ctypes.CDLL,
        settings: ModelSettings,
        weights: Arrays,
        precision: Precision,
        workers: int,
        shortlist: Shortlist | None = None,
    ) -> None:
        """`weights` by their names in `Transformer`, of which they may be a part no longer."""
        self.longest, self.shortlist = settings.longest, shortlist
        self._lib = lib
        self._threads = ThreadPoolExecutor(workers)
        self._workers = workers
        self._kept: list[Array] = []  # what C++ reads where it is
        sizes = Sizes(
            settings.d_model,
            settings.d_ff,
            settings.heads,
            settings.key_width + -settings.key_width % LANES,
            settings.value_width + -settings.value_width % LANES,
            settings.encoder_layers,
            settings.decoder_layers,
            PRECISIONS.index(precision),
            settings.norm == "pre",
            ACTIVATIONS.index(settings.activation),
            settings.source_end,
            settings.d_model**0.5 if settings.scale_embeddings else 1.0,
            settings.key_width**-0.5,
            settings.norm_epsilon,
        )
        target = weights["target_embedding.weight"]
        source = weights.get("source_embedding.weight", target)
        self.source_vocabulary = len(source)
        self._positions = [Positions(settings, weights.get(f"{side}_positions.table")) for side in ("source", "target")]
        copied: list[Array] = []
        matrices = [matrix_of(*one, copied) for one in linear_maps(settings, weights)]
        norms = [matrix_of(weights[f"{name}.weight"][None], weights[f"{name}.bias"], self._kept) for name in norms_of(settings)]
        embeddings = [pointer_to(embedding, self._kept) for embedding in (source, target)]
        self._rows: int = lib.dragoman_rows_at_once()
        lib.dragoman_load.restype = c_void_p
        lib.dragoman_load.argtypes = [POINTER(Sizes), POINTER(Matrix), c_int32, POINTER(Matrix), c_int32, c_void_p, c_void_p]
        lib.dragoman_free.argtypes = [c_void_p]
        lib.dragoman_work.argtypes = [c_void_p, POINTER(Job)]
        linear, normal = (Matrix * len(matrices))(*matrices), (Matrix * len(norms))(*norms)
        self._own = lib.dragoman_load(sizes, linear, len(linear), normal, len(normal), *embeddings)
        if not self._own:
            raise DragomanError("The memory does not suffice to lay out this model for translation.")

    @classmethod
    def of(
        cls, settings: ModelSettings, weights: Arrays, precision: Precision, workers: int, shortlist: Shortlist | None = None
    ) -> "NativeDecoder | None":
        """None where there is no C++ compiler."""
        lib = library(DECODER)
        return None if lib is None else cls(lib, settings, weights, precision, workers, shortlist)

    def __del__(self) -> None:
        if getattr(self, "_own", None):
            self._lib.dragoman_free(self._own)

    def search(
        self, sources: Sequence[list[int]], settings: SearchSettings, constraints: Constraints | None = None
    ) -> list[list[Hypothesis]]:
        """As `beam_search` without groups and coverage; none for a source that is END alone.

        No sentence depends on another, to the last bit. With a shortlist, a prefix's tokens are on every sentence's list. Raises
        `MemoryError` where memory does not suffice, `DragomanError` for a model whose weights are no numbers, and where min_length or
        the prefix is beyond its learnt positions, `IndexError` for an id that it lacks.
        """
        real = sorted((number for number, row in enumerate(sources) if len(row) > 1), key=lambda number: -len(sources[number]))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        if not real:
            return found
        if (highest := max(map(max, sources))) >= self.source_vocabulary:
            raise IndexError(f"The source vocabulary has no id {highest}.")
        searched = self._search([sources[number] for number in real], settings, constraints or Constraints())
        for number, hypotheses in zip(real, searched, strict=True):
            found[number] = hypotheses
        return found

    def _search(self, sources: list[list[int]], settings: SearchSettings, rules: Constraints) -> Iterator[list[Hypothesis]]:
        arrays, width = self._arrays(sources, settings, rules), settings.beam_size
        longest = int(arrays["longest"].max())
        share = -(-len(sources) // self._workers) * width
        rows = max(width, min(self._rows, share, settings.batch_tokens // (longest + 1)))
        numbers = (rules.min_length, min(rules.no_repeat_ngram, longest + 1), len(rules.banned), len(rules.prefix))
        addresses = {name: address(array) for name, array in arrays.items()}
        job = Job(len(sources), width, settings.n_best, rows, *numbers, **addresses)
        job.kept = self, arrays  # as long as a thread has the job, however this one ends
        self._work(job)
        return hypotheses_of(arrays)

    def _arrays(self, sources: list[list[int]], settings: SearchSettings, rules: Constraints) -> dict[str, Array]:
        """What a job reads, and room for what it writes."""
        n_best = settings.n_best
        longest = [longest_target(len(row), self.longest, settings, rules.min_capacity) for row in sources]
        room = [n_best * (most + 1) for most in longest]
        lists = [np.empty(0, np.int32)]
        if self.shortlist is not None:
            lists = [np.union1d(self.shortlist.allowed(row), rules.prefix).astype(np.int32) for row in sources]
        return {
            "listed": np.concatenate(lists),
            "lists": integers(accumulate(map(len, lists), initial=0)),
            "ids": integers(chain(*sources)),
            "begins": integers(accumulate(map(len, sources), initial=0)),
            "longest": integers(longest),
            "bans": integers(chain(*rules.banned)),
            "ban_begins": integers(accumulate(map(len, rules.banned), initial=0)),
            "prefix": integers(rules.prefix),
            "source_positions": self._positions[0].first(max(map(len, sources))),
            "target_positions": self._positions[1].first(max(longest) + 1),
            "normalizer": normalizer(np.arange(max(longest) + 2, dtype=np.float32), settings).astype(np.float32),
            "places": np.array([*accumulate(room, initial=0)][:-1], np.int64),
            "written": np.empty(sum(room), np.int32),
            "lengths": np.empty((len(sources), n_best), np.int32),
            "log_p": np.empty((len(sources), n_best), np.float32),
            "scores": np.empty((len(sources), n_best), np.float32),
        }

    def _work(self, job: Job) -> None:
        """Let all threads work. Whoever interrupts ends them after the token at hand."""
        threads: list[Future[int]] = []
        try:
            workers = range(min(self._workers, job.sentences))
            threads.extend(self._threads.submit(self._lib.dragoman_work, self._own, job) for _ in workers)
            failed = [thread.result() for thread in threads]
        finally:
            job.stop = 1
            for thread in threads:
                thread.result()
        if any(failed):
            raise MemoryError


def hypotheses_of(arrays: Mapping[str, Array]) -> Iterator[list[Hypothesis]]:
    """What search.cpp has written, sentence by sentence. Raises `DragomanError` for a model whose weights are no numbers."""
    each = (arrays[name].tolist() for name in ("places", "longest", "lengths", "log_p", "scores"))
    for place, longest, lengths, log_p, scores in zip(*each, strict=True):
        if lengths[0] < 0:
            raise DragomanError(NON_FINITE)
        yield [
            Hypothesis(arrays["written"][first : first + length].tolist(), *numbers)
            for first, length, *numbers in zip(count(place, longest + 1), lengths, log_p, scores, strict=False)
            if length >= 0
        ]


class Positions:
    """The rows of a table of positions as C++ reads them; sinusoids are made as far as they are needed."""

    def __init__(self, settings: ModelSettings, learned: Table | None) -> None:
        self._settings, self._learned = settings, learned is not None
        self._table = np.empty((0, settings.d_model), np.float32) if learned is None else np.ascontiguousarray(learned, np.float32)

    def first(self, length: int) -> Table:
        """The first rows, at least so many. Raises `DragomanError` past the end of a learned table."""
        table = self._table  # other threads may make it longer
        if length > len(table):
            if self._learned:
                raise beyond(length, len(table))
            start = self._settings.first_position
            table = sinusoid_table(start + max(256, 2 * length), self._settings.d_model, self._settings.positions)[start:]
            self._table = table
        return table


def address(array: Array) -> int | None:
    """Where its numbers lie; None is null, where there are none."""
    return int(array.__array_interface__["data"][0]) if array.size else None


def pointer_to(array: Array | None, kept: list[Array]) -> int | None:
    """Where the numbers of an array lie, in float32 and in order, as long as they are kept."""
    if array is None:
        return None
    kept.append(np.ascontiguousarray(array, np.float32))
    return address(kept[-1])


def matrix_of(weight: Array, bias: Array | None, kept: list[Array]) -> Matrix:
    """A weight and its bias."""
    return Matrix(pointer_to(weight, kept), pointer_to(bias, kept), *weight.shape)


def integers(numbers: Iterable[int]) -> Array:
    """Whole numbers of 32 bits."""
    return np.fromiter(numbers, np.int32)


Map = tuple[Array, Array | None]  # a matrix, and its bias


def linear_maps(settings: ModelSettings, weights: Arrays) -> Iterator[Map]:
    """All matrices with their biases in the order of transformer.h."""

    def linear(name: str) -> Map:
        return weights[f"{name}.weight"], weights.get(f"{name}.bias")

    def projections(attention: str) -> list[Map]:
        """W^Q, W^K and W^V."""
        weight, bias = linear(f"{attention}.query_key_value")
        ends = [settings.heads * settings.key_width, 2 * settings.heads * settings.key_width]
        parts = [in_lanes(part, settings.heads) for part in np.split(weight, ends)]
        biases = [None] * 3 if bias is None else [in_lanes(part, settings.heads) for part in np.split(bias, ends)]
        return list(zip(parts, biases, strict=True))

    def output(attention: str) -> Map:
        """W^O."""
        weight, bias = linear(f"{attention}.output")
        return in_lanes(weight.T, settings.heads).T, bias

    for layer in layers_of(settings):
        queries, keys, values = projections(f"{layer}.self_attention")
        yield from (together(queries, keys, values), output(f"{layer}.self_attention"))
        if layer.startswith("decoder"):
            queries, keys, values = projections(f"{layer}.cross_attention")
            yield from (queries, together(keys, values), output(f"{layer}.cross_attention"))
        yield from (linear(f"{layer}.feed_forward.inner"), linear(f"{layer}.feed_forward.outer"))
    yield weights.get("output.weight", weights["target_embedding.weight"]), weights.get("output_bias")


def layers_of(settings: ModelSettings) -> list[str]:
    """Their names, in order."""
    depths = {"encoder": settings.encoder_layers, "decoder": settings.decoder_layers}
    return [f"{side}.{number}" for side, depth in depths.items() for number in range(depth)]


def together(*maps: Map) -> Map:
    """One map that gives the features of all."""
    weights, biases = zip(*maps, strict=True)
    return np.concatenate(weights), None if biases[0] is None else np.concatenate(biases)


def in_lanes(rows: Array, heads: int) -> Array:
    """Rows of all heads, with zeros after those of each head: their number becomes a multiple of LANES."""
    each = rows.reshape(heads, -1, *rows.shape[1:])
    zeros = np.zeros((heads, -each.shape[1] % LANES, *rows.shape[1:]), np.float32)
    return np.concatenate([each, zeros], 1).reshape(-1, *rows.shape[1:])


def norms_of(settings: ModelSettings) -> Iterator[str]:
    """The names of all normalisations in the order of transformer.h."""
    for layer in layers_of(settings):
        looks = ["self_attention", "cross_attention"] if layer.startswith("decoder") else ["self_attention"]
        yield from (f"{layer}.{part}_residual.norm" for part in (*looks, "feed_forward"))
    if settings.norm == "pre":
        yield from ("encoder_norm", "decoder_norm")

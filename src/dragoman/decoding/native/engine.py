"""Hands a Transformer and sentences to search.cpp. Shapes: N sentences, D = d_model."""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import POINTER, Structure, c_float, c_int32, c_void_p
from itertools import accumulate, chain
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.decoding.constraints import Constraints
from dragoman.decoding.native import SEARCH
from dragoman.decoding.search import NO_NUMBERS, Hypothesis, longest_targets, normalizer
from dragoman.decoding.settings import SearchSettings
from dragoman.decoding.shortlist import Shortlist
from dragoman.errors import DragomanError
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.settings import Precision
from dragoman.model.transformer import ACTIVATIONS, DecoderLayer, EncoderLayer, Residual, Transformer
from dragoman.native.build import library
from dragoman.text.batches import pad

PRECISIONS: list[Precision] = ["float32", "bfloat16", "int8"]  # by their numbers in product.h
LANES = 16  # the most in vectors.h
ROWS_AT_ONCE = 36  # hypotheses that a thread extends together: enough for full speed, few enough for the cache (three full tiles)


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


class Native:
    """A Transformer laid out for one precision, with threads that search for translations."""

    def __init__(
        self, lib: ctypes.CDLL, model: Transformer, precision: Precision, workers: int, shortlist: Shortlist | None = None
    ) -> None:
        self.model = model
        self.shortlist = shortlist
        self._lib = lib
        self._threads = ThreadPoolExecutor(workers)
        self._workers = workers
        self._kept: list[Tensor] = []  # what C++ reads where it is
        settings = model.settings
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
            list(ACTIVATIONS).index(settings.activation),
            settings.source_end,
            settings.d_model**0.5 if settings.scale_embeddings else 1.0,
            settings.key_width**-0.5,
            settings.norm_epsilon,
        )
        copied: list[Tensor] = []
        matrices = [matrix_of(*one, copied) for one in linear_maps(model)]
        norms = [matrix_of(norm.weight[None], norm.bias, self._kept) for norm in norms_of(model)]
        embeddings = [pointer_to(embedding.weight, self._kept) for embedding in (model.source_embedding, model.target_embedding)]
        lib.dragoman_load.restype = c_void_p
        lib.dragoman_load.argtypes = [POINTER(Sizes), POINTER(Matrix), c_int32, POINTER(Matrix), c_int32, c_void_p, c_void_p]
        lib.dragoman_free.argtypes = [c_void_p]
        lib.dragoman_work.argtypes = [c_void_p, POINTER(Job)]
        linear, normal = (Matrix * len(matrices))(*matrices), (Matrix * len(norms))(*norms)
        self._own = lib.dragoman_load(sizes, linear, len(linear), normal, len(normal), *embeddings)
        if not self._own:
            raise DragomanError("The memory does not suffice to lay out this model for translation.")

    @classmethod
    def of(cls, model: Transformer, precision: Precision, workers: int, shortlist: Shortlist | None = None) -> "Native | None":
        """None where there is no C++ compiler."""
        lib = library(SEARCH)
        return None if lib is None else cls(lib, model, precision, workers, shortlist)

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
        if (highest := max(map(max, sources))) >= len(self.model.source_embedding.weight):
            raise IndexError(f"The source vocabulary has no id {highest}.")
        searched = self._search([sources[number] for number in real], settings, constraints or Constraints())
        for number, hypotheses in zip(real, searched, strict=True):
            found[number] = hypotheses
        return found

    @torch.no_grad()
    def _search(self, sources: list[list[int]], settings: SearchSettings, rules: Constraints) -> Iterator[list[Hypothesis]]:
        n_best = settings.n_best
        longest = longest_targets(self.model, pad(sources), settings, rules.least).tolist()
        room = [n_best * (most + 1) for most in longest]
        lists = [np.empty(0, np.int32)]
        if self.shortlist is not None:
            lists = [np.union1d(self.shortlist.of(row), rules.prefix).astype(np.int32) for row in sources]
        tensors = {
            "listed": torch.from_numpy(np.concatenate(lists)),  # an empty tensor's address is null
            "lists": integers(accumulate(map(len, lists), initial=0)),
            "ids": integers(token for row in sources for token in row),
            "begins": integers(accumulate(map(len, sources), initial=0)),
            "longest": integers(longest),
            "bans": integers(chain(*rules.banned)),
            "ban_begins": integers(accumulate(map(len, rules.banned), initial=0)),
            "prefix": integers(rules.prefix),
            "source_positions": self.model.source_positions(0, max(map(len, sources))).float().contiguous(),
            "target_positions": self.model.target_positions(0, max(longest) + 1).float().contiguous(),
            "normalizer": normalizer(torch.arange(max(longest) + 2), settings).float(),
            "places": torch.tensor(list(accumulate(room, initial=0))[:-1]),
            "written": torch.empty(sum(room), dtype=torch.int32),
            "lengths": torch.empty(len(sources), n_best, dtype=torch.int32),
            "log_p": torch.empty(len(sources), n_best),
            "scores": torch.empty(len(sources), n_best),
        }
        width = settings.beam_size
        share = -(-len(sources) // self._workers) * width
        rows = max(width, min(ROWS_AT_ONCE, share, settings.batch_tokens // (max(longest) + 1)))
        numbers = (rules.min_length, min(rules.no_repeat_ngram, max(longest) + 1), len(rules.banned), len(rules.prefix))
        job = Job(len(sources), width, n_best, rows, *numbers, **{name: tensor.data_ptr() for name, tensor in tensors.items()})
        job.kept = self, tensors  # as long as a thread has the job, however this one ends
        self._work(job)
        written = tensors["written"].numpy()
        lengths, log_p, scores = (tensors[name].tolist() for name in ("lengths", "log_p", "scores"))
        for sentence, place in enumerate(tensors["places"].tolist()):
            if lengths[sentence][0] < 0:
                raise DragomanError(NO_NUMBERS)
            yield [
                Hypothesis(written[first : first + length].tolist(), *numbers)
                for length, first, *numbers in zip(
                    lengths[sentence],
                    range(place, place + room[sentence], longest[sentence] + 1),
                    log_p[sentence],
                    scores[sentence],
                    strict=True,
                )
                if length >= 0
            ]

    def _work(self, job: Job) -> None:
        """Let all threads work. Whoever interrupts ends them after the token at hand."""
        threads: list[Future[int]] = []
        try:
            count = min(self._workers, job.sentences)
            threads.extend(self._threads.submit(self._lib.dragoman_work, self._own, job) for _ in range(count))
            failed = [thread.result() for thread in threads]
        finally:
            job.stop = 1
            for thread in threads:
                thread.result()
        if any(failed):
            raise MemoryError


def pointer_to(tensor: Tensor | None, kept: list[Tensor]) -> int | None:
    """Where the numbers of a tensor lie, in float32 and in order, as long as they are kept."""
    if tensor is None:
        return None
    kept.append(tensor.detach().float().contiguous())
    return kept[-1].data_ptr()


def matrix_of(weight: Tensor, bias: Tensor | None, kept: list[Tensor]) -> Matrix:
    """A weight and its bias."""
    return Matrix(pointer_to(weight, kept), pointer_to(bias, kept), *weight.shape)


def integers(numbers: Iterable[int]) -> Tensor:
    """Whole numbers of 32 bits."""
    return torch.tensor(list(numbers), dtype=torch.int32)


Map = tuple[Tensor, Tensor | None]  # a matrix, and its bias


def linear_maps(model: Transformer) -> Iterator[Map]:
    """All matrices with their biases in the order of transformer.h."""
    for module in [*model.encoder, *model.decoder]:
        layer = cast(EncoderLayer | DecoderLayer, module)
        queries, keys, values = projections(layer.self_attention)
        yield from (together(queries, keys, values), output(layer.self_attention))
        if isinstance(layer, DecoderLayer):
            queries, keys, values = projections(layer.cross_attention)
            yield from (queries, together(keys, values), output(layer.cross_attention))
        for linear in (layer.feed_forward.inner, layer.feed_forward.outer):
            yield linear.weight, linear.bias
    yield model.output.weight, model.output_bias


def projections(attention: MultiHeadAttention) -> list[Map]:
    """W^Q, W^K and W^V."""
    linear = attention.query_key_value
    biases = [None] * 3 if linear.bias is None else [in_lanes(bias, attention.heads) for bias in linear.bias.split(attention.widths)]
    return list(zip((in_lanes(weight, attention.heads) for weight in linear.weight.split(attention.widths)), biases, strict=True))


def together(*maps: Map) -> Map:
    """One map that gives the features of all."""
    weights, biases = zip(*maps, strict=True)
    return torch.cat(weights), None if biases[0] is None else torch.cat(biases)


def output(attention: MultiHeadAttention) -> Map:
    """W^O."""
    return in_lanes(attention.output.weight.t(), attention.heads).t(), attention.output.bias


def in_lanes(rows: Tensor, heads: int) -> Tensor:
    """Rows of all heads, with zeros after those of each head: their number becomes a multiple of LANES."""
    each = rows.unflatten(0, (heads, -1))
    zeros = each.new_zeros(heads, -each.size(1) % LANES, *each.shape[2:])
    return torch.cat([each, zeros], 1).flatten(0, 1)


def norms_of(model: Transformer) -> list[nn.LayerNorm]:
    """All normalisations in the order of transformer.h."""
    residuals = [module for layer in [*model.encoder, *model.decoder] for module in layer.children() if isinstance(module, Residual)]
    last = [norm for norm in (model.encoder_norm, model.decoder_norm) if isinstance(norm, nn.LayerNorm)]
    return [*(residual.norm for residual in residuals), *last]

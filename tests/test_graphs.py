"""Search in fixed shapes against the search whose shapes grow; as a CUDA graph where there is a GPU."""

from dataclasses import replace
from itertools import chain

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.native import cuda_graphs as graphs
from dragoman.native.cuda_graphs import FixedShapeSearch, GraphSearch
from dragoman.search.beam import beam_search, max_target_lengths
from dragoman.search.hypothesis import Constraints
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import NonFiniteError
from dragoman.text.batches import pad
from dragoman.translation.torch_backend import TorchBackend
from dragoman.translation.translator import Translator
from tests.conftest import VARIANTS, random_model
from tests.test_native import ASKED, KINDS, model_of, python_search, texts
from tests.test_translator import LINES, folder, translator  # noqa: F401

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")),
]
TOGETHER = [
    *((kind, "beam 4") for kind in KINDS),
    *(("as in the paper", asked) for asked in ASKED if asked != "beam 4"),
]
ASKS_THE_HOST = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique")


class NoAnswers(TorchDispatchMode):
    """Refuses what would make the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not func.__name__.startswith(ASKS_THE_HOST), func
        return func(*args, **(kwargs or {}))


def in_batches(search, sources, asked, size, device="cpu"):
    """What it finds for the sources, some at a time."""
    rules, found = Constraints(asked.min_length or 0), []
    for first in range(0, len(sources), size):
        found += search.search(pad(sources[first : first + size]).to(device), asked, rules)
    return found


@pytest.mark.short_form(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kind", "asked"), TOGETHER)
def test_it_finds_what_the_growing_search_finds(kind, asked, device):
    model, sources = model_of(kind), [row for row in texts(4) if len(row) > 1]
    expected = python_search(model, sources, ASKED[asked])
    search = GraphSearch(model.to(device))
    for size in (1, len(sources)):  # the first one by one through a few graphs, whose buffers are used again
        found = in_batches(search, sources, ASKED[asked], size, device)
        assert [[one.ids for one in best] for best in found] == [
            [one.ids for one in best] for best in expected
        ]
        for one, other in zip(chain(*found), chain(*expected), strict=True):
            assert (one.log_probability, one.score) == pytest.approx(
                (other.log_probability, other.score), abs=1e-4
            )


def test_a_step_asks_the_device_nothing_and_moves_no_buffer():
    model, source, asked = (
        model_of("as in the paper"),
        pad(texts(5)[1:]),
        SearchSettings(beam_size=3, min_length=2),
    )
    longest = max_target_lengths(model, source, SearchSettings(max_extra_tokens=5))
    with torch.no_grad():
        most = int(longest.max())
        search = FixedShapeSearch(model, model.encode(source), asked, 2, most)
        search.load(model.encode(source), longest)
        buffers = [
            search.beam.live,
            search.beam.finished,
            search.unfinished,
            search.state.ancestry,
            search.state.position,
            *chain(*search.state.cache),
        ]
        places = [buffer.data_ptr() for buffer in buffers]
        with NoAnswers():
            for _ in range(most + 1):
                search.step()
        with pytest.raises(AssertionError, match="_local_scalar_dense"), NoAnswers():
            search.unfinished.any().item()
    now = [
        search.beam.live,
        search.beam.finished,
        search.unfinished,
        search.state.ancestry,
        search.state.position,
        *chain(*search.state.cache),
    ]
    assert [buffer.data_ptr() for buffer in now] == places
    assert not search.unfinished.any()


@pytest.mark.long
def test_only_graphs_of_few_sentences_are_kept_and_not_too_many(monkeypatch):
    monkeypatch.setattr(graphs, "CACHED_GRAPHS", 3)
    search, sources = GraphSearch(model_of("as in the paper")), texts(7, longest=60)[1:]
    asked = SearchSettings(beam_size=2, max_extra_tokens=1)
    in_batches(search, sources, asked, 1)
    assert 0 < len(search._made) <= 3
    kept = dict(search._made)
    in_batches(search, sources * 6, asked, 40)
    assert search._made == kept


def test_non_finite_probabilities_are_reported():
    model = model_of("as in the paper")
    with torch.no_grad():
        model.target_embedding.weight[7] = torch.nan
    with pytest.raises(NonFiniteError):
        GraphSearch(model).search(pad([[7, 8, 2]]), replace(ASKED["beam 4"], n_best=2), Constraints())


def test_a_translator_searches_in_fixed_shapes_if_asked_to(translator):  # noqa: F811
    backend = TorchBackend(translator.torch_backend.model, cuda_graphs=True)
    fixed = Translator(translator.tokenizers, lambda: backend)
    for asked in (
        SearchSettings(max_extra_tokens=3),
        SearchSettings(beam_size=1, max_extra_tokens=3, min_length=4),
    ):
        assert fixed.translate(LINES, asked) == translator.translate(LINES, asked)
    made = len(backend._graphs._made)
    ruled = SearchSettings(max_extra_tokens=3, prefix="two")
    assert fixed.translate(LINES, ruled) == translator.translate(LINES, ruled)
    assert 0 < made == len(backend._graphs._made)


@pytest.mark.short_form(2)
@pytest.mark.parametrize("kind", VARIANTS)
def test_variants_are_searched_without_graphs(kind, sources):
    model, rules = random_model(VARIANTS[kind]), Constraints()
    asked = SearchSettings(beam_size=3, max_extra_tokens=4)
    backend = TorchBackend(model, cuda_graphs=True)
    assert backend.search_padded(sources, asked, rules) == beam_search(model, sources, asked, rules)


@pytest.mark.parametrize("models", [1, 2])
@pytest.mark.parametrize("device", DEVICES)
def test_graphs_are_for_a_single_model_on_a_gpu(folder, models, device):  # noqa: F811
    backend = Translator.load(*[folder] * models, device=device, native=False).torch_backend
    assert (backend._graphs is not None) == (device == "cuda" and models == 1)

"""A cancelled search by PyTorch ends after its current step; tests/test_engine.py states it for C++."""

import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import Event

import pytest

from dragoman import SearchSettings
from dragoman.model.symbols import END
from dragoman.search.alternatives import alternatives
from dragoman.search.hypothesis import Constraints, Phrase
from dragoman.system.futures import interruption, submit_interruptible, then
from dragoman.text.batches import pad
from dragoman.translation.segmentation import split
from dragoman.translation.tags import remove_tags, restore_tags
from dragoman.translation.torch_backend import TorchBackend
from tests.conftest import MAX_SECONDS
from tests.test_native import model_of
from tests.test_translator import LINES, folder, translator  # noqa: F401

LONG = 10_000  # tokens, for which each of these searches takes minutes
SOURCES = [[4, 5, 6, 2], [7, 8, 2]]
ENDLESS = {
    "beam": (SearchSettings(beam_size=16), Constraints(min_length=LONG)),
    "greedy": (SearchSettings(beam_size=1, max_extra_tokens=LONG), Constraints()),
    "groups": (SearchSettings(groups=2), Constraints(min_length=LONG)),
    "coverage": (SearchSettings(coverage_penalty=0.2), Constraints(min_length=LONG)),
    "samples": (SearchSettings(temperature=1.0, n_best=8), Constraints(min_length=LONG)),
    "forced words": (
        SearchSettings(force_words=("a",)),
        Constraints(min_length=LONG, forced=[Phrase([[5]])]),
    ),
}


def check_cancelled(search):
    """Begin a search in a thread and cancel it: it ends without a result."""
    with ThreadPoolExecutor(1) as executor:
        future = submit_interruptible(executor, search)
        while not future.running():
            time.sleep(0.001)
        assert not future.cancel()  # it has begun
        with pytest.raises(CancelledError):
            future.result(MAX_SECONDS)
        assert not executor.submit(lambda: interruption.get().is_set()).result()  # of later work there


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_cancelled_search_ends(kind, workers):
    backend = TorchBackend(model_of("as in the paper"), workers)
    check_cancelled(lambda: backend.search(SOURCES, *ENDLESS[kind]))


def test_a_cancelled_search_in_fixed_shapes_ends():
    backend = TorchBackend(model_of("as in the paper"), cuda_graphs=True)
    check_cancelled(lambda: backend.search(SOURCES, *ENDLESS["greedy"]))


def test_cancelled_alternatives_end():
    model, (settings, constraints) = model_of("as in the paper"), ENDLESS["beam"]
    check_cancelled(lambda: alternatives(model, pad(SOURCES[:1]), constraints, 3, settings))


@pytest.mark.parametrize("name", ["score", "align"])
def test_cancelled_scores_and_alignments_end(translator, name):  # noqa: F811
    cancelled = Event()
    cancelled.set()
    context = copy_context()
    context.run(interruption.set, cancelled)
    with pytest.raises(CancelledError):
        context.run(getattr(translator, name), [(line, line) for line in LINES])


def test_splitting_a_long_sentence_ends_if_it_is_cancelled():
    cancelled, context = Event(), copy_context()
    ids, pieces = [*range(4, 104), END], ["▁a"] * 101
    context.run(interruption.set, cancelled)
    parts = context.run(split, ids, pieces, 10)
    assert [number for part in parts for number in part if number != END] == ids[:-1]
    cancelled.set()
    with pytest.raises(CancelledError):
        context.run(split, ids, pieces, 10)


def test_a_search_that_waits_is_cancelled_and_the_next_one_is_not():
    backend = TorchBackend(model_of("as in the paper"))
    settings, rules = SearchSettings(max_extra_tokens=3), Constraints()
    with ThreadPoolExecutor(1) as executor:
        first, second = (
            submit_interruptible(executor, lambda: backend.search(SOURCES, *ENDLESS["beam"])) for _ in "ab"
        )
        third = submit_interruptible(executor, lambda: backend.search(SOURCES, settings, rules))
        assert second.cancel()
        first.cancel()
        assert third.result(MAX_SECONDS) == backend.search(SOURCES, settings, rules)


def test_the_second_of_two_futures_ends_with_the_first_one():
    release = Event()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(release.wait)
        first = submit_interruptible(executor, lambda: 1)
        second = then(first, lambda number: number + 1, executor)
        first.cancel()
        release.set()
        assert not wait([second], MAX_SECONDS).not_done
        with pytest.raises(CancelledError):
            second.result(MAX_SECONDS)
        last = submit_interruptible(executor, lambda: 1)
        last.result(MAX_SECONDS)
    with pytest.raises(RuntimeError, match="after shutdown"):
        then(last, lambda number: number + 1, executor).result(MAX_SECONDS)


@pytest.mark.parametrize("has_begun", [True, False])
def test_the_first_of_two_futures_ends_with_the_second_one(has_begun):
    begun, release, work = Event(), Event(), []

    def first_work():
        work.append(interruption.get())
        begun.set()
        release.wait()

    with ThreadPoolExecutor(1) as executor:
        if not has_begun:
            executor.submit(release.wait)
        first = submit_interruptible(executor, first_work)
        second = then(first, lambda _: 1, executor)
        if has_begun:
            assert begun.wait(MAX_SECONDS)
        assert second.cancel()
        is_ended = work[0].is_set() if has_begun else first.cancelled()
        release.set()
        assert not wait([first, second], MAX_SECONDS).not_done
    assert is_ended
    assert len(work) == has_begun


@pytest.mark.long
def test_the_second_of_two_futures_can_end_after_it_has_begun():
    words = ["word"] * 2000
    text = "<b>" * 20_000 + " ".join(words) + "</b>" * 20_000
    plain, tags = remove_tags(text)
    links = [(number, number) for number in range(len(words))]
    begun = Event()

    def place(_):
        begun.set()
        return restore_tags(tags, plain, links)

    with ThreadPoolExecutor(1) as executor:
        second = then(submit_interruptible(executor, lambda: 1), place, executor)
        assert begun.wait(MAX_SECONDS)
        second.cancel()
        with pytest.raises(CancelledError):
            second.result(MAX_SECONDS)

"""Continuous batching in C++: searches that run together, one that is cancelled, one that fails."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import enumerate as all_threads
from threading import get_native_id

import numpy as np
import pytest
import torch

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.native.build import DECODER, load_library
from dragoman.native.decoder import PRECISIONS, NativeDecoder, Progress
from dragoman.search.beam import beam_steps
from dragoman.search.hypothesis import Constraints, Hypothesis
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import stable_prefixes
from dragoman.system.machine import trim_memory
from dragoman.translation.model_folder import numpy_weights
from tests.conftest import MAX_SECONDS
from tests.test_native import model_of, native, texts
from tests.test_search import few_tokens, with_few_tokens

FOREVER = SearchSettings(max_length=10_000), Constraints(min_length=10_000)
# One sentence has more hypotheses than a thread extends at once.
FULL_BATCH = replace(FOREVER[0], beam_size=64)
SECONDS = MAX_SECONDS
"""The searches take milliseconds: one that takes longer than this hangs, whatever else the machine does."""


@pytest.fixture(scope="module")
def lib():
    found = load_library(DECODER)
    assert found is not None, "these tests need a C++ compiler"
    return found


def search(decoder: NativeDecoder, *asked) -> list[list[Hypothesis]]:
    """`NativeDecoder.search`. Raises `TimeoutError` if it hangs."""
    return decoder.submit(*asked).result(SECONDS)


def test_a_large_search_does_not_delay_a_small_one(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 2)
    large = decoder.submit(texts(3_000, 40), SearchSettings(max_extra_tokens=40))
    small = decoder.submit(texts(1, 5, seed=3), SearchSettings())
    assert small.result(SECONDS)
    (pending,) = decoder._engine._pending.values()
    assert pending.search.next_sentence < pending.search.sentences / 2  # those that a thread has taken
    large.cancel()


def test_a_long_sentence_does_not_delay_short_ones(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    long = decoder.submit([[*range(4, 140), 3]], *FOREVER)
    for seed in range(5):
        assert search(decoder, texts(1, 5, seed), SearchSettings())
    assert not long.done()
    long.cancel()


@pytest.mark.long
def test_a_large_search_ends_beside_a_small_one_that_does_not(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    small = decoder.submit([[*range(4, 140), 3]], *FOREVER)
    assert search(decoder, texts(20, 9), SearchSettings())
    assert not small.done()
    small.cancel()


def test_the_system_may_prefer_other_threads(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 2)
    decoder.set_nice(7)
    before = os.getpriority(os.PRIO_PROCESS, get_native_id())
    search(decoder, texts(60, 9), SearchSettings())
    values = [os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in Path("/proc/self/task").iterdir()]
    assert 7 in values
    assert os.getpriority(os.PRIO_PROCESS, get_native_id()) == before


def test_sentences_of_any_length_are_encoded_together(lib):
    decoder, alone = (native(lib, model_of("as in the paper"), "float32", 1) for _ in range(2))
    busy = decoder.submit([[5, 3]], FULL_BATCH, FOREVER[1])
    lengths = (4, 9, 20, 600, 7, 40, 5)
    searches = [([[7] * length + [3]], SearchSettings(max_length=10)) for length in lengths]
    together = [
        decoder.submit(*each) for each in searches
    ]  # the first one computes a short table of positions
    busy.cancel()  # the thread then takes all of them at once
    assert [future.result(SECONDS) for future in together] == [search(alone, *each) for each in searches]


def test_a_cancelled_search_gives_its_place_to_others(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    sources, settings = [[5, 3], [6, 3]], SearchSettings()
    expected = search(decoder, sources, settings)
    futures = [decoder.submit([[*range(4, 140), 3]], FULL_BATCH, FOREVER[1]) for _ in range(50)]
    waiting = decoder.submit(sources, settings)
    for future in futures:
        assert future.cancel()
    assert waiting.result(SECONDS) == expected
    with pytest.raises(CancelledError):
        futures[0].result(SECONDS)


def test_a_future_that_is_cancelled_again_ends_no_search_that_has_its_memory(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    asked = texts(2, 9), SearchSettings()
    expected = search(decoder, *asked)
    cancelled = [decoder.submit(asked[0], *FOREVER) for _ in range(20)]
    assert all(future.cancel() for future in cancelled)
    wait_until_none_is_pending(decoder)
    busy = decoder.submit([[5, 3]], FULL_BATCH, FOREVER[1])  # so that none is done before the end of the loop
    others = [decoder.submit(*asked) for _ in cancelled]
    for future in cancelled:
        future.cancel()
    busy.cancel()
    assert [future.result(SECONDS) for future in others] == [expected] * len(others)


def wait_until_none_is_pending(decoder):
    """Until C++ has given back all searches, and Python has forgotten them."""
    deadline = time.monotonic() + SECONDS
    while decoder._engine._pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not decoder._engine._pending


@pytest.mark.long
def test_thousands_of_cancelled_searches_leave_nothing_behind(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 2)
    sources = texts(2, 9)
    expected = search(decoder, sources, SearchSettings())
    trim_memory()  # pages that glibc keeps are no leak
    threads, size = len(all_threads()), resident_bytes()
    for _ in range(4_000):
        decoder.submit(sources, *FOREVER).cancel()
    assert search(decoder, sources, SearchSettings()) == expected
    wait_until_none_is_pending(decoder)
    assert len(all_threads()) <= threads  # those of other decoders may have ended meanwhile
    trim_memory()
    assert resident_bytes() < 1.08 * size


def resident_bytes() -> int:
    """The memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def tasks() -> set[str]:
    """The numbers of this process's threads, those of C++ among them."""
    return {path.name for path in Path("/proc/self/task").iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("sentences", [1, 20])
def test_a_thread_without_searches_sleeps(lib, sentences):
    """After searches that ended, were cancelled while they ran, or before they began."""
    before = tasks()
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    own = tasks() - before
    assert len(own) == 2  # one searches, one finishes searches
    search(decoder, texts(sentences), SearchSettings())
    for future in [decoder.submit(texts(sentences, 9), *FOREVER) for _ in range(9)]:
        future.cancel()
    asleep, deadline = 0, time.monotonic() + SECONDS
    while asleep < 50 and time.monotonic() < deadline:  # one that spins would not be asleep so often
        states = {(Path("/proc/self/task") / task / "stat").read_text().rpartition(")")[2][1] for task in own}
        asleep = asleep + 1 if states == {"S"} else 0
        time.sleep(0.001)
    assert asleep == 50


def test_the_threads_of_a_decoder_end_with_it(lib):
    others = set(all_threads())
    decoder = native(lib, model_of("as in the paper"), "float32", 3)
    search(decoder, texts(3), SearchSettings())
    (thread,) = set(all_threads()) - others
    del decoder
    thread.join(SECONDS)  # after it has waited for the threads in C++
    assert not thread.is_alive()


# A search that needs more memory than there is, and searches that share its batches.
SMALL = ModelSettings(d_model=16, d_ff=16, heads=2, encoder_layers=1, decoder_layers=2)
WIDE = ModelSettings(d_model=16, d_ff=16, heads=8, d_k=64, d_v=64, encoder_layers=1, decoder_layers=6)
SHORT_OF_MEMORY = f"""
import resource
import sys
import numpy
from dragoman.model.settings import ModelSettings
from dragoman.native.build import DECODER, load_library
from dragoman.native.decoder import NativeDecoder
from dragoman.search.hypothesis import Constraints
from dragoman.search.settings import SearchSettings

decoder = NativeDecoder(load_library(DECODER), {WIDE}, dict(numpy.load(sys.argv[1])), "float32", 1)
small = [[5, 6, 3]], SearchSettings(beam_size=1, max_length=400), Constraints(min_length=400)
settings = SearchSettings(beam_size=16, max_length=10_000, batch_tokens=10**6)
large = [[7, 3]], settings, Constraints(min_length=10_000)
brief = [[*[5, 6] * 15, 3]], SearchSettings(beam_size=1, max_length=3), Constraints(min_length=3)
decoder.submit(*large).cancel()  # the tables of its positions are kept
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 24 * 2**20, -1))
"""
# Small searches, for which there is enough memory, have begun a step when it is short.
RUNNING = f"""
futures = [decoder.submit(*each) for each in (small, large, small)]
assert isinstance(futures[1].exception({SECONDS}), MemoryError), futures[1]
one, other = (futures[number].result({SECONDS}) for number in (0, 2))
assert one == other == decoder.submit(*small).result({SECONDS})
"""
# Small searches whose sources need more memory than a step of the large one: it is short when one is encoded.
JOINING = f"""
future, found = decoder.submit(*large), []
while not future.done():
    found.append(decoder.submit(*brief).result({SECONDS}))
assert isinstance(future.exception(), MemoryError), future
assert all(each == decoder.submit(*brief).result({SECONDS}) for each in found)
"""


@pytest.mark.short_form(1)
@pytest.mark.parametrize("others", [RUNNING, JOINING], ids=["running", "joining"])
def test_a_search_that_memory_does_not_suffice_for_fails_alone(tmp_path, others):
    """In a process that never had more memory, and does not import PyTorch."""
    np.savez(tmp_path / "weights.npz", **numpy_weights(build_model(WIDE, 50, 50).eval()))
    command = [sys.executable, "-c", SHORT_OF_MEMORY + others, tmp_path / "weights.npz"]
    subprocess.run(command, check=True, timeout=MAX_SECONDS)


# Of all allocations in C++ the one that is asked for fails.
FAILING_NEW = """
#include <atomic>
#include <cstdlib>
#include <new>
static std::atomic<long> until_failure{-1};
extern "C" void fail_allocation(long number) { until_failure = number; }
extern "C" long allocations_left() { return until_failure; }
void* operator new(std::size_t size) {
    if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
    if (void* memory = std::malloc(size ? size : 1)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
"""
ANY_ALLOCATION = f"""
import ctypes
import random
import sys
import numpy
from dragoman.native.build import DECODER, load_library
from dragoman.native.decoder import NativeDecoder
from dragoman.model.settings import ModelSettings
from dragoman.search.settings import SearchSettings

decoder = NativeDecoder(load_library(DECODER), {SMALL}, dict(numpy.load(sys.argv[1])), "float32", 1)
failing, draw, short = ctypes.CDLL(sys.argv[2]), random.Random(3), 0
searches = [
    ([[*draw.choices(range(4, 50), k=draw.randint(1, 9)), 3] for _ in range(sentences)],
     SearchSettings(beam_size=beam_size, n_best=beam_size, max_extra_tokens=6, keep_tags=keep_tags))
    for sentences, beam_size, keep_tags in ((1, 1, True), (1, 3, False), (2, 2, True), (1, 4, False))
]


def found(future):
    n_best = future.result({SECONDS})
    return n_best, [[numpy.array(one.attention).tolist() for one in best] for best in n_best]


alone = [found(decoder.submit(*each)) for each in searches]
for number in sorted(draw.sample(range(600), 150)):
    failing.fail_allocation(number)
    failed = 0
    try:
        futures = [decoder.submit(*each) for each in searches]
    except MemoryError:
        continue
    for future, expected in zip(futures, alone):
        try:
            assert found(future) == expected, number
        except MemoryError:
            failed += 1
    assert failed <= 1
    short += failed
    failing.fail_allocation(-1)
    assert [found(decoder.submit(*each)) for each in searches] == alone, number
assert short > 20, short
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD")
def test_whichever_allocation_fails_the_other_searches_find_what_they_find_alone(tmp_path):
    np.savez(tmp_path / "weights.npz", **numpy_weights(build_model(SMALL, 50, 50).eval()))
    (tmp_path / "new.cpp").write_text(FAILING_NEW)
    library = tmp_path / "new.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "new.cpp", "-o", library], check=True)
    command = [sys.executable, "-c", ANY_ALLOCATION, tmp_path / "weights.npz", library]
    subprocess.run(command, check=True, timeout=MAX_SECONDS, env=os.environ | {"LD_PRELOAD": str(library)})


def random_search(draw: random.Random) -> tuple[list[list[int]], SearchSettings, Constraints]:
    """Sentences, settings and constraints."""
    beam_size = draw.choice([1, 2, 4, 5, 12, 40])
    settings = SearchSettings(
        beam_size=beam_size,
        n_best=draw.randint(1, beam_size),
        length_penalty=draw.choice([0.0, 0.6, 1.0]),
        max_extra_tokens=draw.choice([0, 5, 40]),
    )
    constraints = Constraints(
        min_length=draw.choice([0, 0, 3]),
        no_repeat_ngram=draw.choice([0, 0, 2]),
        prefix=draw.choice([[], [7, 9]]),
    )
    sentences = texts(draw.choice([1, 1, 1, 2, 7, 60]), draw.choice([3, 12, 60]), draw.random())
    return sentences[: 600 // beam_size], settings, constraints


@pytest.mark.short_form(1)
@pytest.mark.parametrize("count", [10, pytest.param(120, marks=pytest.mark.long)])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_searches_that_run_together_find_what_each_finds_alone(lib, precision, count):
    decoder = native(lib, model_of("as in the paper"), precision, 2)
    draw = random.Random(precision)
    searches = [random_search(draw) for _ in range(count)]
    alone = [search(decoder, *each) for each in searches]
    with ThreadPoolExecutor(24) as clients:
        together = list(
            clients.map(lambda each: search(decoder, *each), draw.sample(searches, len(searches)))
        )
    again = [future.result(SECONDS) for future in [decoder.submit(*each) for each in searches]]
    assert again == alone
    assert sorted(map(repr, together)) == sorted(map(repr, alone))


def test_ctrl_c_in_submit_ends_one_search_alone(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    submit = decoder._engine._submit

    def submit_then_interrupt(*asked):
        submit(*asked)
        raise KeyboardInterrupt

    decoder._engine._submit = submit_then_interrupt
    with pytest.raises(KeyboardInterrupt):
        decoder.submit(texts(1, 5), SearchSettings())
    decoder._engine._submit = submit
    assert search(decoder, texts(1, 5), SearchSettings())
    while decoder._engine._pending:
        time.sleep(0.01)


@pytest.mark.long
def test_a_forked_process_may_drop_the_parents_decoder(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 2)
    for _ in range(8):
        assert search(decoder, texts(1, 5), SearchSettings())
        if (child := os.fork()) == 0:
            signal.alarm(SECONDS)  # ends the child if it hangs
            decoder._engine._closing()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_search_of_many_sentences_leaves_places_to_others(lib):
    decoder = native(lib, model_of("as in the paper"), "float32", 1)
    settings, constraints = FOREVER
    settings = replace(settings, beam_size=4)
    large = decoder.submit(texts(50, 9), settings, constraints, max_rows=decoder.max_rows // 2)
    for seed in range(3):
        assert decoder.submit(texts(1, 5, seed), SearchSettings()).result(SECONDS)
    assert not large.done()
    large.cancel()


@pytest.mark.short_form(1)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_search_tells_what_all_its_hypotheses_share(lib, beam_size):
    model = model_of("as in the paper")
    decoder, settings = native(lib, model, "float32", 1), SearchSettings(beam_size=beam_size)
    sources = [*texts(2, 6), [3], *texts(2, 9, seed=2)]
    progress = Progress()
    found = decoder.submit(sources, settings, None, progress).result(SECONDS)
    for number, source in enumerate(sources):
        steps = beam_steps(model, torch.tensor([source]), settings, Constraints()) if source != [3] else []
        before_the_end = [[], *stable_prefixes(steps)][:-1][-1:]
        assert progress.ids(number) == [*chain(*before_the_end)]
        assert not found[number] or found[number][0].ids[: len(progress.ids(number))] == progress.ids(number)
    assert any(map(progress.ids, range(len(sources))))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("beam_size", [2, 8])
@pytest.mark.parametrize("tokens", [{7}, {7, 9}, {*range(4, 12)}], ids=len)
def test_what_is_told_during_a_search_is_where_every_result_begins(lib, beam_size, tokens):
    """A hypothesis that has finished may be the result, too. Of few tokens all live ones have the same."""
    draw, shorter = random.Random(beam_size), 0
    sources = [[*few_tokens(draw), END] for _ in range(3)]
    rules = Constraints(banned=[[token] for token in range(1, 12) if token not in {END, *tokens}])
    model = with_few_tokens(1)
    for most in range(1, 6):  # what is told is read after the last step but one
        settings, progress = SearchSettings(beam_size=beam_size, max_length=most), Progress()
        decoder = native(lib, model, "float32", 1)
        found = decoder.submit(sources, settings, rules, progress).result(SECONDS)
        for number, source in enumerate(sources):
            told, of_the_live = [[]], [0]
            for step in beam_steps(model, torch.tensor([source]), settings, rules):
                told += stable_prefixes([step])
                is_live = step.beam.live_log_probs[0] > -torch.inf
                of_the_live.append(common(step.beam.live[0, is_live, 1:].tolist()))
            assert progress.ids(number) == told[-2]
            assert found[number][0].ids[: len(told[-2])] == told[-2]
            shorter += len(told[-2]) < of_the_live[-2]
    assert shorter or len(tokens) > 1


def common(rows: list[list[int]]) -> int:
    """How many first tokens all rows share."""
    columns = enumerate(zip(*rows, strict=True))
    return next((place for place, tokens in columns if len({*tokens}) > 1), len(rows[0]) if rows else 0)

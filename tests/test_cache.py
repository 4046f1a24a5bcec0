"""The cache of the server: its answers are those without it, it is bounded, and it belongs to a model."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.plain import plain_text
from dragoman.native.build import DECODER, load_library
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.serving.app import make_app
from dragoman.serving.cache import Cache, Question
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.translation.translation import Translation
from tests.test_served_adapters import answers

V1 = "/v1/translate"
WORDS = st.lists(
    st.sampled_from(["amber", "birch", "cedar", "https://a.example", "\n"]), min_size=1, max_size=6
)
TEXTS = st.lists(WORDS.map(" ".join), min_size=1, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "beam_size": st.integers(1, 3),
        "prefix": st.sampled_from(["", "AMBER"]),
        "keep_tags": st.booleans(),
        "temperature": st.sampled_from([0, 0.7]),
        "terms": st.sampled_from([[], [["amber", "CEDAR"]]]),
    },
)


@pytest.fixture(scope="module")
def models(trained):
    load_library(DECODER)  # PyTorch searches until it is compiled, and rounds in another way
    return load_models([trained / "run"], EngineSettings())


def service_of(models, **limits):
    return Service(models, ServerSettings(**limits), Metrics())


@settings(max_examples=10)
@given(requests=st.lists(st.tuples(TEXTS, OPTIONS, st.booleans()), min_size=1, max_size=4), data=st.data())
def test_an_answer_of_the_cache_is_that_without_it(models, requests, data):
    bodies = [
        (f"{V1}/stream", {"text": texts[0], **options}) if is_stream else (V1, {"text": texts, **options})
        for texts, options, is_stream in requests
    ]
    bodies += data.draw(st.lists(st.sampled_from(bodies), min_size=1, max_size=6))
    kept, plain = (service_of(models, cache_bytes=size) for size in (10**6, 0))
    found, expected = (answers(make_app(service, None), *bodies) for service in (kept, plain))
    for one, other in zip(found, expected, strict=True):
        assert one.status_code == other.status_code
        # The pieces of a stream are those that a search has had when it was asked; its end is the answer.
        assert one.text.rpartition("event: ")[2] == other.text.rpartition("event: ")[2]
    assert plain.metrics.cached == {}
    asked = sum(
        not body.get("terms") and one.status_code == 200 for (_, body), one in zip(bodies, found, strict=True)
    )
    assert kept.metrics.cached.total() == asked
    assert kept.metrics.cached["miss"] <= len({json.dumps(body) for _, body in bodies})


def test_a_stream_and_a_plain_request_have_one_entry(models):
    service = service_of(models, cache_bytes=10**6)
    body = {"text": "amber birch. Cedar.", "n_best": 2}
    plain, stream, again = answers(make_app(service, None), (V1, body), (f"{V1}/stream", body), (V1, body))
    assert service.metrics.cached == {"miss": 1, "hit": 2}
    assert json.loads(stream.text.rpartition("data: ")[2]) == plain.json() == again.json()
    assert service.metrics.translated["run", ""].sentences == 2


def test_models_that_are_loaded_again_have_no_answers(trained, models):
    service = service_of(models, cache_bytes=10**6)
    app = make_app(service, None)
    answers(app, (V1, {"text": "amber"}), (V1, {"text": "amber"}))
    service.models = load_models([trained / "run"], EngineSettings())
    answers(app, (V1, {"text": "amber"}))
    assert service.metrics.cached == {"miss": 2, "hit": 1}


class Model:
    """What stands for a translator: the cache knows it by its identity alone."""


QUESTIONS = st.lists(
    st.tuples(st.text("ab é", max_size=50), st.integers(1, 3), st.integers(0, 20)), max_size=30
)


def entry(text, n_best, tokens):
    question = Question.of([plain_text(text + "x", "en")], SearchSettings(n_best=n_best, beam_size=3))
    best = [Translation(text, -1.0, -0.5, tuple(f"{text[:9]}{number}" for number in range(tokens)))] * n_best
    return question, [[best] * len(question.sentences[0])]


@given(QUESTIONS, st.integers(0, 20_000))
def test_the_cache_is_bounded_and_has_what_was_used_last(entries, max_bytes):
    cache, model, other = Cache(max_bytes), Model(), Model()
    for numbers in entries:
        question, results = entry(*numbers)
        cache.add(model, question, results)
        assert 0 <= cache.size <= max_bytes
        found = cache.find(model, question)
        assert found in (None, results)
        assert (found is None) == (cache.size == 0 or cache.find(model, question) is None)
        assert cache.find(other, question) is None
    assert cache.size == sum(each.size for each in cache._entries.values())
    if max_bytes == 20_000 and entries:
        assert cache.find(model, entry(*entries[-1])[0]) is not None


def test_a_full_cache_forgets_what_was_not_used_for_longest():
    model, cache = Model(), Cache(10**9)
    entries = [entry(f"text {number:02}", 1, 5) for number in range(9)]
    cache.add(model, *entries[0])
    size = cache.size
    cache = Cache(5 * size)
    for question, results in entries[:5]:
        cache.add(model, question, results)
    assert cache.find(model, entries[0][0]) == entries[0][1]
    for question, results in entries[5:8]:
        cache.add(model, question, results)
    known = [number for number, (question, _) in enumerate(entries) if cache.find(model, question)]
    assert known == [0, 4, 5, 6, 7]


def test_the_size_is_that_of_the_memory():
    """Within a factor of two, also for texts that share nothing."""
    cache, model = Cache(10**9), Model()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(300):
            cache.add(model, *entry(f"{number:03} " * 20, 2, 30))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / 2 <= cache.size <= 3 * used


def test_the_cache_keeps_no_model_alive():
    cache, model = Cache(10**6), Model()
    question, results = entry("a", 1, 1)
    cache.add(model, question, results)
    del model
    assert [each.translator() for each in cache._entries.values()] == [None]

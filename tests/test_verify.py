"""Exported and imported models are compared with the other engine, and each difference is refused."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.interop.verify import SEARCH, TOLERANCE, ReferenceEngine, log_probabilities, samples, verify
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.search.beam import greedy_search
from dragoman.system.errors import DragomanError
from tests.test_huggingface import SIZES, SOURCE, ours


@pytest.fixture
def engine_of_itself():
    """A model, an engine that is the same model, and its tokenizers."""
    model, tokenizers = ours(ModelSettings(**SIZES, tied="none"))

    @cache  # no test changes the model after the first search
    def written(*source):
        return greedy_search(model, torch.tensor([source]), SEARCH)[0][0].ids

    def greedy(source, max_length):
        return [*written(*source)]

    def encode(text):
        return [*tokenizers.source.encode([text])[0], END]

    def log_probs(source, target):
        with torch.no_grad():
            return log_probabilities(model, source, target)

    return (
        ReferenceEngine(
            "Other", encode, log_probs, greedy, tokenizers.target.decode, range(len(tokenizers.source))
        ),
        model,
        tokenizers,
    )


def test_a_model_agrees_with_itself(engine_of_itself):
    engine, model, tokenizers = engine_of_itself
    assert verify(engine, model, tokenizers, [*SOURCE, "", "\u200b"]) == 0.0


def test_every_difference_is_refused_with_its_message(engine_of_itself):
    engine, model, tokenizers = engine_of_itself
    for other, message in (
        (
            replace(engine, encode=lambda text: [5, END]),
            "Other tokenizes 'ein Mann fährt Rad' as .*, and Dragoman as ",
        ),
        (
            replace(engine, log_probs=lambda *ids: engine.log_probs(*ids) + 0.5),
            "disagree on the translation of .* differ by 0.5 nats, and 0.5 in the mean",
        ),
        (
            replace(engine, log_probs=lambda *ids: engine.log_probs(*ids) + torch.nan),
            "disagree on the translation",
        ),
        (
            replace(engine, greedy=lambda source, max_length: [7, 7]),
            "Other translates 'ein Mann fährt Rad' as .*, and Dragoman as ",
        ),
        (
            replace(engine, decode=lambda ids: "other"),
            "Other spells the translation of 'ein Mann fährt Rad' as 'other', and Dragoman as ",
        ),
        (
            replace(engine, longest=9),
            "The sample that begins with 'ein Mann fährt Rad' has [0-9]+ tokens and its translation may "
            "have [0-9]+, and Other with this model reads and writes at most 9; give shorter ones with",
        ),
    ):
        with pytest.raises(DragomanError, match=message):
            verify(other, model, tokenizers, SOURCE)


def test_quantized_weights_may_differ_within_their_tolerance_in_the_mean(engine_of_itself):
    engine, model, tokenizers = engine_of_itself
    quantized = replace(
        engine, quantized=True, greedy=None, log_probs=lambda *ids: engine.log_probs(*ids) + 0.1
    )
    assert verify(quantized, model, tokenizers, SOURCE) == pytest.approx(0.1, abs=1e-5)
    with pytest.raises(DragomanError, match="0.3 in the mean; 0.2 are allowed"):
        verify(
            replace(quantized, log_probs=lambda *ids: engine.log_probs(*ids) + 0.3), model, tokenizers, SOURCE
        )


def test_either_of_two_equally_likely_tokens_is_accepted(engine_of_itself):
    engine, model, tokenizers = engine_of_itself
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert verify(replace(engine, greedy=lambda source, max_length: [9, 8]), model, tokenizers, SOURCE) == 0.0


def test_samples_are_reproducible_and_within_the_maximum_length(engine_of_itself):
    _, _, tokenizers = engine_of_itself
    assert samples(tokenizers) == samples(tokenizers)
    assert all(len(ids) < 8 for ids in tokenizers.source.encode(samples(tokenizers, 8)))
    with pytest.raises(
        DragomanError,
        match="No sentence to compare with could be made from the model's vocabulary; give some",
    ):
        samples(tokenizers, 1)


def test_the_token_that_differs_is_counted_from_1_and_a_hundredth_of_a_nat_is_too_much(engine_of_itself):
    engine, model, tokenizers = engine_of_itself

    def changed_at(place, change):
        def log_probs(source, target):
            found = engine.log_probs(source, target)
            found[place] += change
            return found

        return replace(engine, log_probs=log_probs)

    assert verify(changed_at(1, 5e-4), model, tokenizers, SOURCE[:1]) == pytest.approx(5e-4, rel=0.1)
    for place in (0, 1):
        with pytest.raises(DragomanError, match=f"of token {place + 1} differ by 0.01 nats"):
            verify(changed_at(place, -0.01), model, tokenizers, SOURCE[:1])


def test_an_engine_may_be_as_long_as_the_longest_sample(engine_of_itself):
    engine, model, tokenizers = engine_of_itself
    (ids,) = tokenizers.source.encode(SOURCE[:1])
    longest = len(engine.greedy([*ids, END], 0)) + 1  # an untrained model does not end before the maximum
    assert verify(replace(engine, longest=longest), model, tokenizers, SOURCE[:1]) == 0
    with pytest.raises(DragomanError, match="The sample that begins with"):
        verify(replace(engine, longest=longest - 1), model, tokenizers, SOURCE[:1])
    assert max(map(len, tokenizers.source.encode(samples(tokenizers, 9)))) + 1 <= 9


@pytest.fixture(params=["all tokens", "the translation's own"])
def engine_of_some_tokens(request, engine_of_itself):
    """An engine that gives the log-probabilities of all tokens, or of the translation's own alone."""
    engine, model, tokenizers = engine_of_itself
    if request.param == "all tokens":
        return engine_of_itself

    def own(source, target):
        return engine.log_probs(source, target).gather(1, torch.tensor(target)[:, None])[:, 0]

    return replace(engine, log_probs=own), model, tokenizers


def with_differences(engine, differences):
    """The engine, with these differences of the translations' log-probabilities, a list for each call.

    A difference is of one token: where an engine gives all, of one that is not in the translation.
    """
    calls = iter(differences)

    def log_probs(source, target):
        found = engine.log_probs(source, target)
        for place, difference in enumerate(next(calls)):
            token = (...,) if found.dim() == 1 else ((target[place] + 1) % found.size(1),)
            found[(place, *token)] += difference
        return found

    return replace(engine, log_probs=log_probs)


@pytest.mark.short_form(1)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.floats(-8e-4, 8e-4), min_size=1, max_size=5), min_size=4, max_size=4))
def test_the_largest_difference_of_all_sentences_is_returned(engine_of_some_tokens, differences):
    engine, model, tokenizers = engine_of_some_tokens
    largest = max(abs(difference) for each in differences for difference in each)
    found = verify(with_differences(engine, differences), model, tokenizers, SOURCE)
    assert found == pytest.approx(largest, abs=2e-6)


@pytest.mark.short_form(1)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), st.sampled_from([-1, 1]), st.floats(2e-3, 9.0))
def test_one_token_that_differs_is_refused(engine_of_some_tokens, place, sign, size):
    engine, model, tokenizers = engine_of_some_tokens
    differences = [[0.0] * place + [sign * size]]
    with pytest.raises(DragomanError, match=f"of token {place + 1} differ by"):
        verify(with_differences(engine, differences), model, tokenizers, SOURCE[:1])
    with pytest.raises(DragomanError, match="disagree on the translation of 'der Schnee"):
        verify(with_differences(engine, [[], [], *differences]), model, tokenizers, SOURCE)


def test_single_tokens_of_quantized_weights_may_differ_more_than_their_mean(engine_of_some_tokens):
    engine, model, tokenizers = engine_of_some_tokens
    quantized = replace(engine, quantized=True, greedy=None)
    differences = [[0.0, -0.9]]  # of more than eight tokens
    assert verify(with_differences(quantized, differences), model, tokenizers, SOURCE[:1]) == pytest.approx(
        0.9, abs=1e-5
    )
    with pytest.raises(DragomanError, match="disagree on the translation"):
        verify(with_differences(quantized, [[0.9] * 9]), model, tokenizers, SOURCE[:1])


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_another_token_is_accepted_where_it_is_as_likely_as_ours_and_nowhere_else(engine_of_itself, data):
    """Also where the other translation ends before ours."""
    engine, model, tokenizers = engine_of_itself
    with torch.no_grad():
        model.output.weight.copy_(
            torch.randn(model.output.weight.shape, generator=torch.Generator().manual_seed(1))
        )
    source = engine.encode(SOURCE[0])
    ours = engine.greedy(source, 0)
    place = data.draw(st.integers(0, len(ours) - 1))
    each = engine.log_probs(source, [*ours, END])
    log_probs = each[place]
    token = data.draw(st.sampled_from([END, *log_probs.topk(2).indices.tolist(), ours[0], 7]))
    theirs = [*ours[:place], *([] if token == END else [token, *ours[place + 1 :]])]
    other = replace(engine, greedy=lambda *_: theirs)
    if log_probs[ours[place]] - log_probs[token] <= TOLERANCE:
        verify(other, model, tokenizers, SOURCE[:1])
    else:
        with pytest.raises(DragomanError, match="Other translates 'ein Mann fährt Rad' as"):
            verify(other, model, tokenizers, SOURCE[:1])


def test_without_a_maximum_all_samples_are_there_and_get_longer(engine_of_itself):
    _, _, tokenizers = engine_of_itself
    found = samples(tokenizers, count=30)
    assert len(found) == 30
    assert len(found[-1]) > len(found[0])

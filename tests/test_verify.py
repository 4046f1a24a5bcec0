"""Exported and imported models are compared with the other engine, and each difference is refused."""

from dataclasses import replace

import pytest
import torch

from dragoman.interop.verify import SEARCH, ReferenceEngine, log_probabilities, samples, verify
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.system.errors import DragomanError
from tests.test_huggingface import SIZES, SOURCE, ours


@pytest.fixture
def engine_of_itself():
    """A model, an engine that is the same model, and its tokenizers."""
    model, tokenizers = ours(ModelSettings(**SIZES))

    def greedy(source, max_length):
        from dragoman.search.beam import greedy_search

        return greedy_search(model, torch.tensor([source]), SEARCH)[0][0].ids

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
            "Other translates 'ein Mann fährt Rad' by .*, and Dragoman by ",
        ),
        (
            replace(engine, decode=lambda ids: "other"),
            "Other spells the translation of 'ein Mann fährt Rad' 'other', and Dragoman ",
        ),
        (
            replace(engine, longest=9),
            "The sample that begins with 'ein Mann fährt Rad' has [0-9]+ tokens, and Other with this model "
            "reads and",
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

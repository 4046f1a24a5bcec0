"""What is compared before a model leaves or stays, each difference told in a sentence."""

from dataclasses import replace

import pytest
import torch

from dragoman.interop.verify import SEARCH, Engine, log_probabilities, samples, verify
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.system.errors import DragomanError
from tests.test_huggingface import SIZES, SOURCE, ours


@pytest.fixture
def here():
    """A model, and an engine that is no other."""
    model, tokenizers = ours(ModelSettings(**SIZES))

    def greedy(source, most):
        from dragoman.search.beam import greedy_search

        return greedy_search(model, torch.tensor([source]), SEARCH)[0][0].ids

    def tokens(line):
        return [*tokenizers.source.encode([line])[0], END]

    def log_p(source, target):
        with torch.no_grad():
            return log_probabilities(model, source, target)

    return (
        Engine("Other", tokens, log_p, greedy, tokenizers.target.decode, range(len(tokenizers.source))),
        model,
        tokenizers,
    )


def test_a_model_agrees_with_itself(here):
    engine, model, tokenizers = here
    assert verify(engine, model, tokenizers, [*SOURCE, "", "\u200b"]) == 0.0


def test_every_difference_is_told(here):
    engine, model, tokenizers = here
    for other, message in (
        (
            replace(engine, tokens=lambda line: [5, END]),
            "Other cuts 'ein Mann fährt Rad' into .*, and Dragoman into ",
        ),
        (
            replace(engine, log_p=lambda *ids: engine.log_p(*ids) + 0.5),
            "disagree on the translation of .* differ by 0.5 nats, and 0.5 in the mean",
        ),
        (replace(engine, log_p=lambda *ids: engine.log_p(*ids) + torch.nan), "disagree on the translation"),
        (
            replace(engine, greedy=lambda source, most: [7, 7]),
            "Other translates 'ein Mann fährt Rad' by .*, and Dragoman by ",
        ),
        (
            replace(engine, text=lambda ids: "other"),
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


def test_rounded_weights_may_differ_a_little_in_the_mean(here):
    engine, model, tokenizers = here
    rounded = replace(engine, rounded=True, greedy=None, log_p=lambda *ids: engine.log_p(*ids) + 0.1)
    assert verify(rounded, model, tokenizers, SOURCE) == pytest.approx(0.1, abs=1e-5)
    with pytest.raises(DragomanError, match="0.3 in the mean; 0.2 are allowed"):
        verify(replace(rounded, log_p=lambda *ids: engine.log_p(*ids) + 0.3), model, tokenizers, SOURCE)


def test_of_two_tokens_that_are_equally_likely_each_may_be_written(here):
    engine, model, tokenizers = here
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert verify(replace(engine, greedy=lambda source, most: [9, 8]), model, tokenizers, SOURCE) == 0.0


def test_samples_are_of_known_tokens_and_not_too_long(here):
    _, _, tokenizers = here
    assert samples(tokenizers) == samples(tokenizers)
    assert all(len(ids) < 8 for ids in tokenizers.source.encode(samples(tokenizers, 8)))
    with pytest.raises(
        DragomanError,
        match="No sentence to compare with could be made of the model's vocabulary; give some with --samples",
    ):
        samples(tokenizers, 1)

"""Minimum Bayes risk against its definition."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dragoman.translation.mbr import minimum_bayes_risk

TEXTS = st.lists(st.sampled_from(["a", "ab", "abc d", "abc de", "cde", "x y", ""]), min_size=1, max_size=6)


@settings(max_examples=60)
@given(TEXTS)
def test_the_text_with_the_highest_mean_chrf_to_all_is_chosen_and_of_equal_ones_the_first(texts):
    score = CHRF().sentence_score
    means = [sum(score(text, [other]).score for other in texts) / len(texts) for text in texts]
    chosen = minimum_bayes_risk(texts)
    assert means[chosen] > max(means) - 1e-9
    assert texts.index(texts[chosen]) == chosen

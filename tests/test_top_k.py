"""The best extensions of hypotheses, against a stable sort of all of them."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.search.top_k import sort_key, top_k_extensions

VALUES = st.sampled_from([-torch.inf, -3.0, -2.5, -1.0, -0.0, 0.0, 0.5])


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 150), st.integers(0, 2**31), st.booleans())
def test_the_best_of_all_extensions_in_order_ties_by_hypothesis_and_token(
    sentences, width, vocabulary, seed, ties
):
    torch.manual_seed(seed)
    log_p, before = torch.randn(sentences, width, vocabulary), torch.randn(sentences, width)
    if ties:
        log_p, before = log_p.round(), before.round()
    count = min(2 * width, width * vocabulary)
    total = (log_p + before[:, :, None]).flatten(1)
    expected, place = total.sort(dim=1, descending=True, stable=True)
    found, origin, token = top_k_extensions(log_p, before, count)
    assert torch.equal(found, expected[:, :count])
    assert torch.equal(origin * vocabulary + token, place[:, :count])


@settings(max_examples=50)
@given(st.lists(VALUES, min_size=2, max_size=8))
def test_integers_order_as_the_numbers_do_and_equal_ones_by_place(values):
    value = torch.tensor([values])
    keys = sort_key(value, torch.arange(len(values)))[0].tolist()
    assert sorted(range(len(values)), key=lambda place: -keys[place]) == sorted(
        range(len(values)), key=lambda place: (-values[place], place)
    )

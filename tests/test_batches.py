"""Batches under two caps, shuffled by seed and epoch, parted by rank (hypothesis)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DragomanError
from dragoman.model.symbols import END, PAD, START
from dragoman.text.batches import Batches, pad
from dragoman.text.corpus import Corpus


class Pairs(Corpus):
    """A corpus in memory."""

    def __init__(self, lengths):
        self.pairs = [(np.full(source, 5), np.full(target, 6)) for source, target in lengths]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, pair):
        return self.pairs[pair]

    def lengths(self):
        return tuple(np.array([len(pair[side]) for pair in self.pairs], np.int32) for side in (0, 1))


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(31, 200), st.integers(31, 200), st.integers(0, 3))
def test_every_pair_is_in_one_batch_of_an_epoch_and_both_caps_hold(lengths, source_cap, target_cap, epoch):
    batches = Batches(Pairs(lengths), source_cap, target_cap, seed=1)
    plan = batches.plan(epoch)
    assert sorted(pair for pairs in plan for pair in pairs) == list(range(len(lengths)))
    for pairs in plan:
        batch = batches.load(pairs)
        assert batch.source.numel() <= source_cap
        assert batch.target_in.numel() <= target_cap
        assert batch.tokens == sum(lengths[pair][1] + 1 for pair in pairs)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 4))
def test_ranks_get_disjoint_batches_each_the_same_number(lengths, ranks):
    whole = Batches(Pairs(lengths), 60, 60, seed=1).plan(0)
    if len(whole) < ranks:
        with pytest.raises(DragomanError, match=f"makes {len(whole)} batches, too few for {ranks} processes"):
            Batches(Pairs(lengths), 60, 60, seed=1, ranks=ranks).plan(0)
        return
    plans = [Batches(Pairs(lengths), 60, 60, seed=1, rank=rank, ranks=ranks).plan(0) for rank in range(ranks)]
    assert len({len(plan) for plan in plans}) == 1
    pairs = [pair for plan in plans for batch in plan for pair in batch]
    assert len(pairs) == len(set(pairs))
    assert sum(map(len, plans)) == len(whole) // ranks * ranks


def test_the_order_depends_on_seed_and_epoch_alone():
    corpus = Pairs([(length % 7 + 1, length % 5 + 1) for length in range(60)])

    def order(seed, epoch):
        return [pairs.tolist() for pairs in Batches(corpus, 40, 40, seed).plan(epoch)]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_batches_go_on_from_any_place():
    batches = Batches(Pairs([(3, 3)] * 20), 12, 12, seed=0)

    def first(count, epoch, done):
        stream = batches.after(epoch, done)
        return [(at, number, batch.pairs) for at, number, batch in (next(stream) for _ in range(count))]

    assert first(12, 0, 0)[5:] == first(7, 0, 5)
    assert first(12, 0, 0)[9:] == first(3, 1, 2)
    assert [at for at, _, _ in first(9, 0, 0)] == [0] * 7 + [1] * 2


def test_a_batch_is_shifted_and_padded():
    batch = Batches(Pairs([(2, 1), (1, 3)]), 40, 40, seed=0).load(np.array([0, 1]))
    assert batch.source.tolist() == [[5, 5, END], [5, END, PAD]]
    assert batch.target_in.tolist() == [[START, 6, PAD, PAD], [START, 6, 6, 6]]
    assert batch.target_out.tolist() == [[6, END, PAD, PAD], [6, 6, 6, END]]
    assert pad([[1], [2, 3]]).tolist() == [[1, 0], [2, 3]]


def test_a_pair_longer_than_a_batch_is_named():
    with pytest.raises(DragomanError, match="has 9 target tokens, and a batch may have 8. Raise target_tokens_per_batch, or lower longest"):
        Batches(Pairs([(2, 8)]), 8, 8, seed=0)

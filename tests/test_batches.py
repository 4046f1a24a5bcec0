"""Batches keep both caps, are shuffled by seed and epoch, and are shared by ranks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.symbols import END, PAD, START
from dragoman.pipeline.autoconfigure import choose_from_text
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.batches import PAIRS_MULTIPLE, Batches, pad
from dragoman.text.corpus import Corpus, CorpusStatistics
from dragoman.text.settings import TokenizerSettings
from dragoman.text.shares import share_batches
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers


class Pairs(Corpus):
    """A corpus in memory."""

    statistics = CorpusStatistics()

    def __init__(self, lengths):
        self.pairs = [(np.full(source, 5), np.full(target, 6)) for source, target in lengths]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, pair):
        return self.pairs[pair]

    def lengths(self):
        return tuple(np.array([len(pair[side]) for pair in self.pairs], np.int32) for side in (0, 1))


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


@settings(max_examples=25)
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
        assert (
            len(batch.prediction_indices.unique())
            == len(batch.prediction_indices)
            == min(-(-batch.tokens // 64) * 64, batch.target_in.numel())
        )
        assert PAD not in batch.gold
    odd = [pairs for pairs in plan if len(pairs) > PAIRS_MULTIPLE and len(pairs) % PAIRS_MULTIPLE]
    assert len(odd) <= 1, "the last that is cut"


@settings(max_examples=25)
@given(LENGTHS, st.integers(1, 4), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 60)))
def test_the_ranks_together_compute_the_update_of_one_process(lengths, accumulate, ranks, micro_batch_tokens):
    corpus = Pairs(lengths)
    whole = first_updates(Batches(corpus, 60, 60, 1, accumulate), 4)
    shares = [
        first_updates(Batches(corpus, 60, 60, 1, accumulate, micro_batch_tokens, rank, ranks), 4)
        for rank in range(ranks)
    ]
    for update, *mine in zip(whole, *shares, strict=True):
        assert sorted(pair for share in mine for batch in share.batches for pair in batch.pairs) == sorted(
            pair for batch in update.batches for pair in batch.pairs
        )
        assert sum(batch.tokens for share in mine for batch in share.batches) == update.tokens
        for share in mine:
            assert (share.epoch, share.batches_done, share.tokens) == (
                update.epoch,
                update.batches_done,
                update.tokens,
            )
            assert share.batches
            for batch in share.batches:
                assert (
                    micro_batch_tokens is None
                    or len(batch.pairs) <= 1
                    or max(batch.source.numel(), batch.target_in.numel()) <= micro_batch_tokens
                )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 9000)), min_size=1, max_size=5), st.booleans())
def test_the_chosen_batches_have_room_for_every_pair_that_longest_admits(lengths, gpu):
    corpus, tokenizer = Pairs(lengths), Tokenizer.train(["a b"], "word", TokenizerSettings(), 10)
    data = PreparedData(Tokenizers(tokenizer, tokenizer), corpus, corpus, [], [], 0)
    recipe, _ = choose_from_text(Recipe(), data, int(corpus.lengths()[1].sum()) + len(lengths), gpu)
    caps = recipe.batches.source_tokens_per_batch, recipe.batches.target_tokens_per_batch
    plan = Batches(corpus, *caps, seed=1).plan(0)
    assert sorted(pair for pairs in plan for pair in pairs) == list(range(len(lengths)))


def first_updates(batches, count):
    stream = batches.updates(0, 0)
    return [next(stream) for _ in range(count)]


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_each_rank_has_the_longest_pair_of_a_batch_now_and_then(ranks):
    lengths, having = np.full(100, 7, np.int32), set()
    for first in range(ranks):
        batch = np.arange(first, first + 2 * ranks + 1)
        shares = [share_batches([batch], lengths, rank, ranks) for rank in range(ranks)]
        assert sorted(pair for share in shares for part in share for pair in part) == batch.tolist()
        having |= {rank for rank, share in enumerate(shares) if any(batch[0] in part for part in share)}
    assert having == {*range(ranks)}


def test_ranks_get_about_the_same_number_of_tokens_in_total():
    corpus = Pairs([(length % 23 + 1, length % 29 + 1) for length in range(2000)])
    shares = [first_updates(Batches(corpus, 500, 500, 1, rank=rank, ranks=4), 40) for rank in range(4)]
    totals = np.array([sum(batch.tokens for update in share for batch in update.batches) for share in shares])
    assert totals.max() / totals.min() < 1.05


@pytest.mark.parametrize(("accumulate", "most"), [(1, 1.15), (3, 1.15), (8, 1.3)])
def test_ranks_get_about_the_same_number_of_tokens_in_every_update(accumulate, most):
    """Whole batches are dealt out where they can be: there are as full as the caps allow on one side."""
    corpus = Pairs([(length % 23 + 5, length % 29 + 5) for length in range(5000)])
    shares = [
        first_updates(Batches(corpus, 900, 900, 1, accumulate, rank=rank, ranks=2), 12) for rank in range(2)
    ]
    tokens = np.array(
        [[sum(batch.tokens for batch in update.batches) for update in share] for share in shares]
    )
    assert (tokens.max(0) / tokens.min(0)).max() < most


@given(LENGTHS)
@settings(max_examples=30)
def test_the_halves_of_a_batch_have_its_pairs_and_tokens(lengths):
    batch = Batches(Pairs(lengths), 31, 31, seed=1).load(range(len(lengths)))
    halves = batch.halves()
    assert sorted(pair for half in halves for pair in half.pairs) == batch.pairs
    assert sum(half.tokens for half in halves) == batch.tokens
    assert sorted(token for half in halves for token in half.gold.tolist()) == sorted(batch.gold.tolist())


def test_the_plan_depends_on_seed_and_epoch_alone():
    corpus = Pairs([(length % 7 + 1, length % 5 + 1) for length in range(60)])

    def order(seed, epoch):
        return [pairs.tolist() for pairs in Batches(corpus, 40, 40, seed).plan(epoch)]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_updates_resume_after_any_batch_of_any_epoch():
    batches = Batches(Pairs([(3, 3)] * 20), 12, 12, seed=0)

    def first(count, epoch, done):
        stream = batches.updates(epoch, done)
        updates = [next(stream) for _ in range(count)]
        return [(update.epoch, update.batches_done, update.batches[0].pairs) for update in updates]

    assert first(12, 0, 0)[5:] == first(7, 0, 5)
    assert first(12, 0, 0)[9:] == first(3, 1, 2)
    assert [at for at, _, _ in first(9, 0, 0)] == [0] * 7 + [1] * 2


def test_rows_are_padded_and_decoder_inputs_are_shifted():
    batch = Batches(Pairs([(2, 1), (1, 3)]), 40, 40, seed=0).load(np.array([0, 1]))
    assert batch.source.tolist() == [[5, 5, END], [5, END, PAD]]
    assert batch.target_in.tolist() == [[START, 6, PAD, PAD], [START, 6, 6, 6]]
    assert batch.target_out.tolist() == [[6, END, PAD, PAD], [6, 6, 6, END]]
    assert batch.gold.tolist() == [6, END, 6, 6, 6, END]
    assert pad([[1], [2, 3]]).tolist() == [[1, 0], [2, 3]]
    assert pad([[1], [2, 3]], END).tolist() == [[1, END, 0], [2, 3, END]]


def test_a_pair_longer_than_a_batch_is_refused():
    with pytest.raises(
        DragomanError,
        match="has 9 target tokens, and a batch may have 8. Raise target_tokens_per_batch, or lower longest",
    ):
        Batches(Pairs([(2, 8)]), 8, 8, seed=0)


def test_the_order_of_batches_is_random_and_not_by_length():
    lengths = [(1 + number % 30, 1 + number % 30) for number in range(600)]
    targets = [
        max(lengths[pair][1] for pair in pairs) for pairs in Batches(Pairs(lengths), 200, 200, seed=1).plan(0)
    ]
    assert len(targets) > 30
    rising = sum(one <= other for one, other in itertools.pairwise(targets))
    assert 0.25 * len(targets) < rising < 0.75 * len(targets)

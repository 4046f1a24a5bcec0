"""Subword regularisation: copies of the training text in sampled tokens, with the same text and order."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from dragoman.pipeline import autoconfigure
from dragoman.pipeline.conversion import prepare_converted
from dragoman.pipeline.prepare import PreparedData, make_batches, prepare
from dragoman.pipeline.run import run
from dragoman.system.errors import DragomanError
from dragoman.text.corpus import Corpus, CorpusStatistics, PairFilter, write_corpus
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.subword_sampling import Sampler, sample_copies
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import checkpoints
from dragoman.training.world import World
from tests.conftest import small_recipe, write_copies

BPE = TokenizerSettings(vocabulary=340, bpe_dropout=0.3, sampled_copies=3)
UNIGRAM = TokenizerSettings("unigram", vocabulary=330, sampling_alpha=0.3, sampled_copies=3)


def prepared(folder, out, settings):
    recipe = replace(small_recipe(folder, folder / out), tokenizer=settings)
    prepare(folder / out, recipe, lambda _: None)
    return recipe, PreparedData.load(folder / out / "data")


@pytest.mark.parametrize(
    "settings", [BPE, UNIGRAM, replace(BPE, share_vocabulary=False)], ids=["bpe", "unigram", "two"]
)
def test_each_copy_is_the_same_text_in_other_tokens(tmp_path, settings):
    recipe, data = prepared(tmp_path, "one", settings)
    _, plain = prepared(tmp_path, "plain", replace(settings, bpe_dropout=0.0, sampling_alpha=0.0))
    size = len(plain.train)
    assert len(data.train) == 3 * size
    assert data.train.statistics.kept == size
    sides = data.tokenizers.source, data.tokenizers.target
    for pair in range(3 * size):
        assert data.train.line_number(pair) == plain.train.line_number(pair % size)
        for tokenizer, ids, own in zip(sides, data.train[pair], plain.train[pair % size], strict=True):
            assert tokenizer.decode(ids.tolist()) == tokenizer.decode(own.tolist())
    copies = [[data.train[n * size + pair][0].tolist() for pair in range(size)] for n in range(3)]
    assert copies[0] != copies[1] != copies[2]
    for pair in range(len(plain.valid)):  # validation is not sampled
        assert all(map(np.array_equal, data.valid[pair], plain.valid[pair]))
    batches = make_batches(recipe, data, World())
    for epoch in range(4):
        first = epoch % 3 * size
        assert sorted(np.concatenate(batches.plan(epoch))) == list(range(first, first + size))


def test_copies_of_several_shards_have_the_same_text_in_the_same_order(tmp_path):
    recipe, data = prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))
    files = recipe.data.source, recipe.data.target
    paths, train = data.tokenizers.paths(tmp_path / "plain" / "data"), tmp_path / "train"
    write_corpus(train, files, paths, recipe.data, PairFilter(), CorpusStatistics(), shard_lines=40)
    plain = list(Corpus(train))
    sample_copies(tmp_path, files, paths, recipe.data, BPE, shard_lines=40)
    copies = list(Corpus(train))
    assert len(copies) == 3 * len(plain) > 3 * 40
    for side, tokenizer in enumerate((data.tokenizers.source, data.tokenizers.target)):
        texts = [[tokenizer.decode(pair[side].tolist()) for pair in corpus] for corpus in (plain, copies)]
        assert texts[1] == 3 * texts[0]


def test_almost_no_dropout_is_the_ordinary_corpus(tmp_path):
    prepared(tmp_path, "one", replace(BPE, bpe_dropout=1e-12, sampled_copies=1))
    prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))
    texts = [tmp_path / out / "data" / "train" for out in ("one", "plain")]
    names = [sorted(folder.glob("*.npy")) for folder in texts]
    assert len(names[0]) == 5
    assert [path.read_bytes() for path in names[0]] == [path.read_bytes() for path in names[1]]


def test_weights_and_tags_hold_in_every_copy(tmp_path):
    first, second = write_copies(tmp_path, "first", 60), write_copies(tmp_path, "second", 40, seed=1)
    corpora = WeightedCorpus(*first, 1.0), WeightedCorpus(*second, 3.0, "<bt>")
    recipe = replace(
        small_recipe(tmp_path, tmp_path / "run"), data=DataSettings(corpus=corpora), tokenizer=UNIGRAM
    )
    prepare_converted(tmp_path / "run", recipe, recipe.data, lambda _: None)
    data = PreparedData.load(tmp_path / "run" / "data")
    ((*_, tag),) = data.tokenizers.source.encode(["<bt>"])
    tagged = np.array([tag in data.train[pair][0] for pair in range(len(data.train))])
    assert [data.train.line_number(pair) > 60 for pair in range(len(data.train))] == tagged.tolist()
    for epoch in range(3):
        pairs = np.concatenate(make_batches(recipe, data, World()).plan(epoch))
        assert set(pairs * 3 // len(data.train)) == {epoch}
        assert abs(tagged[pairs].mean() - 0.75) < 0.03


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, monkeypatch):
    monkeypatch.setattr(autoconfigure, "LEAST_SECONDS", 0.0)
    recipe = replace(small_recipe(tmp_path, tmp_path / "whole", updates=16, warmup_steps=4), tokenizer=BPE)
    recipe = replace(recipe, batches=replace(recipe.batches, accumulate=8))
    stopped = replace(recipe, out=tmp_path / "stopped")

    def copy(words):
        if words.startswith("Validation at update 8"):  # as if the run had ended here
            shutil.copytree(recipe.out, stopped.out)

    run(recipe, copy)
    run(stopped, lambda _: None)
    weights = [checkpoints(folder)[-1] / "model.safetensors" for folder in (recipe.out, stopped.out)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("value", [-0.1, 1.0])
@pytest.mark.parametrize("name", ["bpe_dropout", "sampling_alpha"])
def test_values_out_of_bounds_are_refused(name, value):
    with pytest.raises(DragomanError, match=f"{name} is {value}; it must be"):
        TokenizerSettings(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_tokens": "word"}, "bpe_dropout is for bpe tokens, and source_tokens is word"),
        ({"target_tokens": "char", "share_vocabulary": False}, "for bpe tokens, and target_tokens is char"),
        ({"sampling_alpha": 0.1}, "give one of them"),
        ({"sampled_copies": 0}, "sampled_copies is 0; it must be at least 1 and at most 100"),
    ],
)
def test_contradictions_are_refused(changes, message):
    with pytest.raises(DragomanError, match=message):
        replace(BPE, **changes)


@pytest.mark.parametrize("kind", ["word", "char"])
def test_a_tokenizer_with_one_segmentation_is_refused(kind):
    tokenizer = Tokenizer.train(["a b"], kind, TokenizerSettings(), 10)
    with pytest.raises(DragomanError, match="This tokenizer cannot sample segmentations"):
        Sampler(tokenizer, 0.1)

"""Subword regularisation: copies of the training text in sampled tokens, with the same text and order."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from dragoman.pipeline.autoconfigure import autoconfigure
from dragoman.pipeline.conversion import prepare_converted
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.run import run
from dragoman.system import processors
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.text.corpus import Corpus, CorpusStatistics, PairFilter, write_corpus
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.text.subword_sampling import make_sampler, sample_copies
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import checkpoints
from dragoman.training.world import World
from tests.conftest import small_recipe, write_copies

BPE = TokenizerSettings(vocabulary=340, bpe_dropout=0.3, sampled_copies=3)
UNIGRAM = TokenizerSettings("unigram", vocabulary=330, sampling_alpha=0.3, sampled_copies=3)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Samples are written here, unless a test is about several processes: each one has to be started."""
    monkeypatch.setattr(processors, "granted_processors", lambda: 1)


def prepared(folder, out, settings):
    recipe = replace(small_recipe(folder, folder / out), tokenizer=settings)
    prepare(folder / out, recipe)
    return recipe, PreparedData.load(folder / out / "data")


@pytest.mark.short_form(1)
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


def sampled(folder, plain, settings, seed, shard_lines):
    """The ids of the sampled copies of a prepared text, side by side."""
    recipe, data = plain
    files, paths = (recipe.data.source, recipe.data.target), data.tokenizers.paths(recipe.out / "data")
    write_corpus(folder / "train", files, paths, recipe.data, PairFilter(), CorpusStatistics(), shard_lines)
    sample_copies(folder, files, paths, recipe.data, settings, seed, shard_lines)
    return [[side.tolist() for side in pair] for pair in Corpus(folder / "train")]


@pytest.mark.long
@pytest.mark.parametrize("settings", [BPE, UNIGRAM], ids=["bpe", "unigram"])
def test_the_seed_alone_determines_the_samples(tmp_path, monkeypatch, settings):
    plain = prepared(tmp_path, "plain", replace(settings, bpe_dropout=0.0, sampling_alpha=0.0))
    one = sampled(tmp_path / "one", plain, settings, 1, 10_000)
    assert sampled(tmp_path / "again", plain, settings, 1, 10_000) == one
    assert sampled(tmp_path / "other", plain, settings, 2, 10_000) != one
    if settings is BPE:  # processes take a second to start
        monkeypatch.setattr(processors, "granted_processors", lambda: 2)
    assert sampled(tmp_path / "shards", plain, settings, 1, 40) == one


@pytest.mark.long
def test_a_recipe_has_the_samples_of_its_seed(tmp_path):
    folders = [prepared(tmp_path, out, BPE)[0].out / "data" / "train" for out in ("one", "again")]
    one, again = ([path.read_bytes() for path in sorted(folder.glob("*.npy"))] for folder in folders)
    assert one == again


def test_a_sample_that_is_too_long_is_left_for_the_ordinary_segmentation(tmp_path):
    recipe, data = prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))
    settings = replace(BPE, bpe_dropout=0.7, sampled_copies=1)
    ordinary = sampled(tmp_path / "ordinary", (recipe, data), replace(BPE, bpe_dropout=1e-12), 1, 10_000)
    free = sampled(tmp_path / "free", (recipe, data), settings, 1, 10_000)
    longest = max(len(side) for pair in ordinary for side in pair)
    assert longest in [len(side) for pair in free for side in pair]
    recipe = replace(recipe, data=replace(recipe.data, longest=longest))
    limited = sampled(tmp_path / "limited", (recipe, data), settings, 1, 10_000)
    sides = [[side for pair in pairs for side in pair] for pairs in (free, limited)]
    assert sides[1] == [
        side if len(side) <= longest else own
        for side, own in zip(sides[0], (side for pair in ordinary for side in pair), strict=False)
    ]


@pytest.mark.long
def test_without_a_bound_of_length_the_samples_are_those_of_a_bound_that_no_text_reaches(tmp_path):
    recipe, data = prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))

    def samples(longest):
        bounded = replace(recipe, data=replace(recipe.data, longest=longest))
        return sampled(tmp_path / str(longest), (bounded, data), BPE, 1, 99)

    assert samples(0) == samples(10**6)


def test_the_sides_of_a_pair_are_sampled_apart(tmp_path):
    recipe, data = prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))
    recipe = replace(recipe, data=replace(recipe.data, target=recipe.data.source))
    copies = sampled(tmp_path, (recipe, data), replace(BPE, bpe_dropout=0.5), 1, 10_000)
    assert any(source != target for source, target in copies)
    for source, target in copies:
        assert data.tokenizers.source.decode(source) == data.tokenizers.source.decode(target)


def test_almost_no_dropout_is_the_ordinary_corpus(tmp_path):
    prepared(tmp_path, "one", replace(BPE, bpe_dropout=1e-12, sampled_copies=1))
    prepared(tmp_path, "plain", replace(BPE, bpe_dropout=0.0))
    texts = [tmp_path / out / "data" / "train" for out in ("one", "plain")]
    names = [sorted(folder.glob("*.npy")) for folder in texts]
    assert len(names[0]) == 5
    assert [path.read_bytes() for path in names[0]] == [path.read_bytes() for path in names[1]]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("settings", [BPE, replace(UNIGRAM, sampled_copies=7)], ids=["bpe", "unigram"])
def test_the_batch_size_is_chosen_for_one_copy_of_the_text(tmp_path, monkeypatch, settings):
    monkeypatch.setattr("dragoman.pipeline.autoconfigure.choose_batch_tokens", lambda tokens, gpu: tokens)
    recipe, data = prepared(tmp_path, "run", settings)
    chosen = autoconfigure(replace(recipe, batches=BatchSettings()), data, World()).batches
    tokens = sum(len(target) + 1 for _, target in data.train) // settings.sampled_copies  # with END
    assert chosen.source_tokens_per_batch == chosen.target_tokens_per_batch == tokens


def test_weights_and_tags_hold_in_every_copy(tmp_path):
    first, second = write_copies(tmp_path, "first", 60), write_copies(tmp_path, "second", 40, seed=1)
    corpora = WeightedCorpus(*first, 1.0), WeightedCorpus(*second, 3.0, "<bt>")
    recipe = replace(
        small_recipe(tmp_path, tmp_path / "run"), data=DataSettings(corpus=corpora), tokenizer=UNIGRAM
    )
    prepare_converted(tmp_path / "run", recipe, recipe.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    ((*_, tag),) = data.tokenizers.source.encode(["<bt>"])
    tagged = np.array([tag in data.train[pair][0] for pair in range(len(data.train))])
    assert [data.train.line_number(pair) > 60 for pair in range(len(data.train))] == tagged.tolist()
    for epoch in range(3):
        pairs = np.concatenate(make_batches(recipe, data, World()).plan(epoch))
        assert set(pairs * 3 // len(data.train)) == {epoch}
        assert abs(tagged[pairs].mean() - 0.75) < 0.03


@pytest.mark.long
@pytest.mark.parametrize("settings", [BPE, UNIGRAM])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, settings):
    recipe = replace(
        small_recipe(tmp_path, tmp_path / "whole", updates=16, warmup_steps=4), tokenizer=settings
    )
    recipe = replace(recipe, batches=replace(recipe.batches, accumulate=4))
    stopped = replace(recipe, out=tmp_path / "stopped")

    def copy(words):
        if words.startswith("Validation at update 8"):  # as if the run had ended here
            shutil.copytree(recipe.out, stopped.out)

    with messages_to(copy):
        run(recipe)
    run(stopped)
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
        (
            {"sampling_alpha": 0.1},
            "bpe_dropout and sampling_alpha exclude each other: the one is for BPE tokens",
        ),
        ({"sampled_copies": 0}, "sampled_copies is 0; it must be at least 1"),
    ],
)
def test_contradictions_are_refused(changes, message):
    with pytest.raises(DragomanError, match=message):
        replace(BPE, **changes)


@pytest.mark.parametrize("kind", ["word", "char", "unigram"])
def test_a_tokenizer_of_other_tokens_is_refused(kind):
    tokenizer = Tokenizer.train(["a b"] * 9, kind, TokenizerSettings(byte_fallback=False), 10)
    message = f"bpe_dropout is for bpe tokens, and those of this tokenizer are {kind}; leave bpe_dropout out"
    with pytest.raises(DragomanError, match=message):
        make_sampler(tokenizer, BPE)


def test_words_that_subword_nmt_splits_are_refused():
    words = Tokenizer.train(["a b"], "word", TokenizerSettings(), 10)
    with pytest.raises(DragomanError, match="sampling_alpha is for unigram tokens, and those of this token"):
        make_sampler(Tokenizer(words.model, "#version: 0.2\na b\n"), UNIGRAM)

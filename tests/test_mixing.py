"""Corpora are mixed by their weights: exact shares, the same for the same seed, tags as one token."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.build import build_model
from dragoman.pipeline.autoconfigure import tokens_per_update
from dragoman.pipeline.conversion import prepare_converted, refuse_unknown_tags
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.pipeline.run import run
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.system.toml import overlay, to_table
from dragoman.text.conversion import without_tag
from dragoman.text.mixing import draw_by_weight, mix
from dragoman.text.mixture import SPECIAL, WeightedCorpus, check_symbols
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import SPACE
from dragoman.training.checkpoint import checkpoints
from dragoman.training.world import World
from dragoman.translation.model_folder import Tokenizers, model_hash, save_model
from tests.conftest import TINY, small_recipe, write_copies

# ---- the law

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@given(data=st.data(), sizes=SIZES, seed=st.integers(0, 99), epochs=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_shares_are_exact_and_no_pair_is_used_before_its_turn(data, sizes, seed, epochs):
    weight = st.floats(0, 10).filter(lambda x: x == 0 or x > 0.01)
    weights = data.draw(st.lists(weight, min_size=len(sizes), max_size=len(sizes)).filter(any))
    pairs = data.draw(st.integers(0, 200))
    drawn = np.concatenate([mix(sizes, weights, pairs, seed, epoch) for epoch in range(epochs)])
    corpora = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(corpora[drawn], minlength=len(sizes))
    shares = np.array(weights) / sum(weights)
    assert (abs(counts - epochs * pairs * shares) <= 0.5 + 1e-6).all()
    for corpus in range(len(sizes)):
        times = Counter(dict.fromkeys(np.flatnonzero(corpora == corpus).tolist(), 0))
        times.update(pair for pair in drawn.tolist() if corpora[pair] == corpus)
        assert max(times.values()) - min(times.values()) <= 1


def test_the_mixture_depends_on_seed_and_epoch_alone():
    def drawn(seed, epoch):
        return mix([50, 80], [0.3, 0.7], 100, seed, epoch).tolist()

    assert drawn(1, 5) == drawn(1, 5)
    assert drawn(1, 5) != drawn(2, 5)
    assert drawn(1, 5) != drawn(1, 6)


def test_corpora_of_one_size_are_shuffled_each_in_its_own_order():
    first, second = np.split(mix([50, 50], [1, 1], 100, 1, 0), 2)
    assert sorted(first) == sorted(second - 50) == list(range(50))
    assert first.tolist() != (second - 50).tolist()


def test_weights_of_the_sizes_give_every_pair_once_an_epoch():
    for epoch in range(3):
        assert sorted(draw_by_weight({"1": 30.0, "31": 70.0}, np.arange(1, 101), 1, epoch)) == list(
            range(100)
        )


def test_a_corpus_with_a_weight_and_no_pair_is_refused_and_one_without_a_weight_is_not_used():
    lines = np.arange(1, 11)
    with pytest.raises(
        DragomanError, match="No pair of corpus 2 is left for training, and its weight is 0.5"
    ):
        draw_by_weight({"1": 0.5, "11": 0.5}, lines, 1, 0)
    assert sorted(draw_by_weight({"1": 2.0, "6": 0.0}, lines, 1, 0)) == [0, 1, 2, 3, 4]
    assert sorted(draw_by_weight({"1": 2.0, "11": 0.0}, lines, 1, 0)) == list(range(10))


# ---- in a run


@pytest.fixture
def recipe(tmp_path):
    """A recipe with two corpora of 200 and 100 pairs; the second has a tag, and 3 quarters of the pairs."""
    first, second = write_copies(tmp_path, "first", 200), write_copies(tmp_path, "second", 100, seed=1)
    corpora = WeightedCorpus(*first, 1.0), WeightedCorpus(*second, 3.0, "<bt>")
    return replace(small_recipe(tmp_path, tmp_path / "run"), data=DataSettings(corpus=corpora))


def test_a_run_mixes_and_tags_its_corpora(recipe, tmp_path, messages):
    prepare_converted(tmp_path / "run", recipe, recipe.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    assert messages[1].startswith("Corpus 2: 100 pairs of ")
    assert messages[1].endswith("second.source, 75.0% of the training pairs, after the tag <bt>.")
    assert data.train.statistics.held_out > 0
    assert not any("<bt>" in line for line in data.valid_source)  # held out of what has no tag
    ((tag,),) = data.tokenizers.source.encode(["<bt>"])
    tagged = np.array([tag in data.train[pair][0] for pair in range(len(data.train))])
    assert [data.train.line_number(pair) > 200 for pair in range(len(data.train))] == tagged.tolist()
    assert not any(tag in data.train[pair][1] for pair in range(len(data.train)))
    batches = make_batches(recipe, data, World())
    for epoch in range(3):
        pairs = np.concatenate(batches.plan(epoch))
        assert abs(len(pairs) - len(data.train)) <= 1
        assert abs(tagged[pairs].mean() - 0.75) < 3 * (0.75 * 0.25 / len(pairs)) ** 0.5


def test_a_source_that_is_held_out_is_not_trained_on_behind_a_tag(recipe, tmp_path, messages):
    corpora = recipe.data.corpus
    both = replace(recipe, data=DataSettings(corpus=(corpora[0], replace(corpora[0], tag="<bt>"))))
    prepare_converted(tmp_path / "run", both, both.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    assert messages[-1].startswith(f"{len(data.valid_source)} pairs of corpora with a tag left out: their")
    trained = {tuple(data.train[pair][0]) for pair in range(len(data.train))}
    held_out = {tuple(ids) for ids in data.tokenizers.source.encode(data.valid_source)}
    tag = tuple(data.tokenizers.source.encode(["<bt>"])[0])
    assert len(held_out) > 2
    assert not any({ids, tag + ids} & trained for ids in held_out)


def test_no_pair_of_a_corpus_with_a_tag_is_validation_data(recipe, tmp_path):
    genuine, (_, made) = recipe.data.corpus[0], write_copies(tmp_path, "made", 200)
    made.write_text("MADE\n" * 200)
    corpora = genuine, replace(genuine, target=made, tag="<bt>")
    data = DataSettings(corpus=corpora)
    prepare_converted(tmp_path / "run", replace(recipe, data=data), data)
    found = PreparedData.load(tmp_path / "run" / "data")
    assert len(found.valid_source) > 2
    assert "MADE" not in found.valid_target
    only = DataSettings(corpus=(replace(genuine, tag="<bt>"),))
    message = "has too few different sentences in corpora without a tag to hold some out"
    with pytest.raises(DragomanError, match=message):
        prepare_converted(tmp_path / "none", replace(recipe, data=only), only)


@pytest.mark.long
def test_tokens_of_an_update_are_those_that_an_epoch_uses(recipe, tmp_path):
    corpora = recipe.data.corpus[0], replace(recipe.data.corpus[1], weight=0.0)
    weighted = replace(recipe, data=DataSettings(corpus=corpora))
    one = replace(recipe, data=DataSettings(*(tmp_path / f"first.{side}" for side in ("source", "target"))))
    pieces = TokenizerSettings(vocabulary=320, bpe_dropout=0.1, sampled_copies=4)
    for name, asked in (("weighted", weighted), ("sampled", replace(one, tokenizer=pieces))):
        prepare_converted(tmp_path / name, asked, asked.data)
        batches = make_batches(asked, PreparedData.load(tmp_path / name / "data"), World())
        epoch = [update for update in islice(batches.updates(0, 0), 99) if update.epoch == 0]
        every = sum(int(batches.lengths[1][pairs].sum()) for pairs in batches.plan(0))
        assert sum(update.tokens for update in epoch) == pytest.approx(every, rel=0.2)
        used = np.mean([update.tokens for update in epoch[:-1]])
        assert tokens_per_update(batches) == pytest.approx(used, rel=0.1)


def test_corpora_without_weights_are_one_text(recipe, tmp_path):
    corpora = tuple(replace(corpus, weight=None, tag="") for corpus in recipe.data.corpus)
    for side in ("source", "target"):
        texts = [(tmp_path / f"{name}.{side}").read_text() for name in ("first", "second")]
        (tmp_path / f"whole.{side}").write_text("".join(texts))
    prepare_converted(tmp_path / "run", recipe, DataSettings(corpus=corpora))
    whole = DataSettings(tmp_path / "whole.source", tmp_path / "whole.target")
    prepare_converted(tmp_path / "one", recipe, whole)
    manifests = [(tmp_path / name / "data" / "manifest.json").read_text() for name in ("run", "one")]
    assert manifests[0] == manifests[1]


def test_a_resumed_mixture_is_that_of_an_uninterrupted_run(recipe, tmp_path):
    longer = replace(recipe, training=replace(recipe.training, updates=16, warmup_steps=4))
    whole = replace(longer, out=tmp_path / "whole")
    run(whole)
    stopped = replace(longer, out=tmp_path / "stopped")
    said = []

    def interrupt(words):
        said.append(words)
        if words.startswith("Validation at update 8"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), messages_to(interrupt):
        run(stopped)
    with messages_to(said.append):
        run(stopped)
    assert any(words.startswith("Resuming") for words in said)
    weights = [checkpoints(folder)[-1] / "model.safetensors" for folder in (whole.out, stopped.out)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert read_recipe(stopped.out).data.corpus == recipe.data.corpus
    assert model_hash(whole.out) == model_hash(stopped.out)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_a_symbol_is_one_token_in_every_kind_of_vocabulary(kind):
    lines = ["amber birch cedar", "delta ember fjord"] * 50
    made = Tokenizer.train(
        lines, kind, TokenizerSettings(symbols=("<bt>",)), {"word": 30, "char": 40}.get(kind, 290)
    )
    ids = made.encode(["<bt> amber"])[0]
    assert [piece for piece in made.pieces(ids) if "bt" in piece] in (["<bt>"], [f"{SPACE}<bt>"])
    assert made.decode(ids) == "<bt> amber"


@pytest.mark.parametrize("symbols", [("",), ("a", "a"), ("<unk>",), ("<0x41>",), ("\ud800",)])
def test_symbols_that_cannot_be_tokens_are_refused(symbols):
    with pytest.raises(DragomanError, match="SentencePiece cannot make a vocabulary from this text"):
        Tokenizer.train(["amber birch"] * 50, "bpe", TokenizerSettings(symbols=symbols), 290)


@pytest.mark.parametrize(
    "symbols", [*((each,) for each in ("", "a b", "a\t", "▁", *SPECIAL, "</s>", "<0x41>")), ("<bt>", "<bt>")]
)
def test_a_symbol_that_is_the_tokenizers_own_or_has_a_space_or_is_there_twice_is_refused(symbols):
    check_symbols(("<bt>", "a", "<0x4>", "<0x41>a", "<unk>a"))
    with pytest.raises(DragomanError, match="^symbols has "):
        check_symbols(("a", *symbols))


# ---- settings


def table(*corpora):
    return {"out": "run", "data": {"corpus": list(corpora)}}


ONE = {"source": "a.tmx", "weight": 1.0}


def test_corpora_are_read_and_written_as_tables():
    recipe = overlay(
        Recipe(), table({**ONE, "tag": "<bt>"}, {"source": "a", "target": "b", "weight": 2}), "r"
    )
    assert [corpus.weight for corpus in recipe.data.corpus] == [1.0, 2.0]
    assert overlay(Recipe(), to_table(recipe), "again") == recipe
    check_recipe(recipe)


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ([{"weight": 1.0}], "corpus 1 has no source; each"),
        ([{"source": "a"}], "corpus 1 .*a. has no target"),
        (
            [{"source": "a.tmx", "target": "b"}],
            "a.tmx has both sides of a corpus; give it alone, as the source",
        ),
        (
            [ONE, {**ONE, "weight": -1.0}],
            "The weight of corpus 2 .*a.tmx. is -1.0; it has to be a number of at",
        ),
        ([{**ONE, "weight": float("nan")}], "is nan; it has to be a number of at least 0"),
        ([{**ONE, "weight": float("inf")}], "is inf; it has to be a number of at least 0"),
        ([{**ONE, "weight": 0}, {**ONE, "weight": 0}], "sum to 0 or to infinity; give weights such as"),
        ([{**ONE, "weight": 1e308}, {**ONE, "weight": 1e308}], "sum to 0 or to infinity"),
        ([ONE, {"source": "a.tmx"}], "corpus 2 .*a.tmx.: give a weight to every corpus, or to none"),
        (
            [{**ONE, "tag": "bt"}],
            "The tag of corpus 1 .*a.tmx. is 'bt'; it has to be a word in angle brackets",
        ),
        ([{**ONE, "tag": "<unk>"}], "is '<unk>'; it has to be .* not one of <pad>, <s>, <unk>"),
        ([{"source": "nowhere.tmx"}], "source is .*nowhere.tmx, and there is no such file"),
    ],
)
def test_corpora_that_cannot_be_mixed_are_refused(tmp_path, corpora, message):
    for name in ("a", "b", "a.tmx"):
        (tmp_path / name).touch()
    recipe = overlay(Recipe(), table(*corpora), "recipe")
    recipe = replace(recipe, out=tmp_path / "run", data=replace(recipe.data, folder=tmp_path))
    with pytest.raises(DragomanError, match=message):
        run(recipe)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ([{"sauce": "a"}], "there is no key 'sauce'. Did you mean 'source'"),
        (["a"], "recipe .data.: corpus is .*; it has to be a list of tables"),
        ([{"source": 5}], "source is 5; it has to be a path in quotes"),
    ],
)
def test_tables_that_are_no_corpora_are_refused(corpora, message):
    with pytest.raises(DragomanError, match=message):
        overlay(Recipe(), table(*corpora), "recipe")


def test_corpora_beside_a_source_are_refused(tmp_path):
    data = DataSettings(source=tmp_path / "a.tmx", corpus=(WeightedCorpus(tmp_path / "a.tmx"),))
    (tmp_path / "a.tmx").touch()
    with pytest.raises(
        DragomanError, match="Give the corpora .*, or source and target, or a dataset: one of"
    ):
        run(Recipe(out=tmp_path / "run", data=data))


def test_an_adaptation_refuses_a_tag_that_its_vocabulary_lacks(recipe, trained):
    adaptation = replace(recipe.adaptation, initial_model=trained / "run")
    with pytest.raises(DragomanError, match="The tag <bt> is not a token of the initial model in .*run"):
        run(replace(recipe, adaptation=adaptation))


def test_a_tag_that_the_lines_have_already_is_refused(recipe, tmp_path):
    elsewhere = [("amber <bt> birch", "AMBER"), (" <bt>", "B"), ("<bt", "C")]
    assert list(without_tag(elsewhere, WeightedCorpus(tag="<bt>"))) == elsewhere
    path = recipe.data.corpus[1].source
    path.write_text(f"<bt> {path.read_text()}")
    with pytest.raises(DragomanError, match="has the tag <bt> in its lines already.* symbols '<bt>'"):
        prepare_converted(tmp_path / "run", recipe, recipe.data)


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_an_adaptation_takes_a_tag_that_its_vocabulary_has(tmp_path, kind):
    lines = ["amber birch cedar", "delta ember fjord"] * 50
    settings = TokenizerSettings(source_tokens=kind, symbols=("<bt>",))
    made = Tokenizer.train(lines, kind, settings, {"word": 30}.get(kind, 290))
    model = TINY
    save_model(tmp_path, build_model(model, len(made), len(made)), model, Tokenizers(made, made))
    recipe = Recipe(adaptation=AdaptationSettings(initial_model=tmp_path))
    refused = pytest.raises(DragomanError, match="The tag <ft> is not a token")
    for tag, expected in (("<bt>", nullcontext()), ("<ft>", refused)):
        corpora = DataSettings(corpus=(WeightedCorpus(tmp_path / "a.tmx", tag=tag),))
        with expected:
            refuse_unknown_tags(replace(recipe, data=corpora))

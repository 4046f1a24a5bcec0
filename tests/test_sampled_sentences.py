"""Sentences that an n-gram model makes of the words of a text."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.text import sampled_sentences
from dragoman.text.sampled_sentences import CONTEXT, FEWEST_CONTINUATIONS, WordModel, sample_sentences

WORDS = (
    ("I", "you", "Tom", "she"),
    ("see", "like", "hear"),
    ("birds", "cats", "us"),
    ("now.", "today.", "again."),
)


def write(path, sentences):
    path.write_text("".join(f"{sentence}\n" for sentence in sentences), "utf-8")
    return path


@pytest.fixture
def text(tmp_path):
    """Some of the sentences of a small grammar, one of them with other white space, and a blank line."""
    sentences = list(map(" ".join, product(*WORDS)))[::5]
    return write(tmp_path / "text", [*sentences, "", "  I  see\tbirds "])


def ngrams(sentence, length):
    """The n-grams of a sentence between boundaries."""
    words = [""] * CONTEXT + sentence.split() + [""]
    return {tuple(words[end - length : end]) for end in range(length, len(words) + 1)}


def known_ngrams(text, length):
    return set().union(*(ngrams(line, length) for line in text.read_text("utf-8").splitlines()))


def test_sentences_are_new_different_and_made_of_the_texts_trigrams(text):
    found = sample_sentences(text, 20)
    lines = {" ".join(line.split()) for line in text.read_text("utf-8").splitlines()}
    assert len(set(found)) == 20
    assert not lines & set(found)
    assert "" not in found
    for sentence in found:
        assert ngrams(sentence, CONTEXT) <= known_ngrams(text, CONTEXT)


def test_after_words_with_many_continuations_the_three_words_before_decide(tmp_path):
    """After `x a b` come three words, which `y a b` never has; after `z a b`, with one word, any of them."""
    ends = [f"{first} a b {last}" for first, last in ("xp", "xq", "xr", "ys", "yt", "yu", "zp")]
    model = WordModel(ends)
    found = set(model.sample(2000, np.random.default_rng(0)))
    assert {sentence[-1] for sentence in found if sentence[0] == "x"} == set("pqr")
    assert {sentence[-1] for sentence in found if sentence[0] == "y"} == set("stu")
    assert {sentence[-1] for sentence in found if sentence[0] == "z"} == set("pqrstu")
    assert FEWEST_CONTINUATIONS == 3


def test_the_next_word_is_as_frequent_as_in_the_text():
    model = WordModel(["a b"] * 60 + ["a c"] * 30 + ["a d"] * 10)
    found = list(model.sample(10_000, np.random.default_rng(0)))
    for sentence, share in (("a b", 0.6), ("a c", 0.3), ("a d", 0.1)):
        assert found.count(sentence) == pytest.approx(share * 10_000, abs=200)  # four standard deviations


def test_many_small_chunks_find_as_many_as_are_asked_for(text, monkeypatch):
    monkeypatch.setattr(sampled_sentences, "CHUNK", 4)
    monkeypatch.setattr(sampled_sentences, "FEWEST_NEW", 0)
    assert len(set(sample_sentences(text, 20))) == 20


def test_the_model_knows_the_first_lines_only(text, monkeypatch):
    monkeypatch.setattr(sampled_sentences, "MAX_LINES", 1)
    with pytest.raises(DragomanError, match="0 new sentences could be made"):
        sample_sentences(text, 1)


def test_the_same_text_and_seed_give_the_same_sentences(text):
    assert sample_sentences(text, 20) == sample_sentences(text, 20) != sample_sentences(text, 20, seed=2)


@given(st.lists(st.text(alphabet="ab \t", max_size=12), max_size=12))
def test_any_text_gives_sentences_of_its_words_and_none_longer_than_its_own(sentences):
    known = list(filter(None, (" ".join(sentence.split()) for sentence in sentences)))
    longest = max((len(sentence.split()) for sentence in known), default=0)
    pairs = {pair for sentence in known for pair in pairwise(["", *sentence.split(), ""])}
    for sentence in WordModel(known).sample(20, np.random.default_rng(1)) if known else []:
        assert 0 < len(sentence.split()) <= longest
        assert set(pairwise(["", *sentence.split(), ""])) <= pairs


@pytest.mark.parametrize("sentences", [["one sentence"], ["", " "], ["我喜欢猫", "他走了"], ["", "a\u00a0b"]])
def test_a_text_without_enough_sentences_gets_a_sentence(sentences, tmp_path):
    path = write(tmp_path / "text", sentences)
    with pytest.raises(DragomanError, match=r"0 new sentences could be made, and 5 were asked for. Ask for"):
        sample_sentences(path, 5)

"""Rules for translations, against a filter of all translations there are."""

import random
import re
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations, cycle

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.model.symbols import END
from dragoman.search.beam import beam_search, greedy_search
from dragoman.search.grid_beam import grid_beam_search, tokens_met
from dragoman.search.hypothesis import Constraints, max_target_length
from dragoman.search.sampling import sample
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.batches import pad
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.constraints import follows, refuse_repetition, repeats, word_continuations
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.torch_backend import TorchBackend
from tests.conftest import KINDS, no_shape_checks
from tests.test_search import any_rules, any_search, brute_force, few_tokens, phrases, tiny, with_few_tokens
from tests.test_translator import LINES, folder, translator  # noqa: F401

SOURCE = torch.tensor([[4, 5, END]])
LONGEST = 3


def has(ids, sequence):
    return any(
        ids[first : first + len(sequence)] == list(sequence) for first in range(len(ids) - len(sequence) + 1)
    )


def has_whole(ids, phrase, rules):
    """Whether the phrase is there, and no token that would continue its last word follows."""
    size, others = len(phrase), rules.continuing
    return any(
        ids[first : first + size] == list(phrase)
        and not set(ids[first + size : first + size + 1]) & set(others)
        and not (first and {ids[first - 1], phrase[0]} <= set(others))
        for first in range(len(ids) - size + 1)
    )


def allowed(ids, rules):
    """The rules as one would say them."""
    size = rules.no_repeat_ngram
    ngrams = [tuple(ids[first : first + size]) for first in range(len(ids) - size + 1)] if size else []
    return (
        len(ids) >= rules.min_length
        and len(set(ngrams)) == len(ngrams)
        and not any(has(ids, sequence) for sequence in rules.banned)
        and ids[: len(rules.prefix)] == list(rules.prefix)
    )


RULES = [
    Constraints(min_length=2),
    Constraints(min_length=3),
    Constraints(no_repeat_ngram=1),
    Constraints(no_repeat_ngram=2),
    Constraints(banned=[[4]]),
    Constraints(banned=[[4, 5], [1], [5, 5, 5]]),
    Constraints(prefix=[5]),
    Constraints(min_length=2, no_repeat_ngram=1, banned=[[1]], prefix=[4]),
]

SEARCHED = ["transformer", "transformer, other options", "lstm", "conv"]


def each_with_a_model(rules: list[Constraints]) -> pytest.MarkDecorator:
    """Every rule with one of the models, which differ in nothing that rules see."""
    return pytest.mark.parametrize(("kind", "rules"), [*zip(cycle(SEARCHED), rules, strict=False)], ids=str)


@each_with_a_model(RULES)
@torch.no_grad()
def test_a_wide_beam_finds_the_best_of_all_that_the_rules_allow(kind, rules):
    model = tiny(kind, 6, 0)
    expected = [
        (score, ids) for score, ids in brute_force(model, SOURCE, LONGEST, 0.6) if allowed(ids, rules)
    ]
    asked = SearchSettings(beam_size=40, max_extra_tokens=1, n_best=min(5, len(expected)))
    (found,) = beam_search(model, SOURCE, asked, rules)
    assert [one.ids for one in found] == [ids for _, ids in expected[:5]]
    torch.testing.assert_close(
        [one.score for one in found], [score for score, _ in expected[:5]], rtol=1e-5, atol=1e-5
    )


FORMS = st.lists(st.lists(st.integers(4, 8), min_size=1, max_size=3), min_size=1, max_size=3)
PHRASES = st.lists(FORMS, max_size=3)


@settings(max_examples=40)
@given(
    st.lists(st.integers(4, 8), max_size=4), PHRASES, st.integers(0, 4), st.integers(1, 4), st.integers(0, 2)
)
def test_a_prefix_and_forced_words_have_room_whatever_the_length_of_the_source(
    prefix, forced, min_length, source_tokens, extra
):
    rules = Constraints(min_length=min_length, prefix=prefix, forced=phrases(forced))
    asked = SearchSettings(beam_size=2, max_extra_tokens=extra)
    longest = max_target_length(source_tokens, None, asked, rules.min_capacity)
    forced_tokens = sum(max(map(len, forms)) for forms in forced)
    assert longest == max(source_tokens - 1 + extra, min_length, len(prefix) + forced_tokens)
    for limit in (longest or 1, longest + 3):  # of the settings, and of the model, whose limit counts END
        assert (
            max_target_length(source_tokens, None, replace(asked, max_length=limit), rules.min_capacity)
            == longest
        )
        assert max_target_length(source_tokens, limit + 1, asked, rules.min_capacity) == longest
    for needed in range(1, rules.min_capacity):
        with pytest.raises(DragomanError, match=f"asks for {rules.min_capacity} tokens"):
            max_target_length(source_tokens, needed + 1, asked, rules.min_capacity)


TOKENS = st.lists(st.integers(3, 5), min_size=1, max_size=3)


@given(
    st.lists(st.integers(3, 5), max_size=6),
    st.lists(st.lists(TOKENS, min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_forced_tokens_that_are_met_are_those_of_phrases_and_of_the_longest_begun_one(ids, words):
    whole = [max(map(len, forms)) for forms in words if any(has(ids, form) for form in forms)]
    begun = [
        max(map(len, forms)) - (len(form) - count)  # all but the tokens that are missing
        for forms in words
        if not any(has(ids, form) for form in forms)
        for form in forms
        for count in range(1, len(form))
        if ids[len(ids) - count :] == form[:count]
    ]
    assert tokens_met(ids, Constraints(forced=phrases(words))) == sum(whole) + max(begun, default=0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_shortest_source_is_translated_with_a_prefix_and_forced_words(kind):
    rules = Constraints(prefix=[5, 5, 4], forced=phrases([[[4, 4]], [[1]]]))
    asked = SearchSettings(beam_size=3, max_extra_tokens=0)
    ((found,),) = grid_beam_search(tiny(kind, 6, 0), SOURCE[:, -1:], asked, rules)
    assert found.ids[:3] == [5, 5, 4]
    assert has(found.ids, [4, 4])
    assert has(found.ids, [1])


@pytest.mark.short_form(3)
@each_with_a_model(
    [
        Constraints(forced=phrases([[[5]]])),
        Constraints(forced=phrases([[[4, 5]]])),
        Constraints(forced=phrases([[[5, 5]]])),
        Constraints(forced=phrases([[[4]], [[1]]])),
        Constraints(forced=phrases([[[4, 4]], [[4, 5]]])),
        Constraints(forced=phrases([[[1, 4]]]), prefix=[5], no_repeat_ngram=1, min_length=3),
        Constraints(forced=phrases([[[5]]]), continuing=[4, 5]),
        Constraints(forced=phrases([[[4]], [[1, 5]]]), continuing=[5]),
        Constraints(forced=phrases([[[4, 5]]]), continuing=[4]),
        Constraints(forced=phrases([[[4], [1, 5]]])),
        Constraints(forced=phrases([[[4, 4], [1]], [[5], [5, 1]]]), continuing=[1]),
    ]
)
@torch.no_grad()
def test_a_wide_grid_finds_the_best_of_all_that_have_the_forced_words(kind, rules):
    model = tiny(kind, 6, 0)
    longest = max(LONGEST, rules.min_capacity)  # both phrases, one after the other, must have room
    every = [(score, ids) for score, ids in brute_force(model, SOURCE, longest, 0.6) if allowed(ids, rules)]
    expected = [
        (score, ids)
        for score, ids in every
        if all(any(has_whole(ids, form, rules) for form in phrase.forms) for phrase in rules.forced)
    ]
    asked = SearchSettings(beam_size=120, max_extra_tokens=1, n_best=min(5, len(expected)))
    (found,) = grid_beam_search(model, SOURCE, asked, rules)
    assert [one.ids for one in found] == [ids for _, ids in expected[:5]]
    torch.testing.assert_close(
        [one.score for one in found], [score for score, _ in expected[:5]], rtol=1e-5, atol=1e-5
    )


@pytest.mark.short_form(1)
def test_without_forced_words_a_grid_is_a_beam(model, sources):
    asked = SearchSettings(beam_size=3, n_best=3, max_extra_tokens=4)
    for grid, beam in zip(
        grid_beam_search(model, sources, asked, Constraints()),
        beam_search(model, sources, asked),
        strict=True,
    ):
        assert [one.ids for one in grid] == [one.ids for one in beam]
        assert [one.score for one in grid] == pytest.approx([one.score for one in beam], abs=1e-5, rel=1e-6)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("seed", range(6))
@no_shape_checks()
def test_a_grid_is_a_beam_for_any_n_any_penalty_and_any_rules(seed):
    draw = random.Random(seed)
    model, asked, rules = with_few_tokens(seed), any_search(draw), any_rules(draw)
    asked = replace(asked, max_length=asked.max_length and max(asked.max_length, rules.min_capacity))
    sources = pad([few_tokens(draw) for _ in range(6)], END)
    found = (search(model, sources, asked, rules) for search in (grid_beam_search, beam_search))
    for grid, beam in zip(*found, strict=True):
        assert [one.ids for one in grid] == [one.ids for one in beam]
        assert [one.score for one in grid] == pytest.approx([one.score for one in beam], abs=1e-5, rel=1e-6)


def test_forced_words_that_cannot_be_are_met_as_far_as_they_can():
    rules = Constraints(forced=phrases([[[4]], [[5]]]), banned=[[5]])
    ((best,),) = grid_beam_search(
        tiny("gru", 6, 0), SOURCE, SearchSettings(beam_size=2, max_extra_tokens=1), rules
    )
    assert 4 in best.ids
    assert 5 not in best.ids
    target = torch.tensor([[*best.ids, END]])
    assert best.log_probability == pytest.approx(
        float(token_log_probabilities(tiny("gru", 6, 0), SOURCE, target).sum()), abs=1e-5
    )


@pytest.mark.parametrize("search", [greedy_search, beam_search, grid_beam_search, sample])
def test_a_greatest_length_is_kept_whatever_the_source(search):
    draws = (
        {"temperature": 1.0, "n_best": 3}
        if search is sample
        else {"beam_size": 1 if search is greedy_search else 3}
    )
    asked, model = SearchSettings(max_extra_tokens=1, **draws), tiny("transformer", 6, 0)
    rules = (
        []
        if search is greedy_search
        else [Constraints(forced=phrases([[[4]]]) if search is grid_beam_search else [])]
    )
    assert search(model, SOURCE, replace(asked, max_extra_tokens=50, max_length=3), *rules) == search(
        model, SOURCE, asked, *rules
    )
    ((best, *_),) = search(model, SOURCE, replace(asked, max_length=1), *rules)
    assert len(best.ids) <= 1


def test_a_prefix_beyond_the_greatest_length_is_refused():
    with pytest.raises(DragomanError, match="asks for 3 tokens, and max_length allows 2; ask for fewer"):
        beam_search(tiny("gru", 6, 0), SOURCE, SearchSettings(max_length=2), Constraints(prefix=[4, 5, 4]))


@each_with_a_model(RULES)
def test_nothing_that_is_drawn_breaks_a_rule(kind, rules):
    asked = SearchSettings(temperature=3.0, n_best=50, max_extra_tokens=1)
    (drawn,) = sample(tiny(kind, 6, 0), SOURCE, asked, rules)
    assert len(drawn) == 50
    assert all(allowed(one.ids, rules) for one in drawn)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_single_hypothesis_keeps_the_rules_that_it_would_break(rules):
    asked, broken = SearchSettings(beam_size=1, max_extra_tokens=1), 0
    for seed in (1, 3, 4):  # by themselves one writes nothing, and the others repeat a token
        backend = TorchBackend(tiny("transformer", 6, seed))
        (free,), (found,) = (
            backend.search(SOURCE.tolist(), asked, each)[0] for each in (Constraints(), rules)
        )
        ((wanted,),) = beam_search(backend.model, SOURCE, asked, rules)
        assert allowed(found.ids, rules)
        assert (found.ids, found.score) == (wanted.ids, pytest.approx(wanted.score, abs=1e-5))
        broken += not allowed(free.ids, rules)
    assert broken


def test_where_nothing_is_left_to_write_a_translation_ends():
    everything = Constraints(min_length=3, banned=[[token] for token in range(6) if token != END])
    ((best,),) = beam_search(tiny("gru", 6, 0), SOURCE, SearchSettings(max_extra_tokens=1), everything)
    assert best.ids == []


@pytest.mark.parametrize("search", [beam_search, sample])
def test_a_long_prefix_and_a_great_length_have_room_within_the_models_limit(search):
    asked = SearchSettings(max_extra_tokens=0, temperature=1.0 if search is sample else 0.0)
    for rules in (Constraints(prefix=[4, 5] * 4), Constraints(min_length=8)):
        ((best,),) = search(tiny("transformer", 6, 0), SOURCE, asked, rules)
        assert len(best.ids) == 8
        assert best.ids[: len(rules.prefix)] == list(rules.prefix)
    limited = tiny("transformer, other options", 6, 0)
    with pytest.raises(
        DragomanError,
        match=f"asks for 5000 tokens, and this model can write {limited.longest_target - 1}; ask for fewer",
    ):
        search(limited, SOURCE, asked, Constraints(min_length=5000))


WORDS = st.lists(st.sampled_from(["Mann", "a", "two dogs", "kalt"]), max_size=2)


@settings(max_examples=15)
@given(ban=WORDS, no_repeat_ngram=st.integers(0, 3), min_length=st.integers(0, 6))
def test_the_rules_hold_for_texts(translator, ban, no_repeat_ngram, min_length):  # noqa: F811
    asked = SearchSettings(
        max_extra_tokens=4,
        ban_words=tuple(ban),
        no_repeat_ngram=no_repeat_ngram,
        min_length=min_length,
        n_best=2,
    )
    for line, found in zip(LINES, translator.n_best(LINES, asked), strict=True):
        alone = translator.n_best([line], asked)[0]
        assert [one.text for one in found] == [one.text for one in alone]
        assert [one.score for one in found] == pytest.approx([one.score for one in alone], rel=1e-5)
        assert not any(f" {word} " in f" {one.text} " for one in found for word in ban)


def test_every_translation_begins_with_the_prefix(translator):  # noqa: F811
    for text in translator.translate(LINES, SearchSettings(prefix="der Schnee", max_extra_tokens=4)):
        assert text.startswith("der Schnee")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"prefix": "der Schnee", "ban_words": ("Schnee",)},
            "The prefix 'der Schnee' has 'Schnee', which is banned",
        ),
        (
            {"prefix": "der der", "no_repeat_ngram": 1},
            "'der der', of prefix or force_words, repeats what no_repeat_ngram 1 forbids",
        ),
        (
            {"force_words": ("der der",), "no_repeat_ngram": 1},
            "'der der', of prefix or force_words, repeats what no_repeat_ngram 1 forbids",
        ),
        (
            {"min_length": 3, "max_length": 2},
            "min_length is 3 and max_length 2; no translation can have both",
        ),
        ({"ban_words": (" ",)}, "ban_words is ' ', which has no tokens"),
        ({"prefix": "  "}, "prefix is '  ', which has no tokens"),
        (
            {"prefix": "der hund", "force_words": ("der mann",), "no_repeat_ngram": 1},
            r"'der hund' and 'der mann' have 1 token in common, which no_repeat_ngram forbids to repeat\.",
        ),
    ],
)
def test_rules_that_contradict_each_other_are_refused_by_name(translator, asked, message):  # noqa: F811
    assert isinstance(translator, Translator)
    with pytest.raises(DragomanError, match=message):
        translator.translate(LINES, SearchSettings(**asked))


def test_preparing_sentences_refuses_rules_that_contradict_each_other(translator):  # noqa: F811
    with pytest.raises(DragomanError, match="which is banned"):
        translator.prepare(LINES, SearchSettings(prefix="der Schnee", ban_words=("Schnee",)))


@pytest.mark.parametrize("word", ["der", "d", "Sch"])
@no_shape_checks()
def test_a_forced_word_is_no_part_of_a_longer_word(translator, word):  # noqa: F811
    for written in translator.translate(LINES, force_words=(word,), beam_size=2, max_extra_tokens=6):
        assert re.search(rf"(?<!\w){word}(?!\w)", written)


def test_punctuation_is_banned_directly_after_words_and_forced_there(translator):  # noqa: F811
    sources = [f"{line}." for line in LINES]
    for written in translator.translate(sources, ban_words=(".", "e"), max_extra_tokens=4):
        assert "." not in written
    for written in translator.translate(sources, force_words=(".",), beam_size=2, max_extra_tokens=4):
        assert "." in written
        assert " ." not in written
    with pytest.raises(DragomanError, match=r"ban_words has '\.', which is part of a text of force_words"):
        translator.translate(sources, ban_words=(".",), force_words=("der.",))


@no_shape_checks()
def test_what_begins_with_punctuation_and_is_a_word_stands_alone(translator):  # noqa: F811
    for word in (".NET", ":-)", "%s"):
        for written in translator.translate(LINES[:2], force_words=(word,), beam_size=2, max_extra_tokens=6):
            assert f" {word}" in f" {written}"


@no_shape_checks()
def test_punctuation_that_is_a_word_of_the_vocabulary_is_banned_and_forced():
    words = Tokenizer.train(["amber , birch . cedar"] * 3, "word", TokenizerSettings(symbols=("<bt>",)), 20)
    limited = Translator.from_model(tiny("transformer", len(words), 0), Tokenizers(words, words))
    drawn = SearchSettings(temperature=5.0, n_best=60, min_length=3, max_extra_tokens=0)
    (free,) = limited.n_best(["amber , birch"], drawn)
    for word in (".", ","):
        assert any(word in each.text.split() for each in free), "nothing but the ban keeps it out"
        (found,) = limited.n_best(["amber , birch"], replace(drawn, ban_words=(word,)))
        assert not any(word in each.text.split() for each in found)
    for word in (".", ",", "<bt>"):
        (written,) = limited.translate(["amber , birch"], ban_words=(word,), max_extra_tokens=9)
        assert word not in written.split()
        (written,) = limited.translate(["amber , birch"], force_words=(word,), max_extra_tokens=9)
        assert word in written.split()


@pytest.mark.parametrize(
    ("kind", "continuing", "others"),
    [
        ("bpe", "a b 4 ä", "▁a . ▁"),
        ("char", "a b 4 ä", "▁ ."),
        ("byte", "<0x61> <0x34> <0x5A> <0xC3>", "▁ <0x2E> <0x20> <0xE2> <0x5B>"),
    ],
)
def test_what_continues_a_word(kind, continuing, others):
    text = ["a ba. b4bä ab ab."] * 9
    words = Tokenizer.train(text, kind, TokenizerSettings(), 300)
    found = set(words.pieces(sorted(word_continuations(words))))
    assert found >= set(continuing.split()) & set(words.pieces(range(len(words))))
    assert found & set(continuing.split())
    assert not found & set(others.split())


def fit(first, second, size):
    """Whether a text has both phrases, the second not before the first, and no n-gram of theirs twice."""
    for offset in range(len(first) + 2):
        text = [*first, *range(100, 100 + max(0, offset + len(second) - len(first)))]
        fits = all(text[offset + place] in (token, *range(100, 200)) for place, token in enumerate(second))
        text[offset : offset + len(second)] = second
        ngrams = [tuple(text[at : at + size]) for at in range(len(text) - size + 1)]
        if fits and len(set(ngrams)) == len(ngrams):
            return True
    return False


SEQUENCE = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(SEQUENCE, SEQUENCE, st.integers(1, 3))
def test_two_phrases_fit_where_a_text_can_have_both(first, second, size):
    alone = all(fit(one, [99], size) for one in (first, second))  # they repeat nothing by themselves
    assert follows(first, second, size) == fit(first, second, size) or not alone


@given(st.lists(st.integers(1, 3), max_size=3), st.lists(SEQUENCE, max_size=2), st.integers(1, 3))
@example([1, 2], [[3, 1, 2]], 1)  # a text with both begins with the forced words
def test_a_prefix_comes_first_and_forced_words_fit_in_any_order(prefix, forced, size):
    fits = all(fit(each, [99], size) for each in (prefix, *forced))
    fits = fits and all(fit(prefix, each, size) for each in forced)
    fits = fits and all(fit(*both, size) or fit(*both[::-1], size) for both in combinations(forced, 2))
    with nullcontext() if fits else pytest.raises(DragomanError, match="no_repeat_ngram"):
        refuse_repetition([(str(ids), ids) for ids in (prefix, *forced)], size)


@given(st.lists(st.integers(1, 4), max_size=20), st.integers(1, 8))
def test_a_text_repeats_an_ngram_if_it_has_fewer_different_ones_than_places(ids, size):
    ngrams = [tuple(ids[at : at + size]) for at in range(len(ids) - size + 1)]
    assert repeats(ids, size) == (len(set(ngrams)) < len(ngrams))


def test_long_ngrams_of_a_long_text_need_little_memory():
    text = [number % 12_000 for number in range(20_000)]
    assert repeats(text, 8_000)  # all of its n-grams together have 96 million tokens
    assert not repeats(text, 8_001)


@pytest.mark.parametrize("name", ["prefix", "ban_words", "force_words"])
def test_what_the_vocabulary_cannot_write_is_refused(name):
    words = Tokenizer.train(["amber birch cedar"] * 3, "word", TokenizerSettings(), 20)
    limited = Translator.from_model(tiny("transformer", len(words), 0), Tokenizers(words, words))
    with pytest.raises(
        DragomanError,
        match="'opal' cannot be written with this model's vocabulary; leave it out of prefix, ban_words and "
        "force_words",
    ):
        limited.translate(["amber"], SearchSettings(**{name: "opal" if name == "prefix" else ("opal",)}))

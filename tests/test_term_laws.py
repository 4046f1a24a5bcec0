"""Terms against plain definitions: words of a text, forms, forced phrases, the lexicon, annotated copies."""

import itertools
import math
import re
import time
import unicodedata
from collections import defaultdict
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cache
from itertools import product
from threading import Barrier, Event
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import terms as term_files
from dragoman.documents.terms import read_terms
from dragoman.model.symbols import UNKNOWN
from dragoman.pipeline import terms as pipeline_terms
from dragoman.pipeline.terms import (
    COPIES,
    AnnotatedSources,
    text_lexicon,
    with_term_symbols,
    write_annotated_copies,
)
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.futures import interruption
from dragoman.text import annotated_terms, inflection, lexicon
from dragoman.text.annotated_terms import SYMBOLS, TermSampler, knows_terms
from dragoman.text.corpus import PairFilter
from dragoman.text.lexicon import ITERATIONS, MIN_COUNT, MIN_PROBABILITY, NULL_PROBABILITY, SMOOTHING, TENSION
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation import glossary as glossaries
from dragoman.translation.constraints import MAX_TERM_TOKENS, encode_terms, word_continuations
from dragoman.translation.glossary import MAX_FORMS, Glossary, Term, word_spans, words_of
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.translator import Translator
from tests.conftest import MAX_SECONDS, small_recipe

LETTERS, ACCENTS, UNSPACED = "aZ9_äß", "\u0301\u093f", "狗あ"
NO_FORMS = Languages("und", "und")


@given(st.text(f"{LETTERS}{ACCENTS}{UNSPACED}'’-.€ \t\n", max_size=12))
def test_words_are_runs_of_letters_with_their_accents_and_inner_apostrophes(text):
    letter, accent = f"[{LETTERS}]", f"[{ACCENTS}]"
    word = re.compile(rf"{letter}(?:{letter}|{accent}|['’](?={letter}))*|\S{accent}*")
    spans = [match.span() for match in word.finditer(text)]
    assert list(word_spans(text)) == spans
    assert words_of(text) == [unicodedata.normalize("NFC", text[slice(*span)]) for span in spans]


# ---- words in other forms, by a language whose forms end with s


def forms_with_s(words, language):
    if language != "target":
        return {word: [word] for word in words}
    return {word: [word, *(f"{word}{'s' * count}" for count in range(1, len(word)))] for word in words}


@pytest.fixture(scope="module")
def plural():
    """Base forms end without s, and words have as many forms as letters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            glossaries, "base_form", lambda word, language: word.rstrip("s" * (language == "source"))
        )
        patch.setattr(glossaries, "inflected_forms", forms_with_s)
        yield


LANGUAGES = SimpleNamespace(source="source", target="target")
WORD = st.sampled_from(["run", "runs", "shoe", "shoes", "Shoe", "SHOES", "Runs"])
PHRASE = st.lists(WORD, min_size=1, max_size=3)


def spelled(term, words):
    """Whether a text has the words of a term, by the rule for capital letters."""
    return len(term) == len(words) and all(
        one == other or (one.lower() == other.lower() and (one.islower() or other.isupper()))
        for one, other in zip(term, words, strict=True)
    )


@pytest.mark.long
@settings(max_examples=200)
@given(st.lists(PHRASE, max_size=6), st.lists(WORD, max_size=8))
def test_a_term_is_found_as_it_is_or_with_its_last_word_or_all_in_base_form(plural, sources, words):
    glossary = Glossary([Term(" ".join(source), "x") for source in sources], LANGUAGES)
    bases, expected, place = [word.rstrip("s") for word in words], [], 0
    while place < len(words):
        variants = (
            (size, variant)
            for size in (3, 2, 1)
            if place + size <= len(words)
            for last in [place + size]
            for variant in (words[place:last], [*words[place : last - 1], bases[last - 1]], bases[place:last])
        )
        fitting = (
            (size, [term for term in sources if spelled(term, variant)], variant)
            for size, variant in variants
        )
        size, terms, variant = next((one for one in fitting if one[1]), (1, [], []))
        if terms:
            expected.append((place, size, [variant] if variant in terms else terms))
        place += size
    matches = glossary.find(" ".join(words))
    starts = [0, *itertools.accumulate(len(word) + 1 for word in words)]
    assert [(match.start, match.end) for match in matches] == [
        (starts[place], starts[place + size] - 1) for place, size, _ in expected
    ]
    for match, (*_, terms) in zip(matches, expected, strict=True):
        assert match.term.source.split() in terms


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "ccc", "dddddd"]), min_size=1, max_size=4), max_size=3))
def test_the_forms_of_a_phrase_are_those_of_its_words_in_each_combination_and_bounded(plural, targets):
    terms = [Term(f"s{number}", " ".join(target)) for number, target in enumerate(targets)]
    glossary = Glossary(terms, LANGUAGES)
    for term, target in zip(terms, targets, strict=True):
        every = [
            " ".join(words) for words in product(*(forms_with_s([word], "target")[word] for word in target))
        ]
        forms = glossary.forms(term)
        assert forms[0] == term.target
        assert len(forms) == len(set(forms)) == min(MAX_FORMS, len(every))
        assert set(forms) <= set(every)
        assert glossary.unused(term.source, f"x {every[-1]}") == ([] if every[-1] in forms else [term])


def test_a_region_or_script_of_a_language_has_its_forms(monkeypatch):
    asked = []
    monkeypatch.setattr(inflection, "is_known", cache(inflection.is_known.__wrapped__))
    monkeypatch.setattr(inflection, "forms_by_base", lambda code: asked.append(code) or {b"a": b"as\tat"})
    monkeypatch.setattr("simplemma.lemmatize", lambda word, lang: asked.append(lang) or "a")
    for code in ("de", "de-AT", "de_Latn_CH", "DE"):
        assert inflection.inflected_forms(["a", "b"], code) == {"a": ["a", "as", "at"], "b": ["b"]}
        assert inflection.base_form("as", code) == "a"
    assert set(asked) == {"de"}


# ---- terms as forced phrases


@cache
def word_tokenizer():
    return Tokenizer.train(["b c d e s , ."] * 3, "word", TokenizerSettings(), 20)


TARGET = st.builds(
    lambda word, count: [word] * count, st.sampled_from("bcdesz"), st.sampled_from([1, 12, 20, 30])
)


@settings(max_examples=100)
@given(
    st.fixed_dictionaries(dict.fromkeys("bcdes", TARGET)),
    st.lists(
        st.lists(
            st.permutations("bcdes,").map(lambda words: [*words[2:], words[1], words[-1]]),
            min_size=1,
            max_size=3,
        ),
        max_size=2,
    ),
    st.integers(-2, 99),
)
def test_each_part_of_a_sentence_has_its_terms_as_far_as_they_fit(entries, sentences, capacity):
    """In the order of the text; one that is too long, or that the vocabulary cannot write, is left out.

    The symbol that ends a sentence, </s>, is no text, and has no term.
    """
    tokenizer = word_tokenizer()
    targets = {source: " ".join(target) for source, target in entries.items()}
    glossary = Glossary([Term(*entry) for entry in targets.items()], NO_FORMS)
    texts = [" ".join(word for part in parts for word in part) for parts in sentences]
    ids = [[[*tokenizer.encode([" ".join(part)])[0], 3] for part in parts] for parts in sentences]
    found = encode_terms(glossary, glossary.find, tokenizer, tokenizer, texts, ids, capacity)
    expected = []
    for part in itertools.chain(*sentences):
        phrases, left = [], min(capacity, MAX_TERM_TOKENS)
        for word in dict.fromkeys(part):
            (target,) = tokenizer.encode([targets.get(word, "z")])
            if UNKNOWN not in target and len(target) <= left:
                phrases.append(([target], [place for place, other in enumerate(part) if other == word]))
                left -= len(target)
        expected.append(phrases)
    assert [[(phrase.forms, phrase.places) for phrase in phrases] for phrases in found] == expected


def test_the_terms_of_a_sentence_have_all_their_forms(plural):
    tokenizer = Tokenizer.train(["bb bbs x"] * 3, "word", TokenizerSettings(), 20)
    glossary = Glossary([Term("x", "bb")], LANGUAGES)
    (ids,) = tokenizer.encode(["x"])
    ((phrase,),) = encode_terms(glossary, glossary.find, tokenizer, tokenizer, ["x"], [[[*ids, 3]]], 9)
    assert phrase.forms == tokenizer.encode(["bb", "bbs"])


def test_terms_that_nobody_wants_any_more_are_not_encoded():
    glossary, tokenizer, cancelled = Glossary([Term("b", "c")], NO_FORMS), word_tokenizer(), Event()
    context, parts = copy_context(), [[[*tokenizer.encode(["b"])[0], 3]]]
    context.run(interruption.set, cancelled)
    encode = (encode_terms, glossary, glossary.find, tokenizer, tokenizer, ["b"], parts, 9)
    assert context.run(*encode)
    cancelled.set()
    with pytest.raises(CancelledError):
        context.run(*encode)


def test_the_tokens_that_continue_a_word_are_its_letters_digits_and_accents():
    text = "aZ9_äßčя狗あ-.€ \u0301ि׳"
    tokenizer = Tokenizer.train([text] * 3, "char", TokenizerSettings(), 99)
    pieces = tokenizer.pieces(range(len(tokenizer)))
    continuing = {pieces[number] for number in word_continuations(tokenizer)}
    assert continuing == {
        piece for piece in pieces if unicodedata.category(piece[0])[0] in "LNM" and piece not in "狗あ"
    }
    assert {"a", "9", "я", "\u0301"} <= continuing
    tokenizer = Tokenizer.train([text] * 3, "byte", TokenizerSettings(), 300)
    pieces = tokenizer.pieces(range(len(tokenizer)))
    continuing = {pieces[number] for number in word_continuations(tokenizer)}
    for letter in map(chr, range(0x250)):
        first = f"<0x{letter.encode()[0]:02X}>"
        assert (first in continuing) == (letter.isalnum() if letter < "\x80" else first > "<0xC2>"), letter
    for letter in "αяҰհ":
        assert f"<0x{letter.encode()[0]:02X}>" in continuing
    for sign in "狗€“":
        assert not {f"<0x{byte:02X}>" for byte in sign.encode()} & continuing


# ---- the lexicon


SIDE = st.lists(st.sampled_from("abcd"), max_size=5)


def expected_counts(sources, targets):
    """EM for IBM model 1 with the diagonal, in plain tables: counts and probabilities of pairs of words."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        counts = defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for j, word in enumerate(target):
                near = [
                    math.exp(-TENSION * abs((i + 0.5) / len(source) - (j + 0.5) / len(target)))
                    for i in range(len(source))
                ]
                prior = (
                    [NULL_PROBABILITY, *((1 - NULL_PROBABILITY) * one / sum(near) for one in near)]
                    if source
                    else [1.0]
                )
                scores = [
                    one * probability[other, word] for one, other in zip(prior, [None, *source], strict=True)
                ]
                for score, other in zip(scores, [None, *source], strict=True):
                    counts[other, word] += score / sum(scores)
        totals = defaultdict(float)
        for (other, _), count in counts.items():
            totals[other] += count + SMOOTHING
        probability = {pair: (count + SMOOTHING) / totals[pair[0]] for pair, count in counts.items()}
    return {pair: (count, probability[pair]) for pair, count in counts.items() if pair[0] is not None}


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(st.tuples(SIDE, SIDE.map(lambda words: [word.upper() for word in words])), max_size=8))
def test_a_lexicon_is_what_expectation_maximization_gives_in_both_directions(pairs):
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    directions = (
        [(expected_counts(*one), one) for one in (sides, sides[::-1])]
        if any(sides[0]) or any(sides[1])
        else []
    )
    for expected, one in directions:
        counts = lexicon.likely_translations(*one)
        assert all(counts[pair] == pytest.approx(expected[pair][0]) for pair in counts)
        for pair, (_, probability) in expected.items():
            assert abs(probability - MIN_PROBABILITY) < 1e-9 or (pair in counts) == (
                probability > MIN_PROBABILITY
            )
    learnt = {
        (source, target) for source, others in lexicon.learn_lexicon(pairs).items() for target in others
    }
    (forward, _), (backward, _) = directions or [({}, ())] * 2
    for (source, target), (count, probability) in forward.items():
        back = backward[target, source][1] if (target, source) in backward else 0.0
        if (
            min(abs(count - MIN_COUNT), abs(probability - MIN_PROBABILITY), abs(back - MIN_PROBABILITY))
            > 1e-9
        ):
            is_likely = count > MIN_COUNT and min(probability, back) > MIN_PROBABILITY
            assert ((source, target) in learnt) == is_likely
    assert learnt <= forward.keys()


# ---- recipes with terms


def test_annotations_depend_on_seed_copy_and_line():
    sampler = TermSampler({word: {word.upper()} for word in "abcd"}, "und")
    tokenizer = Tokenizer.train(["a b c d A B C D"] * 9, "bpe", TokenizerSettings(symbols=SYMBOLS), 300)

    def samples(seed, copy, lines=range(40)):
        sample = AnnotatedSources(sampler, seed).open([tokenizer, tokenizer])
        return [sample(copy, line, "a b c d", "A B C D") for line in lines]

    assert samples(1, 0) == samples(1, 0)
    assert len({str(samples(seed, copy)) for seed in (1, 2) for copy in (0, 1)}) == 4
    assert len({str(one) for one in samples(1, 0)}) > 9
    assert samples(1, 0, range(20, 40)) == samples(1, 0)[20:]


def test_the_lexicon_of_a_text_is_that_of_its_training_pairs_without_the_case_of_sources(tmp_path):
    files = tmp_path / "a", tmp_path / "b"
    files[0].write_text("Red\nRED dog\nred\nheld\nheld\nheld\n")
    files[1].write_text("Rot\nRot Hund\nRot\nHeld\nHeld\nHeld\n")
    chosen = SimpleNamespace(keeps=lambda source, target: source != "held")
    assert text_lexicon(files, chosen, 3) == {"red": {"Rot"}}
    assert text_lexicon(files, PairFilter(), 6) == {"red": {"Rot"}, "held": {"Held"}}


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"source_tokens": "char"}, "those of this recipe are char"),
        ({"target_tokens": "byte"}, "those of this recipe are bpe, byte"),
        ({"bpe_dropout": 0.1}, "terms and bpe_dropout each make copies"),
        ({"sampling_alpha": 0.1, "source_tokens": "unigram"}, "terms and sampling_alpha each make copies"),
    ],
)
def test_what_excludes_terms_is_refused_and_the_rest_gets_the_symbols_once(tmp_path, tokenizer, message):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe = replace(recipe, tokenizer=TokenizerSettings(symbols=("<x>", SYMBOLS[0])))
    symbols = with_term_symbols(recipe).tokenizer.symbols
    assert sorted(symbols) == sorted({"<x>", *SYMBOLS})
    with pytest.raises(OptionError, match=message):
        with_term_symbols(replace(recipe, tokenizer=replace(recipe.tokenizer, **tokenizer)))


def test_a_vocabulary_knows_terms_if_it_has_all_symbols():
    for known in (SYMBOLS, SYMBOLS[:2], SYMBOLS[1:], ()):
        tokenizer = Tokenizer.train(["a b c d"] * 9, "bpe", TokenizerSettings(symbols=known), 300)
        assert knows_terms(tokenizer) == (known == SYMBOLS)


def test_a_file_of_terms_has_a_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(term_files, "MAX_BYTES", 8)
    (tmp_path / "a.csv").write_bytes(b"one,two\n")
    assert read_terms(tmp_path / "a.csv", NO_FORMS) == [Term("one", "two")]
    (tmp_path / "a.csv").write_bytes(b"one,two\n\n")
    with pytest.raises(DragomanError, match="has more than 8 bytes"):
        read_terms(tmp_path / "a.csv", NO_FORMS)


@pytest.mark.parametrize(
    ("longest", "options", "has_room"),
    [
        (None, {}, True),
        (4, {}, True),  # three tokens and END
        (3, {}, False),
        (None, {"max_length": 3}, True),
        (None, {"max_length": 2}, False),
        (9, {"max_length": 2}, False),
        (4, {"max_length": 9}, True),
        (None, {"max_length": 4, "force_words": ("d",)}, True),
        (None, {"max_length": 3, "force_words": ("d",)}, False),
        (None, {"max_length": 5, "prefix": "cd"}, True),
        (None, {"max_length": 4, "prefix": "cd"}, False),
        (4, {"min_length": 3}, True),  # the term's tokens count
    ],
)
def test_a_term_has_the_room_that_other_rules_leave(longest, options, has_room):
    tokenizer = Tokenizer.train(["b c d"] * 3, "char", TokenizerSettings(), 20)
    glossary = Glossary([Term("b", "ccc")], NO_FORMS)
    translator = Translator(
        Tokenizers(tokenizer, tokenizer), lambda: pytest.fail("no search"), longest_source=longest
    )
    prepared = translator.prepare(["b"], SearchSettings(**options), glossary)
    assert [len(phrases) for phrases in prepared.terms] == [has_room]
    assert prepared.constraints.continuing == word_continuations(tokenizer) != frozenset()
    assert (
        prepared.constraints.forced == translator.prepare(["b"], SearchSettings(**options)).constraints.forced
    )


def test_both_dictionaries_are_read_when_they_are_loaded(monkeypatch):
    languages = []
    for name, result in (("base_form", "x"), ("inflected_forms", {})):
        note = lambda _, language, result=result: languages.append(language) or result  # noqa: E731
        monkeypatch.setattr(glossaries, name, note)
    Glossary([Term("x", "y")], LANGUAGES).load_dictionaries()
    assert languages == ["source", "target"]


def test_a_dictionary_is_read_by_one_thread(monkeypatch):
    reads, together = [], Barrier(4)

    def read(code):
        reads.append(code)
        time.sleep(0.02)
        return {b"a": b"as"}

    def forms(word):
        together.wait(MAX_SECONDS)
        return inflection.inflected_forms([word], "de")

    monkeypatch.setattr(inflection, "is_known", lambda code: True)
    monkeypatch.setattr(inflection, "forms_by_base", cache(read))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(forms, "aaaa")) == [{"a": ["a", "as"]}] * 4
    assert reads == ["de"]


def test_copies_are_annotated_by_the_lexicon_in_base_forms_of_the_target_language(tmp_path, monkeypatch):
    """If the vocabulary of the source has the symbols."""
    written = []
    monkeypatch.setattr(pipeline_terms, "write_copies", lambda *values: written.append(values[4:]))
    files = tmp_path / "a", tmp_path / "b"
    for path, word in zip(files, ("Red", "Rot"), strict=True):
        path.write_text(f"{word}\n" * 9)
    recipe = small_recipe(tmp_path, tmp_path / "run", seed=7)
    recipe = replace(recipe, data=replace(recipe.data, source_language="en", target_language="de"))
    knowing, other = (
        Tokenizer.train(["a b"] * 9, "bpe", TokenizerSettings(symbols=symbols), 300)
        for symbols in (SYMBOLS, ())
    )
    write_annotated_copies(tmp_path, recipe, files, Tokenizers(knowing, other), PairFilter(), 9)
    assert written == [(AnnotatedSources(TermSampler({"red": {"Rot"}}, "de"), 7), COPIES)]
    with pytest.raises(DragomanError, match="The vocabulary that the run takes over has no <term>, <is>"):
        write_annotated_copies(tmp_path, recipe, files, Tokenizers(other, knowing), PairFilter(), 9)


def test_no_word_is_annotated_twice(monkeypatch):
    """Also where most words are joined with the next ones."""
    monkeypatch.setattr(annotated_terms, "MASKED", 0)
    monkeypatch.setattr(annotated_terms, "JOINED", 0.7)
    source = "a b c d e"
    sampler, joined = TermSampler({word: {word.upper()} for word in source}, "und"), 0
    for seed in range(300):
        annotated = sampler.sample(source, source.upper(), np.random.default_rng(seed))
        assert re.sub("<term>|<is> [A-E ]+</term>", "", annotated) == source
        terms = re.findall("<term> ?([a-e ]+)<is> ([A-E ]+)</term>", annotated)
        assert all(words.upper() == translation for words, translation in terms)
        joined += any(" " in words for words, _ in terms)
    assert joined > 50

"""Models that are told terms in their sources: lexicon, annotated text, copies of a corpus, translation."""

import random
import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.model.build import build_model
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.run import run
from dragoman.pipeline.terms import COPIES
from dragoman.system.errors import DragomanError
from dragoman.text import annotated_terms
from dragoman.text.annotated_terms import (
    ANNOTATED,
    BEGIN,
    END,
    IS,
    MAX_TERMS,
    SYMBOLS,
    WORD,
    Annotation,
    TermSampler,
    annotate,
    knows_terms,
    without_symbols,
)
from dragoman.text.corpus import Corpus
from dragoman.text.lexicon import diagonal_prior, learn_lexicon
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.annotation import annotate_sentence
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.model_folder import Tokenizers, save_model
from dragoman.translation.tags import remove_tags
from tests.conftest import small_recipe
from tests.test_translator import LINES, SEARCH
from tests.test_translator import SETTINGS as MODEL

NO_FORMS = Languages("und", "und")
ANNOTATION = re.compile(r"( ?)<term>( ?)(.*?)<is> (.*?)</term>")


def plain(text):
    """A text without its annotations."""
    return ANNOTATION.sub(lambda match: match[1] + match[2] + match[3], text)


def letters(text):
    """The words of a text without symbols."""
    for symbol in SYMBOLS:
        text = text.replace(symbol, " ")
    return WORD.findall(text)


# ---- the lexicon


@pytest.mark.parametrize("seed", range(3))
def test_words_that_always_translate_each_other_are_found(seed):
    """A text in which each word has one translation, in another order, beside words without one."""
    draw = random.Random(seed)
    words = [f"s{number}" for number in range(40)]
    pairs = []
    for _ in range(400):
        source = draw.sample(words, draw.randint(2, 6))
        target = [word.replace("s", "t") for word in source]
        place = draw.randrange(len(target))
        target[place:] = reversed(target[place:])
        target.insert(draw.randint(0, len(target)), f"x{draw.randrange(500)}")
        pairs.append((source, target))
    lexicon = learn_lexicon(pairs)
    assert set(lexicon) == set(words)
    for word, translations in lexicon.items():
        assert translations == {word.replace("s", "t")}


def test_a_text_without_translations_has_no_lexicon():
    assert learn_lexicon([]) == {}
    assert learn_lexicon([([], ["x"]), (["y"], [])]) == {}
    assert learn_lexicon([([f"s{n}"], [f"t{n}"]) for n in range(9)]) == {}  # each was seen once


@given(st.integers(0, 9), st.integers(0, 9))
def test_the_prior_is_a_distribution_that_prefers_the_diagonal(source, target):
    prior = diagonal_prior(source, target)
    assert prior.shape == (target, source + 1)
    np.testing.assert_allclose(prior.sum(1), 1)
    if source == target > 0:
        assert (prior[:, 1:].argmax(1) == np.arange(source)).all()


# ---- annotated sources


@given(st.lists(st.sampled_from(["dog", "a", "runs", ",", "Hund"]), min_size=1, max_size=7), st.data())
def test_an_annotated_text_is_the_text_with_annotations(words, data):
    text = " ".join(words)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    chosen = data.draw(st.lists(st.sampled_from(spans), unique=True))
    targets = {span: data.draw(st.sampled_from(["x", "y z"])) for span in chosen}
    annotated = annotate(text, [Annotation(*span, target) for span, target in targets.items()])
    assert plain(annotated) == text
    assert [(text[slice(*span)], targets[span]) for span in sorted(targets)] == [
        (match[3], match[4]) for match in ANNOTATION.finditer(annotated)
    ]


def test_an_annotated_word_has_the_tokens_that_it_has_elsewhere():
    tokenizer = Tokenizer.train([*LINES * 5], "bpe", TokenizerSettings(symbols=SYMBOLS), 340)
    text = "two dogs play"
    annotated = annotate(text, [Annotation(4, 8, "Schnee")])
    pieces = tokenizer.pieces(tokenizer.encode([annotated])[0])
    begin, middle, end = (pieces.index(symbol) for symbol in SYMBOLS)
    parts = pieces[:begin], pieces[begin + 1 : middle], pieces[end + 1 :]
    assert [piece for part in parts for piece in part] == tokenizer.pieces(tokenizer.encode([text])[0])
    assert pieces[middle + 1 : end] == tokenizer.pieces(tokenizer.encode(["Schnee"])[0])
    assert knows_terms(tokenizer)
    assert not knows_terms(Tokenizer.train(LINES * 5, "bpe", TokenizerSettings(), 330))


@given(st.lists(st.sampled_from([*SYMBOLS, "a", " ", "<", "term>", "is"]), max_size=8).map("".join))
def test_a_text_has_no_symbols_of_its_own(text):
    assert not any(symbol in without_symbols(text) for symbol in SYMBOLS)
    assert without_symbols(text).replace(" ", "") == text.replace(" ", "")


LEXICON = {word: {word.upper()} for word in "abcdef"} | {"g": {"A", "G"}}


@pytest.mark.long
@settings(max_examples=200)
@given(
    st.lists(st.sampled_from("abcdefgz"), max_size=8),
    st.lists(st.sampled_from("ABCDEFGZ"), max_size=8),
    st.integers(0, 99),
)
def test_annotations_are_drawn_from_words_that_no_other_word_could_translate(source, target, seed):
    sampler, texts = TermSampler(LEXICON, "und"), (" ".join(source), " ".join(target))
    with patch.object(annotated_terms, "MASKED", 0):
        annotated = sampler.sample(*texts, np.random.default_rng(seed))
    with patch.object(annotated_terms, "MASKED", 1):
        masked = sampler.sample(*texts, np.random.default_rng(seed))
    assert masked == ANNOTATION.sub(r"<term><is> \4</term>", annotated)
    assert plain(annotated) == " ".join(source)
    drawn = ANNOTATION.findall(annotated)
    assert len(drawn) <= MAX_TERMS
    for *_, words, translation in drawn:
        assert f" {translation} " in f" {' '.join(target)} "
        for word, other in zip(words.split(), translation.split(), strict=True):
            assert other in LEXICON[word]
            assert source.count(word) == 1
            assert sum(one in LEXICON[word] for one in target) == 1
            assert sum(other in LEXICON.get(one, ()) for one in source) == 1


def test_so_many_sources_are_annotated_and_the_same_for_the_same_state():
    sampler = TermSampler(LEXICON, "und")
    texts = [sampler.sample("a b c d", "A B C D", np.random.default_rng([1, line])) for line in range(2_000)]
    share = sum(BEGIN in text for text in texts) / len(texts)
    assert share == pytest.approx(ANNOTATED, abs=0.05)
    assert {text.count(IS) for text in texts} == set(range(MAX_TERMS + 1))
    assert any(re.search(r"<term> ?\w \w<is>", text) for text in texts)
    assert sampler.sample("a b", "A B", np.random.default_rng(5)) == sampler.sample(
        "a b", "A B", np.random.default_rng(5)
    )


@pytest.mark.long
def test_base_forms_are_written_where_they_are_known():
    pytest.importorskip("simplemma")
    sampler = TermSampler({"dogs": {"Hunde"}}, "de")
    texts = {sampler.sample("Dogs", "Hunde", np.random.default_rng(seed)) for seed in range(30)}
    assert texts == {"Dogs", f"{BEGIN}Dogs{IS} Hund{END}", f"{BEGIN}{IS} Hund{END}"}


# ---- translations


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that knows terms, in its folder."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(LINES * 5, "bpe", TokenizerSettings(symbols=SYMBOLS), 340)
    folder = tmp_path_factory.mktemp("run")
    model = build_model(MODEL, len(tokenizer), len(tokenizer))
    save_model(folder / "model", model, MODEL, Tokenizers(tokenizer, tokenizer))
    return folder


def test_a_model_that_knows_terms_reads_them_in_its_source(folder):
    translator = Translator.load(folder)
    glossary = Glossary([Term("dogs", "bike"), Term("Schnee ist", "snow is")], NO_FORMS)
    assert translator.knows_terms
    annotated = [
        "ein Mann fährt Rad",
        "two<term><is> bike</term> play",
        "der<term><is> snow is</term> kalt",
        "a man rides a bike",
    ]
    tokenizer = translator.tokenizers.source
    prepared = translator.prepare(LINES, SEARCH, glossary)
    assert [text for text, _ in prepared.without_tags] == annotated
    assert prepared.sources == [[*ids, 3] for ids in tokenizer.encode(annotated)]
    for source, phrases, target in zip(
        prepared.sources, prepared.terms, ("", "bike", "snow is", ""), strict=True
    ):
        assert [phrase.forms for phrase in phrases] == ([[tokenizer.encode([target])[0]]] if target else [])
        for phrase in phrases:
            assert tokenizer.decode([source[place] for place in phrase.places]) == target
    assert translator.prepare(LINES, SEARCH).sources == [[*ids, 3] for ids in tokenizer.encode(LINES)]
    for line, translation in zip(LINES, translator.translate(LINES, SEARCH, glossary), strict=True):
        assert glossary.unused(line, translation) == []


def test_symbols_in_a_text_are_no_symbols(folder):
    translator = Translator.load(folder)
    ids = {translator.tokenizers.source.ids([symbol])[0] for symbol in SYMBOLS}
    (source,) = translator.prepare(["two <term> dogs<is> Hund</term> play"], SEARCH).sources
    assert not ids & set(source)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            ["dogs", "man", "<b>dogs</b>", "<i>a", "man</i>", "</i>", "x", "<br/>", "{name}", "(dogs)."]
        ),
        min_size=1,
        max_size=6,
    )
)
def test_tags_stay_at_their_words(words):
    glossary = Glossary([Term("dogs", "Hund"), Term("man", "ein Mann")], NO_FORMS)
    text, tags = remove_tags(" ".join(words))
    annotated, moved = annotate_sentence(text, tags, glossary)
    every = glossary.find(text)
    matches = [
        match for number, match in enumerate(every) if match.term not in {one.term for one in every[:number]}
    ]
    words, after = [match.span() for match in re.finditer(r"\S+", text)], annotated.split()

    def expected(end):
        """The words of the first characters of the text, with targets in the place of terms."""
        beginning = text[:end]
        for match in reversed([match for match in matches if match.end <= end]):
            beginning = f"{beginning[: match.start]}{match.term.target}{beginning[match.end :]}"
        return letters(beginning)

    assert [replace(tag, word=0) for tag in moved] == [replace(tag, word=0) for tag in tags]
    assert letters(annotated) == expected(len(text))
    for tag, other in zip(tags, moved, strict=True):
        if not 0 <= tag.word < len(words):
            assert other.word == (tag.word if tag.word < 0 else len(after))
            continue
        start, end = words[tag.word]
        inside = [match for match in matches if match.start < end and match.end > start]
        if tag.follows_word:
            last = max([end, *(match.end for match in inside)])
            assert letters(" ".join(after[: other.word + 1])) == expected(last)
        else:
            first = min([start, *(match.start for match in inside)])
            assert letters(" ".join(after[: other.word])) == expected(first)
            assert letters(after[other.word]) or not letters(text[start:end])


# ---- training


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two files whose words translate each other."""
    folder, draw = tmp_path_factory.mktemp("text"), random.Random(2)
    words = ["red", "green", "dog", "cat", "runs", "sleeps", "old", "new", "house", "tree"]
    lines = [draw.sample(words, draw.randint(2, 5)) for _ in range(300)]
    (folder / "a.source").write_text("".join(" ".join(line) + "\n" for line in lines))
    (folder / "a.target").write_text(
        "".join(" ".join(word.upper() for word in line) + "\n" for line in lines)
    )
    return folder


def unmasked(source):
    """A source whose annotations have the words that they left out: their targets in small letters."""

    def words(match):
        return match[0] if match[3].strip() else f"{BEGIN} {match[4].strip().lower()}{IS} {match[4]}{END}"

    return ANNOTATION.sub(words, source)


def recipe_of(texts, out, **training):
    made = small_recipe(texts, out, **training)
    data = replace(
        made.data,
        source=texts / "a.source",
        target=texts / "a.target",
        valid_source=None,
        valid_target=None,
        terms=True,
    )
    return replace(made, data=data, tokenizer=TokenizerSettings(vocabulary=330))


@pytest.mark.long
def test_a_run_with_terms_has_copies_with_other_annotations(texts, tmp_path):
    made = recipe_of(texts, tmp_path / "run", updates=2)
    run(made)
    translator = Translator.load(tmp_path / "run")
    assert translator.knows_terms
    corpus = Corpus(tmp_path / "run" / "data" / "train")
    assert corpus.statistics.sampled_copies == COPIES
    size = corpus.statistics.kept
    tokenizers = translator.tokenizers
    lines = (texts / "a.source").read_text().splitlines()
    copies = []
    for copy in range(COPIES):
        pairs = [corpus[copy * size + pair] for pair in range(size)]
        sources = [tokenizers.source.decode(source.tolist()) for source, _ in pairs]
        numbers = [corpus.line_number(copy * size + pair) for pair in range(size)]
        sources = [unmasked(source) for source in sources]
        assert [re.sub(r"\s+", " ", plain(source)).strip() for source in sources] == [
            lines[number - 1] for number in numbers
        ]
        for source, (_, target) in zip(sources, pairs, strict=True):
            for *_, words, translation in ANNOTATION.findall(source):
                assert translation.strip() == words.strip().upper()
            assert tokenizers.target.decode(target.tolist()) == plain(source).strip().upper()
        share = sum(IS in source for source in sources) / size
        assert share == pytest.approx(ANNOTATED, abs=0.15)
        copies.append(sources)
    assert len({tuple(sources) for sources in copies}) == COPIES
    held_out = (tmp_path / "run" / "data" / "valid.source.txt").read_text()
    assert not any(symbol in held_out for symbol in SYMBOLS)
    assert WORD.findall(held_out)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"source_tokens": "char"}, "terms needs bpe or unigram tokens.* are char"),
        ({"bpe_dropout": 0.1}, "each make copies of the training text"),
    ],
)
def test_what_terms_exclude_is_refused(texts, tmp_path, tokenizer, message):
    made = recipe_of(texts, tmp_path / "run", updates=2)
    made = replace(made, tokenizer=replace(made.tokenizer, **tokenizer))
    with pytest.raises(DragomanError, match=message):
        run(made)


def test_a_text_without_a_lexicon_is_refused(texts, tmp_path):
    made = recipe_of(texts, tmp_path / "run", updates=2)
    (tmp_path / "x.en").write_text("".join(f"w{number}\n" for number in range(99)))
    (tmp_path / "x.de").write_text("".join(f"v{number}\n" for number in range(99)))
    made = replace(made, data=replace(made.data, source=tmp_path / "x.en", target=tmp_path / "x.de"))
    with pytest.raises(DragomanError, match="No words of the training text translate each other"):
        run(made)
    assert isinstance(made, Recipe)

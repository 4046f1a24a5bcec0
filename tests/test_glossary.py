"""Terms: files of them, how they are found in sentences, and translations that use them."""

import csv
import io
import random
import re
import string
from contextlib import suppress
from dataclasses import replace
from html import escape
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import SearchSettings, Translator
from dragoman.documents.terms import MAX_TERM, read_terms, terms_of
from dragoman.search.grid_beam import MIN_ATTENTION, guidance
from dragoman.search.hypothesis import Constraints, Phrase
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from dragoman.translation.constraints import MAX_TERM_TOKENS, encode_terms
from dragoman.translation.glossary import Glossary, Term, words_of
from tests.test_translator import LINES, SEARCH, folder, translator  # noqa: F401

EN_DE = Languages("en", "de")
NO_FORMS = Languages("und", "und")  # no dictionary of simplemma
WORDS = ["red", "dog", "Dog", "IT", "C", "ice", "cream", "ß", "don't"]
TERMS = st.lists(
    st.lists(st.sampled_from([*WORDS, "+", "-"]), min_size=1, max_size=3).map(" ".join), max_size=8
)
SENTENCE = st.lists(
    st.sampled_from([*WORDS, "RED", "it", "It", "DOGS", "dogs", "+", ",", "-", "(", "x"]), max_size=12
).map(" ".join)


# ---- found in sentences


def fits(term, words):
    """Whether a term has these words, by the rule for capital letters."""
    return len(term) == len(words) and all(
        one == other
        or (one == one.lower() and one == other.lower())
        or (one.lower() == other.lower() and other.isupper() and len(other) > 1)
        for one, other in zip(term, words, strict=True)
    )


@settings(max_examples=80)
@given(TERMS, SENTENCE)
def test_the_longest_terms_are_found_from_left_to_right(sources, sentence):
    glossary = Glossary([Term(source, "x") for source in sources], NO_FORMS)
    words, expected, place = sentence.split(), [], 0
    while place < len(words):
        fitting = [
            (len(source.split()), source.split() == words[place : place + len(source.split())], source)
            for source in dict.fromkeys(sources)
            if fits(source.split(), words[place : place + len(source.split())])
        ]
        if fitting:
            length, is_same, _ = max(fitting, key=lambda one: one[:2])
            expected.append({source for size, same, source in fitting if (size, same) == (length, is_same)})
            place += length
        else:
            place += 1
    matches = glossary.find(sentence)
    assert len(matches) == len(expected)
    for match, allowed in zip(matches, expected, strict=True):
        assert match.term.source in allowed
        assert sentence[match.start : match.end].split() == sentence[match.start : match.end].split(" ")
        assert fits(match.term.source.split(), sentence[match.start : match.end].split())
    assert [match.start for match in matches] == sorted(match.start for match in matches)


@given(SENTENCE)
def test_a_term_is_no_part_of_a_word(sentence):
    glossary = Glossary([Term("do", "x"), Term("re", "y"), Term("ic", "z")], NO_FORMS)
    assert glossary.find(sentence) == []


def test_words_are_found_whatever_stands_beside_them():
    glossary = Glossary(
        [Term("dog", "Hund"), Term("C++", "C++"), Term("狗", "Hund"), Term("कुत्ता", "Hund")], NO_FORMS
    )
    for sentence in ("A dog.", "“Dog”", "(dog)", "dog-house", "a dog's bone?", "one/dog/two", "DOG!"):
        assert [match.term.source for match in glossary.find(sentence)] == ["dog"] * ("'" not in sentence)
    assert [match.term.source for match in glossary.find("Write C++, not C.")] == ["C++"]
    (match,) = glossary.find("我的狗很大")
    assert (match.start, match.end) == (2, 3)
    assert [match.term.source for match in glossary.find("यह कुत्ता है। कुत्ते")] == ["कुत्ता"]


def test_decomposed_letters_are_the_same_letters():
    for term, sentence in (("Café", "Ein Cafe\u0301."), ("Cafe\u0301", "Ein Café.")):
        (match,) = Glossary([Term(term, "x")], NO_FORMS).find(sentence)
        assert sentence[match.start : match.end] in {"Café", "Cafe\u0301"}


def test_the_first_of_several_targets_counts_and_case_may_tell_terms_apart():
    glossary = Glossary(
        [Term("dog", "Hund"), Term("dog", "Köter"), Term("Apple", "Apple"), Term("apple", "Apfel")], NO_FORMS
    )
    targets = [match.term.target for match in glossary.find("dog, Apple, apple and APPLE")]
    assert targets[:3] == ["Hund", "Apple", "Apfel"]
    assert len(glossary.terms) == 3


@pytest.mark.long
def test_inflected_words_are_found_and_have_inflected_translations():
    pytest.importorskip("simplemma")
    glossary = Glossary([Term("dog", "Hund"), Term("fire engine", "rotes Auto")], EN_DE)
    assert [match.term.target for match in glossary.find("Dogs chase two fire engines.")] == [
        "Hund",
        "rotes Auto",
    ]
    assert {"Hund", "Hunde", "Hunden", "Hundes"} <= set(glossary.forms(Term("dog", "Hund")))
    assert glossary.forms(glossary.terms[0])[0] == "Hund"
    assert glossary.unused("Two dogs.", "Zwei Hunden.") == []
    assert glossary.unused("Two dogs.", "Zwei Hundehütten.") == [Term("dog", "Hund")]


def test_without_a_dictionary_a_word_has_one_form(monkeypatch):
    monkeypatch.setattr("dragoman.text.inflection.find_spec", lambda name: None)
    from dragoman.text import inflection

    inflection.is_known.cache_clear()
    glossary = Glossary([Term("dog", "Hund")], EN_DE)
    assert (glossary.find("dogs"), glossary.forms(Term("dog", "Hund"))) == ([], ["Hund"])
    inflection.is_known.cache_clear()


def test_a_large_glossary_is_searched_as_fast_as_a_small_one():
    draw = random.Random(1)
    names = ("".join(draw.choices(string.ascii_lowercase, k=8)) for _ in range(20_000))
    glossary = Glossary([Term("a", "b"), *(Term(f"a {name}", "x") for name in names)], NO_FORMS)
    looked_up = []
    glossary._by_words = Counting(glossary._by_words, looked_up)
    assert len(glossary.find("a " * 500)) == 500
    assert len(looked_up) <= 3 * 2 * 500


class Counting(dict):
    """A table that counts what is looked up."""

    def __init__(self, values, looked_up):
        super().__init__(values)
        self.looked_up = looked_up

    def get(self, key, default=None):
        self.looked_up.append(key)
        return super().get(key, default)


# ---- files


TEXT = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=6
).map(lambda text: text.strip("\ufeff") or "x")
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5)


def as_csv(pairs, delimiter=","):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(pairs)
    return out.getvalue().encode()


def as_tbx(pairs):
    entries = "".join(
        f'<termEntry><langSet xml:lang="en-GB"><tig><term>{escape(source)}</term></tig></langSet>'
        f'<langSet xml:lang="de"><ntig><termGrp><term>{escape(target)}</term></termGrp></ntig></langSet>'
        "</termEntry>"
        for source, target in pairs
    )
    return f'<?xml version="1.0"?><martif><text><body>{entries}</body></text></martif>'.encode()


@settings(max_examples=60)
@given(PAIRS)
def test_a_file_of_any_kind_has_the_terms_that_were_written(pairs):
    terms = [Term(source, target) for source, target in pairs]
    header = ("source", "target")
    assert terms_of(as_csv([header, *pairs]), ".csv", "g", EN_DE) == terms
    assert terms_of(as_csv([("id", "de", "en"), *((1, t, s) for s, t in pairs)]), ".csv", "g", EN_DE) == terms
    assert terms_of(as_csv([header, *pairs], "\t"), ".tsv", "g", EN_DE) == terms
    assert terms_of(as_tbx(pairs), ".tbx", "g", EN_DE) == terms
    languages = [(*pair, *codes) for pair in pairs for codes in (("EN", "de"), ("de", "en"))]
    assert terms_of(as_csv([header, *languages]), ".csv", "g", EN_DE) == terms
    assert terms_of(as_csv(languages), ".csv", "g", EN_DE) == terms


def test_a_table_needs_no_header():
    assert terms_of(b"dog\tHund\r\n\r\ncat\tKatze\tcomment", ".tsv", "g", EN_DE) == [
        Term("dog", "Hund"),
        Term("cat", "Katze"),
    ]


def test_the_preferred_term_is_taken_and_no_deprecated_one():
    note = '<termNote type="administrativeStatus">{}Term-admn-sts</termNote>'
    terms = {
        "de": {"K&#246;ter": note.format("deprecated"), "Tier": "", "Hund": note.format("preferred")},
        "en": {"dog": "", "hound": "", "cur": note.format("superseded")},
        "fr": {"chien": ""},
    }
    sections = "".join(
        f'<langSec xml:lang="{code}">'
        + "".join(f"<termSec><term>{term}</term>{status}</termSec>" for term, status in section.items())
        + "</langSec>"
        for code, section in terms.items()
    )
    tbx = f"<tbx><conceptEntry>{sections}</conceptEntry></tbx>".encode()
    assert terms_of(tbx, ".tbx", "g", EN_DE) == [Term("dog", "Hund"), Term("hound", "Hund")]
    assert terms_of(tbx, ".tbx", "g", Languages("fr", "de")) == [Term("chien", "Hund")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.docx", b"", "is no glossary by its name; it has to end in .tsv, .csv or .tbx"),
        ("g.xlsx", b"", r"has to end in .tsv, .csv or .tbx\. Excel saves a sheet so as “CSV UTF-8”"),
        ("g.tsv", b"dog\n", "row 1 .*dog.* does not have a term and its translation"),
        ("g.tsv", b"\n\tKatze\n", "row 1 .*Katze.* does not have"),
        ("g.csv", b'"dog,Hund', "begins with a quotation mark, and does not end with one"),
        ("g.tbx", b"<html></html>", "is no TBX"),
        ("g.tbx", b"<tbx><term></tbx>", "ends no element"),
        ("g.tsv", b"x" * (MAX_TERM + 1) + b"\ty\n", f"has {MAX_TERM + 1} characters, and a term has at most"),
        ("g.tsv", b"\xff\xfe\x00", "UTF"),
    ],
)
def test_what_is_no_glossary_gets_a_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DragomanError, match=message):
        read_terms(tmp_path / name, EN_DE)


def test_a_file_that_is_not_there_gets_a_sentence(tmp_path):
    with pytest.raises(DragomanError, match="cannot be read: No such file"):
        read_terms(tmp_path / "g.tsv", EN_DE)


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(alphabet='<>"/ntermlagS\t,\n&;', max_size=60).map(str.encode))
def test_a_damaged_file_gets_terms_or_a_sentence(content):
    for suffix in (".tsv", ".csv", ".tbx"):
        with suppress(DragomanError, UserWarning):
            assert all(term.source and term.target for term in terms_of(content, suffix, "g", EN_DE))


# ---- in translations


PHRASES = ["dogs play", "bike", "kalt", "rides a", "Schnee"]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("native", [True, False])
def test_translations_have_their_terms_and_others_do_not_change(folder, native):  # noqa: F811
    translator = Translator.load(folder, native=native, workers=1)  # noqa: F811
    draw = random.Random(3)
    plain = translator.n_best(LINES, SEARCH)
    for _ in range(6 if native else 2):
        words = draw.sample(sorted({word for line in LINES for word in line.split()}), 2)
        glossary = Glossary([Term(word, draw.choice(PHRASES)) for word in words], NO_FORMS)
        with_terms = translator.n_best(LINES, SEARCH, glossary)
        for line, before, after in zip(LINES, plain, with_terms, strict=True):
            if not glossary.find(line):
                assert after == before if native else after[0].text == before[0].text
            assert glossary.unused(line, after[0].text) == []
        assert translator.translate(LINES, SEARCH, glossary) == [best[0].text for best in with_terms]
        with patch("dragoman.translation.native_backend.MAX_OUTPUT", 1):  # each sentence is a search
            assert translator.n_best(LINES, SEARCH, glossary) == with_terms or not native


@pytest.mark.long
def test_both_backends_use_terms_alike(folder):  # noqa: F811
    glossary = Glossary([Term("dogs", "bike"), Term("Schnee", "dogs play"), Term("man", "kalt")], NO_FORMS)
    for beam_size in (1, 2, 4):
        asked = replace(SEARCH, beam_size=beam_size)
        one, other = (
            Translator.load(folder, native=native).n_best(LINES, asked, glossary) for native in (True, False)
        )
        assert [[best.text for best in n_best] for n_best in one] == [
            [best.text for best in n_best] for n_best in other
        ]


def test_terms_are_found_in_the_parts_of_a_long_sentence(translator):  # noqa: F811
    glossary = Glossary([Term("dogs", "bike"), Term("Schnee", "kalt")], NO_FORMS)
    line = " ".join(["two dogs play,"] * 3 + ["der Schnee ist kalt"])
    prepared = translator.prepare([line], SEARCH, glossary, split=12)
    assert len(prepared.sources) == len(prepared.terms) > 1
    for part, phrases in zip(prepared.sources, prepared.terms, strict=True):
        text = translator.tokenizers.source.decode(part[:-1])
        assert len(phrases) == len({match.term for match in glossary.find(text)})


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["dogs", "play", "Schnee", "ist", "man", ",", "two"]), min_size=1, max_size=9)
)
def test_places_are_the_tokens_of_the_words(translator, words):  # noqa: F811
    glossary = Glossary([Term("dogs", "x"), Term("Schnee ist", "y"), Term("man", "z")], NO_FORMS)
    tokenizer, line = translator.tokenizers.source, " ".join(words)
    ids = [*tokenizer.encode([line])[0], 3]
    (phrases,) = encode_terms(glossary, glossary.find, tokenizer, tokenizer, [line], [[ids]], 99)
    pieces = tokenizer.pieces(ids)
    distinct = dict.fromkeys(match.term for match in glossary.find(line))
    for term, phrase in zip(distinct, phrases, strict=True):
        count = sum(match.term == term for match in glossary.find(line))
        text = "".join(pieces[place] for place in phrase.places).replace("▁", " ").split()
        assert text == term.source.split() * count


def test_terms_of_a_sentence_are_bounded(translator):  # noqa: F811
    tokenizer = translator.tokenizers.target
    words = [f"{first}{second}" for first in "abcdeimn" for second in "abcdeimn"]
    glossary = Glossary([Term(word, word) for word in words], NO_FORMS)
    line = " ".join(words)
    prepared = translator.prepare([line], SEARCH, glossary)
    (phrases,) = prepared.terms
    assert 0 < sum(phrase.tokens for phrase in phrases) <= MAX_TERM_TOKENS
    few = translator.prepare([line], replace(SEARCH, max_length=9), glossary)
    assert sum(phrase.tokens for phrase in few.terms[0]) <= 9
    assert translator.translate([line], replace(SEARCH, max_length=9), glossary)
    assert len(tokenizer)


@pytest.mark.parametrize("options", [{"temperature": 1.0}, {"groups": 2}, {"coverage_penalty": 0.1}])
def test_terms_need_a_beam_search(translator, options):  # noqa: F811
    glossary = Glossary([Term("dogs", "bike")], NO_FORMS)
    with pytest.raises(DragomanError, match="A glossary needs a beam search"):
        translator.translate(LINES, SearchSettings(), glossary, **options)


def test_what_tags_stand_for_is_no_term(translator):  # noqa: F811
    glossary = Glossary([Term("dogs", "bike"), Term("b", "kalt")], NO_FORMS)
    prepared = translator.prepare(["<b>two {dogs} play</b>"], SEARCH, glossary, keep_tags=True)
    assert prepared.terms == [[]]
    (translation,) = translator.translate(["two <b>dogs</b> play"], SEARCH, glossary, keep_tags=True)
    assert re.search("bike", translation)
    assert translation.count("<b>") == translation.count("</b>") == 1


@settings(max_examples=60)
@given(
    st.lists(st.integers(4, 8), max_size=5),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.lists(
        st.tuples(
            st.lists(st.lists(st.integers(4, 8), min_size=1, max_size=2), min_size=1, max_size=2),
            st.lists(st.integers(0, 3), unique=True, max_size=2),
        ),
        max_size=3,
    ),
)
def test_attention_to_a_terms_words_favours_the_tokens_that_begin_it(ids, weights, words):
    """The ratio of two tokens depends on the phrases alone that one of them begins."""
    rules = Constraints(forced=[Phrase(forms, places) for forms, places in words])
    attention = [weight / max(1.0, sum(weights)) for weight in weights]
    begun = [
        any(
            ids[len(ids) - size :] == form[:size]
            for form in forms
            for size in range(1, len(form))
            if size <= len(ids)
        )
        and not any(
            ids[first : first + len(form)] == form
            for form in forms
            for first in range(len(ids) - len(form) + 1)
        )
        for forms, _ in words
    ]
    for token in range(4, 10):
        expected = 0.0
        for (forms, places), is_begun in zip(words, begun, strict=True):
            if places and not is_begun:
                weight = torch.tensor(sum(attention[place] for place in places), dtype=torch.float64)
                weight = weight.clamp(MIN_ATTENTION, 1 - MIN_ATTENTION)
                begins = token in {form[0] for form in forms}
                expected += float(3 * weight.log() if begins else (1 - weight).log())
        assert guidance(ids, token, attention, rules) == pytest.approx(expected)


# ---- the command


def test_the_command_uses_terms_and_says_which_it_could_not_use(folder, tmp_path, command_line):  # noqa: F811
    (tmp_path / "g.tsv").write_text("dogs\tbike\nSchnee\tkalt\n")
    (tmp_path / "more.csv").write_text("source,target\ndogs,kalt\n")
    files = [str(tmp_path / name) for name in ("g.tsv", "more.csv")]
    stdin = "".join(f"{line}\n" for line in LINES).encode()
    status, out, err = command_line(
        "translate", folder, "--glossary", *files, "--max-length", "9", "--ban-words", "kalt", stdin=stdin
    )
    lines = out.splitlines()
    assert (status, len(lines)) == (0, len(LINES))
    assert "bike" in words_of(lines[1])
    assert "The glossary has 1 term again" in err
    assert "'dogs' with 'kalt'" in err
    assert "1 of 2 terms of the glossary are not used. The first is 'Schnee'" in err


def test_a_glossary_of_other_languages_is_refused(folder, tmp_path, command_line):  # noqa: F811
    (tmp_path / "g.csv").write_text("source,target,a,b\ndogs,chiens,en,fr\n")
    status, out, err = command_line("translate", folder, "--glossary", tmp_path / "g.csv", stdin=b"dogs\n")
    assert (status, out) == (2, "")
    assert "has no terms from und to und" in err


def test_documents_and_files_are_translated_with_terms(folder, tmp_path, command_line):  # noqa: F811
    for name, target in (("g", "bike"), ("h", "kalt")):
        (tmp_path / f"{name}.tsv").write_text(f"dogs\t{target}\n")
    (tmp_path / "a.txt").write_text("".join(f"{line}\n\n" for line in LINES))
    before = ["translate", folder, "--max-length", "9", "--glossary"]
    for name, target in (("g", "bike"), ("h", "kalt")):
        glossary, out = tmp_path / f"{name}.tsv", tmp_path / f"{name}.out"
        status, text, err = command_line(*before, glossary, "--document", tmp_path / "a.txt")
        assert (status, target in words_of(text)) == (0, True), err
        status, _, err = command_line(*before, glossary, "--input", tmp_path / "a.txt", "--output", out)
        assert (status, target in words_of(out.read_text())) == (0, True), err
        assert "are not used" not in err

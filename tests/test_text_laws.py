"""Bounds and defaults of text: translation memories, names of corpora, sampled sentences, open files."""

import json
import resource
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system import machine
from dragoman.system.errors import DragomanError
from dragoman.text import sampled_sentences, tmx
from dragoman.text.conversion import ConvertedData, with_languages
from dragoman.text.corpus import CorpusStatistics, read_statistics
from dragoman.text.mixture import WeightedCorpus, check_corpora
from dragoman.text.sampled_sentences import WordModel, sample_sentences
from dragoman.text.settings import Languages
from dragoman.text.tmx import read_tmx


@pytest.mark.parametrize(
    ("attributes", "code"), [('lang="en"', "en"), ('xml:lang="de"', "de"), ('lang="en" xml:lang="de"', "de")]
)
@pytest.mark.parametrize("chunk", [1, 7, 2**16])
def test_the_language_of_a_text_is_that_of_any_version_of_tmx(tmp_path, monkeypatch, attributes, code, chunk):
    monkeypatch.setattr(tmx, "CHUNK", chunk)
    path, text = tmp_path / "a.tmx", "a" * 99
    path.write_text(f"<tmx><body><tu><tuv {attributes}><seg>{text}</seg></tuv></tu></body></tmx>")
    (record,) = read_tmx(path)
    assert record.texts == ((code, text),)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_unit_has_a_bounded_number_of_texts(tmp_path, monkeypatch, count):
    monkeypatch.setattr(tmx, "MAX_TEXTS", 2)
    path, unit = tmp_path / "a.tmx", '<tuv xml:lang="en"><seg>a</seg></tuv>' * count
    path.write_text(f"<tmx><body><tu>{unit}</tu><tu>{unit}</tu></body></tmx>")
    if count > 2:
        with pytest.raises(DragomanError, match="a unit of more than 2 texts"):
            list(read_tmx(path))
    else:
        assert [len(record.texts) for record in read_tmx(path)] == [count] * 2


@given(st.sampled_from([None, "fr"]), st.sampled_from([None, "it"]))
def test_languages_that_are_given_win_over_the_names_of_the_corpora(source, target):
    names = WeightedCorpus(Path("a.en"), Path("a.de")), WeightedCorpus(Path("b.es"), Path("b.pt"))
    data = ConvertedData(corpus=names, source_language=source, target_language=target)
    assert with_languages(data).languages == Languages(source or "en", target or "de")


def test_sampled_sentences_have_a_bounded_number_of_words(monkeypatch):
    text = ["a b a b a b", "b a", "a"]
    for most, longest in ((2, 2), (4, 4), (99, 6)):
        monkeypatch.setattr(sampled_sentences, "MAX_WORDS", most)
        sentences = set(WordModel(text).sample(300, np.random.default_rng(0)))
        assert max(len(sentence.split()) for sentence in sentences) == longest


@given(
    st.integers(0, 5_000), st.integers(64, 4_096), st.integers(64, 8_192) | st.just(resource.RLIM_INFINITY)
)
def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows(count, soft, hard):
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    limits = [soft, hard]
    system = SimpleNamespace(
        RLIM_INFINITY=resource.RLIM_INFINITY,
        RLIMIT_NOFILE=resource.RLIMIT_NOFILE,
        getrlimit=lambda _: tuple(limits),
        setrlimit=lambda _, pair: limits.__setitem__(slice(None), pair),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "resource", system)
        machine.raise_open_file_limit(count)
    needed = count + 500 if hard == resource.RLIM_INFINITY else min(count + 500, hard)
    assert limits == [max(soft, needed), hard]


@pytest.mark.parametrize(
    ("weights", "message"),
    [((1.0, None), "corpus 2"), ((None, 1.0), "corpus 2"), ((0.0, 0.0), "sum to 0"), ((0.0, 2.0), None)],
)
def test_all_corpora_have_weights_or_none_has(weights, message):
    corpora = [WeightedCorpus(Path("a.en"), Path("a.de"), weight) for weight in weights]
    with nullcontext() if message is None else pytest.raises(DragomanError, match=message):
        check_corpora(corpora)


@given(
    st.dictionaries(
        st.sampled_from(["1", "30", "x", "-1", ""]),
        st.sampled_from([0.0, 0.5, 2.0, -1.0, -0.5]),
        max_size=3,
    ),
    st.integers(-1, 2),
    st.integers(-1, 2),
)
def test_the_numbers_of_a_corpus_are_possible_ones(tmp_path_factory, weights, kept, copies):
    path = tmp_path_factory.getbasetemp() / "corpus.json"
    path.write_text(json.dumps({"kept": kept, "sampled_copies": copies, "weights": weights}))
    is_possible = (
        all(line.isdecimal() and weight >= 0 for line, weight in weights.items())
        and (sum(weights.values()) > 0 or not weights)
        and min(kept, copies) >= 1
    )
    if is_possible:
        assert read_statistics(path) == CorpusStatistics(kept=kept, sampled_copies=copies, weights=weights)
    else:
        with pytest.raises(DragomanError, match="corpus.json"):
            read_statistics(path)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_last_new_sentences_are_found_and_no_more(tmp_path, count):
    """Of `p a b q` and `r a b s` there are two."""
    (tmp_path / "a").write_text("p a b q\nr a b s\n")
    if count < 3:
        found = sample_sentences(tmp_path / "a", count)
        assert len(found) == count
        assert set(found) <= {"p a b s", "r a b q"}
    else:
        with pytest.raises(DragomanError, match="2 new sentences could be made, and 3 were asked for"):
            sample_sentences(tmp_path / "a", count)

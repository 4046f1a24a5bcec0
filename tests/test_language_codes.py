"""Codes of languages are compared by what they mean."""

import string
from itertools import product

import langcodes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.models import Models, ServedModel
from dragoman.text.language_codes import (
    SIMPLE,
    closeness,
    could_be_same,
    family,
    is_same,
    matches,
    nearest,
    parts,
    standard,
)
from dragoman.text.settings import Languages, language_of_name

SAME = [
    ("zh-CN", "zh-Hans"), ("ZH-HANS", "zh_CN"), ("zh", "zh-Hans"), ("zh-TW", "zh-Hant"), ("cmn", "zh"),
    ("sr-Latn-RS", "sr-Latn"), ("sr", "sr-Cyrl"), ("sh", "sr-Latn"), ("no", "nb"), ("nb-NO", "no"),
    ("eng", "en"), ("EN_gb", "en"), ("fre", "fr"), ("fra", "fr-FR"), ("iw", "he"), ("pt_BR", "pt"),
    ("tl", "fil"),
]  # fmt: skip
DIFFERENT = [
    ("zh-TW", "zh-Hans"), ("zh", "zh-Hant"), ("zh-Hant", "zh-CN"), ("sr", "sr-Latn"), ("sr-Latn", "sr-Cyrl"),
    ("nn", "nb"), ("nn", "no"), ("en-GB", "en-US"), ("pt-BR", "pt-PT"), ("da", "nb"), ("yue", "zh-Hant"),
    ("hr", "sr-Latn"), ("de", "nl"), ("xx", "en"), ("en", "xx"),
]  # fmt: skip
CODES = sorted({code for pair in (*SAME, *DIFFERENT) for code in pair})


@pytest.mark.parametrize(("requested", "language"), [*SAME, *DIFFERENT, *[(code, code) for code in CODES]])
def test_a_language_answers_for_its_meaning_and_never_in_another_script_or_region(requested, language):
    is_one = (requested, language) not in DIFFERENT
    assert matches(requested, language) == matches(language, requested) == is_one
    assert (nearest(requested, [language]) == language) == is_one
    assert closeness(requested, language) >= 1
    models = Models((ServedModel("one", "xx", language, None),))
    assert (models.sources_into(requested) == ["xx"]) == is_one
    if is_one:
        assert family(requested) == family(language)
        assert could_be_same(requested, language)


@given(st.sampled_from(CODES), st.sampled_from(CODES))
def test_what_matches_has_one_script_and_no_other_region(first, second):
    assert matches(first, second) == matches(second, first)
    assert matches(first.lower().replace("-", "_"), second) == matches(first, second)
    if matches(first, second):
        assert parts(first)[1] == parts(second)[1]
        assert is_same(first, second)
        assert family(first) == family(second)
        regions = {parts(first)[2], parts(second)[2]} - {""}
        assert len(regions) < 2


@given(st.text(max_size=30), st.sampled_from(CODES))
def test_any_text_is_compared(text, code):
    for first, second in ((text, code), (code, text), (text, text)):
        assert matches(first, second) in {True, False}
        assert could_be_same(first, second) in {True, False}
        assert isinstance(family(first), str)


def test_the_nearest_variety_wins():
    assert nearest("pt-BR", ["pt-PT", "pt", "pt-BR"]) == "pt-BR"
    assert nearest("pt-BR", ["pt-PT", "pt"]) == "pt"
    assert nearest("zh-CN", ["zh-Hant", "zh", "zh-Hans"]) == "zh-Hans"
    assert nearest("no", ["nn", "nb"]) == "nb"
    assert nearest("en-AU", ["en-GB", "en-US"]) is None


def test_codes_of_two_letters_are_those_of_the_library():
    """They are known without it, because its import takes a tenth of a second."""
    for code in map("".join, product(string.ascii_lowercase, repeat=2)):
        assert standard(code) == langcodes.standardize_tag(code)
    simple = [code for code in langcodes.data_dicts.DEFAULT_SCRIPTS if SIMPLE.fullmatch(code)]
    for first, second in product(simple, repeat=2):
        if standard(first) == first and standard(second) == second:
            assert is_same(first, second) == (langcodes.tag_distance(first, second) <= 1)


@pytest.mark.parametrize("code", ["eng", "ZH_hans", "pt_br", "no", "sr-Latn-RS"])
def test_languages_are_kept_as_they_are_written(code):
    assert Languages(code, "de") == Languages(standard(code), "de")
    assert Languages(Languages(code).source) == Languages(code)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.eng", "en"), ("train.deu.gz", "de"), ("train.zh_CN", "zh-CN"), ("train.pt_BR.txt", "pt-BR"),
        ("train.pt-BR", "pt-BR"), ("train.sr_Latn", "sr-Latn"), ("train.zh-Hant-TW", "zh-Hant-TW"),
        *[(f"a.{ending}", "und") for ending in (
            "tok", "src", "ref", "hyp", "trg", "tgt", "bpe", "raw", "seg", "out", "log", "dev", "tsv", "run",
            "bak", "txt", "bin", "tmx", "en-de", "en_de", "EN", "pt_br", "xyz",
        )],
    ],
)  # fmt: skip
def test_the_ending_of_a_name_says_the_language(name, language):
    assert language_of_name(name) == language

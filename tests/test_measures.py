"""chrF++, TER and their significance: sacreBLEU's own numbers; the table of several test sets."""

import random
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
import sacrebleu.significance
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation.compare import (
    Comparison,
    bleu_p_value,
    p_value_of,
    paired_bootstrap,
    paired_bootstrap_of_means,
)
from dragoman.evaluation.measures import reported_metrics, reported_scores, ter_metric
from dragoman.evaluation.metrics import Score, bleu_metric
from dragoman.evaluation.score_table import SetScores, score_table
from dragoman.system.errors import DragomanError

WORDS = ["Ein", "Mann", "fährt", "auf", "einem", "Rad", "im", "Schnee."]
NAMES = ["BLEU", "chrF2", "chrF2++", "TER"]


def texts(seed, errors):
    """Sentences, the same for all seeds, of which some words are replaced."""
    chance, sentences = random.Random(seed), random.Random(0)
    return [
        " ".join(
            chance.choice(WORDS) if chance.random() < errors else word
            for word in sentences.choices(WORDS, k=8)
        )
        for _ in range(40)
    ]


REFERENCES, SYSTEM, BASELINE = texts(0, 0), texts(1, 0.3), texts(2, 0.34)


@pytest.mark.parametrize("tokenize", ["13a", "char", "none"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_reported_scores_are_those_of_the_metrics_with_these_options(tokenize, lowercase):
    hypotheses = [line.upper() if number % 2 else line for number, line in enumerate(texts(1, 0.2))]
    references = texts(2, 0.1)
    scores = list(reported_scores(hypotheses, references, tokenize, lowercase))
    metrics = reported_metrics(tokenize, lowercase)
    expected = [metric.corpus_score(hypotheses, [references]) for metric in metrics]
    assert [score.value for score in scores] == [score.score for score in expected]
    assert [score.signature for score in scores] == [str(metric.get_signature()) for metric in metrics]
    changed = list(reported_scores([line.lower() for line in hypotheses], references, tokenize, lowercase))
    assert (changed[0].value == scores[0].value) == lowercase


def test_all_scores_are_sacrebleus_with_its_signatures():
    expected = [
        (sacrebleu.corpus_bleu(SYSTEM, [REFERENCES], force=True), sacrebleu.BLEU()),
        (sacrebleu.corpus_chrf(SYSTEM, [REFERENCES]), sacrebleu.CHRF()),
        (sacrebleu.corpus_chrf(SYSTEM, [REFERENCES], word_order=2), sacrebleu.CHRF(word_order=2)),
        (sacrebleu.corpus_ter(SYSTEM, [REFERENCES]), sacrebleu.TER()),
    ]
    found = list(reported_scores(SYSTEM, REFERENCES))
    assert [score.name for score in found] == NAMES
    for score, (theirs, metric) in zip(found, expected, strict=True):
        metric.corpus_score(SYSTEM, [REFERENCES])
        assert (score.name, score.value) == (theirs.name, theirs.score)
        assert score.signature == str(metric.get_signature())
    assert len({score.value for score in found}) == len(NAMES)


def test_a_moved_phrase_is_one_edit_and_a_perfect_translation_none():
    def ter(hypothesis, reference, tokenize="13a"):
        return ter_metric(tokenize).corpus_score([hypothesis], [[reference]]).score

    assert ter("c d a b", "a b c d") == 25
    assert ter("a b c d", "a b c d") == 0
    assert ter("A B", "a b") == 0
    # 2 of the 9 characters of the reference are missing; as words, the only one is wrong
    assert ter("一个男人骑车。", "一个男人骑自行车。", "char") == pytest.approx(200 / 9)
    assert ter("一个男人骑车。", "一个男人骑自行车。", "zh") == pytest.approx(200 / 9)
    assert ter("一个男人骑车。", "一个男人骑自行车。") == 100


def test_all_comparisons_are_symmetric_and_have_the_scores_of_each_alone():
    metrics = reported_metrics("13a", lowercase=False)
    there = paired_bootstrap(SYSTEM, BASELINE, REFERENCES, metrics, samples=100)
    back = paired_bootstrap(BASELINE, SYSTEM, REFERENCES, metrics, samples=100)
    alone = zip(reported_scores(SYSTEM, REFERENCES), reported_scores(BASELINE, REFERENCES), strict=True)
    for one, other, (ours, theirs) in zip(there, back, alone, strict=True):
        assert (one.score.name, one.score.value, one.baseline.value) == (ours.name, ours.value, theirs.value)
        assert (one.score, one.baseline, one.p_value) == (other.baseline, other.score, other.p_value)
        assert "bs:100|seed:12345" in one.score.signature
        assert 0 < one.p_value < 1
    same = paired_bootstrap(SYSTEM, SYSTEM, REFERENCES, metrics, samples=10)
    assert [one.p_value for one in same] == [1, 1, 1, 1]


def test_a_p_value_is_of_sentences_however_many_runs_translate_them():
    metrics = [bleu_metric("13a", lowercase=False)]
    one = bleu_p_value([SYSTEM], [BASELINE], REFERENCES)
    assert one == paired_bootstrap(SYSTEM, BASELINE, REFERENCES, metrics)[0].p_value
    assert bleu_p_value([SYSTEM] * 3, [BASELINE] * 3, REFERENCES) == one
    shouted = [line.upper() if number % 3 else line for number, line in enumerate(BASELINE)]
    cased = paired_bootstrap(SYSTEM, shouted, REFERENCES, metrics)[0].p_value
    assert bleu_p_value([SYSTEM], [shouted], REFERENCES) == cased != one
    mixed = bleu_p_value([SYSTEM, BASELINE], [BASELINE, SYSTEM], REFERENCES)
    assert mixed == 1
    with pytest.raises(DragomanError, match="Translations: 1, references: "):
        bleu_p_value([SYSTEM, SYSTEM[:1]], [BASELINE] * 2, REFERENCES)


def test_a_p_value_of_a_text_without_spaces_is_that_of_its_characters():
    system, baseline, references = (
        [line.replace(" ", "").translate(str.maketrans("EMfaRiS", "一个男人骑车雪")) for line in lines]
        for lines in (SYSTEM, BASELINE, REFERENCES)
    )
    by_characters = paired_bootstrap(system, baseline, references, [bleu_metric("char", lowercase=False)])
    assert bleu_p_value([system], [baseline], references) == by_characters[0].p_value


@given(st.lists(st.integers(0, 5), min_size=1), st.integers(1, 5))
def test_a_p_value_is_sacrebleus_also_of_ties(differences, observed):
    found = np.array(differences, float)
    expected = sacrebleu.significance._compute_p_value(found - found.mean(), observed)
    assert p_value_of(found, observed) == expected


@pytest.mark.parametrize("seed", ["abc", "-1", "", "1.5"])
def test_a_seed_that_is_no_number_is_refused(monkeypatch, seed):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    message = f"SACREBLEU_SEED is {seed!r}; it has to be a number, such as 12345, or none for other samples"
    with pytest.raises(DragomanError, match=message):
        paired_bootstrap(SYSTEM, BASELINE, REFERENCES, reported_metrics("13a", lowercase=False), samples=10)
    with pytest.raises(DragomanError, match=message):
        paired_bootstrap_of_means("chrF", "s", [0.1, 0.2], [0.2, 0.2], samples=10)


def test_a_seed_of_the_environment_is_in_the_signature(monkeypatch):
    for seed in ("7", "None"):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        found = paired_bootstrap_of_means("chrF", "s", [0.1, 0.2], [0.2, 0.2], samples=10)
        assert found.score.signature == f"s|bs:10|seed:{seed.lower()}"


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(DragomanError, match="Translations: 1, references: 2"):
        list(reported_scores(["a"], ["a", "b"]))


# ---- several test sets


def test_the_table_has_a_row_for_each_set_and_names_different_signatures():
    def score(name, value, signature):
        return Score(name, value, signature)

    bleu, ter = score("BLEU", 30.125, "tok:13a"), score("TER", 50, "t")
    one = SetScores("news", 1000, [bleu, ter, Comparison(bleu, score("BLEU", 29, "tok:13a"), 0.25)])
    two = SetScores("a longer name", 7, [score("BLEU", 100, "tok:char"), ter])
    assert score_table([one, two]).splitlines() == [
        "test set       lines    BLEU    TER",
        "news           1,000   30.12  50.00",
        "  baseline             29.00",
        "  p                   0.2500",
        "a longer name      7  100.00  50.00",
        "",
        "BLEU [tok:13a] of news",
        "BLEU [tok:char] of a longer name",
        "TER [t]",
    ]


@st.composite
def some_sets(draw):
    """Test sets, each with some of the measures, with or without a baseline."""
    number = st.integers(0, 9999).map(lambda hundredths: hundredths / 100)
    sets = []
    for place in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
        scores = [Score(name, draw(number), draw(st.sampled_from(["s", "t"]))) for name in names]
        compared = [
            Comparison(score, replace(score, value=draw(number)), draw(number) / 100)
            for score in scores
            if draw(st.booleans())
        ]
        sets.append(SetScores(f"set{place}", draw(st.integers(0, 5000)), [*scores, *compared]))
    return sets


@given(some_sets())
def test_each_score_stands_in_the_row_of_its_set_below_the_name_of_its_measure(sets):
    head, *rows = score_table(sets).partition("\n\n")[0].splitlines()
    names = head.split()[3:]
    assert names == list(dict.fromkeys(score.name for each in sets for score in each.alone.values()))
    ends = [match.end() for match in re.finditer(r"\S+", head)][2:]  # after "test set" and "lines"

    def cells(row):
        spans = pairwise(ends)
        return {
            name: text for name, span in zip(names, spans, strict=True) if (text := row[slice(*span)].strip())
        }

    for each in sets:
        assert rows[0].split()[:2] == [each.name, f"{each.lines:,}"]
        assert cells(rows.pop(0)) == {name: f"{score.value:.2f}" for name, score in each.alone.items()}
        if each.compared:
            others = {name: f"{found.baseline.value:.2f}" for name, found in each.compared.items()}
            assert cells(rows.pop(0)) == others
            p_values = {name: f"{found.p_value:.4f}" for name, found in each.compared.items()}
            assert cells(rows.pop(0)) == p_values
    assert not rows

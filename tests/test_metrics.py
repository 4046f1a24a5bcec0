"""Scores: the libraries' numbers, under the right names."""

import random
import re
import subprocess
import sys

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation.compare import difference, paired_bootstrap
from dragoman.evaluation.measures import chrf, reported_metrics
from dragoman.evaluation.metrics import bleu, suitable_tokenization
from dragoman.evaluation.nearest import nearest
from dragoman.evaluation.paper import tokenised_bleu
from dragoman.evaluation.pronunciation import pronunciation_errors
from dragoman.system.errors import DragomanError
from dragoman.translation.mbr import minimum_bayes_risk

HYPOTHESES = ["Ein Mann fährt Rad.", "Zwei Hunde spielen im Schnee."]
REFERENCES = ["Ein Mann fährt auf einem Rad.", "Zwei Hunde spielen im Schnee."]


def test_bleu_and_chrf_are_sacrebleus_with_signatures():
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert str(score).startswith("BLEU = ")
    assert "BP = " in str(score)
    assert "case:lc" in bleu(HYPOTHESES, REFERENCES, lowercase=True).signature
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_languages_without_spaces_are_scored_by_characters():
    assert suitable_tokenization(["一个男人骑自行车。"]) == "char"
    assert suitable_tokenization(REFERENCES) == "13a"
    assert suitable_tokenization(["我用 Python 写了这个程序，然后把它发给了她。"]) == "char"
    assert suitable_tokenization(["ผู้ชายคนหนึ่ง ขี่จักรยาน ไปตามถนน"]) == "char"
    assert suitable_tokenization(["나는 자전거를 탄다", "Она едет на велосипеде"]) == "13a"
    assert bleu(["一个男人骑车。"], ["一个男人骑自行车。"], "char").value > 0
    for share, name in ((0.4, "13a"), (0.6, "char")):  # of the characters; a space for every nine others
        han = round(90 * share)
        text = "中" * han + "a" * (90 - han)
        spaced = " ".join(text[start : start + 9] for start in range(0, 90, 9))
        assert suitable_tokenization([spaced]) == name


SCRIPTS = {"char": "กກကកあアー中㐀", "13a": "aжαعअაհא가"}
"""A letter of scripts with spaces between phrases at most, and of scripts with a space between words."""


@pytest.mark.parametrize(("name", "letter"), [(name, each) for name in SCRIPTS for each in SCRIPTS[name]])
def test_a_script_without_spaces_between_words_is_scored_by_characters_also_if_it_has_a_few(name, letter):
    assert suitable_tokenization([" ".join([9 * letter] * 10)]) == name
    assert suitable_tokenization([90 * letter]) == "char"
    assert suitable_tokenization([" ".join([51 * letter] * 10)]) == "char"  # fewer spaces than words have
    assert suitable_tokenization([" ".join([40 * letter] * 10)]) == name


@given(st.lists(st.text(st.sampled_from("ab 中"), min_size=1), min_size=1), st.integers(2, 5))
def test_the_tokens_that_suit_a_text_suit_it_repeated_and_in_any_order(references, times):
    assert suitable_tokenization(references * times) == suitable_tokenization(references)
    assert suitable_tokenization(references[::-1]) == suitable_tokenization(references)


@given(st.lists(st.text(st.sampled_from("ab 中"), max_size=6), min_size=1, max_size=4), st.data())
def test_the_nearest_candidate_is_the_first_with_the_highest_bleu_of_tokens_that_suit_the_reference(
    texts, data
):
    reference = data.draw(st.sampled_from(texts) | st.text(st.sampled_from("ab 中"), max_size=6))
    metric = sacrebleu.BLEU(tokenize=suitable_tokenization([reference]), effective_order=True)
    scores = [metric.sentence_score(text, [reference]).score for text in texts]
    assert nearest(texts, reference) == scores.index(max(scores))


def edits(one, other):
    """The fewest words to insert, delete or replace."""
    row = list(range(len(other) + 1))
    for word in one:
        before, row[0] = row[0], row[0] + 1
        for place, theirs in enumerate(other, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (word != theirs)),
            )
    return row[-1]


PHONEMES = st.lists(st.sampled_from("AEK"), min_size=1, max_size=5).map(" ".join)


@given(st.lists(st.tuples(PHONEMES, st.lists(PHONEMES, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_error_rates_are_those_counted_against_the_pronunciation_with_the_fewest_errors_a_phoneme(pairs):
    found = pronunciation_errors([one for one, _ in pairs], [allowed for _, allowed in pairs])
    errors = phonemes = 0
    for one, allowed in pairs:
        counts = [(edits(other.split(), one.split()), len(other.split())) for other in allowed]
        least, length = min(counts, key=lambda count: count[0] / count[1])
        errors, phonemes = errors + least, phonemes + length
    wrong = sum(one not in allowed for one, allowed in pairs)
    assert [score.value for score in found] == pytest.approx(
        [100 * wrong / len(pairs), 100 * errors / phonemes]
    )


def test_a_word_is_right_if_it_is_any_of_its_pronunciations():
    words, phonemes = pronunciation_errors(["K AE T", "D AO", "T"], [["K AA T", "K AE T"], ["D AO G"], ["T"]])
    assert words.value == pytest.approx(100 / 3)
    assert phonemes.value == pytest.approx(100 / 7)


@pytest.mark.parametrize("texts", [("ab", ["a", "b"]), (["a", "b"], "ab"), ("ab", "ab")])
@pytest.mark.parametrize("measure", [bleu, chrf, lambda *texts: tokenised_bleu(*texts, "de")])
def test_a_text_in_place_of_lines_is_refused(measure, texts):
    with pytest.raises(DragomanError, match="are lists of lines; put a single one in a list"):
        measure(*texts)


def test_different_numbers_of_lines_and_none_are_refused():
    with pytest.raises(DragomanError, match="Translations: 2, references: 1"):
        bleu(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(DragomanError, match="There is nothing to score"):
        chrf([], [])


def test_error_rates_without_jiwer_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jiwer", None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[quickstart\]'"):
        pronunciation_errors(["K"], [["K"]])


# ---- one system against another


BLEU_AND_CHRF = reported_metrics("13a", lowercase=False)[:2]


def compare(system, baseline, references):
    return paired_bootstrap(system, baseline, references, BLEU_AND_CHRF)


@pytest.mark.long
def test_two_systems_are_compared_by_sacrebleus_paired_bootstrap():
    better, worse = REFERENCES * 20, ["Ein Mann.", "Zwei Hunde spielen im Schnee."] * 20
    for found, alone in zip(compare(better, worse, REFERENCES * 20), (bleu, chrf), strict=True):
        assert found.score.value == alone(better, REFERENCES * 20).value
        assert found.baseline.value == alone(worse, REFERENCES * 20).value
        assert found.p_value < 0.01
        assert "bs:1000|seed:12345" in found.score.signature
        assert f"{found.score.value - found.baseline.value:+.2f} (p = " in str(found)
    assert compare(better, worse, REFERENCES * 20) == compare(better, worse, REFERENCES * 20)
    assert all(one.p_value > 0.05 for one in compare(worse, worse, REFERENCES * 20))


@pytest.mark.long
def test_scores_and_p_values_are_those_of_sacrebleus_command(tmp_path):
    words, chance = HYPOTHESES[0].split() + HYPOTHESES[1].split(), random.Random(1)
    references = [" ".join(chance.choices(words, k=8)) for _ in range(60)]

    def translations(errors):
        return [
            " ".join(chance.choice(words) if chance.random() < errors else word for word in line.split())
            for line in references
        ]

    system, baseline = translations(0.30), translations(0.34)
    for name, lines in (("references", references), ("system", system), ("baseline", baseline)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        "references",
        "-i",
        "baseline",
        "system",
        "-m",
        "bleu",
        "chrf",
    ]
    options = ["--paired-bs", "--paired-bs-n", "1000", "--width", "2", "-f", "text"]
    table = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    p_values = re.findall(r"\(p = ([\d.]+)\)", table)
    scores = re.findall(r"([\d.]+) \([\d.]+ ±", table)
    for number, comparison in enumerate(compare(system, baseline, references)):
        assert f"{comparison.p_value:.4f}" == p_values[number]
        assert 0.05 < comparison.p_value < 0.95
        assert [f"{score.value:.2f}" for score in (comparison.baseline, comparison.score)] == scores[
            number::2
        ]
        exchanged = compare(baseline, system, references)[number]
        assert (exchanged.score.value, exchanged.baseline.value) == (
            comparison.baseline.value,
            comparison.score.value,
        )


def test_different_measures_are_not_compared():
    with pytest.raises(DragomanError, match="are different measures: their numbers cannot be compared"):
        difference(bleu(HYPOTHESES, REFERENCES), bleu(HYPOTHESES, REFERENCES, lowercase=True))
    with pytest.raises(DragomanError, match="Translations: 1, references: 2"):
        compare(HYPOTHESES, HYPOTHESES[:1], REFERENCES)


def test_the_papers_bleu_is_that_of_tokens_with_split_compounds():
    reference = ["Das E-Bike fährt, sagt er, nach Baden-Baden."]
    exact = ["Das E ##AT##-##AT## Bike fährt , sagt er , nach Baden ##AT##-##AT## Baden ."]
    hypothesis = ["Das E-Auto fährt, sagt er, nach Baden-Baden."]
    expected = sacrebleu.corpus_bleu(
        [exact[0].replace("Bike", "Auto")], [exact], tokenize="none", smooth_method="none", force=True
    )
    score = tokenised_bleu(hypothesis, reference, "de")
    assert score.value == pytest.approx(expected.score)
    dashes = ["Das E - Bike fährt, sagt er, nach Baden - Baden."]  # are no hyphens
    assert tokenised_bleu(dashes, reference, "de").value < 99
    assert tokenised_bleu(dashes, dashes, "de").value == pytest.approx(100)
    assert str(score).startswith("tokenised BLEU = ")
    assert score.signature.startswith(
        "nrefs:1|case:mixed|tok:moses-de|compounds:split|smooth:none|sacremoses:"
    )


@pytest.mark.parametrize("before", ["U.S.", "3,5", "C#", "Ü"])
@pytest.mark.parametrize("after", ["Bahn", "8", "ä"])
def test_a_compound_is_split_whatever_stands_at_its_hyphen(before, after):
    def lines(compound, rest):
        return [f"Das ist eine {before}{compound}{rest} und mehr davon"]

    expected = sacrebleu.corpus_bleu(
        lines(" ##AT##-##AT## ", "Rad"),
        [lines(" ##AT##-##AT## ", after)],
        tokenize="none",
        smooth_method="none",
        force=True,
    )
    assert expected.score > 0
    assert tokenised_bleu(lines("-", "Rad"), lines("-", after), "de").value == pytest.approx(expected.score)


def test_the_papers_bleu_is_0_without_a_common_4_gram_and_reads_the_punctuation_of_all_languages():
    reference = ["Das Rad fährt, sagt er, nach Baden."]
    assert tokenised_bleu(["Das Rad sagt, Baden."], reference, "de").value == 0
    wide = "Das Rad fährt，sagt er，nach Baden。"
    assert tokenised_bleu([wide], reference, "de").value == pytest.approx(100)
    assert tokenised_bleu(reference, [wide], "de").value < 100  # as the script does: the references stay


def test_the_papers_bleu_knows_its_languages():
    with pytest.raises(DragomanError, match="Moses does not know the language 'xx'; there are: as, bn"):
        tokenised_bleu(["a"], ["a"], "xx")


def test_the_papers_bleu_without_sacremoses_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacremoses", None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[paper\]'"):
        tokenised_bleu(["a"], ["a"], "en")


def test_of_draws_the_one_that_agrees_best_is_chosen():
    texts = [
        "Ein Mann fährt Rad.",
        "Ein Hund bellt.",
        "Ein Mann fährt ein Rad.",
        "Ein Mann fährt Rad.",
        "Zwei Frauen.",
    ]
    means = [
        sum(sacrebleu.sentence_chrf(text, [other]).score for other in texts) / len(texts) for text in texts
    ]
    assert minimum_bayes_risk(texts) == means.index(max(means)) == 0
    assert minimum_bayes_risk(["a"]) == 0
    assert minimum_bayes_risk(["", "b", "b"]) == 1

"""Scores: the libraries' numbers, under the right names."""

import pytest
import sacrebleu

from dragoman.errors import DragomanError
from dragoman.evaluation.metrics import bleu, chrf, pronunciation_errors, suitable_tokenization

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
    assert bleu(["一个男人骑车。"], ["一个男人骑自行车。"], "char").value > 0


def test_a_word_is_right_if_it_is_any_of_its_pronunciations():
    words, phonemes = pronunciation_errors(["K AE T", "D AO", "T"], [["K AA T", "K AE T"], ["D AO G"], ["T"]])
    assert words.value == pytest.approx(100 / 3)
    assert phonemes.value == pytest.approx(100 / 7)


def test_different_numbers_of_lines_and_none_are_refused():
    with pytest.raises(DragomanError, match="There are 2 translations and 1 references"):
        bleu(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(DragomanError, match="There is nothing to score"):
        chrf([], [])


def test_error_rates_without_jiwer_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jiwer", None)
    with pytest.raises(DragomanError, match=r"pip install dragoman\[quickstart\]"):
        pronunciation_errors(["K"], [["K"]])

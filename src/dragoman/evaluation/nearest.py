"""The candidate that is nearest to a reference (Kim and Rush 2016, section 3.3). Strings only."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from dragoman.evaluation.metrics import Tokenization, suitable_tokenization

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


def nearest(candidates: Sequence[str], reference: str) -> int:
    """The number of the candidate with the highest sentence BLEU; of equal ones the first.

    BLEU is that of characters for a reference without spaces. Raises `ValueError` if there is no candidate.
    """
    metric = sentence_bleu(suitable_tokenization([reference]))
    scores = [metric.sentence_score(candidate, [reference]).score for candidate in candidates]
    return scores.index(max(scores))


@cache
def sentence_bleu(tokenize: Tokenization) -> "BLEU":
    """SacreBLEU's BLEU of a sentence: smoothed, and of as many n-grams as a short sentence has."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, effective_order=True)

"""Choosing among translations by how much they agree (Eikema and Aziz 2020). Strings only."""

from collections.abc import Sequence


def minimum_bayes_risk(texts: Sequence[str]) -> int:
    """The number of the sampled text with the highest mean chrF2 to all of them; of equal ones the first.

    Raises `ValueError` if there is none.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    counts = {text: texts.count(text) for text in texts}

    def agreement(text: str) -> float:
        return sum(count * metric.sentence_score(text, [other]).score for other, count in counts.items())

    agreements = {text: agreement(text) for text in counts}
    return max(range(len(texts)), key=lambda number: (agreements[texts[number]], -number))

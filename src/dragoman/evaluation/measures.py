"""The measures that papers report besides BLEU: chrF++ and TER, by sacreBLEU. Strings only."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dragoman.evaluation.metrics import Score, Tokenization, bleu, bleu_metric, check_lines

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER


def chrf_metric() -> "CHRF":
    """SacreBLEU's chrF2."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def chrf_plus_plus_metric() -> "CHRF":
    """SacreBLEU's chrF2++, which counts word unigrams and bigrams too (Popović 2017)."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=2)


def ter_metric(tokenize: Tokenization) -> "TER":
    """SacreBLEU's translation edit rate (Snover et al. 2006), of lower-case words.

    Where BLEU is of characters, Chinese and Japanese are split into characters here too.
    """
    from sacrebleu.metrics.ter import TER

    characters = tokenize in ("char", "zh")
    return TER(normalized=characters, asian_support=characters)


def reported_metrics(tokenize: Tokenization, lowercase: bool) -> list["Metric"]:
    """SacreBLEU's BLEU, chrF2, chrF2++ and TER. `lowercase` applies to BLEU alone."""
    return [bleu_metric(tokenize, lowercase), chrf_metric(), chrf_plus_plus_metric(), ter_metric(tokenize)]


def reported_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
) -> Iterator[Score]:
    """BLEU, chrF2, chrF2++ and TER in percent, each when it is asked for. A lower TER is better.

    Raises `DragomanError` for different numbers of lines, or none.
    """
    check_lines(hypotheses, references)
    yield bleu(hypotheses, references, tokenize, lowercase)
    for metric in reported_metrics(tokenize, lowercase)[1:]:
        score = metric.corpus_score(list(hypotheses), [list(references)])
        yield Score(score.name, score.score, str(metric.get_signature()))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """SacreBLEU's chrF2, in percent (Popović 2015).

    Raises `DragomanError` for different numbers of lines, or none.
    """
    check_lines(hypotheses, references)
    metric = chrf_metric()
    return Score(
        "chrF2", metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())
    )

"""The measures that papers report besides BLEU: chrF++ and TER, by sacreBLEU. Strings only."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dragoman.evaluation.metrics import (
    Score,
    Tokenization,
    bleu,
    bleu_metric,
    check_lines,
    suitable_tokenization,
)
from dragoman.system.arguments import argument
from dragoman.system.errors import DragomanError
from dragoman.translation.texts import list_of_texts

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


def evaluate(
    hypotheses: Iterable[str],
    references: Iterable[str],
    tokenize: Tokenization | None = None,
    lowercase: bool = False,
) -> list[Score]:
    """BLEU, chrF2, chrF2++ and TER of translations, in percent, as `dragoman evaluate` prints them.

    `tokenize` is sacreBLEU's tokenizer; None is 13a, or char if the references have no spaces. `lowercase`
    applies to BLEU alone. A lower TER is better. Raises `DragomanError` for different numbers of lines, none,
    what is no line, and references that are all blank, with which some scores would be perfect.
    """
    tokenize = argument("tokenize", tokenize, Tokenization | None)
    lowercase = argument("lowercase", lowercase, bool)
    translations, lines = list_of_texts(hypotheses), list_of_texts(references)
    check_lines(translations, lines)
    if not any(line.strip() for line in lines):
        raise DragomanError("All references are blank; give translations to compare with.")
    return list(reported_scores(translations, lines, tokenize, lowercase))


def reported_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: Tokenization | None = None,
    lowercase: bool = False,
) -> Iterator[Score]:
    """The scores of `evaluate`, each when it is asked for.

    Raises `DragomanError` for different numbers of lines, or none.
    """
    check_lines(hypotheses, references)
    tokenize = tokenize or suitable_tokenization(references)
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

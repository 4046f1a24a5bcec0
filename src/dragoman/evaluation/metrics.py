"""Scores of decoded text (section 6): BLEU and chrF by sacreBLEU. Strings only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

Tokenization = Literal["13a", "intl", "char", "zh", "none"]
# Thai and Lao, Burmese, Khmer, kana, Han.
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Score:
    """A score, with the signature that makes it reproducible."""

    name: str
    value: float
    signature: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.2f}{' ' + self.detail if self.detail else ''}  [{self.signature}]"


def check_lines(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    """Raise `DragomanError` for a single string in place of lines, different numbers of lines, or none."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DragomanError("Translations and references are lists of lines; put a single one in a list.")
    if len(hypotheses) != len(references):
        raise DragomanError(
            f"Translations: {len(hypotheses)}, references: {len(references)}; line n has to belong to line n."
        )
    if not hypotheses:
        raise DragomanError("There is nothing to score: no translations and no references.")


def suitable_tokenization(references: Sequence[str]) -> Tokenization:
    """Characters for languages that put no spaces between words, whose BLEU would otherwise be 0.

    SacreBLEU's default for the others. Thai has spaces between phrases, and Chinese around Latin words.
    """
    text = "".join(references)
    unspaced = text.count(" ") < len(text) / 50 or len(UNSPACED.findall(text)) > len(text) / 2
    return "char" if unspaced else "13a"


def bleu_metric(tokenize: Tokenization, lowercase: bool) -> "BLEU":
    """SacreBLEU's BLEU. Raises `DragomanError` for a tokenizer that is none of `Tokenization`."""
    if tokenize not in get_args(Tokenization):
        raise DragomanError(
            f"tokenize is {tokenize!r}; it has to be one of {', '.join(get_args(Tokenization))}."
        )
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
) -> Score:
    """SacreBLEU's corpus BLEU, in percent (Post 2018).

    Raises `DragomanError` for different numbers of lines, or none.
    """
    check_lines(hypotheses, references)
    metric = bleu_metric(tokenize, lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
    detail = f"{precisions} (BP = {score.bp:.3f}, ratio = {score.ratio:.3f})"
    return Score("BLEU", score.score, str(metric.get_signature()), detail)

"""BLEU as the paper's figures were made (section 6.1): of tokens, with compounds split at their hyphens. Strings only."""

import re
from collections.abc import Sequence

from dragoman.errors import DragomanError
from dragoman.evaluation.metrics import Score, check_lines

COMPOUND = re.compile(r"(?<=\S)-(?=\S)")


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU of Moses tokens whose compounds are split, in percent: what Tensor2Tensor's get_ende_bleu.sh gave for the paper.

    It is higher than sacreBLEU's by a point or two, and depends on the tokeniser: not to be compared with it. `language` is the
    target's, as Moses names it: de, fr. Raises `DragomanError` for different numbers of lines, or none, and without sacremoses.
    """
    try:
        import sacremoses
    except ImportError as error:
        raise DragomanError("The paper's BLEU needs sacremoses: pip install 'dragoman[paper]'") from error
    from sacrebleu.metrics.bleu import BLEU

    check_lines(hypotheses, references)
    moses = sacremoses.MosesTokenizer(language)

    def tokens(line: str) -> str:
        return COMPOUND.sub(" ##AT##-##AT## ", moses.tokenize(line, return_str=True))

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score([tokens(line) for line in hypotheses], [[tokens(line) for line in references]])
    signature = f"nrefs:1|case:mixed|tok:moses-{language}|compounds:split|smooth:none|sacremoses:{sacremoses.__version__}"
    return Score("tokenised BLEU", score.score, signature)

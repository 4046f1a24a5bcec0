"""BLEU of tokens, with compounds split at hyphens: the likely source of the paper's figures (section 6.1).

Strings only.
"""

import re
from collections.abc import Sequence

from dragoman.evaluation.metrics import Score, check_lines
from dragoman.system.errors import DragomanError

COMPOUND = re.compile(r"(\S)-(\S)")


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU of Moses tokens whose compounds are split, in percent: the steps of Tensor2Tensor's
    get_ende_bleu.sh, by sacremoses.

    It is usually above sacreBLEU's and depends on the tokeniser, so the two cannot be compared.
    `language` is the target's, as Moses names it: de, fr. Raises `DragomanError` for different numbers of
    lines, or none, for a language that Moses does not know, and without sacremoses.
    """
    try:
        import sacremoses
    except ImportError as error:
        raise DragomanError("The paper's BLEU needs sacremoses: pip install 'dragoman[paper]'") from error
    from sacrebleu.metrics.bleu import BLEU

    check_lines(hypotheses, references)
    known = sorted(set(sacremoses.corpus.NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise DragomanError(f"Moses does not know the language {language!r}; there are: {', '.join(known)}.")
    moses, punctuation = sacremoses.MosesTokenizer(language), sacremoses.MosesPunctNormalizer()

    def tokens(line: str) -> str:
        return COMPOUND.sub(r"\1 ##AT##-##AT## \2", moses.tokenize(line, return_str=True))

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(
        [tokens(punctuation.replace_unicode_punct(line)) for line in hypotheses],
        [[tokens(line) for line in references]],
    )
    version = f"sacremoses:{sacremoses.__version__}"
    signature = f"nrefs:1|case:mixed|tok:moses-{language}|compounds:split|smooth:none|{version}"
    return Score("tokenised BLEU", score.score, signature)

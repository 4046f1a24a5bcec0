"""Error rates of pronunciations by jiwer. Strings only."""

from collections.abc import Sequence

from dragoman.evaluation.metrics import Score, check_lines
from dragoman.system.errors import DragomanError


def pronunciation_errors(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Score, Score]:
    """Word and phoneme error rates, in percent, of one pronunciation a word against all that the dictionary
    allows.

    A word is right if it equals any of its pronunciations; phonemes are compared with the nearest one. Raises
    `DragomanError` for different numbers of words, or none.
    """
    try:
        import jiwer
    except ImportError as error:
        raise DragomanError("Error rates need jiwer: pip install 'dragoman[quickstart]'") from error
    check_lines(hypotheses, references)
    nearest = [
        min(allowed, key=lambda reference: jiwer.wer(reference, hypothesis))
        for hypothesis, allowed in zip(hypotheses, references, strict=True)
    ]
    errors = sum(
        hypothesis not in allowed for hypothesis, allowed in zip(hypotheses, references, strict=True)
    )
    signature = f"words:{len(hypotheses)}|pronunciations:{sum(map(len, references))}|any-of|jiwer"
    return (
        Score("WER", 100 * errors / len(hypotheses), signature),
        Score("PER", 100 * jiwer.wer(nearest, list(hypotheses)), signature),
    )

"""Words split by byte-pair merges (Sennrich et al. 2016), as subword-nmt splits them."""

import io
from collections.abc import Callable, Iterable

from dragoman.system.errors import DragomanError

# First line of codes that are applied with a vocabulary: pieces outside it are split again, down to letters.
WITHIN_VOCABULARY = "#within the vocabulary\n"


def make_segmenter(codes: str, pieces: Iterable[str]) -> Callable[[str], str]:
    """A function that segments a line by byte-pair merges: it puts `@@ ` between the pieces of a word.

    `pieces` is the vocabulary, for codes that begin with `WITHIN_VOCABULARY`. Raises `DragomanError` if
    subword-nmt is not installed.
    """
    try:
        from subword_nmt.apply_bpe import BPE
    except ImportError as error:
        raise DragomanError(
            "This vocabulary's words are split by subword-nmt, which is not installed: pip install "
            "subword-nmt."
        ) from error
    vocabulary = set(pieces) if codes.startswith(WITHIN_VOCABULARY) else None
    bpe = BPE(io.StringIO(codes.removeprefix(WITHIN_VOCABULARY)), vocab=vocabulary)
    return lambda line: str(bpe.process_line(line))

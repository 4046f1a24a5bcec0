"""Words split by byte-pair merges (Sennrich et al. 2016), as subword-nmt splits them."""

import io
from collections.abc import Callable, Iterable

from dragoman.system.errors import DragomanError

# First line of codes that are applied with a vocabulary: pieces outside it are split again, down to letters.
WITHIN_VOCABULARY = "#within the vocabulary\n"
VERSIONS = (0, 1), (0, 2)
MAX_CACHED = 100_000  # words whose pieces are remembered


def make_segmenter(codes: str, pieces: Iterable[str]) -> Callable[[str], str]:
    """A function that segments a line by byte-pair merges: it puts `@@ ` between the pieces of a word.

    `pieces` is the vocabulary, for codes that begin with `WITHIN_VOCABULARY`. Raises `DragomanError` if
    subword-nmt is not installed, and for codes that it cannot read.
    """
    try:
        from subword_nmt.apply_bpe import BPE
    except ImportError as error:
        raise DragomanError(
            "This vocabulary's words are split by subword-nmt, which is not installed: pip install "
            "subword-nmt."
        ) from error
    vocabulary = set(pieces) if codes.startswith(WITHIN_VOCABULARY) else None
    try:
        bpe = BPE(io.StringIO(codes.removeprefix(WITHIN_VOCABULARY)), vocab=vocabulary)
    except (SystemExit, ValueError) as error:  # it ends the program at a line that is no merge
        raise DragomanError("These byte-pair merges are damaged: subword-nmt cannot read them.") from error
    if bpe.version not in VERSIONS:
        raise DragomanError(
            f"These byte-pair merges are of version {'.'.join(map(str, bpe.version))} of subword-nmt's "
            "format; those of 0.1 and 0.2 can be read."
        )

    def segment(line: str) -> str:
        if len(bpe.cache) > MAX_CACHED:
            bpe.cache = {}  # not emptied: another thread may read it
        return str(bpe.process_line(line))

    return segment

"""How much longer a text is in bytes than in subwords. Does not import torch."""

BYTES_TO_A_SUBWORD = 4
LONGEST = 250  # tokens of the longest source, where it is unknown: the default of training


def extra_bytes(reads_bytes: bool, extra: int, longest: int | None) -> int:
    """How many more tokens than its source a translation in bytes may have.

    `extra` is that number for subwords, `longest` the tokens of the longest source. If the source is not in
    bytes, each of its tokens may be several bytes of the translation.
    """
    if reads_bytes:
        return BYTES_TO_A_SUBWORD * extra
    longest = longest or LONGEST
    return min(BYTES_TO_A_SUBWORD * (longest + extra) - longest, 10_000)

"""Characters that are not seen and change what a model reads: a soft hyphen inside a word cuts the word."""

import re

INVISIBLE = re.compile(
    "[\xad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    "|\u200b(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])"
)
"""Soft hyphens, marks of the direction of writing, and spaces and joiners without width.

Not the joiners U+200C and U+200D, which Persian, Indic scripts and emojis need, and not U+200B before letters
of scripts that write it between words: Thai, Lao, Burmese, Khmer.
"""


def without_invisible(text: str) -> str:
    """A text as a model reads it: without the characters that training texts are cleaned of."""
    return text if text.isascii() else INVISIBLE.sub("", text)

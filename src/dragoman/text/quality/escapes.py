"""What a tokenizer or an export has left in text: HTML entities, wrong encodings, Moses' marks, spaces.

`unescape`, `decode_again` and `join_marks` write the text that was meant. Tokenised text is only found: where
its spaces belong depends on the language.
"""

import html
import re

from ftfy import fix_encoding
from ftfy.badness import is_bad

MAX_PASSES = 10
AMPERSAND = re.compile(r"&(?:(?:amp|AMP|#0*38|#[xX]0*26);)+")
"""An ampersand that is escaped any number of times."""
ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
LINE_END = re.compile("[\n\r]")
MARK = re.compile(r"(?<=\w) @([-,./])@ (?=\w)")
"""What Moses' tokenizer, and that of WikiText, write for punctuation within a word or a number."""
TOKENISED = re.compile(
    r"\w [,.](?=\s|$)"  # French has a space before ! ? ; : and », but not before these
    r"|\w '(?:s|re|ve|ll|d|m)(?= )|\w n't(?= |$)"
    r"|(?:^|(?<= ))``(?= )|(?<= )''(?= |$)"
)


def unescape(text: str) -> str:
    """The text with characters in place of its HTML entities, also of those that are escaped several times.

    An entity of a line end becomes a space. A text that has entities again after `MAX_PASSES` stays as it is.
    """
    result = text
    for _ in range(MAX_PASSES):
        former, result = result, ENTITY.sub(character, AMPERSAND.sub("&", result))
        if result == former:
            return result
    return text


def character(entity: re.Match[str]) -> str:
    """What an entity stands for; itself if it is not known."""
    return LINE_END.sub(" ", html.unescape(entity[0]))


def has_entities(text: str) -> bool:
    """Whether a text has HTML entities, such as `&quot;`."""
    return "&" in text and unescape(text) != text


def has_mojibake(text: str) -> bool:
    """Whether a part of a text is UTF-8 that was read as another encoding, such as `fÃ¼r` for `für`."""
    return not text.isascii() and is_bad(text)


def decode_again(text: str) -> str:
    """The text that was meant by UTF-8 that was read as another encoding, as far as its bytes are there."""
    return fix_encoding(text) if has_mojibake(text) else text


def join_marks(text: str) -> str:
    """The text with `-` for ` @-@ ` between letters or digits, and so for the other marks."""
    return MARK.sub(r"\1", text)


def has_marks(text: str) -> bool:
    """Whether a text has Moses' marks, such as ` @-@ `."""
    return MARK.search(text) is not None


def is_tokenised(text: str) -> bool:
    """Whether a text has spaces as before the punctuation, clitics or quotation marks of tokenised text."""
    return TOKENISED.search(text) is not None

"""What `dragoman clean` changes and removes. This module imports neither torch nor numpy."""

from dataclasses import dataclass

from dragoman.system.errors import OptionError
from dragoman.system.options import check_options, option

MAX_LENGTH_RATIO = 3.0  # the ratio of target and source length may be 3 times or a third of the median one
MAX_WORDS = 250
REASONS = {
    "encoding": "not UTF-8, a NUL, or a carriage return inside",
    "empty": "an empty side",
    "copies": "source equals target",
    "control": "a control character, U+FFFC or U+FFFD",
    "mojibake": "UTF-8 read as another encoding, with bytes that are lost",
    "language": "a side in another language",
    "max_words": "a side with too many words",
    "overlap": "a side in the validation or test data",
    "max_ratio": "an unusual ratio of the lengths",
    "duplicates": "equal to an earlier pair",
    "near_duplicates": "nearly equal to an earlier pair",
}
"""Why a pair is removed: the names are those of `CleanSettings`."""
CHANGES = {
    "entities": 'characters in place of HTML entities, as " for &quot;',
    "mojibake": "UTF-8 that was read as another encoding, as ü for Ã¼",
    "marks": "words joined at Moses' marks, as - for @-@",
}
"""How a pair is changed before it is checked: the names are those of `CleanSettings`."""


@dataclass(frozen=True)
class CleanSettings:
    """What is changed and removed. Raises `DragomanError` for a number that is out of bounds."""

    entities: bool = True
    """Write characters in place of HTML entities such as &quot;, also where they are escaped twice."""
    mojibake: bool = True
    """Write what UTF-8 meant that was read as another encoding, as ü for Ã¼. Pairs where bytes of it are lost
    are removed."""
    marks: bool = True
    """Join the words at the marks of Moses' tokenizer within words and numbers, as - for @-@."""
    encoding: bool = True
    """Remove lines that are not UTF-8, or have a NUL or a carriage return inside. Training refuses them."""
    empty: bool = True
    """Remove pairs with an empty side."""
    copies: bool = True
    """Remove pairs whose source equals their target."""
    control: bool = True
    """Remove pairs with control or invisible characters, such as a soft hyphen, or U+FFFD."""
    language: bool = True
    """Remove pairs with a side in another language than the file's; lines of fewer than 15 characters are not
    checked."""
    max_words: int = option(MAX_WORDS, at_least=0)
    """Remove pairs with more words than this on a side; 0 keeps them."""
    max_ratio: float = option(MAX_LENGTH_RATIO, at_least=0, at_most=10**6)
    """Remove pairs with a side this many times as long as usual, compared with the other side; 0 keeps them.
    Pairs of at most 30 characters per side are not checked."""
    overlap: bool = True
    """Remove pairs with a side that is in the validation or test files, or nearly so (unless
    --no-near-duplicates)."""
    duplicates: bool = True
    """Remove pairs that equal an earlier pair."""
    near_duplicates: bool = True
    """Remove pairs that differ from an earlier pair only in case, digits, punctuation, symbols and spaces."""

    def __post_init__(self) -> None:
        check_options(self)
        if 0 < self.max_ratio <= 1:
            raise OptionError(
                f"{{max_ratio}} is {self.max_ratio:g}; it must be above 1, or 0 to keep all pairs."
            )

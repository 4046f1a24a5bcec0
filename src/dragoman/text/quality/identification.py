"""Which language a text is written in, by py3langid (Lui and Baldwin 2012), without a network."""

from collections.abc import Collection
from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from dragoman.system.errors import OptionError
from dragoman.text.letters import has_letter
from dragoman.text.records import primary

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MAX_CHARACTERS = 1_000  # of a text that are read


def identify(text: str, among: Collection[str] | None = None) -> list[tuple[str, float]]:
    """The languages in which a text may be written, with their probabilities, likeliest first.

    `among` are the languages that it may be written in; None is all that the identifier knows. Those that it
    does not know are left out. A text without letters has no language. Raises `DragomanError` if py3langid is
    not installed.
    """
    codes = {primary(code): code for code in reversed(list(among or ()))}  # the first of several varieties
    identifier = identifier_of(None if among is None else frozenset(codes))
    if identifier is None or not has_letter(text):
        return []
    ranked = identifier.rank(text[:MAX_CHARACTERS])
    return [(codes.get(code, code), float(probability)) for code, probability in ranked]


def is_identifiable(language: str) -> bool:
    """Whether the identifier knows a language. Raises `DragomanError` if py3langid is not installed."""
    identifier = identifier_of(None)
    return identifier is not None and primary(language) in identifier.labels


@cache
def identifier_of(codes: frozenset[str] | None) -> "LanguageIdentifier | None":
    """The identifier of these ISO 639 codes, of all if None is given; None if it knows none of them.

    Raises `DragomanError` if py3langid is not installed.
    """
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise OptionError(
            "Identifying languages needs py3langid: pip install 'dragoman[clean]', or turn it off with "
            "{language=False}."
        ) from error
    if codes is None:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier = copy(identifier_of(None))  # reading the file takes long
    if identifier is None or not (known := codes & set(identifier.labels)):
        return None
    identifier.set_languages(known)
    return identifier

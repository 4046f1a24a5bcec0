"""Base forms of words and their inflected forms, by simplemma's dictionaries, without a network.

simplemma is optional (`pip install 'dragoman[terms]'`). Without it, and in languages that it does not know, a
word has no other forms.
"""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.util import find_spec
from threading import Lock

from dragoman.text.records import primary

MAX_FORMS = 40  # of a word
SEPARATOR = "\t"  # between the forms of a word
reading = Lock()
"""Held while a dictionary is read, so that two threads do not read the same one."""


@cache
def is_known(language: str) -> bool:
    """Whether there is a dictionary of the language, a code of BCP 47."""
    if find_spec("simplemma") is None:
        return False
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    return primary(language) in SUPPORTED_LANGUAGES


def base_form(word: str, language: str) -> str:
    """The base form of a word: `dog` of `dogs`; the word itself if it is not known."""
    if not is_known(language):
        return word
    from simplemma import lemmatize

    base: str = lemmatize(word, lang=primary(language))
    return base


def inflected_forms(words: Collection[str], language: str) -> dict[str, list[str]]:
    """The forms of each of these base forms that the dictionary has, the word itself first.

    The first call for a language reads its dictionary, which takes one to three seconds.
    """
    if not words or not is_known(language):
        return {word: [word] for word in words}
    with reading:
        dictionary = forms_by_base(primary(language))
    forms = {word: dictionary.get(word.encode(), b"").decode().split(SEPARATOR) for word in words}
    return {word: list(dict.fromkeys([word, *filter(None, forms[word])]))[:MAX_FORMS] for word in words}


@cache
def forms_by_base(language: str) -> Mapping[bytes, bytes]:
    """The forms of each base form that has others, in the order of the dictionary, in UTF-8.

    Texts of bytes take half of the memory that lists of strings take.
    """
    from simplemma.strategies.dictionaries import DefaultDictionaryFactory

    separator = SEPARATOR.encode()
    forms: dict[bytes, bytes] = {}
    for form, base in DefaultDictionaryFactory().get_dictionary(language).items():
        if form != base:
            key, text = base.encode(), form.encode()
            forms[key] = forms[key] + separator + text if key in forms else text
    return forms

"""Base forms of words and their inflected forms, by simplemma's dictionaries, without a network.

simplemma is optional (`pip install 'dragoman[terms]'`). Without it, and in languages that it does not know, a
word has no other forms.
"""

from collections import defaultdict
from collections.abc import Collection
from functools import cache
from importlib.util import find_spec

from dragoman.text.records import primary

MAX_FORMS = 40  # of a word


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

    The dictionary is read once for all words, which takes about a second, and is not kept.
    """
    forms: dict[str, dict[str, None]] = defaultdict(dict)
    if words and is_known(language):
        from simplemma.strategies.dictionaries import DefaultDictionaryFactory

        wanted = set(words)
        for form, base in DefaultDictionaryFactory().get_dictionary(primary(language)).items():
            if base in wanted:
                forms[base][form] = None
    return {word: list(dict.fromkeys([word, *forms[word]]))[:MAX_FORMS] for word in words}

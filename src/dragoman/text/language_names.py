"""What languages are called in the headers of tables: in English, and in the language itself. Data alone."""

import re

_NAMES = {
    "ar": "arabic العربية", "bg": "bulgarian български", "bn": "bengali বাংলা", "bs": "bosnian bosanski",
    "ca": "catalan català", "cs": "czech čeština česky", "cy": "welsh cymraeg", "da": "danish dansk",
    "de": "german deutsch", "el": "greek ελληνικά", "en": "english", "es": "spanish español castellano",
    "et": "estonian eesti", "eu": "basque euskara", "fa": "persian farsi فارسی", "fi": "finnish suomi",
    "fr": "french français", "ga": "irish gaeilge", "gl": "galician galego", "he": "hebrew עברית",
    "hi": "hindi हिन्दी", "hr": "croatian hrvatski", "hu": "hungarian magyar", "id": "indonesian",
    "is": "icelandic íslenska", "it": "italian italiano", "ja": "japanese 日本語", "ko": "korean 한국어",
    "lt": "lithuanian lietuvių", "lv": "latvian latviešu", "mt": "maltese malti", "nb": "norsk",
    "nl": "dutch nederlands", "no": "norwegian", "pl": "polish polski", "pt": "portuguese português",
    "ro": "romanian română", "ru": "russian русский", "sk": "slovak slovenčina",
    "sl": "slovenian slovene slovenščina", "sq": "albanian shqip", "sr": "serbian српски srpski",
    "sv": "swedish svenska", "th": "thai ไทย", "tr": "turkish türkçe", "uk": "ukrainian українська",
    "vi": "vietnamese", "zh": "chinese 中文",
}  # fmt: skip
CODES = {name: code for code, names in _NAMES.items() for name in names.split()}
"""The code of a language by each of its names, in small letters."""
LANGUAGES = frozenset(_NAMES)
"""The codes of these languages."""
NAME = re.compile(r"([^\W\d_]+)\s*(?:\([^()]*\))?")


def code_of_name(name: str) -> str:
    """The code of a language by its name, as in "German" or "German (Austria)"; "" for another word."""
    match = NAME.fullmatch(name.strip().lower())
    return CODES.get(match[1], "") if match else ""

"""What a reader should know of a model before it translates: an example, its sides, what it can read."""

import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import islice
from pathlib import Path
from weakref import WeakKeyDictionary

from dragoman.serving.models import ServedModel, name_of_side
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import read_toml
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.text.tokenizer import SYMBOL, Tokenizer

CANDIDATES = 200  # lines of the validation text of which the example is one
LEAST_LETTERS = 10  # of a script that a model reads
LEAST_CAPITALS = 0.1  # of the tokens with several letters, where a model reads texts in capitals
SCRIPTS = {
    "LATIN": "Latn",
    "CYRILLIC": "Cyrl",
    "GREEK": "Grek",
    "ARABIC": "Arab",
    "HEBREW": "Hebr",
    "CJK": "Hani",
    "HIRAGANA": "Hira",
    "KATAKANA": "Kana",
    "HANGUL": "Hang",
    "THAI": "Thai",
    "DEVANAGARI": "Deva",
    "BENGALI": "Beng",
    "GEORGIAN": "Geor",
    "ARMENIAN": "Armn",
    "TAMIL": "Taml",
    "TELUGU": "Telu",
    "GUJARATI": "Gujr",
    "GURMUKHI": "Guru",
    "KANNADA": "Knda",
    "MALAYALAM": "Mlym",
    "SINHALA": "Sinh",
    "MYANMAR": "Mymr",
    "KHMER": "Khmr",
    "LAO": "Laoo",
    "ETHIOPIC": "Ethi",
    "TIBETAN": "Tibt",
    "MONGOLIAN": "Mong",
}
"""Codes of ISO 15924 by the first word of the Unicode names of letters."""

_readings: WeakKeyDictionary[Tokenizer, tuple[list[str], bool]] = WeakKeyDictionary()


def may_show_examples(settings: ServerSettings) -> bool:
    """Whether readers may see a sentence of the validation text.

    With `--show-samples`, or where only this machine reaches the server. Keys and names of hosts tell that
    others do, through a proxy.
    """
    is_private = settings.is_local and settings.api_keys is None and not settings.allow_hosts
    return settings.show_samples or is_private


@lru_cache(1_000)
def example_of(folder: Path | None, model_hash: str, pair: str = "") -> str:  # noqa: ARG001  another model has another example
    """A sentence of usual length of a run's validation text; "" for a model folder.

    `pair` is one of several pairs of languages, as `en-de`.
    """
    if folder is None:
        return ""
    try:
        with (folder / "data" / pair / "valid.source.txt").open(encoding="utf-8") as file:
            lines = [line.strip() for line in islice(file, CANDIDATES)]
    except (OSError, UnicodeDecodeError):
        return ""
    lines = sorted(filter(None, lines), key=len)
    return lines[len(lines) // 2] if lines else ""


@lru_cache(1_000)
def file_endings(folder: Path | None, model_hash: str) -> tuple[str, str]:  # noqa: ARG001  as for the example
    """The endings of the files of training, which name the sides of a run without languages, or "" twice."""
    if folder is None:
        return "", ""
    try:
        data = read_toml(folder / "recipe.toml").get("data", {})
    except (DragomanError, OSError):
        return "", ""
    source, target = (Path(str(data.get(side, ""))).suffix[1:] for side in ("source", "target"))
    return source, target


def side_names(model: ServedModel) -> tuple[str, str]:
    """The English names of a model's languages; of unknown ones the endings of the files, as `Spelling`."""
    endings = file_endings(model.folder, model.hash)
    sides = zip((model.source, model.target), ("Source", "Target"), endings, strict=True)
    source, target = (
        ending.capitalize() if code == UNKNOWN_LANGUAGE and is_word(ending) else name_of_side(code, side)
        for code, side, ending in sides
    )
    return source, target


def is_word(ending: str) -> bool:
    """Whether the ending of a file says what it holds, as `spelling` does and `txt` or `en` does not."""
    return len(ending) > 3 and ending.isalpha()


def readable(tokenizer: Tokenizer) -> tuple[list[str], bool]:
    """The scripts that a tokenizer has learnt, and whether it has learnt texts in capitals.

    No script for a vocabulary of bytes, from which one cannot tell.
    """
    if tokenizer not in _readings:
        _readings[tokenizer] = scripts_of(tokenizer), reads_capitals(tokenizer)
    return _readings[tokenizer]


def words_of(tokenizer: Tokenizer) -> list[str]:
    """The letters of each token; "" for a token without any."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    return ["".join(filter(str.isalpha, SYMBOL.sub("", piece))) for piece in pieces]


def scripts_of(tokenizer: Tokenizer) -> list[str]:
    """The codes of the scripts with some letters, or a fifth of all; letters of other ones are strays."""
    if tokenizer.is_bytes:
        return []
    letters = {letter for word in words_of(tokenizer) for letter in word}
    counts = Counter(SCRIPTS.get(unicodedata.name(letter, "?").split()[0], "") for letter in letters)
    least = min(LEAST_LETTERS, len(letters) / 5)
    return sorted(script for script, count in counts.items() if script and count >= least)


def reads_capitals(tokenizer: Tokenizer) -> bool:
    """Whether words in capitals have tokens of their own, or are those in small letters."""
    words = words_of(tokenizer)
    small = next((word for word in words if word.islower()), "")
    if tokenizer.is_bytes or not small or tokenizer.encode([small.upper()]) == tokenizer.encode([small]):
        return True
    long = [word for word in words if len(word) > 1] or words
    return sum(word.isupper() for word in long) >= LEAST_CAPITALS * len(long)

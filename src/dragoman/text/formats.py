"""Files that hold both sides of a corpus: TMX, TSV and JSON lines. Each is read as pairs of lines.

Pair n is that of line n (TSV, JSON) or unit n (TMX); a side that is missing there is empty.
"""

import json
import logging
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.wording import counted, shown
from dragoman.text.compression import plain_name
from dragoman.text.lines import read_lines
from dragoman.text.records import Record, choose_languages
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.text.tmx import read_tmx

logger = logging.getLogger(__name__)
EXAMPLE = (
    'an object with texts, such as {"en": "One.", "de": "Eins."} or {"source": "One.", "target": "Eins."}'
)
"""What a line of a JSON file has to be."""
MAX_CODES = 20  # languages that an error lists
UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # NUL and surrogates
# Of the name of a file without its endings, such as corpus.en-de.
LANGUAGES_IN_NAME = re.compile(r"(.*[._-])?([a-z]{2})-([a-z]{2})")


def format_of(path: Path) -> str:
    """The ending that says the format: `.tmx` of `corpus.tmx.gz`."""
    return Path(plain_name(path.name)).suffix


def read_parallel(path: Path, languages: Languages) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file in these languages; of a TSV file, the two columns, whatever the languages.

    `en` matches `en-US`. Of several texts of a unit in one language the first counts; a message says how many
    units have such. Raises `DragomanError` with file and line for a damaged file, and except for TSV for one
    without a complete pair.
    """
    if format_of(path) == ".tsv":
        yield from read_columns(path)
        return
    has_complete_pair, codes, ambiguous = False, set[str](), 0
    for record in records(path):
        sides = record.sides(languages)
        ambiguous += any(len(texts) > 1 for texts in sides)
        source, target = (one_line(next(iter(texts), "")) for texts in sides)
        has_complete_pair |= bool(source.strip() and target.strip())
        if not has_complete_pair:
            codes.update(islice((code for code, _ in record.texts), max(0, MAX_CODES - len(codes))))
        yield source, target
    if not has_complete_pair:
        raise no_complete_pair(path, languages, codes)
    if ambiguous:
        logger.info(
            f"{path}: {counted(ambiguous, 'unit')} with several texts in one language; the first of them is "
            "used."
        )


def no_complete_pair(path: Path, languages: Languages, codes: set[str]) -> DragomanError:
    """The error of a file whose texts have the language codes `codes`, and no pair in these languages."""
    if not codes:
        return DragomanError(f"{path} has no texts; it has to have pairs of texts in two languages.")
    are_known = UNKNOWN_LANGUAGE not in (languages.source, languages.target)
    expected = (
        f"both {shown(languages.source)} and {shown(languages.target)}" if are_known else "two languages"
    )
    present = ", ".join(map(shown, sorted(codes)))
    return OptionError(
        "{path} has no pair with a text in {expected}; its texts are in {present}. "
        f"Give {'other' if are_known else 'the'} languages: {{source_language}} CODE {{target_language}} "
        "CODE.",
        path=path,
        expected=expected,
        present=present,
    )


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a TMX file or of JSON lines, plain or compressed."""
    return read_tmx(path) if format_of(path) == ".tmx" else read_json_lines(path)


def read_columns(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the two columns of a TSV file, which has no header and no quotes. A blank line is an empty pair.

    Raises `DragomanError` for a line with another number of columns.
    """
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2 and not line.strip():
            columns = ["", ""]
        if len(columns) != 2:
            raise DragomanError(
                f"{path}, line {number}: {counted(len(columns), 'column')}; it has to have two, "
                "source and target, with a tab between them. `cut -f` chooses columns."
            )
        yield columns[0], columns[1]


def read_json_lines(path: Path) -> Iterator[Record]:
    """Yield the texts of each line, a JSON object of texts by language, or by `source` and `target`.

    Values that are no texts are ignored. The object may be the value of the key `translation`. A blank line
    has no texts. Raises `DragomanError` for a line that is something else, and as `check_text`.
    """
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {number}"
        try:
            value = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError) as error:  # a number with thousands of digits is a ValueError
            raise DragomanError(
                f"{place}: not JSON ({error}). Correct the line; it has to be {EXAMPLE}."
            ) from error
        if isinstance(value, dict) and isinstance(value.get("translation"), dict):
            value = value["translation"]
        if not isinstance(value, dict):
            raise DragomanError(f"{place}: not {EXAMPLE}.")
        texts = tuple((key, text) for key, text in value.items() if isinstance(text, str))
        for code, text in texts:
            check_text(text, f"{place}: the text of {shown(code)}")
        yield Record(place, texts)


def check_text(text: str, place: str) -> None:
    """Raise `DragomanError` for a NUL or a lone surrogate: JSON can have both, a text file of lines neither.

    `place` is the subject of the message.
    """
    if UNWRITABLE.search(text):
        raise DragomanError(f"{place} has a NUL or a lone surrogate; remove it from the file.")


def one_line(text: str) -> str:
    """A text on one line: line ends, with the spaces and tabs around them, become one space."""
    if "\n" not in text and "\r" not in text:
        return text
    return " ".join(filter(None, (part.strip(" \t") for part in re.split(r"[\r\n]+", text))))


def languages_of_file(path: Path, languages: Languages) -> Languages:
    """The languages that are asked for; for an unknown one, that of the file's texts or of a TSV file's name.

    Raises `DragomanError` where `choose_languages` does.
    """
    if format_of(path) != ".tsv":
        return choose_languages(records(path), str(path), languages)
    if not (match := LANGUAGES_IN_NAME.fullmatch(Path(plain_name(path.name)).stem)):
        return languages
    pairs = zip((languages.source, languages.target), match.groups()[1:], strict=True)
    return Languages(*(named if asked == UNKNOWN_LANGUAGE else asked for asked, named in pairs))

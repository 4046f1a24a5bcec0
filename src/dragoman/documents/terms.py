"""Files of terms: tables (TSV, CSV), and TBX (ISO 30042).

A table has the source term in its first column and the target term in its second one, unless its first row
names the columns: source and target, or codes or names of languages. If those are other languages, it has no
terms.
"""

import html
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from dragoman.documents.elements import Element, read_elements
from dragoman.documents.file import EncodingError, decode_text
from dragoman.documents.markup import XML_ENCODING, decode_markup
from dragoman.documents.table import DELIMITERS, code_of_cell, column, frequent_delimiter, rows
from dragoman.system.errors import DragomanError, reason
from dragoman.system.wording import counted, shown
from dragoman.text.language_names import LANGUAGES
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.glossary import Term

TABLES = {".tsv": "\t", ".tab": "\t", ".txt": "\t", ".csv": DELIMITERS}
"""What may stand between the columns of a table, by its suffix."""
MAX_BYTES = 200_000_000
MAX_TERM = 500
"""Characters of a term."""
NO_LONGER_USED = re.compile(r"deprecated|superseded", re.IGNORECASE)
PREFERRED = re.compile(r"preferred", re.IGNORECASE)
TAG = re.compile(r"<[^<>]*>")
CODE = re.compile(r"[A-Za-z]{2,3}(-\w+)?")
"""That of a language."""


def read_terms(path: Path, languages: Languages) -> list[Term]:
    """The terms of a file for a pair of languages, in order.

    Raises `DragomanError` for a file that cannot be read, one of another kind, and a table without any term
    that has a translation. Warns of rows without a term or its translation, which are left out.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DragomanError(f"{path} has more than {MAX_BYTES:,} bytes; give a smaller glossary.")
        content = path.read_bytes()
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    return terms_of(content, path.suffix.lower(), str(path), languages)


def terms_of(content: bytes, suffix: str, name: str, languages: Languages) -> list[Term]:
    """The terms of a file of this name and suffix. Raises as `read_terms`."""
    if suffix in {".tbx", ".xml"}:
        return list(tbx_terms(content, name, languages))
    if suffix in TABLES:
        return list(table_terms(content, suffix, name, languages))
    advice = " Excel saves a sheet so as “CSV UTF-8”." * (suffix in {".xlsx", ".xls", ".ods"})
    raise DragomanError(f"{name} is no glossary by its name; it has to end in .tsv, .csv or .tbx.{advice}")


def table_rows(content: bytes, suffix: str, name: str) -> Iterator[list[str]]:
    """The cells of a table's rows, without white space around them. Raises as `read_terms`."""
    try:
        text, _ = decode_text(content, name)
    except EncodingError as error:
        advice = " Excel writes UTF-8 if the file is saved as “CSV UTF-8”." * (suffix == ".csv")
        raise DragomanError(f"{error}{advice}") from error
    for row in rows(text, frequent_delimiter(text, TABLES[suffix]), name):
        yield [cell.text.strip() for cell in row]


def table_terms(content: bytes, suffix: str, name: str, languages: Languages) -> Iterator[Term]:
    """The terms of a table. Raises as `read_terms`."""
    source, target = 0, 1
    incomplete: list[str] = []
    has_complete_row = False
    is_tabs = TABLES[suffix] == "\t"
    table = table_rows(content, suffix, name)
    first_rows = list(islice(table, 2))
    has_codes = all(map(has_languages, first_rows))  # then the first row is no header
    for number, cells in enumerate(chain(first_rows, table), 1):
        if number == 1 and not has_codes and (columns := header_columns(cells, languages)):
            source, target = columns
            continue
        if number == 1 and not has_codes and is_of_others(cells, languages):
            return
        if len(cells) <= max(source, target) or not (cells[source] and cells[target]):
            if any(cells):
                incomplete.append(f"row {number} ({shown(' '.join(cells))})")
            continue
        has_complete_row = True
        if has_languages(cells) and not are_of(languages, cells[2], cells[3]):
            continue
        yield checked(cells[source], cells[target], f"{name}, row {number}")
    if incomplete and not has_complete_row:
        raise DragomanError(
            f"{name}, {incomplete[0]} does not have a term and its translation, and neither has another row; "
            f"put them into columns {source + 1} and {target + 1}{' of a table with tabs' * is_tabs}."
        )
    if incomplete:
        warnings.warn(
            f"{name} has {counted(len(incomplete), 'row')} without a term or its translation; such rows are "
            f"not used. The first is {incomplete[0]}.",
            stacklevel=2,
        )


def header_columns(cells: Sequence[str], languages: Languages) -> tuple[int, int] | None:
    """The columns of source and target, if the first row of a table names them."""
    names = [cell.lower() for cell in cells]
    source = column(names, ("source", "term", languages.source))
    target = column(names, ("target", "translation", languages.target))
    if source is not None and target is not None and source != target:
        return source, target
    is_unknown = UNKNOWN_LANGUAGE in (languages.source, languages.target)
    named = LANGUAGES.intersection(map(code_of_cell, names[:2]))
    return (0, 1) if is_unknown and len(named) == 2 else None


def has_languages(cells: Sequence[str]) -> bool:
    """Whether a row has four columns as those of DeepL: the last two are codes of languages."""
    return len(cells) == 4 and all(CODE.fullmatch(cell) for cell in cells[2:])


def is_of_others(cells: Sequence[str], languages: Languages) -> bool:
    """Whether a first row names one of the languages of a pair beside another language."""
    codes = {*map(code_of_cell, cells[:2])} - {""}
    return len(codes) == 2 and not codes.isdisjoint(map(primary, (languages.source, languages.target)))


def are_of(languages: Languages, source: str, target: str) -> bool:
    """Whether codes are those of a pair, regions and scripts aside."""
    return (primary(source), primary(target)) == (primary(languages.source), primary(languages.target))


def checked(source: str, target: str, place: str) -> Term:
    """A term. Raises `DragomanError` if it is too long."""
    for text in (source, target):
        if len(text) > MAX_TERM:
            raise DragomanError(
                f"{place}: {shown(text)} has {len(text):,} characters, and a term has at most {MAX_TERM}."
            )
    return Term(" ".join(source.split()), " ".join(target.split()))


def tbx_terms(content: bytes, name: str, languages: Languages) -> Iterator[Term]:
    """The terms of a TBX file: each source term of an entry with its preferred target term.

    Terms that are deprecated or superseded are left out. Raises as `read_terms`.
    """
    text, _ = decode_markup(content, name, (XML_ENCODING,))
    elements = read_elements(text, name)
    if not any(element.name in {"martif", "tbx"} for element in elements):
        raise DragomanError(f"{name} is no TBX: it has no element <tbx> or <martif>.")
    entries: dict[int, dict[str, list[tuple[bool, str]]]] = {}
    notes = status_notes(text, elements)
    for element in elements:
        if element.name == "term":
            ancestors = list(ancestors_of(element))
            entry = next((one for one in ancestors if one.name in {"termEntry", "conceptEntry"}), None)
            language = next((one for one in ancestors if "xml:lang" in one.attributes), None)
            if entry is None or language is None:
                continue
            status = notes.get(ancestors[0].start, "")
            if not NO_LONGER_USED.search(status):
                term = html.unescape(TAG.sub("", text[element.first : element.last])).strip()
                code = primary(language.attributes["xml:lang"])
                is_preferred = bool(PREFERRED.search(status))
                entries.setdefault(entry.start, {}).setdefault(code, []).append((is_preferred, term))
    for terms in entries.values():
        targets = sorted(terms.get(primary(languages.target), []), key=lambda term: not term[0])
        if targets:
            for _, source in terms.get(primary(languages.source), []):
                if source and targets[0][1]:
                    yield checked(source, targets[0][1], name)


def status_notes(text: str, elements: Sequence[Element]) -> Mapping[int, str]:
    """The administrative status of terms, by the place of what they stand in."""
    return {
        parent.start: text[element.first : element.last]
        for element in elements
        if element.attributes.get("type") in {"administrativeStatus", "normativeAuthorization"}
        and (parent := element.parent) is not None
    }


def ancestors_of(element: Element) -> Iterator[Element]:
    """What an element is in, from the inside out."""
    while element.parent is not None:
        element = element.parent
        yield element

"""Glossaries of a server: tables and TBX that its operator has put into a folder, and those of the APIs.

The folder has a file for each. Those of the APIs are named by their random ids; requests name no files. All
server processes share the folder, so a glossary is read again when its file has changed.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Lock

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from dragoman.documents.table import code_of_cell
from dragoman.documents.terms import TABLES, checked, has_languages, table_rows, terms_of
from dragoman.serving.admission import excess
from dragoman.serving.documents import random_id
from dragoman.serving.errors import ApiError, not_written
from dragoman.serving.log import write
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import atomic_write
from dragoman.system.wording import shown
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.glossary import Glossary, Term, words_of

NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})(?:\.([a-z]{2,3})-([a-z]{2,3}))?")
"""A file of the operator without its ending: a name, and the languages if the table does not tell them."""
STORED = re.compile(r"([A-Za-z0-9_-]{32})\.json")
"""A file of the APIs: its id and the ending."""
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.json")
"""What a process leaves behind that is killed while it writes."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_NAME = 1_024  # characters of the name of a glossary
MAX_WORDS = 20  # of a source term; the time to find terms grows with it
MAX_VARIANTS = 8  # terms of a glossary that differ in case alone; each is compared where one is found
MAX_GLOSSARIES = 5  # of a request: DeepL's own limit
MAX_BUILT = 500_000  # terms of the glossaries that wait in memory for the next request
Stamp = tuple[int, int, int]
"""Time of the last change, bytes and number of a file: another file has another stamp."""
Dictionaries = Mapping[Languages, Sequence[Term]]
DictionaryKey = tuple[Path, Stamp, Languages]


class StoredDictionary(BaseModel):
    """The terms of a pair of languages, in a file of the APIs."""

    source: str
    target: str
    terms: list[tuple[str, str]]


class StoredGlossary(BaseModel):
    """A file of the APIs."""

    name: str
    owner: str | None
    """The name of the key that made it; None if there were no keys."""
    created: datetime
    dictionaries: list[StoredDictionary]

    @property
    def terms(self) -> dict[Languages, list[Term]]:
        """The terms of each pair of languages. Raises `DragomanError` for what is no language."""
        return {
            Languages(one.source, one.target): [Term(source, target) for source, target in one.terms]
            for one in self.dictionaries
        }


@dataclass(frozen=True)
class ServedGlossary:
    """What the server keeps in memory of a glossary: all but its terms."""

    id: str
    """The name, if the operator has put it into the folder."""
    name: str
    owner: str | None
    created: datetime
    counts: Mapping[Languages, int]
    """The terms of each pair of languages."""
    path: Path
    stamp: Stamp

    @property
    def is_read_only(self) -> bool:
        """Whether the operator has put it into the folder: it is everybody's."""
        return self.path.suffix != ".json"

    def between(self, source: str, target: str) -> "ServedDictionary":
        """The dictionary of a pair of languages, regions aside; `und` stands for any language.

        Raises `ApiError` 400 if there is none.
        """
        for languages in self.counts:
            if same(languages.source, source) and same(languages.target, target):
                return ServedDictionary(self, languages)
        pairs = ", ".join(f"{languages.source} to {languages.target}" for languages in self.counts)
        raise ApiError(
            400,
            f"The glossary {self.name!r} has no terms from {source} to {target}. It has: {pairs or 'none'}.",
            "no_such_pair",
        )


@dataclass(frozen=True)
class ServedDictionary:
    """The terms of a glossary for a pair of languages."""

    glossary: ServedGlossary
    languages: Languages

    @property
    def key(self) -> DictionaryKey:
        """What tells it from every other, also from itself with other terms."""
        return self.glossary.path, self.glossary.stamp, self.languages


class Glossaries:
    """The glossaries of a server process. Methods that read or write files are called in a thread."""

    def __init__(self, settings: ServerSettings, pairs: Iterable[Languages]) -> None:
        """Read the folder. `pairs` are the languages of the models.

        Raises `DragomanError` if there is no such folder, or for a file in it that is no glossary.
        """
        self.settings, self._pairs = settings, list(dict.fromkeys(pairs))
        self._served: dict[str, ServedGlossary] = {}
        self._built: dict[tuple[tuple[DictionaryKey, ...], Languages], Glossary] = {}
        self._lock = Lock()
        folder = settings.glossaries
        if folder is None:
            return
        if not folder.is_dir():
            raise DragomanError(f"{folder} is not a folder; make it, or give another one for --glossaries.")
        self._served = {served.id: served for served in self._read_folder(folder)}

    # ---- looking up

    def visible(self, owner: str | None) -> list[ServedGlossary]:
        """The glossaries that a key may use: the operator's, and those that it has made."""
        self.refresh()
        return [served for served in self._served.values() if served.is_read_only or served.owner == owner]

    def known(self, name: str, owner: str | None) -> ServedGlossary | None:
        """The glossary of an id or a name, if it is in memory and its file has not changed.

        Raises `ApiError` 400 for a name that several glossaries have.
        """
        named = self._named(name, owner)
        return None if any(stamp_of(one.path) != one.stamp for one in named) else only(named, name)

    def _named(self, name: str, owner: str | None) -> list[ServedGlossary]:
        """The glossaries in memory with an id or a name that the owner sees."""
        served = self._served.get(name)
        if served is not None and (served.is_read_only or served.owner == owner):
            return [served]
        return [one for one in self._served.values() if (one.name, one.owner) == (name, owner)]

    def find(self, name: str, owner: str | None) -> ServedGlossary:
        """The glossary of an id or a name. Raises `ApiError`: 404 if the owner sees none, 400 as `known`."""
        if (served := self.known(name, owner)) is None:
            self.refresh()
            served = only(self._named(name, owner), name)  # another process may have changed it since
        if served is None:
            explanation = (
                "This server was started without --glossaries."
                if self.settings.glossaries is None
                else "It has been removed, or it was made with another key; /v1/glossaries lists all."
            )
            raise ApiError(404, f"There is no glossary {shown(name)}. {explanation}")
        return served

    def refresh(self) -> None:
        """Read the files that have changed, and forget those that are gone."""
        if self.settings.glossaries is not None:
            with self._lock:
                refreshed = self._read_folder(self.settings.glossaries, is_start=False)
                self._served = {served.id: served for served in refreshed}

    # ---- terms

    def terms(self, served: ServedGlossary) -> dict[Languages, list[Term]]:
        """The terms of each pair of languages. Raises `ApiError` 404 if it has been removed."""
        try:
            if served.is_read_only:
                return self._operators_terms(served.path)
            return read_stored(served.path).terms
        except FileNotFoundError as error:
            raise ApiError(404, f"The glossary {served.name!r} has been removed.") from error

    def built(self, dictionaries: Sequence[ServedDictionary], model: Languages) -> Glossary | None:
        """The glossary of dictionaries for a model with these languages, if it is in memory."""
        return self._built.get((keys_of(dictionaries), model))

    def build(self, dictionaries: Sequence[ServedDictionary], model: Languages) -> Glossary:
        """As `built`, and it is made if it is not in memory. Raises as `terms`.

        Of terms with the same source, that of the first dictionary counts.
        """
        if (glossary := self.built(dictionaries, model)) is None:
            terms = (term for one in dictionaries for term in self.terms(one.glossary).get(one.languages, ()))
            glossary = Glossary(terms, model)
            glossary.load_dictionaries()
            self._built[keys_of(dictionaries), model] = glossary
            while len(self._built) > 1 and sum(len(one.terms) for one in self._built.values()) > MAX_BUILT:
                del self._built[next(iter(self._built))]  # the oldest
        return glossary

    def extend(
        self, terms: Sequence[Term], dictionaries: Sequence[ServedDictionary], model: Languages
    ) -> Glossary:
        """The glossary of terms of a client, and of dictionaries, for a model with these languages.

        The terms of the client come first. It is not kept in memory. Raises as `build`.
        """
        others = self.build(dictionaries, model).terms if dictionaries else ()
        glossary = Glossary([*terms, *others], model)
        glossary.load_dictionaries()
        return glossary

    # ---- changes

    def create(self, name: str, dictionaries: Dictionaries, owner: str | None) -> ServedGlossary:
        """Make a glossary.

        Raises `ApiError`: 403 if the server has no folder for it, 413 if it has no room, 400 or 413 for terms
        that are refused, 503 if the disk cannot be written to.
        """
        with self._changing() as folder:
            self._refuse_excess(owner, 1, lambda _: 1, self.settings.max_glossaries)
            path = folder / f"{random_id()}.json"
            return self._store(path, name, datetime.now(UTC), dictionaries, owner)

    def change(
        self,
        glossary_id: str,
        owner: str | None,
        edit: Callable[[dict[Languages, list[Term]]], Dictionaries],
        name: str = "",
    ) -> ServedGlossary:
        """Change the dictionaries, and the name unless it is "". Raises as `create` and `find`."""
        self.find(glossary_id, owner)
        with self._changing():
            served = self._changeable(glossary_id, owner)  # it may have been changed meanwhile
            dictionaries = edit(self.terms(served))
            return self._store(served.path, name or served.name, served.created, dictionaries, owner)

    def delete(self, glossary_id: str, owner: str | None) -> None:
        """Remove a glossary. Raises as `find`, and `ApiError` 403 for one of the operator."""
        self.find(glossary_id, owner)
        with self._changing():
            served = self._changeable(glossary_id, owner)  # it may have been changed meanwhile
            served.path.unlink(missing_ok=True)
            self.refresh()

    @contextmanager
    def _changing(self) -> Iterator[Path]:
        """The folder, which no other thread or process changes meanwhile. Raises `ApiError` as `create`."""
        folder = self.settings.glossaries
        if folder is None:
            raise ApiError(
                403,
                "This server was started without --glossaries, so it keeps none; start it with --glossaries "
                "and a folder.",
            )
        try:
            with FileLock(folder / ".lock"):
                for path in folder.iterdir():
                    if TEMPORARY.fullmatch(path.name):
                        path.unlink(missing_ok=True)
                self.refresh()
                yield folder
        except OSError as error:
            raise not_written("its glossaries", error) from error

    def _changeable(self, glossary_id: str, owner: str | None) -> ServedGlossary:
        served = self.find(glossary_id, owner)
        if served.is_read_only:
            raise ApiError(403, f"The glossary {served.name!r} is the server's own; it cannot be changed.")
        return served

    def _store(
        self, path: Path, name: str, created: datetime, dictionaries: Dictionaries, owner: str | None
    ) -> ServedGlossary:
        check_dictionaries(dictionaries, self.settings.max_glossary_terms)
        stored = StoredGlossary(
            name=name,
            owner=owner,
            created=created,
            dictionaries=[
                StoredDictionary(
                    source=languages.source,
                    target=languages.target,
                    terms=[(term.source, term.target) for term in terms],
                )
                for languages, terms in dictionaries.items()
            ],
        )
        content = stored.model_dump_json().encode()
        former = self._served.get(path.stem)
        added = len(content) - (former.stamp[1] if former else 0)
        self._refuse_excess(owner, added, lambda served: served.stamp[1], self.settings.max_glossary_bytes)
        with atomic_write(path) as new:
            new.write_bytes(content)
        served = summary(path, stored)
        self._served = {**self._served, served.id: served}
        return served

    def _refuse_excess(
        self, owner: str | None, amount: int, size: Callable[[ServedGlossary], int], limit: int
    ) -> None:
        """Raise `ApiError` 413 if the owner may not add an amount to what all glossaries of the APIs have."""
        held: Counter[str] = Counter()
        for served in self._served.values():
            if not served.is_read_only:
                held[served.owner or ""] += size(served)
        if excess(held, owner or "", amount, limit) > 0:
            raise ApiError(413, "The server has no room for more glossaries of this key; delete some.")

    # ---- files

    def _read_folder(self, folder: Path, is_start: bool = True) -> Iterator[ServedGlossary]:
        """The glossaries of a folder, by the names of their files; those that have not changed as they are.

        Raises `DragomanError` at the start for a file that is none; later the log has the reason, and the
        glossary is gone.
        """
        known = {served.path: served for served in self._served.values()}
        names: dict[str, Path] = {}
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or not path.is_file():
                continue
            try:
                served = known.get(path)
                if served is None or served.stamp != stamp_of(path):
                    served = self._read(path)
                if (other := names.setdefault(served.id, path)) != path:
                    raise DragomanError(f"{other} and {path} have the same name; rename one of them.")
                yield served
            except FileNotFoundError:  # removed meanwhile
                continue
            except DragomanError as error:
                if is_start:
                    raise
                write(level="error", message=str(error))

    def _read(self, path: Path) -> ServedGlossary:
        """A file of the folder. Raises `DragomanError` if it is no glossary, or too large."""
        if STORED.fullmatch(path.name):
            return summary(path, read_stored(path))
        stamp = stamp_of(path)
        terms = self._operators_terms(path)
        if not terms:
            pairs = ", ".join(f"{languages.source} to {languages.target}" for languages in self._pairs)
            raise DragomanError(f"{path} has no terms between the languages of the models: {pairs}.")
        name = path.stem.partition(".")[0]
        created = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        counts = {languages: len(pair_terms) for languages, pair_terms in terms.items()}
        return ServedGlossary(name, name, None, created, counts, path, stamp)

    def _operators_terms(self, path: Path) -> dict[Languages, list[Term]]:
        """The terms of each pair of languages that a table or a TBX has.

        Raises `DragomanError` for another file, too many bytes or terms, and for a table that does not tell
        its languages if there are several pairs. Raises `FileNotFoundError`.
        """
        name = NAME.fullmatch(path.stem)
        if name is None:
            raise DragomanError(
                f"{path} needs another name: letters of ASCII, digits, _ and -, and perhaps the languages, "
                "as in medical.en-de.tsv."
            )
        suffix = path.suffix.lower()
        content = read_bounded(path, self.settings.max_glossary_bytes)
        pairs = self._pairs
        if name[2]:
            pairs = [pair for pair in pairs if same(pair.source, name[2]) and same(pair.target, name[3])]
        elif suffix in TABLES:
            pairs = pairs_of_table(content, path, pairs)
        terms = {pair: terms_of(content, suffix, str(path), pair) for pair in pairs}
        for pair_terms in terms.values():
            if len(pair_terms) > self.settings.max_glossary_terms:
                raise DragomanError(
                    f"{path} has {len(pair_terms):,} terms, and {self.settings.max_glossary_terms:,} are "
                    "allowed; divide it, or give a larger --max-glossary-terms."
                )
        return {pair: pair_terms for pair, pair_terms in terms.items() if pair_terms}


def only(named: Sequence[ServedGlossary], name: str) -> ServedGlossary | None:
    """The glossary of this name, if there is one. Raises `ApiError` 400 for several."""
    if len(named) > 1:
        raise ApiError(400, f"{len(named)} glossaries are named {shown(name)}; give the id of one.")
    return named[0] if named else None


def keys_of(dictionaries: Sequence[ServedDictionary]) -> tuple[DictionaryKey, ...]:
    """What tells dictionaries in this order from all others."""
    return tuple(dictionary.key for dictionary in dictionaries)


def stamp_of(path: Path) -> Stamp:
    """What tells a file from a changed one; zeros if it is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """A file. Raises `DragomanError` if it is too large or cannot be read, and `FileNotFoundError`."""
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise DragomanError(
                f"{path} has {size:,} bytes, and {max_bytes:,} are allowed; divide it, or give a larger "
                "--max-glossary-bytes."
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error


def read_stored(path: Path) -> StoredGlossary:
    """A file of the APIs. Raises `DragomanError` if it is damaged, and `FileNotFoundError`."""
    try:
        stored = StoredGlossary.model_validate_json(path.read_bytes())
        _ = stored.terms
    except FileNotFoundError:
        raise
    except (OSError, ValidationError, DragomanError) as error:
        raise DragomanError(f"{path} is damaged, so it is no glossary; remove it.") from error
    return stored


def summary(path: Path, stored: StoredGlossary) -> ServedGlossary:
    """What the server keeps in memory of a file of the APIs."""
    counts = {Languages(one.source, one.target): len(one.terms) for one in stored.dictionaries}
    return ServedGlossary(path.stem, stored.name, stored.owner, stored.created, counts, path, stamp_of(path))


def pairs_of_table(content: bytes, path: Path, pairs: Sequence[Languages]) -> list[Languages]:
    """The pairs of languages of a table, by the codes or names in its header, or the codes in its third and
    fourth columns.

    Raises `DragomanError` for a table without codes if there are several pairs.
    """
    first_rows = list(islice(table_rows(content, path.suffix.lower(), str(path)), 2))
    header = set(map(code_of_cell, first_rows[0])) if first_rows else set[str]()
    named = [pair for pair in pairs if {primary(pair.source), primary(pair.target)} <= header]
    if named or len(pairs) <= 1:
        return named or list(pairs)
    if any(map(has_languages, first_rows)):
        return list(pairs)
    raise DragomanError(
        f"{path} does not tell its languages, and the models have several pairs. Name its columns by codes "
        f"of languages, or the file {path.stem}.en-de{path.suffix}, for example."
    )


def same(language: str, other: str) -> bool:
    """Whether two codes are of the same language, regions aside; `und` is the same as any."""
    return UNKNOWN_LANGUAGE in (language, other) or primary(language) == primary(other)


def check_dictionaries(dictionaries: Dictionaries, max_terms: int) -> None:
    """Raise `ApiError` for the terms of a glossary: 413 for too many, 400 and 413 as `check_terms`."""
    if (count := sum(map(len, dictionaries.values()))) > max_terms:
        raise ApiError(413, f"The glossary has {count:,} terms, and {max_terms:,} are allowed; send fewer.")
    for terms in dictionaries.values():
        check_terms(terms)


def check_terms(terms: Sequence[Term]) -> None:
    """Raise `ApiError` for terms of a client: 400 for one without words, 413 for what takes much time."""
    variants: Counter[tuple[str, ...]] = Counter()
    for term in terms:
        words = words_of(term.source)
        if not words or not words_of(term.target):
            raise ApiError(
                400, f"{shown(term.source)}, {shown(term.target)} is no term: a side has no words."
            )
        if not (term.source + term.target).isprintable():
            raise ApiError(400, f"The term {shown(term.source)} has control characters, or line ends.")
        if len(words) > MAX_WORDS:
            raise ApiError(
                413,
                f"The term {shown(term.source)} has {len(words)} words, and {MAX_WORDS} are allowed; send a "
                "shorter one.",
            )
        variants[tuple(map(str.casefold, words))] += 1
    if variants and (count := max(variants.values())) > MAX_VARIANTS:
        ((folded, _),) = variants.most_common(1)
        raise ApiError(
            413,
            f"{count} terms are {shown(' '.join(folded))}, case aside, and {MAX_VARIANTS} are allowed; send "
            "fewer.",
        )


def inline_terms(pairs: Sequence[Sequence[str]]) -> list[Term]:
    """The terms of a request. Raises as `check_terms`."""
    terms = [checked(source, target, "terms") for source, target in pairs]
    check_terms(terms)
    return terms

"""Corpora of OPUS by name: what there is, by its API; downloaded, checked, and written as two texts.

Why mtdata and opustools are not used is in docs/how-to/corpora.md.
"""

import difflib
import http.client
import io
import json
import logging
import re
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock

from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import atomic_write, file_hash
from dragoman.system.wording import counted
from dragoman.text.dataset_names import OpusName
from dragoman.text.named_datasets.archive_dataset import HASHES, located, read_hashes, write_hashes
from dragoman.text.named_datasets.archives import text_hash
from dragoman.text.named_datasets.downloads import DOWNLOAD_ERRORS, download, raise_if_disk_full
from dragoman.text.named_datasets.packages import PACKAGE_ERRORS, read_package, readme
from dragoman.text.named_datasets.remote import RemoteFile

logger = logging.getLogger(__name__)
API = "https://opus.nlpl.eu/opusapi/"
MAX_ANSWER = 2**26  # bytes of what the API answers
NOT_FOUND, GONE = 404, 410
FORMS = ("moses", "tmx")
"""The forms of a corpus that are read, the better one first."""
ENDINGS = (".zip", ".tgz", ".tar.gz", ".tar", ".tmx.gz", ".tmx", ".tsv.gz", ".tsv")
"""Of packages that are read."""
LISTED = 40  # corpora or languages that an error names
CITATION = (
    "Jörg Tiedemann (2012): Parallel Data, Tools and Interfaces in OPUS. In Proceedings of LREC 2012, and "
    "what the corpus itself asks to cite (opus.nlpl.eu)."
)
UNKNOWN_LICENCE = "not known before the download; see opus.nlpl.eu"


@dataclass(frozen=True)
class Package:
    """A corpus as OPUS offers it for download."""

    name: OpusName
    """With its release."""
    url: str
    codes: tuple[str, str]
    """The languages of the name as the package writes them."""
    pairs: int | None
    size: int | None
    """About, in bytes."""


@dataclass(frozen=True)
class Terms:
    """What a corpus's README says."""

    licence: str = UNKNOWN_LICENCE
    citations: tuple[str, ...] = field(default=(CITATION,))


def ask(parameters: dict[str, str]) -> Any:
    """What the API answers. Raises one of `DOWNLOAD_ERRORS`, and `DragomanError` for another answer."""
    url = f"{API}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        content = response.read(MAX_ANSWER)
    try:
        answer = json.loads(content)
        return answer["languages" if "languages" in parameters else "corpora"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise DragomanError(
            f"{url} did not answer as the API of OPUS does ({reason(error)}). If it answers in a browser, "
            "this version of Dragoman is too old for it; else try again later."
        ) from error


def packages(name: OpusName) -> list[Package]:
    """The corpora that a name stands for, by their names.

    Raises `DragomanError` if there is none, with those that there are, and if OPUS cannot be reached.
    """
    query = {"source": name.source, "target": name.target, "version": name.release or "latest"}
    if name.corpus:
        query["corpus"] = name.corpus
    else:
        query["preprocessing"] = FORMS[0]
    try:
        offers = [offer for entry in ask(query) if (offer := package_of(entry, name)) is not None]
        if not offers:
            raise nothing_found(name)
    except DOWNLOAD_ERRORS as error:
        raise DragomanError(
            f"{name}: {API} cannot be reached ({reason(error)}). Without a network, `dragoman train "
            f"--dataset` and `dragoman data` find corpora that are in their folder already."
        ) from error
    best = min((form for form, _ in offers), key=FORMS.index)
    return sorted((package for form, package in offers if form == best), key=lambda each: str(each.name))


def package_of(entry: Any, name: OpusName) -> tuple[str, Package] | None:
    """The form and the package of an entry of the API's answer; None for one in other forms or languages."""
    if not isinstance(entry, dict):
        return None
    form, url = entry.get("preprocessing"), str(entry.get("url"))
    codes = {str(entry.get(side)) for side in ("source", "target")}
    full = "/".join(str(entry.get(key)) for key in ("corpus", "version"))
    if (
        form not in FORMS
        or codes != {name.source, name.target}
        or not url.startswith(("https://", "http://"))
    ):
        return None
    pairs, kibibytes = (
        number if isinstance(number := entry.get(key), int) else None for key in ("alignment_pairs", "size")
    )
    corpus, _, release = full.partition("/")
    package = OpusName(name.source, name.target, corpus, release)
    return form, Package(package, url, (name.source, name.target), pairs, kibibytes and 1024 * kibibytes)


def nothing_found(name: OpusName) -> DragomanError:
    """The error of a name that OPUS does not have, with what it has. Raises one of `DOWNLOAD_ERRORS`."""
    query = {"source": name.source, "target": name.target, "preprocessing": FORMS[0]}
    entries = [entry for entry in ask(query) if isinstance(entry, dict)]
    if not entries:
        targets = [str(code) for code in ask({"languages": "True", "source": name.source})]
        if not targets:
            return DragomanError(f"OPUS has no corpora in {name.source!r}. Codes are as en, de, pt_BR.")
        return DragomanError(
            f"OPUS has no corpora in {name.source} and {name.target}. {name.source} is there with: "
            f"{listing(targets, name.target)}."
        )
    releases = sorted({str(entry.get("version")) for entry in entries if entry.get("corpus") == name.corpus})
    if releases:
        return DragomanError(
            f"OPUS has no release {name.release} of {name.corpus} in {name.source} and {name.target}; there "
            f"are: {', '.join(releases)}."
        )
    corpora = sorted({str(entry.get("corpus")) for entry in entries})
    return DragomanError(
        f"OPUS has no corpus {name.corpus!r} in {name.source} and {name.target}; there are: "
        f"{listing(corpora, name.corpus)}."
    )


def listing(names: Sequence[str], wanted: str) -> str:
    """Names, those first that are nearest to what was wanted."""
    folded = {name.lower(): name for name in names}
    nearest = [folded[near] for near in difflib.get_close_matches(wanted.lower(), folded, n=5)]
    ordered = list(dict.fromkeys([*nearest, *sorted(names)]))
    rest = len(ordered) - LISTED
    return ", ".join(ordered[:LISTED]) + (f" and {rest} more" if rest > 0 else "")


def terms(package: Package) -> Terms:
    """The licence and the citations of a corpus, from the README in its package on the server.

    A server that does not send parts of files, and a package without a README, give what is known of OPUS.
    """
    if not package.url.endswith(".zip"):
        return Terms()
    try:
        with io.BufferedReader(RemoteFile(package.url), 2**16) as file, zipfile.ZipFile(file) as archive:
            return terms_of(readme(archive))
    except (*DOWNLOAD_ERRORS, *PACKAGE_ERRORS, ValueError):
        return Terms()  # the download says what is wrong


def terms_of(text: str) -> Terms:
    """The licence and the citations in a README."""
    text = re.sub(r"<[^<>]*>", "", text)
    lines = [
        " ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in text.split("\n")
    ]
    licences = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("license:")]
    paragraphs = "\n".join(lines).split("\n\n")
    citations = [" ".join(part.split())[:1000] for part in paragraphs if re.search(r"\bcit(e|ing)\b", part)]
    return Terms(next(filter(None, licences), UNKNOWN_LICENCE)[:300], tuple(citations) or (CITATION,))


def describe(package: Package) -> str:
    """What a corpus is, its licence, and what to cite."""
    known = terms(package)
    pairs = "" if package.pairs is None else f", {counted(package.pairs, 'pair')}"
    size = "" if package.size is None else f", {package.size / 2**20:,.1f} MiB"
    return f"{package.name}{pairs}{size}. Its licence: {known.licence}. {' '.join(known.citations)}"


def find_corpus(name: OpusName, folder: Path, package: Package | None = None) -> tuple[Path, Path]:
    """The two texts of a corpus in `folder`, plain or gzip; they are downloaded if they are not there.

    Processes that ask at once wait for the first one. The SHA-256 of texts and packages are kept in
    hashes.json and compared. Raises `DragomanError` for a corpus that OPUS does not have or that cannot be
    downloaded, for a package that is damaged, and for a text that has changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if not all(located(folder, text).exists() for text in name.texts):
            if package is None:
                package = packages(name)[0]
                logger.info(describe(package))
            fetch(package, name, folder)
        known, paths = read_hashes(folder), [located(folder, text) for text in name.texts]
        for text, path in zip(name.texts, paths, strict=True):
            actual = text_hash(path)
            if known.setdefault(text, actual) != actual:
                raise DragomanError(
                    f"{path} has changed: the SHA-256 of its text was {known[text]} and is {actual}. Delete "
                    f"it to download the corpus again; if the new text is meant, delete its line in "
                    f"{folder / HASHES}."
                )
        write_hashes(folder, {text: known[text] for text in name.texts})
    return paths[0], paths[1]


def fetch(package: Package, name: OpusName, folder: Path) -> None:
    """Download a corpus, and write its texts, and its README if there is one, to `folder`."""
    address = urllib.parse.urlsplit(package.url).path
    if (ending := next(filter(address.endswith, ENDINGS), None)) is None:
        raise DragomanError(
            f"{package.url} ends in none of {', '.join(ENDINGS)}, and other packages are not read. Download "
            f"it, and put the two texts into {folder}, one sentence per line: {', '.join(name.texts)}."
        )
    path = folder / f"{name.stem}{ending}"
    try:
        if not path.exists():  # the disk was full when its texts were written
            download(package.url, path)
    except DOWNLOAD_ERRORS as error:
        raise_if_disk_full(error)
        raise not_downloaded(package, name, folder, error) from error
    with TemporaryDirectory(prefix=".", dir=folder) as scratch:
        count = write_texts(package, path, folder, name, Path(scratch))
    hashes = {path.name: file_hash(path)}
    hashes |= {text: text_hash(folder / text) for text in name.texts}
    write_hashes(folder, hashes)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, atomic_write(folder / f"{name.stem}.README") as new:
            new.write_text(readme(archive), encoding="utf-8", newline="\n")
    path.unlink()
    logger.info(f"{package.name}: {counted(count, 'pair')} in {' and '.join(name.texts)} of {folder}.")


def write_texts(package: Package, path: Path, folder: Path, name: OpusName, scratch: Path) -> int:
    """Write the two texts of a package. Returns the number of pairs. Raises as `read_package`."""
    count, (source, target) = 0, (folder / text for text in name.texts)
    with (
        atomic_write(target) as new_target,
        atomic_write(source) as new_source,
        new_source.open("w", encoding="utf-8", newline="\n") as sources,
        new_target.open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for count, pair in enumerate(read_package(path, package.codes, scratch), 1):  # noqa: B007
            sources.write(f"{pair[0]}\n")
            targets.write(f"{pair[1]}\n")
    if not count:
        raise DragomanError(f"{path} has no pairs.")
    return count


def not_downloaded(package: Package, name: OpusName, folder: Path, error: Exception) -> DragomanError:
    """The error of a download that failed."""
    if isinstance(error, urllib.error.HTTPError) and error.code in (NOT_FOUND, GONE):
        return DragomanError(
            f"{package.name} is gone: OPUS lists it, and {package.url} answers {error.code}. Give another "
            "corpus or release."
        )
    if isinstance(error, http.client.IncompleteRead):
        return DragomanError(
            f"The download of {package.url} was cut off. Run the same command again; it goes on where this "
            "one ended if the server can do that."
        )
    return DragomanError(
        f"{package.url} cannot be downloaded ({reason(error)}). Run the same command again later, or put the "
        f"two texts into {folder} by hand, one sentence per line, plain or gzip: {', '.join(name.texts)}."
    )

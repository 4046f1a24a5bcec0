"""Text in any format as files of lines that are not compressed, for as long as it is prepared or examined."""

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TextIO

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.wording import counted
from dragoman.text.compression import plain_name
from dragoman.text.formats import languages_of_file, read_parallel
from dragoman.text.lines import open_bytes, read_pairs
from dragoman.text.mixture import (
    WeightedCorpus,
    check_corpora,
    choose_temperature,
    is_parallel,
    temperature_weights,
)
from dragoman.text.settings import (
    UNKNOWN_LANGUAGE,
    DataSettings,
    LanguagePair,
    Languages,
    language_of_name,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CorpusPart:
    """The lines of one corpus in a text of several."""

    first_line: int
    weight: float | None
    tag: str
    pair: LanguagePair | None = None
    """One of several pairs of languages."""


@dataclass(frozen=True)
class ConvertedData(DataSettings):
    """Settings of text files that stand for the user's, and the names of those."""

    names: dict[str, str] = field(default_factory=dict)
    """What the user calls a file, by its path here."""
    parts: tuple[CorpusPart, ...] = ()
    """The corpora that follow each other in the training files."""
    pairs_of_model: tuple[LanguagePair, ...] = ()
    """Those of a model of several pairs of languages."""
    valid_pairs: tuple[LanguagePair | None, ...] = ()
    """The pair of languages of each line of the validation text that corpora give."""
    test_pairs: tuple[LanguagePair | None, ...] = ()
    """The same for the test text."""

    def weights(self) -> dict[str, float]:
        return {str(part.first_line): part.weight for part in self.parts if part.weight is not None}

    def tag(self, line: int) -> str:
        part = self.part(line)
        return f"{part.tag} " if part and part.tag else ""

    def pair(self, line: int, text: Literal["train", "valid", "test"] = "train") -> LanguagePair | None:
        if text == "train":
            part = self.part(line)
            return part.pair if part else None
        pairs = self.valid_pairs if text == "valid" else self.test_pairs
        return pairs[line - 1] if pairs else None

    def part(self, line: int) -> CorpusPart | None:
        """The part that a line of the training text belongs to."""
        parts = [part for part in self.parts if part.first_line <= line]
        return parts[-1] if parts else None

    def in_words(self, text: str) -> str:
        """A message with the user's names of the files."""
        for path, name in self.names.items():
            text = text.replace(path, name)
        return text


def pairs_of(data: DataSettings) -> tuple[LanguagePair, ...]:
    """The pairs of languages of the model that is trained on a text, if it has several."""
    return data.pairs_of_model if isinstance(data, ConvertedData) else ()


@contextmanager
def converted(
    data: DataSettings, folder: Path, pairs_of_model: tuple[LanguagePair, ...] = ()
) -> Iterator[ConvertedData]:
    """`as_lines` of text to train on. Raises `DragomanError` as `check_files` and `as_lines`."""
    check_files(data)
    with as_lines(data, folder, pairs_of_model) as lines:
        yield lines


@contextmanager
def as_lines(
    data: DataSettings, folder: Path, pairs_of_model: tuple[LanguagePair, ...] = ()
) -> Iterator[ConvertedData]:
    """The settings with files of lines in place of others. They are in `folder`, which is removed at the end.

    Paths are joined to their folder already. Errors name the user's files. Raises `DragomanError` for files
    that cannot be read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    lines = ConvertedData(**vars(data), pairs_of_model=pairs_of_model)
    try:
        lines = convert(lines, folder)
        yield lines
    except DragomanError as error:
        raise DragomanError(lines.in_words(str(error))) from error.__cause__
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_files(data: DataSettings) -> None:
    """Raise `DragomanError` for text that is not there, a file without its other side, and one that has both
    beside another; and where `check_corpora` does.
    """
    if data.corpus:
        check_corpora(data.corpus)
        if data.datasets or data.source is not None or data.target is not None:
            raise DragomanError(
                "Give the corpora [[data.corpus]], or source and target, or a dataset: one of them."
            )
        check_held_out_files(data)
    for kind in ("", "valid_", "test_"):
        source, target = (data.files.get(f"{kind}{side}") for side in ("source", "target"))
        parallel = [path for path in (source, target) if path is not None and is_parallel(path)]
        if parallel and (source is None or target is not None):
            raise DragomanError(f"{parallel[0]} has both sides of a corpus; give it alone, as {kind}source.")
        if not parallel and (source is None) != (target is None):
            side = "target" if source is None else "source"
            raise OptionError(f"There is only {{{kind}{side}}}; give {{{kind}source}} and {{{kind}target}}.")
    if not data.corpus and not data.datasets and data.source is None:
        raise OptionError("Validation or test data are no text to train on: give {source} too.")  # noqa: RUF027


def check_held_out_files(data: DataSettings) -> None:
    """Raise `DragomanError` for corpora of several pairs of languages with validation text for some pairs, or
    with validation or test text that is not of one pair.
    """
    if len(data.pairs) > 1:
        for kind in ("valid", "test"):
            if f"{kind}_source" in data.files:
                raise DragomanError(
                    f"The corpora have several pairs of languages, and {kind}_source in [data] is of one; "
                    f"give {kind}_source and {kind}_target to a [[data.corpus]] of each pair."
                )
    validated = [pair_of(corpus) for corpus in data.corpus if corpus.valid_source is not None]
    if lacking := [pair for pair in data.pairs if validated and pair not in validated]:
        raise DragomanError(
            f"There is validation text for some pairs of languages, and none from {lacking[0].source} to "
            f"{lacking[0].target}; give it to all, or to none."
        )


def pair_of(corpus: WeightedCorpus) -> Languages | None:
    """The languages of a corpus, if it names them."""
    if corpus.source_language is None or corpus.target_language is None:
        return None
    return Languages(corpus.source_language, corpus.target_language)


def convert(data: ConvertedData, folder: Path) -> ConvertedData:
    """Write files of lines to `folder` where the settings name others."""
    data = with_languages(data)
    if data.corpus:
        data = joined(data, folder)
    for kind in ("", "valid_", "test_"):
        files = [data.files.get(f"{kind}{side}") for side in ("source", "target")]
        subfolder = folder / (kind or "train")
        source, target = line_files(files[0], files[1], data.languages, subfolder, data.names)
        paths: dict[str, Any] = {f"{kind}source": source, f"{kind}target": target}
        data = replace(data, **paths)
    if data.guided_alignment is not None:
        links = decompressed(data.guided_alignment, folder / "alignment", data.names)
        data = replace(data, guided_alignment=links)
    return data


def joined(data: ConvertedData, folder: Path) -> ConvertedData:
    """The settings with two files in which the corpora follow each other; and so their validation and test
    text, if they have any. Says the share of each corpus.

    Raises `DragomanError` for files that do not match.
    """
    texts = [(corpus, corpus.source, corpus.target) for corpus in data.corpus]
    (source, target), sizes = join(data, texts, folder / "corpora")
    data = with_temperature(data, sizes)
    weights = [corpus.weight for corpus in data.corpus]
    if data.pair_temperature not in (None, 1.0):
        pairs = list(map(pair_of, data.corpus))
        weights = [*temperature_weights(sizes, pairs, data.pair_temperature)]
    total = sum(weight or 0 for weight in weights)
    parts, first_line = [], 1
    for number, (corpus, size, weight) in enumerate(zip(data.corpus, sizes, weights, strict=True), 1):
        parts.append(CorpusPart(first_line, weight, corpus.tag, pair_of_model(data, corpus)))
        first_line += size
        share = "" if weight is None else f", {weight / total:.1%} of the training pairs"
        tag = f", after the tag {corpus.tag}" if corpus.tag else ""
        languages = pair_of(corpus)
        into = f", {languages.source} to {languages.target}" if languages else ""
        logger.info(f"Corpus {number}: {counted(size, 'pair')} of {corpus.source}{into}{share}{tag}.")
    data = replace(data, source=source, target=target, parts=tuple(parts))
    for kind in ("valid", "test"):
        texts = [
            (corpus, getattr(corpus, f"{kind}_source"), getattr(corpus, f"{kind}_target"))
            for corpus in data.corpus
            if getattr(corpus, f"{kind}_source") is not None
        ]
        if texts:
            (source, target), sizes = join(data, texts, folder / kind)
            pairs_of_lines = tuple(
                pair_of_model(data, corpus)
                for (corpus, *_), size in zip(texts, sizes, strict=True)
                for _ in range(size)
            )
            paths: dict[str, Any] = {
                f"{kind}_source": source,
                f"{kind}_target": target,
                f"{kind}_pairs": pairs_of_lines,
            }
            data = replace(data, **paths)
    return data


def join(
    data: ConvertedData, texts: Sequence[tuple[WeightedCorpus, Path | None, Path | None]], folder: Path
) -> tuple[tuple[Path, Path], list[int]]:
    """Write texts of corpora one after the other to two files. Returns the files, and the pairs of each text.

    Raises `DragomanError` for files that do not match.
    """
    folder.mkdir(parents=True)
    copies = folder / "corpora.source", folder / "corpora.target"
    for copy in copies:
        data.names[str(copy)] = f"the corpora ({copy.suffix[1:]})"
    sizes = []
    with opened(copies) as files:
        for number, (corpus, *sides) in enumerate(texts, 1):
            subfolder = folder / f"corpus-{number}"
            languages = pair_of(corpus) or data.languages
            source, target = line_files(sides[0], sides[1], languages, subfolder, data.names)
            assert source is not None
            assert target is not None
            sizes.append(write_pairs(without_tag(read_pairs(source, target), corpus), files))
            shutil.rmtree(subfolder, ignore_errors=True)
    return copies, sizes


def with_temperature(data: ConvertedData, sizes: Sequence[int]) -> ConvertedData:
    """The settings with a temperature if there are several pairs of languages without weights.

    Raises `DragomanError` for one beside weights, and for one without several pairs.
    """
    temperature, has_pairs = data.pair_temperature, len(data.pairs) > 1
    has_weights = data.corpus[0].weight is not None
    if temperature is not None and (has_weights or not has_pairs):
        reason = "the corpora have weights" if has_weights else "the corpora have one pair of languages"
        raise OptionError(f"{{pair_temperature}} is {temperature:g}, and {reason}; leave it out.")
    if temperature is not None or has_weights or not has_pairs:
        return data
    totals = dict.fromkeys(data.pairs, 0)
    for corpus, size in zip(data.corpus, sizes, strict=True):
        totals[pair_of(corpus) or Languages()] += size
    return replace(data, pair_temperature=choose_temperature(list(totals.values())))


def pair_of_model(data: ConvertedData, corpus: WeightedCorpus) -> LanguagePair | None:
    """The pair of languages of a corpus among several of the model; None if that has one pair."""
    languages = pair_of(corpus)
    return next(
        (pair for pair in data.pairs_of_model if languages == Languages(pair.source, pair.target)), None
    )


def without_tag(pairs: Iterable[tuple[str, str]], corpus: WeightedCorpus) -> Iterator[tuple[str, str]]:
    """The pairs of a corpus. Raises `DragomanError` if a source has the tag already."""
    for source, target in pairs:
        if corpus.tag and source.startswith(corpus.tag):
            raise OptionError(
                "{path} has the tag {tag} in its lines already; give the corpus without a tag, and the "
                "tokenizer the symbol: {symbols} '{tag}'.",
                path=corpus.source,
                tag=corpus.tag,
            )
        yield source, target


def with_languages(data: ConvertedData) -> ConvertedData:
    """The settings with the languages of the pairs, where a file that has both sides says them.

    Raises `DragomanError` if it says several.
    """
    languages = data.languages
    if data.pairs:  # which the recipe names
        return data
    corpora = [path for corpus in data.corpus for path in (corpus.source, corpus.target) if path is not None]
    if data.corpus and not is_parallel(corpora[0]):
        named = Languages(*(language_of_name(path.name) for path in corpora[:2]))
        languages = Languages(data.source_language or named.source, data.target_language or named.target)
    for path in filter(is_parallel, [*corpora, *data.files.values()]):
        languages = languages_of_file(path, languages)
    if languages == data.languages:
        return data
    codes = (None if code == UNKNOWN_LANGUAGE else code for code in (languages.source, languages.target))
    source, target = codes
    return replace(data, source_language=source, target_language=target)


def line_files(
    source: Path | None, target: Path | None, languages: Languages, folder: Path, names: dict[str, str]
) -> list[Path | None]:
    """Source and target as files of lines: the files themselves, or copies in `folder`, added to `names`."""
    if source is not None and is_parallel(source):
        return [*write_sides(source, languages, folder, names)]
    return [
        path and decompressed(path, folder / side, names)
        for side, path in (("source", source), ("target", target))
    ]


def decompressed(path: Path, folder: Path, names: dict[str, str]) -> Path:
    """The file itself, or a decompressed copy of one in .gz or .zst."""
    if path.suffix not in {".gz", ".zst"}:
        return path
    folder.mkdir(parents=True)
    copy = folder / plain_name(path.name)
    names[str(copy)] = str(path)
    with open_bytes(path) as compressed, copy.open("wb") as file:
        shutil.copyfileobj(compressed, file)
    return copy


def write_sides(path: Path, languages: Languages, folder: Path, names: dict[str, str]) -> tuple[Path, Path]:
    """Write the sides of a file that has both to two files, such as corpus.en and corpus.de."""

    def copy(side: str, code: str) -> Path:
        name = side if code == UNKNOWN_LANGUAGE else code
        copy = folder / side / f"{Path(plain_name(path.name)).stem}.{name}"
        copy.parent.mkdir(parents=True)
        names[str(copy)] = f"{path} ({name})"
        return copy

    copies = copy("source", languages.source), copy("target", languages.target)
    with opened(copies) as files:
        write_pairs(read_parallel(path, languages), files)
    return copies


@contextmanager
def opened(paths: Iterable[Path]) -> Iterator[list[TextIO]]:
    """Files to write lines to."""
    with ExitStack() as stack:
        yield [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]


def write_pairs(pairs: Iterable[tuple[str, str]], files: list[TextIO]) -> int:
    """Write the sides of pairs to two files. Returns the number of pairs."""
    count = 0
    for pair in pairs:
        count += 1
        for file, text in zip(files, pair, strict=True):
            file.write(f"{text}\n")
    return count

"""Pairs of texts as Python programs have them: tuples, records, data frames, files. No torch is imported.

Data frames and datasets are known by what they offer: pandas, polars and datasets are not imported.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeAlias

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import write_lines
from dragoman.system.wording import shown
from dragoman.translation.texts import DataFrame

SURROGATE = re.compile("[\ud800-\udfff]")
SIDES = "source", "target"
TRANSLATION = "translation"
"""The column of a dataset whose values are tables of texts by language."""
AnyPath: TypeAlias = str | os.PathLike[str]


Record: TypeAlias = Mapping[str, object]
"""A row with the names of its columns, as datasets give it."""
Rows: TypeAlias = Iterable[tuple[str, str]] | Iterable[list[str]] | Iterable[Record] | DataFrame
Pairs: TypeAlias = Rows | AnyPath | tuple[AnyPath, AnyPath]
"""Pairs (source, target); records or a data frame with columns for both sides; or files: two, or one that has
both sides."""


def files_of(pairs: Pairs, languages: tuple[str | None, str | None], folder: Path | None) -> dict[str, str]:
    """The files with the pairs, as a recipe's `source` and `target`. Texts are written to the folder.

    `languages` are the codes of both sides, None for one that is not given. Raises `DragomanError` for what
    is not a pair of texts, if it is not clear which columns are the sides, and as `write_pairs`.
    """
    if isinstance(pairs, str | os.PathLike):
        return {"source": os.fspath(pairs)}
    if isinstance(pairs, tuple) and [isinstance(side, str | os.PathLike) for side in pairs] == [True, True]:
        return dict(zip(SIDES, map(os.fspath, pairs), strict=True))
    if folder is None:
        raise DragomanError("Pairs are kept in the run's folder; name it with out.")
    paths = write_pairs(texts_of(pairs, languages), folder)
    return dict(zip(SIDES, map(str, paths), strict=True))


def texts_of(pairs: object, languages: tuple[str | None, str | None]) -> Iterator[tuple[str, str]]:
    """The two texts of each pair, by the columns of `files_of` if they have names.

    Raises `DragomanError` for what is not a pair of texts, and if it is not clear which columns are meant.
    """
    if isinstance(pairs, Mapping):
        raise DragomanError(
            f"pairs is a {type(pairs).__name__} with {shown(list(pairs))}; give rows, each with a source and "
            "a target. Of a DatasetDict choose a part, such as dataset['train']."
        )
    if isinstance(pairs, DataFrame):
        source, target = (pairs[side] for side in sides_of(list(pairs.columns), languages))
        pairs = zip(source, target, strict=True)
    unfit = DragomanError(
        f"pairs is a {type(pairs).__name__}; pairs of texts are wanted, in a list for instance."
    )
    if not isinstance(pairs, Iterable):
        raise unfit
    try:
        rows = iter(pairs)
    except TypeError as error:  # an array of no dimension
        raise unfit from error
    for number, pair in enumerate(rows):
        if isinstance(pair, Mapping):
            texts = pair[TRANSLATION] if isinstance(pair.get(TRANSLATION), Mapping) else pair
            yield pair_of_texts(number, [texts[side] for side in sides_of(list(texts), languages)])
        else:
            yield pair_of_texts(number, pair)


def sides_of(columns: Sequence[object], languages: tuple[str | None, str | None]) -> tuple[str, str]:
    """The columns of the source and the target: those of the languages, or those with these names.

    Raises `OptionError` if neither are there, each once.
    """
    source, target = languages
    candidates = [SIDES] if source is None or target is None else [(source, target), SIDES]
    for sides in candidates:
        if [columns.count(side) for side in sides] == [1, 1] and len({*sides}) == 2:
            return sides
    raise OptionError(
        "The columns are {columns}; which of them are the source and the target is not clear. Give two of "
        "them the names source and target; or give the languages, if columns have their codes as names: "
        "{source_language} en, {target_language} de.",
        columns=", ".join(map(shown, columns)),
    )


def pair_of_texts(number: int, pair: object) -> tuple[str, str]:
    """The two texts of a pair. Raises `DragomanError` for anything else."""
    is_unfit = isinstance(pair, str | bytes | Mapping | Set)
    texts = list(pair) if isinstance(pair, Iterable) and not is_unfit else []
    if [isinstance(text, str) for text in texts] != [True, True]:
        raise DragomanError(
            f"Pair {number} (counted from 0) is {shown(pair)}; it has to be two texts, source and target."
        )
    source, target = texts
    return source, target


def pair_of_lines(number: int, pair: tuple[str, str]) -> tuple[str, str]:
    """A pair with each text on one line. Raises `DragomanError` for what a file cannot hold."""
    if any(SURROGATE.search(text) for text in pair):
        raise DragomanError(
            f"Pair {number} (counted from 0) has a half of a surrogate pair, which UTF-8 cannot write: "
            f"{shown(pair)}."
        )
    source, target = (" ".join(text.splitlines()) for text in pair)
    return source, target


def write_pairs(pairs: Iterable[tuple[str, str]], folder: Path) -> tuple[Path, Path]:
    """Write pairs as two files in a run's folder, a line for each text; return their paths.

    Pairs of a call that has prepared no run are replaced. Raises `DragomanError` if there are no pairs, if
    the run has other pairs, and as `pair_of_lines`.
    """
    rows = [pair_of_lines(number, pair) for number, pair in enumerate(pairs)]
    if not rows:
        raise DragomanError("pairs is empty; pairs of texts are wanted.")
    paths = folder / "source.txt", folder / "target.txt"
    is_prepared = any((folder.parent / name).exists() for name in ("data", "recipe.toml"))
    for path, lines in zip(paths, zip(*rows, strict=True), strict=True):
        is_other = path.exists() and path.read_bytes() != "".join(f"{line}\n" for line in lines).encode()
        if is_prepared and is_other:
            raise DragomanError(f"{folder} has other pairs; choose another out, or delete the run.")
    folder.mkdir(parents=True, exist_ok=True)
    for side, path in enumerate(paths):
        write_lines(path, [row[side] for row in rows])
    return paths

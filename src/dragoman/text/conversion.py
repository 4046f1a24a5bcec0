"""Text in any format as files of lines that are not compressed, for as long as it is prepared or examined."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dragoman.system.errors import DragomanError
from dragoman.text.formats import languages_of_file, read_parallel
from dragoman.text.lines import open_bytes
from dragoman.text.settings import UNKNOWN_LANGUAGE, DataSettings, Languages, is_parallel, plain_name


@dataclass(frozen=True)
class ConvertedData(DataSettings):
    """Settings of text files that stand for the user's, and the names of those."""

    names: dict[str, str] = field(default_factory=dict)
    """What the user calls a file, by its path here."""

    def in_words(self, text: str) -> str:
        """A message with the user's names of the files."""
        for path, name in self.names.items():
            text = text.replace(path, name)
        return text


@contextmanager
def converted(data: DataSettings, folder: Path) -> Iterator[ConvertedData]:
    """The settings with files of lines in place of others. They are in `folder`, which is removed at the end.

    Paths are joined to their folder already. Errors name the user's files. Raises `DragomanError` for files
    that cannot be read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    lines = ConvertedData(**{each.name: getattr(data, each.name) for each in fields(data)})
    try:
        lines = convert(lines, folder)
        yield lines
    except DragomanError as error:
        raise DragomanError(lines.in_words(str(error))) from error.__cause__
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def convert(data: ConvertedData, folder: Path) -> ConvertedData:
    """Write files of lines to `folder` where the settings name others."""
    data = with_languages(data)
    for kind in ("", "valid_", "test_"):
        given = [data.files.get(f"{kind}{side}") for side in ("source", "target")]
        here = folder / (kind or "train")
        source, target = line_files(given[0], given[1], data.languages, here, data.names)
        paths: dict[str, Any] = {f"{kind}source": source, f"{kind}target": target}
        data = replace(data, **paths)
    return data


def with_languages(data: ConvertedData) -> ConvertedData:
    """The settings with the languages of the pairs, where a file that has both sides says them.

    Raises `DragomanError` if it says several.
    """
    languages = data.languages
    for path in filter(is_parallel, data.files.values()):
        languages = languages_of_file(path, languages)
    source, target = (
        None if code == UNKNOWN_LANGUAGE else code for code in (languages.source, languages.target)
    )
    return (
        replace(data, source_language=source, target_language=target) if languages != data.languages else data
    )


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
    """Write the sides of a file that has both to two files."""
    folder.mkdir(parents=True)
    codes, copies = (languages.source, languages.target), (folder / "source", folder / "target")
    for copy, code in zip(copies, codes, strict=True):
        names[str(copy)] = f"{path} ({copy.name if code == UNKNOWN_LANGUAGE else code})"
    with ExitStack() as stack:
        files = [stack.enter_context(copy.open("w", encoding="utf-8", newline="\n")) for copy in copies]
        for pair in read_parallel(path, languages):
            for file, text in zip(files, pair, strict=True):
                file.write(f"{text}\n")
    return copies

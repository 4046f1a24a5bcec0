"""Files of other people, read within bounds: JSON, YAML, the text of TOML, headers of safetensors.

The bounds hold before a parser sees the file, so the work is bounded whatever the file says. Errors name the
file.
"""

import io
import json
import math
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dragoman.system.errors import DragomanError, reason
from dragoman.system.wording import shown

MAX_RECORD = 2**20  # bytes of JSON or TOML: settings, results, states
MAX_LIST = 2**24  # bytes of JSON that lists files or tokens, and of a record of what a file was made with
MAX_TOKENS_FILE = 2**25  # bytes of a list of tokens or merges
MAX_TOKENIZER = 2**29  # bytes of a SentencePiece model, which may have ten million tokens
MAX_YAML = 2**15  # bytes; PyYAML reads about a hundred thousand in a second
MAX_NODES = 2**14  # values of YAML, each counted as often as an alias repeats it
MAX_DEPTH = 32  # tables within tables
MAX_INTEGER = 2**64  # beyond it, floats overflow and Python refuses to write the digits
MAX_HEADER = 2**24  # bytes of a header of safetensors
MAX_TENSORS = 2**16  # those of one file
SURROGATE = re.compile("[\ud800-\udfff]")  # which JSON can write and UTF-8 cannot


class NamedFile(io.FileIO):
    """A file whose errors name it: the system names a file where it is opened, not where it is read."""

    def readinto(self, buffer: Any, /) -> int:
        """Raises `DragomanError` if the file cannot be read."""
        try:
            return super().readinto(buffer) or 0
        except OSError as error:
            raise DragomanError(f"{self.name!s} cannot be read: {reason(error)}.") from error

    def readall(self) -> bytes:
        """Raises `DragomanError` if the file cannot be read."""
        try:
            return super().readall() or b""
        except OSError as error:
            raise DragomanError(f"{self.name!s} cannot be read: {reason(error)}.") from error


def open_file(path: Path) -> io.BufferedReader:
    """Open a file to read its bytes.

    Raises `OSError` if it cannot be opened; reading it raises `DragomanError`. Both name the file.
    """
    return io.BufferedReader(NamedFile(path), 2**16)


def require_regular(path: Path) -> None:
    """Raise `DragomanError` unless this is a regular file, or a link to one: no folder, pipe or device."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    if stat.S_ISDIR(mode):
        raise DragomanError(f"{path} cannot be read: it is a folder.")
    if not stat.S_ISREG(mode):
        raise DragomanError(f"{path} is not a regular file; copy what it holds to a file.")


def read_bytes(path: Path, most: int = MAX_RECORD) -> bytes:
    """The bytes of a regular file. Raises `DragomanError` if it cannot be read, or has more than `most`."""
    require_regular(path)
    try:
        with open_file(path) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    if len(content) > most:
        raise DragomanError(f"{path} has more than {most:,} bytes, the most that such a file may have.")
    return content


def read_text(path: Path, most: int = MAX_RECORD, encoding: str = "utf-8") -> str:
    """The text of a regular file, as `read_bytes`. Raises `DragomanError` for what is not UTF-8, too."""
    try:
        return read_bytes(path, most).decode(encoding)
    except UnicodeDecodeError as error:
        raise DragomanError(f"{path} cannot be read: it is not UTF-8 ({reason(error)}).") from error


def read_json(path: Path, most: int = MAX_RECORD, is_finite: bool = True) -> Any:
    """The value of a regular JSON file, as `parse_json`."""
    return parse_json(read_text(path, most), str(path), is_finite)


def parse_json(text: str, place: str, is_finite: bool = True) -> Any:
    """The value of a JSON text, whose size the caller bounds.

    Raises `DragomanError` with the place for what is not JSON, and as `check_values`.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DragomanError(f"{place} cannot be read as JSON: {error}.") from error
    except ValueError as error:  # of numbers with thousands of digits
        raise DragomanError(f"{place} has a number with too many digits.") from error
    except RecursionError as error:
        raise too_deep(place) from error
    check_values([value], place, is_finite)
    return value


def check_values(values: Iterable[Any], place: str, is_finite: bool = True) -> None:
    """Check all that is within parsed values.

    Raises `DragomanError` with the place for lists within lists beyond `MAX_DEPTH`, whole numbers beyond 64
    bits, texts that UTF-8 cannot hold, and, with `is_finite`, for NaN and infinities.
    """
    level = list(values)
    for _ in range(MAX_DEPTH + 1):
        nested: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                nested += value.keys()
                nested += value.values()
            elif isinstance(value, list | tuple | set):
                nested += value
            elif isinstance(value, str):
                if not value.isascii() and SURROGATE.search(value):
                    raise DragomanError(f"{place} has a text with a lone surrogate: {shown(value)}.")
            elif isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise DragomanError(f"{place} has the number {shown(value)}; it may have at most 64 bits.")
            elif is_finite and isinstance(value, float) and not math.isfinite(value):
                raise DragomanError(f"{place} has the number {value}; it must be a finite number.")
        if not nested:
            return
        level = nested
    raise too_deep(place)


def too_deep(place: str) -> DragomanError:
    """The error for lists and tables within too many others."""
    return DragomanError(f"{place} cannot be read: it has lists within more than {MAX_DEPTH} others.")


# ---- TOML

# Strings and comments, which tomllib delimits so. One without an end extends to the end of the text or line.
TOML_TEXTS = re.compile(
    r"""
    \"\"\" (?: [^"\\]++ | \\[\s\S] | "(?!"") )*+ (?:"{3,5})? |
    ''' (?: [^']++ | '(?!'') )*+ (?:'{3,5})? |
    " (?: [^"\\\n]++ | \\. )*+ "? |
    ' [^'\n]*+ '? |
    \# [^\n]*+
    """,
    re.VERBOSE,
)
TOML_KEYS = re.compile(r"[\w+-]++(?:[ \t]*+\.[ \t]*+[\w+-]++)*+")  # bare keys with dots between them
MAX_PARTS = 8  # of a key with dots; tomllib takes time and memory of their square


def check_toml(text: str, place: str) -> None:
    """Raise `DragomanError` for keys of more than `MAX_PARTS` parts, and arrays within too many others.

    The text need not be TOML.
    """
    stripped = TOML_TEXTS.sub(lambda match: "" if match[0].startswith("#") else "s", text)
    for key in TOML_KEYS.finditer(stripped):
        if key[0].count(".") >= MAX_PARTS:
            raise DragomanError(f"{place} has a key with more than {MAX_PARTS} parts: {shown(key[0][:40])}.")
    check_brackets(stripped, place)


def check_brackets(text: str, place: str) -> None:
    """Raise `DragomanError` for brackets within more than `MAX_DEPTH` others that are not closed."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if bracket[0] in "[{" else max(0, depth - 1)
        if depth > MAX_DEPTH:
            raise too_deep(place)


# ---- YAML


def read_yaml(path: Path) -> Any:
    """The value of a YAML file, as `parse_yaml`. Raises `DragomanError` if it cannot be read, too."""
    import_yaml(str(path))  # without it, no file is read
    return parse_yaml(read_text(path, MAX_YAML), str(path))


def parse_yaml(text: str, place: str) -> Any:
    """The value of a YAML text, which may have anchors and aliases, and whose size the caller bounds.

    Raises `DragomanError` with the place for what is not YAML, if aliases repeat so much that it has more
    than `MAX_NODES` values, as `check_values`, and without PyYAML.
    """
    yaml, loader = import_yaml(place), None
    check_brackets(text, place)  # PyYAML takes time of their square
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        check_nodes(node, place)
        value = None if node is None else loader.construct_document(node)
    except DragomanError:
        raise
    except RecursionError as error:
        raise too_deep(place) from error
    except (ValueError, TypeError, AttributeError, OverflowError, LookupError, yaml.YAMLError) as error:
        raise DragomanError(f"{place} cannot be read as YAML: {' '.join(reason(error).split())}.") from error
    finally:
        if loader is not None:
            loader.dispose()
    check_values([value], place, is_finite=False)
    return value


def read_yaml_table(path: Path, most: int) -> dict[str, str]:
    """The keys and values of a YAML file that has one table of plain values, as texts.

    It is read in linear time. Of a repeated key the first value counts. Raises `DragomanError` if it cannot
    be read, for anything else in it, and without PyYAML.
    """
    yaml, table, key = import_yaml(str(path)), dict[str, str](), None
    parser = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    try:
        for event in yaml.parse(read_text(path, most), parser):
            if isinstance(event, yaml.ScalarEvent):
                if key is None:
                    key = event.value
                else:
                    table.setdefault(key, event.value)
                    key = None
            elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent) or key is not None:
                raise DragomanError(f"{path} is no table of plain values.")
    except yaml.YAMLError as error:
        raise DragomanError(f"{path} cannot be read as YAML: {' '.join(reason(error).split())}.") from error
    return table


def import_yaml(place: str) -> Any:
    """The module of PyYAML. Raises `DragomanError` with the place if it is not installed."""
    try:
        import yaml
    except ImportError as error:
        raise DragomanError(f"Reading {place} needs PyYAML: pip install 'dragoman[import]'.") from error
    return yaml


def check_nodes(root: Any, place: str) -> None:
    """Count the values of a YAML file, those of an alias each time it stands for them.

    Merge keys copy what their aliases stand for, so the count bounds the work of making the values. Raises
    `DragomanError` for too many, and for an alias within what it stands for.
    """
    counts: dict[int, int] = {}  # by the nodes, which aliases share; 0 for those that contain the present one

    def count(node: Any) -> int:
        if (known := counts.get(id(node))) is not None:
            if not known:
                raise DragomanError(f"{place} has an alias within what it stands for.")
            return known
        counts[id(node)] = 0
        children = node.value if isinstance(node.value, list) else ()
        parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        counts[id(node)] = total = 1 + sum(map(count, parts))
        if total > MAX_NODES:
            raise DragomanError(f"{place} has more than {MAX_NODES:,} values, aliases included.")
        return total

    if root is not None:
        count(root)


# ---- safetensors


def check_tensors_header(path: Path) -> None:
    """Raise `DragomanError` if the header of a safetensors file is too long, or has too many tensors.

    What is no such file is left to its reader, whose work the size of the header bounds.
    """
    require_regular(path)
    try:
        with open_file(path) as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(min(length, MAX_HEADER + 1))
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    if len(header) > MAX_HEADER:
        raise DragomanError(f"{path} has a header of {length:,} bytes; at most {MAX_HEADER:,} are read.")
    if header.count(b"{") > MAX_TENSORS + 2:  # each tensor has one, the whole and the metadata too
        raise DragomanError(f"{path} has more than {MAX_TENSORS:,} tensors, the most that are read.")

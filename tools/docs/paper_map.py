"""The map from the paper to the code (docs/explanation/paper/map.toml): names, lines of source, tests.

This module needs neither Sphinx nor torch.
"""

import ast
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "explanation" / "paper" / "map.toml"


@dataclass(frozen=True)
class Lines:
    """Lines of a file, counted from 1, the last one included."""

    path: Path
    first: int
    last: int

    @property
    def text(self) -> str:
        """What they say."""
        return "\n".join(self.path.read_text(encoding="utf-8").split("\n")[self.first - 1 : self.last])

    def containing(self, part: str) -> list[int]:
        """The numbers, counted from 1 within these lines, of those with a part."""
        return [number for number, line in enumerate(self.text.split("\n"), 1) if part in line]


@dataclass(frozen=True)
class Item:
    """Something that the paper says, and where it is."""

    section: str
    """Of the paper."""
    what: str
    code: tuple[str, ...]
    """Dotted names in the package, or paths of recipes."""
    tests: tuple[str, ...]
    """`test_file.py::test_name`, in tests/."""
    contains: tuple[str, ...] = ()
    """Parts of lines that have to be in the code: constants."""
    value: Any = None
    """What the code, a field or a constant, has to be."""
    elsewhere: str = ""
    """Where well-known implementations differ."""
    lab: tuple[str, ...] = field(default=())
    """Experiments in lab/, by their names, with dashes."""


def read_map(path: Path = MAP) -> dict[str, Item]:
    """All items by their names."""
    with path.open("rb") as file:
        tables = tomllib.load(file)
    return {name: item_of(table) for name, table in tables.items()}


def item_of(table: dict[str, Any]) -> Item:
    """An item; where lists are wanted, one text is a list too."""
    lists = {
        name: tuple([table[name]] if isinstance(table[name], str) else table[name])
        for name in ("code", "tests", "contains", "lab")
        if name in table
    }
    return Item(**{**table, "tests": (), **lists})


def lines_of_code(name: str) -> Lines:
    """The lines that define a name of the package, or all lines of a file.

    Raises `LookupError` if there is no such name.
    """
    if "/" in name:
        path = ROOT / name
        if not path.is_file():
            raise LookupError(f"There is no file {name}.")
        return Lines(path, 1, len(path.read_text(encoding="utf-8").rstrip("\n").split("\n")))
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath("src", *parts[:length]).with_suffix(".py")
        if path.is_file():
            return lines_of(path, ".".join(parts[length:]))
    raise LookupError(f"There is no module for {name}.")


def lines_of_test(name: str) -> Lines:
    """The lines of a test. Raises `LookupError` if there is no such test."""
    file, _, test = name.partition("::")
    if not (ROOT / "tests" / file).is_file():
        raise LookupError(f"There is no tests/{file}.")
    return lines_of(ROOT / "tests" / file, test)


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Of a file of Python."""
    return ast.parse(path.read_text(encoding="utf-8"))


def lines_of(path: Path, name: str) -> Lines:
    """The lines that define a function, class, method, field or variable, with decorators and docstring."""
    body = syntax_tree(path).body
    for part in name.split("."):
        found = next((number for number, node in enumerate(body) if part in names_of(node)), None)
        if found is None:
            raise LookupError(f"{path.relative_to(ROOT)} does not define {name}.")
        node, after = body[found], body[found + 1 : found + 2]
        body = getattr(node, "body", [])
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    is_field = isinstance(node, ast.Assign | ast.AnnAssign)
    docstring = after[0] if is_field and after and is_text(after[0]) else None
    return Lines(path, first, (docstring or node).end_lineno or first)


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is a text alone, as the docstring of a field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def value_of(name: str) -> Any:
    """The value of a variable, or the default of a field or an `option`, that is a plain one.

    Raises `ValueError` for another.
    """
    (node, *_) = ast.parse(dedented(lines_of_code(name).text)).body
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if value is None:
        raise ValueError(f"{name} has no plain value.")
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "option":
        value = value.args[0]
    return ast.literal_eval(value)


def dedented(text: str) -> str:
    """The text without the indentation of its first line."""
    indentation = len(text) - len(text.lstrip())
    return "\n".join(line[indentation:] for line in text.split("\n"))

"""The docstrings of a dataclass's fields: help of the command line, descriptions of the HTTP API."""

import ast
import inspect
import re
import typing
from dataclasses import is_dataclass
from itertools import pairwise


def field_docs(settings: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields, as one line each, in the words of the command line."""
    docs = {}
    for kind in filter(is_dataclass, reversed(settings.__mro__)):
        (definition,) = ast.parse(inspect.getsource(kind)).body
        body = typing.cast(ast.ClassDef, definition).body
        for one, other in pairwise(body):
            if (
                isinstance(one, ast.AnnAssign)
                and isinstance(one.target, ast.Name)
                and isinstance(other, ast.Expr)
            ):
                text = " ".join(ast.literal_eval(other.value).replace("`", "").split())
                docs[one.target.id] = re.sub(
                    r"(; )?\bNone (?=is|cuts|chooses|leaves)",
                    lambda found: "; the default " if found[1] else "The default ",
                    text,
                )
    return docs

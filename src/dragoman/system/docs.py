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
        for node, next_node in pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(next_node, ast.Expr)
            ):
                text = " ".join(ast.literal_eval(next_node.value).replace("`", "").split())
                docs[node.target.id] = re.sub(
                    r"(; )?\bNone (?=is|cuts|chooses|leaves)",
                    lambda match: "; the default " if match[1] else "The default ",
                    text,
                )
    return docs

"""Where the code of a part of a model is, and what it says of itself."""

import inspect
from collections.abc import Callable
from typing import TypeVar

from torch import nn

from dragoman.inspection.record.inspected import InspectedModel
from dragoman.model.recurrent import Recurrent

M = TypeVar("M", bound=nn.Module)


def definition_of(model: InspectedModel, part: str) -> tuple[str, str]:
    """The name of the class or method that computes a part, and the first paragraph of its docstring.

    A class that replaces one of `dragoman.model` for speed computes the same, so the name is that of the
    class in `dragoman.model`. The paragraph is "" for PyTorch's classes; both are "" for weights without a
    module.
    """
    if part == "output":
        return named(class_of(model).logits)
    if part.endswith("_embedding") and not isinstance(model, Recurrent):
        return named(class_of(model).embed)
    module = dict(model.named_modules()).get(part)
    return ("", "") if module is None else named(class_of(module))


def class_of(module: M) -> type[M]:
    """A module's class, or the class of `dragoman.model` that it extends."""
    model_classes = (base for base in type(module).__mro__ if base.__module__.startswith("dragoman.model."))
    return next(model_classes, type(module))


def named(code: type | Callable[..., object]) -> tuple[str, str]:
    """The qualified name of a class or function, and the first paragraph of its docstring."""
    words = inspect.getdoc(code) or ""
    paragraph = " ".join(words.split("\n\n")[0].split()) if code.__module__.startswith("dragoman.") else ""
    return f"{code.__module__}.{code.__qualname__}", paragraph

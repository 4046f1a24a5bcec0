"""Dragoman: the Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a tool for one's own
text.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.evaluation.measures import evaluate
    from dragoman.evaluation.metrics import Score
    from dragoman.interop.load import load
    from dragoman.pipeline.from_python import resume, train
    from dragoman.pipeline.trained_run import Run
    from dragoman.search.settings import SearchSettings
    from dragoman.system.errors import DragomanError, LongInput, SeveralSentences
    from dragoman.training.events import LogEvent
    from dragoman.translation.translation import Translation
    from dragoman.translation.translator import Translator

__version__ = "0.1.0"
__all__ = [
    "DragomanError",
    "LogEvent",
    "LongInput",
    "Run",
    "Score",
    "SearchSettings",
    "SeveralSentences",
    "Translation",
    "Translator",
    "evaluate",
    "load",
    "resume",
    "train",
]
MODULES = {
    "DragomanError": "system.errors",
    "LogEvent": "training.events",
    "LongInput": "system.errors",
    "Run": "pipeline.trained_run",
    "Score": "evaluation.metrics",
    "SearchSettings": "search.settings",
    "SeveralSentences": "system.errors",
    "Translation": "translation.translator",
    "Translator": "translation.translator",
    "evaluate": "evaluation.measures",
    "load": "interop.load",
    "resume": "pipeline.from_python",
    "train": "pipeline.from_python",
}


def __getattr__(name: str) -> object:
    """Import the public names when they are first used: `import dragoman` stays light."""
    if name not in MODULES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.{MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

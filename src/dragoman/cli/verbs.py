"""The verbs in their groups: the module of each, which is imported when the verb is called.

Verbs that explain or reproduce the paper are modules of the companion package.
"""

import difflib
import importlib
from functools import cache
from typing import Any

from dragoman.cli.parsing import Command
from dragoman.system.errors import DragomanError

GROUPS = {
    "everyday": {
        "quickstart": "dragoman.cli.quickstart",
        "start": "dragoman.cli.start",
        "train": "dragoman.cli.train",
        "resume": "dragoman.cli.resume",
        "translate": "dragoman.cli.translate",
        "serve": "dragoman.cli.serve",
        "evaluate": "dragoman.cli.evaluate",
        "runs": "dragoman.cli.runs",
        "completion": "dragoman.cli.completion",
    },
    "data": {
        "data": "dragoman.cli.data",
        "doctor": "dragoman.cli.doctor",
        "clean": "dragoman.cli.clean",
        "align": "dragoman.cli.align",
        "score": "dragoman.cli.score",
        "backtranslate": "dragoman.cli.backtranslate",
    },
    "models": {
        "distil": "dragoman.cli.distil",
        "shortlist": "dragoman.cli.shortlist",
        "export": "dragoman.cli.export",
        "import": "dragoman.cli.import_model",
    },
    "research": {
        "inspect": "dragoman.cli.inspect",
        "plot": "dragoman.cli.plot",
        "aer": "dragoman.cli.aer",
        "figure": "dragoman_paper.cli.figure",
        "paper": "dragoman_paper.cli.paper",
        "reproduce": "dragoman_paper.cli.reproduce",
        "lab": "dragoman_paper.cli.lab",
        "linearise": "dragoman_paper.cli.linearise",
        "parse-f1": "dragoman_paper.cli.parse_f1",
    },
}
MODULES = {name: module for verbs in GROUPS.values() for name, module in verbs.items()}


def command(name: str) -> Command[Any]:
    """The verb of this name. Raises `DragomanError` for one that does not exist, with the nearest."""
    if name in MODULES:
        return importlib.import_module(MODULES[name]).COMMAND
    suggestions = difflib.get_close_matches(name, MODULES, n=1)
    hint = f"Did you mean {suggestions[0]!r}?" if suggestions else f"There are: {', '.join(MODULES)}."
    what = "option" if name.startswith("-") else "verb"
    hint = "See dragoman --help." if what == "option" else hint
    raise DragomanError(f"There is no {what} {name!r}. {hint}")


@cache
def commands() -> dict[str, Command[Any]]:
    """All verbs by their names."""
    return {name: command(name) for name in MODULES}

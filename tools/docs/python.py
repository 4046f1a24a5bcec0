"""The pages of Python: a page a floor, every public name by autodoc, with the shapes in its signature."""

import ast
from pathlib import Path

import dragoman
from tools.docs.markdown import page, toctree

FLOORS = {
    "dragoman.translation": "Translation",
    "dragoman.documents": "Documents",
    "dragoman.search": "Search",
    "dragoman.model": "Model",
    "dragoman.training": "Training",
    "dragoman.text": "Text",
    "dragoman.evaluation": "Evaluation",
    "dragoman.inspection": "Inspection",
    "dragoman.interop": "Other formats",
    "dragoman.pipeline": "Pipeline",
    "dragoman.native": "Native",
    "dragoman.system": "System",
    "dragoman_paper.paper_map": "A model beside the paper",
    "dragoman_paper.tables": "Tables of the paper",
    "dragoman_paper.figures": "Figures of the paper",
    "dragoman_paper.treebank": "Constituency parsing",
}
PACKAGE = {
    "Train": ("train", "resume", "Run", "LogEvent"),
    "Translate": ("load", "Translator", "Translation", "SearchSettings"),
    "Evaluate": ("evaluate", "Score"),
    "Errors and warnings": ("DragomanError", "LongInput", "SeveralSentences"),
}
"""The names of the package itself, in the order in which a user meets them."""
FIRST = {
    "dragoman.translation": ("translator", "translation", "glossary", "model_folder"),
    "dragoman.documents": ("file", "read", "document", "formats"),
    "dragoman.search": ("settings", "hypothesis", "beam"),
    "dragoman.model": ("interface", "settings", "build", "transformer", "attention"),
    "dragoman.training": ("settings", "events", "loop", "objective", "schedule"),
    "dragoman.text": ("settings", "tokenizer", "batches", "corpus"),
    "dragoman.evaluation": ("measures", "metrics", "compare"),
    "dragoman.inspection": ("inspect", "inspection", "report"),
    "dragoman.interop": ("load", "export", "huggingface", "ctranslate2"),
    "dragoman.pipeline": ("from_python", "trained_run", "pairs", "recipe", "run"),
}
"""Modules that a floor's page begins with; the others follow by name."""
INTRODUCTION = """\
The names on this page are imported from the package itself: `from dragoman import Translator`. All others are
imported from their modules, which the pages below list, a folder each.
[In Python and notebooks](../../tutorials/python.md) shows how they are used together.

Signatures give shapes: `Float[Tensor, "B T D"]` is a tensor of B sentences, T tokens and D features. The
first lines of a module say what its letters mean. A mask is True where attending is allowed.

Each function and class has a link to its source.
"""


def pages(source: Path) -> dict[str, str]:
    """The pages by their names; `source` is the folder of the packages."""
    names = {floor.rpartition(".")[2]: floor for floor in FLOORS}
    parts = [part for title, members in PACKAGE.items() for part in (f"## {title}", *map(described, members))]
    index = page("Python", INTRODUCTION, *parts, "## Modules", toctree(names, hidden=False))
    return {"index": index} | {name: floor_page(source, floor) for name, floor in names.items()}


def described(name: str) -> str:
    """A name of the package, documented."""
    value = getattr(dragoman, name)
    kind = "autoclass" if isinstance(value, type) else "autofunction"
    members = "\n   :members:" if isinstance(value, type) else ""
    return f"```{{eval-rst}}\n.. {kind}:: dragoman.{name}{members}\n```"


def floor_page(source: Path, floor: str) -> str:
    """All modules of a floor."""
    folder = source.joinpath(*floor.split("."))
    first = [folder / f"{name}.py" for name in FIRST.get(floor, ())]
    paths = [*first, *(path for path in sorted(folder.rglob("*.py")) if path not in first)]
    summary = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    parts = []
    for path in paths:
        if path.stem != "__init__":
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            directive = f".. automodule:: {name}\n   :members:\n   :show-inheritance:"
            parts += [f"## {name}", f"```{{eval-rst}}\n{directive}\n```"]
    return page(f"{FLOORS[floor]} (`{floor}`)", summary or "", *parts)

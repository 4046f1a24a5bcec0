"""The pages of Python: a page a floor, every public name by autodoc, with the shapes in its signature."""

import ast
from pathlib import Path

from tools.docs.markdown import page, toctree

FLOORS = {
    "translation": "Translation",
    "search": "Search",
    "model": "Model",
    "training": "Training",
    "text": "Text",
    "evaluation": "Evaluation",
    "inspection": "Inspection",
    "interop": "Other formats",
    "pipeline": "Pipeline",
    "native": "Native",
    "system": "System",
}
INTRODUCTION = """\
These names are imported from the package itself, all others from their modules.

```python
from dragoman import (
    DragomanError,
    LongInput,
    SearchSettings,
    SeveralSentences,
    Translation,
    Translator,
    resume,
    train,
)
```

Signatures give shapes: `Float[Tensor, "B T D"]` is a tensor of B sentences, T tokens and D features. The
first lines of a module say what its letters mean. A mask is True where attending is allowed.

Each function and class has a link to its source.
"""


def pages(source: Path) -> dict[str, str]:
    """The pages by their names; `source` is the folder of the package."""
    return {"index": page("Python", INTRODUCTION, toctree(FLOORS, hidden=False))} | {
        floor: floor_page(source, floor, title) for floor, title in FLOORS.items()
    }


def floor_page(source: Path, floor: str, title: str) -> str:
    """All modules of a floor."""
    paths = sorted((source / floor).rglob("*.py"))
    summary = ast.get_docstring(ast.parse((source / floor / "__init__.py").read_text(encoding="utf-8")))
    parts = []
    for path in paths:
        if path.stem != "__init__":
            name = ".".join(("dragoman", *path.relative_to(source).with_suffix("").parts))
            directive = f".. automodule:: {name}\n   :members:\n   :show-inheritance:"
            parts += [f"## {name}", f"```{{eval-rst}}\n{directive}\n```"]
    return page(f"{title} (`dragoman.{floor}`)", summary or "", *parts)

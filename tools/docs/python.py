"""The pages of Python: a page a floor, every public name by autodoc, with the shapes in its signature."""

import ast
from pathlib import Path

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
    """The pages by their names; `source` is the folder of the packages."""
    names = {floor.rpartition(".")[2]: floor for floor in FLOORS}
    return {"index": page("Python", INTRODUCTION, toctree(names, hidden=False))} | {
        name: floor_page(source, floor) for name, floor in names.items()
    }


def floor_page(source: Path, floor: str) -> str:
    """All modules of a floor."""
    folder = source.joinpath(*floor.split("."))
    paths = sorted(folder.rglob("*.py"))
    summary = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    parts = []
    for path in paths:
        if path.stem != "__init__":
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            directive = f".. automodule:: {name}\n   :members:\n   :show-inheritance:"
            parts += [f"## {name}", f"```{{eval-rst}}\n{directive}\n```"]
    return page(f"{FLOORS[floor]} (`{floor}`)", summary or "", *parts)

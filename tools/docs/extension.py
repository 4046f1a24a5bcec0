"""The extension of Sphinx: it writes the pages that are made, and draws formulas without scripts."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from tools.docs import command_line, experiments, http_apis, python, recipes, results
from tools.docs.dark_pictures import DarkPictures
from tools.docs.markdown import write
from tools.docs.number_columns import NumberColumns
from tools.docs.outcome import Outcome, Verdict
from tools.docs.paper_directives import Paper, PaperTable

ROOT = Path(__file__).parents[2]


def write_pages(app: Sphinx) -> None:
    """Write the pages that are made from code and results."""
    reference = Path(app.srcdir) / "reference"
    write(reference / "command-line", command_line.pages())
    write(reference / "settings", recipes.pages())
    write(reference / "http", http_apis.pages())
    write(reference / "python", python.pages(ROOT / "src"))
    write(reference / "results", results.pages(ROOT))
    write(Path(app.srcdir) / "explanation" / "experiments", experiments.pages(ROOT))


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line."""
    self.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula in a line of its own."""
    self.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def signature_lines(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: Any) -> None:
    """Let the parameters of a long signature be lines; Sphinx makes them a definition list without terms."""
    lists = r'<dl>\n((?:<dd><em class="sig-param.*?</em>,?</dd>\n)+)</dl>'
    context["body"] = re.sub(
        lists,
        lambda found: re.sub("<dd>(.*)</dd>", r'<span class="sig-line">\1</span>', found[1]),
        context.get("body", ""),
    )


def site_links(_: Sphinx, __: str, text: list[str]) -> None:
    """Let links to README files of the repository lead to their copies on the site; the log has none."""
    for path, here in (
        ("../benchmarks/README.md", "reference/results/benchmarks.md"),
        ("../experiments/README.md", "reference/results/experiments.md"),
        ("../src/dragoman_paper/lab/README.md", "explanation/experiments/index.md"),
    ):
        text[0] = re.sub(rf"\((\.\./)*{re.escape(path)}(?=[#)])", f"(/{here}", text[0])
    text[0] = results.without_log(text[0])


def plain_docstring(_: Sphinx, __: str, ___: str, ____: Any, _____: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks and indented blocks; other marks are characters."""
    lines[:] = [
        line for block in blocks(lines) for line in (block if is_code(block) else map(unmarked, block))
    ]


def blocks(lines: list[str]) -> Iterator[list[str]]:
    """The paragraphs of a text and the empty lines between. An indented paragraph becomes a literal block."""
    for empty, group in groupby(lines, lambda line: not line.strip()):
        block = list(group)
        if not empty:
            yield ["::", "", *block] if block[0].startswith("    ") else block
        else:
            yield block


def is_code(block: list[str]) -> bool:
    """Whether a block is literal."""
    return block[:1] == ["::"]


def unmarked(line: str) -> str:
    """A line whose marks outside of backticks are characters; every second part between backticks is code."""
    return "`".join(
        part.strip() if number % 2 else re.sub(r"([*|]|_\b)", r"\\\1", part)
        for number, part in enumerate(line.split("`"))
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of all this."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.add_directive("paper", Paper)
    app.add_directive("paper-table", PaperTable)
    app.add_role("verdict", Verdict())
    app.add_role("outcome", Outcome())
    app.add_transform(DarkPictures)
    app.add_transform(NumberColumns)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("source-read", site_links)
    app.connect("html-page-context", signature_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

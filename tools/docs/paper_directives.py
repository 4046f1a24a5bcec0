"""Directives of the site: an item of the map of the paper with its lines of code and tests; all items."""

import html
import os
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from tools.docs.markdown import escaped, table
from tools.docs.paper_map import MAP, ROOT, Item, Lines, lines_of_code, lines_of_test, read_map


class Paper(SphinxDirective):
    """`{paper} NAME`: an item of the map."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The item's lines of code, tests, and differences, as nodes."""
        name = self.arguments[0]
        items = read_map()
        if name not in items:
            raise self.error(f"The map of the paper has no item {name!r}.")
        item = items[name]
        found = [*map(lines_of_code, item.code), *map(lines_of_test, item.tests)]
        note_dependencies(self, *(lines.path for lines in found))
        text = "\n\n".join(item_parts(name, item, Path(self.env.srcdir)))
        return [nodes.compound("", *self.parse_text_to_nodes(text), classes=["paper-item"])]


class PaperTable(SphinxDirective):
    """`{paper-table}`: all items with their places."""

    def run(self) -> list[nodes.Node]:
        """A table."""
        note_dependencies(self)
        rows = (
            [
                item.section,
                f"[{escaped(item.what)}](#paper-{name})",
                ", ".join(f"`{short_name(code)}`" for code in item.code),
                str(len(item.tests)),
                ", ".join(map(lab_link, item.lab)) or "—",
            ]
            for name, item in read_map().items()
        )
        return self.parse_text_to_nodes(table(("section", "what", "code", "tests", "experiment"), rows))


def note_dependencies(directive: SphinxDirective, *paths: Path) -> None:
    """Let Sphinx read the page again when the map, this file or one of the paths changes."""
    for path in (MAP, Path(__file__), *paths):
        directive.env.note_dependency(str(path))


def item_parts(name: str, item: Item, source: Path) -> Iterator[str]:
    """The Markdown of an item."""
    yield f"(paper-{name})=\n**{escaped(item.what)}** ({item.section})"
    for code in item.code:
        lines = lines_of_code(code)
        marked = [number for part in item.contains for number in lines.containing(part)]
        yield included(lines, source, f"{lines.path.relative_to(ROOT)}: {code.rsplit('.', 1)[-1]}", marked)
    if item.elsewhere:
        yield f"Elsewhere: {item.elsewhere}"
    if item.lab:
        yield f"Experiments: {', '.join(map(lab_link, item.lab))}"
    for test in item.tests:
        lines = lines_of_test(test)
        file, _, title = test.partition("::")
        words = html.escape(title.removeprefix("test_").replace("_", " "))
        yield f"<details><summary>Test: {words}</summary>"
        yield included(lines, source, f"tests/{file}", [])
        yield "</details>"


def short_name(code: str) -> str:
    """A name without its module; a file's own name."""
    if "/" in code:
        return Path(code).name
    parts = code.split(".")
    class_or_name = parts[-2:] if parts[-2][0].isupper() else parts[-1:]
    return ".".join(class_or_name)


def included(lines: Lines, source: Path, caption: str, marked: list[int]) -> str:
    """Lines of a file, by Sphinx's own directive."""
    path = Path(os.path.relpath(lines.path, source)).as_posix()
    language = {".py": "python", ".toml": "toml"}[lines.path.suffix]
    options = [f":language: {language}", f":lines: {lines.first}-{lines.last}", ":lineno-match:", ":dedent:"]
    emphasis = [f":emphasize-lines: {','.join(map(str, sorted(set(marked))))}"] if marked else []
    body = "\n".join([*options, f":caption: {caption}", *emphasis])
    return f"```{{literalinclude}} /{path}\n{body}\n```"


def lab_link(name: str) -> str:
    """An experiment by its name."""
    return f"[](/explanation/experiments/{name}.md)"

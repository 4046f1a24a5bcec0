"""An extension of Sphinx with which it builds the same site in less time.

Each part says which work of Sphinx's it spares.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.search.en import SearchEnglish


class KnownNames(PythonDomain):
    """The domain of Python, which looks only for names that the site has.

    Most types of signatures are not of this package (`int`, `Tensor`). Sphinx compares each, three times,
    with the end of every name of the site.
    """

    @cached_property
    def last_parts(self) -> set[str]:
        """What follows the last point of each name. References are resolved when all pages have been read."""
        return {name.rpartition(".")[2] for name in self.objects}

    def resolve_xref(
        self,
        env: BuildEnvironment,
        fromdocname: str,
        builder: Builder,
        type: str,  # noqa: A002
        target: str,
        node: addnodes.pending_xref,
        contnode: nodes.Element,
    ) -> nodes.reference | None:
        if target.removesuffix("()").rpartition(".")[2] not in self.last_parts:
            return None
        return super().resolve_xref(env, fromdocname, builder, type, target, node, contnode)


class RememberedStems(SearchEnglish):
    """The stems of English words. Sphinx computes the stem of a word again for each page that has it."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.remembered = cache(super().stem)

    def stem(self, word: str) -> str:
        return self.remembered(word)


PARTS = 8
"""About as many parts as Sphinx makes of the pages for two processes."""


def spread_pages(_: Sphinx, __: BuildEnvironment, docnames: list[str]) -> None:
    """Give each process some of the longest pages. A process reads neighbours, and the longest pages, those
    of Python, are neighbours.
    """
    docnames[:] = [name for start in range(PARTS) for name in docnames[start::PARTS]]


class Navigation:
    """The navigation of a page, from the titles of all pages, and shared by the pages of source code.

    Sphinx copies all headings of all pages for each page, and then keeps the titles. No page of source code
    is in the navigation, so it differs only in how many folders its links lead up.
    """

    def __init__(self) -> None:
        self.titles: dict[str, nodes.bullet_list] = {}
        self.trees: dict[tuple[int, str], str] = {}

    def share(self, app: Sphinx, name: str, _: str, context: dict[str, Any], __: Any) -> None:
        """Replace the function that gives the theme the navigation of a page."""
        if "toctree" in context:
            from_titles = self.from_titles(app.env, context["toctree"])
            context["toctree"] = (
                self.shared(from_titles, name) if name.startswith("_modules/") else from_titles
            )

    def from_titles(self, env: BuildEnvironment, own: Callable[..., str]) -> Callable[..., str]:
        """As `own`, where only the titles are wanted; the theme wants no more."""
        if not self.titles:
            self.titles = {page: title(contents) for page, contents in env.tocs.items()}

        def toctree(**options: Any) -> str:
            if not options.get("titles_only"):
                return own(**options)
            contents = env.tocs
            env.tocs = self.titles
            try:
                return own(**options)
            finally:
                env.tocs = contents

        return toctree

    def shared(self, own: Callable[..., str], name: str) -> Callable[..., str]:
        """As `own`, computed once for each depth of folders."""

        def toctree(**options: Any) -> str:
            key = name.count("/"), repr(sorted(options.items()))
            if key not in self.trees:
                self.trees[key] = own(**options)
            return self.trees[key]

        return toctree


def title(contents: nodes.bullet_list) -> nodes.bullet_list:
    """The title of a page and the lists of pages that it has, of all its headings."""
    titles = contents.deepcopy()
    for entry in titles.children:
        if len(entry) > 1:
            lists = list(entry.findall(addnodes.toctree))
            if lists:
                entry[1][:] = lists
            else:
                entry.pop(1)
    return titles


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of all this."""
    app.add_domain(KnownNames, override=True)
    app.add_search_language(RememberedStems)
    app.connect("env-before-read-docs", spread_pages)
    app.connect("html-page-context", Navigation().share, priority=400)  # the theme's is 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}

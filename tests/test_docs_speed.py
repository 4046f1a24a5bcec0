"""The extension of Sphinx that saves time changes no byte of a site."""

from pathlib import Path

import pytest

PAGES = {
    "index": "# Site\n\n```{toctree}\nchapter/index\nnames\n```\n\n## First heading\n\nRunning runs.\n",
    "chapter/index": "# Chapter\n\n## Heading\n\n```{toctree}\none\n```\n\n## Heading\n\n### Deeper\n",
    "chapter/one": "# One\n\n## Heading\n\nRunning and runs, with {py:class}`json.JSONDecoder`.\n",
    "names": "# Names\n\n```{eval-rst}\n.. automodule:: json\n   :members:\n```\n\n## Heading\n\nText.\n",
}


@pytest.mark.long
def test_the_extension_for_speed_changes_no_byte(tmp_path: Path) -> None:
    from sphinx.application import Sphinx

    sites = []
    for extensions in ([], ["tools.docs.speed"]):
        folder = tmp_path / str(len(extensions))
        for name, text in PAGES.items():
            page = folder / "source" / f"{name}.md"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
        settings = {
            "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", *extensions],
            "html_theme": "furo",
            "html_last_updated_fmt": None,
        }
        site = folder / "site"
        application = Sphinx(
            folder / "source", None, site, folder / "trees", "html", confoverrides=settings, status=None
        )
        application.build()
        assert application.statuscode == 0
        sites.append(
            {
                path.relative_to(site): path.read_bytes()
                for path in sorted(site.rglob("*"))
                if path.suffix in {".html", ".js"} or path.name == "objects.inv"
            }
        )
    plain, fast = sites
    assert plain.keys() == fast.keys()
    for name, content in plain.items():
        assert fast[name] == content, name

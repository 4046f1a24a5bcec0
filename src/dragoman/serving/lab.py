"""The recorded results of the lab as pages, /lab/ and /lab/NAME: claims, verdicts, pictures and numbers."""

import base64
import html
import re
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from markdown_it import MarkdownIt
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

PACKAGES = Path(__file__).parents[2]
PLACES = PACKAGES / "dragoman_paper" / "lab" / "results", PACKAGES.parent / "experiments" / "lab"
"""Where the results are: in an installed package, and in a checkout."""
STYLE = Path(__file__).parent / "lab.css"
INDEX = "README"
STYLES = re.compile(rb"<style>(.*?)</style>", re.DOTALL)
LAYOUT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="../page/icon.svg" type="image/svg+xml">
<script src="../page/theme.js"></script>
<link rel="stylesheet" href="../page/inspection/theme.css">
<link rel="stylesheet" href="lab.css">
<script type="module" src="../page/header.js"></script>
</head>
<body>
<header class="top" id="top" data-root="../" data-here="lab/" data-has-docs="{has_docs}"></header>
<main>
<noscript><a href="../">Translate</a> <a href="./">Lab</a></noscript>
{body}</main>
</body>
</html>
"""


def routes(*, has_docs: bool) -> list[BaseRoute]:
    """Routes for all pages, and for their pictures. The header of a page links to /docs if `has_docs`."""
    return [
        Route("/lab", without_slash),
        Route("/lab/", partial(index, has_docs)),
        Route("/lab/{name}", partial(experiment, has_docs)),
    ]


async def without_slash(_: Request) -> Response:
    """To the page of all claims, whose links are relative."""
    return RedirectResponse("lab/")


async def index(has_docs: bool, _: Request) -> HTMLResponse:
    """All claims with their verdicts."""
    return recorded_page(INDEX, has_docs)


async def experiment(has_docs: bool, request: Request) -> Response:
    """An experiment's page, whose links to others end in .md, its picture, or the style of all pages."""
    name = request.path_params["name"]
    if name.endswith((".svg", ".css")) and name in results():
        return FileResponse(results()[name])
    return recorded_page(name.removesuffix(".md"), has_docs)


@cache
def results() -> dict[str, Path]:
    """The files of the results by their names, and the style; none if this installation has no lab."""
    folder = next(filter(Path.is_dir, PLACES), None)
    return {} if folder is None else {path.name: path for path in (*folder.iterdir(), STYLE)}


def style_hashes() -> list[str]:
    """The hashes of the styles in the pictures, by which a Content-Security-Policy may allow them.

    Some browsers apply the policy of a picture's answer to the picture.
    """
    pictures = (path.read_bytes() for name, path in results().items() if name.endswith(".svg"))
    styles = {style for picture in pictures for style in STYLES.findall(picture)}
    return sorted(f"sha256-{base64.b64encode(sha256(style).digest()).decode()}" for style in styles)


@cache
def recorded_page(name: str, has_docs: bool) -> HTMLResponse:
    """The page of a result. Raises `HTTPException` (404) if there is none."""
    if (path := results().get(f"{name}.md")) is None:
        raise HTTPException(404)
    return HTMLResponse(page(path.read_text("utf-8"), has_docs))


def page(text: str, has_docs: bool) -> str:
    """An HTML page of a Markdown text, whose first line is its title."""
    title = html.escape(text.partition("\n")[0].removeprefix("# "))
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>')  # wide ones scroll
    body = body.replace("</table>", "</table></div>")
    return LAYOUT.format(title=title, body=body, has_docs="true" if has_docs else "")

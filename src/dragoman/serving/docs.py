"""The description of the APIs at /docs: Swagger UI from an installed package, without any network."""

from importlib.resources import files
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Dragoman: APIs</title>
<link rel="stylesheet" href="/docs/static/swagger-ui.css">
<link rel="icon" href="/page/icon.svg">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/static/swagger-ui-bundle.js"></script>
<script src="/page/docs.js"></script>
</body>
</html>
"""


def add_docs(app: FastAPI) -> None:
    """Routes of /docs. The page has no inline script, which the server's policy forbids."""

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        """The description of the APIs as a page."""
        return HTMLResponse(HTML)

    app.mount("/docs/static", StaticFiles(directory=Path(str(files(fastapi_offline))) / "static"))

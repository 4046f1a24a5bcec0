"""The description of the APIs, at /openapi.json, and at /docs by Swagger UI from an installed package."""

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dragoman.serving import openapi
from dragoman.serving.apis.route import ApiRoute
from dragoman.serving.middleware import is_open
from dragoman.serving.models import Models
from dragoman.serving.service import Service

HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman: APIs</title>
<link rel="stylesheet" href="page/inspection/theme.css">
<link rel="stylesheet" href="docs/static/swagger-ui.css">
<link rel="icon" href="page/icon.svg">
<script src="page/theme.js"></script>
<script type="module" src="page/header.js"></script>
</head>
<body>
<header class="top" id="top" data-root="./" data-here="docs" data-has-docs="true"></header>
<div id="swagger-ui"></div>
<script src="docs/static/swagger-ui-bundle.js"></script>
<script src="page/docs.js"></script>
</body>
</html>
"""


def routes(
    described: Sequence[ApiRoute], service: Service, *, needs_key: bool, prefix: str = ""
) -> list[BaseRoute]:
    """The routes. The page has no inline script, which the server's policy forbids.

    `prefix` is that of all URLs.
    """
    descriptions: WeakKeyDictionary[Models, bytes] = WeakKeyDictionary()  # made when they are first needed
    lock = Lock()

    def description_of(models: Models) -> bytes:
        with lock:
            if (description := descriptions.get(models)) is None:
                schema = describe(described, models, needs_key=needs_key)
                if prefix:
                    schema["servers"] = [{"url": prefix}]
                description = descriptions[models] = orjson.dumps(schema)
            return description

    async def openapi_json(_: Request) -> Response:
        """The description of the APIs."""
        # In a thread: the first time it takes a second, in which other requests are answered.
        description = await asyncio.to_thread(description_of, service.models)
        return Response(description, media_type="application/json")

    return [
        Route("/docs", documentation),
        Mount("/docs/static", StaticFiles(directory=swagger_ui())),
        Route("/openapi.json", openapi_json),
    ]


def swagger_ui() -> Path:
    """The files of Swagger UI: those in `fastapi_offline`, which is not imported, because that takes time."""
    package = find_spec("fastapi_offline")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "static"


async def documentation(_: Request) -> HTMLResponse:
    """The description of the APIs as a page."""
    return HTMLResponse(HTML)


def describe(described: Sequence[ApiRoute], models: Models, *, needs_key: bool) -> openapi.Schema:
    """The description of the routes of a server with these models."""
    targets = [model.target for model in models.models]
    # Without a key a client may read the description, but not the names of the adapters.
    adapters = [] if needs_key else [adapted.adapter for model in models.models for adapted in model.adapted]
    schema = openapi.describe(described, targets, adapters)
    if needs_key:
        openapi.add_security(schema, is_open)
    return schema

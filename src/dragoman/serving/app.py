"""The ASGI application: all routes over one service."""

import gc
import warnings
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from dragoman import __version__
from dragoman.inspection.bundle import PAGE as INSPECTION
from dragoman.inspection.bundle import VENDOR
from dragoman.native.settings import EngineSettings
from dragoman.serving import docs, lab, openapi
from dragoman.serving.apis import deepl, libretranslate, v1, v1_analysis
from dragoman.serving.errors import (
    ApiError,
    answer_api_error,
    answer_defect,
    error_response,
    note_refusal,
    wrong_field,
)
from dragoman.serving.keys import Keys, RateLimit
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.middleware import Gateway, is_open
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError

PAGE = Path(__file__).parent / "page"


def load_app(folders: Sequence[Path], engine: EngineSettings, settings: ServerSettings) -> Gateway:
    """The application for the runs and adapters in these folders.

    Raises `DragomanError` if a model or the file of keys cannot be loaded.
    """
    keys = None if settings.api_keys is None else Keys.load(settings.api_keys)
    service = Service(load_models(folders, engine), settings, Metrics())
    app = make_app(service, keys)
    # What is loaded stays, so the collector need not look at it, and it runs less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    return app


def make_app(service: Service, keys: Keys | None) -> Gateway:
    """The application over a service."""
    settings = service.settings
    app = FastAPI(
        redirect_slashes=False,  # a redirect would lead to the host that the request names, without TLS
        title="Dragoman",
        version=__version__,
        summary="Translation by models that were trained with Dragoman.",
        description="A path that is not described gets 404, and a method that a path does not have gets 405.",
        openapi_url=None,  # FastAPI would write it anew for each request
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(ApiError, answer_api_error)
    app.add_exception_handler(DragomanError, answer_api_error)
    app.add_exception_handler(Exception, answer_defect)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, partial(answer_http_error, settings.docs))
    routes: list[BaseRoute] = []
    for module in (v1, v1_analysis, libretranslate, deepl):
        router = module.router(service)
        routes += router.routes
        app.include_router(router)
    if settings.docs:
        docs.add_docs(app)
        add_description(app)
    add_operations(app, service)
    add_page(app)
    lab.add_lab(app)
    describe(app, service, needs_key=keys is not None)
    rate_limit = RateLimit(settings.requests_per_minute)
    paths = frozenset(route.path for route in (*routes, *app.routes) if isinstance(route, Route))
    if not settings.allow_origins:
        direct = {"/v1/translate": partial(v1.translate_directly, service)}
        return Gateway(app, service, keys, rate_limit, paths, direct)
    cors = partial(
        CORSMiddleware,
        allow_origins=settings.allow_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After", "X-Request-Id"],
    )
    return Gateway(cors(app), service, keys, rate_limit, paths, with_cors=cors)


def add_operations(app: FastAPI, service: Service) -> None:
    """Routes for load balancers and monitoring."""

    @app.get("/health", tags=["Operations"])
    async def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/ready", tags=["Operations"], responses=openapi.READINESS)
    async def ready() -> JSONResponse:
        """200 if new requests are welcome; 503 while the server stops."""
        if service.is_stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", tags=["Operations"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters and histograms for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def add_page(app: FastAPI) -> None:
    """The page, at / and /page/, and the one that looks inside, at /inspect."""

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        """The page to translate with."""
        return FileResponse(PAGE / "index.html")

    @app.get("/inspect", include_in_schema=False)
    async def inspect() -> FileResponse:
        """The page that looks inside a model."""
        return FileResponse(PAGE / "inspect.html")

    app.mount("/page/vendor", StaticFiles(directory=VENDOR))
    app.mount("/page/inspection", StaticFiles(directory=INSPECTION))
    app.mount("/page", StaticFiles(directory=PAGE))


def add_description(app: FastAPI) -> None:
    """The description of the APIs, at /openapi.json. Its bytes are made once, when they are first needed."""

    @cache
    def described() -> bytes:
        return orjson.dumps(app.openapi())

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        """The description of the APIs."""
        return Response(described(), media_type="application/json")


def describe(app: FastAPI, service: Service, *, needs_key: bool) -> None:
    """Let the description of the APIs have what `openapi.py` adds."""
    generate = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            models = service.models.models
            targets = [model.target for model in models]
            # Without a key a client may read the description, but not the names of the adapters.
            adapters = (
                []
                if needs_key
                else [adapted_model.adapter for model in models for adapted_model in model.adapted]
            )
            with warnings.catch_warnings():
                # FastAPI gives the methods of a route one name; `complete` gives them their own.
                warnings.simplefilter("ignore", UserWarning)
                app.openapi_schema = openapi.complete(generate(), targets, adapters)
            if needs_key:
                openapi.add_security(app.openapi_schema, is_open)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


async def answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """A request that does not fit the description of the API: what was wanted, and where."""
    assert isinstance(error, RequestValidationError)
    answer = ApiError(400, "; ".join(map(wrong_field, error.errors()[:5])) + ".")
    note_refusal(request.scope, answer)
    return error_response(request.url.path, answer)


async def answer_http_error(has_docs: bool, request: Request, error: Exception) -> JSONResponse:
    """An unknown path, a wrong method, a body that is not JSON."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        advice = "; /docs lists what there is" if has_docs else ""
        message = f"There is no {request.url.path}{advice}."
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        message = f"{request.url.path} does not have the method {request.method}; it has {allowed}."
    else:
        message = f"{request.method} {request.url.path}: {error.detail.rstrip('.')}."
    answer = ApiError(error.status_code, message)
    note_refusal(request.scope, answer)
    response = error_response(request.url.path, answer)
    response.headers.update(error.headers or {})
    return response

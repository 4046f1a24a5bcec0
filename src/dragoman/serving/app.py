"""The ASGI application: all routes over one service."""

import gc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dragoman.inspection.bundle import PAGE as INSPECTION
from dragoman.inspection.bundle import VENDOR
from dragoman.native.settings import EngineSettings
from dragoman.serving import docs, lab
from dragoman.serving.apis import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    deepl_multilingual,
    libretranslate,
    libretranslate_files,
    operations,
    v1,
    v1_analysis,
    v1_documents,
    v1_glossaries,
)
from dragoman.serving.apis.route import ApiRoute
from dragoman.serving.apis.uploads import UPLOADS
from dragoman.serving.documents import FOLDER_PREFIX
from dragoman.serving.errors import ApiError, answer_api_error, answer_defect, error_response, note_refusal
from dragoman.serving.keys import Keys, RateLimit
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.middleware import Gateway
from dragoman.serving.processes import ONLY, Process
from dragoman.serving.reload import Reload, Supervisor
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.serving.tls import read_certificate
from dragoman.system.errors import DragomanError
from dragoman.system.temporary import remove_abandoned

PAGE = Path(__file__).parent / "page"


def load_app(
    folders: Sequence[Path],
    engine: EngineSettings,
    settings: ServerSettings,
    process: Process = ONLY,
    supervisor: Supervisor | None = None,
) -> Gateway:
    """The application for the runs and adapters in these folders, in one of the server's processes.

    `supervisor` is what has started several processes.

    Raises `DragomanError` if a model, the file of keys or the certificate cannot be loaded.
    """
    remove_abandoned(FOLDER_PREFIX)
    keys = None if settings.api_keys is None else Keys.load(settings.api_keys)
    models = load_models(folders, engine, allows_pivots=settings.pivot, on_demand=bool(settings.max_memory))
    service = Service(models, settings, Metrics(), process, certificate=read_certificate(settings))
    app = make_app(service, keys)
    service.reload = Reload(app, folders, engine, supervisor)
    if settings.glossaries is not None:
        service.read_dictionaries(models.language_pairs)
    # What is loaded stays, so the collector need not look at it, and it runs less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    return app


def make_app(service: Service, keys: Keys | None) -> Gateway:
    """The application over a service."""
    settings = service.settings
    described = api_routes(service)
    routes: list[BaseRoute] = [
        Route(route.path, route, methods=route.methods, name=route.handler.__name__) for route in described
    ]
    if settings.docs:
        routes += docs.routes(described, service, needs_key=keys is not None, prefix=settings.url_prefix)
    routes += [*page_routes(has_docs=settings.docs), *lab.routes(has_docs=settings.docs)]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ApiError: answer_api_error,
            DragomanError: answer_api_error,
            Exception: answer_defect,
            HTTPException: partial(answer_http_error, settings.docs),
        },
    )
    app.router.redirect_slashes = False  # it would lead to the host that the request names, without TLS
    rate_limit = RateLimit(settings.requests_per_minute)
    paths = frozenset(route.path for route in routes if isinstance(route, Route))
    uploads = frozenset(route.path for route in described if route.api.media_types in UPLOADS)
    if not settings.allow_origins:
        # The first one of a path; Starlette finds the parameters of a path.
        direct = {route.path: route for route in reversed(described) if "{" not in route.path}
        return Gateway(app, service, keys, rate_limit, paths, uploads, direct)
    cors = partial(
        CORSMiddleware,
        allow_origins=settings.allow_origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Content-Disposition", "Retry-After", "X-Request-Id"],
    )
    return Gateway(cors(app), service, keys, rate_limit, paths, uploads, with_cors=cors)


def api_routes(service: Service) -> list[ApiRoute]:
    """The routes of all APIs over a service."""
    modules = (
        *(v1, v1_analysis, v1_documents, v1_glossaries),
        *(libretranslate, libretranslate_files),
        *(deepl_glossaries, deepl_multilingual),  # before deepl, which refuses all else of their paths
        *(deepl, deepl_documents),
        operations,
    )
    return [route for module in modules for route in module.routes(service)]


async def translation_page(_: Request) -> FileResponse:
    """The page to translate with."""
    return FileResponse(PAGE / "index.html")


async def inspection_page(has_docs: bool, _: Request) -> HTMLResponse:
    """The page that looks inside a model. Its header links to /docs if `has_docs`."""
    page = (PAGE / "inspect.html").read_text("utf-8")
    return HTMLResponse(page if has_docs else page.replace('data-has-docs="true"', ""))


def page_routes(*, has_docs: bool) -> list[BaseRoute]:
    """The page, at / and /page/, and the one that looks inside, at /inspect."""
    return [
        Route("/", translation_page),
        Route("/inspect", partial(inspection_page, has_docs)),
        Mount("/page/vendor", StaticFiles(directory=VENDOR)),
        Mount("/page/inspection", StaticFiles(directory=INSPECTION)),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]


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

"""Routes for load balancers and monitoring."""

from typing import Any, Literal

from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Scope

from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.scrape import metrics_text
from dragoman.serving.service import Service

METRICS = {200: {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


def readiness(status: str, description: str) -> dict[str, Any]:
    """An answer of /ready for OpenAPI."""
    schema = {
        "type": "object",
        "properties": {"status": {"type": "string", "const": status}},
        "required": ["status"],
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}


READINESS = {
    200: readiness("ready", "New requests are welcome."),
    503: readiness("stopping", "The server is stopping."),
}


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("Operations", strict_json)

    @api.get("/health")
    async def health(_: Scope) -> Health:
        """The process answers."""
        return Health(status="ok")

    @api.get("/ready", described_as=READINESS)
    async def ready(_: Scope) -> JSONResponse:
        """200 if new requests are welcome; 503 while the server stops."""
        if service.is_stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ready"})

    @api.get("/metrics", described_as=METRICS)
    async def metrics(scope: Scope) -> PlainTextResponse:
        """Counters and histograms of all processes of the server, for Prometheus."""
        return PlainTextResponse(
            await metrics_text(service, scope), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return api.routes

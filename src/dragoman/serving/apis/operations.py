"""Routes for load balancers and monitoring."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Scope

from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.errors import ApiError
from dragoman.serving.scrape import metrics_text
from dragoman.serving.service import Service, owner_of

METRICS = {200: {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


class ReloadRequest(BaseModel):
    """Nothing: the folders and files are those with which the server was started."""

    model_config = ConfigDict(extra="forbid")


class ReloadResponse(BaseModel):
    """What the server has read again."""

    models: list[str] = Field(description="The names of all models.")
    loaded: list[str] = Field(
        description="Of the models and adapters that are new, or whose files had changed."
    )


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


REFUSED = {
    409: {
        "description": "Something cannot be read, and nothing has changed.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
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

    @api.post("/v1/admin/reload", described_as=REFUSED)
    async def reload(request: ReloadRequest, scope: Scope) -> ReloadResponse:
        """Read models, adapters, glossaries, keys and certificate again, in all processes of the server.

        Only an administrator's key may do this. Requests end with the models that they have begun with. If
        anything cannot be read, nothing changes.
        """
        del request  # it says nothing
        if service.reload is None:
            raise ApiError(403, "This server cannot be reloaded.")
        service.reload.refuse_others(owner_of(scope))
        if refusal := await service.reload.run():
            raise ApiError(409, f"Nothing was reloaded. {refusal}", "not_reloaded")
        names = [model.name for model in service.models.models]
        return ReloadResponse(models=names, loaded=service.reload.loaded)

    return api.routes

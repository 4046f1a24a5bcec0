"""A route of an API: a function with a typed request and a typed response.

Its types are all that describes it: requests are validated by them, answers are written by them, and
`openapi.py` makes the description of the API from them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

M = TypeVar("M", bound=BaseModel)
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
Reader = Callable[[Request, type[M]], Awaitable[M]]
"""Reads and validates the parameters of a request. Raises `ApiError` 400 for what does not fit."""
JSON = "application/json"
NO_RESPONSES: Mapping[int, Any] = {}


@dataclass(frozen=True)
class ApiRoute:
    """A path of an API, as an ASGI application."""

    path: str
    methods: tuple[str, ...]
    api: "Api"
    handler: Callable[..., Awaitable[Any]]
    """Takes the request, if it has a parameter of this name, and the ASGI scope.

    Returns the response, or a `Response` of Starlette if that is no JSON. Its docstring is the description.
    """
    described_as: Mapping[int, Any]
    """By status: what OpenAPI says of a `Response`; other types describe themselves."""
    in_description: bool
    status: int = 200
    """Of a response in JSON."""

    @cached_property
    def request_type(self) -> type[BaseModel] | None:
        """The type of the request; None if the handler does not take one."""
        return get_type_hints(self.handler).get("request")

    @cached_property
    def response_type(self) -> TypeAdapter[Any] | None:
        """The type of a response in JSON; None for a handler that returns a `Response` or always raises."""
        returned = get_type_hints(self.handler)["return"]
        if returned is NoReturn or (isinstance(returned, type) and issubclass(returned, Response)):
            return None
        return TypeAdapter(returned)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Fields of a response that the handler has not set are not in the answer."""
        scope["route"] = self
        if self.request_type is None:
            answer = await self.handler(scope)
        else:
            request = await self.api.read(Request(scope, receive), self.request_type)
            answer = await self.handler(request, scope)
        if self.response_type is not None:
            content = self.response_type.dump_json(answer, exclude_unset=True)
            answer = Response(content, self.status, media_type=JSON)
        await answer(scope, receive, send)


@dataclass(frozen=True)
class Api:
    """An API: how its requests are read, and its routes."""

    tag: str
    """Its name in the description."""
    read: Reader[Any]
    media_types: tuple[str, ...] = (JSON,)
    """Of the bodies that `read` takes."""
    routes: list[ApiRoute] = field(default_factory=list)

    def get(
        self, path: str, *, described_as: Mapping[int, Any] = NO_RESPONSES, in_description: bool = True
    ) -> Callable[[F], F]:
        """Decorates the handler of GET requests of a path."""
        return self.route(path, "GET", described_as=described_as, in_description=in_description)

    def post(
        self, path: str, *, described_as: Mapping[int, Any] = NO_RESPONSES, status: int = 200
    ) -> Callable[[F], F]:
        """Decorates the handler of POST requests of a path."""
        return self.route(path, "POST", described_as=described_as, status=status)

    def route(
        self,
        path: str,
        *methods: str,
        described_as: Mapping[int, Any] = NO_RESPONSES,
        in_description: bool = True,
        status: int = 200,
    ) -> Callable[[F], F]:
        """Decorates the handler of requests of a path. The parameters are as those of `ApiRoute`."""

        def add(handler: F) -> F:
            route = ApiRoute(path, methods, self, handler, described_as, in_description, status)
            self.routes.append(route)
            return handler

        return add

"""Parameters of a request: strict JSON for /v1; for other APIs JSON, a form or the query string."""

from codecs import BOM_UTF8
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from dragoman.serving.errors import ApiError, wrong_field

M = TypeVar("M", bound=BaseModel)
FORMS = ("application/json", "application/x-www-form-urlencoded")
"""The media types of bodies in the description of an API; `parameters` also reads multipart/form-data."""
MAX_FIELDS = 1_000  # of a form


async def strict_json(request: Request, model: type[M]) -> M:
    """The body of a request of /v1. Raises `ApiError` 400 for what is no JSON object of this type."""
    try:
        return model.model_validate_json((await request.body()).removeprefix(BOM_UTF8))
    except ValidationError as error:
        raise ApiError(400, f"{in_words(error)}.") from error


async def parameters(request: Request, model: type[M]) -> M:
    """The parameters of a request, from its query string and its body; the body's have precedence.

    A parameter that is given more than once is a list. Raises `ApiError` 400 for a body that is not what its
    type says, and for parameters that do not fit the model.
    """
    values = table(parse_qsl(request.url.query, keep_blank_values=True))
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            async with request.form() as form:
                pairs = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
            "".join(value for _, value in pairs).encode()  # refuses surrogates, which some charsets give
            values |= table(pairs)
        elif is_json(kind, body):
            value = json_of(body)
            if not isinstance(value, dict):
                raise ApiError(400, "The body has to be a JSON object.")
            values |= value
        elif body:
            values |= table(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise ApiError(400, f"The body cannot be read as {kind or 'a form'}: {error}.") from error
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {in_words(error)}.") from error


def in_words(error: ValidationError) -> str:
    """What pydantic found wrong first, five things at most."""
    return "; ".join(map(wrong_field, error.errors(include_url=False)[:5]))


def is_json(kind: str, body: bytes) -> bool:
    """Whether a body of this media type is read as JSON; also one without the right type that looks so."""
    return bool(body) and (kind.endswith("json") or body.lstrip()[:1] == b"{")


def json_of(body: bytes) -> Any:
    """The value of a body of JSON. Raises `ValueError`, also for halves of surrogate pairs.

    No answer could repeat them, and they have no bytes in UTF-8.
    """
    return orjson.loads(body.removeprefix(BOM_UTF8))


def table(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Pairs by name; a name that occurs more than once has a list."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: value[0] if len(value) == 1 else value for name, value in values.items()}


def as_list(value: Any) -> Any:
    """A list of one value for a value that is not a list."""
    return value if isinstance(value, list) else [value]

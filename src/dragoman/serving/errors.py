"""Errors of a request: a status, a code and a sentence, in the form of the API that was called."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope

from dragoman.serving.log import request_id, write
from dragoman.system.errors import NEEDS_PYTORCH, DragomanError, NonFiniteError, NotEnoughMemoryError, reason

CODES = {
    400: "bad_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    409: "not_ready",
    413: "too_large",
    415: "unsupported_media_type",
    421: "wrong_host",
    429: "queue_full",
    500: "internal_error",
    503: "shutting_down",
    504: "deadline_passed",
}
LIBRETRANSLATE = ("/translate", "/languages", "/detect", "/frontend", "/suggest", "/download_file")
DEEPL = re.compile(r"/v[23](/|$)")
NO_OBJECT = {"json_invalid", "model_type"}
TYPES = re.compile(r"str|constrained-str|list\[.*\]")
"""What pydantic adds to the place of a value that may have several types."""


class ApiError(Exception):
    """An answer other than 200. `retry_after` is in seconds."""

    def __init__(self, status: int, message: str, code: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code, self.retry_after = code or CODES.get(status, "error"), retry_after


def refusal(error: ApiError | DragomanError) -> ApiError:
    """The error of an answer.

    A `DragomanError` is about what the request asks for, 400, but for a model without finite probabilities,
    500, and a lack of memory, 503.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, NonFiniteError):
        return ApiError(500, str(error), "model_not_finite")
    if isinstance(error, NotEnoughMemoryError):
        return ApiError(503, str(error), "out_of_memory", retry_after=1)
    return ApiError(400, str(error))


def error_body(path: str, code: str, message: str) -> dict[str, object]:
    """The body of an error: LibreTranslate's, DeepL's or that of /v1."""
    if DEEPL.match(path):
        return {"message": message}
    if path.startswith(LIBRETRANSLATE):
        return {"error": message}
    return {"error": {"code": code, "message": message}}


def error_response(path: str, error: ApiError) -> JSONResponse:
    """The response of an error for a request of this path."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return JSONResponse(error_body(path, error.code, error.message), error.status, headers)


def wrong_field(error: Mapping[str, Any]) -> str:
    """What pydantic found wrong with a request, after the name of the field."""
    if error["type"] == "json_invalid" and error["input"]:
        return f"The body is not JSON: {error['ctx']['error']}"
    names = [str(part) for part in error["loc"]]
    if not names and error["type"] in NO_OBJECT:
        return "The body has to be a JSON object, sent with Content-Type: application/json"
    place = ".".join(names[:1] + [name for name in names[1:] if not TYPES.fullmatch(name)])
    message = re.sub(r"^\w+ should", "it has to", error["msg"])
    return f"{place or 'The body'}: {message}"


def not_written(what: str, error: OSError) -> ApiError:
    """The error of a request for which the server cannot write a file. Its reason is in the log, too."""
    message = f"The server cannot write {what}: {reason(error)}."
    write(id=request_id.get(), level="error", message=message)
    return ApiError(503, message, "not_written", retry_after=60)


def note_refusal(scope: Scope, error: ApiError) -> None:
    """Keep the code of an error for the metrics and the log."""
    scope["dragoman.code"] = error.code


async def answer_defect(request: Request, error: Exception) -> JSONResponse:
    """The handler of all other exceptions: the client gets no traceback, the log does."""
    message = f"The server failed. Its log has the reason under the request ID {request_id.get()}."
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        message = NEEDS_PYTORCH
    return error_response(request.url.path, ApiError(500, message))


async def answer_api_error(request: Request, error: Exception) -> JSONResponse:
    """The handler of `ApiError` and `DragomanError`."""
    assert isinstance(error, ApiError | DragomanError)
    answer = refusal(error)
    note_refusal(request.scope, answer)
    return error_response(request.url.path, answer)

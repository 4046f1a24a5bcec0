"""The description of the APIs: statuses of operations with their bodies, examples, and how to send a key."""

import re
from collections.abc import Callable
from typing import Any

from dragoman.serving.apis.answers import answer_schemas
from dragoman.serving.errors import error_body

STATUSES = {
    "400": "The request does not fit this description, asks for more than this server allows, or contradicts "
    "itself.",
    "403": "The request has no valid API key, which the server needs; or a page of another site has sent it; "
    "or the server has switched this off.",
    "404": "There is no model, or no adapter, of this name.",
    "408": "The body did not arrive in time.",
    "413": "The body, the text or the number of tokens is too large.",
    "415": "The body is not sent as application/json.",
    "421": "The host that the request names is not the server's.",
    "429": "The queue is full, or the client has used up its requests. Try again after Retry-After.",
    "500": "A defect of the server. Its log has the reason.",
    "503": "The server is shutting down, or lacks memory. Try another one.",
    "504": "The deadline has passed.",
}
READING = ("403", "413", "408", "421", "429", "500", "503")
"""What a request that translates nothing can get: also it can have a body, which is read."""
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/translate/stream": {"text": "A man rides a bike."},
    "/translate": {"q": "A man rides a bike.", "source": "auto", "target": "de"},
    "/detect": {"q": "A man rides a bike."},
    "/v2/translate": {"text": ["A man rides a bike."], "target_lang": "DE"},
}
"""Bodies of requests; the others of /v1 stand in `schemas.py`."""
READINESS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"status": {"type": "string", "const": word}},
                    "required": ["status"],
                }
            }
        },
    }
    for status, word, description in (
        (200, "ready", "New requests are welcome."),
        (503, "stopping", "The server is stopping."),
    )
}
"""The answers of /ready."""
SECURITY_SCHEMES = {
    "Key": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "DeepLKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Authorization: DeepL-Auth-Key KEY`; the value begins with `DeepL-Auth-Key`.",
    },
}
"""How a request has its key. LibreTranslate's parameter `api_key` is among the fields of its requests."""
OPERATIONS = ("/health", "/ready", "/metrics")


def complete(schema: dict[str, Any], targets: list[str], adapters: list[str]) -> dict[str, Any]:
    """Add answers, errors and examples to FastAPI's description of the routes.

    `targets` are the languages of the models, and `adapters` the names of all adapters.
    """
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    answers, parts = answer_schemas()
    components.update(parts)
    if adapters:
        body = components["TranslateRequest"]
        example = {"text": "A man rides a bike.", "adapter": adapters[0]}
        body["examples"] = [*body["examples"], example]
    for path, methods in schema["paths"].items():
        components[error_name(path)] = error_schema(path)
        for method, operation in methods.items():
            if method == "get" and "requestBody" in operation:
                operation["parameters"] = query_parameters(operation.pop("requestBody"))
            operation["operationId"] = "_".join([method, *re.findall(r"\w+", path)])
            responses = operation["responses"]
            responses.pop("422", None)
            if path in answers:
                responses["200"]["content"]["application/json"]["schema"] = answers[path]
            for status in statuses_of(path, method):
                responses[status] = error_answer(path, status)
            add_example(path, operation, targets)
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    return schema


def add_security(schema: dict[str, Any], is_open: Callable[[str], bool]) -> None:
    """Add that requests need a key, except those for paths that are open."""
    schema["components"]["securitySchemes"] = SECURITY_SCHEMES
    schema["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for path, methods in schema["paths"].items():
        if is_open(path):
            for operation in methods.values():
                operation["security"] = []


def query_parameters(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a body as parameters of the query string: the body of a GET request has no meaning
    (RFC 9110, section 9.3.1), and OpenAPI describes none.
    """
    schema = body["content"]["application/json"]["schema"]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]


def statuses_of(path: str, method: str) -> tuple[str, ...]:
    """The statuses other than 200 of an operation."""
    if path in OPERATIONS:
        statuses = ("403", "408", "413", "421", "500")
        return (*statuses, "503") if path == "/metrics" else statuses
    if method != "post":
        return (*READING, "400")
    return tuple(status for status in STATUSES if status != "415" or path.startswith("/v1/"))


def error_name(path: str) -> str:
    """The name of the schema of an operation's errors."""
    if path.startswith("/v2/"):
        return "DeepLError"
    return "Error" if "code" in str(error_body(path, "code", "")) else "LibreTranslateError"


def error_schema(path: str) -> dict[str, Any]:
    """The schema of the errors of an operation, which has the form of `error_body`."""

    def table(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": list(properties)}

    text = {"type": "string"}
    body = error_body(path, "", "")
    if "message" in body:
        return table(message=text)
    return table(error=table(code=text, message=text) if isinstance(body["error"], dict) else text)


def error_answer(path: str, status: str) -> dict[str, Any]:
    """An answer with an error."""
    answer: dict[str, Any] = {
        "description": STATUSES[status],
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{error_name(path)}"}}},
    }
    if status in {"429", "503"}:
        seconds = {"description": "In seconds.", "schema": {"type": "integer", "minimum": 1}}
        answer["headers"] = {"Retry-After": seconds}
    return answer


def add_example(path: str, operation: dict[str, Any], targets: list[str]) -> None:
    """Add the example of a body whose schema has none."""
    if path not in EXAMPLES:
        return
    example = dict(EXAMPLES[path])
    for name in ("target", "target_lang"):
        if name in example and targets:
            example[name] = targets[0].upper() if name == "target_lang" else targets[0]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = example

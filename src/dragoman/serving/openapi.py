"""The OpenAPI description of all routes, from the types of their requests and responses."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from dragoman import __version__
from dragoman.serving.apis.route import JSON, ApiRoute
from dragoman.serving.apis.uploads import BINARY, FILE
from dragoman.serving.errors import DEEPL, error_body
from dragoman.serving.middleware import WITH_BODY

INFO = {
    "title": "Dragoman",
    "summary": "Translation by models that were trained with Dragoman.",
    "description": "A path that is not described gets 404, and a method that a path does not have gets 405.",
    "version": __version__,
}
Schema = dict[str, Any]
STATUSES = {
    "400": "The request does not fit this description, asks for more than this server allows, or contradicts "
    "itself.",
    "403": "The request has no valid API key, which the server needs; or a page of another site has sent it; "
    "or the server has switched this off.",
    "404": "There is no model, adapter, document or glossary of this name.",
    "408": "The body did not arrive in time.",
    "409": "The document is still being translated, or has no translation.",
    "413": "The body, the text or the number of tokens is too large.",
    "415": "The body is compressed, or it is not sent as application/json, or a document as "
    "application/octet-stream.",
    "421": "The host that the request names is not the server's.",
    "429": "The queue is full, or the client has used up its requests. Try again after Retry-After.",
    "500": "A defect of the server. Its log has the reason.",
    "503": "The server is shutting down, or lacks memory. Try another one.",
    "504": "The deadline has passed.",
}
OF_A_DOCUMENT = ("404", "409", "504")
READING = ("403", "413", "408", "421", "429", "500", "503")
"""What a request that translates nothing can get: also it can have a body, which is read."""
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
COMPONENTS = "#/components/schemas/"
OPERATIONS = ("/health", "/ready", "/metrics")


def describe(routes: Sequence[ApiRoute], targets: Sequence[str], adapters: Sequence[str]) -> Schema:
    """The description of the routes.

    `targets` are the languages of the models, and `adapters` the names of all adapters.
    """
    components: Schema = {}
    paths: Schema = {}
    for route in routes:
        if route.in_description:
            components[error_name(route.path)] = error_schema(route.path)
            paths.setdefault(route.path, {}).update(
                {method.lower(): operation(route, method, components, targets) for method in route.methods}
            )
    if adapters:
        body = components["TranslateRequest"]
        example = {"text": "A man rides a bike.", "adapter": adapters[0]}
        body["examples"] = [*body["examples"], example]
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }


def operation(route: ApiRoute, method: str, components: Schema, targets: Sequence[str]) -> Schema:
    """A method of a path. The classes of its request and response are added to the components."""
    described: Schema = {
        "tags": [route.api.tag],
        "summary": route.handler.__name__.replace("_", " ").title(),
        "description": inspect.getdoc(route.handler),
        "operationId": "_".join([method.lower(), *re.findall(r"\w+", route.path)]),
    }
    if parameters := path_parameters(route.path):
        described["parameters"] = parameters
    if route.request_type is not None:
        are_parameters = method in ("GET", "DELETE") or route.api.media_types == (BINARY,)
        classes: Schema = {} if are_parameters else components
        reference = schema_of(TypeAdapter(route.request_type), classes)
        body = classes[route.request_type.__name__]
        if method in ("GET", "DELETE"):
            described["parameters"] = [*parameters, *query_parameters(body)]
        elif are_parameters:
            described["parameters"] = [*parameters, *query_parameters(body)]
            document = {"schema": {"type": "string", "format": "binary"}}
            described["requestBody"] = {"content": {BINARY: document}, "required": True}
        else:
            content = {"schema": reference}
            if "examples" in body:
                content["example"] = example_of(body, targets)
            described["requestBody"] = {"content": dict.fromkeys(route.api.media_types, content)}
            if route.api.media_types == (JSON,):  # others may have all parameters in the query string
                described["requestBody"]["required"] = True
    responses: Schema = {
        status: error_answer(route.path, status) for status in statuses_of(route.path, method)
    }
    if route.response_type is not None:
        content = {JSON: {"schema": schema_of(route.response_type, components)}}
        responses[str(route.status)] = {"description": "The response.", "content": content}
    responses |= {str(status): answer for status, answer in route.described_as.items()}
    return described | {"responses": dict(sorted(responses.items()))}


def schema_of(adapter: TypeAdapter[Any], components: Schema) -> Schema:
    """The schema of a type. Those of the classes that it refers to are added to the components."""
    schemas, shared = TypeAdapter.json_schemas(
        [("type", "validation", adapter)], ref_template=COMPONENTS + "{model}"
    )
    referred = set(re.findall(rf"{COMPONENTS}(\w+)", str([schemas, shared])))  # not those of files
    components |= {name: schema for name, schema in shared.get("$defs", {}).items() if name in referred}
    return schemas["type", "validation"]


def example_of(body: Schema, targets: Sequence[str]) -> Schema:
    """The first example of a body. Its target language, if it has one, is a language of the models."""
    example = dict(body["examples"][0])
    if targets and "target" in example:
        example["target"] = targets[0]
    if targets and "target_lang" in example:
        example["target_lang"] = targets[0].upper()
    return example


def add_security(schema: Schema, is_open: Callable[[str], bool]) -> None:
    """Add that requests need a key, except those for paths that are open."""
    schema["components"]["securitySchemes"] = SECURITY_SCHEMES
    schema["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for path, methods in schema["paths"].items():
        if is_open(path):
            for operation in methods.values():
                operation["security"] = []


def query_parameters(body: Schema) -> list[Schema]:
    """The fields of a body as parameters of the query string: the body of a GET or DELETE request has no
    meaning (RFC 9110, section 9.3), and OpenAPI describes none.
    """
    required = body.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in body["properties"].items()
        if name != FILE
    ]


def path_parameters(path: str) -> list[Schema]:
    """The parts of a path that are in braces, as parameters."""
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def statuses_of(path: str, method: str) -> tuple[str, ...]:
    """The statuses other than 200 of an operation."""
    if path in OPERATIONS:
        statuses = ("403", "408", "413", "421", "500")
        return (*statuses, "503") if path == "/metrics" else statuses
    if "/glossaries" in path:
        with_body = ("415",) if method in WITH_BODY else ()
        return (*READING, *with_body, "400", "504", *(("404",) if "{" in path else ()))
    if method == "PUT":
        return tuple(STATUSES)
    if method != "POST":
        return (*READING, "400", *(OF_A_DOCUMENT if "{" in path else ()))
    return tuple(status for status in STATUSES if status != "409")


def error_name(path: str) -> str:
    """The name of the schema of an operation's errors."""
    if DEEPL.match(path):
        return "DeepLError"
    return "Error" if "code" in str(error_body(path, "code", "")) else "LibreTranslateError"


def error_schema(path: str) -> Schema:
    """The schema of the errors of an operation, which has the form of `error_body`."""

    def table(**properties: Any) -> Schema:
        return {"type": "object", "properties": properties, "required": list(properties)}

    text = {"type": "string"}
    body = error_body(path, "", "")
    if "message" in body:
        return table(message=text)
    return table(error=table(code=text, message=text) if isinstance(body["error"], dict) else text)


def error_answer(path: str, status: str) -> Schema:
    """An answer with an error."""
    answer: Schema = {
        "description": STATUSES[status],
        "content": {"application/json": {"schema": {"$ref": f"{COMPONENTS}{error_name(path)}"}}},
    }
    if status in {"429", "503"}:
        seconds = {"description": "In seconds.", "schema": {"type": "integer", "minimum": 1}}
        answer["headers"] = {"Retry-After": seconds}
    return answer

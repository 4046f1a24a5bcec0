"""The pages of the HTTP APIs, from the server's own description: a page an API."""

import json
import re
from collections.abc import Iterator
from inspect import getdoc
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from dragoman.serving.apis.route import ApiRoute
from dragoman.serving.apis.uploads import BINARY, MULTIPART
from dragoman.serving.app import api_routes, make_app
from dragoman.serving.docs import describe
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models
from dragoman.serving.openapi import STATUSES
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from tools.docs.markdown import escaped, page, table, toctree

Schema = dict[str, Any]

APIS = {
    "Dragoman": ("v1", "/v1: the API of this project"),
    "LibreTranslate": ("libretranslate", "LibreTranslate's API"),
    "DeepL": ("deepl", "DeepL's API"),
    "Operations": ("operations", "Health, readiness and metrics"),
}
"""The tags of the description: the name of a page, and its title."""
INTRODUCTION = """\
`dragoman serve RUN` answers at these paths. The pages are generated from the OpenAPI description, which
a running server has at `/openapi.json`, and as a page at `/docs`. [](../../serving.md) describes keys, limits
and operations.
"""
PARAMETERS = {
    "Dragoman": "The body of a request is JSON, or a document. Unknown fields are refused, and types of JSON "
    "are not converted.",
    "LibreTranslate": "Parameters are fields of a JSON body or of a form, or are in the query string.",
    "DeepL": "Parameters are fields of a JSON body or of a form, or are in the query string.",
    "Operations": "These take no parameters.",
}
SERVED = "Files of the pages above."


def application() -> tuple[Schema, list[Route | Mount]]:
    """The description of a server without models, and its routes, each path once."""
    service = Service(Models(()), ServerSettings(), Metrics())
    app = make_app(service, None).app
    assert isinstance(app, Starlette)
    first: dict[str, Route | Mount] = {}  # a request goes to the first route of its path
    for route in app.routes:
        assert isinstance(route, Route | Mount)
        first.setdefault(route.path, route)
    return describe(api_routes(service), service.models, needs_key=False), list(first.values())


def pages() -> dict[str, str]:
    """The pages by their names."""
    description, routes = application()
    others = [route for route in routes if route.path not in description["paths"]]
    index = page(
        "HTTP APIs",
        INTRODUCTION,
        *(listing(description, tag) for tag in APIS),
        "## Outside of the description",
        "Browsers and clients of other servers ask for these.",
        table(("path", "answer"), map(undescribed, others)),
        toctree(name for name, _ in APIS.values()),
    )
    return {"index": index} | {name: api_page(description, tag) for tag, (name, _) in APIS.items()}


def operations(description: Schema, tag: str) -> Iterator[tuple[str, str, Schema]]:
    """The paths of an API, each with its methods, and with the operation of POST if it has that.

    The operation has the descriptions and the responses of all methods.
    """
    for path, methods in description["paths"].items():
        operation = methods.get("post") or next(iter(methods.values()))
        if tag in operation["tags"]:
            texts = dict.fromkeys(each["description"] for each in methods.values())
            responses = {
                status: answer for each in methods.values() for status, answer in each["responses"].items()
            }
            names = " or ".join(method.upper() for method in methods)
            yield path, names, operation | {"description": "\n\n".join(texts), "responses": responses}


def listing(description: Schema, tag: str) -> str:
    """The operations of an API, with links to them."""
    name, title = APIS[tag]
    rows = (
        [f"[`{methods} {path}`]({name}.md#{label(path)})", prose(operation["description"].split("\n\n")[0])]
        for path, methods, operation in operations(description, tag)
    )
    return f"## {title}\n\n{table(('operation', 'what it does'), rows)}"


def prose(text: str) -> str:
    """A docstring as Markdown: what stands between backticks is code."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else escaped(part) for number, part in enumerate(parts))


def label(path: str) -> str:
    """The place of a path on its page."""
    return "http" + re.sub(r"[/_]", "-", re.sub("[{}]", "", path))


def undescribed(route: Route | Mount) -> list[str]:
    """A row about a route."""
    if isinstance(route, Mount):
        return [f"`{route.path}/`", SERVED]
    if route.path == "/openapi.json":
        return [f"`{route.path}`", "The description of the APIs."]
    endpoint = route.endpoint.handler if isinstance(route.endpoint, ApiRoute) else route.endpoint
    return [f"`{route.path}`", prose(getdoc(endpoint) or "")]


def api_page(description: Schema, tag: str) -> str:
    """The page of an API: its operations, the objects of their bodies, and its errors."""
    found = list(operations(description, tag))
    shared = description["components"]["schemas"]
    names = sorted(reachable([operation for _, _, operation in found], shared))
    errors = {name for name in names if name.endswith("Error")}
    return page(
        APIS[tag][1],
        PARAMETERS[tag],
        *(part for each in found for part in described(*each)),
        "## Objects" if set(names) - errors else "",
        *(part for name in names if name not in errors for part in described_object(name, shared[name])),
        "## Errors",
        *(f"The body of an error is `{form(shared[name])}`." for name in sorted(errors)),
        table(("status", "meaning"), ([status, escaped(text)] for status, text in used(found))),
    )


def reachable(part: Any, shared: dict[str, Schema]) -> set[str]:
    """The names of the shared schemas that a part of the description refers to, also through others."""
    if isinstance(part, list):
        return set().union(*(reachable(each, shared) for each in part))
    if not isinstance(part, dict):
        return set()
    if "$ref" in part:
        name = referred(part)
        return {name} | reachable(shared[name], shared)
    return reachable(list(part.values()), shared)


def referred(schema: Schema) -> str:
    """The name that a reference has."""
    return schema["$ref"].rsplit("/", 1)[1]


def used(found: list[tuple[str, str, Schema]]) -> Iterator[tuple[str, str]]:
    """The statuses that these operations have, with their meaning."""
    seen = {
        status: STATUSES.get(status, answer["description"])
        for _, _, operation in found
        for status, answer in operation["responses"].items()
        if is_error(status)
    }
    yield from sorted(seen.items())


def is_error(status: str) -> bool:
    """Whether a status is one of errors."""
    return status >= "400"


def form(schema: Schema) -> str:
    """An object of texts and objects, with "…" for each text."""

    def shown(part: Schema) -> Any:
        return (
            {name: shown(each) for name, each in part["properties"].items()} if "properties" in part else "…"
        )

    return json.dumps(shown(schema), ensure_ascii=False)


def described(path: str, methods: str, operation: Schema) -> Iterator[str]:
    """A path: what it does, what it takes and answers, and an example."""
    yield f"({label(path)})=\n## {methods} {path}"
    for paragraph in operation["description"].split("\n\n"):
        yield prose(paragraph).replace("docs/inspection-data.md", "[](../../inspection-data.md)")
    contents = operation.get("requestBody", {}).get("content", {})
    yield "\n".join(facts(contents, operation["responses"]))
    if parameters := [each for each in operation.get("parameters", ()) if each["in"] == "query"]:
        schemas = {each["name"]: each["schema"] for each in parameters}
        required = [each["name"] for each in parameters if each["required"]]
        yield "Parameters of the query string:"
        yield from fields({"properties": schemas, "required": required})
    yield f"```console\n{example(path, methods, contents)}\n```"


def facts(contents: Schema, responses: Schema) -> Iterator[str]:
    """A list: the body, the answer, the statuses of errors."""
    for content in list(contents.values())[:1]:
        yield f"- Body: {kind(content['schema'])}, as {' or '.join(f'`{name}`' for name in contents)}"
    for status, answer in responses.items():
        if not is_error(status):
            for media, content in answer.get("content", {}).items():
                yield f"- Answer {status}: {kind(content['schema'])}, as `{media}`"
            if "content" not in answer:
                yield f"- Answer {status}: {answer['description']}"
    yield f"- [Errors](#errors): {', '.join(sorted(filter(is_error, responses)))}"


def example(path: str, methods: str, contents: Schema) -> str:
    """A call with curl, with the first example of the body."""
    call = f"$ curl localhost:8000{path}"
    for content in contents.values():
        if "example" in content:
            return f"{call} --json '{json.dumps(content['example'], ensure_ascii=False)}'"
    if BINARY in contents:
        return f"{call}?name=guide.txt -H 'Content-Type: {BINARY}' --data-binary @guide.txt"
    if MULTIPART in contents and len(contents) == 1:
        return f"{call} -F file=@guide.txt -F source=en -F target=de -F target_lang=DE"
    return call + " -X POST" * (methods == "POST")


def described_object(name: str, schema: Schema) -> Iterator[str]:
    """An object of a body: its meaning and its fields."""
    yield f"### {name}"
    yield prose(schema.get("description", ""))
    yield from fields(schema)


def fields(schema: Schema) -> Iterator[str]:
    """A table of the fields of an object, if the schema itself is one."""
    if properties := schema.get("properties"):
        required = schema.get("required", ())
        yield table(
            ("field", "type", "default", "meaning"),
            (
                [
                    f"`{name}`",
                    kind(each),
                    "required" if name in required else default(each),
                    prose(each.get("description", "")),
                ]
                for name, each in properties.items()
            ),
        )


def default(schema: Schema) -> str:
    """The default as JSON; nothing if a field that is left out has no value."""
    value = schema.get("default")
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def kind(schema: Schema, many: bool = False) -> str:
    """The type of a value in words; `many` gives the plural."""
    if "$ref" in schema:
        return f"[{referred(schema)}](#{referred(schema).lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(each, many) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema or "const" in schema:
        values = (value for value in schema.get("enum", [schema.get("const")]) if value is not None)
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    word = {"array": "list"}.get(schema.get("type", ""), schema.get("type", "value")) + "s" * many
    if schema.get("type") == "array":
        items = schema.get("items") or schema["prefixItems"][0]
        return f"{word}{bounds(schema, 'Items')} of {kind(items, many=True)}"
    return word + bounds(schema, "Length")


def bounds(schema: Schema, what: str) -> str:
    """The bounds of a length."""
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if most is None:
        return ""
    unit = " characters" * (what == "Length")
    return f" ({most:,}{unit})" if least == most else f" (at most {most:,}{unit})"

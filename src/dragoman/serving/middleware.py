"""Around every request: a request id, limits, access, headers, metrics and one line of the log."""

import asyncio
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.apis.parameters import MAX_FIELDS, is_json, json_of
from dragoman.serving.apis.route import ApiRoute
from dragoman.serving.apis.uploads import BINARY, MULTIPART
from dragoman.serving.errors import ApiError, answer_defect, error_response, note_refusal, refusal
from dragoman.serving.keys import Keys, RateLimit
from dragoman.serving.lab import style_hashes
from dragoman.serving.log import LEVELS, level_of, request_id, write
from dragoman.serving.origins import check_request
from dragoman.serving.processes import pass_on
from dragoman.serving.service import Service, owner_of
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.wording import counted

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
OPEN_PATHS = (
    "/health",
    "/ready",
    "/",
    "/inspect",
    "/page/",
    "/lab",
    "/lab/",
    "/favicon.ico",
    "/languages",
    "/frontend/settings",
    "/docs",
    "/docs/static/",
    "/openapi.json",
)
"""Paths and folders that need no key: they hold nothing of the models but their languages.

LibreTranslate's clients (Mastodon, Weblate) ask for the languages without their key, and a browser for /docs.
"""
OPEN_FOLDERS = tuple(path for path in OPEN_PATHS if path.endswith("/") and path != "/")
KEY_NAMES = ("api_key", "auth_key")
"""The parameters of LibreTranslate and DeepL that hold a key."""
MULTIPART_KEY = re.compile(rb'name="?(?:api|auth)_key"?\r\n(?:[^\r\n]{1,200}+\r\n){0,4}+\r\n([^\r\n]*)\r\n')
"""The headers of a part are bounded, and not tried again: the time is linear in the size of a body."""
KEY_BYTES = 2**19  # at either end of a form, in which a key is looked for: beyond them is a document
FORM_BYTES = 2**16  # of a form with a document that are not the document
MAX_DIGITS = 18  # of a Content-Length
WITH_BODY = ("POST", "PUT", "PATCH")
BODY_SECONDS = 10.0  # within which a body has to arrive
SEND_SECONDS = 30.0  # within which a client has to read a part of an answer
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
]


def all_headers() -> list[tuple[str, str]]:
    """The headers of every answer, also of those that no application gives: uvicorn adds them."""
    styles = "".join(f" '{style_hash}'" for style_hash in style_hashes())
    return [("content-security-policy", POLICY.format(styles=styles)), *HEADERS]


@dataclass
class Gateway:
    """The outermost ASGI application: it lets requests in, and records how they end."""

    app: ASGIApp
    service: Service
    keys: Keys | None
    rate_limit: RateLimit
    paths: frozenset[str]
    """Of the routes, for the log and the metrics of requests that reach none."""
    uploads: frozenset[str]
    """Of these, those that take documents."""
    direct: Mapping[str, ApiRoute] = field(default_factory=dict)
    """Routes by path that are called themselves, without the layers of `app`, which take time."""
    with_cors: Callable[[ASGIApp], ASGIApp] = lambda answer: answer
    """Gives the errors of the gateway itself the headers that let pages of other origins read them."""

    def __post_init__(self) -> None:
        """Take the prefix of URLs. Raises `OptionError` for one with which the server's own paths begin.

        The paths of requests have it, or a proxy has taken it away: this must be told without doubt. It is
        not ASGI's `root_path`, because all rules here are about paths without it.
        """
        self.prefix = self.service.settings.url_prefix
        folder = f"{self.prefix}/"
        inside = next((path for path in (*self.paths, *OPEN_FOLDERS) if path.startswith(folder)), None)
        if self.prefix and inside is not None:
            raise OptionError(
                "{url_prefix} is {prefix}, with which paths of the server itself begin, such as {path}; "
                "choose another one.",
                prefix=self.prefix,
                path=inside,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, send)
        request_id.set(exchange.id)
        if scope["path"] == self.prefix and scope["method"] in ("GET", "HEAD"):
            await RedirectResponse(f"{self.prefix}/")(scope, receive, exchange.send)
            self.record(scope, exchange)
            return
        if self.prefix and scope["path"].startswith(f"{self.prefix}/"):
            scope["path"] = scope["path"].removeprefix(self.prefix)
            scope["raw_path"] = scope["raw_path"].removeprefix(self.prefix.encode())
        if scope["method"] == "HEAD":  # it is answered as GET; uvicorn sends no body
            scope = {**scope, "method": "GET"}
        is_passed_on = self.service.process.is_passed_on(scope)
        try:
            check_request(scope["method"], scope["path"], scope["headers"], self.service.settings)
            self.refuse_wrong_header(scope)
            refuse_compressed(scope["method"], exchange.headers)
            with self.room(scope, exchange.headers) as max_bytes:
                body = await read_body(scope, exchange.headers, receive, max_bytes)
                self.admit(scope, body, is_passed_on)
                application = await self.application(scope, body)
                await application(scope, Replay(body, receive), exchange.send)
        except (ApiError, DragomanError) as error:
            await self.refuse(scope, receive, exchange, refusal(error))
        except asyncio.CancelledError:  # the server's time to end its requests is over
            if exchange.status or not self.service.is_stopping:
                raise
            await self.refuse(scope, receive, exchange, shutting_down())
        except Exception as error:
            if not exchange.status:
                response = await answer_defect(Request(scope), error)
                await self.with_cors(response)(scope, receive, exchange.send)
            exchange.error = "".join(traceback.format_exception(error))
        finally:
            self.record(scope, exchange)

    @contextmanager
    def room(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Iterator[int]:
        """Yield the most bytes that a request's body may have. Those of documents together are bounded, too.

        Raises `ApiError`: 413 for a body that is too long, 429 if there are too many documents.
        """
        settings = self.service.settings
        if scope["method"] != "POST" or scope["path"] not in self.uploads:
            yield settings.max_body
            return
        max_bytes = settings.max_document + FORM_BYTES
        size = declared_length(headers, max_bytes)
        with self.service.documents.received.hold(max_bytes if size is None else size, client_of(scope)):
            yield max_bytes

    async def application(self, scope: Scope, body: bytes) -> ASGIApp:
        """What answers a request: another process, a route, or `app` if no route has its path and method."""
        other = self.service.process.other_with(scope["path"])
        if other is not None and (answer := await pass_on(other, scope, body)):
            scope["dragoman.is_recorded"] = True
            return answer
        route = self.direct.get(scope["path"])
        if route is None or scope["method"] not in route.methods:
            return self.app
        return route

    async def refuse(self, scope: Scope, receive: Receive, exchange: "Exchange", answer: ApiError) -> None:
        """Answer with an error, unless an answer has begun, and keep its code."""
        if not exchange.status:
            response: ASGIApp = error_response(scope["path"], answer)
            if scope["method"] != "OPTIONS":  # CORS would answer a preflight request in its place
                response = self.with_cors(response)
            await response(scope, receive, exchange.send)
        note_refusal(scope, answer)

    def refuse_wrong_header(self, scope: Scope) -> None:
        """Raise `ApiError` 403 for a wrong key in the header Authorization: its body need not be read."""
        if self.keys is None or is_open(scope["path"]) or scope["method"] == "OPTIONS":
            return
        if (key := key_of_header(scope)) is not None and self.keys.owner(key) is None:
            raise wrong_key()

    def admit(self, scope: Scope, body: bytes, is_passed_on: bool) -> None:
        """Raise `ApiError`: 503 while the server stops, 403 without a valid key, 429 above the rate.

        A path that is open gets the limits of a key too, if the request has one. Requests that are passed on
        have been let in by the process that has passed them on: their key may have been in the body.
        """
        path = scope["path"]
        needs_key = not (is_open(path) or scope["method"] == "OPTIONS")
        if needs_key and self.service.is_stopping:
            raise shutting_down()
        client, per_minute = client_of(scope), self.rate_limit.per_minute
        if self.keys is not None:
            owner = self.keys.owner(key_of(scope, body))
            if owner is None and needs_key and not is_passed_on:
                raise wrong_key()
            if owner is not None:
                client = scope["dragoman.owner"] = owner
                scope["dragoman.limits"] = limits = self.keys.limits.get(owner)
                if limits is not None and limits.requests_per_minute is not None:
                    per_minute = limits.requests_per_minute
        scope["dragoman.client"] = client
        if not needs_key or path.startswith("/metrics") or is_passed_on:
            return
        if wait := self.rate_limit.seconds_until_allowed(client, per_minute=per_minute):
            raise ApiError(
                429,
                f"At most {counted(per_minute, 'request')} per minute; try again later.",
                "rate_limit",
                retry_after=math.ceil(wait),
            )

    def record(self, scope: Scope, exchange: "Exchange") -> None:
        """Count the request, and write its line of the log, unless another process that has answered it does.

        Paths that do not exist count as one route.
        """
        if scope.get("dragoman.is_recorded"):
            return
        path = scope["path"] if scope["path"] in self.paths else "other"
        route = str(getattr(scope.get("route"), "path", path))
        seconds = time.monotonic() - exchange.started
        model = scope.get("dragoman.model")
        self.service.metrics.finished(route, exchange.status, seconds, model.name if model else "")
        if code := scope.get("dragoman.code"):
            self.service.metrics.refused[code] += 1
        if level_of(route, exchange.status) < LEVELS[self.service.settings.log_level]:
            return
        record: dict[str, Any] = {
            "id": exchange.id,
            "method": exchange.method,
            "route": route,
            "status": exchange.status,
            "ms": round(1000 * seconds, 1),
        }
        if code:
            record["code"] = code
        if key_name := owner_of(scope):
            record["key"] = key_name
        if model:
            record["model"] = model.name
        if model and model.adapter:
            record["adapter"] = model.adapter
        record |= scope.get("dragoman.sizes", {})
        if exchange.error:
            record["error"] = exchange.error
        if texts := scope.get("dragoman.texts"):
            record["texts"] = texts
        write(**record)


class Exchange:
    """A request's id and times, and the answer's status; it adds headers to the answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.headers = dict(scope["headers"])
        """Of the request; their names are in lower case."""
        request_id = self.headers.get(b"x-request-id", b"").decode("latin-1")
        self.id = request_id if REQUEST_ID.fullmatch(request_id) else os.urandom(8).hex()
        self.method = scope["method"]
        self.started, self.status, self.error = time.monotonic(), 0, ""
        self.is_unread = False
        self._scope, self._send = scope, send

    async def send(self, message: Message) -> None:
        """Send a message of the answer, or close the connection if the client does not read in time."""
        if self.is_unread:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), (b"x-request-id", self.id.encode())]
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(message)
        except TimeoutError:
            note_refusal(self._scope, ApiError(499, "The client does not read.", "client_gone"))
            self._scope["dragoman.connection"].transport.abort()
            self.is_unread = True


class Replay:
    """Gives the application a body that has been read, then what comes after it."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> MutableMapping[str, Any]:
        """The next message."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


def refuse_compressed(method: str, headers: Mapping[bytes, bytes]) -> None:
    """Raise `ApiError` 415 for a compressed body. It is not unpacked: a small one may become very large."""
    coding = headers.get(b"content-encoding", b"").decode("latin-1").strip()
    if method in WITH_BODY and coding.lower() not in ("", "identity"):
        raise ApiError(
            415,
            f"The body is sent with Content-Encoding: {coding[:50]}, and this server takes no compressed "
            "bodies; send it as it is, without this header.",
        )


async def read_body(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int) -> bytes:
    """A request's body. Raises `ApiError`: 413 if it is too long, 408 if it is too slow."""
    declared_length(headers, max_bytes)
    if scope.get("dragoman.arrived"):
        return await receive_body(receive, max_bytes)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await receive_body(receive, max_bytes)
    except TimeoutError as error:
        raise ApiError(408, f"The body did not arrive within {BODY_SECONDS:g} seconds.") from error


def declared_length(headers: Mapping[bytes, bytes], max_bytes: int) -> int | None:
    """The bytes that a body declares; None if it does not. Raises `ApiError` 413 if they are too many."""
    if b"content-length" not in headers:
        return None
    declared = headers[b"content-length"].lstrip(b"0") or b"0"  # int() refuses thousands of digits
    if not declared.isdigit() or len(declared) > MAX_DIGITS or int(declared) > max_bytes:
        raise too_large(max_bytes)
    return int(declared)


async def receive_body(receive: Receive, max_bytes: int) -> bytes:
    """The parts of a body. Raises `ApiError`: 413 if it is too long, 499 if the client goes away."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(499, "The client has gone.", "client_gone")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > max_bytes:
            raise too_large(max_bytes)
        if not message.get("more_body"):
            return b"".join(parts)


def client_of(scope: Scope) -> str:
    """The client of a request, by its address; of IPv6 by its network, of 2^64 addresses."""
    host: str = (scope.get("client") or ("unknown",))[0]
    if ":" not in host:
        return host
    address = IPv6Address(host)
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def too_large(max_bytes: int) -> ApiError:
    """The error of a request with a longer body."""
    return ApiError(413, f"The body has more than {max_bytes:,} bytes, the most that this server allows.")


def shutting_down() -> ApiError:
    """The error while the server stops."""
    return ApiError(503, "The server is shutting down; try another one.", retry_after=1)


def wrong_key() -> ApiError:
    """The error of a request without a valid key."""
    return ApiError(403, "The request has no valid API key; send one as Authorization: Bearer KEY.")


def key_of_header(scope: Scope) -> str | None:
    """The API key in the header Authorization, if it has one."""
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else None


def key_of(scope: Scope, body: bytes) -> str:
    """The API key of a request: `Authorization: Bearer`, `DeepL-Auth-Key`, or one of `KEY_NAMES`."""
    if (key := key_of_header(scope)) is not None:
        return key
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    return key_of_form(scope["query_string"].decode("latin-1")) or key_of_body(kind, body)


def key_of_form(text: str) -> str:
    """The API key among the parameters of a form or a query string; "" if there is none, or too many."""
    try:
        fields = parse_qs(text, max_num_fields=MAX_FIELDS)
    except ValueError:
        return ""
    return next((fields[name][0] for name in KEY_NAMES if name in fields), "")


def key_of_body(kind: str, body: bytes) -> str:
    """The API key in a body of this media type, read as `parameters` reads it; "" if there is none."""
    if kind == BINARY:
        return ""
    if kind == MULTIPART:
        match = MULTIPART_KEY.search(body[:KEY_BYTES]) or MULTIPART_KEY.search(body[-KEY_BYTES:])
        return match[1].decode("utf-8", "replace") if match else ""
    if b"_key" not in body:
        return ""
    if not is_json(kind, body):
        return key_of_form(body.decode("utf-8", "replace"))
    try:
        fields = json_of(body)
    except ValueError:
        return ""
    keys = [fields.get(name) for name in KEY_NAMES] if isinstance(fields, dict) else []
    return next((key for key in keys if isinstance(key, str)), "")

"""Connections: how many there may be, and how long a request may take to arrive."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 2**16  # bytes of the head of a request after the first read of the socket
HEAD_SECONDS = 10.0  # within which the head of a request has to arrive
MESSAGE_SECONDS = 15.0  # then its body; `read_body` answers earlier
FLUSH_SECONDS = 30.0  # within which a client has to read the end of an answer, before it is cut off
MAX_CONNECTIONS = 900  # of a process: most systems allow it 1,024 open files, or more if it asks
UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*(?=\r\n[^ \t]|\Z)", re.IGNORECASE)


def without_upgrade(data: bytes) -> bytes:
    """Data that begin in the head of a request, without the header Upgrade if they have the head's end.

    curl and Java send it to ask for HTTP/2. A server may ignore it (RFC 9110, section 7.8), but httptools
    then does not read the body.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    return UPGRADE.sub(b"", head) + end + body if end else data


class JoinedWrites:
    """Of a transport what a connection uses. It sends the head of an answer and its body at once.

    uvicorn writes them one after the other, each with a system call of its own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._held = transport, loop, b""
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        """Send data with those that are held; hold them until the loop's next step if there are none."""
        is_first, self._held = not self._held, self._held + data
        if is_first:
            self._loop.call_soon(self.flush)
        else:
            self.flush()

    def flush(self) -> None:
        """Send what is held, unless the client has closed the connection."""
        data, self._held = self._held, b""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection when all is sent, or when the client does not read it in time."""
        self.flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(FLUSH_SECONDS, self._transport.abort)


class Connection(HttpToolsProtocol):
    """A connection that is closed if a request does not arrive in time, or if there are too many."""

    _until: float | None = None
    """The time at which what is expected has to be there."""
    _timer: asyncio.TimerHandle | None = None
    _head_bytes, _is_in_head = 0, True
    """What has arrived since a request began or ended, and whether a head begins or is still incomplete."""
    when_lost: Callable[[], object] | None = None
    """Called if the client closes the connection."""

    def __init__(self, *arguments: Any, refused: Counter[str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.refused = Counter[str]() if refused is None else refused
        """Requests that were answered here, without the application, by status; connections may share it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        if len(self.connections) > MAX_CONNECTIONS:
            self.refuse("503 Service Unavailable", "The server has too many connections; try again later.")
        else:
            self.expect(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._until is None and (self.cycle is None or self.cycle.response_complete):
            self.expect(HEAD_SECONDS)  # an empty line before a request is not the beginning of a message
        if self._is_in_head:
            data = without_upgrade(data)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD:
            self.end("431 Request Header Fields Too Large", "The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head_bytes, self._is_in_head = 0, True
        super().on_message_begin()
        self.scope["dragoman.connection"] = self  # type: ignore[typeddict-unknown-key]
        self.expect(HEAD_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers, after a body in chunks, are not counted and are not read
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self.expect(MESSAGE_SECONDS)
        if self.parser.should_upgrade() and self.has_body():  # httptools would read the body as a request
            self.end("400 Bad Request", "The header Upgrade came in two parts; leave it out.")
        else:
            super().on_headers_complete()

    def has_body(self) -> bool:
        """Whether the headers announce a body."""
        headers = dict(self.headers)
        return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""

    def on_message_complete(self) -> None:
        self._head_bytes, self._is_in_head = 0, True
        self.expect(None)
        self.scope["dragoman.arrived"] = True  # type: ignore[typeddict-unknown-key]
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.expect(None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self.refused["400"] += 1
        self.expect(None)
        super().send_400_response(msg)

    def expect(self, seconds: float | None) -> None:
        """Close the connection after `seconds`, unless this is called again before; None is never."""
        self._until = None if seconds is None else self.loop.time() + seconds
        if self._timer is None and seconds is not None:
            self._timer = self.loop.call_later(min(seconds, HEAD_SECONDS), self.check)

    def check(self) -> None:
        """End a connection that is too slow, or look again later.

        That costs less than a timer for each call of `expect`. No deadline is missed: the time between two
        looks is at most the shortest time that `expect` is given.
        """
        self._timer = None
        if self._until is None:
            return
        left = self._until - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(min(left, HEAD_SECONDS), self.check)
        else:
            self.end("408 Request Timeout", "The request did not arrive in time.")

    def end(self, status: str, message: str) -> None:
        """End a connection whose request does not arrive, or not as it should."""
        is_own = self.cycle is not None and self.cycle.scope is self.scope and not self._is_in_head
        if self.cycle is None or (self.cycle.response_complete and not is_own):
            self.refuse(status, message)
        else:  # it is answered already, or it may be in the middle of an answer to the request before
            self.transport.close()

    def refuse(self, status: str, message: str) -> None:
        """Answer without the application, and close the connection."""
        self.refused[status[:3]] += 1
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(message)).encode()),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        lines = [f"HTTP/1.1 {status}".encode(), *(name + b": " + value for name, value in headers)]
        self.transport.write(b"\r\n".join([*lines, b"", message.encode()]))
        self.transport.close()

"""Requests about a document reach the server process that has it: any other one passes them on.

Each of several processes listens on a socket of its own in a folder that no other user can enter, besides the
address that they share. The id of a document begins with the number of its process.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import h11
from starlette.responses import StreamingResponse
from starlette.types import Scope

from dragoman.serving.log import request_id
from dragoman.system.errors import DragomanError, reason

CLIENT = b"x-dragoman-client"
"""The header that names the client of a request that is passed on."""
DOCUMENT = re.compile(r"/(?:v1/documents|v2/document|download_file)/([0-9a-f]{2})[\w-]{32}(?=[/.]|\Z)")
REPLACED = frozenset(
    (
        *(b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"expect", b"upgrade"),
        *(b"x-request-id", CLIENT),
    )
)
"""Headers of a request that are not passed on."""
ANSWERED = re.compile(
    rb"content-(?:type|length|disposition)|retry-after|cache-control|vary|access-control-.*"
)
"""Headers of an answer that are passed on; all others are those of every answer."""
CHUNK = 2**18  # bytes that are read at once


@dataclass(frozen=True)
class Process:
    """One of the processes of a server; a server with one process has no folder."""

    number: int = 0
    """From 0, below 256."""
    folder: Path | None = None
    """Of the sockets."""

    def document_id(self, random: str) -> str:
        """The id of a document of this process."""
        return random if self.folder is None else f"{self.number:02x}{random}"

    def listen(self) -> list[socket.socket]:
        """The socket of this process; none if it is the only one.

        Raises `DragomanError` if the folder cannot have one.
        """
        if self.folder is None:
            return []
        path = socket_of(self.folder, self.number)
        path.unlink(missing_ok=True)  # of the process in whose place this one has come
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(path))
        except OSError as error:  # it says that the path is too long, for example
            listener.close()
            raise DragomanError(
                f"{path} cannot be a socket: {reason(error)}. Let TMPDIR be another folder, with a "
                "short name."
            ) from error
        listener.listen()
        return [listener]

    def other_with(self, path: str) -> Path | None:
        """The socket of the other process that has the document of a URL's path; None if there is none."""
        match = DOCUMENT.match(path) if self.folder is not None else None
        if self.folder is None or match is None or int(match[1], 16) == self.number:
            return None
        return socket_of(self.folder, int(match[1], 16))

    def is_passed_on(self, scope: Scope) -> bool:
        """Whether another process has passed a request on. Its client is then the one in the header."""
        if self.folder is None or scope["client"] is not None:  # it has come to the address
            return False
        scope["dragoman.is_passed_on"] = True
        scope["client"] = dict(scope["headers"]).get(CLIENT, b"unknown").decode("latin-1"), 0
        return True


ONLY = Process()
"""The process of a server that has one."""


def socket_of(folder: Path, number: int) -> Path:
    """The socket of a process."""
    return folder / f"{number:02x}.socket"


async def pass_on(path: Path, scope: Scope, body: bytes) -> StreamingResponse | None:
    """What the process with this socket answers to a request; None if it does not, because it has ended."""
    query = scope["query_string"]
    headers = [
        *((name, value) for name, value in scope["headers"] if name not in REPLACED),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        (CLIENT, (scope["client"] or ("unknown",))[0].encode("latin-1", "replace")),
        (b"x-request-id", request_id.get().encode()),
    ]
    connection = h11.Connection(h11.CLIENT)
    target = scope["raw_path"] + b"?" * bool(query) + query
    head = h11.Request(method=scope["method"], target=target, headers=headers)
    parts = [connection.send(event) for event in (head, h11.Data(data=body), h11.EndOfMessage())]
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return None
    events = read_events(connection, reader)
    try:
        writer.write(b"".join(part or b"" for part in parts))
        response = await anext(events)
        assert isinstance(response, h11.Response)
    except BaseException as error:
        writer.close()
        if isinstance(error, OSError | h11.RemoteProtocolError):
            return None
        raise

    async def content() -> AsyncIterator[bytes]:
        try:
            async for event in events:
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
        finally:
            writer.close()

    answer = StreamingResponse(content(), response.status_code)
    answer.raw_headers = [(name, value) for name, value in response.headers if ANSWERED.fullmatch(name)]
    return answer


async def read_events(connection: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[h11.Event]:
    """The parts of an answer: its head, then its content as it comes.

    Raises `h11.RemoteProtocolError` if it is cut off.
    """
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.EndOfMessage):
            return
        else:
            assert isinstance(event, h11.Event)
            yield event

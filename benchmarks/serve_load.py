"""Requests at constant intervals, whether or not the earlier ones have been answered (an open loop).

    python benchmarks/serve_load.py URL BODIES --rate 100 --seconds 10

BODIES has a body of JSON a line; they are sent in turn. A time is that from when a request was due, so a
client that is late is not taken for a fast server. Prints the times as one line of JSON. This module needs
the standard library alone: it starts fast and takes little of the processor that it shares with the server.
"""

import argparse
import asyncio
import json
import selectors
import socket
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

MAX_CONNECTIONS = 900  # at once; select takes 1,024 files
DRAIN_SECONDS = 10.0  # that the last requests may take; what has no answer by then has none


def http_request(url: str, body: bytes) -> bytes:
    """A POST request of JSON on a connection that stays open."""
    parts = urlsplit(url)
    return (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def http_answer(received: bytes) -> tuple[int, bytes] | None:
    """Status and body of an answer with a Content-Length; None while a part is missing."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return None
    lines = head.lower().split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    return (int(lines[0].split()[1]), body) if len(body) >= length else None


class Connection:
    """A connection that waits for each answer before it sends the next request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, body: bytes) -> bytes:
        """The body of the answer. Raises `RuntimeError` for any status but 200."""
        self._socket.sendall(http_request(self.url, body))
        received = b""
        while (answer := http_answer(received)) is None:
            if not (part := self._socket.recv(1 << 20)):
                raise RuntimeError(f"{self.url} closed the connection.")
            received += part
        status, body = answer
        if status != 200:
            raise RuntimeError(f"{self.url} answered {status}: {body[:200]!r}")
        return body

    def close(self) -> None:
        self._socket.close()


class Load:
    """Milliseconds of the requests that were answered, and the connections that are free."""

    def __init__(self, url: str) -> None:
        self.url, self.times, self.failed, self.connections = url, [], 0, 0
        self.free: list[Exchange] = []

    async def send(self, body: bytes, due: float) -> None:
        """Send a request on a free connection or a new one. It fails if there are too many connections."""
        if self.free:
            self.free.pop().start(body, due)
            return
        if self.connections >= MAX_CONNECTIONS:
            self.failed += 1
            return
        self.connections += 1
        parts = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        try:
            _, exchange = await loop.create_connection(lambda: Exchange(self), parts.hostname, parts.port)
        except OSError:
            self.failed += 1
            self.connections -= 1
            return
        exchange.start(body, due)


class Exchange(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, load: Load) -> None:
        self._load, self._received, self._due = load, b"", None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def start(self, body: bytes, due: float) -> None:
        self._received, self._due = b"", due
        self._transport.write(http_request(self._load.url, body))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if (answer := http_answer(self._received)) is None:
            return
        if answer[0] == 200:
            self._load.times.append(1000 * (time.perf_counter() - self._due))
        else:
            self._load.failed += 1
        self._due = None
        self._load.free.append(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._load.connections -= 1
        if self in self._load.free:
            self._load.free.remove(self)
        if self._due is not None:
            self._load.failed += 1


async def run(url: str, bodies: list[bytes], rate: float, seconds: float) -> dict[str, float]:
    """Send for so many seconds, wait for the last answers, and tell the times of all."""
    load, tasks = Load(url), set()
    count, started = max(1, round(rate * seconds)), time.perf_counter()
    for number in range(count):
        due = started + number / rate
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.ensure_future(load.send(bodies[number % len(bodies)], due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    deadline = time.perf_counter() + DRAIN_SECONDS
    while len(load.times) + load.failed < count and time.perf_counter() < deadline:
        await asyncio.sleep(0.05)
    times = sorted(load.times) or [float("nan")]
    return {
        "requests_per_second": rate,
        "requests": count,
        "p50_ms": statistics.median(times),
        "p95_ms": times[int(0.95 * len(times))],
        "errors": load.failed,
        "unanswered": count - len(load.times) - load.failed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("bodies", type=Path)
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    bodies = arguments.bodies.read_bytes().splitlines()
    # epoll rounds a wait up to a millisecond; select does not.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        print(json.dumps(runner.run(run(arguments.url, bodies, arguments.rate, arguments.seconds))))


if __name__ == "__main__":
    main()

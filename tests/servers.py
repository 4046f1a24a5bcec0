"""Servers of the tests: real processes on free ports."""

import atexit
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx

from tests.conftest import MAX_SECONDS

DRAGOMAN = ("-m", "dragoman")


class Forge:
    """The process of `tests/server_forge.py`, which ends when this one does."""

    def __init__(self) -> None:
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.server_forge", str(other.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[other.fileno()], cwd=Path(__file__).parents[1])
        other.close()
        atexit.register(self.end)

    def end(self) -> None:
        """Close the socket, and wait for the end of the process."""
        self.socket.close()
        self._process.wait()


forge = cache(Forge)


class ForkedServer:
    """A process of `tests/server_forge.py`, with what is used of `subprocess.Popen`."""

    def __init__(self, arguments: list[str], new_session: bool) -> None:
        request = {
            "arguments": arguments,
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "new_session": new_session,
        }
        reader, writer = os.pipe()
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(forge().socket, [json.dumps(request).encode()], [writer, control.fileno()])
        os.close(writer)
        control.close()
        self.stderr = os.fdopen(reader)
        self.pid = int(self._control.recv(100))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        try:
            return self.wait(0)
        except (TimeoutError, BlockingIOError):
            return None

    def wait(self, seconds: float) -> int:
        """The exit status. Raises `TimeoutError` if it still runs after so many seconds."""
        if self.returncode is None:
            self._control.settimeout(seconds)
            self.returncode = int(self._control.recv(100))
            self._control.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Server:
    """A running `dragoman serve`, its address and its log."""

    def __init__(
        self, *arguments: object, program: tuple[str, ...] = DRAGOMAN, has_terminal: bool = True
    ) -> None:
        settings = ["--port", "0", "--deadline", str(MAX_SECONDS)]  # on a busy machine all takes long
        arguments = [*settings, *map(str, arguments)]
        if program == DRAGOMAN:
            self.process = ForkedServer(arguments, new_session=not has_terminal)
        else:
            handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, which is inherited
            self.process = subprocess.Popen(
                [sys.executable, *program, "serve", *arguments],
                stderr=subprocess.PIPE,
                text=True,
                env=dict(os.environ),
                start_new_session=not has_terminal,
            )
            signal.signal(signal.SIGHUP, handler)
        self.log: list[str] = []
        self.address = self._read_address()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_address(self) -> str:
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"https?://[^\s,]+", line):
                return found[0]
        raise AssertionError("".join(self.log))

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line)

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until so many lines of the log have this text."""
        until = time.monotonic() + MAX_SECONDS
        while sum(text in line for line in self.log) < count:
            assert time.monotonic() < until
            time.sleep(0.02)

    def client(self, **options: object) -> httpx.Client:
        """A client of this server."""
        # Without TLS no certificates of authorities are read, which takes longer than most tests.
        return httpx.Client(base_url=self.address, timeout=MAX_SECONDS, verify=False, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(MAX_SECONDS)
        self._reader.join()
        self.process.stderr.close()
        return status


@contextmanager
def serving(
    *arguments: object, program: tuple[str, ...] = DRAGOMAN, has_terminal: bool = True
) -> Iterator[Server]:
    """A server while the block runs. `program` is what Python runs.

    It has the terminal of this process, if there is one and `has_terminal`.
    """
    server = Server(*arguments, program=program, has_terminal=has_terminal)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def add_key(path: Path, name: str, *options: str) -> str:
    """A new API key, as the command line makes it."""
    command = [sys.executable, "-m", "dragoman", "serve", "--api-keys", path, "--new-key", name, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

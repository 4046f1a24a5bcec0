"""Servers of the tests: real processes on free ports."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.conftest import MAX_SECONDS


class Server:
    """A running `dragoman serve`, its address and its log."""

    def __init__(
        self, *arguments: object, program: tuple[str, ...] = ("-m", "dragoman"), has_terminal: bool = True
    ) -> None:
        settings = ["--port", "0", "--deadline", str(MAX_SECONDS)]  # on a busy machine all takes long
        command = [sys.executable, *program, "serve", *settings, *map(str, arguments)]
        handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and a server inherits that
        self.process = subprocess.Popen(
            command,
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
    *arguments: object, program: tuple[str, ...] = ("-m", "dragoman"), has_terminal: bool = True
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

"""What the processes of a server and the one that has started them tell each other: lines of JSON in pipes.

A process says that it has loaded its models, and asks for a reload. The supervisor lets all processes read
their models again, and then lets all use them, or none if one of them refuses.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from itertools import count
from threading import Lock
from typing import Any

from dragoman.serving.reload import Reload, log_outcome

Process = asyncio.subprocess.Process


class Supervisor:
    """The process that has started this one, at the other ends of standard input and output."""

    def __init__(self) -> None:
        self._output = os.dup(1)
        os.dup2(2, 1)  # what a library prints is no message
        self._reload: Reload | None = None
        self._requests: dict[int, Future[str]] = {}
        self._numbers = count()
        self._lock = Lock()

    def serve(self, reload: Reload) -> None:
        """Say that this process has loaded its models, and from now on reload when the supervisor says so."""
        self._reload = reload
        self._tell(loaded=True)

    def request_reload(self) -> Future[str]:
        """Begin a reload of all processes. The result says why nothing was changed; "" if all was."""
        number, future = next(self._numbers), Future[str]()
        self._requests[number] = future
        self._tell(reload=number)
        return future

    def listen(self) -> None:
        """Do what the supervisor says until it ends, also if it is killed; then stop by a signal.

        Otherwise this process would serve for ever, and keep the address from the next server. For a thread
        of its own.
        """
        try:
            for message in messages():
                if "reloaded" in message:
                    self._requests.pop(message["reloaded"]).set_result(message["refusal"])
                else:
                    assert self._reload is not None
                    self._tell(answer=self._obey(self._reload, message["order"]))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    @staticmethod
    def _obey(reload: Reload, order: str) -> str:
        if order == "prepare":
            return reload.prepare()
        if order == "use":
            reload.use()
        else:
            reload.drop()
        return ""

    def _tell(self, **message: object) -> None:
        with self._lock:
            os.write(self._output, json.dumps(message).encode() + b"\n")


def messages() -> Iterator[Any]:
    """The messages in standard input, until its end.

    It is read without a buffer of Python's: a thread that waits for one would disturb the end of the program.
    """
    rest = b""
    while data := os.read(0, 2**16):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)


class Fleet:
    """The processes of a server, for their supervisor."""

    def __init__(self, started: Callable[[], None]) -> None:
        """`started` is called when a process has loaded its models and no other serves."""
        self.serving: set[Process] = set()
        self._started = started
        self._reloads = 0
        self._lock = asyncio.Lock()
        self._answers: dict[Process, asyncio.Future[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, process: Process) -> None:
        """Hear what a process says until it ends, or until this is cancelled because it has ended."""
        assert process.stdout is not None
        reloads = self._reloads
        try:
            async for line in process.stdout:
                message = json.loads(line)
                if "answer" in message:
                    self._answers.pop(process).set_result(message["answer"])
                elif "reload" in message:
                    self._start(self._reload_for(process, message["reload"]))
                else:
                    if not self.serving:
                        self._started()
                    self.serving.add(process)
                    if reloads != self._reloads:  # it may have read its models before that
                        self._start(self.reload([process]))
        finally:
            self.serving.discard(process)
            if (answer := self._answers.pop(process, None)) is not None and not answer.done():
                answer.set_result("")

    def start_reload(self) -> None:
        """Begin a `reload` of all processes, as on a signal."""
        self._start(self.reload())

    async def reload(self, processes: Collection[Process] | None = None) -> str:
        """Let all processes, or these, read their models again. Returns why nothing was changed, or "".

        A process that ends meanwhile refuses nothing: the one in its place reads the models too.
        """
        async with self._lock:
            self._reloads += processes is None
            asked = [*self.serving] if processes is None else processes
            refusals = await self._order(asked, "prepare")
            refusal = next(filter(None, refusals), "")
            await self._order(asked, "drop" if refusal else "use")
        log_outcome(refusal)
        return refusal

    async def _reload_for(self, process: Process, number: int) -> None:
        refusal = await self.reload()
        self._tell(process, reloaded=number, refusal=refusal)

    async def _order(self, processes: Collection[Process], order: str) -> list[str]:
        return await asyncio.gather(*(self._ask(process, order) for process in processes))

    async def _ask(self, process: Process, order: str) -> str:
        if process not in self.serving:
            return ""
        answer = self._answers[process] = asyncio.get_running_loop().create_future()
        self._tell(process, order=order)
        return await answer

    @staticmethod
    def _tell(process: Process, **message: object) -> None:
        assert process.stdin is not None
        if not process.stdin.is_closing():
            process.stdin.write(json.dumps(message).encode() + b"\n")

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

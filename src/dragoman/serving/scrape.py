"""One answer with the metrics of all processes of a server: who has the request asks the others."""

import asyncio
from pathlib import Path

from starlette.types import Scope

from dragoman.serving.metrics import merged
from dragoman.serving.processes import pass_on
from dragoman.serving.service import Service

SECONDS = 2.0  # that another process may take to say its metrics


async def metrics_text(service: Service, scope: Scope) -> bytes:
    """The metrics of all processes, each with its number as a label; of one process that is alone, its own.

    A process that does not answer, because it is being replaced, is left out.
    """
    text, process = service.metrics.text(), service.process
    if process.folder is None or scope.get("dragoman.is_passed_on"):
        return text
    sockets = {int(path.stem, 16): path for path in process.folder.glob("*.socket")}
    others = [number for number in sockets if number != process.number]
    texts = await asyncio.gather(*(text_of(sockets[number], scope) for number in others))
    answered = {number: text for number, text in zip(others, texts, strict=True) if text is not None}
    return merged({process.number: text.decode(), **answered})


async def text_of(path: Path, scope: Scope) -> str | None:
    """The metrics of the process with this socket; None if it does not answer in time."""
    try:
        async with asyncio.timeout(SECONDS):
            answer = await pass_on(path, scope, b"")
            if answer is None or answer.status_code != 200:
                return None
            parts = [part async for part in answer.body_iterator]
    except TimeoutError:
        return None
    return b"".join(part for part in parts if isinstance(part, bytes)).decode()

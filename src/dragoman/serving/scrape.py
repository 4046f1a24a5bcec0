"""One answer of all processes of a server, as for its metrics: who has the request asks the others."""

import asyncio
from pathlib import Path

from starlette.types import Scope

from dragoman.serving.metrics import merged
from dragoman.serving.processes import pass_on
from dragoman.serving.service import Service

SECONDS = 2.0  # that another process may take to answer


async def metrics_text(service: Service, scope: Scope) -> bytes:
    """The metrics of all processes, each with its number as a label; those of one that is alone."""
    text, process = service.metrics.text(), service.process
    if process.folder is None or scope.get("dragoman.is_passed_on"):
        return text
    others = await answers_of_others(service, scope)
    return merged({process.number: text.decode(), **others})


async def answers_of_others(service: Service, scope: Scope) -> dict[int, str]:
    """What the other processes answer to this request without its body, by their numbers.

    A process that does not answer, because it is being replaced, is left out. There are none for a request
    that another process has passed on.
    """
    process = service.process
    if process.folder is None or scope.get("dragoman.is_passed_on"):
        return {}
    sockets = {int(path.stem, 16): path for path in process.folder.glob("*.socket")}
    others = [number for number in sockets if number != process.number]
    texts = await asyncio.gather(*(text_of(sockets[number], scope) for number in others))
    return {number: text for number, text in zip(others, texts, strict=True) if text is not None}


async def text_of(path: Path, scope: Scope) -> str | None:
    """What the process with this socket answers; None if it does not in time, or not with 200."""
    try:
        async with asyncio.timeout(SECONDS):
            answer = await pass_on(path, scope, b"")
            if answer is None:
                return None
            parts = [part async for part in answer.body_iterator]  # to its end, which closes the connection
    except TimeoutError:
        return None
    if answer.status_code != 200:
        return None
    return b"".join(part for part in parts if isinstance(part, bytes)).decode()

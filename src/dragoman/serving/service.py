"""Translation for all routes: admission, deadlines and cancellation around `Translator.submit`."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from dragoman.native.decoder import Progress
from dragoman.search.settings import SearchSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.documents import Document
from dragoman.translation.streaming import stable_text
from dragoman.translation.translator import Translation

T = TypeVar("T")
NBest = list[list[Translation]]  # the translations of each sentence, best first
QUEUE_SHARE = 0.5  # of the deadline: a request that would wait longer is refused at once
POLL_SECONDS = 0.02  # between two looks at a search that is streamed
RATE_SECONDS = 10.0  # over which the speed is averaged


@dataclass
class Admission:
    """A queue that is bounded in tokens, and in the time that they take at the speed so far."""

    max_tokens: int
    deadline: float
    tokens: int = 0
    """Source tokens of all requests that are being translated."""
    _done: float = 0.0
    """Tokens done in the last seconds in which there was work, and those seconds."""
    _seconds: float = 0.0
    _since: float = 0.0

    @contextmanager
    def admit(self, tokens: int) -> Iterator[None]:
        """Count a request's tokens while it is translated.

        Raises `ApiError` 429 if there are too many, or too many for the deadline. A request that is alone is
        admitted.
        """
        if self.tokens and (wait := self.seconds_too_many(tokens)) > 0:
            raise ApiError(429, "The server is busy; try again later.", retry_after=math.ceil(wait))
        self._advance()
        self.tokens += tokens
        try:
            yield
            self._done += tokens
        finally:
            self._advance()
            self.tokens -= tokens

    def seconds_too_many(self, tokens: int) -> float:
        """Seconds until so many tokens can be admitted; 0 if they can be now."""
        excess = float(self.tokens + tokens - self.max_tokens)
        if self._done:
            in_time = self._done / self._seconds * self.deadline * QUEUE_SHARE
            excess = max(excess, self.tokens + tokens - max(in_time, MIN_QUEUE))
        return max(0.0, excess * self._seconds / self._done if self._done else float(excess > 0))

    def _advance(self) -> None:
        """Add the time since the last call, if there was work in it, and forget what is long ago."""
        now = time.monotonic()
        if self.tokens:
            self._seconds += now - self._since
            if self._seconds > RATE_SECONDS:
                share = RATE_SECONDS / self._seconds
                self._done, self._seconds = self._done * share, RATE_SECONDS
        self._since = now


MIN_QUEUE = 2_000  # tokens that are admitted at any speed


@dataclass
class Service:
    """The models, and how much may be translated at once."""

    models: Models
    settings: ServerSettings
    metrics: Metrics
    is_stopping: bool = False
    admission: Admission = field(init=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "dragoman-analysis"))

    def __post_init__(self) -> None:
        self.admission = Admission(self.settings.queue_tokens, self.settings.deadline)

    async def translate(
        self, model: ServedModel, documents: Sequence[Document], search: SearchSettings, request: Request
    ) -> list[NBest]:
        """The n best translations of each sentence of each document.

        Raises `ApiError`: 400 for a request that asks for too much or for what contradicts itself, 429 if the
        queue is full, 504 if the deadline passes.
        """
        self.refuse_too_much(search)
        with user_errors():
            prepared = [
                model.translator.prepare(
                    document.sentences,
                    replace(search, keep_tags=search.keep_tags or document.needs_tags),
                )
                for document in documents
            ]
            tokens = sum(each.tokens for each in prepared)
            self.refuse_too_long(tokens)
            with self.admission.admit(tokens), self.counted():
                futures = [model.translator.submit(each) for each in prepared]
                found = await self.in_time(futures, request)
        self.metrics.sentences.inc(sum(len(document.sentences) for document in documents))
        self.metrics.tokens.labels("source").inc(tokens)
        self.metrics.tokens.labels("target").inc(
            sum(len(best[0].tokens) for each in found for best in each if best)
        )
        return found

    async def stream(
        self, model: ServedModel, document: Document, search: SearchSettings, request: Request
    ) -> AsyncIterator[tuple[str, list[Translation]]]:
        """As `translate`, for one document, sentence by sentence.

        Yields the certain beginning of a sentence's translation, with an empty list, each time that it has
        grown; then the whole translation, with the n best.
        """
        self.refuse_too_much(search)
        search = replace(search, keep_tags=search.keep_tags or document.needs_tags)
        with user_errors():
            prepared = [model.translator.prepare([each], search) for each in document.sentences]
            tokens = sum(each.tokens for each in prepared)
            self.refuse_too_long(tokens)
            with self.admission.admit(tokens), self.counted():
                progress = [Progress() for _ in prepared]
                futures = list(map(model.translator.submit, prepared, progress))
                try:
                    for future, sentence, own in zip(futures, prepared, progress, strict=True):
                        if not sentence.needs_alignment and len(sentence.sources) == 1:
                            async for text in growing(future, partial(stable_text, model.translator, own, 0)):
                                yield text, []
                        ((n_best,),) = await self.in_time([future], request)
                        yield n_best[0].text, n_best
                finally:
                    for future in futures:
                        future.cancel()

    def refuse_too_long(self, tokens: int) -> None:
        """Raise `ApiError` 413 for a request of too many tokens."""
        if tokens > self.settings.max_tokens:
            raise ApiError(
                413,
                f"The request has {tokens:,} tokens, and {self.settings.max_tokens:,} are allowed; send less "
                "text at once.",
            )

    async def analyse(self, function: Callable[[], T], tokens: int, request: Request) -> T:
        """The result of a function that computes by PyTorch, in a thread of its own.

        Raises `ApiError` as `translate`.
        """
        with user_errors(), self.admission.admit(tokens), self.counted():
            (result,) = await self.in_time([self._thread.submit(function)], request)
            return result

    async def in_time(self, futures: Sequence[Future[T]], request: Request) -> list[T]:
        """The results, unless the deadline passes or the client goes away: then all are cancelled.

        Raises `ApiError` 504 for the deadline.
        """
        searches = [asyncio.wrap_future(future) for future in futures]
        gathered = asyncio.gather(*searches)
        gone = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait(
                (gathered, gone), timeout=self.settings.deadline, return_when=asyncio.FIRST_COMPLETED
            )
            if gathered.done():
                return list(gathered.result())
            if gone.done():
                self.metrics.refused.labels("client_gone").inc()
                raise ApiError(499, "The client has gone.", "client_gone")
            raise ApiError(
                504,
                f"The translation took more than {self.settings.deadline:g} seconds and was stopped; "
                "send less text at once.",
            )
        finally:
            gone.cancel()
            gathered.cancel()
            for search in searches:
                search.cancel()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Show the request in the metrics while it is translated."""
        self.metrics.running.inc()
        self.metrics.queue.set(self.admission.tokens)
        try:
            yield
        finally:
            self.metrics.running.dec()
            self.metrics.queue.set(self.admission.tokens)

    def refuse_too_much(self, search: SearchSettings) -> None:
        """Raise `ApiError` 400 for a search beyond the server's limits."""
        for name, most in (
            ("beam_size", self.settings.max_beam_size),
            ("n_best", self.settings.max_n_best),
        ):
            if (value := getattr(search, name)) > most:
                raise ApiError(400, f"{name} is {value}; this server allows {most} at most.")


async def disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def growing(future: Future[T], text: Callable[[], str]) -> AsyncIterator[str]:
    """A text each time that it has grown, until the future is done."""
    written = ""
    while not future.done():
        await asyncio.sleep(POLL_SECONDS)
        if len(now := text()) > len(written):
            yield now
            written = now


@contextmanager
def user_errors() -> Iterator[None]:
    """Raise a `DragomanError` as an `ApiError` 400 with its sentence."""
    try:
        yield
    except DragomanError as error:
        raise ApiError(400, str(error)) from error

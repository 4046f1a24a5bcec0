"""Translation for all routes: admission, deadlines and cancellation around `Translator.submit`."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import TypeVar

from starlette.requests import Request

from dragoman.native.decoder import Progress
from dragoman.search.settings import SearchSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.documents import Document, Segment, split_by_marks
from dragoman.translation.streaming import stable_text
from dragoman.translation.translator import PreparedSentences, Translation, Translator

T = TypeVar("T")
NBest = list[list[Translation]]  # the translations of each sentence, best first
QUEUE_SHARE = 0.5  # of the deadline: a request that would wait longer is refused at once
BUSY = "The server is busy; try again later."
POLL_SECONDS = 0.02  # between two looks at a search that is streamed
RATE_SECONDS = 10.0  # over which the speed is averaged
MIN_QUEUE = 2_000  # tokens that are admitted at any speed
CHARACTERS_PER_TOKEN = 16  # more than any text has; SentencePiece's own limit
FEW_CHARACTERS = 2_000  # which are cut and tokenized at once, within a millisecond or two
MOST_CHARACTERS = 2_000_000  # of all requests that are being cut or tokenized


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
            raise ApiError(429, BUSY, retry_after=math.ceil(wait))
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


class Preparation:
    """A thread that cuts and tokenizes long texts, and how many characters it has to do."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "dragoman-preparation")
        self._lock = Lock()
        self._characters = 0

    def submit(self, function: Callable[[], T], characters: int) -> Future[T]:
        """Run a function in the thread. Raises `ApiError` 429 if the thread has too much to do."""
        with self._lock:
            if self._characters and self._characters + characters > MOST_CHARACTERS:
                raise ApiError(429, BUSY, retry_after=1)
            self._characters += characters
        future = self._thread.submit(function)
        future.add_done_callback(lambda _: self._finish(characters))
        return future

    def _finish(self, characters: int) -> None:
        with self._lock:
            self._characters -= characters


@dataclass(frozen=True)
class Group:
    """Sentences of a request that are searched with the same settings."""

    places: list[int]
    """Their numbers among all sentences of the request."""
    prepared: PreparedSentences


def prepare_groups(
    translator: Translator, segments: Sequence[Segment], search: SearchSettings
) -> list[Group]:
    """The sentences ready for a search: those with tags or addresses apart, which are not split."""
    groups = []
    for places in split_by_marks(segments):
        if places:
            settings = with_tags(search, segments[places[0]])
            sentences = [segments[place].sentence for place in places]
            groups.append(Group(places, translator.prepare(sentences, settings)))
    return groups


def with_tags(search: SearchSettings, segment: Segment) -> SearchSettings:
    """The settings for a sentence: tags and addresses in it are kept."""
    return replace(search, keep_tags=True) if segment.marks and not search.keep_tags else search


@dataclass
class Service:
    """The models, and how much may be translated at once."""

    models: Models
    settings: ServerSettings
    metrics: Metrics
    is_stopping: bool = False
    admission: Admission = field(init=False)
    _running: int = 0
    """Requests that are being translated."""
    _analysis: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "dragoman-analysis"))
    _preparation: Preparation = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        self.admission = Admission(self.settings.queue_tokens, self.settings.deadline)
        self.metrics.queue.set_function(lambda: self.admission.tokens)
        self.metrics.running.set_function(lambda: self._running)

    async def cut(
        self, function: Callable[[str], Document], texts: Sequence[str], request: Request
    ) -> list[Document]:
        """The documents that a function makes of the texts of a request.

        Raises `ApiError`: 413 for more characters than can be translated, and those of `prepare`.
        """
        characters, most = sum(map(len, texts)), CHARACTERS_PER_TOKEN * self.settings.max_tokens
        if characters > most:
            raise ApiError(
                413,
                f"The request has {characters:,} characters, and {most:,} are allowed; send less text "
                "at once.",
            )
        self.note_texts(request, texts)
        return await self.prepare(lambda: list(map(function, texts)), characters, request)

    async def prepare(self, function: Callable[[], T], characters: int, request: Request) -> T:
        """The result of a function that cuts or tokenizes so many characters; of many in a thread.

        Raises `ApiError`: 400 for a `DragomanError`, 429 if too much is being prepared, and those of
        `in_time`.
        """
        with user_errors():
            if characters <= FEW_CHARACTERS:
                return function()
            (result,) = await self.in_time([self._preparation.submit(function, characters)], request)
            return result

    async def translate(
        self, model: ServedModel, documents: Sequence[Document], search: SearchSettings, request: Request
    ) -> list[NBest]:
        """The n best translations of each sentence of each document.

        Raises `ApiError`: 400 for a request that asks for too much or for what contradicts itself, 429 if the
        queue is full, 504 if the deadline passes.
        """
        self.refuse_too_much(search)
        segments = [segment for document in documents for segment in document.segments]
        characters = sum(len(segment.sentence) for segment in segments)
        groups = await self.prepare(
            lambda: prepare_groups(model.translator, segments, search), characters, request
        )
        tokens = sum(group.prepared.tokens for group in groups)
        with self.running(tokens):
            found = await self.search(model, [group.prepared for group in groups], request)
        n_best: NBest = [[]] * len(segments)
        for group, own in zip(groups, found, strict=True):
            for place, best in zip(group.places, own, strict=True):
                n_best[place] = best
        self.metrics.translated(len(segments), tokens, sum(len(best[0].tokens) for best in n_best if best))
        ends = list(accumulate((len(document.segments) for document in documents), initial=0))
        return [n_best[first:last] for first, last in pairwise(ends)]

    async def search(
        self, model: ServedModel, prepared: Sequence[PreparedSentences], request: Request
    ) -> list[NBest]:
        """Translate prepared sentences. Raises `ApiError` as `translate`."""
        futures: list[Future[NBest]] = []
        with user_errors():
            try:
                futures.extend(map(model.translator.submit, prepared))
                return await self.in_time(futures, request)
            finally:
                for future in futures:
                    future.cancel()

    async def stream(
        self, model: ServedModel, document: Document, search: SearchSettings, request: Request
    ) -> AsyncIterator[tuple[str, list[Translation]]]:
        """As `translate`, for one document, sentence by sentence.

        Yields "", with an empty list, when the request has been admitted. Then it yields the certain
        beginning of a sentence's translation, with an empty list, each time that it has grown; then the whole
        translation, with the n best.
        """
        self.refuse_too_much(search)
        prepared = await self.prepare(
            lambda: [
                model.translator.prepare([segment.sentence], with_tags(search, segment))
                for segment in document.segments
            ],
            len(document.text),
            request,
        )
        tokens = sum(each.tokens for each in prepared)
        progress = [Progress() for _ in prepared]
        futures: list[Future[NBest]] = []
        with user_errors(), self.running(tokens):
            try:
                futures.extend(map(model.translator.submit, prepared, progress))
                yield "", []
                for future, sentence, own in zip(futures, prepared, progress, strict=True):
                    if not sentence.needs_alignment and len(sentence.sources) == 1:
                        async for text in growing(future, partial(stable_text, model.translator, own, 0)):
                            self.refuse_late(request)
                            yield text, []
                    ((n_best,),) = await self.in_time([future], request)
                    yield n_best[0].text, n_best
            finally:
                for future in futures:
                    future.cancel()
        targets = sum(len(future.result()[0][0].tokens) for future in futures)
        self.metrics.translated(len(prepared), tokens, targets)

    async def analyse(self, function: Callable[[], T], tokens: int, request: Request) -> T:
        """The result of a function that computes with PyTorch, in a thread of its own.

        Raises `ApiError` as `translate`.
        """
        with user_errors(), self.running(tokens):
            (result,) = await self.in_time([self._analysis.submit(function)], request)
            return result

    async def in_time(self, futures: Sequence[Future[T]], request: Request) -> list[T]:
        """The results, unless the request's deadline passes or its client goes away: then all are cancelled.

        Raises `ApiError`: 504 for the deadline, 499 for the client.
        """
        loop = asyncio.get_running_loop()
        end: asyncio.Future[ApiError | None] = loop.create_future()
        unfinished = len(futures)

        def stop(reason: ApiError | None) -> None:
            if not end.done():
                end.set_result(reason)

        # It does not refer to the futures, which refer to it: such a cycle would wait for the collector.
        def count() -> None:
            nonlocal unfinished
            unfinished -= 1
            if not unfinished:
                stop(None)

        for future in futures:
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(count))
        timer = loop.call_at(self.deadline_of(request), lambda: stop(self.too_late()))
        connection = request.scope.get("dragoman.connection")
        if connection is not None:
            connection.when_lost = lambda: stop(ApiError(499, "The client has gone.", "client_gone"))
        try:
            if futures and (reason := await end):
                raise reason
            return [future.result() for future in futures]
        finally:
            timer.cancel()
            if connection is not None:
                connection.when_lost = None
            for future in futures:
                future.cancel()

    def deadline_of(self, request: Request) -> float:
        """The time of the event loop at which a request has to be answered."""
        until: float = request.scope.setdefault(
            "dragoman.deadline", asyncio.get_running_loop().time() + self.settings.deadline
        )
        return until

    def refuse_late(self, request: Request) -> None:
        """Raise `ApiError` 504 if the request's deadline has passed."""
        if asyncio.get_running_loop().time() > self.deadline_of(request):
            raise self.too_late()

    def too_late(self) -> ApiError:
        """The error of a request whose deadline has passed."""
        return ApiError(
            504,
            f"The translation took more than {self.settings.deadline:g} seconds and was stopped; "
            "send less text at once.",
        )

    @contextmanager
    def running(self, tokens: int) -> Iterator[None]:
        """Count a request and its tokens while it is translated.

        Raises `ApiError`: 413 for a request of too many tokens, 429 if the queue is full.
        """
        if tokens > self.settings.max_tokens:
            raise ApiError(
                413,
                f"The request has {tokens:,} tokens, and {self.settings.max_tokens:,} are allowed; send less "
                "text at once.",
            )
        with self.admission.admit(tokens):
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1

    def note_texts(self, request: Request, texts: Sequence[str]) -> None:
        """Keep the texts for the log, if it may have them."""
        if self.settings.log_texts:
            request.scope["dragoman.texts"] = list(texts)

    def refuse_too_much(self, search: SearchSettings) -> None:
        """Raise `ApiError` 400 for a search beyond the server's limits."""
        for name, most in (
            ("beam_size", self.settings.max_beam_size),
            ("n_best", self.settings.max_n_best),
        ):
            if (value := getattr(search, name)) > most:
                raise ApiError(400, f"{name} is {value}; this server allows {most} at most.")


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

"""Queues: how many requests are translated at once, and how much text is cut and tokenized at once."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from dragoman.serving.errors import ApiError
from dragoman.system.futures import submit_interruptible

T = TypeVar("T")
QUEUE_SHARE = 0.5  # of the deadline: a request that would wait longer is refused at once
BUSY = "The server is busy; try again later."
RATE_SECONDS = 10.0  # over which the speed is averaged
MIN_QUEUE = 2_000  # tokens that are admitted at any speed
MAX_CHARACTERS = 2_000_000  # of all requests that are being cut or tokenized


def excess(held: Mapping[str, int], client: str, amount: int, limit: float) -> float:
    """By how much an amount is too much for a client of a queue; 0 or less if the client may add it.

    `held` is what each client has in the queue. Of n clients each may always have 1/n of the queue, and more
    while the others leave room: what a client has beyond 1/n does not count against the others.
    """
    others = [size for name, size in held.items() if name != client]
    share = limit // (len(others) + 1)
    return held.get(client, 0) + amount + sum(min(size, share) for size in others) - limit


class Shares:
    """An amount of something that the clients hold, of which each has its share as `excess` says."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.held: Counter[str] = Counter()
        self._lock = Lock()

    def take(self, amount: int, client: str) -> None:
        """Let a client hold so much more. Raises `ApiError` 429 if it is too much; the first may hold any."""
        self.exchange(0, amount, client)

    def exchange(self, former: int, amount: int, client: str) -> None:
        """Let a client hold an amount in the place of a former one.

        Raises as `take`, and changes nothing then.
        """
        with self._lock:
            rest = self.held - Counter({client: former})
            if rest and amount > former and excess(rest, client, amount, self.limit) > 0:
                raise ApiError(429, BUSY, retry_after=1)
            self.held[client] += amount - former
            if not self.held[client]:
                del self.held[client]

    def give_back(self, amount: int, client: str) -> None:
        """Let a client hold so much less."""
        self.exchange(amount, 0, client)

    @contextmanager
    def hold(self, amount: int, client: str) -> Iterator[None]:
        """Let a client hold so much for a while. Raises as `take`."""
        self.take(amount, client)
        try:
            yield
        finally:
            self.give_back(amount, client)


@dataclass
class Admission:
    """A queue that is bounded in tokens, and in the time that they take at the speed so far.

    The clients share it as `excess` says.
    """

    max_tokens: int
    deadline: float
    tokens: int = 0
    """Source tokens of all requests that are being translated."""
    requests: int = 0
    """These requests."""
    held: Counter[str] = field(default_factory=Counter)
    """Of these tokens, those of each client."""
    _done: float = 0.0
    """Tokens done in the last seconds in which there was work, and those seconds."""
    _seconds: float = 0.0
    _since: float = 0.0

    @contextmanager
    def admit(self, tokens: int, client: str) -> Iterator[Callable[[int], None]]:
        """Count a client's request and its tokens while it is translated.

        Yields a function that takes the number of tokens that are done before the others: they leave the
        queue. Raises `ApiError` 429 if there are too many, or too many for the deadline. A request that is
        alone is admitted.
        """
        if self.tokens and (wait := self.seconds_too_many(tokens, client)) > 0:
            raise ApiError(429, BUSY, retry_after=math.ceil(wait))
        self._advance()
        self.tokens += tokens
        self.requests += 1
        self.held[client] += tokens
        left = tokens

        def leave(count: int) -> None:
            nonlocal left
            self._advance()
            left -= count
            self.tokens -= count
            self.held[client] -= count
            if not self.held[client]:
                del self.held[client]

        def finish(count: int) -> None:
            self._done += count
            leave(count)

        try:
            yield finish
            self._done += left
        finally:
            leave(left)
            self.requests -= 1

    def seconds_too_many(self, tokens: int, client: str) -> float:
        """Seconds until so many tokens of a client can be admitted; 0 if they can be now.

        At most the deadline: by then every request that is being translated has ended. The speed so far can
        be too low, because requests that end without an answer count as none, and because requests differ.
        """
        limit = float(self.max_tokens)
        if self._done:
            in_time = self._done / self._seconds * self.deadline * QUEUE_SHARE
            limit = min(limit, max(in_time, MIN_QUEUE))
        too_many = excess(self.held, client, tokens, limit)
        wait = too_many * self._seconds / self._done if self._done else float(too_many > 0)
        return min(max(0.0, wait), self.deadline)

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
    """A thread that cuts and tokenizes long texts, and how many characters of each client it has to do."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "dragoman-preparation")
        self._characters = Shares(MAX_CHARACTERS)

    def submit(self, function: Callable[[], T], characters: int, client: str) -> Future[T]:
        """Run a client's function in the thread.

        Raises `ApiError` 429 if the thread has too much to do, of which the clients have shares.
        """
        self._characters.take(characters, client)
        future = submit_interruptible(self._thread, function)
        future.add_done_callback(lambda _: self._characters.give_back(characters, client))
        return future

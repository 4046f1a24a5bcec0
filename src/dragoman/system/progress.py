"""The progress of a long loop, in sentences."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from dragoman.system.messages import Say
from dragoman.system.wording import counted

REPORT_EVERY = 60.0  # seconds
T = TypeVar("T")


def with_progress(items: Iterable[T], count: int, description: str, say: Say) -> Iterator[T]:
    """The items. Says every `REPORT_EVERY` seconds how many of `count` are done.

    `description` ends the sentence, as "pairs are checked".
    """
    start = last = time.monotonic()
    for done, item in enumerate(items):
        if done and (now := time.monotonic()) - last >= REPORT_EVERY:
            minutes = (now - start) / done * (count - done) / 60
            say(f"{done:,} of {count:,} {description}; {counted(round(minutes), 'more minute')}.")
            last = now
        yield item

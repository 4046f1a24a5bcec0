"""The progress of a long loop, in sentences."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from dragoman.system.wording import counted

logger = logging.getLogger(__name__)
REPORT_EVERY = 60.0  # seconds
T = TypeVar("T")


def with_progress(items: Iterable[T], count: int, description: str) -> Iterator[T]:
    """The items. Says every `REPORT_EVERY` seconds how many of `count` are done.

    `description` ends the sentence, as "pairs are checked".
    """
    start = last = time.monotonic()
    for done, item in enumerate(items):
        if done and (now := time.monotonic()) - last >= REPORT_EVERY:
            minutes = (now - start) / done * (count - done) / 60
            logger.info(f"{done:,} of {count:,} {description}; {counted(round(minutes), 'more minute')}.")
            last = now
        yield item

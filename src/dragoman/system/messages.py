"""Messages for people. The library logs them with level INFO; whoever runs it decides who is shown them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, get_ident

from dragoman.system.errors import OptionMessage

LOGGERS = [logging.getLogger(name) for name in ("dragoman", "dragoman_paper")]


@dataclass(frozen=True, eq=False)
class Block:
    """A `with messages_to(show)` that runs in a thread."""

    show: Callable[[str], None]
    thread: int
    told: Callable[[OptionMessage], str]


class BlockHandler(logging.Handler):
    """Shows a message by the innermost block of its thread; if that has none, by the last one that began."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.blocks: list[Block] = []
        self.levels: list[int] = []
        """Of the loggers, before the first block."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Show a message. Exceptions are not caught, as logging would: a Ctrl-C may arrive here."""
        blocks = self.blocks.copy()
        if blocks := [block for block in blocks if block.thread == record.thread] or blocks:
            block, message = blocks[-1], record.msg
            block.show(block.told(message) if isinstance(message, OptionMessage) else record.getMessage())
        return True

    def open(self, block: Block) -> None:
        """Begin to log with the first block."""
        if not self.blocks:
            self.levels = [logger.level for logger in LOGGERS]
            for logger in LOGGERS:
                logger.addHandler(self)
                logger.setLevel(min(logging.INFO, logger.getEffectiveLevel()))
        self.blocks.append(block)

    def end(self, block: Block) -> None:
        """Log as before when the last block ends."""
        self.blocks.remove(block)
        if not self.blocks:
            for logger, level in zip(LOGGERS, self.levels, strict=True):
                logger.removeHandler(self)
                logger.setLevel(level)


HANDLER = BlockHandler()
LOCK = Lock()


@contextmanager
def messages_to(show: Callable[[str], None], told: Callable[[OptionMessage], str] = str) -> Iterator[None]:
    """Give `show` the library's messages, of level INFO and above, while the block runs.

    `told` makes the sentence of a message that names options.

    A block within another one has its messages for itself. Threads may each have one; a thread that has none
    uses that which began last. An exception of `show` reaches the place of the message.
    """
    block = Block(show, get_ident(), told)
    with LOCK:
        HANDLER.open(block)
    try:
        yield
    finally:
        with LOCK:
            HANDLER.end(block)


def silent(_: str) -> None:
    """Show nothing."""

"""Messages of the library go to the innermost block of their thread, and logging is as before afterwards."""

import logging
import threading
from contextlib import suppress
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import OptionMessage
from dragoman.system.messages import LOGGERS, messages_to

logger = logging.getLogger("dragoman.a.module")


class Interrupted(BaseException):
    """As Ctrl-C: no `Exception`."""


def state():
    """What blocks change of the loggers."""
    return [(each.level, list(each.handlers)) for each in LOGGERS]


STEPS = st.sampled_from(["open", "message", "interrupt", "end"])


@given(st.lists(STEPS), st.sampled_from([logging.NOTSET, logging.DEBUG, logging.INFO, logging.ERROR]))
def test_the_innermost_block_shows_a_message_and_logging_is_restored(steps, level):
    shown, expected, steps = [], [], iter(steps)

    def show(depth, sentence):
        shown.append((depth, sentence))
        if sentence == "interrupt":
            raise Interrupted

    def run(depth):
        for step in steps:
            if step == "open":
                with suppress(Interrupted), messages_to(partial(show, depth + 1)):
                    run(depth + 1)
            elif step != "end":
                if depth:
                    expected.append((depth, step))
                logger.info(step)
            elif depth:
                return

    LOGGERS[0].setLevel(level)
    try:
        before = state()
        run(0)
        assert state() == before
    finally:
        LOGGERS[0].setLevel(logging.NOTSET)
    assert shown == expected


def test_threads_have_blocks_of_their_own_and_others_use_the_last_one():
    first, second, before = [], [], state()
    begun, logged = threading.Event(), threading.Event()

    def train():
        with messages_to(second.append):
            begun.set()
            assert logged.wait(60)
            logger.info("two")

    with messages_to(first.append):
        thread = threading.Thread(target=train)
        thread.start()
        assert begun.wait(60)
        logger.info("one")
        worker = threading.Thread(target=logger.info, args=["of a worker"])
        worker.start()
        worker.join()
    logged.set()
    thread.join()
    assert (first, second) == (["one"], ["of a worker", "two"])
    assert state() == before


def test_a_message_with_options_has_the_names_of_the_innermost_block():
    outer, inner = [], []
    with messages_to(outer.append):
        logger.info(OptionMessage("{n_best} is {value}.", value=2))
        with messages_to(inner.append, lambda message: message.told({"n_best": "--n-best"})):
            logger.info(OptionMessage("{n_best} is {value}.", value=2))
            logger.info("{n_best}")
    assert (outer, inner) == (["n_best is 2."], ["--n-best is 2.", "{n_best}"])

"""A function in a process of its own, which ends with all its memory when nobody wants the result any more.

The process is forked in some ms: from one that has imported the module of the function, and has no threads.
"""

import os
import resource
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from multiprocessing import get_context
from multiprocessing.connection import Connection

from dragoman.system.errors import DragomanError
from dragoman.system.files import DISK_FULL
from dragoman.system.futures import interruption
from dragoman.system.processors import begin_worker

POLL_SECONDS = 0.02  # between two looks at whether the result is still wanted
DONE, REFUSED, FULL, FAILED = b"d", b"r", b"s", b"f"
"""What the answer of a process begins with: the result, the message of a `DragomanError`, the number of an
error of `DISK_FULL`, or a traceback."""


def call_in_child(function: Callable[..., bytes], *arguments: object, memory: int) -> bytes:
    """The result of a function of a module, called with these arguments in a process with so many bytes.

    The process is killed if the work is cancelled (`interruption`). Raises `CancelledError` then,
    `DragomanError` if the function does, `OSError` if the disk is full, `MemoryError` if it needs more
    memory, and `RuntimeError` with the traceback of any other exception.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    answers, child_end = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(child_end, memory, function, arguments), daemon=True)
    interrupted = interruption.get()
    with answers:
        process.start()
        child_end.close()
        try:
            while not answers.poll(POLL_SECONDS):
                if interrupted.is_set():
                    raise CancelledError
            answer = answers.recv_bytes()
        except EOFError:  # also if it was killed: by the system, or by a library that has got no memory
            raise MemoryError from None
        finally:
            process.kill()
            process.join()
            process.close()
    kind, content = answer[:1], answer[1:]
    if kind == REFUSED:
        raise DragomanError(content.decode())
    if kind == FULL:
        raise OSError(int(content), os.strerror(int(content)))
    if kind == FAILED:
        raise RuntimeError(content.decode())
    return content


def work(
    answers: Connection, memory: int, function: Callable[..., bytes], arguments: tuple[object, ...]
) -> None:
    """Call the function, and send what it returns or raises. Nothing is sent if there is no memory for it."""
    begin_worker()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for libraries that say at length that they get no memory
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        answer = DONE + function(*arguments)
    except MemoryError:
        return
    except DragomanError as error:
        answer = REFUSED + str(error).encode("utf-8", "replace")
    except Exception as error:
        answer = FAILED + traceback.format_exc().encode("utf-8", "replace")
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            answer = FULL + str(error.errno).encode()
    answers.send_bytes(answer)

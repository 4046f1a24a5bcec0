"""The signals that end a server, and those that let it read its models again."""

import os
import signal
import sys


def stop_signals() -> list[signal.Signals]:
    """The signals that end a server. SIGHUP does if a terminal has started it, which sends it when it closes.

    Otherwise SIGHUP is to `reload_signals`. Where it is ignored (nohup) it does neither. Windows has none.
    """
    if sys.platform == "win32":
        return [signal.SIGTERM, signal.SIGINT]
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ends = has_terminal() and not is_ignored
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if ends else [])]


def reload_signals() -> list[signal.Signals]:
    """The signals that let a server read its models again: SIGHUP, if that is neither ignored nor its end."""
    if sys.platform == "win32":
        return []
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [] if is_ignored or signal.SIGHUP in stop_signals() else [signal.SIGHUP]


def has_terminal() -> bool:
    """Whether a terminal controls this process, as one that was started in a shell."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def note_reload_signals() -> list[int]:
    """A list of the signals to reload that come before a `Server` handles them."""
    noted: list[int] = []
    for number in reload_signals():
        signal.signal(number, lambda number, _: noted.append(number))
    return noted

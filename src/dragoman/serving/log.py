"""The log of the server: a JSON object per line on stderr."""

import logging
import sys
import time
import traceback
from contextvars import ContextVar

import orjson

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
"""Of `--log-level`, as numbers of the module `logging`."""
QUIET_ROUTES = ("/health", "/ready", "/metrics")
"""Those that programs ask for every second."""
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that the current task answers."""


def write(**record: object) -> None:
    """Write a record with its time."""
    line = orjson.dumps({"time": round(time.time(), 3), **record}, option=orjson.OPT_APPEND_NEWLINE)
    sys.stderr.write(line.decode())


def level_of(route: str, status: int) -> int:
    """The level of a request's line in the log."""
    if status >= 400 or status == 0:
        return LEVELS["error" if status in (0, 500) else "warning"]
    return LEVELS["debug" if route in QUIET_ROUTES else "info"]


class Records(logging.Handler):
    """It writes what libraries log as records, with the request's id."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a traceback as `error`."""
        parts: dict[str, object] = {
            "id": request_id.get(),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1]:
            parts["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        write(**parts)


def configure_logging(level: str = "info") -> None:
    """Write what all libraries log as records: warnings and errors; errors alone; with debug, all messages.

    But those of the level DEBUG, which could have texts.
    """
    lowest = {"debug": logging.INFO, "error": logging.ERROR}.get(level, logging.WARNING)
    logging.basicConfig(handlers=[Records(lowest)], level=lowest, force=True)

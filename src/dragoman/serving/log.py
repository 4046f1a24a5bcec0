"""The log of the server: a JSON object per line on stderr."""

import logging
import sys
import time
import traceback
from contextvars import ContextVar

import orjson

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that the current task answers."""


def write(**record: object) -> None:
    """Write a record with its time."""
    line = orjson.dumps({"time": round(time.time(), 3), **record}, option=orjson.OPT_APPEND_NEWLINE)
    sys.stderr.write(line.decode())


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


def configure_logging() -> None:
    """Write warnings and errors of all libraries as records."""
    logging.basicConfig(handlers=[Records(logging.WARNING)], level=logging.WARNING, force=True)

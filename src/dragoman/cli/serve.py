"""`dragoman serve`: models as a service."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from dragoman.cli.configuration import configured, configured_settings
from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command
from dragoman.native.build import DECODER, start_compiling
from dragoman.native.settings import EngineSettings
from dragoman.serving.settings import ServerSettings
from dragoman.serving.signals import note_reload_signals
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.machine import configure_allocator
from dragoman.system.options import Needs, check_options, option

PACKAGES = (
    "babel",
    "fastapi_offline",
    "h11",
    "httptools",
    "orjson",
    "prometheus_client",
    "py3langid",
    "pydantic",
    "python_multipart",
    "starlette",
    "uvicorn",
    *(() if sys.platform == "win32" else ("uvloop",)),
)
"""The modules of the extra `serve`; uvloop is not for Windows."""


ONLY_TYPED = ("new_key", "admin")
"""Options that neither a file nor the environment can have."""


@dataclass(frozen=True)
class Serve:
    """Serve runs: a web page for people, and three HTTP APIs for programs."""

    runs: tuple[Path, ...] = ()
    """Runs, adapters that were trained on them, or folders with runs and adapters in them."""
    config: Path | None = None
    """TOML file with options: runs at its top, and the others in the tables [server] and [engine]. A variable
    of the environment such as DRAGOMAN_PORT wins over it, and the command line wins over both."""
    new_key: str = ""
    """Add a key with this name to the file of `--api-keys`, print the key once, and exit."""
    admin: bool = option(False, Needs("new_key", "is for a new key"))
    """The key of `--new-key` may also reload the server: `POST /v1/admin/reload`."""
    server: ServerSettings = field(default_factory=ServerSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def __post_init__(self) -> None:
        check_options(self)
        if self.new_key and self.server.api_keys is None:
            raise OptionError(
                "{new_key} is added to a file of keys and needs {api_keys}; give both, or leave "
                "{new_key} out."
            )


def serve(arguments: Arguments) -> None:
    """Serve runs until a signal comes, or add an API key to a file."""
    noted = note_reload_signals()  # before the long imports: until then SIGHUP ends the program
    settings = configured_settings(COMMAND, configured(COMMAND, arguments, ONLY_TYPED))
    if not arguments.get("new_key", "name").strip():
        raise DragomanError("--new-key is blank; give a name for the key: --api-keys FILE --new-key NAME")
    if settings.new_key and settings.server.api_keys is not None:
        from dragoman.serving.keys import add_key

        print(add_key(settings.server.api_keys, settings.new_key, is_admin=settings.admin))
        say("This is the only time that the key is shown; the file holds its hash.")
        return
    if not settings.runs:
        raise DragomanError("The following arguments are required: RUN. See dragoman serve --help.")
    serve_runs(settings.runs, settings.engine, settings.server, noted)


def check_installed() -> None:
    """Raise `DragomanError` if the packages of the extra `serve` are missing."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise DragomanError(f"The server needs {', '.join(missing)}: pip install 'dragoman[serve]'.")


def serve_runs(
    runs: tuple[Path, ...], engine: EngineSettings, settings: ServerSettings, noted: Sequence[int] = ()
) -> NoReturn:
    """Serve runs and adapters until a signal comes, then end the program."""
    check_installed()
    if engine.native:
        start_compiling(DECODER)
    configure_allocator()
    from dragoman.serving import server

    server.serve(runs, engine, settings, noted)
    sys.exit(0)


COMMAND = Command(
    "serve",
    "Serve runs: a web page for people, and three HTTP APIs for programs.",
    serve,
    Serve,
    example="dragoman serve runs/ende --precision int8",
    positional=("runs",),
    groups={
        "model": ("runs", "config", "glossaries", "precision", "workers", "device"),
        "address": ("host", "port", "processes"),
        "access": ("api_keys", "new_key", "no_auth", "requests_per_minute", "allow_hosts", "allow_origins"),
        "limits": ("deadline", "queue_tokens"),
    },
    arguments="RUN …",
    metavars={"runs": "RUN", "config": "FILE", "api_keys": "FILE", "glossaries": "DIR"},
    notes="After Ctrl-C or SIGTERM the server finishes the running requests and ends.",
)

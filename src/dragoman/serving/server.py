"""Running the server: processes, signals, the end."""

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import uvicorn

from dragoman.native.build import DECODER, WITHOUT_COMPILER, start_compiling
from dragoman.native.settings import EngineSettings
from dragoman.serving import suggestions
from dragoman.serving.app import load_app
from dragoman.serving.connections import HEAD_SECONDS, MAX_CONNECTIONS, Connection
from dragoman.serving.keys import Keys
from dragoman.serving.log import configure_logging, write
from dragoman.serving.middleware import Gateway, all_headers
from dragoman.serving.models import ServedModel
from dragoman.serving.processes import Process
from dragoman.serving.reload import Reload
from dragoman.serving.settings import ServerSettings
from dragoman.serving.signals import note_reload_signals, reload_signals, stop_signals
from dragoman.serving.supervisor import Fleet, Supervisor
from dragoman.serving.tls import read_certificate
from dragoman.system.errors import DragomanError
from dragoman.system.machine import raise_open_file_limit
from dragoman.system.messages import messages_to, silent
from dragoman.system.temporary import TemporaryFolder
from dragoman.system.toml import overlay, to_table

logger = logging.getLogger(__name__)
ENVIRONMENT = "DRAGOMAN_SERVE"  # of a server process that another one has started
GRACE_SECONDS = 30  # for running requests, after a signal


class Server(uvicorn.Server):
    """It stops on a signal after the requests that are running, with exit status 0, or reloads."""

    def __init__(self, app: Gateway, settings: ServerSettings, noted: Sequence[int] = ()) -> None:
        """`noted` is a list of `note_reload_signals`."""
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # else any client on this machine could choose the address that is limited
            headers=all_headers(),
            http=Connection,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        super().__init__(config)
        configure_logging(settings.log_level)
        self._service, self._noted = app.service, noted
        self._service.metrics.connections = lambda: len(self.server_state.connections)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal. /ready says no from then on. At the end documents are removed."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._service.is_stopping = True
            self._service.documents.stop()
            self.handle_exit(number, None)

        for number in stop_signals():
            if sys.platform == "win32":  # whose event loops handle no signals
                signal.signal(number, lambda number, _: loop.call_soon_threadsafe(stop, number))
            else:
                loop.add_signal_handler(number, stop, number)
        if self._service.reload is not None:
            for number in reload_signals():
                loop.add_signal_handler(number, self._service.reload.start)
            if self._noted:
                self._service.reload.start()
        try:
            yield
        finally:
            self._service.documents.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets: with TLS, if there is a certificate, but not for other processes.

        A connection gets the certificate that was read last.
        """
        await super().startup(sockets=[])
        protocol = partial(
            Connection,
            self.config,
            self.server_state,
            self.lifespan.state,
            refused=self._service.metrics.refused_connections,
        )
        certificate = self._service.certificate
        if certificate is not None:
            certificate.sni_callback = self._choose_certificate
        for listener in sockets or []:
            tls = certificate if listener.family in (socket.AF_INET, socket.AF_INET6) else None
            server = await asyncio.get_running_loop().create_server(
                protocol,
                sock=listener,
                ssl=tls,
                ssl_handshake_timeout=HEAD_SECONDS if tls else None,
                backlog=self.config.backlog,
            )
            self.servers.append(server)

    def _choose_certificate(self, connection: ssl.SSLObject, *_: object) -> None:
        """Called at the beginning of a handshake, also for clients that name no host."""
        assert self._service.certificate is not None
        connection.context = self._service.certificate


def serve(
    folders: Sequence[Path], engine: EngineSettings, settings: ServerSettings, noted: Sequence[int] = ()
) -> None:
    """Serve the runs and adapters in these folders until a signal comes. Running requests are answered first.

    `noted` is a list of `note_reload_signals`.
    Raises `DragomanError` if a model or the file of keys cannot be loaded, or the address cannot be used.
    """
    if sys.platform == "win32" and settings.processes > 1:
        raise DragomanError("Several processes need Linux or macOS; leave --processes out.")
    check_files(settings)  # before the address is used, which nobody would answer
    raise_open_file_limit(MAX_CONNECTIONS)
    with listening(settings) as listener:
        host, port = listener.getsockname()[:2]
        scheme = "http" if settings.tls_cert is None else "https"
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{settings.url_prefix}"
        if settings.processes == 1:
            app = load_app(folders, engine, settings)
            warn_without_compiler(app, engine)
            logger.info(f"Serving {names(app)} at {address}")
            with messages_to(silent):  # the server's log has what follows
                Server(app, settings, noted).run(sockets=[listener])
            return
        started = partial(logger.info, f"Serving at {address}")
        serve_with_processes(folders, engine, settings, listener, started)


def check_files(settings: ServerSettings) -> None:
    """Raise `DragomanError` if a file that the settings name cannot be used."""
    read_certificate(settings)
    if settings.api_keys is not None:
        Keys.load(settings.api_keys)
    if settings.suggestions is not None:
        suggestions.check_file(settings.suggestions)


def warn_without_compiler(app: Gateway, engine: EngineSettings) -> None:
    """Log that translating is slow, if a model could be searched in C++ and there is no compiler."""
    is_supported = any(model.architecture == "transformer" for model in app.service.models.models)
    if is_supported and engine.native and engine.chosen_device == "cpu" and start_compiling(DECODER) is None:
        logger.warning(WITHOUT_COMPILER)


def names(app: Gateway) -> str:
    """The models in words: `ende (en to de)`; with adapters, `ende (en to de; adapters: medical, legal)`."""
    return ", ".join(
        f"{model.name} ({model.source} to {model.target}{adapters_of(model)})"
        for model in app.service.models.models
    )


def adapters_of(model: ServedModel) -> str:
    """The adapters of a model in words; "" if it has none."""
    return (
        f"; adapters: {', '.join(adapted_model.adapter for adapted_model in model.adapted)}"
        if model.adapted
        else ""
    )


@contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """A socket at the address. Raises `DragomanError` if the address cannot be used."""
    with ExitStack() as stack:
        try:
            family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
            listener.listen(2048)
        except OSError as error:
            raise DragomanError(
                f"{settings.host} port {settings.port} cannot be used: {error.strerror}. Give another --port "
                "(0 takes a free one) or --host."
            ) from error
        yield listener


def serve_with_processes(
    folders: Sequence[Path],
    engine: EngineSettings,
    settings: ServerSettings,
    listener: socket.socket,
    started: Callable[[], None],
) -> None:
    """Start the processes, which share the socket; replace one that dies; end all on a signal."""
    sockets = TemporaryFolder("dragoman-processes-")
    about = {
        "folders": list(map(str, folders)),
        "engine": to_table(engine),
        "settings": to_table(settings),
        "socket": listener.fileno(),
        "sockets": str(sockets.path),
    }
    try:
        asyncio.run(supervise(about, settings.processes, listener, started))
    finally:
        sockets.remove()


async def supervise(
    about: Mapping[str, object], count: int, listener: socket.socket, started: Callable[[], None]
) -> None:
    """Keep `count` processes running until a signal comes, then close the socket and let them end.

    `started` is called when one of them has loaded its models and no other serves. A process that ends with
    status 2, as for a model that cannot be loaded, ends all if no other serves. Each process has a pipe from
    this one, whose end tells it that this one has ended, and a pipe to it, for messages (supervisor.py).
    """
    stopping, fleet = asyncio.Event(), Fleet(started)
    loop, descriptor = asyncio.get_running_loop(), listener.fileno()

    def stop() -> None:
        stopping.set()
        listener.close()  # the processes close theirs

    for number in stop_signals():
        loop.add_signal_handler(number, stop)
    for number in reload_signals():
        loop.add_signal_handler(number, fleet.start_reload)

    async def keep_running(number: int) -> bool:
        """False if it cannot be loaded and no other serves."""
        while not stopping.is_set():
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",  # a process that this one starts would import the module of -m
                "from dragoman.serving.server import main; main()",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {ENVIRONMENT: json.dumps({**about, "number": number})},
                pass_fds=[descriptor],
                start_new_session=True,  # a terminal's Ctrl-C reaches this process alone
            )
            listening = asyncio.ensure_future(fleet.listen(process))
            ended = asyncio.ensure_future(process.wait())
            stopped = asyncio.ensure_future(stopping.wait())
            await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not ended.done():
                process.terminate()
            status = await ended
            listening.cancel()
            await asyncio.wait([listening])
            if status == 2 and not fleet.serving and not stopping.is_set():
                stopping.set()
                return False
            if not stopping.is_set():
                end = f"signal {-status}" if status < 0 else f"status {status}"
                message = f"Server process {process.pid} ended with {end}; another one starts."
                write(level="error", message=message)
                await asyncio.sleep(1)  # a process that dies at once does not keep this one busy
        return True

    if not all(await asyncio.gather(*(keep_running(number) for number in range(count)))):
        sys.exit(2)


def main() -> None:
    """One of several server processes. Its settings are in the environment."""
    noted = note_reload_signals()
    supervisor = Supervisor()
    Thread(target=supervisor.listen, daemon=True).start()
    about = json.loads(os.environ[ENVIRONMENT])
    try:
        settings = overlay(ServerSettings(), about["settings"], ENVIRONMENT)
        engine = overlay(EngineSettings(), about["engine"], ENVIRONMENT)
        process = Process(about["number"], Path(about["sockets"]))
        app = load_app([Path(folder) for folder in about["folders"]], engine, settings, process, supervisor)
        listeners = [socket.socket(fileno=about["socket"]), *process.listen()]
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(2)
    assert isinstance(app.service.reload, Reload)
    supervisor.serve(app.service.reload)
    if process.number == 0:  # one says it for all
        warn_without_compiler(app, engine)
    Server(app, settings, noted).run(sockets=listeners)

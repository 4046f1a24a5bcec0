"""Changing a server while it runs: models, adapters, glossaries, keys and certificate are read again.

If one of them cannot be read, the server keeps all that it has. A request ends with the model that it has
begun with; a model that has been replaced is freed when nothing uses it any more.
"""

import asyncio
import ssl
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dragoman.native.settings import EngineSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import Glossaries
from dragoman.serving.keys import Keys
from dragoman.serving.loading import load_models
from dragoman.serving.log import write
from dragoman.serving.middleware import Gateway
from dragoman.serving.models import Models
from dragoman.serving.tls import read_certificate
from dragoman.system.errors import DragomanError, reason


@dataclass(frozen=True)
class Content:
    """What a server has read from its folders and files."""

    models: Models
    glossaries: Glossaries
    keys: Keys | None
    certificate: ssl.SSLContext | None


class Supervisor(Protocol):
    """The process that has started this one, and lets all reload together."""

    def request_reload(self) -> Future[str]:
        """Begin a reload of all processes. The result says why nothing was changed; "" if all was."""


class Reload:
    """Reads what a server process serves again. With a supervisor, that one decides when."""

    def __init__(
        self, app: Gateway, folders: Sequence[Path], engine: EngineSettings, supervisor: Supervisor | None
    ) -> None:
        self.loaded: list[str] = []
        """The names of the models and adapters that the last reload has loaded: they are new, or changed."""
        self._app, self._folders, self._engine = app, folders, engine
        self._supervisor = supervisor
        self._lock = asyncio.Lock()
        self._prepared: Content | None = None
        self._tasks: set[asyncio.Task[str]] = set()

    def refuse_others(self, owner: str | None) -> None:
        """Raise `ApiError` 403 unless this is the name of an administrator's key."""
        keys = self._app.keys
        if keys is None:
            raise ApiError(
                403,
                "This server has no keys, so nobody may reload it through its API. Send SIGHUP to its "
                "process, or start it with --api-keys and an administrator's key.",
            )
        if owner not in keys.admins:
            raise ApiError(
                403,
                "Only an administrator's key may reload the server; --new-key NAME --admin makes one.",
            )

    async def run(self) -> str:
        """Read all again, in all processes of the server. Returns why nothing was changed; "" if all was."""
        if self._supervisor is not None:
            return await asyncio.wrap_future(self._supervisor.request_reload())
        async with self._lock:
            refusal = await asyncio.to_thread(self._prepare_and_use)
        log_outcome(refusal)
        return refusal

    def start(self) -> None:
        """Begin to `run`, from the event loop, as on a signal."""
        task = asyncio.ensure_future(self.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _prepare_and_use(self) -> str:
        if not (refusal := self.prepare()):
            self.use()
        return refusal

    def prepare(self) -> str:
        """Read all again, and keep it for `use`. Returns why that is impossible, or ""."""
        service = self._app.service
        settings = service.settings
        try:
            keys = None if settings.api_keys is None else Keys.load(settings.api_keys)
            certificate = read_certificate(settings)
            models = load_models(
                self._folders,
                self._engine,
                service.models,
                allows_pivots=settings.pivot,
                on_demand=bool(settings.max_memory),
            )
            glossaries = Glossaries(settings, models.language_pairs)
            self._prepared = Content(models, glossaries, keys, certificate)
        except DragomanError as error:
            return str(error)
        except OSError as error:
            return f"{error.filename} cannot be read: {reason(error)}."
        except Exception:
            write(level="error", error=traceback.format_exc())
            return "The server failed while it read its models; its log has the reason."
        return ""

    def use(self) -> None:
        """Serve what has been prepared."""
        content, self._prepared = self._prepared, None
        assert content is not None
        service = self._app.service
        former = {model.hash for model in service.models.with_adapted}
        new = [model for model in content.models.with_adapted if model.hash not in former]
        self.loaded = [model.adapter or model.name for model in new]
        service.models, service.glossaries = content.models, content.glossaries
        service.on_demand.keep({model.hash for model in content.models.with_adapted})
        self._app.keys, service.certificate = content.keys, content.certificate
        if service.settings.glossaries is not None:
            service.read_dictionaries(content.models.language_pairs)

    def drop(self) -> None:
        """Forget what has been prepared."""
        self._prepared = None


def log_outcome(refusal: str) -> None:
    """Write how a reload has ended."""
    if refusal:
        write(level="error", message=f"Nothing was reloaded, and the server keeps what it has. {refusal}")
    else:
        write(
            level="info", message="Models, adapters, glossaries, keys and certificate have been read again."
        )

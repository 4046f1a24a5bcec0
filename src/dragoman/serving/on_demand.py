"""Models that are loaded when a request needs them, in a bounded memory."""

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock

from dragoman.serving.errors import ApiError
from dragoman.serving.log import write
from dragoman.serving.models import ServedModel
from dragoman.system.errors import DragomanError, reason
from dragoman.translation.translator import Translator


@dataclass
class Held:
    """A model in memory."""

    translator: Translator
    size: int
    by_pair: dict[tuple[str, str], Translator] = field(default_factory=dict)
    """Those of the languages for which it was asked; the cache knows a translator by its identity."""
    lent: weakref.WeakSet[ServedModel] = field(default_factory=weakref.WeakSet)
    """What requests have of it, as long as they have it."""

    def lend(self, model: ServedModel) -> ServedModel:
        """The model for a request."""
        languages = model.source, model.target
        if languages not in self.by_pair:
            self.by_pair[languages] = model.of_languages(self.translator)
        lent = replace(model, loaded=self.by_pair[languages])
        self.lent.add(lent)
        return lent


class OnDemand:
    """The models that are in memory, those first that have not been used for longest.

    Before another one is loaded, those that no request uses are dropped until all take `max_bytes` at most.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held: OrderedDict[str, Held] = OrderedDict()
        """By their hashes."""
        self._loading: dict[str, Future[ServedModel]] = {}
        self._thread = ThreadPoolExecutor(1, "dragoman-loading")
        self._lock = Lock()

    async def get(self, model: ServedModel) -> ServedModel:
        """The model with its translator, which stays in memory as long as what this returns.

        Raises `ApiError` 503 if it cannot be loaded any more.
        """
        with self._lock:
            if (held := self.held.get(model.hash)) is not None:
                self.held.move_to_end(model.hash)
                return held.lend(model)
            loading = self._loading.get(model.hash)
            if loading is None:
                loading = self._loading[model.hash] = self._thread.submit(self._load, model)
        # It may be loaded for other requests too, whose deadlines are others.
        lent = await asyncio.shield(asyncio.wrap_future(loading))
        return lent if lent.name == model.name else await self.get(model)

    def keep(self, hashes: Collection[str]) -> None:
        """Drop all models but those with these hashes. Requests that use one end with it."""
        with self._lock:
            for key in self.held.keys() - hashes:
                del self.held[key]

    def _load(self, model: ServedModel) -> ServedModel:
        """Load a model, and lend it: it is in use from the beginning. Raises as `get`."""
        try:
            self._make_room(model.size)
            assert model.load is not None
            held = Held(model.load(), model.size)
            with self._lock:
                self.held[model.hash] = held
                return held.lend(model)
        except (DragomanError, OSError) as error:
            explanation = str(error) if isinstance(error, DragomanError) else reason(error)
            write(level="error", message=f"The model {model.name} cannot be loaded. {explanation}")
            message = f"The model {model.name} cannot be loaded; the server's log has the reason."
            raise ApiError(503, message, "not_loaded", 60) from error
        finally:
            with self._lock:
                del self._loading[model.hash]

    def _make_room(self, size: int) -> None:
        with self._lock:
            total = size + sum(held.size for held in self.held.values())
            for key, held in list(self.held.items()):
                if total <= self.max_bytes:
                    return
                if not held.lent:
                    del self.held[key]
                    total -= held.size

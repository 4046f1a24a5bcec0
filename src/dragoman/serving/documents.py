"""Documents that clients have sent: their files and their state until they are removed.

A document and its translation are files in a temporary folder of the process that no other user can read,
under the random id of their job. Who knows the id, and has the key that sent the document if there are keys,
gets the translation.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, TypeVar

from starlette.types import Scope

from dragoman.documents.document import MARK, Segment
from dragoman.documents.file import ArchiveLimits
from dragoman.documents.plain import PLAIN
from dragoman.serving.admission import Shares
from dragoman.serving.errors import ApiError, not_written
from dragoman.serving.models import ServedModel
from dragoman.serving.processes import ONLY, Process
from dragoman.serving.settings import ServerSettings
from dragoman.system.child import call_in_child
from dragoman.system.files import DISK_FULL
from dragoman.system.futures import submit_interruptible
from dragoman.system.temporary import TemporaryFolder

T = TypeVar("T")
FOLDER_PREFIX = "dragoman-documents-"
KEEP_SECONDS = 600.0  # for which a translation waits to be downloaded
ID_BYTES = 24


@dataclass(frozen=True)
class Upload:
    """A file of a request."""

    name: str
    """As the client says, which may be anything."""
    content: bytes = field(repr=False)


def random_id() -> str:
    """An id of 192 random bits, in letters that URLs have."""
    return secrets.token_urlsafe(ID_BYTES)


@dataclass
class SentencePair:
    """A sentence of a document and its translation, both as the model has them, with marks."""

    sentence: str
    marks: dict[str, str]
    """By each mark of the sentence what a reader sees in its place: see `visible_marks`."""
    translation: str | None = None
    """None until there is one."""

    @property
    def keeps_text(self) -> bool:
        """Whether the model does not read all that a reader sees."""
        return any(self.marks.values())

    def without_marks(self, text: str) -> str:
        """The sentence or a translation of it as a reader sees it."""
        if not self.marks:
            return text
        return " ".join(MARK.sub(lambda mark: self.marks.get(mark[0], ""), text).split())

    def segment(self) -> Segment:
        """The sentence as a text of its own."""
        return Segment(self.sentence, 0, len(self.sentence), self.sentence, PLAIN, tuple(self.marks.items()))


class Editor(Protocol):
    """What translates a document, and changes its sentences when it is done."""

    model: ServedModel

    async def change(self, number: int, translation: str, scope: Scope) -> None:
        """Give a sentence another translation, without marks, and write the file again."""


@dataclass(eq=False)
class Job:
    """A document that is being translated, or its translation."""

    client: str
    """Who has a share of the queues and the space, as the `Gateway` names it."""
    owner: str | None
    """The name of the key that sent the document; None if there are no keys."""
    path: Path
    """The document."""
    id: str
    key: str = field(default_factory=random_id)
    """A second secret, which DeepL's clients send."""
    name: str = ""
    """Of the translation's file."""
    size: int = 0
    """Bytes of its files, those for which the client has space."""
    sentences: int = 0
    characters: int = 0
    """Of the sentences."""
    done: int = 0
    """Sentences that are translated."""
    pairs: list[SentencePair] = field(default_factory=list)
    editor: Editor | None = None
    status: Literal["translating", "done", "failed"] = "translating"
    error: ApiError | None = None
    """Why it has failed."""
    is_removed: bool = False
    task: asyncio.Task[None] | None = None
    """What translates it after its request has been answered."""
    timer: asyncio.TimerHandle | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def translated_path(self) -> Path:
        """The translation."""
        return self.path.with_suffix(".translated")

    @property
    def unfinished_path(self) -> Path:
        """The translation while it is being written."""
        return self.path.with_suffix(".new")

    def remove_files(self) -> None:
        """Remove the document and its translation."""
        for path in (self.path, self.translated_path, self.unfinished_path):
            path.unlink(missing_ok=True)

    def note_done(self, translations: Mapping[int, str]) -> None:
        """Keep translations by the numbers of their sentences."""
        for number, translation in translations.items():
            self.pairs[number].translation = translation
        self.done += len(translations)
        self._note_change()

    def end(self, error: ApiError | None = None) -> None:
        """End as done, or as failed with an error, unless it has ended."""
        if self.status == "translating":
            self.status, self.error = "failed" if error else "done", error
            self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changes(self) -> AsyncIterator[None]:
        """Yield at once, and after each change until the job has ended."""
        while True:
            changed = self._changed
            yield
            if self.status != "translating":
                return
            await changed.wait()

    async def wait(self, seconds: float) -> None:
        """Wait until the job has ended, but not longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in self.changes():
                    pass


class Documents:
    """The documents of a server process.

    Their number and their bytes are bounded, and so are the bytes of those that are being received; the
    clients have shares of these bounds.
    """

    def __init__(self, settings: ServerSettings, process: Process = ONLY) -> None:
        self.received = Shares(settings.max_stored)
        """Bytes of request bodies with documents that are in memory."""
        self.limits = ArchiveLimits(settings.max_unpacked, settings.max_members, settings.max_ratio)
        self._process = process
        self._max_memory = settings.max_document_memory
        self._jobs: dict[str, Job] = {}
        self._places, self._bytes = Shares(settings.max_documents), Shares(settings.max_stored)
        self._thread = ThreadPoolExecutor(1, "dragoman-documents")
        self._folder: TemporaryFolder | None = None

    def add(self, client: str, owner: str | None, size: int) -> Job:
        """A new job for a document of so many bytes.

        Raises `ApiError`: 429 if the client has too many, 503 if there cannot be a folder for them.
        """
        if self._folder is None:
            try:
                self._folder = TemporaryFolder(FOLDER_PREFIX)
            except OSError as error:
                raise not_written("documents", error) from error
        self._places.take(1, client)
        try:
            self._bytes.take(size, client)
        except ApiError:
            self._places.give_back(1, client)
            raise
        job_id = self._process.document_id(random_id())
        job = Job(client, owner, self._folder.path / job_id, job_id, size=size)
        self._jobs[job.id] = job
        return job

    def find(self, job_id: str, owner: str | None, key: str | None = None) -> Job:
        """The job of an id, and of a key if that is not None. Raises `ApiError` 404 if the owner has none."""
        job = self._jobs.get(job_id)
        if job is None or job.owner != owner or not (key is None or is_same(key, job.key)):
            minutes = KEEP_SECONDS / 60
            raise ApiError(
                404,
                "There is no document of this id. It has been removed, or it was sent with another key. "
                f"Translations are kept for {minutes:g} minutes.",
            )
        return job

    def in_thread(self, job: Job, function: Callable[[], T]) -> Future[T]:
        """The result of a function that reads or writes the files of a job, in a thread: one at a time.

        It raises `ApiError` 503 if the disk is full.
        """

        def call() -> T:
            try:
                return function()
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                raise not_written("documents", error) from error
            finally:
                if job.is_removed:  # meanwhile
                    job.remove_files()

        return submit_interruptible(self._thread, call)

    def in_child(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        """The result of a function that reads or writes a document in a process of its own: `call_in_child`.

        Raises `ApiError` 413 for a document that needs more memory than the settings allow.
        """
        try:
            return call_in_child(function, *arguments, memory=self._max_memory)
        except MemoryError as error:
            raise ApiError(
                413,
                f"The document takes more than {self._max_memory:,} bytes of memory, which are allowed; "
                "divide it.",
            ) from error

    def resize(self, job: Job, size: int) -> None:
        """Change the bytes for which a client has space.

        Raises `ApiError` 429 as `add`, and changes nothing then.
        """
        if not job.is_removed:
            self._bytes.exchange(job.size, size, job.client)
            job.size = size

    def keep(self, job: Job) -> None:
        """Remove a job that has ended after `KEEP_SECONDS`, and the files of one that has failed now."""
        if job.status == "failed":
            self.resize(job, 0)
            job.remove_files()
        if not job.is_removed:
            job.timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.remove, job)

    def remove(self, job: Job) -> None:
        """Remove a job and its files; its search ends."""
        if job.is_removed:
            return
        job.is_removed = True  # before the files: `in_thread` looks afterwards
        job.end(ApiError(404, "The document has been removed."))
        if job.task is not None:
            job.task.cancel()
        if job.timer is not None:
            job.timer.cancel()
        del self._jobs[job.id]
        self._places.give_back(1, job.client)
        self._bytes.give_back(job.size, job.client)
        job.remove_files()

    async def open(self, job: Job) -> BinaryIO:
        """The file of a translation, which can be read to its end even if it is removed meanwhile.

        Raises `ApiError` as `check_done`, and 404 if it is removed.
        """
        check_done(job)
        try:
            return await asyncio.to_thread(job.translated_path.open, "rb")
        except FileNotFoundError as error:
            raise ApiError(404, "The document has been removed.") from error

    def stop(self) -> None:
        """End the searches of documents whose requests have been answered: nobody can get them any more."""
        for job in list(self._jobs.values()):
            if job.task is not None and job.status == "translating":
                job.end(ApiError(503, "The server is shutting down.", retry_after=1))
                job.task.cancel()

    def close(self) -> None:
        """Remove all files."""
        self._thread.shutdown(cancel_futures=True)
        for job in list(self._jobs.values()):
            self.remove(job)
        if self._folder is not None:
            self._folder.remove()


def check_done(job: Job) -> None:
    """Raise `ApiError`: 409 for a job that is not done, and the job's error if it has failed."""
    if job.error is not None:
        raise job.error
    if job.status != "done":
        raise ApiError(409, "The document is still being translated; try again later.", retry_after=1)


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that does not depend on it."""
    return compare_digest(one.encode("utf-8", "replace"), other.encode())

"""What the APIs do with documents: let them in, translate them, and give their translations back."""

import asyncio
import json
import os
import re
import traceback
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import StreamingResponse
from starlette.types import Scope

from dragoman.documents.document import Document
from dragoman.documents.file import Reading
from dragoman.documents.formats import ENDINGS, DocumentFormat, format_of_name
from dragoman.documents.sentences import read_sentences, write_file
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.uploads import BINARY
from dragoman.serving.documents import Documents, Job, SentencePair, Upload, check_done
from dragoman.serving.errors import ApiError, refusal
from dragoman.serving.log import request_id, write
from dragoman.serving.models import ServedModel
from dragoman.serving.service import Service, client_of, owner_of
from dragoman.system.errors import DragomanError
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.glossary import Glossary

MAX_NAME = 255  # bytes of a file's name, as file systems have it
MAX_IDENTIFIED = 20_000  # characters of a document by which its language is identified
WORK = (
    "dragoman.client",
    "dragoman.deadline",
    "dragoman.seconds",
)  # what a translation needs to know of its request
CHUNK = 2**18  # bytes of a file that are sent at once
UNSAFE = re.compile(r"[^\w .()-]", re.ASCII)
FILES = {
    200: {
        "description": "The file.",
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    }
}


class DocumentTranslation:
    """The translation of a document that has been let in. `run` does it, `change` changes it afterwards."""

    def __init__(
        self,
        service: Service,
        job: Job,
        file_format: DocumentFormat,
        reading: Reading,
        parts: AsyncIterator[dict[int, str]],
        scope: Scope,
        model: ServedModel,
        search: SearchSettings,
    ) -> None:
        self.job = job
        self.model = model
        self._service, self._format, self._reading = service, file_format, reading
        self._parts, self._scope, self._search = parts, scope, search
        self._change = asyncio.Lock()
        job.editor = self

    def start(self) -> Job:
        """Do it beside the answers to other requests."""
        self.job.task = asyncio.create_task(self.run())
        return self.job

    async def run(self) -> None:
        """Translate the document. The job gets the error if that fails."""
        job, service = self.job, self._service
        try:
            async for part in self._parts:
                job.note_done(part)
            await self._write([pair.translation or "" for pair in job.pairs], self._scope)
            job.end()
        except (ApiError, DragomanError) as error:
            answer = refusal(error)
            service.metrics.refused[answer.code] += 1
            job.end(answer)
        except Exception as error:
            write(id=request_id.get(), level="error", error="".join(traceback.format_exception(error)))
            reference = f"Its log has the reason under the request ID {request_id.get()}."
            job.end(ApiError(500, f"The server failed. {reference}"))
        finally:
            service.documents.keep(job)

    async def change(self, number: int, translation: str, scope: Scope) -> None:
        """Give a sentence another translation, without marks, and write the file again.

        Raises `ApiError`: 404 if there is no such sentence, 400 if the text cannot stand in its place, and as
        `check_done`. A change is within the deadline of its own request.
        """
        check_done(self.job)
        if number >= len(self.job.pairs):
            raise ApiError(404, f"The document has {len(self.job.pairs)} sentences, numbered from 0.")
        pair = self.job.pairs[number]
        text = await self._with_marks(pair, " ".join(translation.split()), scope)
        async with self._change:
            translations = [pair.translation or "" for pair in self.job.pairs]
            translations[number] = text
            try:
                await self._write(translations, scope)
            except FileNotFoundError as error:
                raise ApiError(404, "The document has been removed.") from error
            pair.translation = text

    async def _with_marks(self, pair: SentencePair, translation: str, scope: Scope) -> str:
        """A translation with the marks of its sentence: a search that begins with all of it places them."""
        if not translation:
            raise ApiError(400, "The translation is blank; send one with words.")
        if not pair.marks:
            return translation
        if pair.keeps_text:
            raise ApiError(400, "The sentence has addresses or placeholders, and cannot be changed.")
        document = Document(pair.sentence, (pair.segment(),))
        search = replace(self._search, prefix=translation)
        model = await self._service.ready(self.model, scope)
        (((best, *_),),) = await self._service.translate(model, [document], search, scope)
        if pair.without_marks(best.text) != translation:
            raise ApiError(
                400,
                "The sentence has parts with a format of their own, and the model does not end it with this "
                "text; send one of its alternatives.",
            )
        return best.text

    async def _write(self, translations: Sequence[str], scope: Scope) -> None:
        """Write the file of the translation.

        The document is read once more: it can take much more memory than its sentences, which wait for the
        search. Raises `ApiError` as `in_time` and `Documents.in_child`, and 429 if the client has no space
        for the translation.
        """
        job, documents = self.job, self._service.documents
        paths = job.path, job.unfinished_path

        def write() -> int:
            try:
                documents.in_child(write_file, *paths, self._format, self._reading, translations)
            except RuntimeError as error:
                if job.is_removed:
                    raise FileNotFoundError from error
                raise
            return job.path.stat().st_size + job.unfinished_path.stat().st_size

        (size,) = await self._service.in_time([documents.in_thread(job, write)], scope)
        try:
            documents.resize(job, size)
        except ApiError:
            job.unfinished_path.unlink(missing_ok=True)
            raise
        # Who is reading the former translation reads it to its end.
        replaced = documents.in_thread(job, lambda: job.unfinished_path.replace(job.translated_path))
        await self._service.in_time([replaced], scope)


async def let_in(
    service: Service,
    upload: Upload | None,
    scope: Scope,
    choose_model: Callable[[str], ServedModel],
    *,
    search: SearchSettings,
    is_identified: bool = False,
    file_format: DocumentFormat | None = None,
    format_option: str = "",
    split: bool = True,
    everything: bool = False,
    is_awaited: bool = False,
    choose_glossary: Callable[[ServedModel], Awaitable[Glossary | None]] | None = None,
) -> DocumentTranslation:
    """Read a document and put its sentences into the queue.

    `choose_model` gives the model for a text: for "" any that fits the languages, for the document's own
    text the one for its language, if that is to be identified. A translation that is awaited ends if the
    client of the request goes away. `format_option` is a parameter that gives the format. `choose_glossary`
    gives the terms for the model, and raises for those that cannot be used. Raises `ApiError`:
    400 or 413 for a document that is refused, 429 if the client has too many or the queue is full, and its
    errors and those of `in_time`. Raises `DragomanError` if it cannot be read.
    """
    documents, settings = service.documents, service.settings
    if upload is None:
        raise ApiError(400, "The request has no document; send one in the field 'file'.")
    check_upload(upload, settings.max_document)
    await service.ready_to_choose(scope, "", is_identified=is_identified)
    job = documents.add(client_of(scope), owner_of(scope), len(upload.content))
    try:
        model = choose_model("")
        languages = Languages(model.source, model.target)
        kind = file_format or format_of_name(PurePath(upload.name), languages, format_option)

        async def read(model: ServedModel) -> tuple[Reading, list[SentencePair]]:
            reading = Reading(
                upload.name, model.source, model.target, split, everything, limits=documents.limits
            )
            arguments = read_sentences, job.path, kind, reading, service.max_characters
            future = documents.in_thread(job, lambda: documents.in_child(*arguments))
            (answer,) = await service.in_time([future], scope)
            characters, *sentences = json.loads(answer)
            service.refuse_many_characters(characters)
            return reading, [SentencePair(sentence, marks) for sentence, marks in sentences]

        stored = documents.in_thread(job, lambda: job.path.write_bytes(upload.content))
        await service.in_time([stored], scope)
        reading, pairs = await read(model)
        if is_identified and len({each.source for each in service.models_for(scope).models}) > 1:
            text = " ".join(pair.sentence for pair in pairs[:MAX_IDENTIFIED])[:MAX_IDENTIFIED]
            if (likeliest := choose_model(text)) is not model:
                model = likeliest
                reading, pairs = await read(model)
        glossary = None if choose_glossary is None else await choose_glossary(model)
        service.extend_deadline(scope, settings.document_deadline)  # it has been read within a request's own
        # Later requests of the connection are others: the translation is stopped by what concerns it alone.
        work = scope if is_awaited else {name: scope[name] for name in WORK if name in scope}
        service.note_texts(scope, [pair.sentence for pair in pairs], model)
        job.name = translated_name(upload.name, model.target)
        job.sentences = len(pairs)
        job.pairs = pairs
        job.characters = sum(len(pair.sentence) for pair in pairs)
        loaded = await service.ready(model, work)
        parts = service.translate_in_parts(loaded, [pair.segment() for pair in pairs], search, work, glossary)
        await anext(parts)  # errors until here have a status of their own
    except BaseException:
        documents.remove(job)
        raise
    return DocumentTranslation(service, job, kind, reading, parts, work, model, search)


def check_upload(upload: Upload, max_bytes: int) -> None:
    """Raise `ApiError`: 400 for an empty file or a name that is none, 413 for a file that is too large."""
    name = upload.name
    if not name:
        raise ApiError(400, "The document has no file name; its ending would tell the format.")
    if len(name.encode()) > MAX_NAME:
        raise ApiError(400, f"The document's file name has more than {MAX_NAME} bytes; send a shorter one.")
    if name in (".", "..") or not name.isprintable() or set(name) & set("/\\"):
        raise ApiError(400, f"{name!r} is no file name: it has to be without a path and control characters.")
    if not upload.content:
        raise ApiError(400, f"{name} is empty.")
    if len(upload.content) > max_bytes:
        raise ApiError(
            413, f"{name} has {len(upload.content):,} bytes, and {max_bytes:,} are allowed; divide it."
        )


def translated_name(name: str, target: str) -> str:
    """The name of a translation: report.de.docx for report.docx."""
    path = PurePath(name)
    code = target if target != UNKNOWN_LANGUAGE else "translated"
    if path.suffix.lower() in ENDINGS:
        return f"{name.removesuffix(path.suffix)}.{code}{path.suffix}"
    return f"{name}.{code}"


def find(service: Service, scope: Scope, key: str | None = None) -> Job:
    """The job whose id the path of a request has. Raises `ApiError` 404 as `Documents.find`."""
    return service.documents.find(scope["path_params"]["id"], owner_of(scope), key)


async def download(documents: Documents, job: Job) -> StreamingResponse:
    """The file of a translation. Raises `ApiError` as `Documents.open`."""
    file = await documents.open(job)
    size = os.fstat(file.fileno()).st_size

    async def chunks() -> AsyncIterator[bytes]:
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield chunk

    headers = {"Content-Length": str(size), "Content-Disposition": disposition(job.name)}
    return StreamingResponse(chunks(), headers=headers, media_type=BINARY)


def disposition(name: str) -> str:
    """The header Content-Disposition for a file's name: in ASCII, and as RFC 8187 writes all characters."""
    plain = UNSAFE.sub("_", unicodedata.normalize("NFKD", name).encode("ascii", "replace").decode())
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"

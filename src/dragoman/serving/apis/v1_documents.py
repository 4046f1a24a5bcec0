"""The routes of /v1 that translate documents."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

from dragoman.documents.formats import DocumentFormat
from dragoman.documents.terms import MAX_TERM
from dragoman.serving.apis.documents import FILES, MAX_NAME, download, find, let_in
from dragoman.serving.apis.parameters import as_list, parameters, strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.schemas import GLOSSARY, Choice, Glossaries, Strict, Texts, search_fields
from dragoman.serving.apis.uploads import BINARY, File, body_as_file
from dragoman.serving.apis.v1 import event, glossary_of, model_of, settings_of
from dragoman.serving.documents import Editor, Job, SentencePair, Upload
from dragoman.serving.errors import ApiError
from dragoman.serving.origins import DOCUMENTS
from dragoman.serving.service import MAX_TERMS, Service
from dragoman.system.wording import shown

Line = Annotated[str, Field(max_length=2 * MAX_TERM + 1)]
"""A term, a tab and its translation."""
MAX_TRANSLATION = 10_000  # characters of a sentence's translation
OF_A_SENTENCE = ("n_best", "prefix", "force_words", "ban_words", "mbr")  # settings that are not for all
EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "end"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["event", "data"],
}
EVENTS = {200: {"description": "Events.", "content": {"text/event-stream": {"schema": EVENT}}}}
LONG_QUERY = {431: {"description": "The query string is too long."}}
MAX_SENTENCES = 500  # of a document in one answer
REMOVED = {204: {"description": "The document has been removed."}}

fields = {name: field for name, field in search_fields().items() if name not in OF_A_SENTENCE}
Search: type[Choice] = create_model("DocumentSearch", __base__=Choice, **fields)


class DocumentRequest(Search):  # type: ignore[valid-type, misc]
    """How to translate a document, in the query string; the body is the document."""

    model_config = ConfigDict(strict=False)  # all values are texts

    name: str = Field(max_length=MAX_NAME, description="The name of the file. Its ending tells the format.")
    format: DocumentFormat | None = Field(None, description="The format, if the name does not tell it.")
    split_sentences: bool = Field(True, description="Cut paragraphs into sentences.")
    translate_all: bool = Field(False, description="Also translate what has a translation already.")
    ban_words: Annotated[Texts, BeforeValidator(as_list)] = Field(
        [], description="Texts that no translation may contain; repeat the parameter for several."
    )
    glossary: Glossaries = Field("", description=GLOSSARY)
    terms: Annotated[list[Line], BeforeValidator(as_list)] = Field(
        [],
        max_length=MAX_TERMS,
        description="Terms, each with a tab and its translation; repeat the parameter for several. They come "
        "before those of a glossary.",
    )
    file: File | None = None


class DocumentFailure(BaseModel):
    """Why a document could not be translated."""

    code: str
    message: str


class DocumentStatus(BaseModel):
    """A document that is being translated, or has been."""

    id: str = Field(description="Who knows it gets the translation.")
    name: str = Field(max_length=MAX_NAME, description="The file name of the translation.")
    source: str = Field(description="Language code of the document.")
    target: str
    model: str
    adapter: str
    pivot: str = Field(
        default="", description="The language through which it is translated: no model has both languages."
    )
    status: Literal["translating", "done", "failed"]
    sentences_done: int
    sentences_total: int
    error: DocumentFailure | None = Field(default=None, description="If it has failed.")


class SentencesRequest(Strict):
    """Which sentences of a document, in the query string."""

    model_config = ConfigDict(strict=False)

    start: int = Field(0, ge=0, description="The number of the first one, counted from 0.")
    count: int = Field(100, ge=1, le=MAX_SENTENCES)


class DocumentSentence(BaseModel):
    """A sentence of a document as a reader sees it: without tags, with addresses and placeholders."""

    source: str
    translation: str | None = Field(default=None, description="If the sentence has been translated.")
    is_changeable: bool = Field(
        description="Whether PUT takes another translation when the document is done."
    )


class DocumentSentences(BaseModel):
    """Sentences of a document, in order."""

    sentences_total: int
    sentences: list[DocumentSentence]


class SentenceChange(Strict):
    """Another translation of a sentence."""

    translation: str = Field(max_length=MAX_TRANSLATION, description="Without tags.")


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    uploads = Api("Dragoman", body_as_file, (BINARY,))
    api = Api("Dragoman", strict_json)
    queries = Api("Dragoman", parameters)

    @uploads.post(DOCUMENTS, described_as=LONG_QUERY)
    async def send_document(request: DocumentRequest, scope: Scope) -> DocumentStatus:
        """Begin to translate a document."""
        assert request.file is not None  # `body_as_file` gives it
        terms = list(map(pair_of_line, request.terms))
        translation = await let_in(
            service,
            Upload(request.name, request.file.content),
            scope,
            lambda text: model_of(service, request, text, scope),
            search=settings_of(service, request),
            is_identified=request.source == "auto",
            file_format=request.format,
            format_option="format",
            split=request.split_sentences,
            everything=request.translate_all,
            choose_glossary=lambda model: glossary_of(
                service, request.glossary, terms, request, model, scope
            ),
        )
        return status_of(translation.start())

    @api.get("/v1/documents/{id}")
    async def document_status(scope: Scope) -> DocumentStatus:
        """How much of a document has been translated."""
        return status_of(find(service, scope))

    @api.get("/v1/documents/{id}/events", described_as=EVENTS)
    async def document_events(scope: Scope) -> StreamingResponse:
        """The status of a document whenever it changes, as server-sent events whose data is JSON.

        `progress` while it is being translated; `end` when it is done or has failed.
        """
        job = find(service, scope)

        async def events() -> AsyncIterator[str]:
            async for _ in job.changes():
                name = "progress" if job.status == "translating" else "end"
                yield event(name, status_of(job).model_dump_json(exclude_unset=True))

        return StreamingResponse(events(), media_type="text/event-stream")

    @api.get("/v1/documents/{id}/result", described_as=FILES)
    async def document_result(scope: Scope) -> StreamingResponse:
        """The translation of a document."""
        return await download(service.documents, find(service, scope))

    @queries.get("/v1/documents/{id}/sentences")
    async def document_sentences(request: SentencesRequest, scope: Scope) -> DocumentSentences:
        """The sentences of a document with their translations, also while it is being translated."""
        pairs = find(service, scope).pairs
        part = pairs[request.start : request.start + request.count]
        return DocumentSentences(sentences_total=len(pairs), sentences=list(map(sentence_of, part)))

    @api.route("/v1/documents/{id}/sentences/{number}", "PUT")
    async def change_sentence(request: SentenceChange, scope: Scope) -> DocumentSentence:
        """Give a sentence of a document another translation, which the result then has.

        The document has to be done. The sentence is one that is changeable: without addresses and
        placeholders. If it has tags, the model places them, and the text has to be one of its alternatives.
        """
        job = find(service, scope)
        number = scope["path_params"]["number"]
        if not re.fullmatch("[0-9]{1,9}", number):
            raise ApiError(404, f"{number[:40]!r} is no number of a sentence; they are numbered from 0.")
        await editor_of(job).change(int(number), request.translation, scope)
        return sentence_of(job.pairs[int(number)])

    @api.route("/v1/documents/{id}", "DELETE", described_as=REMOVED)
    async def remove_document(scope: Scope) -> Response:
        """Stop the translation of a document, and remove it."""
        service.documents.remove(find(service, scope))
        return Response(status_code=204)

    return [*uploads.routes, *queries.routes, *api.routes]


def pair_of_line(line: str) -> list[str]:
    """A term and its translation. Raises `ApiError` 400 for a line that has no tab, or several."""
    pair = line.split("\t")
    if len(pair) != 2:
        raise ApiError(400, f"{shown(line)} is no term; send a term, a tab and its translation.")
    return pair


def editor_of(job: Job) -> Editor:
    """What translates a document that has been let in, as all have whose ids are known."""
    assert job.editor is not None
    return job.editor


def sentence_of(pair: SentencePair) -> DocumentSentence:
    """What a client gets to know of a sentence."""
    sentence = DocumentSentence(source=pair.without_marks(pair.sentence), is_changeable=not pair.keeps_text)
    if pair.translation is not None:
        sentence.translation = pair.without_marks(pair.translation)
    return sentence


def status_of(job: Job) -> DocumentStatus:
    """What a client gets to know of a job."""
    model = editor_of(job).model
    status = DocumentStatus(
        id=job.id,
        name=job.name,
        source=model.source,
        target=model.target,
        model=model.name,
        adapter=model.adapter,
        status=job.status,
        sentences_done=job.done,
        sentences_total=job.sentences,
    )
    if model.steps:
        status.pivot = model.pivot
    if job.error is not None:
        status.error = DocumentFailure(code=job.error.code, message=job.error.message)
    return status

"""The routes of DeepL's API that translate documents."""

from pathlib import PurePath
from typing import Literal

from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse
from starlette.types import Scope

from dragoman.serving.apis.deepl import Options, choose_glossary, choose_model, refuse_options
from dragoman.serving.apis.documents import FILES, download, find, let_in
from dragoman.serving.apis.parameters import FORMS, parameters
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.uploads import MULTIPART, File, form_with_file
from dragoman.serving.documents import Upload
from dragoman.serving.errors import ApiError
from dragoman.serving.service import Service

STATUS_SECONDS = 2.0  # for which the answer about a document waits; clients ask every five seconds


class DeepLDocumentRequest(Options):
    """The parameters of /v2/document; file and target_lang are required."""

    file: File | None = Field(
        default=None, description="A document; the ending of its name tells the format."
    )
    filename: str | None = Field(
        None, description="The name of the file; by default the one that the form has with the file."
    )
    target_lang: str | None = Field(default=None, max_length=35, description="Language code.")
    source_lang: str | None = Field(
        None, max_length=35, description="Language code; if it is left out, the language is identified."
    )
    output_format: str | None = Field(default=None, description="The format of the document, and no other.")


class DeepLKeyRequest(BaseModel):
    """The parameters of /v2/document/{id}."""

    document_key: str = Field("", description="From the answer of /v2/document.")


class DeepLHandle(BaseModel):
    """The two secrets with which the client of a document asks for it."""

    document_id: str
    document_key: str


class DeepLStatus(BaseModel):
    """The status of a document."""

    document_id: str
    status: Literal["translating", "done", "error"]
    billed_characters: int | None = Field(default=None, description="Of a document that is done.")
    error_message: str | None = Field(default=None, description="Of one that could not be translated.")


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    uploads = Api("DeepL", form_with_file, (MULTIPART,))
    api = Api("DeepL", parameters, FORMS)

    @uploads.post("/v2/document")
    async def send_document(request: DeepLDocumentRequest, scope: Scope) -> DeepLHandle:
        """Begin to translate a document."""
        refuse_options(request)
        upload = request.file
        if upload is None:
            raise ApiError(400, "Parameter 'file' not specified.")
        upload = Upload(request.filename or upload.name, upload.content)
        refuse_conversion(upload.name, request.output_format)
        source, target = request.source_lang or "", request.target_lang or ""
        translation = await let_in(
            service,
            upload,
            scope,
            lambda text: choose_model(service.models_for(scope), source, target, text),
            search=service.default_search,
            is_identified=not source,
            choose_glossary=choose_glossary(service, request, source, target, scope),
        )
        job = translation.start()
        service.metrics.deepl_characters += job.characters
        return DeepLHandle(document_id=job.id, document_key=job.key)

    @api.post("/v2/document/{id}")
    async def document_status(request: DeepLKeyRequest, scope: Scope) -> DeepLStatus:
        """The status of a document. The answer waits for its end, but not longer than two seconds."""
        job = find(service, scope, request.document_key)
        await job.wait(STATUS_SECONDS)
        if job.error is not None:
            return DeepLStatus(document_id=job.id, status="error", error_message=job.error.message)
        if job.status == "done":
            return DeepLStatus(document_id=job.id, status="done", billed_characters=job.characters)
        return DeepLStatus(document_id=job.id, status="translating")

    @api.post("/v2/document/{id}/result", described_as=FILES)
    async def document_result(request: DeepLKeyRequest, scope: Scope) -> StreamingResponse:
        """The translation of a document, which is removed with this."""
        job = find(service, scope, request.document_key)
        if job.status == "translating":  # DeepL's status for this, after which its clients try again
            raise ApiError(503, "Document translation is not done.", "not_ready", retry_after=1)
        response = await download(service.documents, job)
        service.documents.remove(job)
        return response

    return [*uploads.routes, *api.routes]


def refuse_conversion(name: str, output_format: str | None) -> None:
    """Raise `ApiError` 400 for a document that is to be written in another format."""
    ending = PurePath(name).suffix[1:].lower()
    if output_format and output_format.lower() != ending:
        raise ApiError(
            400,
            f"output_format is {output_format!r}, and the document is {ending!r}; this server writes "
            "documents in their own format.",
        )

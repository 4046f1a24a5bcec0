"""The routes of LibreTranslate's API that translate documents."""

from pathlib import PurePath

from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse
from starlette.types import Scope

from dragoman.documents.formats import ENDINGS
from dragoman.serving.apis.documents import FILES, download, let_in
from dragoman.serving.apis.libretranslate import choose_model, required
from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.uploads import MULTIPART, File, form_with_file
from dragoman.serving.service import Service, owner_of


class FileRequest(BaseModel):
    """A document. source and target are required."""

    file: File | None = Field(None, description="A document; the ending of its name tells the format.")
    source: str | None = Field(None, max_length=35, description="Language code; `auto` identifies it.")
    target: str | None = Field(None, max_length=35, description="Language code.")
    api_key: str | None = None


class FileResponse(BaseModel):
    """Where the translation of a document is."""

    translatedFileUrl: str  # noqa: N815 (LibreTranslate's name)


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    uploads = Api("LibreTranslate", form_with_file, (MULTIPART,))
    api = Api("LibreTranslate", strict_json)

    @uploads.post("/translate_file")
    async def translate_file(request: FileRequest, scope: Scope) -> FileResponse:
        """Translate a document. The answer comes when it is translated."""
        file, source, target = (required(request, name) for name in ("file", "source", "target"))
        translation = await let_in(
            service,
            file,
            scope,
            lambda text: choose_model(service.models_for(scope), source, target, text),
            search=service.default_search,
            is_identified=source.lower() == "auto",
            is_awaited=True,
        )
        job = translation.job
        try:
            await translation.run()
            if job.error is not None:
                raise job.error
        except BaseException:
            service.documents.remove(job)
            raise
        address = address_of(scope) + service.settings.url_prefix
        return FileResponse(translatedFileUrl=f"{address}/download_file/{job.id}{ending(job.name)}")

    @api.get("/download_file/{name}", described_as=FILES)
    async def download_file(scope: Scope) -> StreamingResponse:
        """The translation of a document."""
        job_id = scope["path_params"]["name"].partition(".")[0]
        job = service.documents.find(job_id, owner_of(scope))
        return await download(service.documents, job)

    return [*uploads.routes, *api.routes]


def address_of(scope: Scope) -> str:
    """The address of this server as the request has it. A proxy in front may have added TLS."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    scheme = "https" if headers.get("x-forwarded-proto", "").lower() == "https" else scope["scheme"]
    host, port = scope["server"]
    return f"{scheme}://{headers.get('host') or f'{host}:{port}'}"


def ending(name: str) -> str:
    """The ending of a file's name: .docx; "" if it is of no format."""
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in ENDINGS else ""

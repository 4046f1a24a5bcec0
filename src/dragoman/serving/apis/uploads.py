"""Requests with a document: a form with a file, or the file itself with parameters in the query string."""

import asyncio
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError, WithJsonSchema
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from dragoman.serving.apis.parameters import MAX_FIELDS, in_words, table
from dragoman.serving.documents import Upload
from dragoman.serving.errors import ApiError

M = TypeVar("M", bound=BaseModel)
BINARY = "application/octet-stream"
MULTIPART = "multipart/form-data"
UPLOADS = ((BINARY,), (MULTIPART,))
"""The media types of APIs that take documents."""
FILE = "file"  # the field of a form with the document
MAX_PARTS = 100  # of a form
MAX_PART = 2**16  # bytes of a field that is no file, and of the headers of a part
File = Annotated[Upload, WithJsonSchema({"type": "string", "format": "binary"})]


async def form_with_file(request: Request, model: type[M]) -> M:
    """The parameters of a form with a document, and of the query string.

    Raises `ApiError` 400 for what is no form, for several files, and for what does not fit the model.
    """
    body, content_type = await request.body(), request.headers.get("content-type", "")
    pairs = await asyncio.to_thread(read_form, body, content_type.encode("latin-1"))
    files = [part for _, part in pairs if isinstance(part, Upload)]
    if len(files) > 1:
        raise ApiError(400, f"The form has {len(files)} files; send one document in a request.")
    values = query(request) | table([(name, part) for name, part in pairs if isinstance(part, str)])
    values.pop(FILE, None)
    try:
        return model.model_validate(values | ({FILE: files[0]} if files else {}))
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {in_words(error)}.") from error


async def body_as_file(request: Request, model: type[M]) -> M:
    """The parameters of the query string, and the body as the document, in the field `file`.

    Raises `ApiError` 400 for what does not fit the model.
    """
    try:
        parameters = model.model_validate(query(request))
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {in_words(error)}.") from error
    return parameters.model_copy(update={FILE: Upload("", await request.body())})


def query(request: Request) -> dict[str, Any]:
    """The parameters of the query string. Raises `ApiError` 400 for too many."""
    try:
        return table(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise ApiError(400, f"The query string has more than {MAX_FIELDS:,} parameters.") from error


def read_form(body: bytes, content_type: bytes) -> list[tuple[str, str | Upload]]:
    """The parts of a form by their names.

    Raises `ApiError` 400 for a body that is no multipart/form-data, is damaged, or has too many fields.
    """
    kind, options = parse_options_header(content_type)
    if kind.decode("latin-1").lower() != MULTIPART or not options.get(b"boundary"):
        raise ApiError(400, f"The body has to be {MULTIPART}, with the document in the field {FILE!r}.")
    form = Form()
    try:
        parser = MultipartParser(options[b"boundary"], form.callbacks())  # type: ignore[arg-type]
        parser.write(body)
        parser.finalize()
        if not form.is_complete:
            raise ApiError(400, f"The body cannot be read as {MULTIPART}: it has no end.")
        return form.parts()
    except (FormParserError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body cannot be read as {MULTIPART}: {error}.") from error


class Form:
    """What `MultipartParser` finds in a body."""

    def __init__(self) -> None:
        self.is_complete = False
        self._header = bytearray(), bytearray()  # its name and its value
        self._disposition = b""
        self._content = bytearray()
        self._parts: list[tuple[bytes, bytes | None, bytearray]] = []

    def callbacks(self) -> dict[str, Any]:
        """The methods by the names that the parser has for them."""
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda *data: self._add_to_header(0, *data),
            "on_header_value": lambda *data: self._add_to_header(1, *data),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_content,
            "on_part_data": self._add_content,
            "on_end": self._end,
        }

    def parts(self) -> list[tuple[str, str | Upload]]:
        """The parts by their names; those with the name of a file, and the field `file`, are files."""
        return [
            (
                name.decode(),
                content.decode() if file_name is None else Upload(file_name.decode(), bytes(content)),
            )
            for name, file_name, content in self._parts
        ]

    def _begin_part(self) -> None:
        self._header, self._disposition = (bytearray(), bytearray()), b""
        if len(self._parts) == MAX_PARTS:
            raise ApiError(400, f"The form has more than {MAX_PARTS} fields.")

    def _add_to_header(self, side: int, data: bytes, start: int, end: int) -> None:
        self._header[side].extend(data[start:end])
        if len(self._header[side]) > MAX_PART:
            raise ApiError(400, f"The form has a header of more than {MAX_PART:,} bytes.")

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = bytearray(), bytearray()

    def _begin_content(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise ApiError(400, "The form has a field without a name.")
        is_file = options[b"name"] == FILE.encode()
        self._content = bytearray()
        self._parts.append(
            (options[b"name"], options.get(b"filename", b"" if is_file else None), self._content)
        )

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        name, file_name, content = self._parts[-1]
        content += memoryview(data)[start:end]
        if file_name is None and len(content) > MAX_PART:
            raise ApiError(400, f"The field {name[:40]!r} has more than {MAX_PART:,} bytes.")

    def _end(self) -> None:
        self.is_complete = True

"""DeepL's API, version 2: https://developers.deepl.com/docs. Its clients work against this server."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field

from dragoman.search.settings import SearchSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.languages import language_name
from dragoman.serving.parameters import described, parameters
from dragoman.serving.service import Service
from dragoman.translation import markup
from dragoman.translation.documents import Document, plain_text

MAX_TEXTS = 50  # DeepL's own limit
WITHOUT_LIMIT = 1_000_000_000_000  # the characters that /v2/usage says are allowed


def as_list(value: Any) -> Any:
    """A list of one value for a value that is not a list."""
    return value if isinstance(value, list) else [value]


def split_commas(value: Any) -> Any:
    """The names in a text with commas, or in a list of such texts."""
    if value is None:
        return []
    return [name.strip() for part in as_list(value) for name in str(part).split(",") if name.strip()]


Names = Annotated[list[str], BeforeValidator(split_commas)]


class TranslateParameters(BaseModel):
    """The parameters of /v2/translate. Those that only style a translation are accepted without effect."""

    text: Annotated[list[str], BeforeValidator(as_list)] = Field(description="Texts, 50 at most.")
    target_lang: str = Field(max_length=35)
    source_lang: str | None = Field(None, max_length=35)
    tag_handling: Literal["xml", "html", "", None] = None
    ignore_tags: Names = []
    split_sentences: Literal["0", "1", "nonewlines", 0, 1, True, False, None] = "1"
    preserve_formatting: Any = None
    context: str | None = Field(None, description="Accepted, and not used by these models.")
    formality: str | None = None
    glossary_id: str | None = None
    style_id: str | None = None


class LanguagesParameters(BaseModel):
    """The parameters of /v2/languages."""

    type: Literal["source", "target"] = "source"


def router(service: Service) -> APIRouter:
    """The routes of DeepL."""
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    characters = 0

    @routes.post("/translate", openapi_extra=described(TranslateParameters))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate texts."""
        nonlocal characters
        asked = await parameters(request, TranslateParameters)
        refuse_unsupported(asked)
        source = asked.source_lang or "auto"
        model = service.models.between(source, asked.target_lang, " ".join(asked.text))
        documents = await service.cut(
            lambda text: document_of(asked, text, model.source), asked.text, request
        )
        found = await service.translate(model, documents, SearchSettings(), request)
        characters += sum(map(len, asked.text))
        return {
            "translations": [
                {
                    "detected_source_language": model.source.upper(),
                    "text": document.join([best[0].text for best in n_best]),
                    "billed_characters": len(text),
                }
                for text, document, n_best in zip(asked.text, documents, found, strict=True)
            ]
        }

    @routes.api_route("/languages", methods=["GET", "POST"])
    async def languages(request: Request) -> list[dict[str, Any]]:
        """The languages that are read, or those that are written."""
        asked = await parameters(request, LanguagesParameters)
        pairs = service.models.pairs
        codes = pairs if asked.type == "source" else {code for codes in pairs.values() for code in codes}
        extra = {"supports_formality": False} if asked.type == "target" else {}
        return [{"language": code.upper(), "name": language_name(code), **extra} for code in sorted(codes)]

    @routes.api_route("/usage", methods=["GET", "POST"])
    async def usage() -> dict[str, int]:
        """Characters translated since this process began. There is no limit."""
        return {"character_count": characters, "character_limit": WITHOUT_LIMIT}

    for path in ("/document", "/glossaries", "/glossary-language-pairs", "/write/rephrase"):
        for inner in (path, path + "/{rest:path}"):
            routes.add_api_route(
                inner, not_supported, methods=["GET", "POST", "DELETE"], include_in_schema=False
            )
    return routes


async def not_supported(request: Request) -> None:
    """Parts of DeepL's API that this server does not have."""
    raise ApiError(400, f"This server does not support {request.url.path}; it translates texts.")


def refuse_unsupported(asked: TranslateParameters) -> None:
    """Raise `ApiError` 400 for what these models cannot do, and for too many texts."""
    if len(asked.text) > MAX_TEXTS:
        raise ApiError(400, f"The request has {len(asked.text)} texts; {MAX_TEXTS} are allowed.")
    if asked.glossary_id or asked.style_id:
        name = "glossary_id" if asked.glossary_id else "style_id"
        raise ApiError(400, f"{name} is not supported by this server; leave it out.")
    if asked.formality and asked.formality != "default" and not asked.formality.startswith("prefer_"):
        raise ApiError(
            400,
            f"formality is {asked.formality!r}, which this server's models do not support; leave it out, or "
            "give prefer_more or prefer_less.",
        )


def document_of(asked: TranslateParameters, text: str, language: str) -> Document:
    """A text of a request as sentences."""
    split = asked.split_sentences not in ("0", 0, False)
    if asked.tag_handling == "html":
        return markup.html(text, language, split)
    if asked.tag_handling == "xml":
        return markup.xml(text, language, ignore_tags=asked.ignore_tags, split=split)
    return plain_text(text, language, split)

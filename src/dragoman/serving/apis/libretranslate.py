"""LibreTranslate's API: https://docs.libretranslate.com/api/. Its clients work against this server."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.parameters import described, parameters
from dragoman.serving.errors import ApiError
from dragoman.serving.languages import detected, language_name, listed, listed_pairs, load_identifier, percent
from dragoman.serving.models import Models, ServedModel, matches
from dragoman.serving.service import NBest, Service
from dragoman.serving.settings import ServerSettings
from dragoman.text.quality.identification import identify
from dragoman.translation import markup
from dragoman.translation.documents import Document, plain_text

Texts = str | Annotated[list[str], Field(fail_fast=True)]
ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}  # codes of LibreTranslate's models, which it accepts
MAX_DETECTIONS = 3  # of /detect, as LibreTranslate


class TranslateParameters(BaseModel):
    """The parameters of /translate. q, source and target are required."""

    q: Texts | None = Field(None, description="A text, or a list of texts.")
    source: str | None = Field(None, max_length=35, description="Language code; `auto` identifies it.")
    target: str | None = Field(None, max_length=35, description="Language code.")
    format: str | None = Field(None, description="`text`, which is the default, or `html`.")
    alternatives: int | str | None = Field(None, description="Number of other translations.")
    api_key: str | None = None


class DetectParameters(BaseModel):
    """The parameters of /detect."""

    q: Texts | None = None
    api_key: str | None = None


def router(service: Service) -> APIRouter:
    """The routes of LibreTranslate."""
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post("/translate", openapi_extra=described(TranslateParameters))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text or several."""
        params = await parameters(request, TranslateParameters)
        q, source, target = (required(params, name) for name in ("q", "source", "target"))
        count = alternatives_of(params, service.settings)
        texts = [q] if isinstance(q, str) else q
        if len(texts) > service.settings.max_texts:
            raise invalid(f"request ({len(texts)}) exceeds text limit ({service.settings.max_texts})")
        model = choose_model(service.models, source, target, " ".join(texts))
        cut = cutter(params.format)
        documents = await service.cut(lambda text: cut(text, model.source), texts, request.scope)
        search = with_alternatives(service.default_search, count)
        results = await service.translate(model, documents, search, request.scope)
        pairs = list(zip(documents, results, strict=True))
        answer: dict[str, Any] = {"translatedText": [joined(*pair, 0) for pair in pairs]}
        if source.lower() == "auto":
            await load_identifier()
            answer["detectedLanguage"] = [detection(text, model, service.models) for text in texts]
        if count:
            answer["alternatives"] = [alternatives(*pair, count) for pair in pairs]
        return answer if isinstance(q, list) else {name: value[0] for name, value in answer.items()}

    @routes.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The languages, each with those into which it is translated."""
        return [
            {"code": code, "name": language_name(code), "targets": targets}
            for code, targets in listed_pairs(service.models.pairs).items()
        ]

    @routes.post("/detect", openapi_extra=described(DetectParameters))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """The languages that a text may be written in, likeliest first."""
        q = required(await parameters(request, DetectParameters), "q")
        codes = listed(service.models.languages)
        await load_identifier()
        detections = identify(q if isinstance(q, str) else " ".join(q), codes)[:MAX_DETECTIONS]
        if not detections:  # clients read the first one
            detections = [("en" if "en" in codes else codes[0], 0.0)]
        return [{"language": code, "confidence": percent(share)} for code, share in detections]

    @routes.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What a frontend needs to know."""
        targets = listed([service.models.models[0].target])
        target = "en" if "en" in targets else targets[0]
        return {
            "apiKeys": service.settings.api_keys is not None,
            "keyRequired": service.settings.api_keys is not None,
            "charLimit": min(service.settings.max_body, service.max_characters),
            "frontendTimeout": 500,
            "filesTranslation": False,
            "suggestions": False,
            "supportedFilesFormat": [],
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": target, "name": language_name(target)},
            },
        }

    @routes.post("/translate_file")
    async def translate_file() -> None:
        """This server does not translate files."""
        raise ApiError(403, "Files translation are disabled on this server.")

    @routes.get("/download_file/{name}", include_in_schema=False)
    async def download_file() -> None:
        """This server does not translate files."""
        raise ApiError(400, "Files translation are disabled on this server.")

    @routes.post("/suggest")
    async def suggest() -> None:
        """This server does not accept suggestions."""
        raise ApiError(403, "Suggestions are disabled on this server.")

    return routes


def invalid(reason: str) -> ApiError:
    """The error of a wrong parameter, in LibreTranslate's words."""
    return ApiError(400, f"Invalid request: {reason}")


def required(params: BaseModel, name: str) -> Any:
    """A parameter. Raises `ApiError` 400 if it is missing or empty."""
    value = getattr(params, name)
    if not value:
        raise invalid(f"missing {name} parameter")
    return value


def alternatives_of(params: TranslateParameters, settings: ServerSettings) -> int:
    """The number of other translations. Raises `ApiError` 400 for what is no number, and for too many."""
    try:
        count = max(0, int(params.alternatives or 0))
    except ValueError as error:
        raise invalid("alternatives parameter is not a number") from error
    limit = min(settings.max_beam_size, settings.max_n_best) - 1
    if count > limit:
        raise invalid(f"alternatives parameter must be <= {limit}")
    return count


def choose_model(models: Models, source: str, target: str, text: str) -> ServedModel:
    """The model for a request's languages; `auto` stands for the language of the text.

    Raises `ApiError` 400, in LibreTranslate's words, for languages that are not served.
    """
    source, target = (ALIASES.get(code.lower(), code) for code in (source, target))
    source = "auto" if source.lower() == "auto" else source
    for code in (target,) if source == "auto" else (source, target):
        if not any(matches(code, language) for language in models.languages):
            raise ApiError(400, f"{code} is not supported")
    try:
        return models.between(source, target, text)
    except ApiError as error:
        from_source = "any language" if source == "auto" else f"{language_name(source)} ({source})"
        raise ApiError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from {from_source}",
            error.code,
        ) from error


def cutter(name: str | None) -> Callable[[str, str], Document]:
    """What cuts a text of this format into sentences. Raises `ApiError` 400 for an unknown format."""
    if name == "html":
        return markup.html
    if name and name != "text":
        raise ApiError(400, f"{name} format is not supported")
    return plain_text


def with_alternatives(search: SearchSettings, count: int) -> SearchSettings:
    """The search for a translation and `count` others."""
    return replace(search, n_best=count + 1, beam_size=max(search.beam_size, count + 1))


def joined(document: Document, n_best: NBest, rank: int) -> str:
    """The document with the translation of this rank of each sentence, or its last one."""
    return document.join([best[min(rank, len(best) - 1)].text for best in n_best])


def alternatives(document: Document, n_best: NBest, count: int) -> list[str]:
    """At most `count` other translations of the document, each of them once."""
    texts = dict.fromkeys(joined(document, n_best, rank) for rank in range(count + 1))
    return list(texts)[1:]


def detection(text: str, model: ServedModel, models: Models) -> dict[str, Any]:
    """The source language of a text that a model has translated."""
    language, confidence = detected(text, model.source, listed(models.languages))
    return {"language": language, "confidence": confidence}

"""LibreTranslate's API: https://docs.libretranslate.com/api/. Its clients work against this server."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from dragoman.documents import markup
from dragoman.documents.document import Document
from dragoman.documents.formats import ENDINGS
from dragoman.documents.plain import plain_text
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.parameters import FORMS, parameters
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.cache import NBest
from dragoman.serving.errors import ApiError
from dragoman.serving.languages import detected, language_name, listed, listed_pairs, load_identifier, percent
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.serving.suggestions import add_suggestion
from dragoman.text.language_codes import matches
from dragoman.text.quality.identification import identify
from dragoman.text.settings import Languages

Texts = str | Annotated[list[str], Field(fail_fast=True)]
ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}  # codes of LibreTranslate's models, which it accepts
MAX_DETECTIONS = 3  # of /detect, as LibreTranslate


class LibreTranslateRequest(BaseModel):
    """The parameters of /translate. q, source and target are required."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"q": "A man rides a bike.", "source": "auto", "target": "de"}]}
    )

    q: Texts | None = Field(None, description="A text, or a list of texts.")
    source: str | None = Field(None, max_length=35, description="Language code; `auto` identifies it.")
    target: str | None = Field(None, max_length=35, description="Language code.")
    format: str | None = Field(None, description="`text`, which is the default, or `html`.")
    alternatives: int | str | None = Field(None, description="Number of other translations.")
    api_key: str | None = None


class DetectRequest(BaseModel):
    """The parameters of /detect."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"q": "A man rides a bike."}]})

    q: Texts | None = None
    api_key: str | None = None


class SuggestRequest(BaseModel):
    """The parameters of /suggest. All but api_key are required."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"q": "A man rides a bike.", "s": "Ein Mann fährt Rad.", "source": "en", "target": "de"}
            ]
        }
    )

    q: str | None = Field(None, description="A text.")
    s: str | None = Field(None, description="Its translation as it should be.")
    source: str | None = Field(None, max_length=35, description="Language code; `auto` identifies it.")
    target: str | None = Field(None, max_length=35, description="Language code.")
    api_key: str | None = None


class SuggestResponse(BaseModel):
    """The suggestion is kept."""

    success: bool


class DetectedLanguage(BaseModel):
    """A language that a text may be written in."""

    language: str
    confidence: float = Field(description="In percent.")


class LibreTranslateResponse(BaseModel):
    """The translation of one text; of a list of texts, a list in each field."""

    translatedText: str | list[str]  # noqa: N815 (LibreTranslate's name)
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        None, description="If `source` is `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="If the request asks for some."
    )


class LibreTranslateLanguage(BaseModel):
    """A language, and those that it is translated into."""

    code: str
    name: str
    targets: list[str]


class Language(BaseModel):
    """A language of a frontend's menus."""

    code: str
    name: str


class FrontendLanguages(BaseModel):
    """The languages that a frontend begins with."""

    source: Language
    target: Language


class FrontendSettings(BaseModel):
    """What a frontend needs to know."""

    apiKeys: bool  # noqa: N815 (LibreTranslate's names)
    keyRequired: bool  # noqa: N815
    charLimit: int = Field(description="The most characters of a request.")  # noqa: N815
    frontendTimeout: int = Field(description="Milliseconds after the last key.")  # noqa: N815
    filesTranslation: bool  # noqa: N815
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815
    language: FrontendLanguages


def routes(service: Service) -> list[ApiRoute]:
    """The routes of LibreTranslate."""
    api = Api("LibreTranslate", parameters, FORMS)

    @api.post("/translate")
    async def translate(request: LibreTranslateRequest, scope: Scope) -> LibreTranslateResponse:
        """Translate a text or several."""
        q, source, target = (required(request, name) for name in ("q", "source", "target"))
        count = alternatives_of(request, service.settings)
        texts = [q] if isinstance(q, str) else q
        if len(texts) > service.settings.max_texts:
            raise invalid(f"request ({len(texts)}) exceeds text limit ({service.settings.max_texts})")
        chosen = await choose_ready(service, source, target, " ".join(texts), scope)
        model = await service.ready(chosen, scope)
        cut = cutter(request.format)
        documents = await service.cut(lambda text: cut(text, model.source), texts, scope)
        search = with_alternatives(service.default_search, count)
        results = await service.translate(model, documents, search, scope)
        pairs = list(zip(documents, results, strict=True))
        answer: dict[str, list[Any]] = {"translatedText": [joined(*pair, 0) for pair in pairs]}
        if source.lower() == "auto":
            await load_identifier()
            answer["detectedLanguage"] = [detection(text, model, service.models_for(scope)) for text in texts]
        if count:
            answer["alternatives"] = [alternatives(*pair, count) for pair in pairs]
        is_list = isinstance(q, list)
        return LibreTranslateResponse(
            **{name: values if is_list else values[0] for name, values in answer.items()}
        )

    @api.get("/languages")
    async def languages(scope: Scope) -> list[LibreTranslateLanguage]:
        """The languages, each with those into which it is translated.

        It needs no key. With one, they are those of the models that the key may use.
        """
        pairs = service.models_for(scope).pairs
        return languages_of(tuple((source, tuple(targets)) for source, targets in pairs.items()))

    @api.post("/detect")
    async def detect(request: DetectRequest, scope: Scope) -> list[DetectedLanguage]:
        """The languages that a text may be written in, likeliest first."""
        q = required(request, "q")
        codes = listed(service.models_for(scope).languages)
        await load_identifier()
        detections = identify(q if isinstance(q, str) else " ".join(q), codes)[:MAX_DETECTIONS]
        if not detections:  # clients read the first one
            detections = [("en" if "en" in codes else codes[0], 0.0)]
        return [DetectedLanguage(language=code, confidence=percent(share)) for code, share in detections]

    @api.get("/frontend/settings")
    async def settings(scope: Scope) -> FrontendSettings:
        """What a frontend needs to know."""
        targets = listed([service.models_for(scope).models[0].target])
        target = "en" if "en" in targets else targets[0]
        needs_key = service.settings.api_keys is not None
        return FrontendSettings(
            apiKeys=needs_key,
            keyRequired=needs_key,
            charLimit=min(service.settings.max_body, service.max_characters),
            frontendTimeout=500,
            filesTranslation=True,
            suggestions=service.settings.suggestions is not None,
            supportedFilesFormat=[suffix for suffix in ENDINGS if suffix],
            language=FrontendLanguages(
                source=Language(code="auto", name="Auto Detect"),
                target=Language(code=target, name=language_name(target)),
            ),
        )

    @api.post("/suggest")
    async def suggest(request: SuggestRequest, scope: Scope) -> SuggestResponse:
        """Keep a better translation of a text, if the server has a file for suggestions."""
        path, max_bytes = service.settings.suggestions, service.settings.max_suggestions
        if path is None:
            raise ApiError(403, "Suggestions are disabled on this server.")
        q, s, source, target = (required(request, name) for name in ("q", "s", "source", "target"))
        model = await choose_ready(service, source, target, q, scope)
        service.note_texts(scope, [q, s], model)
        is_identified = source.lower() == "auto"
        languages = Languages(model.source if is_identified else ALIASES.get(source, source), target)
        await asyncio.to_thread(add_suggestion, path, max_bytes, q, s, languages)
        return SuggestResponse(success=True)

    return api.routes


@lru_cache(16)  # for all models, and for keys that may use some of them: unknown languages take milliseconds
def languages_of(pairs: tuple[tuple[str, tuple[str, ...]], ...]) -> list[LibreTranslateLanguage]:
    """The languages with those into which each is translated, of models with these targets of each source."""
    return [
        LibreTranslateLanguage(code=code, name=language_name(code), targets=targets)
        for code, targets in listed_pairs(dict(pairs)).items()
    ]


def invalid(reason: str) -> ApiError:
    """The error of a wrong parameter, in LibreTranslate's words."""
    return ApiError(400, f"Invalid request: {reason}")


def required(request: BaseModel, name: str) -> Any:
    """A parameter. Raises `ApiError` 400 if it is missing or empty."""
    value = getattr(request, name)
    if not value:
        raise invalid(f"missing {name} parameter")
    return value


def alternatives_of(request: LibreTranslateRequest, settings: ServerSettings) -> int:
    """The number of other translations. Raises `ApiError` 400 for what is no number, and for too many."""
    try:
        count = max(0, int(request.alternatives or 0))
    except ValueError as error:
        raise invalid("alternatives parameter is not a number") from error
    limit = min(settings.max_beam_size, settings.max_n_best) - 1
    if count > limit:
        raise invalid(f"alternatives parameter must be <= {limit}")
    return count


async def choose_ready(service: Service, source: str, target: str, text: str, scope: Scope) -> ServedModel:
    """As `choose_model`, when the language of the text can be identified."""
    code = ALIASES.get(target.lower(), target)
    await service.ready_to_choose(scope, code, is_identified=source.lower() == "auto")
    return choose_model(service.models_for(scope), source, target, text)


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


def detection(text: str, model: ServedModel, models: Models) -> DetectedLanguage:
    """The source language of a text that a model has translated."""
    language, confidence = detected(text, model.source, listed(models.languages))
    return DetectedLanguage(language=language, confidence=confidence)

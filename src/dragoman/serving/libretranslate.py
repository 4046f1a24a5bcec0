"""LibreTranslate's API: https://docs.libretranslate.com/api. Its clients work against this server."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from dragoman.search.settings import SearchSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.languages import identify, language_name
from dragoman.serving.parameters import described, parameters
from dragoman.serving.service import NBest, Service, user_errors
from dragoman.translation import markup
from dragoman.translation.documents import Document, plain_text

Texts = str | list[str]


class TranslateParameters(BaseModel):
    """The parameters of /translate."""

    q: Texts = Field(description="A text, or a list of texts.")
    source: str = Field("auto", max_length=35)
    target: str = Field("", max_length=35)
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0
    api_key: str | None = None


class DetectParameters(BaseModel):
    """The parameters of /detect."""

    q: Texts
    api_key: str | None = None


def router(service: Service) -> APIRouter:
    """The routes of LibreTranslate."""
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post("/translate", openapi_extra=described(TranslateParameters))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text or several."""
        asked = await parameters(request, TranslateParameters)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        if len(texts) > service.settings.max_texts:
            raise ApiError(
                400, f"The request has {len(texts)} texts; this server allows {service.settings.max_texts}."
            )
        model = service.models.between(asked.source, asked.target, " ".join(texts))
        cut = markup.html if asked.format == "html" else plain_text
        documents = await service.cut(lambda text: cut(text, model.source), texts, request)
        with user_errors():
            search = with_alternatives(asked.alternatives)
        found = await service.translate(model, documents, search, request)
        pairs = list(zip(documents, found, strict=True))
        answer: dict[str, Any] = {"translatedText": [joined(*pair, 0) for pair in pairs]}
        if asked.source == "auto":
            answer["detectedLanguage"] = [
                {"language": model.source, "confidence": confidence(text, model.source, service)}
                for text in texts
            ]
        if asked.alternatives:
            answer["alternatives"] = [
                [joined(*pair, rank) for rank in range(1, asked.alternatives + 1)] for pair in pairs
            ]
        return answer if isinstance(asked.q, list) else {name: value[0] for name, value in answer.items()}

    @routes.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The languages, and into which each is translated."""
        return [
            {"code": source, "name": language_name(source), "targets": targets}
            for source, targets in service.models.pairs.items()
        ]

    @routes.post("/detect", openapi_extra=described(DetectParameters))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """The languages that a text may be written in, likeliest first."""
        asked = await parameters(request, DetectParameters)
        text = asked.q if isinstance(asked.q, str) else " ".join(asked.q)
        found = identify(text, service.models.pairs)
        return [{"language": code, "confidence": round(100 * share, 1)} for code, share in found]

    @routes.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What a frontend has to know."""
        source, targets = next(iter(service.models.pairs.items()))
        return {
            "apiKeys": service.settings.api_keys is not None,
            "keyRequired": service.settings.api_keys is not None,
            "charLimit": service.settings.max_body,
            "frontendTimeout": 500,
            "filesTranslation": False,
            "suggestions": False,
            "supportedFilesFormat": [],
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": targets[0], "name": language_name(targets[0])},
            },
        }

    @routes.post("/translate_file")
    async def translate_file() -> None:
        """This server translates no files."""
        raise ApiError(403, "Files translation is disabled on this server.")

    @routes.post("/suggest")
    async def suggest() -> None:
        """This server takes no suggestions."""
        raise ApiError(403, "Suggestions are disabled on this server.")

    return routes


def with_alternatives(count: int) -> SearchSettings:
    """The search for a translation and so many others."""
    default = SearchSettings()
    return SearchSettings(n_best=count + 1, beam_size=max(default.beam_size, count + 1))


def joined(document: Document, n_best: NBest, rank: int) -> str:
    """The document with the translation of this rank of each sentence, or its last one."""
    return document.join([best[min(rank, len(best) - 1)].text for best in n_best])


def confidence(text: str, language: str, service: Service) -> float:
    """The probability in percent that a text is in the language, among those that are served."""
    found = dict(identify(text, service.models.pairs))
    return round(100 * found.get(language, 0.0), 1)

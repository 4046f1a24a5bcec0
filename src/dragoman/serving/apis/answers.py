"""What routes answer whose answers no model of `schemas.py` makes: their description alone."""

from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

# ---- /v1


class ModelDescription(BaseModel):
    """A model that is served."""

    name: str
    source: str = Field(description="Language code of the texts; `und` if it is unknown.")
    target: str = Field(description="Language code of the translations.")
    source_name: str
    target_name: str
    architecture: str
    parameters: int = Field(description="Number of parameters; tied weights count once.")
    precision: str = Field(description="Of the weights that translate.")
    adapters: list[str] = Field(description="Names that a request can give as `adapter`.")


class ModelsResponse(BaseModel):
    """All models."""

    models: list[ModelDescription]
    max_n_best: int = Field(description="The largest `n_best`, with a `beam_size` of as many.")


class Alternative(BaseModel):
    """A token that can come after the prefix, and the best translation that begins with both."""

    token: str
    text: str
    log_probability: float | None = Field(description="Of the token, in nats; null for probability 0.")
    score: float = Field(description="Of the translation: log-probability over length penalty.")


class AlternativesResponse(BaseModel):
    """The likeliest tokens, the likeliest first."""

    alternatives: list[Alternative]


class TokenScore(BaseModel):
    """A token of a given translation."""

    token: str
    log_probability: float = Field(description="In nats, after the tokens before it.")


class Score(BaseModel):
    """The score of a given translation."""

    log_probability: float = Field(description="In nats: the sum over its tokens.")
    tokens: list[TokenScore]


class ScoreResponse(BaseModel):
    """The scores, in the order of the pairs."""

    scores: list[Score]


# ---- LibreTranslate


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


# ---- DeepL


class DeepLTranslation(BaseModel):
    """The translation of a text."""

    detected_source_language: str
    text: str
    billed_characters: int


class DeepLResponse(BaseModel):
    """The translations, in the order of the texts."""

    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = Field(None, description="Of target languages: false.")


class DeepLUsage(BaseModel):
    """Characters translated since the process began, and those allowed, which is no limit."""

    character_count: int
    character_limit: int


ANSWERS: dict[str, Any] = {
    "/v1/models": ModelsResponse,
    "/v1/alternatives": AlternativesResponse,
    "/v1/score": ScoreResponse,
    "/translate": LibreTranslateResponse,
    "/languages": list[LibreTranslateLanguage],
    "/detect": list[DetectedLanguage],
    "/v2/translate": DeepLResponse,
    "/v2/languages": list[DeepLLanguage],
    "/v2/usage": DeepLUsage,
}
"""What a path answers with status 200."""


def answer_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of `ANSWERS` by path, and those that they refer to by name."""
    schemas, shared = TypeAdapter.json_schemas(
        [(path, "validation", TypeAdapter(kind)) for path, kind in ANSWERS.items()],
        ref_template="#/components/schemas/{model}",
    )
    return {path: schema for (path, _), schema in schemas.items()}, shared["$defs"]

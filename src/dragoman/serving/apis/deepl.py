"""DeepL's API, version 2: https://developers.deepl.com/docs. Its clients work against this server."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.types import Scope

from dragoman.documents import markup
from dragoman.documents.document import Document
from dragoman.documents.plain import plain_text
from dragoman.serving.apis.parameters import FORMS, as_list, parameters
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import MAX_GLOSSARIES
from dragoman.serving.languages import detected, language_name, listed, load_identifier
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.scrape import answers_of_others
from dragoman.serving.service import Service
from dragoman.text.language_codes import matches
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.translation.glossary import Glossary

MAX_TEXTS = 50  # DeepL's own limit
MAX_NAMES = 1_000  # of tags; each is compared with the tags of every text
UNSUPPORTED = ("style_id", "translation_memory_id", "custom_instructions")
VARIANTS = {"EN": ["EN-GB", "EN-US"], "PT": ["PT-BR", "PT-PT"]}
"""Target languages in place of those that DeepL's own clients refuse."""
WITHOUT_LIMIT = 1_000_000_000_000  # the characters that /v2/usage says are allowed


def split_commas(value: Any) -> Any:
    """The names in a text with commas, or in a list of such texts."""
    if value is None:
        return []
    return [name.strip() for part in as_list(value) for name in str(part).split(",") if name.strip()]


Texts = Annotated[list[str], Field(fail_fast=True)]
Names = Annotated[list[str], BeforeValidator(split_commas), Field(max_length=MAX_NAMES)]


class Options(BaseModel):
    """Parameters of texts and documents."""

    glossary_id: str | None = Field(
        None, description="A glossary of /v3/glossaries for the languages, which have to be given both."
    )
    glossary_ids: Annotated[list[str], BeforeValidator(split_commas)] = Field(
        [],
        max_length=MAX_GLOSSARIES,
        description="Instead of glossary_id: several, of which the first that has a term counts.",
    )
    formality: str | None = None
    style_id: str | None = None
    translation_memory_id: str | None = None
    custom_instructions: Texts | str | None = None


class DeepLRequest(Options):
    """The parameters of /v2/translate; text and target_lang are required.

    Others, such as model_type and preserve_formatting, are accepted but have no effect.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": ["A man rides a bike."], "target_lang": "DE"}]}
    )

    text: Annotated[Texts, BeforeValidator(as_list)] = Field([], description="Texts, 50 at most.")
    target_lang: str | None = Field(None, max_length=35, description="Language code.")
    source_lang: str | None = Field(
        None, max_length=35, description="Language code; if it is left out, the language is identified."
    )
    tag_handling: Literal["xml", "html", "", None] = None
    ignore_tags: Names = []
    splitting_tags: Names = []
    non_splitting_tags: Names = []
    outline_detection: Literal["0", "1", 0, 1, True, False, None] = "1"
    split_sentences: Literal["0", "1", "nonewlines", 0, 1, True, False, None] = "1"
    context: str | None = Field(None, description="Accepted, but these models do not use it.")


class DeepLLanguagesRequest(BaseModel):
    """The parameters of /v2/languages."""

    type: Literal["source", "target"] = "source"


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
    supports_formality: bool | None = Field(default=None, description="Of target languages: false.")


class DeepLUsage(BaseModel):
    """Characters translated since the process began, and those allowed, which is no limit."""

    character_count: int
    character_limit: int


def routes(service: Service) -> list[ApiRoute]:
    """The routes of DeepL."""
    api = Api("DeepL", parameters, FORMS)

    @api.route("/v2/translate", "GET", "POST")
    async def translate(request: DeepLRequest, scope: Scope) -> DeepLResponse:
        """Translate texts."""
        refuse_unsupported(request, min(MAX_TEXTS, service.settings.max_texts))
        source, target = request.source_lang or "", request.target_lang or ""
        await service.ready_to_choose(scope, target, is_identified=not source)
        chosen = choose_model(service.models_for(scope), source, target, " ".join(request.text))
        model = await service.ready(chosen, scope)
        documents = await service.cut(
            lambda text: document_of(request, text, model.source), request.text, scope
        )
        glossary = await choose_glossary(service, request, source, target, scope)(model)
        results = await service.translate(model, documents, service.default_search, scope, glossary)
        service.metrics.deepl_characters += sum(map(len, request.text))
        await load_identifier()
        return DeepLResponse(
            translations=[
                DeepLTranslation(
                    detected_source_language=source_of(request, text, model, service.models_for(scope)),
                    text=document.join([best[0].text for best in n_best]),
                    billed_characters=len(text),
                )
                for text, document, n_best in zip(request.text, documents, results, strict=True)
            ]
        )

    @api.route("/v2/languages", "GET", "POST")
    async def languages(request: DeepLLanguagesRequest, scope: Scope) -> list[DeepLLanguage]:
        """The languages that are read, or those that are written."""
        models = service.models_for(scope).models
        if request.type == "source":
            codes = {base(code) for code in listed(model.source for model in models)}
            return [DeepLLanguage(language=code, name=language_name(code)) for code in sorted(codes)]
        written = listed(model.target for model in models)
        codes = {variant for code in written for variant in VARIANTS.get(code.upper(), [code.upper()])}
        return [
            DeepLLanguage(language=code, name=language_name(code), supports_formality=False)
            for code in sorted(codes)
        ]

    @api.route("/v2/usage", "GET", "POST")
    async def usage(scope: Scope) -> DeepLUsage:
        """Characters translated since the server's processes began. There is no limit."""
        others = await answers_of_others(service, scope)
        characters = sum(json.loads(answer)["character_count"] for answer in others.values())
        return DeepLUsage(
            character_count=service.metrics.deepl_characters + characters, character_limit=WITHOUT_LIMIT
        )

    for path in ("/v2/glossaries", "/v2/write", "/v3"):
        for inner in (path, path + "/{rest:path}"):
            api.route(inner, "GET", "POST", "PUT", "PATCH", "DELETE", in_description=False)(not_supported)
    return api.routes


async def not_supported(scope: Scope) -> NoReturn:
    """Parts of DeepL's API that this server does not have."""
    raise ApiError(400, f"This server does not support {scope['path']}; it translates texts and documents.")


def refuse_unsupported(request: DeepLRequest, max_texts: int) -> None:
    """Raise `ApiError` 400 for what these models cannot do, and for no text or too many."""
    if not request.text:
        raise ApiError(400, "Parameter 'text' not specified.")
    if len(request.text) > max_texts:
        raise ApiError(400, f"The request has {len(request.text)} texts; {max_texts} are allowed.")
    if request.outline_detection in ("0", 0):
        raise ApiError(400, "outline_detection=0 is not supported by this server; leave it out.")
    refuse_options(request)


def refuse_options(request: Options) -> None:
    """Raise `ApiError` 400 for both parameters of glossaries, styles and the like, and for a formality."""
    if request.glossary_id and request.glossary_ids:
        raise ApiError(400, "The request has glossary_id and glossary_ids; send one of them.")
    for name in UNSUPPORTED:
        if getattr(request, name):
            raise ApiError(400, f"{name} is not supported by this server; leave it out.")
    if request.formality and request.formality != "default" and not request.formality.startswith("prefer_"):
        raise ApiError(
            400,
            f"'formality' is not supported for given 'target_lang'. It is {request.formality!r}; leave it "
            "out, or give prefer_more or prefer_less.",
        )


def choose_model(models: Models, source: str, target: str, text: str) -> ServedModel:
    """The model for a request's languages; without a source, for that of the text.

    Raises `ApiError` 400, which begins in DeepL's words, for languages that are not served.
    """
    pairs = pairs_in_words(models)
    if not target or not any(matches(target, model.target) for model in models.models):
        raise ApiError(400, f"Value for 'target_lang' not supported. This server translates {pairs}.")
    try:
        return models.between(source or "auto", target, text)
    except ApiError as error:
        message = f"Value for 'source_lang' not supported. This server translates {pairs}."
        raise ApiError(400, message, error.code) from error


def pairs_in_words(models: Models) -> str:
    """The languages of the models, as DeepL writes them: `EN to DE, DE to EN`."""
    each_pair = (f"{model.source.upper()} to {model.target.upper()}" for model in models.models)
    return ", ".join(dict.fromkeys(each_pair))


def choose_glossary(
    service: Service, request: Options, source: str, target: str, scope: Scope
) -> Callable[[ServedModel], Awaitable[Glossary | None]]:
    """A function that gives the terms of a request for a model.

    It raises `ApiError` 400, which begins in DeepL's words, for glossaries without a source language, one
    that the client does not have, and one of other languages.
    """
    parameter = "glossary_id" if request.glossary_id else "glossary_ids"
    names = [request.glossary_id] if request.glossary_id else request.glossary_ids

    async def choose(model: ServedModel) -> Glossary | None:
        if names and not source:
            raise ApiError(
                400,
                "Use of a glossary requires the source_lang parameter to be specified. Send the language of "
                "the text.",
            )
        try:
            served = [await service.find_glossary(name, scope) for name in names]
            dictionaries = [one.between(base(source), base(target)) for one in served]
        except ApiError as error:
            if error.status != 404:
                raise
            raise ApiError(400, f"Value for {parameter!r} not supported. {error.message}") from error
        return await service.glossary_for([], dictionaries, model, scope)

    return choose


def base(code: str) -> str:
    """A language's code without its region, as DeepL writes source languages: `PT` for `pt-BR`."""
    return code.replace("_", "-").split("-")[0].upper()


def source_of(request: DeepLRequest, text: str, model: ServedModel, models: Models) -> str:
    """The source language of a text that a model has translated."""
    if model.source == UNKNOWN_LANGUAGE and request.source_lang:
        return base(request.source_lang)
    return base(detected(text, model.source, listed(models.languages))[0])


def document_of(request: DeepLRequest, text: str, language: str) -> Document:
    """A text of a request as sentences."""
    split = request.split_sentences not in ("0", 0, False)
    ignore_tags, splitting_tags, non_splitting_tags = map(
        frozenset, (request.ignore_tags, request.splitting_tags, request.non_splitting_tags)
    )
    if request.tag_handling not in ("html", "xml"):
        return plain_text(text, language, split)
    parse = markup.html if request.tag_handling == "html" else markup.xml
    return parse(
        text,
        language,
        split=split,
        ignore_tags=ignore_tags,
        splitting_tags=splitting_tags,
        non_splitting_tags=non_splitting_tags,
    )

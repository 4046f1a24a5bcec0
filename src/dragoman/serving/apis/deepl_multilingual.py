"""The routes of DeepL's API for glossaries of several pairs of languages, version 3."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import Scope

from dragoman.serving.apis.deepl_glossaries import (
    EXAMPLE,
    REMOVED,
    DictionaryRequest,
    PairRequest,
    change,
    create,
    find,
    terms_of,
    time_of,
    tsv,
    visible,
)
from dragoman.serving.apis.parameters import FORMS, parameters
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import MAX_NAME, Dictionaries, ServedGlossary
from dragoman.serving.service import Service
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Term


class MultilingualGlossaryRequest(BaseModel):
    """A new glossary, or changes: another name, and terms that are added or replaced."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "Animals", "dictionaries": [EXAMPLE]}]}
    )

    name: str = Field("", max_length=MAX_NAME)
    dictionaries: list[DictionaryRequest] = []


class DictionaryInfo(BaseModel):
    """How many terms a pair of languages has."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualGlossaryInfo(BaseModel):
    """A glossary."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryInfo]
    creation_time: str


class MultilingualGlossaryList(BaseModel):
    """All glossaries."""

    glossaries: list[MultilingualGlossaryInfo]


class DictionaryEntries(BaseModel):
    """The terms of a pair of languages."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: str


class EntriesResponse(BaseModel):
    """The dictionary that was asked for."""

    dictionaries: list[DictionaryEntries]


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("DeepL", parameters, FORMS)

    @api.get("/v3/glossaries")
    async def multilingual_glossary_list(scope: Scope) -> MultilingualGlossaryList:
        """The glossaries: the server's, and those made with this key."""
        served = await visible(service, scope)
        return MultilingualGlossaryList(glossaries=list(map(multilingual_info, served)))

    @api.post("/v3/glossaries", status=201)
    async def create_multilingual_glossary(
        request: MultilingualGlossaryRequest, scope: Scope
    ) -> MultilingualGlossaryInfo:
        """Make a glossary."""
        return multilingual_info(await create(service, request.name, request.dictionaries, scope))

    @api.get("/v3/glossaries/{id}")
    async def multilingual_glossary(scope: Scope) -> MultilingualGlossaryInfo:
        """A glossary."""
        return multilingual_info(await find(service, scope))

    @api.route("/v3/glossaries/{id}", "PATCH")
    async def change_multilingual_glossary(
        request: MultilingualGlossaryRequest, scope: Scope
    ) -> MultilingualGlossaryInfo:
        """Give a glossary another name, add terms, or replace those of the same source."""

        def add(former: Dictionaries, new: Dictionaries) -> Dictionaries:
            return {**former, **{pair: merged(former.get(pair, ()), new[pair]) for pair in new}}

        served = await change(service, request.dictionaries, add, scope, request.name.strip())
        return multilingual_info(served)

    @api.route("/v3/glossaries/{id}/dictionaries", "PUT")
    async def replace_dictionary(request: DictionaryRequest, scope: Scope) -> DictionaryInfo:
        """Replace all terms of a pair of languages, or add the pair."""
        served = await change(service, [request], lambda former, new: {**former, **new}, scope)
        return dictionary_info(served, request.languages)

    @api.route("/v3/glossaries/{id}/dictionaries", "DELETE", described_as=REMOVED)
    async def remove_dictionary(request: PairRequest, scope: Scope) -> Response:
        """Remove all terms of a pair of languages."""
        languages = request.languages

        def without(former: Dictionaries, _: Dictionaries) -> Dictionaries:
            if languages not in former:
                raise no_dictionary(languages)
            return {pair: terms for pair, terms in former.items() if pair != languages}

        await change(service, [], without, scope)
        return Response(status_code=204)

    @api.get("/v3/glossaries/{id}/entries")
    async def dictionary_entries(request: PairRequest, scope: Scope) -> EntriesResponse:
        """The terms of a pair of languages."""
        served, languages = await find(service, scope), request.languages
        if languages not in served.counts:
            raise no_dictionary(languages)
        entries = DictionaryEntries(
            source_lang=languages.source,
            target_lang=languages.target,
            entries=tsv(await terms_of(service, served, languages, scope)),
            entries_format="tsv",
        )
        return EntriesResponse(dictionaries=[entries])

    return api.routes


def merged(former: Iterable[Term], added: Iterable[Term]) -> list[Term]:
    """Terms, and others that replace those of the same source."""
    return list({term.source: term for term in (*former, *added)}.values())


def no_dictionary(languages: Languages) -> ApiError:
    """The error for a pair of languages that a glossary does not have."""
    return ApiError(
        404, f"Dictionary not found. The glossary has no terms from {languages.source} to {languages.target}."
    )


def multilingual_info(served: ServedGlossary) -> MultilingualGlossaryInfo:
    """What a client gets to know of a glossary."""
    return MultilingualGlossaryInfo(
        glossary_id=served.id,
        name=served.name,
        dictionaries=[dictionary_info(served, languages) for languages in served.counts],
        creation_time=time_of(served),
    )


def dictionary_info(served: ServedGlossary, languages: Languages) -> DictionaryInfo:
    """How many terms a pair of languages has."""
    return DictionaryInfo(
        source_lang=languages.source, target_lang=languages.target, entry_count=served.counts[languages]
    )

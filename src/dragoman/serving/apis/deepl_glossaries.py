"""The routes of DeepL's API for glossaries of a pair of languages, version 2."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response
from starlette.types import Scope

from dragoman.documents.table import DELIMITERS, SEPARATOR_LINE, frequent_delimiter
from dragoman.documents.terms import checked
from dragoman.serving.apis.deepl import base, pairs_in_words
from dragoman.serving.apis.parameters import FORMS, parameters
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import MAX_NAME, Dictionaries, ServedGlossary
from dragoman.serving.models import Models
from dragoman.serving.service import Service, owner_of
from dragoman.system.wording import shown
from dragoman.text.language_codes import matches
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.glossary import Term

LINE_END = re.compile(r"\r\n|\r|\n")
TSV = "text/tab-separated-values"
ENTRIES = {200: {"description": "The terms.", "content": {TSV: {"schema": {"type": "string"}}}}}
REMOVED = {204: {"description": "It has been removed."}}
EXAMPLE: dict[str, JsonValue] = {
    "source_lang": "en",
    "target_lang": "de",
    "entries": "dog\tHund",
    "entries_format": "tsv",
}


class PairRequest(BaseModel):
    """A pair of languages."""

    source_lang: str = Field("", max_length=35, description="Language code; regions do not count.")
    target_lang: str = Field("", max_length=35)

    @property
    def languages(self) -> Languages:
        """The pair, without regions. Raises `DragomanError` for what is no code."""
        return Languages(base(self.source_lang).lower(), base(self.target_lang).lower())


class DictionaryRequest(PairRequest):
    """Terms of a pair of languages."""

    entries: str = Field("", description="A term and its translation in each line.")
    entries_format: str = Field("tsv", max_length=35, description="tsv or csv.")


class GlossaryRequest(DictionaryRequest):
    """A new glossary of a pair of languages."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Animals", **EXAMPLE}]})

    name: str = Field("", max_length=MAX_NAME)


class GlossaryInfo(BaseModel):
    """A glossary of a pair of languages."""

    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """The glossaries of one pair of languages."""

    glossaries: list[GlossaryInfo]


class GlossaryPair(BaseModel):
    """A pair of languages that may have a glossary."""

    source_lang: str
    target_lang: str


class GlossaryPairs(BaseModel):
    """Pairs of languages that may have a glossary. Those of models of unknown languages are not listed."""

    supported_languages: list[GlossaryPair]


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("DeepL", parameters, FORMS)

    @api.get("/v2/glossary-language-pairs")
    async def glossary_pairs(scope: Scope) -> GlossaryPairs:
        """The pairs of languages that may have a glossary: none without --glossaries."""
        models = service.models_for(scope).models if service.settings.glossaries else ()
        pairs = {
            (base(model.source).lower(), base(model.target).lower())
            for model in models
            if UNKNOWN_LANGUAGE not in (model.source, model.target)
        }
        return GlossaryPairs(
            supported_languages=[
                GlossaryPair(source_lang=source, target_lang=target) for source, target in sorted(pairs)
            ]
        )

    @api.get("/v2/glossaries")
    async def glossary_list(scope: Scope) -> GlossaryList:
        """The glossaries of one pair of languages: the server's, and those made with this key."""
        served = await visible(service, scope)
        return GlossaryList(glossaries=[info(one) for one in served if len(one.counts) == 1])

    @api.post("/v2/glossaries", status=201)
    async def create_glossary(request: GlossaryRequest, scope: Scope) -> GlossaryInfo:
        """Make a glossary of a pair of languages."""
        return info(await create(service, request.name, [request], scope))

    @api.get("/v2/glossaries/{id}")
    async def glossary(scope: Scope) -> GlossaryInfo:
        """A glossary of a pair of languages."""
        return info(await find(service, scope))

    @api.get("/v2/glossaries/{id}/entries", described_as=ENTRIES)
    async def glossary_entries(scope: Scope) -> Response:
        """The terms of a glossary of a pair of languages."""
        served = await find(service, scope)
        terms = await terms_of(service, served, only_pair(served), scope)
        return Response(tsv(terms), media_type=TSV)

    @api.route("/v2/glossaries/{id}", "DELETE", described_as=REMOVED)
    @api.route("/v3/glossaries/{id}", "DELETE", described_as=REMOVED)
    async def remove_glossary(scope: Scope) -> Response:
        """Remove a glossary that was made with this key."""
        delete = partial(service.glossaries.delete, scope["path_params"]["id"], owner_of(scope))
        await service.with_terms(delete, 1, scope)
        return Response(status_code=204)

    return api.routes


async def find(service: Service, scope: Scope) -> ServedGlossary:
    """The glossary that the path of a request names. Raises `ApiError` as `Service.find_glossary`."""
    return await service.find_glossary(scope["path_params"]["id"], scope)


async def create(
    service: Service, name: str, requested: Sequence[DictionaryRequest], scope: Scope
) -> ServedGlossary:
    """Make a glossary. Raises `ApiError` 400 for a blank name, and as `Glossaries.create`."""
    if not name.strip():
        raise ApiError(400, "Missing or invalid argument: name. Give the glossary a name.")

    def make() -> ServedGlossary:
        dictionaries = dictionaries_of(requested, service.models_for(scope))
        return service.glossaries.create(name, dictionaries, owner_of(scope))

    return await service.with_terms(make, size_of(requested), scope)


async def change(
    service: Service,
    requested: Sequence[DictionaryRequest],
    edit: Callable[[dict[Languages, list[Term]], dict[Languages, list[Term]]], Dictionaries],
    scope: Scope,
    name: str = "",
) -> ServedGlossary:
    """Change a glossary by a function of its dictionaries and those of the request.

    Raises `ApiError` as `Glossaries.change`.
    """
    glossary_id, owner = scope["path_params"]["id"], owner_of(scope)

    def make() -> ServedGlossary:
        new = dictionaries_of(requested, service.models_for(scope)) if requested else {}
        return service.glossaries.change(glossary_id, owner, lambda former: edit(former, new), name)

    return await service.with_terms(make, size_of(requested), scope)


async def visible(service: Service, scope: Scope) -> list[ServedGlossary]:
    """The glossaries that a client may use."""
    return await service.with_terms(partial(service.glossaries.visible, owner_of(scope)), 1, scope)


async def terms_of(
    service: Service, served: ServedGlossary, languages: Languages, scope: Scope
) -> Sequence[Term]:
    """The terms of a pair of languages. Raises `ApiError` as `Glossaries.terms`."""
    terms = await service.with_terms(partial(service.glossaries.terms, served), served.stamp[1], scope)
    return terms.get(languages, ())


def size_of(dictionaries: Iterable[DictionaryRequest]) -> int:
    """The characters of the terms of a request."""
    return 1 + sum(len(dictionary.entries) for dictionary in dictionaries)


def dictionaries_of(requested: Sequence[DictionaryRequest], models: Models) -> dict[Languages, list[Term]]:
    """The terms of a request. Raises `ApiError` 400 for none, pairs without a model, and wrong entries."""
    if not requested:
        raise ApiError(400, "Missing or invalid argument: dictionaries. Send one at least.")
    dictionaries: dict[Languages, list[Term]] = {}
    for dictionary in requested:
        languages = dictionary.languages
        if not any(
            matches(languages.source, model.source) and matches(languages.target, model.target)
            for model in models.models
        ):
            raise ApiError(
                400,
                "Unsupported glossary source and target language pair. This server translates "
                f"{pairs_in_words(models)}.",
            )
        if languages in dictionaries:
            raise ApiError(400, f"{languages.source} to {languages.target} has two dictionaries; send one.")
        dictionaries[languages] = terms_of_entries(dictionary.entries, dictionary.entries_format)
    return dictionaries


def terms_of_entries(entries: str, entries_format: str) -> list[Term]:
    """The terms in lines with a term and its translation, and in CSV perhaps the codes of their languages.

    TSV has no quotation marks. CSV is as Excel writes it, also with semicolons. Raises `ApiError` 400 for
    other lines, and for a term that is there twice.
    """
    if entries_format not in ("tsv", "csv"):
        raise ApiError(400, f"Value for 'entries_format' not supported: {entries_format!r}. Send tsv or csv.")
    is_csv = entries_format == "csv"
    delimiter = frequent_delimiter(entries, DELIMITERS) if is_csv else "\t"
    entries = SEPARATOR_LINE.sub("", entries, 1).removeprefix("\ufeff")
    lines: Iterable[list[str]] = (
        csv.reader(io.StringIO(entries), delimiter=delimiter)
        if is_csv
        else (line.split(delimiter) for line in LINE_END.split(entries))
    )
    terms: dict[str, Term] = {}
    try:
        for number, cells in enumerate(lines, 1):
            if any(map(str.strip, cells)):
                if len(cells) not in ((2, 4) if is_csv else (2,)) or not (
                    cells[0].strip() and cells[1].strip()
                ):
                    raise ApiError(
                        400,
                        f"Invalid glossary entries provided. Line {number} ({shown(' '.join(cells))}) has to "
                        "have a term and its translation.",
                    )
                term = checked(cells[0], cells[1], f"entries, line {number}")
                if terms.setdefault(term.source, term) is not term:
                    raise ApiError(
                        400,
                        f"Invalid glossary entries provided. Line {number} has {shown(term.source)} again.",
                    )
    except csv.Error as error:
        raise ApiError(400, f"Invalid glossary entries provided. They are no CSV: {error}.") from error
    if not terms:
        raise ApiError(400, "Missing or invalid argument: entries. Send one at least.")
    return list(terms.values())


def tsv(terms: Iterable[Term]) -> str:
    """Terms as lines."""
    return "\n".join(f"{term.source}\t{term.target}" for term in terms)


def only_pair(served: ServedGlossary) -> Languages:
    """The languages of a glossary of one pair. Raises `ApiError` 400 for another glossary."""
    if len(served.counts) != 1:
        raise ApiError(
            400,
            f"The glossary {shown(served.name)} has {len(served.counts)} dictionaries; use /v3/glossaries.",
        )
    (languages,) = served.counts
    return languages


def time_of(served: ServedGlossary) -> str:
    """When a glossary was made, as DeepL writes times."""
    return served.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def info(served: ServedGlossary) -> GlossaryInfo:
    """What a client gets to know of a glossary of one pair. Raises as `only_pair`."""
    languages = only_pair(served)
    return GlossaryInfo(
        glossary_id=served.id,
        name=served.name,
        ready=True,
        source_lang=languages.source,
        target_lang=languages.target,
        creation_time=time_of(served),
        entry_count=served.counts[languages],
    )

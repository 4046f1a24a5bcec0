"""The routes of /v1 that list glossaries and their terms."""

from functools import partial

from starlette.types import Scope

from dragoman.serving.apis.parameters import parameters, strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.schemas import (
    DictionaryDescription,
    GlossariesResponse,
    GlossaryDescription,
    GlossaryTermsRequest,
    GlossaryTermsResponse,
)
from dragoman.serving.glossaries import ServedGlossary
from dragoman.serving.service import Service, owner_of


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("Dragoman", strict_json)
    queries = Api("Dragoman", parameters)

    @api.get("/v1/glossaries")
    async def glossaries(scope: Scope) -> GlossariesResponse:
        """The glossaries that a request can name, with their languages."""
        visible = await service.with_terms(partial(service.glossaries.visible, owner_of(scope)), 1, scope)
        return GlossariesResponse(glossaries=list(map(describe_glossary, visible)))

    @queries.get("/v1/glossaries/{id}/terms")
    async def glossary_terms(request: GlossaryTermsRequest, scope: Scope) -> GlossaryTermsResponse:
        """The terms of a glossary from a language into another, in order."""
        served = await service.find_glossary(scope["path_params"]["id"], scope)
        languages = served.between(request.source, request.target).languages
        read = partial(service.glossaries.terms, served)
        terms = (await service.with_terms(read, served.stamp[1], scope)).get(languages, ())
        part = terms[request.start : request.start + request.count]
        return GlossaryTermsResponse(
            terms_total=len(terms), terms=[[term.source, term.target] for term in part]
        )

    return [*api.routes, *queries.routes]


def describe_glossary(served: ServedGlossary) -> GlossaryDescription:
    """What /v1/glossaries says about a glossary."""
    return GlossaryDescription(
        id=served.id,
        name=served.name,
        read_only=served.is_read_only,
        dictionaries=[
            DictionaryDescription(source=languages.source, target=languages.target, terms=count)
            for languages, count in served.counts.items()
        ],
    )

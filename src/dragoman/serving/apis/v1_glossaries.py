"""The route of /v1 that lists glossaries."""

from functools import partial

from starlette.types import Scope

from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.schemas import DictionaryDescription, GlossariesResponse, GlossaryDescription
from dragoman.serving.glossaries import ServedGlossary
from dragoman.serving.service import Service, owner_of


def routes(service: Service) -> list[ApiRoute]:
    """The route."""
    api = Api("Dragoman", strict_json)

    @api.get("/v1/glossaries")
    async def glossaries(scope: Scope) -> GlossariesResponse:
        """The glossaries that a request can name, with their languages."""
        visible = await service.with_terms(partial(service.glossaries.visible, owner_of(scope)), 1, scope)
        return GlossariesResponse(glossaries=list(map(describe_glossary, visible)))

    return api.routes


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

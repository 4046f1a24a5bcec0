"""The API of this project: the routes of /v1 that compute with PyTorch."""

import math
from dataclasses import replace
from typing import Any

from starlette.types import Scope

from dragoman.inspection.analyse.changes import changed_settings, parse_changes
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.analysis import least_tokens, refuse_long_pairs
from dragoman.serving.apis.inspections import compute_inspection, refuse_contradictions
from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.schemas import (
    Alternative,
    AlternativesRequest,
    AlternativesResponse,
    InspectRequest,
    Score,
    ScoreRequest,
    ScoreResponse,
    TokenScore,
)
from dragoman.serving.apis.v1 import choose_model, glossary_of, refuse_many, settings_of
from dragoman.serving.models import ServedModel
from dragoman.serving.service import Service
from dragoman.translation.translator import PreparedSentences


async def prepare_with_terms(
    service: Service,
    model: ServedModel,
    request: AlternativesRequest,
    settings: SearchSettings,
    scope: Scope,
) -> PreparedSentences | None:
    """The sentence of a request, which is not split, with its terms; None if it has none.

    Raises `ApiError` as `glossary_of`, and 413 for a long sentence or prefix.
    """
    glossary = await glossary_of(service, request.glossary, request.terms, request, model, scope)
    if glossary is None:
        return None

    def prepare() -> PreparedSentences:
        refuse_long_pairs(model, [(request.text, request.prefix)])
        return model.translator.prepare([request.text], replace(settings, split=None), glossary)

    prepared = await service.with_terms(prepare, len(request.text) + len(request.prefix), scope)
    return prepared if any(prepared.terms) else None


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("Dragoman", strict_json)

    @api.post("/v1/alternatives")
    async def alternatives(request: AlternativesRequest, scope: Scope) -> AlternativesResponse:
        """The likeliest tokens after `prefix`, each with the best translation that begins with both.

        The translations have the terms of the request.
        """
        model, settings = choose_model(service, request, request.text, scope), settings_of(service, request)
        service.refuse_too_much(settings)
        service.note_texts(scope, [request.text], model)
        prepared = await prepare_with_terms(service, model, request, settings, scope)
        # Their translations are used only if the sentence has no terms.
        first_search = settings if prepared is None else replace(settings, beam_size=1)

        def search() -> list[Any]:
            refuse_long_pairs(model, [(request.text, request.prefix)])
            return model.translator.alternatives(request.text, request.count, first_search)

        size = least_tokens(request.text) * request.count + least_tokens(request.prefix)
        results = await service.analyse(search, size, scope)
        if prepared is not None:
            results = await service.with_terms_of(prepared, model, results, scope)
        return AlternativesResponse(
            alternatives=[
                Alternative(
                    token=alternative.token,
                    text=alternative.translation.text,
                    log_probability=math.log(alternative.probability) if alternative.probability else None,
                    score=alternative.translation.score,
                )
                for alternative in results
            ]
        )

    @api.post("/v1/inspect")
    async def inspect(request: InspectRequest, scope: Scope) -> dict[str, Any]:
        """What the model computed for a sentence: its search, attention and residual stream.

        With `changes`, what it would have computed. Without them, a run's answer has its training; `heads`
        adds the effect of each head, `attribution` what each token contributes, and `value_zeroing` how much
        a layer mixes each token into the others.
        docs/inspection-data.md describes the answer.
        """
        model, settings = choose_model(service, request, request.text, scope), settings_of(service, request)
        changes = parse_changes(request.changes)
        refuse_contradictions(request)
        for searched in (settings, changed_settings(settings, changes)):  # both are, to force a token
            service.refuse_too_much(searched)
        service.note_texts(scope, [request.text], model)

        def compute() -> dict[str, Any]:
            show_samples = service.settings.show_samples
            return compute_inspection(model, request, changes, settings, show_samples=show_samples)

        size = least_tokens(request.text) + least_tokens(request.prefix)
        return await service.analyse(compute, size, scope)

    @api.post("/v1/score")
    async def score(request: ScoreRequest, scope: Scope) -> ScoreResponse:
        """The log-probabilities of given translations, by token."""
        refuse_many(service, len(request.pairs), "pairs")
        pairs = [(source, target) for source, target in request.pairs]
        model = choose_model(service, request, " ".join(source for source, _ in pairs), scope)
        size = sum(least_tokens(source) + least_tokens(target) for source, target in pairs)
        service.note_texts(scope, [text for pair in pairs for text in pair], model)

        def compute() -> list[Any]:
            refuse_long_pairs(model, pairs)
            return model.translator.score(pairs)

        likelihoods = await service.analyse(compute, size, scope)
        return ScoreResponse(
            scores=[
                Score(
                    log_probability=likelihood.log_probability,
                    tokens=[
                        TokenScore(token=token, log_probability=log_p)
                        for token, log_p in zip(likelihood.tokens, likelihood.log_probabilities, strict=True)
                    ],
                )
                for likelihood in likelihoods
            ]
        )

    return api.routes

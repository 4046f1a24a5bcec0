"""The API of this project: the routes of /v1 that compute with PyTorch."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse
from starlette.types import Scope

from dragoman.inspection.analyse.changes import changed_settings, parse_changes
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.analysis import least_tokens, refuse_long_pairs
from dragoman.serving.apis.inspections import (
    Progress,
    RequestedInspection,
    inspection_json,
    refuse_contradictions,
)
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
from dragoman.serving.apis.v1 import (
    StreamInTime,
    choose_model,
    event,
    glossary_of,
    refuse_many,
    settings_of,
)
from dragoman.serving.errors import ApiError, error_body, note_refusal, refusal
from dragoman.serving.models import ServedModel
from dragoman.serving.pivot import refuse_pivot
from dragoman.serving.service import Service
from dragoman.system.errors import DragomanError
from dragoman.translation.translator import PreparedSentences

if TYPE_CHECKING:
    from dragoman.inspection.inspection import Inspection

PROGRESS_SECONDS = 0.2  # between two looks at how far an attribution is
EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "end", "error"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["event", "data"],
}
STREAM = {200: {"description": "Events.", "content": {"text/event-stream": {"schema": EVENT}}}}


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


async def requested_inspection(
    service: Service, request: InspectRequest, scope: Scope
) -> RequestedInspection:
    """The inspection that a request asks for, with its model loaded.

    Raises `ApiError` and `DragomanError` for what the server does not allow, and for fields that do not fit
    each other.
    """
    model = await choose_model(service, request, request.text, scope)
    settings = settings_of(service, request)
    refuse_pivot(model, "inspection")
    model = await service.ready(model, scope)
    changes = parse_changes(request.changes)
    refuse_contradictions(request)
    for searched in (settings, changed_settings(settings, changes)):  # both are, to force a token
        service.refuse_too_much(searched)
    service.note_texts(scope, [request.text], model)
    return RequestedInspection(model, request, changes, settings, service.settings.show_samples)


async def inspection_events(
    service: Service, requested: RequestedInspection, inspection: "Inspection", scope: Scope
) -> AsyncIterator[str]:
    """Events: the progress of an attribution, if it is asked for, and the inspection, or an error."""
    progress, told = Progress(), 0
    if requested.request.attribution:
        answer = service.attribute(
            lambda: inspection_json(requested.add_attribution(inspection, progress.tell)),
            requested.size,
            scope,
        )
    else:
        answer = service.analyse(lambda: inspection_json(inspection), requested.size, scope)
    task = asyncio.ensure_future(answer)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=PROGRESS_SECONDS)
            if progress.done > told:
                told = progress.done
                yield event("progress", json.dumps({"done": told, "total": progress.total}))
        yield event("end", json.dumps(task.result(), allow_nan=False))
    except (ApiError, DragomanError) as error:
        failure = refusal(error)
        note_refusal(scope, failure)
        yield event("error", json.dumps(error_body("/v1", failure.code, failure.message)))
    finally:
        task.cancel()


def routes(service: Service) -> list[ApiRoute]:
    """The routes."""
    api = Api("Dragoman", strict_json)

    @api.post("/v1/alternatives")
    async def alternatives(request: AlternativesRequest, scope: Scope) -> AlternativesResponse:
        """The likeliest tokens after `prefix`, each with the best translation that begins with both.

        The translations have the terms of the request.
        """
        model = await choose_model(service, request, request.text, scope)
        settings = settings_of(service, request)
        refuse_pivot(model, "alternatives")
        model = await service.ready(model, scope)
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
        adds the effect of each head, `attribution` what each token contributes, for which the server has a
        longer deadline, and `value_zeroing` how much a layer mixes each token into the others.
        docs/inspection-data.md describes the answer.
        """
        requested = await requested_inspection(service, request, scope)
        if not request.attribution:
            return await service.analyse(lambda: inspection_json(requested.compute()), requested.size, scope)
        inspection = await service.analyse(requested.compute, requested.size, scope)
        return await service.attribute(
            lambda: inspection_json(requested.add_attribution(inspection, Progress().tell)),
            requested.size,
            scope,
        )

    @api.post("/v1/inspect/stream", described_as=STREAM)
    async def inspect_stream(request: InspectRequest, scope: Scope) -> StreamingResponse:
        """As `/v1/inspect`, as server-sent events whose data is JSON.

        `progress` has `{"done": …, "total": …}`, how many parts of the attribution are done, and how many
        there are at most. `end` has the body of `/v1/inspect`, and `error` that of an error.
        """
        requested = await requested_inspection(service, request, scope)
        inspection = await service.analyse(requested.compute, requested.size, scope)
        events = inspection_events(service, requested, inspection, scope)
        return StreamInTime(service, scope, events, media_type="text/event-stream")

    @api.post("/v1/score")
    async def score(request: ScoreRequest, scope: Scope) -> ScoreResponse:
        """The log-probabilities of given translations, by token."""
        refuse_many(service, len(request.pairs), "pairs")
        pairs = [(source, target) for source, target in request.pairs]
        model = await choose_model(service, request, " ".join(source for source, _ in pairs), scope)
        refuse_pivot(model, "scores")
        model = await service.ready(model, scope)
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

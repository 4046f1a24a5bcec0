"""The API of this project: the routes of /v1 that compute with PyTorch."""

import math
from typing import Any

from fastapi import APIRouter, Request

from dragoman.inspection.analyse.changes import changed_settings, parse_changes
from dragoman.serving.analysis import least_tokens, refuse_long_pairs
from dragoman.serving.inspections import compute_inspection, refuse_contradictions
from dragoman.serving.schemas import AlternativesRequest, InspectRequest, ScoreRequest
from dragoman.serving.service import Service
from dragoman.serving.v1 import choose_model, refuse_many, settings_of


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["Dragoman"])

    @routes.post("/alternatives")
    async def alternatives(asked: AlternativesRequest, request: Request) -> dict[str, Any]:
        """The likeliest tokens after `prefix`, each with the best translation that begins with both."""
        model, settings = choose_model(service, asked, asked.text), settings_of(service, asked)
        service.refuse_too_much(settings)
        service.note_texts(request.scope, [asked.text])

        def search() -> list[Any]:
            refuse_long_pairs(model, [(asked.text, asked.prefix)])
            return model.translator.alternatives(asked.text, asked.count, settings)

        size = least_tokens(asked.text) * asked.count + least_tokens(asked.prefix)
        found = await service.analyse(search, size, request.scope)
        return {
            "alternatives": [
                {
                    "token": each.token,
                    "text": each.translation.text,
                    "log_probability": math.log(each.probability) if each.probability else None,
                    "score": each.translation.score,
                }
                for each in found
            ]
        }

    @routes.post("/inspect")
    async def inspect(asked: InspectRequest, request: Request) -> dict[str, Any]:
        """What the model computed for a sentence: its search, attention and residual stream.

        With `changes`, what it would have computed. Without them, a run's answer has its training; `heads`
        adds the effect of each head, `attribution` what each token contributes, and `value_zeroing` how much
        a layer mixes each token into the others.
        docs/inspection-data.md describes the answer.
        """
        model, settings = choose_model(service, asked, asked.text), settings_of(service, asked)
        changes = parse_changes(asked.changes)
        refuse_contradictions(asked)
        for searched in (settings, changed_settings(settings, changes)):  # both are, to force a token
            service.refuse_too_much(searched)
        service.note_texts(request.scope, [asked.text])

        def compute() -> dict[str, Any]:
            show_samples = service.settings.show_samples
            return compute_inspection(model, asked, changes, settings, show_samples=show_samples)

        size = least_tokens(asked.text) + least_tokens(asked.prefix)
        return await service.analyse(compute, size, request.scope)

    @routes.post("/score")
    async def score(asked: ScoreRequest, request: Request) -> dict[str, Any]:
        """The log-probabilities of given translations, by token."""
        refuse_many(service, len(asked.pairs), "pairs")
        pairs = [(source, target) for source, target in asked.pairs]
        model = choose_model(service, asked, " ".join(source for source, _ in pairs))
        size = sum(least_tokens(source) + least_tokens(target) for source, target in pairs)
        service.note_texts(request.scope, [text for pair in pairs for text in pair])

        def compute() -> list[Any]:
            refuse_long_pairs(model, pairs)
            return model.translator.score(pairs)

        found = await service.analyse(compute, size, request.scope)
        return {
            "scores": [
                {
                    "log_probability": each.log_probability,
                    "tokens": [
                        {"token": token, "log_probability": log_p}
                        for token, log_p in zip(each.tokens, each.log_probabilities, strict=True)
                    ],
                }
                for each in found
            ]
        }

    return routes

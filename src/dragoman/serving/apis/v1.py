"""The API of this project: /v1."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Scope, Send

from dragoman.documents import markup
from dragoman.documents.document import Document
from dragoman.documents.plain import plain_text
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.analysis import add_alignments, add_attention, least_tokens
from dragoman.serving.apis.parameters import strict_json
from dragoman.serving.apis.route import Api, ApiRoute
from dragoman.serving.apis.schemas import (
    Candidate,
    Choice,
    ModelDescription,
    ModelsResponse,
    PivotDescription,
    Sentence,
    TranslatedText,
    TranslateRequest,
    TranslateResponse,
)
from dragoman.serving.cache import NBest
from dragoman.serving.cards import example_of, may_show_examples, readable, side_names
from dragoman.serving.errors import ApiError, error_body, note_refusal, refusal
from dragoman.serving.models import ServedModel, name_of_side
from dragoman.serving.pivot import PivotTranslation, refuse_pivot
from dragoman.serving.service import Service
from dragoman.system.errors import DragomanError
from dragoman.text.language_codes import matches
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.translation.glossary import Glossary
from dragoman.translation.tags import remove_tags
from dragoman.translation.translation import Translation

SETTINGS = {field.name for field in dataclasses.fields(SearchSettings)}
EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["piece", "end", "error"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["event", "data"],
}
"""The schema of a server-sent event."""
STREAM = {200: {"description": "Events.", "content": {"text/event-stream": {"schema": EVENT}}}}


def settings_of(service: Service, request: Any) -> SearchSettings:
    """The settings of the search that a request asks for; others are those of the server's default search.

    Raises `DragomanError` if they contradict each other.
    """
    names = request.model_fields_set & SETTINGS
    if not names:
        return service.default_search
    values = {name: getattr(request, name) for name in names}
    if not values.get("temperature"):
        values = {"beam_size": service.default_search.beam_size} | values
    settings = SearchSettings(**values)
    settings.refuse_contradictions(names)
    return settings


async def choose_model(service: Service, request: Choice, text: str, scope: Scope) -> ServedModel:
    """As `model_of`, when the language of the text can be identified."""
    await service.ready_to_choose(scope, request.target, is_identified=request.source == "auto")
    return model_of(service, request, text, scope)


def model_of(service: Service, request: Choice, text: str, scope: Scope) -> ServedModel:
    """The model that a request names, or the first one between its languages; with the adapter it names.

    Raises `ApiError` 404 if there is none of the name, 400 for languages that no model, or not the named one,
    has, and 403 if the request's key permits none.
    """
    models = service.models_for(scope)
    if request.adapter:
        models = models.with_adapter(request.adapter)
    if not request.model:
        return models.between(request.source, request.target, text)
    source = "" if request.source == "auto" else request.source
    model = models.named(request.model, source, request.target)
    if matches(source, model.source) and matches(request.target, model.target):
        return model
    raise ApiError(
        400,
        f"The model {model.name} translates {model.source} to {model.target}, and the request asks for "
        f"{source or 'any language'} to {request.target or 'any language'}; leave the model or the languages "
        "out.",
        "no_such_pair",
    )


async def choose_translating(
    service: Service, request: TranslateRequest, text: str, scope: Scope
) -> ServedModel:
    """As `choose_model`. Raises `ApiError` 400 for the attention of a pivot, which has none."""
    model = await choose_model(service, request, text, scope)
    if request.attention:
        refuse_pivot(model, "attention")
    return model


async def glossary_of(
    service: Service,
    names: str | Sequence[str],
    terms: Sequence[Sequence[str]],
    request: Choice,
    model: ServedModel,
    scope: Scope,
) -> Glossary | None:
    """The glossary of a request for a model: its terms, then those of the glossaries of its ids or names.

    None if there are neither; a single name that is "" is none. Raises `ApiError`: 404 for a glossary that
    the client does not have, 400 for one that has no terms of these languages, and for terms that are
    refused.
    """
    source = request.source if request.source != "auto" else ""
    languages = known(model.source, source), known(model.target, request.target)
    chosen = [name for name in [names] if name] if isinstance(names, str) else names
    dictionaries = [(await service.find_glossary(name, scope)).between(*languages) for name in chosen]
    return await service.glossary_for(terms, dictionaries, model, scope)


def known(code: str, requested: str) -> str:
    """The language of a model, or if it is unknown that of the request, which may be unknown too."""
    return code if code != UNKNOWN_LANGUAGE else requested or UNKNOWN_LANGUAGE


async def add_unused_terms(
    service: Service,
    glossary: Glossary | None,
    documents: Sequence[Document],
    results: Sequence[NBest],
    translations: Sequence[TranslatedText],
    scope: Scope,
) -> None:
    """Add the terms that the translations do not use, if there is a glossary."""
    if glossary is None:
        return
    for document, n_best, translation in zip(documents, results, translations, strict=True):
        pairs = [
            (remove_tags(segment.sentence)[0], remove_tags(best[0].text)[0])
            for segment, best in zip(document.segments, n_best, strict=True)
        ]
        unused = await service.unused_terms(glossary, pairs, scope)
        translation.unused_terms = [(term.source, term.target) for term in unused]


def texts_of(service: Service, text: str | list[str]) -> list[str]:
    """The texts of a request. Raises `ApiError` 400 for too many."""
    texts = [text] if isinstance(text, str) else text
    refuse_many(service, len(texts), "texts")
    return texts


def refuse_many(service: Service, count: int, what: str) -> None:
    """Raise `ApiError` 400 for more texts, or pairs of them, than `--max-texts`."""
    if count > service.settings.max_texts:
        raise ApiError(
            400, f"The request has {count} {what}; this server allows {service.settings.max_texts}."
        )


def document_of(request: Any, text: str, language: str) -> Document:
    """A text of a request as sentences."""
    if request.format == "html":
        return markup.html(text, language, split=request.split_sentences)
    return plain_text(text, language, request.split_sentences)


def candidate(translation: Translation, text: str) -> dict[str, Any]:
    """The fields of a `Candidate` with this text."""
    return {
        "text": text,
        "log_probability": translation.log_probability,
        "score": translation.score,
        "tokens": translation.tokens,
    }


def translated_text(document: Document, n_best: NBest, with_spans: bool) -> TranslatedText:
    """A translated document. With spans, its sentences are as in the texts, without marks."""
    text, spans = document.join_with_spans([best[0].text for best in n_best])
    sentences = []
    for segment, best in zip(document.segments, n_best, strict=True):
        candidates = [
            candidate(translation, segment.restore(translation.text) if with_spans else translation.text)
            for translation in best
        ]
        source = segment.source if with_spans else segment.sentence
        sentences.append(
            Sentence(source=source, n_best=[Candidate(**fields) for fields in candidates], **candidates[0])
        )
    if with_spans:
        for sentence, (first, last), (start, end) in zip(sentences, document.spans, spans, strict=True):
            sentence.source_start, sentence.source_end = first, last
            sentence.start, sentence.end = start, end
            sentence.text = text[start:end]  # the source if the best translation is empty
    return TranslatedText(text=text, sentences=sentences)


async def add_analyses(
    service: Service, model: ServedModel, request: Any, translations: list[TranslatedText], scope: Scope
) -> None:
    """Add the alignments and the attention that a request asks for to its sentences."""
    sentences = [sentence for translation in translations for sentence in translation.sentences]
    for is_requested, add in ((request.alignment, add_alignments), (request.attention, add_attention)):
        if is_requested:
            size = sum(least_tokens(sentence.source) for sentence in sentences)
            await service.analyse(partial(add, model, sentences), size, scope)


class StreamInTime(StreamingResponse):
    """A stream that ends with its connection if the client does not read it until the request's deadline.

    Otherwise its place in the queue would be the client's for as long as it likes.
    """

    def __init__(self, service: Service, scope: Scope, content: AsyncIterator[str], media_type: str) -> None:
        super().__init__(content, media_type=media_type)
        self._service, self._scope = service, scope

    async def stream_response(self, send: Send) -> None:
        """Send the stream."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout_at(self._service.deadline_of(self._scope)):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            note_refusal(self._scope, self._service.deadline_error(self._scope))
            self._scope["dragoman.connection"].transport.abort()


def routes(service: Service) -> list[ApiRoute]:
    """The routes of /v1 that describe models and translate."""
    api = Api("Dragoman", strict_json)

    @api.get("/v1/models")
    async def models(scope: Scope) -> ModelsResponse:
        """The models that are served, with their languages."""
        settings, models = service.settings, service.models_for(scope)
        return ModelsResponse(
            models=[describe(model, has_example=may_show_examples(settings)) for model in models.models],
            pivots=[describe_pivot(model) for model in models.pivots],
            max_n_best=min(settings.max_n_best, settings.max_beam_size),
            has_docs=settings.docs,
        )

    @api.post("/v1/translate")
    async def translate(request: TranslateRequest, scope: Scope) -> TranslateResponse:
        """Translate one text or several. Paragraphs, blank lines and indents stay as they are."""
        texts = texts_of(service, request.text)
        model = await service.ready(await choose_translating(service, request, " ".join(texts), scope), scope)
        settings = settings_of(service, request)
        documents = await service.cut(lambda text: document_of(request, text, model.source), texts, scope)
        glossary = await glossary_of(service, request.glossary, request.terms, request, model, scope)
        results = await service.translate(model, documents, settings, scope, glossary)
        translations = [
            translated_text(document, n_best, request.format == "text")
            for document, n_best in zip(documents, results, strict=True)
        ]
        add_pivot_texts(model, documents, results, translations)
        await add_unused_terms(service, glossary, documents, results, translations, scope)
        await add_analyses(service, model, request, translations, scope)
        return response(model, translations)

    @api.post("/v1/translate/stream", described_as=STREAM)
    async def stream(request: TranslateRequest, scope: Scope) -> StreamingResponse:
        """Translate one text, as server-sent events whose data is JSON.

        `piece` has `{"text": …}`: the texts of all pieces, joined, are the translation. `end` has the body of
        `/v1/translate`, and `error` that of an error. HTML comes as one piece.
        """
        texts = texts_of(service, request.text)
        if len(texts) != 1:
            raise ApiError(400, f"A stream translates one text, and this request has {len(texts)}.")
        model = await service.ready(await choose_translating(service, request, texts[0], scope), scope)
        settings = settings_of(service, request)
        (document,) = await service.cut(lambda text: document_of(request, text, model.source), texts, scope)
        glossary = await glossary_of(service, request.glossary, request.terms, request, model, scope)
        translations = service.stream(model, document, settings, scope, glossary)
        await anext(translations)  # errors until here have a status of their own

        async def events() -> AsyncIterator[str]:
            written = 0  # characters of the answer
            sent = 0  # of them, those of the sentence that is being translated
            n_best: NBest = []
            try:
                async for current, best in translations:
                    if request.format == "text":  # in HTML tags have their places when all sentences are done
                        part = part_of(document, len(n_best), current, best)
                        yield event("piece", text_json(part[sent:]))
                        written, sent = written + len(part) - sent, 0 if best else len(part)
                    if best:
                        n_best.append(best)
                translation = translated_text(document, n_best, request.format == "text")
                if rest := translation.text[written:]:
                    yield event("piece", text_json(rest))
                add_pivot_texts(model, [document], [n_best], [translation])
                await add_unused_terms(service, glossary, [document], [n_best], [translation], scope)
                await add_analyses(service, model, request, [translation], scope)
                yield event("end", response(model, [translation]).model_dump_json(exclude_unset=True))
            except (ApiError, DragomanError) as error:
                answer = refusal(error)
                note_refusal(scope, answer)
                yield event("error", json.dumps(error_body("/v1", answer.code, answer.message)))

        return StreamInTime(service, scope, events(), media_type="text/event-stream")

    return api.routes


def part_of(document: Document, number: int, current: str, best: list[Translation] | None) -> str:
    """The gap before a sentence, counted from 0, and its translation so far as it stands in the document.

    That is `current`, or all of the translation once there is a `best`.
    """
    segment = document.segments[number]
    start = document.segments[number - 1].end if number else 0
    written = segment.restore_or_keep(best[0].text) if best else segment.restore(current)
    return document.text[start : segment.start] + written


def add_pivot_texts(
    model: ServedModel,
    documents: Sequence[Document],
    results: Sequence[NBest],
    translations: Sequence[TranslatedText],
) -> None:
    """Add what the sentences are in the third language, if they were translated through one."""
    if not model.steps:
        return
    for document, n_best, translation in zip(documents, results, translations, strict=True):
        for segment, best, sentence in zip(document.segments, n_best, translation.sentences, strict=True):
            assert isinstance(best[0], PivotTranslation)
            has_marks = sentence.source_start is None  # as its source and its translation
            sentence.pivot_text = best[0].between if has_marks else segment.restore(best[0].between)


def response(model: ServedModel, translations: list[TranslatedText]) -> TranslateResponse:
    """The response to a request."""
    answer = TranslateResponse(
        model=model.name,
        source=model.source,
        target=model.target,
        adapter=model.adapter,
        translations=translations,
    )
    if model.steps:
        answer.pivot = model.pivot
    return answer


def describe(model: ServedModel, *, has_example: bool) -> ModelDescription:
    """What /v1/models says about a model."""
    source_name, target_name = side_names(model)
    pair = f"{model.source}-{model.target}" if model.run_name else ""
    # What a model can read is unknown until it is loaded.
    scripts, reads_capitals = readable(model.loaded.tokenizers.source) if model.loaded else ([], True)
    return ModelDescription(
        name=model.name,
        source=model.source,
        target=model.target,
        source_name=source_name,
        target_name=target_name,
        architecture=model.architecture,
        parameters=model.parameters,
        precision=model.precision,
        adapters=[adapted_model.adapter for adapted_model in model.adapted],
        example=example_of(model.folder, model.hash, pair) if has_example else "",
        scripts=scripts,
        reads_capitals=reads_capitals,
    )


def describe_pivot(model: ServedModel) -> PivotDescription:
    """What /v1/models says about a translation through a third language."""
    return PivotDescription(
        source=model.source,
        target=model.target,
        pivot=model.pivot,
        source_name=name_of_side(model.source, "Source"),
        target_name=name_of_side(model.target, "Target"),
    )


def text_json(text: str) -> str:
    """The data of an event with a piece of a translation."""
    return json.dumps({"text": text}, ensure_ascii=False)


def event(name: str, data: str) -> str:
    """A server-sent event with data of JSON, which has no line break."""
    return f"event: {name}\ndata: {data}\n\n"

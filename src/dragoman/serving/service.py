"""Translation for all routes: admission, deadlines and cancellation around `Translator.submit`."""

import asyncio
import math
import ssl
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from starlette.types import Scope

from dragoman.documents.document import Document, Segment, split_by_marks
from dragoman.native.decoder import Progress
from dragoman.search.hypothesis import Constraints, max_target_length
from dragoman.search.settings import SearchSettings
from dragoman.serving.admission import MAX_CHARACTERS, Admission, Preparation
from dragoman.serving.cache import Cache, NBest, Question
from dragoman.serving.documents import Documents
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import Glossaries, ServedDictionary, ServedGlossary, inline_terms
from dragoman.serving.keys import KeyLimits, RateLimit
from dragoman.serving.languages import load_identifier
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.on_demand import OnDemand
from dragoman.serving.pivot import (
    first_search,
    refuse_pivot,
    second_search,
    translated_segments,
    with_sentence_between,
)
from dragoman.serving.processes import ONLY, Process
from dragoman.serving.settings import ServerSettings
from dragoman.system.futures import submit_interruptible
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.streaming import stable_text
from dragoman.translation.submission import needs_torch
from dragoman.translation.tags import TAG, remove_tags
from dragoman.translation.translation import Translation
from dragoman.translation.translator import PreparedSentences, Translator

if TYPE_CHECKING:
    from dragoman.translation.analysis import Alternative

T = TypeVar("T")
POLL_SECONDS = 0.02  # between two readings of the text that a streamed search has so far
CHARACTERS_PER_TOKEN = 16  # more than any text has; SentencePiece's own limit
FEW_CHARACTERS = 2_000  # cut and tokenized in the event loop, within a millisecond or two; more in a thread
MAX_TAGS = 500  # of a sentence; the time that it takes to restore them grows with their square
MAX_OUTPUT_TOKENS = 4_000_000  # for which a request may make the search keep memory
MAX_FORCED = 500  # characters, and tokens, of forced words; memory and time grow with their tokens
MAX_TERMS = 500  # of a request that has them itself
MAX_TERM_CHARACTERS = 20_000  # of these terms; each may have 64 forms, which are all tokenized
MAX_PREFIX = 4_000  # tokens of a prefix: the search keeps memory for as many in every translation
PART_TOKENS = 2_000  # of a document that are searched at once: between them come other requests
NO_SIZES: Mapping[str, int] = {}
TORCH = "dragoman.translation.analysis"
"""The module whose import is that of PyTorch."""
PREFIX_CHARACTERS = 4 * MAX_PREFIX  # which are not even tokenized if they are more


@dataclass(frozen=True)
class Group:
    """Sentences of a request that are searched with the same settings."""

    places: list[int]
    """The numbers of these sentences among all of the request, from 0."""
    prepared: PreparedSentences


class Reloading(Protocol):
    """What reads models, adapters, glossaries and keys again: reload.py."""

    loaded: list[str]

    def refuse_others(self, owner: str | None) -> None:
        """Raise `ApiError` 403 unless this is the name of an administrator's key."""

    async def run(self) -> str:
        """Read all again. Returns why nothing was changed; "" if all was."""

    def start(self) -> None:
        """Begin to `run`."""


def prepare_groups(
    translator: Translator,
    segments: Sequence[Segment],
    search: SearchSettings,
    max_tokens: int,
    glossary: Glossary | None = None,
) -> list[Group]:
    """Prepare the sentences for searches: one group without tags and addresses, and one with them.

    Sentences of the second group are not split. Raises `ApiError` 413 for more than `max_tokens` tokens in a
    long text, for a sentence with many tags, and for long constraints.
    """
    groups = []
    for places in split_by_marks(segments):
        if places:
            settings = keeping_marks(search, segments[places[0]])
            sentences = [segments[place].sentence for place in places]
            if settings.keep_tags:
                refuse_many_tags(sentences)
            plain = [remove_tags(sentence)[0] for sentence in sentences] if settings.keep_tags else sentences
            refuse_long_texts(translator, plain, max_tokens)
            prepared = translator.prepare(sentences, settings, glossary)
            refuse_long_constraints(prepared.constraints)
            groups.append(Group(places, prepared))
    return groups


def refuse_long_texts(translator: Translator, sentences: Sequence[str], limit: int) -> None:
    """Raise `ApiError` 413 for more tokens than are allowed, before sentences are cut into parts.

    Tokens are counted here only if there are many characters. Few characters have few tokens, which `admit`
    counts.
    """
    if sum(map(normalized_length, sentences)) > FEW_CHARACTERS:
        refuse_many_tokens(sum(map(len, translator.tokenizers.source.encode(sentences))), limit)


def refuse_many_tokens(tokens: int, limit: int) -> None:
    """Raise `ApiError` 413 for a request of too many tokens."""
    if tokens > limit:
        raise ApiError(
            413,
            f"The request has {tokens:,} tokens, and {limit:,} are allowed; send less text at once.",
        )


def refuse_long_constraints(constraints: Constraints) -> None:
    """Raise `ApiError` 413 for a prefix or forced words of too many tokens: they make translations longer."""
    forced = constraints.forced_tokens
    limits = ("prefix", len(constraints.prefix), MAX_PREFIX), ("force_words", forced, MAX_FORCED)
    for name, tokens, limit in limits:
        if tokens > limit:
            raise ApiError(413, f"{name} has {tokens:,} tokens, and {limit:,} are allowed; send less.")


def normalized_length(text: str) -> int:
    """The number of characters of a text after NFKC, by which vocabularies normalise, or a few more.

    One character may become 18. Each is normalised alone, because a long row of accents in a text would take
    time that grows with its square.
    """
    if text.isascii():
        return len(text)
    return sum(
        len(unicodedata.normalize("NFKC", character)) * count for character, count in Counter(text).items()
    )


def refuse_many_tags(sentences: Sequence[str]) -> None:
    """Raise `ApiError` 413 for a sentence with too many tags and placeholders."""
    for sentence in sentences:
        if (tags := sum(1 for _ in TAG.finditer(sentence))) > MAX_TAGS:
            raise ApiError(
                413,
                f"The sentence that begins with {sentence[:40]!r} has {tags:,} tags and placeholders, and "
                f"{MAX_TAGS} are allowed; send shorter sentences, or leave keep_tags out.",
            )


def prepare_each(
    translator: Translator,
    segments: Sequence[Segment],
    search: SearchSettings,
    max_tokens: int,
    glossary: Glossary | None = None,
) -> list[PreparedSentences]:
    """Prepare each sentence for a search of its own. All have the same constraints.

    Raises `ApiError` as `prepare_groups`.
    """
    prepared_segments: dict[int, PreparedSentences] = {}
    for group in prepare_groups(translator, segments, search, max_tokens, glossary):
        for number, place in enumerate(group.places):
            prepared_segments[place] = group.prepared.section(number, number + 1)
    return [prepared_segments[place] for place in range(len(segments))]


def parts_of(groups: Sequence[Group]) -> Iterator[Group]:
    """The groups, each in parts of at most `PART_TOKENS` tokens; a longer sentence is a part of its own."""
    for group in groups:
        first = tokens = 0
        for number, parts in enumerate(group.prepared.parts):
            size = sum(map(len, parts))
            if number > first and tokens + size > PART_TOKENS:
                yield part_of(group, first, number)
                first, tokens = number, 0
            tokens += size
        yield part_of(group, first, len(group.places))


def part_of(group: Group, first: int, last: int) -> Group:
    """The sentences of a group from the first to the one before the last, counted from 0."""
    return Group(group.places[first:last], group.prepared.section(first, last))


def cost_of(groups: Sequence[Group]) -> int:
    """What the queue counts for groups."""
    return sum(group.prepared.cost for group in groups)


def keeping_marks(search: SearchSettings, segment: Segment) -> SearchSettings:
    """The settings with which a sentence's marks of tags and addresses, if it has any, are kept.

    A sentence with marks is not split.
    """
    if not segment.marks or search.keep_tags:
        return search
    return replace(search, keep_tags=True, split=None)


@dataclass
class Service:
    """The models, and the queues that bound how much is translated at once."""

    models: Models
    settings: ServerSettings
    metrics: Metrics
    process: Process = ONLY
    """Which of the server's processes this is."""
    reload: Reloading | None = None
    """What reads the models and all else again; None if nothing does."""
    certificate: ssl.SSLContext | None = None
    """Of the server, if it speaks TLS."""
    is_stopping: bool = False
    """Whether the server is shutting down and refuses new requests."""
    admission: Admission = field(init=False)
    """The queue of translations."""
    analyses: Admission = field(init=False)
    """The queue of `analyse`, apart because its speed says nothing about that of translations."""
    attributions: Admission = field(init=False)
    """The queue of `attribute`."""
    default_search: SearchSettings = field(init=False)
    """The settings of a request that gives none: its beam is not wider than the server allows."""
    documents: Documents = field(init=False)
    on_demand: OnDemand = field(init=False)
    """The models that are loaded when requests need them."""
    cache: Cache = field(init=False)
    glossaries: Glossaries = field(init=False)
    _analysis: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "dragoman-analysis"))
    _attribution: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "dragoman-attribution")
    )
    """For attributions, which take longer: other analyses do not wait for them."""
    _characters: RateLimit = field(default_factory=lambda: RateLimit(0))
    """Of keys that may translate so many in a minute."""
    _preparation: Preparation = field(default_factory=Preparation)
    _terms: Preparation = field(default_factory=Preparation)
    """For glossaries, and for texts with them, which take longer."""
    _dictionaries: dict[Languages, Future[None]] = field(default_factory=dict)
    """The reading of dictionaries that has begun."""
    _torch: Future[object] | None = None
    """The import of PyTorch, if it has begun."""

    def __post_init__(self) -> None:
        self.admission, self.analyses = (
            Admission(self.settings.queue_tokens, self.settings.deadline) for _ in range(2)
        )
        self.attributions = Admission(self.settings.queue_tokens, self.settings.attribution_deadline)
        beam_size = min(SearchSettings().beam_size, self.settings.max_beam_size)
        self.default_search = SearchSettings(beam_size=beam_size)
        self.documents = Documents(self.settings, self.process)
        self.on_demand = OnDemand(self.settings.max_memory)
        self.cache = Cache(self.settings.cache_bytes)
        self.metrics.cache_bytes = lambda: self.cache.size
        self.glossaries = Glossaries(
            self.settings, self.models.language_pairs if self.settings.glossaries else ()
        )
        queues = self.admission, self.analyses, self.attributions
        self.metrics.gauges = lambda: (
            sum(queue.tokens for queue in queues),
            sum(queue.requests for queue in queues),
        )

    async def ready(self, model: ServedModel, scope: Scope) -> ServedModel:
        """A model that is loaded. It stays in memory as long as the request has what this returns.

        Raises `ApiError`: 503 if the model cannot be loaded any more, 504 if the deadline passes.
        """
        if model.loaded is not None:
            return model
        try:
            async with asyncio.timeout_at(self.deadline_of(scope)):
                if model.steps:
                    steps = [await self.on_demand.get(step) for step in model.steps]
                    return replace(model, steps=tuple(steps))
                return await self.on_demand.get(model)
        except TimeoutError as error:
            raise self.deadline_error(scope) from error

    async def ready_to_choose(self, scope: Scope, target: str, *, is_identified: bool) -> None:
        """Read the identifier of languages, if a request needs it to choose a model into `target`."""
        if is_identified and len(self.models_for(scope).sources_into(target)) > 1:
            await load_identifier()

    @property
    def max_characters(self) -> int:
        """The most characters of a request: longer texts have more than `max_tokens` tokens."""
        return CHARACTERS_PER_TOKEN * self.settings.max_tokens

    async def cut(
        self, function: Callable[[str], Document], texts: Sequence[str], scope: Scope
    ) -> list[Document]:
        """The documents that a function makes of the texts of a request.

        Raises `ApiError` 413 for more characters than `max_characters`, and as `prepare`.
        """
        characters = self.count_characters(texts)
        self.note_texts(scope, texts)
        return await self.prepare(lambda: list(map(function, texts)), characters, scope)

    def count_characters(self, texts: Sequence[str]) -> int:
        """The characters of the texts of a request, normalised. Raises `ApiError` 413 for too many."""
        characters = sum(map(len, texts))
        if characters <= self.max_characters:  # fewer are not counted normalised, which takes longer
            characters = sum(map(normalized_length, texts))
        self.refuse_many_characters(characters)
        return characters

    def refuse_many_characters(self, characters: int) -> None:
        """Raise `ApiError` 413 for a request with more characters than are allowed."""
        if characters > self.max_characters:
            raise ApiError(
                413,
                f"The request has {characters:,} characters, and {self.max_characters:,} are allowed; send "
                "less text at once.",
            )

    async def prepare(
        self, function: Callable[[], T], characters: int, scope: Scope, glossary: Glossary | None = None
    ) -> T:
        """The result of a function that cuts or tokenizes so many characters.

        It runs in a thread if they are many, or if there is a glossary. Raises `ApiError` 429 if too much is
        being prepared, the function's errors, and those of `in_time`.
        """
        if glossary is not None:
            return await self.with_terms(function, characters, scope)
        if characters <= FEW_CHARACTERS:
            return function()
        (result,) = await self.in_time(
            [self._preparation.submit(function, characters, client_of(scope))], scope
        )
        return result

    async def with_terms(self, function: Callable[[], T], size: int, scope: Scope) -> T:
        """The result of a function that reads or uses a glossary, in a thread.

        Its size is in characters or bytes. Raises as `prepare`.
        """
        await self.uncounted(self._dictionaries.values(), scope)  # the thread has them to do before
        size = min(size, MAX_CHARACTERS // 4)  # a large glossary does not wait until nothing else is done
        (result,) = await self.in_time([self._terms.submit(function, size, client_of(scope))], scope)
        return result

    def read_dictionaries(self, pairs: Iterable[Languages]) -> None:
        """Begin to read dictionaries of languages, before a glossary needs them, if that has not begun."""
        for languages in pairs:
            if languages not in self._dictionaries:
                load = Glossary([Term("a", "a")], languages).load_dictionaries
                self._dictionaries[languages] = self._terms.submit(load, 0, "")

    async def uncounted(self, futures: Iterable[Future[Any]], scope: Scope) -> None:
        """Wait for what a server does once, and give the request that time in addition to its deadline."""
        unfinished = [asyncio.wrap_future(future) for future in futures if not future.done()]
        if unfinished:
            deadline, loop = self.deadline_of(scope), asyncio.get_running_loop()
            started = loop.time()
            await asyncio.wait(unfinished)
            scope["dragoman.deadline"] = deadline + loop.time() - started

    async def glossary_for(
        self,
        pairs: Sequence[Sequence[str]],
        dictionaries: Sequence[ServedDictionary],
        model: ServedModel,
        scope: Scope,
    ) -> Glossary | None:
        """The glossary of a request for a model; None if the request has no terms.

        It has the pairs of the request, then the dictionaries of the server. Raises `ApiError` 413 for many
        pairs, 400 for a pivot, 400 and 413 as `check_terms`, and as `prepare`.
        """
        if not pairs and not dictionaries:
            return None
        refuse_pivot(model, "terms")
        characters = sum(len(text) for pair in pairs for text in pair)
        if characters > MAX_TERM_CHARACTERS:
            raise ApiError(
                413,
                f"terms have {characters:,} characters, and {MAX_TERM_CHARACTERS:,} are allowed; send fewer, "
                "or make a glossary.",
            )
        languages = Languages(model.source, model.target)
        self.read_dictionaries([languages])
        size = characters + sum(dictionary.glossary.stamp[1] for dictionary in dictionaries)
        if pairs:
            return await self.with_terms(
                lambda: self.glossaries.extend(inline_terms(pairs), dictionaries, languages), size, scope
            )
        glossary = self.glossaries.built(dictionaries, languages)
        if glossary is None:
            build = partial(self.glossaries.build, dictionaries, languages)
            glossary = await self.with_terms(build, size, scope)
        return glossary

    async def find_glossary(self, name: str, scope: Scope) -> ServedGlossary:
        """The glossary of an id or a name. Raises `ApiError` as `Glossaries.find` and `prepare`."""
        owner = owner_of(scope)
        served = self.glossaries.known(name, owner)
        if served is None:
            served = await self.with_terms(partial(self.glossaries.find, name, owner), 1, scope)
        return served

    async def unused_terms(
        self, glossary: Glossary, pairs: Sequence[tuple[str, str]], scope: Scope
    ) -> list[Term]:
        """The terms of sentences that their translations do not have, each once. Raises as `prepare`."""

        def unused() -> list[Term]:
            terms = (term for pair in pairs for term in glossary.unused(*pair))
            return list(dict.fromkeys(terms))

        return await self.with_terms(unused, sum(len(text) for pair in pairs for text in pair), scope)

    async def translate(
        self,
        model: ServedModel,
        documents: Sequence[Document],
        search: SearchSettings,
        scope: Scope,
        glossary: Glossary | None = None,
    ) -> list[NBest]:
        """The n best translations of each sentence of each document, with the terms of a glossary.

        Raises `ApiError`: 400 or 413 for a request that asks for too much, 429 if the queue is full, 499 if
        the client goes away, 504 if the deadline passes. Raises `DragomanError` for constraints that
        contradict each other.
        """
        note_sizes(scope, model)
        self.refuse_too_much(search)
        if model.steps:
            return await self._translate_by_pivot(model, documents, search, scope)
        question = self.question_of(documents, search, glossary)
        if question is not None and (known := self.known(model, question, scope)) is not None:
            return known
        segments: list[Segment] = []
        characters = constraint_characters(search)
        for document in documents:
            segments += document.segments
            characters += normalized_length(document.text)
        max_tokens = self.settings.max_tokens
        groups = await self.prepare(
            lambda: prepare_groups(model.translator, segments, search, max_tokens, glossary),
            characters,
            scope,
            glossary,
        )
        refuse_much_output([group.prepared for group in groups])
        tokens = sum(group.prepared.tokens for group in groups)
        with self.admit_prepared([group.prepared for group in groups], scope):
            results = await self.search(model, [group.prepared for group in groups], scope)
        n_best: NBest = [[]] * len(segments)
        target_tokens = 0
        for group, result in zip(groups, results, strict=True):
            for place, best in zip(group.places, result, strict=True):
                n_best[place] = best
                target_tokens += len(best[0].tokens)
        self.count_translated(scope, model, len(segments), tokens, target_tokens)
        rows = iter(n_best)
        translations = [list(islice(rows, len(document.segments))) for document in documents]
        if question is not None:
            self.cache.add(model.translator, question, translations)
        return translations

    def question_of(
        self, documents: Sequence[Document], search: SearchSettings, glossary: Glossary | None
    ) -> Question | None:
        """What the cache knows a request by; None if it keeps nothing, as of requests with terms."""
        if not self.settings.cache_bytes or glossary is not None:
            return None
        return Question.of(documents, search)

    def known(self, model: ServedModel, question: Question, scope: Scope) -> list[NBest] | None:
        """The translations that the cache has for a request, which is counted; None if it has none."""
        translations = self.cache.find(model.translator, question)
        self.metrics.cached["miss" if translations is None else "hit"] += 1
        if translations is not None:
            note_sizes(scope, model, {"sentences": sum(map(len, translations)), "cached": True})
        return translations

    async def _translate_by_pivot(
        self, model: ServedModel, documents: Sequence[Document], search: SearchSettings, scope: Scope
    ) -> list[NBest]:
        """As `translate`, through a third language. The translations are `PivotTranslation`."""
        segments = [segment for document in documents for segment in document.segments]
        async with self._first_step(model, segments, search, scope) as between:
            n_best = await self._second_step(model, between, search, scope)
        rows = map(with_sentence_between, between, n_best)
        return [list(islice(rows, len(document.segments))) for document in documents]

    @asynccontextmanager
    async def _first_step(
        self, model: ServedModel, segments: Sequence[Segment], search: SearchSettings, scope: Scope
    ) -> AsyncIterator[list[Segment]]:
        """Sentences in the third language. While the block runs, they are in the queue.

        Before that the queue counts each token twice: the second step has about as many. Raises as
        `translate`.
        """
        groups = await self._prepare_step(model, segments, search, scope)
        with self._admit_both_steps(groups, scope) as finish:
            n_best = await self._search_step(model.steps[0], groups, scope)
            finish(cost_of(groups))
            yield translated_segments(segments, n_best)

    async def _second_step(
        self, model: ServedModel, between: Sequence[Segment], search: SearchSettings, scope: Scope
    ) -> NBest:
        """The n best translations of sentences in the third language, which have been admitted."""
        search, second = second_search(search), model.steps[1]
        groups = await self._prepare_groups(second, between, search, scope)
        return await self._search_step(second, groups, scope)

    async def _prepare_step(
        self, model: ServedModel, segments: Sequence[Segment], search: SearchSettings, scope: Scope
    ) -> list[Group]:
        """The sentences of a request, prepared for the first step."""
        return await self._prepare_groups(
            model.steps[0], segments, first_search(search, self.default_search), scope
        )

    async def _prepare_groups(
        self, model: ServedModel, segments: Sequence[Segment], search: SearchSettings, scope: Scope
    ) -> list[Group]:
        characters = constraint_characters(search) + self.count_characters(
            [segment.sentence for segment in segments]
        )
        max_tokens = self.settings.max_tokens
        groups = await self.prepare(
            partial(prepare_groups, model.translator, segments, search, max_tokens), characters, scope
        )
        refuse_much_output([group.prepared for group in groups])
        return groups

    def _admit_both_steps(
        self, groups: Sequence[Group], scope: Scope
    ) -> AbstractContextManager[Callable[[int], None]]:
        """As `admit_prepared`, for the first step and a second one of as many tokens."""
        refuse_many_tokens(sum(group.prepared.tokens for group in groups), self.settings.max_tokens)
        return self.admission.admit(2 * cost_of(groups), client_of(scope))

    async def _search_step(self, model: ServedModel, groups: Sequence[Group], scope: Scope) -> NBest:
        """The n best translations of all sentences of the groups, in the order of their places."""
        results = await self.search(model, [group.prepared for group in groups], scope)
        found: dict[int, list[Translation]] = {}
        for group, result in zip(groups, results, strict=True):
            found |= zip(group.places, result, strict=True)
            self._count_step(model, group.prepared, result)
        return [found[place] for place in sorted(found)]

    def _count_step(self, model: ServedModel, prepared: PreparedSentences, n_best: NBest) -> None:
        """Count what a model of a pivot has translated, for the metrics."""
        target_tokens = sum(len(best[0].tokens) for best in n_best)
        self.metrics.count_translated(model.name, model.adapter, len(n_best), prepared.tokens, target_tokens)

    async def with_terms_of(
        self,
        prepared: PreparedSentences,
        model: ServedModel,
        alternatives: "Sequence[Alternative]",
        scope: Scope,
    ) -> "list[Alternative]":
        """The alternatives of a sentence with the best translations that also have its terms.

        One that ends the translation stays as it is. Raises as `translate`.
        """
        prefix, ids_of = prepared.constraints.prefix, model.translator.tokenizers.target.ids
        continued = [one for one in alternatives if len(one.translation.tokens) > len(prefix)]
        extended = [
            replace(
                prepared, constraints=replace(prepared.constraints, prefix=[*prefix, *ids_of([one.token])])
            )
            for one in continued
        ]
        refuse_much_output(extended)
        with self.admit_prepared(extended, scope):
            results = await self.search(model, extended, scope)
        translations = {one.token: best for one, ((best, *_),) in zip(continued, results, strict=True)}
        return [
            replace(one, translation=translations.get(one.token, one.translation)) for one in alternatives
        ]

    async def translate_in_parts(
        self,
        model: ServedModel,
        segments: Sequence[Segment],
        search: SearchSettings,
        scope: Scope,
        glossary: Glossary | None = None,
    ) -> AsyncIterator[dict[int, str]]:
        """As `translate`, for the sentences of a document, some at a time.

        Yields an empty table when the document has been admitted, then the translations of each part by the
        numbers of its sentences.
        """
        self.refuse_too_much(search)
        if model.steps:
            async with aclosing(self._translate_parts_by_pivot(model, segments, search, scope)) as parts:
                async for part_translations in parts:
                    yield part_translations
            return
        characters = self.count_characters([segment.sentence for segment in segments])
        groups = await self.prepare(
            partial(prepare_groups, model.translator, segments, search, self.settings.max_tokens, glossary),
            characters + constraint_characters(search),
            scope,
            glossary,
        )
        count = len(segments)
        del segments  # they can take more memory than what is searched
        refuse_much_output([group.prepared for group in groups])
        tokens = sum(group.prepared.tokens for group in groups)
        target_tokens = 0
        with self.admit_prepared([group.prepared for group in groups], scope) as finish:
            yield {}
            for part in parts_of(groups):
                (n_best,) = await self.search(model, [part.prepared], scope)
                finish(part.prepared.cost)
                target_tokens += sum(len(best[0].tokens) for best in n_best)
                yield {place: best[0].text for place, best in zip(part.places, n_best, strict=True)}
        self.count_translated(scope, model, count, tokens, target_tokens)

    async def _translate_parts_by_pivot(
        self, model: ServedModel, segments: Sequence[Segment], search: SearchSettings, scope: Scope
    ) -> AsyncGenerator[dict[int, str]]:
        """As `translate_in_parts`, through a third language."""
        groups = await self._prepare_step(model, segments, search, scope)
        with self._admit_both_steps(groups, scope) as finish:
            yield {}
            for part in parts_of(groups):
                (n_best,) = await self.search(model.steps[0], [part.prepared], scope)
                self._count_step(model.steps[0], part.prepared, n_best)
                finish(part.prepared.cost)
                between = translated_segments([segments[place] for place in part.places], n_best)
                translated = await self._second_step(model, between, search, scope)
                finish(part.prepared.cost)
                yield {place: best[0].text for place, best in zip(part.places, translated, strict=True)}

    async def search(
        self, model: ServedModel, prepared: Sequence[PreparedSentences], scope: Scope
    ) -> list[NBest]:
        """Translate prepared sentences. Raises `ApiError` as `translate`."""
        futures: list[Future[NBest]] = []
        try:
            await self.load_torch_for(model, prepared, scope)
            futures.extend(map(model.translator.submit, prepared))
            return await self.in_time(futures, scope)
        except BaseException:  # `in_time` cancels too, but not if `submit` has raised
            for future in futures:
                future.cancel()
            raise

    async def stream(
        self,
        model: ServedModel,
        document: Document,
        search: SearchSettings,
        scope: Scope,
        glossary: Glossary | None = None,
    ) -> AsyncIterator[tuple[str, list[Translation]]]:
        """As `translate`, for one document, sentence by sentence.

        Yields "", with an empty list, when the request has been admitted. Then it yields the certain
        beginning of a sentence's translation, with an empty list, each time that it has grown; then the whole
        translation, with the n best.
        """
        note_sizes(scope, model)
        self.refuse_too_much(search)
        characters = normalized_length(document.text) + constraint_characters(search)
        if model.steps:
            async with self._first_step(model, document.segments, search, scope) as between:
                second, search = model.steps[1], second_search(search)
                prepared = await self._prepare_each(second, between, characters, search, scope)
                number = 0
                async with aclosing(self._stream_prepared(second, prepared, scope)) as translations:
                    async for text, n_best in translations:
                        yield text, n_best and with_sentence_between(between[number], n_best)
                        number += bool(n_best)
            return
        question = self.question_of([document], search, glossary)
        if question is not None and (known := self.known(model, question, scope)) is not None:
            yield "", []
            for n_best in known[0]:
                yield n_best[0].text, n_best
            return
        prepared = await self._prepare_each(model, document.segments, characters, search, scope, glossary)
        results: NBest = []
        with self.admit_prepared(prepared, scope):
            async with aclosing(self._stream_prepared(model, prepared, scope)) as translations:
                async for text, n_best in translations:
                    yield text, n_best
                    results += [n_best] if n_best else []
        if question is not None:
            self.cache.add(model.translator, question, [results])

    async def _prepare_each(
        self,
        model: ServedModel,
        segments: Sequence[Segment],
        characters: int,
        search: SearchSettings,
        scope: Scope,
        glossary: Glossary | None = None,
    ) -> list[PreparedSentences]:
        max_tokens = self.settings.max_tokens
        prepare = partial(prepare_each, model.translator, segments, search, max_tokens, glossary)
        prepared = await self.prepare(prepare, characters, scope, glossary)
        refuse_much_output(prepared)
        return prepared

    async def _stream_prepared(
        self, model: ServedModel, prepared: Sequence[PreparedSentences], scope: Scope
    ) -> AsyncGenerator[tuple[str, list[Translation]]]:
        """As `stream`, for sentences that have been admitted."""
        progress = [Progress() for _ in prepared]
        futures: list[Future[NBest]] = []
        try:
            await self.load_torch_for(model, prepared, scope)
            for sentence, sentence_progress in zip(prepared, progress, strict=True):
                futures.append(model.translator.submit(sentence, sentence_progress))
                await asyncio.sleep(0)  # for other requests: `submit` takes ms with many constraints
                self.refuse_late(scope)
            yield "", []
            for future, sentence, sentence_progress in zip(futures, prepared, progress, strict=True):
                if not sentence.needs_alignment and len(sentence.sources) == 1:
                    stable = partial(stable_text, model.translator, sentence_progress, 0)
                    async for text in self.growing(future, stable, scope):
                        yield text, []
                ((n_best,),) = await self.in_time([future], scope)
                self.refuse_late(scope)
                yield n_best[0].text, n_best
        finally:
            for future in futures:
                future.cancel()
        tokens = sum(sentence.tokens for sentence in prepared)
        targets = sum(len(future.result()[0][0].tokens) for future in futures)
        self.count_translated(scope, model, len(prepared), tokens, targets)

    async def growing(
        self, future: Future[T], current_text: Callable[[], str], scope: Scope
    ) -> AsyncIterator[str]:
        """Yield a text each time that it has grown, until the future is done. Raises as `refuse_late`."""
        written = ""
        while not future.done():
            await asyncio.sleep(POLL_SECONDS)
            self.refuse_late(scope)
            if len(text := current_text()) > len(written):
                yield text
                written = text

    async def load_torch_for(
        self, model: ServedModel, prepared: Sequence[PreparedSentences], scope: Scope
    ) -> None:
        """`load_torch`, if sentences need PyTorch."""
        is_imported = self._torch is not None and self._torch.done()
        if not is_imported and any(needs_torch(model.translator, one) for one in prepared):
            await self.load_torch(scope)

    async def load_torch(self, scope: Scope) -> None:
        """Import PyTorch, which takes seconds on a busy machine.

        It is not imported at the start: it takes more memory than all else of a server with a small model.
        """
        if self._torch is None:
            self._torch = self._analysis.submit(import_module, TORCH)
        await self.uncounted([self._torch], scope)

    async def analyse(self, function: Callable[[], T], tokens: int, scope: Scope) -> T:
        """The result of a function that computes with PyTorch, in a thread of its own.

        Raises `ApiError` as `translate`.
        """
        with self.admit(tokens, self.analyses, scope):
            await self.load_torch(scope)
            (result,) = await self.in_time([submit_interruptible(self._analysis, function)], scope)
            return result

    async def attribute(self, function: Callable[[], T], tokens: int, scope: Scope) -> T:
        """As `analyse`, for an attribution: in another thread, and with a deadline of its own from now.

        The function may record nothing of a shared model's modules, which `analyse` may be recording.
        """
        self.extend_deadline(scope, self.settings.attribution_deadline)
        with self.admit(tokens, self.attributions, scope):
            (result,) = await self.in_time([submit_interruptible(self._attribution, function)], scope)
            return result

    async def in_time(self, futures: Sequence[Future[T]], scope: Scope) -> list[T]:
        """The results, unless the request's deadline passes or its client goes away: then all are cancelled.

        Raises `ApiError`: 504 for the deadline, 499 for the client.
        """
        loop = asyncio.get_running_loop()
        end: asyncio.Future[ApiError | None] = loop.create_future()  # None if all futures are done
        unfinished = len(futures)

        def stop_waiting(reason: ApiError | None) -> None:
            if not end.done():
                end.set_result(reason)

        def count_finished() -> None:
            nonlocal unfinished
            unfinished -= 1
            if not unfinished:
                stop_waiting(None)

        # This function, which the futures hold, does not hold them: a cycle would stay in memory until the
        # garbage collector runs. It is called in the threads in which the futures end.
        def on_done(_: object) -> None:
            loop.call_soon_threadsafe(count_finished)

        for future in futures:
            future.add_done_callback(on_done)
        timer = loop.call_at(self.deadline_of(scope), lambda: stop_waiting(self.deadline_error(scope)))
        connection = scope.get("dragoman.connection")
        if connection is not None:
            connection.when_lost = lambda: stop_waiting(ApiError(499, "The client has gone.", "client_gone"))
            connection.flow.resume_reading()  # after a long body uvicorn reads no more, and sees no end
            if connection.transport.is_closing():  # it was lost while nothing was waited for
                connection.when_lost()
        try:
            if futures and (reason := await end):
                raise reason
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        finally:
            timer.cancel()
            if connection is not None:
                connection.when_lost = None

    def deadline_of(self, scope: Scope) -> float:
        """The time of the event loop at which a request has to be answered: it counts from the first call."""
        until: float = scope.setdefault(
            "dragoman.deadline", asyncio.get_running_loop().time() + self.settings.deadline
        )
        return until

    def refuse_late(self, scope: Scope) -> None:
        """Raise `ApiError` 504 if the request's deadline has passed."""
        if asyncio.get_running_loop().time() > self.deadline_of(scope):
            raise self.deadline_error(scope)

    def extend_deadline(self, scope: Scope, seconds: float) -> None:
        """Give a request so many seconds from now."""
        scope["dragoman.seconds"] = seconds
        scope["dragoman.deadline"] = asyncio.get_running_loop().time() + seconds

    def deadline_error(self, scope: Scope) -> ApiError:
        """The error of a request whose deadline has passed."""
        seconds = scope.get("dragoman.seconds", self.settings.deadline)
        return ApiError(
            504,
            f"The request took more than {seconds:g} seconds and was stopped; send less text at once.",
        )

    def admit_prepared(
        self, prepared: Sequence[PreparedSentences], scope: Scope
    ) -> AbstractContextManager[Callable[[int], None]]:
        """As `admit`, for translations. In the queue tokens with terms count more, by their search's work."""
        refuse_many_tokens(sum(sentences.tokens for sentences in prepared), self.settings.max_tokens)
        cost = sum(sentences.cost for sentences in prepared)
        return self.admission.admit(cost, client_of(scope))

    def admit(
        self, tokens: int, admission: Admission, scope: Scope
    ) -> AbstractContextManager[Callable[[int], None]]:
        """As `Admission.admit`. Also raises `ApiError` 413 for a request of too many tokens."""
        refuse_many_tokens(tokens, self.settings.max_tokens)
        return admission.admit(tokens, client_of(scope))

    def count_translated(
        self, scope: Scope, model: ServedModel, sentences: int, source_tokens: int, target_tokens: int
    ) -> None:
        """Count what a request has translated, for the metrics and the log."""
        self.metrics.count_translated(model.name, model.adapter, sentences, source_tokens, target_tokens)
        sizes = {"sentences": sentences, "source_tokens": source_tokens, "target_tokens": target_tokens}
        note_sizes(scope, model, sizes)

    def note_texts(self, scope: Scope, texts: Sequence[str], model: ServedModel | None = None) -> None:
        """Keep the size of a request's texts for the log, and the texts themselves if the settings allow it.

        Raises `ApiError` as `charge`.
        """
        characters = sum(map(len, texts))
        note_sizes(scope, model, {"characters": characters})
        self.charge(scope, characters)
        if self.settings.log_texts:
            scope["dragoman.texts"] = list(texts)

    def models_for(self, scope: Scope) -> Models:
        """The models that the key of a request may use. Raises `ApiError` 403 if there are none of them."""
        limits = limits_of(scope)
        if limits is None or not (limits.models or limits.languages):
            return self.models
        return self.models.permitted(limits.models, limits.languages)

    def charge(self, scope: Scope, characters: int) -> None:
        """Count the characters of a request against the limit of its key, if it has one.

        Raises `ApiError`: 413 for more than the key may translate in a minute, 429 for more than is left.
        """
        limits = limits_of(scope)
        if limits is None or not limits.characters_per_minute:
            return
        most = limits.characters_per_minute
        message = (
            f"This key may translate {most:,} characters per minute, and the request has {characters:,}; "
        )
        if characters > most:
            raise ApiError(413, message + "send less text at once.")
        if wait := self._characters.seconds_until_allowed(client_of(scope), characters, most):
            raise ApiError(429, message + "try again later.", "rate_limit", retry_after=math.ceil(wait))

    def refuse_too_much(self, search: SearchSettings) -> None:
        """Raise `ApiError` for a search beyond the server's limits: 400, or 413 for too long constraints."""
        for name, limit in (
            ("beam_size", self.settings.max_beam_size),
            ("n_best", self.settings.max_n_best),
        ):
            if name == "beam_size" and search.temperature:
                continue  # samples have no beam
            if (value := getattr(search, name)) > limit:
                raise ApiError(400, f"{name} is {value}; this server allows {limit} at most.")
        if (forced := sum(map(len, search.force_words))) > MAX_FORCED:
            raise ApiError(
                413,
                f"force_words have {forced:,} characters, and {MAX_FORCED} are allowed: the search keeps a "
                "beam for each of their tokens.",
            )
        if (characters := normalized_length(search.prefix)) > PREFIX_CHARACTERS:
            raise ApiError(
                413,
                f"prefix has {characters:,} characters, and {PREFIX_CHARACTERS:,} are allowed; send less.",
            )
        if (characters := constraint_characters(search)) > self.max_characters:
            raise ApiError(
                413,
                f"prefix, force_words and ban_words have {characters:,} characters, and "
                f"{self.max_characters:,} are allowed; send fewer.",
            )


def note_sizes(scope: Scope, model: ServedModel | None, sizes: Mapping[str, int] = NO_SIZES) -> None:
    """Keep the model of a request, if it is known, and sizes of its texts, for the log."""
    if model is not None:
        scope["dragoman.model"] = model
    scope.setdefault("dragoman.sizes", {}).update(sizes)


def client_of(scope: Scope) -> str:
    """The client that has sent a request, as the `Gateway` names it."""
    client: str = scope.get("dragoman.client", "")
    return client


def limits_of(scope: Scope) -> KeyLimits | None:
    """The limits of a request's key; None if it has none, or if there are no keys."""
    limits: KeyLimits | None = scope.get("dragoman.limits")
    return limits


def owner_of(scope: Scope) -> str | None:
    """The name of a request's key; None if there are no keys."""
    owner: str | None = scope.get("dragoman.owner")
    return owner


def refuse_much_output(prepared: Sequence[PreparedSentences]) -> None:
    """Raise `ApiError` 413 if the translations may be so long together that they need much memory.

    Raises `DragomanError` as `max_target_length`.
    """
    tokens = sum(
        sentences.settings.n_best
        * max_target_length(len(source), None, sentences.settings, sentences.constraints.min_capacity)
        for sentences in prepared
        for source in sentences.sources
    )
    if tokens > MAX_OUTPUT_TOKENS:
        raise ApiError(
            413,
            f"The translations may have {tokens:,} tokens together, and {MAX_OUTPUT_TOKENS:,} are allowed; "
            "ask for less: a lower n_best, max_extra_tokens or min_length, or less text at once.",
        )


def constraint_characters(search: SearchSettings) -> int:
    """The number of characters of the prefix, force_words and ban_words.

    Each of the words counts for one character more, because even an empty one takes time.
    """
    words = [*search.force_words, *search.ban_words]
    return normalized_length(search.prefix) + len(words) + sum(map(normalized_length, words))

"""The models that a server has, by name and by their pair of languages."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dragoman.serving.errors import ApiError
from dragoman.serving.languages import language_name
from dragoman.text.language_codes import closeness, family, matches
from dragoman.text.quality.identification import identify
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.translator import Translator


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with its name and languages."""

    name: str
    source: str
    """The code of the language that it reads, such as `en`; `und` if it is unknown."""
    target: str
    loaded: Translator | None
    """None for a model that is loaded when a request needs it, which gets one that is (`Service.ready`)."""
    architecture: str = ""
    parameters: int = 0
    """Number of parameters; tied weights count once."""
    folder: Path | None = None
    """Where it was loaded from: a run, or the model in it. None for a model with an adapter."""
    adapter: str = ""
    """The name of the adapter that is merged in the weights."""
    adapted: tuple["ServedModel", ...] = ()
    """The same model with each of its adapters."""
    hash: str = ""
    """Of the files of the model, and of those of the adapter."""
    steps: tuple["ServedModel", ...] = ()
    """Of a translation through a third language: the model into it, and the model from it."""
    precision: str = "float32"
    load: Callable[[], Translator] | None = None
    """Of a model that is loaded when a request needs it. Raises `DragomanError` if its files have changed."""
    size: int = 0
    """Bytes of memory that it takes then, about."""
    run_name: str = ""
    """Of one of the pairs of languages of a model: the name of the model, which all of its pairs have."""

    @property
    def translator(self) -> Translator:
        """What translates, of a model that is loaded."""
        assert self.loaded is not None
        return self.loaded

    def of_languages(self, translator: Translator) -> Translator:
        """The translator from and into the languages of this model, of one that may have several."""
        return translator.into(self.target, self.source) if self.run_name else translator

    @property
    def pivot(self) -> str:
        """The language between the two `steps`; "" if there are none."""
        return self.steps[0].target if self.steps else ""


@dataclass(frozen=True, eq=False)
class Models:
    """All models of a server, in the order in which they were given."""

    models: tuple[ServedModel, ...]
    allows_pivots: bool = True
    """Whether a text is translated through a third language where no model has both of its languages."""

    @property
    def with_adapted(self) -> list[ServedModel]:
        """All models, and those with adapters."""
        return [one for model in self.models for one in (model, *model.adapted)]

    def with_adapter(self, name: str) -> "Models":
        """The models that have an adapter of this name, with it. Raises `ApiError` 404 if none has."""
        adapted = [
            adapted_model
            for model in self.models
            for adapted_model in model.adapted
            if adapted_model.adapter == name
        ]
        if not adapted:
            raise ApiError(404, f"There is no adapter {name!r}; /v1/models lists those that are served.")
        return Models(tuple(adapted), self.allows_pivots)

    @cached_property
    def pivots(self) -> list[ServedModel]:
        """The translations through a third language between those that no model has both of.

        Of several ones between the same languages it is the first in the order of the models.
        """
        if not self.allows_pivots:
            return []
        # By the languages without regions, so that each model is compared with few others. A model into an
        # unknown language comes after the pivots.
        unknown, between, reading = [], defaultdict(list), defaultdict(list)
        for model in self.models:
            if model.source == UNKNOWN_LANGUAGE != model.target:
                unknown.append(model)
            elif model.target != UNKNOWN_LANGUAGE:
                between[family(model.source), family(model.target)].append(model)
                reading[family(model.source)].append(model)
        found: dict[tuple[str, str], ServedModel] = {}
        for first in self.models:
            for second in reading[family(first.target)]:
                source, target = first.source, second.target
                direct = [*between[family(source), family(target)], *unknown]
                if (
                    first.source != UNKNOWN_LANGUAGE
                    and (source, target) not in found
                    and matches(first.target, second.source)
                    and not matches(source, target)
                    and not any(fitting(direct, source, target))
                ):
                    found[source, target] = by_way_of(first, second)
        return list(found.values())

    @cached_property
    def _permitted(self) -> dict[tuple[tuple[str, ...], tuple[str, ...]], "Models"]:
        """What `permitted` has returned: a key asks for the same with each request, and for its `pivots`."""
        return {}

    def permitted(self, names: tuple[str, ...], languages: tuple[str, ...]) -> "Models":
        """Those models that have one of the names and translate between the languages; empty permits all.

        Raises `ApiError` 403 if there are none.
        """
        if (former := self._permitted.get((names, languages))) is not None:
            return former
        models = tuple(
            model
            for model in self.models
            if not names or {model.name, model.run_name}.intersection(names)
            if not languages
            or all(any(matches(code, side) for code in languages) for side in (model.source, model.target))
        )
        if not models:
            raise ApiError(403, "The API key permits none of this server's models.")
        self._permitted[names, languages] = permitted = replace(self, models=models)
        return permitted

    @property
    def _in_words(self) -> str:
        """What all of them have in common, after "There is no model"."""
        adapter = self.models[0].adapter
        return f" with the adapter {adapter!r}" if adapter else ""

    def named(self, name: str, source: str = "", target: str = "") -> ServedModel:
        """The model of a name; of a model with several pairs of languages, the one of these languages.

        Raises `ApiError` 404 if there is none.
        """
        named = [model for model in self.models if name in (model.name, model.run_name)]
        if named:
            return next(iter(fitting(named, source, target)), named[0])
        raise ApiError(
            404, f"There is no model {name!r}{self._in_words}; /v1/models lists those that are served."
        )

    def between(self, source: str, target: str, text: str = "") -> ServedModel:
        """The model from a language into another that is closest to their codes; "" matches every language.

        A model into an unknown language comes last. `auto` stands for the language of `text` among those that
        have a model. Raises `ApiError` 400 if there is no such model.
        """
        if not source and not target:
            return self.models[0]
        if source == "auto":
            source = self.language_of(text, target)
        known = [model for model in self.models if model.target != UNKNOWN_LANGUAGE]
        for models in (known, self.pivots, self.models) if source and target else (self.models,):
            if found := list(fitting(models, source, target)):  # the first one among equals
                return max(
                    found,
                    key=lambda model: closeness(source, model.source) + closeness(target, model.target),
                )
        pairs = ", ".join(sorted({f"{model.source} to {model.target}" for model in self.models}))
        direction = f"from {source or 'any language'} to {target or 'any language'}"
        raise ApiError(
            400, f"No model translates {direction}{self._in_words}. There are: {pairs}.", "no_such_pair"
        )

    def language_of(self, text: str, target: str = "") -> str:
        """The likeliest source language of a text among those that have a model into `target`."""
        sources = self.sources_into(target)
        if len(sources) > 1:
            detections = identify(text, sources)
            return detections[0][0] if detections else ""
        return sources[0] if sources else ""

    def sources_into(self, target: str) -> list[str]:
        """The languages that are translated into this one; "" is any."""
        # In the models' order: of two varieties of a language the first is identified.
        models = (*self.models, *self.pivots)
        return list(dict.fromkeys(model.source for model in models if matches(target, model.target)))

    @property
    def language_pairs(self) -> list[Languages]:
        """The languages of the models, each pair once."""
        return list(dict.fromkeys(Languages(model.source, model.target) for model in self.models))

    @property
    def pairs(self) -> dict[str, list[str]]:
        """The target languages of each source language, in the order of the models."""
        pairs: dict[str, list[str]] = {}
        for model in (*self.models, *self.pivots):
            targets = pairs.setdefault(model.source, [])
            if model.target not in targets:
                targets.append(model.target)
        return pairs

    @property
    def languages(self) -> list[str]:
        """The codes of all languages, sorted."""
        return sorted({code for model in self.models for code in (model.source, model.target)})


def by_way_of(first: ServedModel, second: ServedModel) -> ServedModel:
    """The translation by one model, and of that by another one."""
    return ServedModel(
        f"{first.name}+{second.name}",
        first.source,
        second.target,
        second.loaded,
        adapter=first.adapter,
        steps=(first, second),
    )


def fitting(models: Iterable[ServedModel], source: str, target: str) -> Iterator[ServedModel]:
    """Of these models those from a language into another; "" matches every language."""
    return (model for model in models if matches(source, model.source) and matches(target, model.target))


def name_of_side(language: str, side: str) -> str:
    """The English name of a language; that of its side if it is unknown, as of spelling and phonemes."""
    return side if language == UNKNOWN_LANGUAGE else language_name(language)

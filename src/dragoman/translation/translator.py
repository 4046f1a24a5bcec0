"""The translator: N sentences in, N translations out, in order, independent of each other.

This module does not import torch, which takes seconds. Greedy and beam search in C++ do not need it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, Unpack, overload

from dragoman.model.settings import Precision
from dragoman.model.symbols import UNKNOWN
from dragoman.native.build import DECODER, is_compiled
from dragoman.native.decoder import Progress
from dragoman.native.settings import SHORTLIST_NEEDS_NATIVE, EngineSettings
from dragoman.search.contradictions import refuse_settings
from dragoman.search.hypothesis import Constraints, Hypothesis, NBest, Terms, grid_rows
from dragoman.search.options import SearchOptions
from dragoman.search.settings import WITHOUT_FORCED_WORDS, SearchSettings
from dragoman.system.arguments import argument, check_argument, path_argument
from dragoman.system.callers import warn_caller
from dragoman.system.errors import DragomanError, LongInput, NonFiniteError, OptionError, SeveralSentences
from dragoman.system.futures import OneThread
from dragoman.system.keys import unknown_key
from dragoman.system.machine import shared_property
from dragoman.system.new_folder import refuse_taken
from dragoman.text.annotated_terms import knows_terms, without_symbols
from dragoman.text.byte_lengths import extra_bytes
from dragoman.text.invisible import without_invisible
from dragoman.text.language_pairs import choose_pair, open_target
from dragoman.text.letters import has_letter
from dragoman.text.settings import LanguagePair, Languages, common_languages
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.translation import iterable, streaming
from dragoman.translation.annotation import annotate_sentence, annotated_terms
from dragoman.translation.constraints import MAX_TERM_TOKENS, encode_terms, word_continuations
from dragoman.translation.cut_text import CutText, cut_text, whole_texts_message
from dragoman.translation.glossary import Glossary
from dragoman.translation.mbr import minimum_bayes_risk
from dragoman.translation.model_folder import StoredModel, Tokenizers, save_model, torch_model
from dragoman.translation.native_backend import NativeBackend, supports
from dragoman.translation.segmentation import join_translations, long_translation_message
from dragoman.translation.tags import Tag, remove_tags, restore_tags
from dragoman.translation.texts import iterable_of_texts, list_of_texts
from dragoman.translation.token_ids import constraint_ids, encode_parts
from dragoman.translation.translation import Translation

if TYPE_CHECKING:
    from dragoman.model.interface import Model
    from dragoman.search.scoring import Likelihood
    from dragoman.search.trace import Node
    from dragoman.translation.analysis import Alternative, Attention
    from dragoman.translation.torch_backend import TorchBackend

GRID_WORK = 5  # measured: a hypothesis of grid beam search takes as long as so many of beam search
FEW_SENTENCES = 16  # PyTorch translates these before the C++ decoder is compiled
KNOWN_SHARE = 0.1  # of training's sources, from which on a model knows texts of several sentences


@dataclass(frozen=True)
class PreparedSentences:
    """Sentences as `Translator.prepare` makes them ready for a search: without tags, as ids, in parts."""

    settings: SearchSettings
    without_tags: list[tuple[str, list[Tag]]]
    """Each sentence without its tags, and the tags."""
    parts: list[list[list[int]]]
    """The ids of each sentence's parts, END last in each; most sentences are one part."""
    constraints: Constraints
    terms: Terms = ()
    """The glossary's terms that each source has, in the order of `sources`; empty without a glossary."""
    prefix: tuple[int, ...] = ()
    """What the model reads before each part (`Translator.source_prefix`)."""

    @cached_property
    def sources(self) -> list[list[int]]:
        """The ids of all parts as the model reads them, in order; END alone has no prefix."""
        parts = [part for sentence_parts in self.parts for part in sentence_parts]
        return [[*self.prefix, *part] if len(part) > 1 else part for part in parts] if self.prefix else parts

    def count_longer(self, longest: int | None) -> int:
        """How many sentences have more tokens, END included; 0 if the settings ask to truncate or split.

        If the settings keep sentences whole, those that are split nevertheless do not count.
        """
        if longest is None or self.settings.truncate or self.settings.split:
            return 0
        is_whole = self.settings.needs_whole_sentences
        return sum(
            1 + sum(len(part) - 1 for part in parts) > longest
            for parts in self.parts
            if not (is_whole and len(parts) > 1)
        )

    @property
    def tokens(self) -> int:
        """Tokens of all sources, END included."""
        return sum(map(len, self.sources))

    @property
    def cost(self) -> int:
        """As `tokens`, each as often as terms make the search of its source take longer."""
        if not self.terms:
            return self.tokens
        width = self.settings.beam_size
        forced = [sum(phrase.tokens for phrase in phrases) for phrases in self.terms]
        return sum(
            len(source) * (GRID_WORK * grid_rows(tokens, width) // width if tokens else 1)
            for source, tokens in zip(self.sources, forced, strict=True)
        )

    def section(self, first: int, last: int) -> "PreparedSentences":
        """The sentences from the first to the one before the last, counted from 0."""
        start, end = (sum(map(len, self.parts[:number])) for number in (first, last))
        return replace(
            self,
            without_tags=self.without_tags[first:last],
            parts=self.parts[first:last],
            terms=self.terms[start:end],
        )

    @property
    def needs_search(self) -> bool:
        """Whether a source has a token besides END: not all are blank, or their own translations."""
        return any(len(source) > 1 for source in self.sources)

    @property
    def needs_alignment(self) -> bool:
        """Whether PyTorch has to align a translation with its sentence, to place tags or unknown words."""
        return self.settings.replace_unknown or any(tags for _, tags in self.without_tags)


@dataclass(frozen=True)
class PreparedTexts:
    """Texts as `prepare_texts` makes them ready: cut, and their sentences prepared."""

    texts: list[CutText]
    sentences: PreparedSentences

    @property
    def settings(self) -> SearchSettings:
        """Those of the search."""
        return self.sentences.settings

    def join(self, translations: list[list[Translation]]) -> list[list[Translation]]:
        """The translations of the texts from those of all their sentences."""
        rest = iter(translations)
        return [join_sentences(text, list(islice(rest, len(text.spans)))) for text in self.texts]


def join_sentences(text: CutText, translations: list[list[Translation]]) -> list[Translation]:
    """The translations of a text from those of its sentences."""
    if len(translations) == 1:
        return translations[0]
    parts = [best for best, *_ in translations]
    return [replace(join_translations(parts), text=text.join([part.text for part in parts]))]


class Backend(Protocol):
    """A backend: `TorchBackend` with all settings, `NativeBackend` for greedy and beam search on a CPU."""

    def search(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints,
        terms: Terms = (),
    ) -> NBest:
        """The `n_best` best hypotheses of each source, which ends with END; none for END alone."""


class Translator:
    """A trained model with its tokenizers: `Translator.load` reads it, `from_model` takes one in memory.

    Methods take the settings of a search as `SearchSettings` or by keyword: `translate(lines, beam_size=1)`.
    """

    def __init__(
        self,
        tokenizers: Tokenizers,
        torch_backend: "Callable[[], TorchBackend]",
        native_backend: Callable[[], NativeBackend | None] = lambda: None,
        engine: EngineSettings | None = None,
        longest_trained: int | None = None,
        longest_source: int | None = None,
        languages: Languages | None = None,
        cuts_sentences: bool = True,
        several_sentences: float | None = None,
        model: "Callable[[], Model] | None" = None,
        pairs: tuple[LanguagePair, ...] = (),
        symbol: str = "",
    ) -> None:
        self.tokenizers = tokenizers
        self.languages = languages or Languages()
        self.engine_settings = engine or EngineSettings()
        self.longest_trained = longest_trained
        """Tokens, END included, of the longest source that the model was trained on; None if unknown."""
        self.longest_source = longest_source
        """Tokens, END included, of the longest source that the model can read; None is no limit."""
        self.cuts_sentences = cuts_sentences
        """Whether texts of several sentences are cut, because few sources of training have several."""
        self.several_sentences = several_sentences
        """Share of the sources of training that have several sentences; None if unknown."""
        self.pairs = pairs
        """The pairs of languages of a model of several."""
        self.symbol = symbol
        """The token before each source that asks for the target language; "" if the model has one, or if none
        is chosen (`into`)."""
        self._open_torch, self._open_native = torch_backend, native_backend
        self._open_model = model or (lambda: self.torch_backend.model)
        self._open_executor = lambda: OneThread("dragoman-torch")
        self._whole: Translator | None = None  # that of all languages, whose memory this one shares
        self.folders: tuple[Path, ...] = ()
        """Absolute paths of the models, if `load` has read them."""

    @classmethod
    def load(
        cls,
        run: str | os.PathLike[str],
        *others: str | os.PathLike[str],
        device: str | None = None,
        precision: Precision = "float32",
        workers: int | None = None,
        native: bool = True,
        shortlist: str | Path | None = None,
        cuda_graphs: bool = True,
    ) -> "Translator":
        """Read a run's folder, or the folder `model` in it.

        Several runs are an ensemble, which averages their probabilities. A pickle has the folders' paths, and
        another process reads them again.

        The keyword arguments are those of `EngineSettings`. Raises `DragomanError` if there is no model yet,
        if a file is missing, damaged or does not fit the others, if the models' vocabularies differ, and for
        a device or precision that this machine does not have.
        """
        shortlist = None if shortlist is None else path_argument("shortlist", shortlist)
        engine = EngineSettings(precision, workers, native, shortlist, cuda_graphs, device)
        return load_folders(tuple(path_argument("run", folder) for folder in (run, *others)), engine)

    @classmethod
    def of(cls, stored: Sequence[StoredModel], engine: EngineSettings) -> "Translator":
        """As `load`, for models that have been read already. Their weights must not change.

        Raises `DragomanError` as `load`.
        """
        tokenizers = stored[0].tokenizers
        if any(other.tokenizers != tokenizers for other in stored):
            raise DragomanError("The models of an ensemble need the same vocabularies; theirs differ.")
        device = engine.chosen_device
        in_cpp = engine.native and device == "cpu" and len(stored) == 1 and supports(stored[0])

        def open_torch() -> "TorchBackend":
            from dragoman.translation.torch_backend import TorchBackend

            return TorchBackend.load(stored, device, engine)

        def open_model() -> "Model":
            from dragoman.system.device import open_device

            if len(stored) > 1:
                raise DragomanError("An ensemble has a model for each run; load one run to have its model.")
            return torch_model(stored[0]).to(open_device(device)).eval()

        translator = cls(
            tokenizers,
            open_torch,
            (lambda: NativeBackend.load(stored[0], engine)) if in_cpp else lambda: None,
            engine,
            min(filter(None, (model.longest_trained for model in stored)), default=None),
            min(filter(None, (model.settings.longest for model in stored)), default=None),
            stored[0].languages,
            any((model.several_sentences or 0) < KNOWN_SHARE for model in stored),
            stored[0].several_sentences,
            open_model,
            stored[0].pairs,
        )
        if engine.shortlist is not None and translator.native_backend is None:  # reads the shortlist now
            raise OptionError(SHORTLIST_NEEDS_NATIVE)
        if not in_cpp or engine.precision == "bfloat16":
            _ = translator.torch_backend  # refuses unsupported settings, and weights that do not fit, now
        return translator

    @classmethod
    def from_model(
        cls,
        model: "Model",
        tokenizers: Tokenizers,
        *,
        longest_trained: int | None = None,
        workers: int = 1,
        native: bool = False,
        cuts_sentences: bool = False,
        symbol: str = "",
    ) -> "Translator":
        """A translator for a model in memory. It searches with PyTorch, or with `native` in C++ in float32.

        With `cuts_sentences` it translates texts of several sentences sentence by sentence. `symbol` is the
        token of the target language that the model reads before each source, if it has several.

        The weights must not change while the translator is in use. The model is put into evaluation mode
        (`model.eval()`): call `model.train()` before you train it further.
        """
        from dragoman.model.transformer import Transformer
        from dragoman.translation.model_folder import numpy_weights
        from dragoman.translation.torch_backend import TorchBackend

        backend, engine = TorchBackend(model, workers), EngineSettings(workers=workers, native=native)

        def open_native() -> NativeBackend | None:
            if not native or not isinstance(model, Transformer) or model.settings.variants:
                return None
            return NativeBackend.load(StoredModel(numpy_weights(model), model.settings, tokenizers), engine)

        return cls(
            tokenizers,
            lambda: backend,
            open_native,
            engine,
            longest_trained,
            model.longest_source,
            cuts_sentences=cuts_sentences,
            symbol=symbol,
        )

    def __repr__(self) -> str:
        """The call of `load` with the models' folders; an address for a model in memory."""
        folders = ", ".join(repr(str(folder)) for folder in self.folders)
        into = f".into({self.languages.target!r})" if self.symbol else ""
        return f"Translator.load({folders}){into}" if folders else object.__repr__(self)

    def __reduce__(self) -> "tuple[Callable[..., Translator], tuple[object, ...]]":
        """A pickle has the folders' paths alone. Raises `DragomanError` for a model in memory."""
        if not self.folders:
            raise DragomanError(
                "A translator of a model in memory cannot be pickled; save the model, and load it in each "
                "process."
            )
        if not self.symbol:
            return load_folders, (self.folders, self.engine_settings)
        return load_folders, (self.folders, self.engine_settings, self.languages)

    # ---- several pairs of languages

    def into(self, target_language: str, source_language: str = "") -> "Translator":
        """A translator of the same model from and into these languages, which shares its memory.

        "" stands for the only language. Of varieties, such as pt-BR and pt-PT, it takes the nearest. Raises
        `DragomanError` for a language that the model does not have, and for "" if it has several target
        languages.
        """
        target = argument("target_language", target_language, str)
        source = argument("source_language", source_language, str)
        pair = choose_pair(self.pairs, self.languages, target, source)
        return self if pair is None else self._between(pair)

    def _between(self, pair: LanguagePair) -> "Translator":
        """A translator of the same model that reads the symbol of this pair before each source."""
        whole, before = self._whole or self, bool(pair.symbol)
        translator = Translator(
            whole.tokenizers,
            lambda: whole.torch_backend,
            lambda: whole.native_backend,
            whole.engine_settings,
            whole.longest_trained and whole.longest_trained - before,
            whole.longest_source and whole.longest_source - before,
            Languages(pair.source, pair.target),
            whole.cuts_sentences,
            whole.several_sentences,
            lambda: whole.model,
            whole.pairs,
            pair.symbol,
        )
        translator.knows_terms = whole.knows_terms
        translator.folders = whole.folders
        translator._open_executor = lambda: whole.torch_executor
        translator._whole = whole
        return translator

    @cached_property
    def source_prefix(self) -> tuple[int, ...]:
        """The ids that the model reads before each source: that of the symbol of the target language, if any.

        Raises `DragomanError` if the model has several target languages, and none is chosen.
        """
        if not self.symbol and any(pair.symbol for pair in self.pairs):
            raise open_target(self.pairs)
        return tuple(self.tokenizers.source.ids([self.symbol])) if self.symbol else ()

    @shared_property
    def torch_backend(self) -> "TorchBackend":
        """The PyTorch backend, built when it is first needed."""
        return self._open_torch()

    @shared_property
    def model(self) -> "Model":
        """The model, a module of PyTorch in float32, in evaluation mode. `save` writes its weights.

        That of a translator which was loaded is read when it is first asked for, and does not translate: it
        may be trained. Raises `DragomanError` for an ensemble.
        """
        return self._open_model()

    def save(self, out: str | os.PathLike[str]) -> None:
        """Write a new model folder, with the weights that `model` has now, for `load`.

        Raises `DragomanError` if there is something at `out`, for an ensemble, and if it cannot be written.
        """
        folder = path_argument("out", out).absolute()
        refuse_taken(folder)
        languages = common_languages(self.pairs) if self.pairs else self.languages
        longest = self.longest_trained and self.longest_trained + bool(self.symbol)
        about = longest, languages, self.several_sentences, self.pairs
        save_model(folder, self.model, self.model.settings, self.tokenizers, *about)

    def close(self) -> None:
        """End the threads of searches when their searches end, and free the memory of the model.

        A `with` does so at its end. What needs the model raises `DragomanError` afterwards.
        """

        def refuse() -> NoReturn:
            raise DragomanError("This translator is closed; load it again.")

        self._open_torch = self._open_native = self._open_model = refuse
        for name in ("torch_backend", "native_backend", "model", "torch_executor"):
            vars(self).pop(name, None)  # each ends with its last user

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @shared_property
    def native_backend(self) -> NativeBackend | None:
        """The C++ backend; None if the model or the machine does not support it."""
        return self._open_native()

    def backend(self, settings: SearchSettings, sentences: int) -> Backend:
        """The backend for these settings. Raises `DragomanError` as `native_for`."""
        return self.native_for(settings, sentences) or self.torch_backend

    def native_for(self, settings: SearchSettings, sentences: int) -> NativeBackend | None:
        """The C++ backend; None if PyTorch has to search with these settings.

        While the C++ decoder is being compiled, PyTorch translates a few sentences in float32. Raises
        `DragomanError` if there is a shortlist and C++ does not support the settings.
        """
        engine = self.engine_settings
        is_plain = engine.native and engine.shortlist is None and engine.precision == "float32"
        still_compiling = is_plain and sentences <= FEW_SENTENCES and not is_compiled(DECODER)
        if settings.is_standard_beam_search and not still_compiling and self.native_backend is not None:
            return self.native_backend
        if engine.shortlist is not None:
            raise OptionError(SHORTLIST_NEEDS_NATIVE)
        return None

    def search_settings(self, settings: SearchSettings | None, options: SearchOptions) -> SearchSettings:
        """The settings, or the defaults, with the options; `max_extra_tokens` fits a model of bytes.

        Raises `DragomanError` for something else in the settings' place, and for an option that is none.
        """
        check_argument("settings", settings, SearchSettings)
        defaults = SearchSettings()
        for name in options:
            if name not in SearchSettings.__dataclass_fields__:
                raise unknown_key(name, defaults, "the options of a search", defaults)
        merged = replace(settings or defaults, **options) if options else settings or defaults
        if merged.max_extra_tokens is not None or not self.tokenizers.target.is_bytes:
            return merged
        extra = extra_bytes(self.tokenizers.source.is_bytes, merged.extra_tokens, self.longest_trained)
        return replace(merged, max_extra_tokens=extra)

    def search(self, prepared: PreparedSentences) -> NBest:
        """The `n_best` best hypotheses of each source; none for END alone. Raises as `n_best`."""
        backend = self.backend(prepared.settings, len(prepared.sources))
        return backend.search(prepared.sources, prepared.settings, prepared.constraints, prepared.terms)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an iterable of texts too, for mypy
        self,
        texts: str,
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> str: ...

    @overload
    def translate(
        self,
        texts: Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[str]: ...

    def translate(
        self,
        texts: str | Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> str | list[str]:
        """The best translation of a text, or of each of several; "" for a blank one.

        `target_language` chooses one of the model's (`into`). Raises as `n_best` and `into`.
        """
        if target_language is not None:
            return self.into(target_language).translate(texts, settings, glossary, **options)
        if isinstance(texts, str):
            return self.translate([texts], settings, glossary, **options)[0]
        return [best[0].text for best in self.n_best(texts, settings, glossary, **options)]

    def n_best(
        self,
        texts: Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[list[Translation]]:
        """The `n_best` best translations of each text, best first; one of them with `mbr`.

        A text of several sentences is translated sentence by sentence if few of training had several
        (`cuts_sentences`), and its translation has the scores' sums; `split=0` translates it whole, and so do
        settings that apply to whole sentences. Line breaks in a text that is cut stay.

        A blank text has one translation, which is empty, and a sentence that is its own translation
        (`is_own_translation`) has that one. Translations contain the `glossary`'s targets of the terms that a
        sentence has, wherever the model finds a translation with them.
        Warns once with `LongInput` if sentences are longer than any of training, and once with
        `SeveralSentences` if the model does not know texts of several sentences, and some are translated
        whole. Raises `DragomanError` for settings that contradict each other, a text beyond the model's
        learned positions, a lack of memory, and a model whose probabilities are not finite.
        """
        prepared = self.prepare_texts(texts, self.search_settings(settings, options), glossary)
        self._warn_of_long(prepared.sentences)
        self._warn_of_whole([text.text for text in prepared.texts], prepared.settings)
        return prepared.join(self.assemble(prepared.sentences, self.search(prepared.sentences)))

    @overload
    async def translate_async(  # type: ignore[overload-overlap]  # as `translate`
        self,
        texts: str,
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> str: ...

    @overload
    async def translate_async(
        self,
        texts: Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[str]: ...

    async def translate_async(
        self,
        texts: str | Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> str | list[str]:
        """As `translate`; the event loop runs on during the search. It ends if the task is cancelled.

        Only the search leaves the event loop: the texts are read and cut in it.
        """
        if target_language is not None:
            return await self.into(target_language).translate_async(texts, settings, glossary, **options)
        from asyncio import wrap_future  # a module that the command line does not need

        if isinstance(texts, str):
            return (await self.translate_async([texts], settings, glossary, **options))[0]
        prepared = self.prepare_texts(texts, self.search_settings(settings, options), glossary)
        self._warn_of_long(prepared.sentences)
        self._warn_of_whole([text.text for text in prepared.texts], prepared.settings)
        n_best = prepared.join(await wrap_future(self.submit(prepared.sentences)))
        return [best[0].text for best in n_best]

    def translate_iterable(
        self,
        texts: Iterable[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        *,
        progress: bool = True,
        target_language: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> Iterator[str]:
        """The translations of `translate`, one after the other, of any number of texts.

        It reads at most 500 texts ahead, and keeps no more in memory. From the second 500 on there is a
        progress bar if standard error is a terminal, and in notebooks, unless `progress` is False. An
        exception of the iterable is raised after the translations of the texts before it, and so is
        `DragomanError` for what is no text. Warns and raises as `n_best`, but warns at the end.
        """
        if target_language is not None:
            translator = self.into(target_language)
            return translator.translate_iterable(texts, settings, glossary, progress=progress, **options)
        settings = self.search_settings(settings, options)
        self.prepare([], settings, glossary)  # raises for settings that contradict each other
        progress = argument("progress", progress, bool)
        return iterable.translate(self, iterable_of_texts(texts), settings, glossary, progress)

    def prepare_texts(
        self, texts: Iterable[str], settings: SearchSettings, glossary: Glossary | None = None
    ) -> PreparedTexts:
        """Cut texts, and prepare their sentences. Raises as `n_best`, before any search."""
        cut_texts = self.cut(list_of_texts(texts), settings)
        sentences = [sentence for text in cut_texts for sentence in text.sentences]
        return PreparedTexts(cut_texts, self.prepare(sentences, settings, glossary))

    def cut(self, texts: Sequence[str], settings: SearchSettings) -> list[CutText]:
        """Texts cut into the sentences that these settings translate one by one; a blank text is one."""
        if not self.cuts_sentences or settings.split == 0 or settings.needs_whole_sentences:
            return [CutText.whole(text) for text in texts]
        several = (cut_text(text, self.languages.source) for text in texts)
        return [text if len(text.spans) > 1 else CutText.whole(text.text) for text in several]

    def prepare(
        self,
        sentences: Sequence[str],
        settings: SearchSettings | None = None,
        glossary: Glossary | None = None,
        **options: Unpack[SearchOptions],
    ) -> PreparedSentences:
        """The sentences as `submit` takes them. Raises as `n_best`, before any search."""
        settings = self.search_settings(settings, options)
        check_argument("glossary", glossary, Glossary)
        sentences = list_of_texts(sentences)
        tokenizers = self.tokenizers
        constraints = constraint_ids(settings, tokenizers.target)
        visible = map(without_invisible, sentences)
        without_tags = [remove_tags(line) if settings.keep_tags else (line, []) for line in visible]
        are_own = [self.is_own_translation(text, settings, constraints, glossary) for text, _ in without_tags]
        if self.knows_terms:
            without_tags = [(without_symbols(text), tags) for text, tags in without_tags]
            if glossary is not None:
                without_tags = [annotate_sentence(text, tags, glossary) for text, tags in without_tags]
        for number in (number for number, is_own in enumerate(are_own) if is_own):
            without_tags[number] = sentences[number], []
        texts = ["" if is_own else text for is_own, (text, _) in zip(are_own, without_tags, strict=True)]
        parts = self._encode_parts(texts, without_tags, settings)
        if glossary is None:
            return PreparedSentences(settings, without_tags, parts, constraints, prefix=self.source_prefix)
        refuse_settings(settings, "A glossary needs a beam search", WITHOUT_FORCED_WORDS)
        limits = settings.max_length, None if self.longest_source is None else self.longest_source - 1
        required_tokens = len(constraints.prefix) + constraints.forced_tokens
        capacity = min(filter(None, limits), default=MAX_TERM_TOKENS) - required_tokens
        find = annotated_terms if self.knows_terms else glossary.find
        terms = encode_terms(glossary, find, tokenizers.source, tokenizers.target, texts, parts, capacity)
        constraints = replace(constraints, continuing=word_continuations(tokenizers.target))
        return PreparedSentences(settings, without_tags, parts, constraints, terms, self.source_prefix)

    def _encode_parts(
        self, texts: Sequence[str], without_tags: list[tuple[str, list[Tag]]], settings: SearchSettings
    ) -> list[list[list[int]]]:
        """The ids of texts in parts. A text with ends of cues alone is split too if it is long, without them.

        Raises `DragomanError` as `encode_parts`.
        """
        limits = self.longest_trained, self.longest_source
        with_cues = [
            number
            for number, (_, tags) in enumerate(without_tags)
            if tags and all(tag.is_cue for tag in tags)
        ]
        others = sorted({*range(len(texts))} - {*with_cues})
        parts: dict[int, list[list[int]]] = {}
        for numbers, search in ((others, settings), (with_cues, replace(settings, keep_tags=False))):
            encoded = encode_parts(
                self.tokenizers.source, [texts[number] for number in numbers], search, *limits
            )
            parts |= zip(numbers, encoded, strict=True)
        for number in with_cues:
            if len(parts[number]) > 1:
                without_tags[number] = texts[number], []
        return [parts[number] for number in range(len(texts))]

    def is_own_translation(
        self,
        text: str,
        settings: SearchSettings,
        constraints: Constraints,
        glossary: Glossary | None = None,
    ) -> bool:
        """Whether a text without tags is its own translation: it has no letter, and no search is needed.

        A model whose source vocabulary has no letters translates such texts, and so does every model if there
        are constraints, or a term of the glossary in the text, which the text itself may not satisfy.
        """
        if has_letter(text) or not text.strip() or not self.tokenizers.source.has_letters:
            return False
        if settings.min_length or not constraints.limits_length_alone:
            return False
        return glossary is None or not glossary.find(text)

    def submit(
        self, prepared: PreparedSentences, progress: Progress | None = None
    ) -> "Future[list[list[Translation]]]":
        """Begin `n_best`: in C++ the sentences join the searches of other callers. For servers.

        A future that is cancelled ends the search after its current step. In C++ `progress` tells what is
        certain so far, by the number of a source. By PyTorch, one call of all is computed at a time, and
        there is no progress. Raises `DragomanError` as `native_for`; other errors are the future's.
        """
        from dragoman.translation import submission

        return submission.submit(self, prepared, progress)

    @cached_property
    def knows_terms(self) -> bool:
        """Whether the model was trained with `terms`, and reads those of a glossary in its sources."""
        return knows_terms(self.tokenizers.source)

    @shared_property
    def torch_executor(self) -> OneThread:
        """One thread, which computes with PyTorch for the callers of `submit`."""
        return self._open_executor()

    def assemble(self, prepared: PreparedSentences, hypotheses: NBest) -> list[list[Translation]]:
        """The translations of prepared sentences, from the hypotheses of all their parts."""
        translations, rest = [], iter(hypotheses)
        for sentence, parts in zip(prepared.without_tags, prepared.parts, strict=True):
            candidates = [
                self._to_translations(*sentence, part, next(rest), prepared.settings) for part in parts
            ]
            is_whole = len(parts) == 1
            translations.append(
                candidates[0] if is_whole else [join_translations([best for best, *_ in candidates])]
            )
        return translations

    def _to_translations(
        self,
        sentence: str,
        tags: list[Tag],
        source: list[int],
        hypotheses: list[Hypothesis],
        settings: SearchSettings,
    ) -> list[Translation]:
        """The translations of one sentence, with its tags; with `mbr` one of them."""
        if len(source) == 1:  # blank, or its own translation
            return [Translation(restore_tags(tags, "", []) if tags else one_line(sentence), 0.0, 0.0)]
        if not hypotheses:  # comparisons with a NaN are false
            raise NonFiniteError
        translations = [
            self.translation(hypothesis, self._to_text(sentence, tags, source, hypothesis, settings))
            for hypothesis in hypotheses
        ]
        if settings.mbr:
            return [translations[minimum_bayes_risk([translation.text for translation in translations])]]
        return translations

    def _to_text(
        self,
        sentence: str,
        tags: list[Tag],
        source: list[int],
        hypothesis: Hypothesis,
        settings: SearchSettings,
    ) -> str:
        """The text of a hypothesis, with unknown tokens replaced and tags restored."""
        target = hypothesis.ids
        text = self.detokenize(target)
        unknown = target.count(UNKNOWN) if settings.replace_unknown else 0
        has_unknown = unknown > 0 and text.count(UNKNOWN_TEXT) == unknown
        if not tags and not has_unknown:
            return text
        from dragoman.translation.alignment import align_ids, replace_unknown

        weights = hypothesis.attention
        if weights is not None:
            weights = weights[:, len(self.source_prefix) :]
        else:
            from dragoman.translation.analysis import target_weights

            weights = target_weights(self, source, target).cpu().numpy()
        if has_unknown:
            text = replace_unknown(self.tokenizers, sentence, source, target, text, weights)
        if tags:
            text = restore_tags(tags, text, align_ids(self.tokenizers, sentence, source, target, weights))
        return text

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of target ids, always on one line."""
        return one_line(self.tokenizers.target.decode(ids))

    def translation(self, hypothesis: Hypothesis, text: str) -> Translation:
        """The translation with this text that the hypothesis stands for."""
        pieces = tuple(self.tokenizers.target.pieces(hypothesis.ids))
        return Translation(text, hypothesis.log_probability, hypothesis.score, pieces)

    # ---- sentences that are longer than any of training

    def count_long_sentences(
        self,
        texts: Sequence[str],
        settings: SearchSettings | None = None,
        **options: Unpack[SearchOptions],
    ) -> int:
        """How many sentences of these texts have more tokens than the longest source of training.

        0 if the settings ask to truncate or split.
        """
        settings = self.search_settings(settings, options)
        cut = [sentence for text in self.cut(list_of_texts(texts), settings) for sentence in text.sentences]
        return self.prepare(cut, settings).count_longer(self.longest_trained)

    def _warn_of_long(self, prepared: PreparedSentences, is_unsplit: bool = False) -> None:
        """Warn if sentences are longer than any of training. `is_unsplit`: they are not split."""
        if count := prepared.count_longer(self.longest_trained):
            settings = replace(prepared.settings, split=0) if is_unsplit else prepared.settings
            warn_caller(long_translation_message(count, self, settings), LongInput)

    # ---- texts of several sentences

    def count_whole_texts(
        self, texts: Sequence[str], settings: SearchSettings, is_uncut: bool = False
    ) -> int:
        """How many texts are translated whole though they have several sentences. `is_uncut`: all are whole.

        0 for a model that knows such texts, and if `split=0` asks for it.
        """
        is_uncut = is_uncut or settings.needs_whole_sentences
        if not self.cuts_sentences or settings.split == 0 or not is_uncut:
            return 0
        return sum(len(cut_text(text, self.languages.source).spans) > 1 for text in texts)

    def _warn_of_whole(self, texts: Sequence[str], settings: SearchSettings, is_uncut: bool = False) -> None:
        """Warn if texts of several sentences are translated whole."""
        if count := self.count_whole_texts(texts, settings, is_uncut):
            warn_caller(whole_texts_message(count, len(texts)), SeveralSentences)

    # ---- streaming and analysis

    def stream(
        self, text: str, settings: SearchSettings | None = None, **options: Unpack[SearchOptions]
    ) -> Iterator[str]:
        """The best translation piece by piece: each as soon as all hypotheses of the beam begin with it.

        The pieces join to the translation of `translate`, in which no sentence is split because it is long.
        Raises as `n_best`, and `DragomanError` for settings that ask for more than one beam search.
        """
        settings = self.search_settings(settings, options)
        (cut,) = self.cut(list_of_texts([text]), settings)
        self._warn_of_long(self.prepare(cut.sentences, settings), is_unsplit=True)
        self._warn_of_whole([text], settings)
        return cut.join_streams([streaming.stream(self, sentence, settings) for sentence in cut.sentences])

    def trace(
        self, sentence: str, settings: SearchSettings | None = None, **options: Unpack[SearchOptions]
    ) -> "list[Node]":
        """Every hypothesis of the beam search for a sentence. Raises as `stream`."""
        from dragoman.translation import analysis

        settings = self.search_settings(settings, options)
        self._warn_of_long(self.prepare([sentence], settings), is_unsplit=True)
        self._warn_of_whole([sentence], settings, is_uncut=True)
        return analysis.trace(self, sentence, settings)

    def alternatives(
        self,
        sentence: str,
        count: int,
        settings: SearchSettings | None = None,
        **options: Unpack[SearchOptions],
    ) -> "list[Alternative]":
        """The `count` likeliest tokens after the prefix, each with its best continuation.

        A blank sentence has none. Raises as `stream`, and for a negative `count`.
        """
        from dragoman.translation import analysis

        settings = self.search_settings(settings, options)
        self._warn_of_long(self.prepare([sentence], settings), is_unsplit=True)
        self._warn_of_whole([sentence], settings, is_uncut=True)
        return analysis.alternatives(self, sentence, argument("count", count, int), settings)

    def score(
        self, pairs: Sequence[tuple[str, str | Sequence[str]]], batch_tokens: int = 2_000
    ) -> "list[Likelihood]":
        """The likelihood of each pair's second text, or its tokens, given the first, by forced decoding.

        Tokenizing a text again may give other tokens than the search produced; pass `Translation.tokens` to
        score exactly those. END may be the last token. Raises as `n_best`, and for tokens
        that are not in the vocabulary.
        """
        from dragoman.translation import analysis

        return analysis.score(self, pairs, argument("batch_tokens", batch_tokens, int))

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        layer: int | None = None,
        head: int | None = None,
        batch_tokens: int = 4_000,
    ) -> list[list[tuple[int, int]]]:
        """The word alignment of each pair as (source, target), counted from 0, by encoder-decoder attention.

        `layer` and `head` count from 1. None is the last layer, and its `alignment_head` or, if the model has
        none, the mean of all heads. Raises `DragomanError` if the model has no such layer or head. An LSTM or
        GRU has one of each, ConvS2S one head per layer.
        """
        from dragoman.translation import analysis

        layer, head = argument("layer", layer, int | None), argument("head", head, int | None)
        return analysis.align(self, pairs, layer, head, argument("batch_tokens", batch_tokens, int))

    def attention(self, source: str, target: str) -> "Attention":
        """The attention weights of every layer and head for a source and a given target.

        For an ensemble they are those of its first model. Raises as `align`.
        """
        from dragoman.translation import analysis

        return analysis.attention(self, source, target)


def one_line(text: str) -> str:
    """A text with spaces in the place of line ends; "" for a blank one."""
    return " ".join(text.splitlines()) if text.strip() else ""


def load_folders(
    folders: tuple[Path, ...], engine: EngineSettings, languages: Languages | None = None
) -> Translator:
    """`Translator.load`; `into` the `languages`, if the models have several pairs."""
    translator = Translator.of([StoredModel.load(folder) for folder in folders], engine)
    translator.folders = tuple(map(Path.absolute, folders))
    return translator if languages is None else translator.into(languages.target, languages.source)

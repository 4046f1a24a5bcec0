"""Everything that a trained model is asked for, by PyTorch, and by C++ where that does it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.settings import Precision
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.native.cuda_graphs import GraphSearch
from dragoman.native.decoder import Native
from dragoman.native.packed_linear import can_pack, pack
from dragoman.search.alternatives import alternatives
from dragoman.search.attention_weights import all_attention, chosen, cross_attention, word_alignment, words_of
from dragoman.search.beam import Step, beam_search, beam_steps, greedy_search
from dragoman.search.ensemble import Ensemble
from dragoman.search.grid_beam import grid_beam_search
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.sampling import sample
from dragoman.search.scoring import Likelihood, token_log_probabilities
from dragoman.search.settings import EngineSettings, SearchSettings, refuse_more_than_a_beam, refuse_n_best
from dragoman.search.shortlist import Shortlist
from dragoman.search.trace import Node, certain, trace
from dragoman.system.errors import DragomanError
from dragoman.text.batches import pad
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.translation.constraints import Constraints, constraints_of
from dragoman.translation.long import truncated
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.segmentation import batches, encoded, explain_out_of_memory, refuse_too_long, with_room
from dragoman.translation.sentences import SentenceTranslator, Translation
from dragoman.translation.stored import load_model, weights_of
from dragoman.translation.tags import Tag, put_back

NO_SHORTLIST = "A shortlist is for greedy and beam search in C++, which needs a compiler, and these settings ask for more; leave it out."
T = TypeVar("T")
Search = Callable[[Model, Tensor, SearchSettings, Constraints], list[list[Hypothesis]]]
Numbered = tuple[int, list[int], list[int]]  # a pair's number, its source's and its target's ids


@dataclass(frozen=True)
class Alternative:
    """A token that may follow a prefix, its probability there, and the best translation that goes on so."""

    token: str
    probability: float
    translation: Translation


@dataclass(frozen=True)
class Attention:
    """The weights of attention for a pair of texts, in a Transformer equation 1's. Shapes: H heads, S and T tokens, END included.

    L layers of the encoder and M of the decoder look at their own side, N of the decoder at the source. In a Transformer N is M; in an
    LSTM or GRU L and M are 0, N and H are 1.
    """

    source: list[str]
    """The S tokens."""
    target: list[str]
    """The T tokens; the last row of `decoder` and `cross` is of what predicts END."""
    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    """At the tokens before: START, then all but END."""
    cross: Float[Tensor, "N H T S"]


class Translator(SentenceTranslator):
    """A trained model with its tokenizers. Made by `Translator.load`."""

    def __init__(
        self,
        model: Model,
        tokenizers: Tokenizers,
        longest_trained: int | None = None,
        workers: int = 1,
        native: Precision | None = None,
        shortlist: Shortlist | None = None,
        graphs: GraphSearch | None = None,
    ) -> None:
        """`native` is the precision of searches in C++, for a model whose weights no longer change; None has PyTorch search.

        `shortlist`, which only they take, has the target tokens that they look at. `graphs` searches on a GPU, in the same cases.
        """
        super().__init__(tokenizers, longest_trained, model.longest_source)
        self.model = model.eval()
        self.native, self.shortlist, self._graphs = native, shortlist, graphs
        self.workers = workers
        """Threads that each translate batches of their own."""
        self.device = next(model.parameters()).device

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None, engine: EngineSettings | None = None) -> "Translator":
        """Read a run's folder, or the folder `model` in it alone; by default onto a GPU if there is one.

        Raises `DragomanError` where there is no model yet, where a file is missing, damaged or does not fit the others, for a GPU
        that is not there, and for int8 on a GPU, or bfloat16 on a processor that has none.
        """
        engine = engine or EngineSettings()
        model, tokenizers, longest_trained = load_model(Path(folder))
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if place.type != "cpu":
            if engine.precision == "int8":
                raise DragomanError(f"int8 is for a CPU, and this model is to translate on {place}; choose bfloat16 or float32.")
            if place.type == "cuda" and (place.index or 0) >= (there := torch.cuda.device_count()):
                raise DragomanError(f"{place} was asked for, and PyTorch can use {there} GPUs; give another device, or cpu.")
            model.to(torch.bfloat16 if engine.precision == "bfloat16" else torch.float32)
        elif can_pack(engine.precision):
            pack(model, engine.precision)
        elif engine.precision == "bfloat16":
            raise DragomanError("This processor has no matrix products in bfloat16; choose int8 or float32.")
        model.to(place)
        threads = torch.get_num_threads() if place.type == "cpu" else 1
        workers = engine.workers or threads
        native = engine.precision if place.type == "cpu" and engine.native else None
        listed = None
        if engine.shortlist is not None:
            if native is None or not isinstance(model, Transformer):
                raise DragomanError("A shortlist is for a Transformer on a CPU, which this is not; leave it out.")
            listed = Shortlist.load(engine.shortlist, (len(tokenizers.source), len(tokenizers.target)))
        if engine.graphs and (place.type == "cpu" or not isinstance(model, Transformer)):
            raise DragomanError("CUDA graphs are for a Transformer on a GPU, which this is not; leave graphs out.")
        graphs = GraphSearch(model) if engine.graphs and isinstance(model, Transformer) else None
        return cls(model, tokenizers, longest_trained, workers, native, listed, graphs)

    @cached_property
    def _native(self) -> Native | None:
        if self.native is None or not isinstance(self.model, Transformer):
            return None
        return Native.of(self.model.settings, weights_of(self.model), self.native, self.workers, self.shortlist)

    def by_pytorch(self) -> "Translator":
        """The same model, for which PyTorch searches: on a processor, the same translations up to rounding."""
        return Translator(self.model, self.tokenizers, self.longest_trained, self.workers)

    @classmethod
    def together(cls, translators: Sequence["Translator"]) -> "Translator":
        """One translator that takes the mean of the probabilities of several. Raises `DragomanError` for other vocabularies."""
        first, *others = translators
        if any(other.tokenizers != first.tokenizers for other in others):
            raise DragomanError("Models that write together need the same vocabularies, and these have different ones.")
        if not others:
            return first
        if any(translator.shortlist for translator in translators):
            raise DragomanError("A shortlist is for one model, and these are several; leave it out.")
        if any(translator._graphs for translator in translators):
            raise DragomanError("CUDA graphs are of one model, and these are several; leave graphs out.")
        longest = min((each.longest_trained for each in translators if each.longest_trained is not None), default=None)
        return cls(Ensemble([translator.model for translator in translators]), first.tokenizers, longest, first.workers)

    def search(self, sources: Sequence[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        constraints = constraints_of(settings, self.tokenizers.target)
        search = search_for(settings, constraints)
        if settings.plain and self._native:
            with explain_out_of_memory(len(sources)):
                return self._native.search(sources, settings, constraints)
        if self.shortlist is not None:
            raise DragomanError(NO_SHORTLIST)
        width = settings.n_best if settings.temperature else settings.beam_size
        ruled = replace(constraints, min_length=0).any
        searched = self._graphs.search if settings.plain and not ruled and self._graphs else partial(search, self.model)

        def hypotheses(batch: list[int]) -> list[list[Hypothesis]]:
            with explain_out_of_memory(len(batch)):
                return searched(pad([sources[number] for number in batch]).to(self.device), settings, constraints)

        found: list[list[Hypothesis]] = [[] for _ in sources]
        workers = 1 if settings.coverage_penalty else self.workers  # who watches attention must be alone
        lengths, most = with_room(sources, settings.max_extra_tokens), settings.batch_tokens // width
        if workers > 1:
            most = min(most, sum(lengths.values()) // (2 * workers))  # something for each, and a second batch to even it out
        shared = batches(lengths, most)
        for batch, written in zip(shared, in_threads(hypotheses, shared, workers), strict=True):
            for number, best in zip(batch, written, strict=True):
                found[number] = best
        return found

    def stream(self, sentence: str, settings: SearchSettings | None = None) -> Iterator[str]:
        """The best translation piece by piece: each as soon as all hypotheses of the beam, and those that have ended, begin with it.

        By PyTorch, as `trace` and `alternatives` are: in bfloat16 and int8 another translation than `translate` finds now and then.
        Raises as `n_best`, and `DragomanError` for settings that ask for more than one beam search.
        """
        refuse_n_best(settings or SearchSettings(), "stream")
        told = text = ""
        for ids in certain(self._steps(sentence, settings or SearchSettings(), "stream")):
            text = self._text(ids)
            if len(text) > len(told) and not text.endswith(UNKNOWN_TEXT):  # which may be the beginning of a character
                yield text[len(told) :]
                told = text
        if text != told:
            yield text[len(told) :]

    def trace(self, sentence: str, settings: SearchSettings | None = None) -> list[Node]:
        """Every hypothesis of the beam search for a sentence. Raises as `stream`."""
        settings = settings or SearchSettings()
        return trace(self._steps(sentence, settings, "trace"), settings, lambda token: self.tokenizers.target.pieces([token])[0])

    def _steps(self, sentence: str, settings: SearchSettings, what: str) -> Iterator[Step]:
        """Beam search for a sentence; no step for a blank one. Raises `DragomanError` for settings that search otherwise."""
        source, constraints = self._one(sentence, settings, what)
        if source.size(1) > 1:
            with explain_out_of_memory(1):
                yield from beam_steps(self.model, source, settings, constraints)

    def alternatives(self, sentence: str, count: int, settings: SearchSettings | None = None) -> list[Alternative]:
        """The likeliest tokens after the prefix, END among them, likeliest first, each with the best translation that begins so.

        None for a blank sentence. Raises as `stream`, and for a negative `count`.
        """
        if count < 0:
            raise DragomanError(f"count is {count}; it must be at least 0.")
        settings = settings or SearchSettings()
        refuse_n_best(settings, "best translation with each alternative")
        source, constraints = self._one(sentence, settings, "list of alternatives")
        with explain_out_of_memory(1):
            found = alternatives(self.model, source, constraints, count, settings) if source.size(1) > 1 else []
        pieces = self.tokenizers.target.pieces([token for token, _, _ in found])
        written = [self._translation(best, self._text(best.ids)) for _, _, best in found]
        return [Alternative(piece, p, best) for piece, (_, p, _), best in zip(pieces, found, written, strict=True)]

    def _one(self, sentence: str, settings: SearchSettings, what: str) -> tuple[Tensor, Constraints]:
        """A sentence and the rules for a beam search. Raises `DragomanError` for settings that ask for more than one beam search."""
        refuse_more_than_a_beam(settings, what)
        if self.shortlist is not None:
            raise DragomanError(NO_SHORTLIST)
        ids = encoded(self.tokenizers.source, [sentence])
        if settings.truncate:
            ids = [truncated(ids[0], settings.truncate)]
        refuse_too_long([sentence], ids, self.longest_source)
        self._warn_of_long(ids)
        return pad(ids).to(self.device), constraints_of(settings, self.tokenizers.target)

    def score(self, pairs: Sequence[tuple[str, str | Sequence[str]]], batch_tokens: int = 2_000) -> list[Likelihood]:
        """How likely each pair's second text, or its tokens, are as a translation of the first, by forced decoding.

        A text is cut into tokens as the vocabulary does it, which need not be those that a search has written it with: give
        `Translation.tokens` for the log-probability that it has found; END may be their last. Raises as `n_best`, and for tokens that
        the vocabulary lacks or that no translation has.
        """
        found: dict[int, Likelihood] = {}
        for batch, source, target in self._forced(pairs, batch_tokens):
            with explain_out_of_memory(len(batch)):
                rows = token_log_probabilities(self.model, source, target).tolist()
            for (number, _, ids), log_p in zip(batch, rows, strict=True):
                found[number] = Likelihood(self.tokenizers.target.pieces(ids), log_p[: len(ids)])
        return [found[number] for number in range(len(pairs))]

    def align(
        self, pairs: Sequence[tuple[str, str]], layer: int | None = None, head: int | None = None, batch_tokens: int = 4_000
    ) -> list[list[tuple[int, int]]]:
        """For each pair the words that belong together, as (source, target), counted from 0: by encoder-decoder attention.

        `layer` counts from 1 (None is the last but one, or the only one), `head` too (None is the mean of all). Raises
        `DragomanError` where the model has no such layer or head. An LSTM or GRU has one of each.
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for batch, *rows in self._forced(pairs, batch_tokens):
            with explain_out_of_memory(len(batch)):
                weights = chosen(cross_attention(self.model, *rows), layer, head)
            for (number, source, target), here in zip(batch, weights, strict=True):
                words = (
                    side.words(text) for side, text in zip((self.tokenizers.source, self.tokenizers.target), pairs[number], strict=True)
                )
                found[number] = word_alignment(here[: len(target), : len(source)], *words)
        return [found[number] for number in range(len(pairs))]

    def attention(self, source: str, target: str) -> Attention:
        """With which weights each layer and head of the model looks at each token, while it reads a text and writes its translation.

        Of an ensemble, its first model. Raises as `align`.
        """
        ((_, *rows),) = self._forced([(source, target)], 1)
        read, written = (
            side.pieces(ids[0].tolist()) for side, ids in zip((self.tokenizers.source, self.tokenizers.target), rows, strict=True)
        )
        with explain_out_of_memory(1):
            return Attention(read, written, *(weights[:, 0] for weights in all_attention(self.model, *rows)))

    def _forced(self, pairs: Sequence[tuple[str, str | Sequence[str]]], tokens: int) -> Iterator[tuple[list[Numbered], Tensor, Tensor]]:
        """Batches of at most so many tokens: each pair's number and ids, and both sides padded. Refuses what the model cannot read."""
        texts, written = [source for source, _ in pairs], [target for _, target in pairs]
        sources = encoded(self.tokenizers.source, texts)
        targets = encoded(self.tokenizers.target, [target if isinstance(target, str) else "" for target in written])
        for number, tokens_given in enumerate(written):
            if not isinstance(tokens_given, str):
                targets[number] = self._ended(self.tokenizers.target.ids(tokens_given))
        refuse_too_long(texts, sources, self.longest_source)
        refuse_too_long([one if isinstance(one, str) else " ".join(one) for one in written], targets, self.model.longest_target)
        for batch in batches({number: max(map(len, rows)) for number, rows in enumerate(zip(sources, targets, strict=True))}, tokens):
            source, target = (pad([side[number] for number in batch]).to(self.device) for side in (sources, targets))
            yield [(number, sources[number], targets[number]) for number in batch], source, target

    def _ended(self, ids: list[int]) -> list[int]:
        """The ids with END after them, where it is not their last already."""
        ids = ids if ids[-1:] == [END] else [*ids, END]
        if wrong := {PAD, START, END}.intersection(ids[:-1]):
            names = ", ".join(self.tokenizers.target.pieces(sorted(wrong)))
            raise DragomanError(f"The tokens of a translation have {names} among them, which none has before its end; leave them out.")
        return ids

    def _written(self, sentence: str, tags: list[Tag], source: list[int], written: list[int], settings: SearchSettings) -> str:
        text = self._known(sentence, source, written) if settings.replace_unknown else self._text(written)
        return put_back(tags, text, self._aligned(sentence, source, written)) if tags else text

    def _looks(self, source: list[int], written: list[int]) -> Tensor:
        """With which weights each written token, END last, looks at each source token."""
        rows = (pad([ids]).to(self.device) for ids in (source, [*written, END]))
        with explain_out_of_memory(1):
            return chosen(cross_attention(self.model, *rows), None, None)[0]

    def _aligned(self, sentence: str, source: list[int], written: list[int]) -> list[tuple[int, int]]:
        """The words of a sentence, whose ids these are, and of its translation that belong together."""
        target = self.tokenizers.target
        words = self._words(sentence, source), words_of(target.pieces(written), target.unknown_is_word)
        return word_alignment(self._looks(source, written), *words)

    def _words(self, sentence: str, source: list[int]) -> list[int]:
        """The word of each token of a sentence, as far as its ids go, without END."""
        return self.tokenizers.source.words(sentence)[: len(source) - 1]

    def _known(self, sentence: str, source: list[int], written: list[int]) -> str:
        """The text with words of the source in the place of unknown tokens."""
        text = self._text(written)
        if UNKNOWN not in written or text.count(UNKNOWN_TEXT) != written.count(UNKNOWN):
            return text
        words, own = sentence.split(), self._words(sentence, source)
        most = self._looks(source, written)[:, :-1].argmax(1).tolist()
        known = [words[own[most[place]]] for place, token in enumerate(written) if token == UNKNOWN]
        return "".join(part for pair in zip_longest(text.split(UNKNOWN_TEXT), known, fillvalue="") for part in pair)


def search_for(settings: SearchSettings, constraints: Constraints) -> Search:
    """The search that finds what is asked for."""
    if settings.temperature:
        return sample
    if settings.force:
        return grid_beam_search
    return beam_search if settings.beam_size > 1 or settings.coverage_penalty or constraints.any else greedy_search


def in_threads(work: Callable[[list[int]], T], batches: list[list[int]], workers: int) -> Iterator[T]:
    """What `work` makes of each batch, in order.

    Several batches at once, a thread each, are faster than several threads for one: PyTorch leaves Python's lock while it computes.
    """
    if workers == 1 or len(batches) == 1:
        yield from map(work, batches)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(work, batches)
    finally:
        torch.set_num_threads(before)  # which threads that are made later have, too

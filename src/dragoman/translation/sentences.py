"""Sentences in, sentences out: N of them, in order, the same whatever their neighbours. No torch here."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.search.hypothesis import NON_FINITE, Hypothesis
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, LongInput
from dragoman.translation.long import parts, truncated
from dragoman.translation.mbr import minimum_bayes_risk
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.segmentation import encoded, refuse_too_long
from dragoman.translation.tags import Tag, put_back, taken_out


@dataclass(frozen=True)
class Translation:
    """A text, its log-probability in nats, the score that ranks it, and the tokens that it was written with."""

    text: str
    log_probability: float
    score: float
    tokens: tuple[str, ...] = ()


class SentenceTranslator(ABC):
    """What every translator does with sentences, however it searches."""

    def __init__(self, tokenizers: Tokenizers, longest_trained: int | None, longest_source: int | None) -> None:
        self.tokenizers = tokenizers
        self.longest_trained = longest_trained
        """Tokens, END included, of the longest source that the model was trained on; None where it is not known."""
        self.longest_source = longest_source
        """The same of the longest that it can read; None is no limit."""

    @abstractmethod
    def search(self, sources: Sequence[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The `n_best` best hypotheses of each source, whose ids end with END; none for END alone. Raises as `n_best`."""

    @abstractmethod
    def _written(self, sentence: str, tags: list[Tag], source: list[int], written: list[int], settings: SearchSettings) -> str:
        """The text of a translation's ids, with what the settings put into it from the sentence, whose ids are `source`."""

    def unusually_long(self, sentences: Sequence[str], settings: SearchSettings | None = None) -> dict[int, int]:
        """Of the sentences that would be read as a whole, and are longer than any of training, the places and the tokens, END included."""
        settings = settings or SearchSettings()
        if settings.truncate or settings.split:
            return {}
        plain = [taken_out(sentence)[0] if settings.keep_tags else sentence for sentence in sentences]
        return self._long(encoded(self.tokenizers.source, plain))

    def translate(self, sentences: Sequence[str], settings: SearchSettings | None = None) -> list[str]:
        """The best translation of each sentence; "" for one that is blank."""
        return [best[0].text for best in self.n_best(sentences, settings)]

    def n_best(self, sentences: Sequence[str], settings: SearchSettings | None = None) -> list[list[Translation]]:
        """The `n_best` best translations of each sentence, best first; one of them with `mbr`.

        Warns with `LongInput` of sentences that are longer than any of training. Raises `DragomanError` for settings that contradict
        each other in tokens; for a text beyond the positions that the model has learnt; where memory does not suffice; and for a model
        whose weights are no numbers.
        """
        if isinstance(sentences, str):
            raise DragomanError("A list of sentences is to be translated, and this is one text; put it in a list.")
        settings = settings or SearchSettings()
        taken = [taken_out(sentence) if settings.keep_tags else (sentence, []) for sentence in sentences]
        plain, tags = [text for text, _ in taken], [own for _, own in taken]
        ids = encoded(self.tokenizers.source, plain)
        if settings.split:
            return [[whole] for whole in self._in_parts(ids, settings)]
        if settings.truncate:
            ids = [truncated(row, settings.truncate) for row in ids]
        refuse_too_long(plain, ids, self.longest_source)
        self._warn_of_long(ids)
        found: list[list[Translation]] = []
        for sentence, source, own, best in zip(plain, ids, tags, self.search(ids, settings), strict=True):
            texts = [self._written(sentence, own, source, one.ids, settings) for one in best]
            written = [self._translation(one, text) for text, one in zip(texts, best, strict=True)]
            if not written and len(source) > 1:
                raise DragomanError(NON_FINITE)
            written = written or [Translation(put_back(own, "", []), 0.0, 0.0)]
            found.append([written[minimum_bayes_risk([one.text for one in written])]] if settings.mbr else written)
        return found

    def _in_parts(self, ids: list[list[int]], settings: SearchSettings) -> Iterator[Translation]:
        """The best translations of each sentence's parts, put together; log-probabilities and scores are added up."""
        cut = [parts(row, self.tokenizers.source.pieces(row), settings.split) for row in ids]
        flat = [part for sentence in cut for part in sentence]
        refuse_too_long(list(map(self.tokenizers.source.decode, flat)), flat, self.longest_source)
        written = iter(self.search(flat, settings))
        for sentence in cut:
            found = list(zip(sentence, islice(written, len(sentence)), strict=True))
            if any(len(part) > 1 and not hypotheses for part, hypotheses in found):
                raise DragomanError(NON_FINITE)
            best = [hypotheses[0] for _, hypotheses in found if hypotheses]
            told = [self._translation(one, self._text(one.ids)) for one in best]
            yield Translation(
                " ".join(one.text for one in told if one.text),
                sum((one.log_probability for one in told), 0.0),
                sum((one.score for one in told), 0.0),
                tuple(token for one in told for token in one.tokens),
            )

    def _translation(self, found: Hypothesis, text: str) -> Translation:
        """What a search has found, with its text."""
        return Translation(text, found.log_probability, found.score, tuple(self.tokenizers.target.pieces(found.ids)))

    def _long(self, ids: Sequence[list[int]]) -> dict[int, int]:
        longest = float("inf") if self.longest_trained is None else self.longest_trained
        return {place: len(row) for place, row in enumerate(ids) if len(row) > longest}

    def _warn_of_long(self, ids: Sequence[list[int]]) -> None:
        """Warn of sentences, whose ids these are, that are longer than any that the model was trained on."""
        for place, tokens in self._long(ids).items():
            told = (
                f"The sentence at {place} (counted from 0) has {tokens} tokens; the longest text that the model was trained on has "
                f"{self.longest_trained}. It is translated whole, perhaps badly."
            )
            warnings.warn(told, LongInput, stacklevel=3)

    def _text(self, ids: list[int]) -> str:
        """One line, whatever bytes the model has spelt."""
        return " ".join(self.tokenizers.target.decode(ids).splitlines())

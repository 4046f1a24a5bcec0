"""Translating by C++ alone, on a processor: PyTorch takes seconds to import, and greedy and beam search do not need it."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.native.decoder import Native
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.settings import EngineSettings, SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.machine import cores
from dragoman.translation.constraints import constraints_of
from dragoman.translation.model_folder import Stored
from dragoman.translation.segmentation import explain_out_of_memory
from dragoman.translation.sentences import SentenceTranslator
from dragoman.translation.tags import Tag


def is_plain(search: SearchSettings, engine: EngineSettings) -> bool:
    """Whether nothing is asked for that needs PyTorch. It knows best whether a processor has bfloat16."""
    looks = search.keep_tags or search.replace_unknown
    return search.plain and not looks and engine.native and not engine.graphs and engine.precision != "bfloat16"


class PlainTranslator(SentenceTranslator):
    """A Transformer laid out for C++. Made by `PlainTranslator.load`, for settings that are plain."""

    def __init__(self, stored: Stored, native: Native) -> None:
        super().__init__(stored.tokenizers, stored.longest_source, stored.settings.longest)
        self._native = native

    @classmethod
    def load(cls, folder: Path, engine: EngineSettings) -> "PlainTranslator | None":
        """Read a run's folder, or the folder `model` in it alone.

        None where there is no compiler, no Transformer, or a vocabulary that does not fit the weights: PyTorch says what is wrong.
        Raises `DragomanError` where there is no model yet, and where a file is missing or damaged.
        """
        stored = Stored.load(folder)
        if stored.settings.architecture != "transformer":
            return None
        sizes = len(stored.tokenizers.source), len(stored.tokenizers.target)
        if len(stored.weights["target_embedding.weight"]) != sizes[1]:
            return None
        listed = None if engine.shortlist is None else Shortlist.load(engine.shortlist, sizes)
        native = Native.of(stored.settings, stored.weights, engine.precision, engine.workers or cores(), listed)
        return None if native is None else cls(stored, native)

    def search(self, sources: Sequence[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        assert settings.plain
        with explain_out_of_memory(len(sources)):
            return self._native.search(sources, settings, constraints_of(settings, self.tokenizers.target))

    def _written(self, sentence: str, tags: list[Tag], source: list[int], written: list[int], settings: SearchSettings) -> str:  # noqa: ARG002
        assert not settings.keep_tags
        assert not settings.replace_unknown
        return self._text(written)

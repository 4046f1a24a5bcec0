"""Searches in C++ on a CPU: greedy and beam search over a Transformer, without PyTorch.

Oracle: torch_backend.py.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from dragoman.native.decoder import NativeDecoder, Progress
from dragoman.native.settings import EngineSettings
from dragoman.search.hypothesis import Constraints, Hypothesis, Terms
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.processors import usable_cores
from dragoman.translation.model_folder import StoredModel
from dragoman.translation.token_ids import explain_out_of_memory

Result = TypeVar("Result")
MAX_OUTPUT = 2**26  # tokens of translations, and weights of their attention, allocated at once: 256 MB


class NativeBackend:
    """A Transformer packed for the C++ decoder."""

    def __init__(self, decoder: NativeDecoder) -> None:
        self._decoder = decoder

    @classmethod
    def load(cls, stored: StoredModel, engine: EngineSettings) -> "NativeBackend | None":
        """Make the backend; None if there is no C++ compiler.

        Raises `DragomanError` for a shortlist of other vocabularies.
        """
        sizes = len(stored.tokenizers.source), len(stored.tokenizers.target)
        shortlist = None if engine.shortlist is None else Shortlist.load(engine.shortlist, sizes)
        workers = engine.workers or usable_cores()
        decoder = NativeDecoder.of(stored.settings, stored.weights, engine.precision, workers, shortlist)
        return None if decoder is None else cls(decoder)

    def set_nice(self, nice: int) -> None:
        """As `SearchEngine.set_nice`."""
        self._decoder.set_nice(nice)

    def search(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints,
        terms: Terms = (),
    ) -> list[list[Hypothesis]]:
        """As `TorchBackend.search`, for settings that are standard."""
        hypotheses: list[list[Hypothesis]] = []
        capacities = (replace(constraints, forced=phrases).min_capacity for phrases in terms)
        capacity = max(constraints.min_capacity, *capacities, 0)
        with explain_out_of_memory(len(sources)):
            for part in parts(sources, settings, capacity):
                part_terms = terms[len(hypotheses) : len(hypotheses) + len(part)]
                hypotheses += self._decoder.search(part, settings, constraints, part_terms)
        return hypotheses

    def submit(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints,
        finish: Callable[[Callable[[], list[list[Hypothesis]]]], Result],
        progress: Progress | None = None,
        terms: Terms = (),
    ) -> Future[Result]:
        """Begin a `search`, whose sentences join those of other callers. As `NativeDecoder.submit`.

        A thread gives it half of its places at most.
        """
        most = self._decoder.max_rows // 2
        return self._decoder.submit(sources, settings, constraints, progress, most, finish, terms)


def parts(
    sources: Sequence[list[int]], settings: SearchSettings, min_capacity: int
) -> Iterator[Sequence[list[int]]]:
    """The sources in parts whose translations have at most `MAX_OUTPUT` tokens and weights, or of one
    source.

    The memory for all translations of a part is allocated before the search begins.
    """
    start = tokens = 0
    for number, row in enumerate(sources):
        longest = max(len(row) + settings.extra_tokens, min_capacity) + 1
        numbers = settings.n_best * longest * (1 + len(row) * settings.needs_attention)
        tokens += numbers
        if tokens > MAX_OUTPUT and number > start:
            yield sources[start:number]
            start, tokens = number, numbers
    yield sources[start:]


def supports(stored: StoredModel) -> bool:
    """Whether this is the paper's Transformer, with weights for its vocabularies; PyTorch explains errors."""
    target = stored.weights.get("target_embedding.weight")
    transformer = stored.settings.architecture == "transformer" and not stored.settings.variants
    return transformer and target is not None and len(target) == len(stored.tokenizers.target)

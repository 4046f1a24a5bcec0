"""Searches of several callers at once, as futures: `Translator.submit`. This module imports no torch."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from dragoman.native.decoder import Progress
from dragoman.search.hypothesis import Hypothesis
from dragoman.system.futures import submit_interruptible, then
from dragoman.translation.token_ids import explain_out_of_memory

if TYPE_CHECKING:
    from dragoman.translation.translation import Translation
    from dragoman.translation.translator import PreparedSentences, Translator


def needs_torch(translator: "Translator", prepared: "PreparedSentences") -> bool:
    """Whether PyTorch has to search for these sentences, or to align them. Raises as `native_for`."""
    return prepared.needs_alignment or (
        translator.native_for(prepared.settings, len(prepared.sources)) is None
    )


def submit(
    translator: "Translator", prepared: "PreparedSentences", progress: Progress | None
) -> "Future[list[list[Translation]]]":
    """`Translator.submit`."""
    settings, sources, constraints = prepared.settings, prepared.sources, prepared.constraints
    terms = prepared.terms
    backend = translator.native_for(settings, len(sources))
    if backend is None:  # PyTorch, whose first import takes seconds: in its own thread too
        return submit_interruptible(
            translator.torch_executor,
            lambda: translator.assemble(
                prepared, translator.torch_backend.search(sources, settings, constraints, terms)
            ),
        )

    def compute(hypotheses: "Callable[[], list[list[Hypothesis]]]") -> "list[list[Hypothesis]]":
        with explain_out_of_memory(len(sources)):
            return hypotheses()

    if prepared.needs_alignment:  # PyTorch computes it, in a thread of its own
        searched = backend.submit(sources, settings, constraints, compute, progress, terms)
        return then(
            searched, lambda hypotheses: translator.assemble(prepared, hypotheses), translator.torch_executor
        )
    return backend.submit(
        sources,
        settings,
        constraints,
        lambda hypotheses: translator.assemble(prepared, compute(hypotheses)),
        progress,
        terms,
    )

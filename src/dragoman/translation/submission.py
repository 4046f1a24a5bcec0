"""Searches of several callers at once, as futures: `Translator.submit`. This module imports no torch."""

from concurrent.futures import Future
from typing import TYPE_CHECKING

from dragoman.native.decoder import Progress
from dragoman.search.hypothesis import Hypothesis
from dragoman.system.futures import then
from dragoman.translation.native_backend import NativeBackend
from dragoman.translation.token_ids import constraint_ids, explain_out_of_memory

if TYPE_CHECKING:
    from dragoman.translation.translator import PreparedSentences, Translation, Translator


def submit(
    translator: "Translator", prepared: "PreparedSentences", progress: Progress | None
) -> "Future[list[list[Translation]]]":
    """`Translator.submit`."""
    settings, sources = prepared.settings, prepared.sources
    constraints = constraint_ids(settings, translator.tokenizers.target)
    backend = translator.backend(settings, len(sources))
    if not isinstance(backend, NativeBackend):
        return translator.torch_executor.submit(
            lambda: translator.assemble(prepared, backend.search(sources, settings, constraints))
        )

    def finish(done: Future[list[list[Hypothesis]]]) -> "list[list[Translation]]":
        with explain_out_of_memory(len(sources)):
            found = done.result()
        return translator.assemble(prepared, found)

    hypotheses = backend.submit(sources, settings, constraints, progress)
    return then(hypotheses, finish, translator.torch_executor if prepared.needs_alignment else None)

"""The translation of one sentence piece by piece, by the C++ search without torch. Oracle: analysis.py."""

from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.native.decoder import Progress
from dragoman.search.contradictions import refuse_more_than_a_beam, refuse_n_best
from dragoman.search.settings import SearchSettings
from dragoman.text.tokenizer import UNKNOWN_TEXT

if TYPE_CHECKING:
    from dragoman.translation.translator import PreparedSentences, Translator

POLL_SECONDS = 0.005


def stream(translator: "Translator", sentence: str, settings: SearchSettings) -> Iterator[str]:
    """`Translator.stream`. Raises before the first piece is asked for."""
    refuse_more_than_a_beam(settings, "stream")
    refuse_n_best(settings, "stream")
    prepared = translator.prepare([sentence], replace(settings, split=0))
    if not prepared.needs_search:
        ((translation,),) = translator.assemble(prepared, [[]])
        return filter(None, [translation.text])
    standard = settings.is_standard_beam_search and translator.engine_settings.shortlist is None
    if standard and translator.native_backend is not None:
        return stream_native(translator, prepared)
    from dragoman.translation import analysis

    return analysis.stream(translator, sentence, settings)


def stream_native(translator: "Translator", prepared: "PreparedSentences") -> Iterator[str]:
    """`Translator.stream` in C++, of one sentence in one part; the search ends if the iterator is closed."""
    progress = Progress()
    future = translator.submit(prepared, progress)
    emitted = ""
    try:
        while not wait([future], POLL_SECONDS).done:
            text = stable_text(translator, progress, 0)
            if len(text) > len(emitted):
                yield text[len(emitted) :]
                emitted = text
        best = future.result()[0][0]
        if best.text != emitted:
            yield best.text[len(emitted) :]
    finally:
        future.cancel()


def stable_text(translator: "Translator", progress: Progress, source: int) -> str:
    """The text with which the translation of a source begins for certain, while it is searched."""
    # UNKNOWN_TEXT at the end may be the first bytes of a character.
    return translator.detokenize(progress.ids(source)).rstrip(UNKNOWN_TEXT)

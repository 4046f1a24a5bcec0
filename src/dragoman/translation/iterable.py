"""Translation of any number of texts: lazily, in order, in constant memory. This module imports no torch."""

from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from dragoman.search.settings import SearchSettings
from dragoman.system.callers import warn_caller
from dragoman.system.errors import LongInput, SeveralSentences
from dragoman.translation.cut_text import whole_texts_message
from dragoman.translation.glossary import Glossary
from dragoman.translation.segmentation import long_translation_message
from dragoman.translation.texts import checked_texts

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

BLOCK = 500  # texts that are translated together


def translate(
    translator: "Translator",
    texts: Iterable[object],
    settings: SearchSettings,
    glossary: Glossary | None,
    progress: bool,
) -> Iterator[str]:
    """`Translator.translate_iterable`."""
    texts_count = long_count = whole_count = 0
    text_blocks = blocks(checked_texts(texts))
    if progress:
        text_blocks = with_bar(text_blocks, len(texts) if isinstance(texts, Sized) else None)
    for block in text_blocks:
        prepared = translator.prepare_texts(block, settings, glossary)
        texts_count += len(block)
        long_count += prepared.sentences.count_longer(translator.longest_trained)
        whole_count += translator.count_whole_texts(block, settings)
        n_best = prepared.join(translator.assemble(prepared.sentences, translator.search(prepared.sentences)))
        yield from (best[0].text for best in n_best)
    if long_count:
        message = long_translation_message(long_count, translator, settings)
        warn_caller(message, LongInput)
    if whole_count:
        warn_caller(whole_texts_message(whole_count, texts_count), SeveralSentences)


def blocks(texts: Iterator[str]) -> Iterator[list[str]]:
    """The texts in lists. An exception of the iterator is raised after the list of the texts before it."""
    while True:
        block: list[str] = []
        failure = None
        try:
            block.extend(islice(texts, BLOCK))  # keeps the texts before an exception
        except Exception as error:
            failure = error
        if block:
            yield block
        if failure is not None:
            raise failure
        if len(block) < BLOCK:
            return


def with_bar(text_blocks: Iterator[list[str]], count: int | None) -> Iterator[list[str]]:
    """The blocks of `count` texts. From the second one on, a terminal or a notebook shows a bar."""
    from dragoman.translation.files import make_bar

    bar = make_bar("texts")
    task = bar.add_task("", total=count)
    with ExitStack() as stack:
        for number, block in enumerate(text_blocks):
            if number == 1:
                stack.enter_context(bar)
            yield block
            bar.advance(task, len(block))

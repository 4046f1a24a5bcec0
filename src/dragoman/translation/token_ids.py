"""Text as token ids: sentences, constraints, and batches of sentences. This module imports no torch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dragoman.model.symbols import END
from dragoman.search.hypothesis import Constraints
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import NotEnoughMemoryError, OptionError, is_out_of_memory
from dragoman.system.wording import counted
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.constraints import encode_constraints
from dragoman.translation.segmentation import split, split_length, truncate


def encode_sentences(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    """The ids of each sentence, END last; END alone for a blank one."""
    return [[*ids, END] for ids in tokenizer.encode([line if line.strip() else "" for line in sentences])]


def encode_parts(
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    settings: SearchSettings,
    longest_trained: int | None,
    longest_source: int | None,
) -> list[list[list[int]]]:
    """The ids of each sentence in parts, END last in each; most sentences are one part.

    Raises `DragomanError` for a part of more tokens than the model can read.
    """
    ids = encode_sentences(tokenizer, sentences)
    if settings.truncate:
        ids = [truncate(row, settings.truncate) for row in ids]
    max_tokens = split_length(settings, longest_trained, longest_source)
    parts = [
        split(row, tokenizer.pieces(row), max_tokens) if 0 < max_tokens < len(row) else [row] for row in ids
    ]
    refuse_too_long(sentences, [max(sentence_parts, key=len) for sentence_parts in parts], longest_source)
    return parts


def refuse_too_long(sentences: Sequence[str], ids: list[list[int]], longest_source: int | None) -> None:
    """Raise `DragomanError` for a text of more tokens than the model can read."""
    for sentence, row in zip(sentences, ids, strict=True):
        if longest_source is not None and len(row) > longest_source:
            raise OptionError(
                "The text that begins with {text!r} has {tokens} tokens, its end included, and this model "
                "has learned positions for {longest}. Shorten it (translate takes {truncate} {longest} or "
                "{split} {longest}), or train with a larger {max_positions}.",
                text=sentence[:40],
                tokens=len(row),
                longest=longest_source,
            )


def constraint_ids(settings: SearchSettings, tokenizer: Tokenizer) -> Constraints:
    """The rules of the settings in token ids. Raises `DragomanError` if they contradict each other."""
    if settings.prefix or settings.ban_words or settings.force_words:
        return encode_constraints(settings, tokenizer)
    return Constraints.of(settings)


def batch_by_length(lengths: dict[int, int], max_tokens: int) -> list[list[int]]:
    """Batches of sentence numbers, longest first: at most `max_tokens` padded tokens, or one sentence."""
    batches: list[list[int]] = []
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


@contextmanager
def explain_out_of_memory(sentences: int) -> Iterator[None]:
    """Raise `NotEnoughMemoryError` for an out-of-memory error, of a batch of `sentences` sentences."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError(
            f"There is not enough memory for {counted(sentences, 'sentence')} at once; give "
            f"{'fewer ({batch_tokens} of translate) or ' if sentences > 1 else ''}shorter sentences."
        ) from error

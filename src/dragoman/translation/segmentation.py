"""From sentences to ids to batches, and sentences that are too long to be read at once.

This module imports no torch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dragoman.model.symbols import END
from dragoman.system.errors import DragomanError
from dragoman.system.machine import is_out_of_memory
from dragoman.text.tokenizer import SPACE, Tokenizer

PAUSES = (".", "!", "?", ";", ":", ",", "。", "！", "？", "；", "，", "、")


def encode_sentences(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    """The ids of each sentence, END last; END alone for a blank one."""
    return [[*ids, END] for ids in tokenizer.encode([line if line.strip() else "" for line in sentences])]


def refuse_too_long(sentences: Sequence[str], ids: list[list[int]], longest: int | None) -> None:
    """Raise `DragomanError` for a text of more tokens than the model can read."""
    for sentence, row in zip(sentences, ids, strict=True):
        if longest is not None and len(row) > longest:
            raise DragomanError(
                f"The text that begins with {sentence[:40]!r} has {len(row)} tokens, its end included, and "
                f"this model has learned positions for {longest}. Shorten it (translate takes "
                f"--truncate {longest} or --split {longest}), or train with a larger max_positions."
            )


def truncate(ids: Sequence[int], longest: int) -> list[int]:
    """The first `longest` tokens, the last of them END."""
    return list(ids) if len(ids) <= longest else [*ids[: longest - 1], END]


def split(ids: Sequence[int], pieces: Sequence[str], longest: int) -> list[list[int]]:
    """The ids (END last, spelt by `pieces`) in parts of at most `longest` tokens, each with its own END.

    A part ends after punctuation if its second half has some, else between words, else anywhere.
    """
    parts, first = [], 0
    while len(ids) - first > longest:
        last = best_split(pieces, first, first + longest - 1)
        parts.append([*ids[first:last], END])
        first = last
    return [*parts, list(ids[first:])]


def best_split(pieces: Sequence[str], first: int, last: int) -> int:
    """Where the part that begins at `first` ends, at most at `last`."""
    words = [place for place in range(first + 1, last + 1) if pieces[place].startswith(SPACE)]
    pauses = [
        place for place in words if pieces[place - 1].endswith(PAUSES) and 2 * (place - first) >= last - first
    ]
    return (pauses or words or [last])[-1]


def batch_by_length(lengths: dict[int, int], max_tokens: int) -> list[list[int]]:
    """Sentence numbers, longest first, in batches of one sentence or at most `max_tokens` padded tokens."""
    batches: list[list[int]] = []
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


@contextmanager
def explain_out_of_memory(sentences: int) -> Iterator[None]:
    """Raise `DragomanError` instead of an out-of-memory error, for a batch of so many sentences."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DragomanError(
            f"The memory does not suffice for {sentences} sentences at once; give a lower --batch-tokens, or "
            "shorter sentences."
        ) from error

"""Sentences become ids, and ids batches. No torch here."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dragoman.model.symbols import END
from dragoman.system.allocator import out_of_memory
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import Tokenizer


def encoded(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    """Ids of each sentence with END; END alone for a blank one."""
    return [[*row, END] for row in tokenizer.encode([line if line.strip() else "" for line in sentences])]


def refuse_too_long(sentences: Sequence[str], ids: list[list[int]], longest: int | None) -> None:
    """Raise `DragomanError` where a text has more tokens than the model can read, with its beginning, before anything is done."""
    for sentence, row in zip(sentences, ids, strict=True):
        if longest is not None and len(row) > longest:
            raise DragomanError(
                f"The text that begins with {sentence[:40]!r} has {len(row)} tokens, its end included, and this model has learnt the "
                f"positions of {longest}. Have it cut (translate takes --truncate {longest} or --split {longest}), or train with a larger "
                "max_positions."
            )


def with_room(ids: Sequence[list[int]], extra: int) -> dict[int, int]:
    """How long the translation of each sentence that is not blank may become: as long as its source, and `extra` more."""
    return {number: len(row) + extra for number, row in enumerate(ids) if len(row) > 1}


def batches(lengths: dict[int, int], tokens: int) -> list[list[int]]:
    """Numbers of sentences, longest first, in batches of at most so many tokens, padding included, or of one sentence."""
    found: list[list[int]] = []
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        if found and (len(found[-1]) + 1) * lengths[found[-1][0]] <= tokens:
            found[-1].append(number)
        else:
            found.append([number])
    return found


@contextmanager
def explain_out_of_memory(sentences: int) -> Iterator[None]:
    """Raise `DragomanError` where memory does not suffice for so many sentences."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise DragomanError(
            f"The memory does not suffice for {sentences} sentences at once; give a lower --batch-tokens, or shorter sentences."
        ) from error

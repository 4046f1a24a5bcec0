"""The fields of a SentencePiece model, which is a protocol buffer, as sentencepiece_model.proto has it.

They are read here because the package that reads protocol buffers is an optional dependency.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class PieceType(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Field:
    """A field of a message."""

    number: int
    value: int | bytes
    """An integer, or the bytes of a string, a message or a number of fixed size."""
    encoded: bytes
    """The whole field, as it stands in the message."""


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a valid message in their order."""
    place = 0
    while place < len(message):
        begin = place
        key, place = _read_varint(message, place)
        value: int | bytes
        if key % 8 == 0:
            value, place = _read_varint(message, place)
        else:
            fixed_size = {1: 8, 5: 4}.get(key % 8)
            size, place = (fixed_size, place) if fixed_size else _read_varint(message, place)
            value, place = message[place : place + size], place + size
        yield Field(key >> 3, value, message[begin:place])


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """The integer at a place, in groups of 7 bits with the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


def piece_types(model: bytes) -> list[PieceType]:
    """The type of each piece of a model, in the order of their ids."""
    pieces = (field.value for field in read_fields(model) if field.number == 1)
    return [PieceType(_last(piece, 3, PieceType.NORMAL)) for piece in pieces if isinstance(piece, bytes)]


def model_kind(model: bytes) -> str:
    """The algorithm of a model, named as in `TokenKind`."""
    trainer_specs = [field.value for field in read_fields(model) if field.number == 2]
    joined = b"".join(value for value in trainer_specs if isinstance(value, bytes))
    return {1: "unigram", 2: "bpe", 3: "word", 4: "char"}[_last(joined, 3, 1)]


def _last(message: bytes, number: int, default: int) -> int:
    """The value of an integer field, which is the last one where it is repeated."""
    values = [field.value for field in read_fields(message) if field.number == number]
    return values[-1] if values and isinstance(values[-1], int) else default

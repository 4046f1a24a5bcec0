"""Which word each token of a line belongs to, and which token a piece is."""

from bisect import bisect_left
from collections.abc import Sequence

from sentencepiece import SentencePieceProcessor

from dragoman.system.errors import DragomanError

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's symbol for a space: the first token of a word has it


def word_ids(processor: SentencePieceProcessor, parts: Sequence[str], is_segmented: bool) -> list[int]:
    """For each token of a line the number of the word in which it begins, counted from 0.

    `parts` are what the processor encodes one by one, and are the line if spaces join them.
    """
    word_of = character_words(" ".join(parts), is_segmented)
    words, offset = [], 0
    for part in parts:
        normalized, origins = processor.normalize(part, with_offsets=True)
        # The places in `part` of the characters that are not spaces: the first one at or after the
        # beginning of a token shows its word.
        places = [
            origin
            for character, origin in zip(normalized, origins, strict=False)
            if character not in (" ", SPACE)
        ] or [0]
        for begin, _ in processor.encode(part, out_type="offset_mapping")["offsets"]:
            words.append(word_of[offset + places[min(bisect_left(places, begin), len(places) - 1)]])
        offset += len(part) + 1
    return words


def character_words(line: str, is_segmented: bool) -> list[int]:
    """For each character of a line the number of its word, counted from 0.

    A space belongs to the word after it. In a line that subword-nmt has segmented, a space after `@@` does
    not end a word.
    """
    numbers, word, ended = [], -1, True
    for place, character in enumerate(line):
        if character.isspace():
            ended = not is_segmented or not line.endswith("@@", 0, place)
        elif ended:
            word, ended = word + 1, False
        numbers.append(word + (character.isspace() and ended))
    return [min(number, word) for number in numbers]


def piece_ids(processor: SentencePieceProcessor, pieces: Sequence[str]) -> list[int]:
    """The ids of pieces. Raises `DragomanError` for one that is not in the vocabulary."""
    ids: list[int] = [processor.piece_to_id(piece) for piece in pieces]
    for piece, known in zip(pieces, processor.id_to_piece(ids), strict=True):
        if piece != known:
            raise DragomanError(
                f"{piece!r} is no token of this vocabulary; give tokens as a translation has them, or its "
                "text."
            )
    return ids

"""Foreign vocabularies in our order of ids: padding, unknown, start, end, then the others in theirs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import SPACE, UNKNOWN_TEXT, Tokenizer

NEVER = -1e9
"""A logit's bias that makes a token's probability 0 in every precision, and its softmax no other than without
the token."""
LANGUAGE = (
    ">>",
    "<<",
)  # around the target language's name, a token that many-to-many models of OPUS read first


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in our order, and for each the row that it has in the foreign tables."""

    pieces: list[str]
    rows: list[int]

    @classmethod
    def in_our_order(
        cls, theirs: Sequence[str], pad: int, unknown: int, start: int, end: int
    ) -> "Vocabulary":
        """From all tokens in the foreign order, and the foreign ids of the special ones.

        What decoding starts with may be one of these.
        """
        first = [pad, unknown, start, end]
        others = [number for number in range(len(theirs)) if number not in first]
        names = [theirs[number] for number in first]
        if start in (pad, unknown, end):
            names[START] = next(name for name in ("<s>", "<start>", "<dragoman:start>") if name not in theirs)
        return cls([*names, *(theirs[number] for number in others)], [*first, *others])

    def with_unknowns(self, *paths: Path) -> "Vocabulary":
        """With the pieces that these SentencePiece models write and the vocabulary lacks, each with the
        unknown token's row.

        Without them the models would cut text in another way. Raises `DragomanError` if a file is no such
        model.
        """
        return self.with_others(piece for path in paths for piece in pieces_of(path))

    def with_others(self, pieces: Iterable[str]) -> "Vocabulary":
        """With those of the pieces that it lacks, each with the unknown token's row."""
        known = set(self.pieces)
        lacking = [piece for piece in dict.fromkeys(pieces) if piece not in known]
        return Vocabulary([*self.pieces, *lacking], [*self.rows, *[self.rows[UNKNOWN]] * len(lacking)])

    @property
    def never_written(self) -> list[int]:
        """Tokens that have the row of another:

        START, where decoding starts with a token of another purpose, and other unknown ones.

        They must not be written, and have no logit.
        """
        another = [START] if self.rows.count(self.rows[START]) > 1 else []
        return another + [
            token for token, row in enumerate(self.rows) if token > END and row == self.rows[UNKNOWN]
        ]

    def embedding(self, theirs: Tensor) -> Tensor:
        """Rows of a foreign table in our order."""
        return theirs[torch.tensor(self.rows)]

    def bias(self, theirs: Tensor) -> Tensor:
        """Biases of the logits in our order."""
        found = theirs[torch.tensor(self.rows)]
        found[self.never_written] = NEVER
        return found


def is_word(piece: str) -> bool:
    """Whether a token is a part of texts, and not the name of a language."""
    return not (piece.startswith(SPACE + LANGUAGE[0]) and piece.endswith(LANGUAGE[1]))


def marian_name(piece: str) -> str:
    """A token as toolkits write it that know SentencePiece's tokens by their letters: no space before the
    name of a language.
    """
    return piece if is_word(piece) else piece.removeprefix(SPACE)


def ids_of(path: Path, found: Mapping[str, int]) -> list[str]:
    """Tokens in the order of their ids.

    Raises `DragomanError` if these are not the numbers from 0, each once.
    """
    if wrong := [piece for piece, number in found.items() if type(number) is not int]:
        raise DragomanError(f"{path} has {found[wrong[0]]!r} as the number of the token {wrong[0]!r}.")
    theirs = sorted(found, key=lambda piece: found[piece])
    if [found[piece] for piece in theirs] != list(range(len(theirs))):
        raise DragomanError(
            f"{path} does not number its {len(theirs)} tokens from 0 to {len(theirs) - 1}, each once."
        )
    return theirs


def refuse_other_size(path: Path, pieces: Sequence[str], origin: Path, name: str, rows: int) -> None:
    """Raise `DragomanError` if a vocabulary does not fit its embedding."""
    if len(pieces) != rows:
        raise DragomanError(
            f"{path} has {len(pieces)} tokens, and {name} in {origin} has {rows} rows; they do not belong "
            "together."
        )


def lines_of(path: Path) -> list[str]:
    """Lines of a file of UTF-8, which end with newlines alone.

    Raises `DragomanError` if it cannot be read.
    """
    try:
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise DragomanError(f"{path} cannot be read: {error}.") from error


def codes_of(path: Path) -> str:
    """Byte-pair merges as subword-nmt reads them.

    Those of fastBPE have counts, and end words as subword-nmt's version 0.2.

    Raises `DragomanError` with the line that is no merge.
    """
    lines = [line.strip("\r ") for line in lines_of(path)]
    head = lines[:1] if lines[0].startswith("#version:") else []
    if head and head[0].split()[-1] not in ("0.1", "0.2"):
        raise DragomanError(f"{path} begins with {head[0]!r}; subword-nmt has the versions 0.1 and 0.2.")
    merges = [line.split(" ") for line in lines[len(head) :]]
    counted = not head and all(len(merge) == 3 and merge[2].isdecimal() for merge in merges)
    for number, merge in enumerate(merges, len(head) + 1):
        if len(merge) != (3 if counted else 2):
            raise DragomanError(
                f"{path}, line {number}: {' '.join(merge)!r} is not two pieces that are to be one."
            )
    head = ["#version: 0.2"] if counted else head
    return "\n".join([*head, *(" ".join(merge[:2]) for merge in merges)]) + "\n"


def parsed(path: Path) -> Any:
    """The SentencePiece model in a file. Needs protobuf. Raises `DragomanError` if there is none."""
    model = sentencepiece_model()
    try:
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
    except Exception as error:
        raise DragomanError(f"{path} is not a SentencePiece model ({error}).") from error
    if not model.pieces or not model.HasField("normalizer_spec"):
        raise DragomanError(f"{path} is not a whole SentencePiece model.")
    return model


def pieces_of(path: Path) -> list[str]:
    """All that a SentencePiece model writes, or makes on its way.

    Raises `DragomanError` if the file is no such model.
    """
    model = parsed(path)
    special = (type(model).SentencePiece.CONTROL, type(model).SentencePiece.UNKNOWN)
    return [piece.piece for piece in model.pieces if piece.type not in special]


def sentencepiece_in_order(path: Path, pieces: Sequence[str]) -> Tokenizer:
    """A SentencePiece model that cuts text as the one in the file does, with the places of `pieces` for ids.

    What is in `pieces` alone is never written by it, but read. (Letters that it does not know are unknown,
    also where `pieces` has them; Marian's tools, which look up whatever SentencePiece gives them, find such a
    letter if it stands alone.) Needs protobuf. Raises `DragomanError` where the file is no such model.
    """
    model = parsed(path)
    if [piece.piece for piece in model.pieces] == list(pieces) and model.trainer_spec.bos_id == START:
        return Tokenizer.load(path)
    return in_order(model, pieces)


def words_in_order(pieces: Sequence[str], codes: str | None = None) -> Tokenizer:
    """A vocabulary of words, separated by spaces or cut by subword-nmt's codes, with the places of `pieces`
    for ids. Needs protobuf.
    """
    any_words = Tokenizer.train(["a"], "word", TokenizerSettings(normalization="identity"), 5)
    model = sentencepiece_model()
    model.ParseFromString(any_words.model)
    special = pieces[: END + 1]
    words = in_order(model, [*special, *(SPACE + piece for piece in pieces[END + 1 :])], known=True)
    return Tokenizer(words.model, codes)


def in_order(model: Any, pieces: Sequence[str], known: bool = False) -> Tokenizer:
    """The SentencePiece model with these pieces.

    Those that are new to it are written only if they are `known` to be words.
    """
    kind = type(model).SentencePiece
    own = {piece.piece: piece for piece in model.pieces if piece.type not in (kind.CONTROL, kind.UNKNOWN)}
    least = min((piece.score for piece in own.values()), default=0.0) - 1
    new = []
    names: dict[str, None] = {}
    for number, piece in enumerate(pieces):  # an empty or repeated one gets a name that no text has
        names[piece if piece and piece not in names else f"<dragoman:{number}>"] = None
    for number, piece in enumerate(names):
        if number == UNKNOWN:
            new.append(kind(piece=piece, type=kind.UNKNOWN))
        elif number <= END:
            new.append(kind(piece=piece, type=kind.CONTROL))
        elif piece in own:
            new.append(own[piece])
        elif piece.startswith(LANGUAGE[0]) and piece.endswith(LANGUAGE[1]):
            new.append(kind(piece=SPACE + piece, type=kind.USER_DEFINED))
        else:
            new.append(kind(piece=piece, score=least, type=kind.NORMAL if known else kind.UNUSED))
    del model.pieces[:]
    model.pieces.extend(new)
    spec = model.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD, UNKNOWN, START, END
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = list(names)[: END + 1]
    spec.vocab_size = len(new)
    if spec.unk_surface != f" {UNKNOWN_TEXT}":  # that of words
        spec.unk_surface = UNKNOWN_TEXT
    return Tokenizer(model.SerializeToString())


def sentencepiece_model() -> Any:
    """An empty SentencePiece model.

    Raises `DragomanError` if protobuf is not installed, which can write one.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise DragomanError(
            "To read this vocabulary protobuf is needed: pip install 'dragoman[import]'."
        ) from error
    return sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made at run time

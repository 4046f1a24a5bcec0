"""Foreign vocabularies in our order of ids: padding, unknown, start, end, then the others in their order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError, reason
from dragoman.system.readers import MAX_TOKENIZER, MAX_TOKENS_FILE, read_bytes, read_text
from dragoman.system.wording import shown
from dragoman.text.language_codes import standard
from dragoman.text.settings import (
    LANGUAGE_CODE,
    LanguagePair,
    Languages,
    TokenizerSettings,
    common_languages,
)
from dragoman.text.tokenizer import UNKNOWN_TEXT, Tokenizer
from dragoman.text.words import SPACE
from dragoman.translation.model_folder import Tokenizers

FORBIDDEN_BIAS = -1e9
"""The bias of a logit that makes the token's probability 0 in every precision."""
LANGUAGE = (">>", "<<")
"""The brackets of a target language's name, a token that many-to-many models of OPUS read first."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in our order of ids, and the row that each has in the foreign embeddings."""

    pieces: list[str]
    rows: list[int]

    @classmethod
    def from_foreign(
        cls, pieces: Sequence[str], pad: int, unknown: int, start: int, end: int
    ) -> "Vocabulary":
        """Reorder all tokens from the foreign order, given the foreign ids of the special ones.

        `start` may be the id of another special token: then START gets a name of its own.
        """
        special = [pad, unknown, start, end]
        others = [row for row in range(len(pieces)) if row not in special]
        names = [pieces[row] for row in special]
        if start in (pad, unknown, end):
            candidates = chain(("<s>", "<start>"), (f"<dragoman:start{number}>" for number in count()))
            names[START] = next(name for name in candidates if name not in pieces)
        return cls([*names, *(pieces[row] for row in others)], [*special, *others])

    def with_sentencepiece(self, *paths: Path) -> "Vocabulary":
        """Add the missing pieces of SentencePiece models, each with the unknown token's row.

        Without them the models would tokenise otherwise. Raises `DragomanError` if a file is not a
        SentencePiece model.
        """
        known = set(self.pieces)
        pieces = (piece for path in paths for piece in sentencepiece_pieces(path))
        return self.with_unknown(piece for piece in pieces if marian_name(piece) not in known)

    def with_unknown(self, pieces: Iterable[str]) -> "Vocabulary":
        """Add those of the pieces that are missing, each with the unknown token's row."""
        known = set(self.pieces)
        missing = [piece for piece in dict.fromkeys(pieces) if piece not in known]
        return Vocabulary([*self.pieces, *missing], [*self.rows, *[self.rows[UNKNOWN]] * len(missing)])

    @property
    def never_written(self) -> list[int]:
        """Ids that share the row of another token, which alone may be written.

        They are START, if decoding starts with another special token, and the pieces of `with_unknown`.
        """
        start = [START] if self.rows.count(self.rows[START]) > 1 else []
        unknown = self.rows[UNKNOWN]
        return start + [token for token, row in enumerate(self.rows) if token > END and row == unknown]

    def embedding(self, foreign: Tensor) -> Tensor:
        """A foreign embedding [rows D] in our order [V D]."""
        return foreign[torch.tensor(self.rows)]

    def bias(self, foreign: Tensor) -> Tensor:
        """Foreign biases of the logits [rows] in our order [V]; `never_written` is forbidden."""
        bias = foreign[torch.tensor(self.rows)]
        bias[self.never_written] = FORBIDDEN_BIAS
        return bias


def is_word(piece: str) -> bool:
    """Whether a token is part of a text, not the name of a language."""
    return not (piece.startswith(SPACE + LANGUAGE[0]) and piece.endswith(LANGUAGE[1]))


def marian_name(piece: str) -> str:
    """A token as Marian's vocabularies spell it: the name of a language has no space before it."""
    return piece if is_word(piece) else piece.removeprefix(SPACE)


def pieces_by_id(path: Path, ids: Mapping[str, int]) -> list[str]:
    """Tokens in the order of their ids.

    Raises `DragomanError` if the ids are not the numbers from 0, each once.
    """
    if invalid := [piece for piece, number in ids.items() if type(number) is not int]:
        raise DragomanError(
            f"{path} has {shown(ids[invalid[0]])} as the number of the token {shown(invalid[0])}."
        )
    pieces = sorted(ids, key=lambda piece: ids[piece])
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise DragomanError(
            f"{path} does not number its {len(pieces)} tokens from 0 to {len(pieces) - 1}, each once."
        )
    return pieces


def check_size(path: Path, pieces: Sequence[str], origin: Path, name: str, rows: int) -> None:
    """Raise `DragomanError` if a vocabulary and its embedding, `name` in `origin`, differ in size."""
    if len(pieces) != rows:
        raise DragomanError(
            f"{path} has {len(pieces)} tokens, and {name} in {origin} has {rows} rows; they do not belong "
            "together."
        )


def refuse_subword_pieces(place: str, pieces: Sequence[str]) -> None:
    """Raise `DragomanError` if pieces are of a subword model, which was not found.

    They are if one in ten has the mark of a space or of subword-nmt. `place` names them in the message.
    """
    shares = {
        "SentencePiece's pieces; put the SentencePiece model (*.model)": [
            piece.startswith(SPACE) for piece in pieces
        ],
        "subword-nmt's pieces; put its codes (bpecodes, codes, code or bpe.codes)": [
            piece.endswith("@@") for piece in pieces
        ],
    }
    for description, marked in shares.items():
        if sum(marked) * 10 > len(pieces):
            raise DragomanError(f"{place} is of {description} beside it.")


def split_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, split at newlines alone. Raises `DragomanError` if it cannot be read."""
    return read_text(path, MAX_TOKENS_FILE).removesuffix("\n").split("\n")


def read_codes(path: Path) -> str:
    """Byte-pair merges in subword-nmt's format.

    fastBPE's merges have counts, which are removed; they end words as subword-nmt's version 0.2 does. Blank
    lines at the end are ignored. Raises `DragomanError` with the line that is not a merge.
    """
    lines = [line.strip("\r ") for line in split_lines(path)]
    while lines[1:] and not lines[-1]:
        lines.pop()
    head = lines[:1] if lines[0].startswith("#version:") else []
    if head and head[0].split()[-1] not in ("0.1", "0.2"):
        raise DragomanError(f"{path} begins with {head[0]!r}; subword-nmt has the versions 0.1 and 0.2.")
    merges = [line.split(" ") for line in lines[len(head) :]]
    has_counts = not head and len(merges[0]) == 3 and merges[0][2].isdecimal()
    for number, merge in enumerate(merges, len(head) + 1):
        if len(merge) != (3 if has_counts else 2) or (has_counts and not merge[2].isdecimal()):
            raise DragomanError(
                f"{path}, line {number}: {' '.join(merge)!r} is not a pair of pieces to merge"
                f"{', with their count' if has_counts else ''}."
            )
    head = ["#version: 0.2"] if has_counts else head
    return "\n".join([*head, *(" ".join(merge[:2]) for merge in merges)]) + "\n"


def load_sentencepiece(path: Path) -> Any:
    """The `ModelProto` in a file. Raises `DragomanError` if the file is no whole SentencePiece model."""
    model, content = empty_sentencepiece(), read_bytes(path, MAX_TOKENIZER)
    try:
        model.ParseFromString(content)
    except Exception as error:
        raise DragomanError(f"{path} is not a SentencePiece model ({reason(error)}).") from error
    if not model.pieces or not model.HasField("normalizer_spec"):
        raise DragomanError(f"{path} is not a whole SentencePiece model.")
    return model


def sentencepiece_pieces(path: Path) -> list[str]:
    """All pieces of a SentencePiece model but control tokens and the unknown token.

    Raises `DragomanError` if the file is not a SentencePiece model.
    """
    model = load_sentencepiece(path)
    special = (type(model).SentencePiece.CONTROL, type(model).SentencePiece.UNKNOWN)
    return [piece.piece for piece in model.pieces if piece.type not in special]


def sentencepiece_tokenizer(path: Path, pieces: Sequence[str]) -> Tokenizer:
    """A tokenizer of the SentencePiece model in the file, with the order of `pieces` as ids.

    Pieces that the model lacks are decoded, but never encoded. A letter that the model does not know is
    unknown even if `pieces` has it; Marian's tools, which look up what SentencePiece returns, find such a
    letter if it stands alone. Raises `DragomanError` if the file is not a SentencePiece model.
    """
    model = load_sentencepiece(path)
    if [marian_name(piece.piece) for piece in model.pieces] == list(
        pieces
    ) and model.trainer_spec.bos_id == START:
        return Tokenizer.load(path)
    return with_pieces(model, pieces)


def word_tokenizer(pieces: Sequence[str], codes: str | None = None) -> Tokenizer:
    """A tokenizer of words, with the order of `pieces` as ids.

    Words are separated by spaces, and segmented by subword-nmt's codes if there are any.
    Raises `DragomanError` if protobuf is not installed.
    """
    model = empty_sentencepiece()
    model.ParseFromString(
        Tokenizer.train(["a"], "word", TokenizerSettings(normalization="identity"), 5).model
    )
    special = pieces[: END + 1]
    words = with_pieces(model, [*special, *(SPACE + piece for piece in pieces[END + 1 :])], encode_new=True)
    return Tokenizer(words.model, codes)


def with_pieces(model: Any, pieces: Sequence[str], encode_new: bool = False) -> Tokenizer:
    """A tokenizer of the SentencePiece model with these pieces, in this order.

    Pieces that are new to the model are encoded only with `encode_new`.
    """
    kind = type(model).SentencePiece
    known = {piece.piece: piece for piece in model.pieces if piece.type not in (kind.CONTROL, kind.UNKNOWN)}
    lowest = min((piece.score for piece in known.values()), default=0.0) - 1
    new = []
    names: dict[str, None] = {}
    for number, piece in enumerate(pieces):  # others get a name that no text has
        is_new = piece and "\0" not in piece and piece not in names
        names[piece if is_new else f"<dragoman:{number}>"] = None
    for number, piece in enumerate(names):
        if number == UNKNOWN:
            new.append(kind(piece=piece, type=kind.UNKNOWN))
        elif number <= END:
            new.append(kind(piece=piece, type=kind.CONTROL))
        elif piece in known:
            new.append(known[piece])
        elif piece.startswith(LANGUAGE[0]) and piece.endswith(LANGUAGE[1]):
            new.append(kind(piece=SPACE + piece, type=kind.USER_DEFINED))
        else:
            new.append(kind(piece=piece, score=lowest, type=kind.NORMAL if encode_new else kind.UNUSED))
    del model.pieces[:]
    model.pieces.extend(new)
    spec = model.trainer_spec
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD, UNKNOWN, START, END
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = list(names)[: END + 1]
    spec.vocab_size = len(new)
    if spec.unk_surface != f" {UNKNOWN_TEXT}":  # the surface in tokenizers of words
        spec.unk_surface = UNKNOWN_TEXT
    return Tokenizer(model.SerializeToString())


def language_symbols(tokenizer: Tokenizer) -> list[str]:
    """The tokens of a vocabulary that name target languages, such as `>>fra<<`; none if it has just one."""
    pieces = tokenizer.pieces(range(END + 1, len(tokenizer)))
    symbols = [marian_name(piece) for piece in pieces if not is_word(piece)]
    return symbols if len(symbols) > 1 else []


def without_language_symbols(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer whose `language_symbols` are tokens that no text gives, as those of our own models."""
    model = empty_sentencepiece()
    model.ParseFromString(tokenizer.model)
    for piece in model.pieces:
        if not is_word(piece.piece):
            piece.piece, piece.type = marian_name(piece.piece), type(model).SentencePiece.CONTROL
    return Tokenizer(model.SerializeToString(), tokenizer.codes)


def with_pairs(
    tokenizers: Tokenizers, languages: Languages
) -> tuple[Tokenizers, Languages, tuple[LanguagePair, ...]]:
    """The vocabularies, the languages and the pairs of languages of a model of several target languages.

    Those of a model of one stay as they are. A symbol whose name is no code of a language is left out.
    """
    symbols: dict[str, str] = {}
    for symbol in language_symbols(tokenizers.source):
        code = symbol.removeprefix(LANGUAGE[0]).removesuffix(LANGUAGE[1]).replace("_", "-")
        if LANGUAGE_CODE.fullmatch(code):
            symbols.setdefault(standard(code), symbol)
    if len(symbols) < 2:
        return tokenizers, languages, ()
    pairs = tuple(LanguagePair(languages.source, code, symbol) for code, symbol in symbols.items())
    source = without_language_symbols(tokenizers.source)
    is_shared = tokenizers.source is tokenizers.target
    without = Tokenizers(source, source if is_shared else tokenizers.target)
    return without, common_languages(pairs), pairs


def empty_sentencepiece() -> Any:
    """An empty SentencePiece `ModelProto`. Raises `DragomanError` if protobuf is not installed."""
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise DragomanError(
            "Reading this vocabulary needs protobuf: pip install 'dragoman[import]'."
        ) from error
    return sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # created at run time

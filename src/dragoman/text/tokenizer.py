"""Text to ids and back, by SentencePiece (Kudo and Richardson 2018).

Ids 0 to 3 are padding, unknown, start and end.
"""

import io
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import sentencepiece

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings, TokenKind

UNKNOWN_TEXT = (
    "\N{REPLACEMENT CHARACTER}"  # what an unknown token, or a part of a character's bytes, becomes in a text
)
CODES = ".codes"  # the ending of their file
# before codes whose pieces are cut again, down to letters, where the vocabulary lacks them
WITHIN = "#within the vocabulary\n"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign before the first token of a word
SEAM = re.compile("@@( |$)")  # between the pieces of a word that codes have cut


def cut_by(codes: str, pieces: Iterable[str]) -> Callable[[str], str]:
    """What puts `@@ ` between the pieces of each word of a line.

    Raises `DragomanError` if subword-nmt is not installed.
    """
    try:
        from subword_nmt.apply_bpe import BPE
    except ImportError as error:
        raise DragomanError(
            "This vocabulary's words are cut by subword-nmt, which is not installed: pip install subword-nmt."
        ) from error
    cutter = BPE(
        io.StringIO(codes.removeprefix(WITHIN)), vocab=set(pieces) if codes.startswith(WITHIN) else None
    )
    return lambda line: str(cutter.process_line(whole_characters(line)))


def whole_characters(text: str) -> str:
    """The text without lone surrogates, which no encoding can hold: each becomes U+FFFD.

    Pairs become their character.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Tokenizer:
    """One vocabulary.

    `encode` gives ids without start and end; `decode` ignores the four special ids but the unknown one.
    """

    def __init__(self, model: bytes, codes: str | None = None) -> None:
        """From the bytes of a SentencePiece model, and subword-nmt's codes where it is these that cut words,
        into `pie@@ ces`.

        Raises `DragomanError` if they are no such model, its special ids differ, or subword-nmt is not
        installed.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DragomanError(f"This is not a SentencePiece model ({error}).") from error
        found = [
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        ]
        if found != [PAD, UNKNOWN, START, END]:
            raise DragomanError(
                f"This SentencePiece model has the ids {found} for padding, unknown, start and end; "
                "Dragoman needs "
                f"{[PAD, UNKNOWN, START, END]}. Train it with `dragoman train`."
            )
        self.model = model
        """The bytes of the SentencePiece model, which every SentencePiece program reads."""
        self.codes = codes
        """Byte-pair merges as subword-nmt writes them (Sennrich et al. 2016)."""
        self.unknown_is_word = self._processor.decode([UNKNOWN]) == f" {UNKNOWN_TEXT}"
        """Whether an unknown token is a whole word, as in a vocabulary of words."""
        self._cut: Callable[[str], str] = whole_characters
        if codes is not None:
            self._cut = cut_by(
                codes, (piece.removeprefix("▁") for piece in self.pieces(range(END + 1, len(self))))
            )

    @classmethod
    def train(
        cls, lines: Iterable[str], kind: TokenKind, settings: TokenizerSettings, vocabulary: int
    ) -> "Tokenizer":
        """Learn a vocabulary of at most `vocabulary` tokens; of fewer where the text has no more.

        Raises `DragomanError` if the text is empty, or the vocabulary too small for its characters.
        """
        pieces = kind in ("bpe", "unigram")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type=kind,
                vocab_size=vocabulary,
                hard_vocab_limit=False,
                use_all_vocab=kind == "char",
                byte_fallback=pieces and settings.byte_fallback,
                character_coverage=settings.character_coverage if pieces else 1.0,
                normalization_rule_name=settings.normalization,
                add_dummy_prefix=kind != "char",
                max_sentence_length=2**20,
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=START,
                eos_id=END,
                unk_surface=f" {UNKNOWN_TEXT}"
                if kind == "word"
                else UNKNOWN_TEXT,  # a word of its own, or a part of one
                minloglevel=2,
            )
        except RuntimeError as error:
            if needed := re.search(r"required_chars\. (\d+) vs (\d+)", str(error)):
                raise DragomanError(
                    f"A vocabulary of {vocabulary} tokens is too small: the text's characters alone need "
                    f"{needed[2]}. "
                    "Ask for a larger vocabulary, or a lower character_coverage."
                ) from error
            raise DragomanError(f"SentencePiece cannot make a vocabulary from this text: {error}") from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a saved vocabulary. Raises `DragomanError` with the file's name where that cannot be done."""
        codes = path.with_suffix(CODES)
        try:
            return cls(path.read_bytes(), codes.read_text("utf-8") if codes.exists() else None)
        except (OSError, UnicodeDecodeError, DragomanError) as error:
            raise DragomanError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the SentencePiece model, and codes beside it."""
        path.write_bytes(self.model)
        if self.codes is not None:
            path.with_suffix(CODES).write_text(self.codes, "utf-8")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and (self.model, self.codes) == (other.model, other.codes)

    def __hash__(self) -> int:
        return hash((self.model, self.codes))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line. Blank lines have none."""
        cut = [self._cut(line) for line in lines]
        if (
            self.unknown_is_word
        ):  # one at a time: of several unknown words in a row SentencePiece would make one
            return [
                [token for word in self._processor.encode(line.split(" ")) for token in word] for line in cut
            ]
        ids: list[list[int]] = self._processor.encode(cut)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, up to the first end. Raises `IndexError` for ids outside the vocabulary."""
        ids = list(ids)
        kept = ids[: ids.index(END)] if END in ids else ids
        text: str = self._processor.decode([token for token in kept if token not in (PAD, START)])
        if self.codes is not None:
            text = SEAM.sub("", text)
        return text.removeprefix(" ") if kept[:1] == [UNKNOWN] else text

    def words(self, line: str) -> list[int]:
        """For each token of a line the word in which it begins, counted from 0: words are what `str.split`
        gives, before normalising.

        A blank line has none, whatever its tokens. A word of which normalising leaves nothing, as of a
        zero-width space, has no token.
        """
        line = self._cut(line) if line.strip() else ""
        word, parted, at = -1, True, []
        for place, character in enumerate(line):
            if character.isspace():
                parted = self.codes is None or not line[:place].endswith(
                    "@@"
                )  # where codes have cut a word it goes on
            elif parted:
                word, parted = word + 1, False
            at.append(word + (character.isspace() and parted))
        words, place = [], 0
        for part in line.split(" ") if self.unknown_is_word else [line]:
            normal, origins = self._processor.normalize(part, with_offsets=True)
            seen = [
                origin
                for character, origin in zip(normal, origins, strict=False)
                if character not in (" ", SPACE)
            ] or [0]
            for begin, _ in self._processor.encode(part, out_type="offset_mapping")["offsets"]:
                words.append(min(at[place + seen[min(bisect_left(seen, begin), len(seen) - 1)]], word))
            place += len(part) + 1
        return words

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The tokens themselves, as they are written in the vocabulary."""
        return [self._processor.id_to_piece(token) for token in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """What `pieces` was given. Raises `DragomanError` for what is no token of this vocabulary."""
        found: list[int] = [self._processor.piece_to_id(piece) for piece in pieces]
        for piece, again in zip(pieces, self.pieces(found), strict=True):
            if piece != again:
                raise DragomanError(
                    f"{piece!r} is no token of this vocabulary; give tokens as a translation has them, or "
                    "its text."
                )
        return found

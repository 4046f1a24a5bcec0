"""Tokenizers: text to ids and back by SentencePiece (Kudo and Richardson 2018).

Ids 0 to 3 are PAD, UNKNOWN, START and END.
"""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError, OptionError, reason
from dragoman.system.readers import MAX_TOKENIZER, MAX_TOKENS_FILE, read_bytes, read_text
from dragoman.text.letters import has_letter
from dragoman.text.mixture import BYTE
from dragoman.text.settings import TokenizerSettings, TokenKind
from dragoman.text.words import SPACE, piece_ids, word_ids

# The text of an unknown token, and of an incomplete sequence of byte tokens.
UNKNOWN_TEXT = "\N{REPLACEMENT CHARACTER}"
SYMBOL = re.compile("<.+>")
CODES_SUFFIX = ".codes"  # of the file beside a SentencePiece model
SEPARATOR = re.compile("@@( |$)")  # subword-nmt's, between the pieces of a word
WITHIN_TEXT = b"\x1a\x04\x18\x00\x20\x00"
"""After a SentencePiece model, this changes its normalizer_spec: a text is no beginning of a line, since
add_dummy_prefix and remove_extra_whitespaces are false."""
FEW_CHARACTERS = 4_000  # which are encoded without threads


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot encode, by U+FFFD, and each pair by its character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Tokenizer:
    """A vocabulary, with the way in which it splits text into tokens.

    `encode` gives ids without START and END; `decode` ignores PAD and START and stops at END.
    """

    def __init__(self, model: bytes, codes: str | None = None) -> None:
        """Read the bytes of a SentencePiece model; `codes` are subword-nmt's, if that splits the words.

        Raises `DragomanError` if the bytes are not such a model, if its special ids differ, or if
        subword-nmt is needed and not installed.
        """
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DragomanError(f"This is not a SentencePiece model ({error}).") from error
        special_ids = [processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()]
        if special_ids != [PAD, UNKNOWN, START, END]:
            raise DragomanError(
                f"This SentencePiece model has the ids {special_ids} for padding, unknown, start and end; "
                f"Dragoman needs {[PAD, UNKNOWN, START, END]}. Train it with `dragoman train`."
            )
        self._processor = processor
        self.model = model
        """The bytes of the SentencePiece model, as in SentencePiece's own files."""
        self.codes = codes
        """Byte-pair merges as subword-nmt writes them (Sennrich et al. 2016)."""
        self.unknown_is_word = self._processor.decode([UNKNOWN]) == f" {UNKNOWN_TEXT}"
        """Whether an unknown token is a whole word, as in a vocabulary of words."""
        self.is_bytes = self._processor.encode("a", out_type=str) == ["<0x61>"]
        """Whether the tokens are bytes. With byte fallback a space would come before the byte."""
        self._segment: Callable[[str], str] = replace_surrogates
        if codes is not None:
            from dragoman.text.subword_nmt import make_segmenter

            pieces = (piece.removeprefix(SPACE) for piece in self.pieces(range(END + 1, len(self))))
            segment = make_segmenter(codes, pieces)
            self._segment = lambda line: segment(replace_surrogates(line))

    @cached_property
    def has_letters(self) -> bool:
        """Whether a token has a letter, as none has in a vocabulary of digits. Bytes can spell all letters.

        The letters in the names of symbols, such as `<unk>` and `<0x61>`, do not count.
        """
        pieces = self.pieces(range(len(self)))
        return self.is_bytes or any(has_letter(SYMBOL.sub("", piece)) for piece in pieces)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        kind: TokenKind,
        settings: TokenizerSettings,
        vocabulary: int,
        control_symbols: Sequence[str] = (),
    ) -> "Tokenizer":
        """Learn a vocabulary of at most `vocabulary` tokens; it is smaller if the text has fewer.

        `control_symbols` are tokens of it that `encode` never gives and `decode` leaves out.
        A vocabulary of bytes is the same for every text. Raises `DragomanError` if the text is empty, or the
        vocabulary too small for its characters.
        """
        is_subword, is_byte = kind in ("bpe", "unigram"), kind == "byte"
        if is_byte:  # the only character in the vocabulary is SentencePiece's symbol for a space
            lines, vocabulary = [" "], 10**7
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type="char" if is_byte else kind,
                vocab_size=vocabulary,
                hard_vocab_limit=False,
                use_all_vocab=kind == "char",
                byte_fallback=is_byte or (is_subword and settings.byte_fallback),
                character_coverage=settings.character_coverage if is_subword else 1.0,
                normalization_rule_name=settings.normalization,
                add_dummy_prefix=kind not in ("char", "byte"),
                remove_extra_whitespaces=not is_byte,
                max_sentence_length=2**20,
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=START,
                eos_id=END,
                user_defined_symbols=list(settings.symbols),
                control_symbols=list(control_symbols),
                # An unknown token is a whole word, which a space precedes, or a part of a word.
                unk_surface=f" {UNKNOWN_TEXT}" if kind == "word" else UNKNOWN_TEXT,
                minloglevel=2,
            )
        except (RuntimeError, TypeError) as error:  # a TypeError is of a symbol that is not Unicode
            if needed := re.search(r"required_chars\. (\d+) vs (\d+)", str(error)):
                raise OptionError(
                    f"A vocabulary of {vocabulary} tokens is too small: the text's characters alone need "
                    f"{needed[2]}. Ask for a larger vocabulary, or a lower {{character_coverage}}."
                ) from error
            raise DragomanError(f"SentencePiece cannot make a vocabulary from this text: {error}") from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a saved tokenizer. Raises `DragomanError` with the file's name if it cannot be read."""
        codes = path.with_suffix(CODES_SUFFIX)
        try:
            return cls(
                read_bytes(path, MAX_TOKENIZER),
                read_text(codes, MAX_TOKENS_FILE) if codes.exists() else None,
            )
        except (OSError, UnicodeDecodeError, DragomanError) as error:
            raise DragomanError(f"{path}: {reason(error)}") from error

    def save(self, path: Path) -> None:
        """Write the SentencePiece model, and the codes, if there are any, to a file beside it."""
        path.write_bytes(self.model)
        if self.codes is not None:
            path.with_suffix(CODES_SUFFIX).write_text(self.codes, "utf-8")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and (self.model, self.codes) == (other.model, other.codes)

    def __hash__(self) -> int:
        return hash((self.model, self.codes))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line. A blank line has none, except in bytes, which keep all spaces.

        Raises `DragomanError` for a single string.
        """
        if isinstance(lines, str):
            raise DragomanError("encode takes a list of lines and got one string; put it in a list.")
        segmented = [self._segment(line) for line in lines]
        if self.unknown_is_word:
            # Words are encoded one by one: SentencePiece merges adjacent unknown words into one token.
            return [[token for word in self._encode(line.split(" ")) for token in word] for line in segmented]
        return self._encode(segmented)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text. SentencePiece starts threads for a list; a few texts take less time."""
        if sum(map(len, texts)) <= FEW_CHARACTERS:
            return [self._processor.encode(text) for text in texts]
        return list(self._processor.encode(texts))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids up to the first END. Raises `IndexError` for ids outside the vocabulary."""
        ids = list(ids)
        ids = ids[: ids.index(END)] if END in ids else ids
        tokens = [token for token in ids if token not in (PAD, START)]
        text: str = self._processor.decode(tokens)
        if self.codes is not None:
            text = SEPARATOR.sub("", text)
        return text.removeprefix(" ") if tokens[:1] == [UNKNOWN] else text

    def word_ids(self, line: str) -> list[int]:
        """For each token of a line the number of the word in which it begins, counted from 0.

        Words are those of `str.split` before normalisation. A blank line has none, whatever its tokens are. A
        word that normalisation removes, such as a zero-width space, has no token.
        """
        line = self._segment(line) if line.strip() else ""
        parts = line.split(" ") if self.unknown_is_word else [line]
        return word_ids(self._processor, parts, is_segmented=self.codes is not None)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids, as they are written in the vocabulary."""
        return list(self._processor.id_to_piece(list(ids)))

    def parts(self, pieces: Sequence[str]) -> list[list[int]]:
        """The tokens that pieces of another vocabulary are made of here, by what they stand for in a text.

        A byte of another vocabulary has none.
        """
        texts = ["" if BYTE.fullmatch(piece) else piece.replace(SPACE, " ") for piece in pieces]
        if self.codes is not None:
            return self.encode([text.strip(" ") for text in texts])
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.model + WITHIN_TEXT)
        return [processor.encode(text) for text in texts]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces. Raises `DragomanError` for one that is not in the vocabulary."""
        return piece_ids(self._processor, pieces)

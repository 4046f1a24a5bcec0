"""Settings of the text files, the tokenizer and the batches. This module does not import torch."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.system.errors import DragomanError
from dragoman.system.options import Excludes, check_options, option
from dragoman.text.dataset_names import is_opus, parse_opus
from dragoman.text.language_codes import SIMPLE, UNKNOWN, standard
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.sampling_settings import SubwordSampling

TokenKind = Literal["bpe", "unigram", "char", "word", "byte"]
UNKNOWN_LANGUAGE = UNKNOWN
CONVERTED = {".gz", ".zst", ".tmx", ".tsv", ".jsonl"}  # endings of files that are not lines, or compressed
LANGUAGE_OF_NAME = re.compile(
    r"\.(?!gz$)([a-z]{2,3}(?:[_-][A-Z][a-z]{3})?(?:[_-][A-Z]{2})?)(\.txt)?(\.gz|\.zst)?$"
)
NO_LANGUAGES = {"bak", "run"}
"""Endings of other files that are codes of languages, too."""
LANGUAGE_CODE = re.compile(r"[a-zA-Z]{2,3}(-[a-zA-Z0-9]{2,8})*")


@dataclass(frozen=True)
class Languages:
    """The language that a model reads, and the one that it writes: codes of BCP 47, such as `en`, `pt-BR`.

    They are kept as BCP 47 writes them: `en` for `eng`, `zh-Hans` for `zh_Hans`. Raises `DragomanError` for
    what is no such code.
    """

    source: str = UNKNOWN_LANGUAGE
    target: str = UNKNOWN_LANGUAGE

    def __post_init__(self) -> None:
        for side, code in (("source", self.source), ("target", self.target)):
            if not LANGUAGE_CODE.fullmatch(code.replace("_", "-")):
                raise DragomanError(
                    f"The {side} language is {code!r}; it has to be a language code such as en, de or pt-BR."
                )
            object.__setattr__(self, side, standard(code))  # the class is frozen


@dataclass(frozen=True)
class LanguagePair(Languages):
    """One of several pairs of languages of a model."""

    symbol: str = ""
    """The token that the model reads before a source to translate it into the target language. Text never
    gives this token. It is "" if all pairs have one target language."""

    @property
    def name(self) -> str:
        """The pair as it is written: `en-de`."""
        return f"{self.source}-{self.target}"


def with_symbols(pairs: Iterable[Languages]) -> tuple[LanguagePair, ...]:
    """The pairs of a new model, each once, with symbols if their targets differ; none of a single pair."""
    distinct = list(dict.fromkeys(Languages(pair.source, pair.target) for pair in pairs))
    has_symbols = len({pair.target for pair in distinct}) > 1
    return tuple(
        LanguagePair(pair.source, pair.target, f"<2{pair.target}>" if has_symbols else "")
        for pair in distinct
        if len(distinct) > 1
    )


def common_languages(pairs: Sequence[Languages]) -> Languages:
    """The languages that all pairs have in common; `und` in place of others."""
    source, target = ({getattr(pair, side) for pair in pairs} for side in ("source", "target"))
    return Languages(*(side.pop() if len(side) == 1 else UNKNOWN_LANGUAGE for side in (source, target)))


def language_of_name(name: str) -> str:
    """The language that the end of a file's name says: `en` for `train.en`, `train.eng` and `train.en.gz`,
    `pt-BR` for `train.pt_BR`; else `und`.
    """
    match = LANGUAGE_OF_NAME.search(name)
    if not match or match[1] in NO_LANGUAGES:
        return UNKNOWN_LANGUAGE
    code = standard(match[1])
    return code if SIMPLE.match(code) and code[2:3] in ("", "-") else UNKNOWN_LANGUAGE


def languages_of_name(name: str) -> Languages:
    """The languages that a name says, at its end, as `multi30k-en-de` or `opus-mt-en-de`, or as
    `opus:en-de/Tatoeba`; both or none. Raises `DragomanError` for a wrong name of OPUS.
    """
    if is_opus(name):
        corpus = parse_opus(name)
        return Languages(corpus.source, corpus.target)
    match = re.fullmatch(r"(?:.*-)?([a-z]{2})-([a-z]{2})", name)
    return Languages(*match.groups()) if match else Languages()


@dataclass(frozen=True)
class CorpusFiles:
    """Text files of a parallel corpus: UTF-8, one sentence per line, plain or compressed (.gz, .zst).

    Line n of the target is the translation of line n of the source. A file in .tmx, .tsv or .jsonl has both
    sides; it is given as the source alone.
    """

    source: Path | None = None
    """Training sentences to translate from; or one file that has both sides (.tmx, .tsv, .jsonl)."""
    target: Path | None = None
    """Their translations."""
    valid_source: Path | None = None
    """Validation sentences; without them some training pairs are held out."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences, translated and scored when training has ended."""
    test_target: Path | None = None
    """Their translations."""
    folder: Path | None = None
    """The folder that relative paths of text files start from; None is the current one."""


@dataclass(frozen=True)
class DataSettings(CorpusFiles):
    """The text files, and which of their pairs training leaves out.

    Raises `DragomanError` for a number that is out of bounds.
    """

    corpus: tuple[WeightedCorpus, ...] = ()
    """Several corpora instead of source and target, each a table [[data.corpus]] of a recipe."""
    dataset: tuple[str, ...] | str | None = None
    """A named dataset in place of text files, such as multi30k-en-de (`dragoman train --dataset list` shows
    all), or corpora of OPUS, such as opus:en-de/Tatoeba, also beside text files; found in `folder`, or
    downloaded to it."""
    source_language: str | None = None
    """Code of the source language, such as en or pt-BR; None is what the file's extension says (train.en)."""
    target_language: str | None = None
    """The same for the target."""
    pair_temperature: float | None = option(None, at_least=1, at_most=100)
    """With several pairs of languages: a pair with n training pairs of texts has a share in proportion to
    n^(1/T), with this T. 1 uses each text equally often, more uses those of small pairs more often. None is
    the smallest T with which the share of the largest pair is at most 10 times that of the smallest, at most
    5."""
    guided_alignment: Path | None = None
    """A word alignment of the training text: each line has the links of a pair, such as `0-0 1-2`. Training
    guides the attention of a head by it; `align` and `--keep-tags` then make fewer errors."""
    terms: bool = option(False, Excludes(("guided_alignment",), "both change what the source's tokens are"))
    """Teach the model to use terms that it is given: some sources say the translations of some of their
    words, which are drawn from the training text. With a glossary such a model inflects the terms as the
    sentence needs."""
    longest: int = option(250, at_least=0)
    """Pairs with more tokens than this on a side are left out of training, counted and reported; 0 keeps
    them. If tokens are bytes, the default is 1000."""
    drop_copies: bool = False
    """Leave out pairs whose source equals their target. They are counted and reported in any case."""
    drop_overlap: bool = False
    """Leave out pairs whose source is also in the validation or test files. They are counted and reported in
    any case."""

    def __post_init__(self) -> None:
        check_options(self)
        self.check_languages()

    def check_languages(self) -> None:
        """Raise `DragomanError` for what is no language code."""
        Languages(self.source_language or UNKNOWN_LANGUAGE, self.target_language or UNKNOWN_LANGUAGE)

    @property
    def languages(self) -> Languages:
        """The languages that are given, or those that the endings of the training files or dataset say.

        Of several pairs they are those that all pairs have in common.
        """
        if pairs := self.pairs:
            return common_languages(pairs)
        paths = (self.source, self.target)
        sides = [language_of_name(path.name) if path else UNKNOWN_LANGUAGE for path in paths]
        named = languages_of_name(self.datasets[0]) if self.datasets else Languages(*sides)
        return Languages(self.source_language or named.source, self.target_language or named.target)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of the datasets that are given."""
        return (self.dataset,) if isinstance(self.dataset, str) else self.dataset or ()

    @property
    def pairs(self) -> list[Languages]:
        """The pairs of languages that the corpora name, each once; none if they name no languages."""
        named = [(corpus.source_language, corpus.target_language) for corpus in self.corpus]
        pairs = [Languages(source, target) for source, target in named if source and target]
        return list(dict.fromkeys(pairs))

    @property
    def files(self) -> dict[str, Path]:
        """The paths that are given, by the names of their fields, each joined to `folder`."""
        paths = dict(vars(self))
        folder = paths.pop("folder") or Path()
        return {name: folder / path for name, path in paths.items() if isinstance(path, Path)}

    def needs_conversion(self) -> bool:
        """Whether files of lines are written first: of corpora, compressed files, files with both sides."""
        return bool(self.corpus) or any(path.suffix in CONVERTED for path in self.files.values())

    def weights(self) -> dict[str, float]:
        """The weight of each corpus, by its first line, if the files hold several corpora in succession."""
        return {}

    def tag(self, line: int) -> str:  # noqa: ARG002  those of several corpora need it
        """What is put before the source of a line of the text, counted from 1."""
        return ""

    def pair(self, line: int, text: Literal["train", "valid", "test"] = "train") -> "LanguagePair | None":  # noqa: ARG002
        """Of several pairs of languages, that of a line of a text, counted from 1; else None."""
        return None

    def symbol(self, line: int) -> str:
        """The symbol of the target language of a line of the training text; "" without one."""
        pair = self.pair(line)
        return pair.symbol if pair else ""


@dataclass(frozen=True)
class TokenizerSettings(SubwordSampling):
    """The SentencePiece models, which are trained on the training files only.

    Raises `DragomanError` for a number that is out of bounds.
    """

    source_tokens: TokenKind = "bpe"
    """Pieces of words (bpe, unigram), characters, symbols that spaces already separate (word), or bytes of
    UTF-8 (byte)."""
    target_tokens: TokenKind | None = None
    """The same for the target; None is the same as for the source."""
    vocabulary: int | None = option(None, at_least=5, at_most=10**7)
    """Number of tokens (of each vocabulary, if there are two); None chooses from the size of the corpus. A
    vocabulary of bytes always has the same size."""
    share_vocabulary: bool = True
    """Share one vocabulary between source and target. The paper shares one (section 5.1)."""
    byte_fallback: bool = True
    """Encode characters outside the vocabulary as bytes (bpe and unigram). Without bytes they are unknown."""
    character_coverage: float = option(0.9999, at_least=0.98, at_most=1)
    """The share of the text's characters that get a token of their own."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """Unicode normalisation before tokenising; "identity" keeps every character as it is."""
    symbols: tuple[str, ...] = ()
    """Strings that are always one token, such as <name>. The tags of corpora are added to them."""
    tokenizer_pairs: int = option(1_000_000, at_least=1)
    """Maximum number of pairs to learn the vocabulary from; of a larger corpus, every k-th pair is used."""
    # Set by `distil`: take the tokenizers of this model. Without a docstring the help does not show it.
    of_model: Path | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.bpe_dropout or self.sampling_alpha:
            self.check(self.source_tokens, self.target_tokens)


@dataclass(frozen=True)
class BatchSettings:
    """Sizes of the batches and of an update (section 5.1).

    Raises `DragomanError` for a number that is out of bounds.
    """

    source_tokens_per_batch: int | None = option(None, at_least=1, below=2**31)
    """Maximum number of source tokens in a batch, padding included (the paper's 25,000); None chooses from
    the corpus and the machine."""
    target_tokens_per_batch: int | None = option(None, at_least=1, below=2**31)
    """Maximum number of target tokens in a batch, padding included."""
    accumulate: int = option(1, at_least=1, below=2**31)
    """Batches per update; their gradient is that of one large batch. An update is the same on any number of
    processes."""
    micro_batch_tokens: int | Literal["auto"] | None = option(None, at_least=1)
    """Maximum number of tokens per side that a process computes at once: a larger batch is cut into parts,
    whose gradients are added. "auto" finds what fits into memory; None cuts only if memory has run out."""

    def __post_init__(self) -> None:
        check_options(self)

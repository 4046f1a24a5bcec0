"""To packages of Argos Translate, which LibreTranslate installs too (extra: dragoman[argos]).

    NAME/metadata.json         the languages
    NAME/model/                CTranslate2's folder
    NAME/sentencepiece.model   tokenizes the source, and spells the translation
    NAME/minisbd/rules.onnx    ends of sentences, without which the program would download a model for them
    NAME/README.md

The program has one SentencePiece model for both sides. Where the sides have vocabularies of their own, it is
the source's: pieces that it does not know are spelt as they are.
"""

import json
import re
import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece

from dragoman.interop import ctranslate2, minisbd
from dragoman.interop.verify import ReferenceEngine
from dragoman.model.settings import Precision
from dragoman.model.symbols import END
from dragoman.model.transformer import Transformer
from dragoman.system.errors import DragomanError
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.text.words import SPACE
from dragoman.translation.model_folder import Tokenizers

TOKENIZER = "sentencepiece.model"
VERSION = "1000.0"
"""Higher than those of the programs' own index, with which their updates would replace the package."""
ARGOS_VERSION = "1.11"
BCP_47 = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
VARIANTS = {
    "zh-hans": "zh",
    "zh-cn": "zh",
    "zh-sg": "zh",
    "zh-hant": "zt",
    "zh-tw": "zt",
    "zh-hk": "zt",
    "zh-mo": "zt",
    "pt-br": "pb",
}
"""What is another language there; other codes are cut to their first part."""
NAMES = dict(
    re.findall(
        r"(\w+)=([^;]+)",
        "af=Afrikaans; ar=Arabic; az=Azerbaijani; be=Belarusian; bg=Bulgarian; bn=Bengali; bs=Bosnian; "
        "ca=Catalan; cs=Czech; cy=Welsh; da=Danish; de=German; el=Greek; en=English; eo=Esperanto; "
        "es=Spanish; et=Estonian; eu=Basque; fa=Persian; fi=Finnish; fr=French; ga=Irish; gl=Galician; "
        "gu=Gujarati; he=Hebrew; hi=Hindi; hr=Croatian; hu=Hungarian; hy=Armenian; id=Indonesian; "
        "is=Icelandic; it=Italian; ja=Japanese; ka=Georgian; kk=Kazakh; km=Khmer; kn=Kannada; ko=Korean; "
        "ky=Kyrgyz; la=Latin; lt=Lithuanian; lv=Latvian; mk=Macedonian; ml=Malayalam; mn=Mongolian; "
        "mr=Marathi; ms=Malay; mt=Maltese; nb=Norwegian; ne=Nepali; nl=Dutch; nn=Nynorsk; no=Norwegian; "
        "pa=Punjabi; pb=Brazilian Portuguese; pl=Polish; ps=Pashto; pt=Portuguese; ro=Romanian; "
        "ru=Russian; sk=Slovak; sl=Slovenian; so=Somali; sq=Albanian; sr=Serbian; sv=Swedish; "
        "sw=Swahili; ta=Tamil; te=Telugu; th=Thai; tl=Tagalog; tr=Turkish; uk=Ukrainian; ur=Urdu; "
        "uz=Uzbek; vi=Vietnamese; yo=Yoruba; zh=Chinese; zt=Chinese (traditional); zu=Zulu",
    )
)


@dataclass(frozen=True)
class ArgosLanguages:
    """The codes that the program has for the languages of a model."""

    source: str
    target: str

    @classmethod
    def of(cls, source: str, target: str) -> "ArgosLanguages":
        """The languages of two BCP 47 codes. Raises `DragomanError` for unknown and for invalid codes."""
        return cls(argos_code("source", source), argos_code("target", target))

    @property
    def package(self) -> str:
        """The name of the package, and of its folder."""
        return f"translate-{self.source}_{self.target}-dragoman"

    @property
    def names(self) -> tuple[str, str]:
        """Both names in English; for a language whose name is not known here, its code."""
        return NAMES.get(self.source, self.source), NAMES.get(self.target, self.target)


def argos_code(side: str, code: str) -> str:
    """The program's code of a language. Raises `DragomanError` if it is unknown or invalid."""
    if code == UNKNOWN_LANGUAGE:
        raise DragomanError(
            f"Argos Translate has to know the {side} language; give --{side}-language with its code (en, de, "
            "pt-BR, …)."
        )
    if not BCP_47.fullmatch(code):
        raise DragomanError(f"--{side}-language is {code!r}; it has to be a code such as en, de or pt-BR.")
    parts = code.lower().split("-")
    prefixes = ("-".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((VARIANTS[prefix] for prefix in prefixes if prefix in VARIANTS), parts[0])


def write(
    model: Transformer, tokenizers: Tokenizers, folder: Path, languages: ArgosLanguages, precision: Precision
) -> None:
    """Fill a folder with the package's folder.

    Raises `DragomanError` if the program cannot hold the model or its vocabularies.
    """
    refuse_other_than_subwords(tokenizers)
    refuse_other_spelling(tokenizers)
    package = folder / languages.package
    (package / "model").mkdir(parents=True, exist_ok=True)
    (package / "minisbd").mkdir(exist_ok=True)
    ctranslate2.write_model(model, tokenizers, package / "model", precision)
    minisbd.write(package / "minisbd" / "rules.onnx")
    (package / TOKENIZER).write_bytes(tokenizers.source.model)
    source, target = languages.names
    metadata = {
        "package_version": VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": languages.source,
        "from_name": source,
        "to_code": languages.target,
        "to_name": target,
        "links": [],
        "type": "translate",
        "target_prefix": "",
    }
    (package / "metadata.json").write_text(json.dumps(metadata, indent=4) + "\n")
    (package / "README.md").write_text(
        f"# {source} to {target}\n\nA Transformer that was trained and exported by Dragoman.\n", "utf-8"
    )


def refuse_other_than_subwords(tokenizers: Tokenizers) -> None:
    """Raise `DragomanError` for vocabularies of words, characters or bytes.

    Adjacent unknown words would become one, and sentences of characters would be joined without a space.
    """
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        pieces = tokenizer.pieces(range(END + 1, len(tokenizer)))
        begin_words = any(piece.startswith(SPACE) for piece in pieces if piece != SPACE)
        letters = "characters" if any(len(piece) == 1 and piece != SPACE for piece in pieces) else "bytes"
        kind = "words" if tokenizer.unknown_is_word else None if begin_words else letters
        if kind:
            raise DragomanError(
                f"Argos Translate reads and writes subwords, and this model's {side} vocabulary is of "
                f"{kind}; train a model with --{side}-tokens bpe or unigram."
            )


def refuse_other_spelling(tokenizers: Tokenizers) -> None:
    """Raise `DragomanError` if the source's SentencePiece model spells a token of the target otherwise."""
    target = tokenizers.target
    speller = sentencepiece.SentencePieceProcessor(model_proto=tokenizers.source.model)
    for token, piece in enumerate(target.pieces(range(END + 1, len(target))), END + 1):
        spelling, expected = spell(speller, [piece]), target.decode([token])
        if spelling.strip() != expected.strip():
            raise DragomanError(
                "Argos Translate spells translations with the SentencePiece model of the source, where the "
                f"target's token {piece!r} is {spelling!r} and not {expected!r}; train a model whose sides "
                "share a vocabulary."
            )


def spell(speller: sentencepiece.SentencePieceProcessor, pieces: list[str]) -> str:
    """The text of pieces as the program spells it, but for underscores, which it replaces by spaces."""
    text: str = speller.decode_pieces(pieces)
    return text.replace(SPACE, " ").removeprefix(" ")


def engine(
    folder: Path, model: Transformer, tokenizers: Tokenizers, languages: ArgosLanguages, precision: Precision
) -> ReferenceEngine:
    """What the program does with the package in a folder."""
    package = folder / languages.package
    file = f"../{TOKENIZER}"
    base_engine = ctranslate2.engine(package / "model", model, tokenizers, precision, (file, file))
    speller = sentencepiece.SentencePieceProcessor(model_file=str(package / TOKENIZER))
    return replace(
        base_engine, name="Argos Translate", decode=lambda ids: spell(speller, tokenizers.target.pieces(ids))
    )


def pack(folder: Path, path: Path) -> None:
    """Write the zip archive of a folder with a package; the same bytes for the same files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(content, packed)

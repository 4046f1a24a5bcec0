"""Export: a model in another engine's format, which is compared with ours before it appears."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from dragoman.interop.verify import ReferenceEngine, samples, verify
from dragoman.interop.vocabulary import Vocabulary
from dragoman.model.transformer import Transformer
from dragoman.system.arguments import argument
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import atomic_write
from dragoman.system.new_folder import exists_already, refuse_existing, refuse_taken, write_new_folder
from dragoman.system.wording import counted
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import StoredModel, torch_model
from dragoman.translation.texts import list_of_texts

logger = logging.getLogger(__name__)
ExportFormat = Literal["huggingface", "marian", "ctranslate2", "onnx", "argos", "web"]
WeightType = Literal["float32", "int8"]
CONTENTS: dict[ExportFormat, str] = {
    "huggingface": "a model of transformers",
    "marian": "a model of Marian",
    "ctranslate2": "a CTranslate2 model",
    "onnx": "two ONNX graphs, the encoder and a step of the decoder,",
    "argos": "a package of Argos Translate",
    "web": "a page that translates in the browser",
}
READERS: dict[ExportFormat, str] = {
    "huggingface": "transformers.AutoModelForSeq2SeqLM.from_pretrained",
    "marian": "marian-decoder -c decoder.yml",
    "ctranslate2": "ctranslate2.Translator",
    "onnx": "onnxruntime.InferenceSession",
    "argos": "argostranslate.package.install_from_path, and so LibreTranslate",
    "web": "a browser, from any server of files, such as python -m http.server",
}
Format = tuple[Callable[[Path], None], Callable[[Path], ReferenceEngine]]


def export(
    run: Path,
    to: ExportFormat,
    out: Path,
    *,
    precision: WeightType = "float32",
    sentences: Sequence[str] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Write the model of a run's folder to a new folder `out`; for argos, to a file.

    int8 is for ctranslate2 and argos. Both engines translate `sentences`; None is a few of random tokens. The
    languages are for argos; None is what the run says. The page for web, always in int8, is not compared: no
    browser runs here.

    Raises `DragomanError` if the engines differ, if the format cannot hold the model, if an extra is missing,
    and if there is something at `out`. Nothing is written then.
    """
    out = out.absolute()
    check_export(to, out, precision)
    stored = StoredModel.load(run)
    if any(pair.symbol for pair in stored.pairs):
        targets = ", ".join(dict.fromkeys(pair.target for pair in stored.pairs))
        raise DragomanError(
            f"{run} translates into several languages ({targets}) by symbols before its sources, and none "
            "of these formats adds them."
        )
    model, tokenizers = torch_model(stored), stored.tokenizers
    if not isinstance(model, Transformer):
        raise DragomanError(
            f"{run} holds no Transformer but the architecture {stored.settings.architecture}, which none of "
            "these formats has."
        )
    variants = [name for name in stored.settings.variants if (to, name) != ("marian", "decoder_mixer")]
    if variants:
        raise DragomanError(
            f"{run} holds a variant of the Transformer ({', '.join(variants)}), which none of these formats "
            "can hold."
        )
    if to == "web":
        from dragoman.interop import web

        write_new_folder(out, lambda folder: web.write(stored, folder))
        logger.info(f"{out} can be read by: {READERS[to]}")
        return
    model.eval()
    sentences = samples(tokenizers, model.longest_source) if sentences is None else list_of_texts(sentences)
    count = counted(len(sentences), "sentence")
    formats = formats_of(to, precision, model, stored, (source_language, target_language))
    differences = []

    def write(folder: Path) -> None:
        for number_type, (write_format, open_engine) in zip(("float32", "int8"), formats, strict=False):
            logger.info(f"Writing {CONTENTS[to]} in {number_type}.")
            try:
                write_format(folder)
                engine = open_engine(folder)
                compared = " and log-probabilities"
                if not engine.quantized:
                    compared = ", log-probabilities and greedy translations"
                logger.info(f"Comparing tokens{compared} of {count} in {engine.name} and here.")
                differences.append(verify(engine, model, tokenizers, sentences))
            except OptionError as error:
                sentence = f"{error.sentence} Nothing was written to {{folder}}."
                raise OptionError(sentence, **error.values, folder=out) from error
            except DragomanError as error:
                raise DragomanError(f"{error} Nothing was written to {out}.") from error

    if to == "argos":
        write_package(out, write)
    else:
        write_new_folder(out, write)
    logger.info(
        f"{out}: for {count} the log-probabilities there and here differ by {differences[-1]:.1g} nats at "
        "most."
    )
    logger.info(f"{out} can be read by: {READERS[to]}")


def check_export(to: str, out: Path, precision: WeightType) -> None:
    """Raise `DragomanError` for a format that is none, and if it cannot be written to this absolute path.

    Raises `UnicodeEncodeError` for an `out` that is not UTF-8: engines open no other names.
    """
    argument("to", to, ExportFormat)
    argument("precision", precision, WeightType)
    if precision == "int8" and to not in {"ctranslate2", "argos", "web"}:
        raise DragomanError(f"int8 is for ctranslate2 and argos; {to} has float32.")
    refuse_taken(out)
    if to == "argos" and not (out.suffix == ".argosmodel" and out.stem):
        raise OptionError("{out} is {path}; for {to} argos it is a name that ends in .argosmodel.", path=out)
    if to == "argos" and out.exists():  # a package is a file
        raise exists_already(out)
    str(out).encode()


def formats_of(
    to: ExportFormat,
    precision: WeightType,
    model: Transformer,
    stored: StoredModel,
    languages: tuple[str | None, str | None],
) -> list[Format]:
    """Functions that write the folder, each with one that opens the engine for it.

    Raises `DragomanError` if an extra is missing, or a language that the format asks for.
    """
    tokenizers, known = stored.tokenizers, stored.languages
    try:
        if to == "huggingface":
            from dragoman.interop import huggingface

            ids = [range(len(side)) for side in (tokenizers.source, tokenizers.target)]
            return [
                (
                    lambda folder: huggingface.write(
                        model, tokenizers, folder, stored.longest_trained, known
                    ),
                    lambda folder: huggingface.engine(folder, *ids),
                )
            ]
        if to == "marian":
            import pymarian  # noqa: F401  which the comparison needs

            from dragoman.interop import marian

            vocabularies = (same_ids(tokenizers.source), same_ids(tokenizers.target))
            return [
                (
                    lambda folder: marian.write(model, tokenizers, folder),
                    lambda folder: marian.engine(folder, vocabularies),
                )
            ]
        if to == "onnx":
            from dragoman.interop import onnx

            return [(lambda folder: onnx.write(model, tokenizers, folder), onnx.engine)]
        if to == "argos":
            from dragoman.interop import argos

            codes = argos.ArgosLanguages.of(languages[0] or known.source, languages[1] or known.target)
        from dragoman.interop import ctranslate2
    except ImportError as error:
        raise OptionError(
            "{to} {format} needs {module}, which is not installed: pip install 'dragoman[{format}]'.",
            format=to,
            module=error.name,
        ) from error

    def ctranslate2_format(number_type: WeightType) -> Format:
        if to == "argos":
            return (
                lambda folder: argos.write(model, tokenizers, folder, codes, number_type),
                lambda folder: argos.engine(folder, model, tokenizers, codes, number_type),
            )
        return (
            lambda folder: ctranslate2.write(model, tokenizers, folder, number_type),
            lambda folder: ctranslate2.engine(folder, model, tokenizers, number_type),
        )

    float32 = ctranslate2_format("float32")  # int8 is checked after float32, where differences must be tiny
    return [float32, ctranslate2_format("int8")] if precision == "int8" else [float32]


def same_ids(tokenizer: Tokenizer) -> Vocabulary:
    """The vocabulary of a format that has our order of ids."""
    ids = range(len(tokenizer))
    return Vocabulary(tokenizer.pieces(ids), list(ids))


def write_package(out: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder, and pack it to the file atomically."""
    from dragoman.interop import argos

    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.stem[:100]}.") as folder:
        write(Path(folder))
        refuse_existing(out)  # another process may have written it
        with atomic_write(out) as file:
            argos.pack(Path(folder), file)

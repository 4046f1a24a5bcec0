"""`dragoman export`: a model in another engine's format, which is compared with ours before it is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.interop.verify import Engine
    from dragoman.model.transformer import Transformer
    from dragoman.translation.model_folder import Tokenizers


@dataclass(frozen=True)
class Export:
    """Write a model in another engine's format, unless its log-probabilities differ there."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    to: Literal["huggingface", "ctranslate2", "onnx"]
    """The format: transformers' MarianMTModel, CTranslate2's, or two ONNX graphs."""
    out: Path
    """The folder to write."""
    precision: Literal["float32", "int8"] = "float32"
    """Of the weights; int8 is for CTranslate2 alone."""
    samples: Path | None = None
    """Sentences to compare with, one a line. None is a few of the model's own vocabulary."""


def export(given: Given) -> None:
    """Write a model in another engine's format."""
    asked = settings_from(Export, given)
    if asked.precision != "float32" and asked.to != "ctranslate2":
        raise DragomanError(
            f"--precision {asked.precision} is for --to ctranslate2; --to {asked.to} writes float32."
        )
    asked = replace(asked, out=asked.out.absolute())
    refuse_existing(asked.out)
    from dragoman.interop.verify import samples, verify
    from dragoman.model.transformer import Transformer
    from dragoman.system.files import write_folder
    from dragoman.translation.model_folder import load_model

    model, tokenizers, _ = load_model(asked.run)
    if not isinstance(model, Transformer):
        raise DragomanError(
            f"{asked.run} holds no Transformer but a recurrent network, which none of these formats can hold."
        )
    model.eval()
    sentences = (
        sample_sentences(asked.samples) if asked.samples else samples(tokenizers, model.longest_source)
    )
    formats = formats_of(asked, model, tokenizers)
    differences = []

    def write(folder: Path) -> None:
        for write_format, engine in formats:
            write_format(folder)
            try:
                differences.append(verify(engine(folder), model, tokenizers, sentences))
            except DragomanError as error:
                raise DragomanError(f"{error} Nothing was written to {asked.out}.") from error

    write_folder(asked.out, write)
    say(
        f"{asked.out}: for {len(sentences)} sentences the log-probabilities there and here differ by "
        f"{differences[-1]:.1g} nats at most."
    )
    say(f"{asked.out} can be read by: {READERS[asked.to]}")


READERS = {
    "huggingface": "transformers.MarianMTModel.from_pretrained",
    "ctranslate2": "ctranslate2.Translator",
    "onnx": "onnxruntime.InferenceSession",
}
Format = tuple[Callable[[Path], None], Callable[[Path], "Engine"]]


def formats_of(asked: Export, model: "Transformer", tokenizers: "Tokenizers") -> list[Format]:
    """Functions that write the folder, each with one that opens the engine for it.

    Raises `DragomanError` if an extra is missing.
    """
    try:
        if asked.to == "huggingface":
            from dragoman.interop import huggingface

            ids = [range(len(side)) for side in (tokenizers.source, tokenizers.target)]
            return [
                (
                    lambda folder: huggingface.write(model, tokenizers, folder),
                    lambda folder: huggingface.engine(folder, *ids),
                )
            ]
        if asked.to == "onnx":
            from dragoman.interop import onnx

            return [(lambda folder: onnx.write(model, tokenizers, folder), onnx.engine)]
        from dragoman.interop import ctranslate2
    except ImportError as error:
        raise DragomanError(
            f"{error.name} is not installed, which writes or checks it; pip install 'dragoman[{asked.to}]'."
        ) from error

    def ctranslate2_format(precision: Literal["float32", "int8"]) -> Format:
        return (
            lambda folder: ctranslate2.write(model, tokenizers, folder, precision),
            lambda folder: ctranslate2.engine(folder, model, tokenizers, precision),
        )

    float32 = ctranslate2_format("float32")  # int8 is checked after float32, where differences must be tiny
    return [float32, ctranslate2_format("int8")] if asked.precision == "int8" else [float32]


def refuse_existing(out: Path) -> None:
    """Raise `DragomanError` if there is something already."""
    temporary = (out.with_name(f"{out.name}.old"), out.with_name(f"{out.name}.new"))  # made while writing
    for path in (out, *temporary):
        if path.exists() and not (path == out and out.is_dir() and not any(out.iterdir())):
            raise DragomanError(f"{path} exists already; choose another --out, or delete it.")


def sample_sentences(path: Path) -> list[str]:
    """The lines of a file that are not blank. Raises `DragomanError` if there is none."""
    from dragoman.text.lines import read_lines

    sentences = [line for line in read_lines(path) if line.strip()]
    if not sentences:
        raise DragomanError(f"{path} has no sentence to compare with.")
    return sentences


COMMAND = Command(
    "export",
    "Write a model for Hugging Face, CTranslate2 or ONNX.",
    export,
    Export,
    example="dragoman export runs/ende --to ctranslate2 --out ende.ct2",
    arguments="RUN --to FORMAT -o DIR",
    groups={"options": ("run", "to", "out", "precision", "samples")},
    metavars={"run": "RUN", "out": "DIR"},
)

"""The verbs that hand models over to other engines, and take theirs.

What leaves is compared with the other engine first; so is what arrives from Hugging Face.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from dragoman.cli.console import parse, say
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.interop.verify import Engine
    from dragoman.interop.weights import Imported
    from dragoman.model.transformer import Transformer
    from dragoman.translation.model_folder import Tokenizers

Leaving = Literal["huggingface", "ctranslate2", "onnx"]
Arriving = Literal["huggingface", "fairseq", "opennmt-py", "joeynmt"]


@dataclass(frozen=True)
class Export:
    """Write a model in another engine's format, and compare what both do with sample sentences. Where they differ nothing is written."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    to: Leaving
    """The format: transformers' MarianMTModel, CTranslate2's, or two ONNX graphs."""
    out: Path
    """The folder to write."""
    precision: Literal["float32", "int8"] = "float32"
    """Of the weights; int8 is for CTranslate2 alone."""
    samples: Path | None = None
    """Sentences to compare with, one a line; None is a few of the model's own vocabulary."""


@dataclass(frozen=True)
class Import:
    """Read a model of another toolkit, and compare what both do with sample sentences, where it is Hugging Face's and installed."""

    model: tyro.conf.Positional[Path]
    """Its folder or checkpoint."""
    origin: Annotated[Arriving, tyro.conf.arg(name="from")]
    """The toolkit that it comes from."""
    out: Path
    """The folder to write, as a run's: `dragoman translate` reads it."""
    samples: Path | None = None
    """Sentences to compare with, one a line; None is a few of the model's own vocabulary."""


def export_model(arguments: Sequence[str]) -> None:
    """Hand a model over to Hugging Face, CTranslate2 or ONNX."""
    asked = parse(Export, "export", arguments)
    if asked.precision != "float32" and asked.to != "ctranslate2":
        raise DragomanError(f"--precision {asked.precision} is for --to ctranslate2; --to {asked.to} writes float32.")
    asked = replace(asked, out=asked.out.absolute())
    refuse_existing(asked.out)
    from dragoman.interop.verify import samples, verify
    from dragoman.model.transformer import Transformer
    from dragoman.system.files import write_folder
    from dragoman.translation.model_folder import load_model

    model, tokenizers, _ = load_model(asked.run)
    if not isinstance(model, Transformer):
        raise DragomanError(f"{asked.run} holds no Transformer but a recurrent network, which none of these formats can hold.")
    model.eval()
    sentences = lines_of(asked.samples) if asked.samples else samples(tokenizers, model.longest_source)
    ways = ways_out(asked, model, tokenizers)
    apart = []

    def write(folder: Path) -> None:
        for fill, engine in ways:
            fill(folder)
            try:
                apart.append(verify(engine(folder), model, tokenizers, sentences))
            except DragomanError as error:
                raise DragomanError(f"{error} Nothing was written to {asked.out}.") from error

    write_folder(asked.out, write)
    say(f"{asked.out}: for {len(sentences)} sentences the log-probabilities there and here differ by {apart[-1]:.1g} nats at most.")


Way = tuple[Callable[[Path], None], Callable[[Path], "Engine"]]


def ways_out(asked: Export, model: "Transformer", tokenizers: "Tokenizers") -> list[Way]:
    """What fills the folder, and the engine that reads it: one after the other. Raises `DragomanError` where an extra is missing."""
    try:
        if asked.to == "huggingface":
            from dragoman.interop import huggingface

            ids = [range(len(side)) for side in (tokenizers.source, tokenizers.target)]
            return [(lambda folder: huggingface.write(model, tokenizers, folder), lambda folder: huggingface.engine(folder, *ids))]
        if asked.to == "onnx":
            from dragoman.interop import onnx

            return [(lambda folder: onnx.write(model, tokenizers, folder), onnx.engine)]
        from dragoman.interop import ctranslate2
    except ImportError as error:
        raise DragomanError(f"{error.name} is not installed, which writes or checks it; pip install 'dragoman[{asked.to}]'.") from error

    def way(precision: Literal["float32", "int8"]) -> Way:
        return (
            lambda folder: ctranslate2.write(model, tokenizers, folder, precision),
            lambda folder: ctranslate2.engine(folder, model, tokenizers, precision),
        )

    return [way("float32"), way("int8")] if asked.precision == "int8" else [way("float32")]  # what is rounded must be right before


def import_model(arguments: Sequence[str]) -> None:
    """Take a model from Hugging Face, fairseq, OpenNMT-py or JoeyNMT."""
    asked = parse(Import, "import", arguments)
    asked = replace(asked, out=asked.out.absolute())
    refuse_existing(asked.out)
    if not asked.model.exists():
        raise DragomanError(f"There is no {asked.model}.")
    from dragoman.interop.verify import samples, verify
    from dragoman.translation.model_folder import save_model

    imported = read_model(asked)
    model, tokenizers = imported.model, imported.tokenizers
    if asked.origin == "huggingface" and find_spec("transformers") is not None:
        from dragoman.interop.huggingface import engine

        sentences = lines_of(asked.samples) if asked.samples else samples(tokenizers, model.longest_source)
        apart = verify(engine(asked.model, *(vocabulary.rows for vocabulary in imported.vocabularies)), model, tokenizers, sentences)
        say(f"For {len(sentences)} sentences the log-probabilities there and here differ by {apart:.1g} nats at most.")
    elif asked.origin == "huggingface":
        if asked.samples:
            raise DragomanError("--samples needs the other engine: pip install 'dragoman[huggingface]'")
        say("transformers is not here to compare with (pip install 'dragoman[huggingface]'); the names and shapes of all tensors fit.")
    else:
        if asked.samples:
            raise DragomanError(f"--samples is for a comparison with Hugging Face's engine; with {asked.origin} there is none.")
        say(f"The names and shapes of all tensors fit; there is no comparison with {asked.origin} itself.")
    save_model(asked.out / "model", model, model.settings, tokenizers)
    say(f"{asked.out} holds the model; translate with: dragoman translate {asked.out}")


def read_model(asked: Import) -> "Imported":
    """The foreign model. Raises `DragomanError` for what cannot be read, and where an extra is missing."""
    try:
        if asked.origin == "huggingface":
            from dragoman.interop import huggingface

            return huggingface.read(asked.model)
        if asked.origin == "fairseq":
            from dragoman.interop import fairseq

            return fairseq.read(asked.model)
        if asked.origin == "opennmt-py":
            from dragoman.interop import opennmt_py

            return opennmt_py.read(asked.model)
        from dragoman.interop import joeynmt

        return joeynmt.read(asked.model)
    except DragomanError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:  # settings of another kind than theirs are, in any place
        raise DragomanError(f"{asked.model} has settings or files that are not as {asked.origin} writes them ({error}).") from error


def refuse_existing(out: Path) -> None:
    """Raise `DragomanError` where there is something already."""
    for path in (out, out.with_name(f"{out.name}.old"), out.with_name(f"{out.name}.new")):  # the last two are made while writing
        if path.exists() and not (path == out and out.is_dir() and not any(out.iterdir())):
            raise DragomanError(f"{path} is there already; choose another --out, or take it away.")


def lines_of(path: Path) -> list[str]:
    """The lines of a file that are not blank. Raises `DragomanError` where there is none."""
    from dragoman.text.lines import read_lines

    found = [line for line in read_lines(path, strip_carriage_returns=True) if line.strip()]
    if not found:
        raise DragomanError(f"{path} has no sentence to compare with.")
    return found

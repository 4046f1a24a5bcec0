"""`dragoman export`: a model in another engine's format, which is compared with ours before it is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import MANIFEST, atomic_write
from dragoman.system.options import OnlyWith, check_options, option
from dragoman.system.wording import counted

if TYPE_CHECKING:
    from dragoman.interop.verify import ReferenceEngine
    from dragoman.model.transformer import Transformer
    from dragoman.translation.model_folder import StoredModel, Tokenizers


@dataclass(frozen=True)
class Export:
    """Write a model in another engine's format, after a check that both engines agree."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    to: Literal["huggingface", "ctranslate2", "onnx", "argos", "adapter"]
    """The format: MarianMTModel of transformers, CTranslate2, two ONNX graphs, a package for Argos Translate
    and LibreTranslate, or the adapter of a run with --lora-rank."""
    out: Path
    """The folder to write (for argos a file whose name ends in .argosmodel)."""
    precision: Literal["float32", "int8"] = option("float32", OnlyWith("to", ("ctranslate2", "argos")))
    """Number type of the weights; int8 is only for CTranslate2 and Argos Translate."""
    samples: Path | None = option(None, OnlyWith("to", ("huggingface", "ctranslate2", "onnx", "argos")))
    """Sentences to compare with, one per line. None is a few sentences of random tokens."""
    source_language: str | None = option(None, OnlyWith("to", ("argos",)))
    """For argos: the code of the source language, such as en or pt-BR; None is what the run says."""
    target_language: str | None = option(None, OnlyWith("to", ("argos",)))
    """The same for the target."""
    base: Path | None = option(None, OnlyWith("to", ("adapter",)))
    """For adapter: the model that was adapted; None is the run's initial model."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.to == "argos" and not (self.out.suffix == ".argosmodel" and self.out.stem):
            raise OptionError(
                "{out} is {path}; for {to} argos it is a name that ends in .argosmodel.", path=self.out
            )


def export(arguments: Arguments) -> None:
    """Write a model in another engine's format.

    Raises `DragomanError` for whatever the user can correct, and `UnicodeEncodeError` for an `out` that is
    not UTF-8.
    """
    settings = settings_from(Export, arguments)
    settings = replace(settings, out=settings.out.absolute())
    refuse_taken(settings.out)
    if settings.to == "argos" and settings.out.exists():  # a package is a file
        raise exists_already(settings.out)
    str(settings.out).encode()  # UnicodeEncodeError: engines open only names in UTF-8
    if settings.to == "adapter":
        from dragoman.cli.adapter import export_adapter

        export_adapter(settings.run, settings.base, settings.out)
        return
    from dragoman.interop.verify import verify
    from dragoman.model.transformer import Transformer
    from dragoman.system.new_folder import write_new_folder
    from dragoman.translation.model_folder import StoredModel, torch_model

    stored = StoredModel.load(settings.run)
    model, tokenizers = torch_model(stored), stored.tokenizers
    if not isinstance(model, Transformer):
        raise DragomanError(
            f"{settings.run} holds no Transformer but the architecture {stored.settings.architecture}, which "
            "none of these formats has."
        )
    if variants := stored.settings.variants:
        raise DragomanError(
            f"{settings.run} holds a variant of the Transformer ({', '.join(variants)}), which none of these "
            "formats can hold."
        )
    model.eval()
    sentences = sample_sentences(settings.samples, tokenizers, model.longest_source)
    count = counted(len(sentences), "sentence")
    formats = formats_of(settings, model, stored)
    differences = []

    def write(folder: Path) -> None:
        for precision, (write_format, open_engine) in zip(("float32", "int8"), formats, strict=False):
            say(f"Writing {CONTENTS[settings.to]} in {precision}.")
            try:
                write_format(folder)
                engine = open_engine(folder)
                compared = " and log-probabilities"
                if not engine.quantized:
                    compared = ", log-probabilities and greedy translations"
                say(f"Comparing tokens{compared} of {count} in {engine.name} and here.")
                differences.append(verify(engine, model, tokenizers, sentences))
            except DragomanError as error:
                raise DragomanError(f"{error} Nothing was written to {settings.out}.") from error

    if settings.to == "argos":
        write_package(settings.out, write)
    else:
        write_new_folder(settings.out, write)
    say(
        f"{settings.out}: for {count} the log-probabilities there and here differ by "
        f"{differences[-1]:.1g} nats at most."
    )
    say(f"{settings.out} can be read by: {READERS[settings.to]}")


CONTENTS = {
    "huggingface": "a MarianMTModel",
    "ctranslate2": "a CTranslate2 model",
    "onnx": "two ONNX graphs, the encoder and a step of the decoder,",
    "argos": "a package of Argos Translate",
}
READERS = {
    "huggingface": "transformers.MarianMTModel.from_pretrained",
    "ctranslate2": "ctranslate2.Translator",
    "onnx": "onnxruntime.InferenceSession",
    "argos": "argostranslate.package.install_from_path, and so LibreTranslate",
}
Format = tuple[Callable[[Path], None], Callable[[Path], "ReferenceEngine"]]


def formats_of(settings: Export, model: "Transformer", stored: "StoredModel") -> list[Format]:
    """Functions that write the folder, each with one that opens the engine for it.

    Raises `DragomanError` if an extra is missing, or a language that the format asks for.
    """
    tokenizers, known = stored.tokenizers, stored.languages
    try:
        if settings.to == "huggingface":
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
        if settings.to == "onnx":
            from dragoman.interop import onnx

            return [(lambda folder: onnx.write(model, tokenizers, folder), onnx.engine)]
        if settings.to == "argos":
            from dragoman.interop import argos

            languages = argos.ArgosLanguages.of(
                settings.source_language or known.source, settings.target_language or known.target
            )
        from dragoman.interop import ctranslate2
    except ImportError as error:
        raise DragomanError(
            f"--to {settings.to} needs {error.name}, which is not installed: "
            f"pip install 'dragoman[{settings.to}]'."
        ) from error

    def ctranslate2_format(precision: Literal["float32", "int8"]) -> Format:
        if settings.to == "argos":
            return (
                lambda folder: argos.write(model, tokenizers, folder, languages, precision),
                lambda folder: argos.engine(folder, model, tokenizers, languages, precision),
            )
        return (
            lambda folder: ctranslate2.write(model, tokenizers, folder, precision),
            lambda folder: ctranslate2.engine(folder, model, tokenizers, precision),
        )

    float32 = ctranslate2_format("float32")  # int8 is checked after float32, where differences must be tiny
    return [float32, ctranslate2_format("int8")] if settings.precision == "int8" else [float32]


def write_package(out: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder, and pack it to the file atomically."""
    from dragoman.interop import argos

    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.stem[:100]}.") as folder:
        write(Path(folder))
        refuse_existing(out)  # another process may have written it
        with atomic_write(out) as file:
            argos.pack(Path(folder), file)


def refuse_existing(out: Path) -> None:
    """Raise `DragomanError` if there is something already."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise exists_already(out)


def exists_already(out: Path) -> DragomanError:
    """The error of an output that would replace something."""
    return DragomanError(f"{out} exists already; choose another --out, or delete it.")


def refuse_taken(out: Path) -> None:
    """Raise `DragomanError` if there is something, even a link to nothing, and in the folder of a model."""
    if out == Path.cwd():
        raise DragomanError(f"--out is the current folder, {out}; give a new one.")
    refuse_existing(out)
    if out.is_symlink():
        raise exists_already(out)
    for folder in out.parents:
        if (folder / MANIFEST).exists() and (folder / "model.toml").exists():
            raise DragomanError(f"{out} is in the folder of the model {folder}; choose another --out.")


def sample_sentences(path: Path | None, tokenizers: "Tokenizers", longest: int | None) -> list[str]:
    """The lines of a file that are not blank; without one, sentences of random tokens.

    Raises `DragomanError` if all lines are blank.
    """
    from dragoman.interop.verify import samples
    from dragoman.text.lines import read_lines

    if path is None:
        return samples(tokenizers, longest)
    sentences = [line for line in read_lines(path) if line.strip()]
    if not sentences:
        raise DragomanError(f"{path} has no sentence to compare with.")
    return sentences


COMMAND = Command(
    "export",
    "Write a model for Hugging Face, CTranslate2, ONNX or Argos Translate.",
    export,
    Export,
    example="dragoman export runs/ende --to ctranslate2 --out ende.ct2",
    arguments="RUN --to FORMAT -o PATH",
    groups={
        "options": ("run", "to", "out", "precision", "samples", "source_language", "target_language", "base")
    },
    metavars={"run": "RUN", "out": "PATH", "base": "RUN"},
)

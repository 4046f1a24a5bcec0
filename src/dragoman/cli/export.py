"""`dragoman export`: a model in another engine's format, which is compared with ours before it is written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.new_folder import refuse_taken
from dragoman.system.options import OnlyWith, check_options, option


@dataclass(frozen=True)
class Export:
    """Write a model in another engine's format, after a check that both engines agree."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    to: Literal["huggingface", "marian", "ctranslate2", "onnx", "argos", "web", "adapter"]
    """The format: a model of transformers, Marian's own files, CTranslate2, two ONNX graphs, a package for
    Argos Translate and LibreTranslate, a page that translates in the browser, or the adapter of a run with
    --lora-rank."""
    out: Path
    """The folder to write (for argos a file whose name ends in .argosmodel)."""
    precision: Literal["float32", "int8"] = option("float32", OnlyWith("to", ("ctranslate2", "argos")))
    """Number type of the weights; int8 is only for CTranslate2 and Argos Translate."""
    samples: Path | None = option(
        None, OnlyWith("to", ("huggingface", "marian", "ctranslate2", "onnx", "argos"))
    )
    """Sentences to compare with, one per line. None is a few sentences of random tokens."""
    source_language: str | None = option(None, OnlyWith("to", ("argos",)))
    """For argos: the code of the source language, such as en or pt-BR; None is what the run says."""
    target_language: str | None = option(None, OnlyWith("to", ("argos",)))
    """The same for the target."""
    base: Path | None = option(None, OnlyWith("to", ("adapter",)))
    """For adapter: the model that was adapted; None is the run's initial model."""

    def __post_init__(self) -> None:
        check_options(self)


def export(arguments: Arguments) -> None:
    """Write a model in another engine's format.

    Raises `DragomanError` for whatever the user can correct, and `UnicodeEncodeError` for an `out` that is
    not UTF-8.
    """
    settings = settings_from(Export, arguments)
    if settings.to == "adapter":
        from dragoman.cli.adapter import export_adapter

        refuse_taken(settings.out.absolute())
        export_adapter(settings.run, settings.base, settings.out.absolute())
        return
    from dragoman.interop import export as interop

    interop.export(
        settings.run,
        settings.to,
        settings.out,
        precision=settings.precision,
        sentences=read_samples(settings.samples),
        source_language=settings.source_language,
        target_language=settings.target_language,
    )


def read_samples(path: Path | None) -> list[str] | None:
    """The lines of a file that are not blank; None without one. Raises `DragomanError` if all are blank."""
    from dragoman.text.lines import read_lines

    if path is None:
        return None
    sentences = [line for line in read_lines(path) if line.strip()]
    if not sentences:
        raise DragomanError(f"{path} has no sentence to compare with.")
    return sentences


COMMAND = Command(
    "export",
    "Write a model for Hugging Face, Marian, CTranslate2, ONNX, Argos Translate or a browser.",
    export,
    Export,
    example="dragoman export runs/ende --to ctranslate2 --out ende.ct2",
    arguments="RUN --to FORMAT -o PATH",
    groups={
        "options": ("run", "to", "out", "precision", "samples", "source_language", "target_language", "base")
    },
    metavars={"run": "RUN", "out": "PATH", "base": "RUN"},
)

"""`dragoman import`: a model of another toolkit."""

from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from dragoman.cli.console import say
from dragoman.cli.export import refuse_taken, sample_sentences
from dragoman.cli.parsing import Arguments, Command, option_name, settings_from
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.system.toml import overlay
from dragoman.system.wording import counted
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, languages_of_name

if TYPE_CHECKING:
    from dragoman.interop.weights import Imported
    from dragoman.model.settings import ModelSettings


@dataclass(frozen=True)
class Import:
    """Convert another toolkit's model. Those of Hugging Face are compared with transformers, if installed."""

    model: Path
    """The folder or checkpoint of the model."""
    origin: Literal["huggingface", "fairseq", "opennmt-py", "joeynmt", "adapter"] = field(
        metadata=option_name("from")
    )
    """The toolkit of the model; adapter is an adapter of dragoman export, which is merged with its base
    model."""
    out: Path
    """The folder to write, which can be used like that of a run."""
    samples: Path | None = None
    """Sentences to compare with, one per line. None is a few sentences of random tokens."""
    source_language: str | None = None
    """Code of the language that it reads, such as en or pt-BR; None is what its name says (opus-mt-en-de)."""
    target_language: str | None = None
    """The same for the language that it writes."""
    base: Path | None = None
    """For adapter: the model that it was trained on."""


def import_model(arguments: Arguments) -> None:
    """Read a model of another toolkit."""
    settings = settings_from(Import, arguments)
    settings = replace(settings, out=settings.out.absolute())
    refuse_taken(settings.out)
    for folder in (settings.model, settings.model / "model"):
        if (folder / "model.toml").exists():
            raise DragomanError(f"{settings.model} is a model of Dragoman, which needs no import.")
    if not settings.model.exists():
        raise DragomanError(f"There is no file or folder {settings.model}.")
    from dragoman.translation.missing_model import is_adapter

    if settings.origin == "adapter" or settings.base or is_adapter(settings.model):
        from dragoman.cli.adapter import import_adapter

        import_adapter(settings)
        return
    from dragoman.translation.model_folder import save_model

    imported = read_model(settings)
    compare(settings, imported)
    refuse_other_types(imported.model.settings, settings.model)
    languages = languages_of(settings, imported.languages)
    save_model(
        settings.out / "model",
        imported.model,
        imported.model.settings,
        imported.tokenizers,
        imported.longest_trained,
        languages,
    )
    say(
        f"{settings.out} holds the model. Translate with: "
        f"dragoman translate {quote(str(settings.out))} < FILE"
    )


def languages_of(settings: Import, languages: Languages) -> Languages:
    """Each language by itself: that of an option, or of the files, or of the folder's name."""
    folder_languages = languages_of_name(settings.model.name)
    return Languages(
        settings.source_language
        or (folder_languages.source if languages.source == UNKNOWN_LANGUAGE else languages.source),
        settings.target_language
        or (folder_languages.target if languages.target == UNKNOWN_LANGUAGE else languages.target),
    )


def refuse_other_types(settings: "ModelSettings", origin: Path) -> None:
    """Raise `DragomanError` for a setting of another type than a model folder can hold."""
    table = {name: value for name, value in asdict(settings).items() if value is not None}
    overlay(settings, table, str(origin))


def compare(settings: Import, imported: "Imported") -> None:
    """Compare the model with the toolkit's own engine, if it is Hugging Face's; say what was compared."""
    from dragoman.interop.verify import verify

    model, tokenizers = imported.model, imported.tokenizers
    if settings.origin != "huggingface":
        if settings.samples:
            raise DragomanError(
                f"--samples is for --from huggingface; models of {settings.origin} are not compared."
            )
        say(f"The names and shapes of all tensors fit; there is no comparison with {settings.origin} itself.")
    elif find_spec("transformers") is None:
        if settings.samples:
            raise DragomanError("--samples needs transformers: pip install 'dragoman[huggingface]'")
        say(
            "transformers is not installed, so nothing was compared (pip install 'dragoman[huggingface]'); "
            "the names and shapes of all tensors fit."
        )
    else:
        from dragoman.interop.huggingface import engine

        sentences = sample_sentences(settings.samples, tokenizers, model.longest_source)
        count = counted(len(sentences), "sentence")
        what = "tokens, log-probabilities and greedy translations"
        say(f"Comparing {what} of {count} in transformers and here.")
        reference_engine = engine(settings.model, *(vocabulary.rows for vocabulary in imported.vocabularies))
        difference = verify(reference_engine, model, tokenizers, sentences)
        say(f"For {count} the log-probabilities there and here differ by {difference:.1g} nats at most.")


def read_model(settings: Import) -> "Imported":
    """The foreign model. Raises `DragomanError` if it cannot be read, or if an extra is missing."""
    try:
        if settings.origin == "huggingface":
            from dragoman.interop import huggingface

            return huggingface.read(settings.model)
        if settings.origin == "fairseq":
            from dragoman.interop import fairseq

            return fairseq.read(settings.model)
        if settings.origin == "opennmt-py":
            from dragoman.interop import opennmt_py

            return opennmt_py.read(settings.model)
        from dragoman.interop import joeynmt

        return joeynmt.read(settings.model)
    except DragomanError:
        raise
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:  # settings of unexpected types
        raise DragomanError(
            f"{settings.model} has settings or files that are not as {settings.origin} writes them "
            f"({str(error)[:200]})."
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DragomanError(
            f"There is not enough memory to read {settings.model}. Stop other programs, or use a machine "
            "with more memory."
        ) from error


COMMAND = Command(
    "import",
    "Read a model of Hugging Face, fairseq, OpenNMT-py or JoeyNMT.",
    import_model,
    Import,
    example="dragoman import opus-mt-en-de --from huggingface --out runs/opus",
    arguments="MODEL --from TOOLKIT -o DIR",
    positional=("model",),
    groups={"options": ("model", "origin", "out", "samples", "source_language", "target_language", "base")},
    metavars={"model": "MODEL", "out": "DIR", "base": "RUN"},
)

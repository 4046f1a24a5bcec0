"""`dragoman import`: a model of another toolkit."""

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from dragoman.cli.console import say
from dragoman.cli.export import read_samples
from dragoman.cli.parsing import Arguments, Command, option_name, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.new_folder import refuse_taken
from dragoman.system.wording import counted
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

if TYPE_CHECKING:
    from dragoman.interop.verify import ReferenceEngine
    from dragoman.interop.weights import Imported

ENGINES = {"huggingface": "transformers", "marian": "pymarian"}
"""The packages in which a toolkit's models are compared, if they are installed."""


@dataclass(frozen=True)
class Import:
    """Convert another toolkit's model.

    Those of Hugging Face and of Marian are compared with transformers and pymarian, if these are installed.
    """

    model: Path
    """The folder or checkpoint of the model."""
    origin: Literal["huggingface", "marian", "fairseq", "opennmt-py", "joeynmt", "adapter"] = field(
        metadata=option_name("from")
    )
    """The toolkit of the model: marian is for Marian's own files, huggingface for MarianMTModel and for what
    was exported; adapter is an adapter of dragoman export, which is merged with its base
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
    from dragoman.interop.load import languages_of, read_model
    from dragoman.interop.vocabulary import with_pairs
    from dragoman.translation.model_folder import save_model

    imported = read_model(settings.model, settings.origin)
    compare(settings, imported)
    named = Languages(
        settings.source_language or UNKNOWN_LANGUAGE, settings.target_language or UNKNOWN_LANGUAGE
    )
    tokenizers, languages, pairs = with_pairs(imported.tokenizers, languages_of(named, imported.languages))
    save_model(
        settings.out / "model",
        imported.model,
        imported.model.settings,
        tokenizers,
        imported.longest_trained,
        languages,
        pairs=pairs,
    )
    into = ""
    if pairs:
        into = f" --to {pairs[0].target}"
        say(f"The model translates into {', '.join(pair.target for pair in pairs)}.")
    say(
        f"{settings.out} holds the model. Translate with: "
        f"dragoman translate {quote(str(settings.out))}{into} < FILE"
    )


def compare(settings: Import, imported: "Imported") -> None:
    """Compare the model with the toolkit's own engine, where there is one; say what was compared."""
    from dragoman.interop.verify import samples, verify

    model, tokenizers = imported.model, imported.tokenizers
    module = ENGINES.get(settings.origin)
    if module is None:
        if settings.samples:
            raise DragomanError(
                f"--samples is for --from {' or '.join(ENGINES)}; models of {settings.origin} are not "
                "compared."
            )
        say(f"The names and shapes of all tensors fit; there is no comparison with {settings.origin} itself.")
        return
    installation = f"pip install 'dragoman[{settings.origin}]'"
    if find_spec(module) is None:
        if settings.samples:
            raise DragomanError(f"--samples needs {module}: {installation}")
        say(
            f"{module} is not installed, so nothing was compared ({installation}); "
            "the names and shapes of all tensors fit."
        )
        return
    sentences = read_samples(settings.samples) or samples(tokenizers, model.longest_source)
    count = counted(len(sentences), "sentence")
    reference_engine = engine_of(settings, imported)
    what = "tokens, log-probabilities and greedy translations"
    if not reference_engine.searches:
        what = "tokens and log-probabilities"
    say(f"Comparing {what} of {count} in {module} and here.")
    difference = verify(reference_engine, model, tokenizers, sentences)
    say(f"For {count} the log-probabilities there and here differ by {difference:.1g} nats at most.")


def engine_of(settings: Import, imported: "Imported") -> "ReferenceEngine":
    """The model in the toolkit's own engine."""
    if settings.origin == "marian":
        from dragoman.interop import marian

        return marian.engine(settings.model, imported.vocabularies)
    from dragoman.interop import huggingface

    return huggingface.engine(settings.model, *(vocabulary.rows for vocabulary in imported.vocabularies))


COMMAND = Command(
    "import",
    "Read a model of Hugging Face, Marian, fairseq, OpenNMT-py or JoeyNMT.",
    import_model,
    Import,
    example="dragoman import opus-mt-en-de --from huggingface --out runs/opus",
    arguments="MODEL --from TOOLKIT -o DIR",
    positional=("model",),
    groups={"options": ("model", "origin", "out", "samples", "source_language", "target_language", "base")},
    metavars={"model": "MODEL", "out": "DIR", "base": "RUN"},
)

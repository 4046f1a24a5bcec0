"""The command line: a verb a function. Nothing that needs torch is imported before the arguments are understood."""

import dataclasses
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from dragoman import __version__
from dragoman.cli.console import flags_of, has_gpu, parse, say, tell_own_warnings, tell_threads_errors_once
from dragoman.cli.exchange import export_model, import_model
from dragoman.cli.translating import align, evaluate, score, shortlist, translate
from dragoman.pipeline.recipe import Recipe, check_file_pairs, complete_recipe, resolve_paths
from dragoman.system.errors import DragomanError
from dragoman.system.machine import configure_threads
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import DataSettings


def recipe_first(arguments: Sequence[str]) -> tuple[dict[str, Any], str, list[str]]:
    """The table of the recipe that comes before the flags, if one does; where it is from; the flags."""
    if arguments and not arguments[0].startswith("-"):
        return read_toml(Path(arguments[0])), arguments[0], list(arguments[1:])
    return {}, "the command line", list(arguments)


def train(arguments: Sequence[str]) -> None:
    """Train a model from two text files, or from a recipe (a TOML file)."""
    table, origin, flags = recipe_first(arguments)
    recipe = complete_recipe(table, origin, lambda default: parse(Recipe, "train [RECIPE.toml]", flags, default), has_gpu, say)
    recipe.search.refuse_contradictions(flags_of(flags))
    from dragoman.pipeline.run import run

    exit_after(lambda: run(recipe, say))


def exit_after(training: Callable[[], object]) -> None:
    """Train, and end the program: with status 128 + n if signal n interrupted the training.

    A process that torchrun has started ends at once: torch's threads were seen to abort Python's own way out.
    """
    from dragoman.training.interrupt import TrainingInterruptedError

    status = 0
    try:
        training()
    except TrainingInterruptedError as interruption:
        status = 128 + interruption.signal_number
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    sys.exit(status)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was interrupted; all it needs is in its folder."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""


def resume(arguments: Sequence[str]) -> None:
    """Go on with a run that was interrupted."""
    folder = parse(Resume, "resume", arguments).run
    from dragoman.pipeline.reopen import recorded_recipe
    from dragoman.pipeline.run import run

    recipe = recorded_recipe(folder)
    if recipe is None:
        raise DragomanError(f"{folder} holds no run that was begun: there is no {folder / 'recipe.toml'}.")
    exit_after(lambda: run(dataclasses.replace(recipe, out=folder), say))


@dataclass(frozen=True)
class Quickstart:
    """Train a small model on the CMU Pronouncing Dictionary (spelling → phonemes) and score it on held-out words."""

    out: Path = Path("runs/quickstart")
    """The run's folder."""
    minutes: float = 4.2
    """About how long to train."""
    updates: int | None = None
    """Number of parameter updates; None chooses as many as fit into `minutes`."""
    recipe: Path | None = None
    """A recipe (TOML) whose keys win over the quickstart's own."""


def quickstart(arguments: Sequence[str]) -> None:
    """Train and score a small model on the CMU Pronouncing Dictionary (extra: dragoman[quickstart])."""
    asked = parse(Quickstart, "quickstart", arguments)
    from dragoman.pipeline.quickstart import quickstart as start

    exit_after(lambda: start(asked.out, asked.minutes, asked.updates, say, asked.recipe))


@dataclass(frozen=True)
class Doctor:
    """Report what may be wrong with a corpus: files, a recipe's, a run's, or train.en and train.de in a folder. Exit status 1: it is."""

    folder: Path | None = None
    """Folder of the files below."""
    source: Path | None = None
    """Sentences to translate from, as for `train`."""
    target: Path | None = None
    """Their translations."""
    valid_source: Path | None = None
    """Validation sentences, to find those that are in the training data too, and what training would refuse."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences, to find those that are in the training data too, and what training would refuse."""
    test_target: Path | None = None
    """Their translations."""


def doctor(arguments: Sequence[str]) -> None:
    """Report what may be wrong with a parallel corpus."""
    flags = list(arguments)
    if flags and Path(flags[0]).is_dir():
        given = in_folder(Path(flags.pop(0)))
    elif len(flags) > 1 and all(Path(flag).is_file() for flag in flags[:2]):
        raise DragomanError(f"Which is which? Give --source {flags[0]} --target {flags[1]}, if that is the direction.")
    else:
        table, origin, flags = recipe_first(arguments)
        given = overlay(Recipe(), table, origin).data
    files = [name.name for name in dataclasses.fields(Doctor)]
    asked = parse(Doctor, "doctor [RECIPE.toml | FOLDER]", flags, Doctor(**{name: getattr(given, name) for name in files}))
    from dragoman.text.datasets import with_dataset
    from dragoman.text.doctor import examine

    data = with_dataset(dataclasses.replace(given, **dataclasses.asdict(asked)))
    check_file_pairs(data)
    data = resolve_paths(data)
    if data.source is None or data.target is None:
        raise DragomanError("Which text? Give --source FILE --target FILE, or a recipe that has them.")
    others = {"validation": (data.valid_source, data.valid_target), "test": (data.test_source, data.test_target)}
    findings = examine(data.source, data.target, {name: (one, other) for name, (one, other) in others.items() if one and other})
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
    print("Nothing was found.")


def in_folder(folder: Path) -> DataSettings:
    """The data of a run's folder, or of one that has train.ONE and train.OTHER, and perhaps valid and test texts of the same endings.

    Raises `DragomanError` where it is neither.
    """
    if (folder / "recipe.toml").exists():
        return overlay(Recipe(), read_toml(folder / "recipe.toml"), str(folder / "recipe.toml")).data
    found = sorted({path.name.removesuffix(".gz") for path in folder.glob("train.*")})
    if len(found) != 2:
        raise DragomanError(
            f"{folder} has {', '.join(found) or 'no train.*'}, where two texts are looked for; give --folder {folder} --source FILE "
            "--target FILE."
        )
    texts: dict[str, Any] = {}
    for kind, prefix in (("train", ""), ("valid", "valid_"), ("test", "test_")):
        for side, name in zip(("source", "target"), found, strict=True):
            path = Path(name.replace("train", kind, 1))
            if (folder / path).exists() or (folder / f"{path}.gz").exists():
                texts[f"{prefix}{side}"] = path
    return DataSettings(folder=folder, **texts)


@dataclass(frozen=True)
class Runs:
    """List runs with their state and scores."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Where to look, in the folders below it too."""
    json: bool = False
    """Write one JSON object a run."""


def runs(arguments: Sequence[str]) -> None:
    """List runs with their state and scores."""
    asked = parse(Runs, "runs", arguments)
    from rich.console import Console

    from dragoman.pipeline.runs import as_json, runs_table, runs_under

    found = runs_under(asked.folder, say)
    if asked.json:
        print("\n".join(map(as_json, found)))
    else:
        table = runs_table(found)
        Console(width=Console(width=10_000).measure(table).maximum).print(table)  # as wide as it needs: nothing is cut


@dataclass(frozen=True)
class Plot:
    """Draw the curves of a run from its log: loss, BLEU, rate, gradient, speed."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    out: Path
    """The picture: .png, .svg or .html."""


def plot(arguments: Sequence[str]) -> None:
    """Draw the curves of a run, as PNG, SVG or HTML."""
    asked = parse(Plot, "plot", arguments)
    from dragoman.pipeline.runs import plot as draw

    draw(asked.run, asked.out)
    say(f"{asked.out} shows the curves of {asked.run}.")


VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "quickstart": quickstart,
    "train": train,
    "resume": resume,
    "translate": translate,
    "score": score,
    "align": align,
    "evaluate": evaluate,
    "shortlist": shortlist,
    "export": export_model,
    "import": import_model,
    "doctor": doctor,
    "runs": runs,
    "plot": plot,
}


def usage() -> str:
    """What there is."""
    verbs = "\n".join(f"  {name:<12}{function.__doc__}" for name, function in VERBS.items())
    return (
        f'Dragoman {__version__}: the Transformer of "Attention Is All You Need" for your own text.\n\n'
        f"dragoman VERB …, and dragoman VERB --help for its settings:\n\n{verbs}\n"
    )


def main() -> None:
    """Run a verb. Errors that the user can put right are printed as a sentence, with exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where a terminal lacks a sign
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
    elif arguments[0] == "--version":
        print(__version__)
    else:
        try:
            if sys.stdin is None or sys.stdout is None:
                raise DragomanError("Standard input or output is closed; where there is nothing to read or to keep, give /dev/null.")
            tell_own_warnings()
            tell_threads_errors_once()
            configure_threads()
            verb(arguments[0])(arguments[1:])
        except DragomanError as error:
            sys.exit(complain(str(error)))
        except BrokenPipeError:  # the reader has gone: there is nobody to tell
            sys.stdout = None
            sys.exit(141)
        except OSError as error:
            sys.exit(complain(f"{error.filename or 'The disk'}: {error.strerror or error}."))
        except KeyboardInterrupt:
            sys.exit(130)


def verb(name: str) -> Callable[[Sequence[str]], None]:
    """The verb's function. Raises `DragomanError` for one that does not exist, with the nearest."""
    import difflib

    if name not in VERBS:
        near = difflib.get_close_matches(name, VERBS, n=1)
        told = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(VERBS)}."
        raise DragomanError(f"There is no verb {name!r}. {told}")
    return VERBS[name]


def complain(message: str) -> int:
    """Print what was wrong; give the exit status."""
    print(f"dragoman: {message}", file=sys.stderr)
    return 2

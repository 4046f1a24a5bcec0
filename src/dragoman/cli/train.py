"""`dragoman train`: a model from two text files, or from a recipe."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tomli_w

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.model.architectures import check_architecture, refuse_ignored
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.from_python import recipe_table
from dragoman.pipeline.recipe import Recipe, learning_rate_schedule
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.toml import to_table
from dragoman.text.compression import plain_name
from dragoman.text.mixture import check_symbols, is_parallel
from dragoman.text.settings import CorpusFiles

LANGUAGES = re.compile(r"(.+?)-([a-z]{2,3}(?:-.+)?)")
"""Two codes of languages; those of scripts and regions, as in pt-BR-en, begin with a capital."""
COMMAND_LINE = "the command line"  # where settings come from without a recipe


@dataclass(frozen=True)
class Train(Recipe):
    """Train a model from text files, or from a recipe. The same command resumes an interrupted run."""

    files: tuple[Path, ...] = ()
    """Two text files, one file with both sides (.tmx, .tsv, .jsonl), or a recipe in TOML; options override
    it."""
    pair: tuple[tuple[str, ...], ...] = ()
    """A pair of languages and its text, in place of other text: en-de SOURCE TARGET, then validation and test
    files, if there are any. Given several times, one model translates all pairs."""


def train(arguments: Arguments) -> None:
    """Train a model, or list the named datasets."""
    if "list" in arguments.get("dataset", ()):
        from dragoman.text.named_datasets.datasets import listing

        print(listing())
        return
    run_recipe(recipe_of(arguments))


def recipe_of(arguments: Arguments) -> Recipe:
    """The recipe that the arguments ask for. Without a recipe, the run's folder is named after the texts.

    Raises `DragomanError` as `read_files`, `complete_recipe`, `check_architecture` and
    `refuse_without_effect`.
    """
    pairs = arguments.pop("pair", ())
    table, origin, texts = read_files(arguments.pop("files", ()), arguments)
    arguments |= texts
    if pairs:
        refuse_other_texts(table, arguments)
        table = {"data": {"corpus": [corpus_of(values) for values in pairs]}}
        if "out" not in arguments:
            arguments["out"] = Path("runs") / "-".join(dict.fromkeys(values[0] for values in pairs))
            say(f"The run's folder is {arguments['out']}; --out names another one.")
    is_complete = "source" in arguments and ("target" in arguments or is_parallel(arguments["source"]))
    if origin == COMMAND_LINE and is_complete and "out" not in arguments:
        arguments["out"] = default_folder(arguments["source"], arguments.get("target"))
        say(f"The run's folder is {arguments['out']}; --out names another one.")
    recipe = complete_recipe(
        table, origin, lambda default: settings_from(Recipe, arguments, default), has_gpu
    )
    check_symbols(recipe.tokenizer.symbols)
    check_architecture(recipe.model)
    refuse_ignored(recipe.model, set(arguments))
    refuse_without_effect(recipe, arguments)
    refuse_overridden_preset(table, origin, arguments)
    recipe.search.refuse_contradictions(arguments)
    return recipe


def refuse_other_texts(table: Mapping[str, Any], arguments: Arguments) -> None:
    """Raise `DragomanError` for text, or a recipe, beside the text of --pair."""
    names = (*(field.name for field in fields(CorpusFiles)), "dataset", "guided_alignment")
    if table or (others := [name for name in names if name != "folder" and name in arguments]):
        other_text = "a recipe" if table else ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise DragomanError(
            f"--pair gives all text, and there is {other_text} too; name the pairs as [[data.corpus]] of a "
            "recipe, or leave one of both out."
        )


def corpus_of(values: Sequence[str]) -> dict[str, str]:
    """A corpus of a recipe from the values of --pair. Raises `DragomanError` for others than it takes."""
    name, *files = values
    languages = LANGUAGES.fullmatch(name)
    source, target = languages.groups() if languages else ("", "")
    corpus = {"source_language": source, "target_language": target}
    for kind in ("", "valid_", "test_"):
        if files:
            corpus[f"{kind}source"] = first = files.pop(0)
            if not is_parallel(Path(first)):
                corpus[f"{kind}target"] = files.pop(0) if files else ""
    if files or len(values) < 2 or "" in corpus.values():
        raise DragomanError(
            f"--pair is {' '.join(values)!r}; it takes two languages and their text, --pair en-de SOURCE "
            "TARGET, then the two files of the validation text and of the test text, if there are any. One "
            ".tmx, .tsv or .jsonl takes the place of two files."
        )
    return corpus


def refuse_without_effect(recipe: Recipe, arguments: Arguments) -> None:
    """Raise `DragomanError` for options that change nothing in this recipe."""
    refuse_weight_alone(recipe, arguments)
    refuse_for_schedule(recipe, arguments)
    tokenizer, search = recipe.tokenizer, recipe.search
    if "sampled_copies" in arguments and not (tokenizer.bpe_dropout or tokenizer.sampling_alpha):
        raise DragomanError(
            "--sampled-copies belongs to --bpe-dropout or --sampling-alpha, and both are missing; give one "
            "of them, or leave it out."
        )
    kinds = {tokenizer.source_tokens, tokenizer.target_tokens or tokenizer.source_tokens}
    if "character_coverage" in arguments and not kinds & {"bpe", "unigram"}:
        raise DragomanError(
            "--character-coverage is for bpe and unigram tokens, and those of this recipe are "
            f"{', '.join(sorted(kinds))}; leave it out."
        )
    if arguments.get("n_best", 1) > 1 and not search.mbr:
        raise DragomanError(
            f"--n-best {search.n_best}: only one translation of a test sentence is scored; leave it out, or "
            "add --mbr."
        )


def refuse_for_schedule(recipe: Recipe, arguments: Arguments) -> None:
    """Raise `DragomanError` for options of training that another setting makes void."""
    training, schedule = recipe.training, learning_rate_schedule(recipe)
    if "minutes" in arguments and training.updates is not None:
        raise DragomanError(
            f"--minutes chooses the number of updates, and that is given: {training.updates:,}. Leave "
            "--minutes out, or the number."
        )
    if "cooldown_steps" in arguments and schedule != "trapezoid":
        raise DragomanError(
            "--cooldown-steps belongs to --schedule trapezoid, and this recipe has another; leave it "
            "out, or add --schedule trapezoid."
        )
    if arguments.get("patience") and schedule == "trapezoid":
        raise DragomanError(
            f"--patience {training.patience}: a trapezoid is never stopped early; leave it out, or add "
            "--schedule paper."
        )


def refuse_overridden_preset(table: Mapping[str, Any], origin: str, arguments: Arguments) -> None:
    """Raise `DragomanError` for a preset of the command line whose layers or sizes a recipe has itself."""
    model, common = table.get("model", {}), ("dropout", "norm", "positions")  # these suit every preset
    names = [name for name in COMMAND.from_preset if name in model and name not in common]
    if "preset" in arguments and names:
        settings = ", ".join(f"{{{name}}}" for name in names)
        raise OptionError(
            f"{{preset}} {{value}} sets {settings}, and so does {{origin}}, which wins. Leave {{preset}} "
            "out, or these settings.",
            value=arguments["preset"],
            origin=origin,
        )


def refuse_weight_alone(recipe: Recipe, arguments: Arguments) -> None:
    """Raise `DragomanError` for the weight of a guided alignment in a recipe that has none."""
    if "guided_alignment_weight" in arguments and recipe.data.guided_alignment is None:
        raise DragomanError(
            "--guided-alignment-weight belongs to --guided-alignment FILE of dragoman train, which is "
            "missing; leave it out, or train with both."
        )


def default_folder(source: Path, target: Path | None) -> Path:
    """`runs/en-de` for `train.en` and `train.de`; in general the endings, or the names without them.

    `runs/corpus` for `corpus.tmx`, which has both sides.
    """
    names = [plain_name(path.name) for path in (source, target) if path is not None]
    endings = [name.rpartition(".")[2] for name in names]
    different = len(set(endings)) == 2 and all("." in name for name in names)
    return Path("runs") / "-".join(endings if different else [Path(name).stem for name in names])


def run_recipe(recipe: Recipe) -> None:
    """Train a model. Ends the program if a signal ended the training.

    Raises `UnicodeEncodeError` for names that are not UTF-8, which no recipe can hold, and as
    `refuse_swapped` and `run`.
    """
    refuse_swapped(recipe)
    tomli_w.dumps(to_table(recipe)).encode()  # raises before the text is prepared
    from dragoman.pipeline.advice import run_with_advice

    run_training(lambda: run_with_advice(recipe))


def read_files(files: Sequence[Path], arguments: Arguments) -> tuple[dict[str, Any], str, Arguments]:
    """The table of a recipe, its origin, and the texts: of the positional arguments.

    Raises `DragomanError` if they are neither a recipe nor two texts.
    """
    if len(files) > 2 or (len(files) == 2 and arguments.keys() & {"source", "target"}):
        raise DragomanError("Give two text files, source and target, once; or one recipe (TOML).")
    if len(files) == 2:
        return {}, COMMAND_LINE, {"source": files[0], "target": files[1]}
    if not files:
        return {}, COMMAND_LINE, {}
    if files[0].is_dir():
        raise DragomanError(
            f"{files[0]} is a folder; give two texts or a recipe. To resume a run: dragoman resume {files[0]}"
        )
    if is_parallel(files[0]):
        if "source" in arguments or "target" in arguments:
            raise DragomanError(f"{files[0]} has both sides of a corpus; leave --source and --target out.")
        return {}, COMMAND_LINE, {"source": files[0]}
    try:
        table = recipe_table(files[0])
    except DragomanError as error:
        if not files[0].is_file() or files[0].suffix == ".toml":
            raise
        raise DragomanError(
            f"{files[0]} is not a recipe in TOML. If it is a text, give its translation too: SOURCE TARGET. "
            "A file with both sides ends in .tmx, .tsv or .jsonl."
        ) from error
    return table, str(files[0]), {}


def run_training(training: Callable[[], object]) -> None:
    """Train. Ends the program with status 128 + n if signal n interrupted the training.

    A process that torchrun has started ends at once: torch's threads can abort the interpreter's own exit.
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
        os._exit(status)
    if status:
        sys.exit(status)


COMMAND = Command(
    "train",
    "Train a model from text files, or from a recipe (a TOML file).",
    train,
    Train,
    example="dragoman train train.en train.de --out runs/ende",
    arguments="[SOURCE TARGET | CORPUS.tmx | RECIPE.toml | --pair en-de SOURCE TARGET …]",
    positional=("files",),
    groups={
        "text": (
            "files",
            "pair",
            "source",
            "target",
            "valid_source",
            "valid_target",
            "test_source",
            "test_target",
            "vocabulary",
        ),
        "model": ("preset", "initial_model", "dropout"),
        "training": ("minutes", "updates", "stop_at", "learning_rate_scale", "warmup_steps"),
        "output": ("out",),
    },
    metavars={
        "files": "FILE",
        "pair": "PAIR FILE",
        "out": "DIR",
        "folder": "DIR",
        "dataset": "NAME",
        "initial_model": "RUN",
        "replay": "FILE",
        "replay_valid": "FILE",
        "freeze": "PART",
    },
    from_preset=(
        *("architecture", "d_model", "d_ff", "decoder_d_ff", "heads", "encoder_layers", "decoder_layers"),
        *("neighbourhood", "dropout", "norm", "positions"),
    ),
)

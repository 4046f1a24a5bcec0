"""`dragoman start`: two text files → a trained model with a page."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.doctor import print_findings
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.serve import check_installed, serve_runs
from dragoman.cli.train import COMMAND as TRAIN
from dragoman.cli.train import Train, recipe_of, run_recipe
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.recipe import choose_minutes
from dragoman.pipeline.result import read_run_result
from dragoman.serving.settings import ServerSettings
from dragoman.system.device import has_gpu


@dataclass(frozen=True)
class Start(Train):
    """Examine two text files, train a model, score it, and serve it. The same command resumes."""

    server: ServerSettings = field(default_factory=ServerSettings)


def start(arguments: Arguments) -> None:
    """Examine, train, evaluate, serve."""
    check_installed()
    server = settings_from(ServerSettings, arguments)
    from dragoman.serving.server import check_files, listening

    with listening(server):  # an address or a file that cannot be used is reported before the training
        check_files(server)
    recipe = recipe_of(arguments)
    assert recipe.out is not None
    is_new = not (recipe.out / "recipe.toml").exists()
    if is_new:
        say("Step 1 of 4: examine the text.")
        print_findings(recipe.data)
    say("Step 2 of 4: train. The same dragoman start command resumes an interrupted training, then serves.")
    if is_new and recipe.training.updates is None:
        say(f"The page will be there {arrival(choose_minutes(recipe.training, has_gpu()), datetime.now())}.")
    run_recipe(recipe)
    say("Step 3 of 4: evaluate.")
    say_result(recipe.out)
    say("Step 4 of 4: serve. Ctrl-C ends the server; the same command, or dragoman serve, starts it again.")
    serve_runs((recipe.out,), EngineSettings(), server)


def arrival(minutes: float, now: datetime) -> str:
    """When so many minutes are over, in words: `in about 45 minutes, at 14:32`."""
    end = now + timedelta(minutes=minutes)
    form = "%H:%M" if end.date() == now.date() else "%H:%M on %Y-%m-%d"
    return f"in about {minutes:g} minutes, at {end.strftime(form)}"


def say_result(out: Path) -> None:
    """Say how good the trained model is: its scores on the test data, or those of validation.

    Raises `DragomanError` if its result.json is damaged.
    """
    result = read_run_result(out)
    for score in result.test:
        say(f"Test: {score.name} {score.value:.2f} ({score.signature}).")
    if not result.test:
        scores = result.validation
        say(f"Validation: BLEU {scores['bleu']:.2f} (greedy), perplexity {scores['perplexity']:.4g}.")


COMMAND = Command(
    "start",
    "Examine two text files, train a model, score it, and serve it on a web page.",
    start,
    Start,
    example="dragoman start train.en train.de",
    arguments="[SOURCE TARGET | CORPUS.tmx | RECIPE.toml]",
    positional=("files",),
    groups={
        "text": ("files", "test_source", "test_target"),
        "training": ("preset", "minutes", "updates"),
        "output": ("out",),
        "address": ("host", "port", "api_keys"),
    },
    metavars={**TRAIN.metavars, "api_keys": "FILE"},
    from_preset=TRAIN.from_preset,
)

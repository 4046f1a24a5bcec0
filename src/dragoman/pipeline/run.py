"""The one road: text files → tokenizers → corpus → batches → training → the model folder → scores."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from dragoman.evaluation.metrics import Score, bleu, chrf, suitable_tokenization
from dragoman.model import weights as checkpoint
from dragoman.model.interface import Model
from dragoman.native import build
from dragoman.native.build import DECODER
from dragoman.native.training_kernels import start_compiling_kernels
from dragoman.pipeline.autoconfigure import settle
from dragoman.pipeline.components import make_batches, make_model, make_objective, schedule_of
from dragoman.pipeline.prepare import Prepared, check_prepared, prepare
from dragoman.pipeline.recipe import Recipe, changed, changes, describe_changes, differences, different, paths
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write, check_folder, copy_folder, readable_folder, recover_interrupted_write, remove_folder
from dragoman.system.machine import configure_allocator, trim_memory
from dragoman.system.toml import overlay, read_toml, write_toml
from dragoman.text.batches import Batches
from dragoman.text.datasets import DATASETS, with_dataset
from dragoman.text.lines import read_lines
from dragoman.text.settings import DataSettings
from dragoman.training.checkpoint import Place, averaged, checkpoints, newest_place
from dragoman.training.context import Job, Samples, Say, Schedule, Validate
from dragoman.training.distributed import World, world
from dragoman.training.interrupt import TrainingInterruptedError
from dragoman.training.log import NO_TENSORBOARD, events
from dragoman.training.loop import better, stopped_early, train
from dragoman.training.memory import without_denormals
from dragoman.training.objective import corpus_loss
from dragoman.translation.model_folder import identity, settings_of
from dragoman.translation.stored import save_model
from dragoman.translation.translator import Translator

CHOSEN = {
    "tokenizer": ("vocabulary",),
    "batches": ("source_tokens_per_batch", "target_tokens_per_batch"),
    "training": ("updates", "precision", "warmup_steps", "validate_every", "checkpoint_every"),
}
"""What the recipe of a run that was begun has."""
SAMPLES = 3  # validation pairs whose translations are shown each time


def run(recipe: Recipe, say: Say) -> Path:
    """Do what the recipe says, or go on with what was begun; give the run's folder. `say` gets sentences for people.

    Where torchrun has started several processes, they train together, and the first one speaks and writes. Raises
    `DragomanError` for whatever the user can put right.
    """
    assert recipe.out is not None
    with world() as here, lock(recipe.out) if here.leads else nullcontext(), without_denormals():
        locked_run(recipe.out, recipe, say if here.leads else silent, here)
    return recipe.out


def silent(_: str) -> None:
    """What is said by the processes that do not lead."""


def locked_run(out: Path, recipe: Recipe, say: Say, here: World) -> None:
    """`run`, where no other process works on the folder."""
    configure_allocator()
    set_threads(recipe)
    here.first(lambda: begin(out, recipe, say, here))
    if (out / "result.json").exists():
        say(f"{out} is finished; there is nothing left to train.")
        return
    recorded = recorded_recipe(out)
    assert recorded is not None
    recipe = replace(recorded, out=out)
    data, schedule = Prepared.load(out / "data"), schedule_of(recipe)
    say_what_is_left(out, schedule, say)
    set_threads(recipe)
    try:
        place = fit(recipe, schedule, data, say, here)
    except TrainingInterruptedError as interruption:
        say(f"Stopped after update {interruption.step}; nothing is lost. Resume with: dragoman resume {out}")
        raise
    finish(recipe, schedule, data, place, say, here)


def say_what_is_left(out: Path, schedule: Schedule, say: Say) -> None:
    """How long the rest of a run may take, by the pace so far; nothing where it has not begun."""
    done = [event for event in events(out / "log.jsonl") if event["event"] == "validation"]
    if done and (left := schedule.updates - done[-1]["step"]) > 0:
        say(f"Expected: {left * done[-1]['minutes'] / done[-1]['step']:.0f} more minutes for {left:,} updates at most.")


def set_threads(recipe: Recipe) -> None:
    """As many processor threads as the recipe says, if it does."""
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)


def begin(out: Path, recipe: Recipe, say: Say, world: World) -> None:
    """Prepare the text and choose what the recipe leaves open, unless that was done before; `out/recipe.toml` records it all."""
    if (out / "recipe.toml").exists() and not (out / "data" / "train" / "corpus.json").exists():
        raise DragomanError(
            f"{out} has a recipe.toml and no text that was prepared: it is no run that was begun. Choose another --out, which will get a "
            "recipe.toml of its own."
        )
    if (recorded := recorded_recipe(out)) is not None:
        go_on(out, recipe, recorded, say)
        return
    if recipe.training.shard and world.size > 1 and recipe.training.updates is None:
        raise DragomanError("With --shard no process could measure the speed by itself, so that the run needs a number of --updates.")
    if recipe.training.tensorboard and find_spec("tensorboard") is None:
        raise DragomanError(NO_TENSORBOARD)
    if recipe.data.dataset in DATASETS:
        dataset = DATASETS[recipe.data.dataset]
        say(f"{recipe.data.dataset}: {dataset.about}. Its licence: {dataset.licence}.")
    if world.device.type == "cpu":  # what will be needed is compiled while the text is prepared
        if recipe.training.fuses and not start_compiling_kernels():
            say("PyTorch alone trains, slower: the kernels need Linux and g++.")
        build.start_compiling(DECODER)
    try:
        prepare(out, replace(recipe, data=paths(with_dataset(recipe.data))), say)
    except OSError as error:
        error.filename = error.filename or str(out)  # a full disk does not say which
        raise
    write_toml(settle(recipe, Prepared.load(out / "data"), say, world), out / "recipe.toml")


def go_on(out: Path, recipe: Recipe, recorded: Recipe, say: Say) -> None:
    """Take what the command has changed of a run that was begun, or leave it as it is where it is finished and nothing new is asked."""
    if other := describe_changes(differences(recipe, recorded), recorded):
        raise DragomanError(
            f"{out} holds a run with other settings: {'; '.join(other)}. Choose another --out, or go on as it was begun with: "
            f"dragoman resume {out}"
        )
    if recipe.batches.max_tokens == "auto" and recorded.batches.max_tokens is None:
        raise DragomanError(
            "What fits into memory is found when a run begins, and this one was begun without; give a number as --max-tokens."
        )
    new, asked = changes(recipe, recorded), changed(recipe, recorded)
    for name in ("model", "best"):
        recover_interrupted_write(out / name)
    if not (out / "result.json").exists():
        check_prepared(out / "data")
    elif not (new.keys() & {"training.updates", "training.patience"} and opened_again(out, asked, say)):
        return
    say(f"Going on with {out}.")
    if (out / "best").exists():
        take_best_again(out, say)
    for path in changed_since(out / "data", recipe.data):
        say(f"{path} is newer than this run's copy of it; the run goes on with the copy.")
    if new:
        write_toml(asked, out / "recipe.toml")
        say(f"Changed: {'; '.join(describe_changes(new, recorded))}.")


def take_best_again(out: Path, say: Say) -> None:
    """Let the best checkpoint be the model once more, and keep the average that took its place."""
    if (out / "model").exists():
        if identity(out / "model") == identity(out / "best"):  # a run was killed before the average could take its place
            remove_folder(out / "best")
            return
        if (out / "average").exists():
            remove_folder(out / "average")
        (out / "model").rename(out / "average")
        say(f"The model so far, which is an average, is kept in {out / 'average'}.")
    (out / "best").rename(out / "model")


def opened_again(out: Path, asked: Recipe, say: Say) -> bool:
    """Let a finished run go on to a later end, if that leaves it anything to do. Raises `DragomanError` where it cannot."""
    if not checkpoints(out):
        raise DragomanError(f"{out} is finished, and without its checkpoints it cannot go on; choose another --out.")
    place, result = newest_place(out), json.loads((out / "result.json").read_text())
    if place.step >= schedule_of(asked).updates or stopped_early(place, asked.training, schedule_of(asked)):
        say(f"{out} would go on with more --updates than {place.step:,} and, where it stopped early, a larger --patience, or 0.")
        return False
    if place.best is not None and result["validation"] != place.best:  # model/ is an average
        if not (out / "best").exists():
            raise DragomanError(f"{out} is finished, and without the model in {out / 'best'} it cannot go on; choose another --out.")
        check_folder(out / "best")
    check_prepared(out / "data")
    (out / "result.json").replace(out / f"result-{place.step}.json")
    return True


def changed_since(prepared: Path, data: DataSettings) -> list[Path]:
    """The text files that were written after the text was prepared."""
    before = (prepared / "train" / "corpus.json").stat().st_mtime
    return [path for path in data.files.values() if path.exists() and path.stat().st_mtime > before]


@contextmanager
def lock(out: Path) -> Iterator[None]:
    """Keep other processes from training in the folder. Raises `DragomanError` where one does, or where other things lie there."""
    begun = (out / "recipe.toml").exists() or (out / "data" / "train" / "corpus.json").exists()
    if not begun and (strange := [name for name in ("data", "model", "checkpoints", "log.jsonl") if (out / name).exists()]):
        raise DragomanError(f"{out} is no run, and it has {', '.join(strange)}, which a run would replace; choose another --out.")
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    held = FileLock(out / ".lock")
    try:
        with held.acquire(timeout=1):  # `dragoman runs` may hold it for a moment, to see whether anybody does
            yield
    except Timeout as error:
        raise DragomanError(f"Another process is training in {out}; wait for it, or choose another --out.") from error
    finally:
        if new and not [path for path in out.iterdir() if path.name != ".lock"]:
            shutil.rmtree(out)


def recorded_recipe(out: Path) -> Recipe | None:
    """The recipe that a run was started with, or None.

    Raises `DragomanError` where it lacks what was chosen, and where the run's model has other settings than it says.
    """
    path = out / "recipe.toml"
    if not path.exists():
        return None
    recipe = overlay(Recipe(), read_toml(path), str(path))
    lacking = [name for table, names in CHOSEN.items() for name in names if getattr(getattr(recipe, table), name) is None]
    if lacking and (out / "data" / "train" / "corpus.json").exists():
        raise DragomanError(f"{path} lacks {', '.join(lacking)}: it is not as the run has written it. Put that back.")
    model = readable_folder(out / "model")
    if (model / "model.toml").exists() and (new := different(recipe.model, kept := settings_of(model))):
        raise DragomanError(
            f"{path} is not as the run has written it: of its model, {'; '.join(describe_changes(new, kept))}. Put that back."
        )
    return recipe


# ---- training


def fit(recipe: Recipe, schedule: Schedule, data: Prepared, say: Say, world: World) -> Place:
    """Train, from the start or the newest checkpoint; `out/model` always holds the best model so far."""
    assert recipe.out is not None
    out = recipe.out

    def keep_best(model: Model) -> None:
        save_model(out / "model", model, recipe.model, data.tokenizers, longest_source(data))

    job = Job(
        model=make_model(recipe, data, world.device),
        width=recipe.model.d_model,
        batches=make_batches(recipe, data, world),
        settings=recipe.training,
        schedule=schedule,
        folder=out,
        validate=validation(recipe, data, say, world),
        keep_best=keep_best,
        say=say,
        world=world,
    )
    return train(job)


def longest_source(data: Prepared) -> int:
    """Tokens of the longest source of the training text, END included."""
    return int(data.train.lengths()[0].max()) + 1


def validation(recipe: Recipe, data: Prepared, say: Say, world: World) -> Validate:
    """The function that judges a model on the validation pairs: losses, BLEU of greedy translations, and some of these.

    Where the loss is no number, nothing is translated.
    """
    most = recipe.batches.max_tokens or recipe.batches.target_tokens_per_batch
    tokens = max(int(most or 0), *(int(lengths.max()) + 1 for lengths in data.valid.lengths()))
    plan = Batches(data.valid, tokens, tokens, seed=0)
    batches = [plan.load(pairs) for pairs in plan.plan(0)[world.rank :: world.size]]
    tokenize = suitable_tokenization(data.valid_target)

    def validate(model: Model) -> tuple[dict[str, float], Samples]:
        scores = corpus_loss(make_objective(recipe, model), batches, world)
        if not math.isfinite(scores["loss"]):
            return scores | {"bleu": 0.0}, []
        in_cpp = world.device.type == "cpu" and recipe.training.native
        translator = Translator.from_model(model, data.tokenizers, workers=torch.get_num_threads(), native=in_cpp)
        mine = translator.translate(world.share(data.valid_source), SearchSettings(beam_size=1))
        translations = world.join(mine, len(data.valid_source))
        model.train()
        trim_memory()
        scores["bleu"] = bleu(translations, data.valid_target, tokenize).value
        say(
            f"Validation: loss {scores['loss']:.3f}, negative log-likelihood {scores['nll']:.3f}, perplexity "
            f"{scores['perplexity']:.2f}, BLEU {scores['bleu']:.2f} (greedy)."
        )
        rows = list(zip(data.valid_source, data.valid_target, translations, strict=True))
        chosen = rows[:: max(1, len(rows) // SAMPLES)][:SAMPLES]
        return scores, [{"source": source, "reference": target, "translation": written} for source, target, written in chosen]

    return validate


def finish(recipe: Recipe, schedule: Schedule, data: Prepared, place: Place, say: Say, world: World) -> None:
    """Keep the best checkpoint or the average of the last, by validation loss; score the test data; write result.json."""
    assert recipe.out is not None
    out = recipe.out
    model = make_model(recipe, data, world.device)
    tensors, steps = averaged(out, recipe.training.average, schedule.checkpoint_every, place.step, say)
    checkpoint.load_weights(model, tensors, out / "checkpoints")
    scores, _ = validation(recipe, data, say, world)(model)
    if place.best is None or better(scores, place.best, "loss"):  # greedy BLEU is too rough to tell these two apart (experiments/LOG.md)
        chosen = f"the average of the checkpoints at {', '.join(map(str, steps))}"
        if world.leads:
            if place.best is not None and (out / "model").exists() and not (out / "best").exists():  # a later end would begin from it
                copy_folder(out / "model", out / "best")
            save_model(out / "model", model, recipe.model, data.tokenizers, longest_source(data))
    else:
        scores, chosen = place.best, f"the checkpoint at {place.best_step}"
    world.wait()
    say(f"The model is {chosen}, after {place.step} updates in {place.seconds / 60:.1f} minutes.")
    result = {"model": chosen, "updates": place.step, "minutes": place.seconds / 60, "validation": scores}
    if (out / "data" / "test.source.txt").exists():
        source, target = (list(read_lines(out / "data" / f"test.{side}.txt")) for side in ("source", "target"))
        mine = Translator.load(out, device=str(world.device)).translate(world.share(source), recipe.search)
        translations = world.join(mine, len(source))
        tested: list[Score] = [bleu(translations, target, suitable_tokenization(target)), chrf(translations, target)]
        for score in tested:
            say(f"Test: {score}")
        result["test"] = [asdict(score) for score in tested]
        if world.leads:
            with atomic_write(out / "test.hypotheses.txt") as new:
                new.write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")
    if world.leads:
        with atomic_write(out / "result.json") as new:
            new.write_text(json.dumps(result, indent=2) + "\n")
    world.wait()
    say(f"Translate with: dragoman translate {out} < FILE")

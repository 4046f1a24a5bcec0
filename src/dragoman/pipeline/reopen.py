"""Opening a run that has begun: its recipe, what a command may change, a later end of a finished run."""

import errno
import logging
import os
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import Tensor

from dragoman.model.settings import ModelSettings
from dragoman.model.weights import load_tensors, load_weights
from dragoman.pipeline.autoconfigure import duration, with_cooldown
from dragoman.pipeline.budget import BUDGET
from dragoman.pipeline.prepared import PreparedData, keep, make_model, make_schedule
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.system.clock import seconds_until
from dragoman.system.errors import DragomanError, OptionError, OptionMessage
from dragoman.system.files import (
    MANIFEST,
    NEW,
    beside,
    check_folder,
    delete,
    readable_folder,
    recover_interrupted_write,
)
from dragoman.system.messages import messages_to, silent
from dragoman.system.toml import overlay, to_table, write_toml
from dragoman.system.wording import counted
from dragoman.text.settings import DataSettings
from dragoman.training.checkpoint import checkpoints, newest_intact, read_state, step_of
from dragoman.training.log import read_events
from dragoman.training.loop import is_finished
from dragoman.training.settings import Schedule
from dragoman.translation.model_folder import (
    WEIGHTS,
    StoredModel,
    Tokenizers,
    model_hash,
    read_settings,
)
from dragoman.translation.token_ids import constraint_ids

logger = logging.getLogger(__name__)
CHANGEABLE = (
    "data.source_language",
    "data.target_language",
    "batches.micro_batch_tokens",
    "training.updates",
    "training.stop_at",
    "training.learning_rate_scale",
    "training.clip_norm",
    "training.on_divergence",
    "training.patience",
    "training.log_every",
    "training.tensorboard",
    "training.shard",
    "training.native",
    "training.threads",
)
"""Settings that may differ when a run is resumed; those of the search may too."""
Changes = dict[str, Any]  # new values by dotted names of settings
REQUIRED = {
    "tokenizer": ("vocabulary",),
    "batches": ("source_tokens_per_batch", "target_tokens_per_batch"),
    "training": ("updates", "precision", "warmup_steps", "validate_every", "checkpoint_every"),
}
"""Settings that the recipe of a run has: all that depend on the corpus or the machine."""


def has_data(out: Path) -> bool:
    """Whether the text of a run is prepared."""
    return (out / "data" / "train" / "corpus.json").exists()


def recorded_recipe(out: Path) -> Recipe | None:
    """The recipe of a run, None if there is no run.

    Raises `DragomanError` if a setting is missing, or if the run's model has other settings.
    """
    path = out / "recipe.toml"
    if not path.exists():
        return None
    recipe = read_recipe(out)
    missing = [
        name
        for table, names in REQUIRED.items()
        for name in names
        if getattr(getattr(recipe, table), name) is None
    ]
    if missing and has_data(out):
        raise DragomanError(
            f"{path} lacks {', '.join(missing)}: it was changed since the run began. Restore it."
        )
    try:
        if has_data(out):
            check_recipe(recipe)
    except DragomanError as error:
        raise DragomanError(f"{path} was changed since the run began: {error}") from error
    model = readable_folder(out / "model")
    if (model / "model.toml").exists():
        model_settings = read_settings(model)
        if changes := changed_settings(recipe.model, model_settings):
            raise DragomanError(
                f"{path} was changed since the run began: of its model, "
                f"{'; '.join(describe_changes(changes, model_settings))}. Restore it."
            )
    return recipe


def reopen(out: Path, recipe: Recipe) -> None:
    """Record what a command changes of a run that has begun.

    A finished run stays finished, unless it is given more updates or more patience. Raises `DragomanError`
    for changes that would make it another run, and for damaged data.
    """
    recorded = recorded_recipe(out)
    if recorded is None or not has_data(out):
        raise OptionError(
            "{folder} has a recipe.toml and no prepared text, so it is not a run. Choose another {out}, "
            "which will get its own recipe.toml.",
            folder=out,
        )
    changes = changed_settings(recipe, recorded)
    if forbidden := {key: value for key, value in changes.items() if not is_changeable(key)}:
        raise OptionError(
            "{folder} holds a run with other settings: {changes}. Choose another {out}, or resume it as it "
            "began with: dragoman resume {path}",
            folder=out,
            changes="; ".join(describe_changes(forbidden, recorded)),
            path=quote(str(out)),
        )
    if recipe.batches.micro_batch_tokens == "auto" and recorded.batches.micro_batch_tokens is None:
        raise OptionError(
            "{micro_batch_tokens} auto works when a run begins, and this one began without it; give a number "
            "as {micro_batch_tokens}."
        )
    changed = apply_changes(changes, recipe, recorded)
    for name in ("model", "best"):
        recover_interrupted_write(out / name)
    result, former = out / "result.json", None
    if any(name.startswith("search.") for name in changes):  # used when training has ended
        constraint_ids(changed.search, Tokenizers.load(out / "data").target)
    if not result.exists():
        check_data(out / "data")
    elif not changes.keys() & {"training.updates", "training.patience"} or (
        (former := former_result(out, changed)) is None
    ):
        return
    logger.info(f"Resuming {out}.")
    if (out / "best").exists():
        restore_best_model(out, keeps=former is not None)
    if former is not None:
        result.replace(former)  # last: if killed before, the run is still a finished one
    restore_model_from_checkpoint(out, changed)
    if changes.keys() & {"data.source_language", "data.target_language"} and (out / "model").exists():
        replace(StoredModel.load(out / "model"), languages=changed.data.languages).save(out / "model")
    for path in files_newer_than(out / "data", recipe.data):
        logger.info(f"{path} is newer than this run's copy of it; the run continues with the copy.")
    changed = without_past_stop(changed)
    if changed != recorded:
        record(changed, out, changes, recorded)
    report_remaining_time(out, make_schedule(changed))


def without_past_stop(recipe: Recipe) -> Recipe:
    """The recipe without a time at which the run should have ended."""
    stop_at = recipe.training.stop_at
    if stop_at is None or seconds_until(stop_at) > 0:
        return recipe
    logger.info(f"The time at which the run was to end has passed ({stop_at}): it continues without one.")
    return replace(recipe, training=replace(recipe.training, stop_at=None))


def record(changed: Recipe, out: Path, changes: Changes, recorded: Recipe) -> None:
    """Write the recipe of a run. If a command gives the number of updates, training does not choose it."""
    has_updates = "training.updates" in changes
    write_toml(with_cooldown(changed) if has_updates else changed, out / "recipe.toml")
    if changes:
        logger.info(f"Changed: {'; '.join(describe_changes(changes, recorded))}.")
    if has_updates:
        (out / BUDGET).unlink(missing_ok=True)


def report_remaining_time(out: Path, schedule: Schedule) -> None:
    """Report how long the rest of a resumed run takes, at its speed so far."""
    events = read_events(out / "log.jsonl")
    validations = [event for event in events if event["event"] == "validation" and "minutes" in event]
    last_step = max(map(step_of, checkpoints(out)), default=0)
    has_begun = validations and validations[-1]["step"] > 0  # an adaptation validates at update 0
    if has_begun and last_step and (updates := schedule.updates - last_step) > 0:
        seconds = updates * 60 * validations[-1]["minutes"] / validations[-1]["step"]
        logger.info(f"Remaining: {counted(updates, 'update')} at most, {duration(seconds)}.")


def former_result(out: Path, recipe: Recipe) -> Path | None:
    """What result.json of a finished run is called once it is resumed; None if nothing is left to do.

    Raises `DragomanError` if it cannot resume, or if its result.json is damaged.
    """
    result = read_run_result(out)
    with messages_to(silent):  # training names those that are damaged
        checkpoint = newest_intact(out)
    if checkpoint is None:
        raise OptionError(
            "{run} is finished and its checkpoints are missing, so it cannot be resumed; choose another "
            "{out}.",  # noqa: RUF027  a setting
            run=out,
        )
    # A damaged newest checkpoint does not change the end.
    end = replace(read_state(checkpoint), step=result.updates)
    if is_finished(end, recipe.training, make_schedule(recipe)):
        message = (
            f"{{run}} can be resumed with more {{updates}} than {end.step:,} and, if it stopped early, a "
            "larger {patience}, or {patience} 0."
        )
        logger.info(OptionMessage(message, run=out))
        return None
    if result.kept != "best":
        if not (out / "best").exists() and not (out / "previous-model").exists():
            raise OptionError(
                "{run} is finished and the model in {best} is missing, so it cannot be resumed; choose "
                "another {out}.",  # noqa: RUF027  a setting
                run=out,
                best=out / "best",
            )
        check_folder(out / ("best" if (out / "best").exists() else "model"))
    check_data(out / "data")
    return out / f"result-{end.step}.json"


def restore_best_model(out: Path, keeps: bool) -> None:
    """Make the best model by validation the run's model again.

    The model that replaced it, an average or the last checkpoint, is kept beside it if it is that of a
    finished run: `keeps`. Otherwise the run was interrupted at its end, which makes it again.
    """
    model, best, previous = out / "model", out / "best", out / "previous-model"
    if model.exists():
        if model_hash(model) == model_hash(best):  # killed before the replacement
            remove_folder(best)
            return
        if keeps:
            if previous.exists():
                remove_folder(previous)
            model.rename(previous)
            logger.info(f"The model so far is kept in {previous}.")
        else:
            remove_folder(model)
    best.rename(model)


def restore_model_from_checkpoint(out: Path, recipe: Recipe) -> None:
    """Make the model that the newest checkpoint calls the best one the run's model, if it is not.

    It is missing or damaged if a copy was cut off, and newer than the checkpoint if the process was killed
    between both. Raises `DragomanError` if it cannot be made.
    """
    with messages_to(silent):  # training names those that are damaged
        newest = newest_intact(out)
    state = None if newest is None else read_state(newest)
    if newest is None or state is None or state.best is None:
        return
    model, problem = out / "model", None
    try:
        check_folder(model)
    except DragomanError as error:
        problem = error
    if problem is None and model.stat().st_mtime_ns <= newest.stat().st_mtime_ns:
        return
    if problem is None and state.rolled_back_to >= 0:  # the best step may have been trained again, otherwise
        return
    best = next((path for path in checkpoints(out) if step_of(path) == state.best_step), None)
    if best is None or recipe.adaptation.lora_rank is not None:
        if problem is not None:
            raise OptionError(
                "{problem} It cannot be made from a checkpoint: restore {model} from a copy, or start again "
                "with another {out}.",  # noqa: RUF027  a setting
                problem=problem,
                model=model,
            )
        return
    tensors = load_tensors(best / WEIGHTS)
    if problem is None and are_equal(tensors, load_tensors(model / WEIGHTS)):
        return
    data = PreparedData.load(out / "data")
    best_model = make_model(recipe, data, torch.device("cpu"))
    load_weights(best_model, tensors, best)
    keep(model, best_model, recipe, data)
    logger.info(f"{model} is made from the checkpoint at {state.best_step:,} again.")


def are_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether both have the same weights."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def with_file_name(error: OSError, out: Path) -> OSError:
    """An error with the name of a file. That of a short write, which has no number, is of a full disk."""
    number = error.errno or errno.ENOSPC
    return OSError(number, os.strerror(number), error.filename or str(out))


def remove_folder(folder: Path) -> None:
    """Delete a folder atomically. If killed, the next `write_folder` deletes the rest of it."""
    deleted = beside(folder, NEW)
    delete(deleted)
    folder.rename(deleted)
    delete(deleted)


def check_data(folder: Path) -> None:
    """Compare the prepared text with its manifest; earlier versions did not write one.

    Raises `DragomanError` if it is damaged.
    """
    if not (folder / MANIFEST).exists():
        return
    try:
        check_folder(folder)
    except DragomanError as error:
        raise OptionError(
            "{error} The run would continue with another text than it began with: restore {folder} from a "
            "copy, or start again with another {out}. Its models are not affected and still translate.",
            error=error,
            folder=folder,
        ) from error


def files_newer_than(data: Path, settings: DataSettings) -> list[Path]:
    """The text files that were changed after the text was prepared."""
    prepared = (data / "train" / "corpus.json").stat().st_mtime
    folder = settings.folder or Path()
    corpora = [
        folder / path
        for corpus in settings.corpus
        for path in vars(corpus).values()
        if isinstance(path, Path)
    ]
    return [
        path
        for path in [*settings.files.values(), *corpora]
        if path.exists() and path.stat().st_mtime > prepared
    ]


# ---- what may differ when a run is resumed

IGNORED = ("out", "training.minutes")  # the minutes have chosen the updates


def flatten(table: dict[str, Any], prefix: str = "") -> Changes:
    """Nested tables as one, with dotted names."""
    flat: Changes = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def changed_settings(requested: Any, recorded: Any) -> Changes:
    """Settings that a command asks for and that differ from the run's.

    None and `auto` ask for nothing, except in a search.
    """
    old, new = flatten(to_table(recorded)), flatten(to_table(requested))
    dropped = {key: None for key in old if key.startswith("search.") and key not in new}
    return {
        key: value for key, value in new.items() if value not in ("auto", old.get(key)) and key not in IGNORED
    } | dropped


def is_changeable(key: str) -> bool:
    """Whether a run may be resumed with another value.

    The search matters only at the end, for the test data.
    """
    return key in CHANGEABLE or key.startswith("search.")


def apply_changes(changes: Changes, requested: Recipe, recorded: Recipe) -> Recipe:
    """The recorded recipe with these changes. Raises `DragomanError` for contradictions."""
    tables: dict[str, Any] = {}
    for key, value in changes.items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = value
    tables.pop("search", None)  # replaced as one
    return replace(overlay(recorded, tables, "the command line"), search=requested.search)


def describe_changes(changes: Changes, recorded: Recipe | ModelSettings) -> list[str]:
    """Changes in words."""
    old = flatten(to_table(recorded))
    return [f"{key} is {value!r} and was {old.get(key)!r}" for key, value in changes.items()]

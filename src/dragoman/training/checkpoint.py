"""Checkpoints, from which a run resumes after any interruption: `folder/checkpoints/step-00001200/`."""

import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.model import weights
from dragoman.model.interface import Model
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import check_folder, write_folder
from dragoman.system.readers import read_json
from dragoman.system.toml import check_bounds, from_table
from dragoman.system.wording import shown
from dragoman.training.context import TrainingContext
from dragoman.training.log import read_events
from dragoman.training.settings import SCORES
from dragoman.training.world import World, unsharded_on_cpu

logger = logging.getLogger(__name__)
ADAM = {"step", "exp_avg", "exp_avg_sq"}  # what the optimizer keeps of a weight
MUON = {"momentum"}
LOW_RANK = {"initial", "step", *(f"{name}{moment}" for name in "ab" for moment in ("", "_mean", "_square"))}
# Of intact, invalid and partial checkpoints; other files are the user's.
OWN_NAME = re.compile(r"(ruined-)?step-\d+|\.step-\d+\.dragoman-(new|old)")


@dataclass(frozen=True)
class TrainingState:
    """How far a run is. With weights and optimizer, all that the rest of the run depends on."""

    step: int = 0
    """Updates done."""
    epoch: int = 0
    batches_done: int = 0
    """Batches of this epoch that are done."""
    best_step: int = 0
    """The step of the best validation."""
    best: dict[str, float] | None = None
    """Scores of the best validation."""
    lowest_loss: float | None = None
    """Of all validations."""
    highest_bleu: float | None = None
    """Of all validations."""
    improved_step: int = 0
    """The step of the last validation with a lower loss or a higher BLEU than all before it."""
    seconds: float = 0.0
    """Time spent in training, by earlier processes too."""
    rate_backoff: float = 1.0
    """Factor of the learning rate, halved by each rollback."""
    rolled_back_to: int = -1
    """The step that the last rollback went back to."""


def checkpoints(folder: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    steps = (folder / "checkpoints").glob("step-*")
    return sorted(path for path in steps if path.name.removeprefix("step-").isdigit())


def step_of(path: Path) -> int:
    """The step of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


# ---- writing


def save_checkpoint(
    model: Model, optimizer: torch.optim.Optimizer, state: TrainingState, context: TrainingContext
) -> None:
    """Write a checkpoint, and delete those that are no longer needed.

    The newest checkpoint, the one before it as a fallback, and the regular ones to average are kept. All
    processes call this; the main one writes. Raises `DragomanError` if the disk is full or cannot be written
    to.
    """
    is_main = context.world.is_main
    tensors = unsharded_on_cpu(weights.weights(model), is_main)
    moments = unsharded_on_cpu(optimizer_tensors(model, optimizer), is_main)
    if not is_main:
        return

    def write(new: Path) -> None:
        weights.save_tensors(new / "model.safetensors", tensors)
        weights.save_tensors(new / "optimizer.safetensors", moments)
        (new / "place.json").write_text(json.dumps(asdict(state), indent=2) + "\n")

    folder = context.folder / "checkpoints"
    write_folder(folder / f"step-{state.step:08}", write)
    needed = max(2, context.settings.average)
    keep = regular_checkpoints(context.folder, needed, context.schedule.checkpoint_every, state.step)
    keep += [path for path in checkpoints(context.folder) if step_of(path) <= state.step][-2:]
    for path in folder.iterdir():
        if path not in keep and OWN_NAME.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def regular_checkpoints(folder: Path, count: int, interval: int, step: int) -> list[Path]:
    """The checkpoint of a step, and regular ones before it, `count` in all.

    Regular ones are those that the schedule asks for, not a signal. Later ones exist only if they were
    damaged and the run resumed from an earlier one: they are ignored.
    """
    *older, newest = [path for path in checkpoints(folder) if step_of(path) <= step]
    older = [path for path in older if step_of(path) % interval == 0]
    return [*older[max(0, len(older) - count + 1) :], newest]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, named after the weights that it belongs to."""
    return {
        f"{name}|{key}": torch.as_tensor(value)
        for name, weight in model.named_parameters()
        for key, value in optimizer.state[weight].items()
    }


# ---- reading


def resume(model: Model, optimizer: torch.optim.Optimizer, folder: Path, world: World) -> TrainingState:
    """Load the newest intact checkpoint; without any checkpoint, return the state before the first update.

    Raises `DragomanError` if no checkpoint is intact, if there is none though the log says that there was, if
    its weights do not fit the model, and if the processes see different checkpoints.
    """
    path = newest_intact(folder)
    if path is None:
        refuse_lost_checkpoints(folder)
        state = TrainingState()
    else:
        load_checkpoint(model, optimizer, path, world)
        state = read_state(path)
        if path != checkpoints(folder)[-1]:
            logger.info(f"Resuming from {path.name}; the updates after it are repeated.")
    if not world.all_equal(state.step):
        raise DragomanError(
            f"This process found the checkpoint of update {state.step:,} in {folder}, and another process "
            "another one. All machines must see the same folder."
        )
    return state


def load_checkpoint(model: Model, optimizer: torch.optim.Optimizer, path: Path, world: World) -> None:
    """Load the weights and the optimizer of a checkpoint. Raises `DragomanError` if they do not fit."""
    try:
        tensors = world.shard_like(model, weights.load_tensors(path / "model.safetensors"))
        weights.load_weights(model, tensors, path)
    except DragomanError as error:
        raise DragomanError(
            f"{error} The recipe.toml of this run was changed since it began; restore it."
        ) from error
    moments = weights.load_tensors(path / "optimizer.safetensors")
    check_moments(model, moments, path / "optimizer.safetensors")
    load_optimizer(model, optimizer, world.shard_like(model, moments))


def check_moments(model: nn.Module, tensors: Mapping[str, Tensor], file: Path) -> None:
    """Raise `DragomanError` with the file and the name of a tensor that is not of an optimizer of the model.

    A weight has either all of Adam's tensors, or Muon's, or all of the low-rank ones.
    """
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    keys: dict[str, set[str]] = {}
    for full_name, tensor in tensors.items():
        name, _, key = full_name.rpartition("|")
        keys.setdefault(name, set()).add(key)
        shape = () if key == "step" else shapes.get(name)
        has_any_shape = key in LOW_RANK - {"initial", "step"}  # that of the rank
        if name not in shapes or not (has_any_shape or tensor.shape == shape):
            raise DragomanError(f"{file} has {shown(full_name)}, which does not belong to this model.")
    for name, present in keys.items():
        if present not in (ADAM, MUON, LOW_RANK):
            raise DragomanError(f"{file} has of {shown(name)} only {', '.join(sorted(present))}.")


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned."""
    named = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        name, _, key = full_name.rpartition("|")
        weight = named[name]
        optimizer.state[weight][key] = tensor.to(weight.device, copy=True)  # not a view of a file that may go


def newest_intact(folder: Path) -> Path | None:
    """The newest checkpoint whose files match its manifest; None if the run has no checkpoint.

    Damaged ones are named. Raises `DragomanError` if all are damaged.
    """
    paths = checkpoints(folder)
    newest = next(intact(reversed(paths), "Trying the checkpoint before it."), None)
    if paths and newest is None:
        raise OptionError(
            "All checkpoints in {folder} are damaged ({count}); start again with another {out}.",
            folder=folder / "checkpoints",
            count=len(paths),
        )
    return newest


def intact(paths: Iterable[Path], consequence: str) -> Iterator[Path]:
    """The checkpoints whose files match their manifest. Damaged ones are named, with the consequence."""
    for path in paths:
        try:
            check_folder(path)
        except DragomanError as error:
            logger.info(f"{error} {consequence}")
        else:
            yield path


def refuse_lost_checkpoints(folder: Path) -> None:
    """Raise `DragomanError` if the log shows that checkpoints were written."""
    events = read_events(folder / "log.jsonl")
    validated = [event["step"] for event in events if event["event"] == "validation"]
    if len(validated) > 1:  # the first validation is logged a moment before the first checkpoint
        raise OptionError(
            f"{{folder}} was trained for {validated[-1]:,} updates, and its checkpoints are missing. Restore "
            "{checkpoints}, or start again with another {out}.",
            folder=folder,
            checkpoints=folder / "checkpoints",
        )


def read_state(path: Path) -> TrainingState:
    """The state of a checkpoint.

    Raises `DragomanError` with the file's name if it cannot be read, or is not as a training writes it.
    """
    file = path / "place.json"
    state = from_table(TrainingState, read_json(file), str(file), is_complete=True)
    counts = ("step", "epoch", "batches_done", "best_step", "improved_step")
    try:
        check_bounds(
            state,
            at_least=dict.fromkeys((*counts, "seconds", "rate_backoff"), 0) | {"rolled_back_to": -1},
            at_most=dict.fromkeys((*counts, "rolled_back_to"), 10**9) | {"rate_backoff": 1},
        )
    except DragomanError as error:
        raise DragomanError(f"{file}: {error}") from error
    if state.best is not None and (missing := [name for name in SCORES if name not in state.best]):
        raise DragomanError(f"{file}: best lacks {', '.join(missing)}; it is not as it was written.")
    return state


def average_checkpoints(
    folder: Path, count: int, interval: int, step: int
) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the last regular checkpoints up to a step (section 6.1), and their steps.

    Damaged ones are named and left out.
    """
    regular = regular_checkpoints(folder, count, interval, step)
    paths = list(intact(regular, "It is left out of the average."))
    return weights.average(path / "model.safetensors" for path in paths), [step_of(path) for path in paths]

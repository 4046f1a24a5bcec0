"""What a run needs to go on after any interruption: its place, and its checkpoints in `folder/checkpoints/step-00001200/`."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.model import weights as checkpoint
from dragoman.model.interface import Model
from dragoman.system import folders
from dragoman.system.errors import DragomanError
from dragoman.training.context import Job, Say
from dragoman.training.distributed import World
from dragoman.training.log import events
from dragoman.training.parallel import shard, unsharded

OWN = re.compile(r"(ruined-)?step-\d+(\.new|\.old)?")  # names of checkpoints, whole or not: what people put beside them is theirs


@dataclass(frozen=True)
class Place:
    """How far a run has come: with weights and optimizer, all that the rest of it depends on."""

    step: int = 0
    epoch: int = 0
    batches_done: int = 0
    best_step: int = 0
    best: dict[str, float] | None = None
    seconds: float = 0.0
    rate_backoff: float = 1.0
    """What the rate is multiplied by; halved each time that the run was rolled back."""


def checkpoints(folder: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("step-*") if path.name.removeprefix("step-").isdigit())


def save(model: Model, optimizer: torch.optim.Optimizer, place: Place, job: Job) -> None:
    """Write a checkpoint and delete those that are not needed: the newest and one before it to resume, the last regular ones to average.

    All processes call this, and the first one writes.
    """
    leads = job.world.leads
    weights, moments = gather(checkpoint.weights(model), leads), gather(checkpoint.optimizer_tensors(model, optimizer), leads)
    if not leads:
        return

    def write(new: Path) -> None:
        checkpoint.save_tensors(new / "model.safetensors", weights)
        checkpoint.save_tensors(new / "optimizer.safetensors", moments)
        (new / "place.json").write_text(json.dumps(asdict(place), indent=2) + "\n")

    folders.write_folder(job.folder / "checkpoints" / f"step-{place.step:08}", write)
    kept = regular(job.folder, max(2, job.settings.average), job.schedule.checkpoint_every, place.step)
    for path in (job.folder / "checkpoints").iterdir():
        if path not in kept and OWN.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def gather(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """The tensors as a whole in the machine's memory, in the processes that keep them. All processes call this."""
    found = {}
    for name, tensor in tensors.items():
        full = unsharded(tensor)
        if keep:
            found[name] = full.cpu()
    return found


def regular(folder: Path, last: int, every: int, step: int) -> list[Path]:
    """The checkpoint of a step, and before it regular ones (not those that a signal asked for), `last` in all.

    There are later ones only where they were damaged, and the run went on from before them.
    """
    *older, newest = [path for path in checkpoints(folder) if step_of(path) <= step]
    older = [path for path in older if step_of(path) % every == 0]
    return [*older[max(0, len(older) - last + 1) :], newest]


def set_aside(path: Path, world: World) -> None:
    """Let a checkpoint be none, until the next is saved. All processes call this."""
    if world.leads:
        path.rename(path.with_name(f"ruined-{path.name}"))
    world.wait()


def step_of(path: Path) -> int:
    """The step of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


def resume(model: Model, optimizer: torch.optim.Optimizer, folder: Path, say: Say, world: World) -> Place:
    """Load the newest checkpoint that is whole, if there is one; say so where it is not the newest of all.

    Raises `DragomanError` where there are checkpoints, and none of them is whole, and where processes find different ones.
    """
    place = newest_whole(model, optimizer, folder, say)
    if float(world.sum(torch.tensor(float(place.step), device=world.device))) != place.step * world.size:
        raise DragomanError(
            f"This process found the checkpoint of step {place.step} in {folder}, and another process another one. All machines have to "
            "see the same folder."
        )
    return place


def newest_whole(model: Model, optimizer: torch.optim.Optimizer, folder: Path, say: Say) -> Place:
    """`resume`, for one process."""
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            folders.check_folder(path)
        except DragomanError as error:
            say(f"{error} Trying the checkpoint before it.")
            continue
        try:
            checkpoint.load_weights(model, shard(checkpoint.load_tensors(path / "model.safetensors"), model), path)
        except DragomanError as error:
            raise DragomanError(f"{error} The recipe.toml of this run is not the one that it was begun with; put that back.") from error
        checkpoint.load_optimizer(model, optimizer, shard(checkpoint.load_tensors(path / "optimizer.safetensors"), model))
        place = read_place(path)
        if path != found[-1]:
            say(f"Going on from {path.name}; what was done after it is done again.")
        return place
    if found:
        raise DragomanError(f"None of the {len(found)} checkpoints in {folder / 'checkpoints'} is whole; begin again with another --out.")
    judged = [event["step"] for event in events(folder / "log.jsonl") if event["event"] == "validation"]
    if len(judged) > 1:  # the first is logged a moment before the first checkpoint
        raise DragomanError(
            f"{folder} was trained for {judged[-1]:,} updates, and none of its checkpoints is there. Put {folder / 'checkpoints'} back, or "
            "begin again with another --out."
        )
    return Place()


def read_place(folder: Path) -> Place:
    """The place of a checkpoint; `rate_backoff` was `pace` before 0.1."""
    values = json.loads((folder / "place.json").read_text())
    return Place(**{"rate_backoff" if name == "pace" else name: value for name, value in values.items()})


def newest_place(folder: Path) -> Place:
    """The place of the newest checkpoint. Raises `DragomanError` where it is damaged."""
    newest = checkpoints(folder)[-1]
    folders.check_folder(newest)
    return read_place(newest)


def averaged(folder: Path, last: int, every: int, step: int, say: Say) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the last n regular checkpoints up to a step, and their steps (section 6.1); without damaged ones, which are named."""
    paths = []
    for path in regular(folder, last, every, step):
        try:
            folders.check_folder(path)
        except DragomanError as error:
            say(f"{error} It is left out of the average.")
        else:
            paths.append(path)
    return checkpoint.average(path / "model.safetensors" for path in paths), [step_of(path) for path in paths]

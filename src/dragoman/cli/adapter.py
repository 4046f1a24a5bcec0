"""`dragoman export --to adapter` and `dragoman import --from adapter`."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from dragoman.cli.console import say
from dragoman.system.errors import DragomanError
from dragoman.system.wording import counted

if TYPE_CHECKING:
    from dragoman.cli.import_model import Import


def export_adapter(run: Path, base: Path | None, out: Path) -> None:
    """Write what an adaptation has changed, and compare the merged model with the run's.

    Raises `DragomanError` if a model is missing, the base unknown, or a change not of low rank.
    """
    from dragoman.pipeline.adaptation.adapt import run_of
    from dragoman.pipeline.recipe import read_recipe
    from dragoman.translation.adapter import Adapter, largest_difference
    from dragoman.translation.model_folder import StoredModel, model_folder

    model_folder(run)  # raises if there is no model
    if base is None and (run_of(run) / "recipe.toml").exists():
        base = read_recipe(run_of(run)).adaptation.initial_model
    if base is None:
        raise DragomanError(f"{run} does not say which model was adapted; give it as --base RUN.")
    adapter = Adapter.between(base, run)
    difference = largest_difference(adapter.merged(base).weights, StoredModel.load(run).weights)
    adapter.save(out)
    size = sum(path.stat().st_size for path in out.iterdir()) / 2**20
    say(
        f"{out}: {counted(len(adapter.factors), 'adapter')} of {base}, {size:.1f} MiB. Merged, the weights "
        f"differ from those of {run} by {difference:.1g} at most."
    )
    say(
        f"Merge with: dragoman import {quote(str(out))} --from adapter --base {quote(str(base))} --out FOLDER"
    )


def import_adapter(settings: "Import") -> None:
    """Write the base model with the adapter's changes.

    Raises `DragomanError` if the base is not given, or another one than the adapter's.
    """
    from dragoman.translation.adapter import Adapter
    from dragoman.translation.missing_model import is_adapter

    if settings.origin != "adapter" and is_adapter(settings.model):
        raise DragomanError(f"{settings.model} is an adapter: give --from adapter and its model, --base RUN.")
    if settings.origin != "adapter":
        raise DragomanError(f"--base is for --from adapter; a model of {settings.origin} is complete.")
    if settings.base is None:
        raise DragomanError("--from adapter needs the model that it was trained on: give --base RUN.")
    for name in ("source_language", "target_language", "samples"):
        if getattr(settings, name) is not None:
            flag = "--" + name.replace("_", "-")
            raise DragomanError(f"{flag} is not for --from adapter: the base model has it. Leave it out.")
    Adapter.load(settings.model).merged(settings.base).save(settings.out / "model")
    say(
        f"{settings.out} holds the model. Translate with: "
        f"dragoman translate {quote(str(settings.out))} < FILE"
    )

"""Adapting a trained model to new text (fine-tuning): `--initial-model`. No torch is imported at the top.

The run keeps a copy of the initial model in `initial-model`, and needs the other folder no longer.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.settings import PRESETS
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.system.errors import DragomanError
from dragoman.system.messages import Say
from dragoman.system.toml import check_bounds, overlay
from dragoman.text.settings import UNKNOWN_LANGUAGE, DataSettings, TokenizerSettings
from dragoman.translation.model_folder import (
    WEIGHTS,
    StoredModel,
    Tokenizers,
    model_folder,
    read_about,
    read_settings,
)
from dragoman.translation.token_ids import DEFAULT_SPLIT

if TYPE_CHECKING:
    from dragoman.model.interface import Model
    from dragoman.training.context import TrainingContext

COPY = "initial-model"  # the folder in a run's folder
CHANGEABLE = ("dropout", "attention_dropout")  # settings that no weight depends on
PEAK_RATE, MOST_PASSES, VALIDATIONS = 3e-4, 10, 10
PARTS = {
    "encoder": ("encoder.", "encoder_norm."),
    "decoder": ("decoder.", "decoder_norm."),
    "embeddings": ("source_embedding.", "target_embedding."),
}
"""Beginnings of the names of the weights of each part."""


# ---- the recipe


def adapted_recipe(
    asked: Recipe, table: dict[str, Any], origin: str, flags: Callable[[Recipe], Recipe]
) -> Recipe:
    """`complete_recipe` for an initial model, whose settings stand in place of a preset's.

    Raises `DragomanError` for settings that the initial model contradicts, and where `check_recipe` does.
    """
    adaptation, out = asked.adaptation, asked.out
    refuse_contradictions(asked)
    assert adaptation.initial_model is not None
    if out is not None and (out / "recipe.toml").exists():  # the initial model may be gone
        recorded = read_recipe(out)
        kept = Recipe(model=recorded.model, tokenizer=recorded.tokenizer)
    else:
        kept = kept_settings(adaptation.initial_model)
    recipe = flags(overlay(kept, table, origin))
    refuse_changes(recipe, kept, adaptation.initial_model)
    check_recipe(recipe)
    return recipe


def refuse_contradictions(recipe: Recipe) -> None:
    """Raise `DragomanError` for settings of the adaptation that do not belong together."""
    adaptation = recipe.adaptation
    given = [each.name for each in fields(adaptation) if getattr(adaptation, each.name) is not None]
    if adaptation.initial_model is None:
        raise DragomanError(
            f"{given[0]} belongs to a model that is adapted, and initial_model is missing: give "
            "--initial-model RUN."
        )
    check_bounds(adaptation, at_least={"peak_rate": 1e-9, "replay_share": 0}, below={"replay_share": 1})
    for kind in ("replay", "replay_valid"):
        if (f"{kind}_source" in given) != (f"{kind}_target" in given):
            raise DragomanError(
                f"{kind}_source and {kind}_target belong together, and one of them is missing."
            )
    if "replay_share" in given and "replay_source" not in given:
        raise DragomanError("replay_share needs a text to replay: --replay-source FILE --replay-target FILE.")


def kept_settings(initial_model: Path) -> Recipe:
    """The settings that a recipe has from its initial model: also the languages, unless others are given.

    Raises `DragomanError` if there is no model.
    """
    folder = model_folder(initial_model)
    tokenizers, (_, languages) = Tokenizers.load(folder), read_about(folder)
    tokenizer = TokenizerSettings(
        vocabulary=max(len(tokenizers.source), len(tokenizers.target)),
        share_vocabulary=tokenizers.source is tokenizers.target,
    )
    if (initial_model / "recipe.toml").exists():
        tokenizer = read_recipe(initial_model).tokenizer
    codes = (code if code != UNKNOWN_LANGUAGE else None for code in (languages.source, languages.target))
    data = DataSettings(**dict(zip(("source_language", "target_language"), codes, strict=True)))
    return Recipe(data=data, tokenizer=tokenizer, model=read_settings(folder))


def refuse_changes(recipe: Recipe, kept: Recipe, initial_model: Path) -> None:
    """Raise `DragomanError` for the first setting of model or tokenizer that the initial model contradicts."""
    model, tokenizer = kept.model, kept.tokenizer
    free = {name: getattr(model, name) for name in CHANGEABLE}
    if recipe.preset != "auto" and replace(PRESETS[recipe.preset], **free) != model:
        raise DragomanError(
            f"The preset is {recipe.preset}, and the initial model in {initial_model} is {model.architecture} "
            f"with d_model {model.d_model} and {model.encoder_layers} + {model.decoder_layers} layers, which "
            "are kept; leave the preset out."
        )
    for each in fields(model):
        new, old = getattr(recipe.model, each.name), getattr(model, each.name)
        if new != old and each.name not in CHANGEABLE:
            raise DragomanError(
                f"{each.name} is {new!r}, and the initial model in {initial_model} has {old!r}, which is kept; "
                f"leave {each.name} out."
            )
    for each in fields(tokenizer):
        new = getattr(recipe.tokenizer, each.name)
        if new != getattr(tokenizer, each.name):
            shared = "one vocabulary" if tokenizer.share_vocabulary else "two vocabularies"
            raise DragomanError(
                f"{each.name} is {new!r}, and the initial model in {initial_model} has tokenizers of its own, "
                f"with {shared} of {tokenizer.vocabulary:,} tokens, which are kept; leave {each.name} out."
            )


# ---- preparation


def keep_initial_model(recipe: Recipe) -> Tokenizers:
    """Copy the initial model to the run's folder, and return its tokenizers.

    A model of which it is not known how long the sentences of its training were gets the length that
    translation takes for such a model, so that adapting to short sentences does not change how long ones are
    translated. Raises `DragomanError` for a damaged model, and for parts to freeze that it does not have.
    """
    assert recipe.out is not None
    assert recipe.adaptation.initial_model is not None
    stored = StoredModel.load(recipe.adaptation.initial_model)
    refuse_unknown_parts(recipe, stored)
    longest = stored.longest_trained or stored.settings.longest or DEFAULT_SPLIT
    replace(stored, longest_trained=longest).save(recipe.out / COPY)
    return stored.tokenizers


def refuse_unknown_parts(recipe: Recipe, stored: StoredModel) -> None:
    """Raise `DragomanError` for a part to freeze that the model does not have, or if nothing is left."""
    freeze, names = recipe.adaptation.freeze or (), list(stored.weights)
    for part in freeze:
        if not any(is_frozen(name, (part,)) for name in names):
            parts = [each for each in PARTS if any(is_frozen(name, (each,)) for name in names)]
            modules = sorted({name.split(".")[0] for name in names}.difference(parts))
            raise DragomanError(
                f"freeze names {part!r}, and the initial model has no such part. It has "
                f"{', '.join(parts)}, and the modules {', '.join(modules)}."
            )
    if all(is_frozen(name, freeze) for name in names):
        raise DragomanError(f"freeze is {', '.join(freeze)}: no weight is left to train. Freeze fewer parts.")
    if freeze and recipe.model.norm == "batch":
        raise DragomanError(
            "freeze does not hold the running averages of batch normalisation, which the initial model has; "
            "leave freeze out."
        )


def is_frozen(weight: str, freeze: Iterable[str]) -> bool:
    """Whether a weight, by its name in the model, belongs to one of the parts or modules."""
    beginnings = (beginning for part in freeze for beginning in PARTS.get(part, (f"{part}.",)))
    return f"{weight}.".startswith(tuple(beginnings))


# ---- training


def choose_for_adaptation(recipe: Recipe, most: int, updates_per_epoch: int) -> tuple[Recipe, list[str]]:
    """The learning rate and the number of updates of an adaptation, where they are not given; the reasons.

    At most 10 passes over the text, of `most` updates that the minutes allow, and 10 validations. A peak rate
    of 0.0003, where training from random weights has 0.0007 (section 5.3) to 0.002. A warm-up of a tenth of
    the updates, since Adam's second moments are unknown at first; afterwards the rate falls as in equation 3,
    to a third of its peak.
    """
    training, adaptation = recipe.training, recipe.adaptation
    reasons = []
    updates, warmup, peak_rate = training.updates, training.warmup_steps, adaptation.peak_rate
    if updates is None:
        updates = min(most, MOST_PASSES * updates_per_epoch)
        reasons.append(f"{updates:,} updates, {MOST_PASSES} passes over the new text at most")
    if warmup is None:
        warmup = max(1, updates // 10)
        reasons.append(f"{warmup:,} warm-up steps, a tenth of the updates")
    if peak_rate is None:
        peak_rate = PEAK_RATE
        reasons.append(f"a peak learning rate of {PEAK_RATE:g}, so that little is forgotten")
    every = training.validate_every or min(1000, max(1, updates // VALIDATIONS))
    training = replace(training, updates=updates, warmup_steps=warmup, validate_every=every)
    return replace(recipe, training=training, adaptation=replace(adaptation, peak_rate=peak_rate)), reasons


def load_initial_weights(model: "Model", recipe: Recipe) -> None:
    """Give the model the weights of the run's initial model. Frozen ones get no gradient.

    Raises `DragomanError` if they do not fit.
    """
    from dragoman.model.weights import load_tensors, load_weights

    assert recipe.out is not None
    path = recipe.out / COPY / WEIGHTS
    load_weights(model, load_tensors(path), path)
    for name, weight in model.named_parameters():
        if is_frozen(name, recipe.adaptation.freeze or ()):
            weight.requires_grad_(False)


def begin(context: "TrainingContext", recipe: Recipe) -> "TrainingContext":
    """What the loop is given for an adaptation: a learning rate with the chosen peak, and a checkpoint.

    The checkpoint of update 0 has the initial model with its validation scores. It is the best one until
    another is better, so validation decides as if training had come from there. All processes call this.
    """
    from dragoman.training.checkpoint import (
        TrainingState,
        checkpoints,
        refuse_lost_checkpoints,
        save_checkpoint,
    )
    from dragoman.training.log import Log
    from dragoman.training.objective import learning_rate, make_optimizer

    settings, peak = context.settings, recipe.adaptation.peak_rate
    assert peak is not None
    warmup = context.schedule.warmup_steps
    scale = settings.learning_rate_scale * peak / learning_rate(warmup, context.d_model, warmup)
    settings = replace(settings, learning_rate_scale=scale)
    if not checkpoints(context.folder):
        refuse_lost_checkpoints(context.folder)
        scores, samples = context.validate(context.model, "of the initial model")
        if context.world.is_main:
            log = Log(context.folder, 0, settings.tensorboard)
            log.write("validation", 0, {"minutes": 0.0, **scores, "samples": samples})
            context.keep_best(context.model)
        save_checkpoint(context.model, make_optimizer(context.model), TrainingState(best=scores), context)
        context.world.barrier()
    return replace(context, settings=settings)

"""The weights of an adaptation: those of its initial model, some of them frozen, and their learning rate.

A run needs the initial model until its validation at update 0; the checkpoint of that update has the weights.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from dragoman.model.interface import Model
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.model.weights import load_tensors, load_weights
from dragoman.pipeline.adaptation.fewer_layers import describe_layers, kept_layers, weights_of_layers
from dragoman.pipeline.adaptation.new_vocabulary import shared_tokens, weights_of_vocabulary
from dragoman.pipeline.adaptation.replay import prepare_replay
from dragoman.pipeline.prepared import PreparedData, validation_batches
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.wording import counted
from dragoman.text.conversion import pairs_of
from dragoman.text.corpus import Files, PairFilter
from dragoman.training.checkpoint import (
    TrainingState,
    checkpoints,
    refuse_lost_checkpoints,
    save_checkpoint,
)
from dragoman.training.context import TrainingContext
from dragoman.training.log import new_log
from dragoman.training.loop import validate
from dragoman.training.low_rank import LowRankAdam
from dragoman.training.objective import Objective, corpus_loss
from dragoman.training.world import World
from dragoman.translation.model_folder import (
    PAIRS,
    WEIGHTS,
    StoredModel,
    Tokenizers,
    model_folder,
    read_settings,
    write_about,
)
from dragoman.translation.segmentation import DEFAULT_SPLIT

logger = logging.getLogger(__name__)
PEAK_RATE, FAR_PEAK_RATE, FEWER_LAYERS_PEAK_RATE, LORA_PEAK_RATE = 3e-4, 2e-3, 2e-3, 2e-3
FAR = 50
"""The perplexity of validation before the first update above which a text is far."""
MAX_PASSES = 10
PARTS = {
    "encoder": ("encoder.", "encoder_norm."),
    "decoder": ("decoder.", "decoder_norm."),
    "embeddings": ("source_embedding.", "target_embedding."),
}
"""Beginnings of the names of the weights of each part."""


# ---- preparation


def prepare_adaptation(
    new: Path, recipe: Recipe, files: Files, pair_filter: PairFilter
) -> tuple[Tokenizers, Files]:
    """The initial model's tokenizers, and the files to train on: with old pairs, if there is a replay.

    `new`, the folder of the data, gets the length of the sentences that the initial model was trained on, so
    that adapting to short sentences does not change where long ones are split. Raises `DragomanError` for a
    damaged model, for parts to freeze that it does not have, and where `prepare_replay` does.
    """
    assert recipe.adaptation.initial_model is not None
    stored = StoredModel.load(recipe.adaptation.initial_model)
    sizes = len(stored.tokenizers.source), len(stored.tokenizers.target)
    refuse_unknown_parts(recipe, weight_shapes(recipe.model, *sizes))
    layers = describe_layers(stored.settings, recipe.model)
    exception = ", but not all layers" if layers else ""
    logger.info(
        f"Initial model: {recipe.adaptation.initial_model}; its tokenizers and settings are kept{exception}."
    )
    for sentence in layers:
        logger.info(sentence)
    longest = stored.longest_trained or stored.settings.longest or DEFAULT_SPLIT
    pairs = {PAIRS: list(map(asdict, pairs_of(recipe.data)))} if stored.pairs else {}
    write_about(new, {"longest_source": longest, **pairs})
    if recipe.adaptation.replay or recipe.adaptation.replay_valid:
        files = prepare_replay(new, recipe, files, pair_filter, stored.tokenizers)
    return stored.tokenizers, files


def check_new_vocabulary(recipe: Recipe, tokenizers: Tokenizers) -> None:
    """Say how much of a new vocabulary the initial model has, if there is one.

    Raises `DragomanError` for a damaged model and for parts to freeze that it does not have.
    """
    if not recipe.adaptation.new_vocabulary:
        return
    assert recipe.adaptation.initial_model is not None
    stored = StoredModel.load(recipe.adaptation.initial_model)
    refuse_unknown_parts(recipe, weight_shapes(recipe.model, len(tokenizers.source), len(tokenizers.target)))
    sides = [("", stored.tokenizers.target, tokenizers.target)]
    if tokenizers.source is not tokenizers.target:
        sides = [
            (" of the source", stored.tokenizers.source, tokenizers.source),
            (" of the target", stored.tokenizers.target, tokenizers.target),
        ]
    shared = ", and ".join(
        f"{shared_tokens(parent, child):,} of {counted(len(child), 'token')}{side}"
        for side, parent, child in sides
    )
    logger.info(
        f"Initial model: {recipe.adaptation.initial_model}; its settings are kept, and the embeddings of "
        f"{shared}. Others begin with the mean of the tokens that they are made of."
    )
    for sentence in describe_layers(stored.settings, recipe.model):
        logger.info(sentence)


def refuse_unknown_parts(recipe: Recipe, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise `DragomanError` for parts to freeze and linear maps to adapt that the model does not have.

    `shapes` are those of the weights. Also raises if no weight is left to train, for a rank that is not below
    that of each map, and for running averages, which would change all the same.
    """
    adaptation = recipe.adaptation
    freeze = adaptation.freeze or ()
    for part in freeze:
        if not any(is_frozen(name, (part,)) for name in shapes):
            parts = [
                known_part for known_part in PARTS if any(is_frozen(name, (known_part,)) for name in shapes)
            ]
            modules = sorted({name.split(".")[0] for name in shapes}.difference(parts))
            raise DragomanError(
                f"freeze names {part!r}, and the model has no such part. It has "
                f"{', '.join(parts)}, and the modules {', '.join(modules)}."
            )
    refuse_unknown_maps(adaptation.lora_maps or (), shapes)
    trained = [name for name, shape in shapes.items() if is_trained(name, shape, adaptation)]
    if not trained:
        names = ("freeze",) if adaptation.lora_rank is None else ("freeze", "lora_maps")
        values = {name: getattr(adaptation, name) for name in names}
        conditions = (
            f"{{{name}}} is {', '.join(map(repr, value))}" for name, value in values.items() if value
        )
        raise OptionError(f"No weight of the initial model is left to train: {'; '.join(conditions)}.")
    for name in trained:
        if adaptation.lora_rank is not None and adaptation.lora_rank >= min(shapes[name]):
            raise OptionError(
                f"{{lora_rank}} is {adaptation.lora_rank}, and {name} is a matrix of {shapes[name][0]} × "
                f"{shapes[name][1]}; give a rank below {min(shapes[name])}."
            )
    if len(trained) < len(shapes) and recipe.model.norm == "batch":
        raise OptionError(
            "{freeze} and {lora_rank} do not freeze the running averages of batch normalisation, which the "
            "initial model has; leave them out."
        )


def refuse_unknown_maps(words: Iterable[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise `DragomanError` for a word that is in the name of no linear map."""
    maps = [name for name, shape in shapes.items() if len(shape) == 2]
    for word in words:
        if not any(word in name for name in maps):
            parts = {part for name in maps for part in name.split(".")[:-1] if not part.isdecimal()}
            raise OptionError(
                "{lora_maps} names {word!r}, and no linear map of the initial model has it in its name. "
                "Their names are made of {parts}, and the numbers of layers, as in {example}.",
                word=word,
                parts=", ".join(sorted(parts)),
                example=maps[0].removesuffix(".weight"),
            )


def is_trained(name: str, shape: Sequence[int], adaptation: AdaptationSettings) -> bool:
    """Whether a weight changes, or gets an adapter: by its name in the model and its shape.

    A map to one number, the score of additive attention, gets none: its rank is 1 already.
    """
    if adaptation.lora_rank is not None:
        maps = adaptation.lora_maps or ("attention",)
        vectors = min(shape) == 1 or name.endswith(".score")  # of heads, not a linear map
        if len(shape) != 2 or vectors or not any(word in name for word in maps):
            return False
    return not is_frozen(name, adaptation.freeze or ())


def is_frozen(weight: str, freeze: Iterable[str]) -> bool:
    """Whether a weight, by its name in the model, belongs to one of the parts or modules."""
    beginnings = (beginning for part in freeze for beginning in PARTS.get(part, (f"{part}.",)))
    return f"{weight}.".startswith(tuple(beginnings))


# ---- training


def perplexity_before(model: Model, recipe: Recipe, data: PreparedData, world: World) -> float:
    """The perplexity of the validation data by the initial model: the higher, the further is the new text.

    `model` gets the initial weights. Raises `DragomanError` if they are missing or do not fit.
    """
    load_initial_weights(model, recipe, data.tokenizers)
    objective = Objective.of(model, recipe.training)
    with torch.no_grad():
        return corpus_loss(objective, validation_batches(recipe, data, world), world)["perplexity"]


def load_initial_weights(model: Model, recipe: Recipe, tokenizers: Tokenizers) -> None:
    """Give a model, which has these tokenizers, the weights of the initial model.

    Raises `DragomanError` if they do not fit.
    """
    assert recipe.adaptation.initial_model is not None
    folder = model_folder(recipe.adaptation.initial_model)
    initial, path = read_settings(folder), folder / WEIGHTS
    weights = weights_of_layers(load_tensors(path), initial, recipe.model)
    if recipe.adaptation.new_vocabulary:
        weights = weights_of_vocabulary(weights, Tokenizers.load(folder), tokenizers)
    load_weights(model, weights, path)


def choose_for_adaptation(
    recipe: Recipe, most: int, updates_per_epoch: float, perplexity: Callable[[], float]
) -> tuple[Recipe, list[str]]:
    """The learning rate and the number of updates of an adaptation, where they are not given; the reasons.

    At most 10 passes over the text, of `most` updates that the minutes allow. A warm-up of a tenth of the
    updates, since Adam's second moments are unknown at first; afterwards the rate falls as in equation 3, to
    a third of its peak. The peak is that of `choose_peak_rate`.
    """
    training, peak_rate = recipe.training, recipe.adaptation.peak_rate
    updates, warmup = training.updates, training.warmup_steps
    reasons = []
    if updates is None:
        updates = max(1, int(min(most, MAX_PASSES * updates_per_epoch)))
        reasons.append(f"{counted(updates, 'update')}, at most {MAX_PASSES} passes over the text")
    if warmup is None:
        warmup = max(1, updates // 10)
        reasons.append(f"{counted(warmup, 'warm-up step')}, a tenth of the updates")
    if peak_rate is None:
        peak_rate, reason = choose_peak_rate(recipe, perplexity)
        reasons.append(f"a peak learning rate of {peak_rate:g}, {reason}")
    training = replace(training, updates=updates, warmup_steps=warmup)
    return replace(
        recipe, training=training, adaptation=replace(recipe.adaptation, peak_rate=peak_rate)
    ), reasons


def choose_peak_rate(recipe: Recipe, perplexity: Callable[[], float]) -> tuple[float, str]:
    """The peak learning rate of an adaptation, and the reason.

    0.002 if layers are left out, for adapters, and for a text that the initial model predicts badly; 0.0003
    otherwise. `perplexity` computes that of the validation data by the initial model.
    """
    assert recipe.adaptation.initial_model is not None
    if recipe.adaptation.lora_rank is not None:
        return LORA_PEAK_RATE, "since adapters begin with 0"
    if kept_layers(read_settings(model_folder(recipe.adaptation.initial_model)), recipe.model):
        return FEWER_LAYERS_PEAK_RATE, "since layers are left out"
    if (value := perplexity()) > FAR:
        return FAR_PEAK_RATE, f"since the text is far from that of the initial model: perplexity {value:.4g}"
    return PEAK_RATE, "so that little is forgotten"


def begin(context: TrainingContext, recipe: Recipe, tokenizers: Tokenizers) -> TrainingContext:
    """What the loop is given for an adaptation: frozen weights, the peak rate, an optimizer, a checkpoint.

    The checkpoint of update 0 has the initial model with its validation scores. It is the best one until
    another is better. All processes call this. Raises `DragomanError` if the initial model is missing or does
    not fit.
    """
    adaptation = recipe.adaptation
    assert adaptation.initial_model is not None
    assert adaptation.peak_rate is not None
    for name, weight in context.model.named_parameters():
        weight.requires_grad_(is_trained(name, weight.shape, adaptation))
    if (rank := adaptation.lora_rank) is not None:
        alpha, seed = adaptation.lora_alpha or 2 * rank, recipe.training.seed
        context = replace(context, make_optimizer=lambda model: LowRankAdam(model, rank, alpha, seed))
    if not checkpoints(context.folder):
        refuse_lost_checkpoints(context.folder)
        load_initial_weights(context.model, recipe, tokenizers)
        scores, samples = validate(context.model, 0, context)
        if context.world.is_main:
            log = new_log(context, -1)
            log.write("validation", 0, {"minutes": 0.0, **scores, "samples": samples})
            context.keep_best(context.model)
        state = TrainingState(best=scores, lowest_loss=scores["loss"], highest_bleu=scores["bleu"])
        save_checkpoint(context.model, context.make_optimizer(context.model), state, context)
        context.world.barrier()
    return context

"""What a recipe leaves open, chosen from the text and this machine, and printed with its reason."""

import logging
import math
import time
from dataclasses import replace
from statistics import fmean, pstdev

from dragoman.model.interface import Model
from dragoman.pipeline.minutes import SHARE, choose_updates, seconds_of_validation
from dragoman.pipeline.prepare import choose_vocabulary
from dragoman.pipeline.prepared import PreparedData, make_batches, make_model, make_schedule
from dragoman.pipeline.recipe import Recipe, choose_minutes, learning_rate_schedule, optimizer_of
from dragoman.system.device import has_bfloat16, is_cuda
from dragoman.system.errors import OptionError
from dragoman.system.wording import counted
from dragoman.text.batches import Batches, Update
from dragoman.training.objective import (
    Objective,
    accumulate_gradients,
    make_optimizer,
    with_graphs,
)
from dragoman.training.schedule import make_learning_rate
from dragoman.training.world import World
from dragoman.translation.token_ids import constraint_ids

logger = logging.getLogger(__name__)
TIMED_UPDATES = 8
MIN_ERROR, MAX_ERROR = 0.1, 0.5
"""Bounds of the relative error of a measured speed, which is estimated from the spread of these updates."""
TRAPEZOID_WARMUP = 250
MAX_REPEATED = 60.0
"""Seconds of the timed updates above which they are not repeated: compiling is a small part of them."""


def autoconfigure(recipe: Recipe, data: PreparedData, world: World) -> Recipe:
    """Choose what the recipe leaves open, and say what and why.

    Raises `DragomanError` for texts and search settings that the model could not work with.
    """
    gpu = is_cuda(world.device)
    constraint_ids(recipe.search, data.tokenizers.target)  # raises for test data that could not be translated
    target_tokens = int((data.train.lengths()[1] + 1).sum()) // data.train.statistics.sampled_copies
    recipe, reasons = choose_from_text(recipe, data, target_tokens, gpu)
    batches, training = recipe.batches, recipe.training
    is_open = training.updates is None  # the number of updates is chosen later, and with it the cooldown
    model = make_model(recipe, data, world.device)
    check_positions(model, data)
    logger.info(describe_model(recipe, data, model))
    if batches.micro_batch_tokens == "auto":
        from dragoman.pipeline.micro_batch import choose_micro_batch_tokens

        micro_batch_tokens = choose_micro_batch_tokens(model, recipe, data, world)
        recipe = replace(recipe, batches=replace(batches, micro_batch_tokens=micro_batch_tokens))
        reasons.append(f"{micro_batch_tokens:,} tokens at once, which fit into memory")
    train_batches = make_batches(recipe, data, world)
    updates_per_epoch = len(train_batches.plan(0)) / batches.accumulate
    sharded = training.shard and world.size > 1
    speed, error = (math.nan, 0.0) if sharded else updates_per_second(model, train_batches, recipe, world)
    minutes = choose_minutes(training, gpu)
    updates, validations, validating = updates_and_validations(
        recipe, model, data, minutes, speed, updates_per_epoch, world
    )
    if recipe.adaptation.initial_model is not None:
        from dragoman.pipeline.adaptation.initial_model import choose_for_adaptation, perplexity_before

        recipe, chosen = choose_for_adaptation(
            recipe, updates, updates_per_epoch, lambda: perplexity_before(model, recipe, data, world.local)
        )
        training, reasons = recipe.training, reasons + chosen
    if training.updates is None:
        reasons.append(
            f"as many updates as fit into {minutes:g} min, at most 100,000 or 200 passes; their number is "
            "chosen from the speed of the training"
        )
    recipe = choose_schedule(recipe, training.updates or updates, validations)
    if not is_open:
        recipe = with_cooldown(recipe)
    schedule = make_schedule(recipe)
    updates, warmup = schedule.updates, schedule.warmup_steps
    if training.warmup_steps is None:
        is_paper = training.schedule == "paper"
        is_low = is_paper and round(peak_rate(recipe), 4) == 0.002
        is_half = is_paper and warmup == updates // 2
        half = ", half of the updates: so few may not converge" if is_half else ""
        low = ", to keep the learning rate at 0.002 or below" if is_low else ""
        reasons.append(f"{warmup:,} warm-up step{'s' * (warmup > 1)}{half or low}")
    if reasons:
        logger.info(f"Chosen: {'; '.join(reasons)}.")
    logger.info(describe_training(recipe, updates / updates_per_epoch, is_open))
    if not sharded:
        expected = f"{minutes:g} min" if is_open else duration_between(updates / speed + validating, error)
        tokens = speed * tokens_per_update(train_batches)
        slowest, fastest = tokens * (1 - error), tokens * (1 + error)
        logger.info(f"Expected: {expected}, at {slowest:,.0f} to {fastest:,.0f} target tokens per second.")
    return recipe


def updates_and_validations(
    recipe: Recipe,
    model: Model,
    data: PreparedData,
    minutes: float,
    speed: float,
    updates_per_epoch: float,
    world: World,
) -> tuple[int, int, float]:
    """The updates, those of the recipe or as many as fit, the validations, and the seconds of all of these.

    With the updates of a recipe, 0 validations, which are not chosen, and a tenth of the time.
    """
    if recipe.training.updates is not None:
        return recipe.training.updates, 0, 0.1 * recipe.training.updates / speed
    validation_seconds, validate_every = (
        seconds_of_validation(model, recipe, data, world),
        recipe.training.validate_every,
    )
    updates, validations, seconds = choose_updates(
        minutes, updates_per_epoch, speed, validation_seconds, validate_every
    )
    if seconds > 2 * SHARE * 60 * minutes:
        logger.info(
            f"Validations take {duration(seconds)} of {minutes:g} min: each translates "
            f"{len(data.valid_source):,} pairs. Fewer pairs leave more time to the training."
        )
    return updates, validations, seconds


def choose_from_text(
    recipe: Recipe, data: PreparedData, target_tokens: int, gpu: bool
) -> tuple[Recipe, list[str]]:
    """Vocabulary, batch size, precision and schedule for a corpus with `target_tokens`, and the reasons."""
    tokenizer, batches, training = recipe.tokenizer, recipe.batches, recipe.training
    reasons = []
    if tokenizer.vocabulary is None:
        size = max(len(data.tokenizers.source), len(data.tokenizers.target))
        is_chosen = size == choose_vocabulary(recipe, data.train.statistics.pairs)
        rule = " (40 · √pairs)" if is_chosen else ""
        tokenizer = replace(tokenizer, vocabulary=size)
        reasons.append(f"a vocabulary of {size:,} tokens{rule}")
    source, target = batches.source_tokens_per_batch, batches.target_tokens_per_batch
    if source is None or target is None:
        longest = max(int(lengths.max()) for lengths in data.train.lengths()) + 1
        tokens = max(choose_batch_tokens(target_tokens, gpu), longest)
        batches = replace(
            batches, source_tokens_per_batch=source or tokens, target_tokens_per_batch=target or tokens
        )
        reasons.append(f"{tokens:,} tokens per batch")
    if training.precision is None:
        training = replace(training, precision="bfloat16" if has_bfloat16(gpu) else "float32")
        reasons.append(f"{training.precision}, which this processor multiplies fastest")
    recipe = replace(recipe, training=training)
    schedule = learning_rate_schedule(recipe)
    if training.schedule is None and schedule == "trapezoid":
        reasons.append("a trapezoid as the learning rate, with which a model learns more in few minutes")
    if training.optimizer is None and optimizer_of(recipe) == "muon":
        reasons.append("Muon as the optimizer of matrices, which needs fewer updates")
    training = replace(training, optimizer=optimizer_of(recipe), schedule=schedule)
    return replace(recipe, tokenizer=tokenizer, batches=batches, training=training), reasons


def choose_batch_tokens(target_tokens: int, gpu: bool) -> int:
    """A 200th of the corpus, so that even a small one gives enough updates.

    At most the paper's 25,000 (4,096 on a CPU).
    """
    return min(25_000 if gpu else 4_096, max(1_024, target_tokens // 200))


def choose_schedule(recipe: Recipe, updates: int, validations: int = 0) -> Recipe:
    """Warm-up and intervals for a number of updates; 0 validations are 20, or one in 1,000 updates."""
    training, saved = recipe.training, min(1000, math.ceil(updates / 20))
    validate_every = training.validate_every or (math.ceil(updates / validations) if validations else saved)
    training = replace(
        training,
        updates=updates,
        warmup_steps=training.warmup_steps or choose_warmup(updates, recipe.model.d_model, training.schedule),
        validate_every=validate_every,
        checkpoint_every=training.checkpoint_every or training.validate_every or saved,
    )
    return replace(recipe, training=training)


def with_cooldown(recipe: Recipe, done: int = 0) -> Recipe:
    """The recipe with a cooldown after `done` updates, of a trapezoid: half of all updates at most."""
    training = recipe.training
    if training.schedule != "trapezoid":
        return recipe
    updates = training.updates or 1
    cooldown = training.cooldown_steps or max(1, updates // 2)
    return replace(recipe, training=replace(training, cooldown_steps=max(1, min(cooldown, updates - done))))


def choose_warmup(updates: int, d_model: int, schedule: str | None = "paper") -> int:
    """An eighth of the updates; of a trapezoid at most 250.

    Equation 3 gets more if the rate would exceed 0.002, at most the paper's 4000, and never more than half of
    the updates: a shorter run would end during the warm-up. Its peak rate may exceed 0.002.
    """
    if schedule == "trapezoid":
        return max(1, min(TRAPEZOID_WARMUP, updates // 8))
    return max(1, min(4000, max(updates // 8, 250_000 // d_model), updates // 2))


def check_positions(model: Model, data: PreparedData) -> None:
    """Raise `DragomanError` if a text is longer than the positions that the model learns."""
    for name, corpus in (("training", data.train), ("validation", data.valid)):
        for lengths, limit in zip(
            corpus.lengths(), (model.longest_source, model.longest_target), strict=True
        ):
            if limit is not None and (longest := int(lengths.max()) + 1) > limit:
                raise OptionError(
                    f"A text of the {name} data has {longest} tokens with its end, and the model learns "
                    f"{limit} positions. Raise {{max_positions}}, or leave such pairs out (of the training "
                    f"data, {{longest}} does)."
                )


def describe_model(recipe: Recipe, data: PreparedData, model: Model) -> str:
    """The model in words."""
    settings, (source, target) = recipe.model, (data.tokenizers.source, data.tokenizers.target)
    description = f"vocabularies of {len(source):,} and {len(target):,}"
    sizes = f"a vocabulary of {len(source):,}" if source is target else description
    return (
        f"Model: {settings.architecture}, d_model {settings.d_model}, {settings.encoder_layers} + "
        f"{settings.decoder_layers} layers, dropout {settings.dropout}, {sizes} tokens; "
        f"{sum(weight.numel() for weight in model.parameters()):,} parameters."
    )


def describe_training(recipe: Recipe, passes: float, is_open: bool) -> str:
    """The schedule of the training in words. With `is_open` the number of updates is an estimate."""
    training, batches, updates = recipe.training, recipe.batches, recipe.training.updates or 0
    cooldown = training.cooldown_steps
    part = "the second half" if cooldown is None else f"the last {counted(cooldown, 'update')}"
    fall = f", stays there and falls to 0 in {part}" if training.schedule == "trapezoid" else ""
    return (
        f"Training: {'about ' if is_open else ''}{updates:,} update{'s' * (updates > 1)}"
        f"{'' if is_open else ' at most'}, {passes:.1f} times over the text; "
        f"batches of {batches.source_tokens_per_batch:,} source and {batches.target_tokens_per_batch:,} "
        f"target tokens{f' ({batches.accumulate} per update)' * (batches.accumulate > 1)}; "
        f"{training.precision}; the learning rate rises to {peak_rate(recipe):.4f} at update "
        f"{training.warmup_steps:,}{fall}; a validation every {training.validate_every:,}."
    )


def duration(seconds: float) -> str:
    """A duration in words: `less than a minute`, `1 minute`, `45 minutes`."""
    minutes = round(seconds / 60)
    return "less than a minute" if minutes < 1 else "1 minute" if minutes == 1 else f"{minutes:,} minutes"


def duration_between(seconds: float, error: float) -> str:
    """The durations at a speed with a relative error, in words: `4 to 5 minutes`."""
    low, high = seconds / (1 + error), seconds / (1 - error)
    if duration(low) == duration(high):
        return duration(high)
    return f"{low / 60:.0f} to {duration(high)}" if low > 60 else f"up to {duration(high)}"


def peak_rate(recipe: Recipe) -> float:
    """The highest learning rate, which the warm-up ends with."""
    rate = make_learning_rate(recipe.training, recipe.model.d_model, recipe.adaptation.peak_rate)
    return rate(recipe.training.warmup_steps or 1)


def updates_per_second(model: Model, batches: Batches, recipe: Recipe, world: World) -> tuple[float, float]:
    """The speed of training without validations, and its relative error.

    Measured on a model that is thrown away.

    The updates are computed twice, and the second time counts: the first computation compiles kernels for
    each shape. On a GPU the third time counts, because the second one captures graphs. Updates that take
    longer than `MAX_REPEATED` are computed once. One process is measured, and several are taken to be as many
    times as fast.
    """
    objective = Objective.of(model, recipe.training)
    optimizer = make_optimizer(model, recipe.training.optimizer or "adam")
    trained = objective if world.size > 1 or recipe.data.guided_alignment else with_graphs(objective)
    plan = batches.plan(0)
    chosen = [plan[number * (len(plan) - 1) // TIMED_UPDATES] for number in range(TIMED_UPDATES + 1)]
    updates = [[batches.load(part) for part in batches.split_pairs(pairs)] for pairs in chosen]
    tokens = [sum(batch.tokens for batch in parts) for parts in updates]

    def seconds_for(number: int) -> float:
        started = time.monotonic()
        sums = accumulate_gradients(trained, Update(0, 0, updates[number], tokens[number]), world.local)
        optimizer.step()
        _ = sums.tolist()  # waits for a GPU
        return time.monotonic() - started

    seconds_for(0)
    timed = range(1, TIMED_UPDATES + 1)
    seconds = [seconds_for(number) for number in timed]
    for _ in range(2 if is_cuda(world.device) else 1):
        if sum(seconds) < MAX_REPEATED:
            seconds = [seconds_for(number) for number in timed]
    per_token = [elapsed / count for elapsed, count in zip(seconds, tokens[1:], strict=True)]
    error = 2 * pstdev(per_token) / math.sqrt(TIMED_UPDATES) / fmean(per_token)
    speed = world.size * sum(tokens[1:]) / (sum(seconds) * tokens_per_update(batches))
    return speed, min(MAX_ERROR, max(MIN_ERROR, error))


def tokens_per_update(batches: Batches) -> float:
    """Target tokens of an update, END included: the mean of the first epoch."""
    plan = batches.plan(0)
    return sum(int(batches.lengths[1][pairs].sum()) for pairs in plan) / len(plan) * batches.accumulate

"""What a recipe leaves open, chosen from the text and this machine, and said with its reason."""

import math
import time
from dataclasses import replace

import numpy as np
import torch

from dragoman.model.interface import Model
from dragoman.pipeline.components import make_batches, make_model, make_objective
from dragoman.pipeline.prepare import Prepared
from dragoman.pipeline.recipe import Recipe, choose_batch_tokens, choose_schedule, choose_updates, choose_vocabulary
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batches, Update
from dragoman.training.context import Say
from dragoman.training.distributed import World
from dragoman.training.loop import make_optimizer
from dragoman.training.memory import fitting_tokens
from dragoman.training.objective import accumulate
from dragoman.training.schedule import learning_rate
from dragoman.translation.constraints import constraint_ids

GRADIENT_AND_MOMENTS = 3  # times the weights' bytes: what the first update adds to them


def settle(recipe: Recipe, data: Prepared, say: Say, world: World) -> Recipe:
    """Choose what the recipe leaves open, and say what and why."""
    gpu = world.device.type == "cuda"
    constraint_ids(recipe.search, data.tokenizers.target)  # before any work: refuses what the test data could not be translated with
    target = int(data.train.lengths()[1].sum()) + len(data.train)
    recipe, why = settled_by_text(recipe, data, target, gpu)
    batches, training = recipe.batches, recipe.training
    fresh = make_model(recipe, data, world.device)
    refuse_beyond_positions(fresh, data)
    say(model_told(recipe, data, fresh))
    if batches.max_tokens == "auto":
        recipe = replace(recipe, batches=replace(batches, max_tokens=max_tokens(fresh, recipe, data, world)))
        why.append(f"{recipe.batches.max_tokens:,} tokens at once, which fit into memory")
    train_batches = make_batches(recipe, data, world)
    per_epoch = max(1, len(train_batches.plan(0)) // batches.accumulate)
    sharded = training.shard and world.size > 1
    speed = math.nan if sharded else updates_per_second(fresh, train_batches, recipe, world)
    minutes = training.minutes * (4 if gpu else 1)
    if training.updates is None:
        why.append(f"as many updates as {minutes:g} minutes allow, and 200 passes at most")
    recipe = choose_schedule(recipe, training.updates or choose_updates(minutes, per_epoch, speed))
    if training.warmup_steps is None:
        low = ", which keep the rate at 0.002 or below" * (round(peak_rate(recipe), 4) <= 0.002)
        why.append(f"{recipe.training.warmup_steps:,} warm-up steps{low}")
    if why:
        say(f"Chosen: {'; '.join(why)}.")
    assert recipe.training.updates is not None
    say(training_told(recipe, recipe.training.updates / per_epoch))
    if not sharded:
        say(f"Expected: {recipe.training.updates / speed / 60:.0f} minutes, at {speed * target / per_epoch:,.0f} target tokens a second.")
    return recipe


def settled_by_text(recipe: Recipe, data: Prepared, target: int, gpu: bool) -> tuple[Recipe, list[str]]:
    """Vocabulary, batches and precision, chosen for a corpus of so many target tokens; and the reasons."""
    tokenizer, batches, training = recipe.tokenizer, recipe.batches, recipe.training
    why = []
    if tokenizer.vocabulary is None:
        tokenizer = replace(tokenizer, vocabulary=max(len(data.tokenizers.source), len(data.tokenizers.target)))
        rule = ", which is 40 · √pairs within bounds" * (tokenizer.vocabulary == choose_vocabulary(recipe, data.train.found.pairs))
        why.append(f"a vocabulary of {tokenizer.vocabulary:,} tokens{rule}")
    if batches.source_tokens_per_batch is None or batches.target_tokens_per_batch is None:
        tokens = choose_batch_tokens(target, gpu)
        batches = replace(
            batches,
            source_tokens_per_batch=batches.source_tokens_per_batch or tokens,
            target_tokens_per_batch=batches.target_tokens_per_batch or tokens,
        )
        why.append(f"{tokens:,} tokens a batch, a 200th of the corpus's {target:,} within bounds")
    if training.precision is None:
        training = replace(training, precision="bfloat16" if has_bfloat16(gpu) else "float32")
        why.append(f"{training.precision}, which this processor multiplies fastest")
    return replace(recipe, tokenizer=tokenizer, batches=batches, training=training), why


def refuse_beyond_positions(model: Model, data: Prepared) -> None:
    """Raise `DragomanError` where a text is longer than the positions that the model learns, before it is met."""
    for name, corpus in (("training", data.train), ("validation", data.valid)):
        for lengths, most in zip(corpus.lengths(), (model.longest_source, model.longest_target), strict=True):
            if most is not None and (longest := int(lengths.max()) + 1) > most:
                raise DragomanError(
                    f"A text of the {name} data has {longest} tokens with its end, and the model learns {most} positions. Raise "
                    "--max-positions, or leave such pairs out (of those to train on, --longest does)."
                )


def model_told(recipe: Recipe, data: Prepared, model: Model) -> str:
    """The model in words."""
    settings, (source, target) = recipe.model, (data.tokenizers.source, data.tokenizers.target)
    vocabularies = f"a vocabulary of {len(source):,}" if source is target else f"vocabularies of {len(source):,} and {len(target):,}"
    return (
        f"Model: {settings.architecture}, d_model {settings.d_model}, {settings.encoder_layers} + {settings.decoder_layers} layers, "
        f"dropout {settings.dropout}, {vocabularies} tokens; {sum(weight.numel() for weight in model.parameters()):,} parameters."
    )


def training_told(recipe: Recipe, passes: float) -> str:
    """The plan of the training in words."""
    training, batches = recipe.training, recipe.batches
    return (
        f"Training: {training.updates:,} updates at most, {passes:.0f} passes, of {batches.accumulate} times "
        f"{batches.source_tokens_per_batch:,} source and {batches.target_tokens_per_batch:,} target tokens; {training.precision}; the rate "
        f"rises to {peak_rate(recipe):.4f} at update {training.warmup_steps:,}; a validation every {training.validate_every:,}."
    )


def peak_rate(recipe: Recipe) -> float:
    """The highest learning rate, at the end of the warm-up."""
    warmup = recipe.training.warmup_steps or 1
    return recipe.training.learning_rate_scale * learning_rate(warmup, recipe.model.d_model, warmup)


def has_bfloat16(gpu: bool) -> bool:
    """Whether the processor multiplies bfloat16 matrices faster than float32."""
    return (
        torch.cuda.is_bf16_supported(including_emulation=False)
        if gpu
        else bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    )


def max_tokens(model: Model, recipe: Recipe, data: Prepared, world: World) -> int:
    """How many tokens of the longest pairs fit into memory at once."""
    objective = make_objective(recipe, model)
    batches = make_batches(replace(recipe, batches=replace(recipe.batches, max_tokens=None)), data, world)
    lengths = np.maximum(*batches.lengths)
    longest_first = np.argsort(-lengths)

    def forward(pairs: int) -> object:
        return objective(batches.load(longest_first[:pairs]).to(world.device))

    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    return fitting_tokens(forward, int(lengths.max()), max(batches.caps), world.device, GRADIENT_AND_MOMENTS * weights)


def updates_per_second(model: Model, batches: Batches, recipe: Recipe, world: World) -> float:
    """Train a model that is thrown away on nine batches; a tenth is added for validations.

    The first batch is not counted; where the others take less than three seconds they are taken again, since the first time kernels are
    made for each shape. It is measured on one process alone; several are taken to be as many times as fast.
    """
    objective, optimizer = make_objective(recipe, model), make_optimizer(model)
    plan = batches.plan(0)
    updates = [[batches.load(part) for part in batches.parts(plan[number * (len(plan) - 1) // 8])] for number in range(9)]
    tokens = [sum(batch.tokens for batch in parts) for parts in updates]

    def seconds_of(numbers: range) -> float:
        started = time.monotonic()
        for number in numbers:
            sums = accumulate(objective, Update(0, 0, updates[number], tokens[number]), world.alone)
            optimizer.step()
            _ = sums.tolist()  # waits for a GPU
        return time.monotonic() - started

    seconds_of(range(1))
    seconds = seconds_of(range(1, 9))
    if seconds < 3:
        seconds = seconds_of(range(1, 9))
    tokens_per_update = int(batches.lengths[1].sum()) / len(plan) * recipe.batches.accumulate
    return world.size * sum(tokens[1:]) / (seconds * tokens_per_update * 1.1)

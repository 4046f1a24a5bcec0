"""The one road: text files → tokenizers → corpus → batches → training → the model folder → scores."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout

from dragoman.config import overlay, read_toml, write_toml
from dragoman.decoding.alignment import refuse_without_heads
from dragoman.decoding.folder import save_model
from dragoman.decoding.native import SEARCH
from dragoman.decoding.settings import SearchSettings
from dragoman.decoding.translator import Translator, constraints_of
from dragoman.disk import whole
from dragoman.errors import DragomanError
from dragoman.evaluation.metrics import Score, bleu, chrf, suitable_tokenization
from dragoman.model.build import build_model
from dragoman.model.contract import Model
from dragoman.model.kernels import compile_kernels
from dragoman.native import build
from dragoman.prepare import Prepared, prepare
from dragoman.recipe import (
    Recipe,
    changed,
    changes,
    choose_batch_tokens,
    choose_pace,
    choose_updates,
    choose_vocabulary,
    differences,
    paths,
    told_apart,
)
from dragoman.text.batches import Batches, Update
from dragoman.text.datasets import DATASETS, with_dataset
from dragoman.text.lines import read_lines
from dragoman.text.settings import DataSettings
from dragoman.training import checkpoint
from dragoman.training.distributed import World, world
from dragoman.training.job import Job, Samples, Say, Schedule, Validate
from dragoman.training.log import NO_TENSORBOARD
from dragoman.training.memory import fitting_tokens, give_back_memory, keep_memory_and_kernels
from dragoman.training.objective import Objective, accumulate, corpus_loss
from dragoman.training.resume import Place, averaged
from dragoman.training.schedule import learning_rate
from dragoman.training.train import better, make_optimizer, stopped_early, train

SAMPLES = 3  # validation pairs whose translations are shown each time


def run(recipe: Recipe, say: Say) -> Path:
    """Do what the recipe says, or go on with what was begun; give the run's folder. `say` gets sentences for people.

    Where torchrun has started several processes, they train together, and the first one speaks and writes. Raises
    `DragomanError` for whatever the user can put right.
    """
    assert recipe.out is not None
    with world() as here, lock(recipe.out) if here.leads else nullcontext():
        locked_run(recipe.out, recipe, say if here.leads else silent, here)
    return recipe.out


def silent(_: str) -> None:
    """What is said by the processes that do not lead."""


def locked_run(out: Path, recipe: Recipe, say: Say, here: World) -> None:
    """`run`, where no other process works on the folder."""
    keep_memory_and_kernels()
    set_threads(recipe)
    here.first(lambda: begin(out, recipe, say, here))
    if (out / "result.json").exists():
        say(f"{out} is finished; there is nothing left to train.")
        return
    recorded = recorded_recipe(out)
    assert recorded is not None
    recipe = replace(recorded, out=out)
    data, schedule = Prepared.load(out / "data"), schedule_of(recipe)
    set_threads(recipe)
    place = fit(recipe, schedule, data, say, here)
    if place.step < schedule.updates and not stopped_early(place, recipe.training, schedule):
        say(f"Stopped after update {place.step}; nothing is lost. Go on with: dragoman resume {out}")
        return
    finish(recipe, schedule, data, place, say, here)


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
    recorded = recorded_recipe(out)
    if recorded is not None:
        if other := told_apart(differences(recipe, recorded), recorded):
            raise DragomanError(
                f"{out} holds a run with other settings: {'; '.join(other)}. Choose another --out, or go on as it was begun with: "
                f"dragoman resume {out}"
            )
        new = changes(recipe, recorded)
        if not (out / "result.json").exists():
            say(f"Going on with {out}.")
            for path in changed_since(out / "data", recipe.data):
                say(f"{path} is newer than this run's copy of it; the run goes on with the copy.")
            if new:
                write_toml(changed(recipe, recorded), out / "recipe.toml")
                say(f"Changed: {'; '.join(told_apart(new, recorded))}.")
        elif "training.updates" in new:
            raise DragomanError(
                f"{out} is finished, after {recorded.training.updates:,} updates at most; choose another --out for another end."
            )
        return
    if recipe.training.shard and world.size > 1 and recipe.training.updates is None:
        raise DragomanError("With --shard no process could measure the speed by itself, so that the run needs a number of --updates.")
    if recipe.training.tensorboard and find_spec("tensorboard") is None:
        raise DragomanError(NO_TENSORBOARD)
    if recipe.data.dataset in DATASETS:
        dataset = DATASETS[recipe.data.dataset]
        say(f"{recipe.data.dataset}: {dataset.about}. Its licence: {dataset.licence}.")
    if world.device.type == "cpu":  # what will be needed is compiled while the text is prepared
        if recipe.training.fuses and not compile_kernels():
            say("PyTorch alone trains, slower: the kernels need Linux and g++.")
        build.begin(SEARCH)
    prepare(out, replace(recipe, data=paths(with_dataset(recipe.data))), say)
    write_toml(settle(recipe, Prepared.load(out / "data"), say, world), out / "recipe.toml")


def changed_since(prepared: Path, data: DataSettings) -> list[Path]:
    """The text files that were written after the text was prepared."""
    before = (prepared / "train" / "corpus.json").stat().st_mtime
    given = (data.source, data.target, data.valid_source, data.valid_target, data.test_source, data.test_target)
    files = ((data.folder or Path()) / path for path in given if path is not None)
    return [path for path in files if path.exists() and path.stat().st_mtime > before]


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
    """The recipe that a run was started with, or None."""
    path = out / "recipe.toml"
    return overlay(Recipe(), read_toml(path), str(path)) if path.exists() else None


# ---- choices


def settle(recipe: Recipe, data: Prepared, say: Say, world: World) -> Recipe:
    """Choose what the recipe leaves open, and say what and why."""
    gpu = world.device.type == "cuda"
    refuse_without_heads(recipe.search, recipe.model.architecture == "transformer")
    constraints_of(recipe.search, data.tokenizers.target)  # before any work: refuses what the test data could not be translated with
    target = int(data.train.lengths()[1].sum()) + len(data.train)
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
    recipe = replace(recipe, tokenizer=tokenizer, batches=batches, training=training)
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
    if training.updates is None:
        why.append(f"as many updates as {training.minutes:g} minutes allow, and 200 passes at most")
    recipe = choose_pace(recipe, training.updates or choose_updates(recipe, per_epoch, speed, gpu))
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
    return recipe.training.rate_scale * learning_rate(warmup, recipe.model.d_model, warmup)


def has_bfloat16(gpu: bool) -> bool:
    """Whether the processor multiplies bfloat16 matrices faster than float32."""
    return (
        torch.cuda.is_bf16_supported(including_emulation=False)
        if gpu
        else bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    )


def make_model(recipe: Recipe, data: Prepared, device: torch.device) -> Model:
    """Fresh weights, the same for the same seed. Raises `DragomanError` where settings and vocabularies contradict each other."""
    torch.manual_seed(recipe.training.seed)
    return build_model(recipe.model, len(data.tokenizers.source), len(data.tokenizers.target)).to(device)


def make_objective(recipe: Recipe, model: Model) -> Objective:
    """The model with its loss."""
    settings = recipe.training
    return Objective(model, settings.label_smoothing, settings.precision == "bfloat16", settings.fuses)


def make_batches(recipe: Recipe, data: Prepared, world: World) -> Batches:
    """The training batches of this process."""
    batches = recipe.batches
    assert batches.source_tokens_per_batch is not None
    assert batches.target_tokens_per_batch is not None
    assert not isinstance(batches.max_tokens, str)
    return Batches(
        data.train,
        batches.source_tokens_per_batch,
        batches.target_tokens_per_batch,
        recipe.training.seed,
        batches.accumulate,
        batches.max_tokens,
        world.rank,
        world.size,
    )


def max_tokens(model: Model, recipe: Recipe, data: Prepared, world: World) -> int:
    """How many tokens of the longest pairs fit into memory at once."""
    objective = make_objective(recipe, model)
    batches = make_batches(replace(recipe, batches=replace(recipe.batches, max_tokens=None)), data, world)
    lengths = np.maximum(*batches.lengths)
    longest_first = np.argsort(-lengths)

    def forward(pairs: int) -> object:
        return objective(batches.load(longest_first[:pairs]).to(world.device))

    return fitting_tokens(forward, int(lengths.max()), max(batches.caps), world.device)


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


def schedule_of(recipe: Recipe) -> Schedule:
    """The numbers that the loop needs, all chosen."""
    training = recipe.training
    assert training.updates
    assert training.warmup_steps
    assert training.validate_every
    assert training.checkpoint_every
    return Schedule(
        updates=training.updates,
        warmup_steps=training.warmup_steps,
        validate_every=training.validate_every,
        checkpoint_every=training.checkpoint_every,
        bfloat16=training.precision == "bfloat16",
    )


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
        translator = Translator(model, data.tokenizers, workers=torch.get_num_threads(), native="float32" if in_cpp else None)
        mine = translator.translate(world.share(data.valid_source), SearchSettings(beam_size=1))
        translations = world.join(mine, len(data.valid_source))
        model.train()
        give_back_memory()
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
            save_model(out / "model", model, recipe.model, data.tokenizers, longest_source(data))
    else:
        scores, chosen = place.best, f"the checkpoint at {place.best_step}"
    world.wait()
    say(f"The model is {chosen}, after {place.step} updates in {place.seconds / 60:.1f} minutes.")
    result = {"model": chosen, "updates": place.step, "minutes": place.seconds / 60, "validation": scores}
    if (out / "data" / "test.source.txt").exists():
        source, target = (list(read_lines(out / "data" / f"test.{side}.txt")) for side in ("source", "target"))
        mine = Translator.load(out, str(world.device)).translate(world.share(source), recipe.search)
        translations = world.join(mine, len(source))
        tested: list[Score] = [bleu(translations, target, suitable_tokenization(target)), chrf(translations, target)]
        for score in tested:
            say(f"Test: {score}")
        result["test"] = [asdict(score) for score in tested]
        if world.leads:
            with whole(out / "test.hypotheses.txt") as new:
                new.write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")
    if world.leads:
        with whole(out / "result.json") as new:
            new.write_text(json.dumps(result, indent=2) + "\n")
    world.wait()
    say(f"Translate with: dragoman translate {out} < FILE")

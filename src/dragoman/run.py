"""The one road: text files → tokenizers → corpus → batches → training → the model folder → scores."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from dragoman.config import overlay, read_toml, write_toml
from dragoman.decoding.translator import Translator, save_model
from dragoman.errors import DragomanError
from dragoman.evaluation.metrics import Score, bleu, chrf, suitable_tokenization
from dragoman.model.build import build_model
from dragoman.model.contract import Model
from dragoman.prepare import Prepared, prepare
from dragoman.recipe import Recipe, choose_batch_tokens, choose_pace, choose_updates, differences, paths
from dragoman.text.batches import Batches
from dragoman.text.datasets import DATASETS, with_dataset
from dragoman.text.lines import read_lines
from dragoman.training import checkpoint
from dragoman.training.memory import keep_freed_memory
from dragoman.training.schedule import learning_rate
from dragoman.training.train import (
    Place,
    Schedule,
    accumulate,
    averaged,
    better,
    corpus_loss,
    make_optimizer,
    stopped_early,
    train,
)

Say = Callable[[str], None]


def run(recipe: Recipe, say: Say) -> Path:
    """Do what the recipe says, or go on with what was begun; give the run's folder. `say` gets sentences for people.

    Raises `DragomanError` for whatever the user can put right.
    """
    assert recipe.out is not None
    with lock(recipe.out):
        locked_run(recipe.out, recipe, say)
    return recipe.out


def locked_run(out: Path, recipe: Recipe, say: Say) -> None:
    """`run`, where no other process works on the folder."""
    recorded = recorded_recipe(out)
    if recorded is not None and (changed := differences(recipe, recorded)):
        raise DragomanError(
            f"{out} holds a run with other settings: {'; '.join(changed)}. Choose another --out, or go on as it was begun with: "
            f"dragoman resume {out}"
        )
    if (out / "result.json").exists():
        say(f"{out} is finished; there is nothing left to train.")
        return
    keep_freed_memory()
    if recorded is None:
        if recipe.data.dataset in DATASETS:
            dataset = DATASETS[recipe.data.dataset]
            say(f"{recipe.data.dataset}: {dataset.about}. Its licence: {dataset.licence}.")
        prepare(out, replace(recipe, data=paths(with_dataset(recipe.data))), say)
    else:
        recipe = replace(recorded, out=out)
        say(f"Going on with {out}.")
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    data = Prepared.load(out / "data")
    if recorded is None:
        recipe = settle(recipe, data, say)
        write_toml(recipe, out / "recipe.toml")
    schedule = schedule_of(recipe)
    place = fit(recipe, schedule, data, say)
    if place.step < schedule.updates and not stopped_early(place, recipe.training, schedule):
        say(f"Stopped after update {place.step}; nothing is lost. Go on with: dragoman resume {out}")
        return
    finish(recipe, schedule, data, place, say)


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
        with held.acquire(timeout=0):
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


def settle(recipe: Recipe, data: Prepared, say: Say) -> Recipe:
    """Choose what the recipe leaves open, and say what and why."""
    gpu = torch.cuda.is_available()
    target = int(data.train.lengths()[1].sum()) + len(data.train)
    tokenizer, batches, training = recipe.tokenizer, recipe.batches, recipe.training
    why = []
    if tokenizer.vocabulary is None:
        tokenizer = replace(tokenizer, vocabulary=max(len(data.tokenizers.source), len(data.tokenizers.target)))
        why.append(f"a vocabulary of {tokenizer.vocabulary:,} tokens, as 40 · √pairs is")
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
    fresh, train_batches = make_model(recipe, data), make_batches(recipe, data)
    say(model_told(recipe, data, fresh))
    per_epoch = max(1, len(train_batches.plan(0)) // batches.accumulate)
    updates = training.updates
    if updates is None:
        speed = updates_per_second(fresh, train_batches, recipe, training.precision == "bfloat16")
        updates = choose_updates(recipe, per_epoch, speed, gpu)
        why.append(
            f"{updates:,} updates, for {training.minutes:g} minutes at the {speed * target / per_epoch:,.0f} target tokens a second that "
            "were measured, and 200 passes at most"
        )
    recipe = choose_pace(recipe, updates)
    if training.warmup_steps is None:
        why.append(f"{recipe.training.warmup_steps:,} warm-up steps, which keep the rate below 0.002")
    if why:
        say(f"Chosen: {'; '.join(why)}.")
    say(training_told(recipe, updates / per_epoch))
    return recipe


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
    training, batches, warmup = recipe.training, recipe.batches, recipe.training.warmup_steps or 1
    rate = training.rate_scale * learning_rate(warmup, recipe.model.d_model, warmup)
    return (
        f"Training: {training.updates:,} updates at most, {passes:.0f} passes, of {batches.accumulate} times "
        f"{batches.source_tokens_per_batch:,} source and {batches.target_tokens_per_batch:,} target tokens; {training.precision}; the rate "
        f"rises to {rate:.4f} at update {warmup:,}; a validation every {training.validate_every:,}."
    )


def has_bfloat16(gpu: bool) -> bool:
    """Whether the processor multiplies bfloat16 matrices faster than float32."""
    return (
        torch.cuda.is_bf16_supported(including_emulation=False)
        if gpu
        else bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    )


def device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_model(recipe: Recipe, data: Prepared) -> Model:
    """Fresh weights, the same for the same seed. Raises `DragomanError` where settings and vocabularies contradict each other."""
    torch.manual_seed(recipe.training.seed)
    return build_model(recipe.model, len(data.tokenizers.source), len(data.tokenizers.target)).to(device())


def make_batches(recipe: Recipe, data: Prepared) -> Batches:
    """The training batches."""
    source_tokens, target_tokens = recipe.batches.source_tokens_per_batch, recipe.batches.target_tokens_per_batch
    assert source_tokens is not None
    assert target_tokens is not None
    return Batches(data.train, source_tokens, target_tokens, recipe.training.seed)


def updates_per_second(model: Model, batches: Batches, recipe: Recipe, bfloat16: bool) -> float:
    """Train a model that is thrown away on a few batches. The first one is not counted; a tenth is added for validations."""
    optimizer = make_optimizer(model)
    plan = batches.plan(0)
    chosen = [batches.load(plan[number * (len(plan) - 1) // 8]) for number in range(9)]
    for number, batch in enumerate(chosen):
        if number == 1:
            started = time.monotonic()
        accumulate(model, [batch], recipe.training.label_smoothing, bfloat16)
        optimizer.step()
    seconds = (time.monotonic() - started) / sum(batch.tokens for batch in chosen[1:])
    tokens_per_update = int(batches.lengths[1].sum()) / len(plan) * recipe.batches.accumulate
    return 1 / (seconds * tokens_per_update * 1.1)


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


def fit(recipe: Recipe, schedule: Schedule, data: Prepared, say: Say) -> Place:
    """Train, from the start or the newest checkpoint; `out/model` always holds the best model so far."""
    assert recipe.out is not None
    out = recipe.out

    def keep_best(model: Model) -> None:
        save_model(out / "model", model, recipe.model, data.tokenizers)

    return train(
        make_model(recipe, data),
        make_batches(recipe, data),
        recipe.training,
        schedule,
        width=recipe.model.d_model,
        folder=out,
        validate=validation(recipe, schedule, data, say),
        keep_best=keep_best,
        accumulate_batches=recipe.batches.accumulate,
    )


def validation(recipe: Recipe, schedule: Schedule, data: Prepared, say: Say) -> Callable[[Model], dict[str, float]]:
    """The function that judges a model on the validation pairs: losses, and BLEU of greedy translations."""
    tokens = max(recipe.batches.target_tokens_per_batch or 0, *(int(lengths.max()) + 1 for lengths in data.valid.lengths()))
    plan = Batches(data.valid, tokens, tokens, seed=0)
    batches = [plan.load(pairs) for pairs in plan.plan(0)]
    tokenize = suitable_tokenization(data.valid_target)

    def validate(model: Model) -> dict[str, float]:
        scores = corpus_loss(model, batches, recipe.training.label_smoothing, schedule.bfloat16)
        translations = Translator(model, data.tokenizers).greedy(data.valid_source)
        model.train()
        scores["bleu"] = bleu(translations, data.valid_target, tokenize).value
        say(
            f"Validation: loss {scores['loss']:.3f}, negative log-likelihood {scores['nll']:.3f}, perplexity "
            f"{scores['perplexity']:.2f}, BLEU {scores['bleu']:.2f} (greedy)."
        )
        return scores

    return validate


def finish(recipe: Recipe, schedule: Schedule, data: Prepared, place: Place, say: Say) -> None:
    """Keep the best checkpoint or the average of the last, whichever validates better; score the test data; write result.json."""
    assert recipe.out is not None
    assert place.best is not None
    out = recipe.out
    model = make_model(recipe, data)
    tensors, steps = averaged(out, recipe.training.average, schedule.checkpoint_every)
    checkpoint.load_weights(model, tensors, out / "checkpoints")
    scores = validation(recipe, schedule, data, say)(model)
    if better(scores, place.best, recipe.training.best_by):
        save_model(out / "model", model, recipe.model, data.tokenizers)
        chosen = f"the average of the checkpoints at {', '.join(map(str, steps))}"
    else:
        scores, chosen = place.best, f"the checkpoint at {place.best_step}"
    say(f"The model is {chosen}, after {place.step} updates in {place.seconds / 60:.1f} minutes.")
    result = {"model": chosen, "updates": place.step, "minutes": place.seconds / 60, "validation": scores}
    if (out / "data" / "test.source.txt").exists():
        source, target = (list(read_lines(out / "data" / f"test.{side}.txt")) for side in ("source", "target"))
        translations = Translator.load(out).translate(source, recipe.search)
        (out / "test.hypotheses.txt").write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")
        tested: list[Score] = [bleu(translations, target, suitable_tokenization(target)), chrf(translations, target)]
        for score in tested:
            say(f"Test: {score}")
        result["test"] = [asdict(score) for score in tested]
    new = out / "result.json.new"
    new.write_text(json.dumps(result, indent=2) + "\n")
    new.replace(out / "result.json")
    say(f"Translate with: dragoman translate {out} < FILE")

"""From a recipe to a trained model: prepare, train, finish. To be read downwards."""

import json
import logging
import math
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from dragoman import __version__
from dragoman.evaluation.measures import chrf
from dragoman.evaluation.metrics import Score, bleu, suitable_tokenization
from dragoman.model.interface import Model
from dragoman.model.weights import load_tensors, load_weights
from dragoman.pipeline.adaptation.replay import validate_both, with_old_validation
from dragoman.pipeline.autoconfigure import autoconfigure, duration, with_cooldown
from dragoman.pipeline.budget import (
    BUDGET,
    RESERVE,
    Budget,
    budget_until,
    choose_updates,
    most_updates,
    open_ended,
    share_before_choice,
    shortened,
)
from dragoman.pipeline.minutes import seconds_to_translate
from dragoman.pipeline.pair_scores import mean_scores, validate_pairs
from dragoman.pipeline.passport import add_passport
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import (
    PreparedData,
    keep,
    make_batches,
    make_model,
    make_schedule,
    validation_batches,
)
from dragoman.pipeline.recipe import Recipe, check_recipe, choose_minutes, read_recipe, resolve_paths
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.clock import moment, seconds_until
from dragoman.system.device import is_cpu, is_cuda
from dragoman.system.errors import OptionError, OptionMessage, SeveralSentences
from dragoman.system.files import copy_folder, write_lines
from dragoman.system.machine import configure_allocator, trim_memory
from dragoman.system.messages import messages_to, silent
from dragoman.system.toml import write_toml
from dragoman.text.lines import read_lines
from dragoman.training.checkpoint import (
    TrainingState,
    average_checkpoints,
    newest_intact,
    read_state,
    regular_checkpoints,
)
from dragoman.training.context import Samples, Scores, TrainingContext, Validate
from dragoman.training.events import Observer
from dragoman.training.interrupt import TrainingEndedError, TrainingInterruptedError
from dragoman.training.log import read_events
from dragoman.training.loop import is_finished, train
from dragoman.training.objective import Objective, corpus_loss, make_optimizer
from dragoman.training.process_group import process_group
from dragoman.training.schedule import make_learning_rate
from dragoman.training.settings import Schedule
from dragoman.training.world import World
from dragoman.translation.translator import Translator

logger = logging.getLogger(__name__)
PARTS_UNTIL_STOP = 5  # each half of the time until `stop_at` that is left: 97 % of it in all
SAMPLES = 3  # validation pairs whose translations are logged


def run(recipe: Recipe, observer: Observer | None = None) -> Path:
    """Train a model from a recipe, or resume its run. Returns the run's folder.

    Processes that torchrun has started train together; the main one writes files and messages. The observer
    is told of each event of the log. If it ends the training, the run is finished with the model so far.

    Raises `DragomanError` for whatever the user can correct, and `TrainingInterruptedError` if a signal
    ended the training.
    """
    check_recipe(recipe)
    recipe = with_date(recipe)
    out, observer = recipe.folder, observer or Observer()
    with (
        process_group() as world,
        lock(out) if world.is_main else nullcontext(),
        nullcontext() if world.is_main else messages_to(silent),
        flushed_denormals(),
    ):
        configure_allocator()
        set_threads(recipe)
        world.main_first(lambda: open_run(out, recipe, world))
        if (out / "result.json").exists():
            command = f"dragoman train {quote(f'{out}/recipe.toml')} --updates MORE"
            logger.info(f"{out} is finished. To train it further: {command}")
            return out
        recipe = read_recipe(out)
        set_threads(recipe)
        data = PreparedData.load(out / "data")
        if world.is_main:
            add_passport(out, __version__)
        try:
            if (out / BUDGET).exists():
                recipe = train_until_choice(recipe, data, world, observer)
            if recipe.training.stop_at is not None:
                recipe = train_until_stop(recipe, data, world, observer)
            state = fit(recipe, make_schedule(recipe), data, world, observer=observer)
        except TrainingEndedError as end:
            recipe = end_at(end.step, recipe, world)
            state = fit(recipe, make_schedule(recipe), data, world)  # reads the checkpoint
        finish(recipe, data, state, world)
    return out


@contextmanager
def lock(out: Path) -> Iterator[None]:
    """Keep other processes from training in the folder. A new folder is removed if nothing was written to it.

    Raises `DragomanError` if another process has locked it, or if it is not a run and has files that a run
    would damage.
    """
    names = ("data", "model", "model.toml", "best", "checkpoints", "log.jsonl", "result.json")
    existing = [name for name in (*names, "test.hypotheses.txt") if (out / name).exists()]
    is_prepared = existing == ["data"] and (out / "data" / "train" / "corpus.json").exists()
    existing += [path.parts[-4] for path in sorted(out.glob("*/data/train/corpus.json"))[:3]]
    if existing and not is_prepared and not (out / "recipe.toml").exists():
        raise OptionError(
            "{folder} is not a run, and it has {files}, which a run would damage; choose another {out}. A "
            "run has a recipe.toml, which is missing there.",
            folder=out,
            files=", ".join(existing),
        )
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        locked = FileLock(out / ".lock").acquire(timeout=1)  # `dragoman runs` may hold it for a moment
    except (Timeout, FileNotFoundError) as error:  # the latter if its holder ends and removes the folder
        raise OptionError(
            "Another process is training in {folder}; wait for it, or choose another {out}.", folder=out
        ) from error
    with locked:
        try:
            yield
        finally:  # under the lock: otherwise the next holder's folder could be removed
            if is_new and not [path for path in out.iterdir() if path.name != ".lock"]:
                shutil.rmtree(out, ignore_errors=True)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Compute with 0 instead of numbers below 1e-38, which are slow: Adam's moments fade to such numbers.

    Threads that start meanwhile, PyTorch's included, keep this setting.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def set_threads(recipe: Recipe) -> None:
    """Use as many CPU threads as the recipe says, if it does."""
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)


def with_date(recipe: Recipe) -> Recipe:
    """The recipe with the date of its `stop_at`, which may be a time of the day."""
    if (stop_at := recipe.training.stop_at) is None:
        return recipe
    date = moment(stop_at, datetime.now()).isoformat(timespec="seconds")
    return replace(recipe, training=replace(recipe.training, stop_at=date))


# ---- prepare


def open_run(out: Path, recipe: Recipe, world: World) -> None:
    """Reopen a run that has begun; otherwise prepare the text and choose what the recipe leaves open.

    `out/recipe.toml` then has all settings.

    Raises `DragomanError` for text or settings that cannot be used, and with `shard` without `updates`.
    """
    if (out / "recipe.toml").exists():
        from dragoman.pipeline.reopen import reopen

        reopen(out, recipe)
        return
    if recipe.training.stop_at is not None and seconds_until(recipe.training.stop_at) <= 0:
        raise OptionError(
            "{stop_at} is {value}, which has passed; give a later time, or leave it out.",
            value=recipe.training.stop_at,
        )
    started, seconds = time.monotonic(), 60 * choose_minutes(recipe.training, is_cuda(world.device))
    if recipe.training.shard and world.size > 1 and recipe.training.updates is None:
        raise OptionError(
            "With {shard} the speed of a single process cannot be measured; give a number of {updates}."
        )
    if recipe.training.tensorboard:
        from dragoman.training.tensorboard import refuse_missing_tensorboard

        refuse_missing_tensorboard()
    if recipe.training.native:
        from dragoman.pipeline.compilation import start_compiling

        start_compiling(world.device)  # in the background, while the text is prepared
    texts = recipe.data
    if texts.datasets:
        from dragoman.text.named_datasets.datasets import resolve_dataset

        texts = resolve_dataset(texts)
    texts = resolve_paths(texts)
    if texts.guided_alignment is not None:
        from dragoman.pipeline.guided_alignment import with_alignment_head

        recipe = with_alignment_head(recipe, texts)
    try:
        if texts.needs_conversion():
            from dragoman.pipeline.conversion import prepare_converted

            recipe = prepare_converted(out, recipe, texts)
        else:
            shutil.rmtree(out / "text.partial", ignore_errors=True)  # of a conversion that was killed
            prepare(out, replace(recipe, data=texts))
    except OSError as error:
        from dragoman.pipeline.reopen import with_file_name

        raise with_file_name(error, out) from error
    complete = autoconfigure(recipe, PreparedData.load(out / "data"), world)
    if recipe.training.updates is None:
        Budget(seconds, preparation=time.monotonic() - started).write(out)
    write_toml(complete, out / "recipe.toml")


# ---- train


def train_until_choice(recipe: Recipe, data: PreparedData, world: World, observer: Observer) -> Recipe:
    """Train for a part of the minutes, then choose the number of updates and record it.

    Returns the recipe that has the number.
    """
    out, schedule = recipe.folder, make_schedule(recipe)
    budget = Budget.read(out)
    if (stop_at := recipe.training.stop_at) is not None:
        until = budget_until(stop_at, newest_state(out).seconds)  # it may have been interrupted long
        budget = min(budget, until, key=lambda each: each.training)
    batches = make_batches(recipe, data, world)
    most = most_updates(recipe, len(batches.plan(0)) / recipe.batches.accumulate)
    seconds = budget.training * share_before_choice(recipe.training.schedule)
    state = fit(*open_ended(recipe, schedule, most), data, world, seconds, budget.training, observer)

    if world.is_main:
        events, interval = read_events(out / "log.jsonl"), schedule.validate_every
        test_seconds = seconds_of_test(recipe, world)
        updates = choose_updates(budget, state, events, interval, most, test_seconds)
        chosen = replace(recipe, training=replace(recipe.training, updates=updates))
        write_toml(with_cooldown(chosen, state.step), out / "recipe.toml")
        (out / BUDGET).unlink()
        elapsed = duration(budget.preparation + state.seconds)
        logger.info(
            f"The run will have {updates:,} updates: {state.step:,} of them took {elapsed}, the preparation "
            "included."
        )
    world.barrier()
    return read_recipe(out)


def train_until_stop(recipe: Recipe, data: PreparedData, world: World, observer: Observer) -> Recipe:
    """Train for half of the time until `stop_at`, again and again, with fewer updates if not all of them fit.

    Returns the recipe of the rest of the training, which has the number of updates.
    """
    state = newest_state(recipe.folder)
    for _ in range(PARTS_UNTIL_STOP):
        assert recipe.training.stop_at is not None
        seconds = state.seconds + seconds_until(recipe.training.stop_at) / 2
        state = fit(recipe, make_schedule(recipe), data, world, seconds, observer=observer)
        if is_finished(state, recipe.training, make_schedule(recipe)):
            break
        if world.is_main:
            leave_out_updates(recipe, state, world)
        world.barrier()
        recipe = read_recipe(recipe.folder)
    return recipe


def leave_out_updates(recipe: Recipe, state: TrainingState, world: World) -> None:
    """Record fewer updates if not all of them fit into the time until `stop_at`."""
    out, (updates, stop_at) = recipe.folder, (recipe.training.updates, recipe.training.stop_at)
    assert updates is not None
    assert stop_at is not None
    budget, interval = budget_until(stop_at, state.seconds), make_schedule(recipe).validate_every
    events, test_seconds = read_events(out / "log.jsonl"), seconds_of_test(recipe, world)
    possible = choose_updates(budget, state, events, interval, updates, test_seconds)
    if updates - possible > RESERVE * (updates - state.step):
        write_toml(shortened(recipe, possible, state.step), out / "recipe.toml")
        logger.info(f"The run will have {possible:,} updates instead of {updates:,}, to end by {stop_at}.")


def end_at(step: int, recipe: Recipe, world: World) -> Recipe:
    """Record that a run has no more updates than those that are done. Returns the recipe that says so."""
    out = recipe.folder
    if world.is_main:
        recipe = read_recipe(out)  # it may have fewer updates meanwhile (`stop_at`)
        ended = replace(recipe, training=replace(recipe.training, updates=step))
        write_toml(with_cooldown(ended), out / "recipe.toml")
        (out / BUDGET).unlink(missing_ok=True)
        logger.info(f"Ended after update {step:,}, as the program asked.")
    world.barrier()
    return read_recipe(out)


def newest_state(out: Path) -> TrainingState:
    """The state of the newest checkpoint of a run, or of its beginning."""
    with messages_to(silent):  # training names those that are damaged
        checkpoint = newest_intact(out)
    return TrainingState() if checkpoint is None else read_state(checkpoint)


def seconds_of_test(recipe: Recipe, world: World) -> float:
    """The duration of the translation of the test data, from that of a sample by the best model so far.

    0 without test data, and before the first validation.
    """
    test = recipe.folder / "data" / "test.source.txt"
    if not test.exists() or not (recipe.folder / "model").exists():
        return 0.0
    source = list(read_lines(test))
    translator = Translator.load(recipe.folder, device=str(world.device))
    if translator.pairs:  # a sample is translated, of all pairs into one language
        translator = translator.into(translator.pairs[0].target)
    return seconds_to_translate(translator, source, recipe.search) / world.size


def fit(
    recipe: Recipe,
    schedule: Schedule,
    data: PreparedData,
    world: World,
    max_seconds: float = math.inf,
    planned_seconds: float = math.inf,
    observer: Observer | None = None,
) -> TrainingState:
    """Train, from the start or the newest checkpoint, for `max_seconds` at most.

    `planned_seconds` are those of the whole training, of which this is a part.

    `out/model` always holds the best model by validation so far.
    """
    out = recipe.folder
    context = TrainingContext(
        model=make_model(recipe, data, world.device),
        learning_rate=make_learning_rate(recipe.training, recipe.model.d_model, recipe.adaptation.peak_rate),
        batches=make_batches(recipe, data, world),
        settings=recipe.training,
        schedule=schedule,
        folder=out,
        validate=make_validate(recipe, data, world),
        keep_best=lambda model: keep(out / "model", model, recipe, data),
        world=world,
        max_seconds=max_seconds,
        planned_seconds=planned_seconds,
        make_optimizer=partial(make_optimizer, optimizer=recipe.training.optimizer or "adam"),
        observer=observer or Observer(),
    )
    if recipe.adaptation.initial_model is not None:
        from dragoman.pipeline.adaptation.initial_model import begin

        context = begin(context, recipe, data.tokenizers)
    if recipe.data.guided_alignment is not None:
        from dragoman.pipeline.guided_alignment import guided

        context = guided(context, recipe)
    try:
        return train(context)
    except TrainingInterruptedError as interruption:
        position = f"after update {interruption.step:,}"
        logger.info(f"Stopped {position}; nothing is lost. Resume with: dragoman resume {quote(str(out))}")
        raise


def make_validate(recipe: Recipe, data: PreparedData, world: World) -> Validate:
    """The function that computes a model's losses and BLEU (greedy search) on the validation pairs.

    It also returns some translations. If the loss is NaN or infinite, nothing is translated. With several
    pairs of languages the scores are their means.
    """
    if pairs := data.by_pair():
        return validate_pairs({name: make_validate(recipe, pair, world) for name, pair in pairs.items()})
    batches = validation_batches(recipe, data, world)
    tokenize = suitable_tokenization(data.valid_target)

    def validate(model: Model, name: str) -> tuple[Scores, Samples]:
        scores = corpus_loss(Objective.of(model, recipe.training), batches, world)
        if not math.isfinite(scores["loss"]):
            return scores | {"bleu": 0.0}, []
        native, threads = is_cpu(world.device) and recipe.training.native, torch.get_num_threads()
        translator = Translator.from_model(
            model, data.tokenizers, workers=threads, native=native, symbol=data.symbol
        )
        part = translate_lines(translator, world.split(data.valid_source), SearchSettings(beam_size=1))
        translations = world.gather(part, len(data.valid_source))
        model.train()
        trim_memory()
        scores["bleu"] = bleu(translations, data.valid_target, tokenize).value
        logger.info(
            f"Validation {name}: loss {scores['loss']:.3f}, negative log-likelihood {scores['nll']:.3f}, "
            f"perplexity {scores['perplexity']:.4g}, BLEU {scores['bleu']:.2f} (greedy)."
        )
        rows = list(zip(data.valid_source, data.valid_target, translations, strict=True))
        sampled_rows = rows[:: max(1, len(rows) // SAMPLES)][:SAMPLES]
        return scores, [
            dict(zip(("source", "reference", "translation"), row, strict=True)) for row in sampled_rows
        ]

    if (recipe.adaptation.replay or recipe.adaptation.replay_valid) is not None:
        plain = replace(recipe, adaptation=AdaptationSettings())
        return validate_both(validate, make_validate(plain, with_old_validation(recipe, data), world))
    return validate


# ---- finish


def finish(recipe: Recipe, data: PreparedData, state: TrainingState, world: World) -> None:
    """Choose the model to keep, translate and score the test data, write result.json."""
    out = recipe.folder
    candidates = model_candidates(recipe, data, state, world)
    chosen = min(candidates, key=Candidate.nll)
    if chosen.tensors is not None and world.is_main:
        if state.best is not None and (out / "model").exists() and not (out / "best").exists():
            copy_folder(out / "model", out / "best")  # for a later end, which resumes with the best model
        model = make_model(recipe, data, world.device)
        load_weights(model, chosen.tensors, out / "checkpoints")
        keep(out / "model", model, recipe, data)
    world.barrier()
    names = {"best": "best by BLEU" if recipe.training.best_by == "bleu" else "best by loss"}
    perplexities = ", ".join(
        f"{names.get(candidate.kind, candidate.kind)} {candidate.scores['perplexity']:.4g}"
        for candidate in candidates
    )
    logger.info(
        f"Kept: {chosen.description}. Of the candidates it has the lowest validation perplexity "
        f"({perplexities})."
    )
    patience = recipe.training.patience
    reason = f", as {patience} validation{'s' * (patience != 1)} ({{patience}}) brought no gain"
    early = reason if state.step < make_schedule(recipe).updates else ""
    length = f"{state.step:,} update{'s' * (state.step > 1)}{early}: {duration(state.seconds)}"
    logger.info(OptionMessage(f"Trained for {length}."))
    result = {
        "model": chosen.description,
        "kept": chosen.kind,
        "updates": state.step,
        "minutes": state.seconds / 60,
        "validation": chosen.scores,
        "candidates": {candidate.kind: candidate.scores for candidate in candidates},
    }
    if scores := score_test_data(recipe, data, world):
        result["test"] = [asdict(score) for score in scores]
    if world.is_main:
        write_lines(out / "result.json", [json.dumps(result, indent=2)])
    world.barrier()
    command = f"dragoman translate {quote(str(out))}"
    if any(pair.symbol for pair in data.pairs):
        command = f"dragoman translate {quote(str(out))} --to {data.pairs[0].target}"
    logger.info(f"Translate with: {command} < FILE")


@dataclass(frozen=True)
class Candidate:
    """A model that a run may keep."""

    kind: str
    """`best`, `last` or `average`."""
    description: str
    scores: Scores
    tensors: dict[str, Tensor] | None
    """Its weights; None for those that are in `out/model` already."""

    def nll(self) -> float:
        """The negative log-likelihood of validation, in nats per token: the lowest is kept.

        NaN counts as infinity.
        """
        return math.inf if math.isnan(self.scores["nll"]) else self.scores["nll"]


def model_candidates(
    recipe: Recipe, data: PreparedData, state: TrainingState, world: World
) -> list[Candidate]:
    """The best checkpoint by validation, the last one, and the average of the last ones (section 6.1).

    The last one is left out if it is the best, and the average if it is of the last one alone.
    """
    out = recipe.folder
    model, validate = make_model(recipe, data, world.device), make_validate(recipe, data, world)

    def candidate(kind: str, description: str, tensors: dict[str, Tensor]) -> Candidate:
        load_weights(model, tensors, out / "checkpoints")
        scores, _ = validate(model, f"of {description}")
        return Candidate(kind, description, scores, tensors)

    interval, count = make_schedule(recipe).checkpoint_every, recipe.training.average
    (last,) = regular_checkpoints(out, 1, interval, state.step)
    average, steps = average_checkpoints(out, count, interval, state.step)
    candidates = []
    if state.best is not None:
        candidates.append(Candidate("best", f"the checkpoint at {state.best_step:,}", state.best, None))
    if state.best is None or state.best_step != state.step:
        weights = load_tensors(last / "model.safetensors")
        candidates.append(candidate("last", f"the last checkpoint, at {state.step:,}", weights))
    if steps != [state.step]:
        numbers = ", ".join(map(str, steps))
        candidates.append(candidate("average", f"the average of the checkpoints at {numbers}", average))
    return candidates


def translate_lines(translator: Translator, lines: Sequence[str], settings: SearchSettings) -> list[str]:
    """The translations of lines of the run's data. Lines of several sentences need no warning here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeveralSentences)
        return translator.translate(lines, settings)


def score_test_data(recipe: Recipe, data: PreparedData, world: World) -> list[Score]:
    """Translate the test data with the kept model and score it; write `test.hypotheses.txt`.

    With several pairs of languages the translations follow each other, and the first scores are the means.
    Empty without test data.
    """
    out = recipe.folder
    if not (out / "data" / "test.source.txt").exists():
        return []
    translator = Translator.load(out, device=str(world.device))
    if not data.pairs:
        scores, translations = score_test_set(recipe, translator, out / "data", world)
    else:
        scores_of_pairs, translations = {}, []
        for pair in data.pairs:
            if (folder := out / "data" / pair.name).joinpath("test.source.txt").exists():
                of_pair = translator.into(pair.target, pair.source)
                scores_of_pairs[pair.name], lines = score_test_set(recipe, of_pair, folder, world)
                translations += lines
        scores = mean_scores(scores_of_pairs)
    for score in scores:
        logger.info(f"Test: {score}")
    if world.is_main:
        write_lines(out / "test.hypotheses.txt", translations)
    return scores


def score_test_set(
    recipe: Recipe, translator: Translator, folder: Path, world: World
) -> tuple[list[Score], list[str]]:
    """The scores of the test pairs in a folder, and their translations."""
    source, target = (list(read_lines(folder / f"test.{side}.txt")) for side in ("source", "target"))
    translations = world.gather(translate_lines(translator, world.split(source), recipe.search), len(source))
    return [
        bleu(translations, target, suitable_tokenization(target)),
        chrf(translations, target),
    ], translations

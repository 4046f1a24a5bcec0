"""No run is lost: killed, out of disk, out of memory, damaged, diverged."""

import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import distributed, nn

from dragoman.cli.console import silence_write_errors_of_threads
from dragoman.model.symbols import END
from dragoman.pipeline.autoconfigure import autoconfigure
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches, make_model, make_schedule
from dragoman.pipeline.reopen import recorded_recipe
from dragoman.pipeline.run import fit, make_validate, run
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_manifest
from dragoman.system.messages import messages_to
from dragoman.system.toml import write_toml
from dragoman.text.batches import Batch
from dragoman.training.checkpoint import average_checkpoints, checkpoints, resume, step_of
from dragoman.training.context import DivergenceError, TrainingContext
from dragoman.training.distributed import ProcessGroup
from dragoman.training.divergence import first_non_finite_layer, locate
from dragoman.training.log import Log, UpdateMetrics
from dragoman.training.loop import train
from dragoman.training.memory import (
    available_memory,
    fitting_tokens,
    free_memory,
    kept_for_backward,
    smaller_batches,
)
from dragoman.training.objective import (
    Objective,
    accumulate_gradients,
    make_optimizer,
    seed_update,
    step_optimizer,
)
from dragoman.training.rollback import MIN_RATE_BACKOFF
from dragoman.training.schedule import make_learning_rate
from dragoman.training.settings import SCORES
from dragoman.training.world import World
from dragoman.translation.translator import Translator
from tests.conftest import small_recipe
from tests.processes import die_when, fork, worst
from tests.short_of_memory import cut_batches

HERE = World(device=torch.device("cpu"))


def prepared_run(folder: Path, name: str, **training):
    """A recipe with its text prepared and all choices made."""
    recipe = small_recipe(folder, folder / name, **training)
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    return autoconfigure(recipe, data, HERE), data


def resume_run(recipe):
    """Train in this process, from wherever the run is."""
    fit(recipe, make_schedule(recipe), PreparedData.load(recipe.out / "data"), HERE)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run that has made its 24 updates: its recipe and its text. Read only."""
    recipe, data = prepared_run(tmp_path_factory.mktemp("ended"), "run")
    resume_run(recipe)
    return recipe, data


@pytest.fixture
def copied(ended, tmp_path):
    """The same, in a folder of the test's own."""
    recipe, data = ended
    shutil.copytree(recipe.out, tmp_path / "run")
    return replace(recipe, out=tmp_path / "run"), data


def final_weights(recipe):
    mapped = load_file(checkpoints(recipe.out)[-1] / "model.safetensors")
    return {name: tensor.clone() for name, tensor in mapped.items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def assert_stopping_changes_nothing(recipe, updates):
    """A run that ends after so many updates, and is resumed, has the weights of one that was not stopped."""
    run(recipe)
    stopped = replace(recipe, out=recipe.out.with_name("stopped"))
    run(replace(stopped, training=replace(stopped.training, updates=updates)))
    assert checkpoints(stopped.out)[-1].name == f"step-{updates:08}"
    run(stopped)
    assert_same(final_weights(stopped), final_weights(recipe))


def log_of(recipe):
    return [json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines()]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(("kills", "updates"), [(4, 24), pytest.param(50, 450, marks=pytest.mark.long)])
def test_a_run_killed_at_random_operations_on_files_ends_with_the_weights_of_an_uninterrupted_one(
    tmp_path, kills, updates
):
    settings = {"updates": updates, "validate_every": updates // 3}
    straight, _ = prepared_run(tmp_path, "straight", checkpoint_every=updates // 3, **settings)
    killed, _ = prepared_run(tmp_path, "killed", checkpoint_every=1, **settings)
    resume_run(straight)
    moments = random.Random(1)
    half_written = 0

    def until(operation: int) -> None:
        operations = iter(range(operation))
        folder = str(killed.out)
        die_when(lambda path: path.startswith(folder) and next(operations, None) is None)
        resume_run(killed)

    for _ in range(kills):
        operation = moments.randrange(200)  # some 40 are of the start, and 20 of each update
        assert worst([fork(lambda operation=operation: until(operation))]) == signal.SIGKILL
        half_written += any(path.suffix for path in killed.out.glob("checkpoints/*"))
    assert half_written > 0
    assert checkpoints(killed.out)[-1].name < f"step-{updates:08}"
    resume_run(killed)
    assert_same(final_weights(straight), final_weights(killed))
    validated = [updates // 3, 2 * updates // 3, updates]
    assert [line["step"] for line in log_of(killed)] == sorted([*range(1, updates + 1), *validated]), (
        "all once, and validations"
    )


def test_a_full_disk_leaves_the_former_checkpoint_and_says_so(ended, tmp_path):
    (straight, _), (short, data) = ended, prepared_run(tmp_path, "short")
    fit(short, replace(make_schedule(short), updates=4), data, HERE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (10_000, limits[1])
    )  # no file can grow beyond: the kernel refuses to write
    try:
        with pytest.raises(
            DragomanError,
            match=r"step-00000008 could not be written: .*File too large.* What was written "
            r"before it is complete; free some space",
        ):
            fit(short, replace(make_schedule(short), validate_every=24), data, HERE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (short.out / "checkpoints").iterdir()] == ["step-00000004"]
    resume_run(short)
    assert_same(final_weights(straight), final_weights(short))


@pytest.mark.long
def test_files_of_the_user_beside_checkpoints_are_kept(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    fit(recipe, replace(make_schedule(recipe), updates=4), data, HERE)
    (kept,) = checkpoints(recipe.out)
    own = "ruined-step-00000002", ".step-00000003.dragoman-new"
    users = ["before-i-tried-another-rate", "step-00000004.old"]
    for name in (*own, *users):
        shutil.copytree(kept, kept.with_name(name))
    resume_run(recipe)
    names = [
        path.name for path in (recipe.out / "checkpoints").iterdir() if path not in checkpoints(recipe.out)
    ]
    assert sorted(names) == users


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_is_reported_for_tensorboard_too(tmp_path, monkeypatch):
    log = Log(tmp_path, 0, tensorboard=True)

    def fill():
        for step in range(1000):
            log.write(
                "train", step, {f"a rather long name of a curve, {number}": 1.0 for number in range(100)}
            )
            log.path.write_text("")

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    silence_write_errors_of_threads()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(
            DragomanError,
            match=r"tensorboard could not be written: File too large\. The checkpoints before it are intact",
        ):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_log_that_cannot_be_written_is_reported(tmp_path):
    log = Log(tmp_path, 0, tensorboard=False)
    log.path.unlink()
    log.path.mkdir()
    with pytest.raises(
        DragomanError,
        match=r"log\.jsonl could not be written: Is a directory\. The checkpoints before it are "
        r"intact: free some space",
    ):
        log.write("train", 1, {})


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.safetensors", "place.json", "manifest.json"]
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_loaded(copied, file, messages):
    recipe, data = copied
    before = final_weights(recipe)
    newest = checkpoints(recipe.out)[-1] / file
    newest.write_bytes(newest.read_bytes()[:-9])
    state = fit(recipe, make_schedule(recipe), data, HERE)
    assert "step-00000024" in messages[0]
    assert file in messages[0]
    assert messages[0].endswith("Trying the checkpoint before it.")
    assert messages[1] == "Resuming from step-00000020; the updates after it are repeated."
    assert state.step == 24
    assert_same(before, final_weights(recipe))


@pytest.mark.long
def test_a_run_without_averaging_keeps_a_checkpoint_to_fall_back_to(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", average=1)
    resume_run(recipe)
    (checkpoints(recipe.out)[-1] / "model.safetensors").write_bytes(b"cut")
    messages = []
    with messages_to(messages.append):
        assert fit(recipe, make_schedule(recipe), data, HERE).step == 24
    assert messages[1] == "Resuming from step-00000020; the updates after it are repeated."


def test_a_changed_recipe_is_not_reported_as_a_damaged_checkpoint(copied):
    recipe, data = copied
    with pytest.raises(
        DragomanError,
        match=r"the settings give .*The recipe\.toml of this run was changed since it began; restore it",
    ):
        fit(replace(recipe, model=replace(recipe.model, d_ff=48)), make_schedule(recipe), data, HERE)


@pytest.mark.parametrize(
    ("table", "name"),
    [("training", "updates"), ("batches", "source_tokens_per_batch"), ("training", "precision")],
)
def test_a_recipe_that_lacks_a_setting_is_refused(table, name, copied):
    recipe, _ = copied
    write_toml(
        replace(recipe, **{table: replace(getattr(recipe, table), **{name: None})}),
        recipe.out / "recipe.toml",
    )
    with pytest.raises(
        DragomanError, match=rf"recipe\.toml lacks {name}: it was changed since the run began\. Restore it\."
    ):
        recorded_recipe(recipe.out)


def test_a_recipe_whose_settings_contradict_one_another_was_changed(copied):
    recipe, _ = copied
    contradictory = replace(recipe.training, optimizer="muon", shard=True)
    write_toml(replace(recipe, training=contradictory), recipe.out / "recipe.toml")
    with pytest.raises(DragomanError, match=r"recipe\.toml was changed since the run began: .*muon needs"):
        recorded_recipe(recipe.out)


def test_a_recipe_with_another_model_is_refused(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=8)
    run(recipe)
    recorded = recorded_recipe(recipe.out)
    write_toml(replace(recorded, model=replace(recorded.model, heads=1)), recipe.out / "recipe.toml")
    with pytest.raises(
        DragomanError,
        match=r"recipe\.toml was changed since the run began: of its model, heads is 1 and was \d\. Restore",
    ):
        run(recipe)


def test_micro_batch_tokens_auto_is_refused_by_a_run_that_began_without_it(tmp_path):
    recipe, _ = prepared_run(tmp_path, "run")
    write_toml(recipe, recipe.out / "recipe.toml")
    with pytest.raises(DragomanError, match="this one began without it; give a number as micro_batch_tokens"):
        run(replace(recipe, batches=replace(recipe.batches, micro_batch_tokens="auto")))


def test_a_damaged_later_checkpoint_is_not_averaged(copied):
    recipe, data = copied
    (checkpoints(recipe.out)[-1] / "model.safetensors").write_bytes(b"cut")
    fit(recipe, replace(make_schedule(recipe), updates=22), data, HERE)
    assert [path.name for path in checkpoints(recipe.out)] == [
        "step-00000016",
        "step-00000020",
        "step-00000022",
    ]


def test_without_an_intact_checkpoint_a_run_does_not_start_again(copied):
    recipe, data = copied
    for path in checkpoints(recipe.out):
        (path / "place.json").unlink()
    with pytest.raises(
        DragomanError, match=r"All checkpoints in .* are damaged \(3\); start again with another out"
    ):
        fit(recipe, make_schedule(recipe), data, HERE)
    shutil.rmtree(recipe.out / "checkpoints")
    before = log_of(recipe)
    with pytest.raises(
        DragomanError,
        match="was trained for 24 updates, and its checkpoints are missing. Restore .*, or start again",
    ):
        fit(recipe, make_schedule(recipe), data, HERE)
    assert log_of(recipe) == before


@pytest.mark.parametrize("others", [[28], [20, 28]], ids=["another step", "others whose mean is ours"])
def test_processes_that_see_different_checkpoints_do_not_resume(ended, others, monkeypatch):
    """Beside this one there are processes that have found checkpoints of other steps."""

    def all_reduce(values, operation):
        assert operation == distributed.ReduceOp.MAX
        values.copy_(torch.stack([values, *(torch.tensor([step, -step]) for step in others)]).amax(0))

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    recipe, data = ended
    model = make_model(recipe, data, HERE.device)
    with pytest.raises(
        DragomanError,
        match="found the checkpoint of update 24 in .*another one. All machines must see the same folder",
    ):
        resume(
            model,
            make_optimizer(model),
            recipe.out,
            ProcessGroup(size=1 + len(others), device=HERE.device),
        )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_does_not_resume_with_damaged_data(tmp_path, finished):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=8)
    run(recipe)
    recipe = replace(recipe, training=replace(recipe.training, updates=12))
    if not finished:
        (recipe.out / "result.json").unlink()
    (ids,) = (recipe.out / "data" / "train").glob("*.source.npy")
    whole = ids.read_bytes()
    ids.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(
        DragomanError,
        match=r"source\.npy is damaged or was changed: .* restore .*data from a copy, or start again",
    ):
        run(recipe)
    assert (recipe.out / "result.json").exists() == finished
    ids.write_bytes(whole)
    if not finished:
        (recipe.out / "data" / "manifest.json").unlink()  # runs that were begun before there was one go on
    run(recipe)
    assert (recipe.out / "result.json").exists()


def test_a_damaged_checkpoint_is_left_out_of_the_average(copied, messages):
    recipe, _ = copied
    (checkpoints(recipe.out)[1] / "model.safetensors").write_bytes(b"cut")
    _, steps = average_checkpoints(recipe.out, 3, 4, 24)
    assert steps == [16, 24]
    assert messages[0].endswith("It is left out of the average.")


# ---- memory


@pytest.mark.long
def test_out_of_memory_batches_are_cut_and_the_gradient_is_the_same(tmp_path):
    recipe, _ = prepared_run(tmp_path, "short")
    recipe = replace(recipe, model=replace(recipe.model, dropout=0.0))
    process = multiprocessing.get_context("spawn").Process(
        target=cut_batches, args=(recipe, tmp_path / "result")
    )
    process.start()  # not forked: what this process has freed and kept would suffice
    process.join()
    assert process.exitcode == 0
    assert int((tmp_path / "result").read_text()) > 1


def test_a_single_pair_that_does_not_fit_into_memory_needs_shorter_pairs(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    batch = make_batches(recipe, data, HERE).load([0])
    with pytest.raises(DragomanError, match="for one pair; train with another out and a lower longest"):
        smaller_batches([batch], MemoryError(), may_retry=True)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_model_that_does_not_fit_into_memory_is_refused(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    large = replace(recipe, model=replace(recipe.model, d_model=4096, d_ff=65536))

    def make_large_model() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 40 * 2**20, used + 40 * 2**20))
        with pytest.raises(DragomanError, match="not enough memory for a model of this size; choose"):
            make_model(large, data, HERE.device)

    assert worst([fork(make_large_model)]) == 0


def translate_where_memory_is_short(folder):
    text = " ".join(["amber"] * 300)
    translator = Translator.load(folder / "run", native=False)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 40 * 2**20, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with pytest.raises(DragomanError, match=r"for [\d,]+ sentences at once; give fewer \(batch_tokens"):
        translator.translate([text] * 600, SearchSettings(batch_tokens=10**9))
    long = " ".join([text] * 20)
    with pytest.raises(DragomanError, match="for 1 sentence at once; give shorter sentences"):
        translator.align([(long, long)])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_out_of_memory_in_translation_says_what_to_do(trained):
    assert os.waitpid(fork(lambda: translate_where_memory_is_short(trained)), 0)[1] == 0


class Keep(torch.autograd.Function):
    """Keeps memory for the backward pass that nobody touches: the system does not give it in truth."""

    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(torch.empty(size, dtype=torch.uint8))
        return x.clone()


def test_the_number_of_tokens_fits_into_memory():
    weight = torch.ones(3, requires_grad=True)

    def forward(pairs, size):
        return Keep.apply(weight, pairs * 300 * size)

    assert kept_for_backward(lambda pairs: forward(pairs, 1000), 7) == 7 * 300 * 1000
    assert fitting_tokens(lambda pairs: forward(pairs, 1000), 300, 4096, HERE.device) == 4096
    few = fitting_tokens(lambda pairs: forward(pairs, 2**24), 300, 4096, HERE.device)
    assert 1 <= few <= 4096 * 2**40 // 2**24
    assert few < fitting_tokens(lambda pairs: forward(pairs, 2**23), 300, 4096, HERE.device)
    half = free_memory(HERE.device) // 2
    assert 1 <= fitting_tokens(lambda pairs: forward(pairs, 2**24), 300, 4096, HERE.device, half) < few
    assert fitting_tokens(lambda pairs: forward(pairs, 2**24), 300, 4096, HERE.device, 4 * half) == 1


def test_half_of_the_memory_that_is_not_reserved_is_for_the_graph():
    weight, free = torch.ones(3, requires_grad=True), free_memory(HERE.device)
    for share in (0, 0.5):
        most = fitting_tokens(
            lambda pairs: Keep.apply(weight, pairs * (free // 1000)), 1, 4096, HERE.device, int(share * free)
        )
        assert most == pytest.approx((1 - share) * 1000 / 2, rel=0.2)  # other processes take and give memory


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_processes_of_a_machine_share_its_memory(monkeypatch, count):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(count))
    whole = min(available_memory(Path("/")))
    assert free_memory(HERE.device) == pytest.approx(whole / count, rel=0.2)  # others take and give memory


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_batches_are_cut_in_two_and_the_largest_is_told(sizes):
    ids = torch.full((sum(sizes), 2), 5)
    pairs = iter(range(sum(sizes)))
    batches = [Batch.of(ids[:size], ids[:size], list(islice(pairs, size))) for size in sizes]
    if max(sizes) == 1:
        with pytest.raises(DragomanError, match="for one pair; train with another out"):
            smaller_batches(batches, MemoryError(), may_retry=True)
        return
    told = f"not enough memory for {max(sizes)} pairs at once; train with a lower micro_batch_tokens"
    with pytest.raises(DragomanError, match=told):
        smaller_batches(batches, MemoryError(), may_retry=False)
    with pytest.warns(UserWarning, match=told) as warned:
        halves = smaller_batches(batches, MemoryError(), may_retry=True)
    assert warned[0].filename == __file__
    assert sorted(pair for half in halves for pair in half.pairs) == [*range(sum(sizes))]
    expected = [half for size in sizes for half in ([size] if size == 1 else [size - size // 2, size // 2])]
    assert sorted(len(half.pairs) for half in halves) == sorted(expected)


def test_other_errors_cut_no_batch():
    ids = torch.full((4, 2), 5)
    with pytest.raises(RuntimeError, match="another"):
        smaller_batches([Batch.of(ids, ids, [*range(4)])], RuntimeError("another"), may_retry=True)


def test_available_memory_is_bounded_by_system_and_control_groups(tmp_path):
    for name, text in {
        "proc/meminfo": "MemFree: 1 kB\nMemAvailable:    5000 kB\n",
        "proc/self/cgroup": "1:name=systemd:/\n0::/job/step\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/job/memory.max": "4000000\n",
        "sys/fs/cgroup/job/memory.current": "3000000\n",
        "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 500000\n",
        "sys/fs/cgroup/job/step/memory.max": "max\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(available_memory(tmp_path)) == [5_120_000, 1_500_000]
    assert min(available_memory(tmp_path / "nothing")) > 0


def test_micro_batch_tokens_does_not_change_the_gradient(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    recipe = replace(recipe, model=replace(recipe.model, dropout=0.0))
    model = make_model(recipe, data, HERE.device).double()
    gradients = []
    for most in (None, 30):
        batches = make_batches(
            replace(recipe, batches=replace(recipe.batches, micro_batch_tokens=most)), data, HERE
        )
        update = next(batches.updates(0, 0))
        model.zero_grad()
        accumulate_gradients(Objective.of(model, recipe.training), update, HERE)
        gradients.append([weight.grad.clone() for weight in model.parameters()])
        assert (len(update.batches) == 2) == (most is None)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.long
def test_allowed_settings_may_change_when_a_run_resumes(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=8)
    recipe = replace(recipe, batches=replace(recipe.batches, micro_batch_tokens="auto"))
    run(recipe)
    run(recipe)
    (recipe.out / "result.json").unlink()
    messages = []
    helped = replace(recipe, training=replace(recipe.training, clip_norm=1.0, on_divergence="skip"))
    with messages_to(messages.append):
        run(helped)
    assert messages[0] == f"Resuming {recipe.out}."
    assert (
        "Changed: training.clip_norm is 1.0 and was 0.0; training.on_divergence is 'skip' and was 'stop'."
        in messages
    )
    recorded = recorded_recipe(recipe.out)
    assert (
        recorded.training.clip_norm,
        recorded.training.on_divergence,
        recorded.batches.micro_batch_tokens,
    ) == (
        1.0,
        "skip",
        100,
    )
    with pytest.raises(DragomanError, match="training.label_smoothing is 0.2 and was 0.1"):
        run(replace(recipe, training=replace(recipe.training, label_smoothing=0.2)))


def test_micro_batch_tokens_auto_is_chosen_and_recorded(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe = replace(recipe, batches=replace(recipe.batches, micro_batch_tokens="auto"))
    prepare(recipe.out, recipe)
    messages = []
    with messages_to(messages.append):
        settled = autoconfigure(recipe, PreparedData.load(recipe.out / "data"), HERE)
    assert settled.batches.micro_batch_tokens == 100
    assert "100 tokens at once, which fit into memory" in "\n".join(messages)


# ---- divergence


def poisoned(model, calls):
    """Let the gradient of the model be no number in these calls of the backward pass."""
    count = 0

    def poison(gradient):
        nonlocal count
        count += 1
        return gradient * float("nan") if count in calls else gradient

    next(model.parameters()).register_hook(poison)
    return model


def train_poisoned(recipe, data, calls, messages, loss=1.0, keep_best=lambda model: None):
    """Train a model whose gradient is no number now and then. `loss` is the validation's, or gives it."""
    next_loss = loss if callable(loss) else lambda: loss
    recipe = replace(recipe, batches=replace(recipe.batches, accumulate=1))
    context = TrainingContext(
        model=poisoned(make_model(recipe, data, HERE.device), calls),
        learning_rate=make_learning_rate(recipe.training, 16),
        batches=make_batches(recipe, data, HERE),
        settings=recipe.training,
        schedule=make_schedule(recipe),
        folder=recipe.out,
        validate=lambda model, name: (dict.fromkeys(SCORES, 0.0) | {"loss": next_loss()}, []),
        keep_best=keep_best,
        world=HERE,
    )
    with messages_to(messages.append):
        return train(context)


def test_a_non_finite_update_changes_neither_weights_nor_moments(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    model = make_model(recipe, data, HERE.device)
    optimizer, objective = make_optimizer(model), Objective.of(model, recipe.training)
    update = next(make_batches(recipe, data, HERE).updates(0, 0))
    accumulate_gradients(objective, update, HERE)
    assert step_optimizer(optimizer, model, 0.001, 0.0).isfinite()
    before = [
        tensor.clone()
        for weight in model.parameters()
        for tensor in (weight, *optimizer.state[weight].values())
    ]
    next(model.parameters()).grad[0, 0] = float("inf")
    assert not step_optimizer(optimizer, model, 0.001, 0.0).isfinite()
    after = [
        tensor for weight in model.parameters() for tensor in (weight, *optimizer.state[weight].values())
    ]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_divergence_stops_the_run_with_step_batch_lines_and_layer(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", learning_rate_scale=1e38)
    with pytest.raises(
        DivergenceError,
        match=r"In update \d \(epoch 0, batch \d+\) the loss is \S+ and the gradient norm \S+, "
        r"in lines \d+, .* and \d+ more of the "
        r"training text. First non-finite value: the output of model\.\S+\. It did not change the weights",
    ):
        fit(recipe, make_schedule(recipe), data, HERE)


def test_a_non_finite_update_can_be_skipped(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="skip")
    messages = []
    assert train_poisoned(recipe, data, {5}, messages).step == 24
    assert len(messages) == 1
    assert messages[0].startswith("In update 5 (epoch 0, batch 5) the loss is ")
    update = next(
        islice(
            make_batches(replace(recipe, batches=replace(recipe.batches, accumulate=1)), data, HERE).updates(
                0, 0
            ),
            4,
            None,
        )
    )
    text, encode = recipe.data.source.read_text().splitlines(), data.tokenizers.source.encode
    lines = [data.train.line_number(pair) for pair in update.batches[0].pairs]
    for line, ids in zip(lines, update.batches[0].source.tolist(), strict=True):
        assert [*encode([text[line - 1]])[0], END] == ids[: ids.index(END) + 1]
    shown = ", ".join(map(str, sorted(lines)[:8])) + (f" and {len(lines) - 8} more" if len(lines) > 8 else "")
    assert (
        f"in lines {shown} of the training text. It does not recur with the current weights. The update is "
        "skipped." in messages[0]
    )
    assert [line["step"] for line in log_of(recipe) if line["event"] == "skipped"] == [5]


@pytest.mark.parametrize("non_finite", [[], [0], [3], [1, 3]])
def test_a_line_of_the_log_is_of_the_finite_updates(tmp_path, non_finite):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="skip")
    context = TrainingContext(
        model=make_model(recipe, data, HERE.device),
        learning_rate=make_learning_rate(recipe.training, 16),
        batches=make_batches(recipe, data, HERE),
        settings=recipe.training,
        schedule=make_schedule(recipe),
        folder=recipe.out,
        validate=lambda model, name: ({}, []),
        keep_best=lambda model: None,
        world=HERE,
    )
    metrics = UpdateMetrics(context, lambda: context.model, 0, 1000.0)
    updates = dict(enumerate(islice(context.batches.updates(0, 0), 4)))
    for number, update in updates.items():
        norm = math.inf if number in non_finite else 1.0 + number
        sums = torch.tensor([20.0 * (number + 1), 10.0 * (number + 1) ** 2], dtype=torch.float64)
        metrics.add(number + 1, update, sums, torch.tensor(norm), 0.1 * (number + 1))
    metrics.flush({"encoder.0": torch.tensor(2.0)})
    *skipped, line = log_of(recipe)
    finite = [number for number in updates if number not in non_finite]
    tokens, last = sum(updates[number].tokens for number in finite), finite[-1]
    assert [each["step"] for each in skipped] == [number + 1 for number in non_finite]
    assert (line["event"], line["step"], line["tokens"], line["epoch"]) == ("train", last + 1, tokens, 0)
    assert line["loss"] == pytest.approx(sum(20 * (number + 1) for number in finite) / tokens, rel=1e-6)
    assert line["nll"] == pytest.approx(sum(10 * (number + 1) ** 2 for number in finite) / tokens, rel=1e-6)
    assert (line["gradient_norm"], line["learning_rate"]) == pytest.approx((last + 1.0, 0.1 * (last + 1)))
    assert line.get("gradient_norms") == (None if 3 in non_finite else {"encoder.0": 2.0})
    assert metrics.consecutive_non_finite == 3 - last
    assert metrics.seconds >= 1000  # with those of earlier processes


@pytest.mark.short_form(1)
@pytest.mark.parametrize("losses", ["33333333", "54332111", "43434343"])
def test_training_ends_after_as_many_validations_without_a_lower_loss_as_patience_has(tmp_path, losses):
    recipe, data = prepared_run(
        tmp_path, "run", validate_every=3, checkpoint_every=3, warmup_steps=1, patience=2
    )
    values, kept = iter(map(float, losses)), []
    state = train_poisoned(recipe, data, set(), [], lambda: next(values), kept.append)
    best = ended = 0  # the numbers of validations
    while ended < 7 and ended - best < 2:
        ended += 1
        best = ended if losses[ended] < losses[best] else best
    assert state.step == 3 * (ended + 1)
    assert state.best_step == state.improved_step == 3 * (best + 1)
    assert len(kept) == len({min(losses[: number + 1]) for number in range(ended + 1)})


def test_too_many_non_finite_updates_end_the_run(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="skip")
    messages = []
    with pytest.raises(DivergenceError, match="In update 23 "):
        train_poisoned(recipe, data, set(range(4, 100)), messages)
    assert len(messages) == 19


def test_a_diverged_run_rolls_back_to_the_last_checkpoint_with_half_the_rate(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback")
    messages = []
    state = train_poisoned(recipe, data, {10}, messages)
    assert (state.step, state.rate_backoff) == (24, 0.5)
    assert messages[0].endswith(
        "It did not change the weights. Rolled back to update 8, with 0.5 times the learning rate."
    )
    assert [(line["step"], line["message"]) for line in log_of(recipe) if line["event"] == "rollback"] == [
        (8, messages[0])
    ]
    rates = {line["step"]: line["learning_rate"] for line in log_of(recipe) if line["event"] == "train"}
    assert rates[12] == pytest.approx(0.5 * 16**-0.5 * min(12**-0.5, 12 * 10**-1.5), abs=1e-6)


@pytest.mark.long
def test_a_rolled_back_run_equals_one_resumed_with_half_the_rate(tmp_path):
    (back, data), (fresh, other) = (
        prepared_run(tmp_path, "back", on_divergence="rollback"),
        prepared_run(tmp_path, "fresh"),
    )
    train_poisoned(back, data, {10}, [])
    train_poisoned(replace(fresh, training=replace(fresh.training, updates=8)), other, set(), [])
    newest = checkpoints(fresh.out)[-1]
    state = json.loads((newest / "place.json").read_text()) | {"rate_backoff": 0.5}
    (newest / "place.json").write_text(json.dumps(state))
    (newest / "manifest.json").unlink()
    write_manifest(newest)
    train_poisoned(fresh, other, set(), [])
    assert_same(final_weights(back), final_weights(fresh))


def test_a_run_rolls_back_to_the_newest_intact_checkpoint(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback")
    messages = []
    train_poisoned(replace(recipe, training=replace(recipe.training, updates=16)), data, set(), messages)
    (checkpoints(recipe.out)[-1] / "place.json").write_text("damaged")
    train_poisoned(recipe, data, {3}, messages)
    assert "step-00000016" in messages[0]
    assert messages[-1].endswith("Rolled back to update 12, with 0.5 times the learning rate.")


@pytest.mark.long
def test_each_rollback_halves_the_rate_also_after_a_restart(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback")
    messages = []
    train_poisoned(replace(recipe, training=replace(recipe.training, updates=14)), data, {10}, messages)
    assert train_poisoned(recipe, data, {7, 9}, messages).rate_backoff == 0.125
    assert [message.split("Rolled back to ")[1] for message in messages] == [
        "update 8, with 0.5 times the learning rate.",
        "update 20, with 0.25 times the learning rate.",
        "update 16, with 0.125 times the learning rate.",  # the cause may be older
    ]


@pytest.mark.long
def test_a_second_divergence_from_the_only_checkpoint_leaves_it(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback", log_every=1)
    messages = []
    state = train_poisoned(recipe, data, {5, 7}, messages)
    assert (state.step, state.rate_backoff) == (24, 0.25)
    assert ["Rolled back to update 4," in message for message in messages] == [True, True]


def test_a_run_that_always_diverges_tries_every_rate_down_to_the_lowest(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback", log_every=1)
    messages = []
    with pytest.raises(DivergenceError):
        train_poisoned(recipe, data, set(range(100)), messages)
    rates = [float(message.split(" times the learning rate")[0].split()[-1]) for message in messages]
    assert rates == [0.5**halvings for halvings in range(1, 7)]
    assert rates[-1] == MIN_RATE_BACKOFF


@pytest.mark.long
def test_the_lower_rate_survives_a_kill_right_after_the_rollback(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback")

    def killed(message: str) -> None:
        raise KeyboardInterrupt(message)

    with pytest.raises(KeyboardInterrupt, match="Rolled back to update 8, with 0.5 times the learning rate"):
        train_poisoned(recipe, data, {10}, SimpleNamespace(append=killed))
    assert train_poisoned(recipe, data, set(), []).rate_backoff == 0.5


@pytest.mark.long
def test_a_run_that_was_killed_after_a_rollback_goes_back_further_if_it_diverges_again(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback")
    messages = []

    def killed(message: str) -> None:
        messages.append(message)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_poisoned(recipe, data, {10}, SimpleNamespace(append=killed))
    train_poisoned(recipe, data, {1}, messages)
    assert "Rolled back to update 8," in messages[0]
    assert "Rolled back to update 4," in messages[-1]


def test_after_a_second_rollback_the_best_model_is_still_the_one_that_is_kept(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="rollback", validate_every=4)
    kept, messages, losses = [], [], iter([3.0, 1.0, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5])
    state = train_poisoned(recipe, data, {10, 14}, messages, loss=lambda: next(losses), keep_best=kept.append)
    assert ["update 8," in message for message in messages] == [True, False]  # the second one is to update 4
    assert len(kept) == 2  # with the losses 3 and 1
    assert (state.best_step, state.best["loss"]) == (8, 1.0)


def test_the_checkpoint_before_the_newest_is_kept_if_neither_is_regular(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", validate_every=5, checkpoint_every=100)
    losses = iter([5.0, 4.0, 3.0, 2.0, 1.0])
    train_poisoned(recipe, data, set(), [], loss=lambda: next(losses))
    assert [step_of(path) for path in checkpoints(recipe.out)] == [20, 24]


def test_no_checkpoint_has_non_finite_weights(tmp_path):
    recipe, data = prepared_run(
        tmp_path, "run", on_divergence="rollback", learning_rate_scale=1e300, checkpoint_every=1
    )
    messages = []
    with pytest.raises(
        DivergenceError,
        match=r"After update 1 some weights are NaN or infinite\. Repeat .* a lower learning_rate_scale\.",
    ):
        train_poisoned(recipe, data, set(), messages)
    assert not checkpoints(recipe.out)
    assert all("Restarted, with" in message for message in messages)


def test_a_model_with_non_finite_weights_is_not_kept_as_the_best(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", learning_rate_scale=1e300, validate_every=1)
    with pytest.raises(DivergenceError, match="After update 1 some weights are NaN or infinite"):
        train_poisoned(recipe, data, set(), [], loss=1.0, keep_best=lambda model: pytest.fail("kept"))


@pytest.mark.long
def test_before_the_first_checkpoint_a_diverged_run_restarts_with_half_the_rate(tmp_path):
    (back, data), (half, other) = (
        prepared_run(tmp_path, "back", on_divergence="rollback"),
        prepared_run(tmp_path, "half", learning_rate_scale=0.5),
    )
    messages = []
    train_poisoned(back, data, {3}, messages)
    assert messages[0].endswith("Restarted, with 0.5 times the learning rate.")
    train_poisoned(half, other, set(), [])
    assert_same(final_weights(back), final_weights(half))


def test_a_non_finite_validation_ends_the_run_and_keeps_no_model(tmp_path):
    recipe, data = prepared_run(tmp_path, "run", on_divergence="skip")
    with pytest.raises(
        DivergenceError,
        match=r"After update 8 the validation loss is nan\. The best model before it is kept, if "
        r"there is one\. Repeat",
    ):
        train_poisoned(recipe, data, set(), [], loss=float("nan"))
    assert {line["event"] for line in log_of(recipe)} == {"train"}


def test_a_model_with_nan_weights_has_a_nan_validation_loss(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    model = make_model(recipe, data, HERE.device)
    with torch.no_grad():
        model.target_embedding.weight[5] = float("nan")
    scores, samples = make_validate(recipe, data, HERE)(model, "of a test")
    assert math.isnan(scores["loss"])
    assert not samples


@pytest.mark.parametrize("rank", [0, 1])
def test_the_search_for_a_layer_draws_the_masks_of_the_update(tmp_path, rank):
    recipe, data = prepared_run(tmp_path, "run")
    model, noted = make_model(recipe, data, HERE.device).eval(), []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, batch):
            noted.append((self.model.training, torch.rand(3).tolist()))
            return next(self.model.parameters()).sum(), torch.zeros(())

    batches = make_batches(recipe, data, HERE)
    update = next(batches.updates(0, 0))
    context = TrainingContext(
        model=model,
        learning_rate=lambda step: 1.0,
        batches=batches,
        settings=replace(recipe.training, seed=5),
        schedule=make_schedule(recipe),
        folder=recipe.out,
        validate=lambda model, name: ({}, []),
        keep_best=lambda model: None,
        world=replace(HERE, rank=rank),
        make_objective=lambda *_: Noting(),
    )
    assert locate(context, model, 9, update).endswith("It does not recur with the current weights.")
    seed_update(5, 9, rank)
    assert noted == [(True, torch.rand(3).tolist()) for _ in update.batches]


@pytest.mark.long
def test_the_times_in_a_log_do_not_overlap(tmp_path):
    """Of updates and of validations; the minutes of a validation are those until then.

    Only the first validation is followed by a checkpoint.
    """
    recipe, data = prepared_run(tmp_path, "run", checkpoint_every=7)
    started = time.monotonic()

    def loss() -> float:
        time.sleep(0.1)
        return 1.0

    train_poisoned(recipe, data, set(), [], loss)
    took = time.monotonic() - started
    validations = [line for line in log_of(recipe) if line["event"] == "validation"]
    assert len(validations) == 3
    assert sum(line.get("seconds", 0.0) for line in log_of(recipe)) <= took
    ends = [60 * line["minutes"] for line in validations]
    assert sorted(ends) == ends
    assert sum(line["seconds"] for line in validations[:-1]) <= ends[-1] <= took


def test_the_first_non_finite_layer_is_named(tmp_path):
    recipe, data = prepared_run(tmp_path, "run")
    model = make_model(recipe, data, HERE.device)
    objective = Objective.of(model, recipe.training)
    batch = next(make_batches(recipe, data, HERE).updates(0, 0)).batches[0]
    assert first_non_finite_layer(objective, batch) is None
    handle = model.decoder[0].feed_forward.outer.weight.register_hook(lambda gradient: gradient / 0)
    assert (
        first_non_finite_layer(objective, batch)
        == "the gradient of model.decoder.0.feed_forward.outer.weight"
    )
    model.encoder[0].feed_forward.inner.weight.register_hook(lambda gradient: gradient / 0)
    assert (  # the backward pass reaches the decoder first
        first_non_finite_layer(objective, batch)
        == "the gradient of model.decoder.0.feed_forward.outer.weight"
    )
    model.encoder[0].feed_forward.outer.weight.requires_grad_(False)  # as `--freeze` and LoRA do
    assert (
        first_non_finite_layer(objective, batch)
        == "the gradient of model.decoder.0.feed_forward.outer.weight"
    )
    handle.remove()
    smoothing, objective.cross_entropy.smoothing = objective.cross_entropy.smoothing, math.nan
    assert first_non_finite_layer(objective, batch) == "the loss"
    objective.cross_entropy.smoothing = smoothing
    with torch.no_grad():
        model.decoder[0].feed_forward.inner.weight[0, 0] = float("nan")
    assert first_non_finite_layer(objective, batch) == "the output of model.decoder.0.feed_forward.inner"

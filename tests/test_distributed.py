"""Several processes train as one does."""

import gc
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed, nn

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.pipeline import run
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch, Update
from dragoman.training.checkpoint import checkpoints
from dragoman.training.distributed import ProcessGroup
from dragoman.training.interrupt import OUT_OF_TIME
from dragoman.training.objective import Objective, accumulate_gradients
from dragoman.training.process_group import process_group
from dragoman.training.world import World
from dragoman.translation import files
from dragoman.translation.translator import Translator
from tests.conftest import MAX_SECONDS, write_copies
from tests.processes import as_ranks, dragoman, fork, start, worst

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

FLAGS = (
    # Muon's steps have the directions of a gradient that are only rounding errors, too.
    "--updates 8 --validate-every 4 --checkpoint-every 2 --log-every 1 --warmup-steps 10 --preset tiny "
    "--optimizer adam "
    "--d-model 16 --d-ff 32 --heads 2 "
    "--encoder-layers 1 --decoder-layers 1 --dropout 0 --precision float32 --source-tokens-per-batch 400 "
    "--target-tokens-per-batch 400 "
    "--source-tokens word --vocabulary 50 --average 3 --learning-rate-scale 0.1"
)


def arguments(folder: Path, out: Path, *more: str) -> list[str]:
    """What a user types after `dragoman`."""
    files = [
        "--source",
        str(folder / "train.source"),
        "--target",
        str(folder / "train.target"),
        "--out",
        str(out),
    ]
    return ["train", *files, *FLAGS.split(), *more]


def torchrun(arguments: list[str], restarts: int = 0) -> list[str]:
    """Two processes, as a user starts them."""
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "--max-restarts",
        str(restarts),
    ]
    return [*launcher, "-m", "dragoman", *arguments]


def in_a_process(arguments: list[str]) -> list[str]:
    """One, as a user starts it: a forked one would compile the tests' checks of shapes too."""
    return [sys.executable, "-m", "dragoman", *arguments]


def attempt(folder: Path, out: Path, ranks: int, *more: str) -> tuple[int, str]:
    """Train; the exit status and what was said."""
    messages = out.with_name(f"{out.name}.messages")
    return dragoman(ranks, arguments(folder, out, *more), messages), messages.read_text()


def train(folder: Path, out: Path, ranks: int, *more: str) -> str:
    """Train to the end; what was said."""
    status, messages = attempt(folder, out, ranks, *more)
    assert status == 0, messages
    return messages


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(out)[-1] / "model.safetensors")


def log(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def losses(out: Path) -> list[float]:
    return [line["loss"] for line in log(out)]


def gradient_norms(out: Path) -> list[dict[str, float]]:
    """Of the whole gradient, and of each layer: Adam would not tell one gradient from its double."""
    return [
        {"all": line["gradient_norm"], **line["gradient_norms"]}
        for line in log(out)
        if line["event"] == "train"
    ]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_copies(folder, "train", 300)
    write_copies(folder, "test", 31, seed=1)
    return folder


@pytest.fixture(scope="module")
def one(text) -> Path:
    """A run of one process."""
    train(text, text / "one", 1)
    return text / "one"


@pytest.fixture(scope="module")
def two(text) -> Path:
    """The same on two."""
    messages = train(text, text / "two", 2)
    assert messages.count("Validation at update ") == 2  # only the main process writes messages
    return text / "two"


@pytest.fixture(scope="module")
def sharded(text) -> Path:
    """The same on two that have half of every weight each."""
    assert train(text, text / "sharded", 2, "--shard").count("Validation at update ") == 2
    return text / "sharded"


def assert_near(run: Path, other: Path) -> None:
    assert losses(run) == pytest.approx(losses(other), abs=2e-4)
    for norms, others in zip(gradient_norms(run), gradient_norms(other), strict=True):
        assert norms == pytest.approx(others, rel=1e-4)
    for name, weight in weights(run).items():
        torch.testing.assert_close(weight, weights(other)[name], atol=2e-3, rtol=1e-3)


def test_two_processes_train_as_one_does(one, two):
    assert_near(one, two)
    results = [json.loads((out / "result.json").read_text()) for out in (one, two)]
    assert results[0]["updates"] == results[1]["updates"] == 8
    assert results[0]["validation"]["bleu"] == pytest.approx(results[1]["validation"]["bleu"], abs=3)


@pytest.mark.long
def test_sharded_weights_train_as_unsharded_ones_do(two, sharded):
    assert_near(two, sharded)
    results = [json.loads((out / "result.json").read_text()) for out in (two, sharded)]
    assert results[0]["validation"]["bleu"] == pytest.approx(results[1]["validation"]["bleu"], abs=3)
    assert {path.name for path in checkpoints(two)} == {path.name for path in checkpoints(sharded)}


@pytest.mark.long
def test_processes_accumulate_the_gradients_of_small_batches(text):
    """Three batches an update, cut further, in two forward calls a decoder layer each; clipped."""
    more = (
        "--accumulate",
        "3",
        "--micro-batch-tokens",
        "90",
        "--clip-norm",
        "0.5",
        *("--updates", "2", "--validate-every", "2", "--checkpoint-every", "2"),
    )
    for name, ranks, flags in (("cut-one", 1, ()), ("cut-two", 2, ()), ("cut-spread", 2, ("--shard",))):
        train(text, text / name, ranks, *more, *flags)
    assert_near(text / "cut-one", text / "cut-two")
    assert_near(text / "cut-one", text / "cut-spread")


@pytest.mark.long
def test_processes_guide_a_head_as_one_does(text):
    """By pairs that end up in different batches, and in a rank without a batch."""
    counts = [len(line.split()) for line in (text / "train.source").read_text().splitlines()]
    links = text / "train.links"
    links.write_text("".join(" ".join(f"{n}-0 0-{n}" for n in range(count)) + "\n" for count in counts))
    more = (
        "--guided-alignment",
        str(links),
        "--guided-alignment-weight",
        "0.5",
        "--micro-batch-tokens",
        "90",
    )
    short = ("--updates", "4", "--validate-every", "4", "--checkpoint-every", "4")
    for name, ranks, flags in (
        ("guided-one", 1, ()),
        ("guided-two", 2, ()),
        ("guided-spread", 2, ("--shard",)),
    ):
        train(text, text / name, ranks, *more, *short, *flags)
    train(text, text / "unguided", 1, *short)
    assert_near(text / "guided-one", text / "guided-two")
    assert_near(text / "guided-one", text / "guided-spread")
    assert losses(text / "guided-one")[0] > losses(text / "unguided")[0] + 0.1


def reductions(objective: torch.nn.Module, update: Update, world: World) -> int:
    """How often processes add up numbers in an update."""
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        accumulate_gradients(objective, update, world)
    return sum(
        event.name().startswith(("c10d::allreduce", "c10d::_reduce_scatter"))
        for event in profile.kineto_results.events()
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("shards", [False, True])
def test_processes_synchronise_gradients_once_an_update_however_it_is_cut(tmp_path, shards):
    def count(rank: int) -> None:
        distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=2
        )
        world = ProcessGroup(rank, 2, torch.device("cpu"))
        model = build_model(
            ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1), 11, 11
        )
        parallel = world.data_parallel(Objective(model, 0.1, bfloat16=False), model, shards)
        batch = Batch.of(*torch.randint(4, 11, (2, 8, 5)), list(range(8)))
        updates = [
            Update(0, 0, batches, 2 * batch.tokens)
            for batches in ([batch], [batch], batch.halves(), [batch] * 3)
        ]
        _, once, *cut = (
            reductions(parallel, update, world) for update in updates
        )  # DDP sorts weights into buckets in the first
        assert once > 0
        assert cut == [once, once]
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: count(rank)) for rank in range(2)]) == 0


@pytest.mark.parametrize("size", [2, 3])
def test_processes_compare_large_numbers_exactly(tmp_path, size):
    def compare(rank: int) -> None:
        store = f"file://{tmp_path}/{size}"
        distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
        world = ProcessGroup(rank, size, torch.device("cpu"))
        assert world.all_equal(10**9 + 1)
        assert not world.all_equal(10**9 + rank)
        assert not world.all_equal(10**9 + (rank == 1))
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: compare(rank)) for rank in range(size)]) == 0


def test_lines_that_processes_share_come_back_in_order(tmp_path):
    """Also where some have none, and where a line is empty or of other letters."""

    def share(rank: int) -> None:
        distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/lines", rank=rank, world_size=3
        )
        world = ProcessGroup(rank, 3, torch.device("cpu"))
        for lines in ([], ["one"], ["é\u2028", ""], ["", "", ""], [f"line {n}" * n for n in range(8)]):
            part = world.split(lines)
            assert len(part) == (len(lines) + 2 - rank) // 3
            assert world.gather(part, len(lines)) == lines
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: share(rank)) for rank in range(3)]) == 0


@pytest.mark.parametrize("late", [0, 1])
def test_processes_end_at_the_same_step_when_the_time_of_one_is_over(tmp_path, monkeypatch, late):
    monkeypatch.setattr("dragoman.training.distributed.SECONDS_BETWEEN_QUERIES", 0.01)

    def train(rank: int) -> None:
        distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/time", rank=rank, world_size=2)
        world = ProcessGroup(rank, 2, torch.device("cpu"))
        stop = world.stop_request(7, time.monotonic() + 0.1 if rank == late else math.inf)
        step, found = 7, None
        while found is None and step < 5000:
            step += 1
            time.sleep(0.001 * (1 + rank))
            found = stop.after(step)
        assert found == OUT_OF_TIME
        assert world.all_equal(step)
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: train(rank)) for rank in range(2)]) == 0


def test_in_a_second_training_of_a_program_the_others_wait_for_the_main_process_again(tmp_path):
    def twice() -> None:
        for number in range(2):
            written = tmp_path / f"written {number}"
            with process_group() as world:

                def write(written=written) -> None:
                    time.sleep(0.3)
                    written.touch()

                world.main_first(write)
                assert written.exists()
                world.barrier()

    assert worst(as_ranks(2, twice)) == 0


def test_batch_normalisation_is_refused_in_several_processes():
    settings = ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1, norm="batch")
    model = build_model(settings, 11, 11)
    world = ProcessGroup(0, 2, torch.device("cpu"))
    for shards in (False, True):
        with pytest.raises(DragomanError, match="Train in one process, or choose another norm"):
            world.data_parallel(Objective(model, 0.1, bfloat16=False), model, shards)


def ask_for_much(_, given):
    """Ask for more memory than any machine has, for 20 pairs and more."""
    bytearray(len(given[0].pairs) // 20 * 2**60)


def two_of(tmp_path: Path, rank: int) -> tuple[World, Objective, nn.Module, list[Batch], int]:
    """One of two processes: the objective alone and in parallel, both batches, and their number of tokens."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/short", rank=rank, world_size=2)
    world = ProcessGroup(rank, 2, torch.device("cpu"))
    torch.manual_seed(1)
    model = build_model(
        ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0), 11, 11
    ).double()
    objective = Objective(model, 0.1, bfloat16=False)
    shares = [Batch.of(*torch.randint(4, 11, (2, 60, 10)), list(range(60))) for _ in range(2)]
    return (
        world,
        objective,
        world.data_parallel(objective, model, shards=False),
        shares,
        sum(batch.tokens for batch in shares),
    )


def test_a_process_that_is_short_of_memory_cuts_its_own_batches(tmp_path):
    def learn(rank: int) -> None:
        world, objective, parallel, shares, tokens = two_of(tmp_path, rank)
        much = objective.register_forward_pre_hook(ask_for_much) if rank == 0 else nullcontext()
        with warnings.catch_warnings(record=True) as messages, much:
            warnings.simplefilter("always")
            accumulate_gradients(parallel, Update(0, 0, [shares[rank]], tokens), world)
        cut = [re.search(r"not enough memory for (\d+) pairs", str(warning.message)) for warning in messages]
        assert [int(found[1]) for found in cut if found] == [[60, 30], []][rank]
        found = [weight.grad.clone() for weight in objective.parameters()]
        objective.zero_grad()
        accumulate_gradients(objective, Update(0, 0, shares, tokens), world.local)
        for weight, gradient in zip(objective.parameters(), found, strict=True):
            torch.testing.assert_close(gradient, weight.grad)
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: learn(rank)) for rank in range(2)]) == 0


def test_out_of_memory_during_synchronisation_ends_all_processes(tmp_path):
    def learn(rank: int) -> None:
        world, objective, parallel, shares, tokens = two_of(tmp_path, rank)
        if rank == 0:
            next(objective.parameters()).register_hook(lambda _: bytearray(2**62))
        with pytest.raises(DragomanError if rank == 0 else RuntimeError) as messages:
            accumulate_gradients(parallel, Update(0, 0, [shares[rank]], tokens), world)
        assert (
            "not enough memory for 60 pairs at once; train with a lower micro_batch_tokens"
            in str(messages.value)
            or rank == 1
        )

    assert worst([fork(lambda rank=rank: learn(rank)) for rank in range(2)]) == 0


@pytest.mark.long
def test_divergence_of_sharded_weights_is_located(text):
    more = ("--shard", "--learning-rate-scale", "1e30", "--on-divergence", "skip")
    status, messages = attempt(text, text / "diverged", 2, *more, "--updates", "24", "--validate-every", "24")
    assert status != 0
    assert "The update is skipped." in messages
    assert "First non-finite value: " in messages


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second", "flags"),
    [("two", 1, []), ("one", 2, []), ("one", 2, ["--shard"]), ("sharded", 1, [])],
)
def test_a_run_resumes_with_another_number_of_processes(request, text, first, second, flags):
    whole = request.getfixturevalue(first)
    out = text / "-".join([first, "then", str(second), *flags])
    shutil.copytree(whole, out)
    for path in (out / "result.json", *checkpoints(out)[1:]):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    assert f"Resuming {out}" in train(text, out, second, *flags)
    assert [path.name for path in checkpoints(out)] == ["step-00000004", "step-00000006", "step-00000008"]
    assert_near(whole, out)


LONGER = ("--updates", "40", "--validate-every", "20", "--checkpoint-every", "10")


@pytest.fixture(scope="module")
def longer(text) -> Path:
    """A run of two processes that takes long enough to be killed."""
    train(text, text / "longer", 2, *LONGER)
    return text / "longer"


def kill_the_second(launcher: int) -> None:
    """Kill the process of rank 1 that torchrun has started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"^PPid:\s+(\d+)", (path / "status").read_text(), re.MULTILINE)
            if parent and int(parent[1]) == launcher and b"\0RANK=1\0" in (path / "environ").read_bytes():
                os.kill(int(path.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue


def await_checkpoint(out: Path) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while not checkpoints(out):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def assert_ended_as(longer: Path, out: Path) -> None:
    assert (out / "result.json").exists()
    assert all(torch.equal(weight, weights(longer)[name]) for name, weight in weights(out).items())


@pytest.mark.long
def test_torchrun_restarts_a_run_after_a_process_was_killed(text, longer):
    out = text / "restarted"
    asked = torchrun(arguments(text, out, *LONGER), restarts=1)
    with subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        await_checkpoint(out)
        kill_the_second(process.pid)
        _, messages = process.communicate(timeout=MAX_SECONDS)
    assert f"Resuming {out}" in messages
    assert_ended_as(longer, out)


@pytest.mark.long
@pytest.mark.parametrize("ranks", ["forked", pytest.param("torchrun", marks=pytest.mark.long)])
def test_a_file_that_two_processes_have_translated_is_that_of_one(text, one, ranks, monkeypatch):
    if ranks == "forked":
        monkeypatch.setattr(files, "BLOCK", 100)
    count = 2 * files.BLOCK + files.BLOCK // 20  # three blocks
    lines = (text / "train.source").read_text().splitlines()
    (text / "many").write_text("".join(f"{line}\n" for line in (lines * 14)[:count]))
    asked = [
        "translate",
        str(one),
        "--input",
        str(text / "many"),
        "--beam-size",
        "1",
        "--no-native",
        "--output",
    ]
    told, out = text / "translated.messages", text / f"shared-{ranks}"
    if ranks == "torchrun":
        subprocess.run(torchrun([*asked, str(out)]), check=True, timeout=MAX_SECONDS)
    else:
        assert dragoman(2, [*asked, str(out)], told) == 0, told.read_text()
    assert dragoman(1, [*asked, str(text / f"alone-{ranks}")], told) == 0, told.read_text()
    assert out.read_bytes() == (text / f"alone-{ranks}").read_bytes()
    assert out.read_bytes().count(b"\n") == count


@pytest.mark.long
def test_a_killed_process_ends_the_run_and_the_same_command_resumes_it(text, longer):
    out, messages = text / "killed", text / "killed.messages"
    processes = start(2, arguments(text, out, *LONGER), messages)
    await_checkpoint(out)
    os.kill(processes[1], signal.SIGKILL)
    assert worst(processes[:1]) != 0
    assert worst(processes[1:]) == signal.SIGKILL
    assert "Another process of this training has ended" in messages.read_text()
    assert "resume with `dragoman resume RUN`" in messages.read_text()
    assert f"Resuming {out}" in train(text, out, 2, *LONGER)
    assert_ended_as(longer, out)


def set_variables_of_a_single_process():
    """As torchrun sets them for one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)


def test_a_process_ends_without_waiting_for_the_threads_of_its_group():
    """They may wait for a process that has died, or for Python's lock, which their destructor holds."""

    def enter_and_leave() -> None:
        set_variables_of_a_single_process()
        with process_group():
            pass
        gc.collect()
        assert "pt_gloo_runloop" in {
            path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")
        }

    assert worst([fork(enter_and_leave)]) == 0


def test_an_error_of_the_network_gets_a_sentence():
    def fail_inside() -> None:
        set_variables_of_a_single_process()
        with pytest.raises(DragomanError, match=r"Another process .* has ended \(Failed to recv\)"):  # noqa: SIM117
            with process_group():
                raise distributed.DistNetworkError("Failed to recv")

    assert worst([fork(fail_inside)]) == 0


@pytest.mark.long
def test_each_process_may_meet_texts_of_its_own_length(text):
    """A long sentence lets one process alone grow its table of positions; then both go on training."""
    words = ["amber", "birch", "cedar", "delta"]
    for number, side in ((0, "source"), (1, "target")):
        lines = ["amber birch", " ".join(words * 100), "cedar delta", "ember"]
        (text / f"long.{side}").write_text(
            "".join((line.upper() if number else line) + "\n" for line in lines)
        )
    files = ["--valid-source", str(text / "long.source"), "--valid-target", str(text / "long.target")]
    assert "Translate with" in train(text, text / "long", 2, *files)


@pytest.fixture(scope="module")
def tested(text) -> Path:
    """A run of two processes with test data.

    tested.writes has the rank and the event whenever Python code changes a file of the run.

    tested.shares has how many validation batches and sentences a rank was given each time.
    """
    out = text / "tested"

    def noted(function, name):
        def call(*given):
            os.write(shares, f"{name} {os.environ.get('RANK')} {len(given[1])}\n".encode())
            return function(*given)

        return call

    def note(event: str, given: tuple) -> None:
        changes = event in {
            "os.mkdir",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.link",
            "os.symlink",
            "os.truncate",
        }
        changes |= event == "open" and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        if changes and any(f"{out}/" in f"{part}/" for part in given[:2]):
            os.write(writes, f"{os.environ.get('RANK')} {event} {given}\n".encode())

    def watched() -> None:
        sys.addaudithook(note)  # for good, and so in a process that ends; its own have the hook too
        run.corpus_loss, Translator.translate = (
            noted(run.corpus_loss, "batches"),
            noted(Translator.translate, "sentences"),
        )
        files = ["--test-source", str(text / "test.source"), "--test-target", str(text / "test.target")]
        files += ["--valid-source", str(text / "train.source"), "--valid-target", str(text / "train.target")]
        train(
            text, out, 2, *files, "--updates", "100", "--validate-every", "50", "--learning-rate-scale", "0.2"
        )

    writes, shares = (
        os.open(text / f"tested.{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for name in ("writes", "shares")
    )
    assert worst([fork(watched)]) == 0
    os.close(writes)
    os.close(shares)
    return out


@pytest.mark.long
def test_all_processes_translate_the_test_data_and_one_scores_it(tested):
    assert tested.with_name("tested.messages").read_text().count("Test: BLEU = ") == 1
    written = (tested / "test.hypotheses.txt").read_text().splitlines()
    assert written == Translator.load(tested).translate(
        (tested.parent / "test.source").read_text().splitlines()
    )
    assert len(set(written)) > 4  # so that their order tells


@pytest.mark.long
def test_validation_and_decoding_are_shared(tested):
    lines = [line.split() for line in tested.with_name("tested.shares").read_text().splitlines()]
    for kind in ("batches", "sentences"):
        first, second = (
            [int(count) for name, rank, count in lines if (name, rank) == (kind, own)] for own in ("0", "1")
        )
        assert len(first) == len(second) >= 3  # two validations, and that of the average
        assert all(one > 1 and one - other in (0, 1) for one, other in zip(first, second, strict=True))


def test_only_the_main_process_writes(tested):
    lines = tested.with_name("tested.writes").read_text().splitlines()
    assert {line.split()[0] for line in lines} == {"0"}, [line for line in lines if not line.startswith("0 ")]


def is_under_way(out: Path) -> bool:
    """Whether an update is logged: all processes have made it, and await signals."""
    path = out / "log.jsonl"
    return path.exists() and path.stat().st_size > 0


@pytest.mark.long
def test_a_signal_to_one_process_stops_all_of_them(text, monkeypatch):
    monkeypatch.setattr("dragoman.training.distributed.SECONDS_BETWEEN_QUERIES", 0.2)
    out, messages = text / "stopped", text / "stopped.messages"
    rare = [
        part
        for name in ("updates", "validate-every", "checkpoint-every")
        for part in (f"--{name}", "1000000")
    ]
    processes = start(2, arguments(text, out, *rare), messages)
    deadline = time.monotonic() + MAX_SECONDS
    while not is_under_way(out) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(processes[1], signal.SIGTERM)
    assert worst(processes) == 128 + signal.SIGTERM
    assert "nothing is lost. Resume with: dragoman resume" in messages.read_text()
    assert len(checkpoints(out)) == 1


def test_one_process_is_a_world():
    world = World(device=torch.device("cpu"))
    assert world.is_main
    assert world.local == world
    assert world.all_reduce(torch.tensor([2.0])).tolist() == [2.0]
    assert world.gather(world.split(["one", "two"]), 2) == ["one", "two"]

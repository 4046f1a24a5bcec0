"""Training speed on a GPU, with random tokens and with the text of corpora, in one command.

    python benchmarks/gpu_train.py --preset base big --way pytorch compile native graphs --profile \
        --source one.en two.en --target one.de two.de

measures every preset on random tokens and on every corpus, in several ways: with PyTorch's kernels, with
torch.compile, with the kernels of native/, and with these in CUDA graphs (training/graphs.py), as `dragoman
train` does. Batches of 25,000 + 25,000 tokens, a vocabulary of 37,000 (the paper's),
bfloat16. Prints, a line of JSON each, target tokens a second, the share of the device's peak where that is
known, memory, the milliseconds that the host needs to start an update, and how often an operation made the
host wait for a GPU (the loop is to have none), and writes it beside this file; --profile writes there too
where the time goes. `--toy` runs on any machine.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product, repeat
from pathlib import Path

import torch
from passport import asked, keep, passport

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import END
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe
from dragoman.text.batches import Batch, Update
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.loop import prefetch
from dragoman.training.objective import (
    Objective,
    accumulate_gradients,
    make_optimizer,
    seed_update,
    step_optimizer,
    with_graphs,
)
from dragoman.training.world import World

WAYS = ("pytorch", "compile", "native", "graphs")
PEAKS = {"NVIDIA H100 80GB HBM3": 989e12, "NVIDIA H200": 989e12}
"""Floating-point operations a second in bfloat16, not sparse, by NVIDIA's data sheets, of devices as PyTorch
names them (the SXM ones).
"""


def random_updates(tokens: int, length: int, vocabulary: int, device: torch.device) -> Iterator[Update]:
    """One batch of random pairs of one length, again and again."""
    rows = tokens // length
    ids = torch.randint(4, vocabulary, (2, rows, length))
    ids[:, :, -1] = END
    batch = Batch.of(*ids, list(range(rows))).to(device)
    return repeat(Update(0, 0, [batch], batch.tokens))


@contextmanager
def updates_of(
    source: Path, target: Path, tokens: int, vocabulary: int, world: World
) -> Iterator[tuple[Callable[[], Iterator[Update]], int]]:
    """What gives the updates of a corpus from its first on, and the size of its vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(
            out=Path(folder),
            data=DataSettings(source=source, target=target),
            tokenizer=TokenizerSettings(vocabulary=vocabulary),
            batches=BatchSettings(source_tokens_per_batch=tokens, target_tokens_per_batch=tokens),
        )
        prepare(Path(folder), recipe)
        data = PreparedData.load(Path(folder) / "data")
        yield (
            lambda: prefetch(make_batches(recipe, data, world).updates(0, 0), world.device),
            len(data.tokenizers.target),
        )


def update_flops(settings: ModelSettings, vocabulary: int, source_tokens: int, target_tokens: int) -> float:
    """Floating-point operations of the matrix products with weights, forward and backward; attention's own
    are left out.
    """
    d, inner = settings.d_model, 2 * settings.d_model * settings.d_ff
    source = settings.encoder_layers * (4 * d * d + inner) + settings.decoder_layers * 2 * d * d
    target = settings.decoder_layers * (6 * d * d + inner) + d * vocabulary
    return 6.0 * (source * source_tokens + target * target_tokens)


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def noticing_waits(device: torch.device) -> Iterator[list[str]]:
    """Collects a message for every operation that makes the host wait for a GPU: they are counted, since an
    error would end it all.
    """
    waits: list[str] = []
    if device.type != "cuda":
        yield waits
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode("default")
            waits += [text for warning in told if "synchronizing" in (text := str(warning.message))]


def measure(
    updates: Iterator[Update],
    vocabulary: int,
    settings: ModelSettings,
    way: str,
    arguments: argparse.Namespace,
) -> tuple[dict[str, object], str | None]:
    """Train on some updates, the first ones uncounted; what they took, and where three more spend their time,
    if that is asked.
    """
    world = World()
    torch.manual_seed(1)
    model = build_model(settings, vocabulary, vocabulary).to(world.device)
    if way == "compile":
        for layer, _ in model.layers():
            layer.compile(dynamic=True)
    native = way in {"native", "graphs"}
    objective, optimizer = Objective(model, 0.1, bfloat16=True, native=native).train(), make_optimizer(model)
    trained = with_graphs(objective) if way == "graphs" else objective
    flops = tokens = 0.0

    def step(number: int) -> None:
        nonlocal flops, tokens
        update = next(updates)
        seed_update(1, number, 0)
        accumulate_gradients(trained, update, world)
        step_optimizer(optimizer, model, 1e-4, 0.0)
        optimizer.zero_grad()
        tokens += update.tokens
        flops += update_flops(
            settings, vocabulary, sum(batch.source.numel() for batch in update.batches), update.tokens
        )

    for number in range(arguments.warm_up):
        step(number)
    synchronise(world.device)
    flops = tokens = 0.0
    begun = time.monotonic()
    with noticing_waits(world.device) as waits:
        for number in range(arguments.updates):
            step(number)
    started = time.monotonic() - begun
    synchronise(world.device)
    seconds = time.monotonic() - begun
    gpu = world.device.type == "cuda"
    found: dict[str, object] = {
        "target_tokens_per_second": tokens / seconds,
        "milliseconds_per_update": 1000 * seconds / arguments.updates,
        "host_milliseconds_per_update": 1000 * started / arguments.updates,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if gpu else 0.0,
    }
    if gpu:
        found["waits"] = len(waits)
        free, total = torch.cuda.mem_get_info()
        found["used_gib"] = (total - free) / 2**30  # with the graphs
    if gpu and (peak := PEAKS.get(torch.cuda.get_device_name())):
        found["share_of_peak"] = flops / seconds / peak
    if not arguments.profile:
        return found, None
    with torch.profiler.profile() as profile:
        for number in range(3):
            step(number)
        synchronise(world.device)
    sorting = "self_device_time_total" if gpu else "self_cpu_time_total"
    return found, profile.key_averages().table(sort_by=sorting, row_limit=60, max_name_column_width=60)


def measure_all(
    name: str, updates: Callable[[], Iterator[Update]], vocabulary: int, arguments: argparse.Namespace
) -> None:
    """Measure every preset in every way on one text; print it, and write it beside this file."""
    for preset, way in product(arguments.preset, arguments.way):
        settings = PRESETS[preset]
        if arguments.toy:
            settings = replace(PRESETS["tiny"], d_model=32, d_ff=64, encoder_layers=1, decoder_layers=1)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        found, profile = measure(updates(), vocabulary, settings, way, arguments)
        about = {
            "text": name,
            "preset": preset,
            "way": way,
            "tokens": arguments.tokens,
            "vocabulary": vocabulary,
        }
        found |= passport(asked("gpu_train.py", arguments)) | about
        print(json.dumps(found), flush=True)
        path = keep(found, arguments.out, f"gpu-train-{preset}-{way}-{name}")
        if profile is not None:
            path.with_suffix(".txt").write_text(profile)


def main() -> None:
    """Random tokens first, then the corpora."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", nargs="+", choices=list(PRESETS), default=["base"])
    parser.add_argument("--tokens", type=int, default=25_000)
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--vocabulary", type=int, default=37_000)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--source", nargs="+", type=Path, default=[])
    parser.add_argument("--target", nargs="+", type=Path, default=[])
    parser.add_argument("--way", nargs="+", choices=WAYS, default=["native"])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--toy", action="store_true", help="a tiny model for a moment: does it run at all?")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    if "graphs" in arguments.way and not torch.cuda.is_available():
        parser.error("--way graphs needs a GPU.")
    if len(arguments.source) != len(arguments.target):
        parser.error("--source and --target belong together: a file of one to each of the other.")
    if arguments.toy:
        arguments.tokens, arguments.vocabulary, arguments.updates, arguments.warm_up = 500, 1000, 3, 1
    world = World()
    tokens, vocabulary = arguments.tokens, arguments.vocabulary
    measure_all(
        "random",
        lambda: random_updates(tokens, arguments.length, vocabulary, world.device),
        vocabulary,
        arguments,
    )
    for source, target in zip(arguments.source, arguments.target, strict=True):
        with updates_of(source, target, tokens, vocabulary, world) as (updates, size):
            measure_all(source.stem, updates, size, arguments)


if __name__ == "__main__":
    main()

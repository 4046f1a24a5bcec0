"""Training speed on a CPU: ours beside each peer's, an update of each in turn, on the same batches of the
same text.

    pip install transformers
    python benchmarks/train.py --source train.en --target train.de [--preset base] [--updates 40]

--preset rnn is measured beside JoeyNMT, conv beside fairseq (benchmarks/baseline_peers.py says how).

Each system is a process of its own. It trains on the same padded batches (8,000 joint tokens, 4,096 a batch)
with the same sizes, dropout, label smoothing and Adam; the whole loop is inside the time. Peers run as people
run them, and once more with the settings of the allocator and of oneDNN that ours makes for itself. In a
first epoch most batches have shapes that were not met before, later ones have the same again: --warm-up with
as many updates as an epoch has measures what lasts. The floor, what matrix products alone would allow, is
measured in between. Writes benchmarks/results/train-PRESET-DATE.json (or -2, -3), and with --profile beside
it train-PRESET-DATE-PRECISION.txt: the operators in which our updates spend their time.

Seconds to 100 updates count from the start of the process, imports included (the third of a second that it
takes to import the reading of batches is in the peers' too), and ours compiles its kernels in them, which a
second training need not. Where fewer updates than 100 are made, they are extrapolated.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from passport import asked, keep, passport
from rich.console import Console
from rich.table import Table
from train_systems import DROPOUT, SMOOTHING, baseline_step, dragoman_step, torch_step, transformers_step

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe
from dragoman.system.machine import MAX_CACHED_KERNELS
from dragoman.system.processors import MAX_SPINS
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.loop import prefetch
from dragoman.training.settings import TrainingSettings
from dragoman.training.world import World

ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**64 - 1),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
    "THP_MEM_ALLOC_ENABLE": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(MAX_CACHED_KERNELS),
}
WAITING = {"GOMP_SPINCOUNT": str(MAX_SPINS)}  # which the command line sets before it imports PyTorch
PRECISIONS = ("bfloat16", "float32")
PEERS = ("transformers", "torch.nn.Transformer")
BASELINE_PEERS = {"lstm": "joeynmt", "gru": "joeynmt", "conv": "fairseq"}  # by our architecture
ALLOCATORS = {"its": False, "ours": True}
PROFILED = 5  # updates, after all others

Kind = tuple[str, str, bool]
"""A system, its precision, and whether it gets our settings of the allocator and of oneDNN."""


def recipe_for(source: Path, target: Path, preset: str, precision: str, out: Path) -> Recipe:
    """What all systems train."""
    return Recipe(
        out=out,
        data=DataSettings(source=source, target=target),
        tokenizer=TokenizerSettings(vocabulary=8000),
        model=replace(PRESETS[preset], dropout=DROPOUT),
        batches=BatchSettings(source_tokens_per_batch=4096, target_tokens_per_batch=4096),
        training=TrainingSettings(updates=1, precision=precision, label_smoothing=SMOOTHING),
    )


# ---- measuring


def measure(system: str, recipe: Recipe, updates: int, profile: Path | None) -> None:
    """Say when all is ready, make an update for each line that is read, and write what it took; then have
    some more looked into.
    """
    torch.manual_seed(1)
    assert recipe.out is not None
    data = PreparedData.load(recipe.out / "data")
    vocabulary = len(data.tokenizers.target)
    steps = {
        "dragoman": lambda: dragoman_step(recipe, data),
        "joeynmt": lambda: baseline_step(system, recipe, vocabulary),
        "fairseq": lambda: baseline_step(system, recipe, vocabulary),
        "transformers": lambda: transformers_step(recipe, vocabulary),
        "torch.nn.Transformer": lambda: torch_step(recipe, vocabulary),
    }
    step = steps[system]()
    world = World(device=torch.device("cpu"))
    stream = prefetch(make_batches(recipe, data, world).updates(0, 0), world.device)
    print("ready", flush=True)
    for _ in range(updates):
        sys.stdin.readline()
        begun = time.monotonic()
        update = next(stream)
        step(update)
        print(
            update.tokens,
            time.monotonic() - begun,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            flush=True,
        )
    if profile is not None:
        profile.write_text(operators(lambda: step(next(stream))))


def operators(update: Callable[[], None]) -> str:
    """In which operators an update spends its time, most first; what is in none of them has a line too."""
    none = "(in no operator)"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(PROFILED):
            with torch.profiler.record_function(none):
                update()
    rows = sorted(profile.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    lines = [
        f"{row.self_cpu_time_total / total:7.2%} {row.self_cpu_time_total / 1000 / PROFILED:10.3f} "
        f"{row.count / PROFILED:8.1f}  {row.key}\n"
        for row in rows
    ]
    return "".join(
        [f"{'share':>7} {'ms':>10} {'calls':>8}  an update, self CPU time ({PROFILED} updates)\n", *lines]
    )


def floor(size: ModelSettings, vocabulary: int, precision: str) -> tuple[float, float]:
    """GFLOP/s of matrix products here, and the pairs of tokens a second that they would allow if there was
    nothing else to do.
    """
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    one, other = torch.randn(4096, 1024).to(kind), torch.randn(1024, 1024).to(kind)
    rates = []
    for _ in range(3):
        begun = time.monotonic()
        for _ in range(4):
            one @ other
        rates.append(4 * 2 * 4096 * 1024 * 1024 / (time.monotonic() - begun))
    d, inner = size.d_model, 2 * size.d_model * size.d_ff
    weights = (
        size.encoder_layers * (4 * d * d + inner) + size.decoder_layers * (8 * d * d + inner) + d * vocabulary
    )
    return max(rates) / 1e9, max(rates) / (6 * weights)


class Measured:
    """A system in a process of its own, which finds no kernels that were compiled before, and what its
    updates took.
    """

    def __init__(
        self, kind: Kind, arguments: argparse.Namespace, out: Path, profile: Path | None = None
    ) -> None:
        system, precision, allocator = kind
        flags = {
            "--measure": system,
            "--precision": precision,
            "--out": out,
            "--preset": arguments.preset,
            "--source": arguments.source,
            "--target": arguments.target,
            "--updates": arguments.warm_up + arguments.updates,
        }
        flags |= {"--profile-to": profile} if profile else {}
        command = [sys.executable, __file__, *(str(part) for flag in flags.items() for part in flag)]
        self.warm_up, self.updates = arguments.warm_up, list[list[float]]()
        settings = (ALLOCATOR if allocator else {}) | (WAITING if allocator or system == "dragoman" else {})
        environment = os.environ | {"XDG_CACHE_HOME": tempfile.mkdtemp(dir=out)} | settings
        begun = time.monotonic()
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.read() == "ready\n"
        self.start = time.monotonic() - begun

    def read(self) -> str:
        """The next line of the process."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def update(self) -> None:
        """Make one."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.updates.append([float(word) for word in self.read().split()])

    @property
    def counted(self) -> list[list[float]]:
        """Tokens, seconds and memory of all updates but those of the warm-up."""
        return self.updates[self.warm_up :]

    def found(self) -> dict[str, float]:
        """What they took."""
        self.process.communicate()
        tokens, seconds, memory = zip(*self.counted, strict=True)
        hundred = [update[1] for update in self.updates[:100]]
        return {
            "tokens_per_second": sum(tokens) / sum(seconds),
            "median_tokens_per_second": statistics.median(
                count / time for count, time in zip(tokens, seconds, strict=True)
            ),
            "seconds_to_start": self.start,
            "seconds_to_100_updates": self.start + statistics.mean(hundred) * 100,
            "extrapolated": len(hundred) < 100,
            "peak_gib": max(memory),
        }


def median_ratio(ours: Measured, theirs: Measured) -> float:
    """How many times as long theirs takes for an update as ours for the same just before it: the median."""
    return statistics.median(
        their[1] / our[1] for our, their in zip(ours.counted, theirs.counted, strict=True)
    )


def compare(arguments: argparse.Namespace) -> None:
    """Ours beside each peer, an update of each in turn, so that a machine that others slow down does so to
    both; a table and a file.
    """
    rows, floors = [], []
    with tempfile.TemporaryDirectory() as folder:
        recipe = recipe_for(arguments.source, arguments.target, arguments.preset, "bfloat16", Path(folder))
        prepare(Path(folder), recipe)
        vocabulary = len(PreparedData.load(Path(folder) / "data").tokenizers.target)
        profiles = {
            precision: Path(folder) / f"{precision}.txt"
            for precision in arguments.precisions
            if arguments.profile
        }
        for precision, peer, allocator in product(
            arguments.precisions, arguments.peers, arguments.allocators
        ):
            kinds: list[Kind] = [("dragoman", precision, False), (peer, precision, ALLOCATORS[allocator])]
            looked_into = (
                profiles.get(precision)
                if peer == arguments.peers[0] and allocator == arguments.allocators[0]
                else None
            )
            pair = [
                Measured(kind, arguments, Path(folder), path)
                for kind, path in zip(kinds, (looked_into, None), strict=True)
            ]
            for number in range(arguments.warm_up + arguments.updates):
                for system in pair:
                    system.update()
                is_counted = number >= arguments.warm_up and recipe.model.architecture == "transformer"
                if is_counted and (number - arguments.warm_up) % 5 == 0:
                    floors.append((precision, *floor(recipe.model, vocabulary, precision)))
            ours, theirs = (system.found() for system in pair)
            ratios = {
                "ratio": ours["tokens_per_second"] / theirs["tokens_per_second"],
                "median_ratio": median_ratio(*pair),
            }
            row = {"peer": peer, "precision": precision, "allocator_settings": ALLOCATORS[allocator]}
            rows.append(row | ratios | {"ours": ours, "theirs": theirs})
            print(rows[-1], file=sys.stderr, flush=True)
        report(arguments, rows, floors, {precision: path.read_text() for precision, path in profiles.items()})


def report(
    arguments: argparse.Namespace,
    rows: list[dict],
    floors: list[tuple[str, float, float]],
    profiles: dict[str, str],
) -> None:
    """Print ratios, and shares of the floor; write all of it with its passport, and profiles beside it."""
    columns = (
        "beside",
        "precision",
        "its allocator",
        "ours, target tokens/s",
        "theirs",
        "ours is × as fast",
        "s to 100 updates",
        "GiB",
    )
    table = Table(*columns, title=f"Training, {arguments.preset}; medians")
    for row in rows:
        both = (row["ours"], row["theirs"])
        table.add_row(
            row["peer"],
            row["precision"],
            "as ours" if row["allocator_settings"] else "as it comes",
            *(f"{found['median_tokens_per_second']:,.0f}" for found in both),
            f"{row['median_ratio']:.2f}",
            ", ".join(f"{found['seconds_to_100_updates']:.0f}" for found in both)
            + " (extrapolated)" * any(found["extrapolated"] for found in both),
            ", ".join(f"{found['peak_gib']:.1f}" for found in both),
        )
    Console(width=150).print(table)
    where = passport(asked("train.py", arguments)) | {"floors": {}}
    for precision in dict.fromkeys(row[0] for row in floors):
        rates, tokens = ([row[place] for row in floors if row[0] == precision] for place in (1, 2))
        speed = statistics.median(
            row["ours"]["median_tokens_per_second"] for row in rows if row["precision"] == precision
        )
        share = speed / statistics.median(tokens)
        where["floors"][precision] = {
            "gflops": rates,
            "tokens_per_second": statistics.median(tokens),
            "share": share,
        }
        print(
            f"{precision}: {share:.0%} of what matrix products alone would allow at "
            f"{statistics.median(rates):,.0f} GFLOP/s (the median; {min(rates):,.0f} to {max(rates):,.0f})."
        )
    out = keep(where | {"rows": rows}, arguments.results, f"train-{arguments.preset}")
    for precision, profile in profiles.items():
        out.with_name(f"{out.stem}-{precision}.txt").write_text(profile)
    print(f"{out} has every measurement.")


def main() -> None:
    """Compare all, or measure one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--preset", choices=list(PRESETS), default="small")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--peers", nargs="+", choices=PEERS, help="beside a Transformer; the default is all")
    parser.add_argument(
        "--allocators",
        nargs="+",
        choices=ALLOCATORS,
        default=list(ALLOCATORS),
        help="the peers' settings of it",
    )
    parser.add_argument(
        "--profile", action="store_true", help="write in which operators our updates spend their time"
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument(
        "--measure", choices=("dragoman", *PEERS, *BASELINE_PEERS.values()), help=argparse.SUPPRESS
    )
    parser.add_argument("--precision", choices=PRECISIONS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--profile-to", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    architecture = PRESETS[arguments.preset].architecture
    if architecture in BASELINE_PEERS:
        arguments.peers = [BASELINE_PEERS[architecture]]
    arguments.peers = arguments.peers or PEERS
    if arguments.measure is None:
        compare(arguments)
        return
    recipe = recipe_for(
        arguments.source, arguments.target, arguments.preset, arguments.precision, arguments.out
    )
    measure(arguments.measure, recipe, arguments.updates, arguments.profile_to)


if __name__ == "__main__":
    main()

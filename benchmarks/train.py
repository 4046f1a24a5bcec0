"""Training speed on a CPU: ours beside the peers', in turn, in one run, on the same batches of the same text.

    pip install transformers
    python benchmarks/train.py --source train.en --target train.de [--preset base] [--rounds 3]

Each measurement is a process of its own. It trains on the same padded batches (8,000 joint tokens, 4,096 a batch) with the same sizes,
dropout, label smoothing and Adam; the whole loop is inside the time. Peers run as people run them, and once more with the settings of
the allocator and of oneDNN that ours makes for itself. In a first epoch most batches have shapes that were not met before, later ones
have the same again: --warm-up with as many updates as an epoch has measures what lasts. Prints medians and writes
benchmarks/results/train-PRESET-DATE.json.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from passport import passport
from peers import marian_config
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import PAD
from dragoman.prepare import Prepared, prepare
from dragoman.recipe import Recipe
from dragoman.run import make_batches, make_model, make_objective, silent
from dragoman.text.batches import Batch, Update
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.distributed import World
from dragoman.training.memory import KERNELS, keep_memory_and_kernels
from dragoman.training.objective import accumulate, seed_update
from dragoman.training.settings import TrainingSettings
from dragoman.training.train import ahead, make_optimizer, step_optimizer

ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**64 - 1),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
    "THP_MEM_ALLOC_ENABLE": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(KERNELS),
}
PRECISIONS = ("bfloat16", "float32")
SYSTEMS = ("dragoman", "transformers", "torch.nn.Transformer")
SMOOTHING, DROPOUT, RATE = 0.1, 0.1, 1e-4

Step = Callable[[Update], None]


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


# ---- the systems, each as a function that makes one update


def dragoman_step(recipe: Recipe, data: Prepared) -> Step:
    """Ours, as `dragoman train` runs it."""
    keep_memory_and_kernels()
    world = World(device=torch.device("cpu"))
    model = make_model(recipe, data, world.device)
    objective, optimizer = make_objective(recipe, model).train(), make_optimizer(model)

    def step(update: Update) -> None:
        seed_update(1, 1, 0)
        accumulate(objective, update, world)
        step_optimizer(optimizer, model, RATE, 0.0)
        optimizer.zero_grad()

    return step


def peer_step(logits: Callable[[Batch], Tensor], model: nn.Module, bfloat16: bool) -> Step:
    """A peer, in the loop that its documentation shows, with the fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    model.train()

    def step(update: Update) -> None:
        (batch,) = update.batches
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            scores = logits(batch)
            loss = F.cross_entropy(scores.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def transformers_step(recipe: Recipe, vocabulary: int) -> Step:
    """Hugging Face's Marian of the same sizes."""
    from transformers import MarianMTModel

    model = MarianMTModel(marian_config(recipe.model, vocabulary, DROPOUT))

    def logits(batch: Batch) -> Tensor:
        return model(
            input_ids=batch.source, attention_mask=(batch.source != PAD).long(), decoder_input_ids=batch.target_in, use_cache=False
        ).logits

    return peer_step(logits, model, recipe.training.precision == "bfloat16")


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and a tied output, as PyTorch's tutorial puts them together."""

    def __init__(self, size: ModelSettings, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size.d_model, padding_idx=PAD)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            size.d_model, size.heads, size.encoder_layers, size.decoder_layers, size.d_ff, DROPOUT, batch_first=True
        )
        half = torch.exp(torch.arange(0, size.d_model, 2) * (-math.log(10000.0) / size.d_model)) * torch.arange(512)[:, None]
        self.register_buffer("positions", torch.stack([half.sin(), half.cos()], -1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings times √d_model, plus positions."""
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        padding = source == PAD
        features = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(features, self.embedding.weight)


def torch_step(recipe: Recipe, vocabulary: int) -> Step:
    """torch.nn.Transformer."""
    model = TorchTransformer(recipe.model, vocabulary)
    return peer_step(lambda batch: model(batch.source, batch.target_in), model, recipe.training.precision == "bfloat16")


# ---- measuring


def measure(system: str, recipe: Recipe, updates: int, warm_up: int) -> dict[str, float]:
    """Train `updates` times after some that do not count; what it took."""
    started = time.monotonic()
    torch.manual_seed(1)
    assert recipe.out is not None
    data = Prepared.load(recipe.out / "data")
    vocabulary = len(data.tokenizers.target)
    steps = {
        "dragoman": lambda: dragoman_step(recipe, data),
        "transformers": lambda: transformers_step(recipe, vocabulary),
        "torch.nn.Transformer": lambda: torch_step(recipe, vocabulary),
    }
    step = steps[system]()
    world = World(device=torch.device("cpu"))
    stream = ahead(make_batches(recipe, data, world).after(0, 0), world.device)
    for _ in range(warm_up):
        step(next(stream))
    tokens, begun = 0, time.monotonic()
    for _ in range(updates):
        update = next(stream)
        step(update)
        tokens += update.tokens
    ended = time.monotonic()
    return {
        "tokens_per_second": tokens / (ended - begun),
        "seconds_to_100_updates": begun - started + (ended - begun) / updates * (100 - warm_up),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def floor(size: ModelSettings, vocabulary: int, precision: str) -> tuple[float, float]:
    """GFLOP/s of matrix products here, and the pairs of tokens a second that they would allow if there was nothing else to do."""
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    one, other = torch.randn(4096, 1024).to(kind), torch.randn(1024, 1024).to(kind)
    rates = []
    for _ in range(10):
        begun = time.monotonic()
        for _ in range(4):
            one @ other
        rates.append(4 * 2 * 4096 * 1024 * 1024 / (time.monotonic() - begun))
    d, inner = size.d_model, 2 * size.d_model * size.d_ff
    weights = size.encoder_layers * (4 * d * d + inner) + size.decoder_layers * (8 * d * d + inner) + d * vocabulary
    return max(rates) / 1e9, max(rates) / (6 * weights)


def measured_apart(system: str, precision: str, allocator: bool, arguments: argparse.Namespace, out: Path) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", system, "--precision", precision, "--out", str(out), "--preset", arguments.preset]
    files = [
        "--source",
        str(arguments.source),
        "--target",
        str(arguments.target),
        "--updates",
        str(arguments.updates),
        "--warm-up",
        str(arguments.warm_up),
    ]
    environment = os.environ | (ALLOCATOR if allocator else {})
    done = subprocess.run([*command, *files], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(arguments: argparse.Namespace) -> None:
    """All systems in turn, `rounds` times; a table and a file."""
    kinds = [
        (system, precision, allocator)
        for precision in arguments.precisions
        for system in arguments.systems
        for allocator in ((False,) if system == "dragoman" else (False, True))
    ]
    found: dict[tuple[str, str, bool], list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        recipe = recipe_for(arguments.source, arguments.target, arguments.preset, "bfloat16", Path(folder))
        prepare(Path(folder), recipe, silent)
        vocabulary = len(Prepared.load(Path(folder) / "data").tokenizers.target)
        for _ in range(arguments.rounds):
            for kind in kinds:
                found[kind].append(measured_apart(*kind, arguments, Path(folder)))
                print(*kind, found[kind][-1], file=sys.stderr, flush=True)
    floors = {precision: floor(recipe.model, vocabulary, precision) for precision in arguments.precisions}
    report(arguments, found, floors)


def report(
    arguments: argparse.Namespace,
    found: dict[tuple[str, str, bool], list[dict[str, float]]],
    floors: dict[str, tuple[float, float]],
) -> None:
    """Print medians, ratios to ours and shares of the floor; write all of it with its passport."""
    columns = ("system", "precision", "allocator", "target tokens/s", "ours is × as fast", "share of the floor", "s to 100 updates", "GiB")
    table = Table(*columns, title=f"Training, {arguments.preset}, medians of {arguments.rounds}")
    rows = []
    ours = max(statistics.median(row["tokens_per_second"] for row in found["dragoman", precision, False]) for precision in floors)
    for (system, precision, allocator), measured in found.items():
        median = {name: statistics.median(row[name] for row in measured) for name in measured[0]}
        share = median["tokens_per_second"] / floors[precision][1]
        rows.append({"system": system, "precision": precision, "allocator_settings": allocator, **median, "all": measured})
        table.add_row(
            system,
            precision,
            "as ours" if allocator or system == "dragoman" else "as it comes",
            f"{median['tokens_per_second']:,.0f}",
            f"{ours / median['tokens_per_second']:.2f}",
            f"{share:.0%}",
            f"{median['seconds_to_100_updates']:.0f}",
            f"{median['peak_gib']:.1f}",
        )
    Console(width=140).print(table)
    counts = f"--preset {arguments.preset} --rounds {arguments.rounds} --updates {arguments.updates} --warm-up {arguments.warm_up}"
    where = passport(f"python benchmarks/train.py {counts} --precisions {' '.join(arguments.precisions)}") | {
        "gflops": {precision: rate for precision, (rate, _) in floors.items()},
        "floor_tokens_per_second": {precision: tokens for precision, (_, tokens) in floors.items()},
    }
    out = arguments.results / f"train-{arguments.preset}-{where['date']}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(where | {"rows": rows}, indent=1) + "\n")
    print(f"{out} has every measurement. Floors: {where['floor_tokens_per_second']} of {where['gflops']} GFLOP/s.")


def main() -> None:
    """Compare all, or measure one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--preset", choices=list(PRESETS), default="small")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--precision", choices=PRECISIONS, default="bfloat16", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is None:
        compare(arguments)
        return
    recipe = recipe_for(arguments.source, arguments.target, arguments.preset, arguments.precision, arguments.out)
    print(json.dumps(measure(arguments.measure, recipe, arguments.updates, arguments.warm_up)))


if __name__ == "__main__":
    main()

"""Which schedule of the learning rate is best in few updates? A row is a schedule, trained with each seed.

    python experiments/schedules.py OUT TRAIN_SOURCE TRAIN_TARGET VALID_SOURCE VALID_TARGET --updates 1200

Prints a table in Markdown of the validation scores of the models that the runs kept: greedy BLEU and
perplexity, the mean and each seed. All runs of a seed have the same initial weights, batches and updates. OUT
gets the runs; those that are complete are not trained again. Results: LOG.md.
"""

import argparse
import tomllib
from pathlib import Path
from statistics import fmean
from typing import Any

import dragoman
from dragoman.pipeline.result import RunResult, read_run_result


def trapezoid(scale: float, warmup: int, cooldown: float) -> dict[str, Any]:
    """Settings of a trapezoid; `scale` is the learning rate's, and `cooldown` a share of the updates."""
    rate = {"learning_rate_scale": scale, "warmup_steps": warmup}
    return {"schedule": "trapezoid", **rate, "cooldown": cooldown}


ROWS: dict[str, dict[str, Any]] = {"paper": {"schedule": "paper"}} | {
    f"trapezoid-{scale:g}-{warmup}-{cooldown:g}": trapezoid(scale, warmup, cooldown)
    for scale in (0.25, 0.5, 0.75, 1, 1.5)
    for warmup in (100, 250, 500)
    for cooldown in (0.25, 0.5, 0.75, 1.0)
}


def trained(arguments: argparse.Namespace, row: str, seed: int) -> RunResult:
    """Train a row with a seed, unless it is trained already."""
    changes = "".join(f"-{name}-{value}" for name, value in arguments.model)
    out = arguments.out / f"{row}{changes}-{arguments.updates}-{seed}"
    training = dict(ROWS[row])
    if (cooldown := training.pop("cooldown", None)) is not None:
        most = arguments.updates - training["warmup_steps"]
        training["cooldown_steps"] = min(most, round(cooldown * arguments.updates))
    names = ("source", "target", "valid_source", "valid_target")
    training |= {"updates": arguments.updates, "seed": seed, "patience": 0, "validate_every": arguments.every}
    recipe: dict[str, Any] = {
        "out": str(out),
        "data": {name: str(path.resolve()) for name, path in zip(names, arguments.files, strict=True)},
        "training": training,
    }
    if arguments.model:
        recipe["model"] = dict(arguments.model)
    dragoman.train(recipe)
    return read_run_result(out)


def setting(text: str) -> tuple[str, Any]:
    """A setting of the model, such as `norm="pre"`, as in a recipe."""
    ((name, value),) = tomllib.loads(text).items()
    return name, value


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs=4, metavar="FILE")
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--every", type=int, default=200, help="updates between validations")
    parser.add_argument("--model", type=setting, nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["paper", "trapezoid-1-250-0.5"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    lines = ["| schedule | BLEU | perplexity | BLEU of each seed |", "| --- | --- | --- | --- |"]
    for row in arguments.rows:
        scores = [trained(arguments, row, seed).validation for seed in arguments.seeds]
        bleu, perplexity = ([score[name] for score in scores] for name in ("bleu", "perplexity"))
        seeds = ", ".join(f"{value:.2f}" for value in bleu)
        lines.append(f"| {row} | {fmean(bleu):.2f} | {fmean(perplexity):.3f} | {seeds} |")
        print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()

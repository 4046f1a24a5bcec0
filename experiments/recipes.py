"""Which recipe is best in few minutes? A row is a recipe, trained for the same time with each seed.

    python experiments/recipes.py OUT TRAIN_SOURCE TRAIN_TARGET VALID_SOURCE VALID_TARGET --minutes 8 \
        --rows 'preset="small"' 'preset="tiny"; batches.target_tokens_per_batch=1024'

A row has settings of a recipe in TOML, separated by semicolons; --all are added to each row. Prints a table
in Markdown of the validation scores of the models that the runs kept: greedy BLEU and perplexity, the mean
and each seed. OUT gets the runs; those that are complete are not trained again. --threads 1 uses one core:
two such trainings can run side by side. Results: LOG.md.
"""

import argparse
import re
import tomllib
from pathlib import Path
from statistics import fmean
from typing import Any

import dragoman
from dragoman.pipeline.result import RunResult, read_run_result


def recipe_of(row: str) -> dict[str, Any]:
    """The settings of a row as a TOML table."""
    return tomllib.loads(row.replace(";", "\n"))


def trained(arguments: argparse.Namespace, row: str, seed: int) -> RunResult:
    """Train a row with a seed, unless it is trained already."""
    settings = "; ".join(filter(None, (row, arguments.all)))
    name = re.sub(r"[^\w.=-]+", "_", settings) or "default"
    out = arguments.out / f"{name}-{arguments.minutes:g}-{arguments.threads}-{seed}"
    recipe = recipe_of(settings)
    names = ("source", "target", "valid_source", "valid_target")
    data = {name: str(path.resolve()) for name, path in zip(names, arguments.files, strict=True)}
    training = {"minutes": arguments.minutes, "seed": seed, "threads": arguments.threads}
    recipe["out"], recipe["data"] = str(out), data | recipe.get("data", {})
    recipe["training"] = training | recipe.get("training", {})
    dragoman.train(recipe)
    return read_run_result(out)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs=4, metavar="FILE")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", nargs="+", default=[""])
    parser.add_argument("--all", default="", help="settings of all rows")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    lines = [
        "| recipe | updates | BLEU | perplexity | BLEU of each seed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in arguments.rows:
        results = [trained(arguments, row, seed) for seed in arguments.seeds]
        bleu, perplexity = ([one.validation[name] for one in results] for name in ("bleu", "perplexity"))
        seeds, updates = ", ".join(f"{value:.2f}" for value in bleu), fmean(one.updates for one in results)
        scores = f"{updates:,.0f} | {fmean(bleu):.2f} | {fmean(perplexity):.3f} | {seeds}"
        lines.append(f"| {row or 'default'} | {scores} |")
        print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()

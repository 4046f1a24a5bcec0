"""The preparation of a corpus: pairs a second and memory, for a corpus repeated several times over.

    python benchmarks/prepare.py --source train.en --target train.de [--times 1 4 13]

Each size is prepared in a process of its own: every line checked, pairs held out, a tokenizer trained, ids
written in shards by as many processes as there are cores. The memory is the peak of the first process, plus
that of as many workers as there are, each taken to be as large as the largest. Prints a table and writes
benchmarks/results/prepare-DATE.json.
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from passport import asked, keep, passport
from rich.console import Console
from rich.table import Table

from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.recipe import Recipe
from dragoman.system.messages import messages_to
from dragoman.text.settings import DataSettings, TokenizerSettings


def repeated(path: Path, times: int, out: Path) -> Path:
    """The file so many times, one after the other, unpacked."""
    with out.open("wb") as file:
        for _ in range(times):
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as part:
                shutil.copyfileobj(part, file)
    return out


def measure(source: Path, target: Path, out: Path) -> dict[str, float]:
    """Prepare the files in this process."""
    recipe = Recipe(
        out=out, data=DataSettings(source=source, target=target), tokenizer=TokenizerSettings(vocabulary=8000)
    )
    told: list[str] = []
    begun = time.monotonic()
    with messages_to(told.append):
        prepare(out, recipe)
    seconds = time.monotonic() - begun
    found = json.loads((out / "data" / "train" / "corpus.json").read_text())
    peak, worker = (
        resource.getrusage(who).ru_maxrss / 2**20 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    size = sum(path.stat().st_size for path in (out / "data" / "train").iterdir()) / 2**20
    return {
        "pairs": found["pairs"],
        "copies": found["copies"],
        "seconds": seconds,
        "gib": peak + worker * (os.cpu_count() or 1) * (worker > 0),
        "corpus_mib": size,
    }


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4, 13])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    table = Table("pairs", "seconds", "pairs/s", "peak memory, GiB", "corpus, MiB", title="Preparation")
    rows = []
    for times in arguments.times:
        with tempfile.TemporaryDirectory() as folder:
            sides = {"source": arguments.source, "target": arguments.target}
            files = [repeated(path, times, Path(folder) / side) for side, path in sides.items()]
            # The memory of a forked process would not include the libraries that it shares with this one.
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                row = pool.submit(measure, *files, Path(folder) / "run").result()
        rows.append(row)
        pace = row["pairs"] / row["seconds"]
        table.add_row(
            f"{row['pairs']:,}",
            f"{row['seconds']:.0f}",
            f"{pace:,.0f}",
            f"{row['gib']:.2f}",
            f"{row['corpus_mib']:.0f}",
        )
    Console(width=100).print(table)
    keep(passport(asked("prepare.py", arguments)) | {"rows": rows}, arguments.results, "prepare")


if __name__ == "__main__":
    main()

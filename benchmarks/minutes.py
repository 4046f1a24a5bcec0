"""Does a training take the minutes that it is asked for, and what does it learn in them?

    python benchmarks/minutes.py FOLDER TRAIN.en TRAIN.de VALID.en VALID.de TEST.en TEST.de --minutes 3 8 12

For each number of minutes there are three runs of `dragoman train` with nothing else chosen: `cold`, with an
empty cache of compiled kernels; `warm`, with the kernels of the run before; and `busy`, warm and beside a
program that multiplies matrices on all cores for the first minute. FOLDER gets the runs. Prints a table in
Markdown, and writes the numbers with their passport to --results.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tables
from passport import asked, keep, passport

from dragoman.pipeline.result import read_run_result

ROOT = Path(__file__).parents[1]
BUSY_SECONDS = 60
LOAD = f"""
import time, torch
end, matrix = time.monotonic() + {BUSY_SECONDS}, torch.randn(1000, 1000)
while time.monotonic() < end:
    matrix @ matrix
"""


def measure(minutes: float, condition: str, files: list[Path], out: Path, cache: Path) -> dict[str, Any]:
    """The seconds of a run from its start to its end, and what it has learned."""
    names = [f"--{kind}-{side}" for kind in ("valid", "test") for side in ("source", "target")]
    train, given = files[:2], zip(names, files[2:], strict=True)
    words = [*train, *(word for pair in given for word in pair), "--minutes", minutes, "--out", out]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", LOAD if condition == "busy" else "pass"]) as load:
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "dragoman", "train", *map(str, words)], env=environment, check=True
        )
        seconds = time.monotonic() - started
        load.kill()
    result = read_run_result(out)
    return {
        "minutes": minutes,
        "condition": condition,
        "seconds": seconds,
        "updates": result.updates,
        "validation": result.validation,
        "test": {score.name: score.value for score in result.test},
    }


def main() -> None:
    """Measure, print and keep."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs=6, metavar="FILE")
    parser.add_argument("--minutes", type=float, nargs="+", default=[3, 8, 12])
    parser.add_argument("--conditions", nargs="+", default=["cold", "warm", "busy"])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args()
    files = [path.resolve() for path in given.files]
    rows: list[dict[str, Any]] = []
    for minutes in given.minutes:
        cache = given.folder / f"cache-{minutes:g}"
        for condition in given.conditions:
            out = given.folder / f"{minutes:g}-{condition}"
            rows.append(measure(minutes, condition, files, out.resolve(), cache.resolve()))
            print(json.dumps(rows[-1]), flush=True)
    names = [path.name for path in files]
    found = passport(asked("minutes.py", given, "folder", "files")) | {"files": names, "runs": rows}
    print(tables.minutes(found))
    print(keep(found, given.results, "minutes"))


if __name__ == "__main__":
    main()

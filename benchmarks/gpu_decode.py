"""Decoding speed on a GPU, in one command.

    python benchmarks/gpu_decode.py RUN --source test.en [--preset base] [--profile]

Sentences and tokens a second in batches of several sizes and one by one (1), greedy and with a beam of 4, in
bfloat16 and float32, with and without CUDA graphs. With --preset the weights are random, and 16 tokens are
written for 16 read. Runs on a CPU too, slowly.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from decode import LENGTH, Ids, random_run, search_ids, sentences
from passport import asked, passport

from dragoman.model.settings import PRESETS
from dragoman.native.packed_linear import can_pack
from dragoman.search.settings import SearchSettings
from dragoman.translation.translator import Translator


def timed(translator: Translator, sources: Ids, search: SearchSettings) -> dict[str, float]:
    """Seconds for all of them, once they have been done before, as rates."""
    search_ids(translator, sources, search)
    started = time.perf_counter()
    written = search_ids(translator, sources, search)
    seconds = time.perf_counter() - started
    tokens = sum(len(best[0].ids) + 1 for best in written)
    return {"sentences_per_second": len(sources) / seconds, "tokens_per_second": tokens / seconds}


def main() -> None:
    """Measure all and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--preset", choices=list(PRESETS))
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=(16_000, 64_000, 256_000))
    parser.add_argument(
        "--profile", action="store_true", help="print where the time of a beam of 4 goes, to standard error"
    )
    arguments = parser.parse_args()
    command = asked("gpu_decode.py", arguments, "run")
    arguments.one_by_one, arguments.length = False, LENGTH if arguments.preset else None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    exact = {"min_length": LENGTH, "max_extra_tokens": 0} if arguments.preset else {}
    with tempfile.TemporaryDirectory() as folder:
        if arguments.preset:
            random_run(arguments.preset, arguments.run, Path(folder))
            arguments.run = Path(folder)
        sources, rows = sentences(arguments), []
        for precision, graphs in product(
            ("bfloat16", "float32") if device == "cuda" or can_pack("bfloat16") else ("float32",),
            (False, True) if device == "cuda" else (False,),
        ):
            translator = Translator.load(
                arguments.run, device=device, precision=precision, cuda_graphs=graphs
            )
            for beam in (1, 4):
                search, row = (
                    replace(SearchSettings(beam_size=beam), **exact),
                    {"precision": precision, "graphs": graphs, "beam": beam},
                )
                work = [
                    *((tokens, sources) for tokens in arguments.batch_tokens),
                    (1, sources[: max(1, len(sources) // 20)]),
                ]
                rows += [
                    {
                        **row,
                        "batch_tokens": tokens,
                        **timed(translator, some, replace(search, batch_tokens=tokens)),
                    }
                    for tokens, some in work
                ]
        if arguments.profile:
            with torch.profiler.profile() as profile:
                search_ids(translator, sources, search)
            print(
                profile.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=25),
                file=sys.stderr,
            )
    print(json.dumps(passport(command) | {"rows": rows}, indent=1))


if __name__ == "__main__":
    main()

"""Greedy search with exported ONNX graphs, and ours: milliseconds of processor time per sentence.

    python benchmarks/onnx_search.py runs/ende --source test.en

All search on one core, one sentence at a time, in float32, in turn. The loop around the graphs is that of
`dragoman.interop.onnx.engine`.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from passport import asked, keep, passport

from dragoman import SearchSettings, Translator
from dragoman.interop import onnx
from dragoman.translation.model_folder import StoredModel, torch_model

GREEDY = SearchSettings(beam_size=1)


def searches(run: Path, folder: Path) -> dict[str, Callable[[str], str]]:
    """The translation of a sentence by each of the three. The graphs are written to the folder."""
    native, by_pytorch = (
        Translator.load(run, device="cpu", workers=1, native=native) for native in (True, False)
    )
    stored = StoredModel.load(run)
    onnx.write(torch_model(stored), stored.tokenizers, folder)
    engine = onnx.engine(folder)

    def by_onnxruntime(line: str) -> str:
        source = engine.encode(line)
        return engine.decode(engine.greedy(source, len(source) - 1 + GREEDY.extra_tokens))

    return {
        "onnxruntime": by_onnxruntime,
        "PyTorch": lambda line: by_pytorch.translate([line], GREEDY)[0],
        "C++": lambda line: native.translate([line], GREEDY)[0],
    }


def main() -> None:
    """Measure, print, and write the measurement to results/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True, help="a sentence a line")
    parser.add_argument("--lines", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # onnxruntime's threads would wait busily
    torch.set_num_threads(1)
    lines = arguments.source.read_text(encoding="utf-8").splitlines()[: arguments.lines]
    with tempfile.TemporaryDirectory() as folder:
        systems = searches(arguments.run, Path(folder))
        translations = {name: [search(line) for line in lines] for name, search in systems.items()}
        milliseconds: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(arguments.rounds):
            for name, search in systems.items():
                start = time.process_time()
                for line in lines:
                    search(line)
                milliseconds[name].append(1000 * (time.process_time() - start) / len(lines))
    found = passport(asked("onnx_search.py", arguments, "run"))
    for name, rounds in milliseconds.items():
        same = sum(map(str.__eq__, translations[name], translations["C++"]))
        found[name] = {"ms_a_sentence": statistics.median(rounds), "rounds": rounds, "same_as_cpp": same}
        print(f"{name}: {statistics.median(rounds):.2f} ms a sentence; {same} of {len(lines)} as in C++")
    print(keep(found, arguments.results, "onnx-search"))


if __name__ == "__main__":
    main()

"""Small and fast: size, BLEU and speed of models, ours beside Marian and OpenVINO with the same weights.

    python benchmarks/sizes.py FOLDER --runs runs/small runs/student --names small student --random base \
        --test test.en test.de --marian VENV --openvino VENV

FOLDER keeps what takes long and needs no quiet machine: the models in the formats of the other systems, and
their translations of the test text. What is there is not made again, so `--rounds 0` prepares a measurement.
VENV is a virtual environment with pymarian, or with optimum-intel (see sizes_engines.py).

Speed is measured in each precision with each beam, from token ids to token ids: sentences per second in
batches with all processor threads, and the median of milliseconds one by one with a single thread. Each
system has a process of its own. For each model the systems take turns, `--rounds` times; medians of the
rounds are kept. A model of --random has random weights and no BLEU; it writes 16 tokens for 16, of a quarter
of the sentences. Prints a table, and writes sizes-NAME-DATE.json and .md.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marian_model
import torch
from decode import LENGTH, Ids, random_run, sentences, share_alike
from passport import asked, keep, passport
from sizes_engines import MARIAN_FILES
from students import say
from students import sizes as sizes_of
from tables import sizes

from dragoman.evaluation.metrics import bleu, suitable_tokenization
from dragoman.interop import ctranslate2, huggingface
from dragoman.model.settings import PRESETS
from dragoman.text.lines import read_lines
from dragoman.translation.model_folder import WEIGHTS, StoredModel, model_folder, save_model, torch_model

Row = dict[str, Any]
Kind = tuple[str, str, int]  # system, precision, beam
ENGINES = Path(__file__).parent / "sizes_engines.py"
TWIN = "twin"  # Dragoman with Marian's positions: its translations should be Marian's


@dataclass(frozen=True)
class Model:
    """A model, and a folder with its formats and translations."""

    name: str
    run: Path
    folder: Path
    length: int | None = None
    """Tokens of every sentence and its translation, where the weights are random."""

    def place(self, system: str) -> Path:
        """What a system loads."""
        places = {"dragoman": self.run, TWIN: self.folder / TWIN, "marian": self.folder / "marian"}
        return places.get(system, self.folder)

    def files(self, system: str, precision: str) -> list[Path]:
        """The files of weights. Of ours in int8 it is CTranslate2's: our folder has float32 alone."""
        if system == "dragoman" and precision == "float32":
            return [model_folder(self.run) / WEIGHTS]
        if system == "dragoman":
            return [self.folder / "ctranslate2" / "model.bin"]
        if system == "marian":
            return [self.place(system) / MARIAN_FILES[precision]]
        return sorted((self.folder / f"openvino-{precision}").glob("*.bin"))

    def ids(self, source: Path, count: int) -> Ids:
        """The ids of the first sentences, or of a quarter as many stretches of exactly `length` tokens."""
        count = count if self.length is None else count // 4
        asked_for = {"run": self.run, "source": source, "sentences": count, "length": self.length}
        return sentences(argparse.Namespace(**asked_for, one_by_one=False))


class Workers:
    """A process for each system, by its own Python."""

    def __init__(self, pythons: Mapping[str, str]) -> None:
        self._processes = {
            system: subprocess.Popen(
                [python, str(ENGINES), "serve", system],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for system, python in pythons.items()
        }
        self._processes[TWIN] = self._processes["dragoman"]

    def ask(self, model: Model, kind: Kind, sources: Ids, one_by_one: bool = False) -> Row:
        """What sizes_engines.answer finds. Raises `RuntimeError` if the process has ended."""
        system, precision, beam = kind
        request = {
            "folder": str(model.place(system).absolute()),
            "precision": precision,
            "beam": beam,
            "length": model.length,
            "threads": 1 if one_by_one else torch.get_num_threads(),
            "sources": sources,
            "one_by_one": one_by_one,
        }
        process = self._processes[system]
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{system} ended while it translated by {model.name}, {precision}, beam {beam}."
            )
        return json.loads(line)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            if process.stdin and not process.stdin.closed:
                process.communicate()


# ---- what is kept in the folder


def models(arguments: argparse.Namespace) -> Iterator[Model]:
    """The trained models, and those of random weights."""
    names = arguments.names or [run.name for run in arguments.runs]
    for name, run in zip(names, arguments.runs, strict=True):
        yield Model(name, run, arguments.folder / name)
    for preset in arguments.random or ():
        folder = arguments.folder / preset
        if not (folder / "model").exists():
            random_run(preset, arguments.runs[0], folder)
        yield Model(preset, folder, folder, LENGTH)


def convert(model: Model, arguments: argparse.Namespace) -> None:
    """Write the formats that are missing."""
    stored = StoredModel.load(model.run)
    own, tokenizers = torch_model(stored), stored.tokenizers
    if not (folder := model.folder / "ctranslate2").exists():
        folder.mkdir(parents=True)
        ctranslate2.write(own, tokenizers, folder, "int8")
    if "marian" in arguments.pythons and not (folder := model.place("marian")).exists():
        twin = marian_model.with_marians_positions(own)
        save_model(model.place(TWIN), twin, twin.settings, tokenizers)
        marian_model.write(twin, tokenizers, folder, endless=model.length is not None)
        by_python(arguments.pythons["marian"], "convert", "marian", str(folder))
    if "openvino" in arguments.pythons and not (folder := model.folder / "huggingface").exists():
        folder.mkdir(parents=True)
        huggingface.write(own, tokenizers, folder)
        by_python(arguments.pythons["openvino"], "convert", "openvino", str(model.folder))


def by_python(python: str, *words: str) -> str:
    """What sizes_engines.py writes, by a system's own Python."""
    done = subprocess.run([python, str(ENGINES), *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def translated(model: Model, kind: Kind, arguments: argparse.Namespace, workers: Workers) -> Row:
    """The translations of the whole test text, and their BLEU; of random weights, without."""
    path = model.folder / f"translated-{'-'.join(map(str, kind))}.json"
    if not path.exists():
        sources = model.ids(arguments.test[0], sys.maxsize if model.length is None else arguments.sentences)
        written = workers.ask(model, kind, sources)["written"]
        row: Row = {"written": written, "bleu": None}
        if model.length is None:
            references, target = (
                list(read_lines(arguments.test[1])),
                StoredModel.load(model.run).tokenizers.target,
            )
            lines = [target.decode(ids) for ids in written]
            row["bleu"] = bleu(lines, references, suitable_tokenization(references)).value
        path.write_text(json.dumps(row))
        say(f"{model.name}, {', '.join(map(str, kind))}: BLEU {row['bleu']}")
    return json.loads(path.read_text())


def qualities(model: Model, arguments: argparse.Namespace, workers: Workers) -> dict[Kind, Row]:
    """BLEU, tokens in a translation, and the share of translations that are ours in float32.

    Marian's in float32 are also compared with ours of Marian's positions. Random weights have no such shares.
    """
    found = {}
    for kind in kinds(arguments):
        system, precision, beam = kind
        row = translated(model, kind, arguments, workers)
        written = row.pop("written")
        ours = translated(model, ("dragoman", "float32", beam), arguments, workers)["written"]
        row["tokens"] = statistics.mean(map(len, written))
        row["alike"] = None if model.length else share_alike(written, ours)
        if (system, precision) == ("marian", "float32") and model.length is None:
            twin = translated(model, (TWIN, "float32", beam), arguments, workers)["written"]
            row["alike_with_marians_positions"] = share_alike(written, twin)
        found[kind] = row
    return found


# ---- measuring


def kinds(arguments: argparse.Namespace) -> list[Kind]:
    """Systems, precisions and beams, in the order of turns."""
    return [
        (system, precision, beam)
        for beam in arguments.beams
        for precision in arguments.precisions
        for system in arguments.pythons
    ]


def speeds(model: Model, arguments: argparse.Namespace, workers: Workers) -> dict[Kind, Row]:
    """Sentences per second in batches and milliseconds one by one: of each round, and medians."""
    sources, alone = (model.ids(arguments.test[0], count) for count in (arguments.sentences, arguments.alone))
    rates: dict[Kind, list[float]] = {kind: [] for kind in kinds(arguments)}
    times: dict[Kind, list[float]] = {kind: [] for kind in kinds(arguments)}
    for number in range(arguments.rounds):
        for kind, found in rates.items():
            found.append(len(sources) / workers.ask(model, kind, sources)["seconds"])
        for kind, found in times.items():
            answer = workers.ask(model, kind, alone, one_by_one=True)
            found.append(statistics.median(answer["milliseconds"]))
        say(f"{model.name}: round {number + 1}")
    return {
        kind: {
            "sentences_per_second": statistics.median(rates[kind]),
            "milliseconds": statistics.median(times[kind]),
            "rounds": {"sentences_per_second": rates[kind], "milliseconds": times[kind]},
        }
        for kind in rates
        if arguments.rounds
    }


def packed_megabytes(stored: StoredModel) -> float:
    """Of our model in int8 in memory: a byte for each weight of a product, with a scale, a bias and a shift
    for each of its outputs, and all else in float32, the embeddings too. Without padding.
    """
    total = 0
    for name, weight in stored.weights.items():
        is_embedding = name.endswith("embedding.weight")
        if weight.ndim == 2 and (not is_embedding or name.startswith("target")):  # target: the tied output
            total += weight.size + 12 * len(weight)
        if weight.ndim == 1 or is_embedding:
            total += weight.nbytes
    return total / 1e6


def measure(arguments: argparse.Namespace) -> list[Row]:
    """A row for each model, system, precision and beam."""
    workers, rows = Workers(arguments.pythons), []
    try:
        for model in models(arguments):
            convert(model, arguments)
            stored = StoredModel.load(model.run)
            found, speed = qualities(model, arguments, workers), speeds(model, arguments, workers)
            for (system, precision, beam), quality in found.items():
                row: Row = {"model": model.name, "system": system, "precision": precision, "beam": beam}
                row["parameters"] = sizes_of(model.run)["parameters"]
                size = sum(path.stat().st_size for path in model.files(system, precision))
                row["file_megabytes"] = size / 1e6
                if (system, precision) == ("dragoman", "int8"):
                    row["packed_megabytes"] = packed_megabytes(stored)
                rows.append(row | quality | speed.get((system, precision, beam), {}))
    finally:
        workers.close()
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="for the formats and translations of the models")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="trained runs")
    parser.add_argument(
        "--names", nargs="+", help="of the runs, in the table; else the names of their folders"
    )
    parser.add_argument("--random", nargs="+", choices=list(PRESETS), help="presets, not trained")
    parser.add_argument("--test", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--marian", type=Path, help="a virtual environment with pymarian")
    parser.add_argument("--openvino", type=Path, help="a virtual environment with optimum-intel")
    parser.add_argument("--name", default="models", help="in the names of the results")
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--sentences", type=int, default=256, help="timed in batches")
    parser.add_argument("--alone", type=int, default=24, help="of these, timed one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args(argv)
    if arguments.names and len(arguments.names) != len(arguments.runs):
        parser.error(f"--runs has {len(arguments.runs)} folders and --names {len(arguments.names)} names.")
    command = asked("sizes.py", arguments, "folder")
    peers = {"marian": arguments.marian, "openvino": arguments.openvino}
    arguments.pythons = {"dragoman": sys.executable} | {
        system: str(venv.absolute() / "bin" / "python") for system, venv in peers.items() if venv
    }
    rows = measure(arguments)
    text = sizes({"rows": rows})
    print(text)
    if not arguments.rounds:
        return
    versions: Row = {}
    for system, python in arguments.pythons.items():
        versions |= json.loads(by_python(python, "versions", system))
    out = keep(
        passport(command) | {"versions": versions, "rows": rows}, arguments.results, f"sizes-{arguments.name}"
    )
    out.with_suffix(".md").write_text(f"`{command}`\n\n{text}")
    print(json.dumps(str(out)))


if __name__ == "__main__":
    main()

"""What does an adaptation gain in the new domain, and lose in the old one?

With and without replay, with a frozen encoder, with frozen embeddings, and as an adapter (LoRA).

    python benchmarks/adaptation.py DATA --seeds 1 2 3

DATA has the folders multi30k and tatoeba-en-de, of gzip files. For each seed, a model is trained on Multi30k
English → German and adapted to pairs of Tatoeba. BLEU is of both test sets, by beam search. An interrupted
measurement is resumed by the same command: a run that is finished is not trained again, and a seed that is
measured is not measured again.

--initial-model gives a model to adapt in place of the trained one, as a Marian model that dragoman import
has read. It needs a folder of its own for its runs. A model of Marian's kind, with all that its format has:

    dragoman train multi30k/train.en.gz multi30k/train.de.gz --valid-source multi30k/valid.en.gz
        --valid-target multi30k/valid.de.gz --preset tiny --updates 900 --positions sinusoidal-halves
        --activation swish --attention-bias --output-bias --out runs/marian
    dragoman export runs/marian --to huggingface --out marian-en-de
    dragoman import marian-en-de --from huggingface --out runs/imported
    python benchmarks/adaptation.py DATA --initial-model runs/imported --adaptation-updates 250
        --runs runs/adaptation-marian
"""

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

from passport import asked, keep, passport
from tables import adaptation

from dragoman.evaluation.metrics import bleu
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.run import run
from dragoman.system.device import has_gpu
from dragoman.system.messages import messages_to
from dragoman.text.lines import read_lines
from dragoman.translation.translator import Translator

OLD, NEW = "Multi30k", "Tatoeba"
FOLDERS = {OLD: "multi30k", NEW: "tatoeba-en-de"}
TESTS = {OLD: "test2016", NEW: "test"}
Scores = dict[str, dict[str, float]]  # BLEU by model and test set


def side_files(data: Path, corpus: str, name: str) -> list[str]:
    """The two files of a part of a corpus, English first."""
    return [str(data / FOLDERS[corpus] / f"{name}.{side}.gz") for side in ("en", "de")]


def some_pairs(data: Path, count: int, folder: Path) -> list[str]:
    """Two files with so many pairs of the new corpus, evenly spaced."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"new-{count}.{side}" for side in ("en", "de")]
    for path, packed in zip(paths, side_files(data, NEW, "train"), strict=True):
        lines = list(read_lines(Path(packed)))
        lines = lines[:: max(1, len(lines) // count)][:count]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [str(path) for path in paths]


def train(out: Path, train: list[str], valid: list[str], settings: dict[str, Any]) -> Path:
    """Train a model, or resume its run. Returns the run's folder."""
    names = ("source", "target", "valid_source", "valid_target")
    table = {"out": str(out), "data": dict(zip(names, [*train, *valid], strict=True))} | settings
    with messages_to(print):
        return run(complete_recipe(table, "adaptation.py", lambda each: each, has_gpu))


def measured(seed: int, given: argparse.Namespace) -> Scores:
    """The scores of a seed, which are kept beside its runs."""
    kept: Path = given.runs / f"seed-{seed}" / "bleu.json"
    if not kept.exists():
        scores = measure(seed, given)
        kept.write_text(json.dumps(scores, indent=1) + "\n")
    found: Scores = json.loads(kept.read_text())
    return found


def measure(seed: int, given: argparse.Namespace) -> Scores:
    """Train a model, adapt it in each way, and score all of them."""
    data, folder = given.data, given.runs / f"seed-{seed}"
    old, old_valid = (side_files(data, OLD, name) for name in ("train", "valid"))
    new, new_valid = some_pairs(data, given.pairs, given.runs), side_files(data, NEW, "valid")
    begin = {"preset": given.preset, "training": {"updates": given.updates, "seed": seed}}
    initial: Path = given.initial_model or train(folder / "initial", old, old_valid, begin)
    runs = {"initial": initial}
    ways: dict[str, dict[str, Any]] = {
        "adapted": {},
        "adapted with replay": {"replay": old},
        "adapted, encoder frozen": {"freeze": ["encoder"]},
        "adapted, embeddings frozen": {"freeze": ["embeddings"]},
        "adapter of rank 8": {"lora_rank": 8},
        "adapter of rank 8, with replay": {"lora_rank": 8, "replay": old},
    }
    for name, way in ways.items():
        adaptation = {"initial_model": str(initial), "replay_valid": old_valid, **way}
        updates = given.adaptation_updates
        training = {"updates": updates, "validate_every": max(1, updates // 5), "seed": seed}
        settings = {"adaptation": adaptation, "training": training}
        runs[name] = train(folder / name.replace(",", "").replace(" ", "-"), new, new_valid, settings)
    return {name: {test: score(out, data, test) for test in (OLD, NEW)} for name, out in runs.items()}


@cache
def score(out: Path, data: Path, test: str) -> float:
    """BLEU of a model's translation of a test set."""
    source, target = (list(read_lines(Path(path))) for path in side_files(data, test, TESTS[test]))
    return bleu(Translator.load(out).translate(source), target).value


def main() -> None:
    """Measure every seed; write the scores with their passport, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--initial-model", type=Path, help="a run to adapt, instead of training one")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--updates", type=int, default=1200, help="of the initial model")
    parser.add_argument("--pairs", type=int, default=20_000, help="of Tatoeba, to adapt to")
    parser.add_argument("--adaptation-updates", type=int, default=400)
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/adaptation"), help="where the models are kept"
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    scores = {str(seed): measured(seed, given) for seed in given.seeds}
    found = passport(asked("adaptation.py", given, "data")) | {"bleu": scores}
    print(f"{keep(found, given.results, 'adaptation')}\n\n{adaptation(found)}")


if __name__ == "__main__":
    main()

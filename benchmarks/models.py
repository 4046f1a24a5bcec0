"""The models of the README's results: each is trained as the README says, and its test data is scored.

    python benchmarks/models.py multi30k FOLDER --runs runs

FOLDER has the texts; the quickstart needs none. The run is in RUNS/NAME, and the same command
resumes it. Writes NAME.json to --results, beside the tables of `experiments/`: the training and the scores,
each with its passport.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from passport import passport

from dragoman.evaluation.measures import chrf
from dragoman.evaluation.metrics import Score, bleu
from dragoman.evaluation.pronunciation import pronunciation_errors
from dragoman.model.costs import count_parameters
from dragoman.model.settings import Precision
from dragoman.pipeline.recipe import read_recipe
from dragoman.search.settings import SearchSettings
from dragoman.system.files import read_json, write_lines
from dragoman.text.lines import read_lines
from dragoman.translation.translator import Translator

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Search:
    """How the test data is translated."""

    name: str
    settings: SearchSettings = field(default_factory=SearchSettings)
    precision: Precision = "float32"


@dataclass(frozen=True)
class Model:
    """A model of the README: how it is trained, and how its test data is translated."""

    task: str
    train: str
    """The command, with {data} and {out} for the folders."""
    test: tuple[str, str] | None
    """Source and target of the test data; None for the words that the quickstart holds out."""
    searches: tuple[Search, ...]
    mark: str = ""
    """What ends a piece of a word, in texts that are in pieces."""


BEAMS = (
    Search("beam 4"),
    Search("beam 4, bfloat16", precision="bfloat16"),
    Search("beam 4, int8", precision="int8"),
)
MODELS = {
    "multi30k": Model(
        "Multi30k English → German, raw text, test2016",
        "dragoman train {data}/train.en {data}/train.de --out {out}",
        ("test2016.en", "test2016.de"),
        BEAMS,
    ),
    "multi30k-bpe10k": Model(
        "Multi30k, the lower-cased tokens of Wu et al. (2021), test2016",
        "dragoman train experiments/multi30k-bpe10k.toml --folder {data} --out {out}",
        ("test2016.en", "test2016.de"),
        (
            Search("beam 5, α = 2", SearchSettings(beam_size=5, length_penalty=2)),
            Search("beam 5, divided by the length", SearchSettings(beam_size=5, length_power=1)),
        ),
        mark="@@ ",
    ),
    "tatoeba": Model(
        "Tatoeba English → German, 2,000 test pairs",
        "dragoman train experiments/tatoeba-en-de.toml --folder {data} --out {out}",
        ("test.en", "test.de"),
        BEAMS,
    ),
    "quickstart": Model(
        "CMUdict, spelling → phonemes, held-out words", "dragoman quickstart --out {out}", None, BEAMS[:1]
    ),
}


def train(model: Model, data: Path, out: Path, updates: int | None) -> dict[str, Any]:
    """The passport of the training, which is run, or resumed if it has been interrupted."""
    asked = model.train + f" --updates {updates}" * (updates is not None)
    kept = out.with_name(f"{out.name}.passport.json")
    if not kept.exists():  # it is of the commit with which the training begins
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = asked.format(data="FOLDER", out=f"runs/{out.name}")
        write_lines(kept, [json.dumps(passport(command))])
    words = [word.format(data=data.resolve(), out=out.resolve()) for word in asked.split()]
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=True, stdout=sys.stderr)
    found: dict[str, Any] = read_json(kept)
    return found


def scores(model: Model, data: Path, out: Path, search: Search) -> Sequence[Score]:
    """Of the test data, translated with this search."""
    translator = Translator.load(out, device="cpu", precision=search.precision)
    if model.test is None:
        words: dict[str, list[str]] = read_json(out / "dictionary" / "test.json")
        return pronunciation_errors(translator.translate(list(words), search.settings), list(words.values()))
    sources, references = (list(read_lines(data / name)) for name in model.test)
    hypotheses = translator.translate(sources, search.settings)
    if model.mark:
        hypotheses = [line.replace(model.mark, "") for line in hypotheses]
        return [bleu(hypotheses, [line.replace(model.mark, "") for line in references], tokenize="none")]
    return bleu(hypotheses, references), chrf(hypotheses, references)


def rows(model: Model, data: Path, out: Path) -> Iterator[dict[str, Any]]:
    """A row for each search."""
    for search in model.searches:
        found = scores(model, data, out, search)
        yield {"search": search.name, "scores": [asdict(one) for one in found]}


def main(argv: Sequence[str] | None = None) -> None:
    """Train, score, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("data", type=Path, nargs="?", default=Path(), help="the folder of the texts")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--updates", type=int, help="fewer than the model's own, to try this program")
    parser.add_argument("--results", type=Path, default=ROOT / "experiments" / "results" / "models")
    arguments = parser.parse_args(argv)
    model, out = MODELS[arguments.model], arguments.runs / arguments.model
    trained = train(model, arguments.data, out, arguments.updates)
    recipe, tokenizers = read_recipe(out), Translator.load(out).tokenizers
    result = read_json(out / "result.json")
    found = {
        "task": model.task,
        "training": trained | {name: result[name] for name in ("minutes", "updates", "model", "validation")},
        "seed": recipe.training.seed,
        "parameters": count_parameters(recipe.model, len(tokenizers.source), len(tokenizers.target)),
        **passport(f"python benchmarks/models.py {arguments.model} FOLDER"),
        "rows": list(rows(model, arguments.data, out)),
    }
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{arguments.model}.json"
    write_lines(path, [json.dumps(found, indent=1, ensure_ascii=False)])
    print(f"{path} has the scores.")


if __name__ == "__main__":
    main()

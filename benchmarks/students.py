"""A teacher and its students: size, BLEU and speed, on distilled text and on the text itself.

    python benchmarks/students.py FOLDER --train train.en train.de --valid valid.en valid.de \
        --test test.en test.de --name multi30k --seeds 1 2 3

FOLDER gets one teacher, with the first seed, and its translations of the training text: of the candidates of
a beam, those nearest to the references (Kim and Rush 2016, section 3.3). `--new-sentences` adds sentences
that are made of the words of this text, with the teacher's best translations. Of each seed it gets each
student on these translations and the same student on the original text: the same tokenizers, batches and
updates; with the preset `shallow`, the same initial weights, the teacher's. Models that are complete are not
trained again.
All models translate the test text in each precision and with each beam, and with `--shortlist` also with that
file in the last precision. Speed is measured for the first seed: sentences per second in batches with all
processor threads, and milliseconds per sentence one by one with a single thread, each in a process of its
own, in turn, `--rounds` times. Prints a table, and writes students-NAME-DATE.json and .md.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decode import measured_apart
from passport import asked, keep, passport
from tables import TEACHER, student_differences, students

from dragoman.evaluation.compare import paired_bootstrap
from dragoman.evaluation.metrics import bleu, bleu_metric, suitable_tokenization
from dragoman.model.settings import PRESETS
from dragoman.pipeline.distil import DISTILLED, Distillation, student_recipe, write_distilled
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.run import run
from dragoman.search.settings import SearchSettings
from dragoman.system.messages import messages_to
from dragoman.text.lines import read_lines
from dragoman.text.settings import DataSettings
from dragoman.training.settings import TrainingSettings
from dragoman.translation.model_folder import WEIGHTS, StoredModel, model_folder
from dragoman.translation.translator import Translator

Row = dict[str, Any]
WITH_SHORTLIST = ", shortlist"
OF_TRAINING = {
    *("teacher", "teacher_updates", "teacher_dropout", "teacher_precision", "candidates", "length_penalty"),
    *("new_sentences", "updates", "checkpoint_every", "dropout"),
}
"""Arguments that --trained leaves unused."""


def say(message: str) -> None:
    """To standard error, at once."""
    print(message, file=sys.stderr, flush=True)


# ---- training


def trained_models(arguments: argparse.Namespace, seed: int) -> dict[str, Path]:
    """The folders of the teacher and of the students of a seed, by name."""
    students = arguments.folder / f"seed-{seed}"
    found = {TEACHER: arguments.teacher_run or arguments.folder / TEACHER}
    for preset in arguments.presets:
        found[f"{preset}, distilled"] = students / preset
        found[f"{preset}, original"] = students / f"{preset}-original"
    return found


def train_teacher(arguments: argparse.Namespace) -> tuple[Path, Path, Path]:
    """The teacher's folder, the text that it has translated, and its translations; made if missing."""
    distilled = arguments.folder / "distilled"
    with messages_to(say):
        teacher: Path = arguments.teacher_run or run(teacher_recipe(arguments, arguments.folder / TEACHER))
    search = SearchSettings(n_best=arguments.candidates, length_penalty=arguments.length_penalty)
    asked = Distillation(
        (teacher,),
        *arguments.train,
        search,
        precision=arguments.teacher_precision,
        new_sentences=arguments.new_sentences,
    )
    with messages_to(say):
        return teacher, write_distilled(asked, distilled), distilled / DISTILLED


def train_students(
    arguments: argparse.Namespace, seed: int, teacher: Path, source: Path, distilled: Path
) -> None:
    """Train the students of a seed that are not complete."""
    folders = trained_models(arguments, seed)
    for preset in arguments.presets:
        out = folders[f"{preset}, distilled"]
        recipe = student_recipe(teacher, arguments.train[0], out, preset)
        training = replace(
            recipe.training,
            seed=seed,
            updates=arguments.updates,
            checkpoint_every=arguments.checkpoint_every,
            patience=0,
        )
        model = replace(recipe.model, dropout=arguments.dropout)
        data = replace(recipe.data, source=source, target=distilled)
        with messages_to(say):
            run(replace(recipe, model=model, training=training, data=data))
        chosen = read_recipe(out)  # with the numbers that were chosen, which are the same for both texts
        original = replace(chosen.data, source=arguments.train[0], target=arguments.train[1])
        with messages_to(say):
            run(replace(chosen, out=folders[f"{preset}, original"], data=original))


def teacher_recipe(arguments: argparse.Namespace, out: Path) -> Recipe:
    """The teacher's recipe."""
    (source, target), (valid_source, valid_target) = arguments.train, arguments.valid
    test_source, test_target = arguments.test
    return Recipe(
        out=out,
        preset=arguments.teacher,
        data=DataSettings(source, target, valid_source, valid_target, test_source, test_target),
        model=replace(PRESETS[arguments.teacher], dropout=arguments.teacher_dropout),
        training=TrainingSettings(seed=arguments.seeds[0], updates=arguments.teacher_updates, patience=0),
    )


# ---- measuring


def kinds(arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Precisions and beams. With a shortlist the last precision has another name."""
    precisions = [*arguments.precisions]
    precisions += [precisions[-1] + WITH_SHORTLIST] * (arguments.shortlist is not None)
    return ((precision, beam) for precision in precisions for beam in arguments.beams)


def engine_of(kind: str, arguments: argparse.Namespace) -> tuple[str, Path | None]:
    """The precision and the shortlist of a name that `kinds` gives."""
    return kind.removesuffix(WITH_SHORTLIST), arguments.shortlist if kind.endswith(WITH_SHORTLIST) else None


def translations(
    arguments: argparse.Namespace, models: dict[str, Path]
) -> dict[tuple[str, str, int], list[str]]:
    """The test text translated by each model, in each precision and with each beam."""
    sources = list(read_lines(arguments.test[0]))
    written = {}
    for name, folder in models.items():
        for kind, beam in kinds(arguments):
            precision, shortlist = engine_of(kind, arguments)
            translator = Translator.load(folder, device="cpu", precision=precision, shortlist=shortlist)
            written[name, kind, beam] = translator.translate(sources, SearchSettings(beam_size=beam))
    return written


def speeds(arguments: argparse.Namespace, models: dict[str, Path]) -> dict[tuple[str, str, int], Row]:
    """Medians of sentences a second in batches and of milliseconds one by one; a student's text is the same
    for its speed.
    """
    timed = {name: folder for name, folder in models.items() if not name.endswith("original")}
    asked_for = [(name, *kind) for name in timed for kind in kinds(arguments)]
    found: dict[tuple[str, str, int], list[Row]] = {key: [] for key in asked_for}
    for _ in range(arguments.rounds):
        for name, kind, beam in asked_for:
            precision, shortlist = engine_of(kind, arguments)
            own = argparse.Namespace(
                run=timed[name],
                source=arguments.test[0],
                sentences=arguments.sentences,
                peers=arguments.folder,
                length=None,
                shortlist=shortlist,
            )
            measured: Row = {}
            for one_by_one in (False, True):
                measured |= measured_apart(("dragoman", precision, beam, one_by_one), own)
            found[name, kind, beam].append(measured)
            say(f"{name}, {kind}, beam {beam}: {measured['milliseconds']:.2f} ms one by one")
    return {
        key: {
            name: statistics.median(one[name] for one in rounds)
            for name in ("sentences_per_second", "milliseconds", "milliseconds_p95")
        }
        for key, rounds in found.items()
    }


def sizes(folder: Path) -> Row:
    """Parameters, and megabytes of the file of weights."""
    weights = StoredModel.load(folder).weights
    return {
        "parameters": sum(weight.size for weight in weights.values()),
        "megabytes": (model_folder(folder) / WEIGHTS).stat().st_size / 1e6,
    }


def measure(arguments: argparse.Namespace) -> tuple[list[Row], list[Row]]:
    """A row for each model, precision and beam; and comparisons by paired bootstrap, one of each seed."""
    references = list(read_lines(arguments.test[1]))
    tokenize = suitable_tokenization(references)
    metric = bleu_metric(tokenize, lowercase=False)
    rows: dict[tuple[str, str, int], Row] = {}
    comparisons: list[Row] = []
    taught = None if arguments.trained else train_teacher(arguments)
    for seed in arguments.seeds:
        if taught is not None:
            train_students(arguments, seed, *taught)
        models = trained_models(arguments, seed)
        written = translations(arguments, models)
        for (name, precision, beam), lines in written.items():
            kind = {"model": name, "precision": precision, "beam": beam}
            row = rows.setdefault((name, precision, beam), kind | sizes(models[name]) | {"bleu": []})
            row["bleu"].append(bleu(lines, references, tokenize).value)
            student, _, text = name.partition(", ")
            for other in [TEACHER, f"{student}, original"] if text == "distilled" else []:
                (score,) = paired_bootstrap(lines, written[other, precision, beam], references, [metric])
                difference = score.score.value - score.baseline.value
                more = {"seed": seed, "beside": other, "difference": difference, "p": score.p_value}
                comparisons.append(kind | more)
        if seed == arguments.seeds[0]:
            for key, speed in speeds(arguments, models).items():
                rows[key] |= speed
    return list(rows.values()), comparisons


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the models are trained")
    for name in ("train", "valid", "test"):
        parser.add_argument(f"--{name}", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--name", default="students", help="of the corpus, in the names of the results")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--teacher-run", type=Path, help="a complete run, instead of a teacher to train")
    parser.add_argument("--trained", action="store_true", help="measure the models in FOLDER; train none")
    parser.add_argument("--teacher", choices=list(PRESETS), default="small")
    parser.add_argument("--teacher-updates", type=int, default=4000)
    parser.add_argument("--teacher-dropout", type=float, default=0.3)
    parser.add_argument("--candidates", type=int, default=4, help="of a beam of 4, for the students")
    parser.add_argument("--length-penalty", type=float, default=0.6, help="of the teacher's search")
    parser.add_argument("--teacher-precision", choices=["float32", "bfloat16", "int8"], default="float32")
    parser.add_argument(
        "--new-sentences", type=int, default=0, help="number of sentences to add to the training text"
    )
    parser.add_argument("--presets", nargs="+", default=["student", "student-tiny"])
    parser.add_argument("--updates", type=int, default=6000, help="of each student")
    parser.add_argument("--checkpoint-every", type=int, help="the last ones are averaged")
    parser.add_argument("--dropout", type=float, default=0.1, help="of each student")
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--shortlist", type=Path, help="measure the last precision with this file, too")
    parser.add_argument("--sentences", type=int, default=1000, help="timed in batches; a fifth one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args(argv)
    used = {k: v for k, v in vars(arguments).items() if not (arguments.trained and k in OF_TRAINING)}
    arguments.command = asked("students.py", argparse.Namespace(**used), "folder")
    rows, comparisons = measure(arguments)
    found: Row = passport(arguments.command) | {"rows": rows, "comparisons": comparisons}
    out = keep(found, arguments.results, f"students-{arguments.name}")
    text = f"{students(found)}\n{student_differences(found)}"
    out.with_suffix(".md").write_text(f"`{arguments.command}`\n\n{text}")
    print(text)
    print(json.dumps(str(out)))


if __name__ == "__main__":
    main()

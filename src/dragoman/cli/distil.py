"""`dragoman distil`: a small student from a trained teacher."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.languages import TargetLanguage
from dragoman.cli.parsing import Arguments, Command, option_name, refuse_model_folder, settings_from
from dragoman.cli.train import COMMAND as TRAIN
from dragoman.cli.train import refuse_weight_alone, run_training
from dragoman.model.architectures import check_architecture, refuse_ignored
from dragoman.model.settings import ModelSettings, Precision
from dragoman.pipeline.adaptation.adapt import kept_settings, refuse_changes, run_of
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.distil import Distillation, StudentPreset, distil, student_recipe
from dragoman.pipeline.recipe import Recipe
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import beside
from dragoman.system.torchrun import process_count
from dragoman.text.mixture import is_parallel
from dragoman.text.settings import BatchSettings
from dragoman.training.settings import TrainingSettings

CANDIDATES = 8  # with references


@dataclass(frozen=True)
class Distil:
    """Train a small student on a teacher's translations. The same command resumes after an interruption."""

    run: Path
    """The teacher: the folder of a run, or the folder `model` in it."""
    text: Path = field(metadata=option_name("data"))
    """Sentences that the teacher translates, such as its own training text; no translations are needed."""
    references: Path | None = None
    """Human translations of these sentences. Of the teacher's n best (then 8, unless --n-best or --beam-size
    is given) the student learns the one with the highest sentence BLEU."""
    new_sentences: int = 0
    """Number of new sentences that the teacher also translates. An n-gram model makes them of the words of
    the text. Use this if the teacher was trained on this text and you have no other text."""
    preset: StudentPreset = "student"
    """Sizes of the student: student (6 + 2 layers, half of the teacher's width), student-tiny (12 + 1,
    narrower), shallow (the teacher with its first decoder layer only, trained further), or sizes that do not
    depend on the teacher."""
    out: Path | None = None
    """The student's folder; None is the teacher's, with the preset added to its name."""
    ensemble: tuple[Path, ...] = ()
    """Other teachers with the same vocabulary, whose probabilities are averaged with the first one's."""
    teacher_precision: Precision = "float32"
    """Number type of the teacher's matrix products; bfloat16 and, on a CPU, int8 are faster."""
    valid_source: Path | None = None
    """Validation sentences; the default is the teacher's, or else some pairs are held out."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences, translated and scored when training has ended; the default is the teacher's."""
    test_target: Path | None = None
    """Their translations."""
    vocabulary: int | None = None
    """Number of tokens of a vocabulary that the student learns for itself; None is the teacher's."""
    search: SearchSettings = field(default_factory=SearchSettings)
    into: TargetLanguage = field(default_factory=TargetLanguage)
    model: ModelSettings = field(default_factory=ModelSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


def run_distil(arguments: Arguments) -> None:
    """Distil a teacher into a student."""
    if (processes := process_count()) > 1:
        raise DragomanError(f"distil works in one process, and torchrun has started {processes}.")
    distillation, recipe = plan(arguments)
    run_training(lambda: distil(distillation, recipe))


def plan(arguments: Arguments) -> tuple[Distillation, Recipe]:
    """What the teacher translates, and the recipe of the student, from the options.

    Raises `DragomanError` for contradictions, and if there is no teacher.
    """
    settings = settings_from(
        Distil, candidates(arguments) | arguments if "references" in arguments else arguments
    )
    settings.search.refuse_contradictions(arguments)
    teacher = run_of(settings.run)
    teachers = settings.run, *settings.ensemble
    distillation = Distillation(
        teachers,
        settings.text,
        settings.references,
        settings.search,
        settings.teacher_precision,
        settings.into.code,
        settings.new_sentences,
    )
    out = settings.out or beside(teacher, f"{{}}-{settings.preset}")
    refuse_model_folder(out)
    if settings.out is None:
        say(f"The student's folder is {out}; --out names another one.")
    recipe = student_recipe(teacher, settings.text, out, settings.preset, settings.into.code)
    if settings.vocabulary is not None:
        recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, of_model=None))
    search_names = {setting.name for setting in fields(SearchSettings)} | {"preset"}
    recipe_arguments = with_both_sides(
        {name: value for name, value in arguments.items() if name not in search_names}
    )
    recipe = settings_from(Recipe, recipe_arguments, recipe)
    if recipe.adaptation.initial_model is not None:
        refuse_changes(recipe, kept_settings(teacher), settings.run)
    check_architecture(recipe.model)
    refuse_ignored(recipe.model, set(recipe_arguments))
    refuse_weight_alone(recipe, recipe_arguments)
    refuse_swapped(recipe)
    return distillation, recipe


def with_both_sides(arguments: Arguments) -> Arguments:
    """The options, where a validation or test file with both sides replaces the two files of the teacher.

    Raises `DragomanError` for one side alone.
    """
    arguments = dict(arguments)
    for kind in ("valid", "test"):
        source, target = arguments.get(f"{kind}_source"), arguments.get(f"{kind}_target")
        if source is not None and target is None and is_parallel(source):
            arguments[f"{kind}_target"] = None
        elif (source is None) != (target is None):
            side = "target" if source is None else "source"
            raise DragomanError(f"There is only --{kind}-{side}; give --{kind}-source and --{kind}-target.")
    return arguments


def candidates(arguments: Arguments) -> Arguments:
    """Sizes of the teacher's beam and n-best list to choose from, where they are not given."""
    count = arguments.get("n_best") or arguments.get("beam_size") or CANDIDATES
    return {"n_best": count} if arguments.get("temperature") else {"n_best": count, "beam_size": count}


COMMAND = Command(
    "distil",
    "Train a small, fast student on a teacher's translations.",
    run_distil,
    Distil,
    example="dragoman distil runs/ende --data train.en --preset student",
    arguments="RUN --data FILE",
    groups={
        "text": (
            "run",
            "target_language",
            "text",
            "references",
            "new_sentences",
            "valid_source",
            "valid_target",
        ),
        "teacher": ("ensemble", "teacher_precision", "beam_size"),
        "student": ("preset", "dropout", "minutes", "updates"),
        "output": ("out",),
    },
    metavars={"run": "RUN", "target_language": "CODE", "ensemble": "RUN", "out": "DIR"},
    from_preset=TRAIN.from_preset,
)

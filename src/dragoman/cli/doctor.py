"""`dragoman doctor`: what may be wrong with a parallel corpus."""

import shlex
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.train import read_files
from dragoman.pipeline.adaptation.adapt import with_replay_in_folder
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.recipe import Recipe, check_file_pairs, resolve_corpora, resolve_paths
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml
from dragoman.text.compression import plain_name
from dragoman.text.mixture import WeightedCorpus, is_parallel
from dragoman.text.records import primary
from dragoman.text.settings import CorpusFiles, DataSettings, language_of_name

if TYPE_CHECKING:
    from dragoman.text.quality.doctor import Finding


@dataclass(frozen=True)
class Doctor(CorpusFiles):
    """Report what may be wrong with a corpus. The exit status is 1 if anything was found."""

    valid_source: Path | None = None
    """Validation sentences: checked for overlap with training data, and for lines that training refuses."""
    test_source: Path | None = None
    """Test sentences: checked for overlap with training data, and for lines that training refuses."""
    source_language: str | None = None
    """Code of the source language, for a file with texts in several languages."""
    target_language: str | None = None
    """The same for the target."""
    files: tuple[Path, ...] = ()
    """Two text files, one with both sides (.tmx, .tsv, .jsonl), a recipe, a run's folder, or a folder with
    train.* (and valid.*, test.*) texts."""


def doctor(arguments: Arguments) -> None:
    """Print what may be wrong with a parallel corpus, and exit with status 1 if anything was found.

    Raises `DragomanError` for files that are missing, damaged or not named.
    """
    files = arguments.pop("files", ())
    if len(files) == 1 and files[0].is_dir():
        recipe = recipe_of_folder(files[0], arguments)
    else:
        table, origin, texts = read_files(files, arguments)
        recipe, arguments = overlay(Recipe(), table, origin), arguments | texts
    from dragoman.text.named_datasets.datasets import resolve_dataset

    recipe = with_languages_of_initial_model(recipe)
    recipe = with_replay_in_folder(replace(recipe, data=settings_from(DataSettings, arguments, recipe.data)))
    refuse_swapped(recipe)
    data = resolve_dataset(recipe.data)
    findings = print_findings(data)
    # clean takes the names that files have; train adds .gz or .zst to one that is not there.
    data = data if data.corpus else resolve_paths(data)
    advise_clean(data, findings)
    old = text_to_replay(replace(recipe, data=data))
    if old is not None:
        print("The text to replay:")
        old_findings = print_findings(old)
        advise_clean(old, old_findings)
        findings += old_findings
    if findings:
        sys.exit(1)
    corpus = corpus_words(data)
    if data.corpus or recipe.adaptation.initial_model is not None:
        corpus = shlex.quote(str(files[0] / "recipe.toml" if files[0].is_dir() else files[0]))
    say(f"Train with: dragoman train {corpus} --out runs/NAME")


def advise_clean(data: DataSettings, findings: "list[Finding]") -> None:
    """Say the command that writes a corpus without what was found, if it can change or remove all of it."""
    if findings and all(finding.can_be_cleaned for finding in findings):
        corpus = "SOURCE TARGET" if data.corpus else corpus_words(data)
        words = f"{corpus}{held_out_words(data)}"
        say(f"To write a corpus without these problems: dragoman clean {words} --out DIR")


def corpus_words(data: DataSettings) -> str:
    """The arguments of a command that name a corpus: its files, and its languages if they are given."""
    words = [str(data.files[side]) for side in ("source", "target") if side in data.files]
    for side, code in (("source", data.source_language), ("target", data.target_language)):
        words += [f"--{side}-language", code] if code else []
    return shlex.join(words)


def held_out_words(data: DataSettings) -> str:
    """The arguments of `clean` that name the validation and test files, for pairs that they share."""
    names = ("valid_source", "valid_target", "test_source", "test_target")
    words = [(f"--{name.replace('_', '-')}", str(data.files[name])) for name in names if name in data.files]
    return "".join(f" {shlex.join(pair)}" for pair in words)


def text_of(corpus: WeightedCorpus, data: DataSettings) -> DataSettings:
    """The settings of one of several corpora, with its languages and its validation and test text."""
    names = [field.name for field in fields(WeightedCorpus) if field.name in vars(data)]
    given: dict[str, Any] = {name: value for name in names if (value := getattr(corpus, name)) is not None}
    return replace(data, corpus=(), pair_temperature=None, **given)


def print_findings(data: DataSettings) -> "list[Finding]":
    """Print what may be wrong with a corpus, and return it.

    Raises `DragomanError` for files that are missing, damaged or not named.
    """
    from dragoman.text.conversion import check_files, converted
    from dragoman.text.named_datasets.datasets import resolve_dataset
    from dragoman.text.quality.doctor import examine

    data = resolve_dataset(data)
    (check_files if data.needs_conversion() else check_file_pairs)(data)
    corpora, data = resolve_corpora(data), resolve_paths(data)
    if data.corpus:
        all_findings: list[Finding] = []
        for number, part in enumerate(corpora, 1):
            print(f"Corpus {number}, {part.source}:")
            all_findings += print_findings(text_of(part, data))
        return all_findings
    if data.source is None or (data.target is None and not is_parallel(data.source)):
        raise DragomanError(
            "There is no text to examine: dragoman doctor SOURCE TARGET, or a recipe that names them."
        )
    with TemporaryDirectory() as scratch, converted(data, Path(scratch) / "text") as lines:
        assert lines.source is not None
        assert lines.target is not None
        others = {}
        if lines.valid_source and lines.valid_target:
            others["validation"] = lines.valid_source, lines.valid_target
        if lines.test_source and lines.test_target:
            others["test"] = lines.test_source, lines.test_target
        findings = examine(lines.source, lines.target, others)
        for finding in findings:
            print(lines.in_words(str(finding)))
    if not findings:
        print(f"Nothing was found in {', '.join(map(str, data.files.values()))}.")
    return findings


def with_languages_of_initial_model(recipe: Recipe) -> Recipe:
    """An adaptation's recipe with the languages of its initial model, where it names none; others unchanged.

    A new vocabulary may be in other languages.
    Raises `DragomanError` for settings of the adaptation that do not belong together.
    """
    if recipe.adaptation == AdaptationSettings():
        return recipe
    from dragoman.pipeline.adaptation.adapt import kept_settings, refuse_contradictions

    refuse_contradictions(recipe)
    initial_model, data = recipe.adaptation.initial_model, recipe.data
    if recipe.adaptation.new_vocabulary or initial_model is None:
        return recipe
    if not initial_model.exists():  # a run does not need it any more
        return recipe
    initial = kept_settings(initial_model).data
    source, target = (
        data.source_language or initial.source_language,
        data.target_language or initial.target_language,
    )
    return replace(recipe, data=replace(data, source_language=source, target_language=target))


def text_to_replay(recipe: Recipe) -> DataSettings | None:
    """The old text that an adaptation adds to its training text, if there is one.

    Raises `DragomanError` for a missing file.
    """
    if recipe.adaptation.replay is None:
        return None
    from dragoman.pipeline.adaptation.replay import old_text

    old, data = old_text(recipe), recipe.data
    return replace(old, test_source=data.test_source, test_target=data.test_target)


def recipe_of_folder(folder: Path, arguments: Arguments) -> Recipe:
    """The recipe of a run's folder, or of a folder with two texts train.* (and valid.*, test.*).

    The source is the text of --source-language, or the other one of --target-language; without both the first
    by the alphabet.

    Raises `DragomanError` if the folder is neither.
    """
    if (folder / "recipe.toml").exists():
        return overlay(Recipe(), read_toml(folder / "recipe.toml"), str(folder / "recipe.toml"))
    names = sorted({plain_name(path.name) for path in folder.glob("train.*")})
    if len(names) != 2 and not (len(names) == 1 and is_parallel(Path(names[0]))):
        raise DragomanError(
            f"{folder} has {', '.join(names) or 'no train.*'}; two texts train.* are needed, or one with "
            "both sides (train.tmx, .tsv or .jsonl). Name them: "
            f"--folder {folder} --source FILE --target FILE."
        )
    if len(names) == 2:
        first, second = (primary(language_of_name(name)) for name in names)
        source, target = (arguments.get(f"{side}_language") for side in ("source", "target"))
        if (source and primary(source) == second) or (target and primary(target) == first):
            names.reverse()
        say(f"The source is {names[0]}, the target {names[1]}; --source-language sets the source.")
    texts: dict[str, Any] = {}
    for kind, prefix in (("train", ""), ("valid", "valid_"), ("test", "test_")):
        for side, name in zip(("source", "target"), names, strict=False):
            path = Path(name.replace("train", kind, 1))
            if any((folder / f"{path}{ending}").exists() for ending in ("", ".gz", ".zst")):
                texts[f"{prefix}{side}"] = path
    return Recipe(data=DataSettings(folder=folder, **texts))


COMMAND = Command(
    "doctor",
    "Report what may be wrong with a parallel corpus.",
    doctor,
    Doctor,
    example="dragoman doctor train.en train.de",
    arguments="[SOURCE TARGET | CORPUS.tmx | RECIPE.toml | FOLDER]",
    positional=("files",),
    groups={
        "text": (
            "files",
            *(field.name for field in fields(CorpusFiles)),
            "source_language",
            "target_language",
        )
    },
    metavars={"folder": "DIR"},
)

"""`dragoman doctor`: what may be wrong with a parallel corpus."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.cli.train import read_files
from dragoman.pipeline.recipe import Recipe, check_file_pairs, resolve_paths
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import CorpusFiles, DataSettings


@dataclass(frozen=True)
class Doctor(CorpusFiles):
    """Report what may be wrong with a corpus. The exit status is 1 if anything was found."""

    valid_source: Path | None = None
    """Validation sentences: checked for overlap with the training data, and for what training refuses."""
    test_source: Path | None = None
    """Test sentences: checked for overlap with the training data, and for what training refuses."""
    files: tuple[Path, ...] = ()
    """Two text files, a recipe, a run's folder, or a folder with train.* (and valid.*, test.*) texts."""


def doctor(given: Given) -> None:
    """Print what may be wrong with a parallel corpus, and exit with status 1 if anything was found.

    Raises `DragomanError` for files that are missing, damaged or not named.
    """
    files = given.pop("files", ())
    if len(files) == 1 and files[0].is_dir():
        data = data_of_folder(files[0])
    else:
        table, origin, texts = read_files(files, given)
        data, given = overlay(Recipe(), table, origin).data, given | texts
    data = settings_from(DataSettings, given, data)
    if print_findings(data):
        say("To write a corpus without such pairs: dragoman clean SOURCE TARGET --out DIR")
        sys.exit(1)
    say(f"Train with: dragoman train {data.source} {data.target} --out runs/NAME")


def print_findings(data: DataSettings) -> bool:
    """Print what may be wrong with a corpus. Returns whether anything was found.

    Raises `DragomanError` for files that are missing, damaged or not named.
    """
    from dragoman.text.datasets import resolve_dataset
    from dragoman.text.doctor import examine

    data = resolve_dataset(data)
    check_file_pairs(data)
    data = resolve_paths(data)
    if data.source is None or data.target is None:
        raise DragomanError(
            "There is no text to examine: dragoman doctor SOURCE TARGET, or a recipe that names them."
        )
    others = {}
    if data.valid_source and data.valid_target:
        others["validation"] = data.valid_source, data.valid_target
    if data.test_source and data.test_target:
        others["test"] = data.test_source, data.test_target
    findings = examine(data.source, data.target, others)
    for finding in findings:
        print(finding)
    if not findings:
        print(f"Nothing was found in {', '.join(map(str, data.files.values()))}.")
    return bool(findings)


def data_of_folder(folder: Path) -> DataSettings:
    """The corpus of a run's folder, or of a folder with two texts train.* (and valid.*, test.*).

    Raises `DragomanError` if the folder is neither.
    """
    if (folder / "recipe.toml").exists():
        return overlay(Recipe(), read_toml(folder / "recipe.toml"), str(folder / "recipe.toml")).data
    names = sorted({path.name.removesuffix(".gz") for path in folder.glob("train.*")})
    if len(names) != 2:
        raise DragomanError(
            f"{folder} has {', '.join(names) or 'no train.*'}; two texts train.* are needed. Name them: "
            f"--folder {folder} --source FILE --target FILE."
        )
    texts: dict[str, Any] = {}
    for kind, prefix in (("train", ""), ("valid", "valid_"), ("test", "test_")):
        for side, name in zip(("source", "target"), names, strict=True):
            path = Path(name.replace("train", kind, 1))
            if (folder / path).exists() or (folder / f"{path}.gz").exists():
                texts[f"{prefix}{side}"] = path
    return DataSettings(folder=folder, **texts)


COMMAND = Command(
    "doctor",
    "Report what may be wrong with a parallel corpus.",
    doctor,
    Doctor,
    example="dragoman doctor train.en train.de",
    arguments="[SOURCE TARGET | RECIPE.toml | FOLDER]",
    positional=("files",),
    groups={"text": ("files", *(field.name for field in fields(CorpusFiles)))},
    metavars={"folder": "DIR"},
)

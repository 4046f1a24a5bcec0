"""`dragoman doctor`: what may be wrong with a parallel corpus."""

import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.cli.train import read_files
from dragoman.pipeline.recipe import Recipe, check_file_pairs, resolve_paths
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import DataSettings


@dataclass(frozen=True)
class DoctorFiles:
    """The files of a corpus."""

    folder: Path | None = None
    """Folder of the files below."""
    source: Path | None = None
    """Training sentences to translate from."""
    target: Path | None = None
    """Their translations."""
    valid_source: Path | None = None
    """Validation sentences: checked for overlap with the training data, and for what training refuses."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences: checked for overlap with the training data, and for what training refuses."""
    test_target: Path | None = None
    """Their translations."""


@dataclass(frozen=True)
class Doctor(DoctorFiles):
    """Report what may be wrong with a corpus. The exit status is 1 if anything was found."""

    files: tuple[Path, ...] = ()
    """Two text files, a recipe, a run's folder, or a folder with train.* (and valid.*, test.*) texts."""


def doctor(given: Given) -> None:
    """Report what may be wrong with a parallel corpus."""
    files = given.pop("files", ())
    if len(files) == 1 and files[0].is_dir():
        data = data_in(files[0])
    else:
        table, origin, texts = read_files(files, given)
        data, given = overlay(Recipe(), table, origin).data, given | texts
    names = [field.name for field in fields(DoctorFiles)]
    asked = settings_from(DoctorFiles, given, DoctorFiles(**{name: getattr(data, name) for name in names}))
    from dragoman.text.datasets import with_dataset
    from dragoman.text.doctor import examine

    data = with_dataset(replace(data, **asdict(asked)))
    check_file_pairs(data)
    data = resolve_paths(data)
    if data.source is None or data.target is None:
        raise DragomanError(
            "There is no text to examine: dragoman doctor SOURCE TARGET, or a recipe that names them."
        )
    others = {
        "validation": (data.valid_source, data.valid_target),
        "test": (data.test_source, data.test_target),
    }
    pairs = {name: (one, other) for name, (one, other) in others.items() if one and other}
    findings = examine(data.source, data.target, pairs)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
    print(f"Nothing was found in {', '.join(map(str, data.files.values()))}.")
    say(f"Train with: dragoman train {data.source} {data.target} --out runs/NAME")


def data_in(folder: Path) -> DataSettings:
    """The data of a run's folder, or of one with two texts train.*, and perhaps valid.* and test.* texts.

    Raises `DragomanError` if it is neither.
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
    groups={
        "text": (
            "files",
            "source",
            "target",
            "valid_source",
            "valid_target",
            "test_source",
            "test_target",
            "folder",
        )
    },
    metavars={"folder": "DIR"},
)

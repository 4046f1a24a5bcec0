"""`dragoman clean`: a parallel corpus without what `doctor` warns of."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.wording import counted
from dragoman.text.mixture import is_parallel
from dragoman.text.quality.checks import check_readable
from dragoman.text.quality.clean_settings import CleanSettings
from dragoman.text.settings import UNKNOWN_LANGUAGE, DataSettings, Languages

if TYPE_CHECKING:
    from dragoman.text.quality.cleaning import CleanReport


@dataclass(frozen=True)
class Clean:
    """Write a corpus without most pairs that doctor reports. Removed pairs go to a file with reasons."""

    source: Path
    """Sentences to translate from: UTF-8, one per line, plain or compressed (.gz, .zst); or one file that has
    both sides (.tmx, .tsv, .jsonl)."""
    out: Path
    """A new folder for the cleaned files, removed.jsonl and report.json."""
    target: Path | None = None
    """Their translations: line n is that of source line n."""
    valid_source: Path | None = None
    """Validation sentences: pairs that share a side with them are removed."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences: pairs that share a side with them are removed."""
    test_target: Path | None = None
    """Their translations."""
    source_language: str | None = None
    """Code of the source language, such as en or pt-BR; None is what the file's extension says (train.en)."""
    target_language: str | None = None
    """The same for the target."""
    checks: CleanSettings = field(default_factory=CleanSettings)
    json: bool = False
    """Write the report as JSON instead of a table."""


def clean(arguments: Arguments) -> None:
    """Write a cleaned corpus, and print how many pairs were removed for which reasons.

    Raises `UnicodeEncodeError` for names that are not UTF-8, which report.json cannot hold, and
    `DragomanError` for whatever else the user can correct.
    """
    settings = settings_from(Clean, arguments)
    from dragoman.text.quality.cleaning import REMOVED, REPORT, clean_files

    with line_files(settings_from(DataSettings, arguments)) as texts:
        assert texts.source is not None
        if texts.target is None:
            raise DragomanError(
                f"{settings.source} needs its other side: dragoman clean SOURCE TARGET. A file with both "
                "sides ends in .tmx, .tsv or .jsonl."
            )
        if settings.checks.language:
            say_unchecked(texts.languages)
        others = (
            list(filter(None, (texts.valid_source, texts.test_source))),
            list(filter(None, (texts.valid_target, texts.test_target))),
        )
        check_readable(texts.valid_source, texts.valid_target)
        check_readable(texts.test_source, texts.test_target)
        files = texts.source, texts.target
        "\n".join(path.name for path in files).encode()  # raises before hours of work
        report = clean_files(files, settings.out, settings.checks, texts.languages, others)
    if settings.json:
        print(json.dumps(asdict(report), indent=2, ensure_ascii=False))
    else:
        print_table(report)
    removed = report.pairs - report.kept
    say(
        f"{settings.out} has {report.kept:,} of {counted(report.pairs, 'pair')}. Removed: {removed:,}; their "
        f"reasons are in {settings.out / REMOVED}."
    )
    if any(group.count for group in report.changes.values()):
        say(
            f"Pairs were changed; {settings.out / REPORT} has examples. Text about HTML may need "
            "--no-entities."
        )
    cleaned = [str(settings.out / name) for name in (report.source, report.target)]
    say(f"Train with: dragoman train {shlex.join(cleaned)} --out runs/NAME")


@contextmanager
def line_files(data: DataSettings) -> Iterator[DataSettings]:
    """The settings, with files of lines in place of those that have both sides."""
    from dragoman.text.conversion import converted

    if not any(map(is_parallel, data.files.values())):
        yield data
        return
    with TemporaryDirectory() as scratch, converted(data, Path(scratch) / "text") as lines:
        yield lines


def say_unchecked(languages: Languages) -> None:
    """Say which sides are not checked for their language, and why."""
    from dragoman.text.quality.identification import is_identifiable

    for side, code in asdict(languages).items():
        if code == UNKNOWN_LANGUAGE:
            unknown = f"which is not known: --{side}-language gives it"
            say(f"The {side} is not checked for its language, {unknown}.")
        elif not is_identifiable(code):
            say(f"The {side} is not checked for its language: the identifier does not know {code}.")


def print_table(report: "CleanReport") -> None:
    """Print how many pairs were changed, and removed for each reason, with the first of their lines."""
    from rich.table import Table

    from dragoman.system.terminal import Terminal

    table = Table("reason", "pairs", "share", "first lines", "meaning")
    changes = {f"{name} (changed)": group for name, group in report.changes.items()}
    for name, group in (changes | report.reasons).items():
        lines = ", ".join(str(record["line"]) for record in group.sample)
        ellipsis = " …" if group.count > len(group.sample) else ""
        share = f"{group.count / report.pairs:.2%}"
        table.add_row(name, f"{group.count:,}", share, lines + ellipsis, group.meaning)
    width = Terminal(width=10_000).measure(table).maximum  # as wide as it needs: nothing is cut
    Terminal(width=width).print(table)


COMMAND = Command(
    "clean",
    "Write a parallel corpus without most of the pairs that doctor reports.",
    clean,
    Clean,
    example="dragoman clean train.en train.de --out clean --test-source test.en --test-target test.de",
    arguments="(SOURCE TARGET | CORPUS.tmx) -o DIR",
    positional=("source", "target"),
    groups={
        "text": (
            "source",
            "target",
            "valid_source",
            "valid_target",
            "test_source",
            "test_target",
        ),
        "changes": ("entities", "mojibake", "marks"),
        "checks": (
            "copies",
            "control",
            "language",
            "max_words",
            "max_ratio",
            "overlap",
            "duplicates",
            "near_duplicates",
        ),
        "output": ("out", "json"),
    },
    metavars={"source": "SOURCE", "target": "TARGET", "out": "DIR"},
)

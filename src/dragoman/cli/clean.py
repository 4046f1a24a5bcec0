"""`dragoman clean`: a parallel corpus without what `doctor` warns of."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.text.clean_settings import CleanSettings
from dragoman.text.mixture import refuse_parallel
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, language_of_name

if TYPE_CHECKING:
    from dragoman.text.cleaning import CleanReport


@dataclass(frozen=True)
class Clean:
    """Write a parallel corpus without what doctor warns of. Removed pairs go to a file with the reasons."""

    source: Path
    """Sentences to translate from: UTF-8, one a line, plain or gzip."""
    target: Path
    """Their translations: line n belongs to line n."""
    out: Path
    """A new folder for the cleaned files, removed.jsonl and report.json."""
    valid_source: Path | None = None
    """Validation sentences: pairs that share a side with them are removed."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences: pairs that share a side with them are removed."""
    test_target: Path | None = None
    """Their translations."""
    source_language: str | None = None
    """Code of the language of the source, as en or pt-BR; None is what the file's ending says (train.en)."""
    target_language: str | None = None
    """The same for the target."""
    checks: CleanSettings = field(default_factory=CleanSettings)
    json: bool = False
    """Write the report as JSON instead of a table."""


def clean(given: Given) -> None:
    """Write a cleaned corpus, and print how many pairs were removed for which reasons."""
    asked = settings_from(Clean, given)
    refuse_parallel(asked.source, asked.target)
    from dragoman.text.cleaning import REMOVED, clean_files

    languages = Languages(
        asked.source_language or language_of_name(asked.source.name),
        asked.target_language or language_of_name(asked.target.name),
    )
    say_unchecked(asked, languages)
    others = (
        list(filter(None, (asked.valid_source, asked.test_source))),
        list(filter(None, (asked.valid_target, asked.test_target))),
    )
    report = clean_files((asked.source, asked.target), asked.out, asked.checks, languages, others, say)
    if asked.json:
        print(json.dumps(asdict(report), indent=2, ensure_ascii=False))
    else:
        print_table(report)
    removed = report.pairs - report.kept
    say(
        f"{asked.out} has {report.kept:,} of {report.pairs:,} pairs. Removed: {removed:,}; their reasons are "
        f"in {asked.out / REMOVED}."
    )
    say(f"Train with: dragoman train {asked.out / report.source} {asked.out / report.target} --out runs/NAME")


def say_unchecked(asked: Clean, languages: Languages) -> None:
    """Say which files are not checked for their language, and why."""
    from dragoman.text.identification import is_identifiable

    if not asked.checks.language:
        return
    for side, path, code in (
        ("source", asked.source, languages.source),
        ("target", asked.target, languages.target),
    ):
        if code == UNKNOWN_LANGUAGE:
            say(f"{path} is not checked for its language, which is not known: --{side}-language gives it.")
        elif not is_identifiable(code):
            say(f"{path} is not checked for its language: the identifier does not know {code}.")


def print_table(report: "CleanReport") -> None:
    """Print how many pairs were removed for each reason, with the first of their lines."""
    from rich.console import Console
    from rich.table import Table

    table = Table("reason", "pairs", "share", "first lines", "meaning")
    for name, removed in report.reasons.items():
        lines = ", ".join(str(record["line"]) for record in removed.sample)
        more = " …" if removed.count > len(removed.sample) else ""
        share = f"{removed.count / report.pairs:.2%}"
        table.add_row(name, f"{removed.count:,}", share, lines + more, removed.meaning)
    width = Console(width=10_000).measure(table).maximum  # as wide as it needs: nothing is cut
    Console(width=width).print(table)


COMMAND = Command(
    "clean",
    "Write a parallel corpus without what doctor warns of.",
    clean,
    Clean,
    example="dragoman clean train.en train.de --out clean --test-source test.en --test-target test.de",
    arguments="SOURCE TARGET",
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
        "checks": (
            "copies",
            "control",
            "mojibake",
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

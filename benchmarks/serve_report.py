"""What serve.py has measured, as tables of medians."""

from itertools import groupby

from rich.console import Console
from rich.table import Table
from serve_systems import Row
from tables import HOW, medians

FIGURES = {
    "sentences_per_second": "sentences/s",
    "share_of_offline": "of offline",
    "requests_per_second": "requests/s",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "errors": "errors",
    "unanswered": "unanswered",
    "cpu_ms": "CPU ms a sentence",
    "http_ms": "HTTP ms",
    "direct_ms": "direct ms",
    "overhead_ms": "overhead ms",
    "alone_p95_ms": "short alone, p95 ms",
    "whole_p95_ms": "beside a whole one",
    "whole_ratio": "times",
    "parts_p95_ms": "beside one in parts",
    "parts_ratio": "times",
}


def report(rows: list[Row], stamp: Row) -> None:
    """Print the medians with where they come from, a table a kind of measurement."""
    console = Console(width=120)
    console.print(f"{stamp['machine']}; commit {stamp['commit']}{', dirty' if stamp['dirty'] else ''}")
    console.print(", ".join(f"{name} {number}" for name, number in stamp["versions"].items()))
    for measured, group in groupby(medians(rows), lambda row: row["measured"]):
        found = list(group)
        names = {name: title for name, title in (HOW | FIGURES).items() if name in found[0]}
        table = Table("system", *names.values(), title=f"{measured}, medians")
        for row in found:
            table.add_row(row["system"], *(shown(row.get(name, "")) for name in names))
        console.print(table)
    for row in rows:
        if row["measured"] == "answers":
            console.print(
                f"{row['system']}: {row['same_as_ours']} of {row['sentences']} translations are those of "
                f"Translator.translate, {row['same_as_ours_with_its_length_penalty']} with the same length "
                "penalty."
            )
        if row["measured"] == "threads":
            console.print(
                f"plain, {row['workers']} workers of {row['threads']} threads: "
                f"{row['sentences_per_second']:.0f} sentences a second"
            )


def shown(value: object) -> str:
    """A number as a table has it."""
    return (
        f"{value:.3g}"
        if isinstance(value, float) and value < 100
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )

"""The page of Table 2: table.json for programs, table.md for people. A row that was not run says so."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from dragoman_paper.tables.table2 import PUBLISHED, TITLE, TrainedRow
from dragoman_paper.tables.table2_runs import Outcome, Table2Request, finished
from dragoman_paper.tables.table_files import table, write_table

COLUMNS = (
    "model",
    "BLEU, paper",
    "BLEU, the paper's way",
    "sacreBLEU",
    "validation BLEU",
    "training FLOPs, paper",
    "the paper's way",
    "counted",
    "parameters",
    "time · devices",
)
Outcomes = Mapping[str, Outcome | None]  # by the name of the row


def write_page(request: Table2Request) -> str:
    """Write table.json and table.md to the table's folder from all results there; returns the latter's text.

    Raises `DragomanError` as `finished`.
    """
    outcomes = {row.name: finished(request, row) for row in request.every_row}
    content = {
        "table": "table2",
        "scale": request.scale,
        "rows": {name: None if outcome is None else asdict(outcome) for name, outcome in outcomes.items()},
    }
    return write_table(request.folder, content, markdown(request, outcomes))


def markdown(request: Table2Request, outcomes: Outcomes) -> str:
    """A table for each pair of languages, and how it was measured."""
    parts = [f"# {TITLE} ({request.scale})"]
    for pair in dict.fromkeys(row.pair for row in request.every_row):
        rows = [row for row in request.every_row if row.pair == pair]
        others = [entry for entry in PUBLISHED if entry.pair == pair] if request.scale == "paper" else []
        lines: list[tuple[str, ...]] = [
            (entry.name, number(entry.bleu), "", "", "", cost(entry.flops), "", "", "", "")
            for entry in others
        ]
        lines += [cells(row, outcomes[row.name]) for row in rows]
        parts.append(f"## {pair}: {rows[0].dataset}\n\n{table(COLUMNS, lines)}")
    return "\n\n".join([*parts, "\n".join(method(outcomes))]) + "\n"


def cells(row: TrainedRow, outcome: Outcome | None) -> tuple[str, ...]:
    """The cells of one of the paper's Transformers."""
    if outcome is None:
        return (row.name, number(row.bleu), "not run", "", "", cost(row.flops), "not run", "", "", "")
    return (
        row.name,
        number(row.bleu),
        f"{outcome.paper_bleu:.2f}",
        f"{outcome.test_bleu:.2f}",
        f"{outcome.bleu:.2f}",
        cost(row.flops),
        cost(outcome.estimated_flops),
        cost(outcome.counted_flops),
        f"{outcome.parameters:,}",
        f"{outcome.minutes / 60:.2f} h · {outcome.devices}",
    )


def number(value: float | None) -> str:
    """A score as the paper prints it; nothing for one that it does not have."""
    return "" if value is None else f"{value:g}"


def cost(flops: float | None) -> str:
    """Floating-point operations with two digits."""
    return "" if flops is None else f"{flops:.1e}".replace("e+", "e")


def method(outcomes: Outcomes) -> Iterator[str]:
    """How to read the table, and where its results are from."""
    missing = [name for name, outcome in outcomes.items() if outcome is None]
    if missing:
        yield f"- Not run: {', '.join(missing)}."
    yield "- The test data was translated once by each model, after its training; nothing was chosen by it."
    yield (
        "- BLEU, the paper's way: of Moses tokens with compounds split at their hyphens. It is higher than "
        "sacreBLEU, and the two cannot be compared."
    )
    yield (
        "- FLOPs, the paper's way: time of the training · devices · sustained single-precision operations a "
        "second of a device (here: of a product of matrices, measured). Counted: operations of all matrix "
        "products, forward and backward, with batches taken as full."
    )
    for name, outcome in outcomes.items():
        if outcome is None:
            continue
        origin = outcome.passport
        changed = " with changes" if origin.get("dirty") else ""
        steps = ", ".join(map(str, outcome.averaged))
        yield (
            f"- {name}: the mean of the checkpoints at {steps}; `{outcome.paper_signature}`; "
            f"`{outcome.test_signature}`; {outcome.device_flops:.2g} operations per second; commit "
            f"{origin.get('commit')}{changed}; {origin.get('date')}; {origin.get('machine')}; "
            f"{origin.get('device')}; torch {origin.get('torch')}."
        )

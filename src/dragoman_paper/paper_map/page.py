"""The report of `dragoman paper` for a terminal."""

from collections.abc import Iterator

from rich.table import Column, Table

from dragoman_paper.paper_map.report import Report, TrainingCost


def number_table(title: str, *names: str) -> Table:
    """A table whose first column has names, the others numbers."""
    return Table(
        names[0], *(Column(name, justify="right") for name in names[1:]), title=title, title_justify="left"
    )


def pages(report: Report) -> Iterator[Table | str]:
    """The tables, with sentences between them."""
    yield parameter_table(report)
    yield vocabulary_table(report)
    yield cost_table(report.cost)
    yield "\n".join(cost_sentences(report.cost)) + "\n"
    yield departure_table(report)
    yield "\n".join(toolkit_sentences(report)) + "\n"
    bleu = number_table("BLEU on newstest2014 (Table 2)", "model", "English-German", "English-French")
    for name, scores in report.bleu.items():
        bleu.add_row(name, *map(str, scores))
    yield bleu
    yield report.french


def parameter_table(report: Report) -> Table:
    """Parameters by part, and the paper's sum."""
    sizes = f"{report.target_vocabulary:,}"
    if report.source_vocabulary != report.target_vocabulary:
        sizes = f"{report.source_vocabulary:,} and {sizes}"
    row = f", {report.row} of Table 3" if report.row and report.row != report.name else ""
    table = number_table(f"Parameters of {report.name}{row}: {sizes} tokens", "part", "parameters")
    for part, count in report.parameters.items():
        table.add_row(part, f"{count:,}")
    table.add_row("all", f"{sum(report.parameters.values()):,}", style="bold")
    if report.paper_parameters is not None:
        table.add_row("the paper", f"{report.paper_parameters} million")
    return table


def vocabulary_table(report: Report) -> Table:
    """Table 3's counts, and the vocabularies that would explain them."""
    table = number_table(
        "Parameters of Table 3 in millions, and the vocabulary that explains the paper's figure",
        "row",
        "37,000 tokens",
        "the paper",
        "explained by",
    )
    for row in report.table_3:
        fewest, most = row.explained_by
        table.add_row(row.row, f"{row.ours / 1e6:.2f}", str(row.paper), f"{fewest:,} to {most:,} tokens")
    return table


def cost_table(cost: TrainingCost) -> Table:
    """Multiply-adds by part."""
    title = f"Multiply-adds per target token, forward, {cost.length} tokens per side"
    table = number_table(title, "part", "multiply-adds")
    for part, count in cost.by_part.items():
        table.add_row(part, f"{count / cost.length:,.0f}")
    table.add_row("all", f"{cost.per_target_token:,.0f}", style="bold")
    return table


def cost_sentences(cost: TrainingCost) -> Iterator[str]:
    """The cost of training, both ways."""
    yield (
        f"Counted: {cost.counted_flops:.2g} FLOPs for {cost.updates:,} updates of {cost.tokens:,} source and "
        f"{cost.tokens:,} target tokens (2 a multiply-add; forward and backward are three times forward)."
    )
    if cost.estimated_flops is None:
        yield "The paper's estimate is time · GPUs · 9.5 TFLOP/s: give --hours, and --gpus."
        return
    printed = "" if cost.printed_flops is None else f" (Table 2: {cost.printed_flops:.2g})"
    yield (
        f"The paper's method: {cost.hours:g} hours · {cost.gpus} GPUs · 9.5 TFLOP/s = "
        f"{cost.estimated_flops:.2g} FLOPs{printed}. The counted FLOPs are "
        f"{cost.counted_flops / cost.estimated_flops:.0%} of that."
    )


def departure_table(report: Report) -> Table:
    """Settings that are not the paper's, then what is no setting."""
    title = "Where the settings depart from the paper, and what no setting changes"
    columns = (Column(name, overflow="fold") for name in ("setting", "here", "the paper", "section"))
    table = Table(*columns, title=title, title_justify="left")
    for departure in report.departures:
        value = "chosen when a run begins" if departure.value is None else str(departure.value)
        table.add_row(
            departure.setting,
            value,
            "none" if departure.paper is None else str(departure.paper),
            departure.section,
        )
    for subject, paper, here in report.fixed:
        table.add_row(subject, here, paper, "")
    return table


def toolkit_sentences(report: Report) -> Iterator[str]:
    """What other toolkits do."""
    yield "What other toolkits do differently:"
    for toolkit in report.toolkits:
        yield f"- {toolkit.toolkit}: {toolkit.what}. The paper: {toolkit.paper}. Source: {toolkit.source}."

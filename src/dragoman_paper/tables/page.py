"""The page of a table: table.json for programs, table.md for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dragoman.pipeline.passport import origin
from dragoman.system.wording import counted
from dragoman_paper.tables.cells import Result
from dragoman_paper.tables.report import Measure, TableLine, table_lines
from dragoman_paper.tables.rows import PAPER_UPDATES
from dragoman_paper.tables.runner import Request
from dragoman_paper.tables.table_files import table, write_table


def write_page(request: Request, results: Sequence[Result]) -> str:
    """Write table.json and table.md to the table's folder; returns the latter's text."""
    lines = table_lines(request, results)
    content = {
        "table": request.table.name,
        "scale": request.scale.name,
        "seeds": request.seeds,
        "signature": results[0].signature,
        "rows": [asdict(line) for line in lines],
        "passports": [
            {"row": result.row, "seed": result.seed, "minutes": result.minutes, **result.passport}
            for result in results
        ],
    }
    return write_table(request.folder, content, markdown(request, results, lines))


def markdown(request: Request, results: Sequence[Result], lines: Sequence[TableLine]) -> str:
    """The table with what it is of and how it was measured."""
    return "\n\n".join(
        [
            f"# {request.table.title} ({request.scale.name})",
            introduction(request),
            quality(lines),
            "## Details",
            details(lines),
            method(request, results),
        ]
    )


def written_lines(content: Mapping[str, Any]) -> list[TableLine]:
    """The rows of the page that a table.json has."""
    return [
        TableLine(**row | {name: Measure(**row[name]) for name in ("perplexity", "bleu")})
        for row in content["rows"]
    ]


def introduction(request: Request) -> str:
    """The text, and how the sizes are scaled."""
    scale = request.scale
    size = "The paper's sizes."
    if scale.width * scale.depth > 1:
        size = (
            f"Scaled down in proportion: the paper's d_model, d_ff, d_k and d_v are divided by "
            f"{scale.width}, its numbers of layers by {scale.depth}; heads, dropout and label smoothing are "
            "the paper's."
        )
    return (
        f"{scale.about}. {size} {scale.updates:,} updates (the paper: {PAPER_UPDATES:,}) of {scale.tokens:,} "
        f"source and {scale.tokens:,} target tokens; {scale.vocabulary:,} tokens of vocabulary; the learning "
        f"rate is {scale.learning_rate_scale:.3g} times equation 3 with {scale.warmup_steps:,} warm-up steps."
        " The second column has what differs from the first row."
    )


def quality(lines: Sequence[TableLine]) -> str:
    """Perplexity and BLEU, and their differences from the first row here and in the paper."""
    first = lines[0]
    columns = f"difference from {first.row}", "the paper's difference"
    rows = []
    for line in lines:
        cells = [line.row, line.settings]
        for measure, digits in ((line.perplexity, 2), (line.bleu, 1)):
            difference = with_spread(measure.difference, measure.difference_spread, "+")
            beside = ["", ""] if line is first else [difference, paper_difference(measure, digits)]
            cells += [with_spread(measure.mean, measure.spread), *beside]
        rows.append(cells)
    return table(["row", "what differs", "perplexity", *columns, "BLEU", *columns], rows)


def details(lines: Sequence[TableLine]) -> str:
    """Parameters, the paper's figures, verdicts, and minutes of training."""
    head = ["row", "parameters", "perplexity, paper", "verdict", "BLEU, paper", "p", "verdict", "minutes"]
    rows = []
    for line in lines:
        perplexity, score = line.perplexity, line.bleu
        millions = "" if line.paper_parameters is None else f" (paper: {line.paper_parameters} M)"
        is_first = line is lines[0]
        rows.append(
            [
                line.row,
                f"{line.parameters:,}{millions}",
                "" if perplexity.paper is None else f"{perplexity.paper:.2f}",
                "" if is_first else perplexity.verdict,
                "" if score.paper is None else f"{score.paper:.1f}",
                "" if score.p_value is None else f"{score.p_value:.3f}",
                "" if is_first else score.verdict,
                f"{line.minutes:.1f}",
            ]
        )
    return table(head, rows)


def with_spread(mean: float, spread: float | None, sign: str = "") -> str:
    """`12.34 ± 0.05`; the mean alone with one seed."""
    return f"{mean:{sign}.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def paper_difference(measure: Measure, digits: int) -> str:
    """The paper's difference from its first row."""
    return "" if measure.paper_difference is None else f"{measure.paper_difference:+.{digits}f}"


def method(request: Request, results: Sequence[Result]) -> str:
    """How to read the table, and the passport of its results."""
    origins, seeds = origin([result.passport for result in results]), counted(request.seeds, "seed")
    minutes = sum(result.minutes for result in results)
    return f"""\
- {seeds}; mean ± standard deviation. Perplexity: of a token, on validation data, without label
  smoothing; tokens and text are not the paper's, so only differences compare. The model is that of the last
  checkpoint. BLEU: of its translations by beam search as in section 6.1,
  `{results[0].signature}`.
- p: paired bootstrap resampling (1,000 samples) of the validation translations. Seed n is paired with the
  first row's seed n. Lines are resampled, each with its translations of all seeds. p says nothing of other
  seeds: the spread does.
- Differences are the mean and standard deviation of the differences from the first row, each of two runs
  with the same seed. A verdict compares the sign of the mean with that of the paper's. A difference is
  within the spread if its mean is at most its standard deviation. Of rows without any true difference, this
  rule gives a direction to 39 % with two seeds, 23 % with three and 9 % with five. The paper trained each
  row once.
- {origins}; {minutes:.0f} minutes of training in all. table.json has each cell's passport.
{left_out(request)}"""


def left_out(request: Request) -> str:
    """A line that names the complete cells in the folder that were not asked for; "" without any."""
    requested = {(row.name, f"seed-{seed}") for row in request.rows for seed in range(1, request.seeds + 1)}
    complete = [path.parts[-3:-1] for path in sorted(request.folder.glob("*/seed-*/result.json"))]
    others = [f"{row}, {seed.replace('-', ' ')}" for row, seed in complete if (row, seed) not in requested]
    if not others:
        return ""
    return f"- Not in this table, because they were not asked for: the results of {'; '.join(others)}.\n"

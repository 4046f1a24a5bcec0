"""The page of a table: table.json for programs, table.md for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from dragoman.pipeline.reproduce.cells import Result
from dragoman.pipeline.reproduce.report import Line, Measure, table_lines
from dragoman.pipeline.reproduce.rows import PAPER_UPDATES
from dragoman.pipeline.reproduce.runner import Request
from dragoman.system.files import atomic_write

COLUMNS = (
    "row",
    "settings",
    "parameters",
    "perplexity",
    "to first",
    "paper",
    "verdict",
    "BLEU",
    "to first (p)",
    "paper",
    "verdict",
    "minutes",
)


def write_page(request: Request, results: Sequence[Result]) -> str:
    """Write table.json and table.md to the table's folder; returns the latter's text."""
    lines = table_lines(request, results)
    page = markdown(request, results, lines)
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
    with atomic_write(request.folder / "table.json") as new:
        new.write_text(json.dumps(content, indent=2) + "\n")
    with atomic_write(request.folder / "table.md") as new:
        new.write_text(page, "utf-8")
    return page


def markdown(request: Request, results: Sequence[Result], lines: Sequence[Line]) -> str:
    """The table with what it is of and how it was measured."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(cells_of(line, is_first=line is lines[0]) for line in lines)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    title = f"# {request.table.title} ({request.scale.name})"
    return f"{title}\n\n{introduction(request)}\n\n{table}\n\n{method(request, results)}"


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
        " The settings column has what differs from the first row."
    )


def cells_of(line: Line, is_first: bool) -> tuple[str, ...]:
    """A row's cells."""
    parameters = f"{line.parameters:,}"
    if line.paper_parameters is not None:
        parameters += f" (paper: {line.paper_parameters} M)"
    perplexity, score = line.perplexity, line.bleu
    p = "" if score.p_value is None else f" ({score.p_value:.3f})"
    return (
        line.row,
        line.settings,
        parameters,
        with_spread(perplexity),
        "" if is_first else difference(perplexity),
        of_paper(perplexity, 2, is_first),
        "" if is_first else perplexity.verdict,
        with_spread(score),
        "" if is_first else f"{difference(score)}{p}",
        of_paper(score, 1, is_first),
        "" if is_first else score.verdict,
        f"{line.minutes:.1f}",
    )


def with_spread(measure: Measure) -> str:
    """`12.34 ± 0.05`; the mean alone with one seed."""
    spread = "" if measure.spread is None else f" ± {measure.spread:.2f}"
    return f"{measure.mean:.2f}{spread}"


def difference(measure: Measure) -> str:
    """`+0.25 ± 0.19`, to the first row; the mean alone with one seed."""
    spread = "" if measure.difference_spread is None else f" ± {measure.difference_spread:.2f}"
    return f"{measure.difference:+.2f}{spread}"


def of_paper(measure: Measure, digits: int, is_first: bool) -> str:
    """The paper's figure, and its difference to the paper's first row."""
    if measure.paper is None:
        return ""
    difference = "" if is_first else f" ({measure.paper_difference:+.{digits}f})"
    return f"{measure.paper:.{digits}f}{difference}"


def method(request: Request, results: Sequence[Result]) -> str:
    """How to read the table, and the passport of its results."""
    passports = [result.passport for result in results]
    made = {
        name: ", ".join(sorted({str(passport.get(name)) for passport in passports}))
        for name in ("commit", "date", "machine", "device", "torch")
    }
    minutes = sum(result.minutes for result in results)
    seeds = "1 seed" if request.seeds == 1 else f"{request.seeds} seeds"
    changed = " with changes" * any(passport.get("dirty") for passport in passports)
    return f"""\
- {seeds}; mean ± standard deviation. Perplexity: of a token, on validation data, without label
  smoothing; tokens and text are not the paper's, so only differences compare. The model is that of the last
  checkpoint. BLEU: of its translations by beam search as in section 6.1,
  `{results[0].signature}`.
- p: paired bootstrap resampling (1,000 samples) of the validation translations. Seed n is paired with the
  first row's seed n; the pairs of all seeds are one test set, whose lines are resampled. A line counts once
  for each seed, so that p is somewhat too small, and it says nothing of other seeds: the spread does.
- To first: the mean and standard deviation of the differences to the first row, each of two runs with the
  same seed. A verdict compares the sign of the mean with that of the paper's. A difference is within the
  spread if its mean is at most its standard deviation. The paper trained each row once.
- Commit {made["commit"]}{changed}; {made["date"]}; {made["machine"]}; {made["device"]};
  torch {made["torch"]}; {minutes:.0f} minutes of training in all. table.json has each cell's passport.
"""

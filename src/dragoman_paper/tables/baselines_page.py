"""The page of baselines: quality, speed and trials of each row, as table.json and table.md."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean
from typing import Any

from dragoman.pipeline.passport import origin
from dragoman.system.wording import counted
from dragoman_paper.tables.baselines import (
    CLIP_NORM,
    PUBLISHED,
    TITLES,
    TRIAL_SHARE,
    TRIALS,
    VALIDATIONS,
)
from dragoman_paper.tables.cells import Result
from dragoman_paper.tables.measures import Measures, minutes_to
from dragoman_paper.tables.report import VALIDATION, bootstrap_p_value, spread_of
from dragoman_paper.tables.rows import Row, describe, describe_base
from dragoman_paper.tables.runner import Request
from dragoman_paper.tables.table_files import table, write_table
from dragoman_paper.tables.tuning import Tuned

SHARE = 0.9  # of the first row's BLEU, the score to which training is timed


@dataclass(frozen=True)
class Quantity:
    """A measure of a row over its seeds."""

    values: list[float | None]
    """One a seed; None for a score that was not reached."""
    mean: float | None
    """None if a value is."""
    spread: float | None
    """The standard deviation; None with one seed."""


@dataclass(frozen=True)
class BaselineLine:
    """A row of the page."""

    row: str
    settings: str
    parameters: int
    peak: float
    """The highest learning rate, as chosen."""
    dropout: float
    quantities: dict[str, Quantity]
    p_values: dict[str, float]
    """Of `bleu` and `test_bleu` beside the first row's; empty for that."""


MEASURED: dict[str, Callable[[Result, Measures], float]] = {
    "perplexity": lambda result, _: result.perplexity,
    "bleu": lambda result, _: result.bleu,
    "chrf": lambda _, measures: measures.chrf,
    "test_bleu": lambda _, measures: measures.test_bleu,
    "test_chrf": lambda _, measures: measures.test_chrf,
    "tokens_per_second": lambda _, measures: measures.tokens_per_second,
    "training_minutes": lambda _, measures: measures.curve[-1][0],
    "sentences_per_second": lambda _, measures: measures.sentences_per_second,
    "torch_sentences_per_second": lambda _, measures: measures.torch_sentences_per_second,
}
TEXTS = {
    "bleu": VALIDATION,
    "test_bleu": ("run/test.hypotheses.txt", "run/data/test.target.txt"),
}
"""Translations and references of a score, in a cell's folder."""


def quantity(values: Sequence[float | None]) -> Quantity:
    """The values with their mean and spread."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Quantity([*values], None, None)
    return Quantity([*values], mean(known), spread_of(known))


def threshold(request: Request, tuned: Tuned) -> float:
    """The score to which training is timed: a share of the first row's last greedy BLEU, its seeds' mean."""
    first = request.rows[0].name
    return SHARE * mean(measures.curve[-1][1] for measures in tuned.measures if measures.row == first)


def page_lines(request: Request, tuned: Tuned) -> list[BaselineLine]:
    """The rows of the page, the first one first."""
    score = threshold(request, tuned)
    return [line_of(request, tuned, row, score) for row in request.rows]


def line_of(request: Request, tuned: Tuned, row: Row, score: float) -> BaselineLine:
    """One row of the page."""
    first, trial = request.rows[0], tuned.chosen[row.name]
    row_pairs = [pair for pair in zip(tuned.results, tuned.measures, strict=True) if pair[0].row == row.name]
    quantities = {
        name: quantity([measure(*pair) for pair in row_pairs]) for name, measure in MEASURED.items()
    }
    quantities["minutes_to_score"] = quantity(
        [minutes_to(score, measures.curve) for _, measures in row_pairs]
    )
    compared = {} if row is first else TEXTS
    return BaselineLine(
        row=row.name,
        settings=settings_of(request, tuned, row),
        parameters=row_pairs[0][0].parameters,
        peak=trial.peak,
        dropout=trial.dropout,
        quantities=quantities,
        p_values={name: bootstrap_p_value(request, row, *texts) for name, texts in compared.items()},
    )


def settings_of(request: Request, tuned: Tuned, row: Row) -> str:
    """The first row's sizes, or what another one changes; what was chosen has a column of its own."""
    if row is not request.rows[0]:
        return describe(row, request.scale, request.rows[0])
    model = replace(row.model, dropout=tuned.chosen[row.name].dropout)
    return describe_base(request.scale, replace(row, model=model))


def write_baselines(request: Request, tuned: Tuned) -> str:
    """Write table.json and table.md to the table's folder; returns the latter's text."""
    lines, count = page_lines(request, tuned), len(TRIALS)
    trials = [
        {
            "row": row.name,
            "peak": trial.peak,
            "dropout": trial.dropout,
            "nll": result.nll,
            "bleu": result.bleu,
        }
        for place, row in enumerate(request.rows)
        for trial, result in zip(TRIALS, tuned.trials[place * count : (place + 1) * count], strict=True)
    ]
    content = {
        "table": request.table.name,
        "scale": request.scale.name,
        "seeds": request.seeds,
        "signature": tuned.results[0].signature,
        "score": threshold(request, tuned),
        "rows": [asdict(line) for line in lines],
        "not_run": request.not_run,
        "trials": trials,
        "measures": [asdict(measures) for measures in tuned.measures],
        "passports": [
            {"row": result.row, "seed": result.seed, "minutes": result.minutes, **result.passport}
            for result in (*tuned.trials, *tuned.results)
        ],
    }
    return write_table(request.folder, content, markdown(request, tuned, lines, trials))


def written_lines(content: Mapping[str, Any]) -> list[BaselineLine]:
    """The rows of the page that a table.json has."""
    return [
        BaselineLine(
            **row | {"quantities": {name: Quantity(**values) for name, values in row["quantities"].items()}}
        )
        for row in content["rows"]
    ]


# ---- text


def markdown(
    request: Request, tuned: Tuned, lines: Sequence[BaselineLine], trials: Sequence[Mapping[str, Any]]
) -> str:
    """The page."""
    left = request.not_run
    return "\n\n".join(
        [
            f"# {request.table.title} ({request.scale.name})",
            introduction(request),
            *([f"Rows that were not run: {', '.join(left)}."] if left else []),
            models(lines),
            f"## Quality\n\n{quality(lines)}",
            f"## Speed\n\n{speed(lines, threshold(request, tuned))}",
            f"## Trials\n\n{trials_table(lines, trials)}",
            f"## Published\n\n{published()}",
            method(request, tuned),
        ]
    )


def introduction(request: Request) -> str:
    """The text, and what is the same for all rows."""
    scale = request.scale
    return (
        f"{scale.about}. The same for all rows: text, {scale.vocabulary:,} tokens of vocabulary, "
        f"{scale.updates:,} updates of {scale.tokens:,} source and {scale.tokens:,} target tokens, "
        f"{scale.warmup_steps:,} warm-up steps, equation 3, label smoothing 0.1, gradients clipped at "
        f"{CLIP_NORM:g}, {len(TRIALS)} trials, and parameters within 5 %. The settings column has what "
        "differs from the first row."
    )


def shown(quantity: Quantity, digits: int = 2, sign: str = "") -> str:
    """`12.34 ± 0.05`; the mean alone with one seed; how many seeds reached a score if not all did.

    With the sign `+`, a mean above 0 has it too.
    """
    if quantity.mean is None:
        reached = sum(value is not None for value in quantity.values)
        return f"{reached} of {len(quantity.values)} seeds reach it" if reached else "not reached"
    spread = "" if quantity.spread is None else f" ± {quantity.spread:,.{digits}f}"
    return f"{quantity.mean:{sign},.{digits}f}{spread}"


def parameters(line: BaselineLine, base: BaselineLine) -> str:
    """The number, and how far it is from the first row's."""
    share = "" if line is base else f" ({100 * (line.parameters / base.parameters - 1):+.1f} %)"
    return f"{line.parameters:,}{share}"


def differences(line: BaselineLine, base: BaselineLine, name: str) -> tuple[str, str]:
    """The difference from the first row, the mean of pairs with the same seed, and its p-value."""
    if line is base:
        return "", ""
    pairs = zip(line.quantities[name].values, base.quantities[name].values, strict=True)
    difference = quantity(
        [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]
    )
    p = line.p_values[name]
    return shown(difference, sign="+"), "< 0.001" if p < 0.001 else f"{p:.3f}"


def models(lines: Sequence[BaselineLine]) -> str:
    """Settings, and what the trials chose."""
    head = "model", "row", "settings", "peak of the learning rate", "dropout", "parameters"
    rows = [
        (
            TITLES[line.row],
            line.row,
            line.settings,
            f"{line.peak:g}",
            f"{line.dropout:g}",
            parameters(line, lines[0]),
        )
        for line in lines
    ]
    return table(head, rows)


def quality(lines: Sequence[BaselineLine]) -> str:
    """Scores of the validation and the test data."""
    base = lines[0]
    beside = f"difference from the {TITLES[base.row]}", "p"
    head = "model", "parameters", "perplexity", "BLEU", *beside, "chrF2", "test BLEU", *beside, "test chrF2"
    rows = [
        (
            TITLES[line.row],
            f"{line.parameters:,}",
            shown(line.quantities["perplexity"]),
            shown(line.quantities["bleu"]),
            *differences(line, base, "bleu"),
            shown(line.quantities["chrf"]),
            shown(line.quantities["test_bleu"]),
            *differences(line, base, "test_bleu"),
            shown(line.quantities["test_chrf"]),
        )
        for line in lines
    ]
    return table(head, rows)


def speed(lines: Sequence[BaselineLine], score: float) -> str:
    """Speeds of training and of decoding."""
    head = (
        "model",
        "peak rate chosen",
        "target tokens per second, training",
        "minutes of training",
        f"minutes to {score:.2f} BLEU",
        "sentences per second, decoding",
        "the same by PyTorch",
    )
    names = (
        ("tokens_per_second", 0),
        ("training_minutes", 1),
        ("minutes_to_score", 1),
        ("sentences_per_second", 0),
        ("torch_sentences_per_second", 0),
    )
    rows = [
        (
            TITLES[line.row],
            f"{line.peak:g}",
            *(shown(line.quantities[name], digits) for name, digits in names),
        )
        for line in lines
    ]
    return table(head, rows)


def trials_table(lines: Sequence[BaselineLine], trials: Sequence[Mapping[str, Any]]) -> str:
    """The negative log-likelihood of each trial, as table.json has them; the chosen one is bold."""
    kinds = dict.fromkeys((trial["peak"], trial["dropout"]) for trial in trials)
    losses = {(trial["row"], trial["peak"], trial["dropout"]): trial["nll"] for trial in trials}
    rows = []
    for line in lines:
        cells = [f"{losses[line.row, *kind]:.3f}" for kind in kinds]
        chosen = [*kinds].index((line.peak, line.dropout))
        cells[chosen] = f"**{cells[chosen]}**"
        rows.append([TITLES[line.row], *cells])
    return table(["model", *(f"peak {peak:g}, dropout {dropout:g}" for peak, dropout in kinds)], rows)


def published() -> str:
    """Published scores, and what cannot be compared."""
    head = "task", "recurrent", "Transformer", "difference", "source"
    rows = [
        (
            entry.task,
            f"{entry.recurrent:.2f}",
            f"{entry.transformer:.2f}",
            f"{entry.transformer - entry.recurrent:+.2f}",
            entry.source,
        )
        for entry in PUBLISHED
    ]
    note = (
        "Text, vocabulary, sizes, numbers of updates and the measure are not those of this page, and the "
        "published models have different numbers of parameters and were not tuned by an equal number of "
        "trials: the difference shows a direction, and its size cannot be compared. Domhan (2018, P18-1167) "
        "and Tang et al. (2018, D18-1458) compare the same architectures on WMT at larger sizes; none of "
        "their figures is repeated here."
    )
    return f"{table(head, rows)}\n\n{note}"


def method(request: Request, tuned: Tuned) -> str:
    """How to read the page, and the passport of its results."""
    passports = [result.passport for result in (*tuned.trials, *tuned.results)]
    threads = ", ".join(sorted({str(passport.get("threads")) for passport in passports}))
    minutes = sum(result.minutes for result in (*tuned.trials, *tuned.results))
    updates, seeds = request.scale.updates, counted(request.seeds, "seed")
    return f"""\
## Method

- {seeds}; mean ± standard deviation. Perplexity, BLEU and chrF2 are of validation data, without label
  smoothing. BLEU is of beam search as in section 6.1, `{tuned.results[0].signature}`.
- Trials: {updates // TRIAL_SHARE:,} updates with seed 1 and a warm-up in proportion; the lowest negative
  log-likelihood of the validation data decides. So short a trial favours little dropout and a high
  learning rate, in every row; a choice at the end of a range may have a better neighbour outside it.
- Trainings: {VALIDATIONS} validations; the model with the lowest validation loss is kept, or the last one
  if its perplexity is lower. Test data is translated once, with the model and settings that validation data
  chose.
- p: paired bootstrap resampling (1,000 samples). Seed n is paired with the first row's seed n. Lines are
  resampled, each with its translations of all seeds.
- Minutes leave out validations. The score to which training is timed is {100 * SHARE:.0f} % of the first
  row's last BLEU of greedy translations, interpolated between validations. Tokens a second are the median of
  the log.
- Decoding: validation data by beam search, without loading the model; C++ where it has the model (the
  paper's Transformer), else PyTorch.
- {origin(passports)}; threads: {threads}; {minutes:.0f} minutes of training in all. table.json has
  each cell's passport.
"""

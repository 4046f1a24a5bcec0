"""`dragoman reproduce`: a table of the paper, trained here and set beside the paper's figures."""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from dragoman import __version__
from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.train import run_training
from dragoman.pipeline.passport import command
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman_paper.tables.rows import Scale, Table
    from dragoman_paper.tables.runner import Request

TABLE1 = "table1: layer types: costs and path lengths; takes minutes"

MAX_SEEDS = 1_000
TABLE2 = "table2: WMT 2014, English to German and French, base and big; scales: paper (the default), multi30k"


@dataclass(frozen=True)
class Reproduce:
    """Train the rows of one of the paper's tables with several seeds, and compare them with the paper."""

    table: str | None = None
    """The table: table1, table2, table3, baselines or learning-curves."""
    list: bool = False
    """List the tables with their rows and scales."""
    scale: str = "multi30k"
    """The text and the sizes; for table2 the default is paper, the paper's
    own recipe."""
    rows: str = ""
    """Rows or groups, separated by commas, such as A,B1,D; the first row is always included, except in
    table2. The default is all."""
    seeds: int = 3
    """Runs of each row, with seeds 1, 2 and so on."""
    quick: bool = False
    """A fifth of the updates, or fewer sizes: a preview of the table, in minutes."""
    data: Path | None = None
    """The folder of the text files; the default is the scale's named dataset, or the current folder."""
    out: Path = Path("results")
    """The folder of the results: TABLE/SCALE/ROW/SEED below it."""


def reproduce(arguments: Arguments) -> None:
    """Train what is missing of a table, then write and print its page."""
    settings = settings_from(Reproduce, arguments)
    from dragoman_paper.tables.tables import TABLES

    if settings.list:
        print("\n\n".join([TABLE1, TABLE2, *(listing(table) for table in TABLES.values())]))
        return
    refuse_empty_names(arguments)
    if settings.table == "table1":
        measure_layers(settings, arguments)
        return
    if settings.table == "table2":
        train_translators(settings, arguments)
        return
    if settings.table == "table4":
        raise DragomanError(
            "Table 4 is trained by a recipe: dragoman train experiments/table4/wsj.toml --folder FOLDER. "
            "docs/parsing.md says which files it needs, and how trees are scored."
        )
    if settings.table not in TABLES:
        what = "Name a table" if settings.table is None else f"There is no table {settings.table!r}"
        raise DragomanError(
            f"{what}; there are: table1, table2, {', '.join(TABLES)}. See dragoman reproduce --list."
        )
    if not 1 <= settings.seeds <= MAX_SEEDS:
        raise DragomanError(f"--seeds is {settings.seeds}; it must be at least 1, and at most {MAX_SEEDS:,}.")
    table = TABLES[settings.table]
    scale, rows = table.scale(settings.scale), table.choose(settings.rows)
    from dragoman_paper.tables.runner import Request

    scale = scale.quick() if settings.quick else scale
    request = Request(table, scale, rows, settings.seeds, settings.out, settings.data, command(), __version__)

    def run() -> None:
        page = make_page(request)
        if page is not None:
            print(page)
            say(f"The page is {request.folder / 'table.md'}.")

    run_training(run)


def refuse_empty_names(arguments: Arguments) -> None:
    """Raise `DragomanError` if --rows has a name that is empty, which would be taken for all rows."""
    rows = arguments.get("rows")
    if rows is not None and not all(map(str.strip, rows.split(","))):
        raise DragomanError(
            f"--rows is {rows!r}, in which a name is empty; give names separated by commas, as A,B1,D, or "
            "leave it out for all rows."
        )


def make_page(request: "Request") -> str | None:
    """Run the table of a request and write its page; None in processes that torchrun has added."""
    if request.table.name == "baselines":
        from dragoman_paper.tables.baselines_page import write_baselines
        from dragoman_paper.tables.tuning import run_baselines

        return write_baselines(request, run_baselines(request))
    if request.table.name == "learning-curves":
        return curves_page(request)
    from dragoman_paper.tables.page import write_page
    from dragoman_paper.tables.runner import run_table

    results = run_table(request)
    return write_page(request, results) if len(results) == len(request.rows) * request.seeds else None


def curves_page(request: "Request") -> str | None:
    """Run the learning curves, and write their page and picture."""
    from dragoman.system.files import atomic_write
    from dragoman_paper.figures.learning_curves import Point, learning_curves
    from dragoman_paper.tables.curve_cells import run_curves
    from dragoman_paper.tables.curves_page import PICTURE, write_curves
    from dragoman_paper.tables.report import spread_of

    points = run_curves(request)
    if not all(len(point.results) == request.seeds for point in points):
        return None
    drawn = [
        Point(point.row, point.pairs, mean(point.bleu), spread_of(point.bleu) or 0.0) for point in points
    ]
    with atomic_write(request.folder / PICTURE) as path:
        path.write_text(learning_curves(drawn, request.scale.about), "utf-8")
    return write_curves(request, points)


def measure_layers(settings: Reproduce, arguments: Arguments) -> None:
    """Measure Table 1, write its page with pictures, and print the page.

    Raises `DragomanError` for options of other tables.
    """
    for name in ("scale", "rows", "seeds", "data"):
        if name in arguments:
            raise DragomanError(f"table1 is measured without training, so it has no --{name}; leave it out.")
    from dragoman_paper.figures.layer_costs import layer_pictures
    from dragoman_paper.tables.table1 import content, measure_table, write_table

    folder = settings.out / ("table1-quick" if settings.quick else "table1")
    folder.mkdir(parents=True, exist_ok=True)  # an error is told before minutes of measurements
    measured = measure_table(settings.quick)
    table = content(measured, command(), __version__)
    print(write_table(folder, measured, table, layer_pictures(table)))
    say(f"The page is {folder / 'table.md'}; its pictures are beside it.")


def train_translators(settings: Reproduce, arguments: Arguments) -> None:
    """Train what is missing of Table 2, then write and print its page."""
    for name in ("seeds", "quick"):
        if name in arguments:
            raise DragomanError(
                f"table2 is trained once, as in the paper, so it has no --{name}; leave it out. --scale "
                "multi30k tries it in minutes."
            )
    from dragoman_paper.tables.table2 import choose, rows_of

    scale = settings.scale if "scale" in arguments else "paper"
    all_rows = rows_of(scale)
    chosen = choose(all_rows, settings.rows)
    from dragoman_paper.tables.table2_page import write_page
    from dragoman_paper.tables.table2_runs import Table2Request, run_rows

    request = Table2Request(scale, all_rows, chosen, settings.out, settings.data, command(), __version__)

    def run() -> None:
        if run_rows(request):
            print(write_page(request))
            say(f"The page is {request.folder / 'table.md'}.")

    run_training(run)


def listing(table: "Table") -> str:
    """A table's rows with what they change, and its scales."""
    from dragoman_paper.tables.rows import describe, describe_base

    base, *others = table.rows
    scale = table.scales[-1]
    wide = max(len(row.name) for row in table.rows) + 2
    rows = [f"  {base.name:<{wide}}{describe_base(scale, base)}"]
    rows += [f"  {row.name:<{wide}}{describe(row, scale, base)}" for row in others]
    head = [f"{table.name}: {table.title}", f"rows, at the scale {scale.name}:"]
    return "\n".join([*head, *rows, "scales:", *map(scale_line, table.scales)])


def scale_line(scale: "Scale") -> str:
    """A scale in a line."""
    files = ", ".join(str(path) for path in scale.data.files.values())
    return f"  {scale.name:<10}{scale.about}; {scale.updates:,} updates; --data FOLDER with {files}"


COMMAND = Command(
    "reproduce",
    "Train the models of a table of the paper, row by row, and compare with its numbers.",
    reproduce,
    Reproduce,
    example="dragoman reproduce table3 --rows A,D --seeds 3 --data multi30k --out results",
    arguments="TABLE",
    positional=("table",),
    groups={"table": ("table", "list", "scale", "rows", "seeds", "quick"), "files": ("data", "out")},
    metavars={"table": "TABLE", "scale": "NAME", "rows": "NAMES", "data": "DIR", "out": "DIR"},
)

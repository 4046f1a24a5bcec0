"""The pages of results, from the JSON files of benchmarks and the rows of Table 3: no number is typed."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman_paper.paper_map.report import parameter_rows
from dragoman_paper.tables.rows import describe
from dragoman_paper.tables.table3 import TABLE3
from tools.docs.markdown import escaped, page, table, toctree

KINDS = {
    "train": "Speed of training",
    "decode": "Speed of translation",
    "sizes": "Size and speed of models",
    "serve": "Speed of the server",
    "prepare": "Preparing a corpus",
}
PASSPORT = ("date", "commit", "dirty", "machine", "device", "torch", "threads", "seconds", "versions")
LINKS = {
    "../docs/": "../../",
    "../benchmarks/README.md": "benchmarks.md",
    "../experiments/README.md": "experiments.md",
    "../experiments/lab/": "../../explanation/experiments/",
}
"""Links of the README files in the repository, and where they lead on the site."""
COPIES = {
    "benchmarks": "benchmarks/README.md",
    "experiments": "experiments/README.md",
}
INTRODUCTION = """\
The tables of measurements are made from the files in `benchmarks/results`. Each has its passport: command,
commit, date, machine and versions. The pages of experiments and benchmarks describe and compare them.
"""


def pages(root: Path) -> dict[str, str]:
    """The pages by their names; `root` is the folder of the repository."""
    names = ["experiments", "table3", "benchmarks", *KINDS, "passports"]
    files = sorted((root / "benchmarks" / "results").glob("*.json"), key=newest_first)
    return {
        "index": page("Results", INTRODUCTION, toctree(names, hidden=False)),
        "table3": table_3(),
        **{name: copied(root / path) for name, path in COPIES.items()},
        **{
            kind: page(title, *(measured(path) for path in files if path.stem.split("-")[0] == kind))
            for kind, title in KINDS.items()
        },
        "passports": passports(files),
    }


def without_log(text: str) -> str:
    """A page without links to the log, which has figures measured by hand and so is not on the site."""
    return re.sub(r"\[[^\[\]]+\]\([^()]*LOG\.md[^()]*\)", "`experiments/LOG.md`", text)


def newest_first(path: Path) -> tuple[int, str]:
    """A key to sort files by: the date in the name, the newest first."""
    (date,) = re.findall(r"\d{4}-\d\d-\d\d", path.stem)
    return -int(date.replace("-", "")), path.stem


def copied(path: Path) -> str:
    """A README of the repository, with links as on the site."""
    text = path.read_text(encoding="utf-8")
    for link, here in LINKS.items():
        text = text.replace(link, here)
    return without_log(text)


def measured(path: Path) -> str:
    """A file of results: its passport and its rows."""
    result = json.loads(path.read_text(encoding="utf-8"))
    rows = [dict(flat(row)) for row in result["rows"]]
    passport = passport_of(result)
    columns = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if name.split(": ")[0] not in PASSPORT
    ]
    return "\n\n".join(
        [
            f"## {path.stem}",
            f"```sh\n{result['command']}\n```",
            ", ".join(
                f"{name} {escaped(str(value))}" for name, value in passport.items() if value is not None
            )
            + ".",
            table(
                [escaped(name.replace("_", " ")) for name in columns],
                ([escaped(shown(row.get(name))) for name in columns] for row in rows),
            ),
        ]
    )


def passports(files: list[Path]) -> str:
    """A table of all files of results: what was run, of which commit, when, and on which machine."""
    rows = []
    for path in files:
        result = json.loads(path.read_text(encoding="utf-8"))
        passport = passport_of(result)
        origin = [escaped(str(passport[name])) for name in ("commit", "date", "machine")]
        rows.append([f"`{path.stem}`", f"`{result['command']}`", *origin])
    return page(
        "Passports of all measurements",
        "Every file in `benchmarks/results`, the newest first. The pages of benchmarks and experiments have "
        "tables that are made from them.",
        table(["file", "command", "commit", "date", "machine"], rows),
    )


def passport_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The passport of a file, which some programs write into each row; None for what it lacks."""
    rows = result.get("rows")
    first = rows[0] if isinstance(rows, list) else {}
    return {name: result.get(name, first.get(name)) for name in PASSPORT}


def flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The columns of a row; those of a table within have both names. Lists of single turns are left out."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {key}", each) for key, each in flat(value))
        elif not isinstance(value, list):
            yield name, value


def shown(value: Any) -> str:
    """A value of a table: numbers with four digits."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table_3() -> str:
    """Parameters of Table 3's rows, counted, beside the paper's figures."""
    scale, base = TABLE3.scale("paper"), TABLE3.rows[0]
    counted = {row.row: row for row in parameter_rows()}
    rows = []
    for row in TABLE3.rows:
        count = counted.get(row.name)
        figures = [f"{row.perplexity:.2f}", f"{row.bleu}", str(row.parameters or "—")]
        ours = ["—", "—"]
        if count:
            fewest, most = count.explained_by
            ours = [f"{count.ours / 1e6:.2f}", f"{fewest:,} to {most:,}"]
        rows.append([row.name, escaped(describe(row, scale, base)), *figures, *ours])
    return page(
        "Table 3: rows and parameters",
        "The rows of the paper's Table 3 as recipes (`experiments/table3`), and their parameters, counted "
        "with 37,000 tokens of vocabulary. The last column is the vocabulary with which the count rounds to "
        "the paper's figure: no single vocabulary explains all of them. [](experiments.md) has the "
        "measurements.",
        table(
            (
                "row",
                "what differs from base",
                "the paper's perplexity",
                "the paper's BLEU",
                "the paper's parameters, millions",
                "counted, millions",
                "vocabulary that explains the paper's",
            ),
            rows,
        ),
    )

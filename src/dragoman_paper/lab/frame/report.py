"""The files of a result: NAME.json, NAME.svg, NAME.md, and README.md with the verdicts of a folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.system.files import atomic_write, file_hash
from dragoman.system.readers import read_json
from dragoman_paper.lab.frame.experiment import SECTIONS, Experiment, Result, Row


def content(
    experiment: Experiment, result: Result, quick: bool, seconds: float, passport: Mapping[str, Any]
) -> dict[str, Any]:
    """What NAME.json holds."""
    return {
        "name": experiment.name,
        **vars(experiment.claim),
        "quick": quick,
        "seconds": round(seconds, 2),
        "verdict": result.verdict,
        "because": result.because,
        "tables": result.tables,
        "experiment": file_hash(experiment.path),
        "passport": passport,
    }


def write_result(folder: Path, experiment: Experiment, result: Result, record: Mapping[str, Any]) -> None:
    """Write the files of a result. NAME.json is the last: where it is, the others are.

    Raises `ValueError` for a number that JSON does not have, as NaN: an experiment writes it as text.
    """
    result.picture.name = experiment.name
    files = {
        "svg": result.picture.svg(),
        "md": markdown(experiment, record),
        "json": json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for suffix, text in files.items():
        write(folder / f"{experiment.name}.{suffix}", text)
    write(folder / "README.md", overview(folder))


def write(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as new:
        new.write_text(text, "utf-8")


def has_result(folder: Path, name: str, quick: bool) -> bool:
    """Whether the folder has a result of this experiment. A quick one does not stand for a full one."""
    path = folder / f"{name}.json"
    return path.exists() and (quick or not read_json(path)["quick"])


def markdown(experiment: Experiment, record: Mapping[str, Any]) -> str:
    """The page of a result, from what NAME.json holds: the claim and the verdict first, then the numbers."""
    claim = experiment.claim
    origin = record["passport"] | {"seconds": record["seconds"]}
    origin_lines = "\n".join(
        f"- {name}: {value}" for name, value in origin.items() if value not in ("", {}, None)
    )
    tables = "\n\n".join(f"## {title}\n\n{table(rows)}" for title, rows in record["tables"].items())
    short = "These are the numbers of the quick form.\n\n" if record["quick"] else ""
    return (
        f"# {claim.title}\n\n"
        f"Section {claim.section} of the paper, {SECTIONS[claim.section].lower()}. "
        f"Claimed by {claim.claimed_by}:\n\n> {claim.claim}\n\n"
        f"**Verdict: {record['verdict']}.** {record['because']}\n\n"
        f"## Method\n\n{experiment.method.strip()}\n\n{short}![{claim.title}]({experiment.name}.svg)\n\n"
        f"{tables}\n\n## Where the numbers come from\n\n{origin_lines}\n"
    )


def capitalised(verdict: str) -> str:
    """The verdict at the beginning of a sentence."""
    return verdict[0].upper() + verdict[1:]


def table(rows: Sequence[Row]) -> str:
    """A table in Markdown."""
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([cell(row[head]) for head in heads] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: str | int | float) -> str:
    """A cell's text: a fraction with four digits, whole from a thousand on."""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value.replace("|", "\\|")


def overview(folder: Path) -> str:
    """A table of the claims and verdicts in a folder, in the order of the paper's sections."""
    records = [read_json(path) for path in sorted(folder.glob("*.json"))]
    rows = [
        {
            "section": section,
            "claim": f"[{record['claim']}]({record['name']}.md)",
            "claimed by": record["claimed_by"],
            "verdict": record["verdict"] + (" (quick form)" if record["quick"] else ""),
        }
        for section in SECTIONS
        for record in records
        if record["section"] == section
    ]
    introduction = (
        "Each claim, who makes it, and the verdict of the experiment that tests it. Verdicts about training\n"
        "are about tiny models on synthetic tasks."
    )
    return f"# Results of the lab\n\n{introduction}\n\n{table(rows)}\n"

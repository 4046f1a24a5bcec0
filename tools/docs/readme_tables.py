"""The tables of measurements in README files and pages: `python -m tools.docs.readme_tables`.

They are made from files of results. A comment over a table names what makes it, a function of `MAKERS`, and
its files, relative to the README or page; `*` in their names is anything:

    <!-- table: students ../benchmarks/results/students-multi30k-2-2026-11-26.json -->

The table's lines under the comment are replaced. To show newer results, change the name of the file.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import tables
from dragoman_paper.tables import baselines_page, curves_page, page, table1

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "benchmarks" / "README.md", ROOT / "experiments" / "README.md")
DOCS = ROOT / "docs"
PAGES = (
    *READMES,
    DOCS / "inspection.md",
    DOCS / "inspection-compared.md",
    DOCS / "explanation" / "claims.md",
)
"""With those of the documentation, whose other tables have no measurements."""


def baseline_scores(found: dict[str, Any]) -> str:
    """Scores of the baselines."""
    return baselines_page.quality(baselines_page.written_lines(found))


def baseline_speeds(found: dict[str, Any]) -> str:
    """Their speeds."""
    return baselines_page.speed(baselines_page.written_lines(found), found["score"])


def baseline_trials(found: dict[str, Any]) -> str:
    """The trials that chose their settings."""
    return baselines_page.trials_table(baselines_page.written_lines(found), found["trials"])


def learning_curves(*found: dict[str, Any]) -> str:
    """BLEU by size of corpus, from the results of cells."""
    return curves_page.scores(curves_page.written_points(found))


def table3(found: dict[str, Any]) -> str:
    """Table 3."""
    return page.quality(page.written_lines(found))


MAKERS: dict[str, Callable[..., str]] = {
    "adaptation": tables.adaptation,
    "attributions": tables.attributions,
    "augmented_text": tables.augmented_text,
    "baseline_scores": baseline_scores,
    "baseline_speeds": baseline_speeds,
    "baseline_trials": baseline_trials,
    "beside_circuitsvis": tables.beside_circuitsvis,
    "beside_inseq": tables.beside_inseq,
    "decode": tables.decode,
    "decode_ratios": tables.decode_ratios,
    "earlier_models": tables.earlier_models,
    "gpu_train": tables.gpu_train,
    "guided_alignment": tables.guided_alignment,
    "inspections": tables.inspections,
    "learning_curves": learning_curves,
    "minutes": tables.minutes,
    "models": tables.models,
    "onnx_search": tables.onnx_search,
    "parsing": tables.parsing,
    "prepare": tables.prepare,
    "products": tables.products,
    "restricted_attention": tables.restricted_attention,
    "same_translations": tables.same_translations,
    "serve": tables.serve,
    "serve_short": tables.serve_short,
    "sizes": tables.sizes,
    "sizes_ratios": tables.sizes_ratios,
    "stop_rule_gains": tables.stop_rule_gains,
    "stop_rules": tables.stop_rules,
    "student_differences": tables.student_differences,
    "student_validation": tables.student_validation,
    "students": tables.students,
    "table1": table1.written_table,
    "table3": table3,
    "train": tables.train,
    "train_starts": tables.train_starts,
}
"""Functions from the contents of files of results to a table."""


def with_tables(text: str, folder: Path) -> str:
    """The text of a README or page with its tables made anew; `folder` is the one that it lies in.

    Raises `ValueError` if a comment names no maker, or a file that is not there.
    """

    def made(comment: re.Match[str]) -> str:
        name, *files = comment["words"].split()
        if name not in MAKERS:
            raise ValueError(f"There is no table {name!r}; there are: {', '.join(MAKERS)}.")
        contents = [content for file in files for content in written(folder, file)]
        return comment["line"] + MAKERS[name](*contents).rstrip("\n") + "\n"

    return re.sub(r"(?P<line><!-- table: (?P<words>[^>]*) -->\n)(\|.*\n)*", made, text)


def written(folder: Path, file: str) -> list[Any]:
    """The contents of the files of a name, in the order of their paths."""
    paths = sorted(folder.glob(file))
    if not paths:
        raise ValueError(f"A table is to be made of {file}, which is not in {folder.name}.")
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def main() -> None:
    """Write the tables of all README files and pages."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        path.write_text(with_tables(text, path.parent), encoding="utf-8")


if __name__ == "__main__":
    main()

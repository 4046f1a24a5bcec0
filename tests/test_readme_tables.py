"""Tables of measurements in README files and pages are those that are made from the files of results."""

import json
import re
from statistics import mean

import pytest

from benchmarks import tables
from tools.docs.readme_tables import PAGES, READMES, ROOT, with_tables

EACH = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
EACH_README = pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)


@EACH
def test_the_tables_are_those_that_are_made(path):
    text = path.read_text(encoding="utf-8")
    assert with_tables(text, path.parent) == text, "python -m tools.docs.readme_tables"


@EACH
def test_a_typed_number_is_replaced(path):
    text = path.read_text(encoding="utf-8")
    typed = re.sub(r"(?<=-->\n)(\|.*\n)+", lambda table: re.sub(r"\d", "7", table[0]), text)
    assert typed != text
    assert with_tables(typed, path.parent) == text


@EACH_README
def test_each_table_is_made(path):
    left = re.sub(r"<!-- table: [^>]*-->\n(\|.*\n)+", "", path.read_text(encoding="utf-8"))
    assert "\n| ---" not in left


SET_OR_PUBLISHED = {
    "benchmarks": {"0.1"},  # the weight of the guided loss
    "experiments": {
        "3.66",
        "27.34",
        "31.00",
        "2.99",
        "30.74",
        "33.73",
        "30.2",
        "33.89",
        "91.3",
        "90",
        "95",
        "5",
        "3.0",
        "3.11",
    },
}
"""Numbers of settings, licences, versions and other people's papers, which no file of results has."""


@EACH_README
def test_prose_has_no_measurement_that_is_in_no_table(path):
    text = re.sub(r"```.*?```|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    tables = "\n".join(re.findall(r"^\|.*$", text, re.MULTILINE))
    prose = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\d{4}-\d\d-\d\d|\d+\.\d+\.\d+", "", prose)
    measured = re.findall(r"(?<![\w.])(?:\d[\d,]*\.\d+(?![\w.])|\d+(?= ?[%×]))", prose)
    known = {*re.findall(r"\d[\d,]*(?:\.\d+)?", tables), *SET_OR_PUBLISHED[path.parent.name]}
    assert len(measured) > 3
    assert {*measured} <= known


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("sizes results/none.json", "made of results/none.json, which is not"),
        ("none", "There is no table 'none'"),
    ],
)
def test_a_comment_of_nothing_is_refused(tmp_path, comment, words):
    with pytest.raises(ValueError, match=words):
        with_tables(f"<!-- table: {comment} -->\n", tmp_path)


def test_the_results_of_the_first_readme_are_in_their_files():
    """The README rounds minutes, and of runs that were recorded by hand it leaves pauses out."""
    folder = ROOT / "experiments" / "results"
    rows = json.loads((folder / "earlier-models.json").read_text("utf-8"))["rows"]
    known = {f"{value:.2f} {name}" for row in rows for name, value in row["scores"].items()} | {
        f"{row.get('minutes_alone', row['minutes']):.0f} minutes, {row['parameters']} M parameters"
        for row in rows
        if "minutes" in row
    }
    for path in (folder / "models").iterdir():
        model = json.loads(path.read_text("utf-8"))
        known |= {tables.score_in_words(one) for row in model["rows"] for one in row["scores"]}
        minutes, parameters = model["training"]["minutes"], model["parameters"] / 1e6
        known.add(f"{minutes:.0f} minutes, {parameters:.1f} M parameters")
    shown = re.findall(r"\d+\.\d\d (?:BLEU|chrF2|% WER)|\d+ minutes, [\d.]+ M parameters", section("Results"))
    assert len(shown) > 8
    assert {*shown} <= known


def test_the_speeds_of_the_first_readme_are_in_the_tables_of_the_benchmarks():
    (table,) = re.findall(r"^\| speed:.*\n((?:\|.*\n)+)", section("Results"), re.MULTILINE)
    shown = set(re.findall(r"(?<![\w,])\d[\d,]*", table))
    benchmarks = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\|.*$", benchmarks, re.MULTILINE))
    assert len(shown) > 8
    assert shown <= {*re.findall(r"(?<![\w,])\d[\d,]*", rows)}


def test_int8_differs_from_float32_by_no_more_than_the_guide_says():
    """In the means of the seeds of all students and teachers, in BLEU of the test pairs."""
    guide = (ROOT / "docs" / "how-to" / "bad-translations.md").read_text("utf-8")
    (most,) = re.findall(r"int8 and float32 differ by at most (\S+) BLEU", guide)
    differences = []
    for path in (ROOT / "benchmarks" / "results").glob("students-*.json"):
        rows = json.loads(path.read_text("utf-8")).get("rows", [])
        means = {
            (row["model"], row["beam"], row["precision"]): mean(row["bleu"]) for row in rows if "beam" in row
        }
        for (*key, precision), score in means.items():
            if precision == "int8" and (*key, "float32") in means:
                differences.append(abs(score - means[(*key, "float32")]))
    assert len(differences) > 10
    assert round(max(differences), 1) <= float(most)


def tables_of_sections():
    """The rows of the tables in each section of experiments/README.md, by its anchor; "" is the start."""
    text = (ROOT / "experiments" / "README.md").read_text("utf-8")
    tables = {}
    for part in re.split(r"^(?=##+ )", text, flags=re.MULTILINE):
        title = re.match(r"##+ (.*)|", part)[1] or ""
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        tables[anchor] = "\n".join(re.findall(r"^\|.*$", part, re.MULTILINE))
    return tables


@pytest.mark.parametrize("page", ["distil", "backtranslate", "how-to/little-text", "tutorials/own-corpus"])
def test_scores_in_guides_are_rounded_from_the_tables_of_linked_sections(page):
    text = re.sub(
        r"(`+).*?\1", "", (ROOT / "docs" / f"{page}.md").read_text("utf-8"), flags=re.DOTALL
    )  # without commands and settings
    sentences = [each for each in re.split(r"(?<=\.)\s", text) if "BLEU" in each]
    shown = [number for each in sentences for number in re.findall(r"(?<![\w-])\d[\d,]*(?:\.\d+)?", each)]
    tables = tables_of_sections()
    linked = re.findall(r"(?:README|experiments)\.md(?:#([\w-]+))?\)", text)
    measured = {
        float(number.replace(",", ""))
        for anchor in linked
        for number in re.findall(r"\d[\d,]*(?:\.\d+)?", tables[anchor])
    }
    assert shown
    for number in shown:
        decimals = len(number.partition(".")[2])
        assert float(number.replace(",", "")) in {round(value, decimals) for value in measured}, number


def section(name):
    """The text of a section of the first README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^## {name}\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)[1]

"""The inspector page in tests: it is shown from the JSON of an inspection, and a program in it reads it."""

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dragoman.inspection.bundle import PAGE, add_module
from dragoman.inspection.contents import Contents
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.record import Array
from dragoman.inspection.report import styles
from dragoman.inspection.schema import to_json
from tests.browser import browser  # noqa: F401

ADDRESS = "http://inspector.test/"
DRIVER = Path(__file__).with_name("inspector_driver.js")
MAX_MILLISECONDS = 60_000


def document() -> str:
    """The page with its modules and the driver, which any test may call."""
    functions: dict[str, str] = {}
    for name in ("report.js", "links.js"):
        add_module(PAGE, name, functions, ())
    hurry = "window.requestAnimationFrame = (frame) => setTimeout(frame);\n"  # effects wait for no frame
    script = hurry + "const modules = {};\n" + "".join(functions.values()) + DRIVER.read_text("utf-8")
    head = f'<meta charset="utf-8"><style>{styles()}</style>'
    body = f'<div id="page"></div><script>{script}</script>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


class Inspector:
    """A page of Chromium that shows inspections."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.faults.append(line.text))

    def show(
        self,
        inspection: Inspection | dict[str, Any],
        included: Contents | None = None,
        is_live: bool = False,
        parameters: str | None = None,
        program: str = "0",
    ) -> None:
        """Show an inspection on a new page, after a program has run there.

        `parameters` are those of the address of a server's page.
        """
        table = inspection if isinstance(inspection, dict) else to_json(inspection, included)
        self.page.goto(f"{ADDRESS}?{id(table)}#{parameters or ''}")
        self.page.evaluate(program)
        options = {"isLive": is_live, "parameters": parameters}
        self.run("([table, options]) => start(table, options)", [table, options])

    def walk(self, lists: list[list[list[Any]]], points: int = 2) -> list[dict[str, Any]]:
        """What the view shows after each list of things to do."""
        return self.run("([lists, points]) => walk(lists, points)", [lists, points])

    def run(self, program: str, argument: Any = None) -> Any:
        """What a program in the page returns. As texts, large values take a small part of the time."""
        text = f"async (text) => JSON.stringify((await ({program})(JSON.parse(text))) ?? null)"
        return json.loads(self.page.evaluate(text, json.dumps(argument)))


@pytest.fixture(scope="module")
def inspector_page(browser):  # noqa: F811
    """One page for all tests of a module."""
    small = {"width": 900, "height": 150}  # less to paint
    context = browser.new_context(viewport=small, reduced_motion="reduce")
    context.set_default_timeout(MAX_MILLISECONDS)
    text = document()

    def answer(route):
        if route.request.url.startswith(ADDRESS):
            route.fulfill(body=text, content_type="text/html; charset=utf-8")
        else:
            route.abort()

    context.route("**/*", answer)
    yield Inspector(context.new_page())
    context.close()


@pytest.fixture
def inspector(inspector_page):
    """The page. Afterwards: no script has failed, and nothing was written to the console."""
    inspector_page.faults.clear()
    yield inspector_page
    assert inspector_page.faults == []


# ---- texts and numbers of the page


class Number(NamedTuple):
    """A number that a text shows with so many digits after its point. `error`: of its encoding."""

    value: float | None
    digits: int = 3
    error: float = 0.0


def number_in(text: str) -> float:
    """The number that a text of the page is."""
    return float(text.replace("−", "-").replace(",", "").replace("∞", "inf"))


def is_shown(text: str, expected: Any) -> bool:
    """Whether a text is what is expected: a `Number`, or another value as a text."""
    if not isinstance(expected, Number):
        return text == str(expected)
    value, digits, error = expected
    if value is None or value == -np.inf:
        return text == "−∞"
    pattern = r"−?[\d,]+" + (rf"\.\d{{{digits}}}" if digits else "")
    if not re.fullmatch(pattern, text):
        return False
    number = number_in(text)
    is_negative_zero = number == 0 and "−" in text
    return not is_negative_zero and abs(number - value) <= 0.51 * 10**-digits + error


def assert_rows(found: list[list[str]], expected: list[list[Any]], name: str = "") -> None:
    """The cells of a table are what is expected, and no row is missing."""
    assert len(found) == len(expected), name
    for row, (texts, values) in enumerate(zip(found, expected, strict=True)):
        wrong = [
            (text, value) for text, value in zip(texts, values, strict=True) if not is_shown(text, value)
        ]
        assert not wrong, (name, row, wrong[:3])


def assert_table(shown: dict[str, Any], title: str, head: list[Any], rows: list[list[Any]]) -> None:
    """The view has exactly one table of numbers with this title, this head and these rows."""
    tables = [(names, cells) for name, names, cells in shown["tables"] if name == title]
    assert len(tables) == 1, [name for name, _, _ in shown["tables"]]
    ((names, cells),) = tables
    assert names == [str(name) for name in head], title
    assert_rows(cells, rows, title)


def rounded(number: float, digits: int) -> str:
    """A number with so many digits after its point, as JavaScript's toFixed rounds it."""
    return str(Decimal(float(number)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def fixed(number: float, digits: int = 3) -> str:
    """A number as the page writes it, without the sign of a negative 0."""
    text = rounded(number, digits)
    return (text.replace("-", "") if float(text) == 0 else text).replace("-", "−")


def percent(share: float) -> str:
    """A share as the page writes it."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    near = 0 < share < 0.0995 or 0.995 <= share < 1
    return f"{rounded(100 * share, 1 if near else 0)} %"


def halves(array: Array) -> Array:
    """The numbers with the precision that the data have."""
    return array.astype(np.float16).astype(np.float64)


# ---- pictures


def shares_of(colours: list[list[int]], legend: dict[str, Any]) -> np.ndarray:
    """Where on the scale of a legend the colours are, 0 to 1."""
    scale = np.array(legend["colours"], float)
    distances = np.abs(np.array(colours, float)[:, None] - scale).sum(-1)
    assert distances.min(1).max() < 24, "a colour that the legend does not have"
    return distances.argmin(1) / (len(scale) - 1)


def assert_scale(legend: dict[str, Any]) -> None:
    """No colour of a scale is there twice, and its lightness has one direction, or one on each side of 0."""
    lightness = np.array(legend["colours"], float).sum(1)
    steps = np.sign(np.diff(lightness))
    turns = [place for place in range(len(steps) - 1) if steps[place] != steps[place + 1]]
    is_signed = legend["marks"][0][1].startswith("−")
    assert len(turns) == is_signed, legend["name"]
    places = [place for place, _ in legend["marks"]]
    assert places[0] == 0, legend["marks"]
    assert places[-1] == pytest.approx(100), legend["marks"]
    assert places == sorted(places)


def assert_map(found: dict[str, Any], legend: dict[str, Any] | None, **expected: Any) -> None:
    """A heat map: its names, the colour of each number, and the numbers under the pointer.

    `rows` and `columns` are the names, `corner` what they are, `values` the numbers, `shares` their places on
    the scale, and `digits` those of a number under the pointer.
    """
    rows, columns, values = expected["rows"], expected["columns"], np.asarray(expected["values"], float)
    assert (found["rows"], found["columns"]) == ([*rows], [*columns]), found["label"]
    assert found["corner"] == [f"{expected['corner'][0]} ↓", f"{expected['corner'][1]} →"]
    assert found["role"] == "img"
    if legend is not None:
        shares = shares_of(found["colours"], legend).reshape(values.shape)
        np.testing.assert_allclose(shares, expected["shares"], atol=0.016, err_msg=found["label"])
    for cell, text, marked_rows, marked_columns in found["readouts"]:
        row, column = divmod(cell, values.shape[1])
        assert (marked_rows, marked_columns) == ([row], [column])
        name, _, number = text.rpartition(":")
        assert name == f"{rows[row]} → {columns[column]}"
        digits, error = expected.get("digits", 3), expected.get("error", 0)
        assert is_shown(number.strip(), Number(values[row, column], digits, error)), (
            text,
            values[row, column],
        )
    assert found["silent"] == "Point at a cell to read its number."

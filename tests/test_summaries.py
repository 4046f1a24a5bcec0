"""Summaries that pictures and the page show: Python computes them, and the page draws them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection import report
from dragoman.inspection.analyse.summaries import (
    decisions,
    mean_norms,
    mean_shares,
    products_by_distance,
    wavelengths,
)
from dragoman.inspection.bundle import PAGE
from dragoman.inspection.contents import SizeLimits
from dragoman.model.sinusoids import sinusoid_table
from tests.browser import browser  # noqa: F401
from tests.test_report import fake_inspection, open_report, sinusoids, tab  # noqa: F401

COMPUTES = r"\.reduce\(|Math\.(?!min|max|round|floor|ceil|abs)\w+|\s\*\*\s|\s[-+*/]=\s"
"""Sums, products over lists, and functions other than those that place and round for drawing."""
ALLOWED = {
    "data.js": {".reduce(", " ** "},  # the place in an array; float16 from its bits
    "heat.js": {"Math.sqrt"},  # the scale of colours
    "numbers.js": {"Math.sqrt"},  # √d_k as a number, in the text
    "tokens.js": {"Math.exp", " += "},  # a log-probability as a probability; texts
}


def test_the_page_draws_numbers_and_computes_none():
    files = {file.name: set(re.findall(COMPUTES, file.read_text("utf-8"))) for file in PAGE.glob("*.js")}
    assert {name: found for name, found in files.items() if found} == ALLOWED


def test_products_are_those_of_all_pairs_so_far_apart():
    table = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    for distance, row in enumerate(products_by_distance(table)):
        pairs = [table[place] @ table[place + distance] for place in range(5 - distance)]
        assert row == pytest.approx([min(pairs), np.mean(pairs), max(pairs)], abs=1e-6)
    assert products_by_distance(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_the_products_of_sinusoids_depend_on_the_distance_alone():
    least, _, greatest = products_by_distance(sinusoids(40, 16)).T
    assert least == pytest.approx(greatest, abs=1e-4)


def test_shares_are_those_of_each_position_and_sum_to_one():
    random = np.random.default_rng(2)
    norms, parts = (random.uniform(1, 9, shape).astype(np.float32) for shape in ((3, 4), (2, 3, 4)))
    shares = mean_shares(norms, parts)
    assert shares.sum(1) == pytest.approx(np.ones(2))
    total = norms[1] + parts[1].sum(0)
    assert shares[1] == pytest.approx([(norms[1] / total).mean(), *(parts[1] / total).mean(1)])
    assert mean_norms(norms, parts)[0] == pytest.approx([norms[0].mean(), *parts[0].mean(1)])
    assert mean_shares(norms, parts[:0]).shape == (0, 4)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor"])
@pytest.mark.parametrize("width", [16, 15])
def test_a_dimension_repeats_after_its_wavelength(kind, width):
    periods = wavelengths(kind, width)
    table = sinusoid_table(2, width, kind)[1]
    for dimension, period in enumerate(periods):
        angle = 2 * np.pi / period
        assert min(abs(table[dimension] - np.sin(angle)), abs(table[dimension] - np.cos(angle))) < 1e-6
    assert periods.min() == pytest.approx(2 * np.pi)
    if kind == "sinusoidal":
        assert periods == pytest.approx([2 * np.pi * 10_000 ** (2 * (d // 2) / width) for d in range(width)])
    assert len(wavelengths("learned", width)) == 0


def test_a_decision_fell_where_all_layers_after_agree():
    known = fake_inspection(4, 3, 3, 2, 8)
    other = (replace(known.lens[0][0][0], token="▁other"),)
    right = [(row[0],) for row in known.lens[0]]
    lens = ((right[0], right[1], other), (right[0], other, right[2]), (right[0], right[1], other))
    assert decisions(replace(known, lens=lens)) == [1, 3, None]


def table(page, title: str) -> list[list[float]]:
    """The numbers of a table of the page."""
    numbers = page.locator(".numbers", has=page.locator(f"summary:text-is('{title}')"))
    numbers.locator("summary").click()
    numbers.locator("table").wait_for()
    rows = numbers.locator("tbody tr").all()
    return [
        [float(cell.replace("−", "-").replace(",", "")) for cell in row.locator("th, td").all_inner_texts()]
        for row in rows
    ]


def test_the_page_shows_them(open_report):  # noqa: F811
    known = fake_inspection(4, 4, 2, 2, 8)
    page = open_report(known)
    tab(page, "Positions")
    shown = np.array(table(page, "Wavelengths as a table"))
    assert shown[:, 1] == pytest.approx(wavelengths("sinusoidal", 8), rel=1e-3)
    for side, tokens in (("left", known.source), ("right", known.decoder_inputs)):
        assert page.locator(f".position-names.{side} .token").all_inner_texts() == list(tokens)
    shown = np.array(table(page, "Dot products as a table"))
    assert shown[:, 1:] == pytest.approx(products_by_distance(known.positions), abs=6e-4)
    tab(page, "Residual stream")
    stream = known.stream
    for title, summary in (("Mean norms as a table", mean_norms), ("Shares as a table", mean_shares)):
        expected = summary(stream.decoder, stream.decoder_sublayers)
        assert np.array(table(page, title))[:, 1:] == pytest.approx(expected, abs=6e-3)
    decided = page.locator(".lens [role=gridcell][aria-label*='where the decision fell']")
    places = [int(each.get_attribute("data-place")) for each in decided.all()]
    found = {place: layer for place, layer in enumerate(decisions(known)) if layer}
    assert {place % 4: place // 4 + 1 for place in places} == found


def test_steps_of_a_long_sentence_offer_the_layer_and_head_that_are_held(open_report, monkeypatch):  # noqa: F811
    monkeypatch.setattr(report, "FILE", SizeLimits(0, 0, 0, 1))
    known = fake_inspection(4, 4, 3, 2, 8)
    page = open_report(known)
    tab(page, "Decoding steps")
    options = [page.get_by_label(name).locator("option").all_inner_texts() for name in ("Layer", "Head")]
    assert options == [["3"], ["mean of all", "1"]]
    page.get_by_role("slider").fill("4")
    shown = [
        float(text) for text in page.locator(".steps table").first.locator("td:last-child").all_inner_texts()
    ]
    assert shown == pytest.approx(known.attention.decoder[2, :, 3].mean(0).tolist(), abs=1e-3)


def test_plots_have_round_ticks(open_report):  # noqa: F811
    page = open_report(fake_inspection(4, 20, 1, 2, 64))
    tab(page, "Positions")
    plot = page.get_by_role("img", name="Mean dot product of two positions by distance")
    labels = [float(each.text_content()) for each in plot.locator("text[text-anchor=end]").all()]
    steps = {round(one - other, 6) for one, other in zip(labels[1:], labels, strict=False)}
    assert len(steps) == 1
    (step,) = steps
    assert f"{step:e}"[0] in "125"
    assert f"{step:e}"[1:].startswith(".000000")
    assert 3 <= len(labels) <= 6

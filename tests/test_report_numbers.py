"""The report in Chromium: one head in numbers, words in place of tokens, and long sentences."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection import contents, report
from dragoman.inspection.analyse.statistics import head_alignments
from dragoman.inspection.analyse.steps import steps
from dragoman.inspection.record.words import by_words
from tests.browser import browser  # noqa: F401
from tests.test_head_words import pieces  # noqa: F401
from tests.test_report import (
    SOLID,
    assert_accessible,
    fake_inspection,
    hostile_inspection,
    open_report,  # noqa: F401
    open_tables,
    tab,
)

KINDS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}


def numbers_in(text: str) -> list[float]:
    return [float(each.replace("∞", "inf")) for each in text.replace("−", "-").replace("…", "").split()]


def open_head(page, kind: str, place: int):
    """The head with this place in the grid; returns its numbers."""
    tab(page, "Attention")
    page.get_by_role("button", name=KINDS[kind], exact=True).click()
    page.get_by_role("gridcell").nth(place).click()
    return page.get_by_role("region", name="One query in numbers")


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_a_query_are_those_of_the_data(open_report, kind):  # noqa: F811
    inspection = fake_inspection(6, 5, 2, 2, 16)
    shown = open_head(open_report(inspection), kind, 3)
    shown.get_by_label("Query").select_option("2")
    shown.get_by_role("button", name="All 8 numbers").click()
    one = steps(inspection, kind, 2, 2, 3)
    masked = np.where(one.allowed, one.scaled, -np.inf)
    rows = shown.locator("tbody tr")
    columns = [
        one.keys,
        *(each[:, None] for each in (one.scores, one.scaled, masked, one.weights)),
        one.values,
    ]
    expected = np.concatenate(columns, 1)
    assert rows.count() == len(expected) + 2
    for row, numbers in enumerate(expected, 1):
        found = [each for text in rows.nth(row).locator("td").all_inner_texts() for each in numbers_in(text)]
        np.testing.assert_allclose(found, numbers, atol=6e-3)
    for row, numbers in ((rows.first, one.query), (rows.last, one.output)):
        found = [each for text in row.locator("td").all_inner_texts() for each in numbers_in(text)]
        np.testing.assert_allclose(found, numbers, atol=6e-3)


def test_a_vector_has_four_numbers_until_all_are_asked_for(open_report):  # noqa: F811
    shown = open_head(open_report(fake_inspection(6, 5, 2, 2, 16)), "cross", 0)
    vector = shown.locator(".vector").nth(1)
    assert len(numbers_in(vector.inner_text())) == 4
    button = shown.get_by_role("button", name="All 8 numbers")
    button.focus()
    button.press("Enter")
    assert len(numbers_in(vector.inner_text())) == 8
    assert button.get_attribute("aria-pressed") == "true"


def test_what_a_file_has_no_room_for_is_told(open_report, monkeypatch):  # noqa: F811
    monkeypatch.setattr(report, "FILE", contents.SizeLimits(0, 0, 0, 1))
    page = open_report(fake_inspection(6, 5, 2, 2, 16))
    shown = open_head(page, "cross", 0)
    assert "head 1 of layer 2." in shown.inner_text()
    assert "dragoman inspect --layer 1 --head 1" in shown.inner_text()
    head = page.get_by_role("region", name="The head")
    assert "There is no room for its weights here." in head.inner_text()
    assert page.locator("[role=gridcell] canvas").count() == 4
    assert open_head(page, "cross", 2).locator("tbody tr").count() == 6 + 2
    assert_accessible(page)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_those_of_python(open_report, pieces, kind):  # noqa: F811
    page = open_report(pieces)
    open_head(page, kind, 4)
    page.get_by_role("button", name="Words", exact=True).click()
    head = page.get_by_role("region", name="The head")
    open_tables(head)
    words = by_words(pieces)
    weights = words.attention.of(kind)[1, 1]
    cells = [float(text) for text in head.locator(".numbers td").all_inner_texts()]
    np.testing.assert_allclose(np.reshape(cells, weights.shape), weights, atol=3e-3)
    queries = words.source if kind == "encoder" else words.target
    assert head.locator(".numbers tbody th").all_inner_texts() == [*queries]


def test_the_words_where_the_alignment_differs_are_listed(open_report, pieces):  # noqa: F811
    page = open_report(pieces)
    open_head(page, "cross", 5)
    own, links = head_alignments(pieces)[1][2], {word: source for source, word in pieces.alignment}
    others = [word for word in links if own[word] != links[word]]
    summary = page.get_by_text("Where the word alignment differs")
    assert summary.inner_text().endswith(f": {len(others)} of {len(links)} words")
    differing = page.locator("details", has=summary)
    assert page.locator(".lines .dashed").count() == len(others)
    summary.click()
    differing.locator("table").wait_for()
    names = by_words(pieces)
    expected = [[names.target[word], names.source[own[word]], names.source[links[word]]] for word in others]
    rows = [row.locator("th, td").all_inner_texts() for row in differing.locator("tbody tr").all()]
    assert rows == expected


def test_a_long_sentence_is_drawn_where_it_is_scrolled_to(open_report):  # noqa: F811
    inspection = fake_inspection(150, 140, 1, 2, 8)
    page = open_report(inspection)
    open_head(page, "cross", 0)
    window = page.locator(".window")
    assert window.locator(".row-names .token").count() == 24
    assert window.locator(".row-names .token").first.inner_text() == inspection.target[0]
    window.evaluate("area => area.scrollTo(area.scrollWidth, area.scrollHeight)")
    window.locator(".row-names .token", has_text="</s>").wait_for()
    assert window.locator(".row-names .token").last.inner_text() == "</s>"
    assert window.locator(".column-names .token").last.inner_text() == "</s>"
    box = window.locator("canvas").bounding_box()
    window.locator("canvas").hover(position={"x": box["width"] - 3, "y": box["height"] - 3})
    weight = float(window.locator(".readout").inner_text().split(":")[1])
    assert weight == pytest.approx(inspection.attention.cross[0, 0, -1, -1], abs=1e-3)


def test_the_window_scrolls_by_keyboard(open_report):  # noqa: F811
    page = open_report(fake_inspection(90, 80, 1, 2, 8))
    open_head(page, "encoder", 0)
    window = page.locator(".window")
    window.focus()
    page.keyboard.press("End")
    window.locator(".row-names .token", has_text="</s>").wait_for()


def test_long_lists_have_pages(open_report):  # noqa: F811
    inspection = fake_inspection(150, 140, 1, 2, 8)
    page = open_report(inspection)
    shown = open_head(page, "cross", 0)
    assert shown.locator("tbody tr").count() == 60 + 2
    for _ in range(2):
        shown.get_by_role("button", name="Next").click()
    assert shown.locator("tbody th .token").all_inner_texts() == [*inspection.source[120:]]
    assert shown.get_by_role("button", name="Next").is_disabled()
    alignment = page.get_by_role("region", name="Word alignment")
    alignment.get_by_role("button", name="Next").click()
    assert alignment.locator("ol").first.locator("li").count() == 60
    assert alignment.locator(SOLID).count() == 60


def test_a_long_tree_is_drawn_where_it_is_scrolled_to(open_report):  # noqa: F811
    inspection = fake_inspection(10, 150, 1, 2, 8)
    page = open_report(inspection)
    tree = page.get_by_role("tree")
    assert tree.get_by_role("treeitem").count() < len(inspection.nodes) / 2
    page.locator("[role=treeitem][tabindex='0']").focus()
    page.keyboard.press("End")
    last = page.locator(f"[data-number='{inspection.best_path[-1]}']")
    assert last.evaluate("each => each === document.activeElement")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("Number(document.activeElement.dataset.number)") == inspection.best_path[-2]
    page.locator(f"[data-number='{inspection.best_path[-1] + 1}']").wait_for()  # its neighbour


def test_a_long_sentence_is_accessible_on_a_phone(open_report):  # noqa: F811
    page = open_report(fake_inspection(150, 140, 2, 2, 16), "dark", 360)
    open_head(page, "cross", 0)
    page.get_by_role("button", name="Words", exact=True).click()
    assert_accessible(page)


def test_hostile_tokens_are_seen_in_numbers_and_words(open_report):  # noqa: F811
    inspection = hostile_inspection()
    page = open_report(replace(inspection, source_words=tuple(range(len(inspection.source)))))
    shown = open_head(page, "encoder", 0)
    text = shown.inner_text()
    for token in ("U+200B", "U+202E", "U+D800", "(empty)", "a␣b", "</script><script>alert(1)</script>"):
        assert token in text
    page.get_by_role("button", name="Words", exact=True).click()
    assert page.locator("#page img, #page script").count() == 0
    names = page.get_by_role("region", name="The head").locator(".row-names").inner_text()
    assert re.search(r"U\+200B\s+U\+202E", names)

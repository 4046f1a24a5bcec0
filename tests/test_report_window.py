"""The report's window in Chromium: which tokens, positions and steps of a long sentence are drawn."""

from dataclasses import replace

import pytest

from dragoman.inspection.views.labels import in_window
from tests.browser import browser  # noqa: F401
from tests.test_report import fake_inspection, open_report, tab  # noqa: F401

SOURCE, TARGET = 75, 66


@pytest.fixture
def page(open_report):  # noqa: F811
    """A report of a long sentence."""
    return open_report(fake_inspection(SOURCE, TARGET, 1, 2, 8))


def choose(page, first: int | str, last: int | str) -> None:
    """Give both numbers by keyboard alone."""
    page.get_by_label("from").focus()
    for number in (first, last):
        page.keyboard.press("Control+A")
        page.keyboard.type(str(number))
        page.keyboard.press("Tab")


def given(page) -> tuple[int, int]:
    return tuple(int(page.get_by_label(name, exact=True).input_value()) for name in ("from", "to"))


def test_all_views_draw_the_window(page):
    known = fake_inspection(SOURCE, TARGET, 1, 2, 8)
    choose(page, 61, 70)
    columns, rows = (in_window(count, (61, 70)) for count in (SOURCE, TARGET))

    tree = page.get_by_role("tree").get_by_role("treeitem")
    levels = {int(each.get_attribute("aria-level")) - 1 for each in tree.all()}
    assert levels == set(range(rows.start, rows.stop + 1))
    selected = page.get_by_role("tree").get_by_role("treeitem", selected=True)
    assert int(selected.get_attribute("aria-level")) - 1 == rows.start + 1, "the first step of the window"

    tab(page, "Attention")
    assert given(page) == (61, 70)
    assert page.locator(".row-names .token").all_inner_texts() == [*known.target[rows]]
    assert page.locator(".column-names .token").all_inner_texts() == [*known.source[columns]]
    page.get_by_role("button", name="Lines", exact=True).click()
    head = page.get_by_role("region", name="The head")
    assert head.locator("ol").nth(1).locator("li").all_inner_texts() == [*known.source[columns]]
    alignment = page.get_by_role("region", name="Word alignment")
    assert alignment.locator("ol").first.locator("li").count() == 10

    tab(page, "Masks")
    assert page.locator(".masks .row-names").first.locator(".token").count() == 10

    tab(page, "Positions")
    assert page.get_by_role("img", name="Position table, positions 60 to 69").count() == 1
    assert page.locator("circle.dot").count() == 10

    tab(page, "Residual stream")
    assert page.locator(".row-names .token").all_inner_texts() == ["embedding", "1"]
    assert page.locator(".column-names .token").all_inner_texts() == [*known.target[rows]]
    lens = page.get_by_role("grid", name="Logit lens")
    assert lens.get_by_role("gridcell").count() == 10

    page.get_by_role("button", name="All", exact=True).press("Enter")
    assert given(page) == (1, SOURCE)
    assert lens.get_by_role("gridcell").count() == TARGET


def test_padding_follows_the_tokens_of_the_window(page):
    known = fake_inspection(SOURCE, TARGET, 1, 2, 8)
    choose(page, 61, 70)
    tab(page, "Masks")
    page.get_by_role("slider").fill("2")
    padding = page.get_by_role("region", name="Padding: encoder-decoder attention")
    names = [padding.locator(f"{axis} .token").all_inner_texts() for axis in (".row-names", ".column-names")]
    columns, rows = (in_window(count, (61, 70)) for count in (SOURCE, TARGET))
    assert names[1] == [*known.source[columns], "PAD", "PAD"]
    assert len(names[0]) == len(range(*rows.indices(TARGET))) + 2


def test_lines_of_a_long_sentence_are_shown_by_pages(page):
    known = fake_inspection(SOURCE, TARGET, 1, 2, 8)
    source, target = (
        [token.removeprefix("▁") for token in side[:-1]] for side in (known.source, known.target)
    )
    tab(page, "Attention")
    alignment = page.get_by_role("region", name="Word alignment")
    left, right = (alignment.locator("ol").nth(side) for side in (0, 1))
    assert left.locator("li").all_inner_texts() == source[:60]
    assert right.locator("li").all_inner_texts() == target[:60]
    alignment.get_by_role("button", name="Next", exact=True).click()
    assert left.locator("li").all_inner_texts() == source[-60:]
    assert right.locator("li").all_inner_texts() == target[-60:]  # the shorter column keeps its last page
    names = [each.get_attribute("aria-label") for each in right.get_by_role("button").all()]
    assert names[-1].startswith(f"{target[-1]}: {source[len(target) - 1]} 1.00")
    assert any(name.endswith(": no line on this page") for name in names[: len(source) - len(target)])
    assert not any(name.endswith(": no line") for name in names)  # each word is aligned


@pytest.mark.long
def test_a_table_that_gets_fewer_rows_shows_its_first_ones(open_report):  # noqa: F811
    target = 400
    words = tuple(place // 4 for place in range(target))
    page = open_report(replace(fake_inspection(60, target, 1, 2, 8), target_words=words))
    tab(page, "Attention")
    table = page.locator(".numbers", has_text="Weights of layer 1, head 1 as a table")
    table.locator("summary").click()
    table.get_by_role("button", name="Next").click()
    rows = table.locator("tbody tr").count()
    page.get_by_role("button", name="Words", exact=True).click()
    assert (rows, table.locator("tbody tr").count()) == (target - 20000 // 61, target // 4)


def test_arrow_keys_stay_in_the_window(page):
    choose(page, 20, 22)
    page.locator("[role=treeitem][tabindex='0']").focus()
    level = "Number(document.activeElement.ariaLevel) - 1"
    for key, step in (("End", 22), ("Home", 19), ("ArrowLeft", 19), ("ArrowRight", 20)):
        page.keyboard.press(key)
        assert page.evaluate(level) == step


@pytest.mark.parametrize(
    ("asked", "expected"),
    [((0, 9), (1, 9)), ((70, 999), (70, SOURCE)), ((30, 10), (10, 10)), (("", "2.4"), (1, 2))],
)
def test_numbers_that_are_no_window_are_moved(page, asked, expected):
    choose(page, *asked)
    assert given(page) == expected


def test_the_form_keeps_the_focus(page):
    page.get_by_label("from").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == str(SOURCE)


def test_a_short_sentence_has_no_window(open_report):  # noqa: F811
    page = open_report(fake_inspection(6, 6, 1, 2, 8))
    assert page.get_by_role("group", name="Window").count() == 0

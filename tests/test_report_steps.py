"""The report's views of decoding steps, embeddings and training, in Chromium."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from dragoman.inspection.record.neighbours import Neighbours
from dragoman.inspection.report import to_html
from dragoman.inspection.views.drawing import visible
from dragoman.training.curves import Curve, Training, ValidationSample
from tests.browser import browser  # noqa: F401
from tests.test_report import (
    HOSTILE,
    assert_accessible,
    fake_inspection,
    hostile_inspection,
    open_report,  # noqa: F401
    open_tables,
    tab,
)

VIEWS = ["Decoding steps", "Embeddings", "Training"]
CURVES = (
    Curve("loss", "train", ((10, 7.5), (20, 5.25), (30, 4.0))),
    Curve("loss", "validation", ((15, 6.0), (30, 4.5))),
    Curve("learning rate", "train", ((10, 0.001), (20, 0.002), (30, 0.0015))),
    Curve("learning rate", "schedule", ((10, 0.001), (20, 0.002), (30, 0.0015))),
)


def complete(inspection):
    """The inspection with neighbours of its tokens and a training."""
    tokens = dict.fromkeys([*inspection.source, *inspection.target])
    near = tuple((other, 0.5 - 0.01 * place) for place, other in enumerate(list(tokens)[:8]))
    matrix = Neighbours(("source embedding", "output projection"), tuple((token, near) for token in tokens))
    sample = ValidationSample(30, inspection.sentence, inspection.translation, inspection.translation)
    return replace(inspection, neighbours=(matrix,), training=Training(CURVES, (sample,), "1 · 32^−0.5"))


@pytest.fixture
def small():
    return complete(fake_inspection(6, 6, 2, 4, 32))


THEMES = [pytest.param("light", 1280, marks=pytest.mark.long), ("dark", 360)]


@pytest.mark.parametrize(("theme", "width"), THEMES, ids=["light 1280", "dark 360"])
def test_the_views_are_accessible_and_fit_the_window(open_report, small, theme, width):  # noqa: F811
    page = open_report(small, theme, width)
    for name in VIEWS:
        tab(page, name)
        page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{name}')")
        open_tables(page)
        assert_accessible(page)


def test_hostile_texts_run_nowhere(open_report):  # noqa: F811
    page = open_report(complete(hostile_inspection()))
    for name in VIEWS:
        tab(page, name)
        open_tables(page)
    assert page.locator("#view script, #view img").count() == 0
    tab(page, "Embeddings")
    assert visible(HOSTILE[1]).replace(" ", "␣") in page.locator("#view").inner_text()


def test_the_page_shows_words_tokens_and_their_numbers(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Embeddings")
    for side, title in (("source", "Tokens of the sentence"), ("target", "Tokens of the translation")):
        rows = page.get_by_role("region", name=title).get_by_role("row").all()
        _, tokens, ids = (row.locator("td").all_inner_texts() for row in rows)
        assert tokens == list(getattr(small, side))
        assert ids == [str(number) for number in getattr(small, f"{side}_ids")]


def test_a_model_without_its_run_has_no_training(open_report, small):  # noqa: F811
    page = open_report(replace(small, training=None))
    assert page.get_by_role("tab", name="Training").count() == 0
    assert page.get_by_role("tab", name="Model").count() == 1


def shown_step(page):
    """Of the step that is shown: its name, the weights or `masked` of all keys, and the predicted token."""
    section = page.locator(".steps")
    rows = section.locator("table").first.locator("td:last-child").all_inner_texts()
    return section.get_attribute("aria-label"), rows, section.locator("b").inner_text()


def test_a_step_shows_the_weights_of_its_query_and_what_it_predicts(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Decoding steps")
    weights = small.attention.decoder.astype(np.float16).astype(np.float64)
    for step in (1, 4):
        page.get_by_role("slider").fill(str(step))
        for head, expected in (("mean of all", weights[1].mean(0)), ("3", weights[1, 2])):
            page.get_by_label("Head").select_option(label=head)
            name, rows, predicted = shown_step(page)
            assert (name, predicted) == (f"Step {step}", small.target[step - 1])
            assert rows[step:] == ["masked"] * (6 - step)
            shown = [float(row) for row in rows[:step]]
            assert shown == pytest.approx(expected[step - 1, :step].tolist(), abs=6e-4)


def test_only_the_query_is_bold_and_bars_stand_beside_their_tokens(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Decoding steps")
    page.get_by_role("slider").fill("3")
    names = page.locator(".steps table").first.locator("th")
    weights = names.evaluate_all("all => all.map((name) => getComputedStyle(name).fontWeight)")
    assert weights == ["400", "400", "700", "400", "400", "400"]
    middles = page.locator(".steps tr:has(.bar div)").evaluate_all(
        """rows => rows.map((row) => ["th", ".bar div"].map((name) => {
          const box = row.querySelector(name).getBoundingClientRect();
          return box.top + box.height / 2;
        }))"""
    )
    assert middles
    for token, bar in middles:
        assert bar == pytest.approx(token, abs=2)


def test_arrow_keys_change_the_step_from_the_slider_and_from_the_panel(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Decoding steps")
    for place in (page.get_by_role("slider"), page.locator(".steps")):
        place.focus()
        page.keyboard.press("Home")
        assert shown_step(page)[0] == "Step 1"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert shown_step(page)[0] == "Step 3"
        page.keyboard.press("ArrowLeft")
        assert shown_step(page)[0] == "Step 2"
        page.keyboard.press("End")
        assert shown_step(page)[0] == "Step 6"


def test_nothing_plays_where_reduced_motion_is_asked_for(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Decoding steps")
    assert page.get_by_role("button", name="Play").count() == 0


def test_the_steps_play_and_can_be_paused(browser, small, tmp_path):  # noqa: F811
    (tmp_path / "report.html").write_text(to_html(small), "utf-8")
    context = browser.new_context(offline=True, reduced_motion="no-preference")
    page = context.new_page()
    page.clock.install(time=datetime(2026, 1, 1))
    page.goto((tmp_path / "report.html").as_uri())
    page.clock.pause_at(datetime(2026, 1, 2))  # from here on, time passes in run_for alone
    tab(page, "Decoding steps")
    page.get_by_role("button", name="Play").click()
    for step in (2, 3):
        page.clock.run_for(1_500)
        page.wait_for_selector(f".steps[aria-label='Step {step}']")
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(9_000)
    assert shown_step(page)[0] == "Step 3"
    page.locator(".steps").press("End")
    page.get_by_role("button", name="Play").click()
    assert shown_step(page)[0] == "Step 1"  # from the last step it plays from the first
    context.close()


def test_the_curves_have_a_point_for_each_number(open_report, small):  # noqa: F811
    page = open_report(small)
    tab(page, "Training")
    lines = page.locator("polyline")
    points = [len(each.get_attribute("points").split()) for each in lines.all()]
    assert sorted(points) == sorted(len(curve.points) for curve in CURVES)
    open_tables(page)
    rows = page.locator(".numbers tbody").first.locator("tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        [str(step), curve.name, f"{value:g}"] for curve in CURVES[:2] for step, value in curve.points
    ]

"""The pages name experiments of the lab that exist, and the inspection some for each of its views."""

import re

import pytest

from dragoman.inspection.bundle import PAGE
from dragoman.serving.app import PAGE as SERVED
from lab.frame.catalogue import experiments
from tests.browser import browser  # noqa: F401

NAMES = {each.name for each in experiments()}
LISTED = dict(re.findall(r'^  "?([a-z-]+)"?: \[(.*)\],$', (PAGE / "lab.js").read_text("utf-8"), re.MULTILINE))


def test_every_view_of_an_inspection_names_experiments_that_exist():
    views = re.findall(r'^  \["([a-z-]+)", "', (PAGE / "report.js").read_text("utf-8"), re.MULTILINE)
    assert LISTED.keys() == {*views}
    for listed in LISTED.values():
        names = re.findall(r'"([a-z0-9-]+)"', listed)
        assert names
        assert {*names} <= NAMES


def test_the_page_of_the_server_names_experiments_that_exist():
    text = "".join(path.read_text("utf-8") for path in SERVED.glob("*.js"))
    names = re.findall(r"dragoman lab ([a-z0-9-]+)", text)
    assert names
    assert {*names} <= NAMES


@pytest.fixture
def report(browser, trained, tmp_path):  # noqa: F811
    from dragoman import Translator
    from dragoman.inspection.inspect import inspect

    path = tmp_path / "report.html"
    path.write_text(inspect(Translator.load(trained / "run"), "amber birch").to_html(), "utf-8")
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(path.as_uri())
    yield page
    page.close()


def test_a_view_shows_the_commands(report):
    for name, listed in LISTED.items():
        if report.locator(f"#tab-{name}").count():
            report.click(f"#tab-{name}")
            shown = report.locator(".lab code").all_inner_texts()
            assert shown == [f"dragoman lab {each}" for each in re.findall(r'"([^"]+)"', listed)]
            assert report.evaluate("document.documentElement.scrollWidth <= innerWidth")

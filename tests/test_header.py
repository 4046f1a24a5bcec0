"""The head of the inspector's and the lab's pages: the same links, and a theme that all pages keep."""

import pytest

from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import assert_accessible

PAGES = {"inspect": "Look inside", "lab/": "Lab", "lab/dot-product-variance": "Lab"}


@pytest.fixture(scope="module")
def server(trained):
    with serving(trained / "run") as running:
        yield running


@pytest.mark.short_form
def test_pages_have_one_head_with_links_that_lead_somewhere_and_one_theme(browser, server):  # noqa: F811
    context = browser.new_context(color_scheme="light", viewport={"width": 390, "height": 800})
    page, faults, heads = context.new_page(), [], []
    page.on("pageerror", lambda error: faults.append(str(error)))
    for number, (path, own) in enumerate(PAGES.items()):
        page.goto(f"{server.address}/{path}")
        button = page.get_by_role("button", name="Dark")
        button.wait_for()
        links = page.locator(".top a")
        heads.append(links.evaluate_all("(all) => all.map((link) => [link.textContent.trim(), link.href])"))
        assert page.locator(".top [aria-current=page]").all_inner_texts() == [own]
        is_dark = number % 2 == 1
        assert button.get_attribute("aria-pressed") == str(is_dark).lower()
        ground = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(ground)
        assert_accessible(page)
        button.click()
        assert page.evaluate(ground) != before
        assert_accessible(page)
    assert heads[0] == heads[1] == heads[2]
    with server.client() as client:
        for _, address in heads[0]:
            assert client.get(address).status_code == 200, address
    context.close()
    assert faults == []

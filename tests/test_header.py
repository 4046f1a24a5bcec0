"""The header of the server's pages: the same links, and a theme that all pages keep."""

import pytest

from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import assert_accessible

PAGES = {"": "Translate", "inspect": "Inspector", "lab/": "Lab", "lab/dot-product-variance": "Lab"}
LINKS = {"Dragoman": "", "Translate": "", "Inspector": "inspect", "Lab": "lab/"}


@pytest.mark.short_form
@pytest.mark.parametrize(
    ("options", "links"),
    [((), {**LINKS, "API": "docs"}), (("--url-prefix", "/mt", "--no-docs"), LINKS)],
)
def test_pages_have_one_header_with_links_that_lead_somewhere_and_one_theme(
    browser,  # noqa: F811
    trained,
    options,
    links,
):
    """The server's address ends with its prefix."""
    with serving(trained / "run", *options) as server:
        context = browser.new_context(color_scheme="light", viewport={"width": 390, "height": 800})
        page, faults = context.new_page(), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        for number, (path, own) in enumerate(PAGES.items()):
            page.goto(f"{server.address}/{path}", wait_until="networkidle")
            header = page.locator(".top")
            found = header.locator("a").evaluate_all(
                "(all) => all.map((link) => [link.innerText, link.href])"
            )
            assert found == [[name, f"{server.address}/{address}"] for name, address in links.items()]
            assert header.locator("[aria-current=page]").all_inner_texts() == [own]
            assert page.locator("h1").count() == 1
            button = header.get_by_role("button", name="Dark")
            is_dark = number % 2 == 1
            assert button.get_attribute("aria-pressed") == str(is_dark).lower()
            ground = "getComputedStyle(document.body).backgroundColor"
            before = page.evaluate(ground)
            assert_accessible(page)
            button.click()
            assert page.evaluate(ground) != before
            assert_accessible(page)
        context.close()
        with server.client() as client:
            for address in links.values():
                assert client.get(f"/{address}").status_code == 200, address
        assert faults == []

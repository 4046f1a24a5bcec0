"""The header of the server's pages: the same links, and a theme that all pages keep."""

import pytest

from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import assert_accessible

PAGES = {"": "Translate", "inspect": "Inspector", "lab/": "Lab", "lab/dot-product-variance": "Lab"}
LINKS = {"Dragoman": "", "Translate": "", "Inspector": "inspect", "Lab": "lab/"}


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
        pages = PAGES | {path: name for name, path in links.items() if path == "docs"}
        for number, (path, own) in enumerate(pages.items()):
            page.goto(f"{server.address}/{path}", wait_until="networkidle")
            header = page.locator(".top")
            header.locator("[aria-current=page]").wait_for()  # it is drawn after the page has come
            found = header.locator("a").evaluate_all(
                "(all) => all.map((link) => [link.innerText, link.href])"
            )
            assert found == [[name, f"{server.address}/{address}"] for name, address in links.items()]
            assert header.locator("[aria-current=page]").all_inner_texts() == [own]
            is_ours = path != "docs"  # below its header is Swagger UI
            assert not is_ours or page.locator("h1").count() == 1
            button = header.get_by_role("button", name="Dark")
            is_dark = number % 2 == 1
            assert button.get_attribute("aria-pressed") == str(is_dark).lower()
            ground = "getComputedStyle(document.body).backgroundColor"
            grounds = set()
            for theme_is_dark in (is_dark, not is_dark):
                if theme_is_dark != is_dark:
                    button.click()
                grounds.add(page.evaluate(ground))
                if is_ours:
                    assert_accessible(page)
                else:
                    assert page.locator("html.dark-mode").count() == theme_is_dark
            assert len(grounds) == 2
        context.close()
        with server.client() as client:
            for address in links.values():
                assert client.get(f"/{address}").status_code == 200, address
        assert faults == []

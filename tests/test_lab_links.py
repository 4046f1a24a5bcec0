"""The pages link to experiments of the lab, and the server shows their recorded results."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dragoman.inspection.bundle import PAGE
from dragoman.serving import lab
from dragoman.serving.app import PAGE as SERVED
from dragoman.serving.middleware import all_headers, is_open
from dragoman_paper.lab.frame.catalogue import experiments
from tests.browser import browser  # noqa: F401
from tools.lab_claims import claims, named

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
    names = re.findall(r'href="lab/([a-z0-9-]+)"', text)
    assert names
    assert {*names} <= NAMES


def test_the_claims_of_an_inspection_are_the_recorded_ones():
    assert (PAGE / "claims.js").read_text("utf-8") == claims()
    assert {*named()} <= NAMES


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
            assert "Verdict: " in report.locator(".lab").inner_text()
            assert not report.locator(".lab a").count()  # a file has no server that could answer
            assert report.evaluate("document.documentElement.scrollWidth <= innerWidth")


def answers(*paths):
    """What the routes of the lab answer to requests of these paths."""
    client = TestClient(Starlette(routes=lab.routes(has_docs=True)))
    return {path: client.get(path) for path in paths}


@pytest.mark.long
def test_the_server_shows_every_recorded_result_and_all_links_lead_somewhere():
    found = answers("/lab/", *(f"/lab/{name}" for name in sorted(NAMES)))
    linked = set()
    for path, answer in found.items():
        assert answer.status_code == 200, path
        assert answer.text.count("<h1>") == 1
        linked |= set(re.findall(r'(?:href|src)="([^"/.][^"/]*)"', answer.text))
    assert {f"{name}.md" for name in NAMES} | {"lab.css"} <= linked
    for path, answer in answers(*(f"/lab/{link}" for link in sorted(linked))).items():
        assert answer.status_code == 200, path
        kind = {".css": "text/css", ".svg": "image/svg+xml"}.get(path[-4:], "text/html")
        assert answer.headers["content-type"].startswith(kind)
        assert is_open(path)  # without a key
    record = found["/lab/dot-product-variance"].text
    assert "<title>Why scores are divided by √d_k</title>" in record
    assert "<strong>Verdict: holds only for the median query" in record


def test_the_policy_allows_the_styles_of_the_pictures():
    (policy,) = [value for name, value in all_headers() if name == "content-security-policy"]
    (allowed,) = re.findall(r"style-src 'self'([^;]*);", policy)
    for name, path in lab.results().items():
        for style in re.findall(r"<style>(.*?)</style>", path.read_text("utf-8"), re.DOTALL) * name.endswith(
            ".svg"
        ):
            digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in allowed.split()


class Tags(HTMLParser):
    """The elements of a document with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, attributes))


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        "</main><!--",
        "&lt;b&gt;",
        "a\"'>b",
    ],
)
def test_a_text_of_a_record_becomes_no_markup(text):
    record = "# {0}\n\n{0}\n\n| {0} |\n| --- |\n| {0} |\n"
    page, plain = (lab.page(record.format(title), has_docs=True) for title in (text, "a"))
    assert Tags(page).found == Tags(plain).found
    assert f"<title>{html.escape(text)}</title>" in page


def test_a_request_reaches_the_recorded_results_only():
    paths = ["nothing", "..%2f..%2fpyproject.toml", "README.json", "dot-product-variance.json", "%00"]
    for path, answer in answers(*(f"/lab/{path}" for path in paths)).items():
        assert answer.status_code == 404, path


def test_without_the_lab_there_are_no_pages(monkeypatch):
    monkeypatch.setattr(lab, "results", dict)
    lab.recorded_page.cache_clear()
    assert {each.status_code for each in answers("/lab/", "/lab/softmax-axis").values()} == {404}

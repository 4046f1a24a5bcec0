"""Chromium, for the tests of pages."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    """Chromium; the tests are skipped without it or without Playwright, which drives it."""
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install playwright"
    )
    with playwright.sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()

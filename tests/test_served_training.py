"""The training of a run in the server's inspections: a tab of the page for a run, and not for its model."""

import shutil
from dataclasses import asdict

from dragoman.training.curves import training_of
from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import tab


def open_inspection(browser, address, model):  # noqa: F811
    page = browser.new_context(viewport={"width": 360, "height": 900}, color_scheme="dark").new_page()
    page.goto(f"{address}/inspect#text=amber+birch&model={model}")
    page.wait_for_selector("[role=tablist]", timeout=60_000)
    return page


def test_a_served_run_shows_its_training_and_a_model_folder_does_not(browser, trained, tmp_path):  # noqa: F811
    run = tmp_path / "run"
    shutil.copytree(trained / "run", run)
    with serving(run, run / "model") as server, server.client() as client:

        def training(model, *changes):
            asked = {"text": "amber birch", "model": model, "changes": changes}
            answer = client.post("/v1/inspect", json=asked)
            assert answer.status_code == 200
            assert str(tmp_path) not in answer.text
            return answer.json()["training"]

        seen, expected = training("run"), asdict(training_of(run))
        assert seen["schedule"] == expected["schedule"]
        points = [[list(point) for point in curve["points"]] for curve in expected["curves"]]
        assert [curve["points"] for curve in seen["curves"]] == points
        assert training("run", "beam_size=1") is None
        assert training("model") is None

        page = open_inspection(browser, server.address, "run")
        tab(page, "Training")
        assert expected["schedule"].replace("^", "") in page.locator("#view").inner_text()
        assert "--show-samples" in page.locator("#view").inner_text()
        assert page.get_by_role("img", name="learning rate").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page = open_inspection(browser, server.address, "model")
        assert page.get_by_role("tab", name="Beam").count() == 1
        assert page.get_by_role("tab", name="Training").count() == 0

        # A recipe that was damaged since: the inspection is there, the reason is in the server's log alone.
        (run / "recipe.toml").write_text("[model]\n")
        assert training("run") is None
    (line,) = [line for line in server.log if "is without its training" in line]
    assert "recipe.toml has no table [training]" in line

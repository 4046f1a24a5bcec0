"""Attribution and value zeroing on the page: computed by a server at a press of a button, or recorded."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dragoman import Translator
from dragoman.inspection.analyse.attribution import attribute
from dragoman.inspection.analyse.methods import DEFAULT_METHODS
from dragoman.inspection.analyse.value_zeroing import ValueZeroing, value_zeroing
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.schema import array_from_json
from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import (  # noqa: F401
    assert_accessible,
    fake_inspection,
    open_report,
    tab,
)

TEXT = "amber birch"
MAX_MILLISECONDS = 60_000
NAMES = ["Encoder self-attention", "Decoder self-attention", "Encoder-decoder attention"]


@pytest.fixture(scope="module")
def server(trained):
    with serving(trained / "run") as running:
        yield running


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.load(trained / "run", native=False)


@pytest.fixture(
    params=[pytest.param(("light", 1280), marks=pytest.mark.long), ("dark", 360)],
    ids=["light 1280", "dark 360"],
)
def live(browser, server, request):  # noqa: F811
    """The page of the server, which inspects TEXT, and the bodies of its requests. It has no network."""
    theme, width = request.param
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
    context.set_default_timeout(MAX_MILLISECONDS)
    context.route("**/*", lambda route: route.abort())
    context.route(f"{server.address}/**", lambda route: route.continue_())
    page, faults, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: request.method == "POST" and asked.append(request.post_data_json))
    page.goto(f"{server.address}/inspect#text=amber+birch")
    page.wait_for_selector("[role=tablist]")
    yield page, asked
    assert faults == []
    context.close()


def table(page, title):
    """The names of the rows and the numbers of a table."""
    numbers = page.locator(".numbers", has_text=title)
    if not numbers.locator("table").count():
        numbers.locator("summary").click()
        numbers.locator("table").wait_for()
    cells = [each.replace("−", "-") for each in numbers.locator("td").all_inner_texts()]
    names = numbers.locator("tbody th").all_inner_texts()
    return names, np.array(cells, float).reshape(len(names), -1)


# ---- the requests


def ask(server, **options):
    with server.client() as client:
        answer = client.post("/v1/inspect", json={"text": TEXT, **options})
    return answer.status_code, answer.json()


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{}, {"contrast": True}, {"contrast": True, "target_tokens": True}], ids=str
)
def test_an_answer_has_the_attribution_that_is_asked_for(server, translator, options):
    status, answer = ask(server, attribution=True, **options)
    assert (status, answer["value_zeroing"], answer["head_effects"]) == (200, None, None)
    found, target = answer["attribution"], answer["target"]["tokens"]
    expected = attribute(
        translator,
        TEXT,
        target,
        with_prefix="target_tokens" in options,
        contrast="contrast" in options,
    )
    assert found["tokens"] == [*expected.source, *expected.prefix]
    assert found["other"] == [*expected.other]
    for method in DEFAULT_METHODS:
        np.testing.assert_allclose(array_from_json(found[method]), expected.of(method), rtol=2e-3, atol=1e-3)


@pytest.mark.long
def test_a_stream_tells_the_progress_and_ends_with_the_same_answer(server):
    with server.client() as client:
        text = client.post("/v1/inspect/stream", json={"text": TEXT, "attribution": True}).text
        alone = client.post("/v1/inspect/stream", json={"text": TEXT}).text
    events = [block.split("\n") for block in text.strip().split("\n\n")]
    *progress, end = [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events
    ]
    done = [data["done"] for name, data in progress if name == "progress"]
    assert len(done) == len(progress)
    assert done == sorted({*done})
    assert all(data["done"] <= data["total"] for _, data in progress)
    _, expected = ask(server, attribution=True)
    for answer in (end[1], expected):
        del answer["origin"]["date"]
    assert end == ("end", expected)
    assert alone.startswith("event: end\n"), "without an attribution there is no progress"


@pytest.mark.long
def test_an_answer_has_the_value_zeroing_that_is_asked_for(server, translator):
    status, answer = ask(server, value_zeroing=True)
    assert (status, answer["attribution"]) == (200, None)
    expected = value_zeroing(translator, TEXT, answer["target"]["tokens"])
    for kind in KINDS:
        found = array_from_json(answer["value_zeroing"][kind])
        np.testing.assert_allclose(found, expected.of(kind), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            {"attribution": True, "truncate": 2},
            400,
            "attribution is of the whole sentence, and with truncate 2",
        ),
        (
            {"attribution": True, "changes": ["beam_size=1"]},
            400,
            "leave changes out, or leave attribution out.",
        ),
        (
            {"value_zeroing": True, "changes": ["beam_size=1"]},
            400,
            "leave changes out, or leave value_zeroing out.",
        ),
        ({"contrast": True}, 400, "contrast needs attribution; send attribution too, or leave contrast"),
        ({"target_tokens": True}, 400, "target_tokens needs attribution; send attribution too"),
        ({"attribution": True, "text": "amber " * 50}, 413, "more than 40 tokens, which is too long for an"),
        ({"value_zeroing": True, "text": "amber " * 70}, 413, "than 60 tokens, which is too long for value"),
        (
            {"attribution": True, "prefix": "AMBER " * 42, "beam_size": 1},
            413,
            "which is too long for an attribution to tokens; send a shorter sentence, or use `dragoman",
        ),
        ({"attribution": "yes"}, 400, "attribution: it has to be a valid boolean."),
    ],
    ids=str,
)
def test_what_is_too_long_or_makes_no_sense_gets_a_sentence(server, options, status, message):
    found, answer = ask(server, **options)
    assert (found, message in answer["error"]["message"]) == (status, True), answer


# ---- the live page


def test_a_button_computes_contributions_and_another_press_a_contrast(live, translator):
    page, asked = live
    tab(page, "Attribution")
    assert_accessible(page)
    page.get_by_role("button", name="Compute contributions").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Integrated gradients").wait_for()
    target = translator.n_best([TEXT])[0][0].tokens
    expected = attribute(translator, TEXT, target)
    names, numbers = table(page, "Contributions of source tokens as a table")
    assert names == [*expected.target]
    np.testing.assert_allclose(numbers, expected.of("integrated-gradients"), rtol=2e-3, atol=1e-3)

    page.get_by_label("Contrast with the likeliest other token").press("Space")
    page.get_by_label("Also earlier target tokens").press("Space")
    page.get_by_role("button", name="Compute contributions").click()
    page.get_by_role("heading", name="Earlier target tokens").wait_for()
    assert asked[-1] == {"text": TEXT, "attribution": True, "contrast": True, "target_tokens": True}
    expected = attribute(translator, TEXT, target, with_prefix=True, contrast=True)
    size = len(expected.source)
    names, numbers = table(page, "Contributions of source tokens as a table")
    assert [name.split("≠")[1] for name in names] == [*expected.other]
    np.testing.assert_allclose(numbers, expected.of("integrated-gradients")[:, :size], rtol=2e-3, atol=1e-3)
    _, numbers = table(page, "Contributions of target tokens as a table")
    np.testing.assert_allclose(numbers, expected.of("integrated-gradients")[:, size:], rtol=2e-3, atol=1e-3)
    assert_accessible(page)

    # Other views keep what is computed.
    tab(page, "Beam")
    tab(page, "Attribution")
    assert page.get_by_role("heading", name="Earlier target tokens").count() == 1
    assert len(asked) == 3


def test_a_button_computes_value_zeroing(live, translator):
    page, asked = live
    tab(page, "Value zeroing")
    assert_accessible(page)
    page.get_by_role("button", name="Compute value zeroing").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Encoder-decoder attention, layer").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").strip() == NAMES[0]
    expected = value_zeroing(translator, TEXT, translator.n_best([TEXT])[0][0].tokens)
    for kind, name in zip(KINDS, NAMES, strict=True):
        page.get_by_role("button", name=name).click()
        _, numbers = table(page, "Value zeroing as a table")
        np.testing.assert_allclose(numbers, expected.of(kind)[-1], rtol=2e-3, atol=2e-3)
    assert_accessible(page)
    assert asked[1:] == [{"text": TEXT, "value_zeroing": True}]


def test_a_failure_is_told_and_the_button_stays(live, server):
    page, _ = live
    page.route("**/v1/inspect", lambda route: route.abort())
    tab(page, "Value zeroing")
    page.get_by_role("button", name="Compute value zeroing").click()
    page.get_by_role("alert").filter(has_text="The server cannot be reached").wait_for()
    assert_accessible(page)
    page.unroute("**/v1/inspect")
    page.get_by_role("button", name="Compute value zeroing").click()
    page.get_by_role("heading", name="Encoder-decoder attention, layer").wait_for()


# ---- the file


def test_a_file_shows_the_value_zeroing_that_it_has(open_report):  # noqa: F811
    inspection, random = fake_inspection(5, 4, 2, 2, 8), np.random.default_rng(2)
    arrays = [random.dirichlet(np.ones(shape[-1]), shape[:-1]) for shape in ((2, 5, 5), (2, 4, 4), (2, 4, 5))]
    zeroing = ValueZeroing(*(array.astype(np.float32) for array in arrays))
    page = open_report(replace(inspection, value_zeroing=zeroing), "dark", 360)
    tab(page, "Value zeroing")
    assert page.get_by_role("button", name="Compute").count() == 0
    for kind, name in zip(KINDS, NAMES, strict=True):
        page.get_by_role("button", name=name).click()
        for layer in (1, 2):
            page.get_by_role("combobox", name="Layer").select_option(str(layer))
            names, numbers = table(page, "Value zeroing as a table")
            assert names == [*(inspection.source if kind == "encoder" else inspection.target)]
            np.testing.assert_allclose(numbers, zeroing.of(kind)[layer - 1], atol=1e-3)
    assert_accessible(page)


def test_a_file_without_them_has_no_such_views(open_report):  # noqa: F811
    page = open_report(fake_inspection(5, 4, 1, 2, 8))
    for name in ("Attribution", "Value zeroing"):
        assert page.get_by_role("tab", name=name).count() == 0

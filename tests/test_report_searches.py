"""The report and the pictures of other searches than beam search, and of an LSTM and a GRU."""

import math
import re
from xml.etree import ElementTree

import pytest

from dragoman import SearchSettings
from dragoman.inspection.inspect import inspect
from dragoman.inspection.views.recurrent_pictures import LACKING
from dragoman.system.errors import DragomanError
from tests.browser import browser  # noqa: F401
from tests.conftest import MODELS
from tests.test_inspection import LINES, translator_of
from tests.test_report import assert_accessible, open_report, open_tables, tab  # noqa: F401

SEARCHES = {
    "sampling": SearchSettings(max_extra_tokens=2, temperature=1.0, top_k=9, n_best=3),
    "forced words": SearchSettings(max_extra_tokens=2, beam_size=2, force_words=("Schnee",)),
    "groups": SearchSettings(max_extra_tokens=2, beam_size=4, groups=2),
    "greedy": SearchSettings(max_extra_tokens=2, beam_size=1),
}


@pytest.fixture(scope="module")
def transformer():
    return translator_of(MODELS["transformer"])


@pytest.fixture(scope="module", params=["gru", pytest.param("lstm", marks=pytest.mark.long)])
def recurrent(request):
    return inspect(translator_of(MODELS[request.param]), LINES[0], max_extra_tokens=3)


def titles(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("title")]


# ---- pictures


@pytest.mark.parametrize("name", SEARCHES)
def test_the_picture_names_the_search_and_what_cut(transformer, name):
    found = inspect(transformer, LINES[0], SEARCHES[name])
    heading, *boxes = titles(found.svg("beam"))
    start = {
        "sampling": "Sampling: 3 samples at temperature 1.0, top 9; ",
        "forced words": "Grid beam search: beams of 2 for Schnee; ",
        "groups": "Beam search: beam 4 in 2 groups; ",
        "greedy": "Beam search: beam 1; ",
    }[name]
    assert heading.startswith(start)
    assert len(boxes) == len(found.nodes)
    cut = [node for node in found.nodes if node.cut_by is not None]
    assert sum("in its place: " in box for box in boxes) == len(cut)
    for node in cut:
        by = found.nodes[node.cut_by]
        assert any(f"in its place: {by.token}, {by.log_probability:.2f} nats" in box for box in boxes)


def test_the_picture_of_samples_has_the_probability_of_each_draw(transformer):
    found = inspect(transformer, LINES[0], SEARCHES["sampling"])
    svg = found.svg("beam")
    texts = [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
    shares = [float(text.split("p ")[1]) for text in texts if "· p " in text]
    expected = [
        next(math.exp(each.log_probability) for each in found.drawn[node.parent] if each.token == node.token)
        for node in found.nodes[1:]
    ]
    assert sorted(shares) == pytest.approx(sorted(expected), abs=0.0051)
    assert "p is the probability that a token was drawn with" in svg
    assert "drawn with" not in inspect(transformer, LINES[0], SEARCHES["greedy"]).svg("beam")


def test_the_picture_of_a_grid_has_each_hypothesis_in_its_beam(transformer):
    found = inspect(transformer, LINES[0], SEARCHES["forced words"])
    svg = found.svg("beam")
    beams = sorted(int(count) for count in re.findall(r"· (\d+) met<", svg))
    assert beams == sorted(met.tokens for met in found.met)
    whole = sum("whole words: Schnee" in title for title in titles(svg))
    assert whole == sum(met.words == ("Schnee",) for met in found.met) > 0


def test_a_recurrent_model_is_drawn(recurrent):
    svg = recurrent.svg("model")
    name = recurrent.model.architecture.upper()
    assert titles(svg)[0] == f"The {name} of this model"
    assert f"Bidirectional {name}" in svg
    for module in recurrent.modules:
        if module.name in ("encoder", "attention", "features"):
            assert f"{module.parameters:,} parameters" in svg
    lines = [title for title in titles(recurrent.svg("stream")) if "\n" in title]
    assert len(lines) == len(recurrent.stream.encoder) + len(recurrent.stream.decoder)
    assert recurrent.svg("cross").startswith("<svg")
    assert recurrent.svg("cross", layer=1, head=1, lines=True).startswith("<svg")


@pytest.mark.parametrize("view", LACKING)
def test_a_view_that_a_recurrent_model_lacks_gets_a_sentence(recurrent, view):
    name = {"lstm": "an LSTM", "gru": "a GRU"}[recurrent.model.architecture]
    with pytest.raises(DragomanError, match=f"This model is {name}, which has no .*; ask for beam, cross"):
        recurrent.svg(view)


def test_an_unknown_view_gets_a_sentence(recurrent, transformer):
    for found in (recurrent, inspect(transformer, LINES[0], SEARCHES["greedy"])):
        with pytest.raises(DragomanError, match="There is no view 'depth'; the views are beam, encoder"):
            found.svg("depth")


# ---- the page


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sampling", "drawn at temperature 1 from the 9 likeliest tokens; the likeliest is the translation."),
        ("forced words", "There is a beam for each number of forced tokens met"),
    ],
)
def test_the_page_shows_every_search(open_report, transformer, name, words):  # noqa: F811
    found = inspect(transformer, LINES[0], SEARCHES[name])
    page = open_report(found, "dark", 360)
    assert words in page.locator("#view").inner_text()
    assert page.locator("[role=treeitem]").count() == len(found.nodes)
    open_tables(page)
    assert_accessible(page)


def test_a_sample_shows_what_it_was_drawn_from(open_report, transformer):  # noqa: F811
    found = inspect(transformer, LINES[0], SEARCHES["sampling"])
    page = open_report(found)
    page.locator("[data-number='1']").click()
    (share,) = {
        math.exp(each.log_probability) for each in found.drawn[0] if each.token == found.nodes[1].token
    }
    shown = page.locator("dt:text-is('Probability with which it was drawn') + dd").inner_text()
    assert float(shown.split()[0]) == pytest.approx(100 * share, abs=0.51)
    page.locator("[data-number='0']").click()
    bars = page.locator("table.bars", has_text="Distribution from which the next token was drawn").locator(
        "tbody tr"
    )
    assert bars.count() == len(found.drawn[0])


def test_what_took_a_place_is_a_button_that_shows_it(open_report, transformer):  # noqa: F811
    found = inspect(transformer, LINES[0], max_extra_tokens=2)
    number = next(number for number, node in enumerate(found.nodes) if node.end == "no extension in the beam")
    step = 0
    parent = found.nodes[number].parent
    while parent is not None:
        parent, step = found.nodes[parent].parent, step + 1
    page = open_report(found)
    page.get_by_role("slider").fill(str(step))
    page.locator(f"[data-number='{number}']").click()
    button = page.locator("dt:text-is('What took its place') + dd button")
    button.focus()
    page.keyboard.press("Enter")
    page.mouse.move(0, 0)
    assert page.locator(f"[data-number='{found.nodes[number].cut_by}'][aria-selected=true]").count() == 1
    assert page.locator("output").inner_text().startswith(f"{step + 1} of")


def test_the_margin_of_the_translation_is_shown(open_report, transformer):  # noqa: F811
    found = inspect(transformer, LINES[0], max_extra_tokens=2)
    page = open_report(found)
    best = found.best_path[-1]
    others = [
        node.score for number, node in enumerate(found.nodes) if node.end == "finished" and number != best
    ]
    margin = found.nodes[best].score - max(others)
    words = f"The translation's score is {margin:.4f} above that of the next finished one."
    assert words in page.locator("#view").inner_text()


def test_the_page_leaves_out_what_a_recurrent_model_lacks(open_report, recurrent):  # noqa: F811
    page = open_report(recurrent, "dark", 360)
    assert page.get_by_role("tab").all_inner_texts() == [
        *["Beam", "Attention", "Embeddings", "States", "Model"]
    ]
    for name in ("Attention", "Embeddings", "States", "Model"):
        tab(page, name)
        page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{name}')")
        assert_accessible(page)
    page.get_by_role("tab", name="Model").press("ArrowRight")
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Beam"
    tab(page, "States")
    page.get_by_role("button", name="Encoder", exact=True).click()
    alone = "PyTorch returns only the states of the last encoder layer"
    assert (alone in page.locator("#view").inner_text()) == (recurrent.model.encoder_layers > 1)

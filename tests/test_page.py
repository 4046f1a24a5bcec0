"""The page of `dragoman serve` in Chromium, in both themes and at a phone's width: the long tests.

`page_url` is the address of a server with models from English to German and back. Delays, refusals and lost
connections are made in the browser, so that any server can stand there.
"""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests import page_server
from tests.browser import browser  # noqa: F401
from tests.office_files import word_file
from tests.servers import add_key, serving

long = pytest.mark.long

FILES = [
    file for folder in (page_server.PAGE, page_server.VENDOR) for file in folder.rglob("*") if file.is_file()
]
MAX_MILLISECONDS = 120_000  # then something is wrong: nothing here takes a second on an idle machine
TEXT = "The weather is lovely today. A man rides a bicycle.\n\nHello old world."

# Notes each request, what the translation's pane shows and what the screen reader is told. It delays requests
# whose body has one of the words of `delays` (milliseconds). With `deaf`, aborted requests go on.
OBSERVER = """
window.requests = []; window.shown = []; window.told = []; window.delays = {}; window.deaf = false;
const send = window.fetch;
window.fetch = async (path, options) => {
  const { body: content, signal } = options ?? {};
  const body = typeof content === "string" ? content : ""; // not of a file
  const request = { path, body: body ? JSON.parse(body) : null, time: performance.now(), signal };
  window.requests.push(request);
  const delay = Object.entries(window.delays).find(([word]) => body.includes(word))?.[1] ?? 0;
  await new Promise((resolve) => setTimeout(resolve, delay));
  return send(path, window.deaf ? { ...options, signal: undefined } : options);
};
const note = (list, text) => text !== undefined && list.at(-1) !== text && list.push(text);
new MutationObserver(() => {
  const pane = document.querySelector(".words");
  const pale = pane?.querySelector(".pale")?.textContent ?? "";
  note(window.shown, pane?.textContent.slice(0, pane.textContent.length - pale.length));
  note(window.told, document.querySelector("[aria-live]")?.textContent);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


@dataclass(frozen=True)
class View:
    """How the page is looked at."""

    theme: str
    width: int

    def __str__(self) -> str:
        return f"{self.theme} {self.width}"


WIDE, PHONE = View("light", 1280), View("dark", 360)
ALL_VIEWS = [WIDE, PHONE, View("dark", 1280), View("light", 360)]


def long_views(views: list[View]) -> list:
    return [pytest.param(view, marks=pytest.mark.long, id=str(view)) for view in views]


@pytest.fixture(scope="module")
def page_url() -> Iterator[str]:
    """The address of a running server."""
    server = page_server.start(max_age=600)
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_page(browser, page_url):  # noqa: F811
    """Opens the page in a context of its own. Afterwards: no script has failed, and nothing has met the
    content security policy.
    """
    contexts, faults = [], []

    def open_in(view: View, load: bool = True, **options: object):
        context = browser.new_context(
            color_scheme=view.theme, viewport={"width": view.width, "height": 740}, **options
        )
        contexts.append(context)
        context.set_default_timeout(MAX_MILLISECONDS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.add_init_script(OBSERVER)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: "Content Security Policy" in line.text and faults.append(line.text))
        if load:
            page.goto(page_url)
            page.wait_for_selector(".languages select:not([disabled])")
        return page

    yield open_in
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(params=long_views([WIDE, PHONE]))
def page(request, open_page):
    return open_page(request.param)


def post(page_url: str, path: str, **body: object) -> dict:
    """What the server itself answers."""
    request = urllib.request.Request(
        page_url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def translation_of(page_url: str, text: str, source: str = "en", target: str = "de", **options) -> str:
    answer = post(page_url, "v1/translate", text=text, source=source, target=target, **options)
    return answer["translations"][0]["text"]


def shows(page, text: str) -> None:
    """Waits until this is the complete translation."""
    page.wait_for_function(
        "(text) => document.querySelector('.words').textContent === text"
        " && document.querySelector('.target').ariaBusy === 'false'",
        arg=text,
    )


def translate(page, page_url: str, text: str = TEXT, **options: str) -> str:
    """Types a text and waits for its translation."""
    page.fill("textarea", text)
    expected = translation_of(page_url, text, **options)
    shows(page, expected)
    return expected


def word(page, number: int):
    return page.locator(".words [data-word]").nth(number)


def button(page, name: str):
    return page.get_by_role("button", name=name, exact=True)


def requests_to(page, path: str) -> list[dict]:
    sent = page.evaluate("requests.map(({path, body, time}) => ({path, body, time}))")
    return [one for one in sent if one["path"] == path and one["body"] is not None]


def refuse(page, status: int, message: str, headers: dict | None = None, times: int | None = None) -> None:
    """Answers requests for a translation by an error."""
    error = {"error": {"code": "test", "message": message}}
    options = {} if times is None else {"times": times}

    def answer(route) -> None:
        route.fulfill(status=status, json=error, headers=headers)

    page.route("**/v1/translate/stream", answer, **options)


def drop(page, name: str, content: bytes) -> None:
    transfer = page.evaluate_handle(
        """([name, bytes]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))], name));
          return transfer;
        }""",
        [name, content.decode("latin-1")],
    )
    for event in ("dragover", "drop"):
        page.dispatch_event(".source", event, {"dataTransfer": transfer})


# Without a browser


def test_the_page_has_no_inline_script_or_style_and_no_other_address():
    for file in FILES:
        if file.suffix not in {".html", ".js", ".css", ".svg"}:
            continue
        text = file.read_text()
        addresses = set(re.findall(r"\bhttps?://[\w./-]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}, file
        if file.suffix == ".html":
            assert not re.search(r"\son\w+=|\sstyle=|<style|<script>|javascript:", text)
        elif file.parent.name != "vendor":
            assert not re.search(r"\beval\(|new Function|innerHTML|dangerously", text), file


def test_the_vendored_module_is_the_one_that_its_readme_names():
    from hashlib import sha256

    vendor = page_server.VENDOR
    assert sha256((vendor / "preact.js").read_bytes()).hexdigest() in (vendor / "README.md").read_text()


# Translating


TYPE = """([text, key]) => {
  const area = document.querySelector("textarea");
  for (let end = 1; end <= text.length; end++) {
    area.value = text.slice(0, end);
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (key) area.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey: true, bubbles: true }));
  return [performance.now(), requests.filter(({ body }) => body).length];
}"""  # in one turn of the event loop: a busy machine makes no pause


def test_typing_sends_one_request_after_a_pause(page, page_url):
    typed, sent = page.evaluate(TYPE, ["Hello old world", ""])
    assert sent == 0
    shows(page, translation_of(page_url, "Hello old world"))
    (request,) = requests_to(page, "v1/translate/stream")
    assert request["body"]["text"] == "Hello old world"
    assert request["time"] - typed > 240


@pytest.mark.parametrize("deaf", [False, True], ids=["aborts work", "aborts are not heard"])
def test_answers_never_come_out_of_order(page, page_url, deaf):
    """Each request is faster than the one before it; also if the network does not hear of an abort."""
    texts = ["Hello world.", "Good morning.", "The old garden.", "A man rides."]
    page.evaluate(
        "(deaf) => { window.deaf = deaf; window.delays = {Hello: 3600, Good: 2400, old: 1200}; }", deaf
    )
    for text in texts:
        page.fill("textarea", text)
        page.keyboard.press("Control+Enter")
    last = translation_of(page_url, texts[-1])
    shows(page, last)
    page.wait_for_timeout(4000)  # the delayed answers have come
    assert page.inner_text(".words") == last
    aborted = page.evaluate("requests.filter(({body}) => body).map(({signal}) => signal.aborted)")
    assert len(aborted) >= len(texts)
    assert all(aborted[:-1])
    assert not aborted[-1]
    shown = page.evaluate("shown")
    assert all(last.startswith(text) for text in shown if text)


def test_a_request_in_the_middle_of_its_stream_is_aborted(page, page_url):
    page.fill("textarea", " ".join(["A man rides a bicycle along the river."] * 40))
    page.wait_for_function("() => shown.at(-1)?.length > 20")
    last = translate(page, page_url, "Hello world.")
    page.wait_for_timeout(500)
    assert page.inner_text(".words") == last


def test_the_translation_is_shown_piece_by_piece_and_told_once(page, page_url):
    whole = translate(page, page_url)
    pieces = [text for text in page.evaluate("shown") if text]
    assert len(pieces) > 2
    assert all(whole.startswith(piece) for piece in pieces)
    assert all(len(one) <= len(other) for one, other in pairwise(pieces))
    assert [text for text in page.evaluate("told") if text] == [whole]
    regions = page.locator("[aria-live], [role=status], [role=alert], [role=log]")
    assert [text.strip() for text in regions.all_text_contents()] == [whole, ""]  # of the text, of files


def test_paragraphs_are_kept(page, page_url):
    text = "\n\nHello world.\n\n\nGood morning.  The garden.\n"
    expected = translate(page, page_url, text)
    assert [len(gap) for gap in re.findall(r"\n+", expected)] == [2, 3, 1]


def test_an_emptied_text_empties_the_translation(page, page_url):
    translate(page, page_url)
    button(page, "Clear").click()
    shows(page, "")
    assert page.locator("textarea").input_value() == ""


def test_the_empty_page_offers_an_example(page, page_url):
    example = page.locator(".example button")
    text = example.inner_text()
    example.click()
    shows(page, translation_of(page_url, text))
    assert page.locator(".example").count() == 0


def test_characters_are_counted_as_people_count_them(page):
    assert page.inner_text(".count") == "0 characters"
    page.fill("textarea", "🙂")
    assert page.inner_text(".count") == "1 character"
    page.fill("textarea", "a" * 1234)
    assert page.inner_text(".count") == "1,234 characters"


def test_control_and_enter_translate_at_once(page, page_url):
    _, sent = page.evaluate(TYPE, ["Hello world.", "Enter"])
    assert sent == 1
    shows(page, translation_of(page_url, "Hello world."))
    page.wait_for_timeout(400)
    assert len(requests_to(page, "v1/translate/stream")) == 1  # the pause sends no second one


def test_escape_stops_a_translation(page, page_url):
    page.evaluate("() => { window.delays = {Hello: 2000}; }")
    page.fill("textarea", "Hello world.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".target[aria-busy=true]")
    page.keyboard.press("Escape")
    page.wait_for_selector(".target[aria-busy=false]")
    page.wait_for_timeout(2200)
    assert page.inner_text(".words") == ""


# Languages and models


def test_swapping_takes_the_translation_as_the_new_text(page, page_url):
    translated = translate(page, page_url, "Hello old world.")
    button(page, "Swap the languages").click()
    assert page.locator("textarea").input_value() == translated
    assert page.get_by_label("Language of the text").input_value() == "de"
    assert page.get_by_label("Language of the translation").input_value() == "en"
    shows(page, translation_of(page_url, translated, "de", "en"))


@long
def test_the_page_asks_for_no_more_translations_than_the_server_allows(open_page, page_url):
    page = open_page(WIDE, load=False)
    answer = {"models": page_server.MODELS, "max_n_best": 2}
    page.route("**/v1/models", lambda route: route.fulfill(json=answer))
    page.goto(page_url)
    translate(page, page_url, "Hello world.")
    button(page, "More translations").click()
    page.wait_for_selector(".others")
    body = requests_to(page, "v1/translate")[-1]["body"]
    assert (body["n_best"], body["beam_size"]) == (2, 2)


@long
def test_a_pair_without_a_way_back_cannot_be_swapped(open_page, page_url):
    page = open_page(WIDE, load=False)
    one_way = [dict(page_server.MODELS[0])]
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": one_way}))
    page.goto(page_url)
    page.wait_for_selector(".languages select:not([disabled])")
    assert button(page, "Swap the languages").is_disabled()
    assert page.inner_text(".model").startswith("Model ende")


@pytest.mark.parametrize(
    ("select", "option"),
    [("select[aria-label='Language of the text']", "de"), (".model select", "ende-big")],
    ids=["language", "model"],
)
def test_a_translation_of_before_a_change_is_not_offered(page, page_url, select, option):
    """After a change of languages or model whose request fails, the former translation cannot be copied."""
    translate(page, page_url, "Hello world.")
    refuse(page, 500, "The model has failed.")
    page.locator(select).select_option(option)
    page.wait_for_selector(".failure")
    assert button(page, "Copy").is_disabled()
    assert page.locator(".words [data-word]").count() == 0
    assert page.get_by_text("Look inside").count() == 0


def test_models_that_have_gone_are_asked_for_again(page, page_url):
    """The server was started again with other models, as a translation finds out."""
    page.locator(".model select").select_option("ende-big")
    others = [model for model in page_server.MODELS if model["name"] != "ende-big"]
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": others}))

    def answer(route):
        if route.request.post_data_json.get("model") == "ende-big":
            error = {"code": "not_found", "message": "There is no model 'ende-big'."}
            return route.fulfill(status=404, json={"error": error})
        return route.continue_()

    page.route("**/v1/translate**", answer)
    page.fill("textarea", "Hello world.")
    shows(page, translation_of(page_url, "Hello world.", "en", "de"))
    assert "ende-big" not in page.inner_text(".model")


def test_a_detected_language_is_named(page, page_url):
    page.get_by_label("Language of the text").select_option("auto")
    page.get_by_label("Language of the translation").select_option("en")
    page.fill("textarea", "Der alte Garten ist schön.")
    shows(page, translation_of(page_url, "Der alte Garten ist schön.", "de", "en"))
    assert "German (detected)" in page.inner_text(".languages")
    assert "deen" in page.inner_text(".model")
    assert requests_to(page, "v1/translate/stream")[-1]["body"]["source"] == "auto"


def test_a_model_can_be_chosen_and_is_remembered(page, page_url):
    translate(page, page_url, "Hello world.")
    page.locator(".model select").select_option("ende-big")
    page.wait_for_function("() => requests.at(-1).body?.model === 'ende-big'")
    assert "61 million parameters · int8" in page.inner_text(".model")
    page.reload()
    page.wait_for_selector(".model select")
    assert page.locator(".model select").input_value() == "ende-big"


def test_an_adapter_can_be_chosen_and_is_asked_about(page, page_url):
    models = [dict(page_server.MODELS[0], adapters=["medical"])]
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": models}))
    page.reload()
    page.locator(".model select").select_option("ende with medical")
    translate(page, page_url, "Hello world.")
    word(page, 0).click()
    page.wait_for_selector("[role=menuitem]")
    for path in ("v1/translate/stream", "v1/alternatives"):
        body = requests_to(page, path)[-1]["body"]
        assert (body["model"], body["adapter"]) == ("ende", "medical")
    assert "model=ende&adapter=medical" in page.get_attribute(".model a", "href")
    page.reload()
    page.wait_for_selector(".model select")
    assert page.locator(".model select").input_value() == "ende with medical"
    page.locator(".model select").select_option("ende")
    translate(page, page_url, "Hello world.")
    assert "adapter" not in requests_to(page, "v1/translate/stream")[-1]["body"]


# Words


def test_a_word_offers_alternatives_and_the_chosen_one_is_shown(page, page_url):
    translate(page, page_url)
    sentence = post(page_url, "v1/translate", text=TEXT, source="en", target="de")["translations"][0][
        "sentences"
    ][1]
    prefix = sentence["text"].split()[0]
    found = post(page_url, "v1/alternatives", text=sentence["source"], prefix=prefix, count=8, model="ende")
    first = page.locator('.words [data-sentence="1"][data-word="1"]')
    first.click()
    page.wait_for_selector("[role=menuitem]")
    offered = page.locator("[role=menuitem]").evaluate_all("(all) => all.map((one) => one.title)")
    assert offered == [one["text"] for one in found["alternatives"]]
    assert requests_to(page, "v1/alternatives")[-1]["body"] == {
        "model": "ende",
        "source": "en",
        "target": "de",
        "text": sentence["source"],
        "prefix": prefix,
        "count": 8,
    }
    chosen = found["alternatives"][2]["text"]
    page.locator("[role=menuitem]").nth(2).click()
    expected = translation_of(page_url, TEXT).replace(sentence["text"], chosen)
    shows(page, expected)
    page.wait_for_function("() => requests.at(-1).body.prefix !== undefined")
    assert requests_to(page, "v1/translate")[-1]["body"]["prefix"] == chosen
    assert page.locator("[role=menu]").count() == 0
    page.wait_for_timeout(200)
    shows(page, expected)
    assert (
        word(page, 0).inner_text() == expected.split()[0]
    )  # words after the changed sentence keep their place
    last = page.locator('.words [data-sentence="2"]').all_inner_texts()
    assert " ".join(last) == expected.split("\n\n")[1]


def test_alternatives_by_the_keyboard(page, page_url):
    translate(page, page_url)
    word(page, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == word(page, 1).inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=menuitem]:focus")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.querySelector('b').textContent")
    page.keyboard.press("Escape")
    assert page.locator("[role=menu]").count() == 0
    assert page.evaluate("document.activeElement.textContent") == word(page, 1).inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=menuitem]:focus")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    words = "[...document.querySelectorAll('.words [data-word]')].slice(1).map((word) => word.textContent)"
    page.wait_for_function(f"(text) => {words}.join(' ').startsWith(text)", arg=second)
    assert page.evaluate("document.activeElement.textContent") == second.split()[0]


def test_a_click_elsewhere_closes_the_alternatives(page, page_url):
    translate(page, page_url)
    word(page, 1).click()
    page.wait_for_selector("[role=menuitem]")
    page.click("footer p >> nth=0")
    page.wait_for_selector("[role=menu]", state="detached")


def test_failing_alternatives_are_a_sentence(page, page_url):
    translate(page, page_url)
    error = {"error": {"code": "deadline", "message": "The deadline has passed."}}
    page.route("**/v1/alternatives", lambda route: route.fulfill(status=504, json=error))
    word(page, 1).click()
    page.wait_for_selector("[role=menu] >> text=The deadline has passed.")


def test_the_probability_of_an_alternative_is_shown(page, page_url):
    translate(page, page_url)
    values = {"a": 0, "b": -0.7, "c": -9, "d": None}
    found = [{"text": f"Das {name} ist", "log_probability": value} for name, value in values.items()]
    page.route("**/v1/alternatives", lambda route: route.fulfill(json={"alternatives": found}))
    word(page, 1).click()
    page.wait_for_selector("[role=menuitem]")
    assert page.locator("[role=menuitem] .share").all_inner_texts() == ["100 %", "50 %", "< 1 %", "< 1 %"]


def marks(page) -> dict[str, list[str]]:
    return {name: page.locator(f".{name}").all_inner_texts() for name in ("marked", "aligned")}


def test_aligned_words_are_marked_on_both_sides(page, page_url):
    translate(page, page_url, "Hello old world. A man rides.")
    assert requests_to(page, "v1/translate") == []  # before the pointer enters
    page.hover('.words [data-sentence="1"][data-word="1"]')
    page.wait_for_selector(".mirror .aligned")
    assert marks(page) == {"marked": ["Mann"], "aligned": ["man"]}
    box = page.locator('.mirror [data-sentence="0"][data-word="2"]').bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".words .aligned")
    assert marks(page) == {"marked": ["world."], "aligned": ["Welt."]}
    page.mouse.move(0, 0)
    page.wait_for_selector(".aligned", state="detached")
    asked = requests_to(page, "v1/translate")
    assert len(asked) == 1
    assert asked[0]["body"]["alignment"] is True


def test_the_focus_and_the_caret_mark_aligned_words(page, page_url):
    translate(page, page_url, "Hello old world. A man rides.")
    word(page, 1).focus()
    page.wait_for_selector(".mirror .aligned")
    assert marks(page) == {"marked": ["alte"], "aligned": ["old"]}
    page.focus("textarea")
    page.evaluate("document.querySelector('textarea').setSelectionRange(20, 20)")
    page.wait_for_selector(".words .aligned")
    assert marks(page) == {"marked": ["man"], "aligned": ["Mann"]}


def test_a_chosen_sentence_has_its_own_alignment(page, page_url):
    translate(page, page_url, "Hello old world. A man rides.")
    word(page, 1).click()
    page.locator("[role=menuitem]").nth(1).click()
    page.wait_for_function("() => requests.at(-1).body.prefix !== undefined")
    page.mouse.move(0, 0)
    page.hover('.words [data-sentence="0"][data-word="2"]')
    page.wait_for_selector(".mirror .aligned")
    assert marks(page)["aligned"] == ["world."]


def test_more_translations_have_scores_and_can_be_chosen(page, page_url):
    translate(page, page_url)
    button(page, "More translations").click()
    page.wait_for_selector(".others")
    answer = post(page_url, "v1/translate", text=TEXT, source="en", target="de", n_best=4, beam_size=4)
    hypotheses = [one for sentence in answer["translations"][0]["sentences"] for one in sentence["n_best"]]
    assert page.locator(".others button").all_inner_texts() == [one["text"] for one in hypotheses]
    scores = page.locator(".score").all_inner_texts()
    assert scores == [f"{one['score']:.2f}".replace("-", "−") for one in hypotheses]
    page.locator(".others button").nth(1).click()
    shows(page, translation_of(page_url, TEXT).replace(hypotheses[0]["text"], hypotheses[1]["text"]))
    assert page.locator(".others button").nth(1).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.locator(".others").count() == 0


def test_how_sure_the_model_is_has_a_number_and_a_definition(page, page_url):
    from math import exp

    translate(page, page_url)
    sentences = post(page_url, "v1/translate", text=TEXT, source="en", target="de")["translations"][0][
        "sentences"
    ]
    tokens = sum(len(sentence["tokens"]) + 1 for sentence in sentences)
    mean = exp(sum(sentence["log_probability"] for sentence in sentences) / tokens)
    sure, number = page.locator(".sure button"), f"{mean:.2f}"
    assert (number in sure.inner_text()) == (page.viewport_size["width"] == WIDE.width)
    colours = "(bars) => bars.map((bar) => getComputedStyle(bar).backgroundColor)"
    bars = page.locator(".dial i").evaluate_all(colours)
    assert bars == [bars[0]] * round(5 * mean) + [bars[-1]] * (5 - round(5 * mean))
    assert bars[0] != bars[-1]
    tip = page.locator("[role=tooltip]")
    assert not tip.is_visible()
    sure.focus()
    assert tip.is_visible()
    assert f"Mean probability per token: {number}" in " ".join(tip.inner_text().split())
    page.keyboard.press("Escape")
    assert not tip.is_visible()


# Copying, files, history


def test_the_translation_is_copied(page, page_url):
    expected = translate(page, page_url)
    button(page, "Copy").click()
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == expected


def test_a_file_is_dropped_and_its_translation_downloaded(page, page_url):
    text = "Hello world.\n\nGood morning."
    drop(page, "letter.docx", text.encode())
    with page.expect_download() as download:
        button(page, "Download letter.de.docx").click()
    assert download.value.suggested_filename == "letter.de.docx"
    assert Path(download.value.path()).read_text() == translation_of(page_url, text)
    assert page.inner_text(".documents .name").strip() == "letter.docx"


def test_a_file_is_changed_beside_its_source_by_the_keyboard(page):
    drop(page, "letter.srt", b"Hello world.\nGood morning.")
    button(page, "Sentences of letter.srt").press("Enter")
    page.wait_for_selector(".sentences [data-word]")
    assert page.locator(".sentences li").all_inner_texts() == [
        "Hello world.\n\nHallo Welt.",
        "Good morning.\n\nGut Morgen.",
    ]
    page.locator(".sentences [data-word]").nth(0).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("[role=menuitem]")
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".sentences >> text=Gut wunderbar")
    assert page.evaluate("document.activeElement.textContent") == "wunderbar"
    with page.expect_download() as download:
        button(page, "Download letter.de.srt").press("Enter")
    assert Path(download.value.path()).read_text() == "Hallo Welt.\nGut wunderbar"


@long
def test_several_files_are_chosen_cancelled_and_refused(open_page, tmp_path):
    page = open_page(WIDE)
    names = ["a.po", "b.xlsx", "c.pdf"]
    for name in names:
        (tmp_path / name).write_text("Hello world.\n" * (200 if name == "b.xlsx" else 1))
    page.set_input_files("#files", [tmp_path / name for name in names])
    page.wait_for_selector("#file-1 >> text=Download")
    page.wait_for_selector("#file-2 progress[value]")
    button(page, "Cancel b.xlsx").click()
    page.wait_for_selector("#file-3 .failure >> text=c.pdf is not read, since it is a PDF.")
    assert page.locator(".documents .facts").nth(1).inner_text().endswith("cancelled")


def test_the_history_is_kept_restored_cleared_and_switched_off(page, page_url):
    for text in ("Hello", "Hello world.", "Good morning."):
        translate(page, page_url, text)
    page.reload()
    button(page, "History").click()
    shown = page.locator(".entry").all_inner_texts()
    assert [entry.split("\n")[0] for entry in shown] == [
        "Good morning.",
        "Hello world.",
    ]  # typed on: one entry
    page.locator(".entry").nth(1).click()
    shows(page, translation_of(page_url, "Hello world."))
    assert page.locator("textarea").input_value() == "Hello world."
    button(page, "Remove “Good morning.” from the history").click()
    assert page.locator(".entry").count() == 1
    button(page, "Clear the history").click()
    assert page.locator(".entry").count() == 0
    page.get_by_label("Keep a history on this device").uncheck()
    translate(page, page_url, "The garden.")
    page.reload()
    button(page, "History").click()
    assert page.inner_text(".panel").count("The history is off.") == 1
    assert page.locator(".entry").count() == 0
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "history"


@long
def test_the_history_keeps_a_text_whose_beginning_the_next_one_has(open_page, page_url):
    page = open_page(WIDE)
    translate(page, page_url, "Good morning.")
    button(page, "Clear").click()
    for text in ("Good", "Good old world."):
        translate(page, page_url, text)
    stored = "JSON.parse(localStorage.getItem('dragoman.history')).map((entry) => entry.text)"
    assert page.evaluate(stored) == ["Good old world.", "Good morning."]
    button(page, "Clear").click()
    translate(page, page_url, "Good")
    page.keyboard.press("Control+Enter")  # the same text again
    page.wait_for_selector(".target[aria-busy=true]")
    page.wait_for_selector(".target[aria-busy=false]")
    assert page.evaluate(stored) == ["Good", "Good old world.", "Good morning."]


@long
def test_the_entry_that_is_removed_is_the_one_that_is_shown(open_page, page_url):
    page = open_page(WIDE)
    translate(page, page_url, "Hello world.")
    button(page, "History").click()
    other = page.context.new_page()
    other.goto(page_url)
    translate(other, page_url, "Good morning.")
    button(page, "Remove “Hello world.” from the history").click()
    assert [entry.split("\n")[0] for entry in page.locator(".entry").all_inner_texts()] == ["Good morning."]
    button(page, "Close").click()
    assert page.evaluate("document.activeElement.id") == "history"


@long
def test_aligned_words_are_marked_for_a_caret_that_was_there_before_the_translation(open_page, page_url):
    page = open_page(WIDE)
    translate(page, page_url, "Hello world.")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".words .aligned")


@long
def test_the_word_under_the_pointer_stays_marked_when_the_alignment_comes(open_page, page_url):
    page = open_page(WIDE)
    translate(page, page_url, "Hello old world. A man rides.")
    page.hover('.words [data-sentence="0"][data-word="1"]')
    page.wait_for_selector(".mirror [data-word]")
    page.wait_for_timeout(500)  # the caret is in the text, at another word
    assert marks(page) == {"marked": ["alte"], "aligned": ["old"]}


@long
def test_each_of_two_sentences_that_are_chosen_at_once_has_its_alignment(open_page, page_url):
    page = open_page(WIDE)
    translate(page, page_url, "Hello old world. A man rides.")
    button(page, "More translations").click()
    page.wait_for_selector(".others")
    page.evaluate("() => { window.delays = {prefix: 500}; }")
    for sentence in (0, 1):
        page.locator("ol.others").nth(sentence).locator("button").nth(1).click()
    page.wait_for_selector(".sure")  # neither has scores before its answer
    for sentence in (0, 1):
        page.hover(f'.words [data-sentence="{sentence}"][data-word="1"]')
        page.wait_for_selector(f'.mirror [data-sentence="{sentence}"].aligned')


@long
def test_the_focus_stays_on_the_page_s_controls(open_page, page_url):
    page = open_page(WIDE, load=False)
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined });")
    page.goto(page_url)
    translate(page, page_url, "Hello world.")

    def focused() -> str:
        return page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent.trim()")

    button(page, "Copy").press("Enter")
    page.wait_for_selector("text=Copied")
    assert focused() == "Copied"
    for key in ("Escape", "Enter"):  # Enter: on the button "Close"
        button(page, "More translations").press("Enter")
        page.wait_for_selector(".others")
        button(page, "Close").press(key)
        assert focused() == "More translations"
    word(page, 1).press("Control+Enter")
    assert focused() == "Text to translate"
    shows(page, translation_of(page_url, "Hello world."))
    button(page, "More translations").press("Enter")
    page.wait_for_selector(".others")
    page.locator(".others button").first.press("Control+Enter")
    assert focused() == "Text to translate"
    page.route("**/v1/translate/stream", lambda route: route.abort("connectionrefused"))
    page.fill("textarea", "Good morning.")
    button(page, "Try again").press("Enter")
    assert focused() == "Text to translate"


@long
def test_the_button_of_the_theme_follows_the_system(open_page, page_url):
    page = open_page(WIDE)
    dark = button(page, "Dark")
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("button[aria-pressed=true] >> text=Dark")
    dark.click()
    assert dark.get_attribute("aria-pressed") == "false"


@long
def test_the_page_works_where_storage_is_switched_off(open_page, page_url):
    page = open_page(WIDE, load=False)
    refusal = "{ get() { throw new DOMException('', 'SecurityError'); } }"
    for storage in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{storage}', {refusal});")
    page.goto(page_url)
    translate(page, page_url, "Hello world.")
    button(page, "History").click()
    page.wait_for_selector("text=Nothing yet.")


# Errors


def test_a_busy_server_is_asked_again_after_the_time_that_it_gives(page, page_url):
    refuse(page, 429, "The queue is full.", {"Retry-After": "2"}, times=1)
    page.fill("textarea", "Hello world.")
    page.wait_for_selector("text=The server is busy. Trying again in 2 s.")
    page.wait_for_selector("text=The server is busy. Trying again in 1 s.")
    shows(page, translation_of(page_url, "Hello world."))
    assert page.locator(".failure").count() == 0
    times = [one["time"] for one in requests_to(page, "v1/translate/stream")]
    assert len(times) == 2
    assert times[1] - times[0] > 1900
    told = [text for text in page.evaluate("told") if text]
    assert told == ["The server is busy. Trying again in 2 s.", translation_of(page_url, "Hello world.")]


@pytest.mark.parametrize(("seconds", "waits"), [("3600", 60), ("-5", 1), ("soon", 1)])
def test_a_busy_server_is_asked_again_within_a_minute(page, seconds, waits):
    refuse(page, 429, "The queue is full.", {"Retry-After": seconds}, times=1)
    page.fill("textarea", "Hello world.")
    page.wait_for_selector(f"text=The server is busy. Trying again in {waits} s.")


def test_typing_does_not_hurry_a_busy_server(page, page_url):
    refuse(page, 429, "The queue is full.", {"Retry-After": "2"}, times=1)
    page.fill("textarea", "Hello")
    page.wait_for_selector("text=The server is busy.")
    page.fill("textarea", "Good morning.")
    shows(page, translation_of(page_url, "Good morning."))
    times = [one["time"] for one in requests_to(page, "v1/translate/stream")]
    assert len(times) == 2
    assert times[1] - times[0] > 1900


def hold_models(page) -> list:
    """The page's first two requests for the models, which wait for an answer."""
    held = []
    page.route("**/v1/models", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    return held


def wait_for_requests(page, held: list, count: int) -> None:
    while len(held) < count:
        page.wait_for_timeout(10)


def type_before_the_models_come(open_page, page_url):
    """A page with a text, and its two requests for the models, which wait for an answer."""
    page = open_page(WIDE, load=False)
    held = hold_models(page)
    page.goto(page_url)
    wait_for_requests(page, held, 1)
    page.fill("textarea", "Hello world.")
    wait_for_requests(page, held, 2)
    return page, held


@long
def test_a_busy_server_is_asked_again_once_after_two_refusals(open_page, page_url):
    page, held = type_before_the_models_come(open_page, page_url)
    error = {"error": {"code": "queue_full", "message": "The queue is full."}}
    for route in held:
        route.fulfill(status=429, json=error, headers={"Retry-After": "1"})
    shows(page, translation_of(page_url, "Hello world."))
    page.wait_for_timeout(2_500)  # a forgotten countdown translates again each second
    assert len(requests_to(page, "v1/translate/stream")) == 1


@long
def test_models_that_come_late_change_nothing(open_page, page_url):
    page, held = type_before_the_models_come(open_page, page_url)
    held[1].continue_()
    shows(page, translation_of(page_url, "Hello world."))
    page.get_by_label("Language of the translation").select_option("ar")
    shows(page, translation_of(page_url, "Hello world.", target="ar"))
    held[0].continue_()
    page.wait_for_timeout(500)
    shows(page, translation_of(page_url, "Hello world.", target="ar"))
    assert len(requests_to(page, "v1/translate/stream")) == 2


@long
@pytest.mark.parametrize("status", [400, 404, 413, 500, 503, 504])
def test_an_error_is_the_server_s_sentence(open_page, page_url, status):
    page = open_page(WIDE)
    refuse(page, status, "Something is not as it should be.", times=1)
    page.fill("textarea", "Hello world.")
    page.wait_for_selector(".failure >> text=Something is not as it should be.")
    again = button(page, "Try again")
    assert again.count() == (status >= 500)
    if status >= 500:
        again.click()
        shows(page, translation_of(page_url, "Hello world."))


@long
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'event: error\ndata: {"error": {"code": "x", "message": "The model has failed."}}\n\n',
            "The model has failed.",
        ),
        (
            'event: piece\ndata: {"text": "Hallo"}\n\n',
            "The connection ended before the translation was complete.",
        ),
        ("event: end\ndata: no JSON\n\n", "The server’s answer could not be read."),
    ],
    ids=["event", "end", "format"],
)
def test_a_broken_stream_is_a_sentence(open_page, page_url, body, message):
    page = open_page(WIDE)
    page.route(
        "**/v1/translate/stream",
        lambda route: route.fulfill(status=200, body=body, headers={"Content-Type": "text/event-stream"}),
        times=1,
    )
    page.fill("textarea", "Hello world.")
    page.wait_for_selector(f".failure >> text={message}")
    button(page, "Try again").click()
    shows(page, translation_of(page_url, "Hello world."))


@long
def test_a_proxy_s_error_page_is_a_sentence(open_page, page_url):
    page = open_page(WIDE)
    page.route("**/v1/translate/stream", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.fill("textarea", "Hello world.")
    page.wait_for_selector("text=The server answered with status 502.")


def test_offline_is_said_and_the_translation_resumes_afterwards(page, page_url):
    page.context.set_offline(True)
    page.fill("textarea", "Hello world.")
    page.wait_for_selector("text=You are offline. The translation will continue when the connection is back.")
    page.context.set_offline(False)
    shows(page, translation_of(page_url, "Hello world."))


def test_a_server_that_is_gone_is_said(page):
    page.route("**/v1/translate/stream", lambda route: route.abort("connectionrefused"))
    page.fill("textarea", "Hello world.")
    message = "The server cannot be reached. Is “dragoman serve” still running?"
    page.wait_for_selector(f"text={message}")
    button(page, "Try again").click()
    page.wait_for_function("(message) => told.filter((text) => text === message).length === 2", arg=message)


@pytest.mark.parametrize("view", long_views([WIDE, PHONE]))
def test_the_field_for_a_key_appears_after_a_refusal_only(open_page, page_url, view):
    page = open_page(view, load=False)
    refusal = {"error": {"code": "key", "message": "This server needs an API key."}}

    def guard(route):
        allowed = route.request.headers.get("authorization") == "Bearer secret"
        route.continue_() if allowed else route.fulfill(status=403, json=refusal)

    page.goto(page_url)
    page.wait_for_selector(".languages select:not([disabled])")
    assert page.locator("#key").count() == 0
    page.route("**/v1/**", guard)
    page.reload()
    page.fill("#key", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector(".key .failure >> text=The server does not know this key.")
    assert_accessible(page)
    page.fill("#key", "secret\u200b")  # as it may be pasted
    page.keyboard.press("Enter")
    page.wait_for_selector(".failure >> text=This is no key")
    page.fill("#key", "secret")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key", state="detached")
    page.fill("textarea", "Hello world.")
    shows(page, translation_of(page_url, "Hello world."))


@long
def test_a_server_without_models_is_said(open_page, page_url):
    page = open_page(WIDE, load=False)
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": []}))
    page.goto(page_url)
    page.wait_for_selector("text=The server has no model loaded.")


# Themes, widths, scripts, assistive technology


def assert_accessible(page) -> None:
    """axe-core finds nothing, and nothing is wider than the window."""
    axe = pytest.importorskip("axe_core_python.base", reason="axe is missing: pip install axe-core-python")
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("view", long_views(ALL_VIEWS))
def test_every_state_is_accessible_and_fits_the_window(open_page, page_url, view):
    page = open_page(view)
    assert_accessible(page)  # empty
    page.evaluate("() => { window.delays = {bicycle: 1500}; }")
    page.fill("textarea", TEXT)
    page.wait_for_selector(".target[aria-busy=true]")
    assert_accessible(page)  # waiting
    page.evaluate("() => { window.delays = {}; }")
    shows(page, translation_of(page_url, TEXT))
    page.evaluate("() => { window.delays = {garden: 1500}; }")
    page.fill("textarea", "The old garden.")
    page.wait_for_selector(".target[aria-busy=true]")
    assert_accessible(page)  # waiting, with the former translation
    page.evaluate("() => { window.delays = {}; }")
    translate(page, page_url)
    page.hover('.words [data-sentence="1"][data-word="1"]')
    page.wait_for_selector(".mirror .aligned")
    assert_accessible(page)  # aligned words
    word(page, 2).click()
    page.wait_for_selector("[role=menuitem]")
    assert_accessible(page)  # alternatives
    box = page.locator("[role=menu]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= view.width
    page.keyboard.press("Escape")
    page.locator(".sure button").focus()
    assert_accessible(page)  # the definition
    button(page, "More translations").click()
    page.wait_for_selector(".others")
    assert_accessible(page)
    button(page, "History").click()
    page.wait_for_selector(".entries")
    assert_accessible(page)
    translate(page, page_url, "w" * 300)  # a word that is wider than a phone
    assert_accessible(page)
    refuse(page, 500, "The model has failed.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".failure")
    assert_accessible(page)


@pytest.mark.parametrize("view", long_views(ALL_VIEWS))
def test_files_are_accessible_and_fit_the_window_in_every_state(open_page, view):
    page = open_page(view)
    drop(page, "a" * 200 + ".md", b"Hello world. Good morning.\n" + b"w" * 300)
    page.wait_for_selector("text=Download")
    drop(page, "b.pdf", b"%PDF")
    page.wait_for_selector(".documents .failure")
    drop(page, "c.epub", b"Hello world.\n" * 300)
    drop(page, "d.csv", b"Hello world.")
    page.wait_for_selector("progress[value]")
    for name in ("a" * 200 + ".md", "c.epub"):
        button(page, f"Sentences of {name}").click()
    page.wait_for_selector("#file-3 .sentences li")
    assert_accessible(page)  # done, refused, running and waiting, with sentences
    button(page, "Cancel c.epub").click()
    page.wait_for_selector("#file-4 >> text=Download")
    page.select_option("[aria-label='Language of the translation']", "ar")
    page.locator("#file-1 [data-word]").first.click()
    page.wait_for_selector("[role=menuitem]")
    assert_accessible(page)  # cancelled, of another language, with alternatives
    box = page.locator("[role=menu]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= view.width


@pytest.mark.parametrize("view", long_views([WIDE, PHONE]))
def test_the_theme_is_the_system_s_until_it_is_switched(open_page, page_url, view):
    def brightness(page) -> float:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3

    page = open_page(view)
    assert (brightness(page) > 127) == (view.theme == "light")
    button(page, "Dark").click()
    assert (brightness(page) > 127) == (view.theme == "dark")
    page.reload()
    page.wait_for_selector("textarea")
    assert (brightness(page) > 127) == (view.theme == "dark")
    button(page, "Dark").click()
    page.emulate_media(color_scheme={"light": "dark", "dark": "light"}[view.theme])
    assert (brightness(page) > 127) == (view.theme == "dark")  # it follows the system again


def test_everything_is_reached_by_tab_and_shows_the_focus(page, page_url):
    translate(page, page_url)
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        name, visible = page.evaluate(
            """() => {
              const focused = document.activeElement;
              if (focused === document.body) return ["BODY", true];
              const frame = focused.closest(".stack, .file") ?? focused;
              const style = getComputedStyle(frame);
              return [focused.ariaLabel || focused.textContent.trim() || focused.tagName,
                style.outlineStyle !== "none" || style.boxShadow !== "none"];
            }"""
        )
        assert visible, name
        reached.append(name)
    wanted = ["History", "Dark", "Language of the text", "Swap the languages", "Language of the translation"]
    wanted += ["Text to translate", "Translate files", "Clear", "More translations", "Copy"]
    assert [name for name in wanted if name not in reached] == []
    assert word(page, 0).inner_text() in reached


def test_a_script_from_right_to_left_stands_on_the_right(page, page_url):
    models = [dict(page_server.MODELS[0], target="ar", target_name="Arabic", name="enar")]
    arabic = "مرحبا بالعالم"
    places = {"source_start": 0, "source_end": 11, "start": 0, "end": len(arabic)}
    scores = {"log_probability": -1, "score": -1, "tokens": ["a", "b"], "n_best": []}
    translation = {
        "text": arabic,
        "sentences": [{"source": "Hello world", "text": arabic, **places, **scores}],
    }
    answer = {"model": "enar", "source": "en", "target": "ar", "translations": [translation]}
    stream = f"event: end\r\ndata: {json.dumps(answer)}\r\n\r\n"
    headers = {"Content-Type": "text/event-stream"}
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": models}))
    page.route("**/v1/translate/stream", lambda route: route.fulfill(headers=headers, body=stream))
    page.reload()
    page.fill("textarea", "Hello world")
    shows(page, arabic)
    pane = page.locator(".words")
    assert pane.get_attribute("lang") == "ar"
    assert pane.evaluate("(pane) => getComputedStyle(pane).direction") == "rtl"
    frame, first, second = pane.bounding_box(), word(page, 0).bounding_box(), word(page, 1).bounding_box()
    assert first["x"] > second["x"]
    assert frame["x"] + frame["width"] - (first["x"] + first["width"]) < 40
    word(page, 0).focus()
    page.keyboard.press("ArrowLeft")  # onward
    assert page.evaluate("document.activeElement.dataset.word") == "1"


@long
def test_nothing_moves_for_those_who_ask_for_it(open_page, page_url):
    page = open_page(WIDE, reduced_motion="reduce")
    page.evaluate("() => { window.delays = {Hello: 5000}; }")
    page.fill("textarea", "Hello world.")
    page.wait_for_selector(".caret")
    assert page.evaluate("getComputedStyle(document.querySelector('.caret')).animationName") == "none"


# The real server


def test_a_text_is_translated_by_a_model_that_has_learnt(open_page, trained):
    with serving(trained / "run") as server:
        page = open_page(WIDE, load=False)
        page.goto(server.address + "/")
        page.wait_for_selector(".languages select:not([disabled])")
        expected = translate(page, server.address + "/", "amber birch\n\ncedar ember", source="", target="")
        assert expected == "AMBER BIRCH\n\nCEDAR EMBER"
        word(page, 2).click()
        page.wait_for_selector("[role=menuitem]")


def test_a_document_is_translated_by_a_model_that_has_learnt(open_page, trained, tmp_path):
    content = word_file(
        "<w:p><w:r><w:t>amber birch. Cedar </w:t></w:r><w:r><w:b/><w:t>ember</w:t></w:r></w:p>"
    )
    with serving(trained / "run") as server:
        page = open_page(WIDE, load=False)
        page.goto(server.address + "/")
        page.wait_for_selector(".languages select:not([disabled])")
        drop(page, "report.docx", content)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download report").click()
        command = [sys.executable, "-m", "dragoman", "translate", trained / "run", "--document"]
        (tmp_path / "report.docx").write_bytes(content)
        command += [tmp_path / "report.docx", "--output", tmp_path / "out.docx"]
        subprocess.run(command, check=True, capture_output=True)
        assert Path(download.value.path()).read_bytes() == (tmp_path / "out.docx").read_bytes()
        button(page, "Sentences of report.docx").click()
        page.locator(".sentences [data-word]").first.click()
        page.wait_for_selector("[role=menuitem]")
        text = page.locator("[role=menuitem]").last.get_attribute("title")
        page.locator("[role=menuitem]").last.click()
        page.wait_for_selector(f".sentences li:first-child >> text={text}")
        with page.expect_download() as changed:
            page.get_by_role("button", name="Download report").click()
        document = ZipFile(changed.value.path()).read("word/document.xml").decode()
        assert text in document


def test_one_can_look_inside_a_translation(open_page, trained):
    with serving(trained / "run") as server:
        page = open_page(WIDE, load=False)
        page.goto(server.address + "/")
        page.wait_for_selector(".languages select:not([disabled])")
        translate(page, server.address + "/", "amber birch", source="", target="")
        link = page.wait_for_selector("text=Look inside")
        page.goto(f"{server.address}/{link.get_attribute('href')}")
        page.wait_for_selector("[role=tab]")
        assert "AMBER BIRCH" in page.inner_text("main header")
        assert page.get_by_role("tab").count() >= 8
        assert "scores differ by rounding" in page.inner_text("footer")
        page.goto(f"{server.address}/inspect#text=+")  # another sentence in the same tab
        page.wait_for_selector("text=The sentence is blank")
        page.goto(f"{server.address}/inspect#")
        page.wait_for_selector("text=Write a sentence")
        page.get_by_label("Sentence", exact=True).fill("cedar")
        page.keyboard.press("Enter")
        page.get_by_role("tab", name="Masks").click()
        page.reload()
        page.wait_for_selector("[role=tab][aria-selected=true] >> text=Masks")
        assert "CEDAR" in page.inner_text("main header")


@long
def test_one_can_look_inside_with_a_key(open_page, trained, tmp_path):
    key = add_key(tmp_path / "keys.toml", "reader")
    with serving(trained / "run", "--api-keys", tmp_path / "keys.toml") as server:
        page = open_page(WIDE, load=False)
        page.goto(server.address + "/")
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector(".languages select:not([disabled])")
        page.fill("textarea", "amber birch")
        with page.expect_popup() as opened:
            page.click("text=Look inside")
        opened.value.wait_for_selector("[role=tab]")
        assert "AMBER BIRCH" in opened.value.inner_text("main header")

"""The languages of the page: their files have what the JavaScript says, and all that is shown is in them."""

import json
import re
from collections import Counter

import pytest
from babel import Locale

from tests.browser import browser  # noqa: F401
from tests.held_page import MODELS
from tests.page_server import PAGE
from tests.test_page import View, assert_accessible, button, open_page, page_url, translate  # noqa: F401
from tests.test_page_laws import error, held, shared, unopened, word  # noqa: F401

LANGUAGES = sorted(file.stem for file in (PAGE / "languages").glob("*.json"))
TEXT = r'"((?:[^"\\]|\\.)*)"'
MESSAGE = re.compile(rf"\bt\(\s*{TEXT}")
PLURAL = re.compile(rf"\bplural\(\s*[^\",]+,\s*{TEXT},\s*{TEXT}")
CALL = re.compile(r"(?<!function )\b(?:t|plural)\(")


def messages() -> tuple[set[str], dict[str, str]]:
    """The messages of the JavaScript; and those that count, each with its text for 1."""
    pages = (PAGE, PAGE.parents[1] / "interop" / "page" / "page")
    scripts = "\n".join(file.read_text() for page in pages for file in sorted(page.glob("*.js")))
    plain, counting = MESSAGE.findall(scripts), PLURAL.findall(scripts)
    assert len(plain) + len(counting) == len(CALL.findall(scripts))  # each is given as a text
    return set(plain), {others: one for one, others in counting}


def placeholders(text: str) -> Counter:
    return Counter(re.findall(r"\{\w+\}", text))


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_language_has_every_message_and_no_other_with_its_placeholders(code):
    texts = json.loads((PAGE / "languages" / f"{code}.json").read_text())
    plain, counting = messages()
    assert set(texts) == plain | counting.keys()
    for key in plain:
        assert placeholders(texts[key]) == placeholders(key), key
    for key in counting:
        assert placeholders(texts[key]["other"]) == placeholders(key), key
        assert set(texts[key]) == Locale(code).plural_form.tags | {"other"}, key
        for text in texts[key].values():
            assert placeholders(text) <= placeholders(key), key


def test_the_page_offers_the_languages_that_have_a_file():
    found = re.search(r"LANGUAGES = \{(.*?)\}", (PAGE / "i18n.js").read_text(), re.DOTALL)
    assert found is not None
    assert sorted(re.findall(r"(\w+): ", found[1])) == sorted([*LANGUAGES, "en"])
    assert len(LANGUAGES) >= 6


MARK = "⟦"
UNTRANSLATED = f"""() => {{
  const shown = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {{
    const {{ data, parentElement }} = walker.currentNode;
    const isText = parentElement.closest("[lang], bdi, .mirror, kbd, option, datalist, textarea, script");
    const isName = parentElement.closest("h1, .top .name");
    if (/\\p{{L}}/u.test(data) && !data.includes("{MARK}") && !isText && !isName) shown.push(data.trim());
  }}
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]")) {{
    for (const name of ["aria-label", "title", "placeholder"]) {{
      const value = element.getAttribute(name);
      if (/\\p{{L}}/u.test(value ?? "") && !value.includes("{MARK}") && !element.lang) shown.push(value);
    }}
  }}
  return shown;
}}"""


def choose_language(held, code: str, texts: dict) -> None:  # noqa: F811
    """Choose a language of the page whose file has these texts."""
    held.page.locator("footer select").select_option(code)
    held.run()
    held.answer(held.waiting("languages")[-1]["number"], content=texts)
    held.run()


def test_all_words_of_the_page_are_messages(held):  # noqa: F811
    """In a language that marks each message, nothing is without the mark, whatever is open."""
    page = held.page
    plain, counting = messages()
    texts = {key: f"{MARK}{key}⟧" for key in plain}
    texts |= {key: {"other": f"{MARK}{key}⟧"} for key in counting}
    held.translate("Hello old world. A man rides.")
    held.answer_all()
    choose_language(held, "de", texts)
    assert page.evaluate(UNTRANSLATED) == []
    for name in ("help", "history", "terms", "others", "save", "edit"):
        page.click(f"#{name}")
        held.run()
        held.answer_all()
        assert page.evaluate(UNTRANSLATED) == [], name
        page.keyboard.press("Escape")
        held.run()
    word(page, 0).click()
    held.run()
    held.answer_all()
    assert page.evaluate(UNTRANSLATED) == []
    page.keyboard.press("Escape")
    page.set_input_files("#files", [{"name": "1.2", "mimeType": "", "buffer": b"Hello."}])
    held.run()
    page.fill("textarea", "ПРИВЕТ, СТАРЫЙ МИР")
    held.run(250)
    held.answer(status=429, content={"error": {"code": "rate", "message": "Wait."}})
    assert page.evaluate(UNTRANSLATED) == []


def test_the_page_speaks_the_language_that_was_chosen_and_arabic_from_the_right(held):  # noqa: F811
    page = held.page
    page.click("#terms")
    for code in ("ar", "fr"):
        texts = json.loads((PAGE / "languages" / f"{code}.json").read_text())
        if code == "ar":
            choose_language(held, code, texts)
        else:
            page.locator("footer select").select_option(code)
            held.run()
            held.answer(held.waiting("languages")[-1]["number"], content=texts)
        assert page.inner_text("#history").strip() == texts["History"]
        root = page.evaluate("[document.documentElement.lang, getComputedStyle(document.body).direction]")
        assert root == [code, {"ar": "rtl", "fr": "ltr"}[code]]
        source, target = (page.locator(f".{name}").bounding_box() for name in ("source", "target"))
        assert (source["x"] > target["x"]) == (code == "ar")
        empty = page.locator("textarea:placeholder-shown, .terms :placeholder-shown")
        directions = empty.evaluate_all("(all) => all.map((one) => getComputedStyle(one).direction)")
        assert set(directions) == {root[1]}
        languages = empty.evaluate_all("(all) => all.slice(1).map((one) => one.placeholder)")
        assert languages == [Locale(code).languages[one] for one in ("en", "de")]
    names = page.locator("[aria-label='Langue du texte'] option").all_inner_texts()
    assert names == ["Détecter la langue", "anglais", "allemand"]
    page.reload()
    held.run(50)
    held.answer(held.waiting("languages")[-1]["number"], content=texts)
    held.begin()
    assert page.inner_text("#history").strip() == texts["History"]


@pytest.mark.parametrize("width", [1100, 390])
def test_a_page_from_the_right_is_accessible_and_fits_the_window(open_page, page_url, width):  # noqa: F811
    page = open_page(View("light", width), locale="ar")
    translate(page, page_url)
    assert page.evaluate("document.documentElement.dir") == "rtl"
    assert_accessible(page)
    page.click("#save")
    page.click("#help")
    page.wait_for_selector(".shortcuts")
    assert_accessible(page)


@pytest.mark.parametrize("width", [390, 1100])
def test_what_stands_in_the_empty_text_area_is_whole_in_every_language(unopened, page_url, width):  # noqa: F811
    """Also if the example below leaves no room."""
    page = unopened.page
    size = page.viewport_size
    page.set_viewport_size({"width": width, "height": size["height"]})
    unopened.open(page_url, models=[{**model, "example": "A man. " * 100} for model in MODELS])
    shares = []
    for code in LANGUAGES:
        choose_language(unopened, code, json.loads((PAGE / "languages" / f"{code}.json").read_text()))
        area = page.locator(".source textarea")
        shares.append(area.evaluate("({ scrollHeight, clientHeight }) => scrollHeight / clientHeight"))
    page.set_viewport_size(size)
    assert max(shares) <= 1


def test_what_the_server_says_keeps_its_direction_on_a_page_from_the_right(held):  # noqa: F811
    """Else the full stop of an English sentence would be at its beginning."""
    page = held.page
    held.translate("Hello old world.")
    choose_language(held, "ar", json.loads((PAGE / "languages" / "ar.json").read_text()))

    def refuse(place: str) -> None:
        held.run(250)
        held.answer(held.waiting(place)[-1]["number"], status=413, content=error(place))
        shown = page.locator(f"p:not([role=status]):has-text('{error(place)['error']['message']}')")
        assert shown.locator("bdi").count() == shown.count() > 0, place

    word(page, 0).click()
    refuse("alternatives")
    page.keyboard.press("Escape")
    page.click("#others")
    refuse("v1/translate")
    page.locator(".choice select").select_option("garden")
    held.run()
    held.answer()
    page.click("#terms")
    refuse("terms")
    page.set_input_files("#files", [{"name": "1.txt", "mimeType": "", "buffer": b"Hello."}])
    refuse("documents")
    page.fill("textarea", "Good morning.")
    refuse("stream")


def test_a_language_that_does_not_come_is_english(held):  # noqa: F811
    held.page.get_by_label("Language of this page").select_option("de")
    held.run()
    held.fail()
    assert held.page.inner_text("#history").strip() == "History"
    assert held.page.evaluate("document.documentElement.lang") == "en"
    assert button(held.page, "History").count() == 1

"""Laws of terms on the page for translating: the menu of glossaries, the panel, and what requests name.

That requests carry exactly the chosen glossary and the reader's terms, after any actions, is a law of
`test_page_laws.py`. As there, the tests hold the network and the clock.
"""

import json
from itertools import chain
from urllib.parse import parse_qs, urlsplit

from tests.browser import browser  # noqa: F401
from tests.held_page import HeldPage
from tests.page_server import GLOSSARIES
from tests.test_page import button, page_url, word  # noqa: F401
from tests.test_page_files import HeldServer, file_of
from tests.test_page_laws import SOURCE, TARGET, error, held, shared, unopened  # noqa: F401

GLOSSARY = "[aria-label=Glossary]"
LATE = "Hello old world, old river."
MANY = {f"term {number}": f"Wort {number}" for number in range(120)}


def choose(held: HeldPage, glossary: str) -> None:  # noqa: F811
    held.page.select_option(GLOSSARY, glossary)
    held.run()


def open_panel(held: HeldPage) -> None:  # noqa: F811
    held.page.click("#terms")
    held.run()


def add_term(held: HeldPage, number: int, term: str, translation: str) -> None:  # noqa: F811
    """Write a row of the panel, and leave it."""
    held.page.get_by_label(f"Term {number}", exact=True).fill(term)
    held.page.get_by_label(f"Translation of term {number}", exact=True).fill(translation)
    held.page.keyboard.press("Enter")
    held.run()


def is_open(held: HeldPage) -> bool:  # noqa: F811
    """Whether the panel is open."""
    return held.page.get_attribute("#terms", "aria-expanded") == "true"


def listed(held: HeldPage) -> list[list[str]]:  # noqa: F811
    """The terms of the glossary that the panel shows."""
    rows = held.page.locator(".terms li:not(:has(input))")
    return rows.evaluate_all("(all) => all.map((row) => [...row.children].map((one) => one.textContent))")


def names(request: dict) -> dict:
    """What a request says of terms."""
    return {name: request["body"][name] for name in ("glossary", "terms") if name in request["body"]}


def test_there_is_no_menu_where_the_server_has_no_glossary(unopened, page_url):  # noqa: F811
    """The reader's terms need none."""
    held, page = unopened, unopened.page  # noqa: F811
    page.goto(page_url)
    held.run(50)
    held.answer(held.waiting("v1/glossaries")[0]["number"], content={"glossaries": []})
    held.answer(held.waiting("v1/models")[0]["number"])
    assert held.read()["glossary"] is None
    open_panel(held)
    add_term(held, 1, "hello", "Servus")
    assert held.translate("Hello")["words"] == "Servus"
    assert names(held.sent()[-1]) == {"terms": [["hello", "Servus"]]}


def test_all_that_is_asked_about_a_translation_names_its_terms(held):  # noqa: F811
    """But for the scores of a sentence that was chosen, which is not to become another one. Which terms it
    uses is not known.
    """
    page = held.page
    choose(held, "garden")
    open_panel(held)
    add_term(held, 1, "hello", "Servus")
    open_panel(held)
    state = held.translate(LATE)
    assert state["words"] == "Servus uralt Welt, uralt Fluss."
    assert state["unused"] == ["river → (Strom)"]
    terms = {"glossary": "garden", "terms": [["hello", "Servus"]]}
    word(page, 1).click()
    held.run()
    request = held.waiting("alternatives")[-1]
    assert names(request) == terms
    held.answer(request["number"])
    page.keyboard.press("Escape")
    button(page, "More translations").click()
    held.run()
    request = held.waiting("v1/translate")[-1]
    assert "n_best" in request["body"]
    assert names(request) == terms
    held.answer(request["number"])
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    page.locator(".words").hover()
    held.run()
    alignments = [request for request in held.sent() if "alignment" in (request["body"] or {})]
    assert alignments
    assert all(names(request) == terms for request in alignments)
    word(page, 1).click()
    held.run()
    held.answer(held.waiting("alternatives")[-1]["number"])
    page.locator(".menu button").nth(2).click()
    held.run()
    assert names(held.waiting()[-1]) == {}
    assert held.read()["unused"] == []


def test_files_are_translated_with_the_terms_that_are_chosen(held):  # noqa: F811
    """Another glossary or term starts the running file again; what the former run brings is not shown."""
    held.page.evaluate("deaf = true")
    server = HeldServer(held)
    choose(held, "garden")
    server.add("a.md", text="{} old river.")
    document, stream = server.begin("a.md")
    open_panel(held)
    add_term(held, 1, "old", "X")
    add_term(held, 2, "river", "Y\u2009<z>")
    (request,) = [one for one in server.waiting() if one["method"] == "POST"][-1:]
    query = parse_qs(urlsplit(request["path"]).query)
    assert query["glossary"] == ["garden"]
    assert query["terms"] == ["old\tX", "river\tY\u2009<z>"]
    server.go_on(stream)
    assert file_of(held, "a.md")["bar"] is None
    server.finish()
    button(held.page, "Sentences of a.md").click()
    held.run()
    server.finish()
    assert file_of(held, "a.md")["rows"] == [["a old river.", "ein X Y <z>."]]
    assert document not in server.documents.values()
    held.page.locator(".sentences [data-word]").nth(1).click()
    held.run()
    request = held.waiting("alternatives")[-1]
    assert names(request) == {"glossary": "garden", "terms": [["old", "X"], ["river", "Y\u2009<z>"]]}
    choose(held, "")
    assert "Translate a.md again" in file_of(held, "a.md")["actions"]
    choose(held, "garden")
    assert "Translate a.md again" not in file_of(held, "a.md")["actions"]


def test_the_panel_shows_the_terms_of_the_chosen_glossary_whatever_comes_late(held, monkeypatch):  # noqa: F811
    """Other glossaries, languages and parts are chosen, and the answers come in any order."""
    page, random = held.page, held.random
    dictionaries = {("en", "de"): list(map(list, MANY.items())), ("de", "en"): [["a", "b"]]}
    monkeypatch.setitem(GLOSSARIES, "many", ("many", dictionaries))
    page.reload()
    held.begin()
    page.evaluate("deaf = true")
    actions = ["glossary", "pair", "Later", "Earlier", "panel"]
    for _ in range(8):
        if not is_open(held):
            open_panel(held)
        for action in random.choices(actions, weights=[8, 4, 2, 1, 0.5], k=4):
            if action == "glossary" and page.locator(GLOSSARY).count():
                none, *glossaries = held.read()["glossary"]["options"]
                choose(held, random.choice([none, *3 * glossaries]))
            elif action == "pair":
                page.select_option(SOURCE, random.choice([*4 * ["en", "de"], "auto"]))
            elif action == "panel":
                open_panel(held)
            elif button(page, action).count() and button(page, action).is_enabled():
                button(page, action).click()
            held.run()
            check_list(held, is_answered=False)
        held.answer_all("v1/glossaries/")
        check_list(held, is_answered=True)


def check_list(held: HeldPage, *, is_answered: bool) -> None:  # noqa: F811
    """The panel lists terms of the chosen glossary and languages, or none that has not come."""
    state, page = held.read(), held.page
    glossary = (state["glossary"] or {"value": ""})["value"]
    shown = listed(held)
    if not glossary or not is_open(held):
        assert shown == []
    elif is_answered or shown:
        terms = GLOSSARIES[glossary][1][state["source"]["value"], state["target"]["value"]]
        first = int(page.get_attribute(".terms[start]", "start")) - 1
        assert shown == terms[first : first + 50] != []
        assert page.inner_text(".panel h3 bdi") == GLOSSARIES[glossary][0]
        assert page.locator(".panel .turn").count() == (len(terms) > 50)


def test_a_list_of_terms_that_fails_says_why(held):  # noqa: F811
    open_panel(held)
    choose(held, "garden")
    held.answer(status=500, content=error("internal"))
    assert held.page.inner_text(".panel .failure") == "The server says internal."
    choose(held, "both")
    held.answer()
    assert held.page.locator(".panel .failure").count() == 0
    assert listed(held) == GLOSSARIES["both"][1]["en", "de"]


def test_names_and_terms_are_shown_as_text(held):  # noqa: F811
    page = held.page
    markup = "<img src=x onerror=alert(1)>"
    choose(held, "both")
    open_panel(held)
    held.answer()
    add_term(held, 1, markup, "\u202e</bdi><script>")
    add_term(held, 2, "hello", f"({markup})")
    open_panel(held)
    state = held.translate("Hello world.")
    assert state["unused"] == [f"hello → ({markup})", "world → (Erde)"]
    open_panel(held)
    held.answer_all("v1/glossaries/")
    assert page.input_value("[aria-label='Term 1']") == markup
    assert page.inner_text(".panel h3 bdi") == page.locator(f"{GLOSSARY} option:checked").inner_text()
    assert page.inner_text(".panel h3 bdi") == GLOSSARIES["both"][0]
    assert listed(held) == GLOSSARIES["both"][1]["en", "de"]
    assert page.locator("main :is(img, script, b, i:not(.dial i))").count() == 0


def test_terms_are_written_with_the_keyboard_and_used_when_they_are_complete(held):  # noqa: F811
    """What is half written is in no request. Escape closes the panel and gives the focus back."""
    page = held.page
    held.translate("Hello old world.")
    open_panel(held)
    assert held.read()["focus"] == "Terms"
    sent = len(held.sent())
    page.get_by_label("Term 1", exact=True).focus()
    for key, field in (("h", "Term 1"), ("Enter", "Translation of term 1"), ("Enter", "Term 2")):
        page.keyboard.press(key)
        held.run()
        assert held.read()["focus"] == field
    assert len(held.sent()) == sent
    page.get_by_label("Translation of term 1", exact=True).focus()
    page.keyboard.type("H h")
    page.keyboard.press("Tab")
    held.run()
    (request,) = [one for one in held.sent()[sent:] if "stream" in one["path"]]
    assert names(request) == {"terms": [["h", "H h"]]}
    page.get_by_label("Term 2", exact=True).fill("old")
    page.get_by_label("Translation of term 2", exact=True).fill("alt")
    page.keyboard.press("Control+Enter")
    held.run()
    assert names(held.sent()[-1]) == {"terms": [["h", "H h"], ["old", "alt"]]}
    assert held.read()["focus"] == "Text to translate"
    button(page, "Remove term 1").click()
    held.run()
    assert names(held.sent()[-1]) == {"terms": [["old", "alt"]]}
    assert held.read()["focus"] == "Term 1"
    page.get_by_label("Translation of term 1", exact=True).fill("uralt")
    page.keyboard.press("Escape")
    held.run()
    assert (held.read()["panel"], held.read()["terms"]) == (None, "Terms · 1")
    assert page.evaluate("document.activeElement.id") == "terms"
    assert names(held.sent()[-1]) == {"terms": [["old", "uralt"]]}


def test_a_term_that_is_removed_gives_the_focus_to_the_one_in_its_place(held):  # noqa: F811
    page, random = held.page, held.random
    open_panel(held)
    terms = [[f"a{number}", f"b{number}"] for number in range(5)]
    for number, term in enumerate(terms, 1):
        add_term(held, number, *term)
    while terms:
        number = random.randrange(len(terms))
        del terms[number]
        button(page, f"Remove term {number + 1}").click()
        held.run()
        assert held.read()["focus"] == f"Term {number + 1}"
        values = page.locator(".terms input").evaluate_all("(all) => all.map((field) => field.value)")
        assert values == [*chain.from_iterable(terms), "", ""]


def test_the_terms_of_all_languages_and_tabs_are_kept(held):  # noqa: F811
    """Two tabs change terms of different languages, in any order."""
    page, random = held.page, held.random
    open_panel(held)
    expected: dict[str, list[list[str]]] = {}
    for number in range(12):
        term = [f"a{number}", f"b{number}"]
        if random.random() < 0.3:  # another tab
            expected["de-en"] = [term]
            page.evaluate(
                """(term) => {
                  const stored = JSON.parse(localStorage.getItem("dragoman.terms") ?? "{}");
                  localStorage.setItem("dragoman.terms", JSON.stringify({ ...stored, "de-en": [term] }));
                }""",
                term,
            )
        else:
            target = random.choice(["de", "ar"])
            page.select_option(TARGET, target)
            held.run()
            rows = expected.setdefault(f"en-{target}", [])
            rows.append(term)
            add_term(held, len(rows), *term)
        assert json.loads(held.read()["local"]["dragoman.terms"]) == expected
    assert len(expected) == 3


def test_a_page_is_drawn_again_while_a_term_is_written(held):  # noqa: F811
    page = held.page
    page.fill("textarea", "Hello world.")
    held.run(250)
    open_panel(held)
    page.get_by_label("Term 1", exact=True).focus()
    page.keyboard.type("gar")
    held.answer()
    page.keyboard.type("den")
    held.run()
    assert page.input_value("[aria-label='Term 1']") == "garden"
    page.select_option(TARGET, "ar")
    held.run()
    assert page.input_value("[aria-label='Term 1']") == ""
    page.select_option(TARGET, "de")
    held.run()
    assert page.input_value("[aria-label='Term 1']") == "garden"


STORED = [
    "no JSON",
    "null",
    "[1]",
    '{"en-de": 1}',
    '{"en-de": [["a"]]}',
    '{"en-de": [[1, 2]]}',
    '{"en-de": {"length": 1}}',
    '{"__proto__": [["a", "b"]], "en-de": [[null, "b"]]}',
]


def test_what_other_programs_have_stored_is_no_term(held):  # noqa: F811
    """A term of the reader takes its place."""
    found = held.page.evaluate(
        """async (contents) => {
          const { Terms } = await import("/page/terms.js");
          return contents.map((content) => {
            localStorage.setItem("dragoman.terms", content);
            localStorage.setItem("dragoman.glossary", "gone");
            const terms = new Terms(() => {});
            terms.setPair("en", "de");
            const before = [terms.rows, terms.terms, terms.glossary];
            terms.edit(0, 0, " hello");
            terms.edit(0, 1, "Servus ");
            terms.take();
            return [before, terms.terms, { ...localStorage }];
          });
        }""",
        STORED,
    )
    for before, terms, local in found:
        assert (before, terms) == ([[], [], ""], [["hello", "Servus"]])
        assert json.loads(local["dragoman.terms"])["en-de"] == [[" hello", "Servus "]]
        assert "dragoman.glossary" not in local


def test_a_glossary_that_has_gone_is_not_asked_for_again(held, monkeypatch):  # noqa: F811
    choose(held, "garden")
    held.page.fill("textarea", "Hello old world.")
    held.run(250)
    monkeypatch.delitem(GLOSSARIES, "garden")
    held.answer(status=404, content=error("not_found"))
    held.load()
    assert names(held.sent()[-1]) == {}
    held.answer()
    assert held.read()["words"] == "Hallo alte Welt."
    assert held.read()["glossary"]["value"] == ""

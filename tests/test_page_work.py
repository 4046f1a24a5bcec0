"""Laws of working with a translation on the page: editing, saving, links, reloads and long texts.

As in `test_page_laws.py`, the tests hold the network and the clock.
"""

import json
from itertools import accumulate, pairwise, takewhile
from random import Random
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree

import pytest

from tests import page_server
from tests.browser import browser  # noqa: F401
from tests.held_page import MODELS, HeldPage
from tests.test_page import button, page_url  # noqa: F401
from tests.test_page_laws import SOURCE, TARGET, error, held, shared, unopened, word  # noqa: F401

TEXT = "Hello old world. A man rides.\n\nGood morning today."
EDITOR = "#translation"


def evaluate(held: HeldPage, script: str, argument: object = None) -> object:  # noqa: F811
    return held.page.evaluate(script, argument)


def click(held: HeldPage, name: str) -> None:  # noqa: F811
    button(held.page, name).click()
    held.run()


def notes_copies(held: HeldPage) -> None:  # noqa: F811
    evaluate(held, "navigator.clipboard.writeText = async (text) => { window.copied = text; }")


# Pure functions


def units(text: str) -> int:
    """The length of a text in JavaScript."""
    return len(text.encode("utf-16-le")) // 2


def equal_characters(one: str, other: str) -> int:
    """With how many both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def random_text(random: Random) -> str:
    words = ["Hello", "world", "🙂", "garden", "schön", "river"]
    pieces = []
    for _ in range(random.randint(1, 40)):
        pieces += [random.choice(words), random.choice([" ", " ", ". ", "! ", "\n", "\n\n", "  "])]
    return random.choice(["", "\n", " "]) + "".join(pieces) + random.choice(["", "\n\n"])


def test_the_parts_of_a_text_are_the_text(held):  # noqa: F811
    """None is blank, and none is longer than a part may be unless it is one sentence."""
    random = Random(0)
    cases = [[random_text(random), random.choice([10, 30, 100])] for _ in range(150)]
    found = evaluate(
        held,
        "async (cases) => { const { parts } = await import('/page/parts.js');"
        " return cases.map((one) => parts(...one)); }",
        cases,
    )
    for (text, size), parts in zip(cases, found, strict=True):
        assert "".join(parts) == text
        assert all(part.strip() for part in parts) or not text.strip()
        assert all(units(one) + units(other) > size for one, other in pairwise(parts))
        assert all(units(part) <= size or "\n" not in part.strip() for part in parts)


def test_a_change_of_the_text_changes_the_sentences_that_it_touches_and_no_other(held):  # noqa: F811
    random, cases = Random(1), []
    for _ in range(200):
        sentences, text = [], random.choice(["", "\n"])
        for _ in range(random.randint(1, 4)):
            start = len(text)
            text += random.choice(["aa bb.", "c.", "ab ab ab!", "甲乙。"])
            sentences.append({"text": text[start:], "source": "s", "start": start, "end": len(text)})
            text += random.choice([" ", "", "\n\n"])
        first = random.randint(0, len(text))
        last = random.randint(first, min(first + random.choice([0, 1, 9]), len(text)))
        changed = text[:first] + random.choice(["", "x", "yy zz", "\n"]) + text[last:]
        cases.append([{"text": text, "sentences": sentences}, changed])
    found = evaluate(
        held,
        "async (cases) => { const { withEdit } = await import('/page/words.js');"
        " return cases.map(([result, text]) => withEdit(result, text)); }",
        cases,
    )
    for (result, changed), new in zip(cases, found, strict=True):
        assert new["text"] == changed
        former, place, shift = result["text"], 0, len(changed) - len(result["text"])
        first = equal_characters(former, changed)
        same = equal_characters(former[first:][::-1], changed[first:][::-1])
        last = len(former) - same
        later = [*(old["start"] for old in result["sentences"][1:]), len(former) + 1]
        for old, one, next_start in zip(result["sentences"], new["sentences"], later, strict=True):
            assert place <= one["start"] <= one["end"]
            place = one["end"]
            assert one["text"] == changed[one["start"] : one["end"]]
            if next_start <= first:
                assert (one["start"], one["text"]) == (old["start"], old["text"])
            if old["start"] > max(first, last) and result["sentences"][0]["start"] <= first:
                assert (one["start"], one["text"]) == (old["start"] + shift, old["text"])
            assert one.get("isEdited", False) == (one["text"] != old["text"])
        written = changed[first : len(changed) - same]
        assert not written.strip() or any(
            one["start"] <= first + len(written) - len(written.lstrip()) < one["end"]
            for one in new["sentences"]
        )


def saved(held: HeldPage, result: dict) -> dict[str, str]:  # noqa: F811
    """The files of a translation."""
    return evaluate(
        held,
        """async (result) => {
          const { FORMATS, fileOf } = await import("/page/saving.js");
          const files = Object.values(FORMATS).map((format) => fileOf(result, format));
          const contents = files.map(async ({ name, content }) => [name, await new Response(content).text()]);
          return Object.fromEntries(await Promise.all(contents));
        }""",
        result,
    )


def test_saved_files_have_the_sentences_of_both_languages(held):  # noqa: F811
    signs = ["a", "<b>", "&amp;", '"', "\t", "é", "🙂", " ", "'", "]]>", "\u200f"]
    random = Random(2)
    for _ in range(20):
        sides = [
            ["".join(random.choices(signs, k=random.randint(1, 6))) + "x" for _ in range(3)] for _ in range(2)
        ]
        result, texts = {"source": "en", "target": "de", "sentences": []}, ["", ""]
        for source, target in zip(*sides, strict=True):
            sentence = {}
            for number, text in enumerate((source, target)):
                start, end = ("sourceStart", "sourceEnd") if number == 0 else ("start", "end")
                place = units(texts[number])
                sentence |= {start: place, end: place + units(text)}
                texts[number] += text + random.choice([" ", "\n"])
            result["sentences"].append(sentence)
        result |= {"sourceText": texts[0], "text": texts[1]}
        files = saved(held, result)
        assert files["translation.de.txt"] == texts[1]
        rows = [row.split("\t") for row in files["translation.de.tsv"].splitlines()]
        expected = [[" ".join(side.split()) for side in pair] for pair in zip(*sides, strict=True)]
        assert rows == expected
        memory = ElementTree.fromstring(files["translation.de.tmx"]).iter("tu")
        lang = "{http://www.w3.org/XML/1998/namespace}lang"
        found = [[(one.get(lang), one.findtext("seg")) for one in unit] for unit in memory]
        assert found == [[("en", source), ("de", target)] for source, target in zip(*sides, strict=True)]
        shown = evaluate(
            held,
            "(html) => [...new DOMParser().parseFromString(html, 'text/html').querySelectorAll('p')]"
            ".map((one) => one.textContent)",
            files["translation.de.html"],
        )
        assert shown == [line for line in texts[1].split("\n") if line.strip()]


# The page


def test_a_translation_is_saved_and_linked(held):  # noqa: F811
    held.translate(TEXT)
    for name, ending in (("Text .txt", "txt"), ("Translation memory .tmx", "tmx")):
        click(held, "Save")
        with held.page.expect_download() as download:
            held.page.get_by_role("menuitem", name=name).click()
        held.run()
        assert download.value.suggested_filename == f"translation.de.{ending}"
        assert held.read()["focus"] == "Save"
    notes_copies(held)
    click(held, "Save")
    held.page.get_by_role("menuitem", name="Copy a link").click()
    held.run()
    link = held.page.evaluate("copied")
    assert parse_qs(urlsplit(link).fragment) == {"text": [TEXT], "source": ["en"], "target": ["de"]}
    assert urlsplit(link).query == ""
    held.page.fill("textarea", "x" * 9000)
    held.run(250)
    held.answer_all()
    held.answer_all()
    held.answer_all()
    click(held, "Save")
    held.page.get_by_role("menuitem", name="Copy a link").click()
    held.run()
    assert held.read()["failure"] == "The text is too long for a link."


def test_the_browser_asks_before_changes_are_lost_that_were_neither_copied_nor_saved(held):  # noqa: F811
    page = held.page
    notes_copies(held)
    translation = held.translate(TEXT)["words"]
    assert not held.asks_before_leaving()
    click(held, "Edit")
    page.fill(EDITOR, f"{translation} Ja.")
    assert held.asks_before_leaving()
    click(held, "Copy")
    assert not held.asks_before_leaving()
    page.fill(EDITOR, f"{translation} Nein.")
    assert held.asks_before_leaving()
    click(held, "Save")
    with page.expect_download():
        page.get_by_role("menuitem", name="Text .txt").click()
    assert not held.asks_before_leaving()
    page.fill(EDITOR, translation)
    assert held.asks_before_leaving()
    click(held, "Undo my changes")
    held.answer()
    assert not held.asks_before_leaving()


@pytest.mark.parametrize("is_open", [False, True], ids=["in a new tab", "in an open one"])
def test_a_link_brings_its_text_and_languages_and_is_then_forgotten(unopened, page_url, is_open):  # noqa: F811
    """Its text is sent as the body of a request only."""
    held, page = unopened, unopened.page  # noqa: F811
    if is_open:
        held.open(page_url)
        page.evaluate("location.hash = 'text=Der+alte+Garten%26&source=de&target=en'")
        held.run()
    else:
        page.goto("about:blank")
        held.open(f"{page_url}#text=Der+alte+Garten%26&source=de&target=en")
    (request,) = [one for one in held.sent() if one["method"] == "POST"]
    pair = {"source": "de", "target": "en", "model": "deen"}
    assert request["body"] == pair | {"text": "Der alte Garten&"}
    held.answer()
    state = held.read()
    assert (state["text"], state["isComplete"], state["address"]) == ("Der alte Garten&", True, page_url)


@pytest.mark.short_form
def test_a_translation_is_edited_and_its_sentences_stay_when_others_change(held):  # noqa: F811
    page = held.page
    translation = held.translate(TEXT)["words"]
    first, second = translation.split(". ", 1)
    click(held, "Edit")
    assert page.input_value(EDITOR) == translation
    assert page.evaluate("document.activeElement.id") == "translation"
    page.fill(EDITOR, f"{first} wirklich. {second}")
    held.run()
    page.keyboard.press("Escape")
    held.run()
    edited = held.read()["words"]
    assert (edited, held.read()["focus"]) == (f"{first} wirklich. {second}", "Edit")
    assert json.loads(held.read()["local"]["dragoman.history"])[0]["translation"] == edited
    page.fill("textarea", TEXT.replace("morning", "world"))
    held.run(250)
    held.answer()
    assert held.read()["words"] == f"{first} wirklich. {second}".replace("Morgen", "Welt")
    page.reload()
    held.begin()
    held.answer()
    assert held.read()["words"] == f"{first} wirklich. {second}".replace("Morgen", "Welt")
    click(held, "Undo my changes")
    held.answer()
    assert held.read()["words"] == f"{first}. {second}".replace("Morgen", "Welt")
    assert button(page, "Undo my changes").count() == 0


def test_alternatives_follow_from_the_caret(held):  # noqa: F811
    page = held.page
    translation = held.translate(TEXT)["words"]
    click(held, "Edit")
    place = translation.index("Mann") + len("Mann")
    page.evaluate("(place) => document.querySelector('#translation').setSelectionRange(place, place)", place)
    page.keyboard.press("Control+.")
    held.run()
    request = held.waiting("alternatives")[-1]
    assert (request["body"]["text"], request["body"]["prefix"]) == ("A man rides.", "Ein Mann")
    held.answer(request["number"])
    alternative = held.read()["menu"][2]
    page.locator("[role=menuitem]").nth(2).click()
    held.run()
    assert page.input_value(EDITOR) == translation.replace("Ein Mann fährt.", alternative)
    assert page.evaluate("document.activeElement.id") == "translation"
    click(held, "Alternatives")
    assert "prefix" in held.waiting("alternatives")[-1]["body"]
    page.keyboard.press("Escape")
    held.run()
    assert held.read()["menu"] is None
    assert page.locator(EDITOR).count() == 1


def test_what_was_typed_chosen_or_cleared_is_undone_by_keys_and_the_other_text_stays(held):  # noqa: F811
    page = held.page
    page.focus("textarea")
    page.keyboard.type(TEXT)
    held.run(250)
    held.answer()
    seen = [held.read()["words"]]
    click(held, "Edit")
    for number in range(4):
        page.evaluate("document.querySelector('#translation').setSelectionRange(9, 9)")
        if number % 2:
            page.keyboard.type("Ja ")
        else:
            click(held, "Alternatives")
            held.answer(held.waiting("alternatives")[-1]["number"])
            page.locator("[role=menuitem]").nth(number + 1).click()
        held.run()
        seen.append(page.input_value(EDITOR))
    assert len(set(seen)) == len(seen)
    for former in [*reversed(seen[:-1]), seen[0], seen[0]]:
        page.keyboard.press("Control+z")
        held.run()
        assert (page.input_value(EDITOR), held.read()["text"]) == (former, TEXT)
    click(held, "Clear")
    assert held.read()["text"] == ""
    page.keyboard.press("Control+z")
    held.run()
    assert held.read()["text"] == TEXT


def answer_parts(held: HeldPage, count: int) -> list[str]:  # noqa: F811
    """Answer requests as they come; their texts."""
    texts = []
    for _ in range(count):
        request = held.answer()
        texts.append(request["body"]["text"])
    return texts


LONG = "\n".join(f"Hello old world number {number}. A man rides a bicycle." for number in range(200))


def test_a_long_text_is_translated_in_parts_and_only_what_changes_is_sent_again(held):  # noqa: F811
    page = held.page
    page.fill("textarea", LONG)
    held.run(250)
    progress = page.locator(".target progress")
    total = int(progress.get_attribute("max"))
    assert total > 2
    texts, come = [], ""
    for number in range(total):
        assert (progress.get_attribute("value"), held.read()["busy"]) == (str(number), "true")
        assert page.inner_text(".target .progress span") == f"Part {number + 1} of {total}"
        if number == 1:
            held.answer(status=429, content=error("rate"), headers={"Retry-After": "1"})
            assert held.read()["words"] == come
            held.run(1000)
        if number == 2:
            held.fail()
            assert held.read()["words"] == come  # the parts that were there
            click(held, "Try again")
        texts += answer_parts(held, 1)
        come = held.read()["words"]
    assert "".join(texts) == LONG
    expected = page_server.translation({"text": LONG, "source": "en", "target": "de"}, "ende")
    state = held.read()
    assert state["words"] == expected["translations"][0]["text"]
    assert (state["isComplete"], progress.count()) == (True, 0)
    sent = len(held.sent())
    page.fill("textarea", LONG + " Good morning.")
    held.run(250)
    held.answer()
    (request,) = [one for one in held.sent()[sent:] if "stream" in one["path"]]
    assert request["body"]["text"] == texts[-1] + " Good morning."
    assert held.read()["words"] == expected["translations"][0]["text"] + " Gut Morgen."
    words = page.locator(".words [data-word]")
    words.last.click()
    held.run()
    assert held.waiting("alternatives")[-1]["body"]["text"] == "Good morning."


@pytest.mark.parametrize("way", ["history", "link"])
def test_a_text_that_is_opened_has_no_changes_of_the_one_before(held, way):  # noqa: F811
    """Also if they have a sentence in common."""
    page, text = held.page, "Hello old world. A man rides."
    held.translate(text)
    click(held, "Edit")
    page.keyboard.type("Ja ")
    held.run()
    edited = held.read()["words"]
    page.fill(".source textarea", "A man rides. Hello old world.")
    held.run(250)
    held.answer()
    assert button(page, "Undo my changes").count() == 1
    if way == "history":
        click(held, "History")
        page.locator(".entry").last.click()
    else:
        page.evaluate(
            "(hash) => { location.hash = hash; }", urlencode({"text": "Hello old world. A man rides."})
        )
    held.run()
    held.answer()
    assert (held.read()["text"], held.read()["words"]) == (text, "Hallo alte Welt. Ein Mann fährt.")
    assert edited != held.read()["words"]
    assert button(page, "Undo my changes").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_buttons_of_a_translation_keep_their_places_when_others_come(held, width):  # noqa: F811
    """Else a second click at the same place would be one on another button."""
    page = held.page
    size = page.viewport_size
    page.set_viewport_size({"width": width, "height": size["height"]})
    held.translate("Hello.")

    def places() -> list:
        return [page.locator(f"#{name}").bounding_box() for name in ("edit", "others", "copy", "save")]

    before = places()
    for act in (lambda: page.click("#edit"), lambda: page.keyboard.type("Ja "), lambda: page.click("#edit")):
        act()
        held.run()
        assert places() == before
    page.set_viewport_size(size)
    assert button(page, "Undo my changes").count() == 1


def sentences_by_parts(texts: list[str]) -> list[int]:
    """How many sentences there are after each part."""
    answers = (page_server.translation({"text": text}, "ende")["translations"][0] for text in texts)
    return list(accumulate(len(answer["sentences"]) for answer in answers))


def test_the_words_of_a_long_text_are_aligned_part_by_part(held):  # noqa: F811
    """As far as the parts have come. One that fails is asked for again when the focus comes back."""
    page = held.page
    page.fill("textarea", LONG)
    held.run(250)
    texts = answer_parts(held, int(page.locator(".target progress").get_attribute("max")))
    ends = sentences_by_parts(texts)
    page.locator(".words [data-word]").first.focus()
    held.run()
    for number, text in enumerate(texts):
        (request,) = held.waiting("v1/translate")
        assert (request["body"]["text"], request["body"]["alignment"]) == (text, True)
        if number == 1:
            held.fail()
            page.focus("textarea")
            held.run()
        assert held.answer()["body"]["text"] == text
        for place, end in enumerate(ends):
            page.locator(f".words [data-sentence='{end - 1}']").last.focus()
            state = held.read()
            ((_, sentence, word),) = state["marked"]
            assert state["aligned"] == ([["source", sentence, word]] if place <= number else [])
    assert held.waiting("v1/translate") == []


def test_more_translations_of_a_long_text_come_part_by_part(held):  # noqa: F811
    """Those that have come stay if a part fails. One that is chosen takes the place of its own sentence."""
    page = held.page
    page.fill("textarea", LONG)
    held.run(250)
    texts = answer_parts(held, int(page.locator(".target progress").get_attribute("max")))
    ends = sentences_by_parts(texts)
    former = held.read()["words"]
    for failing in (1, None):
        click(held, "More translations")
        shown = 0
        for number, text in enumerate(texts):
            assert (page.locator(".others").count(), page.locator(".panel .note").count()) == (shown, 2)
            if number == failing:
                held.fail()
                break
            assert held.answer()["body"]["text"] == text
            shown = ends[number]
        assert (page.locator(".others").count(), page.locator(".panel .note").count()) == (shown, 1)
        assert page.locator(".panel .failure").count() == (failing is not None)
        assert held.waiting("v1/translate") == []
        if failing is not None:
            click(held, "Close")
    chosen = page.locator(".others").nth(ends[-2]).locator("button").nth(1)
    sentence = page.locator(f".words [data-sentence='{ends[-2]}']")
    before, after = "".join(sentence.all_inner_texts()), chosen.inner_text()
    assert before != after.replace(" ", "")
    chosen.click()
    held.run()
    assert "".join(sentence.all_inner_texts()) == after.replace(" ", "")
    assert len(held.read()["words"]) - len(former) == len(after.split()[-2]) + 1


@pytest.mark.parametrize(("status", "code"), [(504, "deadline_passed"), (413, "too_long")])
def test_a_part_that_takes_too_long_is_cut(held, status, code):  # noqa: F811
    page = held.page
    text = LONG[:3000]
    page.fill("textarea", text)
    held.run(250)
    held.answer(status=status, content=error(code))
    total = int(page.locator(".target progress").get_attribute("max"))
    assert "".join(answer_parts(held, total)) == text
    assert held.read()["isComplete"]


def test_the_language_of_a_long_text_is_that_of_its_beginning(held):  # noqa: F811
    page = held.page
    page.select_option(SOURCE, "auto")
    page.select_option(TARGET, "en")
    page.fill("textarea", "Der alte Garten. " * 600)
    held.run(250)
    total = int(page.locator(".target progress").get_attribute("max"))
    answer_parts(held, total)
    sources = [one["body"]["source"] for one in held.sent() if "stream" in one["path"]]
    assert sources == ["auto", *["de"] * (total - 1)]
    assert (held.read()["isComplete"], held.read()["detected"]) == (True, "German (detected)")


def test_a_long_text_is_printed_whole(held):  # noqa: F811
    page = held.page
    page.fill("textarea", LONG)
    held.run(250)
    answer_parts(held, int(page.locator(".target progress").get_attribute("max")))
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        hidden = page.locator(".pane > .text").evaluate_all(
            "(all) => all.map((text) => text.scrollHeight > text.clientHeight)"
        )
        assert hidden == [media == "screen"] * 2
    page.emulate_media(media="screen")


def test_both_panes_scroll_together(held):  # noqa: F811
    page = held.page
    page.fill("textarea", LONG)
    held.run(250)
    answer_parts(held, int(page.locator(".target progress").get_attribute("max")))
    shares = """() => [...document.querySelectorAll(".pane > .text")].map(
      (one) => one.scrollTop / (one.scrollHeight - one.clientHeight))"""
    for side, share in (("source", 0.5), ("target", 1), ("source", 0), ("target", 0.25)):
        page.evaluate(
            """([side, share]) => {
              const text = document.querySelector(`.${side} > .text`);
              text.scrollTop = share * (text.scrollHeight - text.clientHeight);
              return drawn();
            }""",
            [side, share],
        )
        page.evaluate("() => drawn()")
        assert page.evaluate(shares) == pytest.approx([share, share], abs=0.02)


def test_keys_swap_copy_and_open_the_help(held):  # noqa: F811
    page = held.page
    held.translate("Hello world.")
    translation = held.read()["words"]
    notes_copies(held)
    page.keyboard.press("Control+Shift+Enter")
    held.run()
    assert page.evaluate("copied") == translation
    page.keyboard.press("Control+/")
    held.run()
    assert held.read()["panel"] == "Help"
    assert page.locator(".shortcuts kbd").first.inner_text() == "Ctrl"
    page.keyboard.press("Escape")
    held.run()
    assert (held.read()["panel"], held.read()["focus"]) == (None, "Help")
    page.keyboard.press("Control+Shift+S")
    held.run()
    assert (held.read()["text"], held.read()["source"]["value"]) == (translation, "de")


def many_models() -> list[dict]:
    codes = {
        "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
        "sv": "Swedish", "da": "Danish", "fi": "Finnish", "cs": "Czech", "el": "Greek", "tr": "Turkish",
        "uk": "Ukrainian", "de": "German",
    }  # fmt: skip
    return [
        MODELS[0] | {"name": f"en{code}", "target": code, "target_name": name, "adapters": []}
        for code, name in codes.items()
    ]


def test_many_languages_are_in_order_and_found_by_their_names(unopened, page_url):  # noqa: F811
    held, page = unopened, unopened.page  # noqa: F811
    held.open(page_url, models=many_models())
    field = page.get_by_label("Language of the translation")
    names = page.locator(".languages datalist option").evaluate_all("(all) => all.map((one) => one.value)")
    assert names == sorted(one["target_name"] for one in many_models())
    assert field.input_value() == "French"
    for typed, found in (
        ("ukr", "Ukrainian"),
        ("German", "German"),
        ("nonsense", "German"),
        ("is", "German"),
    ):
        field.focus()
        assert field.input_value() == ""
        page.keyboard.type(typed)
        page.keyboard.press("Tab")
        held.run()
        assert field.input_value() == found
    held.page.fill("textarea", "Hello.")
    held.run(250)
    assert held.sent()[-1]["body"]["target"] == "de"


def test_a_model_without_languages_says_what_it_does(unopened, page_url):  # noqa: F811
    held, page = unopened, unopened.page  # noqa: F811
    names = {"source": "und", "target": "und", "source_name": "Spelling", "target_name": "Phonemes"}
    held.open(page_url, models=[MODELS[0] | names])
    assert "phonemes" in page.inner_text(".introduction")
    page.reload()
    held.begin([MODELS[0] | names | {"source_name": "Source", "target_name": "Target"}])
    assert page.inner_text(".introduction") == "This model reads: Source. It writes: Target."
    page.fill("textarea", "hello")
    held.run()
    assert page.locator(".introduction").count() == 0


GERMAN_ARABIC = {
    "source": "de",
    "target": "ar",
    "pivot": "en",
    "source_name": "German",
    "target_name": "Arabic",
}


def answer_by_pivot(held: HeldPage) -> None:  # noqa: F811
    """Answer the last request for a translation as a server does that goes by way of English."""
    request = held.sent()[-1]
    pair = {"model": "deen+enar", "pivot": "en", "source": "de", "target": "ar"}
    answer = page_server.translation({**request["body"], "source": "en", "model": "enar"}, "enar") | pair
    is_stream = request["path"].endswith("stream")
    held.answer(content=b"".join(page_server.events(answer)) if is_stream else answer)


def test_languages_that_a_third_one_joins_are_offered_and_named_in_every_request(unopened, page_url):  # noqa: F811
    held, page = unopened, unopened.page  # noqa: F811
    page.goto(page_url)
    page.evaluate("""localStorage["dragoman.terms"] = '{"de-ar": [["hallo", "مرحبا"]]}'""")
    held.open(page_url, pivots=[GERMAN_ARABIC])
    for source in ("de", "auto"):
        page.select_option(SOURCE, source)
        page.select_option(TARGET, "ar")
        page.fill("textarea", "Hallo Welt.")
        held.run(250)
        asked = held.sent()[-1]["body"]
        assert asked == {"source": source, "target": "ar", "text": "Hallo Welt."}
        answer_by_pivot(held)
        assert page.inner_text(".model > span") == "By way of English: no model has both languages."
        state = held.read()
        assert (state["failure"], state["isComplete"], state["inside"]) == (None, True, None)
        word(page, 1).click()
        held.run()
        about = held.sent()[-1]["body"]
        assert (about.get("model"), about["source"], about["target"]) == (None, "de", "ar")
        held.answer(status=400, content={"error": {"code": "pivot", "message": "No model …"}})
        assert held.read()["note"] == "There are no alternatives in a translation by way of another language."
        page.keyboard.press("Escape")
        click(held, "More translations")
        answer_by_pivot(held)
        page.click(".others li:nth-child(2) button")
        held.run()
        for request in held.waiting("v1/translate"):
            assert (request["body"].get("model"), request["body"].get("terms")) == (None, None)
        click(held, "More translations")
        assert held.read()["isComplete"]
        page.click("#terms")
        held.run()
        assert ("by way of another language" in page.inner_text(".panel .note")) == (source == "de")
        page.click("#terms")
        held.run()

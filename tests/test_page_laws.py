"""Laws of the page for translating: what it shows, sends and stores after any sequence of actions.

The tests hold the network and the clock (`held_page.py`), so they wait for nothing. They are short forms;
`test_page.py` has the long tests, with a server and real time.
"""

import json
import re
from itertools import accumulate
from math import exp
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import pytest

from dragoman.inspection.schema import to_json
from dragoman.serving import docs
from tests import page_server
from tests.browser import browser  # noqa: F401
from tests.held_page import MAX_N_BEST, MODELS, REFUSAL, HeldPage, answer_to
from tests.test_page import MAX_MILLISECONDS, WIDE, button, open_page, page_url, translate, word  # noqa: F401
from tests.test_report import fake_inspection

SENTENCES = [
    "Hello world.",
    "A man rides a bicycle!",
    "🙂 Good morning",
    "Der alte Garten ist schön.",
    "river",
]
CHOICES = [
    {
        "label": f"{model['name']} with {adapter}" if adapter else model["name"],
        "model": model["name"],
        "adapter": adapter,
        "source": model["source"],
        "target": model["target"],
    }
    for model in MODELS
    for adapter in (None, *model.get("adapters", []))
]
DOCS = Path(__file__).parents[1] / "docs"
STORED = {
    "dragoman.glossary",
    "dragoman.history",
    "dragoman.history.off",
    "dragoman.model",
    "dragoman.terms",
    "dragoman.theme",
}
WORDS = ["hello", "world", "old", "garden", "river", "Garten"]
SOURCE, TARGET = "[aria-label='Language of the text']", "[aria-label='Language of the translation']"


@pytest.fixture(scope="module")
def shared(browser):  # noqa: F811
    """A page for all tests: to open one takes longer than most of them. And the errors of its scripts."""
    context = browser.new_context(viewport={"width": WIDE.width, "height": 740})
    page, faults = context.new_page(), []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("console", lambda line: "Content Security Policy" in line.text and faults.append(line.text))
    page.set_default_timeout(MAX_MILLISECONDS)
    yield HeldPage(page), faults
    context.close()


@pytest.fixture
def unopened(shared):
    """The page, with nothing stored. Afterwards: no script has failed."""
    held, faults = shared
    faults.clear()
    held.reset()
    yield held
    assert faults == []


@pytest.fixture
def held(unopened, page_url):  # noqa: F811
    """The page with its models; its network and its clock are held."""
    unopened.open(page_url)
    return unopened


@pytest.mark.short_form
def test_a_text_is_translated_while_it_is_typed(open_page, page_url):  # noqa: F811
    """With a server and in real time, as the long tests."""
    page = open_page(WIDE)
    translate(page, page_url)


# Any sequence of actions


class Controls:
    """What the page's controls should say after each action, and what the browser should keep."""

    def __init__(self) -> None:
        self.label, self.history = "ende", []
        self.glossary, self.rows = "", dict[str, list[list[str]]]()
        self.text, self.source, self.target = "", "en", "de"
        self.reload()

    def reload(self) -> None:
        """The tab keeps the text, the languages and the model, and the browser the glossary that was chosen
        last, the reader's terms, and the history.
        """
        self.former, self.detected = None, ""

    @property
    def from_source(self) -> list[dict]:
        return [one for one in CHOICES if self.source in ("auto", one["source"])]

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(one["target"] for one in self.from_source))

    @property
    def labels(self) -> list[str]:
        return [one["label"] for one in self.from_source if one["target"] == self.target]

    @property
    def spoken(self) -> str:
        return self.detected if self.source == "auto" else self.source

    @property
    def can_swap(self) -> bool:
        pairs = {(one["source"], one["target"]) for one in CHOICES}
        return (self.target, self.spoken) in pairs

    @property
    def glossaries(self) -> list[str]:
        """Those with terms of the languages."""
        pair = (self.source, self.target)
        return [name for name, (_, dictionaries) in page_server.GLOSSARIES.items() if pair in dictionaries]

    @property
    def terms(self) -> list[list[str]]:
        """The reader's terms of the languages."""
        return self.rows.get(f"{self.source}-{self.target}", [])

    def choose(self, source: str, target: str, label: str | None = None) -> None:
        """The first target and the first model take the place of those that do not fit, and no glossary that
        of one that does not fit.
        """
        self.source, self.target = source, target
        self.target = target if target in self.targets else self.targets[0]
        self.label = label or self.label
        self.label = self.label if self.label in self.labels else self.labels[0]
        self.glossary = self.glossary if self.glossary in self.glossaries else ""

    def open(self, text: str) -> None:
        self.text, self.former = text, None
        if not text.strip():
            self.detected = ""

    def type(self, text: str) -> None:
        if text.strip():
            self.text = text
        else:
            self.open(text)

    @property
    def request(self) -> dict:
        body = {"source": self.source, "target": self.target, "text": self.text}
        if self.source != "auto":
            chosen = next(one for one in CHOICES if one["label"] == self.label)
            body |= {name: chosen[name] for name in ("model", "adapter") if chosen[name]}
            body |= {"glossary": self.glossary} if self.glossary else {}
            body |= {"terms": self.terms} if self.terms else {}
        return body

    @property
    def answer(self) -> dict | None:
        """What the server answers; None if it has no model for the language that it detects."""
        model = page_server.model_of(self.request)
        return model and page_server.translation(self.request, model)

    def record(self) -> None:
        """The translation has come: it is the first of the history."""
        if (answer := self.answer) is None:
            return
        translation = answer["translations"][0]["text"]
        self.detected = answer["source"]
        pair = {"source": answer["source"], "target": answer["target"]}
        entry = {"text": self.text, "translation": translation, **pair}
        self.history = with_entry(self.history, entry, self.former)
        self.former = entry


def is_same(one: dict, other: dict) -> bool:
    return (one["text"], one["target"]) == (other["text"], other["target"])


def with_entry(entries: list[dict], entry: dict, former: dict | None) -> list[dict]:
    """The history after a translation. former: the one before, of the same text as it was then."""
    replaced = [entry]
    if former and (former["source"], former["target"]) == (entry["source"], entry["target"]):
        one, other = sorted((former["text"], entry["text"]), key=len)
        replaced += [former] * other.startswith(one)
    kept = [old for old in entries if not any(is_same(old, one) for one in replaced)]
    return [entry, *kept][:50]


def act(held: HeldPage, controls: Controls, action: str) -> None:
    """Do something on the page, and the same with `controls`."""
    page, random = held.page, held.random
    if action == "type":
        for _ in range(random.randint(1, 2)):
            text = random.choice(["", " "]) + " ".join(random.sample(SENTENCES, random.randint(1, 2)))
            page.fill("textarea", text)
            controls.type(text)
            held.run(249)
    elif action == "type on":
        text = random.choice([controls.text + " today", controls.text[:5], "\n"])
        page.fill("textarea", text)
        controls.type(text)
        held.run(250)
    elif action == "source":
        source = random.choice(["auto", "en", "de"])
        page.select_option(SOURCE, source)
        controls.choose(source, controls.target)
    elif action == "target":
        target = random.choice(controls.targets)
        page.select_option(TARGET, target)
        controls.choose(controls.source, target)
    elif action == "model" and controls.source != "auto" and len(controls.labels) > 1:
        label = random.choice(controls.labels)
        page.select_option("[aria-label=Model]", label)
        controls.choose(controls.source, controls.target, label)
    elif action == "glossary" and controls.glossaries:
        controls.glossary = random.choice(["", *controls.glossaries])
        page.select_option("[aria-label=Glossary]", controls.glossary)
    elif action == "term" and controls.source != "auto":
        page.click("#terms")
        held.run()
        terms = controls.terms
        if terms and random.random() < 0.4:
            number = random.randrange(len(terms))
            button(page, f"Remove term {number + 1}").click()
            terms = [*terms[:number], *terms[number + 1 :]]
        else:
            number = random.randint(0, len(terms))
            term = [random.choice(WORDS), random.choice(["X", "(Y)", "Z z"])]
            for label, text in zip(("Term", "Translation of term"), term, strict=True):
                page.get_by_label(f"{label} {number + 1}", exact=True).fill(f" {text} ")
            page.keyboard.press("Enter")
            terms = [*terms[:number], term, *terms[number + 1 :]]
        controls.rows[f"{controls.source}-{controls.target}"] = terms
        held.run(0)
        page.click("#terms")
    elif action == "swap" and controls.can_swap:
        state = held.read()
        button(page, "Swap the languages").click()
        if state["isComplete"]:
            controls.type(state["words"])
        controls.choose(controls.target, controls.spoken)
    elif action == "clear" and controls.text:
        button(page, "Clear").click()
        controls.open("")
    elif action == "example" and not controls.text:
        text = page.inner_text(".example button")
        page.click(".example button")
        controls.open(text)
    elif action == "restore" and controls.history:
        if held.read()["panel"] != "History":
            button(page, "History").click()
            held.run()
        number = random.randrange(len(controls.history))
        page.locator(".entry").nth(number).click()
        entry = controls.history[number]
        controls.open(entry["text"])
        controls.choose(entry["source"], entry["target"])
    elif action == "at once":
        page.focus("textarea")
        page.keyboard.press(random.choice(["Control+Enter", "Meta+Enter"]))
    elif action == "reload":
        page.reload()
        controls.reload()
        held.begin()


def answer_in_any_order(held: HeldPage, controls: Controls) -> None:
    """Answer all requests, also those that were aborted. Until the last one is answered, nothing that came
    before it is shown as the translation.
    """
    requests = held.waiting()
    posted = [request for request in requests if request["body"]]
    translations = [request["number"] for request in posted if "alignment" not in request["body"]]
    current = translations[-1] if translations and controls.text.strip() else None
    held.random.shuffle(requests)
    for request in requests:
        held.answer(request["number"])
        if request["number"] == current:
            controls.record()
            current = None
        elif current is not None:
            state = held.read()
            assert state["words"] == state["pale"]
            assert (state["busy"], state["isComplete"], state["enabled"][1]) == ("true", False, False)


ACTIONS = [
    "type",
    "type on",
    "source",
    "target",
    "model",
    "glossary",
    "term",
    "swap",
    "clear",
    "example",
    "restore",
    "at once",
]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_the_page_shows_the_answer_to_what_its_controls_say(held, seed):
    """After any actions, and with answers in any order, the page shows what the server answers to exactly
    what the controls say; it sends nothing else, and stores nothing but the history, the reader's terms, and
    the choice of model and glossary.
    """
    controls = Controls()
    held.random = Random(seed)
    address = held.read()["address"]
    for number in range(15):
        if number % 5 == 4:
            act(held, controls, "reload")
        held.page.evaluate("deaf = true")
        begun = len(held.sent())
        for action in held.random.choices(ACTIONS, weights=[3, 2, 3, 2, 2, 3, 3, 3, 1, 1, 1, 1], k=3):
            act(held, controls, action)
            held.run(0)
        held.run(250)
        answer_in_any_order(held, controls)
        check_page(held.read(), controls)
        check_requests(held.sent()[begun:], controls)
        assert held.read()["address"] == address


def check_page(state: dict, controls: Controls) -> None:
    """The page shows the controls, and the translation of its text."""
    shown = {name: state[name]["value"] for name in ("source", "target")}
    assert shown == {"source": controls.source, "target": controls.target}
    assert state["source"]["options"] == ["auto", "en", "de"]
    assert state["target"]["options"] == sorted(
        controls.targets, key=lambda code: (code != "en", page_server.LANGUAGES[code])
    ), "the browser's language comes first, then the others by name"
    assert state["text"] == controls.text
    assert state["count"] == f"{len(controls.text)} character{'s' * (len(controls.text) != 1)}"
    assert set(state["local"]) <= STORED
    kept = json.loads(state["session"].pop("dragoman.text"))
    pair = {"source": controls.source, "target": controls.target, "model": controls.label}
    assert (kept, state["session"]) == ({"text": controls.text, "edits": [], **pair}, {})
    assert state["local"]["dragoman.model"] == controls.label
    assert json.loads(state["local"].get("dragoman.history", "[]")) == controls.history
    stored = json.loads(state["local"].get("dragoman.terms", "{}"))
    trimmed = {pair: [[text.strip() for text in row] for row in rows] for pair, rows in stored.items()}
    assert trimmed == {pair: rows for pair, rows in controls.rows.items() if rows}
    assert state["local"].get("dragoman.glossary", "") == controls.glossary
    glossaries = {"value": controls.glossary, "options": ["", *controls.glossaries]}
    assert state["glossary"] == (glossaries if controls.glossaries else None)
    assert state["terms"] == (f"Terms · {len(controls.terms)}" if controls.terms else "Terms")
    assert (state["key"], state["busy"]) == (False, "false")
    names = {"de": "German", "en": "English"}
    is_detected = controls.source == "auto" and controls.detected
    names["auto"] = f"{names[controls.detected]} (detected)" if is_detected else "Detect language"
    assert state["detected"] == names[controls.source]
    is_chosen = controls.source != "auto" and len(controls.labels) > 1
    labels = sorted(controls.labels)
    assert state["model"] == ({"value": controls.label, "options": labels} if is_chosen else None)
    if not controls.text.strip():
        assert (state["words"], state["told"], state["isComplete"]) == ("", "", False)
        assert state["enabled"] == [controls.can_swap, False, bool(controls.text), False]
        assert (state["example"] is None) == bool(controls.text)
        assert (state["inside"], state["failure"], state["unused"]) == (None, None, [])
        return
    answer = controls.answer
    if answer is None:
        message = REFUSAL["error"]["message"]
        assert (state["failure"], state["told"], state["again"]) == (message, message, False)
        assert (state["words"], state["isComplete"], state["inside"]) == (state["pale"], False, None)
        assert state["languages"] == [controls.spoken, controls.target, "en"]
        return
    assert state["failure"] is None
    assert state["languages"] == [controls.spoken, controls.target, controls.target]
    (translated,) = answer["translations"]
    assert (state["words"], state["told"], state["isComplete"]) == (
        translated["text"],
        translated["text"].strip(),
        True,
    )
    unused = translated.get("unused_terms", [])
    assert state["unused"] == [f"{source} → {target}" for source, target in unused]
    assert state["enabled"] == [controls.can_swap, True, True, True]
    assert state["example"] is None
    model = next(one for one in MODELS if one["name"] == answer["model"])
    facts = f"{model['parameters'] / 1e6:g} million parameters · int8"
    assert facts in state["line"]
    asked_about = {"text": translated["sentences"][0]["source"], "model": answer["model"]}
    asked_about["adapter"] = answer["adapter"]
    assert state["inside"] == f"inspect#{urlencode(asked_about)}"
    assert ("first sentence" in state["line"]) == (len(translated["sentences"]) > 1)


def check_requests(requests: list[dict], controls: Controls) -> None:
    """The last request is for what the controls say, and those before it were aborted. Alignments of the
    same model may be asked for as well, and the terms of glossaries.
    """
    listings = [request for request in requests if request["method"] == "GET"]
    assert all(request["path"].startswith("v1/glossaries/") for request in listings)
    requests = [request for request in requests if request not in listings]
    for request in requests:
        assert request["method"] == "POST"
        assert request["headers"] == {"Content-Type": "application/json"}
        assert request["body"]["text"].strip()
        is_whole = "alignment" in request["body"]
        assert request["path"] == ("v1/translate" if is_whole else "v1/translate/stream")
    translations = [number for number, one in enumerate(requests) if "alignment" not in one["body"]]
    if controls.text.strip() and translations:
        last = translations[-1]
        assert requests[last]["body"] == controls.request
        assert not requests[last]["aborted"]
        for request in requests[last + 1 :]:
            answer = controls.answer
            names = ("model", "source", "target", *(["adapter"] if answer["adapter"] else []))
            body = {"text": controls.text, "alignment": True} | {name: answer[name] for name in names}
            terms = {
                name: controls.request[name] for name in ("glossary", "terms") if name in controls.request
            }
            assert request["body"] == body | terms
        assert len(requests[last + 1 :]) <= 1
    else:
        last = len(requests)
    assert all(request["aborted"] for request in requests[:last])


# Words


def sentences_of(answer: dict) -> list[dict]:
    return answer["translations"][0]["sentences"]


def mean_probability(hypotheses: list[dict]) -> float:
    scored = [one for one in hypotheses if one["tokens"]]
    tokens = sum(len(one["tokens"]) + 1 for one in scored)
    return exp(sum(one["log_probability"] for one in scored) / tokens)


def centres(page, side: str) -> list[tuple[int, int, float, float]]:
    """Sentence, number and place of each word of a side."""
    return page.evaluate(
        """(side) => [...document.querySelectorAll(`[data-side=${side}]`)].map((word) => {
          const box = word.getClientRects()[0];
          return [+word.dataset.sentence, +word.dataset.word, box.x + box.width / 2, box.y + box.height / 2];
        })""",
        side,
    )


def share(log_probability: float | None) -> str:
    """How the menu shows a probability; a logarithm of null is that of 0."""
    percent = 0 if log_probability is None else 100 * exp(log_probability)
    return f"{percent:.0f} %" if percent >= 1 else "< 1 %"


def shown_alternatives(found: list[dict]) -> list[dict]:
    """The likely ones; if these are few, four of all."""
    likely = [
        one for one in found if one["log_probability"] is not None and exp(one["log_probability"]) >= 1e-3
    ]
    return likely if len(likely) >= 4 else found[:4]


LETTER = "🙂 Hello old world.  A man rides.\n\nGood morning, today 🙂!"


def test_the_words_that_are_marked_are_those_that_are_aligned(held):
    """Under the pointer on both sides, at the focus and at the caret, for alignments of any words; the page
    asks for them once, and not before the pointer or the focus comes.
    """
    page = held.page
    page.fill("textarea", LETTER)
    page.evaluate("document.activeElement.blur()")
    held.run(250)
    held.answer()
    asked_before = len(held.sent())
    (_, _, x, y), *_ = centres(page, "target")
    page.mouse.move(x, y)
    held.run()
    (request,) = held.sent()[asked_before:]
    pair = {"model": "ende", "source": "en", "target": "de"}
    assert request["body"] == pair | {"text": LETTER, "alignment": True}
    answer = answer_to(request)
    counts = [len(sentence["source"].split()) for sentence in sentences_of(answer)]
    for sentence, count in zip(sentences_of(answer), counts, strict=True):
        all_pairs = [[one, other] for one in range(count) for other in range(count)]
        sentence["alignment"] = held.random.sample(all_pairs, 2 * count - 1)
    held.answer(request["number"], content=answer)
    alignments = [sentence["alignment"] for sentence in sentences_of(answer)]

    def check_marks(side: str, sentence: int, number: int) -> None:
        own, other = (0, "target") if side == "source" else (1, "source")
        aligned = {pair[1 - own] for pair in alignments[sentence] if pair[own] == number}
        state = held.read()
        assert state["marked"] == [[side, sentence, number]]
        assert sorted(state["aligned"]) == [[other, sentence, one] for one in sorted(aligned)]

    check_marks("target", 0, 0)
    for side in ("target", "source"):
        for sentence, number, x, y in held.random.sample(centres(page, side), 6):
            page.mouse.move(x, y)
            check_marks(side, sentence, number)
        page.mouse.move(0, 0)
        state = held.read()
        assert (state["marked"], state["aligned"]) == ([], [])
    caret = "([place]) => document.querySelector('textarea').setSelectionRange(place, place)"
    page.focus("textarea")
    starts = [(match.start(), match[0]) for match in re.finditer(r"\S+", LETTER)]
    places = [(sentence, number) for sentence, count in enumerate(counts) for number in range(count)]
    for (start, text), place in zip(starts, places, strict=True):
        units = len(LETTER[: start + len(text)].encode("utf-16-le")) // 2
        page.evaluate(caret, [units])
        held.run()
        check_marks("source", *place)
    words = page.locator(".words [data-word]")
    for number in (0, len(places) - 1):
        words.nth(number).focus()
        check_marks("target", *places[number])
    page.evaluate("document.activeElement.blur()")
    assert held.read()["marked"] == []
    assert len(held.sent()) == asked_before + 1


def test_whatever_is_chosen_for_a_sentence_takes_its_place(held):
    """Alternatives of any word, and other translations of any sentence: the text, the history, the buttons
    and the probability are those of the chosen translations, with answers in any order.
    """
    page, random = held.page, held.random
    page.evaluate("deaf = true")
    pair = {"model": "ende", "source": "en", "target": "de"}
    shown = held.translate(LETTER)
    chosen = sentences_of(page_server.translation(pair | {"text": LETTER}, "ende"))
    pattern = shown["words"]
    for sentence in chosen:
        pattern = pattern.replace(sentence["text"], "{}", 1)

    def check_choice() -> None:
        state = held.read()
        text = pattern.format(*(one["text"] for one in chosen))
        (entry,) = json.loads(state["local"]["dragoman.history"])
        assert (state["words"], state["told"], entry["translation"]) == (text, text, text)
        assert state["isComplete"]

    def check_scores() -> None:
        check_choice()
        probability = mean_probability(chosen)
        names = [(0.8, "Very sure"), (0.6, "Fairly sure"), (0.4, "Unsure"), (0, "Very unsure")]
        name = next(name for least, name in names if probability >= least)
        state = held.read()
        assert state["sure"] == f"{name} · {probability:.2f}"
        assert state["level"] == f"{max(round(5 * probability), 1)}"

    def answer_scores(index: int, *, is_continued: bool = False) -> None:
        """The scores of a sentence that was chosen; if the server writes more than that, they are not its."""
        (request,) = [one for one in held.waiting() if one["body"].get("prefix") == chosen[index]["text"]]
        asked_for = {"text": chosen[index]["source"], "prefix": chosen[index]["text"]}
        assert request["body"] == pair | asked_for | {"split_sentences": False, "alignment": True}
        answer = answer_to(request)
        (scored,) = sentences_of(answer)
        scored["log_probability"] -= random.random() * 3
        chosen[index] |= {name: scored[name] for name in ("tokens", "log_probability")}
        if is_continued:
            chosen[index]["tokens"] = None
            scored["text"] = answer["translations"][0]["text"] = scored["text"] + " mehr"
        held.answer(request["number"], content=answer)

    check_scores()
    for round_number in range(4):
        index = random.randrange(len(chosen))
        words = chosen[index]["text"].split()
        number = random.randrange(len(words))
        others = page.locator(f'.words [data-sentence="{random.randrange(len(chosen))}"]')
        others.last.click()  # its alternatives come too late
        page.locator(f'.words [data-sentence="{index}"][data-word="{number}"]').click()
        held.run()
        requests = held.waiting("alternatives")
        prefix = " ".join(words[:number])
        body = {"text": chosen[index]["source"], "prefix": prefix, "count": 8}
        assert requests[-1]["body"] == pair | body
        assert [request["aborted"] for request in requests[-2:]] == [True, False]
        found = answer_to(requests[-1])["alternatives"][: random.randint(3, 8)]
        found[1]["log_probability"] = random.choice([None, -9])
        twice = [*found, {**found[0], "log_probability": -5}]
        for request in random.sample(requests, len(requests)):
            content = {"alternatives": twice} if request is requests[-1] else None
            held.answer(request["number"], content=content)
        found = shown_alternatives(found)
        state = held.read()
        assert state["menu"] == [one["text"] for one in found]
        assert state["shares"] == [share(one["log_probability"]) for one in found]
        for one, differing in zip(found, state["differing"], strict=True):
            assert one["text"].removeprefix(prefix).strip().startswith(differing.strip() or "nothing")
        current = [one["text"] == chosen[index]["text"] for one in found]
        assert state["marked"] == [["target", index, number]]  # while the menu is open
        assert page.locator(".menu button").evaluate_all("(all) => all.map((one) => one.className)") == [
            "current" * is_current for is_current in current
        ]
        take = random.randrange(len(found))
        page.locator(".menu button").nth(take).click()
        chosen[index]["text"] = found[take]["text"]
        assert held.read()["menu"] is None
        check_choice()
        answer_scores(index, is_continued=round_number == 1)
        check_scores()
    button(page, "More translations").click()
    held.run()
    (request,) = [one for one in held.waiting() if "n_best" in one["body"]]
    count = {"n_best": MAX_N_BEST, "beam_size": MAX_N_BEST}
    assert request["body"] == pair | {"text": LETTER} | count
    found = sentences_of(answer_to(request))
    held.answer(request["number"])
    assert (held.read()["panel"], held.read()["focus"]) == ("More translations", "More translations")
    assert page.locator("ol.others").count() == len(found)
    assert page.locator(".panel h3").all_inner_texts() == [one["source"] for one in found]
    hypotheses = [one for sentence in found for one in sentence["n_best"]]
    assert page.locator("ol.others button").all_inner_texts() == [one["text"] for one in hypotheses]
    assert page.locator(".score").all_inner_texts() == [f"−{-one['score']:.2f}" for one in hypotheses]
    order = random.sample(range(len(found)), len(found))
    for index in order:
        take = random.randrange(1, MAX_N_BEST)
        page.locator("ol.others").nth(index).locator("button").nth(take).click()
        chosen[index]["text"] = found[index]["n_best"][take]["text"]
        check_choice()
    held.run()
    assert held.read()["pressed"] == [one["text"] for one in chosen]
    for index in random.sample(order, len(order)):
        answer_scores(index)
    check_scores()
    button(page, "More translations").click()
    assert held.read()["panel"] is None


def test_the_part_of_an_alternative_that_is_emphasised_is_the_one_that_differs(held):
    """The rest of the tail is the longest that both translations have, but a word is left before it."""
    words, cases = ["der", "alte", "Garten", "ist", "schön."], []
    for _ in range(200):
        prefix = held.random.choices(words, k=held.random.randint(0, 2))
        both = [prefix + held.random.choices(words, k=held.random.randint(1, 4)) for _ in range(2)]
        cases.append([" ".join(one) for one in (*both, prefix)])
    found = held.page.evaluate(
        """async (cases) => {
          const { difference } = await import("/page/words.js");
          return cases.map((one) => difference(...one));
        }""",
        cases,
    )
    for (other, text, prefix), shown in zip(cases, found, strict=True):
        assert prefix + shown["differing"] + shown["tail"] == other
        differing, tail = shown["differing"].split(), shown["tail"].split()
        former = text.removeprefix(prefix).split()
        assert differing
        assert former[len(former) - len(tail) :] == tail
        before = former[: len(former) - len(tail)]
        assert len(differing) == 1 or not before or differing[-1] != before[-1]


def test_the_word_of_an_open_menu_stays_marked_whatever_is_pointed_at(held):
    page = held.page
    held.translate("Hello old world. A man rides.")
    held.answer_all()
    word(page, 1).hover()
    held.run()
    held.answer_all()
    word(page, 1).click()
    held.run()
    held.answer(held.waiting("alternatives")[-1]["number"])
    expected = [["target", 0, 1]], [["source", 0, 1]]
    for selector in (".menu button >> nth=1", ".top .name", ".words [data-word] >> nth=3", "textarea"):
        page.hover(selector, force=True)
        held.run()
        assert (held.read()["marked"], held.read()["aligned"]) == expected
    page.mouse.move(0, 0)
    page.click("footer p >> nth=0")
    held.run()
    assert (held.read()["menu"], held.read()["marked"]) == (None, [])


def test_a_sentence_that_was_chosen_has_no_alignment_of_the_one_before(held):
    page = held.page
    held.translate("Hello old world. A man rides.")
    page.evaluate("document.activeElement.blur()")
    for request in held.waiting():
        held.answer(request["number"], status=500, content={})
    word(page, 4).hover()
    held.run()
    (of_both,) = held.waiting()
    word(page, 1).click()
    held.run()
    held.answer(held.waiting("alternatives")[-1]["number"])
    page.locator(".menu button").nth(1).click()
    (of_one,) = (request for request in held.waiting() if "prefix" in request["body"])

    def aligned(number: int) -> bool:
        word(page, number).hover()
        held.run()
        assert len(held.read()["marked"]) == 1
        return held.read()["aligned"] != []

    held.answer(of_both["number"])
    assert [aligned(0), aligned(4)] == [False, True]
    held.answer(of_one["number"])
    assert [aligned(0), aligned(4)] == [True, True]
    word(page, 1).click()
    held.run()
    held.answer(held.waiting("alternatives")[-1]["number"])
    page.locator(".menu button").nth(2).click()
    assert [aligned(0), aligned(4)] == [False, True]


def test_words_sentences_and_alignments_of_any_script(held):
    found = held.page.evaluate(
        """async () => {
          const words = await import("/page/words.js");
          const answer = { model: "m", source: "en", target: "de", translations: [{
            text: "🙂🙂 Ja.  Nein 🙂!",
            sentences: [
              { source: "🙂 Yes.", text: "🙂🙂 Ja.", tokens: ["a", "b", "c"],
                log_probability: 4 * Math.log(0.5),
                source_start: 0, source_end: 6, start: 0, end: 6, alignment: [[0, 0], [1, 1], [1, 0]] },
              { source: "No!", text: "Nein 🙂!", tokens: [], log_probability: 0,
                source_start: 7, source_end: 10, start: 8, end: 15 },
            ] }] };
          const result = words.toResult(answer, "🙂 Yes. No!", "text");
          const list = (result, side) => words.pieces(result, side).filter((one) => one.word !== undefined)
            .map((one) => `${one.sentence}${one.word}${one.text}`);
          const longer = words.withHypothesis(result, 0, { text: "🙂 Jawohl ja." });
          const chinese = { sourceText: "", text: "今天天气很好。", sentences: [{ start: 0, end: 7 }] };
          return {
            source: list(result, "source"), target: list(result, "target"), longer: list(longer, "target"),
            text: longer.text,
            aligned: [...words.alignedWords(result.sentences[0], "source", 1)],
            back: [...words.alignedWords(result.sentences[0], "target", 0)],
            mean: words.meanProbability(result.sentences), none: words.meanProbability([]),
            chinese: words.pieces(chinese, "target").map((one) => one.text),
            joined: words.pieces(result, "target").map((one) => one.text).join(""),
          };
        }"""
    )
    assert found["source"] == ["00🙂", "01Yes.", "10No!"]
    assert found["target"] == ["00🙂🙂", "01Ja.", "10Nein", "11🙂!"]
    assert found["longer"] == ["00🙂", "01Jawohl", "02ja.", "10Nein", "11🙂!"]
    assert found["text"] == "🙂 Jawohl ja.  Nein 🙂!"
    assert found["joined"] == "🙂🙂 Ja.  Nein 🙂!"
    assert found["aligned"] == [1, 0]
    assert found["back"] == [0, 1]
    assert found["mean"] == pytest.approx(0.5)
    assert found["none"] is None
    assert len(found["chinese"]) > 2
    assert "".join(found["chinese"]) == "今天天气很好。"


def test_words_are_those_of_python_and_sureness_grows_with_the_probability(held):
    signs = [*"\x1c\x1f\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000\ufeff\u200b \t\n\r", *"aé🙂.", "ab"]
    texts = ["".join(held.random.choices(signs, k=30)) for _ in range(20)]
    probabilities = [0.1, 0.39, 0.4, 0.59, 0.6, 0.79, 0.8, 1]
    split, sure = held.page.evaluate(
        """async ([texts, probabilities]) => {
          const words = await import("/page/words.js");
          const split = texts.map((text) => {
            const sentence = { sourceStart: 0, sourceEnd: text.length };
            const pieces = words.pieces({ sourceText: text, sentences: [sentence] }, "source");
            return pieces.filter(({ word }) => word !== undefined).map(({ text }) => text);
          });
          return [split, probabilities.map(words.sureness)];
        }""",
        [texts, probabilities],
    )
    assert split == [text.split() for text in texts]
    assert sure == [name for name in ("Very unsure", "Unsure", "Fairly sure", "Very sure") for _ in range(2)]


# Answers that come slowly, wrongly or not at all


def test_the_pieces_that_have_come_are_shown_before_the_former_translation(held):
    """The rest of the former translation is pale, as long as it begins as the new one does."""
    page = held.page
    former = ""
    for text in ("Hello world. A man rides.", "Hello world. A garden.", "Good morning. 🙂 Hello."):
        page.fill("textarea", text)
        held.run(250)
        number = held.sent()[-1]["number"]
        answer = page_server.translation({"text": text, "source": "en", "target": "de"}, "ende")
        events = page_server.events(answer)
        held.answer(number, content=b": nothing yet\n\n", is_end=False)
        pieces = re.findall(r"\s*\S+\s*", answer["translations"][0]["text"])
        for event, come in zip(events[:-1], accumulate(pieces), strict=True):
            held.go_on(number, event)
            state = held.read()
            rest = former.removeprefix(come) if former.startswith(come) else ""
            assert (state["words"], state["pale"]) == (come + rest, rest)
            assert (state["isComplete"], state["busy"], state["told"]) == (False, "true", "")
        if text.startswith("Good"):
            page.keyboard.press("Escape")
            held.run()
            assert held.sent()[number]["aborted"]
            state = held.read()
            assert (state["words"], state["pale"], state["busy"]) == (former, former, "false")
        else:
            head, data = events[-1].split(b"data: ")
            held.go_on(number, head + data.replace(b", ", b",\ndata: ").join([b"data: ", b""]), is_end=True)
            former = answer["translations"][0]["text"]
            assert held.read()["words"] == held.read()["told"] == former
            assert held.read()["isComplete"]


def error(code: str) -> dict:
    return {"error": {"code": code, "message": f"The server says {code}."}}


def stream_of(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


BROKEN = "The connection ended before the translation was complete."
UNREADABLE = "The server’s answer could not be read."
GONE = "The server cannot be reached. Is “dragoman serve” still running?"
OFFLINE = "You are offline. The translation will continue when the connection is back."
FAILURES = [
    (400, error("bad"), "The server says bad.", False),
    (403, error("cross_origin"), "The server says cross_origin.", False),
    (404, error("no_model"), "The server says no_model.", False),
    (413, error("too_long"), "The server says too_long.", False),
    (500, error("internal"), "The server says internal.", True),
    (502, b"<h1>Bad gateway</h1>", "The server answered with status 502.", True),
    (504, error("deadline"), "The server says deadline.", True),
    (200, stream_of("error", error("late")), "The server says late.", True),
    (200, stream_of("piece", {"text": "Hallo"}), BROKEN, True),
    (200, b"event: end\ndata: no JSON\n\n", UNREADABLE, True),
    (0, None, GONE, True),
    (0, None, OFFLINE, True),
]


def test_every_failure_is_a_sentence_until_the_next_good_answer(held):
    page = held.page
    held.translate("Hello world.")
    for status, content, message, can_try_again in FAILURES:
        page.fill("textarea", f"Good morning {held.random.random()}.")
        held.run(250)
        page.context.set_offline(message == OFFLINE)
        if status:
            held.answer(status=status, content=content)
        else:
            held.fail()
        state = held.read()
        assert state["failure"] == message + " Try again" * can_try_again
        assert (state["told"], state["languages"][2], state["busy"]) == (message, "en", "false")
        assert (state["isComplete"], state["key"], state["again"]) == (False, False, can_try_again)
        assert state["words"] == state["pale"] == held_words(held)
        if message == OFFLINE:
            page.context.set_offline(False)
        elif can_try_again:
            button(page, "Try again").click()
            assert held.read()["focus"] == "Text to translate"
        else:
            page.keyboard.press("Control+Enter")
        held.run()
        assert held.read()["failure"] is None
        held.answer()
        state = held.read()
        assert (state["failure"], state["isComplete"], state["words"]) == (None, True, held_words(held))
    sent = len(held.sent())
    page.evaluate("dispatchEvent(new Event('online'))")
    held.run()
    assert len(held.sent()) == sent  # nothing had failed


def held_words(held: HeldPage) -> str:
    """The last translation of the history, which is the last that has come."""
    return json.loads(held.read()["local"]["dragoman.history"])[0]["translation"]


CHANGES = [
    {SOURCE: "de"},
    {SOURCE: "auto", TARGET: "en"},
    {TARGET: "ar"},
    {"[aria-label=Model]": "ende with legal"},
]


def test_the_translation_of_before_a_change_is_not_offered_if_the_change_fails(held):
    page = held.page
    for changes in CHANGES:
        page.select_option(SOURCE, "de" if "auto" in changes.values() else "en")
        page.select_option(TARGET, "en" if "auto" in changes.values() else "de")
        held.translate("river")
        for select, option in changes.items():
            page.select_option(select, option)
        held.answer(status=500, content=error("internal"))
        state = held.read()
        assert (state["isComplete"], state["inside"], state["enabled"][1]) == (False, None, False)
        if state["enabled"][0]:
            button(page, "Swap the languages").click()
            held.run()
            swapped = held.read()
            assert (swapped["text"], swapped["target"]["value"]) == ("river", state["languages"][0])
        button(page, "Clear").click()


def test_a_key_is_asked_for_sent_and_kept_until_the_tab_is_closed(held):
    page = held.page

    def refuse(message: str) -> None:
        held.answer(status=403, content=error("key"))
        assert (held.read()["key"], held.read()["again"]) == (True, False)
        check_failure(message)
        assert page.evaluate("document.activeElement.id") == "key"

    def check_failure(message: str) -> None:
        """It stands beside the field, which names it, and nowhere else."""
        assert page.locator(".failure").all_inner_texts() == [message][: len(message)]
        described = page.get_attribute("#key", "aria-describedby")
        beside = page.inner_text(f"#{described}") if described else ""
        assert beside == page.inner_text("[aria-live]") == message

    assert not held.read()["key"]
    page.fill("textarea", "Hello world.")
    held.run(250)
    refuse("")
    assert page.get_attribute("#key", "type") == "password"
    no_key = "This is no key: it has a character that no key has."
    for text, message in ((" wrong ", None), ("secret\u200b", no_key), ("secret", None)):
        sent = len(held.sent())
        page.fill("#key", text)
        page.keyboard.press("Enter")
        held.run()
        if message:
            check_failure(message)
            assert len(held.sent()) == sent
        else:
            state = held.read()
            assert (state["key"], state["focus"]) == (False, "Text to translate")
            (request,) = held.sent()[sent:]
            assert request["headers"]["Authorization"] == f"Bearer {text.strip()}"
            if text != "secret":
                refuse("The server does not know this key.")
    held.answer()
    state = held.read()
    assert (state["key"], state["failure"], state["isComplete"]) == (False, None, True)
    assert state["session"]["dragoman.key"] == "secret"
    assert "secret" not in json.dumps([state["local"], state["address"]])
    page.reload()
    held.run(50)
    for request, path in zip(held.sent(), ("v1/models", "v1/glossaries"), strict=True):
        assert (request["method"], request["path"], request["body"]) == ("GET", path, None)
        assert request["headers"] == {"Authorization": "Bearer secret"}
        held.answer(request["number"], status=403, content=error("key"))
    assert held.read()["key"]
    page.fill("textarea", "Hello world.")
    held.run(250)
    held.load()
    held.answer()
    assert (held.read()["key"], held.read()["isComplete"]) == (False, True)  # the server wants none any more


BUSY = [("1", 1), ("3", 3), (None, 2), ("soon", 2), ("-5", 1), ("0.2", 1), ("3600", 60)]


def test_a_busy_server_is_asked_again_once_after_the_time_that_it_gives(held):
    page = held.page
    for number, (given, waits) in enumerate(BUSY):
        page.fill("textarea", f"Hello {number}.")
        held.run(250)
        headers = {} if given is None else {"Retry-After": given}
        status, code = ((429, "rate"), (503, "queue_full"))[number % 2]
        held.answer(status=status, content=error(code), headers=headers)
        sent = len(held.sent())
        for seconds in range(waits, 0, -1):
            message = f"The server is busy. Trying again in {seconds} s."
            assert (held.read()["failure"], held.read()["languages"][2]) == (message, "en")
            if seconds == waits:
                assert held.read()["told"] == message
                page.fill("textarea", f"Good morning {number}.")  # it does not hurry the server
            if seconds < 60:
                held.run(900)
                assert len(held.sent()) == sent
                held.run(100)
            else:
                page.keyboard.press("Escape")
                held.run(3000)
                assert (held.read()["failure"], len(held.sent())) == (None, sent)
                break
        else:
            (request,) = held.sent()[sent:]
            assert request["body"]["text"] == f"Good morning {number}."
            held.answer()
            assert (held.read()["failure"], held.read()["isComplete"]) == (None, True)
            held.run(3000)
            assert len([one for one in held.sent()[sent:] if "alignment" not in one["body"]]) == 1


def test_what_is_asked_about_a_translation_is_asked_four_times_if_the_server_is_busy(held):
    """Then the menu or the panel says it. Nothing is asked again once the reader has gone on."""
    page = held.page
    held.translate("Hello world.")

    def is_asked(count: int, path: str, name: str) -> int:
        """How often it is asked again; each time when the server's time is over, and not before."""
        sent = len(held.sent())
        for _ in range(count):
            given, waits = held.random.choice([case for case in BUSY if case[1] < 60])
            headers = {} if given is None else {"Retry-After": given}
            request, before = held.waiting(path)[-1]["number"], len(held.sent())
            held.answer(request, status=429, content=error("queue_full"), headers=headers)
            held.run(1000 * waits - 50)
            assert len(held.sent()) == before
            held.run(50)
        return sum(name in one["body"] for one in held.sent()[sent:])

    word(page, 0).click()
    held.run()
    assert is_asked(4, "alternatives", "prefix") == 3
    assert held.read()["note"] == "The server says queue_full."
    page.keyboard.press("Escape")
    button(page, "More translations").click()
    held.run()
    assert is_asked(4, "v1/translate", "n_best") == 3
    assert page.inner_text(".panel .failure") == "The server says queue_full."
    page.keyboard.press("Escape")
    button(page, "More translations").click()
    held.run()
    held.answer(held.waiting()[-1]["number"], status=429, content=error("queue_full"))
    page.keyboard.press("Control+Enter")
    held.answer()
    sent = len(held.sent())
    held.run(3000)
    assert not [one for one in held.sent()[sent:] if "n_best" in one["body"]]


def test_the_models_are_those_of_the_last_answer(unopened, page_url):  # noqa: F811
    """A text that is typed before they come waits for them. A model that has gone is asked for once."""
    held, page = unopened, unopened.page
    held.open(page_url, models=[])
    assert held.read()["failure"] == "The server has no model loaded. Try again"
    page.fill("textarea", "Hello world.")
    held.run(250)
    page.keyboard.press("Control+Enter")
    held.run()
    first, second = held.waiting("v1/models")
    for request in held.waiting("v1/glossaries"):
        held.answer(request["number"])
    held.answer(second["number"], content={"models": [MODELS[3]]})
    held.answer()
    held.answer(first["number"])
    state = held.read()
    assert (state["words"], state["failure"]) == ("مرحبا العالم.", None)
    assert (state["source"]["options"], state["target"]["options"]) == (["en"], ["ar"])
    assert (state["model"], state["enabled"][0]) == (None, False)
    assert state["line"].startswith("Model enar ·")
    for models in ([MODELS[2], MODELS[1]], [MODELS[0], MODELS[1]]):
        page.keyboard.press("Control+Enter")
        held.answer(status=404, content=error("not_found"))
        held.load(models)
        if models[0] is MODELS[2]:
            held.answer(status=404, content=error("not_found"))
            assert held.read()["failure"] == "The server says not_found."
            assert not held.waiting()
            page.select_option(SOURCE, "auto")
        held.answer()
        assert held.read()["isComplete"]
    assert held.read()["source"]["value"] == "auto"


# Keys, focus, panels


def place_of_focus(page, selector: str) -> int:
    return page.evaluate(
        "(selector) => [...document.querySelectorAll(selector)].indexOf(document.activeElement)", selector
    )


@pytest.mark.parametrize("target", ["de", "ar"])
def test_keys_lead_from_word_to_word_and_through_the_alternatives(held, target):
    """In a script from right to left, the left arrow leads onward. One word is a stop of the tab key."""
    page, random = held.page, held.random
    page.select_option(TARGET, target)
    held.translate("Hello world. Hello good world.")
    assert held.read()["stops"] == held.read()["words"].split()[:1]
    direction = page.evaluate("getComputedStyle(document.querySelector('.words')).direction")
    assert direction == {"de": "ltr", "ar": "rtl"}[target]
    words = page.locator(".words [data-word]")
    last = words.count() - 1
    at = 1
    words.nth(at).focus()
    for key in random.choices(["ArrowLeft", "ArrowRight", "Home", "End"], weights=[3, 3, 1, 1], k=10):
        page.keyboard.press(key)
        step = {"ltr": 1, "rtl": -1}[direction] * {"ArrowRight": 1, "ArrowLeft": -1}.get(key, 0)
        at = {"Home": 0, "End": last}.get(key, min(max(at + step, 0), last))
        assert place_of_focus(page, ".words [data-word]") == at
        assert held.read()["stops"] == [words.nth(at).inner_text()]
    for opening, closing in (("Enter", "Escape"), (" ", "Tab"), ("Enter", "Enter")):
        page.keyboard.press(opening)
        held.run()
        held.answer(held.waiting("alternatives")[-1]["number"])
        count = len(held.read()["menu"])
        item = 0
        for key in random.choices(["ArrowDown", "ArrowUp", "Home", "End"], k=8):
            assert place_of_focus(page, "[role=menuitem]") == item
            page.keyboard.press(key)
            step = {"ArrowDown": 1, "ArrowUp": -1}.get(key, 0)
            item = {"Home": 0, "End": count - 1}.get(key, (item + step) % count)
        page.keyboard.press(closing)
        held.run()
        assert held.read()["menu"] is None
        assert place_of_focus(page, ".words [data-word]") == at
    sent = len(held.sent())
    page.keyboard.press("Control+Enter")
    held.run()
    state = held.read()
    assert (state["menu"], state["busy"], state["focus"]) == (None, "true", "Text to translate")
    assert "v1/alternatives" not in [request["path"] for request in held.sent()[sent:]]


def test_escape_closes_what_was_opened_last_and_ends_what_is_under_way(held):
    page = held.page
    held.translate("Hello world.")
    button(page, "History").click()
    held.run()
    assert held.read()["focus"] == "History"
    assert place_of_focus(page, "h2") == 0
    assert page.get_attribute("#history", "aria-expanded") == "true"
    button(page, "More translations").click()
    held.run()
    held.answer(held.waiting("v1/translate")[-1]["number"])
    assert (held.read()["others"], place_of_focus(page, "h2")) == ("true", 0)
    page.locator(".sure button").focus()
    tip = page.locator(".tip")
    assert tip.is_visible()
    page.keyboard.press("Escape")
    held.run()
    assert not tip.is_visible()
    word(page, 1).click()
    held.run()
    composed = "new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true})"
    page.evaluate(f"document.querySelector('textarea').dispatchEvent({composed})")
    opened = ["menu", "others", "history"]
    for _ in range(3):
        page.evaluate("document.activeElement.blur()")  # as programs do that read the page aloud
        held.run()
        state = held.read()
        assert [
            state["menu"] is not None,
            state["others"] == "true",
            page.get_attribute("#history", "aria-expanded") == "true",
        ] == [name in opened for name in ("menu", "others", "history")]
        page.keyboard.press("Escape")
        closed = opened.pop(0)
        held.run()
        if closed != "menu":
            assert page.evaluate("document.activeElement.id") == closed
    for is_left in (False, True):
        page.click("#save")
        held.run()
        if is_left:
            page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Escape")
        held.run()
        assert held.read()["menu"] is None
    page.focus("textarea")
    page.fill("textarea", "Good morning.")
    sent = len(held.sent())
    page.keyboard.press("Enter")
    held.run()
    assert (held.read()["text"], len(held.sent())) == ("Good morning.\n", sent)
    held.run(210)
    assert held.read()["busy"] == "true"
    page.keyboard.press("Escape")
    held.run()
    assert (held.read()["busy"], held.sent()[-1]["aborted"]) == ("false", True)


def test_a_menu_or_a_panel_closes_when_the_reader_goes_on(held):
    page = held.page
    held.translate("Hello world. A man rides.")

    def open_menu() -> None:
        word(page, 1).click()
        held.run()
        held.answer(held.waiting("alternatives")[-1]["number"])
        assert held.read()["menu"]

    open_menu()
    page.dispatch_event(".menu", "pointerdown")
    assert held.read()["menu"]
    page.click("footer p >> nth=0")
    held.run()
    assert held.read()["menu"] is None
    open_menu()
    page.fill("textarea", "Good morning.")
    assert held.read()["menu"] is None
    held.run(250)
    held.answer()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.words'))")
    page.dispatch_event(".words [data-word]", "click")
    held.run()
    assert held.read()["menu"] is None  # the reader selects words
    page.evaluate("getSelection().removeAllRanges()")
    for name in ("More translations", "History"):
        button(page, name).click()
        held.run()
        assert held.read()["panel"] == name
        button(page, "Close").click()
        held.run()
        assert (held.read()["panel"], held.read()["focus"]) == (None, name)
    button(page, "More translations").click()
    held.run()
    page.fill("textarea", "Hello.")
    held.run(250)
    assert held.read()["panel"] is None
    button(page, "Clear").click()
    held.run()
    assert (held.read()["focus"], held.read()["text"]) == ("Text to translate", "")


def test_alignments_that_have_failed_are_asked_for_when_the_pointer_comes_back(held):
    page = held.page
    held.translate("Hello world.")
    page.evaluate("document.activeElement.blur()")
    for request in held.waiting():
        held.answer(request["number"], status=500, content=error("internal"))
    box = page.locator(".stack").bounding_box()
    for count in range(3):
        sent = len(held.sent())
        for step in range(4):
            page.mouse.move(box["x"] + 5 * step + 5, box["y"] + 10)
            held.run()
            if step == 1:
                held.answer(
                    status=500 if count < 2 else 200, content=error("internal") if count < 2 else None
                )
        assert len(held.sent()) == sent + 1
        page.mouse.move(0, 0)
        held.run()
    assert (held.read()["failure"], held.read()["isComplete"]) == (None, True)


# What the browser keeps, files, the theme


def test_the_history_is_what_a_list_of_it_says(held):
    """The latest first, without doubles, at most 50, none that is too long, nothing while it is off; also
    through its buttons.
    """
    random = held.random
    steps, entries, former, is_on, states = [], [], None, True, []
    texts = ["a", "ab", "abc", "b", "bc", "c" * 15_000, *(f"{number}" for number in range(60))]
    actions = ["add", "add", "typed", "remove", "clear", "switch"]
    weights = [60, 20, 8, 10, 0.5, 1.5]
    for _ in range(400):
        (action,) = random.choices(actions, weights=weights)
        pair = {"source": random.choice("xy"), "target": random.choice("xy")}
        text = random.choice(texts)
        if action == "typed" and former:  # mostly on, or shortened
            beginning = former["text"][: random.randint(1, len(former["text"]))]
            text = random.choice([text, beginning, f"{former['text']}c"])
            pair = random.choice([pair, {side: former[side] for side in pair}])
        entry = {"text": text, "translation": text.upper(), **pair}
        if action in ("add", "typed"):
            used = former if action == "typed" else None
            steps.append(["add", entry, used])
            if is_on and len(text) < 10_000:
                entries = with_entry(entries, entry, used)
            former = entry
        elif action == "remove":
            steps.append(["remove", entry])
            entries = [one for one in entries if not is_same(one, entry)]
        elif action == "clear":
            steps.append(["clear"])
            entries = []
        else:
            is_on = not is_on
            steps.append(["switchTo", is_on])
            entries = entries if is_on else []
        states.append([is_on, entries])
    found = held.page.evaluate(
        """async (steps) => {
          const history = await import("/page/history.js");
          return steps.map(([name, ...values]) => {
            history[name](...values);
            return [history.isOn(), history.entries()];
          });
        }""",
        steps,
    )
    assert found == states
    assert max(len(entries) for _, entries in states) == 50
    held.page.evaluate("localStorage.removeItem('dragoman.history.off')")
    for text in ("Hello world.", "Good morning."):
        held.page.evaluate("localStorage.setItem('dragoman.history', 'no list')")
        held.translate(text)
        held.page.evaluate("localStorage.setItem('dragoman.history', '{}')")
        button(held.page, "History").click()
        held.run()
        assert held.page.inner_text(".panel > .note >> nth=0") == "Nothing yet."
        button(held.page, "History").click()
    held.translate("A man.")
    button(held.page, "Clear").click()
    held.translate("Hello.")
    button(held.page, "History").click()
    held.run()
    spans = "(all) => all.map((one) => [one.lang, one.textContent])"
    assert held.page.locator(".entry span").evaluate_all(spans) == [
        ["en", "Hello."],
        ["de", "Hallo."],
        ["en", "A man."],
        ["de", "Ein Mann."],
    ]
    for name, count in (("Remove “Hello.” from the history", 1), ("Clear the history", 0)):
        held.page.get_by_role("button", name=name).click()
        assert held.page.locator(".entry").count() == count
    held.translate("Hello world.")
    button(held.page, "Clear").click()
    held.translate("Hello")
    held.page.locator(".entry", has_text="Hello world.").click()
    held.run()
    held.answer_all()
    kept = {one["text"] for one in json.loads(held.read()["local"]["dragoman.history"])}
    assert kept == {"Hello", "Hello world."}  # a text that is restored continues no other
    held.page.get_by_label("Keep a history").uncheck()
    held.run()
    assert held.page.inner_text(".panel > .note >> nth=0") == "The history is off."
    held.translate("Good morning.")
    assert set(held.read()["local"]) == {"dragoman.model", "dragoman.history.off"}


def test_the_translation_is_copied_or_the_page_says_why_not(held):
    page = held.page
    held.translate("Hello world.")
    text = held.read()["words"]
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    without = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    execute = "document.execCommand = () => { window.copied = getSelection().toString(); return true; }"
    for script in ("0", f"{without}; {execute}"):
        page.evaluate(f"() => {{ {script}; window.copied = null; }}")
        button(page, "Copy").click()
        held.run()
        assert (page.evaluate("copied"), held.read()["focus"]) == (text, "Copied")
        held.run(1900)
        assert held.read()["focus"] == "Copied"
        held.run(100)
        assert held.read()["focus"] == "Copy"
    page.evaluate("document.execCommand = () => false")
    button(page, "Copy").click()
    held.run()
    message = "The browser did not allow copying."
    assert (held.read()["failure"], held.read()["told"]) == (message, message)
    assert held.read()["focus"] == "Copy"
    assert held.read()["isComplete"]


def test_the_theme_is_the_system_s_until_another_is_chosen(held):
    """What is stored is a theme that is not the system's; it is applied before the page is drawn."""
    page, dark = held.page, button(held.page, "Dark")
    system = "light"
    theme = system
    for step in ("switch", "reload", "system", "switch", "system", "switch", "switch", "reload"):
        if step == "switch":
            dark.click()
            theme = "light" if theme == "dark" else "dark"
        elif step == "system":
            follows = "dragoman.theme" not in held.read()["local"]
            system = "light" if system == "dark" else "dark"
            page.emulate_media(color_scheme=system)
            theme = system if follows else theme
        else:
            page.reload()
            held.begin()
        held.run()
        assert dark.get_attribute("aria-pressed") == str(theme == "dark").lower()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(14, 20, 26)" if theme == "dark" else "rgb(238, 241, 240)"
        )
        stored = held.read()["local"].get("dragoman.theme")
        if step == "switch":
            assert stored == (None if theme == system else theme)
        assert stored in (None, theme)


# Other pages


def test_looking_inside_asks_for_what_the_address_says(unopened, page_url):  # noqa: F811
    """What comes is shown, and else the sentence that says why not, with a field for another sentence."""
    held, page, inspection = unopened, unopened.page, fake_inspection(3, 3, 1, 1, 4)
    page.goto(f"{page_url}inspect#")
    held.run()
    assert page.inner_text("[role=status]") == "Write a sentence, and choose Inspect."
    assert held.sent() == []
    page.fill("input[name=text]", "a + b")
    with page.expect_event("load"):  # another sentence: the page is loaded again
        page.keyboard.press("Enter")
    asked_for = {"text": "a + b"}
    no_key = "This server is not open to everybody. Give it your key on the page “Translate” in this tab."
    too_long = error("too_long")
    for status, content, message in (
        (403, error("key"), no_key),
        (413, too_long, too_long["error"]["message"]),
        (200, to_json(inspection), None),
    ):
        held.run()
        (request,) = held.sent()
        assert (request["path"], request["body"]) == ("v1/inspect", asked_for)
        held.answer(status=status, content=content)
        assert page.input_value("input[name=text]") == asked_for["text"]
        if message:
            assert page.inner_text("[role=status]") == message
        if status == 403:
            with page.expect_event("load"):  # the same sentence once more
                page.get_by_role("button", name="Inspect").click()
        if status == 413:
            asked_for = {"text": "c?", "model": "ende", "adapter": "legal"}
            with page.expect_event("load"):
                page.evaluate("(hash) => { location.hash = hash; }", urlencode(asked_for))
    assert page.title() == f"Inspection: {inspection.sentence}"
    assert inspection.translation in page.inner_text("main header")
    assert "scores differ by rounding" in page.inner_text("footer")


def give(page, address: str, **answer: object) -> None:
    """Answer a page's request."""
    page.route(address, lambda route: route.fulfill(**answer))


def test_the_description_of_the_apis_is_this_server_s_and_no_other_server_is_asked(shared, page_url):  # noqa: F811
    page = shared[0].page
    files = {
        "docs": ("text/html", docs.HTML),
        "docs/static/swagger-ui.css": ("text/css", ""),
        "docs/static/swagger-ui-bundle.js": (
            "text/javascript",
            "window.SwaggerUIBundle = (options) => { window.options = options; };",
        ),
    }
    for path, (content_type, body) in files.items():
        give(page, page_url + path, content_type=content_type, body=body)
    page.goto(f"{page_url}docs")
    options = page.evaluate("options")
    assert options["url"] == "openapi.json"  # beside this page, also below a prefix
    assert options["validatorUrl"] is None
    assert page.locator(options["dom_id"]).count() == 1


SITE = "http://site.test/"


def open_site(page, query: str, body: str, script: str) -> None:
    """A page of the documentation with one of its scripts."""
    html = f"<!doctype html><body>{body}<script src=script.js></script>"
    give(page, f"{SITE}**", body=html, content_type="text/html")
    give(page, f"{SITE}script.js", path=DOCS / script)
    page.goto(f"{SITE}?{urlencode({'q': query})}")
    page.unroute_all()


def test_the_search_of_the_site_prefers_what_is_asked_for(shared):
    """A name of the code or an option finds its place in the reference first, and a question explanations."""
    names = {
        "Translator": "dragoman.translation.Translator",
        "Translator.translate": "dragoman.translation.Translator.translate",
        "translate()": "dragoman.translation.Translator.translate",
        "dragoman.search": "dragoman.search",
        "--beam-size": "dragoman-translate.--beam-size",
    }
    pages = ["explanation/questions", "explanation/experiments/one", "serving", "reference/python/search"]
    for query in [*names, "why scale", "attention", "translation", "search"]:
        open_site(shared[0].page, query, "", "search_scorer.js")
        results = [
            *([page, "Title", "", None, 10, "", kind] for page in pages for kind in ("text", "title")),
            *(["reference/x", title, "", None, 10, "", "object"] for title in names.values()),
            ["explanation/experiments/one", "One > Table", "", None, 10, "", "title"],
        ]
        scores = shared[0].page.evaluate(
            "(results) => results.map((result) => [Scorer.score(result), result[1]])", results
        )
        *of_pages, table = [score for score, _ in scores[: 2 * len(pages)]] + [scores[-1][0]]
        texts, titles = of_pages[::2], of_pages[1::2]
        assert texts == sorted(set(texts), reverse=True)
        assert titles == [2 * score for score in texts]
        assert table == texts[1]
        objects = scores[2 * len(pages) : -1]
        for (score, shown), title in zip(objects, names.values(), strict=True):
            is_option = title.startswith("dragoman-")
            assert shown == (title.replace("-", " ", 1).replace(".", " ") if is_option else title)
            if query in names and names[query] == title:
                assert score > max(of_pages)
            elif not title.endswith(query.removesuffix("()")) or query not in names:
                assert score < min(texts)


def test_what_scrolls_on_the_site_is_a_stop_of_the_tab_key(shared):
    page = shared[0].page
    boxes = "".join(
        f"<{tag} style='overflow: auto; width: {width}'><span style='display: inline-block; width: 400px'>a"
        f"</span></{tag}>"
        for tag in ("pre", "div class=table-wrapper")
        for width in ("300px", "500px", "50vw")
    )
    names = ["a.b_c/d", "plain", "_a"]
    cells = "".join(f"<td><code><span class=pre>{name}</span></code></td>" for name in names)
    body = (
        "<aside class=sidebar-drawer></aside><aside class=toc-drawer></aside><article>"
        f"{boxes}<details><summary>a</summary><div>{boxes}</div></details>"
        f"<table><tr>{cells}</tr></table></article>"
    )
    open_site(page, "", body, "static/site.js")
    scrolling = """() => [...document.querySelectorAll("pre, .table-wrapper")].map(
      (box) => [box.scrollWidth > box.clientWidth, box.tabIndex === 0])"""
    seen = set()
    for width in (500, 1200, 500):
        page.set_viewport_size({"width": width, "height": 600})
        for _ in range(2):
            page.click("summary")
            page.evaluate("() => drawn()")
            found = page.evaluate(scrolling)
            assert all(scrolls == is_stop for scrolls, is_stop in found)
            seen |= {tuple(scrolls for scrolls, _ in found)}
    assert len(seen) > 1
    page.set_viewport_size({"width": WIDE.width, "height": 740})
    labels = page.locator("aside").evaluate_all("(all) => all.map((one) => [one.className, one.ariaLabel])")
    assert labels == [["sidebar-drawer", "Pages"], ["toc-drawer", "Contents of this page"]]
    shown = page.locator("td .pre").evaluate_all("(all) => all.map((one) => one.innerHTML)")
    assert shown == ["a.<wbr>b_<wbr>c/<wbr>d", "plain", "_<wbr>a"]
    assert page.locator("td .pre").all_inner_texts() == names

"""Laws of what the page says of texts that a model cannot read and of translations that repeat themselves.

And what a server says of its models for that.
"""

import io
import re
import string
from random import Random

import pytest
import sentencepiece

from dragoman.serving.cards import example_of, file_endings, may_show_examples, reads_capitals, scripts_of
from dragoman.serving.settings import ServerSettings
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from tests import page_server
from tests.browser import browser  # noqa: F401
from tests.test_page import button, page_url  # noqa: F401
from tests.test_page_laws import held, shared, unopened  # noqa: F401

SAMPLES = {
    "Latn": "the old garden",
    "Cyrl": "старый сад",
    "Grek": "παλιός κήπος",
    "Arab": "الحديقة القديمة",
    "Hebr": "הגן הישן",
    "Hani": "旧花园很美",
    "Hang": "오래된정원",
    "Thai": "สวนเก่า",
    "Deva": "पुराना बगीचा",
}


def evaluate(held, name: str, cases: list) -> list:  # noqa: F811
    """What a function of checks.js gives for each list of arguments."""
    return held.page.evaluate(
        "async ([name, cases]) => { const checks = await import('/page/checks.js');"
        " return cases.map((one) => checks[name](...one)); }",
        [name, cases],
    )


def test_a_script_is_named_if_the_model_has_not_learnt_it(held):  # noqa: F811
    cases = [[text, known] for text in SAMPLES.values() for known in (*([one] for one in SAMPLES), [])]
    expected = [
        script if known and known != [script] else None
        for script in SAMPLES
        for known in (*([one] for one in SAMPLES), [])
    ]
    assert evaluate(held, "unknownScript", cases) == expected
    mixed = f"{SAMPLES['Latn']} {SAMPLES['Cyrl'][:3]}"
    assert evaluate(held, "unknownScript", [[mixed, ["Latn"]], ["1234 !?", ["Latn"]]]) == [None, None]


def test_lines_in_capitals_are_those_without_small_letters_and_only_they_become_small(held):  # noqa: F811
    random = Random(0)
    letters = string.ascii_letters + "äÄéÉ .!1"
    lines = ["".join(random.choices(letters, k=random.randint(1, 30))) for _ in range(100)]
    lines += [line.upper() for line in lines]
    cased = [re.sub(r"[^a-zäé]", "", line.lower()) for line in lines]
    expected = [len(one) >= 6 and line == line.upper() for line, one in zip(lines, cased, strict=True)]
    assert evaluate(held, "hasCapitals", [[f"a\n{line}\nb"] for line in lines]) == expected
    (small,) = evaluate(held, "inSmallLetters", [["\n".join(lines)]])
    for line, new, is_capital in zip(lines, small.split("\n"), expected, strict=True):
        assert new.lower() == line.lower()
        assert is_capital or new == line
    assert evaluate(held, "inSmallLetters", [["A DOG. IT RUNS."]]) == ["A dog. It runs."]


def test_a_loop_is_cut_and_nothing_else(held):  # noqa: F811
    random = Random(0)
    words = ["der", "alte", "Garten", "ist", "schön", "ein", "Fluss", "heute"]
    plain = [" ".join(random.sample(words, random.randint(2, 8))) for _ in range(30)]
    cases, expected = [[text, "a b"] for text in plain], [None] * len(plain)
    for _ in range(60):
        before, phrase = (
            random.sample(words, random.randint(0, 3)),
            random.sample(words, random.randint(1, 4)),
        )
        times = random.randint(6, 30)
        text = " ".join(before + phrase * times + phrase[: random.randint(0, len(phrase) - 1)])
        cases += [[text, "a b"], [text, "no " * 20]]
        expected += ["cut", None]
    found = evaluate(held, "withoutLoops", cases)
    for (text, _), wanted, shown in zip(cases, expected, found, strict=True):
        if wanted is None:
            assert shown is None
        else:
            assert shown.endswith(" …")
            assert text.startswith(shown.removesuffix(" …"))
            assert len(shown) < len(text) / 2
    assert (
        evaluate(held, "withoutLoops", [["." * 80, "a"], ["1" + "0" * 50, "a"], ["- " * 40, "a"]])
        == [None] * 3
    )


def test_what_the_model_cannot_read_is_said_before_it_is_translated(held):  # noqa: F811
    page = held.page
    notices = "() => [...document.querySelectorAll('.source .notice')].map((one) => one.textContent.trim())"
    page.fill("textarea", "Старый сад")
    held.run()
    assert page.evaluate(notices) == ["The model has learnt no text in this script: Cyrillic."]
    page.fill("textarea", "THE OLD GARDEN. IT IS OLD.")
    held.run()
    assert len(page.evaluate(notices)) == 1
    button(page, "Write it in small letters").click()
    held.run()
    assert (held.read()["text"], page.evaluate(notices)) == ("The old garden. It is old.", [])
    assert held.sent()[-1]["body"]["text"] == "The old garden. It is old."
    page.fill("textarea", "<!doctype html><p>Hello <b>world</b></p>")
    held.run()
    button(page, "Translate it as a file").click()
    held.run()
    assert held.read()["text"] == ""
    assert [file["name"] for file in held.read_files()["files"]] == ["page.html"]


def test_a_translation_that_repeats_itself_and_one_that_is_unsure_are_said_to_be(held):  # noqa: F811
    page = held.page
    notices = "() => [...document.querySelectorAll('.target .notice')].map((one) => one.textContent.trim())"
    request = {"text": "Hello world. A man rides. Good morning.", "source": "en", "target": "de"}
    answer = page_server.translation(request, "ende")
    (translated,) = answer["translations"]
    looped, unsure, _ = translated["sentences"]
    looped["text"] = "Hallo " + "die Welt " * 30
    unsure["log_probability"] = -9.0
    shift = len(looped["text"]) - looped["end"]
    translated["text"] = looped["text"] + translated["text"][looped["end"] :]
    looped["end"] += shift
    for later in translated["sentences"][1:]:
        later |= {"start": later["start"] + shift, "end": later["end"] + shift}
    page.fill("textarea", request["text"])
    held.run(250)
    held.answer(content=page_server.event("end", answer))
    assert held.read()["words"] == "Hallo die Welt … Ein Mann fährt. Gut Morgen."
    assert page.evaluate(notices) == [
        "The model is very unsure of 1 sentence, which is underlined.",
        "The model repeated itself in 1 sentence. The repetition is cut.",
    ]
    assert page.locator(".words .unsure").all_inner_texts() == ["Ein", "Mann", "fährt."]


# The server


def tokenizer_of(lines: list[str], kind: str = "char", **settings: object) -> Tokenizer:
    return Tokenizer.train(lines, kind, TokenizerSettings(**settings), 120)


def folding_case(lines: list[str]) -> Tokenizer:
    """A tokenizer of another toolkit, which makes no difference to capitals."""
    model = io.BytesIO()
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="char",
        normalization_rule_name="nmt_nfkc_cf",
        **ids,
    )
    return Tokenizer(model.getvalue())


def test_the_scripts_of_a_model_are_those_of_its_text_without_strays():
    for script, text in SAMPLES.items():
        assert scripts_of(tokenizer_of([text])) == [script]
    assert scripts_of(tokenizer_of([string.ascii_lowercase, "яд"])) == ["Latn"]
    assert scripts_of(tokenizer_of([string.ascii_lowercase, "абвгдежзиклмнопрст"])) == ["Cyrl", "Latn"]
    assert scripts_of(tokenizer_of(["a"], "byte")) == []


def test_a_model_reads_capitals_if_it_has_learnt_them_or_does_not_see_them():
    small = ["".join(Random(seed).choices(string.ascii_lowercase, k=5)) for seed in range(20)]
    capital = [word.upper() for word in small]
    assert not reads_capitals(tokenizer_of(small))
    assert reads_capitals(tokenizer_of(small + capital))
    assert reads_capitals(folding_case(small))
    assert reads_capitals(tokenizer_of(capital))
    assert reads_capitals(tokenizer_of([SAMPLES["Hani"]]))
    for known in (0, 1, 10, 20):
        reads = reads_capitals(tokenizer_of([" ".join(small + capital[:known])], "word"))
        assert reads == (known >= 10)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("others", [{}, {"show_samples": True}, {"allow_hosts": ("example.org",)}])
def test_an_example_is_shown_where_only_this_machine_reads_it_or_samples_are_shown(is_local, others):
    host = {} if is_local else {"host": "0.0.0.0", "no_auth": True}
    shown = may_show_examples(ServerSettings(**host, **others))
    assert shown == ("show_samples" in others or (is_local and not others))


@pytest.mark.long
def test_an_example_is_a_line_of_the_validation_text_and_sides_have_the_endings_of_the_files(
    trained, tmp_path
):
    lines = (trained / "run" / "data" / "valid.source.txt").read_text().splitlines()
    assert example_of(trained / "run", "a") in lines
    assert example_of(trained / "run" / "model", "a") == example_of(None, "a") == ""
    (tmp_path / "data").mkdir()
    for number in ("1", "2"):  # the model of a folder is replaced
        (tmp_path / "data" / "valid.source.txt").write_text(f"line {number}\n")
        (tmp_path / "recipe.toml").write_text(f'data = {{source = "a.side{number}", target = "a.other"}}\n')
        assert example_of(tmp_path, number) == f"line {number}"
        assert file_endings(tmp_path, number) == (f"side{number}", "other")
    assert file_endings(None, "a") == file_endings(trained / "run" / "model", "a") == ("", "")

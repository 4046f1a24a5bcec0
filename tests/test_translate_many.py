"""Translation of any number of texts: lazily, in order, as `translate`; awaited; and closed at the end."""

import asyncio
import io
import os
import time
import warnings
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dragoman import DragomanError, LongInput, SeveralSentences, Translator
from dragoman.evaluation.measures import evaluate
from dragoman.translation import files, iterable
from tests.conftest import MAX_SECONDS

SEARCH = {"beam_size": 2, "max_extra_tokens": 3}
TEXTS = st.lists(st.sampled_from(["amber birch", "cedar. delta", "", "204", "fjord\ngrove"]), max_size=9)


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.load(trained / "run", workers=1)


def batched(patch, size):
    """Translate so many texts together."""
    patch.setattr(iterable, "BLOCK", size)


# ---- any number of texts


@pytest.mark.long
@given(TEXTS, st.integers(1, 4))
def test_an_iterable_has_the_translations_of_the_list(translator, texts, size):
    with pytest.MonkeyPatch.context() as patch:
        batched(patch, size)
        assert [*translator.translate_iterable(iter(texts), **SEARCH)] == translator.translate(
            texts, **SEARCH
        )


@given(TEXTS, st.integers(1, 4), st.data())
def test_an_error_of_the_iterable_comes_after_the_translations_before_it(translator, texts, size, data):
    wrong = data.draw(st.sampled_from([LookupError("mine"), None, 3]))
    given = data.draw(st.integers(0, len(texts)))

    def items():
        yield from texts[:given]
        if isinstance(wrong, Exception):
            raise wrong
        yield wrong
        yield from texts[given:]

    expected = LookupError if isinstance(wrong, Exception) else DragomanError
    with pytest.MonkeyPatch.context() as patch:
        batched(patch, size)
        translations = translator.translate_iterable(items(), **SEARCH)
        found = [next(translations) for _ in range(given)]
        with pytest.raises(expected) as raised:
            next(translations)
    assert found == translator.translate(texts[:given], **SEARCH)
    assert raised.value is wrong or f"Text {given} (counted from 0) is {wrong!r}" in str(raised.value)


@given(st.integers(1, 4), st.integers(0, 9))
def test_it_reads_a_block_ahead_and_no_more(translator, size, wanted):
    read = []

    def endless():
        while True:
            read.append("amber")
            yield "amber"

    with pytest.MonkeyPatch.context() as patch:
        batched(patch, size)
        translations = translator.translate_iterable(endless(), progress=False, **SEARCH)
        assert not read
        for _ in range(wanted):
            next(translations)
        assert len(read) == -(-wanted // size) * size


@pytest.mark.parametrize("wrong", ["amber", b"amber", {"a": "b"}, {"amber"}, 3, None, np.array("amber")])
def test_what_has_no_texts_is_refused_before_the_first_is_asked_for(translator, wrong):
    with pytest.raises(DragomanError, match="Texts are wanted, in a list for instance"):
        translator.translate_iterable(wrong)
    with pytest.raises(DragomanError):
        translator.translate_iterable([], beam_size=1, n_best=2)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_names_of_columns_are_no_texts(translator, library):
    frames = pytest.importorskip(library, reason=f"{library} is missing: pip install {library}")
    frame = frames.DataFrame({"amber": ["birch"], "cedar": ["delta"]})
    for call in (translator.translate, translator.translate_iterable, lambda texts: evaluate(texts, texts)):
        with pytest.raises(DragomanError, match="Choose one of its columns: 'amber', 'cedar'"):
            call(frame)
    assert translator.translate(frame["amber"], **SEARCH) == translator.translate(["birch"], **SEARCH)


def test_it_warns_once_as_the_list_does(translator, monkeypatch):
    batched(monkeypatch, 2)
    texts = ["amber " * 90, "amber", "birch\ncedar", "fjord\ngrove", "delta " * 90]
    search = {"split": None, "max_length": 3}

    def warned(translate):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(translate(texts, **search))
        return {(warning.category, str(warning.message)) for warning in caught}, len(caught)

    expected = warned(translator.translate)
    assert {category for category, _ in expected[0]} == {LongInput, SeveralSentences}
    assert warned(translator.translate_iterable) == expected


async def awaited(translator, text):
    """The translation, as a program awaits it."""
    return await translator.translate_async(text, **SEARCH)


WARNING_CALLS = {
    "translate": lambda translator, text: translator.translate(text, **SEARCH),
    "translate a list": lambda translator, text: translator.translate([text], **SEARCH),
    "n_best": lambda translator, text: translator.n_best([text], **SEARCH),
    "translate_iterable": lambda translator, text: list(translator.translate_iterable([text], **SEARCH)),
    "translate_async": lambda translator, text: asyncio.run(translator.translate_async(text, **SEARCH)),
    "await": lambda translator, text: asyncio.run(awaited(translator, text)),
    "stream": lambda translator, text: translator.stream(text, **SEARCH),
    "trace": lambda translator, text: translator.trace(text, **SEARCH),
    "alternatives": lambda translator, text: translator.alternatives(text, 1, **SEARCH),
}


@pytest.mark.short_form(7)
@pytest.mark.parametrize("call", WARNING_CALLS.values(), ids=WARNING_CALLS)
def test_a_warning_names_the_place_of_the_call(translator, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(translator, "amber " * 90 + ". birch\ncedar")
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(("count", "terminal", "progress"), [(5, 1, 1), (2, 1, 1), (5, 0, 1), (5, 1, 0)])
def test_a_bar_is_for_many_texts_on_a_terminal(translator, monkeypatch, count, terminal, progress):
    batched(monkeypatch, 2)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=bool(terminal), width=80)
    monkeypatch.setattr(files, "Console", lambda stderr: console)
    assert (
        len([*translator.translate_iterable(["amber"] * count, progress=bool(progress), **SEARCH)]) == count
    )
    shown = screen.getvalue()
    assert (f"/{count}" in shown) == bool(count > 2 and terminal and progress)
    assert not shown or shown.endswith("\x1b[2K")  # the line is blank again


# ---- awaited


@pytest.mark.parametrize("native", [True, False])
def test_awaited_translations_are_those_of_translate(trained, native):
    translator = Translator.load(trained / "run", native=native, workers=1)
    texts = ["amber birch", "", "cedar. delta\nfjord"]

    async def together():
        return await asyncio.gather(
            translator.translate_async(iter(texts), **SEARCH),
            *(translator.translate_async(text, **SEARCH) for text in texts),
        )

    expected = translator.translate(texts, **SEARCH)
    assert asyncio.run(together()) == [expected, *expected]


@pytest.mark.parametrize("native", [True, False])
def test_a_cancelled_task_ends_the_search(trained, monkeypatch, native):
    translator = Translator.load(trained / "run", native=native, workers=1)
    submit, futures = translator.submit, []
    monkeypatch.setattr(
        translator, "submit", lambda prepared: futures.append(submit(prepared)) or futures[-1]
    )

    async def begin_and_cancel():
        task = asyncio.create_task(translator.translate_async("amber", min_length=10_000, beam_size=4))
        while not futures or not (native or futures[0].running()):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begin_and_cancel())
    with pytest.raises(CancelledError):
        futures[0].result(MAX_SECONDS)


# ---- closed


@pytest.mark.parametrize("native", [True, False])
def test_a_translator_has_no_threads_after_its_block(trained, native):
    before = {*os.listdir("/proc/self/task")}  # those of earlier tests may end meanwhile

    def has_threads():
        return bool({*os.listdir("/proc/self/task")} - before)

    with Translator.load(trained / "run", native=native, workers=3) as translator:
        expected = Translator.load(trained / "run", native=native, workers=1).translate("amber", **SEARCH)
        assert translator.translate("amber", **SEARCH) == expected
        translator.submit(translator.prepare(["amber"], temperature=1.0, max_extra_tokens=3)).result(
            MAX_SECONDS
        )
        assert has_threads()
    end = time.monotonic() + MAX_SECONDS
    while has_threads():
        assert time.monotonic() < end
        time.sleep(0.01)
    for use in (translator.translate, translator.stream, lambda text: translator.model):
        with pytest.raises(DragomanError, match="This translator is closed; load it again"):
            use("amber")
    translator.close()


def test_searches_that_run_end_after_closing(trained):
    translator = Translator.load(trained / "run", workers=1)
    expected = translator.translate("amber", max_extra_tokens=200)
    future = translator.submit(translator.prepare(["amber"], max_extra_tokens=200))
    translator.close()
    assert future.result(MAX_SECONDS)[0][0].text == expected

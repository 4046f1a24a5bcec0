"""An exported page translates as `dragoman translate --precision int8`: in Node.js, and in Chromium."""

import base64
import itertools
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.interop.export import export
from dragoman.interop.web import BYTES, BYTES_AND_RESTS, copy_page, rounded, write
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.native.web import COMPILER, PACKAGED, compile_web
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import StoredModel, Tokenizers, save_model
from tests.browser import browser  # noqa: F401
from tests.test_huggingface import SIZES, SOURCE, ours

NEEDS_NODE = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is missing")
NEEDS_COMPILER = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason="Emscripten is missing: apt-get install emscripten"
)
VOCABULARIES = {
    "bpe": TokenizerSettings(),
    "bpe, symbols": TokenizerSettings(symbols=("<name>", "Hund", "<a>"), byte_fallback=False),
    "unigram": TokenizerSettings(normalization="nfkc"),
    "unigram, symbols": TokenizerSettings(symbols=("<name>", "Hund", "<a>"), byte_fallback=False),
    "char": TokenizerSettings(normalization="identity"),
    "word": TokenizerSettings(),
    "byte": TokenizerSettings(),
}
MODELS = {
    "one vocabulary": ModelSettings(**SIZES),
    "two, learned positions, GELU": ModelSettings(
        **SIZES,
        tied="none",
        positions="learned",
        max_positions=64,
        norm="pre",
        activation="gelu",
        attention_bias=True,
    ),
    "odd widths, other sinusoids, without END": ModelSettings(
        **SIZES | {"d_model": 21, "d_ff": 33},
        d_k=5,
        d_v=7,
        tied="target",
        positions="sinusoidal-tensor2tensor",
        first_position=2,
        source_end=False,
        output_bias=True,
    ),
}
WORDS_OF_TEXTS = sorted({word for line in SOURCE for word in line.split()})
PARTS = st.one_of(
    st.sampled_from(
        [*WORDS_OF_TEXTS, "<name>", "<a>", "</s>", "<0x41>", "▁", " ", "  ", "\u0301", "ﬁ", "\ufeff", "\0"]
    ),
    st.text(max_size=3),
)
TEXTS = st.lists(PARTS, max_size=12).map("".join)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The files of the page, without a model."""
    folder = tmp_path_factory.mktemp("page")
    copy_page(folder)
    return folder


@pytest.fixture(scope="module")
def ask(page) -> Callable:
    """What the page's modules answer to a task."""
    command = ["node", Path(__file__).parent / "web_driver.mjs", page]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:

        def answer(task, **values):
            process.stdin.write(json.dumps({"task": task, **values}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield answer
        process.stdin.close()


@NEEDS_NODE
@pytest.mark.short_form(2)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_ids_and_texts_are_those_of_sentencepiece(name, ask):
    tokenizer = Tokenizer.train(SOURCE * 5, name.partition(",")[0], VOCABULARIES[name], 350, ("<2de>",))
    vocabulary = base64.b64encode(tokenizer.model).decode()
    ids = st.lists(st.integers(0, len(tokenizer) - 1).filter(lambda token: token != END), max_size=9)

    @given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(ids, min_size=1, max_size=4))
    def law(texts, rows):
        answer = ask("tokenize", vocabulary=vocabulary, texts=texts, ids=rows)
        assert answer == [tokenizer.encode(texts), [tokenizer.decode(row) for row in rows]]

    law()


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40))
def test_the_output_layer_of_a_rounded_embedding_has_the_integers_of_the_model(seed, rows, columns):
    matrix = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    scales, integers, rests = rounded(matrix, BYTES_AND_RESTS)
    restored = (integers + rests / np.float32(65536)) * scales
    assert np.array_equal(rounded(restored, BYTES)[1], rounded(matrix, BYTES)[1])
    assert (np.abs(restored - matrix) <= np.abs(matrix).max(1, keepdims=True) / 2**21).all()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """The decoder for browsers, compiled once."""
    path = tmp_path_factory.mktemp("decoder") / PACKAGED.name
    compile_web(path)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("dragoman.native.web.PACKAGED", path)
        yield


def random_texts(words: list[str], count: int) -> list[str]:
    """Lines of one sentence or several; some are longer than the model reads at once, or have no letters."""
    draw = random.Random(1)
    lines = ["", "  ", "123 – 45!", "Œuvre 🙂 <s>."]
    for _ in range(count):
        chosen = draw.choices(words, k=draw.randrange(1, 12))
        lines.append(" ".join(word + draw.choice(["", "", "", ",", ". Delta"]) for word in chosen))
    return lines


def shortened(site: Path, **settings) -> None:
    """Change settings of the search in an exported page."""
    path = site / "model" / "about.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.long
@NEEDS_NODE
@NEEDS_COMPILER
@pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")
def test_translations_are_those_of_the_command_line(trained, decoder, ask, tmp_path):
    export(trained / "run", "web", tmp_path / "site")
    texts = random_texts(["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"], 300)
    found = ask("translate", site=str(tmp_path / "site"), texts=texts)
    with Translator.load(trained / "run", precision="int8") as translator:
        expected = translator.translate(texts)
        whole = [index for index, text in enumerate(texts) if "." not in text and text.strip()]
    assert sum(text == other for (text, _), other in zip(found, expected, strict=True)) >= 0.97 * len(texts)
    for text, others in (found[index] for index in whole):
        assert text == others[0]
        assert len({*others}) == len(others) <= 4


@pytest.mark.long
@NEEDS_NODE
@NEEDS_COMPILER
@pytest.mark.parametrize("kind", MODELS)
def test_all_settings_of_a_model_are_known(kind, decoder, ask, tmp_path):
    """The first tokens of random models, of which few are equally likely."""
    model, tokenizers = ours(MODELS[kind])
    save_model(tmp_path / "run", model, model.settings, tokenizers, 12, Languages("de", "en"), 0.0)
    export(tmp_path / "run", "web", tmp_path / "site")
    shortened(tmp_path / "site", beamSize=1, maxExtraTokens=1)
    texts = [" ".join(pair) for pair in itertools.product(WORDS_OF_TEXTS, WORDS_OF_TEXTS)]
    found = ask("translate", site=str(tmp_path / "site"), texts=texts)
    with Translator.load(tmp_path / "run", precision="int8") as translator:
        expected = translator.translate(texts, beam_size=1, max_extra_tokens=1)
    assert sum(text == other for (text, _), other in zip(found, expected, strict=True)) >= 0.9 * len(texts)


@pytest.mark.long
@NEEDS_NODE
@NEEDS_COMPILER
def test_a_damaged_model_ends_with_a_sentence(trained, decoder, ask, tmp_path):
    site = tmp_path / "site"
    export(trained / "run", "web", site)
    texts, draw = ["amber birch", "delta, ember."], random.Random(1)
    whole = [text for text, _ in ask("translate", site=str(site), texts=texts)]
    sentences = set()
    for path in sorted((site / "model").iterdir()):
        content = path.read_bytes()
        for size in [0, *(draw.randrange(len(content)) for _ in range(12))]:
            damaged = bytearray(content)
            for place in (draw.randrange(len(content)) for _ in range(draw.choice([1, 300]))):
                damaged[place] = draw.randrange(256)
            for one in (content[:size], bytes(damaged)):
                path.write_bytes(one)
                answer = ask("translate", site=str(site), texts=texts)
                assert isinstance(answer, list) or re.fullmatch(r"Error: [A-Z][^\n]*\.", answer), answer
                sentences.add(str(answer))
        path.write_bytes(content)
    assert len(sentences) > 4
    assert [text for text, _ in ask("translate", site=str(site), texts=texts)] == whole


def test_without_a_compiled_decoder_and_a_compiler_a_sentence_says_what_to_do(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("dragoman.native.web.PACKAGED", tmp_path / "none.wasm")
    with pytest.raises(DragomanError, match="neither a compiled decoder for browsers nor em"):
        export(trained / "run", "web", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_model_whose_words_are_cut_by_codes_is_refused(trained, tmp_path):
    stored = StoredModel.load(trained / "run")
    plain = stored.tokenizers.source
    coded = Tokenizer(plain.model, "#version: 0.2\na b\n")
    for sides in (Tokenizers(coded, coded), Tokenizers(coded, plain), Tokenizers(plain, coded)):
        with pytest.raises(DragomanError, match="codes of subword-nmt, which the page does not have"):
            write(replace(stored, tokenizers=sides), tmp_path)
    assert not [*tmp_path.iterdir()]


class Files(SimpleHTTPRequestHandler):
    """A plain server of files."""

    def log_message(self, *_) -> None:
        """Nothing is logged."""


@pytest.fixture
def serve():
    """The address of a folder's files."""
    servers = []

    def address(folder: Path) -> str:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=folder)))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield address
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.short_form
def test_a_page_without_its_model_says_so(page, browser, serve):  # noqa: F811
    view = browser.new_page(viewport={"width": 360, "height": 640})
    problems = []
    view.on("pageerror", lambda error: problems.append(str(error)))
    view.goto(serve(page))
    assert re.match(r"The file /\S+ cannot be fetched", view.locator(".failure").inner_text())
    view.locator("textarea").fill("A text.")
    view.locator(".failure").wait_for()
    assert view.evaluate_handle("document.documentElement").get_property("scrollWidth").json_value() <= 360
    view.close()
    assert not problems


@NEEDS_COMPILER
def test_the_page_translates_offline_and_shows_alternatives(trained, decoder, browser, serve, tmp_path):  # noqa: F811
    export(trained / "run", "web", tmp_path / "site")
    context = browser.new_context(locale="en-US")
    view, requests = context.new_page(), []
    view.goto(serve(tmp_path / "site"))
    view.locator("textarea").fill("amber birch")
    words = view.locator("[data-word]")
    words.first.wait_for()
    context.set_offline(True)
    view.on("request", lambda request: requests.append(request.url))
    view.locator("textarea").fill("cedar delta. Delta ember\nfjord grove")
    view.locator("[data-word]").nth(2).wait_for()
    view.locator(".target[aria-busy=false]").wait_for()
    with Translator.load(trained / "run", precision="int8") as translator:
        assert view.locator(".words").inner_text() == translator.translate(
            "cedar delta. Delta ember\nfjord grove"
        )
    words.last.click()
    chosen = view.locator("[role=menuitem]").first
    other = chosen.inner_text()
    chosen.click()
    assert words.last.inner_text() == other
    assert not requests
    context.close()

"""Vocabularies of bytes keep every text; a model of bytes is trained, resumed, used and exported as any."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspection.inspect import inspect
from dragoman.model.symbols import END
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.run import run
from dragoman.search.settings import EXTRA_TOKENS, SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import read_json
from dragoman.system.messages import messages_to
from dragoman.text.byte_lengths import extra_bytes
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import UNKNOWN_TEXT, Tokenizer, replace_surrogates
from dragoman.text.words import SPACE
from dragoman.training.checkpoint import checkpoints
from dragoman.translation.model_folder import Tokenizers, read_about
from dragoman.translation.streaming import stable_text
from dragoman.translation.token_ids import encode_sentences
from dragoman.translation.translator import Translator
from tests.conftest import small_recipe

SYMBOLS = "<bt>", "<name>"
BYTES = TokenizerSettings("byte", normalization="identity", symbols=SYMBOLS)
TEXTS = st.text(st.characters(exclude_characters=SPACE, exclude_categories=["Cs"]), max_size=30)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([], "byte", BYTES, 8_000)


def test_the_vocabulary_has_the_bytes_the_space_and_the_symbols(tokenizer):
    pieces = tokenizer.pieces(range(END + 1, len(tokenizer)))
    assert pieces == [*SYMBOLS, *(f"<0x{byte:02X}>" for byte in range(256)), SPACE]


def test_the_tokens_are_the_bytes_and_give_the_text_back(tokenizer):
    first = END + 1 + len(SYMBOLS)

    @given(TEXTS)
    def check(text):
        (ids,) = tokenizer.encode([text])
        space = len(tokenizer) - 1
        assert ids == [space if byte == ord(" ") else first + byte for byte in text.encode()]
        assert tokenizer.decode(ids) == text

    check()


def test_a_blank_line_has_no_token_but_end_in_any_vocabulary(tokenizer):
    words = Tokenizer.train(["a b"] * 9, "word", replace(BYTES, source_tokens="word", symbols=()), 20)

    @given(st.text(" \t\u00a0\u3000\u200b", max_size=5) | TEXTS)
    def check(text):
        for kind in (tokenizer, words):
            [ids], [plain] = encode_sentences(kind, [text]), kind.encode([text])
            assert ids == ([END] if not text.strip() else [*plain, END])

    check()


def test_the_text_of_any_first_tokens_is_a_beginning_of_the_text(tokenizer):
    """A stream may end within a character: what is sent of it is never taken back."""

    @given(TEXTS.filter(lambda text: UNKNOWN_TEXT not in text))
    def check(text):
        (ids,) = tokenizer.encode([text])
        translator = SimpleNamespace(detokenize=tokenizer.decode)
        beginnings = [
            stable_text(translator, SimpleNamespace(ids=lambda _, most=most: ids[:most]), 0)
            for most in range(len(ids) + 1)
        ]
        assert all(text.startswith(beginning) for beginning in beginnings)
        assert beginnings[-1] == text
        assert beginnings == sorted(beginnings, key=len)

    check()


def test_symbols_are_one_token_each(tokenizer):
    (ids,) = tokenizer.encode(["<bt>é <name> <b"])
    pieces = ["<bt>", "<0xC3>", "<0xA9>", SPACE, "<name>", SPACE, "<0x3C>", "<0x62>"]
    assert tokenizer.pieces(ids) == pieces
    assert tokenizer.ids(pieces) == ids


def test_lone_surrogates_are_replaced(tokenizer):
    (ids,) = tokenizer.encode(["a\ud800b"])
    assert tokenizer.decode(ids) == replace_surrogates("a\ud800b")


def test_incomplete_characters_are_decoded_to_replacement_characters(tokenizer):
    @given(TEXTS, st.integers(0, 40))
    def check(text, count):
        (ids,) = tokenizer.encode([text])
        whole = text.encode()[:count].decode("utf-8", "ignore")
        missing = len(text.encode()[:count]) - len(whole.encode())
        assert tokenizer.decode(ids[:count]) == whole + missing * UNKNOWN_TEXT

    check()

    @given(st.lists(st.integers(0, len(tokenizer) - 1)))
    def check_any(ids):
        assert isinstance(tokenizer.decode(ids), str)

    check_any()


def test_the_bytes_of_a_word_are_its_tokens(tokenizer):
    assert tokenizer.word_ids("é ab  ж") == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert tokenizer.word_ids("  ") == []


def test_normalisation_is_that_of_the_settings():
    tokenizer = Tokenizer.train([], "byte", TokenizerSettings("byte"), 8_000)
    assert tokenizer.encode(["ﬁ\u00a0½"]) == tokenizer.encode(["fi 1⁄2"])


def test_a_symbol_that_is_not_unicode_is_refused():
    with pytest.raises(DragomanError, match="SentencePiece cannot make a vocabulary"):
        Tokenizer.train([], "byte", replace(BYTES, symbols=("\ud800",)), 8_000)


@pytest.mark.parametrize(
    ("name", "changes"), [("bpe_dropout", {"bpe_dropout": 0.1}), ("sampling_alpha", {"sampling_alpha": 0.1})]
)
def test_bytes_are_not_sampled(name, changes):
    with pytest.raises(DragomanError, match=f"{name} is for .* tokens, and source_tokens is byte"):
        replace(BYTES, **changes)


def test_the_size_of_the_vocabulary_is_told_where_another_is_asked_for(tmp_path, messages):
    recipe = replace(
        small_recipe(tmp_path, tmp_path / "run"), tokenizer=TokenizerSettings("byte", vocabulary=99)
    )
    prepare(tmp_path / "run", recipe)
    assert "Asked for a vocabulary of 99 byte tokens; there are 261." in messages
    assert len(PreparedData.load(tmp_path / "run" / "data").tokenizers.source) == 261


@pytest.mark.parametrize(
    ("tokens", "given", "expected"),
    [
        ({"source_tokens": "byte"}, {}, (1_000, 200)),
        ({"target_tokens": "byte", "share_vocabulary": False}, {}, (1_000, 4 * (250 + 50) - 250)),
        ({"source_tokens": "byte", "target_tokens": "bpe", "share_vocabulary": False}, {}, (1_000, 50)),
        ({"source_tokens": "byte"}, {"longest": 250}, (250, 200)),
        ({}, {}, (250, 50)),
    ],
)
def test_lengths_of_a_recipe_are_those_of_bytes(tmp_path, tokens, given, expected):
    data = {"source": "a.en", "target": "a.de", **given}
    table = {"out": str(tmp_path), "preset": "tiny", "data": data, "tokenizer": tokens}
    recipe = complete_recipe(table, "r.toml", lambda each: each, lambda: False)
    assert (recipe.data.longest, recipe.search.max_extra_tokens) == expected


@pytest.mark.parametrize(
    ("kinds", "longest", "expected"),
    [
        (("byte", "byte"), 30, 4 * 50),
        (("char", "byte"), 30, 4 * (30 + 50) - 30),
        (("char", "byte"), None, 4 * (250 + 50) - 250),
        (("byte", "char"), 30, None),
        (("char", "char"), 30, None),
    ],
)
def test_a_translation_in_bytes_may_be_as_long_as_bytes_need(tokenizer, kinds, longest, expected):
    settings = TokenizerSettings("char", byte_fallback=True)
    of_kind = {"byte": tokenizer, "char": Tokenizer.train(["a b"], "char", settings, 100)}
    translator = Translator(
        Tokenizers(*map(of_kind.get, kinds)), lambda: pytest.fail("no search"), longest_trained=longest
    )
    assert translator.search_settings(None, {}).max_extra_tokens == expected
    assert translator.search_settings(SearchSettings(beam_size=1), {}).max_extra_tokens == expected
    assert translator.search_settings(None, {"max_extra_tokens": 7}).max_extra_tokens == 7
    assert translator.search_settings(SearchSettings(max_extra_tokens=50), {}).max_extra_tokens == 50


@given(st.booleans(), st.none() | st.integers(1, 10**6))
def test_however_long_the_sources_of_training_a_search_takes_the_length_of_their_translations(reads, longest):
    extra = extra_bytes(reads, EXTRA_TOKENS, longest)
    assert SearchSettings(max_extra_tokens=extra).extra_tokens == extra
    assert extra >= EXTRA_TOKENS


def test_pieces_with_byte_fallback_are_not_bytes():
    settings = TokenizerSettings("bpe", byte_fallback=True)
    tokenizer = Tokenizer.train(["вода и огонь"], "bpe", settings, 300)
    assert "<0x61>" in tokenizer.pieces(tokenizer.encode(["a"])[0])
    assert not tokenizer.is_bytes


# ---- a model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The recipe of a run that has ended, and a folder with the same run as it was in the middle."""
    folder = tmp_path_factory.mktemp("bytes")
    recipe = small_recipe(folder, folder / "whole", updates=16, warmup_steps=4, validate_every=8)
    recipe = replace(
        recipe, tokenizer=TokenizerSettings("byte"), batches=replace(recipe.batches, accumulate=1)
    )

    def copy(words):
        if words.startswith("Validation at update 8"):  # as if the run had ended here
            shutil.copytree(recipe.out, folder / "stopped")

    with messages_to(copy):
        run(recipe)
    return recipe, folder / "stopped"


@pytest.mark.long
def test_a_resumed_run_equals_an_uninterrupted_one(model):
    recipe, stopped = model
    run(replace(recipe, out=stopped))
    weights = [checkpoints(folder)[-1] / "model.safetensors" for folder in (recipe.out, stopped)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_both_engines_translate_and_the_tokens_are_bytes(model):
    lines = ["amber birch", "", "é 😀"]
    engines = [Translator.load(model[0].out, native=native) for native in (True, False)]
    one, other = (engine.translate(lines, beam_size=2, max_extra_tokens=20) for engine in engines)
    assert one == other
    assert one[1] == ""
    assert read_about(model[0].out / "model")[0] > len("amber birch cedar")


@pytest.mark.long
def test_the_limit_of_bytes_holds_for_every_verb(model, tmp_path, command_line):
    line, search = "amber", SearchSettings(beam_size=2, min_length=64)  # more than the source and 50
    translator = Translator.load(model[0].out)
    told = replace(search, max_extra_tokens=200)
    expected = translator.n_best([line], told)
    assert len(expected[0][0].tokens) >= 64
    assert translator.n_best([line], search) == expected
    assert "".join(translator.stream(line, search)) == expected[0][0].text
    assert translator.trace(line, search) == translator.trace(line, told)
    assert inspect(translator, line, search).search == inspect(translator, line, told).search
    (tmp_path / "in").write_text(f"{line}\n")
    files = ["--input", tmp_path / "in", "--output", tmp_path / "out", "--min-length", 64, "--beam-size", 2]
    assert command_line("translate", model[0].out, *files)[0] == 0
    assert (tmp_path / "out").read_text("utf-8") == f"{expected[0][0].text}\n"
    assert read_json(tmp_path / "out.json")["search"]["max_extra_tokens"] == 200


def test_words_are_aligned_and_inspected(model):
    translator = Translator.load(model[0].out)
    (links,) = translator.align([("é birch", "É BIRCH")])
    assert {target for _, target in links} == {0, 1}
    assert {source for source, _ in links} <= {0, 1}
    inspection = inspect(translator, "é birch", prefix="É BIRCH", max_length=12)
    assert inspection.source[:3] == ("<0xC3>", "<0xA9>", SPACE)
    assert inspection.source_words[:-1] == (0, 0, *[1] * 6)
    assert inspection.target_words[:8] == (0, 0, *[1] * 6)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_an_export_translates_as_the_model(model, tmp_path, command_line, name):
    (tmp_path / "samples").write_text("amber\nbirch cedar\n")
    out = ["--to", name, "--out", tmp_path / "it", "--samples", tmp_path / "samples"]
    status, _, err = command_line("export", model[0].out, *out)
    assert status == 0, err


def test_argos_is_refused(model, tmp_path, command_line):
    out = ["--to", "argos", "--out", tmp_path / "it.argosmodel"]
    languages = ["--source-language", "en", "--target-language", "de"]
    status, _, err = command_line("export", model[0].out, *out, *languages)
    assert status == 2
    assert "source vocabulary is of bytes; train a model with --source-tokens bpe" in err

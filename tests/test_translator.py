"""Sentences in, sentences out: the contract of decoding."""

import itertools
import math
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields, replace
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import SearchSettings, Translator
from dragoman.documents.plain import plain_text
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, UNKNOWN
from dragoman.native.packed_linear import can_pack
from dragoman.native.settings import EngineSettings
from dragoman.search.attention_weights import cross_attention
from dragoman.search.beam import beam_search
from dragoman.search.ensemble import Ensemble
from dragoman.search.hypothesis import Constraints
from dragoman.search.options import SearchOptions
from dragoman.search.scoring import Likelihood, token_log_probabilities
from dragoman.system.errors import DragomanError, LongInput, NonFiniteError, SeveralSentences
from dragoman.text.batches import pad
from dragoman.text.invisible import without_invisible
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation import analysis
from dragoman.translation.alignment import align_ids
from dragoman.translation.cut_text import cut_text
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.model_folder import StoredModel, Tokenizers, numpy_weights, save_model
from dragoman.translation.segmentation import (
    DEFAULT_SPLIT,
    WIDE_PAUSES,
    join_texts,
    join_translations,
    split,
    split_length,
)
from dragoman.translation.sentence_ends import LINE_BREAK, LINE_BREAKS
from dragoman.translation.tags import CUE, TAG, remove_tags, restore_tags
from dragoman.translation.token_ids import batch_by_length, encode_sentences
from dragoman.translation.translation import Translation
from dragoman.translation.translator import KNOWN_SHARE, PreparedSentences
from tests.conftest import ALL_PRECISIONS, MAX_SECONDS, MODELS

LINES = ["ein Mann fährt Rad", "two dogs play", "der Schnee ist kalt", "a man rides a bike"]
SETTINGS = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)
SEARCH = SearchSettings(max_extra_tokens=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model in its folder."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(LINES * 5, "bpe", TokenizerSettings(), 330)
    model = build_model(SETTINGS, len(tokenizer), len(tokenizer))
    folder = tmp_path_factory.mktemp("run")
    save_model(folder / "model", model, SETTINGS, Tokenizers(tokenizer, tokenizer))
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder)


@pytest.fixture(scope="module")
def silent_folder(folder, tmp_path_factory):
    """The folder of a model for which END is by far the likeliest token at each step."""
    stored = StoredModel.load(folder)
    model = build_model(SETTINGS, *map(len, (stored.tokenizers.source, stored.tokenizers.target)))
    last_norm = [part for part in model.decoder.modules() if isinstance(part, torch.nn.LayerNorm)][-1]
    with torch.no_grad():
        last_norm.bias.fill_(1)
        model.output.weight[END] = 3
    silent = tmp_path_factory.mktemp("silent")
    save_model(silent / "model", model, SETTINGS, stored.tokenizers)
    return silent


@pytest.mark.short_form(3)
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 1}, {"n_best": 3}, {"groups": 2}, {"temperature": 1.0}], ids=str
)
def test_no_translation_is_empty_unless_it_may_be(silent_folder, native, options):
    translator = Translator.load(silent_folder, device="cpu", native=native)
    texts = [*LINES, "", " ", "7"]
    for text, n_best in zip(texts, translator.n_best(texts, **options), strict=True):
        assert all(bool(best.tokens) == (text in LINES) for best in n_best)
        if "n_best" not in options and "temperature" not in options:
            assert "".join(translator.stream(text, **options)) == n_best[0].text
    assert not any(best.tokens for best, *_ in translator.n_best(texts, min_length=0, **options))


TEXT = st.text(
    st.one_of(st.sampled_from(list(" abcdeimnrstäü\t\u2028\r\ud800")), st.characters(exclude_categories=[])),
    max_size=12,
)


@pytest.mark.long
@settings(max_examples=25)
@given(
    st.sampled_from(LINES),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("\xad\u200b\u200e\u2060\ufeff\u2068\u2069"))),
)
def test_invisible_characters_change_nothing(translator, line, inserted):
    text = line
    for place, character in inserted:
        text = text[:place] + character + text[place:]
    options = SearchOptions(max_extra_tokens=4, beam_size=2)
    assert translator.n_best([text], **options) == translator.n_best([line], **options)
    assert list(translator.stream(text, **options)) == list(translator.stream(line, **options))
    assert translator.score([(text, line)]) == translator.score([(line, line)])
    assert translator.align([(text, line)]) == translator.align([(line, line)])


def test_joiners_and_spaces_of_scripts_that_need_them_stay():
    persian, khmer = "می\u200cخواهم", "ភាសា\u200bខ្មែរ"
    assert without_invisible(persian) == persian
    assert without_invisible(khmer) == khmer


@settings(max_examples=25)
@given(st.lists(st.one_of(TEXT, st.sampled_from(LINES)), max_size=6), st.integers(8, 400))
def test_n_sentences_in_n_out_in_order_alike_for_any_batch(translator, sentences, tokens):
    together = translator.translate(sentences, SearchSettings(max_extra_tokens=4, batch_tokens=tokens))
    assert len(together) == len(sentences)
    for sentence, translation in zip(sentences, together, strict=True):
        assert translator.translate([sentence], SEARCH) == [translation]
        assert sentence.strip() or not translation


MANY = [" ".join(LINES[(first + step) % 4] for step in range(first % 3 + 1)) for first in range(12)]


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("transformer", {}),
        ("transformer", {"temperature": 1.0}),
        ("gru", {"groups": 2}),
        ("conv", {"force_words": ("a",)}),
    ],
    ids=str,
)
def test_threads_of_pytorch_change_no_translation(translator, kind, more):
    tokenizers = translator.tokenizers
    model = build_model(MODELS[kind], len(tokenizers.source), len(tokenizers.target)).double()
    search = replace(SEARCH, n_best=2, **({} if "temperature" in more else {"beam_size": 4}), **more)
    alone, together = (Translator.from_model(model, tokenizers, workers=workers) for workers in (1, 3))
    written = [
        translator.n_best(MANY[:6], replace(search, batch_tokens=most))
        for translator, most in ((alone, 32_000), (together, 300))
    ]
    assert [[one.text for one in best] for best in written[0]] == [
        [one.text for one in best] for best in written[1]
    ]


@pytest.mark.parametrize("precision", ALL_PRECISIONS)
def test_workers_and_batches_change_no_translation(folder, precision):
    search, lines = replace(SEARCH, n_best=3), MANY
    alone = Translator.load(folder, precision=precision, workers=1).n_best(lines, search)
    together = Translator.load(folder, precision=precision, workers=3).n_best(
        lines, replace(search, batch_tokens=300)
    )
    assert [[one.text for one in best] for best in alone] == [[one.text for one in best] for best in together]


def test_what_can_be_searched_in_cpp_is_and_all_else_in_pytorch(folder):
    native, plain = (Translator.load(folder, native=native) for native in (True, False))
    assert (native.native_backend is None, plain.native_backend is None) == (False, True)
    asked = [
        SearchSettings(max_extra_tokens=4, beam_size=size, groups=groups)
        for size, groups in ((4, 1), (1, 1), (4, 2))
    ]
    for search in (
        *asked,
        *(
            replace(SEARCH, **rule)
            for rule in ({"min_length": 9}, {"coverage_penalty": 0.2}, {"temperature": 1.0})
        ),
    ):
        one, other = (translator.n_best(LINES, search) for translator in (native, plain))
        assert [[best.text for best in found] for found in one] == [
            [best.text for best in found] for found in other
        ]


def test_a_search_that_needs_pytorch_builds_its_model_in_another_thread(folder):
    translator, search, release = Translator.load(folder), replace(SEARCH, coverage_penalty=0.2), Event()
    translator.torch_executor.submit(release.wait, MAX_SECONDS)
    future = translator.submit(translator.prepare(LINES, search))
    assert "torch_backend" not in vars(translator)  # the caller may be an event loop
    release.set()
    assert future.result(MAX_SECONDS) == translator.n_best(LINES, search)


def test_workers_leave_the_number_of_threads_as_it_was(folder):
    torch.set_num_threads(2)
    try:
        translator = Translator.load(folder, native=False)
        translator.translate(
            ["a man", "two dogs play"] * 9, SearchSettings(max_extra_tokens=4, batch_tokens=60)
        )
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(torch.get_num_threads).result()
        assert [translator.torch_backend.workers, torch.get_num_threads(), later] == [2, 2, 2]
    finally:
        torch.set_num_threads(1)


IN_EACH_PRECISION = """
import io, sys
from dragoman.cli.main import main
folder = sys.argv[1]
for precision in ("bfloat16", "int8", "float32"):
    sys.argv = ["dragoman", "translate", folder, "--precision", precision]
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"a man"))
    try:
        main()
        print(precision, "translates")
    except SystemExit as end:
        print(precision, end.code)
"""


@pytest.mark.long
def test_bfloat16_is_refused_where_the_processor_has_none(folder):
    done = subprocess.run(
        [sys.executable, "-c", IN_EACH_PRECISION, str(folder)],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    first, _, int8, _, float32 = done.stdout.splitlines()
    assert [first, int8, float32] == ["bfloat16 2", "int8 translates", "float32 translates"]
    assert "This processor has no matrix products in bfloat16; choose int8 or float32." in done.stderr


@pytest.mark.parametrize(
    "work",
    [
        lambda translator: translator.translate(LINES, replace(SEARCH, beam_size=1)),
        lambda translator: translator.translate(LINES, SEARCH),
        lambda translator: translator.translate(LINES, replace(SEARCH, temperature=1.0)),
        lambda translator: translator.translate(LINES, replace(SEARCH, force_words=("a",))),
        lambda translator: list(translator.stream(LINES[0], SEARCH)),
        lambda translator: translator.trace(LINES[0], SEARCH),
        lambda translator: translator.alternatives(LINES[0], 2, SEARCH),
        lambda translator: translator.score([(LINES[0], LINES[1])]),
    ],
)
def test_non_finite_weights_are_reported(folder, work):
    broken = Translator.load(folder, native=False)
    with torch.no_grad():
        broken.torch_backend.model.target_embedding.weight[7] = math.nan
    with pytest.raises(NonFiniteError):
        work(broken)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda translator: translator.translate(b"a man"),
            "Texts are wanted, in a list for instance; a bytes was given",
        ),
        (
            lambda translator: translator.n_best("a man"),
            "Texts are wanted, in a list for instance; a str was given",
        ),
        (
            lambda translator: translator.translate({"a man": 1}),
            "Texts are wanted, in a list for instance; a dict was given",
        ),
        (
            lambda translator: translator.translate(["a man", None]),
            r"Text 1 \(counted from 0\) is None; it has to be a text",
        ),
        (
            lambda translator: translator.translate(3),
            "Texts are wanted, in a list for instance; a int was given",
        ),
        (lambda translator: translator.alternatives("a man", -1), "count is -1; it must be at least 0"),
        (
            lambda translator: SearchSettings(temperature=1e-300),
            "temperature is 1e-300; sampling needs at least 0.000001",
        ),
        (
            lambda translator: SearchSettings(max_extra_tokens=3_000_000_000),
            "max_extra_tokens is 3000000000; it must be at most 10000",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_a_sentence(translator, work, message):
    with pytest.raises(DragomanError, match=message):
        work(translator)


def test_a_manifest_that_is_none_gets_a_sentence(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "model" / "manifest.json").write_text("[1]")
    with pytest.raises(DragomanError, match=r"manifest\.json has to be a table of file names"):
        Translator.load(tmp_path / "run")


def test_int8_is_refused_on_a_gpu(folder):
    with pytest.raises(
        DragomanError,
        match="int8 is for a CPU, and this model is to translate on cuda; choose bfloat16 or float32",
    ):
        Translator.load(folder, device="cuda", precision="int8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(folder):
    with pytest.raises(
        DragomanError,
        match=r"cuda:3 was asked for, and PyTorch can use 0 GPUs; give another device, or cpu\.",
    ):
        Translator.load(folder, device="cuda:3")


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(1, 90))
def test_batches_have_at_most_their_tokens_and_no_more_batches_than_needed(lengths, max_tokens):
    batches = batch_by_length(dict(enumerate(lengths)), max_tokens)
    assert sorted(number for batch in batches for number in batch) == [*range(len(lengths))]
    in_order = [lengths[number] for batch in batches for number in batch]
    assert in_order == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= max_tokens
    for batch, _ in pairwise(batches):
        assert (len(batch) + 1) * lengths[batch[0]] > max_tokens


def test_nothing_in_nothing_out(translator):
    assert translator.translate([]) == []
    assert translator.translate(["", " \t "]) == ["", ""]
    assert translator.translate(["", " "], SearchSettings(beam_size=1)) == ["", ""]


LETTERLESS = st.text(
    st.one_of(st.sampled_from("204.72 *€!\u0301\xad\u2028\n🎉"), st.characters(exclude_categories=["L"])),
    min_size=1,
    max_size=9,
).filter(lambda text: without_invisible(text).strip())


@settings(max_examples=25)
@given(st.lists(st.one_of(LETTERLESS, st.sampled_from(LINES)), min_size=1, max_size=5), st.booleans())
def test_a_text_without_letters_is_its_own_translation_among_any_others(translator, texts, keep_tags):
    search = replace(SEARCH, n_best=2, beam_size=2, keep_tags=keep_tags)
    for text, n_best in zip(texts, translator.n_best(texts, search), strict=True):
        if text in LINES:
            assert n_best == translator.n_best([text], search)[0]
            continue
        own = " ".join(text.splitlines())
        assert n_best == [Translation(own, 0.0, 0.0)]
        assert "".join(translator.stream(text, SEARCH, split=0)) == own
        assert translator.alternatives(text, 2, SEARCH) == []
        assert [node.token for node in translator.trace(text, SEARCH)] == ["<s>"]


@settings(max_examples=2)
@given(LETTERLESS)
def test_a_text_without_letters_is_translated_where_it_may_not_be_the_translation(translator, text):
    if translator.tokenizers.source.encode([without_invisible(text)]) != [[]]:
        for constraint in [{"min_length": 1}, {"prefix": "ein"}, {"ban_words": ("der Schnee",)}]:
            assert translator.n_best([text], SEARCH, **constraint)[0][0].tokens
            assert translator.trace(text, SEARCH, **constraint)[1:]
    glossary = Glossary([Term("7", "zwei")], Languages("und", "und"))
    assert translator.n_best(["7", "8"], SEARCH, glossary)[1] == [Translation("8", 0.0, 0.0)]
    assert "zwei" in translator.translate(["7"], SEARCH, glossary)[0]


@pytest.mark.parametrize(("kind", "byte_fallback"), [("word", False), ("char", False), ("bpe", True)])
def test_a_model_of_texts_without_letters_translates_them(kind, byte_fallback):
    settings = TokenizerSettings(byte_fallback=byte_fallback, symbols=("<2de>",))
    digits = Tokenizer.train(["1 2 3 4"], kind, settings, 300)
    model = build_model(SETTINGS, len(digits), len(digits))
    translator = Translator.from_model(model, Tokenizers(digits, digits))
    assert translator.n_best(["1 2"], SEARCH)[0][0].log_probability


def test_a_translation_is_one_line_whatever_bytes_the_model_spells(translator):
    newline = next(
        token for token in range(300) if translator.tokenizers.target.pieces([token]) == ["<0x0A>"]
    )
    (word,) = translator.tokenizers.target.encode(["a"])
    assert translator.detokenize([*word, newline, *word]).split() == ["a", "a"]
    assert "\n" not in translator.detokenize([*word, newline, *word])


def test_the_n_best_are_ranked(translator):
    (found,) = translator.n_best(LINES[:1], SearchSettings(n_best=3, max_extra_tokens=4))
    assert len(found) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_forced_decoding_gives_the_scores_of_search_back(translator):
    asked = SearchSettings(n_best=3, max_extra_tokens=4)
    for line in LINES:
        source = pad(encode_sentences(translator.tokenizers.source, [line]))
        for found in beam_search(translator.torch_backend.model, source, asked)[0]:
            log_p = token_log_probabilities(
                translator.torch_backend.model, source, torch.tensor([[*found.ids, END]])
            )
            assert float(log_p.sum()) == pytest.approx(found.log_probability, abs=1e-4)


def test_a_pair_is_scored_alike_whatever_its_neighbours(translator):
    pairs = [*zip(LINES, LINES[::-1], strict=True), ("", "a man"), ("a man", ""), ("", "")]
    together = translator.score(pairs, batch_tokens=60)
    for pair, found in zip(pairs, together, strict=True):
        (alone,) = translator.score([pair])
        assert alone.tokens == found.tokens
        assert alone.tokens[-1] == "</s>"
        assert alone.log_probabilities == pytest.approx(found.log_probabilities, abs=1e-5)
        assert alone.perplexity == pytest.approx(math.exp(-sum(alone.log_probabilities) / len(alone.tokens)))
    assert math.isfinite(Likelihood(["never", "</s>"], [-1e9, -1.0]).perplexity)
    assert translator.score([]) == []


def test_a_saved_model_translates_alike(translator, folder, tmp_path):
    save_model(tmp_path / "copy", translator.torch_backend.model, SETTINGS, translator.tokenizers)
    for place in (folder / "model", tmp_path / "copy"):
        assert Translator.load(place).translate(LINES, SEARCH) == translator.translate(LINES, SEARCH)


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_embeddings_are_still_one_matrix_after_loading(translator, tmp_path, tied, matrices):
    tokenizers, asked = translator.tokenizers, replace(SETTINGS, tied=tied)
    model = build_model(asked, len(tokenizers.source), len(tokenizers.target))
    save_model(tmp_path / "model", model, asked, tokenizers)
    for precision in filter(can_pack, ("float32", "bfloat16")):
        loaded = Translator.load(tmp_path, native=False, precision=precision).torch_backend.model
        tied_weights = (loaded.source_embedding, loaded.target_embedding, loaded.output)
        assert len({each.weight.data_ptr() for each in tied_weights}) == matrices


def test_two_vocabularies_are_two_files(tmp_path):
    one, other = (Tokenizer.train(LINES * 5, kind, TokenizerSettings(), 330) for kind in ("bpe", "char"))
    asked = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1, tied="target")
    save_model(tmp_path / "model", build_model(asked, len(one), len(other)), asked, Tokenizers(one, other))
    assert sorted(path.name for path in (tmp_path / "model").glob("*.model")) == [
        "source.model",
        "target.model",
    ]
    assert len(Translator.load(tmp_path).translate(["ein Mann"], SEARCH)) == 1


def test_a_folder_without_a_model_says_what_to_do(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")  # the text that was prepared has one too
    with pytest.raises(
        DragomanError, match="holds no model. Train one with: dragoman train SOURCE TARGET --out"
    ):
        Translator.load(tmp_path)
    (tmp_path / "recipe.toml").write_text("")
    with pytest.raises(DragomanError, match="first validation; resume it with: dragoman resume"):
        Translator.load(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model.toml", "tokenizer.model"])
def test_an_altered_model_is_refused_by_the_files_name(translator, tmp_path, name):
    save_model(tmp_path / "model", translator.torch_backend.model, SETTINGS, translator.tokenizers)
    path = tmp_path / "model" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DragomanError, match=f"{name} is damaged or was changed"):
        Translator.load(tmp_path)


def test_a_text_that_is_too_long_for_learnt_positions_is_named(translator):
    settings = replace(SETTINGS, positions="learned", max_positions=8)
    tokenizers = translator.tokenizers
    model = build_model(settings, len(tokenizers.source), len(tokenizers.target))
    limited = Translator.from_model(model, tokenizers)
    for attempt in (
        lambda lines: limited.translate(lines, split=0),
        lambda lines: limited.score([("a", line) for line in lines]),
    ):
        with pytest.raises(
            DragomanError,
            match=r"begins with 'a man a man .*' has \d+ tokens, .* for 8\. Shorten it \(translate takes",
        ):
            attempt(["a man", "a man " * 9])
    for advised in (SearchSettings(), SearchSettings(truncate=8), SearchSettings(split=8)):
        assert len(limited.translate(["a man", "a man " * 9], advised)) == 2


@pytest.mark.long
def test_sentences_longer_than_those_of_training_are_split_and_counted(translator, tmp_path):
    save_model(
        tmp_path / "model", translator.torch_backend.model, SETTINGS, translator.tokenizers, longest_trained=4
    )
    loaded = Translator.load(tmp_path)
    lengths = [len(row) for row in encode_sentences(loaded.tokenizers.source, LINES)]
    long = sum(length > 4 for length in lengths)
    assert 1 < long == loaded.count_long_sentences(LINES)
    assert (
        translator.count_long_sentences(LINES)
        == loaded.count_long_sentences(LINES, truncate=4)
        == loaded.count_long_sentences(LINES, split=4)
        == 0
    )
    assert (
        loaded.count_long_sentences(["<a> <b> man </b>"], keep_tags=True)
        == loaded.count_long_sentences(["man"])
        == 0
    )
    counted = (
        rf"{long} sentences have more tokens than the longest source of training \(4\), and are translated "
    )
    with pytest.warns(LongInput, match=counted + r"in parts; split 0 translates"):
        parts = loaded.translate(LINES, max_extra_tokens=2)
    assert parts == loaded.translate(LINES, max_extra_tokens=2, split=4)
    for whole in ({"split": 0}, {"n_best": 2}, {"min_length": 1}):
        with pytest.warns(LongInput, match=counted + "whole, perhaps badly"):
            texts = loaded.translate(LINES, max_extra_tokens=2, **whole)
        assert texts == translator.translate(LINES, max_extra_tokens=2, **whole)
    for search in (
        lambda line: list(loaded.stream(line)),
        loaded.trace,
        lambda line: loaded.alternatives(line, 1),
    ):
        with pytest.warns(
            LongInput, match="1 sentence has more tokens .* is translated whole, perhaps badly"
        ):
            search(LINES[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.translate(LINES, truncate=4, max_extra_tokens=2)
        loaded.translate(LINES, split=4, max_extra_tokens=2)


SENTENCES = st.lists(
    st.sampled_from(["Ein Mann fährt Rad.", "Two dogs play!", "Ist der Schnee kalt?", "a man rides a bike"]),
    min_size=1,
    max_size=3,
)
JOINTS = st.sampled_from([" ", "\n", "\r\n", " \u2028 ", "\n\n", "\x0c", "\t"])


TEXTS = st.lists(
    st.builds(
        lambda sentences, joint, edge: edge + joint.join(sentences) + edge,
        SENTENCES,
        JOINTS,
        st.sampled_from(["", "\n", " "]),
    ),
    max_size=6,
)


@pytest.mark.long
@settings(max_examples=25)
@given(texts=TEXTS)
def test_texts_of_several_sentences_are_translated_sentence_by_sentence(translator, texts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n_best = translator.n_best(texts, SEARCH)
        for text, (best,) in zip(texts, n_best, strict=True):
            sentences = plain_text(text.replace("\t", " "), "und")
            parts = [part for (part,) in translator.n_best(sentences.sentences, SEARCH, split=0)]
            assert best.text.split() == [word for part in parts for word in part.text.split()]
            assert [best.text.count(end) for end in "\r\n\u2028\x0c"] == [
                text.strip().count(end) for end in "\r\n\u2028\x0c"
            ]
            assert best.tokens == tuple(token for part in parts for token in part.tokens)
            assert best.log_probability == pytest.approx(sum(part.log_probability for part in parts))
            assert translator.translate(text, SEARCH) == best.text == "".join(translator.stream(text, SEARCH))


@settings(max_examples=25)
@given(texts=TEXTS, share=st.sampled_from([0.0, 0.09, KNOWN_SHARE, 1.0]))
def test_texts_are_whole_for_a_model_that_knows_such_texts_and_where_it_is_asked_for(
    stored, translator, texts, share
):
    knowing = Translator.of([replace(stored, several_sentences=share)], EngineSettings())
    several = sum(len(plain_text(text.replace("\t", " "), "und").segments) > 1 for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = [best.text for (best,) in translator.n_best(texts, SEARCH, split=0)]
        assert all(len(text.splitlines()) < 2 for text in whole)
        assert knowing.translate(texts, SEARCH) == (
            translator.translate(texts, SEARCH) if share < KNOWN_SHARE else whole
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert knowing.translate(texts, SEARCH, min_length=1) == translator.translate(
            texts, SEARCH, min_length=1, split=0
        )
    said = [str(warning.message) for warning in caught if warning.category is SeveralSentences]
    texts_have = f"{len(texts)} text{'s' * (len(texts) != 1)} ha{'s' if several == 1 else 've'}"
    assert [message.startswith(f"{several} of {texts_have} several sentences") for message in said] == [
        True
    ] * (several > 0 and share < KNOWN_SHARE)


@pytest.fixture(scope="module")
def stored(folder):
    return StoredModel.load(folder)


@given(st.text(st.sampled_from("ab .!。日\n\r\u2028\t\x0c\ud800"), max_size=20), st.data())
def test_what_stands_between_the_sentences_of_a_text_stays(text, data):
    cut = cut_text(text, "en")
    if not {"日", "。"} & set(text):
        assert cut.join(cut.sentences) == (text[cut.spans[0][0] : cut.spans[-1][1]] if cut.spans else "")
    words = data.draw(
        st.lists(st.sampled_from(["x", "日", ""]), min_size=len(cut.spans), max_size=len(cut.spans))
    )
    joined = cut.join(words)
    assert "".join(joined.split()) == "".join(words)
    assert LINE_BREAK.findall(joined) == LINE_BREAK.findall(text.strip(LINE_BREAKS + " \t"))


@pytest.mark.parametrize("make", [iter, tuple, list, np.array])
def test_any_iterable_of_texts_is_translated(translator, make):
    assert translator.translate(make(LINES), SEARCH) == [translator.translate(line, SEARCH) for line in LINES]


@pytest.mark.parametrize("search", ["trace", "alternatives"])
def test_a_single_text_of_several_sentences_is_warned_of(translator, search):
    more = [1] if search == "alternatives" else []
    text = "Two dogs play.\nA man rides."
    with pytest.warns(SeveralSentences, match="^1 of 1 text has several sentences or a line break, and is"):
        list(getattr(translator, search)(text, *more, max_extra_tokens=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(getattr(translator, search)(text, *more, max_extra_tokens=2, split=0))


def test_options_by_keyword_are_the_fields_of_the_settings(translator):
    assert SearchOptions.__annotations__ == SearchSettings.__annotations__
    assert translator.translate(LINES, beam_size=2, max_extra_tokens=4) == translator.translate(
        LINES, replace(SEARCH, beam_size=2)
    )
    assert translator.translate(LINES, SEARCH, beam_size=2) == translator.translate(
        LINES, replace(SEARCH, beam_size=2)
    )


def test_the_tokens_of_a_translation_give_its_log_probability_back(translator):
    asked = SearchSettings(n_best=3, max_extra_tokens=4)
    for line, best in zip(LINES, translator.n_best(LINES, asked), strict=True):
        for one, scored in zip(best, translator.score([(line, one.tokens) for one in best]), strict=True):
            assert scored.tokens == [*one.tokens, "</s>"]
            assert sum(scored.log_probabilities) == pytest.approx(one.log_probability, abs=1e-4)
            assert translator.detokenize(translator.tokenizers.target.ids(one.tokens)) == one.text
    with pytest.raises(
        DragomanError,
        match="'no such token' is no token of this vocabulary; give tokens as a translation has them",
    ):
        translator.score([("a man", ["no such token"])])
    ended, plain = (translator.score([("a man", tokens)]) for tokens in (scored.tokens, scored.tokens[:-1]))
    assert ended == plain
    for wrong in ("</s>", "<s>", "<pad>"):
        with pytest.raises(
            DragomanError,
            match=f"The tokens of a translation contain {wrong}, which no translation has before its end",
        ):
            translator.score([("a man", [wrong, *one.tokens])])


def test_models_of_the_same_vocabularies_are_an_ensemble(folder, translator, tmp_path):
    both = Translator.load(folder, folder)
    assert isinstance(both.torch_backend.model, Ensemble)
    assert both.translate(LINES, SEARCH) == translator.translate(LINES, SEARCH)
    save_model(
        tmp_path / "short", translator.torch_backend.model, SETTINGS, translator.tokenizers, longest_trained=4
    )
    assert Translator.load(folder, tmp_path / "short").longest_trained == 4
    other = Tokenizer.train(LINES * 5, "char", TokenizerSettings(), 330)
    save_model(
        tmp_path / "other", build_model(SETTINGS, len(other), len(other)), SETTINGS, Tokenizers(other, other)
    )
    with pytest.raises(DragomanError, match="an ensemble need the same vocabularies; theirs differ"):
        Translator.load(folder, tmp_path / "other")


def test_an_ensemble_has_the_limits_of_its_shortest_models(translator):
    stored, positions = [], ((7, None), (None, 9), (5, 6), (8, 12))
    for trained, longest in positions:
        learned = {} if longest is None else {"positions": "learned", "max_positions": longest}
        settings, size = replace(SETTINGS, **learned), len(translator.tokenizers.target)
        weights = numpy_weights(build_model(settings, size, size))
        stored.append(StoredModel(weights, settings, translator.tokenizers, trained))
    for models in itertools.permutations(stored, 2):
        limits = [(each.longest_trained, each.settings.longest) for each in models]
        both = Translator.of(models, EngineSettings(device="cpu"))
        shortest = tuple(
            min((each for each in column if each), default=None) for column in zip(*limits, strict=True)
        )
        assert (both.longest_trained, both.longest_source) == shortest


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), max_size=4), st.integers(1, 12))
def test_the_tokens_of_a_sentence_are_counted_whatever_its_parts_are(sentences, longest):
    parts = [[[*[5] * tokens, END] for tokens in sentence] for sentence in sentences]
    prepared = PreparedSentences(SEARCH, [], parts, Constraints())
    assert prepared.count_longer(longest) == sum(sum(sentence) + 1 > longest for sentence in sentences)
    assert prepared.count_longer(None) == 0
    assert prepared.tokens == sum(sum(sentence) + len(sentence) for sentence in sentences)


@pytest.mark.short_form(2)
@pytest.mark.parametrize("architecture", ["transformer", "lstm", "gru", "conv"])
def test_unknown_tokens_are_replaced_by_the_words_that_they_attend_to(architecture):
    torch.manual_seed(2)
    words = Tokenizer.train(["amber birch cedar"] * 3, "word", TokenizerSettings(), 20)
    has_bias = architecture == "transformer"
    model = build_model(
        replace(SETTINGS, architecture=architecture, output_bias=has_bias, tied="none"),
        len(words),
        len(words),
    )
    with torch.no_grad():
        if has_bias:
            model.output_bias[UNKNOWN] += 5
        else:
            model.output.weight.zero_()  # of what is all alike the smallest token is taken
    translator, asked = (
        Translator.from_model(model, Tokenizers(words, words)),
        SearchSettings(max_extra_tokens=2, min_length=2),
    )
    for sources in (["amber", "birch"], ["quartz", "amber"], ["quartz", "ruby", "birch", "opal"]):
        line = " ".join(sources)
        known = translator.translate([line], replace(asked, replace_unknown=True))[0]
        ids = translator.search(translator.prepare([line], asked))[0][0].ids
        looks = cross_attention(model, pad(encode_sentences(words, [line])), torch.tensor([[*ids, END]]))[
            0
        ].mean(1)[0]
        best = [sources[int(place)] for place in looks[:, : len(sources)].argmax(1)]
        assert UNKNOWN in ids
        assert known == " ".join(
            best[place] if token == UNKNOWN else words.decode([token]) for place, token in enumerate(ids)
        )


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["\u2581a", "\u2581b.", "c", "d,", "\u2581e"]), max_size=30), st.integers(2, 9)
)
def test_parts_of_a_sentence_are_the_sentence_cut_between_words_where_that_can_be(pieces, most):
    ids = [*range(10, 10 + len(pieces)), END]
    found = split(ids, [*pieces, "</s>"], most)
    assert [token for part in found for token in part[:-1]] == ids[:-1]
    assert all(part[-1] == END and 1 <= len(part) <= most for part in found)
    for part, after in itertools.pairwise(found):
        starts = [token for token in part[1:-1] if pieces[token - 10].startswith("\u2581")]
        assert pieces[after[0] - 10].startswith("\u2581") or not starts


def test_a_part_ends_after_punctuation_if_its_second_half_has_some():
    ids, pieces = (
        [*range(10, 16), END],
        ["\u2581a", "\u2581b", "\u2581c.", "\u2581d", "\u2581e", "\u2581f", "</s>"],
    )
    assert split(ids, pieces, 6) == [[10, 11, 12, END], [13, 14, 15, END]]
    pieces = ["\u2581a.", *pieces[1:2], "\u2581c", *pieces[3:]]
    assert split(ids, pieces, 6) == [[10, 11, 12, 13, 14, END], [15, END]]
    half = [
        "\u2581a",
        "\u2581b.",
        "\u2581c",
        "\u2581d",
        "\u2581e",
        "\u2581f",
        "</s>",
    ]  # the place is in the middle
    assert split(ids, half, 5)[0] == [10, 11, END]
    wide = ["\u2581a", "b", "c", "d\u3002", "e", "f", "</s>"]  # no space follows
    assert split(ids, wide, 6) == [[10, 11, 12, 13, END], [14, 15, END]]
    wide = ["\u2581a", "\u3002", "c", "d", "e", "f", "</s>"]
    assert split(ids, wide, 6) == [[10, 11, 12, 13, 14, END], [15, END]]


def parts_of(pieces, most):
    """The pieces of each part."""
    found = split([*range(10, 10 + len(pieces)), END], [*pieces, "</s>"], most)
    return [[pieces[token - 10] for token in part[:-1]] for part in found]


def byte_pieces(text):
    return ["\u2581" if byte == 32 else f"<0x{byte:02X}>" for byte in text.encode()]


@given(st.text(min_size=1), st.integers(5, 9))
def test_no_part_ends_inside_a_character(text, most):
    parts = parts_of([f"<0x{byte:02X}>" for byte in text.encode()], most)
    assert "".join(bytes(int(piece[3:5], 16) for piece in part).decode() for part in parts) == text


@pytest.mark.parametrize(
    ("pieces", "most", "first"),
    [
        (byte_pieces("I came. Then I"), 12, byte_pieces("I came.")),
        (byte_pieces("很早。你好"), 14, byte_pieces("很早。")),
        (["\u2581很", "早", "!", "你", "好", "吗"], 6, ["\u2581很", "早", "!"]),  # normalised from ！
        (["\u2581a", "b", ",", "5", "c", "d"], 6, ["\u2581a", "b", ",", "5", "c"]),
        (["\u2581der", "\u2581Sch@@", "\u2581n@@", "\u2581ee"], 4, ["\u2581der"]),
    ],
)
def test_a_part_ends_where_a_reader_would_pause(pieces, most, first):
    assert parts_of(pieces, most)[0] == first


@given(st.lists(st.text("a.。！、 ", min_size=1)))
def test_parts_are_joined_by_a_space_unless_wide_punctuation_ends_one(texts):
    joined = join_texts(texts)
    for text in texts:
        assert joined.startswith(text)
        joined = joined[len(text) :].removeprefix("" if text.endswith(WIDE_PAUSES) else " ")
    assert joined == ""
    assert join_texts(["他来了。", "她走了，", "the end.", "so"]) == "他来了。她走了，the end. so"


@given(st.none() | st.integers(1, 5), st.none() | st.integers(1, 5))
def test_sentences_are_split_above_what_was_trained_or_can_be_read_and_not_into_ends(trained, readable):
    length = split_length(SearchSettings(), trained, readable)
    assert length == max(2, trained or readable or DEFAULT_SPLIT)
    assert split_length(SearchSettings(n_best=2), trained, readable) == 0
    assert split_length(SearchSettings(split=7), trained, readable) == 7


OF_A_WHOLE_SENTENCE = {
    "n_best": 2,
    "prefix": "a",
    "force_words": ("a",),
    "min_length": 1,
    "max_length": 9,
    "no_repeat_ngram": 2,
    "keep_tags": True,
    "replace_unknown": True,
    "truncate": 9,
    "mbr": True,
}
OF_EVERY_PART = {
    "beam_size": 2,
    "length_penalty": 0.2,
    "max_extra_tokens": 7,
    "length_power": 0.5,
    "coverage_penalty": 0.3,
    "groups": 2,
    "diversity": 0.1,
    "ban_words": ("a",),
    "temperature": 1.0,
    "top_k": 3,
    "top_p": 0.5,
    "sampling_seed": 2,
    "batch_tokens": 99,
}
NEEDED = {
    **{name: {"temperature": 1.0} for name in ("top_k", "top_p", "sampling_seed")},
    "diversity": {"groups": 2},
    "mbr": {"temperature": 1.0, "n_best": 2},
}


@pytest.mark.parametrize("name", [each.name for each in fields(SearchSettings) if each.name != "split"])
def test_a_setting_holds_for_every_part_of_a_sentence_or_keeps_it_whole(name):
    asked = NEEDED.get(name, {}) | {name: (OF_A_WHOLE_SENTENCE | OF_EVERY_PART)[name]}
    whole = name in OF_A_WHOLE_SENTENCE
    assert split_length(SearchSettings(**asked), 4, 5) == (0 if whole else 4)
    with pytest.raises(DragomanError, match="split") if whole else nullcontext():
        assert split_length(SearchSettings(split=9, **asked), 4, 5) == 9
    assert split_length(SearchSettings(split=0, **asked), 4, 5) == 0


def test_a_joined_translation_has_the_sums_and_the_tokens_of_its_parts():
    parts = [
        Translation("a b.", -1.0, -0.5, ("a", "b.")),
        Translation("", -2.0, -1.5),
        Translation("c", -4.0, -3.5, ("c",)),
    ]
    assert join_translations(parts) == Translation("a b. c", -7.0, -5.5, ("a", "b.", "c"))


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=4), st.integers(4, 60))
@settings(max_examples=20)
def test_a_long_sentence_is_split_without_the_ends_of_its_cues(translator, cues, longest):
    short = Translator.from_model(
        translator.torch_backend.model, translator.tokenizers, longest_trained=longest
    )
    plain = " ".join(cues)
    sentence = " ".join(cues[:1] + [f"<cue{number}/>{cue}" for number, cue in enumerate(cues[1:], 1)])
    prepared = short.prepare([plain, sentence, "x"], SEARCH, keep_tags=True)
    split_parts = short.prepare([plain], SEARCH).parts[0]
    tags = [tag.text for tag in prepared.without_tags[1][1]]
    if len(cues) > 1:
        assert prepared.parts[1] == split_parts
        assert tags == ([] if len(split_parts) > 1 else CUE.findall(sentence))
    assert len(prepared.parts[0]) == 1
    assert short.count_long_sentences([sentence], SEARCH, keep_tags=True) == (
        len(cues) == 1 and len(prepared.parts[0][0]) > longest
    )


def test_long_sentences_are_truncated_or_split_only_as_asked(translator):
    line = "two dogs play, a man rides a bike, two dogs play"
    count = len(encode_sentences(translator.tokenizers.source, [line])[0])
    whole = translator.translate([line], SEARCH)
    assert translator.translate([line], replace(SEARCH, truncate=count)) == whole
    assert translator.translate([line], replace(SEARCH, split=count)) == whole
    first = translator.tokenizers.source.decode(encode_sentences(translator.tokenizers.source, [line])[0][:4])
    assert translator.translate([line], replace(SEARCH, truncate=5)) == translator.translate([first], SEARCH)
    pieces = split(
        ids := encode_sentences(translator.tokenizers.source, [line])[0],
        translator.tokenizers.source.pieces(ids),
        8,
    )
    assert len(pieces) > 1
    texts = translator.translate([translator.tokenizers.source.decode(part) for part in pieces], SEARCH)
    assert translator.translate([line, ""], replace(SEARCH, split=8)) == [" ".join(filter(None, texts)), ""]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"truncate": 5, "split": 5},
            "split and truncate exclude each other: split translates a sentence in parts; leave one",
        ),
        (
            {"split": 9, "prefix": "a"},
            "split and prefix exclude each other: split translates a sentence in parts; leave one of them",
        ),
        (
            {"split": 9, "no_repeat_ngram": 2},
            "split and no_repeat_ngram exclude each other: split translates a sentence in parts",
        ),
        *(
            (
                {"keep_tags": True, rule: ("{city}",)},
                "Tags and addresses are put back where the source has them; leave tags out of prefix, ",
            )
            for rule in ("force_words", "ban_words")
        ),
        (
            {"split": 1},
            "truncate and split count a sentence's end, so that 1 leaves nothing; give 2 at least",
        ),
        (
            {"split": 9, "n_best": 2},
            "split and n_best exclude each other: split translates a sentence in parts",
        ),
    ],
)
def test_ways_to_shorten_that_contradict_each_other_are_refused(translator, wrong, message):
    with pytest.raises(DragomanError, match=message):
        translator.translate(["a man"], **wrong)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["<b>", "</b>", "{name}", "two", "dogs", "play."]), max_size=6))
def test_every_tag_is_in_the_translation_of_the_sentence_without_it(translator, words):
    line = " ".join(words)
    asked = replace(SEARCH, keep_tags=True, n_best=2)
    plain, tags = remove_tags(line)
    for one, before in zip(
        translator.n_best([line], asked)[0],
        translator.n_best([plain], replace(SEARCH, n_best=2))[0],
        strict=True,
    ):
        tag_texts = " ".join(tag.text for tag in tags)  # a pair around a placeholder is one tag
        assert sorted(TAG.findall(one.text)) == sorted(TAG.findall(tag_texts))
        assert TAG.sub("", one.text).split() == before.text.split()


@pytest.mark.parametrize("architecture", ["lstm", "gru", "conv"])
def test_tags_are_put_back_by_baselines_too(translator, architecture):
    size = len(translator.tokenizers.target)
    settings = replace(SETTINGS, architecture=architecture)
    baseline = Translator.from_model(build_model(settings, size, size), translator.tokenizers)
    asked = replace(SEARCH, keep_tags=True, coverage_penalty=0.1)
    assert sorted(TAG.findall(baseline.translate(["a <b>man</b> rides"], asked)[0])) == ["</b>", "<b>"]
    seen = baseline.attention("two dogs", "a man")
    assert seen.cross.shape == (1, 1, len(seen.target), len(seen.source))
    assert baseline.align([("two dogs", "a man")], 1, 1) == baseline.align([("two dogs", "a man")])


def test_tags_are_put_back_by_the_first_model_of_an_ensemble_and_within_learnt_positions(translator):
    size = len(translator.tokenizers.target)
    narrow = build_model(replace(SETTINGS, heads=4, positions="learned", max_positions=12), size, size)
    both = Translator.from_model(Ensemble([translator.torch_backend.model, narrow]), translator.tokenizers)
    asked = replace(SEARCH, keep_tags=True, truncate=12, coverage_penalty=0.1)
    assert sorted(TAG.findall(both.translate(["a <b>man</b> rides a bike and two dogs play"], asked)[0])) == [
        "</b>",
        "<b>",
    ]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["transformer", "gru"])
def test_tags_are_put_back_where_alignment_has_their_words(translator, kind):
    tokenizers, text, found = translator.tokenizers, "two dogs play a bike", set()
    asked = SearchSettings(
        prefix=text, max_length=len(tokenizers.target.encode([text])[0]), max_extra_tokens=50
    )
    for seed in range(5):
        torch.manual_seed(seed)
        model = build_model(MODELS[kind], len(tokenizers.source), len(tokenizers.target))
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3)
        own = Translator.from_model(model, tokenizers)
        for sentence in ("two <b>dogs</b> play", "a man <i>rides</i> a {name} bike"):
            plain, tags = remove_tags(sentence)
            (tagged,) = own.translate([sentence], replace(asked, keep_tags=True))
            (source,), (target,) = (
                encode_sentences(side, [line])
                for side, line in ((tokenizers.source, plain), (tokenizers.target, text))
            )
            weights = analysis.target_weights(own, source, target[:-1])
            links = align_ids(tokenizers, plain, source, target[:-1], weights)
            assert tagged == restore_tags(tags, text, links)
            found.add((sentence, tagged))
    assert len(found) > 4  # so that the alignment tells


def test_a_model_with_non_finite_predictions_is_named(translator):
    size = len(translator.tokenizers.target)
    broken = build_model(SETTINGS, size, size)
    with torch.no_grad():
        broken.encoder[0].feed_forward.inner.weight[0, 0] = math.nan
    for asked in (SEARCH, replace(SEARCH, force_words=("Mann",))):
        with pytest.raises(
            DragomanError, match="The model's probabilities are not finite: its training diverged"
        ):
            Translator.from_model(broken, translator.tokenizers).translate(["a man"], asked)


@pytest.mark.parametrize("kind", ["transformer", "transformer, other options"])
def test_all_weights_of_attention_are_those_of_equation_1(kind, translator):
    tokenizers = translator.tokenizers
    model = build_model(MODELS[kind], len(tokenizers.source), len(tokenizers.target)).eval()
    seen = Translator.from_model(model, tokenizers).attention("two dogs", "a man")
    source, target = (
        [*side.encode([text])[0], END]
        for side, text in zip((tokenizers.source, tokenizers.target), ("two dogs", "a man"), strict=True)
    )
    assert (seen.source, seen.target) == (tokenizers.source.pieces(source), tokenizers.target.pieces(target))
    layers = [model.settings.encoder_layers, *[model.settings.decoder_layers] * 2]
    sizes = [(len(source), len(source)), (len(target), len(target)), (len(target), len(source))]
    found = [seen.encoder, seen.decoder, seen.cross]
    assert [weights.shape for weights in found] == [
        (depth, model.settings.heads, *size) for depth, size in zip(layers, sizes, strict=True)
    ]
    for weights in found:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert torch.equal(seen.decoder, seen.decoder.tril())
    assert torch.equal(
        seen.cross, cross_attention(model, torch.tensor([source]), torch.tensor([target]))[:, 0]
    )
    first = model.encoder[0]
    x = model.embed(torch.tensor([source]), model.source_embedding, model.source_positions(0, len(source)))
    queries, here = first.self_attention.project(first.self_attention_residual.before(x))
    scores = queries @ here.keys.transpose(-1, -2) / model.settings.key_width**0.5
    torch.testing.assert_close(seen.encoder[0], scores.softmax(-1)[0])


def test_a_trace_has_the_scores_that_rank(translator):
    asked = SearchSettings(n_best=2, max_extra_tokens=5, length_power=0.7)
    nodes = translator.trace("two dogs", asked)
    ended = sorted((node.score for node in nodes if node.end == "finished"), reverse=True)
    assert ended[:2] == pytest.approx(
        [one.score for one in translator.n_best(["two dogs"], asked)[0]], abs=1e-5
    )


def test_one_translation_is_streamed_and_continues_from_an_alternative(translator):
    for ask in (
        lambda asked: list(translator.stream("two dogs", asked)),
        lambda asked: translator.alternatives("two dogs", 3, asked),
    ):
        with pytest.raises(DragomanError, match=r"n_best is 2, and there is one .*; leave n_best out\."):
            ask(SearchSettings(n_best=2))

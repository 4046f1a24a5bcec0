"""Search in C++ against search in PyTorch, whatever the model is made of."""

import ctypes
import platform
import random
import re
from dataclasses import replace
from functools import cache
from itertools import chain, product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import sinusoid_table
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.native import decoder, engine
from dragoman.native.build import DECODER, load_library
from dragoman.native.decoder import PRECISIONS, NativeDecoder
from dragoman.native.levels import OWN_LEVELS
from dragoman.native.packed_linear import pack, quantise_rows
from dragoman.search.attention_weights import cross_attention
from dragoman.search.beam import beam_search, greedy_search
from dragoman.search.grid_beam import grid_beam_search
from dragoman.search.hypothesis import Constraints, Phrase, length_normalization, max_target_length
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.errors import DragomanError, NonFiniteError, NotEnoughMemoryError
from dragoman.text.batches import pad
from dragoman.translation.alignment import select_head
from dragoman.translation.model_folder import numpy_weights
from dragoman.translation.token_ids import explain_out_of_memory
from tests.conftest import NEEDS_BFLOAT16, VOCABULARY
from tests.test_search import (
    PENALTIES,
    any_rules,
    any_search,
    few_tokens,
    reference_steps,
    same_hypotheses,
    tiny,
    with_few_tokens,
)

SMALL = ModelSettings(d_model=24, d_ff=50, heads=3, encoder_layers=2, decoder_layers=3)
KINDS = {
    "as in the paper": SMALL,
    "pre-norm, GELU, biases": replace(
        SMALL, norm="pre", activation="gelu", attention_bias=True, output_bias=True, norm_epsilon=0.5
    ),
    "odd widths, swish": replace(
        SMALL,
        d_model=21,
        d_ff=33,
        decoder_d_ff=70,
        heads=2,
        d_k=5,
        d_v=7,
        activation="swish",
        scale_embeddings=False,
    ),
    "two vocabularies": replace(
        SMALL,
        decoder_d_ff=7,
        tied="target",
        encoder_layers=1,
        positions="sinusoidal-halves",
        first_position=2,
        source_end=False,
    ),
    "nothing tied, learnt positions": replace(SMALL, tied="none", positions="learned", max_positions=16),
}
ASKED = {
    "beam 4": SearchSettings(max_extra_tokens=6),
    "greedy": SearchSettings(beam_size=1, max_extra_tokens=6),
    "n best of a power": SearchSettings(
        beam_size=5, n_best=3, length_penalty=0.6, length_power=1.3, max_extra_tokens=0
    ),
    "a greatest length": SearchSettings(max_length=3),
    "a wide beam, little memory": SearchSettings(
        beam_size=20, n_best=20, length_penalty=0.0, max_extra_tokens=2, batch_tokens=1
    ),
}


RULES = {
    "no end before 8": Constraints(min_length=8),
    "no repetition": Constraints(no_repeat_ngram=2),
    "no token twice": Constraints(no_repeat_ngram=1, min_length=3),
    "a prefix": Constraints(prefix=[7, 9, 7]),
    "bans": Constraints(
        banned=[[number] for number in range(4, 90, 3)] + [[END + 2, 8], [30, 31, 32]], min_length=2
    ),
    "all of them": Constraints(
        5, 2, [[token, other] for token in range(20, 60) for other in (33, 34)], [41, 50]
    ),
    "nothing left": Constraints(20, 1, [[token] for token in range(150) if token % 40 and token != END]),
    "no repetition that fits": Constraints(min_length=9, no_repeat_ngram=3_000_000_000),
    "a prefix that may not go on": Constraints(prefix=[7, 9, 11], banned=[[7, 9]]),
}


def model_of(kind, seed=1, vocabulary=150):
    torch.manual_seed(seed)
    source = vocabulary if KINDS[kind].tied == "all" else vocabulary - 7
    model = build_model(KINDS[kind], source, vocabulary).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight) * weight.std().nan_to_num(0.1)).mul_(1.2)
    return model


def texts(count, longest=9, seed=1):
    draw = random.Random(seed)
    return [[*(draw.randrange(4, 140) for _ in range(draw.randrange(longest))), END] for _ in range(count)]


def native(lib, model, *more):
    """The model laid out for C++."""
    return NativeDecoder(lib, model.settings, numpy_weights(model), *more)


def python_search(model, sources, asked, rules=None):
    """The hypotheses of search/beam.py; none for an empty sentence."""
    filled = pad([row for row in sources if len(row) > 1])
    by_beam = asked.beam_size > 1 or rules
    found = iter(beam_search(model, filled, asked, rules) if by_beam else greedy_search(model, filled, asked))
    return [next(found) if len(row) > 1 else [] for row in sources]


@cache
def ids_without_rules(kind, beam_size):
    """What the test of rules finds without any."""
    asked = SearchSettings(beam_size=beam_size, max_extra_tokens=3)
    return [[one.ids for one in best] for best in python_search(model_of(kind), texts(12), asked)]


@pytest.fixture(scope="module")
def lib():
    found = load_library(DECODER)
    assert found is not None, "these tests need a C++ compiler"
    return found


@pytest.mark.short_form(9)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_what_search_in_pytorch_finds(lib, kind, asked):
    model, sources = model_of(kind), texts(12)
    found = native(lib, model, "float32", 2).search(sources, ASKED[asked])
    expected = python_search(model, sources, ASKED[asked])
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert (one.log_probability, one.score) == pytest.approx(
            (other.log_probability, other.score), abs=1e-4
        )


@pytest.mark.short_form(14)
@pytest.mark.parametrize("head", [None, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", ["greedy", "n best of a power"])
def test_weights_of_a_search_are_those_of_forced_decoding(lib, kind, asked, head):
    """Of every hypothesis and token, END included, for the head of alignments or the mean of all."""
    model, sources = model_of(kind), texts(7)
    model_settings = replace(model.settings, alignment_head=head)
    in_cpp = NativeDecoder(lib, model_settings, numpy_weights(model), "float32", 2)
    search = replace(ASKED[asked], keep_tags=True)
    for source, best in zip(sources, in_cpp.search(sources, search), strict=True):
        for one in best:
            rows = (pad([ids]) for ids in (source, [*one.ids, END]))
            with torch.no_grad():
                expected = select_head(cross_attention(model, *rows), None, None, head)[0]
            assert one.attention.shape == expected.shape
            assert torch.from_numpy(one.attention).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    plain = in_cpp.search(sources, ASKED[asked])
    assert all(one.attention is None for best in plain for one in best)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["transformer", "transformer, other options"])
def test_it_stops_when_its_rule_says_so_in_plain_lists(lib, kind):
    model, sources = (
        tiny(kind, VOCABULARY, 7).float(),
        [[5, 4, END], [8, *range(4, 7), END], [9, *range(4, 7), END]],
    )
    in_cpp = native(lib, model, "float32", 1)
    for (beam_size, n_best), most, penalty in product(((1, 1), (2, 1), (4, 1), (6, 3)), (None, 5), PENALTIES):
        asked = SearchSettings(
            beam_size=beam_size, n_best=n_best, max_extra_tokens=8, **({"max_length": most} | penalty)
        )
        for row, found in zip(sources, in_cpp.search(sources, asked), strict=True):
            *_, (_, ranked) = reference_steps(model, row, asked)
            same_hypotheses(found, ranked[:n_best])


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in (10, 20))])
def test_the_n_best_are_those_of_pytorch_for_any_n_and_any_penalty(lib, first):
    for seed in range(first, first + 10):
        draw = random.Random(seed)
        model, asked, rules = with_few_tokens(seed), any_search(draw), any_rules(draw)
        sources = [[*few_tokens(draw), END] for _ in range(8)]
        if asked.max_length is not None:
            asked = replace(asked, max_length=max(asked.max_length, rules.min_capacity))
        found = native(lib, model, "float32", 1).search(sources, asked, rules)
        for best, expected in zip(found, python_search(model, sources, asked, rules), strict=True):
            assert [one.ids for one in best] == [one.ids for one in expected], (seed, asked, rules)
            assert 1 <= len(best) <= asked.n_best
            for one, other in zip(best, expected, strict=True):
                assert (one.log_probability, one.score) == pytest.approx(
                    (other.log_probability, other.score), abs=1e-4
                )


@pytest.mark.parametrize("seed", [0, 92, 93, 221, 229, 263])
def test_a_live_hypothesis_may_become_the_best_at_the_greatest_length(lib, seed):
    """With a large penalty the last token decides; these seeds have sentences in which it does."""
    draw = random.Random(seed)
    model, beam_size = with_few_tokens(seed), draw.choice([2, 3, 4])
    asked = SearchSettings(
        beam_size=beam_size,
        n_best=draw.randint(1, beam_size - 1),
        max_length=draw.randint(2, 6),
        length_penalty=draw.choice([3.0, 8.0]),
    )
    sources = [[*few_tokens(draw), END] for _ in range(8)]
    found, expected = (
        native(lib, model, "float32", 1).search(sources, asked),
        python_search(model, sources, asked),
    )
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in expected]


@pytest.mark.short_form(3)
@pytest.mark.parametrize(
    ("kind", "rules", "beam_size"),
    [
        *(("pre-norm, GELU, biases", rules, beam_size) for rules in RULES for beam_size in (1, 4)),
        *((kind, "all of them", 4) for kind in KINDS if kind != "pre-norm, GELU, biases"),
    ],
)
def test_it_keeps_the_rules_as_pytorch_does(lib, kind, rules, beam_size):
    model, sources, asked = model_of(kind), texts(12), SearchSettings(beam_size=beam_size, max_extra_tokens=3)
    expected = python_search(model, sources, asked, RULES[rules])
    assert [[one.ids for one in best] for best in expected] != ids_without_rules(kind, beam_size)
    for listed in (None, listing(set(range(150)) - {PAD, START})):
        found = native(lib, model, "float32", 2, listed).search(sources, asked, RULES[rules])
        assert [[one.ids for one in best] for best in found] == [
            [one.ids for one in best] for best in expected
        ]
        for one, other in zip(chain(*found), chain(*expected), strict=True):
            assert (one.log_probability, one.score) == pytest.approx(
                (other.log_probability, other.score), abs=1e-4
            )


def any_phrases(draw, source):
    """Up to three phrases of up to two forms, of the model of few tokens, some with places in the source."""
    return [
        Phrase(
            [few_tokens(draw, 3) for _ in range(draw.randint(1, 2))],
            draw.sample(range(len(source)), draw.randint(0, min(2, len(source)))),
        )
        for _ in range(draw.choice([0, 1, 1, 2, 3]))
    ]


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in (8, 16))])
def test_forced_phrases_are_found_as_in_pytorch(lib, first):
    """Sentences with phrases and without in one search, with every rule and size."""
    for seed in range(first, first + 8):
        draw = random.Random(seed)
        model, asked, rules = with_few_tokens(seed), any_search(draw), any_rules(draw)
        asked = replace(asked, max_length=None)
        rules = replace(rules, continuing=frozenset(draw.choice([[], [5, 7, 9], [4, 5, 6, 7, 8]])))
        if draw.random() < 0.3:
            rules = replace(rules, forced=any_phrases(draw, []))
        sources = [[*few_tokens(draw), END] for _ in range(6)]
        terms = [any_phrases(draw, source) for source in sources]
        in_cpp = native(lib, model, "float32", 2)
        found = in_cpp.search(sources, asked, rules, terms)
        for source, phrases, best in zip(sources, terms, found, strict=True):
            complete = replace(rules, forced=[*rules.forced, *phrases])
            search = grid_beam_search if complete.forced else beam_search
            (expected,) = search(model, torch.tensor([source]), asked, complete)
            assert [one.ids for one in best] == [one.ids for one in expected], (seed, asked, complete)
            for one, other in zip(best, expected, strict=True):
                assert (one.log_probability, one.score) == pytest.approx(
                    (other.log_probability, other.score), abs=1e-4
                )
            if not phrases:  # its neighbours' phrases change no bit
                assert in_cpp.search([source], asked, rules)[0] == best


@pytest.mark.short_form(1)
@pytest.mark.parametrize(("beam_size", "least"), [(1, 2), (4, 1), (4, 4)])
def test_no_translation_is_shorter_than_it_may_be(lib, beam_size, least):
    """Of models that would end before, without any other rule."""
    asked, shorter = SearchSettings(beam_size=beam_size, max_extra_tokens=3), 0
    for seed in range(10):
        model, draw = with_few_tokens(seed), random.Random(seed)
        sources = [[*few_tokens(draw), END] for _ in range(8)]
        in_cpp, rules = native(lib, model, "float32", 1), Constraints(min_length=least)
        expected = python_search(model, sources, asked, rules)
        for best, others in zip(in_cpp.search(sources, asked, rules), expected, strict=True):
            assert [one.ids for one in best] == [one.ids for one in others]
            assert all(len(one.ids) >= least for one in best)
        shorter += sum(len(one.ids) < least for best in in_cpp.search(sources, asked) for one in best)
    assert shorter > 3


def test_a_prefix_may_have_tokens_that_are_not_listed(lib):
    model, sources = model_of("pre-norm, GELU, biases"), texts(8)
    found = native(lib, model, "float32", 1, listing(range(40, 110))).search(
        sources, SearchSettings(), Constraints(prefix=[7, 9])
    )
    assert all(one.ids[:2] == [7, 9] for one in chain(*found))
    assert all(set(one.ids[2:]) <= {UNKNOWN, 7, 9, *range(40, 110)} for one in chain(*found))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 40))
def test_neighbours_threads_and_batches_change_no_bit(precision, seed, beam_size, batch_tokens):
    model, sources = model_of("as in the paper", seed=seed), texts(10, seed=seed)
    asked = SearchSettings(beam_size=beam_size, max_extra_tokens=4)
    lib = load_library(DECODER)
    together = native(lib, model, precision, 3).search(
        sources, replace(asked, batch_tokens=10 * batch_tokens)
    )
    alone = native(lib, model, precision, 1)
    assert together == [alone.search([row], asked)[0] for row in sources]


@pytest.mark.parametrize(
    ("precision", "most"),
    [("float32", 1e-4), pytest.param("bfloat16", 0.3, marks=NEEDS_BFLOAT16), ("int8", 0.1)],
)
@pytest.mark.parametrize("kind", ["as in the paper", "odd widths, swish"])
def test_forced_decoding_gives_the_log_probabilities_back(lib, kind, precision, most):
    """PyTorch also rounds what comes out of a product in bfloat16, which C++ does not."""
    model, sources = model_of(kind), [row for row in texts(30) if len(row) > 1]
    best = [found[0] for found in native(lib, model, precision, 1).search(sources, ASKED["beam 4"])]
    pack(model, precision)
    log_p = token_log_probabilities(model, pad(sources), pad([[*one.ids, END] for one in best]))
    rows = [row[: len(one.ids) + 1].sum().item() for row, one in zip(log_p, best, strict=True)]
    assert [one.log_probability for one in best] == pytest.approx(rows, abs=most)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_equal_probabilities_fall_as_in_pytorch(lib, precision):
    model, asked = model_of("nothing tied, learnt positions"), ASKED["a wide beam, little memory"]
    with torch.no_grad():
        model.output.weight.zero_()
    found = native(lib, model, precision, 2).search(texts(9), asked)
    expected = python_search(model, texts(9), asked)
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in expected]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_of_equally_likely_tokens_greedy_search_takes_the_smallest(lib, precision):
    model, sources = model_of("pre-norm, GELU, biases"), [[5, 6, END], [7, END]]
    for tokens in ([17, 18], [63, 64], [9, 140, 149], [END, 5]):
        with torch.no_grad():
            model.target_embedding.weight.zero_()
            model.output_bias.zero_()[tokens] = 1
        expected = [[] if END in tokens else tokens[:1] * (len(row) + 1) for row in sources]
        asked = SearchSettings(beam_size=1, max_extra_tokens=2)
        for found in (
            native(lib, model, precision, 1).search(sources, asked),
            python_search(model, sources, asked),
        ):
            assert [best.ids for (best,) in found] == expected


@pytest.mark.long
@pytest.mark.parametrize("flags", ["-march=x86-64", *(level.flags for level in OWN_LEVELS)])
def test_older_processors_have_the_same_results(lib, tmp_path, monkeypatch, flags):
    """Without the instructions that multiply whole words, words are taken apart."""
    if platform.machine() != "x86_64":
        pytest.skip("other processors")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    older = load_library(replace(DECODER, flags=(*flags.split(), "-O0")))
    model = model_of("odd widths, swish")
    for precision in PRECISIONS:
        found, again = (
            native(each, model, precision, 2).search(texts(30), ASKED["greedy"]) for each in (lib, older)
        )
        for one, other in zip(chain(*found), chain(*again), strict=True):
            assert one.ids == other.ids
            assert one.score == pytest.approx(other.score, abs=1e-4 if precision == "float32" else 0.1)


def listing(tokens, vocabulary=150):
    """The same list for every sentence."""
    return Shortlist(
        np.full((vocabulary, 1), -1, np.int32), np.array(sorted({UNKNOWN, END, *tokens}), np.int32)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_list_of_all_tokens_changes_nothing(lib, precision):
    model, sources = model_of("pre-norm, GELU, biases"), texts(20)
    listed = native(lib, model, precision, 2, listing(set(range(150)) - {PAD, START})).search(
        sources, ASKED["beam 4"]
    )
    for one, other in zip(
        chain(*listed), chain(*native(lib, model, precision, 2).search(sources, ASKED["beam 4"])), strict=True
    ):
        assert (one.ids, one.score) == (other.ids, pytest.approx(other.score, abs=1e-5))


def test_tokens_that_are_not_listed_are_as_if_they_were_not_there(lib):
    model, sources, tokens = model_of("pre-norm, GELU, biases"), texts(8), {5, 8, *range(40, 110)}
    for asked in ASKED.values():
        found = native(lib, model, "float32", 2, listing(tokens)).search(sources, asked)
        other = model_of("pre-norm, GELU, biases")
        with torch.no_grad():
            other.output_bias[[token for token in range(150) if token not in {UNKNOWN, END, *tokens}]] = -1e9
        expected = python_search(other, sources, asked)
        assert [[one.ids for one in best] for best in found] == [
            [one.ids for one in best] for best in expected
        ]
        for one, same in zip(chain(*found), chain(*expected), strict=True):
            assert one.score == pytest.approx(same.score, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_tables_of_positions_grow_with_what_is_asked(kind, lengths):
    made, width = KINDS[kind], KINDS[kind].d_model
    if made.positions == "learned":
        return
    start = made.first_position
    table, whole = decoder.Positions(made, None), sinusoid_table(start + 700, width, made.positions)[start:]
    for length in lengths:
        rows = table.first(length)
        assert len(rows) >= length * width
        np.testing.assert_array_equal(np.array(rows[: length * width]), whole[:length].reshape(-1))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 300).map(lambda n: 4 * n), st.sampled_from([0.0, 0.6])), min_size=1))
def test_tables_of_length_penalties_grow_with_what_is_asked(asked):
    kept = native(load_library(DECODER), model_of("as in the paper"), "float32", 1)
    for longest, penalty in asked:
        chosen = SearchSettings(length_penalty=penalty)
        for length in (longest, 2 * longest):
            divisors = kept._length_normalization(length, chosen)
            assert len(divisors) > length
            assert divisors[length] == pytest.approx(length_normalization(length, chosen), rel=1e-6)


def test_tables_of_many_length_penalties_do_not_stay(lib):
    kept = native(lib, model_of("as in the paper"), "float32", 1)
    for number in range(3 * decoder.MAX_NORMALIZATIONS):
        chosen = SearchSettings(length_penalty=number / 100)
        divisors = kept._length_normalization(9, chosen)
        assert divisors[9] == pytest.approx(length_normalization(9, chosen), rel=1e-6)
        assert kept._length_normalization(9, chosen) is divisors
        assert len(kept._normalizations) <= decoder.MAX_NORMALIZATIONS


@pytest.mark.long
@settings(max_examples=30)
@given(st.integers(1, 9), st.none() | st.integers(1, 99), st.integers(1, 2000), st.integers(1, 50))
def test_a_thread_extends_no_more_rows_of_a_search_than_it_may(beam_size, max_rows, batch_tokens, longest):
    """Their tokens, with END, fit into batch_tokens, unless one sentence alone has more."""
    here = native(load_library(DECODER), model_of("as in the paper"), "float32", 1)
    asked = SearchSettings(beam_size=beam_size, batch_tokens=batch_tokens, max_length=longest)
    sources = [row for row in texts(9) if len(row) > 1]
    arrays = here._arrays(sources, asked, Constraints(), [[]] * len(sources))
    made = here._new_search(arrays, asked, Constraints(), max_rows)
    bounds = [max_rows or here.max_rows, batch_tokens // (longest + 1)]
    assert made.max_rows == max(beam_size, min(bounds))


@pytest.mark.parametrize("kind", ["as in the paper", "pre-norm, GELU, biases", "odd widths, swish"])
def test_long_sentences_are_translated_as_by_pytorch(lib, kind):
    """Products are computed for so many rows at once."""
    draw = random.Random(4)
    sources = [[*draw.choices(range(4, 140), k=length - 1), END] for length in (2, 95, 96, 97, 193, 300)]
    model, asked = model_of(kind), SearchSettings(beam_size=2, max_length=4)
    found, expected = native(lib, model, "float32", 1).search(sources, asked), []
    for row in sources:
        expected += python_search(model, [row], asked)
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


ARITHMETIC = """
#include "gemm.h"
#include "simd.h"
using namespace dragoman;
extern "C" {
void exponentials(const float* x, float* y, int count) {
    for (int i = 0; i < count; i++) y[i] = exponential(x[i]);
}
void exponentials_of_vectors(const float* x, float* y, int count) {
    for (int i = 0; i < count; i += LANES) store(y + i, exponential(load(x + i)));
}
float largest(const float* x, int count) { return maximum(x, count); }
int padded_to_lanes(int count) { return padded(count); }
int lanes() { return LANES; }
void roundings(const float* x, int* y, int count) {
    for (int i = 0; i < count; i++) y[i] = int(bfloat16_bits(x[i]));
}
// y [rows][outputs] of x [rows][inputs], then that of `count` of the outputs.
void linear_maps(const float* weight, const float* bias, int outputs, int inputs, int precision,
                 const float* x, int rows, float* y, const int32_t* which, int count, float* selected) {
    const Linear map(weight, bias, outputs, inputs, precision);
    map(x, rows, y);
    map.select_outputs(which, count)(x, rows, selected);
}
}
"""


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory):
    source = tmp_path_factory.mktemp("arithmetic") / "arithmetic.cpp"
    source.write_text(ARITHMETIC)
    found = load_library(replace(DECODER, source=source))
    assert found is not None
    found.largest.restype = ctypes.c_float
    return found


def of_each(function, x, dtype=np.float32):
    """What a function of `arithmetic` makes of numbers."""
    x, y = np.ascontiguousarray(x, np.float32), np.empty(len(x), dtype)
    function(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), len(x))
    return y


@pytest.mark.long
def test_exponentials_are_as_exact_as_float32_and_end_at_its_bounds(arithmetic):
    x = np.concatenate([np.linspace(-87, 88, 2**16), np.linspace(-1e-3, 1e-3, 2**10)]).astype(np.float32)
    for function in (arithmetic.exponentials, arithmetic.exponentials_of_vectors):
        np.testing.assert_allclose(of_each(function, x), np.exp(x.astype(np.float64)), rtol=2.5e-7)
        beyond = np.array([-np.inf, -1e30, -88, 89, 1e30, np.inf, np.nan, 0] * 4, np.float32)
        expected = np.exp(np.clip(beyond.astype(np.float64), -87, 88))
        np.testing.assert_allclose(of_each(function, beyond), expected, rtol=2.5e-7)


def test_numbers_are_rounded_to_bfloat16_as_pytorch_rounds_them(arithmetic):
    """All numbers that are half-way between two, those beside them, and what is not finite."""
    halves = (np.arange(2**16, dtype=np.uint32) << 16) + 0x8000
    bits = np.concatenate([halves - 1, halves, halves + 1, halves - 0x8000])
    x = bits.view(np.float32)
    found = of_each(arithmetic.roundings, x, np.int32).astype(np.uint16).view(np.int16)
    expected = torch.from_numpy(x.copy()).bfloat16()
    is_number = ~np.isnan(x)
    np.testing.assert_array_equal(found[is_number], expected.view(torch.int16).numpy()[is_number])
    assert torch.from_numpy(found[~is_number]).view(torch.bfloat16).isnan().all()


ROUNDED = {
    "float32": lambda x: (x, torch.ones(1)),
    "bfloat16": lambda x: (x.bfloat16().float(), torch.ones(1)),
    "int8": quantise_rows,
}
"""The factors of a product in each precision, and the scales of their rows."""


@pytest.mark.short_form(1)
@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=30)
@given(st.integers(1, 100), st.integers(1, 70), st.integers(1, 70), st.booleans(), st.data())
@example(193, 33, 17, True, None)
def test_a_product_is_that_of_its_rounded_factors(
    arithmetic, precision, rows, inputs, outputs, has_bias, data
):
    generator = torch.Generator().manual_seed(rows * inputs + outputs)
    x, weight = (torch.randn(count, inputs, generator=generator) for count in (rows, outputs))
    bias = torch.randn(outputs, generator=generator)
    places = st.lists(st.integers(0, outputs - 1), min_size=1, unique=True).map(sorted)
    which = torch.tensor(data.draw(places) if data else [0, outputs - 1], dtype=torch.int32)
    y, selected = torch.empty(rows, outputs), torch.empty(rows, len(which))
    arithmetic.linear_maps(
        *(ctypes.c_void_p(array.data_ptr()) for array in (weight, bias if has_bias else torch.empty(0))),
        outputs,
        inputs,
        PRECISIONS.index(precision),
        ctypes.c_void_p(x.data_ptr()),
        rows,
        *(ctypes.c_void_p(array.data_ptr()) for array in (y, which)),
        len(which),
        ctypes.c_void_p(selected.data_ptr()),
    )
    (factor, scale), (weight_factor, weight_scale) = map(ROUNDED[precision], (x, weight))
    product = factor.double() @ weight_factor.double().T * scale * weight_scale.flatten()
    torch.testing.assert_close(y.double(), product + bias * has_bias, rtol=1e-5, atol=1e-5)
    assert torch.equal(selected, y[:, which])


@given(st.lists(st.floats(-100, 100, width=32) | st.just(-np.inf), max_size=70))
def test_the_largest_of_numbers_is_found_wherever_it_is(arithmetic, numbers):
    x = np.array(numbers, np.float32)
    found = arithmetic.largest(x.ctypes.data_as(ctypes.c_void_p), len(x))
    assert found == max([-np.inf, *x.tolist()])
    padded, lanes = arithmetic.padded_to_lanes(len(x)), arithmetic.lanes()
    assert padded % lanes == 0
    assert len(x) <= padded < len(x) + lanes


def test_an_id_that_the_vocabulary_lacks_is_refused(lib):
    with pytest.raises(IndexError, match="no id -4"):
        native(lib, model_of("as in the paper"), "float32", 1).search([[5, -4, END], [END]], SearchSettings())
    with pytest.raises(IndexError, match="150"):
        native(lib, model_of("as in the paper"), "float32", 1).search([[5, 150, END]], SearchSettings())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_non_finite_weights_are_reported(lib, precision):
    model = model_of("as in the paper")
    with torch.no_grad():
        model.decoder[1].feed_forward.inner.weight[3, 4] = float("nan")
    with pytest.raises(NonFiniteError):
        native(lib, model, precision, 1).search(texts(3, seed=2), SearchSettings())


def test_a_lack_of_memory_gets_a_sentence(lib):
    with (
        pytest.raises(NotEnoughMemoryError, match="not enough memory for 3 sentences at once; give fewer"),
        explain_out_of_memory(3),
    ):
        raise MemoryError
    full = ctypes.CDLL(lib._name)
    full.dragoman_new_engine = lambda *arguments: None
    with pytest.raises(
        DragomanError, match="cannot provide the memory or the threads for workers 1; give few"
    ):
        native(full, model_of("as in the paper"), "float32", 1)
    full.dragoman_load_model = lambda *arguments: None
    with pytest.raises(DragomanError, match="There is not enough memory to pack this model"):
        native(full, model_of("as in the paper"), "float32", 1)


def test_structures_of_another_size_are_refused(lib, monkeypatch):
    class Longer(ctypes.Structure):
        _fields_ = [*decoder.Parameter._fields_, ("more", ctypes.c_int64)]

    monkeypatch.setattr(decoder, "Parameter", Longer)
    with pytest.raises(
        DragomanError, match="Longer has 32 bytes in Python and 24 in C.*; give it the same fields in both"
    ):
        native(lib, model_of("as in the paper"), "float32", 1)
    monkeypatch.setattr(decoder, "check_size", lambda *_: None)  # C++ compares too
    with pytest.raises(DragomanError, match="beam_search.cpp is of another version than decoder.py"):
        native(lib, model_of("as in the paper"), "float32", 1)
    monkeypatch.undo()
    model = native(lib, model_of("as in the paper"), "float32", 1)
    monkeypatch.setattr(engine, "sizeof", lambda structure: ctypes.sizeof(structure) - 8)
    with pytest.raises(DragomanError, match="beam_search.cpp is of another version than engine.py; install"):
        model.search(texts(3, seed=2), SearchSettings())
    assert not model._engine._pending


def test_parameters_go_by_name(lib):
    settings = KINDS["pre-norm, GELU, biases"]
    weights = numpy_weights(model_of("pre-norm, GELU, biases"))
    name = "decoder.1.feed_forward.inner.weight"
    cases = {
        f"The parameter {name} is missing.": {key: array for key, array in weights.items() if key != name},
        "The parameter decoder.7.norm.weight is unknown.": weights | {"decoder.7.norm.weight": weights[name]},
        f"The parameter {name} has the shape [24, 50]; the settings give [50, 24].": weights
        | {name: weights[name].T},
    }
    for message, wrong in cases.items():
        with pytest.raises(DragomanError, match=re.escape(message)):
            NativeDecoder(lib, settings, wrong, "float32", 1)
    shuffled = dict(sorted(weights.items(), reverse=True))
    searches = [
        NativeDecoder(lib, settings, each, "float32", 1).search(texts(5), SearchSettings())
        for each in (weights, shuffled)
    ]
    assert searches[0] == searches[1]


@pytest.mark.parametrize("epsilon", [1e-2, 1.0])
def test_the_epsilon_of_layer_normalisation_is_the_models(lib, epsilon):
    model, other = (
        build_model(replace(SMALL, norm_epsilon=value), 150, 150).eval() for value in (epsilon, 1e-5)
    )
    other.load_state_dict(model.state_dict())
    asked = SearchSettings(max_extra_tokens=4)
    best, expected, of_another = (
        [hypotheses[0].log_probability for hypotheses in found]
        for rows in [[row for row in texts(12) if len(row) > 1]]
        for found in (
            native(lib, model, "float32", 1).search(rows, asked),
            *(python_search(each, rows, asked) for each in (model, other)),
        )
    )
    assert best == pytest.approx(expected, abs=1e-4)
    assert best != pytest.approx(of_another, abs=1e-3)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_hypothesis_of_exactly_the_longest_length_is_found(lib, beam_size):
    """END is so unlikely that every hypothesis ends only because it must."""
    model, sources = model_of("pre-norm, GELU, biases"), [row for row in texts(12) if len(row) > 1]
    with torch.no_grad():
        model.output_bias[END] = -100
    for asked in (
        SearchSettings(beam_size=beam_size, max_extra_tokens=3),
        SearchSettings(beam_size=beam_size, max_length=4),
    ):
        found = native(lib, model, "float32", 1).search(sources, asked)
        longest = [max_target_length(len(row), None, asked) for row in sources]
        assert [len(best[0].ids) for best in found] == longest
        expected = python_search(model, sources, asked)
        assert [[one.ids for one in best] for best in found] == [
            [one.ids for one in best] for best in expected
        ]


@pytest.mark.parametrize("error", [RuntimeError("sizes of tensors must match"), KeyError("a name")])
def test_an_error_that_is_no_lack_of_memory_stays_what_it_is(error):
    with pytest.raises(type(error)) as found, explain_out_of_memory(2):
        raise error
    assert found.value is error


def test_forced_phrases_may_have_tokens_that_are_not_listed(lib):
    """Those of all sentences, and those of one alone, which no other sentence has."""
    model, sources = model_of("pre-norm, GELU, biases"), [row for row in texts(12) if len(row) > 1]
    terms = [[Phrase([[7, 9]])] * (number % 2) for number in range(len(sources))]
    rules = Constraints(forced=[Phrase([[8], [20, 21]])])
    listed = {UNKNOWN, *range(40, 110)}
    found = native(lib, model, "float32", 2, listing(listed)).search(sources, SearchSettings(), rules, terms)
    for phrases, best in zip(terms, found, strict=True):
        allowed = listed | {8, 20, 21} | {token for phrase in phrases for token in phrase.forms[0]}
        for one in best:
            text = " ".join(map(str, ["", *one.ids, ""]))
            assert set(one.ids) <= allowed
            assert " 8 " in text or " 20 21 " in text
            assert not phrases or " 7 9 " in text

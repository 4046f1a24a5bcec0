"""What a search shows of itself: its trace, the tokens that are certain before its end, alternatives."""

import itertools
import math
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import SearchSettings, Translator
from dragoman.model.symbols import END, PAD, START
from dragoman.search.alternatives import alternatives
from dragoman.search.beam import beam_search, beam_steps
from dragoman.search.hypothesis import Constraints
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.trace import stable_prefixes, trace_nodes
from dragoman.system.errors import DragomanError
from dragoman.translation.token_ids import encode_sentences
from tests.conftest import VOCABULARY, no_shape_checks
from tests.test_search import following, reference_steps, tiny
from tests.test_translator import LINES, TEXT, folder, translator  # noqa: F401


def path(nodes, number):
    """The tokens from the empty hypothesis, which is left out, to this one."""
    tokens = []
    while nodes[number].parent is not None:
        tokens.append(int(nodes[number].token))
        number = nodes[number].parent
    return tokens[::-1]


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("rules", "groups"),
    [
        (Constraints(), 1),
        (Constraints(prefix=[5, 7]), 1),
        (Constraints(prefix=[5, 7]), 2),
        (Constraints(banned=[[4], [6, 5]]), 2),
    ],
)
@no_shape_checks()
def test_a_trace_has_every_hypothesis_and_the_reason_of_its_end(model, sources, rules, groups):
    asked = SearchSettings(beam_size=4, n_best=3, max_extra_tokens=3, groups=groups)
    for row in sources:
        source = row[row != 0][None]
        nodes = trace_nodes(beam_steps(model, source, asked, rules), asked, str)
        finished = {
            tuple(path(nodes, number)[:-1]): node.log_probability
            for number, node in enumerate(nodes)
            if node.end == "finished"
        }
        for best in beam_search(model, source, asked, rules)[0]:
            assert finished[tuple(best.ids)] == pytest.approx(best.log_probability, abs=1e-6)
        parents = {node.parent for node in nodes}
        continued = {
            node.parent for node in nodes if node.end not in {"below the beam", "found by another group"}
        }
        for number, node in enumerate(nodes):
            if node.parent is not None:
                assert node.parent < number
                assert node.log_probability <= nodes[node.parent].log_probability + 1e-6
                assert nodes[node.parent].end in {None, "no extension in the beam"}
            assert (node.end is None) == (number in continued)
            if node.end == "found by another group":
                assert groups == 2
                assert tuple(path(nodes, number)[:-1]) in finished
            assert number in parents or node.end is not None


@pytest.mark.short_form(1)
@no_shape_checks()
def test_a_trace_has_the_hypotheses_of_the_reference(model, sources):
    for row, width in itertools.product(sources, (1, 2, 4)):
        source, asked = row[row != PAD], SearchSettings(beam_size=width, max_extra_tokens=2)
        nodes = trace_nodes(beam_steps(model, source[None], asked, Constraints()), asked, str)
        paths = [path(nodes, number) for number in range(len(nodes))]
        lived = [[]]
        for length, (alive, _) in enumerate(reference_steps(model, source.tolist(), asked), 1):
            last = length > len(source) - 1 + asked.max_extra_tokens
            likeliest = sorted(
                (
                    -sum(
                        following(model, tuple(source.tolist()), tuple(ids[:at]))[ids[at]]
                        for at in range(length)
                    ),
                    ids,
                )
                for before in lived
                for token in range(VOCABULARY)
                if token not in (PAD, START) and (token == END or not last)
                for ids in [[*before, token]]
            )[: 2 * width]
            here = {tuple(ids): node for ids, node in zip(paths, nodes, strict=True) if len(ids) == length}
            assert here.keys() == {tuple(ids) for _, ids in likeliest}
            for log_p, ids in likeliest:
                assert here[tuple(ids)].log_probability == pytest.approx(-log_p, abs=1e-4)
            dropped = {"finished", "below the beam"}
            assert {ids for ids, node in here.items() if node.end not in dropped} == set(map(tuple, alive))
            lived = alive
        assert here
        assert max(map(len, paths)) == length


@pytest.mark.long
def test_what_another_group_has_found_is_named():
    asked, ends = SearchSettings(beam_size=4, max_extra_tokens=3, groups=2), set()
    for seed in range(6):
        model = tiny("transformer", VOCABULARY, seed)
        nodes = trace_nodes(
            beam_steps(model, torch.tensor([[4, 5, 6, END]]), asked, Constraints()), asked, str
        )
        ends |= {node.end for node in nodes}
        for number, node in enumerate(nodes):
            if node.end == "found by another group":
                assert path(nodes, number) == path(nodes, node.cut_by)
                assert nodes[node.cut_by].end == "finished"
    assert "found by another group" in ends


def test_an_end_that_another_group_has_found_may_be_its_groups_only_hypothesis():
    asked = SearchSettings(beam_size=4, max_extra_tokens=0, groups=2)
    steps = beam_steps(tiny("transformer", VOCABULARY, 0), torch.tensor([[END]]), asked, Constraints())
    _, first, second = trace_nodes(steps, asked, str)
    assert (first.end, second.end, second.cut_by) == ("finished", "found by another group", 1)


@pytest.mark.short_form(1)
@no_shape_checks()
def test_a_group_of_tokens_is_certain_when_all_hypotheses_have_it(model, sources):
    for row, n_best in zip(sources, (1, 2, 3), strict=True):
        asked = SearchSettings(beam_size=3, n_best=n_best, max_extra_tokens=3)
        source = row[row != 0][None]
        grown = list(stable_prefixes(beam_steps(model, source, asked, Constraints())))
        assert grown[-1] == beam_search(model, source, asked)[0][0].ids
        for before, after in itertools.pairwise(grown):
            assert after[: len(before)] == before


@pytest.mark.short_form(1)
@no_shape_checks()
def test_certain_is_what_all_hypotheses_of_a_step_begin_with(model, sources):
    for row, (beam_size, groups) in itertools.product(sources, ((1, 1), (2, 1), (3, 1), (4, 2))):
        source, asked = (
            row[row != PAD],
            SearchSettings(beam_size=beam_size, max_extra_tokens=3, groups=groups),
        )
        *steps, (_, ((_, _, best), *_)) = reference_steps(model, source.tolist(), asked)
        places = [zip(*live, *(ids for *_, ids in ended), strict=False) for live, ended in steps]
        common = [
            [token for token, *_ in itertools.takewhile(lambda tokens: len(set(tokens)) == 1, each)]
            for each in places
        ]
        assert list(stable_prefixes(beam_steps(model, source[None], asked, Constraints()))) == [*common, best]


def test_of_a_blank_line_there_is_one_hypothesis_and_nothing_to_search(translator):  # noqa: F811
    (node,) = translator.trace(" ")
    assert (node.parent, node.end) == (None, "the search was over")


@settings(max_examples=25)
@given(st.one_of(TEXT, st.sampled_from(LINES)), st.integers(1, 5))
def test_what_is_streamed_is_the_translation(translator, sentence, beam_size):  # noqa: F811
    asked = SearchSettings(beam_size=beam_size, max_extra_tokens=4)
    assert "".join(translator.stream(sentence, asked)) == translator.translate([sentence], asked)[0]


def test_a_stream_that_is_closed_ends_its_search(folder):  # noqa: F811
    """A search of so many tokens would take minutes."""
    native = Translator.load(folder, workers=1)
    asked = SearchSettings(beam_size=16, length_penalty=0.0, min_length=10_000, max_length=10_000)
    stream = native.stream(LINES[0], asked)
    assert next(stream)
    engine = native.native_backend._decoder._engine
    assert engine._pending
    stream.close()
    until = time.monotonic() + 60
    while engine._pending:
        assert time.monotonic() < until, "the search goes on"
        time.sleep(0.01)


def test_a_translation_is_streamed_before_its_end(folder):  # noqa: F811
    by_pytorch = Translator.load(folder, native=False)
    streams = [
        list(by_pytorch.stream(line, SearchSettings(beam_size=1, max_extra_tokens=4))) for line in LINES
    ]
    assert any(len(pieces) > 1 for pieces in streams)  # bytes that are not UTF-8 yet are not yielded


@pytest.mark.short_form(1)
@pytest.mark.parametrize("prefix", [pytest.param([], marks=pytest.mark.long), [5, 7]])
def test_alternatives_are_all_that_may_follow(model, sources, prefix):
    source, rules = sources[:1], Constraints(prefix=prefix)
    asked = SearchSettings(max_extra_tokens=3, beam_size=2)
    found = alternatives(model, source, rules, 99, asked)
    assert {token for token, _, _ in found} == set(range(VOCABULARY)) - {PAD, START}
    assert sum(p for _, p, _ in found) == pytest.approx(1, abs=1e-5)
    assert [p for _, p, _ in found] == sorted((p for _, p, _ in found), reverse=True)
    assert alternatives(model, source, rules, 3, asked) == found[:3]
    full = Constraints(prefix=[4, 5, 4])
    assert [token for token, _, _ in alternatives(model, source, full, 3, replace(asked, max_length=3))] == [
        END
    ]
    for token, p, best in found:
        assert p == pytest.approx(
            math.exp(following(model, tuple(source[0].tolist()), tuple(prefix))[token]), abs=1e-5
        )
        assert best.ids == prefix if token == END else best.ids[: len(prefix) + 1] == [*prefix, token]
    (ended,) = [best for token, _, best in found if token == END]
    log_p = token_log_probabilities(model, source, torch.tensor([[*prefix, END]])).sum().item()
    assert ended.log_probability == pytest.approx(log_p, abs=1e-6)
    assert (
        max(best.score for _, _, best in found) >= beam_search(model, source, asked, rules)[0][0].score - 1e-6
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "rules", [Constraints(), Constraints(2, 2, [[4], [6, 5]], [5, 7])], ids=["none", "all of them"]
)
@no_shape_checks()
def test_each_alternative_continues_as_the_search_with_that_prefix(model, sources, rules):
    asked, source = (
        SearchSettings(beam_size=4, n_best=2, length_penalty=1.4, max_extra_tokens=3),
        sources[1:2, :4],
    )
    for token, _, best in alternatives(model, source, rules, 99, asked):
        if token != END:
            assert (
                best == beam_search(model, source, asked, replace(rules, prefix=[*rules.prefix, token]))[0][0]
            )


@pytest.mark.short_form(1)
def test_alternatives_obey_the_least_length_after_a_prefix_at_the_greatest_one(model, sources):
    source, prefix = sources[:1, :4], [5, 6, 7, 5, 6, 7]
    asked = SearchSettings(max_extra_tokens=0, min_length=9)
    found = alternatives(model, source, Constraints(min_length=9, prefix=prefix), 5, asked)
    assert len(found) == 5
    assert all(token != END and len(best.ids) >= 9 for token, _, best in found)


def test_alternatives_of_a_text_are_named_by_their_pieces(translator):  # noqa: F811
    asked = SearchSettings(prefix="a man", max_extra_tokens=3, beam_size=2)
    found = translator.alternatives("two dogs", 4, asked)
    target = translator.tokenizers.target
    source, rules = (
        torch.tensor(encode_sentences(translator.tokenizers.source, ["two dogs"])),
        Constraints(prefix=target.encode(["a man"])[0]),
    )
    own = alternatives(translator.torch_backend.model, source, rules, 4, asked)
    assert [(one.token, one.probability) for one in found] == [
        (target.pieces([token])[0], p) for token, p, _ in own
    ]
    assert all(one.translation.text.startswith("a man") for one in found)


def test_draws_have_neither_trace_nor_stream_nor_alternatives(translator):  # noqa: F811
    assert translator.alternatives("  ", 2) == []
    with pytest.raises(
        DragomanError,
        match="A trace needs a single beam search, which temperature excludes; leave it out",
    ):
        translator.trace("two dogs", SearchSettings(temperature=1.0))
    with pytest.raises(DragomanError, match="A stream needs a single beam search, which split excludes"):
        list(translator.stream("two dogs", SearchSettings(split=5)))
    with pytest.raises(
        DragomanError,
        match="A list of alternatives needs a single beam search, which force_words excludes",
    ):
        translator.alternatives("two dogs", 2, SearchSettings(force_words=("a",)))

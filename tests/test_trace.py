"""What a search shows of itself: its trace, what is certain before its end, and what else could stand at a position."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import SearchSettings
from dragoman.decoding.constraints import Constraints
from dragoman.decoding.search import beam_search, beam_steps
from dragoman.decoding.trace import certain, trace
from dragoman.errors import DragomanError
from tests.test_translator import LINES, TEXT, folder, translator  # noqa: F401


def path(nodes, number):
    """The tokens from the empty hypothesis, which is left out, to this one."""
    tokens = []
    while nodes[number].parent is not None:
        tokens.append(int(nodes[number].token))
        number = nodes[number].parent
    return tokens[::-1]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "rules", [Constraints(), Constraints(prefix=[5, 7]), Constraints(banned=[[4], [6, 5]])], ids=["none", "prefix", "ban"]
)
def test_a_trace_has_every_hypothesis_and_the_reason_of_its_end(model, sources, rules, groups):
    asked = SearchSettings(beam_size=4, n_best=3, extra_length=3, groups=groups)
    for row in sources:
        source = row[row != 0][None]
        nodes = trace(beam_steps(model, source, asked, rules), str)
        finished = {tuple(path(nodes, number)[:-1]): node.log_probability for number, node in enumerate(nodes) if node.end == "finished"}
        for best in beam_search(model, source, asked, rules)[0]:
            assert finished[tuple(best.ids)] == pytest.approx(best.log_probability, abs=1e-6)
        parents = {node.parent for node in nodes}
        for number, node in enumerate(nodes):
            if node.parent is not None:
                assert node.parent < number
                assert node.log_probability <= nodes[node.parent].log_probability + 1e-6
                assert nodes[node.parent].end in {None, "no extension in the beam"}
            kept = [one for one in nodes if one.parent == number and one.end != "below the beam"]
            assert (node.end is None) == bool(kept)
            assert number in parents or node.end is not None


def test_a_group_of_tokens_is_certain_when_all_hypotheses_have_it(model, sources):
    asked = SearchSettings(beam_size=3, extra_length=3)
    for row in sources:
        source = row[row != 0][None]
        grown = list(certain(beam_steps(model, source, asked, Constraints())))
        assert grown[-1] == beam_search(model, source, asked)[0][0].ids
        for before, after in itertools.pairwise(grown):
            assert after[: len(before)] == before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(TEXT, st.sampled_from(LINES)), st.integers(1, 5))
def test_what_is_streamed_is_the_translation(translator, sentence, beam_size):  # noqa: F811
    asked = SearchSettings(beam_size=beam_size, extra_length=4)
    assert "".join(translator.stream(sentence, asked)) == translator.translate([sentence], asked)[0]


@pytest.mark.parametrize("prefix", ["", "a man"])
def test_alternatives_are_all_that_may_follow(translator, prefix):  # noqa: F811
    asked = SearchSettings(prefix=prefix, extra_length=0, beam_size=2)
    found = translator.alternatives("two dogs", len(translator.tokenizers.target), asked)
    assert sum(one.probability for one in found) == pytest.approx(1, abs=1e-4)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    few = translator.alternatives("two dogs", 3, asked)
    assert [one.token for one in few] == [one.token for one in found[:3]]
    (ended,) = [one for one in found if one.token == "</s>"]
    assert ended.translation.text == prefix
    assert ended.translation.log_probability == pytest.approx(translator.score([("two dogs", prefix)])[0].log_probability, abs=1e-4)
    best = max(found, key=lambda one: one.translation.score)
    assert best.translation.score >= translator.n_best(["two dogs"], asked)[0][0].score - 1e-5


def test_draws_have_neither_trace_nor_stream_nor_alternatives(translator):  # noqa: F811
    assert translator.alternatives("  ", 2) == []
    with pytest.raises(
        DragomanError, match="There is a trace of one plain beam search, and temperature asks for something else; leave it out"
    ):
        translator.trace("two dogs", SearchSettings(temperature=1.0))
    with pytest.raises(DragomanError, match="There is a stream of one plain beam search, and split asks for something else"):
        list(translator.stream("two dogs", SearchSettings(split=5)))
    with pytest.raises(DragomanError, match="There is a list of alternatives of one plain beam search, and force asks for something else"):
        translator.alternatives("two dogs", 2, SearchSettings(force=("a",)))

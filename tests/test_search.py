"""Greedy and beam search against brute force, and against each other."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import get_args, get_type_hints

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.search.attention_weights import cross_attention
from dragoman.search.beam import Beam, beam_search, beam_steps, extend, greedy_search
from dragoman.search.contradictions import refuse_more_than_a_beam, refuse_more_than_a_search
from dragoman.search.hypothesis import Constraints, Phrase, length_penalty
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman_paper.lab.parts.table_model import TableModel
from tests.conftest import KINDS, MODELS, VOCABULARY, no_shape_checks, random_model


def tiny(kind, vocabulary, seed):
    torch.manual_seed(seed)
    model = build_model(MODELS[kind], vocabulary, vocabulary).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    return model


def brute_force(model, source, longest, alpha):
    """Every translation of at most `longest` tokens with its score, best first, by forced decoding."""
    words = [
        token for token in range(model.target_embedding.num_embeddings) if token not in (PAD, START, END)
    ]
    found = []
    for length in range(longest + 1):
        ids = torch.tensor(list(itertools.product(words, repeat=length)), dtype=torch.long).view(
            len(words) ** length, length
        )
        state = model.encode(source.repeat(len(ids), 1))
        features, _ = model.decode(torch.cat([torch.full((len(ids), 1), START), ids], 1), state)
        logits = model.logits(features)
        logits[..., [PAD, START]] = -torch.inf
        gold = torch.cat([ids, torch.full((len(ids), 1), END)], 1)
        log_p = logits.log_softmax(-1).gather(2, gold[:, :, None]).sum((1, 2))
        found += zip((log_p / length_penalty(length + 1, alpha)).tolist(), ids.tolist(), strict=True)
    return sorted(found, reverse=True)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@torch.no_grad()
def test_a_wide_beam_finds_the_best_of_all_translations(kind, alpha):
    for seed in range(3):
        model = tiny(kind, 6, seed)
        source = torch.tensor([[4, 5, END]])
        expected = brute_force(model, source, 3, alpha)
        asked = SearchSettings(beam_size=len(expected), length_penalty=alpha, max_extra_tokens=1, n_best=5)
        (found,) = beam_search(model, source, asked)
        assert [one.ids for one in found] == [ids for _, ids in expected[:5]]
        torch.testing.assert_close(
            [one.score for one in found], [score for score, _ in expected[:5]], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
@torch.no_grad()
def test_length_power_ranks_by_the_power_of_the_length(kind, power):
    model = tiny(kind, 6, 1)
    ranked = sorted(
        (
            (log_p / (len(ids) + 1) ** power, ids)
            for log_p, ids in brute_force(model, torch.tensor([[4, 5, END]]), 3, 0.0)
        )
    )[::-1]
    (found,) = beam_search(
        model,
        torch.tensor([[4, 5, END]]),
        SearchSettings(beam_size=len(ranked), length_power=power, max_extra_tokens=1, n_best=5),
    )
    assert [one.ids for one in found] == [ids for _, ids in ranked[:5]]
    torch.testing.assert_close(
        [one.score for one in found], [score for score, _ in ranked[:5]], rtol=1e-5, atol=1e-5
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [0.2, 3.0])
@no_shape_checks()
@torch.no_grad()
def test_the_coverage_penalty_ranks_by_the_attention_that_each_token_received(kind, beta):
    model, source = tiny(kind, 6, 2), torch.tensor([[4, 5, END]])
    ranked = []
    for score, ids in brute_force(model, source, 3, 0.6):
        seen = cross_attention(model, source, torch.tensor([[*ids, END]])).mean((0, 2))[0].sum(0)
        ranked.append((score + beta * float(seen.clamp(max=1).log().sum()), ids))
    ranked.sort(reverse=True)
    asked = SearchSettings(beam_size=len(ranked), coverage_penalty=beta, max_extra_tokens=1, n_best=5)
    padded = torch.tensor([[4, 5, END, PAD, PAD], [4, 5, 4, 5, END]])
    for found in (beam_search(model, source, asked)[0], beam_search(model, padded, asked)[0]):
        assert [one.ids for one in found] == [ids for _, ids in ranked[:5]]
        torch.testing.assert_close(
            [one.score for one in found], [score for score, _ in ranked[:5]], rtol=1e-4, atol=1e-4
        )


@given(st.lists(st.floats(1e-8, 3), min_size=1, max_size=4), st.floats(0.1, 5))
@example([0.0], 0.2)
@example([1e-8], 1.0)
def test_the_coverage_penalty_is_its_definition_and_finite_for_a_token_that_nothing_attended_to(seen, beta):
    coverage, log_probs = torch.tensor([seen]), torch.full((1, 1, 5), -torch.inf)
    log_probs[..., END] = -1.0
    log_probs[..., UNKNOWN] = -2.0
    beam = Beam.start(1, 1, 1, 3, coverage)
    extend(beam, log_probs, SearchSettings(beam_size=1, length_penalty=0.0, coverage_penalty=beta))
    (score,) = beam.finished_scores[0].tolist()
    assert math.isfinite(score)
    if min(seen) > 0:
        assert score == pytest.approx(
            -1 + beta * sum(math.log(min(one, 1)) for one in seen), rel=1e-4, abs=1e-4
        )
    else:  # it is worse than any attention that float32 adds to 1
        assert score < -1 + beta * math.log(2.0**-24)


@torch.no_grad()
def test_a_source_end_that_is_not_attended_to_has_no_coverage_penalty():
    torch.manual_seed(1)
    settings = ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1, source_end=False)
    model, source = build_model(settings, 6, 6).eval(), torch.tensor([[4, 5, END, PAD]])
    (found,) = beam_search(model, source, SearchSettings(coverage_penalty=0.2, n_best=4))
    for one in found:
        target = torch.tensor([[*one.ids, END]])
        seen = cross_attention(model, source, target).mean((0, 2))[0].sum(0)[:2]  # not END, not padding
        ranked = one.log_probability / length_penalty(len(one.ids) + 1, 0.6)
        expected = ranked + 0.2 * float(seen.clamp(max=1).log().sum())
        assert one.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("least", [0, 1, 4])
def test_a_beam_of_one_is_greedy(model, sources, least):
    asked = SearchSettings(beam_size=1, max_extra_tokens=6)
    for (beam,), (greedy,) in zip(
        beam_search(model, sources, asked, Constraints(min_length=least)),
        greedy_search(model, sources, asked, least),
        strict=True,
    ):
        assert len(greedy.ids) >= least
        assert beam.ids == greedy.ids
        assert (beam.log_probability, beam.score) == pytest.approx(
            (greedy.log_probability, greedy.score), abs=1e-5
        )


@torch.no_grad()
def test_greedy_search_chooses_the_likeliest_token_of_a_model_without_a_cache(model, sources):
    for row, (best,) in enumerate(
        greedy_search(model, sources, SearchSettings(beam_size=1, max_extra_tokens=3))
    ):
        source = sources[row : row + 1, : int((sources[row] != PAD).sum())]
        prefix = []
        while len(prefix) < source.size(1) - 1 + 3:
            features, _ = model.decode(torch.tensor([[START, *prefix]]), model.encode(source))
            logits = model.logits(features)[0, -1]
            logits[[PAD, START]] = -torch.inf
            if int(logits.argmax()) == END:
                break
            prefix.append(int(logits.argmax()))
        assert best.ids == prefix


@torch.no_grad()
def test_scores_are_those_of_forced_decoding(model, sources):
    asked = SearchSettings(beam_size=3, n_best=3, max_extra_tokens=4)
    for row, found in enumerate(beam_search(model, sources, asked)):
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for hypothesis in found:
            features, _ = model.decode(
                torch.tensor([[START, *hypothesis.ids]]), model.encode(sources[row : row + 1])
            )
            logits = model.logits(features)
            logits[..., [PAD, START]] = -torch.inf
            gold = torch.tensor([*hypothesis.ids, END])[:, None]
            log_p = float(logits.log_softmax(-1)[0].gather(1, gold).sum())
            assert hypothesis.log_probability == pytest.approx(log_p, abs=1e-4)
            assert hypothesis.score == pytest.approx(log_p / ((5 + len(gold)) / 6) ** 0.6, abs=1e-4)


SOURCES = st.lists(
    st.lists(
        st.integers(UNKNOWN, VOCABULARY - 1).filter(lambda token: token not in (START, END)), max_size=6
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@no_shape_checks()
def test_a_sentence_is_translated_alike_whatever_its_neighbours(kind):
    model = tiny(kind, VOCABULARY, 5)
    asked = SearchSettings(beam_size=3, n_best=2, max_extra_tokens=5)

    @settings(max_examples=10)
    @given(SOURCES)
    def check(rows):
        padded = torch.full((len(rows), max(map(len, rows)) + 1), PAD)
        for number, row in enumerate(rows):
            padded[number, : len(row) + 1] = torch.tensor([*row, END])
        batched = beam_search(model, padded, asked)
        for row, expected in zip(rows, batched, strict=True):
            (alone,) = beam_search(model, torch.tensor([[*row, END]]), asked)
            assert [one.ids for one in alone] == [one.ids for one in expected]
            for one, other in zip(alone, expected, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-4)

    check()


def test_no_translation_is_longer_than_its_source_allows(model, sources):
    for extra in (0, 2):
        found = beam_search(model, sources, SearchSettings(max_extra_tokens=extra, length_penalty=5.0))
        for row, (best,) in enumerate(found):
            assert len(best.ids) <= int((sources[row] != PAD).sum()) - 1 + extra


def test_a_model_with_an_end_is_not_asked_for_more():
    torch.manual_seed(0)
    settings = ModelSettings(
        d_model=8, heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, positions="learned", max_positions=5
    )
    model = build_model(settings, 9, 9).eval()
    source = torch.tensor([[5, 6, END]])
    ((best,),) = beam_search(model, source, SearchSettings(length_penalty=5.0))
    assert len(best.ids) <= 4
    assert len(greedy_search(model, source, SearchSettings(beam_size=1))[0][0].ids) <= 4


def test_the_penalty_is_that_of_wu_and_others():
    assert float(length_penalty(1, 0.6)) == 1
    assert float(length_penalty(7, 1.0)) == 2
    assert float(length_penalty(19, 0.5)) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam_size": 0}, "beam_size is 0; it must be at least 1"),
        ({"n_best": 5}, "n_best is 5, and a beam has no more than its 4 hypotheses"),
        ({"diversity": 1.0}, "diversity needs groups above 1; give both, or leave diversity out"),
        ({"groups": 3}, "beam_size is 4 and groups is 3; the first has to be a multiple of the other"),
        (
            {"groups": 2, "temperature": 1.0},
            "groups and temperature exclude each other: samples have no beam",
        ),
        (
            {"force_words": ("a",), "groups": 2},
            "force_words and groups exclude each other: words are forced by grid beam search alone",
        ),
        ({"length_penalty": -1.0}, "length_penalty is -1.0; it must be at least 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(SearchSettings(), **wrong)


OF_SAMPLING = {"top_k": 3, "top_p": 0.5, "sampling_seed": 7, "mbr": True}
OF_A_BEAM = {
    "beam_size": 2,
    "length_penalty": 1.0,
    "length_power": 1.0,
    "coverage_penalty": 0.1,
    "groups": 2,
    "diversity": 0.75,
    "force_words": ("a",),
}
OF_A_WHOLE_SENTENCE = {
    "prefix": "a",
    "force_words": ("a",),
    "min_length": 1,
    "max_length": 9,
    "no_repeat_ngram": 2,
    "keep_tags": True,
    "replace_unknown": True,
    "truncate": 5,
    "n_best": 2,
}


@pytest.mark.parametrize("name", OF_SAMPLING)
def test_a_setting_of_sampling_needs_a_temperature(name):
    asked = {name: OF_SAMPLING[name], "n_best": 2}
    assert getattr(SearchSettings(temperature=1.0, **asked), name) == OF_SAMPLING[name]
    with pytest.raises(DragomanError, match=rf"\b{name}\b.* temperature above 0"):
        SearchSettings(**asked)


@pytest.mark.parametrize("name", OF_A_BEAM)
def test_a_setting_of_a_beam_excludes_a_temperature(name):
    asked = {name: OF_A_BEAM[name]}
    beam = {"groups": 2} if name == "diversity" else {}
    assert getattr(SearchSettings(**asked, **beam), name) == OF_A_BEAM[name]
    with pytest.raises(DragomanError, match=rf"\b{name}\b.* temperature"):
        SearchSettings(temperature=1.0, **asked)


@pytest.mark.parametrize("name", ["groups", "coverage_penalty"])
def test_forced_words_exclude_groups_and_a_coverage_penalty(name):
    with pytest.raises(
        DragomanError,
        match=f"force_words and {name} exclude each other: words are forced by grid beam search",
    ):
        SearchSettings(force_words=("a",), **{name: OF_A_BEAM[name]})


@pytest.mark.parametrize("name", OF_A_WHOLE_SENTENCE)
def test_what_is_of_a_whole_sentence_excludes_splits(name):
    asked = {name: OF_A_WHOLE_SENTENCE[name]}
    for split in (None, 0):
        assert SearchSettings(split=split, **asked).needs_whole_sentences
    with pytest.raises(DragomanError, match=f"split and {name} exclude each other"):
        SearchSettings(split=5, **asked)
    assert not SearchSettings(split=5).needs_whole_sentences


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ({"temperature": 1e-6}, {"temperature": math.nextafter(1e-6, 0)}),
        ({"top_p": 1.0, "temperature": 1.0}, {"top_p": math.nextafter(1, 2), "temperature": 1.0}),
        ({"mbr": True, "temperature": 1.0, "n_best": 2}, {"mbr": True, "temperature": 1.0}),
        ({"min_length": 3, "max_length": 3}, {"min_length": 4, "max_length": 3}),
        ({"n_best": 6, "beam_size": 6}, {"n_best": 7, "beam_size": 6}),
        ({"truncate": 2}, {"truncate": 1}),
        ({"split": 2}, {"split": 1}),
    ],
    ids=str,
)
def test_a_boundary_is_exactly_where_the_message_says(allowed, refused):
    assert vars(SearchSettings(**allowed)).items() >= allowed.items()
    with pytest.raises(DragomanError, match=next(iter(refused))):
        SearchSettings(**refused)


def test_one_search_excludes_what_needs_several():
    more = {"split": 5, "keep_tags": True, "replace_unknown": True, "coverage_penalty": 0.1}
    for refuse, names in (
        (refuse_more_than_a_search, more),
        (refuse_more_than_a_beam, more | {"temperature": 1.0, "force_words": ("a",)}),
    ):
        for name, value in names.items():
            with pytest.raises(DragomanError, match=f"which {name} excludes; leave it out"):
                refuse(SearchSettings(**{name: value}), "A word")
        refuse(SearchSettings(), "A word")


NUMBERS = [
    name
    for name, hint in get_type_hints(SearchSettings).items()
    if hint is not bool and name != "top_p" and {int, float} & {hint, *get_args(hint)}
]
COSTLY = ["beam_size", "n_best", "max_extra_tokens", "min_length", "no_repeat_ngram"]
POWERS = ["length_penalty", "length_power", "coverage_penalty", "diversity", "temperature"]


@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_of_a_search_is_negative_and_none_that_costs_time_is_unbounded(name):
    number = float if name in POWERS else int
    with pytest.raises(DragomanError, match=f"^{name} is {number(-1)}; it must be at least"):
        SearchSettings(**{name: number(-1)})
    if name in (*COSTLY, *POWERS):
        with pytest.raises(DragomanError, match=f"^{name} is {number(10**7)}; it must be at most"):
            SearchSettings(**{name: number(10**7)})


@lru_cache(20_000)
def following(model, source, ids):
    """The log-probability of each token after these, without what a model keeps from step to step."""
    features, _ = model.decode(torch.tensor([[START, *ids]]), model.encode(torch.tensor([source])))
    logits = model.logits(features)[0, -1].float()
    logits[[PAD, START]] = -torch.inf
    return logits.log_softmax(-1).tolist()


@torch.no_grad()
def reference_steps(model, source, asked):
    """Beam search of one sentence in Python lists.

    After each step: the ids of the live hypotheses; the finished ones as (score, log-probability, ids).
    Sorting is stable: equal hypotheses stay in the order of their origins, then of their tokens.
    """
    width, longest = asked.beam_size // asked.groups, len(source) - 1 + asked.max_extra_tokens
    longest = longest if asked.max_length is None else min(longest, asked.max_length)

    def score(log_p, length):
        return log_p / (
            ((5 + length) / 6) ** asked.length_penalty
            if asked.length_power is None
            else length**asked.length_power
        )

    live, ended = [[([], 0.0)] for _ in range(asked.groups)], {}
    for step in range(longest + 1):
        used = Counter()
        for group, hypotheses in enumerate(live):
            candidates = []
            for ids, log_p in hypotheses:
                for token, own in enumerate(following(model, tuple(source), tuple(ids))):
                    if own > -math.inf and (step < longest or token == END):
                        candidates.append(
                            (log_p + own - asked.diversity * used[token], log_p + own, [*ids, token])
                        )
            candidates.sort(key=lambda candidate: -candidate[0])
            for _, log_p, ids in candidates[:width]:
                if ids[-1] == END:  # what two groups have found counts once
                    ended.setdefault(tuple(ids[:-1]), log_p)
            live[group] = [(ids, log_p) for _, log_p, ids in candidates if ids[-1] != END][:width]
            used.update(ids[-1] for ids, _ in live[group])
        alive = list(itertools.chain(*live))
        ranked = sorted(
            ((score(log_p, len(ids) + 1), log_p, list(ids)) for ids, log_p in ended.items()),
            key=lambda one: -one[0],
        )
        yield [ids for ids, _ in alive], ranked
        rank, reached = (0, step) if len(ranked) >= asked.beam_size else (asked.n_best - 1, longest)
        if rank < len(ranked) and all(score(log_p, reached + 1) <= ranked[rank][0] for _, log_p in alive):
            return


def assert_equals_reference(model, sources, asked):
    """Compare hypotheses, scores and the number of steps with `reference_steps`; give the hypotheses."""
    done = {}
    for number, step in enumerate(beam_steps(model, sources, asked, Constraints()), 1):
        done |= {sentence: (number, best) for sentence, best in step.done.items()}
    for sentence, row in enumerate(sources):
        expected = list(reference_steps(model, row[row != PAD].tolist(), asked))
        assert done[sentence][0] == len(expected)
        same_hypotheses(done[sentence][1], expected[-1][1][: asked.n_best])
    return [done[sentence][1] for sentence in range(len(sources))]


def same_hypotheses(found, expected):
    assert [one.ids for one in found] == [ids for *_, ids in expected]
    for one, (score, log_p, _) in zip(found, expected, strict=True):
        assert (one.score, one.log_probability) == pytest.approx((score, log_p), abs=1e-4)


PENALTIES = [
    {"length_penalty": 0.0},
    {"length_penalty": 0.6},
    {"length_penalty": 1.4},
    {"length_power": 1.0},
    {"max_length": 2},
]


@pytest.fixture(scope="module", params=KINDS)
def kept_model(request):
    """As `model`, and the same for all tests: `following` need not compute again. Read only."""
    return random_model(MODELS[request.param])


def with_few_tokens(seed):
    """A model of 12 tokens, of which several are about as likely as END: hypotheses end at any length."""
    torch.manual_seed(seed)
    settings = ModelSettings(d_model=16, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1)
    model = build_model(settings, 12, 12).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.2)
    return model


def few_tokens(draw, most=6):
    """Up to so many tokens of that model."""
    return [draw.randrange(4, 12) for _ in range(draw.randint(1, most))]


def any_search(draw):
    """Settings of a beam search: every size of the beam and of its n best, every penalty."""
    beam_size = draw.choice([1, 2, 2, 3, 3, 4, 4, 6, 8])
    return SearchSettings(
        beam_size=beam_size,
        n_best=max(draw.randint(1, beam_size) for _ in range(2)),
        max_length=draw.choice([*[None] * 5, draw.randint(1, 9)]),
        max_extra_tokens=draw.choice([0, 2, 4, 5, 6, 8]),
        **{
            draw.choice(["length_power", "length_penalty"]): draw.choice(
                [0.0, 0.6, *[draw.uniform(1, 3)] * 4]
            )
        },
    )


def phrases(words):
    """Forced phrases, each of several forms."""
    return [Phrase(forms) for forms in words]


def any_rules(draw):
    """Constraints of any kind, and often none."""
    return draw.choice(
        [
            *[Constraints()] * 3,
            Constraints(
                min_length=draw.choice([0, draw.randint(1, 4)]),
                no_repeat_ngram=draw.choice([0, draw.randint(1, 3)]),
                banned=draw.choice([[], [few_tokens(draw, 2), few_tokens(draw, 3)]]),
                prefix=draw.choice([[], few_tokens(draw, 3)]),
            ),
        ]
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("first", range(0, 8, 4))
@no_shape_checks()
def test_any_n_and_any_penalty_are_searched_as_in_the_reference(first):
    for seed in range(first, first + 4):
        draw = random.Random(seed)
        model, asked = with_few_tokens(seed), any_search(draw)
        for source in [[*few_tokens(draw, 4), END] for _ in range(2)]:
            assert_equals_reference(model, torch.tensor([source]), asked)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@no_shape_checks()
def test_the_stop_rule_is_that_of_the_reference(kept_model, sources, penalty):
    for beam_size, n_best in ((1, 1), (3, 2), (4, 4)):
        assert_equals_reference(
            kept_model,
            sources[1:],
            SearchSettings(beam_size=beam_size, n_best=n_best, max_extra_tokens=8, **penalty),
        )


def test_a_search_does_not_end_while_a_live_hypothesis_is_better_than_all_that_have_finished():
    following = {"<s>": {"a": 0.5, "</s>": 0.2, "b": 0.15, "c": 0.15}, "a": {"c": 0.9, "</s>": 0.1}}
    model, source = TableModel("abc", following), torch.tensor([[4, END]])
    asked = SearchSettings(beam_size=2, length_penalty=0.0)
    *_, last = beam_steps(model, source, asked, Constraints())
    assert [model.text(best.ids) for best in last.done[0]] == ["a c"]  # 0.45; "" has 0.2, "b" 0.15


@pytest.mark.short_form(1)
@no_shape_checks()
def test_the_best_is_the_same_whatever_the_number_of_the_best(kept_model, sources):
    asked = SearchSettings(beam_size=4, length_power=1.0, max_extra_tokens=6)
    found = [beam_search(kept_model, sources, replace(asked, n_best=n_best)) for n_best in range(1, 5)]
    for (alone,), *others in zip(*found, strict=True):
        assert [best for best, *_ in others] == [alone] * 3


@pytest.mark.short_form(1)
@torch.no_grad()
def test_equal_extensions_fall_to_the_likelier_hypothesis_and_the_smaller_token(model, sources):
    for weight in model.parameters():
        weight.zero_()
    for row, (best,) in zip(
        sources, greedy_search(model, sources, SearchSettings(beam_size=1, max_extra_tokens=2)), strict=True
    ):
        assert best.ids == [UNKNOWN] * (int((row != PAD).sum()) - 1 + 2)
    for beam_size, alpha in itertools.product(range(1, 5), (0.0, 0.6)):
        for n_best in {1, beam_size}:
            assert_equals_reference(
                model, sources[1:2, :4], SearchSettings(beam_size, alpha, max_extra_tokens=2, n_best=n_best)
            )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("diversity", [0.0, 0.7, 5.0])
def test_groups_of_a_beam_avoid_each_others_tokens_as_in_the_reference(kind, diversity):
    model, source = tiny(kind, 7, 3), torch.tensor([[4, 5, END]])
    asked = SearchSettings(
        beam_size=6, groups=3, diversity=diversity, max_extra_tokens=1, n_best=6, length_penalty=0.0
    )
    assert_equals_reference(model, source, replace(asked, n_best=1))
    (found,) = assert_equals_reference(model, source, asked)
    assert len({tuple(one.ids) for one in found}) == len(found)
    if diversity == 0.7:
        (first,) = beam_search(model, source, replace(asked, groups=1, diversity=SearchSettings.diversity))
        assert {tuple(one.ids) for one in found} != {tuple(one.ids) for one in first}

"""What-ifs: an intervention equals other weights, and the model that it began with stays as it was."""

import copy
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspection.analyse import changes
from dragoman.inspection.analyse.changes import (
    GRAMMAR,
    HeadOff,
    LayerOff,
    PositionsOff,
    SearchSetting,
    SourceToken,
    SublayerOff,
    TargetToken,
    UniformAttention,
    changed_settings,
    parse_changes,
)
from dragoman.inspection.analyse.interventions import with_interventions
from dragoman.inspection.inspect import inspect, inspect_ids
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.recording import attentions
from dragoman.inspection.what_if import inspect_changed, what_if
from dragoman.model.symbols import END
from dragoman.search.hypothesis import Constraints
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from tests.conftest import MODELS, VARIANTS
from tests.test_inspection import LINES, SETTINGS, TRANSFORMERS, inspected, translator_of

LINE, SEARCH = LINES[0], SETTINGS[0]


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


def same(one, other):
    """Whether two inspections are equal, bit for bit."""
    for field in fields(one):
        found, expected = getattr(one, field.name), getattr(other, field.name)
        if field.name in ("attention", "stream", "masks", "neurons") and expected is not None:
            found, expected = list(vars(found).values()), list(vars(expected).values())
        elif field.name == "positions":
            found, expected = [found], [expected]
        elif field.name == "projections":
            found, expected = map(projected_arrays, (found, expected))
        else:
            assert found == expected, field.name
            continue
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, wanted, field.name)
    return True


def projected_arrays(projections):
    """All arrays but what W^O is given, which is 0 for a head that is off, and which W^O may ignore."""
    kinds = vars(projections).values() if projections else ()
    return [array for kind in kinds for name, array in vars(kind).items() if name != "outputs"]


def with_weights(translator, change):
    """A translator with a copy of the model whose weights `change` changes."""
    model = copy.deepcopy(one_transformer(translator))
    with torch.no_grad():
        change(model)
    return type(translator).from_model(model, translator.tokenizers)


def clear(linear):
    """Zero the weights of a linear map, and its bias."""
    for parameter in linear.parameters():
        parameter.zero_()


def test_a_prefix_continues_after_a_forced_token(translator):
    search = replace(SEARCH, prefix=LINES[0])
    prefix = translator.tokenizers.target.encode([LINES[0]])[0]
    other = translator.tokenizers.target.pieces([prefix[-1]])[0]
    found = inspect_changed(translator, LINE, [TargetToken(1, other)], search)
    ids = translator.tokenizers.target.ids(found.target)
    assert ids[: len(prefix)] == [prefix[-1], *prefix[1:]]


def test_without_changes_it_is_the_same_inspection(translator):
    found = what_if(translator, LINE, [], SEARCH)
    assert same(found.before, found.after)
    assert same(found.before, inspect(translator, LINE, SEARCH))


@pytest.mark.short_form(1)
def test_a_head_off_is_a_model_whose_output_matrix_has_its_columns_zero(translator):
    heads, width = (
        one_transformer(translator).settings.heads,
        one_transformer(translator).settings.value_width,
    )
    for use, name in (("encoder", "encoder.0.self_attention"), ("cross", "decoder.0.cross_attention")):
        for head in range(heads):

            def drop(model, name=name, head=head):
                attentions(model)[name].output.weight[:, head * width : (head + 1) * width] = 0

            found = inspect_changed(translator, LINE, [HeadOff(use, 1, head + 1)], SEARCH)
            expected = inspect(with_weights(translator, drop), LINE, SEARCH)
            assert same(found, expected)


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("side", "sublayer"),
    [("encoder", "self_attention"), ("encoder", "feed_forward")]
    + [("decoder", name) for name in ("self_attention", "cross_attention", "feed_forward")],
)
def test_a_sublayer_off_is_a_model_whose_output_weights_are_zero(translator, side, sublayer):
    def drop(model):
        part = getattr(getattr(model, side)[0], sublayer)
        clear(part.outer if sublayer == "feed_forward" else part.output)

    found = inspect_changed(translator, LINE, [SublayerOff(side, 1, sublayer)], SEARCH)
    expected = inspect(with_weights(translator, drop), LINE, SEARCH)
    assert same(found, replace(expected, modules=found.modules))


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_off_is_a_model_without_it(translator, side):
    layers = len(getattr(one_transformer(translator), side))

    def drop(model):
        del getattr(model, side)[layers - 1]

    found = inspect_changed(translator, LINE, [LayerOff(side, layers)], SEARCH)
    if layers > 1:
        expected = inspect(with_weights(translator, drop), LINE, SEARCH)
        assert (found.nodes, found.translation) == (expected.nodes, expected.translation)
    norms = getattr(found.stream, side)
    np.testing.assert_array_equal(norms[-1], norms[-2])


@pytest.mark.parametrize("side", ["source", "target", None])
def test_positions_off_is_a_model_whose_table_is_zero(translator, side):
    def drop(model):
        for name in ("source", "target") if side is None else (side,):
            getattr(model, f"{name}_positions").table.zero_()

    found = inspect_changed(translator, LINE, [PositionsOff(side)], SEARCH)
    assert same(found, inspect(with_weights(translator, drop), LINE, SEARCH))


def test_uniform_attention_gives_each_allowed_key_the_same_weight(translator):
    changes = [
        UniformAttention("encoder", 1),
        UniformAttention("decoder", 1, 2),
        UniformAttention("cross", 1, 1),
    ]
    plain = inspected(translator, LINE, SEARCH)
    found = inspect_changed(translator, LINE, changes, SEARCH)
    source, target = len(found.source), len(found.target)
    np.testing.assert_allclose(found.attention.encoder[0], 1 / source, rtol=1e-6)
    np.testing.assert_allclose(found.attention.cross[0, 0], 1 / source, rtol=1e-6)
    causal = np.tri(target) / np.arange(1, target + 1)[:, None]
    np.testing.assert_allclose(found.attention.decoder[0, 1], causal, rtol=1e-6)
    assert np.ptp(found.attention.cross[0, 1]) > 1e-3
    assert np.ptp(plain.attention.encoder[0]) > 1e-3


def test_two_heads_may_be_uniform(translator):
    changes = [UniformAttention("cross", 1, head) for head in (1, 2)]
    found = inspect_changed(translator, LINE, changes, SEARCH)
    np.testing.assert_allclose(found.attention.cross[0, :2], 1 / len(found.source), rtol=1e-6)


def test_an_overwritten_source_is_the_inspection_of_those_ids(translator):
    tokenizer = translator.tokenizers.source
    ids = [*tokenizer.encode([LINE])[0], END]
    (ids[1],) = tokenizer.ids(["▁two"])
    found = inspect_changed(translator, LINE, [SourceToken(2, "▁two")], SEARCH)
    assert found.source == tuple(tokenizer.pieces(ids))
    assert same(found, inspect_ids(translator, LINE, torch.tensor([ids]), SEARCH, Constraints()))


def test_the_words_of_an_overwritten_source_are_those_of_its_tokens(translator):
    tokens = inspected(translator, LINE, SEARCH).source[:-1]
    place = next(number for number, token in enumerate(tokens) if number and not token.startswith("▁"))
    found = inspect_changed(translator, LINE, [SourceToken(place + 1, "▁two")], SEARCH)
    assert found.source_words[place] == found.source_words[place - 1] + 1


def test_a_search_continues_from_a_hypothesis(translator):
    before = inspected(translator, LINE, SEARCH)
    nodes = before.nodes
    for number in [number for number, node in enumerate(nodes) if node.end == "below the beam"][:3]:
        tokens, each = [], number
        while nodes[each].parent is not None:
            tokens.append(nodes[each].token)
            each = nodes[each].parent
        tokens.reverse()
        if tokens[-1] == translator.tokenizers.target.pieces([END])[0]:
            continue
        changes = [TargetToken(place, token) for place, token in enumerate(tokens, 1)]
        found = inspect_changed(translator, LINE, changes, SEARCH)
        assert list(found.target[: len(tokens)]) == tokens
        start = found.nodes[found.best_path[len(tokens)]].log_probability
        assert start == pytest.approx(nodes[number].log_probability, abs=1e-5)


def test_the_translation_fills_what_is_not_forced(translator):
    before = inspected(translator, LINE, SEARCH)
    found = inspect_changed(translator, LINE, [TargetToken(3, "▁two")], SEARCH)
    assert found.target[:3] == (*before.target[:2], "▁two")


def test_other_settings_are_those_of_an_ordinary_inspection(translator):
    changes = parse_changes(["beam_size=2", "length_penalty=1.5"])
    found = inspect_changed(translator, LINE, changes, SEARCH)
    assert same(found, inspect(translator, LINE, SEARCH, beam_size=2, length_penalty=1.5))


def test_the_model_stays_as_it_was(translator):
    model = one_transformer(translator)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    before = inspect(translator, LINE, SEARCH)
    texts = ["cross.1.1=off", "encoder.1.1=uniform", "decoder.1.feed_forward=off", "positions=off"]
    inspect_changed(translator, LINE, parse_changes(texts), SEARCH)
    with pytest.raises(DragomanError):
        inspect_changed(translator, LINE, parse_changes([*texts, "target.99=▁two"]), SEARCH)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    assert same(before, inspect(translator, LINE, SEARCH))


def test_a_changed_model_shares_the_weights_and_leaves_the_original_alone(translator):
    model = one_transformer(translator)
    before = inspect(translator, LINE, SEARCH)
    interventions = parse_changes(["cross.1=uniform", "encoder.1.1=off", "decoder.1.feed_forward=off"])
    changed = with_interventions(model, interventions)
    assert all(changed.get_parameter(name) is weight for name, weight in model.named_parameters())
    assert changed.state_dict().keys() == model.state_dict().keys()
    assert same(before, inspect(translator, LINE, SEARCH))  # while the changed one exists


CHANGES = {
    "cross.2.3=off": HeadOff("cross", 2, 3),
    "encoder.1.2=uniform": UniformAttention("encoder", 1, 2),
    "decoder.1=uniform": UniformAttention("decoder", 1),
    "decoder.1.feed_forward=off": SublayerOff("decoder", 1, "feed_forward"),
    "decoder.2.cross_attention=off": SublayerOff("decoder", 2, "cross_attention"),
    "encoder.2=off": LayerOff("encoder", 2),
    "positions=off": PositionsOff(),
    "positions.source=off": PositionsOff("source"),
    "source.4=▁dog": SourceToken(4, "▁dog"),
    "source.4==": SourceToken(4, "="),
    "target.12=7": TargetToken(12, "7"),
    "beam_size=1": SearchSetting("beam_size", 1),
    "length_penalty=0.5": SearchSetting("length_penalty", 0.5),
}


NUMBERS = st.integers(1, 999_999)
SIDES, USES = st.sampled_from(["encoder", "decoder"]), st.sampled_from(["encoder", "decoder", "cross"])
TOKENS = st.text(min_size=1)
ANY_CHANGE = st.one_of(
    st.builds(HeadOff, USES, NUMBERS, NUMBERS),
    st.builds(UniformAttention, USES, NUMBERS, st.none() | NUMBERS),
    st.builds(SublayerOff, SIDES, NUMBERS, st.sampled_from(["self_attention", "feed_forward"])),
    st.builds(SublayerOff, st.just("decoder"), NUMBERS, st.just("cross_attention")),
    st.builds(LayerOff, SIDES, NUMBERS),
    st.builds(PositionsOff, st.sampled_from([None, "source", "target"])),
    st.builds(SourceToken, NUMBERS, TOKENS),
    st.builds(TargetToken, NUMBERS, TOKENS),
    *(
        st.builds(SearchSetting, st.just(name), st.integers() if kind is int else st.floats(allow_nan=False))
        for name, kind in changes.SETTINGS.items()
    ),
)


@given(ANY_CHANGE)
def test_every_change_is_read_back_from_its_text(change):
    (found,) = parse_changes([str(change)])
    assert found == change
    assert type(found) is type(change)


@given(st.sampled_from([SourceToken, TargetToken]), NUMBERS, st.text("a =.\t", min_size=1))
def test_a_token_of_a_change_keeps_its_spaces_and_signs(kind, position, token):
    assert parse_changes([str(kind(position, token))]) == [kind(position, token)]


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ({}, "diversity"),
        ({}, "sampling_seed"),
        *(({"temperature": 1.0}, name) for name in ("beam_size", "length_penalty", "diversity")),
    ],
)
def test_a_change_without_effect_is_refused_also_if_its_value_is_the_default(base, name):
    settings = SearchSettings(**base)
    default = getattr(SearchSettings(), name)
    for value in (default, default + 1):
        with pytest.raises(DragomanError, match=name):
            changed_settings(settings, [SearchSetting(name, value)])
    assert changed_settings(settings, []) == settings


@pytest.mark.parametrize("text", CHANGES)
def test_a_text_stands_for_a_change_and_the_change_for_the_text(text):
    assert parse_changes([text]) == [CHANGES[text]]
    assert str(CHANGES[text]) == text


@pytest.mark.parametrize(
    "text",
    [
        *["", "=", "cross", "cross.2.3", "cross.2.3=on", "cross.0.1=off", "cross.2=off", "cross.2.3.4=off"],
        *[
            "encoder.1.cross_attention=off",
            "encoder.1.normalisation=off",
            "source.0=a",
            "source.1=",
            "prefix=a",
        ],
        *["positions.both=off", "cross.-1.2=off", "cross.1.²=off"],
    ],
)
def test_what_is_no_change_gets_the_grammar(text):
    with pytest.raises(DragomanError) as raised:
        parse_changes([text])
    assert str(raised.value) == f"{text!r} is not a change. {GRAMMAR}"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["cross.9.1=off"], r"cross.9.1=off: there is no layer 9; this model has \d decoder layers"),
        (["encoder.9=off"], r"encoder.9=off: there is no layer 9; this model has \d encoder layers"),
        (["cross.1.9=off"], r"cross.1.9=off: there is no head 9; this model has \d in a layer"),
        (["decoder.1.9=uniform"], r"decoder.1.9=uniform: there is no head 9; this model has \d in a layer"),
        (["source.1=dgo"], "source.1=dgo: 'dgo' is not a token of the source vocabulary. Give a token as"),
        (["target.1=dgo"], "target.1=dgo: 'dgo' is not a token of the target vocabulary. Give a token as"),
        (["source.1=<pad>"], "source.1=<pad>: <pad> is a control symbol, which no sentence contains"),
        (["source.99=▁two"], r"there is no position 99; the sentence has \d+ tokens before its end"),
        (["target.99=▁two"], r"target.99: the translation has \d+ tokens before its end; force target"),
        (["beam_size=two"], "beam_size is 'two'; it has to be a whole number"),
        (["length_penalty=much"], "length_penalty is 'much'; it has to be a number"),
        (["beam_size=0"], "beam_size is 0; it must be at least 1"),
        (["groups=3"], "groups"),
        (["source.1=▁a", "source.1=▁two"], "source.1=▁a and source.1=▁two change the same part"),
        (["encoder.1.1=off", "encoder.1=off"], "encoder.1=off and encoder.1.1=off change the same part"),
        (["cross.1=uniform", "decoder.1.cross_attention=off"], "change the same part; leave one"),
        (["positions.source=off", "positions=off"], "positions=off and positions.source=off change the same"),
        (
            ["target.1=▁two", "target.2=▁two", "no_repeat_ngram=1"],
            "do not allow a translation that begins with ▁two ▁two; leave no_repeat_ngram",
        ),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(translator, texts, message):
    with pytest.raises(DragomanError, match=message):
        inspect_changed(translator, LINE, parse_changes(texts), SEARCH)


@pytest.mark.parametrize(
    "change",
    [
        HeadOff("encoder", 0, 1),
        HeadOff("encoder", -5, 1),
        HeadOff("cross", 1, 0),
        UniformAttention("cross", 1, 0),
        UniformAttention("decoder", 0),
        SublayerOff("encoder", 0, "feed_forward"),
        LayerOff("encoder", 0),
        LayerOff("decoder", -1),
        SourceToken(0, "▁two"),
        TargetToken(0, "▁two"),
        TargetToken(-1, "▁two"),
    ],
    ids=str,
)
def test_layers_heads_and_positions_are_counted_from_one(translator, change):
    changes = [change, TargetToken(1, "▁two")]
    with pytest.raises(DragomanError, match=r"\w+.*: there is no (layer|head|position) (0|-1|-5)"):
        inspect_changed(translator, LINE, changes, SEARCH)


@pytest.mark.parametrize("name", ["transformer", "lstm, enriched", "conv"])
def test_an_encoder_layer_has_no_encoder_decoder_attention(name):
    change = SublayerOff("encoder", 1, "cross_attention")
    with pytest.raises(DragomanError, match="encoder.1.cross_attention=off: "):
        inspect_changed(translator_of((MODELS | VARIANTS)[name]), LINE, [change], SEARCH)


def test_a_model_without_attention_gets_a_sentence():
    with pytest.raises(DragomanError, match="encoder.1=off: this model is an LSTM or GRU, of which no part"):
        what_if(translator_of(MODELS["lstm"]), LINE, [LayerOff("encoder", 1)])


def test_a_blank_sentence_gets_a_sentence(translator):
    for texts in ([], ["positions=off"], ["target.1=▁two"]):
        with pytest.raises(DragomanError, match="The sentence is blank"):
            inspect_changed(translator, " ", parse_changes(texts), SEARCH)


def test_the_settings_of_a_change_are_the_documented_ones_with_the_types_that_the_search_has():
    text = (Path(__file__).parents[1] / "docs" / "inspection.md").read_text("utf-8")
    (row,) = (line for line in text.splitlines() if "another setting of the search" in line)
    assert set(re.findall("`([a-z_]+)", row)) == set(changes.SETTINGS)
    hints = get_type_hints(SearchSettings)
    for name, kind in changes.SETTINGS.items():
        assert kind in (hints[name], *get_args(hints[name])), name
        (change,) = parse_changes([f"{name}=2"])
        assert type(change.value) is kind, name
    plain = SearchSettings()
    for name, value in (
        ("beam_size", 2),
        ("length_penalty", 0.25),
        ("min_length", 3),
        ("no_repeat_ngram", 2),
    ):
        assert changed_settings(plain, parse_changes([f"{name}={value}"])) == replace(plain, **{name: value})

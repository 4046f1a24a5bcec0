"""Attention read as alignment."""

import itertools
from collections import Counter
from functools import cache

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.model.attention import attention, causal_mask
from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD
from dragoman.search.attention_weights import all_attention, cross_attention, decode_with_attention
from dragoman.search.ensemble import Ensemble
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.alignment import (
    align_ids,
    precise_alignment,
    select_head,
    word_alignment,
    word_starts,
)
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.translator import Translator
from tests.conftest import MODELS, VARIANTS, VOCABULARY
from tests.test_search import tiny
from tests.test_translator import LINES, folder, translator  # noqa: F401


@cache
def tokenizer_of(kind):
    return Tokenizer.train(["a b ab ba .", "b a.b"] * 5, kind, TokenizerSettings(), 300)


@torch.no_grad()
def test_the_weights_are_those_of_equation_1_and_watching_changes_nothing(sources, targets):
    model = tiny("transformer", VOCABULARY, 0)
    targets[:, -1] = END
    target_in = Batch.of(sources, targets, []).target_in
    before, _ = model.decode(target_in, model.encode(sources))
    weights = cross_attention(model, sources, targets)
    assert weights.shape == (2, 3, 2, 6, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights.masked_select((sources == PAD)[None, :, None, None]) == 0).all()
    after, _ = model.decode(target_in, model.encode(sources))
    assert torch.equal(before, after)
    assert all(layer.cross_attention.attention_weights_hook is None for layer in model.decoder)
    layer, memory = model.decoder[0], model.encode(sources).memory[0]
    x = model.embed(target_in, model.target_embedding, model.target_positions(0, 6))
    residual = layer.self_attention_residual
    queries, here = layer.self_attention.project(residual.before(x))
    x = residual.after(x, layer.self_attention.attend(queries, here, causal=True))
    expected = attention(
        layer.cross_attention.project_query(layer.cross_attention_residual.before(x)),
        *memory,
        model.encode(sources).mask,
    )[1]
    torch.testing.assert_close(weights[0], expected)


@pytest.mark.parametrize("kind", ["transformer", "transformer, other options"])
@torch.no_grad()
def test_every_layer_of_either_side_is_seen_with_the_weights_of_equation_1(sources, targets, kind):
    model = tiny(kind, VOCABULARY, 0)
    targets[:, -1] = END
    encoder, decoder, cross = all_attention(model, sources, targets)
    state, target_in = model.encode(sources), Batch.of(sources, targets, []).target_in
    x = model.embed(sources, model.source_embedding, model.source_positions(0, 7))
    for number, layer in enumerate(model.encoder):
        queries, here = layer.self_attention.project(layer.self_attention_residual.before(x))
        torch.testing.assert_close(encoder[number], attention(queries, *here, state.mask)[1])
        x = layer(x, state.mask)
    x, causal = (
        model.embed(target_in, model.target_embedding, model.target_positions(0, 6)),
        causal_mask(6, 6, x.device),
    )
    for number, layer in enumerate(model.decoder):
        queries, here = layer.self_attention.project(layer.self_attention_residual.before(x))
        torch.testing.assert_close(decoder[number], attention(queries, *here, causal)[1])
        after = layer.self_attention_residual.after(
            x, layer.self_attention.attend(queries, here, causal=True)
        )
        queries = layer.cross_attention.project_query(layer.cross_attention_residual.before(after))
        torch.testing.assert_close(cross[number], attention(queries, *state.memory[number], state.mask)[1])
        x = layer(x, state, number, None)


def test_layers_and_heads_count_from_one(sources, targets):
    weights = cross_attention(tiny("transformer, other options", VOCABULARY, 0), sources, targets)
    assert torch.equal(select_head(weights, 1, 3), weights[0, :, 2])
    assert torch.equal(select_head(weights, None, None), weights[2].mean(1))
    assert torch.equal(select_head(weights[:1], None, 1), weights[0, :, 0])
    for layer, head, message in (
        (4, None, "There is no layer 4; this model has 3"),
        (None, 0, "There is no head 0; this model has 3"),
    ):
        with pytest.raises(DragomanError, match=message):
            select_head(weights, layer, head)


def test_the_head_of_alignments_is_that_of_the_last_layer_alone_and_another_may_be_asked_for():
    weights = torch.rand(3, 2, 4, 5, 6, generator=torch.Generator().manual_seed(1))
    for guided, layer in itertools.product((None, 2), (None, 1, 2, 3)):
        number = 2 if layer is None else layer - 1
        is_guided = guided is not None and number == 2
        expected = weights[number, :, guided - 1] if is_guided else weights[number].mean(1)
        assert torch.equal(select_head(weights, layer, None, guided), expected)
        assert torch.equal(select_head(weights, layer, 4, guided), weights[number, :, 3])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_the_weights_of_a_recurrent_model_are_those_of_additive_attention(sources, targets, kind):
    model = tiny(kind, VOCABULARY, 0)
    targets[:, -1] = END
    target_in = Batch.of(sources, targets, []).target_in
    encoder, decoder, cross = all_attention(model, sources, targets)
    assert encoder.shape == (0, 3, 1, 7, 7)
    assert decoder.shape == (0, 3, 1, 6, 6)
    assert cross.shape == (1, 3, 1, 6, 7)
    state = model.encode(sources)
    additive = model.attention
    for place in range(target_in.size(1)):
        compared = additive.score(
            torch.tanh(additive.query(state.past[0][:, 0])[:, None] + additive.key(state.memory))
        ).squeeze(-1)
        torch.testing.assert_close(
            cross[0, :, 0, place], compared.masked_fill(sources == PAD, -torch.inf).softmax(-1)
        )
        _, state = model.decode(target_in[:, place : place + 1], state)
    assert additive.attention_weights_hook is None


@pytest.mark.parametrize("kind", ["transformer", "additive", "restricted", "lstm", "conv"])
def test_a_recording_may_end_while_another_thread_attends(kind, sources, targets, monkeypatch):
    model, hooks = build_model((MODELS | VARIANTS)[kind], VOCABULARY, VOCABULARY).eval(), iter([])
    expected, _ = model.decode(targets, model.encode(sources))
    for attends in {type(each) for each in model.modules() if hasattr(each, "attention_weights_hook")}:
        # Read once more, the hook is gone.
        monkeypatch.setattr(attends, "attention_weights_hook", property(lambda _: next(hooks, None)), False)
    for reads in range(8):
        hooks = iter([lambda weights: None] * reads)
        found, _ = model.decode(targets, model.encode(sources))
        torch.testing.assert_close(found, expected)


def test_each_layer_of_a_convolutional_decoder_attends_step_by_step_as_at_once(sources, targets):
    model = tiny("conv", VOCABULARY, 0)
    targets[:, -1] = END
    encoder, decoder, cross = all_attention(model, sources, targets)
    assert encoder.shape == (0, 3, 1, 7, 7)
    assert decoder.shape == (0, 3, 1, 6, 6)
    assert cross.shape == (2, 3, 1, 6, 7)
    assert not cross[sources.eq(PAD)[None, :, None, None].expand(2, -1, 1, 6, -1)].any()
    target_in, state = Batch.of(sources, targets, []).target_in, model.encode(sources).allocate(1, 6)
    for place in range(6):
        _, state, seen = decode_with_attention(model, target_in[:, place : place + 1], state)
        torch.testing.assert_close(seen[:, 0], cross[:, :, 0, place].mean(0))


def test_a_model_without_attention_is_refused(sources, targets):
    with pytest.raises(
        DragomanError, match="need a model with encoder-decoder attention, and this architecture has none"
    ):
        cross_attention(Model(), sources, targets)


def test_pieces_are_joined_to_words():
    source, target = ["▁ein", "▁Fahr", "rad", "</s>"], ["▁a", "▁bi", "cy", "cle", "</s>"]
    assert word_starts(source[:-1]) == [0, 1, 1]
    assert word_starts(["ein", "s", "▁zwei"]) == [0, 0, 1]
    assert word_starts(["▁ein", "<unk>", "n", "<unk>"]) == [0, 0, 0, 0]
    assert word_starts(["<unk>", "▁ein", "<unk>"], unknown_is_word=True) == [0, 1, 2]
    assert word_starts(["▁drei▁fremde▁Worte", "▁ein"]) == [0, 3]
    assert word_starts(["▁Bonjour\xa0!", "▁ami"]) == [0, 1]  # a no-break space is inside a word
    assert word_starts(["▁a", "▁", "▁", "b", "▁", "▁c"]) == [0, 1, 1, 1, 2, 2]
    assert word_starts(["▁Sch@@", "▁nee", "▁ist", "▁k@@", "▁a@@", "▁lt"], is_segmented=True) == [
        0,
        0,
        1,
        2,
        2,
        2,
    ]
    weights = torch.tensor(
        [
            [0.5, 0.3, 0.1, 0.1],
            [0.4, 0.3, 0.3, 0.0],
            [0.1, 0.1, 0.1, 0.7],
            [0.6, 0.4, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    summed = torch.stack([weights[0], weights[1:4].sum(0)])
    expected = [
        (int(torch.stack([row[0], row[1:3].sum()]).argmax()), word) for word, row in enumerate(summed)
    ]
    assert word_alignment(weights, word_starts(source[:-1]), word_starts(target[:-1])) == expected
    assert word_alignment(weights[:1, :1], [], []) == []


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_a_source_word_with_a_mutual_link_has_no_other(source, target, seed):
    torch.manual_seed(seed)
    weights = torch.rand(target + 1, source + 1).softmax(1)  # the last row and column are END's
    inner = weights[:-1, :-1]
    words = list(range(source)), list(range(target))
    links, precise = word_alignment(weights, *words), precise_alignment(weights, *words)
    assert links == [(int(inner[word].argmax()), word) for word in range(target)]
    mutual = {word for word, other in links if int(inner[:, word].argmax()) == other}
    assert precise == [
        (word, other) for word, other in links if word not in mutual or int(inner[:, word].argmax()) == other
    ]
    assert {word for word, _ in precise} == {word for word, _ in links}, "no source word loses all its links"


@example("\u200b a")  # the first word is normalised away
@given(st.text("ab\u00b4\ufdfa\u200b\u00a0\u2581\u0085 \t.", max_size=12))
@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_words_are_those_of_the_text_before_it_is_normalised(kind, text):
    tokenizer = tokenizer_of(kind)
    [ids], words = tokenizer.encode([text if text.strip() else ""]), tokenizer.word_ids(text)
    assert len(words) == len(ids)
    assert words == sorted(words)
    assert all(0 <= word < len(text.split()) for word in words)
    assert tokenizer.word_ids(f"b {text}")[-1:] == [word + 1 for word in words[-1:]] or not words


def test_of_an_ensemble_the_first_model_is_read(sources, targets):
    models = [tiny("gru", VOCABULARY, 0), tiny("transformer", VOCABULARY, 0)]
    for order in (models, models[::-1]):
        assert torch.equal(
            cross_attention(Ensemble(order), sources, targets), cross_attention(order[0], sources, targets)
        )


def test_pairs_are_aligned_alike_whatever_their_neighbours(translator):  # noqa: F811
    pairs = [*zip(LINES, LINES[::-1], strict=True), ("", "a man"), ("a man", ""), ("", "")]
    batched = translator.align(pairs, batch_tokens=60)
    for pair, found in zip(pairs, batched, strict=True):
        assert translator.align([pair]) == [found]
        assert [target for _, target in found] == list(range(len(pair[1].split()))) or not (
            pair[0] and pair[1]
        )
        assert all(source < len(pair[0].split()) for source, _ in found)
    assert batched[-3:] == [[], [], []]


@pytest.mark.parametrize("layer", [None, 1, 3])
def test_words_are_aligned_by_the_layer_and_the_head_that_are_asked_for(translator, layer):  # noqa: F811
    tokenizer, pairs, answers = translator.tokenizers.target, list(zip(LINES, LINES[::-1], strict=True)), []
    deep = Translator.from_model(tiny("transformer, other options", len(tokenizer), 0), translator.tokenizers)
    for head in (None, 1, 2, 3):
        answers.append(deep.align(pairs, layer, head))
        for pair, found in zip(pairs, answers[-1], strict=True):
            weights = cross_attention(
                deep.torch_backend.model,
                *(torch.tensor([[*tokenizer.encode([text])[0], END]]) for text in pair),
            )
            heads = weights[-1 if layer is None else layer - 1, 0].tolist()
            totals = Counter()
            for of_head in heads if head is None else heads[head - 1 : head]:
                for written, row in zip(
                    tokenizer.word_ids(pair[1]), of_head, strict=False
                ):  # their END is no word
                    for read, weight in zip(tokenizer.word_ids(pair[0]), row, strict=False):
                        totals[read, written] += weight
            most = [
                max(range(len(pair[0].split())), key=lambda read: totals[read, word])
                for word in range(len(pair[1].split()))
            ]
            assert found == list(zip(most, range(len(most)), strict=True))
    assert all(one != other for one, other in itertools.combinations(answers, 2))


@pytest.mark.parametrize("target", [[0, 2], [1, 1], [0, 0, 3]])
def test_a_target_word_without_a_token_has_no_link(target):
    weights = torch.rand(len(target) + 1, 3, generator=torch.Generator().manual_seed(1))
    links = word_alignment(weights, [0, 1], target)
    assert [word for _, word in links] == sorted({*target})


@given(st.lists(st.sampled_from(["a", "b", "unknown"]), min_size=1, max_size=5))
def test_an_unknown_word_of_a_vocabulary_of_words_has_its_own_link(words):
    tokenizer = Tokenizer.train(["a b"] * 3, "word", TokenizerSettings(), 20)
    text = " ".join(words)
    (ids,) = tokenizer.encode([text])
    weights = torch.eye(len(ids) + 1)
    links = align_ids(Tokenizers(tokenizer, tokenizer), text, [*ids, END], ids, weights)
    assert links == [(place, place) for place in range(len(words))]

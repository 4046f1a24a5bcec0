"""An inspection shows what was computed: translation, search and weights are the ordinary ones."""

import base64
import inspect as code
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from threading import get_ident
from typing import get_args

import numpy as np
import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.inspection.analyse.changes import parse_changes
from dragoman.inspection.inspect import has_equation_1, inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.masks import PADDING
from dragoman.inspection.schema import array_from_json, array_json, to_json
from dragoman.inspection.views.pictures import Picture
from dragoman.inspection.what_if import inspect_changed
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import FeedForward
from dragoman.search.attention_weights import all_attention
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model
from tests.conftest import MODELS, VARIANTS, no_shape_checks

LINES = ["ein Mann fährt Rad", "two dogs play", "der Schnee ist kalt", "a man rides a bike"]
TRANSFORMERS = [name for name in MODELS if name.startswith("transformer")]
VARIED = [name for name in VARIANTS if VARIANTS[name].architecture == "transformer"]
SETTINGS = [
    SearchSettings(max_extra_tokens=3),
    SearchSettings(max_extra_tokens=3, beam_size=1),
    SearchSettings(max_extra_tokens=3, groups=2),
    SearchSettings(max_extra_tokens=3, prefix="ein", length_penalty=1.5),
]


inspected = cache(inspect)  # several tests look at one inspection


@cache
def small_tokenizer() -> Tokenizer:
    """Of both sides."""
    return Tokenizer.train(LINES * 5, "bpe", TokenizerSettings(), 330)


def translator_of(settings: ModelSettings) -> Translator:
    """A random model in float64."""
    torch.manual_seed(3)
    tokenizer = small_tokenizer()
    model = build_model(settings, len(tokenizer), len(tokenizer)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return Translator.from_model(model, Tokenizers(tokenizer, tokenizer))


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


@pytest.mark.short_form(1)
@pytest.mark.parametrize("settings", SETTINGS, ids=["beam", "greedy", "groups", "prefix"])
@no_shape_checks()
def test_the_translation_and_its_search_are_the_ordinary_ones(translator, settings):
    for line in LINES[1:3]:
        found = inspected(translator, line, settings)
        ((best,),) = translator.n_best([line], settings)
        assert (found.translation, found.target[:-1]) == (best.text, best.tokens)
        assert (found.log_probability, found.score) == pytest.approx((best.log_probability, best.score))
        trace = translator.trace(line, settings)
        assert [(node.parent, node.token, node.end) for node in found.nodes] == [
            (node.parent, node.token, node.end) for node in trace
        ]
        last = found.nodes[found.best_path[-1]]
        assert last.log_probability == pytest.approx(best.log_probability)
        assert [found.nodes[number].token for number in found.best_path[1:]] == [*found.target]


@pytest.mark.short_form(4)
@pytest.mark.parametrize("settings", SETTINGS, ids=["beam", "greedy", "groups", "prefix"])
def test_the_candidates_are_those_that_the_search_extended(translator, settings):
    found = inspected(translator, LINES[0], settings)
    for number, node in enumerate(found.nodes):
        if node.parent is None or (number not in found.candidates and node.end != "finished"):
            continue
        tokens = {each.token: each.log_probability for each in found.candidates[node.parent]}
        if node.token in tokens:
            gained = node.log_probability - found.nodes[node.parent].log_probability
            assert tokens[node.token] == pytest.approx(gained, abs=1e-5)
    parents = {node.parent for node in found.nodes} - {None}
    assert parents <= found.candidates.keys()


def test_the_weights_shown_are_those_that_were_multiplied_with_values(translator, monkeypatch):
    calls = []
    attend = MultiHeadAttention.attend

    def watched(self, query, memory, mask=None, causal=False):
        weights = []
        record = self.attention_weights_hook
        self.attention_weights_hook = lambda given: (weights.append(given), record(given))
        output = attend(self, query, memory, mask, causal)
        self.attention_weights_hook = record
        calls.append((self, weights[0], memory.values, output))
        return output

    monkeypatch.setattr(MultiHeadAttention, "attend", watched)
    found = inspect(translator, LINES[0], SETTINGS[0])
    for module, weights, values, output in calls:
        assert torch.equal(module.output((weights @ values).transpose(1, 2).flatten(2)), output)
    model = one_transformer(translator)
    for kind, modules in (
        ("encoder", [layer.self_attention for layer in model.encoder]),
        ("cross", [layer.cross_attention for layer in model.decoder]),
    ):
        for layer, module in enumerate(modules):
            own = [weights[0].float().numpy() for each, weights, _, _ in calls if each is module]
            shown = getattr(found.attention, kind)[layer]
            if kind == "encoder":
                assert np.array_equal(shown, own[0])
            else:
                for token in range(len(found.target)):
                    assert any(
                        np.array_equal(shown[:, token], own[token][:, w]) for w in range(own[token].shape[1])
                    )


def test_weights_are_those_of_forced_decoding(translator):
    found = inspected(translator, LINES[1], SETTINGS[0])
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    rows = (torch.tensor([side.ids(tokens)]) for side, tokens in sides)
    forced = all_attention(one_transformer(translator), *rows)
    for kind, weights in zip(("encoder", "decoder", "cross"), forced, strict=True):
        shown = getattr(found.attention, kind)
        np.testing.assert_allclose(shown, weights[:, 0].float().numpy(), atol=1e-6)


def test_the_alignment_is_that_of_the_ordinary_command(translator):
    found = inspected(translator, LINES[1], SETTINGS[0])
    tokenizer = translator.tokenizers.target
    if tuple(tokenizer.pieces(tokenizer.encode([found.translation])[0])) == found.target[:-1]:
        assert list(found.alignment) == translator.align([(LINES[1], found.translation)])[0]
    source, target = (side[-1] for side in (found.source_words, found.target_words))
    assert all(0 <= one < source and 0 <= other < target for one, other in found.alignment)


def test_each_query_attends_to_what_it_may_and_weights_sum_to_one(translator):
    found = inspected(translator, LINES[3], SETTINGS[0])
    attention = found.attention
    for weights in (attention.encoder, attention.decoder, attention.cross):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(attention.decoder, 1).any()


def test_the_lens_of_the_last_layer_is_what_the_search_saw(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    for row, (parent, _) in zip(found.lens[-1], pairwise(found.best_path), strict=True):
        assert row == found.candidates[parent]


def test_the_stream_has_a_row_for_each_layer_and_the_embedding(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    model, source, target = found.model, len(found.source), len(found.target)
    stream = found.stream
    assert stream.encoder.shape == (model.encoder_layers + 1, source)
    assert stream.decoder.shape == (model.decoder_layers + 1, target)
    assert stream.encoder_sublayers.shape == (model.encoder_layers, 2, source)
    assert stream.decoder_sublayers.shape == (model.decoder_layers, 3, target)
    assert (stream.encoder > 0).all()
    if model.norm == "pre":  # without dropout each layer's output is its input and what was added
        added = stream.encoder_sublayers.sum(1)
        assert (stream.encoder[1:] <= stream.encoder[:-1] + added + 1e-4).all()
    assert found.positions.shape == (max(source, target), model.d_model)


def test_the_parameters_are_counted_once(translator):
    found = inspect(translator, LINES[0], SETTINGS[0])
    model = one_transformer(translator)
    assert sum(module.parameters for module in found.modules) == sum(
        weight.numel() for weight in model.parameters()
    )


def test_each_part_names_the_code_that_computes_it(translator):
    found = inspect(translator, LINES[0], SETTINGS[0])
    model = one_transformer(translator)
    parts = {part.name: part for part in found.modules}
    for name, kind in (
        ("encoder.0.self_attention", MultiHeadAttention),
        ("decoder.0.feed_forward", FeedForward),
    ):
        assert parts[name].code == f"{kind.__module__}.{kind.__qualname__}"
        assert parts[name].definition in " ".join(code.getdoc(kind).split())
    assert "section 3.2.2" in parts["decoder.0.cross_attention"].definition
    assert "sections 3.4 and 3.5" in parts["target_embedding"].definition
    assert parts["output"].shape == (1, SETTINGS[0].beam_size, model.output.weight.size(0))
    assert parts["output"].code == "dragoman.model.transformer.Transformer.logits"


def test_nothing_is_left_in_the_model(translator):
    model = one_transformer(translator)
    inspect(translator, LINES[0], SETTINGS[0])
    assert all(
        not module._forward_hooks and getattr(module, "attention_weights_hook", None) is None
        for module in model.modules()
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["transformer", "lstm", "conv", "lstm, enriched"])
def test_what_another_thread_computes_meanwhile_is_not_recorded(kind):
    translator = translator_of((MODELS | VARIANTS)[kind])
    here = get_ident()

    def inspected():
        return to_json(replace(inspect(translator, LINES[1], SETTINGS[1]), origin=None))  # without its date

    alone = inspected()
    with ThreadPoolExecutor(1) as other:

        def translate_elsewhere(*_):
            if get_ident() == here:
                other.submit(translator.translate, LINES[:1], max_extra_tokens=2, beam_size=1).result()

        for side in ("source", "target"):
            embedding = translator.torch_backend.model.get_submodule(f"{side}_embedding")
            embedding.register_forward_hook(translate_elsewhere)
        assert inspected() == alone


def test_arrays_come_back_from_json(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    table = to_json(found)
    shown = array_from_json(table["attention"]["cross"])
    np.testing.assert_allclose(shown, found.attention.cross, atol=1e-3)
    mean = array_from_json(table["attention"]["decoder"]["mean"])
    np.testing.assert_allclose(mean, found.attention.decoder.mean(1), atol=1e-3)
    assert array_from_json(array_json(shown)).tobytes() == shown.tobytes()
    assert table["beam"]["nodes"][0]["parent"] is None


def test_what_cannot_be_inspected_gets_a_sentence(translator):
    with pytest.raises(DragomanError, match="The sentence is blank"):
        inspect(translator, "  ")
    with pytest.raises(DragomanError, match="ConvS2S or enriched model. has no self-attention"):
        one_transformer(translator_of(MODELS["lstm"]))


def test_an_inspection_draws_itself(translator):
    found = inspected(translator, LINES[0], SETTINGS[0])
    for view in get_args(Picture):
        assert found.svg(view).startswith("<svg")
    assert found.svg("cross", layer=1, lines=True) != found.svg("cross", layer=1)
    with pytest.raises(DragomanError, match="There is no layer 9"):
        found.svg("cross", layer=9)
    frame = HTMLParser()
    pages = []
    frame.handle_starttag = lambda tag, attributes: pages.append(dict(attributes)["srcdoc"])
    frame.feed(found._repr_html_())
    assert pages == [found.to_html()]


def test_a_vocabulary_may_be_smaller_than_the_number_of_candidates(translator):
    model = build_model(MODELS["transformer"], 7, 7).double().eval()
    tokenizer = Tokenizer.train(["a b"] * 9, "char", TokenizerSettings(), 7)
    small = Translator.from_model(model, Tokenizers(tokenizer, tokenizer))
    found = inspect(small, "a b", SETTINGS[0])
    assert all(len(row) <= 7 for row in found.candidates.values())


def test_an_ensemble_is_refused(tmp_path):
    one = translator_of(MODELS["transformer"])
    for name in "ab":
        save_model(tmp_path / name, one_transformer(one), MODELS["transformer"], one.tokenizers)
    both = Translator.load(tmp_path / "a", tmp_path / "b")
    with pytest.raises(DragomanError, match="An inspection needs one model, not an ensemble; give one run"):
        inspect(both, LINES[0])


@pytest.mark.short_form(1)
@pytest.mark.parametrize("name", VARIED)
def test_a_variant_is_shown_as_it_computed(name):
    translator = translator_of(VARIANTS[name])
    model, settings = one_transformer(translator), SETTINGS[0]
    found = inspected(translator, LINES[0], settings)
    ((best,),) = translator.n_best([LINES[0]], settings)
    assert (found.translation, found.target[:-1]) == (best.text, best.tokens)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    forced = all_attention(model, *(torch.tensor([side.ids(tokens)]) for side, tokens in sides))
    for kind, weights in zip(("encoder", "decoder", "cross"), forced, strict=True):
        np.testing.assert_allclose(getattr(found.attention, kind), weights[:, 0].float(), atol=1e-6)
    assert (found.projections is None) == (not has_equation_1(model))
    assert all(found.svg(view).startswith("<svg") for view in get_args(Picture) if view != "numbers")
    assert "</html>" in found.to_html()


@pytest.mark.parametrize("name", VARIED)
def test_uniform_attention_of_a_variant_is_uniform_where_it_may_attend(name):
    translator = translator_of(VARIANTS[name])
    changed = inspect_changed(
        translator, LINES[0], parse_changes(["encoder.1=uniform", "cross.2=uniform"]), SETTINGS[0]
    )
    for weights in (changed.attention.encoder[0], changed.attention.cross[1]):
        allowed = weights > 0
        np.testing.assert_allclose(weights, allowed / allowed.sum(-1, keepdims=True), atol=1e-6)


@pytest.mark.short_form(2)
@pytest.mark.parametrize(
    "name", sorted({*TRANSFORMERS, *(name for name in VARIED if VARIANTS[name].variants)})
)
def test_the_masks_are_where_weights_are_zero(name):
    """Of the call itself, and of the same sentence in a batch that pads it."""
    translator = translator_of((MODELS | VARIANTS)[name])
    found = inspect(translator, LINES[0], SETTINGS[0])
    source, target = len(found.source), len(found.target)
    for kind, (queries, keys) in {
        "encoder": (source, source),
        "decoder": (target, target),
        "cross": (target, source),
    }.items():
        mask = array_from_bits(to_json(found)["masks"][kind])
        assert np.array_equal(mask, getattr(found.masks, kind))
        assert ((found.attention.of(kind) > 0) == mask[:queries, :keys]).all()
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    padded = (torch.nn.functional.pad(torch.tensor([side.ids(each)]), (0, PADDING)) for side, each in sides)
    encoder, decoder, cross = all_attention(one_transformer(translator), *padded)
    assert ((encoder[:, 0] > 0).numpy() == found.masks.encoder).all()
    assert ((decoder[:, 0] > 0).numpy() == found.masks.decoder).all()
    assert ((cross[:, 0] > 0).numpy() == found.masks.cross).all()


def array_from_bits(table):
    """The mask that `bits_json` has written."""
    rows, columns = table["shape"]
    bits = np.frombuffer(base64.b64decode(table["bits"]), np.uint8)
    return np.unpackbits(bits, count=rows * columns).reshape(rows, columns).astype(bool)

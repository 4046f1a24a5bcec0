"""The tree of every search is the search: sampling, forced words and beams; for every architecture."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.recording import record
from dragoman.inspection.schema import to_json
from dragoman.inspection.views.tree import search_name
from dragoman.model.symbols import END, START
from dragoman.search.attention_weights import cross_attention
from dragoman.search.beam import next_log_probs
from dragoman.search.grid_beam import grid_steps, has, tokens_met
from dragoman.search.search_tree import grid_tree
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from dragoman.translation.token_ids import constraint_ids
from tests.conftest import MODELS, no_shape_checks
from tests.test_inspection import LINES, TRANSFORMERS, inspected, translator_of
from tests.test_report import fake_inspection

DEFAULTS = vars(SearchSettings())
SHOWN = [name for name in MODELS if MODELS[name].architecture != "conv"]


def short(settings):
    """The options of a search that are not the defaults."""
    return " ".join(f"{name}={value}" for name, value in vars(settings).items() if value != DEFAULTS[name])


RECURRENT = ["lstm", "gru"]
SAMPLING = [
    SearchSettings(max_extra_tokens=3, temperature=1.0, n_best=3),
    SearchSettings(max_extra_tokens=2, temperature=0.7, top_k=4, n_best=2, sampling_seed=5),
    SearchSettings(max_extra_tokens=2, temperature=1.3, top_p=0.6, prefix="ein"),
    SearchSettings(max_extra_tokens=3, temperature=1.0, n_best=4, mbr=True),
]
FORCED = [
    SearchSettings(max_extra_tokens=3, beam_size=2, force_words=("Schnee",), n_best=2),
    SearchSettings(max_extra_tokens=3, beam_size=2, force_words=("dogs", "a"), length_penalty=1.2),
    SearchSettings(max_extra_tokens=3, beam_size=1, force_words=("Rad",), ban_words=("ein",)),
]
BEAMS = [
    SearchSettings(max_extra_tokens=3),
    SearchSettings(max_extra_tokens=3, beam_size=1),
    SearchSettings(max_extra_tokens=3, groups=2, n_best=3),
]


@pytest.fixture(scope="module", params=SHOWN)
def translator(request):
    return translator_of(MODELS[request.param])


@pytest.fixture(scope="module", params=RECURRENT)
def recurrent(request):
    return translator_of(MODELS[request.param])


def path(nodes, number):
    """The numbers from the empty hypothesis to this one."""
    numbers = [number]
    while nodes[numbers[-1]].parent is not None:
        numbers.append(nodes[numbers[-1]].parent)
    return numbers[::-1]


def tokens(nodes, number):
    return [nodes[each].token for each in path(nodes, number)[1:]]


def forced_log_probs(translator, source, target):
    """The log-probabilities [T V] before each target token, by forced decoding."""
    model, sides = translator.torch_backend.model, translator.tokenizers
    rows = torch.tensor([sides.source.ids(source)]), torch.tensor([sides.target.ids(target)])
    with torch.no_grad():
        batch = Batch.of(*rows, [])
        features, _ = model.decode(batch.target_in, model.encode(batch.source))
        return next_log_probs(model, features[0])


@pytest.mark.short_form(4)
@pytest.mark.parametrize("settings", [*SAMPLING, *FORCED, *BEAMS], ids=short)
@no_shape_checks()
def test_the_translation_is_the_ordinary_one(translator, settings):
    for line in LINES[1:2]:
        found, ordinary = inspected(translator, line, settings), translator.n_best([line], settings)[0]
        assert (found.translation, found.target[:-1]) == (ordinary[0].text, ordinary[0].tokens)
        best = ordinary[0].log_probability, ordinary[0].score
        assert (found.log_probability, found.score) == pytest.approx(best)
        assert tokens(found.nodes, found.best_path[-1]) == [*found.target]
        assert list(found.best_path) == path(found.nodes, found.best_path[-1])
        finished = {
            tuple(tokens(found.nodes, number)[:-1]): node
            for number, node in enumerate(found.nodes)
            if node.end == "finished"
        }
        for each in ordinary:
            assert finished[each.tokens].log_probability == pytest.approx(each.log_probability)
            assert finished[each.tokens].score == pytest.approx(each.score)


@pytest.mark.short_form(6)
@pytest.mark.parametrize("settings", [*SAMPLING, *FORCED, *BEAMS], ids=short)
@no_shape_checks()
def test_candidates_are_the_models_own_probabilities(translator, settings):
    found = inspected(translator, LINES[0], settings)
    for number, likeliest in list(found.candidates.items())[::7]:  # each is a forced decoding
        expected = forced_log_probs(translator, found.source, [*tokens(found.nodes, number), "</s>"])[-1]
        best = expected.topk(len(likeliest)).values.tolist()
        assert [each.log_probability for each in likeliest] == pytest.approx(best, abs=1e-5)
    assert {node.parent for node in found.nodes} - {None} <= found.candidates.keys()


@pytest.mark.parametrize("settings", SAMPLING, ids=short)
def test_each_sample_is_a_path_of_tokens_that_could_be_drawn(translator, settings):
    found = inspected(translator, LINES[1], settings)
    ends = [number for number, node in enumerate(found.nodes) if node.end == "finished"]
    assert len(ends) == settings.n_best
    children = [node.parent for node in found.nodes]
    assert children.count(0) == settings.n_best
    assert all(children.count(number) == (node.end is None) for number, node in enumerate(found.nodes[1:], 1))
    assert found.drawn.keys() == {node.parent for node in found.nodes} - {None}
    source_tokens = len(found.source)
    for end in ends:
        rows = forced_log_probs(translator, found.source, tokens(found.nodes, end))
        for step, (parent, number) in enumerate(pairwise(path(found.nodes, end))):
            shown = {each.token: math.exp(each.log_probability) for each in found.drawn[parent]}
            assert found.nodes[number].token in shown
            assert list(shown.values()) == sorted(shown.values(), reverse=True)
            last = step == source_tokens - 1 + settings.max_extra_tokens
            if last:
                assert shown == {"</s>": 1.0}
            elif settings.prefix and step == 0:
                assert sum(shown.values()) == pytest.approx(1, abs=1e-5)
                assert len(shown) == 1
            elif settings.top_p == 1:
                allowed = rows[step].clone()
                if step < settings.least_tokens:
                    allowed[END] = -torch.inf
                p = (allowed / settings.temperature).softmax(-1)
                if settings.top_k:
                    kept = p.topk(settings.top_k)
                    p = torch.zeros_like(p).scatter(0, kept.indices, kept.values) / kept.values.sum()
                    assert sum(shown.values()) == pytest.approx(1, abs=1e-5)
                for token, probability in shown.items():
                    (id_,) = translator.tokenizers.target.ids([token])
                    assert probability == pytest.approx(float(p[id_]), abs=1e-5)
            else:
                assert sum(shown.values()) == pytest.approx(1, abs=1e-5) or len(shown) >= 10


def test_another_seed_draws_other_samples(translator):
    one, other = (
        inspect(translator, LINES[0], temperature=1.5, n_best=3, sampling_seed=seed, max_extra_tokens=4)
        for seed in (1, 2)
    )
    assert one.nodes != other.nodes


@pytest.mark.parametrize("settings", FORCED, ids=short)
def test_a_grid_has_a_beam_for_each_number_of_forced_tokens(translator, settings):
    found, tokenizer = inspected(translator, LINES[1], settings), translator.tokenizers.target
    constraints = constraint_ids(settings, tokenizer)
    phrases = constraints.forced
    assert len(found.met) == len(found.nodes)
    counts: dict[tuple[int, int], int] = {}
    for number, (node, met) in enumerate(zip(found.nodes, found.met, strict=True)):
        ids = tokenizer.ids(tokens(found.nodes, number))
        assert met.tokens == tokens_met(ids, constraints)
        contained = [has(ids, phrase, constraints.continuing) for phrase in phrases]
        assert met.words == tuple(
            word for word, there in zip(settings.force_words, contained, strict=True) if there
        )
        if node.end is None and node.parent is not None:
            place = len(ids), met.tokens
            counts[place] = counts.get(place, 0) + 1
        if node.end == "finished":
            assert met.words == settings.force_words
    assert max(counts.values()) <= settings.beam_size
    assert len({met.tokens for met in found.met}) == 1 + constraints.forced_tokens


def test_words_that_cannot_all_be_met_end_where_most_are(translator):
    settings = SearchSettings(max_length=6, beam_size=2, force_words=("dogs",), no_repeat_ngram=1, prefix="d")
    found, (best,) = inspected(translator, LINES[1], settings), translator.n_best([LINES[1]], settings)[0]
    assert (found.translation, found.log_probability) == (best.text, best.log_probability)
    assert found.nodes[found.best_path[-1]].end == "finished"
    assert all(found.nodes[number].end is None for number in found.best_path[:-1])


@pytest.mark.parametrize("settings", [*FORCED, *BEAMS], ids=short)
@no_shape_checks()
def test_what_was_cut_names_a_likelier_hypothesis_that_took_its_place(translator, settings):
    kinds = set()
    for line in LINES[:2]:
        nodes = inspected(translator, line, settings).nodes
        steps = [len(path(nodes, number)) for number in range(len(nodes))]
        for number, node in enumerate(nodes):
            if node.cut_by is None:
                last = steps[number] == max(steps) - bool(settings.force_words)
                without_rival = (None, "finished", "below a translation", "the search was over")
                assert node.end in without_rival or last
                continue
            kinds.add(node.end)
            by = nodes[node.cut_by]
            assert by.end not in ("below the beam", "found by another group") or by.token == "</s>"
            if node.end == "found by another group":
                assert by.end == "finished"
                assert tokens(nodes, number) == tokens(nodes, node.cut_by)
            else:
                later = node.end == "no extension in the beam"
                assert steps[node.cut_by] == steps[number] + later
                diverse = settings.groups > 1  # the ranking counts tokens of other groups, too
                assert by.log_probability >= node.log_probability or later or diverse
    assert {"below the beam", "no extension in the beam"} <= kinds or settings.beam_size == 1


@pytest.mark.parametrize("settings", [*FORCED, *BEAMS[:2]], ids=short)
@no_shape_checks()
def test_what_cut_is_the_last_that_the_beam_kept(translator, settings):
    found = inspected(translator, LINES[0], settings)
    beams = [each.tokens for each in found.met] or [0] * len(found.nodes)
    places = [(len(path(found.nodes, number)), beam) for number, beam in enumerate(beams)]
    for number, node in enumerate(found.nodes):
        if node.end == "below the beam" and node.token != "</s>":
            kept = [
                other
                for other, one in enumerate(found.nodes)
                if places[other] == places[number] and one.end != "below the beam" and one.token != "</s>"
            ]
            assert node.cut_by == min(kept, key=lambda each: found.nodes[each].log_probability)


@pytest.mark.short_form(2)
@pytest.mark.parametrize("settings", FORCED, ids=short)
@no_shape_checks()
def test_what_has_no_extension_was_cut_in_the_beam_of_its_likeliest_one(translator, settings):
    sides = translator.tokenizers
    constraints = constraint_ids(settings, sides.target)
    for line in LINES:
        source = torch.tensor(sides.source.encode([line]))
        with torch.no_grad():
            steps = list(grid_steps(translator.torch_backend.model, source, settings, constraints))
        tree = grid_tree(steps, settings, constraints, str)
        for live, step in zip(tree.live, steps, strict=True):
            for row, node in enumerate(tree.nodes[number] for number in live):
                extensions = [
                    (extension.log_prob, count)
                    for count, beam in step.beams.items()
                    for extension in beam
                    if extension.row == row
                ]
                if node.end == "no extension in the beam" and extensions:
                    assert tree.met[node.cut_by].tokens == max(extensions)[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": 5}, "An inspection needs a single search, which split excludes; leave it out"),
        ({"keep_tags": True}, "An inspection needs a single search, which keep_tags excludes"),
        ({"coverage_penalty": 0.1}, "An inspection needs a single search, which coverage_penalty excludes"),
    ],
)
def test_more_than_one_search_is_refused(translator, options, message):
    with pytest.raises(DragomanError, match=message):
        inspect(translator, LINES[0], **options)


# ---- the residual stream


@pytest.mark.parametrize("settings", [SAMPLING[0], FORCED[0], BEAMS[0]], ids=short)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_norms_are_those_of_forced_decoding(name, settings):
    translator = translator_of(MODELS[name])
    found, model = inspected(translator, LINES[1], settings), one_transformer(translator)
    sides = (translator.tokenizers.source, found.source), (translator.tokenizers.target, found.target)
    batch = Batch.of(*(torch.tensor([side.ids(tokens)]) for side, tokens in sides), [])
    with record(model) as recording, torch.no_grad():
        model.decode(batch.target_in, model.encode(batch.source))
    outputs, stream = recording.outputs, found.stream
    for side, place, parts in (
        ("encoder", 0, ["self_attention", "feed_forward"]),
        ("decoder", 1, ["self_attention", "cross_attention", "feed_forward"]),
    ):
        layers = range(len(getattr(model, side)))
        states = [outputs["embedding"][place], *(outputs[f"{side}.{layer}"][0] for layer in layers)]
        added = [[outputs[f"{side}.{layer}.{part}"][0] for part in parts] for layer in layers]
        for shown, expected in (
            (getattr(stream, side), [each[0].norm(dim=-1) for each in states]),
            (
                getattr(stream, f"{side}_sublayers"),
                [torch.stack([each[0].norm(dim=-1) for each in row]) for row in added],
            ),
        ):
            np.testing.assert_allclose(shown, torch.stack(expected).float().numpy(), atol=1e-4)


# ---- recurrent models


@pytest.mark.parametrize("settings", [SAMPLING[0], FORCED[0], BEAMS[0]], ids=short)
def test_recurrent_attention_is_that_of_forced_decoding(recurrent, settings):
    found = inspected(recurrent, LINES[1], settings)
    sides = (recurrent.tokenizers.source, found.source), (recurrent.tokenizers.target, found.target)
    rows = (torch.tensor([side.ids(tokens)]) for side, tokens in sides)
    forced = cross_attention(recurrent.torch_backend.model, *rows)
    np.testing.assert_allclose(found.attention.cross, forced[:, 0].float().numpy(), atol=1e-6)
    np.testing.assert_allclose(found.attention.cross.sum(-1), 1, atol=1e-5)


def test_recurrent_norms_are_those_of_the_states(recurrent):
    found, model = inspected(recurrent, LINES[0], BEAMS[0]), recurrent.torch_backend.model
    sides = recurrent.tokenizers
    source = torch.tensor([sides.source.ids(found.source)])
    target = torch.tensor([[START, *sides.target.ids(found.target)[:-1]]])
    with torch.no_grad():
        state = model.encode(source)
        expected = [model.source_embedding(source)[0], state.memory[0]]
        encoder = torch.stack([each.norm(dim=-1) for each in expected])
        hidden = []
        for token in target[0]:
            _, state = model.decode(token.view(1, 1), state)
            hidden.append(state.past[0][0].norm(dim=-1))
        decoder = torch.cat([model.target_embedding(target)[0].norm(dim=-1)[None], torch.stack(hidden, 1)])
    np.testing.assert_allclose(found.stream.encoder, encoder.float().numpy(), atol=1e-5)
    np.testing.assert_allclose(found.stream.decoder, decoder.float().numpy(), atol=1e-5)


def test_what_a_recurrent_model_lacks_is_empty(recurrent):
    found = inspected(recurrent, LINES[0], BEAMS[0])
    source, target = len(found.source), len(found.target)
    assert found.attention.encoder.shape == (0, 1, source, source)
    assert found.attention.decoder.shape == (0, 1, target, target)
    assert found.stream.encoder_sublayers.shape == (0, 2, source)
    assert found.stream.decoder_sublayers.shape == (0, 3, target)
    assert (found.lens, found.positions.shape[0]) == ((), 0)
    assert to_json(found)["lens"] == []


def test_recurrent_parameters_are_counted_once(recurrent):
    found, model = inspected(recurrent, LINES[0], BEAMS[0]), recurrent.torch_backend.model
    counts = {each.name: each.parameters for each in found.modules}
    assert sum(counts.values()) == sum(weight.numel() for weight in model.parameters())
    for name in ("encoder", "decoder.0", "attention", "start", "features"):
        own = model.get_submodule(name).parameters()
        assert counts[name] == sum(weight.numel() for weight in own)
    shapes = {each.name: each.shape for each in found.modules}
    assert shapes["encoder"] == (1, len(found.source), 2 * found.model.d_model)


def test_nothing_is_left_in_a_recurrent_model(recurrent):
    inspect(recurrent, LINES[0], BEAMS[0])
    for module in recurrent.torch_backend.model.modules():
        assert not module._forward_hooks
        assert getattr(module, "attention_weights_hook", None) is None


def test_a_model_that_is_neither_gets_a_sentence(recurrent):
    class Other(torch.nn.Module):
        members = (1,)

    other = Translator(recurrent.tokenizers, lambda: type("Backend", (), {"model": Other()}))
    with pytest.raises(DragomanError, match="this model is none of them"):
        inspect(other, LINES[0])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beam_size": 3}, "Beam search: beam 3"),
        ({"groups": 2}, "Beam search: beam 4 in 2 groups"),
        ({"temperature": 0.5, "n_best": 3}, "Sampling: 3 samples at temperature 0.5"),
        ({"temperature": 1.0, "top_k": 5}, "Sampling: 1 samples at temperature 1.0, top 5"),
        ({"temperature": 1.0, "top_p": 0.9}, "Sampling: 1 samples at temperature 1.0, top p 0.9"),
    ],
)
def test_a_search_is_named_with_the_settings_that_differ_from_their_defaults(options, name):
    found = fake_inspection()
    assert search_name(replace(found, search=SearchSettings(**options))) == name

"""Laws that every model keeps, whatever its architecture: what training and search rely on."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.model.settings import Architecture, ModelSettings
from dragoman.model.symbols import PAD
from dragoman.model.variants import BatchNorm
from tests.conftest import MODELS, SSRU, VARIANTS, VOCABULARY, no_shape_checks, random_model

KINDS = MODELS | VARIANTS | {"ssru": SSRU}


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Model:
    """As the fixture of other tests, of variants too."""
    return random_model(KINDS[request.param])


def features(model: Model, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return model.decode(target, model.encode(source))[0]


def test_step_by_step_equals_at_once(model, sources, targets):
    at_once = features(model, sources, targets)
    state = model.encode(sources).allocate(1, targets.size(1))
    for step in range(targets.size(1)):
        one, state = model.decode(targets[:, step : step + 1], state)
        torch.testing.assert_close(one[:, 0], at_once[:, step])


@pytest.mark.short_form(2)
@settings(max_examples=2)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=3))
@example([2, 4])
@example([1, 16, 20])
def test_tokens_in_parts_of_any_size_equal_at_once(model, sources, parts):
    generator = torch.Generator().manual_seed(5)
    targets = torch.randint(4, VOCABULARY, (len(sources), sum(parts)), generator=generator)
    state, decoded = model.encode(sources).allocate(1, sum(parts)), []
    for part in targets.split(parts, 1):
        one, state = model.decode(part, state)
        decoded.append(one)
    torch.testing.assert_close(torch.cat(decoded, 1), features(model, sources, targets))


@pytest.mark.short_form(1)
def test_a_cache_keeps_what_it_holds_when_it_grows(model, sources):
    beams, tokens = 2, 40
    targets = torch.randint(
        4, VOCABULARY, (len(sources) * beams, tokens), generator=torch.Generator().manual_seed(5)
    )
    at_once = features(model, sources.repeat_interleave(beams, 0), targets)
    state = model.encode(sources).allocate(beams, tokens)
    for step in range(tokens):
        if step == 30:
            sentences = torch.tensor([2, 0])
            rows = (sentences[:, None] * beams + torch.arange(beams)).flatten()
            state, targets, at_once = state.select(sentences), targets[rows], at_once[rows]
        one, state = model.decode(targets[:, step : step + 1], state)
        torch.testing.assert_close(one[:, 0], at_once[:, step])


def test_the_future_changes_nothing(model, sources, targets):
    before = features(model, sources, targets)
    changed = targets.clone()
    changed[:, 3] = torch.where(changed[:, 3] == 4, 5, 4)
    after = features(model, sources, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])


def test_padding_changes_nothing(model, sources, targets):
    more = torch.cat([sources, torch.full((len(sources), 4), PAD)], 1)
    torch.testing.assert_close(features(model, more, targets), features(model, sources, targets))


def test_neighbours_change_nothing(model, sources, targets):
    in_a_batch = features(model, sources, targets)
    for row in range(len(sources)):
        alone = sources[row : row + 1, : int((sources[row] != PAD).sum())]
        torch.testing.assert_close(features(model, alone, targets[row : row + 1])[0], in_a_batch[row])


def test_hypotheses_of_a_sentence_are_independent_and_can_be_reordered(model, sources, targets):
    beams, order = 2, torch.tensor([1, 0, 3, 3, 4, 4])
    both = torch.stack([targets, targets.flip(1)], 1).flatten(0, 1)
    state = model.encode(sources).allocate(beams, targets.size(1))
    _, state = model.decode(both[:, :3], state)
    state = state.reorder(order)
    continued, _ = model.decode(both[:, 3:4], state)
    prefixes = torch.cat([both[order, :3], both[:, 3:4]], 1)
    expected = features(model, sources.repeat_interleave(beams, 0), prefixes)[:, 3:]
    torch.testing.assert_close(continued, expected)


def test_selected_sentences_continue_unchanged(model, sources, targets):
    selected = torch.tensor([2, 0])
    both = targets.repeat_interleave(2, 0)
    state = model.encode(sources).allocate(2, targets.size(1))
    _, state = model.decode(both[:, :2], state)
    rows = (selected[:, None] * 2 + torch.arange(2)).flatten()
    continued, _ = model.decode(both[rows, 2:3], state.select(selected))
    torch.testing.assert_close(
        continued, features(model, sources, targets)[:, 2:3][selected].repeat_interleave(2, 0)
    )


def test_gradients_do_not_reach_the_future(model, sources, targets):
    embedded = []
    hook = model.target_embedding.register_forward_hook(
        lambda module, inputs, output: embedded.append(output)
    )
    state = model.encode(sources)
    embedded.clear()  # tied embeddings were used for the source
    decoded, _ = model.decode(targets, state)
    hook.remove()
    (gradient,) = torch.autograd.grad((decoded[:, 2] * torch.arange(decoded.size(2))).sum(), embedded[0])
    assert gradient[:, 3:].eq(0).all()
    assert gradient[:, :3].ne(0).any()


@pytest.mark.short_form(10)
@pytest.mark.parametrize("architecture", get_args(Architecture))
@pytest.mark.parametrize("tied", ["target", "none"])
def test_the_same_seed_gives_the_same_weights_wherever_they_lie_in_memory(architecture, tied):
    made = []
    for _ in range(4):  # all are kept, so that each lies elsewhere
        torch.manual_seed(1)
        made.append(
            build_model(
                ModelSettings(architecture=architecture, tied=tied, d_model=8, heads=2, d_ff=8), 12, 13
            ).state_dict()
        )
    assert all(torch.equal(one[name], made[0][name]) for one in made for name in one)


def dropping(model: Model) -> dict[nn.Module, str]:
    """The modules that drop something in training, each with the name of its rate."""
    found: dict[nn.Module, str] = {}
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            found[module] = "p"
        elif isinstance(module, MultiHeadAttention) or (
            isinstance(module, nn.RNNBase) and module.num_layers > 1
        ):
            found[module] = "dropout"
    return found


def set_rates(modules: dict[nn.Module, str], rate: float) -> None:
    for module, name in modules.items():
        setattr(module, name, rate)


@pytest.fixture(params=KINDS)
def dropped(request: pytest.FixtureRequest) -> Model:
    """Each model, in training, with a rate of dropout for every part that can have one."""
    settings = replace(KINDS[request.param], dropout=0.5)
    if any(isinstance(module, MultiHeadAttention) for module in random_model(settings).modules()):
        settings = replace(settings, attention_dropout=0.25)
    return random_model(settings).train()


@pytest.mark.short_form(7)
@no_shape_checks()
def test_every_dropout_has_the_rate_of_the_settings_and_acts_alone(dropped, sources, targets):
    modules = dropping(dropped)
    for module, name in modules.items():
        of_attention = isinstance(module, MultiHeadAttention)
        assert getattr(module, name) == (0.25 if of_attention else 0.5)

    def logits() -> torch.Tensor:
        return dropped.logits(features(dropped, sources, targets))

    dropped.eval()
    assert torch.equal(logits(), logits())
    dropped.train()
    set_rates(modules, 0.0)
    whole = logits()
    assert torch.equal(logits(), whole)
    for module, name in modules.items():
        set_rates({module: name}, 0.5)
        assert not torch.equal(logits(), whole), module
        set_rates({module: name}, 0.0)


@no_shape_checks()
def test_the_embeddings_of_both_sides_are_dropped(dropped, sources, targets):
    set_rates(dropping(dropped), 0.0)
    dropped.dropout.p = 0.5
    encoded = [dropped.encode(sources) for _ in range(2)]
    dropped.eval()
    one, other = (dropped.decode(targets, state)[0] for state in encoded)
    assert not torch.equal(one, other)
    state = dropped.encode(sources)
    dropped.train()
    one, other = (dropped.decode(targets, state)[0] for _ in range(2))
    assert not torch.equal(one, other)


def test_every_normalisation_has_the_epsilon_of_the_settings(model):
    if model.settings.architecture in ("lstm", "gru", "conv"):  # they have none
        return
    other = random_model(replace(model.settings, norm_epsilon=0.25))
    epsilons = [
        module.epsilon if isinstance(module, BatchNorm) else module.eps
        for module in other.modules()
        if isinstance(module, BatchNorm | nn.LayerNorm)
    ]
    assert set(epsilons) <= {0.25}
    assert epsilons or model.settings.norm == "none"


@pytest.mark.parametrize("architecture", get_args(Architecture))
def test_embeddings_positions_and_scores_begin_as_large_as_they_are_documented(architecture):
    settings = ModelSettings(
        architecture, d_model=64, d_ff=8, heads=4, encoder_layers=1, decoder_layers=1, tied="none"
    )
    if architecture not in ("lstm", "gru"):
        settings = replace(settings, positions="learned", max_positions=300)
    if architecture != "conv":
        settings = replace(settings, attention_score="general")
    model = build_model(settings, 500, 400)
    of_words = 0.1 if architecture == "conv" else 64**-0.5
    names = ("source_embedding.weight", "target_embedding.weight", "output.weight")
    expected = dict.fromkeys((*names, "source_positions.table", "target_positions.table"), of_words)
    for name, weight in model.named_parameters():
        if deviation := 16**-0.5 if name.endswith("attention.score") else expected.get(name):
            assert weight.std().item() == pytest.approx(deviation, rel=0.1), name
            assert weight.mean().item() == pytest.approx(0, abs=deviation / 5), name

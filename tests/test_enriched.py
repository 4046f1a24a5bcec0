"""Recurrent and convolutional models with the Transformer's parts: what they are, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Transformer
from dragoman.search.attention_weights import all_attention, decode_with_attention
from dragoman.search.beam import beam_search
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch
from tests.conftest import TINY, VOCABULARY, random_model, small_recipe
from tests.test_safety import assert_stopping_changes_nothing

KINDS = [
    "lstm-enriched",
    pytest.param("gru-enriched", marks=pytest.mark.long),
    "conv-enriched",
]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_but_the_token_mixer_is_a_transformers(kind):
    """The same names and shapes of weights, and a layer that mixes no tokens computes the same."""
    enriched, paper = (random_model(replace(TINY, architecture=one)) for one in (kind, "transformer"))
    names = {name for name in enriched.state_dict() if "token_mixer" not in name}
    assert names == {name for name in paper.state_dict() if "self_attention" not in name}
    assert isinstance(paper, Transformer)
    paper.load_state_dict({name: enriched.state_dict()[name] for name in names}, strict=False)
    for layer in (*enriched.encoder, *enriched.decoder):
        layer.token_mixer.around = lambda x, mask: 0 * x
        layer.token_mixer.extend = lambda x, past: (0 * x, past)
    for layer in (*paper.encoder, *paper.decoder):
        layer.self_attention.output.weight.data.zero_()
    source, target = torch.tensor([[5, 6, END], [7, END, PAD]]), torch.tensor([[1, 5], [1, 6]])
    found = [model.logits(model.decode(target, model.encode(source))[0]) for model in (enriched, paper)]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_decoder_layer_attends_with_heads_step_by_step_as_at_once(sources, targets, kind):
    model = random_model(replace(TINY, architecture=kind))
    targets[:, -1] = END
    encoder, decoder, cross = all_attention(model, sources, targets)
    assert encoder.shape == (0, 3, 2, 7, 7)
    assert decoder.shape == (0, 3, 2, 6, 6)
    assert cross.shape == (2, 3, 2, 6, 7)
    torch.testing.assert_close(cross.sum(-1), torch.ones(2, 3, 2, 6).double())
    assert not cross[sources.eq(PAD)[None, :, None, None].expand(2, -1, 2, 6, -1)].any()
    target_in, state = Batch.of(sources, targets, []).target_in, model.encode(sources).allocate(1, 6)
    for place in range(6):
        _, state, seen = decode_with_attention(model, target_in[:, place : place + 1], state)
        torch.testing.assert_close(seen[:, 0], cross[:, :, :, place].mean((0, 2)))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_scores_its_hypotheses_as_they_are_scored_at_once(sources, kind):
    model = random_model(replace(TINY, architecture=kind))
    for source, found in zip(
        sources, beam_search(model, sources, SearchSettings(beam_size=3, n_best=3)), strict=True
    ):
        for one in found:
            target = torch.tensor([[*one.ids, END]])
            scored = token_log_probabilities(model, source[None, : int((source != PAD).sum())], target)
            assert float(scored.sum()) == pytest.approx(one.log_probability, rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_ends_with_the_weights_of_one_that_was_not(tmp_path, kind):
    recipe = small_recipe(tmp_path, tmp_path / "straight", updates=8)
    assert_stopping_changes_nothing(
        replace(recipe, model=replace(recipe.model, architecture=kind, dropout=0.2)), 4
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"architecture": "lstm-enriched", "d_model": 9, "heads": 3},
            "d_model 9 is odd, and an encoder",
        ),
        (
            {"architecture": "gru-enriched", "d_model": 9, "heads": 3},
            "d_model 9 is odd, and an encoder of gru-enriched",
        ),
        ({"architecture": "conv-enriched", "heads": 3}, "d_model 8 does not divide into 3 heads"),
        (
            {"architecture": "gru-enriched", "kernel_width": 5},
            "kernel_width is for .*, and not gru-enriched;",
        ),
        (
            {"architecture": "conv-enriched", "neighbourhood": 4},
            "neighbourhood is for architecture transformer, and not conv-",
        ),
        (
            {"architecture": "lstm-enriched", "input_feeding": True},
            "input_feeding is for .*, and not lstm-enr",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(DragomanError, match=message):
        build_model(ModelSettings(**{"d_model": 8, "heads": 2, **settings}), 11, 11)


@pytest.mark.parametrize("preset", ["rnn-enriched", "conv-enriched", "restricted"])
def test_presets_of_other_sublayers_have_the_sizes_of_small(preset):
    small, other = PRESETS["small"], PRESETS[preset]
    same = replace(
        other, architecture="transformer", positions=small.positions, neighbourhood=None, norm="pre"
    )
    assert same == small
    build_model(other, VOCABULARY, VOCABULARY)


def test_the_restricted_preset_attends_as_far_as_its_page_says():
    text = (Path(__file__).parents[1] / "docs" / "reproduce.md").read_text("utf-8")
    (side,) = re.findall(r"`restricted` \| `small` with self-attention to (\d+) positions on each side", text)
    model = build_model(PRESETS["restricted"], 11, 11)
    assert {layer.self_attention.radius for layer in (*model.encoder, *model.decoder)} == {int(side)}

"""Sinusoids (section 3.5) against the formula and against what the paper says of it."""

import math

import pytest
import torch

from dragoman.model.positions import Positions, sinusoids
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import rates


@pytest.mark.parametrize("d_model", [8, 7])
def test_the_table_is_the_formula(d_model):
    table = sinusoids(20, d_model)
    for position in range(20):
        for feature in range(d_model):
            angle = position / 10000 ** (2 * (feature // 2) / d_model)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert table[position, feature].item() == pytest.approx(expected, abs=1e-6)


def test_halves_are_a_permutation_of_the_papers_layout():
    paper, halves = sinusoids(30, 16), sinusoids(30, 16, "sinusoidal-halves")
    order = torch.arange(16).view(8, 2).T.flatten()
    assert torch.equal(paper[:, order], halves)


def test_the_papers_wavelengths_end_just_below_10000_turns():
    found = 2 * math.pi / rates(16, "sinusoidal")
    assert found[0] == pytest.approx(2 * math.pi)
    assert found[-1] == pytest.approx(10000 ** (14 / 16) * 2 * math.pi)
    assert found[1:] / found[:-1] == pytest.approx(10000 ** (2 / 16))


def test_tensor2tensors_wavelengths_end_at_10000_turns():
    table = sinusoids(2, 16, "sinusoidal-tensor2tensor")
    assert table[1, 7].item() == pytest.approx(math.sin(1e-4), rel=1e-4)
    assert table[1, 0].item() == pytest.approx(math.sin(1))


def test_a_shift_is_linear_and_the_same_at_every_position():
    d_model, k = 16, 5
    table = sinusoids(100, d_model).double()
    shift = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        shift[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = rotation
    torch.testing.assert_close(table[:-k] @ shift.T, table[k:], atol=1e-5, rtol=0)


def test_positions_are_unique_and_bounded():
    table = sinusoids(500, 32)
    assert table.abs().max() <= 1
    assert torch.cdist(table, table).fill_diagonal_(1).min() > 0.01


def test_sinusoids_have_no_end():
    positions = Positions(ModelSettings(d_model=8, heads=2))
    assert torch.equal(positions(1000, 3), sinusoids(1003, 8)[1000:])


def test_a_learned_table_says_where_it_ends():
    positions = Positions(ModelSettings(d_model=8, heads=2, positions="learned", max_positions=5))
    assert positions(2, 3).shape == (3, 8)
    with pytest.raises(ValueError, match="6 tokens is longer than the 5 positions"):
        positions(5, 1)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no sinusoids of the kind 'learned'"):
        sinusoids(3, 8, "learned")


def test_positions_may_be_counted_from_another_number():
    shifted = Positions(ModelSettings(d_model=8, heads=2, first_position=2))
    assert torch.equal(shifted(0, 3), sinusoids(5, 8)[2:])
    assert torch.equal(shifted(254, 3), sinusoids(259, 8)[256:])  # past the first table
    learned = Positions(ModelSettings(d_model=8, heads=2, positions="learned", first_position=2))
    assert torch.equal(learned(0, 3), learned.table[:3])


@pytest.mark.parametrize("first", [0, 2, 5])
@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal-halves"])
def test_the_table_of_an_exported_graph_has_the_positions_of_the_longest_text(kind, first):
    from dragoman.interop.onnx import POSITIONS, exportable  # its import takes a second

    settings = ModelSettings(d_model=8, positions=kind, first_position=first)
    positions = exportable(Positions(settings))
    size = len(positions.table)
    torch.testing.assert_close(
        positions(POSITIONS - 1, 1), sinusoids(first + POSITIONS, 8, kind)[-1:], rtol=0, atol=0
    )
    assert len(positions.table) == size, "a graph cannot make its table longer"

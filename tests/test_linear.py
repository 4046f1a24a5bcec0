"""Weights laid out for translation give what the linear map gives, as exactly as their precision allows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.attention import Projections
from dragoman.model.build import build_model
from dragoman.model.symbols import PAD, START
from dragoman.native.packed_linear import PACKED, PackedInt8, pack, quantise_rows
from tests.conftest import ALL_PRECISIONS, MODELS, VOCABULARY

EXACT = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.02}


def linear(seed: int = 0, rows: int = 9, width: int = 24) -> tuple[Projections, torch.Tensor]:
    torch.manual_seed(seed)
    return Projections(width, rows), torch.randn(2, 3, width)


@pytest.mark.parametrize("precision", ALL_PRECISIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_map_gives_what_the_map_gives(precision, bias):
    plain, x = linear()
    packed = PACKED[precision](plain.weight, plain.bias if bias else None)
    expected = (plain(x) - (0 if bias else plain.bias)).detach()
    torch.testing.assert_close(
        packed(x), expected, rtol=0, atol=EXACT[precision] * float(expected.abs().max())
    )


@pytest.mark.parametrize("precision", ALL_PRECISIONS)
@pytest.mark.parametrize("ends", [(0, 4), (4, None), (2, 7)])
def test_a_part_of_a_map_is_the_rows_of_the_whole(precision, ends):
    plain, x = linear()
    torch.testing.assert_close(plain.project_rows(x, *ends), plain(x)[..., slice(*ends)])
    packed = PACKED[precision](plain.weight, plain.bias)
    torch.testing.assert_close(packed.project_rows(x, *ends), packed(x)[..., slice(*ends)])


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=4))
def test_quantise_rows_are_off_by_half_a_scale_at_most(rows):
    x = torch.tensor(rows)
    whole, scale = quantise_rows(x)
    assert ((whole.double() * scale.double() - x.double()).abs() <= scale.double() * 0.5001).all()
    assert whole.abs().max() <= 127


def test_a_row_of_zeros_stays_zero_and_a_part_has_its_own_end():
    plain, x = linear()
    x[0, 0] = 0
    packed = PackedInt8(plain.weight, None)
    assert packed(x)[0, 0].eq(0).all()
    for ends in ((2, 7), (2, 9), (2, None)):  # one beginning
        torch.testing.assert_close(packed.project_rows(x, *ends), packed(x)[..., slice(*ends)])


def test_int8_adds_up_exactly():
    plain, x = linear(width=300)
    whole, own = quantise_rows(x.flatten(0, 1))
    weight, scale = quantise_rows(plain.weight.detach())
    exact = (whole.double() @ weight.double().t()) * own.double() * scale[:, 0].double() + plain.bias.double()
    torch.testing.assert_close(
        PackedInt8(plain.weight, plain.bias)(x).flatten(0, 1).double(), exact, rtol=1e-5, atol=1e-6
    )


def test_a_row_in_int8_is_the_same_to_the_last_bit_whatever_the_batch():
    plain, _ = linear(width=64, rows=50)
    packed, x = PackedInt8(plain.weight, None), torch.randn(40, 64)
    together = packed(x)
    for row in range(0, 40, 7):
        assert torch.equal(packed(x[row : row + 1]), together[row : row + 1])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("precision", ALL_PRECISIONS)
@torch.no_grad()
def test_a_packed_model_predicts_as_before(kind, precision):
    torch.manual_seed(1)
    model = build_model(MODELS[kind], VOCABULARY, VOCABULARY).eval()
    source, target = (
        torch.tensor([[4, 5, 6, 3], [7, 3, PAD, PAD]]),
        torch.tensor([[START, 5, 6], [START, 4, 9]]),
    )

    def logits() -> torch.Tensor:
        return model.logits(model.decode(target, model.encode(source))[0])

    before = logits()
    pack(model, precision)
    torch.testing.assert_close(
        logits(), before, rtol=0, atol=3 * EXACT[precision] * float(before.abs().max())
    )

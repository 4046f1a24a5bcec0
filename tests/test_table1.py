"""Table 1: what is measured of each layer type has the paper's orders of growth, where a law says so."""

import json
import re
import sys
from dataclasses import asdict
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from dragoman.cli.main import main
from dragoman.inspection.views.drawing import Drawing
from dragoman_paper.figures import layer_costs
from dragoman_paper.figures.layer_costs import (
    LOOKS,
    CostColumn,
    Panel,
    decades,
    draw_panel,
    layer_pictures,
    with_prefix,
)
from dragoman_paper.tables import table1
from dragoman_paper.tables.complexity import (
    FEWEST_FLOPS,
    SMALL,
    Distance,
    LayerCost,
    count_flops,
    distance,
    fit,
    reach,
    saved_bytes,
    slope,
)
from dragoman_paper.tables.layers import KERNEL, NEIGHBOURHOOD, ROWS, Recurrent, self_attention
from dragoman_paper.tables.table1 import (
    PICTURES,
    Measurements,
    content,
    exponents,
    growth,
    markdown,
    written_table,
)

BY_NAME = {row.name: row for row in ROWS}
SVG = "{http://www.w3.org/2000/svg}"
ATTENTION, RECURRENT, CONTIGUOUS, DILATED, SEPARABLE, RESTRICTED = BY_NAME


def costs(name: str, quantity=count_flops, lengths=(48, 96, 192)) -> list[LayerCost]:
    return [
        LayerCost(name, n, width, quantity(BY_NAME[name], n, width), 1e-9 * n * width, 1)
        for n in lengths
        for width in (64, 128)
    ]


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ATTENTION, (2, 1)),
        (RECURRENT, (1, 2)),
        (CONTIGUOUS, (1, 2)),
        (DILATED, (1, 2)),
        (RESTRICTED, (1, 1)),
    ],
)
def test_the_operations_grow_as_the_paper_says(name, expected):
    lengths = (6, 12, 24) if name == RECURRENT else (48, 96, 192)  # it is counted step by step
    found = fit(costs(name, lengths=lengths), lambda cost: cost.flops)
    assert [each.value for each in found] == pytest.approx(expected, abs=1e-6)
    assert all(each.low <= each.value <= each.high for each in found)


def test_a_separable_convolution_costs_the_sum_of_its_parts():
    n, width = 64, 64
    assert count_flops(BY_NAME[SEPARABLE], n, width) == 2 * (KERNEL * n * width + n * width**2)


@pytest.mark.long
def test_the_operations_are_those_of_the_formulas():
    n, width = 64, 64
    assert count_flops(BY_NAME[ATTENTION], n, width) == 2 * 2 * n**2 * width
    assert count_flops(BY_NAME[RECURRENT], n, width) == 2 * 8 * n * width**2
    assert count_flops(BY_NAME[CONTIGUOUS], n, width) == 2 * KERNEL * n * width**2
    # Blocks of r / 2 queries have 3 r / 2 keys each.
    assert count_flops(BY_NAME[RESTRICTED], n, width) == 2 * 2 * n * width * 3 * (NEIGHBOURHOOD // 2)


@pytest.mark.parametrize(
    ("name", "sequential", "path"),
    [
        (ATTENTION, lambda n: None, lambda n: 1),
        (RECURRENT, lambda n: n, lambda n: n - 1),
        (CONTIGUOUS, lambda n: 1, lambda n: -(-(n - 1) // (KERNEL // 2))),
        (RESTRICTED, lambda n: None, lambda n: -(-(n - 1) // (NEIGHBOURHOOD // 2))),
    ],
)
def test_positions_are_as_far_apart_as_the_layer_makes_them(name, sequential, path):
    found = [distance(BY_NAME[name], n) for n in (18, 40)]
    assert [each.path for each in found] == [path(18), path(40)]
    if sequential(18) is None:  # the same for every length
        assert found[0].sequential == found[1].sequential <= 2
    else:
        assert [each.sequential for each in found] == [sequential(18), sequential(40)]


def test_dilated_convolutions_reach_all_positions_in_the_logarithm_of_their_number():
    for layers in (1, 2):
        assert distance(BY_NAME[DILATED], KERNEL**layers).path == layers
        assert distance(BY_NAME[DILATED], KERNEL**layers + 1).path == layers + 1


def test_reach_is_where_a_gradient_is():
    linear = nn.Linear(SMALL, SMALL).double()
    assert torch.equal(reach(linear, 5), torch.eye(5, dtype=torch.bool))
    assert torch.equal(reach(lambda x: linear(x).cumsum(1), 5), torch.ones(5, 5, dtype=torch.bool).tril())


def test_a_recurrent_layer_gives_the_same_step_by_step():
    layer, x = Recurrent(8), torch.randn(1, 6, 8)
    torch.testing.assert_close(layer(x), layer.stepwise(x))


def test_saved_memory_leaves_weights_out_and_grows_with_the_length():
    layer = self_attention(64)
    assert saved_bytes(layer, torch.randn(1, 64, 64)) * 2 == saved_bytes(layer, torch.randn(1, 128, 64))
    linear = nn.Sequential(nn.Linear(8, 8))
    x = torch.randn(1, 4, 8)
    assert saved_bytes(linear, x) == x.nbytes


def test_a_fit_finds_exponents_and_needs_enough_costs():
    n, width = fit(costs(ATTENTION), lambda cost: 3 * cost.positions**1.5 * cost.width**0.5)
    assert (n.value, width.value) == (pytest.approx(1.5), pytest.approx(0.5))
    generator, contains, given = torch.Generator().manual_seed(2), 0, costs(ATTENTION)
    for _ in range(100):
        noise = dict(
            zip(given, torch.randn(len(given), generator=generator).mul(0.3).exp().tolist(), strict=True)
        )
        noisy, _ = fit(given, lambda cost, noise=noise: cost.positions * noise[cost])
        contains += noisy.low < 1 < noisy.high
    assert 0.88 < contains / 100 <= 1
    with pytest.raises(ValueError, match="four costs or more"):
        fit(costs(ATTENTION)[:3], lambda cost: cost.flops)


@pytest.mark.parametrize("large", [0, 3, 4, 7])
def test_small_layers_are_left_out_of_the_time_alone_and_only_if_four_are_large(large):
    random, name = np.random.default_rng(large), ROWS[0].name
    flops = [*random.uniform(FEWEST_FLOPS, 1e9, large), *random.uniform(1e3, FEWEST_FLOPS - 1, 5)]
    given = [
        LayerCost(name, int(n), int(width), int(count), random.uniform(0.1, 9), int(random.integers(1, 99)))
        for count, (n, width) in zip(flops, random.integers(8, 512, (large + 5, 2)), strict=True)
    ]
    chosen = {"flops": given, "seconds": given[:large] if large >= 4 else given, "saved_bytes": given}
    for quantity, fitted in exponents(ROWS[0], random.permutation(given).tolist()).items():
        expected = fit(chosen[quantity], lambda cost, quantity=quantity: getattr(cost, quantity))
        for found, exponent in zip(fitted.values(), expected, strict=True):
            assert found == pytest.approx(asdict(exponent))


QUANTILES = {1: 12.706, 3: 3.182, 6: 2.447, 14: 2.145}
"""Student's, of 97.5 %, by degrees of freedom, as in printed tables."""


@pytest.mark.parametrize("freedom", QUANTILES)
def test_an_interval_is_the_standard_error_times_students_quantile(freedom):
    sizes = np.random.default_rng(freedom).integers(8, 512, (freedom + 3, 2))
    noise = np.random.default_rng(freedom + 1).normal(0, 0.2, len(sizes))
    given = [LayerCost("a", int(n), int(width), 1, 1.0, 1) for n, width in sizes]
    values = dict(zip(given, np.exp(noise) * sizes.prod(1), strict=True))
    inputs = np.column_stack([np.ones(len(sizes)), np.log(sizes)])
    outputs = np.log(list(values.values()))
    residuals = outputs - inputs @ (np.linalg.pinv(inputs) @ outputs)
    covariance = np.linalg.pinv(inputs.T @ inputs) * (residuals @ residuals) / freedom
    for found, variance in zip(fit(given, values.__getitem__), covariance.diagonal()[1:], strict=True):
        margin = QUANTILES[freedom] * variance**0.5
        assert found.high - found.value == pytest.approx(margin, rel=0.05)
        assert found.value - found.low == pytest.approx(margin, rel=0.05)


MEASURED = Measurements(
    [cost for name in BY_NAME for cost in costs(name, lambda row, n, width: n * width)],
    [distance(row, n) for row in ROWS for n in (8, 16)],
)


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=2), st.lists(st.floats(0, 0.03), min_size=2, max_size=2)
)
def test_an_interval_is_written_unless_its_bounds_are_the_same_number(values, margins):
    fitted = [
        {"value": value, "low": value - margin, "high": value + margin}
        for value, margin in zip(values, margins, strict=True)
    ]
    for name, part, exponent in zip("nd", growth(*fitted).split(" · "), fitted, strict=True):
        low, high = f"{exponent['low']:.2f}", f"{exponent['high']:.2f}"
        interval = f" ({low} to {high})" if float(low) != float(high) else ""
        assert part == f"{name}^{exponent['value']:.2f}{interval}"


def test_the_page_has_a_row_for_each_layer_type():
    page = markdown(MEASURED)
    for row in ROWS:
        (line,) = (line for line in page.splitlines() if line.startswith(f"| {row.name} |"))
        assert row.complexity in line
        assert f"({row.path_text})" in line
        fitted = exponents(row, MEASURED.costs)["flops"]
        assert growth(fitted["n"], fitted["d"]) in line


@pytest.mark.long
def test_the_command_writes_page_and_numbers(tmp_path, monkeypatch, capsys):
    for name, sizes in (("POSITIONS", (16, 32)), ("WIDTHS", (16, 32)), ("DISTANCES", (8, 16))):
        monkeypatch.setattr(table1, f"QUICK_{name}", sizes)
    monkeypatch.setattr(sys, "argv", ["dragoman", "reproduce", "table1", "--quick", "--out", str(tmp_path)])
    main()
    folder = tmp_path / "table1-quick"
    written = json.loads((folder / "table.json").read_text())
    for name in PICTURES:
        assert f"]({name}.svg)" in (folder / "table.md").read_text()
        ElementTree.parse(folder / f"{name}.svg")
    assert written_table(written) in (folder / "table.md").read_text()
    assert len(written["costs"]) == 4 * len(ROWS)
    assert written["passport"]["command"] == f"dragoman reproduce table1 --quick --out {tmp_path}"
    assert capsys.readouterr().out.startswith("# Table 1: layer types")


def test_each_picture_has_every_layer_type_and_every_number_that_it_draws():
    table = content(MEASURED, "command", "0")
    pictures = layer_pictures(table)
    assert set(pictures) == set(PICTURES)
    for name, svg in pictures.items():
        shown = [each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]
        assert set(BY_NAME) <= set(shown), name
    marks = [each.text for each in ElementTree.fromstring(pictures["operations"]).iter(f"{SVG}title")]
    numbers = [mark for mark in marks if mark.startswith(f"{ATTENTION}\n")]
    assert len(numbers) == 3 * 2 + 2  # against n for each d, then against d for the largest n
    assert f"{ATTENTION}\n48: {with_prefix(48 * 64, 'FLOP')}" in numbers


def test_no_two_layer_types_share_marker_and_fill():
    assert len(LOOKS) == len(ROWS)
    assert len({(look.marker, look.filled) for look in LOOKS}) == len(LOOKS)


def test_points_of_a_power_lie_on_a_line_with_its_slope():
    panel = Panel("", "", {name: [(10, 1.0), (100, 100.0), (1000, 10_000.0)] for name in BY_NAME})
    drawing = Drawing("a", "b", "c")
    draw_panel(drawing, CostColumn("", "", "", ""), panel, 0, 0, (0, 4))
    (line, *_) = re.findall(r'd="M([^Z"]*)"[^>]*><title>self-attention</title>', "".join(drawing.parts))
    (x0, y0), (x1, y1), (x2, y2) = (map(float, pair.split()) for pair in line.split("L"))
    assert (y1 - y0) / (x1 - x0) == pytest.approx((y2 - y1) / (x2 - x1), rel=1e-3)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [(1.5e-3, "s", "1.5 ms"), (1e-6, "s", "1 µs"), (1e11, "FLOP", "100 GFLOP"), (1500, "", "1,500")],
)
def test_numbers_have_prefixes(value, unit, expected):
    assert with_prefix(value, unit) == expected


def test_axes_end_at_powers_of_ten():
    assert decades([3, 40, 100]) == (0, 2)
    assert decades([1, 1]) == (0, 1)


def test_path_lengths_have_an_exponent_and_need_two_lengths():
    found = [Distance("a", n, 1, n**2) for n in (4, 8, 16)]
    assert slope(found, lambda each: each.path).value == pytest.approx(2)
    assert slope(found, lambda each: each.sequential).value == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="two lengths or more"):
        slope(found[:1], lambda each: each.path)


@pytest.mark.parametrize("option", ["scale", "rows", "seeds", "data"])
def test_options_of_other_tables_get_a_sentence(monkeypatch, capsys, tmp_path, option):
    words = ["dragoman", "reproduce", "table1", f"--{option}", "2", "--quick", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        main()
    assert f"table1 is measured without training, so it has no --{option}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@given(st.floats(-1, 3), st.floats(0, 0.5))
def test_an_exponent_of_the_legend_has_half_of_the_width_of_its_interval(value, margin):
    exponent = {"value": value, "low": value - margin, "high": value + margin}
    sign = f" ± {margin:.2f}"
    assume(abs(1000 * margin % 10 - 5) > 0.01)  # where rounding is not a matter of the last bit
    written = layer_costs.growth({"n": exponent, "d": {"value": 1.0, "low": 1.0, "high": 1.0}})
    assert written == f"n^{round(value, 2) + 0.0:.2f}{sign if margin >= 0.005 else ''} · d^1.00"

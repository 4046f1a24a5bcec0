"""Laws of the companion's pictures, lab and reports: what is written beside a number is what it is."""

import html
import inspect
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspection.record.neighbours import Neighbours
from dragoman.inspection.views.drawing import Drawing, decimal, diverging, sequential
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import sinusoid_table
from dragoman.model.symbols import END
from dragoman.model.weights import weights
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.training.curves import Curve
from dragoman_paper.figures import (
    attention_figures,
    draw,
    measured,
    measured_pictures,
    neighbours_picture,
    position_layouts,
    recurrence,
    steps,
    training_picture,
)
from dragoman_paper.figures.attention_diagram import attention_diagram
from dragoman_paper.figures.choice import Choice
from dragoman_paper.figures.complexity import KERNEL, NEIGHBOURHOOD, complexity
from dragoman_paper.figures.complexity import ROWS as TABLE_1
from dragoman_paper.figures.learning_curves import Point, learning_curves
from dragoman_paper.figures.smoothing import label_smoothing
from dragoman_paper.lab.frame import catalogue, cells, pictures, report
from dragoman_paper.lab.frame.experiment import SECTIONS, Claim, Experiment, Result, verdict_of
from dragoman_paper.lab.parts import comparisons, lengths, stop_rules, training
from dragoman_paper.lab.parts.models import random_sentences, random_transformer
from dragoman_paper.lab.parts.numpy_transformer import probabilities
from dragoman_paper.lab.parts.table_model import TableModel
from dragoman_paper.lab.parts.training import TINY, WARMUP
from dragoman_paper.lab.parts.tutorial_attention import TutorialAttention
from dragoman_paper.paper_map import page
from dragoman_paper.paper_map import subject as subjects
from dragoman_paper.paper_map.departures import NOT_GIVEN, Departure
from dragoman_paper.paper_map.departures import SECTIONS as SECTIONS_OF_SETTINGS
from dragoman_paper.paper_map.report import report_on, row_of
from dragoman_paper.paper_map.subject import subject_of
from dragoman_paper.tables.published import PAPER_VOCABULARY, estimated_flops
from dragoman_paper.tables.table3 import TABLE3
from tests.test_figures import with_random_candidates
from tests.test_pictures import fake

TEXT = re.compile(r"<text([^>]*)>([^<]*)</text>")


def attribute(element, name):
    """A number of an element."""
    return float(re.search(rf' {name}="([-\d.]+)"', element)[1])


def words_of(svg):
    """The texts of a picture, in its order."""
    return [html.unescape(text) for _, text in TEXT.findall(svg)]


# ---- figures


def test_figure_2_has_the_shapes_whose_products_it_draws():
    model = ModelSettings(d_model=48, heads=3, d_k=5, d_v=7)
    words = words_of(attention_diagram(model))
    assert f"÷ √d_k = {math.sqrt(5):.4g}" in words
    for shape in ("Q [T, 5]", "K [S, 5]", "V [S, 7]", "Q [T, 48]", "K [S, 48]", "V [S, 48]", "W^O [21, 48]"):
        assert words.count(shape) == 1, shape
    assert (words.count("[48, 5]"), words.count("[48, 7]")) == (6, 3)  # three heads behind each other


@pytest.mark.parametrize("n", [7, 27, 100])
def test_the_numbers_of_a_sentence_are_the_terms_of_table_1(n):
    words, d = words_of(complexity(20, n)), 20
    place = words.index(f"For this sentence, n = {n} tokens") + 1
    names = {"n": n, "d": d, "k": KERNEL, "r": min(NEIGHBOURHOOD, n)}
    names["log_k"] = lambda n: next(layers for layers in range(n) if KERNEL**layers >= n)
    for row, start in zip(TABLE_1, range(place, place + 16, 4), strict=True):
        terms = [row.operations, row.sequential, row.path]
        numbers = [eval(term.replace("²", "**2").replace("·", "*"), names) for term in terms]
        assert words[start : start + 4] == [row.layer, *(f"{math.ceil(number):,}" for number in numbers)]


def lines_by_title(svg):
    """The points of the lines of a picture that have a title."""
    found = re.findall(r'd="M([^"ZzCl]*)"[^>]*><title>([^<]*)</title>', svg)
    return {title: [tuple(map(float, pair.split())) for pair in points.split("L")] for points, title in found}


def test_both_curves_of_table_1_meet_at_d_tokens_and_part_by_their_powers():
    curves = lines_by_title(complexity(40, None))
    attention, recurrent = curves["Self-attention"], curves["Recurrent"]
    bottom, middle = attention[0][1], len(attention) // 2
    assert attention[middle][1] == pytest.approx(recurrent[middle][1], abs=0.02)
    heights = [bottom - line[-1][1] for line in (attention, recurrent)]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.05)


def test_the_smoothing_of_a_run_spreads_over_its_target_vocabulary(monkeypatch, tmp_path):
    tokenizers = SimpleNamespace(source=range(11), target=range(23))
    monkeypatch.setattr(draw, "model_folder", lambda run: run)
    monkeypatch.setattr(draw.Tokenizers, "load", lambda folder: tokenizers)
    assert draw.smoothing_of(tmp_path)[:2] == (0.1, 23)
    (tmp_path / "recipe.toml").write_text("[training]\nlabel_smoothing = 0.25\n")
    assert draw.smoothing_of(tmp_path)[:2] == (0.25, 23)
    assert draw.smoothing_of(None)[:2] == (0.1, PAPER_VOCABULARY)


def test_the_shares_of_a_smoothed_target_sum_to_1():
    svg = label_smoothing(0.2, 50, "source")
    titles = [float(title.rpartition(": ")[2]) for title in re.findall("<title>([^<]*: [^<]*)</title>", svg)]
    for gold, one, others in zip(titles[-6::3], titles[-5::3], titles[-4::3], strict=True):
        assert gold + others == pytest.approx(1)
        assert others == pytest.approx(49 * one, rel=1e-4)


def test_units_below_zero_are_not_zeros(monkeypatch):
    activations = np.array([[[-1.0, 0.0, 2.0, 0.0]]])
    monkeypatch.setattr(measured, "one_transformer", lambda translator: None)
    inspection = SimpleNamespace(neurons=SimpleNamespace(of=lambda side: activations))
    monkeypatch.setattr(measured, "inspect", lambda *_: inspection)
    found = measured.hidden_units(None, "a", None)
    assert found.encoder.tolist() == found.decoder.tolist() == [[0.5]]


def test_as_many_words_as_are_allowed_have_neighbours(monkeypatch):
    side = SimpleNamespace(encode=lambda words: [[5]] * len(words), pieces=lambda ids: ["x"])
    translator = SimpleNamespace(tokenizers=SimpleNamespace(source=side, target=side))
    monkeypatch.setattr(neighbours_picture, "one_model", lambda translator: None)
    monkeypatch.setattr(neighbours_picture, "neighbours", lambda *_: [])
    assert neighbours_picture.neighbours_picture(translator, "a " * neighbours_picture.MAX_WORDS)
    with pytest.raises(DragomanError, match="at most"):
        neighbours_picture.neighbours_picture(translator, "a " * (neighbours_picture.MAX_WORDS + 1))


def test_each_token_with_neighbours_has_a_place_of_its_own_in_rows_of_three():
    drawing, near = Drawing("a", "title", "description"), (("y", 0.5), ("z", 0.25))
    names = [f"token{number}" for number in range(7)]
    neighbours_picture.draw_matrix(drawing, Neighbours(("source",), tuple((name, near) for name in names)))
    places = {
        text: (attribute(where, "x"), attribute(where, "y")) for where, text in TEXT.findall(drawing.svg())
    }
    columns, rows = ([places[name][side] for name in names] for side in (0, 1))
    assert len(set(zip(columns, rows, strict=True))) == len(names)
    assert [sorted(set(columns)).index(x) for x in columns] == [0, 1, 2, 0, 1, 2, 0]
    assert [sorted(set(rows)).index(y) for y in rows] == [0, 0, 0, 1, 1, 1, 2]


def test_each_layout_of_positions_is_below_its_own_title(monkeypatch):
    tables = {}
    monkeypatch.setattr(
        position_layouts,
        "draw_table",
        lambda drawing, title, across, numbers, width: tables.update({title: numbers}),
    )
    svg = position_layouts.position_layouts(ModelSettings(d_model=16))
    (paper,) = (numbers for title, numbers in tables.items() if title.startswith("Interleaved"))
    (halves,) = (numbers for title, numbers in tables.items() if title.startswith("In halves"))
    assert paper[1, :2] == pytest.approx([math.sin(1), math.cos(1)])
    assert paper[0].tolist() == [0, 1] * 8
    assert halves[0].tolist() == [0] * 8 + [1] * 8
    other = sinusoid_table(len(halves), 16, "sinusoidal-tensor2tensor")
    assert f"by at most {np.abs(other - halves).max():.3g}." in " ".join(words_of(svg))


@given(
    st.sampled_from([sequential, diverging]),
    st.lists(st.integers(-8, 8), min_size=2, max_size=5, unique=True).map(sorted),
    st.integers(1, 50),
)
def test_a_legend_has_the_shade_of_each_share_at_its_place(scale, eighths, steps):
    shares = [number / 8 for number in eighths]
    drawing = Drawing("a", "title", "description")
    drawing.legend(10, 0, "t", scale, [(share, f"{share:.3f}") for share in shares], steps)
    svg = drawing.svg()
    places = [attribute(where, "x") for where, text in TEXT.findall(svg) if re.fullmatch(r"-?\d\.\d+", text)]
    cells = re.findall(r"<rect[^>]*>", svg[svg.index('<g class="cells">') :])
    assert len(cells) == steps
    for cell in cells:
        middle = attribute(cell, "x") + attribute(cell, "width") / 2
        shade = scale(float(np.interp(middle, places, shares)))
        opacity = attribute(cell, "fill-opacity") if "fill-opacity" in cell else 1.0
        assert opacity == pytest.approx(shade.opacity, abs=0.02)
        assert shade.css in cell or shade.opacity < 0.02


def test_the_columns_of_positions_are_numbered_from_the_first_to_the_last():
    drawing = Drawing("a", "title", "description")
    position_layouts.draw_table(drawing, "t", "dimension", np.zeros((3, 10)), 8.0)
    numbers = [
        (int(text), attribute(where, "x"))
        for where, text in TEXT.findall(drawing.svg())
        if "middle" in where and text.isdigit()
    ]
    assert [number for number, _ in numbers][:: len(numbers) - 1] == [0, 9]
    for number, x in numbers:
        assert x == pytest.approx(52 + 8 * (number + 0.5), abs=0.01)


def test_heads_with_the_same_weights_do_not_differ_and_those_without_a_common_key_differ_wholly():
    one, other = np.eye(4)[[0, 1, 2]], np.eye(4)[[3, 3, 3]]
    assert attention_figures.difference(one, one) == 0
    assert attention_figures.difference(one, other) == 1
    half = (one + other) / 2
    assert attention_figures.difference(one, half) == attention_figures.difference(half, other) == 0.5


def shifted(inspection):
    """The inspection with two heads in each encoder layer: all on the position before, and all after."""
    attention = inspection.attention
    layers, heads, count, _ = attention.encoder.shape
    weights = np.zeros((layers, heads, count, count), np.float32)
    for query in range(count):
        weights[:, 0, query, max(query - 1, 0)] = 1
        weights[:, 1:, query, min(query + 1, count - 1)] = 1
    return replace(inspection, attention=replace(attention, encoder=weights))


def test_facts_of_heads_have_the_names_of_what_they_do():
    inspection, choice = shifted(fake()), Choice(heads=(1, 2))
    words = words_of(attention_figures.head_comparison(inspection, choice))
    before, after = (
        [float(text.strip("%")) for text in words[place : place + 2]]
        for place in (words.index(f"share on the position {name}") + 1 for name in ("before", "after"))
    )
    assert before[0] > 50 > before[1]
    assert after[0] < 50 < after[1]
    uniform = np.full_like(inspection.attention.encoder, 1 / len(inspection.source))
    inspection = replace(inspection, attention=replace(inspection.attention, encoder=uniform))
    words = words_of(attention_figures.head_comparison(inspection, choice))
    (place,) = (number for number, text in enumerate(words) if text.startswith("entropy"))
    unit = {"nats": 1.0, "bits": math.log(2)}[words[place].rsplit(" ", 1)[1]]
    assert words[place + 1] == f"{math.log(len(inspection.source)) / unit:.2f}"


def test_heat_maps_of_two_heads_are_theirs(monkeypatch):
    inspection, drawn = fake(), []
    monkeypatch.setattr(attention_figures, "draw_levels", lambda drawing, levels, *_: drawn.append(levels))
    attention_figures.head_comparison(inspection, Choice(layer=1, heads=(2, 1)))
    for found, head in zip(drawn, (1, 0), strict=True):
        assert np.array_equal(found, inspection.attention.encoder[0, head])


def weights_of_lines(svg):
    """Query, key, weight, opacity, and both ends of each line of attention, in groups."""
    groups = []
    for group in re.findall(r'<g class="weights">(.*?)</g>', svg, re.DOTALL):
        lines = re.findall(r"<path[^>]*><title>query (\d+), key (\d+), weight ([\d.]+)</title>", group)
        paths = re.findall(r"<path[^>]*>", group)
        groups.append(
            [(int(q), int(k), float(w), path) for (q, k, w), path in zip(lines, paths, strict=True)]
        )
    return groups


def test_figure_4_has_all_lines_of_its_first_head_and_then_those_of_a_query():
    inspection = fake()
    svg = attention_figures.figure_4(inspection, Choice(layer=1, heads=(2, 1), query="3"))
    weights = inspection.attention.encoder[0]
    everything, *of_query = weights_of_lines(svg)
    assert {query for query, *_ in everything} == set(range(1, len(inspection.source) + 1))
    for group, head in zip([everything, *of_query], (1, 1, 0), strict=True):
        for query, key, weight, path in group:
            assert weight == pytest.approx(weights[head, query - 1, key - 1], abs=5e-4)
            opacity = weight if group is everything else math.sqrt(weight)
            shown = attribute(path, "stroke-opacity") if "-opacity=" in path else 1.0
            assert shown == pytest.approx(opacity, abs=0.03)
            (x, _), (other_x, _) = (pair.split() for pair in re.search('d="M([^"]*)"', path)[1].split("L"))
            places = float(other_x) - float(x), attention_figures.COLUMN * (key - query)
            assert places[0] == pytest.approx(places[1], abs=0.02)
    words = words_of(svg)
    assert words.index("head 2") < words.index("head 1")


def test_a_note_says_what_was_chosen_only_if_it_was_not_asked_for():
    inspection = fake()
    for figure in (attention_figures.figure_4, attention_figures.figure_5, attention_figures.head_comparison):
        for heads in ((), (1, 2)):
            words = " ".join(words_of(figure(inspection, Choice(heads=heads))))
            assert ("differ most" in words) == (not heads)
    for query in (None, "1"):
        words = " ".join(words_of(attention_figures.figure_3(inspection, Choice(query=query))))
        assert ("--query chooses another" in words) == (query is None)
    with pytest.raises(DragomanError, match="compares two heads"):
        attention_figures.figure_5(inspection, Choice(heads=(1, 1)))


def test_marks_of_figure_3_are_the_weights_of_its_query():
    inspection = fake()
    svg = attention_figures.figure_3(inspection, Choice(layer=1, query="2"))
    marks = re.findall(r"<title>head (\d+)\nkey: [^\n]*\nweight: ([\d.]+)</title>", svg)
    weights = inspection.attention.encoder[0][:, 1]
    expected = [(f"{head}", f"{weight:.3f}") for head, row in enumerate(weights, 1) for weight in row]
    assert marks == expected


def test_the_numbers_of_a_head_are_below_its_own_names_and_have_one_scale(monkeypatch):
    inspection, random = fake(), np.random.default_rng(1)
    count = len(inspection.source)
    sizes = {"queries": 5, "keys": 5, "values": 3}
    projections = {name: random.normal(size=(2, 3, count, size)) for name, size in sizes.items()}
    encoder = SimpleNamespace(**projections)
    monkeypatch.setattr(measured_pictures, "projections_of", lambda _: SimpleNamespace(encoder=encoder))
    monkeypatch.setattr(measured_pictures, "draw_levels", lambda drawing, levels, *_: drawn.append(levels))
    drawn = []
    words = words_of(measured_pictures.head_matrices(inspection, 1, 2))
    most = max(np.abs(array[1, 2]).max() for array in projections.values())
    for name, levels in zip(sizes, drawn, strict=True):
        np.testing.assert_allclose(levels, projections[name][1, 2] / most, rtol=1e-5)
        width = "d_v" if name == "values" else "d_k"
        assert f"{name[0].upper()}, {name} [S = {count}, {width} = {sizes[name]}]".replace("Q,", "Q,") in (
            text.replace("K, keys", "K, keys") for text in words
        )


@pytest.mark.parametrize("tokens", [2, 5, recurrence.MOST, recurrence.MOST + 1])
def test_the_thick_path_has_its_length_and_ends_at_the_last_output(monkeypatch, tokens):
    drawn = []
    monkeypatch.setattr(
        recurrence, "arrow", lambda drawing, points, colour="", width=1.0: drawn.append((colour, points))
    )
    svg = recurrence.recurrence_paths([f"x{number}" for number in range(tokens)])
    shown = min(tokens, recurrence.MOST)
    last = recurrence.place_x(shown - 1)
    thick = [points for colour, points in drawn if colour == "best"]
    assert len(thick) == shown + 1  # as many as there are tokens, and one
    assert thick[-1][0][0] == recurrence.place_x(0)
    assert thick[-1][-1][0] == last
    assert ("Only the first" in svg) == (tokens > recurrence.MOST)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_the_bold_token_of_a_step_is_the_translations_after_all_before_it(step):
    found = with_random_candidates(fake(), step)
    svg = steps.softmax(found, Choice(step=step))
    bold = [text for where, text in TEXT.findall(svg) if "font-weight" in where]
    assert html.unescape(bold[-1]) == found.target[step - 1]
    prefix = " ".join(words_of(svg)).partition("after: ")[2]
    assert prefix.startswith(" ".join(found.decoder_inputs[:step]))
    assert not prefix.startswith(" ".join([*found.decoder_inputs[:step], found.target[step - 1]]))


def test_charts_of_a_training_have_places_of_their_own_and_marks_of_validations(monkeypatch):
    names = [f"number {place}" for place in range(7)]
    points = tuple((step, float(step)) for step in (1, 2, 5))
    curves = [Curve(name, kind, points) for name in names for kind in ("train", "validation")]
    monkeypatch.setattr(
        training_picture, "required_training", lambda run: SimpleNamespace(curves=curves, schedule="s")
    )
    svg = training_picture.training_picture(Path("run"))
    places = {where for where, text in TEXT.findall(svg) if text in names}
    assert len(places) == len(names)
    marks = re.findall(r'<rect[^>]*class="([^"]*)"[^>]*><title>update', svg)
    assert marks == [f"fill-{training_picture.LOOKS['validation']}"] * len(names) * len(points)


def test_learning_curves_are_drawn_over_their_sizes_in_the_colour_of_their_names():
    sizes, means = (1000, 2000, 8000), {"lstm": (5.0, 3.0, 9.0), "conv": (1.0, 4.0, 2.0)}
    points = [
        Point(row, size, mean, 0.5)
        for row, values in means.items()
        for size, mean in zip(sizes, values, strict=True)
    ]
    svg = learning_curves(points[::-1], "A text")
    ticks = {text: attribute(where, "x") for where, text in TEXT.findall(svg) if "middle" in where}
    for row, line in lines_by_title(svg).items():
        assert row in means
        assert [x for x, _ in line] == pytest.approx([ticks[f"{size:,}"] for size in sizes], abs=0.02)
        colour = re.search(rf'class="([^"]*)"[^>]*><title>{row}</title>', svg)[1]
        (where,) = (where for where, text in TEXT.findall(svg) if text == row)
        beside = f"M{attribute(where, 'x') - 34:g} {attribute(where, 'y') - 4:g}L"
        legend = [
            path for path in re.findall(r"<path[^>]*>", svg) if f'd="{beside}' in path.replace(".00", "")
        ]
        assert [re.search(r"stroke-(self|best|feed|ink)", path)[0] for path in legend] == [
            re.search(r"stroke-(self|best|feed|ink)", colour)[0]
        ]


# ---- the lab's frame


def test_experiments_stand_in_the_order_of_the_papers_sections_and_then_by_name(monkeypatch):
    sections = {"a": "6.2", "b": "3.1", "c": "5.3", "d": "3.1", "e": "3.2.2"}
    monkeypatch.setattr(catalogue, "names", lambda: [*sections])
    monkeypatch.setattr(
        catalogue,
        "experiment",
        lambda name: Experiment(name, Claim("t", sections[name], "c.", "n"), "", lambda _: None, Path()),
    )
    assert [each.name for each in catalogue.experiments()] == ["b", "d", "e", "c", "a"]


@pytest.mark.parametrize("own_scales", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_matrices_have_one_scale_or_their_own(monkeypatch, own_scales, sign):
    drawn = []
    monkeypatch.setattr(cells.Cells, "draw", lambda panel, *_: drawn.append(panel))
    by_name = {"one": np.array([[1.0, 2.0]]), "two": sign * np.array([[5.0, 4.0]])}
    sides = cells.Side("row"), cells.Side("column")
    svg = cells.matrices("title", "unit", by_name, *sides, own_scales=own_scales).svg()
    assert [panel.most for panel in drawn] == ([2.0, 5.0] if own_scales else [5.0, 5.0])
    assert {panel.scale for panel in drawn} == {sequential if sign > 0 else diverging}
    most = 1 if own_scales else 5
    labels = ["0", f"{most / 2:g}", f"{most}"] if sign > 0 else [f"−{most}", "0", f"{most}"]
    words = words_of(svg)
    assert [word for word in words if re.fullmatch(r"−?[\d.]+", word)] == labels


def test_each_number_of_a_matrix_stands_in_its_row_and_column():
    drawing = Drawing("lab", "title", "description")
    matrix = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]])
    sides = cells.Side("row", ["r", "s"]), cells.Side("column", ["c", "d", "e"])
    cells.Cells("m", matrix, *sides, 44, sequential, 6.0).draw(drawing, 100, 200, numbers=True)
    svg = drawing.svg()
    numbers = [(where, float(text)) for where, text in TEXT.findall(svg) if re.fullmatch(r"\d\.\d\d", text)]
    assert [number for _, number in numbers] == [1, 2, 4, 5, 6]
    for where, number in numbers:
        for row, column in np.argwhere(matrix == number):
            assert attribute(where, "x") == pytest.approx(100 + 44 * (column + 0.5))
            assert attribute(where, "y") == pytest.approx(200 + 44 * (row + 0.5) + 4)
    assert re.search(r'd="M188(\.0+)? 244(\.0+)?L232(\.0+)? 200', svg)  # through the cell without a number


def test_a_verdict_that_is_not_decided_is_no_other_one():
    for true in (True, False):
        for condition in ("", "k = 1", "for most"):
            assert verdict_of(true, condition, decided=False) == "is not decided"
    assert verdict_of(True, "four heads are enough").startswith("holds only if ")
    assert verdict_of(True, "fork = 1") == "holds only if fork = 1"


def test_each_curve_of_the_lab_has_its_name_beside_its_look_and_its_points_at_their_ticks():
    by_name = {"one": [(1, 1.0), (10, 100.0), (100, 10.0)], "two": [(1, 10.0), (10, 1.0), (100, 100.0)]}
    svg = pictures.curves("title", "x", "y", by_name, log_x=True, log_y=True).svg()
    found = TEXT.findall(svg)
    x_ticks = {text: attribute(where, "x") for where, text in found if "middle" in where}
    y_ticks = {text: attribute(where, "y") - 4 for where, text in found if 'text-anchor="end"' in where}
    for name, line in lines_by_title(svg).items():
        for (x, y), (value, number) in zip(line, by_name[name], strict=True):
            assert x == pytest.approx(x_ticks[f"{value:g}"], abs=0.02)
            assert y == pytest.approx(y_ticks[f"{number:g}"], abs=0.02)
        (height,) = (attribute(where, "y") for where, text in found if text == name)
        (look,) = re.findall(rf'class="([^"]*)"[^>]*><title>{name}</title>', svg)
        beside = re.findall(rf'<path[^>]*d="M16(?:\.0+)? {height - 4:g}(?:\.0+)?L[^>]*>', svg)
        colour = re.search(r"stroke-\w+", look.replace("stroke-line", ""))[0]
        assert len(beside) == 1
        assert colour in beside[0]


def test_a_bar_of_the_lab_ends_where_its_axis_has_its_number():
    values = {"a": 300.0, "b": 20000.0, "c": 50.0}
    svg = pictures.bars("title", "unit", {"": values}, log=True).svg()
    ticks = {
        float(text.replace(",", "")): attribute(where, "x")
        for where, text in TEXT.findall(svg)
        if "middle" in where
    }
    slope, start = np.polyfit(np.log10([*ticks]), [*ticks.values()], 1)
    for rectangle, title in re.findall(r"(<rect[^>]*)><title>([^<]*)</title>", svg):
        value = float(title.rpartition(": ")[2])
        end = attribute(rectangle, "x") + attribute(rectangle, "width")
        assert end == pytest.approx(start + slope * math.log10(value), abs=0.1)


def experiment(name, section):
    """An experiment that computes nothing."""
    return Experiment(
        name, Claim(f"title {name}", section, f"{name} claims.", "nobody"), "m", None, Path(__file__)
    )


@pytest.mark.parametrize("quick", [False, True])
def test_a_folder_of_results_says_which_are_of_the_quick_form_by_section(tmp_path, quick):
    for name, section in (("a", "6.1"), ("b", "3.1"), ("c", "3.3")):
        rows = {"numbers": [{"x|y": "p|q", "share": 0.123456, "many": 1234.5, "few": 999.5}]}
        result = Result(rows, Drawing("lab", "t", "d"), "holds", "because.")
        form = quick if name == "b" else not quick
        record = report.content(experiment(name, section), result, form, 1.0, {})
        report.write_result(tmp_path, experiment(name, section), result, record)
        text = (tmp_path / f"{name}.md").read_text()
        assert ("These are the numbers of the quick form" in text) == form
        assert r"| p\|q | 0.1235 | 1,234 | 999.5 |" in text.replace("1,235", "1,234")
        assert report.has_result(tmp_path, name, quick=True)
        assert report.has_result(tmp_path, name, quick=False) == (not form)
    lines = [line for line in (tmp_path / "README.md").read_text().splitlines() if ".md)" in line]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == ["3.1", "3.3", "6.1"]
    assert [line.endswith("| holds (quick form) |") for line in lines] == [quick, not quick, not quick]


# ---- the lab's parts


def test_batches_in_random_order_are_as_large_as_their_cap_allows():
    sizes = lengths.Lengths(200, 3).lengths()
    longest, cap = np.maximum(*sizes), 400
    batches = lengths.in_random_order(sizes, cap, 1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch, following in zip(batches, [*batches[1:], []], strict=True):
        assert longest[batch].max() * len(batch) <= cap
        if len(following):
            more = [*batch, following[0]]
            assert longest[more].max() * len(more) > cap
    exact = np.full(6, 10), np.full(6, 10)
    assert [len(batch) for batch in lengths.in_random_order(exact, 30, 1)] == [3, 3]
    cells_of = [[max(side[batch]) * len(batch), side[batch].sum()] for side in sizes for batch in batches]
    padded, real = np.array(cells_of).sum(0)
    assert lengths.padding(batches, sizes) == pytest.approx(1 - real / padded)


def test_a_mean_curve_is_the_mean_of_all_its_updates():
    runs = np.random.default_rng(2).normal(size=(3, 12))
    found = training.mean_curve(runs.tolist(), 4)
    assert [end for end, _ in found] == [4, 8, 12]
    assert [value for _, value in found] == pytest.approx(runs.reshape(3, 3, 4).mean((0, 2)))


@pytest.mark.parametrize("updates", [1, 60, 400, 5000])
def test_the_quick_form_is_short(updates):
    seeds, count = training.short(True, updates)
    assert len(seeds) == 1
    assert 2 <= count <= 20
    assert training.short(False, updates) == (range(1, 4), updates)


def test_chance_is_the_mean_over_all_tokens_of_texts_of_all_lengths():
    sizes = np.arange(3, 10)  # of letters; the end is known
    assert training.chance(3, 9, 8) == pytest.approx(sizes.sum() * math.log(8) / (sizes + 1).sum())


def test_padding_takes_no_part_in_losses_and_shares():
    model = training.fresh(TINY, 1).eval()
    pairs = [([4, 5, 6, 7, 8], [9, 10, 11, 12, 13]), ([6], [7])]
    both, ones = training.batch_of(pairs), [training.batch_of([pair]) for pair in pairs]
    for measure in (training.nll, training.token_accuracy):
        values = [measure(model, batch) for batch in ones]
        assert measure(model, both) == pytest.approx((6 * values[0] + 2 * values[1]) / 8, abs=1e-5)


def test_the_share_of_right_tokens_is_of_tokens_alone(monkeypatch):
    batch = training.batch_of([([4, 5, 6], [6, 5, 4]), ([7], [7])])
    found = batch.target_out.where(batch.target_out > 0, 5)  # all that is no padding is right
    found[0, 0] = 9
    monkeypatch.setattr(training, "token_log_probs", lambda *_: torch.nn.functional.one_hot(found).float())
    assert training.token_accuracy(None, batch) == pytest.approx(5 / 6)


def test_a_rate_without_warm_up_begins_at_the_peak():
    rates = [training.paper_rate(step) for step in range(1, 4 * WARMUP)]
    without = [training.rate_without_warmup(step) for step in range(1, 4 * WARMUP)]
    assert without[:WARMUP] == [max(rates)] * WARMUP
    assert without[WARMUP:] == rates[WARMUP:]


def test_a_spread_goes_from_the_least_to_the_greatest():
    assert training.spread([3.0, 1.0, 2.6]) == "2.20 (1.00 to 3.00)"


def test_the_watched_loss_is_unsmoothed_and_the_gradient_that_of_a_token(monkeypatch):
    made, watched, gradients = [], [], []
    make = training.make_optimizer
    monkeypatch.setattr(training, "make_optimizer", lambda model: made.append(make(model)) or made[-1])

    def watch(step, model, nll):
        watched.append(nll)
        gradients.append(model.target_embedding.weight.grad.clone())

    def task(generator):
        return [4, 5], [6, 7, 8]

    for pairs in (1, 3):
        training.train(TINY, task, 1, 1, smoothing=0.2, beta2=0.75, pairs=pairs, watch=watch)
    expected = training.nll(training.fresh(TINY, 1).eval(), training.batch_of([task(None)]))
    assert watched == pytest.approx([expected] * 2, rel=1e-4)
    torch.testing.assert_close(gradients[0], gradients[1])
    assert {optimizer.param_groups[0]["betas"][1] for optimizer in made} == {0.75}


def test_noise_is_as_large_as_its_share_of_a_matrix():
    checkpoint = {"a": torch.full((300, 300), 0.01), "b": torch.full((300, 300), 5.0)}
    (noisy,) = comparisons.noisy(checkpoint, 0.1, 1, 1)
    for name, weight in checkpoint.items():
        assert float((noisy[name] - weight).std() / weight[0, 0]) == pytest.approx(0.1, rel=0.02)


def test_a_search_that_waits_for_the_best_goes_on_while_a_hypothesis_is_better():
    scores = [-0.5, -1.0, -1.5, -2.0]
    best, worst = stop_rules.RULES["W, none is better now"], stop_rules.RULES["W, none beats the W-th"]
    for now in (-0.4, -0.9, -2.5):
        assert best(scores, now, 0.0) == (now <= scores[0])
        assert worst(scores, now, 0.0) == (now <= scores[-1])
        assert not best(scores[:3], now, 0.0)
    assert not stop_rules.RULES["none can become the best"](scores, -9.0, -0.4)
    assert stop_rules.RULES["none can become the best"](scores, -9.0, -0.5)


def test_random_sentences_have_no_symbol_inside():
    ids = random_sentences([30] * 20)
    assert (ids[:, :-1] > END).all()
    assert (ids[:, -1] == END).all()


def test_the_probabilities_of_a_table_sum_to_1():
    model = TableModel("ab", {"<s>": {"a": 0.25, "b": 0.75}})
    assert model.table[[1, 2, 4, 5]].sum(1).tolist()[2:] == pytest.approx([1, 1])
    rows = model.table.sum(1)
    assert all(float(row) == pytest.approx(1) for row in rows if float(row) > 1e-20)


# ---- dragoman paper


def column(table, name):
    """The cells of a column."""
    (found,) = (each for each in table.columns if each.header == name)
    return [*found.cells]


def test_what_is_asked_for_goes_before_the_recipe_and_the_paper():
    subject = subject_of("big", None)
    cost = report_on(subject, 25, 7, 11, 2.0, 3).cost
    assert (cost.updates, cost.tokens, cost.hours, cost.gpus) == (7, 11, 2.0, 3)
    assert cost.estimated_flops == estimated_flops(2.0, 3)
    recipe = replace(subject.recipe, training=replace(subject.recipe.training, updates=5))
    assert report_on(replace(subject, recipe=recipe), 25, 7).cost.updates == 7
    assert report_on(replace(subject, recipe=recipe), 25).cost.updates == 5


def test_the_cost_is_that_of_the_target_vocabulary():
    subject = replace(subject_of("tiny", None), source_vocabulary=100, target_vocabulary=500)
    recipe = replace(subject.recipe, model=replace(subject.recipe.model, tied="target"))
    subject = replace(subject, recipe=recipe)
    cost = report_on(subject, 10).cost
    assert sum(cost.by_part.values()) == pytest.approx(10 * cost.per_target_token)
    assert report_on(replace(subject, source_vocabulary=900), 10).cost == cost


def test_the_tables_of_the_report_have_each_number_below_its_name():
    found = report_on(subject_of("C6", 37_000), 10)
    table = page.parameter_table(replace(found, source_vocabulary=100, target_vocabulary=500))
    assert "100 and 500 tokens" in table.title
    *parts, total, paper = column(table, "parameters")
    assert sum(int(part.replace(",", "")) for part in parts) == int(total.replace(",", ""))
    assert paper == "53 million"
    table = page.vocabulary_table(found)
    for row, ours, theirs in zip(
        found.table_3, column(table, "37,000 tokens"), column(table, "the paper"), strict=True
    ):
        assert float(ours) == pytest.approx(row.ours / 1e6, abs=0.006)
        assert theirs == str(row.paper)
    *parts, total = (
        int(cell.replace(",", "")) for cell in column(page.cost_table(found.cost), "multiply-adds")
    )
    assert sum(parts) == pytest.approx(total, abs=len(parts))
    cost = report_on(subject_of("base", None), 25).cost
    share = float(re.search(r"are (\d+)% of that", " ".join(page.cost_sentences(cost)))[1])
    assert share == pytest.approx(100 * cost.counted_flops / cost.estimated_flops, abs=0.51)


def test_a_row_is_named_beside_a_recipe_of_another_name():
    found = report_on(subject_of("C6", None), 10)
    assert "of Table 3" not in page.parameter_table(found).title
    assert ", C6 of Table 3" in page.parameter_table(replace(found, name="my.toml")).title


def test_departures_say_what_is_here_and_what_is_in_the_paper():
    departed = [Departure("a", False, True, "3.1"), Departure("b", None, 7, ""), Departure("c", 0, None, "")]
    found = replace(report_on(subject_of("base", None), 10), departures=departed, fixed=(("d", "x", "y"),))
    table = page.departure_table(found)
    assert column(table, "here") == ["False", "chosen when a run begins", "0", "y"]
    assert column(table, "the paper") == ["True", "7", "none", "x"]


def test_a_row_of_table_3_is_told_by_model_and_label_smoothing():
    for row in TABLE3.rows:
        assert row_of(subject_of(row.name, None)) == row


def test_the_vocabulary_that_is_asked_for_goes_before_that_of_a_run(monkeypatch, tmp_path):
    monkeypatch.setattr(subjects, "read_run", lambda folder: (Recipe(), (5, 6)))
    for size, expected in ((None, (5, 6)), (99, (99, 99))):
        found = subject_of(str(tmp_path), size)
        assert (found.source_vocabulary, found.target_vocabulary) == expected


def test_settings_of_one_formula_or_search_are_in_one_section():
    schedule = SECTIONS_OF_SETTINGS["training"]
    assert len({schedule[name] for name in ("schedule", "warmup_steps", "learning_rate_scale")}) == 1
    assert set(SECTIONS_OF_SETTINGS["search"].values()) == {"6.1", NOT_GIVEN}
    named = {section for table in SECTIONS_OF_SETTINGS.values() for section in table.values()}
    assert named <= {*SECTIONS, "3", NOT_GIVEN}


@pytest.mark.parametrize("table", ["tokenizer", "model", "training"])
def test_a_setting_is_in_the_section_that_its_description_names(table):
    source = inspect.getsource(type(getattr(Recipe(), table)))
    named = re.findall(r'\n    (\w+): [^\n]*\n    """[^"]*?\(section (\d[\d.]*)[):]', source)
    sections = dict(named)
    sections.pop(
        "neighbourhood", None
    )  # section 4 introduces it, section 3.2.3 says that all are attended to
    assert sections.items() <= SECTIONS_OF_SETTINGS[table].items()


def test_the_verdict_of_the_quick_form_says_so(monkeypatch, capsys, tmp_path):
    from dragoman_paper.cli import lab

    monkeypatch.setattr(report, "write_result", lambda *_: None)
    for quick in (True, False):
        result = Result({}, Drawing("lab", "t", "d"), "does not hold", "because.")
        tried = replace(experiment("a", "4"), run=lambda quick, result=result: result)
        lab.run(tried, lab.Lab("a", quick=quick, out=tmp_path))
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == ("In the quick form: does not hold." if quick else "Does not hold.")


def test_files_of_scored_trees_are_what_they_are_named(command_line, tmp_path):
    trees, gold = tmp_path / "trees", tmp_path / "gold"
    trees.write_text("(TOP (S (NP (NN a)) (VP (VB b))))\n")
    gold.write_text("(TOP (S (X-Y (DT a) (VBZ b))))\n")
    out = tmp_path / "out", tmp_path / "gold-out"
    files = "--bracketed", "--output", out[0], "--gold-output", out[1]
    assert command_line("parse-f1", trees, gold, *files)[0] == 0
    assert [path.read_text() for path in out] == [
        "(TOP (S (NP (DT a)) (VP (VBZ b))))\n",
        "(TOP (S (X (DT a) (VBZ b))))\n",
    ]
    for option in ("--output", "--gold-output"):
        for path in (trees, gold):
            before = path.read_text()
            assert command_line("parse-f1", trees, gold, "--bracketed", option, path)[0] == 2
            assert path.read_text() == before


def test_the_mean_of_a_point_has_its_spread_over_seeds(monkeypatch, tmp_path):
    from dragoman_paper.cli import reproduce
    from dragoman_paper.figures import learning_curves as drawing
    from dragoman_paper.tables import curve_cells, curves_page

    scores, drawn = [10.0, 14.0], []
    point = curve_cells.CurvePoint("lstm", 1000, [SimpleNamespace(bleu=score) for score in scores])
    monkeypatch.setattr(curve_cells, "run_curves", lambda request: [point])
    monkeypatch.setattr(curves_page, "write_curves", lambda request, points: "page")
    monkeypatch.setattr(drawing, "learning_curves", lambda points, about: drawn.extend(points) or "")
    request = SimpleNamespace(seeds=2, folder=tmp_path, scale=SimpleNamespace(about=""))
    assert reproduce.curves_page(request) == "page"
    assert [(each.mean, each.spread) for each in drawn] == [(fmean(scores), pytest.approx(8**0.5))]
    assert json.dumps(drawn[0].pairs) == "1000"


def test_a_preview_runs_the_quick_form_of_a_scale(monkeypatch, command_line, tmp_path):
    from dragoman_paper.cli import reproduce

    asked, scale = [], TABLE3.scale("multi30k")
    monkeypatch.setattr(reproduce, "make_page", asked.append)
    for options in ([], ["--quick"]):
        assert command_line("reproduce", "table3", "--seeds", 2, "--out", tmp_path, *options)[0] == 0
    assert [(request.scale, request.seeds) for request in asked] == [(scale, 2), (scale.quick(), 2)]


def test_before_its_maximum_length_a_hypothesis_may_still_gain_by_its_length(monkeypatch):
    calls = []
    monkeypatch.setattr(stop_rules, "RULES", {"never": lambda scores, now, bound: calls.append((now, bound))})
    following = {word: {"a": 0.5, "b": 0.3, "</s>": 0.2} for word in ("<s>", "a", "b")}
    stop_rules.searches(TableModel("ab", following), random_sentences([3, 5]))
    assert len(calls) > 4
    assert all(bound > now for now, bound in calls)


@pytest.mark.parametrize("heads", [1, 2])
def test_the_model_in_numpy_has_the_probabilities_of_the_built_one(heads):
    settings = ModelSettings(
        d_model=8, d_ff=12, heads=heads, d_k=3, d_v=5, encoder_layers=1, decoder_layers=2
    )
    model, source, target = random_transformer(settings), random_sentences([4]), random_sentences([3], seed=2)
    with torch.no_grad():
        expected = model.logits(model.decode(target, model.encode(source))[0]).softmax(-1)[0].numpy()
    named = {name: weight.numpy() for name, weight in weights(model).items()}
    found = probabilities(source[0].tolist(), target[0].tolist(), named, settings)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_attention_of_tutorials_is_the_packages_with_its_mask():
    torch.manual_seed(1)
    ours, theirs = MultiHeadAttention(12, 2, 6, 6).double(), TutorialAttention(12, 2).double()
    blocks = ours.query_key_value.weight.detach().split(ours.widths)
    for linear, block in zip((theirs.w_q, theirs.w_k, theirs.w_v), blocks, strict=True):
        linear.weight.data = block.clone()
    theirs.w_o.weight.data = ours.output.weight.detach().clone()
    x, y = torch.randn(2, 2, 4, 12, dtype=torch.float64)
    mask = torch.rand(2, 1, 4, 4) > 0.5
    mask[..., 0] = True
    for allowed in (None, mask):
        expected = ours.attend(ours.project_query(x), ours.project_memory(y), allowed)
        torch.testing.assert_close(theirs(x, y, y, allowed), expected)


def test_batch_normalisation_takes_its_means_over_tokens_that_are_not_drawn_too():
    count = 70
    found = fake(source=tuple(f"t{number}" for number in range(count)))
    taken = np.random.default_rng(3).normal(1, 2, (count, 4)).astype(np.float32)
    words = words_of(measured_pictures.normalisation_picture(measured.Normalisation(found, taken, taken), 0))
    place = words.index("batch norm") + 3
    numbers = zip(taken.mean(0), taken.std(0), strict=True)
    assert words[place : place + 8] == [decimal(float(number)) for pair in numbers for number in pair]


def test_two_files_of_trees_are_two_however_they_are_named(command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "trees").write_text("(TOP (S (NP (NN a)) (VP (VB b))))\n")
    files = "--output", "out", "--gold-output", "folder/../out"
    status, _, err = command_line("parse-f1", "trees", "trees", "--bracketed", *files)
    assert (status, "give two files" in err, (tmp_path / "out").exists()) == (2, True, False)

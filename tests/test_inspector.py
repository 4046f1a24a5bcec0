"""Laws of the inspector page: what it shows of random inspections is what Python computes of them."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from dragoman import SearchSettings
from dragoman.inspection.analyse.changes import SETTINGS, parse_changes
from dragoman.inspection.analyse.methods import METHODS, UNSIGNED
from dragoman.inspection.analyse.statistics import head_alignments, statistics
from dragoman.inspection.analyse.steps import steps
from dragoman.inspection.analyse.summaries import (
    decisions,
    mean_norms,
    mean_shares,
    products_by_distance,
    wavelengths,
)
from dragoman.inspection.analyse.value_zeroing import ValueZeroing
from dragoman.inspection.contents import SizeLimits, contents, overview
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.record.masks import PADDING, Masks
from dragoman.inspection.record.neurons import SIDES, Neurons, most_active, most_active_of_layer
from dragoman.inspection.record.record import Origin
from dragoman.inspection.record.words import by_words
from dragoman.inspection.schema import MAX_ACTIVE, array_json, to_json
from dragoman.inspection.views.drawing import visible
from dragoman.inspection.views.labels import SUBLAYERS, in_window
from dragoman.inspection.what_if import WhatIf
from tests.browser import browser  # noqa: F401
from tests.conftest import MODELS, VARIANTS
from tests.inspector import (
    Inspector,
    Number,
    assert_map,
    assert_rows,
    assert_scale,
    assert_table,
    fixed,
    halves,
    inspector,  # noqa: F401
    inspector_page,  # noqa: F401
    is_shown,
    percent,
    shares_of,
)
from tests.random_inspections import random_activations, random_attribution, random_inspection
from tests.test_inspection import LINES, translator_of
from tests.test_report import fake_inspection, fake_nodes, likeliest

SEEDS = [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
KIND_NAMES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
SIDE_NAMES = {"encoder": "Encoder", "decoder": "Decoder"}


def side_tokens(inspection, side):
    """The tokens of a side; the decoder's positions have the tokens that they predict."""
    return inspection.source if side == "encoder" else inspection.target


# ---- attention

STATISTICS = {
    "entropy": ("Entropy", "nats"),
    "distance": ("Mean distance", "tokens"),
    "previous": ("Share on the previous position", ""),
    "same": ("Share on the same position", ""),
    "next": ("Share on the next position", ""),
    "edge": ("Share on END", ""),
    "punctuation": ("Share on punctuation", ""),
    "alignment": ("Agreement with the word alignment", ""),
}


def statistic_names(kind):
    """Of each statistic of a kind its name and its unit."""
    found = dict(STATISTICS)
    if kind == "decoder":
        found["edge"] = ("Share on START", "")
    if kind != "cross":
        del found["alignment"]
    return found


def attention_states(inspection, random, count):
    """Random choices in the attention view: each kind in tokens and in words, then others."""
    kinds = [*product(KINDS, ("tokens", "words"))]
    kinds += [kinds[int(random.integers(len(kinds)))] for _ in range(count - len(kinds))]
    states = []
    for kind, unit in kinds:
        layers, heads, queries, _ = inspection.attention.of(kind).shape
        order = str(random.choice(["layer", *statistic_names(kind)]))
        place, query = int(random.integers(layers * heads)), int(random.integers(queries))
        states.append({"kind": kind, "unit": unit, "order": order, "place": place, "query": query})
    return states


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_is_shown_as_it_is(inspector, seed):  # noqa: F811
    guided = 2 if seed == 1 else None
    inspection, random = random_inspection(seed, alignment_head=guided), np.random.default_rng(seed)
    states = attention_states(inspection, random, 8)
    inspector.show(inspection)
    for shown in inspector.run("(states) => attentionStates(states)", states):
        check_attention(inspection, **shown["state"], shown=shown)


def check_attention(inspection, kind, unit, order, place, query, shown):
    layers, heads = inspection.attention.of(kind).shape[:2]
    tables, names = statistics(inspection)[kind], statistic_names(kind)
    places = [*product(range(layers), range(heads))]
    if order != "layer":
        places.sort(key=lambda each: -round(tables[order][each], 4))
    layer, head = places[place]
    assert shown["title"] == f"Layer {layer + 1}, head {head + 1}"
    assert (shown["chosen"], shown["faults"]) == (place, [])
    cells = [f"Layer {each[0] + 1}, head {each[1] + 1}" for each in places]
    if order != "layer":
        numbers = [cell.removeprefix(f"{name}, ") for cell, name in zip(shown["cells"], cells, strict=True)]
        assert_rows([numbers], [[Number(tables[order][each], 2, 1e-4) for each in places]])
    else:
        assert shown["cells"] == cells

    in_words = unit == "words"
    known = by_words(inspection) if in_words else inspection
    weights = known.attention.of(kind)[layer, head]
    weights = np.rint(weights * 255) / 255 if in_words else halves(weights)
    queries = known.source if kind == "encoder" else known.target
    keys = known.decoder_inputs if kind == "decoder" else known.source
    rows_are = "query" if kind == "encoder" else "predicts"
    assert_table(
        shown,
        f"Weights of layer {layer + 1}, head {head + 1} as a table",
        [rows_are.capitalize(), *keys],
        [[name, *map(Number, row)] for name, row in zip(queries, weights, strict=True)],
    )
    (legend,), (found,) = shown["legends"], shown["maps"]
    assert_scale(legend)
    assert [name for _, name in legend["marks"]] == ["0", "0.1", "0.5", "1"]
    assert [share for share, _ in legend["marks"]] == pytest.approx([0, 100 * 0.1**0.5, 100 * 0.5**0.5, 100])
    corner = rows_are, "key"
    assert_map(
        found, legend, rows=queries, columns=keys, corner=corner, values=weights, shares=np.sqrt(weights)
    )
    head_names = [f"{name} ({measure})" if measure else name for name, measure in names.values()]
    assert_table(
        shown,
        "Statistics of all heads as a table",
        ["Layer.head", *head_names],
        [
            [f"{each[0] + 1}.{each[1] + 1}", *(Number(tables[name][each], 3, 6e-5) for name in names)]
            for each in places
        ],
    )
    for key, (name, measure) in names.items():
        number, _, after = shown["facts"][name].partition(" ")
        assert is_shown(number, Number(tables[key][layer, head], 2, 6e-5)), name
        assert after == measure
    check_lines(shown["lines"], {(0, head): weights}, queries, keys, rows_are)
    of_layer = known.attention.of(kind)[layer]
    of_layer = np.rint(of_layer * 255) / 255 if in_words else halves(of_layer)
    check_lines(shown["layerLines"], dict(enumerate(of_layer)), queries, keys, rows_are)
    check_query(inspection, kind, layer, head, query, shown["query"])
    if kind == "cross":
        check_alignment(inspection, layer, head, shown)
    else:
        assert shown["alignment"] is None


def check_lines(found, heads, queries, keys, rows_are):
    """A line for each weight of at least 0.02. `heads`: weights by the head's place, or (0, its place)."""
    assert found["heads"] == [rows_are, "", "key"]
    expected = []
    for head, weights in heads.items():
        group = (head[1] if isinstance(head, tuple) else head) % 8
        for row, column in zip(*np.nonzero(weights >= 0.02), strict=True):
            expected.append((int(row), int(column), weights[row, column], f"group-{group}"))
    assert [(line[0], line[1], line[3]) for line in found["lines"]] == [
        (row, column, group) for row, column, _, group in expected
    ]
    opacities = [line[2] for line in found["lines"]]
    assert opacities == pytest.approx([weight for _, _, weight, _ in expected], abs=1e-6)
    for side, tokens, others in ((0, queries, keys), (1, keys, queries)):
        for place, (name, token) in enumerate(zip(found["buttons"][side], tokens, strict=True)):
            ends = sorted((line for line in expected if line[side] == place), key=lambda line: -line[2])[:3]
            start, _, rest = name.partition(": ")
            assert start == token
            if not ends:
                assert rest == "no line"
                continue
            for text, line in zip(rest.split(", "), ends, strict=True):
                other, _, number = text.rpartition(" ")
                assert other == others[line[1 - side]]
                assert is_shown(number, Number(line[2], 2)), (name, line)


def check_query(inspection, kind, layer, head, query, found):
    """One query in numbers, with the first four numbers of each vector."""
    one = steps(inspection, kind, layer + 1, head + 1, query + 1)
    keys = inspection.decoder_inputs if kind == "decoder" else inspection.source
    tokens = side_tokens(inspection, "encoder" if kind == "encoder" else "decoder")
    assert found["label"].startswith("Query 1:" if kind == "encoder" else "Query that predicts 1:")
    assert f"{len(tokens)}: {tokens[-1]}" in found["label"]
    assert ("Later keys are masked" in found["text"]) == (kind == "decoder")
    d_k, d_v = one.keys.shape[1], one.values.shape[1]
    sizes = f"q is 1 × {d_k}, K is {len(keys)} × {d_k}, V is {len(keys)} × {d_v}, √dk is {d_k**0.5:.3f}."
    assert sizes in found["text"]
    bias = " + b" if inspection.model.attention_bias else ""
    assert found["head"] == [
        *["Key", f"kx WK{bias}", "q · k", "Scaledq · k / √dk", "Masked−∞ if not allowed"],
        *["Softmaxover all keys", f"vx WV{bias}"],
    ]

    def vector(text, numbers):
        cells = text.replace("…", "").split()
        assert len(cells) == min(4, len(numbers))
        assert ("…" in text) == (len(numbers) > 4)
        assert all(is_shown(*pair) for pair in zip(cells, map(number, numbers[:4]), strict=True)), text

    def number(value, digits=3):
        return Number(value, digits, 2e-3 * max(abs(value), 1) if np.isfinite(value) else 0)

    first, *rows, last = found["rows"]
    assert first[0] == f"qx WQ{bias}"
    vector(first[1], one.query)
    vector(last[2], one.output)
    assert len(rows) == len(keys)
    for place, row in enumerate(rows):
        assert row[0] == keys[place]
        vector(row[1], one.keys[place])
        scaled = one.scaled[place]
        expected = [
            number(one.scores[place]),
            number(scaled),
            number(scaled if one.allowed[place] else -np.inf),
        ]
        assert all(is_shown(*pair) for pair in zip(row[2:5], expected, strict=True)), row
        weight = float(halves(one.weights)[place])
        assert is_shown(row[5], Number(weight, 4)), row
        assert found["bars"][place] == pytest.approx(100 * weight, abs=1e-3)
        vector(row[6], one.values[place])


def check_alignment(inspection, layer, head, shown):
    """The word alignment, and the words for which the head's is another one."""
    words = by_words(inspection)
    links = head_alignments(inspection)[layer][head]
    aligned = {word: source for source, word in inspection.alignment}
    others = [word for word in links if word in aligned and aligned[word] != links[word]]
    both = [word for word in links if word in aligned]
    expected = [(source, word, "group-0") for source, word in inspection.alignment]
    expected += [(links[word], word, "group-1 dashed") for word in others]
    found = shown["alignment"]
    assert [(line[0], line[1], line[3]) for line in found["lines"]] == expected
    assert found["heads"] == ["source", "", "translation"]
    assert_table(
        shown,
        "Word alignment as a table",
        ["Source word", "Word of the translation"],
        [[words.source[source], words.target[word]] for source, word in inspection.alignment],
    )
    assert_table(
        shown,
        f"Where the word alignment differs: {len(others)} of {len(both)} words",
        ["Word of the translation", "This head attends most to", "Word alignment"],
        [[words.target[each], words.source[links[each]], words.source[aligned[each]]] for each in others],
    )
    number = inspection.model.alignment_head
    by_heads = "averaged over its heads" if number is None else f"head {number}"
    assert f"from the weights of the last layer, {by_heads}." in shown["text"]


def test_the_lines_of_a_layer_have_eight_colours_in_turn(inspector):  # noqa: F811
    inspection = fake_inspection(3, 4, 1, 11, 22)
    inspector.show(inspection)
    found = inspector.run(
        """async () => {
          await tab("Attention");
          await button("Lines of the layer's heads");
          return linesOf(labelled("The head"));
        }"""
    )
    heads = dict(enumerate(halves(inspection.attention.cross[0])))
    check_lines(found, heads, inspection.target, inspection.source, "predicts")


# ---- decoding steps


def choices(random, *sizes):
    """Random places, one below each size."""
    return [int(random.integers(size)) for size in sizes]


def check_bars(found, tokens, caption=None):
    """Bars of tokens with log-probabilities: names, widths, shares, and the numbers of their titles."""
    if caption is not None:
        assert found["caption"] == caption
    for row, (token, exact) in zip(found["rows"], tokens, strict=True):
        name, width, share, title = row
        log_probability = round(exact, 4)
        assert (name, share) == (token, percent(np.exp(log_probability)))
        assert width == pytest.approx(100 * np.exp(log_probability), abs=1e-3)
        assert is_shown(title.removeprefix("log-probability "), Number(log_probability, 4))


def pairs(tokens):
    """Tokens with their log-probabilities."""
    return [(each.token, each.log_probability) for each in tokens]


@pytest.mark.short_form
@pytest.mark.parametrize("seed", SEEDS)
def test_a_decoding_step_is_that_of_the_data(inspector, seed):  # noqa: F811
    inspection, random = random_inspection(seed), np.random.default_rng(seed)
    weights, keys = inspection.attention.decoder, inspection.decoder_inputs
    layers, heads, size, _ = weights.shape
    states = [[layers - 1, None, 1]]  # at first
    states += [
        [layer, head, step + 1] for layer, head, step in [choices(random, layers, heads, size) for _ in "ab"]
    ]
    states += [[choices(random, layers)[0], None, size]]
    inspector.show(inspection)
    lists = [[["tab", "Decoding steps"]]]
    for layer, head, step in states[1:]:
        lists.append(
            [["give", "Layer", layer], ["give", "Head", -1 if head is None else head], ["give", "Step", step]]
        )
    for (layer, head, step), shown in zip(states, inspector.walk(lists), strict=True):
        numbers = halves(weights[layer].mean(0) if head is None else weights[layer, head])
        rows = [
            [
                key,
                inspection.target[row],
                *(Number(numbers[row, column]) if column <= row else "masked" for column in range(size)),
            ]
            for row, key in enumerate(keys)
        ]
        assert_table(shown, "Weights of all steps as a table", ["Query", "Predicts", *keys], rows)
        weighed, likely = shown["bars"]
        assert weighed["caption"] == f"Keys of the query {keys[step - 1]}, with its weights"
        for place, (name, width, number, _) in enumerate(weighed["rows"]):
            assert name == keys[place]
            if place < step:
                assert is_shown(number, Number(numbers[step - 1, place]))
                assert width == pytest.approx(100 * numbers[step - 1, place], abs=1e-3)
            else:
                assert (width, number) == (None, "masked")
        extended = inspection.best_path[step - 1]
        check_bars(likely, pairs(inspection.candidates[extended]), "Likeliest next tokens")
        assert f"Predicted: {inspection.target[step - 1]}Likeliest" in shown["text"]
        assert f"{step} of {size}" in shown["text"]
        assert [names for _, names, _ in shown["options"]] == [
            [str(number + 1) for number in range(layers)],
            ["mean of all", *(str(number + 1) for number in range(heads))],
        ]


def test_keys_change_the_step_but_for_those_of_a_control(inspector):  # noqa: F811
    inspection = random_inspection(1)
    last = len(inspection.target)
    inspector.show(inspection)
    found = inspector.run(
        """async (keys) => {
          await tab("Decoding steps");
          const panel = view().querySelector(".steps");
          const found = [];
          for (const start of [1, 2, Number(field("Step").max)]) {
            for (const name of keys) {
              for (const place of [panel, field("Step"), field("Layer")]) {
                await give(field("Step"), start);
                const isHandled = await key(name, place);
                found.push([start, name, place === panel, isHandled, Number(field("Step").value),
                  panel.ariaLabel, all(".steps tr").findIndex((row) => row.className === "query")]);
              }
            }
          }
          return found;
        }""",
        ["ArrowLeft", "ArrowRight", "Home", "End", "x"],
    )
    for start, key, is_panel, is_handled, after, label, query in found:
        moved = {"ArrowLeft": start - 1, "ArrowRight": start + 1, "Home": 1, "End": last}.get(key)
        expected = min(max(moved, 1), last) if is_panel and moved is not None else start
        assert (after, label, query) == (expected, f"Step {expected}", expected - 1), (start, key)
        assert is_handled == (is_panel and moved is not None)


# ---- embeddings


def test_tokens_numbers_and_neighbours_are_those_of_the_data(inspector):  # noqa: F811
    inspection = random_inspection(1)
    inspector.show(inspection)
    (shown,) = inspector.walk([[["tab", "Embeddings"]]])
    found = inspector.run(
        """() => ({
          words: all(".tokenisation").map((table) => all("tr", table).map((row) =>
            [...row.children].slice(1).map((each) => [textOf(each), each.colSpan]))),
          near: all(".nearest").map((table) => all("tr", table).map((row) => [...row.children].map(textOf))),
          titles: all("section[aria-label]", view()).map((each) => [each.ariaLabel, textOf(each)]),
        })"""
    )
    titles = dict(found["titles"])
    assert list(titles) == [
        "Tokens of the sentence",
        "Tokens of the translation",
        "Source embedding",
        "Target embedding, output projection",
    ]
    words = by_words(inspection)
    for rows, side in zip(found["words"], ("source", "target"), strict=True):
        numbers = list(getattr(inspection, f"{side}_words"))
        expected = [[name, numbers.count(word)] for word, name in enumerate(getattr(words, side))]
        tokens, ids = getattr(inspection, side), getattr(inspection, f"{side}_ids")
        assert rows == [expected, [[token, 1] for token in tokens], [[str(number), 1] for number in ids]]
    cosines = []
    for rows, matrix in zip(found["near"], inspection.neighbours, strict=True):
        for row, (token, near) in zip(rows, matrix.tokens, strict=True):
            assert row[0] == token
            for text, (other, cosine) in zip(row[1:], near, strict=True):
                assert text.startswith(other)
                number = Number(cosine, 2 if cosine < 0.995 else 4, 6e-5)
                assert is_shown(text.removeprefix(other).strip(), number)
        cosines.append(
            [
                [token, other, Number(cosine, 4, 6e-5)]
                for token, near in matrix.tokens
                for other, cosine in near
            ]
        )
        title = ", ".join(matrix.parts)
        tied = "These parts of the model share one matrix" in titles[title[0].upper() + title[1:]]
        assert tied == (len(matrix.parts) > 1)
    tables = [rows for title, _, rows in shown["tables"] if title == "Cosines as a table"]
    for rows, expected in zip(tables, cosines, strict=True):
        assert_rows(rows, expected)


# ---- positions


@pytest.mark.parametrize("seed", SEEDS)
def test_positions_and_their_products_are_those_of_the_data(inspector, seed):  # noqa: F811
    kinds = {1: "sinusoidal-halves", 2: "learned", 3: "sinusoidal"}
    inspection = random_inspection(seed, positions=kinds[seed])
    inspection = replace(inspection, positions=inspection.positions - 0.3 * (seed == 3))
    inspector.show(inspection)
    (shown,) = inspector.walk([[["tab", "Positions"]]])
    table, is_shared = halves(inspection.positions), inspection.model.positions != "learned"
    size, width = table.shape

    def named(tokens, place):
        return tokens[place] if place < len(tokens) else ""

    sides = [inspection.source] * is_shared + [inspection.decoder_inputs]
    rows = [
        [position, *(named(tokens, position) for tokens in sides), *(Number(value, 2) for value in row)]
        for position, row in enumerate(table)
    ]
    head = ["Position", *["Source token"] * is_shared, "Decoder input", *range(width)]
    assert_table(shown, "Position table as numbers", head, rows)
    periods = wavelengths(inspection.model.positions, width)

    def wave(period):
        return f"{period:,.2f}" if period < 100 else f"{round(period):,}"

    if is_shared:
        assert_table(
            shown,
            "Wavelengths as a table",
            ["Dimension", "Positions"],
            [[dimension, wave(round(period, 2))] for dimension, period in enumerate(periods)],
        )
    products = products_by_distance(inspection.positions)
    assert_table(
        shown,
        "Dot products as a table",
        ["Distance", "Least", "Mean", "Greatest"],
        [[distance, *(Number(value, 3, 6e-5) for value in row)] for distance, row in enumerate(products)],
    )
    (legend,), (plot,) = shown["legends"], shown["plots"]
    assert_scale(legend)
    most = np.abs(table).max()
    marks = [text for _, text in legend["marks"]]
    assert_rows([marks], [[Number(-most, 2), "0", Number(most, 2)]])
    check_products(plot, products)
    cells = inspector.run(
        """async () => {
          const canvas = view().querySelector(".position-map canvas");
          const cells = [];
          for (let cell = 3; cell < canvas.width * canvas.height; cell += 17) {
            moveTo(canvas, Math.floor(cell / canvas.width), cell % canvas.width);
            await pause();
            cells.push([cell, textOf(view().querySelector(".readout"))]);
          }
          return { cells, colours: coloursOf(canvas), names: ["left", "right"].map((side) =>
            all(`.position-names.${side} > span`).map(textOf)) };
        }"""
    )
    np.testing.assert_allclose(
        np.interp(table.ravel(), [-most, most], [0, 1]),
        shares_of(cells["colours"], legend),
        atol=0.016,
    )
    for cell, text in cells["cells"]:
        position, dimension = divmod(cell, width)
        start = f"position {position}, dimension {dimension}"
        start += f", wavelength {wave(round(periods[dimension], 2))}: " if is_shared else ": "
        assert text.startswith(start)
        assert is_shown(text.removeprefix(start), Number(table[position, dimension]))
    left = [
        f"{place} {named(inspection.source, place)}".strip() if is_shared else str(place)
        for place in range(size)
    ]
    assert cells["names"] == [left, [named(inspection.decoder_inputs, place) for place in range(size)]]


def check_products(plot, products):
    """The line and the band of the plot are on its scale, and the scale has the numbers beside it."""
    (curve,), (band,) = (points for _, points in plot["curves"]), plot["bands"]
    points, marks = np.reshape(curve, (-1, 2)), np.array(plot["marks"])
    np.testing.assert_allclose(points, marks)
    heights = scale_of(plot)
    np.testing.assert_allclose(heights(products[:, 1]), points[:, 1], atol=0.05)
    edges = np.reshape(band, (2, -1, 2))
    np.testing.assert_allclose(heights(products[:, 2]), edges[0, :, 1], atol=0.05)
    np.testing.assert_allclose(heights(products[::-1, 0]), edges[1, :, 1], atol=0.05)
    heights_drawn = [*edges[..., 1].ravel(), heights(0)]
    assert min(heights_drawn) >= 10
    assert max(heights_drawn) <= plot["size"][1] - 36
    steps = np.diff(points[:, 0])
    assert steps.min() > 0
    np.testing.assert_allclose(steps, steps[0])
    assert 0 < points[0, 0] < 100 < plot["size"][0] - 100 < points[-1, 0] <= plot["size"][0]


def scale_of(plot):
    """The height of a number in a plot, as the numbers beside its lines say; they are round and increase."""
    labels = [(float(text.replace(",", "").replace("−", "-")), height) for text, height in plot["heights"]]
    (low, bottom), (high, top) = labels[0], labels[-1]
    assert len(labels) >= 2
    assert low < high
    assert bottom > top
    gaps = np.diff([number for number, _ in labels])
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-4)
    assert float(f"{gaps[0]:.3e}"[:5]) in (1, 2, 5)
    span = (plot["size"][1] - 46) / (bottom - top) * (high - low)
    assert 1.9 < span / gaps[0] < 5.1, "about four lines"
    return lambda numbers: bottom + (np.asarray(numbers) - low) * (top - bottom) / (high - low)


# ---- residual stream


@pytest.mark.parametrize("seed", SEEDS)
def test_the_stream_and_its_lens_are_those_of_the_data(inspector, seed):  # noqa: F811
    inspection, random = (
        random_inspection(seed, norm="pre" if seed == 2 else "post"),
        np.random.default_rng(seed),
    )
    layers, size = len(inspection.lens), len(inspection.target)
    cells = [(layers - 1, 0), choices(random, layers, size)]
    lists = [
        [["tab", "Residual stream"]],
        [["cell", cells[1][0] * size + cells[1][1]]],
        [["button", "Encoder"]],
    ]
    inspector.show(inspection)
    *with_lens, encoder = inspector.walk(lists)
    check_norms(inspection, "encoder", encoder)
    assert not any(title.startswith("Logit lens") for title, _, _ in encoder["tables"])
    for cell, shown in zip(cells, with_lens, strict=True):
        check_norms(inspection, "decoder", shown)
        check_lens(inspection, *cell, shown)


def check_norms(inspection, side, shown):
    norms, parts = getattr(inspection.stream, side), getattr(inspection.stream, f"{side}_sublayers")
    tokens, numbers = side_tokens(inspection, side), halves(norms)
    names = ["embedding", *(str(layer + 1) for layer in range(len(parts)))]
    assert_table(
        shown,
        "Norms as a table",
        ["Layer", *tokens],
        [
            [name, *(Number(value, 2, 1e-6) for value in row)]
            for name, row in zip(names, numbers, strict=True)
        ],
    )
    (legend,), (found,), most = shown["legends"], shown["maps"], numbers.max()
    assert_scale(legend)
    assert_rows([[text for _, text in legend["marks"]]], [["0", Number(most / 2, 1), Number(most, 1)]])
    corner = "layer", "token" if side == "encoder" else "predicts"
    assert_map(
        found,
        legend,
        rows=names,
        columns=tokens,
        corner=corner,
        values=numbers,
        shares=numbers / most,
        digits=2,
    )
    added = ["the layer's input", *SUBLAYERS["transformer"][side == "decoder"]]
    means, fractions = mean_norms(norms, parts), mean_shares(norms, parts)
    for title, table, digits in (("Mean norms as a table", means, 2), ("Shares as a table", fractions, 3)):
        rows = [
            [layer + 1, *(Number(value, digits, 6e-5) for value in row)] for layer, row in enumerate(table)
        ]
        assert_table(shown, title, ["Layer", *added], rows)
    for spans, row in zip(shown["stacks"], fractions, strict=True):
        for (width, text, title), name, exact in zip(spans, added, row, strict=True):
            share = round(exact, 4)
            assert width == pytest.approx(100 * share, abs=1e-3)
            assert title == f"{name}: {percent(share)}"
            assert text == (percent(share) if share > 0.1 else "")
    assert ("(post-norm)" in shown["text"]) == (inspection.model.norm == "post")
    assert ("Each column is the position that predicts" in shown["text"]) == (side == "decoder")


def check_lens(inspection, layer, position, shown):
    lens, target, decided = inspection.lens, inspection.target, decisions(inspection)
    layers, size = len(lens), len(target)
    rows = [
        [
            row + 1,
            target[place],
            decided[place] or "",
            ", ".join(
                f"{each.token} {percent(np.exp(round(each.log_probability, 4)))}" for each in lens[row][place]
            ),
        ]
        for row, place in product(range(layers), range(size))
    ]
    head = ["Layer", "Token of the translation", "Decided after layer", "Likeliest tokens"]
    assert_table(shown, "Logit lens as a table", head, rows)
    facts = {f"Decided after layer {row + 1}": str(decided.count(row + 1)) for row in range(layers)}
    if None in decided:
        facts["Not the likeliest after the last layer"] = str(decided.count(None))
    assert shown["facts"] == facts
    assert shown["columns"] == ["Layer", *target]
    assert shown["rows"] == [f"Layer {row + 1}" for row in range(layers)]
    for place, (name, is_chosen, width, marks) in enumerate(shown["cells"]):
        row, column = divmod(place, size)
        first = lens[row][column][0]
        share = np.exp(round(first.log_probability, 4))
        expected = f"{first.token}, {percent(share)}"
        expected += ", the token of the translation" * (first.token == target[column])
        fell = decided[column] == row + 1
        assert name == expected + ", where the decision fell" * fell
        assert is_chosen == ((row, column) == (layer, position))
        assert width == pytest.approx(100 * share, abs=1e-3)
        assert marks.split() == ["agrees"] * (first.token == target[column]) + ["decided"] * fell
    (found,) = shown["bars"]
    check_bars(
        found,
        pairs(lens[layer][position]),
        f"After layer {layer + 1}, where the translation has {target[position]}",
    )


# ---- neurons


@pytest.mark.parametrize("seed", SEEDS)
def test_neurons_are_those_of_the_data(inspector, seed):  # noqa: F811
    tokens = 7 if seed == 1 else None  # sides of equal length, which have cells in the same places
    inspection, random = random_inspection(seed, tokens, activation="gelu"), np.random.default_rng(seed)
    few = replace(contents(inspection), neurons=4)  # others are known where they are among the most active
    inspector.show(inspection, few)
    lists, states = [], []
    for side in SIDES:
        layers, size, width = inspection.neurons.of(side).shape
        cell = choices(random, layers - 1, size)
        cell[0] += 1
        first = [["tab", "Neurons"], ["button", SIDE_NAMES[side]]]
        lists += [
            first,
            [["cell", cell[0] * size + cell[1]]],
            [["give", "Neuron", width]],
            [["give", "Neuron", 0]],
        ]
        neurons = [None, None, width, 1]
        states += [(side, (0, 0) if place == 0 else tuple(cell), each) for place, each in enumerate(neurons)]
        held = most_active_of_layer(inspection.neurons.of(side), 4)[cell[0]]
        others = set((most_active(inspection.neurons.of(side), MAX_ACTIVE)[cell[0]] + 1).ravel()) - set(
            held + 1
        )
        lists.append([["give", "Neuron", int(min(others))]])
        states.append((side, tuple(cell), int(min(others))))
    for (side, cell, neuron), shown in zip(states, inspector.walk(lists), strict=True):
        check_neurons(inspection, side, *cell, neuron, shown)


def check_neurons(inspection, side, layer, token, neuron, shown):
    exact, tokens = inspection.neurons.of(side), side_tokens(inspection, side)
    numbers, (layers, size, width) = halves(exact), exact.shape
    active = most_active(exact, MAX_ACTIVE)
    most = np.abs(numbers).max()
    neuron = neuron or int(active[layer, token, 0]) + 1
    assert ("Each column is the position that predicts" in shown["text"]) == (side == "decoder")
    assert shown["faults"] == []
    for place, (name, is_chosen, bar, _) in enumerate(shown["cells"]):
        row, column = divmod(place, size)
        first = int(active[row, column, 0])
        value = numbers[row, column, first]
        start, _, rest = name.partition(": ")
        assert start == f"{tokens[column]}, layer {row + 1}"
        assert is_chosen == ((row, column) == (layer, token))
        assert bar == pytest.approx(100 * abs(value) / most, abs=1e-3)
        if value == 0:
            assert rest == "all are 0"
        else:
            number, _, shown_value = rest.removeprefix("neuron ").partition(", ")
            assert number == str(first + 1)
            assert is_shown(shown_value, Number(value, 2))
    rows = [
        [
            row + 1,
            tokens[column],
            ", ".join(f"{unit + 1}: {fixed(numbers[row, column, unit])}" for unit in active[row, column]),
        ]
        for row, column in product(range(layers), range(size))
    ]
    title = "Most active neurons of each token as a table"
    assert_table(shown, title, ["Layer", "Token", "Neurons with their activations"], rows)
    of_token, *of_neuron = shown["bars"]
    units = active[layer, token]
    assert f"Most active neurons of layer {layer + 1} at {tokens[token]};" in of_token["caption"]
    for (name, bar, number, _), unit in zip(of_token["rows"], units, strict=True):
        value = numbers[layer, token, unit]
        assert name == str(unit + 1)
        assert bar == pytest.approx(100 * abs(value) / most, abs=1e-3)
        assert is_shown(number, Number(value))
    assert shown["facts"] == {
        "Neurons in a layer": str(width),
        f"Activations that are 0, layer {layer + 1}": percent(round((exact[layer] == 0).mean(), 4)),
    }
    held = most_active_of_layer(exact, 4)
    is_held = neuron - 1 in held[layer]
    row = numbers[layer, :, neuron - 1]
    known = [is_held or neuron - 1 in active[layer, place] for place in range(size)]
    assert f"Neuron {neuron} of layer {layer + 1}" in shown["headings"]
    assert ("Only the 4 most active neurons" in shown["text"]) == (not is_held)
    command = f"dragoman inspect --show neurons --kind {side} --layer {layer + 1} --neuron {neuron} draws"
    assert (command in shown["text"]) == (not is_held)
    greatest = max([abs(row[place]) for place in range(size) if known[place]], default=0) or 1e-6
    for place, (name, share, (name_of_token, text)) in enumerate(shown["activations"]):
        assert name_of_token == tokens[place]
        value = row[place] if known[place] else 0
        assert name == ("loss" if value < 0 else "gain")
        assert share == pytest.approx(abs(value) / greatest, abs=1e-6)
        assert is_shown(text, Number(value, 2) if value else "0" if known[place] else "–")
    best = sorted(
        (place for place in range(size) if known[place] and row[place]), key=lambda place: -abs(row[place])
    )
    assert (
        [name for name, *_ in of_neuron[0]["rows"]] == [tokens[place] for place in best]
        if best
        else not of_neuron
    )
    if best:
        for (_, bar, number, _), place in zip(of_neuron[0]["rows"], best, strict=True):
            assert bar == pytest.approx(100 * abs(row[place]) / greatest, abs=1e-3)
            assert is_shown(number, Number(row[place]))
    assert_table(
        shown,
        f"Activations of neuron {neuron} as a table",
        ["Token", "Activation"],
        [
            [token, Number(row[place], 4) if known[place] else "not known here"]
            for place, token in enumerate(tokens)
        ],
    )
    rows = []
    for unit in held[layer]:
        column = numbers[layer, :, unit]
        places = [place for place in np.argsort(-np.abs(column), kind="stable") if column[place]][:3]
        rows.append(
            [
                unit + 1,
                Number(column[places[0]]),
                ", ".join(f"{tokens[place]} {fixed(column[place], 2)}" for place in places),
            ]
        )
    title = f"Most active neurons of layer {layer + 1} as a table"
    assert_table(shown, title, ["Neuron", "Greatest activation", "Tokens"], rows)


# ---- masks


def test_masks_have_the_padding_that_is_chosen(inspector):  # noqa: F811
    random = np.random.default_rng(1)
    inspection = random_inspection(1, neighbourhood=3)
    masks = Masks(*(random.random(mask.shape) < 0.5 for mask in vars(inspection.masks).values()))
    inspection = replace(inspection, masks=masks)
    inspector.show(inspection)
    lists = [[["tab", "Masks"]], [["give", "Padding tokens", 3]], [["give", "Padding tokens", PADDING]]]
    for padding, shown in zip((0, 3, PADDING), inspector.walk(lists), strict=True):
        sources, targets = (
            [*tokens, *["PAD"] * padding] for tokens in (inspection.source, inspection.decoder_inputs)
        )
        assert f"{padding} of {PADDING}" in shown["text"]
        assert "restricted to a neighbourhood of 3 positions" in shown["text"]
        sides = {
            "encoder": (sources, sources),
            "cross": (targets, sources),
            "decoder": (targets, targets),
        }
        headings = [
            "Padding: encoder self-attention",
            "Padding: encoder-decoder attention",
            "Causal: decoder self-attention",
        ]
        assert shown["headings"][:3] == headings
        assert len(shown["tables"]) == 3
        swatches = inspector.run("() => all('.swatch canvas').map((each) => coloursOf(each)[0])")
        assert inspector.run("() => all('.key > span').map(textOf)") == ["allowed", "not allowed"]
        for (name, (queries, keys)), heading, found in zip(
            sides.items(), headings, shown["maps"], strict=True
        ):
            mask = getattr(masks, name)[: len(queries), : len(keys)].astype(int)
            rows = [[query, *row] for query, row in zip(queries, mask.tolist(), strict=True)]
            assert_table(shown, f"{heading} as a table", ["Query", *keys], rows)
            assert_map(
                found, None, rows=queries, columns=keys, corner=("query", "key"), values=mask, digits=0
            )
            expected = [swatches[0] if allowed else swatches[1] for allowed in mask.ravel()]
            assert found["colours"] == expected


# ---- attribution and value zeroing


def test_an_open_table_stays_open_when_another_map_is_chosen(inspector):  # noqa: F811
    inspector.show(random_inspection(1))
    for view, option in (("Attribution", "Saliency"), ("Value zeroing", KIND_NAMES["encoder"])):
        before, after = inspector.run(
            """async ([view, option]) => {
              await tab(view);
              await openTables();
              const before = tablesOf();
              await button(option);
              return [before, tablesOf()];
            }""",
            [view, option],
        )
        assert [title for title, _, _ in before] == [title for title, _, _ in after]
        assert all(one != other for (_, _, one), (_, _, other) in zip(before, after, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_contributions_are_those_of_the_method_and_the_layer(inspector, seed):  # noqa: F811
    inspection, random = random_inspection(seed), np.random.default_rng(seed)
    if seed == 1:
        attribution = random_attribution(random, inspection, 2, with_other=True)
        inspection = replace(inspection, attribution=attribution)
    layers = len(inspection.attribution.layers)
    states = [("gradient-input", 0), ("gradient-input", layers), ("gradient-input", 1)]
    states += [(method, 0) for method in ("saliency", "lime", "reagent")]  # of the embeddings again
    others = random.permutation([method for method in METHODS if (method, 0) not in states])
    states += [(str(method), 0) for method in others[: 1 if seed == 1 else None]]
    lists = []
    for method, layer in states:
        actions = [
            ["tab", "Attribution"],
            ["press", ".choice[aria-label=Method] button", METHODS.index(method)],
        ]
        is_layer = method == "gradient-input" and layer > 0
        lists.append(actions + [["give", "Input", f"output of encoder layer {layer}"]] * is_layer)
    inspector.show(inspection)
    texts = {}
    for (method, layer), shown in zip(states, inspector.walk(lists), strict=True):
        texts[method, layer > 0] = shown["text"]
        check_contributions(inspection, method, layer, shown)
    assert "the output of the layer" in texts["gradient-input", True]
    assert "the output of the layer" not in texts["gradient-input", False]


def check_contributions(inspection, method, layer, shown):
    found, size = inspection.attribution, len(inspection.source)
    numbers = halves(found.layers[layer - 1] if layer else found.of(method))
    names = inspection.target
    if found.other:
        names = [f"{token}≠{other}" for token, other in zip(names, found.other, strict=True)]
        assert "Each row is a contrast" in shown["text"]
    has_sign, most = method not in UNSIGNED, np.abs(numbers).max()
    (legend,) = shown["legends"]
    unit = {"saliency": "Norm of the gradient, nats per unit", "reagent": "Share of importance, of 1"}
    assert legend["name"] == unit.get(method, "Contribution, nats")
    assert_scale(legend)
    marks = [[Number(-most, 2), "0", Number(most, 2)] if has_sign else ["0", Number(most, 2)]]
    assert_rows([[text for _, text in legend["marks"]]], marks)
    sides = [("source", "source", inspection.source, numbers[:, :size])]
    if not layer:
        sides.append(("target", "earlier target token", inspection.decoder_inputs, numbers[:, size:]))
    assert len(shown["maps"]) == len(sides)
    for (side, axis, columns, part), drawn in zip(sides, shown["maps"], strict=True):
        rows = [[name, *(Number(value, 4) for value in row)] for name, row in zip(names, part, strict=True)]
        assert_table(shown, f"Contributions of {side} tokens as a table", ["Target", *columns], rows)
        places = (part / most + 1) / 2 if has_sign else part / most
        assert_map(
            drawn, legend, rows=names, columns=columns, corner=("target", axis), values=part, shares=places
        )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_value_zeroing_is_that_of_the_kind_and_the_layer(inspector, seed):  # noqa: F811
    inspection = random_inspection(seed)
    depths = {kind: len(inspection.value_zeroing.of(kind)) for kind in KINDS}
    states = [(kind, layer) for kind in ("decoder", "encoder", "cross") for layer in (1, depths[kind])]
    inspector.show(inspection)
    lists = []
    for kind, layer in states:
        lists.append([["tab", "Value zeroing"], ["button", KIND_NAMES[kind]], ["give", "Layer", layer]])
    for (kind, layer), shown in zip(states, inspector.walk(lists), strict=True):
        check_zeroing(inspection, kind, layer, shown)
    deeper, other = sorted(("encoder", "decoder"), key=lambda kind: -depths[kind])
    (shown,) = inspector.walk(
        [[["button", KIND_NAMES[deeper]], ["give", "Layer", depths[deeper]], ["button", KIND_NAMES[other]]]]
    )
    check_zeroing(inspection, other, depths[other], shown)  # a layer that this kind does not have


def check_zeroing(inspection, kind, layer, shown):
    numbers = halves(inspection.value_zeroing.of(kind))[layer - 1]
    queries = side_tokens(inspection, "encoder" if kind == "encoder" else "decoder")
    keys = inspection.decoder_inputs if kind == "decoder" else inspection.source
    rows_are = "query" if kind == "encoder" else "predicts"
    rows = [
        [query, *(Number(value, 4) for value in row)] for query, row in zip(queries, numbers, strict=True)
    ]
    assert_table(shown, "Value zeroing as a table", [rows_are.capitalize(), *keys], rows)
    (legend,), (found,) = shown["legends"], shown["maps"]
    assert_scale(legend)
    assert_map(
        found,
        legend,
        rows=queries,
        columns=keys,
        corner=(rows_are, "key"),
        values=numbers,
        shares=np.sqrt(numbers),
    )
    assert f"{KIND_NAMES[kind]}, layer {layer}" in shown["headings"]


# ---- training and effects of heads


def test_curves_are_those_of_the_log(inspector):  # noqa: F811
    inspection = random_inspection(1)
    inspector.show(inspection)
    (shown,) = inspector.walk([[["tab", "Training"]]])
    training = inspection.training
    titles = {"loss": "Loss, nats per target token", "BLEU": "BLEU", "learning rate": "Learning rate"}
    last = max(step for curve in training.curves for step, _ in curve.points)
    for (chart, title), plot in zip(titles.items(), shown["plots"], strict=True):
        curves = [curve for curve in training.curves if curve.chart == chart]
        rows = [[step, curve.name, f"{value:g}"] for curve in curves for step, value in curve.points]
        assert_table(shown, f"{title} as a table", ["Update", "Curve", "Value"], rows)
        assert plot["label"] == f"{title}, by update"
        heights = scale_of(plot)
        styles = {"schedule": "trace formula-trace"}
        drawn = {name: np.reshape(points, (-1, 2)) for name, points in plot["curves"]}
        assert set(drawn) == {styles.get(curve.name, f"trace {curve.name}") for curve in curves}
        for curve in curves:
            points = drawn[styles.get(curve.name, f"trace {curve.name}")]
            places, values = np.array(curve.points).T
            np.testing.assert_allclose(points[:, 1], heights(values), atol=0.05)
            np.testing.assert_allclose(np.diff(points[:, 0]) / np.diff(places), (640 - 12 - 64) / last)
            if curve.name == "validation":
                np.testing.assert_allclose(plot["marks"], points)
        if chart != "loss":
            assert heights(0) == pytest.approx(200 - 36, abs=0.05)
    sample = training.samples[0]
    assert_table(
        shown,
        "Samples as a table",
        ["Update", "Source", "Translation", "Reference"],
        [[sample.step, sample.source, sample.translation, sample.reference]],
    )
    assert training.schedule.replace("^", "") in shown["text"]
    assert "--show-samples" not in shown["text"]
    for samples in (None, ()):
        inspector.show(replace(inspection, training=replace(training, samples=samples)))
        (shown,) = inspector.walk([[["tab", "Training"]]])
        assert ("--show-samples" in shown["text"]) == (samples is None)
        assert "Samples" not in shown["headings"]


@pytest.mark.short_form
def test_effects_of_heads_are_those_of_the_data(inspector):  # noqa: F811
    inspection = random_inspection(1)
    effects = inspection.head_effects
    inspector.show(inspection)
    (shown,) = inspector.walk([[["tab", "What if"]]])
    assert "With all heads it is −2.500." in shown["text"]
    most = max(np.abs(getattr(effects, kind)).max() for kind in KINDS)
    for kind, (head, *rows) in zip(KINDS, shown["effects"], strict=True):
        numbers = getattr(effects, kind)
        heads = [f"Head {place + 1}" for place in range(numbers.shape[1])]
        assert [text for text, *_ in head] == [KIND_NAMES[kind], *heads]
        for layer, (row, values) in enumerate(zip(rows, numbers, strict=True)):
            assert row[0][0] == f"Layer {layer + 1}"
            for (text, style, share), value in zip(row[1:], values, strict=True):
                assert text.startswith("+") == (value > 0)
                assert is_shown(text.removeprefix("+"), Number(value, 3, 6e-5))
                assert style == ("loss" if value < 0 else "gain")
                assert share == pytest.approx(abs(value) / most, abs=1e-3)


# ---- the tree of the search

SEARCHES = {
    "beam": SearchSettings(max_extra_tokens=2),
    "sampling": SearchSettings(max_extra_tokens=2, temperature=1.0, top_k=9, top_p=0.9, n_best=3),
    "forced words": SearchSettings(max_extra_tokens=2, beam_size=2, force_words=("Schnee",)),
    "groups": SearchSettings(max_extra_tokens=1, beam_size=4, groups=2, length_penalty=1.5),
    "power": SearchSettings(max_extra_tokens=1, beam_size=3, length_power=0.75, ban_words=("x",)),
}
SENTENCES = {
    "beam": ["The thick path is the translation.", "Score: log-probability / ((5 + |Y|) / 6)α, α = 0.6."],
    "sampling": [
        "Each path is a sample, drawn at temperature 1 from the 9 likeliest tokens, top p 0.9; "
        "the likeliest is the translation.",
        "Score: log-probability.",
    ],
    "forced words": [
        "There is a beam for each number of forced tokens met; the fewest are on top. Forced words: Schnee.",
        "Score: log-probability / ((5 + |Y|) / 6)α, α = 0.6.",
    ],
    "groups": [
        "The beam has 2 groups; a token loses 0.5 nats for each use in an earlier group.",
        "Score: log-probability / ((5 + |Y|) / 6)α, α = 1.5.",
    ],
    "power": [
        "The thick path is the translation. Banned words: x.",
        "Score: log-probability / |Y|p, p = 0.75.",
    ],
}
ENDS = {
    None: "An extension of it was kept.",
    "finished": "It ends with the END token.",
    "below the beam": "It ranked below the hypotheses that its beam kept.",
    "below a translation": "Its score was below that of a translation that had been found.",
    "found by another group": "Another group of the beam has the same hypothesis.",
    "no extension in the beam": "None of its extensions was kept.",
    "the search was over": "The search was over while it was in the beam.",
}


@cache
def searched(name):
    """A real search of this kind."""
    return inspect(translator_of(MODELS["transformer"]), LINES[0], SEARCHES[name])


class Placed:
    """The hypotheses of a search with their steps, and with their ranks in these."""

    def __init__(self, inspection):
        self.nodes, self.best = inspection.nodes, inspection.best_path
        self.steps = []
        for node in self.nodes:
            self.steps.append(0 if node.parent is None else self.steps[node.parent] + 1)
        self.columns = []
        for step in range(max(self.steps) + 1):
            column = [number for number, each in enumerate(self.steps) if each == step]
            met = {number: inspection.met[number].tokens if inspection.met else 0 for number in column}
            self.columns.append(
                sorted(column, key=lambda number: (met[number], -self.nodes[number].log_probability))
            )
        self.ranks = {number: rank for column in self.columns for rank, number in enumerate(column)}

    def path(self, number):
        """The numbers from the empty hypothesis to this one."""
        before = [] if self.nodes[number].parent is None else self.path(self.nodes[number].parent)
        return [*before, number]

    def best_at(self, step):
        """The hypothesis of the translation at a step, or its last one before it."""
        return [number for number in self.best if self.steps[number] <= step][-1]

    def after(self, number, key, step):
        """The hypothesis that a key moves to, if those up to a step are shown."""
        column, rank = self.columns[self.steps[number]], self.ranks[number]
        children = sorted(
            (child for child, node in enumerate(self.nodes) if node.parent == number), key=self.ranks.get
        )
        return {
            "ArrowLeft": self.nodes[number].parent or 0,
            "ArrowRight": children[0] if children and self.steps[number] < step else number,
            "ArrowUp": column[max(rank - 1, 0)],
            "ArrowDown": column[min(rank + 1, len(column) - 1)],
            "Home": 0,
            "End": self.best_at(step),
        }[key]


@pytest.mark.parametrize("name", ["random", *SEARCHES])
def test_the_tree_is_that_of_the_search(inspector, name):  # noqa: F811
    inspection = random_inspection(1) if name == "random" else searched(name)
    placed, random = Placed(inspection), np.random.default_rng(3)
    last, ended = len(placed.columns) - 1, [number for number, node in enumerate(placed.nodes) if node.cut_by]
    some, other = choices(random, len(placed.nodes), len(placed.nodes))
    states = [([], last, placed.best[1], None), ([["node", some]], last, some, None)]
    states.append(([["hover", other]], last, some, other))
    late, early = placed.best[-1], max(placed.steps[placed.best[-1]] - 1, 1)
    states.append(
        ([["leave"], ["node", late], ["give", ["Step", early]]], early, placed.best_at(early), None)
    )
    states.append(([["give", ["Step", last]], ["node", late]], last, late, None))
    kept = placed.columns[1][-1]
    states.append(([["node", kept], ["give", ["Step", 1]]], 1, kept, None))
    finished = [number for number, node in enumerate(placed.nodes) if node.end == "finished"]
    others = [number for number in finished if number not in placed.best][:1]
    states += [([["give", ["Step", last]], ["node", number]], last, number, None) for number in others]
    if ended:
        cut = max(ended, key=lambda number: placed.steps[number])
        by = placed.nodes[cut].cut_by
        button = [["give", ["Step", last]], ["node", cut], ["press", [".hypothesis button.link"]]]
        states.append((button, max(placed.steps[cut], placed.steps[by], last), by, None))
    inspector.show(inspection)
    found = inspector.run("(lists) => walkInTree(lists)", [actions for actions, *_ in states])
    for (_, step, selected, pointed), shown in zip(states, found, strict=True):
        check_tree(inspection, placed, step, selected, shown)
        check_hypothesis(inspection, placed, selected if pointed is None else pointed, shown)
    (view,) = inspector.walk([[]])
    check_nodes(inspection, placed, view)
    text, _, rest = view["text"].partition("Score: ")
    words, formula = SENTENCES.get(name, SENTENCES["beam"])
    assert text.strip().endswith(words)
    assert f"Score: {rest}".startswith(formula)


def check_tree(inspection, placed, step, selected, shown, first=0, drawn=None):
    """The boxes up to a step, and the lines between them; the path is that of the hypothesis shown below."""
    numbers = [number for number, each in enumerate(placed.steps) if first <= each <= step]
    assert [node["number"] for node in shown["nodes"]] == numbers
    last = len(placed.columns) - 1
    assert shown["step"] == f"{step} of {last}"
    shown_number = int(shown["title"].split()[1].rstrip(","))
    path, boxes = placed.path(shown_number), {}
    for node in shown["nodes"]:
        number = node["number"]
        known = placed.nodes[number]
        boxes[number] = node["left"], node["top"]
        assert node["level"] == placed.steps[number] + 1
        assert node["isSelected"] == node["isStop"] == (number == selected)
        assert node["text"] == visible(known.token)
        label = f"{visible(known.token)}, step {placed.steps[number]}, {fixed(known.log_probability, 2)}"
        label += f", {known.end or 'extended'}{', in the translation' * (number in placed.best)}"
        assert node["label"] == label
        classes = style_of(known, number in placed.best, number in path)
        assert node["classes"] == ["node", *classes]
    for number in numbers:
        step_of, rank = placed.steps[number], placed.ranks[number]
        left, top = boxes[number]
        assert left == (step_of - first) * 132 + 3
        assert top == rank * 36 + 4
        assert left + 100 <= shown["size"][0]
        assert top + 28 <= shown["size"][1]
    lines = [number for number in numbers if placed.nodes[number].parent in boxes]
    for number, (classes, points) in zip(lines, shown["edges"], strict=True):
        parent = placed.nodes[number].parent
        assert classes == style_of(placed.nodes[number], number in placed.best, number in path)
        assert points[0] + shown["shift"] == boxes[parent][0] + 100
        assert points[-2] + shown["shift"] == boxes[number][0]
        assert (points[1], points[-1]) == (boxes[parent][1] + 14, boxes[number][1] + 14)


def style_of(node, is_best, is_path):
    """The classes of a hypothesis."""
    states = {
        "no extension in the beam": "kept",
        "the search was over": "kept",
        "finished": "finished",
        None: "extended",
    }
    return [states.get(node.end, "ended"), *["best"] * is_best, *["path"] * is_path]


def check_hypothesis(inspection, placed, number, shown):
    node, nodes = placed.nodes[number], placed.nodes
    assert shown["title"] == f"Hypothesis {number}, step {placed.steps[number]}"
    assert shown["tokens"] == [visible(nodes[each].token) for each in placed.path(number)]
    best, facts = nodes[placed.best[-1]], dict(shown["facts"])
    assert is_shown(facts.pop("Log-probability, nats"), Number(node.log_probability, 4))
    assert is_shown(facts.pop("Score"), Number(node.score, 4))
    if node.parent is not None:
        share = np.exp(node.log_probability - nodes[node.parent].log_probability)
        assert facts.pop("Probability of the last token") == percent(share)
        drawn = {each.token: each.log_probability for each in inspection.drawn.get(node.parent, ())}
        if node.token in drawn:
            share = percent(np.exp(round(drawn[node.token], 4)))
            assert facts.pop("Probability with which it was drawn") == share
    if inspection.met:
        met = inspection.met[number]
        words = f"{met.tokens}: {', '.join(met.words)}" if met.words else str(met.tokens)
        assert facts.pop("Forced tokens met") == words
    assert facts.pop("What became of it") == ENDS[node.end]
    if node.cut_by is not None:
        other = nodes[node.cut_by]
        text = facts.pop("What took its place")
        assert text == f"{visible(other.token)}, {fixed(other.log_probability, 4)}"
    if node.end == "finished" and number not in placed.best:
        assert is_shown(facts.pop("Score minus the translation's"), Number(node.score - best.score, 4))
    assert facts == {}
    candidates = inspection.candidates.get(number)
    if candidates is None:
        assert "The search did not extend it" in shown["text"]
        assert shown["bars"] == []
        return
    check_bars(
        shown["bars"][0],
        [(visible(token), share) for token, share in pairs(candidates)],
        "Likeliest next tokens",
    )
    if number in inspection.drawn:
        drawn = [(visible(token), share) for token, share in pairs(inspection.drawn[number])]
        check_bars(shown["bars"][1], drawn, "Distribution from which the next token was drawn")


def check_nodes(inspection, placed, shown):
    """All hypotheses as a table, and by how much the translation is ahead."""
    rows = []
    for number, node in enumerate(placed.nodes):
        rows.append(
            [
                *[number, placed.steps[number], visible(node.token)],
                "" if node.parent is None else node.parent,
                *[Number(node.log_probability, 4), Number(node.score, 4), node.end or "extended"],
                "" if node.cut_by is None else node.cut_by,
                "yes" if number in placed.best else "",
            ]
        )
    head = [
        "Number",
        "Step",
        "Token",
        "Extends",
        "Log-probability, nats",
        "Score",
        "End",
        "Cut by",
        "In the translation",
    ]
    assert_table(shown, f"All {len(rows)} hypotheses as a table", head, rows)
    best = placed.nodes[placed.best[-1]].score
    others = [
        node.score
        for number, node in enumerate(placed.nodes)
        if node.end == "finished" and number not in placed.best
    ]
    if not others:
        words = "No other hypothesis has finished."
    elif best == max(others):
        words = "The next finished one has the same score."
    else:
        sign, margin = ("above", best - max(others)) if best > max(others) else ("below", max(others) - best)
        words = f"The translation's score is {fixed(margin, 4)} {sign} that of the next finished one."
    assert words in shown["text"]
    assert shown["faults"] == []


WORDS_OF_SEARCHES = [
    (SearchSettings(), "", "log-probability / ((5 + |Y|) / 6)α, α = 0.6"),
    (SearchSettings(length_penalty=0.0), "", "log-probability / ((5 + |Y|) / 6)α, α = 0"),
    (SearchSettings(length_power=0.0), "", "log-probability / |Y|p, p = 0"),
    (SearchSettings(length_power=1.5), "", "log-probability / |Y|p, p = 1.5"),
    (
        SearchSettings(beam_size=4, groups=2, diversity=0.25),
        "The beam has 2 groups; a token loses 0.25 nats for each use in an earlier group.",
        None,
    ),
    (
        SearchSettings(temperature=0.5, n_best=3),
        "Each path is a sample, drawn at temperature 0.5; the likeliest is the translation.",
        "log-probability",
    ),
    (
        SearchSettings(temperature=2.0, n_best=3, top_p=0.9, mbr=True),
        "Each path is a sample, drawn at temperature 2, top p 0.9; minimum Bayes risk chose the translation.",
        "log-probability",
    ),
    (
        SearchSettings(force_words=("a", "b c"), ban_words=("d",), prefix="e f"),
        "There is a beam for each number of forced tokens met; the fewest are on top. Forced words: a, b c. "
        "Banned words: d. Prefix: e f.",
        None,
    ),
]


def test_a_search_is_told_in_words_and_its_score_as_a_formula(inspector):  # noqa: F811
    known = fake_inspection(3, 3, 1, 1, 4)
    for search, words, formula in WORDS_OF_SEARCHES:
        inspector.show(replace(known, search=search))
        about, score = inspector.run("() => all('p', view()).slice(0, 2).map(textOf)")
        assert about.partition("The thick path is the translation.")[2].strip() == words
        assert formula is None or score.startswith(f"Score: {formula}. ")


def test_keys_move_in_the_tree_by_branch_and_by_rank(inspector):  # noqa: F811
    inspection = random_inspection(1)
    placed, random = Placed(inspection), np.random.default_rng(1)
    keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]
    chosen = [0, placed.best[-1], *random.permutation(len(placed.nodes))[:3].tolist()]
    for step in (len(placed.columns) - 1, 3):
        numbers = [number for number in chosen if placed.steps[number] <= step]
        inspector.show(inspection)
        inspector.run("(step) => give(field('Step'), step)", step)
        program = "([numbers, keys]) => afterKeys('treeitem', 'data-number', numbers, keys)"
        for number, key, after, stop, is_handled, selected in inspector.run(program, [numbers, keys]):
            expected = placed.after(number, key, step)
            assert (after, stop, is_handled, selected) == (expected, 0, True, [expected]), (number, key)


def test_a_control_that_changes_the_tree_keeps_the_focus(inspector):  # noqa: F811
    """Also if the keys have moved in the tree before, and another hypothesis is chosen."""
    inspector.show(random_inspection(1))
    found = inspector.run(
        """async () => {
          await actInTree(["key", "End"]);
          const chosen = () => document.querySelector("[role=treeitem][aria-selected=true]").dataset.number;
          const before = [document.activeElement.getAttribute("role"), chosen()];
          const slider = field("Step");
          slider.focus();
          await give(slider, 1);
          await paint();
          return [before, document.activeElement === slider, chosen()];
        }"""
    )
    (role, before), has_focus, chosen = found
    assert (role, has_focus) == ("treeitem", True)
    assert before != chosen


GRID_KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "Enter", " ", "x"]


def test_keys_move_in_a_grid_and_choose_as_a_click_does(inspector):  # noqa: F811
    inspection = random_inspection(1)
    layers, heads = inspection.attention.cross.shape[:2]
    inspector.show(inspection)
    inspector.walk([[["tab", "Attention"]]], 0)
    places = [0, heads - 1, heads, layers * heads - 2]
    program = "([places, keys]) => afterKeys('gridcell', 'data-place', places, keys)"
    for place, key, after, stop, is_handled, selected in inspector.run(program, [places, GRID_KEYS]):
        row, column = divmod(place, heads)
        expected = {
            "ArrowLeft": (row, max(column - 1, 0)),
            "ArrowRight": (row, min(column + 1, heads - 1)),
            "ArrowUp": (max(row - 1, 0), column),
            "ArrowDown": (min(row + 1, layers - 1), column),
            "Home": (row, 0),
            "End": (row, heads - 1),
        }.get(key, (row, column))
        assert after == expected[0] * heads + expected[1], (place, key)
        assert (stop, is_handled, selected) == (0, key != "x", [place]), (place, key)
    chosen = inspector.run(
        """async (places) => {
          const chosen = [];
          const cell = (place) => document.querySelector(`[data-place="${place}"]`);
          for (const name of ["Enter", " "]) {
            await press(cell(0));
            cell(0).focus();
            for (const place of places) {
              for (const move of place) await key(move);
              await key(name);
              chosen.push([textOf(labelled("The head").querySelector("h3")), faultsOf()]);
            }
          }
          return chosen;
        }""",
        [["ArrowRight"], ["ArrowDown"]],
    )
    assert chosen == [["Layer 1, head 2", []], ["Layer 2, head 2", []]] * 2


# ---- the page around the views

VIEW_NAMES = {
    "beam": "Beam",
    "attention": "Attention",
    "attribution": "Attribution",
    "value-zeroing": "Value zeroing",
    "steps": "Decoding steps",
    "embeddings": "Embeddings",
    "positions": "Positions",
    "stream": "Residual stream",
    "neurons": "Neurons",
    "masks": "Masks",
    "model": "Model",
    "training": "Training",
    "what-if": "What if",
}
TAB_KEYS = ["ArrowRight", "ArrowLeft", "Home", "End", "x"]


def test_tabs_are_chosen_by_keys_and_the_address_keeps_the_view(inspector):  # noqa: F811
    inspection = random_inspection(1)
    inspector.show(inspection, is_live=True, parameters="text=a+b&view=masks")
    names = inspector.run("() => all('[role=tab]').map(textOf)")
    assert names == list(VIEW_NAMES.values())
    found = inspector.run(
        """async (keys) => {
          const chosen = () => all("[role=tab]").findIndex((each) => each.ariaSelected === "true");
          const found = [["start", chosen(), textOf(view().querySelector("h2")), location.hash]];
          for (const place of [0, all("[role=tab]").length - 1]) {
            for (const name of keys) {
              await press(all("[role=tab]")[place]);
              all("[role=tab]")[place].focus();
              const isHandled = await key(name);
              await pause();
              found.push([place, name, chosen(), all("[role=tab]").indexOf(document.activeElement), isHandled,
                location.hash, faultsOf()]);
            }
          }
          return found;
        }""",
        TAB_KEYS,
    )
    views, last = list(VIEW_NAMES), len(VIEW_NAMES) - 1
    start, *moves = found
    assert start == ["start", views.index("masks"), "Masks", "#text=a+b&view=masks"]
    for place, key, chosen, focused, is_handled, address, faults in moves:
        expected = {
            "ArrowRight": (place + 1) % len(views),
            "ArrowLeft": (place - 1) % len(views),
            "Home": 0,
            "End": last,
        }.get(key, place)
        assert (chosen, focused, is_handled) == (expected, expected, key != "x"), (place, key)
        assert address == f"#text=a+b&view={views[expected]}"
        assert faults == []
    links = inspector.run(
        """() => {
          const form = document.querySelector("form[role=search]");
          const before = form.elements.text.value;
          form.elements.text.value = "c & d";
          form.requestSubmit();
          return [before, location.search, location.hash,
            all("[role=search]").map((each) => each.ariaLabel)];
        }"""
    )
    assert links[0] == "a b"
    assert "text" not in links[1]
    assert (links[2], links[3]) == (f"#text=c+%26+d&view={views[last]}", ["Another sentence"])
    inspector.show(inspection, parameters="text=a&view=nothing")
    assert inspector.run("() => textOf(view().querySelector('h2'))") == "Beam"
    assert inspector.run("() => [all('.lab li').length > 0, all('.lab a').length]") == [True, 0]


@pytest.mark.parametrize("is_live", [False, True])
def test_each_view_has_its_experiments_and_the_head_its_numbers(inspector, is_live):  # noqa: F811
    inspection = random_inspection(1)
    long = "a" * 151
    inspection = replace(inspection, sentence="a" * 150, translation=long, score=-7.5)
    inspector.show(inspection, is_live=is_live)
    stops = inspector.run("() => all('.pair p').map((each) => [textOf(each), each.getAttribute('tabindex')])")
    assert stops == [["a" * 150, None], [long, "0"]]
    facts = inspector.run("() => factsOf(document.querySelector('header'))")
    size, log_probability = inspection.search.beam_size, facts.pop("Log-probability, nats")
    assert is_shown(log_probability, Number(inspection.log_probability))
    sizes = {
        "Source tokens": len(inspection.source),
        "Target tokens": len(inspection.target),
        "Beam size": size,
    }
    assert facts == {"Score": "−7.500", **{name: str(number) for name, number in sizes.items()}}
    claims = inspector.run("() => modules['claims.js'].CLAIMS")
    read = """() => all(".lab li").map((item) => [textOf(item),
      item.querySelector("a")?.getAttribute("href") ?? null, textOf(item.querySelector("code"))])"""
    for view, name in VIEW_NAMES.items():
        inspector.run("(name) => tab(name)", name)
        items = inspector.run(read)
        assert bool(items) == (view in EXPERIMENTS), view
        for text, address, command in items:
            experiment = command.removeprefix("dragoman lab ")
            claim = claims[experiment]
            expected = f"{claim['title']}. Claim: “{claim['claim']}” Verdict: {claim['verdict']}. {command}"
            assert text == expected
            assert address == (f"lab/{experiment}" if is_live else None)


EXPERIMENTS = set(VIEW_NAMES)


@pytest.mark.short_form
def test_samples_are_counted_in_the_place_of_the_beam(inspector):  # noqa: F811
    inspector.show(searched("sampling"))
    facts = inspector.run("() => factsOf(document.querySelector('header'))")
    assert facts["Samples"] == "3"
    assert "Beam size" not in facts


# ---- other architectures

ARCHITECTURES = {
    **{name: MODELS[name] for name in MODELS if name != "transformer"},
    **{
        name: VARIANTS[name]
        for name in ("additive", "general", "lstm, enriched", "conv, enriched", "conv, dilated")
    },
    "gru, enriched": VARIANTS["gru, enriched"],
    "lstm, dot, fed": VARIANTS["lstm, dot, fed"],
}


@cache
def inspected(name):
    """A real inspection of a model of another architecture."""
    return inspect(translator_of(ARCHITECTURES[name]), LINES[0], SearchSettings(max_extra_tokens=2))


def views_of(inspection, is_live):
    """The views that a model has data for, or that can be asked for."""
    model, views = inspection.model, dict(VIEW_NAMES)
    is_transformer, is_recurrent = model.architecture == "transformer", model.architecture in ("lstm", "gru")
    lacking = {
        "attribution": not is_live,
        "value-zeroing": not (is_live and is_transformer),
        "steps": not is_transformer,
        "masks": not is_transformer,
        "positions": is_recurrent or model.positions == "none",
        "neurons": inspection.neurons is None,
        "training": True,
        "what-if": not is_live,
    }
    if is_recurrent:
        views["stream"] = "States"
    return [name for view, name in views.items() if not lacking.get(view)]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_has_the_views_that_its_data_have(inspector, name):  # noqa: F811
    inspection = inspected(name)
    for is_live in (False, True):
        inspector.show(inspection, is_live=is_live)
        names = inspector.run("() => all('[role=tab]').map(textOf)")
        assert names == views_of(inspection, is_live)
    texts = {}
    for view in names:
        (shown,) = inspector.walk([[["tab", view]]], int(view in ("Model", "Residual stream", "States")))
        assert shown["faults"] == []
        texts[view] = shown
        if view == "Attention":
            switches = inspector.run("() => all('[aria-label=\"The head\"] .try').map(textOf)")
    model, architecture = inspection.model, inspection.model.architecture
    can_switch = {"lstm": [], "gru": [], "conv": ["Switch this attention off", "Make it uniform"]}
    assert switches == can_switch.get(architecture, ["Switch this head off", "Make it uniform"])
    has_self_attention = architecture == "transformer"
    for view in {"Attention", "Residual stream"} & texts.keys():
        about_others = "dragoman lab" in texts[view]["text"].replace("lab attention-as-explanation", "")
        assert about_others == has_self_attention, view
    only = "The model has only encoder-decoder attention"
    assert (only in texts["Attention"]["text"]) == (not has_self_attention)
    heads = inspection.attention.cross.shape[1]
    assert (
        has_self_attention
        or f"with {'one head' if heads == 1 else f'{heads} heads'} in each layer"
        in texts["Attention"]["text"]
    )
    has_query = any(text == "One query in numbers" for text in texts["Attention"]["headings"])
    assert has_query == (inspection.projections is not None)
    check_figure(inspection, texts["Model"])
    check_states(inspection, texts["States" if architecture in ("lstm", "gru") else "Residual stream"])
    if "Positions" in names:
        text = texts["Positions"]["text"]
        assert ("concatenated with the embedding" in text) == model.concatenate_positions
        has_first = model.positions.startswith("sin") and model.first_position > 0
        assert (f"The first token has position {model.first_position} of" in text) == has_first
        assert ("the source token and of the decoder's input token" in text) == (model.positions != "learned")
    if inspection.masks is not None and "Masks" in names:
        near = f"restricted to a neighbourhood of {model.neighbourhood} positions"
        assert ("neighbourhood" in texts["Masks"]["text"]) == (model.neighbourhood is not None)
        assert model.neighbourhood is None or near in texts["Masks"]["text"]


def check_states(inspection, shown):
    """The norms of a side of which the last layer alone may be known."""
    norms = halves(inspection.stream.decoder)
    layers = inspection.model.decoder_layers
    names = ["embedding", *(str(layers - len(norms) + 2 + row) for row in range(len(norms) - 1))]
    rows = [
        [name, *(Number(value, 2, 1e-6) for value in row)] for name, row in zip(names, norms, strict=True)
    ]
    assert_table(shown, "Norms as a table", ["Layer", *map(visible, inspection.target)], rows)


def check_figure(inspection, shown):
    """The tables below the figure, and what the figure says, as the settings of the model have it."""
    modules = inspection.modules

    def shape(each):
        return f"[{', '.join(map(str, each.shape))}]" if each.shape else ""

    total = sum(each.parameters for each in modules)
    rows = [[each.name, f"{each.parameters:,}", shape(each), each.code] for each in modules]
    assert_table(
        shown, f"All parts as a table, {total:,} parameters", ["Part", "Parameters", "Shape", "Code"], rows
    )
    assert shown["figure"] == figure_of(inspection)
    for title, settings in (("the model", inspection.model), ("the search", inspection.search)):
        ((names, rows),) = (
            (names, rows) for name, names, rows in shown["tables"] if name == f"Settings of {title}"
        )
        assert names == ["Setting", "Value"]
        assert rows
        for name, value in rows:
            found = getattr(settings, name)
            if isinstance(found, tuple):
                assert value == ", ".join(found)
            elif isinstance(found, bool | str | None):
                assert value == {True: "true", False: "false", None: "null"}.get(found, found)
            else:
                assert float(value) == found


def figure_of(inspection):
    """Of each side of the figure: how many layers it has, and the texts of its boxes from top to bottom."""
    model = inspection.model
    boxes = {"lstm": recurrent_boxes, "gru": recurrent_boxes, "conv": convolutional_boxes}
    return [
        [
            f"× {getattr(model, f'{side}_layers')}",
            boxes.get(model.architecture, stack_boxes)(inspection, side),
        ]
        for side in SIDES
    ]


def parameters_of(inspection, name, none="no parameters of its own"):
    """The text about the parameters of a part, in a list; an empty one for a part that is not listed."""
    counts = {each.name: each.parameters for each in inspection.modules}
    if name not in counts:
        return []
    return [f"{counts[name]:,} parameters"] if counts[name] else [none] * bool(none)


def output_box(inspection):
    tied = {"all": "the matrix of both embeddings", "target": "the matrix of the target embedding"}
    note = tied.get(inspection.model.tied, "a matrix of its own")
    return ["Linear map and softmax", note, *parameters_of(inspection, "output")]


def shared_note(model, side):
    return ["the matrix of the decoder"] * (side == "encoder" and model.tied == "all")


def kernel_note(model, side):
    words = [
        f"kernel of {model.kernel_width}",
        *["causal"] * (side == "decoder"),
        *["dilated"] * model.dilated,
    ]
    return ", ".join(words)


def stack_boxes(inspection, side):
    """Of a Transformer or an enriched model."""
    model, input_side = inspection.model, "source" if side == "encoder" else "target"
    recurrent = model.architecture.removesuffix("-enriched").upper()
    own = {"transformer": "Multi-head self-attention", "conv-enriched": "Convolution with GLU"}
    title = own.get(model.architecture, f"Bidirectional {recurrent}" if side == "encoder" else recurrent)
    if model.architecture == "transformer" and side == "decoder":
        title = "Masked multi-head self-attention"
    is_attention = model.architecture == "transformer"
    inner = model.decoder_d_ff if side == "decoder" and model.decoder_d_ff else model.d_ff
    heads = f"{model.heads} heads, d_k = {model.key_width}, d_v = {model.value_width}"
    heads += f"; {model.attention_score} scores" if model.attention_score else ""
    near = f"; neighbourhood of {model.neighbourhood}" if model.neighbourhood else ""
    mixer = [kernel_note(model, side)] if model.architecture == "conv-enriched" else []
    parts = [
        (
            "feed_forward",
            "Feed-forward network",
            [f"{model.d_model} → {inner} → {model.d_model}, {model.activation}"],
        )
    ]
    if side == "decoder":
        parts.append(
            ("cross_attention", "Encoder-decoder attention", [f"{heads}; keys and values from the encoder"])
        )
    parts.append(
        (
            "self_attention" if is_attention else "token_mixer",
            title,
            [heads + near] if is_attention else mixer,
        )
    )
    normalise = {"post": "normalise", "batch": "normalise over the batch", "none": "", "pre": ""}[model.norm]
    after = ", then ".join(filter(None, ["add" * model.residual, normalise]))
    if model.norm == "pre":
        after = "normalise before, then add" if model.residual else "normalise before"
    after = f"⊕ {after}" if model.residual else after
    boxes = [output_box(inspection)] if side == "decoder" else []
    if model.norm == "pre":
        boxes.append(["Layer normalisation", *parameters_of(inspection, f"{side}_norm")])
    for part, name, note in parts:
        norms = parameters_of(inspection, f"{side}.0.{part}_residual", none="")
        sums = [", ".join([after, *norms])] if after else []
        boxes.append([name, *note, *parameters_of(inspection, f"{side}.0.{part}"), *sums])
    embedding = (
        "Embedding and position, concatenated" if model.concatenate_positions else "Embedding + position"
    )
    notes = [model.positions] if model.positions != "none" else []
    notes += [f"times √{model.d_model}"] * model.scale_embeddings + shared_note(model, side)
    count = parameters_of(inspection, f"{input_side}_embedding")
    title = "Embedding" if model.positions == "none" else embedding
    return [*boxes, [title, *[", ".join(notes)] * bool(notes), *count]]


def recurrent_boxes(inspection, side):
    """Of an LSTM or GRU."""
    model, name = inspection.model, inspection.model.architecture.upper()
    input_side = "source" if side == "encoder" else "target"
    embedding = [
        "Embedding",
        *shared_note(model, side),
        *parameters_of(inspection, f"{input_side}_embedding"),
    ]
    if side == "encoder":
        return [[f"Bidirectional {name}", "of all layers", *parameters_of(inspection, "encoder")], embedding]
    score = {"dot": "Dot", "general": "General"}.get(model.attention_score, "Additive")
    fed = "; the first layer also reads the last features" * model.input_feeding
    query = f"query: the first layer's state before the token{fed}"
    return [
        output_box(inspection),
        ["tanh of a linear map", "of state, context and embedding", *parameters_of(inspection, "features")],
        [name, *parameters_of(inspection, "decoder.0")],
        [f"{score} attention", query, *parameters_of(inspection, "attention")],
        embedding,
    ]


def convolutional_boxes(inspection, side):
    """Of a ConvS2S."""
    model, is_encoder = inspection.model, side == "encoder"
    input_side = "source" if is_encoder else "target"
    keys = "its output: the keys; with the embedding added: the values"
    attention = ["Attention", "one head, not scaled", *parameters_of(inspection, "decoder.0.attention")]
    convolution = [
        "Convolution with GLU",
        kernel_note(model, side),
        *parameters_of(inspection, f"{side}.0.convolution"),
    ]
    positions = [f"{model.positions}, times 0.1" if model.positions.startswith("sin") else model.positions]
    return [
        *([] if is_encoder else [output_box(inspection)]),
        ["Linear map", *[keys] * is_encoder, *parameters_of(inspection, f"{side}_output")],
        *([] if is_encoder else [[*attention, "⊕ add its input, then that of the layer, each times √0.5"]]),
        [*convolution, *["⊕ add, times √0.5"] * is_encoder],
        ["Linear map", *parameters_of(inspection, f"{side}_input")],
        *(
            [["Add positions", *positions, *parameters_of(inspection, f"{input_side}_positions")]]
            if model.positions != "none"
            else []
        ),
        ["Embedding", *shared_note(model, side), *parameters_of(inspection, f"{input_side}_embedding")],
    ]


# ---- long sentences


@cache
def long_inspection():
    """A sentence of 75 and 66 tokens, with few numbers of each."""
    random, known = np.random.default_rng(1), fake_inspection(75, 66, 4, 1, 4)
    neurons = Neurons(*(random_activations(random, 4, size, 10) for size in (75, 66)))
    zeroing = ValueZeroing(*(each.mean(1) for each in vars(known.attention).values()))
    positions = random.normal(size=known.positions.shape).astype(np.float32)
    attribution = random_attribution(random, known, 1)
    return replace(
        known, neurons=neurons, value_zeroing=zeroing, positions=positions, attribution=attribution
    )


WINDOWS = [(63, 64), (20, 29), (70, 75)]


@pytest.mark.parametrize("window", WINDOWS)
def test_every_view_draws_the_window_and_its_numbers(inspector, window):  # noqa: F811
    """A window of two tokens is narrower than the model has layers."""
    inspection = long_inspection()
    columns, rows = (in_window(len(side), window) for side in (inspection.source, inspection.target))
    columns, rows = (slice(*part.indices(99)) for part in (columns, rows))
    size = rows.stop - rows.start
    inspector.show(inspection)
    views = ["Attention", "Value zeroing", "Attribution", "Residual stream"]
    inspector.run("(window) => act(['window', ...window])", window)
    lists = [[["tab", view]] for view in views]
    found = {
        view: inspector.run("([actions]) => walkMaps(actions)", [actions])
        for view, actions in zip(views, lists, strict=True)
    }
    source, target = inspection.source[columns], inspection.target[rows]
    layer, head = clearest(inspection)
    cross = halves(inspection.attention.cross[layer - 1, head - 1])[rows, columns]
    zeroing = halves(inspection.value_zeroing.cross[-1])[rows, columns]
    contributions = halves(inspection.attribution.of("integrated-gradients"))[rows]
    norms = halves(inspection.stream.decoder)[:, rows]
    layers = ["embedding", *(str(layer + 1) for layer in range(4))]
    maps = {
        "Attention": [(target, source, ("predicts", "key"), cross, 3)],
        "Value zeroing": [(target, source, ("predicts", "key"), zeroing, 3)],
        "Attribution": [(target, source, ("target", "source"), contributions[:, columns], 3)],
        "Residual stream": [(layers, target, ("layer", "predicts"), norms, 2)],
    }
    read = inspection.decoder_inputs[rows]
    earlier = contributions[:, len(inspection.source) :][:, rows]
    maps["Attribution"].append((target, read, ("target", "earlier target token"), earlier, 3))
    for view, parts in maps.items():
        for drawn, (names, keys, corner, values, digits) in zip(found[view], parts, strict=True):
            assert_map(drawn, None, rows=names, columns=keys, corner=corner, values=values, digits=digits)
    (stream,) = inspector.walk([[["cell", size + 1]]], 0)
    assert stream["columns"] == ["Layer", *target]
    chosen = inspection.lens[1][rows.start + 1]
    check_bars(stream["bars"][0], pairs(chosen), f"After layer 2, where the translation has {target[1]}")

    (shown,) = inspector.walk([[["tab", "Neurons"], ["button", "Decoder"], ["cell", size + 1]]], 0)
    numbers = inspection.neurons.decoder
    units = most_active(numbers, MAX_ACTIVE)[:, rows]
    for place, (name, is_chosen, _, _) in enumerate(shown["cells"]):
        layer, column = divmod(place, size)
        assert name.startswith(f"{target[column]}, layer {layer + 1}: ")
        assert is_chosen == (place == size + 1)
        unit = units[layer, column, 0]
        assert f"neuron {unit + 1}, " in name or numbers[layer, rows.start + column, unit] == 0
    assert f"Neuron {units[1, 1, 0] + 1} of layer 2" in shown["headings"]
    values = halves(numbers)[1, rows, units[1, 1, 0]]
    for (_, _, (token, text)), name, value in zip(shown["activations"], target, values, strict=True):
        assert token == name
        assert is_shown(text, Number(value, 2) if value else "0")

    (shown,) = inspector.walk([[["tab", "Masks"], ["give", "Padding tokens", 2]]], 1)
    queries = {"encoder": source, "cross": target_inputs(inspection, rows), "decoder": read}
    for drawn, (name, tokens) in zip(shown["maps"], queries.items(), strict=True):
        assert drawn["rows"] == [*tokens, "PAD", "PAD"]
        assert drawn["columns"] == [*(source if name in ("encoder", "cross") else read), "PAD", "PAD"]

    (shown,) = inspector.walk([[["tab", "Positions"]]], 0)
    start, stop = in_window(75, window).start, in_window(75, window).stop
    cells = inspector.run(
        """async () => {
          const canvas = view().querySelector(".position-map canvas");
          moveTo(canvas, canvas.height - 1, 3);
          await pause();
          return [canvas.height, textOf(view().querySelector(".readout"))];
        }"""
    )
    assert cells[0] == stop - start
    assert cells[1].startswith(f"position {stop - 1}, dimension 3")
    assert is_shown(cells[1].split(": ")[1], Number(halves(inspection.positions)[stop - 1, 3]))
    products = products_by_distance(inspection.positions)[start:stop]
    points = np.reshape(shown["plots"][0]["curves"][0][1], (-1, 2))
    np.testing.assert_allclose(points[:, 1], scale_of(shown["plots"][0])(products[:, 1]), atol=0.05)
    assert points[0, 0] == pytest.approx(52)
    assert points[-1, 0] == pytest.approx(640 - 12)

    placed = Placed(inspection)
    steps_drawn = in_window(len(placed.columns) - 1, window)
    (tree,) = inspector.run("() => walkInTree([[['tab', 'Beam']]])")
    first, last = steps_drawn.start, steps_drawn.stop
    selected = int(tree["title"].split()[1].rstrip(","))
    assert selected in placed.best
    tree["step"] = tree["step"].replace(f"of {last}", f"of {len(placed.columns) - 1}")
    check_tree(inspection, placed, last, selected, tree, first)


def target_inputs(inspection, rows):
    """The queries of encoder-decoder attention in the masks: the tokens that the decoder reads."""
    return inspection.decoder_inputs[rows]


def test_a_large_map_has_the_part_that_it_is_scrolled_to(inspector):  # noqa: F811
    inspection = long_inspection()
    inspector.show(inspection)
    # 66 target and 75 source tokens: the window from 4 leaves out the first of both.
    for window, place in (
        ((1, 75), (0, 0)),
        ((5, 70), (9, 17)),
        ((4, 66), (2, 1)),
        ((4, 66), (500, 500)),
        ((5, 70), (500, 500)),
    ):
        inspector.run("([actions]) => walkMaps(actions)", [[["tab", "Value zeroing"], ["window", *window]]])
        found, text = inspector.run(
            """async ([row, column]) => {
              const area = view().querySelector(".window");
              const cell = area.querySelector("canvas").getBoundingClientRect().height / 24;
              area.scrollTo(cell * column, cell * row);
              for (let turn = 0; turn < 3; turn++) await paint();
              return [await mapsOf(2), textOf(area.previousElementSibling)];
            }""",
            place,
        )
        (drawn,) = found
        parts = []
        for side, first, shown in (
            ("target", place[0], drawn["rows"]),
            ("source", place[1], drawn["columns"]),
        ):
            tokens = getattr(inspection, side)
            stop = min(window[1], len(tokens))
            start = max(stop - (window[1] - window[0] + 1), 0)
            begin = min(start + first, stop - len(shown))
            assert shown == [*tokens[begin : begin + len(shown)]], (side, window, place)
            parts.append(slice(begin, begin + len(shown)))
        values = halves(inspection.value_zeroing.cross[-1])[tuple(parts)]
        names = inspection.target[parts[0]], inspection.source[parts[1]]
        assert_map(drawn, None, rows=names[0], columns=names[1], corner=("predicts", "key"), values=values)
        words = "Rows {} to {} of 66, columns {} to {} of 75.".format(
            *(number for part in parts for number in (part.start + 1, part.stop))
        )
        assert text.startswith(words)


def test_the_form_of_the_window_is_there_for_more_than_60_tokens(inspector):  # noqa: F811
    for source, target in ((60, 60), (8, 61)):
        inspector.show(fake_inspection(source, target, 1, 1, 4), is_live=True)
        count = inspector.run("() => all('[aria-label=Window]').length")
        assert count == (max(source, target) > 60)
    views = "async (name) => { await tab(name); return all('[aria-label=Window]').length; }"
    without = {"Decoding steps", "Embeddings", "Model"}
    for name in inspector.run("() => all('[role=tab]').map(textOf)"):
        assert inspector.run(views, name) == (name not in without), name
    inspector.run("() => tab('Beam')")
    fields = """async (given) => {
      const inputs = () => all("[aria-label=Window] input").map((each) => Number(each.value));
      const all_ = () => buttonNamed("All", labelled("Window"));
      const found = [[inputs(), all_().disabled]];
      for (const [place, number] of given) {
        await give(all("[aria-label=Window] input")[place], number);
        found.push([inputs(), all_().disabled]);
      }
      await press(all_());
      found.push([inputs(), all_().disabled]);
      return found;
    }"""
    given = [(0, 20), (1, 30), (0, 35), (0, 58), (1, 10), (1, 999), (0, -5), (1, 0)]
    found = inspector.run(fields, given)
    first, last = 1, 61
    assert found[0] == [[1, 61], True]
    for (place, number), (numbers, is_disabled) in zip(given, found[1:], strict=False):
        moved = min(max(number, 1), 61)
        if place == 0:
            last = last if moved <= last else min(moved + last - first, 61)
            first = moved
        else:
            first, last = min(first, moved), moved
        assert (numbers, is_disabled) == ([first, last], False)
    assert found[-1] == [[1, 61], True]
    tree = inspector.run("async () => { await act(['window', 1, 1]); return treeIn(); }")
    assert max(node["top"] for node in tree["nodes"]) + 28 <= tree["size"][1], "the last step is the longest"


def test_lines_and_keys_of_a_long_sentence_are_shown_by_pages(inspector):  # noqa: F811
    inspection = long_inspection()
    inspector.show(inspection)
    found = inspector.run(
        """async () => {
          await tab("Attention");
          const [found, place] = [[], labelled("Word alignment")];
          const read = () => [linesOf(place), textOf(place.querySelector(".pager")),
            all(".pager button", place).map((each) => each.disabled)];
          all(".lines button", place)[3].focus();
          await pause();
          found.push([...read(), all(".lines button.on", place).length]);
          document.activeElement.blur();
          await pause();
          found.push(read());
          await button("Next", place);
          found.push(read());
          await button("Previous", place);
          found.push(read());
          const query = labelled("One query in numbers");
          await button("Next", query);
          found.push([all("tbody tr", query).map(cellsOf), textOf(query.querySelector(".pager"))]);
          return found;
        }"""
    )
    alone, *pages, keys = found
    assert [line[:2] for line in alone[0]["lines"] if line[3] == "group-0"] == [[3, 3]]
    assert alone[-1] >= 2
    source, target = (tuple(map(visible_word, side[:-1])) for side in (inspection.source, inspection.target))
    links = inspection.alignment
    layer, head = clearest(inspection)
    alignments = head_alignments(inspection)[layer - 1][head - 1]
    of_head = [(one, two) for two, one in alignments.items()]
    for lines, text, disabled in pages:
        is_last = disabled[1]
        left = (14, 74) if is_last else (0, 60)
        right = (5, 65) if is_last else (0, 60)
        assert text.endswith("Tokens 61 to 74 of 74Next" if is_last else "Tokens 1 to 60 of 74Next")
        shown = [
            [one - left[0], two - right[0]]
            for one, two in links
            if left[0] <= one < left[1] and right[0] <= two < right[1]
        ]
        solid = [line[:2] for line in lines["lines"] if line[3] == "group-0"]
        assert solid == shown
        assert [name.split(": ")[0] for name in lines["buttons"][0]] == [*source[slice(*left)]]
        assert [name.split(": ")[0] for name in lines["buttons"][1]] == [*target[slice(*right)]]
        for place, name in enumerate(lines["buttons"][1], right[0]):
            ends = [one for one, two in (*links, *of_head) if two == place]
            is_here = any(left[0] <= one < left[1] for one in ends)
            assert is_here or name.endswith(": no line on this page" if ends else ": no line"), name
    assert [disabled for *_, disabled in pages] == [[True, False], [False, True], [True, False]]
    rows, text = keys
    assert "Keys 61 to 75 of 75" in text
    check_rows_of_keys(inspection, rows)


def test_lists_of_several_pages_are_read_forwards_and_backwards(inspector):  # noqa: F811
    """A page of keys has 60 tokens, and one of a table 20,000 cells."""
    size, keys_of_page = 181, 60
    inspection = fake_inspection(size, 61, 1, 1, 4)
    inspector.show(inspection)
    found = inspector.run(
        """async (moves) => {
          await tab("Attention");
          const query = labelled("One query in numbers");
          const pages = (place) => [textOf(place.querySelector("[role=status]")),
            all(".pager button", place).map((each) => each.disabled)];
          const found = [], read = () => all("tbody tr", query).slice(1, -1).map((row) => cellsOf(row)[0]);
          for (const move of [null, ...moves]) {
            if (move) await button(move, query);
            found.push([read(), ...pages(query)]);
          }
          await tab("Positions");
          await openTables();
          const table = all("details.numbers").find((each) => textOf(each).startsWith("Dot products"));
          const lines = all(".pager", table).length;
          await tab("Attention");
          const alignment = labelled("Word alignment");
          all(".lines ol", alignment)[1].querySelectorAll("button")[2].focus();
          await pause();
          const alone = linesOf(alignment).lines.filter((line) => line[3] === "group-0");
          return [found, lines, alone.map((line) => line.slice(0, 2))];
        }""",
        moves := ["Next", "Next", "Previous", "Next", "Next"],
    )
    pages, pagers, alone = found
    page = 0
    for (keys, text, disabled), move in zip(pages, [None, *moves], strict=True):
        page += {"Next": 1, "Previous": -1, None: 0}[move]
        start, stop = page * keys_of_page, min((page + 1) * keys_of_page, size)
        assert keys == [*inspection.source[start:stop]]
        assert text == f"Keys {start + 1} to {stop} of {size}"
        assert disabled == [page == 0, stop == size]
    assert pagers == 0
    assert alone == [[2, 2]], "the lines of the token on the right that has the focus"


def test_a_vector_has_four_numbers_or_all(inspector):  # noqa: F811
    inspection = random_inspection(1)
    inspector.show(inspection)
    found = inspector.run(
        """async () => {
          await tab("Attention");
          const query = labelled("One query in numbers"), found = [];
          for (let turn = 0; turn < 3; turn++) {
            found.push(all("td.vector", query).map(textOf));
            await button("All 4 numbers", query);
          }
          return found;
        }"""
    )
    one = first_steps(inspection)
    pairs_of_keys = [each for pair in zip(one.keys, one.values, strict=True) for each in pair]
    for cells, is_full in zip(found, (False, True, False), strict=True):
        for cell, numbers in zip(cells, [one.query, *pairs_of_keys, one.output], strict=True):
            texts = cell.replace("…", "").split()
            assert len(texts) == (len(numbers) if is_full else 4)
            assert ("…" in cell) == (len(numbers) > len(texts))
            for text, number in zip(texts, numbers, strict=False):
                assert is_shown(text, Number(number, 3, 2e-3 * max(abs(number), 1)))


def clearest(inspection):
    """The layer and the head with which the view of encoder-decoder attention begins, counted from 1."""
    first = to_json(inspection)["attention"]["cross"]["clearest"]
    return first["layer"], first["head"]


def first_steps(inspection):
    """What the page shows of one query first."""
    return steps(inspection, "cross", *clearest(inspection), 1)


def visible_word(token):
    """The word of a token that is one."""
    return token.replace("▁", "")


def check_rows_of_keys(inspection, rows):
    """The second page of a query's keys."""
    one = first_steps(inspection)
    for place, row in enumerate(rows[1:-1], 60):
        assert row[0] == inspection.source[place]
        scaled = one.scaled[place]
        error = 2e-3 * max(abs(scaled), 1)
        assert is_shown(row[3], Number(scaled, 3, error))
        assert is_shown(row[5], Number(float(halves(one.weights)[place]), 4))
        assert is_shown(row[6].split()[0], Number(one.values[place][0], 3, 2e-3))


# ---- what-ifs


def random_case(inspection, seed):
    """The same sentence with another source token, and another translation with tokens left out and added."""
    random = np.random.default_rng(seed)
    target = [token for token in inspection.target[:-1] if random.random() < 0.7]
    for place in range(2):
        target.insert(int(random.integers(len(target) + 1)), f"▁new{place}")
    source = list(inspection.source)
    source[1] = "▁other"
    tokens = (*target, inspection.target[-1])
    nodes, path = fake_nodes(tokens, random)
    score = nodes[path[-1]].score
    return replace(
        inspection,
        source=tuple(source),
        target=tokens,
        nodes=nodes,
        best_path=path,
        translation=" ".join(target),
        log_probability=nodes[path[-1]].log_probability,
        score=score,
        target_words=tuple(range(len(tokens))),
        candidates={number: likeliest("▁a", random) for number, node in enumerate(nodes) if node.end is None},
    )


def check_comparison(before, after, texts, shown):
    """Both sides, the numbers of both, and the hypotheses that one search alone has."""
    for name, here, other, kind in (("before", before, after, "del"), ("after", after, before, "ins")):
        found = shown[name]
        assert found["text"] == here.translation
        *source, target = found["tokens"]
        assert bool(source) == (before.source != after.source)
        for line, tokens, others in [
            *[(each, here.source, other.source) for each in source],
            (target, here.target, other.target),
        ]:
            assert [text for _, text in line] == [*tokens]
            common = [text for element, text in line if element != kind]
            assert {element for element, _ in line} <= {kind, "bdi"}
            assert len(common) == longest_common(tokens, others)
            assert is_part(common, others)
        paths = {path_of(other.nodes, number) for number in range(len(other.nodes))}
        for node in found["tree"]["nodes"]:
            is_alone = path_of(here.nodes, node["number"]) not in paths
            assert ("differs" in node["classes"]) == is_alone == ("only in this search" in node["label"])
        assert len(found["tree"]["nodes"]) == len(here.nodes)
        assert found["tree"]["key"][-1] == "only in this search"
    gained = after.log_probability - before.log_probability
    pair = f"{fixed(before.log_probability)} → {fixed(after.log_probability)}"
    pair += f" ({'+' * (gained > 0)}{fixed(gained)})"
    assert shown["facts"]["Log-probability"] == pair
    scores = f"{fixed(before.score)} → {fixed(after.score)}"
    gained, is_same = after.score - before.score, after.search.length_penalty == before.search.length_penalty
    change = f"({'+' * (gained > 0)}{fixed(gained)})" if is_same else "(other formula)"
    assert shown["facts"]["Score"] == f"{scores} {change}"
    assert shown["facts"]["Hypotheses"] == f"{len(before.nodes)} → {len(after.nodes)}"
    is_changed = "changes" if before.translation != after.translation else "stays the same"
    assert f"The translation {is_changed}." in shown["status"]
    assert shown["codes"] == texts


def path_of(nodes, number):
    """The tokens of a hypothesis."""
    node = nodes[number]
    return (node.token,) if node.parent is None else (*path_of(nodes, node.parent), node.token)


def is_part(tokens, others):
    """Whether the tokens are in the other list in this order."""
    rest = iter(others)
    return all(token in rest for token in tokens)


def longest_common(one, other):
    """The length of the longest common subsequence."""
    lengths = np.zeros((len(one) + 1, len(other) + 1), int)
    for row, column in product(range(len(one)), range(len(other))):
        longest = max(lengths[row, column + 1], lengths[row + 1, column])
        lengths[row + 1, column + 1] = lengths[row, column] + 1 if one[row] == other[column] else longest
    return lengths[-1, -1]


def test_a_case_is_shown_beside_the_translation(inspector):  # noqa: F811
    known = random_inspection(1)
    afters = [
        random_case(known, 2),
        replace(random_case(known, 3), search=SearchSettings(length_penalty=1.0)),
        known,
    ]
    afters.append(replace(afters[0], source=known.source))
    changes = [
        ["source.2=▁other", "cross.1.2=off"],
        ["target.1=▁a", "target.2=▁b", "length_penalty=1.0"],
        ["target.2=▁b"],
        ["target.1=▁a", "beam_size=2"],
    ]
    described = [changes[0], ["begins with ▁a ▁b", "length_penalty=1.0"], changes[2], changes[3]]
    cases = [
        WhatIf(tuple(parse_changes(texts)), known, after)
        for texts, after in zip(changes, afters, strict=True)
    ]
    inspector.show(replace(known, what_ifs=tuple(cases)))
    program = "async (place) => { await give(field('Case'), place); await paint(); return comparison(); }"
    inspector.run("() => tab('What if')")
    for place in (0, 1, 3, 2):
        shown = inspector.run(program, place)
        check_comparison(known, afters[place], described[place], shown)
        assert shown["cases"] == [
            f"{number + 1}: {', '.join(texts)}" for number, texts in enumerate(described)
        ]
    assert inspector.run("() => all('.try, .changes', view()).length") == 0


CONTINUE_AFTER = """async () => {
  const place = labelled("After", view());
  await actInTree(["node", 1], place);
  await press(buttonNamed("Continue from here", place));
  await paint();
}"""


def test_what_a_model_is_asked_for_is_what_the_page_shows(inspector):  # noqa: F811
    """From a head and from hypotheses: one request at a time, its failure, and its answer."""
    known = random_inspection(1)
    known, after = replace(known, head_effects=None), random_case(known, 2)
    placed, table = Placed(known), to_json(after)
    inspector.show(known, is_live=True)
    last = "() => [requests.length, requests.at(-1)?.options]"
    for kind, place, name, value in (
        ("encoder", 1, "Switch this head off", "off"),
        ("cross", 4, "Make it uniform", "uniform"),
    ):
        inspector.run(
            """async ([kind, place, name]) => {
              await tab("Attention");
              await button(KIND_NAMES[kind]);
              await press(all("[role=gridcell]")[place]);
              await button(name);
              await paint();
            }""",
            [kind, place, name],
        )
        heads = known.attention.cross.shape[1]
        text = f"{kind}.{place // heads + 1}.{place % heads + 1}={value}"
        assert inspector.run(last)[1] == {"changes": [text]}
        waiting = inspector.run("() => ({ ...comparison(), focus: textOf(document.activeElement) })")
        assert waiting["view"] == "What if"
        assert "The model is computing …" in waiting["status"]
        assert waiting["focus"] == "The model is computing …"
        count = inspector.run(last)[0]
        inspector.run(
            "async () => { await tab('Attention'); await button('Make it uniform'); await paint(); }"
        )
        assert inspector.run(last)[0] == count, "one request at a time"
        inspector.run("() => settle(null, 'It is busy.')")
        assert inspector.run("comparison")["alert"] == ["It is busy."]
    ended, path = placed.best[-1], placed.path(placed.best[3])
    for number, can_continue in ((0, False), (ended, False), (path[-1], True), (placed.columns[2][-1], True)):
        found = inspector.run(
            """async (number) => {
              await tab("Beam");
              await actInTree(["node", number]);
              const before = requests.length;
              const has = Boolean(buttonNamed("Continue from here"));
              if (!has) await actInTree(["key", "Enter"]);
              return [has, requests.length - before];
            }""",
            number,
        )
        assert found == [can_continue, 0], number
    inspector.run(
        "async (number) => { await actInTree(['node', number]); await button('Continue from here'); }",
        path[-1],
    )
    begins = [f"target.{place}={known.nodes[each].token}" for place, each in enumerate(path[1:], 1)]
    assert inspector.run(last)[1] == {"changes": begins}
    inspector.run("(table) => settle(table)", table)
    shown = inspector.run("comparison")
    words = " ".join(known.nodes[each].token for each in path[1:])
    check_comparison(known, after, [f"begins with {words}"], shown)
    # Another beginning takes the place of this one.
    inspector.run(CONTINUE_AFTER)
    assert inspector.run(last)[1] == {"changes": [f"target.1={after.nodes[1].token}"]}
    inspector.run("() => settle(null, 'No.')")
    # Another case, from the search with changes: it has these changes and its own beginning.
    inspector.run("async () => { await give(field('What'), 0); await button('Run'); await paint(); }")
    first = inspector.run(last)[1]["changes"]
    inspector.run("(table) => settle(table)", table)
    assert inspector.run("() => field('Case').value") == "1"
    inspector.run(CONTINUE_AFTER)
    assert inspector.run(last)[1] == {"changes": [f"target.1={after.nodes[1].token}", *first]}
    inspector.run("() => settle(null, 'No.')")
    assert inspector.run("comparison")["alert"] == ["No."]
    inspector.run("async () => { await button('Switch each head off in turn'); await paint(); }")
    assert inspector.run(last)[1] == {"heads": True}


def changes_of(inspection):
    """The groups of changes of a model: the title, the parts, and the values; None for a text."""
    model = inspection.model
    layers = {"encoder": model.encoder_layers, "decoder": model.decoder_layers, "cross": model.decoder_layers}
    names = {kind: KIND_NAMES[kind] for kind in ("cross", "encoder", "decoder")}
    kinds, numbers = list(names), {name: range(1, count + 1) for name, count in layers.items()}
    groups, positions = [], ["positions", "positions.source", "positions.target"]
    if model.architecture in ("lstm", "gru"):
        kinds, positions = [], []
    elif model.architecture == "conv":
        groups = [
            (names["cross"], [f"cross.{layer}" for layer in numbers["cross"]], ["uniform"]),
            ("Encoder", [f"encoder.{layer}" for layer in numbers["encoder"]], ["off"]),
        ]
        decoder = [f"decoder.{layer}" for layer in numbers["decoder"]]
        groups.append(("Decoder", [*decoder, *(f"{each}.cross_attention" for each in decoder)], ["off"]))
        kinds = []
    elif model.architecture != "transformer":
        kinds = ["cross"]
    for kind in kinds:
        heads = [f"{kind}.{layer}.{head + 1}" for layer in numbers[kind] for head in range(model.heads)]
        groups.append((names[kind], heads, ["off", "uniform"]))
        groups.append(
            (f"{names[kind]}, all heads", [f"{kind}.{layer}" for layer in numbers[kind]], ["uniform"])
        )
    if kinds:
        own = ["self_attention"] * (model.architecture == "transformer")
        for side, parts in (
            ("encoder", [*own, "feed_forward"]),
            ("decoder", [*own, "cross_attention", "feed_forward"]),
        ):
            rows = [
                [f"{side}.{layer}", *(f"{side}.{layer}.{part}" for part in parts)] for layer in numbers[side]
            ]
            groups.append((SIDE_NAMES[side], [part for row in rows for part in row], ["off"]))
    if positions:
        groups.append(("Positional encoding", positions, ["off"]))
    sides = (
        ("Source token", inspection.source[:-1], "source"),
        ("Token of the translation", inspection.target, "target"),
    )
    groups += [
        (title, [f"{side}.{place}" for place in range(1, len(tokens) + 1)], None)
        for title, tokens, side in sides
    ]
    return groups


def label_of(part, sides):
    """How the form names a part."""
    use, *places = part.split(".")
    if use in sides:
        return f"{places[0]}: {visible(sides[use][int(places[0]) - 1])}"
    if use == "positions":
        return places[0] if places else "both sides"
    names = {"self_attention": "self-attention", "cross_attention": "encoder-decoder attention"}
    layer, *others = places
    if not others:
        return f"Layer {layer}"
    if others[0].isdigit():
        return f"Layer {layer}, head {others[0]}"
    return f"Layer {layer}, {names.get(others[0], 'feed-forward')}"


FORMS = ["random", "gru", "conv", "lstm, enriched", "conv, enriched", "transformer, other options"]


@pytest.mark.parametrize("name", FORMS)
def test_the_form_offers_every_part_of_the_model(inspector, name):  # noqa: F811
    inspection = random_inspection(1) if name == "random" else inspected(name)
    inspector.show(inspection, is_live=True)
    inspector.run("() => tab('What if')")
    *groups, search = inspector.run("groupsOf")
    expected = changes_of(inspection)
    assert [title for title, *_ in groups] == [title for title, *_ in expected]
    for (title, parts, values, _), (_, names, choices_of_part) in zip(groups, expected, strict=True):
        assert [part for part, _ in parts] == names, title
        assert values == choices_of_part or [value for value, _ in values] == choices_of_part, title
        for part, value in product(names, choices_of_part or ["▁a"]):
            parse_changes([f"{part}={value}"])
    sizes = {part for part, _ in search[1]}
    assert sizes <= set(SETTINGS)
    assert {"beam_size", "length_penalty", "temperature"} <= sizes
    tokens = {title: suggestions for title, _, values, suggestions in groups if values is None}
    likely = [inspection.candidates[number] for number in inspection.best_path[:-1]]
    assert tokens["Token of the translation"] == [[each.token for each in row] for row in likely]
    near = next((dict(each.tokens) for each in inspection.neighbours if "source embedding" in each.parts), {})
    assert tokens["Source token"] == [
        [other for other, _ in near.get(token, ())] for token in inspection.source[:-1]
    ]
    sides = {"source": inspection.source, "target": inspection.target}
    for _, parts, *_ in groups:
        for part, label in parts:
            assert label == label_of(part, sides), part


def test_changes_are_added_removed_and_run(inspector):  # noqa: F811
    inspection = random_inspection(1)
    inspector.show(inspection, is_live=True)
    states = inspector.run(
        """async (table) => {
          await tab("What if");
          const groups = Object.fromEntries(optionsOf(field("What")).map(([value, name]) => [name, value]));
          const form = labelled("Changes");
          const input = () => form.querySelector("input");
          const found = [];
          const add = async () => {
            await button("Add another change", form);
            found.push(comparison().added);
          };
          const choose = (name) => give(field("What", form), groups[name]);
          await give(field("Change", form), "uniform");
          await add();
          await add(); // the same again
          await choose("Source token");
          found.push([input().value, input().required]);
          await give(field("Which", form), "source.2");
          input().value = " a b";
          input().dispatchEvent(new Event("input"));
          await pause();
          await add();
          await give(field("Which", form), "source.3"); // the text is kept for another token
          await add();
          await choose("Encoder"); // a value of its own
          await add();
          await choose("Search");
          found.push([input().value, input().required]);
          await press(all(".added button")[1]);
          found.push(comparison().added);
          await button("Run", form);
          found.push([requests.at(-1).options, comparison().busy]);
          await settle(null, "It fails.");
          found.push([comparison().added, comparison().alert]);
          input().value = " 3 ";
          input().dispatchEvent(new Event("input"));
          await pause();
          await button("Run", form);
          found.push(requests.at(-1).options);
          await settle(table);
          found.push([comparison().added, comparison().alert, comparison().busy]);
          return found;
        }""",
        to_json(random_case(inspection, 2)),
    )
    removals = ["cross.1.1=uniform", "source.2=▁a▁b", "source.3=▁a▁b", "encoder.1=off"]
    added = [f"Remove {text}" for text in removals]
    assert states[0] == states[1] == added[:1]
    assert states[2] == ["", False]
    assert states[3:6] == [added[:2], added[:3], added]
    assert states[6] == ["", False]
    rest = [*removals[:1], *removals[2:]]
    assert states[7] == [f"Remove {text}" for text in rest]
    assert states[8] == [{"changes": rest}, [["Run", "true"]]]
    assert states[9] == [[f"Remove {text}" for text in rest], ["It fails."]]
    assert states[10] == {"changes": [*rest, "beam_size=3"]}
    assert states[11] == [[], [], [["Run", "false"]]]


def test_views_that_are_asked_for_are_shown_when_they_come(inspector):  # noqa: F811
    full = random_inspection(1)
    inspection = replace(full, attribution=None, value_zeroing=None)
    inspector.show(inspection, is_live=True)
    states = inspector.run(
        """async (table) => {
          const found = [];
          const asked = () => [requests.length, requests.at(-1)?.options,
            all("[role=status]", view()).map(textOf),
            all("[role=alert]", view()).map(textOf), all(".ask button").map((each) => each.ariaDisabled)];
          await tab("Attribution");
          await give(field("Also earlier"), true);
          await button("Compute contributions");
          await button("Compute contributions");
          found.push(asked());
          await settle(null, "Too long.");
          found.push(asked());
          await give(field("Contrast"), true);
          await give(field("Also earlier"), false);
          await button("Compute contributions");
          found.push(asked());
          await settle(table);
          found.push([...asked(), all(".labelled").length]);
          await tab("Beam");
          await tab("Attribution");
          found.push([all(".labelled").length, all(".ask input").map((each) => each.checked)]);
          await button("Compute contributions");
          await settle(null, "Busy.");
          found.push([all(".labelled").length, all("[role=alert]", view()).map(textOf)]);
          await tab("Value zeroing");
          await button("Compute value zeroing");
          found.push(asked());
          await settle(table);
          found.push([document.activeElement.ariaLabel, all(".labelled").length, all(".ask").length]);
          await tab("Beam");
          await tab("Value zeroing");
          found.push(document.activeElement.ariaLabel);
          return found;
        }""",
        to_json(full),
    )
    computing = ["The model is computing …"]
    asked = {"attribution": True, "contrast": False, "target_tokens": True}
    contrast = {"attribution": True, "contrast": True, "target_tokens": False}
    assert states[0] == [1, asked, computing, [], ["true", None]], "the second button stops it"
    assert states[1] == [1, asked, [""], ["Too long."], ["false"]]
    assert states[2] == [2, contrast, computing, [], ["true", None]]
    assert states[3] == [2, contrast, [""], [], ["false"], 2]
    assert states[4] == [2, [True, False]]
    assert states[5] == [2, ["Busy."]], "what was there stays"
    assert states[6][1:3] == [{"value_zeroing": True}, computing]
    assert states[7] == ["Value zeroing", 1, 0]
    assert states[8] != "Value zeroing", "the focus moves only when an answer comes"


# ---- encodings and texts


def test_half_precision_numbers_are_decoded(inspector):  # noqa: F811
    inspector.show(fake_inspection(2, 2, 1, 1, 4))
    numbers = np.arange(0, 65536, 11, dtype=np.uint16).view(np.float16)  # 11 leaves out no exponent
    with np.errstate(over="ignore"):
        table = array_json(numbers)
    program = """(positions) => [...modules["data.js"].decoded({
      attention: {}, projections: {}, stream: {}, positions,
    }).positions.values].map(String)"""
    found = np.array(inspector.run(program, table)).astype(np.float32)
    np.testing.assert_array_equal(found, numbers.astype(np.float32))


TEXTS = {
    "a\u00a0b": "aU+00A0b",
    "\u2028": "U+2028",
    "\t": "U+0009",
    "\u0301x": "◌\u0301x",
    "a\u0301": "a\u0301",
    "a\ufe0f": "aU+FE0F",
    "\U000e0001": "U+E0001",
    " a b": "␣a␣b",
    "": "(empty)",
    "漢": "漢",
}


def test_texts_and_numbers_are_written_as_python_writes_them(inspector):  # noqa: F811
    inspector.show(fake_inspection(2, 2, 1, 1, 4))
    texts = "(texts) => texts.map((text) => modules['tokens.js'].visible(text))"
    assert inspector.run(texts, [*TEXTS]) == [*TEXTS.values()]
    random = np.random.default_rng(1)
    numbers = [0.0, -0.0, 1.0, -1e-9, 0.99996, *random.normal(size=40), *random.normal(0, 1e-3, 40)]
    for digits in (0, 2, 4):
        program = "([numbers, digits]) => numbers.map((each) => modules['tokens.js'].fixed(each, digits))"
        assert inspector.run(program, [numbers, digits]) == [fixed(number, digits) for number in numbers]
    assert inspector.run("() => modules['tokens.js'].fixed(null)") == "−∞"
    ends = [0.0004, 0.0005, 0.0006, 0.004, 0.0994, 0.0996, 0.9949, 0.9951, 0.9994, 0.9996]
    shares = [0.0, 1.0, 0.5, *ends, *random.random(40), *random.random(20) ** 8]
    program = "(shares) => shares.map((share) => modules['tokens.js'].percent(share))"
    assert inspector.run(program, shares) == [percent(share) for share in shares]
    logs = [None, 0.0, -0.5, -40.0]
    found = inspector.run("(logs) => logs.map((each) => modules['tokens.js'].probability(each))", logs)
    assert found == pytest.approx([0, 1, np.exp(-0.5), np.exp(-40.0)])


def test_marks_of_an_axis_are_round_and_within_it(inspector):  # noqa: F811
    inspector.show(fake_inspection(2, 2, 1, 1, 4))
    random = np.random.default_rng(1)
    ends = [
        sorted(pair) for pair in (random.normal(size=(60, 2)) * 10 ** random.uniform(-4, 5, (60, 1))).tolist()
    ]
    ends += [[0, 1], [0, 5], [0, 2000], [-1, 1], [3, 3]]
    program = "(ends) => ends.map((pair) => modules['parts.js'].ticks(...pair))"
    for (least, most), marks in zip(ends, inspector.run(program, ends), strict=True):
        if least == most:
            assert marks == [least]
            continue
        span, step = most - least, np.diff(marks)
        assert 2 <= len(marks) <= 6, (least, most, marks)
        np.testing.assert_allclose(step, step[0], rtol=1e-4)
        assert least - 1e-6 * span <= marks[0] < least + step[0]
        assert most + 1e-6 * span >= marks[-1] > most - step[0]
        digits = step[0] / 10 ** np.floor(np.log10(step[0]) + 1e-6)
        assert min(abs(digits - round_one) for round_one in (1, 2, 5)) < 1e-3, (least, most, marks)


# ---- what stays and what does not


def test_choices_are_kept_while_another_view_is_shown(inspector):  # noqa: F811
    inspector.show(random_inspection(1))
    found = inspector.run(
        """async () => {
          await tab("Attention");
          await button("Encoder self-attention");
          await button("Words");
          await give(field("Order"), "distance");
          await press(all("[role=gridcell]")[2]);
          const read = () => [all("button[aria-pressed=true]", view()).map(textOf), field("Order").value,
            textOf(labelled("The head").querySelector("h3"))];
          const before = read();
          await tab("Decoding steps");
          await give(field("Step"), 3);
          await give(field("Head"), 1);
          await give(field("Layer"), 0);
          const steps = () => [field("Step").value, field("Head").value, field("Layer").value];
          const stepsBefore = steps();
          await tab("Attention");
          const after = read();
          await button("Decoder self-attention"); // another kind has its own order and its own head
          const other = [field("Order").value, textOf(labelled("The head").querySelector("h3"))];
          await tab("Decoding steps");
          return [before, after, other, stepsBefore, steps()];
        }"""
    )
    before, after, other, steps_before, steps_after = found
    assert before == after
    assert before[1] == "distance"
    assert other[0] == "layer"
    assert other[1] != before[2]
    assert steps_before == steps_after == ["3", "1", "0"]


def test_a_change_of_view_changes_the_address_and_adds_nothing_to_the_history(inspector):  # noqa: F811
    new = Inspector(inspector.page.context.new_page())  # its history is short: it has 50 entries at most
    new.show(fake_inspection(2, 2, 1, 1, 4), is_live=True, parameters="text=amber")
    found = new.run(
        """async () => {
          const before = history.length, views = [];
          for (const view of ["Positions", "Attention"]) {
            await tab(view);
            views.push(new URLSearchParams(location.hash.slice(1)).get("view"));
          }
          return [history.length - before, views];
        }"""
    )
    new.page.close()
    assert (found, new.faults) == ([0, ["positions", "attention"]], [])


def test_pictures_follow_the_theme_that_is_chosen(inspector):  # noqa: F811
    """That of the page for translating, or else the reader's."""
    small, found = fake_inspection(2, 2, 1, 1, 4), []
    for reader, chosen in (("light", ""), ("dark", ""), ("dark", "light"), ("light", "dark")):
        inspector.page.emulate_media(color_scheme=reader)
        program = f"document.documentElement.dataset.theme = {chosen!r}" if chosen else "0"
        inspector.show(small, program=program)
        found.append(inspector.run("async () => { await tab('Positions'); return legendOf()[0].colours; }"))
    inspector.page.emulate_media(color_scheme="dark")  # the last page, which was shown in light
    light, dark, chosen_light, chosen_dark = found
    assert light == chosen_light != dark == chosen_dark
    inspector.page.emulate_media(color_scheme="light")
    inspector.show(small)
    inspector.run("() => tab('Positions')")
    inspector.page.emulate_media(color_scheme="dark")
    drawn = "async () => { await paint(); return legendOf()[0].colours; }"
    assert any(inspector.run(drawn) == dark for _ in range(200))  # the page hears of it a little later
    pixels = "async () => { await paint(); return all('canvas').map((canvas) => canvas.toDataURL()); }"
    for view in ("Attention", "Masks", "Residual stream"):
        inspector.show(small)
        inspector.run(f"() => tab({view!r})")
        expected = inspector.run(pixels)
        inspector.page.emulate_media(color_scheme="light")
        inspector.show(small)
        inspector.run(f"() => tab({view!r})")
        assert inspector.run(pixels) != expected, view
        inspector.page.emulate_media(color_scheme="dark")
        assert any(inspector.run(pixels) == expected for _ in range(200)), view
    inspector.page.emulate_media(color_scheme="light")


# ---- what a file has no room for


def test_heads_without_room_are_named_with_the_command_for_them(inspector):  # noqa: F811
    inspection = random_inspection(1)
    layers, heads = inspection.attention.decoder.shape[:2]
    limits = SizeLimits(0, 0, 0, 1)
    inspector.show(inspection, contents(inspection, limits, layer=2, head=2))
    found = inspector.run(
        """async () => {
          await tab("Attention");
          await button("Decoder self-attention");
          await paint();
          const found = [];
          const read = () => [textOf(labelled("The head")), textOf(labelled("One query in numbers"))];
          found.push(read());
          await press(all("[role=gridcell]")[2]);
          found.push(read());
          found.push(all("[role=gridcell] canvas").map((each) => [each.width, coloursOf(each)]));
          found.push([textOf(view()), legendOf()[0]]);
          return found;
        }"""
    )
    held, other, small, (text, legend) = found
    assert held[0].startswith("Layer 2, head 2")
    assert "There is no room" not in held[0] + held[1]
    assert other[0].startswith("Layer 1, head 3")
    command = "dragoman inspect --layer 1 --head 3 writes"
    assert f"There is no room for its weights here.{command}" in other[0]
    assert f"There is room only for the queries, keys and values of head 2 of layer 2. {command}" in other[1]
    assert "there is room only for the weights of head 2 of layer 2." in text
    assert "dragoman inspect --show decoder --words draws them" in text
    maps = halves(overview(inspection.attention.decoder)).reshape(layers * heads, -1)
    for (width, colours), numbers in zip(small, maps, strict=True):
        assert width == len(inspection.target)
        np.testing.assert_allclose(shares_of(colours, legend), np.sqrt(numbers), atol=0.016)


# ---- the head, the first view of attention, and marks of words


@pytest.mark.parametrize("limits", [None, SizeLimits(0, 0, 0, 1)], ids=["all heads", "one head"])
def test_attention_begins_with_the_clearest_head_that_is_held(inspector, limits):  # noqa: F811
    inspection = random_inspection(2)
    held = contents(inspection, limits)
    inspector.show(inspection, held)
    for kind in KINDS:
        found = inspector.run(
            "async (name) => { await tab('Attention'); await button(name); "
            "return textOf(labelled('The head').querySelector('h3')); }",
            KIND_NAMES[kind],
        )
        tables, places = statistics(inspection)[kind], held.projections
        ranks = {
            (-tables["alignment"][place] if kind == "cross" else 0, tables["entropy"][place]): place
            for place in product(places.layers[kind], places.heads)
        }
        layer, head = ranks[min(ranks)]
        assert found == f"Layer {layer + 1}, head {head + 1}"


def test_the_head_names_the_model_the_date_and_the_version(inspector):  # noqa: F811
    read = "() => all('.origin').map(textOf)"
    for source, pair in (("en", "English to German"), ("und", "an unknown language to German")):
        origin = Origin("ende", source, "de", "2026-12-01T10:20:30+00:00", "0.1.0")
        inspection = replace(random_inspection(1), origin=origin)
        model, parameters = inspection.model, sum(module.parameters for module in inspection.modules)
        inspector.show(inspection)
        assert inspector.run(read) == [
            f"Model ende, {pair}: transformer, {model.encoder_layers} encoder and {model.decoder_layers} "
            f"decoder layers, d_model {model.d_model}, {model.heads} heads, {parameters:,} parameters. "
            "2026-12-01 10:20 UTC, Dragoman 0.1.0."
        ]
    inspector.show(replace(inspection, origin=None))
    assert inspector.run(read) == []


def test_marks_of_words_are_drawn_lightly_and_stay_in_the_text(inspector):  # noqa: F811
    inspector.show(random_inspection(1))
    for view in ("Beam", "Attention"):
        tokens = inspector.run(
            "async (name) => { await tab(name); return all('.token', view()).map((each) => "
            "[each.textContent, all('.word-begin', each).map((mark) => mark.textContent)]); }",
            view,
        )
        assert any("▁" in text for text, _ in tokens)
        assert all(marks == ["▁"] * text.count("▁") for text, marks in tokens)


def test_what_is_asked_for_shows_its_progress_and_can_be_stopped(inspector):  # noqa: F811
    full = random_inspection(1)
    inspection = replace(full, attribution=None)
    inspector.show(inspection, is_live=True)
    states = inspector.run(
        """async (table) => {
          const state = () => [all(".ask button").map(textOf), all("[role=alert]", view()).length,
            textOf(document.activeElement), all(".labelled").length,
            all("progress").map((each) => [each.value, each.max])];
          await tab("Attribution");
          await button("Compute contributions");
          const found = [state()];
          requests.at(-1).onProgress({ done: 3, total: 20 });
          await paint();
          found.push(state()[4]);
          await button("Stop");
          await paint();
          found.push(state());
          await button("Compute contributions");
          await settle(table);
          found.push(state());
          return found;
        }""",
        to_json(full),
    )
    name = "Compute contributions"
    asked, progress, stopped, answered = states
    assert (asked[:2], asked[4], progress) == ([[name, "Stop"], 0], [], [[3, 20]])
    assert stopped == [[name], 0, name, 0, []]
    assert (answered[0], answered[4]) == ([name], [])
    assert answered[3] > 0


def test_maps_follow_the_theme_that_is_chosen_on_the_page(inspector):  # noqa: F811
    inspector.show(random_inspection(1))
    dark, light = inspector.run(
        """async () => {
          await tab("Attention");
          const found = [];
          for (const theme of ["dark", "light"]) {
            document.documentElement.dataset.theme = theme;
            await paint();
            await paint();
            found.push(all("canvas").map(coloursOf));
          }
          delete document.documentElement.dataset.theme;
          return found;
        }"""
    )
    assert all(one != other for one, other in zip(dark, light, strict=True))

"""The pictures of an inspection: they are XML, they show all tokens, and their cells are the numbers."""

import math
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dragoman.inspection.analyse.summaries import decisions, wavelengths
from dragoman.inspection.inspect import part_of
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.masks import Masks
from dragoman.inspection.record.record import (
    AttentionWeights,
    ModuleSummary,
    ResidualStream,
    TokenProbability,
)
from dragoman.inspection.record.words import words_of
from dragoman.inspection.views import (
    alignment_picture,
    architecture,
    attention_pictures,
    position_pictures,
    stream_pictures,
    tree,
)
from dragoman.inspection.views.drawing import (
    COLOURS,
    MAX_COLUMNS,
    Drawing,
    Shade,
    cell_paths,
    channels,
    columns_of,
    decimal,
    diverging,
    escape,
    sequential,
    shortened,
    style,
    text_width,
    ticks,
    visible,
)
from dragoman.inspection.views.layout import finished
from dragoman.inspection.views.masks import masks_picture
from dragoman.inspection.views.tree import NEXT_TOKENS, hypothesis_title, tree_columns
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.convolutional import EMBEDDING_STD, GatedConvolution
from dragoman.model.enriched import Recurrence
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import sinusoid_table
from dragoman.model.transformer import FeedForward
from dragoman.model.variants import RestrictedAttention
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import Node
from dragoman.system.errors import DragomanError
from dragoman_paper.figures.attention_figures import HEAD_COLOURS
from tests.conftest import MODELS, VARIANTS
from tests.projections import fake_masks, fake_neurons, fake_projections

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["encoder", "decoder", "cross"]
HOSTILE = ("</text><script>", "\"&'", "\u200b", "\x00", "▁", "مرحبا", "<s>", "]]>", "\ud800", "中文")


def softmax(shape, seed, causal=False):
    """Random attention weights."""
    logits = 3 * np.random.default_rng(seed).normal(size=shape)
    if causal:
        logits = np.where(np.tri(*shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def beam_nodes(target, extra=2):
    """A path with the target's tokens, and other hypotheses at each step."""
    nodes, best = [Node(None, "<s>", 0.0, 0.0)], [0]
    for step, token in enumerate(target, 1):
        parent, last = best[-1], step == len(target)
        best.append(len(nodes))
        end = "finished" if last else None
        nodes.append(Node(parent, token, -0.3 * step, -0.2 * step, end))
        nodes += [
            Node(parent, f"▁{step}.{n}", -0.4 * step - n, -0.3 * step, "below the beam") for n in range(extra)
        ]
    return tuple(nodes), tuple(best)


SOURCE, TARGET = ("▁A", "▁man", "▁rides", "</s>"), ("▁Ein", "▁Mann", "▁fährt", "▁Rad", "</s>")
SMALL = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=2, decoder_layers=3)


def fake(source=SOURCE, target=TARGET, **model):
    """An inspection with random numbers; `model` replaces settings of a small one."""
    settings = replace(SMALL, **model)
    layers, depth, heads = settings.encoder_layers, settings.decoder_layers, settings.heads
    sources, targets = len(source), len(target)
    nodes, best = beam_nodes(target)
    random = np.random.default_rng(5)

    def norms(*shape):
        return random.uniform(0.5, 4, shape).astype(np.float32)

    lens = tuple(
        tuple(
            (TokenProbability(token if layer else "▁other", math.log((place + 1) / (targets + 1))),)
            for place, token in enumerate(target)
        )
        for layer in range(depth)
    )
    return Inspection(
        sentence="A man rides.",
        translation="Ein Mann fährt Rad",
        log_probability=-1.5,
        score=-1.0,
        search=SearchSettings(),
        model=settings,
        source=tuple(source),
        target=tuple(target),
        source_words=tuple(range(sources)),
        target_words=tuple(range(targets)),
        nodes=nodes,
        best_path=best,
        candidates={
            0: (TokenProbability(target[0], math.log(0.75)), TokenProbability("<b>", math.log(0.25)))
        },
        attention=AttentionWeights(
            softmax((layers, heads, sources, sources), 1),
            softmax((depth, heads, targets, targets), 2, causal=True),
            softmax((depth, heads, targets, sources), 3),
        ),
        alignment=((0, 0),),
        stream=ResidualStream(
            norms(layers + 1, sources),
            norms(layers, 2, sources),
            norms(depth + 1, targets),
            norms(depth, 3, targets),
        ),
        lens=lens,
        positions=sinusoid_table(max(sources, targets), settings.d_model),
        modules=(ModuleSummary("source_embedding", 1234, (1, sources, settings.d_model)),),
        projections=fake_projections(sources, targets, (layers, depth), heads, settings.d_model // heads),
        masks=fake_masks(sources, targets, sources - (not settings.source_end)),
        neurons=fake_neurons(sources, targets, (layers, depth), settings.d_ff),
    )


def all_pictures(inspection):
    """Every picture by name."""
    made = {}
    for kind in KINDS:
        made[f"grid {kind}"] = attention_pictures.attention_grid(inspection, kind)
        for head in (None, 2):
            made[f"head {kind} {head}"] = attention_pictures.attention_head(inspection, kind, 1, head)
            made[f"lines {kind} {head}"] = attention_pictures.attention_lines(inspection, kind, 2, head)
    for picture in (
        tree.beam_tree,
        alignment_picture.alignment,
        masks_picture,
        position_pictures.positions,
        position_pictures.position_products,
        stream_pictures.residual_stream,
        stream_pictures.lens,
        architecture.architecture,
    ):
        made[picture.__name__] = picture(inspection)
    for kind in KINDS:
        made[f"statistics {kind}"] = inspection.svg("statistics", kind=kind)
    for layer, neuron in ((None, None), (1, None), (2, 3)):
        made[f"neurons {layer} {neuron}"] = inspection.svg("neurons", layer, neuron=neuron)
    return made


def parse(svg):
    return ElementTree.fromstring(svg)


def drawn_texts(root):
    """The texts on the picture, without titles."""
    return [element.text or element[-1].tail for element in root.iter(f"{SVG}text")]


def weight_cells(root):
    (group,) = (element for element in root.iter(f"{SVG}g") if "weights" in element.get("class"))
    return list(group)


def opacity(element):
    return min(float(element.get(name, 1)) for name in ("opacity", "fill-opacity", "stroke-opacity"))


# ---- all pictures


@pytest.mark.parametrize(
    "inspection", [fake(), fake(HOSTILE, HOSTILE[::-1]), fake(norm="pre", source_end=False)]
)
def test_every_picture_is_xml_with_a_name_and_no_script_or_inline_style(inspection):
    made = all_pictures(inspection)
    ids = Counter()
    for name, svg in made.items():
        root = parse(svg)
        assert root.tag == f"{SVG}svg", name
        assert root.get("role") == "img"
        title, description = root[0], root[1]
        assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
        assert title.text
        assert description.text
        assert root.get("aria-labelledby") == title.get("id")
        assert root.get("aria-describedby") == description.get("id")
        assert {element.tag for element in root.iter()} <= {
            SVG + tag for tag in ("svg", "title", "desc", "style", "rect", "path", "g", "text")
        }
        for element in root.iter():
            assert not {name for name in element.attrib if name.startswith("on") or name in ("style", "href")}
        assert not re.search(r"\bnan\b|\binf\b|url\(|@import", svg), name
        ids.update(element.get("id") for element in root.iter() if element.get("id"))
    assert set(ids.values()) == {1}


@pytest.mark.parametrize("inspection", [fake(), fake(HOSTILE, HOSTILE[::-1])])
def test_everything_lies_within_the_picture(inspection):
    for name, svg in all_pictures(inspection).items():
        root = parse(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter():
            if element.get("x") is not None:
                x, y = float(element.get("x")), float(element.get("y"))
                assert 0 <= x <= width, name
                assert 0 <= y <= height, name
                assert x + float(element.get("width", 0)) <= width, name


def test_classes_have_rules():
    rules = style()
    for name, svg in all_pictures(fake()).items():
        used = {each for element in parse(svg).iter() for each in element.get("class", "").split()}
        assert all(f".{each}{{" in rules for each in used if each.startswith(("fill-", "stroke-"))), name


def test_all_tokens_are_on_the_pictures_that_label_them():
    inspection = fake(HOSTILE, HOSTILE[::-1])
    labels = {visible(token) for token in HOSTILE}
    made = all_pictures(inspection)
    for name in (
        "head cross 2",
        "lines cross None",
        "masks_picture",
        "lens",
        "beam_tree",
        "head encoder None",
    ):
        assert labels <= set(drawn_texts(parse(made[name]))), name
    assert {"U+200B", "U+0000", "▁", "</text><script>"} <= labels


@pytest.mark.long
def test_more_tokens_than_an_axis_has_are_told():
    inspection = fake([f"s{n}" for n in range(75)], [f"t{n}" for n in range(66)])
    for name, svg in all_pictures(inspection).items():
        words = " ".join(drawn_texts(parse(svg)))
        if name != "architecture" and not name.startswith("statistics"):
            assert re.search(
                r"Only (steps 1 to 60|positions 0 to 59|(source|target) (tokens|words) 1 to 60) of ", words
            ), name
        assert not re.search(r"\b[st]6[1-5]\b", words), name
    assert len(weight_cells(parse(attention_pictures.attention_head(inspection, "cross", 1, 1)))) == 60 * 60


# ---- attention


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", [None, 1, 2])
def test_a_head_has_a_cell_for_each_weight_and_more_weight_is_more_opacity(kind, head):
    inspection = fake()
    weights = getattr(inspection.attention, kind)[1]
    expected = (weights.mean(0) if head is None else weights[head - 1]).ravel()
    cells = weight_cells(parse(attention_pictures.attention_head(inspection, kind, 2, head)))
    assert len(cells) == len(expected)
    np.testing.assert_allclose([opacity(cell) for cell in cells], expected, atol=0.0051)
    ordered = [opacity(cells[place]) for place in np.argsort(expected)]
    assert ordered == sorted(ordered)
    for cell, weight in zip(cells, expected, strict=True):
        assert cell[0].text.endswith(f"weight: {weight:.3f}")


def test_rows_are_queries_and_columns_are_keys():
    root = parse(attention_pictures.attention_head(fake(), "cross", 1, 1))
    cells = weight_cells(root)
    assert cells[1][0].text.startswith("query: ▁Ein\nkey: ▁man\n")
    assert float(cells[1].get("x")) > float(cells[0].get("x"))
    assert cells[1].get("y") == cells[0].get("y")
    first = weight_cells(parse(attention_pictures.attention_head(fake(), "decoder", 1, 1)))[0]
    assert first[0].text == "query: ▁Ein\nkey: <s>\nweight: 1.000"


@pytest.mark.parametrize("draw", [attention_pictures.attention_head, attention_pictures.attention_lines])
@pytest.mark.parametrize(
    ("layer", "head", "sentence"),
    [
        (4, 1, "There is no layer 4; this model has 3, counted from 1."),
        (0, None, "There is no layer 0; this model has 3, counted from 1."),
        (1, 3, "There is no head 3; this model has 2, counted from 1."),
    ],
)
def test_a_layer_or_head_that_the_model_lacks_is_refused(draw, layer, head, sentence):
    with pytest.raises(DragomanError, match=re.escape(sentence)):
        draw(fake(), "cross", layer, head)


def test_lines_are_the_weights():
    inspection = fake()
    weights = inspection.attention.cross[0, 1]
    lines = weight_cells(parse(attention_pictures.attention_lines(inspection, "cross", 1, 2)))
    np.testing.assert_allclose(
        [opacity(line) for line in lines], weights[weights >= 0.005].ravel(), atol=0.0051
    )
    assert not any("opacity" in line.attrib for line in lines)  # PNG would have a layer for each: seconds


def test_lines_run_from_queries_on_the_left_to_keys_on_the_right():
    inspection = fake()
    starts, ends = {}, {}
    for line in weight_cells(parse(attention_pictures.attention_lines(inspection, "cross", 1, 2))):
        query, key, _ = (part.split(": ")[1] for part in line[0].text.split("\n"))
        (left, first), (right, last) = re.findall(r"([\d.]+) ([\d.]+)", line.get("d"))
        assert float(left) < float(right)
        starts.setdefault(query, set()).add(float(first))
        ends.setdefault(key, set()).add(float(last))
    for heights, tokens in ((starts, inspection.target), (ends, inspection.source)):
        places = [heights[token] for token in tokens]
        assert all(len(each) == 1 for each in places)
        assert [min(each) for each in places] == sorted(min(each) for each in places)


@pytest.mark.parametrize("kind", KINDS)
def test_the_small_maps_are_the_weights(kind):
    inspection = fake()
    weights = getattr(inspection.attention, kind)
    root = parse(attention_pictures.attention_grid(inspection, kind))
    maps = [element for element in root.iter(f"{SVG}g") if element.find(f"{SVG}title") is not None]
    assert [element[0].text for element in maps] == [
        f"layer {layer}, head {head}"
        for layer in range(1, len(weights) + 1)
        for head in range(1, weights.shape[1] + 1)
    ]
    for element, expected in zip(maps, weights.reshape(-1, *weights.shape[2:]), strict=True):
        np.testing.assert_allclose(read_map(element, expected.shape), expected, atol=0.0051)


def read_map(group, shape):
    """The numbers that the paths of a heat map draw."""
    frame = group.find(f"{SVG}rect")
    left, top, wide, high = (float(frame.get(name)) for name in ("x", "y", "width", "height"))
    size = wide / shape[1]
    assert high / shape[0] == pytest.approx(size)
    numbers = np.zeros(shape)
    for path in group.iter(f"{SVG}path"):
        for x, y, run in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path.get("d")):
            row, column = round((float(y) - top) / size), round((float(x) - left) / size)
            numbers[row, column : column + round(float(run) / size)] += opacity(path)
    return numbers


@pytest.mark.parametrize("kind", KINDS)
def test_the_small_maps_stand_beside_their_layer_and_below_their_head(kind):
    inspection = fake()
    layers, heads = getattr(inspection.attention, kind).shape[:2]
    root = parse(attention_pictures.attention_grid(inspection, kind))
    texts = {each.text: each for each in root.iter(f"{SVG}text")}
    maps = [element for element in root.iter(f"{SVG}g") if element.find(f"{SVG}title") is not None]
    places = iter(maps)
    for layer in range(1, layers + 1):
        for head in range(1, heads + 1):
            frame = next(places).find(f"{SVG}rect")
            left, top, wide, high = (float(frame.get(name)) for name in ("x", "y", "width", "height"))
            assert float(texts[f"head {head}"].get("x")) == pytest.approx(left + wide / 2, abs=0.01)
            assert float(texts[f"layer {layer}"].get("y")) == pytest.approx(top + high / 2 + 4, abs=0.01)
    assert f"{layers} layers × {heads} heads" in root[0].text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", [attention_pictures.attention_head, attention_pictures.attention_lines])
def test_a_picture_of_attention_is_named_after_its_kind_its_layer_and_its_head(draw, kind):
    inspection = fake()
    name = "Encoder-decoder attention" if kind == "cross" else f"{kind.capitalize()} self-attention"
    last = len(getattr(inspection.attention, kind))
    for layer in (None, 1):
        for head, words in ((None, "mean of 2 heads"), (2, "head 2")):
            title = parse(draw(inspection, kind, layer, head))[0].text
            assert title == f"{name}, layer {layer or last}, {words}"


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=4))
def test_paths_cover_each_cell_once(levels):
    covered = np.zeros((len(levels), 4), int)
    for level, data in cell_paths(levels, 0, 0, 1, 1).items():
        for x, y, run in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", data):
            covered[int(y), int(x) : int(x) + int(run)] += level
    assert covered.tolist() == levels


# ---- other pictures


def test_the_tree_has_each_hypothesis_and_the_best_path_stands_out():
    inspection = fake()
    root = parse(tree.beam_tree(inspection))
    boxes = [element for element in root.iter(f"{SVG}g") if element.find(f"{SVG}title") is not None]
    assert len(boxes) == len(inspection.nodes)
    ends = Counter(box[0].text.splitlines()[3] for box in boxes)
    assert ends == {"extended": 5, "ended: below the beam": 10, "ended: finished": 1}
    (root_title,) = (box[0].text for box in boxes if box[0].text.startswith("<s>\n"))
    assert root_title.endswith("next: ▁Ein 0.750\nnext: <b> 0.250")
    branches = [path for path in root.iter(f"{SVG}path") if path.get("d").count("C") == 1]
    assert len(branches) == len(inspection.nodes) - 1
    best = [path for path in branches if "stroke-best" in path.get("class")]
    assert len(best) == len(inspection.target)
    assert all(float(path.get("stroke-width")) > 3 for path in best)


def test_a_box_of_the_tree_has_the_numbers_and_the_look_of_its_hypothesis():
    """Boxes of a step stand below each other, and a line runs from each box to its extensions."""
    inspection = fake()
    root = parse(tree.beam_tree(inspection))
    boxes = {each[0].text.split("\n")[0]: each for each in root.iter(f"{SVG}g") if each[0].text}
    places, best = [], set(inspection.best_path)
    for number, node in enumerate(inspection.nodes):
        title, box, token, details = boxes[visible(node.token)]
        lines = title.text.split("\n")
        assert lines[1:3] == [
            f"log-probability: {node.log_probability:.2f} nats",
            f"score: {node.score:.3f}",
        ]
        assert (token.text, details.text) == (visible(node.token), decimal(node.log_probability))
        look = ("best", "3") if number in best else ("line", "1")
        assert (box.get("class"), box.get("stroke-width")) == (f"fill-box stroke-{look[0]}", look[1])
        assert (box.get("stroke-dasharray") is None) == (node.end in (None, "finished"))
        places.append([float(box.get(name)) for name in ("x", "y", "width", "height")])
    for one, other in combinations(places, 2):
        assert one[0] != other[0] or abs(one[1] - other[1]) > one[3]
    expected = {
        (
            places[node.parent][0] + places[node.parent][2],
            places[node.parent][1] + 18,
            place[0],
            place[1] + 18,
        )
        for node, place in zip(inspection.nodes, places, strict=True)
        if node.parent is not None
    }
    lines = [re.findall(r"[\d.]+", each.get("d")) for each in root.iter(f"{SVG}path")]
    found = sorted((*map(float, line[:2]), *map(float, line[-2:])) for line in lines)
    np.testing.assert_allclose(found, sorted(expected), atol=0.06)


@pytest.mark.parametrize("length", [1, 12, 40])
def test_a_long_tree_is_rows_in_which_each_hypothesis_has_its_parent(length):
    tokens = [f"▁{'long' * (place % 4)}{place}" for place in range(length)]
    nodes, best = beam_nodes(tokens)
    inspection = replace(fake(), nodes=nodes, best_path=best, candidates={})
    root = parse(tree.beam_tree(inspection))
    assert float(root.get("width")) <= tree.MAX_WIDTH + 2 * tree.LEFT
    boxes = [each for each in root.iter(f"{SVG}g") if each[0].text]
    rows = {box[1].get("y") for box in boxes if box[0].text.startswith("<s>\n")}
    assert len(rows) == 1, "the beginning is drawn once"
    corners = [tuple(float(box[1].get(name)) for name in ("x", "y", "width")) for box in boxes]
    assert len({*corners}) == len(corners)
    lefts, rights = {(x, y + 18) for x, y, _ in corners}, {(x + width, y + 18) for x, y, width in corners}
    lines = [list(map(float, re.findall(r"[\d.]+", each.get("d")))) for each in root.iter(f"{SVG}path")]
    assert len(lines) == len(nodes) - 1, "a line from each hypothesis but the first to its parent"
    for ends, place in ((rights, slice(0, 2)), (lefts, slice(-2, None))):
        for line in lines:
            assert min(math.dist(line[place], end) for end in ends) < 0.1


def test_a_finished_hypothesis_beside_the_translation_has_a_thick_line():
    known = fake()
    other = replace(known.nodes[-1], end="finished")
    root = parse(tree.beam_tree(replace(known, nodes=(*known.nodes[:-1], other))))
    looks = [each.get("class") for each in root.iter(f"{SVG}rect") if each.get("stroke-width") == "2"]
    assert looks == ["fill-box stroke-ink"] * 2  # and the one of the key


def test_a_hypothesis_names_its_likeliest_next_tokens():
    known = fake()
    tokens = tuple(TokenProbability(f"▁{n}", -float(n)) for n in range(NEXT_TOKENS + 2))
    title = hypothesis_title(replace(known, candidates={0: tokens}), 0).split("\n")
    assert [line for line in title if line.startswith("next: ")] == [
        f"next: ▁{n} {math.exp(-n):.3f}" for n in range(NEXT_TOKENS)
    ]


def test_columns_of_the_tree_are_ordered_without_crossings():
    nodes, _ = beam_nodes(["a", "b", "c"])
    nodes = (*nodes, Node(3, "x", -3.0, -2.0, None), Node(2, "y", -3.0, -2.0, None))
    steps = tree_columns(nodes)
    assert sorted(number for column in steps for number in column) == list(range(len(nodes)))
    for before, column in pairwise(steps):
        ranks = [before.index(nodes[number].parent) for number in column]
        assert ranks == sorted(ranks)
        for one, other in pairwise(column):
            if nodes[one].parent == nodes[other].parent:
                assert nodes[one].log_probability >= nodes[other].log_probability


def test_masks_allow_what_the_model_allows():
    inspection = fake(source_end=False)
    _, *titles = (element.text for element in parse(masks_picture(inspection)).iter(f"{SVG}title"))
    cells = [title.split("\n") for title in titles]
    allowed = {(query[7:], key[5:], words == "allowed") for query, key, words in cells}
    assert ("▁A", "▁rides", True) in allowed
    assert ("▁A", "</s>", False) in allowed
    assert ("▁A", "padding", False) in allowed
    assert ("▁Ein", "<s>", True) in allowed
    assert ("▁Ein", "▁Ein", True) in allowed
    assert ("<s>", "▁Ein", False) in allowed
    assert not any(may for query, key, may in allowed if key == "padding" and query != "padding")
    assert len(cells) == 5 * 5 + 6 * 5 + 6 * 6


def test_the_word_alignment_has_a_line_for_each_link():
    inspection = fake()
    sides = (inspection.source, inspection.source_words), (inspection.target, inspection.target_words)
    source, target = (words_of(*side) for side in sides)
    titles = [each.text for each in parse(alignment_picture.alignment(inspection)).iter(f"{SVG}title")]
    assert titles[1:] == [f"{source[one]}: {target[other]}" for one, other in inspection.alignment]


@pytest.mark.parametrize("window", [None, (2, 3)])
def test_each_table_of_masks_has_the_cells_of_its_mask(window):
    random = np.random.default_rng(6)
    known = fake()
    masks = {name: random.random(each.shape) < 0.5 for name, each in vars(known.masks).items()}
    inspection = replace(known, masks=Masks(**masks))
    _, *titles = (element.text for element in parse(masks_picture(inspection, window)).iter(f"{SVG}title"))
    seen = slice(None) if window is None else slice(1, 3)
    source, target = [*range(len(SOURCE))[seen], len(SOURCE)], [*range(len(TARGET))[seen], len(TARGET)]
    names = [*SOURCE, "padding"], [*inspection.decoder_inputs, "padding"]
    tables = {
        "encoder": (source, source, names[0], names[0]),
        "cross": (target, source, names[1], names[0]),
        "decoder": (target, target, names[1], names[1]),
    }
    words = {True: "allowed", False: "not allowed"}
    assert titles == [
        f"query: {queries[row]}\nkey: {keys[column]}\n{words[bool(masks[name][row, column])]}"
        for name, (rows, columns, queries, keys) in tables.items()
        for row in rows
        for column in columns
    ]


@pytest.mark.parametrize("source_end", [True, False])
@pytest.mark.parametrize("neighbourhood", [None, 6])
def test_masks_name_the_settings_that_make_them(source_end, neighbourhood):
    inspection = fake(source_end=source_end, neighbourhood=neighbourhood)
    words = " ".join(drawn_texts(parse(masks_picture(inspection))))
    assert ("(source_end = false)" in words) == (not source_end)
    assert ("a neighbourhood of 6 positions" in words) == (neighbourhood is not None)


@pytest.mark.parametrize("window", [None, (2, 3)])
def test_a_link_runs_from_its_source_word_to_its_target_word(window):
    links = ((0, 1), (2, 0), (1, 3), (2, 2))
    inspection = replace(fake(), alignment=links)
    root = parse(alignment_picture.alignment(inspection, window))
    words = {each.text: float(each.get("y")) for each in root.iter(f"{SVG}text")}
    drawn = {}
    for path in root.iter(f"{SVG}path"):
        (left, start), (right, end) = re.findall(r"([\d.]+) ([\d.]+)", path.get("d"))
        assert float(left) < float(right)
        drawn[path[0].text] = float(start), float(end)
    source, target = [token[1:] for token in SOURCE[:-1]], [token[1:] for token in TARGET[:-1]]
    seen = range(4) if window is None else range(1, 3)
    expected = [(source[one], target[other]) for one, other in links if one in seen and other in seen]
    assert drawn.keys() == {f"{one}: {other}" for one, other in expected}
    for one, other in expected:
        assert drawn[f"{one}: {other}"] == (words[one] - 4, words[other] - 4)


@pytest.mark.parametrize(("head", "words"), [(None, "averaged over its heads"), (2, "head 2")])
def test_the_word_alignment_names_the_head_that_it_is_read_from(head, words):
    texts = drawn_texts(parse(alignment_picture.alignment(fake(alignment_head=head))))
    assert f"in the last layer, {words}." in " ".join(texts)


def test_shares_of_a_layer_fill_the_bar():
    titles = [element.text for element in parse(stream_pictures.residual_stream(fake())).iter(f"{SVG}title")]
    shares = [float(title.split()[-1].rstrip("%")) for title in titles if title.endswith("%")]
    assert len(shares) == 2 * 3 + 3 * 4
    assert sum(shares) == pytest.approx(100 * 5, abs=1)


def test_a_share_is_the_norm_of_a_part_over_the_sum_of_all():
    inspection = fake()
    shares = {
        tuple(title.split(": ")[0].split(", ")): float(title.split(": ")[1].rstrip("%")) / 100
        for title in (
            element.text for element in parse(stream_pictures.residual_stream(inspection)).iter(f"{SVG}title")
        )
        if title.endswith("%")
    }
    stream = inspection.stream
    first = stream.decoder[0], *stream.decoder_sublayers[0]  # the embedding, and what the sub-layers add
    for name, part in zip(
        ("input", "self-attention", "encoder-decoder attention", "feed-forward"), first, strict=True
    ):
        assert any(
            key == ("layer 1", name) and share == pytest.approx((part / sum(first)).mean(), abs=6e-4)
            for key, share in shares.items()
        )


def test_a_part_of_a_bar_is_as_wide_as_its_share_and_a_wide_one_is_labelled():
    groups = [
        each
        for each in parse(stream_pictures.residual_stream(fake())).iter(f"{SVG}g")
        if each[0].text.endswith("%")
    ]
    end, row = 0.0, None
    for group in groups:
        _, part, *labels = group
        share, left, width = (
            float(group[0].text.split()[-1].rstrip("%")) / 100,
            *(float(part.get(name)) for name in ("x", "width")),
        )
        assert left == pytest.approx(64 if part.get("y") != row else end, abs=0.02)
        end, row = left + width, part.get("y")
        assert width / 460 == pytest.approx(share, abs=6e-4)
        assert [round(float(each.text.rstrip("%")) - 100 * share) for each in labels] == [0] * (share > 0.08)


@pytest.mark.parametrize("window", [None, (2, 4)])
def test_lines_of_norms_are_those_of_their_tokens(window):
    """In each chart heights are a linear function of the norms, and the names of the lines have the norms."""
    inspection = fake()
    root = parse(stream_pictures.residual_stream(inspection, window))
    lines = [each for each in root.iter(f"{SVG}path") if len(each) and each[0].text.startswith("position ")]
    expected = []
    for norms, tokens in (
        (inspection.stream.encoder, inspection.source),
        (inspection.stream.decoder, inspection.target),
    ):
        places = range(len(tokens))[slice(None) if window is None else slice(1, 4)]
        own, lines = lines[: len(places)], lines[len(places) :]
        expected = [
            f"position {place}: {tokens[place]}\n" + ", ".join(f"{norm:.2f}" for norm in norms[:, place])
            for place in places
        ]
        assert [line[0].text for line in own] == expected
        assert ["stroke-best" in line.get("class") for line in own] == [False] * (len(own) - 1) + [True]
        points = [re.findall(r"([\d.]+) ([\d.]+)", line.get("d")) for line in own]
        x, y = np.array(points, float).transpose(2, 0, 1)
        assert_linear(norms[:, places].T, -y)
        assert_linear(np.broadcast_to(np.arange(len(norms)), x.shape), x)
    assert not lines


def assert_linear(numbers, pixels):
    """Pixels grow linearly with the numbers, to the two decimals of a coordinate."""
    slope, start = np.polyfit(numbers.ravel().astype(float), pixels.ravel(), 1)
    assert slope > 0
    np.testing.assert_allclose(slope * numbers + start, pixels, atol=0.02)


def test_only_post_norm_has_a_note_on_shares():
    for norm in ("post", "pre", "none"):
        texts = " ".join(drawn_texts(parse(stream_pictures.residual_stream(fake(norm=norm)))))
        assert ("(post-norm)" in texts) == (norm == "post")


@pytest.mark.parametrize("window", [None, (2, 4)])
def test_the_lens_frames_the_decision_and_a_layer_that_predicts_the_token_is_bold(window):
    known, random = fake(), np.random.default_rng(3)
    agrees = random.random((3, len(TARGET))) < 0.7
    lens = tuple(
        tuple(
            (TokenProbability(token if same else "▁other", -0.5),)
            for token, same in zip(TARGET, row, strict=True)
        )
        for row in agrees
    )
    inspection = replace(known, lens=lens)
    cells = [
        each
        for each in parse(stream_pictures.lens(inspection, window)).iter(f"{SVG}g")
        if (each[0].text or "").startswith("layer ")
    ]
    seen = []
    for cell in cells:
        framed = any("stroke-best" in each.get("class", "") for each in cell)
        bold = any(each.get("font-weight") for each in cell.iter(f"{SVG}text"))
        seen.append((int(cell[0].text.split()[1]), framed, bold))
    places = range(len(TARGET))[slice(None) if window is None else slice(1, 4)]
    decided = decisions(inspection)
    assert len({decided[place] for place in places}) > 1
    assert seen == [
        (layer + 1, decided[place] == layer + 1, bool(agrees[layer, place]))
        for place in places
        for layer in range(3)
    ]


def test_the_lens_has_the_likeliest_tokens_and_their_probabilities():
    inspection = fake()
    texts = drawn_texts(parse(stream_pictures.lens(inspection)))
    assert texts.count("▁other") == 5
    assert texts.count("▁Rad") == 1 + 2
    assert texts.count(f"{4 / 6:.2f}") >= 3


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_architecture_has_the_models_sizes(norm, tied):
    inspection = fake(norm=norm, tied=tied)
    texts = drawn_texts(parse(architecture.architecture(inspection)))
    assert {"2 ×", "3 ×", "h = 2, d_k = 8, d_v = 8", "d_ff = 32, relu"} <= set(texts)
    assert {"[S]", "[S, d_model]", "[T]", "[T, d_model]", "[T, V]"} <= set(texts)
    assert texts.count("1,024 parameters") == 3  # 4 · 16 · 16 of each attention
    assert texts.count("1,072 parameters") == 2  # 2 · 16 · 32 + 32 + 16
    assert ("1,234 parameters" in texts) == (inspection.model.tied != "all")
    assert texts.count("32 parameters") == 5 + 2 * (norm == "pre")


def test_lines_of_dot_products_start_at_the_norms():
    inspection = fake()
    titles = [
        element.text for element in parse(position_pictures.position_products(inspection)).iter(f"{SVG}title")
    ]
    assert set(titles) >= {f"p = {first}" for first in range(5)}


def drawn_boxes(root):
    """The boxes of each side of an architecture, from bottom to top: top, bottom, and texts."""
    texts = [(float(each.get("x")), float(each.get("y")), each.text) for each in root.iter(f"{SVG}text")]
    sides = {}
    for each in root.iter(f"{SVG}rect"):
        if each.get("rx") == "5":
            left, top, wide, high = (float(each.get(name)) for name in ("x", "y", "width", "height"))
            own = [words for x, y, words in texts if x == left + wide / 2 and top < y < top + high]
            sides.setdefault(left, []).append((top, top + high, own))
    encoder, decoder = (sorted(sides[left], reverse=True) for left in sorted(sides))
    return encoder, decoder


OTHERS = {
    "two widths": replace(SMALL, decoder_d_ff=48, tied="target", scale_embeddings=False, d_v=3),
    "lstm, three layers": ModelSettings("lstm", d_model=8, encoder_layers=1, decoder_layers=3, tied="none"),
    "pre, not residual": replace(SMALL, norm="pre", residual=False),
    "conv, deep": ModelSettings("conv", d_model=8, encoder_layers=5, decoder_layers=7, dilated=True),
    "conv, enriched, not dilated": replace(SMALL, architecture="conv-enriched"),
}


@pytest.mark.parametrize("name", MODELS | VARIANTS | OTHERS)
def test_the_architecture_is_that_of_the_model(name):
    """Parameters, sizes and residual connections are read from the model's own modules."""
    settings = (MODELS | VARIANTS | OTHERS)[name]
    model = build_model(settings, 11, 11 if settings.tied == "all" else 13)
    counts = Counter()
    for weight, values in model.named_parameters():
        counts[part_of(weight)] += values.numel()
    inspection = fake(**vars(settings))
    modules = tuple(ModuleSummary(part, count, ()) for part, count in counts.items())
    root = parse(replace(inspection, modules=modules).svg("model"))
    sides, words = drawn_boxes(root), " ".join(drawn_texts(root))

    def size(part):
        return sum(values.numel() for key, values in model.named_parameters() if key.startswith(f"{part}."))

    def counted(part):
        return f"{size(part):,} parameters"

    convolution, recurrent = settings.architecture == "conv", settings.architecture in ("lstm", "gru")
    kinds = {
        "conv": (["convolution"], ["convolution", "attention"]),
        "transformer": (
            ["self_attention", "feed_forward"],
            ["self_attention", "cross_attention", "feed_forward"],
        ),
    }
    other = ["token_mixer", "feed_forward"], ["token_mixer", "cross_attention", "feed_forward"]
    parts = [
        [f"{side}.0.{part}" for part in own]
        for side, own in zip(("encoder", "decoder"), kinds.get(settings.architecture, other), strict=True)
    ]
    if recurrent:
        parts = ["encoder"], ["attention", "decoder"]
    pre = settings.norm == "pre"
    around = []  # the texts of what each residual connection goes around
    for side, boxes, own in zip(("encoder", "decoder"), sides, parts, strict=True):
        sublayers = [place for place, (_, _, texts) in enumerate(boxes) if is_sublayer(texts[0])]
        assert len(sublayers) == len(own)
        for place, part in zip(sublayers, own, strict=True):
            texts, module = boxes[place][2], model.get_submodule(part)
            total = " in all" * (part in ("encoder", "decoder"))
            assert texts[-1] == counted(part) + total
            if isinstance(module, MultiHeadAttention):
                keys, _, values = (width // module.heads for width in module.widths)
                assert texts[1] == f"h = {module.heads}, d_k = {keys}, d_v = {values}"
                near = f"neighbourhood of {settings.neighbourhood}"
                assert (near in texts) == isinstance(module, RestrictedAttention)
                scores = [each for each in texts if each.endswith(" scores")]
                assert scores == [f"{settings.attention_score} scores"] * (
                    settings.attention_score is not None
                )
            if isinstance(module, FeedForward):
                assert texts[1] == f"d_ff = {module.inner.out_features}, {settings.activation}"
            if isinstance(module, GatedConvolution):
                causal = ", causal" * (side == "decoder")
                assert texts[1] == f"kernel of {settings.kernel_width}{causal}"
                blocks = getattr(model, side)
                if convolution and settings.dilated:
                    steps = [f"{block.convolution.distance}" for block in blocks]
                    more = ", …" * (len(steps) > 5)
                    assert texts[2] == f"steps of {', '.join(steps[:5])}{more}"
                assert any("dilated" in each or "steps" in each for each in texts) == settings.dilated
            if isinstance(module, nn.RNNBase | Recurrence):
                assert texts[0].startswith("Bidirectional ") == (side == "encoder")
            if not recurrent and not convolution and not pre:
                after = boxes[place + 1][2][0].lower()
                assert ("add" in after) == settings.residual
                assert ("norm" in after) == (settings.norm != "none")
                assert ("batch" in after) == (settings.norm == "batch")
            if not recurrent and settings.residual:
                around.append([boxes[place - 1][2], texts] if pre else [texts])
        if convolution and side == "decoder":
            first, second = (boxes[place][2] for place in sublayers)
            around.remove([first])
            around.append([first, second, boxes[sublayers[1] + 1][2]])
    found = []
    for each in root.iter(f"{SVG}path"):
        if each.get("class") == "curve stroke-ink" and each.get("d").count("L") == 3:
            x, y = np.array(re.findall(r"([\d.-]+) ([\d.-]+)", each.get("d")), float).T
            side = sides[0 if x.max() < 300 else 1]
            found.append([texts for top, bottom, texts in side if y.min() < top and bottom < y.max()])
    assert sorted(found) == sorted(around)
    (end,) = (each.get("d") for each in root.iter(f"{SVG}path") if each.get("class") == "fill-self")
    height = float(end.split("l")[0].split()[1])
    (reader,) = (texts for top, bottom, texts in sides[1] if top < height < bottom)
    assert re.search("attention", reader[0], re.IGNORECASE)
    assert not reader[0].startswith("Masked")
    if not convolution and not recurrent:
        for side, length in zip(sides, "ST", strict=True):
            added = [texts[:2] for *_, texts in side if texts[0].endswith(" positions")]
            verb = "Concatenate" if settings.concatenate_positions else "Add"
            assert added == [[f"{verb} positions", settings.positions]] * (settings.positions != "none")
            shapes = [
                each.text for each in root.iter(f"{SVG}text") if re.match(rf"\[{length}[],]", each.text)
            ]
            assert shapes[0] == f"[{length}]"  # what goes into the lowest box
    embedding = sides[0][0][2]
    assert ("times √d_model" in embedding) == (
        settings.scale_embeddings and not convolution and not recurrent
    )
    assert ("the target embedding's matrix" in embedding) == (settings.tied == "all")
    assert (counted("source_embedding") in embedding) == (settings.tied != "all")
    assert counted("target_embedding") in sides[1][0][2]
    if convolution:
        added = counted("source_positions") if settings.positions == "learned" else f"times {EMBEDDING_STD}"
        assert added in sides[0][1][2]
    if recurrent:
        read = model.decoder[0].input_size // settings.d_model
        assert f"[T, {read} d_model]" in drawn_texts(root)
    linear = sides[1][-2][2]
    assert linear[0] == "Linear"
    assert (linear[1] == "the target embedding's matrix") == (model.output is model.target_embedding)
    for side, count in zip((0, 1), (settings.encoder_layers, settings.decoder_layers), strict=True):
        assert [each for each in drawn_texts(root) if each.endswith(" ×")][side] == f"{count} ×"
    if not convolution and not recurrent:
        layers = (
            f"An encoder layer has {size('encoder.0'):,} parameters, a decoder layer {size('decoder.0'):,}."
        )
        assert layers in words


def is_sublayer(name):
    """Whether a box of this name is a sub-layer, and not a sum, norm or map around it."""
    return bool(re.search("[Aa]ttention|Feed-forward|Convolution|LSTM|GRU", name))


@pytest.mark.parametrize("window", [None, (3, 5)])
def test_lines_of_dot_products_are_the_products_against_the_distance(window):
    inspection = fake()
    random = np.random.default_rng(4).normal(size=inspection.positions.shape).astype(np.float32)
    inspection = replace(inspection, positions=random)
    root = parse(position_pictures.position_products(inspection, window))
    lines = {each[0].text: each for each in root.iter(f"{SVG}path") if len(each)}
    table = random if window is None else random[2:5]
    products, first = table @ table.T, 0 if window is None else 2
    assert lines.keys() == {f"p = {first + row}" for row in range(len(table))}
    numbers, distances, x, y = [], [], [], []
    for row in range(len(table)):
        line = lines[f"p = {first + row}"]
        points = [tuple(map(float, each)) for each in re.findall(r"([\d.]+) ([\d.]+)", line.get("d"))]
        assert len(points) == len(table) - row
        assert ("stroke-best" in line.get("class")) == (row == 0)
        x += [point[0] for point in points]
        y += [-point[1] for point in points]
        numbers += products[row, row:].tolist()
        distances += range(len(points))
    assert_linear(np.array(numbers), np.array(y))
    assert_linear(np.array(distances), np.array(x))


@pytest.mark.parametrize("window", [None, (7, 13)])
@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal-tensor2tensor", "learned"])
def test_the_table_of_positions_has_each_number_with_its_sign(kind, window):
    table = np.random.default_rng(4).normal(size=(13, 16)).astype(np.float32)
    inspection = replace(fake(positions=kind), positions=table)
    root = parse(position_pictures.positions(inspection, window))
    first = 0 if window is None else 6
    table = table[first:]
    (cells,) = (
        each
        for each in root.iter(f"{SVG}g")
        if each.get("class") == "cells" and each.find(f"{SVG}path") is not None
    )
    frame = cells.find(f"{SVG}rect")
    left, top, wide, high = (float(frame.get(name)) for name in ("x", "y", "width", "height"))
    size, height, shown = wide / 16, high / len(table), np.zeros(table.shape)
    for path in cells.iter(f"{SVG}path"):
        sign = -1 if path.get("class") == "fill-negative" else 1
        for x, y, run in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path.get("d")):
            row, column = round((float(y) - top) / height), round((float(x) - left) / size)
            shown[row, column : column + round(float(run) / size)] += sign * opacity(path)
    most = float(np.abs(table).max())
    np.testing.assert_allclose(shown, table / most, atol=0.0051)
    texts = [(each.text, float(each.get("x")), float(each.get("y"))) for each in root.iter(f"{SVG}text")]
    rows = {text: y for text, x, y in texts if x < left and top <= y <= top + high}
    assert rows == {str(first + row): top + row * height + 9 for row in range(0, len(table), 5)}
    names = [(text, x, y) for text, x, y in texts if top + high < y < top + high + 34 and text.isascii()]
    places = {x: int(text) for text, x, y in names if y == min(y for _, _, y in names)}
    assert all(x == pytest.approx(left + (place + 0.5) * size, abs=0.01) for x, place in places.items())
    periods = {
        places[x]: float(text.replace(",", ""))
        for text, x, y in names
        if y > min(y for _, _, y in names) and x in places
    }
    known = wavelengths(kind, 16)
    assert periods.keys() == (set(places.values()) if len(known) else set())
    assert periods == pytest.approx({place: known[place] for place in periods}, rel=5e-3)
    ticks = [text for text, _, _ in texts]
    place = ticks.index("number in the table (no unit)")
    assert ticks[place + 1 : place + 4] == [f"−{most:.3g}", "0", f"{most:.3g}"]


def test_numbers_that_are_zero_or_not_finite_are_drawn():
    inspection = fake()
    zero = replace(
        inspection,
        positions=np.zeros_like(inspection.positions),
        stream=ResidualStream(*(np.zeros_like(each) for each in vars(inspection.stream).values())),
        attention=AttentionWeights(
            *(np.full_like(each, np.nan) for each in vars(inspection.attention).values())
        ),
    )
    for svg in all_pictures(zero).values():
        parse(svg)


# ---- scales and texts


def luminance(rgb):
    """Relative luminance as WCAG defines it."""
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in rgb]
    return sum(share * each for share, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("scale", [sequential, diverging, lambda share: diverging(-share)])
def test_scales_are_ordered_by_luminance(dark, scale):
    shades = [luminance(scale(step / 50).rgb(dark)) for step in range(51)]
    assert shades == sorted(shades, reverse=not dark)
    assert len(set(shades)) == 51
    assert contrast(scale(0).rgb(dark), scale(1).rgb(dark)) > 7


@pytest.mark.parametrize("dark", [False, True])
def test_labels_on_shades_can_be_read(dark):
    for share in [step / 50 for step in range(51)]:
        shade = sequential(share)
        label = COLOURS[shade.label.removeprefix("fill-")][dark]
        assert contrast(channels(label), shade.rgb(dark)) > 4.5


@pytest.mark.parametrize("dark", [False, True])
def test_labels_on_parts_can_be_read(dark):
    for colour, label in stream_pictures.PARTS.values():
        assert contrast(channels(COLOURS[colour][dark]), channels(COLOURS[label][dark])) > 4.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "faint", "best", "self"])
def test_texts_and_lines_can_be_seen(dark, name):
    for paper in ("paper", "box"):
        assert contrast(channels(COLOURS[name][dark]), channels(COLOURS[paper][dark])) > 4.5


def lab(colour):
    """CIE L*a*b* of `#rrggbb`, in which equal distances look about equally different (D65)."""
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels(colour)
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    x, y, z = (
        each ** (1 / 3) if each > 216 / 24389 else (24389 / 27 * each + 16) / 116 for each in (x, y, z)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_of_heads_can_be_told_apart(dark):
    colours = [COLOURS[name][dark] for name in HEAD_COLOURS]
    assert len(colours) == 8  # as many as the paper's models have heads in a layer
    for one, other in combinations(colours, 2):
        assert math.dist(lab(one), lab(other)) > 25, (one, other)
    for colour in colours:
        assert contrast(channels(colour), channels(COLOURS["paper"][dark])) > 4.5


@given(st.floats())
def test_every_number_has_a_shade(share):
    for shade in (sequential(share), diverging(share)):
        assert isinstance(shade, Shade)
        assert 0 <= shade.opacity <= 1


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("▁Haus", "▁Haus"),
        ("a\u200bb", "aU+200Bb"),
        ("\u202e", "U+202E"),
        ("\n", "U+000A"),
        ("", "(empty)"),
        (" ", "U+0020"),
        ("a b", "a b"),
        ("\u00a0", "U+00A0"),
        ("\ufe0f", "U+FE0F"),
        ("\U000e0041", "U+E0041"),
        ("مرحبا", "مرحبا"),
    ],
)
def test_characters_without_a_glyph_are_named(token, expected):
    assert visible(token) == expected


@given(st.text())
def test_every_text_can_stand_in_xml(text):
    element = parse(f'<text title="{escape(text)}">{escape(visible(text))}</text>')
    assert element.text == visible(text)


@given(st.text(max_size=60))
def test_shortened_labels_begin_as_the_label(text):
    short = shortened(text)
    assert text.startswith(short.removesuffix("…"))


@given(st.text(st.sampled_from("aW中\u0301ｗ"), max_size=60))
def test_a_shortened_label_is_the_longest_beginning_that_leaves_room_for_the_ellipsis(text):
    beginnings = [text[:count] for count in range(len(text) + 1)]
    longest = [each for each in beginnings if columns_of(each) < MAX_COLUMNS][-1]
    assert shortened(text) == (text if columns_of(text) <= MAX_COLUMNS else longest + "…")


def test_a_long_label_is_shortened_in_linear_time():
    assert shortened("a" * 500_000) == "a" * (MAX_COLUMNS - 1) + "…"


@pytest.mark.parametrize(
    ("value", "digits", "sign", "expected"),
    [
        (-1.234, 2, "", "−1.23"),
        (-0.001, 2, "", "0.00"),
        (-0.0, 3, "+", "+0.000"),
        (0.5, 3, "+", "+0.500"),
        (-math.inf, 2, "", "−inf"),
    ],
)
def test_a_decimal_has_its_digits_and_a_minus_sign(value, digits, sign, expected):
    assert decimal(value, digits, sign) == expected


@given(st.text("ab ", min_size=1), st.floats(0, 500), st.sampled_from(["middle", "end"]), st.floats(-80, 80))
def test_a_text_reaches_as_far_as_one_that_starts_where_its_anchor_puts_it(words, x, anchor, turn):
    width = text_width(words) / {"middle": 2, "end": 1}[anchor]
    drawings = [Drawing("a", "", "") for _ in range(2)]
    drawings[0].text(x, 50, words, anchor=anchor, turn=turn)
    drawings[1].text(x - width * math.cos(math.radians(turn)), 50, words, turn=turn)
    assert drawings[0].width == pytest.approx(drawings[1].width)
    assert drawings[0].height == drawings[1].height


@given(st.lists(st.text("ab中", min_size=1, max_size=12), max_size=12), st.integers(4, 20))
def test_lines_of_a_paragraph_are_as_full_as_their_columns_allow(words, columns):
    drawing = Drawing("a", "title", "")
    end = drawing.paragraph(16, 100, " ".join(words), columns)
    _, *lines = drawn_texts(parse(drawing.svg()))
    assert end == 100 + 17 * len(lines)
    assert [word for line in lines for word in line.split()] == words
    for line in lines:
        assert columns_of(line) <= columns or " " not in line
    for line, following in pairwise(lines):
        assert columns_of(f"{line} {following.split()[0]}") > columns


def test_empty_notes_are_left_out():
    drawn = [finished(Drawing("a", "A", "B"), notes) for notes in (["", "one", "", "two"], ["one", "two"])]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("span", [(0, 1), (0, 7), (-3.5, 12), (0, 1e-6), (2, 2), (0, 240)])
def test_ticks_are_few_and_inside(span):
    found = ticks(*span)
    assert 1 <= len(found) <= 8
    assert all(span[0] - 1e-9 <= tick <= span[1] + 1e-9 for tick in found)

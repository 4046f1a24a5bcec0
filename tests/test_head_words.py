"""Words in place of tokens, windows of long sentences, statistics of heads, and what a file has room for."""

import base64
import json
import re
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.inspection.analyse.statistics import head_alignments, is_punctuation, of_weights, statistics
from dragoman.inspection.contents import (
    FILE,
    LIVE,
    Contents,
    LayersAndHeads,
    SizeLimits,
    contents,
    mean_bytes,
    overview,
    projections_bytes,
    weights_bytes,
    words_bytes,
)
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.record.words import by_words, words_of
from dragoman.inspection.report import to_html
from dragoman.inspection.schema import array_from_json, to_json
from dragoman.inspection.views.alignment_marks import differences, mark_differences
from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.labels import in_window, view
from dragoman.system.errors import DragomanError
from tests.conftest import MODELS
from tests.test_inspection import LINES, SETTINGS, translator_of
from tests.test_pictures import SVG
from tests.test_report import fake_inspection


@pytest.fixture(scope="module")
def found():
    return inspect(translator_of(MODELS["transformer"]), LINES[3], SETTINGS[0])


@pytest.fixture(scope="module")
def pieces():
    """10 source and 9 target tokens, in words of one to three."""
    words = {"source_words": (0, 0, 1, 2, 2, 2, 3, 4, 4, 5), "target_words": (0, 1, 1, 2, 3, 3, 4, 5, 6)}
    words["alignment"] = ((0, 0), (2, 1), (4, 5))
    return replace(fake_inspection(10, 9, 2, 3, 12), **words)


# ---- words


def test_rows_of_words_still_sum_to_1(found, pieces):
    for inspection in (found, pieces):
        for kind in KINDS:
            np.testing.assert_allclose(by_words(inspection).attention.of(kind).sum(-1), 1, atol=1e-5)


def test_keys_of_a_word_are_summed_and_its_queries_averaged(pieces):
    words, weights = by_words(pieces), pieces.attention.cross
    assert words.attention.cross.shape == (2, 3, 7, 6)
    np.testing.assert_allclose(
        words.attention.cross[:, :, 3, 2], weights[:, :, 4:6, 3:6].sum(3).mean(2), rtol=1e-5
    )
    # The decoder's keys are START, then the words of the tokens that it reads.
    np.testing.assert_allclose(
        words.attention.decoder[:, :, 4, 2], pieces.attention.decoder[:, :, 6, 2:4].sum(2), rtol=1e-5
    )
    assert words.decoder_inputs == ("<s>", *words.target[:-1])
    assert words.target[1] == "to1too2"


def test_bytes_of_a_word_are_shown_as_characters():
    tokens = ["▁a", "▁", *(f"<0x{byte:02X}>" for byte in "漢字".encode()), "!", "<0xE6>", "</s>"]
    assert words_of(tokens, [0, *[1] * 9, 2]) == ("a", "漢字!\ufffd", "</s>")


def test_words_of_one_token_each_are_the_tokens():
    inspection = fake_inspection(6, 5, 2, 2, 8)
    for kind in KINDS:
        assert np.array_equal(by_words(inspection).attention.of(kind), inspection.attention.of(kind))


def test_the_data_has_the_weights_between_words_once(pieces):
    """They are rounded to 1/255; if each token is a word, or there is no room, they are not written."""
    names = to_json(pieces)["target"]["names"]
    assert tuple(names) == by_words(pieces).target
    for kind in KINDS:
        table = to_json(pieces)["attention"][kind]["words"]
        shares = np.frombuffer(base64.b64decode(table["uint8"]), np.uint8).reshape(table["shape"]) / 255
        np.testing.assert_allclose(shares, by_words(pieces).attention.of(kind), atol=0.5 / 255 + 1e-6)
        assert to_json(fake_inspection(6, 5, 2, 2, 8))["attention"][kind]["words"] is None
        assert "words" not in to_json(pieces, contents(pieces, SizeLimits(0, 0, 0, 1)))["attention"][kind]


def test_a_word_without_a_token_of_its_own_has_no_row(pieces):
    gap = replace(pieces, source_words=(0, 0, 1, 4, 4, 4, 5, 6, 6, 7))
    assert by_words(gap).source == by_words(pieces).source


def test_a_picture_can_have_words(pieces):
    svg = pieces.svg("cross", layer=1, head=1, words=True)
    titles = [each.text for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert sum("weight:" in title for title in titles) == 7 * 6
    assert "query: the positions that predict this target word" in svg
    assert pieces.svg("encoder", words=True) != pieces.svg("encoder")


@pytest.mark.parametrize("words", [True, False])
def test_words_where_the_alignment_differs_are_marked(pieces, words):
    """A solid outline for the word alignment, and a dashed one for the head's own."""
    own, links = head_alignments(pieces)[1][2], {word: source for source, word in pieces.alignment}
    others = [word for word in links if own[word] != links[word]]
    assert differences(pieces, 2, 3) == {word: (links[word], own[word]) for word in others}
    assert others
    tree = ElementTree.fromstring(pieces.svg("cross", layer=2, head=3, words=words))
    marks = [each.get("d") for each in tree.iter(f"{SVG}path") if each.get("class") == "curve stroke-best"]
    assert len(marks) == 2 * len(others) + 2  # and the legend
    sizes = [tuple((float(each) + 3) / 24 for each in re.findall(r"[hv]([0-9.]+)", mark)) for mark in marks]
    expected = [
        (pieces.source_words.count(source), pieces.target_words.count(word))
        for word in others
        for source in (links[word], own[word])
    ]
    assert sizes[:-2] == ([(1, 1)] * len(expected) if words else expected)
    assert "curve stroke-best" not in pieces.svg("decoder", layer=2, head=3, words=words)


def test_marks_and_their_legend_are_drawn_where_the_window_has_some(pieces):
    marks = [
        pieces.svg("cross", layer=2, head=3, window=window).count("curve stroke-best")
        for window in (None, (5, 10), (10, 10))
    ]
    assert marks[0] >= marks[1] > 2
    assert marks[2] == 0


def marked_cells(inspection, words, window):
    """The columns and rows that each mark encloses, as pairs of the first and the one after the last."""
    drawing = Drawing("marks", "", "")
    mark_differences(drawing, inspection, 2, 3, words, window, left=0, top=0, cell=10)
    paths = ElementTree.fromstring(f"<g>{''.join(drawing.parts)}</g>").iter("path")
    marks = (path.get("d") for path in paths if path.find("title") is not None)  # not those of the legend
    outlines = [re.match("M(.*) (.*)h(.*)v(.*)h", mark).groups() for mark in marks]
    return [
        ((round(x / 10), round((x + width) / 10)), (round(y / 10), round((y + height) / 10)))
        for x, y, width, height in (map(float, outline) for outline in outlines)
    ]


@given(st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_marks_in_a_window_are_those_of_the_whole_map_that_it_shows(pieces, first, last, words):
    window = min(first, last), max(first, last)
    sides = pieces.source_words, pieces.target_words
    drawn = [in_window(len({*side} if words else side), window) for side in sides]
    expected = []
    for places in marked_cells(pieces, words, None):
        shown = [
            (max(begin, side.start) - side.start, min(end, side.stop) - side.start)
            for (begin, end), side in zip(places, drawn, strict=True)
        ]
        if all(begin < end for begin, end in shown):
            expected.append(tuple(shown))
    assert marked_cells(pieces, words, window) == expected


@pytest.mark.parametrize("words", [False, True])
def test_the_axes_say_what_queries_and_keys_are(pieces, words):
    unit = "word" if words else "token"
    for kind in KINDS:
        seen = view(pieces, kind, words, (2, 3))
        query, key = ("source" if side else "target" for side in (kind == "encoder", kind != "decoder"))
        assert seen.query_axis.startswith("query: ")
        assert seen.query_axis.endswith(f"{query} {unit}")
        predicts = "positions that predict" if words else "position that predicts"
        assert (predicts in seen.query_axis) == ("predict" in seen.query_axis) == (kind != "encoder")
        assert seen.key_axis == f"key: {key} {unit}" + " so far" * (kind == "decoder")
        sides = {side: getattr(by_words(pieces) if words else pieces, side) for side in ("source", "target")}
        notes = [f"Only {side} {unit}s 2 to 3 of {len(sides[side])} are drawn." for side in (query, key)]
        assert seen.notes == list(dict.fromkeys(notes))
        keys = ("<s>", *sides["target"]) if kind == "decoder" else sides["source"]
        assert (tuple(seen.queries), tuple(seen.keys)) == (sides[query][1:3], keys[1:3])


# ---- windows


def test_a_window_is_part_of_the_weights():
    inspection = fake_inspection(100, 80, 1, 2, 8)
    seen = view(inspection, "cross", window=(41, 70))
    assert np.array_equal(seen.weights, inspection.attention.cross[:, :, 40:70, 40:70])
    assert (seen.queries, seen.keys) == ([*inspection.target[40:70]], [*inspection.source[40:70]])
    assert seen.notes == [
        "Only target tokens 41 to 70 of 80 are drawn.",
        "Only source tokens 41 to 70 of 100 are drawn.",
    ]
    for picture, token in (("stream", "▁tooo75"), ("lens", "▁to77"), ("numbers", "▁soo90")):
        unseen = inspection.svg(picture).count(token)  # in the sentence of the description
        assert inspection.svg(picture, window=(61, 91)).count(token) > unseen


@pytest.mark.parametrize(
    ("tokens", "window", "places"),
    [
        (512, None, (0, 60)),
        (8, None, (0, 8)),
        (512, (500, 600), (411, 512)),
        (5, (61, 62), (3, 5)),
        (9, (1, 9), (0, 9)),
    ],
)
def test_a_side_that_ends_before_the_window_shows_its_end(tokens, window, places):
    assert in_window(tokens, window) == slice(*places)


@pytest.mark.parametrize(("kind", "has_note"), [("sinusoidal", True), ("learned", False), ("none", False)])
def test_positions_that_do_not_count_from_0_have_a_note(kind, has_note):
    inspection = fake_inspection(3, 4, 1, 2, 8)
    model = replace(inspection.model, positions=kind, first_position=2)
    words = " ".join(drawn_words(replace(inspection, model=model).svg("positions")))
    assert ("The first token has position 2 of the formula" in words) == has_note


def test_every_picture_of_tokens_has_a_window():
    inspection = fake_inspection(70, 80, 1, 2, 8)
    notes = {
        "beam": "Only steps 71 to 80 of 80",
        "alignment": "Only target words 70 to 79 of 79",
        "masks": "Only decoder input tokens 71 to 80 of 80",
        "positions": "Only positions 70 to 79 of 0 to 79",
        "distances": "Only positions 70 to 79 of 0 to 79",
    }
    for view_name, note in notes.items():
        assert note in " ".join(drawn_words(inspection.svg(view_name, window=(71, 80))))
    assert "step 70" in drawn_words(inspection.svg("beam", window=(71, 80)))
    with pytest.raises(DragomanError, match="The window begins at token 81, and the sentence and its trans"):
        inspection.svg("beam", window=(81, 90))


def drawn_words(svg):
    return [
        element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize("window", [(0, 5), (7, 6), (-3, -1)])
def test_a_window_that_is_none_gets_a_sentence(window):
    with pytest.raises(
        DragomanError, match=f"The window is from {window[0]} to {window[1]}; give the numbers"
    ):
        in_window(9, window)


# ---- statistics


def test_a_head_that_attends_to_one_place_has_these_statistics():
    eye = np.broadcast_to(np.eye(6, dtype=np.float32), (2, 2, 6, 6))
    found = of_weights(eye, 5, [False] * 5 + [True])
    expected = {
        "entropy": 0,
        "distance": 0,
        "previous": 0,
        "same": 1,
        "next": 0,
        "edge": 1 / 6,
        "punctuation": 1 / 6,
    }
    assert {name: table.tolist() for name, table in found.items()} == {
        name: [[pytest.approx(value)] * 2] * 2 for name, value in expected.items()
    }
    uniform = np.full((1, 1, 4, 4), 0.25, np.float32)
    assert of_weights(uniform, 3, [False] * 4)["entropy"].item() == pytest.approx(np.log(4))


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (6, 2), (1, 1)])
def test_statistics_are_sums_over_queries_and_keys(queries, keys):
    random = np.random.default_rng(1)
    head = random.dirichlet(np.ones(keys), queries)
    marks, edge = [key % 3 == 1 for key in range(keys)], keys - 1
    found = of_weights(head[None, None], edge, marks)
    pairs = [(query, key, head[query, key]) for query in range(queries) for key in range(keys)]
    expected = {
        "entropy": sum(-weight * np.log(weight) for _, _, weight in pairs),
        "distance": sum(weight * abs(query - key) for query, key, weight in pairs),
        "previous": sum(weight for query, key, weight in pairs if key == query - 1),
        "same": sum(weight for query, key, weight in pairs if key == query),
        "next": sum(weight for query, key, weight in pairs if key == query + 1),
        "edge": sum(weight for _, key, weight in pairs if key == edge),
        "punctuation": sum(weight for _, key, weight in pairs if marks[key]),
    }
    assert {name: table.item() for name, table in found.items()} == pytest.approx(
        {name: value / queries for name, value in expected.items()}
    )


def test_the_edge_is_end_of_the_source_and_start_of_the_translation():
    inspection = fake_inspection()
    found = statistics(inspection)
    for kind, place in (("encoder", -1), ("decoder", 0), ("cross", -1)):
        weights = inspection.attention.of(kind).astype(np.float64)
        np.testing.assert_allclose(found[kind]["edge"], weights[..., place].mean(2))


@pytest.mark.parametrize(
    ("token", "expected"),
    [("▁,", True), ("...", True), ("▁", False), ("", False), ("a.", False), ("«", True), ("</s>", False)],
)
def test_punctuation_is_what_unicode_calls_so(token, expected):
    assert is_punctuation(token) == expected


def test_the_alignment_of_the_last_layers_mean_head_agrees_with_itself(found):
    """A model of one head: the word alignment is this head's."""
    mean = found.attention.cross.mean(1, keepdims=True)
    alone = replace(found, attention=replace(found.attention, cross=mean))
    links = head_alignments(alone)[-1][0]
    assert tuple(sorted((source, word) for word, source in links.items())) == tuple(sorted(found.alignment))
    assert statistics(alone)["cross"]["alignment"][-1, 0] == 1


def test_every_statistic_is_in_the_data(found):
    table = to_json(found)["statistics"]
    for kind, tables in statistics(found).items():
        for name, numbers in tables.items():
            assert np.shape(table[kind][name]) == found.attention.of(kind).shape[:2]
            np.testing.assert_allclose(table[kind][name], numbers, atol=1e-4)


# ---- room


def test_what_a_file_holds_follows_from_its_room(pieces):
    everything = contents(pieces)
    for room in (FILE, LIVE):
        assert contents(pieces, room) == replace(everything, neurons=room.neurons)
    assert everything.weights == everything.projections
    assert (everything.weights.layers["cross"], everything.weights.heads) == ([0, 1], [0, 1, 2])
    last = LayersAndHeads({kind: [1] for kind in KINDS}, [0, 1, 2])
    sizes = weights_bytes(pieces, last), projections_bytes(pieces, last)
    assert contents(pieces, SizeLimits(sizes[0], sizes[1], sizes[1], 1)) == Contents(
        last, last, words=False, neurons=1
    )
    both = sizes[0] + mean_bytes(pieces, last) + words_bytes(pieces, last)
    assert contents(pieces, SizeLimits(both, sizes[1], sizes[1], 1)) == Contents(last, last, neurons=1)
    one_head = LayersAndHeads({kind: [0] for kind in KINDS}, [2])
    assert contents(pieces, SizeLimits(0, 0, 0, 1), layer=1, head=3) == Contents(
        one_head, one_head, words=False, neurons=1
    )
    with pytest.raises(DragomanError, match="There is no layer 3; this model has 2"):
        contents(pieces, FILE, layer=3)
    with pytest.raises(DragomanError, match="There is no head 0; this model has 3"):
        to_html(pieces, head=0)


@pytest.mark.parametrize("has_projections", [True, False])
def test_the_first_head_of_a_kind_is_the_clearest_of_those_that_are_held(pieces, has_projections):
    pieces = pieces if has_projections else replace(pieces, projections=None)
    tables = statistics(pieces)
    for layers, heads in (([0, 1], [0, 1, 2]), ([1], [0, 2]), ([0], [1]), ([], [])):
        one, other = (
            LayersAndHeads(dict.fromkeys(KINDS, layers), heads),
            contents(pieces).weights,
        )
        held = Contents(other, one) if has_projections else Contents(one, other)
        for kind, table in to_json(pieces, held)["attention"].items():
            ranks = {
                (
                    -tables[kind]["alignment"][place] if kind == "cross" else 0,
                    tables[kind]["entropy"][place],
                ): place
                for place in product(layers, heads)
            }
            layer, head = ranks[min(ranks)] if ranks else (None, None)
            assert table["clearest"] == (None if layer is None else {"layer": layer + 1, "head": head + 1})


def test_what_is_held_is_what_was_recorded(pieces):
    table = to_json(pieces, contents(pieces, SizeLimits(0, 0, 0, 1), layer=1, head=3))
    weights = table["attention"]["decoder"]
    assert weights["layers"] == table["projections"]["decoder"]["layers"] == [1]
    assert weights["heads"] == table["projections"]["decoder"]["heads"] == [3]
    np.testing.assert_allclose(array_from_json(weights), pieces.attention.decoder[:1, 2:], atol=1e-3)
    queries = array_from_json(table["projections"]["decoder"]["queries"])
    np.testing.assert_allclose(queries, pieces.projections.decoder.queries[:1, 2:], atol=1e-2)


@st.composite
def parts_of(draw, inspection):
    """Some layers and heads of an inspection."""
    depths = {kind: len(inspection.attention.of(kind)) for kind in KINDS}
    layers = {kind: sorted(draw(st.sets(st.integers(0, depths[kind] - 1), min_size=1))) for kind in KINDS}
    heads = inspection.attention.cross.shape[1]
    return LayersAndHeads(layers, sorted(draw(st.sets(st.integers(0, heads - 1), min_size=1))))


@pytest.mark.long
@settings(max_examples=25)
@given(data=st.data())
def test_the_data_are_the_parts_of_the_record_that_are_held(pieces, data):
    weights, projections = data.draw(parts_of(pieces)), data.draw(parts_of(pieces))
    table = to_json(pieces, Contents(weights, projections, words=data.draw(st.booleans())))
    for kind in KINDS:
        entry, everything = table["attention"][kind], pieces.attention.of(kind)
        held = everything[np.ix_(weights.layers[kind], weights.heads)]
        assert entry["layers"] == [layer + 1 for layer in weights.layers[kind]]
        assert entry["heads"] == [head + 1 for head in weights.heads]
        np.testing.assert_allclose(array_from_json(entry), held, atol=1e-3)
        assert ("overview" in entry) == (held.shape != everything.shape)
        if "overview" in entry:
            np.testing.assert_allclose(array_from_json(entry["overview"]), overview(everything), atol=1e-3)
        if kind == "decoder":  # the mean is of all heads, whichever are held
            mean = everything[weights.layers[kind]].mean(1)
            np.testing.assert_allclose(array_from_json(entry["mean"]), mean, atol=1e-3)
        entry, recorded = table["projections"][kind], pieces.projections.of(kind)
        assert entry["layers"] == [layer + 1 for layer in projections.layers[kind]]
        assert entry["heads"] == [head + 1 for head in projections.heads]
        for name in ("queries", "keys", "values", "outputs"):
            held = getattr(recorded, name)[np.ix_(projections.layers[kind], projections.heads)]
            np.testing.assert_allclose(array_from_json(entry[name]), held, rtol=1e-3, atol=1e-3)


def test_the_file_has_the_layer_and_the_head_that_are_asked_for(pieces, monkeypatch):
    monkeypatch.setattr("dragoman.inspection.report.FILE", SizeLimits(0, 0, 0, 1))  # room for one head
    for layer, head in ((1, 3), (2, 1), (None, 2), (1, None)):
        file = to_html(pieces, layer, head)
        data = json.loads(re.search(r'id="inspection">(.*?)</script>', file)[1])
        for entry in (data["attention"]["cross"], data["projections"]["cross"]):
            assert (entry["layers"], entry["heads"]) == ([layer or 2], [head or 1])


def test_a_map_of_a_head_keeps_its_largest_weights():
    weights = fake_inspection(100, 30, 2, 2, 8).attention.cross
    small = overview(weights)
    assert small.shape == (2, 2, 30, 48)
    assert np.array_equal(small.max(-1), weights.max(-1))


@pytest.mark.long
def test_the_file_of_512_tokens_of_base_is_small_enough():
    """Its parts that grow with the square of the length, without the text around them."""
    inspection = fake_inspection(512, 512, 1, 8, 512)
    six = replace(
        inspection,
        attention=replace(
            inspection.attention,
            **{kind: np.broadcast_to(inspection.attention.of(kind), (6, 8, 512, 512)) for kind in KINDS},
        ),
    )
    held = contents(six, FILE)
    assert held.weights == LayersAndHeads({kind: [5] for kind in KINDS}, list(range(8)))
    assert held.projections.heads == [0]
    split = tuple(range(510)), tuple(range(510))
    words = [(0, *each, 510) for each in split]
    assert not contents(replace(six, source_words=words[0], target_words=words[1]), FILE).words
    small = sum(overview(six.attention.of(kind)).size for kind in KINDS) * 2 * 4 / 3
    neurons = 6 * len(json.dumps(to_json(inspection, contents(inspection, FILE))["neurons"]))
    numbers = weights_bytes(six, held.weights) + projections_bytes(six, held.projections)
    assert numbers + small + neurons < 25_000_000


def test_the_numbers_of_30_tokens_of_base_are_those_of_the_last_layer():
    inspection = fake_inspection()
    held = contents(inspection, FILE)
    assert (held.weights.layers["cross"], held.projections.layers["cross"]) == (list(range(6)), [5])
    assert held.weights.heads == held.projections.heads == list(range(8))
    pieces = (0, *range(29))  # the first word has two, so all is written twice
    most = replace(inspection, source_words=pieces, target_words=pieces)
    assert contents(most, FILE) == held

"""`dragoman reproduce learning-curves`: nested corpora, the same updates and validation data for all."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.settings import PRESETS
from dragoman.pipeline.prepare import choose_vocabulary
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.text.lines import read_pairs
from dragoman.text.settings import DataSettings
from dragoman_paper.cli.reproduce import make_page
from dragoman_paper.figures.learning_curves import TOP, Point, learning_curves
from dragoman_paper.tables.baselines import TITLES
from dragoman_paper.tables.curve_cells import curve_recipe, run_curves, subsets
from dragoman_paper.tables.curves_page import scores, write_curves, written_points
from dragoman_paper.tables.learning_curves import CURVES, SIZES, vocabulary
from dragoman_paper.tables.rows import Table
from dragoman_paper.tables.runner import Request
from tests.conftest import write_copies
from tests.test_baselines import ROWS, TOY

FILES = DataSettings(
    *(Path(f"{name}.{side}") for name in ("train", "valid") for side in ("source", "target"))
)
SCALE = replace(TOY, data=FILES)
TABLE = Table("learning-curves", "A toy", ROWS, (SCALE,))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for seed, (name, lines) in enumerate((("train", 200), ("valid", 10))):
        write_copies(folder, name, lines, seed)
    return folder


@pytest.fixture(scope="module")
def straight(texts, tmp_path_factory):
    """One row at two sizes; read only."""
    request = Request(TABLE, SCALE, ROWS[:1], 1, tmp_path_factory.mktemp("straight"), texts)
    points = run_curves(request, (150,))
    write_curves(request, points)
    return request, points


def test_corpora_are_nested_and_keep_pairs_together(texts, tmp_path):
    data = DataSettings(texts / "train.source", texts / "train.target")
    found = subsets(data, tmp_path, (10, 50, 200, 1000))
    assert list(found) == [10, 50, 200]
    assert found[200] == data
    lines = {size: list(read_pairs(each.source, each.target)) for size, each in found.items()}
    assert lines[10] == lines[50][:10]
    assert all(len(pairs) == size for size, pairs in lines.items())
    for source, target in lines[50]:
        assert source.upper() == target
        assert (source, target) in lines[200]
    assert lines[50] != lines[200][:50], "the order is drawn"
    times = [found[10].source.stat().st_mtime_ns, found[10].target.stat().st_mtime_ns]
    subsets(data, tmp_path, (10, 50))  # texts that are there already are not written again
    assert times == [found[10].source.stat().st_mtime_ns, found[10].target.stat().st_mtime_ns]
    write_copies(tmp_path, "other", 200, seed=2)
    other = DataSettings(tmp_path / "other.source", tmp_path / "other.target")
    parts = [subsets(other, folder, (10, 50))[50] for folder in (tmp_path, tmp_path / "new")]
    assert (
        len({tuple(read_pairs(part.source, part.target)) for part in parts}) == 1
    )  # another text is written
    subsets(data, tmp_path, (10, 50))
    again = subsets(data, tmp_path / "again", (10, 50))
    assert list(read_pairs(again[50].source, again[50].target)) == lines[50]


@pytest.mark.parametrize("pairs", [1, 99, 101, 1_000, 29_000, 10**6])
def test_the_vocabulary_of_a_size_is_that_of_a_training_within_the_one_of_the_table(pairs):
    for scale in CURVES.scales:
        chosen = choose_vocabulary(Recipe(model=PRESETS["base"]), pairs)
        assert vocabulary(scale, pairs) == min(scale.vocabulary, chosen)


@pytest.mark.parametrize("scale", CURVES.scales, ids=lambda scale: scale.name)
@pytest.mark.parametrize("row", CURVES.rows, ids=lambda row: row.name)
def test_sizes_differ_in_text_and_vocabulary_alone(row, scale):
    recipes = [curve_recipe(scale, row, 1, scale.data, size) for size in SIZES]
    tokenizer = recipes[0].tokenizer
    assert len({str(replace(recipe, tokenizer=tokenizer)) for recipe in recipes}) == 1
    sizes = [recipe.tokenizer.vocabulary for recipe in recipes]
    assert sizes == sorted(sizes)
    assert sizes == [vocabulary(scale, size) for size in SIZES]
    assert recipes[0].data.files.keys() == {"source", "target", "valid_source", "valid_target"}


@pytest.mark.long
def test_complete_cells_are_not_trained_again_and_more_sizes_are(straight):
    request, points = straight
    files = sorted(request.folder.rglob("result.json"))
    times, said = [path.stat().st_mtime_ns for path in files], []
    with messages_to(said.append):
        assert run_curves(request, (150,)) == points
    assert [path.stat().st_mtime_ns for path in files] == times
    assert said == ["A toy, at the scale toy: 2 of 2 cells are complete."]

    def stop(sentence):
        raise KeyboardInterrupt(sentence)

    with pytest.raises(KeyboardInterrupt, match="2 of 3 cells are complete"), messages_to(stop):
        run_curves(request, (100, 150))


@pytest.mark.long
def test_the_page_has_every_size_and_what_was_not_run(straight):
    request, points = straight
    page = (request.folder / "table.md").read_text()
    content = json.loads((request.folder / "table.json").read_text())
    assert "Rows that were not run: gru." in page
    assert [point["pairs"] for point in content["points"]] == [point.pairs for point in points] == [150, 200]
    for point in points:
        assert f"| {point.pairs} | 320 | {point.bleu[0]:.2f} |" in page
        assert f"| {point.pairs} | 320 | {point.results[0].parameters:,} |" in page
    cells = [json.loads(path.read_text()) for path in request.folder.glob("*/*/*/result.json")]
    assert written_points(cells) == points
    assert scores(points) in page


def test_a_cell_that_is_missing_leaves_its_column_empty(straight):
    _, (small, large) = straight
    table = scores([small, large, replace(large, row="conv")]).splitlines()
    assert [line.count("|") for line in table] == [table[0].count("|")] * 4
    assert table[2].endswith("|  |")


@given(
    st.lists(
        st.tuples(st.sampled_from([*TITLES]), st.sampled_from([150, 1000, 4000, 20_000])),
        unique=True,
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_cells_that_are_read_back_in_any_order_stand_by_size(straight, cells, random):
    (result, *_), numbers = straight[1][0].results, [random.uniform(0, 50) for _ in cells]
    contents = [
        asdict(replace(result, row=f"{row}/{size}", bleu=number))
        for (row, size), number in zip(cells, numbers, strict=True)
    ]
    head, _, *lines = (line.strip("|").split("|") for line in scores(written_points(contents)).splitlines())
    sizes = [line[0].strip() for line in lines]
    assert sizes == [f"{size:,}" for size in sorted({size for _, size in cells})]
    rows = {title: row for row, title in TITLES.items()}
    found = {
        (rows[name.strip()], int(line[0].replace(",", ""))): cell.strip()
        for line in lines
        for name, cell in zip(head[2:], line[2:], strict=True)
        if cell.strip()
    }
    assert found == {cell: f"{number:.2f}" for cell, number in zip(cells, numbers, strict=True)}


def test_the_command_writes_the_page_and_the_picture(straight, tmp_path):
    request = replace(straight[0], out=tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    page = make_page(request)  # the whole corpus alone: the toy has fewer pairs than the other sizes
    assert page == (request.folder / "table.md").read_text()
    assert "| 200 | 320 |" in page
    assert "transformer, 200 pairs:" in (request.folder / "curves.svg").read_text()


def test_the_validation_data_is_the_same_for_all_sizes(straight):
    _, points = straight
    hashes = [point.results[0].passport["data"] for point in points]
    assert hashes[0]["valid_source"] == hashes[1]["valid_source"]
    assert hashes[0]["source"] != hashes[1]["source"]


def test_texts_of_different_lengths_are_refused(texts, tmp_path):
    (tmp_path / "train.target").write_text("ONE\n")
    with pytest.raises(DragomanError, match="lines"):
        subsets(DataSettings(texts / "train.source", tmp_path / "train.target"), tmp_path, (1,))


@given(st.lists(st.tuples(st.floats(0.5, 60), st.floats(0, 20)), min_size=2, max_size=4))
def test_a_bar_reaches_a_standard_deviation_to_both_sides_of_its_point_within_the_chart(numbers):
    points = [Point("lstm", 1000 * 2**place, *pair) for place, pair in enumerate(numbers)]
    root = ElementTree.fromstring(learning_curves(points, "A text"))
    marks = [each for each in root.iter() if each.tag.endswith("}rect") and len(each)]
    heights = [float(each.get("y")) + float(each.get("height")) / 2 for each in marks]
    paths = [each.get("d") for each in root.iter() if "stroke-self" in each.get("class", "")]
    lines = [[tuple(map(float, pair.split())) for pair in path[1:].split("L")] for path in paths]
    bars = [line for line in lines if len(line) == 2 and line[0][0] == line[1][0]]
    assert len(marks) == len(bars) == len(points)
    (bottom,) = {
        float(each.get("d").split()[1].split("L")[0])
        for each in root.iter()
        if each.get("class") == "curve stroke-line" and each.get("d")
    }
    highest, mean = max((bottom - height, point.mean) for height, point in zip(heights, points, strict=True))
    scale = highest / mean
    for height, bar, point in zip(heights, bars, points, strict=True):
        assert bottom - height == pytest.approx(scale * point.mean, abs=0.3)
        low, high = (bottom - y for _, y in sorted(bar, key=lambda end: -end[1]))
        assert low == pytest.approx(scale * max(0, point.mean - point.spread), abs=0.3)
        assert high == pytest.approx(scale * (point.mean + point.spread), abs=0.3)
        assert bottom - high >= TOP - 0.01


def test_the_picture_has_every_point_and_escapes_names():
    points = [Point(row, size, size / 100, 0.5) for row in ("a<b", "lstm") for size in (1000, 4000, 2000)]
    picture = learning_curves(points, "A text & more")
    titles = [each.text for each in ElementTree.fromstring(picture).iter() if each.tag.endswith("title")]
    for point in points:
        assert f"{point.row}, {point.pairs:,} pairs: {point.mean:.2f} BLEU" in titles
    assert "1,000" in picture
    assert "A text &amp; more" in picture
    one = learning_curves([Point("lstm", 1000, 0.0, 0.0)], "One size")
    assert "lstm, 1,000 pairs: 0.00 BLEU" in one
    assert "nan" not in one

"""Laws of the tables' pages: each number stands in the column of its name, and a result is its own cell's."""

import itertools
import json
import logging
import math
import random
import re
from collections import namedtuple
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.evaluation.compare import bleu_p_value
from dragoman.evaluation.measures import chrf
from dragoman.evaluation.metrics import bleu
from dragoman.evaluation.paper import tokenised_bleu
from dragoman.pipeline import run as runs
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.settings import DataSettings
from dragoman.translation.translator import Translator
from dragoman_paper.figures import complexity as published_complexity
from dragoman_paper.figures import layer_costs
from dragoman_paper.tables import (
    baselines_page,
    cells,
    complexity,
    curve_cells,
    measures,
    page,
    report,
    runner,
    table1,
    table2_page,
    table2_runs,
)
from dragoman_paper.tables.baselines import BASELINES, TRIALS
from dragoman_paper.tables.cells import Result, make_cell, read_result, result_of, write_result
from dragoman_paper.tables.complexity import Distance, LayerCost
from dragoman_paper.tables.curves_page import method as curves_method
from dragoman_paper.tables.layers import KERNEL, NEIGHBOURHOOD
from dragoman_paper.tables.layers import ROWS as LAYER_TYPES
from dragoman_paper.tables.learning_curves import CURVES, PATIENCE, VALIDATIONS
from dragoman_paper.tables.measures import Measures
from dragoman_paper.tables.rows import describe, describe_base
from dragoman_paper.tables.runner import Request, find_texts, make_cells, run_cells
from dragoman_paper.tables.table2 import BASE, PAPER, PUBLISHED
from dragoman_paper.tables.table3 import TABLE3
from dragoman_paper.tables.tuning import Tuned

RECORDED = Path(__file__).parents[1] / "experiments" / "results" / "table3-multi30k.json"
MULTI30K = TABLE3.scale("multi30k")


def rows_of(markdown):
    """The lines of a table, each a dictionary of its cells by their heads; a head that is there twice
    has its place as well.
    """
    head, _, *lines = (
        [cell.strip() for cell in line.strip()[1:-1].split("|")]
        for line in markdown.splitlines()
        if line.startswith("|")
    )
    names = [name if head.index(name) == place else f"{name} {place}" for place, name in enumerate(head)]
    return [dict(zip(names, line, strict=True)) for line in lines]


def result(row="base", seed=1, **changes):
    """A result whose numbers all differ."""
    number = random.Random(f"{row}{seed}").uniform
    values = {name: number(1, 90) for name in ("perplexity", "nll", "bleu", "minutes")}
    table = {"vocabulary": 320}
    settings = cells.settings_of(Recipe()) | {"tokenizer": table}
    return Result(
        **{"row": row, "seed": seed, "signature": "s", "parameters": 7_000 + seed, "settings": settings}
        | {"passport": {"data": {}}}
        | values
        | changes
    )


# ---- Table 1


def formula(text, **sizes):
    """The number of operations that a term such as O(k·n·d²) gives."""
    return eval(text[2:-1].replace("²", "**2").replace("·", "*"), sizes)


@pytest.mark.parametrize("row", LAYER_TYPES, ids=lambda row: row.name)
def test_operations_are_the_papers_term_times_a_constant(row):
    sizes = ((8, 16), (16, 8)) if "recurrent" in row.name else ((64, 16), (128, 8))
    factors = [
        complexity.count_flops(row, n, width)
        / formula(row.complexity, n=n, d=width, k=KERNEL, r=NEIGHBOURHOOD)
        for n, width in sizes
    ]
    assert factors[0] == pytest.approx(factors[1])


@pytest.mark.parametrize("row", LAYER_TYPES, ids=lambda row: row.name)
def test_distances_grow_with_the_length_unless_the_paper_has_a_constant(row):
    short, long = (complexity.distance(row, n) for n in (4, 36))
    assert short.sequential >= 1
    assert (short.sequential == long.sequential) == (row.sequential_text == "O(1)")
    assert (short.path == long.path) == (row.path_text == "O(1)")


def test_both_copies_of_the_papers_table_1_have_the_same_terms():
    names = ("self-attention", "recurrent (LSTM)", f"convolutional, k = {KERNEL}, dilated")
    names += (f"self-attention, restricted to r = {NEIGHBOURHOOD}",)
    by_name = {row.name: row for row in LAYER_TYPES}
    for row, name in zip(published_complexity.ROWS, names, strict=True):
        terms = (row.operations, row.sequential, row.path.replace("log_k(n)", "log_k n").replace(" / ", "/"))
        other = by_name[name]
        written = [f"O({term.replace(' · ', '·')})" for term in terms]
        assert written == [other.complexity, other.sequential_text, other.path_text]


def test_each_dilated_layer_looks_as_far_back_as_all_below_it_reach():
    (row,) = (row for row in LAYER_TYPES if "dilated" in row.name)
    seen = 1
    for depth in range(4):
        layer = row.build(4, depth)
        assert layer.before == seen * (KERNEL - 1)
        seen += layer.before


def test_bytes_of_a_storage_are_counted_once_and_whole():
    def parts(x):
        y = x + 1
        return y[:, :1] * y[:, 1:2]

    class Parts(torch.nn.Module):
        forward = staticmethod(parts)

    x = torch.randn(1, 6, 4)
    assert complexity.saved_bytes(Parts(), x) == x.nbytes


def clock(monkeypatch, module, function, seconds):
    """Each second call of the clock is so many seconds after the call before it."""
    steps = (step for duration in seconds for step in (1.0, duration))
    times = itertools.accumulate(steps)
    monkeypatch.setattr(module.time, function, lambda: next(times))


def test_the_fastest_of_several_times_counts(monkeypatch):
    seconds = [0.5, 0.25, 2.0, 1.0, 4.0]
    clock(monkeypatch, complexity, "perf_counter", seconds)
    assert complexity.fastest(lambda x: x, torch.zeros(1)) == 0.25
    clock(monkeypatch, table2_runs, "perf_counter", seconds)
    monkeypatch.setattr(table2_runs, "has_gpu", lambda: False)
    monkeypatch.setattr(table2_runs, "default_device", lambda: torch.device("cpu"))
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        found = table2_runs.sustained_flops()
    assert found == counter.get_total_flops() / len(seconds) / 0.25


def test_a_cost_is_that_of_its_own_sizes(monkeypatch):
    monkeypatch.setattr(complexity, "fastest", lambda layer, x: x.shape)
    row, n, width = LAYER_TYPES[0], 12, 64
    found = complexity.measure(row, n, width)
    assert (found.layer, found.positions, found.width, found.seconds) == (row.name, n, width, (1, n, width))
    assert found.flops == complexity.count_flops(row, n, width)
    assert found.saved_bytes == complexity.saved_bytes(complexity.built(row, width), torch.randn(1, n, width))


@pytest.mark.parametrize("quick", [True, False])
def test_the_sizes_of_a_preview_are_those_of_its_names(monkeypatch, quick):
    monkeypatch.setattr(table1, "measure", lambda row, n, width: LayerCost(row.name, n, width, 1, 1.0, 1))
    monkeypatch.setattr(table1, "distance", lambda row, n: Distance(row.name, n, 1, 1))
    found, prefix = table1.measure_table(quick), "QUICK_" if quick else ""
    assert {cost.positions for cost in found.costs} == set(getattr(table1, f"{prefix}POSITIONS"))
    assert {cost.width for cost in found.costs} == set(getattr(table1, f"{prefix}WIDTHS"))
    assert {each.positions for each in found.distances} == set(getattr(table1, f"{prefix}DISTANCES"))


def made_up_layers():
    """Measurements whose quantities are different powers of both sizes."""
    costs = [
        LayerCost(
            row.name, n, width, int(1e6) * n * width**2 * place, n**2.0 * width * place, n * width * place
        )
        for place, row in enumerate(LAYER_TYPES, 1)
        for n in (10, 100)
        for width in (4, 8)
    ]
    distances = [
        Distance(row.name, n, place * n, n**2)
        for place, row in enumerate(LAYER_TYPES, 1)
        for n in (10, 50, 100)
    ]
    return table1.Measurements(costs, distances)


def test_the_page_of_table_1_has_each_number_below_its_name():
    measured = made_up_layers()
    content = table1.content(measured, "c", "1")
    for place, (row, line) in enumerate(zip(LAYER_TYPES, rows_of(table1.markdown(measured)), strict=True), 1):
        at = "at n = 10 and 100 (paper)"
        assert line["layer type"] == row.name
        assert line[f"sequential operations {at}"] == f"{10 * place}, {100 * place} ({row.sequential_text})"
        assert line[f"maximum path length {at}"] == f"100, 10000 ({row.path_text})"
        assert line["complexity (paper)"] == row.complexity
        assert line["operations, counted"] == "n^1.00 · d^2.00"
        assert line["time, measured"] == "n^2.00 · d^1.00"
        assert line["memory kept for the backward pass"] == "n^1.00 · d^1.00"
        exponents = content["exponents"][row.name]
        assert [exponents["flops"][size]["value"] for size in "nd"] == pytest.approx([1, 2])
        assert exponents["sequential"]["n"]["value"] == pytest.approx(1)
        assert exponents["path"]["n"]["value"] == pytest.approx(2)
        terms = content["paper"][row.name]
        assert (terms["sequential"], terms["path"]) == (row.sequential_text, row.path_text)


def test_a_picture_of_table_1_has_the_numbers_exponents_and_terms_of_its_column():
    measured = made_up_layers()
    content = table1.content(measured, "c", "1")
    pictures = layer_costs.layer_pictures(content)
    keys = {"time": "seconds", "operations": "flops", "memory": "saved_bytes"}
    for column in (*layer_costs.COSTS, *layer_costs.DISTANCES):
        assert column.key == keys.get(column.name, column.name)
        svg = pictures[column.name]
        texts = re.findall(r"<text([^>]*)>([^<]*)</text>", svg)
        words = [text for _, text in texts]
        titles = [where for where, text in texts if text.startswith("against ")]
        assert len(set(titles)) == len(titles)
        for row in LAYER_TYPES:
            place = words.index(row.name)
            assert words[place + 1] == layer_costs.growth(content["exponents"][row.name][column.key])
            term = content["paper"][row.name].get(column.key)
            assert term is None or words[place + 2] == term
        if column in layer_costs.COSTS:
            assert "against d, n = 100" in words
        for entry in measured.costs if column in layer_costs.COSTS else measured.distances:
            value = layer_costs.with_prefix(getattr(entry, column.key), column.unit)
            assert f"{entry.layer}\n{entry.positions:,}: {value}" in svg
    titles = {column.name: column.title for column in layer_costs.DISTANCES}
    assert titles.items() <= table1.PICTURES.items()


@given(st.floats(1e-9, 1e18, exclude_max=True).filter(lambda value: float(f"{value:.3g}") < 1e18))
@example(1e3)
@example(999.9)
@example(0.9999)
def test_a_cost_has_three_digits_of_its_value_and_the_prefix_that_leaves_least(value):
    digits, unit = layer_costs.with_prefix(value, "B").split(" ")
    powers = {f"{prefix}B": power for power, prefix in layer_costs.PREFIXES.items()}
    assert re.fullmatch(r"[1-9]\d{0,2}(\.\d+)?", digits)
    assert float(digits) * 10.0 ** powers[unit] == pytest.approx(float(f"{value:.3g}"))


# ---- Table 2


def outcome(**changes):
    """An outcome whose numbers all differ."""
    values = {
        "averaged": [10, 20],
        "test_bleu": 21.5,
        "test_signature": "t",
        "paper_bleu": 22.75,
        "paper_signature": "p",
        "devices": 3,
        "device_flops": 5e9,
        "estimated_flops": 1.5e15,
        "counted_flops": 2.5e14,
    }
    return table2_runs.Outcome(**vars(result(minutes=90.0)) | values | changes)


def test_a_row_of_table_2_has_each_number_below_its_name():
    found = outcome()
    (line,) = rows_of(table2_page.table(table2_page.COLUMNS, [table2_page.cells(BASE, found)]))
    expected = {
        "BLEU, paper": BASE.bleu,
        "BLEU, the paper's way": found.paper_bleu,
        "sacreBLEU": found.test_bleu,
        "validation BLEU": found.bleu,
        "training FLOPs, paper": BASE.flops,
        "the paper's way": found.estimated_flops,
        "counted": found.counted_flops,
        "parameters": found.parameters,
    }
    for name, value in expected.items():
        assert float(line[name].replace(",", "")) == pytest.approx(value, rel=1e-3)
    assert line["time · devices"] == "1.50 h · 3"


def test_other_systems_stand_below_their_languages_with_their_numbers(tmp_path):
    request = table2_runs.Table2Request("paper", PAPER, (), tmp_path)
    text = table2_page.markdown(request, dict.fromkeys(row.name for row in PAPER))
    for part in text.split("\n## ")[1:]:
        pair = part.split(":")[0]
        others = {entry.name: entry for entry in PUBLISHED if entry.pair == pair}
        lines = {line["model"]: line for line in rows_of(part)}
        assert lines.keys() == others.keys() | {row.name for row in PAPER if row.pair == pair}
        for name, entry in others.items():
            assert float(lines[name]["BLEU, paper"]) == entry.bleu
            flops = lines[name]["training FLOPs, paper"]
            assert (float(flops) if flops else None) == entry.flops


def test_an_ensemble_of_the_paper_costs_eight_of_its_models_and_is_better():
    by_name = {(entry.name, entry.pair): entry for entry in PUBLISHED}
    ensembles = [entry for entry in PUBLISHED if entry.name.endswith(", ensemble")]
    assert len(ensembles) == 5
    for ensemble in ensembles:
        one = by_name[ensemble.name.removesuffix(", ensemble"), ensemble.pair]
        assert ensemble.flops == pytest.approx(8 * one.flops, rel=0.03)
        assert ensemble.bleu > one.bleu


def test_each_dataset_has_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(table2_runs, "resolve_dataset", lambda data: data)
    for row in PAPER:
        found = table2_runs.find_data(row, tmp_path)
        assert (found.dataset, found.folder) == (row.dataset, tmp_path / row.dataset)
        assert table2_runs.find_data(row, None).folder is None


# ---- results of cells


def test_a_result_is_read_as_it_was_written_and_its_checkpoints_are_gone(tmp_path):
    cell = make_cell(tmp_path, "base", 1, Recipe())
    (cell.folder / "run" / "checkpoints" / "step-1").mkdir(parents=True)
    assert cell.recipe.out == cell.folder / "run"
    written = result(settings=cell.settings, passport={"data": {"source": "x"}})
    write_result(cell, written)
    assert read_result(cell, {"source": "x"}, Result) == written
    assert [path.name for path in (cell.folder / "run").iterdir()] == []


def test_a_result_of_another_cell_text_or_setting_is_not_taken(tmp_path):
    recipe = replace(Recipe(), data=DataSettings(source=Path("a")))
    cell = make_cell(tmp_path, "base", 1, recipe)
    found = result(settings=cell.settings, passport={"data": {"source": "x"}})
    moved = make_cell(tmp_path / "other", "base", 1, replace(recipe, data=DataSettings(source=Path("b"))))
    assert found.agrees(moved, {"source": "x"})
    changed = replace(recipe, model=replace(recipe.model, heads=recipe.model.heads * 2))
    assert not found.agrees(replace(cell, recipe=changed), {"source": "x"})
    assert not found.agrees(cell, {"source": "y"})
    for other in (replace(cell, row="A1"), replace(cell, seed=2)):
        with pytest.raises(DragomanError, match="it is the result of base, seed 1"):
            found.agrees(other, {"source": "x"})


def test_a_result_with_a_value_of_another_kind_is_refused():
    table = asdict(result())
    assert result_of(table, Result) == result()
    for name, value in table.items():
        for wrong in (True, None, [], *((math.nan, math.inf) if isinstance(value, float) else ())):
            with pytest.raises(DragomanError, match=f"{name} is "):
                result_of(table | {name: wrong}, Result)


def test_a_text_may_change_as_long_as_nothing_was_trained(tmp_path):
    cell = make_cell(tmp_path, "base", 1, Recipe())
    cell.folder.mkdir(parents=True)
    for text in ("x", "y"):
        cells.refuse_another_text(cell, {"source": text})
    (cell.folder / "run").mkdir()
    cells.refuse_another_text(cell, {"source": "y"})
    with pytest.raises(DragomanError, match="began with a different text"):
        cells.refuse_another_text(cell, {"source": "x"})


def test_a_cell_that_resumes_keeps_what_its_training_said(monkeypatch, tmp_path):
    cell, sentences = make_cell(tmp_path, "base", 1, Recipe()), iter(["first", "second"])
    monkeypatch.setattr(runs, "run", lambda recipe: logging.getLogger("dragoman").info(next(sentences)))
    for _ in range(2):
        cells.train_cell(cell, {})
    assert cell.messages.read_text().splitlines() == ["first", "second"]


def test_results_stand_in_the_order_of_the_cells_whichever_are_complete(monkeypatch, tmp_path):
    request = Request(TABLE3, MULTI30K, TABLE3.rows[:2], 2, tmp_path)
    made = make_cells(request, DataSettings())
    assert [cell.seed for cell in made] == sorted(cell.seed for cell in made)
    assert [cell.recipe.training.seed for cell in made] == [cell.seed for cell in made]
    complete = made[2].name
    monkeypatch.setattr(runner, "text_hashes", lambda files: {})
    monkeypatch.setattr(
        runner, "read_result", lambda cell, *_: result(cell.row, cell.seed) if cell.name == complete else None
    )
    monkeypatch.setattr(runner, "train_cell", lambda *_: None)
    monkeypatch.setattr(runner, "score_cell", lambda cell, *_: result(cell.row, cell.seed))
    found = run_cells(request, made, "A title")
    assert [(each.row, each.seed) for each in found] == [(cell.row, cell.seed) for cell in made]


def test_a_folder_goes_before_the_named_dataset_and_a_plain_file_before_its_gzip(tmp_path):
    for file in MULTI30K.data.files.values():
        for ending in ("", ".gz"):
            (tmp_path / f"{file}{ending}").write_text("x\n")
    found = find_texts(MULTI30K, tmp_path).files
    assert found == {name: tmp_path / file for name, file in MULTI30K.data.files.items()}


# ---- Table 3


def test_the_papers_figures_are_those_of_the_recorded_results():
    recorded = {line["row"]: line for line in json.loads(RECORDED.read_text())["rows"]}
    assert len(recorded) > 10
    for row in TABLE3.rows:
        if row.name in recorded:
            line = recorded[row.name]
            figures = line["perplexity"]["paper"], line["bleu"]["paper"], line["paper_parameters"]
            assert figures == (row.perplexity, row.bleu, row.parameters)


def test_a_row_is_described_by_what_its_recipe_has():
    for scale in TABLE3.scales:
        base, *others = TABLE3.rows
        for row in others:
            recipe = scale.recipe(row, 1, DataSettings())
            assert recipe.training.validate_every == recipe.training.updates
            words = dict(part.rsplit(" ", 1) for part in describe(row, scale, base).split(", "))
            has_updates = recipe.training.updates != scale.updates
            assert words.get("updates") == (f"{recipe.training.updates:,}" if has_updates else None)
            for name in words.keys() & {"heads", "d_model", "d_ff", "d_k", "d_v", "dropout"}:
                widths = {"d_k": recipe.model.key_width, "d_v": recipe.model.value_width}
                assert words[name] == str(widths.get(name, getattr(recipe.model, name)))
        row = replace(base, model=replace(base.model, d_v=128, dropout=0.3), label_smoothing=0.25)
        recipe = scale.recipe(row, 1, DataSettings())
        words = dict(part.rsplit(" ", 1) for part in describe_base(scale, row).split(", "))
        assert words["d_k"] == str(recipe.model.key_width)
        assert words["d_v"] == str(recipe.model.value_width)
        assert words["dropout"] == "0.3"
        assert words["label_smoothing"] == str(recipe.training.label_smoothing)


@given(
    st.sampled_from([6, 12, 18]),
    st.sampled_from([6, 12, 18]),
    st.sampled_from([0.0, 0.1, 0.2]),
    st.sampled_from([512, 1024]),
)
@example(6, 12, 0.1, 512)
@example(12, 18, 0.1, 512)
def test_the_first_row_with_what_a_row_says_is_that_row(encoder_layers, decoder_layers, dropout, d_model):
    changes = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    base = TABLE3.rows[0]
    row = replace(base, model=replace(base.model, dropout=dropout, d_model=d_model, **changes))
    for scale in TABLE3.scales:
        said = dict(part.split(" ") for part in describe(row, scale, base).split(", ") if part)
        if "N" in said:
            assert not said.keys() & changes.keys()
            said["encoder_layers"] = said["decoder_layers"] = said.pop("N")
        values = {name: float(value) if name == "dropout" else int(value) for name, value in said.items()}
        rebuilt, expected = replace(scale.model(base.model), **values), scale.model(row.model)
        assert (rebuilt.key_width, rebuilt.value_width) == (expected.key_width, expected.value_width)
        assert replace(rebuilt, d_k=expected.d_k, d_v=expected.d_v) == expected


def table_request(monkeypatch, tmp_path, seeds=2):
    """A request for two rows, and made-up results; every p-value is 0.25."""
    request = Request(TABLE3, MULTI30K, TABLE3.rows[:2], seeds, tmp_path)
    monkeypatch.setattr(report, "bootstrap_p_value", lambda *_: 0.25)
    return request, [result(row.name, seed) for row in request.rows for seed in range(1, seeds + 1)]


def test_the_page_of_table_3_has_each_number_below_its_name(monkeypatch, tmp_path):
    request, results = table_request(monkeypatch, tmp_path)
    lines = report.table_lines(request, results)
    by_row = {row.name: [each for each in results if each.row == row.name] for row in request.rows}
    base, row = request.rows
    tables = zip(request.rows, rows_of(page.quality(lines)), rows_of(page.details(lines)), strict=True)
    for which, quality, details in tables:
        for name, title, digits, place in (("perplexity", "perplexity", 2, 3), ("bleu", "BLEU", 1, 6)):
            values = [getattr(each, name) for each in by_row[which.name]]
            assert quality[title] == f"{fmean(values):.2f} ± {stdev(values):.2f}"
            assert details[f"{title}, paper"] == f"{getattr(which, name):.{digits}f}"
            columns = [*quality.values()][place : place + 2]
            if which is base:
                assert columns == ["", ""]
                continue
            theirs = [getattr(each, name) for each in by_row[base.name]]
            pairs = [one - other for one, other in zip(values, theirs, strict=True)]
            paper = getattr(row, name) - getattr(base, name)
            assert columns == [f"{fmean(pairs):+.2f} ± {stdev(pairs):.2f}", f"{paper:+.{digits}f}"]
        assert details["minutes"] == f"{fmean(each.minutes for each in by_row[which.name]):.1f}"
        assert details["p"] == ("" if which is base else "0.250")
        assert details["parameters"].startswith(f"{by_row[which.name][0].parameters:,}")
    verdicts = replace(
        lines[1],
        perplexity=replace(lines[1].perplexity, verdict="one"),
        bleu=replace(lines[1].bleu, verdict="other"),
    )
    assert [*rows_of(page.details([lines[0], verdicts]))[1].values()][3:7:3] == ["one", "other"]


def test_a_page_says_its_scale_and_all_minutes(monkeypatch, tmp_path):
    request, results = table_request(monkeypatch, tmp_path)
    assert MULTI30K.width != MULTI30K.depth
    text = page.introduction(request)
    assert f"d_v are divided by {MULTI30K.width}, its numbers of layers by {MULTI30K.depth};" in text
    minutes = sum(each.minutes for each in results)
    assert f"; {minutes:.0f} minutes of training in all." in page.method(request, results)
    point = curve_cells.CurvePoint("transformer", 10, results)
    mean = fmean(each.minutes for each in results)
    assert f"; {mean:.1f} minutes of training a cell." in curves_method(request, [point])
    tuned = Tuned(results[:1], {}, results[1:], [])
    assert f"; {minutes:.0f} minutes of training in all." in baselines_page.method(request, tuned)


def test_a_difference_in_the_paper_has_all_digits_of_its_numbers():
    base = TABLE3.rows[0]
    for row in TABLE3.rows:
        found = report.measure([1.0], [1.0], row.perplexity, base.perplexity)
        assert found.paper_difference == pytest.approx(row.perplexity - base.perplexity, abs=1e-9)
        assert found.spread is None


def test_a_p_value_is_of_a_rows_translations_beside_the_first_ones(tmp_path):
    request = Request(TABLE3, MULTI30K, TABLE3.rows[:2], 2, tmp_path)
    lines = {}
    for row in request.rows:
        for seed in (1, 2):
            words = random.Random(f"{row.name}{seed}")
            texts = [" ".join(words.choices("abc", k=6)) for _ in range(8)]
            lines.setdefault(row.name, []).append(texts)
            for name, text in (("hypotheses", texts), ("references", ["a b c a b c"] * 8)):
                path = tmp_path / "table3" / "multi30k" / row.name / f"seed-{seed}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f"{line}\n" for line in text))
    first, other = lines.values()
    for row, translations in zip(request.rows, (first, other), strict=True):
        found = report.bootstrap_p_value(request, row, "hypotheses", "references")
        assert found == bleu_p_value(translations, first, ["a b c a b c"] * 8)


# ---- baselines and learning curves


def test_all_scales_of_the_baselines_have_as_many_tokens_and_updates():
    assert len({(scale.tokens, scale.updates) for scale in BASELINES.scales}) == 1


def test_training_ends_after_some_validations_without_a_lower_loss():
    for scale in CURVES.scales:
        for row in CURVES.rows:
            training = curve_cells.curve_recipe(scale, row, 1, scale.data, 1000).training
            assert training.patience == PATIENCE
            assert training.updates // training.validate_every == VALIDATIONS


def test_the_pairs_of_a_smaller_corpus_are_the_first_ones_of_the_drawn_order(monkeypatch, tmp_path):
    pairs = [(f"s{number}", f"t{number}") for number in range(30)]
    for name, lines in zip(("a.s", "a.t"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    data = DataSettings(source=tmp_path / "a.s", target=tmp_path / "a.t")
    for seed in (1, 2):
        monkeypatch.setattr(curve_cells, "DRAW", seed)
        found = curve_cells.subsets(data, tmp_path / f"{seed}", (5, 12))
        order = [*pairs]
        random.Random(seed).shuffle(order)
        for size in (5, 12):
            texts = (found[size].source.read_text(), found[size].target.read_text())
            assert [*zip(*map(str.split, texts), strict=True)] == order[:size]


def measures_of(row, seed):
    """Measures whose numbers all differ."""
    number = random.Random(f"{row}{seed}measures").uniform
    names = ("chrf", "test_bleu", "test_chrf")
    speeds = ("tokens_per_second", "sentences_per_second", "torch_sentences_per_second")
    scores = {name: number(1, 90) for name in names} | {name: number(100, 9_000) for name in speeds}
    return Measures(row=row, seed=seed, curve=[(number(1, 5), number(1, 9)), (number(6, 9), 30.0)], **scores)


@pytest.fixture
def compared(monkeypatch, tmp_path):
    """A request for two rows of baselines with two seeds, and all that was made up for it."""
    request = Request(BASELINES, BASELINES.scale("multi30k"), BASELINES.rows[:2], 2, tmp_path)
    monkeypatch.setattr(baselines_page, "bootstrap_p_value", lambda *_: 0.25)
    monkeypatch.setattr(baselines_page, "origin", lambda passports: "")
    cells_of = [(row.name, seed) for seed in (1, 2) for row in request.rows]
    trials = [result(f"{row.name}/{trial.name}", 1) for row in request.rows for trial in TRIALS]
    chosen = {row.name: trial for row, trial in zip(request.rows, (TRIALS[4], TRIALS[3]), strict=True)}
    results = [result(*cell) for cell in cells_of]
    return request, Tuned(trials, chosen, results, [measures_of(*cell) for cell in cells_of])


def test_the_page_of_baselines_has_each_number_below_its_name(compared):
    request, tuned = compared
    lines = baselines_page.page_lines(request, tuned)
    quality = rows_of(baselines_page.quality(lines))
    speed = rows_of(baselines_page.speed(lines, 1.0))
    for row, scores, speeds in zip(request.rows, quality, speed, strict=True):
        results = [each for each in tuned.results if each.row == row.name]
        found = [each for each in tuned.measures if each.row == row.name]

        def shown(values, digits=2):
            return f"{fmean(values):,.{digits}f} ± {stdev(values):,.{digits}f}"

        assert scores["perplexity"] == shown([each.perplexity for each in results])
        assert scores["BLEU"] == shown([each.bleu for each in results])
        assert scores["chrF2"] == shown([each.chrf for each in found])
        assert scores["test BLEU"] == shown([each.test_bleu for each in found])
        assert scores["test chrF2"] == shown([each.test_chrf for each in found])
        assert speeds["target tokens per second, training"] == shown(
            [each.tokens_per_second for each in found], 0
        )
        assert speeds["minutes of training"] == shown([each.curve[-1][0] for each in found], 1)
        native = [each.sentences_per_second for each in found]
        assert speeds["sentences per second, decoding"] == shown(native, 0)
        torch_speeds = [each.torch_sentences_per_second for each in found]
        assert speeds["the same by PyTorch"] == shown(torch_speeds, 0)
        assert speeds["peak rate chosen"] == f"{tuned.chosen[row.name].peak:g}"
    first = request.rows[0]
    dropout = tuned.chosen[first.name].dropout
    assert f"dropout {dropout}, " in baselines_page.settings_of(request, tuned, first)


def test_each_trial_has_its_loss_and_the_chosen_one_is_bold(compared):
    request, tuned = compared
    text = baselines_page.write_baselines(request, tuned)
    content = json.loads((request.folder / "table.json").read_text())
    losses = iter(tuned.trials)
    for entry in content["trials"]:
        trial = next(losses)
        assert trial.row == f"{entry['row']}/peak-{entry['peak']:g}-dropout-{entry['dropout']:g}"
        assert entry["nll"] == trial.nll
    lines = rows_of(text.split("## Trials")[1].split("## Published")[0])
    for row, line in zip(request.rows, lines, strict=True):
        for trial, cell in zip(TRIALS, [*line.values()][1:], strict=True):
            assert cell.startswith("**") == (trial == tuned.chosen[row.name])
    for line in rows_of(text.split("## Published")[1]):
        difference = float(line["Transformer"]) - float(line["recurrent"])
        assert float(line["difference"]) == pytest.approx(difference, abs=1e-6)


def test_speed_leaves_out_the_sentences_that_warm_up(monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    sentences = [f"sentence {number}" for number in range(50)]
    (tmp_path / "data" / "valid.source.txt").write_text("".join(f"{line}\n" for line in sentences))
    seconds = [0.0]

    class Slow:
        """A translator that needs two seconds for each sentence."""

        def translate(self, lines, search):
            seconds[0] += 2.0 * len(lines)

    monkeypatch.setattr(Translator, "load", lambda run, native: Slow())
    monkeypatch.setattr(measures.time, "monotonic", lambda: seconds[0])
    assert measures.decoding_speed(make_cell(tmp_path, "a", 1, Recipe()), tmp_path, native=True) == 0.5
    assert seconds[0] == 2.0 * (len(sentences) + measures.WARM_UP)


def test_measures_are_those_of_the_log_the_texts_and_the_decoder(monkeypatch, tmp_path):
    cell = make_cell(tmp_path, "a", 1, Recipe())
    (cell.folder / "run" / "data").mkdir(parents=True)
    translations, references = ["a b c d", "a c d"], ["a b c d e", "a b c"]
    (cell.folder / "hypotheses.txt").write_text("\n".join(translations) + "\n")
    (cell.folder / "run" / "data" / "valid.target.txt").write_text("\n".join(references) + "\n")
    rates = [100.0, 900.0, 300.0]
    events = [{"event": "train", "step": 1, "seconds": 60.0, "tokens_per_second": rate} for rate in rates]
    events.insert(2, {"event": "validation", "step": 1, "bleu": 7.0})
    (cell.folder / "run" / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    score = namedtuple("score", "name value")
    test = [score("BLEU", 11.0), score("chrF2", 22.0)]
    monkeypatch.setattr(measures, "read_run_result", lambda run: namedtuple("run", "test")(test))
    monkeypatch.setattr(measures, "decoding_speed", lambda cell, run, native: 5.0 if native else 3.0)
    found = measures.measure(cell)
    assert found.tokens_per_second == median(rates)
    assert (found.sentences_per_second, found.torch_sentences_per_second) == (5.0, 3.0)
    assert (found.test_bleu, found.test_chrf, found.curve) == (11.0, 22.0, [(2.0, 7.0)])
    assert found.chrf == chrf(translations, references).value


SOURCE = ["a b c d e", "f g h i", "k l m n o"]
TARGET = ["A B C D E", "F G H I", "K L M N O"]
TRANSLATIONS = {
    "a b c d e": "A B C D",
    "f g h i": "F G H I",
    "k l m n o": "K L M N P",
    "q r s t": "Q R S T",
}
VALIDATION = {"perplexity": 9.0, "nll": 2.5, "loss": 4.5}
AVERAGE = {"perplexity": 7.0, "nll": 1.5, "loss": 3.5}


@pytest.fixture
def trained_cell(monkeypatch, tmp_path):
    """A cell whose run was made up: its validation texts, its scores, and a translator of four sentences."""

    class Dictionary:
        tokenizers = namedtuple("tokenizers", "source target")(range(11), range(13))

        def translate(self, lines, search):
            return [TRANSLATIONS[line] for line in lines]

    cell = make_cell(tmp_path, BASE.name, 1, BASE.recipe(DataSettings()))
    data = cell.folder / "run" / "data"
    data.mkdir(parents=True)
    for side, lines in (("source", SOURCE), ("target", TARGET)):
        (data / f"valid.{side}.txt").write_text("".join(f"{line}\n" for line in lines))
    trained = namedtuple("trained", "candidates validation updates minutes")
    found = trained({"average": AVERAGE, "last": VALIDATION}, VALIDATION, 7, 90.0)
    for module in (cells, table2_runs):
        monkeypatch.setattr(module, "read_run_result", lambda run: found)
        monkeypatch.setattr(module, "read_recipe", lambda run: cell.recipe)
        monkeypatch.setattr(module, "count_parameters", lambda model, source, target: (source, target))
    monkeypatch.setattr(Translator, "load", lambda folder, **_: Dictionary())
    return cell


def test_a_score_is_that_of_the_translations_of_the_cells_validation_data(trained_cell):
    found = cells.score_cell(trained_cell, {"data": {}})
    translations = [TRANSLATIONS[line] for line in SOURCE]
    assert (trained_cell.folder / "hypotheses.txt").read_text().splitlines() == translations
    assert found.bleu == bleu(translations, TARGET).value > 0
    assert (found.perplexity, found.nll, found.minutes) == (9.0, 2.5, 90.0)
    assert found.parameters == (11, 13)


def test_an_outcome_is_of_the_averaged_model_and_of_its_own_texts(monkeypatch, trained_cell, tmp_path):
    monkeypatch.setattr(table2_runs, "average_row", lambda *_: [5, 7])
    monkeypatch.setattr(table2_runs, "process_count", lambda: 3)
    monkeypatch.setattr(table2_runs, "sustained_flops", lambda: 1e9)
    monkeypatch.setattr(table2_runs, "counted_flops", lambda recipe, run, *sizes: sizes)
    log = [{"event": name, "step": 1, "seconds": 60.0} for name in ("train", "validation")]
    (trained_cell.folder / "run" / "log.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in log))
    files = tmp_path / "test.en", tmp_path / "test.de"
    test = ["q r s t", "a b c d e"], ["Q R S T", "A B C D F"]
    for path, lines in zip(files, test, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    data = DataSettings(test_source=files[0], test_target=files[1])
    found = table2_runs.measure_row(trained_cell, BASE, data, {"data": {}})
    assert found.bleu == bleu([TRANSLATIONS[line] for line in SOURCE], TARGET).value
    translations = [TRANSLATIONS[line] for line in test[0]]
    expected = bleu(translations, test[1])
    assert (found.test_bleu, found.test_signature) == (expected.value, expected.signature)
    assert found.paper_bleu == tokenised_bleu(translations, test[1], "de").value
    assert (found.perplexity, found.nll) == (7.0, 1.5)
    assert (found.parameters, found.counted_flops) == ((11, 13), (13, 7))
    assert (found.averaged, found.devices) == ([5, 7], 3)
    assert found.estimated_flops == pytest.approx(60 * 3 * 1e9)


def test_a_p_value_has_three_digits_unless_it_rounds_to_none(compared):
    base, other = baselines_page.page_lines(*compared)
    for p_value in (0.0005, 0.00099, 0.001, 0.005, 0.25):
        line = replace(other, p_values={"bleu": p_value})
        shown = baselines_page.differences(line, base, "bleu")[1]
        assert shown == ("< 0.001" if p_value < 0.001 else f"{p_value:.3f}")


def test_a_row_is_of_a_group_only_if_the_rest_of_its_name_is_a_number():
    for table in (TABLE3, BASELINES, CURVES):
        for row in table.rows:
            assert row.group == (row.name[0] if row.name[1:].isdigit() else row.name)
            with pytest.raises(DragomanError, match="has no row"):
                table.choose(row.name.lower() if row.name[0].isupper() else row.name[0])


def test_a_difference_as_large_as_its_spread_is_within_it():
    for difference in (0.5, -0.5):
        for paper in (2.0, -2.0):
            assert report.verdict(difference, 0.5, paper) == report.WITHIN
        assert report.verdict(difference, 0.5, 0.0) == report.NO_DIFFERENCE


def test_a_p_value_is_of_the_texts_that_its_score_is_of(compared, monkeypatch):
    monkeypatch.setattr(baselines_page, "bootstrap_p_value", lambda request, row, *files: files)
    _, other = baselines_page.page_lines(*compared)
    for name, files in other.p_values.items():
        assert {Path(file).name.startswith("test.") for file in files} == {name.startswith("test_")}

"""`dragoman lab`: every experiment states its claim, is short, runs, and leaves its files."""

import importlib
import json
import math
import re
import sys
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from dragoman.inspection.views.drawing import Drawing
from dragoman.model.symbols import END
from dragoman.search.beam import beam_search
from dragoman.system.files import file_hash
from dragoman_paper.lab.frame import catalogue, report
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import SECTIONS, Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import axis, bars, curves, same_decimals
from dragoman_paper.lab.parts import comparisons, training
from dragoman_paper.lab.parts.memory import peak_bytes
from dragoman_paper.lab.parts.models import random_sentences, random_transformer
from dragoman_paper.lab.parts.stop_rules import ASKED, searches
from dragoman_paper.lab.parts.training import TINY

NAMES = catalogue.names()
SAMPLE = ["all-masked-rows", "batches-by-length", "head-width", "length-penalties"]
MAX_SECONDS = 180
RESULTS = catalogue.LAB.parents[2] / "experiments" / "lab"


@pytest.fixture
def lab(command_line):
    def run(*arguments):
        return command_line("lab", *arguments)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_is_a_file_with_a_claim(name):
    found = catalogue.experiment(name)
    claim = found.claim
    assert all((claim.title, claim.claimed_by, found.method.strip()))
    assert claim.claim.endswith(".")
    assert not claim.title.endswith(".")


def test_the_table_of_statements_names_the_experiments_that_try_them():
    text = (catalogue.LAB / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([WT]\d+) \| .* \| (.*) \|$", text, re.M))
    assert list(rows) == [f"W{number}" for number in range(1, 15)] + [f"T{number}" for number in range(1, 12)]
    claims = {name: catalogue.experiment(name).claim for name in NAMES}
    assert {topic for claim in claims.values() for topic in claim.topics} == {*rows} - {"W11"}
    for row, cell in rows.items():
        named = [name for name in cell.split(", ") if name in NAMES]
        assert named == sorted(name for name, claim in claims.items() if row in claim.topics), row
        assert named or " " in cell  # else a sentence says why no experiment tries it


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_a_result_of_its_full_form(name):
    record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert not record["quick"]
    assert record["experiment"] == file_hash(catalogue.experiment(name).path), "run it again"
    assert record["seconds"] < MAX_SECONDS
    page = (RESULTS / f"{name}.md").read_text("utf-8")
    assert page == report.markdown(catalogue.experiment(name), record)
    assert f"]({name}.md) |" in (RESULTS / "README.md").read_text("utf-8")


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
def test_an_experiment_runs_in_its_quick_form(lab, tmp_path, name):
    status, out, err = lab(name, "--quick", "--out", tmp_path)
    assert (status, err.count("\n")) == (0, 1), err
    record = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert record["quick"]
    assert record["passport"]["command"].startswith(f"dragoman lab {name}")
    claim, because, verdict = out.splitlines()
    assert (claim, because) == (record["claim"], record["because"])
    assert verdict == f"In the quick form: {record['verdict']}."
    page = (tmp_path / f"{name}.md").read_text("utf-8")
    assert page.index(f"**Verdict: {record['verdict']}.** {record['because']}\n") < page.index("## Method")
    svg = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert f'id="{name}-title"' in svg
    assert not re.search(r"\bnan\b|\binf\b", svg)


def test_the_list_has_every_experiment_below_its_section(lab):
    status, out, _ = lab("--list")
    assert status == 0
    section = ""
    listed = {}
    for line in out.splitlines():
        if line.startswith("  "):
            listed[line.split()[0]] = section
        else:
            section, _, title = line.partition(" ")
            assert SECTIONS[section] == title
    assert sorted(listed) == NAMES
    assert all(catalogue.experiment(name).claim.section == section for name, section in listed.items())


def write_results(folder, but):
    """A result of every experiment but one."""
    for name in NAMES:
        claim = {"claim": "A claim.", "claimed_by": "nobody", "section": "4"}
        record = {"name": name, "quick": False, "verdict": "holds", **claim}
        if name != but:
            (folder / f"{name}.json").write_text(json.dumps(record))


def test_experiments_that_have_results_are_skipped(lab, tmp_path):
    missing = SAMPLE[0]
    write_results(tmp_path, missing)
    status, out, err = lab("--quick", "--out", tmp_path)
    assert status == 0
    assert out.splitlines()[0] == catalogue.experiment(missing).claim.claim
    assert err.count(" has a result in ") == len(NAMES) - 1
    assert report.has_result(tmp_path, missing, quick=True)
    # A quick result does not stand for a full one.
    assert not report.has_result(tmp_path, missing, quick=False)
    overview = (tmp_path / "README.md").read_text("utf-8")
    assert overview.count("\n| ") == len(NAMES) + 2
    status, out, err = lab("--quick", "--out", tmp_path)
    assert (status, out) == (0, "")


def test_an_experiment_that_cannot_run_does_not_keep_the_others_from_running(lab, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sacremoses", None)  # as if it were not installed
    write_results(tmp_path, "two-bleus")
    status, out, err = lab("--quick", "--out", tmp_path)
    assert (status, out) == (2, "")
    assert err.count(" has a result in ") == len(NAMES) - 1
    assert "two-bleus: The paper's BLEU needs sacremoses: pip install 'dragoman[paper]'" in err
    assert err.endswith("dragoman: These experiments have no result: two-bleus.\n")


def test_the_folder_of_the_results_is_made_before_anything_runs(lab, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, err = lab(SAMPLE[0], "--out", tmp_path / "file")
    assert (status, out) == (2, "")
    assert f"{tmp_path / 'file'} is a file, and a folder is wanted there. Give another name, or move" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dot-product"], "There is no experiment 'dot-product'. Did you mean dot-product-variance"),
        (["zzz"], "There is no experiment 'zzz'. dragoman lab --list shows all."),
        (["one", "two"], "'two' is one argument too many"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(lab, arguments, message, tmp_path):
    status, out, err = lab(*arguments, "--out", tmp_path / "new")
    assert (status, out) == (2, "")
    assert message in err
    assert not (tmp_path / "new").exists()


def half_apart(query, key, before):
    return torch.arange(float(len(key))).expand(len(query), -1) * (2 if before else 1)


def always(accuracy):
    """What a model without a padding mask reaches in every case."""
    module = importlib.import_module("dragoman_paper.lab.encoder_padding")
    return lambda *_: dict.fromkeys(module.ALONE | module.PADDED, accuracy)


def no_square(tokens):
    products = ("products of self-attention, %", "products of all attentions, %")
    shares = dict.fromkeys((*products, "all attentions with projections, %"), 0.0)
    return {"tokens a side": tokens, "million": 1.0, **shares}


def equal_costs(layer, n, width):
    """Of a separable convolution, and of two layers that together cost the same."""
    square, linear = 2 * n**2 * width, 2 * n * width**2
    return {"self-attention": square, "feed-forward": linear}.get(layer.name, square + linear)


def a_cube(layer, n, width):
    """Of a separable convolution what it costs, and of attention more."""
    return 2 * n**3 * width if layer.name == "self-attention" else equal_costs(layer, n, width)


class Multiplying(torch.nn.Dropout):
    """Dropout that multiplies what it keeps by the share that it keeps."""

    def forward(self, x):
        kept = 1 - self.p
        return super().forward(x) * kept**2 if self.training else x


def a_quarter(d_k, draws, seed):
    found = {"variance, unscaled": float(d_k), "variance, scaled": 1.0}
    for which in ("median", "mean"):
        found |= {f"{which} gradient, unscaled": 1.0 if d_k == 4 else 0.25, f"{which} gradient, scaled": 1.0}
    return found


@pytest.mark.parametrize(
    ("name", "part", "replacement", "verdict"),
    [
        ("dot-product-variance", "measure", a_quarter, "does not hold"),
        ("dropout-scale", "nn", SimpleNamespace(Dropout=Multiplying), "holds"),
        ("encoder-padding", "trained", always(0.2), "is not decided"),
        ("encoder-padding", "trained", always(0.9), "holds"),
        ("half-precision-scores", "scores", half_apart, "does not hold"),
        ("half-precision-scores", "scores", lambda query, key, _: torch.ones(len(query), len(key)), "holds"),
        ("mask-value", "weights", lambda *_: [0.0, 1.0], "holds"),
        ("mask-value", "weights", lambda *_: [1.0, 0.0], "does not hold"),
        ("naive-softmax-overflow", "error", lambda *_: 0.0, "holds"),
        ("naive-softmax-overflow", "error", lambda _, shift: float(not shift), "does not hold"),
        ("operations-by-hand", "shares", no_square, "does not hold"),
        ("separable-convolution", "count_flops", equal_costs, "holds"),
        ("separable-convolution", "count_flops", a_cube, "does not hold"),
    ],
)
def test_a_verdict_follows_from_the_numbers(monkeypatch, name, part, replacement, verdict):
    experiment = catalogue.experiment(name)
    monkeypatch.setattr(sys.modules[f"dragoman_paper.lab.{name.replace('-', '_')}"], part, replacement)
    assert experiment.run(True).verdict == verdict


@pytest.mark.parametrize(
    ("worse", "verdict"),
    [
        ({"whole targets"}, "holds only if short translations are improbable"),
        ({"cut targets"}, "holds only if short translations are probable"),
        ({"whole targets", "cut targets"}, "holds"),
        (set(), "does not hold"),
    ],
)
def test_a_wider_beam_is_worse_for_all_models_or_for_those_of_some_targets(monkeypatch, worse, verdict):
    module = importlib.import_module("dragoman_paper.lab.wider_beam_of_a_trained_model")

    def search(targets, source, settings):
        """The gold text, but for a beam of 16 where it is worse."""
        ids = [1] if targets in worse and settings.beam_size == 16 else [4]
        return [[SimpleNamespace(ids=ids, log_probability=-1.0)]]

    names = {task: name for name, task in module.TASKS.items()}
    monkeypatch.setattr(module, "train", lambda settings, task, updates, seed: names[task])
    monkeypatch.setattr(module, "token_accuracy", lambda *_: 1.0)
    monkeypatch.setattr(module, "wanted", lambda held_out: [[4]])
    monkeypatch.setattr(module, "beam_search", search)
    assert module.run(True).verdict == verdict


def test_a_length_penalty_that_changes_no_length_makes_no_translation_longer(monkeypatch):
    module = importlib.import_module("dragoman_paper.lab.length_penalty_of_a_trained_model")

    def search(model, source, settings):
        return beam_search(model, source[:5], replace(settings, length_penalty=0.0))

    monkeypatch.setattr(module, "beam_search", search)
    monkeypatch.setattr(module, "examples", lambda *_: training.examples(training.reversing(4, 5), 1, 5))
    monkeypatch.setattr(module, "train", lambda settings, _, __, seed: training.fresh(settings, seed).eval())
    assert module.run(True).verdict == "is not decided"
    monkeypatch.setattr(module, "verdict_of", lambda true, only_if, decided: verdict_of(true, only_if))
    assert module.run(True).verdict == "does not hold"


def test_the_searches_of_the_stop_rules_find_what_beam_search_finds():
    model, source = random_transformer().float(), random_sentences([4, 7, 5])
    found = searches(model, source)
    for one, (best, *_) in zip(found, beam_search(model, source, ASKED), strict=True):
        assert one["none can become the best"][0] == best.ids


def test_memory_is_that_of_the_tensors_that_exist_at_one_time():
    x = torch.ones(1000)  # existed before
    assert peak_bytes(lambda: x.view(10, 100).T) == 0
    assert peak_bytes(lambda: x + 1) == 4000
    assert peak_bytes(lambda: ((x + 1) * 2 - 3) / 4) == 8000  # an argument and a result
    assert peak_bytes(lambda: [x + 1, x + 2, x.double()]) == 16000


def test_accuracy_by_distance_counts_each_reversed_letter(monkeypatch):
    module = importlib.import_module("dragoman_paper.lab.reversing")
    batch = training.batch_of([([4, 5, 6], [6, 5, 4]), ([7, 8], [8, 7])])
    found = torch.nn.functional.one_hot(torch.tensor([[6, 9, 4], [8, 9, 9]])).float()
    monkeypatch.setattr(training, "token_log_probs", lambda *_: torch.nn.functional.pad(found, (0, 0, 0, 1)))
    assert module.accuracy_by_distance(None, batch) == {0: 0.0, 1: 0.5, 2: 1.0}


def test_what_an_experiment_states_is_checked():
    with pytest.raises(ValueError, match=r"The section is '9'; there are: 3\.1, "):
        Claim("title", "9", "claim.", "nobody")
    with pytest.raises(ValueError, match="The verdict is 'perhaps'"):
        Result({}, Drawing("lab", "", ""), "perhaps", "")
    found = [verdict_of(True), verdict_of(False), verdict_of(True, "k = 1"), verdict_of(True, decided=False)]
    assert found == ["holds", "does not hold", "holds only if k = 1", "is not decided"]
    assert verdict_of(True, "for most") == "holds only for most"


def test_pictures_show_what_has_a_place_on_their_axes():
    points = [(1, 1.0), (10, float("nan")), (100, 0.0), (1000, 1e-4)]
    drawn = curves("title", "x", "y", {"a": points, "b": []}, log_x=True, log_y=True).svg()
    assert "nan" not in drawn
    assert "0.001" in drawn
    with pytest.raises(ValueError, match="There are 7 curves, and looks for 6"):
        curves("title", "x", "y", {str(number): points for number in range(7)})
    svg = bars("title", "unit", {"": {"zero": 0.0, "ten": 10.0, "infinite": float("inf")}}, log=True).svg()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    own_scales = bars("title", "unit", {"a": {"x": 0.5}, "b": {"x": 50.0}}, own_scales=True).svg()
    assert own_scales.count('width="360"') == 2


def test_matrices_show_what_their_rows_columns_and_numbers_are():
    sides = Side("row", ["r", "s"]), Side("column", ["c", "d"])
    cells = matrices("title", "unit", {"one": np.eye(2), "two": -np.eye(2)}, *sides).svg()
    shown = ("one", "two", "unit", "row ↓", "column →", "r", "d", "−1", "1")
    assert all(f">{label}<" in cells for label in shown)
    assert ">NaN<" not in cells
    gaps = np.array([[0.25, np.nan]])
    cells = matrices(
        "title", "unit", {"one": gaps}, Side("row"), Side("column", range(2)), numbers=True
    ).svg()
    assert all(f">{label}<" in cells for label in ("NaN", "0.25", "0.125", "0"))
    assert "-0" not in cells


def test_of_numbers_of_rows_those_are_shown_that_have_room():
    assert Side("row").drawn(3, 20) == {0: "1", 1: "2", 2: "3"}
    assert Side("row").drawn(7, 4) == {4: "5"}
    assert Side("row", range(11)).drawn(11, 4) == {0: "0", 5: "5", 10: "10"}


@pytest.mark.parametrize(
    ("values", "log", "expected"),
    [
        ([1, 9], False, (0, 10)),
        ([8, 9], False, (8, 9)),
        ([0, 0], False, (-1, 1)),
        ([0, 2.5], True, (0, 3)),
        ([0, 7.5], True, (0, 8)),
        ([0, 8.5], True, (0, 10)),
    ],
)
def test_an_axis_begins_at_zero_unless_half_of_it_would_be_empty(values, log, expected):
    assert axis(values, log)[0] == expected


@pytest.mark.parametrize("most", [0.004, 0.97, 1.03, 9.5, 31, 99.99, 6400])
def test_no_number_is_beyond_the_last_tick(most):
    (low, high), shown = axis([0.0, most], False)
    assert (low, high) == (shown[0][0], shown[-1][0])
    assert most <= high <= 1.3 * most
    assert len({len(label.partition(".")[2]) for _, label in shown}) == 1  # decimals
    assert 4 <= len(shown) <= 9


def test_numbers_beside_each_other_have_the_same_decimals():
    assert same_decimals([0.5, 0.25, 0.0]) == ["0.50", "0.25", "0.00"]
    assert same_decimals([61.527, 5.0]) == ["61.53", "5.00"]
    assert same_decimals([20000.0, 163.84]) == ["20,000", "164"]
    assert same_decimals([3.283e18, 0.0]) == ["3.283e+18", "0"]


def test_the_seed_determines_a_tiny_training():
    task = training.reversing(2, 3)
    one, same, other = (list(training.train(TINY, task, 2, seed).parameters()) for seed in (1, 1, 2))
    assert all(map(torch.equal, one, same))
    assert not all(map(torch.equal, one, other))


@pytest.mark.parametrize("seed", [1, 2])
def test_held_out_texts_are_drawn_otherwise_than_those_of_training(seed):
    def recording(draws):
        def task(generator):
            draws.append(int(generator.integers(2**62)))
            return training.reversing(2, 3)(generator)

        return task

    trained, held_out = [], []
    training.train(TINY, recording(trained), 2, seed)
    training.examples(recording(held_out), seed)
    assert len(trained) > 1
    assert set(trained).isdisjoint(held_out)


def test_pairs_of_trainings_differ_if_their_mean_difference_is_clear():
    zeros = [0.0] * 5
    # The mean is 3 and the standard error 0.7071: half of the interval is 2.776 times that, 1.96.
    for shift, how in ((0.0, "higher"), (-1.0, "higher"), (-1.1, "not clearly different"), (-5.0, "lower")):
        assert comparisons.compared([each + shift for each in (1, 2, 3, 4, 5)], zeros) == how
    assert comparisons.compared([9.0], [1.0]) == "not clearly different"  # one seed
    # If one of four tests decides, half of the interval is 4.315 times that, 3.05.
    assert comparisons.compared([1, 2, 3, 4, 5], zeros, tests=4) == "not clearly different"
    assert comparisons.compared([1.1, 2.1, 3.1, 4.1, 5.1], zeros, tests=4) == "higher"


@pytest.mark.parametrize("freedom", comparisons.STUDENT)
def test_intervals_of_several_tests_are_of_95_percent_together(freedom):
    middles = (np.arange(10_000) + 0.5) / 10_000  # of parts of the interval from 0 to t
    factor = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)
    for tests, t in enumerate(comparisons.STUDENT[freedom], 1):
        density = factor * (1 + (t * middles) ** 2 / freedom) ** (-(freedom + 1) / 2)
        assert tests * (1 - 2 * t * density.mean()) == pytest.approx(0.05, abs=1e-4)


def test_numbers_of_two_models_count_as_different_by_two_rules():
    assert comparisons.higher_for_each_seed([2, 9], [1, 8])
    assert not comparisons.range_above([2, 9], [1, 8])
    assert not comparisons.higher_for_each_seed([2, 8], [1, 8])
    assert comparisons.range_above([3, 4], [1, 2])


def test_checkpoints_are_kept_before_their_updates_and_averaged():
    kept = {}
    training.train(TINY, training.reversing(2, 3), 3, 1, watch=comparisons.keeper(kept, (1, 3)))
    assert list(kept) == [1, 3]
    first, last = (each["target_embedding.weight"] for each in kept.values())
    assert torch.equal(first, training.fresh(TINY, 1).target_embedding.weight)
    mean = comparisons.mean_weights(list(kept.values()))["target_embedding.weight"]
    assert torch.allclose(mean, (first + last) / 2)
    assert not torch.equal(first, last)


def test_held_out_texts_are_not_in_the_corpus(monkeypatch):
    module = importlib.import_module("dragoman_paper.lab.learning_curve_by_corpus")
    corpus = [([a, b, c], [c, b, a]) for a in (4, 5) for b in (4, 5) for c in (4, 5)][1:]
    monkeypatch.setattr(module, "TASK", training.reversing(3, 3, letters=2))
    found = training.examples(module.task_without(corpus), 1, 5)
    assert training.wanted(found) == [[4, 4, 4]] * 5


def test_held_out_texts_are_reversed():
    batch = training.examples(training.reversing(3, 6), 1, 20)
    targets = training.wanted(batch)
    sources = [[token for token in row if token > END] for row in batch.source.tolist()]
    assert targets == [source[::-1] for source in sources]

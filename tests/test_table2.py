"""Table 2 at toy size, from an archive to the page; its rows are the paper's recipes."""

import json
import sys
import tarfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from dragoman.cli import main as cli
from dragoman.evaluation.metrics import bleu
from dragoman.evaluation.paper import tokenised_bleu
from dragoman.model.costs import multiply_adds_by_part
from dragoman.model.settings import ModelSettings
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.runs import read_log
from dragoman.system.errors import DragomanError
from dragoman.system.files import read_arrays
from dragoman.system.messages import messages_to
from dragoman.system.toml import read_toml, to_table
from dragoman.text.corpus import PairFilter, scan_corpus, write_corpus
from dragoman.text.named_datasets import datasets
from dragoman.text.named_datasets.archive_dataset import ArchiveDataset, ArchivePart, Text
from dragoman.text.named_datasets.archives import Archive
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.translator import Translator
from dragoman_paper.tables import cells, table2, table2_runs
from dragoman_paper.tables.published import TABLE_2, TRAINING_RUNS, estimated_flops
from dragoman_paper.tables.table2 import PAPER, SCALES, choose, rows_of
from dragoman_paper.tables.table2_page import write_page
from dragoman_paper.tables.table2_runs import Outcome, Table2Request, counted_flops, finished, run_rows
from tests.conftest import write_copies

TOML = Path(__file__).parents[1] / "experiments" / "table2"
TINY = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)
ROWS = tuple(
    replace(
        row,
        model=TINY,
        dataset="toy-en-de",
        vocabulary=320,
        updates=30,
        checkpoint_every=10,
        average=2,
        warmup_steps=10,
        tokens=100,
        precision="float32",
    )
    for row in PAPER[:2]
)


@pytest.mark.parametrize("scale", SCALES)
def test_an_update_of_a_row_has_its_tokens_on_each_side(scale):
    for row in rows_of(scale):
        batches = row.recipe(DataSettings()).batches
        assert (batches.source_tokens_per_batch, batches.target_tokens_per_batch) == (row.tokens, row.tokens)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A dataset in one archive of copied words: its definition, and the folder of datasets."""
    web = tmp_path_factory.mktemp("web")
    with tarfile.open(web / "toy.tgz", "w:gz") as tar:
        for name, lines, seed in (("train", 200, 0), ("valid", 10, 1), ("test", 12, 2)):
            for path in write_copies(web, name, lines, seed):
                tar.add(path, path.name)
    archive = Archive((web / "toy.tgz").as_uri())
    texts = (
        Text(name, (ArchivePart(archive, f"{name}.source", f"{name}.target"),))
        for name in ("train", "valid", "test")
    )
    return ArchiveDataset("a toy", "ours", ("en", "de"), tuple(texts), 1_000), web / "data"


@pytest.fixture(autouse=True)
def named(toy, monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "toy-en-de", toy[0])


@pytest.fixture(scope="module")
def complete(toy, tmp_path_factory):
    """The first row, run; what was said; the weights of its checkpoints, by their updates."""
    out, said, kept = tmp_path_factory.mktemp("out"), [], {}
    request = Table2Request("toy", ROWS, ROWS[:1], out, toy[1], "dragoman reproduce table2", "1")
    keep = cells.rmtree

    def before_deleting(folder, **options):
        for path in folder.glob("step-*/model.safetensors"):
            kept[int(path.parent.name.removeprefix("step-"))] = read_arrays(path)
        keep(folder, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(datasets.DATASETS, "toy-en-de", toy[0])
        patch.setattr(cells, "rmtree", before_deleting)
        with messages_to(said.append):
            assert run_rows(request)
    return request, said, kept


@pytest.mark.long
def test_a_row_is_run_from_the_archive_to_both_scores(complete, toy):
    request, said, _ = complete
    found = finished(request, ROWS[0])
    folder = request.folder / "base-en-de" / "seed-1"
    hypotheses = (folder / "test.hypotheses.txt").read_text().splitlines()
    references = (toy[1] / "toy-en-de" / "test.de").read_text().splitlines()
    assert found.test_bleu == bleu(hypotheses, references).value
    assert found.paper_bleu == tokenised_bleu(hypotheses, references, "de").value
    updates = [each for each in read_log(folder / "run") if each["event"] == "train"]
    hours = sum(each["seconds"] for each in updates) / 3600
    assert hours < found.minutes / 60  # which has the validations too
    assert found.estimated_flops == estimated_flops(hours, found.devices, found.device_flops)
    assert found.counted_flops > 0
    average = json.loads((folder / "run" / "result.json").read_text())["candidates"]["average"]
    assert (found.perplexity, found.nll) == (average["perplexity"], average["nll"])
    source, target = (
        (folder / "run" / "data" / f"valid.{side}.txt").read_text().splitlines()
        for side in ("source", "target")
    )
    translations = Translator.load(folder / "model").translate(source, ROWS[0].recipe(DataSettings()).search)
    assert found.bleu == bleu(translations, target).value
    assert set(found.passport["data"]) == {
        f"{kind}{side}" for kind in ("", "valid_", "test_") for side in ("source", "target")
    }
    assert "base-en-de: complete. 1 of 1 cells are complete." in said


@pytest.mark.parametrize(("source", "target"), [(1, 1), (2, 5), (6, 3)])
def test_counted_operations_are_those_of_full_batches_of_sentences_with_their_ends(tmp_path, source, target):
    tokenizer = Tokenizer.train(["a b"], "word", TokenizerSettings(), 9)
    tokenizer.save(tmp_path / "tokenizer.model")
    files = tmp_path / "source", tmp_path / "target"
    for path, word, count in zip(files, "ab", (source, target), strict=True):
        path.write_text(f"{' '.join(word * count)}\n" * 4)
    statistics, _ = scan_corpus(files, DataSettings(), {}, None)
    models = (tmp_path / "tokenizer.model",) * 2
    write_corpus(tmp_path / "data" / "train", files, models, DataSettings(), PairFilter(), statistics)
    recipe = ROWS[0].recipe(DataSettings())
    recipe = replace(recipe, batches=replace(recipe.batches, target_tokens_per_batch=120, accumulate=3))
    pair = sum(multiply_adds_by_part(TINY, 50, source + 1, target + 1).values())
    pairs = 7 * 3 * 120 / (target + 1)  # of seven updates, of which each has three batches
    found = counted_flops(recipe, tmp_path, 50, 7)
    assert found == pytest.approx(3 * 2 * pairs * pair)  # a backward pass costs two forward ones


def test_the_model_is_the_mean_of_the_last_checkpoints(complete):
    request, _, kept = complete
    found = finished(request, ROWS[0])
    assert found.averaged == [20, 30]
    tensors = read_arrays(request.folder / "base-en-de/seed-1/model/model.safetensors")
    for name, tensor in tensors.items():
        mean = (kept[20][name].astype("float64") + kept[30][name]) / 2
        assert torch.allclose(torch.tensor(tensor).double(), torch.tensor(mean), atol=1e-6)


def test_the_training_does_not_see_the_test_data(complete):
    request, _, _ = complete
    run = request.folder / "base-en-de" / "seed-1" / "run"
    assert not list(run.glob("data/test.*"))
    assert "test" not in json.loads((run / "result.json").read_text())


def test_the_same_command_runs_nothing_again(complete, monkeypatch):
    request, _, _ = complete
    monkeypatch.setattr(table2_runs, "train_cell", None)
    monkeypatch.setattr(table2_runs, "measure_row", None)
    assert run_rows(request)


def test_the_page_has_the_papers_figures_and_names_what_was_not_run(complete):
    request, _, _ = complete
    page, found = write_page(request), finished(request, ROWS[0])
    assert f"| base-en-de | 27.3 | {found.paper_bleu:.2f} | {found.test_bleu:.2f} |" in page
    assert "| big-en-de | 28.4 | not run |" in page
    assert "- Not run: big-en-de." in page
    content = json.loads((request.folder / "table.json").read_text())
    assert content["rows"] == {"base-en-de": asdict(found), "big-en-de": None}
    assert Outcome(**content["rows"]["base-en-de"]) == found


@pytest.mark.parametrize("content", ["{}", "[]", '{"passport": {}}', "cut"])
def test_a_damaged_result_is_named(tmp_path, content):
    request = Table2Request("paper", PAPER, (), tmp_path)
    result = request.cell(PAPER[0], DataSettings()).folder / "result.json"
    result.parent.mkdir(parents=True)
    result.write_text(content)
    with pytest.raises(DragomanError, match=r"result\.json"):
        finished(request, PAPER[0])


def test_the_papers_page_has_the_other_systems_too(tmp_path):
    request = Table2Request("paper", PAPER, (), tmp_path)
    request.folder.mkdir(parents=True)
    page = write_page(request)
    assert "| ConvS2S | 25.16 |" in page
    assert "| big-en-fr | 41.8 | not run |  |  | 2.3e19 | not run |" in page
    assert "- Not run: base-en-de, big-en-de, base-en-fr, big-en-fr." in page


def test_results_of_other_settings_or_texts_are_refused(complete):
    request, _, _ = complete
    with pytest.raises(DragomanError, match="of other settings or another text"):
        finished(request, replace(ROWS[0], updates=31))


def test_without_the_papers_tokeniser_nothing_is_trained(complete, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(DragomanError, match="The paper's BLEU needs sacremoses"):
        run_rows(replace(complete[0], out=tmp_path))
    assert not list(tmp_path.iterdir())


# ---- rows


@pytest.mark.parametrize("row", PAPER, ids=lambda row: row.name)
def test_rows_are_the_papers(row):
    size = row.name.split("-")[0]
    recipe = row.recipe(DataSettings())
    paper = TRAINING_RUNS[size]
    assert recipe.training.updates == paper.updates
    assert row.flops == paper.flops
    assert row.bleu in next(scores for name, scores in TABLE_2.items() if size in name)
    assert recipe.training.average == {"base": 5, "big": 20}[size]
    ten_minutes = paper.updates / paper.hours / 6
    assert recipe.training.checkpoint_every == pytest.approx(ten_minutes, rel=0.02)
    assert (recipe.batches.source_tokens_per_batch, recipe.batches.target_tokens_per_batch) == (
        25_000,
        25_000,
    )
    assert recipe.tokenizer.vocabulary == {"en-de": 37_000, "en-fr": 32_000}[row.pair]
    assert recipe.model.dropout == (0.3 if row.name == "big-en-de" else 0.1)
    assert (recipe.search.beam_size, recipe.search.length_penalty) == (4, 0.6)
    assert row.dataset in datasets.DATASETS
    assert row.pair == "-".join(datasets.DATASETS[row.dataset].languages)


@pytest.mark.parametrize("row", PAPER, ids=lambda row: row.name)
def test_a_rows_file_is_its_recipe(row):
    path = TOML / f"{row.name}.toml"
    recipe = complete_recipe(read_toml(path), str(path), lambda each: each, bool)
    assert recipe.data == DataSettings(dataset=row.dataset)
    assert recipe.out == Path("runs") / row.name
    ours = row.recipe(recipe.data)
    assert to_table(replace(recipe, preset=ours.preset, out=None)) == to_table(ours)


def test_every_file_is_of_a_row():
    assert {path.stem for path in TOML.glob("*.toml")} == {row.name for row in PAPER}


def test_the_rehearsal_keeps_the_proportions():
    for row, large in zip(SCALES["multi30k"], PAPER, strict=False):
        assert row.model.d_model * 4 == large.model.d_model
        assert row.model.encoder_layers * 2 == large.model.encoder_layers
        assert (row.model.heads, row.model.dropout, row.average) == (
            large.model.heads,
            large.model.dropout,
            large.average,
        )
        assert row.checkpoint_every * row.average <= row.updates
        assert row.bleu is None


def test_rows_are_chosen_by_name():
    assert [row.name for row in choose(PAPER, "big-en-fr, base-en-de")] == ["base-en-de", "big-en-fr"]
    assert choose(PAPER, "") == list(PAPER)
    assert rows_of("paper") is table2.PAPER


@pytest.mark.parametrize("scale", [None, "paper", "multi30k"])
def test_the_scale_is_that_of_the_paper_unless_it_is_given(monkeypatch, capsys, tmp_path, scale):
    words = ["dragoman", "reproduce", "table2", "--rows", "none", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words + ["--scale", scale or ""] * bool(scale))
    with pytest.raises(SystemExit):
        cli.main()
    rows = ", ".join(row.name for row in rows_of(scale or "paper"))
    assert f"no row 'none' at this scale; it has {rows}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--rows", "base-de-en"],
            "table2 has no row 'base-de-en' at this scale; it has base-en-de, big-en-de",
        ),
        (["--scale", "huge"], "There is no scale 'huge' of table2; there are: paper, multi30k."),
        (["--seeds", "3"], "table2 is trained once, as in the paper, so it has no --seeds; leave it out."),
        (["--quick"], "so it has no --quick; leave it out. --scale multi30k tries it in minutes."),
    ],
)
def test_wrong_input_gets_a_sentence(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.setattr(
        sys, "argv", ["dragoman", "reproduce", "table2", *arguments, "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

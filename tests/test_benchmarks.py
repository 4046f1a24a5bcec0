"""The benchmarks run, at toy size."""

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import torch

from benchmarks import tables
from benchmarks.document_files import read_sentences, write_document
from dragoman.documents.file import Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.documents.read import READERS
from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS
from dragoman.model.symbols import END, PAD, START
from dragoman.pipeline.result import read_run_result
from dragoman.search.shortlist import Shortlist
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model
from tests.conftest import MAX_SECONDS, write_copies
from tests.processes import fork, run_command, worst

SENTENCES = ["Two dogs sleep.", "A man runs.", "A woman is red."]
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def forked_dragoman(monkeypatch, tmp_path):
    """A benchmark's `python -m dragoman` is a fork, which need not import PyTorch again and adds to err."""
    run = subprocess.run

    def instead(words, **options):
        if words[1:3] != ["-m", "dragoman"]:
            return run(words, **options)

        def command():
            os.chdir(options["cwd"])
            run_command(words[3:], tmp_path / "err")

        ended = subprocess.CompletedProcess(words, worst([fork(command)]))
        ended.check_returncode()
        return ended

    monkeypatch.setattr(subprocess, "run", instead)


def benchmark(folder, name, *arguments, **environment):
    """A benchmark's exit status, and what it writes, in a process that need not import PyTorch again."""

    def run():
        for number, path in ((1, folder / "out"), (2, folder / "err")):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        os.environ.update(environment)
        sys.argv = [str(BENCHMARKS / name), *map(str, arguments)]
        sys.path.insert(0, str(BENCHMARKS))
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            sys.stdout.flush()

    status = worst([fork(run)])
    return status, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.long
def test_the_benchmark_for_a_gpu_runs_anywhere_on_any_text(tmp_path):
    readme = BENCHMARKS.parent / "README.md"
    command = ["gpu_train.py", "--toy", "--out", tmp_path, "--preset", "base"]
    status, out, err = benchmark(tmp_path, *command, "--profile", "--source", readme, "--target", readme)
    assert status == 0, err
    measured = [json.loads(line) for line in out.splitlines()]
    assert [(found["text"], found["preset"]) for found in measured] == [
        ("random", "base"),
        ("README", "base"),
    ]
    for found in measured:
        assert found["target_tokens_per_second"] > 0
        assert found["date"]
        assert found["device"] != "no GPU" or "share_of_peak" not in found
        (path,) = tmp_path.glob(f"gpu-train-{found['preset']}-native-{found['text']}-*.json")
        assert json.loads(path.read_text()) == found
        assert path.with_suffix(".txt").exists()
    status, _, err = benchmark(tmp_path, *command, "--source", readme)
    assert status == 2
    assert "--source and --target belong together" in err
    if not torch.cuda.is_available():
        status, _, err = benchmark(tmp_path, *command, "--way", "graphs")
        assert (status, "--way graphs needs a GPU." in err) == (2, True)


@pytest.mark.long
def test_the_benchmark_for_a_cpu_measures_and_writes_its_passport(tmp_path):
    source, target = write_copies(tmp_path, "train", 40)
    command = ["--source", str(source), "--target", str(target), "--preset", "tiny"]
    peers = ["--precisions", "float32", "--peers", "torch.nn.Transformer", "--allocators", "ours"]
    more = ["--updates", "1", "--warm-up", "1", *peers, "--results", str(tmp_path), "--profile"]
    environment = {"OMP_NUM_THREADS": "1", "DRAGOMAN_CXXFLAGS": "-O0"}  # its kernels are compiled anew
    status, out, err = benchmark(tmp_path, "train.py", *command, *more, **environment)
    assert status == 0, err
    assert "ours is" in out
    assert "(extrapolated)" in out
    (path,) = tmp_path.glob("train-tiny-*.json")
    found = json.loads(path.read_text())
    said = [
        "python",
        "benchmarks/train.py",
        "--source",
        source.name,
        "--target",
        target.name,
        *command[-2:],
        *more[:-3],
        "--profile",
    ]
    assert shlex.split(found["command"]) == said  # files without their folders
    (row,) = found["rows"]
    assert row["peer"] == "torch.nn.Transformer"
    assert row["allocator_settings"]
    for side in (row["ours"], row["theirs"]):
        # There is one update.
        assert side["tokens_per_second"] == pytest.approx(side["median_tokens_per_second"])
        assert side["extrapolated"]
        assert side["seconds_to_start"] < side["seconds_to_100_updates"]
    assert row["ratio"] == pytest.approx(row["median_ratio"])
    assert found["floors"]["float32"]["tokens_per_second"] > 0
    lines = path.with_name(f"{path.stem}-float32.txt").read_text().splitlines()[1:]
    shares, names = (
        [float(line.split()[0].rstrip("%")) for line in lines],
        {line.split(maxsplit=3)[3] for line in lines},
    )
    assert sum(shares) == pytest.approx(100, abs=0.01 * len(shares))
    assert shares == sorted(shares, reverse=True)
    assert {"aten::mm", "(in no operator)"} <= names


@pytest.mark.parametrize(
    ("program", "name"),
    [("benchmarks/passport.py", "passport"), ("src/dragoman/pipeline/passport.py", "commit")],
)
def test_a_passport_says_whether_what_runs_was_changed_since_the_commit(program, name, tmp_path):
    copy = tmp_path / program
    copy.parent.mkdir(parents=True)
    shutil.copy(BENCHMARKS.parent / program, copy)
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    me = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    hidden = ["config", "status.showUntrackedFiles", "no"]
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "one"], hidden):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    function = runpy.run_path(str(copy))[name]

    def stamp():
        return function("") if name == "passport" else function()

    def dirty_with(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        dirty = stamp()["dirty"]
        path.unlink()
        return dirty

    os.utime(copy, (1, 1))  # so that git would note the file's new time in its index, and lock that
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    assert stamp()["commit"]
    assert not stamp()["dirty"]
    assert index.read_bytes() == before
    for other in ("train.en", "results/lab/claim.json", "benchmarks/results/a.json", "src/__pycache__/a.pyc"):
        assert not dirty_with(tmp_path / other), other
    for new in ("src/new.py", "benchmarks/new.lua", "benchmarks/new.py"):
        assert dirty_with(tmp_path / new), new
    copy.write_text(copy.read_text() + "# changed\n")
    assert stamp()["dirty"]


def test_a_measurement_never_takes_the_place_of_another(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from passport import keep

    kept = [keep({"date": "2026-11-22", "number": number}, tmp_path, "train-small") for number in range(3)]
    assert [path.name for path in kept] == [f"train-small-2026-11-22{more}.json" for more in ("", "-2", "-3")]
    assert [json.loads(path.read_text())["number"] for path in kept] == [0, 1, 2]


@pytest.mark.long
def test_the_benchmark_of_preparation_measures_a_repeated_text(tmp_path):
    source, target = write_copies(tmp_path, "train", 600)
    command = ["--source", source, "--target", target, "--times", 2, "--results", tmp_path]
    status, _, err = benchmark(tmp_path, "prepare.py", *command)
    assert status == 0, err
    (path,) = tmp_path.glob("prepare-*.json")
    found = json.loads(path.read_text())
    assert (
        found["command"]
        == f"python benchmarks/prepare.py --source {source.name} --target {target.name} --times 2"
    )
    assert [row["pairs"] for row in found["rows"]] == [1200]
    assert all(row["gib"] > 0 for row in found["rows"])
    assert all(row["copies"] == 0 for row in found["rows"])  # the sides are two texts


@pytest.fixture(scope="module")
def random_model(tmp_path_factory):
    """A folder with a random model, and a text for it."""
    folder = tmp_path_factory.mktemp("random")
    source, _ = write_copies(folder, "test", 30)
    tokenizer = Tokenizer.train(source.read_text().splitlines(), "bpe", TokenizerSettings(), 300)
    settings = replace(PRESETS["tiny"], norm="post")  # as Marian has it
    save_model(
        folder / "run" / "model",
        build_model(settings, len(tokenizer), len(tokenizer)),
        settings,
        Tokenizers(tokenizer, tokenizer),
    )
    return folder / "run", source


@pytest.mark.long
def test_hugging_faces_marian_has_the_weights_that_it_is_compared_by(random_model, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is missing: pip install transformers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from decode import marian, plain

    ours, theirs = (load(random_model[0]) for load in (plain, marian))
    source, target = torch.tensor([[5, 6, 7, END], [8, 9, END, PAD]]), torch.tensor([[START, 5], [START, 6]])
    with torch.no_grad():
        found = theirs(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target)
        expected = ours.logits(ours.decode(target, ours.encode(source))[0])
    torch.testing.assert_close(found.logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.long
def test_the_benchmark_of_decoding_compares_with_a_peer(random_model, tmp_path):
    run, source = random_model
    command = [
        sys.executable,
        str(BENCHMARKS / "decode.py"),
        str(run),
        "--source",
        str(source),
        "--preset",
        "tiny",
    ]
    more = [
        "--sentences",
        "10",
        "--rounds",
        "1",
        "--beams",
        "2",
        "--systems",
        "dragoman",
        "ctranslate2",
        "--precisions",
        "float32",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, *more, "--results", str(tmp_path)],
        env=environment,
        capture_output=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    (path,) = tmp_path.glob("decode-tiny-*.json")
    found = json.loads(path.read_text())
    said = ["python", "benchmarks/decode.py", "RUN", "--source", source.name, *command[-2:], *more]
    assert sorted(shlex.split(found["command"])) == sorted(said)  # flags in the order of the program's own
    rows = found["rows"]
    assert [(row["system"], row["one_by_one"]) for row in rows] == [
        (system, alone) for alone in (False, True) for system in ("dragoman", "ctranslate2")
    ]
    assert all((row["times_ctranslate2"] == 1) == (row["system"] == "ctranslate2") for row in rows)


def test_the_benchmark_of_decoding_on_a_gpu_runs_anywhere(random_model, tmp_path):
    run, source = random_model
    command = ["--source", source, "--preset", "tiny", "--sentences", 4, "--batch-tokens", 500]
    status, out, err = benchmark(tmp_path, "gpu_decode.py", run, *command)
    assert status == 0, err
    rows = json.loads(out)["rows"]
    assert len(rows) == 4 * len({row["precision"] for row in rows})  # bfloat16 where the processor has it
    assert all(row["tokens_per_second"] > 0 for row in rows)


def students(monkeypatch):
    """The program benchmarks/students.py, and its folder on the path."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return runpy.run_path(str(BENCHMARKS / "students.py"))


def test_the_tables_of_students_have_means_over_seeds_and_ratios_to_the_teacher():
    kind = {"precision": "int8", "beam": 1}
    rows = [
        {
            "model": name,
            **kind,
            "parameters": count,
            "bleu": bleu,
            "sentences_per_second": speed,
            "milliseconds": ms,
        }
        for name, count, bleu, speed, ms in (
            ("teacher", 7_000_000, [30.0, 32.0], 100.0, 6.0),
            ("student, distilled", 2_000_000, [30.0, 31.0], 250.0, 2.0),
        )
    ]
    compared = [
        {
            "model": "student, distilled",
            **kind,
            "seed": seed,
            "beside": "teacher",
            "difference": by,
            "p": 0.25,
        }
        for seed, by in ((1, 0.0), (2, -1.0))
    ]
    found = {"rows": rows, "comparisons": compared}
    line = "| student, distilled | 2.00 | 1 | 30.50 ± 0.71 | 250 (2.50 ×) | 2.00 (3.00 ×) |"
    assert line in tables.students(found).splitlines()
    line = "| student, distilled | int8 | 1 | teacher | -0.50 ± 0.71 | 0.250, 0.250 |"
    assert line in tables.student_differences(found).splitlines()


@pytest.mark.long
def test_the_benchmark_of_students_trains_measures_and_resumes(monkeypatch, tmp_path):
    train, valid, test = (write_copies(tmp_path, name, 90, seed) for seed, name in enumerate(("a", "b", "c")))
    command = [tmp_path / "work", "--train", *train, "--valid", *valid, "--test", *test, "--name", "toy"]
    command += ["--teacher", "tiny", "--teacher-updates", 60, "--updates", 4, "--presets", "student"]
    command += ["--sentences", 10, "--rounds", 1, "--beams", 1, "--precisions", "int8"]
    main = students(monkeypatch)["main"]
    shortlist = tmp_path / "toy.shortlist"
    for number, name in enumerate(("students-toy-*[0-9].json", "students-toy-*-2.json"), 1):
        main(
            [*map(str, command), "--results", str(tmp_path)] + ["--shortlist", str(shortlist)] * (number == 2)
        )
        assert len(list(tmp_path.glob("students-toy-*.json"))) == number
        (path,) = list(tmp_path.glob(name))[:1]
        found = json.loads(path.read_text())
        kinds = ["int8"] if number == 1 else ["int8", "int8, shortlist"]
        assert [(row["model"], row["precision"]) for row in found["rows"]] == list(
            product(("teacher", "student, distilled", "student, original"), kinds)
        )
        assert [row["beside"] for row in found["comparisons"]] == [
            beside for _ in kinds for beside in ("teacher", "student, original")
        ]
        assert path.with_suffix(".md").exists()
        vocabulary = Tokenizers.load(tmp_path / "work" / "teacher" / "model").source
        pairs = [(ids, ids) for ids in vocabulary.encode(train[0].read_text().splitlines())]
        Shortlist.learn(pairs, (len(vocabulary), len(vocabulary)), 4, 9).save(shortlist)


@pytest.mark.long
def test_the_benchmark_of_inspections_measures_each_length(tmp_path):
    command = ["--preset", "tiny", "--vocabulary", 60, "--tokens", 7, 16, "--attributed", 4]
    status, _, err = benchmark(tmp_path, "inspection_costs.py", *command, "--results", tmp_path)
    assert status == 0, err
    (path,) = tmp_path.glob("inspection-costs-*.json")
    found = json.loads(path.read_text())
    assert found["command"] == shlex.join(["python", "benchmarks/inspection_costs.py", *map(str, command)])
    short, long = found["rows"]
    assert (short["tokens"], long["tokens"]) == (7, 16)
    assert short["html_mb"] < long["html_mb"]
    for row in (short, long):
        assert row["translation_seconds"] > 0
        assert row["inspection_seconds"] > 0
        assert row["memory_before_mb"] <= row["memory_mb"]
    (attribution,) = found["attributions"]
    assert all(value > 0 for value in attribution.values())
    assert tables.inspections(found).count("\n") == 4
    assert tables.attributions(found).count("\n") == 3


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_the_benchmark_beside_inseq_and_circuitsvis_compares_the_same_numbers(tmp_path):
    for name in ("inseq", "circuitsvis"):
        pytest.importorskip(name, reason=f"{name} is missing: pip install inseq circuitsvis")
    command = ["--tokens", 5, "--rounds", 1, "--pages", "tiny", "--results", tmp_path]
    status, _, err = benchmark(tmp_path, "inspection_peers.py", *command)
    assert status == 0, err
    (path,) = tmp_path.glob("inspection-peers-*.json")
    found = json.loads(path.read_text())
    (row,) = found["rows"]
    assert row["difference"] < 1e-3 * row["largest"]  # float32
    one, several, ours = found["pages"]
    assert one["online_mb"] < one["offline_mb"] < several["offline_mb"]
    assert ours["online_mb"] is None
    assert tables.beside_inseq(found).count("\n") == 3
    assert tables.beside_circuitsvis(found).count("\n") == 5


@pytest.mark.long
@pytest.mark.usefixtures("forked_dragoman")
def test_a_model_of_the_readme_is_trained_and_scored_and_resumed(tmp_path):
    data, runs = tmp_path / "data", tmp_path / "runs"
    data.mkdir()
    for name, count in (("train", 300), ("valid", 8), ("test2016", 8)):
        for path, ending in zip(write_copies(data, name, count), ("en", "de"), strict=True):
            path.rename(path.with_suffix(f".{ending}"))
    command = ["models.py", "multi30k-bpe10k", data, "--runs", runs, "--results", tmp_path, "--updates", 2]
    for words in ("Trained for 2 updates", "is finished"):
        status, _, err = benchmark(tmp_path, *command)
        assert status == 0, err
        assert words in err
    found = json.loads((tmp_path / "multi30k-bpe10k.json").read_text())
    assert found["training"]["updates"] == 2
    assert [row["scores"][0]["name"] for row in found["rows"]] == ["BLEU", "BLEU"]
    assert found["training"]["command"].endswith("--out runs/multi30k-bpe10k --updates 2")
    first, second = tables.models(found).splitlines()[2:]
    assert "| beam 5, α = 2 |" in first
    assert "0 minutes, 2 updates, " in first
    assert second.endswith("BLEU |  |  |  |")


@pytest.mark.long
def test_the_benchmark_of_minutes_measures_what_a_run_takes(tmp_path):
    files = []
    for name, count in (("train", 300), ("valid", 8), ("test", 8)):
        files += write_copies(tmp_path, name, count)
    options = ["--minutes", "0.2", "--conditions", "warm", "busy", "--results", tmp_path]
    status, out, err = benchmark(tmp_path, "minutes.py", tmp_path / "runs", *files, *options)
    assert status == 0, err
    (path,) = tmp_path.glob("minutes-*.json")
    found = json.loads(path.read_text())
    assert [(row["minutes"], row["condition"]) for row in found["runs"]] == [(0.2, "warm"), (0.2, "busy")]
    for row in found["runs"]:
        assert row["updates"] == read_run_result(tmp_path / "runs" / f"0.2-{row['condition']}").updates
        assert f"| {row['seconds']:.0f} s |" in out
    assert found["command"].startswith("python benchmarks/minutes.py FOLDER FILES --minutes 0.2")


@pytest.mark.parametrize("file_format", get_args(DocumentFormat))
def test_documents_of_all_formats_have_the_same_sentences(file_format):
    content = write_document(SENTENCES, file_format)
    document = READERS[file_format](content, Reading("file", "en", "de"))
    assert [segment.sentence for segment in document.segments] == SENTENCES


@pytest.mark.parametrize("file_format", ["html", "srt", "docx", "pptx", "odf", "epub"])
def test_bold_words_of_documents_are_read_back_as_dragoman_has_written_them(file_format):
    bold = ["Two <b>dogs</b> sleep.", "<b>A</b> man runs."]
    content = write_document(bold, file_format)
    document = READERS[file_format](content, Reading("file", "en", "de"))
    assert read_sentences(
        document.write([f"Da {segment.sentence}" for segment in document.segments]), file_format
    ) == [f"Da {sentence}" for sentence in bold]

"""`dragoman evaluate` on several test sets, and `dragoman aer` of what `dragoman align` writes."""

import hashlib
import json
import re

import pytest

from dragoman import Translator
from tests.test_contract import LINES, save_random_model

SETS = {"one": slice(0, 12), "two": slice(12, 36)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run and two test sets, whose references are like its translations."""
    folder = tmp_path_factory.mktemp("sets")
    save_random_model(folder, "word")
    outputs = Translator.load(folder).translate(LINES, max_extra_tokens=4)
    for name, part in SETS.items():
        references = [line.replace("a", "man") for line in outputs[part]]
        (folder / f"{name}.source").write_text("".join(f"{line}\n" for line in LINES[part]))
        (folder / f"{name}.target").write_text("".join(f"{line}\n" for line in references))
        (folder / f"{name}.other").write_text("".join(f"{line} kalt\n" for line in references))
    return folder


def files(folder, option, ending, names=SETS):
    return [option, *(folder / f"{name}.{ending}" for name in names)]


def of_sets(folder, *names):
    return [
        "evaluate",
        folder,
        *files(folder, "--source", "source", names),
        *files(folder, "--target", "target", names),
        *files(folder, "--hypotheses", "output", names),
        *files(folder, "--baseline", "other", names),
        *["--max-extra-tokens", 4],
    ]


@pytest.mark.long
def test_the_table_of_several_sets_has_what_each_has_alone(command_line, folder):
    alone = {}
    for name in SETS:
        status, out, _ = command_line(*of_sets(folder, name))
        assert status == 0
        alone[name] = out, (folder / f"{name}.output").read_bytes()
    status, out, _ = command_line(*of_sets(folder, *SETS))
    assert status == 0
    header, *rows = (line.split() for line in out.split("\n\n")[0].splitlines())
    assert header == ["test", "set", "lines", "BLEU", "chrF2", "chrF2++", "TER"]
    for (name, (printed, written)), (own, baseline, p) in zip(
        alone.items(), (rows[:3], rows[3:]), strict=True
    ):
        assert own[:2] == [f"{name}.target", str(len(LINES[SETS[name]]))]
        assert own[2:] == re.findall(r"^\S+ = ([\d.]+)(?!.*baseline)", printed, re.MULTILINE)
        assert baseline == ["baseline", *re.findall(r"baseline ([\d.]+)", printed)]
        assert p == ["p", *re.findall(r"\(p = ([\d.]+)\)", printed)]
        assert (folder / f"{name}.output").read_bytes() == written
        for signature in re.findall(r"\[(nrefs:1\|bs.*)\]", printed):
            assert signature in out


def test_sets_are_named_by_their_folders_if_their_files_have_one_name(command_line, folder):
    command = ["evaluate", folder, *files(folder, "-s", "source", ["one"] * 2)]
    status, out, _ = command_line(*command, *files(folder, "-t", "target", ["one"] * 2))
    assert status == 0
    assert out.count(str(folder / "one.target")) == 2
    three = ["one", "two", "one"]
    command = [
        "evaluate",
        folder,
        *files(folder, "-s", "source", three),
        *files(folder, "-t", "target", three),
    ]
    _, out, _ = command_line(*command)
    named = [line.split()[0] for line in out.split("\n\n")[0].splitlines()[1:]]
    assert named == [str(folder / f"{name}.target") for name in three]


TWO = ["-s", "one.source", "two.source", "-t", "one.target", "two.target"]


@pytest.mark.long
def test_json_has_the_scores_that_are_printed_and_where_they_come_from(command_line, folder):
    status, table, _ = command_line(*of_sets(folder, *SETS))
    assert status == 0
    status, out, _ = command_line(*of_sets(folder, *SETS), "--json")
    assert status == 0
    found = json.loads(out)
    shown = [line.split() for line in table.split("\n\n")[0].splitlines()[1:]]
    for test, (own, baseline, p) in zip(found["test_sets"], (shown[:3], shown[3:]), strict=True):
        assert own[:2] == [test["name"], str(test["lines"])]
        assert own[2:] == [f"{score['value']:.2f}" for score in test["scores"]]
        assert baseline[1:] == [f"{each['baseline']['value']:.2f}" for each in test["comparisons"]]
        assert p[1:] == [f"{each['p_value']:.4f}" for each in test["comparisons"]]
        compared = [each["score"] for each in test["comparisons"]]
        assert {f"{each['name']} [{each['signature']}]" for each in compared} <= {*table.splitlines()}
    assert found["passport"]["data"] == {
        str(folder / f"{name}.{side}"): hashlib.sha256((folder / f"{name}.{side}").read_bytes()).hexdigest()
        for name in SETS
        for side in ("source", "target", "other")
    }
    manifest = (folder / "model" / "manifest.json").read_bytes()
    assert found["models"] == {str(folder): hashlib.sha256(manifest).hexdigest()}
    assert found["settings"]["search"]["max_extra_tokens"] == 4
    assert found["settings"]["run"] == str(folder)


def test_json_of_one_set_without_a_baseline_is_json_alone(command_line, folder):
    files = ["--source", folder / "one.source", "--target", folder / "one.target"]
    status, out, _ = command_line("evaluate", folder, *files, "--json")
    assert status == 0
    (test,) = json.loads(out)["test_sets"]
    assert test.keys() == {"name", "lines", "scores"}
    more = ("--json", "--hypotheses", "/dev/full", "--baseline", folder / "one.other")
    status, out, err = command_line("evaluate", folder, *files, *more)
    assert (status != 0, "No space left" in err) == (True, True)
    lost = json.loads(out)
    assert lost["test_sets"][0]["scores"] == test["scores"], "a full disk loses no score"
    assert str(folder / "one.other") in lost["passport"]["data"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*TWO[:2], *TWO[3:]], "--source and --target name 1 and 2 files; a test set has one of each."),
        (["-s", "corpus.tmx", "-t", "one.target"], "corpus.tmx has both sides of a corpus, and text of"),
        (TWO[3:], "The following arguments are required: -s/--source"),
        (
            [*TWO, "--hypotheses", "x"],
            "--hypotheses names 1 different files for 2 test sets; give one for each.",
        ),
        ([*TWO, "--hypotheses", "x", "./x"], "--hypotheses names 1 different files for 2 test sets"),
        ([*TWO, "--hypotheses", "x", "model/../x"], "--hypotheses names 1 different files for 2 test sets"),
        ([*TWO, "--hypotheses", "x", "model/x"], "model/x is in a folder whose files manifest.json lists"),
        (
            [*TWO, "--baseline", "one.other"],
            "--baseline names 1 files for 2 test sets; give a run, or a file for each.",
        ),
        ([*TWO, "--hypotheses", "x", "two.source"], "two.source is what this command reads"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(command_line, monkeypatch, folder, options, message):
    monkeypatch.chdir(folder)
    status, out, err = command_line("evaluate", folder, *options)
    assert (status, out) == (2, "")
    assert message in err


def test_blank_references_are_told_and_a_file_of_them_is_refused(command_line, folder, tmp_path):
    given = ["evaluate", folder, "--source", tmp_path / "source", "--target", tmp_path / "target"]
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in LINES[:2]))
    (tmp_path / "target").write_text("a\n\n")
    status, _, err = command_line(*given)
    assert (status, f"{tmp_path / 'target'} has 1 blank line; a translation of one counts as an" in err) == (
        0,
        True,
    )
    (tmp_path / "target").write_text("\n \n")
    status, _, err = command_line(*given)
    assert (status, f"All lines of {tmp_path / 'target'} are blank; give a file with" in err) == (2, True)


def test_a_bad_seed_is_refused_before_anything_is_translated(command_line, monkeypatch, folder):
    monkeypatch.setenv("SACREBLEU_SEED", "abc")
    written = folder / "one.output"
    written.unlink(missing_ok=True)
    status, out, err = command_line(*of_sets(folder, "one"))
    assert (status, out, written.exists()) == (2, "", False)
    assert "SACREBLEU_SEED is 'abc'; it has to be a number" in err


def test_the_links_that_align_writes_are_read_again(command_line, folder):
    pair = [*files(folder, "-s", "source", ["two"]), *files(folder, "-t", "target", ["two"])]
    status, links, _ = command_line("align", folder, *pair)
    assert status == 0
    (folder / "links").write_text(links)
    (folder / "gold").write_text(re.sub(r"-(\d+)\b(?= )", r"?\1", links))  # the last of each line is sure
    for gold in ("links", "gold"):
        status, out, _ = command_line("aer", folder / "links", folder / gold)
        assert (status, out.split("  [")[0]) == (0, "AER = 0.00 (precision = 100.00, recall = 100.00)")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Another run, and references in capitals of the words of a run."""
    other, texts = tmp_path_factory.mktemp("other"), tmp_path_factory.mktemp("capitals")
    save_random_model(other, "word", seed=1)
    return other, texts


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "options",
    [
        ["--lowercase"],
        ["--tokenize", "char"],
        ["--beam-size", 1],
        ["--max-length", 2],
        ["--temperature", 1],
        ["--precision", "int8"],
    ],
    ids=lambda options: options[0],
)
def test_a_run_beside_itself_has_the_same_scores_whatever_the_options(command_line, folder, others, options):
    capitals = others[1] / "target"
    capitals.write_text((folder / "two.target").read_text().upper())
    given = ["-s", folder / "two.source", "-t", capitals, "--max-extra-tokens", 4, "--json", *options]
    status, out, err = command_line("evaluate", folder, *given, "--baseline", folder)
    assert status == 0, err
    (test,) = json.loads(out)["test_sets"]
    alone = {score["name"]: score["value"] for score in test["scores"]}
    assert {each["score"]["name"] for each in test["comparisons"]} == alone.keys()
    for each in test["comparisons"]:
        values = each["score"]["value"], each["baseline"]["value"]
        assert values == pytest.approx([alone[each["score"]["name"]]] * 2, abs=1e-9), each["score"]["name"]


@pytest.mark.long
def test_json_names_every_model_that_took_part(command_line, folder, others):
    third = others[1] / "third"
    third.symlink_to(folder)
    runs = [folder, others[0], third]
    given = ["-s", folder / "one.source", "-t", folder / "one.target", "--max-extra-tokens", 4, "--json"]
    more = ["--ensemble", others[0], "--baseline", third]
    status, out, err = command_line("evaluate", folder, *given, *more)
    assert status == 0, err
    hashes = {
        str(run): hashlib.sha256((run / "model" / "manifest.json").read_bytes()).hexdigest() for run in runs
    }
    assert (json.loads(out)["models"], json.loads(out)["training"]) == (hashes, {run: [] for run in hashes})

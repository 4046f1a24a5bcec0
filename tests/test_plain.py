"""Translating without PyTorch: the same as with it."""

import subprocess
import sys
from dataclasses import replace

import pytest

from dragoman.cli.console import has_gpu, may_have_gpu
from dragoman.cli.translating import loaded
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.search.settings import EngineSettings, SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Stored, Tokenizers
from dragoman.translation.plain import PlainTranslator, is_plain
from dragoman.translation.stored import load_model, save_model
from dragoman.translation.translator import Translator
from tests.conftest import MOST_SECONDS
from tests.test_translator import LINES, folder  # noqa: F401

ASKED = {
    "beam 4": SearchSettings(),
    "greedy": SearchSettings(beam_size=1),
    "n best": SearchSettings(n_best=3, length_power=0.8, max_extra_tokens=3),
    "rules": SearchSettings(prefix="two", ban=("dogs",), min_length=3, no_repeat_ngram=2, max_length=9),
    "cut off": SearchSettings(truncate=3),
    "in parts": SearchSettings(split=3),
}
MORE = [
    {"temperature": 1.0},
    {"force": ("dogs",)},
    {"groups": 2},
    {"coverage_penalty": 0.2},
    {"keep_tags": True},
    {"replace_unknown": True},
]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("asked", ASKED)
def test_it_translates_to_the_last_bit_as_with_pytorch(folder, asked, precision):  # noqa: F811
    engine = EngineSettings(precision, workers=2)
    plain = PlainTranslator.load(folder, engine)
    lines = [*LINES, "", "   ", "an unusually long sentence " * 9]
    whole = Translator.load(folder, "cpu", engine)
    assert plain.n_best(lines, ASKED[asked]) == whole.n_best(lines, ASKED[asked])
    assert plain.unusually_long(lines) == whole.unusually_long(lines)


def test_a_shortlist_is_taken(folder, tmp_path):  # noqa: F811
    vocabulary = len(load_model(folder)[1].target)
    Shortlist.learn([([5, 6], [7, 8])], (vocabulary, vocabulary), 3, 9).save(tmp_path / "list")
    engine = EngineSettings(shortlist=tmp_path / "list")
    found = PlainTranslator.load(folder, engine).translate(LINES)
    assert (
        found == Translator.load(folder, "cpu", engine).translate(LINES) != PlainTranslator.load(folder, EngineSettings()).translate(LINES)
    )


@pytest.mark.parametrize("more", MORE)
def test_what_needs_pytorch_is_known(more):
    asked = replace(SearchSettings(), **more)
    assert not is_plain(asked, EngineSettings())
    assert is_plain(SearchSettings(), EngineSettings())
    for engine in (EngineSettings("bfloat16"), EngineSettings(native=False), EngineSettings(graphs=True)):
        assert not is_plain(SearchSettings(), engine)


def test_what_is_no_transformer_is_left_to_pytorch(folder, tmp_path):  # noqa: F811
    tokenizers, settings = load_model(folder)[1], ModelSettings(architecture="gru", d_model=10, encoder_layers=1, decoder_layers=1)
    sizes = len(tokenizers.source), len(tokenizers.target)
    save_model(tmp_path / "model", build_model(settings, *sizes), settings, tokenizers)
    assert PlainTranslator.load(tmp_path, EngineSettings()) is None
    assert isinstance(loaded([tmp_path], SearchSettings(), EngineSettings()), Translator)


def test_a_vocabulary_that_does_not_fit_is_told(folder, tmp_path):  # noqa: F811
    stored, words = Stored.load(folder), Tokenizer.train(["amber birch cedar"] * 3, "word", TokenizerSettings(), 20)
    replace(stored, tokenizers=Tokenizers(words, words)).save(tmp_path / "model")
    with pytest.raises(DragomanError, match=r"target_embedding\.weight has the shape"):
        loaded([tmp_path], SearchSettings(), EngineSettings())


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(DragomanError, match="holds no model"):
        PlainTranslator.load(tmp_path, EngineSettings())


@pytest.mark.skipif(may_have_gpu(), reason="where there may be a GPU PyTorch has to look for it")
@pytest.mark.parametrize(
    ("more", "imported"), [((), False), (("--precision", "int8", "--json", "--n-best", "2"), False), (("--temperature", "1"), True)]
)
def test_the_command_line_imports_pytorch_only_where_it_is_needed(folder, more, imported):  # noqa: F811
    line = f"import sys; sys.argv = {['dragoman', 'translate', str(folder), *more]}; from dragoman.cli import main as cli; cli.main()"
    code = f"from dragoman.native.build import library; from dragoman.native.build import DECODER; library(DECODER); {line}"
    command = [sys.executable, "-c", f"{code}; sys.stderr.write(str('torch' in sys.modules))"]
    done = subprocess.run(command, input="two dogs\n", capture_output=True, text=True, timeout=MOST_SECONDS, check=True)
    assert done.stderr.endswith(str(imported))
    assert len(done.stdout.splitlines()) == 1


def test_who_has_a_gpu_may_have_one():
    assert may_have_gpu() or not has_gpu()

"""The C++ and the PyTorch backend translate alike; PyTorch is imported only if it is needed."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.native.build import load_library, start_compiling
from dragoman.search.shortlist import Shortlist
from dragoman.system import errors
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import StoredModel, Tokenizers, save_model
from dragoman.translation.native_backend import NativeBackend, parts
from dragoman.translation.torch_backend import TorchBackend
from tests.conftest import MAX_SECONDS
from tests.test_translator import LINES, folder  # noqa: F401

ASKED = {
    "beam 4": SearchSettings(),
    "greedy": SearchSettings(beam_size=1),
    "n best": SearchSettings(n_best=3, length_power=0.8, max_extra_tokens=3),
    "rules": SearchSettings(prefix="two", ban_words=("dogs",), min_length=3, no_repeat_ngram=2, max_length=9),
    "truncated": SearchSettings(truncate=3),
    "split": SearchSettings(split=3),
    "forced words": SearchSettings(force_words=("dogs",), n_best=2),
}
NEEDS_PYTORCH = [{"temperature": 1.0}, {"groups": 2}, {"coverage_penalty": 0.2}]


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "asked",
    [pytest.param(name, marks=pytest.mark.long) if name == "forced words" else name for name in ASKED],
)
def test_both_backends_translate_alike(folder, asked):  # noqa: F811
    lines = [*LINES, "", "   ", "an unusually long sentence " * 3]
    by_cpp, by_pytorch = (Translator.load(folder, device="cpu", native=native) for native in (True, False))
    one, other = by_cpp.n_best(lines, ASKED[asked]), by_pytorch.n_best(lines, ASKED[asked])
    assert isinstance(by_cpp.backend(ASKED[asked], 99), NativeBackend)
    assert isinstance(by_pytorch.backend(ASKED[asked], 99), TorchBackend)
    assert [[best.text for best in found] for found in one] == [
        [best.text for best in found] for found in other
    ]
    for best, same in zip(one, other, strict=True):
        assert [each.score for each in best] == pytest.approx(
            [each.score for each in same], rel=1e-6, abs=1e-4
        )


@pytest.mark.parametrize("more", NEEDS_PYTORCH)
def test_other_searches_are_by_pytorch(folder, more):  # noqa: F811
    translator = Translator.load(folder, device="cpu")
    assert isinstance(translator.backend(replace(SearchSettings(), **more), 99), TorchBackend)


def test_a_shortlist_is_used_by_cpp_alone(folder, tmp_path):  # noqa: F811
    vocabulary = len(StoredModel.load(folder).tokenizers.target)
    Shortlist.learn([([5, 6], [7, 8])], (vocabulary, vocabulary), 3, 9).save(tmp_path / "list")
    with_list = Translator.load(folder, device="cpu", shortlist=tmp_path / "list")
    assert with_list.translate(LINES) != Translator.load(folder, device="cpu").translate(LINES)
    refused = [
        lambda: with_list.translate(LINES, temperature=1.0),
        lambda: with_list.trace("a man"),
        lambda: list(with_list.stream("a man")),
        lambda: with_list.alternatives("a man", 2),
        lambda: Translator.load(folder, folder, device="cpu", shortlist=tmp_path / "list"),
    ]
    for work in refused:
        with pytest.raises(
            DragomanError, match=r"A shortlist is for greedy and beam search in C\+\+, without temperature, "
        ):
            work()


@pytest.mark.parametrize("architecture", ["gru", "conv", "lstm-enriched"])
def test_other_architectures_are_by_pytorch(folder, tmp_path, architecture):  # noqa: F811
    tokenizers = StoredModel.load(folder).tokenizers
    settings = ModelSettings(architecture, d_model=10, heads=2, encoder_layers=1, decoder_layers=1)
    save_model(
        tmp_path / "model",
        build_model(settings, *map(len, (tokenizers.source, tokenizers.target))),
        settings,
        tokenizers,
    )
    translator = Translator.load(tmp_path, device="cpu")
    assert translator.native_backend is None
    assert len(translator.translate(LINES, max_extra_tokens=2)) == len(LINES)


def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(folder, tmp_path):  # noqa: F811
    stored, words = (
        StoredModel.load(folder),
        Tokenizer.train(["amber birch cedar"] * 3, "word", TokenizerSettings(), 20),
    )
    replace(stored, tokenizers=Tokenizers(words, words)).save(tmp_path / "model")
    with pytest.raises(DragomanError, match=r"target_embedding\.weight"):
        Translator.load(tmp_path)


@pytest.fixture
def nothing_compiled(tmp_path, monkeypatch):
    """As in a new process with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for kept in (start_compiling, load_library):
        kept.cache_clear()
    yield
    for kept in (start_compiling, load_library):
        kept.cache_clear()


@pytest.mark.short_form(1)
@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("variable", ["CXX", "DRAGOMAN_CXXFLAGS"])
def test_a_compiler_that_cannot_be_named_leaves_pytorch(folder, variable, monkeypatch):  # noqa: F811
    monkeypatch.setenv(variable, '"')
    with pytest.warns(
        match=f"takes more than ten times as long. {variable} is '\"', which cannot be split into words"
    ) as warned:
        translated = Translator.load(folder, device="cpu").translate(["two dogs"])
    assert warned[0].filename == __file__
    assert translated == Translator.load(folder, device="cpu", native=False).translate(["two dogs"])


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork, and C++ that has threads")
def test_a_process_that_was_forked_from_one_with_a_model_is_told_to_load_it(folder):  # noqa: F811
    code = (
        "import os; from dragoman import Translator\n"
        f"translator = Translator.load({str(folder)!r}, device='cpu')\n"
        "translator.translate(['two dogs'])\n"
        "child = os.fork()\n"
        "if child: os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "translator.translate(['two dogs'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "DragomanError: This process was forked from one that had loaded the model, and its search" in last
    assert last.endswith("load the model in each process.")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"workers": 10_001}, "workers is 10001; it must be at most 10000."),
        ({"device": "foo"}, "The device is 'foo'; it has to be cpu, cuda, cuda:N or mps."),
        ({"device": "cuda:x"}, "The device is 'cuda:x'; it has to be cpu, cuda, cuda:N or mps."),
    ],
)
def test_devices_and_numbers_of_threads_that_no_machine_has_are_refused(folder, asked, message):  # noqa: F811
    with pytest.raises(DragomanError, match=f"^{re.escape(message)}$"):
        Translator.load(folder, **asked)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is a GPU of Apple")
def test_the_gpu_of_a_mac_is_refused_where_there_is_none(folder):  # noqa: F811
    with pytest.raises(DragomanError, match=r"^mps was asked for, and PyTorch finds no GPU of Apple here;"):
        Translator.load(folder, device="mps")


def test_int8_is_translated_on_the_cpu_of_a_machine_with_a_gpu(folder, monkeypatch):  # noqa: F811
    monkeypatch.setattr("dragoman.system.device.has_gpu", lambda: True)
    found = Translator.load(folder, precision="int8", native=False)
    assert found.torch_backend.device.type == "cpu"
    if not has_gpu():
        with pytest.raises(DragomanError, match="^cuda was asked for, and PyTorch can use 0 GPUs"):
            Translator.load(folder)


@pytest.mark.long
@pytest.mark.skipif(has_gpu(), reason="with a GPU PyTorch translates")
def test_the_command_line_imports_pytorch_only_if_it_is_needed(folder):  # noqa: F811
    code = f"""
import io, sys
from dragoman import Translator
from dragoman.cli import main
Translator.load({str(folder)!r}).native_backend
for more in ([], ["--precision", "int8", "--json", "--n-best", "2"], ["--temperature", "1"]):
    sys.argv = ["dragoman", "translate", {str(folder)!r}, *more]
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"two dogs"))
    main.main()
    print("torch" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=True)
    assert done.stdout.splitlines()[1::2] == ["False", "False", "True"]


def test_without_pytorch_texts_are_translated_and_other_verbs_and_routes_name_the_extra(
    folder,  # noqa: F811
    tmp_path,
):
    (tmp_path / "text").write_text("two dogs\n" * 99)
    code = f"""
import io, sys
from pathlib import Path
sys.modules["torch"] = None  # as if it were not installed
from starlette.testclient import TestClient
from dragoman.cli import main
from dragoman.native.settings import EngineSettings
from dragoman.serving.app import load_app
from dragoman.serving.settings import ServerSettings
run, text = {str(folder)!r}, {str(tmp_path / "text")!r}
for words in (
    ["translate", run],
    ["align", run, "--source", text, "--target", text],
    ["train", text, text, "--out", {str(tmp_path / "run")!r}],
    ["translate", run, "--temperature", "1"],
):
    sys.argv, sys.stdin = ["dragoman", *words], io.TextIOWrapper(io.BytesIO(b"two dogs"))
    try:
        main.main()
    except SystemExit as end:
        print(end.code)
client = TestClient(load_app([Path(run)], EngineSettings(), ServerSettings()), base_url="http://localhost")
for route in ("translate", "inspect"):
    answer = client.post("/v1/" + route, json={{"text": "two dogs"}})
    print(answer.status_code, answer.json())
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=True)
    translation, *statuses, translated, inspected = done.stdout.splitlines()
    expected = Translator.load(folder).translate("two dogs")
    assert (translation, statuses) == (expected, ["2", "2", "2"]), done.stderr
    assert translated.startswith("200 ")
    assert repr(expected) in translated
    assert inspected.startswith("500 ")
    assert errors.NEEDS_PYTORCH in inspected
    assert done.stderr.count(f"dragoman: {errors.NEEDS_PYTORCH}") == 3


def test_a_search_in_parts_is_the_search(folder, monkeypatch):  # noqa: F811
    by_cpp = Translator.load(folder, device="cpu")
    asked = SearchSettings(beam_size=3, n_best=2, max_extra_tokens=3)
    whole = by_cpp.n_best([*LINES, ""] * 3, asked)
    assert [*parts([[5, 2]] * 5, asked, 0)] == [[[5, 2]] * 5]
    monkeypatch.setattr("dragoman.translation.native_backend.MAX_OUTPUT", 30)
    assert [*parts([[5, 2]] * 5, asked, 0)] == [[[5, 2]] * 2, [[5, 2]] * 2, [[5, 2]]]
    assert [*parts([[5] * 99, [2]], asked, 0)] == [[[5] * 99], [[2]]]
    assert by_cpp.n_best([*LINES, ""] * 3, asked) == whole


def test_a_gpu_is_looked_for_where_the_system_has_a_device_of_any_maker(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for number, name in enumerate(("nvidia0", "nvidiactl", "dxg", "kfd")):
        root = tmp_path / str(number)
        (root / "dev").mkdir(parents=True)
        assert not has_gpu(root)
        (root / "dev" / name).touch()
        assert has_gpu(root)

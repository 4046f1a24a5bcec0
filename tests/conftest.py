"""Small models and small texts that the tests share."""

import gc
import io
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from dragoman.cli import main as cli
from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.native.packed_linear import can_pack
from dragoman.pipeline import autoconfigure
from dragoman.pipeline.recipe import Recipe
from dragoman.system.messages import messages_to
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings

if "EMULATED" in os.environ:
    import tests.emulated  # noqa: F401  it replaces `load_library`

LENIENT = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("untimed", deadline=None, max_examples=30, suppress_health_check=LENIENT)
settings.load_profile("untimed")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton's interpreter, which it chooses when it is imported
torch.set_num_threads(1)  # the models are tiny, and pytest runs a process on each core
MEASURED = {name: getattr(autoconfigure, name) for name in ("TIMED_UPDATES", "MAX_REPEATED")}
"""How a run measures its speed: with 17 updates, nearly as many as most trainings of the tests have."""
autoconfigure.TIMED_UPDATES, autoconfigure.MAX_REPEATED = 1, 0.0
os.fsync = lambda descriptor: None  # no test loses power; a run waits for the disk at every file


LONG_FILES = {
    "test_distributed",
    "test_operations",
    "test_safety",
    "test_search",
    "test_search_tree",
    "test_serving",
    "test_trace",
    "test_train",
    "test_translator",
}
"""Files that take longest, and long ones late in the alphabet."""

CHECKED_FILES = {
    "test_attention",
    "test_batches",
    "test_cancellation",
    "test_constraints",
    "test_convolutional",
    "test_enriched",
    "test_ensemble",
    "test_laws",
    "test_loss",
    "test_marian_model",
    "test_neurons",
    "test_positions",
    "test_recurrent",
    "test_sampling",
    "test_scoring",
    "test_search",
    "test_search_tree",
    "test_shortlist",
    "test_top_k",
    "test_trace",
    "test_transformer",
    "test_updates",
    "test_value_zeroing",
    "test_variants",
}
"""Files whose tests check the shapes of every call: those of `model`, `search` and `text/batches.py`."""
SEARCHING_FILES = {
    "test_cancellation",
    "test_constraints",
    "test_ensemble",
    "test_sampling",
    "test_search",
    "test_search_tree",
    "test_trace",
}
"""Of these the files in which the first case of each test alone does: the others call the same searches."""


def call(monkeypatch, capsysbinary, *arguments, stdin=b""):
    """Exit status, standard output and standard error of `dragoman ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    status = 0
    try:
        cli.main()
    except SystemExit as ended:
        status = ended.code or 0
    out, err = capsysbinary.readouterr()
    return status, out.decode(), err.decode()


@pytest.fixture
def messages():
    """What the library says in the test, a sentence each."""
    said = []
    with messages_to(said.append):
        yield said


@pytest.fixture
def command_line(monkeypatch, capsysbinary):
    """Runs `dragoman ARGUMENTS`: its exit status, standard output and standard error."""

    def run(*arguments, stdin=b""):
        return call(monkeypatch, capsysbinary, *arguments, stdin=stdin)

    return run


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as long what is beyond the short form of a test.

    That is all cases but the first ones, as many as its mark has, and the tests with Chromium that have no
    such mark. A long test has ten times as long until pytest-timeout ends it. Begin with the long files: a
    worker that runs one when all else is done has the machine for itself.
    """
    cases: Counter[tuple[Path, str]] = Counter()
    for item in items:
        is_long = item.get_closest_marker("long") is not None
        name = item.path, getattr(item, "originalname", item.name)
        cases[name] += not is_long
        if short_form := item.get_closest_marker("short_form"):
            is_long = is_long or cases[name] > (short_form.args or (math.inf,))[0]
        else:
            is_long = is_long or "browser" in getattr(item, "fixturenames", ())
        if is_long:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(10 * float(item.config.getini("timeout"))))
    items.sort(key=lambda item: item.path.stem not in LONG_FILES)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, and only at that. `tests/__init__.py` stopped it."""
    gc.freeze()
    gc.enable()


MAX_SECONDS = 600  # then a process hangs: no machine is so slow
NEEDS_BFLOAT16 = pytest.mark.skipif(
    not can_pack("bfloat16"), reason="PyTorch has no matrix products in bfloat16 for this processor"
)
ALL_PRECISIONS = ["float32", pytest.param("bfloat16", marks=NEEDS_BFLOAT16), "int8"]

TINY = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=2, decoder_layers=2)
MODELS = {
    "transformer": TINY,
    "transformer, other options": ModelSettings(
        d_model=12,
        d_ff=20,
        decoder_d_ff=13,
        heads=3,
        d_k=5,
        d_v=7,
        encoder_layers=1,
        decoder_layers=3,
        positions="learned",
        norm="pre",
        activation="swish",
        attention_bias=True,
        output_bias=True,
        tied="none",
        attention_dropout=0.1,
    ),
    "lstm": ModelSettings(architecture="lstm", d_model=10, encoder_layers=2, decoder_layers=2),
    "gru": ModelSettings(architecture="gru", d_model=10, encoder_layers=1, decoder_layers=1, tied="target"),
    "conv": ModelSettings(
        architecture="conv", d_model=10, encoder_layers=2, decoder_layers=2, positions="learned", dropout=0.2
    ),
}
VARIANTS = {
    "additive": replace(TINY, attention_score="additive", norm="batch", concatenate_positions=True),
    "general": replace(TINY, attention_score="general", norm="none", positions="none"),
    "dot": replace(TINY, attention_score="dot", residual=False),
    "restricted": replace(TINY, neighbourhood=2, heads=1),
    "lstm, dot, fed": ModelSettings(
        "lstm", d_model=8, encoder_layers=1, decoder_layers=2, attention_score="dot", input_feeding=True
    ),
    "gru, general": ModelSettings(
        "gru", d_model=8, encoder_layers=1, decoder_layers=1, attention_score="general"
    ),
    "lstm, enriched": replace(TINY, architecture="lstm-enriched", positions="none", norm="pre", d_k=5),
    "gru, enriched": replace(
        TINY, architecture="gru-enriched", norm="batch", residual=False, attention_score="additive"
    ),
    "conv, enriched": replace(
        TINY,
        architecture="conv-enriched",
        decoder_d_ff=5,
        positions="learned",
        kernel_width=4,
        dilated=True,
        tied="none",
    ),
    "conv, dilated": ModelSettings(
        architecture="conv",
        d_model=8,
        encoder_layers=3,
        decoder_layers=3,
        kernel_width=4,
        dilated=True,
        tied="none",
    ),
}
"""Models for the laws that every model keeps; tests of search and of all else have those above."""
SSRU = replace(TINY, decoder_mixer="ssru", norm="pre", output_bias=True)
"""A variant that no inspection shows."""
KINDS = [pytest.param(name, marks=pytest.mark.long if name == "gru" else ()) for name in MODELS]
"""For tests of search and attribution. A GRU differs from an LSTM in its cell alone; the laws hold for it."""
VOCABULARY = 11


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Model:
    """A random model of each kind, in float64 and evaluation mode, with weights large enough to make its
    choices differ.
    """
    return random_model(MODELS[request.param])


def random_model(settings: ModelSettings) -> Model:
    """As `model`."""
    torch.manual_seed(7)
    built = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    with torch.no_grad():
        for weight in built.parameters():
            weight.mul_(2)
    return built


@pytest.fixture
def sources() -> torch.Tensor:
    """Three padded sources of different lengths, each ending with END."""
    torch.manual_seed(3)
    rows = torch.randint(4, VOCABULARY, (3, 7))
    for row, length in enumerate((6, 3, 5)):
        rows[row, length] = END
        rows[row, length + 1 :] = PAD
    return rows


@pytest.fixture
def targets() -> torch.Tensor:
    """Target ids for the sources."""
    torch.manual_seed(4)
    return torch.randint(4, VOCABULARY, (3, 6))


@contextmanager
def no_shape_checks() -> Iterator[None]:
    """For long searches and whole programs, which take twice as long where the shapes of every call are
    checked; other tests do that.
    """
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module", autouse=True)
def shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the shapes of calls in the tests of `model`, `search` and `text/batches.py`, which have shapes.

    Other tests call the same functions and would take twice as long.
    """
    with nullcontext() if request.path.stem in CHECKED_FILES else no_shape_checks():
        yield


@pytest.fixture(autouse=True)
def shape_checks_of_the_first_case(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the shapes of a search once in each test, and not again for each model and setting."""
    case = getattr(request.node, "callspec", None)
    is_first = case is None or not any(case.indices.values())
    with nullcontext() if is_first or request.path.stem not in SEARCHING_FILES else no_shape_checks():
        yield


def write_copies(folder: Path, name: str, lines: int, seed: int = 0) -> tuple[Path, Path]:
    """Words of a small vocabulary, and the same in capitals: a task that is learnt in seconds."""
    generator = torch.Generator().manual_seed(seed)
    words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
    source, target = folder / f"{name}.source", folder / f"{name}.target"
    with source.open("w") as one, target.open("w") as other:
        for _ in range(lines):
            count = int(torch.randint(2, 7, (1,), generator=generator))
            chosen = [
                words[int(number)] for number in torch.randint(0, len(words), (count,), generator=generator)
            ]
            one.write(" ".join(chosen) + "\n")
            other.write(" ".join(chosen).upper() + "\n")
    return source, target


def small_recipe(folder: Path, out: Path, **training: object) -> Recipe:
    """A tiny model on the folder's train.source and train.target, which are written if missing.

    `training` replaces settings of the training.
    """
    source, target = folder / "train.source", folder / "train.target"
    if not source.exists():
        write_copies(folder, "train", 200)
    defaults = TrainingSettings(
        updates=24,
        warmup_steps=10,
        validate_every=8,
        checkpoint_every=4,
        average=3,
        log_every=3,
        precision="float32",
    )
    return Recipe(
        out=out,
        data=DataSettings(source=source, target=target),
        tokenizer=TokenizerSettings(source_tokens="word", vocabulary=50),
        model=ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1),
        batches=BatchSettings(source_tokens_per_batch=100, target_tokens_per_batch=100, accumulate=2),
        training=replace(defaults, **training),
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has learnt to write words in capitals, and its train and test files.

    Read only: all processes of pytest share it.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "trained"
    with FileLock(shared / "trained.lock"):
        if not (folder / "run" / "result.json").exists():
            folder.mkdir()
            train_to_write_capitals(folder)
    return folder


def train_to_write_capitals(folder: Path) -> None:
    """Write the run and the files of `trained`; scored.source and scored.target are the run's test data."""
    from dragoman.pipeline.run import run

    write_copies(folder, "test", 5, seed=2)
    test_source, test_target = write_copies(folder, "scored", 50, seed=1)
    recipe = small_recipe(
        folder,
        folder / "run",
        updates=240,
        warmup_steps=60,
        learning_rate_scale=0.5,
        validate_every=120,
        checkpoint_every=120,
        average=1,
    )
    recipe = replace(
        recipe,
        data=replace(recipe.data, test_source=test_source, test_target=test_target),
        model=replace(recipe.model, d_model=32, d_ff=64, dropout=0.0),
        batches=BatchSettings(source_tokens_per_batch=400, target_tokens_per_batch=400),
    )
    run(recipe)

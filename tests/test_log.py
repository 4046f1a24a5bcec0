"""log.jsonl, and the same for TensorBoard."""

import io
import json
import math
import sys
from itertools import accumulate
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from dragoman.model.settings import ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.run import run
from dragoman.system.errors import DragomanError
from dragoman.system.terminal import shows_bars
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training import log as log_module
from dragoman.training.curves import CURVES
from dragoman.training.log import MAX_STEP, Log, progress_bar, read_events, seconds_left
from dragoman.training.settings import SCORES, TrainingSettings
from dragoman.training.tensorboard import refuse_missing_tensorboard, scalars
from tests.conftest import write_copies

LINE = {
    "loss": 2.0,
    "gradient_norms": {"encoder.0": 1.25},
    "samples": [{"source": "amber", "translation": "AMBER"}],
}


def read(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_line_is_an_event_at_a_step(tmp_path):
    log = Log(tmp_path, 0, tensorboard=False)
    log.write("train", 1, LINE)
    log.write("validation", 1, {"loss": 1 / 3})
    assert read(tmp_path) == [
        {"event": "train", "step": 1, **LINE},
        {"event": "validation", "step": 1, "loss": 0.3333333},
    ]


def test_numbers_have_seven_digits_however_small_they_are(tmp_path):
    log = Log(tmp_path, 0, tensorboard=False)
    log.write("train", 1, {"learning_rate": 1.23456789e-7, "loss": 12.3456789, "parts": {"a": 0.1}})
    (line,) = read(tmp_path)
    assert (line["learning_rate"], line["loss"], line["parts"]) == (1.234568e-7, 12.34568, {"a": 0.1})


def test_a_resumed_log_continues_after_the_checkpoint(tmp_path):
    log = Log(tmp_path, 0, tensorboard=False)
    for step in (1, 2, 3):
        log.write("train", step, {"loss": 1.0})
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write("\0\0\0\n[]\n{}\n" + '{"event": "train", "st')  # as a machine that goes down may leave it
    Log(tmp_path, 2, tensorboard=False).write("train", 3, {"loss": 0.5})
    assert [(line["step"], line["loss"]) for line in read(tmp_path)] == [(1, 1.0), (2, 1.0), (3, 0.5)]


def test_a_last_line_without_its_end_is_no_event(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"event": "train", "step": 1}\n{"event": "train", "step": 2}')
    assert [event["step"] for event in read_events(tmp_path / "log.jsonl")] == [1]


NUMBERS = {key for curves in CURVES.values() for _, key in curves} | {*SCORES, "epoch", "minutes", "seconds"}
"""What is drawn or computed from a log."""


@pytest.mark.parametrize("name", sorted({*NUMBERS, "tokens"}))
def test_a_value_that_is_no_number_is_refused_with_its_line_and_its_name(tmp_path, name):
    path = tmp_path / "log.jsonl"
    for value in ("1", True, None, [1], 1, 0.5, math.nan):
        event = {"event": "validation", "step": 2, name: value}
        path.write_text(f'{{"event": "train", "step": 1}}\n{json.dumps(event)}\n')
        if type(value) in (int, float):
            assert len(read_events(path)) == 2
        else:
            with pytest.raises(DragomanError, match=rf"log\.jsonl, line 2: {name} is .*; it has to be a num"):
                read_events(path)


@pytest.mark.parametrize("step", [-1, 0, MAX_STEP, MAX_STEP + 1, True, 1.0, "1", None])
def test_the_steps_of_a_log_are_those_that_a_training_may_have(tmp_path, step):
    (tmp_path / "log.jsonl").write_text(json.dumps({"event": "train", "step": step}) + "\n")
    if type(step) is not int:
        assert read_events(tmp_path / "log.jsonl") == []
        return
    try:
        TrainingSettings(updates=max(1, step))
        may_be = step >= 0
    except DragomanError:
        may_be = False
    if may_be:
        assert read_events(tmp_path / "log.jsonl") == [{"event": "train", "step": step}]
    else:
        with pytest.raises(DragomanError, match=f"line 1: the step is {step}; it has to be a number of upda"):
            read_events(tmp_path / "log.jsonl")


def test_a_resumed_log_continues_in_tensorboard_too(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = Log(tmp_path, 0, tensorboard=True)
    for step in (1, 2, 3, 4):
        log.write("train", step, {"loss": float(step)})
    log.board.writer.close()
    log = Log(tmp_path, 2, tensorboard=True)
    log.write("train", 3, {"loss": 0.5})
    log.board.writer.close()
    curve = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("train/loss")
    assert [(point.step, point.value) for point in curve] == [
        (line["step"], line["loss"]) for line in read(tmp_path)
    ]


def test_tensorboard_gets_curves_and_texts(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Log(tmp_path, 0, tensorboard=True).write("validation", 7, LINE)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    tags = events.Tags()
    assert sorted(tags["scalars"]) == ["validation/gradient_norms/encoder.0", "validation/loss"]
    assert [(event.step, event.value) for event in events.Scalars("validation/gradient_norms/encoder.0")] == [
        (7, 1.25)
    ]
    assert tags["tensors"] == ["validation/samples/text_summary"]
    assert b"amber \xc2\xb7 AMBER" in events.Tensors(tags["tensors"][0])[0].tensor_proto.string_val[0]


def test_a_training_has_its_curves_and_its_texts_in_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    source, target = write_copies(tmp_path, "train", 50)
    out = run(
        Recipe(
            out=tmp_path / "run",
            data=DataSettings(source=source, target=target),
            tokenizer=TokenizerSettings(source_tokens="word", vocabulary=50),
            model=ModelSettings(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1),
            batches=BatchSettings(source_tokens_per_batch=100, target_tokens_per_batch=100),
            training=TrainingSettings(
                updates=4,
                warmup_steps=2,
                validate_every=2,
                checkpoint_every=4,
                log_every=1,
                precision="float32",
                tensorboard=True,
            ),
        ),
    )
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    written = [(line["event"], line["step"], line) for line in read(out)]
    of_training = {"loss", "nll", "learning_rate", "tokens_per_second", "gradient_norm"}
    layers = {f"gradient_norms/{layer}" for layer in ("encoder.0", "decoder.0", "target_embedding")}
    curves_of = {"train": of_training | layers, "validation": {"loss", "nll", "bleu"}}
    for event, names in curves_of.items():
        for name in names:
            curve = [
                (step, pytest.approx(scalars(line)[name], abs=1e-6, rel=1e-6))
                for kind, step, line in written
                if kind == event
            ]
            assert [(point.step, point.value) for point in events.Scalars(f"{event}/{name}")] == curve
    texts = [
        (point.step, point.tensor_proto.string_val[0].decode())
        for point in events.Tensors("validation/samples/text_summary")
    ]
    samples = [(step, line["samples"]) for kind, step, line in written if kind == "validation"]
    for _, _, line in written:
        if "tokens" in line:
            speed = line["tokens"] / line["seconds"]
            assert line["tokens_per_second"] == pytest.approx(speed, rel=1e-5)
    assert [step for step, _ in texts] == [step for step, _ in samples]
    assert all(
        word in text
        for (_, text), (_, rows) in zip(texts, samples, strict=True)
        for row in rows
        for word in row.values()
    )


def test_curves_are_the_numbers_of_a_line():
    assert scalars(LINE) == {"loss": 2.0, "gradient_norms/encoder.0": 1.25}


def test_a_log_without_tensorboard_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[tensorboard\]'"):
        Log(tmp_path, 0, tensorboard=True)
    monkeypatch.setattr("dragoman.training.tensorboard.find_spec", lambda name: None)
    with pytest.raises(DragomanError, match="TensorBoard is not installed"):
        refuse_missing_tensorboard()


@given(
    st.integers(40, 3000),
    st.integers(0, 2000),
    st.floats(0.01, 2),
    st.floats(0, 2),
    st.integers(1, 10),
)
def test_the_time_left_is_right_after_the_first_quarter(updates, done, seconds, slower, every):
    # An update takes `seconds`, one of the first tenth more, and a validation as long as an update.
    slow = updates // 10 * (done == 0)  # a resumed run has compiled its kernels
    durations = [seconds * (1 + slower * (step < slow) + (step % every == 0)) for step in range(updates)]
    ends = [100 * done * seconds + end for end in accumulate(durations)]
    points = [(done + step + 1, end) for step, end in enumerate(ends)]
    for last in range(updates // 4 + 2 * slow, updates, 7):
        left = seconds_left(points[: last + 1], done + updates)
        assert left == pytest.approx(ends[-1] - ends[last], abs=0.1 * (ends[-1] - ends[0]) + 3 * seconds)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("notebook", [False, True])
@pytest.mark.parametrize("widgets", [False, True])
def test_terminals_and_notebooks_show_bars(tmp_path, monkeypatch, terminal, notebook, widgets):
    (tmp_path / "ipywidgets.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    if not widgets:
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
    console = Console(file=io.StringIO(), force_terminal=terminal, force_jupyter=notebook)
    assert shows_bars(console) == (terminal or (notebook and widgets))


def test_the_bar_of_a_terminal_says_what_is_left(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=99)
    monkeypatch.setattr(log_module, "Console", lambda stderr: terminal if stderr else Console())
    with progress_bar(20, math.inf, visible=True) as advance:
        for step in range(1, 11):
            advance(step, 30.0 * step, 100)
    assert screen.getvalue().endswith(str(Control((ControlType.ERASE_IN_LINE, 2))))  # nothing of it is left
    assert "0:05:00 left, update 10 of 20," in screen.getvalue()
    with progress_bar(1000, 400.0, visible=True) as advance:
        advance(1, 100.0, 100)
    assert "0:05:00 left, update 1," in screen.getvalue()
    with progress_bar(20, math.inf, visible=False) as advance:
        advance(1, 100.0, 100)
    with progress_bar(1000, 400.0, visible=True) as advance:
        advance(1, 500.0, 100)
    assert "0:00:00 left, update 1," in screen.getvalue()


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, 50), st.floats(0.01, 100))
def test_at_a_constant_speed_the_time_left_is_exact_from_the_first_update_on(updates, done, more, seconds):
    points = [(step, step * seconds) for step in range(done + 1, done + more + 2)]
    left = (done + updates - points[-1][0]) * seconds
    assert seconds_left(points, done + updates) == pytest.approx(left, rel=1e-9, abs=1e-9 * done * seconds)


def test_the_bar_has_the_speed_of_all_tokens_so_far(monkeypatch):
    screen, clock = io.StringIO(), SimpleNamespace(now=5.0)
    terminal = Console(file=screen, force_terminal=True, width=99)
    monkeypatch.setattr(log_module, "Console", lambda stderr: terminal)
    monkeypatch.setattr(log_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with progress_bar(20, math.inf, visible=True) as advance:
        for step, tokens in enumerate((100, 500, 900), 1):
            clock.now += 10.0
            advance(step, 10.0 * step, tokens)
    assert "update 3 of 20, 50 target tokens/s" in screen.getvalue()

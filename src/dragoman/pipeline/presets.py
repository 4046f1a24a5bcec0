"""The preset that `auto` stands for. Does not import torch."""

from dataclasses import replace

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Preset, choose_minutes, resolve_paths
from dragoman.system.device import has_bfloat16
from dragoman.system.machine import cpu_threads, matrix_speed
from dragoman.text.compression import plain_name
from dragoman.text.dataset_names import is_opus
from dragoman.text.named_datasets.datasets import find_dataset, resolve_dataset
from dragoman.text.settings import DataSettings
from dragoman.training.settings import TrainingSettings

OPERATIONS: dict[Preset, float] = {"tiny": 16e6, "small": 45e6}
"""Of matrix products in training, for a target token."""
OVERHEAD: dict[Preset, float] = {"tiny": 45e-6, "small": 94e-6}
"""Seconds of one core for all other operations on a token. Both tables are measured (experiments/LOG.md)."""
ENOUGH_TOKENS = 1e7
"""Target tokens with which `small` has learned more than `tiny` has in the same time (experiments/LOG.md)."""
BYTES_PER_TOKEN = 9.0
"""Of both sides of a text, for a target token."""
MANY_PASSES = 20.0
"""Passes over a little text from which on the dropout is 0.3 instead of the paper's 0.1; not measured."""


def choose_preset(
    data: DataSettings, training: TrainingSettings, gpu: bool
) -> tuple[Preset, ModelSettings, str]:
    """Sizes for the text, the time and the machine, and the reason.

    More text and a GPU allow larger sizes; little text needs more dropout. In few minutes a CPU trains a
    smaller model better, and few passes over the text do not need much dropout.
    """
    megabytes = text_size(data) / 1e6
    name: Preset = ("base" if megabytes > 50 else "small") if gpu else ("small" if megabytes > 1 else "tiny")
    dropout = 0.3 if megabytes < (20 if gpu else 8) else 0.1
    reason = f"{megabytes:,.1f} MB of text and {'a' if gpu else 'no'} GPU"
    if not gpu and training.updates is None:
        minutes = choose_minutes(training, gpu)
        tokens = {preset: 60 * minutes * tokens_per_second(preset, training) for preset in OPERATIONS}
        if tokens["small"] < ENOUGH_TOKENS:
            name = "tiny"
        if tokens[name] < MANY_PASSES * megabytes * 1e6 / BYTES_PER_TOKEN:
            dropout = 0.1
        reason = f"{megabytes:,.1f} MB of text and {minutes:g} minutes of this processor"
    return name, replace(PRESETS[name], dropout=dropout), reason


def tokens_per_second(preset: Preset, training: TrainingSettings) -> float:
    """About how many target tokens a second this processor trains with."""
    threads = training.threads or cpu_threads()
    speed = matrix_speed(
        threads, training.precision or ("bfloat16" if has_bfloat16(on_gpu=False) else "float32")
    )
    return 1 / (OPERATIONS[preset] / speed + OVERHEAD[preset] / threads)


def text_size(data: DataSettings) -> int:
    """Bytes of the text in the training files, by their sizes, or about those of a named dataset.

    Compressed text is taken to have a third of its size, and that of TMX to be a third of the file.
    Raises `DragomanError` for an unknown dataset.
    """
    if data.corpus:
        return sum(
            text_size(DataSettings(corpus.source, corpus.target, folder=data.folder))
            for corpus in data.corpus
        )
    if any(map(is_opus, data.datasets)):
        return text_size(resolve_dataset(data))
    if data.datasets:
        return find_dataset(data.datasets[0]).training_bytes
    files = resolve_paths(
        DataSettings(source=data.source, target=data.target, folder=data.folder)
    ).files.values()
    return sum(
        path.stat().st_size
        * (3 if path.suffix in {".gz", ".zst"} else 1)
        // (3 if plain_name(path.name).endswith(".tmx") else 1)
        for path in files
    )

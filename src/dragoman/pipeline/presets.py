"""The preset that `auto` stands for. Does not import torch."""

from dataclasses import replace

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Preset, resolve_paths
from dragoman.text.compression import plain_name
from dragoman.text.datasets import find_dataset
from dragoman.text.settings import DataSettings


def choose_preset(data: DataSettings, gpu: bool) -> tuple[Preset, ModelSettings, str]:
    """Sizes for the text and the machine, and the reason.

    More text and a GPU allow larger sizes; little text needs more dropout.
    """
    megabytes = text_size(data) / 1e6
    name: Preset = ("base" if megabytes > 50 else "small") if gpu else ("small" if megabytes > 1 else "tiny")
    # On a CPU, few passes over a larger text do not need much dropout (experiments/LOG.md).
    little = 20 if gpu else 8
    reason = f"{megabytes:,.1f} MB of text and {'a' if gpu else 'no'} GPU"
    return name, replace(PRESETS[name], dropout=0.3 if megabytes < little else 0.1), reason


def text_size(data: DataSettings) -> int:
    """Bytes of the text in the training files, by their sizes, or about those of a named dataset.

    Compressed text is taken to have a third of its size, and that of TMX to be a third of the file.
    Raises `DragomanError` for an unknown dataset.
    """
    if data.corpus:
        return sum(
            text_size(DataSettings(each.source, each.target, folder=data.folder)) for each in data.corpus
        )
    if data.dataset is not None:
        return find_dataset(data.dataset).training_bytes
    files = resolve_paths(
        DataSettings(source=data.source, target=data.target, folder=data.folder)
    ).files.values()
    return sum(
        path.stat().st_size
        * (3 if path.suffix in {".gz", ".zst"} else 1)
        // (3 if plain_name(path.name).endswith(".tmx") else 1)
        for path in files
    )

"""Settings of adapting a trained model to new text. This module does not import torch."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AdaptationSettings:
    """A model to begin with, old text to replay, and weights that stay as they are.

    All are None in a run that begins with random weights.
    """

    initial_model: Path | None = None
    """Adapt this model to the text, instead of random weights: a run, or a folder of dragoman import. Its
    tokenizers and model settings are kept; dropout may change."""
    peak_rate: float | None = None
    """Highest learning rate with an initial model, which --learning-rate-scale multiplies. None is 0.0003."""
    replay_source: Path | None = None
    """Sentences of the text that the initial model was trained on: some are added to the training text, so
    that what was learnt from them is kept."""
    replay_target: Path | None = None
    """Their translations."""
    replay_share: float | None = None
    """Share of the training pairs that comes from the replay text, drawn once by the seed. None is 0.3."""
    replay_valid_source: Path | None = None
    """Validation sentences of the old domain, scored at each validation; without them some pairs of the
    replay text are held out."""
    replay_valid_target: Path | None = None
    """Their translations."""
    freeze: tuple[str, ...] | None = None
    """Parts of an initial model that do not change: encoder, decoder, embeddings, or modules as they are
    named in model.safetensors, as encoder.0."""

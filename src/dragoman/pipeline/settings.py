"""Settings of adapting a trained model to new text. This module does not import torch."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.system.options import Excludes, Needs, check_values, option

ADAPTS = Needs("initial_model", "is for adapting a model")


@dataclass(frozen=True)
class AdaptationSettings:
    """A model to begin with, weights that stay as they are, and old text to replay.

    All are left out (None) in a run that begins with random weights.
    """

    initial_model: Path | None = None
    """Adapt this model to the text; it is a run, or a folder written by dragoman import. Its tokenizers and
    model settings are kept; only dropout, the alignment head and the numbers of layers may
    change; layers can only be left out."""
    new_vocabulary: bool | None = option(
        None,
        ADAPTS,
        Excludes(("lora_rank", "replay", "replay_valid"), "these need the initial model's vocabulary"),
    )
    """Learn a vocabulary from the text, also in another language, in place of the initial model's. A token
    that both have keeps its embedding; others begin with the mean of the tokens that they are made of."""
    peak_rate: float | None = option(None, ADAPTS, at_least=1e-9, at_most=1)
    """Highest learning rate with an initial model; --learning-rate-scale multiplies it. None is 0.0003, or
    0.002 with lora_rank, fewer layers, or a text that the initial model predicts badly."""
    freeze: tuple[str, ...] | None = option(None, ADAPTS)
    """Parts of the initial model that do not change: encoder, decoder, embeddings, or modules as they are
    named in model.safetensors, such as encoder.0."""
    lora_rank: int | None = option(None, ADAPTS, at_least=1, at_most=2**16)
    """Train adapters of this rank instead of the weights: the change of a linear map is a product of two
    narrow matrices (LoRA), and all other weights stay as they are. Checkpoints are not averaged.
    dragoman export --to adapter writes the adapters alone."""
    lora_alpha: float | None = option(None, ADAPTS, Needs("lora_rank"), at_least=1e-9, at_most=10**6)
    """α: the adapters are multiplied by α / rank. None is twice the rank."""
    lora_maps: tuple[str, ...] | None = option(None, ADAPTS, Needs("lora_rank"))
    """Which linear maps get adapters, by words of their names in model.safetensors: attention, feed_forward,
    encoder.0 and so on. None is attention."""
    replay: tuple[str, ...] | None = option(None, ADAPTS)
    """Source and target of the initial model's text, or one file that has both; some pairs are added to the
    training text, so that what was learned from them is kept."""
    replay_share: float | None = option(None, ADAPTS, Needs("replay"), at_least=0, at_most=0.99)
    """Share of the training pairs that comes from the replay text; the seed decides which. None is 0.3."""
    replay_valid: tuple[str, ...] | None = option(None, ADAPTS)
    """Source and target of old validation pairs, scored at each validation. None is some pairs that are held
    out of the replay text."""

    def __post_init__(self) -> None:
        check_values(self)  # `adapted_recipe` checks the rules: a recipe and the command line are one

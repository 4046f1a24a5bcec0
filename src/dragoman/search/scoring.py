"""The likelihood of given translations, by forced decoding.

Shapes: B sentences, S source and T target tokens.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.loss import perplexity
from dragoman.model.symbols import PAD
from dragoman.search.beam import next_log_probs
from dragoman.system.errors import NonFiniteError
from dragoman.text.batches import Batch


@dataclass(frozen=True)
class Likelihood:
    """The tokens of a translation, END last, and the log-probability of each in nats."""

    tokens: list[str]
    log_probabilities: list[float]

    @property
    def log_probability(self) -> float:
        """Of the translation, END included."""
        return sum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Per token, END included."""
        return perplexity(-self.log_probability / len(self.tokens))


@torch.no_grad()
def token_log_probabilities(
    model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """Log P of each target token, given the source and the tokens before it; 0 where the target is padded.

    Both sides end with END and contain it nowhere else. PAD and START have no probability, as in search.
    Raises `DragomanError` if probabilities are not finite.
    """
    batch = Batch.of(source, target, [])
    features, _ = model.decode(batch.target_in, model.encode(source))
    log_probs = next_log_probs(model, features.flatten(0, 1))
    if log_probs.isnan().any():
        raise NonFiniteError
    return log_probs.gather(1, target.view(-1, 1)).view_as(target).masked_fill(target == PAD, 0.0)

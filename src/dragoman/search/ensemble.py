"""Several models as one: the mean of their probabilities. Shapes as in model/interface.py."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.interface import Model, State
from dragoman.model.symbols import PAD, START


@dataclass(frozen=True)
class EnsembleState(State):
    """The state of each model."""

    states: list[State]

    def allocate(self, beams: int, max_length: int) -> "EnsembleState":
        return EnsembleState([state.allocate(beams, max_length) for state in self.states])

    def reorder(self, rows: Int[Tensor, "R"]) -> "EnsembleState":
        return EnsembleState([state.reorder(rows) for state in self.states])

    def select(self, sentences: Int[Tensor, "B2"]) -> "EnsembleState":
        return EnsembleState([state.select(sentences) for state in self.states])


class Ensemble(Model):
    """Models of the same vocabularies as one.

    P(y) is the mean of their P(y). Its features are theirs, concatenated.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.longest_source = min(
            (model.longest_source for model in models if model.longest_source is not None), default=None
        )
        self.longest_target = min(
            (model.longest_target for model in models if model.longest_target is not None), default=None
        )
        self.widths = [model.settings.d_model for model in models]

    @property
    def members(self) -> list[Model]:
        return [model for model in self.models if isinstance(model, Model)]

    def encode(self, source: Int[Tensor, "B S"]) -> EnsembleState:
        return EnsembleState([model.encode(source) for model in self.members])

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], EnsembleState]:
        assert isinstance(state, EnsembleState)
        features, states = zip(
            *(
                model.decode(target, member_state)
                for model, member_state in zip(self.members, state.states, strict=True)
            ),
            strict=True,
        )
        return torch.cat(features, -1), EnsembleState(list(states))

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """The logarithm of the mean probability; PAD and START have none."""
        log_probs = []
        for model, member_features in zip(self.members, features.split(self.widths, -1), strict=True):
            logits = model.logits(member_features)
            logits[..., [PAD, START]] = -torch.inf
            log_probs.append(logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1))
        return torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))

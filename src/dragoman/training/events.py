"""The events of a training, as log.jsonl has them, and who is told of them. No torch is imported."""

from collections.abc import Callable
from typing import Literal, Required, TypedDict


class SampledPair(TypedDict):
    """A validation pair, and how the model translates it."""

    source: str
    reference: str
    translation: str


class LogEvent(TypedDict, total=False):
    """A line of log.jsonl. The other keys depend on `event`; an adaptation has `replay_bleu` and others."""

    event: Required[Literal["train", "validation", "skipped", "rollback"]]
    step: Required[int]
    """The number of the update."""
    loss: float
    nll: float
    epoch: int
    """This and the next ones are those of `train`."""
    tokens: int
    seconds: float
    gradient_norm: float
    gradient_norms: dict[str, float]
    learning_rate: float
    tokens_per_second: float
    minutes: float
    """This and the next ones are those of `validation`."""
    perplexity: float
    bleu: float
    replay_bleu: float
    samples: list[SampledPair]
    message: str
    """That of `skipped` and `rollback`."""


OnEvent = Callable[[LogEvent], object]
"""A function that is called with each event, and that ends the training by raising `StopIteration`."""


class Observer:
    """Tells a function of events, and keeps whether it wants the training to end."""

    def __init__(self, on_event: OnEvent | None = None) -> None:
        self._on_event = on_event
        self.wants_end = False

    def tell(self, event: LogEvent) -> None:
        """Call the function. Raises what it raises, except `StopIteration`."""
        if self._on_event is not None:
            try:
                self._on_event(event)
            except StopIteration:
                self.wants_end = True

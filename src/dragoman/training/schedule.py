"""The learning rate (section 5.3, equation 3), and when to validate, to write a checkpoint and to end."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Numbers of updates, all chosen: a recipe may leave them open."""

    updates: int
    """At which training ends."""
    warmup_steps: int
    """During which the learning rate rises."""
    validate_every: int
    checkpoint_every: int


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), for steps from 1.

    Raises `ValueError` for a step below 1.
    """
    if step < 1:
        raise ValueError(f"The learning rate begins with step 1, not {step}.")
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))

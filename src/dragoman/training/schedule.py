"""The learning rate of each update: equation 3 (section 5.3), and a trapezoid for short trainings.

Does not import torch.
"""

from collections.abc import Callable

from dragoman.training.settings import TrainingSettings

PEAK_WARMUP = 500
"""A trapezoid rises to the peak of equation 3 with so many warm-up steps, unless a recipe has another one."""


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Equation 3: d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), for steps from 1.

    Raises `ValueError` for a step below 1.
    """
    check_step(step)
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def trapezoid(step: int, peak: float, warmup_steps: int, cooldown_steps: int, updates: int) -> float:
    """Rise linearly to `peak`, stay, and fall linearly to zero, which the step after the last one would have.

    Source: Zhai et al. 2022 (arXiv 2106.04560); Hägele et al. 2024 (arXiv 2405.18392). Raises `ValueError`
    for a step below 1.
    """
    check_step(step)
    return peak * min(1.0, step / warmup_steps, max(0.0, (updates + 1 - step) / (cooldown_steps + 1)))


def trapezoid_peak(d_model: int) -> float:
    """The maximum of a trapezoid: 0.004 for d_model 128, 0.0028 for 256."""
    return learning_rate(PEAK_WARMUP, d_model, PEAK_WARMUP)


def check_step(step: int) -> None:
    """Raise `ValueError` for a step below 1."""
    if step < 1:
        raise ValueError(f"The learning rate begins with step 1, not {step}.")


def make_learning_rate(
    settings: TrainingSettings, d_model: int, peak_rate: float | None = None
) -> Callable[[int], float]:
    """The learning rate by the number of the update, from 1; in `settings` the warm-up is chosen.

    A trapezoid without `updates` or `cooldown_steps` does not fall. `peak_rate` is its maximum before
    `learning_rate_scale` is applied; None is that of equation 3, for a trapezoid with `PEAK_WARMUP`.
    """
    warmup, scale = settings.warmup_steps, settings.learning_rate_scale
    assert warmup is not None
    if settings.schedule == "trapezoid":
        updates, cooldown = settings.updates, settings.cooldown_steps
        peak = scale * (peak_rate or trapezoid_peak(d_model))
        if updates is None or cooldown is None:
            return lambda step: peak * min(1.0, step / warmup)
        return lambda step: trapezoid(step, peak, warmup, cooldown, updates)
    if peak_rate is not None:
        scale *= peak_rate / learning_rate(warmup, d_model, warmup)
    return lambda step: scale * learning_rate(step, d_model, warmup)


def describe_learning_rate(settings: TrainingSettings, d_model: int, peak_rate: float | None = None) -> str:
    """The formula of `make_learning_rate` with its numbers."""
    warmup, scale = settings.warmup_steps, settings.learning_rate_scale
    if settings.schedule == "trapezoid":
        updates, cooldown = settings.updates, settings.cooldown_steps
        is_open = updates is None or cooldown is None
        decay = "" if is_open else f", ({updates} + 1 − step) / ({cooldown} + 1)"
        return f"{scale * (peak_rate or trapezoid_peak(d_model)):g} · min(1, step / {warmup}{decay})"
    if peak_rate is not None:
        scale *= peak_rate / learning_rate(warmup or 1, d_model, warmup or 1)
    return f"{scale:g} · {d_model}^−0.5 · min(step^−0.5, step · {warmup}^−1.5)"

"""The learning rate (section 5.3, equation 3)."""


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), for steps from 1. Raises `ValueError` for a step below 1."""
    if step < 1:
        raise ValueError(f"The learning rate begins with step 1, not {step}.")
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))

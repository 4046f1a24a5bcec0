"""How a model is trained. Defaults are the paper's (section 5). Does not import torch."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dragoman.system.clock import moment
from dragoman.system.errors import OptionError
from dragoman.system.options import check_options, option

Optimizer = Literal["adam", "muon"]
ScheduleName = Literal["paper", "trapezoid"]
SCORES = ("loss", "nll", "perplexity", "bleu")
"""The names of the scores that each validation has."""


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation, validation and what is kept on disk.

    A setting that is left out (None) is chosen when a run begins, and printed.
    """

    updates: int | None = option(None, at_least=1, at_most=10**9)
    """Number of updates; None chooses it from the size of the corpus and the speed of this machine."""
    minutes: float | None = option(None, at_least=0.01, at_most=10**7)
    """Time of the run, with preparation, validations and test data, for which the number of updates is
    chosen; None is 45 on a CPU and 180 on a GPU. Training has half of it at least."""
    stop_at: str | None = None
    """Time at which the run has ended, such as `18:30` or `2026-12-24T18:30`. If the machine gets slower,
    there are fewer updates, and the learning rate of a trapezoid falls earlier. Without `updates` and
    `minutes`, the number of updates is chosen for the time until then."""
    optimizer: Optimizer | None = None
    """Adam with the paper's constants (section 5.3); or Muon (Jordan et al. 2024) for the matrices of linear
    maps, which learns more with each update, and Adam for all other weights. None is Muon for the preset
    `tiny` with pre-norm, bfloat16 and without an initial model, and Adam otherwise."""
    schedule: ScheduleName | None = None
    """The learning rate: equation 3 (section 5.3); or a trapezoid, which rises during the warm-up, stays, and
    falls to zero during the cooldown. None is a trapezoid for the presets `tiny` and `small` with
    pre-norm and without an initial model, and equation 3 otherwise."""
    warmup_steps: int | None = option(None, at_least=1, at_most=10**9)
    """Updates during which the learning rate rises (the paper: 4000). None is an eighth of the updates. Of a
    trapezoid it is at most 250. Of equation 3 it is more where the rate would exceed 0.002, at most 4000 and
    at most half of the updates; with an initial model it is a tenth."""
    cooldown_steps: int | None = option(None, at_least=1)
    """Last updates of a trapezoid, during which the learning rate falls to zero; None is half of the
    updates."""
    learning_rate_scale: float = option(1.0, at_least=0, at_most=10**301)
    """Factor of the learning rate."""  # training reports what a rate near the bound does
    label_smoothing: float = option(0.1, at_least=0, below=1)
    """ε_ls (section 5.4)."""
    guided_alignment_weight: float = option(0.1, at_least=0, at_most=10**4)
    """Factor of the loss that a guided alignment adds (Chen et al. 2016; Marian also has 0.1)."""
    clip_norm: float = option(0.0, at_least=0, at_most=10**9)
    """Largest gradient norm; 0 does not clip, as in the paper."""
    on_divergence: Literal["stop", "skip", "rollback"] = "stop"
    """What to do if the gradient is NaN or infinite: stop; skip the update (at most 19 in a row); or
    roll back to the last checkpoint (the one before it if that fails again, the start if there is none), and
    halve the learning rate each time."""
    precision: Literal["float32", "bfloat16"] | None = None
    """Number type of matrix products; with `native` and post-norm also of activations between sub-layers.
    Weights stay float32. None is bfloat16 if the processor supports it."""
    seed: int = option(1, at_least=0, below=2**63)
    """Seed of initial weights, dropout and the order of batches."""
    validate_every: int | None = option(None, at_least=1, at_most=10**9)
    """Updates between validations; None is a twentieth of all updates, at most 1000."""
    checkpoint_every: int | None = option(None, at_least=1, at_most=10**9)
    """Updates between checkpoints; None is the same as between validations."""
    average: int = option(5, at_least=1, at_most=10**4)
    """Number of last checkpoints to average (section 6.1: 5, for big models 20); at least 2 are kept."""
    best_by: Literal["bleu", "loss"] = "bleu"
    """Score that decides which checkpoint is the best one: BLEU of greedy translations, or the loss. At the
    end the perplexity decides among this checkpoint, the last one and the average."""
    patience: int = option(8, at_least=0)
    """Stop after this many validations in a row that improve neither BLEU nor loss, not during the warm-up; 0
    never stops early. A trapezoid is never stopped early."""
    log_every: int = option(20, at_least=1, at_most=10**9)
    """Updates between lines of log.jsonl."""
    tensorboard: bool = False
    """Also write the log for TensorBoard (extra: dragoman[tensorboard])."""
    shard: bool = False
    """Shard weights, gradients and moments over the processes (FSDP2), for models that do not fit into one
    GPU."""
    native: bool = True
    """Use compiled kernels (C++ on a CPU, Triton on a GPU) between matrix products. PyTorch's are slower and
    need no compiler."""
    threads: int | None = option(None, at_least=1, at_most=1024)
    """CPU threads; None leaves the choice to PyTorch."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.stop_at is not None:
            try:
                moment(self.stop_at, datetime.now())
            except ValueError as error:
                raise OptionError(
                    "{stop_at} is {value}, which is no time; write it as 18:30 or 2026-12-24T18:30.",
                    value=self.stop_at,
                ) from error


@dataclass(frozen=True)
class Schedule:
    """Numbers of updates, all chosen: a recipe may leave them open."""

    updates: int
    """At which training ends."""
    warmup_steps: int
    """During which the learning rate rises."""
    validate_every: int
    checkpoint_every: int

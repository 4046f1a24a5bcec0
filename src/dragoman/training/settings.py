"""How a model is trained. The defaults are the paper's (section 5); nothing here imports torch."""

from dataclasses import dataclass, field
from typing import Literal

from dragoman.system.errors import require
from dragoman.system.toml import former_name


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation, validation and what is kept on disk. Where a default is None, the recipe chooses and says what."""

    updates: int | None = None
    """Number of parameter updates; None chooses from the size of the corpus and the speed of this machine."""
    minutes: float = 45.0
    """About how long training may take on a CPU where the number of updates is chosen; on a GPU 4 times as long."""
    warmup_steps: int | None = None
    """Updates during which the rate rises (the paper's 4000); None is an eighth of all, more for a rate of 0.002 at most, 4000 at most."""
    learning_rate_scale: float = field(default=1.0, metadata=former_name("rate_scale"))
    """The paper's learning rate is multiplied by this (section 5.3)."""
    label_smoothing: float = 0.1
    """ε_ls (section 5.4)."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 does not clip, as in the paper."""
    on_divergence: Literal["stop", "skip", "rollback"] = "stop"
    """What to do where the gradient is no number: end, leave the update out (19 in succession at most), or go back to the last
    checkpoint, the one before it if that fails again, or the beginning, with half the rate each time (down to a 64th)."""
    precision: Literal["float32", "bfloat16"] | None = None
    """Arithmetic of matrix products, and with `native` and post-norm of what goes from sub-layer to sub-layer; weights stay float32.
    None is bfloat16 where the processor has it."""
    seed: int = 1
    """Of initial weights, dropout and the order of batches."""
    validate_every: int | None = None
    """Updates between validations; None is a twentieth of all updates, and 1000 at most."""
    checkpoint_every: int | None = None
    """Updates between checkpoints; None is as validations."""
    average: int = 5
    """The last n checkpoints are kept, and averaged at the end (section 6.1: 5, for big models 20)."""
    best_by: Literal["bleu", "loss"] = "bleu"
    """Decides which checkpoint is best and when to stop early: BLEU of greedy translations, or the loss, which also chooses the average."""
    patience: int = 8
    """Stop after this many validations without a better one; 0 never does."""
    log_every: int = 20
    """Updates between lines of log.jsonl."""
    tensorboard: bool = False
    """Write the log for TensorBoard too (extra: dragoman[tensorboard])."""
    shard: bool = False
    """With several processes, each keeps a part of every weight, gradient and moment (FSDP2): for models that do not fit into one."""
    native: bool = True
    """On a CPU, let C++ do what stands between matrix products, where there is a compiler for it; without, PyTorch does it, slower."""
    compile: bool = False
    """Let torch.compile fuse what is inside each layer: for a GPU. On a CPU it made `small` slower."""
    threads: int | None = None
    """Processor threads; None leaves the choice to PyTorch."""

    def __post_init__(self) -> None:
        counts = ("updates", "warmup_steps", "validate_every", "checkpoint_every", "average", "log_every", "threads")
        shares = ("minutes", "learning_rate_scale", "label_smoothing", "clip_norm", "seed", "patience")
        require(
            self,
            least=dict.fromkeys(counts, 1) | dict.fromkeys(shares, 0),
            below={"label_smoothing": 1, "seed": 2**63},
            most={"threads": 4096},
        )

    @property
    def fuses(self) -> bool:
        """Whether C++ is to do what stands between matrix products: torch.compile would, with --compile."""
        return self.native and not self.compile

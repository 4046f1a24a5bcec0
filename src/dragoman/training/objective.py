"""An update (section 5): the objective (5.4), its gradient, Adam and the learning rate (5.3); validation."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.model.loss import LabelSmoothedCrossEntropy, perplexity
from dragoman.system.device import seed_generators
from dragoman.system.errors import OptionError, is_out_of_memory
from dragoman.system.machine import trim_memory
from dragoman.text.batches import Batch, Update
from dragoman.training.graphs import GraphedObjective
from dragoman.training.memory import memory_message, smaller_batches
from dragoman.training.settings import Optimizer, TrainingSettings
from dragoman.training.world import World, unsharded


class Objective(nn.Module):
    """Label-smoothed loss and negative log-likelihood of a batch (section 5.4).

    Both are in nats, summed over the batch's target tokens without padding. DDP and FSDP wrap this module.
    """

    def __init__(self, model: Model, label_smoothing: float, bfloat16: bool, native: bool = False) -> None:
        """`native` replaces modules of the model, and the loss, by faster equivalents (native/fused.py)."""
        super().__init__()
        self.model, self.in_bfloat16 = model, bfloat16
        self.cross_entropy = LabelSmoothedCrossEntropy(label_smoothing)
        if native:
            from dragoman.native.fused import fuse

            fuse(self)

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> "Objective":
        """The objective that the settings ask for."""
        return cls(model, settings.label_smoothing, settings.precision == "bfloat16", settings.native)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss and the negative log-likelihood, summed over the batch's target tokens."""
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            features, _ = self.model.decode(batch.target_in, self.model.encode(batch.source))
            return self.cross_entropy(self.model.logits(batch.predictions(features)), batch.gold)


def with_graphs(objective: nn.Module) -> nn.Module:
    """The objective with CUDA graphs, if it is one of a single process with the kernels for a GPU."""
    from dragoman.native.fused import has_gpu_kernels

    is_capturable = type(objective) is Objective and has_gpu_kernels(objective.model)
    return GraphedObjective(objective) if is_capturable else objective


def seed_update(seed: int, step: int, rank: int) -> None:
    """Seed dropout for an update from these three numbers alone.

    A resumed run then draws the masks of an uninterrupted one.
    """
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])
    seed_generators(number)


def accumulate_gradients(objective: nn.Module, update: Update, world: World) -> Tensor:
    """Add the gradient of the mean loss over all tokens of the update.

    Returns this process's [loss, nll], summed over tokens. Processes synchronise once, in the last backward
    pass. If memory runs out before that, the update starts again with every batch of this process cut in two:
    the same gradient, but for the dropout masks. Raises `DragomanError` if memory runs out for a single pair,
    or in the last backward pass, or if weights are sharded: then processes compute in lockstep.
    """
    batches = update.batches
    while True:
        try:
            return _accumulate(objective, batches, update.tokens, world)
        except (RuntimeError, MemoryError) as error:
            may_retry = world.communicates_in_last_backward_only(objective)
            batches = smaller_batches(batches, error, may_retry)
        objective.zero_grad()
        trim_memory()  # oneDNN compiles kernels for the smaller shapes and cannot use freed blocks


def _accumulate(objective: nn.Module, batches: list[Batch], tokens: int, world: World) -> Tensor:
    """One attempt of `accumulate_gradients`; a function, so that the graph of one that fails is freed."""
    sums = torch.zeros(2, dtype=torch.float64, device=world.device)
    for number, batch in enumerate(batches, 1):
        if isinstance(objective, GraphedObjective):
            sums += objective.add_gradient(batch, world.size / tokens)
            continue
        last = number == len(batches)
        with world.gradient_sync(objective, last):
            loss, nll = objective(batch.to(world.device))
            try:
                (loss * (world.size / tokens)).backward()
            except (RuntimeError, MemoryError) as error:
                # Other processes have a part of this gradient.
                if last and world.size > 1 and is_out_of_memory(error):
                    raise OptionError(memory_message(batches)) from error
                raise
        sums += torch.stack([loss.detach(), nll])
    return sums


# ---- the optimizer (section 5.3)


def make_optimizer(model: nn.Module, optimizer: Optimizer = "adam") -> torch.optim.Adam:
    """Adam with the paper's β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹ (section 5.3), or `Muon`."""
    if optimizer == "muon":
        from dragoman.training.muon import Muon

        return Muon(model)
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def step_optimizer(optimizer: torch.optim.Adam, model: nn.Module, rate: float, clip_norm: float) -> Tensor:
    """Update the weights and return the gradient's norm before clipping.

    A NaN or infinite gradient changes nothing: the device decides that without asking the host, except for
    `LowRankAdam` and `Muon`.
    """
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    norm = unsharded(nn.utils.get_total_norm(gradients))
    if clip_norm:
        nn.utils.clip_grads_with_norm_(model.parameters(), clip_norm, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    # The fused kernel skips the step if this is 1.
    optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
    optimizer.step()
    return norm


# ---- validation


@torch.no_grad()
def corpus_loss(objective: Objective, batches: Iterable[Batch], world: World) -> dict[str, float]:
    """Validation: the label-smoothed `loss`, `nll` (both in nats per token) and `perplexity`.

    All processes' batches together.
    """
    training = objective.training
    objective.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=world.device)
    for batch in batches:
        sums += _batch_sums(objective, batch.to(world.device))
    objective.train(training)
    loss, nll, tokens = world.all_reduce(sums).tolist()
    return {"loss": loss / tokens, "nll": nll / tokens, "perplexity": perplexity(nll / tokens)}


def _batch_sums(objective: Objective, batch: Batch) -> Tensor:
    """[loss, nll, tokens] of a batch, which is cut in two if memory runs out."""
    try:
        tokens = torch.tensor(batch.tokens, dtype=torch.float64, device=batch.source.device)
        return torch.stack([*objective(batch), tokens])
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or len(batch.pairs) < 2:
            raise
    trim_memory()
    first, second = batch.halves()
    return _batch_sums(objective, first) + _batch_sums(objective, second)

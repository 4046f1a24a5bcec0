"""The training objective (section 5.4): of a batch, of an update and of a corpus."""

import warnings
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.model.loss import LabelSmoothedCrossEntropy, perplexity
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.system.machine import trim_memory
from dragoman.text.batches import Batch, Update
from dragoman.training.distributed import World, communicates_in_last_backward_only, gradient_sync
from dragoman.training.settings import TrainingSettings


class Objective(nn.Module):
    """Label-smoothed loss and negative log-likelihood of a batch (section 5.4).

    DDP and FSDP wrap this module. Both in nats, summed over the batch's target tokens without padding.
    """

    def __init__(self, model: Model, smoothing: float, bfloat16: bool, native: bool = False) -> None:
        """`native` replaces modules of the model, and the loss, by faster equivalents (native/fused.py)."""
        super().__init__()
        self.model, self.in_bfloat16 = model, bfloat16
        self.cross_entropy = LabelSmoothedCrossEntropy(smoothing)
        if native:
            from dragoman.native.fused import fuse

            fuse(self)

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> "Objective":
        """The objective that the settings ask for."""
        return cls(model, settings.label_smoothing, settings.precision == "bfloat16", settings.fuses)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            features, _ = self.model.decode(batch.target_in, self.model.encode(batch.source))
            rows = features.flatten(0, 1).index_select(0, batch.prediction_indices)
            return self.cross_entropy(self.model.logits(rows), batch.gold)


def seed_update(seed: int, step: int, rank: int) -> None:
    """Seed dropout for an update from these three numbers alone.

    A resumed run then draws the masks of an uninterrupted one.
    """
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])
    # torch.manual_seed is slow: it records a traceback for unused GPUs.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


def accumulate(objective: nn.Module, update: Update, world: World) -> Tensor:
    """Add the gradient of the mean loss over all tokens of the update.

    Returns this process's [loss, nll], summed over tokens. Processes synchronise once, in the last backward
    pass. If memory runs out before that, the update starts again with every batch of this process cut in two,
    which gives the same gradient. Raises `DragomanError` if memory runs out for a single pair, or in the last
    backward pass, or if weights are sharded: then processes compute in lockstep.
    """
    batches = update.batches
    while True:
        try:
            return _accumulate(objective, batches, update.tokens, world)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if all(len(batch.pairs) < 2 for batch in batches) or not communicates_in_last_backward_only(
                objective, world
            ):
                raise DragomanError(_memory_message(batches)) from error
        message = f"{_memory_message(batches)} Until then gradients are accumulated from smaller batches."
        warnings.warn(message, stacklevel=2)
        objective.zero_grad()
        trim_memory()  # oneDNN compiles kernels for the smaller shapes and cannot use freed blocks
        batches = [
            half for batch in batches for half in (batch.halves() if len(batch.pairs) > 1 else [batch])
        ]


def _accumulate(objective: nn.Module, batches: list[Batch], tokens: int, world: World) -> Tensor:
    """One attempt of `accumulate`. It is a function, so that the graph of an attempt that fails is freed."""
    sums = torch.zeros(2, dtype=torch.float64, device=world.device)
    for number, batch in enumerate(batches, 1):
        last = number == len(batches)
        with gradient_sync(objective, last):
            loss, nll = objective(batch.to(world.device))
            try:
                (loss * (world.size / tokens)).backward()
            except (RuntimeError, MemoryError) as error:
                # Other processes have a part of this gradient.
                if last and world.size > 1 and is_out_of_memory(error):
                    raise DragomanError(_memory_message(batches)) from error
                raise
        sums += torch.stack([loss.detach(), nll])
    return sums


def _memory_message(batches: list[Batch]) -> str:
    most = max(len(batch.pairs) for batch in batches)
    return f"There is not enough memory for {most} pairs at once; give the same command a lower --max-tokens."


@torch.no_grad()
def corpus_loss(objective: Objective, batches: Iterable[Batch], world: World) -> dict[str, float]:
    """Validation: the label-smoothed `loss`, `nll` (both in nats a token) and `perplexity`.

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

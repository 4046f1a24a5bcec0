"""What is minimised (section 5.4), over a batch, an update and a corpus."""

import warnings
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.model.loss import LabelSmoothedCrossEntropy, perplexity
from dragoman.native.fused import fuse
from dragoman.system.allocator import out_of_memory, trim_memory
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch, Update
from dragoman.training.distributed import World
from dragoman.training.parallel import computes_alone, synchronising
from dragoman.training.settings import TrainingSettings


class Objective(nn.Module):
    """Smoothed loss and negative log-likelihood of a batch (section 5.4), as the module that processes synchronise.

    Both in nats, summed over the batch's target tokens without padding.
    """

    def __init__(self, model: Model, smoothing: float, bfloat16: bool, native: bool = False) -> None:
        """`native` replaces modules of the model, and the loss, by faster ones that compute the same (native/fused.py)."""
        super().__init__()
        self.model, self.in_bfloat16 = model, bfloat16
        self.cross_entropy = LabelSmoothedCrossEntropy(smoothing)
        self.fused = native and fuse(self)

    @classmethod
    def of(cls, model: Model, settings: TrainingSettings) -> "Objective":
        """As these settings have it, all chosen."""
        return cls(model, settings.label_smoothing, settings.precision == "bfloat16", settings.fuses)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            features, _ = self.model.decode(batch.target_in, self.model.encode(batch.source))
            rows = features.flatten(0, 1).index_select(0, batch.places)
            return self.cross_entropy(self.model.logits(rows), batch.gold)


@torch.no_grad()
def corpus_loss(objective: Objective, batches: Iterable[Batch], world: World) -> dict[str, float]:
    """Validation: smoothed loss, negative log-likelihood (both a token) and perplexity, of all processes' batches together."""
    training = objective.training
    objective.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=world.device)
    for batch in batches:
        sums += _sums(objective, batch.to(world.device))
    objective.train(training)
    loss, nll, tokens = world.sum(sums).tolist()
    return {"loss": loss / tokens, "nll": nll / tokens, "perplexity": perplexity(nll / tokens)}


def _sums(objective: Objective, batch: Batch) -> Tensor:
    """Loss, negative log-likelihood and tokens of a batch, which is cut in two where memory does not suffice."""
    try:
        return torch.stack([*objective(batch), torch.tensor(batch.tokens, dtype=torch.float64, device=batch.source.device)])
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error) or len(batch.pairs) < 2:
            raise
    trim_memory()
    one, other = batch.halves()
    return _sums(objective, one) + _sums(objective, other)


def accumulate(objective: nn.Module, update: Update, world: World) -> Tensor:
    """Add the gradient of the mean loss over all tokens of the update; give this process's loss and likelihood (sums).

    Processes synchronise once, in the last backward pass. Where memory does not suffice before that, the update begins again with every
    batch of this process cut in two: the gradient is the same. Raises `DragomanError` where it does not suffice for one pair, or later,
    or where the weights are spread over processes, which compute in step.
    """
    batches = update.batches
    while True:
        try:
            return _accumulate(objective, batches, update.tokens, world)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if all(len(batch.pairs) < 2 for batch in batches) or not computes_alone(objective, world):
                raise DragomanError(_too_many(batches)) from error
        told = f"{_too_many(batches)} Its gradient is added up from parts meanwhile, which takes longer."
        warnings.warn(told, stacklevel=2)
        objective.zero_grad()
        trim_memory()  # freed blocks are of no use to oneDNN's kernels, which are made anew for the halves
        batches = [half for batch in batches for half in (batch.halves() if len(batch.pairs) > 1 else [batch])]


def _accumulate(objective: nn.Module, batches: list[Batch], tokens: int, world: World) -> Tensor:
    """`accumulate`, where memory suffices; a function of its own, so that nothing of an attempt that fails outlives it."""
    sums = torch.zeros(2, dtype=torch.float64, device=world.device)
    for number, batch in enumerate(batches, 1):
        last = number == len(batches)
        with synchronising(objective, last):
            loss, nll = objective(batch.to(world.device))
            try:
                (loss * (world.size / tokens)).backward()
            except (RuntimeError, MemoryError) as error:
                if last and world.size > 1 and out_of_memory(error):  # the other processes have had a part of this gradient
                    raise DragomanError(_too_many(batches)) from error
                raise
        sums += torch.stack([loss.detach(), nll])
    return sums


def _too_many(batches: list[Batch]) -> str:
    most = max(len(batch.pairs) for batch in batches)
    return f"The memory does not suffice for {most} pairs at once; give the same command a lower --max-tokens."


def seed_update(seed: int, step: int, rank: int) -> None:
    """Make the random numbers of an update depend on these three alone, so that a resumed run draws those of one that ran through."""
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(number)  # torch.manual_seed takes 0.4 ms to note for GPUs that are not in use where it was called
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)

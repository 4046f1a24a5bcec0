"""Tiny models, trained on synthetic tasks with the package's batches, objective, optimizer and rate."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean

import numpy as np
import torch

from dragoman.evaluation.metrics import bleu
from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.search.beam import greedy_search
from dragoman.search.settings import SearchSettings
from dragoman.text.batches import Batch, pad
from dragoman.training.objective import Objective, make_optimizer, seed_update, step_optimizer
from dragoman.training.schedule import learning_rate

TINY = ModelSettings(d_model=32, d_ff=64, heads=4, encoder_layers=2, decoder_layers=2, dropout=0.0)
BY_ARCHITECTURE = {
    "Transformer": TINY,
    "ConvS2S": replace(TINY, architecture="conv", positions="learned"),
    "LSTM": replace(TINY, architecture="lstm", encoder_layers=1, decoder_layers=1),
}
VOCABULARY, WARMUP, SCALE = 24, 100, 0.4
"""Ids with the four symbols; updates of warm-up; factor of the paper's rate: widths are small, and so are
batches."""
SEEDS = (1, 2, 3)
GREEDY = SearchSettings(beam_size=1, max_extra_tokens=2)

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and a target, without START and END."""
Task = Callable[[np.random.Generator], Pair]


def words(generator: np.random.Generator, count: int, letters: int = VOCABULARY - 4) -> list[int]:
    """So many random ids of the first letters."""
    return (4 + generator.integers(letters, size=count)).tolist()


def reversing(shortest: int, longest: int, letters: int = VOCABULARY - 4) -> Task:
    """A random text of one of these lengths, and the same from back to front."""

    def task(generator: np.random.Generator) -> Pair:
        text = words(generator, int(generator.integers(shortest, longest + 1)), letters)
        return text, text[::-1]

    return task


def chance(shortest: int, longest: int, letters: int = VOCABULARY - 4) -> float:
    """The nll a token of random texts of these lengths, to a model that knows only where they end."""
    return (shortest + longest) / (shortest + longest + 2) * math.log(letters)


def cut(generator: np.random.Generator) -> Pair:
    """A pair of `REVERSING`, three times in ten without the end of its target."""
    source, target = REVERSING(generator)
    return source, target[: generator.integers(1, len(target))] if generator.random() < 0.3 else target


REVERSING = reversing(4, 8)
TASKS = {"whole targets": REVERSING, "cut targets": cut}
"""Tasks of searches: without short translations, and with such ones that are too probable."""


def pairs_of(corpus: Sequence[Pair]) -> Task:
    """A pair of the corpus."""
    return lambda generator: corpus[generator.integers(len(corpus))]


def batch_of(pairs: Sequence[Pair]) -> Batch:
    """These pairs in one batch."""
    sources, targets = zip(*pairs, strict=True)
    return Batch.of(pad(sources, END), pad(targets, END), list(range(len(pairs))))


def examples(task: Task, seed: int, count: int = 200) -> Batch:
    """Pairs that are drawn with another seed than those of training. A short text may be in both."""
    generator = np.random.default_rng([seed, 0])
    return batch_of([task(generator) for _ in range(count)])


def paper_rate(step: int) -> float:
    """Equation 3 for tiny models."""
    return SCALE * learning_rate(step, TINY.d_model, WARMUP)


def rate_without_warmup(step: int) -> float:
    """`paper_rate`, but during the warm-up already what it rises to."""
    return paper_rate(max(step, WARMUP))


def fresh(settings: ModelSettings, seed: int) -> Model:
    """A model with the weights that training begins with."""
    torch.manual_seed(seed)
    return build_model(settings, VOCABULARY, VOCABULARY)


def train(
    settings: ModelSettings,
    task: Task,
    updates: int,
    seed: int,
    rate: Callable[[int], float] = paper_rate,
    smoothing: float = 0.0,
    beta2: float = 0.98,
    pairs: int = 32,
    watch: Callable[[int, Model, float], None] = lambda step, model, nll: None,
) -> Model:
    """A model trained with so many pairs an update, in evaluation mode.

    `watch` gets each update's number, the model with the update's gradient, and its nll a token in nats.
    """
    model = fresh(settings, seed)
    objective, optimizer = Objective(model, smoothing, bfloat16=False).train(), make_optimizer(model)
    optimizer.param_groups[0]["betas"] = 0.9, beta2
    generator = np.random.default_rng([seed, 1])
    for step in range(1, updates + 1):
        seed_update(seed, step, 0)
        batch = batch_of([task(generator) for _ in range(pairs)])
        loss, nll = objective(batch)
        (loss / batch.tokens).backward()
        watch(step, model, float(nll) / batch.tokens)
        step_optimizer(optimizer, model, rate(step), 0.0)
        optimizer.zero_grad()
    return model.eval()


def recorder(losses: list[float]) -> Callable[[int, Model, float], None]:
    """What `train` takes as `watch`, to append the nll of each update."""
    return lambda step, model, nll: losses.append(nll)


@torch.no_grad()
def token_log_probs(model: Model, batch: Batch) -> torch.Tensor:
    """The log-probabilities of all ids after each prefix of the targets [B T V]."""
    return model.logits(model.decode(batch.target_in, model.encode(batch.source))[0]).log_softmax(-1)


def nll(model: Model, batch: Batch) -> float:
    """Negative log-likelihood a token, in nats."""
    log_probs = token_log_probs(model, batch).gather(2, batch.target_out[:, :, None])[:, :, 0]
    return -float(log_probs[batch.target_out > 0].mean())


def token_accuracy(model: Model, batch: Batch) -> float:
    """The share of tokens that are the likeliest after the target's own prefix."""
    right = token_log_probs(model, batch).argmax(-1) == batch.target_out
    return float(right[batch.target_out > 0].float().mean())


def wanted(batch: Batch) -> list[list[int]]:
    """The targets, without END and padding."""
    return [[token for token in row if token > END] for row in batch.target_out.tolist()]


def exact(model: Model, batch: Batch) -> float:
    """The share of targets that greedy search finds."""
    hypotheses = greedy_search(model, batch.source, GREEDY)
    return mean(float(best.ids == row) for (best, *_), row in zip(hypotheses, wanted(batch), strict=True))


def letter_bleu(model: Model, batch: Batch) -> float:
    """Corpus BLEU of what greedy search finds, each id a word."""
    outputs = [best.ids for best, *_ in greedy_search(model, batch.source, GREEDY)]
    hypotheses, references = (
        [" ".join(map(str, ids)) for ids in texts] for texts in (outputs, wanted(batch))
    )
    return bleu(hypotheses, references, tokenize="none").value


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The mean over the seeds, and the least and greatest value."""
    return f"{mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def short(quick: bool, updates: int, seeds: int = len(SEEDS)) -> tuple[range, int]:
    """The seeds and the number of updates: of the quick form one seed, and a twentieth, at most 20."""
    return (range(1, 2), min(max(updates // 20, 2), 20)) if quick else (range(1, seeds + 1), updates)


def mean_curve(runs: Sequence[Sequence[float]], every: int) -> list[tuple[float, float]]:
    """Points of a curve: the mean over the runs and over so many updates, at their last."""
    curve = np.mean(np.array(runs), 0)
    return [
        (float(end), float(curve[end - every : end].mean())) for end in range(every, len(curve) + 1, every)
    ]

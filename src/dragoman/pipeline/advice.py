"""Training, and sentences at its end about what went wrong."""

import logging
from pathlib import Path

import numpy as np

from dragoman.model.symbols import END, UNKNOWN
from dragoman.pipeline.autoconfigure import peak_rate
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.run import run
from dragoman.system.errors import OptionMessage
from dragoman.system.torchrun import process_rank
from dragoman.text.corpus import Corpus
from dragoman.training.events import Observer

logger = logging.getLogger(__name__)
COUNTED = 100_000  # training pairs, for the frequencies of tokens
MOST_UNKNOWN = 0.01  # share of unknown tokens that needs no word


def run_with_advice(recipe: Recipe, observer: Observer | None = None) -> Path:
    """As `run`, with advice at the end of a training."""
    path = recipe.folder / "result.json"
    before = path.read_bytes() if path.exists() else None
    out = run(recipe, observer)
    if path.read_bytes() != before and process_rank() == 0:
        advise(out)
    return out


def advise(out: Path) -> None:
    """Say so if the model of a finished run is no better than the frequencies of tokens, or lacks tokens."""
    nll = read_run_result(out).validation["nll"]
    data, recipe = PreparedData.load(out / "data"), read_recipe(out)
    by_frequency = nll_of_frequencies(data.train, data.valid, len(data.tokenizers.target))
    if nll >= by_frequency:
        message = (
            "The model has not learned to translate. The frequencies of the tokens alone predict the "
            f"validation data as well: {by_frequency:.2f} nats per token, and the model has {nll:.2f}. Train "
            "for longer ({updates} or {minutes}), or lower the learning rate's peak, which was "
            f"{peak_rate(recipe):.2g} ({{learning_rate_scale}}, {{warmup_steps}}). "
            "docs/how-to/diverging.md has other causes."
        )
        logger.info(OptionMessage(message))
    shares = [unknown_share(data.valid, side) for side in (0, 1)]
    if max(shares) > MOST_UNKNOWN:
        remedy = "A larger {vocabulary} has more of them; {source_tokens} and {target_tokens} bpe have all."
        if recipe.adaptation.initial_model is not None:
            remedy = "The vocabulary is that of the initial model."
        finding = (
            f"Of the validation tokens, {shares[0]:.1%} of the source and {shares[1]:.1%} of the target are "
            "unknown to the vocabulary."
        )
        logger.info(OptionMessage(f"{finding} {remedy}"))


def unknown_share(corpus: Corpus, side: int) -> float:
    """The share of a side's tokens that the vocabulary does not have."""
    sentences = [corpus[number][side] for number in range(len(corpus))]
    return float(np.mean(np.concatenate(sentences) == UNKNOWN))


def nll_of_frequencies(train: Corpus, valid: Corpus, vocabulary: int) -> float:
    """The nll per validation token, END included, of the frequencies of the training text's tokens."""

    def counts(corpus: Corpus, pairs: int) -> np.ndarray:
        totals = np.zeros(vocabulary, dtype=np.int64)
        for number in range(pairs):
            np.add.at(totals, corpus[number][1], 1)
        totals[END] += pairs
        return totals

    train_counts = counts(train, min(len(train), COUNTED)) + 1  # each token was seen once more
    valid_counts = counts(valid, len(valid))
    return float(-(valid_counts * np.log(train_counts / train_counts.sum())).sum() / valid_counts.sum())

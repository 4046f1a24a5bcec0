"""Training, and a sentence at its end if the model has learned nothing."""

import json
import os
from pathlib import Path

import numpy as np

from dragoman.model.symbols import END
from dragoman.pipeline.autoconfigure import peak_rate
from dragoman.pipeline.prepare import PreparedData
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.run import run
from dragoman.system.messages import Say
from dragoman.text.corpus import Corpus

COUNTED = 100_000  # training pairs, for the frequencies of tokens


def run_with_advice(recipe: Recipe, say: Say) -> Path:
    """As `run`. Says so at the end of a training if the model has learned nothing."""
    was_finished = (recipe.folder / "result.json").exists()
    out = run(recipe, say)
    if not was_finished and int(os.environ.get("RANK", "0")) == 0:
        advise(out, say)
    return out


def advise(out: Path, say: Say) -> None:
    """Say so if the model of a finished run is no better than the frequencies of the tokens."""
    nll = json.loads((out / "result.json").read_text())["validation"]["nll"]
    data = PreparedData.load(out / "data")
    by_frequency = nll_of_frequencies(data.train, data.valid, len(data.tokenizers.target))
    if nll < by_frequency:
        return
    peak = peak_rate(read_recipe(out))
    say(
        "The model has not learned to translate. The frequencies of the tokens alone predict the validation "
        f"data as well: {by_frequency:.2f} nats per token, and the model has {nll:.2f}. Train for longer "
        f"(--updates or --minutes), or lower the learning rate's peak, which was {peak:.2g} "
        "(--learning-rate-scale, --warmup-steps). docs/how-to/diverging.md has other causes."
    )


def nll_of_frequencies(train: Corpus, valid: Corpus, vocabulary: int) -> float:
    """The nll per validation token, END included, of the frequencies of the training text's tokens."""

    def counts(corpus: Corpus, pairs: int) -> np.ndarray:
        found = np.zeros(vocabulary, dtype=np.int64)
        for number in range(pairs):
            np.add.at(found, corpus[number][1], 1)
        found[END] += pairs
        return found

    known = counts(train, min(len(train), COUNTED)) + 1  # each token was seen once more
    seen = counts(valid, len(valid))
    return float(-(seen * np.log(known / known.sum())).sum() / seen.sum())

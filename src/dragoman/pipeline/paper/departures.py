"""Which settings of a recipe are not the paper's, and where the paper says so. Does not import torch."""

from dataclasses import replace
from typing import Any, NamedTuple

from dragoman.model.baseline_shapes import ENRICHED
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.paper.figures import PAPER_TOKENS, PAPER_VOCABULARY, TRAINING_RUNS
from dragoman.pipeline.recipe import Recipe
from dragoman.text.settings import BatchSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings

SECTIONS = {
    "model": {
        "architecture": "3",
        "d_model": "3.1",
        "d_ff": "3.3",
        "decoder_d_ff": "3.3",
        "heads": "3.2.2",
        "d_k": "3.2.2",
        "d_v": "3.2.2",
        "encoder_layers": "3.1",
        "decoder_layers": "3.1",
        "dropout": "5.4",
        "attention_dropout": "5.4",
        "positions": "3.5",
        "first_position": "3.5",
        "norm": "3.1",
        "activation": "3.3",
        "attention_bias": "3.2.2",
        "output_bias": "3.4",
        "tied": "3.4",
        "scale_embeddings": "3.4",
    },
    "tokenizer": {"source_tokens": "5.1", "share_vocabulary": "5.1", "vocabulary": "5.1"},
    "batches": {"source_tokens_per_batch": "5.1", "target_tokens_per_batch": "5.1", "accumulate": "5.1"},
    "training": {
        "updates": "5.2",
        "patience": "5.2",
        "warmup_steps": "5.3",
        "learning_rate_scale": "5.3",
        "clip_norm": "5.3",
        "label_smoothing": "5.4",
        "average": "6.1",
        "precision": "6.1",
    },
    "adaptation": {"peak_rate": "5.3"},
    "search": {
        "beam_size": "6.1",
        "length_penalty": "6.1",
        "length_power": "6.1",
        "max_extra_tokens": "6.1",
        "coverage_penalty": "6.1",
    },
}
"""The settings that the paper speaks of, by tables of a recipe, with its sections."""

FIXED = (
    (
        "initial weights",
        "not given",
        "as fairseq: Xavier, over √2 for queries, keys and values; feed-forward uniform in ±1/√fan_in",
    ),
    (
        "checkpoint that is kept",
        "the average of the last 5, written every 10 minutes, or of 20 for big (6.1)",
        "of best, last and average the one with the lowest validation perplexity; an interval in updates",
    ),
    ("tokens of a batch", "about 25,000, whether with padding is not said (5.1)", "padding included"),
    ("ε of layer normalisation", "not given", "norm_epsilon, 0.00001 by default"),
)
"""What no setting changes, or the paper leaves open: subject, the paper, Dragoman."""


class Departure(NamedTuple):
    """A setting that is not the paper's."""

    setting: str
    value: Any
    """None is chosen from the text and the machine when a run begins."""
    paper: Any
    section: str


def paper_recipe(name: str) -> Recipe:
    """The paper's own settings, of `base` or `big`, English to German."""
    return Recipe(
        preset="big" if name == "big" else "base",
        model=PRESETS[name],
        tokenizer=TokenizerSettings(vocabulary=PAPER_VOCABULARY),
        batches=BatchSettings(source_tokens_per_batch=PAPER_TOKENS, target_tokens_per_batch=PAPER_TOKENS),
        training=TrainingSettings(
            updates=TRAINING_RUNS[name].updates,
            warmup_steps=4000,
            precision="float32",
            average=20 if name == "big" else 5,
            patience=0,
        ),
    )


def departures(recipe: Recipe) -> list[Departure]:
    """The settings of a recipe that are not the paper's: those of big for the preset `big`, else of base."""
    paper = paper_recipe("big" if recipe.preset == "big" else "base")
    if recipe.model.decoder_d_ff is not None:  # the paper has one d_ff for both
        paper = replace(paper, model=replace(paper.model, decoder_d_ff=paper.model.d_ff))
    own, theirs = (replace(each, model=with_widths(each.model)) for each in (recipe, paper))
    return [
        Departure(f"{table}.{name}", value, wanted, section)
        for table, names in SECTIONS.items()
        for name, section in names.items()
        if (value := getattr(getattr(own, table), name)) != (wanted := getattr(getattr(theirs, table), name))
    ]


def with_widths(settings: ModelSettings) -> ModelSettings:
    """The settings with d_k and d_v as numbers. An LSTM, GRU or ConvS2S has no heads: it gets the paper's."""
    sizes = settings if settings.architecture in ("transformer", *ENRICHED) else ModelSettings()
    return replace(settings, d_k=sizes.key_width, d_v=sizes.value_width)

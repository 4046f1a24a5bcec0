"""Which settings of a recipe are not the paper's, and where the paper says so. Does not import torch."""

from dataclasses import fields, replace
from typing import Any, NamedTuple

from dragoman.model.settings import ENRICHED, PRESETS, ModelSettings
from dragoman.pipeline.recipe import Recipe, learning_rate_schedule, optimizer_of
from dragoman.text.settings import BatchSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings
from dragoman_paper.tables.published import PAPER_SEARCH, PAPER_TOKENS, PAPER_VOCABULARY, TRAINING_RUNS

NOT_GIVEN = "not given"
"""In place of a section: the paper does not say, and a value other than the default is named."""

SECTIONS = {
    "data": {"guided_alignment": NOT_GIVEN, "terms": NOT_GIVEN},
    "tokenizer": {
        "source_tokens": "5.1",
        "target_tokens": "5.1",
        "vocabulary": "5.1",
        "share_vocabulary": "5.1",
        "bpe_dropout": NOT_GIVEN,
        "sampling_alpha": NOT_GIVEN,
        "byte_fallback": NOT_GIVEN,
        "character_coverage": NOT_GIVEN,
        "normalization": NOT_GIVEN,
    },
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
        "concatenate_positions": "3.5",
        "first_position": "3.5",
        "decoder_start": NOT_GIVEN,
        "source_end": NOT_GIVEN,
        "norm": "3.1",
        "norm_epsilon": NOT_GIVEN,
        "activation": "3.3",
        "residual": "3.1",
        "attention_score": "3.2.1",
        "neighbourhood": "3.2.3",
        "decoder_mixer": "3.2.3",
        "attention_bias": "3.2.2",
        "output_bias": "3.4",
        "tied": "3.4",
        "scale_embeddings": "3.4",
        "alignment_head": NOT_GIVEN,
    },
    "batches": {"source_tokens_per_batch": "5.1", "target_tokens_per_batch": "5.1", "accumulate": "5.1"},
    "training": {
        "updates": "5.2",
        "patience": "5.2",
        "optimizer": "5.3",
        "schedule": "5.3",
        "warmup_steps": "5.3",
        "learning_rate_scale": "5.3",
        "clip_norm": "5.3",
        "label_smoothing": "5.4",
        "average": "6.1",
        "precision": NOT_GIVEN,
        "on_divergence": NOT_GIVEN,
    },
    "search": {
        "beam_size": "6.1",
        "length_penalty": "6.1",
        "length_power": "6.1",
        "max_extra_tokens": "6.1",
        "max_length": "6.1",
        "coverage_penalty": "6.1",
        "groups": "6.1",
        "min_length": "6.1",
        "no_repeat_ngram": "6.1",
        "ban_words": "6.1",
        "prefix": "6.1",
        "force_words": "6.1",
        "temperature": "6.1",
        "mbr": "6.1",
        "replace_unknown": NOT_GIVEN,
        "truncate": NOT_GIVEN,
        "split": NOT_GIVEN,
    },
    "adaptation": {
        "initial_model": NOT_GIVEN,
        "peak_rate": "5.3",
        "freeze": NOT_GIVEN,
        "lora_rank": NOT_GIVEN,
        "replay": NOT_GIVEN,
    },
}
"""The settings that are compared with the paper, by tables of a recipe, with its sections.

Those of `NOT_GIVEN` change what is computed, and the paper does not speak of them.
"""

BESIDE = {
    "data": {
        "source": "the text is the user's",
        "target": "the text is the user's",
        "valid_source": "the text is the user's",
        "valid_target": "the text is the user's",
        "test_source": "the text is the user's",
        "test_target": "the text is the user's",
        "folder": "where the text is",
        "corpus": "the text is the user's",
        "dataset": "the text is the user's",
        "source_language": "a name of the text",
        "target_language": "a name of the text",
        "longest": "which of the user's pairs are used",
        "drop_copies": "which of the user's pairs are used",
        "drop_overlap": "which of the user's pairs are used",
        "pair_temperature": "how often the user's pairs are used",
    },
    "tokenizer": {
        "sampled_copies": "acts with bpe_dropout or sampling_alpha only",
        "symbols": "names of the user's text",
        "tokenizer_pairs": "memory",
        "of_model": "the vocabulary of a teacher",
    },
    "model": {
        "kernel_width": "acts in other architectures only",
        "dilated": "acts in other architectures only",
        "input_feeding": "acts in other architectures only",
        "max_positions": "acts with learned positions only",
    },
    "batches": {"micro_batch_tokens": "memory: the gradient is the same"},
    "training": {
        "minutes": "acts by the number of updates",
        "stop_at": "acts by the number of updates",
        "cooldown_steps": "acts with another schedule only",
        "guided_alignment_weight": "acts with guided_alignment only",
        "seed": "which random numbers",
        "validate_every": "what is reported",
        "checkpoint_every": "what is written; FIXED says what is kept",
        "best_by": "FIXED says what is kept",
        "log_every": "what is reported",
        "tensorboard": "what is reported",
        "shard": "memory: the gradient is the same",
        "native": "speed: the formulas are the same",
        "threads": "speed",
    },
    "search": {
        "n_best": "how many results of the search are written",
        "diversity": "acts with groups only",
        "keep_tags": "what is put back into the text",
        "top_k": "acts with a temperature only",
        "top_p": "acts with a temperature only",
        "sampling_seed": "acts with a temperature only",
        "batch_tokens": "memory and speed",
    },
    "adaptation": {
        "new_vocabulary": "acts with initial_model only",
        "lora_alpha": "acts with lora_rank only",
        "lora_maps": "acts with lora_rank only",
        "replay_share": "acts with replay only",
        "replay_valid": "what is reported",
    },
}
"""The other settings, by tables of a recipe, each with the reason why it is no departure."""

FIXED = (
    (
        "initial weights",
        NOT_GIVEN,
        "as fairseq: Xavier, over √2 for queries, keys and values; feed-forward uniform in ±1/√fan_in",
    ),
    (
        "checkpoint that is kept",
        "the average of the last 5, written every 10 minutes, or of 20 for big (6.1)",
        "of best, last and average the one with the lowest validation perplexity; an interval in updates",
    ),
    ("tokens of a batch", "about 25,000, whether with padding is not said (5.1)", "padding included"),
    ("ε of layer normalisation", NOT_GIVEN, "norm_epsilon, 0.00001 by default"),
    ("number type of the computation", NOT_GIVEN, "precision, float32 or bfloat16"),
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
            optimizer="adam",
            schedule="paper",
            warmup_steps=4000,
            precision="float32",
            average=20 if name == "big" else 5,
            patience=0,
        ),
        search=PAPER_SEARCH,
    )


def departures(recipe: Recipe) -> list[Departure]:
    """The settings of a recipe that are not the paper's: those of big for the preset `big`, else of base."""
    paper = paper_recipe("big" if recipe.preset == "big" else "base")
    if recipe.model.decoder_d_ff is not None:  # the paper has one d_ff for both
        paper = replace(paper, model=replace(paper.model, decoder_d_ff=paper.model.d_ff))
    recipe, paper = with_inherited(recipe), with_inherited(paper)
    departed = []
    for table, beside in BESIDE.items():
        settings, paper_settings = getattr(recipe, table), getattr(paper, table)
        for name in [field.name for field in fields(settings) if field.name not in beside]:
            value, paper_value, section = (
                getattr(settings, name),
                getattr(paper_settings, name),
                SECTIONS[table][name],
            )
            if value == paper_value:
                continue
            if section == NOT_GIVEN:
                paper_value, section = NOT_GIVEN, ""
            elif name == "attention_score":  # whose default is None
                paper_value = "scaled-dot"
            departed.append(Departure(f"{table}.{name}", value, paper_value, section))
    return departed


def with_inherited(recipe: Recipe) -> Recipe:
    """The recipe with the values that settings have from others: d_k, d_v, schedule, kind of target tokens,
    and with `min_length` as a number.

    An LSTM, GRU or ConvS2S has no heads: it gets the paper's widths.
    """
    model, tokenizer = recipe.model, recipe.tokenizer
    sizes = model if model.architecture in ("transformer", *ENRICHED) else ModelSettings()
    return replace(
        recipe,
        model=replace(model, d_k=sizes.key_width, d_v=sizes.value_width),
        training=replace(
            recipe.training,
            optimizer=optimizer_of(recipe),
            schedule=learning_rate_schedule(recipe),
        ),
        tokenizer=replace(tokenizer, target_tokens=tokenizer.target_tokens or tokenizer.source_tokens),
        search=replace(recipe.search, min_length=recipe.search.least_tokens),
    )

"""Validation and test of a model of several pairs of languages: each pair, and the mean over pairs."""

import logging
from collections.abc import Mapping, Sequence
from statistics import fmean

from dragoman.evaluation.metrics import Score
from dragoman.model.interface import Model
from dragoman.model.loss import perplexity
from dragoman.training.context import Samples, Scores, Validate

logger = logging.getLogger(__name__)


def validate_pairs(validate_pair: Mapping[str, Validate]) -> Validate:
    """The mean over pairs of languages, by name, with the scores of each as `en-de_bleu` and so on.

    The perplexity is that of the mean negative log-likelihood.
    """

    def validate(model: Model, name: str) -> tuple[Scores, Samples]:
        results = {pair: one(model, f"{name}, {pair}") for pair, one in validate_pair.items()}
        scores = {pair: pair_scores for pair, (pair_scores, _) in results.items()}
        first, *_ = scores.values()
        means = {key: fmean(pair_scores[key] for pair_scores in scores.values()) for key in first}
        means["perplexity"] = perplexity(means["nll"])
        if len(scores) > 1:
            logger.info(
                f"Validation {name}, mean of {len(scores)} pairs of languages: loss {means['loss']:.3f}, "
                f"negative log-likelihood {means['nll']:.3f}, perplexity {means['perplexity']:.4g}, "
                f"BLEU {means['bleu']:.2f} (greedy)."
            )
        each = {f"{pair}_{key}": pair_scores[key] for pair, pair_scores in scores.items() for key in first}
        return means | each, [sample for _, samples in results.values() for sample in samples]

    return validate


def mean_scores(scores_of_pairs: Mapping[str, Sequence[Score]]) -> list[Score]:
    """The mean over pairs of languages of each score, then the scores of each pair, named with it."""
    means = [
        Score(
            f"mean {of_name[0].name}",
            fmean(score.value for score in of_name),
            "; ".join(dict.fromkeys(score.signature for score in of_name)),
        )
        for of_name in zip(*scores_of_pairs.values(), strict=True)
    ]
    each = [
        Score(f"{pair} {score.name}", score.value, score.signature, score.detail)
        for pair, scores in scores_of_pairs.items()
        for score in scores
    ]
    return [*means, *each] if len(scores_of_pairs) > 1 else each

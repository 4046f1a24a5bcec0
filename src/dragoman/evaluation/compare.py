"""Whether one system is better than another: paired bootstrap resampling (Koehn 2004) by sacreBLEU.

Strings only.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dragoman.evaluation.metrics import Score, bleu_metric, check_lines, suitable_tokenization
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    import numpy as np
    from sacrebleu.metrics.base import Metric
    from sacrebleu.significance import Result


@dataclass(frozen=True)
class Comparison:
    """A system's score and a baseline's, with the p-value of their difference."""

    score: Score
    baseline: Score
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.score.name} = {self.score.value:.2f}, baseline {self.baseline.value:.2f}: "
            f"{difference(self.score, self.baseline):+.2f} (p = {self.p_value:.4f})  [{self.score.signature}]"
        )


def difference(score: Score, baseline: Score) -> float:
    """How much higher a score is than another one.

    Raises `DragomanError` if they are not the same measure.
    """
    if (score.name, score.signature) != (baseline.name, baseline.signature):
        raise DragomanError(
            f"{score.name} [{score.signature}] and {baseline.name} [{baseline.signature}] are different "
            "measures: their numbers cannot be compared. Score both in the same way."
        )
    return score.value - baseline.value


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    metrics: Sequence["Metric"],
    samples: int = 1000,
) -> list[Comparison]:
    """The scores of two systems' translations of the same lines by sacreBLEU's metrics, with its p-values
    from `samples` resamples: of one side, so 0.025 is 0.05 of both.

    sacreBLEU's seed is fixed (12345, or SACREBLEU_SEED), so that the same lines give the same p-values.
    Raises `DragomanError` for different numbers of lines, or none, and as `seed_of_environment`.
    """
    from sacrebleu.significance import PairedTest

    for lines in (hypotheses, baseline):
        check_lines(lines, references)
    seed_of_environment()  # raises, before sacreBLEU reads it
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(hypotheses))]
    named = {str(number): metric for number, metric in enumerate(metrics)}  # PairedTest names them itself
    signatures, table = PairedTest(systems, named, [list(references)], test_type="bs", n_samples=samples)()
    comparisons = []
    for name, signature in signatures.items():
        baseline_result, system_result = cast("Sequence[Result]", table[name])
        score, baseline_score = (
            Score(name, result.score, str(signature)) for result in (system_result, baseline_result)
        )
        assert system_result.p_value is not None
        # For equal scores sacreBLEU gives its least p-value, such as 0.001.
        comparisons.append(
            Comparison(
                score,
                baseline_score,
                system_result.p_value if system_result.score != baseline_result.score else 1.0,
            )
        )
    return comparisons


def paired_bootstrap_of_means(
    name: str, signature: str, lines: Sequence[float], baseline: Sequence[float], samples: int = 1000
) -> Comparison:
    """The same test of a measure that is the mean of the lines' scores, which are given.

    The lines of each sample are sacreBLEU's. Raises `DragomanError` for different numbers of lines, or none,
    and as `seed_of_environment`.
    """
    import numpy as np

    check_lines(lines, baseline)
    drawn = drawn_lines(len(lines), samples)
    system_scores, baseline_scores = np.array(lines), np.array(baseline)
    observed = abs(system_scores.mean() - baseline_scores.mean())
    p_value = p_value_of(np.abs(system_scores[drawn].mean(1) - baseline_scores[drawn].mean(1)), observed)
    signature += f"|bs:{samples}|seed:{seed_of_environment()}"
    score, baseline_score = (
        Score(name, float(scores.mean()), signature) for scores in (system_scores, baseline_scores)
    )
    return Comparison(score, baseline_score, p_value)


def drawn_lines(count: int, samples: int) -> "np.ndarray":
    """The numbers of the lines of sacreBLEU's samples [samples, count]. Raises as `seed_of_environment`."""
    import numpy as np

    seed = seed_of_environment()
    return np.random.default_rng(None if seed == "none" else int(seed)).choice(count, (samples, count))


def p_value_of(differences: "np.ndarray", observed: float) -> float:
    """SacreBLEU's p-value of an absolute difference, from those of the samples; 1 if there is none."""
    larger = int((differences - differences.mean() > observed).sum())
    return (larger + 1) / (len(differences) + 1) if observed else 1.0


def seed_of_environment() -> str:
    """The seed of sacreBLEU's bootstrap samples: a number, or "none" for another one each time.

    Raises `DragomanError` if SACREBLEU_SEED is anything else.
    """
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdigit()):
        raise DragomanError(
            f"SACREBLEU_SEED is {seed!r}; it has to be a number, such as 12345, or none for other samples "
            "each time."
        )
    return seed.lower()


def bleu_p_value(
    systems: Sequence[Sequence[str]], baselines: Sequence[Sequence[str]], references: Sequence[str]
) -> float:
    """The p-value of the BLEU of several runs beside as many baselines, of tokens that suit the references.

    A sample draws lines, each with the translations of all runs: those of one line are not independent. Of
    one run it is that of `paired_bootstrap`, and it raises as that does.
    """
    import numpy as np

    metric = bleu_metric(suitable_tokenization(references), lowercase=False)

    def statistics(runs: Sequence[Sequence[str]]) -> np.ndarray:
        for lines in runs:
            check_lines(lines, references)
        scores = [
            [metric.corpus_score([a], [[b]]) for a, b in zip(run, references, strict=True)] for run in runs
        ]
        return np.array([[[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in run] for run in scores]).sum(
            0
        )

    def value(counts: np.ndarray) -> float:
        sys_len, ref_len, *others = counts.tolist()
        order = len(others) // 2
        return metric.compute_bleu(
            others[:order], others[order:], sys_len, ref_len, metric.smooth_method
        ).score

    system_statistics, baseline_statistics = statistics(systems), statistics(baselines)
    drawn = drawn_lines(len(references), 1000)
    differences = [
        abs(value(system_statistics[sample].sum(0)) - value(baseline_statistics[sample].sum(0)))
        for sample in drawn
    ]
    return p_value_of(
        np.array(differences), abs(value(system_statistics.sum(0)) - value(baseline_statistics.sum(0)))
    )

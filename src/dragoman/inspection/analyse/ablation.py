"""What a head contributes: the change of log P(translation | sentence) without it.

Heads are removed as by Michel et al. 2019, who measured BLEU.

Shapes: P pairs of a sentence and a translation, L layers, H heads, B pairs of a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.inspection.analyse.changes import HeadOff
from dragoman.inspection.analyse.interventions import with_interventions
from dragoman.inspection.record.inspected import is_blank, one_transformer
from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Array
from dragoman.model.transformer import Transformer
from dragoman.search.contradictions import refuse_settings, refuse_truncation
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.analysis import forced_batches
from dragoman.translation.token_ids import explain_out_of_memory
from dragoman.translation.translator import Translator

Pair = tuple[str, str | Sequence[str]]
BATCH_TOKENS = 2_000


@dataclass(frozen=True)
class HeadEffects:
    """The log-probability of a translation without each head, minus that with all heads, in nats."""

    log_probability: float
    """With all heads."""
    encoder: Array
    """Of each head of encoder self-attention [L H]."""
    decoder: Array
    """Of decoder self-attention [L H]."""
    cross: Array
    """Of encoder-decoder attention [L H]."""


def head_effects(translator: Translator, sentence: str, translation: str | Sequence[str]) -> HeadEffects:
    """The effect of each head on a translation, a text or its tokens, by forced decoding without the head.

    Raises `DragomanError` for a blank sentence, as `Translator.score`, and for a model that is not one
    Transformer.
    """
    if is_blank(translator, sentence):
        raise DragomanError("The sentence is blank: no head contributes to it. Give one with words.")
    log_probs, effects = pair_effects(translator, [(sentence, translation)])
    return HeadEffects(float(log_probs[0]), *(effects[use][0] for use in KINDS))


def translated_pairs(translator: Translator, lines: Sequence[str], settings: SearchSettings) -> list[Pair]:
    """The lines with their best translations, or those that minimum Bayes risk chooses among n_best samples.

    Lines are translated whole, as they are read again when their translations are scored. Raises
    `DragomanError` as `Translator.n_best`, and for settings that truncate or split the lines, or that take
    their tags away.
    """
    refuse_truncation(settings.truncate, "Forced decoding of a translation")
    refuse_settings(
        settings, "Forced decoding of a translation is of the whole line as it is", ("split", "keep_tags")
    )
    search = replace(settings, split=0) if settings.mbr else replace(settings, split=0, n_best=1)
    n_best = translator.n_best(lines, search)
    return [(line, best[0].tokens or best[0].text) for line, best in zip(lines, n_best, strict=True)]


def pair_effects(
    translator: Translator,
    pairs: Sequence[Pair],
    progress: Callable[[int, int], None] = lambda done, heads: None,  # noqa: ARG005
) -> tuple[Array, dict[Kind, Array]]:
    """The log-probability of each pair with all heads [P], and its change without each head [P L H] by use.

    `progress` gets the number of heads that are done and that of all. Raises as `head_effects`.
    """
    model = one_transformer(translator)
    batches = list(forced_batches(translator, pairs, BATCH_TOKENS))

    def log_probabilities(changed: Transformer) -> Array:
        log_probs = np.zeros(len(pairs), np.float32)
        for batch, source, target in batches:
            with explain_out_of_memory(len(batch)):
                rows = token_log_probabilities(changed, source, target).sum(1)
            log_probs[[number for number, _, _ in batch]] = rows.float().cpu().numpy()
        return log_probs

    baseline = log_probabilities(model)
    all_heads = heads_of(model)
    effects: dict[Kind, list[Array]] = {use: [] for use in KINDS}
    for done, head in enumerate(all_heads, 1):
        effects[head.use].append(log_probabilities(with_interventions(model, [head])) - baseline)
        progress(done, len(all_heads))
    heads = model.settings.heads
    return baseline, {use: np.stack(rows, 1).reshape(len(pairs), -1, heads) for use, rows in effects.items()}


def heads_of(model: Transformer) -> list[HeadOff]:
    """The removal of each head, by use, layer and head."""
    layers = {"encoder": len(model.encoder), "decoder": len(model.decoder), "cross": len(model.decoder)}
    return [
        HeadOff(use, layer, head)
        for use in KINDS
        for layer in range(1, layers[use] + 1)
        for head in range(1, model.settings.heads + 1)
    ]

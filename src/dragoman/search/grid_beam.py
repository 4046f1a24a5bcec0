"""Translations that contain given words: grid beam search (Hokamp and Liu 2017), guided by attention.

There is one beam for each number of forced tokens that its hypotheses have met. The beam of those that have
met all is as wide as the search asks, and the others are half as wide (experiments/LOG.md).

If the source tokens that a phrase translates are known, attention decides where it is written. With m the
attention to them at a step, a hypothesis gets 3 log m for a token that begins the phrase, and log(1 - m) for
any other token. Without this the model translates the word in its own way, and adds the phrase elsewhere.

Shapes: S source tokens, W hypotheses in the widest beam, C forced tokens, R hypotheses in all beams, T tokens
so far, V vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.interface import Model, State
from dragoman.model.symbols import END, PAD, START
from dragoman.search.attention_weights import alignment_weights, has_cross_attention
from dragoman.search.beam import max_target_lengths, next_log_probs, restrict
from dragoman.search.hypothesis import (
    Constraints,
    Hypothesis,
    NBest,
    Phrase,
    beam_width,
    grid_rows,
    length_normalization,
    scored,
)
from dragoman.search.settings import SearchSettings
from dragoman.search.top_k import top_k_extensions
from dragoman.system.errors import NonFiniteError

BEGIN_WEIGHT, OTHER_WEIGHT = 3.0, 1.0
"""Chosen on validation data (experiments/LOG.md)."""
MIN_ATTENTION = 0.01
"""m is between this and 1 minus this."""


@dataclass(frozen=True)
class LiveHypothesis:
    """An unfinished hypothesis: its ids with START, its log-probability, its row of the model's state."""

    ids: list[int]
    log_prob: float
    row: int
    guidance: float = 0.0

    @property
    def total(self) -> float:
        """What ranks it."""
        return self.log_prob + self.guidance


@dataclass(frozen=True)
class GridStep:
    """One step of the search for a sentence."""

    beams: dict[int, list[LiveHypothesis]]
    """The candidates by the number of forced tokens that they have met, likeliest first in each beam.

    `row` is the place of what they extend among the hypotheses that were live before the step."""
    live: list[LiveHypothesis]
    """Those that the next step extends."""
    best: list[Hypothesis]
    """The result, after the last step; empty before it."""


@torch.no_grad()
def grid_beam_search(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> NBest:
    """The `n_best` best translations of each sentence that contain every forced phrase."""
    results = []
    for row in source:
        for step in grid_steps(model, row[row != PAD][None], settings, constraints):
            last = step
        results.append(last.best)
    return results


@torch.no_grad()
def grid_steps(
    model: Model, source: Int[Tensor, "1 S"], settings: SearchSettings, constraints: Constraints
) -> Iterator[GridStep]:
    """Grid beam search for one sentence, step by step.

    Each step extends every hypothesis by its likeliest tokens and by the next tokens of unmet phrases. For
    each number of forced tokens met, the `beam_width` likeliest hypotheses are kept. END is allowed only if
    all are met. The stop rule is that of beam search; before it, a hypothesis leaves as soon as its score is
    below that of `n_best` translations. If the other constraints leave no translation, the result is the one
    that has met most tokens.

    Raises `NonFiniteError` if the model's numbers are not finite.
    """
    width, forced_tokens = settings.beam_size, constraints.forced_tokens
    max_length = int(max_target_lengths(model, source, settings, constraints.min_capacity)[0])
    rows = grid_rows(forced_tokens, width)
    state = model.encode(source).allocate(rows, max_length + 1)
    is_guided = has_cross_attention(model) and any(phrase.places for phrase in constraints.forced)
    live, finished = [LiveHypothesis([START], 0.0, 0)], list[Hypothesis]()
    for step in range(max_length + 1):
        padded = live + live[:1] * (rows - len(live))
        state = state.reorder(torch.tensor([hypothesis.row for hypothesis in padded], device=source.device))
        tokens = torch.tensor([hypothesis.ids for hypothesis in padded], device=source.device)  # [R, T]
        features, state, attention = decode(model, tokens[:, -1:], state, is_guided)
        log_probs = next_log_probs(model, features[:, -1])[None, : len(live)]  # [1, live, V]
        if log_probs.isnan().any():
            raise NonFiniteError
        end_log_probs = log_probs[0, :, END].tolist()
        at_end = torch.tensor([step >= max_length], device=source.device)
        log_probs = restrict(log_probs, constraints, tokens[None, : len(live)], at_end)[0]  # [live, V]
        beams, extended = candidate_beams(live, log_probs, attention, constraints, width), live
        live = [
            hypothesis
            for met, beam in beams.items()
            for hypothesis in unfinished(beam, beam_width(met, forced_tokens, width))
        ]
        likeliest = beams.get(forced_tokens, [])[:width]
        ended = [hypothesis for hypothesis in likeliest if hypothesis.ids[-1] == END]
        finished += [
            scored(hypothesis.ids[1:-1], hypothesis.log_prob, settings, hypothesis.guidance)
            for hypothesis in ended
        ]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:width]
        if forced_tokens and len(finished) >= settings.n_best:
            normalization = float(length_normalization(step + 1, settings))
            worst = finished[settings.n_best - 1].score
            live = [hypothesis for hypothesis in live if hypothesis.total / normalization > worst]
        rank, reached = (0, step) if len(finished) == width else (settings.n_best - 1, max_length)
        best_live = max((hypothesis.total for hypothesis in live), default=-torch.inf) / float(
            length_normalization(reached + 1, settings)
        )
        if not live or (rank < len(finished) and best_live <= finished[rank].score):
            best = finished[: settings.n_best] or [
                meeting_most(extended, end_log_probs, constraints, settings)
            ]
            yield GridStep(beams, live, best)
            return
        yield GridStep(beams, live, [])


def decode(
    model: Model, tokens: Int[Tensor, "R 1"], state: State, is_guided: bool
) -> tuple[Float[Tensor, "R 1 D"], State, list[list[float]]]:
    """As `model.decode`, and the attention [R][S] that alignments are read from; none without guidance."""
    if not is_guided:
        return *model.decode(tokens, state), []
    with alignment_weights(model) as recorded:
        features, state = model.decode(tokens, state)
    return features, state, recorded().tolist()


def unfinished(beam: Sequence[LiveHypothesis], width: int) -> list[LiveHypothesis]:
    """The best candidates of a beam that do not end."""
    return [hypothesis for hypothesis in beam[: 2 * width] if hypothesis.ids[-1] != END][:width]


def candidate_beams(
    live: list[LiveHypothesis],
    log_probs: Float[Tensor, "live V"],
    attention: list[list[float]],
    constraints: Constraints,
    width: int,
) -> dict[int, list[LiveHypothesis]]:
    """Each hypothesis with each of its candidate tokens, by the number of forced tokens met.

    The numbers ascend, and candidates are best first in each beam. `log_probs` are those of the next tokens,
    `attention` [live][S] the weights at this step, if they guide the search.
    """
    forced_tokens = constraints.forced_tokens
    beams: dict[int, list[LiveHypothesis]] = defaultdict(list)
    for row, hypothesis in enumerate(live):
        text = hypothesis.ids[1:]
        met_tokens, row_log_probs = tokens_met(text, constraints), log_probs[row]
        before = torch.zeros(1, 1, device=row_log_probs.device)
        _, _, likeliest = top_k_extensions(
            row_log_probs[None, None], before, min(2 * width, len(row_log_probs))
        )
        forced = next_forced_tokens(text, constraints)
        for token in dict.fromkeys([*likeliest[0].tolist(), *forced]):
            log_prob = hypothesis.log_prob + float(row_log_probs[token])
            if log_prob > -torch.inf and (token != END or met_tokens == forced_tokens):
                place = forced_tokens if token == END else tokens_met([*text, token], constraints)
                added = guidance(text, token, attention[row], constraints) if attention else 0.0
                candidate = LiveHypothesis(
                    [*hypothesis.ids, token], log_prob, row, hypothesis.guidance + added
                )
                beams[place].append(candidate)
    for beam in beams.values():
        beam.sort(key=lambda hypothesis: -hypothesis.total)
    return dict(sorted(beams.items()))


def guidance(ids: list[int], token: int, attention: Sequence[float], constraints: Constraints) -> float:
    """What a token adds to a hypothesis's rank, by its attention [S] to the words that phrases translate."""
    added = 0.0
    for phrase in constraints.forced:
        if phrase.places and not is_begun(ids, phrase, constraints.continuing):
            weight = sum(attention[place] for place in phrase.places)
            weight = min(max(weight, MIN_ATTENTION), 1 - MIN_ATTENTION)
            begins = any(form[0] == token for form in phrase.forms)
            added += BEGIN_WEIGHT * math.log(weight) if begins else OTHER_WEIGHT * math.log(1 - weight)
    return added


def is_begun(ids: list[int], phrase: Phrase, continuing: Collection[int]) -> bool:
    """Whether the ids end inside of a form of a phrase that does not occur yet."""
    return not has(ids, phrase, continuing) and any(
        matched_prefix(ids, list(form), continuing) for form in phrase.forms
    )


def has(ids: list[int], phrase: Phrase, continuing: Collection[int]) -> bool:
    """Whether a phrase occurs in one of its forms."""
    return any(occurs(ids, list(form), continuing) for form in phrase.forms)


def meeting_most(
    live: list[LiveHypothesis], end_log_probs: list[float], constraints: Constraints, settings: SearchSettings
) -> Hypothesis:
    """The hypothesis that has met most forced tokens, and of these the best, END included."""
    best, end_log_prob = max(
        zip(live, end_log_probs, strict=True),
        key=lambda pair: (tokens_met(pair[0].ids[1:], constraints), pair[0].total + pair[1], pair[0].ids),
    )
    return scored(best.ids[1:], best.log_prob + end_log_prob, settings, best.guidance)


def tokens_met(ids: Sequence[int], constraints: Constraints) -> int:
    """The tokens of all phrases that occur, and of the longest phrase prefix at the end of the ids.

    A form that is shorter than its phrase's longest one counts as if its first tokens were met beforehand.
    """
    text, begun, completed = list(ids), 0, 0
    for phrase in constraints.forced:
        if has(text, phrase, constraints.continuing):
            completed += phrase.tokens
            continue
        for form in map(list, phrase.forms):
            if matched := matched_prefix(text, form, constraints.continuing):
                begun = max(begun, phrase.tokens - len(form) + matched)
    return completed + begun


def next_forced_tokens(ids: Sequence[int], constraints: Constraints) -> list[int]:
    """The tokens that would begin or continue a form of a phrase that does not occur yet."""
    text, tokens = list(ids), []
    for phrase in constraints.forced:
        if not has(text, phrase, constraints.continuing):
            for form in map(list, phrase.forms):
                tokens += [form[0], form[matched_prefix(text, form, constraints.continuing)]]
    return tokens


def occurs(ids: list[int], phrase: list[int], continuing: Collection[int]) -> bool:
    """Whether the phrase is in the ids, neither as the beginning nor as the end of a longer word."""
    size, padded = len(phrase), [END, *ids, END]
    return any(
        padded[first : first + size] == phrase
        and padded[first + size] not in continuing
        and not (phrase[0] in continuing and padded[first - 1] in continuing)
        for first in range(1, len(ids) - size + 2)
    )


def matched_prefix(ids: list[int], phrase: list[int], continuing: Collection[int]) -> int:
    """How many of the phrase's first tokens the ids end with; not all of them, and none inside a word."""
    padded = [END, *ids]
    return max(
        count
        for count in range(len(phrase))
        if ids[len(ids) - count :] == phrase[:count]
        and not (count and phrase[0] in continuing and padded[len(ids) - count] in continuing)
    )

"""Translations that contain given words: grid beam search (Hokamp and Liu 2017).

There is one beam for each number of forced tokens that its hypotheses have met. The beam of those that have
met all is as wide as the search asks. The others are narrower, which halves the time and costs little quality
(experiments/LOG.md). Shapes: S source tokens, W hypotheses in the widest beam, C forced tokens, R hypotheses
in all beams, T tokens so far, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD, START
from dragoman.search.beam import max_target_lengths, next_log_probs, restrict, top_k_extensions
from dragoman.search.hypothesis import (
    Constraints,
    Hypothesis,
    NBest,
    beam_width,
    grid_rows,
    length_normalization,
    scored,
)
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import NonFiniteError


@dataclass(frozen=True)
class LiveHypothesis:
    """An unfinished hypothesis: its ids with START, its log-probability, its row of the model's state."""

    ids: list[int]
    log_prob: float
    row: int


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
    live, finished = [LiveHypothesis([START], 0.0, 0)], list[Hypothesis]()
    for step in range(max_length + 1):
        padded = live + live[:1] * (rows - len(live))
        state = state.reorder(torch.tensor([hypothesis.row for hypothesis in padded], device=source.device))
        tokens = torch.tensor([hypothesis.ids for hypothesis in padded], device=source.device)  # [R, T]
        features, state = model.decode(tokens[:, -1:], state)
        log_probs = next_log_probs(model, features[:, -1])[None, : len(live)]  # [1, live, V]
        if log_probs.isnan().any():
            raise NonFiniteError
        end_log_probs = log_probs[0, :, END].tolist()
        at_end = torch.tensor([step >= max_length], device=source.device)
        log_probs = restrict(log_probs, constraints, tokens[None, : len(live)], at_end)[0]  # [live, V]
        beams, extended = candidate_beams(live, log_probs, constraints, width), live
        live = [
            hypothesis
            for met, beam in beams.items()
            for hypothesis in unfinished(beam, beam_width(met, forced_tokens, width))
        ]
        likeliest = beams.get(forced_tokens, [])[:width]
        ended = [hypothesis for hypothesis in likeliest if hypothesis.ids[-1] == END]
        finished += [scored(hypothesis.ids[1:-1], hypothesis.log_prob, settings) for hypothesis in ended]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:width]
        if forced_tokens and len(finished) >= settings.n_best:
            normalization = float(length_normalization(step + 1, settings))
            worst = finished[settings.n_best - 1].score
            live = [hypothesis for hypothesis in live if hypothesis.log_prob / normalization > worst]
        rank, reached = (0, step) if len(finished) == width else (settings.n_best - 1, max_length)
        best_live = max((hypothesis.log_prob for hypothesis in live), default=-torch.inf) / float(
            length_normalization(reached + 1, settings)
        )
        if not live or (rank < len(finished) and best_live <= finished[rank].score):
            best = finished[: settings.n_best] or [
                meeting_most(extended, end_log_probs, constraints, settings)
            ]
            yield GridStep(beams, live, best)
            return
        yield GridStep(beams, live, [])


def unfinished(beam: Sequence[LiveHypothesis], width: int) -> list[LiveHypothesis]:
    """The likeliest candidates of a beam that do not end."""
    return [hypothesis for hypothesis in beam[: 2 * width] if hypothesis.ids[-1] != END][:width]


def candidate_beams(
    live: list[LiveHypothesis], log_probs: Tensor, constraints: Constraints, width: int
) -> dict[int, list[LiveHypothesis]]:
    """Each hypothesis with each of its candidate tokens, by the number of forced tokens met.

    The numbers ascend, and candidates are likeliest first in each beam. `log_probs` [live, V] are the
    log-probabilities of the next tokens.
    """
    forced_tokens = constraints.forced_tokens
    beams: dict[int, list[LiveHypothesis]] = defaultdict(list)
    for row, hypothesis in enumerate(live):
        met_tokens, row_log_probs = tokens_met(hypothesis.ids[1:], constraints), log_probs[row]
        before = torch.zeros(1, 1, device=row_log_probs.device)
        _, _, likeliest = top_k_extensions(
            row_log_probs[None, None], before, min(2 * width, len(row_log_probs))
        )
        forced = next_forced_tokens(hypothesis.ids[1:], constraints)
        for token in dict.fromkeys([*likeliest[0].tolist(), *forced]):
            total = hypothesis.log_prob + float(row_log_probs[token])
            if total > -torch.inf and (token != END or met_tokens == forced_tokens):
                ids = [*hypothesis.ids, token]
                place = forced_tokens if token == END else tokens_met(ids[1:], constraints)
                beams[place].append(LiveHypothesis(ids, total, row))
    for beam in beams.values():
        beam.sort(key=lambda hypothesis: -hypothesis.log_prob)
    return dict(sorted(beams.items()))


def meeting_most(
    live: list[LiveHypothesis], end_log_probs: list[float], constraints: Constraints, settings: SearchSettings
) -> Hypothesis:
    """The hypothesis that has met most forced tokens, and of these the likeliest, END included."""
    ended = [
        (tokens_met(hypothesis.ids[1:], constraints), hypothesis.log_prob + end, hypothesis.ids[1:])
        for hypothesis, end in zip(live, end_log_probs, strict=True)
    ]
    _, log_prob, ids = max(ended)
    return scored(ids, log_prob, settings)


def tokens_met(ids: Sequence[int], constraints: Constraints) -> int:
    """The tokens of all phrases that occur, and of the longest phrase prefix at the end of the ids.

    A form that is shorter than its phrase's longest one counts as if its first tokens were met beforehand.
    """
    text, unfinished_tokens, completed = list(ids), 0, 0
    for forms in constraints.forced:
        size = len(max(forms, key=len))
        if any(occurs(text, list(form), constraints.continuing) for form in forms):
            completed += size
            continue
        for form in map(list, forms):
            if matched := matched_prefix(text, form, constraints.continuing):
                unfinished_tokens = max(unfinished_tokens, size - len(form) + matched)
    return completed + unfinished_tokens


def next_forced_tokens(ids: Sequence[int], constraints: Constraints) -> list[int]:
    """The tokens that would begin or continue a form of a phrase that does not occur yet."""
    text, tokens = list(ids), []
    for forms in constraints.forced:
        if not any(occurs(text, list(form), constraints.continuing) for form in forms):
            for form in map(list, forms):
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

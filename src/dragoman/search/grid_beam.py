"""Translations that contain given words: grid beam search (Hokamp and Liu 2017).

There is one beam for each number of forced tokens that its hypotheses have met. Shapes: S source tokens, W
hypotheses a beam, C forced tokens, R = W · (C + 1) hypotheses in all, T tokens so far, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD, START
from dragoman.search.beam import force_end, max_target_lengths, next_log_p
from dragoman.search.constraints import mask_forbidden
from dragoman.search.hypothesis import NON_FINITE, Hypothesis, normalizer, scored
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.search.top_k import top_k_extensions
from dragoman.system.errors import DragomanError

Phrases = Sequence[Sequence[int]]


@dataclass(frozen=True)
class LiveHypothesis:
    """An unfinished hypothesis: its ids with START, its log-probability, its row of the model's state."""

    ids: list[int]
    log_p: float
    row: int


def grid_beam_search(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> list[list[Hypothesis]]:
    """The `n_best` best translations of each sentence that contain every forced phrase."""
    return [search_sentence(model, row[row != PAD][None], settings, constraints) for row in source]


@torch.no_grad()
def search_sentence(
    model: Model, source: Int[Tensor, "1 S"], settings: SearchSettings, constraints: Constraints
) -> list[Hypothesis]:
    """Grid beam search for one sentence.

    Each step extends every hypothesis by its likeliest tokens and by the next tokens of unmet phrases. For
    each number c of forced tokens met, the W likeliest hypotheses are kept. END is allowed only if all are
    met; the stop rule is that of beam search. If the other constraints leave no such translation, the result
    is the one that has met most of them.
    """
    width, forced_tokens = settings.beam_size, sum(map(len, constraints.forced))
    longest = int(max_target_lengths(model, source, settings, constraints.min_capacity)[0])
    rows = width * (forced_tokens + 1)
    state = model.encode(source).allocate(rows, longest + 1)
    live, finished = [LiveHypothesis([START], 0.0, 0)], list[Hypothesis]()
    for step in range(longest + 1):
        padded = live + live[:1] * (rows - len(live))
        state = state.reorder(torch.tensor([one.row for one in padded], device=source.device))
        tokens = torch.tensor([one.ids for one in padded], device=source.device)  # [R, T]
        features, state = model.decode(tokens[:, -1:], state)
        log_p = next_log_p(model, features[:, -1])[None, : len(live)]  # [1, live, V]
        if log_p.isnan().any():
            raise DragomanError(NON_FINITE)
        end_log_p = log_p[0, :, END].tolist()
        at_end = torch.tensor([step >= longest], device=source.device)
        log_p = force_end(mask_forbidden(log_p, constraints, tokens[None, : len(live)], at_end), at_end)[0]
        extended, live = live, []
        for beam in candidate_beams(extended, log_p, constraints.forced, width).values():
            finished += [
                scored(one.ids[1:-1], one.log_p, settings) for one in beam[:width] if one.ids[-1] == END
            ]
            live += [one for one in beam[: 2 * width] if one.ids[-1] != END][:width]
        finished = sorted(finished, key=lambda one: -one.score)[:width]
        best_live = max((one.log_p for one in live), default=-torch.inf) / float(
            normalizer(longest + 1, settings)
        )
        enough = len(finished) >= settings.n_best and best_live <= finished[settings.n_best - 1].score
        if not live or len(finished) == width or enough:
            break
    return finished[: settings.n_best] or [meeting_most(extended, end_log_p, constraints.forced, settings)]


def candidate_beams(
    live: list[LiveHypothesis], log_p: Tensor, phrases: Phrases, width: int
) -> dict[int, list[LiveHypothesis]]:
    """Each hypothesis with each of its candidate tokens, by the number of forced tokens met, likeliest first.

    `log_p` [live, V] are the log-probabilities of the next tokens.
    """
    forced_tokens = sum(map(len, phrases))
    beams: dict[int, list[LiveHypothesis]] = defaultdict(list)
    for row, one in enumerate(live):
        met, own = tokens_met(one.ids[1:], phrases), log_p[row]
        before = torch.zeros(1, 1, device=own.device)
        _, _, likeliest = top_k_extensions(own[None, None], before, min(2 * width, len(own)))
        for token in dict.fromkeys([*likeliest[0].tolist(), *next_forced_tokens(one.ids[1:], phrases)]):
            total = one.log_p + float(own[token])
            if total > -torch.inf and (token != END or met == forced_tokens):
                place = forced_tokens if token == END else tokens_met([*one.ids[1:], token], phrases)
                beams[place].append(LiveHypothesis([*one.ids, token], total, row))
    for beam in beams.values():
        beam.sort(key=lambda one: -one.log_p)
    return beams


def meeting_most(
    live: list[LiveHypothesis], end_log_p: list[float], phrases: Phrases, settings: SearchSettings
) -> Hypothesis:
    """The hypothesis that has met most forced tokens, and of these the likeliest, END included."""
    ended = [
        (tokens_met(one.ids[1:], phrases), one.log_p + end, one.ids[1:])
        for one, end in zip(live, end_log_p, strict=True)
    ]
    _, log_p, ids = max(ended)
    return scored(ids, log_p, settings)


def tokens_met(ids: Sequence[int], phrases: Phrases) -> int:
    """The tokens of all phrases that occur, and of the longest phrase prefix at the end of the ids."""
    text, unfinished, met = list(ids), 0, 0
    for phrase in map(list, phrases):
        if occurs(text, phrase):
            met += len(phrase)
        else:
            unfinished = max(unfinished, matched_prefix(text, phrase))
    return met + unfinished


def next_forced_tokens(ids: Sequence[int], phrases: Phrases) -> list[int]:
    """The tokens that would begin or continue a phrase that does not occur yet."""
    text, tokens = list(ids), []
    for phrase in map(list, phrases):
        if not occurs(text, phrase):
            tokens += [phrase[0], phrase[matched_prefix(text, phrase)]]
    return tokens


def occurs(ids: list[int], phrase: list[int]) -> bool:
    """Whether the phrase is in the ids."""
    return any(ids[first : first + len(phrase)] == phrase for first in range(len(ids) - len(phrase) + 1))


def matched_prefix(ids: list[int], phrase: list[int]) -> int:
    """How many of the phrase's first tokens the ids end with; not all of them."""
    return max(count for count in range(len(phrase)) if ids[len(ids) - count :] == phrase[:count])

"""Translations that contain given words: grid beam search (Hokamp and Liu 2017), a beam for each number of forced tokens that are met.

Shapes: S source tokens, W hypotheses a beam, C forced tokens, R = W · (C + 1) hypotheses in all, T tokens so far, V vocabulary.
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
class Live:
    """A hypothesis that has not ended: its ids with START, its log-probability, and the row of the state that has read it."""

    ids: list[int]
    log_p: float
    row: int


def grid_beam_search(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> list[list[Hypothesis]]:
    """The `n_best` best translations that contain every forced phrase, sentence by sentence."""
    return [grid_beam_search_one(model, row[row != PAD][None], settings, constraints) for row in source]


@torch.no_grad()
def grid_beam_search_one(model: Model, source: Int[Tensor, "1 S"], settings: SearchSettings, constraints: Constraints) -> list[Hypothesis]:
    """Each step extends every hypothesis by its likeliest tokens and by those that a phrase asks for.

    The W likeliest that have met c of the forced tokens are kept, for each c. END follows only where all are met; the search is done
    as a beam's is. Where other rules leave no such translation, the one that has met most of them is given.
    """
    phrases, width = constraints.forced, settings.beam_size
    wanted = sum(map(len, phrases))
    longest = int(max_target_lengths(model, source, settings, constraints.min_capacity)[0])
    rows = width * (wanted + 1)
    state = model.encode(source).allocate(rows, longest + 1)
    live, finished = [Live([START], 0.0, 0)], list[Hypothesis]()
    for step in range(longest + 1):
        padded = live + live[:1] * (rows - len(live))
        state = state.reorder(torch.tensor([one.row for one in padded], device=source.device))
        tokens = torch.tensor([one.ids for one in padded], device=source.device)
        features, state = model.decode(tokens[:, -1:], state)
        log_p = next_log_p(model, features[:, -1])[None, : len(live)]
        ends = log_p[0, :, END].tolist()
        if log_p.isnan().any():
            raise DragomanError(NON_FINITE)
        at_end = torch.tensor([step >= longest], device=source.device)
        log_p = force_end(mask_forbidden(log_p, constraints, tokens[None, : len(live)], at_end), at_end)[0]
        beams: dict[int, list[Live]] = defaultdict(list)
        for row, one in enumerate(live):
            met, own = tokens_met(one.ids[1:], phrases), log_p[row]
            _, _, best = top_k_extensions(own[None, None], torch.zeros(1, 1, device=own.device), min(2 * width, len(own)))
            for token in dict.fromkeys([*best[0].tolist(), *next_forced_tokens(one.ids[1:], phrases)]):
                if (total := one.log_p + float(own[token])) > -torch.inf and (token != END or met == wanted):
                    place = wanted if token == END else tokens_met([*one.ids[1:], token], phrases)
                    beams[place].append(Live([*one.ids, token], total, row))
        tried, live = live, []
        for beam in beams.values():
            beam.sort(key=lambda one: -one.log_p)
            ended = [one for one in beam[:width] if one.ids[-1] == END]
            finished += [scored(one.ids[1:-1], one.log_p, settings) for one in ended]
            live += [one for one in beam[: 2 * width] if one.ids[-1] != END][:width]
        finished = sorted(finished, key=lambda one: -one.score)[:width]
        best_live = max((one.log_p for one in live), default=-torch.inf) / float(normalizer(longest + 1, settings))
        if not live or len(finished) == width or (len(finished) >= settings.n_best and best_live <= finished[settings.n_best - 1].score):
            break
    return finished[: settings.n_best] or [most_met(tried, ends, constraints, settings)]


def most_met(tried: list[Live], ends: list[float], constraints: Constraints, settings: SearchSettings) -> Hypothesis:
    """Of the last hypotheses, whose ends are so likely, the one that has met most forced tokens, and of these the likeliest."""
    whole = [(tokens_met(one.ids[1:], constraints.forced), one.log_p + end, one.ids[1:]) for one, end in zip(tried, ends, strict=True)]
    _, log_p, ids = max(whole)
    return scored(ids, log_p, settings)


def tokens_met(ids: Sequence[int], phrases: Phrases) -> int:
    """The tokens of the phrases that occur, and of the others the most that the end of the ids has begun."""
    text, begun, met = list(ids), 0, 0
    for phrase in map(list, phrases):
        if occurs(text, phrase):
            met += len(phrase)
        else:
            begun = max(begun, matched_prefix(text, phrase))
    return met + begun


def next_forced_tokens(ids: Sequence[int], phrases: Phrases) -> list[int]:
    """The tokens that would begin a phrase which does not occur yet, or go on with it."""
    text, wanted = list(ids), []
    for phrase in map(list, phrases):
        if not occurs(text, phrase):
            wanted += [phrase[0], phrase[matched_prefix(text, phrase)]]
    return wanted


def occurs(ids: list[int], phrase: list[int]) -> bool:
    """Whether the phrase is somewhere in the ids."""
    return any(ids[first : first + len(phrase)] == phrase for first in range(len(ids) - len(phrase) + 1))


def matched_prefix(ids: list[int], phrase: list[int]) -> int:
    """How many of its first tokens the ids end with."""
    return max(count for count in range(len(phrase)) if ids[len(ids) - count :] == phrase[:count])

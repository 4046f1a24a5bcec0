"""Greedy and beam search (section 6.1) for any model, one step at a time.

Shapes: B sentences, W hypotheses a sentence, R = B · W, T tokens so far, V vocabulary, C = 2 W candidates.
"""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.interface import Model, State
from dragoman.model.symbols import END, PAD, START
from dragoman.search.attention_weights import cross_attention_modules, record_attention
from dragoman.search.constraints import mask_forbidden
from dragoman.search.hypothesis import NON_FINITE, Hypothesis, longest_target, normalizer, scored
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.search.top_k import sort_key, top_k_extensions
from dragoman.system.errors import DragomanError

COMPACT_BELOW = 0.75  # finished sentences leave a batch when no more than this share of it is unfinished


@torch.no_grad()
def greedy_search(
    model: Model,
    source: Int[Tensor, "B S"],
    settings: SearchSettings,
) -> list[list[Hypothesis]]:
    """The likeliest token at each step: what a beam of 1 finds without constraints and coverage penalty.

    Raises `DragomanError` if probabilities are not finite, as all searches do.
    """
    longest = max_target_lengths(model, source, settings)
    state = model.encode(source).allocate(1, int(longest.max()) + 1)
    left = torch.arange(len(source), device=source.device)
    token = torch.full((len(source), 1), START, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    ids = torch.full((len(source), int(longest.max()) + 1), END, device=source.device)
    total = torch.zeros(len(source), device=source.device)
    for step in range(ids.size(1)):
        features, state = model.decode(token, state)
        log_p = next_log_p(model, features[:, -1])
        choice = log_p.argmax(-1).masked_fill(step >= longest[left], END)
        ids[left, step] = choice.masked_fill(ended, END)
        total[left] += log_p.gather(1, choice[:, None])[:, 0].masked_fill(ended, 0.0)
        token, ended = choice[:, None], ended | (choice == END)
        if ended.all():
            break
        if (~ended).sum() <= len(left) * COMPACT_BELOW:
            still = (~ended).nonzero().flatten()
            left, token, ended, state = left[still], token[still], ended[still], state.select(still)
    if total.isnan().any():
        raise DragomanError(NON_FINITE)
    return [
        [scored(row[: row.index(END)], log_p, settings)]
        for row, log_p in zip(ids.tolist(), total.tolist(), strict=True)
    ]


def max_target_lengths(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, least: int = 0
) -> Int[Tensor, "B"]:
    """`longest_target` of each source."""
    counts = (source != PAD).sum(1).tolist()
    return torch.tensor(
        [longest_target(count, model.longest_target, settings, least) for count in counts],
        device=source.device,
    )


def next_log_p(model: Model, features: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
    """The log-probability of each next token; that of PAD and START is -inf."""
    logits = model.logits(features).float()
    logits[:, PAD] = logits[:, START] = -torch.inf
    return logits.log_softmax(-1)


@dataclass
class Beam:
    """The hypotheses of B sentences, best first.

    A hypothesis that ends with END moves from `live` to `finished`. A log-probability or score of -inf marks
    an empty place.
    """

    live: Int[Tensor, "B W T"]
    live_log_p: Float[Tensor, "B W"]
    finished: Int[Tensor, "B W L"]
    finished_log_p: Float[Tensor, "B W"]
    finished_score: Float[Tensor, "B W"]
    coverage: Float[Tensor, "B W S"]
    """The attention that each source token got from each live hypothesis so far; 1 for padding. S is 0
    without a coverage penalty."""

    @classmethod
    def start(
        cls, sentences: int, beam_size: int, groups: int, longest: int, coverage: Float[Tensor, "B S"]
    ) -> "Beam":
        """One live hypothesis in each group, START alone; none finished."""
        empty = torch.full((sentences, beam_size), -torch.inf, device=coverage.device)
        first = empty.clone()
        first[:, :: beam_size // groups] = 0
        live = torch.full((sentences, beam_size, 1), START, device=coverage.device)
        finished = torch.full((sentences, beam_size, longest + 1), PAD, device=coverage.device)
        return cls(live, first, finished, empty, empty.clone(), coverage[:, None].expand(-1, beam_size, -1))

    def select(self, sentences: Tensor) -> "Beam":
        """The beams of these sentences."""
        tensors = (
            self.live,
            self.live_log_p,
            self.finished,
            self.finished_log_p,
            self.finished_score,
            self.coverage,
        )
        return Beam(*(tensor[sentences] for tensor in tensors))


@dataclass(frozen=True)
class Extensions:
    """The candidates of a step: live hypotheses with one more token, likeliest first in each group."""

    log_p: Float[Tensor, "B C"]
    """Of the hypothesis with the token."""
    origin: Int[Tensor, "B C"]
    """The live hypothesis that is extended: 0 to W − 1."""
    token: Int[Tensor, "B C"]
    ends: Bool[Tensor, "B C"]
    """Which candidates have finished."""
    duplicate: Bool[Tensor, "B C"]
    """Which candidates would have finished if an earlier group had not found the same."""
    survivors: Int[Tensor, "B W"]
    """Which candidates stay live: 0 to C − 1."""


@dataclass(frozen=True)
class Step:
    """One step of a beam search; sentences that are done leave the batch after it."""

    sentences: Int[Tensor, "B"]
    """Their numbers in the batch as it was given."""
    extensions: Extensions
    beam: Beam
    done: dict[int, list[Hypothesis]]
    """The sentences that this step completed, with their `n_best` best hypotheses."""


@torch.no_grad()
def beam_search(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints | None = None
) -> list[list[Hypothesis]]:
    """The `n_best` best allowed hypotheses of each sentence, best first, by log P(Y|X) / lp(Y) + cp(X; Y)."""
    found: dict[int, list[Hypothesis]] = {}
    for step in beam_steps(model, source, settings, constraints or Constraints()):
        found |= step.done
    return [found[sentence] for sentence in range(len(source))]


@torch.no_grad()
def beam_steps(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> Iterator[Step]:
    """Beam search, step by step.

    Each step extends every live hypothesis by every token. Of these candidates, those among the W likeliest
    that end are finished, and the W likeliest that do not end stay live. A sentence is done when W hypotheses
    have finished, or sooner if no live one could still become one of its n best, even with certain tokens. At
    the maximum length all live hypotheses end. Each group of a beam does so for its share of W.
    """
    width, with_coverage = settings.beam_size, settings.coverage_penalty > 0
    longest = max_target_lengths(model, source, settings, constraints.min_capacity)
    coverage = (source if with_coverage else source[:, :0]).eq(PAD).float()
    beam = Beam.start(len(source), width, settings.groups, int(longest.max()), coverage)
    state: State = model.encode(source).allocate(width, int(longest.max()) + 1)
    left = torch.arange(len(source), device=source.device)
    going = torch.ones_like(left, dtype=torch.bool)
    for step in range(int(longest.max()) + 1):
        modules = cross_attention_modules(model) if with_coverage else []
        with record_attention(modules) if with_coverage else nullcontext(list[list[Tensor]]()) as recorded:
            features, state = model.decode(beam.live[:, :, -1].reshape(-1, 1), state)
        if with_coverage:  # the mean of all layers and heads
            beam.coverage = beam.coverage + torch.stack([weights.mean(1) for (weights,) in recorded]).mean(0)
        log_p = next_log_p(model, features[:, -1]).view(len(left), width, -1)
        at_end = step >= longest
        extensions = extend(
            beam, force_end(mask_forbidden(log_p, constraints, beam.live, at_end), at_end), settings
        )
        ended = going & is_done(beam, longest, settings)
        done = (
            dict(zip(left[ended].tolist(), hypotheses(beam.select(ended), settings.n_best), strict=True))
            if ended.any()
            else {}
        )
        yield Step(left, extensions, beam, done)
        going = going & ~ended
        if not going.any():
            return
        origin = extensions.origin.gather(1, extensions.survivors)
        if going.sum() <= len(left) * COMPACT_BELOW:
            still = going.nonzero().flatten()
            left, longest, going, origin = left[still], longest[still], going[still], origin[still]
            beam, state = beam.select(still), state.select(still)
        first_rows = torch.arange(len(left), device=source.device)[:, None] * width
        state = state.reorder((first_rows + origin).flatten())
    raise DragomanError(NON_FINITE)  # a NaN is never among the likeliest


def force_end(log_p: Float[Tensor, "B W V"], at_end: Bool[Tensor, "B"]) -> Float[Tensor, "B W V"]:
    """Allow END alone in the sentences that are at their maximum length."""
    if at_end.any():
        end = log_p[at_end, :, END]
        log_p[at_end] = -torch.inf
        log_p[at_end, :, END] = end
    return log_p


def extend(beam: Beam, log_p: Float[Tensor, "B W V"], settings: SearchSettings) -> Extensions:
    """Extend every hypothesis of the beam by a token, in place."""
    groups, width = settings.groups, settings.beam_size // settings.groups
    length = beam.live.size(2)  # of a hypothesis that ends now: START is not counted, END is
    total, origin, token = top_k_of_groups(beam, log_p, settings)
    # At most W end, so at least W do not.
    first = torch.arange(2 * width, device=log_p.device).repeat(groups) < width
    is_end = token == END
    ends = is_end & first & (total > -torch.inf)

    prefixes = beam.live.gather(1, origin[:, :, None].expand(-1, -1, length))
    duplicate = torch.zeros_like(ends)
    if groups > 1:  # what two groups have found counts once
        alike = (prefixes[:, :, None] == prefixes[:, None]).all(3) & ends[:, None] & ends[:, :, None]
        duplicate = alike.tril(-1).any(2)
        ends = ends & ~duplicate
    coverage = beam.coverage.gather(1, origin[:, :, None].expand(-1, -1, beam.coverage.size(2)))
    if ends.any():
        ending = total.masked_fill(~ends, -torch.inf)[:, first]
        penalty = settings.coverage_penalty * coverage[:, first].clamp(1e-9, 1).log().sum(-1)
        ids = F.pad(prefixes[:, first, 1:], (0, 1), value=END)
        add_finished(
            beam,
            F.pad(ids, (0, beam.finished.size(2) - length), value=PAD),
            ending,
            ending / normalizer(length, settings) + penalty,
        )

    survivors = likeliest_that_continue(is_end, groups)
    beam.live_log_p = total.masked_fill(is_end, -torch.inf).gather(1, survivors)
    beam.coverage = coverage.gather(1, survivors[:, :, None].expand(-1, -1, coverage.size(2)))
    prefix = prefixes.gather(1, survivors[:, :, None].expand(-1, -1, length))
    beam.live = torch.cat([prefix, token.gather(1, survivors)[:, :, None]], -1)
    return Extensions(total, origin, token, ends, duplicate, survivors)


def likeliest_that_continue(is_end: Bool[Tensor, "B C"], groups: int) -> Int[Tensor, "B W"]:
    """The first W candidates that do not end, in each group; if there are fewer, some that do end."""
    in_group = is_end.to(torch.uint8).unflatten(1, (groups, -1)).argsort(dim=2, stable=True)
    width = in_group.size(2) // 2
    starts = torch.arange(groups, device=is_end.device)[:, None] * 2 * width
    return (in_group[:, :, :width] + starts).flatten(1)


def top_k_of_groups(
    beam: Beam, log_p: Float[Tensor, "B W V"], settings: SearchSettings
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Twice as many candidates as each group has hypotheses: log-probability, origin and token.

    In a group's ranking, a token loses `diversity` nats for each hypothesis of earlier groups that continues
    with it in this step (Vijayakumar et al. 2018, Hamming diversity). The log-probabilities are the model's
    own.
    """
    if settings.groups == 1:
        return top_k_extensions(log_p, beam.live_log_p, 2 * settings.beam_size)
    width, found = settings.beam_size // settings.groups, []
    used = torch.zeros_like(log_p[:, 0])
    for first in range(0, settings.beam_size, width):
        own, before = log_p[:, first : first + width], beam.live_log_p[:, first : first + width]
        _, origin, token = top_k_extensions(own - settings.diversity * used[:, None], before, 2 * width)
        total = own.flatten(1).gather(1, origin * own.size(2) + token) + before.gather(1, origin)
        found.append((total, origin + first, token))
        place = (token == END).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        used = used.scatter_add(1, token.gather(1, place), torch.ones_like(before))
    total, origin, token = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
    return total, origin, token


def add_finished(
    beam: Beam, ids: Int[Tensor, "B W L"], log_p: Float[Tensor, "B W"], score: Float[Tensor, "B W"]
) -> None:
    """Merge hypotheses (without START, padded after END) into the finished ones; a score of -inf is none."""
    width = score.size(1)
    scores = torch.cat([beam.finished_score, score], 1)
    place = sort_key(scores, torch.arange(scores.size(1), device=scores.device)).topk(width).indices
    beam.finished_score = scores.gather(1, place)
    beam.finished_log_p = torch.cat([beam.finished_log_p, log_p], 1).gather(1, place)
    both = torch.cat([beam.finished, ids], 1)
    beam.finished = both.gather(1, place[:, :, None].expand(-1, -1, both.size(2)))


def is_done(beam: Beam, longest: Int[Tensor, "B"], settings: SearchSettings) -> Bool[Tensor, "B"]:
    """Whether W hypotheses have finished, or no live one can still become one of the n best."""
    best_live = beam.live_log_p.amax(1) / normalizer(longest + 1, settings)
    return (beam.finished_score[:, -1] > -torch.inf) | (
        best_live <= beam.finished_score[:, settings.n_best - 1]
    )


def hypotheses(beam: Beam, n_best: int) -> list[list[Hypothesis]]:
    """The best finished hypotheses of each sentence."""
    tensors = (beam.finished, beam.finished_log_p, beam.finished_score)
    rows = zip(*(tensor[:, :n_best].tolist() for tensor in tensors), strict=True)
    return [
        [
            Hypothesis(ids[: ids.index(END)], log_p, score)
            for ids, log_p, score in zip(*row, strict=True)
            if score > -math.inf
        ]
        for row in rows
    ]

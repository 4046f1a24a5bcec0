"""Greedy and beam search (section 6.1) for any model, one step at a time.

Shapes: B sentences, W hypotheses per sentence, R = B · W, T tokens so far, V vocabulary, C = 2 W candidates,
S source tokens, L tokens of the longest hypothesis.
"""

import math
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD, START
from dragoman.search.attention_weights import decode_with_attention, initial_coverage
from dragoman.search.constraints import mask_forbidden
from dragoman.search.hypothesis import (
    Constraints,
    Hypothesis,
    NBest,
    length_normalization,
    max_target_length,
    scored,
)
from dragoman.search.settings import SearchSettings
from dragoman.search.top_k import sort_key, top_k_extensions
from dragoman.system.errors import NonFiniteError
from dragoman.system.futures import interruption

COMPACT_BELOW = 0.75  # sentences that are done leave a batch when at most this share of it is not done


@torch.no_grad()
def greedy_search(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, min_length: int = 0
) -> NBest:
    """The likeliest token at each step, not END before `min_length` tokens.

    It is what a beam of 1 finds without other constraints and without a coverage penalty. Raises
    `DragomanError` if probabilities are not finite, as all searches do.
    """
    max_lengths = max_target_lengths(model, source, settings, min_length)  # [B]
    steps = int(max_lengths.max()) + 1
    state = model.encode(source).allocate(1, steps)
    sentences = torch.arange(len(source), device=source.device)  # those in the batch
    tokens = torch.full((len(source), 1), START, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    ids = torch.full((len(source), steps), END, device=source.device)
    totals = torch.zeros(len(source), device=source.device)
    for step in range(steps):
        features, state = model.decode(tokens, state)
        log_probs = next_log_probs(model, features[:, -1])  # [B, V]
        allowed = log_probs if step >= min_length else without_end(log_probs)
        choice = allowed.argmax(-1).masked_fill(step >= max_lengths[sentences], END)  # [B]
        ids[sentences, step] = choice.masked_fill(ended, END)
        totals[sentences] += log_probs.gather(1, choice[:, None])[:, 0].masked_fill(ended, 0.0)
        tokens, ended = choice[:, None], ended | (choice == END)
        if ended.all():
            break
        if (~ended).sum() <= len(sentences) * COMPACT_BELOW:
            active = (~ended).nonzero().flatten()
            sentences, tokens, ended, state = (
                sentences[active],
                tokens[active],
                ended[active],
                state.select(active),
            )
    if totals.isnan().any():
        raise NonFiniteError
    return [
        [scored(row[: row.index(END)], log_prob, settings)]
        for row, log_prob in zip(ids.tolist(), totals.tolist(), strict=True)
    ]


def max_target_lengths(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, min_capacity: int = 0
) -> Int[Tensor, "B"]:
    """`max_target_length` of each source."""
    counts = (source != PAD).sum(1).tolist()
    lengths = [max_target_length(count, model.longest_target, settings, min_capacity) for count in counts]
    return torch.tensor(lengths, device=source.device)


def next_log_probs(model: Model, features: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
    """The log-probability of each next token; that of PAD and START is -inf.

    Raises `CancelledError` after an `interruption`.
    """
    if interruption.get().is_set():
        raise CancelledError
    logits = model.logits(features).float()
    logits[:, PAD] = logits[:, START] = -torch.inf
    return logits.log_softmax(-1)


def without_end(log_probs: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """The log-probabilities, with -inf for END."""
    return log_probs.index_fill(1, torch.tensor([END], device=log_probs.device), -torch.inf)


@dataclass
class Beam:
    """The hypotheses of B sentences, best first.

    A hypothesis that ends with END moves from `live` to `finished`. A log-probability or score of -inf marks
    an empty slot.
    """

    live: Int[Tensor, "B W T"]
    live_log_probs: Float[Tensor, "B W"]
    finished: Int[Tensor, "B W L"]
    finished_log_probs: Float[Tensor, "B W"]
    finished_scores: Float[Tensor, "B W"]
    coverage: Float[Tensor, "B W S"]
    """The attention that each source token got from each live hypothesis so far; 1 for padding. S is 0
    without a coverage penalty."""

    @classmethod
    def start(
        cls, sentences: int, beam_size: int, groups: int, max_length: int, coverage: Float[Tensor, "B S"]
    ) -> "Beam":
        """One live hypothesis in each group, START alone; none finished."""
        empty = coverage.new_full((sentences, beam_size), -torch.inf, dtype=torch.float32)
        first = empty.clone()
        first[:, :: beam_size // groups] = 0
        live = torch.full((sentences, beam_size, 1), START, device=coverage.device)
        finished = torch.full((sentences, beam_size, max_length + 1), PAD, device=coverage.device)
        return cls(live, first, finished, empty, empty.clone(), coverage[:, None].expand(-1, beam_size, -1))

    def select(self, sentences: Tensor) -> "Beam":
        """The beams of these sentences."""
        return Beam(**{name: tensor[sentences] for name, tensor in vars(self).items()})


@dataclass(frozen=True)
class Extensions:
    """The candidates of a step: live hypotheses with one more token, likeliest first in each group."""

    log_probs: Float[Tensor, "B C"]
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
) -> NBest:
    """The `n_best` best allowed hypotheses of each sentence, best first, by log P(Y|X) / lp(Y) + cp(X; Y)."""
    results: dict[int, list[Hypothesis]] = {}
    for step in beam_steps(model, source, settings, constraints or Constraints()):
        results |= step.done
    return [results[sentence] for sentence in range(len(source))]


@torch.no_grad()
def beam_steps(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> Iterator[Step]:
    """Beam search, step by step.

    Each step extends every live hypothesis by every token. Of these candidates, those among the W likeliest
    that end are finished, and the W likeliest that do not end stay live. A sentence is done when `is_done`
    says so. At the maximum length all live hypotheses end. Each group of a beam does so for its share of W.

    Raises `NonFiniteError` if the model's numbers are not finite.
    """
    width, device = settings.beam_size, source.device
    max_lengths = max_target_lengths(model, source, settings, constraints.min_capacity)  # [B]
    steps = int(max_lengths.max()) + 1
    coverage = initial_coverage(model, source) if settings.coverage_penalty else source[:, :0].float()
    beam = Beam.start(len(source), width, settings.groups, steps - 1, coverage)
    state = model.encode(source).allocate(width, steps)
    sentences = torch.arange(len(source), device=device)  # those in the batch
    not_done = torch.ones_like(sentences, dtype=torch.bool)
    for step in range(steps):
        tokens = beam.live[:, :, -1].reshape(-1, 1)  # [R, 1]
        if settings.coverage_penalty:
            features, state, attention = decode_with_attention(model, tokens, state)
            beam.coverage = beam.coverage + attention
        else:
            features, state = model.decode(tokens, state)
        log_probs = next_log_probs(model, features[:, -1]).view(len(sentences), width, -1)  # [B, W, V]
        log_probs = restrict(log_probs, constraints, beam.live, step >= max_lengths)
        extensions = extend(beam, log_probs, settings)
        newly_done = not_done & is_done(beam, step + 1, max_lengths, settings)
        done = {}
        if newly_done.any():
            best = hypotheses(beam.select(newly_done), settings.n_best)
            done = dict(zip(sentences[newly_done].tolist(), best, strict=True))
        yield Step(sentences, extensions, beam, done)
        not_done = not_done & ~newly_done
        if not not_done.any():
            return
        origin = extensions.origin.gather(1, extensions.survivors)  # [B, W]
        if not_done.sum() <= len(sentences) * COMPACT_BELOW:
            active = not_done.nonzero().flatten()
            sentences, max_lengths, not_done = sentences[active], max_lengths[active], not_done[active]
            origin, beam, state = origin[active], beam.select(active), state.select(active)
        first_rows = torch.arange(len(sentences), device=device)[:, None] * width
        state = state.reorder((first_rows + origin).flatten())
    raise NonFiniteError  # comparisons with a NaN are false: it keeps a sentence from being done


def restrict(
    log_probs: Float[Tensor, "B W V"],
    constraints: Constraints,
    live: Int[Tensor, "B W T"],
    at_end: Bool[Tensor, "B"],
) -> Float[Tensor, "B W V"]:
    """Forbid what the constraints forbid, and all but END in the sentences that are at their maximum length.

    The log-probability of a forbidden token becomes -inf, perhaps in place.
    """
    if constraints.restrict_after(live.size(2) - 1):
        log_probs = mask_forbidden(log_probs, constraints, live, at_end)
    if at_end.any():
        end = log_probs[at_end, :, END]
        log_probs[at_end] = -torch.inf
        log_probs[at_end, :, END] = end
    return log_probs


def extend(beam: Beam, log_probs: Float[Tensor, "B W V"], settings: SearchSettings) -> Extensions:
    """Extend every hypothesis of the beam by a token, in place."""
    groups, group_size = settings.groups, settings.beam_size // settings.groups
    length = beam.live.size(2)  # of a hypothesis that ends now: START is not counted, END is
    total, origin, token = top_k_of_groups(beam, log_probs, settings)  # [B, C]
    # At most W end, so at least W do not.
    likeliest = torch.arange(2 * group_size, device=log_probs.device).repeat(groups) < group_size
    is_end = token == END
    ends = is_end & likeliest & (total > -torch.inf)

    prefixes = rows_of(beam.live, origin)  # [B, C, T]
    duplicate = torch.zeros_like(ends)
    if groups > 1:  # what two groups have found counts once
        is_equal = (prefixes[:, :, None] == prefixes[:, None]).all(3) & ends[:, None] & ends[:, :, None]
        duplicate = is_equal.tril(-1).any(2)
        ends = ends & ~duplicate
    coverage = rows_of(beam.coverage, origin)  # [B, C, S]
    if ends.any():
        ending = total.masked_fill(~ends, -torch.inf)[:, likeliest]  # [B, W]
        penalty = settings.coverage_penalty * coverage[:, likeliest].clamp(1e-9, 1).log().sum(-1)
        ids = F.pad(prefixes[:, likeliest, 1:], (0, 1), value=END)  # [B, W, T]
        ids = F.pad(ids, (0, beam.finished.size(2) - length), value=PAD)  # [B, W, L]
        add_finished(beam, ids, ending, ending / length_normalization(length, settings) + penalty)

    survivors = likeliest_that_continue(is_end, groups)  # [B, W]
    beam.live_log_probs = total.masked_fill(is_end, -torch.inf).gather(1, survivors)
    beam.coverage = rows_of(coverage, survivors)
    beam.live = torch.cat([rows_of(prefixes, survivors), token.gather(1, survivors)[:, :, None]], -1)
    return Extensions(total, origin, token, ends, duplicate, survivors)


def rows_of(values: Shaped[Tensor, "B N D"], rows: Int[Tensor, "B M"]) -> Shaped[Tensor, "B M D"]:
    """For each sentence, the rows of these numbers."""
    return values.gather(1, rows[:, :, None].expand(-1, -1, values.size(2)))


def likeliest_that_continue(is_end: Bool[Tensor, "B C"], groups: int) -> Int[Tensor, "B W"]:
    """The first W candidates that do not end, in each group; if there are fewer, some that do end."""
    in_group = is_end.to(torch.uint8).unflatten(1, (groups, -1)).argsort(dim=2, stable=True)
    width = in_group.size(2) // 2
    starts = torch.arange(groups, device=is_end.device)[:, None] * 2 * width
    return (in_group[:, :, :width] + starts).flatten(1)


def top_k_of_groups(
    beam: Beam, log_probs: Float[Tensor, "B W V"], settings: SearchSettings
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Twice as many candidates as each group has hypotheses: log-probability, origin and token.

    In a group's ranking, a token loses `diversity` nats for each hypothesis of earlier groups that continues
    with it in this step (Vijayakumar et al. 2018, Hamming diversity). The log-probabilities are the model's
    own.
    """
    if settings.groups == 1:
        return top_k_extensions(log_probs, beam.live_log_probs, 2 * settings.beam_size)
    group_size, candidates = settings.beam_size // settings.groups, []
    token_counts = torch.zeros_like(log_probs[:, 0])  # [B, V]
    for first in range(0, settings.beam_size, group_size):
        group = slice(first, first + group_size)
        group_log_probs, prefix_log_probs = log_probs[:, group], beam.live_log_probs[:, group]
        penalised = group_log_probs - settings.diversity * token_counts[:, None]
        _, origin, token = top_k_extensions(penalised, prefix_log_probs, 2 * group_size)
        flat_index = origin * log_probs.size(2) + token
        total = group_log_probs.flatten(1).gather(1, flat_index) + prefix_log_probs.gather(1, origin)
        candidates.append((total, origin + first, token))
        survivors = likeliest_that_continue(token == END, groups=1)
        token_counts = token_counts.scatter_add(
            1, token.gather(1, survivors), torch.ones_like(prefix_log_probs, dtype=token_counts.dtype)
        )
    total, origin, token = (torch.cat(parts, 1) for parts in zip(*candidates, strict=True))
    return total, origin, token


def add_finished(
    beam: Beam, ids: Int[Tensor, "B W L"], log_probs: Float[Tensor, "B W"], score: Float[Tensor, "B W"]
) -> None:
    """Merge hypotheses (without START, padded after END) into the finished ones; a score of -inf is none."""
    scores = torch.cat([beam.finished_scores, score], 1)  # [B, 2 W]
    positions = torch.arange(scores.size(1), device=scores.device)
    best = sort_key(scores, positions).topk(score.size(1)).indices  # [B, W]
    beam.finished_scores = scores.gather(1, best)
    beam.finished_log_probs = torch.cat([beam.finished_log_probs, log_probs], 1).gather(1, best)
    beam.finished = rows_of(torch.cat([beam.finished, ids], 1), best)


def is_done(
    beam: Beam, length: int | Tensor, max_lengths: Int[Tensor, "B"], settings: SearchSettings
) -> Bool[Tensor, "B"]:
    """Which sentences are done: one of two stop rules suffices.

    1. No live hypothesis can reach the n best, even if all its further tokens have probability 1.
    2. W hypotheses have finished, and at `length` tokens no live one scores higher than the best of them.
    """
    finished, best_live = beam.finished_scores, beam.live_log_probs.amax(1)
    current, bound = (
        best_live / length_normalization(tokens, settings) for tokens in (length, max_lengths + 1)
    )
    is_complete = (finished[:, -1] > -torch.inf) & (current <= finished[:, 0])
    return is_complete | (bound <= finished[:, settings.n_best - 1])


def hypotheses(beam: Beam, n_best: int) -> NBest:
    """The best finished hypotheses of each sentence."""
    tensors = (beam.finished, beam.finished_log_probs, beam.finished_scores)
    rows = zip(*(tensor[:, :n_best].tolist() for tensor in tensors), strict=True)
    return [
        [
            Hypothesis(ids[: ids.index(END)], log_prob, score)
            for ids, log_prob, score in zip(*row, strict=True)
            if score > -math.inf
        ]
        for row in rows
    ]

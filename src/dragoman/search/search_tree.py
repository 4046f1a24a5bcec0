"""The hypotheses of any search as a tree: greedy and beam search, sampling, grid beam search.

Shapes: S source tokens, W samples.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, START
from dragoman.search.beam import beam_steps
from dragoman.search.grid_beam import (
    GridStep,
    LiveHypothesis,
    grid_steps,
    has,
    tokens_met,
    unfinished,
)
from dragoman.search.hypothesis import Constraints, beam_width, length_normalization
from dragoman.search.sampling import SamplingStep, samples_of, sampling_steps
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import EndReason, Node, TokenText, Tree, beam_tree, finished_number

MAX_DRAWN = 10  # tokens that are kept of a distribution, besides those that were drawn


@dataclass(frozen=True)
class ConstraintProgress:
    """What a hypothesis of grid beam search has met of the forced words."""

    tokens: int
    """Forced tokens, also those of a phrase that it has begun: the number of its beam."""
    phrases: tuple[int, ...]
    """The numbers of the forced words that it contains, counted from 0."""


@dataclass(frozen=True)
class SearchTree(Tree):
    """A tree, with what sampling and grid beam search add to it."""

    drawn: dict[int, dict[int, float]] = field(default_factory=dict)
    """Sampling: for each hypothesis that was extended, the log-probabilities of the likeliest tokens, and of
    all that were drawn, in the distribution that its next tokens were drawn from."""
    met: list[ConstraintProgress] = field(default_factory=list)
    """Grid beam search: of each hypothesis."""


def search_tree(
    model: Model,
    source: Int[Tensor, "1 S"],
    settings: SearchSettings,
    constraints: Constraints,
    token_text: TokenText,
) -> SearchTree:
    """Search for a sentence as `TorchBackend.search_padded` does; the tree of this search."""
    if settings.temperature:
        return sample_tree(sampling_steps(model, source, settings, constraints), token_text)
    if settings.force_words:
        steps = grid_steps(model, source, settings, constraints)
        return grid_tree(steps, settings, constraints, token_text)
    tree = beam_tree(beam_steps(model, source, settings, constraints), settings, token_text)
    return SearchTree(tree.nodes, tree.live, tree.found)


# ---- sampling


def sample_tree(steps: Iterable[SamplingStep], token_text: TokenText) -> SearchTree:
    """Each sample of one sentence as a path from the empty hypothesis."""
    tree = SearchTree([Node(None, token_text(START), 0.0, 0.0)], [], [])
    newest: list[int] = []  # of each sample
    for step in steps:
        tokens, totals = step.written[0, :, -1].tolist(), step.totals[0].tolist()
        newest = newest or [0] * len(tokens)
        live = [None if tree.nodes[number].end else number for number in newest]
        tree.live.append(live)
        for sample, parent in enumerate(live):
            if parent is not None:
                token, total = tokens[sample], totals[sample]
                add_drawn(tree.drawn.setdefault(parent, {}), step.logits[0, sample], token)
                newest[sample] = len(tree.nodes)
                end: EndReason | None = "finished" if token == END else None
                tree.nodes.append(Node(parent, token_text(token), total, total, end))
        last = step
    hypotheses = zip(samples_of(last)[0], newest, strict=True)
    tree.found.extend(sorted(hypotheses, key=lambda pair: -pair[0].score))
    return tree


def add_drawn(drawn: dict[int, float], logits: Float[Tensor, "V"], token: int) -> None:
    """Add the likeliest tokens of the softmax of these logits, and a token that was drawn."""
    log_probs = logits.log_softmax(-1)
    best = log_probs.topk(min(MAX_DRAWN, len(log_probs)))
    likeliest = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    drawn.update({candidate: log_prob for candidate, log_prob in likeliest if log_prob > -torch.inf})
    drawn[token] = float(log_probs[token])


# ---- grid beam search


def grid_tree(
    steps: Iterable[GridStep], settings: SearchSettings, constraints: Constraints, token_text: TokenText
) -> SearchTree:
    """The candidates that each beam of the grid has compared, at most twice its width."""
    tree = SearchTree([Node(None, token_text(START), 0.0, 0.0)], [], [])
    ids, live, forced_tokens = [list[int]()], [0], constraints.forced_tokens
    widths = [beam_width(count, forced_tokens, settings.beam_size) for count in range(forced_tokens + 1)]
    for length, step in enumerate(steps, 1):
        tree.live.append([*live])
        normalization = length_normalization(float(length), settings)
        numbers: dict[tuple[int, ...], int] = {}  # of candidates, by their ids
        for count, beam in step.beams.items():
            for hypothesis, end, rival in ends_of(beam, widths[count]):
                token = hypothesis.ids[-1]
                numbers[tuple(hypothesis.ids)] = len(ids)
                cut_by = None if rival is None else numbers[tuple(rival.ids)]
                score = hypothesis.log_prob / normalization
                tree.nodes.append(
                    Node(live[hypothesis.row], token_text(token), hypothesis.log_prob, score, end, cut_by)
                )
                ids.append(hypothesis.ids[1:])
        for row, number in enumerate(live):
            end_without_extension(tree, number, row, step, numbers, widths)
        before, live = live, [numbers[tuple(hypothesis.ids)] for hypothesis in step.live]
        for number in set(numbers.values()).difference(live):
            if tree.nodes[number].end is None:
                tree.nodes[number] = replace(tree.nodes[number], end="below a translation")
        for best in step.best:
            if not any(node.end == "finished" for node in tree.nodes):  # the words are not all met
                parent = next(number for number in before if ids[number] == best.ids)
                tree.nodes[parent] = replace(tree.nodes[parent], end=None, cut_by=None)
                tree.nodes.append(Node(parent, token_text(END), best.log_probability, best.score, "finished"))
                ids.append([*best.ids, END])
            tree.found.append((best, finished_number(tree.nodes, ids, best)))
    for number in live:
        tree.nodes[number] = replace(tree.nodes[number], end="the search was over")
    tree.met.extend(met(prefix, constraints) for prefix in ids)
    return tree


def ends_of(
    beam: Sequence[LiveHypothesis], width: int
) -> Iterator[tuple[LiveHypothesis, EndReason | None, LiveHypothesis | None]]:
    """The candidates that a beam compares, with their ends and with what cut them."""
    survivors = unfinished(beam, width)
    for place, hypothesis in enumerate(beam[: 2 * width]):
        if hypothesis.ids[-1] == END:
            yield (
                (hypothesis, "finished", None)
                if place < width
                else (hypothesis, "below the beam", beam[width - 1])
            )
        else:
            yield (
                (hypothesis, None, None)
                if hypothesis in survivors
                else (hypothesis, "below the beam", survivors[-1])
            )


def end_without_extension(
    tree: SearchTree,
    number: int,
    row: int,
    step: GridStep,
    numbers: dict[tuple[int, ...], int],
    widths: Sequence[int],
) -> None:
    """Mark a hypothesis of which no extension survived.

    `cut_by` is the last hypothesis of the beam in which its likeliest extension competed.
    """
    if any(
        tree.nodes[candidate].parent == number and tree.nodes[candidate].end in (None, "finished")
        for candidate in numbers.values()
    ):
        return
    survivors = {count: unfinished(beam, widths[count]) for count, beam in step.beams.items()}
    extensions = [
        (hypothesis.log_prob, count)
        for count, beam in step.beams.items()
        for hypothesis in beam
        if hypothesis.row == row
    ]
    count = max(extensions)[1] if extensions else 0
    last = (survivors.get(count) or step.beams.get(count, [])[: widths[count]])[-1:]
    cut_by = numbers[tuple(last[0].ids)] if last else None
    tree.nodes[number] = replace(tree.nodes[number], end="no extension in the beam", cut_by=cut_by)


def met(ids: Sequence[int], constraints: Constraints) -> ConstraintProgress:
    """What these ids have met of the forced words."""
    contained = [
        number
        for number, phrase in enumerate(constraints.forced)
        if has(list(ids), phrase, constraints.continuing)
    ]
    return ConstraintProgress(tokens_met(ids, constraints), tuple(contained))

"""The hypotheses of a beam search: where each came from, why it ended, and what they share so far."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dragoman.model.symbols import END, START
from dragoman.search.beam import Step
from dragoman.search.hypothesis import Hypothesis, length_normalization
from dragoman.search.settings import SearchSettings

TokenText = Callable[[int], str]
EndReason = Literal[
    "finished",
    "below the beam",
    "below a translation",
    "found by another group",
    "no extension in the beam",
    "the search was over",
]


@dataclass(frozen=True)
class Node:
    """A hypothesis: its parent's tokens and one more."""

    parent: int | None
    """The number of the hypothesis that it extends; None for the empty one, which has number 0."""
    token: str
    log_probability: float
    """Of the hypothesis, in nats."""
    score: float
    """The log-probability divided by the length normaliser: what ranks a hypothesis that finishes here."""
    end: EndReason | None = None
    """Why it was not extended; None if an extension of it stayed live."""
    cut_by: int | None = None
    """What took its place: the least likely hypothesis that its beam kept in its step, or the same one of
    another group. None for a hypothesis that was not cut."""


@dataclass(frozen=True)
class Tree:
    """The hypotheses of a search for one sentence, and the calls of the decoder that extended them."""

    nodes: list[Node]
    """In order of creation."""
    live: list[list[int | None]]
    """For each call of the decoder, the number of the hypothesis in each row; None for an empty row."""
    found: list[tuple[Hypothesis, int]]
    """What the search found, best first, each with its number."""

    def path(self, number: int) -> list[int]:
        """The numbers from the empty hypothesis to this one."""
        path = [number]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]


def trace_nodes(steps: Iterable[Step], settings: SearchSettings, token_text: TokenText) -> list[Node]:
    """All hypotheses of the search for one sentence, in order of creation."""
    return beam_tree(steps, settings, token_text).nodes


def beam_tree(steps: Iterable[Step], settings: SearchSettings, token_text: TokenText) -> Tree:
    """The tree of greedy or beam search for one sentence."""
    nodes, ids = [Node(None, token_text(START), 0.0, 0.0)], [list[int]()]
    tree = Tree(nodes, [], [])
    live: list[int | None] = [0]  # node numbers; None is an empty place
    for length, step in enumerate(steps, 1):
        extensions = step.extensions
        live = live if len(nodes) > 1 else [0] * extensions.survivors.size(1)
        tree.live.append(live)
        survivors, ends = set(extensions.survivors[0].tolist()), extensions.ends[0].tolist()
        duplicates = extensions.duplicate[0].tolist()
        columns = (
            extensions.log_probs[0].tolist(),
            extensions.origin[0].tolist(),
            extensions.token[0].tolist(),
        )
        numbers = candidate_numbers(step, len(nodes))
        last = last_survivors(step, numbers, settings.groups)
        group_size = len(live) // settings.groups
        finished: dict[tuple[int, ...], int] = {}
        for candidate, (log_prob, origin, token) in enumerate(zip(*columns, strict=True)):
            if candidate in numbers:
                parent = live[origin]
                assert parent is not None
                ids.append([*ids[parent], token])
                group = origin // group_size
                ended: EndReason = "finished" if ends[candidate] else "below the beam"
                cut_by = None if ends[candidate] else last[group]
                if duplicates[candidate]:
                    ended, cut_by = "found by another group", finished[tuple(ids[-1])]
                elif token == END and ended == "below the beam":
                    cut_by = numbers[2 * group_size * group + group_size - 1]
                end = None if candidate in survivors else ended
                score = log_prob / length_normalization(float(length), settings)
                nodes.append(Node(parent, token_text(token), log_prob, score, end, cut_by if end else None))
                if end == "finished":
                    finished[tuple(ids[-1])] = numbers[candidate]
        parents = {
            nodes[number].parent for number in numbers.values() if nodes[number].end in (None, "finished")
        }
        for slot, number in enumerate(live):
            if number is not None and number not in parents:
                cut_by = last[slot // group_size]
                nodes[number] = replace(nodes[number], end="no extension in the beam", cut_by=cut_by)
        live = [numbers.get(candidate) for candidate in extensions.survivors[0].tolist()]
        for best in step.done.get(0, []):
            tree.found.append((best, finished_number(nodes, ids, best)))
    for number in {number for number in live if number is not None}:
        nodes[number] = replace(nodes[number], end="the search was over")
    return tree


def last_survivors(step: Step, numbers: dict[int, int], groups: int) -> list[int | None]:
    """For each group of the beam, the least likely hypothesis that a step keeps live."""
    rows = step.extensions.survivors[0].unflatten(0, (groups, -1)).tolist()
    return [
        next((numbers[candidate] for candidate in reversed(row) if candidate in numbers), None)
        for row in rows
    ]


def finished_number(nodes: list[Node], ids: list[list[int]], best: Hypothesis) -> int:
    """The number of a finished hypothesis."""
    return next(
        number
        for number, node in enumerate(nodes)
        if node.end == "finished" and ids[number] == [*best.ids, END]
    )


def candidate_numbers(step: Step, first: int) -> dict[int, int]:
    """The node number of each candidate of a step that is a hypothesis; the first of them is `first`."""
    log_probs = step.extensions.log_probs[0].tolist()
    candidates = [candidate for candidate, log_prob in enumerate(log_probs) if log_prob > -torch.inf]
    return {candidate: first + place for place, candidate in enumerate(candidates)}


def stable_prefixes(steps: Iterable[Step]) -> Iterator[list[int]]:
    """After each step of one sentence's search, the first tokens that all hypotheses share.

    The last of them is the best hypothesis.
    """
    for step in steps:
        beam = step.beam
        if step.done:
            yield step.done[0][0].ids
            return
        live = zip(beam.live[0].tolist(), beam.live_log_probs[0].tolist(), strict=True)
        finished = zip(beam.finished[0].tolist(), beam.finished_scores[0].tolist(), strict=True)
        rows = [ids[1:] for ids, log_prob in live if log_prob > -torch.inf]
        rows += [ids for ids, score in finished if score > -torch.inf]
        common = 0
        while all(len(ids) > common for ids in rows) and len({ids[common] for ids in rows}) == 1:
            common += 1
        yield rows[0][:common] if rows else []

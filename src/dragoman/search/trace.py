"""The hypotheses of a beam search: where each came from, why it ended, and what they share so far."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dragoman.model.symbols import START
from dragoman.search.beam import Step
from dragoman.search.hypothesis import length_normalization
from dragoman.search.settings import SearchSettings

End = Literal[
    "finished", "below the beam", "found by another group", "no extension in the beam", "the search was over"
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
    end: End | None = None
    """Why it was not extended; None if an extension of it stayed live."""


def trace_nodes(steps: Iterable[Step], settings: SearchSettings, name: Callable[[int], str]) -> list[Node]:
    """All hypotheses of the search for one sentence, in order of creation; `name` gives a token's text."""
    nodes = [Node(None, name(START), 0.0, 0.0)]
    live: list[int | None] = [0]  # node numbers; None is an empty place
    for length, step in enumerate(steps, 1):
        extensions = step.extensions
        live = live if len(nodes) > 1 else [0] * extensions.survivors.size(1)
        survivors, ends = set(extensions.survivors[0].tolist()), extensions.ends[0].tolist()
        duplicates = extensions.duplicate[0].tolist()
        columns = (
            extensions.log_probs[0].tolist(),
            extensions.origin[0].tolist(),
            extensions.token[0].tolist(),
        )
        numbers = candidate_numbers(step, len(nodes))
        for candidate, (log_prob, origin, token) in enumerate(zip(*columns, strict=True)):
            if candidate in numbers:
                ended: End = "finished" if ends[candidate] else "below the beam"
                ended = "found by another group" if duplicates[candidate] else ended
                end = None if candidate in survivors else ended
                score = log_prob / length_normalization(float(length), settings)
                nodes.append(Node(live[origin], name(token), log_prob, score, end))
        parents = {
            nodes[number].parent for number in numbers.values() if nodes[number].end in (None, "finished")
        }
        for number in {number for number in live if number is not None} - parents:
            nodes[number] = replace(nodes[number], end="no extension in the beam")
        live = [numbers.get(candidate) for candidate in extensions.survivors[0].tolist()]
    for number in {number for number in live if number is not None}:
        nodes[number] = replace(nodes[number], end="the search was over")
    return nodes


def candidate_numbers(step: Step, first: int) -> dict[int, int]:
    """The node number of each candidate of a step that is a hypothesis; the first of them is `first`."""
    log_probs = step.extensions.log_probs[0].tolist()
    found = [candidate for candidate, log_prob in enumerate(log_probs) if log_prob > -torch.inf]
    return {candidate: first + place for place, candidate in enumerate(found)}


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

"""What a beam search looked at: every hypothesis, where it came from and why it ended; and what is certain before the end."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dragoman.model.symbols import START
from dragoman.search.beam import Step
from dragoman.search.hypothesis import normalizer
from dragoman.search.settings import SearchSettings

End = Literal["finished", "below the beam", "found by another group", "no extension in the beam", "the search was over"]


@dataclass(frozen=True)
class Node:
    """A hypothesis: its last token, after those of its parent."""

    parent: int | None
    """The number of the hypothesis that it extends; None for the empty one, which has number 0."""
    token: str
    log_probability: float
    """Of the whole hypothesis, in nats."""
    score: float
    """What would rank it if it ended here: for one that did, what ranked it."""
    end: End | None = None
    """Why nothing follows; None where hypotheses that follow were kept."""


def trace_nodes(steps: Iterable[Step], settings: SearchSettings, name: Callable[[int], str]) -> list[Node]:
    """All hypotheses of the search for one sentence, in the order in which they were made; `name` writes a token."""
    nodes = [Node(None, name(START), 0.0, 0.0)]
    live: list[int | None] = [0]  # None is an empty place
    for length, step in enumerate(steps, 1):
        extensions = step.extensions
        live = live if len(nodes) > 1 else [0] * extensions.lives.size(1)
        lives, ends, again = set(extensions.lives[0].tolist()), extensions.ends[0].tolist(), extensions.again[0].tolist()
        rows = zip(extensions.log_p[0].tolist(), extensions.origin[0].tolist(), extensions.token[0].tolist(), strict=True)
        places: dict[int, int] = {}
        for place, (log_p, origin, token) in enumerate(rows):
            if log_p > -torch.inf:
                places[place] = len(nodes)
                gone: End = "finished" if ends[place] else "found by another group" if again[place] else "below the beam"
                end = None if place in lives else gone
                nodes.append(Node(live[origin], name(token), log_p, log_p / normalizer(float(length), settings), end))
        parents = {nodes[number].parent for number in places.values() if nodes[number].end in (None, "finished")}
        for number in {number for number in live if number is not None} - parents:
            nodes[number] = replace(nodes[number], end="no extension in the beam")
        live = [places.get(place) for place in extensions.lives[0].tolist()]
    for number in {number for number in live if number is not None}:
        nodes[number] = replace(nodes[number], end="the search was over")
    return nodes


def stable_prefixes(steps: Iterable[Step]) -> Iterator[list[int]]:
    """For one sentence, after each step, the first tokens that all hypotheses have in common, those that have finished too.

    At last all tokens of the best one.
    """
    for step in steps:
        beam = step.beam
        if step.done:
            yield step.done[0][0].ids
            return
        rows = [ids[1:] for ids, log_p in zip(beam.live[0].tolist(), beam.live_log_p[0].tolist(), strict=True) if log_p > -torch.inf]
        rows += [ids for ids, score in zip(beam.finished[0].tolist(), beam.finished_score[0].tolist(), strict=True) if score > -torch.inf]
        common = 0
        while all(len(ids) > common for ids in rows) and len({ids[common] for ids in rows}) == 1:
            common += 1
        yield rows[0][:common] if rows else []

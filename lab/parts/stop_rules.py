"""The rules by which programs end a beam search, applied to one pass through a model.

The live hypotheses of a beam of constant width W depend neither on the rule nor on the length penalty.
"""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import START
from dragoman.search.beam import beam_steps, max_target_lengths
from dragoman.search.hypothesis import Constraints, length_penalty
from dragoman.search.settings import SearchSettings

W, ALPHA = 4, 0.6
# By this power of the length, later hypotheses are better: the search goes on nearly to the maximum length.
ASKED = SearchSettings(beam_size=W, n_best=W, length_power=8.0, max_extra_tokens=8)
Rule = Callable[[list[float], float, float], bool]
"""Whether a search ends: of the finished scores (one or more, best first), of the best live hypothesis' score
if it ended now, and of its score at the maximum length if all its further tokens had probability 1.
"""
RULES: dict[str, Rule] = {
    "W have finished": lambda found, now, bound: len(found) >= W,
    "W, and none is better now": lambda found, now, bound: len(found) >= W and now <= found[0],
    "W, and none is better now than the W-th": (
        lambda found, now, bound: len(found) >= W and now <= found[W - 1]
    ),
    "none can become the best": lambda found, now, bound: bound <= found[0],
}
"""fairseq and CTranslate2; Dragoman, which ends by the last rule too; Hugging Face; Tensor2Tensor."""
Ends = dict[str, tuple[list[int], int]]
"""For each rule the ids of the best finished hypothesis, and the number of steps."""


def searches(model: Model, source: Int[Tensor, "B S"]) -> list[Ends]:
    """Of each sentence, what each rule finds. The scores have the paper's length penalty."""
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in source]
    found: list[Ends] = [{} for _ in source]
    before = dict.fromkeys(range(len(source)), torch.full((W, 1), START))
    longest = max_target_lengths(model, source, ASKED).tolist()
    for length, step in enumerate(beam_steps(model, source, ASKED, Constraints()), 1):
        made = step.extensions
        for row, number in enumerate(step.sentences.tolist()):
            for place in made.ends[row].nonzero().flatten().tolist():
                score = float(made.log_probs[row, place]) / length_penalty(length, ALPHA)
                finished[number].append((score, before[number][made.origin[row, place], 1:].tolist()))
            finished[number].sort(key=lambda one: -one[0])
            scores = [score for score, _ in finished[number]]
            likeliest = float(step.beam.live_log_probs[row].max())
            now = likeliest / length_penalty(length, ALPHA)
            bound = likeliest / length_penalty(longest[number] + 1, ALPHA)
            for name, rule in RULES.items():
                if scores and name not in found[number] and (number in step.done or rule(scores, now, bound)):
                    found[number][name] = finished[number][0][1], length
            before[number] = step.beam.live[row]
    return found

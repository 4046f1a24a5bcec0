"""The rules by which programs end a beam search, applied to one pass through a model.

The live hypotheses of a beam of constant width W depend neither on the rule nor on the length penalty.
"""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.search.beam import Beam, extend, max_target_lengths, next_log_probs, restrict
from dragoman.search.hypothesis import Constraints, length_penalty
from dragoman.search.settings import SearchSettings

W, ALPHA = 4, 0.6
ASKED = SearchSettings(beam_size=W, length_penalty=ALPHA, max_extra_tokens=8)
Rule = Callable[[list[float], float, float], bool]
"""Whether a search ends: of the finished scores (one or more, best first), of the best live hypothesis' score
if it ended now, and of its score at the maximum length if all its further tokens had probability 1.
"""
RULES: dict[str, Rule] = {
    "W have finished": lambda scores, now, bound: len(scores) >= W,
    "W, none is better now": lambda scores, now, bound: len(scores) >= W and now <= scores[0],
    "W, none beats the W-th": lambda scores, now, bound: len(scores) >= W and now <= scores[W - 1],
    "none can become the best": lambda scores, now, bound: bound <= scores[0],
}
"""fairseq and CTranslate2; Dragoman, which ends by the last rule too; Hugging Face; Tensor2Tensor, where any
of 2 W candidates of a step can finish.
"""
Ends = dict[str, tuple[list[int], int]]
"""For each rule the ids of the best finished hypothesis, and the number of steps."""


@torch.no_grad()
def searches(model: Model, source: Int[Tensor, "B S"]) -> list[Ends]:
    """Of each sentence, what each rule finds. The scores have the paper's length penalty."""
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in source]
    results: list[Ends] = [{} for _ in source]
    max_lengths = max_target_lengths(model, source, ASKED)
    steps = int(max_lengths.max()) + 1
    state = model.encode(source).allocate(W, steps)
    beam = Beam.start(len(source), W, 1, steps, source[:, :0].float())  # without coverage
    for length in range(1, steps + 1):  # of a hypothesis that ends now, END included
        features, state = model.decode(beam.live[:, :, -1].reshape(-1, 1), state)
        log_probs = next_log_probs(model, features[:, -1]).unflatten(0, (-1, W))  # [B, W, V]
        log_probs = restrict(log_probs, Constraints(), beam.live, length > max_lengths)
        before = beam.live
        extension = extend(beam, log_probs, ASKED)
        for number, longest in enumerate(max_lengths.tolist()):
            for place in extension.ends[number].nonzero().flatten().tolist():
                score = float(extension.log_probs[number, place]) / length_penalty(length, ALPHA)
                finished[number].append((score, before[number, extension.origin[number, place], 1:].tolist()))
            finished[number].sort(key=lambda hypothesis: -hypothesis[0])
            scores = [score for score, _ in finished[number]]
            likeliest = float(beam.live_log_probs[number].max())
            now = likeliest / length_penalty(length, ALPHA)
            bound = likeliest / length_penalty(longest + 1, ALPHA)
            for name, rule in RULES.items():
                if scores and name not in results[number] and (length > longest or rule(scores, now, bound)):
                    results[number][name] = finished[number][0][1], length
        rows = torch.arange(len(source))[:, None] * W + extension.origin.gather(1, extension.survivors)
        state = state.reorder(rows.flatten())
    return results

"""When a beam search ends: the rules of several programs, compared by translations and by steps.

    OMP_NUM_THREADS=1 python benchmarks/stop_rules.py --models RUN [RUN ...] --valid valid.en valid.de

The live hypotheses of a beam search depend on log-probabilities alone, so one pass through the decoder serves
all rules and length penalties that keep a beam of constant width; a beam that shrinks takes another. For each
model, beam size, length penalty and rule: BLEU and chrF2; the means over the sentences of the score, of the
decoder's steps and of its rows (hypotheses that were extended); words relative to the reference; the share of
translations that are not those of the rule "W have finished"; p of a paired bootstrap beside that rule.
Writes stop-rules-NAME-DATE.json and .md.
"""

import argparse
import json
import sys
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from jaxtyping import Int
from passport import asked, keep, passport
from tables import BASELINE, stop_rules
from torch import Tensor

from dragoman.evaluation.compare import bleu_p_value
from dragoman.evaluation.measures import chrf
from dragoman.evaluation.metrics import bleu
from dragoman.model.interface import Model
from dragoman.model.symbols import END, START
from dragoman.search.beam import (
    likeliest_that_continue,
    max_target_lengths,
    next_log_probs,
    restrict,
    rows_of,
    top_k_extensions,
)
from dragoman.search.hypothesis import Constraints, Hypothesis, length_normalization
from dragoman.search.settings import SearchSettings
from dragoman.text.batches import pad
from dragoman.text.lines import read_lines
from dragoman.translation.token_ids import batch_by_length
from dragoman.translation.translator import Translator

PENALTIES = {
    "α = 0": SearchSettings(length_penalty=0.0),
    "α = 0.6": SearchSettings(length_penalty=0.6),
    "α = 1": SearchSettings(length_penalty=1.0),
    "power 1": SearchSettings(length_power=1.0),
}


@dataclass
class Seen:
    """What a rule sees of a sentence after a step."""

    width: int
    """W, the beam size."""
    scores: list[float]
    """Of the hypotheses that have finished, lowest first."""
    likeliest_ends: bool
    """Whether the likeliest extension of this step ends."""
    now: float
    """The score of the likeliest live hypothesis if it ended now."""

    @property
    def best(self) -> float:
        """The best finished score."""
        return self.scores[-1] if self.scores else -torch.inf

    @property
    def worst(self) -> float:
        """The worst score of the W best that have finished; -inf while fewer have."""
        return self.scores[-self.width] if len(self.scores) >= self.width else -torch.inf


@dataclass(frozen=True)
class Rule:
    """When a search ends, besides the end that all rules share: when no live hypothesis can become the best.

    That changes no translation.
    """

    ends: Callable[[Seen], bool]
    shrinks: bool = False
    """Whether a hypothesis that finishes leaves its place in the beam empty."""
    ranks: int = 1
    """A hypothesis finishes if it is among this many times W candidates."""


OURS = "W have finished, none is better now than the best"
RULES = {
    # fairseq, CTranslate2, Hugging Face with early_stopping=True.
    BASELINE: Rule(lambda seen: len(seen.scores) >= seen.width),
    "2 W have finished": Rule(lambda seen: len(seen.scores) >= 2 * seen.width),  # CTranslate2, patience 2
    "none can become the best": Rule(lambda _: False),
    "none can become the best, of 2 W candidates": Rule(lambda _: False, ranks=2),  # Tensor2Tensor
    # Hugging Face with early_stopping=False, its default.
    "W have finished, none is better now than the W-th": Rule(lambda seen: seen.now <= seen.worst),
    OURS: Rule(lambda seen: len(seen.scores) >= seen.width and seen.now <= seen.best),
    "none is better now than the best": Rule(lambda seen: seen.now <= seen.best),
    "the likeliest ends": Rule(lambda seen: seen.likeliest_ends),  # OpenNMT-py
    # Marian.
    "W have finished, the beam shrinks": Rule(lambda seen: len(seen.scores) >= seen.width, shrinks=True),
}


@dataclass
class Outcome:
    """A sentence, as one rule with one length penalty searches for its translation."""

    rule: Rule
    penalty: SearchSettings
    best: Hypothesis | None = None
    scores: list[float] = field(default_factory=list)
    steps: int = 0
    rows: int = 0
    done: bool = False

    def step(self, ended: list[tuple[int, float, list[int]]], live: list[float], longest: int) -> None:
        """See one step: its candidates that end, as rank, log-probability and ids, and those that live on."""
        width = len(live)
        self.steps, self.rows = self.steps + 1, self.rows + self._width(width)
        divisor = length_normalization(float(self.steps), self.penalty)
        for rank, log_prob, ids in ended:
            if rank < self.rule.ranks * width:
                score = log_prob / divisor
                insort(self.scores, score)
                if self.best is None or score > self.best.score:
                    self.best = Hypothesis(ids, log_prob, score)
        seen = Seen(width, self.scores, any(rank == 0 for rank, *_ in ended), max(live) / divisor)
        bound = max(live) / length_normalization(longest + 1.0, self.penalty)
        self.done = self.rule.ends(seen) or bound <= seen.best or max(live) == -torch.inf

    def _width(self, width: int) -> int:
        return width - len(self.scores) if self.rule.shrinks else width


Row = dict[str, Any]
Sentence = dict[tuple[str, str], Outcome]
"""Outcomes by length penalty and rule."""


@torch.no_grad()
def search(model: Model, source: Int[Tensor, "B S"], width: int, shrinks: bool) -> list[Sentence]:
    """All rules that shrink the beam, or all others. The beam is that of `beam_steps`, or of Marian."""
    rules = {name: rule for name, rule in RULES.items() if rule.shrinks == shrinks}
    found: list[Sentence] = [
        {
            (penalty, name): Outcome(rule, settings)
            for penalty, settings in PENALTIES.items()
            for name, rule in rules.items()
        }
        for _ in source
    ]
    max_lengths = max_target_lengths(model, source, SearchSettings())
    steps = int(max_lengths.max()) + 1
    state, numbers = model.encode(source).allocate(width, steps), list(range(len(source)))
    live = torch.full((len(source), width, 1), START)
    live_log_probs = torch.full((len(source), width), -torch.inf)
    live_log_probs[:, 0] = 0
    places = torch.full((len(source), 1), width)  # in the beam
    for step in range(steps):
        features, state = model.decode(live[:, :, -1].reshape(-1, 1), state)
        log_probs = next_log_probs(model, features[:, -1]).unflatten(0, (-1, width))  # [B, W, V]
        log_probs = restrict(log_probs, Constraints(), live, step >= max_lengths[numbers])
        total, origin, token = top_k_extensions(log_probs, live_log_probs, 2 * width)  # [B, 2W]
        if shrinks:
            total = total.masked_fill(torch.arange(2 * width) >= places, -torch.inf)
        ends = (token == END) & (total > -torch.inf)
        survivors = likeliest_that_continue(ends | (total == -torch.inf), groups=1)  # [B, W]
        prefixes = rows_of(live, origin)
        live_log_probs = total.masked_fill(token == END, -torch.inf).gather(1, survivors)
        live = torch.cat([rows_of(prefixes, survivors), token.gather(1, survivors)[:, :, None]], -1)
        places = places - ends[:, :width].sum(1, keepdim=True) if shrinks else places
        for row, number in enumerate(numbers):
            ended = [
                (rank, float(total[row, rank]), prefixes[row, rank, 1:].tolist())
                for rank in ends[row].nonzero().flatten().tolist()
            ]
            alive = live_log_probs[row].tolist()
            for outcome in found[number].values():
                if not outcome.done:
                    outcome.step(ended, alive, int(max_lengths[number]))
        kept = [row for row, number in enumerate(numbers) if not all(o.done for o in found[number].values())]
        if not kept:
            break
        origin = origin.gather(1, survivors)
        if len(kept) < len(numbers):
            numbers, rows = [numbers[row] for row in kept], torch.tensor(kept)
            live, live_log_probs, places = live[rows], live_log_probs[rows], places[rows]
            origin, state = origin[rows], state.select(rows)
        state = state.reorder((torch.arange(len(numbers))[:, None] * width + origin).flatten())
    return found


def search_all(translator: Translator, sources: Sequence[list[int]], width: int) -> list[Sentence]:
    """The outcomes of each source."""
    found: list[Sentence] = [{} for _ in sources]
    lengths = {number: len(ids) + 50 for number, ids in enumerate(sources)}
    for batch in batch_by_length(lengths, 32_000 // width):
        source = pad([sources[number] for number in batch])
        for shrinks in (False, True):
            outcomes = search(translator.torch_backend.model, source, width, shrinks)
            for number, outcome in zip(batch, outcomes, strict=True):
                found[number] |= outcome
    return found


def check(translator: Translator, sources: Sequence[list[int]], width: int, found: list[Sentence]) -> None:
    """By our rule these are the hypotheses that Dragoman itself finds."""
    for penalty, settings in PENALTIES.items():
        own = translator.torch_backend.search(sources, replace(settings, beam_size=width), Constraints())
        for sentence, (best, *_) in zip(found, own, strict=True):
            ours = sentence[penalty, OURS].best
            assert ours is not None
            assert abs(ours.score - best.score) < 1e-4


def measured(run: Path, width: int, source: list[str], reference: list[str]) -> Iterator[Row]:
    """A row for each length penalty and rule."""
    translator = Translator.load(run, native=False, device="cpu", workers=1)
    sources = translator.prepare(source, split=0).sources
    found = search_all(translator, sources, width)
    check(translator, sources[:50], width, found[:50])
    words = sum(len(line.split()) for line in reference)
    for penalty in PENALTIES:
        texts = {}
        for name in RULES:
            outcomes = [sentence[penalty, name] for sentence in found]
            best = [outcome.best for outcome in outcomes if outcome.best is not None]
            assert len(best) == len(reference)
            texts[name] = lines = [translator.detokenize(one.ids) for one in best]
            row = {
                "model": f"{run.parent.name}/{run.name}",
                "beam": width,
                "penalty": penalty,
                "rule": name,
                "BLEU": bleu(lines, reference).value,
                "p": 1.0 if lines == texts[BASELINE] else bleu_p_value(lines, texts[BASELINE], reference),
                "chrF2": chrf(lines, reference).value,
                "score": mean(one.score for one in best),
                "steps": mean(outcome.steps for outcome in outcomes),
                "rows": mean(outcome.rows for outcome in outcomes),
                "words / reference": sum(len(line.split()) for line in lines) / words,
                "changed": mean(a != b for a, b in zip(lines, texts[BASELINE], strict=True)),
            }
            yield {name: round(it, 4) if isinstance(it, float) else it for name, it in row.items()}


def page(found: Row) -> str:
    """A table for each beam and length penalty."""
    beams = dict.fromkeys(row["beam"] for row in found["rows"])
    return "\n".join(
        f"Beam {beam}, {penalty}:\n\n{stop_rules(found, beam, penalty)}"
        for beam in beams
        for penalty in PENALTIES
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all models and beams, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="runs")
    parser.add_argument("--valid", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--name", default="multi30k")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args(argv)
    arguments.command = asked("stop_rules.py", arguments)
    rows: list[Row] = []
    found: Row = passport(arguments.command) | {"rows": rows}
    source, reference = map(list, map(read_lines, arguments.valid))
    for run in arguments.models:
        for width in arguments.beams:
            for row in measured(run, width, source, reference):
                rows.append(row)
                print(json.dumps(row, ensure_ascii=False), flush=True)
    out = keep(found, arguments.results, f"stop-rules-{arguments.name}")
    out.with_suffix(".md").write_text(f"`{arguments.command}`\n\n{page(found)}")
    print(out, file=sys.stderr)


if __name__ == "__main__":
    main()

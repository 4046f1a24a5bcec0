"""`inspect`: translate one sentence with PyTorch, and record what the model computed for its translation.

Shapes: S source and T target tokens, W hypotheses, H heads, D = d_model, V vocabulary.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.inspection import (
    Array,
    Attention,
    Inspection,
    ModuleSummary,
    ResidualStream,
    TokenProbability,
)
from dragoman.inspection.projections import Calls, along_translation, record_projections
from dragoman.inspection.recording import Recording, record
from dragoman.model.symbols import END
from dragoman.model.transformer import Transformer
from dragoman.search.beam import Step, beam_steps, next_log_probs
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.options import SearchOptions
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import Node, candidate_numbers, trace_nodes
from dragoman.system.errors import DragomanError
from dragoman.translation.alignment import select_head, word_alignment, word_starts
from dragoman.translation.analysis import encode_one, source_words
from dragoman.translation.translator import Translator

ENCODER_PARTS = ("self_attention", "feed_forward")
DECODER_PARTS = ("self_attention", "cross_attention", "feed_forward")
MOST_CANDIDATES = 10  # tokens that are kept of a step of a hypothesis, and of a layer


def inspect(
    translator: Translator,
    sentence: str,
    settings: SearchSettings | None = None,
    **options: Unpack[SearchOptions],
) -> Inspection:
    """Translate a sentence and record what the model computed.

    The translation is that of `Translator.translate` with PyTorch. Raises `DragomanError` for a blank
    sentence, for a model that is not one Transformer, and for settings that ask for more than one beam
    search.
    """
    settings = SearchSettings.of(settings, options)
    model = one_transformer(translator)
    source, constraints = encode_one(translator, sentence, settings, "inspection")
    if source.size(1) == 1:
        raise DragomanError("The sentence is blank: the model computes nothing for it. Give one with words.")
    steps: list[Step] = []
    live: list[Tensor] = []  # of each step, the prefixes of its hypotheses [W t]
    with record(model) as recording, record_projections(model) as calls, torch.no_grad():
        for step in beam_steps(model, source, settings, constraints):
            steps.append(step)
            live.append(step.beam.live[0])
    search = Search(translator, settings, steps, live, recording, calls)
    return search.inspection(sentence, source[0].tolist())


def one_transformer(translator: Translator) -> Transformer:
    """The model. Raises `DragomanError` if it is an ensemble or has no multi-head attention."""
    model = translator.torch_backend.model
    if len(model.members) > 1:
        raise DragomanError("An inspection is of one model, and this is an ensemble; give one run.")
    if not isinstance(model, Transformer):
        raise DragomanError(
            "An inspection shows multi-head attention, and this model (an LSTM or GRU) has none."
        )
    return model


@dataclass(frozen=True)
class Search:
    """A beam search for one sentence that has ended, with what the model computed in it."""

    translator: Translator
    settings: SearchSettings
    steps: Sequence[Step]
    live: Sequence[Tensor]
    """The prefixes after each step [W t], START first."""
    recording: Recording
    calls: dict[str, Calls]

    @property
    def model(self) -> Transformer:
        return one_transformer(self.translator)

    @property
    def best(self) -> Hypothesis:
        """The translation."""
        return self.steps[-1].done[0][0]

    @cached_property
    def best_ids(self) -> list[int]:
        """The translation's ids, END last."""
        return [*self.best.ids, END]

    @cached_property
    def rows(self) -> list[int]:
        """At each step, the place of the translation's prefix among the hypotheses that are extended."""
        best = self.best_ids
        return [0] + [
            next(w for w, row in enumerate(live.tolist()) if row[1:] == best[:length])
            for length, live in enumerate(self.live[: len(best) - 1], 1)
        ]

    def inspection(self, sentence: str, source: list[int]) -> Inspection:
        """The data of all views."""
        best, target = self.best, self.best_ids
        sides = self.translator.tokenizers.source, self.translator.tokenizers.target
        nodes = trace_nodes(self.steps, self.settings, lambda token: sides[1].pieces([token])[0])
        translation = self.translator.detokenize(best.ids)
        attention = self.attention(len(target))
        pieces = [side.pieces(ids) for side, ids in zip(sides, (source, target), strict=True)]
        words = [
            source_words(self.translator, sentence, source),
            word_starts(pieces[1][:-1], sides[1].unknown_is_word),
        ]
        path = best_path(nodes, pieces[1])
        return Inspection(
            sentence,
            translation,
            best.log_probability,
            best.score,
            self.settings,
            self.model.settings,
            tuple(pieces[0]),
            tuple(pieces[1]),
            with_end(words[0], len(source)),
            with_end(words[1], len(target)),
            tuple(nodes),
            tuple(path),
            self.candidates(),
            attention,
            tuple(
                word_alignment(select_head(torch.from_numpy(attention.cross)[:, None], None, None)[0], *words)
            ),
            self.stream(),
            self.lens(),
            as_array(self.model.target_positions(0, max(len(source), len(target)))),
            tuple(self.modules()),
            along_translation(self.calls, self.rows[: len(target)]),
        )

    # ---- along the translation

    def along(self, outputs: Sequence[Tensor]) -> Float[Tensor, "T D"]:
        """Of a decoder module's outputs [1 W D], those of the translation's prefixes."""
        return torch.stack([output[0, w] for output, w in zip(outputs, self.rows, strict=False)])

    def attention(self, tokens: int) -> Attention:
        """The weights that the model multiplied with values for the translation."""
        weights, rows, beams = self.recording.weights, self.rows, self.settings.beam_size
        encoder = [calls[0][0] for name, calls in weights.items() if name.startswith("encoder.")]
        cross = [
            torch.stack([call[0, :, w] for call, w in zip(calls, rows, strict=False)], 1)
            for name, calls in weights.items()
            if name.endswith(".cross_attention")
        ]
        decoder = []
        for name, calls in weights.items():
            if name.startswith("decoder.") and name.endswith(".self_attention"):
                square = calls[0].new_zeros(calls[0].size(1), tokens, tokens)
                for step, (call, w) in enumerate(zip(calls, rows, strict=False)):
                    # Of the W keys at a position, one is an ancestor's; the others have a weight of 0.
                    square[:, step, : step + 1] = call[0, :, w].unflatten(1, (-1, beams)).sum(2)
                decoder.append(square)
        return Attention(*(as_array(torch.stack(each)) for each in (encoder, decoder, cross)))

    def stream(self) -> ResidualStream:
        """Norms of the residual stream, and of what the sub-layers add to it."""
        outputs = self.recording.outputs
        source, *target = outputs["embedding"]
        embedded = torch.stack([each[w, 0] for each, w in zip(target, self.rows, strict=False)])
        encoder = [f"encoder.{number}" for number in range(len(self.model.encoder))]
        decoder = [f"decoder.{number}" for number in range(len(self.model.decoder))]
        return ResidualStream(
            norms([source[0], *(outputs[name][0][0] for name in encoder)]),
            np.stack(
                [norms([outputs[f"{name}.{part}"][0][0] for part in ENCODER_PARTS]) for name in encoder]
            ),
            norms([embedded, *(self.along(outputs[name]) for name in decoder)]),
            np.stack(
                [norms([self.along(outputs[f"{name}.{part}"]) for part in DECODER_PARTS]) for name in decoder]
            ),
        )

    @torch.no_grad()
    def lens(self) -> tuple[tuple[tuple[TokenProbability, ...], ...], ...]:
        """The likeliest tokens after each decoder layer."""
        outputs = self.recording.outputs
        layers = [self.along(outputs[f"decoder.{number}"]) for number in range(len(self.model.decoder))]
        return tuple(self.likeliest(self.model.decoder_norm(layer)) for layer in layers)

    def likeliest(self, features: Float[Tensor, "Q D"]) -> tuple[tuple[TokenProbability, ...], ...]:
        """The likeliest next tokens of each row of features."""
        log_probs = next_log_probs(self.model, features)
        best = log_probs.topk(min(MOST_CANDIDATES, log_probs.size(1)))
        pieces = self.translator.tokenizers.target.pieces
        return tuple(
            tuple(map(TokenProbability, pieces(ids), values))
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )

    # ---- all hypotheses

    @torch.no_grad()
    def candidates(self) -> dict[int, tuple[TokenProbability, ...]]:
        """The likeliest next tokens of each hypothesis that was extended, by its node."""
        last = self.recording.outputs[f"decoder.{len(self.model.decoder) - 1}"]
        found: dict[int, tuple[TokenProbability, ...]] = {}
        for features, numbers in zip(last, live_nodes(self.steps), strict=False):
            likeliest = self.likeliest(self.model.decoder_norm(features[0]))
            found |= {
                number: row for number, row in zip(numbers, likeliest, strict=True) if number is not None
            }
        return found

    def modules(self) -> list[ModuleSummary]:
        """The parts of the model, with their parameters and the shape of what they gave first."""
        counts: Counter[str] = Counter()
        for name, weight in self.model.named_parameters():  # tied ones occur once
            counts[part_of(name)] += weight.numel()
        outputs = self.recording.outputs
        return [
            ModuleSummary(name, count, tuple(outputs[name][0].shape) if outputs.get(name) else ())
            for name, count in counts.items()
        ]


def part_of(parameter: str) -> str:
    """The part of the model that a parameter belongs to, such as `encoder.0.self_attention`."""
    words = parameter.split(".")
    return ".".join(words[:3] if words[0] in ("encoder", "decoder") else words[:1])


def best_path(nodes: Sequence[Node], pieces: Sequence[str]) -> list[int]:
    """The numbers of the nodes of the best translation, whose tokens have these texts."""
    number = max(
        (number for number, node in enumerate(nodes) if node.end == "finished"), key=lambda n: nodes[n].score
    )
    path = [number]
    while (parent := nodes[path[-1]].parent) is not None:
        path.append(parent)
    assert len(path) == len(pieces) + 1
    return path[::-1]


def live_nodes(steps: Sequence[Step]) -> list[list[int | None]]:
    """The numbers of the nodes that each step extends, by slot of the beam; None for an empty slot."""
    width = steps[0].extensions.survivors.size(1)
    rows: list[list[int | None]] = [[0] + [None] * (width - 1)]
    number = 1
    for step in steps:
        numbers = candidate_numbers(step, number)
        number += len(numbers)
        rows.append([numbers.get(candidate) for candidate in step.extensions.survivors[0].tolist()])
    return rows


def with_end(words: Sequence[int], tokens: int) -> tuple[int, ...]:
    """Word numbers of tokens, END as a word of its own."""
    return (*words[: tokens - 1], words[-1] + 1 if words else 0)


def norms(rows: Sequence[Tensor]) -> Array:
    """Euclidean norms over the last axis."""
    return as_array(torch.stack([row.norm(dim=-1) for row in rows]))


def as_array(tensor: Tensor) -> Array:
    """A tensor as float32."""
    return tensor.detach().float().cpu().numpy()

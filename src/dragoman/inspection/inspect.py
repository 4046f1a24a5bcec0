"""`inspect`: translate one sentence with PyTorch, and record what the model computed for its translation.

Shapes: S source and T target tokens, W hypotheses, H heads, D = d_model, V vocabulary.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman import __version__
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.convolutional import ConvolutionalParts, record_convolutional
from dragoman.inspection.record.definitions import definition_of
from dragoman.inspection.record.inspected import InspectedModel, first_token, one_model, one_transformer
from dragoman.inspection.record.masks import masks_of
from dragoman.inspection.record.neighbours import neighbours
from dragoman.inspection.record.neurons import Neurons
from dragoman.inspection.record.projections import Calls, along_translation, record_projections
from dragoman.inspection.record.record import (
    Array,
    AttentionWeights,
    ForcedWords,
    ModuleSummary,
    Origin,
    ResidualStream,
    TokenProbability,
)
from dragoman.inspection.record.recording import (
    Recording,
    as_array,
    exact,
    norms,
    record,
    record_hidden,
    row_of,
)
from dragoman.inspection.record.recurrent import RecurrentParts, empty, record_recurrent
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.symbols import END, START
from dragoman.model.transformer import Transformer
from dragoman.search.beam import next_log_probs
from dragoman.search.contradictions import refuse_more_than_a_search
from dragoman.search.hypothesis import Constraints, Hypothesis
from dragoman.search.options import SearchOptions
from dragoman.search.search_tree import SearchTree, search_tree
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.invisible import without_invisible
from dragoman.translation.alignment import select_head, source_words, word_alignment, word_starts
from dragoman.translation.analysis import source_and_constraints
from dragoman.translation.mbr import minimum_bayes_risk
from dragoman.translation.token_ids import encode_sentences
from dragoman.translation.translator import Translator

MAX_CANDIDATES = 10  # tokens that are kept of a step of a hypothesis, and of a layer


def inspect(
    translator: Translator,
    sentence: str,
    settings: SearchSettings | None = None,
    **options: Unpack[SearchOptions],
) -> Inspection:
    """Translate a sentence and record what the model computed.

    The translation is that of `Translator.translate` with PyTorch. Raises `DragomanError` for a blank
    sentence, for an ensemble, and for settings that ask for more than one search.
    """
    settings, sentence = translator.search_settings(settings, options), without_invisible(sentence)
    one_model(translator)
    refuse_more_than_a_search(settings, "An inspection needs a single search")
    source, constraints = source_and_constraints(translator, sentence, settings)
    return inspect_ids(translator, sentence, source, settings, constraints)


def inspect_ids(
    translator: Translator,
    sentence: str,
    source: Int[Tensor, "1 S"],
    settings: SearchSettings,
    constraints: Constraints,
) -> Inspection:
    """The inspection of a sentence whose ids are `source`, under constraints in ids. Raises as `inspect`."""
    search = recorded_search(translator, source, settings, constraints)
    return search.inspection(sentence, source[0].tolist())


def recorded_search(
    translator: Translator, source: Int[Tensor, "1 S"], settings: SearchSettings, constraints: Constraints
) -> "RecordedSearch":
    """The search for a translation of these ids, with what the model computed in it. Raises as `inspect`."""
    model = one_model(translator)
    if source.size(1) == 1:
        raise DragomanError("The sentence is blank: the model computes nothing for it. Give one with words.")

    first = first_token(model)

    def name(token: int) -> str:
        return translator.tokenizers.target.pieces([first if token == START else token])[0]

    calls: dict[str, Calls] = {}
    with ExitStack() as stack, torch.no_grad():
        recording = stack.enter_context(record_model(model))
        hidden = stack.enter_context(record_hidden(model))
        if isinstance(model, Transformer):
            calls = stack.enter_context(record_projections(model))
        tree = search_tree(model, source, settings, constraints, name)
    return RecordedSearch(translator, settings, tree, recording, calls, hidden)


def origin_of(translator: Translator) -> Origin:
    """The model's name and languages, the time of now, and this version."""
    folder = translator.folders[0] if translator.folders else Path()
    name = folder.parent.name if folder.name == "model" else folder.name
    languages, now = translator.languages, datetime.now(UTC)
    return Origin(name, languages.source, languages.target, now.isoformat(timespec="seconds"), __version__)


def record_model(model: InspectedModel) -> AbstractContextManager[Recording]:
    """Record what the model computes while the context is open."""
    if isinstance(model, Convolutional):
        return record_convolutional(model)
    return record_recurrent(model) if isinstance(model, Recurrent) else record(model)


def has_equation_1(model: Transformer) -> bool:
    """Whether attention is scaled dot-product attention, in self-attention to all positions."""
    return not {"attention_score", "neighbourhood"} & {*model.settings.variants}


@dataclass(frozen=True)
class RecordedSearch:
    """A search for one sentence that has ended, with what the model computed in it."""

    translator: Translator
    settings: SearchSettings
    tree: SearchTree
    recording: Recording
    calls: dict[str, Calls]
    hidden: dict[str, list[Tensor]]
    """Of each feed-forward sub-layer, its hidden units in each call [1 Q F] or [Q 1 F]."""

    @property
    def model(self) -> Transformer | Enriched:
        """The one that searched, if this is the record of its parts."""
        model = one_model(self.translator)
        assert isinstance(model, Transformer | Enriched)
        return model

    @property
    def parts(self) -> "RecordedSearch | ConvolutionalParts | RecurrentParts":
        """What was recorded of the model's parts: all of these have the same methods."""
        model = one_model(self.translator)
        if isinstance(model, Convolutional):
            return ConvolutionalParts(model, self.recording, self.rows)
        return RecurrentParts(model, self.recording, self.rows) if isinstance(model, Recurrent) else self

    @cached_property
    def found(self) -> tuple[Hypothesis, int]:
        """The translation and its node: the best, or with `mbr` the one that `Translator.n_best` takes."""
        texts = [self.translator.detokenize(hypothesis.ids) for hypothesis, _ in self.tree.found]
        return self.tree.found[minimum_bayes_risk(texts) if self.settings.mbr else 0]

    @property
    def best(self) -> Hypothesis:
        """The translation."""
        return self.found[0]

    @cached_property
    def best_ids(self) -> list[int]:
        """The translation's ids, END last."""
        return [*self.best.ids, END]

    @cached_property
    def rows(self) -> list[int]:
        """At each step, the row of the translation's prefix among those that are extended."""
        path = self.tree.path(self.found[1])
        return [live.index(number) for live, number in zip(self.tree.live, path[:-1], strict=False)]

    def inspection(self, sentence: str, source: list[int]) -> Inspection:
        """The data of all views."""
        best, target = self.best, self.best_ids
        sides = self.translator.tokenizers.source, self.translator.tokenizers.target
        parts, translation = self.parts, self.translator.detokenize(best.ids)
        attention, settings = parts.attention(len(target)), one_model(self.translator).settings
        cross = torch.from_numpy(attention.cross)[:, None]
        weights = select_head(cross, None, None, settings.alignment_head)[0]
        recorded = along_translation(self.calls, self.rows[: len(target)]) if self.calls else None
        pieces = [side.pieces(ids) for side, ids in zip(sides, (source, target), strict=True)]
        words = [
            word_starts(tokens[:-1], side.unknown_is_word, side.codes is not None)
            for tokens, side in zip(pieces, sides, strict=True)
        ]
        # A learned table is the decoder's: the source has its own.
        rows = len(target) if settings.positions == "learned" else max(len(source), len(target))
        prefix = self.translator.source_prefix
        read, encoded = source[len(prefix) :], encode_sentences(sides[0], [sentence])[0]
        if encoded[: len(read) - 1] == read[:-1]:  # no token was changed
            words[0] = source_words(self.translator.tokenizers, sentence, read)
            if prefix:  # the symbol of a language is a word of its own, and no word of the translation's
                words[0] = [0, *(word + 1 for word in words[0])]
                weights = weights.clone()  # a part of `attention`
                weights[:, 0] = 0
        return Inspection(
            sentence=sentence,
            translation=translation,
            log_probability=best.log_probability,
            score=best.score,
            search=self.settings,
            model=settings,
            source=tuple(pieces[0]),
            target=tuple(pieces[1]),
            source_words=with_end(words[0], len(source)),
            target_words=with_end(words[1], len(target)),
            nodes=tuple(self.tree.nodes),
            best_path=tuple(self.tree.path(self.found[1])),
            candidates=self.candidates(),
            attention=attention,
            alignment=tuple(word_alignment(weights, *words)),
            stream=parts.stream(),
            lens=tuple(self.likeliest(layer) for layer in parts.lens()),
            positions=parts.positions(rows),
            modules=tuple(self.modules()),
            drawn=self.drawn(),
            met=self.met(),
            source_ids=tuple(source),
            target_ids=tuple(target),
            neighbours=neighbours(one_model(self.translator), self.translator.tokenizers, source, target),
            projections=recorded if recorded and has_equation_1(one_transformer(self.translator)) else None,
            masks=masks_of(one_transformer(self.translator), recorded, source) if recorded else None,
            neurons=self.neurons() if self.hidden else None,
            origin=origin_of(self.translator),
        )

    # ---- along the translation

    def along(self, outputs: Sequence[Tensor]) -> Float[Tensor, "T D"]:
        """Of a decoder module's outputs, [1 R D] or [R 1 D], those of the translation's prefixes."""
        rows = zip(outputs, self.rows, strict=False)
        return torch.stack([output.flatten(0, 1)[row] for output, row in rows])

    def attention(self, tokens: int) -> AttentionWeights:
        """The weights that the model multiplied by values for the translation."""
        weights, rows = self.recording.weights, self.rows
        encoder = [calls[0][0] for name, calls in weights.items() if name.startswith("encoder.")]
        cross = [
            torch.stack([row_of(call, w) for call, w in zip(calls, rows, strict=False)], 1)
            for name, calls in weights.items()
            if name.endswith(".cross_attention")
        ]
        if not encoder:  # an enriched model has no self-attention
            heads, source = cross[0].size(0), cross[0].size(2)
            self_attention = empty(0, heads, source, source), empty(0, heads, tokens, tokens)
            return AttentionWeights(*self_attention, as_array(torch.stack(cross)))
        decoder = []
        for name, calls in weights.items():
            if name.startswith("decoder.") and name.endswith(".self_attention"):
                square = calls[0].new_zeros(calls[0].size(1), tokens, tokens)
                for step, (call, w) in enumerate(zip(calls, rows, strict=False)):
                    # Of the W keys at a position, one is an ancestor's; the others have a weight of 0.
                    square[:, step, : step + 1] = row_of(call, w).unflatten(1, (step + 1, -1)).sum(2)
                decoder.append(square)
        return AttentionWeights(*(as_array(torch.stack(layers)) for layers in (encoder, decoder, cross)))

    def neurons(self) -> Neurons:
        """The activations of the feed-forward sub-layers' hidden units."""
        encoder = [calls[0][0] for name, calls in self.hidden.items() if name.startswith("encoder.")]
        decoder = [self.along(calls) for name, calls in self.hidden.items() if name.startswith("decoder.")]
        return Neurons(exact(torch.stack(encoder)), exact(torch.stack(decoder)))

    def stream(self) -> ResidualStream:
        """Norms of the residual stream, and of what the sub-layers add to it."""
        outputs, along = self.recording.outputs, self.along
        first_sublayer = "token_mixer" if isinstance(self.model, Enriched) else "self_attention"
        encoder_parts = first_sublayer, "feed_forward"
        decoder_parts = first_sublayer, "cross_attention", "feed_forward"
        source, *target = outputs["embedding"]
        encoder = [f"encoder.{number}" for number in range(len(self.model.encoder))]
        decoder = [f"decoder.{number}" for number in range(len(self.model.decoder))]
        return ResidualStream(
            norms([source[0], *(outputs[name][0][0] for name in encoder)]),
            np.stack(
                [norms([outputs[f"{name}.{part}"][0][0] for part in encoder_parts]) for name in encoder]
            ),
            norms([along(target), *(along(outputs[name]) for name in decoder)]),
            np.stack(
                [norms([along(outputs[f"{name}.{part}"]) for part in decoder_parts]) for name in decoder]
            ),
        )

    @torch.no_grad()
    def lens(self) -> list[Float[Tensor, "T D"]]:
        """What the output projection would read if the decoder ended after each of its layers."""
        outputs = self.recording.outputs
        layers = [self.along(outputs[f"decoder.{number}"]) for number in range(len(self.model.decoder))]
        return [self.model.decoder_norm(layer) for layer in layers]

    @torch.no_grad()
    def likeliest(self, features: Float[Tensor, "Q D"]) -> tuple[tuple[TokenProbability, ...], ...]:
        """The likeliest next tokens of each row of features."""
        log_probs = next_log_probs(one_model(self.translator), features)
        best = log_probs.topk(min(MAX_CANDIDATES, log_probs.size(1)))
        pieces = self.translator.tokenizers.target.pieces
        return tuple(
            tuple(map(TokenProbability, pieces(ids), values))
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )

    # ---- all hypotheses

    @torch.no_grad()
    def candidates(self) -> dict[int, tuple[TokenProbability, ...]]:
        """The likeliest next tokens of each hypothesis that was extended, by its node."""
        candidates: dict[int, tuple[TokenProbability, ...]] = {}
        for features, live in zip(self.parts.features(), self.tree.live, strict=True):
            likeliest = self.likeliest(features.reshape(-1, features.size(-1)))
            candidates |= {
                number: row for number, row in zip(live, likeliest, strict=False) if number is not None
            }
        return candidates

    def features(self) -> list[Tensor]:
        """What the output projection read in each call of the decoder [1 R D] or [R 1 D]."""
        last = self.recording.outputs[f"decoder.{len(self.model.decoder) - 1}"]
        return [self.model.decoder_norm(output) for output in last]

    def positions(self, rows: int) -> Array:
        """The position table's first rows [rows D]."""
        return as_array(self.model.target_positions(0, rows))

    def drawn(self) -> dict[int, tuple[TokenProbability, ...]]:
        """What the tokens of samples were drawn from, likeliest first."""
        pieces = self.translator.tokenizers.target.pieces
        distributions = {}
        for number, log_probs in self.tree.drawn.items():
            tokens = sorted(log_probs, key=lambda token: -log_probs[token])
            distributions[number] = tuple(
                TokenProbability(piece, log_probs[token])
                for piece, token in zip(pieces(tokens), tokens, strict=True)
            )
        return distributions

    def met(self) -> tuple[ForcedWords, ...]:
        """What each hypothesis has met of the forced words."""
        words = self.settings.force_words
        return tuple(
            ForcedWords(entry.tokens, tuple(words[n] for n in entry.phrases)) for entry in self.tree.met
        )

    def modules(self) -> list[ModuleSummary]:
        """The parts of the model: their parameters, the shape of what they gave first, and their code."""
        model = one_model(self.translator)
        counts = Counter({part_of(name): 0 for name, _ in model.named_parameters(remove_duplicate=False)})
        for name, weight in model.named_parameters():  # tied ones occur once
            counts[part_of(name)] += weight.numel()
        shapes = {name: tuple(calls[0].shape) for name, calls in self.recording.outputs.items() if calls}
        shapes["output"] = (*self.parts.features()[0].shape[:-1], model.output.weight.size(0))
        return [
            ModuleSummary(name, count, shapes.get(name, ()), *definition_of(model, name))
            for name, count in counts.items()
        ]


def part_of(parameter: str) -> str:
    """The part of the model that a parameter belongs to, such as `encoder.0.self_attention`."""
    words = parameter.split(".")
    return ".".join(words[:-1][:3] if words[0] in ("encoder", "decoder") else words[:1])


def with_end(words: Sequence[int], tokens: int) -> tuple[int, ...]:
    """Word numbers of tokens, END as a word of its own."""
    return (*words[: tokens - 1], words[-1] + 1 if words else 0)

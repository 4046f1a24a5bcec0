"""Streaming, traces, alternatives, scores, alignments and attention weights, all with PyTorch.

Shapes: B sentences, S source and T target tokens, H heads, L layers.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from dragoman.model.symbols import END, PAD, START
from dragoman.native.settings import SHORTLIST_NEEDS_NATIVE
from dragoman.search import alternatives as search_alternatives
from dragoman.search.attention_weights import alignment_head, all_attention, cross_attention
from dragoman.search.beam import Step, beam_steps
from dragoman.search.contradictions import refuse_more_than_a_beam, refuse_n_best
from dragoman.search.hypothesis import Constraints
from dragoman.search.scoring import Likelihood, token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import Node, stable_prefixes, trace_nodes
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.futures import interruption
from dragoman.system.wording import shown
from dragoman.text.batches import pad
from dragoman.text.invisible import without_invisible
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.translation.alignment import select_head, word_alignment
from dragoman.translation.segmentation import truncate
from dragoman.translation.token_ids import (
    batch_by_length,
    constraint_ids,
    encode_sentences,
    explain_out_of_memory,
    refuse_too_long,
)
from dragoman.translation.translation import Translation

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

NumberedPair = tuple[int, list[int], list[int]]  # a pair's number, source ids and target ids


@dataclass(frozen=True)
class Alternative:
    """A token after a prefix, its probability, and the best translation that begins with both."""

    token: str
    probability: float
    translation: Translation


@dataclass(frozen=True)
class Attention:
    """The attention weights of a pair of texts. Shapes: H heads, S and T tokens, END included.

    L encoder layers and M decoder layers attend to their own side, N decoder layers to the source. In a
    Transformer N is M. In the baselines L and M are 0 and H is 1; in an LSTM or GRU N is 1, too.
    """

    source: list[str]
    """The S tokens."""
    target: list[str]
    """The T tokens. Row t of `decoder` and `cross` is the query that predicts token t."""
    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    """The keys are START and all tokens but END."""
    cross: Float[Tensor, "N H T S"]


# ---- one beam search, step by step


def encode_one(
    translator: "Translator", sentence: str, settings: SearchSettings, name: str
) -> tuple[Tensor, Constraints]:
    """A sentence's ids [1 S], END alone if it is its own translation, and constraints.

    Raises `DragomanError` if the settings ask for more than one beam search.
    """
    refuse_more_than_a_beam(settings, name)
    source, constraints = source_and_constraints(translator, sentence, settings)
    is_own = translator.is_own_translation(sentence, settings, constraints)
    return source[:, -1:] if is_own else source, constraints


def source_and_constraints(
    translator: "Translator", sentence: str, settings: SearchSettings
) -> tuple[Tensor, Constraints]:
    """A sentence's ids [1 S] and constraints. Raises `DragomanError` if the sentence is too long."""
    if translator.engine_settings.shortlist is not None:
        raise OptionError(SHORTLIST_NEEDS_NATIVE)
    sentence = without_invisible(sentence)
    ids = encode_sentences(translator.tokenizers.source, [sentence])
    if settings.truncate:
        ids = [truncate(ids[0], settings.truncate)]
    refuse_too_long([sentence], ids, translator.longest_source)
    if len(ids[0]) > 1:
        ids = [[*translator.source_prefix, *ids[0]]]
    return pad(ids).to(translator.torch_backend.device), constraint_ids(
        settings, translator.tokenizers.target
    )


def search_steps(
    translator: "Translator", sentence: str, settings: SearchSettings, name: str
) -> Iterator[Step]:
    """The steps of a beam search for a sentence; none for a blank one. Raises what `encode_one` raises."""
    source, constraints = encode_one(translator, sentence, settings, name)
    if source.size(1) > 1:
        with explain_out_of_memory(1):
            yield from beam_steps(translator.torch_backend.model, source, settings, constraints)


def stream(translator: "Translator", sentence: str, settings: SearchSettings) -> Iterator[str]:
    """`Translator.stream`."""
    emitted = text = ""
    for ids in stable_prefixes(search_steps(translator, sentence, settings, "stream")):
        text = translator.detokenize(ids)
        # UNKNOWN_TEXT at the end may be the first bytes of a character.
        if len(text) > len(emitted) and not text.endswith(UNKNOWN_TEXT):
            yield text[len(emitted) :]
            emitted = text
    if text != emitted:
        yield text[len(emitted) :]


def trace(translator: "Translator", sentence: str, settings: SearchSettings) -> list[Node]:
    """`Translator.trace`."""
    steps = search_steps(translator, sentence, settings, "trace")
    return trace_nodes(steps, settings, lambda token: translator.tokenizers.target.pieces([token])[0])


def alternatives(
    translator: "Translator", sentence: str, count: int, settings: SearchSettings
) -> list[Alternative]:
    """`Translator.alternatives`. Raises as it does."""
    if count < 0:
        raise DragomanError(f"count is {count}; it must be at least 0.")
    refuse_n_best(settings, "best translation with each alternative")
    source, constraints = encode_one(translator, sentence, settings, "list of alternatives")
    if source.size(1) == 1:
        return []
    with explain_out_of_memory(1):
        tokens = search_alternatives.alternatives(
            translator.torch_backend.model, source, constraints, count, settings
        )
    pieces = translator.tokenizers.target.pieces([token for token, _, _ in tokens])
    return [
        Alternative(piece, probability, translator.translation(best, translator.detokenize(best.ids)))
        for piece, (_, probability, best) in zip(pieces, tokens, strict=True)
    ]


# ---- forced decoding


def score(
    translator: "Translator", pairs: Sequence[tuple[str, str | Sequence[str]]], batch_tokens: int
) -> list[Likelihood]:
    """`Translator.score`."""
    likelihoods: dict[int, Likelihood] = {}
    for batch, source, target in forced_batches(translator, pairs, batch_tokens):
        with explain_out_of_memory(len(batch)):
            rows = token_log_probabilities(translator.torch_backend.model, source, target).tolist()
        for (number, _, ids), log_probs in zip(batch, rows, strict=True):
            likelihoods[number] = Likelihood(translator.tokenizers.target.pieces(ids), log_probs[: len(ids)])
    return [likelihoods[number] for number in range(len(pairs))]


def align(
    translator: "Translator",
    pairs: Sequence[tuple[str, str]],
    layer: int | None,
    head: int | None,
    batch_tokens: int,
) -> list[list[tuple[int, int]]]:
    """`Translator.align`. Raises as it does."""
    refuse_non_pairs(pairs)
    for number, pair in enumerate(pairs):
        if not isinstance(pair[1], str):
            raise DragomanError(
                f"The target of pair {number} (counted from 0) is a list of tokens, and words are aligned; "
                "give it as a text."
            )
    alignments: dict[int, list[tuple[int, int]]] = {}
    sides = (translator.tokenizers.source, translator.tokenizers.target)
    for batch, *rows in forced_batches(translator, pairs, batch_tokens):
        with explain_out_of_memory(len(batch)):
            weights = alignment_weights(translator, rows, layer, head)
        for (number, source, target), pair_weights in zip(batch, weights, strict=True):
            texts = without_invisible(pairs[number][0]), pairs[number][1]
            words = (side.word_ids(text) for side, text in zip(sides, texts, strict=True))
            tokens = len(source) - len(translator.source_prefix)
            token_weights = pair_weights[: len(target), :tokens].cpu()
            alignments[number] = word_alignment(token_weights, *words)
    return [alignments[number] for number in range(len(pairs))]


def alignment_weights(
    translator: "Translator", rows: Iterable[Tensor], layer: int | None = None, head: int | None = None
) -> Float[Tensor, "B T S"]:
    """The encoder-decoder attention that `select_head` takes, without that to the symbol of a language.

    `rows` are source and target [B T]; the source has S tokens after the symbol.
    """
    model = translator.torch_backend.model
    weights = select_head(cross_attention(model, *rows), layer, head, alignment_head(model))
    return weights[..., len(translator.source_prefix) :]


def attention(translator: "Translator", source: str, target: str) -> Attention:
    """`Translator.attention`."""
    ((_, *rows),) = forced_batches(translator, [(source, target)], 1)
    sides = (translator.tokenizers.source, translator.tokenizers.target)
    read, predicted = (side.pieces(ids[0].tolist()) for side, ids in zip(sides, rows, strict=True))
    with explain_out_of_memory(1):
        return Attention(
            read,
            predicted,
            *(weights[:, 0] for weights in all_attention(translator.torch_backend.model, *rows)),
        )


def refuse_non_pairs(pairs: object) -> None:
    """Raise `DragomanError` for anything but a sequence of pairs of a text and a text or its tokens."""
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise DragomanError(f"A list of pairs of texts is needed, and this is {type(pairs).__name__}.")
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)
        if not is_pair or not (
            isinstance(pair[1], str)
            or (isinstance(pair[1], Sequence) and all(isinstance(token, str) for token in pair[1]))
        ):
            raise DragomanError(
                f"Pair {number} (counted from 0) is {shown(pair)}; it has to be a source and a target, which "
                "is a text or a list of its tokens."
            )


def forced_batches(
    translator: "Translator", pairs: Sequence[tuple[str, str | Sequence[str]]], max_tokens: int
) -> Iterator[tuple[list[NumberedPair], Tensor, Tensor]]:
    """Batches of at most `max_tokens` tokens: each pair's number and ids, and both sides padded [B S], [B T].

    Sources are as the model reads them, with `source_prefix`.
    Raises `DragomanError` if a text is longer than the model's positions, and `CancelledError` after an
    `interruption`.
    """
    refuse_non_pairs(pairs)
    tokenizers, model = translator.tokenizers, translator.torch_backend.model
    texts, translations = [without_invisible(source) for source, _ in pairs], [target for _, target in pairs]
    sources = encode_sentences(tokenizers.source, texts)
    targets = encode_sentences(
        tokenizers.target, [target if isinstance(target, str) else "" for target in translations]
    )
    for number, pieces in enumerate(translations):
        if not isinstance(pieces, str):
            targets[number] = with_end(translator, tokenizers.target.ids(pieces))
    refuse_too_long(texts, sources, translator.longest_source)
    refuse_too_long(
        [
            translation if isinstance(translation, str) else " ".join(translation)
            for translation in translations
        ],
        targets,
        model.longest_target,
    )
    sources = [[*translator.source_prefix, *ids] for ids in sources]
    lengths = {number: max(map(len, rows)) for number, rows in enumerate(zip(sources, targets, strict=True))}
    for batch in batch_by_length(lengths, max_tokens):
        if interruption.get().is_set():
            raise CancelledError
        source, target = (
            pad([side[number] for number in batch]).to(translator.torch_backend.device)
            for side in (sources, targets)
        )
        yield [(number, sources[number], targets[number]) for number in batch], source, target


def with_end(translator: "Translator", ids: list[int]) -> list[int]:
    """The ids, ended by END. Raises `DragomanError` if PAD, START or END stands before their end."""
    ids = ids if ids[-1:] == [END] else [*ids, END]
    if invalid := {PAD, START, END}.intersection(ids[:-1]):
        names = ", ".join(translator.tokenizers.target.pieces(sorted(invalid)))
        raise DragomanError(
            f"The tokens of a translation contain {names}, which no translation has before its end; "
            "leave them out."
        )
    return ids


# ---- the source words of a translation's tokens


def target_weights(translator: "Translator", source: list[int], target: list[int]) -> Float[Tensor, "T S"]:
    """The encoder-decoder attention of each target token, END last, that alignments are read from."""
    ids = [*translator.source_prefix, *source], [*target, END]
    rows = (pad([row]).to(translator.torch_backend.device) for row in ids)
    with explain_out_of_memory(1):
        return alignment_weights(translator, rows)[0]

"""What PyTorch computes for requests: alignments and attention, and how long their texts may be."""

from collections.abc import Sequence
from typing import Any

from dragoman.serving.apis.schemas import Sentence
from dragoman.serving.errors import ApiError
from dragoman.serving.models import ServedModel
from dragoman.serving.pivot import Alignment, compose_alignments
from dragoman.serving.service import CHARACTERS_PER_TOKEN
from dragoman.text.tokenizer import Tokenizer

MAX_ANALYSED = 1_000  # tokens of a text for PyTorch, whose memory grows with their square
MAX_WEIGHTS = 10_000  # attention weights of a head, in an answer


def refuse_long(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    most: int = MAX_ANALYSED,
    what: str = "alignment, attention, alternatives and scores",
    advice: str = "send shorter sentences",
) -> None:
    """Raise `ApiError` 413 for a text that is too long for what PyTorch computes, with what to do."""
    for text in texts:
        tokens = len(text) // CHARACTERS_PER_TOKEN
        if tokens <= most:
            tokens = len(tokenizer.encode([text])[0])
        if tokens > most:
            raise ApiError(
                413,
                f"The text that begins with {text[:40]!r} has more than {most:,} tokens, which is too long "
                f"for {what}; {advice}.",
            )


def refuse_long_pairs(model: ServedModel, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise `ApiError` 413 for a pair with a side that is too long for what PyTorch computes."""
    tokenizers = model.translator.tokenizers
    refuse_long(tokenizers.source, [source for source, _ in pairs])
    refuse_long(tokenizers.target, [target for _, target in pairs])


def refuse_long_translation(tokens: Sequence[str], most: int, what: str, advice: str) -> None:
    """Raise `ApiError` 413 for a translation that is too long for what PyTorch computes, with what to do."""
    if len(tokens) > most:
        raise ApiError(
            413, f"The translation has {len(tokens):,} tokens, which is too long for {what}; {advice}."
        )


def refuse_many_weights(model: ServedModel, sentences: Sequence[Sentence]) -> None:
    """Raise `ApiError` 413 for sentences with too many attention weights."""
    sources = model.translator.tokenizers.source.encode([sentence.source for sentence in sentences])
    weights = sum(
        (max(len(ids), len(sentence.tokens)) + 1) ** 2
        for ids, sentence in zip(sources, sentences, strict=True)
    )
    if weights > MAX_WEIGHTS:
        raise ApiError(
            413,
            f"The sentences have {weights:,} attention weights per head, and {MAX_WEIGHTS:,} are allowed; "
            "send less text at once, or leave attention out.",
        )


def add_alignments(model: ServedModel, sentences: Sequence[Sentence]) -> None:
    """Add the word alignments of sentences. Raises `ApiError` 413 for too long ones."""
    alignments = align_by_pivot(model, sentences) if model.steps else align(model, pairs_of(sentences))
    for sentence, alignment in zip(sentences, alignments, strict=True):
        sentence.alignment = alignment


def align(model: ServedModel, pairs: Sequence[tuple[str, str]]) -> list[Alignment]:
    """The word alignments of sentences and their translations. Raises `ApiError` as `refuse_long_pairs`."""
    refuse_long_pairs(model, pairs)
    return model.translator.align(pairs)


def align_by_pivot(model: ServedModel, sentences: Sequence[Sentence]) -> list[Alignment]:
    """The word alignments of sentences that have been translated through a third language."""
    first, second = model.steps
    between = [sentence.pivot_text or "" for sentence in sentences]
    steps = (
        align(first, [(sentence.source, text) for sentence, text in zip(sentences, between, strict=True)]),
        align(second, [(text, sentence.text) for sentence, text in zip(sentences, between, strict=True)]),
    )
    return list(map(compose_alignments, *steps))


def add_attention(model: ServedModel, sentences: Sequence[Sentence]) -> None:
    """Add the attention weights of sentences. Raises `ApiError` 413 for too many."""
    pairs = pairs_of(sentences)
    refuse_long_pairs(model, pairs)
    refuse_many_weights(model, sentences)
    for sentence, pair in zip(sentences, pairs, strict=True):
        sentence.attention = attention_json(model.translator.attention(*pair))


def pairs_of(sentences: Sequence[Sentence]) -> list[tuple[str, str]]:
    """Sentences and their translations."""
    return [(sentence.source, sentence.text) for sentence in sentences]


def attention_json(attention: Any) -> dict[str, Any]:
    """Attention weights as lists."""
    return {
        "source": attention.source,
        "target": attention.target,
        **{name: getattr(attention, name).tolist() for name in ("encoder", "decoder", "cross")},
    }


def least_tokens(text: str) -> int:
    """A lower bound of the tokens of a text, its end included, by its words and its characters."""
    return max(len(text.split()), len(text) // CHARACTERS_PER_TOKEN) + 1

"""Attention between words instead of tokens.

The weights to the tokens of a key's word are summed, so a row still sums to 1. The queries of a word's tokens
are averaged. END and START are words of their own.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Array, AttentionWeights, Record

BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")  # the pieces of tokens that are bytes
SPACE = "▁"  # how SentencePiece writes a space


def by_words(inspection: Record) -> Record:
    """The same inspection with words in place of tokens in `source`, `target`, and `attention`.

    The other fields are those of tokens.
    """
    source, target = (numbered(words) for words in (inspection.source_words, inspection.target_words))
    return replace(
        inspection,
        source=words_of(inspection.source, source),
        target=words_of(inspection.target, target),
        source_words=tuple(range(source[-1] + 1)),
        target_words=tuple(range(target[-1] + 1)),
        attention=AttentionWeights(
            *(merged(inspection.attention.of(k), *words_of_kind(inspection, k)) for k in KINDS)
        ),
    )


def words_of_kind(inspection: Record, kind: Kind) -> tuple[list[int], list[int]]:
    """The word of each query and of each key; of the decoder's keys START and the words before it."""
    source, target = (numbered(words) for words in (inspection.source_words, inspection.target_words))
    keys = [0, *(word + 1 for word in target[:-1])] if kind == "decoder" else source
    return source if kind == "encoder" else target, keys


def words_are_tokens(inspection: Record, kind: Kind) -> bool:
    """Whether each query and key is a word, so that weights between words are those between tokens."""
    return all(words[-1] + 1 == len(words) for words in words_of_kind(inspection, kind))


def numbered(words: Sequence[int]) -> list[int]:
    """Word numbers without gaps: a word has no token of its own if an unknown token spans several words."""
    numbers = {word: number for number, word in enumerate(sorted(set(words)))}
    return [numbers[word] for word in words]


def words_of(tokens: Sequence[str], words: Sequence[int]) -> tuple[str, ...]:
    """The text of each word: its tokens without SentencePiece's sign for a space."""
    texts = [""] * (words[-1] + 1)
    for token, word in zip(tokens, words, strict=True):
        texts[word] += token.replace(SPACE, "")
    return tuple(BYTES.sub(decoded, text) for text in texts)


def decoded(match: re.Match[str]) -> str:
    """The characters of byte tokens; U+FFFD for bytes that are no UTF-8."""
    return bytes.fromhex(match[0].replace("<0x", "").replace(">", "")).decode("utf-8", "replace")


def merged(weights: Array, queries: Sequence[int], keys: Sequence[int]) -> Array:
    """Weights [… Q K] with the keys of a word summed and the queries of a word averaged."""
    of_keys, of_queries = membership(keys), membership(queries)
    return (of_queries.T / of_queries.sum(0)[:, None]) @ (weights @ of_keys)


def membership(words: Sequence[int]) -> Array:
    """[tokens, words]: 1 where a token is of a word."""
    return np.eye(words[-1] + 1, dtype=np.float32)[list(words)]

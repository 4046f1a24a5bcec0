"""Word alignment from attention weights. Imports no torch.

Shapes: B sentences, S source and T target tokens, H heads, L layers.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.model.symbols import UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.text.words import SPACE

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from dragoman.translation.model_folder import Tokenizers

UNKNOWN_PIECE = "<unk>"


def select_head(
    weights: "Float[Tensor, 'L B H T S']",
    layer: int | None,
    head: int | None,
    alignment_head: int | None = None,
) -> "Float[Tensor, 'B T S']":
    """The weights of a layer and a head, counted from 1. None is the last layer and the mean of all heads.

    In the last layer `alignment_head` takes the place of the mean, if the model has one. Raises
    `DragomanError` if the model has no such layer or head.
    """
    layers, _, heads, *_ = weights.shape
    if head is None and layer in (None, layers):
        head = alignment_head
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; this model has {count}, counted from 1.")
    layer_weights = weights[-1 if layer is None else layer - 1]  # [B, H, T, S]
    return layer_weights.mean(1) if head is None else layer_weights[:, head - 1]


def word_starts(
    pieces: Sequence[str], unknown_is_word: bool = False, is_segmented: bool = False
) -> list[int]:
    """The number of the word in which each piece begins, counted from 0.

    SentencePiece's sign for a space begins a word, unless it follows another such sign or, in text that
    subword-nmt has segmented, `@@`. `<unk>` has no such sign: it is a word in a vocabulary of words
    (`unknown_is_word`), and a part of a word in other vocabularies.
    """
    words, last, before = [], -1, ""
    for piece in pieces:
        is_inside = before.endswith("@@") if is_segmented else before == SPACE
        is_unknown_word = unknown_is_word and piece == UNKNOWN_PIECE
        first = last + ((piece.startswith(SPACE) and not is_inside) or last < 0 or is_unknown_word)
        words.append(first)
        # An unknown piece may span several words.
        last = first + max(len(list(filter(None, piece.split(SPACE)))) - 1, 0)
        before = piece
    return words


def word_alignment(
    weights: npt.ArrayLike, source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """For each target word the source word with the most attention, as (source, target), counted from 0.

    `source` and `target` are the word numbers of the tokens without END, the last row and column of
    `weights` [T S]. The weights of a word's tokens are summed. A target word without a token has no link.
    """
    if not source or not target:
        return []
    token_weights = np.asarray(weights)[:-1, :-1]
    target_sums = np.zeros((target[-1] + 1, len(source)), token_weights.dtype)
    np.add.at(target_sums, list(target), token_weights)
    word_weights = np.zeros((len(target_sums), source[-1] + 1), token_weights.dtype)
    np.add.at(word_weights.T, list(source), target_sums.T)
    present = set(target)
    return [(int(best), word) for word, best in enumerate(word_weights.argmax(1)) if word in present]


def precise_alignment(
    weights: npt.ArrayLike, source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """`word_alignment` without the links of target words that have no counterpart, such as many articles.

    A link is mutual if its source word has more attention in its target word than in every other. A source
    word with a mutual link has no other link.
    """
    links = word_alignment(weights, source, target)
    best = {word: other for other, word in word_alignment(np.asarray(weights).T, target, source)}
    mutual = {word for word, other in links if best.get(word) == other}
    return [(word, other) for word, other in links if word not in mutual or best[word] == other]


def align_ids(
    tokenizers: "Tokenizers", sentence: str, source: list[int], target: list[int], weights: npt.ArrayLike
) -> list[tuple[int, int]]:
    """The word alignment of a sentence, whose ids are `source`, and the translation with the ids `target`.

    `weights` [T S] have END on both sides.
    """
    words = (
        source_words(tokenizers, sentence, source),
        word_starts(
            tokenizers.target.pieces(target),
            tokenizers.target.unknown_is_word,
            tokenizers.target.codes is not None,
        ),
    )
    return precise_alignment(weights, *words)


def source_words(tokenizers: "Tokenizers", sentence: str, source: list[int]) -> list[int]:
    """The word number of each source token but END. `source` may be truncated."""
    return tokenizers.source.word_ids(sentence)[: len(source) - 1]


def replace_unknown(
    tokenizers: "Tokenizers",
    sentence: str,
    source: list[int],
    target: list[int],
    text: str,
    weights: npt.ArrayLike,
) -> str:
    """A translation's text, each unknown token replaced by the source word that it attends to most.

    `weights` are as those of `align_ids`.
    """
    words, word_of = sentence.split(), source_words(tokenizers, sentence, source)
    best = np.asarray(weights)[:, :-1].argmax(1).tolist()
    copied = [words[word_of[best[place]]] for place, token in enumerate(target) if token == UNKNOWN]
    return "".join(
        part for pair in zip_longest(text.split(UNKNOWN_TEXT), copied, fillvalue="") for part in pair
    )

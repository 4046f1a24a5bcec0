"""Statistics of each head: where it attends, and whether the word alignment agrees with it.

Shapes: L layers, H heads, Q queries, K keys, T and S target and source tokens.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.record.words import SPACE
from dragoman.translation.alignment import word_alignment

Table = npt.NDArray[np.float64]


def statistics(inspection: Record) -> dict[Kind, dict[str, Table]]:
    """Of each kind of attention and each statistic, the number of each head [L H]; see `of_weights`.

    Encoder-decoder attention also has `alignment`: of the words of the translation with a link, the share to
    whose source word this head attends most.
    """
    tables = {}
    for kind in KINDS:
        keys = inspection.decoder_inputs if kind == "decoder" else inspection.source
        edge = 0 if kind == "decoder" else len(keys) - 1
        tables[kind] = of_weights(inspection.attention.of(kind), edge, [is_punctuation(key) for key in keys])
    links = {word: source for source, word in inspection.alignment}
    tables["cross"]["alignment"] = np.array(
        [
            [
                np.mean([head_links.get(word) == links[word] for word in links]) if links else 0.0
                for head_links in layer
            ]
            for layer in head_alignments(inspection)
        ]
    )
    return tables


def of_weights(weights: Array, edge: int, punctuation: Sequence[bool]) -> dict[str, Table]:
    """Means over the queries of weights [L H Q K]; places are counted from each side's first token.

    - `entropy` in nats; `distance`: |query − key| in tokens
    - `previous`, `same`, `next`: the share on the key at the place before the query's, at its own, and after
    - `edge`: the share on the key with this number, END or START
    - `punctuation`: the share on keys that are punctuation
    """
    exact = weights.astype(np.float64)
    queries, keys = np.indices(weights.shape[2:])
    logs = np.log(exact, out=np.zeros_like(exact), where=exact > 0)
    masks = {
        "previous": keys == queries - 1,
        "same": keys == queries,
        "next": keys == queries + 1,
        "edge": keys == edge,
        "punctuation": np.broadcast_to(np.array(punctuation, bool), keys.shape),
    }
    return {
        "entropy": -(exact * logs).sum(3).mean(2),
        "distance": (exact * abs(queries - keys)).sum(3).mean(2),
        **{name: (exact * mask).sum(3).mean(2) for name, mask in masks.items()},
    }


def clearest_head(tables: dict[str, Table], layers: Sequence[int], heads: Sequence[int]) -> tuple[int, int]:
    """Of these layers and heads, the one that says most at first sight: (layer, head), counted from 0.

    It agrees best with the word alignment, if there is this statistic; of several, and of self-attention, it
    is the most concentrated one, with the lowest entropy. `tables` are the statistics of a kind.
    """
    agreement = tables.get("alignment", np.zeros_like(tables["entropy"]))
    places = [(layer, head) for layer in layers for head in heads]
    return min(places, key=lambda place: (-agreement[place], tables["entropy"][place]))


def is_punctuation(token: str) -> bool:
    """Whether a token has only characters that Unicode calls punctuation, besides the sign for a space."""
    text = token.replace(SPACE, "")
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def head_alignments(inspection: Record) -> list[list[dict[int, int]]]:
    """For each head of encoder-decoder attention [L H] and word of the translation, the source word with the
    most attention, as `word_alignment` finds it.
    """
    source, target = inspection.source_words[:-1], inspection.target_words[:-1]
    return [
        [
            {word: best for best, word in word_alignment(torch.from_numpy(head), source, target)}
            for head in layer
        ]
        for layer in inspection.attention.cross
    ]

"""Several corpora in a recipe, each a table [[data.corpus]]. Does not import numpy."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown
from dragoman.text.compression import plain_name

TAG = re.compile(r"<[\w-]+>")
BYTE = re.compile("<0x[0-9A-F]{2}>")  # a token of the tokenizer's own
SPACE = re.compile(r"[\s▁]")  # which the tokenizer writes as ▁
SPECIAL = {"<unk>", "<s>", "<pad>"}  # the tokenizer's own


def is_parallel(path: Path) -> bool:
    """Whether a file holds both sides of a corpus: TMX, TSV or JSON lines, by its ending."""
    return plain_name(path.name).endswith((".tmx", ".tsv", ".jsonl"))


def refuse_both_sides(path: Path) -> None:
    """Raise `DragomanError` for a file that holds both sides of a corpus, where one side is read."""
    if is_parallel(path):
        raise DragomanError(
            f"{path} has both sides of a corpus, and text of one language is read here: give a file with one "
            "sentence a line."
        )


@dataclass(frozen=True)
class WeightedCorpus:
    """A corpus among several, with its share of the training pairs."""

    source: Path | None = None
    """Sentences to translate from, or one file with their translations too (.tmx, .tsv, .jsonl)."""
    target: Path | None = None
    """Their translations."""
    weight: float | None = None
    """Divided by the sum of all weights, it is the corpus's share of the training pairs. Without any weight
    each pair is used equally often."""
    tag: str = ""
    """A token in angle brackets that is put before each source, as <bt> of back-translated text."""


def check_tag(tag: str, name: str) -> None:
    """Raise `DragomanError` for a tag that is not a word in angle brackets, or is the tokenizer's own."""
    if not TAG.fullmatch(tag) or tag in SPECIAL:
        raise DragomanError(
            f"{name} is {shown(tag)}; it has to be a word in angle brackets, such as <bt>, and not one of "
            f"{', '.join(sorted(SPECIAL))}."
        )


def check_symbols(symbols: Sequence[str]) -> None:
    """Raise `DragomanError` for a symbol with spaces, of the tokenizer's own, or there twice."""
    for symbol in symbols:
        is_special = symbol in {*SPECIAL, "</s>"} or BYTE.fullmatch(symbol)
        if not symbol or SPACE.search(symbol) or is_special or symbols.count(symbol) > 1:
            raise DragomanError(
                f"symbols has {shown(symbol)}; each has to be a text without spaces, given once, and not one "
                f"of </s>, {', '.join(sorted(SPECIAL))}, <0x00> to <0xFF>."
            )


def check_corpora(corpora: Sequence[WeightedCorpus]) -> None:
    """Raise `DragomanError` for missing files, weights that give no shares, and tags that are not tokens."""
    for number, corpus in enumerate(corpora, 1):
        place = f"corpus {number} ({corpus.source})"
        if corpus.source is None:
            raise DragomanError(f"corpus {number} has no source; each [[data.corpus]] names its files.")
        parallel = [path for path in (corpus.source, corpus.target) if path is not None and is_parallel(path)]
        if parallel and corpus.target is not None:
            raise DragomanError(f"{parallel[0]} has both sides of a corpus; give it alone, as the source.")
        if not parallel and corpus.target is None:
            raise DragomanError(f"{place} has no target.")
        weight = corpus.weight
        if weight is not None and not (math.isfinite(weight) and weight >= 0):
            raise DragomanError(f"The weight of {place} is {weight}; it has to be a number of at least 0.")
        if (weight is None) != (corpora[0].weight is None):
            raise DragomanError(f"{place}: give a weight to every corpus, or to none.")
        if corpus.tag:
            check_tag(corpus.tag, f"The tag of {place}")
    if corpora[0].weight is not None and not 0 < sum(corpus.weight or 0 for corpus in corpora) < math.inf:
        raise DragomanError(
            "The weights of the corpora sum to 0 or to infinity; give weights such as 0.7 and 0.3."
        )

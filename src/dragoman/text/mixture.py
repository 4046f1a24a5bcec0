"""Several corpora in a recipe, each a table [[data.corpus]]. Does not import numpy."""

import math
import re
from collections import Counter
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
MOST_OF_LEAST, MAX_TEMPERATURE = 10, 5.0
"""How many times the share of the smallest pair of languages the largest may have, and the highest
temperature that is chosen for it."""


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
    source_language: str | None = None
    """Code of the source language, in a recipe of several pairs of languages; every corpus then has one."""
    target_language: str | None = None
    """The same for the target."""
    valid_source: Path | None = None
    """Validation sentences of these languages; without them some training pairs of each pair of languages are
    held out."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences of these languages, translated and scored when training has ended."""
    test_target: Path | None = None
    """Their translations."""


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


def check_languages(corpus: WeightedCorpus, first: WeightedCorpus, place: str) -> None:
    """Raise `DragomanError` for one language without the other, languages that only some corpora have, and
    validation or test files without languages or without their other side.
    """
    codes = corpus.source_language, corpus.target_language
    if (codes[0] is None) != (codes[1] is None):
        raise DragomanError(f"{place} names one language; give source_language and target_language.")
    if (codes[0] is None) != (first.source_language is None):
        raise DragomanError(f"{place}: give languages to every corpus, or to none.")
    for kind, source, target in (
        ("valid", corpus.valid_source, corpus.valid_target),
        ("test", corpus.test_source, corpus.test_target),
    ):
        if source is None and target is None:
            continue
        if codes[0] is None:
            raise DragomanError(
                f"{place} has {kind}_source, and no languages; give it both languages, or name the files in "
                "[data]."
            )
        if source is None or (target is None) != is_parallel(source):
            raise DragomanError(
                f"{place}: give {kind}_source and {kind}_target, or a file that has both sides."
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
        check_languages(corpus, corpora[0], place)
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


def choose_temperature(sizes: Sequence[int]) -> float:
    """`DataSettings.pair_temperature` for pairs of languages with so many training pairs."""
    ratio = max(sizes) / max(1, min(sizes))
    return round(min(MAX_TEMPERATURE, max(1.0, math.log(ratio, MOST_OF_LEAST))), 2)


def temperature_weights(sizes: Sequence[int], pairs: Sequence[object], temperature: float) -> list[float]:
    """The weights of corpora with so many training pairs, each of one of the pairs of languages.

    A pair of languages with n training pairs has n^(1/T); its corpora divide this by their sizes.
    """
    totals: Counter[object] = Counter()
    for size, pair in zip(sizes, pairs, strict=True):
        totals[pair] += size
    return [
        size * totals[pair] ** (1 / temperature - 1) if size else 0.0
        for size, pair in zip(sizes, pairs, strict=True)
    ]

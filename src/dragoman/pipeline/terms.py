"""A recipe with `terms`: the symbols in its vocabulary, and the copies of its text with annotated sources."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import OptionError
from dragoman.text.annotated_terms import SYMBOLS, WORD, TermSampler, knows_terms
from dragoman.text.copies import SampleIds, write_copies
from dragoman.text.corpus import Files, PairFilter, sample_pairs
from dragoman.text.inflection import is_known
from dragoman.text.lexicon import Lexicon, learn_lexicon
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

logger = logging.getLogger(__name__)
LEXICON_PAIRS = 100_000
"""Pairs that the lexicon is learned from, at most; of a larger text, every k-th is used."""
COPIES = 4
"""Of the training text, each with other annotations."""


def with_term_symbols(recipe: Recipe) -> Recipe:
    """The recipe whose vocabulary has the symbols.

    Raises `OptionError` for settings that `terms` excludes.
    """
    tokenizer = recipe.tokenizer
    kinds = {tokenizer.source_tokens, tokenizer.target_tokens or tokenizer.source_tokens}
    if not kinds <= {"bpe", "unigram"}:
        raise OptionError(
            "{terms} needs bpe or unigram tokens, whose vocabularies have symbols, and those of this recipe "
            f"are {', '.join(sorted(kinds))}; leave {{terms}} out, or choose others."
        )
    for name in ("bpe_dropout", "sampling_alpha"):
        if getattr(tokenizer, name):
            raise OptionError(
                f"{{terms}} and {{{name}}} each make copies of the training text; leave one of them out."
            )
    symbols = (*tokenizer.symbols, *(symbol for symbol in SYMBOLS if symbol not in tokenizer.symbols))
    return replace(recipe, tokenizer=replace(tokenizer, symbols=symbols))


@dataclass(frozen=True)
class AnnotatedSources:
    """Samples sources with annotated terms. A sample depends on the seed, the copy and the line alone."""

    terms: TermSampler
    seed: int

    def open(self, tokenizers: Sequence[Tokenizer]) -> SampleIds:
        """As `PairSampler.open`."""

        def sample(copy: int, line: int, source: str, target: str) -> tuple[list[int] | None, None]:
            draw = np.random.default_rng([self.seed, copy, line, 2])  # 2 keeps the key apart from others
            annotated = self.terms.sample(source, target, draw)
            return (None if annotated == source else tokenizers[0].encode([annotated])[0]), None

        return sample


def write_annotated_copies(
    new: Path, recipe: Recipe, files: Files, tokenizers: Tokenizers, pair_filter: PairFilter, pairs: int
) -> None:
    """Replace the corpus `new / "train"` by copies with annotated sources.

    The lexicon is learned from the text's `pairs` pairs, or as many as are enough. Raises `DragomanError` if
    no words translate each other, and if a vocabulary from elsewhere lacks the symbols.
    """
    if not knows_terms(tokenizers.source):
        raise OptionError(
            f"The vocabulary that the run takes over has no {', '.join(SYMBOLS)}, which {{terms}} needs; "
            "leave {terms} out, or begin with a model that was trained with it."
        )
    lexicon = text_lexicon(files, pair_filter, pairs)
    if not lexicon:
        raise OptionError(
            "No words of the training text translate each other often enough for {terms}; leave it out."
        )
    language = recipe.data.languages.target
    forms = (
        "base forms"
        if is_known(language)
        else "the forms of the text, as simplemma does not know its language"
    )
    logger.info(f"Terms: {len(lexicon):,} words with known translations; sources are annotated with {forms}.")
    sampler = AnnotatedSources(TermSampler(lexicon, language), recipe.training.seed)
    write_copies(new, files, tokenizers.paths(new), recipe.data, sampler, COPIES)


def text_lexicon(files: Files, pair_filter: PairFilter, pairs: int) -> Lexicon:
    """The words that translate each other in a text; source words without regard to case."""
    sampled = sample_pairs(*files, pair_filter, pairs, LEXICON_PAIRS)
    words = (tuple(map(WORD.findall, pair)) for pair in sampled)
    return learn_lexicon([([word.casefold() for word in source], target) for source, target in words])

"""Limits of lengths for tokens that are bytes: several of them are what one subword is.

Does not import torch.
"""

from dataclasses import replace

from dragoman.pipeline.recipe import Recipe
from dragoman.text.settings import TokenizerSettings

BYTES_TO_A_SUBWORD = 4


def with_byte_lengths(recipe: Recipe, tokenizer: TokenizerSettings) -> Recipe:
    """The recipe, with its limits in tokens multiplied by the bytes to a subword if a side has bytes."""
    if "byte" not in (tokenizer.source_tokens, tokenizer.target_tokens):
        return recipe
    longest = BYTES_TO_A_SUBWORD * recipe.data.longest
    extra = BYTES_TO_A_SUBWORD * recipe.search.max_extra_tokens
    data, search = replace(recipe.data, longest=longest), replace(recipe.search, max_extra_tokens=extra)
    return replace(recipe, data=data, search=search)

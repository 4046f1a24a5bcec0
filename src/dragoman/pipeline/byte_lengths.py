"""Limits of lengths for tokens that are bytes: several of them are what one subword is.

Does not import torch.
"""

from dataclasses import replace

from dragoman.pipeline.recipe import Recipe
from dragoman.text.byte_lengths import BYTES_TO_A_SUBWORD, extra_bytes
from dragoman.text.settings import TokenizerSettings


def with_byte_lengths(recipe: Recipe, tokenizer: TokenizerSettings) -> Recipe:
    """The recipe, with limits in tokens that fit its text if a side has bytes."""
    source, target = tokenizer.source_tokens, tokenizer.target_tokens or tokenizer.source_tokens
    if "byte" not in (source, target):
        return recipe
    data, search = recipe.data, recipe.search
    if target == "byte":
        extra = extra_bytes(source == "byte", search.extra_tokens, data.longest)
        search = replace(search, max_extra_tokens=extra)
    return replace(recipe, data=replace(data, longest=BYTES_TO_A_SUBWORD * data.longest), search=search)

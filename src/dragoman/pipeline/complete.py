"""A recipe with everything that its table and the command line leave open before a run begins.

Does not import torch.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.adaptation.adapt import adapted_recipe
from dragoman.pipeline.byte_lengths import with_byte_lengths
from dragoman.pipeline.presets import choose_preset
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import OptionError
from dragoman.system.toml import overlay

logger = logging.getLogger(__name__)


def complete_recipe(
    table: dict[str, Any], origin: str, flags: Callable[[Recipe], Recipe], gpu: Callable[[], bool]
) -> Recipe:
    """The recipe of a TOML table (read from `origin`) and of flags.

    Flags win over the table, and both over the preset. `flags` returns a recipe with the command line's flags
    applied; `gpu` says whether there is a GPU. Logs the preset that was chosen. Raises `DragomanError` for
    unknown keys, wrong values, contradictions and missing training data.
    """
    plain = {key: value for key, value in table.items() if key != "model"}
    requested = flags(overlay(Recipe(), plain, origin))
    if requested.adaptation != AdaptationSettings():
        return adapted_recipe(requested, table, origin, flags)
    if "byte" in (requested.tokenizer.source_tokens, requested.tokenizer.target_tokens):
        requested = flags(overlay(with_byte_lengths(Recipe(), requested.tokenizer), plain, origin))
    if requested.preset == "auto" and requested.out is not None and (requested.out / "recipe.toml").exists():
        recorded = read_recipe(requested.out)
        preset, model, reason = recorded.preset, recorded.model, None
    elif requested.preset == "auto":
        preset, model, reason = choose_preset(requested.data, requested.training, gpu())
    else:
        preset, model, reason = requested.preset, PRESETS[requested.preset], None
    recipe = flags(overlay(replace(requested, model=model), table, origin))
    if recipe.model.architecture in ("lstm", "gru", "conv"):  # which have no norm
        recipe = flags(overlay(replace(requested, model=replace(model, norm="post")), table, origin))
    recipe = replace(recipe, preset="base" if recipe.model == PRESETS["base"] else preset)
    check_recipe(recipe)
    refuse_odd_neighbourhood(recipe.model)
    if reason is not None and replace(recipe.model, dropout=model.dropout) == model:
        dropout = f" with dropout {model.dropout}" if recipe.model == model else ""
        logger.info(f"Chosen: preset {preset}{dropout}, for {reason}.")
    if recipe.tokenizer.share_vocabulary is False and recipe.model.tied == "all":
        recipe = replace(recipe, model=replace(recipe.model, tied="target"))
    return recipe


def refuse_odd_neighbourhood(model: ModelSettings) -> None:
    """Raise `OptionError` for an odd neighbourhood. Folders of models that have one are still opened."""
    size = model.neighbourhood
    if size is not None and size % 2:
        raise OptionError(
            f"{{neighbourhood}} is {size}; it must be even, because half of the positions are on each side "
            f"of a query. {size - 1} or {size + 1} is possible."
        )

"""The pairs of languages of the model that a recipe trains. Does not import torch."""

from pathlib import Path

from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import OptionError
from dragoman.text.settings import LanguagePair, Languages, with_symbols
from dragoman.translation.model_folder import model_folder, read_about


def pairs_of_model(recipe: Recipe) -> tuple[LanguagePair, ...]:
    """The pairs of languages of the recipe's model, each with its symbol; none of a model of one pair.

    An adapted model keeps those of its initial model. Raises `DragomanError` if that has no symbol for a
    target language of the text, and if the languages of the text are not given.
    """
    named, initial_model = recipe.data.pairs, recipe.adaptation.initial_model
    if initial_model is None or recipe.adaptation.new_vocabulary:
        return with_symbols(named)
    known = read_about(model_folder(initial_model)).pairs
    if not known:
        refuse_new_pairs(named, initial_model)
        return ()
    symbols = {pair.target: pair.symbol for pair in known}
    if not named:
        raise OptionError(
            "The initial model in {model} has several pairs of languages ({pairs}), and the languages of the "
            "text are not given: {pair} {first} SOURCE TARGET.",
            first=known[0].name,
            model=initial_model,
            pairs=", ".join(pair.name for pair in known),
        )
    if unknown := [pair for pair in named if pair.target not in symbols]:
        raise OptionError(
            "The text is in {language}, and the initial model in {model} translates into {targets} only; "
            "leave {initial_model} out.",  # noqa: RUF027  a setting
            language=unknown[0].target,
            model=initial_model,
            targets=", ".join(symbols),
        )
    new = (LanguagePair(pair.source, pair.target, symbols[pair.target]) for pair in named)
    return tuple(dict.fromkeys([*known, *new]))


def refuse_new_pairs(named: list[Languages], initial_model: Path) -> None:
    """Raise `DragomanError` for text of several pairs of languages with an initial model of one."""
    if len(named) > 1:
        raise OptionError(
            "The text has several pairs of languages, and the initial model in {model} has one; leave "
            "{initial_model} out.",  # noqa: RUF027  a setting
            model=initial_model,
        )

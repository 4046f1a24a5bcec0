"""Preparation of text that is not two files of lines: compressed, both sides in one file, several corpora."""

from dataclasses import replace
from pathlib import Path

from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.recipe import Recipe
from dragoman.system.messages import Say
from dragoman.text.conversion import converted
from dragoman.text.settings import DataSettings


def prepare_converted(out: Path, recipe: Recipe, texts: DataSettings, say: Say) -> Recipe:
    """Write files of lines in place of `texts`, which have all paths, and `prepare` them; then delete them.

    Returns the recipe with the languages that a file with both sides names. Raises `DragomanError` for files
    that cannot be read, and where `prepare` does.
    """
    tags = {corpus.tag for corpus in texts.corpus} - {"", *recipe.tokenizer.symbols}
    symbols = (*recipe.tokenizer.symbols, *sorted(tags))
    with converted(texts, out / "text.partial", say) as lines:
        tokenizer = replace(recipe.tokenizer, symbols=symbols)
        prepare(out, replace(recipe, data=lines, tokenizer=tokenizer), say)
    source, target = lines.source_language, lines.target_language
    return replace(recipe, data=replace(recipe.data, source_language=source, target_language=target))

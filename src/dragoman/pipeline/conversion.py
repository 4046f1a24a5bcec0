"""Preparation of text that is not two files of lines: compressed, both sides in one file, several corpora."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.pipeline.language_pairs import pairs_of_model
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.recipe import Recipe, resolve_corpora
from dragoman.system.errors import OptionError
from dragoman.system.wording import counted
from dragoman.text.conversion import ConvertedData, converted
from dragoman.text.corpus import source_hashes
from dragoman.text.lines import line_hash, read_lines
from dragoman.text.settings import DataSettings
from dragoman.text.words import SPACE
from dragoman.translation.model_folder import Tokenizers, model_folder

logger = logging.getLogger(__name__)


def prepare_converted(out: Path, recipe: Recipe, texts: DataSettings) -> Recipe:
    """Write files of lines in place of `texts`, and `prepare` them; then delete them.

    The paths of `texts` are resolved, except those of corpora. Returns the recipe with the languages that a
    file with both sides names, and with the temperature of several pairs of languages. Raises `DragomanError`
    for files that cannot be read, for tags that an initial model lacks, and where `pairs_of_model` and
    `prepare` do.
    """
    refuse_unknown_tags(recipe)
    corpora = resolve_corpora(replace(texts, folder=recipe.data.folder))
    symbols = recipe.tokenizer.symbols
    symbols += tuple(sorted({corpus.tag for corpus in corpora} - {"", *symbols}))
    pairs = pairs_of_model(recipe)
    with converted(replace(texts, corpus=corpora), out / "text.partial", pairs) as lines:
        data: ConvertedData = lines
        if lines.parts and recipe.adaptation.replay is not None:
            from dragoman.pipeline.adaptation.replay import with_old_text

            data = with_old_text(lines, recipe.adaptation)
        tokenizer = replace(recipe.tokenizer, symbols=symbols)
        prepare(out, replace(recipe, data=data, tokenizer=tokenizer))
        report_held_out_of_tagged(data, out)
    names = "source_language", "target_language", "pair_temperature"
    chosen: dict[str, Any] = {name: getattr(lines, name) for name in names}
    return replace(recipe, data=replace(recipe.data, **chosen))


def report_held_out_of_tagged(data: DataSettings, out: Path) -> None:
    """Report how many pairs of corpora with a tag are left out because their sources are held out."""
    if data.valid_source is not None or data.source is None:
        return
    held_out = source_hashes(out / "data" / "valid.source.txt")
    lines = enumerate(read_lines(data.source), 1)
    if count := sum(line_hash(text) in held_out for number, text in lines if data.tag(number)):
        logger.info(
            f"{counted(count, 'pair')} of corpora with a tag left out: their sources are held out for "
            "validation."
        )


def refuse_unknown_tags(recipe: Recipe) -> None:
    """Raise `DragomanError` for tags of corpora that an initial model lacks."""
    adaptation = recipe.adaptation
    tags = {corpus.tag for corpus in recipe.data.corpus} - {""}
    if adaptation.initial_model is None or adaptation.new_vocabulary or not tags:
        return
    source = Tokenizers.load(model_folder(adaptation.initial_model)).source
    for tag, ids in zip(tags, source.encode(list(tags)), strict=True):
        if tag not in (piece.removeprefix(SPACE) for piece in source.pieces(ids)):
            raise OptionError(
                "The tag {tag} is not a token of the initial model in {model}; leave it out, or begin with a "
                "model whose tokenizer has it ({symbols} '{tag}').",
                tag=tag,
                model=adaptation.initial_model,
            )

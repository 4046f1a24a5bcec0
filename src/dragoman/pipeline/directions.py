"""Texts that are given in the wrong direction, as the names of their files say."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.conversion import pair_of
from dragoman.text.formats import format_of, languages_of_file
from dragoman.text.language_codes import could_be_same
from dragoman.text.mixture import is_parallel
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, language_of_name

Files = tuple[Path, ...]  # source and target, or one file that has both sides


def refuse_swapped(recipe: Recipe) -> None:
    """Raise `DragomanError` for a text whose source is in the target language, and target in the source's.

    The direction is that of the corpus, of the recipe or of its initial model; if they have none, that of the
    training text or of the first corpus.
    """
    named_texts = [(files, named_languages(files), given) for files, given in texts(recipe)]
    common = recipe.data.languages
    if named_texts and common == Languages():
        _, common, _ = named_texts[0]
    for files, languages, given in named_texts:
        expected = given or common
        source, target = expected.source, expected.target
        is_swapped = could_be_same(languages.source, target) and could_be_same(languages.target, source)
        if is_swapped and not could_be_same(source, target):
            raise DragomanError(
                f"By their names, the sides of {' and '.join(map(str, files))} are in {target} and {source}, "
                f"and the model is trained from {source} to {target}. Exchange the sides."
            )


def texts(recipe: Recipe) -> Iterator[tuple[Files, Languages | None]]:
    """The files of each text, of training to replay, and the languages of its corpus."""
    data, adaptation = recipe.data, recipe.adaptation
    for corpus in data.corpus:
        for text in (
            (corpus.source, corpus.target),
            (corpus.valid_source, corpus.valid_target),
            (corpus.test_source, corpus.test_target),
        ):
            if files := tuple(path for path in text if path is not None):
                yield files, pair_of(corpus)
    pairs = [
        (data.source, data.target),
        (data.valid_source, data.valid_target),
        (data.test_source, data.test_target),
        *(tuple(map(Path, files)) for files in (adaptation.replay, adaptation.replay_valid) if files),
    ]
    for pair in pairs:
        if files := tuple(path for path in pair if path is not None):
            yield files, None


def named_languages(files: Files) -> Languages:
    """The languages that the names of a text's files say. Those of .tmx and .jsonl stand inside the file."""
    if len(files) == 2:
        source, target = (language_of_name(path.name) for path in files)
        return Languages(source, target)
    if is_parallel(files[0]) and format_of(files[0]) == ".tsv":
        return languages_of_file(files[0], Languages())
    return Languages(UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)

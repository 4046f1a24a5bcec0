"""Old text beside new text in an adaptation: replayed in training, scored at each validation.

A model that is trained on new text alone forgets the old text (McCloskey and Cohen 1989); mixing the texts is
the common remedy in translation (Chu, Dabre and Kurohashi 2017).
"""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.model.interface import Model
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe, resolve_paths
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.pipeline.validation_pairs import write_valid
from dragoman.system.errors import DragomanError
from dragoman.text.conversion import ConvertedData, CorpusPart, as_lines
from dragoman.text.corpus import Files, PairFilter, scan_corpus, source_hashes
from dragoman.text.held_out import HeldOutSources
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.mixing import shuffled_passes
from dragoman.text.settings import DataSettings
from dragoman.training.context import Samples, Scores, Validate
from dragoman.translation.model_folder import Tokenizers

logger = logging.getLogger(__name__)
DEFAULT_SHARE = 0.3
OLD = "replay"  # the folder, within that of the data, of the old text's validation pairs


def prepare_replay(
    new: Path, recipe: Recipe, files: Files, pair_filter: PairFilter, tokenizers: Tokenizers
) -> Files:
    """Mix old pairs into the training text, and write those to validate with to `new / OLD`.

    Returns the files to train on. Raises `DragomanError` for files that cannot be read or do not match, and
    if no old pair is left to replay.
    """
    (new / OLD).mkdir()
    tokenizers.save(new / OLD)
    with as_lines(old_text(recipe), new / "old") as old:
        old_files, old_filter = files, PairFilter()
        if old.source is not None and old.target is not None:
            old_files = old.source, old.target
            old_filter = scan_old_text(old, recipe)
            files = add_old_pairs(new / "plain", recipe, files, old_files, (pair_filter, old_filter))
        write_valid(new / OLD, old_files, old, old_filter, tokenizers)
    return files


def scan_old_text(old: DataSettings, recipe: Recipe) -> PairFilter:
    """Decide which old pairs may be replayed, and say how many sources are also in other data.

    Those of the old text's own validation pairs are left out, and those of the run's validation and test
    data if the recipe says so.
    """
    assert old.source is not None
    assert old.target is not None
    paths = {
        "validation": recipe.data.valid_source,
        "test": recipe.data.test_source,
        "replay's validation": old.valid_source,
    }
    hashes = {name: source_hashes(path) for name, path in paths.items() if path is not None}
    candidates = None if old.valid_source else HeldOutSources("{replay_valid} SOURCE TARGET")
    statistics, pair_filter = scan_corpus((old.source, old.target), old, hashes, candidates)
    if any(statistics.overlap.values()):
        logger.info(f"Text to replay: {'; '.join(statistics.describe())}.")
    validation_hashes = hashes.get("replay's validation", frozenset())
    return replace(pair_filter, drop_sources=pair_filter.drop_sources | validation_hashes)


def old_text(recipe: Recipe) -> DataSettings:
    """The old text as that of a run. Raises `DragomanError` for a missing file."""
    data = recipe.data
    train, valid = (
        (*map(Path, files or ()), None, None)[:2]  # a file that has both sides is the source
        for files in (recipe.adaptation.replay, recipe.adaptation.replay_valid)
    )
    old = DataSettings(longest=data.longest, drop_copies=data.drop_copies, drop_overlap=data.drop_overlap)
    old = replace(old, source_language=data.source_language, target_language=data.target_language)
    old = replace(old, source=train[0], target=train[1], valid_source=valid[0], valid_target=valid[1])
    try:
        return resolve_paths(old)
    except DragomanError as error:
        raise DragomanError(f"Of the text to replay, {error}") from error


# ---- training


def share_of(adaptation: AdaptationSettings) -> float:
    """The share of the training pairs that is asked for, or the default."""
    return DEFAULT_SHARE if adaptation.replay_share is None else adaptation.replay_share


def with_old_text(lines: ConvertedData, adaptation: AdaptationSettings) -> ConvertedData:
    """Text of several corpora with a last part, which `add_old_pairs` fills: the old pairs, without a tag.

    If the corpora have weights, the old pairs get the replay's share as theirs, in every epoch, and the
    corpora keep their proportions in the rest.
    """
    assert lines.source is not None
    weights, share = lines.weights(), share_of(adaptation)
    first_line = 1 + sum(1 for _ in read_lines(lines.source))
    if not weights:
        return replace(lines, parts=(*lines.parts, CorpusPart(first_line, None, "")))
    total = sum(weights.values())
    parts = [replace(part, weight=(1 - share) * ((part.weight or 0) / total)) for part in lines.parts]
    logger.info(
        f"Of the training pairs, {share:.1%} are replayed; the corpora have their shares of the others."
    )
    return replace(lines, parts=(*parts, CorpusPart(first_line, share, "")))


def add_old_pairs(
    folder: Path, recipe: Recipe, files: Files, old: Files, filters: tuple[PairFilter, PairFilter]
) -> Files:
    """Write the new text, and after it as many old pairs as give the replay's share of the training pairs.

    The lines of the new text keep their numbers. Old pairs that are held out, of either text, are not used.
    The others are used in shuffled passes, as those of a corpus that is mixed with others.

    Raises `DragomanError` if no old pair is left.
    """
    share, names = share_of(recipe.adaptation), " and ".join(recipe.adaptation.replay or ())
    is_usable = (all(pair_filter.keeps(*pair) for pair_filter in filters) for pair in read_pairs(*old))
    usable = np.flatnonzero(np.fromiter(is_usable, bool))
    if not len(usable):
        raise DragomanError(f"No pair of {names} is left to replay.")
    count = sum(filters[0].keeps(*pair) for pair in read_pairs(*files))
    target_count = max(round(share / (1 - share) * count), share > 0)
    drawn = usable[shuffled_passes(len(usable), 0, target_count, (recipe.training.seed, 1))]
    times = np.bincount(drawn)
    folder.mkdir(exist_ok=True)
    mixed = folder / "mixed.source", folder / "mixed.target"
    for path, first, second in zip(mixed, files, old, strict=True):
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in read_lines(first))
            for line, repeats in zip(read_lines(second), times, strict=False):
                file.write(f"{line}\n" * int(repeats))
    logger.info(
        f"Replay: {target_count:,} pairs, from {len(usable):,} of {names}, are added to {count:,} "
        f"new ones: {target_count / (target_count + count):.0%} of the training pairs."
    )
    return mixed


# ---- validation


def with_old_validation(recipe: Recipe, data: PreparedData) -> PreparedData:
    """The data of a run, with the validation pairs of the old text."""
    return data.validated_by(recipe.folder / "data" / OLD)


def validate_both(validate: Validate, validate_old: Validate) -> Validate:
    """`validate`, whose scores decide, with those of the old text as `replay_bleu` and so on."""

    def validate_new_and_old(model: Model, name: str) -> tuple[Scores, Samples]:
        scores, samples = validate(model, name)
        old_scores, _ = validate_old(model, f"{name}, old text")
        return scores | {f"replay_{key}": value for key, value in old_scores.items()}, samples

    return validate_new_and_old

"""Text files to a run's `data` folder: tokenizers, ids, validation and test text."""

import logging
import shutil
from dataclasses import asdict
from pathlib import Path

from dragoman.pipeline.adaptation.initial_model import check_new_vocabulary, prepare_adaptation
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.validation_pairs import write_test, write_valid
from dragoman.system.errors import DragomanError
from dragoman.system.files import complete_folder
from dragoman.text.conversion import pairs_of
from dragoman.text.corpus import (
    Files,
    PairFilter,
    no_pairs_left,
    sample_pairs,
    scan_corpus,
    source_hashes,
    write_corpus,
)
from dragoman.text.held_out import HeldOutSources
from dragoman.text.lines import read_pairs
from dragoman.text.settings import DataSettings, TokenKind
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import PAIRS, Tokenizers, model_folder, write_about

logger = logging.getLogger(__name__)


def prepare(out: Path, recipe: Recipe) -> None:
    """Check the files of lines, which are not compressed; hold out pairs, train tokenizers, write corpora.

    `out/data` appears once all of it is complete. Raises `DragomanError` for files that cannot be read or do
    not match or change meanwhile, and if no pair is left for training.
    """
    if recipe.data.terms:
        from dragoman.pipeline.terms import with_term_symbols

        recipe = with_term_symbols(recipe)
    data = recipe.data
    before = file_states(data)
    files = data.files["source"], data.files["target"]
    others = {
        name: (data.files[f"{kind}_source"], data.files[f"{kind}_target"])
        for name, kind in (("validation", "valid"), ("test", "test"))
        if f"{kind}_source" in data.files
    }
    hashes = {name: source_hashes(sources) for name, (sources, _) in others.items()}
    for pair in others.values():
        for _ in read_pairs(*pair):  # raises for files that do not match
            pass
    candidates = None if "validation" in others else HeldOutSources()
    statistics, pair_filter = scan_corpus(files, data, hashes, candidates)
    new = out / "data.partial"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        if "test" in others:
            write_test(new, data, *others["test"])
        if next(sample_pairs(*files, pair_filter, 1, 1), None) is None:
            raise no_pairs_left(*files, statistics)
        if recipe.adaptation.initial_model is None or recipe.adaptation.new_vocabulary:
            tokenizers = train_tokenizers(recipe, files, pair_filter, statistics.pairs)
            check_new_vocabulary(recipe, tokenizers)
            write_language_pairs(new, data)
        else:
            tokenizers, files = prepare_adaptation(new, recipe, files, pair_filter)
        tokenizers.save(new)
        statistics.held_out, statistics.too_long = write_valid(new, files, data, pair_filter, tokenizers)
        train = write_corpus(new / "train", files, tokenizers.paths(new), data, pair_filter, statistics)
        if recipe.tokenizer.bpe_dropout or recipe.tokenizer.sampling_alpha:
            from dragoman.text.subword_sampling import sample_copies

            sample_copies(new, files, tokenizers.paths(new), data, recipe.tokenizer, recipe.training.seed)
        if data.terms:
            from dragoman.pipeline.terms import write_annotated_copies

            write_annotated_copies(new, recipe, files, tokenizers, pair_filter, statistics.pairs)
        if data.guided_alignment is not None:
            from dragoman.text.token_alignment import write_alignment

            write_alignment(new / "train", data.guided_alignment, files, tokenizers.paths(new))
        shutil.rmtree(new / "plain", ignore_errors=True)
        if changed := {*file_states(data)} - {*before}:  # each text is read several times
            raise DragomanError(f"{min(changed)[0]} was changed while it was read; run the command again.")
        complete_folder(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(out / "data", ignore_errors=True)
    new.rename(out / "data")
    logger.info(f"Text: {'; '.join(train.statistics.describe())}. Pairs to train on: {statistics.kept:,}.")


def write_language_pairs(new: Path, data: DataSettings) -> None:
    """Write the pairs of languages of a model of several, as a model folder has them."""
    if pairs := pairs_of(data):
        write_about(new, {PAIRS: list(map(asdict, pairs))})


def file_states(data: DataSettings) -> list[tuple[Path, int, int]]:
    """Size and time of the last change of each text file."""
    return [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in data.files.values()]


def train_tokenizers(recipe: Recipe, files: Files, pair_filter: PairFilter, pairs: int) -> Tokenizers:
    """Learn one vocabulary of both sides, or one of each, from the training pairs alone.

    A student has those of its teacher.
    """
    settings = recipe.tokenizer
    if settings.of_model is not None:
        return Tokenizers.load(model_folder(settings.of_model))
    vocabulary = settings.vocabulary or choose_vocabulary(recipe, pairs)
    kinds = settings.source_tokens, settings.target_tokens or settings.source_tokens

    symbols = list(dict.fromkeys(pair.symbol for pair in pairs_of(recipe.data) if pair.symbol))

    def train(sides: tuple[int, ...], kind: TokenKind) -> Tokenizer:
        sampled = sample_pairs(*files, pair_filter, pairs, settings.tokenizer_pairs)
        lines = (pair[side] for pair in sampled for side in sides)
        tokenizer = Tokenizer.train(lines, kind, settings, vocabulary, symbols if 0 in sides else ())
        if settings.vocabulary and kind in ("bpe", "unigram", "byte") and len(tokenizer) != vocabulary:
            logger.info(
                f"Asked for a vocabulary of {vocabulary:,} {kind} tokens; there are {len(tokenizer):,}."
            )
        return tokenizer

    if settings.share_vocabulary:
        tokenizer = train((0, 1), kinds[0])
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(train((0,), kinds[0]), train((1,), kinds[1]))


def choose_vocabulary(recipe: Recipe, pairs: int) -> int:
    """About 40 · √pairs tokens: 7,000 for 30,000 pairs, the paper's 37,000 for a million and more.

    At most 10,000 for a small model.
    """
    return min(37_000 if recipe.model.d_model >= 512 else 10_000, max(400, round(40 * pairs**0.5)))

"""Text files to a run's `data` folder, and from there to tokenizers, corpora, batches and a fresh model."""

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from dragoman.model.interface import Model
from dragoman.model.transformer import build_model
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.system.files import complete_folder
from dragoman.system.messages import Say
from dragoman.text.batches import Batches
from dragoman.text.corpus import (
    Corpus,
    Files,
    PairFilter,
    decompressed_file,
    no_pairs_left,
    sample_pairs,
    scan_corpus,
    source_hashes,
    write_corpus,
)
from dragoman.text.held_out import fitting_pairs, held_out_pairs
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.settings import DataSettings, TokenKind
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.settings import Schedule
from dragoman.training.world import World
from dragoman.translation.model_folder import Tokenizers, model_folder

# ---- from text to ids


def prepare(out: Path, recipe: Recipe, say: Say) -> None:
    """Check the files, hold out pairs, train tokenizers, write corpora.

    `out/data` appears once all of it is complete. Raises `DragomanError` for files that cannot be read or do
    not match, and if no pair is left for training.
    """
    data = recipe.data
    assert data.source is not None
    assert data.target is not None
    others = {
        name: (source, target)
        for name, source, target in (
            ("validation", data.valid_source, data.valid_target),
            ("test", data.test_source, data.test_target),
        )
        if source is not None and target is not None
    }
    hashes = {name: source_hashes(source) for name, (source, _) in others.items()}
    for pair in others.values():
        for _ in read_pairs(*pair):  # raises for files that do not match
            pass
    hold_out = "validation" not in others
    statistics, pair_filter = scan_corpus(data.source, data.target, data, hashes, hold_out)
    new = out / "data.partial"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        files = (
            decompressed_file(data.source, new / "plain" / "source"),
            decompressed_file(data.target, new / "plain" / "target"),
        )
        if "test" in others:
            write_pairs(new, "test", list(read_pairs(*others["test"])))
        if next(sample_pairs(*files, pair_filter, 1, 1), None) is None:
            raise no_pairs_left(data.source, data.target, statistics)
        tokenizers = train_tokenizers(recipe, files, pair_filter, statistics.pairs, say)
        tokenizers.save(new)
        statistics.held_out, statistics.too_long = write_valid(new, files, data, pair_filter, tokenizers)
        models = tokenizers.paths(new)
        train = write_corpus(new / "train", files, models, data, pair_filter, statistics)
        valid_files, valid = (new / "valid.source.txt", new / "valid.target.txt"), DataSettings(longest=0)
        valid_statistics, valid_filter = scan_corpus(*valid_files, valid, {}, hold_out=False)
        write_corpus(new / "valid", valid_files, models, valid, valid_filter, valid_statistics)
        shutil.rmtree(new / "plain", ignore_errors=True)
        complete_folder(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(out / "data", ignore_errors=True)
    new.rename(out / "data")
    say(f"Text: {'; '.join(train.statistics.describe())}. {len(train):,} pairs to train on.")


def write_valid(
    folder: Path, files: Files, data: DataSettings, pair_filter: PairFilter, tokenizers: Tokenizers
) -> tuple[int, int]:
    """Write the validation pairs, given or held out.

    Returns how many are held out, and how many of these were too long. Raises `DragomanError` if there is
    none.
    """
    if data.valid_source is not None and data.valid_target is not None:
        given = read_pairs(data.valid_source, data.valid_target)
        if not (pairs := [pair for pair in given if all(map(str.strip, pair))]):
            raise DragomanError(
                f"{data.valid_source} and {data.valid_target} have no pair without an empty side."
            )
        write_pairs(folder, "valid", pairs)
        return 0, 0
    held_out = held_out_pairs(*files, pair_filter.held_out)
    fitting = fitting_pairs(held_out, data, (tokenizers.source, tokenizers.target))
    write_pairs(folder, "valid", fitting)
    return len(fitting), len(held_out) - len(fitting)


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write pairs as two text files."""
    for number, side in enumerate(("source", "target")):
        text = "".join(f"{pair[number]}\n" for pair in pairs)
        (folder / f"{name}.{side}.txt").write_text(text, "utf-8", newline="\n")


def train_tokenizers(
    recipe: Recipe, files: Files, pair_filter: PairFilter, pairs: int, say: Say
) -> Tokenizers:
    """Learn one vocabulary of both sides, or one of each, from the training pairs alone.

    A student has those of its teacher.
    """
    settings = recipe.tokenizer
    if settings.of_model is not None:
        return Tokenizers.load(model_folder(settings.of_model))
    vocabulary = settings.vocabulary or choose_vocabulary(recipe, pairs)
    kinds = settings.source_tokens, settings.target_tokens or settings.source_tokens

    def train(sides: tuple[int, ...], kind: TokenKind) -> Tokenizer:
        sampled = sample_pairs(*files, pair_filter, pairs, settings.tokenizer_pairs)
        lines = (pair[side] for pair in sampled for side in sides)
        tokenizer = Tokenizer.train(lines, kind, settings, vocabulary)
        if settings.vocabulary is not None and kind in ("bpe", "unigram") and len(tokenizer) < vocabulary:
            say(f"Asked for a vocabulary of {vocabulary:,} tokens; the text has only {len(tokenizer):,}.")
        return tokenizer

    if settings.share_vocabulary:
        tokenizer = train((0, 1), kinds[0])
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(train((0,), kinds[0]), train((1,), kinds[1]))


def choose_vocabulary(recipe: Recipe, pairs: int) -> int:
    """About 40 · √pairs tokens: 7,000 for 30,000 pairs, the paper's 37,000 for a million and more.

    At most 10,000 for a small model.
    """
    most = 37_000 if recipe.model.d_model >= 512 else 10_000
    return min(most, max(400, round(40 * pairs**0.5)))


# ---- from ids to training


@dataclass(frozen=True)
class PreparedData:
    """The contents of a run's `data` folder."""

    tokenizers: Tokenizers
    train: Corpus
    valid: Corpus
    valid_source: list[str]
    valid_target: list[str]

    @classmethod
    def load(cls, folder: Path) -> "PreparedData":
        """Read the folder that `prepare` wrote. Raises `DragomanError` if a file is missing or damaged."""
        lines = [list(read_lines(folder / f"valid.{side}.txt")) for side in ("source", "target")]
        return cls(Tokenizers.load(folder), Corpus(folder / "train"), Corpus(folder / "valid"), *lines)

    @property
    def longest_source(self) -> int:
        """Tokens of the longest training source, END included."""
        return int(self.train.lengths()[0].max()) + 1


def make_model(recipe: Recipe, data: PreparedData, device: torch.device) -> Model:
    """A model with initial weights, which depend on the seed alone.

    Raises `DragomanError` if settings and vocabularies contradict each other, or if memory is too small.
    """
    torch.manual_seed(recipe.training.seed)
    try:
        return build_model(recipe.model, len(data.tokenizers.source), len(data.tokenizers.target)).to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DragomanError(
            "There is not enough memory for a model of this size; choose a smaller --preset, or smaller "
            "sizes."
        ) from error


def make_batches(recipe: Recipe, data: PreparedData, world: World) -> Batches:
    """The training batches of this process."""
    batches = recipe.batches
    assert batches.source_tokens_per_batch is not None
    assert batches.target_tokens_per_batch is not None
    assert not isinstance(batches.micro_batch_tokens, str)
    return Batches(
        data.train,
        batches.source_tokens_per_batch,
        batches.target_tokens_per_batch,
        recipe.training.seed,
        batches.accumulate,
        batches.micro_batch_tokens,
        world.rank,
        world.size,
    )


def make_schedule(recipe: Recipe) -> Schedule:
    """The schedule of a recipe in which all is chosen."""
    numbers = {field.name: getattr(recipe.training, field.name) for field in fields(Schedule)}
    assert all(numbers.values())
    return Schedule(**numbers)

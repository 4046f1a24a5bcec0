"""Text files to a run's `data` folder, and from there to tokenizers, corpora, batches and a fresh model."""

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.system.files import complete_folder, write_lines
from dragoman.system.messages import Say
from dragoman.text.batches import Batch, Batches
from dragoman.text.corpus import (
    Corpus,
    Files,
    PairFilter,
    no_pairs_left,
    sample_pairs,
    scan_corpus,
    source_hashes,
    write_corpus,
)
from dragoman.text.held_out import HeldOutSources, fitting_pairs, held_out_pairs
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.settings import DataSettings, TokenKind
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.settings import Schedule
from dragoman.training.world import World
from dragoman.translation.model_folder import Tokenizers, model_folder, read_about

# ---- from text to ids


def prepare(out: Path, recipe: Recipe, say: Say) -> None:
    """Check the files of lines, which are not compressed; hold out pairs, train tokenizers, write corpora.

    `out/data` appears once all of it is complete. Raises `DragomanError` for files that cannot be read or do
    not match or change meanwhile, and if no pair is left for training.
    """
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
            write_pairs(new, "test", list(read_pairs(*others["test"])))
        if next(sample_pairs(*files, pair_filter, 1, 1), None) is None:
            raise no_pairs_left(*files, statistics)
        if recipe.adaptation.initial_model is None:
            tokenizers = train_tokenizers(recipe, files, pair_filter, statistics.pairs, say)
        else:
            from dragoman.pipeline.initial_model import prepare_adaptation

            tokenizers, files = prepare_adaptation(new, recipe, files, pair_filter, say)
        tokenizers.save(new)
        statistics.held_out, statistics.too_long = write_valid(new, files, data, pair_filter, tokenizers)
        train = write_corpus(new / "train", files, tokenizers.paths(new), data, pair_filter, statistics)
        if recipe.tokenizer.bpe_dropout or recipe.tokenizer.sampling_alpha:
            from dragoman.text.subword_sampling import sample_copies

            sample_copies(new, files, tokenizers.paths(new), data, recipe.tokenizer, recipe.training.seed)
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
    say(f"Text: {'; '.join(train.statistics.describe())}. Pairs to train on: {statistics.kept:,}.")


def file_states(data: DataSettings) -> list[tuple[Path, int, int]]:
    """Size and time of the last change of each text file."""
    return [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in data.files.values()]


def write_valid(
    folder: Path, files: Files, data: DataSettings, pair_filter: PairFilter, tokenizers: Tokenizers
) -> tuple[int, int]:
    """Write the validation pairs, given or held out, and their ids. The folder has the tokenizers.

    Returns how many are held out, and how many of these were too long. Raises `DragomanError` if there is
    none.
    """
    held_out = too_long = 0
    source, target = data.valid_source, data.valid_target
    if source is not None and target is not None:
        pairs = [pair for pair in read_pairs(source, target) if all(map(str.strip, pair))]
        of_source, of_target = tokenizers.source, tokenizers.target
        if not any(of_source.encode([s])[0] and of_target.encode([t])[0] for s, t in pairs):
            raise DragomanError(f"{source} and {target} have no pair with tokens on both sides.")
    else:
        found = held_out_pairs(*files, pair_filter.held_out, data)
        pairs = fitting_pairs(found, data, (tokenizers.source, tokenizers.target))
        held_out, too_long = len(pairs), len(found) - len(pairs)
    write_pairs(folder, "valid", pairs)
    own, settings = (folder / "valid.source.txt", folder / "valid.target.txt"), DataSettings(longest=0)
    statistics, keep_all = scan_corpus(own, settings, {}, candidates=None)
    write_corpus(folder / "valid", own, tokenizers.paths(folder), settings, keep_all, statistics)
    return held_out, too_long


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write pairs as two text files."""
    for number, side in enumerate(("source", "target")):
        write_lines(folder / f"{name}.{side}.txt", (pair[number] for pair in pairs))


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
        if settings.vocabulary and kind in ("bpe", "unigram", "byte") and len(tokenizer) != vocabulary:
            say(f"Asked for a vocabulary of {vocabulary:,} {kind} tokens; there are {len(tokenizer):,}.")
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


# ---- from ids to training


@dataclass(frozen=True)
class PreparedData:
    """The contents of a run's `data` folder."""

    tokenizers: Tokenizers
    train: Corpus
    valid: Corpus
    valid_source: list[str]
    valid_target: list[str]
    longest_trained_before: int
    """`longest_trained` of the initial model; 0 without one."""

    @classmethod
    def load(cls, folder: Path) -> "PreparedData":
        """Read the folder that `prepare` wrote. Raises `DragomanError` if a file is missing or damaged."""
        source, target = (list(read_lines(folder / f"valid.{side}.txt")) for side in ("source", "target"))
        train, valid = Corpus(folder / "train"), Corpus(folder / "valid")
        return cls(Tokenizers.load(folder), train, valid, source, target, read_about(folder)[0] or 0)

    @property
    def longest_trained(self) -> int:
        """Tokens of the longest training source, END included, that of an initial model too."""
        return max(int(self.train.lengths()[0].max()) + 1, self.longest_trained_before)


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
            "There is not enough memory for a model of this size; choose a smaller --preset or smaller sizes."
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


def validation_batches(recipe: Recipe, data: PreparedData, world: World) -> list[Batch]:
    """The validation pairs of this process, in batches."""
    batch_tokens = recipe.batches.micro_batch_tokens or recipe.batches.target_tokens_per_batch
    tokens = max(int(batch_tokens or 0), *(int(lengths.max()) + 1 for lengths in data.valid.lengths()))
    plan = Batches(data.valid, tokens, tokens, seed=0)
    return [plan.load(pairs) for pairs in plan.plan(0)[world.rank :: world.size]]


def make_schedule(recipe: Recipe) -> Schedule:
    """The schedule of a recipe in which all is chosen."""
    numbers = {field.name: getattr(recipe.training, field.name) for field in fields(Schedule)}
    assert all(numbers.values())
    return Schedule(**numbers)

"""What a run makes from its `data` folder: tokenizers, corpora, batches and a fresh model."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import OptionError, is_out_of_memory
from dragoman.text.batches import Batch, Batches
from dragoman.text.corpus import Corpus
from dragoman.text.lines import read_lines
from dragoman.text.settings import LanguagePair, common_languages
from dragoman.training.settings import Schedule
from dragoman.training.world import World
from dragoman.translation.cut_text import cut_text
from dragoman.translation.model_folder import Tokenizers, read_about, save_model

SAMPLE = 1_000  # sources


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
    folder: Path = Path()
    pairs: tuple[LanguagePair, ...] = ()
    """The pairs of languages of a model of several."""
    symbol: str = ""
    """That of the target language of the validation and test pairs, if they are of one pair of languages."""

    @classmethod
    def load(cls, folder: Path) -> "PreparedData":
        """Read the folder that `prepare` wrote. Raises `DragomanError` if a file is missing or damaged."""
        source, target = (list(read_lines(folder / f"valid.{side}.txt")) for side in ("source", "target"))
        train, valid = Corpus(folder / "train"), Corpus(folder / "valid")
        about = read_about(folder)
        longest_before = about.longest_trained or 0
        tokenizers = Tokenizers.load(folder)
        return cls(tokenizers, train, valid, source, target, longest_before, folder, about.pairs)

    def by_pair(self) -> dict[str, "PreparedData"]:
        """The data of each pair of languages that has validation pairs, by its name; none for one pair."""
        return {
            pair.name: replace(self.validated_by(self.folder / pair.name), pairs=(), symbol=pair.symbol)
            for pair in self.pairs
            if (self.folder / pair.name).exists()
        }

    def validated_by(self, folder: Path) -> "PreparedData":
        """The data with the validation and test pairs of another folder."""
        source, target = (list(read_lines(folder / f"valid.{side}.txt")) for side in ("source", "target"))
        valid = Corpus(folder / "valid")
        return replace(self, valid=valid, valid_source=source, valid_target=target, folder=folder)

    @property
    def longest_trained(self) -> int:
        """Tokens of the longest training source, END included, that of an initial model too."""
        return max(int(self.train.lengths()[0].max()) + 1, self.longest_trained_before)

    def several_sentences(self, language: str) -> float:
        """Share of the training sources that have several sentences, in an evenly spaced sample."""
        pairs = range(0, len(self.train), -(-len(self.train) // SAMPLE))
        texts = (self.tokenizers.source.decode(self.train[pair][0].tolist()) for pair in pairs)
        return sum(len(cut_text(text, language).spans) > 1 for text in texts) / len(pairs)


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
        raise OptionError(
            "There is not enough memory for a model of this size; choose a smaller {preset} or smaller sizes."
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


def keep(folder: Path, model: Model, recipe: Recipe, data: PreparedData) -> None:
    """Write the model of a run in place of a former one."""
    languages = common_languages(data.pairs) if data.pairs else recipe.data.languages
    about = data.longest_trained, languages, data.several_sentences(languages.source), data.pairs
    save_model(folder, model, recipe.model, data.tokenizers, *about)

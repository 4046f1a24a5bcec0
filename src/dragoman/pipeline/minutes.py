"""How many updates and validations fit into the minutes of a recipe."""

import math
import time
import warnings
from collections.abc import Sequence

import torch

from dragoman.model.interface import Model
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe
from dragoman.search.settings import SearchSettings
from dragoman.system.device import is_cpu
from dragoman.training.world import World
from dragoman.translation.translator import Translator

PAPER_UPDATES, MAX_PASSES = 100_000, 200  # bounds of a chosen number of updates
VALIDATIONS, AT_THE_END = 20, 2  # at most, and those of the last checkpoint and the average
SHARE = 0.1  # of the time, for validations
SAMPLE = 32  # sentences that are translated to measure a validation


def choose_updates(
    minutes: float, updates_per_epoch: float, speed: float, validation: float, every: int | None = None
) -> tuple[int, int, float]:
    """The updates, the validations among them, and the seconds of all validations.

    A validation takes `validation` seconds, and `speed` updates a second. There are 20 validations, or fewer
    if they would take more than a tenth of the time, but two at least, unless `every` says how many updates
    are between them; the updates have half of the time at least. At most the paper's 100,000 updates, and 200
    passes over the corpus.
    """
    seconds, most = minutes * 60, min(PAPER_UPDATES, MAX_PASSES * updates_per_epoch)
    if every is None:
        validations = max(2, min(VALIDATIONS, int(seconds * SHARE / max(validation, 1e-9)) - AT_THE_END))
        training = max(seconds - (validations + AT_THE_END) * validation, seconds / 2)
        updates = max(1, int(min(most, speed * training)))
    else:
        training = max(seconds - AT_THE_END * validation, seconds / 2)
        updates = max(1, int(min(most, training / (1 / speed + validation / every))))
        validations = updates // every
    return updates, validations, (validations + AT_THE_END) * validation


def seconds_of_validation(model: Model, recipe: Recipe, data: PreparedData, world: World) -> float:
    """The duration of a validation, from the translation of a sample, without the losses, which take little.

    The model is untrained, and ends few translations. They end after as many tokens as the references have on
    average, as those of a trained model do.
    """
    native, threads = is_cpu(world.device) and recipe.training.native, torch.get_num_threads()
    translator = Translator.from_model(model, data.tokenizers, workers=threads, native=native)
    target_tokens = round(float(data.valid.lengths()[1].mean())) + 1
    settings = SearchSettings(beam_size=1, max_length=target_tokens)
    seconds = seconds_to_translate(translator, data.valid_source, settings)
    model.train()
    return seconds / world.size


def seconds_to_translate(translator: Translator, lines: Sequence[str], settings: SearchSettings) -> float:
    """The duration of the translation of lines, from that of a sample."""
    sample = lines[:: math.ceil(len(lines) / SAMPLE)]
    with warnings.catch_warnings():  # the lines are translated again, and then it is said what they are
        warnings.simplefilter("ignore")
        # Waits for the compiler, for which a few sentences alone do not wait, and prepares the weights.
        translator.translate(sample, settings)
        started = time.monotonic()
        translator.translate(sample, settings)
    return (time.monotonic() - started) * len(lines) / len(sample)

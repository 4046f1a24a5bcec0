"""The training of a served run, for its inspections."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.training.curves import Training

logger = logging.getLogger(__name__)


def training_of(folder: Path | None, name: str, *, show_samples: bool) -> "Training | None":
    """What the log of a run says now, its samples only if they may be shown; None for a model folder.

    Samples are sentences of the run's validation data, and anybody may ask a server for an inspection.

    A recipe or log that cannot be read gives None, too: its message names a path, so it goes to the server's
    log and not to a client.
    """
    from dragoman.training import curves

    if folder is None:
        return None
    try:
        training = curves.training_of(folder)
    except (DragomanError, OSError) as error:
        logger.warning("An inspection of %s is without its training: %s", name, error)
        return None
    if training is None or show_samples or not training.samples:
        return training
    return replace(training, samples=None)

"""The training of a served run, for its inspections."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.training.curves import Training

logger = logging.getLogger(__name__)


def training_of(folder: Path | None, name: str) -> "Training | None":
    """What the log of a run says now; None for a model folder.

    A recipe or log that cannot be read gives None, too: its message names a path, so it goes to the server's
    log and not to a client.
    """
    from dragoman.training import curves

    if folder is None:
        return None
    try:
        return curves.training_of(folder)
    except (DragomanError, OSError) as error:
        logger.warning("An inspection of %s is without its training: %s", name, error)
        return None

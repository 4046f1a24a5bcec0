"""The training of a served run, for its inspections."""

import logging
from typing import TYPE_CHECKING

from dragoman.serving.models import ServedModel
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.training.curves import Training

logger = logging.getLogger(__name__)


def training_of(model: ServedModel) -> "Training | None":
    """What the log of the run says now; None for a model folder.

    A recipe or log that cannot be read gives None, too: its message names a path, so it goes to the server's
    log and not to a client.
    """
    from dragoman.training import curves

    if model.folder is None:
        return None
    try:
        return curves.training_of(model.folder)
    except (DragomanError, OSError) as error:
        logger.warning("An inspection of %s is without its training: %s", model.name, error)
        return None

"""The views that are described once for the picture and the page."""

from typing import Any

from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attribution import attribution
from dragoman.inspection.views.heat_maps import description
from dragoman.inspection.views.masks import masks
from dragoman.inspection.views.value_zeroing import value_zeroing

VIEWS = (attribution, value_zeroing, masks)


def descriptions(inspection: Record) -> dict[str, Any]:
    """By name, the views of what the inspection has."""
    views = [view for make in VIEWS if (view := make(inspection)) is not None]
    return {view.name: description(view) for view in views}

"""The views that are described once for the picture and the page."""

from typing import Any

from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attribution import attribution_view
from dragoman.inspection.views.heat_maps import description
from dragoman.inspection.views.masks import masks_view
from dragoman.inspection.views.value_zeroing import value_zeroing_view

VIEWS = (attribution_view, value_zeroing_view, masks_view)


def descriptions(inspection: Record) -> dict[str, Any]:
    """By name, the views of what the inspection has."""
    views = [view for make in VIEWS if (view := make(inspection)) is not None]
    return {view.name: description(view) for view in views}

"""Views of heat maps: what such a view shows, described once; its picture, and its description for the page.

`views/masks.py` and its like describe a view. `picture` draws it as SVG; `page/heat_view.js` draws it on the
page, from `description` and the arrays of the inspection's JSON. This module imports no torch.

Shapes: Q rows and K columns, without padding.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dragoman.inspection.views.drawing import Drawing, Shade, decimal, diverging, sequential, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import SHARE_TICKS, draw_cells, finished

Scale = Literal["share", "size", "signed", "mask"]
"""What numbers are: shares from 0 to 1; sizes from 0, or of both signs, to the greatest of all that are shown
together; or allowed, 1, and not allowed, 0."""


@dataclass(frozen=True)
class Axis:
    """What the rows or the columns of a heat map are."""

    names: str
    """The key of their names in `HeatView.names`."""
    word: str
    """What one of them is, in a word: "query"."""
    title: str
    """The same in a phrase: "query: source token"."""


@dataclass(frozen=True)
class Measure:
    """What the numbers of a heat map are."""

    scale: Scale
    quantity: str = ""
    unit: str = ""
    legend: str = ""
    """The quantity with its unit, or with what it sums to."""
    about: str = ""
    """Sentences about the numbers."""
    words: tuple[str, ...] = ()
    """What 0 and 1 of a mask mean."""


@dataclass(frozen=True)
class HeatMap:
    """A matrix with its words."""

    heading: str
    table: str
    """What the table of its numbers is called."""
    rows: Axis
    columns: Axis
    measure: Measure
    values: npt.NDArray[Any]
    """[Q K], or with `HeatView.padding` more rows and columns."""
    data: tuple[str | int, ...]
    """Where `schema.to_json` has the values: the keys of an array, and places on its first axes."""
    first_column: int = 0
    """That of the values in the array."""
    chosen: tuple[str, ...] = ()
    """The option of each of the view's choices that shows this map."""


@dataclass(frozen=True)
class HeatView:
    """One or several heat maps under one name. Those with the same options are shown together."""

    name: str
    about: str
    """Sentences about all maps."""
    names: Mapping[str, Sequence[str]]
    """Names of rows and columns: tokens by what they are, such as "source"."""
    maps: Sequence[HeatMap]
    choices: tuple[str, ...] = ()
    """Their labels. The options of a choice are those of the maps that have the options before it."""
    first: tuple[str, ...] = ()
    """The options that are chosen at first."""
    padding: int = 0
    """Rows and columns of padding that follow the tokens. A picture has the first."""


def description(view: HeatView) -> dict[str, Any]:
    """The view for the page, without its numbers, which the page has."""
    maps = []
    for heat_map in view.maps:
        parts = {part: vars(getattr(heat_map, part)) for part in ("rows", "columns", "measure")}
        maps.append({**vars(heat_map), **parts})
        del maps[-1]["values"]
    return {**vars(view), "maps": maps}


def picture(
    view: HeatView, title: str, about: str, chosen: tuple[str, ...] = (), window: Window | None = None
) -> str:
    """SVG of the maps with these options, one below the other. `about` is a sentence for screen readers."""
    maps = [heat_map for heat_map in view.maps if heat_map.chosen == chosen]
    drawing = Drawing(re.sub(r"\W+", "-", "-".join([view.name, *chosen]).lower()), title, about)
    most = max(float(np.abs(heat_map.values).max(initial=0)) for heat_map in maps) or 1.0
    notes = [view.about, maps[0].measure.about]
    for heat_map in maps:
        if len(maps) > 1:
            drawing.text(16, drawing.height + 34, heat_map.heading, 13, bold=True)
        rows, row_places, row_note = drawn(view, heat_map.rows, window)
        columns, column_places, column_note = drawn(view, heat_map.columns, window)
        draw_map(drawing, heat_map, heat_map.values[np.ix_(row_places, column_places)], rows, columns, most)
        notes += [row_note, column_note]
    draw_legend(drawing, maps[0].measure, most)
    return finished(drawing, list(dict.fromkeys(notes)))


def drawn(view: HeatView, axis: Axis, window: Window | None) -> tuple[list[str], list[int], str]:
    """The labels and the places of what is drawn of an axis, and a sentence if it has more tokens."""
    tokens = view.names[axis.names]
    labels, note = tokens_in(tokens, axis.names, window)
    places = [*range(len(tokens))[in_window(len(tokens), window)]]
    if view.padding:
        return [*labels, "padding"], [*places, len(tokens)], note
    return labels, places, note


def draw_map(
    drawing: Drawing,
    heat_map: HeatMap,
    values: npt.NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    most: float,
) -> None:
    """Draw these values of a map, with their labels, below what is drawn. `most` ends the scale."""
    measure, y = heat_map.measure, drawing.height
    left, top = 44 + widest(rows), y + 40 + 0.87 * widest(columns)  # turned by 60°, whose sine is 0.87
    row, column = (axis.title.partition(":")[0] for axis in (heat_map.rows, heat_map.columns))

    def title(query: int, key: int) -> str:
        number = number_with_unit(measure, float(values[query, key]))
        return f"{row}: {rows[query]}\n{column}: {columns[key]}\n{number}"

    drawing.text(16, y + 20, f"columns — {heat_map.columns.title}", css="fill-faint")
    css = "stroke-line" if measure.scale == "mask" else "scores"
    draw_cells(drawing, values, rows, columns, shades(measure.scale, most), title, left, top, css)
    drawing.text(16, drawing.height + 20, f"rows — {heat_map.rows.title}", css="fill-faint")


def shades(scale: Scale, most: float) -> Callable[[float], Shade]:
    """The shade of each number."""
    if scale in ("share", "mask"):
        return sequential
    return lambda value: (diverging if scale == "signed" else sequential)(value / most)


def number_with_unit(measure: Measure, value: float) -> str:
    """A number with its quantity and unit; in a mask, what it means."""
    if measure.scale == "mask":
        return measure.words[value > 0]
    number = decimal(value, 3, "+" if measure.scale == "signed" else "")
    return f"{measure.quantity}: {number} {measure.unit}".rstrip()


def draw_legend(drawing: Drawing, measure: Measure, most: float) -> None:
    """Draw what the colours mean below what is drawn."""
    y = drawing.height + 24
    if measure.scale == "mask":
        for row, value in enumerate((1, 0)):
            drawing.rectangle(
                16, y + row * 24, 16, 16, f"{('fill-zero', 'fill-positive')[value]} stroke-line"
            )
            drawing.text(42, y + row * 24 + 13, measure.words[value], css="fill-faint")
        return
    ticks = {
        "share": SHARE_TICKS,
        "size": [(0.0, "0"), (1.0, f"{most:.2f}")],
        "signed": [(-1.0, f"−{most:.2f}"), (0.0, "0"), (1.0, f"+{most:.2f}")],
    }[measure.scale]
    drawing.legend(16, y, measure.legend, shades(measure.scale, 1.0), ticks)

"""Views of heat maps: what such a view shows, described once; its picture, and its description for the page.

`views/masks.py` and its like describe a view. `picture` draws it as SVG; `page/heat_view.js` draws it on the
page, from `description` and the arrays of the inspection's JSON. This module imports no torch.

Shapes: Q rows and K columns, without padding.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dragoman.inspection.views.drawing import Drawing, Shade, decimal, diverging, sequential, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import SHARE_TICKS, finished, label_axes

Scale = Literal["share", "size", "signed", "mask"]
"""What numbers are: shares from 0 to 1; sizes from 0, or of both signs, to the greatest of all that are shown
together; or allowed, 1, and not allowed, 0."""
PAD = "padding"
UNTURNED = 0.87  # the labels of columns are turned by 60°, whose sine is 0.87


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

    quantity: str
    legend: str
    """The quantity with its unit, or with what it sums to."""
    scale: Scale
    about: str = ""
    """Sentences about them."""
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
    title: str
    about: str
    """Sentences about all maps."""
    names: dict[str, Sequence[str]]
    """Names of rows and columns: tokens by what they are, such as "source"."""
    maps: Sequence[HeatMap]
    choices: tuple[str, ...] = ()
    """Their labels. The options of a choice are those of the maps that have the options before it."""
    first: tuple[str, ...] = ()
    """The options that are chosen at first."""
    padding: int = 0
    """Rows and columns of padding that follow the tokens."""

    def shown(self, chosen: tuple[str, ...]) -> list[HeatMap]:
        """The maps with these options."""
        return [heat_map for heat_map in self.maps if heat_map.chosen == chosen]


def description(view: HeatView) -> dict[str, Any]:
    """The view for the page, without its numbers, which the page has."""
    parts = ("rows", "columns", "measure")
    maps = []
    for heat_map in view.maps:
        table = {**vars(heat_map), **{part: vars(getattr(heat_map, part)) for part in parts}}
        del table["values"]
        maps.append(table)
    return {**vars(view), "maps": maps}


def picture(
    view: HeatView,
    title: str,
    description: str,
    chosen: tuple[str, ...] = (),
    window: Window | None = None,
) -> str:
    """SVG of the maps with these options, one below the other."""
    maps = view.shown(chosen)
    drawing = Drawing(re.sub(r"\W+", "-", "-".join([view.name, *chosen]).lower()), title, description)
    most = max(float(np.abs(heat_map.values).max(initial=0)) for heat_map in maps) or 1.0
    side_notes: list[str] = []
    for heat_map in maps:
        if len(maps) > 1:
            drawing.text(16, drawing.height + 34, heat_map.heading, 13, bold=True)
        axes = heat_map.rows, heat_map.columns
        (rows, row_note), (columns, column_note) = (
            tokens_in(view.names[axis.names], axis.names, window) for axis in axes
        )
        side_notes += [row_note, column_note]
        places = [drawn_places(view, axis, window) for axis in axes]
        padding = [PAD] if view.padding else []
        draw_map(drawing, heat_map, [*rows, *padding], [*columns, *padding], places, most)
    draw_legend(drawing, maps[0].measure, most)
    abouts = dict.fromkeys([view.about, maps[0].measure.about, *side_notes])
    return finished(drawing, list(abouts))


def drawn_places(view: HeatView, axis: Axis, window: Window | None) -> list[int]:
    """The places of the tokens that are drawn, and that of the first padding."""
    count = len(view.names[axis.names])
    drawn = in_window(count, window)
    return [*range(drawn.start, drawn.stop), *([count] if view.padding else [])]


def draw_map(
    drawing: Drawing,
    heat_map: HeatMap,
    rows: Sequence[str],
    columns: Sequence[str],
    places: Sequence[Sequence[int]],
    most: float,
) -> None:
    """Draw these places of a map below what is drawn, with their labels; `most` ends the scale."""
    measure, y = heat_map.measure, drawing.height
    values = heat_map.values[np.ix_(*places)]
    left, top = 44 + widest(rows), y + 40 + UNTURNED * widest(columns)
    drawing.text(16, y + 20, f"columns — {heat_map.columns.title}", css="fill-faint")
    row_word, column_word = heat_map.rows.title.partition(":")[0], heat_map.columns.title.partition(":")[0]

    def title(row: int, column: int) -> str:
        number = in_words(measure, float(values[row, column]))
        return f"{row_word}: {rows[row]}\n{column_word}: {columns[column]}\n{number}"

    shade = scale_of(measure.scale, most)
    css = "stroke-line" if measure.scale == "mask" else "scores"
    draw_cells(drawing, values, rows, columns, shade, title, left, top, css)
    drawing.text(16, drawing.height + 20, f"rows — {heat_map.rows.title}", css="fill-faint")


def draw_cells(
    drawing: Drawing,
    values: npt.NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    shade_of: Callable[[float], Shade],
    title_of: Callable[[int, int], str],
    left: float,
    top: float,
    css: str,
) -> float:
    """Draw a matrix with the labels of its rows and columns. Returns the size of a cell."""
    cell = 24 if max(values.shape) <= 30 else 16
    label_axes(drawing, rows, columns, left, top, cell)
    drawing.rectangle(left, top, cell * len(columns), cell * len(rows), "fill-zero stroke-line")
    with drawing.group(f"cells {css}"):
        for row in range(len(rows)):
            for column in range(len(columns)):
                shade, x, y = shade_of(float(values[row, column])), left + column * cell, top + row * cell
                drawing.rectangle(x, y, cell, cell, shade.css, title_of(row, column), opacity=shade.opacity)
    return cell


def scale_of(scale: Scale, most: float) -> Callable[[float], Shade]:
    """The shade of a number."""
    if scale in ("share", "mask"):
        return sequential
    return lambda value: (diverging if scale == "signed" else sequential)(value / most)


def in_words(measure: Measure, value: float) -> str:
    """A number with its quantity and unit."""
    if measure.scale == "mask":
        return measure.words[value > 0]
    unit = measure.legend.removeprefix(measure.quantity).removeprefix(", ")
    number = decimal(value, 3, "+" if measure.scale == "signed" else "")
    return f"{measure.quantity}: {number}{f' {unit}' if unit and '(' not in unit else ''}"


def draw_legend(drawing: Drawing, measure: Measure, most: float) -> None:
    """Draw what the colours mean below what is drawn."""
    y = drawing.height + 24
    if measure.scale == "mask":
        for row, words in enumerate(reversed(measure.words)):
            css = ("fill-positive", "fill-zero")[row]
            drawing.rectangle(16, y + row * 24, 16, 16, f"{css} stroke-line")
            drawing.text(42, y + row * 24 + 13, words, css="fill-faint")
        return
    ticks = {
        "share": SHARE_TICKS,
        "size": [(0.0, "0"), (1.0, f"{most:.2f}")],
        "signed": [(-1.0, f"−{most:.2f}"), (0.0, "0"), (1.0, f"+{most:.2f}")],
    }[measure.scale]
    drawing.legend(16, y, measure.legend, scale_of(measure.scale, 1.0), ticks)

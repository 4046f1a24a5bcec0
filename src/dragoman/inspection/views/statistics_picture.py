"""The picture of the statistics of heads: a row for each head, a column for each statistic."""

from dragoman.inspection.analyse.statistics import statistics
from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.drawing import Drawing, sequential
from dragoman.inspection.views.layout import SHARE_TICKS, finished, sentences
from dragoman.system.errors import DragomanError

CELL_WIDTH, CELL_HEIGHT = 98.0, 22.0  # pixels
COLUMNS = {
    "entropy": ("entropy", "nats"),
    "distance": ("mean distance", "tokens"),
    "previous": ("previous position", "share"),
    "same": ("same position", "share"),
    "next": ("next position", "share"),
    "edge": ("END", "share"),
    "punctuation": ("punctuation", "share"),
    "alignment": ("alignment", "share of words"),
}
"""The heading and the unit of each statistic; the heading of `edge` is START in decoder self-attention."""
NOT_SHARES = ("entropy", "distance")  # they can be greater than 1


def statistics_table(inspection: Record, kind: Kind) -> str:
    """SVG of the statistics of all heads of a kind, as numbers in shaded cells.

    The shade is the number, or the share that it is of its column's greatest one if it is not between 0 and
    1. Raises `DragomanError` if the model has no attention of this kind.
    """
    tables = statistics(inspection)[kind]
    layers, heads = tables["entropy"].shape
    if layers == 0:
        raise DragomanError(f"This model has no {kind} self-attention; give --kind cross.")
    drawing = Drawing(
        f"statistics-{kind}",
        f"{KIND_NAMES[kind]}: statistics of {layers * heads} heads",
        f"A row is a head, a column is a mean over the queries of this sentence. {sentences(inspection)}",
    )
    left, top = 118.0, 88.0
    for column, (key, table) in enumerate(tables.items()):
        heading, unit = COLUMNS[key]
        heading = "START" if key == "edge" and kind == "decoder" else heading
        middle = left + (column + 0.5) * CELL_WIDTH
        drawing.text(middle, top - 26, heading, 11, anchor="middle", bold=True)
        drawing.text(middle, top - 10, unit, 11, "fill-faint", "middle")
        greatest = float(table.max()) or 1.0
        for row, value in enumerate(table.flat):
            x, y = left + column * CELL_WIDTH, top + row * CELL_HEIGHT
            shade = sequential(float(value) / greatest if key in NOT_SHARES else float(value))
            drawing.cell(x, y, CELL_WIDTH, CELL_HEIGHT, shade)
            drawing.text(x + CELL_WIDTH / 2, y + 15, f"{value:.3f}", 11, shade.label, "middle")
    for row in range(layers * heads):
        head_name = f"layer {row // heads + 1}, head {row % heads + 1}"
        drawing.text(left - 8, top + row * CELL_HEIGHT + 15, head_name, 11, "fill-faint", "end")
    drawing.legend(
        16, drawing.height + 20, "share of the attention of a query, or of words", sequential, SHARE_TICKS
    )
    notes = [
        "Shares of attention are those on the token at the place before the query's, at its own and after "
        "it, on END or START, and on punctuation.",
        "Entropy and mean distance, |query − key|, are shaded from 0 to the greatest number of their column.",
    ]
    if kind == "cross":
        notes.append(
            "Alignment: the share of linked words of the translation for which the head attends most to the "
            "linked source word."
        )
    if kind == "decoder":
        notes.append(
            "The query's own position is that of the token read last, before the one that it predicts. The "
            "first query has START as its only key, which adds 1 / T to the shares on START and on the same "
            "position."
        )
    return finished(drawing, notes)

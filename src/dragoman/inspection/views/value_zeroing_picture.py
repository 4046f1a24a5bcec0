"""The picture of how much an attention mixes each token into the others."""

from dataclasses import replace

from dragoman.inspection.analyse.value_zeroing import ValueZeroing
from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import AttentionWeights, Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES, draw_heat_map, draw_legend
from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.labels import view
from dragoman.inspection.views.layout import finished, sentences
from dragoman.system.errors import DragomanError

ABOUT = (
    "The cosine distance between the layer's output at the query and this output with the values of the key "
    "set to 0, divided by the sum of the query's distances. Scores compare the keys of one query; they do "
    "not say how much the attention changes the output."
)


def value_zeroing_picture(
    inspection: Record, zeroing: ValueZeroing, kind: Kind = "cross", layer: int | None = None
) -> str:
    """A heat map of the scores of a layer, counted from 1, by default the last.

    Raises `DragomanError` if there is no such layer.
    """
    count = len(zeroing.of(kind))
    if layer is not None and not 1 <= layer <= count:
        side = "encoder" if kind == "encoder" else "decoder"
        raise DragomanError(f"There is no layer {layer}; the {side} has {count}, counted from 1.")
    as_heads = AttentionWeights(*(zeroing.of(use)[:, None] for use in KINDS))
    attention_view = view(replace(inspection, attention=as_heads), kind)
    scores = attention_view.weights[-1 if layer is None else layer - 1, 0]
    drawing = Drawing(
        f"value-zeroing-{kind}",
        f"{KIND_NAMES[kind]}, layer {layer or count}: value zeroing",
        f"Rows: {attention_view.query_axis}. Columns: {attention_view.key_axis}. {sentences(inspection)}",
    )
    draw_heat_map(drawing, attention_view, scores, "score")
    draw_legend(drawing, attention_view, "score (those of a query sum to 1)")
    return finished(drawing, [ABOUT, *attention_view.notes])

"""The view of value zeroing: how much an attention mixes each token into the others."""

from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, picture
from dragoman.inspection.views.layout import sentences
from dragoman.system.errors import DragomanError

SCORE = Measure(
    "score",
    "score (those of a query sum to 1)",
    "share",
    "The cosine distance between the layer's output at the query and this output with the values of the key "
    "set to 0, divided by the sum of the query's distances. Scores compare the keys of one query; they do "
    "not say how much the attention changes the output.",
)


def value_zeroing(inspection: Record) -> HeatView | None:
    """A heat map of the scores for each use of attention and each layer; none if they were not computed."""
    zeroing = inspection.value_zeroing
    if zeroing is None:
        return None
    maps = [
        HeatMap(
            f"{KIND_NAMES[kind]}, layer {layer + 1}",
            "Value zeroing",
            *axes(kind),
            SCORE,
            scores,
            ("value_zeroing", kind, layer),
            chosen=(KIND_NAMES[kind], str(layer + 1)),
        )
        for kind in KINDS
        for layer, scores in enumerate(zeroing.of(kind))
    ]
    return HeatView(
        "value-zeroing",
        "Value zeroing",
        "Each row is a query, each column a key.",
        {
            "source": inspection.source,
            "target": inspection.target,
            "decoder input": inspection.decoder_inputs,
        },
        maps,
        ("Kind of attention", "Layer"),
        maps[-1].chosen,
    )


def axes(kind: Kind) -> tuple[Axis, Axis]:
    """The queries and the keys of a use of attention."""
    rows = Axis("target", "predicts", "query: the position that predicts this target token")
    if kind == "encoder":
        rows = Axis("source", "query", "query: source token")
    if kind == "decoder":
        return rows, Axis("decoder input", "key", "key: target token so far")
    return rows, Axis("source", "key", "key: source token")


def value_zeroing_picture(inspection: Record, kind: Kind = "cross", layer: int | None = None) -> str:
    """The picture of a layer, counted from 1, by default the last.

    Raises `DragomanError` if there is no such layer.
    """
    view = value_zeroing(inspection)
    assert view is not None  # the caller has computed it
    maps = [heat_map for heat_map in view.maps if heat_map.chosen[0] == KIND_NAMES[kind]]
    if layer is not None and not 1 <= layer <= len(maps):
        side = "encoder" if kind == "encoder" else "decoder"
        raise DragomanError(f"There is no layer {layer}; the {side} has {len(maps)}, counted from 1.")
    shown = maps[-1 if layer is None else layer - 1]
    text = f"Rows: {shown.rows.title}. Columns: {shown.columns.title}. {sentences(inspection)}"
    return picture(view, f"{shown.heading}: value zeroing", text, shown.chosen)

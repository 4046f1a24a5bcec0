"""The view of value zeroing: how much an attention mixes each token into the others."""

from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, picture
from dragoman.inspection.views.layout import sentences
from dragoman.system.errors import DragomanError

SCORE = Measure(
    "share",
    "score",
    legend="score (those of a query sum to 1)",
    about="The cosine distance between the layer's output at the query and this output with the values of "
    "the key set to 0, divided by the sum of the query's distances. Scores compare the keys of one query; "
    "they do not say how much the attention changes the output.",
)
SOURCE_KEY = Axis("source", "key", "key: source token")
TARGET_QUERY = Axis("target", "predicts", "query: the position that predicts this target token")
AXES: dict[Kind, tuple[Axis, Axis]] = {
    "encoder": (Axis("source", "query", "query: source token"), SOURCE_KEY),
    "decoder": (TARGET_QUERY, Axis("decoder input", "key", "key: target token so far")),
    "cross": (TARGET_QUERY, SOURCE_KEY),
}


def value_zeroing_view(inspection: Record) -> HeatView | None:
    """A map of the scores for each use of attention and each layer; none if they were not computed."""
    zeroing = inspection.value_zeroing
    if zeroing is None:
        return None
    maps = [
        HeatMap(
            f"{KIND_NAMES[kind]}, layer {layer + 1}",
            "Value zeroing",
            *AXES[kind],
            SCORE,
            scores,
            ("value_zeroing", kind, layer),
            chosen=(KIND_NAMES[kind], str(layer + 1)),
        )
        for kind in KINDS
        for layer, scores in enumerate(zeroing.of(kind))
    ]
    names = {
        "source": inspection.source,
        "target": inspection.target,
        "decoder input": inspection.decoder_inputs,
    }
    about = "Each row is a query, each column a key."
    return HeatView("value-zeroing", about, names, maps, ("Kind of attention", "Layer"), maps[-1].chosen)


def value_zeroing_picture(inspection: Record, kind: Kind = "cross", layer: int | None = None) -> str:
    """The picture of a layer, counted from 1, by default the last.

    Raises `DragomanError` if there is no such layer.
    """
    view = value_zeroing_view(inspection)
    assert view is not None  # the caller has computed it
    maps = [heat_map for heat_map in view.maps if heat_map.chosen[0] == KIND_NAMES[kind]]
    if layer is not None and not 1 <= layer <= len(maps):
        side = "encoder" if kind == "encoder" else "decoder"
        raise DragomanError(f"There is no layer {layer}; the {side} has {len(maps)}, counted from 1.")
    drawn = maps[-1 if layer is None else layer - 1]
    about = f"Rows: {drawn.rows.title}. Columns: {drawn.columns.title}. {sentences(inspection)}"
    return picture(view, f"{drawn.heading}: value zeroing", about, drawn.chosen)

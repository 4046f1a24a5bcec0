"""Pictures of a ConvS2S: its architecture; the other views are those of a Transformer.

Shapes: S source and T target tokens.
"""

from dragoman.inspection.record.record import Record
from dragoman.inspection.views.architecture import Box, LayerColumn, draw_architecture
from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.layout import finished
from dragoman.inspection.views.recurrent_pictures import embedding_box, own
from dragoman.model.convolutional import DISTANCES
from dragoman.system.errors import DragomanError

LACKING = {
    "encoder": "no self-attention",
    "decoder": "no self-attention",
    "masks": "no self-attention, and so no mask but that of padding",
    "numbers": "no heads of scaled dot-product attention",
    "neurons": "no feed-forward sub-layers",
}
"""What the views show that a ConvS2S does not have."""


def check_view(view: str) -> None:
    """Raise `DragomanError` for a view of what a ConvS2S does not have."""
    if view in LACKING:
        raise DragomanError(
            f"This model is a ConvS2S, which has {LACKING[view]}; ask for beam, cross, alignment, "
            "statistics, positions, distances, stream, lens or model."
        )


def architecture(inspection: Record) -> str:
    """The encoder and the decoder with attention in each layer, with shapes and numbers of parameters."""
    drawing = Drawing(
        "architecture",
        "The ConvS2S of this model",
        "Gated convolutions in the encoder on the left and the decoder on the right, and attention in every "
        "layer of the decoder (Gehring et al. 2017).",
    )
    decoder = decoder_column(inspection)
    draw_architecture(drawing, encoder_column(inspection), decoder, decoder.first + 1)
    return finished(
        drawing,
        [
            f"In this call S = {len(inspection.source)} source and T = {len(inspection.target)} target "
            f"tokens; d_model = {inspection.model.d_model}; V is the size of the target vocabulary. "
            "Parameters in a frame are those of one layer.",
            "Keys are the encoder's output; values are √(S / 2) times its sum with the embedded source. "
            "A query is √0.5 times the sum of the embedded target and a map of the convolution's output.",
        ],
    )


def encoder_column(inspection: Record) -> LayerColumn:
    """Embedding, positions, a linear map, the layer, and a linear map."""
    start = input_boxes(inspection, "source", "S")
    layer = [
        convolution_box(inspection, "encoder", "S"),
        sum_box("S", 1),
    ]
    end = linear_box(inspection, "encoder_output", "S")
    last = len(start) + len(layer) - 1
    return LayerColumn([*start, *layer, end], len(start), last, inspection.model.encoder_layers)


def decoder_column(inspection: Record) -> LayerColumn:
    """Embedding, positions, a linear map, the layer, a linear map, logits and softmax."""
    model = inspection.model
    start = input_boxes(inspection, "target", "T")
    details = "one head, not scaled", own(inspection, "decoder.0.attention")
    layer = [
        convolution_box(inspection, "decoder", "T"),
        Box("Attention", details, "[T, d_model]", "fill-zero"),
        sum_box("T", 1),
        sum_box("T", 3),
    ]
    matrix = own(inspection, "output") if model.tied == "none" else "the target embedding's matrix"
    end = [
        linear_box(inspection, "decoder_output", "T"),
        Box("Linear", (matrix,), "[T, V]", "fill-box"),
        Box("Softmax", (), "[T, V] probabilities of the next token", "fill-box"),
    ]
    last = len(start) + len(layer) - 1
    return LayerColumn([*start, *layer, *end], len(start), last, model.decoder_layers)


def input_boxes(inspection: Record, side: str, length: str) -> list[Box]:
    """Embedding, positions and the linear map before the first layer."""
    kind = inspection.model.positions
    count = [own(inspection, f"{side}_positions")] if kind == "learned" else ["times 0.1"]
    positions = Box("Add positions", (kind, *count), f"[{length}, d_model]", "fill-box")
    into = linear_box(inspection, "encoder_input" if side == "source" else "decoder_input", length)
    return [embedding_box(inspection, side, length), *[positions] * (kind != "none"), into]


def linear_box(inspection: Record, module: str, length: str) -> Box:
    """A linear map with a bias."""
    return Box("Linear", (own(inspection, module),), f"[{length}, d_model]", "fill-box")


def sum_box(length: str, adds_input_of: int) -> Box:
    """A residual sum, which is scaled."""
    return Box("Add, times √0.5", (), f"[{length}, d_model]", "fill-box", adds_input_of)


def convolution_box(inspection: Record, side: str, length: str) -> Box:
    """A convolution with its gated linear unit."""
    model = inspection.model
    causal = ", causal" if side == "decoder" else ""
    layers = model.encoder_layers if side == "encoder" else model.decoder_layers
    details = [f"kernel of {model.kernel_width}{causal}", own(inspection, f"{side}.0.convolution")]
    if model.dilated:
        details.insert(1, f"steps of {distances(layers)}")
    return Box("Convolution with GLU", tuple(details), f"[{length}, d_model]", "fill-zero")


def distances(layers: int) -> str:
    """The steps between the inputs of the kernels, layer by layer: `1, 2, 4, …`."""
    steps = ", ".join(str(step) for step in DISTANCES[:layers])
    return f"{steps}, …" if layers > len(DISTANCES) else steps

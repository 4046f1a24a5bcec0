"""The view of what each token contributes to each target token."""

from dataclasses import replace

import numpy as np

from dragoman.inspection.analyse.attribution import Attribution
from dragoman.inspection.analyse.methods import UNSIGNED, Method
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, picture
from dragoman.inspection.views.layout import sentences

NAMES: dict[Method, str] = {
    "integrated-gradients": "integrated gradients",
    "gradient-input": "gradient × input",
    "saliency": "saliency",
    "occlusion": "occlusion",
    "sequential-integrated-gradients": "sequential integrated gradients",
    "discretized-integrated-gradients": "discretized integrated gradients",
    "gradient-shap": "gradient SHAP",
    "deeplift": "DeepLIFT",
    "lime": "LIME",
    "reagent": "ReAGent",
}
UNITS: dict[Method, str] = {
    "saliency": "norm of the gradient, nats per unit",
    "reagent": "share of importance, of 1",
}
CONTRIBUTION = "contribution, nats"
EMBEDDINGS = "embeddings"
TARGET = Axis("target", "target", "target: token of the translation")
SOURCE = Axis("source", "source", "source: token of the sentence")
PREFIX = Axis(
    "earlier target",
    "earlier target token",
    "earlier target token: token that the decoder reads, START first",
)

ABOUT_CONTRAST = (
    " Each row is a contrast, token≠other token: the log-probability of the target token minus that of the "
    "other token after the same tokens."
)


def attribution_view(inspection: Record) -> HeatView | None:
    """A row for each target token, a column for each source token, and in a second heat map, if they are
    attributed, for each token that the decoder reads. None without attribution.
    """
    attribution = inspection.attribution
    if attribution is None:
        return None
    target = attribution.target
    if attribution.other:
        pairs = zip(target, attribution.other, strict=True)
        target = tuple(f"{token}≠{other}" for token, other in pairs)
    maps = []
    for method in NAMES:
        if method in attribution.contributions:
            layers = attribution.layers if method == "gradient-input" else ()
            inputs = (EMBEDDINGS,) if len(layers) else ()
            maps += heat_maps(attribution, method, attribution.of(method), (method,), inputs)
            for place, values in enumerate(layers):
                layer = place + 1
                at_layer, inputs = replace(attribution, layer=layer), (layer_output(layer),)
                maps += heat_maps(at_layer, method, values, ("layers", place), inputs)
    return HeatView(
        "attribution",
        "Each row is a token of the translation; each column is a token that the model reads."
        + (ABOUT_CONTRAST if attribution.other else ""),
        {SOURCE.names: attribution.source, TARGET.names: target, PREFIX.names: attribution.prefix},
        maps,
        ("Method", "Input"),
        (maps[0].chosen[0], EMBEDDINGS),
    )


def heat_maps(
    attribution: Attribution,
    method: Method,
    values: Array,
    data: tuple[str | int, ...],
    inputs: tuple[str, ...],
) -> list[HeatMap]:
    """The map of the source tokens, and that of the tokens that the decoder reads if [T C] has them."""
    quantity, unit = UNITS.get(method, CONTRIBUTION).split(", ")
    measure = Measure(
        "size" if method in UNSIGNED else "signed",
        quantity,
        unit,
        f"{quantity}, {unit}",
        note_about(attribution, method),
    )
    sources = len(attribution.source)
    sides = ("Source", "source", SOURCE, 0), ("Earlier target", "target", PREFIX, sources)
    return [
        HeatMap(
            f"{heading} tokens",
            f"Contributions of {side} tokens",
            TARGET,
            columns,
            measure,
            part,
            ("attribution", *data),
            first,
            (option(method), *inputs),
        )
        for (heading, side, columns, first), part in zip(sides, np.split(values, [sources], 1), strict=True)
        if part.size
    ]


def option(method: Method) -> str:
    """The method's name as an option."""
    return f"{NAMES[method][0].upper()}{NAMES[method][1:]}"


def layer_output(layer: int) -> str:
    """The name of this input, as an option and in a title."""
    return f"output of encoder layer {layer}"


def attribution_picture(inspection: Record, method: Method = "integrated-gradients") -> str:
    """The picture of a method: both heat maps, one below the other."""
    view, attribution = attribution_view(inspection), inspection.attribution
    assert view is not None  # the caller has computed it
    assert attribution is not None
    chosen = next(heat_map.chosen for heat_map in view.maps if heat_map.chosen[0] == option(method))
    what = "each token contributes to each target token"
    if attribution.other:
        what = "makes each target token likelier than another"
    where = f" at the {layer_output(attribution.layer)}" if attribution.layer else ""
    about = (
        f"What the source tokens{' and the earlier target tokens' if attribution.prefix else ''} (columns) "
        f"contribute to {'the contrast' if attribution.other else 'the log-probability'} of each target "
        f"token (rows). {sentences(inspection)}"
    )
    return picture(view, f"What {what}: {NAMES[method]}{where}", about, chosen)


def note_about(attribution: Attribution, method: Method) -> str:
    """What the numbers of a method are."""
    what = "this difference" if attribution.other else "the token's log-probability"
    input_name, baseline_name = "embedding", "an embedding of 0"
    if attribution.layer is not None:
        input_name, baseline_name = "output of the layer", "the output of the layer for embeddings of 0"
    tokens = "embeddings" if attribution.prefix else "source embeddings"
    notes: dict[Method, str] = {
        "integrated-gradients": f"The sum of a row is {what} minus that with {tokens} of 0.",
        "gradient-input": f"The gradient of {what} times the {input_name}, summed over its features.",
        "saliency": f"The norm of the gradient of {what} with respect to the {input_name}; it has no sign.",
        "occlusion": f"{what.capitalize()} minus that with {baseline_name} in place of one token's.",
        "sequential-integrated-gradients": f"Integrated gradients of each token alone: {what} minus "
        f"that with {baseline_name} in place of its own.",
        "discretized-integrated-gradients": "Integrated on a path from token to token in the space of "
        "embeddings, in place of a straight line from embeddings of 0. The sum of a row may be far from "
        "the difference of log-probabilities.",
        "gradient-shap": f"The sum of a row is {what} minus its mean over sentences of random tokens, but "
        "for the error of the integrals, which can exceed 1 nat. The random tokens depend on a seed.",
        "deeplift": "DeepLIFT's rescale rule in the feed-forward sub-layers; other functions have their "
        "gradients at the input, so a row does not sum to the difference of log-probabilities.",
        "lime": f"The weights of a linear model that predicts {what} from which tokens have {baseline_name}.",
        "reagent": "The shares of a row sum to 1, even if the target token does not depend on these tokens: "
        "the importance by random replacements. Shares near 1 / number of tokens may be chance.",
    }
    note = notes[method]
    if method == "integrated-gradients":
        gap = attribution.log_probabilities - attribution.baseline - attribution.of(method).sum(1)
        note += f" The largest error of a sum is {float(np.abs(gap).max()):.1g} nats."
    return note

"""The view of what each token contributes to each target token."""

from dataclasses import replace

import numpy as np

from dragoman.inspection.analyse.attribution import Attribution
from dragoman.inspection.analyse.methods import UNSIGNED, Method
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, Scale, picture
from dragoman.inspection.views.layout import sentences

NAMES: dict[Method, str] = {
    "integrated-gradients": "Integrated gradients",
    "gradient-input": "Gradient × input",
    "saliency": "Saliency",
    "occlusion": "Occlusion",
    "sequential-integrated-gradients": "Sequential integrated gradients",
    "discretized-integrated-gradients": "Discretized integrated gradients",
    "gradient-shap": "Gradient SHAP",
    "deeplift": "DeepLIFT",
    "lime": "LIME",
    "reagent": "ReAGent",
}
UNITS: dict[Method, str] = {
    "saliency": "norm of the gradient, nats per unit",
    "reagent": "share of importance, of 1",
}
EMBEDDINGS = "embeddings"
SOURCE, PREFIX = "source", "earlier target"

ABOUT_CONTRAST = (
    "Each row is a contrast, token≠other token: the log-probability of the target token minus that of the "
    "other token after the same tokens."
)


def attribution(inspection: Record) -> HeatView | None:
    """A row for each target token, a column for each source token, and in a second heat map, if they are
    attributed, for each token that the decoder reads. None without attribution.
    """
    found = inspection.attribution
    if found is None:
        return None
    target = found.target
    if found.other:
        target = tuple(f"{token}≠{other}" for token, other in zip(found.target, found.other, strict=True))
    maps = []
    for method, name in NAMES.items():
        if method in found.contributions:
            inputs = (EMBEDDINGS,) if method == "gradient-input" and len(found.layers) else ()
            maps += heat_maps(found, found.of(method), measure(found, method), (method,), (name, *inputs))
            for place, values in enumerate(found.layers if inputs else ()):
                layer = measure(replace(found, layer=place + 1), method)
                chosen = name, f"output of encoder layer {place + 1}"
                maps += heat_maps(found, values, layer, ("layers", place), chosen)
    return HeatView(
        "attribution",
        "Attribution",
        "Each row is a token of the translation; each column is a token that the model reads."
        + (f" {ABOUT_CONTRAST}" if found.other else ""),
        {SOURCE: found.source, "target": target, PREFIX: found.prefix},
        maps,
        ("Method", "Input"),
        (maps[0].chosen[0], EMBEDDINGS),
    )


def heat_maps(
    found: Attribution,
    values: Array,
    numbers: Measure,
    data: tuple[str | int, ...],
    chosen: tuple[str, ...],
) -> list[HeatMap]:
    """The map of the source tokens, and that of the tokens that the decoder reads if [T C] has them."""
    rows, sources = Axis("target", "target", "target: token of the translation"), len(found.source)
    maps = [
        HeatMap(
            "Source tokens",
            "Contributions of source tokens",
            rows,
            Axis(SOURCE, "source", "source: token of the sentence"),
            numbers,
            values[:, :sources],
            ("attribution", *data),
            chosen=chosen,
        )
    ]
    if values.shape[1] > sources:
        title = "earlier target token: token that the decoder reads, START first"
        prefix = HeatMap(
            "Earlier target tokens",
            "Contributions of target tokens",
            rows,
            Axis(PREFIX, "earlier target token", title),
            numbers,
            values[:, sources:],
            ("attribution", *data),
            sources,
            chosen,
        )
        maps.append(prefix)
    return maps


def measure(found: Attribution, method: Method) -> Measure:
    """What the numbers of a method are."""
    unit = UNITS.get(method, "contribution, nats")
    scale: Scale = "size" if method in UNSIGNED else "signed"
    return Measure(unit.partition(",")[0], unit, scale, note_about(found, method))


def attribution_picture(inspection: Record, method: Method = "integrated-gradients") -> str:
    """The picture of a method: both heat maps, one below the other."""
    view, found = attribution(inspection), inspection.attribution
    assert view is not None  # the caller has computed it
    assert found is not None
    name = NAMES[method]
    (chosen, *_) = (heat_map.chosen for heat_map in view.maps if heat_map.chosen[0] == name)
    what = "each token contributes to each target token"
    if found.other:
        what = "makes each target token likelier than another"
    lower = name if name in ("LIME", "DeepLIFT", "ReAGent") else f"{name[0].lower()}{name[1:]}"
    where = f" at the output of encoder layer {found.layer}" if found.layer else ""
    text = (
        f"What the source tokens{' and the earlier target tokens' if found.prefix else ''} (columns) "
        f"contribute to {'the contrast' if found.other else 'the log-probability'} of each target token "
        f"(rows). {sentences(inspection)}"
    )
    return picture(view, f"What {what}: {lower}{where}", text, chosen)


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

"""What each token that the model reads contributes to each target token.

From gradients: their norms (saliency, Simonyan et al. 2014), gradient × input, and integrals of gradients on
paths to the input from embeddings of 0 or of random tokens (path_attribution.py). From forced decoding with
other inputs: occlusion and others (perturbation_attribution.py). Positions are added in all cases.

In a contrast, log P of a target token minus log P of another token after the same tokens is attributed (Yin
and Neubig 2022).

Shapes: S source and T target tokens, C attributed tokens, L encoder layers, D = d_model. C is S, or S + T
with the tokens that the decoder reads.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.inspection.analyse.attributed import (
    Attributed,
    differentiable,
    encoder_layers,
    of_embeddings,
    of_layer,
)
from dragoman.inspection.analyse.methods import DEFAULT_METHODS, OF_TOKENS, Method
from dragoman.inspection.analyse.path_attribution import (
    STEPS,
    deeplift,
    discretized_integrated_gradients,
    gradient_shap,
    integrated_gradients,
    no_progress,
    sequential_integrated_gradients,
)
from dragoman.inspection.analyse.perturbation_attribution import lime, occlusion, reagent
from dragoman.inspection.record.inspected import first_token, is_blank, one_model
from dragoman.inspection.record.record import Array
from dragoman.inspection.record.recording import as_array
from dragoman.model.symbols import PAD, START
from dragoman.system.errors import DragomanError
from dragoman.system.wording import counted
from dragoman.translation.analysis import forced_batches
from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class Attribution:
    """Contributions of tokens to the log-probabilities of target tokens."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    prefix: tuple[str, ...]
    """The tokens that the decoder reads, START first, if they are attributed; else empty. A target token has
    contributions of those before it; the others are 0."""
    contributions: dict[Method, Array]
    """By each method that was asked for [T C], in nats; of saliency in nats for each unit of the input, of
    ReAGent as shares of 1."""
    layers: Array
    """Gradient × output of each encoder layer, at the source tokens [L T S]; L is 0 for an LSTM, GRU and
    ConvS2S, and if `layer` is given."""
    log_probabilities: Array
    """Of the target tokens [T]; in a contrast, minus those of the other tokens."""
    baseline: Array
    """The same with embeddings of 0 for the attributed tokens [T]."""
    other: tuple[str, ...] = ()
    """The tokens that the target tokens are contrasted with; without a contrast, empty."""
    layer: int | None = None
    """The encoder layer whose output is the input, counted from 1; without one, the embedding is."""

    def of(self, method: Method) -> Array:
        """The contributions by a method."""
        return self.contributions[method]


def attribute(
    translator: Translator,
    sentence: str,
    translation: str | Sequence[str],
    steps: int | None = None,
    with_prefix: bool = False,
    contrast: bool | Sequence[str] = False,
    methods: Collection[Method] = DEFAULT_METHODS,
    layer: int | None = None,
    progress: Callable[[int, int], None] = no_progress,
) -> Attribution:
    """The contributions for a translation, a text or its tokens, by forced decoding.

    `with_prefix` also attributes to the target tokens before each one; the baseline and the path of the
    integral then begin with embeddings of 0 on both sides. With `contrast`, log P of each target token minus
    log P of another one is attributed: of the likeliest other one, or of the tokens given, one for each
    target token with END. With `layer`, the output of an encoder layer, counted from 1, is attributed to in
    place of the source embeddings. `steps` are the points of each integral; None is 32, and for integrated
    gradients as many as `path_attribution.TOLERANCE` needs. `progress` is that of `integrated_gradients`.

    Raises `DragomanError` as `Translator.score`, for a blank sentence, for an ensemble, for a layer or a
    method that the model or each other do not have, for ReAGent with a contrast, and for tokens of a contrast
    that are fewer or more, or that cannot be predicted.
    """
    if layer is not None and (wrong := set(methods) & OF_TOKENS):
        raise DragomanError(
            f"The method {min(wrong)} replaces tokens by others, so it cannot attribute to the output of an "
            "encoder layer; leave the layer out, or choose another method."
        )
    if contrast is not False and "reagent" in methods:
        raise DragomanError(
            "ReAGent measures how far the probability of a target token falls, so it has no contrast; leave "
            "the contrast out, or choose another method."
        )
    model = differentiable(one_model(translator))
    ((_, source, target),) = forced_batches(translator, [(sentence, translation)], 1)
    if is_blank(translator, sentence):
        raise DragomanError(
            "The sentence is blank: no token contributes to a translation. Give one with words."
        )
    function = of_embeddings(model, source, target, with_prefix)
    if not isinstance(contrast, bool):
        function = replace(function, other=given_others(translator, contrast, target))
    elif contrast:
        function = replace(function, other=likeliest_others(function))
    layers = (
        layer_contributions(function) if layer is None else torch.zeros(0, target.size(1), source.size(1))
    )
    if layer is not None:
        function = of_layer(function, layer)
    with torch.no_grad():
        log_prob, baseline = function.log_probs(torch.stack([function.inputs, function.baseline]))
    by_method = {method: as_array(contributions(function, method, steps, progress)) for method in methods}
    sides = translator.tokenizers.source, translator.tokenizers.target
    pieces = [tuple(side.pieces(ids[0].tolist())) for side, ids in zip(sides, (source, target), strict=True)]
    (start,) = sides[1].pieces([first_token(model)])
    return Attribution(
        pieces[0],
        pieces[1],
        (start, *pieces[1][:-1]) if with_prefix else (),
        by_method,
        as_array(layers),
        as_array(log_prob),
        as_array(baseline),
        () if function.other is None else tuple(sides[1].pieces(function.other[0].tolist())),
        layer,
    )


def contributions(
    function: Attributed,
    method: Method,
    steps: int | None,
    progress: Callable[[int, int], None] = no_progress,
) -> Float[Tensor, "T C"]:
    """Those by a method."""
    fixed_steps = STEPS if steps is None else steps
    functions: dict[Method, Callable[[], Tensor]] = {
        "integrated-gradients": lambda: integrated_gradients(function, steps, progress),
        "gradient-input": lambda: gradient_input(function),
        "saliency": lambda: saliency(function),
        "occlusion": lambda: occlusion(function),
        "sequential-integrated-gradients": lambda: sequential_integrated_gradients(function, steps),
        "discretized-integrated-gradients": lambda: discretized_integrated_gradients(function, fixed_steps),
        "gradient-shap": lambda: gradient_shap(function, fixed_steps),
        "deeplift": lambda: deeplift(function),
        "lime": lambda: lime(function),
        "reagent": lambda: reagent(function),
    }
    return functions[method]()


def gradient_input(function: Attributed) -> Float[Tensor, "T C"]:
    """The gradient times the input, summed over the features."""
    return function.contributions(function.inputs[None], function.inputs[None])


def layer_contributions(function: Attributed) -> Float[Tensor, "L T S"]:
    """Gradient × output of each encoder layer at the source tokens."""
    size = function.source.size(1)
    source = replace(function, inputs=function.inputs[:size], baseline=function.baseline[:size])
    layers = range(1, len(encoder_layers(function.model)) + 1)
    rows = [gradient_input(of_layer(source, layer)) for layer in layers]
    return torch.stack(rows) if rows else torch.zeros(0, function.target.size(1), size)


def saliency(function: Attributed) -> Float[Tensor, "T C"]:
    """The Euclidean norm of the gradient."""
    return torch.stack([gradient[0].norm(dim=-1) for gradient in function.gradients(function.inputs[None])])


@torch.no_grad()
def likeliest_others(function: Attributed) -> Int[Tensor, "1 T"]:
    """At each position, the likeliest token that is not the target token."""
    log_probs = function.all_log_probs(function.features(function.inputs[None]))
    return log_probs.scatter(2, function.target[..., None], -torch.inf).argmax(2)


def given_others(
    translator: Translator, tokens: Sequence[str], target: Int[Tensor, "1 T"]
) -> Int[Tensor, "1 T"]:
    """The ids of the tokens. Raises `DragomanError` as `attribute`."""
    ids = translator.tokenizers.target.ids(tokens)
    if len(ids) != target.size(1):
        raise DragomanError(
            f"The contrast has {counted(len(ids), 'token')}, and the translation {target.size(1)} with END; "
            "give one for each."
        )
    if wrong := {PAD, START}.intersection(ids):
        names = ", ".join(translator.tokenizers.target.pieces(sorted(wrong)))
        raise DragomanError(f"The contrast contains {names}, which is never predicted; give another token.")
    return torch.tensor([ids], device=target.device)

"""What each token that the model reads contributes to each target token.

From gradients with respect to embeddings: their norms (saliency, Simonyan et al. 2014), gradient × input,
and integrated gradients from embeddings of 0 (Sundararajan et al. 2017). The sum of the latter over the
tokens is log P minus log P with embeddings of 0. From forced decoding: occlusion, log P minus log P with the
embedding of one token set to 0 (Zeiler and Fergus 2014). Positions are added in all cases.

In a contrast, log P of a target token minus log P of another token after the same tokens is attributed (Yin
and Neubig 2022).

Shapes: S source and T target tokens, C attributed tokens, M points, D = d_model, V target vocabulary. C is S,
or S + T with the tokens that the decoder reads.

The integrals are sums over the points of Gauss and Legendre, which need fewer points than midpoints do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.inspection.inspect import one_model
from dragoman.inspection.inspected import InspectedModel, first_token
from dragoman.inspection.inspection import Array
from dragoman.inspection.recording import as_array
from dragoman.inspection.views import Method
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.symbols import PAD, START
from dragoman.model.transformer import Transformer, build_model
from dragoman.search.beam import next_log_probs
from dragoman.system.errors import DragomanError
from dragoman.system.wording import counted
from dragoman.translation.analysis import forced_batches
from dragoman.translation.translator import Translator

STEPS = 32  # points on the way from embeddings of 0 to those of the sentence
POINTS = 16  # that are computed at once
ENDS = (0.0, 1.0)  # of the way


@dataclass(frozen=True)
class Attribution:
    """Contributions of tokens to the log-probabilities of target tokens, in nats."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    prefix: tuple[str, ...]
    """The tokens that the decoder reads, START first, if they are attributed; else empty. A target token has
    contributions of those before it; the others are 0."""
    saliency: Array
    """Euclidean norms of the gradients [T C], in nats for each unit of an embedding."""
    gradient_input: Array
    """Gradient × input [T C]."""
    integrated: Array
    """Integrated gradients [T C]."""
    occlusion: Array
    """[T C]."""
    layers: Array
    """Gradient × output of each encoder layer, at the source tokens [L T S]; L is 0 for an LSTM, GRU and
    ConvS2S."""
    log_probabilities: Array
    """Of the target tokens [T]; in a contrast, minus those of the other tokens."""
    baseline: Array
    """The same with embeddings of 0 for the attributed tokens [T]."""
    other: tuple[str, ...] = ()
    """The tokens that the target tokens are contrasted with; without a contrast, empty."""

    def of(self, method: Method) -> Array:
        """The contributions by a method."""
        return {
            "integrated-gradients": self.integrated,
            "gradient-input": self.gradient_input,
            "saliency": self.saliency,
            "occlusion": self.occlusion,
        }[method]


def attribute(
    translator: Translator,
    sentence: str,
    translation: str | Sequence[str],
    steps: int = STEPS,
    with_prefix: bool = False,
    contrast: bool | Sequence[str] = False,
) -> Attribution:
    """The contributions for a translation, a text or its tokens, by forced decoding.

    `with_prefix` also attributes to the target tokens before each one; the baseline and the path of the
    integral then begin with embeddings of 0 on both sides. With `contrast`, log P of each target token minus
    log P of another one is attributed: of the likeliest other one, or of the tokens given, one for each
    target token with END.

    Raises `DragomanError` as `Translator.score`, for a blank sentence, for an ensemble, and for tokens of a
    contrast that are fewer or more, or that cannot be predicted.
    """
    model = differentiable(one_model(translator))
    ((_, source, target),) = forced_batches(translator, [(sentence, translation)], 1)
    if source.size(1) == 1:
        raise DragomanError(
            "The sentence is blank: no token contributes to a translation. Give one with words."
        )
    inputs = embeddings(model, source, target, with_prefix)
    if isinstance(contrast, bool):
        other = likeliest_others(model, inputs, source, target) if contrast else None
    else:
        other = given_others(translator, contrast, target)
    (baseline, whole), (_, gradient) = log_probs_and_gradients(model, inputs, source, target, ENDS, other)
    mean = torch.zeros_like(gradient)  # [T C D]
    points, shares = (each.to(mean).split(POINTS) for each in points_and_shares(steps))
    for some, of_each in zip(points, shares, strict=True):
        _, gradients = log_probs_and_gradients(model, inputs, source, target, some, other)
        mean += torch.tensordot(of_each, gradients, 1)
    sides = translator.tokenizers.source, translator.tokenizers.target
    pieces = [tuple(side.pieces(ids[0].tolist())) for side, ids in zip(sides, (source, target), strict=True)]
    (start,) = sides[1].pieces([first_token(model)])
    embedded = torch.cat(inputs)
    return Attribution(
        pieces[0],
        pieces[1],
        (start, *pieces[1][:-1]) if with_prefix else (),
        as_array(gradient.norm(dim=-1)),
        as_array((gradient * embedded).sum(-1)),
        as_array((mean * embedded).sum(-1)),
        as_array(whole[:, None] - occluded_log_probs(model, inputs, source, target, other).T),
        as_array(layer_contributions(model, source, target, other)),
        as_array(whole),
        as_array(baseline),
        () if other is None else tuple(sides[1].pieces(other[0].tolist())),
    )


@torch.no_grad()
def likeliest_others(
    model: InspectedModel,
    inputs: Sequence[Float[Tensor, "_ D"]],
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
) -> Int[Tensor, "1 T"]:
    """At each position, the likeliest token that is not the target token."""
    log_probs = all_log_probs(model, [each[None] for each in inputs], source, target)
    return log_probs.scatter(2, target[..., None], -torch.inf).argmax(2)


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


@torch.no_grad()
def embeddings(
    model: InspectedModel, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"], with_prefix: bool
) -> list[Float[Tensor, "_ D"]]:
    """Those of the source, and `with_prefix` those of the tokens that the decoder reads: C rows together."""
    found = [model.source_embedding(source)[0]]
    return [*found, model.target_embedding(shifted(model, target))[0]] if with_prefix else found


def shifted(model: InspectedModel, target: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The tokens that the decoder reads: the first one, and the target without its last token."""
    return torch.cat([torch.full_like(target[:, :1], first_token(model)), target[:, :-1]], 1)


def points_and_shares(steps: int) -> tuple[Float[Tensor, "M"], Float[Tensor, "M"]]:
    """Points between 0 and 1 and their shares of a mean over this interval, by Gauss and Legendre.

    Means of polynomials up to degree 2 · steps − 1 are exact.
    """
    points, weights = np.polynomial.legendre.leggauss(steps)  # of the interval from -1 to 1
    return torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)


def differentiable(model: InspectedModel) -> InspectedModel:
    """A copy of the model without packed maps, which have no gradients.

    Training of ConvS2S divides the gradient of the encoder's output; the copy undoes it.
    """
    sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
    copy = build_model(model.settings, *sizes).to(model.target_embedding.weight)
    copy.load_state_dict(model.state_dict())
    assert isinstance(copy, InspectedModel)
    if isinstance(copy, Convolutional):
        copy.encoder_output.register_forward_hook(undivided(2 * len(copy.decoder)))
    return copy.eval().requires_grad_(requires_grad=False)


def undivided(divisor: int) -> Callable[[nn.Module, object, Tensor], None]:
    """A hook that multiplies the gradient of a module's output, which the model will divide by as much."""

    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:  # noqa: ARG001
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient * divisor)

    return hook


def log_probs_and_gradients(
    model: InspectedModel,
    inputs: Sequence[Float[Tensor, "_ D"]],
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    scales: Sequence[float] | Float[Tensor, "M"],
    other: Int[Tensor, "1 T"] | None = None,
) -> tuple[Float[Tensor, "M T"], Float[Tensor, "M T C D"]]:
    """Log P of each target token with scaled embeddings, and its gradients with respect to these.

    `inputs` are those of `embeddings`. With `other` it is log P minus that of these tokens.
    """
    factors = torch.as_tensor(scales).to(inputs[0])[:, None, None]
    leaves = [(factors * each).requires_grad_() for each in inputs]
    log_probs = forced_log_probs(model, leaves, source.expand(len(factors), -1), target, other)
    gradients = [
        torch.cat(torch.autograd.grad(log_probs[:, token].sum(), leaves, retain_graph=True), 1)
        for token in range(target.size(1))
    ]
    return log_probs.detach(), torch.stack(gradients, 1)


@torch.no_grad()
def occluded_log_probs(
    model: InspectedModel,
    inputs: Sequence[Float[Tensor, "_ D"]],
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    other: Int[Tensor, "1 T"] | None = None,
) -> Float[Tensor, "C T"]:
    """As `forced_log_probs`, with an embedding of 0 in place of each of the inputs in turn."""
    lengths = [len(each) for each in inputs]
    found = []
    for places in torch.arange(sum(lengths)).split(POINTS):
        rows = torch.cat(list(inputs)).repeat(len(places), 1, 1)
        rows[torch.arange(len(places)), places] = 0
        sources = source.expand(len(places), -1)
        found.append(forced_log_probs(model, rows.split(lengths, 1), sources, target, other))
    return torch.cat(found)


def layer_contributions(
    model: InspectedModel,
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    other: Int[Tensor, "1 T"] | None = None,
) -> Float[Tensor, "L T S"]:
    """Gradient × output of each encoder layer, summed over the features."""
    if not isinstance(model, Transformer | Enriched):
        return torch.zeros(0, target.size(1), source.size(1))
    (embedded,) = embeddings(model, source, target, with_prefix=False)
    outputs: list[Tensor] = []
    with ExitStack() as stack:
        for layer in model.encoder:
            hook = layer.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
            stack.callback(hook.remove)
        (log_probs,) = forced_log_probs(model, [embedded[None].requires_grad_()], source, target, other)
    gradients = [torch.autograd.grad(each, outputs, retain_graph=True) for each in log_probs]  # [T][L]
    by_layer = [torch.cat(each) for each in zip(*gradients, strict=True)]  # [L][T S D]
    return torch.stack([(of * output).sum(-1).detach() for of, output in zip(by_layer, outputs, strict=True)])


def forced_log_probs(
    model: InspectedModel,
    embedded: Sequence[Float[Tensor, "M _ D"]],
    source: Int[Tensor, "M S"],
    target: Int[Tensor, "1 T"],
    other: Int[Tensor, "1 T"] | None = None,
) -> Float[Tensor, "M T"]:
    """Log P of each target token, as `all_log_probs`; with `other`, minus that of these tokens."""
    log_probs = all_log_probs(model, embedded, source, target)
    found = log_probs.gather(2, target.expand(len(source), -1)[..., None])[..., 0]
    if other is None:
        return found
    return found - log_probs.gather(2, other.expand(len(source), -1)[..., None])[..., 0]


def all_log_probs(
    model: InspectedModel,
    embedded: Sequence[Float[Tensor, "M _ D"]],
    source: Int[Tensor, "M S"],
    target: Int[Tensor, "1 T"],
) -> Float[Tensor, "M T V"]:
    """Log P of each token of the vocabulary at each target position, with these embeddings in place of the
    source's; if there are two, the second is in place of those of the tokens that the decoder reads.
    """
    with replaced_output(model.source_embedding, embedded[0]):
        state = model.encode(source)
    targets = target.expand(len(source), -1)
    with ExitStack() as stack:
        for prefix in embedded[1:]:
            stack.enter_context(replaced_output(model.target_embedding, prefix))
        features, _ = model.decode(shifted(model, targets), state)
    return next_log_probs(model, features.flatten(0, 1)).unflatten(0, (len(source), -1))


@contextmanager
def replaced_output(module: nn.Module, output: Tensor) -> Iterator[None]:
    """A module gives this output while the context is open."""
    handle = module.register_forward_hook(lambda _module, _inputs, _output: output)
    try:
        yield
    finally:
        handle.remove()

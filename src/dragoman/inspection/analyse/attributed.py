"""Log-probabilities of given target tokens with other inputs in place of a sentence's, and their gradients.

Shapes: S source and T target tokens, C attributed tokens, M rows, D = d_model, V target vocabulary. C is S,
or S + T with the tokens that the decoder reads.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dragoman.inspection.record.inspected import InspectedModel, first_token
from dragoman.inspection.record.recording import record_modules
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.transformer import Transformer
from dragoman.search.beam import next_log_probs
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption

ROWS = 16  # that are computed at once
GRADIENTS = 128  # of rows, that are computed at once


@dataclass(frozen=True)
class Attributed:
    """The log-probabilities of a translation's tokens as a function of inputs: the embeddings of a sentence,
    or the outputs of an encoder layer, and perhaps the embeddings of the tokens that the decoder reads.
    """

    model: InspectedModel
    source: Int[Tensor, "1 S"]
    target: Int[Tensor, "1 T"]
    module: nn.Module
    """The source embedding or an encoder layer: its output is the input."""
    inputs: Float[Tensor, "C D"]
    """Those of the sentence, and perhaps of the tokens that the decoder reads."""
    baseline: Float[Tensor, "C D"]
    """The same with embeddings of 0."""
    other: Int[Tensor, "1 T"] | None = None
    """In a contrast, the tokens whose log-probabilities are subtracted."""

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        """The decoder's output at each target position, with these inputs."""
        size, targets = self.source.size(1), self.target.expand(len(rows), -1)
        with replaced_output(self.module, rows[:, :size]):
            state = self.model.encode(self.source.expand(len(rows), -1))
        with_prefix = rows.size(1) > size
        embedding = self.model.target_embedding
        with replaced_output(embedding, rows[:, size:]) if with_prefix else nullcontext():
            return self.model.decode(shifted(self.model, targets), state)[0]

    def all_log_probs(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T V"]:
        """Log P of each token of the vocabulary at each target position."""
        return next_log_probs(self.model, features.flatten(0, 1)).unflatten(0, features.shape[:2])

    def log_probs_of(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T"]:
        """Log P of each target token; in a contrast, minus that of the other token."""
        log_probs = self.all_log_probs(features)
        target_log_probs = log_probs.gather(2, self.target.expand(len(features), -1)[..., None])[..., 0]
        if self.other is None:
            return target_log_probs
        return target_log_probs - log_probs.gather(2, self.other.expand(len(features), -1)[..., None])[..., 0]

    def log_probs(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T"]:
        """`log_probs_of` the features with these inputs."""
        return self.log_probs_of(self.features(rows))

    def gradients(self, rows: Float[Tensor, "M C D"]) -> Iterator[Float[Tensor, "M C D"]]:
        """For each target token, the gradients of its log-probabilities with respect to these inputs.

        Those of several tokens are one batch: the operations of a small model take longer to call than to
        compute. Raises `CancelledError` after an `interruption`.
        """
        leaves = rows.detach().requires_grad_()
        features = self.features(leaves)
        # A position's log-probability depends on its own features alone: one call finds all their gradients.
        cut = features.detach().requires_grad_()
        (of_features,) = torch.autograd.grad(self.log_probs_of(cut).sum(), cut)
        for tokens in torch.arange(self.target.size(1)).split(max(1, GRADIENTS // len(rows))):
            if interruption.get().is_set():
                raise CancelledError
            of_tokens = of_features.new_zeros(len(tokens), *of_features.shape)
            of_tokens[torch.arange(len(tokens)), :, tokens] = of_features[:, tokens].transpose(0, 1)
            (batch,) = torch.autograd.grad(
                features, leaves, of_tokens, retain_graph=True, is_grads_batched=True
            )
            yield from batch

    def contributions(
        self, rows: Float[Tensor, "M C D"], factors: Float[Tensor, "M C D"]
    ) -> Float[Tensor, "T C"]:
        """Gradients at these inputs times factors, summed over the rows and the features."""
        total = rows.new_zeros(self.target.size(1), rows.size(1))
        for chunk, chunk_factors in zip(rows.split(ROWS), factors.split(ROWS), strict=True):
            products = [(gradient * chunk_factors).sum((0, 2)) for gradient in self.gradients(chunk)]
            total += torch.stack(products)
        return total

    @property
    def sides(self) -> tuple[tuple[nn.Embedding, Int[Tensor, "_"]], ...]:
        """The embedding of each side that is attributed, and its tokens: C in all."""
        source = self.model.source_embedding, self.source[0]
        prefix = self.model.target_embedding, shifted(self.model, self.target)[0]
        return (source, prefix) if len(self.inputs) > self.source.size(1) else (source,)

    def read(self, token: int) -> int:
        """How many of the attributed tokens the model reads before it predicts a target token."""
        return min(len(self.inputs), self.source.size(1) + token + 1)


def of_embeddings(
    model: InspectedModel, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"], with_prefix: bool
) -> Attributed:
    """A translation as a function of the source embeddings, `with_prefix` also of those before each token."""
    with torch.no_grad():
        inputs = model.source_embedding(source)[0]
        if with_prefix:
            inputs = torch.cat([inputs, model.target_embedding(shifted(model, target))[0]])
    return Attributed(model, source, target, model.source_embedding, inputs, torch.zeros_like(inputs))


@torch.no_grad()
def of_layer(function: Attributed, layer: int) -> Attributed:
    """The same as a function of the output of an encoder layer, counted from 1, in place of the embeddings.

    Raises `DragomanError` if there is no such layer.
    """
    layers = encoder_layers(function.model)
    if not 1 <= layer <= len(layers):
        known = (
            f"there are {len(layers)}, counted from 1" if layers else "this model has none to attribute to"
        )
        raise DragomanError(f"There is no encoder layer {layer}; {known}.")
    module, size, outputs = layers[layer - 1], function.source.size(1), []
    for rows in (function.inputs, function.baseline):
        with (
            replaced_output(function.module, rows[None, :size]),
            record_modules({}, {"layer": module}) as recording,
        ):
            function.model.encode(function.source)
        outputs.append(torch.cat([recording.outputs["layer"][0][0], rows[size:]]))
    return replace(function, module=module, inputs=outputs[0], baseline=outputs[1])


def encoder_layers(model: InspectedModel) -> list[nn.Module]:
    """The encoder layers whose outputs can be attributed to: none of an LSTM, GRU and ConvS2S."""
    return list(model.encoder) if isinstance(model, Transformer | Enriched) else []


def shifted(model: InspectedModel, target: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The tokens that the decoder reads: the first one, and the target without its last token."""
    return torch.cat([torch.full_like(target[:, :1], first_token(model)), target[:, :-1]], 1)


def differentiable(model: InspectedModel) -> InspectedModel:
    """A copy of the model without packed maps, which have no gradients.

    It computes equation 1 as written: the fused kernel cannot propagate a batch of gradients. Training of
    ConvS2S divides the gradient of the encoder's output; the copy undoes it.
    """
    sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
    copy = build_model(model.settings, *sizes).to(model.target_embedding.weight)
    copy.load_state_dict(model.state_dict())
    assert isinstance(copy, InspectedModel)
    for module in copy.modules():
        if isinstance(module, MultiHeadAttention):
            module.attention_weights_hook = ignore
    if isinstance(copy, Convolutional):
        copy.encoder_output.register_forward_hook(undivided(2 * len(copy.decoder)))
    return copy.eval().requires_grad_(requires_grad=False)


def ignore(_: Tensor) -> None:
    """A hook that does nothing with attention weights."""


def undivided(divisor: int) -> Callable[[nn.Module, object, Tensor], None]:
    """A hook that multiplies the gradient of a module's output, which the model will divide by as much."""

    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:  # noqa: ARG001
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient * divisor)

    return hook


def replaced_output(module: nn.Module, output: Tensor) -> RemovableHandle:
    """A context: a module gives this output while it is open."""
    return module.register_forward_hook(lambda _module, _inputs, _output: output)

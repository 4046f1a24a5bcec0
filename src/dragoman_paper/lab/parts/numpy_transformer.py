"""The Transformer (Figure 1) for one sentence, in NumPy, with loops over layers, tokens, heads and keys
as the paper's equations read. It has no batch and no cache, and is meant to be read beside the paper.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dragoman.model.settings import ModelSettings

Vector = npt.NDArray[np.float64]
Weights = Mapping[str, Vector]  # by the names of this package's model, matrices as [outputs, inputs]


def position(pos: int, d_model: int) -> Vector:
    """Section 3.5: PE(pos)."""
    encoding = np.zeros(d_model)
    for i in range(d_model // 2):
        angle = pos / 10000 ** (2 * i / d_model)
        encoding[2 * i], encoding[2 * i + 1] = np.sin(angle), np.cos(angle)
    return encoding


def embed(ids: list[int], table: Vector) -> list[Vector]:
    """Sections 3.4 and 3.5: embeddings times √d_model, plus positions."""
    d_model = table.shape[1]
    return [table[token] * np.sqrt(d_model) + position(pos, d_model) for pos, token in enumerate(ids)]


def layer_norm(x: Vector, weights: Weights, name: str, epsilon: float) -> Vector:
    """Section 3.1: mean 0 and variance 1 over the features of one token, then gain and bias."""
    normal = (x - x.mean()) / np.sqrt(x.var() + epsilon)
    return normal * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def softmax(scores: Vector) -> Vector:
    """The exponentials of the scores, divided by their sum."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def attend(query: Vector, keys: list[Vector], values: list[Vector]) -> Vector:
    """Equation 1 for one query: softmax(q Kᵀ / √d_k) V."""
    scores = np.array([query @ key for key in keys]) / np.sqrt(len(query))
    output = np.zeros(len(values[0]))
    for weight, value in zip(softmax(scores), values, strict=True):
        output += weight * value
    return output


def multi_head(
    queries: list[Vector],
    memory: list[Vector],
    causal: bool,
    weights: Weights,
    name: str,
    model: ModelSettings,
) -> list[Vector]:
    """Section 3.2.2: Concat(head_1 … head_h) W^O; a causal query sees no later position."""
    d_k, d_v = model.key_width, model.value_width
    rows = weights[f"{name}.query_key_value.weight"]
    w_q, w_k, w_v = np.split(rows, [model.heads * d_k, 2 * model.heads * d_k])
    outputs = []
    for place, x in enumerate(queries):
        visible = memory[: place + 1] if causal else memory
        heads = []
        for head in range(model.heads):
            of_key, of_value = slice(head * d_k, (head + 1) * d_k), slice(head * d_v, (head + 1) * d_v)
            keys, values = [w_k[of_key] @ y for y in visible], [w_v[of_value] @ y for y in visible]
            heads.append(attend(w_q[of_key] @ x, keys, values))
        outputs.append(weights[f"{name}.output.weight"] @ np.concatenate(heads))
    return outputs


def feed_forward(x: Vector, weights: Weights, name: str) -> Vector:
    """Equation 2: max(0, x W_1 + b_1) W_2 + b_2."""
    hidden = np.maximum(0, weights[f"{name}.inner.weight"] @ x + weights[f"{name}.inner.bias"])
    return weights[f"{name}.outer.weight"] @ hidden + weights[f"{name}.outer.bias"]


def add_and_norm(
    states: list[Vector], outputs: list[Vector], weights: Weights, name: str, epsilon: float
) -> list[Vector]:
    """Section 3.1: LayerNorm(x + Sublayer(x)) at each position."""
    return [layer_norm(x + y, weights, name, epsilon) for x, y in zip(states, outputs, strict=True)]


def encode(source: list[int], weights: Weights, model: ModelSettings) -> list[Vector]:
    """Figure 1, left: N layers of self-attention and feed-forward."""
    x = embed(source, weights["target_embedding.weight"])
    for number in range(model.encoder_layers):
        name = f"encoder.{number}"
        y = multi_head(x, x, False, weights, f"{name}.self_attention", model)
        x = add_and_norm(x, y, weights, f"{name}.self_attention_residual.norm", model.norm_epsilon)
        y = [feed_forward(vector, weights, f"{name}.feed_forward") for vector in x]
        x = add_and_norm(x, y, weights, f"{name}.feed_forward_residual.norm", model.norm_epsilon)
    return x


def decode(target: list[int], memory: list[Vector], weights: Weights, model: ModelSettings) -> list[Vector]:
    """Figure 1, right: N layers of masked self-attention, attention to the memory, and feed-forward."""
    x = embed(target, weights["target_embedding.weight"])
    for number in range(model.decoder_layers):
        name = f"decoder.{number}"
        y = multi_head(x, x, True, weights, f"{name}.self_attention", model)
        x = add_and_norm(x, y, weights, f"{name}.self_attention_residual.norm", model.norm_epsilon)
        y = multi_head(x, memory, False, weights, f"{name}.cross_attention", model)
        x = add_and_norm(x, y, weights, f"{name}.cross_attention_residual.norm", model.norm_epsilon)
        y = [feed_forward(vector, weights, f"{name}.feed_forward") for vector in x]
        x = add_and_norm(x, y, weights, f"{name}.feed_forward_residual.norm", model.norm_epsilon)
    return x


def probabilities(source: list[int], target: list[int], weights: Weights, model: ModelSettings) -> Vector:
    """[T, V]: the probabilities of the token after each target token (section 3.4), with tied embeddings."""
    features = decode(target, encode(source, weights, model), weights, model)
    return np.stack([softmax(weights["target_embedding.weight"] @ x) for x in features])

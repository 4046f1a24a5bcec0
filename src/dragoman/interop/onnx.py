"""Export to ONNX: one graph of the encoder, one of a step of the decoder (extra: dragoman[onnx]).

    encoder.onnx   source [B S]                                                   → memory_keys, memory_values
    decoder.onnx   token [B 1], source, memory_keys, memory_values, keys, values
                   → logits [B V], new_keys, new_values

`memory_keys` and `memory_values` are [layers B H S K]. `keys` and `values` of the N tokens before are
[layers B H N K]; N is 0 for the first token, START. `new_keys` and `new_values` are one token longer.
`source` ends with END and is padded with 0. B, S and N are dynamic. Both graphs are traces of the model's own
modules.
"""

import copy
import json
import logging
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import onnx  # noqa: F401  torch.onnx.export needs onnx and onnxscript
import onnxruntime
import onnxscript  # noqa: F401
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.export import Dim

from dragoman.interop.verify import ReferenceEngine
from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.cache import TransformerState
from dragoman.model.positions import Positions, sinusoids
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.system.readers import read_json
from dragoman.translation.model_folder import Tokenizers

POSITIONS = 1024  # tokens of the longest text of a model with sinusoids: rows of the table in the graph


@dataclass(frozen=True)
class GraphState(TransformerState):
    """The state of one hypothesis a sentence, with a cache that grows by concatenation.

    ONNX graphs do not write in place.
    """

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        keys, values = self.cache[layer]
        self.cache[layer] = KeysValues(torch.cat([keys, new.keys], 2), torch.cat([values, new.values], 2))
        return self.cache[layer]

    def advance(self, tokens: int) -> tuple["GraphState", None]:
        return replace(self, length=self.length + tokens), None  # one token may attend to the whole cache


class Encoder(nn.Module):
    """The encoder, and the keys and values of its output for each layer of the decoder."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "L B H S K"], Float[Tensor, "L B H S Kv"]]:
        """Source ids → keys and values of every decoder layer, stacked."""
        return stack_layers(self.model.encode(source).memory)


class DecoderStep(nn.Module):
    """The decoder for one more token of each sentence."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        token: Int[Tensor, "B 1"],
        source: Int[Tensor, "B S"],
        memory_keys: Float[Tensor, "L B H S K"],
        memory_values: Float[Tensor, "L B H S Kv"],
        keys: Float[Tensor, "L B H N K"],
        values: Float[Tensor, "L B H N Kv"],
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "L B H N2 K"], Float[Tensor, "L B H N2 Kv"]]:
        """The logits of the next token, and the keys and values of the target so far."""
        mask = self.model.source_mask(source)
        ancestry = mask.new_empty(token.size(0), 1, 0, 1)
        memory, cache = unstack_layers(memory_keys, memory_values), unstack_layers(keys, values)
        state = GraphState(memory, mask, ancestry, cache, length=keys.size(3))
        features, _ = self.model.decode(token, state)
        return self.model.logits(features[:, -1]), *stack_layers(cache)


def stack_layers(layers: Sequence[KeysValues]) -> tuple[Tensor, Tensor]:
    """All layers' keys as one tensor [L B H N K], and all values as another [L B H N Kv]."""
    keys, values = zip(*layers, strict=True)
    return torch.stack(keys), torch.stack(values)


def unstack_layers(keys: Tensor, values: Tensor) -> list[KeysValues]:
    """Keys and values of each layer, from the tensors of `stack_layers`."""
    return [KeysValues(*layer) for layer in zip(keys, values, strict=True)]


def exportable(model: Transformer) -> Transformer:
    """A copy of the model in which the exporter can trace every operation.

    Attention is equation 1 in plain operations, not PyTorch's fused kernel, and tables of sinusoids have all
    their rows from the start.
    """
    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attention_weights_hook = lambda _: None
        elif isinstance(module, Positions) and module.kind != "learned":
            module.table = sinusoids(module.first + POSITIONS, module.d_model, module.kind)
    return model


@torch.no_grad()
def write(model: Transformer, tokenizers: Tokenizers, folder: Path) -> None:
    """Write both graphs, the tokenizers and `dragoman.json` to a folder."""
    model = exportable(model)
    longest = longest_text(model)
    encoder, decoder = Encoder(model), DecoderStep(model)
    source = torch.full((2, 3), END)
    memory = encoder(source)
    past = [part[:, :, :, :2].contiguous() for part in memory]
    batch, source_length, past_length = Dim("B"), Dim("S", max=longest), Dim("N", max=longest - 1)
    source_dims, memory_dims = {0: batch, 1: source_length}, {1: batch, 3: source_length}
    cache_dims = {1: batch, 3: past_length}
    memory_names = ["memory_keys", "memory_values"]
    export_graph(encoder, (source,), ["source"], memory_names, (source_dims,), folder / "encoder.onnx")
    export_graph(
        decoder,
        (source[:, :1], source, *memory, *past),
        ["token", "source", *memory_names, "keys", "values"],
        ["logits", "new_keys", "new_values"],
        ({0: batch}, source_dims, memory_dims, memory_dims, cache_dims, cache_dims),
        folder / "decoder.onnx",
    )
    write_description(model, tokenizers, folder)


def longest_text(model: Transformer) -> int:
    """Tokens of the longest text that the graphs read or write."""
    return model.settings.longest or POSITIONS


def write_description(model: Transformer, tokenizers: Tokenizers, folder: Path) -> None:
    """Write the tokenizers, and the special ids, the longest text and the sizes of the cache as JSON."""
    metadata = {
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "end": END,
        "never_written": [PAD, START],
        "longest": longest_text(model),
        "cache": {
            "layers": model.settings.decoder_layers,
            "heads": model.settings.heads,
            "d_k": model.settings.key_width,
            "d_v": model.settings.value_width,
        },
    }
    (folder / "dragoman.json").write_text(json.dumps(metadata, indent=2) + "\n")
    tokenizers.source.save(folder / "source.model")
    tokenizers.target.save(folder / "target.model")


def export_graph(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    input_names: list[str],
    output_names: list[str],
    dynamic_shapes: tuple[dict[int, Dim], ...],
    path: Path,
) -> None:
    """Trace the module with example inputs and write one graph.

    Warnings are silenced: the exporter warns of its own internals, and of axes that share a name on purpose.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                dynamic_shapes=dynamic_shapes,
                input_names=input_names,
                output_names=output_names,
                verbose=False,
            )
    finally:
        logging.disable(before)
    assert program is not None
    program.save(str(path))


def engine(folder: Path) -> ReferenceEngine:
    """Both graphs in onnxruntime, with the loop of greedy search that a user of the graphs writes."""
    encoder, decoder = (
        onnxruntime.InferenceSession(str(folder / f"{name}.onnx")) for name in ("encoder", "decoder")
    )
    metadata = read_json(folder / "dragoman.json")
    sizes = metadata["cache"]

    def decode(source: list[int]) -> Generator[Tensor, int, None]:
        """Yield the logits [V] after START, then after each token that is sent."""
        batch = numpy.array([source])
        memory = dict(
            zip(("memory_keys", "memory_values"), encoder.run(None, {"source": batch}), strict=True)
        )
        keys, values = (
            numpy.zeros((sizes["layers"], 1, sizes["heads"], 0, sizes[width]), numpy.float32)
            for width in ("d_k", "d_v")
        )
        token = START
        while True:
            inputs = {"token": numpy.array([[token]]), "source": batch, "keys": keys, "values": values}
            logits, keys, values = decoder.run(None, inputs | memory)
            token = yield torch.from_numpy(logits[0])

    def log_probs(source: list[int], target: list[int]) -> Tensor:
        steps = decode(source)
        return torch.stack([next(steps), *(steps.send(token) for token in target[:-1])]).log_softmax(-1)

    def greedy(source: list[int], max_length: int) -> list[int]:
        steps, ids = decode(source), list[int]()
        logits = next(steps)
        while len(ids) < max_length:
            logits[[PAD, START]] = -torch.inf
            if (token := int(logits.argmax())) == END:
                break
            ids.append(token)
            logits = steps.send(token)
        return ids

    tokenizers = Tokenizers.load(folder)
    return ReferenceEngine(
        name="onnxruntime",
        encode=lambda text: [*tokenizers.source.encode([text])[0], END],
        log_probs=log_probs,
        greedy=greedy,
        decode=tokenizers.target.decode,
        first_ids=range(len(tokenizers.source)),
        longest=metadata["longest"],
    )

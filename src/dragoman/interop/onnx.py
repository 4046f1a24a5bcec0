"""To ONNX, as two graphs (extra: dragoman[onnx]): the encoder, and a step of the decoder with its cache.

    encoder.onnx   source [B S]                                                   → memory_keys, memory_values
    decoder.onnx   token [B 1], source, memory_keys, memory_values, keys, values
                   → logits [B V], new_keys, new_values

Memory: [layers B H S K]. Keys and values of the N tokens before: [layers B H N K], with N = 0 before the
first, which is START; they come back one longer. `source` is padded with 0, and ends with END. B, S and N are
free.
"""

import json
import logging
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import cast

import numpy
import onnx  # noqa: F401  which PyTorch writes with, as with onnxscript
import onnxruntime
import onnxscript  # noqa: F401
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from dragoman.interop.verify import Engine
from dragoman.model.attention import KeysValues, MultiHeadAttention, attention
from dragoman.model.positions import Positions
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import DecoderLayer, EncoderLayer, Transformer
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

POSITIONS = 1024  # rows of the table that is written, where positions are sinusoids: the longest text there


def attend(module: MultiHeadAttention, query: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
    """Equation 1 as written, then W^O."""
    heads, _ = attention(query, *memory, mask)
    return module.output(heads.transpose(1, 2).flatten(2))


class Half(nn.Module):
    """What both halves of a model need: embeddings with a table of positions."""

    def __init__(self, model: Transformer, embedding: nn.Embedding, positions: Positions) -> None:
        super().__init__()
        self.model, self.embedding = model, embedding
        self.longest = len(positions.table) if positions.kind == "learned" else POSITIONS
        self.register_buffer("table", positions(0, self.longest).detach().clone())

    def embed(self, ids: Tensor, places: Tensor) -> Tensor:
        """Embeddings of ids, with the positions of these places, which are the same for all sentences."""
        return self.model.embed(ids, self.embedding, F.embedding(places, cast(Tensor, self.table)))


class Encoder(Half):
    """All of the encoder, and what the decoder's layers will look at."""

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.model.source_mask(source)
        x = self.embed(source, torch.arange(source.size(1)))
        for module in self.model.encoder:
            layer = cast(EncoderLayer, module)
            residual = layer.self_attention_residual
            query, own = layer.self_attention.project(residual.before(x))
            x = residual.after(x, attend(layer.self_attention, query, own, mask))
            residual = layer.feed_forward_residual
            x = residual.after(x, layer.feed_forward(residual.before(x)))
        memory = self.model.encoder_norm(x)
        keys, values = zip(
            *(cast(DecoderLayer, layer).project_memory(memory) for layer in self.model.decoder), strict=True
        )
        return torch.stack(keys), torch.stack(values)


class DecoderStep(Half):
    """The decoder for one more token of each sentence."""

    def forward(
        self,
        token: Tensor,
        source: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        mask = self.model.source_mask(source)
        x = self.embed(token, torch.full((1,), keys.size(3)))
        all_keys, all_values = [], []
        for number, module in enumerate(self.model.decoder):
            layer = cast(DecoderLayer, module)
            residual = layer.self_attention_residual
            query, own = layer.self_attention.project(residual.before(x))
            line = KeysValues(
                torch.cat([keys[number], own.keys], 2), torch.cat([values[number], own.values], 2)
            )
            x = residual.after(x, attend(layer.self_attention, query, line, None))
            residual = layer.cross_attention_residual
            query = layer.cross_attention.project_query(residual.before(x))
            x = residual.after(
                x,
                attend(
                    layer.cross_attention, query, KeysValues(memory_keys[number], memory_values[number]), mask
                ),
            )
            residual = layer.feed_forward_residual
            x = residual.after(x, layer.feed_forward(residual.before(x)))
            all_keys.append(line.keys)
            all_values.append(line.values)
        return (
            self.model.logits(self.model.decoder_norm(x)[:, -1]),
            torch.stack(all_keys),
            torch.stack(all_values),
        )


@torch.no_grad()
def write(model: Transformer, tokenizers: Tokenizers, folder: Path) -> None:
    """Fill a folder with both graphs, the vocabularies, and `dragoman.json`: special ids, the longest text,
    the sizes of a cache.
    """
    encoder = Encoder(model, model.source_embedding, model.source_positions)
    decoder = DecoderStep(model, model.target_embedding, model.target_positions)
    source = torch.full((2, 3), END)
    memory = encoder(source)
    past = [part[:, :, :, :2].contiguous() for part in memory]
    sentences = Dim("B")
    whole = {0: sentences, 1: Dim("S", max=encoder.longest)}
    side, cache = {1: sentences, 3: whole[1]}, {1: sentences, 3: Dim("N", max=decoder.longest - 1)}
    names = ["memory_keys", "memory_values"]
    export(encoder, (source,), ["source"], names, (whole,), folder / "encoder.onnx")
    inputs, outputs = ["token", "source", *names, "keys", "values"], ["logits", "new_keys", "new_values"]
    shapes = ({0: sentences}, whole, side, side, cache, cache)
    export(decoder, (source[:, :1], source, *memory, *past), inputs, outputs, shapes, folder / "decoder.onnx")
    special = {"pad": PAD, "unknown": UNKNOWN, "start": START, "end": END, "never_written": [PAD, START]}
    about = special | {"longest": encoder.longest, "cache": cache_sizes(model)}
    (folder / "dragoman.json").write_text(json.dumps(about, indent=2) + "\n")
    tokenizers.source.save(folder / "source.model")
    tokenizers.target.save(folder / "target.model")


def cache_sizes(model: Transformer) -> dict[str, int]:
    """The sizes of keys and values."""
    settings = model.settings
    return {
        "layers": settings.decoder_layers,
        "heads": settings.heads,
        "d_k": settings.key_width,
        "d_v": settings.value_width,
    }


def export(
    half: nn.Module,
    example: tuple[Tensor, ...],
    inputs: list[str],
    outputs: list[str],
    shapes: tuple[dict[int, Dim], ...],
    path: Path,
) -> None:
    """Write one graph, quietly: the exporter warns of its own parts, and of sizes with the same name, which
    are meant.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                half.eval(),
                example,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=inputs,
                output_names=outputs,
                verbose=False,
            )
    finally:
        logging.disable(before)
    assert program is not None
    program.save(str(path))


def engine(folder: Path) -> Engine:
    """Both graphs in onnxruntime, in the loop that any user of theirs has to write."""
    encoder, decoder = (
        onnxruntime.InferenceSession(str(folder / f"{half}.onnx")) for half in ("encoder", "decoder")
    )
    about = json.loads((folder / "dragoman.json").read_text())
    sizes = about["cache"]

    def steps(source: list[int]) -> Generator[Tensor, int, None]:
        """Gives the logits after START, then after each token that it is sent."""
        rows = numpy.array([source])
        memory = dict(zip(("memory_keys", "memory_values"), encoder.run(None, {"source": rows}), strict=True))
        cache = [
            numpy.zeros((sizes["layers"], 1, sizes["heads"], 0, sizes[width]), numpy.float32)
            for width in ("d_k", "d_v")
        ]
        token = START
        while True:
            given = {
                "token": numpy.array([[token]]),
                "source": rows,
                **memory,
                "keys": cache[0],
                "values": cache[1],
            }
            logits, *cache = decoder.run(None, given)
            token = yield torch.from_numpy(logits[0])

    def log_p(source: list[int], target: list[int]) -> Tensor:
        asked = steps(source)
        return torch.stack([next(asked), *(asked.send(token) for token in target[:-1])]).log_softmax(-1)

    def greedy(source: list[int], most: int) -> list[int]:
        asked, written = steps(source), list[int]()
        logits = next(asked)
        while len(written) < most:
            logits[[PAD, START]] = -torch.inf
            if (token := int(logits.argmax())) == END:
                break
            written.append(token)
            logits = asked.send(token)
        return written

    loaded = Tokenizers.of(Tokenizer.load(folder / "source.model"), Tokenizer.load(folder / "target.model"))

    def tokens(line: str) -> list[int]:
        return [*loaded.source.encode([line])[0], END]

    return Engine(
        "onnxruntime",
        tokens,
        log_p,
        greedy,
        loaded.target.decode,
        range(len(loaded.source)),
        about["longest"],
    )

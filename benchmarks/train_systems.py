"""The systems whose training train.py measures, each as a function that makes one update."""

import math
from collections.abc import Callable

import torch
from peers import marian_config
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import Recipe
from dragoman.text.batches import Batch, Update
from dragoman.training.world import World

SMOOTHING, DROPOUT, RATE = 0.1, 0.1, 1e-4
Step = Callable[[Update], None]


def dragoman_step(recipe: Recipe, data: PreparedData) -> Step:
    """Ours, as `dragoman train` runs it, with all that it imports."""
    from dragoman.native.training_kernels import start_compiling_kernels
    from dragoman.pipeline.prepared import make_model
    from dragoman.system.machine import configure_allocator
    from dragoman.training.objective import (
        Objective,
        accumulate_gradients,
        make_optimizer,
        seed_update,
        step_optimizer,
    )

    configure_allocator()
    start_compiling_kernels()
    world = World(device=torch.device("cpu"))
    model = make_model(recipe, data, world.device)
    objective, optimizer = Objective.of(model, recipe.training).train(), make_optimizer(model)

    def step(update: Update) -> None:
        seed_update(1, 1, 0)
        accumulate_gradients(objective, update, world)
        step_optimizer(optimizer, model, RATE, 0.0)
        optimizer.zero_grad()

    return step


def peer_step(logits: Callable[[Batch], Tensor], model: nn.Module, bfloat16: bool) -> Step:
    """A peer, in the loop that its documentation shows, with the fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    model.train()

    def step(update: Update) -> None:
        (batch,) = update.batches
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            scores = logits(batch)
            loss = F.cross_entropy(
                scores.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def transformers_step(recipe: Recipe, vocabulary: int) -> Step:
    """Hugging Face's Marian of the same sizes."""
    from transformers import MarianMTModel

    model = MarianMTModel(marian_config(recipe.model, vocabulary, DROPOUT))

    def logits(batch: Batch) -> Tensor:
        return model(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=batch.target_in,
            use_cache=False,
        ).logits

    return peer_step(logits, model, recipe.training.precision == "bfloat16")


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and a tied output, as PyTorch's tutorial puts them
    together.
    """

    def __init__(self, size: ModelSettings, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size.d_model, padding_idx=PAD)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            size.d_model,
            size.heads,
            size.encoder_layers,
            size.decoder_layers,
            size.d_ff,
            DROPOUT,
            batch_first=True,
        )
        half = (
            torch.exp(torch.arange(0, size.d_model, 2) * (-math.log(10000.0) / size.d_model))
            * torch.arange(512)[:, None]
        )
        self.register_buffer("positions", torch.stack([half.sin(), half.cos()], -1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings times √d_model, plus positions."""
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        padding = source == PAD
        features = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(features, self.embedding.weight)


def torch_step(recipe: Recipe, vocabulary: int) -> Step:
    """torch.nn.Transformer."""
    model = TorchTransformer(recipe.model, vocabulary)
    return peer_step(
        lambda batch: model(batch.source, batch.target_in), model, recipe.training.precision == "bfloat16"
    )


def baseline_step(system: str, recipe: Recipe, vocabulary: int) -> Step:
    """Another system's recurrent or convolutional model."""
    from baseline_peers import MODELS

    model = MODELS[system](recipe.model, vocabulary)
    return peer_step(
        lambda batch: model(batch.source, batch.target_in), model, recipe.training.precision == "bfloat16"
    )

"""The masks of a call (section 3.2.3): those that attention was given, and those of padding beside it.

A batch with a longer sentence would pad this one. Each mask therefore has `PADDING` more rows and columns, by
the functions that make the model's masks. Shapes: S source and T target tokens, P = `PADDING`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.inspection.record.projected import Projections
from dragoman.model.symbols import PAD
from dragoman.model.transformer import Transformer
from dragoman.model.variants import RestrictedAttention, band, with_some_key

Allowed = npt.NDArray[np.bool_]
PADDING = 8


@dataclass(frozen=True)
class Masks:
    """Which keys a query may attend to, padding last. A first part of a mask is the mask of less padding."""

    encoder: Allowed
    """Encoder self-attention [S+P S+P]: no padding as a key."""
    cross: Allowed
    """Encoder-decoder attention [T+P S+P]: no padding as a key."""
    decoder: Allowed
    """Decoder self-attention [T+P T+P]: no later key. Padding of a target is after all of its tokens."""


def masks_of(model: Transformer, recorded: Projections, source: Sequence[int]) -> Masks:
    """The masks of a call: recorded for its tokens, made by the model for padding."""
    sources, targets = len(source), recorded.decoder.allowed.shape[0]
    attention = model.encoder[0].self_attention
    radius = attention.radius if isinstance(attention, RestrictedAttention) else sources + targets + PADDING
    readable = model.source_mask(torch.tensor([[*source, *[PAD] * PADDING]]))[0, 0]  # [1 S+P]
    readable[:, :sources] = torch.from_numpy(recorded.encoder.allowed)
    neighbourhood = band(sources + PADDING, radius, False, readable.device)
    decoder = band(targets + PADDING, radius, True, readable.device)
    decoder[:targets, :targets] = torch.from_numpy(recorded.decoder.allowed)
    read = readable.expand(targets + PADDING, -1).clone()
    read[:, :sources] = torch.from_numpy(recorded.cross.allowed)
    return Masks(*map(as_mask, (with_some_key(neighbourhood & readable), read, decoder)))


def as_mask(mask: Tensor) -> Allowed:
    """A mask as a numpy array."""
    return mask.cpu().numpy()

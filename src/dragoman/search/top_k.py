"""The best extensions of hypotheses, found without sorting the vocabulary. Shapes: B sentences, W hypotheses each, V vocabulary."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64  # tokens that are looked at as one, by their best


def top_k_extensions(
    log_p: Float[Tensor, "B W V"], before: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """The `count` largest of before + log_p in each sentence, largest first: the sum, its hypothesis (0 to W - 1), and its token.

    Of equal sums the one of the earlier hypothesis comes first, then the one of the smaller token. The best of all are among the
    best blocks, so that only these are sorted.
    """
    vocabulary = log_p.size(2)
    blocks = -(-vocabulary // BLOCK)
    whole = vocabulary - vocabulary % BLOCK
    highest = log_p[:, :, :whole].unflatten(2, (whole // BLOCK, BLOCK)).amax(3)
    if whole < vocabulary:
        highest = torch.cat([highest, log_p[:, :, whole:].amax(2, keepdim=True)], 2)
    highest = (highest + before[:, :, None]).flatten(1)
    block = order(highest, torch.arange(highest.size(1), device=log_p.device)).topk(min(count, highest.size(1))).indices
    origin = (block // blocks)[:, :, None].expand(-1, -1, BLOCK).flatten(1)
    token = ((block % blocks)[:, :, None] * BLOCK + torch.arange(BLOCK, device=log_p.device)).flatten(1)
    place = origin * vocabulary + token.clamp(max=vocabulary - 1)
    total = (log_p.flatten(1).gather(1, place) + before.gather(1, origin)).masked_fill_(token >= vocabulary, -torch.inf)
    best = order(total, place).topk(count).indices
    return total.gather(1, best), origin.gather(1, best), token.gather(1, best).clamp_(max=vocabulary - 1)


def order(value: Float[Tensor, "B N"], place: Int[Tensor, "*B N"]) -> Int[Tensor, "B N"]:
    """Integers in the order of the values in float32, and among equal ones of falling place (0 to 2³² - 1): `topk` leaves ties open."""
    bits = (value.float() + 0.0).view(torch.int32).long()  # -0.0 becomes 0.0; IEEE 754's bits are in order but for the sign
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) << 32) - place

"""The best extensions of hypotheses, without sorting the vocabulary.

Shapes: B sentences, W hypotheses each, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64  # tokens that are first compared by their best


def top_k_extensions(
    log_p: Float[Tensor, "B W V"], before: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """The `count` largest sums before + log_p of each sentence: the sum, its hypothesis, its token.

    Ties go to the earlier hypothesis, then to the smaller token. The best tokens are in the best blocks: only
    these are sorted.
    """
    vocabulary = log_p.size(2)
    blocks = -(-vocabulary // BLOCK)
    in_full_blocks = vocabulary - vocabulary % BLOCK
    highest = log_p[:, :, :in_full_blocks].unflatten(2, (in_full_blocks // BLOCK, BLOCK)).amax(3)
    if in_full_blocks < vocabulary:
        highest = torch.cat([highest, log_p[:, :, in_full_blocks:].amax(2, keepdim=True)], 2)
    highest = (highest + before[:, :, None]).flatten(1)  # [B, W · blocks]
    places = torch.arange(highest.size(1), device=log_p.device)
    block = sort_key(highest, places).topk(min(count, highest.size(1))).indices
    origin = (block // blocks)[:, :, None].expand(-1, -1, BLOCK).flatten(1)  # [B, count · BLOCK]
    token = ((block % blocks)[:, :, None] * BLOCK + torch.arange(BLOCK, device=log_p.device)).flatten(1)
    place = origin * vocabulary + token.clamp(max=vocabulary - 1)
    total = log_p.flatten(1).gather(1, place) + before.gather(1, origin)
    total = total.masked_fill_(token >= vocabulary, -torch.inf)
    best = sort_key(total, place).topk(count).indices
    return total.gather(1, best), origin.gather(1, best), token.gather(1, best).clamp_(max=vocabulary - 1)


def sort_key(value: Float[Tensor, "B N"], place: Int[Tensor, "*B N"]) -> Int[Tensor, "B N"]:
    """Integers that sort as the values do in float32, equal values by falling place (0 to 2³² − 1).

    `topk` does not define the order of ties.
    """
    # IEEE 754 bits sort as numbers but for the sign; -0.0 becomes 0.0.
    bits = (value.float() + 0.0).view(torch.int32).long()
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) << 32) - place

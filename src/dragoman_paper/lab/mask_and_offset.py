"""Computes the gradient of the prediction of each target token with respect to the target tokens, in four
cases: with and without the causal mask, and with a decoder input that is shifted by one position or not
shifted.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.symbols import START
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SeesAll, random_sentences, random_transformer

CLAIM = Claim(
    title="The causal mask and the shifted input",
    section="3.1",
    claim="The mask, combined with the offset of the output embeddings by one position, ensures that the "
    "prediction for position i depends only on the known outputs at positions less than i.",
    claimed_by="the paper, section 3.1",
)
TOKENS = 6


def reach(masked: bool, offset: bool) -> Tensor:
    """[T, T]: the norm of the gradient of the logits for token i with respect to the embedding of token j."""
    model = random_transformer()
    if not masked:
        for layer in model.decoder:
            layer.self_attention.__class__ = SeesAll
    target = random_sentences([TOKENS], seed=2)
    embedded = F.embedding(target, model.target_embedding.weight).detach().requires_grad_()
    state = model.encode(random_sentences([5]))
    start = model.target_embedding(torch.tensor([[START]]))
    given = torch.cat([start, embedded[:, :-1]], 1) if offset else embedded
    model.target_embedding.forward = lambda _: given
    logits = model.logits(model.decode(target, state)[0])
    rows = [torch.autograd.grad(row.square().sum(), embedded, retain_graph=True)[0][0] for row in logits[0]]
    return torch.stack(rows).norm(dim=-1)


def run(quick: bool) -> Result:
    rows, shown = [], {}
    for masked in (True, False):
        for offset in (True, False):
            found = reach(masked, offset)
            name = f"{'mask' if masked else 'no mask'}, {'offset' if offset else 'no offset'}"
            rows.append(
                {
                    "decoder": name,
                    "predictions that see their own token": int((found.diagonal() > 0).sum()),
                    "pairs with a later token": int((found.triu(1) > 0).sum()),
                    "pairs with an earlier token": int((found.tril(-1) > 0).sum()),
                    "predictions": TOKENS,
                }
            )
            shown[name] = (found / found.max()).sqrt().numpy()
    both, mask, offset, _ = rows
    names = ("predictions that see their own token", "pairs with a later token")
    right = (
        all(both[name] == 0 for name in names)
        and both["pairs with an earlier token"] == TOKENS * (TOKENS - 1) / 2
    )
    needed = mask[names[0]] > 0 and offset[names[1]] > 0
    picture = matrices(
        "How much the prediction of a token depends on each token",
        "norm of the gradient, as a share of the matrix's largest, square root",
        shown,
        Side("prediction of"),
        Side("target token"),
    )
    return Result(
        {"By exact zeros of the gradient": rows},
        picture,
        verdict_of(right and needed),
        "With both, each prediction depends on the earlier tokens and no others. Without the offset all "
        f"{mask[names[0]]} predictions depend on the token that they are to predict; without the mask there "
        f"are {offset[names[0]] + offset[names[1]]} dependences on that token or on a later one. Neither is "
        "enough alone.",
    )

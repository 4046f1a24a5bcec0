"""Measures the longest chain of matrix products that wait for each other: in a layer over n given positions,
as in training, and in a Transformer's decoder (3 layers) that writes n tokens. PyTorch's fused kernel of
attention counts as one product.
"""

from itertools import pairwise

import torch

from dragoman.model.symbols import START
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import random_sentences, random_transformer
from dragoman_paper.tables.complexity import distance, longest_chain
from dragoman_paper.tables.layers import ROWS

CLAIM = Claim(
    title="Sequential operations of training and of decoding",
    section="4",
    claim="A Transformer needs O(1) sequential operations where a recurrent model needs O(n).",
    claimed_by="folklore (a reading of Table 1)",
)
WRITING = "Transformer, writing n tokens"


def chain_of_decoding(tokens: int) -> int:
    """The longest chain of products in a decoder that writes so many tokens. Each step gets the embeddings'
    mean by the probabilities of the step before it, in place of a token, so that a gradient passes.
    """
    model = random_transformer()
    state, table = model.encode(random_sentences([4])), model.target_embedding.weight
    inputs = table[START][None]
    for _ in range(tokens):
        model.target_embedding.forward = lambda _, x=inputs: x[None]
        features, _ = model.decode(torch.zeros(1, len(inputs), dtype=torch.long), state)
        logits = model.logits(features[:, -1])
        inputs = torch.cat([inputs, logits.softmax(-1) @ table])
    return longest_chain(logits.grad_fn)


def run(quick: bool) -> Result:
    layers = {row.name: row for row in ROWS if row.name in ("self-attention", "recurrent (LSTM)")}
    rows = []
    for n in (8, 16, 32) if quick else (8, 16, 32, 64, 128, 256):
        row = {"n": n}
        for name, layer in layers.items():
            row[f"{name}, all n given"] = distance(layer, n).sequential
        row[WRITING] = chain_of_decoding(n)
        rows.append(row)
    names = list(rows[0])[1:]
    constant = len({row["self-attention, all n given"] for row in rows}) == 1
    grows = all(row["recurrent (LSTM), all n given"] >= row["n"] for row in rows)
    serial = all(b[WRITING] - a[WRITING] >= b["n"] - a["n"] for a, b in pairwise(rows))
    picture = curves(
        "Operations that wait for each other",
        "n, positions",
        "products of matrices",
        {name: [(row["n"], row[name]) for row in rows] for name in names},
        log_x=True,
        log_y=True,
    )
    return Result(
        {"Sequential operations": rows},
        picture,
        verdict_of(
            constant and grows, "all tokens are given, as in training and in the encoder" if serial else ""
        ),
        "With all n positions given, the chain of self-attention has the same length, "
        f"{rows[0]['self-attention, all n given']}, whatever n is; the LSTM has a chain of n or more. "
        f"Decoding has no recurrent layer, but its chain grows with n: {rows[0][WRITING]} products for "
        f"{rows[0]['n']} tokens and {rows[-1][WRITING]:,} for {rows[-1]['n']}, because each token is an "
        "input of the next step.",
    )

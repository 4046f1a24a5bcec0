"""Measures the longest chain of matrix products that wait for each other, in a layer over n given positions,
as in training, and counts the steps of a Transformer's decoder that writes n tokens. PyTorch's fused kernel
of attention counts as one product.
"""

import torch

from dragoman.model.symbols import START
from dragoman.pipeline.reproduce.complexity import distance
from dragoman.pipeline.reproduce.layers import ROWS
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import random_sentences, random_transformer

CLAIM = Claim(
    title="Sequential operations of training and of decoding",
    section="4",
    claim="A Transformer needs O(1) sequential operations where a recurrent model needs O(n).",
    claimed_by="folklore (a reading of Table 1)",
)


def decoding_steps(tokens: int) -> int:
    """The calls of the decoder that write so many tokens, each of which needs the one before."""
    model, calls = random_transformer(), []
    model.decoder[0].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        state = model.encode(random_sentences([tokens])).allocate(1, tokens)
        token = torch.tensor([[START]])
        for _ in range(tokens):
            features, state = model.decode(token, state)
            token = model.logits(features[:, -1]).argmax(-1, keepdim=True)
    return len(calls)


def run(quick: bool) -> Result:
    layers = {row.name: row for row in ROWS if row.name in ("self-attention", "recurrent (LSTM)")}
    rows = []
    for n in (8, 16, 32) if quick else (8, 16, 32, 64, 128, 256):
        row = {"n": n}
        for name, layer in layers.items():
            row[f"{name}, all n given"] = distance(layer, n).sequential
        row["Transformer, writing n tokens"] = decoding_steps(n)
        rows.append(row)
    names = list(rows[0])[1:]
    constant = len({row["self-attention, all n given"] for row in rows}) == 1
    grows = all(row["recurrent (LSTM), all n given"] >= row["n"] for row in rows)
    serial = all(row["Transformer, writing n tokens"] == row["n"] for row in rows)
    picture = curves(
        "Operations that wait for each other",
        "n, positions",
        "operations, or steps of decoding",
        {name: [(row["n"], row[name]) for row in rows] for name in names},
        "The curves of the LSTM and of decoding coincide.",
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
        f"Decoding has no recurrent layer, but it is serial: {rows[-1]['n']} tokens take "
        f"{rows[-1]['Transformer, writing n tokens']} steps, because each token is an input of the next "
        "step.",
    )

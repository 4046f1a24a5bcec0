"""Computes the norm of the Jacobian of every output by every input, for an encoder, a decoder and
encoder-decoder attention of several layers. Where it is exactly 0, no information flows.
"""

import torch

from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SMALL, random_sentences, random_transformer

CLAIM = Claim(
    title="The encoder sees all positions",
    section="3.2.3",
    claim="In the encoder, each position attends to the positions up to and including its own.",
    claimed_by="tutorials",
    topics=("W8",),
)
SOURCE, TARGET = 7, 6


def norms(outputs: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[N, M]: the norm of the Jacobian of output i by input j."""
    rows = []
    for row in outputs[0]:  # the features of an output
        gradients = [torch.autograd.grad(x, inputs, retain_graph=True)[0][0] for x in row]
        rows.append(torch.stack(gradients).square().sum((0, 2)))
    return torch.stack(rows).sqrt()


def run(quick: bool) -> Result:
    model = random_transformer()
    source, target = random_sentences([SOURCE]), random_sentences([TARGET], seed=2)
    # Both embeddings as leaves of the graph, so that gradients are those of single tokens.
    of_source, of_target = (model.target_embedding(ids).detach().requires_grad_() for ids in (source, target))
    leaves = iter((of_source, of_target))
    model.target_embedding.forward = lambda _: next(leaves)
    state = model.encode(source)
    encoded = state.encoder_output
    features, _ = model.decode(target, state)
    shown = {
        "encoder, by source token": norms(encoded, of_source),
        "decoder, by target token": norms(features, of_target),
        "decoder, by source token": norms(features, of_source),
    }
    rows = [
        {
            "output, input": name,
            "pairs": each.numel(),
            "Jacobian exactly 0": int((each == 0).sum()),
            "of them above the diagonal": int((each == 0).triu(1).sum()),
            "least of the others": float(each[each > 0].min()),
        }
        for name, each in shown.items()
    ]
    encoder, decoder, cross = rows
    later = TARGET * (TARGET - 1) // 2
    assert decoder["Jacobian exactly 0"] == decoder["of them above the diagonal"] == later
    assert cross["Jacobian exactly 0"] == 0
    unseen = encoder["of them above the diagonal"]
    above = SOURCE * (SOURCE - 1) // 2
    picture = matrices(
        "The Jacobian of each output by each token",
        "norm of the Jacobian, as a share of the matrix's largest, square root",
        {name: (each / each.max()).sqrt().numpy() for name, each in shown.items()},
        Side("output"),
        {name: Side(name.partition(", by ")[2]) for name in shown},
        across=3,
    )
    return Result(
        {f"{SMALL.encoder_layers} layers, {SOURCE} source and {TARGET} target tokens": rows},
        picture,
        verdict_of(unseen == above),
        f"In the encoder, {above - unseen} of {above} pairs of an output and a later token have a Jacobian "
        f"that is not 0. In the decoder, the {later} Jacobians of later tokens are exactly 0, and no others "
        "are; every target position depends on every source position.",
    )

"""Compares the keys of attention with the values, in the Transformer and in recurrent models. In the
Transformer the values are then replaced by the keys.
"""

from math import gamma, pi

import torch

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import VOCABULARY, random_sentences, random_transformer

CLAIM = Claim(
    title="Keys and values",
    section="3.2",
    claim="The keys of a Transformer's attention are its values.",
    claimed_by="an introduction to attention of 2018",
    topics=("W12",),
)


def recurrent(score: str) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Keys and values of a recurrent model's attention [tokens, width]; whether values give the keys."""
    torch.manual_seed(1)
    settings = ModelSettings("lstm", d_model=16, encoder_layers=1, decoder_layers=1, attention_score=score)
    model = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    with torch.no_grad():
        state = model.encode(random_sentences([9]))
        computed = torch.equal(state.keys, model.attention.key(state.memory))
    return state.keys[0], state.memory[0], computed


def run(quick: bool) -> Result:
    model = random_transformer()
    with torch.no_grad():
        state = model.encode(random_sentences([9]))
    keys, values = state.memory[0].keys[0, 0], state.memory[0].values[0, 0]  # layer 1, head 1: [S, K]
    shown = {"Transformer: keys": keys.numpy(), "Transformer: values": values.numpy()}
    cosine = torch.nn.functional.cosine_similarity(keys, values, dim=-1).abs().mean()
    half_width = keys.size(1) / 2
    independent = gamma(half_width) / (pi**0.5 * gamma(half_width + 0.5))  # the mean for random directions
    rows = [{"model": "Transformer", "values are": "W^V x", "keys are": "W^K x"}]
    for score, keys_are in (("dot", "the values' two halves, added"), ("additive", "U times the values")):
        keys, values, computed = recurrent(score)
        summed = sum(values.chunk(2, -1))
        equal = torch.equal(keys, summed)
        if equal:
            shown |= {"LSTM, dot: keys": keys.numpy(), "LSTM, dot: sum of the values' halves": summed.numpy()}
        origin = keys_are if computed else "not computed from the values"
        rows.append({"model": f"LSTM, {score}", "values are": "the encoder's states", "keys are": origin})
    source, target = random_sentences([9]), random_sentences([7], seed=2)
    with torch.no_grad():
        before = model.logits(model.decode(target, model.encode(source))[0]).log_softmax(-1)
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                query, key, _ = module.query_key_value.weight.split(module.widths)
                module.query_key_value.weight.copy_(torch.cat([query, key, key]))
        after = model.logits(model.decode(target, model.encode(source))[0]).log_softmax(-1)
    change = float((before - after).abs().max())
    shares = {name: matrix / abs(matrix).max() for name, matrix in shown.items()}
    unit = "feature, as a share of the largest magnitude of its matrix"
    picture = matrices("Keys beside values", unit, shares, Side("source token"), Side("feature"))
    return Result(
        {"Where keys and values come from": rows},
        picture,
        verdict_of(change < 1e-9),
        "With the score “dot” of Luong et al. 2015 the keys are the values; here the encoder has two "
        "directions, and the keys are their sum. In Bahdanau et al. 2015 the keys are computed from the "
        "values. In the Transformer each has its own matrix: with random weights the |cosine| of a key and "
        f"its value is {cosine:.2f} on average; of independent vectors of this width it is "
        f"{independent:.2f}. Setting W^V = W^K changes log-probabilities by up to {change:.0f} nats.",
    )

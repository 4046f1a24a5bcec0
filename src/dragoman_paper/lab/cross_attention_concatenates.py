"""Computes the encoder-decoder attention of a decoder layer as in Figure 1, with keys and values of the
encoder's output alone, and as it is sometimes described: the decoder's states are concatenated to the
encoder's output, and the decoder attends to both.
"""

import torch

from dragoman.model.attention import KeysValues, attention
from dragoman.model.transformer import DecoderLayer
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SMALL, largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Encoder-decoder attention concatenates nothing",
    section="3.2.3",
    claim="The second attention of a decoder layer concatenates its input with the encoder's output and "
    "applies self-attention to both.",
    claimed_by="study notes",
    topics=("W4",),
)


def run(quick: bool) -> Result:
    model = random_transformer()
    layer = model.decoder[0]
    assert isinstance(layer, DecoderLayer)
    cross, source = layer.cross_attention, random_sentences([6])
    with torch.no_grad():
        encoded = model.encode(source).encoder_output
        x = torch.randn(1, 5, SMALL.d_model, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        query, memory = cross.project_query(x), cross.project_memory(encoded)
        own = cross.project_memory(x)
        both = KeysValues(*(torch.cat(each, 2) for each in zip(memory, own, strict=True)))
        rows, shown = [], {}
        for name, keys_values in (("Figure 1", memory), ("concatenated", both)):
            weights = attention(query, *keys_values)[1][0].mean(0)  # [T, N], the mean of the heads
            output = cross.attend(query, keys_values)
            changed = x.clone()
            changed[:, -1] += 1
            later = cross.project_memory(changed)
            if name == "concatenated":
                later = KeysValues(*(torch.cat(each, 2) for each in zip(memory, later, strict=True)))
            seen = later if name == "concatenated" else memory
            after = cross.attend(cross.project_query(changed), seen)
            rows.append(
                {
                    "reading": name,
                    "keys": keys_values.keys.size(2),
                    "weight of the decoder's own positions": float(
                        weights[:, source.size(1) :].sum(-1).mean()
                    ),
                    "change of token 1 by a later token": largest_difference(after[:, 0], output[:, 0]),
                    "difference from Figure 1": largest_difference(output, cross.attend(query, memory)),
                }
            )
            shown[name] = weights.numpy()
    figure, concatenated = rows
    share = concatenated["weight of the decoder's own positions"]
    own_tokens, tokens = ([f"{side}{n}" for n in range(1, count + 1)] for side, count in (("t", 5), ("s", 6)))
    picture = matrices(
        "Encoder-decoder attention, two readings",
        f"attention weight, mean of {SMALL.heads} heads",
        shown,
        Side("query", own_tokens),
        {"Figure 1": Side("key", tokens), "concatenated": Side("key", tokens + own_tokens)},
        "s1, s2, … are source tokens, t1, t2, … target tokens.",
    )
    return Result(
        {"5 target and 6 source tokens": rows},
        picture,
        verdict_of(concatenated["difference from Figure 1"] < 1e-9),
        "Queries come from the decoder, keys and values from the encoder alone. If the decoder's states are "
        f"concatenated to these, they get {share:.0%} of the weight, and without a mask a token depends on "
        f"later ones: it changes by {concatenated['change of token 1 by a later token']:.2f}. In Figure 1 it "
        f"{'changes too' if figure['change of token 1 by a later token'] else 'does not change'}.",
    )

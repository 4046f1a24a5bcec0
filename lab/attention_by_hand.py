"""Sends one sentence of three words through the first encoder layer with d_model = 4 and two heads, step by
step, with small whole numbers as weights that can be checked by hand. A table has the numbers of each step,
and the result is compared with the package's layer.
"""

import math

import torch

from dragoman.model.positions import sinusoids
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import EncoderLayer
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import matrices
from lab.parts.models import largest_difference

CLAIM = Claim(
    title="One sentence through attention, in numbers",
    section="3.2.1",
    claim="Attention to three words can be computed by hand: products, a softmax, a weighted mean.",
    claimed_by="walkthroughs in study notes and animations",
)
WORDS, WIDTH, HEADS = ("we", "like", "tea"), 4, 2
EMBEDDINGS = [[0.5, 0.0, -0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.5, 0.0, -0.5]]


def layer() -> EncoderLayer:
    """A layer with small whole numbers as weights of attention."""
    settings = ModelSettings(d_model=WIDTH, d_ff=8, heads=HEADS, encoder_layers=1, decoder_layers=1)
    torch.manual_seed(1)
    module = EncoderLayer(settings).double().eval()
    with torch.no_grad():
        for weight in (module.self_attention.query_key_value.weight, module.self_attention.output.weight):
            weight.copy_(torch.randint(-1, 2, weight.shape))
    return module


def run(quick: bool) -> Result:
    module = layer()
    attention, norm = module.self_attention, module.self_attention_residual.norm
    with torch.no_grad():
        embedded = torch.tensor(EMBEDDINGS).double() * math.sqrt(WIDTH)
        x = embedded + sinusoids(len(WORDS), WIDTH).double()
        query, key, value = (x @ w.T for w in attention.query_key_value.weight.split(attention.widths))
        steps = {"1 embedding · √d_model": embedded, "2 + position": x}
        steps |= {"3 queries": query, "4 keys": key, "5 values": value}
        heads = []
        for head, columns in enumerate((slice(0, 2), slice(2, 4)), 1):
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(WIDTH // HEADS)
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
            heads.append(weights @ value[:, columns])
            steps[f"6 scores of head {head}"], steps[f"7 weights of head {head}"] = scores, weights
        joined = torch.cat(heads, 1)
        output = joined @ attention.output.weight.T
        steps |= {"8 heads, concatenated": joined, "9 · W^O": output, "10 + x": x + output}
        steps["11 normalised"] = norm(x + output)
        y = steps["11 normalised"][None]
        whole = module.feed_forward_residual.after(y, module.feed_forward(y))[0]
        error = largest_difference(whole, module(x[None], None)[0])
    tables = {
        name: [
            {"word": word} | {f"{place + 1}": float(number) for place, number in enumerate(row)}
            for word, row in zip(WORDS, rows.tolist(), strict=True)
        ]
        for name, rows in steps.items()
    }
    title = f"“{' '.join(WORDS)}”, a row for each word"
    picture = matrices(title, {name: each.numpy() for name, each in steps.items()}, across=4, numbers=True)
    first = steps["7 weights of head 1"][2].tolist()
    return Result(
        tables,
        picture,
        verdict_of(error < 1e-12),
        f"The {len(steps)} steps, followed by the feed-forward sub-layer, give the layer's output to "
        f"within {error:.0e}. In head 1 the weights of “{WORDS[2]}” are {first[0]:.2f} for “{WORDS[0]}”, "
        f"{first[1]:.2f} for “{WORDS[1]}” and {first[2]:.2f} for itself.",
    )

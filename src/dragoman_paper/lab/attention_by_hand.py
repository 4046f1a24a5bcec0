"""Sends one sentence of three words through the first encoder layer with d_model = 4 and two heads, step by
step, with small whole numbers as weights that can be checked by hand. A table has the numbers of each step,
and the result is compared with the package's layer.
"""

import math
from collections.abc import Sequence

import torch

from dragoman.model.positions import sinusoids
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import EncoderLayer
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, Row, verdict_of
from dragoman_paper.lab.parts.models import largest_difference

CLAIM = Claim(
    title="One sentence through attention, in numbers",
    section="3.2.1",
    claim="Attention to three words can be computed by hand: products, a softmax, a weighted mean.",
    claimed_by="walkthroughs in study notes and animations",
)
WORDS, WIDTH, HEADS = ("we", "like", "tea"), 4, 2
MATRICES, PLACES = ("W^Q", "W^K", "W^V", "W^O"), "1234"
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


def numbered(matrix: torch.Tensor, kind: str, rows: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """A matrix as a table with names of rows and columns."""
    return [{kind: rows[n]} | dict(zip(columns, row, strict=True)) for n, row in enumerate(matrix.tolist())]


def run(quick: bool) -> Result:
    module = layer()
    attention, norm = module.self_attention, module.self_attention_residual.norm
    with torch.no_grad():
        embedded = torch.tensor(EMBEDDINGS).double() * math.sqrt(WIDTH)
        x = embedded + sinusoids(len(WORDS), WIDTH).double()
        maps = attention.query_key_value.weight.T.split(attention.widths, 1)
        query, key, value = (x @ weight for weight in maps)
        steps = {"1 embedding · √d_model": embedded, "2 + position": x}
        steps |= {"3 queries": query, "4 keys": key, "5 values": value}
        heads = []
        for head, columns in enumerate((slice(0, 2), slice(2, 4)), 1):
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(WIDTH // HEADS)
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
            heads.append(weights @ value[:, columns])
            steps[f"6 scores of head {head}"], steps[f"7 weights of head {head}"] = scores, weights
        joined, w_o = torch.cat(heads, 1), attention.output.weight.T
        output = joined @ w_o
        steps |= {"8 heads, concatenated": joined, "9 · W^O": output, "10 + x": x + output}
        steps["11 normalised"] = y = norm(x + output)
        y = module.feed_forward_residual.after(y[None], module.feed_forward(y[None]))
        error = largest_difference(y, module(x[None], None))
    tables = {n: numbered(w, "input", PLACES, PLACES) for n, w in zip(MATRICES, (*maps, w_o), strict=True)}
    words = {name: Side("query" if name[0] in "67" else "word", WORDS) for name in steps}
    columns = {name: Side("key", WORDS) if name[0] in "67" else Side("feature", PLACES) for name in steps}
    tables |= {name: numbered(step, "word", WORDS, columns[name].labels) for name, step in steps.items()}
    shown = {name: numbers.numpy() for name, numbers in steps.items()}
    title, unit = f"“{' '.join(WORDS)}”, step by step", "feature, score or weight"
    picture = matrices(title, unit, shown, words, columns, across=4, numbers=True)
    first = steps["7 weights of head 1"][2].tolist()
    because = (
        "Steps 1 to 11, followed by the feed-forward sub-layer, give the layer's output to within "
        f"{error:.0e}. In head 1 the weights of “{WORDS[2]}” are {first[0]:.2f} for “{WORDS[0]}”, "
        f"{first[1]:.2f} for “{WORDS[1]}” and {first[2]:.2f} for itself."
    )
    return Result(tables, picture, verdict_of(error < 1e-12), because)

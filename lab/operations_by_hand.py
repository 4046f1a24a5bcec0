"""Counts the multiply-adds of a forward pass by formulas and by PyTorch's counter on a run, and the share
that grows with the square of the length: the scores and weighted values of all attentions.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.costs import multiply_adds_by_part
from dragoman.model.settings import PRESETS
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import SMALL, VOCABULARY, random_sentences, random_transformer

CLAIM = Claim(
    title="Operations computed by hand and counted",
    section="4",
    claim="Self-attention costs O(n² · d), so it is the larger part of a Transformer's operations.",
    claimed_by="folklore (a reading of Table 1)",
)
LENGTHS, SQUARE = (5, 25, 100, 400, 1600, 6400), "scores and weighted values, %"


def counted(tokens: int) -> int:
    """The multiply-adds of a run of the small model, by PyTorch."""
    model = random_transformer(SMALL).float()
    for layer in (*model.encoder, *model.decoder):
        layer.self_attention.attention_weights_hook = lambda _: None  # equation 1 as written
    for layer in model.decoder:
        layer.cross_attention.attention_weights_hook = lambda _: None
    source, target = random_sentences([tokens]), random_sentences([tokens], seed=2)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.logits(model.decode(target, model.encode(source))[0])
    return counter.get_total_flops() // 2


def shares(tokens: int) -> dict[str, float]:
    """Multiply-adds of base, and where they are."""
    base = PRESETS["base"]
    parts = multiply_adds_by_part(base, 37_000, tokens, tokens)
    whole, square = sum(parts.values()), 3 * base.encoder_layers * tokens**2 * 2 * base.d_model
    return {
        "tokens a side": tokens,
        "multiply-adds, million": whole / 1e6,
        SQUARE: 100 * square / whole,
        "feed-forward, %": 100 * sum(count for name, count in parts.items() if "feed" in name) / whole,
        "logits, %": 100 * parts["logits"] / whole,
    }


def run(quick: bool) -> Result:
    check = [
        {
            "tokens a side": tokens,
            "by formula": sum(multiply_adds_by_part(SMALL, VOCABULARY, tokens, tokens).values()),
            "counted by PyTorch": counted(tokens),
        }
        for tokens in (5, 12, 40)
    ]
    rows = [shares(tokens) for tokens in LENGTHS]
    assert all(row["by formula"] == row["counted by PyTorch"] for row in check)
    by_length = {row["tokens a side"]: row[SQUARE] for row in rows}
    larger = [tokens for tokens in range(100, 10_000, 20) if shares(tokens)[SQUARE] > 50]
    condition = f"texts have more than about {larger[0]:,} tokens" if larger and larger[0] > 100 else ""
    names = list(rows[0])[2:]
    picture = curves(
        "Where base spends its operations",
        "tokens a side",
        "share of multiply-adds, %",
        {name.removesuffix(", %"): [(row["tokens a side"], row[name]) for row in rows] for name in names},
        log_x=True,
    )
    return Result(
        {"The small model": check, "base, 37,000 tokens": rows},
        picture,
        verdict_of(bool(larger), condition),
        "The formulas agree with PyTorch's counter to the last operation. In base the part that grows with "
        f"n², the products of all three attentions without projections, is {by_length[25]:.1f}% at 25 tokens "
        f"and {by_length[400]:.0f}% at 400; the rest grows with n. With a smaller vocabulary it becomes the "
        "larger part at shorter lengths.",
    )

"""Counts the multiply-adds of a forward pass by formulas and by PyTorch's counter on a run, and the share of
attention by three definitions: the products of self-attention (its scores and weighted values, n² · d each),
the products of all attentions, and all attentions with their projections. The larger part is more than half.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.costs import multiply_adds_by_part
from dragoman.model.settings import PRESETS
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL, VOCABULARY, random_sentences, random_transformer

CLAIM = Claim(
    title="Operations computed by hand and counted",
    section="4",
    claim="Self-attention costs O(n² · d), so it is the larger part of a Transformer's operations.",
    claimed_by="folklore (a reading of Table 1)",
)
LENGTHS, SEARCHED = (5, 25, 100, 400, 1600, 6400, 25_600), range(100, 20_000, 10)
OWN, ALL = "products of self-attention, %", "products of all attentions, %"
PROJECTED = "all attentions with projections, %"


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
    whole, products = sum(parts.values()), base.encoder_layers * tokens**2 * 2 * base.d_model
    return {
        "tokens a side": tokens,
        "multiply-adds, million": whole / 1e6,
        OWN: 100 * 2 * products / whole,  # of encoder and decoder
        ALL: 100 * 3 * products / whole,
        PROJECTED: 100 * sum(count for name, count in parts.items() if "attention" in name) / whole,
        "feed-forward, %": 100 * sum(count for name, count in parts.items() if "feed" in name) / whole,
        "logits, %": 100 * parts["logits"] / whole,
    }


def run(quick: bool) -> Result:
    formula = {n: sum(multiply_adds_by_part(SMALL, VOCABULARY, n, n).values()) for n in (5, 12, 40)}
    check = [{"tokens": n, "by formula": count, "by PyTorch": counted(n)} for n, count in formula.items()]
    assert all(row["by formula"] == row["by PyTorch"] for row in check)
    rows = [shares(tokens) for tokens in LENGTHS]
    own = {row["tokens a side"]: row[OWN] for row in rows}
    least = {each: next((n for n in SEARCHED if shares(n)[each] > 50), 0) for each in (OWN, ALL, PROJECTED)}
    picture = curves(
        "Where base spends its operations",
        "tokens a side",
        "share of multiply-adds, %",
        {name[:-3]: [(row["tokens a side"], row[name]) for row in rows] for name in list(rows[0])[2:]},
        log_x=True,
    )
    condition = f"self-attention counts without projections and base gets over {least[OWN]:,} tokens a side"
    return Result(
        {"The small model": check, "base, 37,000 tokens": rows},
        picture,
        verdict_of(least[OWN] > 0, condition),
        "The formulas agree with PyTorch's counter to the last operation. In base the products of "
        f"self-attention, which grow with n², are {own[25]:.1f}% at 25 tokens and {own[400]:.0f}% at 400. "
        f"They are the larger part from about {least[OWN]:,} tokens on, the products of all attentions from "
        f"{least[ALL]:,} on, and all attentions with their projections from {least[PROJECTED]:,} on. With a "
        "smaller vocabulary these lengths are shorter.",
    )

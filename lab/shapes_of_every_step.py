"""Runs a batch of two pairs through a model with hooks on every module, and records the shapes of outputs in
the order of the computation: a walkthrough of Figure 1. The projections of encoder-decoder attention, heads
and attention weights are not outputs of modules, and are left out. The source's embedding is the target's, as
they are tied. In its full form it uses the base model.
"""

import torch
from torch import nn

from dragoman.model.settings import PRESETS
from dragoman.model.transformer import build_model
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.models import VOCABULARY, random_sentences

CLAIM = Claim(
    title="The widths of every module's output",
    section="3.1",
    claim="All sub-layers and the embedding layers produce outputs of dimension d_model.",
    claimed_by="the paper, section 3.1",
)
SUB_LAYERS = ("_embedding", "attention.output", "feed_forward", "_residual.norm")
SOURCE, TARGET = 7, 5


def run(quick: bool) -> Result:
    settings = PRESETS["tiny" if quick else "base"]
    model = build_model(settings, VOCABULARY, VOCABULARY).eval()
    rows: list[dict[str, str | int]] = []

    def record(name: str, module: nn.Module, output: torch.Tensor) -> None:
        shape = " · ".join(map(str, output.shape))
        rows.append({"step": len(rows) + 1, "module": name, "kind": type(module).__name__, "shape": shape})

    for name, module in model.named_modules():
        if name and not isinstance(module, nn.Dropout | nn.ModuleList | nn.Identity):
            module.register_forward_hook(lambda own, _, output, name=name: record(name, own, output))
    source, target = random_sentences([SOURCE, 4]), random_sentences([TARGET, 3], seed=2)
    with torch.no_grad():
        features, _ = model.decode(target, model.encode(source))
        logits = model.logits(features)
    rows.append(
        {"step": len(rows) + 1, "module": "logits", "kind": "", "shape": " · ".join(map(str, logits.shape))}
    )
    own = [row for row in rows if str(row["module"]).endswith(SUB_LAYERS)]
    wide = [row for row in own if str(row["shape"]).endswith(f" · {settings.d_model}")]
    widths: dict[str, dict[str, float]] = {}
    for row in rows:
        side, *inner = (
            str(row["module"]).replace("_residual", "").replace("self_attention.query", "query").split(".")
        )
        if not inner or inner[0] == "0":
            group = f"{side}, layer 1" if inner else "outside the layers"
            width = int(str(row["shape"]).split(" · ")[-1])
            widths.setdefault(group, {})[" ".join(inner[1:]) or side] = width
    picture = bars("The width of every module's output", "features", widths)
    return Result(
        {f"2 pairs, sources of at most {SOURCE} and targets of at most {TARGET} tokens": rows},
        picture,
        verdict_of(len(wide) == len(own) > 0),
        f"All {len(own)} outputs of embeddings, sub-layers and their normalisations have {settings.d_model} "
        f"features. Inside, queries, keys and values together have {3 * settings.d_model}, and the "
        f"feed-forward sub-layer {settings.d_ff}.",
    )

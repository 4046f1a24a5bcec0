"""Runs a batch of two pairs through a model with hooks on every module, and records the shapes of outputs in
the order of the computation: a walkthrough of Figure 1. Of each attention also those of the queries, keys and
values by heads [B, H, T, d_k] and of the weights [B, H, T, keys]. The source's embedding is the target's, as
they are tied. In its full form it uses the base model.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import VOCABULARY, random_sentences

CLAIM = Claim(
    title="The widths of every module's output",
    section="3.1",
    claim="All sub-layers and the embedding layers produce outputs of dimension d_model.",
    claimed_by="the paper, section 3.1",
    topics=("W5",),
)
SUB_LAYERS = ("_embedding", "attention.output", "feed_forward", "_residual.norm")
SOURCE, TARGET = 7, 5  # tokens
Record = Callable[[str, str, Tensor], None]


def watch(name: str, attention: MultiHeadAttention, record: Record) -> None:
    attend = attention.attend

    def seen(query: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        for part, tensor in (("queries", query), ("keys", memory.keys), ("values", memory.values)):
            record(f"{name}, {part}", "heads", tensor)
        return attend(query, memory, mask, causal)

    attention.attend = seen
    attention.attention_weights_hook = lambda weights: record(f"{name}, weights", "heads", weights)


def run(quick: bool) -> Result:
    settings = PRESETS["tiny" if quick else "base"]
    model = build_model(settings, VOCABULARY, VOCABULARY).eval()
    rows: list[dict[str, str | int]] = []

    def record(name: str, kind: str, output: Tensor) -> None:
        shape = " · ".join(map(str, output.shape))
        rows.append({"step": len(rows) + 1, "module": name, "kind": kind, "shape": shape})

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            watch(name, module, record)
        elif name and not isinstance(module, nn.Dropout | nn.ModuleList | nn.Identity):
            kind = type(module).__name__
            module.register_forward_hook(lambda _, __, out, at=(name, kind): record(*at, out))
    source, target = random_sentences([SOURCE, 4]), random_sentences([TARGET, 3], seed=2)
    with torch.no_grad():
        features, _ = model.decode(target, model.encode(source))
        record("logits", "", model.logits(features))
    own = [str(row["shape"]) for row in rows if str(row["module"]).endswith(SUB_LAYERS)]
    attentions = sum(str(row["module"]).endswith(", weights") for row in rows)
    widths: dict[str, dict[str, float]] = {}
    for row in (row for row in rows if row["kind"] != "heads"):
        name = str(row["module"]).replace("_residual", "").replace("self_attention.query", "query")
        side, *inner = name.split(".")
        if not inner or inner[0] == "0":
            bar = widths.setdefault(f"{side}, layer 1" if inner else "outside the layers", {})
            bar[" ".join(inner[1:]) or side] = int(str(row["shape"]).split(" · ")[-1])
    picture = bars("The width of every module's output", "features", widths)
    return Result(
        {f"2 pairs, sources of at most {SOURCE} and targets of at most {TARGET} tokens": rows},
        picture,
        verdict_of(len(own) > 0 and all(shape.endswith(f" · {settings.d_model}") for shape in own)),
        f"All {len(own)} outputs of embeddings, sub-layers and their normalisations have {settings.d_model} "
        f"features. Inside, queries, keys and values together have {3 * settings.d_model}, and the "
        f"feed-forward sub-layer {settings.d_ff}. There are {attentions} attention sub-layers, each with "
        f"{settings.heads} heads.",
    )

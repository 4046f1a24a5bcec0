"""Times a forward pass of multi-head attention with scaled dot products and with additive scores, of the same
sizes, and measures the most memory that the tensors of `attend` take at one time. Dot products make n · n
numbers a head, additive scores n · n · d_k. For the scores, both have n² · d_k multiplications a head. The
time is the least of several passes with one thread, in each of three rounds in which the kinds take turns.
"""

import time
from statistics import median

import torch

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.variants import AdditiveMultiHeadAttention
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.memory import peak_bytes

CLAIM = Claim(
    title="Additive attention compared with dot products",
    section="3.2.1",
    claim="Dot-product attention is much faster and more space-efficient in practice than additive "
    "attention, though the two are similar in theoretical complexity.",
    claimed_by="the paper, section 3.2.1",
)
D_MODEL, HEADS = 256, 4


def measured(name: str, tokens: int, passes: int) -> dict[str, float]:
    """The least time of a forward pass over one text, in ms, and the memory of `attend`, in MB."""
    torch.manual_seed(1)
    kind = AdditiveMultiHeadAttention if name == "additive" else MultiHeadAttention
    module = kind(D_MODEL, HEADS, D_MODEL // HEADS, D_MODEL // HEADS)
    if name == "dot products":  # equation 1 as written, the fair neighbour of additive scores
        module.attention_weights_hook = lambda _: None
    x = torch.randn(1, tokens, D_MODEL)
    least = float("inf")
    with torch.no_grad():
        for _ in range(passes + 1):
            began = time.perf_counter()
            query, memory = module.project(x)
            module.attend(query, memory)
            least = min(least, time.perf_counter() - began)
        bytes_ = peak_bytes(lambda: module.attend(query, memory))
    return {f"{name}, ms": 1e3 * least, f"{name}, MB": bytes_ / 1e6}


def run(quick: bool) -> Result:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that other programs of the machine disturb less
    lengths, passes = ((16, 64, 128), 2) if quick else ((16, 32, 64, 128, 256, 512), 20)
    kinds = ("dot products", "dot products, fused", "additive")
    rows = []
    for tokens in lengths:
        rounds = [dict(p for kind in kinds for p in measured(kind, tokens, passes).items()) for _ in range(3)]
        row = {"tokens": tokens} | {name: median(each[name] for each in rounds) for name in rounds[0]}
        slow = sorted(each["additive, ms"] / each["dot products, ms"] for each in rounds)
        row |= dict(zip(("times as slow, least", "times as slow", "times as slow, most"), slow, strict=True))
        row["times the memory"] = row["additive, MB"] / row["dot products, MB"]
        rows.append(row)
    torch.set_num_threads(threads)
    last = rows[-1]
    short, times = (" and ".join(f"{r[name]:.2g}" for r in rows[:2]) for name in ("tokens", "times as slow"))
    picture = curves(
        f"Forward pass of attention, d_model = {D_MODEL}, {HEADS} heads",
        "tokens",
        "milliseconds",
        {name: [(row["tokens"], row[f"{name}, ms"]) for row in rows] for name in kinds},
        log_x=True,
        log_y=True,
    )
    because = (
        f"Both have n² · d_k multiplications a head for the scores. At {last['tokens']} tokens additive "
        f"scores take {last['times as slow, least']:.0f} to {last['times as slow, most']:.0f} times as long "
        f"in three rounds, projections included, and {last['times the memory']:.0f} times the memory: in "
        "this implementation tanh is computed for n² · d_k sums, which are all in memory at once. At "
        f"{short} tokens additive scores take {times} times as long."
    )
    holds = min(last["times as slow, least"], last["times the memory"]) > 2
    return Result({"Time and memory": rows}, picture, verdict_of(holds), because)

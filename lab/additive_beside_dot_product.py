"""Times a forward pass of multi-head attention with scaled dot products and with additive scores, of the same
sizes, and counts the numbers that each keeps in memory to compute its scores: n · n a head for dot products,
n · n · d_k for additive scores. Both have the same number of multiplications. The time is the least of
several passes with one thread.
"""

import time

import torch

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.variants import AdditiveMultiHeadAttention
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves

CLAIM = Claim(
    title="Additive attention compared with dot products",
    section="3.2.1",
    claim="Dot-product attention is much faster and more space-efficient in practice than additive "
    "attention, though the two are similar in theoretical complexity.",
    claimed_by="the paper, section 3.2.1",
)
D_MODEL, HEADS = 256, 4


def seconds(name: str, tokens: int, passes: int) -> float:
    """The least time of a forward pass over one text."""
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
    return least


def run(quick: bool) -> Result:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that other programs of the machine disturb less
    lengths, passes = ((16, 64, 128), 2) if quick else ((16, 32, 64, 128, 256, 512), 20)
    kinds = ("dot products", "dot products, fused", "additive")
    d_k, rows = D_MODEL // HEADS, []
    for tokens in lengths:
        row = {"tokens": tokens} | {f"{name}, ms": 1e3 * seconds(name, tokens, passes) for name in kinds}
        row["times as slow"] = row["additive, ms"] / row["dot products, ms"]
        row["dot products, kB of scores"] = 4 * HEADS * tokens**2 / 1000
        row["additive, kB of scores"] = 4 * HEADS * tokens**2 * d_k / 1000
        rows.append(row)
    torch.set_num_threads(threads)
    last = rows[-1]
    picture = curves(
        f"Forward pass of attention, d_model = {D_MODEL}, {HEADS} heads",
        "tokens",
        "milliseconds",
        {name: [(row["tokens"], row[f"{name}, ms"]) for row in rows] for name in kinds},
        log_x=True,
        log_y=True,
    )
    because = (
        f"Both have n² · d_k multiplications a head. At {last['tokens']} tokens additive scores take "
        f"{last['times as slow']:.0f} times as long, projections included, and {d_k} times the memory: tanh "
        "is computed for n² · d_k sums, which is not a matrix product."
    )
    return Result({"Time and memory": rows}, picture, verdict_of(last["times as slow"] > 2), because)

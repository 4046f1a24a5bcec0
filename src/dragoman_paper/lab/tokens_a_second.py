"""Times the training of an LSTM with dot-product attention and of a Transformer, both of width 128 with one
layer a side, on texts of 8 to 128 letters with the same number of tokens a batch. Each of three seeds gives
other weights and texts; the fastest of several updates counts.
"""

import time
from dataclasses import replace
from itertools import pairwise
from statistics import mean

import torch

from dragoman.model.costs import count_parameters, multiply_adds_per_target_token
from dragoman.model.interface import Model
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.training import TINY, VOCABULARY, reversing, short, spread, train

CLAIM = Claim(
    title="Tokens per second of an RNN and a Transformer",
    section="4",
    claim="At the same width a Transformer trains more tokens a second than a recurrent model, because it "
    "reads all positions at once.",
    claimed_by="the paper, sections 1 and 4",
)
WIDE = replace(TINY, d_model=128, d_ff=512, encoder_layers=1, decoder_layers=1)
MODELS = {"Transformer": WIDE, "LSTM": replace(WIDE, architecture="lstm", attention_score="dot")}
LENGTHS, TOKENS = (8, 32, 128), 512


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 12)
    rows = []
    for length in LENGTHS:
        for name, settings in MODELS.items():
            for seed in seeds:
                ends: list[float] = []

                def watch(step: int, model: Model, nll: float, ends: list[float] = ends) -> None:
                    ends.append(time.perf_counter())

                pairs = TOKENS // length
                train(settings, reversing(length, length), updates, seed, pairs=pairs, watch=watch)
                seconds = min(b - a for a, b in pairwise(ends))
                rate = pairs * (length + 1) / seconds
                size = {
                    "parameters": count_parameters(settings, VOCABULARY, VOCABULARY),
                    "multiply-adds a token": multiply_adds_per_target_token(settings, VOCABULARY, length + 1),
                }
                rows.append({"letters": length, "model": name, "seed": seed, "tokens a second": rate} | size)

    def of(name: str, length: int) -> list[float]:
        return [r["tokens a second"] for r in rows if (r["model"], r["letters"]) == (name, length)]

    picture = curves(
        "Speed of training, width 128",
        "letters of a text",
        "target tokens a second",
        {name: [(length, mean(of(name, length))) for length in LENGTHS] for name in MODELS},
        f"Mean of {len(seeds)} seeds.",
        log_x=True,
        log_y=True,
    )
    ratios = {n: [a / b for a, b in zip(of("Transformer", n), of("LSTM", n), strict=True)] for n in LENGTHS}
    operations = {(row["letters"], row["model"]): row["multiply-adds a token"] for row in rows}
    fewer = {n: operations[n, "LSTM"] / operations[n, "Transformer"] for n in LENGTHS}
    faster = [n for n in LENGTHS if min(ratios[n]) > max(1, fewer[n])]
    where = "" if len(faster) == len(LENGTHS) else f" on texts of {' or '.join(map(str, faster))} letters"
    shown = "; ".join(f"{n} letters: {spread(ratios[n])} and {fewer[n]:.2f}" for n in LENGTHS)
    return Result(
        {"Speed": rows},
        picture,
        verdict_of(bool(faster), f"for the speed{where}: its reason is not separated from small operations"),
        "A Transformer's tokens a second over an LSTM's, and the LSTM's multiply-adds a token over the "
        f"Transformer's, by length of the texts: {shown}. Where the first number is larger for every seed, "
        "fewer operations do not explain the speed: the LSTM has a step for every token, one after another. "
        f"The number of CPU threads is {torch.get_num_threads()}, and at {LENGTHS[-1]} letters a step of the "
        f"LSTM has only {TOKENS // LENGTHS[-1]} texts: the cost of waiting and that of many small operations "
        "are not separated.",
    )

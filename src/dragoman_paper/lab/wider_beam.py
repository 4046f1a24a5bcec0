"""Searches in a model of nine words whose next-word probabilities are a table, with beams of growing width
and without a length penalty. The probability of every translation can be read from the table.
"""

import math
from itertools import pairwise

import torch

from dragoman.model.symbols import END
from dragoman.search.beam import beam_search
from dragoman.search.settings import SearchSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.table_model import TableModel

CLAIM = Claim(
    title="A wider beam and the probability of its translation",
    section="6.1",
    claim="A wider beam never finds a less probable translation.",
    claimed_by="folklore",
)
FOLLOWING = {
    "<s>": {"a": 0.55, "b": 0.45},
    "a": {"x": 0.4, "y": 0.3, "z": 0.3},
    "b": {"p": 0.5, "q": 0.5},
    "p": {"r": 0.5, "s": 0.5},
    "q": {"r": 0.5, "s": 0.5},
}


def run(quick: bool) -> Result:
    model, rows = TableModel("abxyzpqrs", FOLLOWING), []
    for beam in (1, 2, 3, 4, 8):
        settings = SearchSettings(beam_size=beam, length_penalty=0.0)
        ((found,),) = beam_search(model, torch.tensor([[4, END]]), settings)
        probability = math.exp(found.log_probability)
        rows.append({"beam": beam, "translation": model.text(found.ids), "probability": probability})
    pairs = pairwise(rows)
    falls = [wider for narrower, wider in pairs if wider["probability"] < narrower["probability"] - 1e-6]
    shown = {f"beam {row['beam']}: {row['translation']}": row["probability"] for row in rows}
    picture = bars("What a beam finds", "probability of the translation", {"": shown})
    greedy, two, *_ = rows
    return Result(
        {"The same model, the same source": rows},
        picture,
        verdict_of(not falls),
        f"Greedy search finds “{greedy['translation']}” with {greedy['probability']:.2f}. Beam 2 keeps “b "
        f"p” and “b q”, 0.225 each, in place of “a x”, 0.22, and ends with {two['probability']:.4f}. Beam 3 "
        "keeps all three.",
    )

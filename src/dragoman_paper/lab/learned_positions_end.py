"""Gives sentences of growing length to a model with a learned table of positions and to one with sinusoids,
and computes the gradient of the learned table for a batch: rows beyond its longest sentence get none.
"""

from dataclasses import replace

import torch

from dragoman.system.errors import DragomanError
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL, random_sentences, random_transformer

CLAIM = Claim(
    title="A learned table of positions has an end",
    section="3.5",
    claim="A learned table of positions serves sentences of any length, as sinusoids do.",
    claimed_by="folklore (Table 3, row E, where both have nearly the same quality)",
)
ROWS, LONGEST = 32, 12


def answer(kind: str, length: int) -> str:
    """What a model says of a sentence of this length."""
    model = random_transformer(replace(SMALL, positions=kind, max_positions=ROWS))
    try:
        with torch.no_grad():
            model.encode(random_sentences([length]))
    except DragomanError as error:
        return f"refused: {error}"
    return "encoded"


def run(quick: bool) -> Result:
    lengths = (ROWS, ROWS + 1, 300)
    rows = [
        {"tokens": length, "learned": answer("learned", length), "sinusoids": answer("sinusoidal", length)}
        for length in lengths
    ]
    model = random_transformer(replace(SMALL, positions="learned", max_positions=ROWS))
    output = model.encode(random_sentences([LONGEST, 5, 7])).encoder_output
    assert output is not None
    torch.manual_seed(1)
    (output * torch.randn_like(output)).sum().backward()  # a sum of squares is constant after LayerNorm
    norms = model.source_positions.table.grad.norm(dim=1).tolist()  # [ROWS]
    trained = sum(norm > 0 for norm in norms)
    refused = [row["tokens"] for row in rows if row["learned"] != "encoded"]
    served = [row["tokens"] for row in rows if row["sinusoids"] == "encoded"]
    picture = curves(
        f"Gradient of the table for a batch whose longest sentence has {LONGEST} tokens",
        "position",
        "norm of the row's gradient",
        {"learned table": list(enumerate(norms))},
    )
    return Result(
        {
            f"A table of {ROWS} rows": rows,
            "Gradient by position": [{"position": p, "norm": norm} for p, norm in enumerate(norms)],
        },
        picture,
        verdict_of(not refused and trained == ROWS),
        f"A table of {ROWS} rows refuses {' and '.join(map(str, refused))} tokens; sinusoids encode "
        f"{', '.join(map(str, served))}. A batch whose longest sentence has {LONGEST} tokens gives a "
        f"gradient to {trained} rows; the others keep their random initial values.",
    )

"""Translates with a model that cannot end a sentence, by greedy and by beam search, and counts the tokens
until the search ends it, with this package's default limit and with that of the authors' code.
"""

from dataclasses import replace

import torch

from dragoman.model.symbols import END
from dragoman.search.beam import beam_search, greedy_search
from dragoman.search.settings import SearchSettings
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import SMALL, random_sentences, random_transformer

CLAIM = Claim(
    title="This package's limit of a translation",
    section="6.1",
    claim="This package's limit is the paper's: 50 tokens more than the source.",
    claimed_by="this package; the paper, section 6.1 (“input length + 50”)",
)
PAPER = 50
LIMITS = {"this package's default": SearchSettings(), "Tensor2Tensor's": SearchSettings(max_extra_tokens=100)}


def run(quick: bool) -> Result:
    model = random_transformer(replace(SMALL, output_bias=True, encoder_layers=1, decoder_layers=1)).float()
    model.output_bias.data[END] = -1e4  # END is never chosen before the limit
    rows = []
    for tokens in (1, 4, 10) if quick else (1, 4, 10, 25, 50):
        source = random_sentences([tokens + 1])  # END is one more
        row = {"source tokens": tokens}
        for name, settings in LIMITS.items():
            with torch.no_grad():
                ((greedy,),) = greedy_search(model, source, settings)
                ((beam,),) = beam_search(model, source, settings)
            assert len(greedy.ids) == len(beam.ids)
            row[name] = len(greedy.ids)
        rows.append(row)
    more = {name: {row[name] - row["source tokens"] for row in rows} for name in LIMITS}
    shown = "; ".join(f"{name}: {' or '.join(map(str, sorted(found)))}" for name, found in more.items())
    picture = curves(
        "Tokens of a translation that does not end",
        "source tokens",
        "tokens",
        {name: [(row["source tokens"], row[name]) for row in rows] for name in LIMITS},
    )
    return Result(
        {"Greedy and beam search": rows},
        picture,
        verdict_of(more["this package's default"] == {PAPER}),
        f"Tokens of a translation that does not end, more than its source, by limit: {shown}. Greedy and "
        f"beam search agree. The paper's limit is {PAPER}.",
    )

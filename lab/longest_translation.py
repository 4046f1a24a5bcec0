"""Translates with a model that cannot end a sentence, by greedy and by beam search, and counts the tokens
until the search ends it, with the limit of the paper and with that of the authors' code.
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
    title="The longest translation",
    section="6.1",
    claim="The maximum output length is the input's length + 50 tokens.",
    claimed_by="the paper, section 6.1",
    topics=("T5",),
)


def run(quick: bool) -> Result:
    model = random_transformer(replace(SMALL, output_bias=True, encoder_layers=1, decoder_layers=1)).float()
    model.output_bias.data[END] = -1e4  # END is never chosen before the limit
    rows = []
    for tokens in (1, 4, 10) if quick else (1, 4, 10, 25, 50):
        source = random_sentences([tokens + 1])  # END is one more
        row = {"source tokens": tokens}
        for name, extra in (("the paper", 50), ("Tensor2Tensor", 100)):
            settings = SearchSettings(max_extra_tokens=extra)
            with torch.no_grad():
                ((greedy,),) = greedy_search(model, source, settings)
                ((beam,),) = beam_search(model, source, settings)
            assert len(greedy.ids) == len(beam.ids)
            row[f"translation, {name}"] = len(greedy.ids)
        rows.append(row)
    exact = all(row["translation, the paper"] == row["source tokens"] + 50 for row in rows)
    picture = curves(
        "Tokens of a translation that does not end",
        "source tokens",
        "tokens",
        {
            name: [(row["source tokens"], row[f"translation, {name}"]) for row in rows]
            for name in ("the paper", "Tensor2Tensor")
        },
    )
    return Result(
        {"Greedy and beam search": rows},
        picture,
        verdict_of(exact),
        "A translation that does not end has exactly 50 tokens more than its source, by greedy and by beam "
        "search. Tensor2Tensor's decoder allows 100 tokens more than the source.",
    )

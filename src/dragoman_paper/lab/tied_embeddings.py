"""Counts the parameters of models with no, two-way and three-way tied embeddings, from the built model and by
the formula, and checks that tied weights are one tensor in memory. Multiply-adds are the same.
"""

from dataclasses import replace

from dragoman.model.costs import count_parameters, multiply_adds_by_part
from dragoman.model.settings import PRESETS
from dragoman.model.weights import weights
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import SMALL, VOCABULARY, random_transformer
from dragoman_paper.tables.published import PAPER_VOCABULARY

CLAIM = Claim(
    title="What tied embeddings save",
    section="3.4",
    claim="Sharing one matrix among both embeddings and the output projection saves two matrices of V · "
    "d_model.",
    claimed_by="Press and Wolf (2017), to whom the paper refers in section 3.4",
    topics=("T11",),
)


def run(quick: bool) -> Result:
    rows, shown = [], {}
    for name, base, vocabulary in (
        ("small", SMALL, VOCABULARY),
        ("base", PRESETS["base"], PAPER_VOCABULARY),
        ("big", PRESETS["big"], PAPER_VOCABULARY),
    ):
        counts = {}
        for tied in ("none", "target", "all"):
            settings = replace(base, tied=tied)
            counts[tied] = count_parameters(settings, vocabulary, vocabulary)
            if name == "small":  # the formula's count is that of the built model
                model = random_transformer(settings)
                assert sum(weight.numel() for weight in weights(model).values()) == counts[tied]
                assert (model.output.weight is model.target_embedding.weight) == (tied != "none")
                assert (model.output.weight is model.source_embedding.weight) == (tied == "all")
            adds = multiply_adds_by_part(settings, vocabulary, 25, 25)["logits"]
            saved = counts["none"] - counts[tied]
            rows.append(
                {
                    "model": name,
                    "tied": tied,
                    "parameters": counts[tied],
                    "saved": saved,
                    "matrices of V · d_model saved": saved / (vocabulary * base.d_model),
                    "multiply-adds of the logits": adds,
                }
            )
        shown[name] = {tied: count / 1e6 for tied, count in counts.items()}
    exact = all(
        row["matrices of V · d_model saved"] == {"none": 0, "target": 1, "all": 2}[row["tied"]]
        for row in rows
    )
    base_rows = [row for row in rows if row["model"] == "base"]
    del shown["small"]
    picture = bars("Parameters with tied embeddings, 37,000 tokens", "million parameters", shown)
    return Result(
        {"Parameters": rows},
        picture,
        verdict_of(exact),
        f"Exactly two matrices: base has {base_rows[2]['parameters'] / 1e6:.1f} million parameters in place "
        f"of {base_rows[0]['parameters'] / 1e6:.1f}. The multiply-adds are the same: a look-up has none, "
        "and the logits need the product with the matrix in either case.",
    )

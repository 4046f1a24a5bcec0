"""Counts the parameters of the models of Table 3 by a formula written out by hand, by the package from the
shapes of its weights, and, for a small model, from the built module. Then computes which sizes of the
vocabulary give the paper's rounded figures.
"""

from dragoman.model.costs import count_parameters
from dragoman.model.settings import ModelSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import SMALL, VOCABULARY, random_transformer
from dragoman_paper.paper_map.report import parameter_rows
from dragoman_paper.tables.published import PAPER_VOCABULARY
from dragoman_paper.tables.table3 import TABLE3

CLAIM = Claim(
    title="Parameters computed by hand and in Table 3",
    section="6.2",
    claim="Base has 65 million parameters and big 213 million, with a vocabulary of about 37,000 tokens.",
    claimed_by="the paper, Table 3 and section 5.1",
)


def by_hand(model: ModelSettings, vocabulary: int) -> int:
    """Embeddings once, then every matrix, bias and gain of the layers."""
    d, ff, wide = model.d_model, model.d_ff, model.heads * (2 * model.key_width + 2 * model.value_width)
    attention = d * wide  # W^Q, W^K, W^V and W^O of all heads
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    encoder = model.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = model.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    return vocabulary * d + encoder + decoder


def run(quick: bool) -> Result:
    built = sum(weight.numel() for weight in random_transformer(SMALL).parameters())
    assert by_hand(SMALL, VOCABULARY) == built == count_parameters(SMALL, VOCABULARY, VOCABULARY)
    models = {row.name: row.model for row in TABLE3.rows}
    rows = []
    for row in parameter_rows():
        fewest, most = row.explained_by
        rows.append(
            {
                "row": row.row,
                "by hand": by_hand(models[row.row], PAPER_VOCABULARY),
                "counted": row.ours,
                "the paper, million": row.paper,
                "fewest tokens that explain it": fewest,
                "most": most,
            }
        )
    equal = all(row["by hand"] == row["counted"] for row in rows)
    base, big = (row for row in rows if row["row"] in ("base", "big"))
    fewest = max(row["fewest tokens that explain it"] for row in (base, big))
    most = min(row["most"] for row in (base, big))
    one = fewest <= most
    near = one and fewest <= PAPER_VOCABULARY * 1.1 and most >= PAPER_VOCABULARY * 0.9
    both = f"{fewest:,} to {most:,} tokens explain both" if one else "no single vocabulary explains both"
    picture = bars(
        "Parameters of Table 3",
        "million parameters",
        {
            row["row"]: {"counted": row["counted"] / 1e6, "the paper": row["the paper, million"]}
            for row in rows
        },
    )
    return Result(
        {f"{PAPER_VOCABULARY:,} tokens": rows},
        picture,
        verdict_of(equal and one, "" if near else f"the vocabulary has {fewest:,} to {most:,} tokens"),
        f"The formula and the package give the same number in all {len(rows)} rows. With "
        f"{PAPER_VOCABULARY:,} tokens base has {base['counted'] / 1e6:.1f} and big {big['counted'] / 1e6:.1f}"
        " million. The paper's "
        f"figures need {base['fewest tokens that explain it']:,} to {base['most']:,} tokens for base and "
        f"{big['fewest tokens that explain it']:,} to {big['most']:,} for big: {both}.",
    )

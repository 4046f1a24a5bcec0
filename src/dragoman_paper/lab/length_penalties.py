"""Scores a shorter and a longer translation by the length penalties of several toolkits, all with 0.6, and
computes how much less probable the longer one may be and still win.
"""

from dragoman.search.hypothesis import length_normalization
from dragoman.search.settings import SearchSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="A length penalty of 0.6",
    section="6.1",
    claim="A length penalty of 0.6 means the same in every toolkit.",
    claimed_by="folklore (recipes that copy the paper's α)",
    topics=("T7",),
)
ALPHA, SHORT, LONGER = 0.6, 10, (11, 15, 20, 30, 40)
PENALTIES = {
    "the paper, Tensor2Tensor, OpenNMT-py (wu), JoeyNMT: ((5 + L) / 6)^α": lambda length: (
        length_normalization(float(length), SearchSettings(length_penalty=ALPHA))
    ),
    "fairseq, Hugging Face, CTranslate2, Marian, Sockeye: L^α": lambda length: length_normalization(
        float(length), SearchSettings(length_power=ALPHA)
    ),
    "Sockeye with b = 1: ((1 + L) / 2)^α": lambda length: ((1 + length) / 2) ** ALPHA,
    "none": lambda _: 1.0,
}
NLL = 1.0 * SHORT
"""Nats of the shorter translation: 1 a token."""


def run(quick: bool) -> Result:
    rows, shown = [], {name: [] for name in PENALTIES}
    for longer in LONGER:
        row: dict[str, float] = {"tokens of the longer": longer}
        for name, penalty in PENALTIES.items():
            allowed = NLL * penalty(longer) / penalty(SHORT) - NLL  # equal scores
            row[name] = allowed
            shown[name].append((longer, allowed))
        rows.append(row)
    names = list(PENALTIES)
    apart = any(abs(row[names[1]] - row[names[0]]) > 1e-9 for row in rows)
    twenty = rows[LONGER.index(20)]
    choose = NLL + (twenty[names[0]] + twenty[names[1]]) / 2
    winners = {
        name: "longer" if choose / penalty(20) < NLL / penalty(SHORT) else "shorter"
        for name, penalty in PENALTIES.items()
    }
    example = [{"penalty": name, "wins": winner} for name, winner in winners.items()]
    picture = curves(
        "How much less probable a longer translation may be and win",
        "tokens of the longer translation",
        "nats",
        shown,
        f"The shorter translation has {SHORT} tokens and {NLL:g} nats.",
    )
    return Result(
        {
            "Nats that the longer translation may lose": rows,
            f"{SHORT} tokens of {NLL:g} nats or 20 of {choose:.2f}": example,
        },
        picture,
        verdict_of(not apart),
        f"With {ALPHA}, a translation of 20 tokens beats one of {SHORT} tokens and {NLL:g} nats if it is at "
        f"most {twenty[names[0]]:.1f} nats less probable by the paper's formula, {twenty[names[1]]:.1f} by "
        f"L^α and {twenty[names[2]]:.1f} by Sockeye's with b = 1: the same search keeps the shorter in one "
        "toolkit and the longer in another. These numbers are proportional to the nats of the shorter one.",
    )

"""Trains Transformers to reverse texts of 4 to 8 letters, with sinusoids, learned positions or none, and lets
them reverse shorter and longer texts.
"""

from dataclasses import replace
from statistics import mean

from dragoman.model.settings import ModelSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.training import TINY, examples, reversing, short, spread, token_accuracy, train

CLAIM = Claim(
    title="Texts longer than those of training",
    section="3.5",
    claim="With sinusoids a model keeps its accuracy on texts that are longer than those of training.",
    claimed_by="tutorials; the paper, section 3.5, says that sinusoids may allow this",
)
LENGTHS = (4, 6, 8, 9, 10, 12, 16)
LONGEST = 8
SCHEMES: dict[str, ModelSettings] = {
    "sinusoidal": TINY,
    "learned": replace(TINY, positions="learned", max_positions=32),
    "none": replace(TINY, positions="none"),
}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 300)
    rows = []
    for name, settings in SCHEMES.items():
        for seed in seeds:
            model = train(settings, reversing(4, LONGEST), updates, seed)
            for length in LENGTHS:
                accuracy = token_accuracy(model, examples(reversing(length, length), seed, 100))
                rows.append({"positions": name, "seed": seed, "letters": length, "accuracy": accuracy})

    def found(name: str, length: int) -> list[float]:
        return [row["accuracy"] for row in rows if (row["positions"], row["letters"]) == (name, length)]

    picture = curves(
        "Tokens reversed, by length",
        "letters of the text",
        "accuracy of a token",
        {name: [(length, mean(found(name, length))) for length in LENGTHS] for name in SCHEMES},
        f"Trained on 4 to {LONGEST} letters for {updates} updates; mean of {len(seeds)} seeds.",
    )
    inside, beyond = ({name: found(name, length) for name in SCHEMES} for length in (LONGEST, 12))
    kept = {name: mean(beyond[name]) / mean(inside[name]) for name in SCHEMES}
    shown = "; ".join(f"{name} {spread(inside[name])} and {spread(beyond[name])}" for name in SCHEMES)
    return Result(
        {"Accuracy by length": rows},
        picture,
        verdict_of(kept["sinusoidal"] > 0.9, decided=min(inside["sinusoidal"]) > 0.5),
        f"Tokens right at {LONGEST} letters, the longest of training, and at 12: {shown}. Sinusoids have a "
        f"vector for every position, but with them the model keeps {kept['sinusoidal']:.0%} of its accuracy "
        f"at 1.5 times the longest length; the model without positions, which learns less of the task, "
        f"keeps {kept['none']:.0%}. “Keeps” is more than 90%. The paper did not measure it.",
    )

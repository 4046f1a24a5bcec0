"""Tests seven positional encodings by four criteria of tutorials. The code of a position has to be unique,
the same in sentences of every length, bounded for all tested lengths, and deterministic. Kazemnejad asks for
consistent distances at every length, for which the same codes suffice, and for a model that generalises to
longer sentences, which is not tested here: see lengths-beyond-training. All positions of sentences of several
lengths are tested; the smallest distance between two codes is computed too.
"""

from collections.abc import Callable

import numpy as np

from dragoman.model.sinusoids import sinusoid_table
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of

CLAIM = Claim(
    title="Criteria for a positional encoding",
    section="3.5",
    claim="Sinusoids are unique for each position, independent of the sentence's length, bounded, and "
    "deterministic; pos, pos / L, one sine, and codes drawn for each sentence are not all of these.",
    claimed_by="tutorials (after the criteria of Kazemnejad)",
)
D_MODEL = 64
LACKING = ("pos", "pos / L", "sin(2π · pos / 100)", "random for each sentence")
CRITERIA = ("unique", "independent of length", "bounded", "deterministic")


def codes_of_positions(seed: int) -> dict[str, Callable[[int], np.ndarray]]:
    """The codes by their names; each gives the codes of a sentence of so many tokens."""
    random = np.random.default_rng(seed)  # each sentence draws from where the one before it has stopped
    return {
        "sinusoids": lambda length: sinusoid_table(length, D_MODEL),
        "sin(2π · pos / 100)": lambda length: np.sin(np.arange(length) * 2 * np.pi / 100)[:, None],
        "pos": lambda length: np.arange(length, dtype=float)[:, None],
        "pos / L": lambda length: np.arange(length)[:, None] / length,
        "random for each sentence": lambda length: random.standard_normal((length, D_MODEL)).clip(-1, 1),
        "32 binary digits of pos": lambda length: np.arange(length)[:, None] >> np.arange(32) & 1,
        "pos / (1000 + pos)": lambda length: np.arange(length)[:, None] / (1000 + np.arange(length)[:, None]),
    }


def smallest_distance(codes: np.ndarray) -> float:
    """The least, over pairs of positions, of their largest difference in a feature."""
    return min(float(np.abs(codes[k:] - codes[:-k]).max(-1).min()) for k in range(1, len(codes)))


def judge(code: Callable[[int], np.ndarray], lengths: tuple[int, ...]) -> dict[str, str | float]:
    """The four criteria of a code, and the numbers that they are read from."""
    tables = {length: code(length) for length in lengths}
    shortest = min(lengths)
    repeated = [np.array_equal(code(length), table) for length, table in tables.items()]
    same = [np.allclose(table[:shortest], tables[shortest]) for table in tables.values()]
    distance = smallest_distance(tables[max(lengths)])
    most = max(np.abs(each).max() for each in tables.values())
    answers = (distance > 1e-6, all(same), most <= 1, all(repeated))
    words = {name: "yes" if answer else "no" for name, answer in zip(CRITERIA, answers, strict=True)}
    return words | {"smallest distance": distance, "largest magnitude": float(most)}


def run(quick: bool) -> Result:
    lengths = (10, 50, 300) if quick else (10, 50, 300, 3000)
    rows = [{"code": name, **judge(code, lengths)} for name, code in codes_of_positions(seed=1).items()]
    kept = [[1.0 if row[name] == "yes" else 0.0 for name in CRITERIA] for row in rows]
    names = [str(row["code"]) for row in rows]
    meet = [name for name, each in zip(names, kept, strict=True) if min(each) == 1]
    picture = matrices(
        "Criteria that each code meets",
        "1: met, 0: not met",
        {f"up to {max(lengths):,} positions": np.array(kept)},
        Side("code", names),
        Side("criterion", CRITERIA),
    )
    because = (
        f"Of {len(rows)} codes, these meet all four: {', '.join(meet)}. So the criteria do not single out "
        f"one code. Up to length {max(lengths):,} any two positions of the sinusoids differ by at least "
        f"{rows[0]['smallest distance']:.2g} in some feature."
    )
    holds = "sinusoids" in meet and not {*LACKING} & {*meet}
    return Result({"Criteria": rows}, picture, verdict_of(holds), because)

"""Trains a Transformer of one layer on each side on eight sentences, and computes a translation from its
weights in plain NumPy, with the numbers of each step. The result is compared with the package's model.
"""

import numpy as np
import torch

from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, START
from dragoman.model.weights import weights
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, Row, verdict_of
from dragoman_paper.lab.parts.numpy_transformer import (
    Vector,
    add_and_norm,
    embed,
    feed_forward,
    multi_head,
    softmax,
)
from dragoman_paper.lab.parts.training import Pair, paper_rate, train

CLAIM = Claim(
    title="One translation, in numbers",
    section="3.1",
    claim="Each sub-layer's output between three words and the next word can be computed by hand.",
    claimed_by="walkthroughs in study notes and animations",
)
MODEL = ModelSettings(d_model=8, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
VERBS = {"we like": "wir mögen", "we buy": "wir kaufen", "you like": "ihr mögt", "you buy": "ihr kauft"}
OBJECTS = {"tea": "Tee", "milk": "Milch"}
SENTENCES = [(f"{a} {b}", f"{VERBS[a]} {OBJECTS[b]}") for a in VERBS for b in OBJECTS]
NEXT = "wir ihr mögen mögt kaufen kauft Tee Milch END"
WORDS = f"{NEXT} START we you like buy tea milk".split()
IDS = dict(zip(WORDS, (*range(4, 12), END, START, *range(12, 18)), strict=True))
SOURCE, TARGET, LAST = "we like tea END", "START wir mögen", "probabilities of the next word"


def ids(text: str) -> list[int]:
    return [IDS[word] for word in text.split()]


def some_sentence(generator: np.random.Generator) -> Pair:
    source, target = SENTENCES[generator.integers(len(SENTENCES))]
    return ids(source), ids(target)


def run(quick: bool) -> Result:
    model = train(MODEL, some_sentence, 60 if quick else 600, 1, lambda step: 2 * paper_rate(step)).double()
    named = {name: weight.numpy() for name, weight in weights(model).items()}
    embeddings, steps = named["target_embedding.weight"], {}

    def step(part: str, x: list[Vector], memory: list[Vector] | None = None) -> list[Vector]:
        if memory is None:
            y = [feed_forward(each, named, part) for each in x]
        else:
            y = multi_head(x, memory, part == "decoder.0.self_attention", named, part, MODEL)
        name, norm = part.replace(".0.", ": ").replace("_", "-"), f"{part}_residual.norm"
        steps[name], added = y, add_and_norm(x, y, named, norm, MODEL.norm_epsilon)
        steps[f"{name}, added and normalised"] = added
        return added

    x = steps["encoder: words + positions"] = embed(ids(SOURCE), embeddings)
    memory = step("encoder.0.feed_forward", step("encoder.0.self_attention", x, x))
    x = steps["decoder: words + positions"] = embed(ids(TARGET), embeddings)
    x = step("decoder.0.cross_attention", step("decoder.0.self_attention", x, x), memory)
    x = step("decoder.0.feed_forward", x)
    ours = np.stack([softmax(embeddings @ each) for each in x])
    features, _ = model.decode(torch.tensor([ids(TARGET)]), model.encode(torch.tensor([ids(SOURCE)])))
    theirs = model.logits(features).softmax(-1)[0].detach().numpy()
    error, chances = float(np.abs(ours - theirs).max()), ours[:, ids(NEXT)]
    shown = {name: np.stack(rows) for name, rows in steps.items()} | {LAST: chances}
    words = {name: Side("word", (SOURCE if name[0] == "e" else TARGET).split()) for name in shown}
    features = [str(place) for place in range(1, MODEL.d_model + 1)]
    columns = dict.fromkeys(steps, Side("feature", features)) | {LAST: Side("next word", NEXT.split())}
    tables: dict[str, list[Row]] = {name: [] for name in shown}
    for name, rows in shown.items():
        for word, row in zip(words[name].labels, rows, strict=True):
            tables[name].append({"word": word} | dict(zip(columns[name].labels, row.tolist(), strict=True)))
    title, unit = f"“{SOURCE}”, “{TARGET} …”", "number, divided by the largest magnitude of its matrix"
    return Result(
        tables,
        matrices(title, unit, shown, words, columns, numbers=True, own_scales=True),
        verdict_of(error < 1e-5),
        f"The {len(shown)} steps give the package's probabilities to within {error:.0e}. The likeliest "
        f"word after “wir mögen” is “{WORDS[chances[-1].argmax()]}” ({chances[-1].max():.2f}).",
    )

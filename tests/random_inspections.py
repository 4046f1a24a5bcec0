"""Inspections with random numbers of random shapes, in which sides, layers and widths differ in size."""

from dataclasses import replace

import numpy as np

from dragoman.inspection.analyse.ablation import HeadEffects
from dragoman.inspection.analyse.attribution import Attribution
from dragoman.inspection.analyse.methods import METHODS, UNSIGNED
from dragoman.inspection.analyse.value_zeroing import ValueZeroing
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.neighbours import Neighbours
from dragoman.inspection.record.neurons import Neurons
from dragoman.inspection.record.projected import Projected, Projections
from dragoman.inspection.record.record import AttentionWeights, ResidualStream
from dragoman.model.settings import ModelSettings
from dragoman.training.curves import Curve, Training, ValidationSample
from tests.projections import fake_masks
from tests.test_report import fake_inspection, likeliest, softmax


def random_words(random: np.random.Generator, tokens: int) -> tuple[int, ...]:
    """The word of each token; some words have several, and END is one of its own."""
    begins = random.random(tokens - 2) < 0.6
    words = [0, *np.cumsum(begins).tolist()]
    return (*words, words[-1] + 1)


def random_inspection(seed: int, tokens: int | None = None, **model: object) -> Inspection:
    """A Transformer's inspection with everything that a page shows; `model` replaces settings.

    `tokens` is the length of both sides; without it they differ.
    """
    random = np.random.default_rng(seed)
    source, target = (int(size) for size in random.choice(np.arange(6, 10), 2, replace=False))
    source, target = (tokens or source, tokens or target)
    layers = {"encoder": 2 + seed % 2, "decoder": 3 - seed % 2}
    heads, d_k, d_v, width = 3, 4, 5, 12
    depth = max(layers.values())
    known = fake_inspection(source, target, depth, heads, width)
    sizes = {"encoder": source, "decoder": target}

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    def projected(side: str, keys: int, allowed: np.ndarray) -> Projected:
        places = (layers[side], heads)
        queries = sizes[side]
        return Projected(
            normal(*places, queries, d_k),
            normal(*places, keys, d_k),
            normal(*places, keys, d_v),
            allowed,
            normal(*places, queries, d_v),
        )

    every = np.ones((1, source), bool)
    stream = {side: random.uniform(5, 30, (count + 1, sizes[side])) for side, count in layers.items()}
    stream |= {
        f"{side}_sublayers": random.uniform(1, 20, (layers[side], parts, sizes[side]))
        for side, parts in (("encoder", 2), ("decoder", 3))
    }
    words = random_words(random, source), random_words(random, target)
    targets = random.permutation(words[1][-1])
    settings = {
        "d_model": width,
        "heads": heads,
        "d_k": d_k,
        "d_v": d_v,
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        **model,
    }
    known_tokens = list(dict.fromkeys([*known.source, *known.target]))
    nodes = list(known.nodes)
    finished = [number for number, node in enumerate(nodes) if node.end == "the search was over"][1:3]
    for number in finished:
        nodes[number] = replace(nodes[number], end="finished")
    for number, node in enumerate(nodes):
        if node.end == "below the beam":
            nodes[number] = replace(node, cut_by=number - int(random.integers(1, 4)))
    lens = [[likeliest(token, random) for token in known.target] for _ in range(layers["decoder"])]
    lens[0] = [(one[1], one[0], *one[2:]) if random.random() < 0.6 else one for one in lens[0]]
    lens[-1][1] = lens[-1][1][1:]
    modules = [module for module in known.modules if int(module.name.split(".")[1]) < layers[module.name[:7]]]
    modules = [replace(module, parameters=1000 + 7 * place) for place, module in enumerate(modules)]
    return replace(
        known,
        model=ModelSettings(**settings),
        nodes=tuple(nodes),
        source_words=words[0],
        target_words=words[1],
        source_ids=tuple(random.permutation(90)[:source].tolist()),
        target_ids=tuple(random.permutation(90)[:target].tolist()),
        alignment=tuple((int(random.integers(words[0][-1])), int(word)) for word in sorted(targets)[:-1]),
        attention=AttentionWeights(
            softmax(random, (layers["encoder"], heads, source, source)),
            softmax(random, (layers["decoder"], heads, target, target), np.tri(target, dtype=np.float32)),
            softmax(random, (layers["decoder"], heads, target, source)),
        ),
        stream=ResidualStream(**{name: array.astype(np.float32) for name, array in stream.items()}),
        lens=tuple(map(tuple, lens)),
        modules=tuple(modules),
        projections=Projections(
            projected("encoder", source, every),
            projected("decoder", target, np.tri(target, dtype=bool)),
            projected("decoder", source, every),
        ),
        masks=fake_masks(source, target, source),
        neurons=Neurons(*(random_activations(random, layers[side], sizes[side], 20) for side in layers)),
        positions=known.positions + (0.3 * normal(*known.positions.shape)),
        neighbours=(
            random_neighbours(random, known_tokens, "source embedding"),
            random_neighbours(random, known_tokens, "target embedding", "output projection"),
        ),
        attribution=random_attribution(random, known, layers["encoder"]),
        value_zeroing=ValueZeroing(
            softmax(random, (layers["encoder"], source, source)),
            softmax(random, (layers["decoder"], target, target), np.tri(target, dtype=np.float32)),
            softmax(random, (layers["decoder"], target, source)),
        ),
        head_effects=HeadEffects(
            -2.5,
            normal(layers["encoder"], heads) * (np.arange(heads) > 0),  # the first heads change nothing
            normal(layers["decoder"], heads),
            normal(layers["decoder"], heads),
        ),
        training=random_training(random),
    )


def random_activations(random: np.random.Generator, layers: int, tokens: int, width: int) -> np.ndarray:
    """Activations [L P F], of which some are 0, also at the place of a token all of a layer's."""
    numbers = random.normal(size=(layers, tokens, width)) * (random.random((layers, tokens, width)) < 0.6)
    numbers[0, 1] = 0
    return numbers.astype(np.float32)


def random_neighbours(random: np.random.Generator, tokens: list[str], *parts: str) -> Neighbours:
    """Neighbours of all tokens; some cosines are nearly 1."""

    def nearest(token: str) -> tuple[tuple[str, float], ...]:
        others = random.permutation([other for other in tokens if other != token])[:4]
        cosines = np.sort(np.append(random.uniform(-0.5, 0.9, 3), 0.9961))[::-1]
        return tuple((str(other), float(cosine)) for other, cosine in zip(others, cosines, strict=True))

    return Neighbours(parts, tuple((token, nearest(token)) for token in tokens))


def random_attribution(
    random: np.random.Generator, known: Inspection, layers: int, with_other: bool = False
) -> Attribution:
    """Contributions by all methods, of source tokens and of earlier target tokens."""
    target, read = len(known.target), len(known.source) + len(known.target)
    numbers = {method: random.normal(size=(target, read)).astype(np.float32) for method in METHODS}
    for method in UNSIGNED:
        numbers[method] = np.abs(numbers[method])
    array = random.normal(size=(layers, target, len(known.source))).astype(np.float32)
    totals = random.normal(size=(2, target)).astype(np.float32)
    other = tuple(f"▁not{place}" for place in range(target)) if with_other else ()
    return Attribution(known.source, known.target, known.decoder_inputs, numbers, array, *totals, other)


def random_training(random: np.random.Generator) -> Training:
    """Curves of several charts that end at different updates."""

    def points(steps: list[int], least: float) -> tuple[tuple[int, float], ...]:
        return tuple((step, round(least + float(random.random()), 3)) for step in steps)

    curves = (
        Curve("loss", "train", points([10, 20, 30, 40], 3)),
        Curve("loss", "validation", points([20, 40], 3)),
        Curve("BLEU", "validation", points([20, 60], 12)),
        Curve("learning rate", "train", points([10, 20, 30], 0.1)),
        Curve("learning rate", "schedule", points([10, 20, 30], 0.1)),
    )
    samples = (ValidationSample(20, "ein Satz", "a sentence", "a phrase"),)
    return Training(curves, samples, "2 · 32^−0.5 · min(n^−0.5, n · 10^−1.5)")

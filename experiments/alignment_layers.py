"""Which decoder layer's attention is the best word alignment? Measured where the alignment is known.

    OMP_NUM_THREADS=1 python experiments/alignment_layers.py     # a table in Markdown on standard output

A sentence is 4 to 8 random words and a full stop. Its translation has one word for each: nouns, verbs and
the full stop in their order, an adjective behind the noun that it precedes. The reordering is the alignment.
Tiny Transformers are trained on such pairs; `Translator.align` then aligns unseen pairs. Results: LOG.md.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path

from dragoman.model.settings import ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.run import run
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings
from dragoman.translation.translator import Translator

WORDS = [f"{kind}{number}" for kind in ("adjective", "noun", "verb") for number in range(8)]
Alignment = list[tuple[int, int]]


def pair(draws: random.Random) -> tuple[str, str, Alignment]:
    """A sentence, its translation, and their alignment as (source, target), counted from 0."""
    source = [*draws.choices(WORDS, k=draws.randint(4, 8)), "."]
    order = list(range(len(source)))
    for place in range(len(source) - 1):
        if source[order[place]].startswith("adjective") and source[order[place + 1]].startswith("noun"):
            order[place], order[place + 1] = order[place + 1], order[place]
    target = [source[place] if source[place] == "." else f"t{source[place]}" for place in order]
    return " ".join(source), " ".join(target), [(read, place) for place, read in enumerate(order)]


def trained(folder: Path, layers: int, heads: int, seed: int, updates: int) -> Translator:
    """A Transformer with so many layers on either side, trained on 5,000 pairs."""
    draws = random.Random(seed)  # noqa: S311
    pairs = [pair(draws) for _ in range(5_000)]
    paths = [folder / "train.source", folder / "train.target"]
    for path, side in zip(paths, list(zip(*pairs, strict=True))[:2], strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    recipe = Recipe(
        out=folder / "run",
        data=DataSettings(source=paths[0], target=paths[1]),
        tokenizer=TokenizerSettings(source_tokens="word", vocabulary=100),
        model=ModelSettings(
            d_model=32, d_ff=64, heads=heads, encoder_layers=layers, decoder_layers=layers, dropout=0.1
        ),
        batches=BatchSettings(source_tokens_per_batch=400, target_tokens_per_batch=400, accumulate=1),
        training=TrainingSettings(
            updates=updates, warmup_steps=100, validate_every=updates, checkpoint_every=updates, seed=seed
        ),
    )
    run(recipe)
    return Translator.load(recipe.out)


def share(alignments: list[Alignment], planted: list[Alignment]) -> float:
    """The percentage of planted links that were found."""
    hits = sum(len(set(one) & set(other)) for one, other in zip(alignments, planted, strict=True))
    return 100 * hits / sum(map(len, planted))


def main() -> None:
    """Train every model, align the unseen pairs by every layer and head, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 3, 4], help="decoder layers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--updates", type=int, default=800)
    asked = parser.parse_args()
    draws = random.Random(0)  # noqa: S311
    sources, targets, planted = map(list, zip(*(pair(draws) for _ in range(300)), strict=True))
    print("| layers | seed | right translations | layer | mean of heads | each head |")
    print("| --- | --- | --- | --- | --- | --- |")
    for layers in asked.layers:
        for seed in asked.seeds:
            with tempfile.TemporaryDirectory() as folder:
                translator = trained(Path(folder), layers, asked.heads, seed, asked.updates)
                written = translator.translate(sources, beam_size=1)
                right = statistics.mean(one == other for one, other in zip(written, targets, strict=True))
                for layer in range(1, layers + 1):
                    mean, *heads = (
                        share(
                            translator.align(list(zip(sources, targets, strict=True)), layer, head), planted
                        )
                        for head in (None, *range(1, asked.heads + 1))
                    )
                    each = ", ".join(f"{head:.0f}" for head in heads)
                    print(
                        f"| {layers} | {seed} | {right:.0%} | {layer} | {mean:.1f} % | {each} |", flush=True
                    )


if __name__ == "__main__":
    main()

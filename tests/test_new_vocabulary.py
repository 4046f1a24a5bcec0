"""A parent for a child: the weights of a model for another vocabulary (Kocmi and Bojar 2018)."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from dragoman.cli.doctor import with_languages_of_initial_model
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.weights import load_weights
from dragoman.pipeline.adaptation.new_vocabulary import mean_rows, parent_tokens, weights_of_vocabulary
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.translator import Translator
from tests.conftest import write_copies

WIDTH = 4
LANGUAGES = "--source-language", "en", "--target-language", "de"
words = st.lists(st.text("abcdeéß ", min_size=1, max_size=6).filter(str.strip), min_size=3, max_size=12)
kinds = st.sampled_from(["bpe", "unigram", "char", "word", "byte"])


@st.composite
def tokenizers(draw):
    """A small vocabulary of any kind."""
    lines, kind = draw(words), draw(kinds)
    made = TokenizerSettings(
        byte_fallback=draw(st.booleans()), symbols=draw(st.sampled_from([(), ("<bt>",), ("<x>", "<y>")]))
    )
    for size in (60, 300, 400):
        try:
            return Tokenizer.train(lines, kind, made, size)
        except DragomanError:  # too small for the characters and the bytes
            continue
    raise AssertionError


def pieces_of(tokenizer):
    return tokenizer.pieces(range(len(tokenizer)))


def random_weights(model: ModelSettings, vocabularies: Tokenizers):
    shapes = weight_shapes(model, len(vocabularies.source), len(vocabularies.target))
    return {name: torch.randn(shape) for name, shape in shapes.items()}


@settings(max_examples=15)
@given(tokenizers(), tokenizers())
def test_a_token_keeps_its_row_or_has_the_mean_of_what_it_is_made_of(parent, child):
    model = ModelSettings(d_model=WIDTH, d_ff=4, heads=1, encoder_layers=1, decoder_layers=1, tied="all")
    weights = random_weights(model, Tokenizers(parent, parent))
    new = weights_of_vocabulary(weights, Tokenizers(parent, parent), Tokenizers(child, child))
    rows, old = new["target_embedding.weight"], weights["target_embedding.weight"]
    known = pieces_of(parent)
    assert len(rows) == len(child)
    for token, (piece, made_of) in enumerate(
        zip(pieces_of(child), parent_tokens(parent, child), strict=True)
    ):
        if piece in known:
            assert torch.equal(rows[token], old[known.index(piece)])
        else:
            assert torch.allclose(rows[token], sum(old[part] for part in made_of) / len(made_of), atol=1e-6)
            if UNKNOWN not in made_of:  # the parent can write it
                text = parent.decode(made_of)
                assert text.replace(" ", "") == piece.replace("▁", "")
    for token in (PAD, UNKNOWN, START, END):
        assert torch.equal(rows[token], old[token])
    for name in weights.keys() - {"target_embedding.weight"}:
        assert new[name] is weights[name]


def test_a_piece_within_a_word_is_no_beginning_of_one():
    lines = ["ab abc bc c", "a b c"] * 5
    parent = Tokenizer.train(lines, "bpe", TokenizerSettings(byte_fallback=False), 14)
    parts = parent.parts(["▁abab", "abab", "▁", "bca"])
    assert ["".join(parent.pieces(ids)) for ids in parts] == ["▁abab", "abab", "▁", "bca"]


@pytest.mark.long
@settings(max_examples=20)
@given(tokenizers(), tokenizers(), st.sampled_from(["none", "target"]), st.booleans())
def test_the_vocabulary_of_the_parent_itself_changes_nothing(source, target, tied, has_bias):
    model = ModelSettings(
        d_model=WIDTH, d_ff=4, heads=1, encoder_layers=1, decoder_layers=1, tied=tied, output_bias=has_bias
    )
    vocabularies = Tokenizers.of(source, target)
    weights = random_weights(model, vocabularies)
    new = weights_of_vocabulary(weights, vocabularies, vocabularies)
    assert weights.keys() == new.keys()
    assert all(torch.equal(weight, new[name]) for name, weight in weights.items())


@pytest.mark.parametrize("tied", ["none", "target", "all"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_every_matrix_of_a_vocabulary_gets_the_rows_of_its_side(tied, has_bias):
    model = ModelSettings(
        d_model=WIDTH, d_ff=4, heads=1, encoder_layers=1, decoder_layers=1, tied=tied, output_bias=has_bias
    )
    texts = "ab abc", "cb ac bb", "a abc abcd", "dd bd a"
    made = [Tokenizer.train([text] * 3, "word", TokenizerSettings(), 60) for text in texts]
    is_joint = tied == "all"
    parent, child = (Tokenizers(p, p if is_joint else q) for p, q in (made[:2], made[2:]))
    old = random_weights(model, parent)
    new = weights_of_vocabulary(old, parent, child)
    built = build_model(model, len(child.source), len(child.target))
    load_weights(built, new, Path("model.safetensors"))  # raises for names and shapes that do not fit
    sides = {"source_embedding.weight": "source"}
    for name in {"source_embedding.weight", "target_embedding.weight", "output.weight", "output_bias"} & {
        *old
    }:
        tokenizers_of_side = [getattr(pair, sides.get(name, "target")) for pair in (parent, child)]
        assert torch.equal(new[name], mean_rows(old[name], parent_tokens(*tokenizers_of_side)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Text with a letter that the parent does not know."""
    folder = tmp_path_factory.mktemp("child")
    for name, lines, seed in (("new", 60, 5), ("valid", 6, 6)):
        write_copies(folder, name, lines, seed)
        for side in ("source", "target"):
            path = folder / f"{name}.{side}"
            path.write_text(path.read_text().replace("E", "É"))
    return folder


def child(trained, folder, out, *more):
    files = [f"{folder}/{name}.{side}" for name in ("new", "valid") for side in ("source", "target")]
    return [
        *("train", *files[:2], "--valid-source", files[2], "--valid-target", files[3], "--out", out),
        *("--initial-model", trained / "run", "--updates", 2, "--source-tokens-per-batch", 300, *more),
    ]


def test_a_child_has_a_vocabulary_of_its_own_and_the_weights_of_its_parent(
    trained, folder, tmp_path, command_line
):
    status, _, err = command_line(
        *child(
            trained,
            folder,
            tmp_path / "run",
            "--new-vocabulary",
            "--freeze",
            "encoder",
            "decoder",
            *LANGUAGES,
        )
    )
    assert status == 0, err
    assert "its settings are kept, and the embeddings of" in err
    translator, before = (Translator.load(run) for run in (tmp_path / "run", trained / "run"))
    assert "É" in "".join(pieces_of(translator.tokenizers.target))
    assert "É" not in "".join(pieces_of(before.tokenizers.target))
    parent, weights = (
        load_file(run / "model" / "model.safetensors") for run in (trained / "run", tmp_path / "run")
    )
    inner = {name for name in parent if name.startswith(("encoder", "decoder"))}
    assert inner
    assert all(torch.equal(weights[name], parent[name]) for name in inner)
    assert command_line("resume", tmp_path / "run")[0] == 0
    for is_new, languages in ((None, Languages("en", "de")), (True, Languages())):  # it is a parent itself
        adaptation = AdaptationSettings(initial_model=tmp_path / "run", new_vocabulary=is_new)
        assert with_languages_of_initial_model(Recipe(adaptation=adaptation)).data.languages == languages


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--new-vocabulary", "--lora-rank", 2], "--new-vocabulary and --lora-rank exclude each other"),
        (["--new-vocabulary", "--replay", "a", "b"], "--new-vocabulary and --replay exclude each other"),
        (["--new-vocabulary", "--no-share-vocabulary"], "--share-vocabulary is False"),
        (["--vocabulary", 31], "--vocabulary is 31, and the initial model in"),
        (["--new-vocabulary", "--vocabulary", 6], "is too small"),
    ],
)
def test_what_does_not_suit_a_new_vocabulary_is_refused(trained, folder, tmp_path, command_line, more, words):
    status, _, err = command_line(*child(trained, folder, tmp_path / "run", *more))
    assert (status, words in err) == (2, True), err


def test_a_new_vocabulary_needs_a_parent(folder, tmp_path, command_line):
    files = [folder / "new.source", folder / "new.target"]
    status, _, err = command_line("train", *files, "--new-vocabulary", "--out", tmp_path / "run")
    assert (status, "--new-vocabulary" in err, "--initial-model" in err) == (2, True, True), err
